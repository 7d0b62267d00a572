/* The book's interactive figures. No dependencies, no network, no animation.
 *
 * Python (lib/book/interactive.py) writes the controls, the data and a still figure; this script
 * shows the former instead of the latter, and computes what the numbers of lib compute. A widget
 * that fails to start keeps its still figure.
 */
(function () {
  "use strict";

  // ------------------------------------------------------------------ special functions

  const LANCZOS = [
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
    -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
    1.5056327351493116e-7,
  ];

  function logGamma(x) { // x >= 0.5
    let sum = LANCZOS[0];
    for (let i = 1; i < 9; i++) sum += LANCZOS[i] / (x - 1 + i);
    const t = x + 6.5;
    return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(sum);
  }

  /* Regularised incomplete beta function at x; y = 1 - x is given, too, for precision near 1. */
  function incompleteBeta(a, b, x, y) {
    if (x <= 0) return 0;
    if (y <= 0) return 1;
    if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(b, a, y, x);
    const logX = x < 0.5 ? Math.log(x) : Math.log1p(-y);
    const logY = y < 0.5 ? Math.log(y) : Math.log1p(-x);
    const scale = logGamma(a + b) - logGamma(a) - logGamma(b);
    const front = Math.exp(a * logX + b * logY + scale) / a;
    const away = (v) => (Math.abs(v) < 1e-300 ? 1e-300 : v);
    let c = 1, d = 1 / away(1 - ((a + b) * x) / (a + 1)), value = d; // Lentz's algorithm
    for (let m = 1; m < 5000; m++) {
      const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
      d = 1 / away(1 + even * d);
      c = away(1 + even / c);
      value *= c * d;
      const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
      d = 1 / away(1 + odd * d);
      c = away(1 + odd / c);
      value *= c * d;
      if (Math.abs(c * d - 1) < 1e-15) break;
    }
    return front * value;
  }

  function studentCdf(t, dof) {
    const square = t * t, tail = incompleteBeta(dof / 2, 0.5, dof / (dof + square), square / (dof + square)) / 2;
    return t <= 0 ? tail : 1 - tail;
  }

  /* Where a monotone `f` changes from true to false, between `low` and `high`. */
  function bisect(f, low, high) {
    for (let i = 0; i < 100 && high - low > 1e-12 * (1 + Math.abs(low)); i++) {
      const middle = (low + high) / 2;
      if (f(middle)) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  }

  function studentQuantile(p, dof) {
    let reach = 1;
    while (studentCdf(-reach, dof) > p || studentCdf(reach, dof) < p) reach *= 2;
    return bisect((t) => studentCdf(t, dof) < p, -reach, reach);
  }

  // ------------------------------------------------------------------ drawing

  const NS = "http://www.w3.org/2000/svg";

  function make(parent, name, attributes, text) {
    const node = document.createElementNS(NS, name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    parent.appendChild(node);
    return node;
  }

  function ticks(low, high, most) {
    const rough = (high - low) / most;
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * (1 - 1e-9));
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
    return found.map((value) => [value, value.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)))]);
  }

  /* A plotting area of an SVG, in CSS pixels. */
  class Plot {
    constructor(svg, box, x, y) {
      Object.assign(this, { svg, box, x, y });
    }
    X(v) {
      const [low, high] = this.x, { left, right } = this.box;
      return left + ((Math.min(Math.max(v, low), high) - low) / (high - low)) * (right - left);
    }
    Y(v) {
      const [low, high] = this.y, { top, bottom } = this.box;
      return bottom - ((Math.min(Math.max(v, low), high) - low) / (high - low)) * (bottom - top);
    }
    text(x, y, text, kind, anchor) {
      return make(this.svg, "text", { x, y, class: kind || "tick", "text-anchor": anchor || "middle" }, text);
    }
    axes(xlabel, ylabel) {
      const { left, right, top, bottom } = this.box;
      for (const [value, text] of ticks(this.x[0], this.x[1], right - left < 330 ? 5 : 8)) {
        make(this.svg, "line", { x1: this.X(value), x2: this.X(value), y1: bottom, y2: bottom + 5, class: "axis" });
        this.text(this.X(value), bottom + 18, text);
      }
      make(this.svg, "line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" });
      this.text((left + right) / 2, bottom + 37, xlabel, "label");
      if (ylabel) {
        const middle = (top + bottom) / 2;
        this.text(13, middle, ylabel, "label").setAttribute("transform", `rotate(-90 13 ${middle})`);
      }
    }
    path(points, kind, close) {
      const d = points.map(([x, y], i) => `${i ? "L" : "M"}${this.X(x).toFixed(2)} ${this.Y(y).toFixed(2)}`);
      make(this.svg, "path", { d: d.join("") + (close ? "Z" : ""), class: kind });
    }
    bar(x1, x2, y1, y2, kind) {
      const left = this.X(x1), top = this.Y(y2);
      make(this.svg, "rect", { x: left, y: top, width: Math.max(0, this.X(x2) - left), height: Math.max(0, this.Y(y1) - top), class: kind });
    }
    /* An interval with end marks (none where it is open) and its estimate. */
    interval(y, low, high, value, kind, open) {
      this.path([[low, y], [high, y]], `${kind} thick`);
      const at = this.Y(y);
      for (const end of open ? [high] : [low, high]) {
        make(this.svg, "line", { x1: this.X(end), x2: this.X(end), y1: at - 7, y2: at + 7, class: `${kind} thick` });
      }
      if (value !== null) make(this.svg, "circle", { cx: this.X(value), cy: at, r: 5, class: `${kind}-dot` });
    }
  }

  /* A row of line samples with their names, above a plot. */
  function legend(svg, x, y, entries) {
    for (const [kind, text] of entries) {
      make(svg, "line", { x1: x, x2: x + 22, y1: y - 4, y2: y - 4, class: kind });
      const node = make(svg, "text", { x: x + 27, y, class: "tick", "text-anchor": "start" }, text);
      x += 27 + node.getComputedTextLength() + 16;
    }
  }

  function canvas(svg, width, height) {
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
  }

  const fixed = (value, digits) => [value, value.toFixed(digits)];

  // ------------------------------------------------------------------ the posterior of epsilon

  // Gauss-Legendre nodes and weights on [-1, 1].
  const NODES = [-0.906179845938664, -0.5384693101056831, 0, 0.5384693101056831, 0.906179845938664];
  const WEIGHTS = [0.23692688505618908, 0.47862867049936647, 0.5688888888888889, 0.47862867049936647, 0.23692688505618908];

  function integrate(f, low, high, panels) {
    const half = (high - low) / (2 * panels);
    let sum = 0;
    for (let k = 0; k < panels; k++) {
      const middle = low + (2 * k + 1) * half;
      for (let i = 0; i < 5; i++) sum += WEIGHTS[i] * f(middle + half * NODES[i]);
    }
    return sum * half;
  }

  const angle = (x) => Math.asin(Math.sqrt(Math.min(1, Math.max(0, x))));

  /* theta for x = sin(theta)^2 ~ Beta(a, b), a and b at least 1/2: its density is smooth even where
   * that of x is infinite. The distribution function is tabulated, with its slopes. */
  class Angle {
    constructor(a, b) {
      this.p = 2 * a - 1;
      this.q = 2 * b - 1;
      const mode = Math.atan2(Math.sqrt(this.p), Math.sqrt(this.q));
      const reach = 9 / Math.sqrt(this.p + this.q), cells = 400;
      this.peak = 0;
      this.peak = this.log(mode);
      this.low = Math.max(0, mode - reach);
      this.high = Math.min(Math.PI / 2, mode + reach);
      this.step = (this.high - this.low) / cells;
      this.total = 1;
      const at = [0], raw = (t) => this.density(t);
      for (let k = 0; k < cells; k++) {
        at.push(at[k] + integrate(raw, this.low + k * this.step, this.low + (k + 1) * this.step, 1));
      }
      this.total = at[cells];
      this.at = at.map((v) => v / this.total);
      // Rounding must not lead beyond pi / 2, where the cosine is negative.
      this.slope = at.map((_, k) => this.density(Math.min(this.high, this.low + k * this.step)) * this.step);
    }
    log(t) { // 0 log 0 = 0
      return (this.p && this.p * Math.log(Math.sin(t))) + (this.q && this.q * Math.log(Math.cos(t))) - this.peak;
    }
    density(t) {
      return Math.exp(this.log(t)) / this.total;
    }
    cdf(t) {
      if (t <= this.low) return 0;
      if (t >= this.high) return 1;
      const place = (t - this.low) / this.step, k = Math.min(Math.floor(place), this.at.length - 2);
      const s = place - k, r = 1 - s;
      return r * r * ((1 + 2 * s) * this.at[k] + s * this.slope[k]) +
        s * s * ((3 - 2 * s) * this.at[k + 1] - r * this.slope[k + 1]);
    }
  }

  /* Probability of x < c and y < end - e^epsilon x, c being where the region's corner lies. */
  function besideCorner(x, y, end, shrink, corner) {
    const from = angle((end - Math.sin(y.high) ** 2) * shrink); // before it y is surely below
    const low = Math.min(Math.max(x.low, from), corner);
    const high = Math.min(x.high, corner, angle((end - Math.sin(y.low) ** 2) * shrink));
    const sure = x.cdf(low);
    if (high <= low) return sure;
    return sure + integrate((t) => x.density(t) * y.cdf(angle(end - Math.sin(t) ** 2 / shrink)), low, high, 24);
  }

  /* The mass outside of the privacy region of epsilon, on both of its sides. */
  function posterior(tp, fp, tn, fn, delta) {
    const pairs = [
      [new Angle(fn + 0.5, tp + 0.5), new Angle(fp + 0.5, tn + 0.5)],
      [new Angle(tp + 0.5, fn + 0.5), new Angle(tn + 0.5, fp + 0.5)],
    ];
    const end = 1 - delta;
    const beyond = (epsilon) => {
      const shrink = Math.exp(-epsilon), corner = angle((end * shrink) / (1 + shrink));
      let mass = 0;
      for (const [x, y] of pairs) {
        mass += besideCorner(x, y, end, shrink, corner) + besideCorner(y, x, end, shrink, corner);
        mass -= x.cdf(corner) * y.cdf(corner); // counted on both sides of the corner
      }
      return Math.min(1, Math.max(0, mass));
    };
    const quantile = (tail) => {
      if (beyond(0) <= tail) return 0;
      let high = 1;
      while (beyond(high) > tail) high *= 2;
      return bisect((e) => beyond(e) > tail, 0, high);
    };
    return { beyond, quantile };
  }

  function epsilonPosterior(data) {
    const percent = `${+(100 * data.level).toPrecision(6)}%`;
    return function (svg, set, width) {
      for (const name of ["tp", "fp", "tn", "fn"]) {
        if (!(Number.isInteger(set[name]) && set[name] >= 0 && set[name] <= data.most)) {
          return { error: `${name.toUpperCase()} must be a whole number from 0 to ${data.most}.`, wrong: [name] };
        }
      }
      if (!(set.tp + set.fn)) return { error: "TP + FN must be at least 1: there are no positive trials.", wrong: ["tp", "fn"] };
      if (!(set.fp + set.tn)) return { error: "FP + TN must be at least 1: there are no negative trials.", wrong: ["fp", "tn"] };
      const tail = (1 - data.level) / 2, { beyond, quantile } = posterior(set.tp, set.fp, set.tn, set.fn, data.delta);
      const low = quantile(1 - tail), middle = quantile(0.5), high = quantile(tail), zero = 1 - beyond(0);
      const right = Math.max(0.5, 1.15 * quantile(tail / 10)), cells = 150, masses = [];
      for (let k = 0; k <= cells; k++) masses.push(beyond((right * k) / cells));
      const density = [];
      for (let k = 0; k < cells; k++) {
        density.push([(right * (k + 0.5)) / cells, ((masses[k] - masses[k + 1]) * cells) / right]);
      }
      const top = Math.max(...density.map(([, y]) => y)) * 1.05;
      canvas(svg, width, 320);
      const plot = new Plot(svg, { left: 52, right: width - 12, top: 30, bottom: 272 }, [0, right], [-0.12 * top, top]);
      const inside = density.filter(([e]) => e >= low && e <= high);
      if (inside.length > 1) {
        plot.path([[inside[0][0], 0], ...inside, [inside[inside.length - 1][0], 0]], "b-fill", true);
      }
      plot.axes("epsilon", "posterior density");
      plot.path([[0, 0], [right, 0]], "grid");
      plot.path(density, "b");
      plot.interval(-0.06 * top, low, high, middle, "line");
      legend(svg, 52, 17, [["b", "density"], ["line thick", `${percent} interval, median`]]);
      return {
        outputs: {},
        numbers: { low: fixed(low, 3), high: fixed(high, 3), median: fixed(middle, 3), zero: fixed(zero, 3) },
        text: `${percent} interval for epsilon: from ${low.toFixed(3)} to ${high.toFixed(3)}, median ${middle.toFixed(3)}.`,
      };
    };
  }

  // ------------------------------------------------------------------ suitability

  /* Welch's non-inferiority test from means, variances and sizes, as lib.suitability has it. */
  function welch(test, user, margin) {
    // A variance that is nothing but the rounding of the mean of equal numbers counts as 0.
    const [a, b] = [test, user].map(([mean, variance, n]) => (variance <= (1e-12 * mean) ** 2 ? 0 : variance / n));
    let drop = test[0] - (user[0] + margin);
    const error = Math.sqrt(a + b);
    if (error === 0) {
      if (Math.abs(drop) <= 1e-12 * (Math.abs(test[0]) + Math.abs(user[0]) + Math.abs(margin))) drop = 0;
      return { p: drop < 0 ? 0 : drop > 0 ? 1 : 0.5, error, dof: NaN };
    }
    const share = a / (a + b);
    const dof = 1 / (share ** 2 / (test[2] - 1) + (1 - share) ** 2 / (user[2] - 1));
    return { p: studentCdf(drop / error, dof), error, dof };
  }

  function suitability(data) {
    return function (svg, set, width) {
      const fold = data.folds[set.fold], { p, error, dof } = welch(fold.test, fold.user, set.margin);
      const drop = fold.test[0] - fold.user[0];
      const required = error > 0 ? drop - studentQuantile(set.alpha, dof) * error : drop;
      const suitable = p <= set.alpha, word = suitable ? "SUITABLE" : "INCONCLUSIVE";
      const values = [0, set.margin, drop, required, data.span[0], data.span[1], fold.true_drop];
      const low = Math.min(...values), high = Math.max(...values), pad = 0.05 * (high - low);
      canvas(svg, width, 200);
      const plot = new Plot(svg, { left: 12, right: width - 12, top: 52, bottom: 150 }, [low - pad, high + pad], [0, 1]);
      plot.bar(low - pad, set.margin, 0, 1, "c-fill");
      plot.axes("drop in accuracy, test minus user");
      plot.path([[set.margin, 0], [set.margin, 1]], "c");
      plot.interval(0.65, low - pad, required, drop, "a", true);
      const x = plot.X(fold.true_drop), y = plot.Y(0.25);
      make(svg, "path", { d: `M${x} ${y - 7}L${x + 7} ${y}L${x} ${y + 7}L${x - 7} ${y}Z`, class: "b-dot" });
      legend(svg, 12, 17, [["a thick", "estimated drop and its upper limit"]]);
      legend(svg, 12, 39, [["c", "margin"], ["b thick", "true drop (diamond)"]]);
      return {
        outputs: { margin: set.margin.toFixed(3), alpha: set.alpha.toFixed(3) },
        numbers: { decision: [suitable ? 1 : 0, word], p_value: [p, p < 1e-4 ? p.toExponential(2) : p.toFixed(4)], required: fixed(required, 4), drop: fixed(drop, 4) },
        text: `${fold.label}: ${word}, p = ${p < 1e-4 ? p.toExponential(1) : p.toFixed(4)} at alpha ${set.alpha.toFixed(3)} and margin ` +
          `${set.margin.toFixed(3)}; SUITABLE from a margin of ${required.toFixed(4)} on. ` +
          `In truth the accuracy drops by ${fold.true_drop.toFixed(4)}.`,
      };
    };
  }

  // ------------------------------------------------------------------ the page

  const WIDGETS = {
    "epsilon-posterior": epsilonPosterior,
    "suitability-decision": suitability,
  };

  function start(root) {
    const find = (selector) => root.querySelector(selector);
    const live = find(".companion-live"), still = find(".companion-still"), svg = find("svg"), status = find("[role=status]");
    const draw = WIDGETS[root.dataset.widget](JSON.parse(find("script[type='application/json']").textContent));
    const controls = [...root.querySelectorAll("[data-control]")];
    const mirrors = [...root.querySelectorAll("[data-mirror]")];
    const named = (list, key, name) => list.find((control) => control.dataset[key] === name);
    let timer;

    function say(text) { // once a movement ends, not at every step of it
      clearTimeout(timer);
      timer = setTimeout(() => { status.textContent = text; }, 200);
    }

    function refresh() {
      const set = {};
      for (const control of controls) {
        set[control.dataset.control] = control.tagName === "SELECT" ? control.selectedIndex : control.valueAsNumber;
        control.removeAttribute("aria-invalid");
      }
      const found = draw(svg, set, Math.max(240, Math.min(560, live.clientWidth)));
      for (const shown of root.querySelectorAll("[data-shown]")) {
        const [value, text] = found.error ? ["", "–"] : found.numbers[shown.dataset.shown];
        shown.value = String(value);
        shown.textContent = text;
      }
      if (found.error) { // nothing stale: neither numbers nor a figure
        svg.replaceChildren();
        for (const name of found.wrong) named(controls, "control", name).setAttribute("aria-invalid", "true");
        say(found.error);
        return;
      }
      for (const name in found.outputs) {
        const control = named(controls, "control", name);
        control.setAttribute("aria-valuetext", found.outputs[name]);
        find(`output[for='${control.id}']`).value = found.outputs[name];
      }
      say(found.text);
    }

    for (const control of controls) {
      control.addEventListener("input", () => {
        const mirror = named(mirrors, "mirror", control.dataset.control);
        if (mirror && control.value !== "") mirror.value = control.value;
        refresh();
      });
    }
    for (const mirror of mirrors) {
      mirror.addEventListener("input", () => {
        named(controls, "control", mirror.dataset.mirror).value = mirror.value;
        refresh();
      });
    }
    live.hidden = false;
    still.hidden = true;
    try {
      refresh();
      let width = live.clientWidth;
      new ResizeObserver(() => {
        if (live.clientWidth !== width) {
          width = live.clientWidth;
          refresh();
        }
      }).observe(live);
    } catch (error) {
      live.hidden = true;
      still.hidden = false;
      throw error;
    }
  }

  function startAll() {
    for (const root of document.querySelectorAll(".companion-widget[data-widget]")) {
      try {
        start(root);
      } catch (error) { // the others shall work all the same
        setTimeout(() => { throw error; });
      }
    }
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", startAll);
  else startAll();
})();

"""Interactive figures: their HTML, and in headless Chromium the numbers that they show.

The page is a small one of its own, not the book.
"""

import itertools
import math
import re
import shutil
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import numpy as np
import pytest
from scipy import stats
from site_tools import NEEDS_CHROMIUM

import lib
from lib import audit, selective, suitability
from lib.book import interactive
from lib.counterfactual import PositivityWarning, counterfactual_difference
from lib.studies.counterfactual import simulation

STATIC = Path(lib.__file__).parent / "book" / "static"

POINTS, SEED = 300, 5


@pytest.fixture(scope="module")
def model():
    """Predictions whose scores have ties, and infinite ones."""
    rng = np.random.default_rng(1)
    correct = rng.random(350) < 0.8
    score = (rng.normal(size=350) + correct).round(1)
    score[:3] = math.inf
    return correct, score


@pytest.fixture(scope="module")
def folds():
    rng = np.random.default_rng(2)
    test = rng.beta(8, 2, 900)
    return {
        "region <A>": (test, rng.beta(8, 2.2, 700), 0.031),
        "year 2017": (test, rng.beta(8, 2, 40000), -0.002),
        "few": (test[:5], rng.beta(8, 2, 4), 0.1),
    }


@pytest.fixture(scope="module")
def widgets(model, folds):
    return {
        "bound-and-score": interactive.bound_and_score({"a model": model}),
        "epsilon-posterior": interactive.epsilon_posterior(
            audit.AttackCounts(tp=65, fp=25, tn=75, fn=35), 0.05
        ),
        "suitability-decision": interactive.suitability_decision(folds, 0.02, 0.05),
        "positivity": interactive.positivity(POINTS, "linear", seed=SEED),
    }


KINDS = ("bound-and-score", "epsilon-posterior", "suitability-decision", "positivity")

# ---------------------------------------------------------------------- HTML


class Reader(HTMLParser):
    """Elements with their attributes; every one must be closed, in the right order."""

    VOID = frozenset({"img", "input"})

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.texts = [], [], {}
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), (tag, names)
        self.elements.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.setdefault(self.open[-1], []).append(data)

    def all(self, *tags):
        return [attributes for tag, attributes in self.elements if tag in tags]


@pytest.mark.parametrize("kind", KINDS)
def test_html_is_well_formed_and_labelled(widgets, kind):
    text = widgets[kind].html("chapter")
    assert len(text.encode()) < 100_000
    page = Reader(text)
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    labelled = [a["for"] for a in page.all("label")]
    assert sorted(labelled) == sorted(a["id"] for a in page.all("input", "select") if "id" in a)
    assert all(text.strip() for text in page.texts["label"])
    for each in page.all("input", "select"):
        assert each.get("id") in labelled or each["aria-labelledby"] in ids
    assert all(a["for"] in labelled for a in page.all("output"))
    (image,) = page.all("img")
    assert image["src"].startswith("data:image/svg+xml;base64,")
    assert len(image["alt"]) > 40
    (svg,) = page.all("svg")
    assert svg["role"] == "img"
    assert len(svg["aria-label"]) > 40
    status = [a for a in page.all("p") if a.get("role") == "status"]
    assert [a["aria-live"] for a in status] == ["polite"]
    # The still figure is what is seen until the script says otherwise.
    hidden = [a.get("class") for _, a in page.elements if "hidden" in a]
    assert hidden == ["companion-live"]
    assert page.all("script") == [{"type": "application/json"}]
    # A figure's caption is its last child.
    assert text.endswith("</figcaption></figure>")


def test_still_figures_are_drawings_and_the_same_each_time(widgets, folds):
    for widget in widgets.values():
        assert widget.still.startswith(b"<?xml")
        assert widget.still.rstrip().endswith(b"</svg>")
    again = interactive.suitability_decision(folds, 0.02, 0.05)
    assert again.html("x") == widgets["suitability-decision"].html("x")


def test_markup_in_names_is_text(widgets):
    text = widgets["suitability-decision"].html("chapter")
    assert "region <A>" not in text
    assert "<option>region &lt;A&gt;</option>" in text
    assert "region \\u003cA>" in text


def test_still_captions_have_the_numbers_of_lib(widgets):
    low, high = audit.epsilon_interval(audit.AttackCounts(65, 25, 75, 35), 0.05, 0.95)
    assert f"from {low:.3f} to {high:.3f}" in widgets["epsilon-posterior"].still_caption
    random, worst = selective.normalized_score_extremes(320, 400)
    caption = widgets["bound-and-score"].still_caption
    assert f"perfect 0.0000, random {random:.4f}, worst {worst:.4f}" in caption


def test_quantiles_give_back_the_model(model):
    """At the model's own accuracy and size the points have the model's score, ties and all."""
    correct, score = model
    (order,) = interactive.bound_and_score({"m": model}).data["orders"][:1]
    points = interactive.order_scores(
        order["right"], order["wrong"], int(correct.sum()), len(correct)
    )
    assert points[0].sum() == correct.sum()
    ours, theirs = selective.normalized_score(*points), selective.normalized_score(correct, score)
    assert ours == pytest.approx(theirs, abs=1e-12)


def test_a_model_that_is_always_right_is_refused():
    with pytest.raises(ValueError, match=r"models\['m'\] must have both right and wrong"):
        interactive.bound_and_score({"m": ([1, 1], [0.1, 0.2])})


def test_the_script_is_small_and_asks_nobody():
    script = (STATIC / "widgets.js").read_text(encoding="utf-8")
    assert len(script.encode()) < 40_000
    for word in ("fetch(", "XMLHttpRequest", "import(", "eval(", "innerHTML"):
        assert word not in script
    style = (STATIC / "widgets.css").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"'\s]+", script + style)) == {"http://www.w3.org/2000/svg"}


# ---------------------------------------------------------------------- browser


def write_page(folder, body):
    for name in ("widgets.js", "widgets.css", "companion.css"):
        shutil.copy(STATIC / name, folder / name)
    page = folder / "index.html"
    page.write_text(
        "<!doctype html><html lang='en' data-theme='light'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'><title>t</title>"
        "<link rel='icon' href='data:,'><link rel='stylesheet' href='companion.css'>"
        "<link rel='stylesheet' href='widgets.css'><script defer src='widgets.js'></script>"
        f"</head><body><main>{body}</main></body></html>",
        encoding="utf-8",
    )
    return page.as_uri()


@pytest.fixture(scope="module")
def address(widgets, tmp_path_factory):
    perfect = interactive.epsilon_posterior(audit.AttackCounts(1000, 0, 1000, 0), 1e-5, 0.9)
    body = "".join(widget.html("page") for widget in widgets.values()) + perfect.html("second")
    return write_page(tmp_path_factory.mktemp("widgets"), body)


def visit(browser, address, width=1280, **options):
    """A page with a list of what it got wrong: errors, and hosts that it asked."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    page = context.new_page()
    page.faults = []
    page.on("pageerror", lambda e: page.faults.append(str(e)))
    page.on(
        "console", lambda m: page.faults.append(m.text) if m.type in ("error", "warning") else None
    )

    def guard(route):
        if urlsplit(route.request.url).scheme in ("http", "https", "ws", "wss"):
            page.faults.append(route.request.url)
            return route.abort()
        return route.continue_()

    page.route("**/*", guard)
    page.goto(address)
    return page


@pytest.fixture(scope="module")
def page(browser, address):
    page = visit(browser, address)
    yield page
    assert page.faults == []
    page.context.close()


SET = """([id, values]) => {
  const root = document.getElementById(id);
  for (const [name, value] of Object.entries(values)) {
    const control = root.querySelector(`[data-control=${name}]`);
    if (control.tagName === "SELECT") control.selectedIndex = value; else control.value = value;
    control.dispatchEvent(new Event("input", {bubbles: true}));
  }
  const shown = {};
  for (const item of root.querySelectorAll("[data-shown]")) {
    shown[item.dataset.shown] = [item.value === "" ? null : Number(item.value), item.textContent];
  }
  return shown;
}"""

# What the drawing says: its circles, end marks and curves in the units of its axes, which are read
# from the tick labels.
DRAWN = """id => {
  const svg = document.getElementById(id).querySelector("svg");
  const number = (node, name) => Number(node.getAttribute(name));
  const scale = (anchor, name) => {
    const ticks = [...svg.querySelectorAll("text.tick")].filter(
      t => t.getAttribute("text-anchor") === anchor && t.textContent.trim() !== ""
        && !isNaN(t.textContent));
    const last = Math.max(...ticks.map(t => number(t, "y")));
    const own = anchor === "middle" ? ticks.filter(t => number(t, "y") === last) : ticks;
    if (own.length < 2) return null;
    const [a, b] = [own[0], own[own.length - 1]];
    const shift = name === "y" ? 4 : 0;
    const rise = Number(b.textContent) - Number(a.textContent);
    const slope = rise / (number(b, name) - number(a, name));
    return v => Number(a.textContent) + (v - number(a, name) + shift) * slope;
  };
  const X = scale("middle", "x"), Y = scale("end", "y") || (v => v);
  const points = kind => [...svg.querySelectorAll(`path[class='${kind}']`)].map(
    p => [...p.getAttribute("d").matchAll(/[ML]([-\\d.]+) ([-\\d.]+)/g)].map(
      m => [X(Number(m[1])), Y(Number(m[2]))]));
  return {
    circles: [...svg.querySelectorAll("circle")].map(c => X(number(c, "cx"))),
    marks: [...svg.querySelectorAll("line.thick")].filter(
      l => l.getAttribute("x1") === l.getAttribute("x2")).map(l => X(number(l, "x1"))),
    a: points("a"), c: points("c"),
    bars: ["a-bar", "b-bar"].map(kind => [...svg.querySelectorAll(`rect[class='${kind}']`)]
      .filter(r => number(r, "width") !== 20).map(r => number(r, "height"))),
  };
}"""


def show(page, kind, where="page", **values):
    """Move controls by value; return the numbers shown, exact and as text."""
    return page.evaluate(SET, [f"widget-{where}-{kind}", values])


def drawn(page, kind, where="page"):
    return page.evaluate(DRAWN, f"widget-{where}-{kind}")


def agree(shown, expected, tolerance, digits):
    """Values to a tolerance, and their texts rounded to as many digits."""
    for name, value in expected.items():
        exact, text = shown[name]
        assert exact == pytest.approx(value, abs=tolerance), name
        assert float(text) == pytest.approx(value, abs=0.5 * 10**-digits + tolerance + 1e-12), name
        assert len(text.partition(".")[2]) == digits, name


def points_at(widgets, accuracy, order):
    data = widgets["bound-and-score"].data
    tables = data["orders"][order]
    count = round(accuracy * data["n"])
    return interactive.order_scores(tables["right"], tables["wrong"], count, data["n"])


def score_of(widgets, accuracy, order):
    correct, score = points_at(widgets, accuracy, order)
    random, _ = selective.normalized_score_extremes(int(correct.sum()), len(correct))
    return {
        "score": selective.normalized_score(correct, score),
        "bound_area": float(selective.bound_area(accuracy)),
        "curve_area": selective.selective_auc(correct, score),
        "random": random,
    }


class TestBrowser:
    pytestmark: ClassVar = [pytest.mark.browser, pytest.mark.slow, NEEDS_CHROMIUM]

    def test_bound_and_score(self, page, widgets):
        orders = range(len(widgets["bound-and-score"].data["orders"]))
        assert len(orders) == 6
        for accuracy, order in itertools.product((0.05, 0.29, 0.5, 0.57, 0.8, 0.99), orders):
            shown = show(page, "bound-and-score", accuracy=accuracy, order=order)
            agree(shown, score_of(widgets, accuracy, order), 1e-9, 4)

    def test_curve_is_drawn_where_it_is(self, page, widgets):
        for accuracy, order in ((0.6, 0), (0.9, 1), (0.7, 5)):
            show(page, "bound-and-score", accuracy=accuracy, order=order)
            (curve,) = drawn(page, "bound-and-score")["a"]
            expected = selective.accuracy_coverage(*points_at(widgets, accuracy, order))
            xy = np.column_stack([expected.coverage, expected.accuracy])
            np.testing.assert_allclose(np.array(curve), xy, atol=5e-4)

    @pytest.mark.parametrize(
        ("where", "delta", "level"), [("page", 0.05, 0.95), ("second", 1e-5, 0.9)]
    )
    def test_epsilon_posterior(self, page, where, delta, level):
        table = [
            (65, 25, 75, 35), (487, 512, 1, 0), (1000, 0, 1000, 0), (1, 1, 1, 1), (1, 0, 1, 0),
            (0, 1, 0, 1), (1000, 1000, 1000, 1000), (90, 0, 100, 10), (0, 1000, 0, 1000),
            (500, 500, 500, 500), (1000, 0, 500, 500), (999, 1, 3, 7), (3, 1000, 2, 0),
            (700, 300, 650, 350), (20, 1, 300, 900), (0, 0, 1, 1),
        ]  # fmt: skip
        for tp, fp, tn, fn in table:
            shown = show(page, "epsilon-posterior", where, tp=tp, fp=fp, tn=tn, fn=fn)
            counts = audit.AttackCounts(tp, fp, tn, fn)
            low, high = audit.epsilon_interval(counts, delta, level)
            posterior = audit.epsilon_posterior(counts, delta)
            expected = {
                "low": low,
                "high": high,
                "median": float(posterior.ppf(0.5)),
                "zero": posterior.mass_at_zero,
            }
            agree(shown, expected, 1e-4, 3)
            seen = drawn(page, "epsilon-posterior", where)
            assert seen["marks"] == pytest.approx([low, high], abs=0.006 * (1 + high))
            assert seen["circles"] == pytest.approx([expected["median"]], abs=0.006 * (1 + high))

    def test_counts_that_are_none(self, page):
        status = page.locator("#widget-page-epsilon-posterior [role=status]")
        for values, message in (
            ({"tp": ""}, "TP must be a whole number from 0 to 1000."),
            ({"tp": 1001}, "TP must be a whole number from 0 to 1000."),
            ({"tp": 1.5}, "TP must be a whole number from 0 to 1000."),
            ({"tp": 5, "fp": -1}, "FP must be a whole number from 0 to 1000."),
            ({"tp": 0, "fp": 1, "fn": 0, "tn": 3}, "TP + FN must be at least 1"),
            ({"tp": 2, "fp": 0, "fn": 0, "tn": 0}, "FP + TN must be at least 1"),
        ):
            shown = show(page, "epsilon-posterior", **values)
            assert set(map(tuple, shown.values())) == {(None, "–")}
            page.wait_for_timeout(250)
            assert status.inner_text().startswith(message)
            assert page.locator("#widget-page-epsilon-posterior svg *").count() == 0
            assert page.locator("[aria-invalid=true]").count() >= 1
        show(page, "epsilon-posterior", tp=65, fp=25, tn=75, fn=35)
        assert page.locator("[aria-invalid=true]").count() == 0
        page.wait_for_timeout(250)
        low, high = audit.epsilon_interval(audit.AttackCounts(65, 25, 75, 35), 0.05, 0.95)
        assert f"from {low:.3f} to {high:.3f}" in status.inner_text()

    def test_suitability(self, page, folds):
        for (i, given), margin, alpha in itertools.product(
            enumerate(folds.values()), (0, 0.013, 0.05, 0.1), (0.001, 0.05, 0.2)
        ):
            shown = show(page, "suitability-decision", fold=i, margin=margin, alpha=alpha)
            result = suitability.non_inferiority_test(given[0], given[1], margin)
            suitable = result.p_value <= alpha
            assert shown["decision"] == [suitable, "SUITABLE" if suitable else "INCONCLUSIVE"]
            assert shown["p_value"][0] == pytest.approx(result.p_value, abs=1e-9, rel=1e-6)
            drop = given[0].mean() - given[1].mean()
            agree(shown, {"drop": drop}, 1e-9, 4)
            required = shown["required"][0]
            if math.isfinite(result.dof):
                error = (given[0].var(ddof=1) / len(given[0])) + given[1].var(ddof=1) / len(
                    given[1]
                )
                limit = drop - stats.t.ppf(alpha, result.dof) * math.sqrt(error)
                agree(shown, {"required": limit}, 1e-8, 4)
            else:  # nothing is left to chance
                assert required == pytest.approx(drop, abs=1e-12)
            seen = drawn(page, "suitability-decision")
            assert seen["circles"] == pytest.approx([drop], abs=2e-3 * (1 + abs(required)))
            assert seen["marks"] == pytest.approx([required], abs=2e-3 * (1 + abs(required)))
            assert seen["c"][0][0][0] == pytest.approx(margin, abs=2e-3 * (1 + abs(required)))

    def test_positivity(self, page):
        truth = simulation.true_difference()
        assert len(interactive.POSITIVITY_LEVELS) == 15
        for i, level in enumerate(interactive.POSITIVITY_LEVELS):
            shown = show(page, "positivity", epsilon=i)
            drawn_data = simulation.simulate(POINTS, epsilon=level, rng=SEED)
            (a, b), (r, s) = drawn_data.scores, drawn_data.abstained
            found = {}
            for name in ("dr", "ipw"):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", PositivityWarning)
                    found[name] = counterfactual_difference(
                        drawn_data.X, a, r, b, s,
                        estimator=name, learner="linear", clip=level, rng=SEED,
                    )  # fmt: skip
            dr, ipw, facts = found["dr"], found["ipw"], found["dr"].diagnostics[0]
            expected = {"dr": dr.value, "dr_low": dr.interval[0], "dr_high": dr.interval[1]}
            expected |= {"ipw_low": ipw.interval[0], "ipw_high": ipw.interval[1]}
            agree(shown, expected, 1e-12, 4)
            assert shown["ess"][0] == pytest.approx(facts.effective_sample_size)
            assert shown["clipped"] == [facts.clipped, f"{facts.clipped:.1%}"]
            seen = drawn(page, "positivity")
            assert seen["circles"] == pytest.approx([dr.value, ipw.value], abs=3e-3)
            assert seen["marks"] == pytest.approx([*dr.interval, *ipw.interval], abs=3e-3)
            heights = np.array(seen["bars"])
            counts = np.array([facts.propensity_answered, facts.propensity_abstained])
            np.testing.assert_allclose(heights / heights.sum(), counts / POINTS, atol=1e-6)
            output = page.locator("#widget-page-positivity output").inner_text()
            assert float(output) == level
        text = page.locator("#widget-page-positivity svg").text_content()
        assert f"truth, {truth:.3f}" in text

    def test_everything_moves_by_keyboard(self, browser, address, widgets):
        page = visit(browser, address)
        asked = "#widget-page-{} [data-control={}]"

        def numbers(kind):
            return show(page, kind)

        page.focus(asked.format("bound-and-score", "accuracy"))
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        agree(numbers("bound-and-score"), score_of(widgets, 0.82, 0), 1e-9, 4)
        page.keyboard.press("Home")
        agree(numbers("bound-and-score"), score_of(widgets, 0.05, 0), 1e-9, 4)
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowDown")
        agree(numbers("bound-and-score"), score_of(widgets, 0.05, 1), 1e-9, 4)

        page.focus(asked.format("epsilon-posterior", "tp"))
        for key in ("ArrowUp", "Tab", "ArrowRight"):  # the number, then the slider below it
            page.keyboard.press(key)
        for name, value in (("fp", 10), ("tn", 90), ("fn", 33)):
            page.focus(asked.format("epsilon-posterior", name))
            page.keyboard.press("Control+a")
            page.keyboard.type(str(value))
        low, high = audit.epsilon_interval(audit.AttackCounts(67, 10, 90, 33), 0.05, 0.95)
        agree(numbers("epsilon-posterior"), {"low": low, "high": high}, 1e-4, 3)
        mirror = page.locator("#widget-page-epsilon-posterior [data-mirror=tn]")
        assert mirror.input_value() == "90"

        page.focus(asked.format("positivity", "epsilon"))
        page.keyboard.press("End")
        data = widgets["positivity"].data["levels"]
        assert numbers("positivity")["dr"][0] == data[-1]["dr"][0]
        page.keyboard.press("ArrowLeft")
        assert numbers("positivity")["dr"][0] == data[-2]["dr"][0]
        slider = page.locator(asked.format("positivity", "epsilon"))
        assert slider.get_attribute("aria-valuetext") == f"{data[-2]['epsilon']:g}"
        page.wait_for_timeout(250)
        status = page.locator("#widget-page-positivity [role=status]").inner_text()
        assert f"at least {data[-2]['epsilon']:g}" in status
        assert page.faults == []
        page.context.close()

    def test_phone(self, browser, address):
        page = visit(browser, address, width=360, has_touch=True, is_mobile=True)
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
        sizes = page.eval_on_selector_all(
            "input, select",
            "all => all.map(e => e.getBoundingClientRect()).map(r => Math.min(r.width, r.height))",
        )
        assert min(sizes) >= 24
        outside = page.eval_on_selector_all(
            ".companion-live svg *",
            """all => all.filter(e => {
              const box = e.getBoundingClientRect();
              const frame = e.ownerSVGElement.getBoundingClientRect();
              return box.left < frame.left - 1 || box.right > frame.right + 1;
            }).map(e => e.outerHTML)""",
        )
        assert outside == []
        small = page.eval_on_selector_all(
            ".companion-live svg text",
            "all => Math.min(...all.map(e => e.getBoundingClientRect().height))",
        )
        assert small >= 11  # the letters are not shrunk with the figure
        page.set_viewport_size({"width": 700, "height": 900})
        page.wait_for_timeout(100)
        wide = page.eval_on_selector_all(
            ".companion-live svg", "all => all.map(e => e.clientWidth)"
        )
        assert min(wide) > 400
        assert page.faults == []
        page.context.close()

    def test_scripts_off_shows_the_still_figure(self, browser, address):
        page = visit(browser, address, width=360, java_script_enabled=False)
        assert page.locator(".companion-still img:visible").count() == 5
        assert page.locator("figcaption:visible").count() == 5
        assert page.locator("input:visible, select:visible, .companion-live:visible").count() == 0
        boxes = [each.bounding_box() for each in page.locator(".companion-still img").all()]
        assert all(box["width"] <= 360 and box["height"] > 100 for box in boxes)
        page.context.close()

    def test_a_broken_widget_keeps_its_still_figure(self, browser, widgets, tmp_path):
        texts = [widgets[kind].html("page") for kind in ("bound-and-score", "positivity")]
        texts[0] = re.sub(r"(application/json'>).*?(</script>)", r"\1{broken\2", texts[0])
        page = visit(browser, write_page(tmp_path, "".join(texts)))
        page.wait_for_timeout(50)
        assert page.locator("#widget-page-bound-and-score img:visible").count() == 1
        assert page.locator("#widget-page-bound-and-score input:visible").count() == 0
        assert page.locator("#widget-page-positivity img:visible").count() == 0
        assert page.locator("#widget-page-positivity input:visible").count() == 1
        assert any("JSON" in fault for fault in page.faults)
        page.context.close()

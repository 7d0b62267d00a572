"""Interactive figures: their HTML, and in headless Chromium the numbers that they show.

The page is a small one of its own, not the book.
"""

import itertools
import math
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import numpy as np
import pytest
from scipy import stats
from site_tools import NEEDS_CHROMIUM

import lib
from lib import audit, suitability
from lib.book import interactive

STATIC = Path(lib.__file__).parent / "book" / "static"


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
def widgets(folds):
    return {
        "epsilon-posterior": interactive.epsilon_posterior(
            audit.AttackCounts(tp=65, fp=25, tn=75, fn=35), 0.05
        ),
        "suitability-decision": interactive.suitability_decision(folds, 0.02, 0.05),
    }


KINDS = ("epsilon-posterior", "suitability-decision")


def test_the_decision_opens_on_data_whose_verdict_turns_and_whose_estimates_hide_the_most():
    rng = np.random.default_rng(0)
    test, user = rng.beta(8, 2, 4000), rng.beta(7.8, 2.2, 4000)  # a drop of about 0.02
    given = {
        "suitable": (test, np.sqrt(test), 0.3),
        "honest": (test, user, 0.02),
        "hidden": (test, user, 0.1),
        "unsuitable": (test, user - 0.2, 0.4),
    }
    found = interactive.suitability_decision(given, 0.0, 0.05)
    (fold,) = [control for control in found.controls if control.name == "fold"]
    assert fold.options == ("hidden", "suitable", "honest", "unsuitable")
    only = {name: given[name] for name in ("unsuitable", "suitable")}
    none = interactive.suitability_decision(only, 0.05, 0.05)
    assert none.controls[0].options == ("unsuitable", "suitable")


# ---------------------------------------------------------------------- HTML


class Reader(HTMLParser):
    """Elements with their attributes, none twice."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes), (tag, attributes)
        self.elements.append((tag, dict(attributes)))

    def all(self, *tags):
        return [attributes for tag, attributes in self.elements if tag in tags]


@pytest.mark.parametrize("kind", KINDS)
def test_controls_have_labels_and_figures_words(widgets, kind):
    text = widgets[kind].html("chapter")
    assert len(text.encode()) < 100_000
    page = Reader(text)
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    labelled = [a["for"] for a in page.all("label")]
    assert sorted(labelled) == sorted(a["id"] for a in page.all("input", "select") if "id" in a)
    for each in page.all("input", "select"):
        assert each.get("id") in labelled or each["aria-labelledby"] in ids
    assert all(a["for"] in labelled for a in page.all("output"))
    (image,), (svg,) = page.all("img"), page.all("svg")
    assert min(len(image["alt"]), len(svg["aria-label"])) > 40
    status = [a for a in page.all("p") if a.get("role") == "status"]
    assert [a["aria-live"] for a in status] == ["polite"]
    # The still figure is what is seen until the script says otherwise.
    hidden = [a.get("class") for _, a in page.elements if "hidden" in a]
    assert hidden == ["companion-live"]
    assert page.all("script") == [{"type": "application/json"}]


def test_markup_in_names_is_text(widgets):
    text = widgets["suitability-decision"].html("chapter")
    assert "region <A>" not in text
    assert "<option>region &lt;A&gt;</option>" in text
    assert "region \\u003cA>" in text


def test_the_script_asks_nobody_and_runs_no_text():
    script = (STATIC / "widgets.js").read_text(encoding="utf-8")
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
    body = "".join(widget.html("page") for widget in widgets.values()) + perfect.html("perfect")
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
    c: points("c"),
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


class TestBrowser:
    pytestmark: ClassVar = [pytest.mark.browser, pytest.mark.slow, NEEDS_CHROMIUM]

    @pytest.mark.parametrize(
        ("where", "delta", "level"), [("page", 0.05, 0.95), ("perfect", 1e-5, 0.9)]
    )
    def test_epsilon_posterior(self, page, where, delta, level):
        table = [
            (65, 25, 75, 35), (487, 512, 1, 0), (1000, 0, 1000, 0), (1, 1, 1, 1), (1, 0, 1, 0),
            (0, 1, 0, 1), (1000, 1000, 1000, 1000), (90, 0, 100, 10), (0, 1000, 0, 1000),
            (500, 500, 500, 500), (1000, 0, 500, 500), (999, 1, 3, 7), (3, 1000, 2, 0),
            (700, 300, 650, 350), (20, 1, 300, 900), (0, 0, 1, 1), (487, 512, 0, 0),
        ]  # fmt: skip
        for tp, fp, tn, fn in table if where == "page" else table[:3] + table[11:16]:
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
        status = page.locator("#widget-page-epsilon-posterior").get_by_role("status")
        for values, message in (
            # Each message is waited for once.
            ({"tp": ""}, "TP must be a whole number from 0 to 1000."),
            ({"tp": 5, "fp": -1}, "FP must be a whole number from 0 to 1000."),
            ({"tp": 1001, "fp": 1}, ""),
            ({"tp": 0, "fp": 1, "fn": 0, "tn": 3}, "TP + FN must be at least 1"),
            ({"tp": 1.5}, ""),
            ({"tp": 2, "fp": 0, "fn": 0, "tn": 0}, "FP + TN must be at least 1"),
        ):
            shown = show(page, "epsilon-posterior", **values)
            assert set(map(tuple, shown.values())) == {(None, "–")}
            assert page.locator("#widget-page-epsilon-posterior svg *").count() == 0
            assert page.locator("[aria-invalid=true]").count() >= 1
            if message:
                status.get_by_text(re.compile(f"^{re.escape(message)}")).wait_for()
        show(page, "epsilon-posterior", tp=65, fp=25, tn=75, fn=35)
        assert page.locator("[aria-invalid=true]").count() == 0
        low, high = audit.epsilon_interval(audit.AttackCounts(65, 25, 75, 35), 0.05, 0.95)
        status.get_by_text(f"from {low:.3f} to {high:.3f}").wait_for()

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

    def test_everything_moves_by_keyboard(self, page, address, folds):
        page.goto(address)
        asked = "#widget-page-{} [data-control={}]"

        def numbers(kind):
            return show(page, kind)

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

        page.focus(asked.format("suitability-decision", "fold"))
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Tab")
        page.keyboard.press("End")
        test, user, _ = folds["year 2017"]
        expected = suitability.non_inferiority_test(test, user, 0.1)
        assert numbers("suitability-decision")["p_value"][0] == pytest.approx(expected.p_value)
        slider = page.locator(asked.format("suitability-decision", "margin"))
        assert slider.get_attribute("aria-valuetext") == "0.100"
        status = page.locator("#widget-page-suitability-decision").get_by_role("status")
        status.get_by_text(re.compile("^year 2017: SUITABLE")).wait_for()

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
        assert page.locator(".companion-still img:visible").count() == 3
        assert page.locator("figcaption:visible").count() == 3
        assert page.locator("input:visible, select:visible, .companion-live:visible").count() == 0
        boxes = [each.bounding_box() for each in page.locator(".companion-still img").all()]
        assert all(box["width"] <= 360 and box["height"] > 100 for box in boxes)
        page.context.close()

    def test_a_broken_widget_keeps_its_still_figure(self, page, widgets, tmp_path):
        texts = [widgets[kind].html("page") for kind in KINDS]
        texts[0] = re.sub(r"(application/json'>).*?(</script>)", r"\1{broken\2", texts[0])
        assert page.faults == []
        page.goto(write_page(tmp_path, "".join(texts)))
        page.wait_for_timeout(50)
        assert page.locator("#widget-page-epsilon-posterior img:visible").count() == 1
        assert page.locator("#widget-page-epsilon-posterior input:visible").count() == 0
        assert page.locator("#widget-page-suitability-decision img:visible").count() == 0
        assert page.locator("#widget-page-suitability-decision input:visible").count() == 2
        assert any("JSON" in fault for fault in page.faults)
        page.faults.clear()

"""Figures drawn from recorded tables: titles say what these hold, marks stand where they say."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from lib.plot import CHECK_FIGURES, COLOURS, svg_pair
from lib.studies.beyond import gap_terms, promise
from lib.studies.counterfactual import figures as counterfactual
from lib.studies.drawn import Run


@pytest.fixture(autouse=True)
def _checked(monkeypatch):
    monkeypatch.setenv(CHECK_FIGURES, "1")
    yield
    plt.close("all")


def marks(ax, marker, color):
    """Where the marks of a kind stand, in any order."""
    of = [x for x in ax.lines if x.get_marker() == marker and x.get_color() == color]
    return sorted(tuple(xy) for line in of for xy in line.get_xydata())


@pytest.mark.parametrize(
    ("missed", "words"),
    [
        ([0.091, 0.088], "9% miss the lead"),
        ([0.05, 0.124], "5% to 12% miss the lead"),
        ([0.004], "under 1% miss the lead"),
        ([0.0, 1.0], "0% to 100% miss the lead"),
    ],
)
def test_what_seen_scores_say_of_the_lead(missed, words):
    said = counterfactual.lead_headline(-0.02, 0.085, 0.1061, missed)
    assert said == (
        "A leads by 0.106. One trial: seen -0.020, robust 0.085\nOf flexible, robust intervals "
        + words
    )


def test_leads_are_the_truth_and_the_bias():
    cells = [("linear", "IPW", -0.05, 0.75), ("linear", "doubly robust", -0.06, 1.0)]
    cells += [("random forest", "doubly robust", 0.01, 0.125)]
    names = ["learner", "estimator", "bias", "misses population"]
    table = pd.DataFrame(cells, columns=names).assign(width=0.04, repetitions=8)
    rows = [f"{kind} {end}" for kind in ("selective", "counterfactual") for end in ("score", "low")]
    rows += ["selective high", "counterfactual high"]
    trial = pd.DataFrame({"quantity": rows, "A − B": [0.03, 0.01, 0.08, 0.07, 0.05, 0.12]})
    tables = {"experiment_1": table, "trial": trial}
    found = counterfactual.draw_miscoverage(Run(tables, {"trial_truth": 0.1}, {}))
    (ax,) = found.figure.axes
    assert marks(ax, "o", COLOURS[0]) == [
        pytest.approx((0.04, -7)),
        (0.08, -2),
        pytest.approx((0.11, -4)),
    ]
    assert marks(ax, "D", "0.45") == [pytest.approx((0.05, -6))]
    assert marks(ax, "s", COLOURS[1]) == [(0.03, -1)]
    ends = sorted(tuple(x.get_xdata()) for x in ax.lines if len(x.get_xdata()) == 2)
    assert {(0.01, 0.05), (0.07, 0.12)} < set(ends)
    assert pytest.approx((0.09, 0.13)) in ends
    said = {text.get_text() for text in ax.texts}
    assert {"12 [0, 53]", "100 [63, 100]", "75 [35, 97]"} <= said
    assert found.figure.get_suptitle().endswith("12% miss the lead")
    assert "of 8 trials" in found.caption
    svg_pair(found.figure, "s")


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (((20, 20), (34, 100), (1, 100)), ("100%", "34%, or 1%")),
        (((1, 8), (0, 6), (0, 6)), ("12%", "0%, or 0%")),
        (((999, 1000), (3, 1000), (5, 6)), ("over 99%", "under 1%, or 83%")),
    ],
)
def test_how_often_intervals_miss(counts, words):
    assert counterfactual.misses_headline("75% of test data leaked", *counts) == (
        f"75% of test data leaked: {words[0]} of intervals miss.\n"
        f"Two models: {words[1]} with known propensities"
    )


def limits(leaked):
    draws = pd.DataFrame(
        [("digits", "linear", s, 10, m, k) for s, m, k in (("I", 10, np.nan), ("II", 2, 1))]
        + [("digits", "linear", "III", 10, 4, 0), ("digits", "super", "III", 10, 9, 9)]
        + [("cifar10", "linear", "III", 10, 8, 8)],
        columns=["data", "learner", "scenario", "draws", "missed", "missed, known"],
    )
    edges = pd.DataFrame({"half-width": [0.2, 0.2, 0.3], "missed": [0.0, 0.25, 1.0]})
    edges = edges.assign(**{"missed, known": [1.0, 0.0, 1.0]}, repetitions=8)
    values = {"leak_missed": leaked, "leak_none": 0.05}
    values |= {"pointwise_missed": 0.3, "sequence_missed": 0.01}
    given = {"leak_repetitions": 20, "streams": 100, "leaks": [0.0, 1.0]}
    return Run({"draws": draws, "edges": edges}, values, given)


def test_the_worst_comes_first():
    found = counterfactual.draw_misses(limits(0.95))
    (ax,) = found.figure.axes
    shares = [100, 95, 40, 30, 25, 20, 5, 1]
    usual = sorted(((share, -y) for y, share in enumerate(shares)), key=lambda xy: -xy[1])
    drawn = sorted(marks(ax, "o", COLOURS[1]), key=lambda xy: -xy[1])
    assert drawn == [pytest.approx(xy) for xy in usual]
    assert found.figure.get_suptitle().startswith("All test data leaked: 95% of")
    assert sorted(x for x, _ in marks(ax, "D", COLOURS[2])) == pytest.approx([0, 0, 10])
    svg_pair(found.figure, "s")


def terms():
    rows = [("clean", np.inf, 0.0, 0.02, 0.0), ("clean", 1.0, 0.0, 0.03, -0.01)]
    rows += [("noisy", np.inf, 0.1, 0.02, 0.0), ("noisy", 1.0, 0.06, 0.03, 0.01)]
    names = ["labels", "epsilon", "noise", "ranking", "calibration"]
    table = pd.DataFrame(rows, columns=names)
    return table.assign(total=table[names[2:]].sum(axis=1) + 0.005)


def test_bars_are_order_and_noise():
    given = {"dataset": "digits", "model": "mlp", "n_seeds": 2}
    found = gap_terms.draw_terms(Run({"terms": terms()}, {}, given))
    (ax,) = found.figure.axes
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(
        [0.02, 0, 0.02, 0, 0.02, 0.1, 0.04, 0.06]
    )
    assert (
        sorted(x for x, _ in marks(ax, "o", "black"))
        == pytest.approx([0.025, 0.025, 0.105, 0.125])
        == sorted(terms()["total"])
    )
    assert "which calibration makes 0.010 at most" in found.caption
    svg_pair(found.figure, "s")


@pytest.mark.parametrize(("noise", "words"), [(0.06, "a gap of 0.060,"), (0.0, "a gap of 0.000,")])
def test_how_much_of_the_gap_is_noise(noise, words):
    table = terms()
    table.loc[3, "noise"] = noise
    title = gap_terms.gap_headline(table)
    assert title.startswith("Noisy labels, epsilon 1: noise")
    assert words in title


def promises(**changed):
    values = {"broken": 0.007, "few": 500, "spoken": 1.0, "private_few": 0.59, "allowed": 0.05}
    return values | {"free_few": 0.66, "best": 0.83} | changed


@pytest.mark.parametrize(
    ("budgets", "least", "named"),
    [
        ((1.0,), [500, 50, 1000, 60], {"1": (500, 50)}),
        ((0.1, 1.0), [500, 50, 1000, 51], {"0.1": (1000, 51), "1": (1000, 60)}),
    ],
)
def test_promises_of_one_budget_or_of_all(budgets, least, named):
    """Lines have their names where they are furthest apart."""
    rows = [
        (n, way, e, 0.5 + e * (n - 500) / 5000, 0.01)
        for n in (500, 1000)
        for e in budgets
        for way in promise.WAYS[::3]
    ]
    rows += [(n, promise.WAYS[2], np.inf, 0.7, 0.03) for n in (500, 1000)]
    table = pd.DataFrame(rows, columns=["n", "way", "epsilon", "coverage", "broken"])
    given = {"dataset": "digits", "model": "mlp", "draws": 40, "target": 0.9}
    found = promise.draw_coverage(Run({"ways": table}, promises(), given))
    kept, answered = found.figure.axes
    lines = [x for x in answered.lines if x.get_color() == COLOURS[0]]
    assert len(lines) == len(budgets)
    assert lines[0].get_xydata().ravel() == pytest.approx(least)
    names = {text.get_text(): text.xy for text in answered.texts}
    assert names == {name: pytest.approx(where) for name, where in named.items()}
    (quantile,) = [x for x in kept.lines if x.get_color() == COLOURS[1]]
    assert quantile.get_ydata() == pytest.approx([1, 1])
    svg_pair(found.figure, "s")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ("0.7%", "59%, no privacy 66%")),
        ({"broken": 0.0, "private_few": 0.0}, ("0.0%", " 0%, no privacy 66%")),
        ({"broken": 0.0751, "private_few": 0.7}, ("7.5%", "70%, no privacy 66%")),
    ],
)
def test_what_a_private_promise_costs(changed, words):
    said = promise.promise_headline(promises(**changed))
    assert said.startswith(f"At most {words[0]} of private promises break")
    assert said.endswith(words[1])


@pytest.mark.parametrize(
    ("worst", "words"),
    [
        (0.45, "at one of 0.2 up to 45%"),
        (0.01, "at one of 0 up to 10%"),
        (1.0, "at one of 0.2 up to 100%"),
    ],
)
def test_where_intervals_miss_most(worst, words):
    misses = pd.DataFrame({"shift": [0, 0.2], "200": [0.1, 0.05], "3200": [0.05, worst]})
    power = pd.DataFrame({"shift": [0, 0.2], "200": [0.05, 0.3], "3200": [0.05, 1.0]})
    run = Run({"power": power, "power_misses": misses}, {}, {"power_repetitions": 20})
    found = counterfactual.draw_power(run)
    said = f"Of the tests 30% to 100% find a shift of 0.2;\n{words} of the intervals miss"
    assert found.figure.get_suptitle() == said
    rejected, missed = ([x.get_ydata() for x in ax.lines[:2]] for ax in found.figure.axes)
    assert np.array(rejected) == pytest.approx(np.array([[5, 30], [5, 100]]))
    assert np.array(missed) == pytest.approx(np.array([[10, 5], [5, 100 * worst]]))
    svg_pair(found.figure, "s")

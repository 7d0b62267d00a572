"""The title of a page's first figure says what its data show, whatever they are."""

import math

import numpy as np
import pandas as pd
import pytest

from lib.plot import CHECK_FIGURES, COLOURS, svg_pair
from lib.studies.audit import figures as audit
from lib.studies.headed import percent
from lib.studies.interplay import figures as interplay
from lib.studies.interplay.outlier import OutlierStudy
from lib.studies.suitability import figures as suitability
from lib.studies.training import figures as training


@pytest.fixture(autouse=True)
def _checked(monkeypatch):
    monkeypatch.setenv(CHECK_FIGURES, "1")


def said(figure):
    (ax, *_) = figure.axes
    title, words = ax.get_title(loc="left"), [text.get_text() for text in ax.texts]
    svg_pair(figure, "s")  # which is an error where something is cut off
    return title, words


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0%"), (0.004, "under 1%"), (0.126, "13%"), (0.996, "over 99%"), (1.0, "100%")],
)
def test_some_are_not_none_and_not_all(share, words):
    assert percent(share) == words


def buckets(lows, suitable):
    low = np.array(lows) / 100
    table = pd.DataFrame({"low": low, "high": low + 0.01, "experiments": 10, "suitable": suitable})
    return table.assign(share=table["suitable"] / 10)


@pytest.mark.parametrize(
    ("lows", "suitable", "margin", "words"),
    [
        ([-6, -5, -2, -1, 0], [0, 1, 2, 3, 9], 0, "0 to 1 points: 30% pass|Beyond 4 points: 5%"),
        ([-6, -5, -2, -1, 0], [0, 0, 2, 3, 9], 0.05, "5 to 6 points: 0% pass"),
        (
            [-6, -5, -2, -1, 0],
            [0, 0, 2, 3, 9],
            0.005,
            "1 to 2 points: 20% pass|Beyond 4 points: 0%",
        ),
        ([-1, 0], [3, 9], 0, "0 to 1 points: 30% pass"),
        ([0, 1], [3, 9], 0, "No data here are worse|than the margin allows"),
    ],
)
def test_how_much_unsuitable_data_pass(lows, suitable, margin, words):
    found, _ = said(suitability.plot_share_suitable(buckets(lows, suitable), margin))
    assert found.count("\n") == words.count("|")
    assert all(part in found for part in words.split("|"))


@pytest.mark.parametrize(
    ("rdp", "pld", "words"),
    [
        (7.0, 6.204, "7.00,\n13% more than PLD's 6.20"),
        (7.0, 7.01, "7.00,\nand so does PLD"),
        (1.0, 1.5, "1.00,\nless than PLD's 1.50"),
    ],
)
def test_what_rdp_overstates(rdp, pld, words):
    table = pd.DataFrame({"steps": [1, 1000], "rdp": [0.1, rdp], "pld": [0.1, pld]})
    found, beside = said(training.plot_spending(table))
    assert found == f"After 1,000 steps RDP counts an epsilon of {words}"
    assert beside == ["RDP, P1's accountant", "PLD, nearly exact"]


@pytest.mark.parametrize(
    ("budgets", "values", "words"),
    [
        (
            [math.inf, 7.0, 1.0],
            [[0.1, 0.2, 0.5, 0.3], [0.4, 0.2, 0.1, 1.0], [1.0, 0.6, 0.9, 0.1]],
            "25% to 75% with privacy, 25% without",
        ),
        ([7.0, 1.0], [[0.4, 1.0], [0.5, 0.1]], "50% with privacy"),
        ([math.inf], [[0.4, 0.1]], "0% without"),
    ],
)
def test_how_many_models_are_wrong_about_the_outlier(budgets, values, words):
    values = np.array(values)
    zeros = np.zeros((2, 2)), np.zeros((len(budgets), 3))
    study = OutlierStudy(tuple(budgets), values, values, values, *zeros)
    figure = interplay.plot_wrong_confidence(study)
    colours = {"blue": COLOURS[0], "orange": COLOURS[1]}
    drawn = {
        name: np.concatenate([x.get_ydata() for x in figure.axes[0].lines if x.get_color() == c])
        for name, c in colours.items()
    }
    assert sorted(drawn["blue"]) == sorted(values[values < 0.5])
    assert sorted(drawn["orange"]) == sorted(values[values >= 0.5])
    assert said(figure)[0] == f"Models wrong about the outlier:\n{words}"


@pytest.mark.parametrize(("fails", "words"), [(1.0, "100%"), (0.004, "under 1%")])
def test_how_often_the_best_bound_fails(fails, words):
    rows = [
        {"mu": mu, "epsilon": 2 * mu, "method": method, "choice": choice, "exceeds": 0.5}
        for mu in (0.0, 0.5)
        for method in ("bayesian", "clopper-pearson")
        for choice in ("fixed", "best", "union", "held-out")
    ]
    table = pd.DataFrame(rows)
    best = (table["method"] == "bayesian") & (table["choice"] == "best")
    table.loc[best, "exceeds"] = [0.001, fails]
    figure = audit.plot_selection(table, 0.9)
    dots = [x.get_xdata() for ax in figure.axes for x in ax.lines if x.get_linestyle() == "None"]
    assert sorted(np.concatenate(dots)) == pytest.approx(sorted(100 * table["exceeds"]))
    assert said(figure)[0].endswith(f"fails\nin up to {words} of audits; allowed: 10%")

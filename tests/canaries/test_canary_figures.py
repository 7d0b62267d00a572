"""Figures on P5 show the intervals, bounds and confidences that they were given."""

import math

import numpy as np
import pandas as pd
import pytest
from figure_parts import legend, lines, ticks

from lib.studies.canaries import figures

ROWS = [
    ("cifar10", "ALIBI", "HH", "1 x 1000", math.nan, 3.0, math.inf),
    ("cifar10", "ALIBI", "H", "1 x 1000", 8.0, 2.0, 4.0),
    ("cifar10", "ALIBI", "H", "10 x 100", 8.0, 1.0, 3.0),
    ("cifar100", "PATE", "L", "1 x 1000", math.nan, 0.0, 1.5),
]


def test_published_intervals_and_claims():
    columns = ["data", "mechanism", "level", "runs", "claimed epsilon", "low", "high"]
    figure = figures.plot_published(pd.DataFrame(ROWS, columns=columns))
    first, second = figure.axes
    assert (first.get_title(), second.get_title()) == ("CIFAR-10", "CIFAR-100")
    # From the bottom: the last row of the table first.
    assert ticks(first.yaxis) == ["ALIBI high, 10 x 100", "ALIBI high", "ALIBI very high"]
    assert ticks(second.yaxis) == ["PATE low"]
    intervals = [line.get_xdata().tolist() for line in first.lines if line.get_marker() == "|"]
    assert intervals == [[1, 3], [2, 4], [3, 20]]  # an infinite end is at the edge
    claims = [line for line in first.lines if line.get_marker() != "|"]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in claims] == [(8.0, 0), (8.0, 1)]
    assert len(second.lines) == 1


@pytest.mark.parametrize("names", [("cifar10", "cifar100"), ("mine",)])
def test_careful_bounds(names):
    rows = [
        {
            "data": name,
            "mechanism": "AGIBI",
            "level": level,
            "runs": "1 x 1000",
            "paper": 3.0 + k,
            "corrected": 2.0,
            "one label": 1.0 + k,
            "top label": math.nan,
        }
        for name in names
        for k, level in enumerate("HM")
    ]
    figure = figures.plot_careful(pd.DataFrame(rows))
    titles = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
    assert [ax.get_title() for ax in figure.axes] == [titles.get(name, name) for name in names]
    words = ["the paper's", "thresholds paid for", "one label, valid", "top label, valid"]
    assert legend(figure.axes[-1]) == words
    found = lines(figure.axes[0])
    assert found["the paper's"].get_xdata().tolist() == [4.0, 3.0]
    assert found["one label, valid"].get_xdata().tolist() == [2.0, 1.0]
    assert ticks(figure.axes[0].yaxis) == ["AGIBI medium", "AGIBI high"]


def test_coverage_has_a_panel_a_number_of_classes():
    names = ["paper", "all three", "one label", "top label, lower", "bayesian"]
    tables = {
        classes: pd.DataFrame(
            [
                {"interval": name, "epsilon": epsilon, "exceeds": 0.01 * k + 0.1 * (classes == 10)}
                for k, name in enumerate(names)
                for epsilon in (1.0, 4.0)
            ]
        )
        for classes in (10, 100)
    }
    figure = figures.plot_coverage(tables, 0.95)
    assert [ax.get_title() for ax in figure.axes] == ["10 classes", "100 classes"]
    found = lines(figure.axes[0])
    assert list(found) == legend(figure.axes[1])
    assert found["the paper's"].get_ydata().tolist() == [0.1, 0.1]
    np.testing.assert_allclose(found["Bayesian"].get_ydata(), 0.14)
    levels = [line.get_ydata()[0] for line in figure.axes[0].lines if line.get_linestyle() == ":"]
    assert levels == pytest.approx([0.05, 0.025])
    assert ticks(figure.axes[1].xaxis) == ["1", "4"]


def test_confidences_in_another_wrong_label():
    p = np.tile([0.07, 0.17, 0.32, 0.44], (3, 1))
    canary, true = np.array([0, 1, 3]), np.array([1, 0, 2])
    # The next wrong label: 2 (1 is true), 2, 0.
    figure = figures.plot_confidences({"a": (p, canary, true), "b": (p, canary, true)})
    assert [ax.get_title() for ax in figure.axes] == ["a", "b"]
    assert legend(figure.axes[0]) == ["canary label", "another wrong label"]
    own, other = ([bar.get_height() for bar in group] for group in figure.axes[0].containers)
    assert own == [0, 1, 0, 1, 0, 0, 0, 0, 1, *[0] * 11]  # bins of 0.05
    assert other == [0, 1, 0, 0, 0, 0, 2, *[0] * 13]


def test_accuracy_against_what_is_claimed_and_what_is_measured():
    rows = [
        ("none", 0, math.inf, 0.95, 4.0, math.inf),
        ("ALIBI", 0, 8.0, 0.9, 2.0, 5.0),
        ("ALIBI", 1, 1.0, 0.7, 0.0, 1.0),
    ]
    columns = ["mechanism", "level", "claimed", "accuracy", "low", "high"]
    top, bottom = figures.plot_accuracy(pd.DataFrame(rows, columns=columns)).axes
    assert legend(top) == ["ALIBI"]  # what claims nothing has no place on this axis
    np.testing.assert_array_equal(lines(top)["ALIBI"].get_data(), [[8.0, 1.0], [0.9, 0.7]])
    assert [line.get_xdata().tolist() for line in bottom.lines] == [[4, 6], [2, 5], [0, 1]]
    assert [line.get_ydata()[0] for line in bottom.lines] == [0.95, 0.9, 0.7]
    assert legend(bottom) == ["none"]


def test_memorisation():
    rows = [
        (name, level, step, 0.1 * step + level, 0.5, 0.01)
        for name, level in (("none", 0), ("ALIBI", 0), ("ALIBI", 3))
        for step in (1, 2)
    ]
    table = pd.DataFrame(rows, columns=["mechanism", "level", "step", "canary", "true", "other"])
    shown = [("none", 0), ("ALIBI", 0), ("ALIBI", 3)]
    figure = figures.plot_memorisation(table, shown)
    titles = ["without privacy", "ALIBI, least noise", "ALIBI, level 4"]
    assert [ax.get_title() for ax in figure.axes] == titles
    assert legend(figure.axes[0]) == ["label trained with", "true label", "other labels"]
    found = lines(figure.axes[2])["label trained with"]
    np.testing.assert_allclose(found.get_data(), [[1, 2], [3.1, 3.2]])

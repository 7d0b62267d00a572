"""Figures on P1 show the numbers that they were given, under the right names."""

import math

import numpy as np
import pandas as pd
import pytest
from figure_parts import legend, lines, ticks
from matplotlib.colors import to_hex
from panel_by_hand import COVERAGES, EPSILONS, imbalance, outlier, panel

from lib import selective
from lib.studies.interplay import figures
from lib.studies.interplay import tables as studies

WORDS = [r"$\epsilon = \infty$", r"$\epsilon = 3$", r"$\epsilon = 1$"]


def test_boundaries():
    study = outlier()
    (ax,) = figures.plot_boundaries(study).axes
    majority, apart = ax.collections
    np.testing.assert_array_equal(majority.get_offsets(), study.points[:-1])
    np.testing.assert_array_equal(apart.get_offsets(), study.points[-1:])
    # A boundary is x1 as a function of x2: none is drawn for the model that ignores x1.
    found = lines(ax)
    assert set(found) == set(WORDS[:2])
    np.testing.assert_allclose(found[WORDS[0]].get_xdata(), [2, 2])
    x, y = found[WORDS[1]].get_data()
    np.testing.assert_allclose(x + y, 3)
    assert legend(ax) == ["majority", "outlier", *WORDS[:2]]


def test_wrong_confidence():
    study = outlier()
    (ax,) = figures.plot_wrong_confidence(study).axes
    dots, means = ax.lines[0:6:2], ax.lines[1:6:2]
    for i, (dot, mean) in enumerate(zip(dots, means, strict=True)):
        np.testing.assert_array_equal(dot.get_ydata(), np.sort(study.wrong_confidence[i]))
        assert (np.abs(dot.get_xdata() - i) < 0.5).all()
        np.testing.assert_allclose(mean.get_ydata(), study.wrong_confidence[i].mean())
    np.testing.assert_array_equal(ax.lines[-1].get_ydata(), 0.5)
    assert ticks(ax.xaxis) == WORDS


def test_panel_has_all_methods_and_five_points_of_selective_net():
    made = panel()
    figure = figures.plot_panel(made)
    assert [ax.get_title() for ax in figure.axes] == WORDS
    for ax, epsilon in zip(figure.axes, EPSILONS, strict=True):
        found = lines(ax)
        # In the order in which P1 lists them; those that are not P1's are left out.
        assert list(found) == ["SR", "MCDO", "SCTD", "SCTD, ties by SR", "SN"]
        coverage, accuracy = studies.mean_curve(made, "SCTD", epsilon)
        np.testing.assert_array_equal(found["SCTD"].get_xdata(), coverage[coverage >= 0.02])
        np.testing.assert_array_equal(found["SCTD"].get_ydata(), accuracy[coverage >= 0.02])
        np.testing.assert_array_equal(found["SN"].get_xdata(), COVERAGES)
        each = made.selective[epsilon]
        for k, shown in enumerate(found["SN"].get_ydata()):
            n = math.ceil(COVERAGES[k] * 60)
            best = [
                selective.accuracy_coverage(c[k], s[k]).accuracy[n - 1]
                for c, s in zip(each.correct, each.score, strict=True)
            ]
            assert shown == pytest.approx(np.mean(best))
        lowest = min(line.get_ydata().min() for line in found.values())
        assert ax.get_ylim()[0] == pytest.approx(lowest - 0.02)
    assert legend(figure.axes[-1])[-1] == "SN"


def test_panel_of_one_budget_without_selective_net():
    (ax,) = figures.plot_panel(panel(selective_net=False, epsilons=(2.0,))).axes
    assert "SN" not in lines(ax)
    assert ax.get_title() == r"$\epsilon = 2$"


def test_scores():
    table = studies.summary(panel())
    (ax,) = figures.plot_scores(table).axes
    assert legend(ax) == list(dict.fromkeys(table["method"]))
    assert len(ax.containers) == table["method"].nunique()
    for container, (_, rows) in zip(
        ax.containers, table.groupby("method", sort=False), strict=True
    ):
        np.testing.assert_array_equal(container[0].get_ydata(), rows["score"])
        (bars,) = container[2]
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        np.testing.assert_allclose(ends[:, 1] - ends[:, 0], 2 * rows["score sd"])
    assert ax.get_yscale() == "log"
    assert ax.get_ylim()[0] == pytest.approx(0.5 * table["score"][table["score"] > 0].min())
    assert ticks(ax.xaxis) == WORDS


def test_scores_of_which_none_is_positive():
    """As of perfect orders alone: there is no logarithm of any."""
    table = studies.summary(panel())
    (ax,) = figures.plot_scores(table.assign(score=0.0)).axes
    assert ax.get_yscale() == "linear"


def test_to_bound():
    made = panel()
    (ax,) = figures.plot_to_bound(made).axes
    for i, epsilon in enumerate(EPSILONS):
        curve, bound = ax.lines[2 * i : 2 * i + 2]
        coverage, accuracy = studies.mean_curve(made, "SCTD", epsilon)
        np.testing.assert_array_equal(curve.get_data(), (coverage, accuracy))
        full = accuracy[-1]
        np.testing.assert_allclose(bound.get_ydata(), np.minimum(1, full / coverage))
        assert (bound.get_ydata() >= curve.get_ydata() - 1e-12).all()
    assert len(ax.collections) == 3
    assert legend(ax) == WORDS


def test_imbalance_and_positions():
    study = imbalance()
    figure = figures.plot_imbalance(study)
    assert [ax.get_title() for ax in figure.axes] == ["$p_0 = 0.5$", "$p_0 = 0.01$"]
    everyone, rare = figure.axes[0].lines[:2]
    assert (everyone.get_linestyle(), rare.get_linestyle()) == ("--", "-")
    assert everyone.get_ydata()[-1] == pytest.approx(18 / 20)
    assert rare.get_ydata()[-1] == pytest.approx(3 / 5)
    assert len(rare.get_xdata()) == 5
    assert figure.axes[1].lines[1].get_ydata()[-1] == 0
    assert legend(figure.axes[-1]) == [WORDS[0], WORDS[2]]

    figure = figures.plot_positions(study)
    right, wrong = figure.axes[0].lines[:2]
    # The five are accepted last; the three with the larger scores are right.
    np.testing.assert_allclose(np.sort(right.get_xdata()), [0.8, 0.85, 0.9])
    np.testing.assert_allclose(np.sort(wrong.get_xdata()), [0.95, 1.0])
    assert len(figure.axes[1].lines[0].get_xdata()) == 0
    assert legend(figure.axes[-1]) == ["right", "wrong"]
    assert ticks(figure.axes[0].yaxis) == [WORDS[0], WORDS[2]]


@pytest.mark.parametrize(("n", "drawn"), [(0, 0), (1, 1), (60, 60), (61, 31), (1000, 59)])
def test_of_many_points_some_are_drawn(n, drawn):
    rows = figures._some(np.arange(n), 60)
    assert len(rows) == drawn
    assert (np.diff(np.diff(rows)) == 0).all()


def test_bound_reached_is_thinned_but_keeps_both_ends():
    curves, _ = studies.bound_reached((0.3, 0.9), 1000, 0)
    (ax,) = figures.plot_bound_reached(curves).axes
    bound, curve = ax.lines[:2]
    assert len(bound.get_xdata()) == 1000
    assert len(curve.get_xdata()) == 400
    assert curve.get_xdata()[[0, -1]].tolist() == [0.001, 1.0]
    assert curve.get_ydata()[-1] == pytest.approx(0.3)
    assert legend(ax) == ["0.3", "0.9"]
    assert ax.get_legend().get_title().get_text() == "full accuracy"


def test_early_stopping():
    table = pd.DataFrame({"epsilon": [7.0, 1.0], "spent": [2.5, 1.0]})
    (ax,) = figures.plot_early_stopping(table).axes
    heights = [[bar.get_height() for bar in container] for container in ax.containers]
    assert heights == [[7.0, 1.0], [2.5, 1.0]]
    assert legend(ax) == ["aimed at", "spent when aligned"]
    assert ticks(ax.xaxis) == [r"$\epsilon = 7$", r"$\epsilon = 1$"]


def test_needed_points():
    table = pd.DataFrame(
        {
            "method": ["SCTD", "SCTD", "own", "own"],
            "epsilon": [math.inf, 1.0] * 2,
            "points": [100.0, 2000.0, 50.0, math.inf],
        }
    )
    (ax,) = figures.plot_needed_points(table, 597).axes
    assert legend(ax) == ["SCTD", "own", "points at hand"]
    assert lines(ax)["SCTD"].get_ydata().tolist() == [100.0, 2000.0]
    assert set(lines(ax)["points at hand"].get_ydata()) == {597}
    assert to_hex(lines(ax)["SCTD"].get_color()).upper() == "#D55E00"
    assert ticks(ax.xaxis) == [r"$\epsilon = \infty$", r"$\epsilon = 1$"]

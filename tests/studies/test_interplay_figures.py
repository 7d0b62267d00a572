"""Figures on P1 show the numbers that they were given."""

import math

import numpy as np
from figure_parts import lines
from panel_by_hand import COVERAGES, EPSILONS, imbalance, panel

from lib import selective
from lib.studies.interplay import figures
from lib.studies.interplay import tables as studies


def test_panel_has_all_methods_and_the_points_of_selective_net():
    made = panel()
    for ax, epsilon in zip(figures.plot_panel(made).axes, EPSILONS, strict=True):
        found = lines(ax)
        # In the order in which P1 lists them; those that are not P1's are left out.
        assert list(found) == ["SR", "MCDO", "SCTD", "SCTD, ties by SR", "SN"]
        coverage, accuracy = studies.mean_curve(made, "SCTD", epsilon)
        shown = coverage >= 0.02
        np.testing.assert_array_equal(found["SCTD"].get_data(), (coverage[shown], accuracy[shown]))
        assert tuple(found["SN"].get_xdata()) == COVERAGES
        each = made.selective[epsilon]
        for k, shown in enumerate(found["SN"].get_ydata()):
            n = math.ceil(COVERAGES[k] * 60)
            best = [
                selective.accuracy_coverage(c[k], s[k]).accuracy[n - 1]
                for c, s in zip(each.correct, each.score, strict=True)
            ]
            assert math.isclose(shown, np.mean(best))


def test_scores():
    table = studies.summary(panel())
    (ax,) = figures.plot_scores(table).axes
    groups = table.groupby("method", sort=False)
    for container, (_, rows) in zip(ax.containers, groups, strict=True):
        np.testing.assert_array_equal(container[0].get_ydata(), rows["score"])
        ends = np.array([segment[:, 1] for segment in container[2][0].get_segments()])
        np.testing.assert_allclose(ends[:, 1] - ends[:, 0], 2 * rows["score sd"])
    (flat,) = figures.plot_scores(table.assign(score=0.0)).axes
    assert (ax.get_yscale(), flat.get_yscale()) == ("log", "linear")


def test_imbalance_and_positions():
    study = imbalance()
    first, second = figures.plot_imbalance(study).axes
    everyone, rare = first.lines[:2]
    assert (everyone.get_ydata()[-1], rare.get_ydata()[-1]) == (18 / 20, 3 / 5)
    assert len(rare.get_xdata()) == 5
    assert second.lines[1].get_ydata()[-1] == 0
    first, second = figures.plot_positions(study).axes
    right, wrong = first.lines[:2]
    # The five are accepted last; the three with the larger scores are right.
    np.testing.assert_allclose(np.sort(right.get_xdata()), [0.8, 0.85, 0.9])
    np.testing.assert_allclose(np.sort(wrong.get_xdata()), [0.95, 1.0])
    assert len(second.lines[0].get_xdata()) == 0

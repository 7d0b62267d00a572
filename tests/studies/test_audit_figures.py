"""Figures on P3 show the intervals, regions and scores that they were given."""

import math

import numpy as np
from figure_parts import lines

from lib.audit import AttackCounts, epsilon_interval, epsilon_posterior, privacy_region
from lib.audit.counts import rate_interval
from lib.audit.intervals import METHODS
from lib.studies.audit import figures
from lib.studies.audit import tables as studies

COUNTS = AttackCounts(65, 25, 75, 35)


def test_posterior():
    top, below = figures.plot_posterior(COUNTS, 0.05, 0.9, 3.0).axes
    eps, density = top.lines[0].get_data()
    np.testing.assert_allclose(density, epsilon_posterior(COUNTS, 0.05).pdf(eps))
    bars = [
        line for line in below.lines if len(line.get_xdata()) == 2 and line.get_linewidth() == 3
    ]
    for place, (method, bar) in enumerate(zip(METHODS, bars, strict=True)):
        np.testing.assert_allclose(bar.get_xdata(), epsilon_interval(COUNTS, 0.05, 0.9, method))
        assert set(bar.get_ydata()) == {place}
    for ax in (top, below):
        assert any(set(line.get_xdata()) == {3.0} for line in ax.lines)


def test_regions_and_rectangles():
    (ax,) = figures.plot_privacy_regions([0.5, 2.0], 0.01).axes
    outer, _, _, inner_high = (line.get_ydata() for line in ax.lines)
    fnr = ax.lines[0].get_xdata()
    np.testing.assert_allclose(outer, privacy_region(2.0, 0.01).lower(fnr))
    np.testing.assert_allclose(inner_high, privacy_region(0.5, 0.01).upper(fnr))
    (ax,) = figures.plot_joint(COUNTS, 0.05, 0.9).axes
    (box,) = ax.patches
    x, y = (rate_interval(errors, 100, 0.025, "jeffreys") for errors in (35, 25))
    np.testing.assert_allclose(box.get_bbox().get_points(), np.transpose([x, y]))
    low, _ = epsilon_interval(COUNTS, 0.05, 0.9, "bayesian")
    fnr, shown = lines(ax)["Bayesian"].get_data()
    np.testing.assert_allclose(shown, privacy_region(low, 0.05).lower(fnr))


def test_tables_are_drawn():
    table = studies.widths_by_trials(0.2, [100, 200, 400], 1e-5)
    (ax,) = figures.plot_widths(table, 0.2, math.log(4)).axes
    for place, (_, rows) in enumerate(table.groupby("method", sort=False)):
        low, high = ax.lines[2 * place : 2 * place + 2]
        np.testing.assert_array_equal([low.get_ydata(), high.get_ydata()], rows[["low", "high"]].T)
    table = studies.width_grid([0.1, 0.3], 100, 1e-5)
    for ax, method in zip(figures.plot_width_grid(table).axes, METHODS[::-1], strict=False):
        shown = np.asarray(ax.collections[0].get_array())
        np.testing.assert_allclose(shown.ravel(), table[method])  # by FPR, then by FNR
    table = studies.coverage_table([(0.2, 0.2), (0.1, 0.3)], [20], 1e-5, 0.9)
    (ax,) = figures.plot_coverage(table, 0.9).axes
    rows = table.sort_values("epsilon")
    for method, line in zip(METHODS, list(lines(ax).values())[-3:], strict=True):
        np.testing.assert_array_equal(line.get_ydata(), rows[method])

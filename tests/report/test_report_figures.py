"""Figures of a report show the user's own numbers."""

import math

import numpy as np
import pandas as pd
import pytest
from figure_parts import lines

from lib import selective
from lib.audit import privacy_region, roc_counts
from lib.report import figures


@pytest.mark.parametrize("n", [100, 1000])
def test_curves_of_few_points_are_whole_and_of_many_thinned(n):
    rng = np.random.default_rng(0)
    correct = rng.random(n) < 0.8
    curve = selective.accuracy_coverage(correct, rng.random(n))
    (ax,) = figures.plot_curves({"margin": curve}, 0.6).axes
    x, y = lines(ax)["margin"].get_data()
    shown = curve.coverage >= 0.02
    assert len(x) == min(shown.sum(), 400)
    assert (x[0], x[-1]) == (curve.coverage[shown][0], 1.0)
    np.testing.assert_array_equal(y, curve.accuracy[np.searchsorted(curve.coverage, x)])
    x, y = lines(ax)["bound"].get_data()
    np.testing.assert_allclose(y, selective.accuracy_bound(correct.mean(), x))


def test_ranking_is_drawn_at_all_thresholds():
    """Precision and rates by hand, of four rows of which two are of the class."""
    second = np.array([True, False, True, False])
    left, right = figures.plot_ranking(second, np.array([4.0, 3.0, 2.0, 1.0])).axes
    assert {(0, 0), (0, 0.5), (0.5, 0.5), (0.5, 1), (1, 1)} >= set(
        zip(*(values.tolist() for values in left.lines[1].get_data()), strict=True)
    )
    points = list(zip(*(values.tolist() for values in right.lines[1].get_data()), strict=True))
    assert points == [(1, 0.5), (1, pytest.approx(2 / 3)), (0.5, 0.5), (0.5, 1), (0, 1)]


def test_moved_signals():
    """What has no finite difference is left out."""
    names, moved = ["conf_max", "energy", "loss", "top_2"], [True, True, False, True]
    table = pd.DataFrame({"signal": names, "moved": moved})
    (ax,) = figures.plot_moved(table.assign(difference=[0.5, math.inf, -0.1, -math.inf])).axes
    assert [bar.get_width() for bar in ax.patches] == [-0.1, 0.5]
    assert ax.patches[0].get_facecolor() != ax.patches[1].get_facecolor()


@pytest.mark.parametrize("claim", [None, (1.0, 1e-5)])
def test_roc(claim):
    counts = roc_counts(np.array([4.0, 2.0, 3.0, 1.0]), np.repeat([True, False], 2))
    found = lines(figures.plot_roc(counts, (0.25, 0.75), claim).axes[0])
    points = set(zip(*(values.tolist() for values in found["attack"].get_data()), strict=True))
    assert points == {(0.0, 0.0), (0.0, 0.5), (0.5, 0.5), (0.5, 1.0), (1.0, 1.0)}
    assert found["chosen threshold"].get_xydata().tolist() == [[0.25, 0.75]]
    (allowed,) = {*found} - {"attack", "chance", "chosen threshold"} if claim else [None]
    if claim:
        x, y = found[allowed].get_data()
        np.testing.assert_allclose(y, 1 - privacy_region(*claim).lower(x))


def test_propensities():
    (ax,) = figures.plot_propensities(np.array([0.01, 0.02, 0.9]), np.array([0.99])).axes
    heights = [bar.get_height() for bar in ax.containers[0]]
    assert (heights[0], sum(heights)) == (2, 3)

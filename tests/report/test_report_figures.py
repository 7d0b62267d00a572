"""Figures of a report show the user's own numbers."""

import math

import numpy as np
import pandas as pd
import pytest
from figure_parts import legend, lines
from matplotlib.colors import to_hex

from lib import selective
from lib.audit import privacy_region, roc_counts
from lib.report import figures


@pytest.mark.parametrize("n", [100, 1000])
def test_curves_of_few_points_are_whole_and_of_many_thinned(n):
    rng = np.random.default_rng(0)
    correct = rng.random(n) < 0.8
    curves = {
        name: selective.accuracy_coverage(correct, rng.random(n)) for name in ("margin", "entropy")
    }
    (ax,) = figures.plot_curves(curves, 0.6).axes
    assert legend(ax) == ["margin", "entropy", "bound"]
    for name, curve in curves.items():
        x, y = lines(ax)[name].get_data()
        shown = curve.coverage >= 0.02
        assert len(x) == min(shown.sum(), 400)
        assert (x[0], x[-1]) == (curve.coverage[shown][0], 1.0)
        np.testing.assert_array_equal(y, curve.accuracy[np.searchsorted(curve.coverage, x)])
    x, y = lines(ax)["bound"].get_data()
    np.testing.assert_allclose(y, selective.accuracy_bound(correct.mean(), x))
    lowest = min(lines(ax)[name].get_ydata().min() for name in curves)
    assert ax.get_ylim()[0] == pytest.approx(max(0, min(0.6, lowest) - 0.02))


def test_moved_signals():
    table = pd.DataFrame(
        {
            "signal": ["conf_max", "energy", "loss", "top_2"],
            "difference": [0.5, math.inf, -0.1, -math.inf],
            "moved": [True, True, False, True],
        }
    )
    (ax,) = figures.plot_moved(table).axes
    # From the bottom; what has no finite difference is left out.
    assert [text.get_text() for text in ax.get_yticklabels()] == ["loss", "conf max"]
    assert [bar.get_width() for bar in ax.patches] == [-0.1, 0.5]
    grey, colour = (to_hex(bar.get_facecolor()) for bar in ax.patches)
    assert (grey, colour) == ("#bfbfbf", "#d55e00")


@pytest.mark.parametrize("claim", [None, (1.0, 1e-5)])
def test_roc(claim):
    members = np.repeat([True, False], 2)
    counts = roc_counts(np.array([4.0, 2.0, 3.0, 1.0]), members)
    (ax,) = figures.plot_roc(counts, (0.25, 0.75), claim).axes
    found = lines(ax)
    allowed = [] if claim is None else [r"most at $\epsilon = 1$"]
    assert legend(ax) == [*allowed, "chance", "attack", "chosen threshold"]
    points = set(zip(*(values.tolist() for values in found["attack"].get_data()), strict=True))
    assert points == {(0.0, 0.0), (0.0, 0.5), (0.5, 0.5), (0.5, 1.0), (1.0, 1.0)}
    assert found["chosen threshold"].get_xydata().tolist() == [[0.25, 0.75]]
    if claim is not None:
        x, y = found[allowed[0]].get_data()
        np.testing.assert_allclose(y, 1 - privacy_region(*claim).lower(x))


def test_propensities():
    (ax,) = figures.plot_propensities(np.array([0.01, 0.02, 0.9]), np.array([0.99])).axes
    assert legend(ax) == ["answered", "abstained"]
    heights = [bar.get_height() for bar in ax.containers[0]]
    assert (heights[0], sum(heights)) == (2, 3)
    assert ax.get_xlim() == (0, 1)

"""Figures of the six lenses show curves, drops and differences that they were given."""

import numpy as np
import pandas as pd
import pytest
from figure_parts import legend, ticks

from lib import selective
from lib.selective import Estimate
from lib.studies.beyond.six_lenses import figures
from lib.studies.beyond.six_lenses.views import DROP, Abstention


def test_abstention():
    rng = np.random.default_rng(0)
    curves = {
        name: selective.accuracy_coverage(rng.random(50) < p, rng.random(50))
        for name, p in (("private", 0.7), ("plain", 0.9))
    }
    nothing = Estimate(0.0, 0.0, 0.0, 0.0, 0.95)
    found = Abstention(nothing, nothing, 0.95, 0.5, (0.5, 0.4, 0.6), (0.9, 0.8, 1.0), curves)
    (ax,) = figures.plot_abstention(found).axes
    assert legend(ax) == ["private", "plain"]
    lowest = []
    for k, curve in enumerate(curves.values()):
        shown, bound = ax.lines[2 * k : 2 * k + 2]
        np.testing.assert_array_equal(shown.get_data(), (curve.coverage, curve.accuracy))
        best = selective.accuracy_bound(curve.full_accuracy, curve.coverage)
        np.testing.assert_array_equal(bound.get_ydata(), best)
        assert shown.get_color() == bound.get_color()
        lowest.append(curve.accuracy[10:].min())
    assert set(ax.lines[4].get_ydata()) == {0.95}
    assert ax.get_ylim()[0] == pytest.approx(min(lowest) - 0.01)


def test_populations():
    table = pd.DataFrame(
        {
            "shift": ["none", "gaussian_noise", "blur"],
            "severity": [0.0, 0.25, 1.0],
            DROP: [0.0, 0.1, 0.3],
            "low": [-0.02, 0.05, 0.2],
            "high": [0.02, 0.2, 0.35],
            "estimated drop": [0.01, 0.12, 0.2],
            "decision": ["SUITABLE", "INCONCLUSIVE", "INCONCLUSIVE"],
        }
    )
    (ax,) = figures.plot_populations(table, 0.05).axes
    assert ticks(ax.yaxis) == ["as they are", "noise 0.25", "blur 1"]
    # The first population is at the top.
    assert ax.get_yticks().tolist() == [2, 1, 0]
    suitable, inconclusive = ax.containers
    assert suitable[0].get_xdata().tolist() == [0.0]
    assert inconclusive[0].get_xydata().tolist() == [[0.1, 1], [0.3, 0]]
    (bars,) = inconclusive[2]
    ends = [segment[:, 0].tolist() for segment in bars.get_segments()]
    np.testing.assert_allclose(ends, [[0.05, 0.2], [0.2, 0.35]])
    assert set(legend(ax)) == {"SUITABLE", "INCONCLUSIVE", "estimated drop"}
    (estimated,) = [c for c in ax.collections if c.get_label() == "estimated drop"]
    assert estimated.get_offsets().tolist() == [[0.01, 2], [0.12, 1], [0.2, 0]]
    assert any(set(line.get_xdata()) == {0.05} for line in ax.lines)


def test_differences():
    table = pd.DataFrame(
        {
            "known_value": [0.1, -0.2],
            "known_low": [0.0, 0.1],
            "known_high": [0.2, 0.35],
            "value": [0.15, 0.25],
            "low": [0.1, 0.2],
            "high": [0.2, 0.3],
            "selective": [0.3, 0.4],
            "oracle": [0.12, 0.12],
        }
    )
    (ax,) = figures.plot_differences(table).axes
    (beneath,) = ax.figure.legends
    words = {text.get_text() for text in beneath.get_texts()}
    assert words == {"propensities told", "fitted", "as seen"}
    lines = {line.get_label(): line for line in ax.lines}
    assert lines["propensities told"].get_ydata().tolist() == [0.1, -0.2]
    assert lines["fitted"].get_xdata().tolist() == [0.3, 1.3]
    bars, _ = ax.collections
    # The second value is outside of its interval, which is drawn as it is.
    np.testing.assert_allclose([s[:, 1] for s in bars.get_segments()], [[0, 0.2], [0.1, 0.35]])
    seen = next(line for line in ax.lines if line.get_label() == "as seen")
    assert seen.get_ydata().tolist() == [0.3, 0.4]
    assert any(set(line.get_ydata()) == {0.12} for line in ax.lines)

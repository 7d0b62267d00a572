"""Figures on P3 show the intervals, regions and scores that they were given."""

import math

import numpy as np
from figure_parts import lines

from lib.audit import AttackCounts, epsilon_interval, epsilon_posterior, privacy_region
from lib.audit.counts import rate_interval
from lib.audit.intervals import METHODS
from lib.studies.audit import figures
from lib.studies.audit import tables as studies
from lib.studies.audit.system import AuditResult, AuditSettings
from lib.training import DataSpec, ModelSpec, TrainingConfig

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


def result(epsilon, proven):
    """Shadow models at three points, eight target models; what attacks see is chosen."""
    settings = AuditSettings(
        DataSpec(train=100, validation=10, test=10),
        TrainingConfig(ModelSpec("linear", (64,), 10), epsilon=epsilon, delta=1e-5, batch_size=10),
        n_shadow=20,
        n_target=8,
        n_challenges=1,
    )
    inside = np.arange(20) % 2 == 0
    members = np.repeat([True, False], 4)
    shadows = np.linspace(-0.1, 0.1, 20)[:, None] + inside[:, None] * [0.0, 9.0, 1.0]
    return AuditResult(
        settings=settings,
        proven=proven,
        noise_multiplier=1.0,
        accuracy=0.5,
        challenges=np.array([1]),
        weights=np.array([1.0]),
        members=members,
        scores={"LiRA": np.r_[4.0, 3, 2, 1, 2.5, 0, -1, -2]},
        held_out={},
        shadows=shadows.astype(np.float32),
        shadow_members=np.repeat(inside[:, None], 3, axis=1),
        seconds=1.0,
    )


def test_shadows_at_the_worst_and_at_a_typical_point():
    figure = figures.plot_shadows(result(3.0, 3.0))
    for ax, apart in zip(figure.axes, (9.0, 1.0), strict=True):
        middle = [np.mean([bar.get_x() for bar in g if bar.get_height()]) for g in ax.containers]
        assert [sum(bar.get_height() for bar in group) for group in ax.containers] == [10, 10]
        assert abs(middle[0] - middle[1] - apart) < 0.5


def test_roc():
    figure = figures.plot_roc([result(3.0, 2.5), result(math.inf, math.inf)], ["LiRA"])
    assert set(lines(figure.axes[1])) == {"LiRA"}  # nothing is proven
    fpr, tpr = lines(figure.axes[0])["LiRA"].get_data()
    # Two members above all others, one non-member next, then the last two members.
    points = {(0.0, 0.5), (0.25, 0.5), (0.25, 1.0), (1.0, 1.0)}
    assert points <= set(zip(fpr.tolist(), tpr.tolist(), strict=True))
    x, bound = lines(figure.axes[0])["proven"].get_data()
    np.testing.assert_allclose(bound, 1 - privacy_region(2.5, 1e-5).lower(x))

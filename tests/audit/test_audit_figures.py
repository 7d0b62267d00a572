"""Figures on P3 show the intervals, regions and scores that they were given."""

import math

import numpy as np
import pandas as pd
import pytest
from figure_parts import legend, lines, ticks

from lib.audit import AttackCounts, epsilon_interval, epsilon_posterior, privacy_region
from lib.audit.counts import rate_interval
from lib.audit.intervals import METHODS
from lib.studies.audit import figures
from lib.studies.audit import tables as studies
from lib.studies.audit.system import AuditResult, AuditSettings
from lib.training import DataSpec, ModelSpec, TrainingConfig

COUNTS = AttackCounts(65, 25, 75, 35)
CERTAIN = AttackCounts(50, 0, 50, 0)
NAMES = ["Bayesian", "Jeffreys", "Clopper-Pearson"]


@pytest.mark.parametrize("proven", [None, 3.0])
def test_posterior(proven):
    top, below = figures.plot_posterior(COUNTS, 0.05, 0.9, proven).axes
    eps, density = top.lines[0].get_data()
    np.testing.assert_allclose(density, epsilon_posterior(COUNTS, 0.05).pdf(eps))
    assert ticks(below.yaxis) == NAMES
    bars = [
        line for line in below.lines if len(line.get_xdata()) == 2 and line.get_linewidth() == 3
    ]
    for place, (method, bar) in enumerate(zip(METHODS, bars, strict=True)):
        np.testing.assert_allclose(bar.get_xdata(), epsilon_interval(COUNTS, 0.05, 0.9, method))
        assert set(bar.get_ydata()) == {place}
        assert bar.get_marker() == "|"
    words = [text.get_text() for text in top.texts]
    assert words == ([] if proven is None else ["accountant"])
    if proven is not None:
        for ax in (top, below):
            assert any(set(line.get_xdata()) == {3.0} for line in ax.lines)
        assert below.get_xlim()[1] >= 1.15 * 3


def test_posterior_of_an_infinite_interval_has_an_arrow():
    _, below = figures.plot_posterior(CERTAIN, 1e-5, 0.9).axes
    right = below.get_xlim()[1]
    arrows = [line for line in below.lines if line.get_marker() == ">"]
    infinite = [
        place
        for place, method in enumerate(METHODS)
        if math.isinf(epsilon_interval(CERTAIN, 1e-5, 0.9, method)[1])
    ]
    assert infinite
    assert [int(line.get_ydata()[0]) for line in arrows] == infinite
    for line in arrows:
        assert line.get_xdata()[0] == pytest.approx(right)


def test_privacy_regions_lie_in_each_other():
    (ax,) = figures.plot_privacy_regions([0.5, 2.0], 0.01).axes
    assert legend(ax) == [r"$\epsilon = 2$", r"$\epsilon = 0.5$"]
    (_, outer), (_, outer_high), (_, inner), (_, inner_high) = (x.get_data() for x in ax.lines)
    fnr = ax.lines[0].get_xdata()
    np.testing.assert_allclose(outer, privacy_region(2.0, 0.01).lower(fnr))
    np.testing.assert_allclose(inner_high, privacy_region(0.5, 0.01).upper(fnr))
    assert (outer <= inner).all()
    assert (outer_high >= inner_high).all()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("FNR", "FPR")


def test_joint_posterior_has_the_rectangle_of_both_rates():
    (ax,) = figures.plot_joint(COUNTS, 0.05, 0.9).axes
    (box,) = ax.patches
    x = rate_interval(35, 100, 0.025, "jeffreys")
    y = rate_interval(25, 100, 0.025, "jeffreys")
    assert (box.get_x(), box.get_x() + box.get_width()) == pytest.approx(x)
    assert (box.get_y(), box.get_y() + box.get_height()) == pytest.approx(y)
    assert legend(ax) == ["Bayesian", "Jeffreys"]
    low, _ = epsilon_interval(COUNTS, 0.05, 0.9, "bayesian")
    fnr, shown = lines(ax)["Bayesian"].get_data()
    np.testing.assert_allclose(shown, privacy_region(low, 0.05).lower(fnr))
    assert len(ax.lines) == 4  # two ends by two methods
    assert ax.get_xlim()[0] < 0.35 < ax.get_xlim()[1]
    assert ax.get_ylim()[0] < 0.25 < ax.get_ylim()[1]


def test_convergence_says_trials_and_interval():
    tables = studies.growing_counts(0.2, [20, 100, 1000, 10_000], seed=0)
    figure = figures.plot_convergence(tables, 1e-5, 0.9)
    for ax, counts in zip(figure.axes, tables, strict=True):
        low, high = epsilon_interval(counts, 1e-5, 0.9)
        n = counts.positives + counts.negatives
        assert ax.get_title() == f"{n:,} trials:\n{low:.2g} to {high:.2g}"
        assert len(ax.collections) >= 3  # two bands and the contours
    assert (figure.get_supxlabel(), figure.get_supylabel()) == ("FNR", "FPR")


def test_widths_by_trials():
    table = studies.widths_by_trials(0.2, [100, 200, 400], 1e-5)
    truth = math.log(4)
    (ax,) = figures.plot_widths(table, 0.2, truth).axes
    assert legend(ax) == NAMES
    assert ax.get_xlim() == (100, 400)
    for place, (_, rows) in enumerate(table.groupby("method", sort=False)):
        low, high = ax.lines[2 * place : 2 * place + 2]
        np.testing.assert_array_equal(low.get_ydata(), rows["low"])
        np.testing.assert_array_equal(high.get_ydata(), rows["high"])


def test_width_grid_has_a_panel_a_method():
    table = studies.width_grid([0.1, 0.3], 100, 1e-5)
    figure = figures.plot_width_grid(table)
    assert [ax.get_title() for ax in figure.axes[:3]] == NAMES[::-1]
    for ax, method in zip(figure.axes, METHODS[::-1], strict=False):
        shown = np.asarray(ax.collections[0].get_array())
        np.testing.assert_allclose(shown.ravel(), table[method])  # by FPR, then by FNR
    assert figure.axes[3].get_ylabel() == "width of the interval"


@pytest.mark.parametrize("trials", [[20], [20, 40]])
def test_coverage(trials):
    table = studies.coverage_table([(0.2, 0.2), (0.1, 0.3)], trials, 1e-5, 0.9)
    figure = figures.plot_coverage(table, 0.9)
    assert [ax.get_title() for ax in figure.axes] == [f"{n} trials" for n in trials]
    assert legend(figure.axes[0]) == NAMES
    rows = table[table["trials"] == 20].sort_values("epsilon")
    for method, name in zip(METHODS, NAMES, strict=True):
        shown = lines(figure.axes[0])[name]
        np.testing.assert_array_equal(shown.get_ydata(), rows[method])
        assert (np.abs(shown.get_xdata() - rows["epsilon"]) < 0.04).all()
    assert set(figure.axes[0].lines[0].get_ydata()) == {0.9}


def test_selection():
    rows = [
        (mu, method, choice, 0.01 * k)
        for k, (mu, method, choice) in enumerate(
            (mu, method, choice)
            for mu in (0.0, 1.0)
            for method in ("bayesian", "clopper-pearson")
            for choice in ("fixed", "best")
        )
    ]
    table = pd.DataFrame(rows, columns=["mu", "method", "choice", "exceeds"])
    figure = figures.plot_selection(table, 0.9)
    assert [ax.get_title() for ax in figure.axes] == ["Bayesian", "Clopper-Pearson"]
    assert legend(figure.axes[0]) == [r"$\mu = 0$", r"$\mu = 1$"]
    heights = [
        [[bar.get_height() for bar in group] for group in ax.containers] for ax in figure.axes
    ]
    np.testing.assert_allclose(heights, [[[0, 0.01], [0.04, 0.05]], [[0.02, 0.03], [0.06, 0.07]]])
    assert ticks(figure.axes[1].xaxis) == ["fixed", "best"]


def result(epsilon, proven):
    """Six shadow models at three points, eight target models; what attacks see is chosen."""
    settings = AuditSettings(
        DataSpec(train=100, validation=10, test=10),
        TrainingConfig(ModelSpec("linear", (64,), 10), epsilon=epsilon, delta=1e-5, batch_size=10),
        n_shadow=20,
        n_target=8,
        n_challenges=1,
    )
    inside = np.arange(20) % 2 == 0
    shadows = np.linspace(-1, 1, 20)[:, None] * [0.1, 0.1, 0.1] + inside[:, None] * [0.0, 9.0, 1.0]
    members = np.repeat([True, False], 4)
    return AuditResult(
        settings=settings,
        proven=proven,
        noise_multiplier=1.0,
        accuracy=0.5,
        challenges=np.array([1]),
        weights=np.array([1.0]),
        members=members,
        scores={"LiRA": np.r_[4.0, 3, 2, 1, 2.5, 0, -1, -2], "threshold": members.astype(float)},
        held_out={},
        shadows=shadows.astype(np.float32),
        shadow_members=np.repeat(inside[:, None], 3, axis=1),
        seconds=1.0,
    )


def test_shadows_at_the_worst_and_at_a_typical_point():
    figure = figures.plot_shadows(result(3.0, 3.0))
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ["the worst challenge point", "a typical point"]
    assert legend(figure.axes[0]) == ["in", "out"]
    for ax, apart in zip(figure.axes, (9.0, 1.0), strict=True):
        counts = [np.array([bar.get_height() for bar in group]) for group in ax.containers]
        middle = [np.mean([bar.get_x() for bar in g if bar.get_height()]) for g in ax.containers]
        assert [c.sum() for c in counts] == [10, 10]
        assert middle[0] - middle[1] == pytest.approx(apart, abs=0.5)


def test_roc_without_proof_and_without_one_of_the_attacks():
    figure = figures.plot_roc([result(3.0, 2.5), result(math.inf, math.inf)], ["LiRA", "none"])
    assert [ax.get_title() for ax in figure.axes] == [r"$\epsilon = 3$", "without privacy"]
    assert legend(figure.axes[0]) == ["LiRA", "proven"]
    assert set(lines(figure.axes[1])) == {"LiRA"}  # nothing is proven
    assert lines(figure.axes[0])["LiRA"].get_drawstyle() == "steps-post"
    fpr, tpr = lines(figure.axes[0])["LiRA"].get_data()
    points = set(zip(fpr.tolist(), tpr.tolist(), strict=True))
    # Two members above all others, one non-member next, then the last two members.
    assert {(0.0, 0.5), (0.25, 0.5), (0.25, 1.0), (1.0, 1.0)} <= points
    x, bound = lines(figure.axes[0])["proven"].get_data()
    np.testing.assert_allclose(bound, 1 - privacy_region(2.5, 1e-5).lower(x))
    (alone,) = figures.plot_roc([result(3.0, 2.5)], ["threshold"]).axes
    assert legend(alone) == ["threshold", "proven"]


def test_one_run():
    rows = [
        (epsilon, way, models, 0.1 * models * epsilon + (way == "many runs"))
        for epsilon in (3.0, 8.0)
        for way in ("many runs", "one run each")
        for models in (1, 10)
    ]
    table = pd.DataFrame(rows, columns=["epsilon", "audit", "models", "lower bound"])
    figure = figures.plot_one_run(table)
    assert [ax.get_title() for ax in figure.axes] == [r"$\epsilon = 3$", r"$\epsilon = 8$"]
    assert legend(figure.axes[0]) == ["many runs", "one run each"]
    many, one = figure.axes[1].lines
    np.testing.assert_allclose(many.get_data(), [[1, 10], [1.8, 9]])
    np.testing.assert_allclose(one.get_data(), [[1, 10], [0.8, 8]])
    (alone,) = figures.plot_one_run(table[table["epsilon"] == 3.0]).axes
    assert alone.get_xscale() == "log"

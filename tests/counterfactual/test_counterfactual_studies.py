"""What the chapter on counterfactual evaluation shows: tables recomputed, figures read back."""

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from scipy import stats

from lib.counterfactual import (
    ESTIMATORS,
    confidence_sequence,
    contamination_bounds,
    estimate_from_nuisances,
    influence_values,
)
from lib.plot import COLOURS, MARKERS
from lib.report.figures import plot_contamination
from lib.studies.counterfactual import figures
from lib.studies.counterfactual import tables as studies
from lib.studies.counterfactual.classifiers import simulate, true_difference
from lib.studies.counterfactual.tables import (
    claims_of_cells,
    coverage_table,
    oracle_nuisances,
    pointwise_interval,
    sequence_study,
)

Z = 1.959963984540054
PREFIX = "P4-E1-"


def rows_of(counts, **others):
    """Rows as of run_cells: (learner, estimator) to misses."""
    return pd.DataFrame(
        [
            {
                "learner": learner,
                "estimator": estimator,
                "repetitions": 200,
                "miscovered": count,
                "miscoverage": count / 200,
                "population_miscoverage": count / 400,
                "width": 0.1 + count / 1000,
                "bias": -0.01 * k,
                "spread": 0.02 * k,
                **others,
            }
            for k, ((learner, estimator), count) in enumerate(counts.items())
        ]
    )


# ------------------------------------------------------------------ what an oracle knows


@pytest.mark.parametrize(("experiment", "shift"), [("curved", 0.0), ("shifted", 0.3)])
def test_told_functions_are_the_true_ones(experiment, shift):
    """Mean scores and abstentions in 100 cells of the square, on either side of both boundaries."""
    drawn = simulate(200_000, experiment, 0.2, shift, rng=0)
    cell = np.floor(drawn.X * 10).astype(int) @ [10, 1]
    for k, one in enumerate(oracle_nuisances(drawn)):
        s, r = drawn.scores[k], drawn.abstained[k]
        assert set(one.outcome) == ({0.85} if k == 0 else {0.15, 0.85})
        np.testing.assert_array_equal(one.propensity, drawn.propensities[k])
        np.testing.assert_array_equal(one.abstained, r)
        np.testing.assert_array_equal(one.scores, np.where(r, 0, s))
        for hits, expected in ((s, one.outcome), (r, one.propensity)):
            for rows in (~r, r) if hits is s else (np.full(len(r), True),):
                error = np.bincount(cell[rows], (hits - expected)[rows], 100)
                variance = np.bincount(cell[rows], (expected * (1 - expected))[rows], 100)
                assert np.abs(error / np.sqrt(variance)).max() < 4.5
        assert abs((s - one.outcome)[one.outcome < 0.5].sum()) <= 4 * math.sqrt(
            0.15 * 0.85 * (one.outcome < 0.5).sum()
        )


# ------------------------------------------------------------------ tables


def test_claims_of_cells():
    results = rows_of({("linear", "plug-in"): 200, ("linear", "ipw"): 100, ("forest", "dr"): 16})
    reported = {
        "P4-E1-linear-plug-in": (1.0, 0.0),
        "P4-E1-linear-ipw": (0.5, 0.0),
        "P4-E1-forest-dr": (0.054, 0.0),
        "P4-E1-super-dr": (0.047, 0.0),
        "P4-E1-super-plug-in": (0.906, 0.0),
    }
    found = claims_of_cells(results, reported, PREFIX)
    assert list(found) == list(reported)
    assert found["P4-E1-linear-plug-in"] == (0.0, 1.0, 200)
    assert found["P4-E1-linear-ipw"] == (0.0, 0.5, 200)
    pooled = (16 + 54) / 1200
    z = 0.026 / math.sqrt(pooled * (1 - pooled) * (1 / 200 + 1 / 1000))
    assert found["P4-E1-forest-dr"] == pytest.approx((z, 0.08, 200))
    for estimator in ("dr", "plug-in"):
        assert found[f"P4-E1-super-{estimator}"] == "no repetitions with super in this profile"
    assert claims_of_cells(results, {}, PREFIX) == {}


def test_coverage_table():
    results = rows_of({("super", "dr"): 10, ("forest", "ipw"): 20, ("linear", "plug-in"): 30})
    found = coverage_table(results[1:])  # whatever its index
    assert found.index.tolist() == [0, 1]
    assert found.to_dict("records") == [
        {
            "learner": learner,
            "estimator": estimator,
            "repetitions": 200,
            "misses sample": count / 200,
            "misses population": count / 400,
            "width": 0.1 + count / 1000,
            "bias": -0.01 * k,
            "spread": 0.02 * k,
        }
        for learner, estimator, count, k in (
            ("random forest", "IPW", 20, 1),
            ("linear", "plug-in", 30, 2),
        )
    ]
    assert coverage_table(results)["estimator"][0] == "doubly robust"


@pytest.mark.parametrize("start", [1, 60])
def test_pointwise_interval_by_a_loop(start):
    x = np.random.default_rng(3).exponential(size=60)
    low, high = pointwise_interval(x, start)
    assert low.shape == high.shape == (60 - start + 1,)
    for i, n in enumerate(range(start, 61)):
        half = Z * x[:n].std() / math.sqrt(n)
        ends = x[:n].mean() - half, x[:n].mean() + half
        assert (low[i], high[i]) == pytest.approx(ends, abs=1e-12)


def test_sequence_study_by_hand():
    """The streams one after the other from one generator, and each interval looked at."""
    found = sequence_study(12, 160, 80, rng=5)
    rng, truth = np.random.default_rng(5), true_difference()
    counts = {"sequence": 0, "pointwise": 0, "slide": 0, "streams": 12}
    for _ in range(12):
        a, b = oracle_nuisances(simulate(160, rng=rng))
        x = influence_values(a) - influence_values(b)
        sequence = confidence_sequence(x, start=80)
        ever = {"sequence": False, "pointwise": False, "slide": False}
        for i, n in enumerate(range(80, 161)):
            half = Z * x[:n].std() / math.sqrt(n)
            ever["pointwise"] |= abs(x[:n].mean() - truth) > half
            ever["sequence"] |= not sequence.lower[i] <= truth <= sequence.upper[i]
            # As printed: n sigma^2 for rho^2 n, and sigma once more before the root.
            var = x[:n].var()
            inner = (2 * n * var + 1) / n**2 * math.log(math.sqrt(n * var + 1) / 0.05)
            ever["slide"] |= abs(x[:n].mean() - truth) > math.sqrt(var) * math.sqrt(inner)
        for name, flag in ever.items():
            counts[name] += flag
    assert found == counts
    assert found == sequence_study(12, 160, 80, rng=np.random.default_rng(5))
    assert 0 < counts["pointwise"] < 12


# ------------------------------------------------------------------ figures


def complete(figure, axes):
    """Check what every figure must have, draw it (warnings are errors), and give its legend."""
    assert len(figure.axes) == axes
    assert figure.axes[-1].get_xlabel()
    figure.canvas.draw()
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert len(set(texts)) == len(texts)
    assert all(texts)
    return texts


def data_of(line):
    return np.column_stack(line.get_data())


def band(collection):
    """Lower and upper ends of a filled band, by x."""
    vertices = np.unique(collection.get_paths()[0].vertices, axis=0)
    xs = np.unique(vertices[:, 0])
    ends = [vertices[vertices[:, 0] == x, 1] for x in xs]
    return xs, np.array([e.min() for e in ends]), np.array([e.max() for e in ends])


@pytest.mark.parametrize("n", [400, 900])
def test_plot_classifiers(n):
    drawn = simulate(n, rng=0)
    figure = figures.plot_classifiers(drawn)
    assert complete(figure, 2) == ["abstains", "right", "wrong"]
    shown = min(n, 600)
    for k, ax in enumerate(figure.axes):
        hidden, right = drawn.abstained[k][:shown], drawn.scores[k][:shown] == 1
        kinds = (hidden, ~hidden & right, ~hidden & ~right)
        assert len(ax.collections) == 3
        for collection, rows in zip(ax.collections, kinds, strict=True):
            np.testing.assert_array_equal(collection.get_offsets(), drawn.X[:shown][rows])
        (line,) = ax.lines
        x, y = line.get_data()
        assert ((x >= 0) & (x <= 1) & (y >= 0) & (y <= 1)).all()
        np.testing.assert_allclose(x + y if k == 0 else x**2 + y**2, 1 if k == 0 else 0.8)
        assert np.ptp(x) > (0.99 if k == 0 else 0.88)
        assert ax.get_ylabel().startswith("AB"[k])


def test_plot_propensities():
    drawn = simulate(300, rng=1)
    diagnostics = estimate_from_nuisances(oracle_nuisances(drawn), clip=0.2).diagnostics
    figure = figures.plot_propensities(diagnostics)
    assert complete(figure, 2) == ["answered", "abstained"]
    for k, ax in enumerate(figure.axes):
        found = [patch.get_data() for patch in ax.patches]
        assert len(found) == 4  # an area and an outline for each
        for pair, r in zip((found[:2], found[2:]), (False, True), strict=True):
            chosen = drawn.propensities[k][drawn.abstained[k] == r]
            for values, edges, _ in pair:
                np.testing.assert_allclose(edges, np.linspace(0, 1, 21))
                np.testing.assert_array_equal(values, np.histogram(chosen, edges)[0])
        assert ax.get_ylabel() == f"{'AB'[k]}: points"
    plt.close(figure)
    assert complete(figures.plot_propensities(diagnostics[:1]), 1) == ["answered", "abstained"]


def test_plot_miscoverage():
    counts = {
        (learner, estimator): 10 * i + 30 * j
        for i, estimator in enumerate(("ipw", "dr", "plug-in"))
        for j, learner in enumerate(("forest", "super"))
    }
    printed = {key: 0.9 - count / 1000 for key, count in counts.items()}
    figure = figures.plot_miscoverage(rows_of(counts), printed)
    assert complete(figure, 2) == ["here", "P4"]
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["forest", "super learner"]
    for learner, ax in zip(("forest", "super"), figure.axes, strict=True):
        assert [t.get_text() for t in ax.get_yticklabels()] == ["doubly robust", "IPW", "plug-in"]
        *lines, at_level = ax.lines
        assert data_of(at_level)[:, 0] == pytest.approx(0.05)
        assert len(lines) == 9
        for y, estimator in enumerate(("dr", "ipw", "plug-in")):
            interval, ours, theirs = map(data_of, lines[3 * y : 3 * y + 3])
            count = counts[learner, estimator]
            low = stats.beta.ppf(0.025, count, 201 - count) if count else 0
            high = stats.beta.isf(0.025, count + 1, 200 - count)
            assert interval.ravel() == pytest.approx([low, y, high, y], abs=1e-9)
            assert ours.ravel() == pytest.approx([count / 200, y])
            assert theirs.ravel() == pytest.approx([printed[learner, estimator], y])


def test_plot_power():
    table = pd.DataFrame(
        [
            {"n": n, "shift": shift, "rejected": k, "repetitions": 50, "power": k / 50}
            for n, ks in ((3200, (50, 4, 20)), (200, (30, 0, 7)))
            for shift, k in zip((0.4, 0.0, 0.1), ks, strict=True)
        ]
    )
    figure = figures.plot_power(table)
    assert complete(figure, 1) == ["200", "3,200"]
    (ax,) = figure.axes
    *lines, at_level = ax.lines
    assert data_of(at_level)[:, 1] == pytest.approx(0.05)
    expected = ([0, 7, 30], [4, 20, 50])
    for k, (line, area, counts) in enumerate(zip(lines, ax.collections, expected, strict=True)):
        np.testing.assert_allclose(data_of(line), np.c_[[0, 0.1, 0.4], np.array(counts) / 50])
        assert (line.get_color(), line.get_marker()) == (COLOURS[k], MARKERS[k])
        xs, low, high = band(area)
        assert xs == pytest.approx([0, 0.1, 0.4])
        for count, one, other in zip(counts, low, high, strict=True):
            found = stats.binomtest(count, 50).proportion_ci(0.95, method="exact")
            assert (one, other) == pytest.approx((found.low, found.high), abs=1e-9)
    assert ax.get_ylabel() == "fraction of rejections"
    assert "shift" in ax.get_xlabel()


def test_plot_positivity():
    table = pd.concat(
        rows_of({("forest", e): 10 + 5 * k for k, e in enumerate(ESTIMATORS)}, epsilon=epsilon)
        for epsilon in (0.3, 0.1, 0.5)
    )
    table["width"] += table["epsilon"]
    table["miscoverage"] += table["epsilon"] / 10
    figure = figures.plot_positivity(table)
    assert complete(figure, 2) == ["plug-in", "IPW", "doubly robust"]
    for ax, column in zip(figure.axes, ("miscoverage", "width"), strict=True):
        assert column in ax.get_ylabel()
        for line, estimator in zip(ax.lines, ("plug-in", "ipw", "dr"), strict=False):
            rows = table[table["estimator"] == estimator].set_index("epsilon")[column]
            expected = [[epsilon, rows[epsilon]] for epsilon in (0.1, 0.3, 0.5)]
            np.testing.assert_allclose(data_of(line), expected)
    assert len(figure.axes[0].lines) == 4
    assert data_of(figure.axes[0].lines[3])[:, 1] == pytest.approx(0.05)
    assert figure.axes[1].get_ylim()[0] == 0


def test_plot_scenarios():
    table = pd.DataFrame(
        {
            "data": ["digits", "digits", "cifar10"],
            "scenario": ["I", "II", "I, pair"],
            "low": [-0.1, 0.0, 0.2],
            "high": [0.1, 0.2, 0.3],
            "true difference": [0.0, 0.1, 0.25],
            "selective difference": [0.05, -0.3, 0.4],
        },
        index=[4, 2, 9],
    )
    figure = figures.plot_scenarios(table)
    assert complete(figure, 1) == ["95% interval", "truth", "selective scores"]
    (ax,) = figure.axes
    names = [("cifar10", "I, pair"), ("digits", "II"), ("digits", "I")]  # from below
    for text, (images, scenario) in zip(ax.get_yticklabels(), names, strict=True):
        assert text.get_text().startswith(images)
        assert text.get_text().endswith(scenario)
    *lines, zero = ax.lines
    assert data_of(zero)[:, 0].tolist() == [0, 0]
    assert len(lines) == 9
    for y, (_, row) in enumerate(table[::-1].iterrows()):
        interval, truth, selective = map(data_of, lines[3 * y : 3 * y + 3])
        assert interval.tolist() == [[row["low"], y], [row["high"], y]]
        assert truth.tolist() == [[row["true difference"], y]]
        assert selective.tolist() == [[row["selective difference"], y]]


def test_plot_sequence():
    drawn = simulate(400, rng=2)
    known = estimate_from_nuisances(oracle_nuisances(drawn), clip=0.2)
    sequence = confidence_sequence(known.influence, start=100)
    fixed = pointwise_interval(known.influence, 100)
    figure = figures.plot_sequence(sequence, fixed, 0.08)
    assert complete(figure, 1) == ["valid at all times", "estimate", "valid at one time", "truth"]
    (ax,) = figure.axes
    assert ax.get_xscale() == "log"
    xs, low, high = band(ax.collections[0])
    np.testing.assert_array_equal(xs, np.arange(100, 401))
    np.testing.assert_allclose(low, sequence.lower)
    np.testing.assert_allclose(high, sequence.upper)
    centre, *ends, truth, zero = ax.lines
    np.testing.assert_array_equal(data_of(centre), np.c_[sequence.n, sequence.centre])
    for line, end in zip(ends, fixed, strict=True):
        np.testing.assert_array_equal(data_of(line), np.c_[sequence.n, end])
        assert line.get_linestyle() == "--"
    assert set(data_of(truth)[:, 1]) == {0.08}
    assert data_of(zero)[:, 1].tolist() == [0, 0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("points so far", "difference A - B")


@pytest.mark.parametrize("truth", [None, 0.0, 0.07])
def test_plot_contamination(truth):
    known = estimate_from_nuisances(oracle_nuisances(simulate(300, rng=3)), clip=0.2)
    table = contamination_bounds(known, [0, 0.1, 0.2, 0.5])
    figure = plot_contamination(table, truth)
    names = ["95% interval of the bounds", "bounds"]
    assert complete(figure, 1) == names + ["truth"] * (truth is not None)
    (ax,) = figure.axes
    xs, low, high = band(ax.collections[0])
    np.testing.assert_allclose(xs, table["share"])
    np.testing.assert_allclose(low, table["ci_low"])
    np.testing.assert_allclose(high, table["ci_high"])
    lower, upper, *others = ax.lines
    np.testing.assert_allclose(data_of(lower), table[["share", "low"]])
    np.testing.assert_allclose(data_of(upper), table[["share", "high"]])
    assert to_hex(lower.get_color()) == to_hex(upper.get_color())
    heights = [data_of(line)[0, 1] for line in others]
    assert heights == ([0] if truth is None else [truth, 0])


def test_rules_are_seen_and_bounded():
    table = studies.rules_table([0.2], rng=0)
    assert list(table["data"]) == ["digits", "breast_cancer", "wine"]
    assert table["seen"].str.contains("confidence alone tells").all()
    assert (table["bound low"] <= table["truth"]).all()
    assert (table["truth"] <= table["bound high"]).all()
    assert ((table["bound high"] - table["bound low"]) >= table["abstained"]).all()
    digits = table.set_index("data").loc["digits"]
    assert not digits["low"] <= digits["truth"] <= digits["high"]

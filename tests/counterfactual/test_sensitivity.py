"""Sensitivity to clipping and to scores not missing at random: brute force, simulation."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, special

from lib.counterfactual import (
    Estimate,
    Nuisances,
    counterfactual_difference,
    counterfactual_score,
    estimate_from_nuisances,
)
from lib.counterfactual.sensitivity import (
    breakdown_share,
    clipping_sensitivity,
    contamination_bounds,
)

Z = 1.959963984540054
SHARES = np.array([0.0, 0.01, 0.07, 0.1, 0.25, 0.33, 0.5, 0.8, 0.97, 1.0])


class Population:
    """Discrete X, with a table of all points in exact proportions.

    Cell k has `size[k]` points; of each classifier, `abstained[k]` are abstained on and `right[k]`
    of the rest have the higher of two scores.  Of two classifiers, all combinations of what each
    does in a cell are there in the proportions of independence.
    """

    def __init__(self, rng, cells=6, classifiers=1, scores=(0.0, 1.0)):
        self.scores = scores
        base = 12
        self.pi = rng.integers(1, base - 1, (classifiers, cells)) / base
        self.right = np.round(rng.uniform(0.1, 0.9, (classifiers, cells)), 1)
        self.mass = rng.integers(1, 6, cells)
        self.p = self.mass / self.mass.sum()
        self.mu = scores[0] + self.right * (scores[1] - scores[0])

    def outcomes(self):
        """Each kind of point: cell, (R, S) of each classifier, and its probability."""
        kinds = []
        for k, p in enumerate(self.p):
            each = [
                (
                    (True, 0.0, pi[k]),
                    (False, self.scores[1], (1 - pi[k]) * right[k]),
                    (False, self.scores[0], (1 - pi[k]) * (1 - right[k])),
                )
                for pi, right in zip(self.pi, self.right, strict=True)
            ]
            combined = [((), p)]
            for options in each:
                combined = [
                    ((*got, (r, s)), q * weight)
                    for got, q in combined
                    for r, s, weight in options
                    if weight > 0
                ]
            kinds += [(k, got, q) for got, q in combined]
        return kinds

    def nuisances(self):
        """The exact ones, for points in exact proportions."""
        kinds = self.outcomes()
        # All probabilities are multiples of the smallest unit.
        unit = 1 / (self.mass.sum() * 120 ** len(self.pi))
        counts = np.array([q / unit for _, _, q in kinds])
        assert np.allclose(counts, np.round(counts))
        counts = np.round(counts).astype(int)
        counts //= np.gcd.reduce(counts)
        cell = np.repeat([k for k, _, _ in kinds], counts)
        return tuple(
            Nuisances(
                np.repeat([got[i][0] for _, got, _ in kinds], counts),
                np.repeat([got[i][1] for _, got, _ in kinds], counts),
                self.pi[i][cell],
                self.mu[i][cell],
            )
            for i in range(len(self.pi))
        )

    def programme(self, gamma, low, high, sign):
        """The bound by a linear programme: what shares of the cells, and what means there.

        Variables: c, the contaminated share of a cell, and for each classifier d = c m.
        """
        cells, m = len(self.p), len(self.pi)
        weight = np.array([1.0, -1.0])[:m]
        base = float(sum(w * self.p @ mu for w, mu in zip(weight, self.mu, strict=True)))
        cost = np.concatenate(
            [-sum(w * self.p * a * b for w, a, b in zip(weight, self.pi, self.mu, strict=True))]
            + [w * self.p * a for w, a in zip(weight, self.pi, strict=True)]
        )
        rows, limits = [np.concatenate([self.p, np.zeros(m * cells)])], [gamma]
        for i in range(m):
            for k in range(cells):
                for bound, direction in ((low, -1), (high, 1)):
                    row = np.zeros((m + 1) * cells)
                    row[(i + 1) * cells + k] = direction
                    row[k] = -direction * bound
                    rows.append(row)
                    limits.append(0.0)
        found = optimize.linprog(
            -sign * cost,
            A_ub=np.array(rows),
            b_ub=limits,
            bounds=[(0, 1)] * cells + [(None, None)] * (m * cells),
        )
        assert found.status == 0
        return base - sign * found.fun


def of(population, clip=0.01, level=0.95) -> Estimate:
    return estimate_from_nuisances(population.nuisances(), clip=clip, level=level)


def noisy(rng, n=400, classifiers=1) -> Estimate:
    """Nuisances that are wrong, predictions out of range, no ties."""
    made = []
    for _ in range(classifiers):
        pi = rng.uniform(0.05, 0.9, n)
        r = rng.random(n) < pi
        s = np.where(r, 0.0, rng.random(n) < 0.7)
        made.append(
            Nuisances(r, s, np.clip(pi + rng.normal(0, 0.1, n), 0, 1), 0.7 + rng.normal(0, 0.3, n))
        )
    return estimate_from_nuisances(made, clip=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("classifiers", [1, 2])
@pytest.mark.parametrize("scores", [(0.0, 1.0), (-0.5, 1.5)])
def test_bounds_by_linear_programming(classifiers, scores):
    for seed in range(3):
        population = Population(np.random.default_rng(seed), 5 - classifiers, classifiers, scores)
        score_range = (scores[0] - 0.25, scores[1])
        table = contamination_bounds(of(population), SHARES, score_range)
        for row in table.itertuples():
            assert row.low == pytest.approx(
                population.programme(row.share, *score_range, -1), abs=1e-9
            )
            assert row.high == pytest.approx(
                population.programme(row.share, *score_range, 1), abs=1e-9
            )


def exact(probabilities, gamma, low, high, sign):
    """The bound of any law of one classifier, {(cell, R, S): probability}, by sorting cells."""
    total = np.zeros((3, 1 + max(cell for cell, _, _ in probabilities)))
    for (cell, r, s), p in probabilities.items():
        total[:, cell] += p, p * r, p * (1 - r) * s
    mass, abstained, seen = total
    pi, mu = abstained / mass, seen / (mass - abstained)
    g = pi * (mu - low if sign < 0 else high - mu)
    order = np.argsort(-g)
    before = np.concatenate([[0.0], np.cumsum(mass[order])[:-1]])
    taken = np.clip(gamma - before, 0, mass[order])
    return mass @ mu + sign * taken @ g[order]


def further(estimate, side):
    """How much further out an end of the estimate is than a normal one."""
    half = abs(estimate.interval[side] - estimate.value)
    return max(0.0, half - Z * estimate.stderr)


def test_standard_error_is_that_of_the_influence_function():
    """By its definition: the bound's derivative as the law is mixed with each single point."""
    population = Population(np.random.default_rng(3), 6)
    estimate, n = of(population), len(population.nuisances()[0].scores)
    law = {(k, r, s): p for k, ((r, s),), p in population.outcomes()}
    step, ends = 1e-6, np.cumsum(population.p)
    for gamma in (0.0, 0.12, 0.31, 0.5, 0.77, 0.93, 1.0):
        row = contamination_bounds(estimate, [gamma]).iloc[0]
        for sign, width in ((-1, row.low - row.ci_low), (1, row.ci_high - row.high)):
            variance = 0.0
            for point, p in law.items():
                moved = [
                    exact(
                        {o: (1 - t) * q + t * (o == point) for o, q in law.items()},
                        gamma,
                        0.0,
                        1.0,
                        sign,
                    )
                    for t in (step, -step)
                ]
                variance += p * ((moved[0] - moved[1]) / (2 * step)) ** 2
            more = further(estimate, 0 if sign < 0 else 1)
            assert width == pytest.approx(Z * math.sqrt(variance / n) + more, rel=1e-5)
    assert np.abs(np.subtract.outer(ends, [0.12, 0.31, 0.5, 0.77, 0.93])).min() > 1e-3


@pytest.mark.parametrize("classifiers", [1, 2])
def test_neyman_orthogonality(classifiers):
    """Wrong nuisances move the bounds to second order only; plain plug-in ones to first."""
    rng = np.random.default_rng(7)
    population = Population(rng, 5 - classifiers, classifiers)
    truth = population.nuisances()
    shares = np.array([0.0, 0.13, 0.37, 0.61, 0.88])
    cells = [np.unique(item.propensity, return_inverse=True)[1] for item in truth]
    directions = [rng.choice([-1.0, 1.0], (2, 12)) for _ in truth]

    def moved(t):
        items = [
            replace(
                item,
                propensity=item.propensity + t * direction[0][cell],
                outcome=item.outcome + t * direction[1][cell],
            )
            for item, cell, direction in zip(truth, cells, directions, strict=True)
        ]
        estimate = estimate_from_nuisances(items, clip=0.01)
        table = contamination_bounds(estimate, shares)
        plain = sum(
            w * item.outcome.mean() for w, item in zip((1, -1)[:classifiers], items, strict=True)
        )
        return table[["low", "high"]].to_numpy(), plain

    step = 1e-4
    (up, plain_up), (down, plain_down), (middle, _) = moved(step), moved(-step), moved(0.0)
    assert np.abs(up - down).max() / (2 * step) < 1e-6
    assert abs(plain_up - plain_down) / (2 * step) > 0.05
    # And the second order is there: twice the error, four times the bias.
    once, twice = up + down - 2 * middle, moved(2 * step)[0] + moved(-2 * step)[0] - 2 * middle
    assert np.abs(once).max() > 1e-9
    assert twice == pytest.approx(4 * once, rel=1e-3, abs=1e-13)


@pytest.mark.parametrize("classifiers", [1, 2])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-0.5, 1.25)])
def test_no_contamination_and_nothing_else(classifiers, low, high):
    """At 0 it is the estimate; at 1, whatever the nuisance functions, Manski's worst case."""
    rng = np.random.default_rng(1)
    for _ in range(5):
        estimate = noisy(rng, 300, classifiers)
        none, all_ = contamination_bounds(estimate, [0, 1], (low, high)).itertuples()
        assert none.low == none.high == estimate.value
        half = Z * estimate.stderr
        ends = none.low - half - further(estimate, 0), none.high + half + further(estimate, 1)
        assert (none.ci_low, none.ci_high) == pytest.approx(ends, abs=1e-9)
        ends = [
            [np.where(one.abstained, end, one.scores) for end in (low, high)]
            for one in estimate.nuisances
        ]
        worst = [ends[0][0] - ends[1][1], ends[0][1] - ends[1][0]] if classifiers == 2 else ends[0]
        assert [all_.low, all_.high] == pytest.approx([e.mean() for e in worst], abs=1e-12)
        half = [Z * e.std() / math.sqrt(300) for e in worst]
        assert all_.ci_low == pytest.approx(all_.low - half[0] - further(estimate, 0), abs=1e-6)
        assert all_.ci_high == pytest.approx(all_.high + half[1] + further(estimate, 1), abs=1e-6)


def test_estimate_beyond_the_worst_case():
    """An estimate may leave what is possible: bounds are never inside out."""
    r = np.array([True, False, False, False])
    nuisances = Nuisances(r, np.array([0.0, 0.0, 0.0, 1.0]), np.full(4, 0.3), np.full(4, 3.0))
    estimate = estimate_from_nuisances(nuisances, clip=0.05)
    table = contamination_bounds(estimate, SHARES)
    assert (table["low"] == estimate.value).all()
    assert estimate.value < 0.25 < table["high"].iloc[-1] == pytest.approx(0.5)


def test_one_value_of_g_makes_straight_lines():
    """What is linear in the share has the influence function of a mean."""
    n = 100
    r = np.arange(n) < 40
    s = np.where(r, 0.0, np.arange(n) % 4 != 0)
    estimate = estimate_from_nuisances(Nuisances(r, s, np.full(n, 0.4), np.full(n, 0.75)), clip=0.1)
    for gamma, row in zip(SHARES, contamination_bounds(estimate, SHARES).itertuples(), strict=True):
        assert row.low == pytest.approx(0.75 - 0.3 * gamma, abs=1e-12)
        assert row.high == pytest.approx(0.75 + 0.1 * gamma, abs=1e-12)
        residual = np.where(r, 0.0, s - 0.75) / 0.6
        influence = residual - gamma * (0.75 * (r - 0.4) + 0.4 * residual)
        width = Z * influence.std() / math.sqrt(n)
        assert row.low - row.ci_low == pytest.approx(width + further(estimate, 0), abs=1e-7)
    shares = [
        breakdown_share(estimate, value, interval=False) for value in (0.75, 0.6, 0.8, 0.45, 0.44)
    ]
    assert shares == pytest.approx([0, 0.5, 0.5, 1.0, math.inf])
    assert breakdown_share(estimate, 0.6) < 0.5
    assert breakdown_share(estimate, estimate.interval[0] + 1e-9) == 0
    assert breakdown_share(estimate, estimate.interval[0] - 1e-6) > 0


def test_where_a_cell_is_complete_the_wider_interval_counts():
    """Either side's quantile may be the multiplier."""
    wider = set()
    for seed in range(6):
        population = Population(np.random.default_rng(seed), 5)
        g = population.pi[0] * population.mu[0]
        edge = float(np.cumsum(population.p[np.argsort(-g)])[1])
        near = contamination_bounds(of(population), [edge - 1e-9, edge, edge + 1e-9])
        width = (near["low"] - near["ci_low"]).to_numpy()
        assert width[1] == pytest.approx(max(width[0], width[2]), rel=1e-6)
        wider.add(bool(width[0] < width[2] - 1e-6))
    assert wider == {False, True}


def test_predictions_out_of_range_are_the_end_of_it():
    """Where a mean score is as low as can be nothing can be spoilt, so others are spoilt first."""
    n = 40
    r, first = np.arange(n) % 4 == 0, np.arange(n) < 20
    s = np.where(r | first, 0.0, np.arange(n) % 2)
    nuisances = Nuisances(r, s, np.full(n, 0.25), np.where(first, -0.9, 0.6))
    estimate = estimate_from_nuisances(nuisances, clip=0.1)
    half, all_ = contamination_bounds(estimate, [0.5, 1.0]).itertuples()
    phi = np.where(r, 0.6, (s - 0.6) / 3)
    assert half.low == pytest.approx(estimate.value - phi[~first].sum() / n)
    assert all_.low == pytest.approx(s.mean())


def logistic_law(x):
    pi = special.expit(-0.3 + 0.9 * x[..., 0] - 0.4 * x[..., 1])
    return pi, 0.55 + 0.25 * x[..., 1] + 0.1 * x[..., 0]


def true_bounds(gamma):
    """Of the law above, by a fine grid."""
    axis = (np.arange(600) + 0.5) / 300 - 1
    pi, mu = logistic_law(np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2))
    bounds = []
    for g, sign in ((pi * mu, -1), (pi * (1 - mu), 1)):
        k = round(gamma * len(g))
        bounds.append(mu.mean() + sign * np.sort(g)[len(g) - k :].sum() / len(g))
    return bounds


def linear_fit(x, r, s, fold):
    """Cross-fitted logistic regression by Newton's method, and least squares."""
    design = np.column_stack([np.ones(len(x)), x])
    propensity, outcome = np.empty(len(x)), np.empty(len(x))
    for number in (0, 1):
        out, inside = fold != number, fold == number
        beta = np.zeros(3)
        for _ in range(4):
            p = special.expit(design[out] @ beta)
            hessian = (design[out] * (p * (1 - p))[:, None]).T @ design[out]
            beta += np.linalg.solve(hessian, design[out].T @ (r[out] - p))
        propensity[inside] = special.expit(design[inside] @ beta)
        seen = out & ~r
        slope = np.linalg.lstsq(design[seen], s[seen], rcond=None)[0]
        outcome[inside] = design[inside] @ slope
    return propensity, outcome


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_coverage(known):
    """Of each bound by its end of the interval, and of both."""
    rng = np.random.default_rng(11)
    repetitions, n, shares = 300, 600, [0.1, 0.4]
    truth = np.array([true_bounds(gamma) for gamma in shares])
    rows = []
    for _ in range(repetitions):
        x = rng.uniform(-1, 1, (n, 2))
        pi, mu = logistic_law(x)
        r = rng.random(n) < pi
        s = np.where(r, 0.0, rng.random(n) < mu)
        if not known:
            pi, mu = linear_fit(x, r, s, np.arange(n) % 2)
        estimate = estimate_from_nuisances(Nuisances(r, s, pi, mu), clip=0.05)
        rows.append(contamination_bounds(estimate, shares).to_numpy())
    low, high, ci_low, ci_high = np.moveaxis(np.array(rows)[:, :, 1:], 2, 0)
    # Effects of second order of fitted ones, measured: 0.01 of coverage, a bias of 0.15 errors.
    slack = 0.0 if known else 1.0
    one, both = (math.sqrt(a * (1 - a) / repetitions) for a in (0.025, 0.05))
    below, above = ci_low <= truth[:, 0], ci_high >= truth[:, 1]
    for held in (below.mean(axis=0), above.mean(axis=0)):
        assert (np.abs(held - 0.975) < 4 * one + 0.01 * slack).all(), held
    assert (np.abs((below & above).mean(axis=0) - 0.95) < 4 * both + 0.02 * slack).all()
    for value, width, target in (
        (low, low - ci_low, truth[:, 0]),
        (high, ci_high - high, truth[:, 1]),
    ):
        ratio = width.mean(axis=0) / Z / value.std(axis=0)
        assert (np.abs(ratio - 1) < 4 / math.sqrt(2 * repetitions) + 0.03 * slack).all(), ratio
        bias = (value.mean(axis=0) - target) / value.std(axis=0)
        assert (np.abs(bias) < 0.05 + 4 / math.sqrt(repetitions) + 0.1 * slack).all(), bias


@pytest.mark.parametrize("interval", [True, False])
def test_breakdown_by_a_grid(interval):
    rng = np.random.default_rng(6)
    grid = np.linspace(0, 1, 2001)
    names = ("ci_low", "ci_high") if interval else ("low", "high")
    kinds = set()
    for k in range(24):
        if k % 2:
            estimate = noisy(rng, 150, 1 + k // 2 % 2)
        else:
            estimate = of(Population(rng, 3, 1 + k // 2 % 2))
        value = estimate.value + rng.normal(0, 0.4)
        low, high = contamination_bounds(estimate, grid)[list(names)].to_numpy().T
        inside = (low <= value) & (value <= high)
        share = breakdown_share(estimate, value, interval=interval)
        if not inside.any():
            assert share == math.inf
            kinds.add("never")
            continue
        first = int(np.argmax(inside))
        kinds.add("at once" if first == 0 else "later")
        assert share <= grid[first]
        assert first == 0 or share > grid[first - 1] - 1e-9
        # There, it is at the end of the interval.
        if first:
            row = contamination_bounds(estimate, [share, share - 1e-6])[list(names)].to_numpy()
            assert row[0].min() - 1e-9 <= value <= row[0].max() + 1e-9
            assert not row[1].min() <= value <= row[1].max()
        else:
            assert share == 0
    assert kinds == ({"never", "at once", "later"} if interval else {"never", "later"})


def test_a_value_that_is_the_last_bound_is_reached():
    """The distance to it is the bound's, up to rounding, which decided in one of four cases."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        estimate = noisy(rng, 40, 1)
        last = contamination_bounds(estimate, [1.0]).iloc[0]
        for end in ("low", "high"):
            assert breakdown_share(estimate, last[end], interval=False) <= 1


def test_a_classifier_that_always_answers_only_moves_the_bounds_of_the_other():
    rng = np.random.default_rng(9)
    s = rng.random(200)
    always = Nuisances(np.zeros(200, bool), s, rng.random(200), rng.random(200))
    table = contamination_bounds(estimate_from_nuisances(always), SHARES)
    assert (table[["low", "high"]] == s.mean()).all(axis=None)
    low = estimate_from_nuisances(always).interval[0]  # Student's
    assert table["ci_low"].to_numpy() == pytest.approx(low, abs=1e-9)
    some = noisy(rng, 200).nuisances[0]
    alone, both = (
        contamination_bounds(estimate_from_nuisances(given, clip=0.05), SHARES)
        for given in (some, [some, always])
    )
    for name in ("low", "high"):
        assert both[name].to_numpy() == pytest.approx(alone[name].to_numpy() - s.mean())


def test_without_a_variance_there_is_no_interval_of_the_bounds_either():
    """Of 200 scores all that are seen are equal: the bounds stand, how sure they are does not."""
    r = np.arange(200) % 10 < 3
    known = Nuisances(r, np.where(r, 0.0, 0.7), np.full(200, 0.3), np.full(200, 0.7))
    blind = estimate_from_nuisances(known)
    table = contamination_bounds(blind, [0.0, 0.1])
    assert table[["ci_low", "ci_high"]].isna().all(axis=None)
    np.testing.assert_allclose(table["low"], [0.7, 0.7 - 0.1 * 0.3 * 0.7])
    assert math.isnan(breakdown_share(blind, 0.5))
    assert breakdown_share(blind, 0.5, interval=False) == pytest.approx(0.2 / 0.21, abs=1e-9)
    seen = estimate_from_nuisances(known, score_range=(0, 1))
    table = contamination_bounds(seen, [0.0])
    np.testing.assert_allclose(table[["ci_low", "ci_high"]], [seen.interval])


def drawn_trial(rng, n):
    """Features, then scores and abstentions of two classifiers."""
    x = rng.uniform(-1, 1, (n, 2))
    pi, mu = logistic_law(3 * x)
    hidden = [rng.random(n) < pi for _ in "ab"]
    first, second = (np.where(r, np.nan, rng.random(n) < mu) for r in hidden)
    return x, first, hidden[0], second, hidden[1]


@pytest.mark.parametrize("estimator", ["dr", "plug-in"])
def test_clipping_is_as_if_it_had_been_clipped_so(estimator):
    given = drawn_trial(np.random.default_rng(10), 500)
    options = {"estimator": estimator, "learner": "linear", "level": 0.9, "rng": 0}
    estimate = counterfactual_difference(*given, clip=0.1, **options)
    table = clipping_sensitivity(estimate, [0.3, 0.1, 0.02])
    for row in table.itertuples():
        same = counterfactual_difference(*given, clip=row.clip, **options)
        assert (row.value, row.stderr) == (same.value, same.stderr)
        np.testing.assert_array_equal((row.low, row.high), same.interval)
        assert row.clipped == max(d.clipped for d in same.diagnostics)
        assert row.effective_sample_size == min(d.effective_sample_size for d in same.diagnostics)
    assert (table["value"].nunique() == 1) == (estimator == "plug-in")


def test_spread_over_splits_is_kept():
    x, s, r, *_ = drawn_trial(np.random.default_rng(12), 120)
    estimate = counterfactual_score(x, s, r, learner="linear", repeats=3, rng=1)
    none = contamination_bounds(estimate, [0.0]).iloc[0]
    assert estimate.stderr > estimate.influence.std() / math.sqrt(120)
    width = Z * estimate.stderr + further(estimate, 1)
    assert none.ci_high - none.high == pytest.approx(width, rel=1e-6)

import math

import numpy as np
import pytest
from scipy import optimize, stats

from lib.studies.suitability.alarms import draw_estimates
from lib.studies.suitability.simulations import PROCEDURES, sequential_errors
from lib.suitability.noninferiority import welch_non_inferiority
from lib.suitability.sequential import (
    EProcess,
    SequentialDesign,
    _crossing,
    information_fractions,
    test_upper_bound,
)

# Jennison and Turnbull 2000, tables 2.1 and 2.3: two-sided, K = 2, 3, ...
POCOCK = {
    0.01: [2.772, 2.873, 2.939, 2.986, 3.023],
    0.05: [2.178, 2.289, 2.361, 2.413, 2.453, 2.485, 2.512, 2.535, 2.555],
    0.1: [1.875, 1.992, 2.067, 2.122, 2.164],
}
OBRIEN_FLEMING = {
    0.01: [2.580, 2.595, 2.609, 2.621, 2.631],
    0.05: [1.977, 2.004, 2.024, 2.040, 2.053, 2.063, 2.072, 2.080, 2.087],
    0.1: [1.678, 1.710, 1.733, 1.751, 1.765],
}


def binomial_range(n, rate, tail=1e-4):
    return stats.binom.ppf(tail, n, rate), stats.binom.isf(tail, n, rate)


@pytest.mark.parametrize(
    ("kind", "tables"), [("pocock", POCOCK), ("obrien-fleming", OBRIEN_FLEMING)]
)
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1])
def test_published_constants(kind, tables, alpha):
    table = tables[alpha]
    ours = [SequentialDesign(k, alpha, kind, 2).critical[-1] for k in range(2, len(table) + 2)]
    # Tables have three decimals, of which some books truncate the last.
    assert np.abs(np.array(ours) - table).max() < 0.00101


@pytest.mark.parametrize(
    ("kind", "beta", "table"),
    [
        # Jennison and Turnbull 2000, tables 2.2 and 2.4: alpha = 0.05, K = 2, ..., 5.
        ("pocock", 0.1, [1.100, 1.151, 1.183, 1.207]),
        ("pocock", 0.2, [1.110, 1.166, 1.202, 1.229]),
        ("obrien-fleming", 0.1, [1.007, 1.016, 1.022, 1.026]),
        ("obrien-fleming", 0.2, [1.008, 1.017, 1.024, 1.028]),
    ],
)
def test_published_inflation_of_the_sample(kind, beta, table):
    fixed = stats.norm.isf(0.025) + stats.norm.isf(beta)
    for looks, expected in zip(range(2, 6), table, strict=True):
        design = SequentialDesign(looks, 0.05, kind, 2)
        drift = optimize.brentq(lambda d, x=design: x.power(d) - (1 - beta), 1, 6)
        assert (drift / fixed) ** 2 == pytest.approx(expected, abs=0.00101)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pocock", "obrien-fleming"])
@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("information", [None, (0.1, 0.35, 1.0), (0.9, 0.95, 1.0)])
def test_equals_the_multivariate_normal_distribution(kind, sides, information):
    design = SequentialDesign(3, 0.05, kind, sides, information)
    t, options = design.information, {"abseps": 1e-6, "releps": 1e-6}
    covariance = np.sqrt(np.minimum.outer(t, t) / np.maximum.outer(t, t))
    for drift in (0.0, 2.0, -1.0):
        within = [1.0]
        for k in (1, 2, 3):
            normal = stats.multivariate_normal(
                drift * np.sqrt(t[:k]), covariance[:k, :k], **options, seed=np.random.default_rng(0)
            )
            lower = -design.critical[:k] if sides == 2 else np.full(k, -np.inf)
            within.append(normal.cdf(design.critical[:k], lower_limit=lower))
        assert design.crossing(drift) == pytest.approx(-np.diff(within), abs=1e-5)
        assert design.power(drift) == pytest.approx(1 - within[-1], abs=1e-5)


def test_a_look_right_after_another():
    """It finds what is just below the boundary: density times E max(0, N(0, d)) of a step d."""
    t, critical = np.array([0.5, 0.5 + 1e-5, 1.0]), np.full(3, 2.0)
    first, again, last = _crossing(critical, t, 1.0, 1)
    density = stats.norm.pdf(2 * math.sqrt(0.5), 0.5, math.sqrt(0.5))
    assert again == pytest.approx(density * math.sqrt(1e-5 / (2 * math.pi)), rel=0.01)
    assert (first, last) == pytest.approx(_crossing(critical[:2], t[[0, 2]], 1.0, 1), abs=again)


@pytest.mark.parametrize("kind", ["pocock", "obrien-fleming"])
@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("looks", [1, 2, 7, 25])
def test_spends_alpha(kind, sides, looks):
    design = SequentialDesign(looks, 0.03, kind, sides)
    assert design.spent[-1] == pytest.approx(0.03, abs=1e-10)
    assert (np.diff(design.spent) > 0).all()
    assert design.levels == pytest.approx(stats.norm.sf(design.critical), rel=1e-12)
    # Pocock's boundary is flat, O'Brien and Fleming's falls with the root of the information.
    root = np.sqrt(design.information) if kind == "obrien-fleming" else 1.0
    assert np.ptp(design.critical * root) == pytest.approx(0, abs=1e-12)
    if looks == 1:
        assert design.critical[0] == pytest.approx(stats.norm.isf(0.03 / sides), abs=1e-9)


def test_what_is_never_crossed_and_what_always():
    t = np.array([0.5, 1.0])
    never_first = _crossing(np.array([np.inf, 1.0]), t, 0.0, 1)
    assert never_first == pytest.approx([0, stats.norm.sf(1)], abs=1e-10)
    assert _crossing(np.array([-50.0, 1.0]), t, 0.0, 1) == pytest.approx([1, 0], abs=1e-12)
    assert SequentialDesign(4).crossing(60.0) == pytest.approx([1, 0, 0, 0], abs=1e-12)
    assert SequentialDesign(4).power(-60.0) == pytest.approx(0.0, abs=1e-12)


def test_short_steps_of_information():
    """Looks that see almost the same are almost one look; this one takes the banded products."""
    t = information_fractions(100, 20_000, 4)
    assert t[0] > 0.98
    design = SequentialDesign(4, information=t)
    rng = np.random.default_rng(0)
    steps = np.diff(t, prepend=0.0)
    z = (rng.normal(size=(200_000, 4)) * np.sqrt(steps)).cumsum(axis=1) / np.sqrt(t)
    low, high = binomial_range(200_000, 0.05)
    assert low <= (z >= design.critical).any(axis=1).sum() <= high
    assert stats.norm.isf(0.05) < design.critical[0] < SequentialDesign(4).critical[0] - 0.2


# Information with a fixed test sample.


def test_information_of_looks_that_share_a_test_sample():
    """Moments and error rates of normal data, in which the distribution is exactly canonical."""
    n_test, size, looks, reps, ratio = 60, 40, 4, 60_000, 2.5
    rng = np.random.default_rng(7)
    test = rng.normal(size=(reps, 1)) / math.sqrt(n_test)
    batches = rng.normal(size=(reps, looks)) * math.sqrt(ratio / size)
    k = np.arange(1, looks + 1)
    difference = batches.cumsum(axis=1) / k - test
    z = difference / np.sqrt(1 / n_test + ratio / (size * k))
    t = information_fractions(n_test, size, looks, ratio)
    expected = np.sqrt(np.minimum.outer(t, t) / np.maximum.outer(t, t))
    # Correlations of 60,000 pairs have a standard error of at most 0.004.
    assert np.abs(np.corrcoef(z.T) - expected).max() < 0.015
    assert np.abs(expected - np.sqrt(np.minimum.outer(k, k) / np.maximum.outer(k, k))).max() > 0.1
    # 1 / (1/100 + 2/50) against 1 / (1/100 + 2/100).
    assert information_fractions(100, 50, 2, 2.0) == pytest.approx([0.03 / 0.05, 1.0])
    for kind in ("pocock", "obrien-fleming"):
        count = (z >= SequentialDesign(looks, 0.05, kind, 1, t).critical).any(axis=1).sum()
        low, high = binomial_range(reps, 0.05)
        assert low <= count <= high


@pytest.mark.slow
@pytest.mark.parametrize("n_test", [100, 600])
def test_welch_on_bounded_estimates_keeps_alpha(n_test):
    options = {"looks": 4, "batch_size": 60, "n_test": n_test, "mean_test": 0.55}
    rng = np.random.default_rng(n_test)
    rates = sequential_errors([0.05], **options, repetitions=1000, rng=rng)
    rates = rates.set_index("procedure")["rate"]
    low, high = binomial_range(1000, 0.05)
    for name in ("one look", "Pocock", "O'Brien-Fleming"):
        assert low <= 1000 * rates[name] <= high, name
    assert rates["uncorrected"] > 0.07
    assert rates["Bonferroni"] <= rates["Pocock"]


# Decisions.


@pytest.mark.parametrize(
    ("sides", "p", "expected"),
    [
        (1, [0.5], (False, None, False, 0)),
        (1, [0.5, 0.5], (False, None, False, 0)),
        (1, [0.5, 0.5, 0.5], (True, 3, False, 0)),
        (1, [0.0], (True, 1, True, 1)),
        (1, [0.5, 0.02], (True, 2, True, 1)),
        (1, [1.0, 1.0, 1.0], (True, 3, False, 0)),
        (2, [1.0], (True, 1, True, -1)),
        (2, [0.5, 0.999], (True, 2, True, -1)),
        (2, [0.5, 0.5, 0.001], (True, 3, True, 1)),
    ],
)
def test_decide(sides, p, expected):
    decision = SequentialDesign(3, 0.05, sides=sides).decide(p)
    assert (decision.stopped, decision.look, decision.rejected, decision.direction) == expected


def test_decide_at_the_level_itself():
    design = SequentialDesign(2)
    assert design.decide([design.levels[0]]).rejected
    assert not design.decide([np.nextafter(design.levels[0], 1)]).rejected
    with pytest.raises(ValueError, match="read-only"):
        design.levels[0] = 1.0


# The e-process.


def brute_force(values, threshold, cap=0.75):
    """Capital after each value, one at a time, as the formulas read."""
    total, squares, capital, path = 0.0, 0.0, 1.0, []
    for i, x in enumerate(values):
        mean, variance = (0.5 + total) / (i + 1), (0.25 + squares) / (i + 1)
        bet = (mean - threshold) / (variance + (mean - threshold) ** 2)
        bet = min(max(bet, 0.0), cap / threshold)
        capital *= 1 + bet * (x - threshold)
        path.append(capital)
        total += x
        squares += (x - (0.5 + total) / (i + 2)) ** 2
    return path


@pytest.mark.parametrize("threshold", [0.1, 0.6, 0.95, 1.2])
def test_e_process_equals_its_definition_however_it_is_cut(threshold):
    values = np.random.default_rng(1).beta(3, 1, 300)
    path = brute_force(values, threshold)
    whole, pieces = EProcess(threshold), EProcess(threshold)
    whole.update(values)
    for piece in np.split(values, [1, 2, 2, 50, 51, 299]):
        pieces.update(piece)
    for process in (whole, pieces):
        assert process.n == 300
        assert process.log_e_value == pytest.approx(math.log(path[-1]), abs=1e-9)
        assert process.p_value == pytest.approx(min(1.0, 1 / max(path)), rel=1e-9)
    assert EProcess(threshold).update(values[0]) == pytest.approx(path[0])


def test_e_process_remembers_its_largest_capital():
    process = EProcess(0.5)
    process.update([0.9] * 30)
    p = process.p_value
    assert p == pytest.approx(1 / max(brute_force([0.9] * 30, 0.5)))
    process.update([0.0] * 200)
    assert process.e_value < 1
    assert process.p_value == p < 1e-3


def test_e_process_at_the_extremes():
    assert EProcess(0.5).e_value == 1.0
    assert EProcess(0.5).update([]) == 1.0
    assert EProcess(1.0).update(np.ones(1000)) == 1.0
    rich = EProcess(0.2)
    assert rich.update(np.ones(100_000)) == math.inf
    assert rich.p_value == 0.0
    assert 0 < EProcess(0.9).update(np.zeros(100_000)) <= 1.0
    process = EProcess(0.5)
    process.update([0.7, 0.8])
    before = (process.n, process.e_value)
    with pytest.raises(ValueError, match="values must be in"):
        process.update([0.9, 2.0])
    assert (process.n, process.e_value) == before


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, shape: (rng.random(shape) < 0.7).astype(float),
        lambda rng, shape: rng.beta(1.4, 0.6, shape),
        # Rare losses: the variance looks small until one of them comes.
        lambda rng, shape: np.where(rng.random(shape) < 0.02, 0.0, 0.7 / 0.98),
    ],
)
def test_ville_under_optional_stopping(draw):
    """Whoever stops at the best of 1000 times is wrong with probability alpha at most."""
    rng, n, p_values = np.random.default_rng(11), 1000, []
    for values in draw(rng, (n, 1000)):
        process = EProcess(0.7)
        process.update(values)
        p_values.append(process.p_value)
    for alpha in (0.05, 0.2):
        assert (np.array(p_values) <= alpha).sum() <= stats.binom.isf(1e-4, n, alpha)


def test_ville_holds_for_dependent_observations():
    """A spread that depends on the past, the mean at the threshold: fair given what came before."""
    rng, reps, threshold = np.random.default_rng(3), 600, 0.6
    x = np.full((reps, 151), threshold)
    for i in range(1, 151):
        spread = np.where(x[:, i - 1] > threshold, 0.4, 0.05)
        x[:, i] = threshold + spread * rng.choice([-1.0, 1.0], reps)
    count = 0
    for values in x:
        process = EProcess(threshold)
        process.update(values[1:])
        count += process.p_value <= 0.1
    assert count <= stats.binom.isf(1e-4, reps, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "mean", "binary"),
    [(1, 0.5, False), (5, 0.95, False), (200, 0.95, False), (200, 0.95, True)],
)
def test_upper_bound_covers(n, mean, binary):
    rng, reps, level = np.random.default_rng(n), 100, 0.1
    misses = 0
    for _ in range(reps):
        x = (rng.random(n) < mean) * 1.0 if binary else draw_estimates(rng, mean, (n,), 2)
        misses += test_upper_bound(x, level) < mean
    assert misses <= stats.binom.isf(1e-4, reps, level)


def test_upper_bound_is_sharp():
    rng, n = np.random.default_rng(0), 1000
    samples = draw_estimates(rng, 0.8, (30, n))
    excess = np.mean([test_upper_bound(x, 0.05) for x in samples]) - samples.mean()
    normal = samples.std() / math.sqrt(n) * stats.norm.isf(0.05)
    assert normal < excess < 2 * normal
    assert excess < 0.75 * math.sqrt(math.log(20) / (2 * n))  # Hoeffding's
    assert test_upper_bound(samples[0], 0.01) > test_upper_bound(samples[0], 0.05)


def test_upper_bound_at_the_extremes():
    assert test_upper_bound(np.ones(50), 0.05) == 1.0
    # One observation of 0, with the largest bet: 1 + 0.75 / b (1 - b) = 2 at mean 1 - b.
    bound = test_upper_bound([0.0], 0.5)
    assert 1 - 0.75 / 1.75 <= bound == pytest.approx(1 - 0.75 / 1.75, abs=1e-6)


# Simulation.


@pytest.mark.slow
def test_errors_and_sample_sizes():
    n = 300
    table = sequential_errors([0.05, 0.02], repetitions=n, rng=np.random.default_rng(0))
    assert list(table["procedure"]) == list(PROCEDURES) * 2
    size, power = (table[table["drop"] == d].set_index("procedure") for d in (0.05, 0.02))
    assert (table["low"] <= table["rate"]).all()
    assert (table["rate"] <= table["high"]).all()
    most = stats.binom.isf(1e-4, n, 0.05) / n
    for name in PROCEDURES:
        if name not in ("uncorrected", "e-process, test mean"):
            assert size.loc[name, "rate"] <= most, name
    assert size.loc["uncorrected", "rate"] > most
    rate, used = power["rate"], power["mean_n"]
    assert rate["one look"] > 0.95
    assert rate["one look"] >= rate["O'Brien-Fleming"] >= rate["Bonferroni"]
    assert used["Pocock"] < used["O'Brien-Fleming"] < 700 < used["one look"] == 1000
    # Spends nothing on when it looks, but pays for not assuming anything.
    assert used["e-process, known mean"] < 500
    assert rate["e-process, bound"] < rate["e-process, pairs"] < rate["Pocock"]
    # Close to what the design promises of the canonical distribution.
    drift = 0.03 / math.sqrt(sum(m * (1 - m) / 5 for m in (0.8, 0.78)) / 1000)
    design = SequentialDesign(5, information=information_fractions(1000, 200, 5))
    expected = 200 * (5 - design.crossing(drift) @ np.arange(4, -1, -1))
    assert used["Pocock"] == pytest.approx(expected, abs=4 * power.loc["Pocock", "se_n"] + 10)
    assert rate["Pocock"] == pytest.approx(design.power(drift), abs=0.04)


def test_simulation_equals_the_public_pieces():
    """One repetition, by Welch's test on the very samples and EProcess."""
    rng = np.random.default_rng(8)
    options = {"looks": 3, "batch_size": 40, "n_test": 90, "margin": 0.1}
    reps = 30
    table = sequential_errors([0.02], repetitions=reps, rng=np.random.default_rng(8), **options)
    test = draw_estimates(rng, 0.8, (reps, 90))
    user = draw_estimates(rng, 0.78, (reps, 120))
    design = SequentialDesign(3, 0.05, information=information_fractions(90, 40, 3))
    rejected = dict.fromkeys(PROCEDURES, 0)
    used = 0
    for t, u in zip(test, user, strict=True):
        p = []
        for n in (40, 80, 120):
            moments = [f(v) for v in (t, u[:n]) for f in (np.mean, lambda w: w.var(ddof=1), len)]
            p.append(float(welch_non_inferiority(*moments, 0.1)[1]))
            decision = design.decide(p)
            if decision.stopped:
                used += n
                rejected["Pocock"] += decision.rejected
                break
        bound = test_upper_bound(t, 0.025) - 0.1
        for name, x, threshold, level in (
            ("known mean", u, 0.7, 0.05),
            ("test mean", u, t.mean() - 0.1, 0.05),
            ("bound", u, bound, 0.025),
            ("pairs", (u[:90] - t + 1) / 2, 0.45, 0.05),
        ):
            process = EProcess(threshold)
            process.update(x)
            rejected[f"e-process, {name}"] += process.p_value <= level
    rates = table.set_index("procedure")["rate"] * reps
    for name in ("Pocock", *(n for n in PROCEDURES if n.startswith("e-"))):
        assert rates[name] == pytest.approx(rejected[name]), name
    assert table.set_index("procedure").loc["Pocock", "mean_n"] == pytest.approx(used / reps)
    assert rejected["Pocock"] > 0

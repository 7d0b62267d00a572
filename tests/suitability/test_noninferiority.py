import math

import numpy as np
import pytest
from scipy import integrate, stats
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

from lib.bounds import gaffke_limit, gaffke_tail
from lib.suitability import non_inferiority_test, welch_non_inferiority

MOMENTS = {
    "mean_test": 0.5,
    "variance_test": 0.1,
    "n_test": 10,
    "mean_user": 0.4,
    "variance_user": 0.2,
    "n_user": 20,
    "margin": 0.05,
}


def moments(**change):
    return welch_non_inferiority(**MOMENTS | change)


def sizes(*fixed):
    rng = np.random.default_rng(0)
    return [*fixed, *(10 ** rng.uniform(0.4, 4, (10, 2))).astype(int).tolist()]


@pytest.mark.parametrize(("n", "m"), sizes((2, 2), (2, 500), (500, 3), (100_000, 10)))
def test_equals_scipy(n, m):
    rng = np.random.default_rng(n + m)
    test = rng.normal(0.7, 10 ** rng.uniform(-6, 2), n)
    user = rng.normal(0.7, 10 ** rng.uniform(-6, 2), m)
    for margin in (0.0, 0.05, -0.1):
        ours = non_inferiority_test(test, user, margin)
        theirs = stats.ttest_ind(test, user + margin, equal_var=False, alternative="less")
        assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-9, abs=1e-12)
        assert ours.dof == pytest.approx(theirs.df, rel=1e-8)
        assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-8, abs=1e-12)
    assert non_inferiority_test(test, user) == non_inferiority_test(test, user, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_moments_equal_statsmodels_of_weighted_values(seed):
    rng = np.random.default_rng(seed)
    margin, parts, found = rng.uniform(-0.2, 0.2), [], []
    for _ in range(2):
        values, weights = rng.random(6), rng.integers(1, 40, 6)
        parts.append(DescrStatsW(values, weights, ddof=0))
        full = np.repeat(values, weights)
        found += [full.mean(), full.var(ddof=1), len(full)]
    theirs = CompareMeans(*parts).ttest_ind("smaller", "unequal", value=margin)
    assert welch_non_inferiority(*found, margin) == pytest.approx(theirs, rel=1e-10)


def test_welch_by_hand():
    """Means 0.5 and 0.4, variances 0.1 and 0.2, sizes 10 and 20: errors of 0.01 and 0.01."""
    statistic, p, dof = moments()
    assert statistic == pytest.approx(0.05 / math.sqrt(0.02))
    assert dof == pytest.approx(0.02**2 / (0.01**2 / 9 + 0.01**2 / 19))
    assert p == pytest.approx(stats.t.cdf(statistic, dof))
    assert moments(n_test=2, n_user=2)[2] == pytest.approx(0.15**2 / (0.05**2 + 0.1**2))
    # Single precision is computed with in double.
    given = {"mean_test": 0.5, "variance_test": 0.125, "mean_user": 0.25, "variance_user": 0.0625}
    small = moments(**{name: np.array([value], np.float32) for name, value in given.items()})
    assert np.ravel(small) == pytest.approx(np.array(moments(**given)), rel=1e-14)


def test_no_variance_is_certainty_and_rounding_is_none():
    still = {"variance_test": 0.0, "variance_user": 0.0, "mean_test": 0.5, "margin": 0.25}
    for user, statistic, p in ((0.25, 0.0, 0.5), (0.2, math.inf, 1.0), (0.3, -math.inf, 0.0)):
        found = moments(**still, mean_user=user)
        assert (found[0], found[1]) == (statistic, p)
        assert math.isnan(found[2])
    # A relative difference of 1e-12 is rounding, however large or small the means are.
    near = {"variance_test": 0.0, "variance_user": 0.0, "margin": 0.0}
    for scale in (1e-6, 1.0, 1e6):
        for off, p in ((1e-12, 0.5), (-1e-12, 0.5), (4e-12, 1.0), (-4e-12, 0.0)):
            assert moments(**near, mean_test=scale * (1 + off), mean_user=scale)[1] == p
    # The margin is among what is rounded.
    found = moments(**(still | {"mean_test": 0.0, "margin": 1.0}), mean_user=-1.0 + 1e-13)
    assert found[1] == 0.5
    # So is a variance below the square of that, of either side, and no larger one.
    for own, other in (("test", "user"), ("user", "test")):
        small = {f"variance_{other}": 0.0, f"mean_{own}": 8.0, "margin": 0.0}
        assert math.isnan(moments(**small, **{f"variance_{own}": (8e-12) ** 2})[2])
        assert moments(**small, **{f"variance_{own}": (9e-12) ** 2})[2] > 0
    # The mean of ten times 0.1 is not 0.1.
    for value, n in ((0.1, 10), (0.7, 3), (1 / 3, 99_999)):
        same = np.full(n, value)
        given = {"mean_test": same.mean(), "variance_test": same.var(ddof=1), "variance_user": 0}
        assert moments(**given, n_test=n, mean_user=value, margin=0)[1] == 0.5


def test_variance_on_one_side_only():
    user = np.array([0.4, 0.5, 0.7])
    _, p, dof = welch_non_inferiority(0.5, 0, 2, user.mean(), user.var(ddof=1), 3)
    theirs = stats.ttest_1samp(user, 0.5, alternative="greater")
    assert p == pytest.approx(theirs.pvalue, rel=1e-10)
    assert dof == pytest.approx(2.0)
    assert moments(variance_user=0.0)[2] == pytest.approx(9)
    # Tiny variances do not vanish when they are squared.
    tiny = moments(variance_test=1e-200, variance_user=1e-200, mean_test=0.0, mean_user=0.0)
    assert tiny[2] == pytest.approx((1 / 10 + 1 / 20) ** 2 / (0.1**2 / 9 + 0.05**2 / 19))


def test_broadcast_equals_single_calls():
    rng = np.random.default_rng(3)
    mean, variance, user = rng.random((4, 1)), rng.random((4, 1)) / 10, rng.random(5)
    found = welch_non_inferiority(mean, variance, 30, user, 0.02, 50, 0.01)
    assert {part.shape for part in found} == {(4, 5)}
    one = welch_non_inferiority(mean[2, 0], variance[2, 0], 30, user[1], 0.02, 50, 0.01)
    assert [float(v) for v in one] == [part[2, 1] for part in found]


@pytest.mark.parametrize(
    ("n", "m", "sd_test", "sd_user"), [(30, 30, 1, 1), (100, 15, 1, 3), (15, 100, 1, 3)]
)
def test_size_of_the_test(n, m, sd_test, sd_user):
    """At a drop equal to the margin the rejection rate is alpha, within binomial noise."""
    repetitions, margin = 20_000, 0.1
    rng = np.random.default_rng(n)
    test = rng.normal(margin, sd_test, (repetitions, n))
    user = rng.normal(0.0, sd_user, (repetitions, m))
    _, p, _ = welch_non_inferiority(
        test.mean(1), test.var(1, ddof=1), n, user.mean(1), user.var(1, ddof=1), m, margin
    )
    for alpha in (0.05, 0.2):
        # Welch's approximation itself is off by less than 0.002 at these sizes.
        tolerance = 4 * np.sqrt(alpha * (1 - alpha) / repetitions) + 0.002
        assert abs((p <= alpha).mean() - alpha) < tolerance


def zeros_and_ones(ones, n):
    return np.repeat([1.0, 0.0], [ones, n - ones])


@pytest.mark.parametrize(("k", "n", "j", "m"), [(40, 41, 8, 12), (299, 300, 40, 60), (5, 9, 7, 8)])
def test_zeros_and_ones_are_fishers_exact_test(k, n, j, m):
    """At no margin; at others against draws from the two confidence distributions."""
    for first, second in (((k, n), (j, m)), ((j, m), (k, n))):
        (a, size_a), (b, size_b) = first, second
        table = [[b, size_b - b], [a, size_a - a]]
        exact = stats.fisher_exact(table, alternative="greater").pvalue
        samples = zeros_and_ones(*first), zeros_and_ones(*second)
        assert non_inferiority_test(*samples).p_value == pytest.approx(exact, rel=1e-6)
        rng, draws = np.random.default_rng(0), 200_000
        apart = rng.beta(a + 1, size_a - a, draws) - rng.beta(b, size_b - b + 1, draws)
        for margin in (-0.1, 0.05, 0.3):
            p = non_inferiority_test(*samples, margin).p_value
            tolerance = 4 * np.sqrt(p * (1 - p) / draws) + 1e-5
            assert p == pytest.approx((apart >= margin).mean(), abs=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accuracy", "margin"), [(0.85, 0.05), (0.99, 0.0), (0.99, 0.05), (0.999, 0.0)]
)
@pytest.mark.parametrize(("n", "m"), [(2000, 20), (500, 200), (100, 500)])
def test_level_by_enumeration(n, m, accuracy, margin):
    """Correctness of both samples, the user accuracy lower by the very margin."""
    alpha, level = 0.05, 0.0
    chances = []
    for size, rate in ((n, accuracy), (m, accuracy - margin)):
        chance = stats.binom.pmf(np.arange(size + 1), size, rate)
        chances.append([(ones, chance[ones]) for ones in np.flatnonzero(chance > 1e-6)])
    low = 0  # the p-value falls with the user's right answers and rises with those of the test data
    for k, chance in chances[0]:
        test = zeros_and_ones(k, n)
        while low < len(chances[1]):
            user = zeros_and_ones(chances[1][low][0], m)
            if non_inferiority_test(test, user, margin).p_value <= alpha:
                break
            low += 1
        level += chance * sum(other for _, other in chances[1][low:])
    assert level <= alpha


def test_all_right_or_all_wrong_samples_have_limits_too():
    right, wrong = np.ones(50), np.zeros(30)
    # The user accuracy is at least 0.05 ** (1 / 30) with 95%: of 30 right ones.
    margin = 1 - 0.05 ** (1 / 30)
    assert non_inferiority_test(right, np.ones(30), margin).p_value == pytest.approx(0.05)
    assert non_inferiority_test(wrong, right).p_value < 1e-20
    assert non_inferiority_test(right, wrong, 0.5).p_value == 1.0
    assert non_inferiority_test(wrong, np.zeros(20), 0.0).p_value == pytest.approx(1.0)


FEW = [  # low, high, test and user rows, rare share of test rows, margin
    (0.01, 0.99, 1000, 50, 0.01, 0.05),
    (0.05, 0.9, 2000, 20, 0.02, 0.0),
    (0.2, 0.97, 500, 1000, 0.004, 0.0),
]


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high", "n", "m", "rare", "margin"), FEW)
def test_level_where_few_values_vary(low, high, n, m, rare, margin):
    """At the boundary; samples in which nothing varies are refused, and conclude nothing."""
    rng, trials, rejected, by_welch = np.random.default_rng([n, m]), 80, 0, 0
    for _ in range(trials):
        test = np.where(rng.random(n) < rare, low, high)
        user = np.where(rng.random(m) < rare + margin / (high - low), low, high)
        if np.ptp(test) and np.ptp(user):
            rejected += non_inferiority_test(test, user, margin).p_value <= 0.05
            found = stats.ttest_ind(test, user + margin, equal_var=False, alternative="less")
            by_welch += found.pvalue <= 0.05
    most = stats.binom.ppf(0.999, trials, 0.05)
    assert rejected <= most
    assert by_welch > most or (n, m) != (1000, 50)


def test_few_values_that_vary_still_decide():
    """Not by refusing everything, and like zeros and ones where they are next to these."""
    test, user = np.full(2000, 0.95), np.full(1000, 0.96)
    test[:20], user[:5] = 0.2, 0.3
    assert non_inferiority_test(test, user, 0.05).p_value < 0.001
    assert 0.999 < non_inferiority_test(test, user - 0.2, 0.05).p_value <= 1 + 1e-12
    p = [non_inferiority_test(test, user, m).p_value for m in np.linspace(-0.2, 0.3, 26)]
    assert np.all(np.diff(p) <= 1e-12)
    counted = np.r_[np.zeros(8), np.ones(392)], np.r_[np.zeros(3), np.ones(97)]
    near = [np.clip(sample, 1e-9, 1) for sample in counted]
    for margin in (0.0, 0.02, 0.05):
        exact = non_inferiority_test(*counted, margin).p_value
        assert exact <= non_inferiority_test(*near, margin).p_value * 1.02 <= 2 * exact + 0.02


@pytest.mark.slow
def test_level_where_only_many_test_rows_show_the_rare_value():
    """Of 50 user rows most samples hold none of it, and vary as if there were no such value."""

    def draw(n, rare):
        return np.where(rng.random(n) < rare, 0.01, 0.99 - 1e-3 * rng.random(n))

    rng, trials, rejected, margin = np.random.default_rng(5), 100, 0, 0.02
    test = draw(2500, 0.01)
    for _ in range(trials):
        user = draw(50, 0.01 + margin / 0.9795)
        rejected += non_inferiority_test(test, user, margin).p_value <= 0.05
    assert rejected <= stats.binom.ppf(0.999, trials, 0.05)


@pytest.mark.parametrize("margin", [0.02, 0.05, 0.08])
def test_melding_few_values_that_vary_is_an_integral_over_the_limits(margin):
    """Half of the mass at the middle, the rest over the limits above it: a grid 20 times finer."""
    rng = np.random.default_rng(0)
    known, new = (
        np.where(rng.random(n) < share, rng.random(n) / 2, most)
        for n, share, most in ((150, 0.03, 0.97), (120, 0.04, 0.95))
    )
    z = np.linspace(0, 8, 401)
    limits = [1 - gaffke_limit(1 - known, 0.0, 1.0, float(stats.norm.sf(each))) for each in z]
    chances = [
        1.0 if limit - margin >= new.mean() else gaffke_tail(new, 0.0, 1.0, limit - margin)
        for limit in limits
    ]
    expected = chances[0] / 2 + integrate.trapezoid(stats.norm.pdf(z) * chances, z)
    found = non_inferiority_test(known, new, margin).p_value
    assert found == pytest.approx(expected, rel=0.004)

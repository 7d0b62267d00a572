import numpy as np
import pytest
from scipy import stats

from lib.suitability import equivalence_test, non_inferiority_test, welch_non_inferiority


@pytest.mark.parametrize("margin", [0.0, 0.05, -0.1])
@pytest.mark.parametrize(("n", "m"), [(2, 2), (2, 500), (500, 3), (40, 40), (100_000, 10)])
def test_equals_scipy(n, m, margin):
    rng = np.random.default_rng(n + m)
    test, user = rng.beta(2, 1, n), 0.3 + 0.2 * rng.random(m)
    ours = non_inferiority_test(test, user, margin)
    theirs = stats.ttest_ind(test, user + margin, equal_var=False, alternative="less")
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-10)
    assert ours.dof == pytest.approx(theirs.df, rel=1e-10)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-9, abs=1e-14)


def test_orientation():
    """Better user data give a small p-value, worse ones a large one."""
    rng = np.random.default_rng(0)
    low, high = rng.normal(0.5, 0.1, 300), rng.normal(0.7, 0.1, 300)
    assert non_inferiority_test(low, high).p_value < 1e-10
    assert non_inferiority_test(high, low).p_value > 1 - 1e-10
    assert non_inferiority_test(high, low, margin=0.3).p_value < 1e-10


@pytest.mark.parametrize(
    ("test", "user", "margin", "p"),
    [(0.5, 0.6, 0.0, 0.0), (0.6, 0.5, 0.0, 1.0), (0.5, 0.5, 0.0, 0.5), (0.5, 0.25, 0.25, 0.5)],
)
def test_without_any_variance(test, user, margin, p):
    """Of moments: the sign decides.  Of samples: equal numbers say nothing of their error."""
    _, found, dof = welch_non_inferiority(test, 0, 3, user, 0, 4, margin)
    assert found == p
    assert np.isnan(dof)
    for given in (([test] * 3, [0.1, 0.2]), ([0.1, 0.2], [user] * 4)):
        with pytest.raises(ValueError, match=r"^(test|user) must vary, got [34] times 0\.\d+, "):
            non_inferiority_test(*given, margin)


@pytest.mark.parametrize("value", [0.1, 0.3, 1 / 3, 0.7])
@pytest.mark.parametrize("n", [10, 3, 99_999])
def test_equal_numbers_have_no_variance_whatever_their_mean_is_rounded_to(value, n):
    """The mean of ten times 0.1 is not 0.1: that is no evidence of anything."""
    test = np.full(n, value)
    moments = test.mean(), test.var(ddof=1), n
    assert welch_non_inferiority(*moments, value, 0, 7)[1] == 0.5
    assert welch_non_inferiority(*moments, value - 0.05, 0, 7, 0.05)[1] == 0.5
    assert welch_non_inferiority(*moments, value + 1e-6, 0, 7)[1] == 0.0
    assert welch_non_inferiority(*moments, value - 1e-6, 0, 7)[1] == 1.0
    with pytest.raises(ValueError, match="test must vary"):
        non_inferiority_test(test, [0.1, 0.2])


@pytest.mark.parametrize("seed", range(20))
def test_equals_scipy_on_random_cases(seed):
    rng = np.random.default_rng(seed)
    n, m = (int(v) for v in 10 ** rng.uniform(0.4, 4, 2))
    test = rng.normal(0.7, 10 ** rng.uniform(-6, 2), n)
    user = rng.normal(0.7, 10 ** rng.uniform(-6, 2), m)
    margin = rng.uniform(-0.1, 0.1)
    ours = non_inferiority_test(test, user, margin)
    theirs = stats.ttest_ind(test, user + margin, equal_var=False, alternative="less")
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-9, abs=1e-12)
    assert ours.dof == pytest.approx(theirs.df, rel=1e-8)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-8, abs=1e-12)


def test_variance_on_one_side_only():
    user = np.array([0.4, 0.5, 0.7])
    _, p, dof = welch_non_inferiority(0.5, 0, 2, user.mean(), user.var(ddof=1), 3)
    theirs = stats.ttest_1samp(user, 0.5, alternative="greater")
    assert p == pytest.approx(theirs.pvalue, rel=1e-10)
    assert dof == pytest.approx(2.0)


def test_broadcast_equals_single_calls():
    rng = np.random.default_rng(3)
    mean, variance = rng.random((4, 1)), rng.random((4, 1)) / 10
    statistic, p, dof = welch_non_inferiority(mean, variance, 30, rng.random(5), 0.02, 50, 0.01)
    assert statistic.shape == p.shape == dof.shape == (4, 5)
    rng = np.random.default_rng(3)
    rng.random((4, 1)), rng.random((4, 1))
    user = rng.random(5)
    one = welch_non_inferiority(mean[2, 0], variance[2, 0], 30, user[1], 0.02, 50, 0.01)
    assert [float(v) for v in one] == [statistic[2, 1], p[2, 1], dof[2, 1]]


@pytest.mark.parametrize(
    ("n", "m", "sd_test", "sd_user"), [(30, 30, 1, 1), (100, 15, 1, 3), (15, 100, 1, 3)]
)
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_size_of_the_test(n, m, sd_test, sd_user, alpha):
    """At a drop equal to the margin the rejection rate is alpha, within binomial noise."""
    repetitions, margin = 20_000, 0.1
    rng = np.random.default_rng(n)
    test = rng.normal(margin, sd_test, (repetitions, n))
    user = rng.normal(0.0, sd_user, (repetitions, m))
    _, p, _ = welch_non_inferiority(
        test.mean(1), test.var(1, ddof=1), n, user.mean(1), user.var(1, ddof=1), m, margin
    )
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


@pytest.mark.parametrize("margin", [0.0, 0.05])
@pytest.mark.parametrize("accuracy", [0.85, 0.99, 0.999])
@pytest.mark.parametrize(("n", "m"), [(2000, 20), (500, 200), (100, 500)])
def test_level_by_enumeration(n, m, accuracy, margin):
    """Correctness of both samples, the user accuracy lower by the very margin."""
    alpha, level = 0.05, 0.0
    chances = []
    for size, rate in ((n, accuracy), (m, accuracy - margin)):
        chance = stats.binom.pmf(np.arange(size + 1), size, rate)
        chances.append([(ones, chance[ones]) for ones in np.flatnonzero(chance > 1e-6)])
    for k, chance in chances[0]:
        # The p-value falls with the user's right answers: the least that rejects is looked for.
        low, high = 0, len(chances[1])
        test = zeros_and_ones(k, n)
        while low < high:
            middle = (low + high) // 2
            user = zeros_and_ones(chances[1][middle][0], m)
            rejects = non_inferiority_test(test, user, margin).p_value <= alpha
            low, high = (low, middle) if rejects else (middle + 1, high)
        level += chance * sum(other for _, other in chances[1][low:])
    assert level <= alpha


def test_many_zeros_and_ones_are_nearly_welchs_test():
    test, user = zeros_and_ones(70_000, 100_000), zeros_and_ones(33_000, 50_000)
    theirs = stats.ttest_ind(test, user + 0.045, equal_var=False, alternative="less")
    found = non_inferiority_test(test, user, 0.045)
    assert found.p_value == pytest.approx(theirs.pvalue, rel=0.02)
    assert found.statistic == pytest.approx(theirs.statistic)


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
    (0.3, 0.95, 1000, 100, 0.005, 0.02),
    (0.05, 0.9, 2000, 20, 0.02, 0.0),
    (0.01, 0.99, 200, 200, 0.02, 0.0),
    (0.2, 0.97, 500, 1000, 0.004, 0.0),
]


@pytest.mark.parametrize(("low", "high", "n", "m", "rare", "margin"), FEW)
def test_level_where_few_values_vary(low, high, n, m, rare, margin):
    """At the boundary; samples in which nothing varies are refused, and conclude nothing."""
    rng, trials, rejected, by_welch = np.random.default_rng([n, m]), 300, 0, 0
    for _ in range(trials):
        test = np.where(rng.random(n) < rare, low, high)
        user = np.where(rng.random(m) < rare + margin / (high - low), low, high)
        if np.ptp(test) and np.ptp(user):
            rejected += non_inferiority_test(test, user, margin).p_value <= 0.05
            found = stats.ttest_ind(test, user + margin, equal_var=False, alternative="less")
            by_welch += found.pvalue <= 0.05
    assert rejected <= stats.binom.ppf(0.999, trials, 0.05)
    if (n, m) == (1000, 50):
        assert by_welch > stats.binom.ppf(0.999, trials, 0.05)


def test_few_values_that_vary_still_decide():
    """Not by refusing everything, and like zeros and ones where they are next to these."""
    test, user = np.full(2000, 0.95), np.full(1000, 0.96)
    test[:20], user[:5] = 0.2, 0.3
    assert non_inferiority_test(test, user, 0.05).p_value < 0.001
    assert non_inferiority_test(test, user - 0.2, 0.05).p_value > 0.999
    p = [non_inferiority_test(test, user, m).p_value for m in np.linspace(-0.2, 0.3, 26)]
    assert np.all(np.diff(p) <= 1e-12)
    counted = np.r_[np.zeros(8), np.ones(392)], np.r_[np.zeros(3), np.ones(97)]
    near = [np.clip(sample, 1e-9, 1) for sample in counted]
    for margin in (0.0, 0.02, 0.05):
        exact = non_inferiority_test(*counted, margin).p_value
        assert exact <= non_inferiority_test(*near, margin).p_value * 1.02 <= 2 * exact + 0.02


def test_equivalence_where_few_values_vary():
    test, user = np.full(600, 0.95), np.full(300, 0.96)
    test[:6], user[:2] = 0.2, 0.3
    found = equivalence_test(test, user, 0.1)
    low, high = found.interval
    assert low < found.difference < high
    assert found.p_value == max(found.p_lower, found.p_upper) < 0.05
    assert non_inferiority_test(test, user, high).p_value == pytest.approx(0.05, abs=1e-6)
    assert non_inferiority_test(user, test, -low).p_value == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize("margin", [0.0, 0.02])
def test_level_where_only_many_test_rows_show_the_rare_value(margin):
    """Of 50 user rows most samples hold none of it, and vary as if there were no such value."""

    def draw(n, rare):
        return np.where(rng.random(n) < rare, 0.01, 0.99 - 1e-3 * rng.random(n))

    rng, trials, rejected = np.random.default_rng(5), 300, 0
    test = draw(5000, 0.01)
    for _ in range(trials):
        user = draw(50, 0.01 + margin / 0.9795)
        rejected += non_inferiority_test(test, user, margin).p_value <= 0.05
    assert rejected <= stats.binom.ppf(0.999, trials, 0.05)

import re

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestIndPower

from lib.suitability.noninferiority import welch_non_inferiority
from lib.suitability.power import SampleSize, non_inferiority_power, required_sample_size


@pytest.mark.parametrize(("effect", "alpha"), [(0.0, 0.05), (0.3, 0.05), (-0.2, 0.1), (1.0, 0.01)])
def test_equals_statsmodels_where_sizes_and_variances_are_equal(effect, alpha):
    n = np.array([2, 5, 40, 300])
    theirs = [TTestIndPower().power(effect, k, alpha, ratio=1, alternative="larger") for k in n]
    ours = non_inferiority_power(n, n, 0.1 - 0.2 * effect, 0.2, 0.2, 0.1, alpha)
    assert ours == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize(("sd", "margin", "power"), [(0.2, 0.03, 0.8), (0.1, 0.05, 0.95)])
def test_sample_size_equals_statsmodels(sd, margin, power):
    n = TTestIndPower().solve_power(margin / sd, None, 0.05, power, 1, "larger")
    assert required_sample_size(sd, sd, margin=margin, power=power).n_user == np.ceil(n)


@pytest.mark.parametrize("seed", range(12))
def test_equals_integration_over_the_estimated_error(seed):
    """P(T <= t) with the standard error drawn from the chi distribution, by quadrature."""
    rng = np.random.default_rng(seed)
    n, m = (int(v) for v in 10 ** rng.uniform(0.4, 3, 2))
    a, b = rng.uniform(0.02, 0.4, 2)
    drop, margin, alpha = rng.uniform(-0.05, 0.1), rng.uniform(-0.05, 0.1), rng.uniform(0.01, 0.5)
    error = np.sqrt(a**2 / n + b**2 / m)
    dof = error**4 / (a**4 / n**2 / (n - 1) + b**4 / m**2 / (m - 1))
    chi = stats.chi(dof, scale=1 / np.sqrt(dof))
    low, high = chi.ppf(1e-15), chi.isf(1e-15)
    x, weight = np.polynomial.legendre.leggauss(500)
    s = (high - low) / 2 * x + (high + low) / 2
    below = stats.norm.cdf(stats.t.ppf(alpha, dof) * s - (drop - margin) / error)
    expected = (high - low) / 2 * (weight * below * chi.pdf(s)).sum()
    assert non_inferiority_power(n, m, drop, a, b, margin, alpha) == pytest.approx(
        expected, abs=1e-7
    )


@pytest.mark.parametrize(
    ("n", "m", "user", "margin"), [(60, 40, (6, 2), 0.06), (80, 500, (2, 1), 0.0)]
)
def test_power_by_simulation_with_beta_estimates(n, m, user, margin):
    repetitions = 4000
    rng = np.random.default_rng(n + m)
    test, other = stats.beta(7, 3), stats.beta(*user)
    shift = 0.03 - (test.mean() - other.mean())  # a true drop of 0.03
    x = test.rvs((repetitions, n), random_state=rng)
    y = other.rvs((repetitions, m), random_state=rng) - shift
    _, p, _ = welch_non_inferiority(
        x.mean(1), x.var(1, ddof=1), n, y.mean(1), y.var(1, ddof=1), m, margin
    )
    expected = float(non_inferiority_power(n, m, 0.03, test.std(), other.std(), margin))
    count = int((p <= 0.05).sum())
    # Skewed data move the power by less than a point at these sizes.
    assert stats.binom.ppf(1e-4, repetitions, max(expected - 0.01, 0)) <= count
    assert count <= stats.binom.ppf(1 - 1e-4, repetitions, min(expected + 0.01, 1))


def test_at_the_boundary_the_power_is_alpha():
    n = np.array([[2], [30], [10_000]])
    power = non_inferiority_power(n, [3, 50, 10**6, np.inf], 0.04, 0.1, 0.3, 0.04, 0.07)
    np.testing.assert_allclose(power, np.full((3, 4), 0.07), atol=1e-9)


@pytest.mark.parametrize(
    ("drop", "sds", "alpha", "power"),
    [
        (0.01, (0.0, 0.0), 0.05, 1.0),
        (0.02, (0.0, 0.0), 0.05, 0.0),
        (0.02, (0.0, 0.0), 0.5, 1.0),
        (0.03, (1e-14, 0.0), 0.05, 0.0),
    ],
)
def test_without_variance(drop, sds, alpha, power):
    assert non_inferiority_power(10, 20, drop, *sds, 0.02, alpha) == power


@pytest.mark.parametrize("alpha", [1e-12, 0.05, 0.99])
@pytest.mark.parametrize("n", [2, 3, 200, 10**12])
def test_power_is_finite_and_monotone_however_far(n, alpha):
    """scipy's noncentral t is NaN in parts of its tails."""
    drops = np.concatenate([-np.logspace(10, -6, 60), [0], np.logspace(-6, 10, 60)])
    power = non_inferiority_power(n, n, drops / np.sqrt(n), 0.7, 0.7, 0.0, alpha)
    assert ((power >= 0) & (power <= 1)).all()
    assert (np.diff(power) < 1e-7).all()
    assert power[0] > 1 - 1e-6
    assert power[-1] < 1e-6


def test_variance_on_one_side_only_is_a_one_sample_test():
    t = stats.t.ppf(0.05, 11)
    expected = stats.nct.cdf(t, 11, (0.0 - 0.05) / (0.1 / np.sqrt(12)))
    assert non_inferiority_power(500, 12, 0.0, 0.0, 0.1, 0.05) == pytest.approx(expected, rel=1e-9)
    assert non_inferiority_power(12, np.inf, 0.0, 0.1, 7, 0.05) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("fixed", [True, False])
def test_the_size_is_the_smallest(seed, fixed):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0.05, 0.4, 2)
    drop = rng.uniform(-0.05, 0.02)
    target, alpha = rng.uniform(0.5, 0.95), rng.uniform(0.01, 0.1)
    margin = drop + rng.uniform(0.02, 0.1)
    ratio = rng.uniform(0.3, 3)
    n_test = 8 + int(2 * (3.5 * a / (margin - drop)) ** 2) if fixed else None
    found = required_sample_size(
        a, b, margin=margin, drop=drop, alpha=alpha, power=target, n_test=n_test, ratio=ratio
    )
    n = np.arange(2, found.n_user + 50)
    tests = np.full(len(n), n_test) if fixed else np.maximum(np.ceil(ratio * n), 2)
    power = non_inferiority_power(tests, n, drop, a, b, margin, alpha)
    first = int(np.argmax(power >= target))
    assert found == SampleSize(n[first], tests[first], power[first])
    assert first == 0 or power[first - 1] < target <= power[first]


def test_the_size_is_the_smallest_beyond_a_thousand_too():
    found = required_sample_size(0.3, 0.3, margin=0.02)
    n = np.array([found.n_user - 1, found.n_user])
    power = non_inferiority_power(n, n, 0.0, 0.3, 0.3, 0.02, 0.05)
    assert n[0] > 2000
    assert power[0] < 0.8 <= power[1]


def test_power_that_falls_with_more_user_data():
    """Two test samples have one degree of freedom, which more user samples do not raise."""
    n = np.arange(2, 5000)
    power = non_inferiority_power(2, n, 0.0, 0.05, 0.08, 0.05)
    best = int(np.argmax(power))
    assert 0 < best < len(n) - 1
    target = float((power[best] + power[-1]) / 2)
    found = required_sample_size(0.05, 0.08, margin=0.05, power=target, n_test=2)
    assert found.n_user == n[np.argmax(power >= target)]


def test_ratio_is_not_rounded_up_for_a_rounding_error():
    assert required_sample_size(0.0, 0.0, margin=0.05, ratio=0.01) == SampleSize(2, 2, 1.0)
    # 10 user samples are the answer here, and 1.1 * 10 > 11 in binary arithmetic.
    sd, target = 0.05, float(non_inferiority_power(11, 10, 0, 0.05, 0.05, 0.05)) - 1e-6
    found = required_sample_size(sd, sd, margin=0.05, ratio=1.1, power=target)
    assert (found.n_user, found.n_test) == (10, 11)


@pytest.mark.parametrize(("n_test", "power"), [(50, 0.8), (10, 0.8), (223, 0.8), (100, 0.99)])
def test_too_few_test_samples(n_test, power):
    def size(n):
        return required_sample_size(0.12, 0.1, margin=0.02, n_test=n, power=power)

    with pytest.raises(ValueError, match="n_test must") as caught:
        size(n_test)
    most, enough = re.search(r"at most (\S+) can.*; (\d+) would", str(caught.value)).groups()
    limit = float(non_inferiority_power(n_test, np.inf, 0, 0.12, 0.1, 0.02))
    assert float(most) == pytest.approx(limit, rel=1e-3)
    assert limit < power <= size(int(enough)).power
    with pytest.raises(ValueError, match="n_test must"):
        size(int(enough) - 1)
    for margin in (0.0, 1e-9):
        with pytest.raises(ValueError, match="margin"):
            required_sample_size(0.1, 0.1, margin=margin)

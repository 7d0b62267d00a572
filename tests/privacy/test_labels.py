"""Label-DP mechanisms against direct densities, brute-force privacy losses and a second library."""

import itertools
import math

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting import pld, rdp
from scipy import stats

from lib.privacy.labels import (
    GaussianLabels,
    LaplaceLabels,
    RandomizedResponse,
    multi_stage_parts,
    posterior,
    project_to_simplex,
    rr_with_prior,
)

MECHANISMS = [LaplaceLabels(1.3), GaussianLabels(0.8), RandomizedResponse(1.1)]


def kind(mechanism):
    return type(mechanism).__name__


def within_binomial(count, n, p):
    """Whether a count is one that a fair binomial shows with probability above 1e-6."""
    return stats.binomtest(int(count), n, min(p, 1.0)).pvalue > 1e-6


@pytest.mark.parametrize(
    ("mechanism", "law"),
    [
        (LaplaceLabels(0.7), stats.laplace(scale=0.7)),
        (LaplaceLabels(3.0), stats.laplace(scale=3.0)),
        (GaussianLabels(0.4), stats.norm(scale=0.4)),
        (GaussianLabels(2.5), stats.norm(scale=2.5)),
    ],
)
def test_noise_has_the_stated_law_and_is_independent(mechanism, law):
    labels = np.arange(8000) % 4
    observed = mechanism.observe(labels, 4, seed=5)
    assert observed.shape == (8000, 4)
    assert observed.dtype == np.float64
    noise = observed - np.eye(4)[labels]
    for column in noise.T:
        assert stats.kstest(column, law.cdf).pvalue > 1e-3
    for c in range(4):  # the law may not depend on the label either
        assert stats.kstest(noise[labels == c].ravel(), law.cdf).pvalue > 1e-3
    correlation = np.corrcoef(noise.T) - np.eye(4)
    assert np.abs(correlation).max() < 5 / math.sqrt(8000)
    many = mechanism.observe(np.zeros(50_000, dtype=int), 4, seed=6)[:, 1:]
    assert many.std() == pytest.approx(law.std(), rel=0.008)


@pytest.mark.parametrize(("epsilon", "n_classes"), [(0.1, 2), (1.0, 2), (1.5, 5), (4.0, 10)])
def test_randomised_response_frequencies(epsilon, n_classes):
    n = 20_000
    for label in (0, n_classes - 1):
        observed = RandomizedResponse(epsilon).observe(np.full(n, label), n_classes, seed=label)
        assert set(np.unique(observed)) == {0.0, 1.0}
        assert (observed.sum(axis=1) == 1).all()
        counts = observed.sum(axis=0)
        for c in range(n_classes):
            weight = math.exp(epsilon) if c == label else 1.0
            assert within_binomial(counts[c], n, weight / (math.exp(epsilon) + n_classes - 1))


def log_densities(mechanism, observed):
    """log p(o | y = c) as a sum over coordinates, for every c."""
    n, n_classes = observed.shape
    table = np.empty((n, n_classes))
    for c in range(n_classes):
        centre = np.eye(n_classes)[c]
        if isinstance(mechanism, LaplaceLabels):
            terms = stats.laplace.logpdf(observed, loc=centre, scale=mechanism.scale)
        else:
            terms = stats.norm.logpdf(observed, loc=centre, scale=mechanism.sigma)
        table[:, c] = terms.sum(axis=1)
    return table


@pytest.mark.parametrize(
    "mechanism",
    [LaplaceLabels(0.2), LaplaceLabels(2.0), GaussianLabels(0.3), GaussianLabels(1.7)],
    ids=repr,
)
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_likelihood_is_the_normalised_product_of_densities(mechanism, n_classes):
    labels = np.arange(300) % n_classes
    observed = mechanism.observe(labels, n_classes, 0)
    likelihood = mechanism.likelihood(observed)
    assert likelihood.dtype == np.float32
    np.testing.assert_allclose(likelihood.sum(axis=1), 1, rtol=1e-6)
    direct = np.exp(log_densities(mechanism, observed))
    direct /= direct.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(likelihood, direct, rtol=2e-6, atol=1e-30)


@pytest.mark.parametrize(
    "mechanism", [LaplaceLabels(1e-3), GaussianLabels(1e-3), LaplaceLabels(5.0)], ids=repr
)
def test_likelihood_of_extreme_vectors(mechanism):
    extreme = np.array([[1e300, 0, 0], [-1e300, 1e300, 5e299], [0, 0, 0], [1.7e308, -1.7e308, 1]])
    likelihood = mechanism.likelihood(extreme)
    assert np.isfinite(likelihood).all()
    np.testing.assert_allclose(likelihood.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(likelihood[2], 1 / 3, rtol=1e-6)
    assert (likelihood.argmax(axis=1)[:2] == [0, 1]).all()
    assert np.array_equal(RandomizedResponse(1000.0).likelihood(np.eye(3)), np.eye(3))


@pytest.mark.parametrize("mechanism", [LaplaceLabels(0.6), GaussianLabels(0.6)], ids=kind)
def test_posterior_against_brute_force_bayes(mechanism):
    rng = np.random.default_rng(3)
    prior = rng.dirichlet(np.ones(5), 200)
    observed = mechanism.observe(rng.integers(0, 5, 200), 5, rng)
    expected = np.empty((200, 5))
    for i, table in enumerate(log_densities(mechanism, observed)):
        joint = [math.exp(table[c]) * prior[i, c] for c in range(5)]
        expected[i] = np.array(joint) / sum(joint)
    result = posterior(mechanism.likelihood(observed), prior)
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-12)
    one = posterior(mechanism.likelihood(observed), prior[0])
    everywhere = np.repeat(prior[:1], 200, axis=0)
    assert np.array_equal(one, posterior(mechanism.likelihood(observed), everywhere))


def test_posterior_where_products_underflow():
    likelihood = np.array([[1.0, 1e-200, 1e-250]])
    prior = np.array([[0.0, 1e-200, 1e-150]])
    np.testing.assert_allclose(posterior(likelihood, prior), [[0.0, 0.5, 0.5]], rtol=1e-12)
    tiny = np.full((1, 2), 5e-324)
    np.testing.assert_allclose(posterior(tiny, tiny), [[0.5, 0.5]])


@pytest.mark.parametrize("scale", [0.25, 1.0, 4.0])
def test_laplace_loss_is_bounded_by_epsilon_and_attains_it(scale):
    mechanism = LaplaceLabels(scale)
    observed = mechanism.observe(np.zeros(5000, dtype=int), 4, 0)
    observed = np.vstack([observed, [[1.5, -0.5, 0, 0], [-2.0, 1.0, 0, 0]]])
    table = log_densities(mechanism, observed)
    loss = table[:, :, None] - table[:, None, :]
    assert loss.max() <= mechanism.epsilon() * (1 + 1e-12)
    assert loss[-2, 0, 1] == pytest.approx(mechanism.epsilon(), rel=1e-12)
    assert loss[-1, 1, 0] == pytest.approx(mechanism.epsilon(), rel=1e-12)
    assert mechanism.epsilon() == 2 / scale


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.4, 1.7, 5.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-2, 0.1, 0.3])
def test_laplace_against_dp_accounting(scale, delta):
    """Two coordinates change by one each, so the mechanism is two Laplace mechanisms."""
    accountant = pld.PLDAccountant(value_discretization_interval=1e-4)
    accountant.compose(dp_accounting.LaplaceDpEvent(scale), 2)
    epsilon = LaplaceLabels(scale).epsilon(delta)
    assert epsilon == pytest.approx(accountant.get_epsilon(delta), abs=5e-4)
    if epsilon:
        assert LaplaceLabels.for_epsilon(epsilon, delta).scale == pytest.approx(scale, rel=1e-9)


@pytest.mark.parametrize("delta", [1e-15, 1e-10, 1e-6])
def test_laplace_small_delta_keeps_its_digits(delta):
    with mpmath.workdps(60):
        gain = mpmath.findroot(
            lambda h: (1 + h / 4) * mpmath.exp(-h / 2) - 1 + mpmath.mpf(delta), 4 * delta
        )
        expected = float(2 - gain)
    assert LaplaceLabels(1.0).epsilon(delta) == pytest.approx(expected, rel=0, abs=2e-15)


def rr_rows(pure, n_classes):
    """Output distributions of randomised response, one row per label, by its definition."""
    weights = np.ones((n_classes, n_classes)) + (math.exp(pure) - 1) * np.eye(n_classes)
    return weights / weights.sum(axis=1, keepdims=True)


def hockey_stick(rows, epsilon):
    """The largest divergence over all ordered pairs of rows."""
    return max(
        np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in itertools.permutations(rows, 2)
    )


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("pure", [0.1, 1.0, 5.0])
def test_randomised_response_epsilon_against_brute_force(pure, n_classes):
    rows = rr_rows(pure, n_classes)
    ratio = max(np.log(p / q).max() for p, q in itertools.permutations(rows, 2))
    mechanism = RandomizedResponse(pure)
    assert mechanism.epsilon() == pytest.approx(ratio, rel=1e-12)
    np.testing.assert_allclose(mechanism.likelihood(np.eye(n_classes)), rows, rtol=1e-6)
    for share in (0.1, 0.5, 0.95):
        delta = hockey_stick(rows, share * pure)
        exact = mechanism.epsilon(delta, n_classes=n_classes)
        assert exact == pytest.approx(share * pure, rel=1e-9)
        again = RandomizedResponse.for_epsilon(share * pure, delta, n_classes=n_classes)
        assert again.pure_epsilon == pytest.approx(pure, rel=1e-9)
        # Not knowing the number of classes may only cost, never lose, privacy.
        assert mechanism.epsilon(delta) >= exact - 1e-12
        careful = RandomizedResponse.for_epsilon(share * pure, delta).pure_epsilon
        assert hockey_stick(rr_rows(careful, n_classes), share * pure) <= delta * (1 + 1e-9)
    total_variation = hockey_stick(rows, 0.0)
    assert mechanism.epsilon(1.01 * total_variation, n_classes=n_classes) == 0
    assert mechanism.epsilon(0.99 * total_variation, n_classes=n_classes) > 0


@pytest.mark.parametrize("sigma", [0.3, 1.0, 10.0, 140.0, 142.0, 1e4, 1e9])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-5, 1e-2])
def test_gaussian_epsilon_with_many_digits(sigma, delta):
    """Also on both sides of mu = 0.01, where the way of computing changes."""
    epsilon = GaussianLabels(sigma).epsilon(delta)
    with mpmath.workdps(400):
        mu = mpmath.sqrt(2) / mpmath.mpf(sigma)

        def exact(e):
            return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)

        if epsilon == 0:
            assert exact(0) <= delta
        else:
            assert float(exact(mpmath.mpf(epsilon)) / delta) == pytest.approx(1, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-10, 1e-5, 1e-3, 0.1])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 5.0, 20.0])
def test_gaussian_against_dp_accounting(sigma, delta):
    """A Gaussian mechanism of sensitivity sqrt(2): noise multiplier sigma / sqrt(2)."""
    event = dp_accounting.GaussianDpEvent(sigma / math.sqrt(2))
    mechanism = GaussianLabels(sigma)
    exact = mechanism.epsilon(delta)
    grid = 1e-3 / sigma
    tight = pld.PLDAccountant(value_discretization_interval=grid).compose(event)
    assert exact == pytest.approx(tight.get_epsilon(delta), rel=1e-3, abs=2 * grid)
    loose = mechanism.epsilon(delta, "rdp")
    fine = np.concatenate([1 + np.geomspace(1e-2, 1, 300), np.geomspace(2.001, 5000, 1500)])
    theirs = rdp.RdpAccountant(orders=list(fine)).compose(event).get_epsilon(delta)
    assert exact <= loose <= 1.6 * exact + 0.3
    if theirs:  # theirs jumps to 0 where another inequality shows that epsilon is 0
        assert loose <= theirs * (1 + 1e-9)
        assert loose == pytest.approx(theirs, rel=1e-3)
    if exact:
        assert GaussianLabels.for_epsilon(exact, delta).sigma == pytest.approx(sigma, rel=1e-6)
    for absurd, limit in ((1e-200, math.inf), (1e305, 0)):
        for accountant in ("exact", "rdp"):
            assert GaussianLabels(absurd).epsilon(delta, accountant) == limit


def algorithm_4(o):
    """The paper's pseudocode, line by line."""
    s = sorted(o, reverse=True)
    k = max(j for j in range(1, len(o) + 1) if s[j - 1] > (sum(s[:j]) - 1) / j)
    u = (sum(s[:k]) - 1) / k
    return [max(value - u, 0) for value in o]


def test_projection_is_algorithm_4():
    observed = LaplaceLabels(0.8).observe(np.arange(300) % 7, 7, 0)
    expected = [algorithm_4(list(row)) for row in observed]
    np.testing.assert_allclose(project_to_simplex(observed), expected, atol=1e-13)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([0.0, 0.0], [0.5, 0.5]),
        ([7.0, 7.0, 7.0, 7.0], [0.25] * 4),
        ([2.0, 2.0, -3.0], [0.5, 0.5, 0.0]),
        ([0.75, 0.25], [0.75, 0.25]),
        ([1.0, 0.0], [1.0, 0.0]),
        ([0.4, -0.2], [0.8, 0.2]),
        ([3.0, 2.0], [1.0, 0.0]),
        ([1e300, -1e300, 0.0], [1.0, 0.0, 0.0]),
        ([1.7e308, -1.7e308], [1.0, 0.0]),
        ([-1e308, -1e308, -1e308], [1 / 3] * 3),
        ([1e15 + 0.5, 1e15], [0.75, 0.25]),
    ],
)
def test_projection_of_special_rows(row, expected):
    np.testing.assert_allclose(project_to_simplex([row]), [expected], atol=1e-15)


def top_k_row(prior, epsilon, label):
    """Distribution of RRWithPrior's output for one label, k, and its value, by the definition."""
    n_classes = len(prior)
    ranked = sorted(range(n_classes), key=lambda c: (-prior[c], c))
    best, k = -1.0, 0
    for candidate in range(1, n_classes + 1):
        mass = math.fsum(prior[c] for c in ranked[:candidate])
        value = math.exp(epsilon) / (math.exp(epsilon) + candidate - 1) * mass
        if value > best * (1 + 1e-12):
            best, k = value, candidate
    row = np.zeros(n_classes)
    for c in ranked[:k]:
        if label in ranked[:k]:
            row[c] = (math.exp(epsilon) if c == label else 1) / (math.exp(epsilon) + k - 1)
        else:
            row[c] = 1 / k
    return row, k, best


PRIORS = [
    [0.7, 0.2, 0.06, 0.04],
    [0.02, 0.48, 0.45, 0.05],
    [0.25, 0.25, 0.25, 0.25],
    [0.0, 0.5, 0.5, 0.0],
    [0.0, 0.0, 1.0, 0.0],
    [0.1, 0.3, 0.35, 0.25],
]


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("prior", PRIORS)
def test_rr_with_prior_has_the_distribution_whose_privacy_is_epsilon(epsilon, prior):
    n, rows = 4000, [top_k_row(prior, epsilon, label)[0] for label in range(4)]
    for label in range(4):
        noisy, k = rr_with_prior(np.full(n, label), np.tile(prior, (n, 1)), epsilon, seed=label)
        assert (k == top_k_row(prior, epsilon, label)[1]).all()
        for c in range(4):
            assert within_binomial((noisy == c).sum(), n, rows[label][c])
    worst = max(np.log(p[p > 0] / q[p > 0]).max() for p, q in itertools.permutations(rows, 2))
    assert worst == pytest.approx(epsilon if k[0] > 1 else 0.0, abs=1e-12)


def test_of_equally_good_k_rr_with_prior_takes_the_smallest():
    """A second class with the odds e^-epsilon is worth nothing, but for rounding."""
    for epsilon in np.linspace(0.1, 4, 40):
        prior = np.array([[1.0, np.exp(-epsilon), 0.0]])
        assert rr_with_prior([0], prior, epsilon, 0)[1].tolist() == [1]
    noisy, k = rr_with_prior([2, 2, 0], [[0, 0.5, 0.5], [0, 1, 0], [0, 0, 5]], 1e4, 0)
    assert (k.tolist(), noisy.tolist()) == ([2, 1, 1], [2, 1, 2])


def test_one_label_does_not_touch_the_noise_of_others():
    """Neighbouring data sets and the same seed: all other outputs stay, as the proof wants."""
    labels = np.arange(60) % 3
    neighbour = labels.copy()
    neighbour[7] = (labels[7] + 1) % 3
    others = np.arange(60) != 7
    for mechanism in MECHANISMS:
        a, b = (mechanism.observe(y, 3, 0)[others] for y in (labels, neighbour))
        assert np.array_equal(a, b)
    prior = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    a, b = (rr_with_prior(y, prior, 1.0, 0)[0][others] for y in (labels, neighbour))
    assert np.array_equal(a, b)


@pytest.mark.parametrize(("n", "stages"), [(1, 1), (10, 3), (11, 11), (1000, 7)])
def test_multi_stage_parts(n, stages):
    parts = multi_stage_parts(n, stages, 0)
    sizes = [len(part) for part in parts]
    assert len(parts) == stages
    assert max(sizes) - min(sizes) <= 1
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(n))
    assert all((np.diff(part) > 0).all() for part in parts)
    with pytest.raises(ValueError, match="stages"):
        multi_stage_parts(n, n + 1, 0)
    counts = sum(np.isin(np.arange(20), multi_stage_parts(20, 4, seed)[0]) for seed in range(400))
    assert all(within_binomial(count, 400, 0.25) for count in counts)

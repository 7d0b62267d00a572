"""The posterior of epsilon against other integrations, simulation, and itself."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

from lib.audit import AttackCounts, epsilon_point, epsilon_posterior

DELTAS = (0.0, 1e-5, 0.05, 0.5)


def random_counts(rng) -> AttackCounts:
    """Tables of all sizes, zero counts often."""
    positives, negatives = (int(10 ** rng.uniform(0, 4)) for _ in range(2))
    fn = int(rng.choice([0, positives, rng.integers(0, positives + 1)], p=[0.25, 0.1, 0.65]))
    fp = int(rng.choice([0, negatives, rng.integers(0, negatives + 1)], p=[0.25, 0.1, 0.65]))
    return AttackCounts(positives - fn, fp, negatives - fp, fn)


def by_quad(counts: AttackCounts, delta: float, eps: float) -> float:
    """P3's definition: the mass of both Beta posteriors within the region, by QUADPACK.

    In plain floats, and with the region's ends written out: arrays of one number cost most of it.
    """
    ax, bx, ay, by = (n + 0.5 for n in (counts.fn, counts.tp, counts.fp, counts.tn))
    scale = special.betaln(ax, bx)

    def integrand(theta: float) -> float:
        x = math.sin(theta) ** 2
        log = (2 * ax - 1) * math.log(math.sin(theta)) + (2 * bx - 1) * math.log(math.cos(theta))
        low = max(0.0, (1 - delta - x) / grow, 1 - delta - grow * x)
        high = 1 - max(0.0, (x - delta) / grow, 1 - delta - grow * (1 - x))
        inside = special.betainc(ay, by, high) - special.betainc(ay, by, low)
        return 2 * math.exp(log - scale) * inside

    grow = math.exp(eps)
    grid = [1e-15, 1e-9, 1e-5, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-5, 1 - 1e-9]
    marks = [math.asin(math.sqrt(q)) for q in special.betaincinv(ax, bx, grid)]
    ends = [(1 - delta) / (1 + grow), 1 - delta, delta, 1 - (1 - delta) / (1 + grow)]
    for q in special.betaincinv(ay, by, grid):
        for y in (q, 1 - q):
            for x in (1 - delta - y * grow, (1 - delta - y) / grow):
                ends += [x, 1 - x]
    marks += [math.asin(math.sqrt(x)) for x in ends if 0 < x < 1]
    pieces = np.unique([0.0, math.pi / 2, *marks])
    return math.fsum(
        integrate.quad(integrand, a, b, epsabs=1e-14, epsrel=1e-12, limit=200)[0]
        for a, b in itertools.pairwise(pieces)
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
def test_distribution_function_against_adaptive_quadrature_on_200_tables():
    rng = np.random.default_rng(0)
    worst = 0.0
    for k in range(200):
        counts, delta = random_counts(rng), DELTAS[k % 4]
        eps = float(rng.choice([0.0, rng.uniform(0, 1), rng.uniform(0, 12)]))
        found = float(epsilon_posterior(counts, delta).cdf(eps))
        worst = max(worst, abs(found - by_quad(counts, delta, eps)))
    assert worst < 1e-10


@pytest.mark.parametrize(
    ("counts", "delta", "eps"),
    [
        (AttackCounts(65, 25, 75, 35), 0.05, 0.7),
        (AttackCounts(487, 512, 1, 0), 1e-5, 0.3),
        (AttackCounts(10, 0, 12, 0), 0.0, 3.0),
        (AttackCounts(0, 3, 0, 2), 0.1, 1.0),
        (AttackCounts(90, 0, 100, 10), 1e-5, 3.0),
    ],
)
def test_mass_outside_against_mpmath(counts, delta, eps):
    def corner(ax, bx, ay, by):
        ax, bx, ay, by = map(mpmath.mpf, (ax, bx, ay, by))
        d, grow = mpmath.mpf(delta), mpmath.exp(mpmath.mpf(eps))
        total = mpmath.beta(ax, bx)

        def integrand(t):
            x = mpmath.sin(t) ** 2
            y = max((1 - d - x) / grow, 1 - d - grow * x, mpmath.mpf(0))
            weight = mpmath.sin(t) ** (2 * ax - 1) * mpmath.cos(t) ** (2 * bx - 1)
            return 2 * weight / total * mpmath.betainc(ay, by, 0, y, regularized=True)

        cross = mpmath.asin(mpmath.sqrt((1 - d) / (1 + grow)))
        end = mpmath.asin(mpmath.sqrt(1 - d))
        inner = [end * i / 12 for i in range(13)]
        return mpmath.quad(integrand, sorted({*inner, cross}))

    with mpmath.workdps(20):
        x, y = (counts.fn + 0.5, counts.tp + 0.5), (counts.fp + 0.5, counts.tn + 0.5)
        expected = float(corner(*x, *y) + corner(*x[::-1], *y[::-1]))
    assert float(epsilon_posterior(counts, delta).sf(eps)) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(
    "counts",
    [AttackCounts(65, 25, 75, 35), AttackCounts(10, 0, 12, 1), AttackCounts(2, 8, 1, 9)],
)
def test_against_simulation(counts, delta):
    rng = np.random.default_rng(1)
    n = 200_000
    fnr = rng.beta(counts.fn + 0.5, counts.tp + 0.5, n)
    fpr = rng.beta(counts.fp + 0.5, counts.tn + 0.5, n)
    drawn = epsilon_point(fpr, fnr, delta)
    posterior = epsilon_posterior(counts, delta)
    for eps in (0.0, 0.2, 1.0, 3.0):
        p = float(posterior.cdf(eps))
        low, high = stats.binom.ppf([1e-5, 1 - 1e-5], n, p)
        assert low <= np.count_nonzero(drawn <= eps) <= high
    assert posterior.mass_at_zero == float(posterior.cdf(0.0))
    error = drawn.std() / math.sqrt(n)
    assert posterior.mean() == pytest.approx(drawn.mean(), abs=5 * error)


@pytest.mark.parametrize("delta", DELTAS)
def test_density_is_the_derivative(delta):
    rng = np.random.default_rng(2)
    for _ in range(30):
        posterior = epsilon_posterior(random_counts(rng), delta)
        eps = float(rng.uniform(0.05, 6))
        h = 1e-4
        slope = float(posterior.cdf(eps + h) - posterior.cdf(eps - h)) / (2 * h)
        curve = abs(float(posterior.pdf(eps + h) - posterior.pdf(eps - h)))
        assert float(posterior.pdf(eps)) == pytest.approx(slope, abs=1e-6 + 0.02 * curve)


def test_density_and_mass_at_zero_make_one():
    for counts, delta in ((AttackCounts(65, 25, 75, 35), 0.05), (AttackCounts(5, 4, 6, 5), 0.3)):
        posterior = epsilon_posterior(counts, delta)
        total = integrate.quad(posterior.pdf, 0, 8, limit=400, epsabs=1e-11)[0]
        total += float(posterior.sf(8.0))
        assert total + posterior.mass_at_zero == pytest.approx(1.0, abs=1e-8)


def test_quantiles_invert_the_distribution_function():
    rng = np.random.default_rng(3)
    for k in range(60):
        posterior = epsilon_posterior(random_counts(rng), DELTAS[k % 4])
        for q in (1e-6, 0.05, 0.5, 0.95, 1 - 1e-9):
            eps = float(posterior.ppf(q))
            if eps == 0:
                assert posterior.mass_at_zero >= q - 1e-12
            else:
                assert float(posterior.cdf(eps)) == pytest.approx(q, abs=1e-11)
        for q in (1e-12, 1e-30):
            eps = float(posterior.isf(q))
            assert eps == 0 or float(posterior.sf(eps)) == pytest.approx(q, rel=1e-6)


def test_ends_of_the_line():
    posterior = epsilon_posterior(AttackCounts(65, 25, 75, 35), 0.05)
    assert posterior.cdf(-1.0) == posterior.pdf(-1.0) == 0.0
    assert posterior.cdf(math.inf) == posterior.sf(-1.0) == 1.0
    assert posterior.sf(math.inf) == 0.0
    assert posterior.ppf(0.0) == 0.0
    assert posterior.ppf(1.0) == math.inf
    assert posterior.cdf([0.0, 0.5, 9.0]).shape == (3,)
    assert np.ndim(posterior.cdf(0.5)) == 0


def test_symmetries():
    """Members and non-members, and guesses, may change places."""
    for counts in ((65, 25, 75, 35), (10, 0, 7, 3)):
        tp, fp, tn, fn = counts
        for other in ((tn, fn, tp, fp), (fn, tn, fp, tp)):
            for eps in (0.0, 0.4, 2.0):
                a = epsilon_posterior(AttackCounts(*counts), 0.01).cdf(eps)
                b = epsilon_posterior(AttackCounts(*other), 0.01).cdf(eps)
                assert float(a) == pytest.approx(float(b), abs=1e-12)

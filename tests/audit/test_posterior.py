"""The posterior of epsilon against other integrations, and itself."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

from lib.audit import AttackCounts, epsilon_posterior, privacy_region
from lib.audit import posterior as module
from lib.audit.posterior import EpsilonPosterior, most_below

COUNTS = AttackCounts(tp=65, fp=25, tn=75, fn=35)
INF = math.inf


def spread(seed, n):
    """Tables of all sizes, zero counts often, with a delta each."""
    rng = np.random.default_rng(seed)
    for k in range(n):
        positives, negatives = (int(10 ** rng.uniform(0, 4)) for _ in range(2))
        fn = int(rng.choice([0, positives, rng.integers(0, positives + 1)], p=[0.25, 0.1, 0.65]))
        fp = int(rng.choice([0, negatives, rng.integers(0, negatives + 1)], p=[0.25, 0.1, 0.65]))
        yield AttackCounts(positives - fn, fp, negatives - fp, fn), (0.0, 1e-5, 0.05, 0.5)[k % 4]


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
def test_distribution_function_against_adaptive_quadrature_on_80_tables():
    rng, worst = np.random.default_rng(1), 0.0
    for counts, delta in spread(0, 80):
        eps = float(rng.choice([0.0, rng.uniform(0, 1), rng.uniform(0, 12)]))
        found = float(epsilon_posterior(counts, delta).cdf(eps))
        worst = max(worst, abs(found - by_quad(counts, delta, eps)))
    assert worst < 1e-10


def test_density_is_the_derivative():
    rng, h = np.random.default_rng(2), 1e-4
    for counts, delta in spread(2, 80):
        posterior, eps = epsilon_posterior(counts, delta), float(rng.uniform(0.05, 6))
        slope = float(posterior.cdf(eps + h) - posterior.cdf(eps - h)) / (2 * h)
        curve = abs(float(posterior.pdf(eps + h) - posterior.pdf(eps - h)))
        assert float(posterior.pdf(eps)) == pytest.approx(slope, abs=1e-6 + 0.02 * curve)


def test_quantiles_at_any_probability_invert_the_mass():
    for counts, delta in spread(12, 30):
        posterior = epsilon_posterior(counts, delta)
        zero = float(posterior.mass_at_zero)
        for q in (1e-9, 0.01, 0.3, 0.7, 0.99, 1 - 1e-12):
            eps = float(posterior.ppf(q))
            assert eps >= 0
            if eps == 0:
                assert zero >= q - 1e-12
                continue
            assert zero <= q + 1e-12
            assert float(posterior.sf(eps)) == pytest.approx(1 - q, rel=1e-6, abs=1e-11)
            if 0.001 < q < 0.999:  # beyond, 1 - q has lost digits
                assert float(posterior.isf(1 - q)) == pytest.approx(eps, rel=1e-6, abs=1e-9)
        for tail in (1e-8, 1e-20, 1e-100):
            eps = float(posterior.isf(tail))
            if 0 < eps < 600:
                assert float(posterior.sf(eps)) == pytest.approx(tail, rel=1e-5)


def test_the_mean_is_the_integral_of_the_survival_function():
    for counts, delta in (
        (COUNTS, 0.05),
        (AttackCounts(10, 0, 12, 1), 1e-5),
        (AttackCounts(2, 8, 1, 9), 0.0),
        (AttackCounts(487, 512, 1, 0), 1e-5),
        (AttackCounts(5, 5, 5, 5), 0.4),
    ):
        posterior = epsilon_posterior(counts, delta)
        pieces = [0.0, *(float(posterior.isf(10.0**-k)) for k in (0.1, 0.5, 1, 2, 4, 6, 9)), 90.0]
        expected = sum(
            integrate.quad(posterior.sf, a, b, epsabs=1e-12, epsrel=1e-9, limit=200)[0]
            for a, b in itertools.pairwise(pieces)
            if b > a
        )
        assert posterior.mean() == pytest.approx(expected, rel=1e-4)


def test_ends_and_arrays():
    posterior = epsilon_posterior(COUNTS, 0.05)
    eps = np.array([-1.0, -1e-300, 0.0, INF])
    zero = float(posterior.mass_at_zero)
    assert posterior.cdf(eps).tolist() == [0.0, 0.0, zero, 1.0]
    assert posterior.sf(eps).tolist() == [1.0, 1.0, pytest.approx(1 - zero), 0.0]
    assert posterior.pdf(eps)[[0, 1, 3]].tolist() == [0.0, 0.0, 0.0]
    assert posterior.pdf(0.0) > 0
    assert 0 < zero < 1
    assert posterior.isf(0.0) == posterior.ppf(1.0) == INF
    assert posterior.isf(1.0) == posterior.ppf(0.0) == 0.0
    tails = [0.1, 0.2, 0.5]
    for quantile in (posterior.isf, posterior.ppf):
        assert quantile(tails).tolist() == [float(quantile(q)) for q in tails]
    # Rates that are surely no better than chance: all the mass is at 0, and no less than 0.
    none = epsilon_posterior(AttackCounts(500, 500, 500, 500), 0.9)
    assert none.cdf(0.0) == none.mass_at_zero == 1.0
    assert none.mean() == pytest.approx(0.0, abs=1e-12)
    assert none.ppf(0.999) == none.isf(1e-9) == 0.0


def test_the_cheap_bound_step_by_step():
    """Between two values of x, y is below the bound at the first; before them, below 1 - delta."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        ax, bx, ay, by = rng.integers(0, 20, 4) + 0.5
        delta, eps = float(rng.choice([0.0, 0.01, 0.3])), float(rng.choice([0.0, 0.4, 3.0]))
        steps = np.sort(rng.normal(0, 2, int(rng.integers(2, 6))))
        x_law, y_law = stats.beta(ax, bx), stats.beta(ay, by)
        x = np.clip(x_law.mean() + x_law.std() * steps, 0.0, 1 - delta)
        bound = privacy_region(eps, delta).lower
        expected = x_law.cdf(x[0]) * y_law.cdf(1 - delta)
        for left, right in zip(x, [*x[1:], 1 - delta], strict=True):
            expected += (x_law.cdf(right) - x_law.cdf(left)) * y_law.cdf(float(bound(left)))
        found = most_below([ax, 1.5], [bx, 0.5], [ay, 2.5], by, 1 - delta, eps, steps)
        assert found.shape == (2,)
        assert found[0] == pytest.approx(expected, rel=1e-9, abs=1e-14)
        # It is what it is for: a bound of the mass itself.
        assert module._Corner(ax, bx, ay, by, delta).mass(eps)[0] <= found[0] * (1 + 1e-9) + 1e-15


def mass_near_the_origin(a, n, c, m, delta, eps):
    """The mass of two error rates (a of n, c of m) below the region, by mpmath."""
    with mpmath.workdps(20):
        ax, bx, ay, by = (mpmath.mpf(2 * v + 1) / 2 for v in (a, n - a, c, m - c))
        end, grow = 1 - mpmath.mpf(delta), mpmath.exp(eps)
        cross = end / (1 + grow)
        scale = mpmath.beta(ax, bx)

        def part(x):
            y = max((end - x) / grow, end - grow * x)
            below = mpmath.betainc(ay, by, 0, min(max(y, 0), 1), regularized=True)
            return x ** (ax - 1) * (1 - x) ** (bx - 1) / scale * below

        shares = ("1e-6", "1e-4", "0.01", "0.1", "0.3", "0.5", "0.7", "0.9", "1")
        ends = [0, *(cross / k for k in (16, 4, 2, 1))]
        ends += [cross + (end - cross) * mpmath.mpf(share) for share in shares]
        return float(mpmath.quad(part, ends))


@pytest.mark.parametrize(
    ("a", "n", "c", "m", "delta", "eps"),
    [
        (4, 50, 2, 50, 1e-5, 20.0),
        (379, 2000, 8, 10, 0.1, 5.0),
        (30, 60, 30, 60, 0.0, 3.0),
        (19, 50, 19, 50, 0.01, 0.05),  # the other corner has less than 1e-4
        (2, 2, 3, 5, 0.1, 1.0),
    ],
)
def test_mass_and_density_by_mpmath(a, n, c, m, delta, eps):
    """Some so small that no part may be left out: both rates are all but surely beyond."""

    def outside(eps):
        corners = (a, n, c, m), (n - a, n, m - c, m)
        return math.fsum(mass_near_the_origin(*each, delta, eps) for each in corners)

    posterior = EpsilonPosterior(AttackCounts(n - a, c, m - c, a), delta)
    assert float(posterior.sf(eps)) == pytest.approx(outside(eps), rel=1e-10, abs=1e-18)
    h = 1e-4  # the error of the difference is of its square
    if a in (4, 30):
        slope = (outside(eps - h) - outside(eps + h)) / (2 * h)
        assert float(posterior.pdf(eps)) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("eps", [1e-9, 1e-6, 1e-3, 0.03, 0.3, 0.9, 1.1])
@pytest.mark.parametrize("counts", [COUNTS, AttackCounts(5, 4, 6, 5), AttackCounts(0, 3, 2, 4)])
def test_quantiles_next_to_zero(counts, eps):
    """There may be none, and the search must not take one of a small epsilon for 0."""
    posterior = epsilon_posterior(counts, 0.01)
    tail = float(posterior.sf(eps))
    # A tail is known to about 1e-15, which moves the quantile by that over the density.
    slope = (tail - float(posterior.sf(eps + 1e-4))) / 1e-4
    assert posterior.isf(tail) == pytest.approx(eps, rel=1e-9, abs=1e-13 / slope)

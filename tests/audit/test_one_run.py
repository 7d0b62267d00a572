"""The bound of one-run auditing, against enumeration and simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from lib.audit import one_run_epsilon, one_run_guesses, one_run_p_value, true_best_epsilon
from lib.audit.one_run import best_one_run


def brute(correct, guesses, canaries, epsilon, delta):
    """Steinke et al., Theorem 5.2, by plain sums; or the bound for any number of guesses."""
    p = 1 / (1 + math.exp(-epsilon))

    def pmf(k):
        return math.comb(guesses, k) * p**k * (1 - p) ** (guesses - k)

    beyond = sum(pmf(k) for k in range(correct, guesses + 1))
    worst = max(
        (sum(pmf(k) for k in range(correct - i, correct)) / i for i in range(1, correct + 1)),
        default=0.0,
    )
    return min(1.0, beyond + canaries * delta * min(2 * worst, 1 - p))


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-2])
def test_p_value_by_plain_sums(delta):
    for correct, epsilon in itertools.product((0, 1, 7, 12, 20), (0.0, 0.5, 3.0)):
        assert one_run_p_value(correct, 20, 50, epsilon, delta) == pytest.approx(
            brute(correct, 20, 50, epsilon, delta), rel=1e-9, abs=1e-15
        )


def test_bound_is_where_the_p_value_crosses():
    for correct, delta in ((90, 0.0), (80, 1e-5), (99, 1e-4), (100, 1e-5)):
        low = one_run_epsilon(correct, 100, 1000, delta, 0.95)
        assert low > 0
        assert one_run_p_value(correct, 100, 1000, low - 1e-9, delta) <= 0.05
        assert one_run_p_value(correct, 100, 1000, low + 1e-9, delta) > 0.05
    assert one_run_epsilon(50, 100, 1000, 1e-5) == 0.0
    # So large a delta that nothing can be said.
    assert one_run_epsilon(100, 100, 1000, 0.5) == 0.0


def test_bound_is_the_largest_that_is_rejected_where_small_ones_are_not():
    """What delta adds falls with epsilon: nothing is rejected below 0.6, and much above it."""
    given = (20, 20, 1000)
    low = one_run_epsilon(*given, 1.5e-4, fixed=False)

    def p_value(epsilon):
        return one_run_p_value(*given, epsilon, 1.5e-4, fixed=False)

    assert p_value(0.0) > 0.05
    assert p_value(low - 0.1) < p_value(low - 1e-9) <= 0.05
    assert min(p_value(e) for e in np.linspace(low + 1e-9, 5, 400)) > 0.05


def test_pure_privacy_is_clopper_pearson_on_the_accuracy():
    low = one_run_epsilon(90, 100, 500, 0.0, 0.95)
    rate = stats.beta.ppf(0.05, 90, 11)
    assert low == pytest.approx(math.log(rate / (1 - rate)), abs=1e-9)


def test_a_number_of_guesses_that_the_model_chooses():
    """The level breaks if it counts as fixed by Steinke's bound alone, and holds as it is here.

    A (0, delta)-private mechanism reveals 7 of the m coins with a probability for which each is
    revealed with probability delta; otherwise it reveals nothing, and all are guessed at random.
    """
    m, delta, level = 1000, 1e-4, 0.95
    revealed, counts = m * delta / 7, np.arange(400, 601)
    chances = (1 - revealed) * stats.binom.pmf(counts, m, 0.5)

    def steinke(correct, guesses):
        pmf = stats.binom.pmf(np.arange(correct - 1, -1, -1), guesses, 0.5)
        worst = (np.cumsum(pmf) / np.arange(1, correct + 1)).max()
        return stats.binom.sf(correct - 1, guesses, 0.5) + 2 * m * delta * worst <= 1 - level

    def ours(correct, guesses):
        return one_run_epsilon(correct, guesses, m, delta, level, fixed=False) > 0

    def error(rejects):
        return revealed * rejects(7, 7) + chances @ [rejects(int(k), m) for k in counts]

    assert error(ours) <= 1 - level < error(steinke)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
def test_both_bounds_on_one_canary_are_above_the_exact_chance(epsilon):
    """One coin: an (epsilon, delta)-private guess is right with (e^eps + delta) / (1 + e^eps)."""
    delta = 0.02
    exact = (math.exp(epsilon) + delta) / (1 + math.exp(epsilon))
    assert one_run_p_value(1, 1, 1, epsilon, delta, fixed=False) == pytest.approx(exact, abs=1e-12)
    assert one_run_p_value(1, 1, 1, epsilon, delta) >= exact - 1e-12


def largest_chance(correct, guesses, canaries, mu):
    """Largest chance of `correct` right guesses in the inequalities of the family, by a solver."""
    i = np.arange(guesses + 1)
    rows, limits = [], []
    for n in range(guesses):
        left = np.where(i > n, i, 0) / canaries
        right = np.where(i >= n, guesses - i, 0) / canaries
        for x in special.ndtr(np.linspace(-6, 6, 241)):  # tangents of the concave function F
            z = special.ndtri(x)
            slope = math.exp(-mu * z - mu * mu / 2)
            rows.append(left - slope * right)
            limits.append(special.ndtr(z + mu) - slope * x)
    found = optimize.linprog(
        -(i >= correct).astype(float),
        A_ub=np.array(rows),
        b_ub=limits,
        A_eq=np.ones((1, len(i))),
        b_eq=[1.0],
    )
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize(("correct", "mu"), [(9, 0.3), (10, 0.5), (12, 1.0)])
def test_gaussian_recursion_against_a_linear_program(correct, mu):
    """Every inequality is in the program; the recursion uses those below `correct`."""
    guesses, canaries = 12, 30
    delta, level = 1e-5, 1 - largest_chance(correct, guesses, canaries, mu)
    found = one_run_epsilon(correct, guesses, canaries, delta, level, family="gaussian")
    assert found == pytest.approx(true_best_epsilon(mu, delta), rel=1e-3)  # tangents cost a little


@pytest.mark.parametrize("mu", [1.0, 2.0])
def test_gaussian_family_keeps_its_level_and_shows_more(mu):
    """Gaussian mechanisms, a coin each: the surest fifth of the guesses; and all (exact sum)."""
    level, m, repetitions, delta = 0.95, 200, 400, 1e-5
    truth = true_best_epsilon(mu, delta)
    rng = np.random.default_rng(int(10 * mu))
    members = rng.random((repetitions, m)) < 0.5
    scores = rng.normal(size=(repetitions, m)) + mu * members
    counts = [one_run_guesses(s, b, 40) for s, b in zip(scores, members, strict=True)]
    bounds = {c: one_run_epsilon(c, 40, m, delta, level, family="gaussian") for c, _ in counts}
    above = sum(bounds[c] > truth + 1e-9 for c, _ in counts)
    assert above <= stats.binom.ppf(0.999, repetitions, 1 - level)
    middle = int(np.median([c for c, _ in counts]))
    assert one_run_epsilon(middle, 40, m, delta, level) < bounds[middle] < truth
    beyond = [one_run_epsilon(c, 40, 40, delta, level, family="gaussian") for c in range(20, 41)]
    rejected = [c for c, bound in enumerate(beyond, 20) if bound > truth]
    assert stats.binom.sf(min(rejected, default=41) - 1, 40, special.ndtr(mu / 2)) <= 1 - level


def test_best_of_several_fractions_pays_for_the_choice():
    rng = np.random.default_rng(0)
    members = rng.random((1, 400)) < 0.5
    scores = rng.normal(size=(1, 400)) + 2 * members
    expected = 0.0
    for count in (4, 8, 20, 40, 120):
        right, made = one_run_guesses(scores, members, count)
        expected = max(expected, one_run_epsilon(right, made, 400, 1e-5, 0.99))
    assert best_one_run(scores, members, 1e-5, 0.95) == expected > 0
    assert best_one_run(scores, members, 1e-5, 0.95, family="gaussian") > expected
    assert best_one_run(np.zeros((1, 400)), members, 1e-5) == 0  # scores that say nothing


def test_the_order_of_the_array_decides_no_ties():
    """Confidences of 1 throughout, members last: the attack knows nothing."""
    members = np.arange(100)[None] >= 50
    scores = np.repeat([[1.0], [0.0]], 100, axis=1)
    found = [one_run_guesses(np.zeros((1, 100)), members, 60, seed=k)[0] for k in range(400)]
    # Hypergeometric at either end; the variance of their sum is below that of 60 coins.
    assert np.mean(found) == pytest.approx(30, abs=4 * math.sqrt(15 / 400))
    first, guesses = one_run_guesses(np.zeros((1, 100)), members, 60)
    assert one_run_epsilon(first, guesses, 100, 1e-5) < 0.5
    each = one_run_guesses(scores, np.repeat(members, 2, axis=0), 60, seed=3)[0]
    assert each != 2 * one_run_guesses(scores[:1], members, 60, seed=3)[0]  # runs of their own


def test_scores_that_differ_by_rounding_are_equal():
    """The order among them is the seed's; 0.1 k - k / 10 would tell who was in."""
    tenths = np.random.default_rng(5).integers(0, 11, (2, 200))
    members = np.random.default_rng(6).random((2, 200)) < 0.5
    expected = one_run_guesses(tenths, members, 60)
    ways = tenths / 10, 0.1 * tenths, 1 - (10 - tenths) / 10, (tenths / 10).astype(np.float32)
    for scores in (*ways, np.where(members, np.maximum(*ways[:2]), ways[2])):
        assert one_run_guesses(scores, members, 60) == expected


def test_guesses():
    scores = np.array([[5.0, -3.0, 0.1, 2.0, -9.0, 0.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    members = np.array([[1, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]], bool)
    # First run: in at 0 and 3 (right, wrong), out at 4 and 1 (wrong, right); second: all right.
    assert one_run_guesses(scores, members, 4) == (6, 8)
    assert one_run_guesses(scores[0], members[0], 2) == (1, 2)


def test_many_guesses():
    """Sums over what is near the most probable number alone, and rejections that stop early."""
    q, n = special.expit(1.0), 20_000
    for correct in (100, 14_000, 14_620, 15_500, n):
        below = np.cumsum(stats.binom.pmf(np.arange(correct - 1, -1, -1), n, q))
        worst = (below / np.arange(1, correct + 1)).max()
        slack = n * 1e-7 * min(2 * worst, 1 - q)
        expected = min(1.0, stats.binom.sf(correct - 1, n, q) + slack)
        assert one_run_p_value(correct, n, n, 1.0, 1e-7) == pytest.approx(expected, rel=1e-9)
    million = 10**6
    assert 1.08 < one_run_epsilon(750_000, million, million, 1e-9, family="gaussian") < 4.0
    assert one_run_epsilon(750_000, million, million, 1e-9) == pytest.approx(math.log(3), abs=0.01)

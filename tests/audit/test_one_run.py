"""The bound of one-run auditing, against enumeration and simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from lib.audit import one_run_epsilon, one_run_guesses, one_run_p_value


def brute(correct, guesses, canaries, epsilon, delta):
    """Steinke et al., Theorem 5.2, by plain sums."""
    p = 1 / (1 + math.exp(-epsilon))

    def pmf(k):
        return math.comb(guesses, k) * p**k * (1 - p) ** (guesses - k)

    beyond = sum(pmf(k) for k in range(correct, guesses + 1))
    worst = max(
        (sum(pmf(k) for k in range(correct - i, correct)) / i for i in range(1, correct + 1)),
        default=0.0,
    )
    return min(1.0, beyond + 2 * canaries * delta * worst)


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


def test_pure_privacy_is_clopper_pearson_on_the_accuracy():
    low = one_run_epsilon(90, 100, 500, 0.0, 0.95)
    rate = stats.beta.ppf(0.05, 90, 11)
    assert low == pytest.approx(math.log(rate / (1 - rate)), abs=1e-9)


@pytest.mark.slow
def test_level_is_kept_for_randomized_response():
    """Each canary's coin is told truly with probability e / (1 + e): epsilon is 1 exactly."""
    rng = np.random.default_rng(0)
    repetitions, m, epsilon, level = 2000, 60, 1.0, 0.9
    p = 1 / (1 + math.exp(-epsilon))
    right = rng.binomial(m, p, repetitions)
    above = np.mean([one_run_epsilon(int(r), m, m, 0.0, level) > epsilon for r in right])
    assert above <= 0.1 + 4 * math.sqrt(0.1 * 0.9 / repetitions)
    assert above > 0.02  # and it is not trivial


def test_guesses():
    scores = np.array([[5.0, -3.0, 0.1, 2.0, -9.0, 0.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    members = np.array([[1, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]], bool)
    # First run: in at 0 and 3 (right, wrong), out at 4 and 1 (wrong, right); second: all right.
    assert one_run_guesses(scores, members, 4) == (6, 8)
    assert one_run_guesses(scores[0], members[0], 2) == (1, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: one_run_p_value(3, 2, 5, 1.0, 0.0), r"must ascend, .* got 3, 2, 5"),
        (lambda: one_run_p_value(-1, 2, 5, 1.0, 0.0), r"correct must be .* at least 0, got -1"),
        (lambda: one_run_p_value(1, 2, 5, -1.0, 0.0), r"epsilon must be at least 0, got -1.0"),
        (lambda: one_run_p_value(1, 2, 5, math.nan, 0.0), r"epsilon must be at least 0, got nan"),
        (lambda: one_run_epsilon(1, 2, 5, 2.0), r"delta must be in \[0, 1\), got 2.0"),
        (lambda: one_run_epsilon(1, 2, 5, 0.0, 1.0), r"level must be in \(0, 1\), got 1.0"),
        (
            lambda: one_run_guesses(np.zeros((1, 4)), np.zeros((1, 4), bool), 3),
            r"guesses must be even, from 2 to 4, got 3",
        ),
        (
            lambda: one_run_guesses(np.full((1, 4), np.nan), np.zeros((1, 4), bool), 2),
            r"scores must not be NaN, got 4 NaN",
        ),
        (
            lambda: one_run_guesses(np.zeros((1, 4)), np.zeros((1, 3), bool), 2),
            r"members must be booleans of the shape of scores",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()

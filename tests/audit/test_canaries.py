"""The canary attack: by definition with loops, on edge cases, and against known mechanisms."""

import math

import numpy as np
import pytest
from scipy import stats

from lib.audit import (
    canary_epsilon,
    epsilon_of_rate,
    one_label_bound,
    one_run_epsilon,
    rate_of_epsilon,
    single_label_guesses,
    top_label_bound,
    top_label_guesses,
)
from lib.audit.canaries import THRESHOLDS


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def random_game(seed, n=200, classes=6, pull=1.5):
    rng = np.random.default_rng(seed)
    true = rng.integers(0, classes, n)
    canary = (true + rng.integers(1, classes, n)) % classes
    logits = rng.normal(size=(n, classes)) * rng.choice([0.3, 2.0, 6.0], (n, 1))
    logits[np.arange(n), canary] += pull * rng.integers(0, 2, n)
    return softmax(logits), canary, true


def slowly(p, canary, true, threshold):
    """Appendix B, one alternative after the other; (rates, numbers of guesses)."""
    rates, numbers = [], []
    for row, mine, right in zip(p, canary, true, strict=True):
        made = won = 0
        for other in range(len(row)):
            if other in (mine, right):
                continue
            if max(row[mine], row[other]) < threshold:
                continue
            made += 1
            won += row[mine] > row[other]
        if made:
            rates.append(won / made)
            numbers.append(made)
    return np.array(rates), np.array(numbers)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("thresholds", [THRESHOLDS, (0.0, 0.1, 0.3)])
def test_intervals_by_definition(seed, thresholds):
    p, canary, true = random_game(seed)
    audit = canary_epsilon(p, canary, true, thresholds)
    assert audit.per_threshold["threshold"].tolist() == list(thresholds)
    for row in audit.per_threshold.itertuples():
        rates, numbers = slowly(p, canary, true, row.threshold)
        assert (row.canaries, row.guesses) == (len(rates), numbers.sum())
        sandwich = math.sqrt(
            (
                np.square(numbers / numbers.sum())
                * np.square(rates - np.average(rates, weights=numbers))
            ).sum()
        )
        straight = 1.959963984540054 * sandwich
        # The textbook's estimator of a weighted variance with reliability weights.
        v1, v2 = numbers.sum(), np.square(numbers).sum()
        mean = np.average(rates, weights=numbers)
        variance = (numbers * (rates - mean) ** 2).sum() / (v1 - v2 / v1)
        half = 1.959963984540054 * math.sqrt(variance / len(rates))
        assert row.accuracy == pytest.approx(mean, abs=1e-12)
        center = max(mean, 1 - mean)
        ends = np.clip([center - half, center + half], 0.5, 1)
        assert row.low == pytest.approx(epsilon_of_rate(ends[0]), abs=1e-9)
        assert row.high == pytest.approx(epsilon_of_rate(ends[1]), abs=1e-9)
        plain = canary_epsilon(
            p, canary, true, [row.threshold], mirror=False, standard_error="sandwich"
        )
        ends = np.clip([mean - straight, mean + straight], 0.5, 1)
        assert plain.low == pytest.approx(epsilon_of_rate(ends[0]), abs=1e-9)
        assert plain.high == pytest.approx(epsilon_of_rate(ends[1]), abs=1e-9)
    assert audit.low == audit.per_threshold["low"].max()


def test_correction_widens_as_bonferroni_says():
    given = random_game(0)
    plain = canary_epsilon(*given, level=1 - 0.05 / 7)
    corrected = canary_epsilon(*given, level=0.95, corrected=True)
    np.testing.assert_allclose(
        plain.per_threshold.to_numpy(), corrected.per_threshold.to_numpy(), rtol=1e-12
    )
    assert corrected.low < canary_epsilon(*given).low


def certain(n, wrong=0):
    """A model that is sure of the canary label, except for some rows where it is of another."""
    true, canary, other = np.zeros(n, int), np.ones(n, int), np.full(n, 2)
    named = np.where(np.arange(n) < wrong, other, canary)
    p = np.full((n, 4), 0.0)
    p[np.arange(n), named] = 1.0
    return p, canary, true


@pytest.mark.parametrize(
    ("given", "low", "high"),
    [
        (certain(60), epsilon_of_rate(1 - 3 / 60), math.inf),
        (certain(51), epsilon_of_rate(1 - 3 / 51), math.inf),
        (certain(50), 0.0, math.inf),
        (certain(1), 0.0, math.inf),
        (certain(60, wrong=60), epsilon_of_rate(1 - 3 / 60), math.inf),  # mirrored
        (certain(3, wrong=3), 0.0, math.inf),
    ],
)
def test_attacks_that_are_never_wrong(given, low, high):
    audit = canary_epsilon(*given)
    assert (audit.low, audit.high) == (pytest.approx(low), high)


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99, 0.999])
def test_the_limit_of_an_attack_that_is_never_wrong_has_the_level_asked_for(level, corrected):
    """At a rate of the limit so many right guesses have the probability of a tail."""
    k, tail = 60, (1 - level) / 2 / (len(THRESHOLDS) if corrected else 1)
    low = canary_epsilon(*certain(k), level=level, corrected=corrected).low
    assert rate_of_epsilon(low) ** k == pytest.approx(tail)
    corrected_only = canary_epsilon(*certain(k), corrected=True).low
    assert rate_of_epsilon(corrected_only) ** k == pytest.approx(0.025 / len(THRESHOLDS))


def test_no_guess_gives_the_trivial_interval():
    p = np.full((5, 4), 0.25)
    audit = canary_epsilon(p, [1] * 5, [0] * 5)
    assert (audit.low, audit.high) == (0.0, math.inf)
    assert math.isnan(audit.threshold)
    assert audit.per_threshold["guesses"].tolist() == [0] * 7
    one = single_label_guesses(p, [1] * 5, [0] * 5, 0.5, seed=0)
    assert one.n_made == 0
    assert one.interval() == (0.0, math.inf)
    assert one.bayesian_interval() == (0.0, math.inf)
    assert one.lower_bound() == 0.0


def test_one_canary_that_is_right_and_wrong_has_no_variance():
    audit = canary_epsilon([[0.05, 0.5, 0.4, 0.05]], [2], [0], [0.3])
    assert audit.per_threshold["guesses"].tolist() == [2]
    assert audit.per_threshold["accuracy"].tolist() == [0.5]
    assert (audit.low, audit.high) == (0.0, math.inf)


def test_equal_confidences_are_wrong_guesses():
    p = [[0.0, 0.5, 0.5, 0.0]] * 4
    assert canary_epsilon(p, [1] * 4, [0] * 4, [0.5]).per_threshold["accuracy"][0] == 0.5
    assert top_label_guesses(p, [1] * 4, [0] * 4, 0.5).n_correct == 4  # the smaller label is named
    assert top_label_guesses(p, [2] * 4, [0] * 4, 0.5).n_correct == 0
    either = single_label_guesses(np.full((4, 4), 0.25), [1] * 4, [0] * 4, 0.25, seed=0)
    assert (either.n_made, either.n_correct) == (4, 0)


def test_among_equal_lower_ends_the_largest_threshold_with_a_finite_upper_end_is_reported():
    """As the paper's "0.0-2.2" has it."""
    rng = np.random.default_rng(1)
    n = 40
    p = np.full((n, 4), 0.0)
    sure = rng.uniform(0.55, 0.93, n)
    sure[0] = 0.97  # alone at the last threshold: never wrong there
    named = np.where(np.arange(n) % 3 == 0, 1, 2)
    p[np.arange(n), named] = sure
    p[:, 3] = 1 - sure
    audit = canary_epsilon(p, [1] * n, [0] * n)
    table = audit.per_threshold.set_index("threshold")
    assert (table["low"] == 0).all()
    assert math.isinf(table.loc[0.95, "high"])
    finite = table[np.isfinite(table["high"])]
    assert audit.threshold == finite.index.max()
    assert audit.high == finite["high"].iloc[-1]


def test_single_label_game_draws_every_alternative_equally_often():
    n, classes = 30_000, 5
    rng = np.random.default_rng(0)
    true = rng.integers(0, classes, n)
    canary = (true + rng.integers(1, classes, n)) % classes
    # Only one label beats the canary's: the guess is wrong if and only if it was the alternative.
    better = (true + 1) % classes
    better = np.where(better == canary, (true + 2) % classes, better)
    p = np.full((n, classes), 0.1)
    p[np.arange(n), canary] = 0.2
    p[np.arange(n), better] = 0.5
    found = single_label_guesses(p, canary, true, 0.0, seed=3)
    share = 1 - found.n_correct / n
    assert found.n_made == n
    assert stats.binomtest(n - found.n_correct, n, 1 / (classes - 2)).pvalue > 1e-3, share
    assert stats.binomtest(int(found.bits.sum()), n, 0.5).pvalue > 1e-3


def test_bounds_of_guesses():
    p, canary, true = random_game(4, n=400, pull=4.0)
    one = single_label_guesses(p, canary, true, 0.3, seed=0)
    test = stats.binomtest(one.n_correct, one.n_made)
    exact = test.proportion_ci(0.95, "exact")
    assert one.interval() == pytest.approx(
        (epsilon_of_rate(exact.low), epsilon_of_rate(exact.high)), abs=1e-9
    )
    # Without delta the one-run bound of Steinke et al. is Clopper-Pearson's.
    by_program = one_run_epsilon(one.n_correct, one.n_made, len(one.made), 0.0, 0.95)
    assert one.lower_bound(0.95) == pytest.approx(by_program, abs=1e-9)
    assert one.lower_bound(0.95, 1e-3) < one.lower_bound(0.95)
    low, high = one.bayesian_interval()
    assert 0 < low < high < math.inf
    top = top_label_guesses(p, canary, true, 0.3)
    # P[Binomial >= right] is 5% where every guess is right with the largest chance allowed.
    chance = math.exp(top.lower_bound(0.95)) / (math.exp(top.lower_bound(0.95)) + top.options - 1)
    assert stats.binom.sf(top.n_correct - 1, top.n_made, chance) == pytest.approx(0.05)
    assert top.options == p.shape[1] - 1


def test_bounds_over_thresholds_pay_for_the_choice():
    given = random_game(4, n=400, pull=4.0)
    assert top_label_bound(*given, [0.3]) == top_label_guesses(*given, 0.3).lower_bound(0.95)
    each = [top_label_guesses(*given, t).lower_bound(1 - 0.05 / 7) for t in THRESHOLDS]
    assert top_label_bound(*given) == max(each)
    single = single_label_guesses(*given, 0.3, seed=8).lower_bound(0.95)
    assert one_label_bound(*given, [0.3], draws=1, seed=8) == single
    rng = np.random.default_rng(8)
    eleven = [single_label_guesses(*given, 0.3, seed=rng).lower_bound(0.975) for _ in range(11)]
    assert one_label_bound(*given, [0.3], seed=8) == np.median(eleven)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 7.0, 30.0])
def test_theorem_and_its_inverse(epsilon):
    assert epsilon_of_rate(rate_of_epsilon(epsilon)) == pytest.approx(epsilon, rel=1e-2, abs=1e-9)
    # The best guess about one randomized label attains the theorem's bound.
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert rate_of_epsilon(epsilon) == pytest.approx(keep)


def test_equal_rates_have_no_interval_without_width():
    """Each canary is right against two of three alternatives: nothing is known of the spread."""
    p = np.tile([0.05, 0.35, 0.4, 0.1, 0.1], (60, 1))
    found = canary_epsilon(p, np.ones(60, int), np.zeros(60, int), [0.3])
    assert (found.low, found.high) == (0.0, np.inf)
    assert found.per_threshold["accuracy"].tolist() == pytest.approx([2 / 3])

"""Rows that are never answered are found by scores, and seldom where they are answered."""

import numpy as np
import pytest
from scipy import special, stats
from sklearn.metrics import roc_auc_score

from lib.counterfactual import overlap


def allowed(n, rate):
    return stats.binom.ppf([0.0005, 0.9995], n, rate)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("n", [40, 400])
def test_a_threshold_is_found_by_either_end_of_a_score(sign, n):
    rng = np.random.default_rng([n, 3])
    score = rng.random(n)
    r = score < 0.2
    never, (reason,) = overlap.without_overlap(r, {"other": rng.random(n), "its own": sign * score})
    np.testing.assert_array_equal(never, r)
    assert reason.startswith("its own alone tells abstained from answered rows (AUROC 1.000)")


def test_auroc_is_scikit_learns_in_the_better_direction():
    rng = np.random.default_rng(0)
    for _ in range(20):
        values, r = rng.integers(5, size=30) / 7, rng.random(30) < 0.4
        found = roc_auc_score(r, values)
        assert overlap._auroc(overlap._ranks(values), r) == pytest.approx(max(found, 1 - found))


def test_a_rule_beside_chance_is_found_in_its_tail_alone():
    """Certain to abstain below 0.2, and by a coin above: the whole is not separated."""
    rng = np.random.default_rng(1)
    score = rng.random(800)
    r = (score < 0.2) | (rng.random(800) < 0.3)
    never, (reason,) = overlap.without_overlap(r, {"its own": score})
    assert never[score < 0.2].all()
    assert never.sum() <= (score < 0.2).sum() + 8
    answered = (never & ~r).sum()
    assert answered <= 0.02 * never.sum()
    said = f"of the {never.sum()} rows with the lowest its own {answered} are answered"
    assert reason.startswith(said)


def test_ties_stay_whole_and_constant_scores_say_nothing():
    score = np.repeat([0.0, 0.5, 1.0], 100)
    r = np.arange(300) < 90  # ten answers among the lowest
    never, reasons = overlap.without_overlap(r & (np.arange(300) % 7 > 0), {"s": score})
    assert not never.any()
    assert reasons == []
    moved = 0.1 + 1e-17 * np.arange(300)
    assert not overlap.without_overlap(r, {"s": moved})[0].any()
    assert not overlap.without_overlap(np.zeros(300, bool), {"s": score})[0].any()


def test_a_tail_does_not_end_within_a_tie_in_whatever_order_rows_come():
    score = np.repeat([0.0, 1.0, 2.0], 100)
    r = score == 0  # and the first 60 of the next hundred
    r[100:160] = True
    for rows in (np.arange(300), np.arange(300)[::-1]):
        never, _ = overlap.without_overlap(r[rows], {"s": score[rows]})
        assert (never == (score[rows] == 0)).all()


def test_told_propensities_are_believed_until_abstention_denies_them():
    score = np.linspace(0, 1, 300)
    r = score < 0.3
    never, reasons = overlap.without_overlap(r, {"s": score}, np.where(r, 0.999, 0.001))
    assert not never.any()
    assert reasons == []
    never, (reason,) = overlap.without_overlap(r, {"s": score}, np.full(300, 0.3))
    assert never[r].all()
    assert never.sum() <= r.sum() + 2
    assert reason.endswith("so that positivity fails there, whatever propensities are given")


@pytest.mark.slow
@pytest.mark.parametrize(("design", "n"), [("step", 400), ("steep", 100), ("linear", 400)])
def test_propensities_of_at_most_nine_tenths_are_seldom_taken_for_a_rule(design, n):
    """The hardest designs with propensities in [0.1, 0.9]; four scores, two of them the same."""
    found, repetitions = 0, 300
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, n])
        score = rng.random(n)
        propensity = {
            "step": np.where(score < 0.5, 0.9, 0.1),
            "steep": 0.1 + 0.8 * special.expit(30 * (0.3 - score)),
            "linear": 0.9 - 0.8 * score,
        }[design]
        scores = {"a": score, "b": score**2, "c": rng.normal(size=n), "d": score + rng.random(n)}
        found += overlap.without_overlap(rng.random(n) < propensity, scores)[0].any()
    assert found <= allowed(repetitions, 0.01)[1]


@pytest.mark.slow
def test_bounds_hold_the_whole_set():
    """Ends of the identified set, in small samples and with means near 1."""
    repetitions, level = 300, 0.9
    for right, n in ((0.97, 40), (0.7, 200)):
        both = 0
        rng = np.random.default_rng(n)
        for _ in range(repetitions):
            known, s = rng.random(n) < 0.8, rng.random(n) < right
            lower, upper = np.where(known, s, 0.0), np.where(known, s, 1.0)
            found = overlap.mean_bounds(lower, upper, level)
            low, high = found.interval
            assert found.low == lower.mean()
            assert found.high == upper.mean()
            both += low <= 0.8 * right and 0.8 * right + 0.2 <= high
        assert both >= allowed(repetitions, level)[0]
    values = np.array([0.2, 0.4, 0.9])
    found = overlap.mean_bounds(values - 1, values, 0.95, (-1.0, 1.0))
    low, high = found.interval  # of three values that might be anything in [-1, 1]
    assert (found.low, found.high) == pytest.approx((-0.5, 0.5))
    assert -1 < low < -0.8
    assert 0.8 < high < 1


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("scale", [1e-300, 1e-13, 1e-12, 1 / 3, 1e13, 1e300])
def test_a_feature_has_no_unit_and_no_zero(scale, sign):
    rng = np.random.default_rng(1)
    feature = np.round(rng.random(800), 2)
    r = (feature < 0.2) | (rng.random(800) < 0.3)
    never, reasons = overlap.without_overlap(r, {"f": feature})
    assert never.sum() > 100
    for other in (sign * scale * feature, feature + sign * 1e6, np.float32(feature).astype(float)):
        found, said = overlap.without_overlap(r, {"f": other})
        np.testing.assert_array_equal(found, never)
        assert len(said) == len(reasons)

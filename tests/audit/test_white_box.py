"""Gradient canaries: scores by their definition, statements with their error rates and power."""

import math
import re
import runpy
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from lib.audit import AttackCounts, counts_at, epsilon_interval, one_run_epsilon
from lib.audit.selection import chosen_threshold
from lib.audit.white_box import (
    CanaryRecorder,
    Directions,
    GradientCanaries,
    StepCounts,
    canary_scores,
    statements,
    step_audit,
    sure_guesses,
)
from lib.privacy import PrivacyLedger, SampledGaussian, find_noise_multiplier
from lib.report.__main__ import main as report

ROOT = Path(__file__).parents[2]
DELTA = 1e-5


@cache
def epsilon_of(rate, noise, steps, accountant="rdp"):
    return PrivacyLedger((SampledGaussian(rate, noise, steps),)).epsilon(DELTA, accountant)


def mechanism(rng, number, steps, rate, claimed, factor=1.0, norm=1.0):
    """Scores of canaries of the mechanism alone, whose noise may be less than is claimed."""
    coins = rng.random(number) < 0.5
    recorder = CanaryRecorder(coins, claimed, rate)
    for _ in range(steps):
        took = coins & (rng.random(number) < rate)
        y = norm * took + factor * claimed * rng.standard_normal(number)
        recorder.add(y, y, took)
    return recorder.scores()


def found(scores, **options):
    return step_audit(scores.counts, scores.coins, epsilon_of, **options)


def test_directions_are_orthogonal_and_coins_fair():
    canaries = GradientCanaries(300, seed=5, width=4)
    directions = canaries.directions(1300)
    rows = np.zeros((300, 1300))
    np.put_along_axis(rows, directions.places, directions.signs / 2, axis=1)
    np.testing.assert_allclose(rows @ rows.T, np.eye(300), atol=1e-12)
    vector = np.random.default_rng(0).normal(size=1300)
    np.testing.assert_allclose(directions.along(vector), rows @ vector)
    assert stats.binomtest(int(canaries.coins().sum()), 300).pvalue > 1e-3
    assert (canaries.coins() == GradientCanaries(300, seed=5).coins()).all()
    assert (canaries.coins() != GradientCanaries(300, seed=6).coins()).any()
    # Not the numbers that a training, or anyone else, draws from the same seed.
    assert (canaries.coins() != (np.random.default_rng(5).random(300) < 0.5)).any()


def test_scores_are_sums_of_log_likelihood_ratios():
    rng, q, s = np.random.default_rng(1), 0.3, 1.7
    coins = rng.random(40) < 0.5
    recorder, expected = CanaryRecorder(coins, s, q), np.zeros(40)
    seen, noise = np.zeros(40), 2.5 * s**2
    for step in range(5):
        y, other = rng.normal(size=40), rng.normal(size=40)
        recorder.add(y + other, y)
        noise += (np.median(np.abs(y)) / stats.norm.ppf(0.75)) ** 2
        spread = math.sqrt(noise / (2.5 + step + 1))  # a claim counts as much as 100 canaries
        inside, outside = stats.norm.pdf(y, 1, spread), stats.norm.pdf(y, 0, spread)
        expected += np.log((1 - q) + q * inside / outside)
        seen += y
    scores = recorder.scores()
    np.testing.assert_allclose(scores.known, expected, rtol=1e-9)
    np.testing.assert_allclose(scores.known_sums, seen)
    assert (scores.released != scores.known).any()
    assert scores.counts is None  # it was not told who took part


def test_ratios_beyond_the_range_of_numbers_are_finite():
    recorder = CanaryRecorder([True, False, True], 1e-3, 0.01)
    for _ in range(3):
        recorder.add([1e3, -1e3, 0.0], [1e3, -1e3, 0.0])
    assert np.isfinite(recorder.scores().known).all()
    assert recorder.scores().known[0] > 0 > recorder.scores().known[1]


@pytest.mark.parametrize("form", ["coordinates", "matrix"])
def test_noisy_sums_of_any_loop_give_the_same_scores(form):
    rng, clip = np.random.default_rng(2), 0.25
    canaries = GradientCanaries(30, seed=1, width=2)
    directions, coins = canaries.directions(80), canaries.coins()
    rows = np.zeros((30, 80))
    np.put_along_axis(rows, directions.places, directions.signs / math.sqrt(2), axis=1)
    others, noisy, sampled = [], [], []
    recorder = CanaryRecorder(coins, 0.8, 0.5)
    for _ in range(6):
        sampled.append(coins & (rng.random(30) < 0.5))
        others.append(rng.normal(size=80))
        noise = rng.normal(size=80)
        noisy.append(others[-1] + clip * (sampled[-1] @ rows) + clip * 0.8 * noise)
        recorder.add(rows @ noisy[-1] / clip, sampled[-1] + 0.8 * (rows @ noise), sampled[-1])
    scores = canary_scores(
        noisy,
        rows if form == "matrix" else directions,
        coins,
        clipping_norm=clip,
        noise_multiplier=0.8,
        sample_rate=0.5,
        others=others,
        sampled=sampled,
    )
    expected = recorder.scores()
    np.testing.assert_allclose(scores.known, expected.known)
    np.testing.assert_allclose(scores.released, expected.released)
    assert found(scores).noise == pytest.approx(found(expected).noise)


def test_a_recorder_goes_on_where_it_was():
    rng, coins = np.random.default_rng(3), np.arange(50) % 2 == 0
    one, other = (CanaryRecorder(coins, 1.0, 0.5) for _ in range(2))
    later = []
    for step in range(6):
        took = coins & (rng.random(50) < 0.5)
        y = took + rng.normal(size=50)
        one.add(y + 1, y, took)
        if step == 3:
            state = one.state()
        elif step > 3:
            later.append((y + 1, y, took))
    other.restore(state)  # which no later step has changed
    for seen in later:
        other.add(*seen)
    assert (one.scores().known == other.scores().known).all()
    assert found(one.scores()) == found(other.scores())


def test_sure_guesses_by_hand():
    members = [True, False, False, True]
    assert sure_guesses([3.0, -2.0, 1.0, -0.5], members, 2) == (2, 2)
    assert sure_guesses([3.0, -2.0, 1.0, -0.5], members, 4) == (2, 4)
    # Ties are broken by chance, not by the order, which may tell who was in.
    right = [sure_guesses(np.ones(100), np.arange(100) < 50, 50, seed=s)[0] for s in range(40)]
    assert 20 < np.mean(right) < 30


def test_one_run_bound_is_that_of_the_best_number_of_guesses():
    scores = mechanism(np.random.default_rng(4), 2000, 5, 1.0, 2.0)
    bounds = []
    for share in (0.01, 0.02, 0.05, 0.1, 0.3):
        right, made = sure_guesses(scores.known, scores.coins, round(2000 * share))
        bounds.append(one_run_epsilon(right, made, 2000, DELTA, 1 - 0.05 / 5))
    assert statements(scores, DELTA).one_run == max(bounds)


def test_limits_of_the_mechanism_keep_their_levels():
    """Each interval, and the bound, over 120 mechanisms."""
    rng, outside, above = np.random.default_rng(5), np.zeros(3, int), 0
    low_p = np.zeros(2, int)
    truth = epsilon_of(0.2, 0.9, 20)
    for _ in range(120):
        audit = found(mechanism(rng, 200, 20, 0.2, 0.9))
        values = (audit.noise, 0.9), (audit.norm, 1.0), (audit.rate, 0.2)
        outside += [not low <= value <= high for (low, high), value in values]
        above += audit.epsilon > truth
        low_p += [audit.p_sampling < 0.05, audit.p_fresh < 0.05]
    for errors in (*outside, above, *low_p):
        assert stats.binomtest(int(errors), 120, 0.05, "greater").pvalue > 1e-3
    assert outside[0] > 1  # an interval of 95% is no wider than that


@pytest.mark.slow
def test_no_audit_is_above_the_truth_in_more_than_its_level():
    """Twenty mechanisms of all kinds of rates, noise and steps, four runs of 500 canaries each."""
    rng = np.random.default_rng(6)
    above = dict.fromkeys(("one_run", "family", "gaussian", "steps"), 0)
    for k in range(80):
        if k % 4 == 0:  # their accountant takes most of the time
            rate, steps = float(10 ** rng.uniform(-2, 0)), int(rng.integers(1, 60))
            noise = float(rng.uniform(0.4, 4.0))
            truth = epsilon_of(rate, noise, steps, "pld")
        factor = float(rng.choice([1.0, 0.5]))  # the audit holds whatever is claimed
        scores = mechanism(rng, 500, steps, rate, noise / factor, factor)
        said = statements(scores, DELTA)
        for name in ("one_run", "family", "gaussian"):
            above[name] += getattr(said, name) > truth
        if scores.counts.took_part.sum() > 1:
            above["steps"] += found(scores).epsilon > epsilon_of(rate, noise, steps)
    for name, errors in above.items():
        few = stats.binomtest(errors, 80, 0.05, "greater").pvalue
        assert few > 0.01, (name, errors)


RATE, STEPS, CANARIES = 0.018, 557, 5000


@cache
def runs(epsilon, factor, count):
    """Scores and statements of trainings of the first measurement's size."""
    rng = np.random.default_rng([0, round(100 * epsilon), round(100 * factor)])
    noise = find_noise_multiplier(epsilon, DELTA, RATE, STEPS)
    all_scores = [mechanism(rng, CANARIES, STEPS, RATE, noise, factor) for _ in range(count)]
    return [(statements(scores, DELTA), scores) for scores in all_scores]


@pytest.mark.slow
def test_what_one_run_shows_of_epsilon_8():
    shown = runs(8.0, 1.0, 5)
    assert np.median([said.one_run for said, _ in shown]) >= 2.0
    assert np.median([said.gaussian for said, _ in shown]) >= 3.5
    assert all(said.one_run < said.family < 8 and said.gaussian < 8 for said, _ in shown)
    assert all(7 < found(scores).epsilon < 8.1 for _, scores in shown)


def drawn_counts(rng, coins, steps, rate, noise):
    """What single steps add up to, drawn by its law: a mean and sums of squares of normals."""
    took_part = np.where(coins, rng.binomial(steps, rate, len(coins)), 0)
    took = int(took_part.sum())
    total = took + noise * math.sqrt(took) * rng.standard_normal()
    squares = noise**2 * rng.chisquare(took - 1) + total**2 / took
    rest = len(coins) * steps - took
    numbers = total, squares, rest, noise**2 * rng.chisquare(rest)
    return StepCounts(took_part, steps, *numbers)


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 8.0])
def test_a_missing_tenth_of_the_noise_is_found_by_single_steps(epsilon):
    rng, noise = np.random.default_rng(11), find_noise_multiplier(epsilon, DELTA, RATE, STEPS)
    coins, shown = np.arange(CANARIES) % 2 == 0, {}
    for factor in (0.9, 1.0):
        counts = [drawn_counts(rng, coins, STEPS, RATE, factor * noise) for _ in range(60)]
        shown[factor] = [step_audit(each, coins, epsilon_of).epsilon for each in counts]
    assert sum(low > epsilon for low in shown[0.9]) >= 54
    wrong = sum(low > epsilon for low in shown[1.0])
    assert stats.binomtest(wrong, 60, 0.05, "greater").pvalue > 0.01


def test_the_epsilon_of_single_steps_is_as_exact_as_the_accountant():
    """What Renyi accounting says of a faultless training is above its epsilon: no refutation."""
    rng, coins, claim = np.random.default_rng(12), np.arange(CANARIES) % 2 == 0, (0.05, 1.0, 100)
    truth, shown = epsilon_of(*claim, "pld"), {"rdp": [], "pld": []}
    for _ in range(20):
        counts = drawn_counts(rng, coins, claim[2], *claim[:2])
        for name, found_by in shown.items():
            accountant = partial(epsilon_of, accountant=name)
            found_by.append(step_audit(counts, coins, accountant).epsilon)
    wrong = sum(low > truth for low in shown["pld"])
    assert stats.binomtest(wrong, 20, 0.05, "greater").pvalue > 0.01
    assert min(shown["pld"]) > 0.85 * truth
    assert np.median(shown["rdp"]) > truth
    assert epsilon_of(*claim) / truth == pytest.approx(1 + 1 / 7, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 3.0, 8.0])
def test_half_of_the_noise_is_found_on_the_gaussian_hypothesis(epsilon):
    assert all(said.gaussian > epsilon for said, _ in runs(epsilon, 0.5, 4))


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.5, 0.25])
def test_half_of_the_noise_is_found_without_a_hypothesis(factor):
    assert all(said.one_run > 3 for said, _ in runs(3.0, factor, 4))
    # Right guesses about 5,000 canaries cannot show more than this, whatever is wrong.
    ceiling = max(one_run_epsilon(n, n, CANARIES, DELTA, 0.99) for n in (50, 100, 250, 500, 1500))
    assert ceiling < 7


def test_clipping_that_fails_is_found():
    audit = found(mechanism(np.random.default_rng(7), 500, 50, 0.1, 1.0, norm=1.2))
    assert audit.epsilon > epsilon_of(0.1, 1.0, 50)
    assert audit.norm[0] > 1.1


def test_noise_that_comes_twice_is_found():
    rng, coins = np.random.default_rng(8), np.arange(500) < 250
    recorder, noise = CanaryRecorder(coins, 1.0, 0.1), None
    for step in range(40):
        took = coins & (rng.random(500) < 0.1)
        noise = noise if step % 2 else rng.standard_normal(500)
        recorder.add(took + noise, took + noise, took)
    audit = found(recorder.scores())
    assert audit.p_fresh < 1e-6 < audit.p_sampling
    assert audit.epsilon < 1.1 * epsilon_of(0.1, 1.0, 40)  # by the law of single steps it is right


def test_shuffled_batches_are_no_poisson_samples():
    rng, coins = np.random.default_rng(9), np.arange(500) < 250
    recorder = CanaryRecorder(coins, 1.0, 0.1)
    for _ in range(5):
        batch = rng.permutation(500) % 10
        for step in range(10):
            took = coins & (batch == step)
            y = took + rng.standard_normal(500)
            recorder.add(y, y, took)
    audit = found(recorder.scores())
    assert audit.p_sampling < 1e-6
    assert audit.rate[0] < 0.1 < audit.rate[1]


def test_bayesian_interval_is_of_the_half_that_did_not_choose():
    scores = mechanism(np.random.default_rng(10), 2000, 5, 1.0, 2.0)
    said = statements(scores, DELTA, seed=np.random.default_rng(3))
    again = np.random.default_rng(3)
    for _ in range(5):  # numbers that break ties among guesses are drawn first
        again.random(2000)
    choosing, asked = np.split(again.permutation(2000), 2)
    threshold = chosen_threshold(scores.known[choosing], scores.coins[choosing], DELTA, 0.95)
    counts = AttackCounts(*counts_at(scores.known[asked], scores.coins[asked], threshold).tolist())
    assert said.bayesian == epsilon_interval(counts, DELTA, 0.95, "bayesian")
    # What the authors' package says of such counts, in a minute: privacy-estimates 0.1.0.post1,
    # compute_eps_lo_hi(AttackResults(FN=20, FP=8, TN=42, TP=30), 1e-5, 0.05, "joint-beta").
    found = epsilon_interval(AttackCounts(30, 8, 42, 20), DELTA, 0.95, "bayesian")
    assert found == pytest.approx((0.70414, 2.05230), rel=2e-3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Directions(np.array([[0], [0]]), np.ones((2, 1))), "places must not repeat"),
        (lambda: GradientCanaries(11, seed=0).directions(10), "number must be at most 10"),
        (lambda: statements(np.ones(3), DELTA), "scores must be CanaryScores"),
        (
            lambda: step_audit(StepCounts(np.array([3, 0]), 5), [False, True], epsilon_of),
            "coins must be those of the canaries that took part, got 1",
        ),
    ],
)
def test_what_would_mean_nothing_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["audit_opacus.py", "audit_loop.py"])
def test_scripts_of_the_reference_run(name, tmp_path, monkeypatch, capsys):
    page = (ROOT / "book/reference/white_box.md").read_text(encoding="utf-8")
    scripts = dict(re.findall(r"^```python file=(\S+)\n(.*?)^```$", page, re.M | re.S))
    assert len(scripts[name].splitlines()) <= 30
    (tmp_path / name).write_text(scripts[name], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus warns of what is as it should be
        runpy.run_path(name, run_name="__main__")
    printed = capsys.readouterr().out
    shown = [float(v) for v in re.findall(r"(?:one_run|gaussian)=([\d.]+)", printed)]
    assert len(shown) == 2
    assert all(0.3 < value < 5 for value in shown)
    if name == "audit_opacus.py":
        assert report(["audit.npz"]) == 0
        assert "does not contradict the claimed 4" in capsys.readouterr().out

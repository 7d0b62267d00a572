"""Abstaining classifiers of real images: what they saw, how they abstain, what intervals hold."""

import io
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib import data
from lib.book.records import read_record
from lib.studies.counterfactual import scenarios
from lib.studies.counterfactual.scenarios import Sizes, image_evaluation, run_scenario, scenarios_of

RECORD = "book/records/standard/counterfactual_limits.json"
TEN, PAIR = (scenarios_of("digits", pair) for pair in (False, True))


@pytest.fixture(scope="module")
def evaluations():
    """Of ten classes, and of a pair."""
    return [image_evaluation("digits", pair, Sizes(900, 300), 1) for pair in (False, True)]


@pytest.fixture
def fits(monkeypatch):
    """What pipelines were fitted to."""
    seen, original = [], scenarios.make_pipeline

    def make(*steps):
        pipeline = original(*steps)
        fit = pipeline.fit

        def watched(x, y=None):
            seen.append((x, y))
            return fit(x, y)

        pipeline.fit = watched
        return pipeline

    monkeypatch.setattr(scenarios, "make_pipeline", make)
    return seen


@pytest.fixture
def compared(monkeypatch):
    """What was compared, and what was found."""
    seen, original = [], scenarios.counterfactual_difference

    def watched(*arguments, **options):
        found = original(*arguments, **options)
        seen.append((arguments, options, found))
        return found

    monkeypatch.setattr(scenarios, "counterfactual_difference", watched)
    return seen


@pytest.mark.parametrize("is_pair", [False, True])
def test_digits(is_pair, fits):
    """Images are all different, none for both; few labels are a twentieth, of every class."""
    train, n = 900, 897
    digits = data.load_digits()
    where = {image.tobytes(): i for i, image in enumerate(digits.images.reshape(1797, 64))}
    made = image_evaluation("digits", is_pair, Sizes(train, n), 0)
    (full, y_full), (few, y_few) = fits
    used, asked, little = ([where[row.tobytes()] for row in x] for x in (full, made.X, few))
    assert len(set(used) | set(asked)) == len(used) + len(asked)
    assert set(little) < set(used)
    assert len(set(little)) == len(little)
    if is_pair:  # all there are, if as many are asked for
        assert len(used) + len(asked) == np.isin(digits.labels, (3, 5)).sum()
        assert len(asked) > 0.12 * n
    else:
        assert (len(used), len(asked)) == (train, n)
    code = {3: 0, 5: 1} if is_pair else {c: c for c in range(10)}
    for rows, labels in ((used, y_full), (asked, made.labels), (little, y_few)):
        assert [code[c] for c in digits.labels[rows]] == labels.tolist()
    assert set(y_few) == set(code.values())
    assert abs(len(little) - max(20, len(used) // 20)) <= len(code) / 2


def brier(p, label):
    return 1 - sum((p[c] - (c == label)) ** 2 for c in range(len(p))) / 2


@pytest.mark.parametrize("scenario", TEN + PAIR, ids=lambda s: s.name)
def test_scenarios(scenario, evaluations, compared):
    evaluation = evaluations[scenario in PAIR]
    found = run_scenario(evaluation, scenario, "linear", rng=np.random.default_rng(3))
    (((_, *given), options, estimate),) = compared
    assert options["clip"] == 0.2
    n = len(evaluation.X)
    oracles, seen, expected = [], [], []
    for k, (base, rule) in enumerate(
        ((scenario.base_a, scenario.rule_a), (scenario.base_b, scenario.rule_b))
    ):
        p = evaluation.probabilities[base]
        by_hand = np.array([brier(*one) for one in zip(p, evaluation.labels, strict=True)])
        s, r = given[2 * k : 2 * k + 2]
        np.testing.assert_allclose(s, by_hand, atol=1e-12)
        sure = p.max(axis=1) if rule.measure == "softmax-response" else (p**2).sum(axis=1)
        answers = np.clip(sure, 0.2, 0.8)
        if rule.threshold is not None:
            answers = (sure >= rule.threshold).astype(float)
            np.testing.assert_array_equal(r, sure < rule.threshold)
        spread = math.sqrt(np.sum(answers * (1 - answers))) / n
        coverage = found[("coverage_a", "coverage_b")[k]]
        assert abs(coverage - answers.mean()) <= 4 * spread + 1e-12
        expected.append(1 - answers if rule.threshold is None else None)
        oracles.append(by_hand.mean())
        seen.append(by_hand[~r].mean())
    assert found["oracle"] == pytest.approx(oracles[0] - oracles[1], abs=1e-12)
    assert found["selective"] == pytest.approx(seen[0] - seen[1], abs=1e-12)
    assert (found["low"], found["high"]) == estimate.interval
    assert found["covers"] == (found["low"] <= found["oracle"] <= found["high"])
    if any(propensity is None for propensity in expected):
        assert math.isnan(found["known_value"])
        return
    # The doubly robust interval with the true propensities, by hand.
    influence = np.zeros(n)
    for k, sign in enumerate((1, -1)):
        s, r = given[2 * k : 2 * k + 2]
        outcome, weight = estimate.nuisances[k].outcome, np.where(r, 0, 1 / (1 - expected[k]))
        influence += sign * (outcome + weight * (s - outcome))
    squares = (influence - influence.mean()) ** 2
    degrees = min(n - 1, 2 * n * squares.mean() ** 2 / squares.var())
    half = stats.t.isf(0.025, degrees) * influence.std(ddof=1) / math.sqrt(n)
    mean = influence.mean()
    known = [found[f"known_{name}"] for name in ("value", "low", "high")]
    assert known == pytest.approx([mean, mean - half, mean + half], abs=1e-12)


def test_two_thresholds_that_answer_for_different_examples_are_told_apart(request):
    """Our own finding beside P4's scenario I, in the recorded run: features of a small CNN."""
    record = read_record(request.config.rootpath / RECORD)
    tables = {
        name: pd.read_csv(io.StringIO(record["tables"][name].get("whole", kept["csv"])))
        for name, kept in record["tables"].items()
        if name in ("draws", "scenarios")
    }
    draws, first = (
        table[(table["data"] == "cifar10") & (table["scenario"] == "I")]
        for table in (tables["draws"], tables["scenarios"])
    )
    assert (draws["rejected"] == draws["draws"]).all()
    assert draws["draws"].sum() >= 100
    assert first["coverage A"].round(1).eq(0.2).all()
    assert first["coverage B"].round(1).eq(0.6).all()

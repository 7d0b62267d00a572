"""Neither a seed nor the order of rows decides, and what replaces a random half keeps its level."""

import numpy as np
import pytest
from scipy import special, stats

from lib import audit, selective
from lib.report import ModelPredictions, Settings
from lib.report.registry import run_analysis


def audited(seed, n=240):
    rng = np.random.default_rng([seed, 31])
    members = rng.random(n) < 0.5
    scores = np.round(rng.normal(size=n) + 1.2 * members, 1)
    return {"member_scores": scores[members], "nonmember_scores": scores[~members], "epsilon": 0.4}


def abstaining(seed, n=300):
    rng = np.random.default_rng([seed, 37])
    x = rng.normal(size=(n, 2))
    labels = rng.integers(3, size=n)
    logits = rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[labels]
    other = rng.normal(size=(n, 3)) + 1.2 * np.eye(3)[labels]
    away = rng.random((2, n)) < special.expit(x[:, 0] - 1)
    return {
        "test_features": x,
        "test_labels": labels,
        "test_logits": logits,
        "test_abstained": away[0],
        "other_logits": other,
        "other_abstained": away[1],
    }


def clustered(seed, n=120):
    rng = np.random.default_rng([seed, 41])
    sizes = rng.integers(1, 8, n)
    people = np.repeat(np.arange(n), sizes)
    labels = rng.integers(3, size=len(people))
    logits = rng.normal(size=(len(people), 3)) + 3 * np.eye(3)[labels]
    return {"test_logits": logits, "test_labels": labels, "test_clusters": people}


FILES = {
    ("audit", "one run"): audited,
    ("audit", "independent"): audited,
    ("counterfactual", "one run"): abstaining,
    ("comparison", "one run"): abstaining,
    ("selective", "one run"): clustered,
}


@pytest.mark.parametrize(("name", "design"), FILES)
def test_seeds_and_orders_give_one_verdict(name, design):
    arrays = FILES[name, design](0)
    verdicts, values = set(), []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        orders = {}
        shuffled = {}
        for key, value in arrays.items():
            if isinstance(value, np.ndarray):
                part = key if key.endswith("scores") else "test"
                order = orders.setdefault(part, rng.permutation(len(value)))
                value = value[order]
            shuffled[key] = value
        settings = Settings(learner="linear", seed=seed, audit_design=design, target=0.8)
        found = run_analysis(name, ModelPredictions(**shuffled), settings)
        verdicts.add(found.verdict)
        values.append({k: v for k, v in found.values.items() if not isinstance(v, str)})
    assert len(verdicts) == 1
    for one in values[1:]:
        assert one == pytest.approx(values[0], rel=1e-6, abs=1e-9)


def test_another_number_for_the_draws_decides_little():
    """Medians of 25 draws of one row a person differ less than single draws."""
    given = clustered(3, n=200)
    correct = given["test_logits"].argmax(axis=1) == given["test_labels"]
    score = special.softmax(given["test_logits"], axis=1).max(axis=1)

    def spread(draws):
        found = [
            selective.guaranteed_threshold(
                correct, score, 0.93, clusters=given["test_clusters"], rng=seed, draws=draws
            )
            for seed in range(20)
        ]
        return np.std([0.0 if one.coverage is None else one.coverage for one in found])

    assert spread(25) < 0.8 * spread(1)  # coverages are fortieths


@pytest.mark.parametrize("copies", [False, True])
def test_a_median_of_draws_keeps_its_promise(copies):
    """All accuracies just below the target, few clusters, ties: an error is any threshold."""
    broken, low, repetitions, clusters = 0, 0, 200, 80
    rng = np.random.default_rng([copies, 3])
    for _ in range(repetitions):
        sizes = rng.integers(1, 9, clusters)
        names = np.repeat(np.arange(clusters), sizes)
        score = np.round(rng.random(clusters), 1)[names]
        right = rng.random(clusters)[names] if copies else rng.random(len(names))
        options = {"clusters": names, "rng": 0, "draws": 5}
        found = selective.guaranteed_threshold(right < 0.8999, score, 0.9, **options)
        broken += found.threshold is not None
        # Where a target is met by all, a lower limit of the coverage is given.
        found = selective.guaranteed_threshold(right < 0.97, score, 0.9, **options)
        if found.threshold is not None and found.threshold > 0:
            low += found.coverage_low > 1 - found.threshold + 0.05
    most = stats.binom.ppf(0.9985, repetitions, 0.05)
    assert broken <= most
    assert low <= most


@pytest.mark.parametrize(
    "kind", ["nothing", "ties", "a few", "randomised response", "sure, at last"]
)
def test_the_bound_of_independent_trials_keeps_its_level(kind):
    """Attacks whose largest epsilon is known; without halves, whatever the threshold is.

    A report takes this bound, at the level 1 - alpha: it is looked at once.
    """
    repetitions, n, delta, beyond = 150, 60, 0.01, 0
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, 43])
        members = np.arange(n) < (6 if kind == "a few" else n // 2)
        if kind == "randomised response":
            truth = 1.0
            scores = np.where(rng.random(n) < special.expit(truth), members, ~members) * 1.0
        elif kind == "sure, at last":
            truth = audit.true_best_epsilon(1.0, delta)
            scores = rng.normal(size=n) + members
        else:
            truth = 0.0
            scores = rng.integers(3, size=n) * 1.0 if kind == "ties" else rng.normal(size=n)
        _, bound = audit.union_lower_bound(
            audit.roc_counts(scores, members), delta, 0.95, "clopper-pearson"
        )
        beyond += bound > truth
    given = ModelPredictions(
        member_scores=scores[members], nonmember_scores=scores[~members], delta=delta
    )
    found = run_analysis("audit", given, Settings(audit_design="independent"))
    assert found.values["audit_lower"] == bound
    assert beyond <= stats.binom.ppf(0.9985, repetitions, 0.05)


def test_counts_that_halves_choose_for_each_other_err_too_often():
    """Why there is no cross-fitting: two thresholds, no effect, and the sum of both halves."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 100_000, 2))  # deviations of two equal rates, on either half
    rows = np.arange(len(a))
    total = a[rows, b.argmax(axis=1)] + b[rows, a.argmax(axis=1)]
    assert np.mean(total / np.sqrt(2) > stats.norm.isf(0.05)) > 0.06

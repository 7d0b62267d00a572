"""Every outcome of every analysis: its card and its sentence say the same, and no word is read."""

import ast
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from lib.report import ModelPredictions, Settings, run_analysis
from lib.report import verdicts as module
from lib.report.findings import Goodness, Leak, Measured, Outcome, Rivalry, Transfer, winner
from lib.report.rivals import exact_p, with_exact
from lib.report.types import mean_of
from lib.report.verdicts import QUESTIONS, SIGNS, verdict

FAST = {"learner": "linear"}


def two_classes(n=400, seed=0, **more):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    logits = np.column_stack([np.zeros(n), (2 * labels - 1) * 1.5 + rng.normal(size=n)])
    return {"test_logits": logits, "test_labels": labels} | more


def told(n=20_000, twist=1.0, seed=0):
    """Confidences that are true, or made surer or more modest than that."""
    rng = np.random.default_rng(seed)
    truth = special.expit(np.abs(rng.normal(1.0, 1.5, n)))
    return {
        "test_confidence": special.expit(twist * special.logit(truth)),
        "test_correct": rng.random(n) < truth,
    }


def in_places():
    confidence = np.repeat([0.6, 0.95], 500)
    return {"test_confidence": confidence, "test_correct": np.arange(1000) % 10 < 7}


def modest_in_places():
    """A few unsure answers are all right; the many others are right a little less than sure."""
    confidence, right = np.repeat([0.52, 0.95], [14, 200]), np.repeat([True, False], [197, 17])
    return {"test_confidence": confidence, "test_correct": right}


def in_groups():
    given = two_classes(600)
    y = given["test_labels"]
    given["test_labels"] = np.where(np.arange(600) % 5 == 0, 1, y)
    return given | {"test_groups": np.where(np.arange(600) % 5 == 0, "one class", "others")}


def certain(n=200):
    labels = np.arange(n) % 2
    return {"test_logits": 4.0 * np.eye(2)[labels], "test_labels": labels}


def data_sets(user_labels=None, scale=1.0, n=600):
    """Three data sets of one model; the user's logits may be larger, which moves signals."""
    found = {}
    for place, part in enumerate(("holdout", "test", "user"), 1):
        for name, values in two_classes(n, place).items():
            found[name.replace("test", part)] = values
    if user_labels is None:
        del found["user_labels"]
    elif not user_labels:
        found["user_labels"] = 1 - found["user_labels"]
    found["user_logits"] = found["user_logits"] * scale
    return found


def scores(apart, members=200, others=200, **more):
    rng = np.random.default_rng(0)
    found = {"member_scores": apart + rng.normal(size=members)}
    return found | {"nonmember_scores": rng.normal(size=others), "delta": 1e-5} | more


def abstaining(labeled=True, hidden=False, sure=False):
    """Abstention by a coin, by what nobody sees, or by the model's confidence."""
    given, rng = two_classes(600), np.random.default_rng(5)
    right = given["test_logits"].argmax(axis=1) == given["test_labels"]
    features = rng.random((600, 2))
    abstained = rng.random(600) < 0.2 + 0.4 * features[:, 0]
    if hidden:
        abstained = ~right & (rng.random(600) < 0.9)
    if sure:
        abstained = np.abs(given["test_logits"][:, 1]) < 1
    labels = np.where(abstained & (not labeled), -1, given["test_labels"])
    return given | {"test_labels": labels, "test_abstained": abstained, "test_features": features}


def rival(share, **more):
    """Another model, of whose answers a share is wrong."""
    given = two_classes(400, **more)
    wrong = np.random.default_rng(1).random(400) < share
    labels = given["test_labels"]
    return given | {"rivals": {"b": np.where(wrong, 1 - labels, labels)}}


def both_abstain(mine, its):
    """Two models that abstain by coins; nobody knows the labels where one did."""
    rng = np.random.default_rng(2)
    labels, found = rng.integers(0, 2, 800), {}
    for name, share in (("test", mine), ("other", its)):
        said = np.where(rng.random(800) < share, 1 - labels, labels)
        found[f"{name}_logits"] = 2.0 * np.eye(2)[said] + rng.normal(size=(800, 2)) * 0.1
        found[f"{name}_abstained"] = rng.random(800) < 0.3
    unknown = found["test_abstained"] & found["other_abstained"]
    features = rng.random((800, 1))
    return found | {"test_labels": np.where(unknown, -1, labels), "test_features": features}


def two_services(mine, its):
    rng = np.random.default_rng(3)
    found = {"test_features": rng.random((600, 1))}
    for name, mean in (("test", mine), ("other", its)):
        found[f"{name}_scores"] = mean + rng.random(600)
        found[f"{name}_abstained"] = rng.random(600) < 0.3
    return found


SURE, EVERY = "the surest", "which are known of all rows"
#: By outcome: the analysis, the file, settings, and what its sentence says.
CASES: list[tuple[Outcome, str, Callable, dict, str]] = [
    (Outcome.BETTER, "quality", two_classes, {}, "It is better than that."),
    (Outcome.NOT_IN_ALL_GROUPS, "quality", in_groups, {}, "but not in every group"),
    (Outcome.ALL_RIGHT, "quality", certain, {}, "labels should be checked"),
    (Outcome.NOT_SHOWN_BETTER, "quality", lambda: two_classes(6), {}, "is not shown"),
    (
        Outcome.WORSE,
        "quality",
        lambda: two_classes() | {"test_labels": 1 - two_classes()["test_labels"]},
        {},
        "It is worse than that",
    ),
    (
        Outcome.ONE_CLASS,
        "quality",
        lambda: two_classes() | {"test_labels": np.zeros(400, int)},
        {},
        "All labels are of that class",
    ),
    (Outcome.ACCURACY_ONLY, "quality", in_places, {}, "cannot be held against a constant"),
    (Outcome.CLOSE, "quality", told, {}, "true to within 0.05"),
    (Outcome.TOO_SURE, "quality", lambda: told(twist=2), {}, "surer than it is right"),
    (Outcome.TOO_MODEST, "quality", lambda: told(twist=0.4), {}, "more often than it is sure"),
    (Outcome.TOO_SURE_IN_PLACES, "quality", in_places, {}, "At some confidences it is surer"),
    (Outcome.TOO_MODEST_IN_PLACES, "quality", modest_in_places, {}, "though not on average"),
    (Outcome.NOT_SHOWN_TRUE, "quality", lambda: told(40), {}, "within 0.05 is not shown"),
    (Outcome.ALWAYS, "selective", two_classes, {"target": 0.6}, "no abstention is needed"),
    (Outcome.ALWAYS_IF, "selective", certain, {}, "if the labels are true"),
    (Outcome.WHERE_SURE, "selective", two_classes, {}, SURE),
    (Outcome.NO_PROMISE, "selective", two_classes, {"target": 0.999}, "can these rows promise"),
    (
        Outcome.UNCHECKED,
        "selective",
        lambda: certain() | {"test_labels": np.arange(200) % 2 ^ 1},
        {},
        "Nothing is promised",
    ),
    (Outcome.SUITABLE, "suitability", lambda: data_sets(True), {"margin": 0.1}, "SUITABLE by the"),
    (Outcome.SUITABLE_IF, "suitability", data_sets, {"margin": 0.1}, "SUITABLE, if the"),
    (
        Outcome.UNCONFIRMED,
        "suitability",
        lambda: data_sets(scale=2.0),
        {"margin": 0.1},
        "UNCONFIRMED",
    ),
    (
        Outcome.INCONCLUSIVE,
        "suitability",
        lambda: data_sets(scale=0.2),
        {"margin": 0.01},
        "INCONCLUSIVE",
    ),
    (Outcome.UNSUITABLE, "suitability", lambda: data_sets(False), {}, "UNSUITABLE by the"),
    (Outcome.NO_BOUND, "audit", lambda: scores(3, 350, 50), {}, "No bound holds"),
    (Outcome.REFUTED, "audit", lambda: scores(3, epsilon=0.1), {}, "the claim is refuted"),
    (Outcome.NOT_REFUTED, "audit", lambda: scores(3, epsilon=50.0), {}, "does not contradict"),
    (Outcome.SOME_SHOWN, "audit", lambda: scores(3), {}, "No finite epsilon is claimed"),
    (Outcome.NOTHING_SHOWN, "audit", lambda: scores(0), {}, "at least 0.00"),
    (Outcome.ESTIMATED, "counterfactual", lambda: abstaining(False), FAST, "had to answer always"),
    (Outcome.LABELLED, "counterfactual", abstaining, FAST, EVERY),
    (Outcome.MISSED, "counterfactual", lambda: abstaining(hidden=True), FAST, "labels decide"),
    (
        Outcome.BOUNDED,
        "counterfactual",
        lambda: abstaining(False, sure=True),
        FAST,
        "no file says where between",
    ),
    (Outcome.AHEAD, "comparison", lambda: rival(0.5), {}, "the reported model is better"),
    (Outcome.BEHIND, "comparison", lambda: rival(0.0), {}, "the other is better"),
    (Outcome.UNDECIDED, "comparison", lambda: rival(0.08), {}, "not decided"),
    (Outcome.AHEAD, "comparison", lambda: both_abstain(0.1, 0.4), FAST, "the model would be"),
    (Outcome.BEHIND, "comparison", lambda: both_abstain(0.4, 0.1), FAST, "the competitor would be"),
    (Outcome.UNDECIDED, "comparison", lambda: both_abstain(0.3, 0.3), FAST, "is not decided"),
    (Outcome.AHEAD, "comparison", lambda: two_services(1, 0), FAST, "Decision: choose A"),
    (Outcome.BEHIND, "comparison", lambda: two_services(0, 1), FAST, "Decision: choose B"),
    (Outcome.UNDECIDED, "comparison", lambda: two_services(0, 0), FAST, "Decision: undecided"),
]


def test_every_outcome_has_a_case():
    assert {case[0] for case in CASES} == set(Outcome)
    assert {one.light for one in Outcome} == set(SIGNS)


@pytest.mark.parametrize(
    ("outcome", "name", "make", "settings", "said"),
    CASES,
    ids=[f"{case[1]}-{case[0].name}-{place}" for place, case in enumerate(CASES)],
)
def test_card_and_sentence_say_what_was_found(outcome, name, make, settings, said):
    chosen = Settings(**settings)
    found = run_analysis(name, ModelPredictions(**make()), chosen)
    (one,) = [each for each in found.findings if each.outcome is outcome]
    assert said in found.verdict
    card = verdict(one, chosen)
    assert card.light == outcome.light
    start, _, end = outcome.word.partition("{")
    assert card.word.startswith(start)
    assert card.word.endswith(end.partition("}")[2])
    assert not {"{", "}"} & set(card.word + card.text)
    assert QUESTIONS[one.question][1] == name
    assert "nan" not in card.text + card.picture
    assert card.text.endswith(".")


def test_no_card_reads_a_sentence():
    """A card has the finding and the settings: no text of an analysis can be in reach."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    asked = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not asked & {"startswith", "split", "removeprefix", "warnings", "tables", "loc"}
    assert "findings" in asked


def test_labels_decide_a_comparison_and_stand_first():
    given = both_abstain(0.3, 0.3)
    labels = given["other_logits"].argmax(axis=1)
    given |= {"test_labels": labels}  # the other model is always right, by labels of all rows
    found = run_analysis("comparison", ModelPredictions(**given), Settings(**FAST))
    (one,) = found.findings
    assert one.outcome is Outcome.BEHIND
    assert one.by_labels
    right = given["test_logits"].argmax(axis=1) == labels
    assert one.difference.value == pytest.approx(right.mean() - 1)
    assert found.verdict.startswith("By the labels, which are known of all rows")
    assert verdict(one, Settings()).text.endswith(", by the labels.")


def test_a_decision_is_never_against_the_interval_beside_it():
    """McNemar's test and the interval are both kept: neither decides what the other leaves open."""
    for n in (10, 40, 200):
        for better in range(0, min(n, 30) + 1, 2):
            for worse in range(0, min(n - better, 12) + 1, 2):
                pairs = np.repeat([1.0, -1.0, 0.0], [better, worse, n - better - worse])
                ends = with_exact(mean_of(pairs, (-1.0, 1.0), 0.95, None), better, worse, n, 0.05)[
                    1:
                ]
                if winner(ends) is not Outcome.UNDECIDED:
                    assert exact_p(better, worse) <= 0.05


@pytest.mark.parametrize(
    ("lower", "claim", "said"),
    [(0.3187, 1.0, "0.31"), (1.0004, 1.0, "1.0004"), (0.004, None, "0.004"), (0.0, None, "0.00")],
)
def test_a_lower_bound_is_rounded_down_to_what_was_decided(lower, claim, said):
    outcome = Outcome.SOME_SHOWN
    if claim is not None:
        outcome = Outcome.REFUTED if lower > claim else Outcome.NOT_REFUTED
    assert Leak(outcome, lower, claim).shown == said


@pytest.mark.parametrize(
    ("margin", "said"),
    [
        (0.05, "A drop of more than 5 points is excluded."),
        (0.01, "A drop of more than 1 point is excluded."),
        (0.0, "A drop is excluded."),
        (-0.02, "A gain of less than 2 points is excluded."),
    ],
)
def test_margins_are_said_in_points(margin, said):
    ends = Measured(0.9, 0.8, 0.95)
    found = Transfer(Outcome.SUITABLE, ends, ends, True)
    assert verdict(found, Settings(margin=margin)).text.endswith(said)


def test_one_row_and_rounding_are_said_right():
    one = Goodness(Outcome.ONE_CLASS, 1, Measured(1.0, 0.025, 1.0), "'cat'", 1.0)
    assert "of 1 row (95% interval 2.5% to 100%)" in verdict(one, Settings()).text
    assert "(99.5% interval" in verdict(one, Settings(alpha=0.005)).text
    near = Goodness(Outcome.BETTER, 9999, Measured(0.99995, 0.999, 0.99999), "'cat'", 0.4)
    assert "99.9% of 9,999 rows" in verdict(near, Settings()).text
    lacking = Rivalry(Outcome.UNDECIDED, Measured(0.2, np.nan, np.nan), of_scores=True)
    assert verdict(lacking, Settings()).text.endswith("+0.2, without an interval.")

"""Abstentions, unknown labels, confidences on any scale, and membership: what cells may say."""

import numpy as np
import pandas as pd
import pytest
from reading_samples import (
    FEW,
    HARD,
    LABELS,
    LOGITS,
    NAMED,
    NUMBERED,
    ONE,
    RIGHT,
    SAID,
    SECOND,
    SURE,
    TRUTH,
    TWO,
    WEIGHT,
    WORDS,
    YES,
    File,
    N,
    P,
    but,
    check,
    read,
)  # fmt: skip
from scipy import special

from lib.report import ModelPredictions, Settings, read_predictions, report, run_analysis
from lib.report.outputs import auc, kind_of

RNG = np.random.default_rng(4)
LOW = SURE < 0.6
ANSWERED = (SURE + 0.3 * RNG.normal(size=N)) > 0.6
BOTH = {"label": SECOND, "p_0": 1 - ONE, "p_1": ONE}
PREDICTED = {"label": WORDS[LABELS], "prediction": WORDS[SAID], "conf": SURE}
DAYS = np.datetime_as_string(np.datetime64("2024-01-01") + LABELS)
STATES = np.array(["accepted", "rejected", "uncertain"])
NONE = np.array(["none", "dog", "owl"])
FIVE = np.arange(N) % 5
SIGNED = [
    {"y_pred": SAID - 1}, {"y_pred": SAID - 1, "confidence": SURE}, NUMBERED,
    {f"p_{word}": P[:, j] for j, word in enumerate(("neg", "neu", "pos"))},
    {f"p_{j - 1}": P[:, j] for j in range(3)}, {f"{j - 1}": P[:, j] for j in range(3)},
]  # fmt: skip
GRADE = np.digitize(SURE, [0.6, 0.9])
VOTES = np.array([RNG.multinomial(50, p) for p in P])
WHOLE = np.round(100 * P).astype(int)

KINDS = {
    # abstentions
    **{f"abstained, {no} and {yes}": (BOTH | {"abstain": np.where(FEW, yes, no)},
                                      {"right": TWO, "test_abstained": FEW})
       for no, yes in (("no", "yes"), ("False", "True"), ("0", "1"))},
    "beside answers": ({"y_true": SECOND, "y_pred": YES, "abstained": FEW},
                       {"right": TWO, "test_abstained": FEW}),
    "by --map": (BOTH | {"what": FEW * 1}, {"right": TWO, "test_abstained": FEW},
                 {"abstained": "what"}),
    "no probabilities there": (
        {name: np.where(FEW & (name != "label"), np.nan, v) for name, v in BOTH.items()}
        | {"abstain": FEW}, {"right": TWO[~FEW], "test_abstained": FEW}),
    **{f"{name} beside {[*columns][-1]}": (
        columns | TRUTH | {name: np.where(ANSWERED, yes, no)}, {"test_abstained": ~ANSWERED})
       for columns in (NAMED, PREDICTED) for name, yes, no in (
           ("answered", 1, 0), ("accepted", True, False), ("covered", "yes", "no"),
           ("is_covered", 1, 0), ("was_answered", True, False))},
    **{f"{yes} and {no}": (NAMED | TRUTH | {"decision": np.where(LOW, no, yes)},
                           {"right": RIGHT, "test_abstained": LOW})
       for yes, no in (("answer", "defer"), ("Answered", "Abstained"))},
    "answers called a decision": (
        NAMED | TRUTH | {"decision": WORDS[SAID], "deferred": np.where(LOW, "Y", "N")},
        {"test_abstained": LOW}),
    "neither yes nor no": (NAMED | TRUTH | {"deferred": "maybe"},
                           {"test_abstained": None, "says": "'deferred'"}),
    "covered by conformal sets": (
        {"label": LABELS, "set_size": 1 + LABELS, "covered": RIGHT} | NAMED,
        {"test_abstained": None}),
    "accepted on a day": ({"label": LABELS, "accepted": DAYS} | NAMED, {"test_abstained": None}),
    "accepted as the label": ({"accepted": SECOND, "probability": ONE}, {"test_labels": SECOND}),
    # how much speaks for no answer
    **{name: ({"label": (WORDS[LABELS], LABELS)[j % 2]} | NAMED | {name: WEIGHT},
              {"right": RIGHT, "class_names": tuple(WORDS), "says": f"not used: {name!r}"})
       for j, name in enumerate((
           "p_abstain", "prob_abstain", "p_reject", "p_defer", "p_idk", "abstain probability",
           "rejection_score", "deferral_prob", "logit_abstain"))},
    **{f"rows sum to 1 with it, {kind}": (
        {"label": labels, "p_abstain": WEIGHT}
        | {name: p * (1 - WEIGHT) for name, p in NAMED.items()}, {"right": RIGHT, "p": P})
       for kind, labels in (("numbers", LABELS), ("words", WORDS[LABELS]))},
    **{f"answers with {name}": ({"label": LABELS, "pred": SAID, name: WEIGHT},
                                {"test_confidence": -WEIGHT})
       for name in ("p_abstain", "uncertainty", "entropy")},
    "two classes with it": ({"y_true": SECOND, "y_pred": YES, "prob_abstain": WEIGHT},
                            {"test_confidence": -WEIGHT}),
    **{f"classes of such names, {kind}": (
        {"label": labels} | {f"p_{name}": P[:, j] for j, name in enumerate(STATES)},
        {"right": RIGHT, "class_names": tuple(STATES)})
       for kind, labels in (("numbers", LABELS), ("words", STATES[LABELS]))},
    # labels that are not known
    **{f"label {cell!r} of {len(columns)}": (
        columns | {"label": but(WORDS[LABELS], cell)},
        {"right": RIGHT[~FEW], "class_names": tuple(WORDS),
         "test_labels": np.where(FEW, -1, LABELS)})
       for columns in (NAMED, {"y_pred": WORDS[SAID]})
       for cell in ("unlabeled", "None", "?", -1, "unknown", "NA", -100)},
    "a class called none": ({"label": NONE[LABELS], "pred": NONE[SAID]}, {"right": RIGHT}),
    "in columns": ({"label": NONE[LABELS]} | {f"p_{n}": P[:, j] for j, n in enumerate(NONE)},
                   {"right": RIGHT}),
    "never answered": ({"label": NONE[LABELS], "pred": np.where(SAID == 0, "dog", NONE[SAID])},
                       {"right": np.where(SAID == 0, 1, SAID) == LABELS}),
    "of two classes": ({"label": but(SECOND, -1), "prob": ONE}, {"right": TWO[~FEW]}),
    "of two words": ({"label": but(np.where(SECOND, "spam", "ham"), "unlabeled"), "prob": ONE},
                     {"right": TWO[~FEW]}),
    "-1 of two": ({"label": 2 * SECOND - 1, "pred": 1}, {"right": SECOND == 1}),
    **{f"-1 of three, {j}": ({"label": LABELS - 1} | columns,
                             {"right": RIGHT, "test_labels": LABELS})
       for j, columns in enumerate(SIGNED)},
    "-1 of more": ({"label": but(FIVE, -1), "pred": but(FIVE, -1, FIVE == 4)},
                   {"test_labels": np.where(FEW, -1, FIVE), "test_abstained": FIVE == 4,
                    "class_names": tuple("01234")}),
    "none known, numbers": (NUMBERED | {"label": -1}, {"test_labels": None}),
    "none known, words": (NAMED | {"label": "unlabeled"}, {"test_labels": None}),
    "empty": (NAMED | {"label": but(WORDS[LABELS], "")}, {"says": "'label' is empty"}),
    # answers that are none
    **{f"answer {cell!r} of {len(more)}": (
        TRUTH | {"prediction": but(WORDS[SAID], cell)} | more,
        {"right": RIGHT if "p_cat" in more else RIGHT[~FEW], "test_abstained": FEW,
         "class_names": tuple(WORDS)})
       for more in ({}, {"confidence": SURE}, NAMED)
       for cell in ("abstain", "IDK", "I don't know", -1, None, "", "REJECT")},
    **{f"number {cell!r} of {len(more)}": (
        {"label": LABELS, "prediction": but(SAID, cell)} | more,
        {"right": RIGHT if "p_0" in more else RIGHT[~FEW], "test_abstained": FEW})
       for more in ({}, {"confidence": SURE}, NUMBERED) for cell in (-1, None)},
    "of another model": (NAMED | TRUTH | {"pred": but(WORDS[np.roll(SAID, 1)], "abstain")},
                         {"test_abstained": None, "says": "not used: 'pred'"},
                         {"probabilities": "p_*"}),
    "of a rival": (HARD | {"other": but(WORDS[LABELS], "abstain"),
                           "third": WORDS[np.roll(LABELS, 1)]}, {"rivals": ["third"]}),
    "never true": (TRUTH | {"prediction": but(WORDS[SAID], "[invalid]")},
                   {"right": RIGHT & ~FEW, "says": "'[invalid]' (20 rows)"}),
    # how sure it is
    "no confidence where it abstained": (
        TRUTH | {"prediction": but(WORDS[SAID], "abstain"), "confidence": but(SURE, np.nan)},
        {"test_abstained": FEW, "test_confidence": np.where(FEW, SURE[~FEW].min(), SURE)}),
    **{f"{name} in percent": (HARD | {name: 100 * SURE}, {"test_confidence": SURE})
       for name in ("confidence", "score")},
    **{f"{name} of ten": (HARD | {name: np.ceil(10 * SURE)},
                          {"test_confidence": np.ceil(10 * SURE)})
       for name in ("confidence", "score")},
    "of no order": (HARD | {"confidence": np.array(["a", "b", "c"])[GRADE]},
                    {"test_confidence": None}),
    "of being right": ({"gold": WORDS[LABELS], "pred": WORDS[SAID], "p_correct": SURE},
                       {"test_confidence": SURE}),
    "votes": ({w: VOTES[:, j] for j, w in enumerate(WORDS)} | TRUTH, {"p": VOTES / 50}),
    "whole percentages": ({w: WHOLE[:, j] for j, w in enumerate(WORDS)} | TRUTH,
                          {"p": WHOLE / WHOLE.sum(axis=1, keepdims=True)}),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_cells_say(kind, tmp_path):
    data, want, *mapped = KINDS[kind]
    check(read(data, tmp_path, *mapped), want)
    check(read_predictions(pd.DataFrame(data), *mapped), want)


@pytest.mark.parametrize(
    "words", [["Low", "Medium", "High"], ["very low", "moderate", "VERY_HIGH"]]
)
def test_how_sure_in_words(words):
    found = read_predictions(pd.DataFrame(HARD | {"confidence": np.array(words)[GRADE]}))
    order = np.unique(found.test_confidence, return_inverse=True)[1]
    np.testing.assert_array_equal(order, GRADE)


def test_its_own_answers_stand_beside_as_many_of_the_surest():
    frame = pd.DataFrame({"label": LABELS, "answered": ANSWERED} | NAMED)
    found = run_analysis("selective", read_predictions(frame), Settings())
    table = found.tables["selective"].set_index("item")["value"]
    own, surest = RIGHT[ANSWERED].mean(), RIGHT[np.argsort(-SURE)][: ANSWERED.sum()].mean()
    assert own < surest
    assert table["coverage of its own answers"] == pytest.approx(ANSWERED.mean())
    assert table["accuracy of its own answers"] == pytest.approx(own)
    assert table["accuracy of as many by softmax response"] == pytest.approx(surest)
    assert f"{own:.3f}" in found.verdict
    assert f"{surest:.3f}" in found.verdict
    always = run_analysis("selective", read_predictions(frame.assign(answered=1)), Settings())
    assert "own answers" not in " ".join(always.tables["selective"]["item"])


# --- membership -----------------------------------------------------------------------------------

MEMBER = RNG.random(N) < 0.5
SCORE = MEMBER + RNG.normal(size=N)
LOSS = {"id": np.arange(N), "label": LABELS, "in_train": MEMBER, "loss": -SCORE}
MEMBERS = {
    "numbers": {"is_member": MEMBER.astype(int), "score": SCORE},
    "flags": {"member": MEMBER, "attack_score": SCORE},
    "words": {"membership": np.where(MEMBER, "member", "non-member"), "membership_score": SCORE},
    "parts": {"split": np.where(MEMBER, "member", "nonmember"), "score": SCORE},
    "in and out": {"in_out": np.where(MEMBER, "in", "out"), "signal": SCORE},
    "parts of a loss": {"split": np.where(MEMBER, "train", "test"), "loss": -SCORE},
    "a loss": LOSS,
    **{f"an attack on {flag}": {flag: MEMBER.astype(int), "mia_score": SCORE}
       for flag in ("label", "y_true", "inserted", "included")},
    "an attack beside a label": {"label": SECOND, "mia_score": SCORE, "is_member": MEMBER},
    **{name: File(name, {"scores": SCORE, "labels": MEMBER.astype(int)})
       for name in ("mia_scores.npz", "lira.npz", "membership-inference.npz")},
    **{f"arrays called {ours}": File("own.npz", {ours: sign * SCORE[MEMBER].reshape(shape),
                                                 theirs: sign * SCORE[~MEMBER].reshape(shape)})
       for ours, theirs, sign, shape in (
           ("member_scores", "non_member_scores", 1, -1), ("in_scores", "out_scores", 1, -1),
           ("scores_member", "scores_nonmember", 1, (-1, 1)),
           ("member_losses", "nonmember_losses", -1, (-1, 1)))},
}  # fmt: skip


@pytest.mark.parametrize("kind", MEMBERS)
def test_membership_in_the_forms_that_people_have_it(kind, tmp_path):
    found = read(MEMBERS[kind], tmp_path)
    want = {"member_scores": SCORE[MEMBER], "nonmember_scores": SCORE[~MEMBER]}
    check(found, want | {"test_labels": None})


def test_membership_that_is_none_lacks_or_is_audited(tmp_path):
    beside = {"member": MEMBER, "y_true": LABELS, "y_pred": SAID, "score": SCORE}
    check(read(beside, tmp_path), {"right": RIGHT, "member_scores": None})
    plain = File("own.npz", {"scores": SCORE, "labels": MEMBER.astype(int)})
    check(read(plain, tmp_path), {"test_labels": MEMBER, "says": "is_member"})
    with pytest.raises(ValueError, match=r"'loss' .*'' in row 2"):
        read(LOSS | {"loss": np.where(np.arange(N) == 0, np.nan, -SCORE)}, tmp_path)
    part = np.where(MEMBER, "member", "nonmember")
    ours = report(pd.DataFrame({"part": part, "membership_score": SCORE, "epsilon": 0.1}))
    theirs = report(pd.DataFrame(LOSS).assign(epsilon=0.1))
    assert theirs.analyses["audit"].verdict == ours.analyses["audit"].verdict


# --- numbers that are no logits -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matrix", "kind"),
    [
        (P, "probabilities"),
        (100 * P, "percent"),
        (np.log(P), "log probabilities"),
        (np.eye(3), "one hot"),
        (P * [[0.4, 1, 1]], "shares"),
        (LOGITS, "logits"),
        (np.full((2, 2), np.nan), "no"),
    ],
)
def test_kinds_of_numbers(matrix, kind):
    assert kind_of(matrix) == kind


def test_probabilities_under_the_name_of_logits():
    sparse = P.copy()
    sparse[0] = [0.0, 0.25, 0.75]
    for given, scale in ((sparse, 1), (P, 100)):
        found = ModelPredictions(test_logits=scale * given, test_labels=LABELS)
        np.testing.assert_allclose(special.softmax(found.test_logits, axis=1), given, atol=1e-15)
        assert "logarithms are taken" in found.reading[0]
    one, other = (
        report({"test_logits": z, "test_labels": LABELS}, target=0.6) for z in (P, np.log(P))
    )
    assert one.analyses["selective"].verdict == other.analyses["selective"].verdict


def test_log_of_zero():
    logits = np.array([[0.0, -np.inf], [np.log(0.25), np.log(0.75)]])
    given = ModelPredictions(test_logits=logits, test_labels=[0, 1])
    assert np.isfinite(given.test_logits).all()
    np.testing.assert_array_equal(given.correct("test")[0], [True, True])


def test_area_under_the_curve():
    from sklearn.metrics import roc_auc_score

    score = np.round(ONE, 1)
    assert auc(score, SECOND == 1) == pytest.approx(roc_auc_score(SECOND, score))


def test_two_digits_of_many_classes_sum_to_one():
    p = RNG.dirichlet(np.ones(12), 3000).round(2)
    assert abs(p.sum(axis=1) - 1).max() > 0.025
    frame = pd.DataFrame(p, columns=[f"p_{j}" for j in range(12)]).assign(label=p.argmax(axis=1))
    check(read_predictions(frame), {"says": "each row sums to 1"})


# --- what a report doubts -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"label": SAID} | NUMBERED, "are the labels what is true"),
        ({"label": LABELS} | NUMBERED, None),
        ({"label": "cat", "p_cat": ONE, "p_dog": 1 - ONE}, "all labels are the same, 'cat'"),
        ({"label": LABELS, "patient_id": np.arange(N) // 4} | NUMBERED, "30 clusters, not 120"),
    ],
)
def test_labels_are_doubted(columns, said):
    found = run_analysis("quality", read_predictions(pd.DataFrame(columns)), Settings())
    assert any((said or "are the labels") in text for text in found.warnings) == (said is not None)

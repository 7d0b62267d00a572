"""Membership scores in the forms that people have them in."""

import numpy as np
import pandas as pd
import pytest

from lib.report import read_predictions, report

RNG = np.random.default_rng(4)
MEMBER = RNG.random(400) < 0.5
SCORE = MEMBER + RNG.normal(size=400)
LABEL = RNG.integers(0, 3, 400)

TABLES = {
    "numbers": {"is_member": MEMBER.astype(int), "score": SCORE},
    "flags": {"member": MEMBER, "attack_score": SCORE},
    "words": {"membership": np.where(MEMBER, "member", "non-member"), "membership_score": SCORE},
    "parts": {"split": np.where(MEMBER, "member", "nonmember"), "score": SCORE},
    "in and out": {"in_out": np.where(MEMBER, "in", "out"), "signal": SCORE},
    "parts of a loss": {"split": np.where(MEMBER, "train", "test"), "loss": -SCORE},
    "a loss": {"id": np.arange(400), "label": LABEL, "in_train": MEMBER, "loss": -SCORE},
}
ARRAYS = {
    "with a line": ("member_scores", "non_member_scores", 1),
    "in and out": ("in_scores", "out_scores", 1),
    "at the end": ("scores_member", "scores_nonmember", 1),
    "losses": ("member_losses", "nonmember_losses", -1),
}


@pytest.mark.parametrize("case", TABLES)
def test_tables_say_who_was_trained_on(case, tmp_path):
    path = tmp_path / "own.csv"
    pd.DataFrame(TABLES[case]).to_csv(path, index=False)
    found = read_predictions(path)
    np.testing.assert_allclose(found.member_scores, SCORE[MEMBER])
    np.testing.assert_allclose(found.nonmember_scores, SCORE[~MEMBER])
    assert found.test_labels is None
    assert any("says which points were trained on" in text for text in found.reading)


@pytest.mark.parametrize("case", ARRAYS)
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_arrays_of_members_and_others(case, shape, tmp_path):
    ours, others, sign = ARRAYS[case]
    arrays = {ours: sign * SCORE[MEMBER].reshape(shape), others: sign * SCORE[~MEMBER]}
    np.savez(tmp_path / "own.npz", **arrays)
    found = read_predictions(tmp_path / "own.npz")
    np.testing.assert_array_equal(found.member_scores, SCORE[MEMBER])
    np.testing.assert_array_equal(found.nonmember_scores, SCORE[~MEMBER])


def test_they_are_audited_as_in_the_format():
    part = np.where(MEMBER, "member", "nonmember")
    ours = report(pd.DataFrame({"part": part, "membership_score": SCORE, "epsilon": 0.1}))
    theirs = report(pd.DataFrame(TABLES["a loss"]).assign(epsilon=0.1))
    assert theirs.analyses["audit"].verdict == ours.analyses["audit"].verdict


def test_a_gap_is_named():
    frame = pd.DataFrame(TABLES["a loss"])
    frame.loc[7, "loss"] = np.nan
    with pytest.raises(ValueError, match=r"'loss' must be given in every row, got '' in row 7"):
        read_predictions(frame)


def test_a_classifier_beside_members_is_one():
    right = np.where(RNG.random(400) < 0.9, LABEL, 0)
    frame = pd.DataFrame({"member": MEMBER, "y_true": LABEL, "y_pred": right, "score": SCORE})
    found = read_predictions(frame)
    assert found.member_scores is None
    np.testing.assert_array_equal(found.correct("test")[0], right == LABEL)


@pytest.mark.parametrize("name", ["mia_scores.npz", "lira.npz", "membership-inference.npz"])
def test_a_files_name_says_that_labels_are_of_members(name, tmp_path):
    np.savez(tmp_path / name, scores=SCORE, labels=MEMBER.astype(int))
    np.savez(tmp_path / "own.npz", scores=SCORE, labels=MEMBER.astype(int))
    found = read_predictions(tmp_path / name)
    np.testing.assert_array_equal(found.member_scores, SCORE[MEMBER])
    other = read_predictions(tmp_path / "own.npz")
    np.testing.assert_array_equal(other.test_labels, MEMBER)
    assert any("which points were trained on, call it is_member" in t for t in other.reading)


@pytest.mark.parametrize("flag", ["label", "y_true", "inserted", "included"])
def test_a_score_of_an_attack_is_no_classifiers(flag):
    found = read_predictions(pd.DataFrame({flag: MEMBER.astype(int), "mia_score": SCORE}))
    np.testing.assert_array_equal(found.member_scores, SCORE[MEMBER])
    both = pd.DataFrame({"label": LABEL % 2, "mia_score": SCORE, "is_member": MEMBER})
    np.testing.assert_array_equal(read_predictions(both).member_scores, SCORE[MEMBER])

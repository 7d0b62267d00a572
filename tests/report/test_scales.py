"""Numbers on other scales: percentages, votes, ranks in words, scores of any size."""

import numpy as np
import pandas as pd
import pytest
from scipy import special

from lib.report import read_predictions
from lib.report.tables import ReadingError

RNG = np.random.default_rng(12)
N, WORDS = 300, np.array(["cat", "dog", "owl"])
LABELS = np.arange(N) % 3
P = special.softmax(2.0 * np.eye(3)[LABELS] + RNG.normal(size=(N, 3)), axis=1)
SAID, SURE = P.argmax(axis=1), P.max(axis=1)
SECOND = np.arange(N) % 2
ONE = special.expit(2.0 * SECOND - 1 + RNG.normal(size=N))
TWO = (ONE > 0.5) == SECOND
HARD = {"label": WORDS[LABELS], "prediction": WORDS[SAID]}


def says(found, text):
    return any(text in line for line in found.reading)


def probabilities(found):
    return special.softmax(found.test_logits.astype(float), axis=1)


@pytest.mark.parametrize("name", ["y_score", "prob", "score"])
def test_percentages_of_the_second_class(name):
    found = read_predictions(pd.DataFrame({"label": SECOND, name: 100 * ONE}))
    np.testing.assert_allclose(probabilities(found)[:, 1], ONE, rtol=1e-9)
    assert says(found, f"{name!r} is the percentage of the second class")
    beside = pd.DataFrame({"label": SECOND, "y_pred": (ONE > 0.5) * 1, name: 100 * ONE})
    np.testing.assert_allclose(probabilities(read_predictions(beside))[:, 1], ONE, rtol=1e-9)


def test_scores_of_another_scale_are_asked_for():
    tenths = pd.DataFrame({"label": SECOND, "score": np.ceil(10 * ONE)})
    with pytest.raises(ReadingError, match=r"from 1 to 10 .*make it a probability.*map logit="):
        read_predictions(tenths)
    credit = pd.DataFrame({"label": SECOND, "score": 300 + 500 * ONE})
    with pytest.raises(ReadingError, match=r"goes from 3\d\d.* to 7\d\d.* make it a probability"):
        read_predictions(credit)
    with pytest.raises(ValueError, match=r"'score' must be a probability.*got '[3-7]\d\d.*row 0"):
        read_predictions(credit, {"probability": "score"})
    with pytest.raises(ValueError, match=r"'s' must be a probability.*got '-0"):
        read_predictions(pd.DataFrame({"y": SECOND, "s": ONE - 0.5}), {"probability": "s"})
    logits = pd.DataFrame({"label": SECOND, "logit": 300 + 500 * ONE})  # what is called so is one
    assert (read_predictions(logits).answers("test") == 1).all()


@pytest.mark.parametrize("name", ["confidence", "score"])
def test_how_sure_in_percent(name):
    found = read_predictions(pd.DataFrame(HARD | {name: 100 * SURE}))
    np.testing.assert_allclose(found.test_confidence, SURE)
    assert says(found, "in percent")
    ranks = read_predictions(pd.DataFrame(HARD | {name: np.ceil(10 * SURE)}))
    np.testing.assert_array_equal(ranks.test_confidence, np.ceil(10 * SURE))


def test_how_sure_in_words():
    place = np.digitize(SURE, [0.6, 0.9])
    for words in (["Low", "Medium", "High"], ["very low", "moderate", "VERY_HIGH"]):
        found = read_predictions(pd.DataFrame(HARD | {"confidence": np.array(words)[place]}))
        order = np.unique(found.test_confidence, return_inverse=True)[1]
        np.testing.assert_array_equal(order, place)
    other = read_predictions(pd.DataFrame(HARD | {"confidence": np.array(["a", "b", "c"])[place]}))
    assert other.test_confidence is None


def test_gaps_in_how_sure_it_is():
    gaps = np.where(np.arange(N) < 5, np.nan, SURE)
    with pytest.raises(ValueError, match=r"'confidence' must be a number in every row.* in row 0"):
        read_predictions(pd.DataFrame(HARD | {"confidence": gaps}))
    silent = pd.DataFrame(HARD | {"confidence": gaps})
    silent.loc[:4, "prediction"] = "abstain"
    found = read_predictions(silent)
    np.testing.assert_array_equal(found.test_confidence[5:], SURE[5:])
    assert found.test_abstained.sum() == 5


def test_whole_percentages_and_votes_by_their_sums():
    votes = np.array([RNG.multinomial(50, p) for p in P])
    whole = np.round(100 * P).astype(int)
    assert len(np.unique(whole.sum(axis=1))) > 1  # rounding: not all are 100
    for given, text in ((votes, "votes in 3 columns"), (whole, "percentages in 3 columns")):
        found = read_predictions(pd.DataFrame(given, columns=WORDS).assign(label=WORDS[LABELS]))
        want = given / given.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(probabilities(found), want, atol=1e-9)
        assert says(found, text)


def test_two_digits_of_many_classes_sum_to_one():
    p = RNG.dirichlet(np.ones(12), 3000).round(2)
    assert abs(p.sum(axis=1) - 1).max() > 0.025
    frame = pd.DataFrame(p, columns=[f"p_{j}" for j in range(12)]).assign(label=p.argmax(axis=1))
    assert says(read_predictions(frame), "each row sums to 1")

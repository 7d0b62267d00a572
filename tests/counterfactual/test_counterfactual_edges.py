"""Boundaries of what is allowed, messages in full, and values derived another way.

Most were added where mutation testing showed that a change would go unnoticed.
"""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LogisticRegression

from lib import check as checks
from lib.counterfactual import (
    ESTIMATORS,
    Nuisances,
    counterfactual_difference,
    counterfactual_score,
    default_clip,
    estimate_from_nuisances,
    fit_nuisances,
    fold_numbers,
    influence_values,
)
from lib.counterfactual import estimate as module
from lib.counterfactual.diagnostics import diagnose
from lib.counterfactual.scores import abstain, confidence, score

NAN, INF = math.nan, math.inf
R = np.array([True, False, False])
THREE = [[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]]


class Means(ClassifierMixin, BaseEstimator):
    """The share of each class, whatever the inputs."""

    def fit(self, x, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares_ = counts / counts.sum()
        return self

    def predict_proba(self, x):
        return np.tile(self.shares_, (len(x), 1))


class Mean(RegressorMixin, BaseEstimator):
    """The mean, whatever the inputs."""

    def fit(self, x, y):
        self.mean_ = y.mean()
        return self

    def predict(self, x):
        return np.full(len(x), self.mean_)


BLIND = Means(), Mean()


X3 = [[0.0], [1.0], [2.0]]
S3 = [NAN, 1.0, 2.0]
KNOWN = Nuisances(R, np.array([0.0, 1.0, 2.0]), np.full(3, 0.5), np.array([3.0, 4.0, 5.0]))
SURE = np.array([1.0, 1.0, 0.5])
LINEAR = {"learner": "linear", "rng": 0}


def refitted(**change):
    """A fit of nuisance functions with one argument changed."""
    given = {"X": X3, "scores": S3, "abstained": R, "fold": [0, 1, 1]} | change
    return fit_nuisances(**given, learner=BLIND, rng=0, names=("s", "r"))


# The texts that these modules add to those of `lib.check`, which has tests of its own; the names
# of all arguments are held to in tests/malformed.
MESSAGES = {
    "probabilities must be of shape (n, C), C at least 2, or (n,), got shape (2, 1)": lambda: score(
        "brier", [[1.0], [1.0]], [0, 0]
    ),
    "probabilities must be of shape (n, C), C at least 2, or (n,), got shape ()": lambda: score(
        "brier", 0.5, [0]
    ),
    "probabilities must be probabilities that sum to 1 over the last axis, got values from -0.5"
    " with sums from 1 to 1; take the softmax of logits, or the exponential of log-probabilities": (
        lambda: score("brier", [[0.5, 0.5], [1.5, -0.5]], [0, 0])
    ),
    "probabilities must be probabilities that sum to 1 over the last axis, got values from 0.25"
    " with sums from 0.75 to 1.25; divide each row by its sum, or take the softmax if these are"
    " logits": (lambda: score("brier", [[0.5, 0.5], [0.5, 0.25], [0.5, 0.75]], [0, 0, 0])),
    "labels must be integers of shape (2,), got int64 of shape (1,)": lambda: score(
        "brier", THREE, [0]
    ),
    "probabilities must be above 0 at the label for the log score, which is minus infinity"
    " otherwise, got 0 in row 1 (2 such rows); give floor to bound it": lambda: score(
        "log", [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [0, 0, 1]
    ),
    "bounds must be a pair of numbers, got 0.5": lambda: abstain(THREE, bounds=0.5, rng=0),
    "bounds must be in ascending order, got (0.8, 0.2)": lambda: abstain(
        THREE, bounds=(0.8, 0.2), rng=0
    ),
    "bounds[0] must be a number at least 0 and at most 1, got -0.1": lambda: abstain(
        THREE, bounds=(-0.1, 0.2), rng=0
    ),
    "bounds[1] must be a number at least 0 and at most 1, got '1'": lambda: abstain(
        THREE, bounds=(0.1, "1"), rng=0
    ),
    "threshold must be a number at least 0 and at most 1, got True": lambda: abstain(
        THREE, threshold=True
    ),
    "folds must be at most the number of points, 3, got 4": lambda: fold_numbers(3, 4, 0),
    "r must be False somewhere: of a classifier that never answers nothing is known": (
        lambda: refitted(abstained=np.ones(3), fold=[0, 1, 1])
    ),
    "r must be False outside every fold: all 1 points outside one of them are abstained on, so"
    " there is no score to learn from; use fewer folds or more data": lambda: refitted(
        abstained=[1, 1, 0], fold=[0, 1, 0]
    ),
    "s must be finite where the classifier answered": lambda: refitted(scores=[NAN] * 3),
    "r must be booleans, or 0 and 1, got 2": lambda: refitted(abstained=[0, 2, 0]),
    "fold must be whole numbers, got 0.5": lambda: refitted(fold=[0, 0.5, 1]),
    "fold must be of shape (3,), got shape (2,)": lambda: refitted(fold=[0, 1]),
    "only must be a number in fold, got 2": lambda: refitted(only=2),
    "clip must be above 0: the propensity to abstain is 1 at points that were answered, 1 of"
    " them": lambda: influence_values(replace(KNOWN, propensity=SURE)),
    "clip must be above 0: the propensity": lambda: influence_values(
        replace(KNOWN, abstained=~R, propensity=np.ones(3))
    ),
    "abstained must be booleans, or 0 and 1, got 2": lambda: influence_values(
        replace(KNOWN, abstained=[0, 2, 0])
    ),
    "scores must be finite where the classifier answered, got nan in row 1": (
        lambda: influence_values(replace(KNOWN, scores=np.array([0.0, NAN, 2.0])), "ipw")
    ),
    "propensity must be of shape (3,), got shape (2,)": lambda: influence_values(
        replace(KNOWN, propensity=np.array([0.5, 0.5])), "ipw"
    ),
    "outcome must be of shape (3,), got shape (1,)": lambda: influence_values(
        replace(KNOWN, outcome=np.array([0.5]))
    ),
    "outcome must be finite, got inf in row 2": lambda: influence_values(
        replace(KNOWN, outcome=np.array([0.5, 0.5, INF])), "plug-in"
    ),
    "nuisances must be those of one classifier or of two": lambda: estimate_from_nuisances(
        (KNOWN, 1)
    ),
    "nuisances must be those of one": lambda: estimate_from_nuisances((KNOWN,) * 3),
    "nuisances must be those of": lambda: estimate_from_nuisances(()),
    "nuisances must be of the same points, got [3, 2]": lambda: estimate_from_nuisances(
        (KNOWN, Nuisances(R[:2], KNOWN.scores[:2], R[:2] * 1.0, R[:2] * 1.0))
    ),
    "repeats must be odd, so that one split is the median, got 2": lambda: counterfactual_score(
        X3, S3, R, repeats=2, **LINEAR
    ),
    "folds must be at most the number of points, 3, got 5": lambda: counterfactual_score(
        X3, S3, R, folds=5, **LINEAR
    ),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_messages_in_full(message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        MESSAGES[message]()


@pytest.mark.parametrize(
    ("name", "value"), [("clip", 0), ("clip", 1), ("level", 0), ("level", 1), ("estimator", "DR")]
)
def test_options_are_checked_wherever_they_come_in(name, value):
    for call in (
        lambda **given: counterfactual_score(X3, S3, R, **LINEAR, **given),
        lambda **given: estimate_from_nuisances(KNOWN, **given),
    ):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            call(**{name: value})
    if name != "level" and value != 0:
        with pytest.raises(ValueError, match=f"^{name} must be"):
            influence_values(KNOWN, **{name: value})


def test_the_ends_of_what_is_allowed_are_allowed():
    assert checks.as_matrix("X", [[7]]).tolist() == [[7.0]]
    assert checks.as_vector("f", [7]).tolist() == [7.0]
    assert checks.as_vector("f", [7], 1).dtype == np.float64
    assert checks.as_flags("r", np.array([1, 0], np.uint8), 2).dtype == bool
    assert checks.as_flags("r", [1.0, 0.0], 2).tolist() == [True, False]
    assert checks.as_flags("r", np.array([True, np.False_], object), 2).dtype == bool
    assert checks.as_answers("s", [5, 6, 7], R).tolist() == [0.0, 6.0, 7.0]
    assert checks.as_integer("n", 1, 1) == checks.as_integer("n", 3, 1, 3) - 2 == 1
    assert type(checks.as_integer("n", np.int64(2), 1)) is int
    assert type(checks.as_number("m", np.float32(0.5), 0, 1)) is float
    assert checks.as_number("m", np.int64(1), 0, 2) == 1.0
    assert checks.require_choice("c", "b", ("a", "b")) == "b"
    assert checks.as_generator(0, "rng").random() == np.random.default_rng(0).random()
    assert checks.as_generator(np.int64(3), "rng").random() == np.random.default_rng(3).random()
    given = np.random.default_rng(0)
    assert checks.as_generator(given, "rng") is given
    for end in (0, 1, np.float32(0.5), np.int64(1)):
        assert abstain(THREE, threshold=end)[0].dtype == bool
    assert abstain(THREE, bounds=(0, 1), rng=0)[1] == pytest.approx([0.5, 0.3])
    assert abstain(THREE, bounds=(0.5, 0.5), rng=0)[1].tolist() == [0.5, 0.5]
    assert estimate_from_nuisances(KNOWN, level=0.999, clip=0.999).clip == 0.999
    assert influence_values(KNOWN, clip=0).tolist() == influence_values(KNOWN).tolist()


# ------------------------------------------------------------------ scores


def test_sums_may_be_off_by_a_thousandth_and_no_more():
    exact = [[0.5, 0.5]]
    for off in (9e-4, -9e-4):
        near = [[0.5, 0.5 + off]]
        assert score("brier", near, [0]) == pytest.approx(score("brier", exact, [0]), abs=1e-3)
    for off in (1.1e-3, -1.1e-3):
        with pytest.raises(ValueError, match="sum to 1 over the last axis"):
            score("brier", [[0.5, 0.5 + off]], [0])
    # A probability may exceed 1 by as much, and the scores stay within their ranges.
    over = [[1 + 9e-7, 0.0]]
    assert 1 - 1e-11 < score("brier", over, [0])[0] <= 1
    assert score("brier", over, [1]).tolist() == [0.0]
    assert score("log", over, [0]).tolist() == [0.0]
    assert confidence(over).tolist() == confidence(over, "gini").tolist() == [1.0]
    with pytest.raises(ValueError, match=r"with sums from 1\.002 to 1\.002"):
        score("brier", [[1 + 2e-3, 0.0]], [0])
    with pytest.raises(ValueError, match="got values from -1e-09"):
        score("brier", [[1.0, -1e-9]], [0])


def test_a_floor_bounds_the_log_score_and_no_other():
    p, y = [[1.0, 0.0], [0.95, 0.05], [0.5, 0.5]], [1, 1, 1]
    assert score("log", p, y, floor=0.1) == pytest.approx(np.log([0.1, 0.1, 0.5]))
    for rule in ("zero-one", "brier"):
        assert score(rule, p, y, floor=0.1).tolist() == score(rule, p, y).tolist()
        with pytest.raises(ValueError, match=r"^floor must"):
            score(rule, p, y, floor=2)
    assert score("zero-one", p, y).dtype == np.float64


def test_abstention_at_random_by_hand():
    p = np.linspace(0.5, 1.0, 200)
    for measure in ("softmax-response", "gini"):
        abstained, propensity = abstain(p, measure, bounds=(0.6, 0.9), rng=7)
        expected = 1 - np.clip(confidence(p, measure), 0.6, 0.9)
        assert propensity == pytest.approx(expected)
        drawn = np.random.default_rng(7).random(200)
        assert abstained.tolist() == (drawn < expected).tolist()
        default, propensity = abstain(p, measure, rng=7)
        assert propensity == pytest.approx(1 - np.clip(confidence(p, measure), 0.2, 0.8))
        assert default.tolist() == (drawn < propensity).tolist()
    assert abstain(p, rng=7)[1].tolist() == abstain(p, "softmax-response", rng=7)[1].tolist()
    # A threshold needs no chance, and the bounds do not matter to it.
    abstained, propensity = abstain(p, threshold=0.7, bounds=None)
    assert abstained.tolist() == (p < 0.7).tolist()
    assert propensity.tolist() == abstained.astype(float).tolist()
    assert not abstain([0.7], threshold=0.7)[0].any()  # at the threshold it answers


# ------------------------------------------------------------------ estimates


def test_the_level_of_clipping_by_the_formula():
    for n in (2, 30, 31, 32, 33, 40, 1000):
        assert default_clip(n) == pytest.approx(min(0.2, 5 / (math.sqrt(n) * math.log(n))))
    assert default_clip(1) == 0.2
    assert default_clip(np.int64(10_000)) == pytest.approx(5 / (100 * math.log(10_000)))


def test_folds_are_the_shuffled_remainders():
    assert fold_numbers(7, 3, 5).tolist() == (
        np.random.default_rng(5).permutation([0, 1, 2, 0, 1, 2, 0]).tolist()
    )
    assert sorted(fold_numbers(3, 3, 0)) == [0, 1, 2]
    assert fold_numbers(2, 2, np.random.default_rng(1)).dtype == np.int64


def test_influence_values_by_hand():
    # Weights 1 / (1 - min(pi, 1 - clip)) where it answered.
    r = np.array([True, False, False, False])
    known = Nuisances(
        r, np.array([0.0, 1.0, 2.0, 4.0]), np.array([0.9, 0.5, 0.9, 0.0]), np.array([3.0, 4, 5, 6])
    )
    assert influence_values(known, "plug-in").tolist() == [3.0, 4.0, 5.0, 6.0]
    assert influence_values(known, "ipw", 0.25) == pytest.approx([0.0, 2.0, 8.0, 4.0])
    assert influence_values(known, "dr", 0.25) == pytest.approx(
        [3.0, 4 + 2 * (1 - 4), 5 + 4 * (2 - 5), 6 + (4 - 6)]
    )
    assert influence_values(known, clip=0.25).tolist() == (
        influence_values(known, "dr", 0.25).tolist()
    )
    # Without a level of clipping the propensities are as they are.
    assert influence_values(known, "ipw") == pytest.approx([0.0, 2.0, 20.0, 4.0])
    # A propensity of 1 where it abstained is no matter.
    sure = Nuisances(r, known.scores, np.array([1.0, 0.5, 0.5, 0.5]), known.outcome)
    assert influence_values(sure, "ipw").tolist() == [0.0, 2.0, 4.0, 8.0]
    never = Nuisances(~np.ones(4, bool), known.scores, np.full(4, 0.5), known.outcome)
    for estimator in ESTIMATORS:
        values = influence_values(never, estimator, 0.1)
        assert values.tolist() == known.scores.tolist()
        assert not np.shares_memory(values, known.scores)
    assert not np.shares_memory(influence_values(known, "plug-in"), known.outcome)


def test_equal_values_do_not_say_that_all_are_equal():
    still = Nuisances(R, np.zeros(3), np.full(3, 0.5), np.zeros(3))
    found = estimate_from_nuisances(still)
    assert (found.value, found.stderr, found.p_value) == (0, 0, 1)
    assert found.interval[0] == 0
    assert found.interval[1] > 0.9
    one = Nuisances(~np.ones(3, bool), np.full(3, 0.5), np.zeros(3), np.full(3, 0.5))
    found = estimate_from_nuisances(one)
    assert (found.value, found.stderr) == (0.5, 0)
    assert np.isnan([*found.interval, found.p_value]).all()
    found = estimate_from_nuisances(one, score_range=(0, 1))
    assert 0 < found.interval[0] < 0.2
    assert 0.8 < found.interval[1] < 1
    assert found.p_value == 0  # a score of 0.5 was seen, and none is below 0
    assert (found.level, found.estimator, found.clip) == (0.95, "dr", default_clip(3))
    assert found.nuisances == (one,)
    pair = estimate_from_nuisances([one, still])
    assert pair.nuisances == (one, still)
    assert len(pair.diagnostics) == 2
    assert pair.value == 0.5


def points(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    return x, (rng.random(n) < 0.5 + 0.3 * x[:, 0]).astype(float), rng.random(n) < 0.4


@pytest.mark.parametrize("function", ["score", "difference"])
def test_defaults_are_those_of_the_documentation(function):
    x, s, r = points(60, 0)
    given = (x, s, r) if function == "score" else (x, s, r, *points(60, 1)[1:])
    call = counterfactual_score if function == "score" else counterfactual_difference
    short = call(*given, learner="linear", rng=1)
    long = call(
        *given,
        estimator="dr",
        learner="linear",
        folds=2,
        repeats=1,
        clip=default_clip(60),
        level=0.95,
        rng=1,
    )
    assert (short.value, short.interval, short.clip) == (long.value, long.interval, long.clip)
    assert short.level == 0.95
    for change in (
        {"estimator": "ipw"},
        {"folds": 3},
        {"repeats": 3},
        {"clip": 0.6},
        {"level": 0.5},
        {"rng": 2},
        {"learner": BLIND},
    ):
        other = call(*given, **({"learner": "linear", "rng": 1} | change))
        assert other.interval != short.interval, change


class Captured(Exception):
    """Carries the learner that was asked for."""


def test_the_super_learner_is_the_default(monkeypatch):
    def capture(learner, rng):
        raise Captured(learner)

    monkeypatch.setattr(module, "learner_pair", capture)
    x, s, r = points(20, 0)
    fold = fold_numbers(20, 2, 0)
    for call in (
        lambda **o: counterfactual_score(x, s, r, rng=0, **o),
        lambda **o: counterfactual_difference(x, s, r, s, r, rng=0, **o),
        lambda **o: fit_nuisances(x, s, r, fold, rng=0, **o),
    ):
        for options, expected in (({}, "super"), ({"learner": "forest"}, "forest")):
            with pytest.raises(Captured) as caught:
                call(**options)
            assert caught.value.args == (expected,)


def test_the_first_fit_is_of_what_was_abstained_on():
    """Two points of each kind outside a fold are enough for a model, one is not."""
    n = 12
    x, s = np.arange(n, dtype=float)[:, None], np.arange(n, dtype=float)
    fold = np.repeat([0, 1], 6)
    for outside, learned in (([6], False), ([6, 7], True)):
        r = np.zeros(n, bool)
        r[outside] = True
        r[[0, 1]] = True
        found = fit_nuisances(x, s, r, fold, (LogisticRegression(), Mean()), rng=0)
        assert (np.ptp(found.propensity[fold == 0]) > 0) == learned
        if not learned:
            assert found.propensity[fold == 0].tolist() == [1 / 6] * 6
    # Two answers are enough for a model of the scores.
    for answered, learned in (([6], False), ([6, 7], True)):
        r = np.ones(n, bool)
        r[[0, 1, *answered]] = False
        found = fit_nuisances(x, s, r, fold, (Means(), Steep()), rng=0)
        assert (np.ptp(found.outcome[fold == 0]) > 0) == learned
        if not learned:
            assert found.outcome[fold == 0].tolist() == [6.0] * 6


class Steep(RegressorMixin, BaseEstimator):
    """The line through the first two points."""

    def fit(self, x, y):
        self.slope_ = (y[1] - y[0]) / (x[1, 0] - x[0, 0])
        self.zero_ = y[0] - self.slope_ * x[0, 0]
        return self

    def predict(self, x):
        return self.zero_ + self.slope_ * x[:, 0]


class Backwards(Means):
    """Classes in the other order."""

    def fit(self, x, y):
        super().fit(x, y)
        self.classes_, self.shares_ = self.classes_[::-1], self.shares_[::-1]
        return self


def test_the_column_of_abstention_is_found_by_its_class():
    x, s, r = points(40, 3)
    fold = fold_numbers(40, 2, 0)
    found = fit_nuisances(x, s, r, fold, (Backwards(), Mean()), rng=0)
    for number in (0, 1):
        share = r[fold != number].mean()
        assert found.propensity[fold == number] == pytest.approx(share)
        mean = s[(fold != number) & ~r].mean()
        assert found.outcome[fold == number] == pytest.approx(mean)


# ------------------------------------------------------------------ diagnostics


def test_diagnostics_of_six_points_by_hand():
    r = np.array([True, True, False, False, False, False])
    s = np.array([0.0, 0.0, 1.0, 2.0, 3.0, 6.0])
    pi = np.array([0.8, 0.5, 0.5, 0.2, 0.75, 0.0])
    mu = np.array([9.0, 9.0, 1.0, 1.0, 4.0, 4.0])
    found = diagnose(r, s, pi, mu, 0.5)
    weights = np.array([2, 1.25, 2, 1])
    assert (found.n, found.answered, found.coverage) == (6, 4, 4 / 6)
    assert found.overlap == pytest.approx(0.2)
    assert found.effective_sample_size == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert found.largest_weight == 2.0
    assert found.clipped == pytest.approx(2 / 6)
    residual = (0.04 + 0.25 + 0.25 + 0.04 + 0.5625) / 6
    assert found.explained == pytest.approx(1 - residual / (2 / 9))
    # Residuals 0, 1, -1, 2; variance of 1, 2, 3, 6 is 3.5.
    assert found.outcome_r2 == pytest.approx(1 - 1.5 / 3.5)
    assert found.outcome_bias == 0.5
    edges = found.propensity_edges
    assert edges == pytest.approx(np.linspace(0, 1, 21))
    places = [int(np.searchsorted(edges, p, "right")) - 1 for p in pi]
    expected = np.zeros((2, 20), int)
    for place, abstained in zip(places, r, strict=True):
        expected[int(abstained), place] += 1
    assert found.propensity_answered.tolist() == expected[0].tolist()
    assert found.propensity_abstained.tolist() == expected[1].tolist()
    # Fewer than ten points: each is a part of its own.
    assert found.calibration_error == pytest.approx(np.abs(r - pi).mean())
    assert found.positivity == ()
    assert found.notes == (
        "33.3% of the propensities are clipped at 0.5: look at the estimate's sensitivity to that"
        " level",
    )


def test_propensities_beyond_the_unit_interval_count_as_its_ends():
    r = np.array([True, False])
    found = diagnose(r, np.zeros(2), np.array([1.5, -0.5]), np.zeros(2), 0.1)
    assert found.propensity_abstained.tolist() == [0] * 19 + [1]
    assert found.propensity_answered.tolist() == [1] + [0] * 19
    assert found.largest_weight == 1.0
    assert found.overlap == -0.5


def test_notes_in_full_and_where_they_begin():
    n = 100
    never = diagnose(np.zeros(n, bool), np.ones(n), np.zeros(n), np.ones(n), 0.1)
    assert never.notes == (
        "it never abstained: the estimate is the mean score with its plain interval",
    )
    assert (never.explained, never.coverage) == (0.0, 1.0)
    assert math.isnan(never.outcome_r2)
    # Two points of a hundred are not yet many that are clipped, three are.
    r = np.arange(n) % 2 == 0
    for number, noted in ((2, False), (3, True)):
        pi = np.full(n, 0.5)
        pi[:number] = 0.95
        assert bool(diagnose(r, np.zeros(n), pi, np.zeros(n), 0.1).notes) == noted
    # At the level itself nothing is clipped.
    assert diagnose(r, np.zeros(n), np.full(n, 0.75), np.zeros(n), 0.25).clipped == 0.0


def sure(n, number, answered, level=0.97):
    """Of `n` points the first `number` have a propensity of `level`; so many are answered."""
    rng = np.random.default_rng(0)
    r, pi = rng.random(n) < 0.5, np.full(n, 0.5)
    r[:number], pi[:number] = True, level
    r[:answered] = False
    return diagnose(r, np.zeros(n), pi, np.zeros(n), 0.1).positivity


def test_where_positivity_is_said_to_fail():
    meaning = (
        "what it would have done there cannot be known, only extrapolated, and the interval does"
        " not say how wrong that may be"
    )
    assert sure(500, 100, 1) == (
        "on 20.0% of the points the classifier seems never to answer (it did on 1 of 100), so"
        f" positivity fails: {meaning}",
    )
    # Sure is 0.95 and more; twenty points, and a fiftieth of all, are enough; less than a fiftieth
    # of them may be answered.
    assert sure(500, 100, 1, 0.95)
    assert not sure(500, 100, 1, 0.9499)
    assert sure(500, 20, 0)
    assert not sure(500, 19, 0)
    assert sure(2000, 40, 0)
    assert not sure(2000, 39, 0)
    assert not sure(500, 100, 2)
    r = np.arange(100) >= 50
    found = diagnose(r, np.zeros(100), np.where(r, 0.9, 0.1), np.zeros(100), 0.05)
    assert found.positivity == (
        "abstention is almost a function of the inputs, which explain 96% of its variance, so"
        f" positivity is weak at best: where it never answers, {meaning}",
    )
    # It begins above nine tenths: 1 - d^2 / 0.25 for propensities off by d.
    for off, warned in ((0.1582, False), (0.1580, True)):
        pi = np.where(r, 1 - off, off)
        assert bool(diagnose(r, np.zeros(100), pi, np.zeros(100), 0.05).positivity) == warned


def newton(odds, r):
    """Slope and intercept of a logistic regression, by scikit-learn."""
    model = LogisticRegression(C=np.inf, tol=1e-12, solver="newton-cholesky")
    model.fit(odds[:, None], r)
    return model.coef_[0, 0], model.intercept_[0]


def test_calibration_is_a_logistic_regression_on_the_log_odds():
    rng = np.random.default_rng(1)
    for slope, intercept in ((0.5, 1.0), (3.0, -2.0), (-1.0, 0.0), (6.0, 3.0)):
        odds = rng.normal(size=400)
        r = rng.random(400) < special.expit(slope * odds + intercept)
        found = diagnose(r, np.zeros(400), special.expit(odds), np.zeros(400), 0.01)
        expected = newton(odds, r)
        assert (found.calibration_slope, found.calibration_intercept) == pytest.approx(
            expected, rel=1e-6
        )


@pytest.mark.parametrize("kind", ["zeros and ones", "steep", "uninformative"])
def test_calibration_of_bad_propensities_is_found_too(kind):
    """A whole Newton step would lead back and forth, and end where it began: at "calibrated"."""
    rng = np.random.default_rng(3)
    r = np.arange(100) % 3 == 0
    pi = {
        "zeros and ones": np.arange(100) % 2.0,
        "steep": special.expit(12 * rng.standard_normal(100)),
        "uninformative": rng.random(100),
    }[kind]
    odds = special.logit(np.clip(pi, 1e-6, 1 - 1e-6))[:, None]
    reference = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000).fit(odds, r)
    found = diagnose(r, np.zeros(100), pi, np.zeros(100), 0.01)
    expected = (reference.coef_[0, 0], reference.intercept_[0])
    assert (found.calibration_slope, found.calibration_intercept) == pytest.approx(
        expected, abs=1e-4
    )


def test_calibration_far_from_the_middle_is_not_broken_off():
    """An intercept may be beyond any bound where the slope is not: propensities around 0.0067."""
    rng = np.random.default_rng(8)
    odds = -5 + 0.1 * rng.standard_normal(400)
    r = rng.random(400) < special.expit(30 * (odds + 5))
    found = diagnose(r, np.zeros(400), special.expit(odds), np.zeros(400), 0.01)
    # By scikit-learn around the middle, where it converges well.
    slope, intercept = newton(odds + 5, r)
    assert slope < 100 < intercept + 5 * slope
    assert (found.calibration_slope, found.calibration_intercept) == pytest.approx(
        (slope, intercept + 5 * slope), rel=1e-6
    )


def test_calibration_at_the_ends():
    n, zeros = 100, np.zeros(100)
    r = np.arange(n) % 3 == 0
    # Log odds of 0 and 1 are those of a millionth.
    pi = np.where(np.arange(n) % 2 == 0, 0.0, 1.0)
    near = np.where(pi == 0, 1e-6, 1 - 1e-6)
    one, other = diagnose(r, zeros, pi, zeros, 0.1), diagnose(r, zeros, near, zeros, 0.1)
    assert one.calibration_slope == pytest.approx(other.calibration_slope)
    assert math.isfinite(one.calibration_slope)
    never = diagnose(np.zeros(n, bool), zeros, near, zeros, 0.1)
    assert math.isnan(never.calibration_slope)
    assert math.isnan(never.calibration_intercept)
    flat = diagnose(r, zeros, np.full(n, 0.3), zeros, 0.1)
    assert math.isnan(flat.calibration_slope)
    assert math.isnan(flat.calibration_intercept)
    # Separated: beyond any use, and an end.
    rule = diagnose(np.arange(n) >= 50, zeros, np.linspace(0.1, 0.9, n), zeros, 0.1)
    assert 50 < rule.calibration_slope < 110


def test_calibration_error_is_over_tenths():
    rng = np.random.default_rng(2)
    n = 25  # five parts of three and five of two
    pi = rng.random(n)
    r = rng.random(n) < pi
    found = diagnose(r, np.zeros(n), pi, np.zeros(n), 0.01)
    order, sizes, total, start = np.argsort(pi), [3] * 5 + [2] * 5, 0.0, 0
    for size in sizes:
        part = order[start : start + size]
        total += size * abs(r[part].mean() - pi[part].mean())
        start += size
    assert found.calibration_error == pytest.approx(total / n)

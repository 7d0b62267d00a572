"""Estimates by brute force, on known truths, and on input that must not be taken."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from lib.counterfactual import (
    ESTIMATORS,
    Nuisances,
    PositivityWarning,
    clipping_sensitivity,
    counterfactual_difference,
    counterfactual_score,
    default_clip,
    estimate_from_nuisances,
    fit_nuisances,
    fold_numbers,
    influence_values,
)


class CellMeans(BaseEstimator):
    """Means in the cells of a discrete X, without the checks that take scikit-learn's time."""

    def fit(self, x, y):
        self.classes_ = np.array([False, True])
        cell = x[:, 0].astype(int)
        self.means_ = np.bincount(cell, y, 4) / np.maximum(np.bincount(cell, minlength=4), 1)
        return self

    def predict(self, x):
        return self.means_[x[:, 0].astype(int)]

    def predict_proba(self, x):
        return np.column_stack([1 - self.predict(x), self.predict(x)])


# Saturated in a discrete X, so right; blind to X, so wrong.
RIGHT = CellMeans(), CellMeans()
TREES = DecisionTreeClassifier(), DecisionTreeRegressor()
WRONG = DummyClassifier(strategy="prior"), DummyRegressor()


def sample(n, rng, low=0.2, high=0.8):
    """P4's classifier A with a score that depends on X, abstaining at random."""
    x = rng.random((n, 2))
    r = rng.random(n) < np.where(np.abs(x.sum(axis=1) - 1) < 0.2, high, low)
    s = (rng.random(n) < 0.5 + 0.3 * x[:, 0]).astype(float)
    return x, s, r


def cells(n, rng):
    """Discrete X of which the missing scores depend; the truth is 0.5."""
    x = rng.integers(4, size=n)
    mean, pi = np.array([0.2, 0.4, 0.6, 0.8]), np.array([0.1, 0.3, 0.5, 0.8])
    r = rng.random(n) < pi[x]
    return x[:, None].astype(float), (rng.random(n) < mean[x]).astype(float), r


def random_nuisances(rng, n=50):
    return Nuisances(rng.random(n) < 0.4, rng.normal(size=n), rng.random(n), rng.normal(size=n))


def same(a, b):
    """Equal to the last bit."""
    fields = ("value", "stderr", "interval", "p_value", "level", "clip")
    for first, second in zip(a.nuisances, b.nuisances, strict=True):
        for name in ("abstained", "scores", "propensity", "outcome"):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    np.testing.assert_array_equal(a.influence, b.influence)
    assert [getattr(a, f) for f in fields] == [getattr(b, f) for f in fields]
    assert str(a.diagnostics) == str(b.diagnostics)


# ---------------------------------------------------------------- scores at abstentions


class Untouchable:
    """Whatever is done with it fails."""

    def _fail(self, *_):
        raise AssertionError("read a score where the classifier abstained")

    __float__ = __int__ = __index__ = __complex__ = __bool__ = __str__ = __repr__ = _fail
    __eq__ = __ne__ = __lt__ = __gt__ = __add__ = __mul__ = __sub__ = __abs__ = _fail
    __hash__ = None


def poisoned(scores, abstained, poison):
    values = scores.astype(object if not isinstance(poison, float) else float)
    values[abstained] = [poison] * int(abstained.sum())
    return values


@pytest.mark.parametrize(
    ("learner", "estimator"),
    [*(("linear", e) for e in ESTIMATORS), ("forest", "dr"), ("super", "dr")],
)
def test_scores_at_abstentions_are_not_read(learner, estimator):
    x, s, r = sample(60, np.random.default_rng(0))
    t, q = 1 - s, np.random.default_rng(1).random(60) < 0.3
    options = {"learner": learner, "estimator": estimator, "rng": 3}
    one = counterfactual_score(x, s, r, **options)
    two = counterfactual_difference(x, s, r, t, q, **options)
    for poison in (math.nan, math.inf, 1e300, None, Untouchable()):
        same(one, counterfactual_score(x, poisoned(s, r, poison), r, **options))
        if learner != "super":
            a, b = poisoned(s, r, poison), poisoned(t, q, poison)
            same(two, counterfactual_difference(x, a, r, b, q, **options))


def test_scores_at_abstentions_are_not_read_from_other_containers():
    x, s, r = sample(60, np.random.default_rng(0))
    one = counterfactual_score(x, s, r, learner="linear", rng=3)
    masked = np.ma.array(poisoned(s, r, math.nan), mask=r)
    with pytest.raises(ValueError, match=r"scores must .*masked"):
        counterfactual_score(x, masked, r, learner="linear", rng=3)
    held = (masked.filled(math.nan), *(poisoned(s, r, v).tolist() for v in (math.nan, None)))
    for values in held:
        same(one, counterfactual_score(x, values, r, learner="linear", rng=3))
    with np.errstate(all="raise"):
        same(one, counterfactual_score(x, poisoned(s, r, math.inf), r, learner="linear", rng=3))


def test_the_caller_keeps_his_arrays():
    x, s, r = sample(60, np.random.default_rng(0))
    s = poisoned(s, r, math.nan)
    for array in (x, s, r):
        array.setflags(write=False)
    estimate = counterfactual_score(x, s, r, learner="linear", rng=3)
    assert not np.shares_memory(estimate.nuisances[0].scores, s)


# ---------------------------------------------------------------- by brute force


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("clip", [0.01, 0.2, 0.7, None])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_estimates_follow_the_paper(estimator, clip, level):
    rng = np.random.default_rng(5)
    a, b = random_nuisances(rng), random_nuisances(rng)
    used = 5 / (math.sqrt(50) * math.log(50)) if clip is None else clip
    used = min(0.2, used) if clip is None else used
    values = []
    for known in (a, b):
        row = []
        for r, s, pi, mu in zip(
            known.abstained, known.scores, known.propensity, known.outcome, strict=True
        ):
            weight = 0.0 if r else 1 / (1 - min(pi, 1 - used))
            row.append({"dr": mu + weight * (s - mu), "ipw": weight * s, "plug-in": mu}[estimator])
        values.append(np.array(row))
        np.testing.assert_allclose(influence_values(known, estimator, used), row, rtol=1e-12)
    for given, expected in ((a, values[0]), ((a,), values[0]), ((a, b), values[0] - values[1])):
        found = estimate_from_nuisances(given, estimator=estimator, clip=clip, level=level)
        mean = sum(expected) / 50
        stderr = math.sqrt(sum((v - mean) ** 2 for v in expected) / 50 / 50)
        squares = (expected - mean) ** 2
        degrees = min(2 * 50 * squares.mean() ** 2 / squares.var(), 49)
        half = stats.t.ppf(0.5 + level / 2, degrees) * stderr * math.sqrt(50 / 49)
        np.testing.assert_allclose(found.influence, expected, rtol=1e-12)
        assert found.value == pytest.approx(mean, rel=1e-12)
        assert found.stderr == pytest.approx(stderr, rel=1e-12)
        if estimator == "plug-in":  # the spread of predictions says nothing of their error
            assert np.isnan([*found.interval, found.p_value]).all()
        else:
            assert found.interval == pytest.approx((mean - half, mean + half), rel=1e-9)
            t = abs(mean) / stderr / math.sqrt(50 / 49)
            assert found.p_value == pytest.approx(2 * stats.t.sf(t, degrees), rel=1e-9)
        assert (found.clip, found.level, found.estimator) == (used, level, estimator)
        assert len(found.nuisances) == len(found.diagnostics) == (2 if given is not a else 1) or (
            given == (a,)
        )


def test_the_difference_has_the_difference_of_influence_values_on_the_same_folds():
    """Learners without chance: the two scores alone, from the same seed, give the difference."""
    x, s, r = sample(200, np.random.default_rng(0))
    _, t, q = sample(200, np.random.default_rng(1))
    options = {"learner": "linear", "clip": 0.1, "folds": 3, "rng": 8}
    for estimator in ESTIMATORS:
        both = counterfactual_difference(x, s, r, t, q, estimator=estimator, **options)
        a = counterfactual_score(x, s, r, estimator=estimator, **options)
        b = counterfactual_score(x, t, q, estimator=estimator, **options)
        np.testing.assert_array_equal(both.influence, a.influence - b.influence)
        assert both.value == pytest.approx(a.value - b.value)
        back = counterfactual_difference(x, t, q, s, r, estimator=estimator, **options)
        np.testing.assert_array_equal(back.influence, -both.influence)
        if estimator != "plug-in":
            assert back.p_value == pytest.approx(both.p_value)


def test_a_classifier_equals_itself():
    x, s, r = sample(200, np.random.default_rng(0))
    same_folds = counterfactual_difference(x, s, r, s, r, learner="linear", rng=0)
    assert (same_folds.value, same_folds.stderr, same_folds.p_value) == (0.0, 0.0, 1.0)
    assert not same_folds.influence.any()
    fold = fold_numbers(200, 2, 5)
    pair = [fit_nuisances(x, s, r, fold, "forest", rng=6) for _ in range(2)]
    again = estimate_from_nuisances(pair)
    assert (again.value, again.p_value) == (0.0, 1.0)
    # 200 equal answers of both do not say that all would be.
    assert again.interval[0] < -0.02 < 0.02 < again.interval[1]
    # Forests of their own chance differ.
    own = counterfactual_difference(x, s, r, s, r, learner="forest", rng=0)
    assert 0 < abs(own.value) < 4 * own.stderr


def test_estimate_from_nuisances_is_what_the_whole_gives():
    x, s, r = sample(200, np.random.default_rng(0))
    whole = counterfactual_score(x, s, r, learner="forest", clip=0.1, level=0.8, rng=0)
    same(whole, estimate_from_nuisances(whole.nuisances, clip=0.1, level=0.8))
    rng = np.random.default_rng(0)
    fold = fold_numbers(200, 2, rng)
    parts = fit_nuisances(x, s, r, fold, "forest", rng=rng)
    same(whole, estimate_from_nuisances(parts, clip=0.1, level=0.8))


# ---------------------------------------------------------------- known truths


@pytest.fixture(scope="module")
def biases():
    """Mean error and its standard error over repetitions, by learners that are right, estimator."""
    errors = {}
    for repetition in range(49):
        rng = np.random.default_rng(repetition)
        x, s, r = cells(1000, rng)
        fold = fold_numbers(1000, 2, rng)
        right = fit_nuisances(x, s, r, fold, RIGHT, rng=rng)
        wrong = fit_nuisances(x, s, r, fold, WRONG, rng=rng)
        for name, first, second in (
            ("both", right, right),
            ("propensity", right, wrong),
            ("outcome", wrong, right),
            ("none", wrong, wrong),
        ):
            mixed = Nuisances(r, right.scores, first.propensity, second.outcome)
            for estimator in ESTIMATORS:
                value = influence_values(mixed, estimator, default_clip(1000)).mean()
                errors.setdefault((name, estimator), []).append(value - 0.5)
    return {key: (np.mean(e), np.std(e) / 7) for key, e in errors.items()}


@pytest.mark.parametrize(
    ("right", "unbiased"),
    [
        ("both", {"dr", "ipw", "plug-in"}),
        ("propensity", {"dr", "ipw"}),
        ("outcome", {"dr", "plug-in"}),
        ("none", set()),
    ],
)
def test_double_robustness(biases, right, unbiased):
    for estimator in ESTIMATORS:
        bias, error = biases[right, estimator]
        if estimator in unbiased:
            assert abs(bias) < 4 * error, estimator
        else:
            assert abs(bias) > 10 * error, estimator
            assert abs(bias) > 0.05, estimator


def test_pairs_of_estimators_reach_both_nuisances():
    """The same by the public way in: one repetition large enough."""
    x, s, r = cells(20_000, np.random.default_rng(0))
    for pair in ((TREES[0], WRONG[1]), (WRONG[0], TREES[1])):
        found = counterfactual_score(x, s, r, learner=pair, rng=0)
        assert abs(found.value - 0.5) < 4 * found.stderr
    blind = counterfactual_score(x, s, r, learner=WRONG, rng=0)
    assert abs(blind.value - 0.5) > 10 * blind.stderr
    # A classifier as the outcome model gives the mean over its classes.
    tree = counterfactual_score(x, 3 * s - 1, r, learner=(TREES[0], TREES[0]), rng=0)
    assert abs(tree.value - 0.5) < 4 * tree.stderr
    outcome = counterfactual_score(x, 3 * s - 1, r, learner=TREES, rng=0)
    np.testing.assert_allclose(tree.influence, outcome.influence, atol=1e-9)


def binomial_tolerance(level, repetitions):
    return 3.5 * math.sqrt(level * (1 - level) / repetitions)


def test_coverage_of_the_difference():
    """Scores of the same points, so dependent: A's mean is 0.5, B's 0.4."""
    repetitions, covered, rejected = 400, 0, 0
    for repetition in range(repetitions):
        rng = np.random.default_rng(9000 + repetition)
        x, s, r = cells(400, rng)
        t = s * (rng.random(400) < 0.8)
        q = rng.random(400) < np.array([0.7, 0.2, 0.2, 0.6])[x[:, 0].astype(int)]
        fold = fold_numbers(400, 2, rng)
        pair = [fit_nuisances(x, a, b, fold, RIGHT, rng=rng) for a, b in ((s, r), (t, q))]
        estimate = estimate_from_nuisances(pair)
        covered += estimate.interval[0] <= 0.1 <= estimate.interval[1]
        rejected += estimate.p_value <= 0.05
        assert (estimate.p_value <= 0.05) == (not estimate.interval[0] < 0 < estimate.interval[1])
    assert abs(covered / repetitions - 0.95) < binomial_tolerance(0.95, repetitions)
    assert rejected / repetitions > 0.3


# ---------------------------------------------------------------- folds and repeats


@pytest.mark.parametrize("folds", [2, 3, 5])
def test_nuisances_are_those_of_models_fitted_outside_the_fold(folds):
    x, s, r = sample(101, np.random.default_rng(0))
    found = counterfactual_score(
        x, s, r, learner=(LogisticRegression(), LinearRegression()), folds=folds, rng=4
    ).nuisances[0]
    fold = fold_numbers(101, folds, 4)
    for number in range(folds):
        inside, outside = fold == number, fold != number
        first = LogisticRegression().fit(x[outside], r[outside])
        second = LinearRegression().fit(x[outside & ~r], s[outside & ~r])
        np.testing.assert_array_equal(
            found.propensity[inside], first.predict_proba(x[inside])[:, 1]
        )
        np.testing.assert_array_equal(found.outcome[inside], second.predict(x[inside]))


@pytest.mark.parametrize("folds", [2, 5])
def test_no_model_sees_the_point_that_it_predicts(folds):
    """A memory of the training points would be perfect, on labels that are pure noise."""
    rng = np.random.default_rng(0)
    n = 2000
    x, s, r = rng.random((n, 2)), rng.normal(size=n), rng.random(n) < 0.5
    memory = KNeighborsClassifier(1), KNeighborsRegressor(1)
    known = counterfactual_score(x, s, r, learner=memory, folds=folds, clip=0.2, rng=0).nuisances[0]
    assert abs(np.corrcoef(known.propensity, r)[0, 1]) < 4 / math.sqrt(n)
    assert abs(np.corrcoef(known.outcome[~r], s[~r])[0, 1]) < 4 / math.sqrt(n / 2)
    inside = KNeighborsRegressor(1).fit(x[~r], s[~r]).predict(x[~r])
    assert np.corrcoef(inside, s[~r])[0, 1] == pytest.approx(1)


@pytest.mark.parametrize("repeats", [1, 3, 5])
def test_repeats_by_hand(repeats):
    """Chernozhukov et al. 2018, Definition 3.3, with variances of the estimates."""
    x, s, r = sample(80, np.random.default_rng(0))
    rng = np.random.default_rng(7)
    singles = [counterfactual_score(x, s, r, learner="linear", rng=rng) for _ in range(repeats)]
    found = counterfactual_score(x, s, r, learner="linear", repeats=repeats, rng=7)
    median = np.median([e.value for e in singles])
    variance = np.median([e.stderr**2 + (e.value - median) ** 2 for e in singles])
    assert found.value == median
    assert found.stderr == pytest.approx(math.sqrt(variance), rel=1e-12)
    chosen = next(e for e in singles if e.value == median)
    half = stats.norm.ppf(0.975) * math.sqrt(max(found.stderr**2 - chosen.stderr**2, 0))
    for k, end in enumerate(found.interval):
        assert abs(end - median) == pytest.approx(math.hypot(chosen.interval[k] - median, half))
    assert found.p_value < 1e-9  # by a bound: larger than the normal one
    np.testing.assert_array_equal(found.influence, chosen.influence)
    assert found.influence.mean() == pytest.approx(found.value)
    assert len({e.value for e in singles}) == repeats


# ---------------------------------------------------------------- chance


@pytest.mark.parametrize("learner", ["linear", "forest", "super"])
def test_same_seed_same_result_and_no_global_state(learner):
    x, s, r = sample(60, np.random.default_rng(0))
    before = np.random.get_state()  # noqa: NPY002
    first = counterfactual_score(x, s, r, learner=learner, rng=1)
    np.random.seed(5)  # noqa: NPY002
    same(first, counterfactual_score(x, s, r, learner=learner, rng=1))
    same(first, counterfactual_score(x, s, r, learner=learner, rng=np.random.default_rng(1)))
    np.random.set_state(before)  # noqa: NPY002
    counterfactual_score(x, s, r, learner=learner, rng=1)
    for a, b in zip(before, np.random.get_state(), strict=True):  # noqa: NPY002
        np.testing.assert_array_equal(a, b)
    assert counterfactual_score(x, s, r, learner=learner, rng=2).value != first.value


# ---------------------------------------------------------------- nobody, everyone, constants


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("repeats", [1, 3])
def test_who_never_abstains_gets_the_plain_interval(estimator, repeats):
    x, s, _ = sample(50, np.random.default_rng(0))
    never = np.zeros(50, bool)
    found = counterfactual_score(x, s, never, estimator=estimator, repeats=repeats, rng=0)
    assert found.value == pytest.approx(s.mean())
    assert found.stderr == pytest.approx(s.std() / math.sqrt(50))
    np.testing.assert_array_equal(found.influence, s)
    assert "never abstained" in " ".join(found.diagnostics[0].notes)
    assert "plain interval" in " ".join(found.diagnostics[0].notes)
    assert (found.diagnostics[0].coverage, found.diagnostics[0].overlap) == (1.0, 1.0)
    assert found.diagnostics[0].effective_sample_size == pytest.approx(50)


def test_only_one_of_two_never_abstains():
    x, s, r = sample(200, np.random.default_rng(0))
    _, t, _ = sample(200, np.random.default_rng(1))
    never = np.zeros(200, bool)
    found = counterfactual_difference(x, t, never, s, r, learner="linear", rng=0)
    other = counterfactual_score(x, s, r, learner="linear", rng=0)
    np.testing.assert_array_equal(found.influence, t - other.influence)
    assert "never abstained" in " ".join(found.diagnostics[0].notes)
    assert not found.diagnostics[1].notes
    mirrored = counterfactual_difference(x, s, r, t, never, learner="linear", rng=0)
    np.testing.assert_array_equal(mirrored.influence, -found.influence)
    both = counterfactual_difference(x, s, never, t, never, rng=0)
    assert both.value == pytest.approx((s - t).mean())
    assert both.stderr == pytest.approx((s - t).std() / math.sqrt(200))


@pytest.mark.parametrize("learner", ["linear", "forest", "super", "classifiers"])
@pytest.mark.parametrize("value", [0.0, 0.7])
def test_constant_scores(learner, value):
    x, _, r = sample(80, np.random.default_rng(0))
    pair = LogisticRegression(), LogisticRegression()
    found = counterfactual_score(
        x,
        np.where(r, np.nan, value),
        r,
        learner=pair if learner == "classifiers" else learner,
        rng=0,
    )
    assert found.value == pytest.approx(value, abs=1e-6)
    assert found.stderr == pytest.approx(0, abs=1e-6)
    assert math.isnan(found.diagnostics[0].outcome_r2)


@pytest.mark.parametrize("learner", ["linear", "forest", "super"])
def test_few_points(learner):
    rng = np.random.default_rng(0)
    for n in (2, 3, 4, 5, 7):
        for _ in range(5 if learner != "super" else 2):
            x, s, r = rng.random((n, 2)), rng.random(n), rng.random(n) < 0.3
            with warnings.catch_warnings():
                # Abstention that a handful of points explains does look deterministic.
                warnings.simplefilter("ignore", PositivityWarning)
                try:
                    found = counterfactual_score(x, s, r, learner=learner, rng=0)
                except ValueError as error:
                    assert str(error).startswith("abstained must be False")  # noqa: PT017
                    continue
            assert np.isfinite([found.value, found.stderr, found.p_value]).all()
    with pytest.raises(ValueError, match=r"^folds must be at most the number of points, 1, got 2"):
        counterfactual_score([[1.0]], [1.0], [False], learner=learner, rng=0)


@pytest.mark.parametrize("learner", ["linear", "forest"])
def test_only_one_fold(learner):
    """The others are learned from alone: whatever is known of the fold, it changes nothing."""
    x, s, r = sample(200, np.random.default_rng(0))
    fold = fold_numbers(200, 3, 5)
    inside = fold == 0
    whole = fit_nuisances(x, s, r, fold, learner, rng=3)
    one = fit_nuisances(x, s, r, fold, learner, rng=3, only=0)
    changed = fit_nuisances(x, np.where(inside, -7, s), r & ~inside, fold, learner, rng=3, only=0)
    for name in ("propensity", "outcome"):
        found = getattr(one, name)
        np.testing.assert_array_equal(np.isnan(found), ~inside)
        # The first fold is the first to be fitted: the learners' chance is the same.
        np.testing.assert_array_equal(found[inside], getattr(whole, name)[inside])
        np.testing.assert_array_equal(found, getattr(changed, name))
        assert np.isfinite(getattr(whole, name)).all()
    np.testing.assert_array_equal(one.abstained, whole.abstained)
    np.testing.assert_array_equal(one.scores, whole.scores)
    last = fit_nuisances(x, s, r, fold, learner, rng=3, only=2)
    np.testing.assert_array_equal(np.isnan(last.outcome), fold != 2)


@pytest.mark.parametrize("learner", ["linear", "forest", "super"])
def test_features_that_say_nothing(learner):
    """A constant column, or all of them, or more columns than points."""
    rng = np.random.default_rng(0)
    _, s, r = sample(60, rng)
    for x in (np.ones((60, 1)), np.zeros((60, 3)), rng.random((60, 80)), np.ones((60, 1)) * 1e9):
        found = counterfactual_score(x, s, r, learner=learner, rng=0)
        assert np.isfinite([found.value, found.stderr, *found.influence]).all()
        assert found.stderr > 0


# ---------------------------------------------------------------- what is refused


X, S, R = sample(40, np.random.default_rng(0))
NAN_S = np.where(R, 0.0, S)
NAN_S[np.flatnonzero(~R)[1]] = np.nan


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5])
def test_a_level_is_below_one(level):
    x, s, r = sample(40, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"^level must be .* got"):
        counterfactual_score(x, s, r, learner="linear", level=level, rng=0)


@pytest.mark.parametrize("clip", [0.0, 1.0, 1.5])
def test_a_clip_is_below_one(clip):
    x, s, r = sample(40, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"^clip must be .* got"):
        counterfactual_score(x, s, r, learner="linear", clip=clip, rng=0)
    known = Nuisances(r, s, np.full(40, 0.5), s)
    with pytest.raises(ValueError, match=r"^clip must be .* got"):
        estimate_from_nuisances(known, clip=clip)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"outcome": S[:39]}, r"^outcome must"), ({"propensity": S[:39]}, r"^propensity must")],
)
def test_nuisances_of_other_lengths_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Nuisances(**({"abstained": R, "scores": S, "propensity": R, "outcome": S} | change))


def test_nuisances_are_read_whatever_holds_them_and_propensities_are_probabilities():
    """Log-odds gave .376 for .495 without a word; flags as integers other weights."""
    plain = Nuisances(R, S, np.full(40, 0.25), S)
    index = np.random.default_rng(0).permutation(40)
    held = [pd.Series(part, index=index) for part in (R.astype(int), S, plain.propensity, S)]
    expected = clipping_sensitivity(estimate_from_nuisances(plain), [0.1])
    found = clipping_sensitivity(estimate_from_nuisances(Nuisances(*held)), [0.1])
    assert found.equals(expected)
    for wrong in (-1.5, 25.0):
        with pytest.raises(ValueError, match=r"^propensity must be probabilities .* got"):
            Nuisances(R, S, np.full(40, wrong), S)


@pytest.mark.parametrize(
    ("n", "message"), [(0, r"^n must"), (1, r"^folds must be at most the number of points, 1")]
)
def test_folds_need_points(n, message):
    with pytest.raises(ValueError, match=message):
        fold_numbers(n, 2, rng=0)


def test_abstentions_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"^abstained must .*39"):
        fit_nuisances(X, S[:39], R[:39], np.arange(40) % 2, "linear", rng=0)


def test_weights_that_would_be_infinite_are_counted():
    """Of three points with a propensity of 1, the two that were answered."""
    abstained = np.array([True, False, False, False])
    known = Nuisances(abstained, np.ones(4), np.array([1.0, 1.0, 1.0, 0.5]), np.ones(4))
    with pytest.raises(ValueError, match=r"points that were answered, 2 of them$"):
        influence_values(known, clip=0.0)


@pytest.mark.parametrize("name", ["scores_a", "abstained_a", "scores_b", "abstained_b"])
def test_the_difference_names_whose_input_is_bad(name):
    given = {"scores_a": S, "abstained_a": R, "scores_b": S, "abstained_b": R}
    bad = np.ones(40, bool) if name.startswith("abstained") else NAN_S
    with pytest.raises(ValueError, match=f"^{name} must be"):
        counterfactual_difference(X, **(given | {name: bad}), learner="linear", rng=0)
    with pytest.raises(ValueError, match=f"^{name} must be"):
        counterfactual_difference(X, **(given | {name: S[:5]}), learner="linear", rng=0)


def test_no_work_is_done_before_a_complaint():
    class Never(DummyClassifier):
        def fit(self, X, y):
            raise AssertionError("fitted")

    pair = Never(), DummyRegressor()
    with pytest.raises(ValueError, match=r"^scores_b"):
        counterfactual_difference(X, S, R, NAN_S, R, learner=pair, rng=0)
    for name, value in (("level", 1.5), ("clip", 1.5), ("repeats", -1), ("folds", 1)):
        with pytest.raises(ValueError, match=f"^{name} must"):
            counterfactual_difference(X, S, R, S, R, learner=pair, rng=0, **{name: value})


# ---------------------------------------------------------------- diagnostics


@pytest.mark.parametrize("learner", ["forest", "linear"])
def test_a_deterministic_rule_is_warned_of(learner):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = rng.random((600, 2))
        s = rng.random(600)
        with pytest.warns(PositivityWarning, match=r"^abstained: .*positivity fails") as seen:
            found = counterfactual_score(x, s, x[:, 0] > 0.5, learner=learner, rng=seed)
        assert seen[0].filename == __file__
        assert len(seen) == 1
        assert "cannot be known" in found.diagnostics[0].positivity[0]


def test_the_warning_names_the_classifier():
    x, s, r = sample(600, np.random.default_rng(0))
    rule = x[:, 0] > 0.5
    with pytest.warns(PositivityWarning, match=r"^abstained_b: ") as seen:
        found = counterfactual_difference(x, s, r, s, rule, learner="forest", rng=0)
    assert len(seen) == 1
    assert seen[0].filename == __file__
    assert [bool(d.positivity) for d in found.diagnostics] == [False, True]


@pytest.mark.parametrize("learner", ["forest", "linear"])
def test_no_warning_without_cause(learner):
    """Warnings are errors here."""
    for seed in range(20):
        x, s, r = sample(600, np.random.default_rng(1000 + seed))
        found = counterfactual_score(x, s, r, learner=learner, rng=seed)
        assert not found.diagnostics[0].positivity


def test_students_interval_has_the_degrees_of_the_influence_values():
    """Normal values have about n - 1, heavy ones few."""
    rng, n = np.random.default_rng(2), 20_000
    no = np.zeros(n, bool)
    for s, degrees in ((rng.normal(size=n), n - 1), (rng.random(n) < 0.002, 2 * n * 0.002)):
        s = 1.5 * s
        found = estimate_from_nuisances(Nuisances(no, s, np.zeros(n), s))
        kurtosis = stats.kurtosis(s, fisher=False)
        assert found.degrees == pytest.approx(min(2 * n / (kurtosis - 1), n - 1))
        error = found.stderr * math.sqrt(n / (n - 1))
        half = stats.t.isf(0.025, found.degrees) * error
        assert found.interval == pytest.approx((found.value - half, found.value + half))
        p_value = 2 * stats.t.sf(abs(found.value) / error, found.degrees)
        assert found.p_value == pytest.approx(p_value)
        assert found.degrees == pytest.approx(degrees, rel=0.3)
        again = clipping_sensitivity(found, [0.1])
        assert again.loc[0, ["low", "high"]].tolist() == pytest.approx(found.interval)

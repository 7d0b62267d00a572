"""Estimates by brute force and on known truths."""

import math
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from lib.counterfactual import (
    ESTIMATORS,
    Nuisances,
    PositivityWarning,
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


def same(a, b):
    """Equal to the last bit."""
    for first, second in zip(a.nuisances, b.nuisances, strict=True):
        for name, values in vars(first).items():
            np.testing.assert_array_equal(values, getattr(second, name))
    np.testing.assert_array_equal(a.influence, b.influence)
    for name in ("value", "stderr", "interval", "p_value", "level", "clip"):
        np.testing.assert_equal(getattr(a, name), getattr(b, name))
    assert str(a.diagnostics) == str(b.diagnostics)


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
    values.setflags(write=False)  # the caller keeps his arrays
    return values


@pytest.mark.parametrize(
    ("learner", "estimator"), [*(("linear", e) for e in ESTIMATORS), ("forest", "dr")]
)
def test_scores_at_abstentions_are_not_read(learner, estimator):
    x, s, r = sample(60, np.random.default_rng(0))
    t, q = 1 - s, np.random.default_rng(1).random(60) < 0.3
    options = {"learner": learner, "estimator": estimator, "rng": 3}
    one = counterfactual_score(x, s, r, **options)
    two = counterfactual_difference(x, s, r, t, q, **options)
    for poison in (math.nan, math.inf, 1e300, None, Untouchable()):
        held = poisoned(s, r, poison)
        same(one, counterfactual_score(x, held, r, **options))
        same(two, counterfactual_difference(x, held, r, poisoned(t, q, poison), q, **options))
    same(one, counterfactual_score(x, held.tolist(), r, **options))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("clip", [0.01, 0.2, 0.7, None])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_estimates_follow_the_paper(estimator, clip, level):
    rng, n = np.random.default_rng(5), 50
    pair = [
        Nuisances(rng.random(n) < 0.4, rng.normal(size=n), rng.random(n), rng.normal(size=n))
        for _ in "ab"
    ]
    used = 5 / (math.sqrt(n) * math.log(n)) if clip is None else clip
    values = []
    for known in pair:
        row = []
        for r, s, pi, mu in zip(*vars(known).values(), strict=True):
            weight = 0.0 if r else 1 / (1 - min(pi, 1 - used))
            row.append({"dr": mu + weight * (s - mu), "ipw": weight * s, "plug-in": mu}[estimator])
        values.append(np.array(row))
        np.testing.assert_allclose(influence_values(known, estimator, used), row, rtol=1e-12)
    for given, expected in ((pair[0], values[0]), (pair, values[0] - values[1])):
        found = estimate_from_nuisances(given, estimator=estimator, clip=clip, level=level)
        np.testing.assert_allclose(found.influence, expected, rtol=1e-12)
        mean, squares = expected.mean(), (expected - expected.mean()) ** 2
        stderr = math.sqrt(squares.mean() / n)
        assert (found.value, found.stderr) == pytest.approx((mean, stderr), rel=1e-12)
        if estimator == "plug-in":  # the spread of predictions says nothing of their error
            assert np.isnan([*found.interval, found.p_value]).all()
            continue
        degrees = min(2 * n * squares.mean() ** 2 / squares.var(), n - 1)
        error = stderr * math.sqrt(n / (n - 1))
        half = stats.t.ppf(0.5 + level / 2, degrees) * error
        assert found.interval == pytest.approx((mean - half, mean + half), rel=1e-9)
        p_value = 2 * stats.t.sf(abs(mean) / error, degrees)
        assert found.p_value == pytest.approx(p_value, rel=1e-9)


def test_influence_values_by_hand():
    """Unclipped by default; where it abstained a propensity of 1 is no matter, elsewhere it is."""
    r, s = np.array([True, False, False, False]), np.array([0.0, 1.0, 2.0, 4.0])
    outcome = np.array([3.0, 4, 5, 6])
    known = Nuisances(r, s, np.array([1.0, 0.5, 0.9, 0.0]), outcome)
    assert influence_values(known, "ipw") == pytest.approx([0.0, 2.0, 20.0, 4.0])
    assert influence_values(known, "ipw", 0.25) == pytest.approx([0.0, 2.0, 8.0, 4.0])
    assert influence_values(known, clip=0.25) == pytest.approx([3.0, -2.0, -7.0, 4.0])
    never = Nuisances(np.zeros(4, bool), s, np.full(4, 0.5), outcome)
    for estimator in ESTIMATORS:
        values = influence_values(never, estimator, 0.1)
        assert values.tolist() == s.tolist()
        assert not np.shares_memory(values, never.scores)
    assert not np.shares_memory(influence_values(known, "plug-in"), known.outcome)


def test_clips_and_folds_by_their_formulas():
    for n in (2, 30, 31, 32, 33, 40, 1000):
        assert default_clip(n) == pytest.approx(min(0.2, 5 / (math.sqrt(n) * math.log(n))))
    assert default_clip(1) == 0.2
    shuffled = np.random.default_rng(5).permutation([0, 1, 2, 0, 1, 2, 0])
    assert fold_numbers(7, 3, 5).tolist() == shuffled.tolist()
    assert sorted(fold_numbers(3, 3, 0)) == [0, 1, 2]


def test_equal_values_do_not_say_that_all_are_equal():
    half, r = np.full(3, 0.5), np.array([True, False, False])
    still = Nuisances(r, np.zeros(3), half, np.zeros(3))
    found = estimate_from_nuisances(still)
    assert (found.value, found.stderr, found.p_value, found.interval[0]) == (0, 0, 1, 0)
    assert found.interval[1] > 0.9
    one = Nuisances(np.zeros(3, bool), half, np.zeros(3), half)
    found = estimate_from_nuisances(one)
    assert (found.value, found.stderr) == (0.5, 0)
    assert np.isnan([*found.interval, found.p_value]).all()
    found = estimate_from_nuisances(one, score_range=(0, 1))
    assert 0 < found.interval[0] < 0.2
    assert 0.8 < found.interval[1] < 1
    assert found.p_value == 0  # a score of 0.5 was seen, and none is below 0
    assert estimate_from_nuisances([one, still]).value == 0.5


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
    equal = counterfactual_difference(x, s, r, s, r, learner="linear", rng=0)
    assert (equal.value, equal.stderr, equal.p_value) == (0.0, 0.0, 1.0)
    # 200 equal answers of both do not say that all would be.
    assert equal.interval[0] < -0.02 < 0.02 < equal.interval[1]
    own = counterfactual_difference(x, s, r, s, r, learner="forest", rng=0)
    assert 0 < abs(own.value) < 4 * own.stderr  # forests of their own chance differ


def test_estimate_from_nuisances_is_what_the_whole_gives():
    x, s, r = sample(200, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    fold = fold_numbers(200, 2, rng)
    parts = fit_nuisances(x, s, r, fold, "forest", rng=rng)
    whole = counterfactual_score(x, s, r, learner="forest", clip=0.1, level=0.8, rng=0)
    same(whole, estimate_from_nuisances(parts, clip=0.1, level=0.8))


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
            assert abs(bias) > max(10 * error, 0.05), estimator


def test_the_bias_is_the_mean_product_of_both_errors():
    n, mean, pi = 400_000, np.array([0.2, 0.4, 0.6, 0.8]), np.array([0.1, 0.3, 0.5, 0.8])
    x, s, r = cells(n, np.random.default_rng(0))
    chance, outcome = np.array([0.3, 0.2, 0.3, 0.6]), np.array([0.5, 0.3, 0.9, 0.6])
    cell = x[:, 0].astype(int)
    values = influence_values(Nuisances(r, s, chance[cell], outcome[cell]))
    product = ((pi - chance) / (1 - chance) * (outcome - mean)).mean()
    error = values.std() / math.sqrt(n)
    assert abs(product) > 10 * error
    assert abs(values.mean() - 0.5 - product) < 4 * error


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


@pytest.mark.parametrize("repeats", [1, 5])
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
    assert "influence" not in repr(found)  # one number for each point
    np.testing.assert_array_equal(found.influence, chosen.influence)
    assert found.influence.mean() == pytest.approx(found.value)
    assert len({e.value for e in singles}) == repeats


@pytest.mark.parametrize("learner", ["linear", "forest", "super"])
def test_same_seed_same_result_and_no_global_state(learner):
    x, s, r = sample(60, np.random.default_rng(0))
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()  # noqa: NPY002
    first = counterfactual_score(x, s, r, learner=learner, rng=1)
    for a, b in zip(before, np.random.get_state(), strict=True):  # noqa: NPY002
        np.testing.assert_array_equal(a, b)
    np.random.seed(6)  # noqa: NPY002
    same(first, counterfactual_score(x, s, r, learner=learner, rng=np.random.default_rng(1)))
    assert counterfactual_score(x, s, r, learner=learner, rng=2).value != first.value


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("repeats", [1, 3])
def test_who_never_abstains_gets_the_plain_interval(estimator, repeats):
    x, s, _ = sample(50, np.random.default_rng(0))
    never = np.zeros(50, bool)
    found = counterfactual_score(x, s, never, estimator=estimator, repeats=repeats, rng=0)
    np.testing.assert_array_equal(found.influence, s)
    assert found.value == pytest.approx(s.mean())
    assert found.stderr == pytest.approx(s.std() / math.sqrt(50))
    (seen,) = found.diagnostics
    assert "never abstained" in " ".join(seen.notes)
    assert (seen.coverage, seen.overlap) == (1.0, 1.0)
    assert seen.effective_sample_size == pytest.approx(50)


def test_only_one_of_two_never_abstains():
    x, s, r = sample(200, np.random.default_rng(0))
    _, t, _ = sample(200, np.random.default_rng(1))
    never = np.zeros(200, bool)
    found = counterfactual_difference(x, t, never, s, r, learner="linear", rng=0)
    other = counterfactual_score(x, s, r, learner="linear", rng=0)
    np.testing.assert_array_equal(found.influence, t - other.influence)
    assert [bool(d.notes) for d in found.diagnostics] == [True, False]


@pytest.mark.parametrize("learner", ["linear", "forest", "super", (LogisticRegression(),) * 2])
@pytest.mark.parametrize("value", [0.0, 0.7])
def test_constant_scores(learner, value):
    x, _, r = sample(80, np.random.default_rng(0))
    found = counterfactual_score(x, np.where(r, np.nan, value), r, learner=learner, rng=0)
    assert (found.value, found.stderr) == pytest.approx((value, 0), abs=1e-6)
    assert math.isnan(found.diagnostics[0].outcome_r2)


@pytest.mark.parametrize("learner", ["linear", "forest", "super"])
def test_few_points(learner):
    rng = np.random.default_rng(0)
    for n in (2, 3, 4, 5, 7, 7):
        x, s, r = rng.random((n, 2)), rng.random(n), rng.random(n) < 0.3
        with warnings.catch_warnings():  # a handful of points does look deterministic
            warnings.simplefilter("ignore", PositivityWarning)
            try:
                found = counterfactual_score(x, s, r, learner=learner, rng=0)
            except ValueError as error:
                assert "abstained must" in str(error)  # noqa: PT017
                continue
        assert np.isfinite([found.value, found.stderr, found.p_value]).all()


class Line(RegressorMixin, BaseEstimator):
    """The line through the first two points."""

    def fit(self, x, y):
        self.slope_ = (y[1] - y[0]) / (x[1, 0] - x[0, 0])
        self.zero_ = y[0] - self.slope_ * x[0, 0]
        return self

    def predict(self, x):
        return self.zero_ + self.slope_ * x[:, 0]


@pytest.mark.parametrize(("outside", "learned"), [([6], False), ([6, 7], True)])
def test_two_points_of_a_kind_outside_a_fold_are_enough_for_a_model(outside, learned):
    x, fold = np.arange(12.0)[:, None], np.repeat([0, 1], 6)
    few = np.isin(np.arange(12), [0, 1, *outside])
    found = fit_nuisances(x, x[:, 0], few, fold, (LogisticRegression(), Line()), rng=0)
    inside = found.propensity[fold == 0]
    assert np.ptp(inside) > 0 if learned else inside.tolist() == [1 / 6] * 6
    found = fit_nuisances(x, x[:, 0], ~few, fold, (WRONG[0], Line()), rng=0)
    inside = found.outcome[fold == 0]
    assert np.ptp(inside) > 0 if learned else inside.tolist() == [6.0] * 6


class Backwards(DummyClassifier):
    """Classes in the other order."""

    def fit(self, X, y):
        super().fit(X, y)
        self.classes_, self.class_prior_ = self.classes_[::-1], self.class_prior_[::-1]
        return self


def test_the_column_of_abstention_is_found_by_its_class():
    x, s, r = sample(40, np.random.default_rng(3))
    fold = fold_numbers(40, 2, 0)
    found = fit_nuisances(x, s, r, fold, (Backwards(), DummyRegressor()), rng=0)
    for number in (0, 1):
        rest = fold != number
        assert found.propensity[~rest] == pytest.approx(r[rest].mean())
        assert found.outcome[~rest] == pytest.approx(s[rest & ~r].mean())


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


@pytest.mark.parametrize("learner", ["linear", "forest", "super"])
def test_features_that_say_nothing(learner):
    """A constant column, or all of them, or more columns than points."""
    rng = np.random.default_rng(0)
    _, s, r = sample(60, rng)
    for x in (np.ones((60, 1)), np.zeros((60, 3)), rng.random((60, 80)), np.ones((60, 1)) * 1e9):
        found = counterfactual_score(x, s, r, learner=learner, rng=0)
        assert np.isfinite([found.value, found.stderr, *found.influence]).all()
        assert found.stderr > 0


@pytest.mark.parametrize("learner", ["forest", "linear"])
def test_a_deterministic_rule_is_warned_of_by_the_name_of_the_classifier(learner):
    x, s, r = sample(600, np.random.default_rng(0))
    with pytest.warns(PositivityWarning, match=r"^abstained_b: ") as seen:
        found = counterfactual_difference(x, s, r, s, x[:, 0] > 0.5, learner=learner, rng=0)
    assert [(w.filename, len(seen)) for w in seen] == [(__file__, 1)]
    assert [bool(d.positivity) for d in found.diagnostics] == [False, True]
    for seed in range(8):  # warnings are errors: none without cause
        x, s, r = sample(600, np.random.default_rng(1000 + seed))
        counterfactual_score(x, s, r, learner=learner, rng=seed)

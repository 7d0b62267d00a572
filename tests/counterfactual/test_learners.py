"""Super learners: as good as scikit-learn's stack of the same four, out of sample, and faster."""

import warnings

import numpy as np
import pytest
from peer_learners import stack_classifier, stack_regressor
from scipy import special
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from lib.counterfactual import (
    ForestClassifier,
    ForestRegressor,
    SuperLearnerClassifier,
    SuperLearnerRegressor,
    learner_pair,
    learners,
)
from lib.counterfactual.learners import calibrated
from lib.studies.counterfactual.classifiers import simulate
from lib.studies.counterfactual.tables import oracle_nuisances


@pytest.mark.parametrize("power", [-600, 600])
def test_features_of_any_unit_are_standardised_alike(power):
    """Squares of these features are no numbers."""
    x = np.random.default_rng(0).normal(size=(50, 2))
    plain, found = (learners.Standard().fit_transform(v) for v in (x, np.ldexp(x, power)))
    assert np.array_equal(found, plain)


def test_predicts_as_well_as_scikit_learns_stack():
    """Mean squared distance of both nuisances of B, whose boundaries are curved, from the truth."""
    drawn, new = simulate(1200, rng=0), simulate(2000, rng=1)
    x, s, r = drawn.X, drawn.scores[1], drawn.abstained[1]
    told = oracle_nuisances(new)[1]
    some = slice(300)  # scikit-learn's classifier takes longest

    def risks(propensity, outcome):
        with warnings.catch_warnings():
            # scikit-learn advises against the probabilities that this stack is to have.
            warnings.simplefilter("ignore", FutureWarning)
            pi = propensity.fit(x[some], r[some]).predict_proba(new.X)[:, 1]
        mu = outcome.fit(x[~r], s[~r]).predict(new.X)
        return np.mean((pi - told.propensity) ** 2), np.mean((mu - told.outcome) ** 2)

    ours = risks(
        SuperLearnerClassifier(40, random_state=0), SuperLearnerRegressor(40, random_state=0)
    )
    theirs = risks(stack_classifier(0, 40), stack_regressor(0, 40))
    assert ours[0] < min(1.1 * theirs[0] + 0.001, 0.5 * told.propensity.var())
    assert ours[1] < min(1.1 * theirs[1] + 0.001, 0.8 * told.outcome.var())


class Level:
    """Takes the place of the model on top, and keeps what it is given."""

    def fit(self, level, target):
        self.level, self.target = level, target
        return self


@pytest.fixture
def on_top(monkeypatch):
    """The level-one data of the next super learner."""
    kept = Level()
    monkeypatch.setattr(learners, "LinearRegression", lambda: kept)
    plain = learners._logistic

    def logistic():
        model = plain()
        fit = model.fit

        def spied(x, y):
            if x.shape[1] == 4:
                kept.fit(x, y)
            return fit(x, y)

        model.fit = spied
        return model

    monkeypatch.setattr(learners, "_logistic", logistic)
    return kept


def test_level_one_data_by_brute_force(on_top):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(60, 2)), rng.random(60) < 0.4
    z = x[:, 0] + rng.normal(size=60)
    scaled = StandardScaler().fit_transform(x)
    gamma = 1 / 2  # of two features with variance 1
    for learner, target in ((SuperLearnerClassifier, y), (SuperLearnerRegressor, z)):
        classes = learner is SuperLearnerClassifier
        learner(5, random_state=9).fit(x, target)
        generator = np.random.default_rng(9)
        seed = int(generator.integers(2**31))
        near = []
        for i in range(60):
            distance = ((scaled - scaled[i]) ** 2).sum(axis=1)
            distance[i] = np.inf
            near.append(target[np.argsort(distance)[:5]].mean())
        np.testing.assert_allclose(on_top.level[:, 1], near)
        forest = (ForestClassifier if classes else ForestRegressor)(5, random_state=generator)
        np.testing.assert_array_equal(on_top.level[:, 3], forest.fit(x, target)._out_of_bag())
        folds = (StratifiedKFold if classes else KFold)(5, shuffle=True, random_state=seed)
        for rows, asked in folds.split(x, target):
            if classes:
                linear = LogisticRegression(solver="newton-cholesky")
                linear = linear.fit(scaled[rows], y[rows]).predict_proba(scaled[asked])[:, 1]
                machine = SVC(gamma=gamma).fit(scaled[rows], y[rows])
                machine = machine.decision_function(scaled[asked])
            else:
                linear = Ridge().fit(scaled[rows], z[rows]).predict(scaled[asked])
                machine = SVR(gamma=gamma).fit(scaled[rows], z[rows]).predict(scaled[asked])
            np.testing.assert_allclose(on_top.level[asked, 0], linear, atol=1e-6)
            np.testing.assert_allclose(on_top.level[asked, 2], machine, atol=1e-6)


@pytest.mark.parametrize("spread", [1.0, 50.0])
def test_kernel_machines_need_no_matrix_of_the_kernel(spread, monkeypatch):
    """Where that would be too large, the same machine is asked without it."""
    rng = np.random.default_rng(0)
    x, new = spread * rng.normal(size=(150, 3)), spread * rng.normal(size=(70, 3))
    y = x[:, 0] / spread + rng.normal(size=150)
    found = []
    for largest in (5000, 10):
        monkeypatch.setattr(learners, "_LARGEST_KERNEL", largest)
        first = SuperLearnerClassifier(10, random_state=0).fit(x, y > 0)
        second = SuperLearnerRegressor(10, random_state=0).fit(x, y)
        found.append([first.predict_proba(new)[:, 1], second.predict(new)])
    np.testing.assert_allclose(*found, atol=1e-5)


def test_names_give_pairs_and_others_are_cloned_and_seeded_where_open():
    rng = np.random.default_rng(0)
    kinds = [[type(e) for e in learner_pair(name, rng)] for name in ("forest", "super")]
    assert kinds == [
        [ForestClassifier, ForestRegressor],
        [SuperLearnerClassifier, SuperLearnerRegressor],
    ]
    linear = [list(e.named_steps) for e in learner_pair("linear", rng)]
    assert linear == [["standard", "logisticregression"], ["standard", "ridge"]]
    given = stack_classifier(None), RandomForestRegressor(random_state=3)
    pairs = [learner_pair(given, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert given[0].get_params()["forest__random_state"] is None
    assert {pair[1].random_state for pair in pairs} == {3}
    seeds = [
        [v for k, v in first.get_params().items() if k.endswith("random_state")]
        for first, _ in pairs
    ]
    assert seeds[0] == seeds[1] != seeds[2]
    assert None not in seeds[0]
    assert len(set(seeds[0])) == len(seeds[0]) >= 4


@pytest.mark.parametrize("learner", [SuperLearnerClassifier, SuperLearnerRegressor])
def test_as_an_estimator(learner):
    rng = np.random.default_rng(0)
    x, y = rng.random((60, 2)), rng.random(60)
    target = np.where(y > 0.5, "b", "a") if learner is SuperLearnerClassifier else y
    with pytest.raises(NotFittedError):
        learner().predict(x)
    assert set(learner().get_params()) == {"n_estimators", "random_state"}
    fitted = [clone(learner(10)).set_params(random_state=s).fit(x, target) for s in (1, 1, 2)]
    level = [model._level_one(x) for model in fitted]
    np.testing.assert_array_equal(level[0], level[1])
    assert (level[0] != level[2]).any()
    if learner is SuperLearnerClassifier:
        assert fitted[0].classes_.tolist() == ["a", "b"]
        probability = fitted[0].predict_proba(x)
        np.testing.assert_array_equal(fitted[0].predict(x) == "b", probability[:, 1] > 0.5)


def test_few_points_small_classes_and_duplicates():
    rng = np.random.default_rng(0)
    for n in (2, 3, 5, 6):
        model = SuperLearnerRegressor(10, random_state=0).fit(rng.random((n, 2)), rng.random(n))
        assert np.isfinite(model.predict(rng.random((9, 2)))).all()
    for n in (4, 5, 9):
        x, y = rng.random((n, 2)), np.arange(n) < 2
        for target in (y, ~y):
            p = SuperLearnerClassifier(10, random_state=0).fit(x, target).predict_proba(x)
            assert ((p >= 0) & (p <= 1)).all()
    x = np.repeat(rng.random((8, 2)), 10, axis=0)
    model = SuperLearnerRegressor(10).fit(x, np.tile([1.0, 0.0], 40))
    # A point is not its own neighbour, also if others are the same.
    index = model._neighbours.kneighbors(return_distance=False)
    assert not (index == np.arange(80)[:, None]).any()
    assert (x[index[:, 0]] == x).all()
    same = np.full((40, 1), 1e8)
    model = SuperLearnerClassifier(10, random_state=0).fit(same, np.arange(40) < 10)
    np.testing.assert_allclose(model.predict_proba(same)[:, 1], 0.25, atol=0.1)


@pytest.mark.parametrize("largest", [5000, 1])
def test_targets_that_hardly_vary(largest, monkeypatch):
    """No support vectors: the kernel machine is a constant."""
    monkeypatch.setattr(learners, "_LARGEST_KERNEL", largest)
    rng = np.random.default_rng(0)
    x, new = rng.random((50, 2)), rng.random((9, 2))
    constant = SuperLearnerRegressor(10, random_state=0).fit(x, np.full(50, 0.3))
    np.testing.assert_allclose(constant.predict(new), 0.3, atol=1e-9)
    slight = 0.3 + 0.05 * x[:, 0]
    model = SuperLearnerRegressor(10, random_state=0).fit(x, slight)
    assert len(model._svm.support_) == 0
    np.testing.assert_allclose(model.predict(new), 0.3 + 0.05 * new[:, 0], atol=0.01)


@pytest.mark.parametrize("noise", [0.0, 1e-15])
def test_propensities_are_calibrated_where_their_form_is_wrong(noise):
    """A step is, fitted by a logistic curve; the curve itself is kept."""
    rng = np.random.default_rng(5)
    x, fold = rng.normal(size=2000), np.arange(2000) % 5
    curve = special.expit(1.5 * x)
    kept = rng.random(2000) < curve
    assert calibrated(curve, kept, fold) is curve
    step = np.where(x > 0, 0.9, 0.1)
    r = rng.random(2000) < step
    better = calibrated(curve + noise * rng.normal(size=2000), r, fold)
    assert np.abs(better - step).mean() < 0.04 < 0.1 < np.abs(curve - step).mean()
    assert (np.diff(better[np.argsort(x)]) >= 0).all()
    assert better.max() == better[~r].max() < 1
    np.testing.assert_allclose(better, calibrated(curve, r, fold), atol=1e-12)

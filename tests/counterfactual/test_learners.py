"""Super learners: as good as scikit-learn's stack of the same four, out of sample, and faster."""

import warnings

import numpy as np
import pytest
from peer_learners import stack_classifier, stack_regressor
from scipy import special
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from lib.counterfactual import (
    LEARNERS,
    ForestClassifier,
    ForestRegressor,
    SuperLearnerClassifier,
    SuperLearnerRegressor,
    learner_pair,
    learners,
)
from lib.counterfactual.learners import calibrated


def experiment_1(n, rng):
    """P4's first simulation: X, and scores, abstentions and propensities of A and of B."""
    x = rng.random((n, 2))
    label = (x.sum(axis=1) >= 1) ^ (rng.random(n) < 0.15)
    near = (np.abs(x.sum(axis=1) - 1) < 0.2, np.abs((x**2).sum(axis=1) - 0.8) < 1.25 * 0.2)
    says = (x.sum(axis=1) - 1 > 0, np.clip(0.5 * (x**2).sum(axis=1) + 0.1, 0, 1) > 0.5)
    classifiers = []
    for close, answer in zip(near, says, strict=True):
        pi = np.where(close, 0.8, 0.2)
        right = (x.sum(axis=1) >= 1) == answer
        classifiers.append(
            ((answer == label).astype(float), rng.random(n) < pi, pi, np.where(right, 0.85, 0.15))
        )
    return x, classifiers


def test_predicts_as_well_as_scikit_learns_stack():
    """Mean squared distance of both nuisances of B, whose boundaries are curved, from the truth.

    Forests of 40 trees on both sides, to keep this short.
    """
    ours, theirs = np.zeros(2), np.zeros(2)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x, (_, (s, r, _, _)) = experiment_1(1200, rng)
        some = slice(300)  # scikit-learn's classifier takes longest
        new, (_, (_, _, pi, mu)) = experiment_1(2000, rng)
        first = SuperLearnerClassifier(40, random_state=seed).fit(x[some], r[some])
        second = SuperLearnerRegressor(40, random_state=seed).fit(x[~r], s[~r])
        ours[0] += np.mean((first.predict_proba(new)[:, 1] - pi) ** 2) / 2
        ours[1] += np.mean((second.predict(new) - mu) ** 2) / 2
        with warnings.catch_warnings():
            # scikit-learn advises against the probabilities that this stack is to have.
            warnings.simplefilter("ignore", FutureWarning)
            first = stack_classifier(seed, 40).fit(x[some], r[some])
        second = stack_regressor(seed, 40).fit(x[~r], s[~r])
        theirs[0] += np.mean((first.predict_proba(new)[:, 1] - pi) ** 2) / 2
        theirs[1] += np.mean((second.predict(new) - mu) ** 2) / 2
    print(f"risks: {ours} against {theirs}")
    assert (ours < 1.1 * theirs + 0.001).all()
    assert (ours < [0.5 * pi.var(), 0.8 * mu.var()]).all()


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


@pytest.mark.parametrize("balance", [0.5, 0.1])
def test_level_one_data_are_out_of_sample(on_top, balance):
    """On labels that are pure noise no column knows them, while each learner fits them somewhat."""
    rng = np.random.default_rng(0)
    correlations = []
    for seed in range(6):
        x, y = rng.random((400, 3)), rng.random(400) < balance
        for learner in (SuperLearnerClassifier, SuperLearnerRegressor):
            learner(30, random_state=seed).fit(x, y.astype(float))
            assert on_top.level.shape == (400, 4)
            np.testing.assert_array_equal(on_top.target, y)
            for k in range(4):
                correlations.append(np.corrcoef(on_top.level[:, k], y)[0, 1])
    correlations = np.array(correlations).reshape(6, 2, 4)
    # One correlation has a standard deviation of about 1 / 20.
    assert np.abs(correlations).max() < 4 / 20
    assert np.abs(correlations.mean(axis=0)).max() < 4 / 20 / np.sqrt(6) + 0.02
    inside = ForestRegressor(30, random_state=0).fit(x, y).predict(x)
    assert np.corrcoef(inside, y)[0, 1] > 0.8


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
def test_kernel_machines_are_scikit_learns(spread, monkeypatch):
    """From one kernel matrix, and without it where that would be too large."""
    rng = np.random.default_rng(0)
    x, new = spread * rng.normal(size=(150, 3)), spread * rng.normal(size=(70, 3))
    y = x[:, 0] / spread + rng.normal(size=150)
    gamma, scale = 1 / 3, StandardScaler().fit(x)  # of three features with variance 1
    seen, asked = scale.transform(x), scale.transform(new)
    columns = {}
    for largest in (5000, 10):
        monkeypatch.setattr(learners, "_LARGEST_KERNEL", largest)
        first = SuperLearnerClassifier(10, random_state=0).fit(x, y > 0)
        second = SuperLearnerRegressor(10, random_state=0).fit(x, y)
        assert (first._kernel is None) == (second._kernel is None) == (largest == 10)
        for model in (first, second):
            assert not hasattr(model._svm, "predict_proba")
            assert not isinstance(model._kernel, np.ndarray)
        machine = SVC(kernel="rbf", gamma=gamma).fit(seen, y > 0)
        values = first._machine_values(asked)
        np.testing.assert_allclose(values, machine.decision_function(asked), atol=1e-6)
        machine = SVR(kernel="rbf", gamma=gamma).fit(seen, y)
        values = second._machine_values(asked)
        np.testing.assert_allclose(values, machine.predict(asked), atol=1e-6)
        columns[largest] = (
            first.predict_proba(new)[:, 1],
            second.predict(new),
            first._level_one(new),
            second._level_one(new),
        )
    for with_matrix, without in zip(columns[5000], columns[10], strict=True):
        np.testing.assert_allclose(with_matrix, without, atol=1e-5)
    np.testing.assert_allclose(SVC(gamma="scale").fit(seen, y > 0)._gamma, gamma)


def test_columns_of_new_points():
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(100, 2)), rng.normal(size=(30, 2))
    y = x[:, 0] + rng.normal(size=100)
    model = SuperLearnerRegressor(10, random_state=0).fit(x, y)
    level = model._level_one(new)
    ridge = make_pipeline(StandardScaler(), Ridge()).fit(x, y)
    near = make_pipeline(StandardScaler(), KNeighborsRegressor()).fit(x, y)
    np.testing.assert_allclose(level[:, 0], ridge.predict(new))
    np.testing.assert_allclose(level[:, 1], near.predict(new))
    np.testing.assert_allclose(model._meta.predict(level), model.predict(new))
    model = SuperLearnerClassifier(10, random_state=0).fit(x, y > 0)
    near = make_pipeline(StandardScaler(), KNeighborsClassifier()).fit(x, y > 0)
    np.testing.assert_allclose(model._level_one(new)[:, 1], near.predict_proba(new)[:, 1])


# ---------------------------------------------------------------- pairs


def test_names():
    assert LEARNERS == ("linear", "forest", "super")
    kinds = [
        [type(e).__name__ for e in learner_pair(n, np.random.default_rng(0))] for n in LEARNERS
    ]
    assert kinds == [
        ["Pipeline", "Pipeline"],
        ["ForestClassifier", "ForestRegressor"],
        ["SuperLearnerClassifier", "SuperLearnerRegressor"],
    ]
    linear = learner_pair("linear", np.random.default_rng(0))
    assert [list(e.named_steps) for e in linear] == [
        ["standard", "logisticregression"],
        ["standard", "ridge"],
    ]
    forest = learner_pair("forest", np.random.default_rng(0))
    assert [e.n_estimators for e in forest] == [100, 100]


def test_pairs_are_cloned_and_seeded_where_open():
    given = (
        make_pipeline(StandardScaler(), RandomForestClassifier(7)),
        RandomForestRegressor(random_state=3),
    )
    first = learner_pair(given, np.random.default_rng(0))
    again = learner_pair(given, np.random.default_rng(0))
    other = learner_pair(given, np.random.default_rng(1))
    assert first[0] is not given[0]
    assert given[0][1].random_state is None
    assert first[0][1].n_estimators == 7
    assert first[1].random_state == 3
    seeds = [pair[0][1].random_state for pair in (first, again, other)]
    assert seeds[0] == seeds[1] != seeds[2]
    stack = stack_classifier(None)
    names = [k for k in stack.get_params() if k.endswith("random_state")]
    seeded, _ = learner_pair((stack, Ridge()), np.random.default_rng(0))
    values = [seeded.get_params()[name] for name in names]
    assert len(names) >= 4
    assert None not in values
    assert len(set(values)) == len(values)
    rng = np.random.default_rng(0)
    pairs = [learner_pair("super", rng) for _ in range(2)]
    assert len({e.random_state for pair in pairs for e in pair}) == 4


@pytest.mark.parametrize(
    ("learner", "error", "message"),
    [
        ("deep", ValueError, "learner must be one of 'linear', 'forest', 'super' or a pair"),
        (7, TypeError, "learner must be a name or a pair"),
        ((LogisticRegression(),), TypeError, "learner must be a name or a pair"),
        ((LogisticRegression, Ridge), TypeError, "learner must be a name or a pair"),
        ((Ridge(), Ridge()), TypeError, "learner must have a propensity estimator.*got Ridge"),
    ],
)
def test_pairs_that_are_none(learner, error, message):
    with pytest.raises(error, match=f"^{message}"):
        learner_pair(learner, np.random.default_rng(0))


# ---------------------------------------------------------------- little data, odd data


def test_as_an_estimator():
    rng = np.random.default_rng(0)
    x, y = rng.random((60, 2)), rng.random(60)
    for learner, target in (
        (SuperLearnerClassifier(10), np.where(y > 0.5, "b", "a")),
        (SuperLearnerRegressor(10), y),
    ):
        with pytest.raises(NotFittedError):
            learner.predict(x)
        assert set(learner.get_params()) == {"n_estimators", "random_state"}
        fitted = [clone(learner).set_params(random_state=s).fit(x, target) for s in (1, 1, 2)]
        level = [model._level_one(x) for model in fitted]
        np.testing.assert_array_equal(level[0], level[1])
        np.testing.assert_array_equal(fitted[0].predict(x), fitted[1].predict(x))
        assert (level[0] != level[2]).any()
        with pytest.raises(ValueError, match="X must have 2 columns"):
            fitted[0].predict(x[:, :1])
        with pytest.raises(ValueError, match="NaN"):
            clone(learner).fit(np.where(x > 0.9, np.nan, x), target)
    model = SuperLearnerClassifier(10, random_state=0).fit(x, np.where(y > 0.5, "b", "a"))
    assert model.classes_.tolist() == ["a", "b"]
    probability = model.predict_proba(x)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(x) == "b", probability[:, 1] > 0.5)


def test_small_classes():
    rng = np.random.default_rng(0)
    for n in (4, 5, 9, 60):
        x, y = rng.random((n, 2)), np.arange(n) < 2
        for target in (y, ~y):
            p = SuperLearnerClassifier(10, random_state=0).fit(x, target).predict_proba(x)
            assert np.isfinite(p).all()
            assert ((p >= 0) & (p <= 1)).all()
    for bad in (np.arange(60) < 1, np.zeros(60), np.arange(60) % 3):
        with pytest.raises(ValueError, match=r"^y must have two classes with at least two points"):
            SuperLearnerClassifier(10).fit(x, bad)


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


def test_few_points_and_duplicates():
    rng = np.random.default_rng(0)
    for n in (2, 3, 5, 6):
        model = SuperLearnerRegressor(10, random_state=0).fit(rng.random((n, 2)), rng.random(n))
        assert np.isfinite(model.predict(rng.random((9, 2)))).all()
    with pytest.raises(ValueError, match="minimum of 2"):
        SuperLearnerRegressor(10).fit([[1.0]], [1.0])
    x = np.repeat(rng.random((8, 2)), 10, axis=0)
    y = np.tile([True, False], 40)
    for model in (SuperLearnerClassifier(10, random_state=0), SuperLearnerRegressor(10)):
        assert np.isfinite(model.fit(x, y.astype(float)).predict(x)).all()
        # A point is not its own neighbour, also if others are the same.
        index = model._neighbours.kneighbors(return_distance=False)
        assert not (index == np.arange(80)[:, None]).any()
        assert (x[index[:, 0]] == x).all()
    for same in (np.ones((40, 2)), np.full((40, 1), 1e8)):
        model = SuperLearnerClassifier(10, random_state=0).fit(same, np.arange(40) < 10)
        np.testing.assert_allclose(model.predict_proba(same)[:, 1], 0.25, atol=0.1)


# ---------------------------------------------------------------- speed


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


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    ("scale", "shift"),
    [(1e-9, 0.0), (1e9, 0.0), (1e-150, 0.0), (1e150, 0.0), (1.0, 1e6), (1.0, 1e9), (1e-7, 1e3)],
)
def test_units_and_zeros_of_features_do_not_matter(learner, scale, shift):
    """Of one feature: the other is as it was.  What rounding takes from a shifted one is lost."""
    x, ((a, r, _, _), _) = experiment_1(200, np.random.default_rng(5))
    other = x * [scale, 1.0] + [shift, 0.0]
    found = []
    for points in (x, other):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            propensity, outcome = learner_pair(learner, np.random.default_rng(0))
            propensity.set_params(**small(propensity)).fit(points, r)
            outcome.set_params(**small(outcome)).fit(points[~r], a[~r])
        found.append([propensity.predict_proba(points)[:, 1], outcome.predict(points)])
    lost = np.spacing(shift) / scale
    # Machines stop within a thousandth of their best, and where may hang on the last bit.
    close = 5e-3 if learner == "super" and shift else 1e-6
    assert np.std(found[0][1]) > 0.03
    for first, second in zip(*found, strict=True):
        near = np.isclose(first, second, atol=close + 20 * lost)
        assert near.mean() >= (1.0 if lost < 1e-9 else 0.9)


def small(estimator):
    return {"n_estimators": 10} if "n_estimators" in estimator.get_params() else {}


def test_one_huge_column_of_noise_hides_nothing():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 2)) * [1.0, 1e6]
    y = x[:, 0] + 0.1 * rng.normal(size=300)
    model = SuperLearnerRegressor(10, random_state=0).fit(x, y)
    scaled = model._scaler.transform(x)
    for value in (model.predict(x), model._machine_values(scaled)):
        assert np.corrcoef(value, y)[0, 1] > 0.9

"""The forest: scikit-learn's in distribution, its invariants, and its speed."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError

from lib.counterfactual import ForestClassifier, ForestRegressor


def parts(forest):
    """Feature, left, right, value of each node, and the first node of each tree."""
    nodes, value, _, root = forest._trees
    leaf = np.isinf(nodes["threshold"])
    return (
        np.where(leaf, -1, nodes["feature"]),
        np.where(leaf, -1, nodes["left"]),
        np.where(leaf, -1, nodes["left"] + 1),
        np.where(leaf, value, nodes["threshold"]),
        root,
    )


def sample(kind, d, n=100):
    """Training points and targets, and points to predict."""
    rng = np.random.default_rng(d)
    x, new = rng.normal(size=(n, d)), rng.normal(size=(60, d))
    if kind == "ties":  # integers, a constant column, and rows that are there twice or more
        x, new = np.round(1.5 * x), np.round(1.5 * new)
        x[:, -1] = new[:, -1] = 3.0
        x[n // 2 :] = x[: n - n // 2]
    y = x[:, 0] * x[:, 1] + x[:, 0] + 0.5 * rng.normal(size=n)
    return x, y, new


def numbers_of_nodes(forest):
    if hasattr(forest, "estimators_"):
        return np.array([tree.tree_.node_count for tree in forest.estimators_])
    return np.diff(parts(forest)[4])


def features_of_roots(forest):
    if hasattr(forest, "estimators_"):
        return np.array([tree.tree_.feature[0] for tree in forest.estimators_])
    return parts(forest)[0][parts(forest)[4][:-1]]


@pytest.mark.parametrize(("kind", "d", "classes"), [("distinct", 10, False), ("ties", 10, True)])
def test_same_distribution_as_scikit_learn(kind, d, classes):
    """2000 trees of ours, 600 of theirs in two forests whose difference is the yardstick.

    The sizes of the trees and what they split first tell more than averages of predictions.
    """
    x, y, new = sample(kind, d)
    y = y > np.median(y) if classes else y
    ours, theirs = (
        (ForestClassifier, RandomForestClassifier)
        if classes
        else (ForestRegressor, RandomForestRegressor)
    )

    def predict(forest):
        return forest.predict_proba(new)[:, 1] if classes else forest.predict(new)

    mine = ours(2000, random_state=0).fit(x, y)
    pair = [theirs(300, random_state=seed).fit(x, y) for seed in (1, 2)]
    first, second = (predict(forest) for forest in pair)
    yardstick = np.abs(first - second).mean()
    difference = predict(mine) - (first + second) / 2
    # The yardstick is for 300 trees against 300, the difference for 2000 against 600.
    limit = 1.5 * yardstick * np.sqrt((1 / 2000 + 1 / 600) / (1 / 300 + 1 / 300))
    assert np.abs(difference).mean() <= limit
    assert abs(difference.mean()) <= limit
    sizes = numbers_of_nodes(mine), np.concatenate([numbers_of_nodes(f) for f in pair])
    error = np.hypot(sizes[0].std() / np.sqrt(2000), sizes[1].std() / np.sqrt(600))
    assert abs(sizes[0].mean() - sizes[1].mean()) < 4 * error
    assert sizes[0].std() == pytest.approx(sizes[1].std(), rel=0.1)
    roots = [
        np.bincount(f, minlength=d)
        for f in (features_of_roots(mine), np.concatenate([features_of_roots(f) for f in pair]))
    ]
    used = [f for f in range(d) if roots[0][f] + roots[1][f]]
    assert stats.chi2_contingency([roots[0][used], roots[1][used]]).pvalue > 1e-3


def test_trees_are_grown_until_leaves_are_pure():
    """So a tree gives the targets that it has seen, and out of bag those of others."""
    rng = np.random.default_rng(0)
    x, y = rng.random((500, 3)), rng.normal(size=500)
    for max_features in (1, "sqrt", 2, "all"):
        tree = ForestRegressor(1, max_features=max_features, random_state=1).fit(x, y)
        predicted = tree.predict(x)
        # A target that is in the bag several times may round in the mean.
        in_bag = np.isclose(predicted, y, rtol=1e-12, atol=0)
        # A point is in the bag with probability 1 - 1/e.
        assert abs(in_bag.mean() - (1 - 1 / np.e)) < 4 * np.sqrt(0.25 / 500)
        assert np.abs(predicted[:, None] - y).min(axis=1).max() < 1e-12
        np.testing.assert_array_equal(tree._out_of_bag()[~in_bag], predicted[~in_bag])
        np.testing.assert_array_equal(tree._out_of_bag()[in_bag], y.mean())


def test_out_of_bag_predictions_by_brute_force():
    """With the bags as they are drawn, and each tree asked by itself."""
    rng = np.random.default_rng(0)
    x, y = rng.random((60, 2)), rng.normal(size=60)
    forest = ForestRegressor(7, random_state=5).fit(x, y)
    feature, left, right, value, root = parts(forest)
    generator = np.random.default_rng(5)
    bags = [set(generator.integers(60, size=60)) for _ in range(7)]
    everything = np.zeros(60)
    for i in range(60):
        leaves = []
        for start in root[:-1]:
            node = start
            while feature[node] >= 0:
                node = (left if x[i, feature[node]] <= value[node] else right)[node]
            leaves.append(value[node])
        everything[i] = np.mean(leaves)
        unseen = [leaf for leaf, bag in zip(leaves, bags, strict=True) if i not in bag]
        expected = np.mean(unseen) if unseen else y.mean()
        assert forest._out_of_bag()[i] == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(forest.predict(x), everything, atol=1e-12)


def test_each_split_is_the_best_of_all():
    """By brute force over features and thresholds, at the root of a tree of all features."""
    rng = np.random.default_rng(0)
    for seed in range(20):
        x, y = rng.random((30, 3)), rng.normal(size=30)
        forest = ForestRegressor(1, random_state=seed).fit(x, y)
        bag = np.random.default_rng(seed).integers(30, size=30)
        a, b = x[bag], y[bag]
        best = min(
            (b[a[:, f] <= cut].var() * (a[:, f] <= cut).sum())
            + (b[a[:, f] > cut].var() * (a[:, f] > cut).sum())
            for f in range(3)
            for cut in np.unique(a[:, f])[:-1]
        )
        feature, threshold = parts(forest)[0][0], parts(forest)[3][0]
        goes = a[:, feature] <= threshold
        assert b[goes].var() * goes.sum() + b[~goes].var() * (~goes).sum() == pytest.approx(best)
        values = np.unique(a[:, feature])
        halfway = (values[1:] + values[:-1]) / 2
        assert np.abs(halfway - threshold).min() < 2e-9 * np.ptp(values)


def test_features_and_targets_that_do_not_vary():
    rng = np.random.default_rng(0)
    x, y = rng.random((50, 2)), rng.normal(size=50)
    flat = ForestRegressor(500, random_state=0).fit(np.ones((50, 3)), y)
    assert np.ptp(flat.predict(rng.random((9, 3)))) == 0
    assert flat.predict([[0.0, 0.0, 0.0]])[0] == pytest.approx(y.mean(), abs=0.05)
    assert set(features_of_roots(flat)) == {-1}
    # A column that says nothing is not used, however few are drawn.
    mixed = ForestRegressor(50, max_features=1, random_state=0)
    mixed.fit(np.column_stack([np.ones(50), x, np.zeros(50)]), y)
    assert set(parts(mixed)[0]) <= {-1, 1, 2}
    assert (features_of_roots(mixed) > 0).all()
    constant = ForestRegressor(10, random_state=0).fit(x, np.full(50, 0.1))
    np.testing.assert_allclose(constant.predict(x), 0.1, rtol=1e-12)
    np.testing.assert_allclose(constant._out_of_bag(), 0.1, rtol=1e-12)
    one = ForestRegressor(10, random_state=0).fit([[1.0, 2.0]], [7.0])
    assert one.predict([[5.0, 5.0]]) == one._out_of_bag() == [7.0]
    two = ForestClassifier(200, random_state=0).fit([[0.0], [1.0]], ["no", "yes"])
    # All of a bag of two is one point for half of the bags.
    assert two.predict_proba([[-1.0], [2.0]])[:, 1] == pytest.approx([0.25, 0.75], abs=0.1)
    assert two.predict([[-1.0], [2.0]]).tolist() == ["no", "yes"]
    huge = ForestRegressor(10, random_state=0).fit(x * 1e300 * 1.7, y)
    assert np.isfinite(huge.predict(x * 1e300 * 1.7)).all()


def test_values_that_differ_by_rounding_are_one():
    """0.1 + 0.2 and 0.3 are never parted, nor single precision from itself."""
    rng = np.random.default_rng(0)
    k = rng.integers(1, 9, 200)
    y = k % 2 + 0.1 * rng.normal(size=200)
    exact = (k / 10)[:, None]
    noisy = np.where(rng.random(200) < 0.5, 0.1 * k, 1 - (10 - k) / 10)[:, None]
    first = ForestRegressor(5, random_state=1).fit(exact, y)
    assert len(np.unique(first.predict(exact))) == 8
    np.testing.assert_allclose(
        ForestRegressor(5, random_state=1).fit(noisy, y).predict(noisy), first.predict(exact)
    )


@pytest.mark.parametrize("unit", [1.0, 0.3, 1e100])
def test_a_point_half_way_between_two_values_goes_left_in_any_unit(unit):
    """Rounding of the unit moves it to either side of the mean of the two."""
    x = np.repeat([1.0, 2.0], 20)[:, None]
    forest = ForestRegressor(n_estimators=5, random_state=0).fit(x * unit, x[:, 0])
    assert forest.predict(np.array([[1.0], [1.5], [2.0]]) * unit).tolist() == [1.0, 1.0, 2.0]


@pytest.mark.parametrize("names", [(False, True), ("a", "b"), (-3, 7)])
def test_classes_may_have_any_names(names):
    rng = np.random.default_rng(0)
    x, new = rng.random((80, 2)), rng.random((40, 2))
    label = x[:, 0] > 0.4
    plain = ForestClassifier(30, random_state=0).fit(x, label)
    named = ForestClassifier(30, random_state=0).fit(x, np.array(names)[label.astype(int)])
    assert named.classes_.tolist() == list(names)
    np.testing.assert_array_equal(named.predict_proba(new), plain.predict_proba(new))
    np.testing.assert_array_equal(named.predict(new) == names[1], plain.predict(new))
    np.testing.assert_array_equal(plain.predict(new), plain.predict_proba(new)[:, 1] > 0.5)
    assert plain.score(x, label) > 0.95


@pytest.mark.parametrize("kind", [ForestRegressor, ForestClassifier])
def test_as_an_estimator(kind):
    x, y, _ = sample("distinct", 2)
    y = y if kind is ForestRegressor else y > 0
    with pytest.raises(NotFittedError):
        kind().predict(x)
    assert kind().get_params() == {
        "n_estimators": 100,
        "max_features": "all" if kind is ForestRegressor else "sqrt",
        "random_state": None,
    }
    assert clone(kind(7)).n_estimators == 7
    fitted = [kind(9, random_state=s).fit(x, y) for s in (4, np.random.default_rng(4), 5)]
    first, again, other = (forest._out_of_bag() for forest in fitted)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()

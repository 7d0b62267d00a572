"""Random forests (Breiman, 2001) for the nuisance functions, an order faster than scikit-learn's.

Doubly robust estimation fits eight forests for one interval, and the simulations of the paper
hundreds of thousands, most on a thousand points.  There scikit-learn spends its time per tree and
not per split.  Here one compiled function grows all trees from feature orders that are sorted once,
and gives the out-of-bag predictions along with them.

The algorithm is scikit-learn's with its default settings: bootstrap samples, trees grown until
leaves are pure, the best split among randomly drawn features by the variance (for two classes that
is the Gini impurity), thresholds half way between values.  Only in one thing it differs: which
values of a feature are equal is a question of their rounding, not of an absolute 1e-7, so that a
forest is the same whatever the units of its features.
"""

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from numba import njit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from lib.check import Columns, as_array, as_integer, columns_of, matched, same_rows

Array = npt.NDArray[np.float64]
# Values of a feature that differ by less than this, relative to their size, differ by rounding and
# are not told apart: whatever the unit of the feature, and next to wherever its zero is.  Nor are
# splits that are as good as each other, whatever the unit of the target.
_SAME = 4e-15
# A split's threshold (not larger goes left), its feature, and its left child, which the right one
# follows.  A leaf has the threshold infinity and itself for a left child, so that one may go on
# from it without leaving it.
_NODE = np.dtype([("threshold", np.float64), ("feature", np.int32), ("left", np.int32)])
_BLOCK = 256  # points that go down a tree together


def as_points(X: Any) -> Any:
    """Points for scikit-learn, which checks them: tables keep their names, no value is masked."""
    return X if isinstance(X, pd.DataFrame) else as_array("X", X)


class Named:
    """Of estimators: the columns of later points are those of the fit, matched by name."""

    _columns: Columns

    def _pairs(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Points and their targets, for a fit."""
        same_rows(X=X, y=y)
        points = as_points(X)
        if isinstance(X, pd.DataFrame) or np.ndim(points) == 2:  # else scikit-learn refuses it
            self._columns = columns_of("X", points)
        return points, as_array("y", y)

    def _points(self, X: Any) -> Any:
        """Points, with the columns of the fit in their order."""
        check_is_fitted(self)
        return as_points(matched("X", X, self._columns))


class _Forest(Named, BaseEstimator):
    """What both forests share."""

    def __init__(
        self, n_estimators: int = 100, max_features: str | int = "all", *, random_state: Any = None
    ):
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.random_state = random_state

    def _grow(self, x: Array, y: Array) -> Self:
        n, d = x.shape
        drawn = {"sqrt": max(1, int(np.sqrt(d))), "all": d}.get(str(self.max_features))
        if drawn is None:
            drawn = self.max_features
            whole = isinstance(drawn, int | np.integer) and not isinstance(drawn, bool)
            if not whole or not 1 <= drawn <= d:
                raise ValueError(
                    f"max_features must be 'sqrt', 'all' or an integer from 1 to {d}, got {drawn!r}"
                )
        as_integer("n_estimators", self.n_estimators, 1)
        rng = np.random.default_rng(self.random_state)
        counts = np.empty((self.n_estimators, n), dtype=np.int32)
        for row in counts:
            row[:] = np.bincount(rng.integers(n, size=n), minlength=n)
        seeds = rng.integers(1, 2**63, size=self.n_estimators, dtype=np.uint64)
        order = np.ascontiguousarray(np.argsort(x, axis=0, kind="stable").T.astype(np.int32))
        self._trees = _grow_forest(x, y, order, counts, seeds, int(drawn))
        self._training = x, counts, float(y.mean())
        return self

    def _out_of_bag(self) -> Array:
        """Predictions of the training points by the trees that have not seen them."""
        x, counts, mean = self._training
        found = _predict_forest(x, *self._trees, counts)
        # A point that is in all bags, which takes few trees, gets the mean over them.
        found[(counts > 0).all(axis=0)] = mean
        return found

    def _mean(self, x: Any) -> Array:
        x = np.ascontiguousarray(
            validate_data(self, self._points(x), reset=False, dtype=np.float64)
        )
        return _predict_forest(x, *self._trees, np.empty((0, 0), np.int32))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_trees")


class ForestRegressor(RegressorMixin, _Forest):
    """Random forest for a real target, as scikit-learn's with its default settings.

    Parameters
    ----------
    n_estimators : int
        Trees.
    max_features : {"all", "sqrt"} or int
        Features that a split is chosen from.
    random_state : int or numpy.random.Generator, optional
        Of bootstrap samples and features.

    Examples
    --------
    >>> forest = ForestRegressor(n_estimators=20, random_state=0)
    >>> forest.fit(X[~r], a[~r]).predict(X[:3]).shape
    (3,)
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Grow the trees from points of shape (n, d) and targets of shape (n,)."""
        X, y = validate_data(self, *self._pairs(X, y), dtype=np.float64, y_numeric=True)
        return self._grow(np.ascontiguousarray(X), np.ascontiguousarray(y, dtype=np.float64))

    def predict(self, X: Any) -> Array:
        """Mean over the trees, shape (m,), for points of shape (m, d)."""
        return self._mean(X)


class ForestClassifier(ClassifierMixin, _Forest):
    """Random forest for two classes, as scikit-learn's with its default settings.

    Parameters
    ----------
    n_estimators, random_state
        As for :class:`ForestRegressor`.
    max_features : {"sqrt", "all"} or int
        Features that a split is chosen from.

    Attributes
    ----------
    classes_ : ndarray, shape (2,)
        The classes.

    Examples
    --------
    >>> forest = ForestClassifier(n_estimators=20, random_state=0).fit(X, r)
    >>> forest.predict_proba(X[:3]).shape
    (3, 2)
    """

    def __init__(
        self, n_estimators: int = 100, max_features: str | int = "sqrt", *, random_state: Any = None
    ):
        super().__init__(n_estimators, max_features, random_state=random_state)

    def fit(self, X: Any, y: Any) -> Self:
        """Grow the trees from points of shape (n, d) and two classes of shape (n,)."""
        X, y = validate_data(self, *self._pairs(X, y), dtype=np.float64)
        self.classes_, label = np.unique(y, return_inverse=True)
        if len(self.classes_) != 2:
            raise ValueError(f"y must have two classes, got {len(self.classes_)}")
        return self._grow(np.ascontiguousarray(X), label.astype(np.float64))

    def predict_proba(self, X: Any) -> Array:
        """Mean over the trees' fractions of the classes, shape (m, 2)."""
        second = self._mean(X)
        return np.column_stack([1 - second, second])

    def predict(self, X: Any) -> npt.NDArray:
        """The class of the larger fraction, shape (m,)."""
        second = self._mean(X)
        return self.classes_[(second > 0.5).astype(int)]


@njit(cache=True, nogil=True)
def _next(state):
    """One step of splitmix64: the new state and 64 random bits."""
    # Constants of Steele, Lea and Flood (2014): an odd number next to 2^64 over the golden ratio,
    # and two multipliers that mix well.
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def _apart(low, high):
    """Whether the second of two values is larger by more than rounding."""
    return high - low > _SAME * max(abs(low), abs(high))


@njit(cache=True, nogil=True)
def _grow_forest(x, y, order, counts, seeds, drawn):
    """Nodes of all trees one after the other."""
    n, d = x.shape
    n_trees = len(counts)
    # The points of a tree stand in one row for each feature, in that feature's order; a node is the
    # same slice of every row, and its children are the two parts of the slice:
    #
    #     at[0]:  | 4 7 1 | 0 2 | 5 3 6 ...     in the order of feature 0
    #     at[1]:  | 1 4 7 | 2 0 | 6 5 3 ...     in the order of feature 1
    #               left    right
    #             ^ first   ^ best_cut ^ last
    #
    # A split parts every row without disturbing the order within the parts, so nothing is sorted
    # again. `stack` has the slices that still wait; a child is written right after its sibling.
    nodes, value = np.empty(2 * n * n_trees, _NODE), np.empty(2 * n * n_trees)
    depth = np.zeros(n_trees, np.int64)
    root = np.empty(n_trees + 1, np.int64)
    at = np.empty((d, n), np.int32)  # points of the tree, by each feature; nodes are slices
    spare = np.empty(n, np.int32)
    goes_left = np.empty(n, np.int64)
    features = np.empty(d, np.int32)
    stack = np.empty((n + 1, 4), np.int64)  # first, last, node, its depth
    w, wy = np.empty(n), np.empty(n)
    columns = np.ascontiguousarray(x.T)
    used = 0
    for t in range(n_trees):
        root[t] = used
        for i in range(n):
            # A point counts as often as it was drawn into the bag.
            w[i] = counts[t, i]
            wy[i] = w[i] * y[i]
        state = seeds[t]
        m = 0
        for f in range(d):
            m = 0
            for i in order[f]:
                if w[i] > 0:
                    at[f, m] = i
                    m += 1
        top = 1
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, m, used, 0
        used += 1
        while top > 0:
            top -= 1
            first, last, node, level = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
            depth[t] = max(depth[t], level)
            total, total_y, low, high = 0.0, 0.0, np.inf, -np.inf
            for k in range(first, last):
                i = at[0, k]
                total += w[i]
                total_y += wy[i]
                low, high = min(low, y[i]), max(high, y[i])
            best, best_feature, best_cut, best_value = -np.inf, -1, 0, 0.0
            if high > low:
                for f in range(d):
                    features[f] = f
                visited, useful = 0, 0
                # As many features as are to be drawn, and more until one is not constant.
                while visited < d and (visited < drawn or useful == 0):
                    state, bits = _next(state)
                    k = visited + np.int64(bits % np.uint64(d - visited))
                    f = features[k]
                    features[k] = features[visited]
                    features[visited] = f
                    visited += 1
                    column, values = at[f], columns[f]
                    if not _apart(values[column[first]], values[column[last - 1]]):
                        continue
                    useful += 1
                    # From left to right: a point changes sides, and the sums of both sides follow.
                    here, here_y = 0.0, 0.0
                    j = column[first]
                    after = values[j]
                    for k in range(first, last - 1):
                        i, before = j, after
                        j = column[k + 1]
                        after = values[j]
                        here += w[i]
                        here_y += wy[i]
                        there, there_y = total - here, total_y - here_y
                        # One division for both sides.
                        gain = (here_y * here_y * there + there_y * there_y * here) / (here * there)
                        # The variance that is left is the sum of squares less the gain: sum(y)^2 /
                        # n of each side. A tie goes to what was looked at first.
                        if gain > best * (1 + _SAME) and _apart(before, after):
                            best, best_feature, best_cut = gain, f, k + 1
                            # A point half way goes left, whichever way rounding moved it.
                            best_value = before / 2 + after / 2 + 2e-9 * (after / 2 - before / 2)
                            if best_value >= after:  # rounding
                                best_value = before
            value[node] = total_y / total
            if best_feature < 0:
                nodes[node].threshold, nodes[node].feature, nodes[node].left = np.inf, 0, node
                continue
            nodes[node].threshold, nodes[node].feature = best_value, best_feature
            nodes[node].left = used
            used += 2
            for k in range(first, best_cut):
                goes_left[at[best_feature, k]] = 1
            for k in range(best_cut, last):
                goes_left[at[best_feature, k]] = 0
            for f in range(d):
                # The row of the split's own feature is parted already: it is sorted by what
                # decides.
                if f == best_feature:
                    continue
                column = at[f]
                kept, moved = first, 0
                for k in range(first, last):  # without branches, which would be guessed wrongly
                    i = column[k]
                    column[kept] = i
                    spare[moved] = i
                    kept += goes_left[i]
                    moved += 1 - goes_left[i]
                for k in range(moved):
                    column[kept + k] = spare[k]
            stack[top, 0], stack[top, 1] = first, best_cut
            stack[top + 1, 0], stack[top + 1, 1] = best_cut, last
            stack[top, 2], stack[top + 1, 2] = used - 2, used - 1
            stack[top, 3] = stack[top + 1, 3] = level + 1
            top += 2
    root[n_trees] = used
    return nodes[:used].copy(), value[:used].copy(), depth, root


@njit(cache=True, nogil=True)
def _predict_forest(x, nodes, value, depth, root, counts):
    """Mean over the trees; over those that have not seen a point if there are `counts`; or 0."""
    n, n_trees = len(x), len(root) - 1
    total, number = np.zeros(n), np.zeros(n)
    all_trees = len(counts) == 0
    at = np.empty(_BLOCK, np.int64)
    for start in range(0, n, _BLOCK):
        size = min(_BLOCK, n - start)
        for t in range(n_trees):
            at[:size] = root[t]
            # Level by level for all points at once: no branches, and nothing waits for a point.
            for _ in range(depth[t]):
                for k in range(size):
                    node = nodes[at[k]]
                    at[k] = node.left + (x[start + k, node.feature] > node.threshold)
            for k in range(size):
                if all_trees or counts[t, start + k] == 0:
                    total[start + k] += value[at[k]]
                    number[start + k] += 1
    for i in range(n):
        if number[i] > 0:
            total[i] /= number[i]
    return total

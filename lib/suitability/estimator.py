"""Prediction correctness per sample: a calibrated logistic regression, solved exactly.

The definition is scikit-learn's ``StandardScaler`` followed by
``CalibratedClassifierCV(LogisticRegression(), method="sigmoid", cv=5)``. Its solver stops
early, at a gradient of 1e-4; ours goes to the optimum by Newton's method, on all five
splits at once, which makes it both reproducible and more than ten times
as fast.
"""

from functools import cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lib.check import Columns, as_flags, as_integer, as_matrix, columns_of, matched, same_rows

#: Splits of the calibration, as in the paper's instantiation.
N_SPLITS = 5
_MAX_STEPS = 200
# Numbers in an array that stays in the cache of a core.
_BLOCK = 2**15
# Numbers in the largest array of a batch of fits.
_BATCH = 2**19
#: Relative: a range that is but rounding.
CONSTANT = 64 * np.finfo(float).eps
_LARGEST = 1e250  # of signals: their products with coefficients must be finite

Array = npt.NDArray[np.float64]


class CorrectnessEstimator:
    """Estimate the probability that a prediction is correct, from its signals.

    Signals are standardized; for each of five stratified splits a
    logistic regression with the penalty ``0.5 |w|^2`` is fitted to four fifths and
    Platt's sigmoid to its decision values on the last fifth. The estimate is the mean
    of the five calibrated probabilities.

    Parameters
    ----------
    seed : int or None
        At least 0: the splits are drawn by it from the sorted rows, so that the order in which
        these are given changes nothing.  None: the splits are made in that order, as the authors'
        are; then the rows must not be sorted by anything.

    Attributes
    ----------
    weights : ndarray, shape (n_signals, 5)
        Slopes of the five sigmoids with respect to the raw signals.
    bias : ndarray, shape (5,)
        Their values on the logit scale at ``center``.
    center : ndarray, shape (n_signals,)
        Mean of the signals at fit. Signals are taken relative to it before anything else,
        so that a large offset costs no digits.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, section 4.2. Platt, Probabilistic
    Outputs for Support Vector Machines, 1999.

    Examples
    --------
    >>> estimator = CorrectnessEstimator().fit(table[:1000], correct[:1000])
    >>> found = estimator.predict(table[1000:])
    >>> found.shape, bool(abs(found.mean() - correct[1000:].mean()) < 0.03)
    ((500,), True)
    """

    weights: Array
    bias: Array
    center: Array

    def __init__(self, *, seed: int | None = 0) -> None:
        self.seed = None if seed is None else as_integer("seed", seed, 0)

    def fit(self, signals: Any, correct: Any) -> Self:
        """Fit to signals of predictions whose correctness is known.

        Parameters
        ----------
        signals : DataFrame or array_like, shape (n, n_signals)
            Finite numbers; the names of a data frame's columns are remembered.
        correct : array_like of bool, shape (n,)
            Whether each prediction was correct; at least five were and five were not,
            so that each split has both.
        """
        same_rows(signals=signals, correct=correct)
        x, names = as_matrix("signals", signals), columns_of("signals", signals)
        y = as_flags("correct", correct, len(x))
        _check_both(y)
        columns, mean, scale = _standardised(x)
        if self.seed is not None:
            order = own_order(columns[:-1].T, y, self.seed)
            columns, y = np.ascontiguousarray(columns[:, order]), y[order]
        slopes, bias, _ = _fit_each(columns[None], y[None])
        self.weights = (slopes[0] / scale).T
        self.bias = bias[0]
        self.center = mean
        self._columns = names
        return self

    def predict(self, signals: Any) -> Array:
        """Estimate the probability of a correct prediction.

        Parameters
        ----------
        signals : DataFrame or array_like, shape (n, n_signals)
            With the columns that the estimator was fitted to: those of a data frame are matched by
            name; arrays are taken only after a fit to an array, by position.

        Returns
        -------
        ndarray, shape (n,)
            In (0, 1).
        """
        if not hasattr(self, "weights"):
            raise RuntimeError("the estimator must be fitted before it can predict")
        x = as_matrix("signals", matched("signals", signals, self._columns))
        return mean_sigmoid(x - self.center, self.weights, self.bias)[0]


def fit_each(signals: Array, correct: npt.NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Weights, bias and center of the estimators of k sets of n rows each, taken in their order.

    They are those of ``CorrectnessEstimator(seed=None)``, but for rounding: the sets go through the
    same steps of Newton's method side by side, which is several times as fast for few signals.

    Parameters
    ----------
    signals : ndarray, shape (k, n, n_signals)
    correct : ndarray of bool, shape (k, n)

    Returns
    -------
    weights : ndarray, shape (k, n_signals, 5)
    bias : ndarray, shape (k, 5)
    center : ndarray, shape (k, n_signals)
    """
    for each in correct:
        _check_both(each)
    k, n, p = signals.shape
    weights, bias, center = np.empty((k, p, N_SPLITS)), np.empty((k, N_SPLITS)), np.empty((k, p))
    # As many sets at once as the cache holds products of, or weights of rows by split.
    step = max(1, _BATCH // (n * max(N_SPLITS, (p + 1) * (p + 2) // 2)))
    start = None
    for i in range(0, k, step):
        some = slice(i, i + step)
        columns, center[some], scale = _standardised(signals[some])
        slopes, bias[some], start = _fit_each(columns, correct[some], start)
        weights[some] = (slopes / scale[:, None]).swapaxes(1, 2)
    return weights, bias, center


def _check_both(correct: npt.NDArray[np.bool_]) -> None:
    """Refuse rows of which some split would lack a kind."""
    counts = (int(correct.sum()), int((~correct).sum()))
    if min(counts) < N_SPLITS:
        raise ValueError(
            f"correct must have at least {N_SPLITS} correct and {N_SPLITS} wrong "
            f"predictions, one per split of the calibration, got {counts[0]} and {counts[1]}"
        )


def _standardised(x: Array) -> tuple[Array, Array, Array]:
    """Standardized signals as rows, below them a row of ones; their means and deviations."""
    # One contiguous row per signal: what runs over the samples is several times faster.
    columns = np.ascontiguousarray(x.swapaxes(-1, -2))
    mean, scale, _ = standardiser(columns.swapaxes(-1, -2))
    rows = np.ones((*columns.shape[:-2], columns.shape[-2] + 1, columns.shape[-1]))
    np.divide(columns - mean[..., None], scale[..., None], out=rows[..., :-1, :])
    return rows, mean, scale


def _fit_each(
    columns: Array, correct: npt.NDArray[np.bool_], start: Array | None = None
) -> tuple[Array, Array, Array]:
    """Slopes, shape (k, 5, p), and biases, shape (k, 5), of k sets of standardized signals.

    Third, the coefficients from which Newton's method started: those given, or the first set's.
    """
    k, d, n = columns.shape
    held_out = np.stack([_folds(each) == np.arange(N_SPLITS)[:, None] for each in correct])
    penalty = np.append(np.ones(d - 1), 0.0)
    target, trained = correct.astype(float)[:, None], 1.0 - held_out
    shared = columns.swapaxes(1, 2), target
    products = _products(columns)
    if start is None:
        # The minimum of the mean of the five losses is near those of the five, and of other sets.
        first = shared[0][0], target[0], trained[0].mean(0, keepdims=True)
        start = _newton(*first, penalty, None, 0.1, products[0])
    theta = _newton(*shared, trained, penalty, start, products=products)
    slopes = theta[..., :-1]
    # Platt's intercept takes the place of the regression's.
    decisions = (slopes @ columns[:, :-1]).reshape(-1, n)
    near = theta[..., -1].reshape(-1, 1)
    slope, bias = _platt(decisions, np.repeat(correct, N_SPLITS, 0), held_out.reshape(-1, n), near)
    return slope.reshape(k, -1, 1) * slopes, bias.reshape(k, -1), start


def own_order(z: Array, correct: npt.NDArray[np.bool_], seed: int) -> npt.NDArray[np.int64]:
    """A random order of rows that hangs on what is in them and on the seed alone.

    They are sorted, then permuted. What they are sorted by first, a sum of the standardized signals
    weighted by their correlation with correctness, is the same for columns in another order or of
    another sign or scale; but for ties it settles the order.
    """
    weighted = z @ (z.T @ (correct - correct.mean()))
    size = np.abs(weighted).max()
    # Last bits decide nothing: those that are equal but for rounding are ordered by the rest.
    first = np.round(weighted / (size or 1.0), 9)
    rows = np.lexsort((*np.round(z.T[::-1], 9), correct, first))
    return rows[np.random.default_rng(seed).permutation(len(rows))]


def as_fit(
    signals: Any, correct: Any, name: str = "signals"
) -> tuple[Array, npt.NDArray[np.bool_], Columns]:
    """Signals, correctness of which both kinds occur, and columns; name: of the former argument."""
    flags = name.replace("signals", "correct")
    same_rows(**{name: signals, flags: correct})
    x, columns = as_matrix(name, signals), columns_of(name, signals)
    y = as_flags(flags, correct, len(x))
    if y.all() or not y.any():
        only = "correct" if y.all() else "wrong"
        raise ValueError(f"{flags} must have both kinds of prediction, got only {only} ones")
    return x, y, columns


def fit_logistic(
    design: Array, correct: npt.NDArray[np.bool_], penalty: float = 1.0
) -> tuple[Array, Array]:
    """Coefficients with penalty ``0.5 c |w|^2``, the last being free, and the loss's Hessian."""
    weights = np.ones((1, len(design)))
    ridge = _ridge(design, penalty)
    theta = _newton(design, correct.astype(float), weights, ridge)[0]
    return theta, logistic_hessian(design, theta, penalty)


def logistic_hessian(design: Array, theta: Array, penalty: float = 1.0) -> Array:
    """Second derivatives of the loss of :func:`fit_logistic`."""
    mu = _sigmoid(design @ theta)
    return (design.T * (mu * (1 - mu))) @ design + np.diag(_ridge(design, penalty))


def _ridge(design: Array, penalty: float) -> Array:
    return np.append(np.full(design.shape[1] - 1, penalty), 0.0)


def standardiser(x: Array, name: str = "signals") -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    """Mean and standard deviation of each column, and which are constant but for rounding.

    Of these the deviation is given as 1: they are left unscaled, as by scikit-learn.
    """
    size = np.abs(x).max(axis=-2)
    if (largest := size.max()) > _LARGEST:
        raise ValueError(
            f"{name} must be small enough for a finite standard deviation, at most {_LARGEST:g}, "
            f"got values up to {largest:.3g}; rescale the column"
        )
    constant = np.ptp(x, axis=-2) <= CONSTANT * size
    # By powers of 2, which round nothing, so that squares neither overflow nor underflow.
    power = np.frexp(size)[1]
    scaled = np.ldexp(x, -power[..., None, :])
    center = np.ldexp(scaled.mean(axis=-2), power)
    scale = np.where(constant, 1.0, np.ldexp(scaled.std(axis=-2), power))
    if (least := scale.min()) < 1 / _LARGEST:
        raise ValueError(
            f"{name} must have standard deviations of at least {1 / _LARGEST:g}, got {least:.3g}; "
            "rescale the column"
        )
    return center, scale, constant


def mean_sigmoid(x: Array, weights: Array, bias: Array) -> Array:
    """Mean of the calibrated probabilities of the splits of m estimators, shape (m, n).

    Signals are relative to their common center; slopes, shape (n_signals, 5 m), are side by side.
    """
    mean = np.empty((len(bias) // N_SPLITS, len(x)))
    slopes = np.ascontiguousarray(-weights.T)
    # In blocks that stay in the cache.
    step = max(1, _BLOCK // len(bias))
    for i in range(0, len(x), step):
        minus_eta = slopes @ x[i : i + step].T
        minus_eta -= bias[:, None]
        p = _of_minus(minus_eta).reshape(len(mean), N_SPLITS, -1)
        p.mean(axis=1, out=mean[:, i : i + step])
    return mean


def _sigmoid(eta: Array) -> Array:
    """1 / (1 + exp(-eta))."""
    return _of_minus(np.negative(eta))


def _of_minus(minus_eta: Array) -> Array:
    """The sigmoid of eta, computed in place of its negative."""
    np.minimum(minus_eta, 700.0, out=minus_eta)  # exp overflows beyond 709
    np.exp(minus_eta, out=minus_eta)
    minus_eta += 1.0
    return np.divide(1.0, minus_eta, out=minus_eta)  # faster than np.reciprocal


def _folds(correct: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Number of the fold that each row is held out in: scikit-learn's stratified folds.

    That is ``StratifiedKFold(5)``, whose checks would add a quarter to the time of a fit. The folds
    are dealt out to the rows sorted by class, that of the first row first.
    """
    dealt = np.arange(len(correct)) % N_SPLITS
    first = correct == correct[0]
    n_first = int(first.sum())
    fold = np.empty_like(dealt)
    fold[first] = np.sort(dealt[:n_first])
    fold[~first] = np.sort(dealt[n_first:])
    return fold


def _platt(
    decisions: Array,
    correct: npt.NDArray[np.bool_],
    held_out: npt.NDArray[np.bool_],
    intercept: Array,
) -> tuple[Array, Array]:
    """Slopes and intercepts of Platt's sigmoids on held-out rows, with his targets for small n.

    The first three have the shape (m, n). The regression's intercept, shape (m, 1), is a start.
    """
    # The folds below one another, filled up to the same length with rows of weight zero.
    count = held_out.sum(axis=1, keepdims=True)
    present = np.arange(count.max()) < count
    rows = np.zeros(present.shape, dtype=int)
    rows[present] = np.nonzero(held_out)[1]
    decisions = np.where(present, np.take_along_axis(decisions, rows, axis=1), 0.0)
    correct = np.take_along_axis(correct, rows, axis=1) & present
    positive = correct.sum(axis=1, keepdims=True)
    negative = count - positive
    target = np.where(correct, (positive + 1) / (positive + 2), 1 / (negative + 2))

    center = decisions.sum(axis=1, keepdims=True) / count
    centred = np.where(present, decisions - center, 0.0)
    size = np.abs(centred).max(axis=1, keepdims=True)
    # Where all decisions are equal, up to rounding, the intercept alone is left; the
    # penalty then keeps the slope at zero.
    varied = size > 10 * np.finfo(float).eps * np.abs(decisions).max(axis=1, keepdims=True)
    size = np.where(varied, size, 1.0)
    design = np.stack([np.where(varied, centred, 0.0) / size, np.ones(rows.shape)], axis=2)
    penalty = np.column_stack([~varied, np.zeros(len(rows))])
    weights = present.astype(float)
    # Each has its own design, and is the only problem with it.
    start = np.where(varied, np.hstack([size, center + intercept]), 0.0)[:, None]
    theta = _newton(design, target[:, None], weights[:, None], penalty[:, None], start)[:, 0]
    slope = theta[:, 0] / size[:, 0]
    return slope, theta[:, 1] - slope * center[:, 0]


def _newton(
    design: Array,
    target: Array,
    weights: Array,
    penalty: Array,
    theta: Array | None = None,
    tolerance: float = 1e-6,
    products: Array | None = None,
) -> Array:
    """Minimize m penalized logistic losses for each design, with row weights of shape (..., m, n).

    The design has the shape (..., n, d). The probabilities to be met, of shape (..., m, n), may be
    shared, as may the start, of shape (..., m, d). The tolerance is that of the last step, as the
    largest change of a linear predictor: convergence is quadratic, and the error that is left of
    the order of its square. Bach, Self-concordant analysis for logistic regression, 2010.
    """
    d = design.shape[-1]
    theta = np.zeros((1, d)) if theta is None else theta
    rows = np.ascontiguousarray(design.swapaxes(-1, -2))
    # The upper triangles of all Hessians are one matrix product with these.
    products = _products(rows) if products is None else products
    columns, products = rows.swapaxes(-1, -2), products.swapaxes(-1, -2)
    unpack, ridge = _symmetric(d), penalty[..., None] * np.eye(d)

    def evaluate(theta: Array) -> tuple[Array, Array, Array]:
        """Linear predictors, probabilities and gradients."""
        eta = theta @ rows
        mu = _sigmoid(eta)
        residual = weights * (mu - target)
        return eta, mu, residual @ columns + penalty * theta

    eta, mu, gradient = evaluate(theta)
    for _ in range(_MAX_STEPS):
        packed = (weights * (mu - mu * mu)) @ products
        step = np.linalg.solve(packed[..., unpack] + ridge, gradient[..., None])[..., 0]
        slope = (gradient * step).sum(axis=-1)
        size = np.ones(slope.shape)
        while True:
            trial = theta - size[..., None] * step
            trial_eta, mu, gradient = evaluate(trial)
            move = np.abs(trial_eta - eta).max(axis=-1)
            # Bach: a Newton step that moves no predictor by more than 1.79 lowers the loss,
            # because the third derivative of a row's loss is at most the second.
            if move.max() <= 1.79:
                break
            # So does any step that ends before the minimum on its way, by convexity.
            excess = -(gradient * step).sum(axis=-1)
            too_far = (excess > 0) & (move > 1.79)
            if not too_far.any():
                break
            # Where a straight line puts the minimum, but at least half and at most 0.9 as far.
            share = slope[too_far] / (slope + excess)[too_far]
            size[too_far] *= np.clip(share, 0.5, 0.9)
        theta, eta = trial, trial_eta
        if move.max() <= tolerance:
            return theta
    raise RuntimeError(
        f"the logistic regression did not converge in {_MAX_STEPS} steps; the largest gradient "
        f"entry is {np.abs(gradient).max():.3g}"
    )


def _products(columns: Array) -> Array:
    """Products of each row with itself and those below, shape (..., d (d + 1) / 2, n)."""
    *shape, d, n = columns.shape
    products = np.empty((*shape, d * (d + 1) // 2, n))
    start = 0
    for i in range(d):
        stop = start + d - i
        np.multiply(columns[..., i:, :], columns[..., i : i + 1, :], products[..., start:stop, :])
        start = stop
    return products


@cache
def _symmetric(d: int) -> npt.NDArray[np.int64]:
    """Where each entry of a symmetric matrix is among those of its upper triangle, by row."""
    where = np.zeros((d, d), dtype=int)
    where[np.triu_indices(d)] = np.arange(d * (d + 1) // 2)
    return np.triu(where) + np.triu(where, 1).T

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

from lib.check import as_flags, as_matrix

#: Splits of the calibration, as in the paper's instantiation.
N_SPLITS = 5
_MAX_STEPS = 200
# Numbers in an array that stays in the cache of a core.
_BLOCK = 2**15

Array = npt.NDArray[np.float64]


class CorrectnessEstimator:
    """Estimate the probability that a prediction is correct, from its signals.

    Signals are standardised; for each of five stratified splits, in row order, a
    logistic regression with the penalty ``0.5 |w|^2`` is fitted to four fifths and
    Platt's sigmoid to its decision values on the last fifth. The estimate is the mean
    of the five calibrated probabilities.

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

    def fit(self, signals: Any, correct: Any) -> Self:
        """Fit to signals of predictions whose correctness is known.

        Parameters
        ----------
        signals : array_like, shape (n, n_signals)
            Finite numbers.
        correct : array_like of bool, shape (n,)
            Whether each prediction was correct; at least five were and five were not,
            so that each split has both.
        """
        x = as_matrix("signals", signals)
        y = as_flags("correct", correct, len(x))
        counts = (int(y.sum()), int((~y).sum()))
        if min(counts) < N_SPLITS:
            raise ValueError(
                f"correct must have at least {N_SPLITS} correct and {N_SPLITS} wrong "
                f"predictions, one per split of the calibration, got {counts[0]} and {counts[1]}"
            )
        n, p = x.shape
        # One contiguous row per signal: what runs over the samples is several times faster.
        columns = np.ascontiguousarray(x.T)
        mean, scale, _ = standardiser(columns.T)
        columns = np.vstack([(columns - mean[:, None]) / scale[:, None], np.ones(n)])

        fold = _folds(y)
        held_out = fold == np.arange(N_SPLITS)[:, None]
        penalty = np.append(np.ones(p), 0.0)
        target, trained = y.astype(float), 1.0 - held_out
        shared = columns.T, target
        products = _products(columns)
        # The minimum of the mean of the five losses is near those of the five.
        start = _newton(*shared, trained.mean(0, keepdims=True), penalty, None, 0.1, products)
        theta = _newton(*shared, trained, penalty, start, products=products)
        # Platt's intercept takes the place of the regression's.
        slope, bias = _platt(theta[:, :p] @ columns[:p], y, held_out)
        coefficients = theta[:, :p] / scale
        self.weights = (slope[:, None] * coefficients).T
        self.bias = bias
        self.center = mean
        return self

    def predict(self, signals: Any) -> Array:
        """Estimate the probability of a correct prediction.

        Parameters
        ----------
        signals : array_like, shape (n, n_signals)
            With the columns that the estimator was fitted to.

        Returns
        -------
        ndarray, shape (n,)
            In (0, 1).
        """
        if not hasattr(self, "weights"):
            raise RuntimeError("the estimator must be fitted before it can predict")
        x = as_matrix("signals", signals)
        if x.shape[1] != len(self.weights):
            raise ValueError(
                f"signals must have {len(self.weights)} columns, as at fit, got {x.shape[1]}"
            )
        return mean_sigmoid(x - self.center, self.weights, self.bias)[0]


def as_fit(
    signals: Any, correct: Any, name: str = "signals"
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return signals and correctness of which both kinds occur; name: of the former argument."""
    x, flags = as_matrix(name, signals), name.replace("signals", "correct")
    y = as_flags(flags, correct, len(x))
    if y.all() or not y.any():
        only = "correct" if y.all() else "wrong"
        raise ValueError(f"{flags} must have both kinds of prediction, got only {only} ones")
    return x, y


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
    with np.errstate(over="ignore", invalid="ignore"):
        center, scale = x.mean(axis=0), x.std(axis=0)
    if not np.isfinite(scale).all():
        raise ValueError(
            f"{name} must be small enough for a finite standard deviation, got values up to "
            f"{np.abs(x).max():.3g}"
        )
    constant = scale <= 10 * np.finfo(float).eps * np.abs(center)
    return center, np.where(constant, 1.0, scale), constant


def mean_sigmoid(x: Array, weights: Array, bias: Array) -> Array:
    """Mean of the calibrated probabilities of the splits of m estimators, shape (m, n).

    Signals are relative to their common centre; slopes, shape (n_signals, 5 m), are side by side.
    """
    mean = np.empty((len(bias) // N_SPLITS, len(x)))
    # In blocks that stay in the cache.
    step = max(1, _BLOCK // len(bias))
    for i in range(0, len(x), step):
        eta = weights.T @ x[i : i + step].T
        eta += bias[:, None]
        p = _sigmoid(eta).reshape(len(mean), N_SPLITS, -1)
        p.mean(axis=1, out=mean[:, i : i + step])
    return mean


def _sigmoid(eta: Array) -> Array:
    """1 / (1 + exp(-eta)), computed in place."""
    np.maximum(eta, -700.0, out=eta)  # exp overflows beyond 709
    np.negative(eta, out=eta)
    np.exp(eta, out=eta)
    eta += 1.0
    return np.reciprocal(eta, out=eta)


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
    decisions: Array, correct: npt.NDArray[np.bool_], held_out: npt.NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Slopes and intercepts of Platt's sigmoids on held-out rows, with his targets for small n."""
    # The folds below one another, filled up to the same length with rows of weight zero.
    count = held_out.sum(axis=1, keepdims=True)
    present = np.arange(count.max()) < count
    rows = np.zeros(present.shape, dtype=int)
    rows[present] = np.nonzero(held_out)[1]
    decisions = np.where(present, np.take_along_axis(decisions, rows, axis=1), 0.0)
    correct = correct[rows] & present
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
    theta = _newton(design, target, present.astype(float), penalty)
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
    """Minimise m penalised logistic losses, with row weights of shape (m, n).

    The design, (n, d) or (m, n, d), and the probabilities to be met may be shared, as may the
    start. The tolerance is that of the last step, as the largest change of a linear predictor:
    convergence is quadratic, and the error that is left of the order of its square.
    Bach, Self-concordant analysis for logistic regression, 2010.
    """
    m, d = len(weights), design.shape[-1]
    theta = np.zeros((1, d)) if theta is None else theta
    columns = np.ascontiguousarray(design.swapaxes(-1, -2))
    # The upper triangles of all Hessians are one matrix product with these.
    products = _products(columns) if products is None else products
    unpack, ridge = _symmetric(d), penalty[..., None] * np.eye(d)

    def evaluate(theta: Array) -> tuple[Array, Array, Array]:
        """Linear predictors, probabilities and gradients."""
        eta = (theta[:, None, :] @ columns)[:, 0]
        mu = _sigmoid(eta.copy())
        residual = weights * (mu - target)
        return eta, mu, (columns @ residual[:, :, None])[:, :, 0] + penalty * theta

    eta, mu, gradient = evaluate(theta)
    for _ in range(_MAX_STEPS):
        packed = (products @ (weights * (mu - mu * mu))[:, :, None])[:, :, 0]
        step = np.linalg.solve(packed[:, unpack] + ridge, gradient[:, :, None])[:, :, 0]
        slope = (gradient * step).sum(axis=1)
        size = np.ones(m)
        while True:
            trial = theta - size[:, None] * step
            trial_eta, mu, gradient = evaluate(trial)
            move = np.abs(trial_eta - eta).max(axis=1)
            # Bach: a Newton step that moves no predictor by more than 1.79 lowers the loss,
            # because the third derivative of a row's loss is at most the second.
            if move.max() <= 1.79:
                break
            # So does any step that ends before the minimum on its way, by convexity.
            excess = -(gradient * step).sum(axis=1)
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

"""Areas over the accuracy-coverage trade-off, with their closed forms.

All areas are means over the grid c = 1/n, 2/n, ..., 1, but AUGRC, which starts at c = 0 and uses
the trapezoidal rule.
"""

import numpy as np
import numpy.typing as npt
from scipy.special import entr

from lib.check import as_scored, as_unit
from lib.selective.curves import _expected_accuracy, _sorted_parts


def selective_auc(correct: npt.ArrayLike, score: npt.ArrayLike) -> float:
    """Area under the accuracy-coverage curve.

    Parameters
    ----------
    correct, score : array_like, shape (n,)
        As for :func:`lib.selective.accuracy_coverage`.

    Returns
    -------
    float
        In [0, 1]; larger is better.

    References
    ----------
    P1, Eq. 4.

    Examples
    --------
    >>> round(selective_auc(correct, score) + aurc(correct, score), 12)
    1.0
    """
    return float(_accuracy(*as_scored(correct, score)).mean())


def aurc(correct: npt.ArrayLike, score: npt.ArrayLike) -> float:
    """Area under the risk-coverage curve: 1 - :func:`selective_auc`; smaller is better.

    Parameters
    ----------
    correct, score : array_like, shape (n,)
        As for :func:`lib.selective.accuracy_coverage`.

    Returns
    -------
    float
        In [0, 1].

    References
    ----------
    Geifman, Uziel and El-Yaniv (2019), Bias-reduced uncertainty estimation for deep neural
    classifiers.

    Examples
    --------
    >>> round(aurc(correct, score), 3), round(aurc(correct, other), 3)
    (0.061, 0.2)
    """
    return 1.0 - selective_auc(correct, score)


def e_aurc(correct: npt.ArrayLike, score: npt.ArrayLike) -> float:
    """Excess AURC: what the order loses against a perfect one, computed from risks.

    Parameters
    ----------
    correct, score : array_like, shape (n,)
        As for :func:`lib.selective.accuracy_coverage`.

    Returns
    -------
    float
        AURC minus the AURC of the same predictions in perfect order, at least 0.

    Notes
    -----
    The perfect order on the grid i / n has the accuracy min(1, h / i), h being the number of
    correct points, and Eq. 5 at c = i / n is min(1, (h / n) / (i / n)), the same number: on this
    grid E-AURC *is* :func:`normalized_score`.

    References
    ----------
    Geifman, Uziel and El-Yaniv (2019).

    Examples
    --------
    >>> excess = e_aurc(correct, score)
    >>> abs(excess - normalized_score(correct, score)) < 1e-12
    True
    """
    correct, score = as_scored(correct, score)
    perfect = np.sort(correct)[::-1].cumsum() / np.arange(1, len(correct) + 1)
    return float((1 - _accuracy(correct, score)).mean() - (1 - perfect).mean())


def normalized_score(correct: npt.ArrayLike, score: npt.ArrayLike) -> float:
    """The accuracy-normalized selective classification score: area between bound and curve.

    Parameters
    ----------
    correct, score : array_like, shape (n,)
        As for :func:`lib.selective.accuracy_coverage`.

    Returns
    -------
    float
        0 for a perfect order, larger is worse.  0 also where all predictions are right or all are
        wrong: there is nothing to rank.

    Notes
    -----
    The integral of Eq. 6 is the mean over the grid i / n.  With a the accuracy at full coverage, a
    perfect order scores 0 exactly; for n to infinity a random order scores
    :func:`random_order_score`, -a ln a, and the worst one :func:`worst_order_score`, the binary
    entropy of a.  :func:`normalized_score_extremes` has their values for finite n.

    References
    ----------
    P1, Definition 3.2, Eq. 6.

    Examples
    --------
    >>> normalized_score([True, True, False], [3, 2, 1])
    0.0
    >>> round(normalized_score([True, False], [1, 2]), 3)
    0.5
    """
    correct, score = as_scored(correct, score)
    n, right = len(correct), int(correct.sum())
    if right in (0, n):
        return 0.0
    accuracy = _accuracy(correct, score)
    bound = np.minimum(1.0, right / np.arange(1, n + 1))
    return max(0.0, float((bound - accuracy).mean()))


def augrc(correct: npt.ArrayLike, score: npt.ArrayLike) -> float:
    """Area under the generalized risk-coverage curve; smaller is better.

    Parameters
    ----------
    correct, score : array_like, shape (n,)
        As for :func:`lib.selective.accuracy_coverage`.

    Returns
    -------
    float
        In [0, 1/2].

    Notes
    -----
    The generalized risk at coverage c is the fraction of *all* points that are accepted and wrong.
    With the trapezoidal rule from c = 0 on, AUGRC is exactly
    (1 - AUROC) a (1 - a) + (1 - a)^2 / 2, AUROC being the probability that a correct point is
    accepted before a wrong one.

    References
    ----------
    Traub et al. (2024), Overcoming common flaws in the evaluation of selective classification
    systems.

    Examples
    --------
    >>> round(augrc(correct, score), 3), round(augrc(correct, other), 3)
    (0.047, 0.093)
    """
    correct, score = as_scored(correct, score)
    n = len(correct)
    wrong = (1 - _accuracy(correct, score)) * np.arange(1, n + 1)
    return float(wrong.sum() - wrong[-1] / 2) / n**2


def bound_area(full_accuracy: npt.ArrayLike) -> npt.NDArray:
    """Area under the bound of Eq. 5 over (0, 1]: a - a ln a.

    Parameters
    ----------
    full_accuracy : array_like of float
        a, in [0, 1].

    Returns
    -------
    ndarray of float64
        Of the same shape.

    Notes
    -----
    The integral of 1 up to a, and of a / c from a to 1.

    Examples
    --------
    >>> bound_area([0.5, 0.9, 1.0]).round(3).tolist()
    [0.847, 0.995, 1.0]
    """
    a = as_unit("full_accuracy", full_accuracy)
    return a + entr(a)


def random_order_score(full_accuracy: npt.ArrayLike) -> npt.NDArray:
    """Expected normalized score of a random order, for n to infinity: -a ln a.

    Parameters
    ----------
    full_accuracy : array_like of float
        a, in [0, 1].

    Returns
    -------
    ndarray of float64
        Of the same shape.

    Examples
    --------
    >>> random_order_score([0.5, 0.9]).round(3).tolist()
    [0.347, 0.095]
    """
    return entr(as_unit("full_accuracy", full_accuracy))


def worst_order_score(full_accuracy: npt.ArrayLike) -> npt.NDArray:
    """Normalized score of the worst order, for n to infinity: -a ln a - (1 - a) ln(1 - a).

    Parameters
    ----------
    full_accuracy : array_like of float
        a, in [0, 1].

    Returns
    -------
    ndarray of float64
        Of the same shape.

    Notes
    -----
    The worst order accepts all wrong points first; its accuracy is 0 up to c = 1 - a and
    1 - (1 - a) / c beyond, of area a + (1 - a) ln(1 - a).

    Examples
    --------
    >>> worst_order_score([0.5, 0.9]).round(3).tolist()
    [0.693, 0.325]
    """
    a = as_unit("full_accuracy", full_accuracy)
    return entr(a) + entr(1 - a)


def normalized_score_extremes(n_correct: int, n: int) -> tuple[float, float]:
    """Normalized score of a random (in expectation) and of the worst order of n points.

    Parameters
    ----------
    n_correct : int
        Correct points, from 0 to n.
    n : int
        Points, at least 1.

    Returns
    -------
    random, worst : float

    Examples
    --------
    >>> random, worst = normalized_score_extremes(n_correct=90, n=100)
    >>> round(random, 3), round(worst, 3)
    (0.094, 0.32)
    """
    whole = all(isinstance(v, (int, np.integer)) for v in (n_correct, n))
    if not whole or n < 1 or not 0 <= n_correct <= n:
        raise ValueError(
            "n_correct must be from 0 to n and n at least 1, integers, got n_correct ="
            f" {n_correct!r} and n = {n!r}"
        )
    i = np.arange(1, n + 1)
    best = np.minimum(1.0, n_correct / i).mean()
    worst = (np.maximum(0, i - (n - n_correct)) / i).mean()
    return float(best - n_correct / n), float(best - worst)


def _accuracy(correct: npt.NDArray, score: npt.NDArray) -> npt.NDArray[np.float64]:
    out = np.empty(len(correct))
    _expected_accuracy(*_sorted_parts(correct, score), out)
    return out

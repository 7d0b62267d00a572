"""Areas over the accuracy-coverage trade-off, with their closed forms.

All areas are means over the grid c = 1/n, 2/n, ..., 1, but AUGRC, which starts at c = 0 and uses
the trapezoidal rule.
"""

import numpy as np
import numpy.typing as npt
from scipy.special import entr

from lib.check import as_integer, as_names, as_scored, as_scores, as_unit, as_vector, same_rows
from lib.selective.curves import _accuracy
from lib.ties import group_starts


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
    """Excess AURC: what the order loses against a perfect one; equals :func:`normalized_score`.

    Parameters
    ----------
    correct, score : array_like, shape (n,)
        As for :func:`lib.selective.accuracy_coverage`.

    Returns
    -------
    float
        AURC minus the AURC of the same predictions in perfect order, at least 0.

    References
    ----------
    Geifman, Uziel and El-Yaniv (2019).

    Examples
    --------
    >>> abs(e_aurc(correct, score) - normalized_score(correct, score)) < 1e-12
    True
    """
    correct, score = as_scored(correct, score)
    return risk_areas(~correct, score)["e_aurc"]


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
    # Eq. 5 at c = i / n: with `right` of n the bound is min(1, (right / n) / (i / n)).
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


def risk_areas(
    loss: npt.ArrayLike, score: npt.ArrayLike, labels: npt.ArrayLike | None = None
) -> dict[str, float]:
    """Areas under the curves of any loss, normalized and balanced over classes if asked.

    Parameters
    ----------
    loss : array_like of float, shape (n,)
        Of each prediction, such as 0 and 1, a squared error or minus a log-likelihood.
    score : array_like of float, shape (n,)
        Acceptance score: larger is accepted earlier.
    labels : array_like, shape (n,), optional
        Classes, integers or strings.  A loss in a class with k of the n points then counts
        n / (classes k) times, so that at full coverage the mean over classes is left; the coverage
        is still that of all points.

    Returns
    -------
    dict of str to float
        Smaller is better.  ``aurc``: mean, over the coverages i / n, of the mean loss among the
        accepted points.  ``e_aurc``: that minus the same of the best order, the one by the loss.
        ``naurc``: ``e_aurc`` over that of a random order, so that 0 is perfect and 1 random; 0 if
        all losses are equal up to rounding, as there is nothing to rank.  ``augrc``: mean over the
        coverage, from 0 on, of the summed loss of the accepted points over n.

    Notes
    -----
    Ties are averaged over their orders.  Without labels, and with the loss 1 for a wrong answer
    and 0 for a right one, ``aurc`` and ``augrc`` are the functions of these names.  ``e_aurc`` is
    :func:`normalized_score`: on the grid i / n a perfect order has the accuracy min(1, h / i), h
    being the number of right answers, and so has the bound of Eq. 5.

    In the authors' program for NAURC the curve begins at (0, 0) and has trapezoids, which adds
    (mean loss) / 2n to the denominator.  With labels, ``augrc`` is the class-balanced one of
    fd-shifts, the program of Traub et al.

    References
    ----------
    Geifman, Uziel and El-Yaniv (2019) for E-AURC.  Cattelan and Silva (2024), How to fix a broken
    confidence estimator, for NAURC.  Traub et al. (2024) for AUGRC.

    Examples
    --------
    >>> found = risk_areas(~correct, score)
    >>> {name: round(value, 3) for name, value in found.items()}
    {'aurc': 0.061, 'e_aurc': 0.041, 'naurc': 0.238, 'augrc': 0.047}
    >>> round(risk_areas(~correct, other)["naurc"], 1)
    1.0
    >>> brier = ((probabilities - np.eye(4)[labels]) ** 2).sum(axis=1)
    >>> round(risk_areas(brier, score, labels)["naurc"], 3)
    0.148
    """
    same_rows(loss=loss, score=score, labels=labels)
    loss, score = as_vector("loss", loss), as_scores("score", score)
    n = len(loss)
    if len(score) != n:
        raise ValueError(f"score must have one entry per entry of loss ({n}), got {len(score)}")
    if labels is not None:
        labels = as_names("labels", labels, n)
        _, place, counts = np.unique(labels, return_inverse=True, return_counts=True)
        loss = loss * n / (len(counts) * counts[place])
    # Around the mean, so that losses of another level lose no digits.
    mean = float(loss.mean())
    curve, best = _mean_curve(loss - mean, score), _mean_curve(loss - mean, -loss)
    # Equal up to rounding: else the score would divide one rounding error by another.
    alike = len(group_starts(np.sort(loss))) == 1
    excess = 0.0 if alike else max(0.0, float((curve - best).mean()))
    # A random order has the mean loss at every coverage, which is where any curve ends.
    room = float((curve[-1] - best).mean())
    curve += mean
    sums = curve * np.arange(1, n + 1)
    # Trapezoids from coverage 0, where the sum is 0: the last of n + 1 heights counts half.
    augrc = float(sums.sum() - sums[-1] / 2) / n**2
    naurc = excess / room if excess else 0.0
    return {"aurc": float(curve.mean()), "e_aurc": excess, "naurc": naurc, "augrc": augrc}


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
    n = as_integer("n", n)
    n_correct = as_integer("n_correct", n_correct, 0, n)
    i = np.arange(1, n + 1)
    best = np.minimum(1.0, n_correct / i).mean()
    worst = (np.maximum(0, i - (n - n_correct)) / i).mean()
    return float(best - n_correct / n), float(best - worst)


def _evened(values: npt.NDArray, score: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray]:
    """The order of acceptance, and values in it that are averaged over points of equal score."""
    order = np.argsort(-score, kind="stable")
    ranked = score[order]
    starts = group_starts(ranked)
    sizes = np.diff(np.append(starts, len(score)))
    return order, np.repeat(np.add.reduceat(values[order], starts) / sizes, sizes)


def _mean_curve(values: npt.NDArray, score: npt.NDArray) -> npt.NDArray[np.float64]:
    """Expected mean of the values among the first i accepted points, i = 1..n."""
    return _evened(values, score)[1].cumsum() / np.arange(1, len(score) + 1)

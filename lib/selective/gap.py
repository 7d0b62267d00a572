"""The gap between a selective classifier's curve and its bound, taken apart."""

import numpy as np
import numpy.typing as npt

from lib.check import as_scored, as_scores, as_unit, same_rows
from lib.selective.areas import _evened, _mean_curve


def gap_decomposition(
    correct: npt.ArrayLike,
    score: npt.ArrayLike,
    probability: npt.ArrayLike | None = None,
    recalibrated: npt.ArrayLike | None = None,
) -> dict[str, float]:
    """Take the area between the accuracy-normalized bound and the curve apart.

    Parameters
    ----------
    correct, score : array_like, shape (n,)
        As for :func:`lib.selective.accuracy_coverage`.
    probability : array_like of float, shape (n,), optional
        Of each point, that a label drawn for it agrees with the prediction.  If labels are flipped
        with probability r to one of K - 1 others at random, it is 1 - r where the clean label
        agrees and r / (K - 1) where it does not.  By default labels count as free of noise: what
        nobody could know is then part of `ranking`.
    recalibrated : array_like of float, shape (n,), optional
        The score after recalibration on other points.  By default its order stays as it is.

    Returns
    -------
    dict of str to float
        The first four add up to the last.  ``noise``: what no score can close, as labels are no
        function of the inputs; at least 0.  ``ranking``: what the recalibrated order loses against
        the best one; at least 0.  ``calibration``: what recalibration wins by its new order; below
        0 if it loses.  ``finite_sample``: what the labels add that happened to be drawn; 0 in the
        mean, but for about (1 - a) / 2n.  ``finite_sample_error``: standard deviation of that over
        draws of the labels.  ``total``: the gap, :func:`lib.selective.normalized_score`.

    Notes
    -----
    Let q be the probabilities, s the score, r its recalibration, A(v; s) the mean over coverages of
    the mean of v among the points accepted by s, a(v) the mean of v and B(a) the mean over
    coverages of the bound min(1, a / c).  With y for `correct` the gap is B(a(y)) - A(y; s), and

        noise          B(a(q)) - A(q; q)
        ranking        A(q; q) - A(q; r)
        calibration    A(q; r) - A(q; s)
        finite sample  B(a(y)) - B(a(q)) - (A(y; s) - A(q; s))

    add up to it whatever q is.  Noise is 0 where correctness is a function of the inputs, q being 0
    or 1: imperfect predictions alone leave no gap, they lower the bound.  A recalibration that
    increases strictly keeps the order, so that its term is 0 whatever it does to calibration
    errors.  One that never decreases can win by merging scores, at most as much as isotonic
    regression of q on s, as its sums of q by coverage are the least concave ones above those of s.

    `ranking` and `calibration` together are the mean over coverages of the paper's ranking error,
    E[q | best] - E[q | accepted].  The other terms are definitions of ours: the paper bounds the
    gap by Bayes noise, approximation and ranking error, of which the first two add up to the
    selective risk 1 - E[q | accepted], and a statistical term in 1 / sqrt(n).  For that one,
    Hoeffding's inequality for maxima says: if labels are independent, then with probability
    1 - d no coverage c has c times the curve's error above sqrt(ln(2 / d) / 2n).

    `finite_sample_error` is that of the linear part, of weight w - B'(a(q)) in y - q, where w is
    the sum of 1 / i from a point's rank on.  It leaves out the draw of the points themselves, for
    which :func:`lib.selective.estimate` has a standard error of the whole gap.

    References
    ----------
    Rabanser and Papernot (2025), What does it take to build a performant selective classifier?

    Examples
    --------
    >>> q = np.where(correct, 0.8, 0.2 / 3)
    >>> noisy = np.random.default_rng(1).random(400) < q
    >>> gap = gap_decomposition(noisy, score, q)
    >>> [round(gap[name], 3) for name in ("noise", "ranking", "finite_sample", "total")]
    [0.148, 0.03, 0.019, 0.197]
    >>> clean = gap_decomposition(correct, score)
    >>> clean["noise"], clean["finite_sample"], abs(clean["ranking"] - clean["total"]) < 1e-12
    (0.0, 0.0, True)
    """
    same_rows(correct=correct, score=score, probability=probability, recalibrated=recalibrated)
    correct, score = as_scored(correct, score)
    n, y = len(correct), correct.astype(np.float64)
    q = y if probability is None else as_unit("probability", probability)
    r = score if recalibrated is None else as_scores("recalibrated", recalibrated)
    for name, array in (("probability", q), ("recalibrated", r)):
        if array.shape != (n,):
            raise ValueError(
                f"{name} must have one entry per entry of correct ({n}), got {array.shape}"
            )
    i = np.arange(1, n + 1)

    def bound(values: npt.NDArray) -> float:
        return float(np.minimum(1.0, values.sum() / i).mean())

    def area(values: npt.NDArray, by: npt.NDArray) -> float:
        return float(_mean_curve(values, by).mean())

    best, new, old = area(q, q), area(q, r), area(q, score)
    noise, ranking = max(0.0, bound(q) - best), max(0.0, best - new)
    total = bound(y) - area(y, score)
    weights = np.empty(n)
    weights[np.argsort(-score, kind="stable")] = (1 / i)[::-1].cumsum()[::-1]
    order, weights = _evened(weights, score)
    linear = (weights - (1 / i)[i > q.sum()].sum()) ** 2 * (q * (1 - q))[order]
    return {
        "noise": noise,
        "ranking": ranking,
        "calibration": new - old,
        "finite_sample": total - (bound(q) - old),
        "finite_sample_error": float(np.sqrt(linear.sum())) / n,
        "total": max(0.0, total),
    }

"""The trade-off curve that an attack reaches, with limits that hold at all thresholds together."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lib.audit.counts import rate_intervals
from lib.audit.intervals import _table
from lib.audit.selection import union_events
from lib.check import as_number, as_unit, require_choice, require_finite


@dataclass(frozen=True, eq=False)
class AttackCurve:
    """Error rates of an attack at every threshold, made by :func:`attack_curve`.

    Attributes
    ----------
    fpr, fnr : ndarray of float64, shape (3, m)
        As observed, lower limits, upper limits.
    """

    fpr: npt.NDArray[np.float64]
    fnr: npt.NDArray[np.float64]

    def margin(self, least_fnr: Callable[[npt.NDArray[np.float64]], npt.ArrayLike]) -> float:
        """How far the attack is for certain below a claimed curve; above 0 the claim is refuted.

        A true claim is refuted with probability 1 - `level` at most: its curve falls with the FPR,
        so that the attack's FNR is above it wherever both upper limits are right.

        Parameters
        ----------
        least_fnr : callable
            The least FNR that is claimed at each FPR: ``lib.privacy.trade_off(ledger).fnr``.
        """
        if not callable(least_fnr):
            raise ValueError(f"least_fnr must be a function of the FPR, got {least_fnr!r}")
        return float(np.max(least_fnr(self.fpr[2]) - self.fnr[2]))

    def tpr(self, fpr: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The largest TPR at each FPR in [0, 1]: estimate, lower and upper limit, shape (3, ...).

        The attack may choose between two thresholds, and guesses without looking, by chance.
        """
        x = as_unit("fpr", fpr)
        return np.stack([np.interp(x, *_hull(self.fpr[i], 1 - self.fnr[i])) for i in (0, 2, 1)])

    def accuracy(self, prevalence: float = 0.5) -> npt.NDArray[np.float64]:
        """The largest accuracy of a threshold: estimate, lower and upper limit.

        Parameters
        ----------
        prevalence : float
            Fraction of members, in [0, 1].
        """
        require_finite("prevalence", prevalence, at_least=0, at_most=1)
        wrong = prevalence * self.fnr + (1 - prevalence) * self.fpr
        return 1 - wrong.min(axis=1)[[0, 2, 1]]


def attack_curve(counts: npt.ArrayLike, level: float = 0.95, *, fixed: bool = False) -> AttackCurve:
    """The curve that an attack reaches.

    Parameters
    ----------
    counts, fixed
        As for :func:`lib.audit.union_lower_bound`: all rows of one :func:`lib.audit.roc_counts`,
        or of thresholds fixed beforehand, as those chosen on other trials are.
    level : float
        With which all upper limits hold together, and so do all lower ones; in (0, 1).

    Returns
    -------
    AttackCurve

    Notes
    -----
    Clopper-Pearson's limits, each failing with probability (1 - level) / N for N scores in all, or
    (1 - level) / min(2 m, N) if `fixed`: so many events there are on either side, whatever the
    ties, as :func:`lib.audit.union_lower_bound` explains.

    Examples
    --------
    >>> curve = attack_curve(roc_counts(scores, members))
    >>> curve.tpr(0.1).round(2).tolist(), curve.accuracy().round(2).tolist()
    ([0.54, 0.23, 0.8], [0.76, 0.64, 0.86])
    >>> curve.margin(lambda fpr: gaussian_fnr(fpr, mu=1.5)) > 0  # which is the truth
    False
    """
    table, level = _table(counts), as_number("level", level, 0, 1)
    require_choice("fixed", fixed, (False, True))
    tp, fp, tn, fn = table.T
    tail = (1 - level) / union_events(table, fixed)
    return AttackCurve(
        *(
            np.stack([a / (a + b), *rate_intervals(a, b, tail, "clopper-pearson")])
            for a, b in ((fp, tn), (fn, tp))
        )
    )


def _hull(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The least concave curve above points of the unit square, (0, 0) and (1, 1): its corners."""
    inner = x > 0
    kept = [(0.0, float(y[~inner].max(initial=0.0)))]
    for a, b in [*sorted(zip(x[inner].tolist(), y[inner].tolist(), strict=True)), (1.0, 1.0)]:
        while len(kept) > 1:
            (c, d), (e, f) = kept[-2:]
            if (f - d) * (a - c) > (b - d) * (e - c):
                break
            kept.pop()  # not above the line between its neighbors
        kept.append((a, b))
    return np.array(kept).T

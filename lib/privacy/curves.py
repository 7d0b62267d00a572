"""Trade-off curves: what is proven of every attack at once (f-DP), and the Gaussian beneath."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

from lib.check import as_unit, check_delta, require_choice
from lib.privacy.accounting import PrivacyLedger
from lib.privacy.losses import FINEST, loss_distributions
from lib.privacy.renyi import History

_NODES = 1024  # epsilons at which a profile is kept
_FINENESS = 1e-3  # of a loss's variance: what discretization may add to it
_MOST_LOSS = 700.0  # beyond it exp() overflows: nothing is proven then


@dataclass(frozen=True, eq=False)
class TradeOff:
    """A mechanism's trade-off curve, made by :func:`trade_off`.

    Attributes
    ----------
    epsilons, deltas : ndarray of float64, shape (k,)
        The mechanism is (epsilon, delta)-private for each pair: epsilons rise from 0, deltas fall.
    """

    epsilons: npt.NDArray[np.float64]
    deltas: npt.NDArray[np.float64]

    def fnr(self, fpr: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The least FNR of any attack at each FPR in [0, 1], or less, whichever is the null."""
        x, (a, caught) = as_unit("fpr", fpr), self._corners(0.0)
        return np.interp(x, np.r_[a[::-1], 1 - caught, 1], np.r_[1 - caught[::-1], a, 0])

    def mu(self, delta: float) -> float:
        """The smallest mu for which the mechanism is mu-GDP but for an event of chance `delta`.

        Parameters
        ----------
        delta : float
            In [0, 1).  At 0, whose mu is set by events that never happen, a ledger has none.

        Notes
        -----
        That is delta(epsilon) <= delta + (1 - delta) delta_mu(epsilon) for all epsilon.  The proven
        curve is piecewise linear and the Gaussian's convex, so that the corners decide, each by
        mu >= Phi^-1(1 - FPR) - Phi^-1(FNR).
        """
        a, caught = self._corners(check_delta(delta))
        a, caught = a[caught > 0], caught[caught > 0]
        return float(np.max(special.ndtri(caught) - special.ndtri(a), initial=0.0))

    def _corners(self, spared: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """FPR and 1 - FNR where the lines of consecutive pairs meet, from the diagonal on."""
        d = np.maximum(0, self.deltas - spared) / (1 - spared)
        d = d[: np.count_nonzero(d) + 1]
        apart = np.expm1(np.diff(self.epsilons[: len(d)]))
        slope = -np.diff(d) / apart
        a = slope * np.exp(-self.epsilons[: len(slope)])
        return np.append(a, 0.0), np.append(d[:-1] + slope, d[-1])


def trade_off(
    mechanism: PrivacyLedger | Callable[[float], float], *, neighbours: str = "add or remove"
) -> TradeOff:
    """The trade-off curve of a ledger, or of a mechanism with a known epsilon at each delta.

    Parameters
    ----------
    mechanism : PrivacyLedger or callable
        A training's ledger, or a function from delta in (0, 1) to epsilon, such as
        ``LaplaceLabels(1.0).epsilon`` for one label.
    neighbours : {"add or remove", "replace"}
        Of a ledger, as for :meth:`PrivacyLedger.epsilon`.  The curve holds in both directions.

    Returns
    -------
    TradeOff
        Never above the true curve: every rounding errs on the other side.  Those of ledgers are
        kept, and a second call costs nothing.

    Notes
    -----
    An attack has FNR >= 1 - delta - exp(epsilon) FPR, and the same with both rates exchanged, for
    each pair that is proven (Wasserman and Zhou 2010); the curve is the largest of these lines.
    For a ledger the pairs come from its privacy loss distribution, in steps so fine that they add
    one part in a thousand to the variance of the losses, with 2^-52 a step for Fourier
    transforms.

    References
    ----------
    Dong, Roth and Su (2022), Gaussian differential privacy.

    Examples
    --------
    >>> curve = trade_off(PrivacyLedger((SampledGaussian(0.01, 1.0, 1000),)))
    >>> curve.fnr([0.01, 0.1, 0.5]).round(2).tolist(), round(curve.mu(1e-5), 2)
    ([0.97, 0.81, 0.34], 0.45)
    """
    require_choice("neighbours", neighbours, ("add or remove", "replace"))
    if isinstance(mechanism, PrivacyLedger):
        return _of_history(mechanism._history(), neighbours == "replace")
    if not callable(mechanism):
        raise ValueError(f"mechanism must be a PrivacyLedger or a function, got {mechanism!r}")
    low, high = 0.0, 1.0  # around the delta from which on epsilon is 0
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if mechanism(middle) > 0 else (low, middle)
    deltas = np.append(special.expit(np.linspace(-34.5, 10, _NODES)), min(high, 1 - 2**-53))
    return _hull(np.array([float(mechanism(float(d))) for d in deltas]), deltas)


@lru_cache(maxsize=1024)
def _of_history(history: History, replace: bool) -> TradeOff:
    if not history:
        return _hull(np.zeros(1), np.zeros(1))
    nothing = _hull(np.zeros(1), np.ones(1))
    if min(sigma for _, sigma, _ in history) < _MOST_LOSS**-0.5:
        return nothing
    steps = sum(steps for *_, steps in history)
    # Renyi's divergence of order 2 is about the variance of a step's loss.
    variance = sum(t * math.log1p(q * q * math.expm1((1 / s) ** 2)) for q, s, t in history)
    mesh = max(2 * math.sqrt(_FINENESS * variance / steps), FINEST)
    sides = loss_distributions(history, mesh, replace)
    if not sides:
        return nothing
    mesh = sides[0].mesh
    profiles = [(max(0, side.first), side.profile()[0], side.infinite) for side in sides]
    last = max(first + len(found) for first, found, _ in profiles) - 1
    nodes = np.unique(np.linspace(0, min(last, _MOST_LOSS / mesh), _NODES).astype(int))
    deltas = [
        np.where(nodes - first < len(found), found[np.clip(nodes - first, 0, len(found) - 1)], rest)
        for first, found, rest in profiles
    ]
    return _hull(nodes * mesh, np.minimum(1.0, np.max(deltas, axis=0) + 2.0**-52 * steps))


def _hull(epsilons: npt.NDArray[np.float64], deltas: npt.NDArray[np.float64]) -> TradeOff:
    """The pairs whose lines are on the curve."""
    usable = epsilons < _MOST_LOSS
    e, d = epsilons[usable], deltas[usable]
    # What each pair says at epsilon = 0, by the point where its two lines meet.
    kept = [(0.0, float(np.min(1 - 2 * (1 - d) * special.expit(-e), initial=1.0)))]

    def meet(first: tuple[float, float], second: tuple[float, float]) -> float:
        return (first[1] - second[1]) * math.exp(-first[0]) / math.expm1(second[0] - first[0])

    for point in sorted(zip(e.tolist(), d.tolist(), strict=True)):
        if point[0] == 0 or point[1] >= kept[-1][1]:
            continue
        while len(kept) > 1 and meet(kept[-2], kept[-1]) <= meet(kept[-1], point):
            kept.pop()
        kept.append(point)
    return TradeOff(*np.array(kept).T)

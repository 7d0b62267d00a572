"""Membership inference attacks, and the choice of the points that they do best on."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lib.check import as_array, as_flags, as_integer, as_number, as_predictions, as_real, same_rows

#: Variances are not believed below this part of the variance of all shadow models at the point.
_FLOOR = 1e-6
_EQUAL = 64 * np.finfo(float).eps  # relative: what rounding leaves between equal numbers
_FAR = 1e300  # beyond it a difference may not be a number


class Attack(Protocol):
    """Something that turns what models show into scores of membership.

    An attack sees one number a model and point, such as the model's confidence in the label, and
    may learn from shadow models of known membership.
    """

    name: str

    def score(
        self,
        observed: npt.NDArray[np.floating],
        shadows: npt.NDArray[np.floating],
        members: npt.NDArray[np.bool_],
    ) -> npt.NDArray[np.float64]:
        """Score models at one point.

        Parameters
        ----------
        observed : ndarray, shape (m,)
            What the models in question show at the point.
        shadows : ndarray, shape (s,)
            What the shadow models show there.
        members : ndarray of bool, shape (s,)
            Whether the point was among their training points.

        Returns
        -------
        ndarray of float64, shape (m,)
            Larger says "member".
        """
        ...


@dataclass(frozen=True)
class Threshold:
    """The observed number itself, without shadow models: a global threshold on the loss.

    References
    ----------
    Yeom et al. (2018), Privacy risk in machine learning.
    """

    name: str = "loss"

    def score(self, observed, shadows, members):
        """See :class:`Attack`."""
        return _observed(observed)


@dataclass(frozen=True)
class LiRA:
    """Online likelihood-ratio attack: a normal distribution each for members and non-members.

    Its score has no unit: other units of what models show, or another zero, leave it as it is.
    A variance counts as at least a millionth of that of all shadow models at the point.  Where
    these are all equal they tell nothing, and the score is 0.

    References
    ----------
    Carlini et al. (2022), Algorithm 1.
    """

    name: str = "LiRA"

    def score(self, observed, shadows, members):
        """See :class:`Attack`."""
        same_rows(shadows=shadows, members=members)
        shadows, members = _real(shadows, "s")[:, None], as_array("members", members)
        observed = _observed(observed)
        if observed.ndim != 1:
            raise ValueError(f"observed must be of shape (m,), got shape {observed.shape}")
        if np.isinf(observed).any():
            raise ValueError(
                f"observed must be finite for LiRA, got {int(np.isinf(observed).sum())} infinite"
            )
        own = _Scale.of(shadows)
        inside, outside = fit_models(own.place(shadows), members[..., None])
        return log_ratio(own.place(observed[:, None])[:, 0], inside, outside)


@dataclass(frozen=True)
class _Scale:
    """Units of each point in which its shadow models lie in [0, 2), if they are not all equal."""

    largest: npt.NDArray[np.float64]  # a power of two, so that nothing is rounded
    low: npt.NDArray[np.float64]
    span: npt.NDArray[np.float64]  # a power of two; infinite if the models are all equal

    @classmethod
    def of(cls, shadows: npt.NDArray[np.float64]) -> "_Scale":
        """Of shadow models, shape (s, n)."""
        largest = _power(np.abs(shadows).max(0))
        values = shadows / largest
        low, apart = values.min(0), np.ptp(values, axis=0)
        alike = apart <= _EQUAL * np.abs(values).max(0)
        return cls(largest, low, np.where(alike, np.inf, _power(apart)))

    def place(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Numbers, shape (m, n), in these units."""
        with np.errstate(over="ignore", under="ignore"):
            inner = (values / self.largest).clip(-_FAR, _FAR) - self.low
            return (inner / self.span).clip(-_FAR, _FAR)


def _power(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The largest power of two that is at most each number; 1 for 0."""
    return np.where(values > 0, np.ldexp(1.0, np.frexp(values)[1] - 1), 1.0)


def fit_models(
    shadows: npt.ArrayLike, members: npt.ArrayLike
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean and variance of what shadow models show, of members and non-members apart."""
    values, inside = _shadows(shadows, members)
    low = values.min(0)  # the mean of equal numbers is then theirs
    values = values - low
    floor = _FLOOR * values.var(0)
    floor = np.where(floor > 0, floor, 1.0)
    found = []
    for which in (inside, ~inside):
        count = which.sum(0)
        if (count < 2).any():
            place = int(np.argmax(count < 2))
            raise ValueError(
                "members must hold at least two shadow models with and without every point, got"
                f" {int(count[place])} at point {place}"
            )
        mean = np.where(which, values, 0.0).sum(0) / count
        square = np.where(which, (values - mean) ** 2, 0.0).sum(0) / (count - 1)
        found.append(np.stack([low + mean, np.maximum(square, floor)]))
    return found[0], found[1]


def log_ratio(
    observed: npt.NDArray[np.floating],
    inside: npt.NDArray[np.float64],
    outside: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """LiRA's score: the log-likelihood ratio of two normal distributions; infinite if too large."""
    (m1, v1), (m0, v0) = inside, outside
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = (observed - m0) ** 2 / v0 - (observed - m1) ** 2 / v1 + np.log(v0 / v1)
        if not np.isfinite(ratio).all():
            # A difference of squares, in units in which they are numbers.
            unit = np.maximum(np.abs(observed), np.maximum(np.abs(m0), np.abs(m1)))
            at, s0, s1 = observed / unit, np.sqrt(v0), np.sqrt(v1)
            difference = at * (1 / s0 - 1 / s1) + (m1 / s1 - m0 / s0) / unit
            both = (at - m0 / unit) / s0 + (at - m1 / unit) / s1
            far = difference * both * unit * unit + np.log(v0 / v1)
            ratio = np.where(np.isfinite(ratio), ratio, far)
    return ratio / 2


def select_worst(
    shadows: npt.ArrayLike, members: npt.ArrayLike, count: int, *, fit_share: float = 0.8
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The points on which LiRA does best (P3, Algorithm 3).

    Fitted to the first `fit_share` of the shadow models and tested on the rest.

    Parameters
    ----------
    shadows : array_like of float, shape (s, n)
        What shadow models show at n points.
    members : array_like of bool, shape (s, n)
        Whether the point was among the model's training points.
    count : int
        Points to select, from 1 to n.
    fit_share : float
        Fraction of the shadow models that LiRA is fitted to, in (0, 1); P3's 80:20.

    Returns
    -------
    places : ndarray of int64, shape (count,)
        The worst points, the worst first.
    weights : ndarray of float64, shape (n,)
        Fraction of right guesses on the shadow models left out.

    Notes
    -----
    With few models left out many points tie; among them those come first whose two normal
    distributions lie furthest apart.  Each point is judged by itself, in whatever unit.

    Examples
    --------
    >>> places, weights = select_worst(shadows, shadow_members, count=3)
    >>> places.shape, bool(weights[places].mean() > weights.mean())
    ((3,), True)
    """
    values, inside = _shadows(shadows, members)
    as_number("fit_share", fit_share, 0, 1)
    as_integer("count", count, 1, values.shape[1])
    fitted = round(fit_share * len(values))
    if not 0 < fitted < len(values):
        raise ValueError(
            f"fit_share must leave shadow models on both sides, got {fit_share!r} of {len(values)}"
        )
    values = _Scale.of(values).place(values)
    ins, outs = fit_models(values[:fitted], inside[:fitted])
    guess = log_ratio(values[fitted:], ins, outs) > 0
    weights = (guess == inside[fitted:]).mean(0)
    apart = np.abs(ins[0] - outs[0]) / np.sqrt((ins[1] + outs[1]) / 2)
    return np.lexsort((-apart, -weights))[:count].astype(np.int64), weights


def _real(values: Any, *dimensions: str) -> npt.NDArray[np.float64]:
    return as_predictions("shadows", values, dimensions).astype(np.float64)


def _shadows(shadows: Any, members: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    same_rows(shadows=shadows, members=members)
    values, inside = _real(shadows, "s", "n"), as_array("members", members)
    if inside.shape != values.shape:
        raise ValueError(
            "members must be booleans of the shape of shadows (s, n), got"
            f" {inside.dtype} {inside.shape} for {values.shape}"
        )
    return values, as_flags("members", inside.ravel()).reshape(inside.shape)


def _observed(values: Any) -> npt.NDArray[np.float64]:
    array = as_real("observed", values).astype(np.float64)
    if np.isnan(array).any():
        raise ValueError(f"observed must not be NaN, got {int(np.isnan(array).sum())} NaN")
    return array

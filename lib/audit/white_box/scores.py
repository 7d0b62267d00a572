"""Scores of gradient canaries: what the noisy sums of a training say about each coin."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.audit.white_box.directions import Directions
from lib.audit.white_box.steps import StepCounts
from lib.check import as_flags, as_real, require_finite

_MEDIAN = 0.6744897501960817  # of the size of a standard normal number
_RANGE = 500.0  # exp of it is still a number
_CLAIMED = 100.0  # canaries whose first step counts as much as the claim


@dataclass(frozen=True, eq=False)
class CanaryScores:
    """What a training with gradient canaries leaves to its auditor, by :class:`CanaryRecorder`.

    Two adversaries are kept.  One knows all other records, as the guarantee allows, and subtracts
    what they add to each noisy sum (`known`); the other sees what is released, and the others'
    gradients are noise to him (`released`).

    Attributes
    ----------
    coins : ndarray of bool, shape (m,)
        Who was in.
    released, known : ndarray of float, shape (m,)
        Sums over steps of the log likelihood ratio of "in" against "out", by adversary.  `known`
        is None where the others' sums were not at hand.
    released_sums, known_sums : ndarray of float, shape (m,)
        Plain sums over steps, in clipping norms.
    noise_multiplier, sample_rate : float
        As claimed; what the likelihood ratios are computed with.
    steps : int
        How many.
    counts : StepCounts, optional
        What :func:`step_audit` needs; None where it is not known who took part in which step.
    """

    coins: npt.NDArray[np.bool_]
    released: npt.NDArray[np.float64]
    released_sums: npt.NDArray[np.float64]
    known: npt.NDArray[np.float64] | None
    known_sums: npt.NDArray[np.float64] | None
    noise_multiplier: float
    sample_rate: float
    steps: int
    counts: StepCounts | None = None


class CanaryRecorder:
    """Adds up, step by step, what noisy sums say about canaries.

    Parameters
    ----------
    coins : array_like of bool, shape (m,)
        Who is in.
    noise_multiplier : float
        Claimed standard deviation of the noise over the clipping norm, above 0.
    sample_rate : float
        Claimed probability of a record in a step, in (0, 1].

    Notes
    -----
    With y the reach of a noisy sum along a canary's direction, in clipping norms, the step's ratio
    is log(1 + q (exp((2 y - 1) / (2 s^2)) - 1)): y is normal with standard deviation s and mean 1
    where the canary takes part, with probability q if it is in, and mean 0 otherwise.  Who knows
    the others reads s from the median size of what he sees, over directions and steps so far: with
    hundreds of canaries that is the noise there is, whatever is claimed, and with a few mostly what
    is claimed.  For who does not know them each direction has its own s: the root of the mean
    square of what was seen there before, and of the noise.

    Examples
    --------
    >>> import numpy as np
    >>> from lib.audit.white_box import CanaryRecorder
    >>> recorder = CanaryRecorder([True, False], noise_multiplier=0.5, sample_rate=0.5)
    >>> recorder.add([0.9, 0.1])
    >>> recorder.scores().released.round(2).tolist()
    [1.09, -0.51]
    """

    def __init__(self, coins: npt.ArrayLike, noise_multiplier: float, sample_rate: float):
        self.coins = as_flags("coins", coins).copy()
        require_finite("noise_multiplier", noise_multiplier, above=0)
        require_finite("sample_rate", sample_rate, above=0, at_most=1)
        self.noise_multiplier, self.sample_rate = float(noise_multiplier), float(sample_rate)
        m = len(self.coins)
        self._sums = {name: np.zeros(m) for name in ("released", "known")}
        self._ratios = {name: np.zeros(m) for name in ("released", "known")}
        self._squares = np.full(m, self.noise_multiplier**2)
        # What is claimed counts as much as this part of a step counts.
        self._weight = _CLAIMED / m
        self._noise = self._weight * self.noise_multiplier**2
        self._counts = StepCounts.begun(m)
        self._last = np.zeros(m)  # what was seen last of those that did not take part
        self.steps = 0
        self._kinds: tuple[bool, bool] | None = None

    def add(
        self,
        released: npt.ArrayLike,
        known: npt.ArrayLike | None = None,
        sampled: npt.ArrayLike | None = None,
    ) -> None:
        """Take in a step.

        Parameters
        ----------
        released : array_like of float, shape (m,)
            Reach of the noisy sum of clipped gradients along each direction, in clipping norms.
        known : array_like of float, shape (m,), optional
            The same, less what the other records added.
        sampled : array_like of bool, shape (m,), optional
            Which canaries took part.
        """
        seen = {"released": self._vector("released", released)}
        kinds = known is not None, sampled is not None
        if self._kinds not in (None, kinds):
            raise ValueError("known and sampled must be given in all steps or in none")
        if known is not None:
            seen["known"] = self._vector("known", known)
        took = None if sampled is None else as_flags("sampled", sampled, len(self.coins))
        if took is not None and (took & ~self.coins).any():
            raise ValueError(
                "sampled must name no canary that is out, got"
                f" {int((took & ~self.coins).sum())} of them"
            )
        self._kinds = kinds
        spread = {"released": np.sqrt(self._squares / (1 + self.steps))}
        if known is not None:
            self._noise += (float(np.median(np.abs(seen["known"]))) / _MEDIAN) ** 2
            spread["known"] = math.sqrt(self._noise / (self._weight + self.steps + 1))
        for name, y in seen.items():
            self._sums[name] += y
            self._ratios[name] += _log_ratio(y, spread[name], self.sample_rate)
        self._squares += seen["released"] ** 2
        if known is not None and took is not None:
            self._last = self._counts.add(seen["known"], took, self._last)
        self.steps += 1

    def _vector(self, name: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        array = as_real(name, values)
        if array.shape != self.coins.shape:
            raise ValueError(
                f"{name} must be of shape {self.coins.shape}, a number for each canary, got"
                f" {array.shape}"
            )
        if not np.isfinite(array).all():
            bad = int((~np.isfinite(array)).sum())
            raise ValueError(f"{name} must be finite, got {bad} NaN or infinite values")
        return array.astype(float)

    def scores(self) -> CanaryScores:
        """What was seen so far."""
        with_known, with_sampled = self._kinds or (False, False)
        return CanaryScores(
            coins=self.coins.copy(),
            released=self._ratios["released"].copy(),
            released_sums=self._sums["released"].copy(),
            known=self._ratios["known"].copy() if with_known else None,
            known_sums=self._sums["known"].copy() if with_known else None,
            noise_multiplier=self.noise_multiplier,
            sample_rate=self.sample_rate,
            steps=self.steps,
            counts=self._counts.copy() if with_known and with_sampled else None,
        )

    def state(self) -> dict[str, npt.NDArray]:
        """Arrays that :meth:`restore` goes on from."""
        arrays = {f"{name}_sums": each for name, each in self._sums.items()}
        arrays |= {f"{name}_ratios": each for name, each in self._ratios.items()}
        kinds = [] if self._kinds is None else self._kinds
        arrays |= {"squares": self._squares, "last": self._last, "kinds": np.array(kinds, bool)}
        arrays |= {"noise": np.array(self._noise)}
        arrays |= {"steps": np.array(self.steps), "took_part": self._counts.took_part}
        counts = np.array([getattr(self._counts, name) for name in StepCounts.numbers()])
        # Copies: the next step adds to the arrays in their place.
        return {name: np.copy(each) for name, each in (arrays | {"counts": counts}).items()}

    def restore(self, arrays: Mapping[str, npt.NDArray]) -> None:
        """Go on from what :meth:`state` gave."""
        for name in self._sums:
            self._sums[name] = np.array(arrays[f"{name}_sums"], float)
            self._ratios[name] = np.array(arrays[f"{name}_ratios"], float)
        self._squares, self._last = np.array(arrays["squares"]), np.array(arrays["last"])
        self._noise, self.steps = float(arrays["noise"]), int(arrays["steps"])
        self._kinds = tuple(bool(k) for k in arrays["kinds"]) or None
        numbers = dict(zip(StepCounts.numbers(), arrays["counts"].tolist(), strict=True))
        numbers["steps"] = int(numbers["steps"])
        self._counts = StepCounts(np.array(arrays["took_part"]), **numbers)


def _log_ratio(y: npt.NDArray, s: Any, q: float) -> npt.NDArray[np.float64]:
    """log(1 - q + q exp(x)); beyond the range of exp, x counts linearly."""
    x = y - 0.5
    x /= s * s
    if q == 1:
        return x
    inside = np.minimum(x, _RANGE)
    x -= inside
    np.exp(inside, out=inside)
    inside *= q
    inside += 1 - q
    return x + np.log(inside, out=inside)


def canary_scores(
    noisy_sums: Iterable[npt.ArrayLike],
    directions: Directions | npt.ArrayLike,
    coins: npt.ArrayLike,
    *,
    clipping_norm: float,
    noise_multiplier: float,
    sample_rate: float,
    others: Iterable[npt.ArrayLike] | None = None,
    sampled: Iterable[npt.ArrayLike] | None = None,
) -> CanaryScores:
    """Scores of canaries from the noisy sums of any training.

    Parameters
    ----------
    noisy_sums : iterable of array_like, each of shape (p,)
        The noisy sum of clipped gradients of each step, as released: not divided by a batch size.
    directions : Directions or array_like of float, shape (m, p)
        Of the canaries; as an array, orthonormal rows.
    coins : array_like of bool, shape (m,)
        Who was in.
    clipping_norm, noise_multiplier, sample_rate : float
        As claimed, above 0; the rate at most 1.
    others : iterable of array_like, each of shape (p,), optional
        What the other records added to each sum, for the adversary who knows them.
    sampled : iterable of array_like of bool, each of shape (m,), optional
        Which canaries took part in each step.

    Returns
    -------
    CanaryScores

    Raises
    ------
    ValueError
        On bad input, such as directions that overlap or more directions than coordinates.

    Examples
    --------
    A loop that hands over its noisy sums:

    >>> import numpy as np
    >>> from lib.audit.white_box import GradientCanaries, canary_scores
    >>> canaries = GradientCanaries(400, seed=1)
    >>> coins, directions = canaries.coins(), canaries.directions(1000)
    >>> rng, rate, sigma, clip = np.random.default_rng(0), 0.1, 1.0, 2.0
    >>> def step():
    ...     total = np.zeros(1000)  # of the clipped gradients of a batch
    ...     took = coins & (rng.random(400) < rate)
    ...     total[directions.places[took, 0]] += clip * directions.signs[took, 0]
    ...     return total + clip * sigma * rng.normal(size=1000)
    >>> claimed = {"clipping_norm": clip, "noise_multiplier": sigma, "sample_rate": rate}
    >>> found = canary_scores((step() for _ in range(50)), directions, coins, **claimed)
    >>> bool(found.released[coins].mean() > found.released[~coins].mean())
    True
    """
    require_finite("clipping_norm", clipping_norm, above=0)
    recorder = CanaryRecorder(coins, noise_multiplier, sample_rate)
    if not isinstance(directions, Directions):
        directions = _orthonormal(directions)
    if len(directions) != len(recorder.coins):
        raise ValueError(
            f"coins must be one for each of the {len(directions)} directions, got"
            f" {len(recorder.coins)}"
        )
    given = {"noisy_sums": noisy_sums, "others": others, "sampled": sampled}
    for step in _together({name: each for name, each in given.items() if each is not None}):
        reach = _along(directions, "noisy_sums", step["noisy_sums"]) / clipping_norm
        known = None
        if others is not None:
            known = reach - _along(directions, "others", step["others"]) / clipping_norm
        recorder.add(reach, known, step.get("sampled"))
    if not recorder.steps:
        raise ValueError("noisy_sums must have a step at least, got none")
    return recorder.scores()


def _together(sources: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What all of them have of each step."""
    for name, source in sources.items():
        if not isinstance(source, Iterable) or isinstance(source, str):
            raise ValueError(
                f"{name} must be a sequence of arrays, one for each step, got {source!r}"
            )
    end = object()
    for step, parts in enumerate(zip_longest(*sources.values(), fillvalue=end)):
        lacking = [name for name, part in zip(sources, parts, strict=True) if part is end]
        if lacking:
            raise ValueError(
                f"{lacking[0]} must have as many steps as the other arguments, got {step}"
            )
        yield dict(zip(sources, parts, strict=True))


class _Rows:
    """Orthonormal rows, written out."""

    def __init__(self, rows: npt.NDArray[np.float64]):
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def along(self, vector: npt.NDArray) -> npt.NDArray[np.float64]:
        return self.rows @ vector


def _orthonormal(directions: npt.ArrayLike) -> _Rows:
    rows = as_real("directions", directions).astype(float)
    if rows.ndim != 2 or not rows.size or len(rows) > rows.shape[1]:
        raise ValueError(
            "directions must be of shape (m, p) with m of at least 1 and at most p: more directions"
            f" than coordinates cannot be orthogonal; got {rows.shape}"
        )
    if not np.isfinite(rows).all():
        raise ValueError("directions must be finite, got NaN or infinite values")
    off = np.abs(rows @ rows.T - np.eye(len(rows)))
    if off.max() > 1e-6:
        i, j = np.unravel_index(off.argmax(), off.shape)
        raise ValueError(
            f"directions must be orthonormal, but rows {i} and {j} have the product"
            f" {rows[i] @ rows[j]:.3g}: canaries that overlap see each other; divide them by their"
            " norms, or take GradientCanaries(...).directions(p)"
        )
    return _Rows(rows)


def _along(directions: Directions | _Rows, name: str, values: npt.ArrayLike) -> npt.NDArray:
    vector = as_real(name, values)
    if isinstance(directions, Directions):
        least = int(directions.places.max()) + 1
        fits, wanted = vector.ndim == 1 and len(vector) >= least, f"(p,) with p at least {least}"
    else:
        fits, wanted = vector.shape == directions.rows.shape[1:], f"({directions.rows.shape[1]},)"
    if not fits:
        raise ValueError(f"{name} must be vectors of shape {wanted}, got {vector.shape}")
    return directions.along(vector)

"""Privacy loss distributions of subsampled Gaussian steps, by connect-the-dots.

A pair of neighboring data sets gives a pair of distributions P, Q of what is released; the loss is
log(P / Q) under P.  Each step's pair is replaced by a discrete one whose hockey-stick divergence
``H(e) = sup P(S) - exp(e) Q(S)`` connects the true one's values at the multiples of a mesh, and so
is nowhere below it (Doroshenko et al. 2022, who prove that it is the tightest such pair).  Losses
of composed steps add up: their distributions are convolved by Fourier transforms.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import fft, signal, special

from lib.privacy.renyi import History

_Z = 10.0  # standard deviations: what is beyond has a chance of 1e-23 a step, and infinite loss
_TAIL = 1e-15  # chance that composed losses leave the window of the transform
_CELLS = 2**19  # of a step's distribution, at most
_WINDOW = 2**20  # of the composed one, at most
_FAR = 1e150  # of which the square is finite: no chance is left there
FINEST = 1e-9  # mesh: it resolves as much of any epsilon
_COARSEST = 300.0  # mesh whose exponential has a square


@dataclass(frozen=True, eq=False)
class Losses:
    """Distribution of a discrete loss: chances of the multiples ``first``, ... of ``mesh``.

    Attributes
    ----------
    mesh : float
    first : int
    chances : ndarray of float64
    infinite : float
        Chance of an infinite loss.
    """

    mesh: float
    first: int
    chances: npt.NDArray[np.float64]
    infinite: float

    def profile(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """At the losses l from 0 on: H(l), and the sum of chances times exp(l - loss) from l on."""
        start = max(0, -self.first)
        p = self.chances[start:] if start < len(self.chances) else np.zeros(1)
        # sum_k>=l p_k exp(l - k mesh), by a recursion from the far end: every term is positive and
        # at most p_k, so nothing cancels and nothing overflows.
        scaled = signal.lfilter([1.0], [1.0, -math.exp(-self.mesh)], p[::-1])[::-1]
        above = np.cumsum(p[::-1])[::-1]
        return self.infinite + np.maximum(0.0, above - scaled), scaled

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon >= 0 at which H is at most delta."""
        if self.infinite > delta:
            return math.inf
        found, scaled = self.profile()
        # H falls with epsilon: the last multiple at which it is too large is where to look.
        exceeding = np.flatnonzero(found > delta)
        k = int(exceeding[-1]) + 1 if len(exceeding) else 0
        loss = (max(0, self.first) + k) * self.mesh
        if scaled[k] <= 0:  # no chance from there on, but for rounding
            return loss
        surplus = found[k] + scaled[k] - delta  # below l, H is linear in exp(epsilon)
        return max(0.0, loss + math.log(surplus / scaled[k])) if surplus > 0 else 0.0


def mesh_for(history: History, mesh: float) -> float:
    """`mesh`, or an eighth of the smallest standard deviation of a step's loss.

    Discretization then adds less than one part in three hundred to a variance.
    """
    for q, sigma, _ in history:
        if sigma > 0.1:  # about the variance of a small loss
            mesh = min(mesh, q * math.sqrt(math.expm1(1 / sigma / sigma)) / 8)
    return max(mesh, FINEST)


@lru_cache(maxsize=4)
def loss_distributions(
    history: History, mesh: float, replace: bool = False, pure: tuple[float, ...] = ()
) -> tuple[Losses, ...]:
    """Distributions, no better than the true ones, for the two directions of a neighbor.

    Parameters
    ----------
    history : tuple of (rate, noise multiplier, steps)
    mesh : float
        Taken coarser, by powers of 2, where the losses would need more than a million points.
    replace : bool
        Neighbors differ in the content of an example; both directions are then the same.
    pure : tuple of float
        Epsilons of purely private mechanisms, each as a randomized response, the worst of them.

    Returns
    -------
    tuple of Losses
        One, or two; none where losses are beyond the range of numbers.
    """
    while mesh < _COARSEST:
        cells = max(_reach(q, sigma, replace) / mesh for q, sigma, _ in history)
        if not math.isfinite(cells):
            break
        # Coarser until the distribution of one step fits, and then until that of all steps does.
        excess = cells / _CELLS
        if excess <= 1:
            sides = zip(*(_step(q, sigma, mesh, replace) for q, sigma, _ in history), strict=True)
            counts, coins = [steps for *_, steps in history], _coins(pure, mesh)
            windows = [(side, *_window(side, counts, coins)) for side in sides]
            excess = max(high - low + 1 for _, low, high in windows) / _WINDOW
            if excess <= 1:
                return tuple(
                    _compose(side, counts, coins, low, high) for side, low, high in windows
                )
        mesh *= 2.0 ** math.ceil(math.log2(excess))
    return ()


def _reach(q: float, sigma: float, replace: bool) -> float:
    """The largest loss that is kept."""
    high = _loss(q, (_Z + 0.5 / sigma) / sigma)
    return high - _loss(q, (-_Z - 1.5 / sigma) / sigma) if replace else high


def _loss(q: float, t: float) -> float:
    """log(1 - q + q exp(t))."""
    if q == 1:
        return t
    return (
        math.log1p(q * math.expm1(t))
        if t < 1
        else math.log(q) + t + math.log1p((1 - q) / q * math.exp(-t))
    )


def _step(q: float, sigma: float, mesh: float, replace: bool) -> tuple[Losses, ...]:
    """Distributions of a step's losses, in one direction and in the other."""
    up = mesh * np.arange(max(1, math.ceil(_reach(q, sigma, replace) / mesh)) + 1)
    if replace:
        over = _over_replaced(q, sigma, up)
        return (_connect(mesh, over, over),)
    least = _loss(q, (-_Z - 0.5 / sigma) / sigma)
    down = mesh * np.arange(max(1, math.ceil(-least / mesh)) + 1)
    one, other = _over(q, sigma, up), _over_reversed(q, sigma, down)
    return _connect(mesh, one, other), _connect(mesh, other, one)


def _over(q: float, sigma: float, e: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """H(e) of the mixture from the noise, e >= 0: where the mixture's loss is above e."""
    log_odds = _log_odds(q, e)
    # The loss is above e where the released number lies beyond `at` (from the middle of the two
    # normal distributions, in standard deviations).
    at = np.minimum(sigma * log_odds, _FAR)
    shifted, noise = special.log_ndtr(0.5 / sigma - at), special.log_ndtr(-0.5 / sigma - at)
    return q * np.exp(shifted) * -np.expm1(np.minimum(0.0, log_odds + noise - shifted))


def _over_reversed(q: float, sigma: float, e: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """H(e) of the noise from the mixture, e >= 0: where the mixture's loss is below -e."""
    inside = np.exp(-e) > 1 - q if q < 1 else e >= 0  # as far as losses go
    e_in = np.where(inside, e, 0.0)
    far = np.log(np.exp(-e_in) - (1 - q)) - math.log(q) if q < 1 else -e_in
    near = np.where(e_in < 1, np.expm1(-e_in) / q, 0.0)
    log_odds = np.where(e_in < 1, np.log1p(near), far)
    at = np.maximum(sigma * log_odds, -_FAR)
    noise = log_odds + special.log_ndtr(at + 0.5 / sigma)
    shifted = special.log_ndtr(at - 0.5 / sigma)
    found = q * np.exp(e + noise) * -np.expm1(np.minimum(0.0, shifted - noise))
    return np.where(inside, np.minimum(found, 1.0), 0.0)


def _log_odds(q: float, e: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """log((exp(e) - 1 + q) / q) for e >= 0."""
    small = np.log1p(np.expm1(np.minimum(e, 1.0)) / q)
    large = e - math.log(q) + np.log1p(-(1 - q) * np.exp(-np.maximum(e, 1.0)))
    return np.where(e < 1, small, large)


def _over_replaced(q: float, sigma: float, e: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """H(e) of (1 - q) N(0) + q N(1) from (1 - q) N(0) + q N(-1), e >= 0."""
    half = np.maximum(e / 2, 1e-300)
    with np.errstate(divide="ignore"):
        log_sinh = np.where(
            half < 1,
            np.log(np.sinh(np.minimum(half, 1.0))),
            half - math.log(2) + np.log1p(-np.exp(-2 * half)),
        )
        a = (math.log1p(-q) if q < 1 else -math.inf) - math.log(q) + 0.5 / sigma / sigma + log_sinh
    arcsinh = np.where(
        a < 0, np.arcsinh(np.exp(np.minimum(a, 0.0))), np.logaddexp(a, np.logaddexp(2 * a, 0.0) / 2)
    )
    x = np.minimum(sigma * (e / 2 + arcsinh), _FAR)
    one, none, other = (special.log_ndtr(at / sigma - x) for at in (1, 0, -1))
    spared = np.exp(np.minimum(0.0, e + other - one))
    if q < 1:
        idle = e + np.log(-np.expm1(-np.maximum(e, 1e-300))) + math.log1p(-q) - math.log(q)
        spared = spared + np.exp(np.minimum(0.0, idle + none - one))
    return q * np.exp(one) * np.maximum(0.0, 1 - spared)


def _connect(
    mesh: float, over: npt.NDArray[np.float64], reverse: npt.NDArray[np.float64]
) -> Losses:
    """The discrete losses whose H connects the values at the multiples of the mesh.

    `over` are those values from 0 on, `reverse` the same of the other direction.  Below 0, H(-e) is
    1 - exp(-e) + exp(-e) times the latter.  Without 1 - exp(-e), which is that of equal
    distributions, all chances are sums of terms that do not cancel.
    """
    # With h_k = H(k mesh) the chance of the loss k mesh is a second difference of h in
    # exp(epsilon), in which H is piecewise linear:
    #
    #     p_k = (h_{k+1} - h_k - exp(mesh) (h_k - h_{k-1})) / (exp(mesh) - 1)
    rise, ratio = math.expm1(mesh), math.exp(mesh)
    under = reverse * np.exp(-mesh * np.arange(len(reverse)))
    right, left = np.diff(over), np.diff(under)  # neither is positive
    up = np.append(right[1:], 0.0) - ratio * right
    down = np.append(ratio * left[1:] - left[:-1], -left[-1] - rise * under[-1])
    middle = rise + right[0] + ratio * left[0]
    chances = np.maximum(0.0, np.concatenate((down[::-1], [middle], up)) / rise)
    return Losses(mesh, -len(left), chances, float(over[-1]))


def _coins(pure: Iterable[float], mesh: float) -> dict[int, int]:
    """How many randomized responses there are of which loss, rounded up to the mesh.

    At most fifty kinds: of more, losses are rounded up to coarser multiples.
    """
    losses = [math.ceil(epsilon / mesh) for epsilon in pure]
    if len(set(losses)) > 50:
        unit = math.ceil(max(losses) / 50)
        losses = [unit * math.ceil(loss / unit) for loss in losses]
    return {loss: losses.count(loss) for loss in sorted(set(losses))}


def _compose(
    sides: tuple[Losses, ...], counts: list[int], coins: dict[int, int], low: int, high: int
) -> Losses:
    """The sum of independent losses, in a window of multiples of the mesh."""
    mesh = sides[0].mesh
    if counts == [1] and not coins:
        return sides[0]
    # Losses add up, so distributions are convolved: a product after a Fourier transform. The
    # transform is cyclic: what leaves the window comes in at its other end, and :func:`_window` has
    # made sure that its chance is below ``_TAIL``.
    size = fft.next_fast_len(high - low + 1, real=True)
    total, offset = np.ones(size // 2 + 1, dtype=complex), 0
    for side, steps in zip(sides, counts, strict=True):
        wrapped = np.zeros(-(-len(side.chances) // size) * size)
        wrapped[: len(side.chances)] = side.chances
        total *= fft.rfft(wrapped.reshape(-1, size).sum(axis=0)) ** steps
        offset += steps * side.first
    angle = 2j * math.pi / size * np.arange(size // 2 + 1)
    for loss, count in coins.items():
        up, turn = special.expit(loss * mesh), np.exp(-(loss % size) * angle)
        # A randomized response: loss +e with chance e^e / (1 + e^e), and -e otherwise.
        total *= (up * turn + (1 - up) / turn) ** count
    chances = np.roll(fft.irfft(total, size), (offset - low) % size)[: high - low + 1]
    finite = sum(t * math.log1p(-s.infinite) for s, t in zip(sides, counts, strict=True))
    return Losses(mesh, low, chances, _TAIL - math.expm1(finite))


def _window(sides: tuple[Losses, ...], counts: list[int], coins: dict[int, int]) -> tuple[int, int]:
    """Multiples of the mesh that the sum leaves with a chance of at most ``_TAIL`` (Chernoff)."""
    parts = []
    for side, steps in zip(sides, counts, strict=True):
        seen = np.flatnonzero(side.chances)
        parts.append((seen + float(side.first), side.chances[seen], steps))
    for loss, count in coins.items():
        up = special.expit(loss * sides[0].mesh)
        parts.append((np.array([-loss, loss], dtype=float), np.array([1 - up, up]), count))
    low, high = (sum(t * int(at[end]) for at, _, t in parts) for end in (0, -1))
    variance = 0.0
    for at, p, t in parts:
        share = p / p.sum()
        variance += t * float((at - at @ share) ** 2 @ share)
    # P(sum > b) <= exp(-r b) E exp(r sum) for any rate r > 0; the best of nine rates is near
    # enough.
    for k in range(-6, 3):  # of a normal distribution it is the one with k = 0
        rate = 8.5 * 2.0**k / math.sqrt(max(variance, 1e-12))
        for sign in (1, -1):
            log_mean = 0.0
            for at, p, t in parts:
                power = sign * rate * at
                most = power.max()
                log_mean += t * (most + math.log(p @ np.exp(np.maximum(power - most, -700.0))))
            bound = math.ceil(min((log_mean + math.log(2 / _TAIL)) / rate, 2.0**62))
            low, high = (low, min(high, bound)) if sign > 0 else (max(low, -bound), high)
    return low, max(low, high)

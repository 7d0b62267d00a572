"""What PATE may say of its own cost: the data-dependent epsilon, released with noise.

The cost by the votes (:func:`lib.privacy.pate_epsilon`) is a function of private labels.
Papernot et al. 2018, section 3 and appendix B, publish it with Gaussian noise in proportion to its
*smooth sensitivity* (Nissim, Raskhodnikova and Smith 2007), and charge for that noise, too.

Changing one label changes one teacher, and one vote that moves in *every* query.  Bounds on the
local sensitivity at distance d (d teachers changed) therefore add up over queries.  They are
functions of the order: here of a single one, which must be chosen without the votes.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtri, ndtri_exp

from lib.check import as_generator, as_vector, require_finite, require_int, same_rows
from lib.privacy.pate import (
    _ORDERS,
    _check_masks,
    _check_run,
    gnmax_log_q,
    likely_outcome_rdp,
    threshold_rdp,
)

_SHARE = 0.1  # of the cost without the votes, that a release costs
_GRID = 2000  # points at which the conditions of the analysis are checked
_MOST = 1e300  # of -log q
_DISTANCES = 2000  # at which sensitivities are bounded; what is farther has the largest of all


@dataclass(frozen=True)
class PublishedCost:
    """A data-dependent epsilon as it may be published; see :func:`publish_epsilon`.

    Attributes
    ----------
    epsilon : float
        What is published: at the order's Renyi cost plus noise, the noise's own cost included.
    low, high : float
        What it would be at the ends of the noise's central 95%.  Private, like `exact`.
    exact : float
        The same without noise and its cost.
    order : float
        The Renyi order of all four.
    noise_rdp : float
        What the release itself costs at that order.
    smooth : float
        Smooth sensitivity of the Renyi cost.  Private.
    """

    epsilon: float
    low: float
    high: float
    exact: float
    order: float
    noise_rdp: float
    smooth: float


def smooth_noise_rdp(beta: float, noise: float, order: float) -> float:
    """Renyi cost of releasing f + S N(0, noise^2), where S is a beta-smooth sensitivity of f.

    Parameters
    ----------
    beta : float
        At least 0.
    noise : float
        Standard deviation in units of S, above 0.
    order : float
        Above 1.

    Returns
    -------
    float
        Infinite where the order is 1 + 1 / (e^(2 beta) - 1) or more.

    Notes
    -----
    Neighbors have f and f' apart by at most min(S, S'), and S / S' between e^-beta and e^beta.
    The divergence of two normal distributions is known (Gil, Alajaji and Linder 2013), and largest
    where S' = e^-beta S and f' is S' away.  With w = 1 - (order - 1) (e^(2 beta) - 1) it is ::

        order / (2 noise^2 w) - beta - log(w) / (2 (order - 1))

    Papernot et al. 2018, Theorem 23, as their program has it (``smooth_sensitivity.py``), has
    order e^(2 beta) / noise^2 for the first term, up to order = 1 / (2 beta).  That is more than
    this down to w = 1/2 or so, and far less where w is small, as with the authors' beta =
    0.49 / order: the tests hold two normal distributions whose divergence is larger.

    Examples
    --------
    >>> round(smooth_noise_rdp(0.0, 2.0, order=4.0), 3)  # plain Gaussian noise: 4 / (2 * 2**2)
    0.5
    """
    require_finite("beta", beta, at_least=0)
    require_finite("noise", noise, above=0)
    require_finite("order", order, above=1)
    w = 1 - (order - 1) * math.expm1(min(2 * beta, 700.0))
    if w <= 0:
        return math.inf
    found = order / w / noise / noise / 2 - beta - math.log(w) / (2 * (order - 1))
    return max(0.0, found)


def smooth_sensitivity(bounds: npt.ArrayLike, beta: float) -> float:
    """Smooth sensitivity: the largest e^(-beta d) times a bound at distance d.

    Parameters
    ----------
    bounds : array_like of float, (n_distances,)
        Not negative: on the local sensitivity of everything at distance 0, 1, ...
    beta : float
        At least 0.

    References
    ----------
    Nissim, Raskhodnikova and Smith 2007, Claim 3.2; Papernot et al. 2018, appendix B.

    Examples
    --------
    >>> round(smooth_sensitivity([0.0, 1.0, 1.0], beta=0.5), 3)
    0.607
    """
    require_finite("beta", beta, at_least=0)
    bounds = as_vector("bounds", bounds)
    if bounds.min() < 0:
        raise ValueError(f"bounds must not be negative, got {bounds.min()}")
    away = np.minimum(beta, 1e300) * np.minimum(np.arange(len(bounds)), 1e6)
    return float(np.max(np.exp(-np.minimum(away, 800.0)) * bounds))


def gnmax_sensitivity(votes: npt.ArrayLike, sigma2: float, order: float) -> np.ndarray:
    """Bounds on the local sensitivity of GNMax's Renyi cost, by query and distance.

    Papernot et al. 2018, Algorithms 3 to 5.  The cost (:func:`gnmax_cost`) depends on the votes by
    q alone, and a neighbor's q lies between two functions of q.  The resulting bound rises with q
    up to q1, is largest up to q0 and then falls (Proposition 13), so that the largest at a distance
    is at the q nearest to [q1, q0] that moving votes between the two most voted classes can reach.
    Proposition 13 has conditions (C5 and C6 of section B.4.2), checked on a grid.  Where they fail,
    all bounds are order / sigma2^2, which no cost exceeds.

    Shape (n_queries, n_teachers), of 2000 teachers at most: the last column stands for all that
    are farther and has the largest of all.  From the first distance on that reaches [q1, q0], or
    passes it, all are the largest (the authors' program has the value beyond it once where it is
    passed).
    """
    votes = np.asarray(votes)
    n, classes = votes.shape
    teachers = min(_DISTANCES, int(votes[0].sum())) if n else 0
    if not (classes > 1 and all(conditions(sigma2, classes, order))):
        return np.full((n, teachers), _independent(sigma2, order) if classes > 1 else 0.0)
    top, least = log_q0(sigma2, order), log_q1(sigma2, classes, order)
    # From q1 a neighbor reaches q0, where the cost may jump: not to be left to rounding.
    here = _cost(np.array([least]), sigma2, order)
    down = _cost(_moved(np.array([least]), sigma2, classes, -1), sigma2, order)
    plateau = max(_independent(sigma2, order) - here[0], (here - down)[0])
    # Classes are alike to the cost: queries with the same sorted votes are computed once.
    kinds, which = np.unique(np.sort(votes, axis=1)[:, ::-1], axis=0, return_inverse=True)
    bounds = np.full((len(kinds), teachers), plateau)
    log_q = gnmax_log_q(kinds, sigma2)
    left, rows = log_q > top, np.flatnonzero((log_q > top) | (log_q < least))
    now = kinds.copy()
    for d in range(teachers):
        bounds[rows, d] = _sensitivity_at(log_q[rows], sigma2, classes, order)
        # A vote moves between the two most voted classes: q falls with their distance.
        step = np.where(left[rows], 1, -1)
        can = np.where(left[rows], now[rows, 1] > 0, True)
        rows, step = rows[can], step[can]
        if not len(rows):
            break
        now[rows, 0] += step
        now[rows, 1] -= step
        now[rows, 1:] = np.sort(now[rows, 1:], axis=1)[:, ::-1]
        log_q[rows] = gnmax_log_q(now[rows], sigma2)
        rows = rows[np.where(left[rows], log_q[rows] > top, log_q[rows] < least)]
    bounds[:, -1:] = plateau  # where all disagree, a neighbor may be there one move before
    return bounds[which.ravel()]


def threshold_sensitivity(
    votes: npt.ArrayLike, sigma1: float, threshold: float, order: float
) -> np.ndarray:
    """The same of the threshold check's cost, the largest up to each distance.

    The authors' program adds up, over queries, what is largest at exactly a distance.  A changed
    teacher need not move the largest count of all queries, so that such a sum is no bound.
    """
    at = threshold_sensitivity_at(votes, sigma1, threshold, order)
    return np.maximum.accumulate(at, axis=1)


def threshold_sensitivity_at(
    votes: npt.ArrayLike, sigma1: float, threshold: float, order: float
) -> np.ndarray:
    """Local sensitivity of the threshold check's cost where the largest count is d more or less.

    That count alone decides, and a vote changes it by at most 1.  As in ``smooth_sensitivity.py``
    of the authors, which leaves out unanimous votes at some distances.
    """
    votes = np.asarray(votes)
    teachers = int(votes[0].sum()) if len(votes) else 0
    largest, inverse = np.unique(votes.max(axis=1), return_inverse=True)
    away = np.arange(min(teachers, _DISTANCES))
    bounds = np.zeros((len(largest), len(away)))
    for row, most in enumerate(largest):
        for counts in (most + away, most - away):
            local = _changes(counts, teachers, sigma1, threshold, order)
            bounds[row] = np.maximum(bounds[row], local)
    if teachers > _DISTANCES:
        bounds[:, -1] = _independent(math.sqrt(2) * sigma1, order)
    return bounds[inverse]


def _changes(counts, teachers: int, sigma1: float, threshold: float, order: float) -> np.ndarray:
    """What the check's cost changes by to the larger or smaller neighbor of a largest count."""
    around = np.clip(counts[:, None] + np.array([-1, 0, 1]), 0, teachers)
    cost = threshold_rdp(around.reshape(-1, 1), sigma1, threshold, [order]).reshape(around.shape)
    local = np.abs(np.diff(cost, axis=1)).max(axis=1)
    return np.where((counts >= 1) & (counts <= teachers), local, 0.0)  # somebody has a vote


def publish_epsilon(
    votes: npt.ArrayLike,
    sigma1: float,
    sigma2: float,
    threshold: float,
    delta: float,
    answered: npt.ArrayLike | int,
    asked: npt.ArrayLike | None = None,
    *,
    seed: int | np.random.Generator,
) -> PublishedCost:
    """Epsilon of a run of Confident-GNMax that may be published: by its votes with noise, or free.

    Free is the guarantee without the votes (``data_independent`` of
    :func:`lib.privacy.pate_epsilon`, with `answered` as here).  The smaller of the two is returned.

    The order is the best one of the cost without the votes, beta half of what it allows (w = 1/2 in
    :func:`smooth_noise_rdp`), and the noise such that the release costs a tenth of the cost without
    the votes: all three are public.  What is published by the votes is below the cost with the
    release about as often as above it.

    Where a release would cost as much as the whole run without the votes (no query, for one), the
    free guarantee is returned whatever the votes.  Elsewhere the noise decides which of the two is:
    the free one is proven for the answers, and the answers together with the number returned, which
    tells that the other was no smaller, cost at most `noise_rdp` more at the order of the release.

    Parameters
    ----------
    votes, sigma1, sigma2, threshold, delta, asked
        As for :func:`lib.privacy.pate_epsilon`.
    answered : array_like of bool, (n_queries,), or int
        The queries that were answered: the realized cost, with all that is said of it there.  Or
        how many are answered at most: the cost of the dearest run, all checks and the dearest
        answers, which no run exceeds.
    seed : int or Generator
        Of the noise.  Who knows it knows the cost: keep it secret.

    Returns
    -------
    PublishedCost
        Infinite where the cost without the votes is; 0 without a query.

    References
    ----------
    Papernot et al. 2018, appendix B and Theorem 23; see :func:`smooth_noise_rdp` for what differs.

    Examples
    --------
    >>> cost = publish_epsilon([[90, 10]] * 40, 40.0, 20.0, 60.0, 1e-5, [True] * 40, seed=0)
    >>> cost.low < cost.epsilon < cost.high, cost.exact < cost.high
    (True, True)
    """
    same_rows(votes=votes, answered=answered, asked=asked)
    votes = _check_run(votes, sigma1, sigma2, threshold)
    require_finite("delta", delta, above=0, below=1)
    if np.ndim(answered) == 0:
        require_int("answered", answered, at_least=0, at_most=len(votes))
        most, (asked, _) = int(answered), _check_masks(len(votes), asked, None)
        rows = asked
    else:
        asked, rows = _check_masks(len(votes), asked, answered)
        most = int(rows.sum())
    # What is published has one draw of noise; 95% of all draws lie between the other two.
    z = np.array([ndtri(0.025), as_generator(seed).standard_normal(), ndtri(0.975)])
    independent = 0.0
    for count, sigma in ((int(asked.sum()), math.sqrt(2) * sigma1), (most, sigma2)):
        if count:  # a price may be infinite, of which none is nothing
            independent += count * _independent(sigma, 1.0)
    if not math.isfinite(independent):
        return PublishedCost(*[math.inf] * 4, float(_ORDERS[0]), math.inf, math.inf)
    order, free = _best_order(independent, delta)
    beta = math.log1p(0.5 / (order - 1)) / 2  # w = 1/2
    fixed = math.log(2) / (2 * (order - 1)) - beta  # of the release, however large the noise
    # A tenth of the cost without the votes, but more than even infinite noise costs.
    price = max(_SHARE * independent * order, 2 * fixed)
    noise = math.sqrt(order / (price - fixed))
    price = smooth_noise_rdp(beta, noise, order)

    exact = threshold_rdp(votes[asked], sigma1, threshold, [order]).sum()
    exact += _dearest(gnmax_cost(votes[rows], sigma2, order)[:, None], most).sum()
    bounds = threshold_sensitivity(votes, sigma1, threshold, order)[asked].sum(axis=0)
    bounds = bounds + _dearest(gnmax_sensitivity(votes, sigma2, order)[rows], most)
    smooth = smooth_sensitivity(bounds, beta) if len(votes) else 0.0
    alone = _epsilon(exact, order, delta)
    if price >= independent * order:
        return PublishedCost(free, free, free, alone, order, 0.0, smooth)
    low, published, high = (
        min(free, _epsilon(max(0.0, cost) + price, order, delta))
        for cost in exact + smooth * noise * z
    )
    return PublishedCost(published, low, high, alone, order, price, smooth)


def gnmax_cost(votes: npt.ArrayLike, sigma2: float, order: float) -> np.ndarray:
    """Renyi cost of one answer per query: as :func:`lib.privacy.pate.gnmax_rdp`, for q below q0."""
    return _cost(gnmax_log_q(votes, sigma2), sigma2, order)


@functools.lru_cache(maxsize=4096)
def log_q0(sigma: float, order: float) -> float:
    """Log of the q from which on the cost without the votes is used (``compute_logq0_gnmax``).

    The largest q below which Theorem 6 of Papernot et al. 2018 says less, up to a bound within
    which its conditions hold; minus infinity where there is none.
    """
    least = max(1 + 1 / sigma, (order - 0.99) / sigma)
    if least > math.sqrt(_MOST):
        return -math.inf
    high = -(least**2)

    def says_less(log_q: float) -> bool:
        return likely_outcome_rdp([log_q], sigma, [order])[0, 0] < _independent(sigma, order)

    low = high
    while not says_less(low):
        low *= 1.5
        if low < -_MOST:
            return -math.inf
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if says_less(middle) else (low, middle)
    return low


def log_q1(sigma: float, classes: int, order: float) -> float:
    """Log of the least q that a neighbor may have where q0 is."""
    return float(_moved(np.array([log_q0(sigma, order)]), sigma, classes, -1)[0])


@functools.lru_cache(maxsize=4096)
def conditions(sigma: float, classes: int, order: float) -> tuple[bool, bool]:
    """C5 and C6 of Papernot et al. 2018, section B.4.2, on a grid of q.

    The cost rises with q up to q0, and what it may rise by to a neighbor rises up to q1.
    """
    ends = log_q0(sigma, order), log_q1(sigma, classes, order)
    if not np.isfinite(ends).all():
        return False, False
    fifth, sixth = (end * np.geomspace(50, 1, _GRID) for end in ends)
    cost = _uncapped(fifth, sigma, order)
    rise = _uncapped(_moved(sixth, sigma, classes, 1), sigma, order)
    rise -= _uncapped(sixth, sigma, order)
    fifth_holds, sixth_holds = (
        bool(np.all(np.diff(each) >= -1e-12 * np.abs(each[1:]))) for each in (cost, rise)
    )
    return fifth_holds, sixth_holds


def _independent(sigma: float, order: float) -> float:
    """What an answer costs without the votes: order / sigma^2."""
    return float(likely_outcome_rdp([0.0], sigma, [order])[0, 0])


def _uncapped(log_q: np.ndarray, sigma: float, order: float) -> np.ndarray:
    return likely_outcome_rdp(log_q, sigma, [order])[:, 0]


def _cost(log_q: np.ndarray, sigma: float, order: float) -> np.ndarray:
    below = (log_q < log_q0(sigma, order)) | np.isneginf(log_q)
    return np.where(below, _uncapped(log_q, sigma, order), _independent(sigma, order))


def _moved(log_q: np.ndarray, sigma: float, classes: int, side: int) -> np.ndarray:
    """The largest (1) or least (-1) log q of a neighbor (Papernot et al. 2018, appendix B)."""
    others = math.log(classes - 1)
    moved = others + log_ndtr(ndtri_exp(log_q - others) + side * math.sqrt(2) / sigma)
    return np.minimum(moved, 0)


def _sensitivity_at(log_q, sigma, classes, order) -> np.ndarray:
    here, up, down = (
        _cost(each, sigma, order)
        for each in (log_q, _moved(log_q, sigma, classes, 1), _moved(log_q, sigma, classes, -1))
    )
    return np.maximum(up - here, here - down)


def _dearest(costs: np.ndarray, most: int) -> np.ndarray:
    """Sum of the `most` largest of each column.  Changes by at most those of the changes."""
    return np.sort(costs, axis=0)[::-1][:most].sum(axis=0)


def _best_order(independent: float, delta: float) -> tuple[float, float]:
    """Of a cost of `independent` times the order; and the epsilon there."""
    from dp_accounting.rdp import compute_epsilon  # here: it loads much of SciPy

    if independent == 0:
        return float(_ORDERS[-1]), 0.0
    epsilon, order = compute_epsilon(_ORDERS, independent * _ORDERS, delta)
    return float(order), float(epsilon)


def _epsilon(cost: float, order: float, delta: float) -> float:
    from dp_accounting.rdp import compute_epsilon

    return float(compute_epsilon([order], [cost], delta)[0])

"""What an audit can see: the smallest understatement of epsilon that it detects."""

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from lib.audit.counts import rate_intervals
from lib.audit.gaussian import mu_limits
from lib.audit.intervals import epsilon_lower_bounds
from lib.audit.one_run import FRACTIONS, fixed_guesses, one_run_p_value
from lib.audit.selection import true_best_epsilon
from lib.check import as_generator, as_number, require_choice, require_finite, require_int

#: Audits by how they bound epsilon.
AUDITS = ("held-out", "union", "held-out, Gaussian", "one run")

_LARGEST = 12.0  # a mu at which scores with and without the canary do not overlap


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The mu of the Gaussian mechanism that has exactly this epsilon at delta.

    Examples
    --------
    >>> round(gaussian_mu(4.377, 1e-5), 2)
    1.0
    """
    require_finite("epsilon", epsilon, above=0)
    as_number("delta", delta, 0, 1)
    least, most = 1e-9, 2 * math.sqrt(2) * math.sqrt(epsilon) + 2
    if true_best_epsilon(least, delta) >= epsilon:
        least = min(least, delta)  # where delta alone is enough
    while true_best_epsilon(most, delta) < epsilon:
        most *= 2
    found = brentq(
        lambda mu: true_best_epsilon(mu, delta) - epsilon,
        least,
        most,
        xtol=1e-300,  # relative, as mu may be tiny
        rtol=1e-13,
        maxiter=2000,
    )
    return float(found)


def detection_rate(
    audit: str,
    mus: npt.ArrayLike,
    models: int,
    epsilon: float,
    delta: float = 1e-5,
    *,
    level: float = 0.95,
    repetitions: int = 200,
    seed: int | np.random.Generator,
) -> npt.NDArray[np.float64]:
    """How often an audit's lower bound is above the claimed epsilon.

    Examples
    --------
    >>> detection_rate("union", [0.0, 12.0], 400, 1.0, repetitions=50, seed=0).tolist()
    [0.0, 1.0]
    """
    require_choice("audit", audit, AUDITS)
    if models < 8 or models % 4:
        raise ValueError(f"models must be a multiple of 4, at least 8, got {models!r}")
    rng = as_generator(seed)
    claimed = gaussian_mu(epsilon, delta)
    noise = rng.standard_normal((repetitions, models))
    rates = []
    if audit == "one run":
        members = rng.random(noise.shape) < 0.5
        needed = _needed(models, epsilon, delta, 1 - level)
        for mu in np.atleast_1d(mus):
            rates.append(_one_run(noise + mu * members, members, needed))
        return np.array(rates)
    members = np.arange(models) % 2 == 0
    for mu in np.atleast_1d(mus):
        scores = noise + mu * members
        if audit == "union":
            fn, fp, _ = _errors(scores, members)
            bounds = _epsilons(fn, fp, models // 2, delta, (1 - level) / models, "clopper-pearson")
            rates.append((bounds.max(1) > epsilon).mean())
            continue
        half = models // 2
        gaussian = audit != "held-out"
        cut = _thresholds(scores[:, :half], members[:half], delta, (1 - level) / 2, gaussian)
        guess, truth = scores[:, half:] >= cut[:, None], members[half:]
        fn, fp = (~guess & truth).sum(1), (guess & ~truth).sum(1)
        if gaussian:
            ends = _mu_ends(half // 2, (1 - level) / 2)
            rates.append((ends[fn] + ends[fp] > claimed).mean())
        else:
            bounds = _epsilons(fn, fp, half // 2, delta, (1 - level) / 2, "clopper-pearson")
            rates.append((bounds > epsilon).mean())
    return np.array(rates)


def detection_limit(
    audit: str, models: int, epsilon: float, delta: float = 1e-5, *, power: float = 0.9, **options
) -> float:
    """The smallest mu of an attack that an audit's bound detects with some probability.

    Notes
    -----
    A white-box attack on T steps without sub-sampling adds up the products of noisy updates and
    the canary's gradient.  That loses nothing: mu = sqrt(T) / sigma is the mechanism's own.  For
    an attack that sees a fraction a of it, divide the limit by a.

    References
    ----------
    Nasr et al. (2023), Tight auditing of differentially private machine learning.

    Examples
    --------
    >>> limit = detection_limit("held-out, Gaussian", 400, 1.0, seed=0)
    >>> 4 < true_best_epsilon(limit, 1e-5) < 7
    True
    """
    seed = int(as_generator(options.pop("seed")).integers(2**62))

    def found(mu: float) -> bool:
        return detection_rate(audit, mu, models, epsilon, delta, seed=seed, **options)[0] >= power

    low, high = gaussian_mu(epsilon, delta), _LARGEST
    if not found(high):
        return math.inf
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high


def _errors(scores, members):
    """False negatives and positives at every threshold, and the sorted scores, row by row."""
    order = np.argsort(-scores, axis=1)
    inside = members[order]
    zero = np.zeros((len(scores), 1), int)
    tp, fp = (np.c_[zero, np.cumsum(kind, axis=1)] for kind in (inside, ~inside))
    return members.sum() - tp, fp, np.take_along_axis(scores, order, 1)


def _mu_ends(trials: int, tail: float):
    """Each rate's term in the limit of mu; there are as many trials of either kind."""
    errors = np.arange(trials + 1)
    table = np.stack([trials - errors, errors, trials - errors, errors], axis=1)
    return mu_limits(table, tail) / 2


def _epsilons(fn, fp, trials: int, delta: float, tail: float, method: str):
    """Lower bounds from numbers of errors in as many trials of either kind."""
    errors = np.arange(trials + 1)
    ends = rate_intervals(errors, trials - errors, tail, method)[1]
    with np.errstate(divide="ignore"):
        above, log = np.log(np.maximum(1 - delta - ends, 0)), np.log(ends)
    return np.maximum(np.maximum(above[fp] - log[fn], above[fn] - log[fp]), 0)


def _thresholds(scores, members, delta: float, tail: float, gaussian: bool):
    """Best threshold of every row, as ``chosen_threshold`` and ``gaussian_lower_bound`` do."""
    fn, fp, ordered = _errors(scores, members)
    trials = int(members.sum())
    if gaussian:
        ends = _mu_ends(trials, tail)
        value = ends[fn] + ends[fp]
    else:
        # Clopper-Pearson's one-sided bounds; where all are 0 Jeffreys', then the rates' distance.
        value = _epsilons(fn, fp, trials, delta, tail, "clopper-pearson")
        for other in (
            lambda rows: _epsilons(fn[rows], fp[rows], trials, delta, tail, "jeffreys"),
            lambda rows: np.abs(trials - fn[rows] - fp[rows]).astype(float),
        ):
            rows = np.flatnonzero(value.max(1) <= 0)
            value[rows] = other(rows)
    best = np.argmax(value > value.max(1, keepdims=True) - 1e-9, axis=1)
    return np.c_[np.full(len(scores), np.inf), ordered][np.arange(len(scores)), best]


def _needed(canaries: int, epsilon: float, delta: float, alpha: float):
    """Right guesses that refute epsilon, for every number of guesses that is tried."""
    found = {}
    for fraction in FRACTIONS:
        guesses = fixed_guesses(canaries, fraction)
        low, high = 0, guesses + 1  # the last one: never
        while low < high:
            middle = (low + high) // 2
            p = one_run_p_value(middle, guesses, canaries, epsilon, delta)
            low, high = (low, middle) if p <= alpha / len(FRACTIONS) else (middle + 1, high)
        found[guesses] = max(low, found.get(guesses, 0))
    return found


def _one_run(scores, members, needed) -> float:
    inside = np.take_along_axis(members, np.argsort(scores, axis=1, kind="stable"), 1)
    found = np.zeros(len(scores), bool)
    for guesses, least in needed.items():
        half = guesses // 2
        right = inside[:, -half:].sum(1) + (~inside[:, :half]).sum(1)
        found |= right >= least
    return float(found.mean())


def error_free_bound(members: int, others: int, delta: float, level: float = 0.95) -> float:
    """The largest lower bound that these trials can give: by guesses without an error.

    Parameters
    ----------
    members, others : int
        Trials with the record and without it, at least 0.
    delta : float
        In [0, 1).
    level : float
        Of Clopper-Pearson's bound, in (0, 1).

    Returns
    -------
    float
        At least 0; 0 if there are only trials of one kind.

    Notes
    -----
    Clopper-Pearson's bound falls with every error of either kind, up to where the guesses are worse
    than chance and the same holds for the opposite ones. Its largest value is that of no error, or
    of nothing but errors. It depends on how many trials are of which kind, and is not largest for
    halves.

    Examples
    --------
    >>> round(error_free_bound(120, 80, delta=1e-5), 2)
    3.45
    >>> round(error_free_bound(100, 100, delta=1e-5), 2)
    3.28
    """
    require_int("members", members, at_least=0)
    require_int("others", others, at_least=0)
    if not members or not others:
        return 0.0
    rows = [[members, 0, others, 0], [0, others, 0, members]]
    return float(epsilon_lower_bounds(rows, delta, level, "clopper-pearson").max())


def trials_needed(epsilon: float, delta: float, level: float = 0.95) -> int:
    """The least number of trials, half with the record and half without, that can refute epsilon.

    That is by an attack that never errs; a real one needs many times more.

    Parameters
    ----------
    epsilon : float
        The claim, at least 0 and at most 30.
    delta, level : float
        As for :func:`error_free_bound`.

    Returns
    -------
    int
        Even. Fewer can do if one kind is rarer than the other.

    Examples
    --------
    >>> trials_needed(1.0, delta=1e-5), trials_needed(8.0, delta=1e-5)
    (24, 21998)
    """
    require_finite("epsilon", epsilon, at_least=0, at_most=30)
    low, high = 0, 1
    while error_free_bound(high, high, delta, level) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        refutes = error_free_bound(middle, middle, delta, level) > epsilon
        low, high = (low, middle) if refutes else (middle, high)
    return 2 * high

"""What an audit can see: the smallest understatement of epsilon that it detects."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib.audit.counts import as_generator, check_delta, check_level
from lib.audit.gaussian import mu_limits
from lib.audit.intervals import rate_intervals
from lib.audit.one_run import FRACTIONS, best_one_run, fixed_guesses, one_run_p_value
from lib.audit.selection import true_best_epsilon
from lib.studies.audit.sanity import SanityCheck, engine_scores

__all__ = [
    "AUDITS",
    "detection_limit",
    "detection_rate",
    "detection_table",
    "gaussian_mu",
    "one_run_growth",
]

#: Audits by how they bound epsilon.
AUDITS = ("held-out", "union", "held-out, Gaussian", "one run")

_LARGEST = 12.0  # a mu at which scores with and without the canary do not overlap


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The mu of the Gaussian mechanism that has exactly this epsilon at delta.

    Parameters
    ----------
    epsilon : float
        Positive.
    delta : float
        In (0, 1).

    Raises
    ------
    ValueError
        On an argument out of range.

    Examples
    --------
    >>> round(gaussian_mu(4.377, 1e-5), 2)
    1.0
    """
    from scipy.optimize import brentq

    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be positive and finite, got {epsilon!r}")
    if check_delta(delta) == 0:
        raise ValueError(f"delta must be in (0, 1), got {delta!r}")
    most = 2 * math.sqrt(2 * epsilon) + 2
    while true_best_epsilon(most, delta) < epsilon:
        most *= 2
    return float(brentq(lambda mu: true_best_epsilon(mu, delta) - epsilon, 1e-9, most, xtol=1e-12))


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

    Parameters
    ----------
    audit : str
        One of :data:`AUDITS`.
    mus : array_like of float
        What the attack sees: scores are N(mu, 1) with the canary, and N(0, 1) without.
    models : int
        Trainings, half with the canary (a multiple of 4, at least 8); for ``"one run"`` canaries of
        one training, each in by its coin, that do not disturb each other.
    epsilon, delta : float
        The claim.
    level : float
        Of the lower bound.
    repetitions : int
        Simulated audits, the same random numbers for every mu.
    seed : int or Generator
        Of these.

    Returns
    -------
    ndarray of float64
        One rate a mu.

    Raises
    ------
    ValueError
        On an argument out of range.

    Examples
    --------
    >>> detection_rate("union", [0.0, 12.0], 400, 1.0, repetitions=50, seed=0).tolist()
    [0.0, 1.0]
    """
    if audit not in AUDITS:
        raise ValueError(f"audit must be one of {', '.join(map(repr, AUDITS))}, got {audit!r}")
    if models < 8 or models % 4:
        raise ValueError(f"models must be a multiple of 4, at least 8, got {models!r}")
    if repetitions < 1:
        raise ValueError(f"repetitions must be at least 1, got {repetitions!r}")
    level, rng = check_level(level), as_generator(seed)
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

    Parameters
    ----------
    audit, models, epsilon, delta
        As for :func:`detection_rate`.
    power : float
        That probability, in (0, 1).
    **options
        ``level``, ``repetitions`` and ``seed``, as there.

    Returns
    -------
    float
        By bisection, to 0.001; infinite if scores that do not overlap are not enough.

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
    if not 0 < power < 1:
        raise ValueError(f"power must be in (0, 1), got {power!r}")
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


def detection_table(
    check: SanityCheck,
    models: Sequence[int],
    trainings: int,
    *,
    level: float = 0.95,
    power: float = 0.9,
    repetitions: int = 200,
    seed: int = 0,
) -> pd.DataFrame:
    """Understatements that audits detect, by audit, number of models and what the attack sees.

    Parameters
    ----------
    check : SanityCheck
        The claim, and the problem on which the attack that sees the final model is measured.
    models : sequence of int
        As for :func:`detection_rate`.
    trainings : int
        By the book's engine, for that measurement.
    level, power, repetitions, seed
        As for :func:`detection_limit`.

    Returns
    -------
    pandas.DataFrame
        Columns ``audit``, ``models``, ``error rate`` (at a correct claim, all seen), ``white box``
        and ``final model`` (smallest true epsilon over claimed epsilon that is detected; infinite
        if none is), ``seen`` (the part of the mechanism's mu in the final model) and ``seen,
        error`` (its standard error).

    Examples
    --------
    >>> detection_table(SanityCheck(), [400], 60, repetitions=20)["audit"].tolist()
    ['held-out', 'union', 'held-out, Gaussian', 'one run']
    """
    claimed = gaussian_mu(check.epsilon, check.delta)
    scores, members = engine_scores(check, trainings, seed)
    parts = [scores[members], scores[~members]]
    spread = math.sqrt(sum(part.var(ddof=1) for part in parts) / 2)
    seen = (parts[0].mean() - parts[1].mean()) / spread / claimed
    error = math.sqrt(sum(1 / len(part) for part in parts)) / claimed
    rows = []
    for audit in AUDITS:
        for n in models:
            given = {"level": level, "repetitions": repetitions, "seed": seed}
            limit = detection_limit(audit, n, check.epsilon, check.delta, power=power, **given)
            wrong = detection_rate(audit, claimed, n, check.epsilon, check.delta, **given)[0]
            white, final = (
                true_best_epsilon(mu, check.delta) / check.epsilon if mu < math.inf else math.inf
                for mu in (limit, limit / seen if seen > 0 else math.inf)
            )
            rows.append((audit, n, wrong, white, final, seen, error))
    columns = ["audit", "models", "error rate", "white box", "final model", "seen", "seen, error"]
    return pd.DataFrame(rows, columns=columns)


def one_run_growth(
    epsilon: float, delta: float, canaries: Sequence[int], *, level: float = 0.95, seed: int
) -> pd.DataFrame:
    """One-run bounds on a Gaussian mechanism by the number of canaries, with delta and without.

    Parameters
    ----------
    epsilon, delta : float
        The mechanism; its best attack is used.
    canaries : sequence of int
        Numbers of canaries.
    level : float
        Of the bounds.
    seed : int
        Of noise and coins.

    Returns
    -------
    pandas.DataFrame
        Columns ``canaries``, ``delta`` and ``delta = 0``: the bounds.

    Examples
    --------
    >>> table = one_run_growth(4.0, 1e-5, [1000], seed=0)
    >>> bool(table["delta"][0] <= table["delta = 0"][0])
    True
    """
    rng, mu, rows = np.random.default_rng(seed), gaussian_mu(epsilon, delta), []
    for count in canaries:
        members = rng.random(count) < 0.5
        scores = rng.standard_normal(count) + mu * members
        rows.append((count, *(best_one_run(scores, members, d, level) for d in (delta, 0.0))))
    return pd.DataFrame(rows, columns=["canaries", "delta", "delta = 0"])


def _errors(scores, members):
    """False negatives and positives at every threshold, and the sorted scores, row by row."""
    order = np.argsort(-scores, axis=1)
    inside = members[order]
    zero = np.zeros((len(scores), 1), int)
    tp, fp = (np.c_[zero, np.cumsum(kind, axis=1)] for kind in (inside, ~inside))
    return members.sum() - tp, fp, np.take_along_axis(scores, order, 1)


def _ends(trials: int, tail: float, method: str):
    errors = np.arange(trials + 1)
    return rate_intervals(errors, trials - errors, tail, method)[1]


def _mu_ends(trials: int, tail: float):
    """Each rate's term in the limit of mu; there are as many trials of either kind."""
    errors = np.arange(trials + 1)
    table = np.stack([trials - errors, errors, trials - errors, errors], axis=1)
    return mu_limits(table, tail) / 2


def _epsilons(fn, fp, trials: int, delta: float, tail: float, method: str):
    """Lower bounds from numbers of errors in as many trials of either kind."""
    ends = _ends(trials, tail, method)
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

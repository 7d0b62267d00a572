"""Audits on the hypothesis that a mechanism's trade-off curve is Gaussian (Nasr et al. 2023)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from lib.audit.counts import rate_intervals
from lib.audit.selection import (
    counts_at,
    divided,
    roc_counts,
    roc_thresholds,
    true_best_epsilon,
    union_events,
)
from lib.check import as_number, as_scores, require_choice


class GaussianBound(NamedTuple):
    """A lower bound by :func:`gaussian_lower_bound`.

    Attributes
    ----------
    epsilon : float
        At the delta asked for, *if the mechanism's trade-off curve is Gaussian*.
    mu : float
        Lower confidence limit: no mechanism that is mu-GDP for a smaller one lets the attack do
        so well, whatever its curve.
    threshold : float
        Where it was found; "member" is guessed from this score on.

    Examples
    --------
    >>> found = gaussian_lower_bound(scores[members], scores[~members], delta=1e-5, seed=0)
    >>> 0 < found.epsilon < true_best_epsilon(mu=1.5, delta=1e-5), 0 < found.mu < 1.5
    (True, True)
    """

    epsilon: float
    mu: float
    threshold: float


def gaussian_lower_bound(
    in_scores: npt.ArrayLike,
    out_scores: npt.ArrayLike,
    delta: float,
    level: float = 0.95,
    *,
    choice: str = "held-out",
    share: float = 0.5,
    seed: int | np.random.Generator = 0,
) -> GaussianBound:
    """Lower bound on epsilon of a mechanism whose trade-off curve is taken to be Gaussian.

    It rests on that hypothesis and stands beside the bounds that need none, never in their place:
    a mechanism with another curve may have a smaller epsilon at this delta than is shown.

    Parameters
    ----------
    in_scores, out_scores : array_like of float, shape (n1,), (n0,)
        An attack's scores of independent trials with and without the challenge point; larger says
        "member".
    delta : float
        In (0, 1).
    level : float
        One-sided, in (0, 1).
    choice : {"held-out", "union"}
        Of the threshold: best on a part of the trials, and counted on the others; or the best of
        all, corrected as :func:`lib.audit.union_lower_bound` is.
    share : float
        Fraction of the trials of each kind that choose, in (0, 1); for ``"held-out"``.
    seed : int or Generator
        Of the division; for ``"held-out"``.

    Returns
    -------
    GaussianBound
        All 0 but the threshold where nothing is shown.

    Notes
    -----
    Under mu-GDP every test has FNR >= Phi(Phi^-1(1 - FPR) - mu) (Dong, Roth and Su 2022), that is
    mu >= Phi^-1(1 - FPR) - Phi^-1(FNR).  The right side falls in both rates.  With upper limits
    (Clopper-Pearson) that hold together with probability `level` in place of the rates it is a
    lower limit of mu: this step needs no hypothesis.  A mechanism with exactly this curve has, at
    delta, the epsilon of :func:`lib.audit.true_best_epsilon`, which rises in mu: this step needs
    it.  What makes the bound stronger is that mu can be read where errors are frequent and known
    well, epsilon at a small delta only where they are rare.

    References
    ----------
    Nasr et al. (2023), Tight auditing of differentially private machine learning, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> out = rng.normal(size=1000)
    >>> found = gaussian_lower_bound(rng.normal(size=1000) + 1, out, 1e-5, seed=0)
    >>> bool(2 < found.epsilon < 4.377)  # which is the truth
    True
    """
    delta, level = as_number("delta", delta, 0, 1), as_number("level", level, 0, 1)
    require_choice("choice", choice, ("held-out", "union"))
    parts = [as_scores("in_scores", in_scores), as_scores("out_scores", out_scores)]
    scores = np.concatenate(parts, dtype=np.float64)
    members = np.arange(len(scores)) < len(parts[0])
    if choice == "union":
        table = roc_counts(scores, members)
        mus = mu_limits(table, (1 - level) / union_events(table))
        best = int(np.argmax(mus > mus.max() - 1e-9))
        return _bound(float(mus[best]), delta, float(roc_thresholds(scores)[best]))
    choosing = divided(members, share, seed, ("in_scores", "out_scores"))
    table = roc_counts(scores[choosing], members[choosing])
    # By the limits that the same rates would give on the trials that count.
    mus = mu_limits(table, (1 - level) / 2, (~choosing).sum() / choosing.sum())
    best = int(np.argmax(mus > mus.max() - 1e-9))
    threshold = float(roc_thresholds(scores[choosing])[best])
    row = counts_at(scores[~choosing], members[~choosing], threshold)
    return bound_at(row, delta, level, threshold)


def bound_at(
    row: npt.NDArray[np.int64], delta: float, level: float, threshold: float
) -> GaussianBound:
    """The bound from tp, fp, tn, fn at a threshold that other trials chose."""
    return _bound(float(mu_limits(np.asarray(row)[None], (1 - level) / 2)[0]), delta, threshold)


def mu_limits(
    table: npt.NDArray[np.int64], tail: float, grow: float = 1.0
) -> npt.NDArray[np.float64]:
    """Lower limits of mu in every row, each rate's limit failing with probability `tail`."""
    tp, fp, tn, fn = table.T * grow
    fnr, fpr = (
        rate_intervals(errors, others, tail, "clopper-pearson")[1]
        for errors, others in ((fn, tp), (fp, tn))
    )
    with np.errstate(invalid="ignore"):
        mu = -special.ndtri(fpr) - special.ndtri(fnr)
    return np.where((fpr >= 1) | (fnr >= 1), -np.inf, mu)


def _bound(mu: float, delta: float, threshold: float) -> GaussianBound:
    if mu <= 0:
        return GaussianBound(0.0, 0.0, threshold)
    return GaussianBound(true_best_epsilon(mu, delta), mu, threshold)

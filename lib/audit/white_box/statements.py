"""From scores of gradient canaries to statements about epsilon, by what each rests on."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lib.audit.counts import AttackCounts
from lib.audit.gaussian import gaussian_lower_bound
from lib.audit.intervals import epsilon_interval
from lib.audit.one_run import FRACTIONS, fixed_guesses, one_run_epsilon
from lib.audit.selection import chosen_threshold, counts_at
from lib.audit.white_box.scores import CanaryScores
from lib.check import as_flags, as_generator, as_number, as_scores, require_choice, require_int
from lib.ties import dense_ranks

ADVERSARIES = ("known", "released")


@dataclass(frozen=True)
class Statements:
    """Lower bounds on epsilon from one training run, made by :func:`statements`.

    Attributes
    ----------
    one_run : float
        Without any hypothesis but that coins are fair and secret.  With 5,000 canaries it cannot
        exceed about 6 at a delta of 1e-5, whatever is wrong.
    family : float
        If, besides, the mechanism's trade-off curve is Gaussian; nothing else is assumed.
    gaussian : float
        If that curve is Gaussian, and scores of canaries do not depend on each other.
    bayesian : tuple of float
        P3's two-sided credible interval for the epsilon that this attack shows, by a threshold that
        the other half of the canaries chose.  It takes canaries to be independent, too.  0 and
        infinity where in one of the halves all were in, or none.
    level : float
        Of each alone.

    Examples
    --------
    >>> import numpy as np
    >>> from lib.audit.white_box import CanaryRecorder, statements
    >>> rng, coins = np.random.default_rng(0), np.arange(2000) < 1000
    >>> recorder = CanaryRecorder(coins, noise_multiplier=2.0, sample_rate=1.0)
    >>> for _ in range(4):
    ...     recorder.add(coins + 2 * rng.normal(size=2000))
    >>> found = statements(recorder.scores(), delta=1e-5, adversary="released")
    >>> 0.5 < found.one_run < found.family < 4.377, 2 < found.gaussian < 4.377  # which is true
    (True, True)
    """

    one_run: float
    family: float
    gaussian: float
    bayesian: tuple[float, float]
    level: float


def statements(
    scores: CanaryScores,
    delta: float,
    level: float = 0.95,
    *,
    adversary: str = "known",
    seed: int | np.random.Generator = 0,
) -> Statements:
    """What the scores of one training run show, by three hypotheses.

    Parameters
    ----------
    scores : CanaryScores
        Of the canaries.
    delta : float
        In (0, 1).
    level : float
        Of each statement by itself, in (0, 1).
    adversary : {"known", "released"}
        ``"known"`` has subtracted the other records, as the guarantee allows.
    seed : int or Generator
        Of the division for `bayesian`, and of the order of scores that are equal up to rounding.

    Returns
    -------
    Statements
        :func:`step_audit` is beside them: it needs no attack, but the mechanism's form.

    Notes
    -----
    The scores are log likelihood ratios at even odds.  So the surest guesses are those where the
    ratio is farthest from 0, of either kind (:func:`sure_guesses`): with few samples of a record
    and little noise one can be sure that it was in, and hardly that it was not.  Their numbers are
    fixed beforehand, five fractions of the canaries, and each is tested at a
    fifth of the error.  If the claimed noise is not the real one, only the choice of guesses is
    worse for it: the bounds hold.
    """
    if not isinstance(scores, CanaryScores):
        raise ValueError(f"scores must be CanaryScores, got {scores!r}")
    as_number("delta", delta, 0, 1)
    level = as_number("level", level, 0, 1)
    require_choice("adversary", adversary, ADVERSARIES)
    ratios, coins = getattr(scores, adversary), scores.coins
    if ratios is None:
        raise ValueError(
            "adversary must be 'released' where the sums of the other records were not recorded,"
            f" got {adversary!r}"
        )
    if coins.all() or not coins.any():
        raise ValueError("scores must be of canaries of which some were in and some were not")
    rng = as_generator(seed)
    each, best = 1 - (1 - level) / len(FRACTIONS), {None: 0.0, "gaussian": 0.0}
    for fraction in FRACTIONS:
        right, made = sure_guesses(ratios, coins, fixed_guesses(len(coins), fraction), seed=rng)
        for family in best:
            found = one_run_epsilon(right, made, len(coins), delta, each, family=family)
            best[family] = max(best[family], found)
    bound = gaussian_lower_bound(ratios[coins], ratios[~coins], delta, level, choice="union")
    return Statements(
        best[None],
        best["gaussian"],
        bound.epsilon,
        _bayesian(ratios, coins, delta, level, rng),
        level,
    )


def _bayesian(ratios, coins, delta: float, level: float, rng) -> tuple[float, float]:
    order = rng.permutation(len(coins))
    choosing, asked = order[: len(order) // 2], order[len(order) // 2 :]
    if any(coins[rows].all() or not coins[rows].any() for rows in (choosing, asked)):
        return 0.0, float("inf")
    threshold = chosen_threshold(ratios[choosing], coins[choosing], delta, level)
    row = counts_at(ratios[asked], coins[asked], threshold)
    low, high = epsilon_interval(AttackCounts(*map(int, row)), delta, level, "bayesian")
    return float(low), float(high)


def sure_guesses(
    ratios: npt.ArrayLike,
    members: npt.ArrayLike,
    guesses: int,
    *,
    seed: int | np.random.Generator = 0,
) -> tuple[int, int]:
    """Guess where log likelihood ratios are farthest from 0: "in" above it, "out" below.

    Parameters
    ----------
    ratios : array_like of float, shape (m,)
        Log likelihood ratios of "in" against "out".
    members : array_like of bool, shape (m,)
        Who was in, by fair coins.
    guesses : int
        How many, from 1 to m, fixed beforehand.
    seed : int or Generator
        Of the order of ratios that are equal up to rounding.

    Returns
    -------
    correct, guesses : int
        For :func:`lib.audit.one_run_epsilon`.

    Examples
    --------
    >>> from lib.audit.white_box import sure_guesses
    >>> sure_guesses([3.0, -0.1, 2.0, -1.0], [True, False, False, False], guesses=3)
    (2, 3)
    """
    ratios, members = as_scores("ratios", ratios), as_flags("members", members)
    if len(ratios) != len(members):
        raise ValueError(
            f"members must be one for each of the {len(ratios)} ratios, got {len(members)}"
        )
    require_int("guesses", guesses, at_least=1, at_most=len(ratios))
    ranks = dense_ranks(np.abs(ratios))
    chosen = np.lexsort((as_generator(seed).random(len(ratios)), ranks))[-guesses:]
    return int(((ratios[chosen] > 0) == members[chosen]).sum()), guesses

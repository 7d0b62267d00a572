"""What a membership attack shows of the training's privacy."""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from lib import audit
from lib.audit.one_run import best_one_run
from lib.audit.selection import chosen_threshold, union_events
from lib.report import collect, figures
from lib.report.collect import about
from lib.report.findings import Leak, Outcome
from lib.report.predictions import ModelPredictions
from lib.report.types import ANALYSES, AUDIT_DESIGNS, POWER, Analysis, Drawing, Settings, table

Array = npt.NDArray[Any]

_METHODS = ("clopper-pearson", "jeffreys", "bayesian")
_CORRECTED = "best of all, corrected for the choice"
_NO_COIN = 1e-3  # p-value of the numbers of members and others, below which coins were not fair


def obstacle(given: ModelPredictions) -> str:
    """Why there is no audit: empty if there is."""
    few = [n for n in ("member_scores", "nonmember_scores") if len(getattr(given, n)) < 2]
    return f"{' and '.join(few)} must have at least 2 entries" if few else ""


def one_run_bound(scores: Array, members: Array, delta: float, settings: Settings) -> float:
    """The bound of one run as ``compare_one_run`` has it; ties in a random order.

    The order in which points are given decides nothing, nor does a seed: points of one kind with
    one score are the same point, so that sorted ones, permuted once and for all, are in an order
    that tells nothing of who was a member.

    Parameters
    ----------
    scores : array, shape (n,)
        Of an attack.
    members : array of bool, shape (n,)
        Who was trained on.
    delta : float
        Of the claim.
    settings : Settings
        Whose level the bound has.

    Returns
    -------
    float
        Lower bound on epsilon.
    """
    own = np.lexsort((scores, members))
    order = own[np.random.default_rng(0).permutation(len(scores))]
    return best_one_run(scores[order], members[order], delta, settings.level)


def _finding(no_coins: bool, lower: float, claim: float | None, use: Settings) -> Leak:
    """What the bound of the declared design makes of a claim, or shows without one."""
    if use.audit_design == "one run" and no_coins:
        outcome = Outcome.NO_BOUND
    elif claim is None:
        outcome = Outcome.SOME_SHOWN if lower > 0 else Outcome.NOTHING_SHOWN
    else:
        outcome = Outcome.REFUTED if lower > claim else Outcome.NOT_REFUTED
    return Leak(outcome, lower, claim)


def _audit_verdict(found: Leak, p_coins: float, delta: float, use: Settings) -> str:
    """What the bound of the declared design says, its condition, and what that makes of a claim."""
    condition = AUDIT_DESIGNS[use.audit_design]
    if found.outcome is Outcome.NO_BOUND:
        return (
            f"No bound holds in the design 'one run': that needs that {condition}, and fair coins "
            f"hardly give such numbers of members and non-members (p = {p_coins:.1g}). Nothing "
            "follows for or against a claim."
        )
    verdict = (
        f"At delta = {delta:g} the attack shows epsilon of at least {found.shown}, by the bound of "
        f"the design '{use.audit_design}', which holds if {condition}"
    )
    if found.claim is None:
        return f"{verdict}. No finite epsilon is claimed to compare it with."
    if found.outcome is Outcome.REFUTED:
        return (
            f"{verdict}. That is more than the claimed {found.claim:g}: on this condition the "
            f"claim is refuted at the level {use.alpha:g}."
        )
    return (
        f"{verdict}. That does not contradict the claimed {found.claim:g}, and is no proof of it: "
        "another attack may show more."
    )


class _Lower(NamedTuple):
    """Lower bounds on epsilon, by how the threshold was chosen."""

    one_run: float  # the surest points are guessed
    union: float  # at all thresholds together
    biased: float  # the best of all, as if it had not been chosen


def _bounds(
    one_run: float, row: Array, every: Array, delta: float, level: float, holds: dict[str, str]
) -> tuple[pd.DataFrame, _Lower]:
    """Lower bounds: of one run, a union bound, three biased ones.

    The union bound takes all trials and pays for the choice of the threshold, so that nothing
    hangs on how trials are divided.  Cross-fitting does not keep the level: thresholds that two
    halves choose for each other err together, and counts added up miss too often where there is
    nothing to see.  The median over many divisions keeps a level; it mostly shows less than the
    union bound, but more where many trials leak rarely or have few scores.
    """
    rows = [
        ("none: the surest points are guessed, corrected", "one run", holds["one run"], one_run)
    ]
    _, union = audit.union_lower_bound(every, delta, level, _METHODS[0])
    each = _each(every, level)
    ends = audit.epsilon_interval(audit.AttackCounts(*map(int, row)), delta, each, _METHODS[0])
    rows.append((_CORRECTED, _METHODS[0], holds["independent"], union, *ends))
    biased = []
    for method in _METHODS:
        _, naive = audit.best_lower_bound(every, delta, level, method)
        biased.append(naive)
        rows.append(("best of all (biased)", method, "no", naive))
    shown = table(rows, ["threshold", "method", "holds", "lower bound", "low", "high"])
    return shown, _Lower(one_run, float(union), float(max(biased)))


def _each(every: Array, level: float) -> float:
    """The level of the bound at each threshold with which all hold together."""
    return 1 - 2 * (1 - level) / union_events(every)


def analyse(given: ModelPredictions, settings: Settings) -> Analysis:
    """The analysis of a report."""
    level = settings.level
    delta = settings.delta if given.delta is None else given.delta
    scores = np.concatenate([given.member_scores, given.nonmember_scores])
    members = np.arange(len(scores)) < len(given.member_scores)
    # A fair coin for every point would give about as many members as others: are they so many?
    p_coins = float(stats.binomtest(int(members.sum()), len(members)).pvalue)
    every = audit.roc_counts(scores, members)
    # Where the bound that pays for the choice is largest.
    threshold = chosen_threshold(scores, members, delta, _each(every, level))
    row = audit.counts_at(scores, members, threshold)
    seen = audit.AttackCounts(*map(int, row))
    one_run = one_run_bound(scores, members, delta, settings)
    holds = {name: f"if {text}" for name, text in AUDIT_DESIGNS.items()}
    if p_coins < _NO_COIN:
        holds["one run"] = "no"
    bounds, found = _bounds(one_run, row, every, delta, level, holds)
    # The design was declared: no bound is chosen by what it says.
    if settings.audit_design == "independent":
        lower = found.union
    else:
        lower = 0.0 if p_coins < _NO_COIN else one_run
    auc = stats.mannwhitneyu(given.member_scores, given.nonmember_scores).statistic / (
        len(given.member_scores) * len(given.nonmember_scores)
    )
    claim, detectable = _claimed(given, len(scores), delta, p_coins, settings)
    leak = _finding(p_coins < _NO_COIN, lower, None if claim is None else claim[0], settings)
    summary = table(
        [
            ("members", int(members.sum())),
            ("non-members", int((~members).sum())),
            ("p-value of these numbers by fair coins", p_coins),
            ("delta", delta),
            ("claimed epsilon", math.nan if given.epsilon is None else given.epsilon),
            (f"epsilon that an attack must reach for a power of {POWER:g}", detectable[1]),
            ("ROC AUC of the attack", float(auc)),
            ("chosen threshold", threshold),
            ("true positive rate there", 1 - seen.fnr),
            ("false positive rate there", seen.fpr),
        ],
        ["item", "value"],
    )
    values = {
        "audit_lower": lower,
        "audit_union": found.union,
        "audit_one_run": found.one_run,
        "audit_biased": found.biased,
    }
    values |= {} if claim is None else {"audit_claimed": claim[0]}
    doubts = [
        "members and non-members must be drawn alike, by coins or a random split, which no file "
        "can show. Points that were trained on and points from elsewhere, as a training set and a "
        "hold-out set that were not divided at random, differ without anything having been learnt",
        f"the design '{settings.audit_design}' was declared and decides which bound is used; the "
        "other rows hold under the conditions beside them, and a larger one must not be taken "
        "afterwards",
    ]
    if given.delta is None:
        doubts.insert(0, f"the file states no delta: {delta:g} is used")
    return Analysis(
        "audit",
        ANALYSES["audit"],
        {"audit": summary, "audit_bounds": bounds},
        {
            "audit": "The membership attack",
            "audit_bounds": "Lower bounds on epsilon, by how the threshold was chosen, and the "
            "condition on which each keeps its level ('holds'). 'low' and 'high' are the ends of a "
            "two-sided interval of what this attack shows at this threshold: 'high' is no upper "
            "bound on the model's epsilon, of which another attack may show more",
        },
        {
            "audit_roc": Drawing(
                lambda: figures.plot_roc(every, (seen.fpr, 1 - seen.fnr), claim),
                "ROC curve of the attack beside the diagonal of chance, and the chosen threshold.",
                "The attack at all thresholds, the one with the largest bound for all thresholds "
                "together, and, if there is a claim, the most that it allows.",
            )
        },
        _audit_verdict(leak, p_coins, delta, settings),
        values,
        tuple(doubts),
        _audit_steps(lower, members, p_coins < _NO_COIN, claim, delta, settings)
        + _detectable(lower, claim, *detectable),
        (leak,),
    )


def _claimed(
    given: ModelPredictions, trials: int, delta: float, p_coins: float, use: Settings
) -> tuple[tuple[float, float] | None, tuple[int, float]]:
    """A finite claim, and the detection limit of the design if a bound holds in it."""
    if given.epsilon is None or not math.isfinite(given.epsilon):
        return None, (0, math.nan)
    claim = given.epsilon, delta
    if use.audit_design == "one run" and p_coins < _NO_COIN:
        return claim, (0, math.nan)
    return claim, collect.detectable_epsilon(trials, *claim, use)


def _detectable(
    lower: float, claim: tuple[float, float] | None, trials: int, reached: float
) -> tuple[str, ...]:
    """What an attack that errs must reach, if one that never errs could refute the claim."""
    if claim is None or lower > claim[0] or not math.isfinite(reached):
        return ()
    return (
        f"detection limit: with {trials:,} trials the claimed {claim[0]:g} is refuted with a "
        f"probability of {POWER:g} by an attack that reaches epsilon of {reached:.2g} (that of the "
        "Gaussian mechanism by whose shift its scores differ), and less often by a weaker one",
    )


def _audit_steps(
    lower: float,
    members: Array,
    no_coins: bool,
    claim: tuple[float, float] | None,
    delta: float,
    use: Settings,
) -> tuple[str, ...]:
    """What so many trials could show at most, and how many it takes to refute a claim."""
    if use.audit_design == "one run" and no_coins:
        return ("membership decided anew, by a fair coin of its own for every point",)
    if claim is not None and lower > claim[0]:
        return ()
    n, shown = len(members), int(members.sum())
    ceiling = collect.attack_ceiling(shown, n - shown, delta, use.level, use.audit_design)
    rule = ", which guesses the surest points," * (use.audit_design == "one run")
    most = f"by this bound{rule} an attack that is never wrong shows {ceiling:.2f} in {n:,} trials"
    if claim is None or ceiling > claim[0]:
        if lower > ceiling - 1e-6:
            return (f"{most}, and this one does: more trials can show more",)
        return (
            f"{most}: a stronger attack can show more with the trials there are, such as one that "
            "knows what models with and without a point say of it",
        )
    enough = collect.trials_to_refute(claim[0], delta, use.level, use.audit_design)
    if enough is None:
        return (
            f"{most}, and in no number of trials up to {collect.MOST_TRIALS:,} could it refute the "
            f"claimed {claim[0]:g} at delta = {delta:g}",
        )
    return (
        f"{most}, so that none could refute the claimed {claim[0]:g}: that takes {about(enough)} "
        "trials at least, and more by an attack that errs",
    )

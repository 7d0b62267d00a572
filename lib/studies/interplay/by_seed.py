"""What decides about P1's claims, one number a training: the ledger makes intervals of them."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lib.selective.uncertainty import Mean
from lib.studies.interplay.experiments import P1_METHODS, Experiments, ExperimentSettings, Imbalance
from lib.studies.interplay.tables import (
    Values,
    coverages_for_non_private,
    full_accuracies,
    normalized_scores,
    p1_methods,
    rare_class_at,
    relative_scores,
    score_gap,
    spent_after,
)

_DATA = {
    "CIFAR10": ("cifar10",),
    "FashionMNIST": ("fashion-mnist",),
    "SVHN": ("svhn",),
    "GTSRB": ("gtsrb", "gtsrb32"),
}


def cells(
    reported: Mapping[str, tuple[float, float]],
    dataset: str,
    models: Sequence[Experiments],
    values: Callable[[Experiments, str, float], Values],
) -> dict[str, list[Values] | str]:
    """Our numbers for the cells of P1's Tables 1 and 2, or why there are none."""
    found: dict[str, list[Values] | str] = {}
    places = {}
    for claim_id in reported:
        _, _, data, method, epsilon = claim_id.split("-")
        if dataset not in _DATA[data]:
            found[claim_id] = f"the data of this run are {dataset}"
        elif method not in p1_methods(models[0]):
            found[claim_id] = "this run has other methods"
        else:
            places[claim_id] = method, float(epsilon)
    if {e for _, e in places.values()} - set(models[0].settings.epsilons):
        return found | dict.fromkeys(places, "this run has other budgets")
    return found | {
        claim_id: [values(trained, *place) for trained in models]
        for claim_id, place in places.items()
    }


def printed(
    reported: Mapping[str, tuple[float, float]], dataset: str, method: str, epsilon: float
) -> float | None:
    """What P1 prints for a method at a budget, None where it has no such data or budget."""
    for claim_id, (value, _) in reported.items():
        _, _, data, of, at = claim_id.split("-")
        if dataset in _DATA[data] and (of, float(at)) == (method, epsilon):
            return value
    return None


def leads(models: Sequence[Experiments], value: str, *, by_budget: bool = False) -> list[Values]:
    """How much better SCTD is than each other method of P1; nothing of one that was not trained."""
    found = []
    for trained in models:
        budgets = trained.settings.epsilons
        of, sign = normalized_scores, -1
        others = [m for m in P1_METHODS if m != "SCTD"]
        if value == "coverage":
            of, sign = coverages_for_non_private, 1
            budgets = [e for e in budgets if math.isfinite(e)]
            others.remove("SN")
        for other in others:
            if other not in p1_methods(trained):
                found.append(np.empty(0))
                continue
            each = [sign * (of(trained, "SCTD", e) - of(trained, other, e)) for e in budgets]
            found += each if by_budget else [np.mean(each, axis=0)]
    return found


def gaps(models: Sequence[Experiments], epsilon: float) -> list[tuple[Mean, int]]:
    """The mean scores of P1's other methods minus SCTD's, and of how many training runs.

    The interval is over training runs and points. Of a method that was not trained it is none.
    """
    return [
        (score_gap(trained, other, epsilon), trained.settings.n_seeds)
        if other in p1_methods(trained)
        else (Mean(math.nan, math.nan, 0), 0)
        for trained in models
        for other in P1_METHODS
        if other != "SCTD"
    ]


def worsening(models: Sequence[Experiments]) -> list[Values]:
    """By how much the score of each method of P1 rises at each step to the next smaller budget."""
    found = []
    for trained in models:
        budgets = sorted(trained.settings.epsilons, reverse=True)
        for method in P1_METHODS:
            if method not in p1_methods(trained):
                found.append(np.empty(0))
                continue
            scores = [normalized_scores(trained, method, e) for e in budgets]
            found += [b - a for a, b in itertools.pairwise(scores)]
    return found


def order_lost(models: Sequence[Experiments], method: str) -> list[Values]:
    """By how much a method's relative score is larger at the smallest budget than without any."""
    return [
        relative_scores(trained, method, min(trained.settings.epsilons))
        - relative_scores(trained, method, max(trained.settings.epsilons))
        for trained in models
    ]


def losses(models: Sequence[Experiments], method: str) -> list[Values]:
    """How much accuracy at full coverage a method loses against SR, and how much more each step."""
    found = []
    for trained in models:
        budgets = sorted((e for e in trained.settings.epsilons if math.isfinite(e)), reverse=True)
        lost = [
            full_accuracies(trained, "SR", e) - full_accuracies(trained, method, e) for e in budgets
        ]
        found += lost + [b - a for a, b in itertools.pairwise(lost)]
    return found


def spent_shares(trained: Experiments) -> Values:
    """Fraction of the largest finite budget that is spent when accuracies are aligned, by seed."""
    finite = [e for e in trained.settings.epsilons if math.isfinite(e)]
    accuracy = (trained.checkpoints[max(finite)] == trained.labels).mean(2)
    reached = accuracy >= full_accuracies(trained, "SR", min(finite))[:, None]
    steps = trained.settings.training.checkpoint_steps
    stops = [steps[int(np.argmax(seed)) if seed.any() else -1] for seed in reached]
    return np.array([spent_after(trained, max(finite), stop) / max(finite) for stop in stops])


def rare_class(study: Imbalance) -> dict[str, list[Values]]:
    """What privacy does to the rare class (P1, appendix B.2), by seed."""
    free, strict = (
        [rare_class_at(study, p0, epsilon) for p0 in study.keep]
        for epsilon in (max(study.epsilons), min(study.epsilons))
    )
    both = list(zip(free, strict, strict=True))
    return {
        "position": [position.mean(1) for position, _, _ in free],
        "spread": [private[0].std(1) - other[0].std(1) for other, private in both],
        # Where no point is right without privacy nothing can be lost.
        "lost accuracy": [
            other[1].mean(1) - private[1].mean(1) for other, private in both if other[1].any()
        ],
        "right first": [first for _, _, first in free if len(first)],
    }


def rarest(study: Imbalance, fewest: int) -> tuple[str, Values]:
    """Probability by seed that a right point of the rare class is accepted before a wrong one.

    At the smallest p0 and there the smallest epsilon at which `fewest` points at least are right,
    and as many wrong, in every training: where, in words, and the probabilities; neither where that
    is nowhere so.
    """
    finite = sorted(e for e in study.epsilons if math.isfinite(e))
    for p0, epsilon in itertools.product(sorted(study.keep), finite):
        _, correct, first = rare_class_at(study, p0, epsilon)
        right = correct.sum(1)
        if min(right.min(), (correct.shape[1] - right).min()) >= fewest:
            return f"p0 = {p0:g}, epsilon = {epsilon:g}", first
    return "", np.empty(0)


def tried(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """What runs gave SAT and the baseline, in words, from their parameters: a part of a caption.

    How often a training point is met after the burn-in, in expectation, and the learning rates with
    privacy that validation points chose from.
    """
    visits, rates = [], []
    for name, parameters in runs.items():
        after = (1 - ExperimentSettings.burn_in) * parameters["epochs"]
        visits.append(f"{after:.0f} on {name}")
        rates.append(f"{', '.join(f'{rate:g}' for rate in parameters['rates'])} on {name}")
    return (
        f"Visits to a training point after SAT's burn-in: {', '.join(visits)}. "
        f"Rates to choose from with privacy: {'; '.join(rates)}."
    )

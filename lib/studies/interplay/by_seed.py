"""What decides about P1's claims, one number a training: the ledger makes intervals of them."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from lib.privacy import PrivacyLedger, SampledGaussian
from lib.selective.uncertainty import Mean, compare_over_seeds, mean_over_seeds
from lib.studies.interplay.panel import Imbalance, Panel
from lib.studies.interplay.tables import (
    _p1_methods,
    _right_first,
    acceptance_position,
    coverages_for_non_private,
    full_accuracies,
    normalized_scores,
)

Values = npt.NDArray[np.float64]  # shape (seeds,)


_DATA = {
    "CIFAR10": ("cifar10",),
    "FashionMNIST": ("fashion-mnist",),
    "SVHN": ("svhn",),
    "GTSRB": ("gtsrb", "gtsrb32"),
}


def cells(
    reported: Mapping[str, tuple[float, float]],
    dataset: str,
    panels: Sequence[Panel],
    values: Callable[[Panel, str, float], Values],
) -> dict[str, list[Values] | str]:
    """Our numbers for the cells of P1's Tables 1 and 2, or why there are none."""
    found: dict[str, list[Values] | str] = {}
    places = {}
    for claim_id in reported:
        _, _, data, method, epsilon = claim_id.split("-")
        if dataset not in _DATA[data]:
            found[claim_id] = f"the data of this run are {dataset}"
        elif method not in _p1_methods(panels[0]):
            found[claim_id] = "this run has other methods"
        else:
            places[claim_id] = method, float(epsilon)
    if {e for _, e in places.values()} - set(panels[0].settings.epsilons):
        return found | dict.fromkeys(places, "this run has other budgets")
    return found | {
        claim_id: [values(panel, *place) for panel in panels] for claim_id, place in places.items()
    }


def leads(
    panels: Sequence[Panel], value: str, method: str = "SCTD", *, by_budget: bool = False
) -> list[Values]:
    """How much better a method is than each other method of P1."""
    found = []
    for panel in panels:
        budgets = panel.settings.epsilons
        others = [m for m in _p1_methods(panel) if m != method]
        if value == "coverage":
            budgets = [e for e in budgets if math.isfinite(e)]
            others = [m for m in others if m != "SN"]
        of, sign = {"score": (normalized_scores, -1), "coverage": (coverages_for_non_private, 1)}[
            value
        ]
        for other in others:
            each = [sign * (of(panel, method, e) - of(panel, other, e)) for e in budgets]
            found += each if by_budget else [np.mean(each, axis=0)]
    return found


def gaps(panels: Sequence[Panel], epsilon: float, method: str = "SCTD") -> list[Mean]:
    """Return the mean scores of P1's other methods minus a method's, over trainings and points."""
    found = []
    for panel in panels:
        taken = panel.predictions[method, epsilon]
        for other in (m for m in _p1_methods(panel) if m != method):
            if other == "SN":
                own = normalized_scores(panel, method, epsilon)
                found.append(mean_over_seeds(normalized_scores(panel, other, epsilon) - own))
                continue
            a = panel.predictions[other, epsilon]
            found.append(compare_over_seeds(a.correct, a.score, taken.correct, taken.score))
    return found


def worsening(panels: Sequence[Panel]) -> list[Values]:
    """By how much the score rises at each step to the next smaller budget."""
    found = []
    for panel in panels:
        budgets = sorted(panel.settings.epsilons, reverse=True)
        for method in _p1_methods(panel):
            scores = [normalized_scores(panel, method, e) for e in budgets]
            found += [b - a for a, b in itertools.pairwise(scores)]
    return found


def losses(panels: Sequence[Panel], method: str) -> list[Values]:
    """How much accuracy at full coverage a method loses against SR, and how much more each step."""
    found = []
    for panel in panels:
        budgets = sorted((e for e in panel.settings.epsilons if math.isfinite(e)), reverse=True)
        gaps = [
            full_accuracies(panel, "SR", e) - full_accuracies(panel, method, e) for e in budgets
        ]
        found += gaps + [b - a for a, b in itertools.pairwise(gaps)]
    return found


def spent_shares(panel: Panel) -> Values:
    """Share of the largest finite budget that is spent when accuracies are aligned, by seed.

    As :func:`lib.studies.interplay.tables.early_stopping`, whose means over seeds are aligned.
    """
    settings = panel.settings
    finite = [e for e in settings.epsilons if math.isfinite(e)]
    steps = [
        *range(
            settings.training.checkpoint_every,
            settings.training.steps,
            settings.training.checkpoint_every,
        )
    ]
    steps.append(settings.training.steps)
    accuracy = (panel.checkpoints[max(finite)] == panel.labels).mean(2)
    reached = accuracy >= full_accuracies(panel, "SR", min(finite))[:, None]
    noise = panel.privacy.set_index(["family", "epsilon"]).loc[("plain", max(finite))]
    n = settings.data.train
    shares = []
    for seed in reached:
        stop = steps[int(np.argmax(seed)) if seed.any() else -1]
        sampled = SampledGaussian(settings.training.batch_size / n, noise["noise_multiplier"], stop)
        shares.append(PrivacyLedger((sampled,)).epsilon(1 / n) / max(finite))
    return np.array(shares)


def rare_class(study: Imbalance) -> dict[str, list[Values]]:
    """What privacy does to the rare class (P1, appendix B.2), by seed."""
    rare = study.labels == 0
    free, strict = max(study.epsilons), min(study.epsilons)

    def positions(p0: float, epsilon: float) -> Values:
        scores = study.predictions[p0, epsilon].score
        return np.array([acceptance_position(s) for s in scores])[:, rare]

    def first(p0: float, epsilon: float) -> Values:
        found = study.predictions[p0, epsilon]
        each = [_right_first(c[rare], s[rare]) for c, s in zip(*_rows(found), strict=True)]
        return np.array([value for value in each if not math.isnan(value)])

    def accuracy(p0: float, epsilon: float) -> Values:
        return study.predictions[p0, epsilon].correct[:, rare].mean(1)

    ordered = [first(p0, free) for p0 in study.keep]
    return {
        "position": [positions(p0, free).mean(1) for p0 in study.keep],
        "spread": [positions(p0, strict).std(1) - positions(p0, free).std(1) for p0 in study.keep],
        "lost accuracy": [accuracy(p0, free) - accuracy(p0, strict) for p0 in study.keep],
        "right first": [values for values in ordered if len(values)],
        "right first, rarest": [first(min(study.keep), strict)],
    }


def _rows(found):
    return found.correct, found.score

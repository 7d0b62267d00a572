"""The gap to the bound, taken apart by budget: noise, ranking, calibration, finite sample.

P1's plain family is trained on clean labels and judged twice, by clean labels and by noisy ones
whose noise is known: flips at random, or what people said of training images that were held out.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import special

from lib.data import available, load_cifar_labels, split_rows
from lib.plot import COLOURS, new_figure
from lib.runs import run_all
from lib.selective import gap_decomposition, log_odds, risk_areas
from lib.studies.interplay.experiments import ExperimentSettings, scaled
from lib.suitability import calibration_errors
from lib.training import ManyTrainings

#: Terms of the gap and what the figure calls them.
TERMS = {"noise": "noise in the labels", "ranking": "ranking", "calibration": "calibration"}
_PEOPLE = "cifar_n/cifar10_human"
_HELD_OUT = 10_000  # training images that people judge


@dataclass(frozen=True)
class GapStudy:
    """What is trained, and who judges."""

    experiments: ExperimentSettings  # of which the plain family is trained
    rate: float  # learning rate under privacy
    free_rate: float  # and without
    flip: float  # probability that a label is replaced by another one
    people: bool  # whether people's labels take the place of flips
    seed: int  # of the flips

    def jobs(self) -> dict[float, ManyTrainings]:
        """The training runs by budget."""
        rates = {
            place: self.rate if math.isfinite(place[1]) else self.free_rate
            for place in self.experiments.places
        }
        points = "validation" if self.people else "test"
        found = self.experiments.trainings(rates)
        return {epsilon: replace(job, points=points) for (_, epsilon), job in found.items()}


def with_people(experiments: ExperimentSettings) -> ExperimentSettings:
    """The same with as many points held out of the training as people's labels are read of."""
    data = experiments.data
    left = data.train - (_HELD_OUT - data.validation)
    return replace(experiments, data=replace(data, train=left, validation=_HELD_OUT))


def people_judge(labels: str, dataset: str) -> bool:
    """Whether people's labels are asked for and at hand; flips take their place elsewhere."""
    return labels == "people" and dataset == "cifar10" and available(_PEOPLE)


def train(study: GapStudy) -> tuple[np.ndarray, dict[float, np.ndarray]]:
    """Clean labels, and the models' logits (seeds, n, classes) by budget."""
    jobs = study.jobs()
    runs = run_all(list(jobs.values()))
    logits = {e: np.float64(run.arrays["logits"]) for e, run in zip(jobs, runs, strict=True)}
    return runs[0].arrays["labels"], logits


def noisy_labels(study: GapStudy, labels: np.ndarray, classes: int) -> tuple[np.ndarray, ...]:
    """A row of labels for each seed, and the probability of each label given the clean one."""
    seeds = study.experiments.n_seeds
    if not study.people:
        rng = np.random.default_rng([study.seed, 27])
        flipped = rng.random((seeds, len(labels))) < study.flip
        noisy = (labels + flipped * rng.integers(1, classes, flipped.shape)) % classes
        table = np.full((classes, classes), study.flip / (classes - 1))
        np.fill_diagonal(table, 1 - study.flip)
        return noisy, table
    said = [load_cifar_labels("cifar10", f"random_label{k}") for k in (1, 2, 3)]
    clean, data = load_cifar_labels("cifar10"), study.experiments.data
    sizes = {"train": data.train, "validation": data.validation}  # public ones are drawn later
    held = np.sort(split_rows(len(clean), data.seed, sizes)["validation"])
    if (clean[held] != labels).any():
        raise ValueError("CIFAR-10's training images are not in the official order")
    counts = np.zeros((classes, classes))
    for each in said:
        np.add.at(counts, (clean, each), 1)
    table = counts / counts.sum(axis=1, keepdims=True)
    return np.stack([said[k % 3][held] for k in range(seeds)]), table


def take_apart(
    study: GapStudy, labels: np.ndarray, logits: Mapping[float, np.ndarray]
) -> pd.DataFrame:
    """A row per budget, judge and seed: terms of the gap, NAURC by loss, errors of calibration.

    Temperature scaling is fitted to the judge's labels, on the other half of the points.
    ``published`` is the paper's bound, the mean over coverages.
    """
    classes = next(iter(logits.values())).shape[-1]
    noisy, table = noisy_labels(study, labels, classes)
    rows = []
    for epsilon, seed in itertools.product(logits, range(study.experiments.n_seeds)):
        z = logits[epsilon][seed]
        p = special.softmax(z, axis=-1)
        said, score, order = p.argmax(-1), p.max(-1), log_odds(logits=z)
        for judge, seen, known in (
            ("clean", labels, np.eye(classes)),
            ("noisy", noisy[seed], table),
        ):
            correct, q, true = said == seen, known[labels, said], np.eye(classes)[seen]
            cooled = scaled(z, seen)
            row = {"epsilon": epsilon, "labels": judge, "seed": seed, "accuracy": correct.mean()}
            row |= gap_decomposition(correct, order, q, log_odds(logits=cooled))
            row["published"] = row["ranking"] + row["calibration"]
            row["published"] += risk_areas(1 - q, order)["aurc"]
            losses = {"wrong": ~correct, "Brier": ((p - true) ** 2).sum(-1)}
            losses["log"] = -(special.log_softmax(z, axis=-1) * true).sum(-1)
            row |= {f"NAURC, {n}": risk_areas(loss, order)["naurc"] for n, loss in losses.items()}
            row["NAURC, balanced"] = risk_areas(~correct, order, seen)["naurc"]
            row["ECE"] = calibration_errors(score, correct).ece
            row["ECE, scaled"] = calibration_errors(
                special.softmax(cooled, axis=-1).max(-1), correct
            ).ece
            rows.append(row)
    return pd.DataFrame(rows)


def plot_terms(means: pd.DataFrame) -> Figure:
    """Draw the terms as stacked bars, two for each budget, and the gap that is seen as a point."""
    figure, ax = new_figure(height=3.6)
    budgets = list(dict.fromkeys(means["epsilon"]))
    for place, judge in enumerate(("clean", "noisy")):
        each = means[means["labels"] == judge].set_index("epsilon").loc[budgets]
        at = np.arange(len(budgets)) + 0.4 * (place - 0.5)
        base = np.zeros(len(budgets))
        for colour, (term, name) in zip(COLOURS, TERMS.items(), strict=False):
            bars = {"label": name if place else None, "color": colour, "edgecolor": "white"}
            ax.bar(at, each[term], 0.36, base, hatch="//" if place else None, **bars)
            base = base + each[term].to_numpy()
        ax.errorbar(
            at,
            each["total"],
            2 * each["total se"],
            fmt="o",
            color="black",
            label="gap that is seen" if place else None,
        )
    names = [r"no privacy" if math.isinf(e) else rf"$\epsilon = {e:g}$" for e in budgets]
    ax.set_xticks(range(len(budgets)), names)
    ax.set_ylabel("area between bound and curve")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2)
    return figure

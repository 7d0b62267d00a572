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
from scipy import special

from lib.data import available, load_cifar_labels, split_rows
from lib.plot import COLOURS, new_figure
from lib.runs import run_all
from lib.selective import gap_decomposition, log_odds, risk_areas
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head_rows, words_above
from lib.studies.interplay.experiments import ExperimentSettings, scaled
from lib.suitability import calibration_errors
from lib.training import ManyTrainings

#: Terms of the gap, but for the finite sample.
TERMS = ("noise", "ranking", "calibration")
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


@draws("gap", "terms")
def draw_terms(run: Run) -> Drawn:
    """Draw the gap as bars of what the order and what noise makes of it, by judge and budget."""
    table = run.tables["terms"]
    table = table.assign(order=table["ranking"] + table["calibration"])  # never negative
    figure, ax = new_figure(height=3.3)
    names: list[str] = []
    for judge in ("clean", "noisy"):
        names.append(rf"$\bf{{{judge}\ labels}}$")
        for _, row in table[table["labels"] == judge].iterrows():
            y, e = -len(names), row["epsilon"]
            names.append("no privacy" if math.isinf(e) else rf"$\epsilon = {e:g}$")
            ax.barh(y, row["order"], 0.7, color=COLOURS[0])
            ax.barh(y, row["noise"], 0.7, row["order"], color=COLOURS[1])
            ax.plot(row["total"], y, "o", color="black", ms=4)
            end = max(row["total"], row["order"] + row["noise"])
            place = {"textcoords": "offset points", "va": "center", "fontsize": 9}
            ax.annotate(f"{row['total']:.3f}", (end, y), (6, 0), **place)
    ax.set_yticks(-np.arange(len(names)), names, fontsize=9)
    ax.set_ylim(0.4 - len(names), 0.6)
    ax.tick_params(axis="y", length=0)
    ax.margins(x=0.12)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("gap: area from bound to curve")
    words = {"order of the scores": COLOURS[0], "label noise": COLOURS[1]}
    words_above(ax, words | {"• seen": "black"})
    head_rows(figure, gap_headline(table))
    parameters, least = run.parameters, table["calibration"].abs().max()
    return Drawn(
        figure,
        "Bars of the gap for each budget: with clean labels it is all order, with noisy ones "
        "noise comes on top.",
        f"The gap and its terms, {parameters['dataset']} ({parameters['model']}): means over "
        f"{parameters['n_seeds']} training runs. The order's part is ranking and calibration, of "
        f"which calibration makes {least:.3f} at most. What lies between bar and point is the "
        "finite sample.",
    )


def gap_headline(table: pd.DataFrame) -> str:
    """What noise makes of the gap at the smallest budget, judged by noisy labels."""
    noisy = table[table["labels"] == "noisy"]
    row = noisy.loc[noisy["epsilon"].idxmin()]
    return (
        f"Noisy labels, epsilon {row['epsilon']:g}: noise alone opens\n"
        f"a gap of {row['noise']:.3f}, which no score can close"
    )

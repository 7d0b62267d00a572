"""What a learning rate costs that is chosen under privacy, on P1's plain family.

The papers do not say how learning rates were chosen, and count no trials.  Here a search over
several is compared with three other ways: without a search, with every trial counted, and with a
random number of trials, of which only the best is released (Papernot and Steinke 2022).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import special

from lib.plot import COLOURS, MARKERS, new_figure, plain_log
from lib.privacy import (
    PrivacyLedger,
    SampledGaussian,
    draw_trials,
    find_noise_multiplier,
    selection_epsilon,
    selection_noise_multiplier,
)
from lib.runs import run_all
from lib.selective import areas, log_odds
from lib.studies.default_problem import updates
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head
from lib.studies.interplay.experiments import ExperimentSettings
from lib.ties import first_largest
from lib.training import ManyTrainings, TrainingConfig

#: Ways of choosing a learning rate.
WAYS = ("not counted", "middle rate, no search", "every trial counted", "random number of trials")


@dataclass(frozen=True)
class Choosing:
    """The searches that are made."""

    experiments: ExperimentSettings  # data, model, rates; the plain family is trained
    searches: int  # of each way at each budget
    mean_trials: float  # of the random number
    shape: float = 0.0  # of its distribution, see lib.privacy.selection_epsilon

    def noise(self, epsilon: float) -> dict[str, float]:
        """Noise multipliers that keep a budget, by way of choosing; "not counted" does not."""
        n, config = self.experiments.data.train, self.experiments.training
        plan = (epsilon, 1 / n, config.batch_size / n, config.steps)
        once = find_noise_multiplier(*plan)
        every = find_noise_multiplier(*plan, releases=len(self.experiments.rates))
        chosen = selection_noise_multiplier(*plan, self.mean_trials, self.shape)
        return dict(zip(WAYS, (once, once, every, chosen), strict=True))

    def trials(self, epsilon: float, way: str) -> list[list[float]]:
        """Learning rates that each of the searches tries."""
        rates = sorted(self.experiments.rates)
        if way == WAYS[1]:
            return [[rates[len(rates) // 2]]] * self.searches
        if way != WAYS[3]:
            return [rates] * self.searches
        rng = np.random.default_rng([7, self._place(epsilon, way)])
        numbers = draw_trials(self.mean_trials, self.shape, size=self.searches, rng=rng)
        return [rng.choice(rates, k).tolist() for k in numbers]

    def configs(self, epsilon: float, way: str) -> list[list[TrainingConfig]]:
        """All training runs of each of the searches."""
        base = self.experiments.configs("plain", epsilon, 1.0)[0]
        sigma, first = self.noise(epsilon)[way], 1_000_000 * (1 + self._place(epsilon, way))
        private = {"epsilon": math.inf, "noise_multiplier": sigma, "checkpoint_every": None}
        return [
            [
                replace(base, **private, learning_rate=rate, seed=first + 1000 * number + place)
                for place, rate in enumerate(rates)
            ]
            for number, rates in enumerate(self.trials(epsilon, way))
        ]

    @property
    def budgets(self) -> list[float]:
        """The finite ones."""
        return [epsilon for epsilon in self.experiments.epsilons if math.isfinite(epsilon)]

    def _place(self, epsilon: float, way: str) -> int:
        return 10 * self.budgets.index(epsilon) + WAYS.index(way)


def run_regimes(
    experiments: ExperimentSettings,
    norms: Sequence[float],
    batches: Sequence[int],
    ways: Sequence[float],
    epochs: float,
) -> pd.DataFrame:
    """``clipping norm``, ``batch``, ``rate`` and ``accuracy`` on validation points, a row each.

    All training runs see as many examples and have the smallest budget.  A rate follows from how
    far the parameters may go in all: learning rate times clipping norm times updates.
    """
    epsilon, jobs, rows = min(experiments.epsilons), [], []
    for norm, batch in itertools.product(norms, batches):
        steps = updates(epochs, 2, batch, experiments.data.train)
        rates = tuple(way / norm / steps for way in ways)
        training = replace(experiments.training, clipping_norm=norm, batch_size=batch, steps=steps)
        one = replace(experiments, training=training, epsilons=(epsilon,), rates=rates)
        jobs.append(ManyTrainings(one.tuning("plain", epsilon), one.data, points="validation"))
        rows += [{"clipping norm": norm, "batch": batch, "rate": rate} for rate in sorted(rates)]
    runs = run_all(jobs)
    found = [model["accuracy"] for run in runs for model in run.metrics["models"]]
    return pd.DataFrame(rows).assign(accuracy=found)


def run_choosing(settings: Choosing) -> pd.DataFrame:
    """Every search: ``epsilon``, ``way``, ``trials``, ``rate``, ``accuracy``, ``score``.

    The best on validation points, which count as public, is looked at on test points.
    """
    places = [(epsilon, way) for epsilon in settings.budgets for way in WAYS]
    searches = {place: settings.configs(*place) for place in places}
    data = settings.experiments.data
    flat = {place: tuple(c for each in searches[place] for c in each) for place in places}
    several = [place for place in places if place[1] != WAYS[1]]
    tried = run_all([ManyTrainings(flat[p], data, points="validation") for p in several])
    accuracy = {
        place: iter([model["accuracy"] for model in run.metrics["models"]])
        for place, run in zip(several, tried, strict=True)
    }
    winners: dict[tuple[float, str], list[TrainingConfig]] = {}
    for place in places:
        winners[place] = []
        for trials in searches[place]:
            found = [next(accuracy[place]) for _ in trials] if place in accuracy else [1.0]
            winners[place].append(trials[first_largest(found)])
    runs = run_all([ManyTrainings(tuple(winners[place]), data) for place in places])
    rows = []
    for place, run in zip(places, runs, strict=True):
        models = special.softmax(run.arrays["logits"].astype(float), axis=-1)
        for trials, config, p in zip(searches[place], winners[place], models, strict=True):
            row = {"epsilon": place[0], "way": place[1], "trials": len(trials)}
            correct = p.argmax(-1) == run.arrays["labels"]
            row["rate"], row["accuracy"] = config.learning_rate, correct.mean()
            row["score"] = areas.normalized_score(correct, log_odds(p))
            rows.append(row)
    return pd.DataFrame(rows)


def summary(settings: Choosing, found: pd.DataFrame) -> pd.DataFrame:
    """A row per budget and way: noise, trials, what is spent, means and standard errors."""
    n, config = settings.experiments.data.train, settings.experiments.training
    rows = []
    for (epsilon, way), each in found.groupby(["epsilon", "way"], sort=False):
        sigma = settings.noise(epsilon)[way]
        step = SampledGaussian(config.batch_size / n, sigma, config.steps)
        trials = len(settings.experiments.rates) if way in (WAYS[0], WAYS[2]) else 1
        spent = PrivacyLedger((step,) * trials).epsilon(1 / n)
        if way == WAYS[3]:
            ledger = PrivacyLedger((step,))
            spent = selection_epsilon(ledger, 1 / n, settings.mean_trials, settings.shape)
        row = {"epsilon": epsilon, "way": way, "noise": sigma, "trials": each["trials"].mean()}
        row["spent"] = spent
        for name in ("accuracy", "score"):
            row[name] = each[name].mean()
            row[f"{name} se"] = each[name].std(ddof=1) / math.sqrt(each[name].count())
        rows.append(row)
    return pd.DataFrame(rows)


def changes(table: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of each other way minus that of the search that is not counted."""
    rows = []
    for epsilon, each in table.groupby("epsilon", sort=False):
        ways = each.set_index("way")
        free = ways.loc[WAYS[0]]
        for way in WAYS[1:]:
            row = {"way": way, "epsilon": epsilon}
            row["accuracy"] = ways.loc[way, "accuracy"] - free["accuracy"]
            row["se"] = math.hypot(ways.loc[way, "accuracy se"], free["accuracy se"])
            rows.append(row)
    return pd.DataFrame(rows)


def costs(settings: Choosing, epsilon: float, numbers: tuple[int, ...]) -> pd.DataFrame:
    """Epsilon of searches of trials that each spend `epsilon`, by number and kind of search."""
    n, config = settings.experiments.data.train, settings.experiments.training
    sigma = find_noise_multiplier(epsilon, 1 / n, config.batch_size / n, config.steps)
    step = SampledGaussian(config.batch_size / n, sigma, config.steps)
    one = PrivacyLedger((step,))
    return pd.DataFrame(
        {
            "trials": number,
            "every trial counted": PrivacyLedger((step,) * number).epsilon(1 / n),
            "geometric": selection_epsilon(one, 1 / n, number, 1.0),
            "logarithmic": selection_epsilon(one, 1 / n, number),
        }
        for number in numbers
    )


#: How a search counts, by the names of its values, and numbers of trials that have some.
_KINDS = {"counted": "every trial counted", "random": "their number drawn"}
_TRIALS = (8, 64)


def costs_headline(counted: float, drawn: float, trials: int) -> str:
    """What a search of many trials costs if each counts, and if their number is drawn, in words."""
    return (
        f"A search of {trials} trials costs {counted:.1f} if each counts,\n"
        f"{drawn:.1f} if their number is drawn and kept secret"
    )


@draws("choosing", "costs")
def draw_costs(run: Run) -> Drawn:
    """Draw what searches cost, by their mean number of trials; logarithmic numbers."""
    values, least = run.values, run.values["least"]
    figure, ax = new_figure(height=2.6)
    for i, (name, word) in enumerate(_KINDS.items()):
        spent = [least, *(values[f"{name}_{trials}"] for trials in _TRIALS)]
        line = "--" if name == "random" else "-"
        ax.plot((1, *_TRIALS), spent, MARKERS[i], ls=line, lw=1.4, color=COLOURS[i])
        for trials, each in zip(_TRIALS, spent[1:], strict=True):
            off = {"xytext": (0, -14 if i else 6), "textcoords": "offset points", "ha": "center"}
            ax.annotate(f"{each:.1f}", (trials, each), color=COLOURS[i], **off)
        place = {"xy": (0.03, 0.9 - 0.12 * i), "xycoords": "axes fraction", "fontsize": 9}
        ax.annotate(word, **place, color=COLOURS[i])
    ax.set_xscale("log", base=2)
    ax.set_xticks((1, *_TRIALS), ["one trial", *map(str, _TRIALS)])
    ax.set_xlabel("trials of the search (mean, where drawn)")
    ax.set_ylabel("epsilon of the search")
    ax.set_ylim(0, 1.15 * values["counted_64"])
    ax.set_xlim(0.8, 90)
    head(ax, costs_headline(values["counted_64"], values["random_64"], 64))
    return Drawn(
        figure,
        "Epsilon against trials: counting each rises steeply, a drawn number slowly.",
        f"What a search of so many trials costs that spend epsilon = {least:g} each. Drawn numbers "
        "are logarithmic and kept secret; the axis has their mean.",
    )


def search_headline(table: pd.DataFrame) -> str:
    """What a search spends at the smallest budget that it claims, if nobody counts it."""
    left_out = table[table["way"] == WAYS[0]]
    claimed, spent = left_out.loc[left_out["epsilon"].idxmin(), ["epsilon", "spent"]]
    return f"A search that nobody counts\nclaims {claimed:g} and spends {spent:.2g}"


@draws("choosing", "accuracy")
def draw_accuracy(run: Run) -> Drawn:
    """Draw accuracy by what is spent, a line for each way, with Student's 95% intervals."""
    table, searches = run.tables["ways"], run.parameters["searches"]
    figure, ax = new_figure(height=3.4)
    times = special.stdtrit(searches - 1, 0.975)
    for place, way in enumerate(WAYS):
        each = table[table["way"] == way].sort_values("spent")
        ax.errorbar(
            each["spent"],
            each["accuracy"],
            times * each["accuracy se"],
            fmt=MARKERS[place] + "-",
            lw=1,
            color=COLOURS[place],
        )
    left_out = table[table["way"] == WAYS[0]]
    for claimed, spent, accuracy in left_out[["epsilon", "spent", "accuracy"]].to_numpy():
        ends = {"xy": (spent, accuracy), "xytext": (claimed, accuracy)}
        ax.annotate("", **ends, arrowprops={"arrowstyle": "-|>", "color": COLOURS[0], "ls": ":"})
        ax.plot(claimed, accuracy, MARKERS[0], color=COLOURS[0], mfc="white", ms=5, zorder=3)
    ax.set_xscale("log")
    plain_log(ax.xaxis)
    ax.set_xlabel(r"$\epsilon$ that is spent, every trial counted")
    ax.set_ylabel("test accuracy")
    for place, (way, color) in enumerate(zip(WAYS, COLOURS, strict=False)):
        where = {"xytext": (-4, 4 + 12 * (len(WAYS) - 1 - place)), "textcoords": "offset points"}
        ax.annotate(way, (1, 0), xycoords="axes fraction", ha="right", color=color, **where)
    head(ax, search_headline(table))
    return Drawn(
        figure,
        "Test accuracy by the budget spent: the team that counts no trial spends most; arrows from "
        "what it claims.",
        f"Test accuracy of what is released, {run.parameters['dataset']} "
        f"({run.parameters['model']}): means of {searches} searches with 95% intervals. Arrows "
        "lead from the budget claimed (hollow) to the one spent.",
    )

"""A promised accuracy under privacy: the threshold is chosen on private points as well.

One model of P1's plain family is trained with a budget.  Its predictions on the test points are a
population whose selective accuracy is known, from which validation data of any size are drawn.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from lib.plot import COLOURS, MARKERS, panels
from lib.privacy import PrivacyLedger, joint_epsilon
from lib.runs import run_all
from lib.selective import coverage_at_accuracy, guaranteed_threshold, private_threshold
from lib.studies.default_problem import title
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head_rows, words_above
from lib.studies.interplay.experiments import ExperimentSettings
from lib.training import ManyTrainings, TrainingConfig

#: Ways of choosing the threshold.
WAYS = ("private", "same test, no noise", "not private", "private quantile")


@dataclass(frozen=True)
class Promise:
    """What is trained, promised and drawn."""

    experiments: ExperimentSettings  # of which one model is trained
    rate: float  # its learning rate
    target: float  # accuracy that is promised
    level: float  # with so much confidence
    candidates: int  # thresholds that are tried, and answering everywhere
    budgets: tuple[float, ...]  # of the threshold, ascending
    sizes: tuple[int, ...]  # numbers of validation points, ascending
    draws: int  # of validation data of each size
    seed: int  # of the draws

    @property
    def config(self) -> TrainingConfig:
        """The training."""
        return self.experiments.configs("plain", self.experiments.epsilons[0], self.rate)[0]

    def thresholds(self) -> npt.NDArray[np.float64]:
        """Equally spaced in log odds from 0.25 to 0.995, fixed before any point is seen."""
        steps = np.linspace(*special.logit([0.25, 0.995]), self.candidates)
        return np.append(-np.inf, special.expit(steps))


@dataclass(frozen=True, eq=False)
class Trained:
    """The model's predictions on the population, and what it has spent."""

    correct: npt.NDArray[np.bool_]
    score: npt.NDArray[np.floating]
    ledger: PrivacyLedger
    delta: float


def train(settings: Promise) -> Trained:
    """Train the model, or read it from the store."""
    (run,) = run_all([ManyTrainings((settings.config,), settings.experiments.data)])
    p = special.softmax(run.arrays["logits"][0], axis=-1)
    spent = run.privacy["models"][0]
    ledger = PrivacyLedger.from_dict(spent["ledger"])
    correct = p.argmax(-1) == run.arrays["labels"]
    return Trained(correct, p.max(-1), ledger, spent["delta"])


def quantile_threshold(
    scores: np.ndarray, edges: np.ndarray, alpha: float, epsilon: float, rng: np.random.Generator
) -> float:
    """A private quantile for conformal prediction: Angelopoulos et al. 2021, as in their program.

    With it at most a fraction `alpha` of new scores lies above, in the mean over all draws.  Chosen
    is among the edges, whether or not a score lies next to them.
    """
    if alpha == 0:
        return float(edges[-1])
    n, m = len(scores), len(edges)
    gamma = np.linspace(0, 0.2, 1001)[1:]
    level = (n + 1) * (1 - alpha) / (n * (1 - gamma * alpha))
    level = np.min(level + np.log(m / (gamma * alpha)) / (epsilon * n)) + 1 / n
    ranks = np.searchsorted(np.sort(scores), edges, side="right")
    odds = special.softmax(-epsilon / 2 * np.abs(ranks - level * n))
    return float(rng.choice(edges, p=odds))


def evaluate(settings: Promise, correct: np.ndarray, score: np.ndarray) -> pd.DataFrame:
    """A row per size, way and budget: coverage in the mean, and how often the promise is broken.

    The private quantile is told the fraction of *all* points that may be answered and wrong so that
    the target is just reached, which nobody knows.
    """
    thresholds = settings.thresholds()
    best = coverage_at_accuracy(correct, score, settings.target)
    wrong = np.where(correct, -np.inf, score)
    options = {"target": settings.target, "level": settings.level}
    ordered, right = np.sort(score), np.sort(score[correct])

    def judged(threshold: float | None) -> tuple[float, bool]:
        if threshold is None:
            return 0.0, False
        k, hits = (len(s) - np.searchsorted(s, threshold, side="right") for s in (ordered, right))
        return k / len(score), bool(hits < settings.target * k)

    rows = []
    for number, n in enumerate(settings.sizes):
        found: dict[tuple[str, float], list[tuple[float, bool]]] = {}
        for draw in range(settings.draws):
            rng = np.random.default_rng([settings.seed, number, draw])
            drawn = rng.integers(len(score), size=n)
            here = {"correct": correct[drawn], "score": score[drawn]}
            with warnings.catch_warnings():  # of points drawn twice: independent all the same
                warnings.filterwarnings("ignore", "points look repeated", UserWarning)
                exact = guaranteed_threshold(**here, **options)
            chosen = {(WAYS[2], math.inf): exact.threshold}
            for epsilon in (*settings.budgets, math.inf):
                way = WAYS[0] if math.isfinite(epsilon) else WAYS[1]
                given = {"thresholds": thresholds, "epsilon": epsilon, "rng": rng}
                chosen[way, epsilon] = private_threshold(**here, **options, **given).threshold
            for epsilon in settings.budgets:
                given = (thresholds, best * (1 - settings.target), epsilon, rng)
                chosen[WAYS[3], epsilon] = quantile_threshold(wrong[drawn], *given)
            for place, threshold in chosen.items():
                found.setdefault(place, []).append(judged(threshold))
        for (way, epsilon), each in found.items():
            coverage, broken = np.array(each, dtype=float).T
            row = {"n": n, "way": way, "epsilon": epsilon, "coverage": coverage.mean()}
            row["coverage se"] = coverage.std(ddof=1) / math.sqrt(settings.draws)
            row |= {"none": (coverage == 0).mean(), "broken": broken.mean()}
            rows.append(row)
    return pd.DataFrame(rows)


def compositions(trained: Trained, budgets: tuple[float, ...]) -> pd.DataFrame:
    """What model and threshold spend together, by the threshold's budget and whose records."""
    model = trained.ledger.epsilon(trained.delta, "pld")
    return pd.DataFrame(
        {
            "threshold": epsilon,
            "model": model,
            "no one in both": max(model, epsilon),
            "same people": joint_epsilon(trained.ledger, trained.delta, [epsilon]),
            "sum": model + epsilon,
        }
        for epsilon in budgets
    )


@draws("promise", "coverage")
def draw_coverage(run: Run) -> Drawn:
    """Draw how often promises break, and what is answered, by validation points and budget."""
    table, values = run.tables["ways"], run.values
    quantile = table[(table["way"] == WAYS[3]) & (table["epsilon"] == values["spoken"])]
    lines = [("black", table[table["way"] == WAYS[2]]), (COLOURS[1], quantile)]
    private = table[table["way"] == WAYS[0]]
    lines += [(COLOURS[0], each) for _, each in private.groupby("epsilon")]
    figure, (kept, answered) = panels(2, 2.1)
    for place, (color, each) in enumerate(lines):
        look = {"color": color, "marker": MARKERS[min(place, 2)], "ms": 4, "lw": 1.4}
        kept.plot(each["n"], 100 * each["broken"], **look)
        answered.plot(each["n"], 100 * each["coverage"], **look)
    beside = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": COLOURS[0]}
    for epsilon, n, coverage in _most_apart(private):
        place = (
            {"xytext": (-5, 0), "ha": "right"} if n == min(private["n"]) else {"xytext": (4, -7)}
        )
        answered.annotate(f"{epsilon:g}", (n, 100 * coverage), **place, **beside)
    kept.axhline(100 * values["allowed"], color="0.4", ls="--", lw=1)
    answered.axhline(100 * values["best"], color="0.4", ls=":", lw=1)
    kept.set_ylabel("promises broken (%)")
    answered.set_ylabel("answered (%)")
    allowed = {"xycoords": kept.get_yaxis_transform(), "va": "top", "fontsize": 8}
    kept.annotate("allowed", (0.02, 100 * values["allowed"] - 0.1), color="0.4", **allowed)
    sizes = sorted(set(table["n"]))
    for ax in (kept, answered):
        ax.set_ylim(bottom=0)
        ax.set_xscale("log")
        ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
        ax.minorticks_off()
        ax.set_xlim(0.75 * sizes[0], 1.1 * sizes[-1])
    answered.set_xlabel("validation points")
    words = {"private, by $\\epsilon$": COLOURS[0], "not private": "black"}
    words_above(kept, words | {"private quantile": COLOURS[1]})
    head_rows(figure, promise_headline(values))
    parameters = run.parameters
    return Drawn(
        figure,
        "Private promises break in few draws, those of a private quantile in many; what is "
        "answered rises with points and budget.",
        f"A promised accuracy of {parameters['target']:g} on {title(parameters['dataset'])}: means "
        f"of {parameters['draws']:,} draws. Dashed: how many draws may break it; dotted: the "
        f"largest coverage there is. The private quantile has an epsilon of {values['spoken']:g}.",
    )


def _most_apart(private: pd.DataFrame) -> list[tuple[float, int, float]]:
    """Of each budget's line the point, size and coverage, that is the furthest from the others."""
    lines = private.pivot(index="n", columns="epsilon", values="coverage")
    found = []
    for epsilon, line in lines.items():
        others = lines.drop(columns=epsilon).sub(line, axis=0).abs().min(axis=1)
        n = others.fillna(0).idxmax()
        found.append((epsilon, n, line[n]))
    return found


def promise_headline(values: Mapping[str, float]) -> str:
    """How often private promises break at most, and what one costs where points are few."""
    private, free = (100 * values[f"{name}_few"] for name in ("private", "free"))
    few, epsilon = values["few"], rf"$\epsilon = {values['spoken']:g}$"
    return (
        f"At most {100 * values['broken']:.1f}% of private promises break;\n"
        f"{few:,} points: {epsilon} answers {private:.0f}%, no privacy {free:.0f}%"
    )

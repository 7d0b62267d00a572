"""Where does SCTD win? P1's ranking over the noise that training adds to the parameters."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from lib.data.images import load_images
from lib.privacy import PrivacyLedger, find_noise_multiplier
from lib.runs import StoredRun, run_all
from lib.selective import areas, scores
from lib.selective.uncertainty import compare, compare_over_seeds
from lib.studies.default_problem import default_problem, noise_source
from lib.training import CrossEntropy, DataSpec, ManyTrainings, ModelSpec, TrainingConfig
from lib.training.models import parameter_count

#: Parts of the checkpoints, the last ones, over which models are averaged.
PARTS = (0.1, 0.25, 0.5)

#: P1's network on Fashion-MNIST: 11.2 million parameters.
P1_NETWORK = ModelSpec("resnet18", (1, 28, 28), 10)

#: Names of SCTD's two formulas.
FORMS = {"equation": "SCTD", "algorithm": "SCTD (Algorithm 1)"}

#: Weightings k, every how many-th checkpoint is watched, and of which last part of the training:
#: P1's k with all of them first. Half of them are every second one, or those of the last half.
VARIANTS = (
    (3.0, 1, 1.0),
    (1.0, 1, 1.0),
    (9.0, 1, 1.0),
    (3.0, 2, 1.0),
    (3.0, 4, 1.0),
    (3.0, 1, 0.5),
    (3.0, 1, 0.25),
)


@dataclass(frozen=True)
class Regime:
    """How models are trained, but for the learning rate."""

    batch_size: int  # As :class:`lib.training.TrainingConfig` has it, and the next two
    clipping_norm: float
    momentum: float
    epochs: int  # Passes over the data, in expectation
    seeds: int  # Repetitions, at most 99


@dataclass(frozen=True)
class MapSettings:
    """What the map trains: every regime at every budget and step."""

    data: DataSpec
    model: ModelSpec
    regimes: tuple[Regime, ...]  # At most 9
    # How far the clipped gradient of one example moves the parameters in the end: the learning rate
    # times the clipping norm, over the batch size and 1 - momentum. At most 99.
    moves: tuple[float, ...]
    epsilons: tuple[float, ...] = (7.0, 3.0, 1.0)  # At most 9
    checkpoints: int = 40  # That are looked at, at most: evenly spaced, the last one included
    entropy: float = 0.01  # Weight of the entropy regularization; P1's 0.01
    device: str = "cpu"

    def __post_init__(self):
        for name, most in (("regimes", 9), ("moves", 99), ("epsilons", 9)):
            if not 1 <= len(getattr(self, name)) <= most:  # seeds of more would meet
                raise ValueError(
                    f"{name} must be 1 to {most}, got {len(getattr(self, name))} of them"
                )

    def configs(self, regime: Regime, epsilon: float, seed: int) -> tuple[TrainingConfig, ...]:
        """One training for each step: the same regime, budget and repetition."""
        steps = max(1, round(regime.epochs * self.data.train / regime.batch_size))
        base = TrainingConfig(
            self.model,
            CrossEntropy(self.entropy),
            epsilon=epsilon,
            clipping_norm=regime.clipping_norm,
            batch_size=regime.batch_size,
            steps=steps,
            momentum=regime.momentum,
            checkpoint_every=math.ceil(steps / self.checkpoints),
            keep="weights",
            device=self.device,
            noise_source=noise_source(self.device),
            grad_sample_mode="taps",
        )
        place = 10 * self.regimes.index(regime) + self.epsilons.index(epsilon)
        scale = regime.batch_size * (1 - regime.momentum) / regime.clipping_norm
        return tuple(
            replace(base, learning_rate=move * scale, seed=10_000 * place + 100 * i + seed)
            for i, move in enumerate(self.moves)
        )

    def jobs(self) -> dict[tuple[Regime, float, int], ManyTrainings]:
        """All training runs, the first repetition of everything first."""
        most = max(regime.seeds for regime in self.regimes)
        return {
            (regime, epsilon, seed): ManyTrainings(
                self.configs(regime, epsilon, seed), self.data, chunk=1, averages=PARTS
            )
            for seed in range(most)
            for regime in self.regimes
            for epsilon in self.epsilons
            if seed < regime.seeds
        }


def whole_problem(dataset: str, model: str, hidden: int) -> tuple[DataSpec, ModelSpec]:
    """All of a data set, without points to choose anything on, and a model for it."""
    sizes = {"train": 1200, "test": 597}
    if dataset != "digits":
        sizes = {split: len(load_images(dataset, split).labels) for split in ("train", "test")}
    return default_problem(dataset, model, validation=0, hidden=hidden, **sizes)


@dataclass(frozen=True, eq=False)
class NoiseMap:
    """What the map shows."""

    # A row for each model and way to score it: ``batch``, ``clipping norm``, ``momentum``,
    # ``epochs``, ``epsilon``, ``rate``, ``noise multiplier``; ``noise``, how far one step's noise
    # moves the parameters in the end (root of the mean square), and ``all noise``, how far the
    # noise of all steps does; ``seed``, ``method``, ``accuracy`` at full coverage and ``score``
    # (normalized, smaller is better). Of SCTD also ``k``, ``spacing`` of the checkpoints watched,
    # the last ``part`` of them, and ``tied``, the fraction of points in the largest group of equal
    # scores.
    models: pd.DataFrame
    # A row for each setting and method but softmax response: ``difference`` of its normalized
    # score from that of softmax response (negative: it abstains better), mean over the seeds,
    # with the interval from ``low`` to ``high`` at 95%, over training runs and points, of points
    # alone where there is one training.
    cells: pd.DataFrame
    seconds: float  # What the training runs took, one after another


def run_map(settings: MapSettings) -> NoiseMap:
    """Train what is not stored yet, and score everything."""
    jobs = settings.jobs()
    runs = dict(zip(jobs, run_all(list(jobs.values())), strict=True))
    models: list[dict[str, Any]] = []
    cells: list[dict[str, Any]] = []
    root = math.sqrt(parameter_count(settings.model))
    places = itertools.product(settings.regimes, settings.epsilons, enumerate(settings.moves))
    for regime, epsilon, (i, move) in places:
        mine = [runs[regime, epsilon, seed] for seed in range(regime.seeds)]
        found = [dict(_ranked(run, i)) for run in mine]
        entry = PrivacyLedger.from_dict(mine[0].privacy["models"][i]["ledger"]).entries[0]
        noise = move * entry.noise_multiplier * root
        where = {
            "batch": regime.batch_size,
            "clipping norm": regime.clipping_norm,
            "momentum": regime.momentum,
            "epochs": regime.epochs,
            "epsilon": epsilon,
            "rate": jobs[regime, epsilon, 0].configs[i].learning_rate,
            "noise multiplier": entry.noise_multiplier,
            "noise": noise,
            "all noise": noise * math.sqrt(entry.steps),
        }
        models += [
            where | {"seed": seed} | _areas(method, *each)
            for seed, one in enumerate(found)
            for method, each in one.items()
        ]
        cells += [where | row for row in _against_response(found)]
    seconds = sum(run.seconds for run in runs.values())
    return NoiseMap(pd.DataFrame(models), pd.DataFrame(cells), seconds)


#: A way to score a model, and for SCTD one of the variants.
Method = tuple[str, float | None, int | None, float | None]
Ranking = tuple[npt.NDArray[np.bool_], npt.NDArray[np.floating]]
_ALONE = (None, None, None)
_RESPONSE: Method = ("SR", *_ALONE)


def _ranked(run: StoredRun, model: int) -> Iterator[tuple[Method, Ranking]]:
    """What is right and how it is ranked, for all ways to score one model."""
    arrays = run.arrays
    labels, history = arrays["labels"], arrays["checkpoints"][model]
    p = special.softmax(arrays["logits"][model].astype(float), axis=-1)
    correct, response = p.argmax(-1) == labels, scores.log_odds(p)
    yield _RESPONSE, (correct, response)
    for form, name in FORMS.items():
        for k, spacing, part in VARIANTS:
            last = history[-max(2, round(part * len(history))) :]
            watched = last[::-1][::spacing][::-1]  # the final model stays the last
            score = scores.sctd(watched, k, form)
            yield (name, k, spacing, part), (correct, score)
            broken = scores.ties_broken_by(score, response)
            yield (f"{name}, ties by SR", k, spacing, part), (correct, broken)
    for place, part in enumerate(PARTS):
        of_parameters = special.softmax(arrays["of_parameters"][model, place], axis=-1)
        for what, mean in (
            ("parameters", of_parameters),
            ("probabilities", arrays["of_probabilities"][model, place]),
        ):
            ranked = mean.argmax(-1) == labels, scores.log_odds(mean)
            yield (f"SR, {what} of the last {part:.0%}", *_ALONE), ranked


def _areas(method: Method, correct: npt.NDArray, score: npt.NDArray) -> dict[str, Any]:
    name, k, spacing, part = method
    tied = np.unique(score, return_counts=True)[1].max() / len(score)
    return {
        "method": name,
        "k": k,
        "spacing": spacing,
        "part": part,
        "tied": tied if k else None,
        "accuracy": correct.mean(),
        "score": areas.normalized_score(correct, score),
    }


def _against_response(found: Sequence[Mapping[Method, Ranking]]) -> Iterator[dict[str, Any]]:
    """Differences from softmax response, for P1's k and all checkpoints."""
    for method in found[0]:
        if method == _RESPONSE or method[1:] not in (_ALONE, VARIANTS[0]):
            continue
        first, second = ([one[m] for one in found] for m in (method, _RESPONSE))
        if len(found) > 1:
            stacks = [
                np.stack(part) for pairs in (first, second) for part in zip(*pairs, strict=True)
            ]
            mean = compare_over_seeds(*stacks)
            value, (low, high) = mean.value, mean.interval()
        else:
            one = compare(*first[0], *second[0])
            value, low, high = one.value, one.low, one.high
        yield {
            "method": method[0],
            "seeds": len(found),
            "accuracy": np.mean([correct.mean() for correct, _ in first]),
            "difference": value,
            "low": low,
            "high": high,
        }


# ---------------------------------------------------------------------------------------- tables

#: What tells settings apart.
SETTING = ["batch", "clipping norm", "momentum", "epochs", "epsilon", "rate"]

#: Ways to score that the tables of the page show: their column, and their name in `cells`.
SHOWN = {
    "SCTD": "SCTD",
    "SCTD, ties by SR": "SCTD, ties by SR",
    "mean probabilities": "SR, probabilities of the last 25%",
    "mean parameters": "SR, parameters of the last 25%",
}


def overview(found: NoiseMap) -> pd.DataFrame:
    """A row for each setting: accuracy and score of softmax response, and what others change."""
    models = found.models[found.models["method"] == "SR"]
    keys = [*SETTING, "noise", "all noise"]
    table = models.groupby(keys, sort=False)[["accuracy", "score"]].mean()
    table = table.rename(columns={"score": "SR"})
    for short, name in SHOWN.items():
        of = found.cells[found.cells["method"] == name].set_index(keys)
        table[short] = of["difference"]
        table[f"{short} low"], table[f"{short} high"] = of["low"], of["high"]
        if short.startswith("mean"):
            table[f"{short} accuracy"] = of["accuracy"]
    return table.reset_index()


def ahead(table: pd.DataFrame, method: str = "SCTD") -> pd.Series:
    """Who has the lower score in each setting, by the 95% interval: the method, SR or nobody."""
    found = np.where(table[f"{method} high"] < 0, method, "undecided")
    return pd.Series(np.where(table[f"{method} low"] > 0, "SR", found), table.index)


def ordered_pairs(table: pd.DataFrame, noise: str, method: str = "SCTD") -> tuple[int, int]:
    """Pairs of a setting that SCTD wins and one that SR wins: where it has more noise, and all."""
    winner = ahead(table, method)
    more, less = (table.loc[winner == who, noise].to_numpy() for who in (method, "SR"))
    right = more[:, None] > less
    return int(right.sum()), right.size


def best_pairs(table: pd.DataFrame) -> pd.DataFrame:
    """Where SR is ahead and where SCTD is: highest accuracy, and lowest score, of any method.

    Chosen on the points on which they are reported, which flatters them.
    """
    methods, rows = ["SR", *SHOWN], []
    for (epsilon, who), region in table.groupby(["epsilon", ahead(table).rename("ahead")]):
        own, score = region["accuracy"], region["SR"]
        scored = np.column_stack([score, *(score + region[short] for short in SHOWN)])
        accurate = np.column_stack([own, *(region.get(f"{m} accuracy", own) for m in SHOWN)])
        # Of methods of equal accuracy, those of one model, the one of the lower score
        top = min(np.argwhere(accurate == accurate.max()), key=lambda at: scored[*at])
        low = np.unravel_index(scored.argmin(), scored.shape)
        row = {"epsilon": epsilon, "ahead": who, "settings": len(region)}
        row |= {"highest accuracy": accurate[*top], "its score": scored[*top]}
        row |= {"method": methods[top[1]], "lowest score": scored[*low]}
        row |= {"accuracy there": accurate[*low], "its method": methods[low[1]]}
        rows.append(row)
    order = list(table["epsilon"].unique())
    return pd.DataFrame(sorted(rows, key=lambda row: order.index(row["epsilon"])))


def both_better(pairs: pd.DataFrame) -> tuple[int, int]:
    """Budgets at which the best accuracy and the best score are SR's region's, and of how many."""
    of = pairs.set_index(["ahead", "epsilon"])[["highest accuracy", "lowest score"]]
    if not {"SR", "SCTD"} <= set(pairs["ahead"]):
        return 0, 0
    change = (of.loc["SR"] - of.loc["SCTD"]).dropna()
    better = (change["highest accuracy"] > 0) & (change["lowest score"] < 0)
    return int(better.sum()), len(change)


def by_epochs(table: pd.DataFrame) -> pd.DataFrame:
    """Settings that differ in their epochs alone: what those of more have over those of fewer.

    ``noise``, a ratio (of all steps), and changes of ``accuracy`` and of the methods' differences
    from SR; between neighboring numbers of epochs.
    """
    rows = []
    for _, of in table.groupby([name for name in SETTING if name != "epochs"], sort=False):
        of = of.sort_values("epochs")
        for fewer, more in itertools.pairwise(of.to_dict("records")):
            row = {name: more[name] - fewer[name] for name in ("accuracy", *SHOWN)}
            rows.append(row | {"noise": more["all noise"] / fewer["all noise"]})
    return pd.DataFrame(rows, columns=["noise", "accuracy", *SHOWN])


def averages(found: NoiseMap) -> pd.DataFrame:
    """Averages of the last models by their part: settings better and worse than SR, and means."""
    cells = found.cells[found.cells["method"].str.contains(" of the last ")]
    own = found.models[found.models["method"] == "SR"].groupby(SETTING)["accuracy"].mean()
    rows = []
    for name, of in cells.groupby("method", sort=False):
        of = of.set_index(SETTING)
        row = {"mean of": name.removeprefix("SR, "), "settings": len(of)}
        row |= {"better": int((of["high"] < 0).sum()), "worse": int((of["low"] > 0).sum())}
        gained = (of["accuracy"] - own).mean()
        rows.append(row | {"score": of["difference"].mean(), "accuracy": gained})
    return pd.DataFrame(rows)


def variants(found: NoiseMap) -> pd.DataFrame:
    """SCTD's two formulas, k and the models watched: in how many settings each beats SR."""
    models = found.models
    keys = [*SETTING, "seed"]
    response = models[models["method"] == "SR"].set_index(keys)["score"]
    tried = models[models["k"].notna()]
    rows = []
    named = ["method", "k", "spacing", "part"]
    for (name, k, spacing, part), of in tried.groupby(named, sort=False):
        scored = of.set_index(keys)
        gain = (scored["score"] - response).groupby(SETTING, sort=False).mean()
        rows.append(
            {
                "formula": name.split(",")[0],
                "ties": "by SR" if "ties by SR" in name else "averaged",
                "k": k,
                "every": int(spacing),
                "of the last": part,
                "score": scored["score"].mean(),
                "largest tie": scored["tied"].mean(),
                "better than SR": int((gain < 0).sum()),
                "settings": len(gain),
            }
        )
    return pd.DataFrame(rows)


def accuracy_lost(table: pd.DataFrame) -> float:
    """How much less accurate the best model with SCTD ahead is than the best, the worst budget."""
    best = table.groupby("epsilon")["accuracy"].max()
    with_sctd = table[ahead(table) == "SCTD"].groupby("epsilon")["accuracy"].max()
    return float((best - with_sctd).max()) if len(with_sctd) else 0.0


def mean_or_zero(values: pd.Series) -> float:
    """The mean, 0 of nothing: a page without such settings is still a page."""
    return float(values.mean()) if len(values) else 0.0


def column_names() -> dict[str, str]:
    """Columns of differences, as the code calls them, to what a page calls them."""
    ends = {"": "", " low": ", low", " high": ", high"}
    return {
        f"{name}{end}": f"{name}, minus SR{said}" for name in SHOWN for end, said in ends.items()
    }


def differences(table: pd.DataFrame) -> pd.DataFrame:
    """The same under names that say which columns are differences from SR's score."""
    return table.rename(columns=column_names())


def printed_rates(settings: MapSettings, table: pd.DataFrame) -> pd.DataFrame:
    """Learning rates at which P1's printed settings would have the noise of the map's border.

    P1, section 4: batches of 128, 200 epochs, clipping norm 10; no rate is printed. The border
    lies between the least noise with which SCTD is ahead and the most with which SR is. The noise
    grows with the root of the number of parameters: of the map's network, and of P1's.
    """
    batch, norm, n = 128, 10.0, settings.data.train
    steps, winner = round(200 * n / batch), ahead(table)
    borders = (
        table.loc[winner == "SCTD", "all noise"].min(),
        table.loc[winner == "SR", "all noise"].max(),
    )
    rows = []
    for model, epsilon in itertools.product((settings.model, P1_NETWORK), settings.epsilons):
        sigma, d = find_noise_multiplier(epsilon, 1 / n, batch / n, steps), parameter_count(model)
        per_rate = norm / batch * sigma * math.sqrt(d * steps)
        rows.append(
            {
                "network": model.name,
                "parameters": d,
                "epsilon": epsilon,
                "steps": steps,
                "noise multiplier": sigma,
                "SR up to rate": min(borders) / per_rate,
                "SCTD from rate": max(borders) / per_rate,
                "noise at rate 0.01": 0.01 * per_rate,
            }
        )
    return pd.DataFrame(rows)

"""P1's experiments: every method at every budget, trained, tuned and ranked under one roof.

A *family* is a way of training; several methods score the same models.  Training runs are jobs of
:mod:`lib.runs`: stored, resumed, spread over workers.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import optimize, special

from lib.data.images import load_images
from lib.privacy import PrivacyLedger, find_noise_multiplier
from lib.runs import StoredRun, run_all
from lib.selective import scores
from lib.selective.curves import accuracy_coverage
from lib.studies.default_problem import PUBLIC_IMAGES, default_problem
from lib.ties import first_largest
from lib.training import (
    CrossEntropy,
    DataSpec,
    DeepGamblers,
    ManyTrainings,
    ModelSpec,
    SelectiveNet,
    SelfAdaptiveTraining,
    TrainingConfig,
)

#: Ways of training, and the methods that score their models.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "plain": (
        "SR",
        "SCTD",
        "SCTD, ties by SR",
        "SR, calibrated",
        "entropy",
        "margin",
        "energy",
        "set size",
    ),
    "MCDO": ("MCDO",),
    "SAT": ("SAT", "SAT, own score"),
    "DG": ("DG", "DG, own score"),
    "DE": ("DE",),
    "SN": ("SN",),
    "no entropy": ("SR, no entropy", "SCTD, no entropy"),
    "DE adversarial": ("DE, adversarial",),
}

_WATCHED = ("plain", "no entropy")  # families whose intermediate models are looked at

#: Accuracies of the training runs with each learning rate.
Tried = dict[float, list[float]]
#: Family, budget, whether its training runs are of SelectiveNet's smallest target coverage.
Search = tuple[str, float, bool]

#: Methods that P1 compares, in the order of its tables.
P1_METHODS = ("SR", "SAT", "MCDO", "DE", "SCTD", "SN")


@dataclass(frozen=True)
class ExperimentSettings:
    """What is trained."""

    data: DataSpec  # With validation points, to choose learning rates on
    # Of all families, which add head, dropout and objective of their own; budgets, learning rates
    # and seeds are set here, and ``checkpoint_every`` counts where checkpoints are looked at
    training: TrainingConfig
    # At most 9 budgets, the largest first; infinity is training without privacy
    epsilons: tuple[float, ...] = (math.inf, 7.0, 3.0, 1.0)
    n_seeds: int = 5  # Repetitions, at most 99
    # Learning rates to choose from, for each family and budget by itself
    rates: tuple[float, ...] = (0.1,)
    free_rates: tuple[float, ...] = ()  # Those without privacy, where no gradient is clipped
    # Rates that a search begins with, the middle ones, to go on while the best is at an end; 0: all
    first_rates: int = 0
    # Training runs that decide between the best rate and its neighbors, with the first; at most 50
    rate_seeds: int = 1
    families: tuple[str, ...] = tuple(FAMILIES)[:-1]  # Of :data:`FAMILIES`, "plain" among them
    entropy: float = 0.01  # Weight of the entropy regularization; P1's 0.01
    dropout: float = 0.1  # For MCDO; P1's 0.1
    dropout_passes: int = 20  # Sub-networks of MCDO
    members: int = 5  # Of the deep ensembles, at most 99; P1's 5
    adversarial: float = 0.01  # Of adversarial training: Lakshminarayanan et al.'s for [0, 1]
    # Target coverages of SelectiveNet, ascending, 1 the last
    coverages: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 1.0)
    # Fraction of the steps before SAT and DG learn to abstain; P1's 100 of 200 epochs (SAT)
    burn_in: float = 0.5
    reward: float = 4.0  # Of deep gamblers
    private_only: bool = False  # Nothing without privacy: its budget keeps its place, for the seeds

    def __post_init__(self):
        # What a chapter's parameters may have: seeds of more budgets would meet.
        if len(self.epsilons) > 9:
            raise ValueError(f"epsilons must be at most 9, got {len(self.epsilons)}")
        if self.first_rates < 0:
            raise ValueError(f"first_rates must not be negative, got {self.first_rates}")
        if not 1 <= self.rate_seeds <= 50:
            raise ValueError(f"rate_seeds must be 1 to 50, got {self.rate_seeds}")
        if "plain" not in self.families:
            raise ValueError(f"families must have 'plain' among them, got {self.families!r}")
        in_order = tuple(f for f in FAMILIES if f in self.families)
        object.__setattr__(self, "families", in_order)  # as tables have them

    def configs(self, family: str, epsilon: float, rate: float) -> tuple[TrainingConfig, ...]:
        """Training runs of a family at a budget, seed by seed; several per seed for DE and SN."""
        models = self._models(family, epsilon)
        base = replace(self.training, epsilon=epsilon, learning_rate=rate)
        if family not in _WATCHED:
            base = replace(base, checkpoint_every=None)
        return tuple(
            replace(base, seed=self._seed(family, epsilon, k, m), **change)
            for k in range(self.n_seeds)
            for m, change in enumerate(models)
        )

    def tuning(
        self,
        family: str,
        epsilon: float,
        rates: Sequence[float] | None = None,
        repetition: int = 0,
        *,
        smallest: bool = False,
    ) -> tuple[TrainingConfig, ...]:
        """Training runs that choose the learning rate, by rate; of all rates if no list is given.

        SelectiveNet's are of target coverage 1, or of the smallest one.
        """
        models, seed = self._models(family, epsilon), 50_000_000 + 1_000_000 * repetition
        return tuple(
            replace(
                self.training,
                epsilon=epsilon,
                learning_rate=rate,
                checkpoint_every=None,
                seed=seed + self._seed(family, epsilon, number, int(smallest)),
                **models[0 if smallest else -1],
            )
            for number, rate in enumerate(self.rates_at(epsilon))
            if rates is None or rate in rates
        )

    @property
    def places(self) -> list[tuple[str, float]]:
        """Families and budgets."""
        budgets = [e for e in self.epsilons if math.isfinite(e) or not self.private_only]
        return [(f, e) for f in self.families for e in budgets]

    def searches(self) -> dict[Search, ManyTrainings]:
        """Training runs that begin the choice of a learning rate, where there are several."""
        return self._tried(
            {
                (f, e): middle(self.rates_at(e), self.first_rates)
                for f, e in self.places
                if len(self.rates_at(e)) > 1
            }
        )

    def further(self, tried: Mapping[tuple[str, float], Tried]) -> dict[Search, ManyTrainings]:
        """Training runs at the neighbors of the best rate so far, where they were not tried."""
        missing = {
            place: [r for r in leading(found, self.rates_at(place[1])) if r not in found]
            for place, found in tried.items()
        }
        return self._tried({place: rates for place, rates in missing.items() if rates})

    def finals(
        self, leading: Mapping[tuple[str, float], Sequence[float]]
    ) -> dict[Search, ManyTrainings]:
        """Further training runs that decide between the leading rates, repetition by repetition."""
        return self._tried(leading, range(1, self.rate_seeds)) if self.rate_seeds > 1 else {}

    def _tried(
        self, rates: Mapping[tuple[str, float], Sequence[float]], repetitions: Sequence[int] = (0,)
    ) -> dict[Search, ManyTrainings]:
        """SelectiveNet's rate is to suit all targets: the largest and the smallest one decide."""
        jobs = {}
        for place, some in rates.items():
            both = place[0] == "SN" and len(self.coverages) > 1
            for smallest in (False, True) if both else (False,):
                each = (self.tuning(*place, some, r, smallest=smallest) for r in repetitions)
                configs = tuple(itertools.chain.from_iterable(each))
                jobs[*place, smallest] = ManyTrainings(configs, self.data, points="validation")
        return jobs

    def trainings(
        self, rates: Mapping[tuple[str, float], float]
    ) -> dict[tuple[str, float], ManyTrainings]:
        """The final training runs, with the rates that were chosen."""
        return {
            (f, e): ManyTrainings(
                self.configs(f, e, rates[f, e]),
                self.data,
                dropout_passes=self.dropout_passes if f == "MCDO" else 0,
            )
            for f, e in self.places
        }

    def with_rare_class(
        self, keep: Sequence[float], n_seeds: int, rates: Mapping[float, float]
    ) -> dict[tuple[float, float], ManyTrainings]:
        """The plain family with fewer and fewer examples of class 0, for the first seeds."""
        first = replace(self, n_seeds=min(n_seeds, self.n_seeds))
        return {
            (p0, epsilon): ManyTrainings(
                tuple(
                    replace(c, seed=c.seed + 100_000_000 * number, checkpoint_every=None)
                    for c in first.configs("plain", epsilon, rates[epsilon])
                ),
                replace(self.data, keep_class=p0),
            )
            for number, p0 in enumerate(keep, 1)
            for epsilon in self.epsilons
        }

    @property
    def epochs(self) -> float:
        """Expected passes over the training points."""
        return round(self.training.steps * self.training.batch_size / self.data.train, 2)

    def rates_at(self, epsilon: float) -> list[float]:
        """Learning rates to choose from at a budget, ascending."""
        return sorted(set((math.isinf(epsilon) and self.free_rates) or self.rates))

    def _models(self, family: str, epsilon: float) -> list[dict[str, Any]]:
        model, plain = self.training.model, CrossEntropy(self.entropy)
        burn_in = int(self.burn_in * self.training.steps)
        if family == "MCDO":
            return [{"objective": plain, "model": replace(model, dropout=self.dropout)}]
        if family == "SAT":
            objective = SelfAdaptiveTraining(burn_in, entropy=self.entropy)
            return [{"objective": objective, "model": replace(model, head="abstain")}]
        if family == "DG":
            objective = DeepGamblers(self.reward, self.entropy, burn_in)
            return [{"objective": objective, "model": replace(model, head="abstain")}]
        if family.startswith("DE"):
            moved = self.adversarial if family == "DE adversarial" else 0.0
            member = {"objective": plain, "releases": self.members, "adversarial": moved}
            return [member] * self.members
        if family == "SN":
            noise = self._statistic_noise(epsilon)
            return [
                {
                    "objective": SelectiveNet(c, entropy=self.entropy, statistic_noise=noise),
                    "model": replace(model, head="selective"),
                    "releases": len(self.coverages),
                }
                for c in self.coverages
            ]
        return [{"objective": CrossEntropy(0.0) if family == "no entropy" else plain}]

    def _statistic_noise(self, epsilon: float) -> float:
        """Of SelectiveNet's batch statistics: twice what the budget asks for.

        The gradients then need 15% more; more in the statistics shuts the gates of small targets.
        """
        if math.isinf(epsilon):
            return 1.0  # no noise is drawn
        n, batch, steps = self.data.train, self.training.batch_size, self.training.steps
        releases = len(self.coverages)
        needed = find_noise_multiplier(epsilon, 1 / n, batch / n, steps, releases=releases)
        return 2 * needed

    def _seed(self, family: str, epsilon: float, k: int, m: int) -> int:
        """All different: no two models share their noise."""
        place = 10 * list(FAMILIES).index(family) + self.epsilons.index(epsilon)
        return 10_000 * place + 100 * k + m


def all_points(
    dataset: str,
    model: str,
    *,
    hidden: int = 32,
    activation: str = "tanh",
    validation: int = 0,
    seed: int = 0,
) -> tuple[DataSpec, ModelSpec]:
    """All points of a data set, some of them to choose learning rates on, and a model for them.

    `validation` is how many these are; 0: a tenth, at most 3,000. Digits always have 200.
    """
    sizes = {"train": 1000, "validation": 200, "test": 597}
    if dataset != "digits":
        train, test = (load_images(dataset, split) for split in ("train", "test"))
        flat_colours = model in ("linear", "mlp") and train.images.shape[3] > 1
        validation = validation or min(3000, len(train) // 10)
        left = len(train) - validation - flat_colours * PUBLIC_IMAGES
        if train.groups is not None:  # the one in which a set is full is in no other
            left -= 2 * int(np.bincount(train.groups).max())
        sizes = {"train": left, "validation": validation, "test": len(test)}
    return default_problem(dataset, model, **sizes, hidden=hidden, activation=activation, seed=seed)


@dataclass(frozen=True, eq=False)
class Predictions:
    """What one method says about every evaluation point, for every seed."""

    correct: npt.NDArray[np.bool_]  # shape (seeds, n): Whether the prediction is right
    score: npt.NDArray[np.floating]  # shape (seeds, n): Acceptance score

    def by_seed(self, function: Callable[..., Any]) -> npt.NDArray:
        """A function of correctness and score, seed by seed."""
        pairs = zip(self.correct, self.score, strict=True)
        return np.array([function(correct, score) for correct, score in pairs])


@dataclass(frozen=True, eq=False)
class Experiments:
    """What was trained, and what its models say."""

    settings: ExperimentSettings  # What was trained
    labels: npt.NDArray[np.int64]  # shape (n,): Of the evaluation points
    predictions: Mapping[tuple[str, float], Predictions]  # Of every method but SelectiveNet
    selective: Mapping[float, Predictions]  # SelectiveNet's: arrays of shape (seeds, coverages, n)
    # shape (seeds, t, n): Predicted classes of the plain family's intermediate models, the final
    # one last
    checkpoints: Mapping[float, npt.NDArray[np.integer]]
    # ``family``, ``epsilon``, ``rate``, ``accuracy`` on the validation points (a mean over
    # ``trainings``), ``chosen``
    rates: pd.DataFrame
    # What every family spends: ``family``, ``epsilon``, ``models``, ``noise_multiplier``, ``spent``
    # by all models of a seed together
    privacy: pd.DataFrame
    seconds: float  # What the training runs took, one after another

    @property
    def methods(self) -> list[str]:
        """Methods with a score at every coverage, in order of the families."""
        return list(dict.fromkeys(method for method, _ in self.predictions))


def run_experiments(settings: ExperimentSettings) -> Experiments:
    """Tune, train and score everything; what is stored already is read."""
    tried, tuned = _search(settings)
    table = _rates(settings, tried)
    chosen = {(r.family, r.epsilon): r.rate for r in table[table["chosen"]].itertuples()}
    runs = _run(settings.trainings(chosen))
    labels = next(iter(runs.values())).arrays["labels"]
    predictions: dict[tuple[str, float], Predictions] = {}
    selective, checkpoints, spent = {}, {}, []
    for (family, epsilon), run in runs.items():
        arrays = run.arrays
        if family == "SN":
            shape = settings.n_seeds, len(settings.coverages), len(labels), -1
            p = special.softmax(arrays["logits"], axis=-1).reshape(shape)
            odds = [[scores.log_odds(each) for each in models] for models in p]
            selective[epsilon] = Predictions(p.argmax(-1) == labels, np.array(odds))
        else:
            scored = _score(family, arrays, labels, settings)
            predictions |= {(method, epsilon): found for method, found in scored.items()}
        if family == "plain":
            checkpoints[epsilon] = arrays["checkpoints"]
        spent.append(_spent(family, epsilon, run, settings))
    order = {m: i for i, m in enumerate(m for each in FAMILIES.values() for m in each)}
    predictions = dict(sorted(predictions.items(), key=lambda item: order[item[0][0]]))
    seconds = _seconds([*tuned, *runs.values()])
    spent = pd.DataFrame(spent)
    return Experiments(settings, labels, predictions, selective, checkpoints, table, spent, seconds)


@dataclass(frozen=True, eq=False)
class Imbalance:
    """Models trained on data in which one class is rare (P1, appendix B.2)."""

    keep: tuple[float, ...]  # Probabilities p0 with which training examples of class 0 were kept
    epsilons: tuple[float, ...]  # Budgets
    labels: npt.NDArray[np.int64]  # shape (n,): Of the evaluation points, which are not thinned
    predictions: Mapping[tuple[float, float], Predictions]  # Softmax response
    rare_examples: Mapping[float, int]  # Training examples of class 0 that were left, by p0
    seconds: float  # What the training runs took, one after another


def _run(jobs: Mapping[Any, ManyTrainings]) -> dict[Any, StoredRun]:
    """Execute the jobs, those of many models first: the last one alone keeps others waiting."""
    order = sorted(jobs, key=lambda place: -len(jobs[place].configs))
    runs = dict(zip(order, run_all([jobs[place] for place in order]), strict=True))
    return {place: runs[place] for place in jobs}


def run_imbalance(trained: Experiments, keep: Sequence[float], n_seeds: int) -> Imbalance:
    """Train the plain family with fewer and fewer examples of class 0, at most `n_seeds` times."""
    settings = trained.settings
    table = trained.rates[trained.rates["chosen"] & (trained.rates["family"] == "plain")]
    rates = dict(zip(table["epsilon"], table["rate"], strict=True))
    runs = _run(settings.with_rare_class(keep, n_seeds, rates))
    predictions = {}
    for place, run in runs.items():
        odds = np.stack([scores.log_odds(logits=z) for z in run.arrays["logits"]])
        predictions[place] = Predictions(run.arrays["logits"].argmax(-1) == trained.labels, odds)
    left = {p0: runs[p0, settings.epsilons[0]].metrics["models"][0]["rare_examples"] for p0 in keep}
    seconds = _seconds(runs.values())
    return Imbalance(tuple(keep), settings.epsilons, trained.labels, predictions, left, seconds)


def _seconds(runs: Iterable[StoredRun]) -> float:
    return sum(run.seconds for run in runs)


def _score(
    family: str, arrays: Mapping[str, np.ndarray], labels: np.ndarray, settings: ExperimentSettings
) -> dict[str, Predictions]:
    p = special.softmax(arrays["logits"].astype(float), axis=-1)
    if family.startswith("DE"):
        p = p.reshape(settings.n_seeds, settings.members, len(labels), -1).mean(1)
        correct = p.argmax(-1) == labels
    else:
        if family == "MCDO":
            p = arrays["dropout"]  # the mean of the sub-networks is all that is kept
        correct = p.argmax(-1) == labels

    def each(function, *stacks) -> Predictions:
        return Predictions(correct, np.stack([function(*row) for row in zip(*stacks, strict=True)]))

    if family.startswith("DE"):
        return {FAMILIES[family][0]: each(scores.log_odds, p)}
    response = each(scores.log_odds, p)  # ranks as softmax response, without ties at 1
    if family == "MCDO":
        return {"MCDO": response}
    if family in ("SAT", "DG"):
        own = scores.self_adaptive_training if family == "SAT" else scores.deep_gamblers
        outputs = special.softmax(arrays["outputs"], axis=-1)
        return {family: response, f"{family}, own score": each(own, outputs)}
    dynamics = each(scores.sctd, arrays["checkpoints"])
    if family == "no entropy":
        return {"SR, no entropy": response, "SCTD, no entropy": dynamics}
    return {
        "SR": response,
        "SCTD": dynamics,
        "SCTD, ties by SR": each(scores.ties_broken_by, dynamics.score, response.score),
        "SR, calibrated": each(
            lambda z: scores.log_odds(logits=scaled(z, labels)), arrays["logits"]
        ),
        "entropy": each(partial(scores.log_odds, of="entropy"), p),
        "margin": each(partial(scores.log_odds, of="margin"), p),
        "energy": each(scores.energy, arrays["logits"]),
        "set size": each(scores.conformal_set_size, p),
    }


def scaled(logits: np.ndarray, labels: np.ndarray) -> npt.NDArray:
    """Logits after temperature scaling (Guo et al. 2017).

    Each half of the points is divided by the temperature of the largest likelihood on the other.
    """

    def loss(log_temperature: float, z: np.ndarray, y: np.ndarray) -> float:
        z = z / math.exp(log_temperature)
        return float(np.mean(special.logsumexp(z, axis=1) - z[np.arange(len(y)), y]))

    out = np.array(logits, dtype=float)
    for half in (0, 1):
        z, y = np.asarray(logits[1 - half :: 2], dtype=float), labels[1 - half :: 2]
        found = optimize.minimize_scalar(loss, bounds=(-5, 5), args=(z, y), method="bounded")
        out[half::2] /= math.exp(found.x)
    return out


def _spent(
    family: str, epsilon: float, run: StoredRun, settings: ExperimentSettings
) -> dict[str, object]:
    several = {"DE": settings.members, "SN": len(settings.coverages)}
    models = several.get(family.split()[0], 1)
    each = [PrivacyLedger.from_dict(m["ledger"]) for m in run.privacy["models"][:models]]
    given = [run.privacy["models"][0][name] for name in ("delta", "accountant")]
    return {
        "family": family,
        "epsilon": epsilon,
        "models": models,
        "noise_multiplier": each[0].entries[0].noise_multiplier,
        "each": each[0].epsilon(*given),
        "spent": each[0].compose(*each[1:]).epsilon(*given),
    }


def middle(rates: Sequence[float], number: int) -> list[float]:
    """Give as many from the middle, the lower ones where there are two middles; 0: all."""
    start = max(0, len(rates) - number) // 2
    return list(rates[start : start + number] if number else rates)


def leading(tried: Tried, rates: Sequence[float] = ()) -> list[float]:
    """Give the rate of the highest first accuracy, and its neighbors in all rates."""
    known = sorted(tried)
    best = known[first_largest([tried[rate][0] for rate in known])]
    rates = sorted(rates or known)
    return rates[max(0, rates.index(best) - 1) : rates.index(best) + 2]


def decide(tried: Tried) -> float:
    """Give the rate of the highest mean accuracy, among those with the most training runs.

    Those few are the best by a first training and its neighbors.  What this loses to the chance of
    training runs is simulated in the tests; that of the validation points, which all share, stays.
    """
    if len(tried) == 1:
        return next(iter(tried))
    most = max(map(len, tried.values()))
    rates = [rate for rate in sorted(tried) if len(tried[rate]) == most]
    return rates[first_largest([np.mean(tried[rate]) for rate in rates])]


def _search(settings: ExperimentSettings) -> tuple[dict[Any, Tried], list[StoredRun]]:
    accuracies: dict[Search, Tried] = {}
    tried: dict[tuple[str, float], Tried] = {}
    runs: list[StoredRun] = []

    def add(jobs: Mapping[Search, ManyTrainings]) -> None:
        done = _run(jobs)
        runs.extend(done.values())
        for search, job in jobs.items():
            found = accuracies.setdefault(search, {})
            for config, reached in zip(job.configs, _reached(job, done[search]), strict=True):
                found.setdefault(config.learning_rate, []).append(reached)
        for family, epsilon, _ in jobs:
            each = [v for k, v in accuracies.items() if k[:2] == (family, epsilon)]
            means = {rate: np.mean([v[rate] for v in each], axis=0).tolist() for rate in each[0]}
            tried[family, epsilon] = means

    add(settings.searches())
    while further := settings.further(tried):
        add(further)
    add(settings.finals({place: leading(found) for place, found in tried.items()}))
    return tried, runs


def selective_net_curve(
    correct: npt.NDArray, score: npt.NDArray, coverages: Sequence[float]
) -> npt.NDArray[np.float64]:
    """Accuracy of each SelectiveNet at its own target coverage."""
    n = correct.shape[1]
    return np.array(
        [
            accuracy_coverage(c, s).accuracy[math.ceil(target * n) - 1]
            for c, s, target in zip(correct, score, coverages, strict=True)
        ]
    )


def _reached(job: ManyTrainings, run: StoredRun) -> list[float]:
    """Accuracy of each model, of a SelectiveNet at its target coverage."""
    z = run.arrays["logits"]
    odds = [scores.log_odds(logits=each) for each in z]
    targets = [getattr(config.objective, "coverage", 1.0) for config in job.configs]
    return selective_net_curve(z.argmax(-1) == run.arrays["labels"], odds, targets).tolist()


def _rates(settings: ExperimentSettings, tried: Mapping[tuple[str, float], Tried]) -> pd.DataFrame:
    rows = []
    for family, epsilon in settings.places:
        each = tried.get((family, epsilon), {rate: [] for rate in settings.rates_at(epsilon)})
        best = decide(each)
        rows += [
            {
                "family": family,
                "epsilon": epsilon,
                "rate": rate,
                "accuracy": np.mean(found) if found else math.nan,
                "trainings": len(found),
                "chosen": rate == best,
            }
            for rate, found in sorted(each.items())
        ]
    return pd.DataFrame(rows)

"""Our own training runs under attack: ALIBI, AGIBI, randomized response and PATE, with canaries."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib.audit.canaries import (
    CanaryAudit,
    canary_epsilon,
    one_label_bound,
    top_label_bound,
    top_label_guesses,
)
from lib.privacy import (
    GaussianLabels,
    LaplaceLabels,
    RandomizedResponse,
    confident_gnmax,
    vote_histogram,
)
from lib.runs import Job, run_all
from lib.studies.canaries.draws import CanaryDraw, CanaryGroup, canary_labels
from lib.studies.default_problem import default_problem, test_points
from lib.training import DataSpec, FixMatch, LabelTrainings, ModelSpec, PateStudents, TrainingConfig
from lib.training.label_jobs import Teachers

# P5, Tables 3 and 6, at high, medium and low accuracy: PATE's teachers, sigma1, sigma2, threshold
# and answers, and the epsilon that others claim.
_TABLES: dict[tuple[str, str], tuple[Any, ...]] = {
    ("cifar10", "PATE"): (
        (200, 160, 20, 100, 500),
        (800, 800, 300, 400, 250),
        (800, 800, 500, 400, 250),
    ),
    ("cifar10", "ALIBI"): (8.0, 2.1, 1.0),
    ("cifar10", "AGIBI"): (19.0, 7.7, 3.7),
    ("cifar100", "PATE"): ((20, 7, 2, 2, 9400), (100, 45, 15, 10, 1000), (100, 90, 30, 10, 1000)),
    ("cifar100", "ALIBI"): (6.3, 3.0, 2.0),
    ("cifar100", "AGIBI"): (17.0, 8.4, 5.4),
}


@dataclass(frozen=True)
class MechanismSettings:
    """What is trained and attacked."""

    data: DataSpec  # The points; "images" are read for PATE whatever its features are
    model: ModelSpec  # The network of every mechanism but PATE
    # Optimizer, steps, checkpoints at each accuracy level; model, seed and objective are set by the
    # mechanism.  Training without privacy is done under each of them.
    configs: tuple[TrainingConfig, ...]
    alibi: tuple[float, ...]  # Epsilon at each accuracy level, descending; AGIBI's at `delta`
    agibi: tuple[float, ...]
    response: tuple[float, ...]
    # sigma1, sigma2, threshold and number of answers at each level
    pate: tuple[tuple[float, float, float, int], ...]
    fixmatch: FixMatch  # Of PATE's teachers
    student: FixMatch  # Of its students
    n_teachers: int  # Teachers of each ensemble
    queries: int  # Images that the teachers are asked about
    canaries: int  # Per training
    n_models: int  # Training runs of each kind, each with its own canaries and noise
    n_ensembles: int  # The same for PATE
    delta: float  # Of AGIBI's and PATE's guarantees
    groups: int  # Training runs that share the canaries of ALIBI's first one
    seed: int  # Of everything

    def __post_init__(self):
        if self.groups > self.canaries:
            raise ValueError(
                f"groups must be at most {self.canaries} (canaries), got {self.groups}"
            )


@dataclass(frozen=True, eq=False)
class MechanismResult:
    """One mechanism at one accuracy level, attacked."""

    name: str  # Such as ALIBI; none: not private
    level: int  # 0 for the least noise
    # Epsilon that is proven for the labels (for PATE from the votes, see
    # :class:`lib.privacy.PateCost`); infinite without privacy
    claimed: float
    delta: float  # Of the claim; 0 for pure DP
    accuracy: npt.NDArray[np.float64]  # shape (n_models,): On the test points
    # shape (t, n, C): On the canaries of all training runs, at all checkpoints
    confidences: npt.NDArray[np.float64]
    canary_labels: npt.NDArray[np.int64]  # shape (n,): Of these canaries
    true_labels: npt.NDArray[np.int64]
    # What else is known: answers of PATE, its data-independent epsilon
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def final(self) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray]:
        """What audits read: confidences of the final models, canary labels and true labels."""
        return self.confidences[-1], self.canary_labels, self.true_labels

    def audit(self, **options: Any) -> CanaryAudit:
        """P5's interval from the final models, see :func:`lib.audit.canary_epsilon`."""
        return canary_epsilon(*self.final, **options)

    def one_label_bound(self, level: float = 0.975, *, seed: int = 0) -> float:
        """Lower bound from the single-label game at the claim's delta."""
        return one_label_bound(*self.final, level=level, delta=self.delta, seed=seed)

    def top_label_bound(self, level: float = 0.975) -> float:
        """The same by guessing labels outright; NaN for a claim with a delta."""
        return math.nan if self.delta else top_label_bound(*self.final, level=level)


class CanaryContradiction(AssertionError):
    """A valid lower bound from canaries is above what is proven for the labels."""


def require_consistent(results: Sequence[MechanismResult], level: float = 0.999) -> None:
    """Stop if the canaries refute a proven epsilon."""
    games = sum(1 if each.delta else 2 for each in results)  # no labels outright with a delta
    share = 1 - (1 - level) / max(1, games)
    for each in results:
        proven = each.notes.get("data-independent epsilon", each.claimed)
        bound = max(each.one_label_bound(share), np.nan_to_num(each.top_label_bound(share)))
        if not bound > proven:
            continue
        raise CanaryContradiction(
            f"{each.name}, level {each.level}: canaries show epsilon >= {bound:.3f} at {level:.1%}"
            " for all results together,"
            f" but {proven:.3f} is proven. Is the noise on the labels drawn once for each"
            " training, after the canaries are inserted? Do trainings share seeds? Does anything"
            " else read the labels?"
        )


def advantage_at_equal_epsilon(table: pd.DataFrame, better: str, other: str) -> float:
    """Least accuracy that one mechanism has above another at the same claimed epsilon."""
    curve = table[table["mechanism"] == better].sort_values("claimed")
    points = table[table["mechanism"] == other]
    points = points[points["claimed"] >= curve["claimed"].min()]
    at = np.interp(np.log(points["claimed"]), np.log(curve["claimed"]), curve["accuracy"])
    return float((at - points["accuracy"]).min())


def advantages(results: Sequence[MechanismResult]) -> list[list[float]]:
    """What ALIBI's curve is above each alternative at its budget, training by training."""
    alibi = [r for r in results if r.name == "ALIBI"]
    found = []
    for other in (r for name in ("AGIBI", "ALIBI, projected") for r in results if r.name == name):
        pair = [*alibi, other]
        frame = pd.DataFrame([{"mechanism": r.name, "claimed": r.claimed} for r in pair])
        if other.claimed < frame["claimed"][:-1].min():
            continue  # below the curve's first budget: nothing to compare with
        found.append(
            [
                advantage_at_equal_epsilon(frame.assign(accuracy=each), "ALIBI", other.name)
                for each in zip(*(r.accuracy for r in pair), strict=True)
            ]
        )
    return found


def quoted(trained: pd.DataFrame, results: Sequence[MechanismResult]) -> dict[str, float]:
    """What prose quotes of the table of training runs, by the names of the page's values."""
    of = {name: trained[trained["mechanism"] == name] for name in trained["mechanism"].unique()}
    free, alibi, agibi, pate = of["none"].iloc[0], of["ALIBI"], of["AGIBI"], of["PATE"]
    projected, response = of["ALIBI, projected"], of["RR"]
    notes = next(r for r in results if r.name == "PATE").notes
    return {
        "free_accuracy": free["accuracy"],
        "free_one": free["one label"],
        "free_top": free["top label"],
        "alibi_first": alibi["claimed"].iloc[0],
        "alibi_first_accuracy": alibi["accuracy"].iloc[0],
        "alibi_first_one": alibi["one label"].iloc[0],
        "alibi_first_top": alibi["top label"].iloc[0],
        "alibi_last": alibi["claimed"].iloc[-1],
        "alibi_last_accuracy": alibi["accuracy"].iloc[-1],
        "alibi_last_top": alibi["top label"].iloc[-1],
        "agibi_first": agibi["claimed"].iloc[0],
        "agibi_first_accuracy": agibi["accuracy"].iloc[0],
        "agibi_first_one": agibi["one label"].iloc[0],
        "projected_first_accuracy": projected["accuracy"].iloc[0],
        "projected_last_accuracy": projected["accuracy"].iloc[-1],
        "response_first_accuracy": response["accuracy"].iloc[0],
        "response_last_accuracy": response["accuracy"].iloc[-1],
        "pate_claimed": pate["claimed"].iloc[0],
        "pate_accuracy": pate["accuracy"].iloc[0],
        "pate_one": pate["one label"].max(),
        "pate_ahead": notes["data-independent epsilon"],
        "ensemble": float(notes["ensemble"].mean()),
    }


def accounting_table(epsilons: Sequence[float], delta: float) -> pd.DataFrame:
    """What noise on one-hot labels costs, by mechanism and accountant."""
    rows = []
    for epsilon in epsilons:
        gaussian = GaussianLabels.for_epsilon(epsilon, delta)
        laplace = math.sqrt(2) * LaplaceLabels.for_epsilon(epsilon).scale
        rows.append((epsilon, laplace, gaussian.sigma, gaussian.epsilon(delta, "rdp")))
    return pd.DataFrame(
        rows, columns=["epsilon", "Laplace, sd", "Gaussian, sd", "Gaussian, by RDP"]
    )


def least_overlap(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Least overlap of paired bounded intervals: below 0 where two of them are apart."""
    low = np.maximum(first["low"].to_numpy(), second["low"].to_numpy())
    high = np.minimum(first["high"].to_numpy(), second["high"].to_numpy())
    bounded = np.isfinite(first["high"].to_numpy()) & np.isfinite(second["high"].to_numpy())
    return float((high - low)[bounded].min()) if bounded.any() else math.nan


def problem(
    dataset: str, model: str, *, points: int, hidden: int, seed: int
) -> tuple[DataSpec, ModelSpec]:
    """Data whose labels get noise, and a model that suits them; of 1,797 digits at most 1,000."""
    return default_problem(
        dataset,
        model,
        train=min(points, 1000) if dataset == "digits" else points,
        validation=0,
        test=test_points(dataset),
        hidden=hidden,
        seed=seed,
    )


def fixmatch_for(dataset: str, model: ModelSpec, **options: Any) -> FixMatch:
    """PATE's training on few labels, with the augmentations that suit the images."""
    policy = "digits" if dataset == "digits" else "photo"
    return FixMatch(model, weak=policy, strong=policy, **options)


def student_for(teacher: FixMatch, steps: int, learning_rate: float, policy: str) -> FixMatch:
    """A student's training: its teachers', but for what is given; 0 or "same" is as theirs."""
    return replace(
        teacher,
        steps=steps or teacher.steps,
        learning_rate=learning_rate or teacher.learning_rate,
        weak=teacher.weak if policy == "same" else policy,
        strong=teacher.strong if policy == "same" else policy,
    )


def by_level(
    training: TrainingConfig,
    levels: int,
    learning_rates: Sequence[float],
    weight_decays: Sequence[float],
) -> tuple[TrainingConfig, ...]:
    """The training at each level of noise: one rate and decay for all, or one for each."""
    given = []
    both = {"learning_rates": learning_rates, "weight_decays": weight_decays}
    for name, values in both.items():
        if len(values) not in (1, levels):
            raise ValueError(f"{name} must be one or {levels} numbers, got {values!r}")
        given.append(list(values) * (levels if len(values) == 1 else 1))
    watched = max(1, training.steps // 10)  # ten checkpoints, to see memorization set in
    return tuple(
        replace(training, learning_rate=rate, weight_decay=decay, checkpoint_every=watched)
        for rate, decay in zip(*given, strict=True)
    )


def _many(settings: MechanismSettings) -> list[Job]:
    """Training runs of many models: one that is left alone at the end keeps others waiting."""
    return [_grouped(settings), *_teachers(settings)]


def _plan(settings: MechanismSettings) -> list[tuple[str, int, Any, float, dict[str, Any]]]:
    """Name, level, mechanism, delta and options of each training."""
    # Rates and steps decide about memorization, too: without privacy under each of them.
    plan: list[tuple[str, int, Any, float, dict[str, Any]]] = [
        ("none", settings.configs.index(config), None, 0.0, {})
        for config in dict.fromkeys(settings.configs)
    ]
    for reading, name in (("posterior", "ALIBI"), ("projection", "ALIBI, projected")):
        for level, epsilon in enumerate(settings.alibi):
            plan.append(
                (name, level, LaplaceLabels.for_epsilon(epsilon), 0.0, {"reading": reading})
            )
    for level, epsilon in enumerate(settings.agibi):
        mechanism = GaussianLabels.for_epsilon(epsilon, settings.delta)
        plan.append(("AGIBI", level, mechanism, settings.delta, {}))
    for stages, name in ((1, "RR"), (2, "RR, two stages")):
        for level, epsilon in enumerate(settings.response):
            options = {"reading": "labels", "stages": stages}
            plan.append((name, level, RandomizedResponse(epsilon), 0.0, options))
    return plan


def _trainings(settings: MechanismSettings, plan: list[Any]) -> list[LabelTrainings]:
    return [
        LabelTrainings(
            replace(settings.configs[level], seed=100_000 * (1000 * settings.seed + number)),
            settings.data,
            mechanism,
            _draws(settings, number, settings.n_models),
            seed=_seed(settings.seed, number, settings.n_models),
            **options,
        )
        for number, (_, level, mechanism, _, options) in enumerate(plan)
    ]


def _grouped(settings: MechanismSettings) -> LabelTrainings:
    """The canaries of ALIBI's first training, a group to a model (P5, appendix C)."""
    plan = _plan(settings)
    number = next(i for i, (name, *_) in enumerate(plan) if name == "ALIBI")
    _, level, mechanism, _, options = plan[number]
    (whole,) = _draws(settings, number, 1)
    seed = 100_000 * (1000 * settings.seed + number) + 50_000  # beyond those of the others
    return LabelTrainings(
        replace(settings.configs[level], seed=seed),
        settings.data,
        mechanism,
        tuple(CanaryGroup(whole, i, settings.groups) for i in range(settings.groups)),
        seed=_seed(settings.seed, 903, number),
        **options,
    )


def run_mechanisms(settings: MechanismSettings) -> list[MechanismResult]:
    """Train everything, or read it where it is stored."""
    truth = np.asarray(settings.data.load().training.targets)
    plan = _plan(settings)
    jobs = _trainings(settings, plan)
    runs = run_all(_many(settings) + jobs)[-len(jobs) :]
    results = []
    for (name, level, mechanism, delta, _), job, run in zip(plan, jobs, runs, strict=True):
        watched = np.asarray(run.arrays["watched"], dtype=np.float64)
        labels, true = canary_labels(job.changes, truth)
        results.append(
            MechanismResult(
                name=name,
                level=level,
                claimed=math.inf if mechanism is None else mechanism.epsilon(delta),
                delta=delta,
                accuracy=np.asarray(run.arrays["accuracy"]),
                confidences=np.concatenate(list(watched), axis=1),
                canary_labels=labels,
                true_labels=true,
            )
        )
    return results + _pate(settings, truth)


def _teachers(settings: MechanismSettings) -> list[Teachers]:
    images = replace(settings.data, features="images", public=0)
    draws = _draws(settings, 900, settings.n_ensembles)
    return [
        Teachers(
            replace(settings.fixmatch, seed=1_000_000 * (1000 * settings.seed + i)),
            images,
            settings.n_teachers,
            label_noise=draw,
            shard_seed=_seed(settings.seed, 901, i),
        )
        for i, draw in enumerate(draws)
    ]


def _students(settings: MechanismSettings) -> list[PateStudents]:
    return [
        PateStudents(
            each,
            settings.pate,
            replace(settings.student, seed=each.config.seed + 500_000),
            settings.queries,
            settings.delta,
            seed=_seed(settings.seed, 902, i),
        )
        for i, each in enumerate(_teachers(settings))
    ]


def _pate(settings: MechanismSettings, truth: np.ndarray) -> list[MechanismResult]:
    teachers = _teachers(settings)
    if (images := teachers[0].data) != settings.data:
        truth = np.asarray(images.load().training.targets)
    runs = run_all(_students(settings))
    labels, true = canary_labels([each.label_noise for each in teachers], truth)
    results = []
    for level in range(len(settings.pate)):
        found = {
            name: np.array([run.arrays[name][level] for run in runs], dtype=np.float64)
            for name in runs[0].arrays
            if name != "ensemble"
        }
        results.append(
            MechanismResult(
                name="PATE",
                level=level,
                claimed=float(found["data_dependent"].max()),
                delta=settings.delta,
                accuracy=found["accuracy"],
                confidences=np.concatenate(list(found["watched"]), axis=1),
                canary_labels=labels,
                true_labels=true,
                notes={
                    "published": _release(found),
                    "answered": found["answered"],
                    "label accuracy": found["label_accuracy"],
                    "data-independent epsilon": float(found["data_independent"].max()),
                    "ensemble": np.array([float(run.arrays["ensemble"]) for run in runs]),
                },
            )
        )
    return results


def linear_on_answers(settings: MechanismSettings) -> list[float]:
    """Accuracy of logistic regression on the very answers that PATE's first students learn from.

    One number an ensemble. A student below it wastes what the teachers told: then its training is
    the bottleneck, not the privacy of the answers.
    """
    from sklearn.linear_model import LogisticRegression  # here: it takes a second

    jobs, found = _students(settings), []
    for job, run in zip(jobs, run_all(jobs), strict=True):
        loaded = job.teachers.data.load()
        (told,) = run_all([job.teachers])
        images = np.asarray(loaded.training.inputs).reshape(len(loaded.training.inputs), -1)
        order = np.random.default_rng(job.seed).permutation(len(images))[: job.queries]
        votes = vote_histogram(told.arrays["predictions"][:, order], loaded.training.classes)
        sigma1, sigma2, threshold, most = job.noise[0]
        noise_seed = int(np.random.SeedSequence([job.seed, 6, 0]).generate_state(1)[0])
        answers = confident_gnmax(votes, sigma1, sigma2, threshold, noise_seed, most)
        rows, labels = order[answers.answered], answers.labels[answers.answered]
        if len(rows) != run.arrays["answered"][0]:
            raise ValueError("other answers than the student's: PateStudents draws them otherwise")
        # One class alone is guessed always; without an answer the first, as the student does.
        guesses = np.full(len(loaded.labels), labels[0] if len(labels) else 0)
        if len(np.unique(labels)) > 1:
            model = LogisticRegression(max_iter=5000).fit(images[rows], labels)
            guesses = model.predict(np.asarray(loaded.evaluation).reshape(len(guesses), -1))
        found.append(float(np.mean(guesses == loaded.labels)))
    return found


def _release(found: Mapping[str, np.ndarray]) -> dict[str, float]:
    """What may be said of the cost of the ensemble whose votes were the dearest."""
    dearest = int(found["data_dependent"].argmax())
    published, low, high = found["published"][dearest]
    return {
        "by the votes (private)": found["data_dependent"][dearest],
        "published": published,
        "low": low,
        "high": high,
        "without the votes": found["votes_unseen"][dearest],
        "before": found["data_independent"][dearest],
    }


def release_table(results: Sequence[MechanismResult]) -> pd.DataFrame:
    """PATE's epsilon by its votes, as published, and without them: a row a level."""
    rows = [(each.level, each.notes["published"]) for each in results if each.name == "PATE"]
    return pd.DataFrame([{"level": level, **release} for level, release in rows])


def run_designs(
    settings: MechanismSettings, results: Sequence[MechanismResult]
) -> tuple[MechanismResult, MechanismResult]:
    """ALIBI with the same canaries in one training, and in groups: a training each."""
    (run,) = run_all([_grouped(settings)])
    first, n = next(each for each in results if each.name == "ALIBI"), settings.canaries
    together = replace(
        first,
        accuracy=first.accuracy[:1],
        confidences=first.confidences[-1:, :n],
        canary_labels=first.canary_labels[:n],
        true_labels=first.true_labels[:n],
    )
    watched = np.asarray(run.arrays["watched"], dtype=np.float64)[:, -1]
    own = watched[np.arange(n) % settings.groups, np.arange(n)]
    accuracy = np.asarray(run.arrays["accuracy"])
    return together, replace(together, accuracy=accuracy, confidences=own[None])


def design_differences(
    together: MechanismResult, apart: MechanismResult
) -> npt.NDArray[np.float64]:
    """Rate of right guesses, of all, in the one training less that in the group's own, by group."""
    right = [top_label_guesses(*each.final, 0.0).correct for each in (together, apart)]
    group = np.arange(len(right[0])) % len(apart.accuracy)
    difference = right[0].astype(float) - right[1]
    return np.bincount(group, difference) / np.bincount(group)


def mechanism_table(results: Sequence[MechanismResult]) -> pd.DataFrame:
    """Accuracy, the claim and what the canaries show at 95%: a row a training."""
    rows = []
    for each in results:
        audit = each.audit()
        rows.append(
            {
                "mechanism": each.name,
                "level": each.level,
                "accuracy": float(each.accuracy.mean()),
                "claimed": each.claimed,
                "delta": each.delta,
                "low": audit.low,
                "high": audit.high,
                "corrected": each.audit(corrected=True).low,
                "one label": each.one_label_bound(),
                "top label": each.top_label_bound(),
                "canaries": len(each.canary_labels),
            }
        )
    return pd.DataFrame(rows)


def accuracy_cells(
    results: Sequence[MechanismResult], settings: MechanismSettings
) -> dict[str, npt.NDArray[np.float64] | str]:
    """Accuracies over training runs for P5's Tables 3, 4 and 6 by claim, or why there are none."""
    ours = {}
    for each in results:
        if each.name == "PATE":
            ours["PATE", (settings.n_teachers, *settings.pate[each.level])] = each
        elif each.name in ("ALIBI", "AGIBI"):
            ours[each.name, getattr(settings, each.name.lower())[each.level]] = each
    found: dict[str, npt.NDArray[np.float64] | str] = {
        "P5-A4-cifar100": "P5 prints no budget for this row"
    }
    for (data, name), rows in _TABLES.items():
        network = (settings.fixmatch if name == "PATE" else settings).model.name
        for level, row in zip("HML", rows, strict=True):
            one, places = ours.get((name, row)), {f"P5-A6-{data}-{name}-{level}": "accuracy"}
            if name == "PATE":
                places = {f"P5-A3-{data}-{level}-{what}": what for what in ("ensemble", "student")}
            for place, what in places.items():
                if settings.data.name != data or network not in ("resnet18", "wide_resnet"):
                    found[place] = f"trained here: {network} on {settings.data.name}"
                elif one is None:
                    found[place] = "no training of this run has the settings of this row"
                else:
                    # The ensemble's are those of its noisy answers: two rows of Table 3 differ in
                    # nothing but the noise.
                    answers = one.notes["label accuracy"]
                    found[place] = answers if what == "ensemble" else one.accuracy
    return found


def memorisation_table(results: Sequence[MechanismResult], steps: Sequence[int]) -> pd.DataFrame:
    """Mean confidence in the canaries' labels as training goes on."""
    rows = []
    for each in results:
        if len(each.confidences) != len(steps):
            continue
        index = np.arange(len(each.canary_labels))
        for step, p in zip(steps, each.confidences, strict=True):
            canary, true = p[index, each.canary_labels], p[index, each.true_labels]
            other = (1 - canary - true) / (p.shape[1] - 2)
            means = float(canary.mean()), float(true.mean()), float(other.mean())
            rows.append((each.name, each.level, step, *means))
    columns = ["mechanism", "level", "step", "canary", "true", "other"]
    return pd.DataFrame(rows, columns=columns)


def _draws(settings: MechanismSettings, number: int, count: int) -> tuple[CanaryDraw, ...]:
    return tuple(
        CanaryDraw(settings.canaries, settings.model.classes, _seed(settings.seed, number, i))
        for i in range(count)
    )


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])

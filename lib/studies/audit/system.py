"""P3's end-to-end system: shadow models, challenge points, target models, attacks, intervals."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib.audit.attacks import Attack, LiRA, Threshold, fit_models, log_ratio, select_worst
from lib.audit.counts import AttackCounts
from lib.audit.gaussian import bound_at
from lib.audit.intervals import METHODS, best_lower_bound, epsilon_interval
from lib.audit.selection import chosen_threshold, counts_at, roc_counts, union_lower_bound
from lib.data.text import TEXT_FILES
from lib.privacy import PrivacyLedger
from lib.runs import run_all
from lib.studies.audit.tables import swept_counts, swept_interval
from lib.studies.default_problem import default_problem, test_points
from lib.training import (
    DataSpec,
    ModelSpec,
    SubsetTrainings,
    TrainingConfig,
    example_gradients,
    initial_parameters,
    relabel,
)
from lib.training.torch_settings import accelerated

_SMALL_GRADIENT = 1e-3

#: P3 fits LiRA to 80% of the shadow models.
FIT_SHARE = 0.8

#: Models of one job; those of all budgets are spread over the cores together.
PART = 128

#: Parts of the shadow models that are scored in turn, as 80:20 has it.
PARTS = 5

#: Between the seeds of a chapter's repeated audits: few ask for as many seeds of their own.
SEEDS_APART = 1000

#: Attack, and the number that it observes of a model at a point.
ATTACKS: tuple[tuple[Attack, str], ...] = (
    (LiRA(), "confidence"),
    (Threshold(), "confidence"),
    (LiRA("gradient alignment"), "alignment"),
)


class AuditContradiction(AssertionError):
    """An audit's lower bound is above what the accountant has proven."""


@dataclass(frozen=True)
class AuditSettings:
    """What is audited, and how."""

    # Its training points are the set D that challenge points and training sets come from
    data: DataSpec
    # Of all models, with the delta of the audit; rate of the samples and seed are set for them
    training: TrainingConfig
    n_shadow: int = 256  # Models; P3 has 512 and 1024
    n_target: int = 512
    n_challenges: int = 8  # Worst points to ask about
    canaries: int = 0  # Points of D that get a wrong label
    gradient: bool = True  # Whether the white-box attack is run; parameters are stored for it
    seed: int = 0  # Of everything

    def config(self, targets: bool) -> TrainingConfig:
        """The training of the first shadow or target model; the others differ in the seed."""
        # Half of the points are in: the rate is the same whatever their number turns out to be.
        rate = 2 * self.training.batch_size / self.data.train
        seed = 1_000_000 * (2 * self.seed + targets)
        return replace(self.training, sample_rate=rate, seed=seed)

    def jobs(self, challenges: Sequence[int] | None = None) -> list[SubsetTrainings]:
        """The shadow models; with challenge points the target models: IND-MIA."""
        targets = challenges is not None
        count = self.n_target if targets else self.n_shadow
        slow = self.training.model.name not in ("linear", "mlp")  # minutes between two saves
        return [
            SubsetTrainings(
                self.config(targets),
                self.data,
                min(PART, count - first),
                canaries=self.canaries,
                challenges=tuple(int(z) for z in (challenges if targets else ())),
                seed=self.seed,
                keep_parameters=self.gradient,
                first=first,
                chunk=8 if slow and not accelerated(self.training.device) else 128,
            )
            for first in range(0, count, PART)
        ]


def audited_problem(
    dataset: str, model: str, *, points: int, hidden: int, activation: str, seed: int
) -> tuple[DataSpec, ModelSpec]:
    """The points D of an audit, and a model that suits them."""
    texts = dataset in TEXT_FILES
    if (model == "roberta" and not texts) or (texts and model not in ("linear", "mlp", "roberta")):
        raise ValueError(
            f"model must be {'linear, mlp or roberta' if texts else 'one for images'} for"
            f" {dataset!r}, got {model!r}"
        )
    return default_problem(
        dataset,
        model,
        train=points,
        validation=200 if dataset == "digits" else 1000,
        test=test_points(dataset),
        hidden=hidden,
        activation=activation,
        seed=seed,
    )


def by_budget(
    first: AuditSettings, epsilons: Sequence[float], learning_rates: Sequence[float]
) -> list[AuditSettings]:
    """The same audit without privacy and at each budget, each with its own learning rate."""
    budgets = (math.inf, *epsilons)
    if len(learning_rates) != len(budgets):
        raise ValueError(
            f"learning_rates must have one entry more than epsilons ({len(budgets)}), got"
            f" {learning_rates!r}"
        )
    return [
        replace(
            first,
            training=replace(first.training, epsilon=epsilon, learning_rate=rate),
            seed=100 * first.seed + stream,  # no two audits of a chapter share their noise
        )
        for stream, (epsilon, rate) in enumerate(zip(budgets, learning_rates, strict=True))
    ]


def repetition(settings: AuditSettings, number: int) -> AuditSettings:
    """The same audit with data, models and coins of its own; number 0 is the audit itself.

    It is the audit of a chapter whose seed is larger by so many times `SEEDS_APART`.
    """
    more = SEEDS_APART * number
    data = replace(settings.data, seed=settings.data.seed + more)
    return replace(settings, data=data, seed=settings.seed + 100 * more)  # as in `by_budget`


@dataclass(frozen=True, eq=False)
class AuditResult:
    """What an audit found."""

    settings: AuditSettings  # What was audited
    proven: float  # Epsilon that the accountant proves at `settings.training.delta`
    noise_multiplier: float  # Of the training
    accuracy: float  # Mean of the target models on the test points
    challenges: npt.NDArray[np.int64]  # shape (k,): The challenge points
    # shape (k,): LiRA's accuracy there on the shadow models left out
    weights: npt.NDArray[np.float64]
    members: npt.NDArray[np.bool_]  # shape (n_target,): The challenge bits
    scores: dict[str, npt.NDArray[np.float64]]  # Of the target models, by attack
    # Scores and membership of the shadow models at the challenge points, by attack, each model
    # scored by what was fitted to others: what thresholds may be chosen on
    held_out: dict[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]]
    # shape (n_shadow, n): Confidences of the shadow models at all points, and who was in
    shadows: npt.NDArray[np.float32]
    shadow_members: npt.NDArray[np.bool_]
    seconds: float  # Computing time of the training runs when they were made

    def roc(self, attack: str = "LiRA") -> npt.NDArray[np.int64]:
        """Counts at all thresholds, see :func:`lib.audit.roc_counts`."""
        return roc_counts(self.scores[attack], self.members)

    def auc(self, attack: str = "LiRA") -> float:
        """Area under the ROC curve of the target models."""
        return area_and_error(self.scores[attack], self.members)[0]

    def held_out_threshold(
        self, attack: str = "LiRA", level: float = 0.95, trials: int | None = None
    ) -> float:
        """The threshold that is best on the shadow models, for as many trials."""
        scores, members = self.held_out[attack]
        trials = trials or len(self.members)
        return chosen_threshold(scores, members, self.settings.training.delta, level, trials=trials)

    def held_out_counts(self, attack: str = "LiRA", level: float = 0.95) -> AttackCounts:
        """Counts of the target models at :meth:`held_out_threshold`."""
        threshold = self.held_out_threshold(attack, level)
        return AttackCounts(*counts_at(self.scores[attack], self.members, threshold).tolist())


@dataclass(frozen=True, eq=False)
class _Models:
    """Models of one kind and budget, from all their jobs."""

    arrays: dict[str, npt.NDArray]
    seconds: float
    privacy: dict[str, Any]


def _trained(groups: list[list[SubsetTrainings]]) -> list[_Models]:
    """Train what all groups of jobs ask for, side by side, and join each group's models."""
    runs = iter(run_all(list(itertools.chain(*groups))))
    found = []
    for jobs in groups:
        own = list(itertools.islice(runs, len(jobs)))
        arrays = {n: np.concatenate([r.arrays[n] for r in own]) for n in own[0].arrays}
        seconds = sum(r.metrics["training_seconds"] for r in own)
        found.append(_Models(arrays, seconds, own[0].privacy))
    return found


def run_audits(every: Sequence[AuditSettings]) -> list[AuditResult]:
    """P3, Experiment 2 and Algorithm 3: shadows, challenge points, target models, attacks.

    Every target model has a challenge point, a coin and a training set of its own, so that trials
    are independent.  Neither thresholds chosen on the shadow models nor the challenge points depend
    on the target models.
    """
    shadows = _trained([settings.jobs() for settings in every])
    worst = [
        select_worst(
            run.arrays["confidence"], run.arrays["members"], s.n_challenges, fit_share=FIT_SHARE
        )
        for s, run in zip(every, shadows, strict=True)
    ]
    jobs = [s.jobs(places) for s, (places, _) in zip(every, worst, strict=True)]
    targets = _trained(jobs)
    return [
        _attack(settings, *found, shadow, target)
        for settings, found, shadow, target in zip(every, worst, shadows, targets, strict=True)
    ]


def _attack(
    settings: AuditSettings,
    places: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
    shadow_run: _Models,
    target_run: _Models,
) -> AuditResult:
    sure, inside = shadow_run.arrays["confidence"], shadow_run.arrays["members"]
    which, members = target_run.arrays["challenge"], target_run.arrays["members"]
    shown = {"confidence": (sure[:, places], target_run.arrays["confidence"])}
    if settings.gradient:
        shown["alignment"] = _alignments(settings, places, shadow_run, target_run)
    fitted = np.arange(len(sure)) % PARTS != PARTS - 1
    scores, held_out = {}, {}
    for attack, observes in ATTACKS:
        if observes not in shown:
            continue
        of_shadows, of_targets = shown[observes]
        found = np.empty(len(members))
        left = []
        for j, z in enumerate(places):
            known = (of_shadows[:, j], inside[:, z])
            found[which == j], own = attacked(attack, *known, of_targets[which == j], fitted)
            left.append(own)
        scores[attack.name] = found
        held_out[attack.name] = np.concatenate(left), inside[:, places].T.ravel()
    ledger = PrivacyLedger.from_dict(target_run.privacy["ledger"])
    return AuditResult(
        settings=settings,
        proven=ledger.epsilon(settings.training.delta, settings.training.accountant),
        noise_multiplier=ledger.entries[0].noise_multiplier,
        accuracy=float(target_run.arrays["correct"].mean()),
        challenges=places,
        weights=weights[places],
        members=members,
        scores=scores,
        held_out=held_out,
        shadows=sure,
        shadow_members=inside,
        seconds=shadow_run.seconds + target_run.seconds,
    )


def attacked(
    attack: Attack,
    shadows: npt.NDArray,
    inside: npt.NDArray[np.bool_],
    targets: npt.NDArray,
    fitted: npt.NDArray[np.bool_] | slice = slice(None),
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Scores of targets, by `fitted` shadow models, and of these, each fifth by the others."""
    part = np.arange(len(shadows)) % PARTS
    own = np.empty(len(shadows))
    for k in range(PARTS):
        others = part != k
        own[~others] = attack.score(shadows[~others], shadows[others], inside[others])
    return attack.score(targets, shadows[fitted], inside[fitted]), own


def alignment(
    spec: ModelSpec, begin: npt.NDArray, final: npt.NDArray, point: npt.NDArray, label: int
) -> npt.NDArray[np.float64]:
    """How far each model went along a point's gradient from where it began."""
    gradient = example_gradients(spec, final, point, label)
    length = np.linalg.norm(gradient, axis=1)
    shown = np.einsum("ij,ij->i", begin - final, gradient)
    # Of a vanishing gradient the direction says little: it counts for less.
    return shown / np.maximum(length, _SMALL_GRADIENT)


def _alignments(
    settings: AuditSettings, places: npt.NDArray[np.int64], shadow_run: _Models, target_run: _Models
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Of every shadow model at all challenge points, and of the target models at their own."""
    loaded = settings.data.load().training
    data = relabel(loaded, settings.canaries, settings.seed)

    def along(run: _Models, targets: bool, rows, z: int) -> npt.NDArray[np.float64]:
        final = run.arrays["parameters"][rows]
        first = settings.config(targets)
        begin = np.stack([initial_parameters(replace(first, seed=first.seed + i)) for i in rows])
        return alignment(first.model, begin, final, data.inputs[z], data.targets[z])

    shadows = np.arange(settings.n_shadow)
    of_shadows = np.stack([along(shadow_run, False, shadows, z) for z in places], axis=1)
    which = target_run.arrays["challenge"]
    of_targets = np.empty(len(which))
    for j, z in enumerate(places):
        rows = np.flatnonzero(which == j)
        if len(rows):
            of_targets[rows] = along(target_run, True, rows, z)
    return of_shadows, of_targets


def summary_table(results: Sequence[AuditResult]) -> pd.DataFrame:
    """What was trained: one row per audit."""
    return pd.DataFrame(
        [
            {
                "epsilon": r.settings.training.epsilon,
                "learning rate": r.settings.training.learning_rate,
                "noise multiplier": r.noise_multiplier,
                "proven epsilon": r.proven,
                "accuracy": r.accuracy,
                "shadows": r.settings.n_shadow,
                "targets": r.settings.n_target,
                "LiRA accuracy": float(r.weights.mean()),
            }
            for r in results
        ]
    )


def table_2(results: Sequence[AuditResult], level: float = 0.9) -> pd.DataFrame:
    """P3's Table 2 for LiRA, by its uncorrected rule: each method's best threshold."""
    rows = []
    for result in results:
        widths = {}
        for method in METHODS[::-1]:
            low, high = swept_interval(result.roc(), result.settings.training.delta, level, method)
            widths[method] = high - low
            reference, change = widths["clopper-pearson"], math.nan
            if method != "clopper-pearson" and math.isfinite(widths[method]):
                change = widths[method] / reference - 1  # -1 if the reference is infinite
            rows.append(
                {
                    "epsilon": result.settings.training.epsilon,
                    "method": method,
                    "low": low,
                    "high": high,
                    "width": widths[method],
                    "against Clopper-Pearson": change,
                    "proven": result.proven,
                }
            )
    return pd.DataFrame(rows)


def audit_widths(results: Sequence[AuditResult], n_audits: int, level: float) -> pd.DataFrame:
    """Widths of the two-sided intervals of these audits and of their repetitions, which it runs.

    A row is an audit, a budget, an attack, and how its threshold was chosen: *swept* for each
    method by itself, as P3 says of its Table 2; *one*, that of the Bayesian's largest bound, for
    both methods; or *held-out*, on the shadow models, one for both methods, too.
    """
    rows, compared = [], ("bayesian", "clopper-pearson")
    settings = [result.settings for result in results]
    for number in range(n_audits):
        if number:  # one after the other: their models need not fit into memory together
            results = run_audits([repetition(one, number) for one in settings])
            require_consistent(results, 1 - 1e-3 / n_audits)
        for result in results:
            training = result.settings.training
            delta = training.delta
            for attack in result.scores:
                table = result.roc(attack)
                own = [swept_counts(table, delta, level, method) for method in compared]
                held = result.held_out_counts(attack, 1 - (1 - level) / 2)
                chosen = {"swept": own, "one": own[:1] * 2, "held-out": [held] * 2}
                for threshold, counts in chosen.items():
                    widths = []
                    for each, method in zip(counts, compared, strict=True):
                        low, high = epsilon_interval(each, delta, level, method)
                        widths.append(high - low)
                    rows.append((number, training.epsilon, attack, threshold, *widths))
    return pd.DataFrame(rows, columns=["audit", "epsilon", "attack", "threshold", *compared])


def bounds_table(results: Sequence[AuditResult], level: float = 0.95) -> pd.DataFrame:
    """One-sided lower bounds by attack, and by how the threshold was chosen."""
    rows = []
    for result in results:
        delta = result.settings.training.delta
        for attack in result.scores:
            table = result.roc(attack)
            held = result.held_out_counts(attack, level)

            def bound(method: str, counts: AttackCounts = held, delta: float = delta) -> float:
                return epsilon_interval(counts, delta, level, method, "lower")[0]

            rows.append(
                {
                    "epsilon": result.settings.training.epsilon,
                    "attack": attack,
                    "AUC": result.auc(attack),
                    "best, Bayesian": best_lower_bound(table, delta, level)[1],
                    "held-out, Bayesian": bound("bayesian"),
                    "held-out": bound("clopper-pearson"),
                    "union": union_lower_bound(table, delta, level)[1],
                    "held-out, if Gaussian": bound_at(
                        [held.tp, held.fp, held.tn, held.fn], delta, level, math.nan
                    ).epsilon,
                    "proven": result.proven,
                }
            )
    return pd.DataFrame(rows)


def area_and_error(
    scores: npt.NDArray[np.float64], members: npt.NDArray[np.bool_]
) -> tuple[float, float]:
    """Area under the ROC curve, and its standard error (DeLong, DeLong, Clarke-Pearson 1988)."""
    inside, outside = np.sort(scores[members]), np.sort(scores[~members])
    if not (len(inside) and len(outside)):
        return 0.5, math.inf

    def below(values: npt.NDArray, others: npt.NDArray) -> npt.NDArray[np.float64]:
        sides = (np.searchsorted(others, values, side) for side in ("left", "right"))
        return sum(sides) / (2 * len(others))

    wins, losses = below(inside, outside), below(outside, inside)
    if min(len(wins), len(losses)) < 2:
        return float(wins.mean()), math.inf
    variance = wins.var(ddof=1) / len(wins) + losses.var(ddof=1) / len(losses)
    return float(wins.mean()), math.sqrt(variance)


def given_points(result: AuditResult) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """LiRA's scores and the coins in P3's Experiment 1: chance gives each shadow model a point.

    LiRA is fitted to the other four fifths of the shadow models.  There the point is in or out, in
    P3 in or replaced by another.
    """
    sure, inside = result.shadows, result.shadow_members
    rng = np.random.default_rng([result.settings.seed, 1])
    models, points = np.arange(len(sure)), rng.integers(sure.shape[1], size=len(sure))
    scores = np.empty(len(sure))
    for k in range(PARTS):
        own, others = models % PARTS == k, models % PARTS != k
        fitted = fit_models(sure[others][:, points[own]], inside[others][:, points[own]])
        scores[own] = log_ratio(sure[own, points[own]], *fitted)
    return scores, inside[models, points]


def games_table(results: Sequence[AuditResult], level: float = 0.95) -> pd.DataFrame:
    """What LiRA does in P3's Experiments 1 and 2: a point that chance gives, or that it chooses."""
    rows = []
    for result in results:
        training = result.settings.training
        games = given_points(result), (result.scores["LiRA"], result.members)
        for number, (scores, members) in enumerate(games, 1):
            area, error = area_and_error(scores, members)
            bound = union_lower_bound(roc_counts(scores, members), training.delta, level)[1]
            rows.append((training.epsilon, number, len(scores), area, error, bound))
    columns = ["epsilon", "experiment", "trials", "AUC", "standard error", "union"]
    return pd.DataFrame(rows, columns=columns)


def gains_by_choosing(table: pd.DataFrame) -> list[tuple[float, int]]:
    """By budget: AUC in Experiment 2 less that in 1, in standard errors, and the fewer trials."""
    found = []
    for _, pair in table.groupby("epsilon", sort=False):
        error = math.hypot(*pair["standard error"])
        difference = pair["AUC"].iloc[1] - pair["AUC"].iloc[0]
        found.append((difference / error if error else math.nan, int(pair["trials"].min())))
    return found


def excess_over_proven(results: Sequence[AuditResult], level: float) -> tuple[float, float]:
    """The ends of LiRA's intervals less the proven epsilon: the largest over the private audits.

    Two-sided, Clopper-Pearson's, at a held-out threshold; the level is that of all together.
    """
    private = [result for result in results if math.isfinite(result.proven)]
    each = 1 - (1 - level) / len(private)
    above = []
    for result in private:
        counts, delta = result.held_out_counts("LiRA", each), result.settings.training.delta
        low, high = epsilon_interval(counts, delta, each, "clopper-pearson")
        above.append((low - result.proven, high - result.proven))
    low, high = map(max, zip(*above, strict=True))
    return low, high


def require_consistent(results: Sequence[AuditResult], level: float = 0.999) -> None:
    """Fail if an audit contradicts the accountant."""
    for result in results:
        each = 1 - (1 - level) / (len(result.scores) * len(results))
        for attack in result.scores:
            counts = result.held_out_counts(attack)
            delta = result.settings.training.delta
            low = epsilon_interval(counts, delta, each, "clopper-pearson", "lower")[0]
            if low > result.proven:
                raise AuditContradiction(
                    f"the attack {attack!r} shows epsilon >= {low:.3f} at level {level}, but the"
                    f" accountant proves {result.proven:.3f} (delta = {delta}). One of them is"
                    " wrong. Check that every example's gradient is clipped before the sum, that"
                    " the noise is added once per step with the standard deviation noise"
                    " multiplier times clipping norm, that samples are drawn as the accountant"
                    " assumes (Poisson, at its rate), that models differ only in the challenge"
                    " point, and that target models have seeds of their own"
                )

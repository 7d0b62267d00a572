"""What the two chapters on P1 show, as tables."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from lib.privacy import PrivacyLedger, SampledGaussian, find_noise_multiplier
from lib.selective import areas, scores
from lib.selective.curves import accuracy_bound, accuracy_coverage, coverage_at_accuracy
from lib.selective.scores import METHODS
from lib.selective.uncertainty import (
    Mean,
    compare_over_seeds,
    estimate,
    mean_over_seeds,
    points_needed,
)
from lib.studies.interplay.panel import P1_METHODS, Imbalance, Panel, PanelSettings, Predictions
from lib.ties import ROUNDING, first_largest, first_smallest

#: Columns of :func:`summary` that are numbers, with the format that pages use.
SUMMARY_FORMATS = {
    "accuracy": ".3f",
    "accuracy sd": ".3f",
    "score": ".4f",
    "score sd": ".4f",
    "coverage": ".3f",
    "coverage sd": ".3f",
}


# ------------------------------------------------------------------------------------ section 3.2


def privacy_costs(
    epsilons: Sequence[float], n_train: int, batch_size: int, steps: int
) -> pd.DataFrame:
    """What each method of P1 costs: its class, and the noise it must add, by RDP.

    P1, section 3.2.
    """
    rate, delta = batch_size / n_train, 1 / n_train
    found = {}
    for releases in sorted({m.releases for m in METHODS.values()}):
        for epsilon in epsilons:
            noise = find_noise_multiplier(epsilon, delta, rate, steps, releases=releases)
            ledger = PrivacyLedger((SampledGaussian(rate, noise, steps),))
            found[releases, epsilon] = noise, ledger.epsilon(delta)
    rows = []
    for method in METHODS.values():
        row = {
            "method": method.name,
            "class": method.privacy,
            "models": method.releases,
            "uses": method.uses,
        }
        for epsilon in epsilons:
            noise, each = found[method.releases, epsilon]
            row |= {f"noise, epsilon = {epsilon:g}": noise, f"each, epsilon = {epsilon:g}": each}
        rows.append(row)
    return pd.DataFrame(rows)


# ---------------------------------------------------------------------------------------- summary


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


def selective_net_score(
    correct: npt.NDArray, score: npt.NDArray, coverages: Sequence[float]
) -> float:
    """Normalized score of SelectiveNet, which has only a few coverages.

    P1 gives a number without saying how it comes about.  Here the accuracies at the target
    coverages are joined by straight lines, constant below the first one, and compared with the
    bound of the most accurate of the models.
    """
    reached = selective_net_curve(correct, score, coverages)
    n = correct.shape[1]
    grid = np.arange(1, n + 1) / n
    bound = accuracy_bound(correct.mean(1).max(), grid)
    return float((bound - np.interp(grid, coverages, reached)).mean())


def selective_net_accuracy(panel: Panel, epsilon: float) -> npt.NDArray[np.float64]:
    """Accuracy at full coverage of the model of target coverage 1, by seed."""
    return panel.selective[epsilon].correct[:, -1].mean(-1)


def normalized_scores(panel: Panel, method: str, epsilon: float) -> npt.NDArray[np.float64]:
    """Normalized score of a method by seed."""
    if method == "SN":
        found = panel.selective[epsilon]
        return np.array(
            [
                selective_net_score(c, s, panel.settings.coverages)
                for c, s in zip(found.correct, found.score, strict=True)
            ]
        )
    return _by_seed(panel.predictions[method, epsilon], areas.normalized_score)


def full_accuracies(panel: Panel, method: str, epsilon: float) -> npt.NDArray[np.float64]:
    """Accuracy at full coverage by seed."""
    if method == "SN":
        return selective_net_accuracy(panel, epsilon)
    return panel.predictions[method, epsilon].correct.mean(1)


def coverages_for_non_private(
    panel: Panel, method: str, epsilon: float, *, randomized: bool = False
) -> npt.NDArray[np.float64]:
    """Coverage at which a private model is as accurate as its non-private twin, by seed.

    Groups of equal scores are answered whole, unless `randomized`
    (:func:`lib.selective.coverage_at_accuracy`).
    """
    private, twin = panel.predictions[method, epsilon], panel.predictions[method, math.inf]
    return np.array(
        [
            coverage_at_accuracy(c, s, target, randomized=randomized)
            for c, s, target in zip(
                private.correct, private.score, twin.correct.mean(1), strict=True
            )
        ]
    )


def summary(panel: Panel, methods: Sequence[str] | None = None) -> pd.DataFrame:
    """Every method at every budget: means and standard deviations over seeds."""
    methods = _p1_methods(panel) if methods is None else methods
    rows = []
    for method in methods:
        for epsilon in panel.settings.epsilons:
            accuracy = full_accuracies(panel, method, epsilon)
            score = normalized_scores(panel, method, epsilon)
            row = {
                "method": method,
                "epsilon": epsilon,
                "accuracy": accuracy.mean(),
                "accuracy sd": _sd(accuracy),
                "score": score.mean(),
                "score sd": _sd(score),
                "coverage": math.nan,
                "coverage sd": math.nan,
            }
            if math.isfinite(epsilon) and method != "SN" and math.inf in panel.settings.epsilons:
                coverage = coverages_for_non_private(panel, method, epsilon)
                row |= {"coverage": coverage.mean(), "coverage sd": _sd(coverage)}
            rows.append(row)
    return pd.DataFrame(rows)


def coverage_with_ties(panels: Mapping[str, Panel], method: str = "SCTD") -> pd.DataFrame:
    """P1's Table 1 for a method whose scores tie, by what becomes of groups of equal scores."""
    rows = []
    for name, panel in panels.items():
        for epsilon in panel.settings.epsilons:
            if not math.isfinite(epsilon) or math.inf not in panel.settings.epsilons:
                continue
            whole, random = (
                coverages_for_non_private(panel, method, epsilon, randomized=flag).mean()
                for flag in (False, True)
            )
            group = max(
                np.unique(s, return_counts=True)[1].max() / len(s)
                for s in panel.predictions[method, epsilon].score
            )
            rows.append((name, epsilon, whole, random, group))
    return pd.DataFrame(rows, columns=["model", "epsilon", "whole", "random", "largest group"])


def mean_curve(
    panel: Panel, method: str, epsilon: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Coverage, and selective accuracy averaged over seeds."""
    found = panel.predictions[method, epsilon]
    curves = [accuracy_coverage(c, s) for c, s in zip(found.correct, found.score, strict=True)]
    return curves[0].coverage, np.mean([curve.accuracy for curve in curves], axis=0)


def pivot(table: pd.DataFrame, value: str) -> pd.DataFrame:
    """Rows of :func:`summary` as P1 prints them: a row a method, "mean (± sd)" by budget."""
    out = {}
    digits = 4 if value == "score" else 3
    for method, rows in table.groupby("method", sort=False):
        out[method] = {
            f"epsilon = {_word(r['epsilon'])}": (
                ""
                if math.isnan(r[value])
                else f"{r[value]:.{digits}f} (± {r[f'{value} sd']:.{digits}f})"
            )
            for _, r in rows.iterrows()
        }
    return pd.DataFrame(out).T.rename_axis("method").reset_index()


# ------------------------------------------------------------------------------- claims of trends


def sctd_against_best(panel: Panel, epsilon: float) -> tuple[str, Mean]:
    """The best of P1's other methods at a budget, and its mean score minus SCTD's.

    Of methods that are equally good, up to rounding, the first counts.

    SelectiveNet, which has no score at every coverage, is compared over seeds alone.
    """
    others = [m for m in _p1_methods(panel) if m != "SCTD"]
    means = [normalized_scores(panel, m, epsilon).mean() for m in others]
    best = others[first_smallest(means)]
    if best == "SN":
        gap = normalized_scores(panel, "SN", epsilon) - normalized_scores(panel, "SCTD", epsilon)
        return best, mean_over_seeds(gap)
    a, b = panel.predictions[best, epsilon], panel.predictions["SCTD", epsilon]
    return best, compare_over_seeds(a.correct, a.score, b.correct, b.score)


def best_counts(table: pd.DataFrame, method: str, value: str, *, largest: bool) -> int:
    """At how many budgets a method of :func:`summary` has the best mean, or the first of equals."""
    count = 0
    for _, rows in table.dropna(subset=[value]).groupby("epsilon"):
        means = rows.set_index("method")[value]
        count += means.index[(first_largest if largest else first_smallest)(means)] == method
    return count


def worsening_share(table: pd.DataFrame) -> float:
    """Share of the steps from one budget to the next smaller one at which the score rises."""
    steps = []
    for _, rows in table.groupby("method"):
        means = rows.sort_values("epsilon", ascending=False)["score"].to_numpy()
        steps += list(_rises(means))
    return float(np.mean(steps))


def _rises(means: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Whether each mean is above the one before, by more than rounding."""
    means = np.asarray(means, dtype=float)
    return np.diff(means) > ROUNDING * np.abs(means[1:])


# ---------------------------------------------------------------------------- SCTD and checkpoints


def rank_agreement(labels: npt.ArrayLike, k: float = 3.0) -> float:
    """Kendall's tau between the two written forms of SCTD, over points that ever disagree."""
    first = scores.sctd(labels, k, "equation")
    second = scores.sctd(labels, k, "algorithm")
    moved = first < 0
    if moved.sum() < 2:
        return math.nan
    return float(stats.kendalltau(first[moved], second[moved]).statistic)


def checkpoint_sensitivity(
    panel: Panel, ks: Sequence[float] = (1, 3, 10), spacings: Sequence[int] = (1, 2, 5)
) -> pd.DataFrame:
    """SCTD by form, weighting, spacing of checkpoints, and how ties are broken."""
    rows = []
    for epsilon, stacks in panel.checkpoints.items():
        correct = panel.predictions["SR", epsilon].correct
        response = panel.predictions["SR", epsilon].score
        for form in ("equation", "algorithm"):
            for k in ks:
                for spacing in spacings:
                    chosen = stacks[:, ::-1][:, ::spacing][:, ::-1]
                    plain, broken, tied, tau = [], [], [], []
                    for c, r, labels in zip(correct, response, chosen, strict=True):
                        score = scores.sctd(labels, k, form)
                        plain.append(areas.normalized_score(c, score))
                        second = scores.ties_broken_by(score, r)
                        broken.append(areas.normalized_score(c, second))
                        tied.append(np.mean(score == 0))
                        tau.append(rank_agreement(labels, k))
                    rows.append(
                        {
                            "epsilon": epsilon,
                            "form": form,
                            "k": k,
                            "spacing": spacing * panel.settings.training.checkpoint_every,
                            "checkpoints": chosen.shape[1],
                            "score": np.mean(plain),
                            "ties by SR": np.mean(broken),
                            "tied": np.mean(tied),
                            "tau": np.mean(tau),
                        }
                    )
    return pd.DataFrame(rows)


def regularization(panel: Panel) -> pd.DataFrame:
    """Scores with and without the entropy regularization, by budget."""
    rows = []
    for epsilon in panel.settings.epsilons:
        row: dict[str, float] = {"epsilon": epsilon}
        for method in ("SR", "SCTD"):
            row[method] = normalized_scores(panel, method, epsilon).mean()
            without = f"{method}, no entropy"
            row[without] = normalized_scores(panel, without, epsilon).mean()
        rows.append(row)
    return pd.DataFrame(rows)


# --------------------------------------------------------------------------------- class imbalance


def imbalance_table(study: Imbalance) -> pd.DataFrame:
    """The rare class by its sampling probability and the budget."""
    rare = study.labels == 0
    rows = []
    for p0 in study.keep:
        for epsilon in study.epsilons:
            found = study.predictions[p0, epsilon]
            positions = np.array([acceptance_position(s) for s in found.score])[:, rare]
            correct = found.correct[:, rare]
            first = [_right_first(c, s) for c, s in zip(correct, found.score[:, rare], strict=True)]
            known = [value for value in first if not math.isnan(value)]
            rows.append(
                {
                    "p0": p0,
                    "rare examples": study.rare_examples[p0],
                    "epsilon": epsilon,
                    "accuracy": found.correct.mean(),
                    "rare accuracy": correct.mean(),
                    "position": positions.mean(),
                    "right first": np.mean(known) if known else math.nan,
                }
            )
    return pd.DataFrame(rows)


def acceptance_position(score: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Coverage at which each point is accepted, ties at the middle of their group."""
    ranks = stats.rankdata(-np.asarray(score, dtype=float))
    return ranks / len(ranks)


def _right_first(correct: npt.NDArray, score: npt.NDArray) -> float:
    right, wrong = score[correct], score[~correct]
    if not len(right) or not len(wrong):
        return math.nan
    u = stats.mannwhitneyu(right, wrong).statistic
    return float(u / (len(right) * len(wrong)))


# -------------------------------------------------------------------------------------- the metric


def closed_forms(n_correct: int, n: int) -> pd.DataFrame:
    """Normalized score of a perfect, a random and the worst order: formula, limit and exact."""
    a = n_correct / n
    random, worst = areas.normalized_score_extremes(n_correct, n)
    correct = np.arange(n) < n_correct
    perfect = areas.normalized_score(correct, -np.arange(n))
    return pd.DataFrame(
        [
            ("perfect", "0", 0.0, perfect),
            ("random, expected", "-a ln a", float(areas.random_order_score(a)), random),
            ("worst", "-a ln a - (1-a) ln(1-a)", float(areas.worst_order_score(a)), worst),
        ],
        columns=["order", "formula", "n to infinity", f"n = {n:,}"],
    )


def bound_reached(
    accuracies: Sequence[float], n: int, seed: int
) -> tuple[dict[float, npt.NDArray], float]:
    """P1's experiment of appendix B.3: a perfect score reaches the bound."""
    rng = np.random.default_rng(seed)
    curves, largest = {}, 0.0
    for a in accuracies:
        correct = rng.permutation(n) < round(a * n)
        # P1 rejects above a threshold: correct points score in [0, 1/2), wrong ones in [1/2, 1).
        rejection = np.where(correct, rng.uniform(0, 0.5, n), rng.uniform(0.5, 1, n))
        curve = accuracy_coverage(correct, -rejection)
        bound = accuracy_bound(correct.mean(), curve.coverage)
        curves[a] = curve.accuracy
        largest = max(largest, float(np.abs(bound - curve.accuracy).max()))
    return curves, largest


def early_stopping(panel: Panel) -> pd.DataFrame:
    """Privacy that accuracy-aligned models have spent (P1, section 3.4).

    The less private models are stopped at the first checkpoint at which they are, on average over
    seeds, as accurate as the most private one in the end.
    """
    settings = panel.settings
    finite = [e for e in settings.epsilons if math.isfinite(e)]
    target = full_accuracies(panel, "SR", min(finite)).mean()
    steps = [
        *range(
            settings.training.checkpoint_every,
            settings.training.steps,
            settings.training.checkpoint_every,
        )
    ]
    steps.append(settings.training.steps)
    n = settings.data.train
    rows = []
    for epsilon in finite:
        accuracy = (panel.checkpoints[epsilon] == panel.labels).mean((0, 2))
        reached = accuracy >= target * (1 - ROUNDING)
        place = int(np.argmax(reached)) if epsilon != min(finite) else len(steps) - 1
        noise = panel.privacy.set_index(["family", "epsilon"]).loc[
            ("plain", epsilon), "noise_multiplier"
        ]
        ledger = PrivacyLedger(
            (SampledGaussian(settings.training.batch_size / n, noise, steps[place]),)
        )
        spent = ledger.epsilon(1 / n)
        rows.append(
            {
                "epsilon": epsilon,
                "aligned accuracy": accuracy[place],
                "step": steps[place],
                "spent": spent,
                "share": spent / epsilon,
            }
        )
    return pd.DataFrame(rows)


def metric_table(panel: Panel, methods: Sequence[str] | None = None) -> pd.DataFrame:
    """Four metrics side by side: normalized score, E-AURC, AURC and AUGRC, means over seeds."""
    methods = [m for m in _p1_methods(panel) if m != "SN"] if methods is None else methods
    rows = []
    for method in methods:
        for epsilon in panel.settings.epsilons:
            found = panel.predictions[method, epsilon]
            rows.append(
                {
                    "method": method,
                    "epsilon": epsilon,
                    "normalized": _by_seed(found, areas.normalized_score).mean(),
                    "E-AURC": _by_seed(found, areas.e_aurc).mean(),
                    "AURC": _by_seed(found, areas.aurc).mean(),
                    "AUGRC": _by_seed(found, areas.augrc).mean(),
                }
            )
    return pd.DataFrame(rows)


def ranking_disagreements(table: pd.DataFrame) -> pd.DataFrame:
    """Pairs of methods that the normalized score and another metric rank differently."""
    rows = []
    for epsilon, of_budget in table.groupby("epsilon", sort=False):
        of_budget = of_budget.set_index("method")
        for metric in ("AURC", "AUGRC"):
            pairs, odd = 0, []
            for i, a in enumerate(of_budget.index):
                for b in of_budget.index[i + 1 :]:
                    pairs += 1
                    x = of_budget.loc[a, "normalized"] - of_budget.loc[b, "normalized"]
                    y = of_budget.loc[a, metric] - of_budget.loc[b, metric]
                    if x * y < 0:
                        odd.append((abs(x), f"{a} / {b}"))
            example = max(odd)[1] if odd else ""
            rows.append((epsilon, metric, pairs, len(odd), example))
    return pd.DataFrame(rows, columns=["epsilon", "metric", "pairs", "disagree", "example"])


def needed_points(panel: Panel, reference: str = "SR") -> pd.DataFrame:
    """Evaluation points that tell each method from a reference (power 80%, level 5%)."""
    rows = []
    for method in _p1_methods(panel):
        if method in (reference, "SN"):
            continue
        for epsilon in panel.settings.epsilons:
            a, b = panel.predictions[method, epsilon], panel.predictions[reference, epsilon]
            quads = list(zip(a.correct, a.score, b.correct, b.score, strict=True))
            gaps = _by_seed(a, areas.normalized_score) - _by_seed(b, areas.normalized_score)
            typical = float(gaps.mean())
            errors = [estimate(c, s).standard_error for c, s, _, _ in quads]
            points = [points_needed(*q, difference=typical) for q in quads]
            rows.append((method, epsilon, typical, np.mean(errors), float(np.median(points))))
    return pd.DataFrame(
        rows, columns=["method", "epsilon", "difference", "standard error", "points"]
    )


def chosen_rates(panels: Mapping[str, Panel]) -> pd.DataFrame:
    """Learning rate and validation accuracy, "rate (accuracy)", by model, family and budget."""
    rows = []
    for model, panel in panels.items():
        chosen = panel.rates[panel.rates["chosen"]]
        for family, found in chosen.groupby("family", sort=False):
            row = {"model": model, "family": family}
            for each in found.itertuples():
                note = "" if math.isnan(each.accuracy) else f" ({each.accuracy:.3f})"
                row[f"epsilon = {_word(each.epsilon)}"] = f"{each.rate:g}{note}"
            rows.append(row)
    return pd.DataFrame(rows)


def area_growth(panel: Panel, method: str) -> Mean:
    """Mean score of a method at the smallest budget minus that without privacy."""
    a = panel.predictions[method, min(panel.settings.epsilons)]
    b = panel.predictions[method, max(panel.settings.epsilons)]
    return compare_over_seeds(a.correct, a.score, b.correct, b.score)


def worsening_in_paper(reported: Mapping[str, tuple[float, float]]) -> float:
    """Share of the steps to a smaller budget at which the score rises in P1's own Table 2."""
    rows: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for claim_id, (mean, _) in reported.items():
        _, _, data, method, epsilon = claim_id.split("-")
        rows.setdefault((data, method), []).append((-float(epsilon), mean))
    steps = [_rises([mean for _, mean in sorted(row)]) for row in rows.values()]
    return float(np.mean(np.concatenate(steps)))


def wins_with_ties_broken(panel: Panel) -> int:
    """At how many budgets SCTD, ties broken by SR, has a lower mean score than all of P1's."""
    variant = "SCTD, ties by SR"
    count = 0
    for epsilon in panel.settings.epsilons:
        best = min(normalized_scores(panel, m, epsilon).mean() for m in _p1_methods(panel))
        # Lower by more than rounding: a method that ranks alike is no loser.
        count += normalized_scores(panel, variant, epsilon).mean() < best * (1 - ROUNDING)
    return int(count)


def best_methods(table: pd.DataFrame) -> dict[float, str]:
    """Method of the lowest mean score, the first of equal ones, by budget."""
    return {
        epsilon: rows["method"].iloc[first_smallest(rows["score"])]
        for epsilon, rows in table.groupby("epsilon")
    }


def budget_cells(panel: Panel) -> pd.DataFrame:
    """Noise and privacy spent, by family and budget; see ``Panel``."""
    finite = panel.privacy[np.isfinite(panel.privacy["epsilon"])]
    return finite.drop_duplicates(["models", "epsilon"])[
        ["family", "models", "epsilon", "noise_multiplier", "each", "spent"]
    ]


def describe(settings: PanelSettings) -> str:
    """One sentence on what the panel trained."""
    training, n = settings.training, settings.data.train
    name = {"linear": "linear models"}.get(training.model.name, training.model.name)
    if training.model.name == "mlp":
        name = f"MLPs with {training.model.hidden[0]} hidden units"
    epochs = training.steps * training.batch_size / n
    return (
        f"{name}, {settings.n_seeds} seeds, {n:,} training examples, batches of"
        f" {training.batch_size:,}, {training.steps:,} steps ({epochs:.0f} epochs)"
    )


def _p1_methods(panel: Panel) -> list[str]:
    have = {*panel.methods, *(["SN"] if panel.selective else [])}
    return [m for m in P1_METHODS if m in have]


def _by_seed(found: Predictions, area) -> npt.NDArray[np.float64]:
    return np.array([area(c, s) for c, s in zip(found.correct, found.score, strict=True)])


def _sd(values: npt.NDArray) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _word(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:g}"

"""What the two chapters on P1 show, as tables."""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import optimize, stats

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
from lib.studies.drawn import Run
from lib.studies.interplay.experiments import (
    P1_METHODS,
    Experiments,
    ExperimentSettings,
    Imbalance,
    Predictions,
    selective_net_curve,
)
from lib.ties import ROUNDING, first_smallest

#: Columns of :func:`summary` that are numbers, with the format that pages use.
SUMMARY_FORMATS = {
    "accuracy": ".3f",
    "accuracy sd": ".3f",
    "score": ".4f",
    "score sd": ".4f",
    "coverage": ".3f",
    "coverage sd": ".3f",
}

KS, SPACINGS = (1, 3, 10), (1, 2, 5)  # of SCTD, that are compared

Values = npt.NDArray[np.float64]  # shape (seeds,)


def privacy_costs(
    epsilons: Sequence[float], n_train: int, batch_size: int, steps: int
) -> pd.DataFrame:
    """What each method of P1 costs: its class, and the noise it must add, by RDP (section 3.2)."""
    rate, delta = batch_size / n_train, 1 / n_train

    @functools.cache
    def cost(releases: int, epsilon: float) -> tuple[float, float]:
        noise = find_noise_multiplier(epsilon, delta, rate, steps, releases=releases)
        return noise, PrivacyLedger((SampledGaussian(rate, noise, steps),)).epsilon(delta)

    rows = []
    for method in METHODS.values():
        row = {
            "method": method.name,
            "class": method.privacy,
            "models": method.releases,
            "uses": method.uses,
        }
        for e in epsilons:
            noise, each = cost(method.releases, e)
            row |= {f"noise, epsilon = {e:g}": noise, f"each, epsilon = {e:g}": each}
        rows.append(row)
    return pd.DataFrame(rows)


# ---------------------------------------------------------------------------------------- summary


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


def normalized_scores(trained: Experiments, method: str, epsilon: float) -> Values:
    """Normalized score of a method by seed."""
    if method == "SN":
        of = functools.partial(selective_net_score, coverages=trained.settings.coverages)
        return trained.selective[epsilon].by_seed(of)
    return trained.predictions[method, epsilon].by_seed(areas.normalized_score)


def full_accuracies(trained: Experiments, method: str, epsilon: float) -> Values:
    """Accuracy at full coverage by seed; of SelectiveNet the model of target coverage 1."""
    if method == "SN":
        return trained.selective[epsilon].correct[:, -1].mean(-1)
    return trained.predictions[method, epsilon].correct.mean(1)


def relative_scores(trained: Experiments, method: str, epsilon: float) -> Values:
    """Normalized score as a fraction of a random order's at the same accuracy, by seed.

    0 is a perfect order and 1 one that knows nothing; of a model that is always right it is none.
    """
    accuracy = full_accuracies(trained, method, epsilon)
    return normalized_scores(trained, method, epsilon) / areas.random_order_score(accuracy)


def order_table(trained: Experiments) -> pd.DataFrame:
    """Mean relative scores of P1's methods by budget, with Student's intervals over training runs.

    SelectiveNet, which orders points at a few coverages only, is left out.
    """
    rows = []
    methods = [m for m in p1_methods(trained) if m != "SN"]
    for method, epsilon in itertools.product(methods, trained.settings.epsilons):
        each = relative_scores(trained, method, epsilon)
        low, high = mean_over_seeds(each).interval() if len(each) > 1 else (math.nan, math.nan)
        accuracy = full_accuracies(trained, method, epsilon).mean()
        rows.append((method, epsilon, accuracy, each.mean(), low, high))
    return pd.DataFrame(rows, columns=["method", "epsilon", "accuracy", "relative", "low", "high"])


def recorded_order(run: Run) -> pd.DataFrame:
    """The same as :func:`order_table` of a recorded run, from its tables.

    The accuracy follows from AURC less E-AURC, the area of a perfect order, 1 - a + a ln a. The
    interval is that of the score: the accuracy's own spread is left out.
    """
    seeds, metrics = run.parameters["n_seeds"], run.tables["metrics"]
    texts = run.tables[f"scores_{run.parameters['models'][0]}"].set_index("method")
    budgets, rows = list(dict.fromkeys(metrics["epsilon"])), []
    for row in metrics.to_dict("records"):
        perfect = row["AURC"] - row["E-AURC"]
        a = optimize.brentq(lambda a, p=perfect: 1 - a + a * math.log(a) - p, 1e-9, 1)
        text = str(texts.loc[row["method"]].iloc[budgets.index(row["epsilon"])])
        sd = float(text.partition("± ")[2].rstrip(")")) if seeds > 1 else math.nan
        half = stats.t.isf(0.025, seeds - 1) * sd / math.sqrt(seeds)
        ends = np.array([0, -half, half]) + row["normalized"]
        relative = (ends / areas.random_order_score(a)).tolist()
        rows.append((row["method"], row["epsilon"], a, *relative))
    return pd.DataFrame(rows, columns=["method", "epsilon", "accuracy", "relative", "low", "high"])


def coverages_for_non_private(
    trained: Experiments, method: str, epsilon: float, *, randomized: bool = False
) -> Values:
    """Coverage at which a private model is as accurate as its non-private twin, by seed."""
    private, targets = (
        trained.predictions[method, epsilon],
        full_accuracies(trained, method, math.inf),
    )
    return np.array(
        [
            coverage_at_accuracy(c, s, target, randomized=randomized)
            for c, s, target in zip(private.correct, private.score, targets, strict=True)
        ]
    )


def summary(trained: Experiments, methods: Sequence[str] | None = None) -> pd.DataFrame:
    """Every method at every budget: means and standard deviations over seeds."""
    rows = []
    for method in methods or p1_methods(trained):
        for epsilon in trained.settings.epsilons:
            found = {
                "accuracy": full_accuracies(trained, method, epsilon),
                "score": normalized_scores(trained, method, epsilon),
                "coverage": np.full(2, math.nan),
            }
            if math.isfinite(epsilon) and method != "SN":
                found["coverage"] = coverages_for_non_private(trained, method, epsilon)
            row: dict[str, object] = {"method": method, "epsilon": epsilon}
            for name, values in found.items():
                spread = values.std(ddof=1) if len(values) > 1 else math.nan
                row |= {name: values.mean(), f"{name} sd": spread}
            rows.append(row)
    return pd.DataFrame(rows)


def of_ties(sensitivity: pd.DataFrame, spacing: int) -> dict[str, float]:
    """What prose quotes of :func:`checkpoint_sensitivity`, at P1's k of 3 and one spacing."""
    usual = sensitivity[(sensitivity["k"] == 3) & (sensitivity["spacing"] == spacing)]
    default, algorithm = (
        usual[usual["form"] == form].set_index("epsilon") for form in ("equation", "algorithm")
    )
    strictest = default.index.min()
    return {
        "tied_free": default.loc[np.inf, "tied"],
        "tied_strict": default.loc[strictest, "tied"],
        "ties_free": default.loc[np.inf, "ties by SR"],
        "ties_strict": default.loc[strictest, "ties by SR"],
        "algorithm_strict": algorithm.loc[strictest, "score"],
        "tau_least": default["tau"].min(),
        "tau_most": default["tau"].max(),
    }


def coverage_with_ties(models: Mapping[str, Experiments]) -> pd.DataFrame:
    """P1's Table 1 for SCTD, whose scores tie, by what becomes of groups of equal scores."""
    rows = []
    for name, trained in models.items():
        for epsilon in filter(math.isfinite, trained.settings.epsilons):
            whole, random = (
                coverages_for_non_private(trained, "SCTD", epsilon, randomized=flag).mean()
                for flag in (False, True)
            )
            score = trained.predictions["SCTD", epsilon].score
            group = max(np.unique(s, return_counts=True)[1].max() / len(s) for s in score)
            rows.append((name, epsilon, whole, random, group))
    return pd.DataFrame(rows, columns=["model", "epsilon", "whole", "random", "largest group"])


def pivot(table: pd.DataFrame, value: str) -> pd.DataFrame:
    """Rows of :func:`summary` as P1 prints them: a row a method, "mean (± sd)" by budget."""
    digits = 4 if value == "score" else 3
    out: dict[str, dict[str, str]] = {}
    for method, e, mean, sd in table[["method", "epsilon", value, f"{value} sd"]].to_numpy():
        word = "" if math.isnan(mean) else f"{mean:.{digits}f}"
        word += "" if math.isnan(sd) else f" (± {sd:.{digits}f})"
        out.setdefault(method, {})[f"epsilon = {_word(e)}"] = word
    return pd.DataFrame(out).T.rename_axis("method").reset_index()


# ------------------------------------------------------------------------------- claims of trends


def score_gap(trained: Experiments, method: str, epsilon: float) -> Mean:
    """A method's mean score minus SCTD's, over training runs and points.

    SelectiveNet, which has no score at every coverage, is compared over seeds alone.
    """
    if method == "SN":
        gaps = normalized_scores(trained, "SN", epsilon) - normalized_scores(
            trained, "SCTD", epsilon
        )
        return mean_over_seeds(gaps) if len(gaps) > 1 else Mean(float(gaps[0]), 0.0, math.inf)
    return _difference(trained.predictions[method, epsilon], trained.predictions["SCTD", epsilon])


def sctd_against_best(trained: Experiments, epsilon: float) -> tuple[str, Mean]:
    """The best of P1's other methods at a budget, and its mean score minus SCTD's."""
    others = [m for m in p1_methods(trained) if m != "SCTD"]
    means = [normalized_scores(trained, m, epsilon).mean() for m in others]
    best = others[first_smallest(means)]
    return best, score_gap(trained, best, epsilon)


def area_growth(trained: Experiments, method: str) -> Mean:
    """Mean score of a method at the smallest budget minus that without privacy."""
    a, b = (trained.predictions[method, end(trained.settings.epsilons)] for end in (min, max))
    return _difference(a, b)


def _difference(a: Predictions, b: Predictions) -> Mean:
    """Of mean scores, over training runs and points; over points alone if there is one training."""
    return compare_over_seeds(a.correct, a.score, b.correct, b.score)


def best_methods(table: pd.DataFrame) -> dict[float, str]:
    """Method of the lowest mean score, the first of equal ones, by budget."""
    return {
        epsilon: rows["method"].iloc[first_smallest(rows["score"])]
        for epsilon, rows in table.groupby("epsilon")
    }


def wins_with_ties_broken(trained: Experiments) -> int:
    """At how many budgets SCTD, ties broken by SR, has a lower mean score than all of P1's."""
    count = 0
    for epsilon in trained.settings.epsilons:
        best = min(normalized_scores(trained, m, epsilon).mean() for m in p1_methods(trained))
        # Lower by more than rounding: a method that ranks alike is no loser.
        ours = normalized_scores(trained, "SCTD, ties by SR", epsilon).mean()
        count += ours < best * (1 - ROUNDING)
    return int(count)


def worsening_share(table: pd.DataFrame) -> float:
    """Fraction of the steps from one budget to the next smaller one at which the score rises."""
    descending = table.sort_values("epsilon", ascending=False)
    return _rises([rows["score"] for _, rows in descending.groupby("method")])


def worsening_in_paper(reported: Mapping[str, tuple[float, float]]) -> float:
    """Fraction of the steps to a smaller budget at which the score rises in P1's own Table 2."""
    rows: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for claim_id, (mean, _) in reported.items():
        _, _, data, method, epsilon = claim_id.split("-")
        rows.setdefault((data, method), []).append((-float(epsilon), mean))
    return _rises([[mean for _, mean in sorted(row)] for row in rows.values()])


def _rises(rows: Sequence[npt.ArrayLike]) -> float:
    """Fraction of the means that are above the one before, by more than rounding."""
    means = [np.asarray(row, dtype=float) for row in rows]
    return float(np.mean(np.concatenate([np.diff(m) > ROUNDING * np.abs(m[1:]) for m in means])))


# ---------------------------------------------------------------------------- SCTD and checkpoints


def rank_agreement(labels: npt.ArrayLike, k: float) -> float:
    """Kendall's tau between the two written forms of SCTD, over points that ever disagree.

    1 where neither tells any two of them apart, 0 where only one does.
    """
    first, second = (scores.sctd(labels, k, form) for form in ("equation", "algorithm"))
    moved = first < 0
    constant = [len(np.unique(each[moved])) < 2 for each in (first, second)]
    if any(constant):
        return float(all(constant))
    return float(stats.kendalltau(first[moved], second[moved]).statistic)


def checkpoint_sensitivity(trained: Experiments) -> pd.DataFrame:
    """SCTD by form, weighting, spacing of checkpoints, and how ties are broken."""
    rows = []
    places = itertools.product(trained.checkpoints, ("equation", "algorithm"), KS, SPACINGS)
    for epsilon, form, k, spacing in places:
        response = trained.predictions["SR", epsilon]
        chosen = trained.checkpoints[epsilon][:, ::-1][:, ::spacing][:, ::-1]  # the last one stays
        found = []
        for c, r, labels in zip(response.correct, response.score, chosen, strict=True):
            score = scores.sctd(labels, k, form)
            found.append(
                {
                    "score": areas.normalized_score(c, score),
                    "ties by SR": areas.normalized_score(c, scores.ties_broken_by(score, r)),
                    "tied": np.mean(score == 0),
                    "tau": rank_agreement(labels, k),
                }
            )
        rows.append(
            {
                "epsilon": epsilon,
                "form": form,
                "k": k,
                "spacing": spacing * trained.settings.training.checkpoint_every,
                "checkpoints": chosen.shape[1],
                **{name: np.mean([one[name] for one in found]) for name in found[0]},
            }
        )
    return pd.DataFrame(rows)


def regularization(trained: Experiments) -> pd.DataFrame:
    """Scores with and without the entropy regularization, by budget."""
    names = [name + end for name in ("SR", "SCTD") for end in ("", ", no entropy")]
    return pd.DataFrame(
        {"epsilon": epsilon}
        | {name: normalized_scores(trained, name, epsilon).mean() for name in names}
        for epsilon in trained.settings.epsilons
    )


# --------------------------------------------------------------------------------- class imbalance


def rare_class_at(study: Imbalance, p0: float, epsilon: float) -> tuple[npt.NDArray, ...]:
    """Of the rare class, by seed: where points are accepted, which are right, and `right_first`."""
    rare, found = study.labels == 0, study.predictions[p0, epsilon]
    position = found.by_seed(lambda _, s: acceptance_position(s))[:, rare]
    first = found.by_seed(lambda c, s: right_first(c[rare], s[rare]))
    return position, found.correct[:, rare], first[~np.isnan(first)]


def imbalance_table(study: Imbalance) -> pd.DataFrame:
    """The rare class by its sampling probability and the budget."""
    rows = []
    for p0, epsilon in itertools.product(study.keep, study.epsilons):
        position, correct, first = rare_class_at(study, p0, epsilon)
        rows.append(
            {
                "p0": p0,
                "rare examples": study.rare_examples[p0],
                "epsilon": epsilon,
                "accuracy": study.predictions[p0, epsilon].correct.mean(),
                "rare accuracy": correct.mean(),
                "position": position.mean(),
                "right first": first.mean() if len(first) else math.nan,
            }
        )
    return pd.DataFrame(rows)


def acceptance_position(score: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Coverage at which each point is accepted, ties at the middle of their group."""
    ranks = stats.rankdata(-np.asarray(score, dtype=float))
    return ranks / len(ranks)


def right_first(correct: npt.NDArray, score: npt.NDArray) -> float:
    """Fraction of the pairs of a right and a wrong point of which the right one comes first."""
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
    perfect = areas.normalized_score(np.arange(n) < n_correct, -np.arange(n))
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


def spent_after(trained: Experiments, epsilon: float, step: int) -> float:
    """What a plain model for a budget has spent after some of its steps."""
    n, noise = trained.settings.data.train, trained.privacy.set_index(["family", "epsilon"])
    multiplier = noise.loc[("plain", epsilon), "noise_multiplier"]
    sampled = SampledGaussian(trained.settings.training.batch_size / n, multiplier, step)
    return PrivacyLedger((sampled,)).epsilon(1 / n)


def early_stopping(trained: Experiments) -> pd.DataFrame:
    """Privacy that accuracy-aligned models have spent (P1, section 3.4).

    The less private models are stopped at the first checkpoint at which they are, on average over
    seeds, as accurate as the most private one in the end; where they never are, not at all.
    """
    finite = [e for e in trained.settings.epsilons if math.isfinite(e)]
    target = full_accuracies(trained, "SR", min(finite)).mean()
    rows = []
    for epsilon in finite:
        accuracy = (trained.checkpoints[epsilon] == trained.labels).mean((0, 2))
        reached = accuracy >= target * (1 - ROUNDING)
        stops = reached.any() and epsilon != min(finite)
        place = int(np.argmax(reached)) if stops else len(accuracy) - 1
        step = trained.settings.training.checkpoint_steps[place]
        spent = spent_after(trained, epsilon, step)
        rows.append((epsilon, accuracy[place], step, spent, spent / epsilon))
    return pd.DataFrame(rows, columns=["epsilon", "aligned accuracy", "step", "spent", "share"])


def metric_table(trained: Experiments) -> pd.DataFrame:
    """Four metrics side by side: normalized score, E-AURC, AURC and AUGRC, means over seeds."""
    metrics = {
        "normalized": areas.normalized_score,
        "E-AURC": areas.e_aurc,
        "AURC": areas.aurc,
        "AUGRC": areas.augrc,
    }
    methods = [m for m in p1_methods(trained) if m != "SN"]
    return pd.DataFrame(
        {"method": method, "epsilon": epsilon}
        | {n: trained.predictions[method, epsilon].by_seed(f).mean() for n, f in metrics.items()}
        for method, epsilon in itertools.product(methods, trained.settings.epsilons)
    )


def ranking_disagreements(table: pd.DataFrame) -> pd.DataFrame:
    """Pairs of methods that the normalized score and another metric rank differently."""
    rows = []
    for epsilon, of_budget in table.groupby("epsilon", sort=False):
        of_budget = of_budget.set_index("method")
        pairs = list(itertools.combinations(of_budget.index, 2))
        for metric in ("AURC", "AUGRC"):
            values, odd = of_budget[["normalized", metric]], []
            for a, b in pairs:
                x, y = values.loc[a] - values.loc[b]
                if x * y < 0:
                    odd.append((abs(x), f"{a} / {b}"))
            rows.append((epsilon, metric, len(pairs), len(odd), max(odd)[1] if odd else ""))
    return pd.DataFrame(rows, columns=["epsilon", "metric", "pairs", "disagree", "example"])


def _needed(pair: Sequence[np.ndarray], difference: float) -> float:
    """Points that a pair of predictions calls for; infinite where nothing tells them apart."""
    try:
        return float(points_needed(*pair, difference=difference))
    except ValueError:  # a pilot in which nothing varies, or no difference
        return math.inf


def needed_points(trained: Experiments) -> pd.DataFrame:
    """Evaluation points that tell each method from SR (power 80%, level 5%)."""
    rows = []
    methods = [m for m in p1_methods(trained) if m not in ("SR", "SN")]
    for method, epsilon in itertools.product(methods, trained.settings.epsilons):
        a, b = trained.predictions[method, epsilon], trained.predictions["SR", epsilon]
        score = areas.normalized_score
        typical = float((a.by_seed(score) - b.by_seed(score)).mean())
        error = a.by_seed(lambda c, s: estimate(c, s).standard_error).mean()
        pairs = zip(a.correct, a.score, b.correct, b.score, strict=True)
        points = [_needed(pair, typical) for pair in pairs]
        rows.append((method, epsilon, typical, error, float(np.median(points))))
    return pd.DataFrame(
        rows, columns=["method", "epsilon", "difference", "standard error of its score", "points"]
    )


# ------------------------------------------------------------------------------- what was trained


def chosen_rates(models: Mapping[str, Experiments]) -> pd.DataFrame:
    """Learning rate and validation accuracy, "rate (accuracy)", by model, family and budget.

    A star marks the smallest and the largest of several rates: a better one may lie beyond.
    """
    rows = []
    for model, trained in models.items():
        for family, places in trained.rates.groupby("family", sort=False):
            row = {"model": model, "family": family}
            for epsilon, tried in places.groupby("epsilon", sort=False):
                [chosen] = tried[tried["chosen"]].itertuples()
                outer = len(tried) > 1 and chosen.rate in (tried["rate"].min(), tried["rate"].max())
                note = "" if math.isnan(chosen.accuracy) else f" ({chosen.accuracy:.3f})"
                row[f"epsilon = {_word(epsilon)}"] = f"{chosen.rate:g}{'*' * outer}{note}"
            rows.append(row)
    return pd.DataFrame(rows)


def budget_cells(trained: Experiments) -> pd.DataFrame:
    """Noise and privacy spent, by family and budget; see ``Experiments``."""
    finite = trained.privacy[np.isfinite(trained.privacy["epsilon"])]
    return finite.drop_duplicates(["models", "epsilon"])[
        ["family", "models", "epsilon", "noise_multiplier", "each", "spent"]
    ]


def describe(settings: ExperimentSettings) -> str:
    """One sentence on what was trained."""
    training, n = settings.training, settings.data.train
    name = {"linear": "linear models"}.get(training.model.name, training.model.name)
    if training.model.name == "mlp":
        name = f"MLPs with {training.model.hidden[0]} hidden units"
    epochs = training.steps * training.batch_size / n
    epochs = f"{epochs:.2g}" if epochs < 10 else f"{epochs:,.0f}"
    return (
        f"{name}, {settings.n_seeds} seeds, {n:,} training examples, batches of"
        f" {training.batch_size:,}, {training.steps:,} steps"
        f" ({epochs} epoch{'s' * (epochs != '1')})"
    )


def p1_methods(trained: Experiments) -> list[str]:
    """The methods of P1 that some experiments have, in the order of its tables."""
    have = {*trained.methods, *(["SN"] if trained.selective else [])}
    return [m for m in P1_METHODS if m in have]


def _word(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:g}"

"""What the three methods say, how often they are right, and what choosing a threshold does."""

import itertools
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special, stats

from lib.audit.counts import AttackCounts, rate_interval
from lib.audit.intervals import METHODS, best_lower_bound, epsilon_interval, epsilon_lower_bounds
from lib.audit.posterior import epsilon_posterior
from lib.audit.regions import epsilon_point, privacy_region
from lib.audit.selection import counts_at, roc_counts, roc_thresholds, true_best_epsilon
from lib.ties import ROUNDING, first_largest

_PIECES, _NODES = 60, 16


def interval_table(counts: Mapping[str, AttackCounts], delta: float, level: float) -> pd.DataFrame:
    """Intervals by the three methods, as P3's Table 2."""
    rows = []
    for name, table in counts.items():
        found = {m: epsilon_interval(table, delta, level, m) for m in METHODS[::-1]}
        reference = found["clopper-pearson"][1] - found["clopper-pearson"][0]
        for method, (low, high) in found.items():
            change = math.nan
            if method != "clopper-pearson" and math.isfinite(reference) and math.isfinite(high):
                change = (high - low) / reference - 1
            rows.append((name, method, low, high, high - low, change))
    columns = ["case", "method", "low", "high", "width", "against Clopper-Pearson"]
    return pd.DataFrame(rows, columns=columns)


def rectangle_mass(counts: AttackCounts, level: float, method: str) -> float:
    """Posterior mass in the rectangle of the two rates' intervals: P3, section 3.2 (Example)."""
    tail = (1 - level) / 4
    fnr = rate_interval(counts.fn, counts.positives, tail, method)
    fpr = rate_interval(counts.fp, counts.negatives, tail, method)
    x = np.diff(special.betainc(counts.fn + 0.5, counts.tp + 0.5, fnr))
    y = np.diff(special.betainc(counts.fp + 0.5, counts.tn + 0.5, fpr))
    return float(x[0] * y[0])


def enclosed_mass(counts: AttackCounts, delta: float, level: float, method: str) -> float:
    """Posterior mass between the two privacy regions that an interval's ends belong to."""
    low, high = epsilon_interval(counts, delta, level, method)
    posterior = epsilon_posterior(counts, delta)
    return float(posterior.cdf(high) - posterior.cdf(low))


def expected_counts(fpr: float, fnr: float, trials: int) -> AttackCounts:
    """Counts of a hypothetical attack that shows exactly its rates, half of the trials positive."""
    half = trials // 2
    fn, fp = round(fnr * half), round(fpr * half)
    return AttackCounts(tp=half - fn, fp=fp, tn=half - fp, fn=fn)


def growing_counts(rate: float, trials: Sequence[int], *, seed: int) -> list[AttackCounts]:
    """Counts of one attack with FPR = FNR = `rate` as trials go on, half of them positive."""
    rng = np.random.default_rng(seed)
    fn, fp, done = 1, 1, trials[0] // 2
    found = []
    for total in trials:
        more = total // 2 - done
        fn, fp = fn + int(rng.binomial(more, rate)), fp + int(rng.binomial(more, rate))
        done = total // 2
        found.append(AttackCounts(tp=done - fn, fp=fp, tn=done - fp, fn=fn))
    return found


def widths_by_trials(rate: float, trials: Sequence[int], delta: float) -> pd.DataFrame:
    """Ends of 90% intervals by number of trials, where FPR = FNR = `rate`: P3, Figure 4."""
    rows = [
        (method, n, *epsilon_interval(expected_counts(rate, rate, n), delta, method=method))
        for method in METHODS
        for n in trials
    ]
    return pd.DataFrame(rows, columns=["method", "trials", "low", "high"])


def trials_needed(rate: float, half_width: float, delta: float) -> dict[str, int]:
    """Fewest trials, in tens, for a 90% interval of a half-width, if FPR = FNR = `rate`."""

    def narrow(method: str, n: int) -> bool:
        low, high = epsilon_interval(expected_counts(rate, rate, n), delta, method=method)
        return high - low <= 2 * half_width

    found = {}
    for method in METHODS:
        enough = 10
        while not narrow(method, enough):
            enough *= 2
        tens = range(10, enough + 1, 10)
        found[method] = tens[bisect_left(tens, True, key=partial(narrow, method))]
    return found


def width_grid(rates: Sequence[float], trials: int, delta: float) -> pd.DataFrame:
    """Widths of the three 90% intervals over a grid of error rates: P3, Figure 5."""
    rows = []
    for fpr, fnr in itertools.product(rates, rates):
        counts = expected_counts(fpr, fnr, trials)
        ends = {m: epsilon_interval(counts, delta, method=m) for m in METHODS}
        rows.append({"fpr": fpr, "fnr": fnr} | {m: high - low for m, (low, high) in ends.items()})
    table = pd.DataFrame(rows)
    for method in METHODS[1:]:
        table[f"below {method}"] = 1 - table["bayesian"] / table[method]
    return table


def mass_outside(
    positives: int, negatives: int, epsilon: float, delta: float
) -> npt.NDArray[np.float64]:
    """Posterior mass beyond one epsilon for *every* table of counts at once.

    F(epsilon) is a sum over nodes of x = FNR of a factor that depends on fn and one that depends on
    fp: all tables together are one matrix product.
    """
    region = privacy_region(epsilon, delta)
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    # Pieces end where the bounds of the region have their corners and, on their steep branches,
    # where they pass a grid of FPRs; they are finer near 0 and 1.
    cross = (1 - delta) / (1 + math.exp(epsilon))
    grid = np.sin(np.linspace(0, np.pi / 2, _PIECES + 1)) ** 2
    steep = np.clip((1 - delta - grid) * math.exp(-epsilon), 0, 1)
    corners = [0.0, cross, 1 - delta, 1 - cross, delta, 1.0]
    ends = np.unique(np.arcsin(np.sqrt(np.r_[corners, grid, steep, 1 - steep])))
    half = np.diff(ends)[:, None] / 2
    theta = ((ends[:-1] + ends[1:])[:, None] / 2 + half * points).ravel()
    weight = (half * weights).ravel()
    x = np.sin(theta) ** 2
    fn, fp = np.arange(positives + 1)[:, None], np.arange(negatives + 1)[:, None]
    a, b = fn + 0.5, positives - fn + 0.5
    log = (2 * a - 1) * np.log(np.sin(theta)) + (2 * b - 1) * np.log(np.cos(theta))
    density = 2 * np.exp(log - special.betaln(a, b)) * weight
    c, d = fp + 0.5, negatives - fp + 0.5
    low, high = region.lower(x), region.upper(x)
    # 1 - (I(high) - I(low)) without cancellation.
    outside = special.betainc(c, d, low) + special.betainc(d, c, 1 - high)
    return density @ outside.T


def actual_coverage(
    fpr: float, fnr: float, trials: int, delta: float, level: float
) -> dict[str, float]:
    """Probability that a lower bound holds for an attack with known error rates.

    Computed exactly, as a sum over all tables of counts with their binomial probabilities.
    """
    half = trials // 2
    truth = float(epsilon_point(fpr, fnr, delta))
    weight = np.outer(
        stats.binom.pmf(np.arange(half + 1), half, fnr),
        stats.binom.pmf(np.arange(half + 1), half, fpr),
    )
    covers = np.ones((half + 1, half + 1), bool)
    if math.isfinite(truth):
        covers = mass_outside(half, half, truth, delta) <= level + 1e-9
    found = {"bayesian": float(weight[covers].sum())}
    # The ends of the other two, for all errors of one kind at a time.
    fn, fp = np.meshgrid(np.arange(half + 1), np.arange(half + 1), indexing="ij")
    likely = weight > 1e-12
    tables = np.stack([half - fn[likely], fp[likely], half - fp[likely], fn[likely]], axis=1)
    for method in METHODS[1:]:
        covers = epsilon_lower_bounds(tables, delta, level, method) <= truth + 1e-12
        found[method] = float(weight[likely][covers].sum())
    return found


def coverage_table(
    rates: Sequence[tuple[float, float]], trials: Sequence[int], delta: float, level: float
) -> pd.DataFrame:
    """:func:`actual_coverage` over a grid."""
    rows = [
        {
            "fpr": fpr,
            "fnr": fnr,
            "epsilon": float(epsilon_point(fpr, fnr, delta)),
            "trials": n,
            **actual_coverage(fpr, fnr, n, delta, level),
        }
        for fpr, fnr in rates
        for n in trials
    ]
    return pd.DataFrame(rows)


def selection_study(
    sensitivities: Sequence[float],
    trials: int,
    repetitions: int,
    delta: float,
    level: float,
    *,
    seed: int,
) -> pd.DataFrame:
    """How often a lower bound exceeds the true epsilon when the threshold is chosen.

    Auditing one Gaussian mechanism, whose epsilon is known, with its best attack: trials are
    normal with mean 0 (negative) or mu (positive).

    A Bayesian bound exceeds the truth exactly where the posterior mass beyond the truth exceeds
    `level`, see :func:`mass_outside`.  On the choosing half the threshold is the one whose
    Jeffreys bound is largest.
    """
    rng = np.random.default_rng(seed)
    half = trials // 2
    members = np.r_[np.ones(half, bool), np.zeros(half, bool)]
    chosen = np.zeros(2 * half, bool)
    chosen[: half // 2] = chosen[half : half + half // 2] = True
    rest = half - half // 2
    rows = []
    for mu in sensitivities:
        truth = true_best_epsilon(mu, delta) if mu else 0.0
        beyond = mass_outside(half, half, truth, delta)
        beyond_rest = mass_outside(rest, rest, truth, delta)
        at = _best_threshold(mu, delta)
        exceeds: dict[tuple[str, str], list[bool]] = {}
        bounds: dict[str, list[float]] = {}  # Clopper-Pearson's

        for _ in range(repetitions):
            scores = rng.standard_normal(2 * half) + mu * members
            tables = roc_counts(scores, members)
            fixed = counts_at(scores, members, at)[None]
            pick = roc_counts(scores[chosen], members[chosen])
            index = first_largest(epsilon_lower_bounds(pick, delta, level, "jeffreys"))
            threshold = roc_thresholds(scores[chosen])[index]
            held = counts_at(scores[~chosen], members[~chosen], threshold)[None]
            corrected = 1 - 2 * (1 - level) / len(scores)  # as `union_lower_bound`
            for choice, counts, matrix, each in (
                ("fixed", fixed, beyond, level),
                ("best", tables, beyond, level),
                ("union", tables, beyond, corrected),
                ("held-out", held, beyond_rest, level),
            ):
                above = bool((matrix[counts[:, 3], counts[:, 1]] > each).any())
                exceeds.setdefault(("bayesian", choice), []).append(above)
                bound = epsilon_lower_bounds(counts, delta, each, "clopper-pearson").max()
                exceeds.setdefault(("clopper-pearson", choice), []).append(bound > truth + 1e-12)
                bounds.setdefault(choice, []).append(float(bound))
        for (method, choice), values in exceeds.items():
            median = math.nan if method == "bayesian" else float(np.median(bounds[choice]))
            rows.append((mu, truth, method, choice, float(np.mean(values)), median))
    return pd.DataFrame(rows, columns=["mu", "epsilon", "method", "choice", "exceeds", "median"])


def null_sweeps(
    trials: int, repetitions: int, delta: float, level: float, *, seed: int
) -> npt.NDArray[np.float64]:
    """Best Bayesian lower bounds over all thresholds of attacks that know nothing."""
    rng = np.random.default_rng(seed)
    members = np.arange(trials) % 2 == 0
    return np.array(
        [
            best_lower_bound(roc_counts(rng.random(trials), members), delta, level)[1]
            for _ in range(repetitions)
        ]
    )


def swept_interval(
    table: npt.NDArray[np.int64], delta: float, level: float, method: str
) -> tuple[float, float]:
    """The two-sided interval at the threshold of the largest lower bound: P3's, uncorrected."""
    return epsilon_interval(swept_counts(table, delta, level, method), delta, level, method)


def swept_counts(
    table: npt.NDArray[np.int64], delta: float, level: float, method: str
) -> AttackCounts:
    """What an attack counts at the threshold of a method's largest lower bound."""
    index, _ = best_lower_bound(table, delta, 1 - (1 - level) / 2, method)
    return AttackCounts(*map(int, table[index]))


def swept_widths(
    trials: int, mu: float, repetitions: int, delta: float, level: float, *, seed: int
) -> npt.NDArray[np.float64]:
    """Widths of Bayesian and Clopper-Pearson's intervals in audits, as P3's Table 2 has them.

    Each at its own best threshold, an audit a row; scores are normal, by `mu` apart.
    """
    rng = np.random.default_rng(seed)
    members = np.arange(trials) % 2 == 0
    widths = np.empty((repetitions, 2))
    for row in widths:
        table = roc_counts(rng.standard_normal(trials) + mu * members, members)
        ends = [swept_interval(table, delta, level, METHODS[k]) for k in (0, -1)]
        row[:] = [high - low for low, high in ends]
    return widths


def swept_narrower(
    trials: int, mu: float, repetitions: int, delta: float, level: float, *, seed: int
) -> float:
    """Fraction of the audits of :func:`swept_widths` whose Bayesian interval is the narrower."""
    ours, theirs = swept_widths(trials, mu, repetitions, delta, level, seed=seed).T
    return float(np.mean(ours < theirs))


def swept_note(
    trials: int, apart: Sequence[float], audits: int, delta: float, level: float, *, seed: int
) -> str:
    """What :func:`swept_narrower` finds for scores that are so many standard deviations apart."""
    shares = [swept_narrower(trials, mu, audits, delta, level, seed=seed) for mu in apart]
    return (
        f"Simulated attacks on {trials:,} models, whose scores are normal and "
        f"{', '.join(f'{mu:g}' for mu in apart)} standard deviations apart: the Bayesian interval "
        f"is narrower than Clopper-Pearson's in {', '.join(f'{share:.0%}' for share in shares)} of "
        f"{audits} audits, each interval at its own best threshold."
    )


def width_changes(widths: pd.DataFrame) -> pd.DataFrame:
    """Medians over audits of the relative change of the width, Bayesian against Clopper-Pearson's.

    -1 where only Clopper-Pearson's is infinite, infinite where only the other is, 0 where both are.
    One interval in ten is many times as wide: a mean would follow it.  From `low` to `high` is the
    exact 95% interval of the median, whatever the distribution (a sign test); endless for fewer
    than six audits.

    Parameters
    ----------
    widths : pandas.DataFrame
        Of :func:`lib.studies.audit.system.audit_widths`.
    """
    ours, theirs = widths["bayesian"], widths["clopper-pearson"]
    change = ((ours / theirs) - 1).where(np.isfinite(ours) | np.isfinite(theirs), 0.0)
    rows = []
    by = ["epsilon", "attack", "threshold"]
    for case, of in widths.assign(change=change).groupby(by, sort=False):
        ends = stats.quantile_test(of["change"], p=0.5).confidence_interval(0.95)
        low, high = (-math.inf, math.inf) if math.isnan(ends.low) else ends
        narrower = int((of["change"] < -ROUNDING).sum())
        medians = of[["bayesian", "clopper-pearson", "change"]].median()
        rows.append((*case, len(of), narrower, *medians, float(low), float(high)))
    columns = ["audits", "narrower", "bayesian", "clopper-pearson", "change", "low", "high"]
    return pd.DataFrame(rows, columns=by + columns)


def named_changes(changes: pd.DataFrame, epsilon: float) -> dict[str, float]:
    """Values to quote of :func:`width_changes`, such as ``swept_white_free_narrower``.

    Of LiRA and of the white-box attack, without privacy (``free``) and at a budget (``loose``).
    """
    words = {"LiRA": "lira", "gradient alignment": "white", math.inf: "free", epsilon: "loose"}
    found = {}
    for row in changes.itertuples():
        if row.attack in words and row.epsilon in words:
            choice = row.threshold.partition("-")[0]  # "swept", "one" or "held"
            name = f"{choice}_{words[row.attack]}_{words[row.epsilon]}"
            found |= {f"{name}_narrower": row.narrower, f"{name}_change": row.change}
    return found


def _best_threshold(mu: float, delta: float) -> float:
    """The threshold whose true rates, both of at least 0.05, show the largest epsilon."""
    if mu == 0:
        return 0.0
    grid = np.linspace(-4, 4, 801)
    fpr, fnr = stats.norm.sf(grid), stats.norm.cdf(grid - mu)
    # Further out epsilon is still larger, but few trials would show it.
    points = np.where(np.minimum(fpr, fnr) >= 0.05, epsilon_point(fpr, fnr, delta), -1.0)
    return float(grid[first_largest(points)])

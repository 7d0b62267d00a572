"""The audits of P5 from its authors' own confidences."""

import math

import numpy as np
import pandas as pd
from scipy import stats

from lib import data
from lib.audit.canaries import (
    THRESHOLDS,
    CanaryAudit,
    canary_epsilon,
    one_label_bound,
    rate_of_epsilon,
    single_label_guesses,
    top_label_bound,
    top_label_guesses,
)
from lib.audit.insert import insert_canaries
from lib.studies.default_problem import title

#: Names of the accuracy levels.
LEVELS = {"HH": "Very high", "H": "High", "M": "Medium", "L": "Low"}

#: Delta of the claims about mechanisms that have one.
DELTA = 1e-5

#: Epsilon that P5 claims (its Table 6), by data set and mechanism, then by accuracy level.
CLAIMED = {
    ("cifar10", "ALIBI"): {"H": 8.0, "M": 2.1, "L": 1.0},
    ("cifar10", "AGIBI"): {"H": 19.0, "M": 7.7, "L": 3.7},
    ("cifar100", "ALIBI"): {"H": 6.3, "M": 3.0, "L": 2.0},
    ("cifar100", "AGIBI"): {"H": 17.0, "M": 8.4, "L": 5.4},
}


def shown_confidences() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Three training runs of the authors on CIFAR-10, whose confidences are drawn."""
    given = published_inputs()
    shown = {"ALIBI, high accuracy": ("ALIBI", "H"), "ALIBI, low accuracy": ("ALIBI", "L")}
    shown["PATE, high accuracy"] = ("PATE", "H")
    return {name: given["cifar10", *which, "1 x 1000"] for name, which in shown.items()}


def published_audits() -> dict[tuple[str, str, str, str], CanaryAudit]:
    """Audit everything that the authors published: 20 single runs and 6 of ten runs each."""
    return {key: canary_epsilon(*given) for key, given in published_inputs().items()}


def published_table(audits: dict[tuple[str, str, str, str], CanaryAudit]) -> pd.DataFrame:
    """Results of :func:`published_audits` as a table."""
    rows = []
    for (dataset, mechanism, level, runs), audit in audits.items():
        table = audit.per_threshold
        chosen = table[table["threshold"] == audit.threshold]
        rows.append(
            {
                "data": dataset,
                "mechanism": mechanism,
                "level": level,
                "runs": runs,
                "claimed epsilon": CLAIMED.get((dataset, mechanism), {}).get(level, math.nan),
                "low": audit.low,
                "high": audit.high,
                "threshold": audit.threshold,
                "canaries": int(chosen["canaries"].iloc[0]) if len(chosen) else 0,
            }
        )
    return pd.DataFrame(rows)


def careful_table(level: float = 0.95, *, seed: int) -> pd.DataFrame:
    """What stricter readings of the same confidences say: lower limits for epsilon."""
    rows = []
    side = 1 - (1 - level) / 2
    for number, (key, given) in enumerate(published_inputs().items()):
        dataset, mechanism, name, runs = key
        delta = 0.0 if mechanism == "ALIBI" else DELTA
        one = one_label_bound(*given, level=side, delta=delta, seed=[seed, number])
        played = single_label_guesses(*given, min(THRESHOLDS), seed=[seed, number])
        rows.append(
            {
                "data": dataset,
                "mechanism": mechanism,
                "level": name,
                "runs": runs,
                "paper": canary_epsilon(*given, level=level).low,
                "corrected": canary_epsilon(*given, level=level, corrected=True).low,
                "one label": one,
                "top label": math.nan if delta else top_label_bound(*given, level=side),
                "bayesian": played.bayesian_interval(level, delta)[0],
            }
        )
    return pd.DataFrame(rows)


def different(table: pd.DataFrame) -> pd.DataFrame:
    """Audits of different files: CIFAR-10's of very high accuracy is that of high accuracy."""
    return table[(table["data"] != "cifar10") | (table["level"] != "HH")]


def paired_table() -> pd.DataFrame:
    """ALIBI's and AGIBI's single runs, whose canaries are the same: how many each names outright.

    With McNemar's exact test of those that one names alone; beside it, by two standard errors,
    normal tests of the rates behind the intervals. Each p is for all pairs together (Bonferroni).
    """
    given, rows = published_inputs(), []
    for dataset, mechanism, level, runs in given:
        if (mechanism, runs) != ("AGIBI", "1 x 1000"):
            continue
        pair = [given[dataset, each, level, runs] for each in ("ALIBI", mechanism)]
        named = [top_label_guesses(*one, 0.0).correct for one in pair]
        alone = [int(np.count_nonzero(named[i] & ~named[1 - i])) for i in range(2)]
        p = [stats.binomtest(alone[0], sum(alone)).pvalue if any(alone) else 1.0]
        for error in ("authors", "sandwich"):
            (a, s), (b, t) = (_rate(canary_epsilon(*one, standard_error=error)) for one in pair)
            p.append(2 * stats.norm.sf(abs(a - b) / math.hypot(s, t)) if s or t else 1.0)
        rows.append((dataset, level, *(int(each.sum()) for each in named), *alone, *p))
    ps = ["p", "p, losses", "p, losses (sandwich)"]
    columns = ["data", "level", "ALIBI", "AGIBI", "ALIBI alone", "AGIBI alone", *ps]
    found = pd.DataFrame(rows, columns=columns)
    return found.assign(**{name: np.minimum(1, len(found) * found[name]) for name in ps})


def _rate(audit: CanaryAudit) -> tuple[float, float]:
    """The rate of right guesses behind a 95% interval, and its standard error."""
    if math.isnan(audit.threshold):
        return 0.5, math.inf
    rate = audit.per_threshold.set_index("threshold").loc[audit.threshold, "accuracy"]
    low, high = (rate_of_epsilon(end) for end in (audit.low, audit.high))
    rate = max(rate, 1 - rate)  # mirrored, as the interval is
    return rate, max(rate - low, high - rate) / stats.norm.isf(0.025)  # one end may be clipped


def pairs_in_words(paired: pd.DataFrame) -> str:
    """The pairs that are told apart, as a sentence has them."""
    return "; ".join(
        f"at {LEVELS[row.level].lower()} accuracy on {title(row.data)} ALIBI's model names"
        f" {row.ALIBI} canaries and AGIBI's {row.AGIBI} of the same (p = {row.p:.0e})"
        for row in paired[paired["p"] < 0.05].itertuples()
    )


def ends_in_words(rows: pd.DataFrame) -> str:
    """Intervals as a sentence has them: "2.4 to 3.3, 1.8 to 3.3"."""
    chosen = rows.loc[["H", "M", "L"]].itertuples()
    return ", ".join(f"{row.low:.1f} to {row.high:.1f}" for row in chosen)


def changes_in_words(careful: pd.DataFrame, mechanism: str) -> dict[tuple[str, str], str]:
    """What the valid bounds make of the paper's lower limits, by data set and accuracy level."""
    rows = careful[(careful["mechanism"] == mechanism) & (careful["runs"] == "1 x 1000")]
    return {
        (row["data"], row["level"]): (
            f"{row['paper']:.2f} becomes {row['one label']:.2f} (one label) or "
            f"{row['top label']:.2f} (top label)"
        )
        for row in rows.to_dict("records")
    }


def published_inputs() -> dict[
    tuple[str, str, str, str], tuple[np.ndarray, np.ndarray, np.ndarray]
]:
    """Confidences, canary labels and true labels of every published file."""
    found = {}
    for dataset in data.CANARY_CLASSES:
        truth = data.load_cifar_labels(dataset)
        # Those of the single runs, drawn again by the authors' rule.
        canaries = insert_canaries(truth, 1000, data.CANARY_CLASSES[dataset], legacy=True)
        for mechanism, (_, levels) in data.CANARY_FILES.items():
            for level in levels:
                confidences = data.load_canary_confidences(dataset, mechanism, level)
                given = confidences, canaries.canary_labels, canaries.true_labels
                found[dataset, mechanism, level, "1 x 1000"] = given
        for level in data.CANARY_RUNS:
            runs = data.load_canary_runs(dataset, level)
            given = runs.confidences, runs.labels, truth[runs.positions]
            found[dataset, "ALIBI", level, "10 x 100"] = given
    return found

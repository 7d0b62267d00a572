"""A model in use, month after month: few late labels, alarms, decisions, and its peers' alarms.

Periods are those of the study (FMoW: years; digits: rotations), each cut at random into equal
parts, "months": the authors' files know years only. Data from before the deployment are the source,
of which one half fits the estimator and the other is the test data.

Peers, by their published definitions, on the same months:

- *CBPE*: mean calibrated confidence (:mod:`lib.studies.suitability.peers`), calibrated on the test
  data; an alarm by nannyml's rule, or where it is below the test accuracy less the margin.
- *KSDrift* (alibi-detect): a two-sample Kolmogorov-Smirnov test of each signal against the test
  data, Bonferroni's correction, an alarm at p < 0.05.
- *FETDrift* (alibi-detect): Fisher's exact test, one-sided, of the labels that came in a month
  against those of the test data, an alarm at p < 0.05.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from lib.plot import COLOURS, new_figure
from lib.studies.suitability.data import Study, Table, timeline
from lib.studies.suitability.peers import _alert_threshold, _calibrate, _calibrator
from lib.suitability.active import ActiveMonitor, active_accuracy, labelling_probabilities
from lib.suitability.estimator import CorrectnessEstimator
from lib.suitability.monitor import Monitor
from lib.suitability.signals import SIGNAL_NAMES

#: What is compared, and what readers call it.
METHODS = {
    "active": "chosen labels",
    "uniform": "random labels",
    "labels": "labels alone",
    "estimates": "estimates alone",
    "cbpe": "CBPE, our margin",
    "cbpe_alert": "CBPE, its own rule",
    "fet": "FETDrift",
    "ks": "KSDrift",
}
_LEVEL = 0.05  # of alibi-detect's tests

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Deployment:
    """A model with its test data, and the periods in which it is used."""

    test: Table
    test_estimated: Floats
    periods: list[tuple[str, Floats, Floats, Flags]]  # label, signals, estimates, correctness

    @cached_property
    def ordered(self) -> Floats:
        """The test data's signals, a sorted row each."""
        return np.sort(self.test[0].T, axis=1)


@dataclass(frozen=True)
class Plan:
    """How a deployment is watched."""

    margin: float = 0.03
    false_every: int = 120  # months between false alarms, at least, on average
    rate: float = 0.1  # of rows that are labelled
    deciding_rate: float = 0.4  # after an alarm
    floor: float = 0.5
    lag: int = 3  # months until labels come
    months: int = 12  # in a period
    alpha: float = 0.05


def deploy(study: Study, rng: np.random.Generator) -> Deployment:
    """Fit the estimator to one half of the source, and lay out the periods that follow."""
    parts = [study.splits[name] for name in study.id_splits]
    if len(parts) == 1:
        signals, correct = parts[0]
        rows = np.array_split(rng.permutation(len(correct)), 2)
        parts = [(signals[half], correct[half]) for half in rows]
    estimator = CorrectnessEstimator().fit(*parts[0])
    folds = {label: (split, rows) for split, rows, label in study.user_folds["OOD"]}
    labels = timeline(study)
    periods = []
    for label in labels if " · year " in labels[0] else ["unshifted", *labels]:
        split, rows = folds[label]
        signals, correct = (values[rows] for values in study.splits[split])
        name = label.rpartition(" ")[2] if " · year " in label else label
        periods.append((name, signals, estimator.predict(signals), correct))
    return Deployment(parts[1], estimator.predict(parts[1][0]), periods)


def least_accuracy(deployment: Deployment, plan: Plan) -> float:
    """What is still suitable, by Definition 3.1: the test data's accuracy less the margin."""
    return float(deployment.test[1].mean()) - plan.margin


def run_length(deployment: Deployment, plan: Plan) -> float:
    """The rows of so many months, which are of unequal size."""
    rows = sum(len(right) for *_, right in deployment.periods)
    return max(plan.false_every * rows / (plan.months * len(deployment.periods)), 10.0)


def truth(deployment: Deployment, plan: Plan) -> pd.DataFrame:
    """Rows, accuracies and suitability of the periods."""
    least = least_accuracy(deployment, plan)
    rows = [
        (name, len(right), right.mean(), f.mean(), right.mean() >= least)
        for name, _, f, right in deployment.periods
    ]
    return pd.DataFrame(rows, columns=["period", "rows", "accuracy", "estimated", "suitable"])


def draw_months(deployment: Deployment, plan: Plan, rng: np.random.Generator) -> list[tuple]:
    """Signals, estimates and correctness of each month."""
    return [
        (x[rows], f[rows], right[rows])
        for _, x, f, right in deployment.periods
        for rows in np.array_split(rng.permutation(len(right)), plan.months)
    ]


def watch(
    deployment: Deployment, months: Sequence[tuple], plan: Plan, rng: np.random.Generator
) -> tuple[pd.DataFrame, list[tuple]]:
    """Choose rows, wait for their labels, update the monitor: its table, and what was labelled."""
    monitor = ActiveMonitor(
        least_accuracy(deployment, plan), least_probability=plan.rate * plan.floor,
        run_length=run_length(deployment, plan), alpha=plan.alpha,
    )  # fmt: skip
    waiting = []
    for _, f, right in months:
        rate = plan.deciding_rate if monitor.state == "deciding" else plan.rate
        p = labelling_probabilities(f, rate, deployment.test_estimated, floor=plan.floor)
        chosen = rng.random(len(f)) < p
        waiting.append((f, chosen, right[chosen], p))
        if len(waiting) > plan.lag:
            monitor.update(*waiting[-1 - plan.lag])
    table = monitor.table()
    table["month"] = table["time"] + plan.lag  # in which the labels came
    table["ordered"] = np.cumsum([c.sum() for _, c, *_ in waiting])[table["month"] - 1]
    return table, waiting


def alarms(
    deployment: Deployment, months: Sequence[tuple], plan: Plan, rng: np.random.Generator
) -> dict[str, tuple[Flags, npt.NDArray[np.int64], int | None]]:
    """By method: months with an alarm, labels ordered so far, month of UNSUITABLE if any."""
    n, none = len(months), np.zeros(len(months), np.int64)
    result = {}
    for name, one in (("active", plan), ("uniform", replace(plan, floor=1.0))):
        table, waiting = watch(deployment, months, one, rng)
        raised, end = np.zeros(n, bool), table["month"][table["state"] == "unsuitable"]
        raised[table["month"] - 1] = table["alarm"]
        ordered = np.cumsum([chosen.sum() for _, chosen, *_ in waiting])
        result[name] = raised, ordered, None if end.empty else int(end.iloc[0])
    labels = [right[rng.random(len(right)) < plan.rate] for *_, right in months]
    ordered = np.cumsum([len(right) for right in labels])
    late = [[]] * plan.lag + labels[: n - plan.lag]
    test_right, rows = deployment.test[1], run_length(deployment, plan)
    by_labels, by_estimates = (
        Monitor(
            deployment.test_estimated, reference_correct=test_right, margin=plan.margin,
            run_length=max(length, 10), reference_level=0,
        )
        for length in (rows * plan.rate, rows)
    )  # fmt: skip
    by_months = {
        "labels": [len(y) > 0 and by_labels.update(correct=y).alarm for y in late],
        "estimates": [by_estimates.update(f).alarm for _, f, _ in months],
        **_cbpe(deployment, months, plan),
        "fet": [_fet(test_right, y) < _LEVEL for y in late],
        "ks": [_ks(deployment.ordered, x) < _LEVEL for x, *_ in months],
    }
    for name, raised in by_months.items():
        result[name] = np.array(raised), ordered if name in ("labels", "fet") else none, None
    return result


def _cbpe(deployment: Deployment, months: Sequence[tuple], plan: Plan) -> dict[str, Flags]:
    column = SIGNAL_NAMES.index("conf_max")
    confidence, right = deployment.test[0][:, column], deployment.test[1]
    knots = _calibrator(confidence, right)
    means = np.array([_calibrate(knots, x[:, column]).mean() for x, *_ in months])
    limits = {"cbpe": least_accuracy(deployment, plan), "cbpe_alert": _alert_threshold(right)}
    return {name: means < limit for name, limit in limits.items()}


def _fet(test_right: Flags, right: Any) -> float:
    """Fisher's p-value against "not less often right"."""
    if not len(right):
        return 1.0
    n, total, drawn = len(test_right), int(test_right.sum()), len(right)
    right = int(np.sum(right))
    return float(stats.hypergeom.cdf(right, n + drawn, total + right, drawn))


def _ks(ordered: Floats, x: Floats) -> float:
    """Smallest p-value of the signals, times their number, from the test data's sorted signals."""
    n, m, largest = ordered.shape[1], len(x), 0.0
    for test, user in zip(ordered, np.sort(x.T, axis=1), strict=True):
        # The distribution functions differ most at a user's value or just before one.
        for side in ("left", "right"):
            below = (np.searchsorted(one, user, side) / len(one) for one in (test, user))
            largest = max(largest, np.abs(next(below) - next(below)).max())
    p = stats.kstwo.sf(largest, round(n * m / (n + m)))
    return float(min(1.0, p * len(ordered)))


def compare(
    deployment: Deployment, plan: Plan, streams: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Draw streams, and say of each method what it does before and after the change.

    The change comes before the first month from which on no period is suitable. Delays are months
    from it; labels are those ordered by the first alarm after it, or by the end.
    """
    suitable = truth(deployment, plan)["suitable"].to_numpy()
    bad = int(np.max(np.flatnonzero(suitable), initial=-1)) + 1
    change, rows = bad * plan.months, []
    good = np.repeat(suitable, plan.months)
    for stream in range(streams):
        months = draw_months(deployment, plan, rng)
        for method, (raised, ordered, end) in alarms(deployment, months, plan, rng).items():
            hits = np.flatnonzero(raised[change:])
            at = change + hits[0] if len(hits) else len(raised) - 1
            rows.append(
                {
                    "stream": stream,
                    "method": method,
                    "false": int(raised[good].sum()),
                    "delay": hits[0] + 1 if len(hits) else np.inf,
                    "labels": int(ordered[at]) if len(raised) else 0,
                    "decided": np.inf if end is None else end - change,
                    "wrong": end is not None and bool(good[end - 1]),
                }
            )
    return pd.DataFrame(rows)


def summary(streams: pd.DataFrame) -> pd.DataFrame:
    """Per method: how often it raises false alarms, how late it is, how many labels it takes."""
    grouped = streams.groupby("method", sort=False)
    return pd.DataFrame(
        {
            "false alarms": grouped["false"].mean(),
            "streams with one": grouped["false"].apply(lambda found: (found > 0).mean()),
            "caught": grouped["delay"].apply(lambda found: np.isfinite(found).mean()),
            "delay": grouped["delay"].median(),
            "labels": grouped["labels"].median(),
            "decided": grouped["decided"].median(),
            "wrong": grouped["wrong"].mean(),
        }
    )


def label_values(deployment: Deployment, floor: float) -> pd.DataFrame:
    """Variance of one label's part of the estimate, by period and by how rows are chosen.

    Variances are those of equally many labels: labels alone; with estimates; chosen by strata; and
    by the doubt of the estimate.
    """
    reference, right = deployment.test_estimated, deployment.test[1]
    rows = []
    for name, _, f, y in [("test data", None, reference, right), *deployment.periods]:
        squares = (y - f) ** 2
        row = {"period": name, "labels alone": y.var(), "random": squares.mean()}
        for rule, own in (("strata", right), ("doubt", None)):
            p = labelling_probabilities(f, 0.1, reference, reference_correct=own, floor=floor)
            row[rule] = (squares / p).mean() * p.mean()
        rows.append(row)
    return pd.DataFrame(rows)


def gain_by_accuracy(
    accuracies: Sequence[float], floor: float, rng: np.random.Generator
) -> pd.DataFrame:
    """Labels needed with chosen rows, over those with random ones, where estimates are right.

    Estimates are Beta-distributed: sure of most rows and in doubt of some, more so near 1.
    """
    rows = []
    for accuracy in accuracies:
        f = rng.beta(accuracy, 1 - accuracy, 100_000)
        p = labelling_probabilities(f, 0.01, f, floor=floor)
        variance = f * (1 - f)
        row = {"accuracy": accuracy, "labels alone": accuracy * (1 - accuracy) / variance.mean()}
        rows.append({**row, "chosen": (variance / p).mean() * p.mean() / variance.mean()})
    return pd.DataFrame(rows)


def intervals(waiting: Sequence[tuple], plan: Plan) -> pd.DataFrame:
    """Accuracy of each period with its interval, from the labels of its months."""
    rows = []
    for first in range(0, len(waiting), plan.months):
        parts = zip(*waiting[first : first + plan.months], strict=True)
        value, (low, high) = active_accuracy(
            *(np.concatenate(part) for part in parts),
            least_probability=plan.rate * plan.floor, alpha=plan.alpha,
        )  # fmt: skip
        rows.append((first, value, low, high))
    return pd.DataFrame(rows, columns=["first", "accuracy", "low", "high"])


def plot_watch(
    deployment: Deployment, months: Sequence[tuple], plan: Plan, rng: np.random.Generator
) -> tuple[Figure, pd.DataFrame]:
    """Accuracy over time with its interval, alarms and decision; below, alarms of all methods."""
    seed = rng.integers(2**32)  # the first that is drawn is the same monitor
    raised = alarms(deployment, months, plan, np.random.default_rng(seed))
    table, waiting = watch(deployment, months, plan, np.random.default_rng(seed))
    figure, (top, bottom) = new_figure(
        2, 1, height=2.0, sharex=True, gridspec_kw={"height_ratios": [3, 2]}
    )
    time = np.arange(1, len(months) + 1)
    true = [100 * right.mean() for *_, right in months]
    top.plot(time, true, color="0.6", marker=".", linestyle="", label="true, unseen")
    found = intervals(waiting, plan)
    middle = found["first"] + (plan.months + 1) / 2
    values = 100 * found[["accuracy", "low", "high"]].to_numpy()
    reach = np.abs(values[:, 1:] - values[:, :1]).T
    top.errorbar(
        middle, values[:, 0], reach, xerr=plan.months / 2, fmt="o", color=COLOURS[0],
        label="estimate and interval",
    )  # fmt: skip
    top.axhline(100 * least_accuracy(deployment, plan), color="0.3", linestyle="--", marker="")
    for kind, colour, where in (
        ("alarm", COLOURS[1], table["alarm"]),
        ("UNSUITABLE", COLOURS[3], (table["state"] == "unsuitable") & (table["unsuitable_p"] < 1)),
    ):
        for month in table["month"][where]:
            top.axvline(month, color=colour, marker="", label=kind)
    top.set_ylabel("accuracy (%)")
    handles = dict(zip(*top.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=2)
    for row, (hits, *_) in enumerate(reversed(raised.values())):
        bottom.plot(time[hits], np.full(hits.sum(), row), "|", color=COLOURS[0])
    bottom.set_yticks(range(len(raised)), [METHODS[name] for name in reversed(raised)])
    bottom.set_ylim(-0.6, len(raised) - 0.4)
    bottom.set_xlabel("month")
    return figure, table

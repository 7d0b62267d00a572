"""A model in use, month after month: few late labels, its alarms and decisions, and others' alarms.

Periods are those of the study (FMoW: years; digits: rotations), each cut at random into equal
"months": the authors' files know years only. One half of the source, data from before the
deployment, fits the estimator; the other is the test data. Others, by their published
definitions:

- *CBPE*: mean calibrated confidence (:mod:`lib.studies.suitability.peers`), calibrated on the test
  data; an alarm by nannyml's rule, or where it is below the test accuracy less the margin.
- *KSDrift* (alibi-detect): a two-sample Kolmogorov-Smirnov test of each signal against the test
  data, with Bonferroni's correction.
- *FETDrift* (alibi-detect): Fisher's exact test, one-sided, of a month's labels against the test
  data's.
- *FETDriftOnline*, *CVMDriftOnline* (alibi-detect): :mod:`lib.studies.beyond.online`, with
  windows of a month and of half a year, an expected run time of ``false_every`` months, and started
  anew after an alarm. The second sees estimates, of as many rows as are labeled; both see every
  second one only, or fewer, where simulating the thresholds would take too long.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from lib.runs import stored_table
from lib.studies.beyond.online import CramerOnline, FisherOnline, alarms, thresholds
from lib.studies.suitability.data import Study, timeline
from lib.studies.suitability.peers import alert_threshold, calibrate, calibrator
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
    "fet_online": "FETDriftOnline",
    "cvm_online": "CVMDriftOnline",
}
_LEVEL = 0.05  # of alibi-detect's tests
_WINDOWS = (1, 6)  # months of the detectors for streams
#: Simulated streams of alibi-detect's detectors, by their expected run time: as many as it advises.
SIMULATED = 10
_MOST = 1.5e8  # simulated statistics

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Plan:
    """How a deployment is watched."""

    margin: float = 0.03
    false_every: int = 120  # months between false alarms, at least, on average
    rate: float = 0.1  # of rows that are labeled
    deciding_rate: float = 0.4  # after an alarm
    floor: float = 0.5
    lag: int = 3  # months until labels come
    months: int = 12  # in a period
    alpha: float = 0.05
    seed: int = 0  # of simulated thresholds

    @property
    def rarest(self) -> float:
        """The smallest probability with which a row is labeled."""
        return min(self.rate, self.deciding_rate) * self.floor


class Deployment:
    """A model with its test data and the periods of its use: label, signals, estimates, truth."""

    def __init__(self, study: Study, plan: Plan, rng: np.random.Generator) -> None:
        parts = [study.splits[name] for name in study.id_splits]
        if len(parts) == 1:
            halves = np.array_split(rng.permutation(len(parts[0][1])), 2)
            parts = [(parts[0][0][rows], parts[0][1][rows]) for rows in halves]
        fitted, self.test = parts
        estimator = CorrectnessEstimator(seed=None).fit(*fitted)
        self.plan, self.estimated = plan, estimator.predict(self.test[0])
        self.least = float(self.test[1].mean()) - plan.margin
        self.ordered = np.sort(self.test[0].T, axis=1)
        self._sorted = np.sort(self.estimated)
        folds = {label: (split, rows) for split, rows, label in study.user_folds["OOD"]}
        labels, self.periods = timeline(study), []
        for label in labels if " · year " in labels[0] else ["unshifted", *labels]:
            split, rows = folds[label]
            x, right = (values[rows] for values in study.splits[split])
            name = label.rpartition(" · year ")[2]
            self.periods.append((name, x, estimator.predict(x), right))
        rows = sum(len(right) for *_, right in self.periods)
        self.run_length = max(plan.false_every * rows / (plan.months * len(self.periods)), 10.0)
        #: The same in labels; which of them the detectors for streams see, and their windows.
        self.ert = max(self.run_length * plan.rate, 10.0)
        simulated = 2 * SIMULATED * _WINDOWS[-1] * self.ert**2 / plan.false_every
        self.every = math.ceil(math.sqrt(simulated / _MOST))
        month = self.ert / self.every / plan.false_every
        self.windows = tuple(max(2, round(m * month)) for m in _WINDOWS)

    @property
    def threshold_error(self) -> float:
        """Relative standard error of the detectors' rate, at most: by the streams that are left."""
        left = SIMULATED * math.exp(-2 * self.windows[-1] * self.every / self.ert)
        return left**-0.5

    def truth(self) -> pd.DataFrame:
        """Rows, accuracies and suitability of the periods."""
        names = ["period", "rows", "accuracy", "estimated", "suitable"]
        rows = [
            (n, len(y), y.mean(), f.mean(), y.mean() >= self.least) for n, _, f, y in self.periods
        ]
        return pd.DataFrame(rows, columns=names)

    def change(self) -> tuple[Flags, int]:
        """Which months are suitable, and how many pass until none is any more."""
        good = np.repeat(self.truth()["suitable"].to_numpy(), self.plan.months)
        return good, int(np.max(np.flatnonzero(good), initial=-1)) + 1

    def months(self, rng: np.random.Generator) -> list[tuple[Floats, Floats, Flags]]:
        """Draw the months: signals, estimates and correctness of each."""
        return [
            (x[rows], f[rows], right[rows])
            for _, x, f, right in self.periods
            for rows in np.array_split(rng.permutation(len(right)), self.plan.months)
        ]

    def watch(
        self, months: Sequence[tuple], rng: np.random.Generator, floor: float | None = None
    ) -> tuple[pd.DataFrame, list[tuple]]:
        """Choose rows, wait for labels, update the monitor: its table, and what was labeled."""
        plan, waiting = replace(self.plan, floor=floor or self.plan.floor), []
        monitor = ActiveMonitor(
            self.least, least_probability=plan.rarest, run_length=self.run_length, alpha=plan.alpha
        )
        for _, f, right in months:
            rate = plan.deciding_rate if monitor.state == "deciding" else plan.rate
            p = labelling_probabilities(f, rate, self.estimated, floor=plan.floor)
            chosen = rng.random(len(f)) < p
            waiting.append((f, chosen, right[chosen], p))
            if len(waiting) > plan.lag:
                monitor.update(*waiting[-1 - plan.lag])
        table = monitor.table()
        return table.assign(month=table["time"] + plan.lag), waiting  # in which the labels came

    def alarms(
        self, months: Sequence[tuple], rng: np.random.Generator
    ) -> dict[str, tuple[Flags, Any, float]]:
        """By method: months with an alarm, labels ordered so far, month of UNSUITABLE or inf."""
        n, plan, result = len(months), self.plan, {}
        for name, floor in (("active", plan.floor), ("uniform", 1.0)):
            table, waiting = self.watch(months, rng, floor)
            raised = np.zeros(n, bool)
            raised[table["month"] - 1] = table["alarm"]
            ordered = np.cumsum([chosen.sum() for _, chosen, *_ in waiting])
            end = table["month"][table["state"] == "unsuitable"].min()
            result[name] = raised, ordered, np.inf if np.isnan(end) else end
        masks = [rng.random(len(right)) < plan.rate for *_, right in months]
        labels = [right[mask] for (*_, right), mask in zip(months, masks, strict=True)]
        late = [np.zeros(0, bool)] * plan.lag + labels[: n - plan.lag]
        options = {"reference_correct": self.test[1], "margin": plan.margin, "reference_level": 0}
        by_labels, by_estimates = (
            Monitor(self.estimated, run_length=length, **options)
            for length in (self.ert, self.run_length)
        )
        column = SIGNAL_NAMES.index("conf_max")
        knots = calibrator(self.test[0][:, column], self.test[1])
        cbpe = np.array([calibrate(knots, x[:, column]).mean() for x, *_ in months])
        by_months = {
            "labels": [len(y) > 0 and by_labels.update(correct=y).alarm for y in late],
            "estimates": [by_estimates.update(f).alarm for _, f, _ in months],
            "cbpe": cbpe < self.least,
            "cbpe_alert": cbpe < alert_threshold(self.test[1]),
            "fet": [fisher(self.test[1], y) < _LEVEL for y in late],
            "ks": [smirnov(self.ordered, x) < _LEVEL for x, *_ in months],
        }
        seen = {
            "fet_online": late,
            "cvm_online": [
                self.ranks(f[mask]) for (_, f, _), mask in zip(months, masks, strict=True)
            ],
        }
        [ties] = rng.spawn(1)
        for name, (detector, table) in self.online.items():
            month = np.repeat(np.arange(n), [len(x) for x in seen[name]])[:: self.every]
            hits = alarms(detector, table, np.concatenate(seen[name])[:: self.every], ties)
            by_months[name] = np.isin(np.arange(n), month[hits])
        ordered = np.cumsum([len(right) for right in labels])
        labelled = ("labels", "fet", "fet_online")
        for name, raised in by_months.items():
            result[name] = np.array(raised), ordered * (name in labelled), np.inf
        return result

    def ranks(self, f: Floats) -> npt.NDArray[np.int64]:
        """How many of the test data's estimates are not larger."""
        return np.searchsorted(self._sorted, f, "right")

    @cached_property
    def online(self) -> dict[str, tuple[FisherOnline | CramerOnline, pd.DataFrame]]:
        """The detectors for streams with their thresholds."""
        n, right = len(self.estimated), int(self.test[1].sum())
        ert, rng = self.ert / self.every, np.random.default_rng(self.plan.seed)
        streams = math.ceil(SIMULATED * ert)
        found = FisherOnline(n, right, self.windows), CramerOnline(n, self.windows)
        return {
            name: (one, stored_table(thresholds, one, ert, streams, rng))
            for name, one in zip(("fet_online", "cvm_online"), found, strict=True)
        }


def fisher(test: Flags, right: Flags) -> float:
    """Fisher's p-value against "not less often right"."""
    total = int(test.sum()) + int(right.sum())
    return float(stats.hypergeom.cdf(right.sum(), len(test) + len(right), total, len(right)))


def smirnov(ordered: Floats, x: Floats) -> float:
    """Smallest p-value of the signals, times their number, from the test data's sorted signals."""
    n, m, largest = ordered.shape[1], len(x), 0.0
    for test, user in zip(ordered, np.sort(x.T, axis=1), strict=True):
        # The distribution functions differ most at a user's value or just before one.
        for side in ("left", "right"):
            a, b = (np.searchsorted(one, user, side) / len(one) for one in (test, user))
            largest = max(largest, np.abs(a - b).max())
    return float(min(1.0, stats.kstwo.sf(largest, round(n * m / (n + m))) * len(ordered)))


def compare(deployment: Deployment, streams: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw streams, and say of each method what it does before and after the change.

    The change comes before the first month from which on no period is suitable. Delays are months
    from it; labels are those ordered by the first alarm after it, or by the end.
    """
    good, change = deployment.change()
    rows = []
    for stream in range(streams):
        months = deployment.months(rng)
        for method, (raised, ordered, end) in deployment.alarms(months, rng).items():
            hits = np.flatnonzero(raised[change:])
            rows.append(
                {
                    "stream": stream,
                    "method": method,
                    "false": int(raised[good].sum()),
                    "delay": hits[0] + 1 if len(hits) else np.inf,
                    "labels": int(ordered[change + hits[0] if len(hits) else -1]),
                    "decided": end - change,
                    "wrong": end <= change,
                }
            )
    return pd.DataFrame(rows)


def harmless(deployment: Deployment, streams: int, rng: np.random.Generator) -> pd.DataFrame:
    """How often streams that are suitable all along have an alarm, by method.

    Rows as in the months: drawn from the test data, or right with the least suitable accuracy.
    """
    test, least, plan = deployment.test[1], deployment.least, deployment.plan
    months = plan.months * len(deployment.periods)
    n = round(deployment.run_length * plan.rate * months / plan.false_every)
    options = {"reference_correct": test, "margin": plan.margin, "reference_level": 0}
    found = []
    for _ in range(streams):
        rows = rng.integers(len(test), size=n)
        labels = {"no change": test[rows], "least accuracy": rng.random(n) < least}
        for kind, right in labels.items():
            monitor = Monitor(deployment.estimated, run_length=deployment.ert, **options)
            found.append(("labels", kind, monitor.update(correct=right).alarm))
            for name, (detector, table) in deployment.online.items():
                x = right if name == "fet_online" else deployment.ranks(deployment.estimated[rows])
                if name == "fet_online" or kind == "no change":
                    found.append(
                        (name, kind, bool(alarms(detector, table, x[:: deployment.every], rng)))
                    )
    table = pd.DataFrame(found, columns=["method", "kind", "alarm"])
    table = table.groupby(["method", "kind"])["alarm"].mean().unstack()
    return table.reindex(index=METHODS, columns=list(labels)).dropna(how="all")


def summary(streams: pd.DataFrame) -> pd.DataFrame:
    """Per method: how often it raises false alarms, how late it is, how many labels it takes."""
    one = streams.assign(any=streams["false"] > 0, caught=np.isfinite(streams["delay"]))
    one = one.groupby("method", sort=False)
    names = {"false": "false alarms", "any": "streams with one"}
    means = one[["false", "any", "caught", "wrong"]].mean().rename(columns=names)
    return means.join(one[["delay", "labels", "decided"]].median())


def label_values(deployment: Deployment) -> pd.DataFrame:
    """Variance by one label, for equally many labels, by how they are chosen.

    Labels alone; with estimates and random labels; chosen by strata; by the estimate's doubt.
    """
    known, rows = (deployment.estimated, deployment.test[1]), []
    for name, _, f, y in [("test data", None, *known), *deployment.periods]:
        row = {"period": name, "labels alone": y.var(), "random": ((y - f) ** 2).mean()}
        for rule, own in (("strata", known[1]), ("doubt", None)):
            p = labelling_probabilities(
                f, 0.1, known[0], reference_correct=own, floor=deployment.plan.floor
            )
            row[rule] = ((y - f) ** 2 / p).mean() * p.mean()
        rows.append(row)
    return pd.DataFrame(rows)


def gain_by_accuracy(
    accuracies: Sequence[float], floor: float, rng: np.random.Generator
) -> pd.DataFrame:
    """Labels needed over those with random ones, where Beta-distributed estimates are right."""
    rows = []
    for accuracy in accuracies:
        f = rng.beta(accuracy, 1 - accuracy, 100_000)
        p, variance = labelling_probabilities(f, 0.01, f, floor=floor), f * (1 - f)
        needed = [accuracy * (1 - accuracy), (variance / p).mean() * p.mean()]
        rows.append([accuracy, *(needed / variance.mean())])
    return pd.DataFrame(rows, columns=["accuracy", "labels alone", "chosen"])


class OneDraw(NamedTuple):
    """A stream, drawn once: its months, all methods' alarms, and the monitor of random labels."""

    months: list[tuple[Floats, Floats, Flags]]
    raised: dict[str, tuple[Flags, Any, float]]
    table: pd.DataFrame
    waiting: list[tuple]


def one_draw(deployment: Deployment, rng: np.random.Generator) -> OneDraw:
    """Draw a stream, and watch it by all methods."""
    months, seed = deployment.months(rng), rng.integers(2**32)
    raised = deployment.alarms(months, np.random.default_rng(seed))
    # The second that is drawn there is the monitor that labels random rows.
    again = np.random.default_rng(seed)
    deployment.watch(months, again)
    return OneDraw(months, raised, *deployment.watch(months, again, 1.0))


def draw_table(deployment: Deployment, draw: OneDraw) -> pd.DataFrame:
    """What the monitor of random labels showed of a stream, a row a month.

    Columns: month, true ``accuracy`` and whether it is ``suitable``; what a year's labels say,
    ``estimated``, ``low`` and ``high``; ``alarm``, ``unsuitable`` (decided), ``least`` accuracy.
    """
    plan, rows = replace(deployment.plan, floor=1.0), []
    good, _ = deployment.change()
    hits, _, end = draw.raised["uniform"]
    for first in range(0, len(draw.months), plan.months):
        batch = map(np.concatenate, zip(*draw.waiting[first : first + plan.months], strict=True))
        value, ends = active_accuracy(*batch, least_probability=plan.rarest, alpha=plan.alpha)
        year = (value, *np.clip(ends, 0, 1))  # the interval may lie beside the estimate
        for k, (*_, right) in enumerate(draw.months[first : first + plan.months], first):
            rows.append([k + 1, right.mean(), bool(good[k]), *year, bool(hits[k]), k + 1 == end])
    columns = ["month", "accuracy", "suitable", "estimated", "low", "high", "alarm", "unsuitable"]
    return pd.DataFrame(rows, columns=columns).assign(least=deployment.least)


def drop_in_words(good: Flags, raised: Flags, median: float) -> str:
    """How long after the last suitable month an alarm comes: in the median, and in one draw."""
    change = int(np.max(np.flatnonzero(good), initial=-1)) + 1
    if change == len(good):
        return f"The model stays suitable.\nIn this draw {_false_alarms(raised)}"
    if np.isinf(median):
        said = "Labels of random rows: in most streams\nno alarm comes"
    else:
        said = (
            f"Labels of random rows: in the median the alarm\ncomes {_count(median)} after the drop"
        )
    hits = np.flatnonzero(raised[change:])
    if raised[:change][good[:change]].any():
        return f"{said}, here also before"
    here = "in this draw"
    return f"{said}, {here} {hits[0] + 1}" if len(hits) else f"{said}, {here} never"


def _false_alarms(raised: Flags) -> str:
    number = int(raised.sum())
    return f"{number or 'no'} false alarm{'s' * (number > 1)}"


def _count(months: float) -> str:
    return f"{months:g} month" + ("s" if months != 1 else "")

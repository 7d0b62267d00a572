"""Batches of user data arrive: raise an alarm when they are no longer suitable, or accept them.

:class:`Monitor` takes a deployed model as suitable until data speak against it and raises alarms.
:class:`AcceptanceMonitor` takes it as unsuitable until data speak for it, and then has its answer:
what comes later does not undo it. It is no alarm.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from lib.check import as_array, as_flags, as_integer, as_number
from lib.suitability.labels import as_right
from lib.suitability.noninferiority import as_sample, welch_non_inferiority
from lib.suitability.sequential import (
    EProcess,
    SequentialDesign,
    information_fractions,
    test_upper_bound,
)

__all__ = ["METHODS", "AcceptanceDecision", "AcceptanceMonitor", "Monitor", "MonitorDecision"]

#: Ways to control the error of :class:`AcceptanceMonitor`.
METHODS = ("e-process", "benjamini-hochberg", "pocock", "obrien-fleming")

Floats = npt.NDArray[np.float64]
Moments = tuple[float, float, int]  # mean, variance, size


@dataclass(frozen=True)
class AcceptanceDecision:
    """What the monitor says after a batch.

    Attributes
    ----------
    time : int
        Number of the batch, from 1.
    n : int
        Observations in it.
    p_value : float
        Benjamini-Hochberg: of this batch alone.  Pocock and O'Brien-Fleming: of all data so far.
        E-process: valid at any time, 1 / (largest e-value after any observation so far).
    e_value : float or None
        Of the e-process after this batch; None for other methods.
    threshold : float
        SUITABLE means that ``p_value`` is at most this.
    suitable : bool
        Benjamini-Hochberg: this batch.  Other methods: the hypothesis that all data are unsuitable
        is rejected; for the e-process once and for all.
    finished : bool
        Whether a sequential design has stopped: no further batch is taken.
    """

    time: int
    n: int
    p_value: float
    e_value: float | None
    threshold: float
    suitable: bool
    finished: bool


def _bh_threshold(others: Floats, alpha: float) -> Floats:
    """Largest p-value that Benjamini and Hochberg reject beside ``others``, shape (..., m - 1).

    alpha R / m with R the rejections if the p-value in question were 0, which has rank 1.
    """
    ordered = np.sort(others, axis=-1)
    ranks = np.arange(2, others.shape[-1] + 2)
    m = others.shape[-1] + 1
    rejections = np.where(ordered <= ranks * alpha / m, ranks, 1).max(axis=-1, initial=1)
    return alpha * rejections / m


class AcceptanceMonitor:
    """Take batches of user data as they come and say when it is shown that they are suitable.

    H0 is "unsuitable", and once it is rejected nothing that follows undoes that: for alarms, see
    :class:`Monitor`.  There are these methods:

    * ``"benjamini-hochberg"`` (appendix A.3.2 of the paper): each batch is a hypothesis of its
      own, with its own Welch test against the reference; after each batch the procedure is run at
      level ``alpha`` on the last ``window`` p-values, and ``suitable`` is about the newest.  One
      run controls the false discovery rate among the decisions of that run.  The decisions that
      are made as batches arrive come from different runs, and for them nothing is controlled: how
      much is lost is measured in ``lib.studies.suitability.alarms``.
    * ``"e-process"``: all data are one hypothesis, that each observation has mean below the
      reference mean less the margin given those before.  Valid at any time, for any sizes.  A
      rejection says that not all data were unsuitable; data that become unsuitable after it do
      not undo it.
    * ``"pocock"``, ``"obrien-fleming"``: all data are one sample, tested at ``looks`` planned
      times, ``batch_size`` observations apart, at the levels of :class:`SequentialDesign` with
      :func:`information_fractions` for equal variances.  The p-values are Welch's: with skewed
      estimates and batches of 50 Pocock's design errs in 7 to 12% of the cases instead of 5%, since
      its first look is at so few; take batches of some hundreds, or the e-process.

    Parameters
    ----------
    reference : array_like, shape (n_test,)
        Estimated correctness of the test data, in [0, 1], at least two.
    method : {"e-process", "benjamini-hochberg", "pocock", "obrien-fleming"}
        As above.
    margin : float
        m in (-1, 1), the largest acceptable drop; for the e-process less than the reference mean.
    alpha : float
        In (0, 1), in (0, 0.5) for sequential designs.
    window : int, optional
        Benjamini-Hochberg only: p-values considered, at least 1 (no correction); all if left out.
    looks, batch_size : int, optional
        Sequential designs only, which need them; ``batch_size`` at least 2.
    reference_level : float, optional
        E-process only.  The part of ``alpha`` spent on :func:`test_upper_bound`, so that the test
        is about the population of the test data, as Welch's is; half of ``alpha`` if left out.  0:
        the reference mean is a known number, as in Definition 3.1; against the population that
        errs the more often the more user data there are.

    Attributes
    ----------
    history : list of AcceptanceDecision
        All so far.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, appendices A.3.2 and A.3.3.

    Examples
    --------
    >>> monitor = AcceptanceMonitor(rng.beta(8, 2, 500), margin=0.05)
    >>> for _ in range(4):
    ...     decision = monitor.update(rng.beta(8, 2, 100))
    >>> decision.suitable
    True
    """

    def __init__(
        self,
        reference: Any,
        *,
        method: str = "e-process",
        margin: float = 0.0,
        alpha: float = 0.05,
        window: int | None = None,
        looks: int | None = None,
        batch_size: int | None = None,
        reference_level: float | None = None,
    ) -> None:
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
        reference = as_sample("reference", reference, 0, 1)
        self.method = method
        self.margin = as_number("margin", margin, -1, 1)
        self.alpha = as_number("alpha", alpha, 0, 1)
        self.history: list[AcceptanceDecision] = []
        planned = method in ("pocock", "obrien-fleming")
        for name, value, taken in (
            ("window", window, method == "benjamini-hochberg"),
            ("looks", looks, planned),
            ("batch_size", batch_size, planned),
            ("reference_level", reference_level, method == "e-process"),
        ):
            if not taken and value is not None:
                raise ValueError(f"{name} must be left out for method {method!r}, got {value!r}")
        self._reference = _moments(reference)
        self._user = (0.0, 0.0, 0)
        self._window = None if window is None else as_integer("window", window)
        if planned:
            self._size = as_integer("batch_size", batch_size, 2)
            fractions = information_fractions(
                len(reference), self._size, as_integer("looks", looks)
            )
            self._design = SequentialDesign(len(fractions), self.alpha, method, 1, fractions)
        elif method == "e-process":
            level = self.alpha / 2 if reference_level is None else reference_level
            if level != 0:
                level = as_number("reference_level", level, 0, self.alpha)
            mean = test_upper_bound(reference, level) if level else float(reference.mean())
            if not self.margin < mean:
                raise ValueError(
                    f"margin must be below {mean:.6g}, the mean of the reference"
                    f"{' at most' if level else ''}, got {margin!r}"
                )
            self._level = self.alpha - level
            self._process = EProcess(mean - self.margin)

    def update(self, batch: Any) -> AcceptanceDecision:
        """Take the next batch and decide.

        Parameters
        ----------
        batch : array_like, shape (n,)
            Estimated correctness of new user data, in [0, 1]: at least two, exactly
            ``batch_size`` for a sequential design, at least one for the e-process.

        Returns
        -------
        AcceptanceDecision
            Also appended to ``history``.

        Raises
        ------
        ValueError
            On input that is not as above, or if a sequential design has stopped; the monitor is
            then as it was.
        """
        batch = as_sample("batch", batch, 0, 1, 1 if self.method == "e-process" else 2)
        e_value, finished = None, False
        if self.method == "e-process":
            e_value = self._process.update(batch)
            p, threshold = self._process.p_value, self._level
        elif self.method == "benjamini-hochberg":
            p = self._welch(_moments(batch))
            before = [d.p_value for d in self.history]
            if self._window is not None:
                before = before[max(0, len(before) - self._window + 1) :]
            threshold = float(_bh_threshold(np.array(before), self.alpha))
        else:
            if self.history and self.history[-1].finished:
                raise ValueError(
                    f"batch must not follow: the design stopped at look {len(self.history)} of "
                    f"{self._design.looks}"
                )
            if len(batch) != self._size:
                raise ValueError(
                    f"batch must have batch_size = {self._size} entries, as planned, "
                    f"got {len(batch)}"
                )
            self._user = _pooled(self._user, _moments(batch))
            p = self._welch(self._user)
            threshold = float(self._design.levels[len(self.history)])
            finished = self._design.decide([*(d.p_value for d in self.history), p]).stopped
        decision = AcceptanceDecision(
            time=len(self.history) + 1,
            n=len(batch),
            p_value=p,
            e_value=e_value,
            threshold=threshold,
            suitable=p <= threshold,
            finished=finished,
        )
        self.history.append(decision)
        return decision

    def _welch(self, user: Moments) -> float:
        return float(welch_non_inferiority(*self._reference, *user, self.margin)[1])

    def table(self) -> pd.DataFrame:
        """The history, a row per batch and a column per field of :class:`AcceptanceDecision`."""
        return _table(self.history, AcceptanceDecision)


def _moments(x: Floats) -> Moments:
    return float(x.mean()), float(x.var(ddof=1)), len(x)


def _pooled(a: Moments, b: Moments) -> Moments:
    """Of two samples together; the first may be empty."""
    if not a[2]:
        return b
    n = a[2] + b[2]
    squares = a[1] * (a[2] - 1) + b[1] * (b[2] - 1) + (a[0] - b[0]) ** 2 * a[2] * b[2] / n
    return a[0] + (b[0] - a[0]) * b[2] / n, squares / (n - 1), n


# Fractions of the largest bet; their mean capital is within a factor of 6 of the best.
_BETS = np.geomspace(0.05, 0.75, 6)
_CHUNK = 4096  # observations whose paths are computed at once


@dataclass(frozen=True)
class MonitorDecision:
    """What :class:`Monitor` says after a batch.

    Attributes
    ----------
    time : int
        Number of the batch, from 1.
    n, n_labels : int
        Estimates and labels in it.
    evidence : float
        Largest sum of the two detectors since the batch began, over ``run_length``: an alarm is
        raised at 1.
    from_labels : float
        The part of the labels' detector in that sum, from 0 to 1.
    alarm : bool
        Whether it is raised; the detectors have then started anew.
    """

    time: int
    n: int
    n_labels: int
    evidence: float
    from_labels: float
    alarm: bool


class _Detector:
    """Shiryaev and Roberts's e-detector for a mean below a threshold, mixed over several bets."""

    def __init__(self, threshold: float):
        self._threshold = threshold
        self._bets = (_BETS / max(1 - threshold, 1e-3))[:, None]
        self.restart()

    def restart(self) -> None:
        self._log = np.full(len(_BETS), -np.inf)
        self.value = 0.0

    def update(self, x: Floats) -> float:
        """Take observations and return the largest value on the way."""
        largest = self.value
        for first in range(0, len(x), _CHUNK):
            path = _detector_path(x[first : first + _CHUNK], self._threshold, self._bets, self._log)
            self._log = path[:, -1]
            values = special.logsumexp(path, axis=0) - math.log(len(path))
            self.value = float(np.exp(np.minimum(values[-1], 700.0)))
            largest = max(largest, float(np.exp(np.minimum(values.max(), 700.0))))
        return largest


def _detector_path(x: Floats, threshold: float, bets: Floats, start: Floats) -> Floats:
    """Logarithms of M_n = (M_(n-1) + 1) (1 + bet (threshold - x_n)), for each bet."""
    steps = np.log1p(bets * (threshold - x))
    total = steps.cumsum(axis=-1)
    # M_n = exp(total_n) (M_0 + the sum over j <= n of exp(-total_(j-1))).
    terms = np.concatenate([start[..., None], -(total - steps)], axis=-1)
    return total + np.logaddexp.accumulate(terms, axis=-1)[..., 1:]


class Monitor:
    """Watch a deployed model and raise an alarm when its data are no longer suitable.

    H0 is "still suitable": given those before, each estimate has a mean of at least the reference
    mean less the margin, and each label is right with a probability of at least the reference
    accuracy less the margin.  The alarm is an e-detector: under H0 the sum of the two detectors
    exceeds the number of observations so far by nothing on average, so that the mean number of
    observations until a false alarm, the average run length, is at least ``run_length``, whatever
    the distribution and the sizes of batches.  After an alarm it starts anew.

    Parameters
    ----------
    reference : array_like, shape (n_test,)
        Estimated correctness of the test data, in [0, 1], at least two.
    reference_correct : array_like of bool, shape (m,), optional
        Correctness of labelled test data, at least two: needed to take labels of user data.
    margin : float
        m in (-1, 1), the largest acceptable drop.
    run_length : float
        At least 10: the least mean number of observations, estimates and labels together, until a
        false alarm.
    reference_level : float
        Probability in (0, 1) that the promise fails since the test data are but a sample: the
        reference means are replaced by lower confidence bounds (Bonferroni's for two).  0: the test
        data's own means are the reference; then the promise is about these, not their population.

    Attributes
    ----------
    history : list of MonitorDecision
        All so far.

    Notes
    -----
    Estimates may fall though the accuracy has not, and stay though it has: what they say rests on
    the estimator.  Labels rest on nothing.  They may come late and for a part of the data only, as
    long as which are told, and when, does not depend on whether they are right.

    References
    ----------
    Shin, Ramdas and Rinaldo, E-detectors: a nonparametric framework for sequential change
    detection, 2024, section 3.  Podkopaev and Ramdas, Tracking the risk of a deployed model, 2022.

    Examples
    --------
    >>> monitor = Monitor(rng.beta(8, 2, 2000), margin=0.05)
    >>> monitor.update(rng.beta(8, 2, 500)).alarm
    False
    >>> monitor.update(rng.beta(5, 5, 500)).alarm
    True
    """

    def __init__(
        self,
        reference: Any,
        *,
        reference_correct: Any = None,
        margin: float = 0.0,
        run_length: float = 100_000.0,
        reference_level: float = 0.05,
    ) -> None:
        means = {"estimates": as_sample("reference", reference, 0, 1)}
        if reference_correct is not None:
            means["labels"] = as_right("reference_correct", reference_correct).astype(float)
        self.margin = as_number("margin", margin, -1, 1)
        self.run_length = as_number("run_length", run_length, math.nextafter(10, 0), math.inf)
        level = reference_level
        if level != 0 or isinstance(level, bool):
            level = as_number("reference_level", level, 0, 1) / len(means)
        self._detectors = {}
        for name, values in means.items():
            least = 1 - test_upper_bound(1 - values, level) if level else float(values.mean())
            if not 0 < least - self.margin <= 1:
                raise ValueError(
                    f"margin must be below {least:.6g} and at least {least - 1:.6g}, for the "
                    f"reference of {name}, got {margin!r}"
                )
            self._detectors[name] = _Detector(least - self.margin)
        self.history: list[MonitorDecision] = []

    def update(self, batch: Any = (), correct: Any = ()) -> MonitorDecision:
        """Take the next batch.

        Parameters
        ----------
        batch : array_like, shape (n,)
            Estimated correctness of new user data, in [0, 1]; may be empty.
        correct : array_like of bool, shape (k,)
            Correctness of user data whose labels have become known, of this batch or earlier ones;
            may be empty.  Needs ``reference_correct``.

        Returns
        -------
        MonitorDecision
            Also appended to ``history``.

        Raises
        ------
        ValueError
            On bad input; the monitor is then as it was.
        """
        batch = as_array("batch", batch)
        batch = np.empty(0) if batch.shape == (0,) else as_sample("batch", batch, 0, 1, 1)
        labels = as_flags("correct", correct, np.size(correct)).astype(float)
        if len(labels) and "labels" not in self._detectors:
            raise ValueError(
                "correct must be empty without reference_correct: there is nothing to compare with"
            )
        if not len(batch) + len(labels):
            raise ValueError("batch and correct must not both be empty")
        sums, found = dict.fromkeys(("estimates", "labels"), 0.0), 0.0
        values = {name: one.value for name, one in self._detectors.items()}
        for name, x in (("estimates", batch), ("labels", labels)):
            if len(x):
                largest = self._detectors[name].update(x)
                rest = sum(value for other, value in values.items() if other != name)
                if largest + rest >= found:
                    found, sums = largest + rest, values | {name: largest}
                values[name] = self._detectors[name].value
        alarm = found >= self.run_length
        if alarm:
            for one in self._detectors.values():
                one.restart()
        decision = MonitorDecision(
            time=len(self.history) + 1,
            n=len(batch),
            n_labels=len(labels),
            evidence=found / self.run_length,
            from_labels=sums.get("labels", 0.0) / found if found else 0.0,
            alarm=alarm,
        )
        self.history.append(decision)
        return decision

    def table(self) -> pd.DataFrame:
        """The history, a row per batch and a column per field of :class:`MonitorDecision`."""
        return _table(self.history, MonitorDecision)


def _table(history: list[Any], kind: type) -> pd.DataFrame:
    return pd.DataFrame([asdict(d) for d in history], columns=list(kind.__dataclass_fields__))

"""Batches of user data arrive: raise an alarm when they are no longer suitable.

:class:`Monitor` takes a deployed model as suitable until data speak against it. For the opposite,
unsuitable until data speak for it, see :class:`~lib.suitability.EProcess`: it is no alarm, as what
comes after its answer does not undo it.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from lib.check import as_array, as_flags, as_number, require_finite, require_number, same_rows
from lib.suitability.labels import as_right
from lib.suitability.noninferiority import as_sample
from lib.suitability.sequential import test_upper_bound

Floats = npt.NDArray[np.float64]


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
        Estimated correctness of the test data, in [0, 1], at least two independent ones: a set,
        whose order changes nothing.
    reference_correct : array_like of bool, shape (m,), optional
        Correctness of labeled test data, at least two: needed to take labels of user data.
    margin : float
        m in (-1, 1), the largest acceptable drop.
    run_length : float
        At least 10: the least mean number of observations, estimates and labels together, until a
        false alarm.
    reference_level : float
        Probability in (0, 1) that the promise fails since the test data are but a sample: the
        reference means are replaced by lower confidence bounds (Bonferroni's for two).  0: the test
        data's own means are the reference; then the promise is about these, not their population.
    seed : int
        At least 0, of the orders in which the lower bounds draw the reference
        (:func:`~lib.suitability.test_upper_bound`).

    Attributes
    ----------
    history : list of MonitorDecision
        All so far.

    Notes
    -----
    User data are a stream, taken in the order given, that of their coming: rows of a batch that are
    sorted by class or by value must be shuffled first.

    Simulated with 2,000 test rows of ten classes, given at random, in the order of the classes,
    backwards and sorted: the same thresholds to the last bit, and no false alarm in 40 runs of
    20,000 unchanged rows at a run length of 100,000.

    Estimates may fall though the accuracy has not, and stay though it has: what they say rests on
    the estimator.  Labels need none.  They may come late and for a part of the data only, as
    long as which become known, and when, does not depend on whether they are right.

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
        seed: int = 0,
    ) -> None:
        same_rows(reference=reference, reference_correct=reference_correct)
        means = {"estimates": as_sample("reference", reference, 0, 1)}
        if reference_correct is not None:
            means["labels"] = as_right("reference_correct", reference_correct).astype(float)
        self.margin = as_number("margin", margin, -1, 1)
        require_finite("run_length", run_length, at_least=10)
        self.run_length = float(run_length)
        require_number("reference_level", reference_level, at_least=0, below=1)
        level = reference_level / len(means)
        self._detectors = {}
        for name, values in means.items():
            if level:
                least = 1 - test_upper_bound(1 - values, level, seed=seed)
            else:
                least = float(np.sort(values).mean())
            if not 0 < least - self.margin <= 1:
                raise ValueError(
                    f"margin must be below {least:.6g} and at least {least - 1:.6g}, for the "
                    f"reference of {name}, got {margin!r}"
                )
            self._detectors[name] = _Detector(least - self.margin)
        self.history: list[MonitorDecision] = []

    def update(self, batch: Any = (), correct: Any = ()) -> MonitorDecision:
        """Take the next batch; bad input leaves the monitor as it was.

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
        """
        batch = as_array("batch", batch)
        batch = np.empty(0) if batch.shape == (0,) else as_sample("batch", batch, 0, 1, 1)
        correct = as_array("correct", correct)
        labels = as_flags("correct", correct, correct.size).astype(float)
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

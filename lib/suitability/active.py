"""Few labels, of rows that are chosen: which to label, what they show, and when to raise an alarm.

A row has an estimate f of its correctness y and is labeled with a probability pi that depends on
f alone. Then x = f + (y - f) / pi if it is labeled, and x = f if not, has the mean of y, however
wrong the estimate is (prediction-powered inference), and varies least, for so many labels, if pi is
in proportion to the root of E[(y - f)^2 | f]. No pi is below a number that is fixed beforehand, so
that x is bounded, and everything here rests on betting on bounded observations: it holds for any
number of rows and any accuracy.

Zrnic and Candes, Active statistical inference, ICML 2024, sections 3 to 5 (the estimate, the rule
mixed with a uniform one, batches). Fisch et al., Stratified prediction-powered inference, NeurIPS
2024. Shin, Ramdas and Rinaldo, E-detectors, 2024. Waudby-Smith and Ramdas, JRSS B 2024.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib.check import as_flags, as_integer, as_number, require_finite, require_number, same_rows
from lib.suitability.monitor import _Detector, _table
from lib.suitability.noninferiority import as_sample
from lib.suitability.sequential import EProcess, _set_bounds

Floats = npt.NDArray[np.float64]


def labelling_probabilities(
    estimated: Any,
    rate: float,
    reference: Any,
    *,
    reference_correct: Any = None,
    strata: int = 10,
    floor: float = 0.5,
) -> Floats:
    """Probabilities with which rows are to be labeled, higher where correctness is in doubt.

    Parameters
    ----------
    estimated : array_like, shape (n,)
        Estimated correctness f of the rows, in [0, 1].
    rate : float
        In (0, 1]: fraction of rows like the reference that are labeled on average.
    reference : array_like, shape (m,)
        Estimated correctness of other data, such as the test data; at least two.
    reference_correct : array_like of bool, shape (m,), optional
        Their correctness. Doubt is then measured, not taken from the estimate.
    strata : int
        With ``reference_correct`` alone: quantiles of the reference between which doubt is equal.
    floor : float
        In (0, 1]: no probability is below ``floor`` times ``rate``; 1: all are equal.

    Returns
    -------
    ndarray, shape (n,)
        rate (floor + (1 - floor) s / mean s of the reference), at most 1. The doubt s is
        sqrt(f (1 - f)), or in each stratum the root mean square of y - f: Neyman's allocation.

    Examples
    --------
    >>> labelling_probabilities([0.5, 0.9, 1.0], 0.1, test, floor=0.4).round(3).tolist()
    [0.12, 0.088, 0.04]
    """
    same_rows(reference=reference, reference_correct=reference_correct)
    f, base = as_sample("estimated", estimated, 0, 1, 1), as_sample("reference", reference, 0, 1)
    require_number("rate", rate, above=0, at_most=1)
    require_number("floor", floor, above=0, at_most=1)
    if reference_correct is None:
        doubt, typical = (np.sqrt(values * (1 - values)) for values in (f, base))
    else:
        squares = (as_flags("reference_correct", reference_correct, len(base)) - base) ** 2
        inner = np.arange(1, as_integer("strata", strata)) / strata
        edges = np.unique(np.quantile(base, inner))
        own, theirs = (np.searchsorted(edges, values) for values in (f, base))
        # One more square of 1/4 in each: a stratum without errors is not free of doubt.
        size, total = (np.bincount(theirs, w, len(edges) + 1) for w in (None, squares))
        spread = np.sqrt((total + 0.25) / (size + 1))
        doubt, typical = spread[own], spread[theirs]
    mean = typical.mean()
    relative = doubt / mean if mean > 0 else np.ones(len(f))
    return np.minimum(rate * (floor + (1 - floor) * relative), 1.0)


def active_accuracy(
    estimated: Any,
    chosen: Any,
    correct: Any,
    probability: Any,
    *,
    least_probability: float,
    alpha: float = 0.05,
) -> tuple[float, tuple[float, float]]:
    """Accuracy from all estimates and the labels of chosen rows, with its confidence interval.

    Parameters
    ----------
    estimated : array_like, shape (n,)
        Estimated correctness f, in [0, 1], of rows that are independent of each other, in any
        order.
    chosen : array_like of bool, shape (n,)
        Which rows are labeled: each by itself with its ``probability``.
    correct : array_like of bool, shape (k,)
        Correctness of the chosen rows, in their order.
    probability : array_like, shape (n,)
        As of :func:`labelling_probabilities` with a reference of other rows.
    least_probability : float
        In (0, 1], known before the data: no probability is below, as ``floor`` times ``rate``.
    alpha : float
        In (0, 1), of the interval.

    Returns
    -------
    accuracy : float
        Mean of x, unbiased; in [0, 1] by clipping.
    interval : tuple of float
        Each end by :func:`lib.suitability.test_upper_bound`, at half of ``alpha``.

    Notes
    -----
    What the level rests on: that rows are independent and labeled with their probabilities, for
    any number of rows and labels; the interval is by betting, not by a normal limit. Rows are a
    set, whose order changes nothing: what counts is the capital at the end, as its mean over four
    random orders. Simulated for 20 to 600 rows, accuracies of 0.5 to 0.999, all rows labeled or a
    fifth to a third of them, and levels of 0.05 and 0.25: each end missed in at most half as many
    samples as it may. The interval is some 15% wider than by the largest capital on the way in one
    fixed order, which missed in up to twice as many as it may and more.

    Examples
    --------
    >>> p = labelling_probabilities(user, 0.3, test)
    >>> chosen = np.random.default_rng(1).random(400) < p
    >>> right = np.random.default_rng(2).random(400) < user
    >>> value, (low, high) = active_accuracy(
    ...     user, chosen, right[chosen], p, least_probability=0.15
    ... )
    >>> bool(low < right.mean() < high), abs(value - float(right.mean())) < 0.1
    (True, True)
    """
    require_number("least_probability", least_probability, above=0, at_most=1)
    least, alpha = float(least_probability), as_number("alpha", alpha, 0, 1)
    x, _ = _observations(estimated, chosen, correct, probability, least)
    z = _to_unit(x, least)
    high, above = (
        float(_set_bounds(np.sort(side)[None], alpha / 2, np.random.default_rng(0))[0])
        for side in (z, 1 - z)
    )
    low = 1 - above
    ends = [min(max(float(_from_unit(end, least)), 0.0), 1.0) for end in (low, high)]
    return min(max(float(x.mean()), 0.0), 1.0), (ends[0], ends[1])


@dataclass(frozen=True)
class ActiveDecision:
    """What :class:`ActiveMonitor` says after a batch.

    Attributes
    ----------
    time : int
        Number of the batch, from 1.
    n, n_labels : int
        Rows and labels in it.
    accuracy : float
        Mean of x over the batch: unbiased, and not clipped.
    evidence : float
        The detector's largest value since the batch began over ``run_length``, an alarm at 1; 0
        while not watching.
    alarm : bool
        Whether it is raised.
    suitable_p, unsuitable_p : float
        Of the rows since the alarm, valid at any time: small ones speak for SUITABLE or UNSUITABLE;
        1 while not deciding.
    state : str
        After the batch: "watching", "deciding" since an alarm, or "unsuitable" for good.
    """

    time: int
    n: int
    n_labels: int
    accuracy: float
    evidence: float
    alarm: bool
    suitable_p: float
    unsuitable_p: float
    state: str


class ActiveMonitor:
    """Watch a model by few labels of chosen rows: raise an alarm, estimate anew, decide.

    *Watching.*  An e-detector on x, as of :class:`Monitor`: while each row is right with a
    probability of at least ``least_accuracy`` given those before, the mean number of rows until an
    alarm is at least ``run_length``, however wrong the estimates are.  *Deciding.*  After an alarm
    the rows that follow are tested anew (those before it were seen to be bad), by two e-processes:
    SUITABLE takes the monitor back to watching, UNSUITABLE ends it.  If the data after the alarm
    are of one accuracy, each is said wrongly with probability at most ``alpha``.

    Labels may come late, if batches are given in order once theirs have come.  An update takes time
    in proportion to its rows, whatever came before.

    Parameters
    ----------
    least_accuracy : float
        In (0, 1): the accuracy that is still suitable, such as the test data's less a margin.
    least_probability : float
        In (0, 1]: with no smaller probability is any row labeled.
    run_length : float
        At least 10.
    alpha : float
        In (0, 1), of the decision after an alarm.

    Attributes
    ----------
    state : {"watching", "deciding", "unsuitable"}
        Now: while deciding it pays to label more.
    history : list of ActiveDecision
        All so far.

    Examples
    --------
    >>> monitor = ActiveMonitor(0.75, least_probability=0.1, run_length=10_000)
    >>> for accuracy in (0.8, 0.8, 0.4, 0.4, 0.4):
    ...     p = labelling_probabilities(user, 0.2, test)
    ...     chosen = rng.random(400) < p
    ...     decision = monitor.update(user, chosen, rng.random(chosen.sum()) < accuracy, p)
    ...     print(decision.alarm, decision.state)
    False watching
    False watching
    True deciding
    False unsuitable
    False unsuitable
    """

    def __init__(
        self,
        least_accuracy: float,
        *,
        least_probability: float,
        run_length: float = 100_000.0,
        alpha: float = 0.05,
    ) -> None:
        self.least_accuracy = as_number("least_accuracy", least_accuracy, 0, 1)
        require_number("least_probability", least_probability, above=0, at_most=1)
        self.least_probability = float(least_probability)
        require_finite("run_length", run_length, at_least=10)
        self.run_length = float(run_length)
        self.alpha = as_number("alpha", alpha, 0, 1)
        self._threshold = float(_to_unit(self.least_accuracy, self.least_probability))
        self._detector = _Detector(self._threshold)
        self.history: list[ActiveDecision] = []
        self.state = "watching"

    def update(self, estimated: Any, chosen: Any, correct: Any, probability: Any) -> ActiveDecision:
        """Take the next batch, whose labels have come; bad input leaves the monitor as it was.

        Parameters
        ----------
        estimated, chosen, correct, probability
            As of :func:`active_accuracy`.

        Returns
        -------
        ActiveDecision
            Also appended to ``history``.
        """
        least = self.least_probability
        x, n_labels = _observations(estimated, chosen, correct, probability, least)
        z = _to_unit(x, least)
        evidence, p_values = 0.0, [1.0, 1.0]
        if self.state == "watching":
            evidence = self._detector.update(z) / self.run_length
            if evidence >= 1:
                self._begin_to_decide()
        elif self.state == "deciding":
            for test, values in zip(self._tests, (z, 1 - z), strict=True):
                test.update(values)
            p_values = [test.p_value for test in self._tests]
            if min(p_values) <= self.alpha:
                self.state = "watching" if p_values[0] < p_values[1] else "unsuitable"
                self._detector.restart()
        decision = ActiveDecision(
            time=len(self.history) + 1,
            n=len(x),
            n_labels=n_labels,
            accuracy=float(x.mean()),
            evidence=evidence,
            alarm=evidence >= 1,
            suitable_p=p_values[0],
            unsuitable_p=p_values[1],
            state=self.state,
        )
        self.history.append(decision)
        return decision

    def _begin_to_decide(self) -> None:
        self.state = "deciding"
        self._tests = [EProcess(self._threshold), EProcess(1 - self._threshold)]

    def table(self) -> pd.DataFrame:
        """The history, a row per batch and a column per field of :class:`ActiveDecision`."""
        return _table(self.history, ActiveDecision)


def _observations(
    estimated: Any, chosen: Any, correct: Any, probability: Any, least: float
) -> tuple[Floats, int]:
    """The x of each row, from 1 - 1/least to 1/least, and the number of labels."""
    same_rows(estimated=estimated, chosen=chosen, probability=probability)
    f = as_sample("estimated", estimated, 0, 1, 1)
    where = as_flags("chosen", chosen, len(f))
    right = as_flags("correct", correct, int(where.sum()))
    p = as_sample("probability", probability, least * (1 - 1e-12), 1, 1)
    if len(p) != len(f):
        raise ValueError(f"probability must have an entry for each of {len(f)} rows, got {len(p)}")
    x = f.copy()
    x[where] += (right - f[where]) / p[where]
    return x, len(right)


def _to_unit(x: Any, least: float) -> Any:
    """From [1 - 1/least, 1/least] to [0, 1], but for rounding."""
    return np.clip((x - 1 + 1 / least) / (2 / least - 1), 0.0, 1.0)


def _from_unit(z: Any, least: float) -> Any:
    return z * (2 / least - 1) + 1 - 1 / least

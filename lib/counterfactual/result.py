"""An estimate with its interval, and what that rests on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

from lib.check import as_names
from lib.counterfactual.bounds import Reach, Units, interval, lower_end, mirror, p_value
from lib.counterfactual.diagnostics import Diagnostics, diagnose
from lib.ties import ROUNDING

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """An estimate of a counterfactual score or of a difference of two.

    Attributes
    ----------
    value : float
        The estimate: of accuracies it may be outside [0, 1], as a mean of weighted values is.
    stderr : float
        Its standard error, from the variance of the influence values (of their sums in clusters).
    interval : tuple of float
        Confidence interval at `level`, cut off at the least and largest possible value.  See Notes.
    influence : ndarray, shape (n,)
        Influence values, not centered: their mean is `value`.
    p_value : float
        Two-sided, of the hypothesis that what is estimated is zero, by what the interval rests on.
    level : float
        Of the interval.
    estimator : {"dr", "ipw", "plug-in", "mixed"}
        Which one.
    clip : float
        epsilon: propensities above 1 - epsilon count as that.
    nuisances : tuple of Nuisances
        Of each classifier.
    reach : Reach or None
        What influence values might have been with other scores, if their range is known.
    clusters : ndarray of int, shape (n,), or None
        Numbers of the clusters that are independent; points are if None.
    remarks : tuple of str
        On the data, for the diagnostics.

    Notes
    -----
    Points (clusters, if given) must be independent.  The level rests on

    - *A bound*, where scores are 0 or 1, or ``score_range`` was given: Gaffke's for bounded values,
      which for answers that all count alike is Clopper and Pearson's.  It does not rest on a
      variance; 200 right answers of 200 give no interval without width.
    - *Student's distribution* for other scores, with the degrees of freedom that the influence
      values' kurtosis gives (Satterthwaite).
    - *Nothing*: both ends are NaN if the scores that are seen are all equal and their range is not
      known (give ``score_range``), if the bounds lie outside what is possible (propensities to
      answer, say, in place of those to abstain), and for the plug-in, a mean of predictions, whose
      error is the model's and not in their spread.

    Simulated for scores of 0 and 1 at 95%, with truths of .5, .8, .9, .95, .99 and .999, with 20,
    100 and 300 answers, 1, 5 and 20 groups, known propensities (constant, two values, smooth,
    rarely an answer), errors everywhere or where it abstains, outcome models that are right,
    constant, wrong and reversed: of 2,304 cells of 1,000 trials one was below the level less 3
    standard errors, where chance allows three.  With logistic and ridge regressions, truths of .8
    to .999, 4 to 20 answers in each of 1, 5 and 20 groups, at 95 and 99%: none of 576 cells.
    Nor of 96 cells of 20 to 200 clusters of 2, 10 and 50 rows, copies or alike (200 trials each).
    Nor, in ``lib.studies.counterfactual.coverage``, of whose table a page has a part, of 360 cells
    of 200 trials: known and fitted propensities, outcome models right, constant and wrong, about
    20, 100, 500 and 2,000 answers in all, 1, 5 and 20 groups, truths of .5, .8, .95, .99 and .999.

    Answers are plentiful from 1,000 on with 100 errors and 100 successes: there intervals are at
    most 3% wider than normal ones (0.5% to 1.1% for points as that study draws them, with known
    propensities); with 50 errors up to 8% where a few answers weigh much more than others.  The
    level knows nothing of a bias, such as that of fits whose errors meet.
    """

    value: float
    stderr: float
    interval: tuple[float, float] = field(init=False)
    influence: Array = field(repr=False)
    level: float
    estimator: str
    clip: float
    nuisances: tuple[Any, ...] = field(repr=False)
    reach: Reach | None = field(default=None, repr=False)
    clusters: npt.NDArray[np.int64] | None = field(default=None, repr=False)
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        half = self.stderr * self.quantile
        low, high = self.value - half, self.value + half
        if self.reach is not None:
            low, high = interval(self._units, self.reach, self.clusters, self.level)
            more = self._of_splits * float(stats.norm.isf((1 - self.level) / 2)) ** 2
            if more > 0 and not math.isnan(low):  # of repeated splits, of which the bound knows one
                low = self.value - math.hypot(max(self.value - low, 0.0), math.sqrt(more))
                high = self.value + math.hypot(max(high - self.value, 0.0), math.sqrt(more))
                low, high = (float(np.clip(end, *self.reach.limits)) for end in (low, high))
        elif self._blind:
            low = high = math.nan
        object.__setattr__(self, "interval", (low, high))

    @cached_property
    def _units(self) -> Units:
        return Units.of(self.influence, self.clusters)

    @property
    def _of_splits(self) -> float:
        """What repeated splits add to the variance."""
        more = self.stderr**2 - self._units.stderr**2
        return more if more > ROUNDING * self.stderr**2 else 0.0

    @property
    def _blind(self) -> bool:
        """Whether the spread of the values says nothing, and no range of scores is known."""
        if self.estimator == "plug-in" and any(p.abstained.any() for p in self.nuisances):
            return True
        seen = [p.scores[~p.abstained] for p in self.nuisances]
        same = [len(s) == 0 or np.ptp(s) <= ROUNDING * np.abs(s).max() for s in seen]
        return any(same) or self._units.stderr <= 1e-15 * float(np.abs(self.influence).max())

    @property
    def score_range(self) -> tuple[float, float] | None:
        """Least and largest possible score, if known."""
        return None if self.reach is None else self.reach.scores

    @property
    def degrees(self) -> float:
        """Of freedom of Student's distribution, for the variance of the influence values."""
        return self._units.degrees

    @property
    def quantile(self) -> float:
        """Half the width of Student's interval, in standard errors."""
        return self._units.quantile(self.level)

    @cached_property
    def p_value(self) -> float:
        """Of the hypothesis that what is estimated is zero."""
        if self.reach is not None:
            return self._by_bound()
        if self._blind:
            return math.nan
        units, two = self._units, stats.t.isf(0.25, self.degrees)
        return float(
            2 * stats.t.sf(abs(self.value) / self.stderr * two / units.quantile(0.5), self.degrees)
        )

    def _by_bound(self) -> float:
        """Twice the level at which the nearer end is zero."""
        if self._of_splits == 0:
            return p_value(self._units, self.reach, self.clusters, 0.0)
        units, reach = self._units, self.reach
        if self.value < 0:
            units, reach = mirror(units, reach)

        def gap(log_alpha: float) -> float:
            alpha = math.exp(log_alpha)
            plain = units.mean - lower_end(units, reach, self.clusters, alpha)
            return (
                math.hypot(plain, math.sqrt(self._of_splits) * stats.norm.isf(alpha)) - units.mean
            )

        ends = -650.0, math.log(0.45)
        if gap(ends[1]) >= 0:
            return 1.0
        return 2 * math.exp(optimize.brentq(gap, *ends) if gap(ends[0]) > 0 else ends[0])

    @cached_property
    def diagnostics(self) -> tuple[Diagnostics, ...]:
        """Of each classifier: overlap, calibration, fit, and what to worry about."""
        return tuple(
            replace(one, notes=one.notes + self.remarks)
            for one in (
                diagnose(p.abstained, p.scores, p.propensity, p.outcome, self.clip)
                for p in self.nuisances
            )
        )

    def by_group(self, groups: npt.ArrayLike) -> dict[str, "Estimate"]:
        """The same within groups of points, with intervals that hold all together.

        Parameters
        ----------
        groups : array_like of int or str, shape (n,)
            The group of each point, known before its score.

        Returns
        -------
        dict of str to Estimate
            Of the k groups, each at `level` ** (1 / k), as disjoint groups err independently
            (Sidak).  With clusters that reach into several groups they do not, and each is at
            1 - (1 - `level`) / k (Bonferroni).  A group without an answer has the whole range of
            scores.

        Raises
        ------
        ValueError
            If a group is missing, or two have one name; where no range of scores is known, if a
            group has one point only, or no answer.

        Examples
        --------
        >>> list(estimate.by_group(np.where(X[:, 0] > 0.5, "right", "left")))
        ['left', 'right']
        """
        given = as_names("groups", groups, len(self.influence))
        names = {str(name): given == name for name in _distinct(given)}
        if len(names) < len(_distinct(given)):
            raise ValueError("groups must have names that differ as words, got the same one twice")
        shared = self.clusters is not None and any(
            len(np.unique(self.clusters[rows])) + len(np.unique(self.clusters[~rows]))
            > len(np.unique(self.clusters))
            for rows in names.values()
        )
        k = len(names)
        level = 1 - (1 - self.level) / k if shared else self.level ** (1 / k)
        return {name: self._within(name, names[name], level) for name in sorted(names)}

    def _within(self, name: str, rows: npt.NDArray[np.bool_], level: float) -> "Estimate":
        parts = tuple(
            replace(p, **{key: value[rows] for key, value in vars(p).items()})
            for p in self.nuisances
        )
        without = any(part.abstained.all() for part in parts)
        if self.reach is None and (rows.sum() < 2 or without):
            raise ValueError(
                f"groups must each have two points and an answer, got {name!r} without; with "
                "score_range given there is a bound for those too"
            )
        influence = self.influence[rows]
        codes = (
            None if self.clusters is None else np.unique(self.clusters[rows], return_inverse=1)[1]
        )
        units = Units.of(influence, codes)
        splits = self._of_splits * len(self.influence) / len(influence)
        return replace(
            self,
            value=units.mean,
            stderr=math.sqrt(units.stderr**2 + splits),
            influence=influence,
            level=level,
            nuisances=parts,
            reach=None if self.reach is None else self.reach.take(rows),
            clusters=codes,
        )


def _distinct(given: npt.NDArray[Any]) -> Sequence[Any]:
    return list(dict.fromkeys(given.tolist()))

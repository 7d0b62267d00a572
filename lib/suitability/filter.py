"""The suitability filter: fit on labeled source data, decide about unlabeled user data."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import special
from sklearn.base import clone

from lib.check import Columns, as_matrix, as_number, matched, require_choice, same_rows
from lib.suitability.clusters import (
    FEW_ROWS,
    Codes,
    Part,
    as_clusters,
    few_clusters,
    inflation,
    mean_part,
    repeated_rows,
    total,
)
from lib.suitability.estimator import (
    CONSTANT,
    CorrectnessEstimator,
    as_fit,
    fit_logistic,
    logistic_hessian,
    standardiser,
)
from lib.suitability.noninferiority import as_sample, welch_non_inferiority

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

#: Tests of :class:`SuitabilityFilter`.
TESTS = ("fitted", "paper")
_PENALTY = 0.01  # small: what a penalty shrinks is a bias towards SUITABLE
_ROUNDING = 1e-24  # variance of means of numbers in [0, 1] that is but rounding
_ALIKE = 1e-12  # probabilities that differ by less are equal
_FAR = 2.0  # errors of the fit within which the difference may be the margin
_LEAST = 1e-3  # p-values below are not told apart


def p_text(p: float) -> str:
    """Write a p-value for people, as "p = 0.034": nothing below 0.001 is told apart."""
    return f"p < {_LEAST:g}" if p < _LEAST else f"p = {p:.2g}"


@dataclass(frozen=True)
class Decision:
    """What the filter says about a set of user data.

    Attributes
    ----------
    suitable : bool
        True for SUITABLE; False is INCONCLUSIVE, which is not "unsuitable".
    p_value, statistic, dof : float
        Of the non-inferiority test; the normal distribution has infinite ``dof``.  Its
        statistic is (test mean - user mean - margin) over the standard error (P2, Eq. 13 of
        appendix A.1.1): far below 0 speaks for SUITABLE.
    estimated_test_accuracy, estimated_user_accuracy : float
        Mean estimated correctness of the test and the user data.
    margin, alpha : float
        With which it was decided.
    stderr : float
        Of the difference of the two means, with what its test counts.
    test : {"fitted", "paper", "refined"}
        Which test: of :class:`SuitabilityFilter`, or :class:`lib.suitability.RefinedFilter`'s.
    notes : tuple of str
        What speaks against the level, such as rows that are repeated.
    """

    suitable: bool
    p_value: float
    statistic: float
    dof: float
    estimated_test_accuracy: float
    estimated_user_accuracy: float
    margin: float
    alpha: float
    stderr: float
    test: str = "paper"
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        word = "SUITABLE" if self.suitable else "INCONCLUSIVE"
        return "\n".join((self._numbers(word), *(f"note: {note}" for note in self.notes)))

    def _numbers(self, word: str) -> str:
        return (
            f"{word}: {p_text(self.p_value)} at alpha = {self.alpha:g}, margin = {self.margin:g}\n"
            f"estimated accuracy on test data: {self.estimated_test_accuracy:.3f}\n"
            f"estimated accuracy on user data: {self.estimated_user_accuracy:.3f}"
        )


class SuitabilityFilter:
    """Decide from signals alone whether a classifier is as accurate on user data as on test data.

    Parameters
    ----------
    margin : float
        m in (-1, 1): the largest acceptable drop in accuracy.
    alpha : float
        In (0, 1): bounds, for large samples, the probability of SUITABLE for data that are not,
        if one logistic model of the signals is right on hold-out, test and user data (fitted test),
        or what was fitted is calibrated on test and user data (the paper's), and rows are
        independent, or the clusters that are given are.
    estimator : scikit-learn classifier, optional
        Anything with ``fit`` and ``predict_proba``, which is cloned and given the raw
        signals in the order of the rows; for the paper's test, whose default is
        :class:`CorrectnessEstimator`.
    test : {"fitted", "paper"}, optional
        By default ``"fitted"`` without an `estimator`, else ``"paper"``: the paper's Welch test,
        which takes the fitted estimator for the truth. Even if the logistic model is right it errs
        more often than alpha, with many user rows most. ``"fitted"`` counts the error of the fit.

    Notes
    -----
    *The fitted test.* One logistic regression on the standardized signals, with next to no
    penalty, for shrunken slopes understate drops. The variance of the difference d of the two mean
    estimates is var(estimates) / n of each sample plus g' H^-1 g, with g the gradient of d and H
    the Hessian of the loss. As in a score test, it is taken at the nearest coefficients with d = m,
    two standard errors of d away at most, if that is larger: at the estimated ones it is too small
    just when d is.

    *Clusters.* Rows that belong together (frames of a video, patients with several visits, copies)
    are not independent: of clusters of 10 equal rows taken for independent ones, data that are not
    suitable passed in .31 of the cases instead of .05. With ``clusters`` the variances of all three
    samples are jackknife estimates that leave out one cluster at a time (for the fit times the
    ratio of that to the model's, at least 1), and the statistic is compared with Student's
    distribution, with clusters - 1 degrees of freedom each and Satterthwaite's of their sum.

    *Simulated*, at a drop of the margin and alpha = .05: .00 to .067 with accuracies of .9 to
    .995, 200 to 1,000 rows of the fit, 1 to 12 signals, also skewed ones and one of two values
    (300 to 1,000 runs a cell); with clusters of 2 to 50 equal or similar rows, 10 to 250 of them in
    each sample, .00 to .06, and .06 to .53 if they are not given. Few user rows pass too often:
    with an accuracy of .8 and 500 rows of the fit and of the test data, .13 of the samples of 5,
    .10 of 10, .08 of 20, .06 of 30, .04 of 50 (1,000 runs a cell); below 30 a note says so. So do
    few clusters, most if their size tells the accuracy: .3 to .5 of the samples of 10 to 20, some
    of them large and less accurate, passed the paper's test; a note says so.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, Definition 3.2 and section 4.

    Examples
    --------
    >>> filter = SuitabilityFilter(margin=0.05).fit(table[:300], correct[:300])
    >>> filter.decide(table[300:600], table[600:]).suitable
    True
    """

    def __init__(
        self,
        margin: float = 0.0,
        alpha: float = 0.05,
        estimator: Any = None,
        test: str | None = None,
    ) -> None:
        self.margin = as_number("margin", margin, -1, 1)
        self.alpha = as_number("alpha", alpha, 0, 1)
        if estimator is not None and (
            isinstance(estimator, type) or not hasattr(estimator, "predict_proba")
        ):
            raise ValueError(
                f"estimator must have predict_proba and be no class, got {estimator!r}"
            )
        self.estimator = estimator
        default = "fitted" if estimator is None else "paper"
        self.test = default if test is None else require_choice("test", test, TESTS)
        if self.test == "fitted" and estimator is not None:
            raise ValueError("test must be 'paper' with an estimator of one's own, got 'fitted'")
        self._fitted: Any = None
        self._signals: FittedSignals

    def fit(self, signals: Any, correct: Any, clusters: Any = None) -> Self:
        """Fit the correctness estimator on D_sf, labeled source data held out for this.

        Parameters
        ----------
        signals : DataFrame or array_like, shape (n, n_signals)
            Signals of the predictions, of which at least one varies.
        correct : array_like of bool, shape (n,)
            Whether each was correct; both kinds must occur, five times each for the
            estimator of the paper's test.
        clusters : array_like, shape (n,), optional
            What each row belongs to, for the fitted test; rows of different clusters are
            independent.  Each row by itself if left out.
        """
        same_rows(signals=signals, correct=correct, clusters=clusters)
        x, y, columns = as_fit(signals, correct)
        self._signals = FittedSignals(x, columns, as_clusters("clusters", clusters, len(x)))
        if self.test == "fitted":
            self._fitted = Logistic(x, y, _PENALTY, self._signals.clusters)
        elif clusters is not None:
            raise ValueError(
                "clusters must be None for the paper's test, which does not count the error of the "
                "fit; test='fitted' does"
            )
        else:
            model = CorrectnessEstimator() if self.estimator is None else clone(self.estimator)
            self._fitted = model.fit(x, y)
        return self

    def estimate(self, signals: Any, name: str = "signals") -> np.ndarray:
        """Estimate the probability that each prediction is correct.

        Parameters
        ----------
        signals : DataFrame or array_like, shape (n, n_signals)
            A data frame's columns are matched by name to those at fit; arrays are taken only after
            a fit to an array.
        name : str
            What an error message calls the argument.

        Returns
        -------
        ndarray, shape (n,)
        """
        return self._predict(self._arranged(signals, name))

    def decide(
        self,
        test_signals: Any,
        user_signals: Any,
        *,
        test_clusters: Any = None,
        user_clusters: Any = None,
    ) -> Decision:
        """Compare user data with test data.

        Parameters
        ----------
        test_signals, user_signals : DataFrame or array_like, shape (n, n_signals)
            At least two rows each. The test data are from the source distribution
            and disjoint from those of :meth:`fit`.
        test_clusters, user_clusters : array_like, shape (n,), optional
            What each row belongs to, at least two clusters. One that lies in several of the three
            samples makes them dependent, which is not allowed for.

        Returns
        -------
        Decision
            SUITABLE if and only if the p-value is at most ``alpha``. Its notes name samples of
            fewer than 30 rows or of few clusters, rows that are repeated, signals that vary here
            but did not at fit, and samples whose estimates do not vary: for either of the last two
            it is INCONCLUSIVE, with a p-value of 1.
        """
        same_rows(test_signals=test_signals, test_clusters=test_clusters)
        same_rows(user_signals=user_signals, user_clusters=user_clusters)
        names = "test_signals", "user_signals"
        pairs = (test_signals, test_clusters), (user_signals, user_clusters)
        tables, clusters = [], []
        for name, (signals, groups) in zip(names, pairs, strict=True):
            tables.append(self._arranged(signals, name))
            if len(tables[-1]) < 2:
                raise ValueError(f"{name} must have at least 2 rows, got {len(tables[-1])}")
            clusters.append(
                as_clusters(name.replace("signals", "clusters"), groups, len(tables[-1]))
            )
        given = dict(zip(names, zip(tables, clusters, strict=True), strict=True))
        estimates = [self._predict(table) for table in tables]
        if self.test == "paper":
            decision = welch_decision(*estimates, self.margin, self.alpha, clusters)
        else:
            designs = [self._fitted.design(table) for table in tables]
            error = self._fitted.error(*designs, self.margin, clusters)
            means = [float(p.mean()) for p in estimates]
            decision = normal_decision(*means, error, self.margin, self.alpha, "fitted")
        alike = [
            f"{name} has {len(p)} rows that all have the estimate {p[0]:.4g}: what their mean may "
            "be off by cannot be told"
            for name, p in zip(names, estimates, strict=True)
            if np.ptp(p) <= _ALIKE
        ]
        found = self._signals.noted(decision, given, alike)
        few = tuple(
            f"{name} has only {len(table)} rows: the level is that of means that are close to "
            f"normal, for which {FEW_ROWS} are few; data that are not suitable then pass more "
            "often than alpha says, and labels of these rows tell more (labels_test)"
            for name, (table, groups) in given.items()
            if len(table) < FEW_ROWS and groups is None
        )
        few += tuple(
            note
            for (name, (_, groups)), p in zip(given.items(), estimates, strict=True)
            if groups is not None
            for note in few_clusters(name, p, groups)
        )
        return replace(found, notes=(*found.notes, *few))

    def _predict(self, x: Array) -> Array:
        if isinstance(self._fitted, CorrectnessEstimator | Logistic):
            return self._fitted.predict(x)
        return self._fitted.predict_proba(x)[:, 1]

    def _arranged(self, signals: Any, name: str) -> Array:
        """The columns of the fit, in their order."""
        if self._fitted is None:
            raise RuntimeError("the filter must be fitted before it can estimate or decide")
        return self._signals.matrix(name, signals)


class FittedSignals:
    """The columns of a fit, which later tables must have, and what is to be noted of these."""

    def __init__(self, x: Array, columns: Columns, clusters: Codes | None) -> None:
        self._columns, self._rows, self.clusters = columns, x, clusters
        self._value, _, self._constant = standardiser(x)
        if self._constant.all():
            raise ValueError(
                f"signals must vary, got {x.shape[1]} that are the same in all {len(x)} rows but "
                "for rounding: nothing can be learned from them"
            )

    def matrix(self, name: str, signals: Any) -> Array:
        """Signals in the order of the fit."""
        return as_matrix(name, matched(name, signals, self._columns))

    def noted(
        self,
        decision: Decision,
        given: dict[str, tuple[Array, Codes | None]],
        reasons: Sequence[str] = (),
    ) -> Decision:
        """The decision with what is to be noted of the rows of the fit and of later samples.

        It is INCONCLUSIVE, with a p-value of 1, for the reasons given, and where a signal varies
        that never did at fit.
        """
        every = {"the table of the fit": (self._rows, self.clusters), **given}
        unknown = [
            *reasons,
            *(note for name in given for note in self._unknown(name, *given[name])),
        ]
        if unknown:
            decision = replace(decision, suitable=False, p_value=1.0)
        repeated = repeated_rows(
            {name: x for name, (x, _) in every.items()},
            {name: clusters for name, (_, clusters) in every.items()},
        )
        return replace(decision, notes=(*unknown, *repeated))

    def _unknown(self, name: str, x: Array, _: Codes | None) -> Iterator[str]:
        size = np.maximum(np.abs(x), np.abs(self._value))
        moved = (np.abs(x - self._value) > CONSTANT * size) & self._constant
        for column in np.flatnonzero(moved.any(axis=0)):
            which = column if isinstance(self._columns, int) else repr(self._columns[column])
            yield (
                f"{name} has other values than {self._value[column]:g} in column {which}, which "
                f"never varied at fit, in {int(moved[:, column].sum())} of {len(x)} rows: nothing "
                "is known of these, so that nothing can be concluded; leave out the column "
                "everywhere, or fit to rows where it varies"
            )


def welch_decision(
    test: Array,
    user: Array,
    margin: float,
    alpha: float,
    clusters: Sequence[Codes | None] = (None, None),
) -> Decision:
    """By the paper's test of estimates, with any margin, also one that no filter takes."""
    samples = as_sample("test", test), as_sample("user", user)
    a, b = ((s.mean(), s.var(ddof=1), len(s)) for s in samples)
    if clusters[0] is not None or clusters[1] is not None:
        parts = [mean_part(s, codes) for s, codes in zip(samples, clusters, strict=True)]
        return normal_decision(float(a[0]), float(b[0]), total(parts), margin, alpha, "paper")
    statistic, p_value, dof = map(float, welch_non_inferiority(*a, *b, margin))
    # Variances that are but rounding are none: the test has no degrees of freedom there.
    error = 0.0 if np.isnan(dof) else float(np.sqrt(a[1] / a[2] + b[1] / b[2]))
    means = float(a[0]), float(b[0])
    return Decision(
        p_value <= alpha, p_value, statistic, dof, *means, margin=margin, alpha=alpha, stderr=error
    )


def normal_decision(
    test: float, user: float, error: Part, margin: float, alpha: float, name: str
) -> Decision:
    """By two accuracies, the variance of their difference and its degrees of freedom.

    Without any variance, by the sign of what is left but for rounding.
    """
    excess, (variance, dof) = test - user - margin, error
    stderr = float(np.sqrt(variance))
    if stderr > 0:
        statistic = excess / stderr
        p_value = float(special.ndtr(statistic) if dof == np.inf else special.stdtr(dof, statistic))
    else:
        sign = 0.0 if abs(excess) <= 1e-12 else float(np.sign(excess))
        statistic, p_value, dof = sign * np.inf if sign else 0.0, 0.5 * (1 + sign), np.nan
    return Decision(
        suitable=p_value <= alpha,
        p_value=p_value,
        statistic=statistic,
        dof=dof,
        estimated_test_accuracy=test,
        estimated_user_accuracy=user,
        margin=margin,
        alpha=alpha,
        stderr=stderr,
        test=name,
    )


class Logistic:
    """A logistic regression that knows the error of what it estimates."""

    def __init__(self, x: Array, y: Flags, penalty: float, clusters: Codes | None = None):
        self._center, self._scale, _ = standardiser(x)
        self._x, self._penalty, self._clusters = self.design(x), penalty, clusters
        self.theta, self.hessian = fit_logistic(self._x, y, penalty)
        p = special.expit(self._x @ self.theta)
        self._residual, self._weight = y - p, p * (1 - p)

    def design(self, x: Array) -> Array:
        """Standardized signals and, last, a column of ones."""
        return np.column_stack([(x - self._center) / self._scale, np.ones(len(x))])

    def predict(self, x: Array) -> Array:
        """Estimated correctness."""
        return special.expit(self.design(x) @ self.theta)

    def error(
        self, test: Array, user: Array, margin: float, clusters: Sequence[Codes | None]
    ) -> Part:
        """Variance of the difference of the mean estimates, at a difference of the margin."""

        def moments(theta: Array) -> tuple[float, Array, list[Part]]:
            p = [special.expit(design @ theta) for design in (test, user)]
            g = test.T @ (p[0] * (1 - p[0])) / len(test) - user.T @ (p[1] * (1 - p[1])) / len(user)
            parts = [mean_part(q, codes) for q, codes in zip(p, clusters, strict=True)]
            # Independent rows are many: their variances are as good as known.
            known = [
                (part, np.inf if codes is None else dof)
                for (part, dof), codes in zip(parts, clusters, strict=True)
            ]
            return float(p[0].mean() - p[1].mean()), g, known

        return self.largest(moments, margin)

    def largest(
        self, moments: Callable[[Array], tuple[float, Array, list[Part]]], margin: float
    ) -> Part:
        """Largest variance of a difference, as estimated or nearer to a difference of the margin.

        `moments` gives, for coefficients, the difference, its gradient and the variances of what
        else it depends on.
        """

        def variance(g: Array, theta: Array, parts: list[Part]) -> Part:
            hessian = logistic_hessian(self._x, theta, self._penalty)
            of_fit = ratio * float(g @ np.linalg.solve(hessian, g))
            dof = np.inf if self._clusters is None else float(self._clusters.max())
            return total([*parts, (of_fit, dof)])

        gap, g, parts = moments(self.theta)
        ratio = 1.0
        if self._clusters is not None:
            ratio = inflation(
                self._x, self._residual, self._weight, self.hessian, self._clusters, g
            )
        found = variance(g, self.theta, parts)
        direction = np.linalg.solve(self.hessian, g)
        reach = float(g @ direction)
        # Towards coefficients with a difference of the margin, but no farther than is likely.
        if gap < margin and reach > _ROUNDING:
            step = min((margin - gap) / reach, _FAR * np.sqrt(ratio / reach))
            near = self.theta + direction * step
            _, g, parts = moments(near)
            found = max(found, variance(g, near, parts))
        return found if found[0] > _ROUNDING else (0.0, np.nan)

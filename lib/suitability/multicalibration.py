"""Multicalibration: estimates that are right within each of many groups, whatever they say there.

Pouget et al., Suitability Filter, ICML 2025, section 4.2, propose it where the user's data are a
subpopulation of the source: of a group that is known without labels, such as a region or a year.
"""

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lib.check import as_array, as_flags, as_integer, columns_of, matched, require_number, same_rows
from lib.suitability.noninferiority import as_sample
from lib.ties import ROUNDING, bin_index, first_largest, precision

Array = npt.NDArray[np.float64]


class Multicalibrator:
    """Correct estimates until their mean is right in each group, also at each level of estimates.

    A cell is a group, or the part of it whose present estimates lie in one of ``bins`` intervals
    of equal width; everybody is a group too. As long as a cell of at least ``least`` rows has a
    mean residual (correctness minus estimate) above ``tolerance`` in size, all estimates of the
    cell with the largest sum of residuals move by its mean residual, and are cut to [0, 1].

    Parameters
    ----------
    bins : int
        At least 1; with 1 only the mean of each group is corrected (multi-accuracy).
    tolerance : float
        In [0.001, 1). What holds after :meth:`fit` holds for the rows of the fit; for others it
        holds up to chance, which in a cell of n rows is about ``0.5 / sqrt(n)``.
    least : int
        Rows of the smallest cell that counts, at least 1.
    z : float
        In [0, 100]. Residuals of no more than so many standard errors, under the present
        estimates, count as chance; 0 is the published algorithm.

    Attributes
    ----------
    steps : list of (group, bin, shift)
        Corrections in their order; group 0 is everybody, group g column g - 1 of the fit, and bin
        ``bins`` a whole group.

    Notes
    -----
    A step lowers the mean squared error by at least ``least tolerance^2 / n``, so there are at most
    ``n / (least tolerance^2)`` of them.

    References
    ----------
    Hebert-Johnson et al., Multicalibration: Calibration for the (Computationally-Identifiable)
    Masses, ICML 2018, Algorithm 1, with means of the sample as its statistical queries.

    Examples
    --------
    >>> group = np.arange(400)[:, None] % 2 == 0  # where the estimate of 0.7 is too low
    >>> right = np.where(group[:, 0], np.arange(400) % 10 < 9, np.arange(400) % 10 < 5)
    >>> fitted = Multicalibrator().fit(np.full(400, 0.7), right, group)
    >>> bool(abs(fitted.predict([0.7], [[True]])[0] - right[::2].mean()) <= 0.02)
    True
    """

    steps: list[tuple[int, int, float]]

    def __init__(
        self, bins: int = 10, tolerance: float = 0.02, least: int = 100, z: float = 0.0
    ) -> None:
        self.bins, self.least = as_integer("bins", bins), as_integer("least", least)
        require_number("tolerance", tolerance, at_least=0.001, below=1)
        require_number("z", z, at_least=0, at_most=100)
        self.tolerance, self.z = float(tolerance), float(z)

    def fit(self, estimates: Any, correct: Any, groups: Any) -> Self:
        """Fit to labeled rows that the estimator has not seen.

        Parameters
        ----------
        estimates : array_like, shape (n,)
            Estimated correctness in [0, 1].
        correct : array_like of bool, shape (n,)
        groups : array_like of bool, shape (n, n_groups)
            Whether each row is in each group; groups may overlap.
        """
        same_rows(estimates=estimates, correct=correct, groups=groups)
        p, member = self._arrange(estimates, groups)
        within = precision(p, half=True)  # of what was given: corrections make it no better
        y, inside = as_flags("correct", correct, len(p)), member.astype(float)
        self._columns, self.steps = columns_of("groups", groups), []
        while True:
            levels = self._levels(p, within)
            one_hot = np.column_stack([levels[:, None] == np.arange(self.bins), np.ones(len(p))])
            count = inside.T @ one_hot
            excess = inside.T @ (one_hot * (y - p)[:, None])
            mean = np.divide(excess, count, out=np.zeros_like(excess), where=count > 0)
            wrong = (np.abs(mean) > self.tolerance + ROUNDING) & (count >= self.least)
            spread = inside.T @ (one_hot * (p * (1 - p))[:, None])
            wrong &= np.abs(excess) >= self.z * np.sqrt(spread)
            if not wrong.any():
                return self
            largest = first_largest((np.abs(excess) * wrong).ravel())
            group, level = np.unravel_index(largest, wrong.shape)
            self.steps.append((int(group), int(level), float(mean[group, level])))
            self._move(p, levels, member, self.steps[-1])

    def predict(self, estimates: Any, groups: Any) -> Array:
        """Corrected estimates, shape (n,), in [0, 1].

        Parameters
        ----------
        estimates : array_like, shape (n,)
            Of the same estimator.
        groups : array_like of bool, shape (n, n_groups)
            In the order of the fit; the columns of data frames are matched by name.
        """
        if not hasattr(self, "steps"):
            raise RuntimeError("the multicalibrator must be fitted before it can predict")
        same_rows(estimates=estimates, groups=groups)
        p, member = self._arrange(estimates, matched("groups", groups, self._columns))
        within = precision(p, half=True)
        for step in self.steps:
            self._move(p, self._levels(p, within), member, step)
        return p

    def _arrange(self, estimates: Any, groups: Any) -> tuple[Array, npt.NDArray[np.bool_]]:
        p = np.array(as_sample("estimates", estimates, 0, 1, 1))
        array = as_array("groups", groups)
        shape = array.shape
        if len(shape) != 2 or shape[0] != len(p):
            raise ValueError(f"groups must have shape ({len(p)}, n_groups), got {shape}")
        flat = as_flags("groups", array.ravel()) if shape[1] else np.empty(0, dtype=bool)
        return p, np.column_stack([np.ones(len(p), dtype=bool), flat.reshape(shape)])

    def _levels(self, p: Array, within: float) -> npt.NDArray[np.int64]:
        return bin_index(p, self.bins, closed="left", within=within)

    def _move(self, p: Array, levels: Any, member: Any, step: tuple[int, int, float]) -> None:
        group, level, shift = step
        cell = member[:, group] & ((levels == level) | (level == self.bins))
        p[cell] = np.clip(p[cell] + shift, 0.0, 1.0)

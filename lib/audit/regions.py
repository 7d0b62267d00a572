"""Privacy regions: which error rates a mechanism's distinguishers can have (P3, section 2.3)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lib.check import as_unit, check_delta, require_number


@dataclass(frozen=True)
class PrivacyRegion:
    """Pairs (FNR, FPR) that an (epsilon, delta)-private mechanism allows.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee.
    """

    epsilon: float
    delta: float

    def lower(self, fnr: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Smallest FPR at each FNR, in [0, 1]; P3's first two conditions."""
        x = as_unit("fnr", fnr)
        if self.epsilon == np.inf:
            return np.zeros_like(x)
        # An epsilon beyond 709 overflows to infinity, which is what the bound needs.
        with np.errstate(over="ignore", invalid="ignore"):
            grow, shrink = np.exp(self.epsilon), np.exp(-self.epsilon)
            steep = np.where(x == 0, 1 - self.delta, 1 - self.delta - grow * x)
        return np.maximum.reduce([(1 - self.delta - x) * shrink, steep, np.zeros_like(x)])

    def upper(self, fnr: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Largest FPR at each FNR: the mirror image, 1 - lower(1 - FNR)."""
        return 1 - self.lower(1 - as_unit("fnr", fnr))

    def contains(self, fpr: npt.ArrayLike, fnr: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether the rates lie within, boundary included."""
        y, x = as_unit("fpr", fpr), as_unit("fnr", fnr)
        return (self.lower(x) <= y) & (self.lower(1 - x) <= 1 - y)


def privacy_region(epsilon: float, delta: float) -> PrivacyRegion:
    """The region of error rates that (epsilon, delta) allows.

    Parameters
    ----------
    epsilon : float
        At least 0; infinity is the unit square.
    delta : float
        In [0, 1).

    Returns
    -------
    PrivacyRegion

    References
    ----------
    P3, Theorem 2.2 (Kairouz, Oh and Viswanath 2017) and Figure 2.

    Examples
    --------
    >>> region = privacy_region(epsilon=1.0, delta=1e-5)
    >>> bool(region.contains(fpr=0.25, fnr=0.35)), bool(region.contains(fpr=0.05, fnr=0.2))
    (True, False)
    """
    require_number("epsilon", epsilon, at_least=0)
    return PrivacyRegion(float(epsilon), check_delta(delta))


def epsilon_point(fpr: npt.ArrayLike, fnr: npt.ArrayLike, delta: float) -> npt.NDArray[np.float64]:
    """Smallest epsilon whose privacy region holds the error rates.

    Parameters
    ----------
    fpr, fnr : array_like of float
        Error rates, in [0, 1].
    delta : float
        In [0, 1).

    Returns
    -------
    ndarray of float64
        At least 0, possibly infinite; of the broadcast shape.

    Notes
    -----
    The largest of 0 and the logarithms of (1 - delta - FPR) / FNR and (1 - delta - FNR) / FPR, and
    of the same with both rates replaced by one minus them, for attacks worse than chance.  A
    logarithm counts where its numerator is positive; its denominator may be 0.

    References
    ----------
    P3, Eq. 1.

    Examples
    --------
    >>> round(float(epsilon_point(fpr=0.05, fnr=0.2, delta=1e-5)), 3)
    2.773
    """
    delta = check_delta(delta)
    y, x = np.broadcast_arrays(as_unit("fpr", fpr), as_unit("fnr", fnr))
    found = np.zeros(x.shape)
    for a, b in ((y, x), (x, y), (1 - y, 1 - x), (1 - x, 1 - y)):
        top = 1 - delta - a
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(top > 0, np.log(np.maximum(top, 0)) - np.log(b), -np.inf)
        found = np.maximum(found, value)
    return found

"""Suitability signals: twelve numbers a sample, computed from its logits, and the user's own."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib.check import as_array, as_matrix, require_choice

#: The twelve signals, in the order of the authors' published tables.
SIGNAL_NAMES = (
    "conf_max",
    "conf_std",
    "conf_entropy",
    "logit_mean",
    "logit_max",
    "logit_std",
    "logit_diff_top2",
    "loss",
    "margin_loss",
    "conf_ratio",
    "top_k_conf_sum",
    "energy",
)

_EPSILON = 1e-10  # epsilon_0 of the paper's formulas: keeps logarithms and ratios finite
_LARGEST = 1e150  # beyond, the variance of the logits overflows
_BITS = (24, 11, 8)  # significant ones of float32, float16 and bfloat16
_EQUAL = 64 * np.finfo(float).eps  # relative: the deviation that is left of equal numbers
_SUM_TO_ONE = 1e-6  # as do probabilities of single precision

Compute = Callable[..., Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Registered:
    compute: Compute
    needed: tuple[str, ...]
    optional: tuple[str, ...]


_REGISTERED: dict[str, _Registered] = {}


def register_signal(
    name: str | Compute | None = None, *, replace: bool = False
) -> Compute | Callable[[Compute], Compute]:
    """Register a function as a signal of one's own: ``@register_signal`` above its definition.

    The function is called as ``f(logits, **inputs)`` with the logits as a read-only array of
    shape (n, k). Its other parameters name what it needs besides, which the caller of
    :func:`signals` gives by these names; those with a default may be left out. It returns one
    finite number per row.

    A signal is a function of one row: its value for a row must not depend on which other rows
    are there (no ranks, no standardization within the batch), or test and user data would be
    measured by different yardsticks. This cannot be checked here.

    Parameters
    ----------
    name : str, optional
        The column's name, an identifier; that of the function by default.
    replace : bool
        Whether a signal registered before may be replaced, as when a notebook cell is run again.
        The twelve of :data:`SIGNAL_NAMES` cannot be.

    Returns
    -------
    callable
        The function, unchanged; or the decorator, if called with arguments.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, section 4.1: the signals are a choice.

    Examples
    --------
    >>> import numpy as np
    >>> @register_signal(replace=True)
    ... def runner_up_gap(logits, temperature=1.0):
    ...     top = np.sort(logits / temperature, axis=1)
    ...     return top[:, -2] - top[:, -3]
    >>> table = signals([[3.0, 1.0, 0.0]], extra=["runner_up_gap"], temperature=2.0)
    >>> table.shape, float(table.loc[0, "runner_up_gap"])
    ((1, 13), 0.5)
    """
    require_choice("replace", replace, (False, True))
    if callable(name):
        return _register(name, None, replace)
    if name is not None:
        _check_name(name, replace)
    return lambda function: _register(function, name, replace)


def _check_name(name: Any, replace: bool) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"name must be an identifier, got {name!r}")
    if name in SIGNAL_NAMES:
        raise ValueError(f"name must not be one of the twelve signals, got {name!r}")
    if name in _REGISTERED and not replace:
        raise ValueError(f"name must be free, got {name!r}; pass replace=True to replace it")


def _register(function: Any, name: Any, replace: bool) -> Compute:
    if not callable(function) or isinstance(function, type):
        raise ValueError(f"register_signal must be given a function, got {function!r}")
    name = getattr(function, "__name__", None) if name is None else name
    _check_name(name, replace)
    parameters = list(inspect.signature(function).parameters.values())
    others, either = parameters[1:], inspect.Parameter.POSITIONAL_OR_KEYWORD
    first = (inspect.Parameter.POSITIONAL_ONLY, either)
    named = (inspect.Parameter.KEYWORD_ONLY, either)
    if (
        not parameters
        or parameters[0].kind not in first
        or any(p.kind not in named for p in others)
    ):
        raise ValueError(
            f"{name} must take the logits first and other inputs by name, "
            f"got {name}{inspect.signature(function)}"
        )
    if reserved := [p.name for p in others if p.name in ("logits", "extra")]:
        raise ValueError(f"{name} must not call an input {reserved[0]!r}, which signals() takes")
    needed = tuple(p.name for p in others if p.default is p.empty)
    optional = tuple(p.name for p in others if p.default is not p.empty)
    _REGISTERED[name] = _Registered(function, needed, optional)
    return function


def _known(argument: str, name: Any) -> _Registered:
    if not isinstance(name, str) or name not in _REGISTERED:
        names = ", ".join(_REGISTERED) or "none so far"
        raise ValueError(f"{argument} must name registered signals ({names}), got {name!r}")
    return _REGISTERED[name]


def check_extra(extra: Any, inputs: Any) -> dict[str, _Registered]:
    """Return the signals that ``extra`` names, after a check that ``inputs`` are what they take."""
    if isinstance(extra, str) or not isinstance(extra, Iterable):
        raise ValueError(f"extra must be a sequence of names, got {extra!r}")
    names = list(extra)
    chosen = {name: _known("extra", name) for name in names}
    if len(chosen) < len(names):
        raise ValueError(f"extra must name each signal once, got {names}")
    accepted = {i for s in chosen.values() for i in (*s.needed, *s.optional)}
    if unknown := [i for i in inputs if i not in accepted]:
        taken = ", ".join(sorted(accepted)) or "none"
        raise ValueError(f"inputs must be those of the extra signals ({taken}), got {unknown[0]!r}")
    for name, signal in chosen.items():
        if missing := [i for i in signal.needed if i not in inputs]:
            raise ValueError(f"the signal {name} must be given {', '.join(missing)}, got nothing")
    return chosen


def _column(name: str, values: Any, n: int) -> npt.NDArray[np.float64]:
    values = as_array(name, values)
    if values.dtype.kind not in "fiub" or values.shape != (n,):
        raise ValueError(
            f"the signal {name} must return real numbers of shape ({n},), one per row, got "
            f"{values.dtype} of shape {values.shape}"
        )
    values = values.astype(float)
    if not (finite := np.isfinite(values)).all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"the signal {name} must return finite numbers, got {values[row]} in row {row} "
            f"({int((~finite).sum())} such rows)"
        )
    return values


def _rounding(z: Floats) -> tuple[Floats, Floats]:
    """How far rounding goes in each row: of its numbers, and of sums with which they were made.

    Relative to their size.  By the numbers and not by their type, so that numbers of half or single
    precision are taken for what they are in whatever type they come: the first is half a unit in
    the last place of the coarsest floats that hold all numbers of the row, the second 100 units of
    single or double precision, in which a network adds.
    """
    mantissa = np.frexp(z)[0]
    unit = np.full(len(z), 2.0**-53)
    for bits in _BITS:
        rows = np.flatnonzero(unit == unit.max())
        scaled = np.ldexp(mantissa[rows], bits)
        exact = (scaled == np.rint(scaled)).all(axis=1)
        unit[rows[exact]] = 2.0**-bits
        if not exact.any():
            break
    return unit, np.where(unit > 2.0**-53, 100 * 2.0**-23, 100 * 2.0**-52)


def _twelve(z: Floats) -> dict[str, Floats]:
    """The twelve signals by their names."""
    n, k = z.shape
    own, sums = _rounding(z)
    size, rows, first = np.abs(z), np.arange(n), z.argmax(axis=1)
    z_top = -np.partition(-z, (0, 1), axis=1)[:, :2]
    # Relative to the largest: what is left of 1 beside p_1 is kept where p_1 itself rounds to 1.
    p = np.exp(z - z_top[:, :1])
    p[rows, first] = 0.0
    rest = p.sum(axis=1)
    loss = np.log1p(rest)
    p1 = np.exp(-loss)
    p *= p1[:, None]
    log_p1 = np.log1p(_EPSILON - rest * p1)  # of p_1 + epsilon_0
    entropy = -(p * np.log(p + _EPSILON)).sum(axis=1) - p1 * log_p1
    p[rows, first] = p1
    top = max(k // 10, 1)
    largest = -np.partition(-p, range(min(max(top, 2), k)), axis=1)[:, : max(top, 2)]
    p2, mean, energy = largest[:, 1], z.mean(axis=1), -z_top[:, 0] - loss
    limits = {
        "logit_mean": np.maximum(own * size.mean(axis=1), sums * size.max(axis=1)),
        "energy": np.maximum(own * (p * size).sum(axis=1), _SUM_TO_ONE),
        "conf_std": _EQUAL * p1,
        "logit_std": _EQUAL * size.max(axis=1),
    }
    columns = {
        "conf_max": p1,
        "conf_std": p.std(axis=1, ddof=1),
        "conf_entropy": entropy,
        "logit_mean": mean,
        "logit_max": z_top[:, 0],
        "logit_std": z.std(axis=1, ddof=1),
        "logit_diff_top2": z_top[:, 0] - z_top[:, 1],
        "loss": loss,
        "margin_loss": np.log(p2 + _EPSILON) - log_p1,
        "conf_ratio": p1 / (p2 + _EPSILON),
        "top_k_conf_sum": largest[:, :top].sum(axis=1),
        "energy": energy,
    }
    for name, limit in limits.items():
        columns[name] = np.where(np.abs(columns[name]) <= limit, 0.0, columns[name])
    return columns


def signals(logits: Any, extra: Iterable[str] = (), **inputs: Any) -> pd.DataFrame:
    """Compute the twelve suitability signals, and registered ones after them.

    With logits z of k classes, p = softmax(z), and both sorted from the largest:

    ==================  ==========================================================
    conf_max            p_1
    conf_std            sample standard deviation of p
    conf_entropy        -sum p log(p + 1e-10)
    logit_mean          mean of z
    logit_max           z_1
    logit_std           sample standard deviation of z
    logit_diff_top2     z_1 - z_2
    loss                -log p_1, the cross-entropy of the predicted class
    margin_loss         -log(p_1 + 1e-10) + log(p_2 + 1e-10), never positive
    conf_ratio          p_1 / (p_2 + 1e-10)
    top_k_conf_sum      sum of the largest floor(k / 10) of p, at least one of them
    energy              -log sum exp(z)
    ==================  ==========================================================

    Parameters
    ----------
    logits : array_like, shape (n, k)
        Real, at most 1e150 in size, k >= 2. Computed in double precision whatever the input, after
        casting up.
    extra : iterable of str
        Signals registered with :func:`register_signal`, whose columns follow in this order.
    **inputs
        What these signals need besides the logits, handed on as given.

    Returns
    -------
    pandas.DataFrame
        n rows and the columns :data:`SIGNAL_NAMES`, then ``extra``; the index of a data frame is
        kept.

    Notes
    -----
    A linear head with an L2 penalty has logits that sum to zero: their computed mean is rounding
    error, which a standardization would blow up to a signal like any other.  A mean is therefore
    given as 0 where rounding explains it: within 100 machine epsilons times the largest logit (of
    single precision if its numbers hold the row, else of double), or within half a unit in the last
    place times the mean size, for rows that half precision or bfloat16 holds.  For the same reason
    the energy of logarithms of probabilities is 0: where exp(z) sums to 1 within 1e-6, or within
    what the row's own precision makes of it; and the deviations of equal numbers are 0.

    All hangs on the numbers of a row, not on their type: the same numbers in half, single or double
    precision have the same signals.  Logarithms are taken of what is left of 1, so that loss,
    entropy and margin tell rows apart whose p_1 rounds to 1.

    Raises
    ------
    ValueError
        If a name in ``extra`` is unknown or repeated, an input is missing or asked for by none of
        them, or a registered signal returns anything but n finite numbers.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, section 5.2 and appendix A.2.1.

    Examples
    --------
    >>> signals([[2.0, 0.0, 0.0]]).loc[0, "logit_diff_top2"]
    np.float64(2.0)
    """
    chosen = check_extra(extra, inputs)
    z = as_matrix("logits", logits)
    k = z.shape[1]
    if k < 2:
        raise ValueError(f"logits must have at least 2 columns, one per class, got {k}")
    if (largest_z := np.abs(z).max()) > _LARGEST:
        raise ValueError(f"logits must be at most {_LARGEST:g} in size, got {largest_z:g}")
    columns = _twelve(z)
    shown = z.view()
    shown.flags.writeable = False  # it may be the caller's own array
    for name, signal in chosen.items():
        accepted = (*signal.needed, *signal.optional)
        values = signal.compute(shown, **{i: inputs[i] for i in accepted if i in inputs})
        columns[name] = _column(name, values, len(z))
    index = logits.index if isinstance(logits, pd.DataFrame) else None
    return pd.DataFrame(columns, index=index)[[*SIGNAL_NAMES, *chosen]]

"""How far this package is from other software: what a check returns, and the table of all."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

__all__ = ["CHECKS", "Agreement", "agreement", "check", "table"]


@dataclass(frozen=True)
class Agreement:
    """One quantity, computed here and by something else.

    Infinitely far apart where one of the two is NaN, or only one is infinite.
    """

    quantity: str
    software: str
    cases: int
    worst: float
    tolerance: float
    unit: str

    @property
    def holds(self) -> bool:
        """Whether the two agree."""
        return self.cases > 0 and self.worst <= self.tolerance


def agreement(
    quantity: str,
    software: str,
    ours: Any,
    theirs: Any,
    tolerance: float,
    unit: str = "absolute",
    errors: Any = 1.0,
) -> Agreement:
    """Compare numbers of the same shape; `errors` divides if the unit is the standard error."""
    a, b = np.asarray(ours, dtype=float).ravel(), np.asarray(theirs, dtype=float).ravel()
    assert a.shape == b.shape, (quantity, a.shape, b.shape)
    with np.errstate(invalid="ignore"):
        off = np.where(a == b, 0.0, np.abs(a - b))
    if unit == "relative":
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.where(off == 0, 0.0, off / np.abs(b))
    elif unit == "standard errors":
        off = off / errors
    off = np.where(np.isnan(off), math.inf, off)
    worst = float(off.max()) if len(off) else math.inf
    return Agreement(quantity, software, len(a), worst, tolerance, unit)


#: Checks by name, in order of definition; each is computed once a process.
CHECKS: dict[str, Callable[[], list[Agreement]]] = {}


def check(function: Callable[[], Iterable[Agreement]]) -> Callable[[], list[Agreement]]:
    """Register a generator of agreements."""
    CHECKS[function.__name__] = cache(lambda: list(function()))
    return CHECKS[function.__name__]


def table(rows: Iterable[Agreement]) -> str:
    """One line an agreement."""
    head = ("quantity", "against", "cases", "worst", "allowed", "unit")
    body = [
        (r.quantity, r.software, str(r.cases), f"{r.worst:.2g}", f"{r.tolerance:.2g}", r.unit)
        for r in rows
    ]
    widths = [max(len(line[i]) for line in (head, *body)) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *body)
    )

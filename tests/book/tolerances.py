"""Compares what a page printed with what is expected: text exactly, numbers within a tolerance.

A number may differ by half a unit of its last printed digit (of the coarser of both prints) and by
what moves the value that was printed: rounding, 1e-6 of it, on every processor; a training, its
standard error over seeds, as ``tests/expected/tolerances.yml`` says by chapter and name. Numbers
without a decimal point or exponent are counts: equal, unless a tolerance is named. Two prints with
equal digits must so be the same below seven significant digits; an expected number with more
digits than the page prints is compared by value.
"""

import fnmatch
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import yaml

FILE = Path(__file__).parents[1] / "expected" / "tolerances.yml"
RELATIVE, FLOOR = 1e-6, 1e-12  # what rounding moves; sums that cancel leave no more than FLOOR
# Digits that touch a letter or a hyphenated name (P3, CIFAR-10, fmow_10) are text.
_NUMBER = re.compile(
    r"(?<![\w.])(?<!\w-)[-+\u2212]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w)"
)


class Tolerance(NamedTuple):
    """How far two values of one number may lie apart: the larger of both, and why."""

    absolute: float = 0.0
    relative: float = 0.0
    because: str = ""


class Number(NamedTuple):
    """A printed number: its text, value, and the unit of its last digit (0 for counts)."""

    text: str
    value: float
    unit: float


def number(text: str) -> Number:
    plain = text.replace(",", "").replace("\u2212", "-")
    mantissa, _, power = plain.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    count = decimals == 0 and not power
    unit = 0.0 if count else 10.0 ** (int(power or 0) - decimals)
    return Number(text, float(plain), unit)


def split(line: str) -> tuple[list[str], list[Number]]:
    """The texts around the numbers of a line, with runs of blanks as one, and the numbers."""
    texts = [" ".join(part.split()) for part in _NUMBER.split(line)]
    return texts, [number(found) for found in _NUMBER.findall(line)]


def agree(expected: Number, found: Number, tolerance: Tolerance | None = None) -> bool:
    """Whether two prints can be of the same number."""
    apart = abs(expected.value - found.value)
    unit = max(expected.unit, found.unit)
    allowed = unit / 2
    if unit:
        allowed += max(RELATIVE * max(abs(expected.value), abs(found.value)), FLOOR)
    if tolerance is not None:
        allowed += max(tolerance.absolute, tolerance.relative * abs(expected.value))
    return apart <= allowed * (1 + 1e-9)


def tolerances(chapter: str, file: Path = FILE) -> dict[str, Tolerance]:
    """The tolerances of a chapter: pattern of ``cell/label`` to tolerance."""
    if not file.exists():
        return {}
    found = (yaml.safe_load(file.read_text(encoding="utf-8")) or {}).get(chapter, {})
    made = {pattern: Tolerance(**entry) for pattern, entry in found.items()}
    for pattern, one in made.items():
        if not one.because or min(one[:2]) < 0 or max(one[:2]) <= 0:
            raise ValueError(f"{file}: {chapter}: {pattern}: needs a tolerance and because")
    return made


def differences(
    expected: str, found: str, allowed: Mapping[str, Tolerance] | None = None, cell: str = "numbers"
) -> list[str]:
    """What differs between two texts, one sentence a line; empty if they agree.

    `allowed` has the tolerances that a name or row has beyond rounding: by patterns (as of file
    names) of ``cell/label``, where the label is the line's text before its first number or ``=``.
    """
    old, new = expected.rstrip().splitlines(), found.rstrip().splitlines()
    said = [] if len(old) == len(new) else [f"{len(new)} lines, expected {len(old)}"]
    for place, (first, second) in enumerate(zip(old, new, strict=False), 1):
        (texts, numbers), (other_texts, others) = split(first), split(second)
        label = first.partition("=")[0].strip() if "=" in first else texts[0]
        tolerance = next(
            (t for p, t in (allowed or {}).items() if fnmatch.fnmatchcase(f"{cell}/{label}", p)),
            None,
        )
        same = texts == other_texts and all(
            agree(one, other, tolerance) for one, other in zip(numbers, others, strict=True)
        )
        if not same:
            said.append(f"line {place}: {second.strip()!r}, expected {first.strip()!r}")
    return said

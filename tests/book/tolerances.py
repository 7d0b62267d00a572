"""Compares what a page printed with what is expected: text exactly, numbers within a tolerance.

A number may differ by half a unit of its last printed digit (of the coarser of both prints) and by
what moves the value that was printed: rounding, 1e-6 of it, on every processor; a training, its
standard error over seeds, as ``tests/expected/tolerances.yml`` says by chapter and name. Numbers
without a decimal point or exponent are counts: equal, unless a tolerance is named. Two prints with
equal digits must so be the same below seven significant digits; an expected number with more
digits than the page prints is compared by value.
"""

import csv
import fnmatch
import functools
import io
import itertools
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


@functools.cache
def named_tolerances() -> dict[str, dict[str, Tolerance]]:
    """The file, by chapter: pattern of ``cell/label`` to tolerance."""
    found = yaml.load(FILE.read_text(encoding="utf-8"), yaml.CSafeLoader) or {}
    for chapter, named in found.items():
        for pattern, entry in named.items():
            one = named[pattern] = Tolerance(**entry)
            if not one.because or min(one[:2]) < 0 or max(one[:2]) <= 0:
                raise ValueError(f"{FILE}: {chapter}: {pattern}: needs a tolerance and because")
    return found


def tolerances(chapter: str) -> Mapping[str, Tolerance]:
    """The tolerances of a chapter."""
    return named_tolerances().get(chapter, {})


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
        label = (first.partition("=")[0] if "=" in first else split(first)[0][0]).strip()
        if not alike(first, second, allowed, f"{cell}/{label}"):
            said.append(f"line {place}: {second.strip()!r}, expected {first.strip()!r}")
    return said


def table_differences(
    expected: str, found: str, allowed: Mapping[str, Tolerance] | None = None, table: str = "table"
) -> list[str]:
    """The same for tables as CSV; patterns of tolerances are ``table/column``.

    Of rows whose first entry, or first three, are those of the pattern: ``table@entry/column``.
    """
    (head, *old), (other, *new) = (list(csv.reader(io.StringIO(t))) for t in (expected, found))
    if head != other or len(old) != len(new):
        return [f"{len(new)} rows of {other}, expected {len(old)} of {head}"]
    return [
        f"row {place}, {column}: {second!r}, expected {first!r}"
        for place, rows in enumerate(zip(old, new, strict=True), 1)
        for column, first, second in zip(head, *rows, strict=True)
        if not alike(
            first, second, allowed, *(f"{table}{row}/{column}" for row in ("", *of_row(rows[0])))
        )
    ]


def of_row(row: list[str]) -> tuple[str, str]:
    """How patterns call the rows that begin like this one."""
    return f"@{row[0]}", f"@{','.join(row[:3])}"


def named(allowed: Mapping[str, Tolerance] | None, *names: str) -> Tolerance | None:
    """The tolerance of the first pattern that fits one of the names."""
    fits = fnmatch.fnmatchcase
    return next((t for p, t in (allowed or {}).items() if any(fits(n, p) for n in names)), None)


def alike(expected: str, found: str, allowed: Mapping[str, Tolerance] | None, *names: str) -> bool:
    """Whether two texts are the same, if need be within the tolerance of one of the names."""
    if expected == found or same(expected, found):
        return True
    tolerance = named(allowed, *names)
    return tolerance is not None and same(expected, found, tolerance)


def same(expected: str, found: str, tolerance: Tolerance | None = None) -> bool:
    """Whether two texts are the same around their numbers, and these agree."""
    if tolerance is not None and tolerance.relative == float("inf"):
        return True  # durations, and which was shortest
    (texts, numbers), (others, values) = split(expected), split(found)
    return texts == others and all(
        agree(one, other, tolerance) for one, other in zip(numbers, values, strict=True)
    )


def changed(
    text: str, allowed: Mapping[str, Tolerance] | None = None, cell: str = "numbers"
) -> str:
    """A text with one number changed by more than its tolerance; empty if it has none."""
    lines = text.splitlines()
    for place, found in itertools.product(range(len(lines)), range(99)):
        numbers = list(_NUMBER.finditer(lines[place]))
        if found >= len(numbers) or not number(numbers[found][0]).unit:
            continue
        start, end = numbers[found].span()
        other = f"{number(numbers[found][0]).value * 1.5 + 1:.6f}"
        new = "\n".join([*lines[:place], lines[place][:start] + other + lines[place][end:],
                         *lines[place + 1:]])  # fmt: skip
        difference = differences if cell == "numbers" else table_differences
        if difference(text, new, allowed, cell):
            return new
    return ""

"""Text that others wrote, made harmless: names to show, cells of a table, YAML."""

import functools
import math
import re
import unicodedata
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import yaml

#: Unicode's categories of what moves the cursor, turns the direction of text or is not seen.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_JOINERS = "\u200c\u200d"  # of those what scripts and emoji need
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet executes
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]inf")
_SHORT = 100  # characters of a text that a message quotes

#: Of one YAML file: how deep it may be nested, and how long it may be once its aliases are copied.
DEEPEST, MOST_TEXT = 50, 4_000_000
#: How long one number may be, and how many names one mapping may have, which may share a hash:
#: reading takes the square of either.
LONGEST_NUMBER, MOST_NAMES = 100, 10_000
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_EACH = 16  # what a value counts beside its characters


def printable(text: Any) -> str:
    """Text in which what would not be seen, or would steer a terminal, is written as an escape."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode()
        if unicodedata.category(c) in _HIDDEN and c not in _JOINERS
        else c
        for c in text
    )


def short(text: Any) -> str:
    """Text of a file in one line of a message."""
    text = printable(" ".join(str(text)[: 4 * _SHORT].split()))
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}..."


@contextmanager
def printable_errors() -> Iterator[None]:
    """Have errors quote names of files, arrays and columns so that they can be shown."""
    try:
        yield
    except (ValueError, TypeError, FileNotFoundError) as error:
        if (said := str(error)) == printable(said):
            raise
        kind = type(error) if type(error).__init__ is Exception.__init__ else None
        kind = kind or next(
            k for k in (FileNotFoundError, TypeError, ValueError) if isinstance(error, k)
        )
        raise kind(printable(said)) from None


def csv_text(table: Any) -> str:
    """A data frame as CSV whose texts no spreadsheet takes for formulas: these follow a ``'``."""
    safe = table.apply(lambda column: column.map(_cell) if column.dtype.kind == "O" else column)
    return safe.rename(columns=_cell).to_csv(index=False, lineterminator="\n")


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


# ------------------------------------------------------------------------------------------- YAML


class _Strict:
    """For a loader of PyYAML: a name once, values nested and repeated within bounds."""

    def __init__(self, stream: Any):
        super().__init__(stream)
        self._depth, self._lengths = 0, {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        mark, alias = event.start_mark, isinstance(event, yaml.AliasEvent)
        self._depth += 1
        if self._depth > DEEPEST:
            raise yaml.MarkedYAMLError(None, None, f"values nested more than {DEEPEST} deep", mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if not alias:
            self._lengths[id(node)] = self._length(node, mark)
        elif id(node) not in self._lengths:  # it is not at its end yet
            raise yaml.MarkedYAMLError(None, None, "a value that contains itself", mark)
        return node

    def fetch_flow_collection_start(self, token: Any) -> None:
        if self.flow_level >= DEEPEST:  # before the scanner looks for their ends
            found = f"values nested more than {DEEPEST} deep"
            raise yaml.MarkedYAMLError(None, None, found, self.get_mark())
        super().fetch_flow_collection_start(token)

    def _length(self, node: Any, mark: Any) -> int:
        """Characters and values once every alias is copied; those of its parts are known."""
        if isinstance(node, yaml.ScalarNode):
            if node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
                found = f"a number of more than {LONGEST_NUMBER} characters"
                raise yaml.MarkedYAMLError(None, None, found, mark)
            return _EACH + len(node.value)
        parts = node.value
        if isinstance(node, yaml.MappingNode):
            self._count(node)
            parts = [one for pair in parts for one in pair]
        length = _EACH + sum(self._lengths[id(part)] for part in parts)
        if length > MOST_TEXT:
            found = f"more than {MOST_TEXT:,} characters once its aliases are copied"
            raise yaml.MarkedYAMLError(None, None, found, mark)
        return length

    def _count(self, node: Any) -> None:
        if len(node.value) > MOST_NAMES:
            found = f"more than {MOST_NAMES:,} names in one mapping"
            raise yaml.MarkedYAMLError(None, None, found, node.start_mark)

    def flatten_mapping(self, node: Any) -> None:
        super().flatten_mapping(node)
        self._count(node)  # with those of merged ones

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            return super().construct_object(node, deep)
        try:
            found = super().construct_object(node, deep)
            if found not in (math.inf, -math.inf) or "inf" in node.value.lower():
                return found
        except (ArithmeticError, AttributeError, LookupError, ValueError):
            pass  # the readers of PyYAML expect what their own patterns match
        what = f"{short(repr(node.value))} cannot be read as {node.tag.rpartition(':')[2]}"
        raise yaml.MarkedYAMLError(None, None, what, node.start_mark)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[Hashable] = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable):
                if key in seen:
                    found = f"the name {short(repr(key))} a second time"
                    raise yaml.MarkedYAMLError(None, None, found, key_node.start_mark)
                seen.add(key)
        return super().construct_mapping(node, deep)


class _Loader(_Strict, yaml.SafeLoader):
    """Of plain values."""


@functools.cache
def strict(loader: type) -> type:
    """A loader of PyYAML with the same bounds."""
    return type(f"Strict{loader.__name__}", (_Strict, loader), {})


def read_yaml(text: str) -> Any:
    """Plain values of a YAML text.

    Raises
    ------
    ValueError
        In one line, with the place in the text: if it is no YAML, names anything but plain values,
        has a name twice in one mapping, or more than 10,000 names there, has a number of more than
        100 characters or beyond the range of numbers, is nested more than 50 deep, or is longer
        than 4 million characters once its aliases are copied.
    """
    if len(text) > MOST_TEXT:
        raise ValueError(f"more than {MOST_TEXT:,} characters")
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - derived from the safe one
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ValueError(short(getattr(error, "problem", None) or error) + place) from None

"""Parameters of a chapter: declared once, in its parameters cell.

The cell is papermill's own form, so that ``papermill --help-notebook`` prints it::

    # %% tags=["parameters"]
    margin: float = 0.0  # (-1, 1) largest acceptable drop in accuracy
    seeds: list[int] = [0, 1, 2]  # {0, 1, 2} models to evaluate
    method: str = "exact"  # {exact, approximate} how it is computed

Every line states name, type, default, allowed values and meaning. Allowed values
are an interval (round brackets exclude the end), a set, or the word ``any``; for a
list they hold for each element, and no element comes twice, unless the meaning says "one for each".
``own`` in a set stands for the name of any ``<name>.npz`` in ``COMPANION_DATA``.
"""

import ast
import difflib
import io
import math
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lib.data.store import has_own
from lib.data.untrusted import short

OWN = "own"
_TYPES = {"int": int, "float": float, "bool": bool, "str": str}
_KINDS = (*_TYPES, "list[int]", "list[float]", "list[str]")
_DECLARATION = re.compile(r"(?P<allowed>[\[(][^\])]*[\])]|\{[^}]*\}|any)\s+(?P<meaning>\S.*)")


class ParameterError(ValueError):
    """A parameter is unknown, of the wrong type or out of range."""

    def _render_traceback_(self) -> list[str]:
        # IPython's hook: the message says it all, frames inside lib would bury it.
        return [f"{type(self).__name__}: {self}"]


@dataclass(frozen=True)
class Parameter:
    """One declared parameter of a chapter: its default is used where nothing else is given."""

    name: str
    kind: str  # int, float, bool, str or a list of one of them
    default: Any
    allowed: str  # as written: an interval, a set, or "any"
    meaning: str

    def check(self, value: Any) -> Any:
        """Return ``value`` if it is allowed (an int where a float is asked becomes one)."""
        if not self.kind.startswith("list["):
            return self._check_one(value)
        if not isinstance(value, (list, tuple)) or not value:
            raise self._error(value)
        checked = [self._check_one(item, whole=value) for item in value]
        if len(set(checked)) < len(checked) and "one for each" not in self.meaning:
            raise self._error(value, ", without repetition")
        return checked

    def _check_one(self, value: Any, whole: Any = None) -> Any:
        kind = self.kind.removeprefix("list[").removesuffix("]")
        try:
            widened = float(value) if kind == "float" and type(value) is int else value
        except OverflowError:  # an integer beyond any float
            widened = None
        if type(widened) is not _TYPES[kind] or not self._in_range(widened):
            raise self._error(value if whole is None else whole)
        return widened

    def _in_range(self, value: Any) -> bool:
        if self.allowed == "any":
            return not (isinstance(value, float) and math.isnan(value))
        if self.allowed.startswith("{"):
            members = _members(self.allowed)
            return str(value) in members or (OWN in members and has_own(str(value)))
        low, high = _ends(self.allowed)
        above = value >= low if self.allowed[0] == "[" else value > low
        below = value <= high if self.allowed[-1] == "]" else value < high
        return above and below

    def _error(self, value: Any, extra: str = "") -> ParameterError:
        kind = self.kind
        if kind.startswith("list["):
            kind = f"non-empty list of {kind[5:-1]} values, each"
        what = "of any value" if self.allowed == "any" else f"in {self.allowed}"
        items = value if isinstance(value, (list, tuple)) else [value]
        if self.kind.removeprefix("list[").startswith("float") and any(map(_is_power, items)):
            extra += "; YAML takes 1e-3 for text: write 1.0e-3"
        return ParameterError(
            f"parameter {self.name} = {_shown(value)} is not allowed: it must be a {kind} {what}"
            f"{extra} ({self.meaning})"
        )


def _is_power(value: Any) -> bool:
    """Whether a text is a number to people and programs, and none to YAML."""
    return isinstance(value, str) and re.fullmatch(r"[-+]?\d+[eE][-+]?\d+", value) is not None


def _shown(value: Any) -> str:
    """A value in one line of a message."""
    try:
        return short(repr(value))
    except ValueError:  # an integer of thousands of digits
        return f"a number of {value.bit_length():,} bits"


def _members(allowed: str) -> list[str]:
    return [member.strip() for member in allowed[1:-1].split(",")]


def _ends(allowed: str) -> tuple[float, float]:
    low, high = (float(end) for end in allowed[1:-1].split(","))
    return low, high


def parse_parameters(source: str) -> tuple[Parameter, ...]:
    """Read the declarations in a parameters cell."""
    comments = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    found: dict[str, Parameter] = {}
    for node in ast.parse(source).body:
        parameter = _declaration(node, comments)
        if parameter.name in found:
            raise ParameterError(f"parameter {parameter.name} is declared twice")
        parameter.check(parameter.default)
        found[parameter.name] = parameter
    return tuple(found.values())


def _declaration(node: ast.stmt, comments: Mapping[int, str]) -> Parameter:
    line = f"line {node.lineno} of the parameters cell, `{ast.unparse(node)}`,"
    if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
        raise ParameterError(f"{line} is not of the form `name: type = value  # range meaning`")
    name, kind = node.target.id, ast.unparse(node.annotation)
    if kind not in _KINDS:
        raise ParameterError(f"{line} has the type {kind}; allowed are {', '.join(_KINDS)}")
    try:
        default = ast.literal_eval(node.value) if node.value is not None else None
    except ValueError:
        raise ParameterError(f"{line} has a default that is not a literal") from None
    match = _DECLARATION.fullmatch(comments.get(node.end_lineno or node.lineno, ""))
    if match is None:
        raise ParameterError(
            f"{line} needs a comment that states its range and meaning: `# [0, 1] fraction of x`"
        )
    allowed = match["allowed"]
    if allowed[0] in "[(":
        try:
            _ends(allowed)
        except ValueError:
            raise ParameterError(f"{line} has the malformed interval {allowed}") from None
    return Parameter(name, kind, default, allowed, match["meaning"])


def validate_parameters(
    declared: tuple[Parameter, ...], given: Mapping[str, Any]
) -> dict[str, Any]:
    """All parameters in effect: the given ones checked, the others at their defaults."""
    names = [parameter.name for parameter in declared]
    for name in given:
        if name not in names:
            name, value = short(name), given[name]
            close = difflib.get_close_matches(str(name), names, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ParameterError(
                f"unknown parameter {name} = {_shown(value)}{hint} "
                f"(allowed: {', '.join(names) or 'none'})"
            )
    return {p.name: p.check(given.get(p.name, p.default)) for p in declared}

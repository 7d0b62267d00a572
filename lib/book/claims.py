"""The ledger of claims: what the papers say, and what this book finds.

``book/claims.yml`` lists every claim that a chapter checks. A verdict is always
computed by comparing a number with bounds that stand in that file.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import yaml

__all__ = [
    "NOT_REPRODUCED",
    "NOT_RUN",
    "REDUCED",
    "REPRODUCED",
    "Claim",
    "ClaimError",
    "Verdict",
    "audit_verdicts",
    "judge",
    "read_claims",
]

REPRODUCED = "reproduced"
REDUCED = "reproduced at reduced scale"
NOT_REPRODUCED = "not reproduced"
NOT_RUN = "not run in this profile"

_KINDS = ("exact", "statistical", "trend")


class ClaimError(ValueError):
    """The ledger and the chapters do not agree."""


@dataclass(frozen=True)
class Claim:
    """One claim of a paper.

    Attributes
    ----------
    id : str
        Its name in chapters and on the ledger page.
    paper, place : str
        ``P1`` to ``P5``, and where in it: "Table 1, FMoW OOD".
    chapter : str
        The chapter that checks it.
    claim : str
        What is claimed, in our words.
    kind : str
        ``exact`` (mathematics or published data), ``statistical`` (a random quantity
        near a reported value) or ``trend`` (a direction or an order).
    why : str
        The reason for the tolerance or the bound.
    reported, tolerance : float, optional
        The paper's value and the largest absolute difference that still reproduces it.
    source : str, optional
        Where the reported value was read, if not in the paper's text.
    at_least, at_most : float, optional
        Bounds on the value, inclusive.  They decide where they are given; a reported value beside
        them, without tolerance, is only shown: that of a table's cell whose *trend* is checked.
    sd : float, optional
        Standard deviation that the paper prints beside the reported value.
    group : str, optional
        Claims of a group, such as the cells of one table, are shown together.
    full_scale : dict, optional
        Parameter values at which the check has the paper's size. At any others it is
        one at reduced scale.
    revised : bool
        Whether the condition was changed after it had been evaluated; `why` says how.
    if_not : str, optional
        What stands behind a miss, where that is known: shown beside "not reproduced" alone.
    """

    id: str
    paper: str
    chapter: str
    place: str
    claim: str
    kind: str
    why: str
    reported: float | None = None
    tolerance: float | None = None
    source: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    sd: float | None = None
    group: str | None = None
    full_scale: Mapping[str, Any] = field(default_factory=dict)
    revised: bool = False
    if_not: str | None = None

    @property
    def criterion(self) -> str:
        """The pre-stated condition, in words."""
        if self.tolerance is not None:
            return f"within {self.tolerance:g} of {self.reported:g}"
        bounds = [("at least", self.at_least), ("at most", self.at_most)]
        return " and ".join(f"{word} {bound:g}" for word, bound in bounds if bound is not None)

    def holds(self, value: float) -> bool:
        """Whether ``value`` meets the condition; NaN never does."""
        if math.isnan(value):
            return False
        if self.tolerance is not None:
            return abs(value - self.reported) <= self.tolerance * (1 + 1e-12)
        low = -math.inf if self.at_least is None else self.at_least
        high = math.inf if self.at_most is None else self.at_most
        return low <= value <= high


@dataclass(frozen=True)
class Verdict:
    """What one execution of a chapter found about one claim.

    Attributes
    ----------
    id : str
        The claim.
    verdict : str
        One of the four verdicts of this module.
    value : float or None
        The number that decided, None where the claim was not run.
    reason : str
        Why it was not run, at what reduced scale (also of a miss), or that the value is not
        finite.
    shown : float or None
        What stands beside the reported value where another number decided.
    """

    id: str
    verdict: str
    value: float | None = None
    reason: str = ""
    shown: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain mapping for JSON."""
        return asdict(self)


def read_claims(path: Path) -> dict[str, Claim]:
    """Read and validate the ledger's data file.

    Parameters
    ----------
    path : pathlib.Path
        ``book/claims.yml``; a missing file is an empty ledger.

    Returns
    -------
    dict
        Claims by id, in the file's order.

    Raises
    ------
    ClaimError
        On an unknown or missing field, an unknown kind, a repeated id, or a claim
        without exactly one kind of condition.

    Notes
    -----
    An entry with ``over``, a mapping of axes to lists of words, stands for one claim per
    combination: ``{axis}`` in id, place and claim is replaced by the word, and ``reported`` and
    ``sd`` are lists (of lists) in the order of the axes; so is ``tolerance``, or one number for
    all.  A combination whose reported value is null is left out.
    """
    if not path.exists():
        return {}
    entries = yaml.safe_load(path.read_text(encoding="utf-8")) or []
    known = {f.name for f in fields(Claim)}
    needed = {"id", "paper", "chapter", "place", "claim", "kind", "why"}
    claims: dict[str, Claim] = {}
    for entry in (one for each in entries for one in _expanded(each, path)):
        name = f"{path.name}: claim {entry.get('id', entry)!r}"
        if unknown := set(entry) - known:
            raise ClaimError(f"{name} has the unknown field {', '.join(sorted(unknown))}")
        if missing := needed - set(entry):
            raise ClaimError(f"{name} lacks {', '.join(sorted(missing))}")
        claim = Claim(**entry)
        if claim.kind not in _KINDS:
            raise ClaimError(f"{name}: kind = {claim.kind!r}; allowed are {', '.join(_KINDS)}")
        by_value = claim.tolerance is not None
        by_bound = claim.at_least is not None or claim.at_most is not None
        if by_value == by_bound or (by_value and claim.reported is None):
            raise ClaimError(
                f"{name} needs either reported and tolerance, or at_least and/or at_most"
            )
        if not isinstance(claim.revised, bool):
            raise ClaimError(f"{name}: revised must be true or false, got {claim.revised!r}")
        if claim.id in claims:
            raise ClaimError(f"{name} is listed twice")
        claims[claim.id] = claim
    return claims


def _expanded(entry: Mapping[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """One entry per combination of the axes in ``over``."""
    if "over" not in entry:
        yield dict(entry)
        return
    name = f"{path.name}: claim {entry.get('id', entry)!r}"
    axes = entry["over"]
    shape = tuple(len(words) for words in axes.values())
    given = [key for key in ("reported", "sd", "tolerance") if key in entry]
    if not isinstance(entry.get("tolerance"), list):
        given = [key for key in given if key != "tolerance"]
    arrays = {key: np.array(entry[key], dtype=object) for key in given}
    for key, array in arrays.items():
        if array.shape != shape:
            raise ClaimError(f"{name}: {key} must have the shape {shape}, got {array.shape}")
    for place in itertools.product(*(range(count) for count in shape)):
        numbers = {key: array[place] for key, array in arrays.items()}
        if "reported" in numbers and numbers["reported"] is None:
            continue
        words = {axis: str(axes[axis][i]) for axis, i in zip(axes, place, strict=True)}
        one = {key: content for key, content in entry.items() if key != "over"}
        for key in ("id", "place", "claim"):
            one[key] = str(one[key]).format(**words)
        yield one | numbers


def judge(
    claim: Claim, value: float, parameters: Mapping[str, Any], shown: float | None = None
) -> Verdict:
    """Compare a number with a claim's pre-stated condition.

    Parameters
    ----------
    claim : Claim
        The claim.
    value : float
        What this execution found.
    parameters : mapping
        The chapter's parameters in effect, which decide about the scale.
    shown : float, optional
        What stands beside the reported value, if not the value that decides.

    Returns
    -------
    Verdict
    """
    value = float(value)
    smaller = [
        f"{name} = {parameters.get(name)!r} instead of {full!r}"
        for name, full in claim.full_scale.items()
        if parameters.get(name) != full
    ]
    if not claim.holds(value):
        finite = math.isfinite(value)  # JSON has no word for the others
        reason = ", ".join(smaller if finite else [f"the value is {value}", *smaller])
        return Verdict(claim.id, NOT_REPRODUCED, value if finite else None, reason, shown)
    if smaller:
        return Verdict(claim.id, REDUCED, value, ", ".join(smaller), shown)
    return Verdict(claim.id, REPRODUCED, value, "", shown)


def audit_verdicts(
    claims: Mapping[str, Claim], verdicts: Mapping[str, Iterable[Mapping[str, Any]]]
) -> None:
    """Check that each executed chapter settled exactly the claims listed for it.

    Parameters
    ----------
    claims : mapping
        The ledger.
    verdicts : mapping
        Chapter to the verdicts found in its executed notebook.

    Raises
    ------
    ClaimError
        Naming every claim that is unknown, settled twice, settled by a chapter that
        is not its own, or left unsettled.
    """
    problems = []
    for chapter, found in verdicts.items():
        ids = [verdict["id"] for verdict in found]
        listed = [claim.id for claim in claims.values() if claim.chapter == chapter]
        problems += [f"{chapter} checks the unknown claim {i}" for i in ids if i not in claims]
        problems += [
            f"{chapter} checks {i}, which belongs to {claims[i].chapter}"
            for i in ids
            if i in claims and claims[i].chapter != chapter
        ]
        problems += [f"{chapter} checks {i} twice" for i in sorted(set(ids)) if ids.count(i) > 1]
        problems += [f"{chapter} leaves {i} unchecked" for i in listed if i not in ids]
    for claim in claims.values():
        if claim.chapter not in verdicts:
            problems.append(f"{claim.id} names the chapter {claim.chapter}, which the book lacks")
    if problems:
        raise ClaimError("the ledger of claims does not add up: " + "; ".join(problems))

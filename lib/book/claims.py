"""The ledger of claims: what the papers say, and what this book finds.

``book/claims.yml`` lists every claim that a chapter checks. A verdict is always
computed by comparing a number with bounds that stand in that file.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

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
        Bounds on the value, inclusive, where there is no reported value.
    full_scale : dict, optional
        Parameter values at which the check has the paper's size. At any others it is
        one at reduced scale.
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
    full_scale: Mapping[str, Any] = field(default_factory=dict)

    @property
    def criterion(self) -> str:
        """The pre-stated condition, in words."""
        if self.reported is not None:
            return f"within {self.tolerance:g} of {self.reported:g}"
        bounds = [("at least", self.at_least), ("at most", self.at_most)]
        return " and ".join(f"{word} {bound:g}" for word, bound in bounds if bound is not None)

    def holds(self, value: float) -> bool:
        """Whether ``value`` meets the condition; NaN never does."""
        if math.isnan(value):
            return False
        if self.reported is not None:
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
        Why it was not run, at what reduced scale, or that the value is not finite.
    """

    id: str
    verdict: str
    value: float | None = None
    reason: str = ""

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
    """
    if not path.exists():
        return {}
    entries = yaml.safe_load(path.read_text(encoding="utf-8")) or []
    known = {f.name for f in fields(Claim)}
    needed = {"id", "paper", "chapter", "place", "claim", "kind", "why"}
    claims: dict[str, Claim] = {}
    for entry in entries:
        name = f"{path.name}: claim {entry.get('id', entry)!r}"
        if unknown := set(entry) - known:
            raise ClaimError(f"{name} has the unknown field {', '.join(sorted(unknown))}")
        if missing := needed - set(entry):
            raise ClaimError(f"{name} lacks {', '.join(sorted(missing))}")
        claim = Claim(**entry)
        if claim.kind not in _KINDS:
            raise ClaimError(f"{name}: kind = {claim.kind!r}; allowed are {', '.join(_KINDS)}")
        by_value = (claim.reported is not None, claim.tolerance is not None)
        by_bound = claim.at_least is not None or claim.at_most is not None
        if by_value not in ((True, True), (False, False)) or by_value[0] == by_bound:
            raise ClaimError(
                f"{name} needs either reported and tolerance, or at_least and/or at_most"
            )
        if claim.id in claims:
            raise ClaimError(f"{name} is listed twice")
        claims[claim.id] = claim
    return claims


def judge(claim: Claim, value: float, parameters: Mapping[str, Any]) -> Verdict:
    """Compare a number with a claim's pre-stated condition.

    Parameters
    ----------
    claim : Claim
        The claim.
    value : float
        What this execution found.
    parameters : mapping
        The chapter's parameters in effect, which decide about the scale.

    Returns
    -------
    Verdict
    """
    value = float(value)
    if not claim.holds(value):
        finite = math.isfinite(value)  # JSON has no word for the others
        reason = "" if finite else f"the value is {value}"
        return Verdict(claim.id, NOT_REPRODUCED, value if finite else None, reason)
    smaller = [
        f"{name} = {parameters.get(name)!r} instead of {full!r}"
        for name, full in claim.full_scale.items()
        if parameters.get(name) != full
    ]
    if smaller:
        return Verdict(claim.id, REDUCED, value, ", ".join(smaller))
    return Verdict(claim.id, REPRODUCED, value)


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

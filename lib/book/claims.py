"""The ledger of claims: what the papers say, and what this book finds.

``book/claims.yml`` lists every claim that a chapter checks. A verdict is always
computed by comparing a number with bounds that stand in that file; for a random
quantity, by comparing its interval. What a *paper* states, and which claims put it to the test, is
in ``book/statements.yml``: :mod:`lib.book.statements`.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are used

from lib.book.evidence import Evidence, ranges_beyond
from lib.data.untrusted import read_yaml

REPRODUCED = "reproduced"
REDUCED = "reproduced at reduced scale"
NOT_REPRODUCED = "not reproduced"  # at whatever scale: the reason says at which
UNDECIDED = "undecided"
NOT_COMPARABLE = "not comparable"  # a number of another network, data or training
CANNOT = "cannot be checked"  # no data, the paper does not say, or no check of it could fail

#: All that a verdict can be.
WORDS = (REPRODUCED, REDUCED, NOT_REPRODUCED, UNDECIDED, NOT_COMPARABLE, CANNOT)

#: Those that decide.
DECIDED = (REPRODUCED, REDUCED, NOT_REPRODUCED)

#: Parameters that say which network it is, and whose data. `datasets` is none of them: a run on
#: several has its claims on each.
NETWORK = ("models", "model", "pate_model")
DATA = ("dataset", "images")
#: How it was trained.
TRAINING = ("epochs", "batch_size", "clipping_norm", "momentum", "checkpoint_every")

#: Which learner fitted what is not the estimate: of two runs the one with the paper's comes first.
LEARNER = ("power_learner", "positivity_learner")

#: Probability that chance refutes any of the claims that are judged by their range.
_REFUTED = 0.05

#: How the cells of a group can be drawn: :mod:`lib.book.pictures`.
PICTURES = ("diagonal", "dots", "intervals", "slopes")
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
        ``exact`` (mathematics, or counted on published data: nothing is drawn), ``statistical`` (a
        random quantity near a reported value) or ``trend`` (a direction or an order of random
        quantities).
    why : str
        The reason for the tolerance or the bound.
    short : str, optional
        The claim in about eight words, for a line; else `claim` has so few.
    measures : str, optional
        What the value is, where no reported one says it.
    unit : str, optional
        Of the values: ``trials``; ``epsilon`` stands before them.
    picture, axis : str, optional
        How the cells of a group are drawn, a word of `PICTURES`; what their axis is.
    reported, tolerance : float, optional
        The paper's value and the largest absolute difference that still reproduces it.
    source : str, optional
        Where the reported value was read, if not in the paper's text.
    at_least, at_most : float, optional
        Bounds on the value, inclusive.  They decide where they are given; a reported value beside
        them, without tolerance, is only shown: that of a table's cell whose *trend* is checked.
    across : str, optional
        What the interval of a random quantity is over: training runs, models, shuffles or
        repetitions. Needed unless the kind is ``exact``. The interval decides: inside of the bounds
        reproduced, outside not reproduced, else (or where there is none) undecided. See
        `leeway`.
    possible : list of two floats, optional
        Least and largest value that the quantity can have, such as 0 and 1 of a probability.
        Student's interval of few runs may reach beyond: it is cut there, which keeps its level.
    slack : float, optional
        How far beyond the bound the interval may end and the claim be reproduced: for a level that
        is kept exactly, whose interval always reaches beyond. Refuted it is at the bound itself.
    leeway : float, optional
        How far the value may be off for a reason that its interval leaves out (`why` says which):
        the interval decides when it is clear of the bound by more.
    only_at : dict, optional
        Parameter values without which the claim is not decided, beside those of `TRAINING` in
        `full_scale`: settings that the paper prints under other names.
    cannot : str, optional
        Why nobody can check it: the paper leaves out what is needed, or no value could refute it.
        The value is shown, and not judged.
    ours : bool
        Whether the claim is this book's, not the paper's that it is about.
    fewest : int, optional
        With it the value decides, whose own error the bounds allow for (`why` says how); from fewer
        runs a hit is undecided.
    in_range : bool
        Whether the reported value must lie within the range over `fewest` shuffles, up to the
        tolerance, which is the rounding. A value within the range of fewer is reproduced, too. One
        outside is not reproduced where it is so far out that of all cells judged so not one would
        be by chance (:func:`lib.book.evidence.ranges_beyond`), else undecided.
    cells : int
        How many claims of the ledger are judged by their range: counted, not given.
    sd : float, optional
        Standard deviation that the paper prints beside the reported value.
    group : str, optional
        Claims of a group, such as the cells of one table, are shown together.
    full_scale : dict, optional
        Parameter values at which the check has the paper's size. With another network, other data
        or fewer runs a trend is checked at reduced scale; trained otherwise than the paper says
        (`TRAINING`) it is not decided, whichever way it comes out. A number is not comparable if
        network, data or training are others. A list allows any of its words where the run has a
        single one.
    revised : bool
        Whether the condition was set or changed with values known; `why` says how.
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
    short: str = ""
    measures: str = ""
    unit: str = ""
    picture: str = ""
    axis: str = ""
    reported: float | None = None
    tolerance: float | None = None
    source: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    across: str | None = None
    possible: Sequence[float] = ()
    slack: float = 0.0
    leeway: float = 0.0
    fewest: int | None = None
    in_range: bool = False
    cells: int = 1
    sd: float | None = None
    group: str | None = None
    full_scale: Mapping[str, Any] = field(default_factory=dict)
    only_at: Mapping[str, Any] = field(default_factory=dict)
    cannot: str = ""
    ours: bool = False
    revised: bool = False
    if_not: str | None = None

    @property
    def reach(self) -> float:
        """Half of a reported mean's 95% interval, by its standard deviation over training runs."""
        n = self.full_scale.get("n_seeds", 1)
        if not self.sd or n < 2:
            return 0.0
        return scipy.special.stdtrit(n - 1, 0.975) * self.sd / math.sqrt(n)

    @property
    def criterion(self) -> str:
        """The pre-stated condition, in words."""
        if self.cannot:
            return "none"
        if self.in_range:
            return f"{self.reported:g} lies within the range over {self.fewest} {self.across}"
        bounds = [("at least", self.at_least), ("at most", self.at_most)]
        words = " and ".join(f"{word} {bound:g}" for word, bound in bounds if bound is not None)
        if self.tolerance is not None:
            words = f"within {self.tolerance:g} of {self.reported:g}"
        if self.fewest:
            return f"{words}, over at least {self.fewest} {self.across}"
        known = f", known to {self.slack:g}" if self.slack else ""
        known += f", clear by {self.leeway:g}" if self.leeway else ""
        return f"{words}{known}, by the interval over {self.across}" if self.across else words

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and largest value that meet the condition."""
        if self.tolerance is not None:
            # Up to rounding: 0.3 - 0.2 is within 0.1.
            allowed = self.tolerance * (1 + 1e-12)
            return self.reported - allowed, self.reported + allowed
        low = -math.inf if self.at_least is None else self.at_least
        return low, math.inf if self.at_most is None else self.at_most

    def holds(self, value: float) -> bool:
        """Whether ``value`` meets the condition; NaN never does."""
        low, high = self.bounds
        return low <= value <= high


@dataclass(frozen=True)
class Verdict:
    """What one execution of a chapter found about one claim."""

    id: str
    verdict: str
    value: float | None = None  # what decided
    reason: str = ""  # why it was not run, at what reduced scale, or why nothing is decided
    shown: float | None = None  # beside the reported value where another number decided
    interval: list[float | None] | None = None  # None where an end is infinite
    n: int | None = None  # how many runs the interval rests on

    def as_dict(self) -> dict[str, Any]:
        """Plain mapping for JSON."""
        return asdict(self)


def read_claims(path: Path) -> dict[str, Claim]:
    """Read and validate the ledger's data file.

    Notes
    -----
    An entry with ``over``, a mapping of axes to lists of words, stands for one claim per
    combination: ``{axis}`` in id, place, claim, short and the words of full_scale is replaced by
    the word, and ``reported``
    and ``sd`` are lists (of lists) in the order of the axes; so is ``tolerance``, or one number for
    all.  A combination whose reported value is null is left out.
    """
    return dict(_parsed(path, path.read_text(encoding="utf-8"))) if path.exists() else {}


@cache  # a build asks once a chapter
def _parsed(path: Path, text: str) -> Mapping[str, Claim]:
    try:
        entries = read_yaml(text) or []
    except ValueError as error:
        raise ClaimError(f"{path} is no plain YAML: {error}") from None
    known = {f.name for f in fields(Claim)} - {"cells"}
    flags = ("revised", "ours")
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
        _check_chance(claim, name)
        by_value = claim.tolerance is not None
        by_bound = claim.at_least is not None or claim.at_most is not None
        if claim.cannot and (by_value or by_bound):
            raise ClaimError(f"{name} cannot be checked: it can have no condition")
        if not claim.cannot and (by_value == by_bound or (by_value and claim.reported is None)):
            raise ClaimError(
                f"{name} needs either reported and tolerance, or at_least and/or at_most"
            )
        if claim.picture not in ("", *PICTURES):
            raise ClaimError(f"{name}: picture must be one of {', '.join(PICTURES)}")
        for flag in flags:
            if not isinstance(given := getattr(claim, flag), bool):
                raise ClaimError(f"{name}: {flag} must be true or false, got {given!r}")
        if claim.id in claims:
            raise ClaimError(f"{name} is listed twice")
        claims[claim.id] = claim
    # Claims of cells share one error: how many there are decides how much each may have of it.
    cells = sum(claim.in_range for claim in claims.values())
    return {i: replace(c, cells=cells) if c.in_range else c for i, c in claims.items()}


def _check_chance(claim: Claim, name: str) -> None:
    """A random quantity says what its interval is over; an exact one has none."""
    ways = {
        "slack": claim.slack,
        "leeway": claim.leeway,
        "fewest": claim.fewest,
        "in_range": claim.in_range,
    }
    given = [key for key, value in (ways | {"possible": claim.possible}).items() if value]
    if claim.kind == "exact" and (claim.across or given):
        raise ClaimError(f"{name} is exact: it can have no {', '.join(given) or 'across'}")
    if claim.kind != "exact" and not claim.across and not claim.cannot:
        raise ClaimError(f"{name} is of kind {claim.kind} and lacks across")
    for key in ("slack", "leeway"):
        beside = claim.tolerance is not None or claim.fewest
        if ways[key] < 0 or (ways[key] and beside):
            raise ClaimError(f"{name}: {key} must be positive and beside at_least or at_most alone")
    if claim.possible and (len(claim.possible) != 2 or claim.possible[0] >= claim.possible[1]):
        raise ClaimError(f"{name}: possible must be two growing numbers, got {claim.possible!r}")
    if claim.slack and claim.leeway:
        raise ClaimError(f"{name}: give not both slack and leeway")
    if claim.fewest is not None and (not isinstance(claim.fewest, int) or claim.fewest < 2):
        raise ClaimError(f"{name}: fewest must be an integer of at least 2, got {claim.fewest!r}")
    if claim.in_range and not (claim.fewest and claim.tolerance is not None):
        raise ClaimError(f"{name}: in_range needs reported, tolerance and fewest")


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
    # One claim for each combination; a null among the reported numbers is a cell that the paper
    # leaves empty.
    for place in itertools.product(*(range(count) for count in shape)):
        numbers = {key: array[place] for key, array in arrays.items()}
        if "reported" in numbers and numbers["reported"] is None:
            continue
        words = {axis: str(axes[axis][i]) for axis, i in zip(axes, place, strict=True)}
        one = {key: content for key, content in entry.items() if key != "over"}
        for key in {"id", "place", "claim", "short"} & set(one):
            one[key] = str(one[key]).format(**words)
        if "full_scale" in one:
            full = one["full_scale"].items()
            one["full_scale"] = {k: v.format(**words) if isinstance(v, str) else v for k, v in full}
        yield one | numbers


def judge(
    claim: Claim, found: float | Evidence, parameters: Mapping[str, Any], shown: float | None = None
) -> Verdict:
    """Compare what was found with a claim's pre-stated condition.

    A bare number decides about exact claims alone. `parameters`, those in effect, decide about the
    scale, and whether a number can be compared at all; `shown` stands beside the reported value if
    it is not the value that decides.
    """
    evidence = _cut(claim, found) if isinstance(found, Evidence) else None
    value = float(found if evidence is None else evidence.value)
    # A run with other parameters than the paper's is judged, and said to be smaller.
    other = differing(claim.full_scale, parameters)
    missing = differing(claim.only_at, parameters)
    reasons = [
        f"{name} = {parameters[name]!r} instead of {full!r}"
        if name in parameters
        else f"{name} (not recorded) instead of {full!r}"
        for name, full in (missing | other).items()
    ]
    finite = math.isfinite(value)  # JSON has no word for the others
    if not finite:
        reasons.insert(0, f"the value is {value}")
    if claim.cannot:
        word, reasons = CANNOT, [claim.cannot]
    elif _of_another(claim, other):
        word = NOT_COMPARABLE
    else:
        # An exact number meets the condition or does not; of a random one its interval decides.
        if claim.across is None:
            hit = claim.holds(value)
        else:
            hit, lacking = _by_chance(claim, evidence) if finite else (None, "")
            reasons += [lacking] if lacking else []
        # What shows at other settings than the paper's is of these: it decides neither way.
        if missing or (claim.kind == "trend" and not {*TRAINING}.isdisjoint(other)):
            hit = None
        word = UNDECIDED
        if hit is not None:
            word = (REDUCED if other else REPRODUCED) if hit else NOT_REPRODUCED
    interval = n = None
    if evidence is not None:
        ends, n = (evidence.low, evidence.high), evidence.n
        if any(map(math.isfinite, ends)):
            interval = [float(end) if math.isfinite(end) else None for end in ends]
    reason = ", ".join(reasons)
    return Verdict(claim.id, word, value if finite else None, reason, shown, interval, n)


def _cut(claim: Claim, evidence: Evidence) -> Evidence:
    """An interval without what the quantity cannot be; an end about which nothing is said stays."""
    ends = evidence.low, evidence.high
    if not claim.possible:
        return evidence
    low, high = (np.clip(e, *claim.possible) if math.isfinite(e) else e for e in ends)
    return replace(evidence, low=float(low), high=float(high))


def unsettled(claim: Claim, reason: str, parameters: Mapping[str, Any]) -> Verdict:
    """The verdict on a claim for which a run has no number, and why.

    A number of another network on the paper's data is not comparable, whoever has one.
    """
    other = differing(claim.full_scale, parameters)
    here = not any(name in other for name in DATA)
    word = NOT_COMPARABLE if here and _of_another(claim, other) and not claim.cannot else CANNOT
    return Verdict(claim.id, word, None, claim.cannot or reason)


def differing(full: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What of the paper's settings a run does not have; a list allows any of its words."""
    return {
        name: papers
        for name, papers in full.items()
        if (ours := parameters.get(name)) != papers
        and not (isinstance(papers, list) and isinstance(ours, str) and ours in papers)
    }


def _of_another(claim: Claim, other: Iterable[str]) -> bool:
    """Whether a number is that of another network, of other data or of another training.

    A direction or an order may show at any scale; a number is of what it was measured on.
    """
    return claim.kind != "trend" and not {*NETWORK, *DATA, *TRAINING}.isdisjoint(other)


def _by_chance(claim: Claim, evidence: Evidence | None) -> tuple[bool | None, str]:
    """Whether a random quantity meets a condition, None if that is open, and what is lacking."""
    if evidence is None:
        return None, f"no interval over {claim.across}"
    if off := claim.leeway:
        wide = replace(evidence, low=evidence.low - off, high=evidence.high + off)
        bare = replace(claim, leeway=0.0)
        alone = _by_chance(bare, evidence)
        same = _by_chance(bare, wide)[0] == alone[0]
        return alone if same else (None, f"clear of the bound by less than {off:g}")
    few = claim.fewest is not None and evidence.n < claim.fewest
    lacking = f"{evidence.n} of {claim.fewest} {claim.across}" if few else ""
    low, high = claim.bounds
    if claim.in_range:
        if evidence.low <= high and evidence.high >= low:
            return True, ""
        if few:
            return None, lacking
        rest = ranges_beyond(evidence.n, _REFUTED / claim.cells) * (evidence.high - evidence.low)
        if evidence.low - rest <= high and evidence.high + rest >= low:
            return None, f"outside of the range, as 2 in {evidence.n + 1} are by chance"
        return False, ""
    if claim.fewest is not None:
        if not claim.holds(evidence.value):
            return False, ""
        return (None, lacking) if few else (True, "")
    if evidence.high < low or evidence.low > high:
        return False, ""
    # Strictly inside: an interval that only touches the bound does not exclude it.
    above = math.isinf(low) or evidence.low > low - claim.slack
    if above and (math.isinf(high) or evidence.high < high + claim.slack):
        return True, ""
    bare = math.isinf(evidence.low) and math.isinf(evidence.high)
    return None, f"number of {claim.across}: {evidence.n}, which tell no spread" if bare else ""


def judged_anew(claims: Mapping[str, Claim], run: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recorded run with its verdicts by the conditions as they stand now.

    What the ledger no longer lists is left out; a value from before intervals were kept leaves a
    random quantity undecided.
    """
    verdicts = []
    for kept in run["verdicts"]:
        claim, value = claims.get(kept["id"]), kept["value"]
        if claim is None:
            continue
        scale = run.get("parameters", {}) | run.get("used", {})
        if value is None:
            verdicts.append(unsettled(claim, kept["reason"], scale).as_dict())
            continue
        low, high = kept.get("interval") or (None, None)
        found = value
        if kept.get("n") is not None:
            ends = -math.inf if low is None else low, math.inf if high is None else high
            found = Evidence(value, *ends, kept["n"])
        new = judge(claim, found, scale, kept.get("shown"))
        verdicts.append(new.as_dict())
    return {**run, "verdicts": verdicts}


def audit_verdicts(
    claims: Mapping[str, Claim], verdicts: Mapping[str, Iterable[Mapping[str, Any]]]
) -> None:
    """Check that each executed chapter settled exactly the claims listed for it."""
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

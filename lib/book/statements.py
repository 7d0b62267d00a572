"""What each paper states, and which claims or tests of this book put it to the test.

``book/statements.yml`` is the inventory: definitions, algorithms, theorems, tables, figures and
findings. The verdict on a statement follows from those on its claims by :func:`verdict_of`; the
cells of a table are claims of one statement. ``book/settings.yml`` has the settings of the papers'
training runs, and which parameters of a chapter are ours.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from lib.book.claims import (
    CANNOT,
    DECIDED,
    NOT_COMPARABLE,
    NOT_REPRODUCED,
    REDUCED,
    REPRODUCED,
    UNDECIDED,
    WORDS,
    Claim,
    ClaimError,
)
from lib.book.words import name_text, number_text
from lib.data.untrusted import read_yaml

#: Whose statements are no paper's.
OURS = "ours"
PAPERS = ("P1", "P2", "P3", "P4", "P5", OURS)
KINDS = ("definition", "algorithm", "theorem", "table", "figure", "finding", "setting")


@dataclass(frozen=True)
class Statement:
    """A statement of a paper.

    Attributes
    ----------
    id, paper, place, kind : str
        Its name, whose it is, where it stands, and one of `KINDS`.
    says : str
        What is stated, in our words.
    where : tuple of str
        Where it lives here: functions of ``lib`` and chapters.
    claims : tuple of str
        The claims that put it to the test; patterns such as ``P2-T5-*`` in the file.
    tested : tuple of str
        Tests that hold a definition, an algorithm or a theorem against its text, where no claim
        that can fail does: ``tests/<file>.py::<test>``.
    cannot : str
        Why it cannot be checked, where neither does.
    settings : str
        The entry of ``book/settings.yml`` with the paper's settings, for a training.
    beside : tuple of mappings
        Tables of chapters that hold numbers of ours to show where nobody judges: ``chapter``,
        ``table``, ``rows`` (columns that name a row), ``column``, and ``only``, the
        first of a row's names.
    """

    id: str
    paper: str
    place: str
    kind: str
    says: str
    where: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    tested: tuple[str, ...] = ()
    cannot: str = ""
    settings: str = ""
    beside: tuple[Mapping[str, Any], ...] = field(default=())


def read_statements(path: Path, claims: Mapping[str, Claim]) -> dict[str, Statement]:
    """Read the inventory; a claim that no statement names is a statement of our own.

    Raises
    ------
    ClaimError
        On an unknown field, paper or kind, a pattern that names no claim, a claim of two
        statements, or a statement that nothing puts to the test and that does not say why.
    """
    entries = read_yaml(path.read_text(encoding="utf-8")) if path.exists() else []
    found: dict[str, Statement] = {}
    owner: dict[str, str] = {}
    for entry in entries or []:
        name = f"{path.name}: statement {entry.get('id', entry)!r}"
        lists = ("where", "claims", "tested", "beside")
        try:
            one = Statement(**{k: tuple(v) if k in lists else v for k, v in entry.items()})
        except TypeError as error:
            raise ClaimError(f"{name}: {error}") from None
        if one.paper not in PAPERS or one.kind not in KINDS:
            raise ClaimError(
                f"{name}: paper = {one.paper!r}, kind = {one.kind!r}; papers are "
                f"{', '.join(PAPERS)}, kinds {', '.join(KINDS)}"
            )
        ids = []
        for pattern in one.claims:
            named = [i for i in claims if fnmatchcase(i, pattern)]
            if not named:
                raise ClaimError(f"{name}: {pattern} is no claim of the ledger")
            ids += named
        for i in ids:
            if owner.setdefault(i, one.id) != one.id:
                raise ClaimError(f"{name}: {i} belongs to {owner[i]}")
        if bool(one.cannot) == bool(ids or one.tested):
            raise ClaimError(f"{name} needs claims or tested, or cannot")
        if one.id in found:
            raise ClaimError(f"{name} is listed twice")
        found[one.id] = Statement(**(vars(one) | {"claims": tuple(dict.fromkeys(ids))}))
    for claim in claims.values():
        if claim.id not in owner:
            whole = claim.id, OURS, claim.place, "finding", claim.claim, (claim.chapter,)
            found[claim.id] = Statement(*whole, (claim.id,))
    return found


def verdict_of(
    statement: Statement, claims: Mapping[str, Claim], found: Mapping[str, Mapping[str, Any]]
) -> tuple[str, str]:
    """The verdict on a statement, one of the six words, and what it follows from.

    What is not comparable or cannot be checked counts only where nothing else is left. Of the
    others one that is refuted refutes the statement; else one that is open leaves it open, but for
    cells that a range judges: of these as many may lie outside as chance puts there. A statement is
    reproduced at the least scale of its claims.

    Parameters
    ----------
    statement, claims : Statement, mapping
        The statement, and all claims by id.
    found : mapping
        The verdict on each claim of the statement that has one, by id.
    """
    if statement.cannot:
        return CANNOT, statement.cannot
    of = {i: found[i]["verdict"] for i in statement.claims if i in found}
    count = Counter(of.values())
    said = ", ".join(f"{count[word]} {word}" for word in WORDS if count[word])
    judged = [i for i, word in of.items() if word in (*DECIDED, UNDECIDED)]
    if not judged and statement.tested:
        return REPRODUCED, "held against its text by a test"
    if not judged:
        word = NOT_COMPARABLE if count[NOT_COMPARABLE] else CANNOT
        reasons = dict.fromkeys(found[i]["reason"] for i in of if of[i] == word)
        return word, "; ".join(reasons) if len(reasons) == 1 else said
    outside = [i for i in judged if of[i] == UNDECIDED and _by_range(claims[i], found[i])]
    allowed = sum(2 / (found[i]["n"] + 1) for i in judged if _by_range(claims[i], found[i]))
    if count[NOT_REPRODUCED]:
        word = NOT_REPRODUCED
    elif count[UNDECIDED] > len(outside) or len(outside) > allowed:
        word = UNDECIDED
    else:
        word = REDUCED if count[REDUCED] else REPRODUCED
    if outside:
        said += f"; outside of their range {len(outside)}, of which chance makes {allowed:.1f}"
    return word, said if len(of) > 1 else ""


def _by_range(claim: Claim, found: Mapping[str, Any]) -> bool:
    """Whether a range over enough shuffles judged a cell."""
    return claim.in_range and (found.get("n") or 0) >= claim.fewest


# ----------------------------------------------------------------------- settings


@dataclass(frozen=True)
class Settings:
    """The settings of a paper's training runs, and the parameters that are ours.

    Attributes
    ----------
    source : str
        Where the paper says them.
    paper : mapping
        Setting to what the paper says, in words.
    ours : mapping
        Setting to a chapter's parameter.
    always : mapping
        Setting to what all runs of ours have, in words, where no parameter says it.
    """

    source: str
    paper: Mapping[str, str]
    ours: Mapping[str, str]
    always: Mapping[str, str] = field(default_factory=dict)


def read_settings(path: Path) -> tuple[dict[str, Settings], dict[str, dict[str, int]]]:
    """Settings by name, and how many parameters our networks have by network and data."""
    if not path.exists():
        return {}, {}
    content = read_yaml(path.read_text(encoding="utf-8"))
    networks = content.pop("networks")
    found = {}
    for name, entry in content.items():
        found[name] = one = Settings(**entry)
        if extra := {*one.ours, *one.always} - {*one.paper}:
            raise ClaimError(f"{path.name}: {name} has no {extra.pop()!r} of the paper")
    return found, networks


def setting_text(
    settings: Settings,
    networks: Mapping[str, Mapping[str, int]],
    name: str,
    given: Mapping[str, Any],
) -> str:
    """What a run had for a setting, in words; a dash where it kept none."""
    if name in settings.always:
        return settings.always[name]
    if name == "parameters":
        network, data = (given.get(settings.ours[part]) for part in ("network", "data"))
        counts = [networks.get(_sized(each, given), {}).get(data) for each in _listed(network)]
        return " and ".join(f"{n:,}" for n in counts if n) or "–"
    value = given.get(settings.ours.get(name, ""))
    if name == "epochs" and not value and "steps" in given:
        return f"{given['steps']:,} steps"
    if value is None:
        return "–"
    return " and ".join(
        name_text(each)
        if isinstance(each, str)
        else ("no", "yes")[each]
        if isinstance(each, bool)
        else f"{each:,}"
        if isinstance(each, int)
        else number_text(each)
        for each in _listed(value)
    )


def _sized(network: Any, given: Mapping[str, Any]) -> str:
    """A network's entry in ``networks``: an MLP's says its width, and whether it sees features."""
    if network != "mlp":
        return str(network)
    return f"mlp-{given.get('hidden')}" + "-on-features" * bool(given.get("public"))


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def counted(verdicts: Iterable[str]) -> dict[str, int]:
    """How many verdicts there are of each of the six words."""
    count = Counter(verdicts)
    return {word: count[word] for word in WORDS}

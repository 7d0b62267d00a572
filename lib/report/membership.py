"""Membership scores as people have them: numbers, and which points were trained on."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lib.report.naming import counted, plain, role_of
from lib.report.outputs import FLAGS, same
from lib.report.tables import Column, Table

_TRAINED = {
    "member", "is_member", "membership", "in_train", "is_train", "in_training", "in_training_set",
    "is_training", "trained_on", "was_trained_on", "is_in_train", "in_out",
}  # fmt: skip
_CANARIES = {"included", "is_included", "inserted", "is_inserted"}  # beside a score alone
_MEMBERS = {"member": True, "members": True, "in": True, "nonmember": False, "nonmembers": False,
            "non_member": False, "non_members": False, "out": False,
            "canary": True, "reference": False}  # fmt: skip
_OF_LOSSES = {"train": True, "test": False}  # of losses alone: a classifier has no use for them
#: Names of scores that can be nothing else, of such as may be, and of what is small for a member.
_SCORES = {
    f"{word}_score{s}" for word in ("membership", "mia", "attack", "lira") for s in ("", "s")
}
_MAY_BE = {"score", "scores", "signal", "statistic", "confidence", "prob", "probability",
           "log_prob"}  # fmt: skip
_LOSSES = {"loss", "losses", "nll", "cross_entropy", "perplexity"}
#: Words of a file's name that say that its scores are of membership.
_ATTACKS = {"mia", "lira", "membership"}
_KINDS = {"score", "scores", "loss", "losses", "nll", "mia", "attack", "lira"}


def as_format(table: Table) -> Table:
    """The table in the report's format, if it holds membership scores in another one.

    A column such as ``is_member`` or ``split`` says who is a member, another such as ``score`` or
    ``loss`` how much speaks for it.  Where labels or answers of a classifier stand beside them, its
    name has to say that it is of membership, or a loss.  Where no column else does, a label says
    who is a member, if the name of the file or of the score is of such an attack.
    """
    names = {name: plain(name) for name in table.columns}
    if "part" in names and "membership_score" in names:
        return table
    said = _ATTACKS & {*plain(Path(table.source).stem).split("_")} or _SCORES & {*names.values()}
    attack = bool(said) and not _TRAINED & {*names.values()}
    roles = Counter(role_of(name).rstrip("?") for name in names)
    for flag in sorted(names, key=lambda name: role_of(name).startswith("label")):
        column, role = table.columns[flag], role_of(flag).rstrip("?")
        alone = roles["label"] + roles["prediction"] == (role in ("label", "prediction"))
        trained = names[flag] in (_TRAINED | _CANARIES if alone else _TRAINED)
        trained |= attack and role == "label"
        if column.text or not (trained or role == "part"):
            continue
        places, cells = column.values()
        allowed = _SCORES | _LOSSES | (_MAY_BE if alone else set())
        scores = [n for n in names if names[n] in allowed and table.columns[n].numeric]
        known = _MEMBERS | (FLAGS if trained else {})
        known |= _OF_LOSSES if alone and {names[n] for n in scores} <= _LOSSES else {}
        member = [known.get(plain(cell), known.get(same(cell))) for cell in cells]
        if len(scores) == 1 and {*member} == {True, False}:
            return _in_format(table, flag, np.array([*member, None])[places], scores[0])
    flags = [name for name in names if names[name] in ("label", "labels")]
    if len(names) == 2 and flags and {*names.values()} & {"score", "scores", "signal"}:
        told = f"if {flags[0]!r} says which points were trained on, call it is_member: an audit"
        return replace(table, notes=(*table.notes, f"{told} reads membership scores so"))
    return table


def _in_format(table: Table, flag: str, member: Any, name: str) -> Table:
    """With the columns ``part`` and ``membership_score``, and what is claimed."""
    for each, bad in ((flag, np.equal(member, None)), (name, table.columns[name].empty)):
        if bad.any():
            raise table.cell_error(each, "given in every row", int(bad.argmax()))
    column, loss = table.columns[name], plain(name) in _LOSSES
    codes = np.where(member.astype(bool), 0, 1).astype(np.int32)
    part = Column("part", np.full(table.rows, np.nan), codes, ("member", "nonmember"))
    score = replace(column, name="membership_score", numbers=column.numbers * (-1 if loss else 1))
    claims = {n: table.columns[n] for n in ("epsilon", "delta") if n in table.columns}
    left = [n for n in table.columns if n not in (flag, name, *claims)]
    says = [
        f"{flag!r} says which points were trained on: {counted(int((codes == 0).sum()), 'member')}"
        f", {counted(int((codes == 1).sum()), 'nonmember')}",
        f"{name!r} is the membership score, "
        + ("small for a member: its negative is taken" if loss else "large for a member"),
    ]
    says += [f"not used: {', '.join(map(repr, left))}"] * bool(left)
    columns = {"part": part, "membership_score": score} | claims
    return replace(table, columns=columns, notes=(*table.notes, *says))


def renamed(arrays: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """Arrays of members and nonmembers, such as ``in_scores`` and ``out_scores``, by our names."""
    found: dict[bool, list[str]] = {True: [], False: []}
    for name in arrays:
        words = plain(name).split("_")
        member = _MEMBERS.get("_".join(word for word in words if word not in _KINDS))
        if member is not None and _KINDS & {*words}:
            found[member].append(name)
    ours = dict(zip((True, False), ("member_scores", "nonmember_scores"), strict=True))
    if [*map(len, found.values())] != [1, 1]:
        return dict(arrays)
    result = dict(arrays)
    for member, (name,) in found.items():
        loss = bool(_LOSSES & {*plain(name).split("_")})
        values = result.pop(name)
        result[ours[member]] = -np.asarray(values) if loss else values
        if name != ours[member]:
            notes.append(f"{name!r} is {ours[member]}" + ", small for a member: negated" * loss)
    return result

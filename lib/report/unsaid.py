"""Cells that say nothing: words and numbers for an unknown label, or for no answer."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lib.report.naming import counted, plain
from lib.report.outputs import FLAGS, is_flag, same
from lib.report.tables import Builder, Column

_ANY = {"none", "null", "unknown", "undefined", "missing", "?", "-", "--", "."}
#: Words for a label that is not known, and for an answer that was not given, as `plain` has them.
UNKNOWN = _ANY | {"unlabeled", "unlabelled", "not_labeled", "not_labelled", "unk", "tbd"}
SILENT = _ANY | {
    "abstain", "abstained", "abstains", "abstention", "idk", "i_don_t_know", "i_dont_know",
    "i_do_not_know", "don_t_know", "dont_know", "do_not_know", "unsure", "not_sure", "i_m_not_sure",
    "uncertain", "undecided", "reject", "rejected", "rejection", "defer", "deferred", "refuse",
    "refused", "refusal", "no_answer", "no_prediction", "no_decision", "skip", "skipped",
    "unanswered", "cannot_answer", "can_t_answer",
}  # fmt: skip
#: Names of flags of answers that were given.
GIVEN = {"answered", "accepted", "covered"}
#: What is weighed, and the words for its weight, of a column for how much speaks for no answer.
_ABSTAINING = (SILENT - _ANY) | {"abstaining", "deferral", "deferring", "rejecting", "refusing"}
_WEIGHTS = {"p", "pr", "prob", "proba", "probability", "likelihood", "score", "logit", "softmax"}
#: Words for an answer that was given, beside one of those.
ANSWERED = {"answer", "answered", "answers", "predict", "predicted", "keep", "kept"}
#: Names of columns whose different values are of different models, or of one at other times.
_RUNS = {"model", "model_name", "model_id", "classifier", "algorithm", "seed", "random_seed",
         "epoch", "epochs", "run", "run_id", "checkpoint", "ckpt", "repeat"}  # fmt: skip
_CODES = {"-1", "-9", "-99", "-100", "-999", "-9999"}
_ODD, _ROWS = 3, 30  # different answers that are told of, in files of so many rows
_SIGNS = {"-1", "0", "1"}  # all three may be classes, such as of sentiment


def speaks_for(name: str) -> str:
    """The word for no answer of whose weight a column is, as of ``p_abstain``; else empty."""
    words = plain(name).split("_")
    rest = "_".join(word for word in words if word not in _WEIGHTS)
    return rest if len(rest) < len("_".join(words)) and rest in _ABSTAINING else ""


def is_given(name: str, columns: Iterable[str]) -> bool:
    """Whether a flag says that there was an answer; of conformal sets it says another thing."""
    word = plain(name).removeprefix("is_").removeprefix("was_")
    if word == "covered":
        return not any("set" in plain(each).split("_") for each in columns)
    return word in GIVEN


def unknown_labels(label: Column, answers: Iterable[Column], columns: Iterable[str]) -> list[str]:
    """Cells of a label that say that it is not known.

    None of them is an answer of a model, or ends the name of a column, as a class would; one class
    alone is not left.  Whether -1 is one beside 0 and 1 only answers tell.
    """
    names, answers = label.values()[1], [*answers]
    said = {name for each in answers for name in each.values()[1]}
    ends = {plain(name) for name in columns}
    worded = any(not _whole(name) for name in names)

    def nothing(name: str) -> bool:
        if name == "none":  # a class, such as of no stance; None is Python's
            return False
        if name not in _CODES:
            return plain(name) in UNKNOWN and not any(
                end == plain(name) or end.endswith(f"_{plain(name)}") for end in ends
            )
        signs = {"-1"} < {*names} <= _SIGNS
        return name != "-1" or worded or bool(answers) or not signs

    found = [name for name in names if nothing(name)]
    if "-1" in said and not worded and {*names} - _SIGNS:
        said -= {"-1"}  # beside many classes it is none, though the model answers it
    found = [name for name in found if name not in said]
    return found if len(names) - len(found) != 1 else []


def no_answers(answer: Column, classes: Iterable[str]) -> list[str]:
    """Cells of a model's answers that are none; none of them is a class of the label."""
    names, known = answer.values()[1], {*classes}
    found = [n for n in names if n not in known and (n == "-1" or plain(n) in SILENT)]
    return found if len(found) < len(names) else []


def never_true(answer: Column, label: Column, rows: npt.NDArray[np.bool_]) -> list[str]:
    """A sentence on a few answers that are no class of the label; empty if there is none."""
    known = {*map(same, label.values()[1])}
    odd = [name for name in answer.values()[1] if same(name) not in known]
    if not 0 < len(odd) <= _ODD or len(odd) >= len(known) or rows.sum() < _ROWS:
        return []
    return [
        f"{answer.name!r}: {told(answer, odd, rows)} is never true, and counts as wrong; empty "
        "such cells if it is no answer"
    ]


def empty_labels(label: Column | None, rows: npt.NDArray[np.bool_]) -> list[str]:
    """A sentence on rows whose label is empty, where others have one."""
    count = 0 if label is None else int((label.empty & rows).sum())
    if not 0 < count < rows.sum():
        return []
    return [
        f"{label.name!r} is empty (or NA, or null) in {count:,} of "
        f"{counted(int(rows.sum()), 'row')}: these are not counted where the label matters"
    ]


def of_runs(columns: Mapping[str, Column]) -> list[str]:
    """A sentence on a column that says of which model, run or epoch a row is, if of several."""
    found = []
    for name, column in columns.items():
        several = plain(name) in _RUNS and not column.text and len(column.values()[1])
        if several and several > 1:
            found.append(
                f"{name!r} has {several:,} different values, whose rows count together: keep "
                "those of one for a report on it"
            )
    return found


def in_words_of(label: Column, answer: Column) -> tuple[Column, list[str]]:
    """Answers of yes or no in the words of the label, such as 1 and 0 beside True and False."""
    places, own = answer.values()
    words = {FLAGS.get(same(name)): name for name in label.values()[1]}
    alike = {*map(same, own)} & {*map(same, words.values())}
    if alike or {*words} != {True, False} or not all(map(is_flag, own)):
        return answer, []
    cells, found = [words[FLAGS[same(name)]] for name in own], Builder(answer.name)
    found.add([*np.array([*cells, ""])[places]])
    told = ", ".join(f"{a!r} as {b!r}" for a, b in zip(own, cells, strict=True))
    return found.column(), [f"{answer.name!r} is read in the words of {label.name!r}: {told}"]


def emptied(column: Column, names: Iterable[str]) -> Column:
    """The column with such cells empty."""
    gone = {*names}
    codes, kept = column.codes, [word for word in column.words if word not in gone]
    numbers = np.where(
        np.isin(column.numbers, [*map(float, gone & _CODES)]), np.nan, column.numbers
    )
    if codes is not None:
        place = {word: j for j, word in enumerate(kept)}
        codes = np.array([*(place.get(w, -1) for w in column.words), -1], dtype=np.int32)[codes]
    return replace(column, numbers=numbers, codes=codes if kept else None, words=tuple(kept))


def told(column: Column, names: list[str], rows: npt.NDArray[np.bool_]) -> str:
    """What was found, for people: ``'unlabeled' (40 rows)``."""
    places, every = column.values()
    counts = {name: int((rows & (places == every.index(name))).sum()) for name in names}
    return ", ".join(f"{name!r} ({counted(count, 'row')})" for name, count in counts.items())


def _whole(name: str) -> bool:
    return name.lstrip("-").isdecimal()

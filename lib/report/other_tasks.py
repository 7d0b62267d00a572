"""Files of other tasks than one class a row: several labels at once, and numbers."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from lib.data.untrusted import short
from lib.report.lacks import NO_REPORT
from lib.report.naming import plain, role_of
from lib.report.tables import Column, ReadingError, Table

#: First or last words of names of what is true and of what a model says of it.
_TRUE = {"true", "truth", "label", "target", "gt", "gold", "actual", "y", "observed"}
_SAID = {"pred", "predicted", "prediction", "preds", "prob", "probability", "proba", "p", "score",
         "output", "logit", "yhat", "sigmoid"}  # fmt: skip
_NO_TASKS = {"id", "idx", "index", "name", "text", "code", "score", "prob", "model"}
_IMAGES = {"image", "image_id", "img", "img_id", "filename", "file_name", "frame", "video"}
_BOXES = (
    {"xmin", "ymin", "xmax", "ymax"},
    {"x1", "y1", "x2", "y2"},
    {"bbox_0", "bbox_1", "bbox_2", "bbox_3"},
    {"x_center", "y_center", "width", "height"},
)
_ROW = "a report needs a row for each prediction, with its label"
_SUMMED = 5000  # classes, and rows of sums, of a table of scores
_APART = re.compile(r"\s*[,;|]\s*")
_LITTLE = 4  # columns of a table of counts: label, answer, count, and a fraction
_COUNTS = {"count", "counts", "n", "freq", "frequency", "num", "number"}
#: What the last row is called that sums up the others.
_TOTALS = {"total", "totals", "grand_total", "sum", "mean", "average", "avg", "overall", "accuracy"}
_FEW = 30  # different numbers up to which they may be classes
_SOME = 10  # numbers up to which they are taken for classes without being asked
_TOGETHER = 0.5  # correlation of answers with labels that they hardly ever equal
_RARE, _SPIKE = 0.1, 3  # fraction of classes that are right, at least, and times those next to them


def refuse_totals(table: Table) -> None:
    """Raise a ValueError if the last row sums the others up: no row is a prediction then."""
    for place, (name, column) in enumerate(table.columns.items()):
        role = role_of(name).rstrip("?")
        if column.codes is None or not (place == 0 or role in ("label", "prediction")):
            continue
        last = column.codes[-1]
        alone = last >= 0 and (column.codes == last).sum() == 1 < table.rows
        if alone and plain(column.words[last]) in _TOTALS:
            raise table.cell_error(
                name, "of a prediction in every row; leave sums of others out", table.rows - 1
            )


def refuse_tables(table: Table) -> None:
    """Raise a ReadingError if rows are of classes, of epochs or of boxes, and not of predictions.

    Or if there is a truth and an answer for each of several tasks.
    """
    names = {plain(name): name for name in table.columns}
    if {"precision", "recall"} <= {*names} and table.rows <= _SUMMED:
        raise ReadingError(table.source, f"it holds scores of classes, and no predictions: {_ROW}")
    training = {"loss", "train_loss", "training_loss", "val_loss", "eval_loss"} & {*names}
    told = _any(names, "label") or _any(names, "prediction") or _any(names, "correct")
    if training and {"epoch", "epochs", "step"} & {*names} and not told:
        raise ReadingError(table.source, f"it is a log of training, a row an epoch or step: {_ROW}")
    outputs = any(_any(names, role) for role in ("prediction", "probability", "logit"))
    held = _any(names, "label") and outputs and not _IMAGES & {*names}
    if any(each <= {*names} for each in _BOXES) and not (held or _any(names, "label", sure=True)):
        raise ReadingError(
            table.source,
            f"its rows are boxes of objects in images, which may miss some: {_ROW}; of boxes that "
            "are matched to true ones it would do, with a column true_label",
        )
    pairs = _of_tasks(table, names)
    if len(pairs) > 1:
        (true, said), (true_2, said_2) = pairs[:2]
        role = (
            "probability" if "pr" in said.lower() and "pred" not in said.lower() else "prediction"
        )
        role = "probability" if (table.columns[said].numbers % 1 > 0).any() else role
        option = shlex.quote(f"label={true},{role}={said}")
        raise ReadingError(
            table.source,
            f"it holds several labels or tasks at once, {true!r} with {said!r} and {true_2!r} with "
            f"{said_2!r}{', ...' * (len(pairs) > 2)}: a report is of one of them.",
            f"--map {option} reads the first.",
        )


def _any(names: Iterable[str], role: str, sure: bool = False) -> bool:
    """Whether a column has a role, by a name that is sure or by any."""
    return any(role_of(n) == role or (not sure and role_of(n).startswith(role)) for n in names)


def _of_tasks(table: Table, names: dict[str, str]) -> list[tuple[str, str]]:
    """Pairs of a truth and an answer that share a word of their own, where nothing else is true.

    None if the truths are one label, with a 1 in one column of each row.
    """
    true: dict[str, str] = {}
    said: dict[str, str] = {}
    for word, name in names.items():
        parts = word.split("_")
        ends = [(parts[0], "_".join(parts[1:])), (parts[-1], "_".join(parts[:-1]))]
        for end, stem in ends if len(parts) > 1 else ():
            if end in _TRUE | _SAID and not role_of(stem).startswith(("label", "prediction")):
                (true if end in _TRUE else said).setdefault(stem, name)
                break
    said = {stem: name for stem, name in said.items() if stem not in _NO_TASKS}
    true |= {word: names[word] for word in said if word in names}
    pairs = [(true[stem], said[stem]) for stem in said if true.get(stem, said[stem]) != said[stem]]
    others = {*names.values()} - {name for pair in pairs for name in pair}
    if len(pairs) < 2 or _any(others, "label"):
        return []
    columns = [table.columns[name] for name, _ in pairs]
    if any((each.numbers % 1 > 0).any() or each.text for each in columns):
        return []
    if all(each.numeric for each in columns):
        total = np.column_stack([each.numbers for each in columns]).sum(axis=1)
        if (total[~np.isnan(total)] == 1).all():
            return []
    return pairs


def refuse_confusion(source: str, label: Column | None, matrix: np.ndarray) -> None:
    """Raise a ReadingError if a row counts all predictions of a class, and not one."""
    if label is None or not len(matrix) == matrix.shape[1] == len(label.values()[1]):
        return
    if (matrix % 1 == 0).all() and matrix.min() >= 0 and (matrix > 1).any():
        raise ReadingError(
            source,
            f"it seems to be a confusion matrix: {len(matrix)} rows of counts, one a class of "
            f"{label.name!r}. A report needs a row for each prediction.",
        )


def refuse_other_tasks(
    table: Table, label: Column, answers: Sequence[Column], asked: bool = False
) -> None:
    """Raise a ReadingError where a label holds several at once, or numbers that are no classes.

    Or where rows count predictions.  If they were `asked` for, numbers of few values are classes.
    """
    source = table.source
    if words := several(label.values()[1]):
        raise ReadingError(
            source,
            f"{label.name!r} holds several labels at once, such as {short(repr(words))}: these are "
            "not read. A file for one of them would do: 1 or 0, and its probability.",
        )
    for answer in answers:
        if answer is not label and (name := counting(table, label, answer)):
            raise ReadingError(
                source,
                f"{name!r} seems to count predictions, of which a report needs a row each; with "
                f"pandas: frame.loc[frame.index.repeat(frame[{name!r}])]",
            )
        if off := shifted(label, answer):
            raise ReadingError(
                source,
                f"{label.name!r} and {answer.name!r} seem to count classes from different numbers: "
                f"they agree in {off[0]:.1%} of the rows, and in {off[1]:.1%} if the answers "
                f"are counted from {off[2]:.0f}. Number them alike.",
            )
        if numbers(label, answer, _FEW):
            raise ReadingError(
                source,
                f"{label.name!r} and {answer.name!r} are numbers that go together and are rarely "
                f"equal: {NO_REPORT}, only of classes.",
            )
        if not asked and numbers(label, answer, _SOME):
            option = shlex.quote(f"label={label.name},prediction={answer.name}")
            raise ReadingError(
                source,
                f"{label.name!r} and {answer.name!r} seem to be numbers: they go together and are "
                f"off by 1 as often as equal. Of numbers there is no report; --map {option} takes "
                "them for classes.",
            )


def counting(table: Table, label: Column, answer: Column) -> str:
    """The column that counts how often labels were answered, in a table of little else."""
    counts = [name for name in table.columns if plain(name) in _COUNTS]
    pairs = np.column_stack([label.values()[0], answer.values()[0]])
    if not counts or len(table.columns) > _LITTLE or len(np.unique(pairs, axis=0)) < len(pairs):
        return ""
    return counts[0] if (table.columns[counts[0]].numbers > 1).any() and len(pairs) > 1 else ""


def several(names: Sequence[str]) -> str:
    """A name that is made of others, if all that are made of parts share these; else empty."""
    parts = {name: [*filter(None, _APART.split(name.strip("[](){} ")))] for name in names}
    spaced = {name: name.split() for name in names}
    words = [name for name, each in spaced.items() if len({*each}) > 1]
    if len(words) > 2 and all({*spaced[name]} <= {*names} for name in words):
        return words[0]  # such as: a, b, c, a b, a c, b c
    made = [name for name, each in parts.items() if len(each) > 1]
    counts = Counter(part for each in parts.values() for part in {*each})
    shared = all(counts[part] > 1 for name in made for part in parts[name])
    return made[0] if len(made) > 1 and shared else ""


def refuse_values(table: Table, answers: Sequence[Column]) -> None:
    """Raise a ReadingError if answers without a label are of too many numbers to be classes."""
    for answer in answers:
        found = np.unique(answer.numbers[~np.isnan(answer.numbers)])
        many = len(found) > max(_FEW, table.rows / 2) and (found % 1 == 0).all()
        if many and answer.numeric and role_of(answer.name) == "prediction":
            raise ReadingError(
                table.source,
                f"{answer.name!r} holds {len(found):,} different numbers in {table.rows:,} rows, "
                f"which are no classes: {NO_REPORT}.",
            )


def numbers(label: Column, answer: Column, few: int = _FEW) -> bool:
    """Whether answers follow the label as numbers do, not as classes.

    Errors of numbers are mostly small: they are as often off by one as right.
    """
    if (pair := _pair(label, answer)) is None:
        return False
    true, said = pair
    if len(np.unique(true)) <= few or len(np.unique(said)) < 2:
        return False
    right, off_by_1 = (true == said).mean(), (abs(true - said) == 1).mean()
    if right >= max(_RARE, _SPIKE * off_by_1 / 2):
        return False
    return bool(right < _TOGETHER < np.corrcoef(true, said)[0, 1])


def shifted(label: Column, answer: Column) -> tuple[float, float, float] | None:
    """Agreement as it is and one number further, and where this begins, if it is that clearly.

    Of few classes both ranges have to fit better, too: a model may answer one too many.
    """
    if (pair := _pair(label, answer)) is None or len(pair[0]) < _FEW:
        return None
    true, said = pair
    found, most = np.unique(true, return_counts=True)
    plain, most = (true == said).mean(), most.max() / len(true)
    for step in (1, -1):
        moved = (true == said + step).mean()
        spans = [np.ptp(np.r_[true.min(), true.max(), said + by]) for by in (0, step)]
        clear = moved > most and (most > plain or moved > _SPIKE * plain)
        if clear and (len(found) > _FEW or spans[1] < spans[0]):
            return plain, moved, min(true.min(), (said + step).min())
    return None


def _pair(label: Column, answer: Column) -> tuple[np.ndarray, np.ndarray] | None:
    """Numbers of both where both are known."""
    if not (label.numeric and answer.numeric):
        return None
    known = ~np.isnan(label.numbers) & ~np.isnan(answer.numbers)
    return label.numbers[known], answer.numbers[known]

"""What numbers of a model are: probabilities, their logarithms, logits, one number or many."""

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from lib.report.naming import Family
from lib.report.tables import Column

Array = npt.NDArray[Any]

SUM = 1e-3  # by how much rows of probabilities may miss 1, beside what rounding explains
_MOST_SUM = 0.5
_UNDEFINED = "no"
_OTHER = "other"  # a class of which there is no label
_BLOCK = 1 << 12  # rows
_TOLD = 5  # sentences of a kind
_MOST_ORDERED = 1000  # classes of which another order is tried
_FEW_ROWS, _CLEAR = 5, 0.05  # by which another order of classes must be better, in rows and of all
_ERRORS = 3.5  # and in standard errors: both halves use the same rows, so more than of a normal
_SIGN = re.compile("[<>#*$%&@!?^≤≥]")
_INTEGER = re.compile("-?[0-9]{1,15}")
#: Words for the second of two classes.
POSITIVE = ("yes", "true", "positive", "pos", "spam", "1", "malignant", "fraud", "toxic", "hate",
            "abnormal", "disease", "sick", "bad")  # fmt: skip

#: Cells that say whether, as :func:`same` writes them.
FLAGS = {"1": True, "true": True, "yes": True, "y": True, "t": True,
         "0": False, "false": False, "no": False, "n": False, "f": False}  # fmt: skip


@dataclass
class Candidate:
    """One way to read a file: what the model says and what is true, of every row."""

    labels: Array  # (rows,), -1 where unknown
    classes: tuple[str, ...]
    says: list[str]
    option: str  # of --map that chooses it
    logits: Array | None = None
    predicted: Array | None = None
    confidence: Array | None = None
    correct: Array | None = None  # NaN where unknown
    guess: bool = False
    ordered: bool = False  # classes by the columns' order alone
    contrary: bool = False  # against what the names say: never chosen without being asked
    rivals: dict[str, Array] = field(default_factory=dict)  # predicted, by name of the model

    @property
    def answers(self) -> Array | None:
        """Predicted classes, -1 where there is none; None if only correctness is known."""
        if self.predicted is not None:
            return self.predicted
        if self.logits is None:
            return None
        blank = np.isnan(self.logits).any(axis=1)
        return np.where(blank, -1, np.where(np.isnan(self.logits), -np.inf, self.logits).argmax(1))

    def scored(self, rows: Array) -> tuple[float, float] | None:
        """Accuracy, and that of the commonest class, of labeled rows; None without any."""
        if self.correct is not None:
            known = rows & ~np.isnan(self.correct)
            return (float(self.correct[known].mean()), 0.0) if known.any() else None
        known = rows & (self.labels >= 0)
        answers = self.answers
        if answers is not None:
            known &= answers >= 0
        if not known.any() or answers is None:
            return None
        counts = np.bincount(self.labels[known])
        return float((answers == self.labels)[known].mean()), float(counts.max() / known.sum())

    def better_order(self, rows: Array) -> tuple[float, float] | None:
        """Accuracy as it is, and with the classes in another order, if that is clearly more.

        What fits one half of the rows best is tried on the other.  Of a model that guesses, rows
        gained there are differences of two equal chances: their sum is held against its own error,
        which at most one such file in a hundred exceeds (simulated).
        """
        known = np.flatnonzero(rows & (self.labels >= 0) & (self.answers >= 0))
        k, n = len(self.classes), len(known)
        if k > _MOST_ORDERED:
            return None
        pairs = self.labels[known] * k + self.answers[known]
        halves = [np.bincount(pairs[j::2], minlength=k * k).reshape(k, k) for j in (0, 1)]
        gain = changed = 0
        for one, other in (halves, halves[::-1]):
            rows_of, order = optimize.linear_sum_assignment(one, maximize=True)
            moved = rows_of[order != rows_of]
            won, lost = other[moved, order[moved]].sum(), other[moved, moved].sum()
            gain, changed = gain + int(won - lost), changed + int(won + lost)
        right = int(halves[0].trace() + halves[1].trace())
        least = max(_FEW_ROWS, _CLEAR * n, _ERRORS * math.sqrt(changed))
        return (right / n, (right + gain) / n) if gain > least else None

    def ranks(self, rows: Array) -> float | None:
        """Area under the ROC curve of the second of two classes; None if there are others."""
        if self.logits is None or self.logits.shape[1] != 2:
            return None
        with np.errstate(invalid="ignore"):
            score = self.logits[:, 1] - self.logits[:, 0]
        known = rows & (self.labels >= 0) & ~np.isnan(score)
        second = self.labels[known] == 1
        if second.all() or not second.any():
            return None
        return auc(score[known], second)


def auc(score: Array, second: Array) -> float:
    """Area under the ROC curve, ties half."""
    others, ones = np.sort(score[~second]), score[second]
    below = 0  # twice the pairs in order, block by block: of all rows at once it takes much memory
    for start in range(0, len(ones), _BLOCK):
        block = ones[start : start + _BLOCK]
        below += int(np.searchsorted(others, block, "left").sum())
        below += int(np.searchsorted(others, block, "right").sum())
    return below / (2 * len(others) * len(ones))


# --- columns of classes ---------------------------------------------------------------------------


def kind_of(matrix: Array) -> str:
    """Of what kind rows of numbers are, one column a class.

    ``probabilities``, ``percent`` and ``log probabilities`` are recognized by their sums, ``one
    hot`` by its zeros and ones, ``votes`` are whole numbers of one sum; ``shares`` are in [0, 1]
    without a sum of 1; others ``logits``.
    """
    kinds: set[str] = set()
    step = _step(matrix)
    for start in range(0, len(matrix), _BLOCK):  # copies of all rows would take much memory
        block = matrix[start : start + _BLOCK]
        known = block[~np.isnan(block).any(axis=1)].astype(float)
        if len(known):
            kinds.add(_kind_of_block(known, step))
        if "logits" in kinds:
            return "logits"
    if not kinds:
        return _UNDEFINED
    if len(kinds) == 1:
        return kinds.pop()
    if kinds == {"one hot", "probabilities"}:
        return "probabilities"
    return "shares" if kinds <= {"one hot", "probabilities", "shares"} else "logits"


def base_of(matrix: Array) -> int:
    """The base, 10 or 2, of which rows are the logarithms of probabilities; 0 if of neither."""
    if np.nanmax(matrix, initial=-np.inf) > 0:
        return 0
    few = matrix[: 2 * _BLOCK]
    for base in (10, 2):
        if "log probabilities" == kind_of(few * math.log(base)) == kind_of(matrix * math.log(base)):
            return base
    return 0


def _kind_of_block(known: Array, step: float) -> str:
    """The kind of some rows whose last decimal is of that unit, 0 if there is none."""
    low, high, k = known.min(), known.max(), known.shape[1]
    if low >= 0 and high < np.inf and (kind := _kind_of_sums(known, high, 0.5 * k * step)):
        return kind
    # Logarithms that are each off by half a unit: so is that of the sum of their exponentials.
    most = SUM + step / 2 * (step < 1)
    if high <= SUM and (abs(special.logsumexp(known, axis=1)) <= most).all():
        return "log probabilities"
    return "logits"


def _kind_of_sums(known: Array, high: float, off: float) -> str:
    """The kind of rows, none of them negative, that rounding changes by so much at most; or empty.

    Where most of many classes are rounded to 0, percentages may lack any part of 100.
    """
    sums, whole = known.sum(axis=1), (known % 1 == 0).all()
    off += 1e-9  # 1.02 - 1 is above 0.02
    if high <= 1 + SUM:
        if whole and (sums == 1).all():
            return "one hot"
        most = max(SUM, min(_MOST_SUM, off))
        return "probabilities" if (abs(sums - 1) <= most).all() else "shares"
    if high <= 100 + SUM:
        least, most = 100 - max(100 * SUM, off), 100 + max(100 * SUM, min(100 * _MOST_SUM, off))
        if ((sums >= least) & (sums <= most)).all():
            return "percent"
    return "votes" if whole and np.ptp(sums) == 0 else ""


def _step(values: Array) -> float:
    """The unit of the last decimal in which all values are written; 0 if there is none."""
    some = values[:: max(1, len(values) // 200)].astype(float)
    some = some[~np.isnan(some).any(axis=1)]
    for digits in range(7):
        if np.allclose(some, np.round(some, digits), rtol=0, atol=1e-9):
            return 10.0**-digits
    return 0.0


def log_of(probabilities: Array) -> tuple[Array, str]:
    """Logarithms; those of 0 are that of the smallest number that is not, or of rounding."""
    found = np.asarray(probabilities)
    kind = found.dtype if found.dtype in (np.float32, np.float64) else np.float64
    found = found.astype(kind, copy=False)
    zeros = found <= 0
    if not zeros.any():
        return np.log(found), ""
    least = float(np.min(found, initial=1.0, where=found > 0))
    floor = min(float(np.finfo(kind).eps), least)
    logs = np.where(zeros, np.array(floor, kind), found)
    np.log(logs, out=logs)
    return logs, (
        f"{int(zeros.sum()):,} of them {'are' if zeros.sum() > 1 else 'is'} 0, taken as {floor:.2g}"
    )


def finite(logits: Array) -> tuple[Array, str]:
    """Logits whose minus infinities, which say probability 0, are far below the row's largest."""
    lowest = np.isneginf(logits)
    if not lowest.any():
        return logits, ""
    others = np.where(lowest, np.nan, logits)
    usable = np.isfinite(others).any(axis=1)
    with np.errstate(invalid="ignore"):
        top = np.where(usable, np.nanmax(np.where(usable[:, None], others, 0.0), axis=1), 0.0)
    reach = min(-math.log(np.finfo(float).eps), 700.0)
    found = np.where(lowest & usable[:, None], top[:, None] - reach, logits)
    count = int((lowest & usable[:, None]).sum())
    return found, (
        f"{count:,} {'values are' if count > 1 else 'value is'} minus infinity (probability 0), "
        f"taken as {reach:.0f} below the row's largest"
    )


def as_logits(matrix: Array, kind: str) -> tuple[Array, list[str]]:
    """Logits of numbers of a kind, and sentences on how they came about."""
    if kind in ("probabilities", "one hot", "percent", "shares", "votes"):
        scaled = matrix / 100 if kind == "percent" else matrix
        if kind in ("shares", "votes"):
            total = scaled.sum(axis=1, keepdims=True)
            scaled = scaled / np.where(total > 0, total, 1.0)
        logs, zeros = log_of(scaled)
        logs[np.isnan(matrix)] = np.nan
        return logs, [zeros] * bool(zeros)
    found, said = finite(matrix)
    return found, [said] * bool(said)


def two_logits(second: Array, kind: str) -> tuple[Array, list[str]]:
    """Log probabilities of both classes from one number of the second."""
    said: list[str] = []
    if kind == "logit":
        values = np.clip(second, -700, 700)
    else:
        p = second / 100 if kind == "percent" else second
        edge = (p <= 0) | (p >= 1)
        if edge.any():
            inner = p[(p > 0) & (p < 1)]
            floor = min(
                float(np.finfo(float).eps), float(np.minimum(inner, 1 - inner).min(initial=1.0))
            )
            p = np.clip(p, floor, 1 - floor)
            said = [f"{int(edge.sum()):,} of them are 0 or 1, taken as {floor:.2g} from it"]
        found = np.empty((len(p), 2))
        np.log1p(-p, out=found[:, 0])
        np.log(p, out=found[:, 1])
        return found, said
    return np.column_stack([special.log_expit(-values), special.log_expit(values)]), said


def is_positive(word: str) -> bool:
    """Whether a word is for the second of two classes."""
    return same(word) in POSITIVE or same(word).endswith("_plus")


def is_flag(cell: str) -> bool:
    """Whether a cell says yes or no."""
    return same(cell) in FLAGS


def flags(places: Array, names: Sequence[str]) -> Array:
    """What cells of yes and no say; an empty one says no."""
    return np.array([*(FLAGS[same(name)] for name in names), False])[places]


# --- labels ---------------------------------------------------------------------------------------


def same(name: str) -> str:
    """A name of a class as it is compared: case, signs and a leading ``class`` do not count."""
    if _INTEGER.fullmatch(name.strip()):
        return str(int(name))
    name = unicodedata.normalize("NFC", name)  # an accent may be a letter of its own
    name = re.sub(r"\+", " plus ", re.sub(r"-(?!\w)", " minus ", name))  # HER2+ and HER2- differ
    name = _SIGN.sub(lambda found: f" x{ord(found[0]):x} ", name)  # C and C#, >50K and <50K too
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()
    name = re.sub(r"[\W_]+", "_", name).strip("_") or name.strip()  # letters of any alphabet
    word = re.sub(r"^(class|label|category|cls)_?(?=\d)", "", name)
    return str(int(word)) if _INTEGER.fullmatch(word) else word


def spelled_apart(columns: Sequence[Sequence[str]]) -> tuple[set[str], list[str]]:
    """Names that only spelling tells apart, such as a and A, and what is said of others like them.

    Where two columns have both spellings they are two classes; where one has, it is careless.
    """
    groups: dict[str, list[set[str]]] = {}
    for place, words in enumerate(columns):
        for word in words:
            groups.setdefault(same(word), [set() for _ in columns])[place].add(word)
    apart, said = set(), []
    for found in groups.values():
        if sum(len(each) > 1 for each in found) > 1:
            apart |= set().union(*found)
        elif any(len(each) > 1 for each in found):
            words = ", ".join(map(repr, sorted(set().union(*found))))
            said.append(f"{words} are taken for one class")
    return apart, said[:_TOLD]


@dataclass(frozen=True)
class Labels:
    """One way to number the cells of a label column."""

    codes: Array
    says: str
    option: str = ""
    guess: bool = False
    ordered: bool = False
    names: tuple[str, ...] = ()  # of the classes, where columns have none


def number_labels(column: Column, keys: list[str], given: dict[str, str]) -> list[Labels]:
    """Every way in which a label column may name the classes, one a column; empty if none.

    `given` may hold ``first``, the number of the first class.
    """
    places, names = column.values()
    k, said = len(keys), f"{column.name!r} is the label"
    exact = {*names} <= {*keys, "-1"}  # then a class a beside a class A is another one
    as_one = str if exact else same
    by_key = {as_one(key): j for j, key in enumerate(keys)}
    numbers = [float(n) for n in names] if column.numeric else []
    whole = column.numeric and all(n == int(n) for n in numbers)
    unknown = "-1" in names and len(names) > 1 and not (set(names) == {"-1", "1"} and k == 2)
    unknown &= "-1" not in by_key
    known = [name for name in names if not (unknown and name == "-1")]
    signs = whole and k == 3 and {*names} == {"-1", "0", "1"} and unknown  # -1 may be a class
    named = all(as_one(n) in by_key for n in known) and len(by_key) == k
    if "first" not in given and named and not signs:
        table = [by_key.get(as_one(n), -1) if n in known else -1 for n in names]
        how = "by the names of the columns" if not whole else "with the numbers of the columns"
        how += ", -1 where it is unknown" * unknown
        return [Labels(_coded(table, places), f"{said}, {how}")]
    sure = [j for j, key in enumerate(keys) if is_positive(key)]
    yes = [n for n in known if is_positive(n)]
    worded = not {"first", "positive"} & {*given} and not all(map(_INTEGER.fullmatch, by_key))
    if worded and k == len(known) == 2 and len(sure) == len(yes) == 1 and "2" not in known:
        table = [sure[0] if n in yes else 1 - sure[0] if n in known else -1 for n in names]
        return [Labels(_coded(table, places), f"{said}: {yes[0]!r} is {keys[sure[0]]!r}")]
    if whole:
        found = _numbered(numbers, places, k, given, said, unknown)
        if "first" in given or (all(_INTEGER.fullmatch(key) for key in by_key) and not signs):
            return found
        shown = ", ".join(map(repr, keys[:4])) + ", ..." * (k > 4)
        return [
            replace(
                one,
                says=f"{one.says}, in the order of the columns, {shown}",
                guess=True,
                ordered=k > 2,
            )
            for one in found
        ]
    if column.numeric or len(names) > k:
        return []
    return _worded(list(names), places, keys, given, said)


def _coded(table: list[int], places: Array) -> Array:
    return np.array([*table, -1], dtype=np.int64)[places]


def _numbered(
    numbers: list[float], places: Array, k: int, given: dict[str, str], said: str, unknown: bool
) -> list[Labels]:
    known = [int(n) for n in numbers if not (unknown and n == -1)]
    if not known:
        return []
    low, high = min(known), max(known)
    if k == 2 and set(known) == {-1, 1}:
        table = [0 if n < 0 else 1 for n in numbers]
        return [Labels(_coded(table, places), f"{said}: -1 is the first class, 1 the second")]
    found = []
    for first in (-1, 0, 1):
        if first < 0 and not (k == 3 and {*numbers} == {-1, 0, 1}):
            continue
        if not (low >= first and high < k + first):
            continue
        if "first" in given and given["first"] != str(first):
            continue
        table = [int(n) - first if n >= first else -1 for n in numbers]
        how = f"counted from {first}, so that {k + first - 1} is the last class"
        how = "counted from 0" if first == 0 else how
        found.append(Labels(_coded(table, places), f"{said}, {how}", f"first={first}"))
    if not found and k == len(known) == 2 and "first" not in given:  # such as 2 and 4
        table = [known.index(int(n)) if int(n) in known else -1 for n in numbers]
        how = f"{said}: {low} is the first class, {high} the second"
        return [Labels(_coded(table, places), how, guess=True)]
    if len(found) > 1:
        found = [Labels(one.codes, one.says, one.option, True) for one in found]
    return found


def _worded(
    names: list[str], places: Array, keys: list[str], given: dict[str, str], said: str
) -> list[Labels]:
    """Words that no column bears: in the order of the alphabet; two of them in either order."""
    if len(names) == 1 and len(keys) == 2:
        return _alone(names[0], places, given, said)
    if len(names) != len(keys):
        return []
    order = sorted(range(len(names)), key=lambda j: names[j])
    if len(keys) == 2:
        second = given.get("positive", "")
        sure = [j for j in (0, 1) if is_positive(names[j])]
        if second:
            orders = [[1 - j, j] for j in (0, 1) if names[j] == second]
        elif len(sure) == 1:  # columns by other names may be in another order
            named = not all(_INTEGER.fullmatch(same(key)) for key in keys)
            return [_in_order([1 - sure[0], sure[0]], names, places, said, named)]
        else:
            orders = [order, order[::-1]]
        return [_in_order(one, names, places, said, not second) for one in orders]
    return [_in_order(order, names, places, said, True)]


def _alone(name: str, places: Array, given: dict[str, str], said: str) -> list[Labels]:
    """The only word of two classes: the second if it is a word for that, else either."""
    told = given.get("positive", name if is_positive(name) else "")
    return [
        Labels(
            _coded([j], places),
            f"{said}, {name!r} alone, the {('first', 'second')[j]} class",
            f"positive={(_OTHER, name)[j]}",
            not told,
            names=((name, _OTHER), (_OTHER, name))[j],
        )
        for j in (1, 0)
        if not told or (told == name) == j
    ]


def _in_order(order: list[int], names: list[str], places: Array, said: str, guess: bool) -> Labels:
    table = [0] * len(names)
    for place, j in enumerate(order):
        table[j] = place
    shown = ", ".join(repr(names[j]) for j in order[:4]) + ", ..." * (len(order) > 4)
    option = f"positive={names[order[1]]}" if len(order) == 2 else ""
    how = f"{said}, in words; the columns are {shown} in this order"
    return Labels(
        _coded(table, places), how, option, guess, len(order) > 2, tuple(names[j] for j in order)
    )


def one_hot(matrix: Array, family: Family) -> tuple[Array, str]:
    """Classes of rows with one 1 among zeros, -1 where a row is empty."""
    blank = np.isnan(matrix).any(axis=1)
    codes = np.where(blank, -1, np.nan_to_num(matrix).argmax(axis=1))
    return codes.astype(np.int64), f"the label is the column with a 1 among {family.shown}"

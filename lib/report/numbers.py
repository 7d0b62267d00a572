"""One number a row: of the second class or of the predicted one; and predictions alone."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.report import outputs
from lib.report.mapped import check_numbers
from lib.report.naming import families, plain, role_of
from lib.report.outputs import Candidate
from lib.report.tables import Column

Array = npt.NDArray[Any]

_ROUNDING = 1e-9
_BEYOND = 1e-3  # by which a probability may be below 0 or above 1, as sums of rounded ones are
_LITTLE = 2.0  # a largest percentage that is more likely to be of another scale
_NAMED = ("probability", "confidence", "logit")  # roles of names that are sure
#: Roles of one number, the surest first.
_ROLES = (*_NAMED, "probability?", "prediction", "logit?", "probability??")
_HALF = 50  # what a confidence in percent exceeds somewhere
_PERCENT = re.compile("prob|percent|pct|%")
_PROBABLE = re.compile("^(?!.*log).*prob", re.I)
#: Words for how sure a model is, in order.
_SCALE = ("very low", "low", "medium", "high", "very high")
_MEDIUM = {"moderate": "medium", "mid": "medium", "med": "medium"}
#: Last words of names of numbers that may be a probability of the second class.
_SCORES = {"score", "scores", "risk", "likelihood"}
#: Last words of names of how sure a model is, beside what it answered.
_SURE = ("conf", "confidence", "score", "prob", "probability", "proba")
#: Words of names of the probability of one class, beside that of the class.
_PROBABILITY = {"p", "pr", "prob", "proba", "probability", "predicted"}
_OF_CLASS = _PROBABILITY | {"of", "class", "y", "pred", "label", "is", "model"}
#: Names of how unsure a model is.
_UNSURE = {"uncertainty", "entropy", "predictive_entropy", "total_uncertainty"}
NO_CONFIDENCE = "there is no confidence: nothing tells which answers are surer"


class Numbers:
    """Readings of a single number; see :meth:`find`."""

    def __init__(self, parent: Any) -> None:
        self.parent, self.mapper = parent, parent.mapper
        self.table, self.mapped, self.label = parent.table, parent.mapped, parent.label
        self.rows = parent.rows
        self.guessed = False  # whether the column's name is no sure sign

    def find(self) -> list[Candidate]:
        """Of the second class, of the predicted class, or both where neither is excluded."""
        columns = self.columns()
        prediction = None
        if "probability" not in self.mapped and "logit" not in self.mapped:
            prediction = self.prediction()
        if not columns:
            if prediction is not None:
                self.mapper.used.discard(prediction.name)
            return []
        column = columns[0]
        kind = self.kind(column)
        sure = "confidence" in self.mapped or role_of(column.name) == "confidence"
        unsigned = kind == "logit" and self.unsigned(column)
        if unsigned and (sure or (prediction is not None and self.ends(column)[0] >= 0)):
            kind = "percent" if _HALF < self.ends(column)[1] <= 100 else kind
            sure |= kind == "logit"  # of the second class it would contradict the answers
        of_second = [] if sure else self.of_second(columns, kind)
        if unsigned and kind == "logit" and not sure:
            of_second = self.on_a_scale(columns, of_second)
        if prediction is None:
            found = of_second
        else:
            confidence = self.of_predicted(column, kind, prediction)
            found = self.by_prediction(of_second, confidence, prediction)
            if self.parent.guessed and found == confidence:  # which has no such label
                self.mapper.used.discard(self.parent.label.name)
                self.parent.label, self.parent.guessed = None, False
            if not (sure or of_second or kind == "logit") and self.too_low(confidence, column):
                found = []
        if not found:
            for each in (*columns, *([prediction] * (prediction is not None))):
                self.mapper.used.discard(each.name)
        if not any(one.rivals for one in found):
            self.mapper.used -= {c.name for c in columns[1:]}
        return found

    def ends(self, column: Column) -> tuple[float, float]:
        """The least and the largest number."""
        values = column.numbers[self.rows & ~np.isnan(column.numbers)]
        return (float(values.min()), float(values.max())) if len(values) else (-1.0, 0.0)

    def unsigned(self, column: Column) -> bool:
        """Whether numbers that are called no logits would be of the second class in all rows."""
        named = "logit" in self.mapped or role_of(column.name).startswith("logit")
        return not named and (self.ends(column)[0] >= 0 or bool(_PROBABLE.search(column.name)))

    def on_a_scale(self, columns: list[Column], as_logits: list[Candidate]) -> list[Candidate]:
        """Readings of numbers of another scale, as percentages too: what is right more often."""
        low, high = self.ends(columns[0])
        percent = low >= 0 and high <= 100
        found = [*(self.of_second(columns, "percent") if percent else ()), *as_logits]
        for one in found:
            one.says.append(
                f"it goes from {low:g} to {high:g} (of another scale, make it a probability)"
            )
            one.guess, one.contrary = True, high > 100
        return found

    def too_low(self, confidence: list[Candidate], column: Column) -> bool:
        """Whether numbers are below what the largest of k probabilities can be."""
        values = column.numbers[self.rows & ~np.isnan(column.numbers)]
        k = len(confidence[0].classes) if confidence else 0
        if k == 0 or confidence[0].confidence is None or k * values.min() >= 1 - _ROUNDING:
            return False
        self.mapper.says.append(
            f"{column.name!r} is not the probability of the answer: it falls to "
            f"{values.min():.2g}, and the largest of {k} is at least 1 / {k}"
        )
        return True

    def columns(self) -> list[Column]:
        """Columns of such numbers, one a model; those of --map alone."""
        for role in ("probability", "logit", "confidence"):
            if names := self.mapper.given(role):
                label = None if self.label is None else self.label.name
                found = [self.table.columns[n] for n in names if n != label]
                check_numbers(self.table, found, self.rows, role == "probability")
                self.mapper.used.update(c.name for c in found)
                return found
        found, gaps = [], []
        for role in _ROLES:
            for name in self.mapper.by_role.get(role, ()):
                if name in self.mapper.used:
                    continue
                column = self.table.columns[name]
                if role != "prediction":
                    column = self.filled(name, role)
                if not column.numeric or column.empty[self.rows].any():
                    named = role in _NAMED or (role == "probability?" and self.alone())
                    gaps += [name] * (column.numeric and named)
                    continue
                if role == "prediction" and (column.numbers == np.floor(column.numbers)).all():
                    continue  # a class, unless it has a fraction
                found.append(column)
        if gaps and not found and not self.table.columns[gaps[0]].empty[self.rows].all():
            empty = self.table.columns[gaps[0]].empty & self.rows
            allowed = "a number in every row; leave rows without an answer out"
            raise self.table.cell_error(gaps[0], allowed, int(empty.argmax()))
        if not found:
            for family in families(self.parent.numeric()):
                columns = [self.table.columns[n] for n in family.columns.values()]
                words = f"{family.before} {family.after}"
                if ("prob" in words or "score" in words or "pred" in words) and all(
                    not c.empty[self.rows].any()
                    and (self.kind(c) == "probability" and (c.numbers != np.floor(c.numbers)).any())
                    for c in columns
                ):
                    found = columns
                    break
        found = found or self.of_class()
        if not found and not self.mapper.by_role.get("prediction"):
            found = self.scores()
        kept = [c for c in found if self.kind(c) == self.kind(found[0])][:50]
        self.mapper.used.update(c.name for c in kept)
        return kept

    def alone(self) -> bool:
        """Whether no column says what the model answered, so that a number has to."""
        said = ("prediction", "prediction?", "prediction??", "correct")
        return self.label is not None and not any(self.mapper.by_role.get(role) for role in said)

    def filled(self, name: str, role: str) -> Column:
        """The column; words in order as numbers, and the least number where it abstained."""
        column = self.table.columns[name]
        words = [" ".join(plain(w).split("_")) for w in column.words]
        words = [_MEDIUM.get(word, word) for word in words]
        if role == "confidence" and column.codes is not None and {*words} <= {*_SCALE}:
            place = np.array([*map(_SCALE.index, words), np.nan])
            column = replace(column, numbers=place[column.codes], codes=None, words=())
            order = " < ".join(word for word in _SCALE if word in words)
            self.mapper.says.append(f"{name!r} is in words: {order}")
        silent, blank = self.mapper.abstained, column.empty
        if silent is not None and column.numeric and not blank.all():
            least = np.nanmin(column.numbers)
            column = replace(column, numbers=np.where(blank & silent, least, column.numbers))
        self.table.columns[name] = column
        return column

    def scores(self) -> list[Column]:
        """The only column of numbers from 0 to 1 that is called a score, as ``fraud_score``."""
        found = []
        for name in self.parent.numeric():
            column = self.table.columns[name]
            fraction = (column.numbers % 1 > 0).any()
            unit = self.kind(column) == "probability" and not column.empty[self.rows].any()
            if plain(name).split("_")[-1] in _SCORES and unit and fraction:
                found.append(column)
        self.guessed = len(found) == 1
        return found if self.guessed else []

    def prediction(self) -> Column | None:
        """The column of predicted classes, if it has few different values."""
        column = self.mapper.column("prediction")
        sure = self.label is not None and (
            role_of(self.label.name) == "label" or "label" in self.mapped
        )
        if column is None and sure and "prediction" not in self.mapped:
            # What is called a label, beside the truth, is what a model answered.
            column = self.labeled()
        if column is not None and self.label is not None:
            names = {*map(outputs.same, self.label.values()[1])}
            own = {*map(outputs.same, column.values()[1])}
            if not own & names:
                self.mapper.used.discard(column.name)
                return None
        return column

    def labeled(self) -> Column | None:
        """A column called a label whose cells are classes of the truth, all of them if there is."""
        truth = {*map(outputs.same, self.label.values()[1])}
        found = {}
        for name in (n for r in ("", "?", "??") for n in self.mapper.by_role.get(f"label{r}", ())):
            column = self.table.columns[name]
            if name not in self.mapper.used and not column.text:
                found[name] = {*map(outputs.same, column.values()[1])}
        named = [n for n, own in found.items() if own and own <= truth]
        named += [n for n, own in found.items() if len(own & truth) > 1]
        self.mapper.used.update(named[:1])
        return self.table.columns[named[0]] if named else None

    def kind(self, column: Column) -> str:
        """Of a number: a probability, a percentage or a logit."""
        if "logit" in self.mapped:
            return "logit"
        values = column.numbers[self.rows & ~np.isnan(column.numbers)]
        if not len(values) or values.min() < -_BEYOND:
            return "logit"
        if values.max() <= 1 + _BEYOND:
            return "probability"
        told = "probability" in self.mapped or _PERCENT.search(column.name.lower())
        return "percent" if _LITTLE < values.max() <= 100 and told else "logit"

    # --- of the second class ----------------------------------------------------------------------

    def of_second(self, columns: list[Column], kind: str) -> list[Candidate]:
        """Readings as the number of the second of two classes; a reversed one where it ranks so."""
        half = {"probability": 0.5, "percent": 50.0}.get(kind, 0.0)
        self.parent.answers = (columns[0].numbers > half).astype(np.int64)
        options = self.parent.labels(["0", "1"])
        if self.guessed and self.parent.label is None:
            return []
        if self.class_in(columns[0].name, self.class_names()) and "positive" not in self.mapped:
            options = options[:1]  # in either order the class of the name is the second
        column, found = columns[0], []
        for one in options:
            codes, names = one.codes, self.class_names()
            if one.option == f"positive={names[0]}":  # in the other order
                names = names[::-1]
            told = self.mapped.get("positive") or self.class_in(column.name, names)
            if len(names) == 2 and told == names[0]:
                codes, names = np.where(codes >= 0, 1 - codes, -1), names[::-1]
                said = one.says.partition("; the columns are")[0]
                one = replace(one, option=f"positive={told}", guess=False, says=said)
            logits, said = outputs.two_logits(column.numbers, kind)
            rivals = {
                c.name: outputs.two_logits(c.numbers, kind)[0].argmax(axis=1) for c in columns[1:]
            }
            what = {"probability": "the probability", "percent": "the percentage"}.get(kind)
            second = repr(names[1]) if len(names) == 2 else "the second class"
            says = [f"{column.name!r} is {what or 'the logit'} of the second class, {second}"]
            if rivals:
                says.append(f"{1 + len(rivals)} models: the first is reported on, others compared")
            role = "logit" if kind == "logit" else "probability"
            option = ",".join(filter(None, (f"{role}={column.name}", one.option)))
            found.append(
                Candidate(
                    codes, names, [*says, *said, one.says], option,
                    logits=logits, guess=one.guess or self.guessed, rivals=rivals,
                )
            )  # fmt: skip
        if len(found) == 1 and "positive" not in self.mapped and len(names) == 2:
            found += self.reversed(found[0], names, column)
        return found

    def class_in(self, name: str, names: Sequence[str]) -> str:
        """The class that a column's name has beside a word such as prob; empty if there is none."""
        ends = [class_of(name, word) for word in names]
        return next((word for word, end in zip(names, ends, strict=True) if end), "")

    def of_class(self) -> list[Column]:
        """The only column called the probability of one of two classes of the label, as P(No)."""
        label = self.parent.label
        names = label.values()[1] if label is not None else ()
        columns = [self.table.columns[n] for n in self.parent.numeric() if len(names) == 2]
        found = [
            each
            for each in columns
            if self.class_in(each.name, names)
            and self.kind(each) in ("probability", "percent")
            and not each.empty[self.rows].any()
        ]
        return found if len(found) == 1 else []

    def reversed(self, one: Candidate, names: tuple[str, ...], column: Column) -> list[Candidate]:
        """The reading with the classes exchanged, if the numbers rank the wrong way round."""
        ranks = one.ranks(self.rows)
        if ranks is None or ranks >= 0.5:
            return []
        one.guess = True
        other = Candidate(
            np.where(one.labels >= 0, 1 - one.labels, -1),
            names[::-1],
            [f"{column.name!r} is of the other class, {names[0]!r}"],
            f"{one.option.split(',')[0]},positive={names[0]}",
            logits=one.logits,
            guess=True,
            contrary=True,
        )
        if "positive=" not in one.option:
            one.option += f",positive={names[1]}"
        return [other]

    def class_names(self) -> tuple[str, ...]:
        """Of the two classes, as the label has them."""
        label = self.parent.label  # which may have been found by its cells
        if label is None:
            return ("0", "1")
        _, names = label.values()
        if len(names) != 2:
            return ("0", "1")
        if label.numeric:  # 1 and 2: 2 is the second
            return names
        sure = [n for n in names if outputs.is_positive(n)]
        if len(sure) == 1:
            return tuple(sorted(names, key=lambda n: n == sure[0]))
        return names

    # --- of the predicted class -------------------------------------------------------------------

    def as_confidence(self, column: Column) -> tuple[Array, bool]:
        """How sure the model is, and whether that was in percent."""
        low, high = self.ends(column)
        percent = self.kind(column) == "percent" or (low >= 0 and _HALF < high <= 100)
        percent &= not role_of(column.name).startswith("logit")
        return column.numbers / (100 if percent else 1), percent

    def of_predicted(
        self, column: Column, kind: str, prediction: Column, others: Sequence[Column] = ()
    ) -> list[Candidate]:
        """The reading as the confidence in the predicted class; `others` are of other models."""
        found = union(self, [prediction, *others])
        if found is None:
            return []
        labels, (predicted, *answers), classes, said = found
        p, percent = self.as_confidence(column)
        says = [f"{column.name!r} is the confidence in the predicted class, {prediction.name!r}"]
        says[0] += ", in percent" * percent
        option = f"confidence={column.name},prediction={prediction.name}"
        common = (labels, classes, [*says, *said], option)
        rivals = {c.name: codes for c, codes in zip(others, answers, strict=True)}
        k = len(classes)
        if kind != "logit" and k == 2 and (p >= 0.5 - _ROUNDING).all() and (predicted >= 0).all():
            logits, more = outputs.two_logits(p, "probability")
            logits = np.where((predicted == 1)[:, None], logits, logits[:, ::-1])
            common[2].extend(more)
            return [Candidate(*common, logits=logits, rivals=rivals)]
        return [Candidate(*common, predicted=predicted, confidence=p, rivals=rivals)]

    def by_prediction(
        self, of_second: list[Candidate], confidence: list[Candidate], prediction: Column
    ) -> list[Candidate]:
        """Readings that the predictions do not contradict; all where none or several are left."""
        if not confidence or "confidence" in self.mapped:
            return confidence or of_second
        (other,) = confidence
        codes, k = other.answers, len(other.classes)
        kept = []
        for one in of_second if k == 2 else []:
            second = one.logits[:, 1] - one.logits[:, 0]
            known = self.rows & (codes >= 0)
            high, low = second[known & (codes == 1)], second[known & (codes == 0)]
            if low.max(initial=-np.inf) <= high.min(initial=np.inf):  # some threshold explains it
                one.says.append(f"{prediction.name!r} agrees")
                if ((second > 0) == (codes == 1))[known].mean() < 1:
                    one.says[-1] += " with another threshold than a half, and is not used"
                kept.append(one)
        least = other.confidence if other.logits is None else other.logits.max(axis=1)
        floor = 1 / k if other.logits is None else -np.inf
        if (least[self.rows] >= floor - 1e-6).all():
            told = np.nan if other.logits is None else other.logits
            if kept and np.allclose(kept[0].logits, told):
                return kept
            if not kept or "conf" in other.says[0].split("'")[1].lower():
                return confidence
            for one in (*kept, other):
                one.guess = True
            return [*kept, other]
        for one in (*of_second, other):
            one.contrary = not kept
        return kept or [*of_second, other]


def class_of(name: str, word: str) -> bool:
    """Whether a name says that numbers are the probability of a class, as P(No) does of no."""
    words = plain(name).split("_")
    end = plain(word).split("_")
    for rest in (words[: -len(end)] if words[-len(end) :] == end else [],
                 words[len(end) :] if words[: len(end)] == end else []):  # fmt: skip
        if rest and {*rest} <= _OF_CLASS and {*rest} & _PROBABILITY:
            return True
    return plain(name) == f"p{plain(word)}" and word.isdecimal()


def union(
    parent: Any, columns: list[Column]
) -> tuple[Array, list[Array], tuple[str, ...], list[str]] | None:
    """Labels and predictions numbered alike, the names of all classes, and how.

    Names are compared without case and signs, unless two columns tell them apart by these; None if
    there are none, or too many.
    """
    label = parent.label
    given = [c.values() for c in columns]
    none = np.full(parent.table.rows, -1, dtype=np.int64)
    labels = (none, ()) if label is None else label.values()
    names: dict[str, str] = {}
    apart, careless = outputs.spelled_apart([words for _, words in (labels, *given)])

    def key(word: str) -> str:
        return word if word in apart else outputs.same(word)

    for _, words in (labels, *given):
        for word in words:
            names.setdefault(key(word), word)
    numbers = all(_is_number(n) for n in names)
    order = sorted(names, key=(lambda n: (float(n), n)) if numbers else str)
    if len(order) > 25_000 or not order:
        return None
    place = {name: j for j, name in enumerate(order)}

    def coded(found: tuple[Array, tuple[str, ...]]) -> Array:
        table = [place[key(word)] for word in found[1]]
        return np.array([*table, -1], dtype=np.int64)[found[0]]

    said = ["no column is known to be the label: --map label=COLUMN names it"]
    if label is not None:
        said = [f"{label.name!r} is the label"]
    said += careless
    return coded(labels), [coded(one) for one in given], tuple(names[n] for n in order), said


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return "_" not in word


def _partner(parent: Any, predicted: list[Column]) -> Column | None:
    """How sure the first model is: the column named as its answers but for the last word.

    Of a single model it is any that is called a confidence.
    """
    begin = plain(predicted[0].name).rpartition("_")[0]
    names = {f"{begin}_{word}" for word in _SURE} if begin else set()
    k, alone = len({*map(outputs.same, predicted[0].values()[1])}), len(predicted) == 1
    for name in parent.mapper.by_role.get("confidence", ()) if alone else ():
        Numbers(parent).filled(name, "confidence")
    for column in [parent.table.columns[n] for n in parent.numeric()]:
        values, called = column.numbers[parent.rows], role_of(column.name).rstrip("?")
        if column.empty[parent.rows].any():
            continue
        likely = ((k * values >= 1 - _ROUNDING) & (values <= 1)).all()
        if (alone and called == "confidence") or (plain(column.name) in names and likely):
            return column
    return None


def _weight(parent: Any) -> Column | None:
    """What speaks against an answer, of a single model: how likely there is none, or an entropy."""
    free = [parent.table.columns[name] for name in parent.numeric()]
    found = [*parent.mapper.weights, *(each for each in free if plain(each.name) in _UNSURE)]
    return next((each for each in found if not each.empty[parent.rows].any()), None)


def predictions(parent: Any) -> list[Candidate]:
    """Hard predictions, of one model or of several."""
    mapper, label = parent.mapper, parent.label
    names = mapper.given("prediction")
    columns = [parent.table.columns[n] for n in names]
    truth = set() if label is None else {*map(outputs.same, label.values()[1])}
    odd: set[str] = set()
    if not columns:
        roles = ("prediction", "prediction?", "prediction??", "label?", "label??")
        named = [name for role in roles for name in mapper.by_role.get(role, ())]
        for name in dict.fromkeys([*named, *parent.table.columns]):
            column = parent.table.columns[name]
            if name in mapper.used or column.text or column.empty.all():
                continue
            if column.numeric and (column.numbers % 1 > 0).any():  # no class has a fraction
                continue
            own = {*map(outputs.same, column.values()[1])}
            shared = own & truth
            worded = not column.numeric and len(own - truth) <= 2 <= len(shared) + (len(own) < 2)
            if (name in named and (shared or label is None)) or (worded and label is not None):
                columns.append(column)
                odd |= {name} if role_of(name) == "label?" and own - truth else set()
    if len(odd) < len(columns):  # such as a category beside the answers of models
        columns = [column for column in columns if column.name not in odd]
    columns = columns[:50]
    found = union(parent, columns) if columns else None
    if found is None:
        return []
    labels, predicted, classes, said = found
    mapper.used.update(c.name for c in columns)
    first = columns[0].name
    says = [f"{first!r} is the predicted class", *said]
    rivals = {c.name: codes for c, codes in zip(columns[1:], predicted[1:], strict=True)}
    if rivals:
        says.append(
            f"{len(columns)} models: {', '.join(repr(c.name) for c in columns)}; the first is "
            "reported on, the others are compared with it"
        )
    confidence = mapper.column("confidence") if "confidence" in parent.mapped else None
    if confidence is None and (partner := _partner(parent, columns)) is not None:
        mapper.used.add(partner.name)
        (one,) = Numbers(parent).of_predicted(partner, "probability", columns[0], columns[1:])
        one.says += says[-1:] * bool(rivals)
        return [one]
    if confidence is None and not rivals and (weight := _weight(parent)) is not None:
        mapper.used.add(weight.name)
        mapper.weights = [column for column in mapper.weights if column is not weight]
        confidence = replace(weight, numbers=-weight.numbers)
        says.append(f"the smaller {weight.name!r} is, the surer is an answer")
    elif confidence is None:
        says.append(NO_CONFIDENCE)
    return [
        Candidate(
            labels, classes, says, f"prediction={first}", predicted=predicted[0],
            confidence=None if confidence is None else confidence.numbers, rivals=rivals,
        )
    ]  # fmt: skip

"""Every way to read what a model says in a table, the surest kind of output that there is."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.report import outputs
from lib.report.mapped import refuse
from lib.report.naming import Family, counted, families, is_spread, role_of
from lib.report.numbers import NO_CONFIDENCE, Numbers, predictions, union
from lib.report.other_tasks import refuse_confusion
from lib.report.outputs import Candidate, Labels
from lib.report.tables import Column, ReadingError

Array = npt.NDArray[Any]

_AGREE = 0.99  # fraction of rows in which a column of predictions bears out a reading
_KINDS = {
    "probabilities": "probabilities",
    "log_probabilities": "log probabilities",
    "logits": "logits",
}
_SUMS = ("probabilities", "percent", "votes", "log probabilities")  # told by the sums of rows
_LOGARITHMS = ("logits", "log probabilities")
_SAYS = {
    "probabilities": "probabilities in {k} columns, {columns}: each row sums to 1; their logarithms"
    " are taken",
    "percent": "percentages in {k} columns, {columns}: each row sums to 100; the logarithms of the "
    "probabilities are taken",
    "votes": "votes in {k} columns, {columns}: each row has the same sum, by which it is divided",
    "log probabilities": "log probabilities in {k} columns, {columns}: their exponentials sum to 1 "
    "in each row",
    "one hot": "hard predictions in {k} columns, {columns}: one 1 in each row",
    "shares": "numbers from 0 to 1 in {k} columns, {columns}, whose rows do not sum to 1 (a sigmoid"
    " for each class?): each row is divided by its sum",
    "logits": "logits in {k} columns, {columns}",
}
_LOGIT_WORDS = ("logit", "score", "likelihood", "log_p", "logp", "class", "output", "sigmoid",
                "decision", "margin")  # fmt: skip
_TWO = {"-1", "0", "1", "2"}
_ENDS = re.compile(r"([^\W\d]+)(\d+)")
_UNLIKE = 0.9  # fraction below which predictions are of something else, of more than two classes
_SHOWN = 5  # cells of a row in an error
_TOGETHER = 0.3  # correlation of two columns that are not of two classes
_DOUBTED = 20  # rows from which a label that follows from the outputs is none
_ANSWERS = [NO_CONFIDENCE]


class Candidates:
    """What a mapper's table may say; see :meth:`find`."""

    def __init__(
        self, mapper: Any, label: Column | None, hot: tuple[Family, Array, str] | None
    ) -> None:
        self.mapper, self.label, self.hot = mapper, label, hot
        self.table, self.mapped = mapper.table, mapper.mapped
        self.rows = mapper.parts != "train"
        self.guessed = False  # whether the label was found by its cells alone
        self.answers: Array | None = None  # by the columns of classes, once they are known

    def find(self) -> list[Candidate]:
        """Readings: of one column a class, of one number, of predictions, of correctness."""
        found = self.of_any_kind()
        return [self.doubted(one) for one in found] if self.guessed else found

    def of_any_kind(self) -> list[Candidate]:
        """Readings of the surest kind."""
        explicit = {"probability", "logit", "prediction", "confidence", "correct"} & {*self.mapped}
        if not explicit and (found := self.of_matrices()):
            return found
        first = "correct" in self.mapped or (self.label is None and self.hot is None)
        if first and (found := self.of_correctness()):
            return found
        found = Numbers(self).find() or predictions(self)
        return found or ([] if first else self.of_correctness())

    # --- labels -----------------------------------------------------------------------------------

    def labels(self, keys: list[str]) -> list[Labels]:
        """Every numbering of the labels by columns; one of unknown ones without labels."""
        none = np.full(self.table.rows, -1, dtype=np.int64)
        if self.hot is not None:
            family, codes, said = self.hot
            names = [*map(outputs.same, family.columns)]
            wanted = [*map(outputs.same, keys)]
            if len(names) != len(wanted):
                return []
            if set(names) == set(wanted) and len(set(names)) == len(names):
                order = np.array([*(wanted.index(name) for name in names), -1])
                return [Labels(order[codes], said)]
            how = f"{said}, in the order of the columns"
            return [Labels(codes, how, guess=True, ordered=len(keys) > 2)]
        if self.label is None and (found := self.by_value(keys)):
            return found
        if self.label is None:
            how = "no column is known to be the label: --map label=COLUMN names it"
            return [Labels(none, how)]
        return outputs.number_labels(self.label, keys, self.mapped)

    def fits(self, keys: list[str]) -> bool:
        """Whether the labels that are known, if any, may name such columns."""
        return (self.label is None and self.hot is None) or len(self.labels(keys)) > 0

    def by_value(self, keys: list[str]) -> list[Labels]:
        """Labels of the only column whose cells are the names or numbers of the classes.

        It is not called a label: so it is a guess, which its accuracy has to bear out.
        """
        found = []
        for name, column in self.table.columns.items():
            if name in self.mapper.used or column.text or role_of(name) or "label" in self.mapped:
                continue
            places, names = column.values()
            if column.numeric and len(keys) == 2 and not {*names} <= _TWO:
                continue  # as features may be
            if not 2 <= len(names) <= len(keys) or (len(keys) < 3 and (places < 0).any()):
                continue
            if way := outputs.number_labels(column, keys, self.mapped):
                found.append((column, way))
        found, said = self.but_answers(found)
        if len(found) != 1:
            if found:
                names = ", ".join(repr(column.name) for column, _ in found[:5])
                self.mapper.says.append(f"no column is called a label; these may be: {names}")
            return []
        (column, ways), *_ = found
        self.mapper.says += said
        self.label, self.guessed = column, True
        self.mapper.used.add(column.name)
        options = [",".join(filter(None, (f"label={column.name}", w.option))) for w in ways]
        return [
            Labels(
                way.codes,
                f"{way.says} (a guess by its cells: no column is called a label)",
                option,
                True,
            )
            for way, option in zip(ways, options, strict=True)
        ]

    def but_answers(
        self, found: list[tuple[Column, list[Labels]]]
    ) -> tuple[list[tuple[Column, list[Labels]]], list[str]]:
        """Of columns that may be the label, those that are not the largest output of each row."""
        if len(found) < 2 or self.answers is None:
            return found, []
        says, left, two = [], [], int(self.answers.max(initial=0)) < 2  # in either order
        for column, ways in found:
            shares = []
            for way in ways:
                known = self.rows & (way.codes >= 0)
                shares.append(
                    float((way.codes == self.answers)[known].mean()) if known.any() else 0
                )
            if max(shares) >= _AGREE or (two and min(shares) <= 1 - _AGREE):
                says.append(f"{column.name!r} is the largest of the outputs, and no label")
            else:
                left.append((column, ways))
        if len(left) == 1 and says:
            self.mapper.used.update(column.name for column, _ in found if column is not left[0][0])
            return left, says
        return found, []

    def doubted(self, one: Candidate) -> Candidate:
        """A reading without its label, if that was a guess and follows from the outputs."""
        known = self.rows & (one.labels >= 0)
        if self.label is None or one.logits is None or known.sum() < _DOUBTED:
            return one
        second = one.logits[known, -1] - one.logits[known, 0]
        high, low = (second[one.labels[known] == j] for j in (1, 0))
        same = (one.answers == one.labels)[known].all()
        if one.logits.shape[1] == 2:
            same |= low.max(initial=-np.inf) < high.min(initial=np.inf)
        if not same:
            return one
        says = [text for text in one.says if not text.startswith(repr(self.label.name))]
        says.append(
            f"{self.label.name!r} follows from them in all rows: it is taken as what the model "
            f"answered; --map label={self.label.name} if it is the truth"
        )
        return replace(one, labels=np.full_like(one.labels, -1), says=says, guess=False)

    def mismatch(self, keys: list[str], shown: str) -> None:
        """Say that labels do not fit columns."""
        _, names = self.label.values() if self.label is not None else (None, ())
        some = ", ".join(map(repr, names[:5])) + ", ..." * (len(names) > 5)
        raise ReadingError(
            self.table.source,
            f"the labels and the classes do not fit: there are {len(keys)} columns of classes, "
            f"{shown}, and the label {self.label.name if self.label else 'in columns'!r} has "
            f"{len(names)} different values, {some}.",
            "Labels must be the numbers of the columns, from 0 or from 1, or the words in their "
            "names; or choose the columns with --map label=COLUMN,probabilities=PATTERN.",
        )

    # --- one column a class -----------------------------------------------------------------------

    def of_matrices(self) -> list[Candidate]:
        """Columns of classes, of one model or of several."""
        found = self.given_matrix() or self.named_matrices() or self.left_matrix()
        if not found:
            return []
        if any(one[0].of_labels for one in found) and not all(one[0].of_labels for one in found):
            other = next(one[0] for one in found if one[0].of_labels)
            told = "are no labels: one must be 1, and the others 0, in each row"
            self.mapper.says.append(f"{other.shown} {told}")
            found = [one for one in found if not one[0].of_labels]
        found.sort(key=lambda one: (not self.fits([*one[0].columns]), one[0].vague))
        family, matrix, kind = found[0]
        if kind == "shares":
            self.refuse_runs(family, matrix)
        keys = self.numbered([*family.columns])
        found = [one for one in found if same_keys(one[0].columns) == same_keys(family.columns)]
        self.answers = np.nan_to_num(matrix, nan=-np.inf).argmax(axis=1)
        options = self.labels(keys)
        if not {*_KINDS} & {*self.mapped}:
            refuse_confusion(self.table.source, self.label, matrix)
        if not options:
            self.mismatch(keys, family.shown)
        self.mapper.used.update(n for one, *_ in found for n in one.columns.values())
        if kind in ("one hot", "votes") and "logit" in role_word(family):
            kind = "logits"
        logits, said = outputs.as_logits(matrix, kind) if kind != "one hot" else (None, _ANSWERS)
        says = [_SAYS[kind].format(k=len(keys), columns=family.shown), *said]
        role = next((role for role, name in _KINDS.items() if name == kind), "probabilities")
        rivals = {}
        for other, values, its_kind in found[1:]:
            answers = values.argmax(axis=1)
            if its_kind != kind and (answers == matrix.argmax(axis=1)).all():
                says.append(f"{other.shown} are {its_kind} with the same answers, and not used")
            else:
                rivals[other.before or other.after] = answers
        if rivals:
            name = family.before or family.after
            says.append(f"{1 + len(rivals)} models: {name!r} is reported on, others are compared")
        candidates = [
            Candidate(
                one.codes,
                tuple(one.names or keys),
                [*says, one.says],
                ",".join(filter(None, (f"{role}={family.pattern}", one.option))),
                logits=None if kind == "one hot" else logits,
                predicted=matrix.argmax(axis=1) if kind == "one hot" else None,
                guess=one.guess,
                ordered=one.ordered,
                rivals=rivals,
            )
            for one in options
        ]
        return self.borne_out(candidates, keys)

    def numbered(self, keys: list[str]) -> list[str]:
        """Names of classes, such as BAD0 and BAD1, as the numbers that end them, if labels are."""
        ends = [_ENDS.fullmatch(key) for key in keys]
        if (self.label is not None and not self.label.numeric) or not all(ends):
            return keys
        begins, numbers = {end[1] for end in ends}, [end[2] for end in ends]
        return numbers if len(begins) == 1 and len({*numbers}) == len(numbers) else keys

    def borne_out(self, candidates: list[Candidate], keys: list[str]) -> list[Candidate]:
        """Those with which a column of predictions agrees, if there is one."""
        column = self.mapper.column("prediction")
        if column is None:
            return candidates
        ways = outputs.number_labels(column, keys, self.mapped)
        for one in candidates:
            shares = []
            for way in ways:
                known = self.rows & (way.codes >= 0) & (one.answers >= 0)
                if known.any():
                    shares.append(float((way.codes == one.answers)[known].mean()))
            best = max(shares, default=0.0)
            if best >= _AGREE:
                one.says.append(f"{column.name!r} is the largest of them")
            elif shares:
                one.says.append(f"{column.name!r} is the largest of them in {best:.1%} of the rows")
                self.mapper.used.discard(column.name)
                if best < _UNLIKE and len(keys) > 2 and not {*_KINDS} & {*self.mapped}:
                    return self.against(candidates, column)
            else:
                self.mapper.used.discard(column.name)
        return candidates

    def against(self, candidates: list[Candidate], column: Column) -> list[Candidate]:
        """Readings of numbers and of predictions that contradict them: both are asked for."""
        if (found := union(self, [column])) is None:
            return candidates
        labels, (predicted,), classes, said = found
        other = Candidate(
            labels,
            classes,
            [f"{column.name!r} is the predicted class, without a confidence", *said],
            f"prediction={column.name}",
            predicted=predicted,
        )
        both = [*candidates, other]
        for one in both:
            one.guess = one.contrary = True
        return both

    def given_matrix(self) -> list[tuple[Family, Array, str]]:
        """Columns that --map names."""
        for role, kind in _KINDS.items():
            if names := self.mapper.given(role):
                if len(names) < 2:
                    raise ReadingError(
                        self.table.source,
                        f"--map {role}={self.mapped[role]}: there must be at least 2 columns, one a"
                        f" class, got {names[0]!r} alone; of two classes --map probability=COLUMN "
                        "names one",
                    )
                family = next(
                    (f for f in families(names) if len(f.columns) == len(names)),
                    Family(role, "", {name: name for name in names}),
                )
                matrix = self.mapper.matrix(names)
                if role == "log_probabilities" and outputs.kind_of(matrix) != kind:
                    kind = "logits"  # their exponentials do not sum to 1
                if role == "probabilities":
                    kind = outputs.kind_of(matrix)
                    kind = (
                        kind
                        if kind in ("percent", "one hot", "shares", "votes")
                        else "probabilities"
                    )
                return [(family, self.finite(family, matrix, kind), kind)]
        return []

    def named_matrices(self) -> list[tuple[Family, Array, str]]:
        """Columns whose names differ in that of the class."""
        free = [n for n in self.numeric() if not (_is_text_role(n) or is_spread(n))]
        found: list[tuple[Family, Array, str]] = []
        seen: set[str] = set()
        for family in families(free):
            names = [*family.columns.values()]
            if seen & set(names):
                continue
            matrix = self.mapper.matrix(names)
            kind = outputs.kind_of(matrix)
            if kind == "shares" and self.without_weight(family, matrix):
                matrix /= np.fmax(matrix.sum(axis=1, keepdims=True), np.finfo(float).tiny)
                kind = "probabilities"
            elif kind in ("shares", "logits"):
                self.refuse_broken(family, matrix)
            if kind == "logits" and (base := outputs.base_of(matrix)):
                matrix *= np.log(base)
                kind = "log probabilities"
                told = f"{family.shown} are logarithms to the base {base}: natural ones are taken"
                self.mapper.says.append(told)
            if self.is_of_classes(family, kind):
                found.append((family, self.finite(family, matrix, kind), kind))
                seen.update(names)
        return found

    def refuse_broken(self, family: Family, matrix: Array) -> None:
        """Raise an error where most rows are probabilities, by their sums, and some are not."""
        known = self.rows & ~np.isnan(matrix).any(axis=1) & (matrix != 0).any(axis=1)
        good = (abs(matrix.sum(axis=1) - 1) <= outputs.SUM) & (matrix >= 0).all(axis=1)
        bad = known & ~good
        if not bad.any() or (good & known).sum() < bad.sum() or not self.fits([*family.columns]):
            return
        row = int(bad.argmax())
        cells = ", ".join(f"{value:.4g}" for value in matrix[row, :_SHOWN])
        pattern = shlex.quote(f"probabilities={family.pattern}")
        raise ReadingError(
            self.table.source,
            f"{family.shown} are probabilities, whose rows sum to 1, in "
            f"{int((good & known).sum()):,} of {counted(int(known.sum()), 'row')}, but not in "
            f"{self.table.place(row)}: {cells}{', ...' * (len(matrix.T) > _SHOWN)}.",
            f"Correct or leave out such rows, or --map {pattern} takes them as they are.",
        )

    def refuse_runs(self, family: Family, matrix: Array) -> None:
        """Raise an error where two columns are of one class: those of two rise as others fall."""
        known = self.rows & ~np.isnan(matrix).any(axis=1)
        if matrix.shape[1] != 2 or known.sum() < _DOUBTED or {*_KINDS} & {*self.mapped}:
            return
        if (np.ptp(matrix[known], axis=0) == 0).any():
            return
        if np.corrcoef(matrix[known].T)[0, 1] > _TOGETHER:
            both, each = (shlex.quote(f"{r}={family.pattern}") for r in (
                "probability", "probabilities"))  # fmt: skip
            raise ReadingError(
                self.table.source,
                f"{family.shown} rise and fall together, and their rows do not sum to 1: they seem "
                "to be of one class, by two runs or models, and not of two classes.",
                f"--map {both} if so: both are of the second class.",
                f"--map {each} if each is of a class.",
            )

    def without_weight(self, family: Family, matrix: Array) -> bool:
        """Whether a column of how much speaks for no answer makes up what rows lack to 1."""
        for weight in self.mapper.weights:
            if outputs.kind_of(np.column_stack([matrix, weight.numbers])) == "probabilities":
                self.mapper.says.append(
                    f"rows of {family.shown} sum to 1 with {weight.name!r}: each is divided by its "
                    "sum without it"
                )
                return True
        return False

    def is_of_classes(self, family: Family, kind: str) -> bool:
        """Whether columns are one of each class, by their sums or by labels and names."""
        if kind in _SUMS:
            return True
        if kind not in ("logits", "shares", "one hot"):
            return False
        fits = self.fits([*family.columns])
        if self.label is not None:
            names = {*map(outputs.same, self.label.values()[1])}
            keys = {*map(outputs.same, family.columns)}
            whole = all(key.isdecimal() for key in keys)
            worded = not (self.label.numeric or names & keys)  # two sets of words: not the same
            named = any(w in family.before for w in _LOGIT_WORDS) and not worded
            fits &= whole or names <= keys or named
        words = f"{family.before} {family.after}".lower()
        spoken = any(word in words for word in _LOGIT_WORDS) or "prob" in words or "soft" in words
        spoken |= family.before.rstrip("_") in ("p", "pr") or family.after in ("p", "pr")
        spoken |= self.keys_are_words(family)
        if not spoken and kind == "logits":  # such as predictions_0, of Trainer.predict
            fraction = any(
                (self.table.columns[n].numbers % 1 > 0).any() for n in family.columns.values()
            )
            from_0 = {*family.columns} == {*map(str, range(len(family.columns)))}
            spoken = "pred" in words and fraction and from_0
        return fits and spoken and (kind == "logits" or self.keys_are_classes(family))

    def keys_are_classes(self, family: Family) -> bool:
        """Whether what differs in the names is a number or a label: else it may be a model."""
        keys = {*map(outputs.same, family.columns)}
        if all(key.removeprefix("-").isdecimal() for key in keys):
            return True
        if self.hot is not None:
            return keys == {*map(outputs.same, self.hot[0].columns)}
        return self.label is not None and keys >= {*map(outputs.same, self.label.values()[1])}

    def keys_are_words(self, family: Family) -> bool:
        """Whether what differs in the names are the words of the label, and no others."""
        if self.label is None or self.label.numeric:
            return False
        return {*same_keys(family.columns)} == {*same_keys(self.label.values()[1])}

    def left_matrix(self) -> list[tuple[Family, Array, str]]:
        """Columns named as the labels or numbers, or all that are left and sum to 1."""
        free = self.numeric()
        words = set() if self.label is None else {*map(outputs.same, self.label.values()[1])}
        sets = [
            [n for n in free if n.strip().removeprefix("-").isdecimal()],
            [n for n in free if outputs.same(n) in words],
            [n for n in free if not role_of(n) or role_of(n).endswith("?")],
            [n for n in free if self.in_unit(n)],
        ]
        for place, names in enumerate(sets):
            if len(names) < 2:
                continue
            matrix = self.mapper.matrix(names)
            kind = outputs.kind_of(matrix)
            if kind in (_SUMS if place >= 2 else (*_SUMS, "logits", "shares", "one hot")):
                family = Family("", "", {name: name for name in names})
                if self.fits(names):
                    return [(family, self.finite(family, matrix, kind), kind)]
        return []

    def in_unit(self, name: str) -> bool:
        """Whether all numbers of a column are in [0, 1]."""
        values = self.table.columns[name].numbers[self.rows]
        return bool(((values >= 0) & (values <= 1)).all())

    def finite(self, family: Family, matrix: Array, kind: str) -> Array:
        """The matrix, or an error that names a cell that is no number."""
        empty = np.isnan(matrix) & self.rows[:, None]
        if self.mapper.abstained is not None:  # where it abstained a row may be empty
            silent = self.mapper.abstained & (self.mapper.parts == "test")
            empty &= ~(silent & np.isnan(matrix).all(axis=1))[:, None]
        if family.before.endswith("loglikelihood"):
            return np.where(np.isnan(matrix), -np.inf, matrix)
        bad = empty | np.isposinf(matrix)
        bad |= np.isneginf(matrix) & (kind not in _LOGARITHMS)
        if kind not in _LOGARITHMS and (zero := (matrix == 0).all(axis=1) & self.rows).any():
            name = next(iter(family.columns.values()))
            allowed = "above 0 in one class at least; leave rows without an answer out"
            raise self.table.cell_error(name, allowed, int(zero.argmax()))
        bad[:] &= ~(empty.all(axis=1, keepdims=True) & (not empty.all()))
        if bad.any():
            row, j = np.argwhere(bad)[0]
            name = [*family.columns.values()][j]
            raise self.table.cell_error(name, "a number in every row", int(row))
        if empty.any():
            raise self.table.cell_error(
                next(iter(family.columns.values())),
                "a number in every row; leave rows without an answer out",
                int(np.argwhere(empty)[0][0]),
            )
        return matrix

    def numeric(self) -> list[str]:
        """Columns of numbers that are not yet used."""
        return [
            n
            for n, column in self.table.columns.items()
            if n not in self.mapper.used and column.numeric and not column.empty.all()
        ]

    # --- answers ----------------------------------------------------------------------------------

    def of_correctness(self) -> list[Candidate]:
        """Whether answers were right, with a confidence or alone."""
        column = self.mapper.column("correct")
        if column is None:
            return []
        places, names = column.values()
        if len(names) > 2 or not all(map(outputs.is_flag, names)):
            self.mapper.used.discard(column.name)
            refuse(self.mapper, "correct", column)
            return []
        if (empty := (places < 0) & self.rows).any():
            allowed = "1 or 0, true or false in every row; leave rows without an answer out"
            raise self.table.cell_error(column.name, allowed, int(empty.argmax()))
        right = outputs.flags(places, names)
        correct = np.where(places < 0, np.nan, right.astype(float))
        says = [f"{column.name!r} says whether an answer is right"]
        confidence, found = None, Numbers(self).columns()
        if found and role_of(found[0].name) in ("confidence", "probability", "logit"):
            confidence, percent = Numbers(self).as_confidence(found[0])
            says.append(f"{found[0].name!r} is the confidence{', in percent' * percent}")
        else:
            says.append("there is no confidence")
        none = np.full(self.table.rows, -1, dtype=np.int64)
        option = f"correct={column.name}"
        return [Candidate(none, (), says, option, confidence=confidence, correct=correct)]


def role_word(family: Family) -> str:
    """What the names of columns have in common, in small letters."""
    return f"{family.before} {family.after} {' '.join(family.columns.values())}".lower()


def same_keys(keys: Iterable[str]) -> list[str]:
    """Names of classes as they are compared."""
    return [outputs.same(key) for key in keys]


def _is_text_role(name: str) -> bool:
    """Whether a name says what is no output of a model."""
    return role_of(name).rstrip("?") in ("part", "group", "cluster", "abstained", "correct")

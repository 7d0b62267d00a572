"""From a table of any columns to the arrays of a report, and what was taken for what."""

import fnmatch
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.data.arrays import MOST_CHARACTERS
from lib.data.untrusted import printable, short
from lib.report import outputs, unsaid
from lib.report.candidates import Candidates
from lib.report.choice import choose
from lib.report.lacks import NO_REPORT, nothing, of_papers
from lib.report.mapped import check_roles, check_used, refuse
from lib.report.naming import Family, counted, families, paired, part_of, plain, role_of
from lib.report.other_tasks import refuse_other_tasks, refuse_tables, refuse_totals, refuse_values
from lib.report.outputs import Candidate
from lib.report.predictions import MOST_GROUPS
from lib.report.tables import MOST_WORDS, Column, ReadingError, Table
from lib.report.top import named, surest, wide

Array = npt.NDArray[Any]

PARTS = ("holdout", "test", "user")
_SPLITS = ("train", "val", "test", "production")


@dataclass(frozen=True)
class Reading:
    """Arrays of a report, and sentences on what was taken for what."""

    arrays: dict[str, Any] = field(repr=False)
    says: tuple[str, ...]


def read_table(table: Table, mapped: Mapping[str, str] | None = None) -> Reading:
    """Find out what the columns of a table are, or say what is missing.

    Parameters
    ----------
    table : Table
        Of :mod:`lib.report.readers`.
    mapped : mapping of str to str, optional
        By role, of :data:`lib.report.naming.MAPPED`, the column, or a pattern of columns.

    Raises
    ------
    ReadingError
        If columns are missing, or two readings are possible and neither is sure.
    """
    return _Mapper(table if mapped else wide(surest(named(table))), dict(mapped or {})).read()


class _Mapper:
    """What is known of a table so far."""

    def __init__(self, table: Table, mapped: dict[str, str]):
        self.table, self.mapped = table, mapped
        self.used: set[str] = set()
        self.says: list[str] = [*table.notes]
        self.why: list[str] = []  # why columns that seemed to be something are not
        check_roles(table, mapped)
        self.by_role: dict[str, list[str]] = {}
        for name in table.columns:
            self.by_role.setdefault(role_of(name), []).append(name)
        if not mapped and not {"label", "label?", "label??"} & {*self.by_role}:
            self.read_pair()

    def read_pair(self) -> None:
        """Give columns such as species and predicted_species their roles."""
        pair = paired(self.table.columns) or ()
        numbers = [(self.table.columns[name].numbers % 1 > 0).any() for name in pair]
        if not pair or numbers == [True, False]:  # such as a model's scores, and its answers
            return
        for name, role in zip(pair, ("label", "prediction"), strict=True):
            self.by_role[role_of(name)].remove(name)
            self.by_role.setdefault(role, []).insert(0, name)
        self.says.append(f"{pair[0]!r} is taken for what is true, since there is {pair[1]!r}")

    # --- columns by their role --------------------------------------------------------------------

    def given(self, role: str) -> list[str]:
        """Columns that --map names for a role."""
        pattern = self.mapped.get(role)
        if pattern is None or role in ("first", "positive"):
            return []
        names = [*self.table.columns]
        found = [pattern] if pattern in names else fnmatch.filter(names, pattern)
        if not found:
            raise ReadingError(
                self.table.source,
                f"--map {role}={pattern}: no such column, there are "
                f"{short(', '.join(map(repr, names)))}",
            )
        return found

    def column(self, role: str, by_name: bool = False) -> Column | None:
        """The column of a role, not yet used, by --map or by its name; surer names first."""
        chosen = [] if by_name else self.given(role)
        if not chosen and (by_name or role not in self.mapped):
            for level in (role, f"{role}?", f"{role}??"):
                named = [n for n in self.by_role.get(level, ()) if n not in self.used]
                chosen = [n for n in named if not self.table.columns[n].text or role == "cluster"]
                if chosen:
                    break
        if not chosen:
            return None
        self.used.add(chosen[0])
        return self.table.columns[chosen[0]]

    def matrix(self, names: list[str]) -> Array:
        """Columns side by side."""
        return np.column_stack([self.table.columns[name].numbers for name in names])

    # --- the whole --------------------------------------------------------------------------------

    def read(self) -> Reading:
        """All steps, in order."""
        if not self.mapped:
            refuse_tables(self.table)
        self.parts = self.read_parts()
        kept = self.parts != "train"
        self.abstained = self.read_abstained()
        label, hot = self.read_label()
        label, inferred = self.leave_unsaid(label, kept)
        self.weights = self.read_weights(label, hot)
        candidates = Candidates(self, label, hot).find()
        if not candidates:
            nothing(self, label)
        if label is None and hot is None and all((one.labels < 0).all() for one in candidates):
            self.ask_for_label()
        chosen = choose(self.table.source, candidates, kept)
        self.says += chosen.says
        self.without_answer(chosen, inferred)
        self.hold_against(chosen)
        arrays, classes = self.arrays(chosen), chosen.classes
        del candidates, chosen  # each holds as much as the file
        arrays |= self.read_others(arrays)
        check_used(self, label, classes)
        for name in self.by_role.get("label", []) + self.by_role.get("label?", []):
            if self.table.columns[name].text:
                self.says.append(
                    f"{name!r} is no label: it has more than {MOST_WORDS:,} different words, or a "
                    f"word of more than {MOST_CHARACTERS} characters"
                )
        self.says += unsaid.empty_labels(label, np.isin(self.parts, PARTS[:2])) + unsaid.of_runs(
            self.table.columns
        )
        self.says += of_papers(self.table)
        self.used -= {column.name for column in self.weights}
        left = [n for n in self.table.columns if n not in self.used]
        if left:
            self.says.append(f"not used: {short(', '.join(map(repr, left)))}")
        return Reading(arrays, tuple(map(printable, self.says)))

    def read_parts(self) -> Array:
        """The part of each row."""
        rows = self.table.rows
        if (told := self.mapped.get("part")) and told not in self.table.columns and part_of(told):
            return _one(rows, part_of(told))
        column = self.column("part") or self.domains()
        found = None
        if column is not None:
            places, names = column.values()
            parts = [part_of(name, True) for name in names]
            if not (places < 0).any() and all(parts) and not {"member", "nonmember"} & {*parts}:
                found = np.array(parts, dtype=object)[places]
            elif any(parts) and role_of(column.name) == "part":  # else training rows would count
                bad = np.array([*(part is None for part in parts), True])[places]
                allowed = f"one of {', '.join(_SPLITS)} in every row"
                raise self.table.cell_error(column.name, allowed, int(bad.argmax()))
            else:
                self.used.discard(column.name)
                refuse(self, "part", column)
        if found is None:
            self.says.append(f"{counted(rows, 'row')}; no column says the part: taken as test data")
            return _one(rows, "test")
        sizes = {part: int((found == part).sum()) for part in (*PARTS, "train")}
        if not any(sizes[part] for part in PARTS):
            raise ReadingError(self.table.source, "all rows are training data, which say nothing")
        if not sizes["test"] and sum(sizes[part] > 0 for part in PARTS) == 1:
            (only,) = [part for part in PARTS if sizes[part]]
            found[found == only] = "test"
            self.says.append(f"{column.name!r} says {names[0]!r} alone: taken as test data")
        else:
            told = [f"{n:,} {part}" for part, n in sizes.items() if n and part != "train"]
            word = "row" if told[-1].startswith("1 ") else "rows"
            self.says.append(f"{column.name!r} says the part: {', '.join(told)} {word}")
        if n := sizes["train"]:
            told = f"{counted(n, 'training row')} {'is' if n == 1 else 'are'} left out"
            self.says.append(f"{told}: the model has seen them")
        return found

    def deferrals(self) -> Column | None:
        """A flag of answers, or a column of two words for whether there is one, as answer, defer.

        A flag may be the label where nothing else is.
        """
        label = {"label", "label?"} & {*self.by_role, *self.mapped}
        for name, column in self.table.columns.items():
            given = label and name not in self.used and unsaid.is_given(name, self.table.columns)
            if given and all(map(outputs.is_flag, column.values()[1])):
                self.used.add(name)
                return column
            words = column.words if column.codes is not None and not column.empty.any() else ()
            silent = [plain(word) in unsaid.SILENT for word in words]
            answers = [plain(word) in unsaid.ANSWERED for word in words]
            named = name in self.used or role_of(name) in ("label", "label?", "prediction")
            if len(words) == 2 and sum(silent) == sum(answers) == 1 and not named:
                self.used.add(name)
                return replace(column, words=tuple("yes" if one else "no" for one in silent))
        return None

    def domains(self) -> Column | None:
        """A column called a domain that says source and target."""
        for name, column in self.table.columns.items():
            if plain(name) == "domain" and {*map(plain, column.words)} == {"source", "target"}:
                self.used.add(name)
                return column
        return None

    def read_abstained(self) -> Array | None:
        """Whether the model abstained, in each row; an empty cell says no."""
        column = self.column("abstained") or self.deferrals()
        if column is None:
            return None
        answered = unsaid.is_given(column.name, self.table.columns)
        places, names = column.values()
        if not all(map(outputs.is_flag, names)):
            if "abstained" in self.mapped:
                bad = np.isin(places, [j for j, n in enumerate(names) if not outputs.is_flag(n)])
                allowed = "true or false, yes or no, or 1 or 0"
                raise self.table.cell_error(column.name, allowed, int(bad.argmax()))
            self.used.discard(column.name)
            self.says.append(f"{column.name!r} says not yes or no where the model abstained")
            return None
        found = outputs.flags(places, names)
        self.says.append(
            f"{column.name!r} says where the model {'answered' if answered else 'abstained'}: in "
            f"{found.sum():,} of {counted(len(found), 'row')}"
        )
        return ~found if answered else found

    def read_weights(
        self, label: Column | None, hot: tuple[Family, Array, str] | None
    ) -> list[Column]:
        """Columns of how much speaks for no answer, such as p_abstain: none is of a class.

        Unless labels name it, or the columns are as many as the labels' classes.
        """
        names = [*hot[0].columns] if hot else [] if label is None else label.values()[1]
        classes, found = {*map(plain, names)}, []
        for name, column in self.table.columns.items():
            word = unsaid.speaks_for(name)
            if not (word and column.numeric) or name in (*self.used, *self.mapped.values()):
                continue
            sets = [[*f.columns.values()] for f in families(self.table.columns)]
            sets = [each for each in sets if name in each and len(each) == len(classes)]
            if word in classes or any(outputs.kind_of(self.matrix(s)) != "shares" for s in sets):
                continue
            found.append(column)
            self.used.add(name)
            self.says.append(f"{name!r} is how much speaks for no answer, and no class")
        return found

    def read_label(self) -> tuple[Column | None, tuple[Family, Array, str] | None]:
        """The label's column, or those of one-hot labels."""
        if self.given("label")[1:]:
            names = self.given("label")
            if (found := self.hot(Family("label", "", {n: n for n in names}))) is None:
                raise ReadingError(
                    self.table.source,
                    f"--map label={self.mapped['label']}: of several columns one must be 1, and the"
                    f" others 0, in each row; these are {short(', '.join(map(repr, names)))}",
                )
            return None, found
        for family in families(self.table.columns):
            truth = family.after in ("outcome", "actual", "true", "truth", "onehot", "one_hot",
                                     "label", "target", "gt", "result", "observed")  # fmt: skip
            if "label" not in self.mapped and (truth or family.of_labels):
                found = self.hot(family)
                if found is not None:
                    return None, found
        if not {"label", "label?"} & {*self.by_role, *self.mapped}:
            for family in families(self.table.columns):  # cat and dog beside p_cat and p_dog
                bare = {key: key for key in family.columns if key in self.table.columns}
                if len(bare) == len(family.columns) and (found := self.hot(Family("", "", bare))):
                    return None, found
        if self.why and not {"label", "label?"} & {*self.by_role, *self.mapped}:
            raise ReadingError(self.table.source, *dict.fromkeys(self.why))
        column = self.column("label")
        if column is not None and column.numeric:
            known = column.numbers[~np.isnan(column.numbers)]
            if (broken := known != np.floor(known)).any():  # a class has no fraction
                if "label" in self.mapped:
                    raise self.table.cell_error(
                        column.name, "classes", int((column.numbers % 1 > 0).argmax())
                    )
                self.used.discard(column.name)
                self.why.append(
                    f"{column.name!r} is no label: {known[broken.argmax()]:.6g} is no class, and "
                    f"{NO_REPORT}"
                )
                if ((known >= 0) & (known <= 1)).all():
                    option = shlex.quote(f"probability={column.name}")
                    self.why[-1] += f"; if it is what a model says, --map {option}"
                said = [self.table.columns[name] for name in self.by_role.get("prediction", ())]
                if any(each.numeric and (each.numbers % 1 > 0).any() for each in said):
                    raise ReadingError(self.table.source, *self.why)
                self.says += self.why[-1:]
                return None, None
        if column is not None and "label" not in self.mapped:
            self.ask_which(column)
        return column, None

    def ask_for_label(self) -> None:
        """Raise an error if one column alone has the words of the answers: it may be the truth."""
        said = [n for r in ("", "?", "??") for n in self.by_role.get(f"prediction{r}", ())]
        said = [name for name in said if not self.table.columns[name].numeric]
        if len(said) != 1 or {"label", "correct"} & {*self.mapped}:
            return
        words = {*map(outputs.same, self.table.columns[said[0]].values()[1])}
        for name, column in self.table.columns.items():
            if name in (*self.used, *said) or column.numeric or column.text or role_of(name):
                continue
            own = {*map(outputs.same, column.values()[1])}
            if len(words & own) > 1 and len(own - words) <= 1:
                option = shlex.quote(f"label={name}")
                raise ReadingError(
                    self.table.source,
                    f"no column is called a label, and {name!r} has the cells of {said[0]!r}.",
                    f"--map {option} if it is the truth.",
                )

    def leave_unsaid(self, label: Column | None, kept: Array) -> tuple[Column | None, str]:
        """Empty cells that say nothing: the label, and the column whose gaps are abstentions."""
        refuse_totals(self.table)
        answers = self.answer_columns(label)
        if label is not None:
            for place, column in enumerate(answers):
                answers[place], said = unsaid.in_words_of(label, column)
                self.table.columns[column.name] = answers[place]
                self.says += said
            asked = {"label", "prediction"} <= {*self.mapped}
            refuse_other_tasks(self.table, label, answers, asked)
            if gone := unsaid.unknown_labels(label, answers, self.table.columns):
                self.says.append(
                    f"{label.name!r}: {unsaid.told(label, gone, kept)} is taken for an unknown "
                    "label; if it is a class, give it another name"
                )
                label = self.table.columns[label.name] = unsaid.emptied(label, gone)
            for column in answers:
                if gone := unsaid.no_answers(column, label.values()[1]):
                    self.says.append(
                        f"{column.name!r}: {unsaid.told(column, gone, kept)} is taken for no answer"
                    )
                    column = unsaid.emptied(column, gone)
                    self.table.columns[column.name] = column
                if role_of(column.name).startswith("prediction"):
                    self.says += unsaid.never_true(column, label, kept)
        elif not self.mapped:
            refuse_values(self.table, answers)
        column = self.column("prediction")
        if column is None:
            return label, ""
        self.used.discard(column.name)
        if self.abstained is None and (column.empty & kept).any():
            self.abstained = column.empty & kept
            return label, column.name
        return label, ""

    def answer_columns(self, label: Column | None) -> list[Column]:
        """Columns that may hold what models answered: so called, or with cells of the label."""
        names = set() if label is None else {*label.values()[1]}
        found = []
        for name, column in self.table.columns.items():
            role = role_of(name).rstrip("?")
            if name in self.used or column.text or role in ("part", "group", "cluster", "correct"):
                continue
            named = role == "prediction" or name in self.by_role.get("prediction", ())
            if named or (not column.numeric and names & {*column.values()[1]}):
                found.append(column)
        return found

    def without_answer(self, chosen: Candidate, inferred: str) -> None:
        """Take rows without an answer as abstentions, where no column says which these are."""
        if inferred and inferred not in self.used:
            self.abstained, inferred = None, ""
        test = self.parts == "test"
        if self.abstained is None and chosen.predicted is not None and chosen.logits is None:
            self.abstained = chosen.predicted < 0
            inferred = chosen.option.rpartition("prediction=")[2].split(",")[0]
        elif not inferred:
            return
        count = int((self.abstained & test).sum())
        if count in (0, test.sum()):
            self.abstained = None
        else:
            self.says.append(
                f"{inferred!r} has no answer in {count:,} of {counted(int(test.sum()), 'row')}: "
                "taken as abstentions"
            )

    def hold_against(self, chosen: Candidate) -> None:
        """Say where a column of which answers were right has it that others were."""
        if chosen.answers is None or (column := self.column("correct")) is None:
            return
        self.used.discard(column.name)
        places, names = column.values()
        known = (
            (self.parts == "test") & (chosen.labels >= 0) & (chosen.answers >= 0) & (places >= 0)
        )
        if not known.any() or not all(map(outputs.is_flag, names)):
            return
        right = outputs.flags(places, names)
        own = chosen.answers == chosen.labels
        if off := int((right != own)[known].sum()):
            self.says.append(
                f"{column.name!r} says otherwise in {off:,} of {counted(int(known.sum()), 'row')}: "
                f"by it the accuracy is {right[known].mean():.3f}, by label and answer "
                f"{own[known].mean():.3f}; --map {shlex.quote(f'correct={column.name}')} takes it"
            )

    def ask_which(self, column: Column) -> None:
        """Raise an error if another column may as well be the label: one may be a prediction."""
        role = role_of(column.name)
        if column.name in self.by_role.get("label", ()):
            return
        places, names = column.values()
        for other in self.by_role.get(role, ()):
            found, words = self.table.columns[other].values()
            shared = {*map(outputs.same, names)} & {*map(outputs.same, words)}
            if other in self.used or "prediction" in self.mapped or len(shared) < 2:
                continue
            keys = [
                np.array([*map(outputs.same, w), ""])[p]
                for p, w in ((places, names), (found, words))
            ]
            if (agree := float((keys[0] == keys[1]).mean())) < 1:
                raise ReadingError(
                    self.table.source,
                    f"{column.name!r} and {other!r} may both be the label; they agree in "
                    f"{agree:.1%} of the rows. Is one of them what the model said?",
                    *(
                        f"--map {shlex.quote(f'label={n}')} if {n!r} is the truth."
                        for n in (column.name, other)
                    ),
                    "If a row is of one class, frame.pivot makes a column of each class.",
                )

    def hot(self, family: Family) -> tuple[Family, Array, str] | None:
        """Labels of columns with one 1 in each row."""
        names = [*family.columns.values()]
        if not all(self.table.columns[n].numeric for n in names):
            return None
        matrix = self.matrix(names)
        if (kind := outputs.kind_of(matrix)) != "one hot":
            if kind == "shares" and np.isin(matrix, (0.0, 1.0)).all() and (matrix.sum(1) > 1).any():
                self.why.append(
                    f"{family.shown} have several 1s in a row: several labels at once are not "
                    "read; --map label=COLUMN,probability=COLUMN names those of one of them"
                )
            return None
        self.used.update(names)
        return family, *outputs.one_hot(matrix, family)

    # --- what it becomes --------------------------------------------------------------------------

    def arrays(self, chosen: Candidate) -> dict[str, Any]:
        """The chosen reading as arrays, part by part."""
        arrays: dict[str, Any] = {"class_names": tuple(map(printable, chosen.classes))}
        for part in PARTS:
            rows = self.parts == part
            if not rows.any():
                continue
            if chosen.logits is not None:
                whole = rows.all()  # then a copy would only take memory
                arrays[f"{part}_logits"] = chosen.logits if whole else chosen.logits[rows]
            if chosen.correct is None and (chosen.labels[rows] >= 0).any():
                arrays[f"{part}_labels"] = chosen.labels[rows]
            if part != "test":
                continue
            for name in ("predicted", "confidence", "correct"):
                values = getattr(chosen, name)
                if values is not None and chosen.logits is None:
                    arrays[f"test_{name}"] = values[rows]
            for name, each in chosen.rivals.items():
                if silent := int((each[rows] < 0).sum()):  # which would count as wrong
                    self.says.append(
                        f"{name!r} has no answer in {counted(silent, 'row')}: it is not compared"
                    )
                else:
                    arrays.setdefault("rivals", {})[name] = each[rows]
        return arrays

    def read_others(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """Abstentions, groups and clusters."""
        test = self.parts == "test"
        found: dict[str, Any] = {}
        if self.abstained is not None and test.any():
            found["test_abstained"] = self.abstained[test]
        group = self.column("group") if test.any() else None
        if group is not None:
            places, names = group.values()
            if len(names) > MOST_GROUPS or (places[test] < 0).any() or len(names) < 2:
                self.used.discard(group.name)
                if role_of(group.name) == "group":
                    self.says.append(
                        f"{group.name!r} is no group: it must have 2 to {MOST_GROUPS} different "
                        f"values and no empty cell in test rows, got {len(names)} and "
                        f"{int((places[test] < 0).sum())}"
                    )
            else:
                found["test_groups"] = np.array(names)[places[test]]
                self.says.append(f"{group.name!r} is the group: {len(names)} different")
        cluster = self.column("cluster")
        if cluster is not None:
            places, names = cluster.values()
            parts = [places[self.parts == part] for part in PARTS]
            sure = "cluster" in (*self.mapped, role_of(cluster.name))  # an id may begin anew
            repeats = sure or any(len(np.unique(each)) < len(each) for each in parts)
            kept = self.parts != "train"
            if sure and len(names) > 1 and (gaps := (places < 0) & kept).any():
                allowed = "given in every row, since intervals count it; or leave the column out"
                raise self.table.cell_error(cluster.name, allowed, int(gaps.argmax()))
            if (places < 0).any() or len(names) in (1, self.table.rows) or not repeats:
                self.used.discard(cluster.name)
            else:
                for part in PARTS:
                    rows = self.parts == part
                    if rows.any():
                        found[f"{part}_clusters"] = places[rows]
                self.says.append(
                    f"{cluster.name!r} says which rows belong together: {len(names):,} different "
                    f"in {self.table.rows:,} rows, so that intervals count these and not rows"
                )
        return found


def _one(rows: int, part: str) -> Array:
    """One part for all rows, and one string: np.full would make a string for each."""
    found = np.empty(rows, dtype=object)
    found.fill(part)
    return found

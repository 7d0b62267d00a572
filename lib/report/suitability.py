"""Is my model suitable? From a file of a user's logits and labels to a report."""

import csv
import io
import json
import math
import re
import warnings
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from lib import data
from lib.check import as_array, as_matrix, as_number
from lib.data.arrays import (
    MOST_BYTES,
    as_path,
    csv_records,
    number_in,
    read_npz,
    short,
    table_file,
    too_large,
)
from lib.runs import write_atomic, write_atomic_bytes
from lib.runs.plain import encode
from lib.suitability.equivalence import _holm
from lib.suitability.estimator import N_SPLITS
from lib.suitability.filter import Decision, SuitabilityFilter, p_text
from lib.suitability.guarantees import (
    PredictionPowered,
    adjusted_margin,
    calibration_offset,
    prediction_powered_test,
)
from lib.suitability.labels import labels_test
from lib.suitability.noninferiority import welch_non_inferiority
from lib.suitability.power import rejection_probability, smallest_size
from lib.suitability.signals import _LARGEST, SIGNAL_NAMES, signals
from lib.suitability.tipping import FMOW_ERRORS, tipping_point
from lib.training import train_linear

__all__ = [
    "MOST_BYTES",
    "Predictions",
    "SuitabilityReport",
    "example_predictions",
    "printable",
    "read_predictions",
    "suitability_report",
]

Array = npt.NDArray[Any]
Labels = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_PARTS = ("holdout", "test", "user")
_COMPARED = _PARTS[1:]
_KNOWN = tuple(f"{part}_{kind}" for part in _PARTS for kind in ("logits", "labels"))
_REQUIRED = ("holdout_logits", "holdout_labels", "test_logits", "user_logits")
_FEW = 30  # rows, below which a t-test leans on a normal distribution that may not be there
# Vittinghoff and McCulloch 2007: with fewer rows of the rarer kind a regressor than this the
# errors of a logistic regression grow.
_PER_SIGNAL = 5
_OUTSIDE = 0.05  # share of user rows beyond the holdout's range that is worth a warning
_DOUBTFUL = 2.58  # standard errors: 1% by chance
_FEW_ERRORS = 10  # see calibration_offset
_EXAMPLE = {"train": 150, "holdout": 700, "test": 400, "user": 500}
_EXAMPLE_LABELLED = 120


@dataclass(frozen=True, eq=False)
class Predictions:
    """A classifier's predictions on three sets of data; all arrays are read-only copies.

    Attributes
    ----------
    holdout_logits : ndarray, shape (n, k)
        Of labelled data from the source distribution, that the classifier was not trained on;
        k is at least 2, logits are at most 1e150 in size.
    holdout_labels : ndarray of int64, shape (n,)
        Classes, 0 to k - 1. At least five predictions, the largest logits, must be right and
        five wrong.
    test_logits : ndarray, shape (n_test, k)
        Of other data from the source distribution; n_test is at least 2.
    user_logits : ndarray, shape (n_user, k)
        Of the data that the classifier might be used on; n_user is at least 2.
    test_labels, user_labels : ndarray of int64, shape (n_test,) and (n_user,), or None
        Classes, or -1 (if given as floats, also NaN) where unknown; None if no label is known.
        The labelled rows must be drawn at random from their part.
    source : str
        Where all this comes from, for people.

    Raises
    ------
    ValueError
        On input that is not as above.
    """

    holdout_logits: Array = field(repr=False)
    holdout_labels: Labels = field(repr=False)
    test_logits: Array = field(repr=False)
    user_logits: Array = field(repr=False)
    test_labels: Labels | None = field(default=None, repr=False)
    user_labels: Labels | None = field(default=None, repr=False)
    source: str = ""

    def __post_init__(self):
        k = None
        for part in _PARTS:
            name = f"{part}_logits"
            logits = _as_logits(name, getattr(self, name), k)
            n, k = logits.shape
            if n < 2:
                raise ValueError(f"{name} must have at least 2 rows, got {n}")
            object.__setattr__(self, name, logits)
            name = f"{part}_labels"
            given = getattr(self, name)
            if given is None and part != "holdout":
                continue
            labels = _as_labels(name, given, n, k, unknown=part != "holdout")
            object.__setattr__(self, name, labels if (labels >= 0).any() else None)
        correct, _ = self.correct("holdout")
        right, wrong = int(correct.sum()), int((~correct).sum())
        if min(right, wrong) < N_SPLITS:
            raise ValueError(
                f"holdout_labels must make at least {N_SPLITS} predictions right and {N_SPLITS} "
                f"wrong, or there is nothing to learn from, got {right} right and {wrong} wrong"
            )

    def correct(self, part: str) -> tuple[Flags, Flags]:
        """Whether the labelled predictions of a part are correct.

        Parameters
        ----------
        part : {"holdout", "test", "user"}
            Which data.

        Returns
        -------
        correct : ndarray of bool, shape (n_labelled,)
            Whether the largest logit, the first one of equals, is that of the label.
        labelled : ndarray of bool, shape (n,)
            Which rows have a label.
        """
        if part not in _PARTS:
            raise ValueError(f"part must be one of {', '.join(_PARTS)}, got {part!r}")
        logits, labels = getattr(self, f"{part}_logits"), getattr(self, f"{part}_labels")
        labelled = np.zeros(len(logits), dtype=bool) if labels is None else labels >= 0
        if labels is None:
            return labelled[labelled], labelled
        return (logits.argmax(axis=1) == labels)[labelled], labelled


@dataclass(frozen=True, eq=False)
class SuitabilityReport:
    """What can be said of a classifier on user data.

    Attributes
    ----------
    decision : Decision
        Of the suitability filter, by the test that counts the error of the fit.
    tipping : float
        By how much the estimator would have to overstate the accuracy on user data, beyond what it
        does on test data, for the decision to turn (:func:`lib.suitability.tipping_point`).
    power : float
        Probability that this test decides SUITABLE if the mean estimates of user and test data
        are equal and their standard deviations those seen.
    required : int or None
        User rows that raise this to the power asked for; None if no number does.
    adjusted : Decision or None
        With a margin that allows for the estimator's errors: the lower end of the interval for
        Eq. 12's m', tested at alpha / 2, which keeps alpha
        (:func:`lib.suitability.guarantees.adjusted_margin`). None unless test and user data have
        two labels each.
    powered : PredictionPowered or None
        The tests of accuracies from all user estimates and the user labels, for many labels and by
        betting. They decide nothing here. None without `adjusted`, or if fewer than two user rows
        are unlabelled.
    suitable_by_labels : bool or None
        What the labels alone show, by the exact test (:func:`lib.suitability.labels_test`); None
        without `adjusted`.
    unsuitable_by_labels : bool or None
        Whether the same test the other way round rejects at level alpha: then the labels show that
        the drop is larger than the margin.  None without `adjusted`.
    summary : pandas.DataFrame
        Columns ``item``, ``value``, ``low``, ``high``: sizes, accuracies, the drop and the test.
        The last two are the ends of intervals, NaN where there is none.
    moved : pandas.DataFrame
        One row per signal, from the largest standardised difference: ``signal``, ``test_mean``,
        ``user_mean``, ``difference`` (user minus test, in pooled standard deviations), ``ks``
        (Kolmogorov and Smirnov's statistic), ``p_value``, ``p_holm`` (Holm's correction for all
        signals) and ``moved``, whether that is at most alpha.
    calibration : pandas.DataFrame
        Columns ``item``, ``value``, ``stderr``, ``low``, ``high``: estimated against true
        accuracy on labelled rows, and what follows for the margin; empty without labels.
    warnings : tuple of str
        What to mind.
    level : float
        Of all intervals, 1 - 2 alpha: each end is a bound that fails with probability alpha. The
        drop's upper end is at most the margin if and only if the decision is SUITABLE. Only that of
        the adjusted margin is of level 1 - alpha.
    source : str
        Of the predictions.
    """

    decision: Decision
    tipping: float
    power: float
    required: int | None
    adjusted: Decision | None
    powered: PredictionPowered | None
    suitable_by_labels: bool | None
    unsuitable_by_labels: bool | None
    summary: pd.DataFrame = field(repr=False)
    moved: pd.DataFrame = field(repr=False)
    calibration: pd.DataFrame = field(repr=False)
    warnings: tuple[str, ...]
    level: float
    source: str = ""

    @property
    def verdict(self) -> str:
        """The decision in plain words."""
        found = self.decision
        worse, not_so = _words(found.margin)
        numbers = (
            f"estimated accuracy {found.estimated_user_accuracy:.3f} on user data and "
            f"{found.estimated_test_accuracy:.3f} on test data, {p_text(found.p_value)} at "
            f"alpha = {found.alpha:g}"
        )
        if found.suitable:
            sure = (
                "SUITABLE" if self.suitable_by_labels else "SUITABLE, if the estimates hold there"
            )
            if self._shift and not self.suitable_by_labels:
                sure = "UNCONFIRMED: by the estimates alone SUITABLE"
            text = f"{sure}: on user data the model is {worse} test data ({numbers})."
            doubt = " But the labelled user rows do not confirm this."
        else:
            text = (
                f"INCONCLUSIVE: it is not shown that on user data the model is {worse} test "
                f"data ({numbers})."
            )
            if not self.unsuitable_by_labels:
                text += " Nor is it shown that the model is unsuitable."
            doubt = " But the labelled user rows show that it is suitable."
        if self.unsuitable_by_labels:
            return (
                f"UNSUITABLE by the labelled user rows: they show, at level {found.alpha:g}, that "
                f"on user data the model is {not_so} test data. From the estimates alone it "
                f"would be {text}"
            )
        disagree = self.suitable_by_labels not in (None, found.suitable)
        return text + doubt * disagree + (self._shift + self._tips) * (not self.suitable_by_labels)

    @property
    def _shift(self) -> str:
        """Which signals have moved."""
        moved = self.moved.loc[self.moved["moved"], "signal"].tolist()
        if not moved:
            return ""
        return (
            f" The user data look different (moved, of {len(self.moved)} signals: "
            f"{', '.join(moved)}), and whether the estimates hold there only labels can tell."
        )

    @property
    def _tips(self) -> str:
        """How wrong the estimates may be."""
        if not self.decision.suitable:
            return ""
        worse = sum(error > self.tipping for error in FMOW_ERRORS)
        return (
            " It holds unless the estimator overstates the accuracy on user data by more than "
            f"{self.tipping:.3f} beyond what it does on test data; on shifted satellite images "
            f"(FMoW) it did so in {worse} of {len(FMOW_ERRORS)} folds and models."
        )

    def __str__(self) -> str:
        return self.verdict

    def export(self, folder: Any) -> tuple[Path, ...]:
        """Write the report for other programs.

        Parameters
        ----------
        folder : path-like
            Made if missing. Each file appears whole or not at all.

        Returns
        -------
        tuple of pathlib.Path
            ``summary.csv``, ``moved.csv``, ``calibration.csv`` and ``decision.json``.
        """
        folder = as_path("folder", folder)
        paths = [
            write_atomic(
                folder / f"{name}.csv", getattr(self, name).to_csv(index=False, lineterminator="\n")
            )
            for name in ("summary", "moved", "calibration")
        ]
        content = {
            "source": self.source,
            "verdict": self.verdict,
            "decision": asdict(self.decision),
            "adjusted": None if self.adjusted is None else asdict(self.adjusted),
            "powered": None if self.powered is None else asdict(self.powered),
            "tipping": self.tipping,
            "power": self.power,
            "required": self.required,
            "level": self.level,
            "warnings": self.warnings,
        }
        text = json.dumps(encode(content, "report"), indent=2, allow_nan=False) + "\n"
        return (*paths, write_atomic(folder / "decision.json", text))


def read_predictions(path: Any) -> Predictions:
    """Read a classifier's predictions from an NPZ or a CSV file.

    An NPZ file, which ends in ``.npz``, holds the arrays ``holdout_logits``, ``holdout_labels``,
    ``test_logits``, ``user_logits`` and, if known, ``test_labels`` and ``user_labels``, as
    :class:`Predictions` describes them, and no others. Nothing is unpickled.

    A CSV file, which ends in ``.csv``, has one row per prediction. The first row names the
    columns, in any order; cells are separated by commas, the text is in UTF-8, white space around
    cells does not count, and rows without any cell are skipped.

    ``part``
        holdout, test or user.
    ``label``
        The class, 0 to k - 1. Empty, -1 or nan where unknown, which in the holdout none may be.
    ``logit_0`` to ``logit_{k-1}``
        The logits.

    Parameters
    ----------
    path : path-like
        The file, of at most :data:`MOST_BYTES`, 2 GB, uncompressed: what it states to be larger
        is refused before it is read.

    Returns
    -------
    Predictions
        Its source is the path.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError, TypeError
        On a file that is not as above. The message names the file, the array or column, and the
        row where that applies: of an array from 0, of a CSV file its line, from 1, the header's.
    """
    path = table_file("path", path)
    if path.suffix.lower() == ".npz":
        arrays = read_npz(path, _KNOWN, _REQUIRED, MOST_BYTES)
    else:
        arrays = _read_csv(path)
    try:
        return Predictions(**arrays, source=str(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def example_predictions(path: Any, kind: str = "npz", *, seed: int) -> Path:
    """Write an example of the file that :func:`read_predictions` reads.

    A linear classifier of scikit-learn's digits, trained on few images so that errors remain. The
    user's images are blurred; 120 of them, drawn at random, have labels.

    Parameters
    ----------
    path : path-like
        Where the file shall be; missing folders are made. It appears whole or not at all.
    kind : {"npz", "csv"}
        Its format. Both hold the same numbers.
    seed : int
        Of the images' parts and of which user labels are known.

    Returns
    -------
    pathlib.Path
        `path`.
    """
    path = as_path("path", path)
    if kind not in ("npz", "csv"):
        raise ValueError(f"kind must be npz or csv, got {kind!r}")
    digits, rows = data.load_digits(), data.digits_splits(seed, _EXAMPLE)
    rng = np.random.default_rng(seed)
    model = train_linear(digits.images[rows["train"]], digits.labels[rows["train"]])
    arrays = {}
    for part in _PARTS:
        images, labels = digits.images[rows[part]], digits.labels[rows[part]]
        if part == "user":
            images = data.corrupt(images, "blur", 0.5, rng)
            known = rng.choice(len(labels), _EXAMPLE_LABELLED, replace=False)
            labels = np.where(np.isin(np.arange(len(labels)), known), labels, -1)
        arrays |= {f"{part}_logits": model.logits(images), f"{part}_labels": labels}
    if kind == "npz":
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        return write_atomic_bytes(path, buffer.getvalue())
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(["part", "label", *(f"logit_{j}" for j in range(len(model.bias)))])
    for part in _PARTS:
        pairs = zip(arrays[f"{part}_labels"].tolist(), arrays[f"{part}_logits"], strict=True)
        for label, logits in pairs:
            table.writerow([part, "" if label < 0 else label, *logits.tolist()])
    return write_atomic(path, stream.getvalue())


def suitability_report(
    predictions: Predictions, *, margin: float, alpha: float = 0.05, power: float = 0.8
) -> SuitabilityReport:
    """Decide whether a classifier may be used on user data, and say how sure that is.

    Parameters
    ----------
    predictions : Predictions
        Of :func:`read_predictions`.
    margin : float
        m in (-1, 1): the largest acceptable drop in accuracy.
    alpha : float
        Significance level in (0, 0.5).
    power : float
        In (0, 1): with which equally accurate user data shall be found suitable; for the sample
        size that this takes.

    Returns
    -------
    SuitabilityReport

    Raises
    ------
    ValueError, TypeError
        On input that is not as above.

    Notes
    -----
    Intervals of true accuracies are Clopper and Pearson's, those of mean estimates Student's, which
    take the fitted estimator as given; that of the drop counts the error of the fit.

    Choose beforehand whether the decision or the labels count: whoever takes the more favourable of
    two tests errs more often than either.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, sections 4.1 to 4.4.
    """
    if not isinstance(predictions, Predictions):
        raise TypeError(f"predictions must be Predictions, got {type(predictions).__name__}")
    margin = as_number("margin", margin, -1, 1)
    alpha, power = as_number("alpha", alpha, 0, 0.5), as_number("power", power, 0, 1)
    tables = {part: signals(getattr(predictions, f"{part}_logits")) for part in _PARTS}
    suitability_filter = SuitabilityFilter(margin, alpha)
    suitability_filter.fit(tables["holdout"], predictions.correct("holdout")[0])
    decision = suitability_filter.decide(tables["test"], tables["user"])
    estimated = {part: suitability_filter.estimate(tables[part]) for part in _COMPARED}

    spread = [float(estimated[part].std(ddof=1)) for part in _COMPARED]
    sizes = [len(estimated[part]) for part in _COMPARED]
    chance, required, unreachable = _power(decision, spread, sizes, power)
    calibration, adjusted, powered, by_labels, against, doubts = _calibration(
        predictions, estimated, decision
    )
    outside = {part: _outside(tables["holdout"], tables[part]) for part in _COMPARED}
    paper = SuitabilityFilter(margin, alpha, test="paper")
    paper.fit(tables["holdout"], predictions.correct("holdout")[0])
    by_paper = paper.decide(tables["test"], tables["user"]).p_value
    summary = _summary(predictions, estimated, decision, by_paper)
    summary += [
        ("power if equally accurate", chance),
        (f"user rows for a power of {power:g}", math.inf if required is None else required),
        *((f"share of {p} rows beyond the holdout's range", outside[p]) for p in _COMPARED),
    ]
    return SuitabilityReport(
        decision=decision,
        tipping=tipping_point(decision),
        power=chance,
        required=required,
        adjusted=adjusted,
        powered=powered,
        suitable_by_labels=by_labels,
        unsuitable_by_labels=against,
        summary=_table(["item", "value", "low", "high"], summary),
        moved=_moved(tables["test"], tables["user"], alpha),
        calibration=_table(["item", "value", "stderr", "low", "high"], calibration),
        warnings=(
            *_probabilities(predictions),
            *_few_rows(predictions),
            *_repeated(predictions),
            *_beyond(outside),
            *doubts,
            *_weak(decision, chance, required, power, unreachable, against),
        ),
        level=_level(alpha),
        source=predictions.source,
    )


# --- reading --------------------------------------------------------------------------------------


def _read_csv(path: Path) -> dict[str, Array]:
    if (size := path.stat().st_size) > MOST_BYTES:
        raise ValueError(f"{path}: {too_large('it', size, MOST_BYTES)}")
    with path.open(encoding="utf-8-sig", newline="") as stream:  # spreadsheets write a mark first
        records = csv_records(path, stream)
        _, header = next(records, (0, None))
        if header is None:
            raise ValueError(f"{path}: must have a header and rows, got an empty file")
        k = _check_header(path, header)
        part_at, label_at = header.index("part"), header.index("label")
        logits_at = [header.index(f"logit_{j}") for j in range(k)]
        # Numbers, not text, are kept: a cell of text takes ten times as much memory.
        logits = {part: array("d") for part in _PARTS}
        labels = {part: array("q") for part in _PARTS}
        for line, cells in records:
            if len(cells) != len(header):
                raise ValueError(
                    f"{path}: row {line} must have {len(header)} cells, as the header has, got "
                    f"{len(cells)}"
                )
            part = cells[part_at]
            if part not in _PARTS:
                raise _cell_error(path, "part", f"one of {', '.join(_PARTS)}", part, line)
            label = _label(cells[label_at])
            if not (0 <= label < k or (label == -1 and part != "holdout")):
                unknown = "" if part == "holdout" else ", or empty where unknown"
                allowed = f"a class from 0 to {k - 1}{unknown}, in the {part} part"
                raise _cell_error(path, "label", allowed, cells[label_at], line)
            labels[part].append(label)
            for j, at in enumerate(logits_at):
                logit = number_in(cells[at])
                if not abs(logit) <= _LARGEST:  # NaN is not
                    allowed = f"a finite number of at most {_LARGEST:g} in size"
                    raise _cell_error(path, f"logit_{j}", allowed, cells[at], line)
                logits[part].append(logit)
    arrays = {}
    for part in _PARTS:
        if not labels[part]:
            raise ValueError(f"{path}: there must be rows of the part {part!r}, got none")
        arrays[f"{part}_logits"] = np.array(logits[part]).reshape(-1, k)
        arrays[f"{part}_labels"] = np.array(labels[part])
    return arrays


def _check_header(path: Path, header: list[str]) -> int:
    """Number of classes."""
    found = short(", ".join(map(repr, header)))
    allowed = "'part', 'label' and 'logit_0', 'logit_1', ..."
    for name in ("part", "label", "logit_0", "logit_1"):
        if name not in header:
            semicolons = len(header) == 1 and ";" in header[0]
            raise ValueError(
                f"{path}: column {name!r} must be there, got {found}"
                + ("; separate cells by commas, not semicolons" if semicolons else "")
            )
    for name, count in Counter(header).items():
        if name not in ("part", "label") and not re.fullmatch("logit_(0|[1-9][0-9]*)", name):
            index = " (an index that pandas wrote? index=False leaves it out)" if not name else ""
            raise ValueError(f"{path}: columns must be {allowed}, got {short(repr(name))}{index}")
        if count > 1:
            raise ValueError(f"{path}: column {name!r} must be there once, got it {count} times")
    k = len(header) - 2
    for j in range(k):
        if f"logit_{j}" not in header:
            raise ValueError(
                f"{path}: column 'logit_{j}' must be there, as there are {k} columns of logits, "
                f"got {found}"
            )
    return k


def _label(cell: str) -> int:
    """The class that a cell names: -1 if unknown, -2 if it names none."""
    if not cell:
        return -1
    label = number_in(cell)
    if math.isnan(label):
        return -1 if cell.lower() == "nan" else -2
    return int(label) if label.is_integer() and -1 <= label < 1 << 31 else -2


def _cell_error(path: Path, column: str, allowed: str, cell: str, line: int) -> ValueError:
    return ValueError(
        f"{path}: column {column!r} must be {allowed}, got {short(repr(cell))} in row {line}"
    )


# --- checks ---------------------------------------------------------------------------------------


def _as_logits(name: str, values: Any, k: int | None) -> Array:
    """A copy of finite numbers, in the precision that they have."""
    logits = as_matrix(name, values)
    n, columns = logits.shape
    if columns < 2:
        raise ValueError(f"{name} must have at least 2 columns, one per class, got {columns}")
    if k not in (None, columns):
        raise ValueError(f"{name} must have {k} columns, as holdout_logits, got {columns}")
    if n < 2:
        raise ValueError(f"{name} must have at least 2 rows, got {n}")
    if (size := np.abs(logits).max()) > _LARGEST:
        raise ValueError(f"{name} must be at most {_LARGEST:g} in size, got {size:g}")
    # The signals tell rounding errors by the precision of the input.
    given = np.asarray(values).dtype
    narrow = given.kind == "f" and given.itemsize < logits.itemsize
    logits = np.array(logits, dtype=given.newbyteorder("=") if narrow else float, order="C")
    logits.flags.writeable = False
    return logits


def _as_labels(name: str, values: Any, n: int, k: int, unknown: bool) -> Labels:
    """A copy as int64, with -1 where unknown."""
    labels = as_array(name, values)
    if labels.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one entry per row, got {labels.shape}")
    allowed = f"integers from 0 to {k - 1}" + (", or -1 or NaN where unknown" if unknown else "")
    if labels.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be {allowed}, got {labels.dtype} values")
    good = (labels >= 0) & (labels < k) & (labels == np.floor(labels))
    if unknown:
        missing = np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(n, dtype=bool)
        good |= missing | (labels == -1)
        labels = np.where(missing, -1, labels) if missing.any() else labels
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError(
            f"{name} must be {allowed}, got {labels[row]} in row {row} "
            f"({int((~good).sum())} such values)"
        )
    labels = labels.astype(np.int64)
    labels.flags.writeable = False
    return labels


# --- tables ---------------------------------------------------------------------------------------


def _table(columns: list[str], rows: list[tuple]) -> pd.DataFrame:
    """A table of items and numbers, NaN where a row is short."""
    fill = (math.nan,) * len(columns)
    filled = [(*row, *fill)[: len(columns)] for row in rows]
    return pd.DataFrame(filled, columns=columns).astype(dict.fromkeys(columns[1:], float))


def _level(alpha: float) -> float:
    return 1 - 2 * alpha


def _exact(correct: Flags, alpha: float) -> tuple[float, float, float]:
    """Share of correct predictions, with Clopper and Pearson's interval."""
    found = stats.binomtest(int(correct.sum()), len(correct))
    interval = found.proportion_ci(_level(alpha), "exact")
    return float(correct.mean()), float(interval.low), float(interval.high)


def _summary(
    predictions: Predictions, estimated: dict[str, Array], decision: Decision, paper: float
) -> list[tuple]:
    alpha, rows, accuracies = decision.alpha, [], []
    for part in _PARTS:
        correct, labelled = predictions.correct(part)
        rows.append((f"{part} rows", len(labelled)))
        if part != "holdout":
            rows.append((f"labelled {part} rows", len(correct)))
        if len(correct):
            accuracies.append((f"accuracy on labelled {part} rows", *_exact(correct, alpha)))
    rows += accuracies
    for part in _COMPARED:
        mean, n = float(estimated[part].mean()), len(estimated[part])
        half = float(stats.t.isf(alpha, n - 1)) * _stderr(estimated[part])
        rows.append((f"estimated {part} accuracy", mean, mean - half, mean + half))
    drop = decision.estimated_test_accuracy - decision.estimated_user_accuracy
    half = float(stats.norm.isf(alpha)) * decision.stderr
    rows += [
        ("estimated drop (test minus user)", drop, drop - half, drop + half),
        ("margin", decision.margin),
        ("p-value", decision.p_value),
        ("p-value of the paper's test (leaves out the error of the fit)", paper),
        ("tipping point (overstated accuracy that turns the decision)", tipping_point(decision)),
    ]
    return rows


def _power(
    decision: Decision, spread: list[float], sizes: list[int], power: float
) -> tuple[float, int | None, str]:
    """Power for equally accurate user data, rows for the power asked for, and why none are."""
    sampled = [sd**2 / n for sd, n in zip(spread, sizes, strict=True)]
    # Of the fit, as it is for these user data.
    fit = max(decision.stderr**2 - sum(sampled), 0.0)

    def reached(n: Any) -> Array:
        return rejection_probability(
            decision.margin,
            [sampled[0], spread[1] ** 2 / n, fit],
            [sizes[0] - 1, n - 1, math.inf],
            decision.alpha,
        )

    required = smallest_size(reached, power) if decision.margin > 0 else None
    most = float(reached(np.array(1e15)))
    why = (
        f"with {sizes[0]} test rows and this holdout at most {most:.4g} can be had, however many "
        "user rows there are: more labelled source data are needed"
    )
    return float(reached(np.array(float(sizes[1])))), required, why


def _stderr(values: Array) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def _moved(test: pd.DataFrame, user: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """How each signal's distribution differs, the largest difference of means first."""
    rows = []
    for name in SIGNAL_NAMES:
        a, b = test[name].to_numpy(), user[name].to_numpy()
        gap = b.mean() - a.mean()
        pooled = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
        # Of equal numbers only rounding is left.
        rounding = 1e-12 * max(np.abs(a).max(), np.abs(b).max())
        gap, pooled = (0.0 if abs(value) <= rounding else float(value) for value in (gap, pooled))
        difference = gap / pooled if pooled else math.copysign(math.inf, gap) if gap else 0.0
        with warnings.catch_warnings():
            # The exact p-value of many rows may be out of reach: scipy then takes the limit's.
            warnings.simplefilter("ignore", RuntimeWarning)
            ks = stats.ks_2samp(a, b)
        distance = (ks.statistic, ks.pvalue) if gap or pooled else (0.0, 1.0)
        rows.append((name, a.mean(), b.mean(), difference, *distance))
    table = pd.DataFrame(
        rows, columns=["signal", "test_mean", "user_mean", "difference", "ks", "p_value"]
    )
    table["p_holm"] = _holm(table["p_value"].to_numpy())
    table["moved"] = table["p_holm"] <= alpha
    order = np.argsort(-table["difference"].abs().to_numpy(), kind="stable")
    return table.iloc[order].reset_index(drop=True)


def _outside(holdout: pd.DataFrame, table: pd.DataFrame) -> float:
    """Share of rows with a signal that is beyond its range in the holdout."""
    beyond = (table < holdout.min()) | (table > holdout.max())
    return float(beyond.any(axis=1).mean())


def _calibration(
    predictions: Predictions, estimated: dict[str, Array], decision: Decision
) -> tuple[
    list[tuple],
    Decision | None,
    PredictionPowered | None,
    bool | None,
    bool | None,
    list[str],
]:
    """Rows of the table, decisions that allow for the estimator's errors, and doubts."""
    alpha, margin = decision.alpha, decision.margin
    rows, doubts, known = [], [], []
    for part in _COMPARED:
        correct, labelled = predictions.correct(part)
        if len(correct) < 2:
            why = (
                "whether the estimator is calibrated on test data cannot be checked"
                if part == "test"
                else "that the estimator is as well calibrated on user data as on test data is an "
                "assumption, which nothing here can check"
            )
            doubts.append(f"without labels of the {part} data, at least 2, {why}")
            continue
        of_labelled = estimated[part][labelled]
        offset = calibration_offset(of_labelled, correct)
        half = float(stats.t.isf(alpha, offset.n - 1)) * offset.stderr
        accuracy, low, high = _exact(correct, alpha)
        rows += [
            (f"estimated accuracy on labelled {part} rows", float(of_labelled.mean())),
            (f"accuracy on labelled {part} rows", accuracy, math.nan, low, high),
            (
                f"Delta_{part} (estimated minus true)",
                offset.value,
                offset.stderr,
                offset.value - half,
                offset.value + half,
            ),
        ]
        known.append((of_labelled, correct))
        if abs(offset.value) > _DOUBTFUL * offset.stderr:
            doubts.append(
                f"the estimator is miscalibrated on {part} data: it puts the accuracy at "
                f"{of_labelled.mean():.3f}, the labels at {accuracy:.3f}"
            )
        fewest = min(int(correct.sum()), int((~correct).sum()))
        if fewest < _FEW_ERRORS:
            doubts.append(
                f"of the labelled {part} rows only {fewest} are "
                f"{'right' if accuracy < 0.5 else 'wrong'}, too few for standard errors of what "
                "they tell"
            )
    if len(known) < 2:
        return rows, None, None, None, None, doubts

    found = adjusted_margin(margin, *known[0], *known[1], level=alpha / 2)
    plug_in = _decide(estimated, found.value, alpha)
    adjusted = _decide(estimated, found.bound, alpha - found.level)
    rows += [
        ("adjusted margin", found.value, found.stderr, *found.interval),
        ("p-value with the adjusted margin (does not keep alpha)", plug_in.p_value),
        ("twice the p-value with its lower end", min(1.0, 2 * adjusted.p_value)),
    ]
    correct = [correct for _, correct in known]
    alone, powered = labels_test(*correct, margin), None
    rows += [
        ("p-value of the labels alone (exact)", alone.suitable_p),
        ("p-value of the labels alone that it is not suitable", alone.unsuitable_p),
    ]
    unlabelled = estimated["user"][~predictions.correct("user")[1]]
    if len(unlabelled) >= 2:
        powered = prediction_powered_test(correct[0], unlabelled, *known[1], margin)
        drop = powered.test_accuracy - powered.user_accuracy
        half = float(stats.t.isf(alpha, powered.dof)) * powered.stderr if powered.stderr else 0.0
        rows += [
            ("prediction-powered user accuracy", powered.user_accuracy),
            ("prediction-powered drop", drop, powered.stderr, drop - half, drop + half),
            ("p-value of the prediction-powered drop (many labels)", powered.p_value),
            ("p-value of the same by betting (any number of labels)", powered.betting_p_value),
        ]
    suitable, unsuitable = alone.suitable_p <= alpha, alone.unsuitable_p <= alpha
    if unsuitable:
        doubts.append(
            "the labels refute that the model is suitable"
            + (", though the estimates do not" if decision.suitable else "")
        )
    elif suitable != decision.suitable:
        doubts.append(
            "the labels "
            + (
                "show that the model is suitable, though the estimates do not"
                if suitable
                else "do not confirm that the model is suitable: it depends on estimates whose "
                "error on user data may be too large"
            )
        )
    return rows, adjusted, powered, suitable, unsuitable, doubts


def _decide(estimated: dict[str, Array], margin: float, alpha: float) -> Decision:
    """A decision with any margin, also one that no filter takes."""
    test, user = (estimated[part] for part in _COMPARED)
    moments = [f(e) for e in (test, user) for f in (np.mean, lambda e: np.var(e, ddof=1), len)]
    statistic, p_value, dof = map(float, welch_non_inferiority(*moments, margin))
    return Decision(
        suitable=p_value <= alpha,
        p_value=p_value,
        statistic=statistic,
        dof=dof,
        estimated_test_accuracy=float(test.mean()),
        estimated_user_accuracy=float(user.mean()),
        margin=margin,
        alpha=alpha,
        stderr=math.sqrt(moments[1] / len(test) + moments[4] / len(user)),
    )


def printable(table: pd.DataFrame) -> pd.DataFrame:
    """Write a report's table for people: no p-value below 0.001 is a number.

    Parameters
    ----------
    table : pandas.DataFrame
        Of a :class:`SuitabilityReport`.

    Returns
    -------
    pandas.DataFrame
        A copy, with text in the columns that hold p-values.
    """
    shown = table.copy()
    for column in {"p_value", "p_holm"} & set(shown):
        shown[column] = [p_text(p).removeprefix("p ").removeprefix("= ") for p in shown[column]]
    if "item" in shown and shown["item"].str.contains("p-value").any():
        shown["value"] = [
            p_text(value).removeprefix("p ").removeprefix("= ")
            if "p-value" in item
            else f"{value:.4g}"
            for item, value in zip(shown["item"], shown["value"], strict=True)
        ]
    return shown


def _words(margin: float) -> tuple[str, str]:
    """How much less accurate is suitable, and how much is not."""
    if margin > 0:
        return (
            f"at most {margin:g} less accurate than on",
            f"more than {margin:g} less accurate than on",
        )
    if margin < 0:
        more = f"{-margin:g} more accurate than on"
        return f"at least {more}", f"less than {more}"
    return "at least as accurate as on", "less accurate than on"


# --- warnings -------------------------------------------------------------------------------------


def _probabilities(predictions: Predictions) -> Iterator[str]:
    names = [
        name
        for name in ("holdout_logits", "test_logits", "user_logits")
        if look_like_probabilities(getattr(predictions, name))
    ]
    if names:
        yield (
            f"{', '.join(names)}: no value is negative and each row sums to 1, so that these look "
            "like probabilities; give logits, or the probabilities' logarithms"
        )


def look_like_probabilities(logits: Array) -> bool:
    """Whether every row of what should be logits is a distribution."""
    return bool((logits >= 0).all() and np.allclose(logits.sum(axis=1), 1, atol=1e-3))


def _few_rows(predictions: Predictions) -> Iterator[str]:
    for part in _COMPARED:
        if (n := len(getattr(predictions, f"{part}_logits"))) < _FEW:
            yield (
                f"there are only {n} {part} rows: a t-test relies on means that are close to "
                f"normal, for which {_FEW} are few"
            )
    correct, _ = predictions.correct("holdout")
    rarer = min(int(correct.sum()), int((~correct).sum()))
    if rarer < _PER_SIGNAL * len(SIGNAL_NAMES):
        yield (
            f"the holdout is small: of its {len(correct)} predictions only {rarer} are "
            f"{'wrong' if correct.mean() > 0.5 else 'right'}, and the estimator has "
            f"{len(SIGNAL_NAMES)} signals to weigh"
        )


def _repeated(predictions: Predictions) -> Iterator[str]:
    # Hashes, as the rows themselves may be many and long.
    holdout, test = (
        [hash(row.astype(float).tobytes()) for row in logits]
        for logits in (predictions.holdout_logits, predictions.test_logits)
    )
    seen = set(holdout)
    repeated = sum(row in seen for row in test)
    if repeated:
        yield (
            f"{repeated} of {len(predictions.test_logits)} test rows have the logits of a holdout "
            "row: the two must be different data"
        )


def _beyond(outside: dict[str, float]) -> Iterator[str]:
    if outside["user"] > _OUTSIDE:
        yield (
            f"{outside['user']:.0%} of the user rows have a signal beyond its range in the holdout "
            f"(of the test rows {outside['test']:.0%}): there the estimates are extrapolated"
        )


def _weak(
    decision: Decision,
    chance: float,
    required: int | None,
    power: float,
    unreachable: str,
    against: bool | None,
) -> Iterator[str]:
    if required is None and decision.margin <= 0:
        yield (
            f"with a margin of {decision.margin:g} equally accurate data are not found suitable "
            "more often than by chance, however many rows there are: only a positive margin "
            "allows for a power to plan for"
        )
    elif required is None:
        yield f"no number of user rows is enough for a power of {power:g}: {unreachable}"
    if decision.suitable:
        return
    if not against:
        yield "INCONCLUSIVE is not unsuitable: it is not shown either that the drop is too large"
    if required is not None and chance < power:
        yield (
            f"equally accurate user data would be found suitable with a probability of only "
            f"{chance:.2f}; it takes {required:,} user rows for {power:g}"
        )

"""Which of two services to buy after a free trial, from a CSV file to a decision.

During its trial each service answers what it likes; the one that is paid for answers always.  So
what matters is the difference of the counterfactual scores, not that of the scores seen.
"""

import csv
import io
import math
import os
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from lib.check import (
    as_answers,
    as_flags,
    as_generator,
    as_integer,
    as_matrix,
    as_number,
)
from lib.counterfactual.diagnostics import PositivityWarning
from lib.counterfactual.estimate import (
    Estimate,
    counterfactual_difference,
    estimate_from_nuisances,
)
from lib.counterfactual.metrics import selective_score
from lib.counterfactual.overlap import without_overlap
from lib.counterfactual.sensitivity import breakdown_share
from lib.counterfactual.simulation import simulate, true_difference
from lib.runs import write_atomic

__all__ = [
    "DECISIONS",
    "MOST_CATEGORIES",
    "SMALLEST_TRIAL",
    "Comparison",
    "Services",
    "compare_services",
    "comparison_table",
    "decide",
    "diagnostics_table",
    "example_services",
    "read_services",
    "write_services",
]

DECISIONS = ("choose A", "choose B", "undecided")
#: Rows that a trial must have, and categories that a column of text may have.
SMALLEST_TRIAL, MOST_CATEGORIES = 20, 30

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_COLUMNS = ("score_a", "abstained_a", "score_b", "abstained_b")
_WORDS = {"0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}
_MISSING = {"", "nan", "-nan", "+nan", "na", "n/a", "null"}
_FEW_NEVER = 0.02  # fraction of the points below which a rule hardly matters
_FEW_ANSWERS = 30  # below, an interval by the normal distribution is not to be relied on
_HOPELESS = 100  # times as many points: beyond that nobody is told to collect them


@dataclass(frozen=True, eq=False)
class Services:
    """A free trial of two services on the same points; all arrays are read-only copies.

    Attributes
    ----------
    names : tuple of str
        Of A and B.
    features : tuple of str
        Names of the columns of `X`, without white space at their ends or in excess.
    X : ndarray, shape (n, d)
        Features of the points, that abstention and scores depend on; n is at least 20.
    scores : pair of ndarray, shape (n,)
        Of A's and B's answers, larger is better; NaN where they abstained, whatever was given.
    abstained : pair of ndarray of bool, shape (n,)
        Where each abstained: not everywhere.
    source : str
        Where all this comes from, for people.

    Raises
    ------
    ValueError
        On input that is not as above.
    """

    names: tuple[str, str]
    features: tuple[str, ...]
    X: Array = field(repr=False)
    scores: tuple[Array, Array] = field(repr=False)
    abstained: tuple[Flags, Flags] = field(repr=False)
    source: str = ""

    def __post_init__(self):
        object.__setattr__(self, "names", _as_names(self.names))
        x = as_matrix("X", self.X).copy()
        n, d = x.shape
        if n < SMALLEST_TRIAL:
            raise ValueError(f"X must have at least {SMALLEST_TRIAL} rows, got {n}")
        object.__setattr__(self, "features", _as_features(self.features, d))
        for name, pair in (("scores", self.scores), ("abstained", self.abstained)):
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise ValueError(f"{name} must be a pair, of A and of B, got {type(pair).__name__}")
        scores, abstained = [], []
        for letter, given, flags in zip("ab", self.scores, self.abstained, strict=True):
            r = as_flags(f"abstained_{letter}", flags, n).copy()
            if r.all():
                raise ValueError(
                    f"abstained_{letter} must be no somewhere: of a service that abstains on all "
                    f"{n} rows nothing is known"
                )
            s = as_answers(f"score_{letter}", given, r)
            s[r] = math.nan
            scores.append(s)
            abstained.append(r)
        for array in (x, *scores, *abstained):
            array.flags.writeable = False
        object.__setattr__(self, "X", x)
        object.__setattr__(self, "scores", tuple(scores))
        object.__setattr__(self, "abstained", tuple(abstained))

    def __len__(self) -> int:
        return len(self.X)


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a free trial says of two services that will have to answer always.

    Attributes
    ----------
    names : tuple of str
        Of A and B.
    difference : Estimate
        Doubly robust, of A's counterfactual score minus B's.
    each : pair of Estimate
        Of the two scores, from the same nuisance functions.  With ``repeats`` these are of the
        median split, and lack the spread over splits that `difference` contains.
    metrics : pandas.DataFrame
        One row per service, with the columns ``service``, ``coverage``; ``selective``,
        ``selective_low``, ``selective_high``: mean score of the answers; ``counterfactual``,
        ``counterfactual_low``, ``counterfactual_high``: mean score had it answered always.
    decision : {"choose A", "choose B", "undecided"}
        A if the interval of the difference is above `margin`, B if it is below -`margin`; undecided
        whatever it is if one of the two seems never to answer some inputs.
    reason : str
        Why, in sentences with numbers.
    warnings : tuple of str
        What to worry about, of each service by its name.
    margin : float
        The smallest difference that matters.
    breakdown : float or None
        Smallest share of points on which scores would have to be missing *not* at random for the
        decision to fall (:func:`lib.counterfactual.breakdown_share`); infinite if it cannot fall.
        None if it is undecided, or if the range of scores is not known.
    """

    names: tuple[str, str]
    difference: Estimate
    each: tuple[Estimate, Estimate]
    metrics: pd.DataFrame = field(repr=False)
    decision: str
    reason: str
    warnings: tuple[str, ...]
    margin: float = 0.0
    breakdown: float | None = None


def read_services(path: Any, *, names: tuple[str, str] = ("A", "B")) -> Services:
    """Read a free trial of two services from a CSV file.

    The first row names the columns, in any order; cells are separated by commas, the text is in
    UTF-8.  Rows without any cell are skipped.

    ``abstained_a``, ``abstained_b``
        Where each service abstained: 0 or 1, false or true, no or yes, upper or lower case.
    ``score_a``, ``score_b``
        Score of each answer, larger is better.  Ignored, and possibly empty, where the service
        abstained.
    all others
        Features of the points.  A column is numeric if all its cells are numbers.  Any other is
        text: for each of its categories, at most 30, in alphabetical order, it becomes a feature
        ``"column=category"`` that is 1 or 0 (one-hot).  No cell may be missing, that is, be empty
        or nan, NA, N/A or null.

    White space around names and cells does not count.

    Parameters
    ----------
    path : path-like
        The file.
    names : tuple of str
        What A and B are called.

    Returns
    -------
    Services
        Its source is the path.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError, TypeError
        On a file that is not as above, or with fewer than 20 rows, or if a service abstained
        always.  The message names the file, and column, row and value where that applies, the row
        being the line of the file, from 1, which is the header's.
    """
    path = _as_path(path)
    names = _as_names(names)
    header, rows, lines = _read_table(path)
    # A trial that is too short is refused before its cells are looked at.
    if len(rows) < SMALLEST_TRIAL:
        raise ValueError(
            f"{path}: there must be at least {SMALLEST_TRIAL} rows below the header, got "
            f"{len(rows)}"
        )
    columns = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    scores, abstained = [], []
    for letter in "ab":
        r = _read_flags(path, f"abstained_{letter}", columns[f"abstained_{letter}"], lines)
        scores.append(_read_scores(path, letter, columns[f"score_{letter}"], r, lines))
        abstained.append(r)
    features, vectors = [], []
    for name in header:
        if name not in _COLUMNS:
            for feature, vector in _read_feature(path, name, columns[name], lines):
                features.append(feature)
                vectors.append(vector)
    try:
        return Services(
            names,
            tuple(features),
            np.column_stack(vectors),
            tuple(scores),
            tuple(abstained),
            str(path),
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def write_services(path: Any, services: Services) -> Path:
    """Write a free trial as the CSV file that :func:`read_services` reads.

    Features, scores and abstentions come back exactly; the services' names and the source are not
    part of the file.

    Parameters
    ----------
    path : path-like
        Where the file shall be; missing folders are made.  It appears whole or not at all.
    services : Services
        What to write.

    Returns
    -------
    pathlib.Path
        `path`.
    """
    path = _as_path(path)
    _check_services(services)
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow([*_COLUMNS, *services.features])
    pairs = [
        (["" if hidden else score for score, hidden in zip(s.tolist(), r, strict=True)], r)
        for s, r in zip(services.scores, services.abstained, strict=True)
    ]
    own = [column for s, r in pairs for column in (s, r.astype(int).tolist())]
    for *cells, values in zip(*own, services.X.tolist(), strict=True):
        table.writerow([*cells, *values])
    return write_atomic(path, stream.getvalue())


def compare_services(
    services: Services,
    *,
    learner: Any = "super",
    folds: int = 2,
    repeats: int = 1,
    clip: float | None = None,
    level: float = 0.95,
    margin: float = 0.0,
    score_range: tuple[float, float] | None = None,
    rng: np.random.Generator | int,
) -> Comparison:
    """Decide between two services that will have to answer always.

    Parameters
    ----------
    services : Services
        The free trial.
    learner, folds, repeats, clip, level, rng
        As for :func:`lib.counterfactual.counterfactual_difference`, which is called once.
    margin : float
        The smallest difference of scores that matters, at least 0.
    score_range : tuple of float, optional
        Least and largest possible score.  If given, all scores must be in it, and the reason of a
        decision says how much of the data may be missing not at random.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError, TypeError
        On input that is not as above.

    Notes
    -----
    Where abstention looks deterministic no :class:`lib.counterfactual.PositivityWarning` is given;
    its text is among the comparison's warnings, and nothing is decided.

    If the true difference is within the margin, one of the two is chosen all the same with a
    probability of at most 1 - `level`, for large samples and under the assumptions of the estimate.

    Examples
    --------
    >>> found = compare_services(example_services(500, rng=0), learner="linear", rng=0)
    >>> found.decision
    'choose A'
    """
    _check_services(services)
    if (
        isinstance(margin, bool)
        or not isinstance(margin, int | float | np.integer | np.floating)
        or not 0 <= margin < math.inf
    ):
        raise ValueError(f"margin must be a finite number of at least 0, got {margin!r}")
    margin = float(margin)
    level = as_number("level", level, 0, 1)
    if score_range is not None:
        score_range = _as_score_range(score_range, services)
    with warnings.catch_warnings():
        # Their text is in the diagnostics too.
        warnings.simplefilter("ignore", PositivityWarning)
        difference = counterfactual_difference(
            services.X,
            services.scores[0],
            services.abstained[0],
            services.scores[1],
            services.abstained[1],
            learner=learner,
            folds=folds,
            repeats=repeats,
            clip=clip,
            level=level,
            rng=rng,
        )
    each = tuple(
        estimate_from_nuisances(nuisances, clip=difference.clip, level=level)
        for nuisances in difference.nuisances
    )
    blind = _blind(services, difference)
    decision = "undecided" if blind else decide(*difference.interval, margin)
    breakdown = None
    if score_range is not None and decision != "undecided":
        bar = margin if decision == "choose A" else -margin
        breakdown = breakdown_share(difference, bar, score_range)
    metrics = pd.DataFrame(
        [
            _metrics_row(name, scores, abstained, estimate)
            for name, scores, abstained, estimate in zip(
                services.names, services.scores, services.abstained, each, strict=True
            )
        ]
    )
    return Comparison(
        names=services.names,
        difference=difference,
        each=each,
        metrics=metrics,
        decision=decision,
        reason=_reason(services.names, difference, metrics, decision, margin, breakdown, blind),
        warnings=_warnings(services.names, difference, blind),
        margin=margin,
        breakdown=breakdown,
    )


def decide(low: float, high: float, margin: float = 0.0) -> str:
    """Decide by an interval for A minus B.

    Returns
    -------
    str
        ``"choose A"`` or ``"choose B"`` if the interval is beyond the margin on that side, else
        ``"undecided"``.
    """
    return "choose A" if low > margin else "choose B" if high < -margin else "undecided"


def comparison_table(comparison: Comparison) -> pd.DataFrame:
    """The scores seen and the scores to be expected, and how A and B differ in each.

    Parameters
    ----------
    comparison : Comparison
        Of :func:`compare_services`.

    Returns
    -------
    pandas.DataFrame
        Rows: A, B and A minus B.  Columns: ``service``; ``coverage``; ``selective score``,
        ``selective low``, ``selective high``; ``counterfactual score``, ``counterfactual low``,
        ``counterfactual high``.  Lows and highs are ends of intervals, those of a difference of
        selective scores too: these allow for A and B having answered the same points.
    """
    _check_comparison(comparison)
    difference = comparison.difference
    table = comparison.metrics
    gap = float(table["selective"].iloc[0] - table["selective"].iloc[1])
    a, b = (
        np.where(p.abstained, 0.0, p.scores - p.scores[~p.abstained].mean()) / (~p.abstained).mean()
        for p in difference.nuisances
    )
    half = float(stats.norm.isf((1 - difference.level) / 2) * (a - b).std() / math.sqrt(len(a)))
    last = {
        "service": f"{comparison.names[0]} − {comparison.names[1]}",
        "coverage": float(table["coverage"].iloc[0] - table["coverage"].iloc[1]),
        "selective": gap,
        "selective_low": gap - half,
        "selective_high": gap + half,
        "counterfactual": difference.value,
        "counterfactual_low": difference.interval[0],
        "counterfactual_high": difference.interval[1],
    }
    table = pd.concat([table, pd.DataFrame([last])], ignore_index=True)
    names = {"selective": "selective score", "counterfactual": "counterfactual score"}
    return table.rename(columns=lambda name: names.get(name, name.replace("_", " ")))


def diagnostics_table(comparison: Comparison) -> pd.DataFrame:
    """How far the comparison of two services can be trusted.

    Parameters
    ----------
    comparison : Comparison
        Of :func:`compare_services`.

    Returns
    -------
    pandas.DataFrame
        One row per quantity of :class:`lib.counterfactual.Diagnostics`, which is its index;
        columns ``A`` and ``B``.
    """
    _check_comparison(comparison)
    quantities = {
        "coverage": "coverage",
        "overlap": "overlap",
        "effective sample size": "effective_sample_size",
        "largest weight": "largest_weight",
        "share clipped": "clipped",
        "abstention explained": "explained",
        "calibration slope": "calibration_slope",
        "calibration intercept": "calibration_intercept",
        "calibration error": "calibration_error",
        "outcome R2": "outcome_r2",
        "outcome bias": "outcome_bias",
    }
    return pd.DataFrame(
        {
            letter: [getattr(diagnostics, name) for name in quantities.values()]
            for letter, diagnostics in zip("AB", comparison.difference.diagnostics, strict=True)
        },
        index=pd.Index(quantities, name="quantity"),
        dtype=float,
    )


def example_services(n: int = 1000, *, rng: np.random.Generator | int) -> Services:
    """Simulate a free trial of which the truth is known.

    Two services classify points of the unit square.  A has learned the boundary between the
    classes; B has learned a curve, and is wrong between the two.  During the trial each abstains
    mostly near its own boundary, but anywhere it may answer or abstain: nothing is deterministic.
    A score is 1 for a right answer and 0 for a wrong one, and 15% of the labels are wrong.  Paid
    for, A is better by :func:`lib.counterfactual.simulation.true_difference`, 0.106.

    Parameters
    ----------
    n : int
        Points, at least 20.
    rng : numpy.random.Generator or int

    Returns
    -------
    Services
        Features ``x0`` and ``x1``.

    References
    ----------
    P4, section 4.1, experiment 1; and its example of free trials.
    """
    n, rng = as_integer("n", n, SMALLEST_TRIAL), as_generator(rng, "rng")
    drawn = simulate(n, "curved", rng=rng)
    return Services(
        ("A", "B"),
        ("x0", "x1"),
        drawn.X,
        drawn.scores,
        drawn.abstained,
        f"simulated: {n} points, of services whose true scores differ by "
        f"{true_difference('curved'):.4f}",
    )


# --- reading --------------------------------------------------------------------------------------


def _read_table(path: Path) -> tuple[list[str], list[list[str]], list[int]]:
    """Header, cells and line numbers of a CSV file, white space at the ends of cells removed."""
    if not path.exists():
        raise FileNotFoundError(f"path must be a CSV file, got {path}, which does not exist")
    if not path.is_file():
        raise ValueError(f"path must be a CSV file, got {path}, which is not a file")
    try:
        text = path.read_bytes().decode("utf-8-sig")  # spreadsheets put a mark at the start
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: must be text in UTF-8, got byte {error.object[error.start]:#04x} at "
            f"position {error.start}"
        ) from None
    if "\0" in text:
        raise ValueError(f"{path}: must be text, got a zero byte at position {text.index(chr(0))}")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    records, lines, end = [], [], 0
    try:
        for record in reader:
            # A quoted cell may have several lines; the first one counts.
            if any(cell.strip() for cell in record):
                records.append([" ".join(cell.split()) for cell in record])
                lines.append(end + 1)
            end = reader.line_num
    except csv.Error as error:
        raise ValueError(f"{path}: must be CSV, got in row {end + 1}: {error}") from None
    if not records:
        raise ValueError(f"{path}: must have a header and rows, got an empty file")
    header = records[0]
    _check_header(path, header)
    for record, line in zip(records[1:], lines[1:], strict=True):
        if len(record) != len(header):
            raise ValueError(
                f"{path}: row {line} must have {len(header)} cells, as the header has, got "
                f"{len(record)}"
            )
    return header, records[1:], lines[1:]


def _check_header(path: Path, header: list[str]) -> None:
    found = ", ".join(map(repr, header))
    for name in _COLUMNS:
        if name not in header:
            semicolons = len(header) == 1 and ";" in header[0]
            raise ValueError(
                f"{path}: column {name!r} must be there, beside "
                f"{', '.join(repr(other) for other in _COLUMNS if other != name)}; got {found}"
                + ("; separate cells by commas, not semicolons" if semicolons else "")
            )
    if "" in header:
        raise ValueError(
            f"{path}: every column must have a name, got none for column {header.index('') + 1} of "
            f"{len(header)} (an index that pandas wrote? index=False leaves it out)"
        )
    for name, count in Counter(header).items():
        if count > 1:
            raise ValueError(f"{path}: column {name!r} must be there once, got it {count} times")
    if len(header) == len(_COLUMNS):
        raise ValueError(
            f"{path}: there must be at least one feature column beside {', '.join(_COLUMNS)}, got "
            "none"
        )


def _read_flags(path: Path, column: str, cells: list[str], lines: list[int]) -> Flags:
    bad = [i for i, cell in enumerate(cells) if cell.lower() not in _WORDS]
    if bad:
        allowed = "one of 0, 1, false, true, no, yes"
        raise _cell_error(path, column, allowed, cells, lines, bad)
    return np.array([_WORDS[cell.lower()] for cell in cells])


def _read_scores(
    path: Path, letter: str, cells: list[str], abstained: Flags, lines: list[int]
) -> Array:
    scores = np.array(
        [math.nan if r else _number(cell) for cell, r in zip(cells, abstained, strict=True)]
    )
    bad = np.flatnonzero(~abstained & ~np.isfinite(scores)).tolist()
    if bad:
        allowed = f"a finite number where abstained_{letter} is no"
        raise _cell_error(path, f"score_{letter}", allowed, cells, lines, bad)
    return scores


def _read_feature(
    path: Path, column: str, cells: list[str], lines: list[int]
) -> list[tuple[str, Array]]:
    bad = [i for i, cell in enumerate(cells) if cell.lower() in _MISSING]
    if bad:
        raise _cell_error(path, column, "a number or text, and not missing", cells, lines, bad)
    numbers = np.array([_number(cell) for cell in cells])
    words = np.flatnonzero(np.isnan(numbers))
    if len(words) == 0:
        bad = np.flatnonzero(np.isinf(numbers)).tolist()
        if bad:
            raise _cell_error(path, column, "finite", cells, lines, bad)
        return [(column, numbers)]
    categories = sorted(set(cells))
    if len(categories) > MOST_CATEGORIES:
        first = int(words[0])
        raise ValueError(
            f"{path}: column {column!r} must hold numbers only, or text of at most "
            f"{MOST_CATEGORIES} categories, got {len(categories)} different cells, among them "
            f"{cells[first]!r} in row {lines[first]}"
        )
    values = np.array(cells)
    return [(f"{column}={category}", (values == category) * 1.0) for category in categories]


def _number(cell: str) -> float:
    """What a cell says, NaN if that is no number."""
    if "_" in cell:  # 1_000 is a number to Python, not to others
        return math.nan
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _cell_error(
    path: Path, column: str, allowed: str, cells: list[str], lines: list[int], bad: list[int]
) -> ValueError:
    count = f" ({len(bad)} such rows)" if len(bad) > 1 else ""
    return ValueError(
        f"{path}: column {column!r} must be {allowed}, got {cells[bad[0]]!r} in row "
        f"{lines[bad[0]]}{count}"
    )


# --- words ----------------------------------------------------------------------------------------


def _metrics_row(name: str, scores: Array, abstained: Flags, estimate: Estimate) -> dict[str, Any]:
    selective = selective_score(scores, abstained, level=estimate.level)
    return {
        "service": name,
        "coverage": float((~abstained).mean()),
        "selective": selective.value,
        "selective_low": selective.interval[0],
        "selective_high": selective.interval[1],
        "counterfactual": estimate.value,
        "counterfactual_low": estimate.interval[0],
        "counterfactual_high": estimate.interval[1],
    }


def _warnings(
    names: tuple[str, str], difference: Estimate, blind: Mapping[str, list[str]]
) -> tuple[str, ...]:
    found = []
    for name, diagnostics in zip(names, difference.diagnostics, strict=True):
        found += [f"{name}: {text}" for text in (*blind.get(name, []), *diagnostics.notes)]
        if diagnostics.answered < _FEW_ANSWERS:
            found.append(
                f"{name}: it answered only {diagnostics.answered} of {diagnostics.n} points, too "
                "few for an interval that relies on the normal distribution"
            )
    if difference.stderr == 0:
        found.append(
            f"{names[0]} − {names[1]}: the interval has no width, as no score differs from what "
            "was predicted: it says nothing about how sure the difference is"
        )
    return tuple(found)


def _blind(services: Services, difference: Estimate) -> dict[str, list[str]]:
    """Why some inputs seem never to be answered, for each service of which that is so."""
    columns, found = dict(zip(services.features, services.X.T, strict=True)), {}
    for name, abstained, diagnostics in zip(
        services.names, services.abstained, difference.diagnostics, strict=True
    ):
        never, reasons = without_overlap(abstained, columns)
        # A few abstentions may be separated by chance, and do not matter.
        reasons = list(diagnostics.positivity) + (reasons if never.mean() > _FEW_NEVER else [])
        if reasons:
            found[name] = reasons
    return found


def _reason(
    names: tuple[str, str],
    difference: Estimate,
    metrics: pd.DataFrame,
    decision: str,
    margin: float,
    breakdown: float | None,
    blind: Mapping[str, list[str]],
) -> str:
    (a, b), value, (low, high) = names, difference.value, difference.interval
    digits = _digits(difference, margin)

    def text(number: float) -> str:
        return f"{number:.{digits}f}".replace("-", "−")

    share = f"{100 * difference.level:.10g}%"
    if value == 0:
        compared = f"as much as {b}"
    else:
        compared = f"{text(abs(value))} {'more' if value > 0 else 'less'} than {b}"
    sentences = [
        f"If both had to answer always, {a} would score an estimated {compared} ({share} interval "
        f"of {a} minus {b}: {text(low)} to {text(high)})."
    ]
    bar = f"the margin of {margin:g}" if margin else "0"
    if blind:
        sentences.append(
            f"But {' and '.join(blind)} seem{'' if len(blind) == 2 else 's'} never, or hardly "
            "ever, to answer some inputs, where all this is extrapolated: the trial decides "
            "nothing, and the warnings say why."
        )
    elif decision == "choose A":
        sentences.append(f"The whole interval is above {bar}: choose {a}.")
    elif decision == "choose B":
        minus = "minus " if margin else ""
        sentences.append(f"The whole interval is below {minus}{bar}: choose {b}.")
    elif margin and -margin <= low and high <= margin:
        sentences.append(
            f"The whole interval is within {bar} on either side: the two differ by too little to "
            "matter, so let something else decide, such as the price."
        )
    else:
        reach = f"differences of less than {bar}" if margin else bar
        sentences.append(f"The interval holds {reach}: the trial does not tell which to choose.")
        short = abs(value) - margin
        ratio = ((high - low) / 2 / short) ** 2 if short > 0 else math.inf
        if ratio <= _HOPELESS:
            needed = ratio * difference.diagnostics[0].n
            unit = 10 ** max(0, math.floor(math.log10(needed)) - 1)
            sentences.append(
                "If the difference is what it seems, it takes about "
                f"{math.ceil(needed / unit) * unit:,} points for an even chance to tell."
            )
    seen, coverage = metrics["selective"].tolist(), metrics["coverage"].tolist()
    gap = seen[0] - seen[1]
    opposite = decision != "undecided" and gap * value < 0
    sentences.append(
        f"Where they answered, {a} scored {text(seen[0])} (on {coverage[0]:.0%} of the points) and "
        f"{b} {text(seen[1])} (on {coverage[1]:.0%})"
        + (", which misleads: it points the other way." if opposite else ".")
    )
    if breakdown == math.inf:
        sentences.append(
            "The decision would stand even if any share of the points broke missing-at-random, "
            "as long as which they are does not depend on abstention."
        )
    elif breakdown is not None:
        sentences.append(
            f"The decision may fall if on {100 * breakdown:.3g}% of all points the scores "
            "withheld are not like those of answers to similar inputs, and at a smaller share if "
            "these points are all among the abstentions."
        )
    return " ".join(sentences)


def _digits(difference: Estimate, margin: float) -> int:
    """Decimals: two digits of the standard error, and more if an end looks like what it is not."""
    error = difference.stderr
    digits = max(0, 1 - math.floor(math.log10(error))) if error > 0 else 3
    digits = min(digits, 15)
    while digits < 15 and any(
        end != bar and round(end, digits) == round(bar, digits)
        for end in difference.interval
        for bar in (margin, -margin)
    ):
        digits += 1
    return digits


# --- checks ---------------------------------------------------------------------------------------


def _as_path(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a path, got {type(path).__name__}")
    return Path(path)


def _as_names(names: Any) -> tuple[str, str]:
    pair = isinstance(names, tuple | list) and len(names) == 2
    if (
        not pair
        or not all(isinstance(name, str) and name.strip() for name in names)
        or names[0] == names[1]
    ):
        raise ValueError(f"names must be two different ones, of A and of B, got {names!r}")
    return tuple(names)


def _as_features(features: Any, d: int) -> tuple[str, ...]:
    if not isinstance(features, tuple | list) or len(features) != d:
        raise ValueError(f"features must be {d} names, one a column of X, got {features!r}")
    for name in features:
        if not isinstance(name, str) or not name or name != " ".join(name.split()):
            raise ValueError(
                "features must be names without white space at their ends or in excess, got "
                f"{name!r}"
            )
        if name in _COLUMNS:
            raise ValueError(f"features must not be called {', '.join(_COLUMNS)}, got {name!r}")
    for name, count in Counter(features).items():
        if count > 1:
            raise ValueError(f"features must be different, got {name!r} {count} times")
    return tuple(features)


def _as_score_range(score_range: Any, services: Services) -> tuple[float, float]:
    try:
        low, high = (as_number("score_range", end, -math.inf, math.inf) for end in score_range)
        ordered = low < high
    except (TypeError, ValueError):
        ordered = False
    if not ordered:
        raise ValueError(
            "score_range must be two finite numbers, the least and the largest possible score, "
            f"got {score_range!r}"
        )
    for letter, scores in zip("ab", services.scores, strict=True):
        bad = (scores < low) | (scores > high)  # not where a score is NaN
        if bad.any():
            first = int(np.argmax(bad))
            raise ValueError(
                f"score_range must hold all scores, got ({low:g}, {high:g}) and score_{letter} "
                f"{scores[first]:g} of point {first}, from 0 ({int(bad.sum())} such scores)"
            )
    return low, high


def _check_services(services: Any) -> None:
    if not isinstance(services, Services):
        raise TypeError(f"services must be Services, got {type(services).__name__}")


def _check_comparison(comparison: Any) -> None:
    if not isinstance(comparison, Comparison):
        raise TypeError(f"comparison must be a Comparison, got {type(comparison).__name__}")

"""One file for everything: what a model said, as NPZ or CSV, and which analyses that allows.

:data:`FORMAT` lists the arrays (NPZ) and the columns (CSV), and says what they hold.
Everything is optional: each analysis runs if what it needs is there.  A CSV file has one row per
example; its column ``part`` says holdout, test, user, member or nonmember, and cells that a part
has no use for are empty.

A trial of two services, A and B, may also be a CSV file without the column ``part``: its columns
are ``score_a``, ``abstained_a``, ``score_b``, ``abstained_b``, where they are known
``propensity_a`` and ``propensity_b`` (of abstaining), and every other one is a feature.
A feature is numeric if all its cells are numbers; of any other, each of its categories, at most
30, becomes a feature ``column=category`` that is 1 or 0.
"""

import math
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.check import as_array
from lib.data.arrays import MOST_CHARACTERS
from lib.data.untrusted import printable, short
from lib.report.outputs import as_logits, finite, kind_of
from lib.suitability.signals import _LARGEST

Array = npt.NDArray[Any]

#: (array, columns, shape, meaning): what a file may hold, for people.
FORMAT = (
    ("holdout_logits", "logit_0, ...", "(n, k)", "outputs before the softmax, held-out data"),
    ("holdout_labels", "label", "(n,)", "classes, 0 to k - 1"),
    ("test_logits", "logit_0, ...", "(m, k)", "on other data from the same source"),
    ("test_labels", "label", "(m,)", "classes; -1, NaN or empty where unknown"),
    ("user_logits", "logit_0, ...", "(u, k)", "on the data that it might be used on"),
    ("user_labels", "label", "(u,)", "classes; -1, NaN or empty where unknown"),
    ("test_groups", "group", "(m,)", "a group of each row: words or whole numbers"),
    ("test_features", "feature_0, ...", "(m, d)", "what abstaining and being right depend on"),
    ("test_abstained", "abstained", "(m,)", "whether it abstained: true or false, 1 or 0"),
    ("test_propensities", "propensity", "(m,)", "probability of abstaining, if known"),
    ("other_logits", "other_logit_0, ...", "(m, k)", "of a competitor, on the test data"),
    ("other_abstained", "other_abstained", "(m,)", "whether the competitor abstained"),
    ("other_propensities", "other_propensity", "(m,)", "its probability of abstaining, if known"),
    ("test_scores", "score", "(m,)", "score of each answer; NaN or empty where it abstained"),
    ("other_scores", "other_score", "(m,)", "the competitor's"),
    ("member_scores", "membership_score", "(a,)", "attack on points trained on; large: member"),
    ("nonmember_scores", "membership_score", "(b,)", "of points not trained on; a coin decided"),
    ("test_predicted", "prediction", "(m,)", "class that it answered, if there are no logits"),
    ("test_confidence", "confidence", "(m,)", "how sure it was of that; larger is surer"),
    ("test_correct", "correct", "(m,)", "whether an answer was right, if there are no labels"),
    ("holdout_clusters", "cluster", "(n,)", "patient, user or session of each row"),
    ("test_clusters", "cluster", "(m,)", "the same: rows of one may depend on one another"),
    ("user_clusters", "cluster", "(u,)", "the same"),
    ("epsilon", "epsilon", "()", "privacy that is claimed, for the audit; CSV: in any member row"),
    ("delta", "delta", "()", "at which it is claimed"),
)
NAMES = tuple(name for name, *_ in FORMAT)
LOGITS = ("holdout_logits", "test_logits", "user_logits", "other_logits")
MOST_GROUPS = 100
MOST_FEATURES = 4096  # a forest looks at each
FEWER_FEATURES = (
    f"at most {MOST_FEATURES:,} columns (of more, such as pixels, take principal components)"
)
_BLOCK = 1 << 13  # rows
#: What is no logits, by its rows' sums.
_SUMS = {"probabilities": "1", "percent": "100"}


@dataclass(frozen=True, eq=False)
class ModelPredictions:
    """What a model said, as far as it is known; all arrays are read-only copies.

    :data:`FORMAT` says what the attributes hold; each may be None.

    Attributes
    ----------
    holdout_logits, test_logits, user_logits, other_logits : ndarray, shape (rows, k), or None
        At most 1e150 in size.  Rows may be NaN only where the model, or the competitor, abstained.
    holdout_labels, test_labels, user_labels : ndarray of int64, shape (rows,), or None
        -1 where unknown; None if no label is known.
    test_groups : ndarray of str, shape (m,), or None
        At most 100 different ones of at most 200 characters, none of them empty.
    test_features : ndarray of float64, shape (m, d), or None
        At most 4,096 columns.
    test_abstained, other_abstained : ndarray of bool, shape (m,), or None
    test_propensities, other_propensities : ndarray of float64, shape (m,), or None
        In [0, 1], and below 1 where an answer was given.
    test_scores, other_scores : ndarray of float64, shape (m,), or None
        Finite where an answer was given; NaN elsewhere, whatever was given.
    member_scores, nonmember_scores : ndarray of float64, shape (a,) and (b,), or None
        May be infinite.
    test_predicted : ndarray of int64, shape (m,), or None
        Classes that were answered, at least 0, where there are no logits; -1 without an answer.
    test_confidence : ndarray of float64, shape (m,), or None
        Finite; larger is surer.
    test_correct : ndarray of bool, shape (m,), or None
        Where there are neither logits nor predicted classes.
    holdout_clusters, test_clusters, user_clusters : ndarray of int64, shape (rows,), or None
        Numbers of the patients, users or sessions that rows are of.
    epsilon, delta : float or None
        At least 0, and in [0, 1).
    feature_names : tuple of str
        Of the columns of `test_features`; empty if they have none.
    source : str
        Where all this comes from, for people.
    class_names : tuple of str
        Of the classes; empty if they have none.
    rivals : dict of str to ndarray of int64, shape (m,)
        Classes that other models answered on the test rows, by the models' names.
    reading : tuple of str
        What was taken for what.

    Notes
    -----
    Where logits are probabilities (no value is negative, each row sums to 1, or to 100, and some
    value is neither 0 nor 1), their logarithms are taken; minus infinity is taken as far below the
    row's largest.  `reading` says so.

    Raises
    ------
    ValueError
        On input that is not as above; the message names the array, the value and the row, from 0.
    """

    holdout_logits: Array | None = field(default=None, repr=False)
    holdout_labels: Array | None = field(default=None, repr=False)
    test_logits: Array | None = field(default=None, repr=False)
    test_labels: Array | None = field(default=None, repr=False)
    user_logits: Array | None = field(default=None, repr=False)
    user_labels: Array | None = field(default=None, repr=False)
    test_groups: Array | None = field(default=None, repr=False)
    test_features: Array | None = field(default=None, repr=False)
    test_abstained: Array | None = field(default=None, repr=False)
    test_propensities: Array | None = field(default=None, repr=False)
    other_logits: Array | None = field(default=None, repr=False)
    other_abstained: Array | None = field(default=None, repr=False)
    other_propensities: Array | None = field(default=None, repr=False)
    test_scores: Array | None = field(default=None, repr=False)
    other_scores: Array | None = field(default=None, repr=False)
    member_scores: Array | None = field(default=None, repr=False)
    nonmember_scores: Array | None = field(default=None, repr=False)
    test_predicted: Array | None = field(default=None, repr=False)
    test_confidence: Array | None = field(default=None, repr=False)
    test_correct: Array | None = field(default=None, repr=False)
    holdout_clusters: Array | None = field(default=None, repr=False)
    test_clusters: Array | None = field(default=None, repr=False)
    user_clusters: Array | None = field(default=None, repr=False)
    epsilon: float | None = None
    delta: float | None = None
    feature_names: tuple[str, ...] = ()
    source: str = ""
    class_names: tuple[str, ...] = ()
    rivals: dict[str, Array] = field(default_factory=dict, repr=False)
    reading: tuple[str, ...] = ()

    def __post_init__(self):
        if not any(self.has(name) for name in NAMES if name not in ("epsilon", "delta")):
            raise ValueError(f"there must be at least one array of {', '.join(NAMES)}, got none")
        for name in ("test_abstained", "other_abstained"):
            self._set(name, _flags)
        for name in ("test_propensities", "other_propensities"):
            self._set(name, _propensities)
        self._set("test_groups", _groups)
        self._set("test_features", _matrix)
        for name in ("member_scores", "nonmember_scores"):
            self._set(name, _membership)
        for who in ("test", "other"):
            self._set(f"{who}_scores", _scores, getattr(self, f"{who}_abstained"))
        self._check_feature_names()
        silent = {"test_logits": self.test_abstained, "other_logits": self.other_abstained}
        first = None
        for name in LOGITS:
            self._set(name, _logits, silent.get(name), first)
            if self.has(name) and first is None:
                first = (name, getattr(self, name).shape[1])
        self._take_logarithms()
        for name in ("test_predicted", "test_confidence", "test_correct"):
            self._set(name, _ANSWERS[name])
        for part in ("holdout", "test", "user"):
            self._set(f"{part}_clusters", _clusters)
        for part in ("holdout", "test", "user"):
            name, logits = f"{part}_labels", getattr(self, f"{part}_logits")
            self._set(name, _labels, None if logits is None else logits.shape[1])
            for other in (name, f"{part}_clusters"):
                if self.has(other) and logits is not None:
                    _same_length(other, getattr(self, other), f"{part}_logits", logits)
            if self.has(name) and not (getattr(self, name) >= 0).any():
                object.__setattr__(self, name, None)
        on_test = [n for n in NAMES if n.startswith(("test_", "other_")) and self.has(n)]
        for name in on_test[1:]:
            _same_length(name, getattr(self, name), on_test[0], getattr(self, on_test[0]))
        for who in ("test", "other"):
            abstained, known = (getattr(self, f"{who}_{x}") for x in ("abstained", "propensities"))
            if abstained is not None and known is not None:
                _possible(f"{who}_propensities", known, abstained)
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", _claim("epsilon", self.epsilon, math.inf))
        if self.delta is not None:
            object.__setattr__(self, "delta", _claim("delta", self.delta, 1.0))

    def has(self, name: str) -> bool:
        """Whether an attribute is given."""
        return getattr(self, name) is not None

    @property
    def given(self) -> dict[str, Any]:
        """What is given, by name."""
        return {name: getattr(self, name) for name in NAMES if self.has(name)}

    @property
    def features(self) -> dict[str, Array]:
        """The columns of the features, by name."""
        if self.test_features is None:
            return {}
        columns = self.test_features.T
        names = self.feature_names or [f"test_features[:, {j}]" for j in range(len(columns))]
        return dict(zip(names, columns, strict=True))

    def answers(self, part: str) -> Array | None:
        """The classes that were answered, the first of equal logits; -1 without an answer."""
        logits = getattr(self, f"{part}_logits")
        if logits is not None:
            blank = np.isnan(logits).any(axis=1)
            return np.where(blank, -1, np.where(np.isnan(logits), -np.inf, logits).argmax(axis=1))
        return self.test_predicted if part == "test" else None

    def correct(self, part: str) -> tuple[Array, Array]:
        """Whether the labeled predictions of holdout, test or user are right, and which those are.

        A prediction is the largest logit, the first one of equals; without logits it is the class
        that was answered.
        """
        logits, labels = getattr(self, f"{part}_logits"), getattr(self, f"{part}_labels")
        if logits is None and part == "test":
            return self._correct_answers()
        if labels is None:
            return np.zeros(0, dtype=bool), np.zeros(len(logits), dtype=bool)
        answers = self.answers(part)
        labeled = (labels >= 0) & (answers >= 0)
        return answers[labeled] == labels[labeled], labeled

    def _correct_answers(self) -> tuple[Array, Array]:
        if self.test_correct is not None and self.test_labels is None:
            return self.test_correct, np.ones(len(self.test_correct), dtype=bool)
        if self.test_predicted is None or self.test_labels is None:
            return np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)
        known = (self.test_labels >= 0) & (self.test_predicted >= 0)
        return self.test_predicted[known] == self.test_labels[known], known

    def _take_logarithms(self) -> None:
        """Of probabilities where logits are expected."""
        kinds = {name: kind_of(getattr(self, name)) for name in LOGITS if self.has(name)}
        told = next((kind for kind in _SUMS if kind in kinds.values()), None)
        if told is None:
            return
        given = [name for name, kind in kinds.items() if kind in (told, "one hot")]
        said = []
        for name in given:
            found, zeros = as_logits(getattr(self, name), told)
            found.flags.writeable = False
            object.__setattr__(self, name, found)
            said += [f" ({zero})" for zero in zeros]
        text = f"{', '.join(given)}: {told}, since no value is negative and each row sums to "
        text += f"{_SUMS[told]}: their logarithms are taken{''.join(said[:1])}"
        object.__setattr__(self, "reading", (*self.reading, text))

    def _check_feature_names(self) -> None:
        names = tuple(self.feature_names)
        if not all(isinstance(name, str) and name for name in names):
            raise ValueError(f"feature_names must be names, got {short(repr(names))}")
        names = tuple(map(printable, names))
        object.__setattr__(self, "feature_names", names)
        for name, count in Counter(names).items():
            if count > 1:
                raise ValueError(f"feature_names must be different, got {name!r} {count} times")
        d = 0 if self.test_features is None else self.test_features.shape[1]
        if names and len(names) != d:
            raise ValueError(f"feature_names must be {d}, as test_features has, got {len(names)}")

    def _set(self, name: str, check: Any, *more: Any) -> None:
        value = getattr(self, name)
        if value is not None:
            found = check(name, value, *more)
            found.flags.writeable = False
            object.__setattr__(self, name, found)


# --- checks ---------------------------------------------------------------------------------------


def _as_array(name: str, values: Any, dimensions: int, kinds: str = "iuf") -> Array:
    found = as_array(name, values)
    if found.dtype.kind not in kinds or found.ndim != dimensions or 0 in found.shape:
        shape = {1: "(rows,)", 2: "(rows, columns)"}[dimensions]
        what = "booleans" if kinds == "biuf" else "real numbers"
        raise ValueError(
            f"{name} must be {what} of shape {shape}, none of them 0, got {found.dtype} of shape "
            f"{found.shape}"
        )
    return found


def _refuse(name: str, allowed: str, values: Array, bad: Array) -> None:
    if bad.any():
        place = tuple(int(i) for i in np.unravel_index(bad.argmax(), bad.shape))
        where = f"row {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")
        raise ValueError(
            f"{name} must be {allowed}, got {values[place]} in {where} ({int(bad.sum())} such "
            "values)"
        )


def _logits(name: str, values: Any, silent: Array | None, first: tuple[str, int] | None) -> Array:
    found = _as_array(name, values, 2)
    if found.shape[1] < 2:
        raise ValueError(
            f"{name} must have at least 2 columns, one per class, got {found.shape[1]}"
        )
    if first is not None and first[1] != found.shape[1]:
        raise ValueError(
            f"{name} must have {first[1]} columns, as {first[0]}, got {found.shape[1]}"
        )
    if found.dtype.kind == "f" and np.isneginf(found).any():
        found, _ = finite(found)
    blank = np.isnan(found).all(axis=1)
    allowed = "finite"
    if silent is not None:
        _same_length(name, found, name.replace("logits", "abstained"), silent)
        blank &= silent
        allowed += ", except where it abstained"
    else:
        blank[:] = False
    _refuse(name, allowed, found, ~np.isfinite(found) & ~blank[:, None])
    # Narrow floats stay as they are: the suitability signals tell rounding by their precision.
    narrow = found.dtype.kind == "f" and found.itemsize < 8
    if found.dtype.kind == "f" and not narrow:  # others do not reach so far
        _refuse(
            name, f"at most {_LARGEST:g} in size", found, (found > _LARGEST) | (found < -_LARGEST)
        )
    return np.array(found, dtype=found.dtype.newbyteorder("=") if narrow else float, order="C")


def _labels(name: str, values: Any, k: int | None) -> Array:
    found = _as_array(name, values, 1).astype(float)
    holdout = name == "holdout_labels"
    allowed = f"classes from 0 to {'k - 1' if k is None else k - 1}"
    allowed += "" if holdout else ", or -1 or NaN where unknown"
    unknown = np.isnan(found) | (found == -1)
    bad = (found < 0) | (found >= (1 << 31 if k is None else k)) | (found != np.floor(found))
    _refuse(name, allowed, found, (bad & ~unknown) | (unknown & holdout))
    found[unknown] = -1
    return found.astype(np.int64)


def _flags(name: str, values: Any) -> Array:
    found = _as_array(name, values, 1, "biuf")
    ones = found == 1
    _refuse(name, "true or false, or 1 or 0", found, ~(ones | (found == 0)))
    return ones


def _propensities(name: str, values: Any) -> Array:
    found = _as_array(name, values, 1).astype(float)
    _refuse(name, "in [0, 1]", found, ~((found >= 0) & (found <= 1)))
    return found


def _possible(name: str, known: Array, abstained: Array) -> None:
    _refuse(name, "below 1 where an answer was given", known, (known >= 1) & ~abstained)
    _refuse(name, "above 0 where there was an abstention", known, (known <= 0) & abstained)


def _groups(name: str, values: Any) -> Array:
    found = as_array(name, values)
    if found.dtype.kind not in "iuU" or found.ndim != 1 or not len(found):
        raise ValueError(
            f"{name} must be words or whole numbers of shape (rows,), got {found.dtype} of shape "
            f"{found.shape}"
        )
    if found.itemsize > 4 * MOST_CHARACTERS:
        raise ValueError(
            f"{name} must be words of at most {MOST_CHARACTERS} characters, got "
            f"{found.itemsize // 4:,}"
        )
    codes, words = np.empty(len(found), np.int8), {}
    for start in range(0, len(found), _BLOCK):  # strings in numbers take much memory
        block = np.ascontiguousarray(found[start : start + _BLOCK].astype(str))
        if block.itemsize and block.view(np.uint32).max() > sys.maxunicode:
            raise ValueError(f"{name} must be words, got what is no character of Unicode")
        given, places = np.unique(block, return_inverse=True)
        kept = np.char.strip(given).tolist()
        if "" in kept:
            row = start + int(np.flatnonzero(places == kept.index(""))[0])
            raise ValueError(f"{name} must be words, none of them empty, got one in row {row}")
        for word in kept:
            words.setdefault(word, len(words))
        if len(words) > MOST_GROUPS:
            raise ValueError(f"{name} must be at most {MOST_GROUPS} different ones, got more")
        codes[start : start + len(block)] = np.array([words[word] for word in kept])[places]
    shown = [printable(word) for word in words]
    for word, count in Counter(shown).items():
        if count > 1:
            raise ValueError(f"{name} must be told apart by what is seen, got {word!r} for {count}")
    return np.array(shown)[codes]


def _matrix(name: str, values: Any) -> Array:
    found = _as_array(name, values, 2)
    if (count := found.shape[1]) > MOST_FEATURES:
        raise ValueError(f"{name} must have {FEWER_FEATURES}, got {count:,}")
    found = found.astype(float)
    _refuse(name, "finite", found, ~np.isfinite(found))
    return found


def _scores(name: str, values: Any, abstained: Array | None) -> Array:
    found = _as_array(name, values, 1, "biuf").astype(float)
    if abstained is not None:
        _same_length(name, found, name.replace("scores", "abstained"), abstained)
        found[abstained] = math.nan
    answered = np.ones(len(found), dtype=bool) if abstained is None else ~abstained
    _refuse(name, "finite where an answer was given", found, ~np.isfinite(found) & answered)
    return found


def _membership(name: str, values: Any) -> Array:
    found = _as_array(name, values, 1).astype(float)
    _refuse(name, "numbers, not NaN", found, np.isnan(found))
    return found


def _clusters(name: str, values: Any) -> Array:
    found = as_array(name, values)
    if found.ndim != 1 or not len(found) or found.dtype.kind not in "iuUO":
        raise ValueError(
            f"{name} must be words or whole numbers of shape (rows,), got {found.dtype} of shape "
            f"{found.shape}"
        )
    words = found if found.dtype.kind in "iu" else found.astype(str)
    return np.unique(words, return_inverse=True)[1].astype(np.int64)


def _answers(name: str, values: Any) -> Array:
    return _labels(name, values, None)


def _confidences(name: str, values: Any) -> Array:
    found = _as_array(name, values, 1).astype(float)
    _refuse(name, "finite", found, ~np.isfinite(found))
    return found


#: What checks what a model answered where there are no logits.
_ANSWERS = {"test_predicted": _answers, "test_confidence": _confidences, "test_correct": _flags}


def _same_length(name: str, values: Array, other: str, others: Array) -> None:
    if len(values) != len(others):
        raise ValueError(
            f"{name} must have {len(others)} rows, as many as {other}, got {len(values)}"
        )


def _claim(name: str, value: Any, end: float) -> float:
    found = np.asarray(value)
    limit = "at least 0" if end == math.inf else f"in [0, {end:g})"
    if found.size != 1 or found.dtype.kind not in "iuf":
        raise ValueError(
            f"{name} must be one number, {limit}, got {found.dtype} of shape {found.shape}"
        )
    number = float(found.reshape(()))
    if not (0 <= number < end or (end == math.inf and number == end)):
        raise ValueError(f"{name} must be {limit}, got {number:g}")
    return number

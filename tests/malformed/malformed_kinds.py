"""Bad values by the kind of argument that they are bad for, and the form of a row of the table.

A value that does not speak for itself comes with a label and with what the message has to show of
it. ``shows`` is a tuple of texts one of which must be in the message.
"""

import functools
import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

NAN, INF = math.nan, math.inf


@dataclass(frozen=True)
class Bad:
    """A value that is not allowed, the label of its row, and what a message shows of it."""

    label: str
    value: Any = field(repr=False)
    shows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One malformed call: whom it calls, and the error that it must give."""

    name: str
    argument: str
    label: str
    call: Callable[[], Any] = field(repr=False)
    error: type[Exception]
    says: tuple[str, ...]
    shows: tuple[str, ...]
    array: bool = False
    always: bool = False  # also in CI, whatever its place in the table

    @property
    def id(self) -> str:
        return f"{self.name}-{self.argument}: {self.label}"


def shown(value: Any) -> tuple[str, ...]:
    texts = [repr(value), str(value), type(value).__name__]
    if isinstance(value, float):
        texts.append(f"{value:g}")
    if isinstance(value, list | tuple | dict):
        texts += [str(len(value)), "none"]
        texts += [text for part in list(value) for text in (repr(part), f"{part}")]
    if isinstance(value, dict):
        texts += [repr(part) for part in value.values()]
    if isinstance(value, str):
        texts.append(str(np.asarray(value).dtype))
    return tuple(texts)


def as_bad(value: Any) -> Bad:
    if isinstance(value, Bad):
        return value
    return Bad(" ".join(repr(value).split())[:60], value, shown(value))


NUMBER = (NAN, "0.5")
OPEN_UNIT = (0.0, 1.0, *NUMBER)
UNIT = (-0.1, 1.5, *NUMBER)
POSITIVE = (0.0, -1.0, INF, *NUMBER)
NOT_NEGATIVE = (-1.0, *NUMBER)
COUNT = (0, 2.5, "3")
NATURAL = (-1, 2.5, "3")
SEED = (-1, "a seed")
RNG = (None, "a seed")
CHOICE = ("no such thing", 3)
MARGIN = (1.5, INF, *NUMBER)
DELTA = (-0.1, 1.0, *NUMBER)
LEARNER = CHOICE[:1]  # an object may be a learner of one's own
CLIP = (-0.1, 1.0, NAN, "a")
CLASSES = (1, 2.5, "3")
SIDES = (0, 3, "1")
BELOW_ONE = (1.0, -0.1, *NUMBER)
RATE = (0.0, 1.5, *NUMBER)
FOLDS = (1, 10**6, 2.5, "2")
PART = (10**6, -1, 2.5, "3")
ENDS = ((1, 0), (0, 0), "ab", (NAN, 1), 0.5)
SHARES = ([], [-0.1], [1.5], [NAN], ["a"], [[0.1]])
THRESHOLDS = ((), (NAN,), ("a",), (-1.0,))
FLAG = ("yes", 1, None)
TRIALS = (1.0, 1e7, "inf", *NUMBER)
SHAPE = (-1.0, 0.001, 101.0, *NUMBER)
ABOVE_ONE = (9.0, *NUMBER)
ORDER = (1.0, *NUMBER)
SIZES = ({}, {"a": -1}, {"a": 10**12}, {"a": 2.5}, {"a": "3"}, 3)


def with_value(array: Any, value: Any) -> np.ndarray:
    changed = np.array(array, dtype=float)
    changed.flat[-1] = value
    return changed


def vectors(good: Any, *, infinite: bool = False) -> tuple[Bad, ...]:
    good = np.asarray(good, dtype=float)
    found = (
        Bad("empty", good[:0], ("(0,)", "0", "empty", "float64")),
        Bad("two-dimensional", np.stack([good, good]), (str((2, len(good))),)),
        Bad("NaN", with_value(good, NAN), ("nan", "NaN")),
        Bad("text", np.array(["a"] * len(good)), ("<U1", "'a'", "'str'")),
        Bad("objects", np.array([{}] * len(good)), ("object", "dict", "{}")),
        Bad("a number", 0.5, ("()", "0.5", "float")),
        Bad("None", None, ("None", "object", "()")),
        Bad("ragged", [[1.0], [1.0, 2.0]], ("ragged", "inhomogeneous", "unequal")),
    )
    return found if infinite else (*found, Bad("infinite", with_value(good, INF), ("inf",)))


def matrices(good: Any) -> tuple[Bad, ...]:
    good = np.asarray(good, dtype=float)
    return (
        Bad("no rows", good[:0], (str(good[:0].shape), "0")),
        Bad("no columns", good[:, :0], (str(good[:, :0].shape), "0")),
        Bad("one-dimensional", good[0], (str(good[0].shape),)),
        Bad("NaN", with_value(good, NAN), ("nan", "NaN")),
        Bad("infinite", with_value(good, INF), ("inf",)),
        Bad("complex", good + 1j, ("complex", "j")),
        Bad("text", np.full(good.shape, "a"), ("<U1", "'a'", "'str'")),
        Bad("ragged", [[1.0], [1.0, 2.0]], ("ragged", "inhomogeneous", "unequal", "list")),
        Bad("None", None, ("None", "object", "()")),
    )


def probabilities(good: Any) -> tuple[Bad, ...]:
    good = np.asarray(good, dtype=float)
    return (
        Bad("do not sum to 1", 2 * good, ("2",)),
        Bad("negative", -good, ("-",)),
        Bad("NaN", with_value(good, NAN), ("nan", "NaN")),
        Bad("empty", good[..., :0], (str(good[..., :0].shape), "0")),
        Bad("too few dimensions", good[0], (str(good[0].shape),)),
        Bad("text", np.full(good.shape, "a"), ("<U1", "'a'")),
    )


def booleans(good: Any) -> tuple[Bad, ...]:
    good = np.asarray(good)
    return (
        Bad("empty", good[:0], ("(0,)", "0")),
        Bad("two-dimensional", np.stack([good, good]), (str((2, len(good))), "bool")),
        Bad("neither 0 nor 1", np.full(len(good), 0.5), ("0.5", "float64")),
        Bad("text", np.array(["yes"] * len(good)), ("<U3", "'yes'")),
        Bad("NaN", with_value(good, NAN), ("nan", "NaN", "float64")),
        Bad("one too few", good[:-1], (str(len(good) - 1), str((len(good) - 1,)))),
    )


def labels(good: Any, classes: int | None = None) -> tuple[Bad, ...]:
    good = np.asarray(good)
    found = [
        Bad("empty", good[:0], ("(0,)", "0")),
        Bad("two-dimensional", np.stack([good, good]), (str((2, len(good))),)),
        Bad("negative", np.r_[good[:-1], -1], ("-1",)),
        Bad("fractions", good + 0.5, ("float64", ".5")),
        Bad("text", np.array(["cat"] * len(good)), ("<U3", "'cat'")),
    ]
    if classes is not None:
        found.append(Bad("no such class", np.r_[good[:-1], classes], (str(classes),)))
    return tuple(found)


def but(values: tuple[Any, ...], *labels: str) -> tuple[Any, ...]:
    """All values but those with the given labels: some functions take them."""
    found = tuple(value for value in values if as_bad(value).label not in labels)
    assert len(found) == len(values) - len(labels), labels
    return found


def scores(good: Any) -> tuple[Bad, ...]:
    return vectors(good, infinite=True)


def _named(**kinds: str) -> dict[str, Any]:
    return {name: globals()[kind] for kind, names in kinds.items() for name in names.split()}


TABLES = (
    Bad("negative", [[-1, 2, 3, 4]], ("-1",)),
    Bad("three", [[1, 2, 3]], ("(1, 3)", "3")),
    Bad("NaN", [[NAN, 1, 2, 3]], ("nan",)),
    Bad("fractions", [[0.5, 1, 2, 3]], ("0.5", "float64")),
    Bad("text", "abcd", ("abcd", "<U4")),
    Bad("no positives", [[0, 1, 2, 0]], ("positive",)),
    Bad("empty", np.zeros((0, 4), int), ("(0, 4)",)),
    Bad("infinite", [[INF, 1, 2, 3]], ("inf",)),
    Bad("ragged", [[1], [1, 2]], ("ragged",)),
    Bad("None", None, ("None",)),
)
VOTES = (
    Bad("negative", [[-1, 2]], ("-1",)),
    Bad("NaN", [[NAN, 1.0]], ("nan",)),
    Bad("1d", [1, 2], ("(2,)",)),
    Bad("empty", np.zeros((0, 2)), ("(0, 2)",)),
)

#: What is wrong with an argument by its name, which means the same in all packages: values, or a
#: function of the good value that gives them.
BY_NAME = _named(
    OPEN_UNIT="level alpha power share fit_share mass",
    UNIT="fpr fnr rate target weight tuning test_accuracy prevalence",
    POSITIVE="learning_rate half_width norm ratio rho scale sigma sigma1 sigma2 "
    "tolerance variance_ratio",
    NOT_NEGATIVE="k mu epsilon beta point_variance unlabelled_weight weight_decay sd_test sd_user "
    "sd_difference variance_test variance_user noise_multiplier",
    NUMBER="difference drift drop eps_source eps_target mean_test mean_user reward threshold value",
    COUNT="batch_size bins checkpoint_every chunk components draws labelled_batch looks "
    "max_workers multiplicity n n_models n_test n_user passes physical_batch records releases "
    "repeats repetitions save_every splits stages steps strata threads tokens train "
    "unlabelled_ratio window",
    NATURAL="burn_in_steps tp fp tn fn crop_padding dropout_passes max_answers n_points public "
    "validation",
    SEED="seed",
    RNG="rng",
    CHOICE="accountant activation algorithm audit_design by calibration choice device engine "
    "estimator family features form grad_sample_mode head kind measure method metric "
    "name noise_source precision reference rule schedule side split standard_error strong weak",
    MARGIN="margin",
    DELTA="delta",
    RATE="sample_rate least_probability floor",
    BELOW_ONE="momentum dropout reference_level",
    FOLDS="folds start",
    PART="count n_teachers n_correct",
    ENDS="score_range",
    SHARES="shares clips",
    THRESHOLDS="thresholds",
    FLAG="fixed",
    TRIALS="mean_trials",
    SHAPE="shape",
    ABOVE_ONE="run_length",
    ORDER="order",
    SIZES="sizes",
    TABLES="counts",
    VOTES="votes",
    LEARNER="learner",
    CLIP="clip",
    CLASSES="classes n_classes",
    SIDES="sides",
    booleans="correct other_correct test_correct user_correct fit_correct labelled_correct "
    "abstained abstained_a abstained_b",
    scores="score other_score second selection scores in_scores out_scores",
    vectors="estimated estimates test_estimated user_estimated labelled_estimated test user",
    matrices="signals fit_signals logits X shadows",
    probabilities="probabilities confidences",
    labels="labels",
)


class Table(list[Row]):
    def together(
        self,
        name: str,
        argument: str,
        *calls: Callable[[], Any],
        error: type[Exception] = ValueError,
    ) -> None:
        """Add calls that are bad by how their arguments go together; the message names one."""
        self.extend(
            Row(name, argument, f"together {i}", call, error, (argument,), (), always=True)
            for i, call in enumerate(calls)
        )

    def add(
        self,
        name: str,
        good: Mapping[str, Any] | None = None,
        /,
        *,
        call: Callable[..., Any] | None = None,
        error: type[Exception] = ValueError,
        says: Mapping[str, str] | None = None,
        takes: Mapping[str, str | tuple[str, ...]] | None = None,
        only: bool = False,
        **wrong: Any,
    ) -> None:
        """Add rows for one function: all arguments are good but one, which is bad in turn.

        The arguments in `wrong` have values of their own, the others (unless `only` these are
        asked for) those of `BY_NAME`. `takes` has the labels of values that an argument takes,
        `says` the words of a message that calls it by another name; `call` is what is called if
        that is not `lib.<name>`.
        """
        good, takes = dict(good or {}), dict(takes or {})
        package, own = name.split(".")[:2]
        call = call or getattr(importlib.import_module(f"lib.{package}"), own)
        names = [] if only else [n for n in inspect.signature(call).parameters if n in BY_NAME]
        for argument in [n for n in names if n not in wrong] + [*wrong]:
            values = wrong.get(argument, BY_NAME.get(argument))
            if callable(values):
                if good.get(argument) is None:
                    continue
                values = values(good[argument])
            kept = takes.pop(argument, ())
            for value in but(values, *((kept,) if isinstance(kept, str) else kept)):
                bad = as_bad(value)
                arguments = {**good, argument: bad.value}
                words = ((says or {}).get(argument, argument),)
                run = functools.partial(call, **arguments)
                array = isinstance(value, Bad)
                self.append(Row(name, argument, bad.label, run, error, words, bad.shows, array))
        assert not takes, f"{name} has no {takes}"

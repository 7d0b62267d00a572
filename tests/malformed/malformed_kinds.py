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

    @property
    def id(self) -> str:
        """As pytest shows it."""
        return f"{self.name}-{self.argument}: {self.label}"


def shown(value: Any) -> tuple[str, ...]:
    """What a message may show of a value: as it is written, rounded, or its type."""
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
    """Values that speak for themselves are their own labels."""
    if isinstance(value, Bad):
        return value
    return Bad(" ".join(repr(value).split())[:60], value, shown(value))


# ------------------------------------------------------------------ numbers, choices

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

# ------------------------------------------------------------------ arrays


def with_value(array: Any, value: Any) -> np.ndarray:
    """A copy whose last entry is `value`."""
    changed = np.array(array, dtype=float)
    changed.flat[-1] = value
    return changed


def vectors(good: Any, *, infinite: bool = False) -> tuple[Bad, ...]:
    """What is wrong with arrays of finite numbers of shape (n,); or they may be infinite."""
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
    """What is wrong with arrays of finite numbers of shape (n, k)."""
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
    """What is wrong with probabilities whose last axis sums to 1."""
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
    """What is wrong with arrays of booleans of shape (n,)."""
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
    """What is wrong with classes, integers of shape (n,) from 0 to `classes` - 1."""
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


# ------------------------------------------------------------------ rows


def scores(good: Any) -> tuple[Bad, ...]:
    """What is wrong with scores: they may be infinite."""
    return vectors(good, infinite=True)


def _named(**kinds: str) -> dict[str, Any]:
    return {name: globals()[kind] for kind, names in kinds.items() for name in names.split()}


#: What is wrong with an argument by its name, which means the same in all packages: values, or a
#: function of the good value that gives them.
BY_NAME = _named(
    OPEN_UNIT="level alpha power share fit_share mass",
    UNIT="fpr fnr rate",
    POSITIVE="learning_rate half_width norm ratio rho scale sigma sigma1 sigma2 "
    "tolerance variance_ratio",
    NOT_NEGATIVE="k mu point_variance unlabelled_weight weight_decay sd_test sd_user "
    "sd_difference variance_test variance_user noise_multiplier",
    NUMBER="drift eps_source eps_target threshold value",
    COUNT="batch_size bins checkpoint_every chunk components draws labelled_batch looks "
    "max_workers multiplicity n n_models n_test passes physical_batch records releases repeats "
    "repetitions save_every steps threads tokens train unlabelled_ratio window",
    NATURAL="tp fp tn fn crop_padding dropout_passes n_points public",
    SEED="seed",
    RNG="rng",
    CHOICE="accountant activation algorithm audit_design by calibration choice device engine "
    "estimator family features form grad_sample_mode head kind measure method metric "
    "name noise_source precision reference rule schedule side split standard_error strong weak",
    MARGIN="margin",
    DELTA="delta",
    RATE="sample_rate",
    BELOW_ONE="momentum dropout",
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
    """Rows of malformed calls."""

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

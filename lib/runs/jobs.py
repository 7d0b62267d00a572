"""What a run is: a frozen configuration that can be executed, and its outcome."""

import decimal
import inspect
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lib.runs.checkpoint import Checkpoint
from lib.runs.imports import Needed, needed
from lib.runs.provenance import fingerprint


@dataclass(frozen=True, eq=False)
class Outcome:
    """What executing a job gives.

    Attributes
    ----------
    arrays : mapping of str to ndarray
        Predictions and the like.
    metrics : mapping of str to JSON
        Numbers (also infinity, NaN and NumPy's scalars), texts, lists and mappings of these.
    privacy : mapping of str to JSON, optional
        What was spent.
    """

    arrays: Mapping[str, npt.NDArray]
    metrics: Mapping[str, Any] = field(default_factory=dict)
    privacy: Mapping[str, Any] | None = None


class Job(Protocol):
    """A frozen dataclass that says everything about a computation, and can do it.

    Its fields are JSON-able: strings, numbers (infinity included), booleans, None, tuples, and
    frozen dataclasses of these.  It must be importable and picklable, for workers.

    The result depends on the code of the modules in which the dataclasses are written, and of what
    these import (:mod:`lib.runs.imports`): when any of it changes, the run is made anew.  A job
    whose code lies elsewhere has ``modules``, their full names.  One whose outcome holds more than
    its guarantee covers, such as who was a member, has a true attribute ``private``.
    """

    def data_fingerprint(self) -> str:
        """Identify the data that :meth:`execute` reads."""
        ...

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Do the work; resume from `checkpoint` if it holds something, and save to it."""
        ...


def canonical(value: Any, name: str = "job") -> Any:
    """A configuration in a form that JSON holds and that two unlike ones never share.

    Dataclasses carry their class's name; infinities become ``{"float": "inf"}``.

    Raises
    ------
    ValueError
        On NaN.
    TypeError
        On anything else that a configuration must not hold.
    """
    if is_dataclass(value) and not isinstance(value, type):
        if not type(value).__dataclass_params__.frozen:
            raise TypeError(f"{name} must be a frozen dataclass, got {type(value).__name__}")
        kind = type(value)
        content = {f.name: canonical(getattr(value, f.name), f.name) for f in fields(value)}
        return {"class": f"{kind.__module__}.{kind.__qualname__}", **content}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if math.isnan(value):
            raise ValueError(f"{name} must not be NaN")
        return {"float": "inf" if value > 0 else "-inf"} if math.isinf(value) else value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, tuple | list):
        return [canonical(item, name) for item in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"{name} must have strings as keys")
        return {"mapping": {key: canonical(item, key) for key, item in value.items()}}
    raise TypeError(
        f"{name} must be a number, string, tuple, mapping or frozen dataclass, got"
        f" {type(value).__name__}"
    )


def identity(job: Job) -> dict[str, Any]:
    """What tells a run from others: configuration, code and data, in a form that JSON holds."""
    return {
        "config": canonical(job),
        "code": code_of(job).fingerprint(),
        "data": job.data_fingerprint(),
    }


_COUNTS = ("training_examples", "rare_examples")  # of private data
#: What follows from these, or takes as long as they are many, and may be larger, or smaller.
_RISE = ("epsilon", "delta", "sample_rate", "steps", "seconds", "training_seconds")
_FALL = ("noise_multiplier", "effective_noise_multiplier")


def without_counts(value: Any) -> Any:
    """An outcome with None for numbers of examples, and what tells them rounded.

    Rounded so that nothing claims more privacy than there was: noise down, all else up, in steps of
    5 to 12.5 percent.
    """
    if isinstance(value, Mapping):
        return {key: _without(key, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_counts(each) for each in value]
    return value


def _without(key: str, value: Any) -> Any:
    if key in _COUNTS:
        return None
    if isinstance(value, list | tuple) and key in _RISE + _FALL:  # one a model, or a step
        return [_without(key, each) for each in value]
    if key in _RISE:
        return rounded(value)
    return rounded(value, down=True) if key in _FALL else without_counts(value)


def rounded(value: Any, down: bool = False) -> Any:
    """A number to steps of 5 to 12.5 percent: 1, 1.1, ..., 2, 2.25, ..., 5, 5.5, ..., 10."""
    numeric = isinstance(value, float | int | np.number) and not isinstance(value, bool)
    if not numeric or not math.isfinite(value) or value <= 0:
        return without_counts(value)
    whole = decimal.ROUND_FLOOR if down else decimal.ROUND_CEILING
    if isinstance(value, np.generic):
        value = value.item()
    exact = decimal.Decimal(repr(value))  # 0.1, which is a little more in binary
    step = decimal.Decimal(10) ** exact.adjusted()
    step /= 10 if exact < 2 * step else 4 if exact < 5 * step else 2
    found = (exact / step).to_integral_value(whole) * step
    return float(found) if isinstance(value, float) else int(found.to_integral_value(whole))


def has_guarantee(privacy: Any) -> bool:
    """Whether what was spent has an epsilon, and every one that it has is finite."""
    found = list(_epsilons(privacy))
    return bool(found) and all(isinstance(e, float | int) and math.isfinite(e) for e in found)


def _epsilons(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from [each] if key == "epsilon" else _epsilons(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _epsilons(each)


def code_of(job: Job) -> Needed:
    """The code that a job's result depends on, all that it imports from ``lib`` included."""
    return needed(*(getattr(job, "modules", None) or sorted(set(modules_of(job)))))


def modules_of(value: Any) -> Iterator[str]:
    """Where the dataclasses and functions of a configuration are written."""
    if is_dataclass(value) and not isinstance(value, type):
        yield type(value).__module__
        for field_ in fields(value):
            yield from modules_of(getattr(value, field_.name))
    elif inspect.isfunction(value):
        yield value.__module__
    elif isinstance(value, tuple | list):
        for item in value:
            yield from modules_of(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from modules_of(item)


def run_key(job: Job) -> str:
    """Content hash of a run: configuration, code and data.

    A store's :meth:`RunStore.key` is this hash where data are public, and a salted one elsewhere.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    return fingerprint(identity(job))


def label(job: Job) -> str:
    """A short name for messages."""
    text = repr(job)
    return text if len(text) <= 160 else f"{text[:157]}..."

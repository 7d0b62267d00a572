"""Tables that take long: computed once by a function of ``lib``, then read from the store."""

import copy
import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lib.runs.checkpoint import Checkpoint
from lib.runs.jobs import Outcome, modules_of
from lib.runs.plain import decode, encode
from lib.runs.provenance import fingerprint
from lib.runs.store import RunStore

if TYPE_CHECKING:  # else a second of each worker process, most of which need none
    import pandas as pd


def stored_table(
    function: Callable[..., "pd.DataFrame"], *args: Any, **options: Any
) -> "pd.DataFrame":
    """The table that a function of ``lib`` returns, from the store if it was computed before.

    Parameters
    ----------
    function : callable
        A function of a module of ``lib`` whose result depends on nothing but its arguments and its
        code: the module, those of functions and dataclasses among the arguments, and all code of
        ``lib`` that these import, directly or not.
    *args, **options
        Its arguments: numbers, texts, arrays, tables, functions of ``lib``, dataclasses, and
        sequences and mappings of these.  A generator counts by its state, and a copy of it is
        used: it is not advanced, whether the table was stored or not.

    Returns
    -------
    pandas.DataFrame
        With the default index.

    Raises
    ------
    TypeError
        If an argument is of another kind, or the result no table.
    ValueError
        If `function` is not one of ``lib``, or its table has an index of its own.

    Examples
    --------
    >>> from lib.studies.training.tables import budget_rules
    >>> table = stored_table(budget_rules, [1.0], 1000, 100, 10, members=2)
    >>> table["rule"].tolist()[:2]
    ['one model', 'composed']
    """
    import pandas as pd

    module = getattr(function, "__module__", "")
    if not inspect.isfunction(function) or module.partition(".")[0] != "lib":
        raise ValueError(f"function must be one of lib, got {function!r}")
    bound = inspect.signature(function).bind(*args, **options)
    given = {name: _digest(value, name) for name, value in bound.arguments.items()}
    for name, value in bound.arguments.items():
        if isinstance(value, np.random.Generator):
            bound.arguments[name] = copy.deepcopy(value)
    used = {module, *modules_of(list(bound.arguments.values()))}
    job = _Table(f"{module}.{function.__qualname__}", fingerprint(given), tuple(sorted(used)))
    object.__setattr__(job, "_call", lambda: function(*bound.args, **bound.kwargs))
    run = RunStore().run(job)
    columns = [
        values if values is not None else run.arrays[str(place)]
        for place, values in enumerate(run.metrics["values"])
    ]
    table = pd.DataFrame(dict(enumerate(columns)))
    return table.set_axis(run.metrics["columns"], axis="columns")


@dataclass(frozen=True)
class _Table:
    """The job: which function, a hash of its arguments, and where both are written."""

    function: str
    arguments: str
    modules: tuple[str, ...]

    def data_fingerprint(self) -> str:
        """Nothing beside the arguments."""
        return ""

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        import pandas as pd

        table = self._call()
        if not isinstance(table, pd.DataFrame):
            raise TypeError(f"{self.function} must return a table, got {type(table).__name__}")
        if not table.index.equals(pd.RangeIndex(len(table))):
            raise ValueError(f"{self.function} must return a table with the default index")
        arrays, values = {}, []
        for place, (_, column) in enumerate(table.items()):
            numeric = column.dtype.kind in "biuf"
            if numeric:
                arrays[str(place)] = column.to_numpy()
            values.append(None if numeric else [decode(encode(v, "value")) for v in column])
        return Outcome(arrays, {"columns": list(table.columns), "values": values})


def _digest(value: Any, name: str) -> Any:
    """An argument in a form that JSON holds and that two unlike ones never share."""
    import pandas as pd

    if isinstance(value, np.ndarray) and value.dtype.kind in "biufcUS":
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"array": [value.dtype.str, list(value.shape), content]}
    if isinstance(value, np.random.Generator):
        return {"generator": encode(value.bit_generator.state, name)}
    if isinstance(value, pd.DataFrame):
        parts = {str(label): np.asarray(column).tolist() for label, column in value.items()}
        return {"table": _digest(parts, name), "index": _digest(value.index.tolist(), name)}
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        content = {f.name: _digest(getattr(value, f.name), f.name) for f in fields(value)}
        return {"class": f"{kind.__module__}.{kind.__qualname__}", "fields": content}
    if inspect.isfunction(value) and value.__module__.partition(".")[0] == "lib":
        return {"function": f"{value.__module__}.{value.__qualname__}"}
    if isinstance(value, Mapping):
        return {"mapping": [[_digest(k, name), _digest(v, name)] for k, v in value.items()]}
    if isinstance(value, tuple | list):
        return [_digest(item, name) for item in value]
    try:
        return encode(value, name)
    except TypeError as error:
        raise TypeError(
            f"{name} must be made of numbers, texts, arrays, tables and dataclasses, got"
            f" {type(value).__name__}"
        ) from error

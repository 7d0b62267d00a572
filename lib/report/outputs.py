"""From a PyTorch model and a data loader to logits, correctness and signals."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from lib.suitability.signals import check_extra, signals

__all__ = ["ModelOutputs", "model_outputs"]


@dataclass(frozen=True, eq=False)
class ModelOutputs:
    """What a classifier says about n samples, in the order of its loader.

    Attributes
    ----------
    logits : ndarray of float64, shape (n, k)
        Outputs before the softmax.
    labels : ndarray of int64, shape (n,), or None
        True classes; None where the loader gives none, as for user data.
    correct : ndarray of bool, shape (n,), or None
        Whether the largest logit is that of the label.
    signals : pandas.DataFrame
        The suitability signals, one row per sample (:func:`lib.suitability.signals`).
    """

    logits: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64] | None
    correct: npt.NDArray[np.bool_] | None
    signals: pd.DataFrame


def model_outputs(
    model: Callable[..., Any],
    loader: Iterable[Any],
    *,
    device: torch.device | str | None = None,
    extra: Iterable[str] = (),
    inputs: Mapping[str, Any] | None = None,
) -> ModelOutputs:
    """Run a classifier once over a loader: logits, correctness and suitability signals.

    Batches may be

    - ``(x, y)`` or, as in WILDS, ``(x, y, metadata)``: ``model(x)`` with labels y;
    - ``x``, ``(x,)`` or ``(x, None)``: ``model(x)`` without labels;
    - a mapping, as in Hugging Face: ``model(**batch)``, less its entry ``labels``, if any.

    The model returns the logits or an object whose attribute ``logits`` they are. It runs in
    evaluation mode without autograd and in its own precision; every submodule's mode is put back
    afterwards. Only one batch is on the device at a time.

    Parameters
    ----------
    model : torch.nn.Module or callable
        A classifier.
    loader : iterable
        A :class:`torch.utils.data.DataLoader` or any iterable of batches, gone through once. The
        rows follow its order, which it should not shuffle if they are to be matched with anything
        else, ``inputs`` for one.
    device : torch.device or str, optional
        Where the batches go: one on which the model has parameters. By default that of its first
        parameter or buffer, the CPU if it has none. The model is not moved.
    extra : iterable of str
        Registered signals to append (:func:`lib.suitability.register_signal`).
    inputs : mapping, optional
        What these signals need besides the logits, for all samples in the loader's order.

    Returns
    -------
    ModelOutputs

    Raises
    ------
    ValueError
        If an argument is not as above or the loader yields nothing; if the logits of a batch are
        not finite real numbers of shape (rows, k), its labels not integers from 0 to k - 1 of
        shape (rows,), or only some batches have labels. The message names the batch, from 0.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, sections 4.1 and 5.2.

    Examples
    --------
    >>> model = torch.nn.Linear(4, 3)
    >>> batches = [(torch.zeros(8, 4), torch.zeros(8, dtype=torch.long))] * 2
    >>> found = model_outputs(model, batches)
    >>> found.logits.shape, found.correct.shape, found.signals.shape
    ((16, 3), (16,), (16, 12))
    """
    if not callable(model) or isinstance(model, type):
        raise ValueError(f"model must be a torch.nn.Module or a function, got {model!r}")
    if not isinstance(loader, Iterable) or isinstance(loader, (str, Mapping)):
        raise ValueError(f"loader must be an iterable of batches, got {type(loader).__name__}")
    device = _device(model, device)
    if inputs is not None and not isinstance(inputs, Mapping):
        raise ValueError(f"inputs must be a mapping, got {type(inputs).__name__}")
    inputs = dict(inputs or {})
    extra = list(check_extra(extra, inputs))  # before the long run, not after it
    logits: list[torch.Tensor] = []
    labels: list[npt.NDArray[np.int64]] = []
    with _evaluating(model):
        for number, batch in enumerate(loader):
            arguments, named, y = _parts(batch)
            # Not around the loader: what a data set caches must stay usable for training.
            with torch.inference_mode():
                answer = model(*_to(arguments, device), **_to(named, device))
                z = _logits(answer, number)
            if logits and z.shape[1] != logits[0].shape[1]:
                raise ValueError(
                    f"logits must have {logits[0].shape[1]} columns, as in batch 0, got "
                    f"{z.shape[1]} in batch {number}"
                )
            if number and (y is None) != (not labels):
                some = "none" if y is None else "some"
                raise ValueError(
                    f"loader must give labels always or never, got {some} in batch "
                    f"{number} unlike before"
                )
            logits.append(z)
            if y is not None:
                labels.append(_labels(y, z.shape, number))
    if not sum(len(z) for z in logits):
        raise ValueError("loader must yield at least one row, got none")
    stacked = torch.cat(logits).numpy()
    # In the precision of the model: the signals' rounding threshold depends on it.
    table = signals(stacked, extra, **inputs)
    stacked = stacked.astype(np.float64)
    y = np.concatenate(labels) if labels else None
    return ModelOutputs(stacked, y, None if y is None else stacked.argmax(axis=1) == y, table)


def _device(model: Any, device: Any) -> torch.device:
    owned = []
    if isinstance(model, torch.nn.Module):
        owned = [t.device for part in (model.parameters(), model.buffers()) for t in part]
    if device is None:
        return owned[0] if owned else torch.device("cpu")
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be a torch device, got {device!r}: {error}") from None
    if owned and not any(d.type == wanted.type and wanted.index in (None, d.index) for d in owned):
        raise ValueError(f"device must be one that holds the model ({owned[0]}), got {device!r}")
    return wanted


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode; afterwards each submodule's own mode, which may differ."""
    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    modes = [module.training for module in modules]
    try:
        if modules:
            model.eval()
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode  # not train(), which would go down to the submodules


def _parts(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """Positional and named arguments of the model, and the labels or None."""
    if isinstance(batch, Mapping):
        named = dict(batch)
        return (), named, named.pop("labels", None)
    if isinstance(batch, (tuple, list)):
        return tuple(batch[:1]), {}, batch[1] if len(batch) > 1 else None
    return (batch,), {}, None


def _to(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: _to(item, device) for key, item in value.items()}
    if type(value) in (tuple, list):  # a named tuple is left as it is
        return type(value)(_to(item, device) for item in value)
    return value


def _logits(answer: Any, number: int) -> torch.Tensor:
    z = getattr(answer, "logits", answer)
    if not isinstance(z, torch.Tensor):
        raise ValueError(
            "model must return a tensor or an object with the attribute logits, got "
            f"{type(answer).__name__} in batch {number}"
        )
    if z.ndim != 2 or not z.is_floating_point():
        raise ValueError(
            f"logits must be real numbers of shape (rows, k), got {z.dtype} of shape "
            f"{tuple(z.shape)} in batch {number}"
        )
    # A copy: a model may give the same buffer again for the next batch.
    double = z.dtype == torch.float64
    z = z.detach().to("cpu", torch.float64 if double else torch.float32, copy=True)
    if not (finite := z.isfinite()).all():
        row, column = (~finite).nonzero()[0].tolist()
        raise ValueError(
            f"logits must be finite, got {z[row, column].item()} in batch {number}, row {row}, "
            f"column {column}"
        )
    return z


def _labels(y: Any, shape: torch.Size, number: int) -> npt.NDArray[np.int64]:
    rows, k = shape
    y = np.asarray(y.detach().cpu() if isinstance(y, torch.Tensor) else y)
    if y.dtype.kind not in "iu" or y.shape != (rows,):
        raise ValueError(
            f"labels must be integers of shape ({rows},), one per row of logits, got {y.dtype} of "
            f"shape {y.shape} in batch {number}"
        )
    if rows and not 0 <= y.min() <= y.max() < k:
        wrong = y.min() if y.min() < 0 else y.max()
        raise ValueError(f"labels must be from 0 to {k - 1}, got {wrong} in batch {number}")
    return y.astype(np.int64)

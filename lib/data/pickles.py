"""Reading other people's pickles without running their code.

A pickle is a program.  This reader admits plain containers, which need no imports, the three
names NumPy uses to write an array, and the one by which old protocols write bytes.  Those names do
not even reach NumPy: they stand for small classes below, which check what they are given and build
the array from its raw bytes.
"""

import io
import math
import os
import pickle
import pickletools
import re
from pathlib import Path
from typing import Any

import numpy as np

from lib.data.errors import UnsafePickle

NUMERIC = re.compile(r"b1|[iu][1248]|f[248]|c(8|16)")


def read_numpy_pickle(source: str | os.PathLike[str] | bytes) -> Any:
    """Read a pickle of plain containers and numeric NumPy arrays.

    Parameters
    ----------
    source : path-like or bytes
        The file, or its content; arrays must have been pickled at protocol 2, 3 or 4.

    Returns
    -------
    object
        Dicts, lists, tuples, sets, strings, bytes, numbers, None, and read-only arrays.

    Raises
    ------
    UnsafePickle
        If the pickle asks for anything else.  Nothing it asked for has been run.
    ValueError
        If it is damaged.
    """
    content = source if isinstance(source, bytes) else Path(source).read_bytes()
    name = "the pickle" if isinstance(source, bytes) else str(source)
    try:
        _check_memo(content)
        return _finished(_Unpickler(io.BytesIO(content)).load(), {})
    except UnsafePickle as error:
        raise UnsafePickle(f"{name}: {error}") from None
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise ValueError(f"{name} is damaged: {type(error).__name__}: {error}") from error


def _check_memo(content: bytes) -> None:
    """Refuse memo indices no honest pickle has: the memo is a table of that length."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in ("PUT", "LONG_BINPUT") and argument > len(content):
            raise ValueError(f"memo index {argument} in {len(content)} bytes")


class _Token:
    """Stands for ``numpy.ndarray``: it can be passed on, but not called or changed."""

    __slots__ = ()


_NDARRAY = _Token()


class _Dtype:
    """Stands for ``numpy.dtype``."""

    __slots__ = ("code", "order")

    def __init__(self, code: Any, align: Any = False, copy: Any = False):
        if not isinstance(code, str) or not NUMERIC.fullmatch(code):
            raise UnsafePickle(f"arrays of dtype {code!r} are refused, only numbers are read")
        self.code = code
        self.order = "="

    def __setstate__(self, state: Any):
        _, order, subarray, names, fields, *_ = state
        if order not in ("<", ">", "=", "|") or (subarray, names, fields) != (None, None, None):
            raise UnsafePickle(f"the dtype state {state!r} is refused, only numbers are read")
        self.order = order


class _Array:
    """Stands for ``numpy.core.multiarray._reconstruct`` and the array it makes."""

    __slots__ = ("value",)
    __hash__ = None  # as arrays, so that none hides in a set or a key

    def __init__(self, subtype: Any, shape: Any, code: Any):
        if subtype is not _NDARRAY or shape != (0,) or code != b"b":
            raise UnsafePickle(f"_reconstruct{(subtype, shape, code)} is refused, only ndarray")

    def __setstate__(self, state: Any):
        _, shape, dtype, fortran, raw = state
        if type(dtype) is not _Dtype or type(raw) is not bytes:
            raise UnsafePickle("an array without a numeric dtype and raw bytes is refused")
        kind = np.dtype(dtype.order + dtype.code)
        if len(raw) != math.prod(shape) * kind.itemsize:
            raise ValueError(f"{len(raw)} bytes cannot fill {kind} of shape {shape}")
        self.value = np.frombuffer(raw, kind).reshape(shape, order="F" if fortran else "C")


def _encode(text: Any, encoding: Any = None) -> bytes:
    """Stands for ``_codecs.encode``, as protocol 2 uses it: bytes written as Latin-1 text."""
    if type(text) is not str or encoding != "latin1":
        raise UnsafePickle(f"encode({type(text).__name__}, {encoding!r}) is refused, only latin1")
    return text.encode("latin1")


_ADMITTED = {
    ("_codecs", "encode"): _encode,
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise UnsafePickle(f"the global {module}.{name} is refused") from None

    def persistent_load(self, pid: Any) -> Any:
        raise UnsafePickle(f"the persistent id {pid!r} is refused")


def _finished(value: Any, done: dict[int, Any]) -> Any:
    """Replace the stand-ins in a structure by their arrays, visiting shared parts once."""
    if id(value) in done:
        return done[id(value)]
    if type(value) is dict:
        result = {_finished(key, done): _finished(item, done) for key, item in value.items()}
    elif type(value) in (list, tuple, set, frozenset):
        result = type(value)(_finished(item, done) for item in value)
    elif type(value) is _Array:
        result = value.value
    elif value is None or type(value) in (bool, int, float, str, bytes):
        return value
    else:
        raise UnsafePickle(f"a value of type {type(value).__name__} is refused")
    done[id(value)] = result
    return result

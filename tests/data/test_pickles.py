import builtins
import codecs
import contextlib
import io
import os
import pickle
import pickletools
import random

import numpy as np
import pytest

from lib.data import store
from lib.data.errors import DataCorrupted, UnsafePickle
from lib.data.pickles import read_numpy_pickle

try:
    from numpy._core import multiarray
except ImportError:  # NumPy 1
    from numpy.core import multiarray


def dumped(value, protocol=4):
    return pickle.dumps(value, protocol=protocol)


class Call:
    """Pickles as a call of ``function(*arguments)``."""

    def __init__(self, function, *arguments, state=None):
        self.reduction = (function, arguments, state)

    def __reduce__(self):
        return self.reduction


ARRAYS = [
    np.arange(12, dtype=np.float32).reshape(3, 4),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array([True, False]),
    np.array(7, dtype=np.int64),
    np.empty((0, 12), dtype=np.float32),
    np.arange(4, dtype=">i2"),
    np.arange(3, dtype=np.uint8),
    np.array([1 + 2j]),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype.str}{array.shape}")
@pytest.mark.parametrize("protocol", [2, 3, 4])  # 2 writes bytes as text, encoded by a call
def test_reads_arrays(array, protocol):
    content = dumped(array, protocol)
    assert (b"_codecs" in content) == (protocol == 2)
    if protocol == 2 and not array.size:
        return
    read = read_numpy_pickle(content)
    assert type(read) is np.ndarray
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)


def test_reads_files_written_by_numpy_1():
    content = dumped(np.arange(3)).replace(
        b"\x8c\x16numpy._core.multiarray", b"\x8c\x15numpy.core.multiarray"
    )
    assert b"numpy.core.multiarray" in content
    content = content[:3] + (len(content) - 11).to_bytes(8, "little") + content[11:]  # the frame
    np.testing.assert_array_equal(read_numpy_pickle(content), np.arange(3))


def test_shared_parts_stay_shared():
    shared = np.arange(3)
    read = read_numpy_pickle(dumped({("a", 1): [shared], "b": (shared, {1}, frozenset({2}))}))
    assert read["b"][0] is read["a", 1][0]
    assert read["b"][1:] == ({1}, frozenset({2}))


def test_same_answer_as_pickle_on_random_structures():
    rng = random.Random(0)

    def draw(depth):
        kind = rng.choice(["number", "text", "array"] + ["list", "tuple", "dict"] * (depth > 0))
        if kind in ("list", "tuple"):
            items = [draw(depth - 1) for _ in range(rng.randrange(4))]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            return {rng.randrange(9): draw(depth - 1) for _ in range(rng.randrange(4))}
        if kind == "array":
            return np.array([rng.random() for _ in range(rng.randrange(3))])
        return rng.random() if kind == "number" else str(rng.random())

    for _ in range(200):
        content = dumped(draw(4))
        assert repr(read_numpy_pickle(content)) == repr(pickle.loads(content))


def touch(marker):
    return f"open({str(marker)!r}, 'w').close()"


def shell(marker):
    return Call(os.system, f"touch '{marker}'")


ATTACKS = {
    "os.system": shell,
    "eval": lambda m: Call(builtins.eval, touch(m)),
    "exec in a dict": lambda m: {"id_val": (np.ones(2), [Call(builtins.exec, touch(m))])},
    "as a dict key": lambda m: {("a", Call(os.mkdir, str(m))): 1},
    "getattr": lambda m: Call(getattr, np.ndarray, "tofile"),
    "numpy's own loader": lambda m: Call(np.load, str(m)),
    "as the subtype of an array": lambda m: reconstruct(Call(builtins.eval, touch(m)), (0,), b"b"),
    "as the state of an array": lambda m: reconstruct(
        *(np.ndarray, (0,), b"b"),
        state=(1, (1,), np.dtype("O"), False, [Call(builtins.eval, touch(m))]),
    ),
    "in an object array": lambda m: np.array([shell(m), 1], dtype=object),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_runs(attack, tmp_path):
    marker = tmp_path / "marker"
    with pytest.raises(UnsafePickle, match="refused"):
        read_numpy_pickle(dumped(ATTACKS[attack](marker)))
    assert not marker.exists()


@pytest.mark.parametrize("attack", ["os.system", "eval", "exec in a dict", "in an object array"])
def test_the_attacks_are_real(attack, tmp_path):
    marker = tmp_path / "marker"
    pickle.loads(dumped(ATTACKS[attack](marker)))
    assert marker.exists()


class Sub(np.ndarray):
    pass


def reconstruct(*arguments, state=None):
    return Call(multiarray._reconstruct, *arguments, state=state)


REFUSED = [
    *(Call(codecs.encode, *a) for a in [("x", "rot13"), ("x",), (b"x", "latin1"), ("x", "utf-8")]),
    reconstruct(np.ndarray, (10**12,), b"b"),
    reconstruct(np.ndarray, (0,), b"O"),
    *(reconstruct(kind, (0,), b"b") for kind in (np.dtype, Sub, np.matrix)),
    np.dtype([("a", "f4")]),
    np.array(["text"]),
    np.array(["2020"], dtype="M8[Y]"),
    np.dtype("f4"),
    np.ndarray,
    multiarray._reconstruct,
    np.float64(1.0),
    reconstruct(np.ndarray, (0,), b"b", state=(1, (1,), "f4", False, b"1234")),
    reconstruct(np.ndarray, (0,), b"b", state=(1, (1,), np.dtype("f4"), False, [1.0])),
]


@pytest.mark.parametrize("value", REFUSED, ids=range(len(REFUSED)))
def test_other_uses_of_the_admitted_names_are_refused(value):
    with pytest.raises(UnsafePickle):
        read_numpy_pickle(dumped(value))


def array_of(shape):
    return reconstruct(np.ndarray, (0,), b"b", state=(1, shape, np.dtype("f4"), False, b"1234"))


CYCLE = []
CYCLE.append(CYCLE)
DAMAGED = [
    *map(dumped, (Call(np.ndarray, (10**12,)), reconstruct(np.ndarray, (0,), b"b"), CYCLE)),
    *(dumped(array_of(shape)) for shape in ((2,), (-1, -1), (-1,), "x")),
    b"\x80\x04}r\xff\xff\xff\x7f.",  # a huge memo
    b"not a pickle",
    b"cnumpy\nndarray\n}(X\x01\x00\x00\x00aK\x01ub.",  # set an attribute of the token
    b"cnumpy\ndtype\n}(X\x04\x00\x00\x00codeK\x01ub.",  # ... of a stand-in's class
    b"cnumpy\ndtype\nN}X\x08\x00\x00\x00__init__K\x01s\x86b.",
    b"cnumpy\nndarray\n)\x81.",  # make an instance of the token
]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_damage_is_one_error_and_changes_no_stand_in(content):
    with pytest.raises(ValueError, match="pickle"):
        read_numpy_pickle(content)
    np.testing.assert_array_equal(read_numpy_pickle(dumped(np.ones(2))), np.ones(2))


def test_persistent_ids_are_refused():
    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            return "id" if value == "outside" else None

    stream = io.BytesIO()
    Pickler(stream, protocol=4).dump(["outside"])
    with pytest.raises(UnsafePickle, match="persistent id 'id'"):
        read_numpy_pickle(stream.getvalue())


def test_every_truncation_is_an_error():
    content = pickletools.optimize(dumped({"a": (np.arange(3.0), [1, 2])}))
    for length in range(len(content)):
        with pytest.raises(ValueError, match="the pickle is damaged"):
            read_numpy_pickle(content[:length])


def test_flipped_bytes_are_read_or_refused_but_nothing_else():
    content = dumped({"a": (np.arange(3.0), np.array([True]), [1, 2])})
    rng = np.random.default_rng(0)
    for _ in range(3000):
        flipped = bytearray(content)
        flipped[rng.integers(len(content))] = rng.integers(256)
        with contextlib.suppress(ValueError):
            read_numpy_pickle(bytes(flipped))


def test_the_hash_is_checked_before_anything_is_unpickled(mirror, tmp_path):
    marker = tmp_path / "marker"
    mirror.add("a", dumped({"a": 1}))
    mirror.path("a").write_bytes(dumped(shell(marker)))
    with pytest.raises(DataCorrupted):  # not UnsafePickle
        read_numpy_pickle(store.fetch("a"))
    assert not marker.exists()

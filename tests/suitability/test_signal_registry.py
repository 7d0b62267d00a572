import sys

import numpy as np
import pandas as pd
import pytest

from lib.suitability import signals
from lib.suitability.signals import register_signal

registry = sys.modules["lib.suitability.signals"]  # the package's name is the function's


@pytest.fixture(autouse=True)
def _clean_registry():
    # The module of the checkpoints registers a signal; whoever imported it wants it back.
    before = dict(registry._REGISTERED)
    registry._REGISTERED.clear()
    yield
    registry._REGISTERED.clear()
    registry._REGISTERED.update(before)


def logits_of(n=40, k=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, k))


def test_the_three_ways_to_register():
    @register_signal
    def plain(logits):
        return logits[:, 0]

    @register_signal("named")
    def function(logits, *, scale):
        return scale * logits[:, 1]

    @register_signal()
    def third(logits, shift=1.0, scale=2.0):
        return scale * logits[:, 0] + shift

    assert plain(np.ones((1, 1))).tolist() == [1.0]  # the function itself, unchanged
    assert list(registry._REGISTERED) == ["plain", "named", "third"]
    z = logits_of()
    table = signals(z, extra=("named", "third", "plain"), scale=3.0)
    assert list(table.columns[12:]) == ["named", "third", "plain"]
    np.testing.assert_array_equal(table["named"], 3 * z[:, 1])
    np.testing.assert_array_equal(table["third"], 3 * z[:, 0] + 1.0)
    np.testing.assert_array_equal(table["plain"], z[:, 0])
    np.testing.assert_array_equal(signals(z, extra=iter(["plain"]))["plain"], z[:, 0])


def test_index_and_integers_and_booleans():
    register_signal("first_is_largest")(lambda z: z.argmax(axis=1) == 0)
    frame = pd.DataFrame([[1, 0], [0, 1]], index=["a", "b"])
    table = signals(frame, extra=["first_is_largest"])
    assert list(table.index) == ["a", "b"]
    assert table["first_is_largest"].tolist() == [1.0, 0.0]
    assert table.dtypes.eq(float).all()


def test_logits_are_shown_read_only():
    @register_signal
    def vandal(logits):
        logits[:] = 0
        return logits[:, 0]

    z = logits_of()
    with pytest.raises(ValueError, match="read-only"):
        signals(z, extra=["vandal"])
    z[0, 0] = 1.0  # the caller's array stays writable


def test_replace():
    register_signal("mine")(lambda z: z[:, 0])
    with pytest.raises(ValueError, match="name must be free, got 'mine'"):
        register_signal("mine")(lambda z: z[:, 1])
    register_signal("mine", replace=True)(lambda z: z[:, 1])
    z = logits_of()
    np.testing.assert_array_equal(signals(z, extra=["mine"])["mine"], z[:, 1])
    assert list(registry._REGISTERED) == ["mine"]
    for replace in (False, True):
        with pytest.raises(ValueError, match="must not be one of the twelve"):
            register_signal("energy", replace=replace)(lambda z: z[:, 1])


def test_what_is_no_signal():
    calls = (lambda z, *more: z[:, 0], lambda z, **more: z[:, 0], lambda *, logits: logits[:, 0])
    for function in (
        3,
        int,
        lambda: 0,
        *calls,
        lambda z, extra: z[:, 0],
        lambda z, logits: z[:, 0],
    ):
        with pytest.raises(ValueError, match=r"(x|register_signal) must"):
            register_signal("x")(function)
    with pytest.raises(ValueError, match="name must"):
        register_signal(lambda z: z[:, 0])  # a lambda's name is none
    assert not registry._REGISTERED


def test_what_signals_must_be_given_and_give_back():
    register_signal("scaled")(lambda logits, scale: logits[:, 0] * scale)
    register_signal("plain")(lambda z: z[:, 0])
    for extra in (["other"], ["energy"], [["plain"]], "plain", None, ["plain", "plain"]):
        with pytest.raises(ValueError, match="extra must"):
            signals(logits_of(), extra)
    for extra, inputs, said in (
        (["scaled"], {}, "scaled must be given scale"),
        (["plain"], {"scale": 1.0}, "inputs must"),
        (["scaled"], {"scale": 1.0, "sale": 2.0}, "inputs must .* 'sale'"),
    ):
        with pytest.raises(ValueError, match=said):
            signals(logits_of(), extra, **inputs)
    shapes = None, "abc", 3.0, [1.0], [[1.0], [1.0, 2.0]], [[1.0], [2.0]]
    for values in (*shapes, ["1", "2"], [1j, 0.0], [1.0, None], [1.0, np.nan], [np.inf, 1.0]):
        register_signal("bad", replace=True)(lambda z, values=values: values)
        with pytest.raises(ValueError, match="bad must"):
            signals([[1.0, 0.0], [0.0, 1.0]], extra=["bad"])
    register_signal("bad", replace=True)(lambda z: [1.0, np.nan])
    with pytest.raises(ValueError, match="got nan in row 1"):
        signals([[1.0, 0.0], [0.0, 1.0]], extra=["bad"])

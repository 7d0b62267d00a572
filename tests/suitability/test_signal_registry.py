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


def variadic(logits, *more):
    return logits[:, 0]


def keywords(logits, **more):
    return logits[:, 0]


def reserved(logits, extra):
    return logits[:, 0]


def only_named(*, logits):
    return logits[:, 0]


def other_logits(z, logits):
    return z[:, 0]


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [
        (None, lambda z: z[:, 0], "name must be an identifier, got '<lambda>'"),
        ("two words", lambda z: z[:, 0], "name must be an identifier"),
        (3, lambda z: z[:, 0], "name must be an identifier"),
        ("x", 3, "must be given a function"),
        ("x", int, "must be given a function"),
        ("x", lambda: 0, "x must take the logits first"),
        ("x", variadic, "x must take the logits first"),
        ("x", keywords, "x must take the logits first"),
        ("x", only_named, "x must take the logits first"),
        ("x", reserved, "x must not call an input 'extra'"),
        ("x", other_logits, "x must not call an input 'logits'"),
    ],
)
def test_bad_registrations(name, function, message):
    with pytest.raises(ValueError, match=message):
        register_signal(name)(function)
    assert not registry._REGISTERED


@pytest.mark.parametrize(
    ("extra", "inputs", "message"),
    [
        (["other"], {}, r"extra must name registered signals \(scaled, plain\), got 'other'"),
        (["energy"], {}, "extra must name registered signals"),
        ([3], {}, "extra must name registered signals"),
        ([["plain"]], {}, "extra must name registered signals"),
        ("plain", {}, "extra must be a sequence of names, got 'plain'"),
        (None, {}, "extra must be a sequence of names"),
        (["plain", "plain"], {}, "extra must name each signal once"),
        (["scaled"], {}, "the signal scaled must be given scale"),
        (["plain"], {"scale": 1.0}, r"inputs must be those of the extra signals \(none\)"),
        ([], {"scale": 1.0}, "got 'scale'"),
        (["scaled"], {"scale": 1.0, "sale": 2.0}, r"\(scale\), got 'sale'"),
        (["scaled"], {"scale": np.ones((40, 2))}, "must return real numbers of shape"),
        (["scaled"], {"scale": np.nan}, "must return finite numbers, got nan in row 0"),
        (["scaled"], {"scale": np.inf}, r"must return finite numbers, got -?inf in row 0 \(40 "),
        (["scaled"], {"scale": 1j}, "must return real numbers of shape"),
        (["scaled"], {"scale": np.array([[2.0]])}, "must return real numbers"),
    ],
)
def test_bad_extras(extra, inputs, message):
    @register_signal
    def scaled(logits, scale):
        return (logits[:, :1] * scale).squeeze(1) if np.ndim(scale) == 0 else logits[:, :2] * scale

    register_signal("plain")(lambda z: z[:, 0])
    with pytest.raises(ValueError, match=message):
        signals(logits_of(), extra, **inputs)


@pytest.mark.parametrize(
    "values", [None, "abc", 3.0, [1.0], [[1.0], [1.0, 2.0]], ["1", "2"], [1.0, None]]
)
def test_bad_values(values):
    register_signal("bad")(lambda z: values)
    with pytest.raises(ValueError, match="bad must"):
        signals([[1.0, 0.0], [0.0, 1.0]], extra=["bad"])

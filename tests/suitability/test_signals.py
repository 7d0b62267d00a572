import math

import numpy as np
import pandas as pd
import pytest

from lib import data
from lib.suitability import SIGNAL_NAMES, signals


def slowly(z):
    """The formulas of the paper for one sample, with plain arithmetic."""
    z = [float(v) for v in z]
    k, top = len(z), max(z)
    log_sum = top + math.log(sum(math.exp(v - top) for v in z))
    p = [math.exp(v - log_sum) for v in z]
    by_size, logits = sorted(p, reverse=True), sorted(z, reverse=True)

    def sample_sd(values):
        mean = math.fsum(values) / k
        return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (k - 1))

    return {
        "conf_max": by_size[0],
        "conf_std": sample_sd(p),
        "conf_entropy": -math.fsum(q * math.log(q + 1e-10) for q in p),
        "logit_mean": math.fsum(z) / k,
        "logit_max": logits[0],
        "logit_std": sample_sd(z),
        "logit_diff_top2": logits[0] - logits[1],
        "loss": log_sum - logits[0],
        "margin_loss": -math.log(by_size[0] + 1e-10) + math.log(by_size[1] + 1e-10),
        "conf_ratio": by_size[0] / (by_size[1] + 1e-10),
        "top_k_conf_sum": math.fsum(by_size[: max(int(0.1 * k), 1)]),
        "energy": -log_sum,
    }


@pytest.mark.parametrize("k", [2, 3, 9, 10, 11, 19, 20, 25, 62, 1139])
@pytest.mark.parametrize("scale", [1e-3, 3.0, 40.0])
def test_formulas(k, scale):
    z = np.random.default_rng(k).normal(scale=scale, size=(7, k))
    expected = pd.DataFrame([slowly(row) for row in z])
    pd.testing.assert_frame_equal(signals(z), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "z",
    [[0.0, 0.0], [1e4, -1e4, 0.0], [-1e4, -1e4, -1e4], [5.0, 5.0, 1.0], [700.0, 0.0], [1e8, 1e8]],
)
def test_extremes_and_ties(z):
    table = signals([z])
    assert np.isfinite(table.to_numpy()).all()
    pd.testing.assert_frame_equal(table, pd.DataFrame([slowly(z)]), rtol=1e-9, atol=1e-12)


def test_columns_are_those_of_the_published_tables():
    assert SIGNAL_NAMES == data.SIGNAL_NAMES
    assert tuple(signals([[1.0, 0.0]]).columns) == SIGNAL_NAMES


def test_single_precision_integers_and_frames():
    z = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    pd.testing.assert_frame_equal(signals(z), signals(z.astype(float)))
    pd.testing.assert_frame_equal(signals([[2, 0, 1]]), signals([[2.0, 0.0, 1.0]]))
    frame = pd.DataFrame(z, index=list("abcde"))
    assert list(signals(frame).index) == list("abcde")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [3, 10, 1000])
def test_mean_of_logits_that_sum_to_zero_is_no_signal(dtype, k):
    rng = np.random.default_rng(k)
    weights = rng.normal(size=(64, k))
    weights -= weights.mean(axis=1, keepdims=True)
    z = rng.random((500, 64)).astype(dtype) @ weights.astype(dtype)
    assert z.dtype == dtype
    assert z.mean(axis=1).any(), "without rounding error this test shows nothing"
    assert (signals(z)["logit_mean"] == 0).all()
    # Anything larger than rounding stays: a thousandth of the logits' size here.
    shifted = z + dtype(1e-3) * np.abs(z).max()
    assert (signals(shifted)["logit_mean"] > 0).all()


def test_shift_and_order_of_classes():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(20, 12))
    base, shifted = signals(z), signals(z + 5.0)
    moved = {"logit_mean": 5.0, "logit_max": 5.0, "energy": -5.0}
    for name in SIGNAL_NAMES:
        np.testing.assert_allclose(shifted[name] - base[name], moved.get(name, 0.0), atol=1e-6)
    pd.testing.assert_frame_equal(signals(z[:, rng.permutation(12)]), base, rtol=1e-10)


@pytest.mark.parametrize(
    "bad",
    [
        [[1.0]],
        [[True, False]],
        3.0,
        [["1", "2"]],
        pd.DataFrame({"a": ["1"], "b": [2.0]}),
        pd.DataFrame({"a": [True], "b": [2.0]}),
        pd.DataFrame({"a": pd.array([None], dtype="Int64"), "b": [2.0]}),
        [[1e200, 0.0]],
    ],
    ids=str,
)
def test_bad_input(bad):
    with pytest.raises(ValueError, match="logits must"):
        signals(bad)

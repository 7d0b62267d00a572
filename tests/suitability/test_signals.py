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
    # Relative to the largest first: of 1e8 + log 2 half the digits would be lost.
    scaled = [math.exp(v - top) for v in z]
    log_sum = top + math.log(math.fsum(scaled))
    p = [v / math.fsum(scaled) for v in scaled]
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
        "loss": math.log(math.fsum(scaled)),
        "margin_loss": -math.log(by_size[0] + 1e-10) + math.log(by_size[1] + 1e-10),
        "conf_ratio": by_size[0] / (by_size[1] + 1e-10),
        "top_k_conf_sum": math.fsum(by_size[: max(int(0.1 * k), 1)]),
        "energy": -log_sum,
    }


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3, 9, 10, 19, 20, 62, 1139])
@pytest.mark.parametrize("scale", [1e-3, 3.0, 40.0])
def test_formulas(k, scale):
    z = np.random.default_rng(k).normal(scale=scale, size=(3, k))
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


def test_columns_and_rows_have_names():
    assert SIGNAL_NAMES == data.SIGNAL_NAMES
    frame = pd.DataFrame([[2, 0, 1]], index=["a"])
    pd.testing.assert_frame_equal(signals(frame), signals([[2.0, 0.0, 1.0]]).set_axis(["a"]))


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


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_signals_hang_on_the_numbers_and_not_on_their_type(kind):
    """In half precision means below a tenth of the largest logit became 0."""
    rng = np.random.default_rng(3)
    for scale in (1, 5, 20):
        z = (scale * (rng.normal(size=(2000, 10)) + 0.3)).astype(kind)
        found = signals(z)
        pd.testing.assert_frame_equal(found, signals(z.astype(float)))
        # By definition, but for what half a unit in the last place of each number may move.
        exact, unit = z.astype(float).mean(axis=1), 2.0**-11 if kind is np.float16 else 2.0**-24
        off = np.abs(found["logit_mean"] - exact) / np.abs(z.astype(float)).mean(axis=1)
        assert off.max() <= max(unit, 1e-4)
        assert (found["logit_mean"] == 0).mean() < 0.005


@pytest.mark.parametrize("k", [2, 3, 10, 1000])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_energy_of_log_probabilities_is_constant(kind, k):
    """Rounding of 5e-17 led the list of signals that had moved."""
    z = np.random.default_rng(k).normal(size=(500, k))
    log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    assert (signals(log_p.astype(kind))["energy"] == 0).all()
    np.testing.assert_allclose(signals(log_p + 0.01)["energy"], -0.01, atol=1e-12)


def test_two_classes_have_one_ranking_also_where_the_confidence_rounds_to_one():
    """p_2 down to 1e-24 is in entropy, margin and ratio; to 1e-300 in loss and log-odds."""
    rng = np.random.default_rng(4)
    for far, names in ((690.0, ["loss"]), (45.0, ["loss", "conf_entropy", "margin_loss"])):
        gap = np.sort(rng.uniform(0, far, 3000))
        table = signals(np.column_stack([gap, np.zeros(3000)]))
        for name in names:
            np.testing.assert_array_equal(np.argsort(table[name], kind="stable"), range(3000)[::-1])
    gap = np.array([40.0, 80.0, 600.0])
    table = signals(np.column_stack([gap / 2, -gap / 2]))
    np.testing.assert_allclose(table["loss"], np.exp(-gap), rtol=1e-12)
    # -(1 - q) log(1 - q + e) - q log(q + e), to first order in q.
    q = np.exp(-40.0)
    assert table["conf_entropy"][0] + np.log1p(1e-10) == pytest.approx(
        q * (1 / (1 + 1e-10) + np.log1p(1e-10) - np.log(q + 1e-10)), rel=1e-6
    )


def test_equal_numbers_have_no_deviation():
    for value in (0.1, 1e9 / 3, -1e-9):
        table = signals(np.full((4, 7), value))
        assert (table[["conf_std", "logit_std", "logit_diff_top2"]] == 0).all(axis=None)

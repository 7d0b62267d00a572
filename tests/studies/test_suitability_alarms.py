"""What is simulated of monitoring is what SciPy says of the same p-values; delays."""

import numpy as np
import pytest
from scipy import stats

from lib.studies.suitability.alarms import bh_threshold, simulate_monitoring
from lib.suitability import non_inferiority_test

REFERENCE = np.random.default_rng(0).beta(8, 2, 400)


@pytest.mark.parametrize("window", [None, 1, 3, 50])
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_benjamini_hochberg_equals_scipy(window, alpha):
    rng, said = np.random.default_rng(3), 0
    batches = [rng.beta(a, 2, 60) for a in rng.uniform(5.5, 9.5, 30)]
    p = np.array([non_inferiority_test(REFERENCE, b, 0.05).p_value for b in batches])
    for time in range(30):
        recent = p[max(0, time + 1 - (window or time + 1)) : time + 1]
        threshold = float(bh_threshold(recent[:-1], alpha))
        rejected = (stats.false_discovery_control(recent) <= alpha)[-1]
        assert (recent[-1] <= threshold) == rejected
        said += rejected
        # The threshold is where the newest decision changes, the others being as they are.
        for factor, expected in ((1 - 1e-9, True), (1 + 1e-9, False)):
            changed = np.append(recent[:-1], min(1.0, threshold * factor))
            assert (stats.false_discovery_control(changed) <= alpha)[-1] == expected
    assert 0 < said < 30


def test_simulation_scores_decisions_in_turn():
    """The simulated p-values again, judged by SciPy."""
    windows, rng = (1, 3, None), np.random.default_rng(2)
    table = simulate_monitoring(windows, repetitions=8, share_unsuitable=0.4, rng=rng)
    rng = np.random.default_rng(2)
    unsuitable = rng.random((8, 50)) < 0.4
    fdp, last_fdp = np.zeros((3, 8)), np.zeros((3, 8))
    false, true = np.zeros(3), np.zeros(3)
    for i, bad in enumerate(unsuitable):
        reference = rng.beta(0.8 * 4, (1 - 0.8) * 4, (1, 1000))[0]
        mean = 0.8 - np.where(bad, 0.05, 0.0)[:, None]
        user = rng.beta(mean * 4, (1 - mean) * 4, (50, 200))
        p = np.array([non_inferiority_test(reference, b, 0.05).p_value for b in user])
        for j, window in enumerate(windows):
            starts = [max(0, time + 1 - (window or 50)) for time in range(50)]
            judged = [stats.false_discovery_control(p[s : t + 1]) for t, s in enumerate(starts)]
            called = np.array([one[-1] <= 0.05 for one in judged])
            fdp[j, i] = (called & bad).sum() / max(called.sum(), 1)
            false[j] += (called & bad).sum()
            true[j] += (called & ~bad).sum()
            kept = judged[-1] <= 0.05
            last_fdp[j, i] = (kept & bad[-len(kept) :]).sum() / max(kept.sum(), 1)
    assert table["fdr"].to_numpy() == pytest.approx(fdp.mean(axis=1))
    assert table["fdr_se"].to_numpy() == pytest.approx(fdp.std(axis=1, ddof=1) / np.sqrt(8))
    assert table["fdr_last"].to_numpy() == pytest.approx(last_fdp.mean(axis=1))
    assert table["fpr"].to_numpy() == pytest.approx(false / unsuitable.sum())
    assert table["tpr"].to_numpy() == pytest.approx(true / (~unsuitable).sum())
    assert table["window"].isna().tolist() == [False, False, True]
    assert false.min() > 0

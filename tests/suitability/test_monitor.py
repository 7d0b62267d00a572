import numpy as np
import pytest
from scipy import stats

from lib.studies.suitability.alarms import _bh_threshold, simulate_alarms, simulate_monitoring
from lib.suitability import monitor as monitor_module
from lib.suitability import non_inferiority_test
from lib.suitability.monitor import Monitor
from lib.suitability.sequential import EProcess, test_upper_bound

REFERENCE = np.random.default_rng(0).beta(8, 2, 400)


@pytest.mark.parametrize("window", [None, 1, 2, 3, 7, 50])
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_benjamini_hochberg_equals_scipy(window, alpha):
    rng, said = np.random.default_rng(3), 0
    batches = [rng.beta(a, 2, 60) for a in rng.uniform(5.5, 9.5, 30)]
    p = np.array([non_inferiority_test(REFERENCE, b, 0.05).p_value for b in batches])
    for time in range(30):
        recent = p[max(0, time + 1 - (window or time + 1)) : time + 1]
        threshold = float(_bh_threshold(recent[:-1], alpha))
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
    table = simulate_monitoring(windows, repetitions=20, share_unsuitable=0.4, rng=rng)
    rng = np.random.default_rng(2)
    unsuitable = rng.random((20, 50)) < 0.4
    fdp, last_fdp = np.zeros((3, 20)), np.zeros((3, 20))
    false, true = np.zeros(3), np.zeros(3)
    for i, bad in enumerate(unsuitable):
        reference = rng.beta(0.8 * 4, (1 - 0.8) * 4, (1, 1000))[0]
        mean = 0.8 - np.where(bad, 0.05, 0.0)[:, None]
        user = rng.beta(mean * 4, (1 - mean) * 4, (50, 200))
        for j, window in enumerate(windows):
            p = np.array([non_inferiority_test(reference, b, 0.05).p_value for b in user])
            starts = [max(0, time + 1 - (window or 50)) for time in range(50)]
            judged = [stats.false_discovery_control(p[s : t + 1]) for t, s in enumerate(starts)]
            called = np.array([one[-1] <= 0.05 for one in judged])
            fdp[j, i] = (called & bad).sum() / max(called.sum(), 1)
            false[j] += (called & bad).sum()
            true[j] += (called & ~bad).sum()
            kept = judged[-1] <= 0.05
            last_fdp[j, i] = (kept & bad[-len(kept) :]).sum() / max(kept.sum(), 1)
    assert table["fdr"].to_numpy() == pytest.approx(fdp.mean(axis=1))
    assert table["fdr_se"].to_numpy() == pytest.approx(fdp.std(axis=1, ddof=1) / np.sqrt(20))
    assert table["fdr_last"].to_numpy() == pytest.approx(last_fdp.mean(axis=1))
    assert table["fpr"].to_numpy() == pytest.approx(false / unsuitable.sum())
    assert table["tpr"].to_numpy() == pytest.approx(true / (~unsuitable).sum())
    assert table["window"].isna().tolist() == [False, False, True]
    assert false.min() > 0


# --- alarms ---------------------------------------------------------------------------------------


def watch(level=0.8, **options):
    """A monitor whose reference mean is known."""
    return Monitor([level, level], reference_level=0, **options)


@pytest.mark.parametrize("draw", ["beta", "nearly always right"])
def test_average_run_length_is_at_least_what_is_promised(draw):
    """With a mean exactly at the least that is suitable: the worst case."""
    rng, streams, promised = np.random.default_rng(20), 200, 100
    mean = 0.98 if draw == "nearly always right" else 0.75
    x = (
        rng.beta(3, 1, (streams, 6000))
        if draw == "beta"
        else (rng.random((streams, 6000)) < mean).astype(float)
    )
    lengths = []
    for stream in x:
        monitor = watch(mean + 0.01, margin=0.01, run_length=promised)
        for first in range(0, 6000, 20):
            if monitor.update(stream[first : first + 20]).alarm:
                break
        lengths.append(first + 20)
    # One-sided, five standard errors; streams that end without an alarm only shorten the mean.
    assert np.mean(lengths) + 5 * stats.sem(lengths) > promised


def test_detector_is_its_recursion():
    rng = np.random.default_rng(21)
    x, values = rng.beta(6, 4, 50), []
    bets = monitor_module._BETS / (1 - 0.7)
    capital = np.zeros(len(bets))
    for one in x:
        capital = (capital + 1) * (1 + bets * (0.7 - one))
        values.append(capital.mean())
    monitor = watch(0.75, margin=0.05, run_length=1e9)
    got = [monitor.update([one]).evidence * 1e9 for one in x]
    # The largest since the batch began is at least what stood before it.
    np.testing.assert_allclose(got, np.maximum(values, [0, *values[:-1]]), rtol=1e-9)
    at_once = watch(0.75, margin=0.05, run_length=1e9).update(x)
    assert at_once.evidence * 1e9 == pytest.approx(max(values), rel=1e-9)


def test_a_model_that_was_good_for_long_is_not_good_for_ever():
    """After 50 batches at 0.20 instead of 0.80 the accept-once test still says SUITABLE."""
    rng = np.random.default_rng(22)
    reference = rng.beta(3.2, 0.8, 2000)
    once = EProcess(test_upper_bound(reference, 0.025) - 0.05)
    monitor = Monitor(reference, margin=0.05, run_length=10_000)
    for _ in range(50):
        batch = rng.beta(3.2, 0.8, 100)
        once.update(batch)
        assert not monitor.update(batch).alarm
    bad = [rng.beta(0.8, 3.2, 100) for _ in range(50)]
    for batch in bad:
        once.update(batch)
    assert once.p_value <= 0.025
    assert all(monitor.update(batch).alarm for batch in bad)
    assert monitor.table()["alarm"].sum() == 50


def test_labels_that_come_late_and_for_some():
    """Estimates that notice nothing; a tenth of the labels, ten batches late, do."""
    rng = np.random.default_rng(23)
    correct = rng.random(5000) < 0.8
    monitor = Monitor(
        rng.beta(8, 2, 5000), reference_correct=correct, margin=0.05, run_length=10_000
    )
    alarms = []
    for time in range(60):
        accuracy = 0.8 if time < 30 else 0.4  # labels of ten batches before
        labels = rng.random(10) < accuracy if time >= 10 else ()
        found = monitor.update(rng.beta(8, 2, 100), labels)
        alarms.append(found.alarm)
        assert not found.alarm or found.from_labels > 0.9
    assert not any(alarms[:30])
    assert any(alarms[30:40])
    assert monitor.update(correct=[True, False]).n == 0


@pytest.mark.parametrize("labels", [None, np.arange(400) % 5 > 0])
def test_two_references_share_the_level(labels):
    """Bonferroni: each has a lower bound at half of it."""
    level = 0.05 if labels is None else 0.025
    least = 1 - test_upper_bound(1 - REFERENCE, level)
    with pytest.raises(ValueError, match=f"margin must be below {least:.6g} and at least"):
        Monitor(REFERENCE, reference_correct=labels, margin=0.99)


def test_delay_falls_with_the_drop():
    table = simulate_alarms(
        (0.02, 0.05, 0.1, 0.6), repetitions=20, n_test=20_000, rng=np.random.default_rng(24)
    )
    assert (table["early"] <= 0.2).all()
    assert (table["detected"] == 1).all()
    assert (np.diff(table["delay"]) < 0).all()
    assert table["delay"].iloc[0] < 8000
    assert table["delay"].iloc[-1] < 20
    quiet = simulate_alarms((0.0,), repetitions=20, longest=3000, rng=np.random.default_rng(25))
    assert quiet["detected"][0] <= 0.2


def test_acceptance_holds_its_level_for_the_population_with_many_user_rows():
    """With an upper bound; with the test data's own mean for the reference it does not."""
    rng, reps, wrong = np.random.default_rng(26), 60, np.zeros(2)
    for _ in range(reps):
        reference, user = rng.beta(8, 2, 1000), rng.beta(7.5, 2.5, 100_000)
        for i, mean in enumerate((test_upper_bound(reference, 0.025), reference.mean())):
            process = EProcess(mean - 0.05)
            process.update(user)
            wrong[i] += process.p_value <= (0.025, 0.05)[i]
    assert wrong[0] <= stats.binom.isf(1e-4, reps, 0.05)
    assert wrong[1] > stats.binom.isf(1e-4, reps, 0.05)


def test_malformed_batches_leave_the_monitor_as_it_was():
    with pytest.raises(ValueError, match=r"margin must be below 0\.8 and at least -0\.2"):
        watch(margin=0.9)
    for wrong in ({"run_length": np.inf}, {"reference_correct": [1]}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must"):
            watch(**wrong)
    monitor = watch()
    for arguments, message in (
        (([0.5, 1.5],), "batch must be in"),
        ((), "batch and correct must not both be empty"),
        (([],), "batch and correct must not both be empty"),
        (([0.5], [1, 0]), "correct must be empty without reference_correct"),
        (([0.5], [0.3]), "correct must be booleans"),
    ):
        with pytest.raises(ValueError, match=message):
            monitor.update(*arguments)
    assert monitor.history == []
    assert monitor.update([0.9]).evidence == watch().update([0.9]).evidence

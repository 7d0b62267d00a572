import numpy as np
import pytest
from scipy import stats

from lib.suitability import monitor as monitor_module
from lib.suitability.monitor import Monitor
from lib.suitability.sequential import EProcess, test_upper_bound

REFERENCE = np.random.default_rng(0).beta(8, 2, 400)


def watch(level=0.8, **options):
    """A monitor whose reference mean is known."""
    return Monitor([level, level], reference_level=0, **options)


@pytest.mark.slow
@pytest.mark.parametrize("draw", ["beta", "nearly always right"])
def test_average_run_length_is_at_least_what_is_promised(draw):
    """With a mean exactly at the least that is suitable: the worst case."""
    rng, streams, length, promised = np.random.default_rng(20), 150, 2000, 100
    mean = 0.98 if draw == "nearly always right" else 0.75
    x = (
        rng.beta(3, 1, (streams, length))
        if draw == "beta"
        else (rng.random((streams, length)) < mean).astype(float)
    )
    lengths = []
    for stream in x:
        monitor = watch(mean + 0.01, margin=0.01, run_length=promised)
        for first in range(0, length, 20):
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


def test_evidence_beyond_the_largest_number_is_finite():
    found = watch().update(np.zeros(5000))
    assert found.alarm
    assert found.evidence == pytest.approx(np.exp(700.0) / watch().run_length)


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


@pytest.mark.slow
def test_acceptance_holds_its_level_for_the_population_with_many_user_rows():
    """With an upper bound; with the test data's own mean for the reference it does not."""
    rng, reps, wrong = np.random.default_rng(26), 40, np.zeros(2)
    for _ in range(reps):
        reference, user = rng.beta(8, 2, 1000), rng.beta(7.5, 2.5, 50_000)
        for i, mean in enumerate((test_upper_bound(reference, 0.025), reference.mean())):
            process = EProcess(mean - 0.05)
            process.update(user)
            wrong[i] += process.p_value <= (0.025, 0.05)[i]
    assert wrong[0] <= stats.binom.isf(1e-4, reps, 0.05)
    assert wrong[1] > stats.binom.isf(1e-4, reps, 0.05)


def test_malformed_batches_leave_the_monitor_as_it_was():
    monitor = watch()
    for wrong in (([0.5, 1.5],), (), ([],), ([0.5], [1, 0]), ([0.5], [0.3])):
        with pytest.raises(ValueError, match="must"):
            monitor.update(*wrong)
    assert monitor.history == []
    assert monitor.update([0.9]).evidence == watch().update([0.9]).evidence

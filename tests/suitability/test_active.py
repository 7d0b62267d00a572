"""Chosen labels: against definitions, by enumeration and simulation; what an update takes."""

import itertools
import pickle

import numpy as np
import pytest
from scipy import stats

from lib.studies.suitability.alarms import active_errors
from lib.suitability import ActiveMonitor, Monitor, active_accuracy, labelling_probabilities
from lib.suitability import monitor as monitor_module
from lib.suitability.sequential import EProcess, test_upper_bound

REFERENCE = np.random.default_rng(0).beta(8, 2, 2000)


def test_probabilities_by_hand():
    doubt = np.sqrt(REFERENCE * (1 - REFERENCE))
    p = labelling_probabilities(REFERENCE, 0.1, REFERENCE, floor=0.3)
    assert p == pytest.approx(0.1 * (0.3 + 0.7 * doubt / doubt.mean()))
    assert p.mean() == pytest.approx(0.1)
    assert (labelling_probabilities(REFERENCE, 0.1, REFERENCE, floor=1) == 0.1).all()
    # A row of another batch has the same probability whatever it comes with.
    assert labelling_probabilities(REFERENCE[7:9], 0.1, REFERENCE, floor=0.3) == pytest.approx(
        p[7:9]
    )
    assert labelling_probabilities(REFERENCE[7:8], 0.1, REFERENCE, floor=0.3) == p[7]  # one row
    assert labelling_probabilities([0.5, 0.9], 0.9, REFERENCE, floor=0.1).max() == 1.0
    # Without any doubt in the reference all rows are alike.
    assert labelling_probabilities([0.5, 1.0], 0.2, [0.0, 1.0]).tolist() == [0.2, 0.2]


def test_strata_by_hand():
    f = np.repeat([0.2, 0.6, 0.9], [40, 40, 20])
    right = np.zeros(100, bool)
    right[:8], right[40:70], right[80:] = True, True, True
    p = labelling_probabilities(
        [0.2, 0.6, 0.9, 0.91], 0.1, f, reference_correct=right, strata=3, floor=0.5
    )
    squares = [(right[a:b] - f[a:b]) ** 2 for a, b in ((0, 40), (40, 80), (80, 100))]
    spread = np.array([np.sqrt((s.sum() + 0.25) / (len(s) + 1)) for s in squares])
    mean = (spread * [0.4, 0.4, 0.2]).sum()
    assert p == pytest.approx(0.1 * (0.5 + 0.5 * spread[[0, 1, 2, 2]] / mean))
    # One stratum, or ties throughout: no rule at all.
    for options in ({"strata": 1}, {"strata": 50}):
        alike = labelling_probabilities(
            [0.3, 0.4], 0.1, np.full(100, 0.5), reference_correct=right, **options
        )
        assert np.ptp(alike) == 0


def test_the_estimate_is_unbiased_whatever_the_estimates_are():
    """By enumeration of which rows are chosen."""
    f, y = np.array([0.9, 0.1, 0.5, 0.4]), np.array([False, True, True, True])
    p, total, moment = np.array([0.3, 0.9, 0.5, 0.25]), 0.0, 0.0
    for pattern in itertools.product([False, True], repeat=4):
        chosen = np.array(pattern)
        chance = np.where(chosen, p, 1 - p).prod()
        monitor = ActiveMonitor(0.5, least_probability=0.25)
        x = monitor.update(f, chosen, y[chosen], p).accuracy
        total, moment = total + chance * x, moment + chance * x**2
    assert total == pytest.approx(0.75)
    assert moment - total**2 == pytest.approx(((1 / p - 1) * (y - f) ** 2).sum() / 16)


def test_the_interval_is_that_of_bounded_observations():
    """At half of alpha each, of x between 1 - 1 / least and 1 / least."""
    f, chosen, right, p = batch(np.random.default_rng(5), 1000)
    x = correctness(f, chosen, right, p)
    value, (low, high) = active_accuracy(f, chosen, right, p, least_probability=0.15, alpha=0.2)
    assert value == pytest.approx(x.mean())
    plain, same = (
        active_accuracy(f, chosen, right, p, least_probability=0.15, **alpha)
        for alpha in ({}, {"alpha": 0.05})
    )
    assert plain == same
    z, width = (x - 1 + 1 / 0.15) / (2 / 0.15 - 1), 2 / 0.15 - 1
    least = (1 - test_upper_bound(1 - z, 0.1)) * width + 1 - 1 / 0.15
    assert low == pytest.approx(max(0, least), abs=1e-6)
    assert high == pytest.approx(test_upper_bound(z, 0.1) * width + 1 - 1 / 0.15, abs=1e-6)
    assert 0 < low < high < 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "accuracy", "rate", "alpha"), [(20, 0.5, 1.0, 0.25), (600, 0.95, 0.3, 0.25)]
)
def test_each_end_of_the_interval_holds_in_any_order(n, accuracy, rate, alpha):
    """By the largest capital in one order of the sorted rows one end missed in up to 0.235 of the
    samples instead of 0.125."""
    rng, missed, runs = np.random.default_rng([40, n]), np.zeros(2), 150
    f, p, least = np.full(n, 0.5), np.full(n, rate), rate if rate == 1 else rate / 2
    for _ in range(runs):
        right, chosen = rng.random(n) < accuracy, rng.random(n) < rate
        given = f, chosen, right[chosen], p
        low, high = active_accuracy(*given, least_probability=least, alpha=alpha)[1]
        missed += high < accuracy, low > accuracy
    side = alpha / 2
    assert (missed / runs <= side + 3 * np.sqrt(side * (1 - side) / runs)).all()


@pytest.mark.slow
def test_levels_hold():
    """Few labels, accuracies near 1, estimates that are all equal or all wrong."""
    repetitions = 60
    table = active_errors(60, 0.2, repetitions=repetitions, rng=np.random.default_rng(30))
    most = stats.binom.isf(1e-4, repetitions, 0.05) / repetitions
    for name in ("interval", "alarm", "SUITABLE", "UNSUITABLE"):
        assert (table[name] <= most).all(), table
    # What the test would notice: the normal interval where errors are rare.
    assert table["normal interval"].max() > most


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["right", "wrong", "one value, nearly always right"])
def test_average_run_length_is_at_least_what_is_promised(kind):
    """At exactly the least accuracy: the worst case."""
    rng, promised, lengths = np.random.default_rng(31), 200, []
    accuracy = 0.97 if kind.startswith("one") else 0.7
    reference = rng.beta(7, 3, 500)
    for _ in range(80):
        monitor = ActiveMonitor(accuracy, least_probability=0.1, run_length=promised)
        while monitor.state == "watching" and len(monitor.history) < 150:
            f = rng.beta(7, 3, 20)
            y = rng.random(20) < f if kind == "right" else rng.random(20) < accuracy
            f = {"right": f, "wrong": 1 - f}.get(kind, np.full(20, accuracy))
            p = labelling_probabilities(f, 0.2, reference)
            chosen = rng.random(20) < p
            monitor.update(f, chosen, y[chosen], p)
        lengths.append(20 * len(monitor.history))
    # One-sided, five standard errors; streams that end without an alarm only shorten the mean.
    assert np.mean(lengths) + 5 * stats.sem(lengths) > promised


def batch(rng, n=100, accuracy=0.8, f=None):
    f = rng.beta(8, 2, n) if f is None else f
    p = labelling_probabilities(f, 0.3, REFERENCE)
    chosen = rng.random(n) < p
    return f, chosen, rng.random(chosen.sum()) < accuracy, p


def correctness(f, chosen, right, p):
    """What stands for a row's correctness: its estimate, corrected where there is a label."""
    x = f.copy()
    x[chosen] += (right - f[chosen]) / p[chosen]
    return x


def test_watching_is_the_recursion_of_the_e_detector():
    rng, least, threshold = np.random.default_rng(32), 0.15, 0.75
    monitor = ActiveMonitor(threshold, least_probability=least, run_length=1e9)
    bets = monitor_module._BETS / (1 / least - threshold)
    capital, largest = np.zeros(len(bets)), 0.0
    for _ in range(3):
        f, chosen, right, p = batch(rng)
        x = correctness(f, chosen, right, p)
        for one in x:
            capital = (capital + 1) * (1 + bets * (threshold - one))
            largest = max(largest, capital.mean())
        found = monitor.update(f, chosen, right, p)
        assert found.n_labels == chosen.sum()
        assert found.accuracy == pytest.approx(x.mean())
        assert found.evidence * 1e9 == pytest.approx(largest, rel=1e-9)
        largest = capital.mean()  # what stands when the next batch begins


@pytest.mark.parametrize(("after", "end"), [(0.3, "unsuitable"), (0.95, "watching")])
def test_an_alarm_is_followed_by_a_decision_from_new_rows(after, end):
    rng, alpha = np.random.default_rng(33), 0.05
    monitor = ActiveMonitor(0.7, least_probability=0.15, run_length=500, alpha=alpha)
    while not monitor.update(*batch(rng, accuracy=0.2)).alarm:
        pass
    assert monitor.state == "deciding"
    scaled = (0.7 - 1 + 1 / 0.15) / (2 / 0.15 - 1)
    tests = EProcess(scaled), EProcess(1 - scaled)
    while monitor.state == "deciding":
        given = batch(rng, accuracy=after)
        found = monitor.update(*given)
        z = (correctness(*given) - 1 + 1 / 0.15) / (2 / 0.15 - 1)
        tests[0].update(z)
        tests[1].update(1 - z)
        assert found.suitable_p == pytest.approx(tests[0].p_value)
        assert found.unsuitable_p == pytest.approx(tests[1].p_value)
        assert (found.evidence, found.alarm) == (0.0, False)
    assert monitor.state == end == found.state
    assert (found.suitable_p if end == "watching" else found.unsuitable_p) <= alpha
    again = monitor.update(*batch(rng, accuracy=0.2))
    assert (again.evidence > 0) == (end == "watching")  # it has started anew
    assert again.state == "unsuitable" or end == "watching"
    assert monitor.table()["alarm"].tolist() == [d.alarm for d in monitor.history]


def test_bad_input_leaves_the_monitor_as_it_was():
    f, chosen, right, p = batch(np.random.default_rng(34))
    monitor, clean = (ActiveMonitor(0.7, least_probability=0.15) for _ in range(2))
    for wrong, name in (
        ((f, chosen, right[:-1], p), "correct"),
        ((f, chosen[:-1], right, p), "chosen"),
        ((f, chosen, right, p[:-1]), "probability"),
        ((f, chosen, right, p / 10), "probability"),
        ((f + 1, chosen, right, p), "estimated"),
    ):
        with pytest.raises(ValueError, match=f"{name} must"):
            monitor.update(*wrong)
    assert monitor.history == []
    assert monitor.update(f, chosen, right, p) == clean.update(f, chosen, right, p)


@pytest.mark.parametrize("which", ["watching", "deciding", "estimates"])
def test_what_is_kept_does_not_grow(which):
    """Bytes of all but the history, numbers at full length."""
    rng = np.random.default_rng(35)
    if which == "estimates":
        monitor = Monitor(REFERENCE, margin=0.05, run_length=1e300)
    else:
        monitor = ActiveMonitor(0.7, least_probability=0.15, run_length=1e300, alpha=1e-300)
    if which == "deciding":
        monitor._begin_to_decide()
    sizes = []
    for n in [50, *[2000] * 20]:
        monitor.update(*([rng.beta(8, 2, n)] if which == "estimates" else batch(rng, n, 0.7)))
        state = {name: value for name, value in vars(monitor).items() if name != "history"}
        sizes.append(len(pickle.dumps(state)))
    assert sizes[-1] <= sizes[0] + 32  # a counter's digits


def test_the_shortest_run_that_may_be_promised():
    assert ActiveMonitor(0.7, least_probability=0.15, run_length=10).run_length == 10
    with pytest.raises(ValueError, match="run_length"):
        ActiveMonitor(0.7, least_probability=0.15, run_length=9.9)

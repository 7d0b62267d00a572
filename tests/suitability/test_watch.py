"""A model in use: months, late labels, peers by SciPy's tests, and what is counted."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from scipy import stats

from lib.studies.beyond import watch as studies
from lib.studies.suitability.peers import _alert_threshold, _calibrate, _calibrator
from lib.studies.suitability.study_runs import load_study
from lib.suitability import ActiveMonitor, labelling_probabilities, signals

PLAN = studies.Plan(false_every=24, rate=0.3, months=6, lag=2)


@pytest.fixture(scope="module")
def deployed():
    return studies.Deployment(load_study("digits"), PLAN, np.random.default_rng(0))


def test_periods_and_months(deployed):
    truth = deployed.truth()
    assert truth["period"].tolist() == ["unshifted", *(f"rotation {d}" for d in (2, 4, 8, 16))]
    assert truth["suitable"].iloc[0]
    assert not truth["suitable"].iloc[-1]
    assert deployed.least == pytest.approx(deployed.test[1].mean() - 0.03)
    # 24 months of a fifth of a sixth of all rows.
    assert deployed.run_length == pytest.approx(24 * truth["rows"].sum() / 30)
    months = deployed.months(np.random.default_rng(1))
    assert len(months) == 30
    for i, row in truth.iterrows():
        part = months[6 * i : 6 * i + 6]
        assert sum(len(right) for *_, right in part) == row["rows"]
        assert np.concatenate([right for *_, right in part]).mean() == row["accuracy"]
        assert np.concatenate([f for _, f, _ in part]).mean() == pytest.approx(row["estimated"])


def test_fewer_labels_may_be_asked_for_after_an_alarm_too(deployed, monkeypatch):
    months = deployed.months(np.random.default_rng(2))
    monkeypatch.setattr(deployed, "plan", replace(PLAN, rate=1.0, deciding_rate=0.2))
    table, waiting = deployed.watch(months, np.random.default_rng(3))
    assert set(table["state"]) > {"watching"}
    assert min(p.min() for *_, p in waiting) >= 0.1


@pytest.mark.parametrize("lag", [0, 4])
def test_labels_come_late_and_more_are_asked_for_after_an_alarm(deployed, lag, monkeypatch):
    months = deployed.months(np.random.default_rng(2))
    monkeypatch.setattr(deployed, "plan", replace(PLAN, lag=lag))
    table, waiting = deployed.watch(months, np.random.default_rng(3))
    assert table["month"].tolist() == [*range(lag + 1, 31)]
    # Again, month by month, as a user would.
    rng, rate = np.random.default_rng(3), 0.3
    monitor = ActiveMonitor(deployed.least, least_probability=0.15, run_length=deployed.run_length)
    kept, rates = [], []
    for now, (_, f, right) in enumerate(months):
        p = labelling_probabilities(f, rate, deployed.estimated, floor=0.5)
        chosen = rng.random(len(f)) < p
        kept.append((f, chosen, right[chosen], p))
        rates.append(rate)
        if now >= lag:
            monitor.update(*kept[now - lag])
        rate = 0.4 if monitor.state == "deciding" else 0.3
    pd.testing.assert_frame_equal(monitor.table(), table.drop(columns="month"))
    assert [c.sum() for _, c, *_ in kept] == [c.sum() for _, c, *_ in waiting]
    alarm = int(table["month"][table["alarm"]].iloc[0])
    assert rates[:alarm] == [0.3] * alarm
    assert rates[alarm] == 0.4


def test_peers_are_what_they_say(deployed):
    months = deployed.months(np.random.default_rng(4))
    found = deployed.alarms(months, np.random.default_rng(5))
    assert list(found) == list(studies.METHODS)
    x, right = deployed.test
    confidence = list(signals(np.eye(3))).index("conf_max")
    knots = _calibrator(x[:, confidence], right)
    cbpe = np.array([_calibrate(knots, m[0][:, confidence]).mean() for m in months])
    assert (found["cbpe"][0] == (cbpe < deployed.least)).all()
    assert (found["cbpe_alert"][0] == (cbpe < _alert_threshold(right))).all()
    ks = [
        min(stats.ks_2samp(a, b, method="asymp").pvalue for a, b in zip(x.T, m[0].T, strict=True))
        for m in months
    ]
    assert found["ks"][0].tolist() == [min(1, 12 * p) < 0.05 for p in ks]
    for name, (raised, ordered, end) in found.items():
        assert raised.shape == ordered.shape == (30,)
        labelled = name in ("active", "uniform", "labels", "fet", "fet_online")
        assert (ordered[-1] > 0) == labelled
        assert (np.diff(ordered) >= 0).all()
        assert not labelled or not raised[: PLAN.lag].any()
        assert end == np.inf or (name in ("active", "uniform") and raised[: int(end)].any())


@pytest.mark.parametrize("decimals", [1, 12])
def test_the_two_tests_are_scipys(decimals):
    rng = np.random.default_rng(6)
    for n, m in ((500, 30), (40, 60)):
        a, b = (rng.normal(size=(k, 3)).round(decimals) for k in (n, m))
        p = min(stats.ks_2samp(u, v, method="asymp").pvalue for u, v in zip(a.T, b.T, strict=True))
        assert studies.smirnov(np.sort(a.T, axis=1), b) == pytest.approx(min(1, 3 * p), rel=1e-9)
        right, few = rng.random(n) < 0.8, rng.random(m) < 0.6
        table = [[few.sum(), m - few.sum()], [right.sum(), n - right.sum()]]
        expected = stats.fisher_exact(table, alternative="less").pvalue
        assert studies.fisher(right, few) == pytest.approx(expected, rel=1e-9)
    assert studies.fisher(right, np.zeros(0, bool)) == 1.0


def test_detectors_for_streams(deployed):
    """Labels as they come, late; estimates at once; both started anew after an alarm."""
    assert deployed.windows == tuple(round(m * deployed.ert / 24) for m in (1, 6))
    months = deployed.months(np.random.default_rng(4))
    found = deployed.alarms(months, np.random.default_rng(5))
    raised = {name: found[name][0] for name in ("fet_online", "cvm_online")}
    assert not raised["fet_online"][: PLAN.lag + 1].any()
    # Rotations by 16 degrees are seen again and again.
    assert all(one[-6:].sum() >= 2 for one in raised.values())
    again = deployed.alarms(months, np.random.default_rng(5))
    assert all((again[name][0] == one).all() for name, one in raised.items())
    detector, table = deployed.online["cvm_online"]
    assert len(table) == 2 * detector.windows[1] - 1
    # Of ten streams a label, as many are left after two windows as have no alarm by then.
    left = 10 * (1 - 1 / deployed.ert) ** (2 * detector.windows[1])
    assert deployed.threshold_error == pytest.approx(left**-0.5, rel=0.02)
    deployed_long = studies.Deployment(
        load_study("digits"), replace(PLAN, false_every=6_000_000), np.random.default_rng(0)
    )
    assert deployed_long.every > 1  # so that thresholds can be simulated
    seen = deployed_long.ert / deployed_long.every
    steps = 2 * studies.SIMULATED * seen * deployed_long.windows[1]
    assert steps == pytest.approx(1.5e8, rel=0.5)
    deployed_long._sorted = np.array([0.2, 0.5, 0.7])
    assert deployed_long.ranks([0.1, 0.5, 0.6, 0.9]).tolist() == [0, 2, 2, 3]


def test_suitable_streams_and_their_alarms(deployed):
    found = studies.harmless(deployed, 100, np.random.default_rng(11))
    assert found.index.tolist() == ["labels", "fet_online", "cvm_online"]
    assert np.isnan(found.loc["cvm_online", "least accuracy"])
    # 30 months with a mean of 24 between alarms: no more than all streams, by Doob's bound, and a
    # geometric time's probability for those of alibi-detect. Twice the error of a hundred streams,
    # 0.045, and of thresholds that rest on about nine of the simulated streams, 0.12.
    expected = 1 - np.exp(-30 / 24)
    for name in ("fet_online", "cvm_online"):
        assert found.loc[name, "no change"] == pytest.approx(expected, abs=0.25)
    assert found.loc["labels", "no change"] < 0.3
    assert found.loc["fet_online", "least accuracy"] > found.loc["labels", "least accuracy"]


def test_false_alarms_delays_and_labels_are_counted(deployed, monkeypatch):
    raised = np.zeros(30, bool)
    raised[[1, 4, 9, 20]] = True  # suitable are the first 6 months
    made = {
        "active": (raised, np.arange(30) * 10, 22.0),
        "uniform": (raised & False, np.arange(30), np.inf),
        "labels": (raised, np.arange(30), 4.0),
    }
    good = deployed.truth()["suitable"].to_numpy()
    assert good.tolist() == [True] + [False] * 4
    monkeypatch.setattr(studies.Deployment, "alarms", lambda *_: made)
    table = studies.compare(deployed, 2, np.random.default_rng(7)).set_index(["stream", "method"])
    active, quiet, labels = (table.loc[1, name] for name in made)
    assert active.tolist() == [2, 4, 90, 16, False]
    assert quiet.tolist() == [0, np.inf, 29, np.inf, False]
    assert labels.tolist() == [2, 4, 9, -2, True]
    found = studies.summary(table.reset_index())
    assert found.loc["active"].tolist() == [2, 1, 1, 0, 4, 90, 16]
    assert found.loc["uniform"].tolist() == [0, 0, 0, 0, np.inf, 29, np.inf]


def test_a_stream_without_a_change_has_none_to_catch(deployed, monkeypatch):
    monkeypatch.setattr(deployed, "least", 0.01)
    table = studies.compare(deployed, 1, np.random.default_rng(8))
    assert np.isinf(table["delay"]).all()
    assert not table.loc[table["method"] == "active", "wrong"].any()


def test_what_labels_are_worth(deployed):
    values = studies.label_values(deployed).set_index("period")
    _, _, f, y = deployed.periods[-1]
    row = values.loc["rotation 16"]
    assert row["labels alone"] == pytest.approx(y.mean() * (1 - y.mean()))
    assert row["random"] == pytest.approx(np.mean((y - f) ** 2))
    # On the data that strata are measured on, they help.
    assert values["strata"].iloc[0] < values["random"].iloc[0]
    gains = studies.gain_by_accuracy([0.6, 0.95], 0.5, np.random.default_rng(9))
    assert (gains["chosen"] < 1).all()
    assert gains["chosen"].is_monotonic_decreasing
    # The variance of a Beta(a, 1 - a) variable is a (1 - a) / 2, and so is what remains.
    assert gains["labels alone"].tolist() == pytest.approx([2, 2], rel=0.05)


def test_the_figure_has_what_the_tables_have(deployed):
    figure, by_period = studies.plot_watch(deployed, np.random.default_rng(10))
    top, bottom = figure.axes
    assert len(by_period) == 5
    assert ((by_period["low"] <= by_period["accuracy"]) & (by_period["high"] <= 1)).all()
    rng = np.random.default_rng(10)
    months, seed = deployed.months(rng), rng.integers(2**32)
    found = deployed.alarms(months, np.random.default_rng(seed))
    assert top.lines[0].get_ydata().tolist() == [100 * right.mean() for *_, right in months]
    for line, (raised, *_) in zip(bottom.lines, reversed(found.values()), strict=True):
        assert line.get_xdata().tolist() == (np.flatnonzero(raised) + 1).tolist()
    crossed = [line.get_xdata()[0] for line in top.lines if line.get_label() == "alarm"]
    assert crossed == (np.flatnonzero(found["active"][0]) + 1).tolist()
    plt.close(figure)

"""A model in use: months, late labels, peers by SciPy's tests, and what is counted."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
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

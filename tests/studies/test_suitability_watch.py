"""A model in use: months, late labels, peers by SciPy's tests, and what is counted."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib.studies.beyond import watch as studies
from lib.studies.suitability.study_runs import load_study
from lib.suitability import ActiveMonitor, labelling_probabilities

PLAN = studies.Plan(false_every=24, rate=0.3, months=6, lag=2)


@pytest.fixture(scope="module")
def deployed():
    return studies.Deployment(load_study("digits"), PLAN, np.random.default_rng(0))


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


@pytest.mark.parametrize(
    ("good", "raised", "median", "words"),
    [
        ("110000", "000100", 16, "in the median the alarm|comes 16 months after the drop, {H} 2"),
        ("110000", "000000", 1, "the alarm|comes 1 month after the drop, {H} never"),
        ("110000", "100100", 16, "comes 16 months after the drop, here also before"),
        ("101000", "010100", 2.5, "comes 2.5 months after the drop, {H} 1"),
        ("110000", "000100", np.inf, "in most streams|no alarm comes, {H} 2"),
        ("111111", "010100", np.nan, "The model stays suitable.|In this draw 2 false alarms"),
    ],
)
def test_an_alarm_is_told_of_many_streams_and_of_one(good, raised, median, words):
    flags = [np.array(list(text)) == "1" for text in (good, raised)]
    said = studies.drop_in_words(*flags, median)
    assert said.endswith(words.replace("|", "\n").format(H="in this draw"))

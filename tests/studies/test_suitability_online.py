"""Detectors for streams: statistics by SciPy's tests, run times by simulation."""

import numpy as np
import pytest
from scipy import stats

from lib.studies.beyond import online

WINDOWS = (8, 25)


def test_statistics_are_scipys():
    rng = np.random.default_rng(0)
    right, few = rng.random(200) < 0.8, rng.random(40) < 0.6
    detector = online.FisherOnline(200, int(right.sum()), WINDOWS)
    (found,) = detector.statistics(few[None])
    smooth = {w: [] for w in WINDOWS}
    for w, values in smooth.items():
        for last in np.lib.stride_tricks.sliding_window_view(few, w):
            table = [[last.sum(), w - last.sum()], [right.sum(), 200 - right.sum()]]
            value = 1 - stats.fisher_exact(table, alternative="less").pvalue
            values.append(0.01 * values[-1] + 0.99 * value if values else value)
    expected = np.full((2, 40), -np.inf)
    for row, (w, values) in zip(expected, smooth.items(), strict=True):
        row[w - 1 :] = values
    assert found == pytest.approx(expected.max(axis=0), rel=1e-6)

    test, user = rng.normal(size=90), rng.normal(0.7, size=60)
    ranks = np.searchsorted(np.sort(test), user, "right")
    (found,) = online.CramerOnline(90, WINDOWS).statistics(ranks[None])
    expected = np.full((2, 60), -np.inf)
    for row, w in zip(expected, WINDOWS, strict=True):
        t = [
            stats.cramervonmises_2samp(test, last, "asymptotic").statistic
            for last in np.lib.stride_tricks.sliding_window_view(user, w)
        ]
        n = 90 + w
        variance = (n + 1) * (4 * 90 * w * n - 3 * (90**2 + w**2) - 2 * 90 * w)
        row[w - 1 :] = (np.array(t) - (1 + 1 / n) / 6) / np.sqrt(variance / (180 * n**2 * 90 * w))
    assert found == pytest.approx(expected.max(axis=0), rel=1e-5)


def test_the_urn_gives_ranks():
    """Against ranks of normal samples, by the statistic's distribution."""
    rng, detector = np.random.default_rng(1), online.CramerOnline(20, (10, 40))
    shape = (4000, 40)
    urn = detector.simulate(shape, rng)
    assert urn.min() >= 0
    assert urn.max() <= 20
    x = np.sort(rng.normal(size=(4000, 20)))
    ranks = np.array([np.searchsorted(a, rng.normal(size=40), "right") for a in x])
    for t in (9, 39):
        both = (detector.statistics(one)[:, t] for one in (urn, ranks))
        assert stats.ks_2samp(*both).pvalue > 0.01


@pytest.mark.parametrize(
    "detector", [online.FisherOnline(400, 320, WINDOWS), online.CramerOnline(400, WINDOWS)]
)
def test_run_times_without_a_change(detector):
    """Mean of geometric times; thresholds from 50 alarms at each time are a seventh off at most."""
    rng, ert = np.random.default_rng(2), 200
    table = online.thresholds(detector, ert, 50 * ert, rng)
    assert np.isinf(table["limit"][: WINDOWS[0] - 1]).all()
    assert np.isfinite(table["limit"][WINDOWS[0] - 1 :]).all()
    assert table["passed"].between(0, 1).all()
    streams = detector.simulate((1500, 2000), rng)
    first = [(online.alarms(detector, table, x, rng) or [2000])[0] for x in streams]
    times = np.minimum(np.array(first), 2000) - WINDOWS[0] + 2
    assert times.mean() == pytest.approx(ert, rel=0.2)
    # While thresholds change, the fraction that has had none is that of a geometric time.
    within = (times <= 40).mean()
    assert within == pytest.approx(1 - (1 - 1 / ert) ** 40, abs=4 * np.sqrt(0.18 * 0.82 / 1500))


@pytest.mark.parametrize(
    "detector", [online.FisherOnline(400, 320, WINDOWS), online.CramerOnline(400, WINDOWS)]
)
def test_rates_err_less_than_the_count_that_the_last_threshold_rests_on(detector):
    """The page says `threshold_error`, an upper bound: statistics of one stream resemble others."""
    rng, ert, n = np.random.default_rng(4), 200, 60
    found = detector.statistics(detector.simulate((2000, 400), rng))
    at, chance, rates = np.minimum(np.arange(400), 2 * WINDOWS[1] - 2), rng.random(400), []
    for _ in range(n):
        limit, passed = online.thresholds(detector, ert, 10 * ert, rng).to_numpy().T
        over = (found > limit[at]) | ((found == np.float32(limit[at])) & (chance > passed[at]))
        first = np.where(over.any(axis=1), over.argmax(axis=1), 400)
        late = first[first >= 2 * WINDOWS[1]] - 2 * WINDOWS[1]
        rates.append((late < 350).sum() / np.minimum(late + 1, 350).sum())
    most = (10 * np.exp(-2 * WINDOWS[1] / ert)) ** -0.5
    assert most / 4 < np.std(rates, ddof=1) / np.mean(rates) < most
    assert np.mean(rates) == pytest.approx(1 / ert, rel=0.15)

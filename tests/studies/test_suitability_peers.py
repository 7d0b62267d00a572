import functools
import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedShuffleSplit

from lib.studies.suitability.peers import PEERS, RULES, evaluate_peers_pairs, peer_table
from lib.suitability import SIGNAL_NAMES

NAMES = [name for name in PEERS if name != "filter"]
CONFIDENCE, ENTROPY = (SIGNAL_NAMES.index(name) for name in ("conf_max", "conf_entropy"))


def make(n, rng, shift=0.0, decimals=12, power=2.0):
    """Confidence u, which is right with probability u**power, and an entropy that follows it."""
    u = np.round(rng.beta(3 + shift, 2, n), decimals)
    entropy = np.round(1 - u + 0.1 * rng.random(n), decimals)
    return signals_of(u, entropy), rng.random(n) < u**power


def signals_of(confidence, entropy=0.0):
    x = np.zeros((len(confidence), len(SIGNAL_NAMES)))
    x[:, CONFIDENCE], x[:, ENTROPY] = confidence, entropy
    return x


def halves(n, k):
    return tuple(np.arange(n).reshape(k, -1))


def nannyml_calibrator(p, y):
    """nannyml's needs_calibration and IsotonicCalibrator, on scikit-learn."""
    if len(np.unique(y)) == 1 or roc_auc_score(y, p) > 0.999:
        return lambda q: q
    truth, before, after = [], [], []
    splitter = StratifiedShuffleSplit(n_splits=10, test_size=0.1, random_state=42)
    for train, test in splitter.split(p, y):
        model = IsotonicRegression(out_of_bounds="clip").fit(p[train], y[train])
        truth.append(y[test])
        before.append(p[test])
        after.append(model.predict(p[test]))

    def error(parts):
        estimate, labels = np.concatenate(parts), np.concatenate(truth)
        order = np.argsort(estimate, kind="stable")
        bins = zip(
            np.split(estimate[order], 10), np.split(labels[order], 10), strict=True
        )  # the length is a multiple of ten
        return np.mean([abs(a.mean() - b.mean()) for a, b in bins])

    if error(before) > error(after):
        return IsotonicRegression(out_of_bounds="clip").fit(p, y).predict
    return lambda q: q


def atc_threshold(scores, y):
    """Candidate with the share of scores below nearest to the error rate, the larger of two."""
    candidates = np.append(np.unique(scores), np.inf)
    gaps = [abs(int((scores < t).sum()) - int((~y).sum())) for t in candidates]
    return max(t for t, gap in zip(candidates, gaps, strict=True) if gap == min(gaps))


def contributions(peer, x, y):
    """The function that gives each sample's contribution to the estimate, fitted to a fold."""
    p = x[:, CONFIDENCE]
    if peer == "ac":
        return lambda z: z[:, CONFIDENCE]
    if peer == "doc":
        return lambda z: y.mean() - (p.mean() - z[:, CONFIDENCE])
    if peer == "cbpe":
        calibrate = nannyml_calibrator(p, y)
        return lambda z: calibrate(z[:, CONFIDENCE])
    sign, column = {"atc_confidence": (1, CONFIDENCE), "atc_entropy": (-1, ENTROPY)}[peer]
    threshold = atc_threshold(sign * x[:, column], y)
    return lambda z: (sign * z[:, column] >= threshold).astype(float)


def alert_threshold(y):
    size = len(y) // 10
    chunks = [y[i : i + size].mean() for i in range(0, len(y), size)]
    return np.mean(chunks) - 3 * np.std(chunks)


@pytest.mark.parametrize(
    ("size", "decimals", "margin"), [(60, 12, 0.0), (60, 1, 0.05), (47, 2, -0.1), (11, 12, 0.0)]
)
def test_pairs_equal_fitting_each_pair_separately(size, decimals, margin):
    rng = np.random.default_rng(size + decimals)
    x, y = make(4 * size + 3, rng, decimals=decimals)
    xu, yu = make(83, rng, -0.5, decimals)
    partition = np.split(rng.permutation(len(x))[: 4 * size], 4)
    rows = evaluate_peers_pairs(x, y, partition, xu, yu, margin)
    assert [*zip(rows["peer"], rows["sf_fold"], rows["test_fold"], strict=True)] == [
        (peer, i, j) for peer in NAMES for i, j in itertools.permutations(range(4), 2)
    ]
    fitted = functools.cache(lambda peer, i: contributions(peer, x[partition[i]], y[partition[i]]))
    for row in rows.itertuples():
        fit, test = partition[row.sf_fold], partition[row.test_fold]
        contribution = fitted(row.peer, row.sf_fold)
        on_test, on_user = contribution(x[test]), contribution(xu)
        assert row.estimated_test_accuracy == pytest.approx(on_test.mean(), abs=1e-12)
        assert row.estimated_user_accuracy == pytest.approx(on_user.mean(), abs=1e-12)
        if on_test.std() > 0 or on_user.std() > 0:
            less = {"equal_var": False, "alternative": "less"}
            expected = stats.ttest_ind(on_test, on_user + margin, **less).pvalue
            assert row.p_value == pytest.approx(expected, abs=1e-9)
        assert row.test_accuracy == pytest.approx(y[test].mean())
        assert row.user_accuracy == pytest.approx(yu.mean())
        assert row.score_estimated == pytest.approx(on_user.mean() - on_test.mean() + margin)
        assert row.score_known == pytest.approx(on_user.mean() - y[test].mean() + margin)
        assert row.truth == (yu.mean() >= y[test].mean() - margin)
        if row.peer == "cbpe":
            assert row.alert_threshold == pytest.approx(alert_threshold(y[fit]), abs=1e-12)
            assert row.alert == (on_user.mean() < alert_threshold(y[fit]))
        else:
            assert np.isnan([row.alert, row.alert_threshold]).all()


def test_nannyml_check_decides_both_ways_as_scikit_learn_has_it():
    """Where confidence is right as it is, calibration helps in some samples and not in others."""
    rng = np.random.default_rng(5)
    x, y = make(30 * 120, rng, power=1.0)
    xu, yu = make(200, rng)
    partition = halves(3600, 30)
    rows = (
        evaluate_peers_pairs(x, y, partition, xu, yu)
        .query("peer == 'cbpe'")
        .groupby("sf_fold")
        .first()
    )
    unchanged = 0
    for i, fold in enumerate(partition):
        calibrate = nannyml_calibrator(x[fold, CONFIDENCE], y[fold])
        expected = calibrate(xu[:, CONFIDENCE])
        unchanged += np.array_equal(expected, xu[:, CONFIDENCE])
        assert rows["estimated_user_accuracy"][i] == pytest.approx(expected.mean(), abs=1e-12)
    assert 0 < unchanged < 30


@pytest.mark.parametrize("value", [False, True])
def test_all_right_or_all_wrong(value):
    rng = np.random.default_rng(0)
    x, _ = make(90, rng)
    xu, yu = make(40, rng)
    rows = evaluate_peers_pairs(x, np.full(90, value), halves(90, 3), xu, yu).set_index("peer")
    # The lowest score seen counts as right, none if all are wrong.
    least = x[:30, CONFIDENCE].min() if value else np.inf
    atc = rows.loc["atc_confidence"].query("sf_fold == 0")["estimated_user_accuracy"]
    assert atc.to_list() == [np.mean(xu[:, CONFIDENCE] >= least)] * 2
    # One kind of prediction: not calibrated, and no chunk differs from another.
    cbpe = rows.loc["cbpe"]
    assert cbpe["estimated_user_accuracy"].to_numpy() == pytest.approx(xu[:, CONFIDENCE].mean())
    assert (cbpe[["alert_threshold", "alert"]] == value).to_numpy().all()
    assert rows["p_value"].between(0, 1).all()


def test_constant_confidence_tells_nothing():
    rng = np.random.default_rng(0)
    (x, y), (xu, yu) = make(120, rng), make(50, rng)
    x[:, [ENTROPY, CONFIDENCE]] = xu[:, [ENTROPY, CONFIDENCE]] = 0.7
    partition = halves(120, 3)
    rows = evaluate_peers_pairs(x, y, partition, xu, yu)
    assert (rows["p_value"] == 0.5).all()
    assert rows["score_estimated"].abs().max() < 1e-12
    accuracy = np.array([y[fold].mean() for fold in partition])
    by_peer = rows.groupby(["peer", "sf_fold"])["estimated_user_accuracy"].first()
    assert by_peer["ac"].to_list() == pytest.approx([0.7] * 3)
    for peer in ("doc", "cbpe"):
        assert by_peer[peer].to_list() == pytest.approx(accuracy)
    assert by_peer["atc_confidence"].to_list() == (accuracy > 0.5).tolist()


def test_each_rule_decides_by_its_own_score():
    """Right decisions and ROC AUC, by scikit-learn's of what each rule says of every case."""
    rng = np.random.default_rng(7)
    (x, y), (xu, yu) = make(240, rng), make(140, rng, -0.3)
    rows = [
        evaluate_peers_pairs(x, y, halves(240, 4), xu, yu, margin) for margin in (0.0, 0.1, 0.2)
    ]
    results = pd.concat(rows, ignore_index=True)
    table = peer_table(results, [], 0.2).set_index(["peer", "rule"])
    assert len(table) == 5 * 3 + 1
    assert set(table.index.get_level_values("rule")) == set(RULES)
    for (peer, rule), row in table.iterrows():
        group = results[results["peer"] == peer]
        truth, known = group["truth"].to_numpy(), group["score_known"].round(12)
        score, suitable = {
            "test": (-group["p_value"], group["p_value"] <= 0.2),
            "estimated": (group["score_estimated"].round(12), group["score_estimated"] >= -1e-12),
            "known": (known, known >= 0),
            "alert": (
                (group["estimated_user_accuracy"] - group["alert_threshold"]).round(12),
                group["alert"] == 0,
            ),
        }[rule]
        assert 0 < truth.mean() < 1
        assert row["accuracy"] == (suitable.to_numpy() == truth).mean()
        assert row["fpr"] == suitable.to_numpy()[~truth].mean()
        assert row["roc_auc"] == pytest.approx(roc_auc_score(truth, score), abs=1e-12)


def test_table_decides_equal_estimates_as_suitable_in_spite_of_rounding():
    """User 0.7 against test 0.8 - 0.1, as in the truth."""
    x, user = signals_of(np.full(40, 0.8)), signals_of(np.full(10, 0.7))
    y = np.tile([True] * 4 + [False], 8)
    rows = evaluate_peers_pairs(x, y, halves(40, 2), user, np.arange(10) < 7, 0.1)
    assert rows["truth"].all()
    ac = rows[rows["peer"] == "ac"]
    assert ac["score_estimated"].abs().max() < 1e-12
    table = peer_table(ac)
    assert table.set_index("rule").loc[["estimated", "known"], "accuracy"].to_list() == [1, 1]

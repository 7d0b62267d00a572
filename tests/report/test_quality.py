"""Accuracy beside a constant, calibration, clusters: as other software has it, and its level."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats
from sklearn import metrics
from sklearn.calibration import calibration_curve

from lib.report import (
    ModelPredictions,
    Settings,
    example_predictions,
    explain,
    quality,
    read_predictions,
    report,
    run_analysis,
)
from lib.report.confidence import BINS, FINER, by_confidence, judged
from lib.report.findings import Goodness, Measured, Outcome
from lib.report.rivals import exact_p
from lib.report.types import mean_of, share

SETTINGS = Settings(learner="linear")


def made(n=400, k=3, seed=0, size=1.5, **more):
    rng = np.random.default_rng(seed)
    labels = rng.choice(k, n, p=np.arange(1, k + 1) / (k * (k + 1) / 2))
    logits = size * np.eye(k)[labels] + rng.normal(size=(n, k))
    return ModelPredictions(test_logits=logits, test_labels=labels, **more)


def items(found):
    return found.tables["quality"].set_index("item")["value"]


@pytest.mark.parametrize("k", [2, 3, 25])
def test_numbers_are_scikit_learns(k):
    given = made(k=k)
    found = run_analysis("quality", given, SETTINGS)
    rows, y = items(found), given.test_labels
    p, said = special.softmax(given.test_logits, axis=1), given.test_logits.argmax(axis=1)
    assert rows["accuracy"] == metrics.accuracy_score(y, said)
    assert rows["log loss (NLL, nats)"] == pytest.approx(metrics.log_loss(y, p, labels=range(k)))
    brier = metrics.brier_score_loss(y, p, labels=range(k), scale_by_half=False)
    assert rows["Brier score (sum over classes)"] == pytest.approx(brier)
    base = np.tile(np.bincount(y, minlength=k) / len(y), (len(y), 1))
    constant = metrics.log_loss(y, base, labels=range(k))
    assert rows["log loss of the classes' fractions (nats)"] == pytest.approx(constant)
    constant = metrics.brier_score_loss(y, base, labels=range(k), scale_by_half=False)
    assert rows["Brier score of the classes' fractions"] == pytest.approx(constant)
    if k == 2:
        auc = rows["area under the ROC curve, class 1"]
        assert auc == pytest.approx(metrics.roc_auc_score(y, p[:, 1]))
    by_class = found.tables["quality_classes"].set_index("class")
    recall = metrics.recall_score(y, said, average=None)
    np.testing.assert_allclose(by_class.loc[[str(j) for j in np.unique(y)], "recall"], recall)
    f1 = metrics.f1_score(y, said, average=None)
    np.testing.assert_allclose(by_class.loc[[str(j) for j in np.unique(y)], "F1"], f1)
    assert ("quality_ranking" in found.drawings) == (k == 2)
    table = found.tables["quality_confusion"].set_index("true class")
    assert len(table) == min(k, 20)
    kept = [int(name) for name in table.index]
    expected = metrics.confusion_matrix(y, said, labels=range(k))[np.ix_(kept, kept)]
    np.testing.assert_array_equal(table[[f"says {j}" for j in kept]], expected)
    if k > 20:
        others = [j for j in range(k) if j not in kept]
        full = metrics.confusion_matrix(y, said, labels=range(k))
        np.testing.assert_array_equal(table["says another"], full[np.ix_(kept, others)].sum(axis=1))


def test_no_better_than_a_constant_is_said_and_nothing_promised():
    good = made(size=4.0)
    labels = (good.test_labels + 1) % 3  # as labels counted from 1 are
    bad = ModelPredictions(test_logits=good.test_logits, test_labels=labels)
    for given, promised in ((good, True), (bad, False)):
        found = [run_analysis(n, given, Settings(target=0.9)) for n in ("quality", "selective")]
        assert any("counted from the same number" in t for t in found[0].warnings) != promised
        assert ("Nothing is promised" in found[1].verdict) != promised
        assert (found[1].values["guaranteed_coverage"] > 0) == promised


@pytest.mark.parametrize(("k", "n"), [(2, 60), (10, 200), (100, 200)])
def test_a_guess_is_not_called_worse_than_a_class_that_its_rows_chose(k, n):
    # All classes equally common, answers by chance: as good as any constant. By the interval of the
    # observed commonest class alone it was called worse in .15 of the cells (10, 200), (100, 200).
    rng, runs, said = np.random.default_rng(k + n), 300, 0
    for _ in range(runs):
        labels, answers = rng.integers(k, size=(2, n))
        given = SimpleNamespace(labels=labels, correct=labels == answers, clusters=None, called=str)
        good = Goodness(Outcome.ACCURACY_ONLY, n, Measured(0.0, 0.0, 1.0))
        (found,), _ = quality.beside_constant(good, given, False, False, SETTINGS)
        said += found.outcome is Outcome.WORSE
    assert stats.binom.sf(said - 1, runs, SETTINGS.alpha / 2) > 1e-3
    # What is worse beyond chance is still told.
    worse = SimpleNamespace(
        labels=np.arange(n) % 2, correct=np.arange(n) % 10 == 0, clusters=None, called=str
    )
    (found,), _ = quality.beside_constant(good, worse, False, False, SETTINGS)
    assert found.outcome is Outcome.WORSE


def test_one_class_and_certain_errors_are_named():
    n = 300
    labels = np.arange(n) % 3
    one = ModelPredictions(test_logits=np.tile([3.0, 0.0, 0.0], (n, 1)), test_labels=labels)
    said = run_analysis("quality", one, SETTINGS).warnings
    assert "all predictions are the same, class 0" in said
    sure = np.where(np.arange(n) % 10 == 0, (labels + 1) % 3, labels)
    given = ModelPredictions(test_logits=50.0 * np.eye(3)[sure], test_labels=labels)
    *_, said = run_analysis("quality", given, SETTINGS).warnings
    assert said.startswith("certain and wrong: of 300 answers")
    assert said.endswith("30 are wrong")
    assert run_analysis("quality", made(), SETTINGS).warnings == ()


def test_probabilities_worse_than_fractions_are_named():
    """Right more often than a constant, and so sure where it is wrong that fractions cost less."""
    given = made(k=2)
    for times, named in ((1.0, False), (30.0, True)):
        louder = ModelPredictions(
            test_logits=times * given.test_logits, test_labels=given.test_labels
        )
        found = run_analysis("quality", louder, SETTINGS)
        notes = [text for text in found.warnings if text.startswith("on these rows the prob")]
        assert bool(notes) == named
        if named:
            rows = items(found)
            assert f"log loss {rows['log loss (NLL, nats)']:.3f} against" in notes[0]
            assert "Brier" not in notes[0]


def test_groups_that_are_worse_than_their_constant_are_named():
    given = made()
    group = np.where(given.test_labels == 2, "one class", "others")
    right = ModelPredictions(**given.given | {"test_groups": group})
    (said,) = run_analysis("quality", right, SETTINGS).warnings
    assert said.startswith("in 1 of 2 groups")
    assert "one class" in said


def test_groups_of_few_rows_are_not_named_by_chance():
    """Four rows a group and eight in ten right: many a group's commonest class is right oftener."""
    rng = np.random.default_rng(3)
    labels, group = rng.integers(0, 2, 400), np.arange(400) // 4
    said = np.where(rng.random(400) < 0.8, labels, 1 - labels)
    most = [max(np.mean(labels[group == g]), 1 - np.mean(labels[group == g])) for g in range(100)]
    right = [np.mean((said == labels)[group == g]) for g in range(100)]
    assert np.sum(np.less(right, most)) > 10
    given = ModelPredictions(
        test_predicted=said, test_labels=labels, test_groups=[f"g{g}" for g in group]
    )
    assert run_analysis("quality", given, SETTINGS).warnings == ()


def test_certain_errors_of_one_cluster_are_one_error():
    labels, cluster = np.arange(1000) % 2, np.arange(1000) // 50
    said = np.where(cluster == 7, 1 - labels, labels)
    logits = {"test_logits": 20.0 * np.eye(2)[said], "test_labels": labels}
    for more, named in (({}, True), ({"test_clusters": cluster}, False)):
        warnings = run_analysis("quality", ModelPredictions(**logits, **more), SETTINGS).warnings
        assert any(text.startswith("certain and wrong") for text in warnings) == named


def test_without_confidence_accuracy_is_told_and_abstention_is_not():
    given = ModelPredictions(test_predicted=[0, 1, 1, 0] * 20, test_labels=[0, 1, 0, 0] * 20)
    table = explain(given).set_index("analysis")
    assert table.loc["quality", "possible"]
    assert "no confidence" in table.loc["selective", "reason"]
    assert items(run_analysis("quality", given, SETTINGS))["accuracy"] == 0.75
    alone = ModelPredictions(test_correct=[True, False] * 20, test_confidence=np.arange(40.0))
    found = report(alone.given)
    assert list(found.analyses) == ["quality", "selective"]
    assert list(found.tables["selective_scores"]["score"]) == ["confidence"]


# --- clusters -------------------------------------------------------------------------------------


def test_intervals_of_clusters_keep_their_level():
    """Ten alike rows each: as independent rows the interval would hold in far fewer draws."""
    rng, truth, level, draws = np.random.default_rng(5), 0.7, 0.9, 400
    held, plain = 0, 0
    names = np.repeat(np.arange(60), 10)
    for _ in range(draws):
        chance = rng.beta(7, 3, size=60)
        right = rng.random(600) < np.repeat(chance > rng.random(60), 10)
        _, low, high = share(right, level, names)
        held += low <= truth <= high
        _, low, high = share(right, level)
        plain += low <= truth <= high
    assert held >= stats.binom.ppf(1e-4, draws, level)
    assert plain < stats.binom.ppf(1e-6, draws, level)


@pytest.mark.parametrize(("clusters", "few"), [(20, True), (50, False)])
def test_few_clusters_are_doubted(clusters, few):
    labels, cluster = np.arange(1000) % 2, np.arange(1000) % clusters
    doubts = quality.doubts_of_clusters(len(np.unique(cluster)), len(labels))
    assert doubts[0] == f"intervals count {clusters} clusters, not 1,000 rows"
    assert any("clusters are few" in doubt for doubt in doubts) == few


def test_size_that_tells_the_accuracy_keeps_the_level_of_intervals_of_clusters():
    """Of 20 clusters of 2 to 400 rows, the larger the less often right: bounds, not Student's."""
    rng, errors, runs = np.random.default_rng(0), np.zeros(2, int), 400

    def drawn(count):
        size = np.minimum(np.ceil(5 * rng.pareto(1.5, count) + 2), 400).astype(int)
        return size, np.clip(0.95 - 0.06 * np.log2(size / 5), 0.3, 0.95)

    size, accuracy = drawn(10**6)
    true = (size * accuracy).sum() / size.sum()
    for _ in range(runs):
        size, accuracy = drawn(20)
        own = np.repeat(np.arange(20), size)
        right = rng.random(len(own)) < rng.beta(4 * accuracy, 4 * (1 - accuracy))[own]
        _, low, high = share(right, 0.95, own)
        errors += [low > true, high < true]
    assert errors.max() <= stats.binom.isf(1e-4, runs, 0.025)


def test_clusters_of_one_row_are_rows():
    values = np.random.default_rng(1).random(50)
    alone = mean_of(values, (0.0, 1.0), 0.9, np.arange(50))
    assert mean_of(values, (0.0, 1.0), 0.9) == pytest.approx(alone)
    assert mean_of(values, (0.0, 1.0), 0.9, np.zeros(50)) == (values.mean(), 0.0, 1.0)


def test_clusters_widen_or_refuse():
    rng = np.random.default_rng(2)
    base = made(n=40)
    many = {k: np.repeat(v, 10, axis=0) for k, v in base.given.items()}
    names = np.repeat(np.arange(40), 10)
    given = ModelPredictions(**many, test_clusters=names, test_abstained=rng.random(400) < 0.3,
                             test_features=rng.normal(size=(400, 2)))  # fmt: skip
    found = report(given.given, learner="linear")
    alone = run_analysis("quality", base, SETTINGS)
    tables = [f.tables["quality"].set_index("item") for f in (found.analyses["quality"], alone)]
    width = [t.loc["accuracy", "high"] - t.loc["accuracy", "low"] for t in tables]
    assert width[0] > 0.7 * width[1]
    assert "clusters" in found.skipped["counterfactual"]
    assert "selective" in found.analyses


# --- models side by side --------------------------------------------------------------------------


def test_the_paired_test_is_mcnemars_and_keeps_its_level():
    rng, errors, draws = np.random.default_rng(4), 0, 600
    for _ in range(draws):
        a, b = rng.random((2, 120)) < 0.8
        errors += exact_p(int((a & ~b).sum()), int((~a & b).sum())) <= 0.05
    assert errors <= stats.binom.isf(1e-4, draws, 0.05)
    assert exact_p(0, 0) == 1.0
    assert exact_p(1, 9) == pytest.approx(2 * stats.binom.cdf(1, 10, 0.5))


def test_models_that_never_abstain_are_compared_row_by_row():
    first, second = made(n=900, size=3.0), made(n=900, size=0.5)
    given = first.given | {"other_logits": second.test_logits, "test_abstained": np.zeros(900)}
    found = run_analysis("comparison", ModelPredictions(**given), SETTINGS)
    (row,) = found.tables["comparison"].to_dict("records")
    right = [z.argmax(axis=1) == first.test_labels for z in (first.test_logits, second.test_logits)]
    assert row["difference"] == pytest.approx(right[0].mean() - right[1].mean())
    assert row["decided"] == "the reported model is better"
    assert "abstained rows" not in found.verdict
    table = pd.DataFrame({"y": first.test_labels, "pred_a": first.test_logits.argmax(axis=1)})
    assert "comparison" not in report(table).analyses
    for others in (1, 2):
        for name in "bc"[:others]:
            table[f"pred_{name}"] = second.test_logits.argmax(axis=1)
        found = report(table).analyses["comparison"]
        assert len(found.tables["comparison"]) == others
        assert ("each interval is at the level by itself" in str(found.captions)) == (others > 1)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The example whose report the book shows, and what the report says of it."""
    path = tmp_path_factory.mktemp("published") / "example.npz"
    given = read_predictions(example_predictions(path, seed=0))
    found = {
        name: run_analysis(name, given, SETTINGS) for name in ("quality", "selective", "audit")
    }
    return dict(np.load(path)), found


def test_the_published_example_is_recomputed_by_scikit_learn(published):
    arrays, found = published
    logits, y = arrays["test_logits"], arrays["test_labels"]
    p, rows = special.softmax(logits, axis=1), items(found["quality"])
    said = p.argmax(axis=1)
    assert found["quality"].values["quality_accuracy"] == metrics.accuracy_score(y, said)
    assert rows["log loss (NLL, nats)"] == pytest.approx(metrics.log_loss(y, p))
    brier = metrics.brier_score_loss(y, p, scale_by_half=False)
    assert rows["Brier score (sum over classes)"] == pytest.approx(brier)
    scores = [arrays["member_scores"], arrays["nonmember_scores"]]
    member = np.repeat([1, 0], [len(one) for one in scores])
    auc = metrics.roc_auc_score(member, np.concatenate(scores))
    audit = found["audit"].tables["audit"].set_index("item")["value"]
    assert audit["ROC AUC of the attack"] == pytest.approx(auc)


def test_its_calibration_error_is_that_of_scikit_learns_bins(published):
    """By `calibration_curve`, whose bins lack their sizes; those are by `numpy.histogram`."""
    arrays, found = published
    confidence = special.softmax(arrays["test_logits"], axis=1).max(axis=1)
    right = arrays["test_logits"].argmax(axis=1) == arrays["test_labels"]
    accuracy, mean = calibration_curve(right, confidence, n_bins=10)
    sizes, _ = np.histogram(confidence, np.linspace(0, 1, 11))
    weights = sizes[sizes > 0] / len(right)
    ece = weights @ np.abs(accuracy - mean)
    values = found["quality"].values
    assert values["ece"] == pytest.approx(ece)
    assert values["ece_low"] <= ece <= values["ece_high"]
    np.testing.assert_allclose(found["quality"].tables["quality_bins"]["accuracy"], accuracy)


def test_its_area_under_the_risk_coverage_curve_is_a_mean_of_running_errors(published):
    """Without ties, as here: the mean over k of the error among the k surest, by pandas."""
    arrays, found = published
    sure = special.softmax(arrays["test_logits"], axis=1).max(axis=1)
    assert len(np.unique(sure)) == len(sure)
    wrong = arrays["test_logits"].argmax(axis=1) != arrays["test_labels"]
    running = pd.Series(wrong[np.argsort(-sure)]).expanding().mean()
    table = found["selective"].tables["selective_scores"].set_index("score")
    assert table.loc["softmax response", "AURC"] == pytest.approx(running.mean())


@pytest.mark.parametrize("off", [0.09, 0.0])
def test_errors_that_cancel_within_a_bin_are_not_called_close(off):
    """Sure by 0.905 and right by 0.995, and the other way round: off by 9 points in every row."""
    rng, runs, close = np.random.default_rng(5), 40 if off else 200, 0
    for _ in range(runs):
        low = rng.random(2000) < 0.5
        told = np.where(low, 0.905, 0.995)
        right = rng.random(2000) < np.where(low, 0.905 + off, 0.995 - off)
        coarse, finer = (by_confidence(told, right, 0.05, count=k) for k in (BINS, FINER))
        assert judged(coarse) is Outcome.CLOSE
        close += judged(coarse, finer) is Outcome.CLOSE
    # Of true confidences the finer bins refuse at most as often as they may err.
    assert close == 0 if off else stats.binom.sf(runs - close - 1, runs, 0.05) > 1e-3
    if off:
        assert judged(coarse, finer) is Outcome.TOO_SURE_IN_PLACES

"""Is my model suitable: every number of the report, its warnings, and what it says."""

import math
import re

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from lib import data
from lib.report import ModelPredictions
from lib.report import suitability_numbers as module
from lib.report import suitability_report as of_predictions
from lib.report.figures import plot_tipping_point
from lib.report.suitability import printable
from lib.studies.suitability.data import wilds_files
from lib.studies.suitability.study_runs import StudyRun, run_studies
from lib.suitability import SIGNAL_NAMES, SuitabilityFilter, labels_test, signals
from lib.suitability.filter import p_text, welch_decision
from lib.suitability.guarantees import adjusted_margin, calibration_offset, prediction_powered_test
from lib.suitability.power import non_inferiority_power, required_sample_size
from lib.suitability.tipping import FMOW_ERRORS

DROP = "estimated drop (test minus user)"


def drawn(n, seed, strength=2.0, k=3):
    """Logits and labels that they tell, the better the larger the strength."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=n)
    return strength * np.eye(k)[labels] + rng.normal(size=(n, k)), labels


def made(n=(700, 600, 500), strength=2.0, known=100, **changes):
    """Arguments of ModelPredictions; of the user data, the first rows are labeled."""
    arrays = {}
    for i, (part, size) in enumerate(zip(("holdout", "test", "user"), n, strict=True)):
        logits, labels = drawn(size, i, strength if part == "user" else 2.0)
        if part == "user":
            labels = np.where(np.arange(size) < known, labels, -1)
        arrays |= {f"{part}_logits": logits, f"{part}_labels": labels}
    return arrays | changes


def suitability_report(arrays, margin=0.08, **options):
    return of_predictions(ModelPredictions(**arrays), margin=margin, **options)


@pytest.fixture(scope="module")
def predictions():
    return ModelPredictions(**made(strength=1.9))


@pytest.fixture(scope="module")
def report(predictions):
    return of_predictions(predictions, margin=0.08)


def look_up(table, item, column="value"):
    (row,) = table.index[table["item"] == item]
    return table.loc[row, column]


def ends(table, item):
    return [look_up(table, item, end) for end in ("low", "high")]


def by_hand(predictions, margin, alpha=0.05):
    tables = {p: signals(getattr(predictions, f"{p}_logits")) for p in ("holdout", "test", "user")}
    correct = predictions.holdout_logits.argmax(axis=1) == predictions.holdout_labels
    fitted = SuitabilityFilter(margin, alpha).fit(tables["holdout"], correct)
    return fitted, tables


@pytest.mark.parametrize(
    ("margin", "alpha", "words"),
    [
        (-0.1, 0.3, "at least 0.1 more"),
        (0.0, 0.01, "at least as"),
        (0.02, 0.3, "at most 0.02 less accurate than"),
        (0.05, 0.3, "at most 0.05 less accurate than"),
    ],
)
def test_decision_is_the_filters_and_the_interval_agrees(predictions, margin, alpha, words):
    fitted, tables = by_hand(predictions, margin, alpha)
    found = of_predictions(predictions, margin=margin, alpha=alpha)
    assert found.decision == fitted.decide(tables["test"], tables["user"])
    high = look_up(found.summary, DROP, "high")
    assert (high <= margin) == found.decision.suitable
    assert found.level == 1 - 2 * alpha
    said = "SUITABLE" if found.decision.suitable else "INCONCLUSIVE"
    assert (found.tipping >= 0) == found.decision.suitable
    if found.decision.suitable and found.moved["moved"].any():
        said = "UNCONFIRMED: by the estimates alone SUITABLE"
    by_labels = "SUITABLE" if found.suitable_by_labels else "INCONCLUSIVE"
    if found.unsuitable_by_labels:
        by_labels = "UNSUITABLE"
    assert found.verdict.startswith(f"{by_labels} by the labeled user rows")
    assert f"From the estimates alone it would be {said}" in found.verdict
    assert words in found.verdict
    assert f"{p_text(found.decision.p_value)} at alpha = {alpha}" in str(found)
    assert ("with a margin of" in " ".join(found.warnings)) == (margin <= 0)


def test_summary(predictions, report):
    fitted, tables = by_hand(predictions, 0.08)
    test, user = fitted.estimate(tables["test"]), fitted.estimate(tables["user"])
    decision = report.decision
    for item, value in (
        ("holdout rows", 700),
        ("test rows", 600),
        ("labeled test rows", 600),
        ("user rows", 500),
        ("labeled user rows", 100),
        ("margin", 0.08),
        ("p-value", decision.p_value),
        ("user rows for a power of 0.8", report.required),
        ("power if equally accurate", report.power),
    ):
        assert look_up(report.summary, item) == value
    for part, labeled in (("holdout", 700), ("test", 600), ("user", 100)):
        right = predictions.correct(part)[0][:labeled].sum()
        item = f"accuracy on labeled {part} rows"
        assert look_up(report.summary, item) == right / labeled
        expected = proportion_confint(right, labeled, 0.1, "beta")
        np.testing.assert_allclose(ends(report.summary, item), expected)
    for part, values in (("test", test), ("user", user)):
        found = ends(report.summary, f"estimated {part} accuracy")
        np.testing.assert_allclose(found, DescrStatsW(values).tconfint_mean(0.1), rtol=1e-12)
    drop, half = test.mean() - user.mean(), stats.norm.isf(0.05) * decision.stderr
    np.testing.assert_allclose(ends(report.summary, DROP), [drop - half, drop + half], rtol=1e-10)
    assert report.tipping == pytest.approx(0.08 - drop - half)
    sampled = stats.sem(test) ** 2 + stats.sem(user) ** 2
    assert decision.stderr**2 > 1.05 * sampled  # the error of the fit
    # No less than without that error, which the power knows too.
    sd = test.std(ddof=1), user.std(ddof=1)
    assert report.power < non_inferiority_power(600, 500, 0, *sd, 0.08)
    assert report.required >= required_sample_size(*sd, margin=0.08, n_test=600).n_user
    paper = SuitabilityFilter(0.08, test="paper").fit(
        tables["holdout"], predictions.correct("holdout")[0]
    )
    item = "p-value of the paper's test (leaves out the error of the fit)"
    by_paper = paper.decide(tables["test"], tables["user"]).p_value
    assert look_up(report.summary, item) == by_paper < decision.p_value


def test_moved_is_scipys(predictions, report):
    test, user = signals(predictions.test_logits), signals(predictions.user_logits)
    assert sorted(report.moved["signal"]) == sorted(SIGNAL_NAMES)
    for row in report.moved.itertuples():
        a, b = test[row.signal], user[row.signal]
        expected = stats.ks_2samp(a, b)
        assert (row.ks, row.p_value) == (expected.statistic, expected.pvalue)
        assert (row.test_mean, row.user_mean) == pytest.approx((a.mean(), b.mean()), rel=1e-12)
        pooled = math.sqrt((a.var() + b.var()) / 2)
        assert row.difference == pytest.approx((b.mean() - a.mean()) / pooled, rel=1e-9)
    reject, adjusted, *_ = multipletests(report.moved["p_value"], 0.05, "holm")
    np.testing.assert_allclose(report.moved["p_holm"], adjusted, rtol=1e-12)
    np.testing.assert_array_equal(report.moved["moved"], reject)
    assert (np.diff(report.moved["difference"].abs()) <= 0).all()


def test_what_moved_and_what_did_not():
    """Logits shifted by a constant: probabilities are as they were, the sizes are not."""
    arrays = made()
    found = suitability_report(arrays | {"user_logits": arrays["user_logits"] + 1.5}).moved
    assert found["signal"].iloc[0] == "logit_mean"
    found = found.set_index("signal")
    assert set(found.index[found["moved"]]) == {"logit_mean", "logit_max", "energy"}
    assert found.loc["logit_mean", "difference"] == pytest.approx(1.5 * math.sqrt(3), abs=0.3)
    assert found.loc["energy", "difference"] < 0


def test_constant_signals_have_not_moved():
    """Logits that sum to zero: the mean is rounding error; and constants that differ."""
    arrays = made(test_labels=None, user_labels=None)
    for part in ("holdout", "test", "user"):
        arrays[f"{part}_logits"] -= arrays[f"{part}_logits"].mean(axis=1, keepdims=True)
    row = suitability_report(arrays).moved.set_index("signal")
    assert row.loc["logit_mean", ["difference", "ks", "p_value"]].tolist() == [0, 0, 1]
    arrays |= {f"{part}_logits": np.tile([1.0, 0, 0], (500, 1)) for part in ("test", "user")}
    found = suitability_report(arrays)
    assert (found.moved["difference"] == 0).all()
    assert not found.moved["moved"].any()
    assert (found.decision.suitable, found.decision.p_value) == (False, 1.0)
    assert any("all have the estimate" in doubt for doubt in found.warnings)
    assert math.isnan(found.decision.dof)
    assert (found.power, found.required) == (1.0, 2)
    assert ends(found.summary, DROP) == [0, 0]
    arrays["user_logits"] = np.tile([1.1, 0, 0], (500, 1))
    moved = suitability_report(arrays).moved
    assert moved["moved"].all()
    assert np.isinf(moved["difference"]).all()


def test_estimates_that_vary_by_rounding_alone(predictions):
    """Their computed deviation is 1e-17 on some processors: there are no degrees of freedom."""
    values = np.random.default_rng(0).random(1000)
    value = next(v for v in values if np.full(500, v).std(ddof=1) > 0)
    estimated = {part: np.full(500, value) for part in ("test", "user")}
    decision = welch_decision(estimated["test"], estimated["user"], 0.1, 0.05)
    assert math.isnan(decision.dof)
    rows = {row[0]: row[1:] for row in module.summary(predictions, estimated, decision, 0.5)}
    assert rows[DROP] == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)


def test_calibration(predictions, report):
    fitted, tables = by_hand(predictions, 0.08)
    test, user = fitted.estimate(tables["test"]), fitted.estimate(tables["user"])
    right, user_right = predictions.correct("test")[0], predictions.correct("user")[0][:100]
    table, labeled = report.calibration, (user[:100], user_right)
    for part, e, c in (("test", test, right), ("user", *labeled)):
        item, offset = f"Delta_{part} (estimated minus true)", calibration_offset(e, c)
        assert look_up(table, item) == offset.value
        assert look_up(table, item, "stderr") == offset.stderr
        reach = stats.t.isf(0.05, len(c) - 1) * offset.stderr
        expected = [offset.value - reach, offset.value + reach]
        np.testing.assert_allclose(ends(table, item), expected, rtol=1e-9)
        assert look_up(table, f"estimated accuracy on labeled {part} rows") == e.mean()
        assert look_up(table, f"accuracy on labeled {part} rows") == c.mean()
    margin = adjusted_margin(0.08, test, right, *labeled, level=0.025)
    assert look_up(table, "adjusted margin") == margin.value
    assert look_up(table, "adjusted margin", "low") == margin.bound
    # Given the estimator: its error is in the margin.
    item = "p-value with the adjusted margin (does not keep alpha)"
    pairs = ((look_up(table, item), margin.value), (report.adjusted.p_value, margin.bound))
    for found, of in pairs:
        expected = stats.ttest_ind(test, user + of, equal_var=False, alternative="less")
        assert found == pytest.approx(expected.pvalue, rel=1e-9)
    assert (report.adjusted.margin, report.adjusted.alpha) == (margin.bound, 0.025)
    powered = prediction_powered_test(right, user[100:], *labeled, 0.08)
    assert report.powered == powered
    alone = labels_test(right, user_right, 0.08)
    assert report.suitable_by_labels == (alone.suitable_p <= 0.05)
    assert report.unsuitable_by_labels == (alone.unsuitable_p <= 0.05)
    assert look_up(table, "p-value of the labels alone (exact)") == alone.suitable_p
    item = "prediction-powered drop"
    assert look_up(table, item) == pytest.approx(right.mean() - powered.user_accuracy)
    assert (ends(table, item)[1] <= 0.08) == (powered.p_value <= 0.05)


def test_all_user_rows_labelled():
    """Nothing is left to predict."""
    arrays = made(known=500)
    found, predictions = suitability_report(arrays), ModelPredictions(**arrays)
    expected = labels_test(*(predictions.correct(part)[0] for part in ("test", "user")), 0.08)
    item = "p-value of the labels alone (exact)"
    assert look_up(found.calibration, item) == expected.suitable_p
    assert found.powered is None
    assert found.suitable_by_labels == (expected.suitable_p <= 0.05)


def test_signals_that_moved_and_the_tipping_point_are_in_the_verdict():
    """One logit shifted: estimates stay high, and the verdict says why that is doubtful."""
    arrays = made(user_labels=None)
    arrays["user_logits"] = arrays["user_logits"] * 1.3
    found = suitability_report(arrays, margin=0.05)
    assert found.decision.suitable
    moved = found.moved.loc[found.moved["moved"], "signal"]
    turned = sum(error > found.tipping for error in FMOW_ERRORS)
    for words in (
        "UNCONFIRMED: by the estimates alone SUITABLE",
        ", ".join(moved),
        f"by more than {found.tipping:.3f}",
        f"in {turned} of {len(FMOW_ERRORS)} folds",
        "p < 0.001",
    ):
        assert words in found.verdict
    figure = plot_tipping_point(found.tipping)
    counts = [sum(bar.get_height() for bar in part) for part in figure.axes[0].containers]
    assert counts == [len(FMOW_ERRORS) - turned, turned]
    # No small p-value is printed.
    summary, small = printable(found.summary), found.moved["p_holm"] < 0.001
    assert (found.moved["p_holm"] < 1e-4).any()
    assert (printable(found.moved).loc[small, "p_holm"] == "< 0.001").all()
    assert look_up(summary, "p-value") == "< 0.001"
    assert look_up(summary, "test rows") == "600"


@pytest.mark.slow
def test_fmow_errors_are_those_of_the_authors_signals():
    """By experiments of the chapter on suitability, which a build has stored."""
    if not all(data.available(name) for name in wilds_files(["fmow"], (0, 1, 2), ["ERM"])):
        pytest.skip("the authors' signals of FMoW are not here")
    table = run_studies([StudyRun("fmow", "ERM", seed) for seed in (0, 1, 2)])
    table = table[table["kind"] == "OOD"]
    error = {
        part: table[f"estimated_{part}_accuracy"] - table[f"{part}_accuracy"]
        for part in ("test", "user")
    }
    difference = error["user"] - error["test"]
    errors = difference.groupby([table["seed"], table["user_fold"]]).mean()
    np.testing.assert_allclose(sorted(errors), FMOW_ERRORS, atol=5.1e-5)


@pytest.mark.parametrize(
    ("changes", "items"),
    [
        ({"test_labels": None, "user_labels": None}, []),
        ({"user_labels": None}, ["test"]),
        ({"test_labels": None}, ["user"]),
        ({"user_labels": np.where(np.arange(500) == 7, 1, -1)}, ["test"]),  # one is none
    ],
)
def test_missing_labels(changes, items):
    found = suitability_report(made(**changes))
    deltas = [item for item in found.calibration["item"] if item.startswith("Delta")]
    assert deltas == [f"Delta_{part} (estimated minus true)" for part in items]
    by_labels = found.suitable_by_labels, found.unsuitable_by_labels
    assert {found.adjusted, found.powered, *by_labels} == {None}
    missing = [p for p in ("test", "user") if f"without labels of the {p}" in str(found.warnings)]
    assert missing == [p for p in ("test", "user") if p not in items]


def test_a_well_behaved_report_has_no_warnings():
    """So none of those below is given without a reason."""
    clean = suitability_report(made((1500, 800, 800), known=200), margin=0.1)
    assert clean.decision.suitable
    assert clean.suitable_by_labels
    assert clean.warnings == ()
    assert "But" not in clean.verdict


def wrong_labels(labels, share):
    """Labels moved on by one class, for a share of the rows."""
    return np.where(np.arange(len(labels)) < share * len(labels), (labels + 1) % 3, labels)


WARNINGS = [
    (made((700, 600, 29), known=9), "user_signals has only 29 rows"),
    (made((700, 29, 500)), "test_signals has only 29 rows"),
    (made((100, 600, 500)), "the holdout is small"),
    (made(test_logits=made()["holdout_logits"][:600]), "600 of 600 test rows have the log"),
    (made(strength=6.0), "user rows have a signal beyond its range"),
    (made(test_labels=wrong_labels(made()["test_labels"], 0.4)), "miscalibrated on test"),
    (made(user_labels=wrong_labels(drawn(500, 2)[1], 0.4)), "miscalibrated on use"),
    (made(known=12), "only . are wrong, too few"),
    (made(strength=0.5, user_labels=None), "INCONCLUSIVE is not unsuitable"),
    (made((700, 10, 500)), "no number of user rows is enough"),
    (made((5000, 600, 12), 1.0, known=9), "probability of only 0.* it takes .* user rows"),
]


@pytest.mark.parametrize(("arrays", "message"), WARNINGS)
def test_warnings(arrays, message):
    found = suitability_report(arrays, margin=0.06)
    assert any(re.search(message, text) for text in found.warnings), found.warnings


def test_probabilities_in_the_place_of_logits_are_noticed():
    arrays = made()
    for part in ("holdout", "user"):
        arrays[f"{part}_logits"] = softmax(arrays[f"{part}_logits"], axis=1)
    (said,) = ModelPredictions(**arrays).reading
    assert said.split(":")[0] == "holdout_logits, user_logits"


def test_labels_that_contradict_the_estimates():
    """Some user labels are another class: no logit tells."""
    random = np.random.default_rng(5).permutation(500)
    logits = drawn(500, 2, 2.5)[0][random]

    def report(share, size=1.0):
        labels = wrong_labels(drawn(500, 2)[1], share)[random]
        known = np.where(np.arange(500) < 200, labels, -1)
        return suitability_report(made(user_logits=size * logits, user_labels=known), margin=0.05)

    found = report(0.2)
    assert found.decision.suitable
    assert found.suitable_by_labels is False
    assert not found.adjusted.suitable
    assert not found.unsuitable_by_labels
    assert found.verdict.startswith("INCONCLUSIVE by the labeled user rows")
    assert any("do not confirm" in text for text in found.warnings)
    # More of them: that is no lack of evidence any more.
    found = report(0.3)
    assert found.decision.suitable
    assert found.unsuitable_by_labels
    assert found.verdict.startswith("UNSUITABLE by the labeled")
    assert re.search("From the estimates alone it would be .*SUITABLE", found.verdict)
    assert any("refute" in text for text in found.warnings)
    # Where the estimates say nothing, what the labels say is not taken back.
    found = report(0.3, 0.3)
    assert not found.decision.suitable
    assert found.verdict.startswith("UNSUITABLE by the labeled")
    assert "Nor is it shown" not in found.verdict
    assert not any("INCONCLUSIVE is not unsuitable" in text for text in found.warnings)
    # And the other way: the logits lost their size, the predictions are the same.
    arrays = made(known=400)
    found = suitability_report(arrays | {"user_logits": 0.5 * arrays["user_logits"]})
    assert not found.decision.suitable
    assert found.suitable_by_labels
    assert found.verdict.startswith("SUITABLE by the labeled user rows")
    assert "From the estimates alone it would be INCONCLUSIVE" in found.verdict


def test_rows_of_few_scores_are_no_copies():
    """Ten scores are shared by all parts; copies of rows that are otherwise rare are named."""
    rng = np.random.default_rng(1)
    scores = rng.normal(size=10)
    logits = {part: np.outer(scores[rng.integers(10, size=300)], [0, 1]) for part in "ht"}
    few = ModelPredictions(holdout_logits=logits["h"], test_logits=logits["t"])
    assert list(module.repeated(few)) == []
    fine = {part: rng.normal(size=(300, 2)) for part in "ht"}
    fine["t"][:12] = fine["h"][:12]
    (said,) = module.repeated(ModelPredictions(holdout_logits=fine["h"], test_logits=fine["t"]))
    assert said.startswith("12 of 300 test rows")


@pytest.mark.parametrize(("n", "m"), [(200, 1000), (1000, 200)])
def test_rounded_rows_are_called_copies_as_rarely_as_is_said(n, m):
    """Scores of 2 to 6 digits: at 5 of them chance makes a few rows alike, and none within."""
    rng, wrong, missed, repetitions = np.random.default_rng(5), 0, 0, 40
    digits = (2, 4, 5, 6)
    for number in digits:
        for _ in range(repetitions):
            holdout, test = (np.round(rng.random((size, 1)), number) * [0, 1] for size in (n, m))
            given = ModelPredictions(holdout_logits=holdout, test_logits=test)
            wrong += bool(list(module.repeated(given)))
            if number >= 5:
                test[: m // 5] = holdout[rng.integers(n, size=m // 5)]
                given = ModelPredictions(holdout_logits=holdout, test_logits=test)
                missed += not list(module.repeated(given))
    assert wrong <= stats.binom.isf(1e-4, repetitions * len(digits), 1e-3)
    assert missed == 0  # one in five is a copy, and few are alike by chance


def test_one_row_cannot_be_decided():
    for part in ("test", "user"):
        arrays = made(**{f"{part}_logits": np.ones((1, 3)), f"{part}_labels": None})
        with pytest.raises(ValueError, match=f"{part}_logits .* got 1"):
            suitability_report(arrays)


def test_the_smallest_predictions_have_a_report():
    found = suitability_report(made((60, 2, 2), known=2))
    assert look_up(found.summary, "user rows") == 2
    assert np.isfinite(found.decision.p_value)

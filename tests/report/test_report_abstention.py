"""Counterfactual accuracy and comparison in a report: the library's own, and bounds that hold."""

import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from lib import counterfactual
from lib.report import ModelPredictions, Settings, explain, run_analysis
from lib.report.abstention import with_outcome
from lib.report.findings import winner_text
from lib.report.row_order import in_own_order
from lib.report.studies import drawn_abstention
from lib.report.types import acceptance_scores

NAN = math.nan
SETTINGS = Settings(learner="linear", seed=3)


def without(example, *names, **changes):
    kept = {k: v for k, v in example.given.items() if k not in names}
    return ModelPredictions(**(kept | changes))


def analysed(name="counterfactual", **arrays):
    return run_analysis(name, ModelPredictions(**arrays), SETTINGS)


def cell(table, item, column="value"):
    return table.set_index("item").loc[item, column]


def answers(example, who="test"):
    right = getattr(example, f"{who}_logits").argmax(axis=1) == example.test_labels
    return right.astype(float), getattr(example, f"{who}_abstained")


def scores_of(logits):
    """The acceptance scores of a report, as columns."""
    return np.column_stack(list(acceptance_scores(logits).values()))


ROBUST = "counterfactual accuracy (doubly robust)"


def test_estimated_propensities(example):
    given = without(example, "test_propensities", "other_propensities")
    example = in_own_order(given)
    (s, r), (s2, r2) = answers(example), answers(example, "other")
    own, others = (scores_of(z) for z in (example.test_logits, example.other_logits))
    options = {"learner": "linear", "folds": 5, "rng": 0}
    x = np.hstack([example.test_features, own])
    direct = counterfactual.counterfactual_score(x, s, r, **options)
    table = run_analysis("counterfactual", given, SETTINGS).tables["counterfactual"]
    row = table.set_index("item").loc[ROBUST]
    assert tuple(row) == (direct.value, direct.stderr, *direct.interval)
    x = np.hstack([x, others])
    direct = counterfactual.counterfactual_difference(x, s, r, s2, r2, **options)
    table = run_analysis("comparison", given, SETTINGS).tables["comparison"]
    row = table.set_index("item").loc["counterfactual difference (doubly robust)"]
    assert tuple(row) == (direct.value, direct.stderr, *direct.interval)
    truth = cell(table, "truth: difference of all predictions")
    assert truth == pytest.approx((s - s2).mean(), abs=1e-15)


@pytest.mark.parametrize("features", [True, False])
def test_known_propensities(example, features):
    given = example if features else without(example, "test_features")
    found = run_analysis("counterfactual", given, SETTINGS)
    table = found.tables["counterfactual"]
    example = in_own_order(given)
    s, r = answers(example)
    rng = np.random.default_rng(0)
    x = example.test_features if features else example.test_propensities[:, None]
    x = np.hstack([x, scores_of(example.test_logits)])
    fold = counterfactual.fold_numbers(len(r), 5, rng)
    mu = counterfactual.fit_nuisances(x, s, r, fold, "linear", rng=rng).outcome
    weight = ~r / (1 - example.test_propensities)
    influence = mu + weight * (s - mu)
    assert cell(table, ROBUST) == pytest.approx(influence.mean(), rel=1e-12)
    # Of 11 errors, worth a tenth of what is plentiful, even Clopper and Pearson's interval is 9%
    # wider than the normal one; weights and the fear of what is unseen in them make it more.
    assert (s[~r] == 0).sum() == 11
    known = counterfactual.Nuisances(r, s, example.test_propensities, mu)
    ends = counterfactual.estimate_from_nuisances(known, clip=1e-9).interval
    assert [cell(table, ROBUST, end) for end in ("low", "high")] == pytest.approx(ends, rel=1e-6)
    half = 1.959964 * influence.std() / math.sqrt(len(r))
    assert 2 * half < ends[1] - ends[0] < 2.6 * half
    weighted = cell(table, "counterfactual accuracy (weighting alone)")
    assert weighted == pytest.approx((weight * s).mean(), rel=1e-12)
    assert cell(table, "accuracy of the answers") == pytest.approx(s[~r].mean())
    assert cell(table, "coverage") == pytest.approx(1 - r.mean())
    assert cell(table, "truth: accuracy of all predictions") == s.mean()
    diagnostics = found.tables["counterfactual_diagnostics"]
    assert cell(diagnostics, "largest weight") == pytest.approx(weight.max())


def certain(seed, share=0.25, there=0.0, n=600):
    """Told propensities, some of them 1; how often it would be right there is not to be seen."""
    rng = np.random.default_rng([seed, 19])
    x = rng.random((n, 2))
    never = x[:, 0] < share
    propensity = np.where(never, 1.0, 0.1 + 0.6 * x[:, 1])
    correct = rng.random(n) < np.where(never, there, 0.95 - 0.3 * x[:, 1])
    r = rng.random(n) < propensity
    labels = rng.integers(2, size=n)
    return {
        "test_logits": np.eye(2)[np.where(correct, labels, 1 - labels)],
        "test_labels": np.where(r, -1, labels),
        "test_abstained": r,
        "test_features": x,
        "test_propensities": propensity,
    }, never


def test_told_propensities_of_one_leave_only_bounds():
    arrays, never = certain(0)
    found, share = analysed(**arrays), (~never).mean()
    value = analysed(**{k: v[~never] for k, v in arrays.items()}).values["counterfactual"]
    assert "counterfactual" not in found.values
    assert found.values["counterfactual_answerable"] == value
    assert found.values["answerable"] == share
    least, most = (found.values[f"counterfactual_{end}"] for end in ("least", "most"))
    assert (least, most) == pytest.approx((share * value, share * value + 1 - share), rel=1e-12)
    table = found.tables["counterfactual"]
    assert cell(table, "counterfactual accuracy there (doubly robust)") == value
    everywhere = "counterfactual accuracy in all rows: bounds"
    assert cell(table, everywhere, "low") == pytest.approx(least)
    assert math.isnan(cell(table, everywhere))
    assert found.values["counterfactual_low"] < least
    assert found.values["counterfactual_high"] > most
    assert f"{never.sum()} of 600 rows" in found.warnings[0]


def test_one_told_propensity_of_one_is_warned_of(example):
    propensity = np.array(example.test_propensities)
    propensity[np.flatnonzero(example.test_abstained)[0]] = 1.0
    given = without(example, test_propensities=propensity)
    for name, value in (("counterfactual", "counterfactual"), ("comparison", "difference")):
        one = run_analysis(name, given, SETTINGS)
        assert "1 of 450 rows" in one.warnings[0]
        assert value not in one.values
        # Of one classifier alone nothing is known there, so that the difference is as wide.
        wide = one.values[f"{value}_most"] - one.values[f"{value}_least"]
        assert wide == pytest.approx(1 / 450)


def test_a_told_rule_needs_no_weights():
    """Propensities of 0 and 1 alone: the answers' own accuracy, and bounds around it."""
    arrays, never = certain(4)
    right = arrays["test_logits"].argmax(axis=1)
    labels = np.where(np.arange(600) % 5 == 0, 1 - right, right)
    arrays |= {"test_abstained": never, "test_propensities": never.astype(float)}
    found = analysed(**arrays | {"test_labels": np.where(never, -1, labels)}).values
    assert found["counterfactual_answerable"] == pytest.approx(found["answers_right"])


def test_labels_of_abstained_rows_are_shown_and_not_used(example):
    away, labels = example.test_abstained, example.test_labels
    tables = [
        run_analysis("counterfactual", without(example, test_labels=each), SETTINGS).tables
        for each in (labels, np.where(away, -1, labels), np.where(away, 9 - labels, labels))
    ]
    shown, hidden, wrong = (each["counterfactual"] for each in tables)
    for each in (shown, wrong):  # the truth stands first
        rest = each[1:].reset_index(drop=True)
        pd.testing.assert_frame_equal(rest, hidden, check_exact=True)
    assert [len(each) for each in (shown, hidden, wrong)] == [5, 4, 5]
    truth = "truth: accuracy of all predictions"
    assert shown["item"].iloc[0] == truth
    assert cell(shown, truth) != cell(wrong, truth)


def test_a_model_that_never_abstains(example):
    always = without(example, "test_propensities", test_abstained=np.zeros(450, bool))
    reason = explain(always).set_index("analysis").loc["counterfactual", "reason"]
    assert reason.startswith("test_abstained is false in all rows")
    both = without(always, "other_propensities", other_abstained=np.zeros(450, bool))
    found = run_analysis("comparison", both, SETTINGS)
    assert "abstained rows" not in found.verdict
    right = [z.argmax(axis=1) == both.test_labels for z in (both.test_logits, both.other_logits)]
    assert found.values["difference"] == pytest.approx(right[0].mean() - right[1].mean())


def test_a_comparison_uses_scores_only_where_labels_lack(example):
    scores = np.linspace(0, 1, len(example.test_labels))
    given = without(example, test_scores=scores, other_scores=scores)
    labeled = run_analysis("comparison", example, SETTINGS)
    assert run_analysis("comparison", given, SETTINGS).values == labeled.values
    unlabeled = run_analysis("comparison", without(given, "test_labels"), SETTINGS)
    assert unlabeled.values != labeled.values


# --- it is right where the truth is known ---------------------------------------------------------


def test_bounds_cover_where_some_rows_are_never_answered():
    """The worst that is possible there, and the best, which an estimate that extrapolates misses.

    Nothing that a file has depends on how often it would be right there: of half of the files it
    is never, of the others always, and each counts for both. One standard error in the place of
    two would keep a level of 0.84, not of 0.975: of 70 it is noticed with a probability of 0.89
    for either, and of 2 x 70 with 0.988.
    """
    repetitions = 70
    covered, alone, truths = np.zeros(2), np.zeros(2), 0.75 * 0.8 + 0.25 * np.arange(2)
    for seed in range(repetitions):
        found = analysed(**certain(seed, there=seed % 2)[0])
        low, high = (found.values[f"counterfactual_{end}"] for end in ("low", "high"))
        covered += (low <= truths) & (truths <= high)
        table = found.tables["counterfactual"].set_index("item")
        low, high = table.loc["counterfactual accuracy there (doubly robust)", ["low", "high"]]
        alone += (low <= truths) & (truths <= high)
    least, most = stats.binom.ppf([0.0005, 0.9995], repetitions, 0.975)
    assert (least <= covered).all()
    assert (covered <= most).all()
    assert (alone < least).all()  # so that the test can fail


SETS = ("digits", "breast_cancer", "wine", "iris")
MODELS = (
    LogisticRegression(max_iter=300),
    GaussianNB(),
    DecisionTreeClassifier(min_samples_leaf=10, random_state=0),
)


def thresholded(name, quantile, seed, model):
    """A model that abstains below a quantile of its softmax response, on half of the rows."""
    features, labels = getattr(datasets, f"load_{name}")(return_X_y=True)
    rng = np.random.default_rng([seed, len(labels)])
    train, test = np.array_split(rng.permutation(len(labels)), 2)
    fitted = make_pipeline(StandardScaler(), model).fit(features[train], labels[train])
    p = fitted.predict_proba(features[test])
    return {
        "test_logits": np.log(np.clip(p, 1e-9, 1)),
        "test_labels": labels[test],
        "test_abstained": p.max(axis=1) <= np.quantile(p.max(axis=1), quantile),
        "test_features": features[test],
    }


def test_a_threshold_of_its_own_leaves_only_bounds_and_they_hold():
    """Four data sets and three models; the labels of abstained rows are told afterwards."""
    seen = 0
    for name in SETS:
        for seed, model in enumerate(MODELS):
            arrays = thresholded(name, (0.1, 0.2, 0.3)[seed], seed, model)
            truth = (arrays["test_logits"].argmax(axis=1) == arrays["test_labels"]).mean()
            r = arrays["test_abstained"]
            if (~r).sum() < 30:
                continue  # too few answers: nothing is said at all
            arrays["test_labels"] = np.where(r, -1, arrays["test_labels"])
            found = analysed(**arrays).values
            assert "counterfactual" not in found
            least, most = found["counterfactual_least"], found["counterfactual_most"]
            assert least <= truth <= most
            assert most - least == pytest.approx(r.mean())
            seen += 1
    assert seen > 8
    # Known at its own score, not by a name: logits that are told only for answers show nothing.
    arrays = thresholded("digits", 0.2, 0, MODELS[0])
    away = arrays["test_abstained"][:, None]
    silent = arrays | {"test_logits": np.where(away, NAN, arrays["test_logits"])}
    for given, said in ((arrays, "softmax response alone"), (silent, "no logits")):
        found = analysed(**given)
        assert said in found.verdict
        assert "counterfactual" not in found.values


def test_a_rule_beside_a_coin_is_bounded_where_it_is_a_rule():
    rng = np.random.default_rng(8)
    z = np.column_stack([rng.normal(1.5, 1.5, 900), np.zeros(900)])
    sure = np.abs(z[:, 0] - z[:, 1])
    never = sure < np.quantile(sure, 0.15)
    labels = (rng.random(900) < special.expit(-z[:, 0])).astype(int)
    found = analysed(
        test_logits=z,
        test_labels=labels,
        test_abstained=never | (rng.random(900) < 0.3),
        test_features=rng.normal(size=(900, 2)),
    ).values
    assert found["answerable"] == pytest.approx(0.85, abs=0.02)
    wide = found["counterfactual_most"] - found["counterfactual_least"]
    assert wide == pytest.approx(1 - found["answerable"], abs=0.01)
    truth = (z.argmax(axis=1) == labels).mean()
    assert found["counterfactual_least"] < truth < found["counterfactual_most"]


@pytest.mark.parametrize(("scale", "middle"), [(1e-13, 0.0), (1e13 / 7, 0.0), (1.0, 1e6)])
def test_a_rule_on_a_feature_is_found_in_whatever_unit(scale, middle):
    rng = np.random.default_rng(9)
    feature = np.round(rng.random(900), 2)[:, None]
    r = (feature[:, 0] < 0.2) | (rng.random(900) < 0.3)
    arrays = {"test_logits": rng.normal(size=(900, 2)), "test_labels": rng.integers(0, 2, 900)}
    one, other = (
        analysed(**arrays, test_abstained=r, test_features=x).values
        for x in (feature, middle + scale * feature)
    )
    assert 0.7 < one["answerable"] < 0.9
    assert other["answerable"] == one["answerable"]
    for end in ("counterfactual_least", "counterfactual_most"):
        assert other[end] == pytest.approx(one[end], abs=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1e-10])
def test_a_rule_of_a_model_that_is_never_sure_is_found(scale):
    """Its probabilities are all but one half, and yet it abstains by them."""
    rng = np.random.default_rng(10)
    z = scale * rng.normal(size=(900, 2))
    gap = np.abs(z[:, 0] - z[:, 1])
    found = analysed(
        test_logits=z,
        test_labels=rng.integers(0, 2, 900),
        test_abstained=gap < np.quantile(gap, 0.2),
        test_features=rng.normal(size=(900, 1)),
    )
    assert found.values["answerable"] == pytest.approx(0.8)


def test_a_fitted_propensity_that_shows_a_rule_leaves_bounds(example):
    """A rule on the sum of two features: the warning is in the report, not on stderr."""
    x = np.random.default_rng(4).random((450, 2))
    changes = {"test_abstained": x.sum(axis=1) > 1.2, "test_features": x}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rule = without(example, "test_propensities", **changes)
        found = run_analysis("counterfactual", rule, SETTINGS)
    assert "counterfactual" not in found.values
    assert "positivity" in found.warnings[0]


def test_the_truth_comes_first_where_the_interval_misses_it():
    """Abstention on what no score and no feature shows: all withheld answers are wrong."""
    rng = np.random.default_rng(5)
    right = rng.random(600) < 0.7
    labels = rng.integers(2, size=600)
    given = {
        "test_logits": np.eye(2)[np.where(right, labels, 1 - labels)],
        "test_labels": labels,
        "test_abstained": ~right & (rng.random(600) < 0.8),
        "test_features": rng.random((600, 2)),
        "other_logits": np.eye(2)[labels],
        "other_abstained": rng.random(600) < 0.3,
    }
    found = analysed(**given)
    first = found.verdict.split(" (")[0]
    assert first.endswith(f"the accuracy of all predictions is {right.mean():.3f}")
    table = found.tables["counterfactual_contamination"].set_index("share")
    assert table.loc[1.0, "low"] <= right.mean() <= table.loc[1.0, "high"]
    for each in (found, analysed("comparison", **given)):
        assert each.verdict.startswith("By the labels, which are known of all rows")
        assert "The interval below misses" in each.verdict
        assert each.verdict.index("The labels decide") < each.verdict.index("always")


@pytest.mark.parametrize(
    ("interval", "digits", "outcome"),
    [
        ((0.01, 0.047), 3, "the model would be better"),
        ((0.0004, 0.047), 4, "the model would be better"),
        ((-0.047, -2e-6), 6, "the competitor would be better"),
        ((-0.0004, 0.047), 3, "is not decided"),
        ((1e-17, 0.047), 3, "is not decided"),  # 0 but for rounding
        ((-0.047, -1e-17), 3, "is not decided"),
    ],
)
def test_what_is_printed_of_a_difference_is_what_was_decided(interval, digits, outcome):
    value, *ends = with_outcome((sum(interval) / 2, *interval))
    assert winner_text(interval).endswith(outcome)
    assert winner_text([float(end) for end in ends]) == winner_text(interval)
    assert {len(text.partition(".")[2]) for text in (value, *ends)} == {digits}


def test_a_verdict_shows_the_digits_that_it_rests_on():
    """Right in 8 of 40,000 rows more (4 would not do): not from +0.000 on, but from above."""
    n = 40000
    labels, never = np.arange(n) % 2, np.zeros(n, bool)
    found = analysed(
        "comparison",
        test_logits=np.eye(2)[labels],
        other_logits=np.eye(2)[np.where(np.arange(n) < 8, 1 - labels, labels)],
        test_labels=labels,
        test_abstained=never,
        other_abstained=never,
        test_features=np.random.default_rng(0).normal(size=(n, 2)),
    )
    low = found.values["difference_low"]
    assert 0 < low < 0.0002
    shown = re.search(r"\(\+([\d.]+) to \+[\d.]+\)", found.verdict)
    assert float(shown[1]) == pytest.approx(low, rel=0.5)


@pytest.mark.parametrize(("mine", "theirs"), [(0.15, 0.18), (0.0, 0.3)])
def test_bounds_of_a_comparison_are_each_sides_own(mine, theirs):
    """Sharp: what is withheld by one does not hide what the other says (Manski, row by row)."""
    rng = np.random.default_rng(3)
    n = 1000
    x = rng.random((n, 2))
    never = x[:, 0] < mine, x[:, 1] < theirs
    labels = rng.integers(2, size=n)
    right, coin = (rng.random(n) < 0.8, rng.random(n) < 0.9), rng.random(n) < 0.5
    found = analysed(
        "comparison",
        test_logits=np.eye(2)[np.where(right[0], labels, 1 - labels)],
        other_logits=np.eye(2)[np.where(right[1], labels, 1 - labels)],
        test_labels=labels,
        test_abstained=never[0] | coin,
        other_abstained=never[1] | ~coin,
        test_features=x,
        test_propensities=np.where(never[0], 1.0, 0.5),
        other_propensities=np.where(never[1], 1.0, 0.5),
    ).values
    wide = found["difference_most"] - found["difference_least"]
    assert wide == pytest.approx(never[0].mean() + never[1].mean(), abs=0.02)
    assert found["difference_least"] < -0.1 < found["difference_most"]


@pytest.mark.slow
def test_drawn_abstention_keeps_its_point_and_its_level():
    """Propensities in [0.1, 0.9]; a step is no logistic curve: 0.31 wide without calibration.

    One standard error in the place of two would keep a level of 0.68. Of 32 reports that is noticed
    with a probability of 0.74 in one design and of 0.98 in one of three; a level of 0.95 fails in
    one of three with 6e-5.
    """
    repetitions = 32
    found = drawn_abstention(["linear"], repetitions=repetitions).set_index("propensity")
    assert (found["points"] >= 0.97).all()
    reports = (found["points"] * repetitions).round()
    held = (found["coverage"] * reports).round()
    assert (held >= stats.binom.ppf(3e-5, reports, 0.95)).all()
    assert (found["low"] < found["coverage"]).all()
    assert found.loc["step in confidence", "width"] < 0.26
    assert (found.loc[["confidence", "feature"], "width"] < 0.17).all()  # 0.11 and 0.16 without

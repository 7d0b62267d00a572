"""Every analysis of a report is the library's own, is skipped for a stated reason, and is right."""

import base64
import math
import re
import warnings
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from scipy import special, stats
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from statsmodels.stats.proportion import proportion_confint

from lib import audit, counterfactual, selective
from lib.audit.selection import divided
from lib.report import (
    ANALYSES,
    FORMAT,
    ModelPredictions,
    Settings,
    example_predictions,
    explain,
    needs,
    read_predictions,
    run_analysis,
    run_report,
)
from lib.report import report as report_module
from lib.report import single_page as single_page_module
from lib.report.abstention import _outcome, _with_outcome
from lib.report.selective import _less_accurate, _threshold, groups
from lib.report.studies import drawn_abstention
from lib.report.suitability import printable, suitability_report
from lib.report.types import acceptance_scores, not_at_random, share

NAN = math.nan
SETTINGS = Settings(learner="linear", seed=3)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return read_predictions(example_predictions(tmp_path_factory.mktemp("e") / "e.npz", seed=0))


@pytest.fixture(scope="module")
def report(example):
    return run_report(example, learner="linear", seed=3)


def without(example, *names, **changes):
    """The example with arrays left out or put in others' place."""
    kept = {k: v for k, v in example.given.items() if k not in names}
    return ModelPredictions(**(kept | changes))


def cell(table, item, column="value"):
    (row,) = table.index[table.iloc[:, 0] == item]
    return table.loc[row, column]


# --- each analysis is the library's ---------------------------------------------------------------


def test_everything_is_done_for_the_example(report):
    assert list(report.analyses) == list(ANALYSES)
    assert report.skipped == {}
    assert report.overview["possible"].all()
    assert "skipped" not in str(report)


def test_selective(example, report):
    table = report.tables["selective_scores"].set_index("score")
    correct = example.test_logits.argmax(axis=1) == example.test_labels
    p = special.softmax(example.test_logits, axis=1)
    own = {
        "softmax response": p.max(axis=1),
        "entropy": (p * np.log(p)).sum(axis=1),
        "margin": np.sort(p, axis=1)[:, -1] - np.sort(p, axis=1)[:, -2],
        "energy": special.logsumexp(example.test_logits, axis=1),
    }
    assert list(table.index) == list(own)
    for name, score in own.items():
        for metric, column in (("aurc", "AURC"), ("normalized_score", "normalized")):
            found = selective.estimate(correct, score, metric, 0.95)
            expected = [found.value, found.standard_error, found.low, found.high]
            columns = [column, *(f"{column} {end}" for end in ("stderr", "low", "high"))]
            np.testing.assert_allclose(table.loc[name, columns].astype(float), expected, rtol=1e-9)
        # By hand: how many of the surest points can be accepted.
        order = np.argsort(-score, kind="stable")
        accuracy = np.cumsum(correct[order]) / np.arange(1, len(order) + 1)
        reached = np.flatnonzero(accuracy >= 0.95)[-1] + 1
        assert table.loc[name, "coverage at target"] == reached / len(order)
    summary = report.tables["selective"]
    low, high = proportion_confint(correct.sum(), len(correct), 0.05, method="beta")
    assert cell(summary, "accuracy") == correct.mean()
    assert cell(summary, "accuracy", "low") == pytest.approx(low)
    assert cell(summary, "accuracy", "high") == pytest.approx(high)
    assert cell(summary, "wrong predictions") == (~correct).sum()


def test_suitability(example, report):
    known = {k: v for k, v in example.given.items() if re.match("(holdout|test|user)_l", k)}
    direct = suitability_report(ModelPredictions(**known), margin=0.05, alpha=0.05)
    for name, table in (
        ("suitability", direct.summary),
        ("suitability_moved", direct.moved),
        ("suitability_calibration", direct.calibration),
    ):
        pd.testing.assert_frame_equal(report.tables[name], printable(table))
    assert report.analyses["suitability"].verdict == direct.verdict
    assert report.analyses["suitability"].warnings == direct.warnings


def test_audit(example, report):
    scores = np.r_[example.member_scores, example.nonmember_scores]
    members = np.arange(len(scores)) < len(example.member_scores)
    table = report.tables["audit_bounds"].set_index(["threshold", "method"])
    threshold, held = audit.held_out_lower_bound(
        scores, members, 1e-5, 0.95, "clopper-pearson", seed=3
    )
    exact = table.loc[("chosen on the other half", "clopper-pearson")]
    assert exact["lower bound"] == held
    assert exact["low"] <= held <= exact["high"]
    assert cell(report.tables["audit"], "chosen threshold") == threshold
    counts = audit.roc_counts(scores, members)
    for method in audit.METHODS:
        naive = audit.best_lower_bound(counts, 1e-5, 0.95, method)[1]
        assert table.loc[("best of all (biased)", method), "lower bound"] == naive
        assert table.loc[("best of all (biased)", method), "holds"] == "no"
    union = audit.union_lower_bound(counts, 1e-5, 0.95, "clopper-pearson")[1]
    assert table.loc["best of all, corrected for the choice", "lower bound"].item() == union
    area = roc_auc_score(members, scores)
    assert cell(report.tables["audit"], "ROC AUC of the attack") == pytest.approx(area)
    order, one = np.argsort(scores, kind="stable"), 0.0
    for fraction in (0.01, 0.02, 0.05, 0.1, 0.3):
        half = max(1, round(fraction * len(scores) / 2))
        right = int(members[order[-half:]].sum() + (~members[order[:half]]).sum())
        one = max(one, audit.one_run_epsilon(right, 2 * half, len(scores), 1e-5, 0.99))
    row = table.loc["none: the surest points are guessed, corrected", "lower bound"]
    assert row.item() == one


def test_audit_compares_with_the_claim(example):
    verdicts = {}
    for epsilon in (0.01, 5.0, math.inf, None):
        given = without(example, "epsilon", epsilon=epsilon)
        verdicts[epsilon] = run_analysis("audit", given, SETTINGS).verdict
    refuted = "That is more than the claimed 0.01: on this condition the claim is refuted at the le"
    assert refuted in verdicts[0.01]
    assert "does not contradict the claimed 5" in verdicts[5.0]
    for none in (math.inf, None):
        assert "No finite epsilon is claimed" in verdicts[none]
    found = run_analysis("audit", without(example, "delta"), Settings(delta=0.01))
    assert found.warnings[0] == "the file states no delta: 0.01 is used"
    assert cell(found.tables["audit"], "delta") == 0.01
    assert cell(run_analysis("audit", example, Settings(delta=0.01)).tables["audit"], "delta") == (
        1e-5
    )


COIN = "a fair coin of its own decided for every point whether it was a member"
RANDOM = "which points were members was decided at random and trials are independent"


def one_training(seed, epsilon, n=1000):
    """Points that coins put into one training, all a little or few of them clearly betrayed."""
    rng = np.random.default_rng([seed, 11])
    members = rng.random(n) < 0.5
    leak = 9 * (rng.random(n) < 0.06) if seed % 2 else 0.8
    scores = rng.normal(size=n) + leak * members
    return ModelPredictions(
        member_scores=scores[members], nonmember_scores=scores[~members], epsilon=epsilon
    )


def test_the_declared_design_decides_which_bound_is_used():
    """Not the held-out bound for one run, and never the larger of the two."""
    apart = {"one run": 0, "independent": 0}
    for seed in range(10):
        given = one_training(seed, 0.5)
        for design, item, condition in (
            ("one run", ("none: the surest points are guessed, corrected", "one run"), COIN),
            ("independent", ("chosen on the other half", "clopper-pearson"), RANDOM),
        ):
            found = run_analysis("audit", given, Settings(seed=seed, audit_design=design))
            table = found.tables["audit_bounds"].set_index(["threshold", "method"])
            own = table.loc[item, "lower bound"]
            assert found.values["audit_lower"] == own
            assert table.loc[item, "holds"] == f"if {condition}"
            assert f"the design '{design}', which holds if {condition}." in found.verdict
            assert any("must be drawn alike" in text for text in found.warnings)
            assert ("is refuted at the level" in found.verdict) == (own > 0.5)
            assert ("does not contradict the claimed 0.5" in found.verdict) == (own <= 0.5)
            other = {"one run": "audit_held_out", "independent": "audit_one_run"}[design]
            apart[design] += own <= 0.5 < found.values[other]
    assert min(apart.values()) > 0  # so that taking the larger would fail
    assert Settings().audit_design == "one run"


def test_numbers_that_no_fair_coin_gives():
    rng = np.random.default_rng(1)
    for a, b, fair in ((400, 600, False), (600, 400, False), (480, 520, True)):
        given = ModelPredictions(
            member_scores=rng.normal(2, 1, a), nonmember_scores=rng.normal(size=b), epsilon=0.1
        )
        found = run_analysis("audit", given, Settings())
        table = found.tables["audit_bounds"].set_index("method")
        p = stats.binomtest(a, a + b).pvalue
        assert cell(found.tables["audit"], "p-value of these numbers by fair coins") == p
        assert (p >= 1e-3) == fair
        assert table.loc["one run", "holds"] == (f"if {COIN}" if fair else "no")
        assert table.loc["one run", "lower bound"] == found.values["audit_one_run"] > 0.5
        assert found.values["audit_lower"] == (found.values["audit_one_run"] if fair else 0)
        assert ("refuted" in found.verdict) == fair
        assert ("No bound holds in the design 'one run'" in found.verdict) == (not fair)
        # The other design needs no fair coins.
        independent = run_analysis("audit", given, Settings(audit_design="independent"))
        assert independent.values["audit_lower"] == found.values["audit_held_out"] > 0.1


def test_a_weak_attack_still_chooses_a_threshold():
    """Where the choosing half has no Clopper-Pearson bound, Jeffreys' chooses, on that half."""
    seen, most = 0, 0.0
    for seed in range(40):
        rng = np.random.default_rng([seed, 13])
        scores = np.r_[rng.normal(1.2, 1, 24), rng.normal(size=24)]
        members = np.arange(48) < 24
        choosing = divided(members, 0.5, seed)
        counts = audit.roc_counts(scores[choosing], members[choosing])
        if audit.best_lower_bound(counts, 1e-5, 0.95, "clopper-pearson")[1] > 0:
            continue
        index, bound = audit.best_lower_bound(counts, 1e-5, 0.95, "jeffreys")
        if bound == 0:
            continue
        seen += 1
        given = ModelPredictions(member_scores=scores[:24], nonmember_scores=scores[24:])
        found = run_analysis("audit", given, Settings(seed=seed, audit_design="independent"))
        threshold = audit.roc_thresholds(scores[choosing])[index]
        assert cell(found.tables["audit"], "chosen threshold") == threshold < math.inf
        most = max(most, found.values["audit_lower"])
    assert seen > 5
    assert most > 0


def test_equal_scores_are_guessed_in_a_random_order():
    """Neither kind comes first: the bound is that of scores told apart by chance."""
    rng = np.random.default_rng(17)
    a, b = (rng.random(500) < p for p in (0.85, 0.4))

    def bound(noise):
        given = ModelPredictions(member_scores=a + noise[0], nonmember_scores=b + noise[1])
        return run_analysis("audit", given, Settings(seed=0)).values["audit_one_run"]

    apart = [bound(rng.uniform(0, 0.5, size=(2, 500))) for _ in range(12)]
    assert min(apart) - 0.05 <= bound(np.zeros((2, 500))) <= max(apart) + 0.05


def test_coverage_at_the_target_is_that_of_a_threshold():
    """Ten right answers at 0.9, then ten at 0.8 of which half are right: none of those is taken."""
    p = np.repeat([0.9, 0.8], 10)
    correct = np.r_[np.ones(10, bool), np.arange(10) % 2 == 0]
    given = ModelPredictions(
        test_logits=np.log(np.column_stack([1 - p, p])), test_labels=correct.astype(int)
    )
    found = run_analysis("selective", given, Settings(target=0.9))
    table = found.tables["selective_scores"].set_index("score")["coverage at target"]
    assert selective.coverage_at_accuracy(correct, p, 0.9, randomized=True) > 0.5
    assert (table.drop("energy", errors="ignore") == 0.5).all()
    assert found.values["best_coverage"] == 0.5
    equal = ModelPredictions(test_logits=[[0.0, 1.0]] * 20, test_labels=correct.astype(int))
    assert run_analysis("selective", equal, Settings(target=0.9)).values["best_coverage"] == 0
    assert run_analysis("selective", equal, Settings(target=0.7)).values["best_coverage"] == 1


def test_the_verdict_states_the_guaranteed_threshold_and_names_the_plug_in(example, report):
    found = report.analyses["selective"]
    table = found.tables["selective_scores"].set_index("score")
    correct = example.test_logits.argmax(axis=1) == example.test_labels
    for name, score in acceptance_scores(example.test_logits).items():
        direct = selective.guaranteed_threshold(correct, score, 0.95, 1 - 0.05 / 4)
        assert table.loc[name, "guaranteed coverage"] == (direct.coverage or 0.0)
        assert table.loc[name, "guaranteed coverage"] <= table.loc[name, "coverage at target"]
    most = table["guaranteed coverage"].max()
    assert 0 < most == found.values["guaranteed_coverage"] < found.values["best_coverage"]
    assert f"Answering the surest {most:.1%}" in found.verdict
    assert "The plug-in, which promises nothing" in found.verdict
    few = without(example, test_logits=example.test_logits[:20], **{
        name: getattr(example, name)[:20] for name in example.given
        if name.startswith(("test_", "other_")) and name != "test_logits"
    })  # fmt: skip
    few = run_analysis("selective", few, SETTINGS)
    assert "At no coverage can these rows promise 0.95" in few.verdict
    all_right = without(example, test_labels=example.test_logits.argmax(axis=1))
    assert "no abstention is needed" in run_analysis("selective", all_right, SETTINGS).verdict


def answers(example, who="test"):
    r = getattr(example, f"{who}_abstained")
    right = getattr(example, f"{who}_logits").argmax(axis=1) == example.test_labels
    return right.astype(float), r


def scores_of(logits):
    """The acceptance scores of a report, as columns."""
    return np.column_stack(list(acceptance_scores(logits).values()))


def test_counterfactual_with_estimated_propensities(example):
    given = without(example, "test_propensities", "other_propensities")
    s, r = answers(example)
    own, others = (scores_of(z) for z in (example.test_logits, example.other_logits))
    direct = counterfactual.counterfactual_score(
        np.hstack([example.test_features, own]), s, r, learner="linear", folds=5, rng=3
    )
    table = run_analysis("counterfactual", given, SETTINGS).tables["counterfactual"]
    row = table.set_index("item").loc["counterfactual accuracy (doubly robust)"]
    assert tuple(row) == (direct.value, direct.stderr, *direct.interval)
    s2, r2 = answers(example, "other")
    x = np.hstack([example.test_features, own, others])
    difference = counterfactual.counterfactual_difference(
        x, s, r, s2, r2, learner="linear", folds=5, rng=3
    )
    table = run_analysis("comparison", given, SETTINGS).tables["comparison"]
    row = table.set_index("item").loc["counterfactual difference (doubly robust)"]
    assert tuple(row) == (difference.value, difference.stderr, *difference.interval)
    assert cell(table, "truth: difference of all predictions") == pytest.approx(
        (s - s2).mean(), abs=1e-15
    )


@pytest.mark.parametrize("features", [True, False])
def test_counterfactual_with_known_propensities(example, features):
    given = example if features else without(example, "test_features")
    found = run_analysis("counterfactual", given, SETTINGS)
    table = found.tables["counterfactual"]
    s, r = answers(example)
    rng = np.random.default_rng(3)
    x = example.test_features if features else example.test_propensities[:, None]
    x = np.hstack([x, scores_of(example.test_logits)])
    fold = counterfactual.fold_numbers(len(r), 5, rng)
    mu = counterfactual.fit_nuisances(x, s, r, fold, "linear", rng=rng).outcome
    weight = ~r / (1 - example.test_propensities)
    influence, item = mu + weight * (s - mu), "counterfactual accuracy (doubly robust)"
    assert cell(table, item) == pytest.approx(influence.mean(), rel=1e-12)
    # Of 11 errors, worth a tenth of what is plentiful, even Clopper and Pearson's interval is 9%
    # wider than the normal one; weights and the fear of what is unseen in them make it more.
    assert (s[~r] == 0).sum() == 11
    known = counterfactual.Nuisances(r, s, example.test_propensities, mu)
    ends = counterfactual.estimate_from_nuisances(known, clip=1e-9).interval
    assert [cell(table, item, end) for end in ("low", "high")] == pytest.approx(ends, rel=1e-6)
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
    found = run_analysis("counterfactual", ModelPredictions(**arrays), SETTINGS)
    some = {k: v[~never] for k, v in arrays.items()}
    direct = run_analysis("counterfactual", ModelPredictions(**some), SETTINGS)
    value = direct.values["counterfactual"]
    share = (~never).mean()
    assert "counterfactual" not in found.values
    assert found.values["counterfactual_answerable"] == value
    assert found.values["answerable"] == share
    assert found.values["counterfactual_least"] == pytest.approx(share * value, rel=1e-12)
    assert found.values["counterfactual_most"] == pytest.approx(share * value + 1 - share)
    table = found.tables["counterfactual"]
    assert not table["item"].str.contains("weighting").any()
    assert cell(table, "counterfactual accuracy there (doubly robust)") == value
    assert cell(table, "counterfactual accuracy in all rows: bounds", "low") == pytest.approx(
        share * value
    )
    assert math.isnan(cell(table, "counterfactual accuracy in all rows: bounds"))
    assert found.values["counterfactual_low"] < found.values["counterfactual_least"]
    assert found.values["counterfactual_high"] > found.values["counterfactual_most"]
    assert f"known propensities are 1 in {never.sum()} of 600 rows" in found.warnings[0]
    assert "it is certain to abstain, and nothing is known" in found.verdict
    assert not any("no input is always abstained on" in text for text in found.warnings)
    assert found.drawings["counterfactual_propensities"].draw().axes
    plt.close("all")


def test_one_told_propensity_of_one_is_warned_of(example):
    row = int(np.flatnonzero(example.test_abstained)[0])
    propensity = np.array(example.test_propensities)
    propensity[row] = 1.0
    given = without(example, test_propensities=propensity)
    found = run_report(given, learner="linear", seed=3)
    for name, value in (("counterfactual", "counterfactual"), ("comparison", "difference")):
        one = found.analyses[name]
        assert "known propensities are 1 in 1 of 450 rows (0.2%)" in one.warnings[0]
        assert value not in one.values
        # Of one classifier alone nothing is known there, so that the difference is as wide.
        wide = one.values[f"{value}_most"] - one.values[f"{value}_least"]
        assert wide == pytest.approx(1 / 450)


def test_a_told_rule_needs_no_weights():
    """Propensities of 0 and 1 alone: the answers' own accuracy, and bounds around it."""
    arrays, never = certain(4)
    arrays |= {"test_abstained": never, "test_propensities": never.astype(float)}
    right = arrays["test_logits"].argmax(axis=1)
    arrays["test_labels"] = np.where(never, -1, np.where(np.arange(600) % 5 == 0, 1 - right, right))
    found = run_analysis("counterfactual", ModelPredictions(**arrays), SETTINGS)
    assert found.values["counterfactual_answerable"] == pytest.approx(found.values["answers_right"])


def test_labels_of_abstained_rows_are_shown_and_not_used(example):
    hidden = np.where(example.test_abstained, -1, example.test_labels)
    wrong = np.where(example.test_abstained, 9 - example.test_labels, example.test_labels)
    tables = [
        run_analysis("counterfactual", without(example, test_labels=labels), SETTINGS).tables
        for labels in (example.test_labels, hidden, wrong)
    ]
    estimates = [t["counterfactual"].iloc[:4] for t in tables]
    pd.testing.assert_frame_equal(estimates[0], estimates[1], check_exact=True)
    pd.testing.assert_frame_equal(estimates[0], estimates[2], check_exact=True)
    assert [len(t["counterfactual"]) for t in tables] == [5, 4, 5]
    assert len({cell(t["counterfactual"], "truth: accuracy of all predictions")
                for t in (tables[0], tables[2])}) == 2  # fmt: skip


def test_a_model_that_never_abstains(example):
    always = without(example, "test_propensities", test_abstained=np.zeros(450, bool))
    found = run_analysis("counterfactual", always, SETTINGS)
    s, _ = answers(example)
    assert found.values["counterfactual"] == s.mean()
    assert found.values["answered"] == 1.0


# --- what is skipped, and why ---------------------------------------------------------------------

FIRST = np.arange(450) < 20
FEW = "must be false in at least 30 rows, got 20"
NO_LABEL = "test_labels must be known wherever test_abstained is false, got .* answers without one"
NOTHING_WRONG = "holdout_labels must make at least 5 predictions right and 5 wrong"
ONE = np.where(np.arange(450) < 1, 0, -1)
SKIPPED = [
    ("selective", "test_logits", {}, "missing: test_logits$"),
    ("selective", "test_labels", {}, "missing: test_labels$"),
    ("suitability", "holdout_labels user_logits", {}, "missing: holdout_labels, user_logits"),
    ("audit", "nonmember_scores", {}, "missing: nonmember_scores"),
    ("audit", "", {"member_scores": [1.0]}, "member_scores must have at least 2 entries"),
    ("counterfactual", "test_abstained", {}, "missing: test_abstained"),
    ("counterfactual", "test_features test_propensities", {}, r"features \(or test_propensities\)"),
    ("comparison", "test_features other_propensities", {}, r"\(or test_pro.* and other_propensiti"),
    ("comparison", "other_logits", {}, "missing: other_logits"),
    ("counterfactual", "test_propensities", {"test_abstained": ~FIRST}, f"test_abstained {FEW}"),
    ("comparison", "other_propensities", {"other_abstained": ~FIRST}, f"other_abstained {FEW}"),
    ("counterfactual", "", {"test_labels": np.where(FIRST, -1, 0)}, NO_LABEL),
    ("selective", "", {"test_labels": ONE}, "at least 2 rows, got"),
    ("suitability", "", {"holdout_labels": "right"}, NOTHING_WRONG),
]


@pytest.mark.parametrize(("name", "left_out", "changes", "reason"), SKIPPED)
def test_skipped(example, name, left_out, changes, reason):
    if changes.get("holdout_labels") == "right":
        changes = {"holdout_labels": example.holdout_logits.argmax(axis=1)}
    given = without(example, *left_out.split(), **changes)
    table = explain(given).set_index("analysis")
    assert not table.loc[name, "possible"]
    assert re.search(reason, table.loc[name, "reason"])
    with pytest.raises(ValueError, match=f"{name} is not possible: .*{reason}"):
        run_analysis(name, given, SETTINGS)


def test_a_model_that_says_nothing_where_it_abstains(example):
    """Neither logits nor labels there: two analyses have no random sample, the others go on."""
    r = example.test_abstained
    given = without(
        example,
        test_logits=np.where(r[:, None], NAN, example.test_logits),
        test_labels=np.where(r, -1, example.test_labels),
        other_abstained=r,
    )
    found = run_report(given, learner="linear", seed=3)
    assert list(found.analyses) == ["audit", "counterfactual", "comparison"]
    assert "test_logits are unknown" in found.skipped["selective"]
    assert "test_logits are unknown" in found.skipped["suitability"]
    # With logits, but labels of answers alone, accuracy is that of easy rows.
    given = without(example, test_labels=np.where(r, -1, example.test_labels))
    found = run_report(given, learner="linear", seed=3)
    assert "no random sample" in found.skipped["selective"]
    assert "none is used" in found.analyses["suitability"].warnings[-1]
    assert "suitability_calibration" in found.tables
    items = found.tables["suitability_calibration"]["item"]
    assert not items.str.contains("test rows").any()


def test_one_more_unknown_label_hides_no_choice_of_labels(example):
    """Labels of answers, but for one: those that are known are still no random sample."""
    r = example.test_abstained
    missing = r.copy()
    missing[np.flatnonzero(~r)[0]] = True
    given = without(example, test_labels=np.where(missing, -1, example.test_labels))
    found = run_report(given, learner="linear", seed=3)
    assert "no random sample" in found.skipped["selective"]
    assert "none is used" in found.analyses["suitability"].warnings[-1]


def test_labels_that_are_missing_at_random_are_seldom_doubted():
    rng, doubted, files = np.random.default_rng(8), 0, 400
    for _ in range(files):
        labels = np.where(rng.random(300) < 0.3, -1, 0)
        given = ModelPredictions(
            test_logits=np.tile([1.0, 0.0], (300, 1)),
            test_labels=labels,
            test_abstained=rng.random(300) < 0.3,
        )
        doubted += not_at_random(given)
    assert doubted <= stats.binom.isf(1e-4, files, 1e-3)


def test_a_comparison_says_that_scores_are_not_used_and_uses_them_where_labels_lack(example):
    scores = np.linspace(0, 1, len(example.test_labels))
    given = without(example, test_scores=scores, other_scores=scores)
    found = run_analysis("comparison", given, SETTINGS)
    assert "scores are not used" in found.warnings[-1]
    assert found.verdict == run_analysis("comparison", example, SETTINGS).verdict
    given = without(given, "test_labels")
    assert run_analysis("comparison", given, SETTINGS).verdict.startswith("Decision: ")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (0.91236, "0.912"), (0.9999987, "0.9999987"), (-3.14159, "-3.14"), (1.0, "1")],
)
def test_a_threshold_is_told_with_the_digits_that_matter(value, text):
    assert _threshold(value) == text


def test_a_figure_says_the_level_of_its_intervals(example):
    found = run_analysis("counterfactual", example, replace(SETTINGS, alpha=0.2))
    figure = found.drawings["counterfactual_contamination"].draw()
    assert "80% interval of the bounds" in [t.get_text() for t in figure.legends[0].get_texts()]
    plt.close("all")


def test_skipping_leaves_the_others_alone(example, report):
    given = without(example, "holdout_logits", "member_scores")
    found = run_report(given, learner="linear", seed=3)
    assert set(found.skipped) == {"suitability", "audit"}
    for name, table in found.tables.items():
        pd.testing.assert_frame_equal(table, report.tables[name])
    text = str(found)
    assert "Privacy audit: skipped\n  missing: member_scores" in text
    nothing = run_report(ModelPredictions(test_features=np.ones((3, 1))))
    assert nothing.analyses == {}
    assert set(nothing.skipped) == set(ANALYSES)


def test_probabilities_in_the_place_of_logits_are_noticed(example):
    found = run_analysis(
        "selective",
        without(example, test_logits=special.softmax(example.test_logits, axis=1)),
        SETTINGS,
    )
    assert any("look like probabilities" in text for text in found.warnings)
    clean = run_analysis("selective", example, SETTINGS)
    assert not any("look like probabilities" in text for text in clean.warnings)


def test_log_probabilities_have_no_energy(example):
    log = special.log_softmax(example.test_logits, axis=1)
    found = run_analysis("selective", without(example, test_logits=log), SETTINGS)
    table = found.tables["selective_scores"]
    assert list(table["score"]) == ["softmax response", "entropy", "margin"]
    assert "the energy is the same in all rows" in found.warnings[0]


def test_other_bad_arguments(example):
    with pytest.raises(TypeError, match=r"settings must be of Settings: .*colour"):
        run_report(example, colour=1)
    with pytest.raises(TypeError, match="predictions must be ModelPredictions, got dict"):
        explain({})
    with pytest.raises(ValueError, match=r"name must be one of selective, .*, got 'magic'"):
        run_analysis("magic", example, SETTINGS)
    assert Settings(target=1, delta=0).level == 0.95


def test_groups(example):
    labels, group = example.test_labels, np.array(["b", "a", "a", "c"])[np.arange(450) % 4]
    found = run_analysis("selective", without(example, test_groups=group), SETTINGS)
    table = found.tables["selective_groups"].set_index("group")
    assert table["accuracy"].is_monotonic_increasing
    scores = found.tables["selective_scores"].set_index("score")
    best = scores["guaranteed coverage"].idxmax()
    answers = acceptance_scores(example.test_logits)[best] > scores.loc[best, "guaranteed above"]
    for name in "abc":
        rows = (group == name) & (labels >= 0)
        right = (example.test_logits.argmax(axis=1) == labels)[rows]
        level = 0.05 / 3
        low, high = proportion_confint(right.sum(), len(right), level, method="beta")
        expected = [len(right), right.mean(), low, high, answers[rows].mean()]
        columns = ["rows", "accuracy", "low", "high", "coverage"]
        np.testing.assert_allclose(table.loc[name, columns].astype(float), expected)
        assert table.loc[name, "selective accuracy"] == right[answers[rows]].mean()
    assert not any("groups together" in text for text in found.warnings)
    wrong = np.where(example.test_logits.argmax(axis=1) == labels, "fine", "hard")
    worst = run_analysis("selective", without(example, test_groups=wrong), SETTINGS)
    assert any("in hard (intervals that hold" in text for text in worst.warnings)


def test_no_threshold_no_coverage_in_any_group():
    answers = np.zeros(4, bool)
    table = groups(np.array([1, 0, 1, 1], bool), np.array(["a", "b", "b", "b"]), answers, 0.05)
    assert table["coverage"].tolist() == [0, 0]
    assert table["selective accuracy"].isna().all()
    assert table["group"].tolist() == ["b", "a"]


@pytest.mark.parametrize("n", [1, 2, 7, 50, 3000])
def test_the_interval_of_a_fraction_is_that_of_scipy(n):
    for count in {0, 1, n // 3, n - 1, n}:
        for level in (0.8, 0.95, 0.999):
            known = stats.binomtest(count, n).proportion_ci(level, "exact")
            found = share(np.arange(n) < count, level)
            np.testing.assert_allclose(found, (count / n, *known), atol=1e-10)


@pytest.mark.parametrize("accuracy", [0.6, 0.98])
def test_intervals_of_groups_hold_together(accuracy):
    """All of six groups of 5 to 80 rows, in at least 90% of files, and at most 10% have a note."""
    sizes, repetitions = [5, 10, 20, 20, 40, 80], 1000
    group = np.repeat(list("abcdef"), sizes)
    rng, held, noted = np.random.default_rng(3), 0, 0
    for _ in range(repetitions):
        correct = rng.random(175) < accuracy
        table = groups(correct, group, np.ones(175, bool), 0.1)
        held += ((table["low"] <= accuracy) & (table["high"] >= accuracy)).all()
        noted += bool(_less_accurate(table, share(correct, 0.9)[1]))
    assert held >= stats.binom.ppf(0.001, repetitions, 0.9)
    assert noted <= stats.binom.ppf(0.999, repetitions, 0.1)


def test_progress_is_a_bar_on_standard_error(capsys):
    given = ModelPredictions(member_scores=np.arange(40.0), nonmember_scores=np.arange(40.0))
    quiet, told = run_report(given), run_report(given, progress=True)
    assert "analyses" in capsys.readouterr().err
    assert str(quiet) == str(told)
    run_report(given)
    assert capsys.readouterr().err == ""


# --- files ----------------------------------------------------------------------------------------


def test_export(report, tmp_path):
    paths = report.export(tmp_path / "new" / "folder")
    names = {path.name for path in paths}
    assert names == {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    assert names == {
        "overview.csv",
        "report.txt",
        "next_steps.csv",
        *(f"{name}.csv" for name in report.tables),
        *(f"{name}.svg" for name in report.drawings),
    }
    for name, table in report.tables.items():
        read = pd.read_csv(tmp_path / "new" / "folder" / f"{name}.csv")
        for column in table:
            if pd.api.types.is_float_dtype(table[column]):
                np.testing.assert_allclose(read[column], table[column], rtol=1e-14)
    for path in paths:
        if path.suffix == ".svg":
            assert ElementTree.parse(path).getroot().tag.endswith("svg")
            assert path.stat().st_size > 5000
    overview = pd.read_csv(paths[0])
    listed = " ".join(overview["files"]).split()
    assert {*listed, "overview.csv", "report.txt", "next_steps.csv"} == names
    before = {path.name: path.read_bytes() for path in paths}
    again = report.export(tmp_path / "again")
    assert {path.name: path.read_bytes() for path in again} == before
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    ("module", "name"), [(report_module, "out"), (single_page_module, "out.html")]
)
def test_nothing_is_written_if_a_figure_fails(report, tmp_path, monkeypatch, module, name):
    def fails(*_):
        raise RuntimeError("no ink")

    monkeypatch.setattr(module, "svg_bytes", fails)
    with pytest.raises(RuntimeError, match="no ink"):
        report.export(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_file_is_no_folder_and_a_folder_no_page(report, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"folder must be a folder, got .*file, which is a file"):
        report.export(tmp_path / "file")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(ValueError, match=r"folder must be a file if it ends in .html, got .*html/"):
        report.export(tmp_path / "folder.html")


class Page(HTMLParser):
    """Tags with their attributes, and the text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.open = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_single_page_has_everything_and_needs_nothing(report, tmp_path):
    (path,) = report.export(tmp_path / "new" / "report.html")
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert not page.open
    for one in report.analyses.values():
        said = [one.title, one.verdict, *one.warnings, *one.captions.values()]
        said += [drawing.caption for drawing in one.drawings.values()]
        assert [each for each in said if each not in page.text] == []
    for reason in [*report.skipped.values(), *report.next_steps["what to collect"]]:
        assert reason in page.text
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert [one["alt"] for one in images] == [one.alt for one in report.drawings.values()]
    for one in images:
        kind, _, picture = one["src"].partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert ElementTree.fromstring(base64.b64decode(picture)).tag.endswith("svg")
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert [a["href"][0] for _, a in page.tags if "href" in a] == ["#"] * len(ANALYSES)
    assert {a["href"][1:] for _, a in page.tags if "href" in a} == {
        a["id"] for _, a in page.tags if "id" in a
    }
    cells = sum(table.size for table in report.tables.values())
    assert sum(tag == "td" for tag, _ in page.tags) >= cells > 100
    assert report.export(path)[0].read_text(encoding="utf-8") == text
    assert not plt.get_fignums()


def test_single_page_of_a_hostile_file(report, tmp_path):
    evil = "<script>alert(1)</script>\"'&"
    found = replace(report, source=evil)
    name, one = next(iter(found.analyses.items()))
    table = pd.DataFrame({evil: [evil, "b"], "x": [1234567.0, math.inf], "y": [math.nan, 1e-9]})
    found.analyses[name] = replace(one, tables={name: table}, captions={name: evil})
    try:
        (path,) = found.export(tmp_path / "REPORT.HTML")
    finally:
        found.analyses[name] = one
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert "script" not in {tag for tag, _ in page.tags}
    assert page.text.count(evil) == 5  # title twice, caption, column and cell
    assert all(each in page.text for each in ("1,234,567", "inf", "1e-09"))
    assert "NaN" not in page.text


def test_long_tables_are_cut_on_the_page():
    table = pd.DataFrame({"row": range(201)})
    text = single_page_module._table(table)
    assert text.count("<td>") == 200
    assert "The first 200 of 201 rows." in text
    assert "first" not in single_page_module._table(table[:200])


# --- it is right where the truth is known ---------------------------------------------------------


def allowed(n, rate):
    """Counts that a binomial number is outside of once in a thousand times."""
    return stats.binom.ppf([0.0005, 0.9995], n, rate)


@pytest.mark.parametrize("there", [0.0, 1.0])
def test_bounds_cover_where_some_rows_are_never_answered(there):
    """The worst that is possible there, which an estimate that extrapolates would miss.

    One standard error in the place of two would keep a level of 0.84, not of 0.975: of 100 it is
    noticed with a probability of 0.98, and of 2 x 100 with 0.9996.
    """
    repetitions, covered, alone = 100, 0, 0
    truth = 0.75 * 0.8 + 0.25 * there
    for seed in range(repetitions):
        arrays, _ = certain(seed, there=there)
        found = run_analysis("counterfactual", ModelPredictions(**arrays), SETTINGS)
        covered += found.values["counterfactual_low"] <= truth
        covered -= found.values["counterfactual_high"] < truth
        table = found.tables["counterfactual"].set_index("item")
        low, high = table.loc["counterfactual accuracy there (doubly robust)", ["low", "high"]]
        alone += low <= truth <= high
    least, most = allowed(repetitions, 0.975)
    assert least <= covered <= most
    assert alone < least  # so that the test can fail


def test_one_run_bound_holds_for_one_training():
    """Randomised response at epsilon = 1 in one training: its scores are equal in many points."""
    repetitions, n, beyond = 200, 400, 0
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, 23])
        members = rng.random(n) < 0.5
        said = np.where(rng.random(n) < special.expit(1), members, ~members).astype(float)
        given = ModelPredictions(
            member_scores=said[members], nonmember_scores=said[~members], delta=0.0
        )
        beyond += run_analysis("audit", given, Settings(seed=seed)).values["audit_lower"] > 1
    assert 0 < beyond <= allowed(repetitions, 0.05)[1]  # it is exact but for whole numbers


# --- abstention by a rule -------------------------------------------------------------------------


def thresholded(features, labels, quantile, seed, model=None):
    """A model that abstains below a quantile of its softmax response, on half of the rows."""
    rng = np.random.default_rng([seed, len(labels)])
    train, test = np.array_split(rng.permutation(len(labels)), 2)
    model = make_pipeline(StandardScaler(), model or LogisticRegression(max_iter=300))
    p = model.fit(features[train], labels[train]).predict_proba(features[test])
    logits, sure = np.log(np.clip(p, 1e-9, 1)), p.max(axis=1)
    return {
        "test_logits": logits,
        "test_labels": labels[test],
        "test_abstained": sure <= np.quantile(sure, quantile),
        "test_features": features[test],
    }


def test_a_threshold_of_its_own_leaves_only_bounds_and_they_hold():
    """Four data sets and three models; the labels of abstained rows are told afterwards."""
    given = [getattr(datasets, f"load_{n}")(return_X_y=True)
             for n in ("digits", "breast_cancer", "wine", "iris")]  # fmt: skip
    models = (
        LogisticRegression(max_iter=300),
        GaussianNB(),
        DecisionTreeClassifier(min_samples_leaf=10, random_state=0),
    )
    for x, y in given:
        for seed, model in enumerate(models):
            arrays = thresholded(x, y, (0.1, 0.2, 0.3)[seed], seed, model)
            truth = (arrays["test_logits"].argmax(axis=1) == arrays["test_labels"]).mean()
            r = arrays["test_abstained"]
            if (~r).sum() < 30:
                continue  # too few answers: nothing is said at all
            arrays["test_labels"] = np.where(r, -1, arrays["test_labels"])
            found = run_analysis("counterfactual", ModelPredictions(**arrays), SETTINGS).values
            assert "counterfactual" not in found
            assert found["counterfactual_least"] <= truth <= found["counterfactual_most"]
            assert found["counterfactual_most"] - found["counterfactual_least"] == pytest.approx(
                r.mean()
            )


def test_a_threshold_is_named_in_the_verdict_and_before_the_truth():
    arrays = thresholded(*datasets.load_digits(return_X_y=True), 0.2, 0)
    found = run_analysis("counterfactual", ModelPredictions(**arrays), SETTINGS)
    assert "softmax response alone tells abstained from answered rows" in found.verdict
    assert "no file says where between" in found.verdict
    assert not any("doubly robust" in item and "there" not in item
                   for item in found.tables["counterfactual"]["item"])  # fmt: skip
    assert "counterfactual_contamination" not in found.tables
    assert f"answers in some of the {arrays['test_abstained'].sum()} rows" in found.next_steps[0]
    # Known at its own score, not by a name: logits that are told only for answers show nothing.
    silent = np.where(arrays["test_abstained"][:, None], NAN, arrays["test_logits"])
    found = run_analysis(
        "counterfactual", ModelPredictions(**(arrays | {"test_logits": silent})), SETTINGS
    )
    assert "there are no logits where it abstained" in found.verdict
    assert "counterfactual" not in found.values


def test_a_rule_beside_a_coin_is_bounded_where_it_is_a_rule():
    rng = np.random.default_rng(8)
    z = np.column_stack([rng.normal(1.5, 1.5, 900), np.zeros(900)])
    sure = np.abs(z[:, 0] - z[:, 1])
    never = sure < np.quantile(sure, 0.15)
    given = ModelPredictions(
        test_logits=z,
        test_labels=(rng.random(900) < special.expit(-z[:, 0])).astype(int),
        test_abstained=never | (rng.random(900) < 0.3),
        test_features=rng.normal(size=(900, 2)),
    )
    found = run_analysis("counterfactual", given, SETTINGS)
    truth = (z.argmax(axis=1) == given.test_labels).mean()
    assert found.values["answerable"] == pytest.approx(0.85, abs=0.02)
    wide = found.values["counterfactual_most"] - found.values["counterfactual_least"]
    assert wide == pytest.approx(1 - found.values["answerable"], abs=0.01)
    assert found.values["counterfactual_least"] < truth < found.values["counterfactual_most"]


@pytest.mark.parametrize(("scale", "middle"), [(1e-13, 0.0), (1e13 / 7, 0.0), (1.0, 1e6)])
def test_a_rule_on_a_feature_is_found_in_whatever_unit(scale, middle):
    rng = np.random.default_rng(9)
    feature = np.round(rng.random(900), 2)
    r = (feature < 0.2) | (rng.random(900) < 0.3)
    arrays = {
        "test_logits": rng.normal(size=(900, 2)),
        "test_labels": rng.integers(0, 2, 900),
        "test_abstained": r,
    }
    one, other = (
        run_analysis("counterfactual", ModelPredictions(**arrays, test_features=x), SETTINGS).values
        for x in (feature[:, None], middle + scale * feature[:, None])
    )
    assert 0.7 < one["answerable"] < 0.9
    assert other["answerable"] == one["answerable"]
    for end in ("counterfactual_least", "counterfactual_most"):
        assert other[end] == pytest.approx(one[end], abs=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e-10])
def test_a_rule_of_a_model_that_is_never_sure_is_found(scale):
    """Its probabilities are all but one half, and yet it abstains by them."""
    rng = np.random.default_rng(10)
    z = scale * rng.normal(size=(900, 2))
    gap = np.abs(z[:, 0] - z[:, 1])
    given = ModelPredictions(
        test_logits=z,
        test_labels=rng.integers(0, 2, 900),
        test_abstained=gap < np.quantile(gap, 0.2),
        test_features=rng.normal(size=(900, 1)),
    )
    found = run_analysis("counterfactual", given, SETTINGS)
    assert "alone tells abstained from answered rows" in found.verdict
    assert found.values["answerable"] == pytest.approx(0.8)


def test_a_fitted_propensity_that_shows_a_rule_leaves_bounds(example):
    """A rule on the sum of two features: the warning is in the report, not on stderr."""
    x = np.random.default_rng(4).random((450, 2))
    r = x.sum(axis=1) > 1.2
    rule = without(example, "test_propensities", test_abstained=r, test_features=x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run_analysis("counterfactual", rule, SETTINGS)
    assert "counterfactual" not in found.values
    assert "positivity" in found.verdict
    assert "positivity" in found.warnings[0]


def test_the_truth_comes_first_where_the_interval_misses_it():
    """Abstention on what no score and no feature shows: all withheld answers are wrong."""
    rng = np.random.default_rng(5)
    right = rng.random(600) < 0.7
    r = ~right & (rng.random(600) < 0.8)
    labels = rng.integers(2, size=600)
    given = ModelPredictions(
        test_logits=np.eye(2)[np.where(right, labels, 1 - labels)],
        test_labels=labels,
        test_abstained=r,
        test_features=rng.random((600, 2)),
        other_logits=np.eye(2)[labels],
        other_abstained=rng.random(600) < 0.3,
    )
    found = run_analysis("counterfactual", given, SETTINGS)
    said = f"the accuracy of all predictions is {right.mean():.3f}"
    assert said in found.verdict.split(".  ")[0][:140]
    assert "The labels decide." in found.verdict
    assert found.verdict.startswith("The interval below misses: by the labels")
    table = found.tables["counterfactual_contamination"].set_index("share")
    assert table.loc[1.0, "low"] <= right.mean() <= table.loc[1.0, "high"]
    found = run_analysis("comparison", given, SETTINGS)
    assert found.verdict.startswith("The interval below misses: by the labels")
    assert found.drawings["comparison_contamination"].draw().axes
    plt.close("all")


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
    value, *ends = _with_outcome((sum(interval) / 2, *interval))
    assert _outcome(interval).endswith(outcome)
    assert _outcome([float(end) for end in ends]) == _outcome(interval)
    assert {len(text.partition(".")[2]) for text in (value, *ends)} == {digits}


def test_a_verdict_shows_the_digits_that_it_rests_on():
    """Right in 8 of 40,000 rows more (4 would not do): not from +0.000 on, but from above."""
    n = 40000
    labels = np.arange(n) % 2
    wrong = np.where(np.arange(n) < 8, 1 - labels, labels)
    given = ModelPredictions(
        test_logits=np.eye(2)[labels],
        other_logits=np.eye(2)[wrong],
        test_labels=labels,
        test_abstained=np.zeros(n, bool),
        other_abstained=np.zeros(n, bool),
        test_features=np.random.default_rng(0).normal(size=(n, 2)),
    )
    found = run_analysis("comparison", given, SETTINGS)
    low = found.values["difference_low"]
    assert 0 < low < 0.0002
    shown = re.search(r"\(\+([\d.]+) to \+[\d.]+\): the model would be better", found.verdict)
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
    given = ModelPredictions(
        test_logits=np.eye(2)[np.where(right[0], labels, 1 - labels)],
        other_logits=np.eye(2)[np.where(right[1], labels, 1 - labels)],
        test_labels=labels,
        test_abstained=never[0] | coin,
        other_abstained=never[1] | ~coin,
        test_features=x,
        test_propensities=np.where(never[0], 1.0, 0.5),
        other_propensities=np.where(never[1], 1.0, 0.5),
    )
    found = run_analysis("comparison", given, SETTINGS).values
    wide = found["difference_most"] - found["difference_least"]
    assert wide == pytest.approx(never[0].mean() + never[1].mean(), abs=0.02)
    assert found["difference_least"] < -0.1 < found["difference_most"]


@pytest.mark.slow
def test_drawn_abstention_keeps_its_point_and_its_level():
    """Propensities in [0.1, 0.9]; a step is no logistic curve: 0.31 wide without calibration.

    One standard error in the place of two would keep a level of 0.68. Of 40 reports that is noticed
    with a probability of 0.87 in one design and of 0.998 in one of three; a level of 0.95 fails in
    one of three with 6e-5.
    """
    repetitions = 40
    found = drawn_abstention(["linear"], repetitions=repetitions).set_index("propensity")
    assert (found["points"] >= 0.97).all()
    reports = (found["points"] * repetitions).round()
    held = (found["coverage"] * reports).round()
    assert (held >= stats.binom.ppf(3e-5, reports, 0.95)).all()
    assert (found["low"] < found["coverage"]).all()
    assert found.loc["step in confidence", "width"] < 0.26
    assert (found.loc[["confidence", "feature"], "width"] < 0.17).all()  # 0.11 and 0.16 without


def test_what_analyses_need_are_arrays_of_the_format():
    table = needs()
    assert table["analysis"].tolist() == [*ANALYSES]
    names = {name for name, *_ in FORMAT}
    for column in ("needs", "would add"):
        assert {each for text in table[column] for each in text.split(", ") if each} <= names

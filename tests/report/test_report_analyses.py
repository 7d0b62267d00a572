"""Every analysis of a report is the library's own, is skipped for a stated reason, and is right."""

import base64
import itertools
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from scipy import special, stats
from sklearn.metrics import roc_auc_score
from statsmodels.stats.proportion import proportion_confint

from lib import audit, plot, selective
from lib.report import (
    ANALYSES,
    FORMAT,
    ModelPredictions,
    Settings,
    explain,
    needs,
    run_analysis,
    run_report,
    single_page,
)
from lib.report.audit import one_run_bound
from lib.report.selective import groups, less_accurate
from lib.report.suitability import printable, suitability_report
from lib.report.types import AUDIT_DESIGNS, acceptance_scores, not_at_random, share

NAN = math.nan
SETTINGS = Settings(learner="linear", seed=3)


@pytest.fixture(scope="module")
def report(example):
    return run_report(example, learner="linear", seed=3)


def without(example, *names, **changes):
    """The example with arrays left out or put in others' place."""
    kept = {k: v for k, v in example.given.items() if k not in names}
    return ModelPredictions(**(kept | changes))


def cell(table, item, column="value"):
    return table.set_index(table.columns[0]).loc[item, column]


# --- each analysis is the library's ---------------------------------------------------------------


def test_everything_is_done_for_the_example(report):
    assert list(report.analyses) == list(ANALYSES)
    assert report.skipped == {}
    assert report.overview["possible"].all()


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
        direct = selective.guaranteed_threshold(correct, score, 0.95, 1 - 0.05 / 4)
        assert table.loc[name, "guaranteed coverage"] == (direct.coverage or 0.0)
    found = report.analyses["selective"].values
    assert 0 < table["guaranteed coverage"].max() == found["guaranteed_coverage"]
    assert found["guaranteed_coverage"] < found["best_coverage"]
    summary = report.tables["selective"]
    low, high = proportion_confint(correct.sum(), len(correct), 0.05, method="beta")
    assert cell(summary, "accuracy") == correct.mean()
    assert cell(summary, "accuracy", "low") == pytest.approx(low)
    assert cell(summary, "accuracy", "high") == pytest.approx(high)
    assert cell(summary, "wrong predictions") == (~correct).sum()


def test_coverage_at_the_target_is_that_of_a_threshold():
    """Ten right answers at 0.9, then ten at 0.8 of which half are right: none of those is taken."""
    p = np.repeat([0.9, 0.8], 10)
    correct = np.r_[np.ones(10, bool), np.arange(10) % 2 == 0]
    logits = np.log(np.column_stack([1 - p, p]))
    given = ModelPredictions(test_logits=logits, test_labels=correct.astype(int))
    assert selective.coverage_at_accuracy(correct, p, 0.9, randomized=True) > 0.5
    assert run_analysis("selective", given, Settings(target=0.9)).values["best_coverage"] == 0.5
    equal = ModelPredictions(test_logits=[[0.0, 1.0]] * 20, test_labels=correct.astype(int))
    for target, coverage in ((0.9, 0), (0.7, 1)):
        found = run_analysis("selective", equal, Settings(target=target)).values
        assert found["best_coverage"] == coverage


@pytest.mark.parametrize(
    ("turn", "noted"),
    [(special.softmax, "the energy is the same"), (special.log_softmax, "the energy is the same")],
)
def test_what_is_no_logit_is_noticed(example, report, turn, noted):
    given = without(example, test_logits=turn(example.test_logits, axis=1))
    found = run_analysis("selective", given, SETTINGS)
    assert any(noted in text for text in found.warnings)
    assert not any(noted in text for text in report.analyses["selective"].warnings)
    assert "energy" not in set(found.tables["selective_scores"]["score"])
    assert any("logarithms are taken" in said for said in given.reading) == (
        turn is special.softmax
    )


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


def test_audit(example, report):
    scores = np.r_[example.member_scores, example.nonmember_scores]
    members = np.arange(len(scores)) < len(example.member_scores)
    table = report.tables["audit_bounds"].set_index(["threshold", "method"])
    counts = audit.roc_counts(scores, members)
    for method in audit.METHODS:
        naive = audit.best_lower_bound(counts, 1e-5, 0.95, method)[1]
        assert table.loc[("best of all (biased)", method), "lower bound"] == naive
        assert table.loc[("best of all (biased)", method), "holds"] == "no"
    place, union = audit.union_lower_bound(counts, 1e-5, 0.95, "clopper-pearson")
    exact = table.loc[("best of all, corrected for the choice", "clopper-pearson")]
    assert exact["lower bound"] == union > 0
    assert exact["low"] <= union <= exact["high"]
    threshold = audit.roc_thresholds(scores)[place]
    assert cell(report.tables["audit"], "chosen threshold") == threshold
    area = roc_auc_score(members, scores)
    assert cell(report.tables["audit"], "ROC AUC of the attack") == pytest.approx(area)
    order, one = np.argsort(scores, kind="stable"), 0.0
    for fraction in (0.01, 0.02, 0.05, 0.1, 0.3):
        half = max(1, round(fraction * len(scores) / 2))
        right = int(members[order[-half:]].sum() + (~members[order[:half]]).sum())
        one = max(one, audit.one_run_epsilon(right, 2 * half, len(scores), 1e-5, 0.99))
    row = table.loc["none: the surest points are guessed, corrected", "lower bound"]
    assert row.item() == one


@pytest.mark.parametrize(
    ("epsilon", "said"),
    [(0.01, "is refuted"), (5.0, "does not contradict"), (math.inf, "No finite"), (None, "No fin")],
)
def test_audit_compares_with_the_claim(example, epsilon, said):
    assert said in run_analysis("audit", without(example, epsilon=epsilon), SETTINGS).verdict


def test_delta_is_that_of_the_file_if_it_says_one(example):
    for given, delta in ((example, 1e-5), (without(example, "delta"), 0.01)):
        table = run_analysis("audit", given, Settings(delta=0.01)).tables["audit"]
        assert cell(table, "delta") == delta


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
    """Not the union bound for one run, and never the larger of the two."""
    apart = {"one run": 0, "independent": 0}
    rows = {
        "one run": ("none: the surest points are guessed, corrected", "one run"),
        "independent": ("best of all, corrected for the choice", "clopper-pearson"),
    }
    for seed in (7, 8):
        given = one_training(seed, 0.5)
        for design, row in rows.items():
            found = run_analysis("audit", given, Settings(seed=seed, audit_design=design))
            table = found.tables["audit_bounds"].set_index(["threshold", "method"])
            own = table.loc[row, "lower bound"]
            assert found.values["audit_lower"] == own
            assert table.loc[row, "holds"] == f"if {AUDIT_DESIGNS[design]}"
            assert ("is refuted" in found.verdict) == (own > 0.5)
            other = {"one run": "audit_union", "independent": "audit_one_run"}[design]
            apart[design] += own <= 0.5 < found.values[other]
    assert min(apart.values()) > 0  # so that taking the larger would fail
    assert Settings().audit_design == "one run"


@pytest.mark.parametrize(
    ("a", "b", "fair"), [(400, 600, False), (600, 400, False), (480, 520, True)]
)
def test_numbers_that_no_fair_coin_gives(a, b, fair):
    rng = np.random.default_rng(1)
    given = ModelPredictions(
        member_scores=rng.normal(2, 1, a), nonmember_scores=rng.normal(size=b), epsilon=0.1
    )
    found = run_analysis("audit", given, Settings())
    p = stats.binomtest(a, a + b).pvalue
    assert cell(found.tables["audit"], "p-value of these numbers by fair coins") == p
    assert (p >= 1e-3) == fair
    assert found.values["audit_one_run"] > 0.5
    assert found.values["audit_lower"] == (found.values["audit_one_run"] if fair else 0)
    assert ("refuted" in found.verdict) == fair
    # The other design needs no fair coins.
    independent = run_analysis("audit", given, Settings(audit_design="independent"))
    assert independent.values["audit_lower"] == found.values["audit_union"] > 0.1


def test_a_weak_attack_still_chooses_a_threshold():
    """Where there is no Clopper-Pearson bound for all thresholds, Jeffreys' chooses."""
    seen = 0
    for seed in range(40):
        rng = np.random.default_rng([seed, 13])
        scores = np.r_[rng.normal(1, 1, 24), rng.normal(size=24)]
        members = np.arange(48) < 24
        counts, each = audit.roc_counts(scores, members), 1 - 2 * 0.05 / 48
        if audit.best_lower_bound(counts, 1e-5, each, "clopper-pearson")[1] > 0:
            continue
        index, bound = audit.best_lower_bound(counts, 1e-5, each, "jeffreys")
        if bound == 0:
            continue
        seen += 1
        given = ModelPredictions(member_scores=scores[:24], nonmember_scores=scores[24:])
        found = run_analysis("audit", given, Settings(seed=seed, audit_design="independent"))
        threshold = audit.roc_thresholds(scores)[index]
        assert cell(found.tables["audit"], "chosen threshold") == threshold < math.inf
        assert found.values["audit_lower"] == 0
    assert seen > 2


def test_equal_scores_are_guessed_in_a_random_order():
    """Neither kind comes first: the bound is that of scores told apart by chance."""
    rng = np.random.default_rng(17)
    a, b = (rng.random(500) < p for p in (0.85, 0.4))
    members = np.arange(1000) < 500

    def bound(noise):
        return one_run_bound(
            np.r_[a + noise[0], b + noise[1]], members, Settings().delta, Settings()
        )

    apart = [bound(rng.uniform(0, 0.5, size=(2, 500))) for _ in range(12)]
    assert min(apart) - 0.05 <= bound(np.zeros((2, 500))) <= max(apart) + 0.05


def test_one_run_bound_holds_for_one_training():
    """Randomised response at epsilon = 1 in one training: its scores are equal in many points.

    A report takes this bound unless no fair coins give such numbers: it is looked at once.
    """
    repetitions, n, beyond = 200, 400, 0
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, 23])
        members = rng.random(n) < 0.5
        said = np.where(rng.random(n) < special.expit(1), members, ~members).astype(float)
        bound = one_run_bound(said, members, 0.0, Settings())
        beyond += bound > 1
    given = ModelPredictions(
        member_scores=said[members], nonmember_scores=said[~members], delta=0.0
    )
    assert run_analysis("audit", given, Settings()).values["audit_lower"] == bound
    assert 0 < beyond <= stats.binom.ppf(0.9995, repetitions, 0.05)  # exact but for whole numbers


# --- groups ---------------------------------------------------------------------------------------


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
        low, high = proportion_confint(right.sum(), len(right), 0.05 / 3, method="beta")
        expected = [len(right), right.mean(), low, high, answers[rows].mean()]
        columns = ["rows", "accuracy", "low", "high", "coverage"]
        np.testing.assert_allclose(table.loc[name, columns].astype(float), expected)
        assert table.loc[name, "selective accuracy"] == right[answers[rows]].mean()
    table = groups(np.array([1, 0, 1, 1], bool), np.array(list("abbb")), np.zeros(4, bool), 0.05)
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
    repetitions, held, noted = 300, 0, 0
    group = np.repeat(list("abcdef"), [5, 10, 20, 20, 40, 80])
    rng = np.random.default_rng(3)
    for _ in range(repetitions):
        correct = rng.random(175) < accuracy
        table = groups(correct, group, np.ones(175, bool), 0.1)
        held += ((table["low"] <= accuracy) & (table["high"] >= accuracy)).all()
        noted += bool(less_accurate(table, share(correct, 0.9)[1]))
    assert held >= stats.binom.ppf(0.001, repetitions, 0.9)
    assert noted <= stats.binom.ppf(0.999, repetitions, 0.1)


def test_a_group_that_is_clearly_less_accurate_is_named(example):
    right = example.test_logits.argmax(axis=1) == example.test_labels
    worst = without(example, test_groups=np.where(right, "fine", "hard"))
    assert any("in hard" in text for text in run_analysis("selective", worst, SETTINGS).warnings)


# --- what is skipped, and why ---------------------------------------------------------------------

FIRST = np.arange(450) < 20
SKIPPED = [
    ("selective", "test_logits", {}, "missing: test_logits$"),
    ("suitability", "holdout_labels user_logits", {}, "missing: holdout_labels, user_logits"),
    ("audit", "nonmember_scores", {}, "missing: nonmember_scores"),
    ("audit", "", {"member_scores": [1.0]}, "member_scores"),
    ("counterfactual", "test_abstained", {}, "missing: test_abstained"),
    ("counterfactual", "test_features test_propensities", {}, r"\(or test_propensities\)"),
    ("comparison", "test_features other_propensities", {}, r"\(or test_pro.* and other_propensiti"),
    ("comparison", "other_logits", {}, "missing: other_logits"),
    ("counterfactual", "test_propensities", {"test_abstained": ~FIRST}, "at least 30 rows"),
    ("comparison", "other_propensities", {"other_abstained": ~FIRST}, "at least 30 rows"),
    ("counterfactual", "", {"test_labels": np.where(FIRST, -1, 0)}, "test_labels must be known"),
    ("selective", "", {"test_labels": np.where(np.arange(450) < 1, 0, -1)}, "at least 2 rows"),
    ("suitability", "", {"holdout_labels": "right"}, "holdout_labels.*5 wrong"),
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


def test_skipping_leaves_the_others_alone(example, report):
    found = run_report(
        without(example, "holdout_logits", "member_scores"), learner="linear", seed=3
    )
    assert set(found.skipped) == {"suitability", "audit"}
    for name, table in found.tables.items():
        pd.testing.assert_frame_equal(table, report.tables[name])
    nothing = run_report(ModelPredictions(test_features=np.ones((3, 1))))
    assert nothing.analyses == {}
    assert set(nothing.skipped) == set(ANALYSES)


def test_a_model_that_says_nothing_where_it_abstains(example):
    """Neither logits nor labels there: two analyses have no random sample, the others go on."""
    r = example.test_abstained
    logits = np.where(r[:, None], NAN, example.test_logits)
    labels = np.where(r, -1, example.test_labels)
    silent = without(example, test_logits=logits, test_labels=labels, other_abstained=r)
    found = run_report(silent, learner="linear", seed=3)
    assert list(found.analyses) == ["audit", "counterfactual", "comparison"]
    # With logits, but labels of answers alone, accuracy is that of easy rows; one more unknown
    # label hides no choice of labels.
    missing = r.copy()
    missing[np.flatnonzero(~r)[0]] = True
    for unknown in (r, missing):
        given = without(example, test_labels=np.where(unknown, -1, example.test_labels))
        found = run_report(given, learner="linear", seed=3)
        assert "no random sample" in found.skipped["selective"]
        assert "none is used" in found.analyses["suitability"].warnings[-1]
        items = found.tables["suitability_calibration"]["item"]
        assert not items.str.contains("test rows").any()


def test_labels_that_are_missing_at_random_are_seldom_doubted():
    rng, doubted, files = np.random.default_rng(8), 0, 400
    for _ in range(files):
        given = ModelPredictions(
            test_logits=np.tile([1.0, 0.0], (300, 1)),
            test_labels=np.where(rng.random(300) < 0.3, -1, 0),
            test_abstained=rng.random(300) < 0.3,
        )
        doubted += not_at_random(given)
    assert doubted <= stats.binom.isf(1e-4, files, 1e-3)


def test_what_analyses_need_are_arrays_of_the_format():
    table = needs()
    assert table["analysis"].tolist() == [*ANALYSES]
    names = {name for name, *_ in FORMAT}
    for column in ("needs", "would add"):
        assert {each for text in table[column] for each in text.split(", ") if each} <= names


# --- files ----------------------------------------------------------------------------------------


def test_export(report, tmp_path):
    paths = report.export(tmp_path / "new" / "folder")
    names = {path.name for path in paths}
    assert names == {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    others = {"overview.csv", "report.txt", "next_steps.csv"}
    figures = {f"{name}.svg" for name in report.drawings}
    assert names == others | figures | {f"{name}.csv" for name in report.tables}
    for name, table in report.tables.items():
        read = pd.read_csv(paths[0].with_name(f"{name}.csv"))
        for column in table.select_dtypes("floating"):
            np.testing.assert_allclose(read[column], table[column], rtol=1e-14)
    for name in figures:
        assert ElementTree.parse(paths[0].with_name(name)).getroot().tag.endswith("svg")
    assert {*" ".join(pd.read_csv(paths[0])["files"]).split()} == names - others
    assert not plt.get_fignums()


def test_export_of_the_same_is_the_same(example, tmp_path):
    scores = {name: value for name, value in example.given.items() if "member_scores" in name}
    report = run_report(ModelPredictions(**scores))
    one, two = (report.export(tmp_path / name) for name in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    assert {".csv", ".svg", ".txt"} == {path.suffix for path in one}


@pytest.mark.parametrize(("module", "name"), [(plot, "out"), (single_page, "out.html")])
def test_nothing_is_written_if_a_figure_fails(report, tmp_path, monkeypatch, module, name):
    def fails(*_):
        raise RuntimeError("no ink")

    monkeypatch.setattr(module, "svg_bytes", fails)
    with pytest.raises(RuntimeError, match="no ink"):
        report.export(tmp_path / name)
    assert not (tmp_path / name).exists()


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
    page = Page(path.read_text(encoding="utf-8"))
    assert not page.open
    for one in report.analyses.values():
        said = [one.title, one.verdict, *one.captions.values()]
        said += [drawing.caption for drawing in one.drawings.values()]
        said += [text[:1].upper() + text[1:] for text in (*one.warnings, *one.next_steps)]
        assert [each for each in said if each not in page.text] == []
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert [one["alt"] for one in images] == [one.alt for one in report.drawings.values()]
    for one in images:
        kind, _, picture = one["src"].partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert ElementTree.fromstring(base64.b64decode(picture)).tag.endswith("svg")
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in page.tags}
    links = [a["href"] for _, a in page.tags if "href" in a]
    assert {*links} == {"#" + a["id"] for _, a in page.tags if "id" in a}
    heads = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert heads[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(heads))
    assert heads.count(1) == 1
    cells = sum(table.size for table in report.tables.values())
    assert sum(tag == "td" for tag, _ in page.tags) >= cells > 100


def test_single_page_of_a_hostile_file(report, tmp_path):
    evil = "<script>alert(1)</script>\"'&"
    name, one = next(iter(report.analyses.items()))
    table = pd.DataFrame({evil: [evil, "b"], "x": [1234567.0, math.inf], "y": [math.nan, 1e-9]})
    more = {"tables": one.tables | {"evil": table}, "captions": one.captions | {"evil": evil}}
    changed = {name: replace(one, **more)}
    facts = {"File": evil, evil: evil, "Command": evil}
    found = replace(report, facts=facts, reading=(evil,), analyses=changed)
    (path,) = found.export(tmp_path / "REPORT.HTML")
    page = Page(path.read_text(encoding="utf-8"))
    assert "script" not in {tag for tag, _ in page.tags}
    assert page.text.count(evil) == 8  # file, a fact and its name, command, reading; table's 3
    assert all(each in page.text for each in ("1,234,567", "inf", "1e-09"))
    assert "NaN" not in page.text

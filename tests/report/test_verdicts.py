"""The first screen of a page says what the analyses decided, of the right file, and no more."""

import hashlib
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from lib.plot import svg_pair
from lib.report import ModelPredictions, Settings, report, run_analysis, run_report
from lib.report.__main__ import main
from lib.report.confidence import CLOSE, by_confidence, error_limits, judged
from lib.report.figures import plot_verdicts
from lib.report.findings import Outcome
from lib.report.single_page import single_page
from lib.report.verdicts import ALWAYS, QUESTIONS, SIGNS, verdicts

FAST = {"learner": "linear"}


def calibrated(n, seed, twist=1.0):
    """Confidences of a model of two classes, and its hits; `twist` makes it surer than it is."""
    rng = np.random.default_rng(seed)
    truth = special.expit(np.abs(rng.normal(1.0, 1.5, n)))
    confidence = special.expit(twist * special.logit(truth))
    return confidence, rng.random(n) < truth


def rejected(least, wrong, runs, alpha=0.05):
    """Whether so many errors in so many runs are more than a level allows, at 1 in 10,000."""
    return stats.binom.sf(wrong - 1, runs, alpha) < least


def test_a_calibrated_model_is_seldom_called_anything_else():
    runs, called, missed = 200, 0, 0
    for seed in range(runs):
        bins = by_confidence(*calibrated(300, seed), 0.05)
        called += judged(bins) not in (Outcome.CLOSE, Outcome.NOT_SHOWN_TRUE)
        missed += error_limits(bins)[0] > 0
    assert not rejected(1e-4, called, runs)
    assert not rejected(1e-4, missed, runs)


def test_a_model_that_is_off_is_seldom_called_close_and_found_with_many_rows():
    # In many rows, how far confidence is off on average, bin by bin: more than what is close.
    bins = by_confidence(*calibrated(200_000, 9, 1.5), 0.05)
    truth = float(np.abs(bins["accuracy"] - bins["confidence"]) @ bins["rows"] / 200_000)
    assert CLOSE < truth < 0.08
    assert judged(bins) is Outcome.TOO_SURE
    runs, close, covered = 150, 0, 0
    for seed in range(runs):
        few = by_confidence(*calibrated(2000, seed, 1.5), 0.05)
        low, high = error_limits(few)
        close += judged(few) is Outcome.CLOSE
        covered += low <= truth <= high
    assert not rejected(1e-4, close, runs)
    assert not rejected(1e-4, runs - covered, runs)
    assert judged(by_confidence(*calibrated(200_000, 9), 0.05)) is Outcome.CLOSE
    assert judged(by_confidence(*calibrated(200_000, 9, 0.5), 0.05)) is Outcome.TOO_MODEST


def test_clusters_make_the_intervals_of_bins_wider():
    confidence, correct = calibrated(100, 0)
    alone = by_confidence(confidence, correct, 0.05)
    four = [np.repeat(values, 4) for values in (confidence, correct)]
    together = by_confidence(*four, 0.05, np.repeat(np.arange(100), 4))
    naive = by_confidence(*four, 0.05)
    full = naive["rows"] > 60
    wide = (together["high"] - together["low"])[full]
    assert (wide > (naive["high"] - naive["low"])[full]).all()
    np.testing.assert_allclose(alone["accuracy"], together["accuracy"])


def two_classes(n=400, seed=0, **more):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    logits = np.column_stack([np.zeros(n), (2 * labels - 1) * 1.5 + rng.normal(size=n)])
    return ModelPredictions(test_logits=logits, test_labels=labels, **more)


def words(given, **settings):
    chosen = Settings(**FAST, **settings)
    found = run_report(given, **FAST, **settings)
    return {one.name: (one.light, one.word) for one in verdicts(found.analyses, chosen)}


def test_words_follow_the_analyses():
    good = two_classes()
    assert words(good)["good"] == ("yes", "BETTER THAN A CONSTANT")
    assert words(good)["when"][1] == "WHERE IT IS SURE"
    assert words(good, target=0.6)["when"] == ("yes", "ALWAYS")
    assert "there" not in words(good)
    wrong = ModelPredictions(test_logits=good.test_logits, test_labels=1 - good.test_labels)
    assert words(wrong)["good"] == ("no", "WORSE THAN A CONSTANT")
    assert words(wrong)["trust"] == ("no", "SURER THAN IT IS RIGHT")
    assert words(wrong)["when"] == ("no", "NOTHING IS PROMISED")
    hard = ModelPredictions(test_predicted=[0, 1] * 40, test_labels=[0, 1] * 39 + [1, 0])
    assert words(hard) == {"good": ("yes", "BETTER THAN A CONSTANT")}
    right = ModelPredictions(test_predicted=[0, 1] * 40, test_labels=[0, 1] * 40)
    assert words(right)["good"] == ("care", "ALL RIGHT: CHECK THE LABELS")
    told = ModelPredictions(test_correct=[True, False] * 40)
    assert words(told)["good"] == ("open", "ACCURACY ONLY")


def test_words_on_another_data_set_are_those_of_the_verdict():
    rows = {"holdout": two_classes(600, 1), "test": two_classes(600, 2)}
    arrays = {
        f"{p}_{a}": getattr(g, f"test_{a}") for p, g in rows.items() for a in ("logits", "labels")
    }
    user = two_classes(600, 3)
    for labels, word in (
        (user.test_labels, "SUITABLE"),
        (1 - user.test_labels, "UNSUITABLE"),
        (None, "SUITABLE, IF THE ESTIMATES HOLD"),
    ):
        given = ModelPredictions(**arrays, user_logits=user.test_logits, user_labels=labels)
        found = run_analysis("suitability", given, Settings(margin=0.1))
        (one,) = verdicts({"suitability": found}, Settings(margin=0.1))
        assert one.word == word, found.verdict


@pytest.mark.parametrize(
    ("claim", "light"), [(None, "care"), (0.01, "no"), (50.0, "care")], ids=["none", "low", "high"]
)
def test_a_claim_of_privacy_is_refuted_or_not(claim, light):
    rng = np.random.default_rng(0)
    member = rng.random(400) < 0.5
    scores = member * 3.0 + rng.normal(size=400)
    parts = {"member_scores": scores[member], "nonmember_scores": scores[~member]}
    found = words(ModelPredictions(**parts, epsilon=claim, delta=1e-5))
    assert found["private"][0] == light
    assert ("REFUTED" in found["private"][1]) == (claim is not None)


def test_a_pair_of_models_is_compared_in_a_word():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 300)
    worse = np.where(rng.random(300) < 0.4, 1 - labels, labels)
    given = two_classes(300)
    given = replace(given, test_labels=labels, test_logits=4.0 * np.eye(2)[labels])
    assert words(replace(given, rivals={"b": worse}))["better"] == ("yes", "BETTER")
    assert words(replace(given, rivals={"b": labels}))["better"] == ("care", "NOT DECIDED")


def test_the_head_names_file_hash_rows_classes_day_and_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.chdir(tmp_path)
    text = "label,p_cat,p_dog\n" + "cat,0.9,0.1\ndog,0.2,0.8\ndog,0.6,0.4\n" * 20
    (tmp_path / "own.csv").write_text(text)
    pages = []
    for name in ("a.html", "b.html"):
        assert main(["own.csv", "--out", name]) == 0
        pages.append((tmp_path / name).read_text())
    assert pages[0].replace("a.html", "b.html") == pages[1]
    digest = hashlib.sha256(text.encode()).hexdigest()
    said = [digest, "60 test rows", "2 (cat, dog)", "2023-11-14", "own.csv</span>"]
    said += ["What was taken for what", "a.html", "probabilities in 2 columns".capitalize()]
    assert [each for each in said if each not in pages[0]] == []
    assert "https://" not in pages[0]
    assert "http://" not in re.sub(r"data:[^\"]*", "", pages[0])
    capsys.readouterr()


def test_data_in_python_have_a_page_without_a_file(tmp_path):
    found = report(pd.DataFrame({"label": [0, 1] * 30, "prediction": [0, 1] * 29 + [1, 0]}))
    (path,) = found.export(tmp_path / "page.html")
    page = path.read_text()
    assert "SHA-256" not in page
    for name in ALWAYS:
        assert QUESTIONS[name][0] in page
    assert page.count("NOT KNOWN") == 3
    assert "5 analyses were skipped" in page


def test_what_is_skipped_is_said_once_and_in_words(tmp_path):
    found = run_report(two_classes(), **FAST)
    page = single_page(found.analyses, found.overview, found.settings, {"File": "a"})
    assert "test_abstained" not in re.sub("<style>.*?</style>", "", page, flags=re.S)
    assert page.count("part = nonmember") == 1
    assert page.count("<details") - page.count("</details>") == 0


def test_the_picture_of_a_report_has_its_words():
    found = run_report(two_classes(), **FAST)
    answers = verdicts(found.analyses, found.settings)
    figure = plot_verdicts(answers)
    axes = figure.axes
    assert len(axes) == 2  # on a page side by side
    svg_pair(figure, "s")  # which is an error where something is cut off
    drawn = "\n".join(text.get_text() for ax in axes for text in ax.texts)
    for one in answers:
        assert f"{SIGNS[one.light]} {one.word}" in drawn
        assert one.question in drawn
        assert one.text in drawn.replace("\n", " ")


def test_tables_are_read_as_numbers_and_words():
    """Counts have commas, p-values stand with numbers, names are words, long names get room."""
    found = run_report(two_classes(3000), **FAST)
    table = pd.DataFrame({"item": ["a"], "p_value": ["< 0.001"], "n": [1234], "moved": [True]})
    one = replace(found.analyses["quality"], tables={"x": table}, captions={"x": "Some"})
    page = single_page({"quality": one}, found.overview, found.settings, {"File": "a"})
    for text in ('<th class="number">p value</th>', '<td class="number">&lt; 0.001</td>'):
        assert text in page
    assert '<td class="number">1,234</td><td>yes</td>' in page
    assert '<details class="wide"' not in page
    names = [f"a_class_with_a_long_name_{j}" for j in range(4)]
    table = pd.DataFrame({"true class": names} | {f"says {name}": [1] * 4 for name in names})
    kept = {"quality_confusion": table}
    one = replace(one, tables=kept, captions=dict.fromkeys(kept, "Some"))
    page = single_page({"quality": one}, found.overview, found.settings, {"File": "a"})
    assert '<details class="wide" open>' in page
    assert f">says {names[0]}</th>" in page


def test_models_that_never_abstain_have_a_title_of_their_own():
    given = two_classes(300)
    found = run_report(replace(given, rivals={"b": given.test_labels}), **FAST)
    assert "Comparison with other models: done" in str(found)
    assert "Counterfactual comparison" not in str(found)

"""What a report says to collect next: sizes that decide, and nothing where all is clear."""

import numpy as np
import pytest
from scipy import stats

from lib import audit
from lib.report import ModelPredictions, example_predictions, read_predictions, run_report
from lib.report.collect import (
    about,
    attack_ceiling,
    rows_for_half_width,
    rows_for_power,
    trials_to_refute,
)

LEVEL = 0.95


@pytest.mark.parametrize(
    ("n", "shown"),
    [(1, "1"), (99, "99"), (100, "100"), (101, "110"), (2684, "2,700"), (91_000, "91,000")],
)
def test_sizes_are_rounded_up_to_two_digits(n, shown):
    assert about(n) == f"about {shown}"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_half_width_is_reached_and_not_before(share):
    n, sd = 400, np.sqrt(share * (1 - share))
    needed = rows_for_half_width(sd / np.sqrt(n), n, 0.01, LEVEL)
    half = [stats.norm.ppf(0.975) * sd / np.sqrt(m) for m in (needed - 1, needed)]
    assert half[1] <= 0.01 < half[0]


def test_rows_for_power_against_simulation():
    """Counted over 4,000 repetitions: three binomial standard errors are 0.019."""
    rng, difference, sd = np.random.default_rng(0), 0.1, 1.3
    n = rows_for_power(sd / np.sqrt(50), 50, difference, LEVEL, 0.8)
    means = rng.normal(difference, sd / np.sqrt(n), 4000)
    found = (np.abs(means) > stats.norm.ppf(0.975) * sd / np.sqrt(n)).mean()
    assert abs(found - 0.8) < 3 * np.sqrt(0.8 * 0.2 / 4000)
    assert rows_for_power(0.1, 50, 0.0, LEVEL, 0.8) is None


def test_the_ceiling_is_what_a_faultless_attack_shows():
    """Guesses by hand; for delta = 0, all right with probability (e^eps / (1 + e^eps))^guesses."""
    guesses = 50
    by_hand = (1 - LEVEL) ** (1 / guesses)
    expected = np.log(by_hand / (1 - by_hand))
    assert attack_ceiling(52, 50, 0.0, LEVEL, "one run") == pytest.approx(expected, abs=1e-9)
    (bound,) = audit.epsilon_lower_bounds([[10, 0, 12, 0]], 1e-5, LEVEL, "clopper-pearson")
    assert attack_ceiling(20, 24, 1e-5, LEVEL, "independent") == pytest.approx(bound, abs=1e-12)
    assert attack_ceiling(1, 1, 0.0, LEVEL, "one run") == 0.0


@pytest.mark.parametrize("design", ["one run", "independent"])
@pytest.mark.parametrize("claim", [0.5, 2.0, 4.0])
def test_trials_to_refute_are_enough_and_few(design, claim):
    n = trials_to_refute(claim, 1e-6, LEVEL, design)
    assert attack_ceiling(n // 2, n // 2, 1e-6, LEVEL, design) > claim
    fewer = 4 * int(n / 1.06 / 4)
    assert attack_ceiling(fewer // 2, fewer // 2, 1e-6, LEVEL, design) <= claim


def test_a_large_claim_is_out_of_reach_of_one_run_with_a_delta():
    assert trials_to_refute(8.0, 1e-5, LEVEL, "one run") is None
    assert trials_to_refute(8.0, 0.0, LEVEL, "one run") is not None


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return read_predictions(example_predictions(tmp_path_factory.mktemp("e") / "e.npz", seed=0))


def changed(example, *names, **changes):
    kept = {k: v for k, v in example.given.items() if k not in names}
    return ModelPredictions(**(kept | changes))


def steps(predictions, **settings):
    report = run_report(predictions, learner="linear", **settings)
    return report, {name: " ".join(one.next_steps) for name, one in report.analyses.items()}


def test_each_open_question_has_its_step(example):
    report, found = steps(changed(example, "test_propensities", "other_propensities"))
    assert "labelled test rows would tell the accuracy to within 0.01" in found["selective"]
    assert "would show 3.90 with 300 trials: a stronger attack" in found["audit"]
    assert "propensities" in found["counterfactual"]
    table = report.next_steps
    assert list(table.columns) == ["analysis", "what to collect"]
    assert len(table) == sum(len(one.next_steps) for one in report.analyses.values())
    assert all(f"  Next: {text}" in str(report) for text in table["what to collect"])


def test_without_labels_of_the_user_it_says_how_many(example):
    _, found = steps(changed(example, "user_labels"))
    assert "user rows, drawn at random, would decide without" in found["suitability"]
    _, tight = steps(changed(example, "user_labels"), margin=0.0)
    assert "more test rows are needed as well, or a larger margin" in tight["suitability"]


def test_a_claim_that_no_attack_could_refute_is_named(example):
    few = {"member_scores": example.member_scores[:12], "nonmember_scores": [0.1] * 12}
    _, found = steps(changed(example, *few, epsilon=2.0, **few))
    assert "no attack could refute the claimed 2: it takes about" in found["audit"]
    _, far = steps(changed(example, *few, epsilon=8.0, delta=1e-5, **few))
    assert "no number of trials up to 200,000 could refute" in far["audit"]


def test_a_refuted_claim_and_refuted_suitability_need_nothing_more(example):
    scores = np.linspace(0, 1, 200)
    shown = {"member_scores": 2 + scores, "nonmember_scores": scores, "epsilon": 0.1}
    wrong = {"user_labels": (np.argmax(example.user_logits, axis=1) + 1) % 10}
    report, found = steps(changed(example, *shown, *wrong, **shown, **wrong))
    assert "refuted" in report.analyses["audit"].verdict
    assert found["audit"] == ""
    assert report.analyses["suitability"].verdict.startswith("UNSUITABLE")
    assert found["suitability"] == ""


def test_what_is_skipped_is_listed_with_what_it_lacks(example):
    report, _ = steps(changed(example, "nonmember_scores"))
    rows = report.next_steps.set_index("analysis")["what to collect"]
    assert rows["Privacy audit"] == "missing: nonmember_scores"

"""What a report says to collect next: sizes that decide, and nothing where all is clear."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from lib import audit
from lib.audit.one_run import best_one_run
from lib.audit.planning import gaussian_mu
from lib.report import ModelPredictions, Settings, run_analysis, run_report, suitability_numbers
from lib.report.abstention import comparison_steps
from lib.report.collect import (
    about,
    attack_ceiling,
    detectable_epsilon,
    fewest_rows,
    rows_by_bound,
    rows_for_half_width,
    rows_for_power,
    steps_to_fine,
    trials_to_refute,
)
from lib.selective import guaranteed_threshold

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


def test_rows_without_an_error_are_planned_from_the_bound():
    """Clopper and Pearson's: of n right answers the lower end is (alpha / 2) to the 1 / n."""
    width = [1 - 0.025 ** (1 / n) for n in (52, 182, 183)]
    assert width[2] <= 2 * 0.01 < width[1]
    assert rows_by_bound(width[0], 52, 2 * 0.01) == 183
    assert rows_for_half_width(0.0, 52, 0.01, LEVEL) is None
    assert rows_for_half_width(1e-17, 52, 0.01, LEVEL) is None
    assert rows_for_power(0.0, 52, 0.3, LEVEL, 0.8) is None
    (step,) = steps_to_fine(0.0, (1 - width[0], 1.0), 52, LEVEL)
    assert step.startswith("about 190 rows at least")
    assert steps_to_fine(0.0, (1 - width[2], 1.0), 183, LEVEL) == ()
    assert steps_to_fine(0.0, (np.nan, np.nan), 52, LEVEL) == ()


def test_a_difference_without_a_variance_is_planned_from_its_bound():
    for sign in (1, -1):
        ends = sorted((-0.4 * sign, 0.5 * sign))
        found = SimpleNamespace(value=0.2 * sign, stderr=0.0, interval=ends)
        (step,) = comparison_steps(found, 10, LEVEL)
        # 1 - 0.6 / 2 to the tenth is 1 - 0.2 / 2 to the 33.9th; and one more.
        assert step.startswith("about 35 rows at least")


@pytest.mark.parametrize(("wrong", "said"), [(0, "no answer differs"), (1, "00 rows would bring")])
def test_answers_without_an_error_have_a_next_step_too(wrong, said):
    rng, n = np.random.default_rng(0), 52
    labels, features, away = rng.integers(0, 3, n), rng.normal(size=(n, 2)), rng.random(n) < 0.25
    logits = 3 * np.eye(3)[(labels + (~away & (np.cumsum(~away) <= wrong))) % 3]
    given = {"test_logits": logits, "test_labels": labels, "test_abstained": away}
    given = ModelPredictions(**given, test_features=features)
    found = run_analysis("counterfactual", given, Settings(learner="linear"))
    assert said in " ".join(found.next_steps)


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
    guesses = 30  # three tenths of 102 points, one of five numbers that share the error
    by_hand = ((1 - LEVEL) / 5) ** (1 / guesses)
    expected = np.log(by_hand / (1 - by_hand))
    assert attack_ceiling(52, 50, 0.0, LEVEL, "one run") == pytest.approx(expected, abs=1e-9)
    each = 1 - 2 * (1 - LEVEL) / 44  # an event for each trial: the threshold is chosen on them
    (bound,) = audit.epsilon_lower_bounds([[20, 0, 24, 0]], 1e-5, each, "clopper-pearson")
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
    assert trials_to_refute(8.0, 1e-3, LEVEL, "one run") is None
    assert trials_to_refute(8.0, 0.0, LEVEL, "one run") is not None


@pytest.mark.parametrize("design", ["one run", "independent"])
def test_an_attack_at_the_detection_limit_refutes_the_claim_in_four_of_five_audits(design):
    """By other trials and the bound of the report; both simulations err."""
    claim, delta, repetitions = 1.0, 1e-5, 200
    given = Settings(audit_design=design, seed=1)
    trials, reached = detectable_epsilon(303, claim, delta, given)
    assert trials == 300
    rng, mu, refuted = np.random.default_rng(2), gaussian_mu(reached, delta), 0
    for _ in range(repetitions):
        members = rng.permutation(np.arange(trials) % 2 == 0)
        scores = rng.normal(size=trials) + mu * members
        if design == "one run":
            bound = best_one_run(scores, members, delta, LEVEL)
        else:
            counts = audit.roc_counts(scores, members)
            _, bound = audit.union_lower_bound(counts, delta, LEVEL, "clopper-pearson")
        refuted += bound > claim
    assert abs(refuted / repetitions - 0.8) < 3 * np.sqrt(0.16 / repetitions + 0.16 / 100)


def test_detection_limits_that_are_none():
    given = Settings(audit_design="independent")
    assert np.isnan(detectable_epsilon(7, 1.0, 1e-5, given)[1])
    assert np.isnan(detectable_epsilon(100, 0.0, 1e-5, given)[1])
    assert np.isnan(detectable_epsilon(100, 1.0, 0.0, given)[1])
    assert detectable_epsilon(40, 4.0, 1e-5, given) == (40, np.inf)
    assert detectable_epsilon(10_001, 4.0, 1e-5, given)[0] == 2000


def test_the_drop_that_is_found_suitable_with_a_power():
    """Counted over 3,000 pairs of samples, without an error of the fit."""
    rng, sd, sizes, margin = np.random.default_rng(3), [0.2, 0.3], [150, 90], 0.1
    stderr = np.hypot(*(s / np.sqrt(n) for s, n in zip(sd, sizes, strict=True)))
    decision = SimpleNamespace(margin=margin, alpha=0.05, stderr=stderr)
    *_, drop = suitability_numbers.power(decision, sd, sizes, 0.8)
    test = rng.normal(0.8, sd[0], (3000, sizes[0]))
    user = rng.normal(0.8 - drop, sd[1], (3000, sizes[1]))
    p = stats.ttest_ind(user + margin, test, axis=1, equal_var=False, alternative="greater").pvalue
    assert abs((p <= 0.05).mean() - 0.8) < 3 * np.sqrt(0.16 / 3000)
    assert np.isnan(suitability_numbers.power(decision, [9.0, 9.0], [9, 9], 0.8)[-1])


@pytest.mark.parametrize(("target", "alpha"), [(0.95, 0.05), (0.8, 0.2), (0.99, 0.01)])
def test_so_many_rows_promise_a_target_and_fewer_do_not(target, alpha):
    n = fewest_rows(target, alpha)
    assert target**n <= alpha / 4  # or no test could show it
    for rows, promised in ((n, True), (n - 1, False)):
        right, scores = np.ones(rows, bool), np.arange(rows, 0, -1.0)
        found = guaranteed_threshold(right, scores, target, 1 - alpha / 4)
        assert (found.coverage is not None) == promised
    assert fewest_rows(1.0, 0.05) == np.inf


def steps(example, name, *left_out, margin=0.05, **changes):
    """What one analysis of the example would collect, with arrays left out or others instead."""
    kept = {k: v for k, v in example.given.items() if k not in left_out}
    given, settings = (
        ModelPredictions(**(kept | changes)),
        Settings(learner="linear", margin=margin),
    )
    found = run_analysis(name, given, settings)
    return " ".join(found.next_steps), found


def test_each_open_question_has_its_step(example):
    kept = {k: v for k, v in example.given.items() if not k.endswith("propensities")}
    report = run_report(ModelPredictions(**kept), learner="linear")
    found = {name: " ".join(one.next_steps) for name, one in report.analyses.items()}
    assert "within 0.01" in found["selective"]
    assert "shows 2.94 in 300 trials" in found["audit"]
    assert "detection limit" in found["audit"]
    assert "propensities" in found["counterfactual"]
    table = report.next_steps
    assert len(table) == sum(len(one.next_steps) for one in report.analyses.values())
    assert all(f"  Next: {text}" in str(report) for text in table["what to collect"])
    del kept["nonmember_scores"]
    rows = run_report(ModelPredictions(**kept), learner="linear").next_steps.set_index("analysis")
    assert rows.loc["Privacy audit", "what to collect"] == "missing: nonmember_scores"


def test_no_mistake_seen_leaves_the_accuracy_open(example):
    logits = example.test_logits[:20]
    given = ModelPredictions(test_logits=logits, test_labels=np.argmax(logits, axis=1))
    assert "within 0.01" in " ".join(run_analysis("selective", given, Settings()).next_steps)


def test_what_suitability_needs_depends_on_the_labels(example):
    assert steps(example, "suitability")[0] == ""  # they decide
    found, _ = steps(example, "suitability", "user_labels")
    assert "can decide without" in found
    assert "labels of test rows" not in found
    assert "positive margin" in steps(example, "suitability", "user_labels", margin=0.0)[0]
    few = np.where(np.arange(len(example.test_labels)) < 5, example.test_labels, -1)
    found, _ = steps(example, "suitability", "user_labels", test_labels=few)
    assert "with 5 test rows no number" in found
    assert "compared with nothing" in steps(example, "suitability", "test_labels")[0]
    wrong = (np.argmax(example.user_logits, axis=1) + 1) % 10
    found, analysis = steps(example, "suitability", user_labels=wrong)
    assert (found, analysis.verdict[:10]) == ("", "UNSUITABLE")


RISING = np.linspace(0, 1, 40)


@pytest.mark.parametrize(
    ("scores", "claim", "said"),
    [
        ((RISING[:12], [0.1] * 12), {"epsilon": 2.0}, "refute the claimed 2: that takes about"),
        ((RISING[:12], [0.1] * 12), {"epsilon": 8.0, "delta": 1e-3}, "in no number of trials"),
        ((2 + RISING, RISING), {"epsilon": None}, "more trials can show more"),
        ((np.linspace(0, 1, 300), RISING), {}, "membership decided anew"),
        ((2 + np.linspace(0, 1, 200), np.linspace(0, 1, 200)), {"epsilon": 0.1}, ""),
    ],
)
def test_what_an_audit_needs_depends_on_what_it_lacks(example, scores, claim, said):
    given = dict(zip(("member_scores", "nonmember_scores"), scores, strict=True))
    found, analysis = steps(example, "audit", **given, **claim)
    assert said in found
    assert said or (found == "" and "refuted" in analysis.verdict)


def test_where_answers_are_impossible_no_number_of_rows_decides(example):
    never = np.arange(len(example.test_labels)) % 2 == 0
    away = {
        "test_propensities": np.where(never, 1.0, example.test_propensities),
        "test_abstained": never | example.test_abstained,
        "other_propensities": np.where(never, 1.0, example.other_propensities),
        "other_abstained": never | example.other_abstained,
    }
    found, analysis = steps(example, "comparison", **away)
    low, high = (analysis.values[f"difference_{end}"] for end in ("least", "most"))
    assert low < 0 < high
    assert "no number of rows decides" in found
    assert f"{low:+.2f} and {high:+.2f}" in found
    found, analysis = steps(example, "counterfactual", **away)
    low, high = (analysis.values[f"counterfactual_{end}"] for end in ("least", "most"))
    assert f"the {never.sum()} rows" in found
    assert f"at least {high - low:.2f} apart" in found


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "equally good"), (0.0001, "equally good"), (0.02, "few rows tell badly"), (1.0, None)],
)
def test_rows_for_a_difference(value, said):
    found = SimpleNamespace(value=value, stderr=0.02)
    text = comparison_steps(found, 400, LEVEL)
    assert (said in text[0]) if said else text == ()

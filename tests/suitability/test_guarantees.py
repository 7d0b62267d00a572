import numpy as np
import pytest
from scipy import stats

from lib.studies.suitability import simulations
from lib.studies.suitability.simulations import METHODS, simulate_guarantee
from lib.suitability import guarantees
from lib.suitability.guarantees import (
    adjusted_margin,
    calibration_offset,
    corrected_margin,
    labels_needed,
    prediction_powered_test,
)
from lib.suitability.labels import labels_test
from lib.suitability.noninferiority import non_inferiority_test


def draw(rng, accuracy, eps, n, concentration=5.0):
    estimated, correct = simulations._draw(accuracy, eps, (n,), rng, concentration)
    return estimated, correct.astype(bool)


def rates(*eps, seed=0, **options):
    """Counts of SUITABLE by method, and the repetitions, for one setting."""
    table = simulate_guarantee(*eps, rng=np.random.default_rng(seed), **options)
    assert len(table) == len(METHODS)
    return dict(zip(table["method"], table["suitable"], strict=True)), table["repetitions"][0]


def lowest(repetitions, rate):
    return stats.binom.ppf(1e-4, repetitions, rate)


def highest(repetitions, rate):
    return stats.binom.isf(1e-4, repetitions, rate)


def test_offset_is_the_paired_difference():
    rng = np.random.default_rng(0)
    estimated, correct = draw(rng, 0.7, -0.1, 300)
    offset = calibration_offset(estimated, correct)
    assert offset.value == pytest.approx(estimated.mean() - correct.mean())
    assert offset.stderr == pytest.approx(error(estimated, correct))
    assert offset.n == 300
    assert calibration_offset([0.5, 0.5], [1, 1]).stderr == 2  # sqrt(8 / 2)


def test_margin_of_the_corollary():
    assert corrected_margin(0.05, 0.0, 0.0) == 0.05
    # Flattered user data: accuracy below the estimate, eps negative; the margin is tightened.
    assert corrected_margin(0.05, 0.0, -0.1) == pytest.approx(-0.05)
    assert corrected_margin(0.05, -0.02, 0.01) == pytest.approx(0.08)
    many = corrected_margin(0.05, [[0.0], [0.1]], [0.0, 0.1, 0.2])
    np.testing.assert_allclose(many, 0.05 + np.subtract.outer([0, -0.1], [0, -0.1, -0.2]))
    assert isinstance(corrected_margin(0, 0, 0), float)


def error(estimated, correct):
    """Of an offset, with eight right and eight wrong answers in the variance of n."""
    difference, middle, n = estimated - correct, estimated.mean(), len(correct)
    ends = (middle - difference.mean()) ** 2 + (middle - 1 - difference.mean()) ** 2
    return np.sqrt(stats.sem(difference) ** 2 + 8 * ends / (n * (n - 1)))


@pytest.mark.parametrize("level", [0.025, 0.1])
def test_adjusted_margin_by_hand(level):
    rng = np.random.default_rng(2)
    test, user = draw(rng, 0.8, 0.0, 400), draw(rng, 0.7, -0.05, 60)
    parts = np.array([error(*test), error(*user)]) ** 2
    dof = parts.sum() ** 2 / (parts**2 / [399, 59]).sum()
    value = 0.03 + (test[0] - test[1]).mean() - (user[0] - user[1]).mean()
    # Of "sample" the test data's own accuracy is known: what remains is one sample.
    for reference, stderr, student in (
        ("distribution", np.sqrt(parts.sum()), dof),
        ("sample", error(*user), 59),
    ):
        found = adjusted_margin(0.03, *test, *user, level=level, reference=reference)
        reach = stats.t.isf(level, student) * stderr
        assert found.value == pytest.approx(value)
        assert found.interval == pytest.approx((value - reach, value + reach), abs=1e-12)
        assert found.bound == found.interval[0]
        assert (found.stderr, found.dof) == pytest.approx((stderr, student))


def test_no_errors_are_no_proof():
    """Without any variance of the differences the interval has a width, as long as three say."""
    found = adjusted_margin(0.0, [0.5] * 3, [1] * 3, [0.75] * 4, [1] * 4)
    assert found.value == -0.25
    assert found.interval[0] < -1 < 1 < found.interval[1]


@pytest.mark.parametrize("level", [0.025, 0.05])
@pytest.mark.parametrize("n", [20, 200, 2000])
def test_offsets_where_errors_are_few(n, level):
    """By enumeration of the numbers of right answers, for constant estimates."""
    right = np.arange(n + 1)
    for accuracy in (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999):
        value = accuracy - right / n
        ends = (accuracy - value) ** 2 + (accuracy - 1 - value) ** 2
        squares = right * (1 - right / n) + 8 * ends
        assert np.sqrt(squares / (n * (n - 1)))[n // 3] == pytest.approx(
            calibration_offset(np.full(n, accuracy), right[:n] < n // 3).stderr
        )
        reach = stats.t.isf(level, n - 1) * np.sqrt(squares / (n * (n - 1)))
        missed = stats.binom.pmf(right, n, accuracy)
        assert missed[np.abs(value) > reach].sum() <= 2 * level + 0.004
        assert missed[-value > reach].sum() <= level + 0.013
        plain = stats.t.isf(level, n - 1) * np.sqrt(right * (1 - right / n) / (n * (n - 1)))
        if accuracy == 0.999:  # so that the test can fail
            assert missed[np.abs(value) > plain].sum() > 0.13


@pytest.mark.parametrize("reference", ["distribution", "sample"])
def test_prediction_powered_test_from_its_parts(reference):
    rng = np.random.default_rng(5)
    (_, correct), labelled = draw(rng, 0.8, 0.0, 300), draw(rng, 0.7, 0.1, 50)
    user, _ = draw(rng, 0.7, 0.1, 400)
    found = prediction_powered_test(correct, user, *labelled, 0.1, reference=reference, tuning=1)
    # Eight right and eight wrong answers more in the variance.
    parts = [(stats.sem(user) ** 2, 399)]
    for difference, right in ((labelled[0] - labelled[1], labelled[1]), (correct, correct)):
        n, ends = len(right), 8 * (right.mean() ** 2 + (1 - right.mean()) ** 2)
        parts.append(((difference.var() * n + ends) / (n * (n - 1)), n - 1))
    parts = parts[: 2 if reference == "sample" else 3]
    total = sum(part for part, _ in parts)
    dof = total**2 / sum(part**2 / d for part, d in parts)
    accuracy = user.mean() - (labelled[0] - labelled[1]).mean()
    assert found.test_accuracy == correct.mean()
    assert found.user_accuracy == pytest.approx(accuracy)
    assert found.stderr == pytest.approx(np.sqrt(total))
    assert found.dof == pytest.approx(dof)
    assert found.statistic == pytest.approx((correct.mean() - accuracy - 0.1) / found.stderr)
    assert found.p_value == pytest.approx(stats.t.cdf(found.statistic, dof))
    alone = labels_test(correct, labelled[1], 0.1, reference=reference)
    assert (found.labels_p_value, found.labels_against) == (alone.suitable_p, alone.unsuitable_p)


def test_each_difference_is_tuned_by_earlier_labels_alone():
    """By a loop over the labeled samples: 3 user and 2 test samples for each."""
    rng = np.random.default_rng(7)
    (estimated, correct), user, test = draw(rng, 0.7, 0.0, 12), rng.random(37), rng.random(25) < 0.8
    found = guarantees._differences(test * 1.0, user, np.stack([estimated, correct]), None)
    for i in range(12):
        share, f = 0.0, estimated[:i] - estimated[: max(i, 1)].mean()
        if i > 1:
            share = np.clip(f @ correct[:i] / (f @ f * (1 + 1 / 3)), 0, 1)
        moved = user[3 * i : 3 * i + 3].mean() - estimated[i]
        expected = correct[i] + share * moved - test[2 * i : 2 * i + 2].mean()
        assert found[i] == pytest.approx(expected)


def test_the_tuning_makes_the_variance_smallest():
    """PPI++, Eq. 6: against a search over fixed values."""
    rng = np.random.default_rng(6)
    correct, labelled = rng.random(300) < 0.8, draw(rng, 0.8, 0.0, 400, concentration=0.7)
    user, _ = draw(rng, 0.8, 0.0, 900, concentration=0.7)
    found = prediction_powered_test(correct, user, *labelled, 0.1)
    fixed = [
        prediction_powered_test(correct, user, *labelled, 0.1, tuning=t)
        for t in np.linspace(0, 1, 51)
    ]
    best = min(fixed, key=lambda one: one.stderr)
    assert found.tuning == pytest.approx(best.tuning, abs=0.03)
    assert found.stderr <= best.stderr * 1.001
    assert fixed[0].stderr == pytest.approx(found.labels_stderr, rel=1e-12)
    move = found.tuning * (user.mean() - labelled[0].mean())
    assert found.user_accuracy == pytest.approx(labelled[1].mean() + move)
    # Estimates that say nothing leave the labels.
    constant = prediction_powered_test(correct, [0.5] * 999, [0.5] * 400, labelled[1], 0.1)
    assert constant.tuning == 0
    assert constant.p_value == pytest.approx(fixed[0].p_value, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "accuracy"), [(2, 0.99), (5, 0.99), (40, 0.8)])
def test_betting_keeps_its_level_with_few_labels(n, accuracy):
    """At a drop of exactly the margin, and so does the t-test; and estimates that flatter."""
    rng, wrong, runs, margin = np.random.default_rng([8, n]), np.zeros(3), 150, 0.02
    for _ in range(runs):
        test, labels = rng.random(300) < accuracy, rng.random(n) < accuracy - margin
        estimates = np.where(labels, 0.97, 0.9)
        found = prediction_powered_test(
            test, rng.choice([0.97, 0.9], 400, p=[0.9, 0.1]), estimates, labels, margin
        )
        p = found.betting_p_value, found.labels_p_value, found.p_value
        wrong += np.array(p) <= 0.05
    assert wrong.max() <= highest(runs, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "accuracy", "margin", "level"), [(600, 0.95, 0.05, 0.05), (500, 0.5, 0.0, 0.25)]
)
def test_betting_keeps_its_level_in_any_order(monkeypatch, n, accuracy, margin, level):
    """Samples are sorted sets: no supermartingale in one order."""
    alone = labels_test([0, 1], [0, 1])  # slow, and not what is asked here
    monkeypatch.setattr(guarantees, "labels_test", lambda *_, **__: alone)
    rng, runs, wrong = np.random.default_rng(9), 150, np.zeros(2)
    right, share = accuracy - margin, (accuracy - margin) / 2
    for _ in range(runs):
        labels = rng.random(n) < right
        estimates = np.where(labels, rng.choice([0.97, 0.9], n), 0.9)
        user = rng.choice([0.97, 0.9], 2000, p=[share, 1 - share])
        found = prediction_powered_test(
            rng.random(600) < accuracy, user, estimates, labels, margin, reference="distribution"
        )
        wrong += np.array([found.betting_p_value, found.betting_against]) <= level
    assert (wrong / runs <= level + 3 * np.sqrt(level * (1 - level) / runs)).all()


def test_betting_finds_what_is_plain():
    rng = np.random.default_rng(9)
    test, labels = rng.random(3000) < 0.9, rng.random(300) < 0.9
    estimates = np.full(300, 0.9)
    good = prediction_powered_test(test, [0.9] * 900, estimates, labels, 0.2)
    assert good.betting_p_value < 0.001
    assert good.betting_against > 0.3
    bad = prediction_powered_test(test, [0.9] * 900, estimates, rng.random(300) < 0.5, 0.1)
    assert bad.betting_against < 0.001
    assert bad.betting_p_value > 0.3


def test_betting_with_fewer_rows_than_labels_is_of_the_labels_alone():
    rng = np.random.default_rng(2)
    test, y = rng.random(300) < 0.8, rng.random(40) < 0.7
    few, none = (
        prediction_powered_test(test, [u, 0.5], np.full(40, u), y, 0.05) for u in (0.1, 0.9)
    )
    assert few.betting_p_value == pytest.approx(none.betting_p_value)
    assert few.betting_against == pytest.approx(none.betting_against)


@pytest.mark.parametrize(("labels", "margin"), [(1, 0.0), (1, 0.1), (0, 0.1), (1, -0.1)])
def test_labels_that_do_not_vary_prove_little(labels, margin):
    found = prediction_powered_test([1] * 5, [0.7] * 9, [0.7] * 3, [labels] * 3, margin)
    assert 0.05 < found.p_value < 0.95
    assert found.stderr == found.labels_stderr > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_test", "n"), [(0, 5), (0, 100), (0, 500), (300, 5), (300, 20), (300, 100)]
)
def test_the_t_test_by_enumeration(n_test, n):
    """Estimates that say nothing; with no test labels against an accuracy that is known."""
    right = np.arange(n + 1)
    columns = (right[:, None] > np.arange(n)).astype(float)
    for accuracy in (0.5, 0.9, 0.98, 0.999):
        margins = (-0.0005, 0.0, 0.02)
        seen = np.arange(n_test + 1) if n_test else np.array([round(accuracy * 2000)])
        tests = (seen[:, None] > np.arange(n_test or 2000)).astype(float)
        chance = stats.binom.pmf(seen, n_test, accuracy) if n_test else np.ones(1)
        likely = chance > 1e-5
        for margin in margins:
            weight = stats.binom.pmf(right, n, accuracy - margin)
            wrong = 0.0
            for one, p in zip(tests[likely], chance[likely], strict=True):
                given = one, np.full(2, 0.5), (0 * columns, columns), np.zeros(n + 1), margin
                wrong += p * (weight @ (guarantees._powered_test(*given, not n_test)[1] <= 0.05))
            assert wrong <= 0.06


def test_simulation_of_rates_runs_what_is_public():
    rng = np.random.default_rng(8)
    test, labelled = (
        simulations._draw(0.8, eps, (5, n), rng, 5.0) for eps, n in ((0.02, 120), (-0.05, 40))
    )
    user = simulations._estimates(0.75, -0.05, (5, 120), rng, 5.0)
    found = simulations._all_methods(test, user, labelled, 0.02, -0.05, 0.05, 0.1)
    alone = simulations._labels_alone(test[1], labelled[1], 0.05, 0.1)
    assert len(found) == len(METHODS) - 1
    for i in range(5):
        (estimated, correct), (c, y) = ([part[i] for part in pair] for pair in (test, labelled))
        adjusted = adjusted_margin(0.05, estimated, correct, c, y, level=0.05)
        powered = prediction_powered_test(correct, user[i], c, y, 0.05)
        expected = [
            non_inferiority_test(estimated, user[i], margin).p_value
            for margin in (0.05, 0.05 - 0.05 - 0.02, adjusted.value, adjusted.bound)
        ]
        expected[3] *= 2
        expected += [powered.p_value]
        assert alone[i] == (powered.labels_p_value <= 0.1)
        assert [p[i] for p in found] == pytest.approx(expected, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "target", "seed"), [(0.0, 0.0, 0), (0.03, -0.08, 2), (-0.03, 0.05, 3)]
)
def test_false_positive_rates_at_the_boundary(source, target, seed):
    """Known miscalibration; accuracy lower by exactly the margin."""
    count, n = rates(source, target, seed=seed, n_labelled=300, repetitions=2000)
    assert lowest(n, 0.05) <= count["exact"] <= highest(n, 0.05)
    # Correctness is skew, which adds less than a point with some 75 errors among 300 labels.
    assert lowest(n, 0.04) <= count["prediction-powered"] <= highest(n, 0.06)
    assert lowest(n, 0.04) <= count["labels alone"] <= highest(n, 0.05)
    assert count["bound"] <= highest(n, 0.05)
    assert count["plug-in"] >= lowest(n, 0.2)
    if source == target:
        assert count["unadjusted"] == count["exact"]
    elif target < source:  # the user data are flattered
        assert count["unadjusted"] > 0.9 * n
    else:
        assert count["unadjusted"] < 0.01 * n


@pytest.mark.slow
def test_false_positive_rates_against_the_accuracy_of_the_test_data():
    """Definition 3.1: calibration alone is no guarantee for it, labels are."""
    rng, n, wrong = np.random.default_rng(4), 300, np.zeros(4)
    for _ in range(n):
        test = draw(rng, 0.8, 0.0, 500)
        level = test[1].mean() - 0.05
        user, labelled = draw(rng, level, 0.0, 500)[0], draw(rng, level, 0.0, 300)
        given = {"reference": "sample"}
        bound = adjusted_margin(0.05, *test, *labelled, **given).bound
        powered = prediction_powered_test(test[1], user, *labelled, 0.05, **given)
        p = [non_inferiority_test(test[0], user, margin).p_value for margin in (0.05, bound)]
        wrong += np.array([p[0], 2 * p[1], powered.p_value, powered.labels_p_value]) <= 0.05
    assert wrong[0] > lowest(n, 0.15)
    assert wrong[1] < highest(n, 0.05)
    for count in wrong[2:]:
        assert lowest(n, 0.04) <= count <= highest(n, 0.06)


def test_bound_holds_where_the_test_data_are_the_labels_that_matter():
    """Few test data, in Eq. 12 and in the filter, and many labels of the user."""
    options = {"n_test": 80, "n_user": 1000, "n_labelled": 1000, "repetitions": 1000}
    count, n = rates(0.0, -0.05, seed=5, **options)
    assert count["plug-in"] > lowest(n, 0.2)
    assert count["bound"] <= highest(n, 0.05)


@pytest.mark.parametrize(("sd", "half_width", "level"), [(0.4, 0.1, 0.025), (0.3, 0.02, 0.05)])
def test_labels_for_a_half_width(sd, half_width, level):
    n = np.arange(2, 5000)
    reach = stats.t.isf(level, n - 1) * sd / np.sqrt(n)
    assert labels_needed(sd, half_width, level) == n[np.argmax(reach <= half_width)]


@pytest.mark.parametrize("eps", [-0.15, -0.05, 0.0, 0.02, 0.1])
def test_what_is_simulated_obeys_the_lemma(eps):
    """Lemma 4.3, E[correct] = E[estimate] + eps."""
    estimated, correct = draw(np.random.default_rng(9), 0.8, eps, 100_000)
    offset = calibration_offset(estimated, correct)
    assert abs(offset.value + eps) < 4.5 * offset.stderr < 0.009
    assert correct.mean() == pytest.approx(0.8, abs=0.01)

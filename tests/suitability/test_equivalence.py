import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW, ttost_ind

from lib.suitability import equivalence_between_groups, equivalence_test, non_inferiority_test


def within(count, repetitions, rate):
    low, high = stats.binom.ppf([1e-4, 1 - 1e-4], repetitions, rate)
    return low <= count <= high


@pytest.mark.parametrize("seed", range(10))
def test_equals_statsmodels(seed):
    rng = np.random.default_rng(seed)
    n, m = (int(v) for v in 10 ** rng.uniform(0.4, 3, 2))
    test, user = rng.beta(5, 2, n), rng.beta(*rng.uniform(1, 6, 2), m)
    margin = rng.uniform(0.01, 0.3)
    ours = equivalence_test(test, user, margin, 0.04)
    p, lower, upper = ttost_ind(test, user, -margin, margin, usevar="unequal")
    assert ours.p_value == pytest.approx(p, abs=1e-10)
    assert (ours.statistic_lower, ours.p_lower) == pytest.approx(lower[:2], rel=1e-9, abs=1e-10)
    assert (ours.statistic_upper, ours.p_upper) == pytest.approx(upper[:2], rel=1e-9, abs=1e-10)
    assert ours.dof == pytest.approx(upper[2], rel=1e-9)
    compared = CompareMeans(DescrStatsW(test), DescrStatsW(user))
    assert ours.interval == pytest.approx(compared.tconfint_diff(0.08, usevar="unequal"), abs=1e-10)
    assert ours.difference == test.mean() - user.mean()


@pytest.mark.parametrize("alpha", [0.01, 0.3])
def test_interval_within_the_margins_exactly_where_the_test_rejects(alpha):
    rng = np.random.default_rng(1)
    test, user = rng.normal(0.6, 0.1, 50), rng.normal(0.62, 0.2, 80)
    low, high = equivalence_test(test, user, 0.1, alpha).interval
    reach = max(-low, high)
    assert equivalence_test(test, user, reach * (1 + 1e-9), alpha).p_value <= alpha
    assert equivalence_test(test, user, reach * (1 - 1e-9), alpha).p_value > alpha


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3])
def test_few_zeros_and_ones(alpha):
    """Both tests are the exact ones, and the interval and the groups are of them."""
    test, user = np.repeat([1, 0], [198, 2]), np.repeat([0, 1], [3, 57])
    found = equivalence_test(test, user, 0.1, alpha)
    assert found.p_upper == non_inferiority_test(test, user, 0.1).p_value
    assert found.p_lower == non_inferiority_test(user, test, 0.1).p_value
    low, high = found.interval
    assert non_inferiority_test(test, user, high).p_value == pytest.approx(alpha, abs=1e-9)
    assert non_inferiority_test(user, test, -low).p_value == pytest.approx(alpha, abs=1e-9)
    assert low < found.difference < high
    assert equivalence_test([1, 1], [0, 0], 0.1, alpha).interval[1] == 1.0
    groups = np.repeat(["a", "b"], [200, 60])
    of_groups = equivalence_between_groups(np.r_[test, user], groups, 0.1)
    assert (of_groups.p_value, of_groups.alpha) == (found.p_value, 0.05)


def test_equivalence_where_few_values_vary():
    test, user = np.full(600, 0.95), np.full(300, 0.96)
    test[:6], user[:2] = 0.2, 0.3
    found = equivalence_test(test, user, 0.1)
    low, high = found.interval
    assert low < found.difference < high
    assert found.p_value == max(found.p_lower, found.p_upper) < 0.05
    assert non_inferiority_test(test, user, high).p_value == pytest.approx(0.05, abs=1e-6)
    assert non_inferiority_test(user, test, -low).p_value == pytest.approx(0.05, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("sign", [-1, 1])
def test_type_one_error_at_the_boundary(sign):
    """Means exactly the margin apart; the other side is certain, so the rate is alpha itself."""
    n, m, repetitions = 150, 400, 600
    rng = np.random.default_rng(n + sign)
    count = sum(
        equivalence_test(rng.normal(0.6, 0.1, n), rng.normal(0.6 + sign * 0.1, 0.2, m), 0.1).p_value
        <= 0.05
        for _ in range(repetitions)
    )
    assert within(count, repetitions, 0.05)


def groups_at(rng, means, n, sd):
    labels = np.repeat(np.arange(len(means)), n)
    return rng.normal(np.asarray(means)[labels], sd), labels


@pytest.mark.slow
@pytest.mark.parametrize(
    ("means", "n", "exact"),
    [
        # The extremes alone are at the boundary and all else is easy: alpha itself.
        ((0.5, 0.55, 0.6), 300, True),
        # Two pairs at the boundary, which have to be mistaken both.
        ((0.5, 0.55, 0.6, 0.5), 40, False),
    ],
)
def test_errors_about_groups(means, n, exact):
    """Intersection-union: at most alpha; Holm: any false pair in at most alpha of repetitions."""
    rng, repetitions, margin, alpha = np.random.default_rng(n), 400 if exact else 200, 0.1, 0.05
    false = np.subtract.outer(means, means)[np.triu_indices(len(means), 1)]
    false = np.abs(false) >= margin - 1e-12
    all_equivalent = any_false = 0
    for _ in range(repetitions):
        result = equivalence_between_groups(*groups_at(rng, means, n, 0.15), margin, alpha)
        all_equivalent += result.equivalent
        any_false += result.table["equivalent"].to_numpy()[false].any()
    assert max(all_equivalent, any_false) <= stats.binom.isf(1e-4, repetitions, alpha)
    assert within(all_equivalent, repetitions, alpha) or not exact


@pytest.mark.slow
def test_all_pairs_in_order_with_holms_adjustment():
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(["c", "a", "d", "b"], [20, 35, 50, 90]))
    values = rng.normal(0.6, 0.15, len(labels)) + 0.05 * (labels == "a")
    found = equivalence_between_groups(values, labels, 0.08, 0.1)
    table = found.table
    rejected, adjusted, *_ = multipletests(table["p_value"], 0.1, "holm")
    np.testing.assert_allclose(table["p_holm"], adjusted, rtol=1e-12)
    assert (table["equivalent"] == rejected).all()
    assert (table["group_a"] + table["group_b"]).tolist() == ["ab", "ac", "ad", "bc", "bd", "cd"]
    assert (found.margin, found.alpha) == (0.08, 0.1)
    for row in table.itertuples():
        a, b = values[labels == row.group_a], values[labels == row.group_b]
        assert (row.n_a, row.n_b) == (len(a), len(b))
        assert (row.mean_a, row.mean_b) == pytest.approx((a.mean(), b.mean()))
        assert row.difference == pytest.approx(a.mean() - b.mean())
        assert row.p_value == pytest.approx(equivalence_test(a, b, 0.08).p_value)


def test_holm_is_at_most_one():
    values = [0.1, 0.2, 0.8, 0.9, 0.4, 0.5]
    found = equivalence_between_groups(values, [1, 1, 2, 2, 3, 3], 0.01)
    assert found.table["p_value"].min() > 0.5
    assert found.table["p_holm"].tolist() == [1.0, 1.0, 1.0]
    assert not found.equivalent


def test_a_level_is_reached_at_the_level():
    rng = np.random.default_rng(3)
    values, labels = rng.normal(0.5, 0.1, 40), np.repeat([1, 2], 20)
    p = equivalence_between_groups(values, labels, 0.1).p_value
    for alpha, said in ((p, True), (np.nextafter(p, 0), False)):
        found = equivalence_between_groups(values, labels, 0.1, alpha)
        assert (found.equivalent, found.table["equivalent"].tolist()) == (said, [said])


def test_intersection_union_needs_no_correction():
    """Where every pair is at 0.04, all are equivalent together, and no pair is under Holm."""
    rng = np.random.default_rng(0)
    base = rng.normal(0, 1, 40)
    base = 0.1 * (base - base.mean()) / base.std(ddof=1) + 0.5
    reach = stats.t.isf(0.04, 78) * 0.1 * np.sqrt(2 / 40)
    result = equivalence_between_groups(np.tile(base, 3), np.repeat([1, 2, 3], 40), reach)
    assert result.table["p_value"].to_numpy() == pytest.approx(0.04)
    assert result.equivalent
    assert not result.table["equivalent"].any()
    assert result.table["p_holm"].to_numpy() == pytest.approx(0.12)


@pytest.mark.parametrize(
    "groups", [[1, 1, 2, 2], list("aabb"), pd.Categorical(list("xxyy")), [True, True, False, False]]
)
def test_groups_of_any_names(groups):
    result = equivalence_between_groups([0.5, 0.51, 0.8, 0.81], groups, 0.1)
    assert sorted(result.table.loc[0, ["group_a", "group_b"]]) == sorted({*groups})
    assert not result.equivalent

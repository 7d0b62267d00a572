"""Boundaries of what is allowed, messages in full, and values derived another way.

Most were added where mutation testing showed that a change would go unnoticed.
"""

import math
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

from lib.check import as_flags, as_matrix, as_number
from lib.suitability import Decision, SuitabilityFilter
from lib.suitability.equivalence import equivalence_between_groups, equivalence_test
from lib.suitability.noninferiority import non_inferiority_test, welch_non_inferiority

MOMENTS = (0.5, 0.1, 10, 0.4, 0.2, 20, 0.05)
INF, NAN = math.inf, math.nan


def moments(**change):
    names = ("mean_test", "variance_test", "n_test", "mean_user", "variance_user", "n_user")
    return welch_non_inferiority(**(dict(zip((*names, "margin"), MOMENTS, strict=True)) | change))


X = [0.5, 0.6, 0.7, 0.8]
FRAME = pd.DataFrame({"a": [1, 2], "b": [0.5, 0.25]})
MOMENT = "variance_test", "variance_user", "n_test", "n_user", "mean_test", "mean_user", "margin"
A_SAMPLE = "must be real numbers of shape (n,), n at least 2, got"
IN = "must be a number in"
groups = equivalence_between_groups
IN_FULL = [
    (as_matrix, ("x", FRAME.assign(c=["1", "2"], d=[1j, 2])),
     "x must be real numbers, got other types in c, d"),
    (as_flags, ("y", ["0", "1"], 2), "y must be booleans, or 0 and 1, got <U1 values"),
    *[(moments, {name: value}, f"{name} must be finite, got {value}")
      for name, value in zip(MOMENT, (INF, INF, INF, INF, NAN, -INF, NAN), strict=True)],
    *[(moments, {name: [0.2, -0.1]}, f"{name} must be at least 0, got -0.1")
      for name in MOMENT[:2]],
    *[(moments, {name: [5, 1]}, f"{name} must be at least 2, got 1") for name in MOMENT[2:4]],
    (moments, {"mean_test": [0.5, NAN, INF]}, "mean_test must be finite, got nan"),
    (non_inferiority_test, (X, [[1.0]]), f"user {A_SAMPLE} float64 of shape (1, 1)"),
    (non_inferiority_test, ([0.5], X), f"test {A_SAMPLE} float64 of shape (1,)"),
    (non_inferiority_test, (X, [1j, 0j]), f"user {A_SAMPLE} complex128 of shape (2,)"),
    (non_inferiority_test, ([0.5, INF, NAN], X), "test must be finite, got inf"),
    (non_inferiority_test, (X, X, -1), f"margin {IN} (-1, 1), got -1"),
    (equivalence_test, (X, X, 1), f"margin {IN} (0, 1), got 1"),
    (equivalence_test, (X, X, 0.1, 0), f"alpha {IN} (0, 0.5), got 0"),
    (equivalence_test, ([0.5], X, 0.1), f"test {A_SAMPLE}"),
    (equivalence_test, (X, [0.5], 0.1), f"user {A_SAMPLE}"),
    (groups, (X, [1, 1, 2, 2], 0), f"margin {IN} (0, 1), got 0"),
    (groups, (X, [1, 1, 2, 2], 0.1, 1), f"alpha {IN} (0, 1), got 1"),
    (groups, ([0.5], [1], 0.1), f"estimates {A_SAMPLE}"),
    (groups, (X, [1, 1, 2], 0.1), "groups must be integers or strings of shape (4,), one for "
     "each row, got int64 of shape (3,)"),
    (groups, (X, [[], [], [], [1, [2]]], 0.1), "groups must be integers or strings of shape "
     "(4,), one for each row, got "),
    (groups, (X, [1, None, NAN, 2], 0.1), "groups must be integers or strings of shape (4,), one "
     "for each row, got object of shape (4,) with 2 missing"),
    (groups, (X, ["a"] * 4, 0.1),
     "groups must have at least 2 different ones, got only 'a'"),
    (groups, (X, ["a", "b", "a", "a"], 0.1),
     "groups must have at least 2 samples each, got 1 of 'b'"),
    *[(SuitabilityFilter, {"estimator": wrong},
       f"estimator must have predict_proba and be no class, got {text}")
      for wrong, text in ((LogisticRegression, "<class"), (3, "3"))],
    *[(SuitabilityFilter, {"margin": m}, f"margin {IN} (-1, 1), got {m}") for m in (1, -1)],
    *[(SuitabilityFilter, {"alpha": a}, f"alpha {IN} (0, 1), got {a}") for a in (0, 1)],
]  # fmt: skip


@pytest.mark.parametrize(("function", "given", "message"), IN_FULL)
def test_messages_in_full(function, given, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}") as caught:
        function(**given) if isinstance(given, dict) else function(*given)
    if not message.endswith((" ", "class", "got")):
        assert str(caught.value) == message


def test_the_ends_of_what_is_allowed_are_allowed():
    assert as_matrix("x", [[7]]).tolist() == [[7.0]]
    assert as_matrix("x", np.ones((1, 1), np.float32)).dtype == np.float64
    assert as_matrix("x", FRAME).tolist() == [[1.0, 0.5], [2.0, 0.25]]
    assert as_matrix("x", FRAME.astype(np.uint8)).dtype == np.float64
    given = np.ones((2, 2))
    assert as_matrix("x", given) is given  # no copy of what is right
    assert as_flags("y", [1.0, 0.0], 2).tolist() == [True, False]
    assert as_flags("y", np.array([1], np.uint8), 1).dtype == bool
    assert as_number("m", np.float32(0.5), 0, 1) == 0.5
    assert type(as_number("m", np.int64(1), 0, 2)) is float
    # Margins and levels beyond these are refused, the signs of both are allowed.
    for margin in (-0.999, 0.999):
        assert SuitabilityFilter(margin).margin == margin
        assert non_inferiority_test(X, X, margin).p_value == pytest.approx(
            float(margin < 0), abs=1e-3
        )
    assert equivalence_test(X, X, 0.999, 0.499).p_value < 0.01
    assert equivalence_between_groups(X, [1, 1, 2, 2], 0.999, 0.999).equivalent
    assert SuitabilityFilter(alpha=0.999).alpha == 0.999


# ------------------------------------------------------------------ the test


def test_welch_by_hand():
    """Means 0.5 and 0.4, variances 0.1 and 0.2, sizes 10 and 20: errors of 0.01 and 0.01."""
    statistic, p, dof = welch_non_inferiority(*MOMENTS)
    assert statistic == pytest.approx((0.5 - 0.4 - 0.05) / math.sqrt(0.02))
    assert dof == pytest.approx(0.02**2 / (0.01**2 / 9 + 0.01**2 / 19))
    assert p == pytest.approx(stats.t.cdf(statistic, dof))
    without = welch_non_inferiority(*MOMENTS[:6])
    assert without[0] == pytest.approx(0.1 / math.sqrt(0.02))
    assert moments(n_test=2, n_user=2)[2] == pytest.approx(
        (0.05 + 0.1) ** 2 / (0.05**2 / 1 + 0.1**2 / 1)
    )


def test_moments_in_single_precision_are_computed_with_in_double():
    exact = welch_non_inferiority(0.5, 0.125, 3, 0.25, 0.0625, 7, 0.1)
    given = [np.float32(v) for v in (0.5, 0.125)], [np.float32(v) for v in (0.25, 0.0625)]
    arrays = [[np.array([v]) for v in pair] for pair in given]
    found = welch_non_inferiority(*arrays[0], 3, *arrays[1], 7, 0.1)
    for one, other in zip(found, exact, strict=True):
        assert one.dtype == np.float64
        assert one[0] == pytest.approx(float(other), rel=1e-14)


def test_no_variance_is_certainty_and_rounding_is_none():
    still = {"variance_test": 0.0, "variance_user": 0.0, "mean_test": 0.5, "margin": 0.25}
    for user, statistic, p in ((0.25, 0.0, 0.5), (0.2, INF, 1.0), (0.3, -INF, 0.0)):
        found = moments(**still, mean_user=user)
        assert (found[0], found[1]) == (statistic, p)
        assert math.isnan(found[2])
    # A relative difference of 1e-12 is rounding, however large or small the means are.
    for scale in (1e-6, 1.0, 1e6):
        near = {"variance_test": 0.0, "variance_user": 0.0, "margin": 0.0}
        for off, p in ((1e-12, 0.5), (-1e-12, 0.5), (4e-12, 1.0), (-4e-12, 0.0)):
            assert moments(**near, mean_test=scale * (1 + off), mean_user=scale)[1] == p
    # The margin is among what is rounded.
    found = moments(**(still | {"mean_test": 0.0, "margin": 1.0}), mean_user=-1.0 + 1e-13)
    assert found[1] == 0.5
    # So is a variance below the square of that, of either side, and no larger one.
    for name, mean in (("variance_test", "mean_test"), ("variance_user", "mean_user")):
        other = "variance_user" if name == "variance_test" else "variance_test"
        small = {other: 0.0, mean: 8.0, "margin": 0.0}
        assert math.isnan(moments(**small, **{name: (8e-12) ** 2})[2])
        assert moments(**small, **{name: (9e-12) ** 2})[2] > 0
    # One side may vary alone, then its degrees of freedom count.
    assert moments(variance_test=0.0)[2] == pytest.approx(19)
    assert moments(variance_user=0.0)[2] == pytest.approx(9)
    # Tiny variances do not vanish when they are squared.
    tiny = moments(variance_test=1e-200, variance_user=1e-200, mean_test=0.0, mean_user=0.0)
    assert tiny[2] == pytest.approx((1 / 10 + 1 / 20) ** 2 / (0.1**2 / 9 + 0.05**2 / 19))


def test_the_margin_is_no_drop_by_default():
    rng = np.random.default_rng(0)
    a, b = rng.random(30), rng.random(20)
    expected = stats.ttest_ind(a, b, equal_var=False, alternative="less")
    found = non_inferiority_test(a, b)
    assert (found.statistic, found.p_value) == pytest.approx((expected.statistic, expected.pvalue))
    assert all(type(v) is float for v in (found.statistic, found.p_value, found.dof))
    assert equivalence_test(a, b, 0.05) == equivalence_test(a, b, 0.05, 0.05)
    both = equivalence_test(a, b, 0.05)
    assert all(type(v) is float for v in (both.p_value, both.dof, both.difference))
    assert SuitabilityFilter().margin == 0.0
    assert SuitabilityFilter().alpha == 0.05


# ------------------------------------------------------------------ equivalence


def test_groups_come_in_order_with_all_that_was_decided():
    rng = np.random.default_rng(2)
    labels = np.array(["z", "a", "m"])[np.r_[0, 1, 2, rng.integers(3, size=60)]]
    labels[3:9] = ["z", "a", "m"] * 2
    values = rng.normal(0.6, 0.1, 63)
    found = equivalence_between_groups(values, labels, 0.07, 0.2)
    assert list(found.table) == [
        "group_a",
        "group_b",
        "n_a",
        "n_b",
        "mean_a",
        "mean_b",
        "difference",
        "p_value",
        "p_holm",
        "equivalent",
    ]
    pairs = found.table[["group_a", "group_b"]].to_numpy().tolist()
    assert pairs == [["a", "m"], ["a", "z"], ["m", "z"]]
    assert (found.margin, found.alpha) == (0.07, 0.2)
    assert equivalence_between_groups(values, labels, 0.07).alpha == 0.05
    for row in found.table.itertuples():
        a, b = values[labels == row.group_a], values[labels == row.group_b]
        assert (row.mean_a, row.mean_b) == pytest.approx((a.mean(), b.mean()))
        assert row.difference == pytest.approx(a.mean() - b.mean())
        assert row.p_value == pytest.approx(equivalence_test(a, b, 0.07).p_value)
    p = found.table["p_value"].to_numpy()
    order = np.argsort(p)
    # Holm: the smallest times 3, the next times 2, the largest times 1, never falling, at most 1.
    steps = [min(1.0, v * k) for v, k in zip(p[order], (3, 2, 1), strict=True)]
    expected = np.maximum.accumulate(steps)
    assert found.table["p_holm"].to_numpy()[order] == pytest.approx(expected)


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
    at = equivalence_between_groups(values, labels, 0.1, p)
    below = equivalence_between_groups(values, labels, 0.1, np.nextafter(p, 0))
    assert at.equivalent
    assert at.table["equivalent"].tolist() == [True]
    assert not below.equivalent
    assert below.table["equivalent"].tolist() == [False]


# ------------------------------------------------------------------ the filter


def test_a_decision_in_words():
    decision = Decision(True, 0.012345, -2.5, 30.0, 0.91234, 0.90006, 0.05, 0.1, 0.01)
    assert str(decision) == (
        "SUITABLE: p = 0.012 at alpha = 0.1, margin = 0.05\n"
        "estimated accuracy on test data: 0.912\n"
        "estimated accuracy on user data: 0.900"
    )
    no = Decision(False, 0.5, -2.5, 30.0, 0.9, 0.8, 0.0, 0.05, 0.01)
    assert str(no).splitlines()[0] == "INCONCLUSIVE: p = 0.5 at alpha = 0.05, margin = 0"


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return pd.DataFrame(x, columns=["a", "b", "c"]), rng.random(n) < 1 / (1 + np.exp(-x[:, 0]))


def fitted(x, y, call, *given):
    """Calls a method of a filter that is fitted to a table."""
    return getattr(SuitabilityFilter().fit(x, y), call)(*given)


def test_misuse_of_the_filter_in_full():
    x, y = table()
    shape = "must be real numbers of shape (n, columns), both at least 1, got"
    both = "correct must have both kinds of prediction, got only"
    cases = [
        ("fit", (x.to_numpy()[0], y), f"signals {shape} float64 of shape (3,)"),
        ("fit", (x, y[:-1]), "correct must be of shape (60,), one entry per row, got (59,)"),
        ("fit", (x, np.ones(60)), f"{both} correct ones"),
        ("fit", (x, np.zeros(60)), f"{both} wrong ones"),
        ("fit", (x.set_axis(list("aba"), axis=1), y),
         "signals must have distinct column names, got ['a'] more than once"),
        ("estimate", (x.rename(columns={"a": "z"}),),
         "signals must have the columns a, b, c, got z, b, c"),
        ("decide", (x, x[["a", "b", "c", "c"]]),
         "user_signals must have distinct column names, got ['c'] more than once"),
        ("estimate", (np.ones((5, 2)),), "signals must have 3 columns, as at fit, got 2"),
        ("estimate", ([[1.0], [1.0, 2.0]], "mine"),
         "mine must be rectangular, got rows of unequal length"),
        ("estimate", (np.full((1, 3), np.nan), "mine"),
         "mine must be a data frame with the columns of the fit (a, b, c), got an array without "
         "names; give pandas.DataFrame(mine, columns=...) with the names of its columns"),
        ("estimate", (x * np.nan, "mine"),
         "mine must be finite, got nan in row 0, column 0 (180 such values)"),
        ("decide", (np.ones(3), x), f"test_signals {shape} float64 of shape (3,)"),
        ("decide", (x[:1], x), "test_signals must have at least 2 rows, got 1"),
        ("decide", (x, x[:1]), "user_signals must have at least 2 rows, got 1"),
    ]  # fmt: skip
    for call, given, message in cases:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            fitted(x, y, call, *given)
    before = "the filter must be fitted before it can estimate or decide"
    with pytest.raises(RuntimeError, match=f"^{before}$"):
        SuitabilityFilter().estimate(x)


def test_names_are_matched_and_what_has_none_is_not():
    x, y = table()
    by_name, by_place = (SuitabilityFilter().fit(x, y), SuitabilityFilter().fit(x.to_numpy(), y))
    assert by_name.fit(x, y) is by_name
    expected = by_name.estimate(x)
    assert by_place.estimate(x.to_numpy()).tolist() == expected.tolist()
    assert by_name.estimate(x[["c", "a", "b"]]).tolist() == expected.tolist()
    names = r"^signals must be a data frame with the columns of the fit \(a, b, c\), got an array"
    with pytest.raises(ValueError, match=names):
        by_name.estimate(x.to_numpy())
    with pytest.raises(ValueError, match=r"^signals must be an array, as at fit, got a data frame"):
        by_place.estimate(x)
    with pytest.raises(ValueError, match=r"^signals must have 3 columns, as at fit, got 4$"):
        by_place.estimate(x.assign(d=0.0).to_numpy())
    found = by_name.decide(x[:2], x[2:4])
    assert found.estimated_test_accuracy == pytest.approx(expected[:2].mean(), rel=1e-12)
    assert found.estimated_user_accuracy == pytest.approx(expected[2:4].mean(), rel=1e-12)
    assert all(type(v) is float for v in (found.estimated_test_accuracy, found.p_value))

"""Rows that belong together: the level holds for clusters of 2 to 50, and copies are named."""

import numpy as np
import pytest
from scipy import optimize, special, stats

from lib.suitability import RefinedFilter, SuitabilityFilter
from lib.suitability.clusters import few_clusters, inflation, mean_part, total
from lib.suitability.estimator import fit_logistic, logistic_hessian
from lib.suitability.filter import welch_decision

MARGIN, BIAS = 0.05, 1.5
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


def accuracy(shift):
    return special.expit(BIAS + NODES + shift) @ WEIGHTS / WEIGHTS.sum()


SHIFT = optimize.brentq(lambda s: accuracy(0.0) - accuracy(s) - MARGIN, -4, 0)


def draw(rng, n, size, shift=0.0, equal=True):
    """Clusters of one size: of equal rows, or of rows that share seven tenths of all variance."""
    own = np.repeat(np.arange(max(2, n // size)), size)
    shares = (1.0, 0.0) if equal else (0.7, 0.3)
    mixed = [
        np.sqrt(shares[0]) * rng.normal(size=own.max() + 1)[own]
        + np.sqrt(shares[1]) * rng.normal(size=len(own))
        for _ in range(2)
    ]
    x = mixed[0] + shift
    return x[:, None], stats.norm.cdf(mixed[1]) < special.expit(BIAS + x), own


@pytest.mark.slow
@pytest.mark.parametrize(("size", "equal"), [(2, False), (50, False), (50, True)])
def test_level_of_clusters(size, equal):
    """At a drop of the margin: .1 to .45 if the rows are taken for independent ones."""
    rng, runs = np.random.default_rng(size), 100
    hits = dict.fromkeys(("filter", "refined", "without"), 0)
    for _ in range(runs):
        x, y, own = draw(rng, 500, size, 0.0, equal)
        (test, _, of_test), (user, user_y, of_user) = (
            draw(rng, 500, size, shift, equal) for shift in (0.0, SHIFT)
        )
        if y.all() or not y.any():
            continue
        fitted = SuitabilityFilter(MARGIN).fit(x, y, own)
        found = fitted.decide(test, user, test_clusters=of_test, user_clusters=of_user)
        hits["filter"] += found.suitable
        if size > 2:
            hits["without"] += SuitabilityFilter(MARGIN).fit(x, y).decide(test, user).suitable
        refined = RefinedFilter(MARGIN).fit(x, y, own)
        found = refined.decide(y, user, user_clusters=of_user).suitable
        hits["refined"] += found and y.mean() - user_y.mean() > MARGIN
    most = runs * 0.05 + 3 * np.sqrt(runs * 0.05 * 0.95)
    assert max(hits["filter"], hits["refined"]) <= most
    if size > 2:
        assert hits["without"] > most


def sized(rng, count, large):
    """Estimates in clusters of 10, and of 200 with that probability, where the model is worse."""
    of_200 = rng.random(count) < large
    accuracy = np.where(of_200, 0.65, 0.95)
    own = np.repeat(np.arange(count), np.where(of_200, 200, 10))
    return rng.beta(8 * accuracy, 8 * (1 - accuracy))[own], own


@pytest.mark.parametrize(("count", "large"), [(10, 0.08), (20, 0.08), (20, 0.0), (400, 0.0)])
def test_few_clusters_are_noted_where_their_level_does_not_hold(count, large):
    """The paper's test at the margin: up to .4 with few clusters whose size tells the accuracy."""
    rng, runs = np.random.default_rng([count, int(100 * large)]), 250
    true = (1 - large) * 10 * 0.95 + large * 200 * 0.65
    true /= (1 - large) * 10 + large * 200
    test = np.clip(true + 0.1 * rng.uniform(-1, 1, 10_000), 0, 1)
    test += true - test.mean()
    wrong = noted = 0
    for _ in range(runs):
        values, own = sized(rng, count, large)
        wrong += welch_decision(test, values, 0.0, 0.05, (None, own)).suitable
        notes = few_clusters("user_signals", values, own)
        noted += len(notes)
        assert all(f"user_signals has {count} clusters" in note for note in notes)
    if count < 30:
        assert noted == runs
        assert wrong > stats.binom.isf(1e-4, runs, 0.05 if large else 0.03)
    else:
        assert noted <= stats.binom.isf(1e-4, runs, 0.05)
        assert wrong <= stats.binom.isf(1e-4, runs, 0.07)  # a skewness of .15 costs that much


def test_the_filter_notes_few_clusters():
    rng = np.random.default_rng(3)
    x, y, own = draw(rng, 400, 4)
    fitted = SuitabilityFilter(MARGIN).fit(x, y, own)
    (test, _, of_test), (few, _, of_few) = draw(rng, 400, 4), draw(rng, 400, 40)
    found = fitted.decide(test, few, test_clusters=of_test, user_clusters=of_few)
    assert [note.split(",")[0] for note in found.notes] == ["user_signals has 10 clusters"]
    assert not fitted.decide(test, test, test_clusters=of_test, user_clusters=of_test).notes


def test_variance_of_a_mean_by_leaving_clusters_out():
    rng = np.random.default_rng(0)
    values, own = rng.random(60), rng.integers(0, 7, 60)
    left = [values[own != c].mean() for c in range(7)]
    expected = 6 / 7 * np.sum((np.array(left) - values.mean()) ** 2)
    assert mean_part(values, own) == pytest.approx((expected, 6))
    # Clusters of one: the usual variance.
    assert mean_part(values, np.arange(60)) == pytest.approx(mean_part(values, None))
    assert mean_part(values, None)[0] == pytest.approx(values.var(ddof=1) / 60)
    # Copies: that of one of each.
    copies = mean_part(np.repeat(values, 9), np.repeat(np.arange(60), 9))
    assert copies == pytest.approx(mean_part(values, None))
    # Welch and Satterthwaite's.
    assert total([(0.1, 9), (0.2, 19)])[1] == pytest.approx(0.09 / (0.01 / 9 + 0.04 / 19))
    assert total([(0.1, np.inf), (0.2, np.inf)]) == (pytest.approx(0.3), np.inf)


@pytest.mark.parametrize("block", [1, 50, 2**16])
def test_inflation_is_the_jackknife_of_one_newton_step(monkeypatch, block):
    monkeypatch.setattr("lib.suitability.clusters._BLOCK", block)
    rng = np.random.default_rng(5)
    x = np.column_stack([rng.normal(size=(90, 2)), np.ones(90)])
    own, effect = rng.integers(0, 12, 90), 2 * rng.normal(size=12)
    y = rng.random(90) < special.expit(x[:, 0] + effect[own])
    g = np.array([0.3, -0.2, 0.1])
    theta, hessian = fit_logistic(x, y, 0.5)
    p = special.expit(x @ theta)
    squares = 0.0
    for cluster in range(12):
        inside = own == cluster
        rest = logistic_hessian(x[~inside], theta, 0.5)
        squares += (g @ np.linalg.solve(rest, x[inside].T @ (y - p)[inside])) ** 2
    expected = 11 / 12 * squares / (g @ np.linalg.solve(hessian, g))
    found = inflation(x, y - p, p * (1 - p), hessian, own, g)
    assert expected > 1.1
    assert found == pytest.approx(expected, rel=1e-9)
    # Never less than the model's.
    assert inflation(x, 0.1 * (y - p), p * (1 - p), hessian, own, g) == 1


@pytest.mark.parametrize("test", ["fitted", "paper"])
def test_copies_with_clusters_are_what_one_of_each_is(test):
    rng = np.random.default_rng(2)
    (x, y, _), (test_x, _, _), (user, _, _) = (draw(rng, 80, 1, s) for s in (0, 0, -0.1))
    own = np.repeat(np.arange(80), 10)
    fitted = SuitabilityFilter(0.1, test=test).fit(x, y)
    one = fitted.decide(test_x, user, test_clusters=range(80), user_clusters=range(80))
    copies = [np.repeat(table, 10, axis=0) for table in (test_x, user)]
    ten = fitted.decide(*copies, test_clusters=own, user_clusters=own)
    assert ten.statistic == pytest.approx(one.statistic)
    assert ten.p_value == pytest.approx(one.p_value)
    assert ten.dof == pytest.approx(one.dof)
    assert fitted.decide(*copies).p_value != pytest.approx(one.p_value)
    # Clusters of one row each differ from none by Student's distribution alone.
    plain = fitted.decide(test_x, user)
    assert one.statistic == pytest.approx(plain.statistic)
    assert plain.p_value == pytest.approx(one.p_value, abs=0.01)


def test_repeated_rows_are_named():
    rng = np.random.default_rng(3)
    (x, y, _), (test, _, _), (user, _, _) = (draw(rng, 80, 1) for _ in range(3))
    own, copies = np.repeat(np.arange(80), 10), np.repeat(user, 10, axis=0)
    fitted, refined = SuitabilityFilter(0.05).fit(x, y), RefinedFilter(0.05).fit(x, y)
    for found in (fitted.decide(test, copies), refined.decide(y, copies)):
        assert len(found.notes) == 1
        assert "user_signals has 800 rows, of which only 80" in str(found)
    repeated = SuitabilityFilter(0.05).fit(np.repeat(x, 2, axis=0), np.repeat(y, 2))
    assert "fit has 160 rows" in repeated.decide(test, user).notes[0]
    # Ten values that all tables have are no repetition.
    few = [np.round(2 * table) / 2 for table in (x, test, user)]
    for found in (
        fitted.decide(test, copies, user_clusters=own),
        refined.decide(y, copies, user_clusters=own),
        fitted.decide(test, user),
        SuitabilityFilter(0.05).fit(few[0], y).decide(*few[1:]),
    ):
        assert found.notes == ()


def test_copies_do_not_make_the_refined_fit_surer():
    rng = np.random.default_rng(12)
    x, user = rng.normal(size=(200, 1)), rng.normal(size=(2000, 1)) - 1
    y, own = rng.random(200) < special.expit(1 + x[:, 0]), np.repeat(np.arange(200), 25)
    copies = np.repeat(x, 25, axis=0), np.repeat(y, 25)
    one = RefinedFilter(0.1).fit(x, y).estimate(user)[1]
    assert RefinedFilter(0.1).fit(*copies, clusters=own).estimate(user)[1] > 0.8 * one
    assert RefinedFilter(0.1).fit(*copies).estimate(user)[1] < 0.5 * one


@pytest.mark.slow
def test_few_errors_do_not_make_the_refined_filter_sure():
    """Five errors in a thousand rows: at the estimated coefficients .1 instead of .05."""
    rng, runs, hits = np.random.default_rng(5), 300, 0
    margin, bias, slope = 0.01, 7.0, 2.0

    def share(shift):
        return special.expit(bias + slope * (NODES + shift)) @ WEIGHTS / WEIGHTS.sum()

    shift = optimize.brentq(lambda s: share(0.0) - share(s) - margin, -8, 0)
    for _ in range(runs):
        x, user = rng.normal(size=(1000, 1)), rng.normal(size=(1000, 1)) + shift
        y, truth = (rng.random(1000) < special.expit(bias + slope * z[:, 0]) for z in (x, user))
        if y.all():
            continue
        found = RefinedFilter(margin).fit(x, y).decide(y[:500], user).suitable
        hits += found and y[:500].mean() - truth.mean() > margin
    assert hits <= runs * 0.05 + 3 * np.sqrt(runs * 0.05 * 0.95)


@pytest.mark.parametrize("count", [29, 30])
def test_thirty_clusters_of_one_size_are_enough(count):
    clusters = np.repeat(np.arange(count), 4)
    values = np.random.default_rng(0).random(len(clusters))
    assert bool(few_clusters("test", values, clusters)) == (count < 30)

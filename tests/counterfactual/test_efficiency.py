"""The efficiency bound, and mixed estimation."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from lib.counterfactual import (
    Nuisances,
    counterfactual_difference,
    counterfactual_score,
    efficiency_bound,
    estimate_from_nuisances,
    influence_values,
    mixed_difference,
)
from lib.counterfactual.efficiency import mix
from lib.studies.counterfactual import stress
from lib.studies.counterfactual.classifiers import FLIP, simulate, true_difference
from lib.studies.counterfactual.tables import oracle_nuisances

FIT = {"learner": "linear", "clip": 0.2}


def binomial_limit(n, p=0.05):
    """Misses beyond which a 95% interval errs too often, at one in a thousand."""
    return stats.binom.isf(1e-3, n, p)


def test_bound_by_hand():
    # Two points: Var(mu) = 0.01, E[v / (1 - pi)] = (0.2 / 0.5 + 0.1 / 0.8) / 2.
    one = efficiency_bound([[0.5, 0.2]], [[0.6, 0.8]], [[0.2, 0.1]])
    assert one == pytest.approx(0.01 + (0.4 + 0.125) / 2)
    # The same classifier twice, abstaining apart: only the noise of what one alone answered.
    twice = efficiency_bound([[0.5], [0.5]], [[0.7], [0.7]], [[0.21], [0.21]], [0.21])
    assert twice == pytest.approx(2 * 0.21 / 0.5 - 2 * 0.21)
    assert efficiency_bound([[0.0]], [[0.7]], [[0.21]]) == pytest.approx(0.21)


@pytest.mark.slow
def test_bound_is_the_variance_of_the_influence_values_of_an_oracle():
    a, b = oracle_nuisances(simulate(400_000, rng=0))
    influence = influence_values(a) - influence_values(b)
    error = ((influence - influence.mean()) ** 2).std() / math.sqrt(len(influence))
    assert abs(influence.var() - stress.bound_of_experiment()) < 4 * error


@functools.cache
def bound_and_truth(which):
    if which == "difference":
        return stress.bound_of_experiment(), true_difference()
    b = oracle_nuisances(simulate(400_000, rng=0))[1]
    variances = [b.outcome * (1 - b.outcome)]
    return efficiency_bound([b.propensity], [b.outcome], variances), 1 - FLIP - true_difference()


@pytest.mark.slow
@pytest.mark.parametrize("which", ["score", "difference"])
def test_oracle_reaches_the_bound_and_its_interval_keeps_its_level(which):
    (bound, truth), n, repeated = bound_and_truth(which), 500, 200
    pairs = [oracle_nuisances(simulate(n, rng=k)) for k in range(repeated)]
    given = pairs if which == "difference" else [b for _, b in pairs]
    found = [estimate_from_nuisances(one, clip=0.2) for one in given]
    times = np.var([one.value for one in found], ddof=1) * n / bound
    low, high = stats.chi2.ppf([5e-4, 1 - 5e-4], repeated - 1) / (repeated - 1)
    assert low < times < high
    missed = sum(not one.interval[0] <= truth <= one.interval[1] for one in found)
    assert missed <= binomial_limit(repeated)


def test_weights_at_their_ends_are_the_two_estimates():
    drawn = simulate(400, rng=3)
    (a, b), (r, s) = drawn.scores, drawn.abstained
    none = mixed_difference(drawn.X, a, r, b, s, weight=0, rng=1, **FIT)
    plain = counterfactual_difference(drawn.X, a, r, b, s, rng=1, **FIT)
    assert none.value == plain.value
    assert none.interval == plain.interval
    # With one classifier that always answers the fits are the second and third of the same stream.
    never = np.zeros(400, dtype=bool)
    whole = mixed_difference(drawn.X, a, never, b, s, weight=1, learner="linear", clip=0.5, rng=1)
    joint = counterfactual_score(drawn.X, a - b, s, learner="linear", clip=0.25, rng=1)
    assert whole.value == pytest.approx(joint.value, abs=1e-12)
    assert whole.stderr == pytest.approx(joint.stderr, abs=1e-12)


@pytest.mark.parametrize("weight", [0.0, 0.6, 1.0])
def test_the_interval_turns_about_where_the_classifiers_change_places(weight):
    rng, pi = np.random.default_rng(2), np.full(40, 0.3)
    s, r = rng.random((2, 40)) < [[0.9], [0.8]], rng.random((2, 40)) < pi
    pair = [Nuisances(r[k], s[k] * 1.0, pi, np.full(40, (0.9, 0.7)[k])) for k in (0, 1)]
    both = Nuisances(r.any(axis=0), s[0] * 1.0 - s[1], 1 - (1 - pi) ** 2, np.full(40, 0.2))
    back = replace(both, scores=-both.scores, outcome=-both.outcome)
    low, high = mix(pair, both, weight=weight, clip=0.2, score_range=(0, 1)).interval
    found = mix(pair[::-1], back, weight=weight, clip=0.2, score_range=(0, 1)).interval
    assert found == pytest.approx((-high, -low))


def test_own_weight_is_the_best_on_these_data():
    drawn = simulate(400, rng=3)
    (a, b), (r, s) = drawn.scores, drawn.abstained
    best = mixed_difference(drawn.X, a, r, b, s, rng=1, **FIT)
    for weight in np.linspace(0, 1, 5):
        other = mixed_difference(drawn.X, a, r, b, s, weight=weight, rng=1, **FIT)
        assert best.stderr <= other.stderr + 1e-12
    assert best.estimator == "mixed"


def test_clusters_of_copies_say_no_more_than_one_of_each():
    drawn = simulate(300, rng=5)
    (a, b), (r, s) = drawn.scores, drawn.abstained
    twice = [np.repeat(each, 2, axis=0) for each in (drawn.X, a, r, b, s)]
    alone = mixed_difference(*twice, rng=1, **FIT)
    found = mixed_difference(*twice, clusters=np.repeat(np.arange(300), 2), rng=1, **FIT)
    assert found.stderr == pytest.approx(alone.stderr * math.sqrt(2), rel=0.1)


def test_without_abstention_it_is_the_mean_difference():
    drawn = simulate(300, rng=0)
    a, b = drawn.scores
    never = np.zeros(300, dtype=bool)
    found = mixed_difference(drawn.X, a, never, b, never, rng=0, **FIT)
    assert found.value == pytest.approx((a - b).mean())
    assert found.stderr == pytest.approx((a - b).std() / math.sqrt(300))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.2, 0.5])
def test_with_the_true_nuisance_functions_it_keeps_its_level_and_is_narrower(epsilon):
    missed, widths, repeated = 0, [], 200
    truth = true_difference("shifted", 0.05)
    for k in range(repeated):
        drawn = simulate(800, "shifted", epsilon, 0.05, rng=k)
        a, b = pair = oracle_nuisances(drawn)
        either = a.abstained | b.abstained
        both = Nuisances(
            either,
            np.where(either, 0.0, a.scores - b.scores),
            1 - (1 - a.propensity) * (1 - b.propensity),
            a.outcome - b.outcome,
        )
        found = mix(pair, both, clip=epsilon)
        missed += not found.interval[0] <= truth <= found.interval[1]
        widths.append(found.stderr / estimate_from_nuisances(pair, clip=epsilon).stderr)
    assert missed <= binomial_limit(repeated)
    assert np.mean(widths) < 0.9

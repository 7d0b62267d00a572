"""The efficiency bound, mixed estimation, and the studies of both."""

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
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
from lib.studies.counterfactual.figures import plot_leak
from lib.studies.counterfactual.tables import oracle_nuisances

FIT = {"learner": "linear", "clip": 0.2}


def binomial_limit(n, p=0.05):
    """Misses beyond which a 95% interval errs too often, at one in a thousand."""
    return stats.binom.isf(1e-3, n, p)


# ------------------------------------------------------------------ the bound


def test_bound_by_hand():
    # Two points: Var(mu) = 0.01, E[v / (1 - pi)] = (0.2 / 0.5 + 0.1 / 0.8) / 2.
    one = efficiency_bound([[0.5, 0.2]], [[0.6, 0.8]], [[0.2, 0.1]])
    assert one == pytest.approx(0.01 + (0.4 + 0.125) / 2)
    # The same classifier twice, abstaining apart: only the noise of what one alone answered.
    twice = efficiency_bound([[0.5], [0.5]], [[0.7], [0.7]], [[0.21], [0.21]], [0.21])
    assert twice == pytest.approx(2 * 0.21 / 0.5 - 2 * 0.21)
    assert efficiency_bound([[0.0]], [[0.7]], [[0.21]]) == pytest.approx(0.21)


def test_bound_is_the_variance_of_the_influence_values_of_an_oracle():
    a, b = oracle_nuisances(simulate(400_000, rng=0))
    influence = influence_values(a) - influence_values(b)
    error = ((influence - influence.mean()) ** 2).std() / math.sqrt(len(influence))
    assert abs(influence.var() - stress.bound_of_experiment()) < 4 * error


def test_oracle_reaches_the_bound_and_its_interval_keeps_its_level():
    n, repeated, truth = 500, 400, true_difference()
    found = [
        estimate_from_nuisances(oracle_nuisances(simulate(n, rng=k)), clip=0.2)
        for k in range(repeated)
    ]
    times = np.var([one.value for one in found], ddof=1) * n / stress.bound_of_experiment()
    low, high = stats.chi2.ppf([5e-4, 1 - 5e-4], repeated - 1) / (repeated - 1)
    assert low < times < high
    missed = sum(not one.interval[0] <= truth <= one.interval[1] for one in found)
    assert missed <= binomial_limit(repeated)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [], []), "propensities must be those of one classifier or of two, got 0"),
        (([[0.5]], [[0.5]] * 2, [[0.2]]), "outcomes must be of as many classifiers, 1, got 2"),
        (([[1.0]], [[0.5]], [[0.2]]), r"propensities must be in \[0, 1\), got 1"),
        (([[0.5]], [[0.5]], [[-0.2]]), "variances must be at least 0, got -0.2"),
        (([[0.5]], [[0.5, 1.0]], [[0.2]]), "outcomes must be of shape"),
        (([[0.5]] * 2, [[0.5]] * 2, [[0.2]] * 2, [0.1, 0.1]), "covariance must be of shape"),
    ],
)
def test_bound_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        efficiency_bound(*arguments)


# ------------------------------------------------------------------ mixed estimation


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


def test_own_weight_is_the_best_on_these_data():
    drawn = simulate(400, rng=3)
    (a, b), (r, s) = drawn.scores, drawn.abstained
    best = mixed_difference(drawn.X, a, r, b, s, rng=1, **FIT)
    for weight in np.linspace(0, 1, 11):
        other = mixed_difference(drawn.X, a, r, b, s, weight=weight, rng=1, **FIT)
        assert best.stderr <= other.stderr + 1e-12
    assert best.estimator == "mixed"


def test_without_abstention_it_is_the_mean_difference():
    drawn = simulate(300, rng=0)
    a, b = drawn.scores
    never = np.zeros(300, dtype=bool)
    found = mixed_difference(drawn.X, a, never, b, never, rng=0, **FIT)
    assert found.value == pytest.approx((a - b).mean())
    assert found.stderr == pytest.approx((a - b).std() / math.sqrt(300))


def test_it_needs_points_that_both_answered():
    drawn = simulate(100, rng=0)
    r = np.arange(100) % 2 == 0
    with pytest.raises(ValueError, match="abstained_b must be False somewhere where abstained_a"):
        mixed_difference(drawn.X, *(drawn.scores[0], r, drawn.scores[1], ~r), rng=0, **FIT)


@pytest.mark.parametrize("epsilon", [0.2, 0.5])
def test_with_the_true_nuisance_functions_it_keeps_its_level_and_is_narrower(epsilon):
    missed, widths, repeated = 0, [], 300
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


# ------------------------------------------------------------------ the studies


def test_variances_in_multiples_of_the_bound():
    results = pd.DataFrame(
        {
            "learner": ["forest"],
            "estimator": ["dr"],
            "repetitions": [30],
            "n": [2000],
            "spread": [0.02],
            "bias": [-0.01],
        }
    )
    fresh = results.assign(estimator="ipw")
    row = stress.bound_table({"fitted": results, "fresh": fresh}, 0.5).iloc[0]
    total = 0.02**2 * 30 * 2000 / 0.5
    assert row["fitted"] == pytest.approx(total / 29)
    assert row["fitted, low"] == pytest.approx(total / stats.chi2.ppf(0.975, 29))
    assert row["fitted, high"] == pytest.approx(total / stats.chi2.ppf(0.025, 29))
    assert row["bias"] == pytest.approx(-0.01 / math.sqrt(0.5 / 2000))
    assert row.filter(like="fresh").isna().all()  # of another estimator


def means(study, setting, learner, count):
    """Means over repetitions of one setting, in this process."""
    found = stress.Stress(study, setting, learner, 0, count, 0).execute(None).arrays
    return {name: values.mean() for name, values in found.items()}


def test_errors_meet_where_edges_do():
    apart, met = (means("edges", (400, near), "forest", 30) for near in (0.1, 0.2))
    assert met["product"] > apart["product"] + 0.5
    assert met["bias"] == pytest.approx(met["product"], abs=4 / math.sqrt(30))
    assert max(apart["missed, known"], met["missed, known"]) <= binomial_limit(30) / 30


def test_what_leaks_is_not_missing_at_random():
    clean, leaked = (means("leak", (800, share), "linear", 60) for share in (0.0, 1.0))
    assert clean["missed"] <= binomial_limit(60) / 60
    assert leaked["missed"] == 1
    # Who abstains by the answer itself shows right ones at 0.8, wrong ones at 0.2.
    shown = 0.8 * (1 - FLIP) / (0.8 * (1 - FLIP) + 0.2 * FLIP)
    assert leaked["bias"] == pytest.approx(shown - (1 - FLIP), abs=0.01)


def test_figure_of_leaks_shows_bias_and_exact_intervals():
    results = pd.DataFrame(
        {
            "leaked": [0.0, 1.0],
            "repetitions": [20, 20],
            "missed": [0.05, 1.0],
            "bias": [0.01, 0.1],
            "width": [0.04, 0.02],
        }
    )
    figure = plot_leak(results)
    estimate, misses = (ax.get_lines()[0] for ax in figure.axes)
    assert estimate.get_ydata().tolist() == [0.01, 0.1]
    assert misses.get_ydata().tolist() == [0.05, 1.0]
    (band,), (rates,) = (ax.collections for ax in figure.axes)
    heights = {round(float(y), 9) for y in band.get_paths()[0].vertices[:, 1]}
    assert {-0.01, 0.03, 0.09, 0.11} <= heights
    lowest = min(rates.get_paths()[0].vertices[:, 1])
    assert lowest == pytest.approx(stats.binomtest(1, 20).proportion_ci(0.95, "exact").low)
    plt.close(figure)


def test_repetitions_do_not_hang_on_their_jobs(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path))
    setting = ("mixed", (200, "shifted", 0.05, 0.5), "linear")
    whole = stress.Stress(*setting, 0, 4, 0).execute(None).arrays
    parts = [stress.Stress(*setting, first, 2, 0).execute(None).arrays for first in (0, 2)]
    for name, values in whole.items():
        assert np.concatenate([part[name] for part in parts]).tolist() == values.tolist()
    table = stress.run_stress(setting[0], [setting[1]], setting[2], 4, seed=0)
    assert table.loc[0, "width, mixed"] == pytest.approx(whole["width, mixed"].mean())
    assert table.loc[0, "experiment"] == "shifted"

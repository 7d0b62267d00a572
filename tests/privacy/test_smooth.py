"""The published cost of PATE: sensitivities are bounds, and the noise costs what is charged."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from lib.privacy import PublishedCost, publish_epsilon, smooth_noise_rdp, smooth_sensitivity
from lib.privacy.pate import gnmax_rdp, pate_epsilon, threshold_rdp
from lib.privacy.smooth import (
    conditions,
    gnmax_cost,
    gnmax_sensitivity,
    log_q0,
    threshold_sensitivity,
    threshold_sensitivity_at,
)

# sigma2 and order: the conditions of the analysis hold in all but the last
SETTINGS = [(0.5, 1.5), (1.0, 1.5), (1.5, 2.0), (2.5, 3.0), (1.0, 4.0)]
RUN = {"sigma1": 3.0, "sigma2": 2.0, "threshold": 9.0, "delta": 1e-5}


def histograms(teachers, classes):
    """All votes of so many teachers."""
    for row in itertools.product(range(teachers + 1), repeat=classes):
        if sum(row) == teachers:
            yield row


def neighbours(row):
    for source, target in itertools.permutations(range(len(row)), 2):
        if row[source]:
            moved = list(row)
            moved[source] -= 1
            moved[target] += 1
            yield tuple(moved)


def worst_within(local, distance):
    """The largest local sensitivity of a histogram at most so many moved votes away."""
    rows = np.array(list(local))
    values = np.array(list(local.values()))
    return {
        row: max(values[np.abs(rows - row).sum(axis=1) <= 2 * distance]) for row in map(tuple, rows)
    }


def divergence(order, mean, sd, other_mean, other_sd):
    """Renyi's, of two normal distributions (Gil, Alajaji and Linder 2013)."""
    variance = order * other_sd**2 + (1 - order) * sd**2
    if variance <= 0:
        return math.inf
    spread = math.log(other_sd / sd) + math.log(other_sd**2 / variance) / (2 * (order - 1))
    return spread + order * (mean - other_mean) ** 2 / (2 * variance)


# TensorFlow Privacy, research/pate_2018/smooth_sensitivity_test.py
def test_answers_have_the_sensitivities_of_tensorflow_privacy():
    first = [3.13503646e-17, 1.60178280e-08, 5.90681786e-03] + [5.99981308e00] * 7
    second = [0.0] * 298 + [2.77693450548e-7, 2.10853979548e-6] + [2.73113623988e-6] * 1700
    (found,) = gnmax_sensitivity([[10, 0, 0]], 0.5, 1.5)
    assert found == pytest.approx(first, rel=1e-8, abs=0)
    (found,) = gnmax_sensitivity([[1000, 500, 300, 200, 0]], 250.0, 10.0)
    assert found == pytest.approx(second, rel=1e-8, abs=0)


def test_conditions_hold_where_they_do_in_tensorflow_privacy():
    assert conditions(20.0, 10, 25.0) == (True, False)
    assert conditions(30.0, 10, 25.0) == (True, True)


MIDDLE = [1.48454129e-04, 1.47826870e-02, 3.94153241e-02, 6.45775697e-02, 9.01543247e-02]
ENDS = [1.16054002e-01, 1.42180452e-01, 1.68302106e-01, 1.93127860e-01, 2.07021132e-01]


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        (16, [0] * 3 + MIDDLE + ENDS[:2] + [ENDS[1]] + MIDDLE + ENDS[:4] + [0] * 10),
        (2, [1.60212079e-01, ENDS[4]] + ENDS[::-1] + MIDDLE[::-1] + [0] * 18),
        (
            50,
            [
                *(1.35750725752e-19, 1.88990500499e-17, 2.05403154065e-15, 1.74298153642e-13),
                *(1.15489723995e-11, 5.97584949325e-10, 2.41486826748e-08, 7.62150641922e-07),
                *(1.87846248741e-05, 0.000360973025976, 0.000360973025976, 2.76377015215e-50),
                *(1.00904975276e-53, 2.87254164748e-57, 6.37583360761e-61, 1.10331620211e-64),
                *(1.48844393335e-68, 1.56535552444e-72, 1.28328011060e-76, 8.20047697109e-81),
                *([0] * 10),
            ],
        ),
    ],
)
def test_checks_have_the_sensitivities_of_tensorflow_privacy(threshold, expected):
    """Theirs differ by 2e-8 between equal distances from the threshold, by rounding."""
    (found,) = threshold_sensitivity_at([[20, 10, 0]], 2.0, threshold, 10.0)
    assert found == pytest.approx(expected, rel=3e-8, abs=0)


@pytest.mark.parametrize(("sigma", "order"), SETTINGS)
@pytest.mark.parametrize(("teachers", "classes"), [(12, 2), (9, 3), (6, 4)])
def test_no_histogram_at_a_distance_is_more_sensitive(sigma, order, teachers, classes):
    rows = list(histograms(teachers, classes))
    for cost, bounds in (
        (gnmax_cost(rows, sigma, order), gnmax_sensitivity(rows, sigma, order)),
        (
            threshold_rdp(rows, sigma, 5.0, [order])[:, 0],
            threshold_sensitivity(rows, sigma, 5.0, order),
        ),
    ):
        costs = dict(zip(rows, cost, strict=True))
        local = {
            row: max(abs(costs[row] - costs[other]) for other in neighbours(row)) for row in rows
        }
        assert np.all(np.diff(bounds, axis=1) >= 0)
        for distance in range(min(4, teachers)):
            worst = worst_within(local, distance)
            largest = np.array([worst[row] for row in rows])
            assert np.all(bounds[:, distance] >= largest * (1 - 1e-9))
    tight = np.isclose(bounds[:, 0], list(local.values()), rtol=1e-9, atol=0)
    assert np.mean(tight) > 0.6  # of the checks, where no two classes are tied
    assert all(conditions(sigma, classes, order)) == ((sigma, order) != SETTINGS[-1])


@pytest.mark.parametrize("sigma", [0.5, 1.5, 6.0, 40.0])
def test_an_answer_costs_what_the_accountant_says_but_near_the_bound_without_votes(sigma):
    rng = np.random.default_rng(0)
    rows = [rng.multinomial(60, rng.dirichlet(np.full(4, 0.2))) for _ in range(300)]
    for order in (1.3, 2.0, 5.0):
        ours, theirs = gnmax_cost(rows, sigma, order), gnmax_rdp(rows, sigma, [order])[:, 0]
        assert np.all(ours >= theirs)
        same = ours == theirs
        assert np.all(same | (ours == order / sigma**2))
        assert np.mean(same) > 0.9
        assert log_q0(sigma, order) < -1


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "order"), SETTINGS[::2])
def test_what_is_smooth_changes_by_a_factor_of_at_most_e_to_the_beta(sigma, order):
    """Data sets of three queries; a changed teacher moves a vote in each of them."""
    rng = np.random.default_rng(1)
    beta, rows = 0.15, list(histograms(10, 3))

    def smooth(votes):
        bounds = gnmax_sensitivity(votes, sigma, order).sum(axis=0)
        bounds = bounds + threshold_sensitivity(votes, sigma, 6.0, order).sum(axis=0)
        cost = gnmax_cost(votes, sigma, order).sum()
        return smooth_sensitivity(bounds, beta), cost + threshold_rdp(
            votes, sigma, 6.0, [order]
        ).sum()

    changes, ratios = [], []
    for _ in range(120):
        votes = [rows[i] for i in rng.integers(len(rows), size=3)]
        changed = []
        for row in votes:
            options = [row, *neighbours(row)]
            changed.append(options[rng.integers(len(options))])
        (s, cost), (other, other_cost) = smooth(votes), smooth(changed)
        changes.append(abs(math.log(s / other)))
        ratios.append(abs(cost - other_cost) / min(s, other))
    assert max(changes) <= beta * (1 + 1e-9)
    assert max(ratios) <= 1 + 1e-9
    if (sigma, order) != SETTINGS[-1]:  # there it is the same everywhere
        assert max(changes) > beta / 2


@pytest.mark.parametrize("apart", [[1, 1], [1, 1, 1], [1] * 10])
def test_teachers_who_all_disagree_get_noise_as_their_neighbours_do(apart):
    """Where only unanimity, n - 1 moves away, is next to votes that may cost less."""
    closer = [2, *apart[1:-1], 0]
    for sigma, queries in ((3.0, 100), (10.0, 1000)):
        run = (3 * sigma, sigma, 1.0, 1e-5, [True] * queries)
        here, there = (publish_epsilon([row] * queries, *run, seed=0) for row in (apart, closer))
        allowed = 0.5 * math.log1p(0.5 / (here.order - 1))
        assert there.smooth > 0
        assert abs(math.log(here.smooth / there.smooth)) <= allowed * (1 + 1e-9)


def test_what_the_authors_program_adds_up_over_queries_is_not_smooth():
    """It takes what is largest at exactly a distance, as if all largest counts moved at once."""
    beta, votes, changed = 0.02, [[29, 1], [21, 9]], [[28, 2], [20, 10]]
    for sensitivity, allowed in ((threshold_sensitivity_at, False), (threshold_sensitivity, True)):
        bounds = (sensitivity(given, 1.0, 16.0, 5.0).sum(axis=0) for given in (votes, changed))
        here, there = (smooth_sensitivity(each, beta) for each in bounds)
        assert (abs(math.log(here / there)) <= beta * (1 + 1e-9)) == allowed
    assert [smooth_sensitivity([3.0, 0.0, 5.0], beta) for beta in (0.0, 1.0)] == [5.0, 3.0]
    assert smooth_sensitivity([0.0, 0.0, 5.0], 1.0) == pytest.approx(5 * math.exp(-2))


@pytest.mark.parametrize(("beta", "order"), [(0.0, 3.0), (0.05, 2.0), (0.02, 10.0), (0.0245, 20.0)])
@pytest.mark.parametrize("noise", [0.5, 2.0, 8.0])
def test_the_release_costs_the_largest_divergence_of_neighbours(beta, order, noise):
    largest = 0.0
    for x in np.linspace(-beta, beta, 41):
        sensitivity = min(1, math.exp(x))
        for away in np.linspace(0, sensitivity, 5):
            other = noise * math.exp(x)
            largest = max(largest, divergence(order, 0, noise, away, other))
    assert smooth_noise_rdp(beta, noise, order) == pytest.approx(largest, rel=1e-12)
    edge = 1 + 1 / math.expm1(0.2)  # of orders that do not cost everything
    assert smooth_noise_rdp(0.1, 1.0, edge - 1e-6) < smooth_noise_rdp(0.1, 1.0, edge + 1e-6)
    assert smooth_noise_rdp(0.1, 1.0, edge + 1e-6) == smooth_noise_rdp(1e4, 1.0, 2.0) == math.inf


def some_votes(seed=0, queries=30):
    rng = np.random.default_rng(seed)
    return np.array([rng.multinomial(12, rng.dirichlet([0.3] * 3)) for _ in range(queries)])


@pytest.mark.slow
def test_the_published_epsilon_lies_in_its_interval_as_often_as_it_says():
    votes, answered, n = np.tile([[9, 2, 1], [6, 5, 1]], (200, 1)), np.arange(400) < 350, 200
    found = [publish_epsilon(votes, **RUN, answered=answered, seed=[7, i]) for i in range(n)]
    first = found[0]
    assert len({(f.low, f.high, f.exact, f.noise_rdp) for f in found}) == 1
    for outside in (sum(f.epsilon < f.low for f in found), sum(f.epsilon > f.high for f in found)):
        assert stats.binom.cdf(outside, n, 0.025) > 1e-4
        assert stats.binom.sf(outside - 1, n, 0.025) > 1e-4
    middle = (first.low + first.high) / 2  # without the release's own cost: the cost by the votes
    assert middle - first.noise_rdp == pytest.approx(first.exact, rel=1e-9)


def test_releases_of_neighbours_diverge_by_no_more_than_is_charged():
    """Noise by its charge, in units of the smooth sensitivity; votes and one teacher changed."""
    rng, ratios = np.random.default_rng(3), []
    for trial in range(60):
        votes = some_votes(trial, queries=6)
        changed = []
        for row in map(tuple, votes):
            options = [row, *neighbours(row)]
            changed.append(options[rng.integers(len(options))])
        parts = []
        for given in (votes, np.array(changed)):
            cost = publish_epsilon(given, **RUN, answered=6, seed=0)
            order = cost.order
            at = math.log(1e5) / (order - 1)  # epsilon - cost, up to a constant of the order
            beta = math.log1p(0.5 / (order - 1)) / 2
            fixed = smooth_noise_rdp(beta, 1.0, order) - order  # w is 1/2: order / noise^2 is left
            noise = math.sqrt(order / (cost.noise_rdp - fixed))
            parts.append((cost, cost.exact - at, noise * cost.smooth))
        (here, mean, sd), (there, other, other_sd) = parts
        assert here.noise_rdp == there.noise_rdp
        assert sd > 0
        exact = divergence(order, mean, sd, other, other_sd)
        assert exact <= here.noise_rdp * (1 + 1e-9)
        ratios.append(exact / here.noise_rdp)
    assert max(ratios) > 1e-3


def test_the_cost_of_any_run_is_at_least_that_of_a_run():
    votes, others = some_votes(), some_votes(1)
    for seed in range(10):
        answered = np.random.default_rng(seed).permutation(30) < 8
        realised = publish_epsilon(votes, **RUN, answered=answered, seed=0)
        dearest = publish_epsilon(votes, **RUN, answered=8, seed=0)
        other = publish_epsilon(others, **RUN, answered=answered, seed=0)
        assert realised.order == dearest.order == other.order  # which no vote changes
        assert realised.noise_rdp == other.noise_rdp
        without_votes = realised.order * (30 / (2 * 3.0**2) + 8 / 2.0**2)
        assert realised.noise_rdp == pytest.approx(0.1 * without_votes)
        assert realised.exact != other.exact
        assert realised.exact <= dearest.exact
        assert realised.smooth <= dearest.smooth
        alone = pate_epsilon(votes, **RUN, answered=answered)
        assert alone.data_dependent <= realised.exact * (1 + 1e-9)  # at the best order
        assert dearest.exact <= alone.data_independent * (1 + 1e-9)


def test_extreme_noise_gives_numbers_or_infinity():
    votes = [[3, 2], [5, 0]]
    for sigma in (1e-200, 1e-3, 1e3, 1e200):
        for answered in (2, [True, False]):
            cost = publish_epsilon(votes, sigma, sigma, 3.0, 1e-5, answered, seed=0)
            assert not math.isnan(cost.epsilon)
            assert cost.low <= cost.high
            assert math.isinf(cost.epsilon) == (sigma == 1e-200)
    nothing = publish_epsilon(np.zeros((0, 2), int), 1.0, 1.0, 3.0, 1e-5, 0, seed=0)
    assert isinstance(nothing, PublishedCost)
    assert (nothing.epsilon, nothing.low, nothing.high, nothing.exact) == (0, 0, 0, 0)
    assert nothing.noise_rdp == 0
    assert publish_epsilon([[5]] * 3, 1.0, 1.0, 3.0, 1e-5, 3, seed=0).smooth >= 0


@pytest.mark.slow
@pytest.mark.parametrize("queries", [1, 40])
@pytest.mark.parametrize("votes", [[250, 0], [140, 110, 0]])
@pytest.mark.parametrize("sigma", [5.0, 100.0])
def test_no_more_is_published_than_is_free(votes, queries, sigma):
    """The guarantee without the votes, which nobody pays for, is the most."""
    run = {"sigma1": sigma, "sigma2": sigma, "threshold": 150.0, "delta": 1e-5}
    given = [votes] * queries
    free = pate_epsilon(given, **run, answered=[True] * queries).data_independent
    for seed in range(5):
        for answered in (queries, [True] * queries):
            cost = publish_epsilon(given, **run, answered=answered, seed=seed)
            assert 0 <= cost.low <= cost.high <= free * (1 + 1e-12)
            assert cost.epsilon <= free * (1 + 1e-12)


def test_without_votes_nothing_is_sensitive():
    cost = publish_epsilon(np.zeros((0, 2), int), 40.0, 20.0, 60.0, 1e-5, 0, seed=0)
    assert cost.smooth == 0


def test_as_many_teachers_as_there_are_people():
    """What is farther than 2000 teachers has the largest sensitivity: bounded in time."""
    votes = np.array([[900_000_000, 100_000_000]] * 3)
    cost = publish_epsilon(votes, 4e7, 2e7, 6e8, 1e-5, 3, seed=0)
    assert 0 <= cost.low <= cost.epsilon <= cost.high < 1


def test_many_teachers_have_no_smaller_sensitivities_than_all(monkeypatch):
    """Of the first distances as of all; the last stands for the rest."""
    rows = [[300, 200], [500, 0], [251, 249]]

    def found():
        yield gnmax_sensitivity(rows, 40.0, 3.0)
        for threshold in (5.0, 400.0):
            yield threshold_sensitivity_at(rows, 40.0, threshold, 3.0)

    whole = list(found())
    monkeypatch.setattr("lib.privacy.smooth._DISTANCES", 50)
    for all_of_them, first in zip(whole, found(), strict=True):
        assert first.shape == (3, 50)
        assert np.array_equal(first[:, :49], all_of_them[:, :49])
        assert (first[:, 49] >= all_of_them[:, 49:].max(axis=1)).all()

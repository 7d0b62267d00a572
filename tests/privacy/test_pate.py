"""The votes are counted and answered as described, and the accountant bounds the exact costs."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy.special import log_ndtr, logsumexp

from lib.privacy.pate import (
    confident_gnmax,
    gnmax_log_q,
    gnmax_rdp,
    likely_outcome_rdp,
    pate_epsilon,
    shards,
    threshold_log_q,
    threshold_rdp,
    vote_histogram,
)

ORDERS = np.array([1.01, 1.2, 1.5, 2, 3, 4, 6, 8, 12, 20, 40, 100])
STEP = 0.1  # the integrand is entire: the trapezoid rule's error is far below rounding
NOISE = np.arange(-45, 45, STEP)
ROUNDING = 1e-11  # of an exact divergence, a difference of logarithms


def winner_log_probabilities(row, sigma):
    """Exactly: class j wins if its noise x exceeds every other's by more than the gap."""
    log_probabilities = []
    for j in range(len(row)):
        density = -(NOISE**2) / 2 - math.log(math.sqrt(2 * math.pi) / STEP)
        for i in range(len(row)):
            if i != j:
                density = density + log_ndtr(NOISE + (row[j] - row[i]) / sigma)
        log_probabilities.append(logsumexp(density))
    return np.array(log_probabilities)


def check_log_probabilities(largest, sigma, threshold):
    margin = (largest - threshold) / sigma
    return log_ndtr(np.array([-margin, margin]))


def renyi(log_p, log_q, orders=ORDERS):
    """D_a(p || q)."""
    orders = np.asarray(orders, dtype=float)
    return logsumexp(np.outer(orders, log_p) + np.outer(1 - orders, log_q), axis=1) / (orders - 1)


def neighbours(row):
    """All histograms with one vote moved."""
    for source, target in itertools.permutations(range(len(row)), 2):
        if row[source]:
            moved = list(row)
            moved[source] -= 1
            moved[target] += 1
            yield moved


def random_tables(seed, count, largest=12):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        classes = rng.integers(2, 5)
        teachers = rng.integers(3, largest + 1)
        row = rng.multinomial(teachers, rng.dirichlet(np.full(classes, 0.3)))
        yield row, rng.choice([0.6, 1.0, 1.5, 2.5, 5.0]), rng.uniform(0, 1.5 * teachers)


def check_divergences(tables, cost_of, free, distribution, around):
    """Within what is charged; no more than `free` without the votes, and nearly all at worst."""
    ratios, smaller = [], []
    for row, *given in tables:
        cost = cost_of([row], *given, ORDERS)[0]
        independent = ORDERS / (free * given[0] ** 2)
        assert np.all(cost <= independent)
        smaller.extend(cost < 0.99 * independent)
        here = distribution(row, *given)
        for neighbour in around(row):
            there = distribution(neighbour, *given)
            exact = renyi(here, there)
            assert np.all(exact <= cost * (1 + 1e-9) + ROUNDING)
            assert np.all(renyi(there, here) <= independent * (1 + 1e-9))
            ratios.extend(exact[cost > 1e-6] / cost[cost > 1e-6])
    assert max(ratios) > 0.9
    assert np.mean(smaller) > 0.1


@pytest.mark.parametrize("largest", [8, 40])
def test_no_neighbour_diverges_more_than_the_cost_of_an_answer(largest):
    tables = (table[:2] for table in random_tables(largest, 40, largest))
    check_divergences(tables, gnmax_rdp, 1, winner_log_probabilities, neighbours)


def test_no_neighbour_diverges_more_than_the_cost_of_a_check():
    def outcomes(row, sigma, threshold):
        return check_log_probabilities(max(row), sigma, threshold)

    tables = random_tables(2, 120, 30)
    check_divergences(
        tables, threshold_rdp, 2, outcomes, lambda row: ([max(row) - 1], [max(row) + 1])
    )


def test_q_is_above_the_exact_probability_and_close_where_it_is_small():
    for row, sigma, threshold in random_tables(4, 60):
        winners = winner_log_probabilities(row, sigma)
        likely = int(np.argmax(row))
        exact = logsumexp(np.delete(winners, likely))
        bound = gnmax_log_q([row], sigma)[0]
        assert exact <= bound + 1e-9
        assert bound <= math.log(1 - 1 / len(row))
        # A union bound counts an outcome at most once per class that beats the likely one.
        assert bound <= exact + math.log(len(row) - 1) + 1e-9
        check = check_log_probabilities(max(row), sigma, threshold)
        assert threshold_log_q([row], sigma, threshold)[0] == pytest.approx(min(check), rel=1e-12)


def test_epsilon_of_one_answer_against_the_exact_distribution():
    """The check is always passed, so that its outcome tells nothing."""
    row, sigma, delta = [20, 0, 0], 2.0, 1e-10
    cost = pate_epsilon([row], 1e6, sigma, -1e9, delta, [True])
    here = np.exp(winner_log_probabilities(row, sigma))
    for neighbour in neighbours(row):
        there = np.exp(winner_log_probabilities(neighbour, sigma))
        for epsilon in (cost.data_dependent, cost.data_independent):
            assert np.maximum(here - math.exp(epsilon) * there, 0).sum() <= delta
    assert 0 < cost.data_dependent < 0.95 * cost.data_independent


def theorem_6(log_q, sigma, order):
    """Papernot et al. 2018, Theorem 6 as printed, with 80 digits instead of logarithms."""
    with mpmath.workdps(80):
        q, sigma, order = mpmath.e ** mpmath.mpf(log_q), mpmath.mpf(sigma), mpmath.mpf(order)
        mu2 = sigma * mpmath.sqrt(mpmath.log(1 / q))
        mu1 = mu2 + 1
        e1, e2 = mpmath.e ** (mu1 / sigma**2), mpmath.e ** (mu2 / sigma**2)
        independent = order / sigma**2
        if mu1 <= order or mu2 <= 1 or q * e2 >= 1:
            return float(independent)
        if q > e2 ** (mu2 - 1) / (mu1 / (mu1 - 1) * mu2 / (mu2 - 1)) ** mu2:
            return float(independent)
        a = (1 - q) / (1 - (q * e2) ** ((mu2 - 1) / mu2))
        b = e1 / q ** (1 / (mu1 - 1))
        bound = mpmath.log((1 - q) * a ** (order - 1) + q * b ** (order - 1)) / (order - 1)
        return float(min(bound, independent))


def test_theorem_6_as_printed():
    rng = np.random.default_rng(5)
    log_q = -np.exp(rng.uniform(math.log(0.05), math.log(100), 25))
    smaller = 0
    for sigma in (0.7, 1.5, 6.0, 40.0):
        bounds = likely_outcome_rdp(log_q, sigma, ORDERS)
        smaller += np.sum(bounds < 0.99 * ORDERS / sigma**2)
        for i, k in itertools.product(range(len(log_q)), range(len(ORDERS))):
            printed = theorem_6(log_q[i], sigma, ORDERS[k])
            assert bounds[i, k] == pytest.approx(printed, rel=1e-8)
    assert smaller > 200


@pytest.mark.parametrize("sigma", [0.7, 3.0, 30.0, 1000.0])
def test_the_bound_grows_with_q(sigma):
    """Which is what lets an upper bound on q stand for q."""
    log_q = np.linspace(-200, 0, 20_001)
    bounds = likely_outcome_rdp(log_q, sigma, ORDERS)
    assert np.all(np.diff(bounds, axis=0) >= -1e-12 * bounds[1:])
    assert np.all(bounds[-1] == ORDERS / sigma**2)


def test_tiny_probabilities_do_not_underflow():
    votes = np.array([[5000, 0], [4000, 1000]])
    assert gnmax_log_q(votes, 20.0) == pytest.approx(
        [float(mpmath.log(mpmath.erfc(gap / mpmath.mpf(40)) / 2)) for gap in (5000, 3000)]
    )
    cost = gnmax_rdp(votes, 100.0, [50.0])[:, 0]
    assert 0 < cost[0] < cost[1] < 1e-80


# tensorflow/privacy, research/pate_2018/core_test.py: "Hand calculated -log(q0)s", where the
# data-dependent bound takes over.
SWITCHES = [
    (1.5, (2.8, 2.6, 427, None)),
    (15, (4.8, 4.0, 4.7, 275)),
    (1500, (9.6, 8.8, 6.0, 4)),
    (15_000, (12, 11.2, 8.6, 6.4)),
]


@pytest.mark.parametrize(
    ("sigma", "order", "switch"),
    [
        (sigma, order, switch)
        for sigma, switches in SWITCHES
        for order, switch in zip((1.1, 2.5, 32, 250), switches, strict=True)
        if switch is not None
    ],
)
def test_authors_switch_points(sigma, order, switch):
    below = likely_outcome_rdp(-switch - np.log([1, 2, 4, 8]), sigma, [order])[:, 0]
    assert np.all(np.diff(below) < 0)
    above = likely_outcome_rdp(
        np.log(math.exp(-switch) + np.array([0.1, 0.2, 0.3, 0.4])), sigma, [order]
    )
    assert np.all(above == order / sigma**2)
    assert below[0] == pytest.approx(order / sigma**2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma1", "sigma2", "asked", "answered", "delta"),
    [(160.0, 20.0, 1000, 500, 1e-5), (20.0, 10.0, 50, 30, 1e-6), (90.0, 30.0, 2000, 0, 1e-3)],
)
def test_data_independent_epsilon_against_gaussian_mechanisms(
    sigma1, sigma2, asked, answered, delta
):
    """A check is a Gaussian mechanism of sensitivity 1, an answer one of sensitivity sqrt(2)."""
    votes = np.tile([60, 40], (asked, 1))
    cost = pate_epsilon(votes, sigma1, sigma2, 50, delta, np.arange(asked) < answered)
    accountants = RdpAccountant(np.linspace(1.05, 60, 1200).tolist()), PLDAccountant()
    for accountant in accountants:
        accountant.compose(SelfComposedDpEvent(GaussianDpEvent(sigma1), asked))
        if answered:
            one = GaussianDpEvent(sigma2 / math.sqrt(2))
            accountant.compose(SelfComposedDpEvent(one, answered))
    renyi_epsilon, exact = (accountant.get_epsilon(delta) for accountant in accountants)
    assert cost.data_independent == pytest.approx(renyi_epsilon, rel=5e-3)
    assert exact <= cost.data_independent <= 1.3 * exact


def test_epsilon_is_of_the_realised_cost():
    rng = np.random.default_rng(7)
    votes = vote_histogram(rng.choice(4, size=(200, 300), p=[0.9, 0.05, 0.03, 0.02]), 4)
    parameters = (30.0, 20.0, 120.0)
    run = confident_gnmax(votes, *parameters, seed=0, max_answers=100)
    cost = pate_epsilon(votes, *parameters, 1e-5, run.answered, run.asked)
    assert 0 < cost.data_dependent < cost.data_independent
    order = cost.orders[0]
    checks = threshold_rdp(votes[run.asked], 30.0, 120.0, [order]).sum()
    spent = checks + gnmax_rdp(votes[run.answered], 20.0, [order]).sum()
    converted = spent + math.log1p(-1 / order) - math.log(1e-5 * order) / (order - 1)
    assert cost.data_dependent == pytest.approx(converted)
    # What was not asked costs nothing; all other things equal, asking more costs more.
    cut = pate_epsilon(votes[run.asked], *parameters, 1e-5, run.answered[run.asked])
    assert cut == cost
    assert pate_epsilon(votes, *parameters, 1e-5, run.answered).data_dependent > cost.data_dependent


def binomial_close(successes, trials, probability):
    deviation = math.sqrt(trials * probability * (1 - probability))
    return abs(successes - trials * probability) <= 5 * deviation + 1e-9


@pytest.mark.parametrize("row", [(5, 3, 1), (4, 4, 1), (9, 0, 0)])
def test_frequencies_of_answers_and_winners(row):
    n, sigma1, sigma2, threshold = 40_000, 2.0, 1.5, 5.5
    answers = confident_gnmax(np.tile(row, (n, 1)), sigma1, sigma2, threshold, seed=8)
    answered = int(answers.answered.sum())
    yes = math.exp(check_log_probabilities(max(row), sigma1, threshold)[1])
    assert binomial_close(answered, n, yes)
    for label, log_probability in enumerate(winner_log_probabilities(row, sigma2)):
        wins = int(np.sum(answers.labels == label))
        assert binomial_close(wins, answered, math.exp(log_probability)), label
    assert np.all((answers.labels == -1) == ~answers.answered)


def test_the_process_stops_after_enough_answers():
    votes = np.tile([6, 4], (100, 1))
    free = confident_gnmax(votes, 3.0, 2.0, 6.0, seed=9)
    assert free.asked.all()
    assert 20 < free.answered.sum() < 80
    for limit in (0, 1, 7, 100):
        answers = confident_gnmax(votes, 3.0, 2.0, 6.0, seed=9, max_answers=limit)
        count = answers.asked.sum()
        assert np.all(answers.asked == (np.arange(100) < count))  # the first ones
        assert answers.answered.sum() == min(limit, free.answered.sum())
        assert np.all(answers.labels[:count] == free.labels[:count])
        assert np.all(answers.labels[count:] == -1)
        if 0 < limit < free.answered.sum():
            assert answers.answered[count - 1]  # stopped with the last answer, not later


def test_the_noise_of_the_check_is_not_that_of_the_counts():
    """Otherwise a passed check would favour the first class."""
    runs = [confident_gnmax([[5, 5]], 1.0, 1.0, 5.5, seed) for seed in range(1000)]
    labels = np.array([run.labels[0] for run in runs if run.answered[0]])
    assert len(labels) > 150
    assert binomial_close(np.sum(labels == 0), len(labels), 0.5)


@pytest.mark.parametrize(("n", "teachers"), [(10, 1), (10, 3), (10, 10), (1001, 20)])
def test_shards_divide_the_rows(n, teachers):
    parts = shards(n, teachers, seed=0)
    sizes = [len(part) for part in parts]
    assert len(parts) == teachers
    assert max(sizes) - min(sizes) <= 1
    assert sorted(np.concatenate(parts)) == list(range(n))
    if n > teachers > 1:
        other = shards(n, teachers, seed=1)
        assert any(set(one) != set(two) for one, two in zip(parts, other, strict=True))


@pytest.mark.parametrize(
    ("row", "sigma", "expected"),
    [
        # One teacher, ties, much noise: no outcome is likely.
        ([1, 0], 1.0, ORDERS),
        ([3, 3], 1.0, ORDERS),
        ([1, 1, 1], 2.0, ORDERS / 4),
        ([100, 0], 1e6, ORDERS / 1e12),
        # A single class: the outcome is certain.
        ([5], 1.0, 0 * ORDERS),
    ],
)
def test_special_votes(row, sigma, expected):
    assert gnmax_rdp([row], sigma, ORDERS)[0] == pytest.approx(expected, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("sigma", [1e-300, 1e-160, 1e160, 1e300])
def test_extreme_noise_is_no_warning_and_no_discount(sigma):
    votes = [[5, 0], [3, 2]]
    for cost in (gnmax_rdp(votes, sigma, [200.0]), threshold_rdp(votes, sigma, 4.0, [200.0])):
        assert np.all(cost == (math.inf if sigma < 1 else 0))
    cost = pate_epsilon(votes, sigma, sigma, 4.0, 1e-5, [True, False])
    assert cost.data_independent == (math.inf if sigma < 1 else 0)


def test_nothing_asked_or_nothing_answered():
    empty = np.zeros((0, 3), dtype=int)
    assert gnmax_rdp(empty, 1.0, ORDERS).shape == (0, len(ORDERS))
    assert threshold_rdp(empty, 1.0, 1.0, ORDERS).shape == (0, len(ORDERS))
    assert vote_histogram(np.zeros((4, 0), dtype=int), 3).shape == (0, 3)
    with pytest.raises(ValueError, match=r"at most 2\^53 teachers"):
        confident_gnmax([[2**52 + 2, 2]], 1.0, 1.0, 1.0, seed=0)
    answers = confident_gnmax(empty, 1.0, 1.0, 1.0, seed=0)
    assert answers.labels.shape == answers.answered.shape == answers.asked.shape == (0,)
    cost = pate_epsilon(empty, 1.0, 1.0, 1.0, 1e-5, [])
    assert (cost.data_dependent, cost.data_independent) == (0, 0)
    # Asked in vain, which is not free.
    refused = [[3, 2]], 1.0, 1.0, 4.0, 1e-5, [False]
    assert pate_epsilon(*refused).data_dependent > 0
    assert pate_epsilon(*refused, [False]).data_dependent == 0
    predictions = np.array([[0, 2, 1, 1], [0, 2, 0, 1], [0, 1, 2, 2]], dtype=np.uint8)
    wanted = [[3, 0, 0, 0], [0, 1, 2, 0], [1, 1, 1, 0], [0, 2, 1, 0]]
    assert vote_histogram(predictions, 4).tolist() == wanted

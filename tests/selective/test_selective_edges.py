"""Boundaries of what is allowed, messages in full, and values derived another way.

Most were added where mutation testing showed that a change would go unnoticed.
"""

import math
import re

import numpy as np
import pytest
from scipy import stats

from lib import selective
from lib.bounds import few_vary
from lib.selective.areas import normalized_score_extremes
from lib.selective.influences import METRICS
from lib.selective.uncertainty import _harmonic

P = [[0.5, 0.5], [0.25, 0.75]]


FOUR = ([1, 0, 1], [1, 2, 3], [0, 0, 1], [3, 2, 1])
NAMES = "'normalized_score', 'selective_auc', 'aurc', 'augrc'"

# The texts that these modules add to those of `lib.check`, which has tests of its own; the names
# of all arguments are held to in tests/malformed.
MESSAGES = {
    "n_correct must be an integer from 0 to 2, got 3": lambda: normalized_score_extremes(3, 2),
    "coverage must be in (0, 1], got 1.5": lambda: selective.accuracy_bound(0.5, 1.5),
    "probabilities must have at least two classes, got shape (2, 1)": lambda: selective.margin(
        [[1.0], [1.0]]
    ),
    "logits must be real numbers of shape (n, classes)": lambda: selective.energy([1.0]),
    "probabilities must be real numbers of shape (n, classes + 1)": lambda: (
        selective.self_adaptive_training([0.5, 0.5])
    ),
    "probabilities must be real numbers of shape (n, classes + 1), all": lambda: (
        selective.deep_gamblers([0.5, 0.5])
    ),
    "probabilities must be real numbers of shape (passes, n, classes)": lambda: (
        selective.mc_dropout(P)
    ),
    "probabilities must be real numbers of shape (members, n, classes)": lambda: (
        selective.deep_ensemble(P)
    ),
    "k must be finite, got inf": lambda: selective.sctd([[1]], math.inf),
    "k must be above 0 for the form 'algorithm', whose weights are infinite": lambda: (
        selective.sctd([[1]], 0, "algorithm")
    ),
    "second must have one entry per entry of score (2), got 1": lambda: selective.ties_broken_by(
        [1, 2], [1]
    ),
    f"metric must be one of {NAMES}, got 'auc'": lambda: selective.influence(*FOUR[:2], "auc"),
    "repetitions must be an integer of at least 100, got 99": lambda: selective.bootstrap(
        *FOUR[:2], repetitions=99, seed=0
    ),
    "other_correct and other_score must be given both or not at all": lambda: selective.bootstrap(
        *FOUR[:2], other_score=[1, 2, 3], seed=0
    ),
    "other_correct must be booleans, or 0 and 1, got 2": lambda: selective.bootstrap(
        *FOUR[:2], [1, 2, 0], [1, 2, 3], seed=0
    ),
    "other_correct must be about the same points as correct (3), got 2": lambda: selective.compare(
        *FOUR[:2], [1, 0], [1, 2]
    ),
    "other_score must not be NaN, got 1 NaN, the first in row 2": lambda: selective.compare(
        *FOUR[:3], [1, 2, math.nan]
    ),
    "power must be a number in (0.25, 1), got 0.25": lambda: selective.points_needed(
        *FOUR, alpha=0.25, power=0.25
    ),
    "difference must be a number in (-inf, inf), got inf": lambda: selective.points_needed(
        *FOUR, difference=math.inf
    ),
    "values must have at least 2 entries, got 1": lambda: selective.mean_over_seeds([1]),
    "values must be real numbers of shape (seeds)": lambda: selective.mean_over_seeds([[1, 2]]),
    "point_variance must be finite, got inf": lambda: selective.mean_over_seeds([1, 2], math.inf),
    "correct, score, other_correct and other_score must share one shape (seeds, n), got (3,), (3,),"
    " (3,), (3,)": lambda: selective.compare_over_seeds(*FOUR),
    "correct must have at least 2 entries, got 1: one point gives no interval": lambda: (
        selective.compare([True], [0.3], [False], [0.2])
    ),
    "correct must have at least 2 entries, got 1": lambda: selective.bootstrap(
        [True], [0.3], seed=0
    ),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_messages_in_full(message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        MESSAGES[message]()


@pytest.mark.parametrize("place", range(4))
def test_stacks_of_unequal_rows_are_named(place):
    given = [*FOUR[:place], [[1], [1, 0]], *FOUR[place + 1 :]]
    name = ("correct", "score", "other_correct", "other_score")[place]
    with pytest.raises(ValueError, match=f"^{name} must be rectangular"):
        selective.compare_over_seeds(*given)


# ------------------------------------------------------------------ areas, curves, scores


def test_extremes_of_few_points_by_hand():
    assert normalized_score_extremes(0, 1) == normalized_score_extremes(1, 1) == (0.0, 0.0)
    # Best (1 + 1/2) / 2, random 1/2 at both coverages, worst (0 + 1/2) / 2.
    assert normalized_score_extremes(1, 2) == (0.25, 0.5)
    assert normalized_score_extremes(np.int64(2), np.int64(2)) == (0.0, 0.0)
    best = (1 + 1 + 2 / 3) / 3
    assert normalized_score_extremes(2, 3) == pytest.approx(
        (best - 2 / 3, best - (0 + 1 / 2 + 2 / 3) / 3)
    )


def test_a_target_that_rounding_misses_is_reached():
    # 3/10 as the share of three right among ten, against the float 0.1 + 0.2.
    correct = [True] * 3 + [False] * 7
    target = 0.1 + 0.2
    assert target > 3 / 10
    assert selective.coverage_at_accuracy(correct, range(10, 0, -1), target) == 1.0
    assert selective.coverage_at_accuracy(correct, range(10, 0, -1), 0.3 + 1e-9) == 0.9
    assert selective.coverage_at_accuracy([False], [1], 0.5) == 0.0


def test_set_sizes_do_not_depend_on_the_sum_of_a_row():
    """Rows may sum to 0.999: what counts is the share of the mass."""
    p = np.array([[0.5, 0.3, 0.2], [0.2, 0.7, 0.1]])
    for factor in (0.9992, 1.0008):
        assert selective.conformal_set_size(factor * p, 0.6) == pytest.approx(
            selective.conformal_set_size(p, 0.6), abs=1e-12
        )
    # 0.5, and 0.1 of the 0.3 of the second class; the default mass is 0.9.
    assert selective.conformal_set_size(p, 0.6)[0] == pytest.approx(-1 - 0.1 / 0.3)
    assert selective.conformal_set_size(p)[0] == pytest.approx(-2.5)
    # The class that completes the mass exactly is the last one needed.
    assert selective.conformal_set_size([[0.5, 0.25, 0.25]], 0.75) == pytest.approx([-2])


def test_sctd_by_default_is_the_equation_with_a_weight_of_three():
    labels = np.random.default_rng(0).integers(0, 3, (9, 20))
    expected = [
        -sum((t / 9) ** 3 for t in range(1, 9) if column[t - 1] != column[-1])
        for column in labels.T
    ]
    assert selective.sctd(labels) == pytest.approx(expected)


def test_ranks_of_one_point():
    assert selective.ties_broken_by([5], [7]).tolist() == [0.0]
    assert selective.ties_broken_by([1, 1, 2, 2], [3, 3, 1, 0]).tolist() == [0, 0, 2, 1]


def test_the_methods_of_p1():
    """P1, section 3.2: which are post-processing, and the five models of ensembles."""
    first = ["SR", "MCDO", "SAT", "DG", "SCTD", "DE", "SN"]
    rest = ["entropy", "margin", "energy", "set size"]
    assert list(selective.METHODS) == first + rest
    for name, method in selective.METHODS.items():
        assert method.name == name
        assert method.privacy == ("composition" if name in ("DE", "SN") else "post-processing")
        assert method.releases == (5 if name in ("DE", "SN") else 1)
    uses = {name: method.uses for name, method in selective.METHODS.items()}
    assert uses == {
        **dict.fromkeys(["SR", *rest], "final model"),
        "MCDO": "final model with dropout",
        **dict.fromkeys(["SAT", "DG"], "final model, C + 1 outputs"),
        "SCTD": "all checkpoints of one run",
        "DE": "final models of 5 runs",
        "SN": "final models of 5 target coverages",
    }
    with pytest.raises(TypeError):
        selective.METHODS["SR"] = None


# ------------------------------------------------------------------ influence


def cases():
    rng = np.random.default_rng(0)
    yield np.array([True, False]), np.array([1.0, 2.0])
    yield np.array([True, False, True]), np.zeros(3)
    for n, values in ((7, 100), (30, 5), (41, 2), (60, 1000)):
        correct = rng.random(n) < 0.7
        correct[:2] = True, False
        yield correct, rng.integers(0, values, n).astype(float)


@pytest.mark.parametrize(("correct", "score"), list(cases()))
def test_influence_on_augrc_is_the_derivative_of_a_double_sum(correct, score):
    """n^2 AUGRC is the sum over wrong j and all i of [i after j], a tie (and j itself) being 1/2.

    A double sum of a kernel h has the influence function mean h(., p) + mean h(p, .) - 2 AUGRC.
    """
    n = len(correct)
    kernel = np.array(
        [
            [
                (not correct[j]) * ((score[i] < score[j]) + (score[i] == score[j]) / 2)
                for i in range(n)
            ]
            for j in range(n)
        ]
    )
    assert selective.augrc(correct, score) == pytest.approx(kernel.mean(), abs=1e-14)
    expected = kernel.mean(0) + kernel.mean(1) - 2 * kernel.mean()
    found = selective.influence(correct, score, "augrc")
    assert found == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize(("correct", "score"), list(cases()))
def test_influence_on_the_area_point_by_point(correct, score):
    """r(u) + int_u^1 (y - r(c)) / c dc as a sum over the grid, averaged over places in a tie."""
    n, curve = len(correct), selective.accuracy_coverage(correct, score).accuracy
    places = [(np.flatnonzero(np.sort(-score) == -s) + 1).tolist() for s in score]
    expected = []
    for y, ranks in zip(correct, places, strict=True):
        values = [
            curve[i - 1] + sum((y - curve[j - 1]) / j for j in range(i, n + 1)) for i in ranks
        ]
        expected.append(sum(values) / len(values))
    expected = np.array(expected) - np.mean(expected)
    area = selective.influence(correct, score, "selective_auc")
    assert area == pytest.approx(expected, abs=1e-12)
    assert selective.influence(correct, score, "aurc") == pytest.approx(-area, abs=1e-15)
    a = correct.mean()
    bound = -math.log(a) * (correct - a)
    assert selective.influence(correct, score) == pytest.approx(bound - area, abs=1e-12)


def test_influence_is_nothing_where_nothing_can_vary():
    for right in (True, False):
        values = selective.influence([right] * 4, [1, 2, 3, 4], "normalized_score")
        assert values.tolist() == [0.0] * 4
    # One error among a thousand is not nothing.
    assert selective.influence([True] * 999 + [False], range(1000)).any()


# ------------------------------------------------------------------ intervals


def by_hand(value, influences, level, bend=0.0):
    """Student's interval with n over the kurtosis less one degrees, moved against the skewness."""
    n, spread = len(influences), influences.std()
    z = stats.norm.ppf((1 + level) / 2)
    effective = n * spread**4 / (influences**4).mean()
    half = stats.t.ppf((1 + level) / 2, effective - 1) * spread / math.sqrt(n - 1)
    move = (influences**3).mean() / spread**3 / math.sqrt(n) * (2 * z**2 + 1) / 6
    middle = value + move * spread / math.sqrt(n - 1)
    return middle - math.hypot(half, bend), middle + math.hypot(half, bend)


def test_intervals_by_hand():
    rng = np.random.default_rng(1)
    correct, score = rng.random(150) < 0.7, rng.random(150)
    found = selective.estimate(correct, score, "augrc", 0.8)
    values = selective.influence(correct, score, "augrc")
    error = math.sqrt((values**2).sum()) / 150
    assert found.value == selective.augrc(correct, score)
    assert (found.standard_error, found.level) == (pytest.approx(error, rel=1e-12), 0.8)
    assert (found.low, found.high) == pytest.approx(by_hand(found.value, values, 0.8))
    found = selective.estimate(correct, score, level=0.8)
    bent = stats.norm.ppf(0.9) ** 2 / 300
    hand = by_hand(found.value, selective.influence(correct, score), 0.8, bent)
    assert (found.low, found.high) == pytest.approx(hand)
    assert selective.estimate(correct, score).level == 0.95
    assert selective.estimate(correct, score) == selective.estimate(
        correct, score, "normalized_score", 0.95
    )


def test_compared_by_hand_and_by_default():
    rng = np.random.default_rng(2)
    four = rng.random(150) < 0.7, rng.random(150), rng.random(150) < 0.6, rng.random(150)
    found = selective.compare(*four, "aurc", 0.5)
    values = selective.influence(*four[:2], "aurc") - selective.influence(*four[2:], "aurc")
    assert found.value == selective.aurc(*four[:2]) - selective.aurc(*four[2:])
    error = math.sqrt((values**2).sum()) / 150
    assert found.standard_error == pytest.approx(error, rel=1e-12)
    assert (found.low, found.high) == pytest.approx(by_hand(found.value, values, 0.5))
    assert selective.compare(*four) == selective.compare(*four, "normalized_score", 0.95)


def test_points_needed_by_the_formula():
    rng = np.random.default_rng(3)
    four = rng.random(50) < 0.7, rng.random(50), rng.random(50) < 0.6, rng.random(50)
    for metric in METRICS:
        found = selective.compare(*four, metric)
        z = stats.norm.ppf(1 - 0.1 / 2) + stats.norm.ppf(0.7)
        needed = selective.points_needed(*four, metric, alpha=0.1, power=0.7)
        assert needed == pytest.approx((z * found.standard_error / found.value) ** 2 * 50)
        assert selective.points_needed(
            *four, metric, difference=2 * found.value, alpha=0.1, power=0.7
        ) == pytest.approx(needed / 4)
    assert selective.points_needed(*four) == selective.points_needed(
        *four, "normalized_score", alpha=0.05, power=0.8
    )


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n", [2, 3, 33, 200])
def test_bootstrap_of_any_size_is_resampling_rows(metric, n):
    """Also where a sample has right points only, or wrong ones only, or few."""
    rng = np.random.default_rng(n)
    correct, score = rng.random(n) < 0.6, np.round(rng.random(n), 1)
    found = selective.bootstrap(
        correct, score, metric=metric, repetitions=100, level=0.8, seed=np.random.default_rng(4)
    )
    rng, sampled = np.random.default_rng(4), []
    for _ in range(100):
        rows = rng.integers(0, n, n)
        sampled.append(METRICS[metric](correct[rows], score[rows]))
    low, high = np.quantile(sampled, [0.1, 0.9])
    if few_vary(selective.influence(correct, score, metric), 30)[0]:
        bounds = selective.estimate(correct, score, metric, 0.8)
        low, high = bounds.low, bounds.high
    assert (found.value, found.level) == (METRICS[metric](correct, score), 0.8)
    # The series of the harmonic numbers leaves 1 / (252 n^6), 3e-12 at 33, times at most n / n.
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-12)
    assert found.standard_error == pytest.approx(np.std(sampled, ddof=1), abs=5e-12)


def test_bootstrap_by_default_and_paired():
    rng = np.random.default_rng(5)
    four = rng.random(20) < 0.7, rng.random(20), rng.random(20) < 0.6, rng.random(20)
    default = selective.bootstrap(*four, seed=1)
    assert default == selective.bootstrap(
        *four, metric="normalized_score", repetitions=2000, level=0.95, seed=1
    )
    assert default.value == selective.normalized_score(*four[:2]) - selective.normalized_score(
        *four[2:]
    )
    assert default != selective.bootstrap(*four, repetitions=2001, seed=1)
    assert selective.bootstrap(*four[:2], repetitions=np.int64(100), seed=1).level == 0.95


def test_harmonic_numbers():
    for n in (*range(70), 1000):
        exact = math.fsum(1 / i for i in range(1, n + 1))
        assert _harmonic(n) == pytest.approx(exact, abs=1e-11 if n < 40 else 1e-12), n


# ------------------------------------------------------------------ several trainings


def test_degrees_of_freedom_by_welch_and_satterthwaite():
    values = [0.1, 0.4, 0.2, 0.5, 0.9]
    seeds = np.var(values, ddof=1) / 5
    found = selective.mean_over_seeds(values, 0.03, 40)
    assert found.value == pytest.approx(0.42)
    assert found.standard_error == pytest.approx(math.sqrt(seeds + 0.03))
    expected = (seeds + 0.03) ** 2 / (seeds**2 / 4 + 0.03**2 / 39)
    assert found.degrees == pytest.approx(expected)
    half = stats.t.ppf(0.9, expected) * found.standard_error
    assert found.interval(0.8) == pytest.approx((0.42 - half, 0.42 + half))
    half = stats.t.ppf(0.975, expected) * found.standard_error
    assert found.interval() == pytest.approx((0.42 - half, 0.42 + half))
    # A variance of unknown or least origin counts one degree of freedom.
    for n in (0, 1, 2):
        few = selective.mean_over_seeds(values, 0.03, n)
        assert few.degrees == pytest.approx((seeds + 0.03) ** 2 / (seeds**2 / 4 + 0.03**2))
    points = selective.mean_over_seeds([0.5, 0.5], 0.04, 11)
    assert (points.standard_error, points.degrees) == pytest.approx((0.2, 10))
    still = selective.mean_over_seeds([0.5, 0.5])
    assert (still.value, still.standard_error, still.degrees) == (0.5, 0.0, math.inf)
    assert selective.mean_over_seeds([1, 2]).degrees == 1.0
    one = selective.mean_over_seeds([0, 2])
    assert one.standard_error == 1.0
    assert one.interval(0.5) == pytest.approx((0.0, 2.0))  # Cauchy's quartiles are -1 and 1
    # Trainings of a wide range: the variance of the points is not nothing.
    wide = selective.mean_over_seeds([1, 2], 0.5, 100)
    assert wide.standard_error == pytest.approx(math.sqrt(0.25 + 0.5))


def test_comparison_over_seeds_by_hand():
    rng = np.random.default_rng(6)
    correct, other = rng.random((2, 3, 250)) < 0.7
    score, second = rng.normal(size=(2, 3, 250))
    for metric, area in METRICS.items():
        found = selective.compare_over_seeds(correct, score, other, second, metric)
        differences = [area(correct[k], score[k]) - area(other[k], second[k]) for k in range(3)]
        mean = (
            sum(
                selective.influence(correct[k], score[k], metric)
                - selective.influence(other[k], second[k], metric)
                for k in range(3)
            )
            / 3
        )
        assert found.value == pytest.approx(np.mean(differences))
        points = (mean**2).sum() / 250**2
        effective = 250 * (mean**2).mean() ** 2 / (mean**4).mean()
        seeds = np.var(differences, ddof=1) / 3
        assert found.standard_error == pytest.approx(math.sqrt(seeds + points))
        expected = (seeds + points) ** 2 / (seeds**2 / 2 + points**2 / (effective - 1))
        assert found.degrees == pytest.approx(expected)
    assert selective.compare_over_seeds(correct, score, other, second) == (
        selective.compare_over_seeds(correct, score, other, second, "normalized_score")
    )

"""Acceptance scores against their formulas, written out point by point."""

import math

import numpy as np
import pytest
from mpmath import mp
from scipy import special, stats

from lib import selective
from lib.selective import entropy, margin, softmax_response


@pytest.fixture
def logits():
    return np.random.default_rng(0).normal(0, 2, (50, 6))


@pytest.fixture
def p(logits):
    e = np.exp(logits)
    return e / e.sum(1, keepdims=True)


def test_scores_of_one_model(logits, p):
    for i, row in enumerate(p):
        top = sorted(row)
        assert selective.softmax_response(p)[i] == top[-1]
        assert selective.margin(p)[i] == pytest.approx(top[-1] - top[-2])
        assert selective.entropy(p)[i] == pytest.approx(-stats.entropy(row))
        assert selective.energy(logits)[i] == pytest.approx(math.log(np.exp(logits[i]).sum()))


def test_ensembles_average_probabilities_first(p):
    members = np.stack([p, p[:, ::-1], np.roll(p, 1, axis=1)])
    expected = [max(np.mean([m[i, c] for m in members]) for c in range(6)) for i in range(50)]
    assert selective.deep_ensemble(members) == pytest.approx(expected)
    assert selective.mc_dropout(members) == pytest.approx(expected)


@pytest.mark.parametrize("form", ["equation", "algorithm"])
@pytest.mark.parametrize("k", [0.5, 1, 3, 10])
def test_sctd_point_by_point(form, k):
    labels = np.random.default_rng(1).integers(0, 3, (20, 40))
    expected = []
    for column in labels.T:
        total = 0.0
        for t, label in enumerate(column, 1):
            if label != column[-1]:
                share = (t / 20) ** k
                total += share if form == "equation" else 1 / (1 - share)
        expected.append(-total)
    found = selective.sctd(labels, k, form)
    assert found == pytest.approx(expected)
    if (form, k) == ("equation", 3):
        assert selective.sctd(labels).tolist() == found.tolist()


def test_sctd_of_equal_weights_ties_exactly():
    """15 + 16 + 17 = 11 + 18 + 19, and 11^3 + 13^3 + 16^3 = 4^3 + 12^3 + 18^3."""
    for k, sets in ((1, ((15, 16, 17), (11, 18, 19))), (3, ((11, 13, 16), (4, 12, 18)))):
        labels = np.zeros((20, 2), dtype=int)
        for column, places in enumerate(sets):
            labels[np.array(places) - 1, column] = 1
        a, b = selective.sctd(labels, k)
        assert a == b < 0


def test_sctd_edges():
    assert selective.sctd([[3, 1]]).tolist() == [0.0, 0.0]
    assert selective.sctd([[1], [1], [1]]).tolist() == [0.0]
    assert selective.sctd([[0], [1]], k=0).tolist() == [-1.0]
    assert not np.signbit(selective.sctd([[1], [1]])).any()


def test_ties_broken_by_keeps_the_first_order():
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 4, 300), rng.random(300)
    found = selective.ties_broken_by(first, second)
    for i in range(0, 300, 7):
        for j in range(300):
            expected = (first[i], second[i]) > (first[j], second[j])
            assert (found[i] > found[j]) == expected
    assert len(np.unique(found)) == 300
    assert selective.ties_broken_by([1, 1, 2, 2], [3, 3, 1, 0]).tolist() == [0, 0, 2, 1]


def test_set_sizes_by_hand():
    """Rows may sum to 0.999: what counts is the share of the mass."""
    p = np.array([[0.5, 0.3, 0.2], [0.2, 0.7, 0.1]])
    for factor in (0.9992, 1.0, 1.0008):
        # 0.5, and 0.1 of the 0.3 of the second class.
        assert selective.conformal_set_size(factor * p, 0.6)[0] == pytest.approx(-1 - 0.1 / 0.3)
    assert selective.conformal_set_size(p)[0] == pytest.approx(-2.5)  # of a mass of 0.9
    # The class that completes the mass exactly is the last one needed.
    assert selective.conformal_set_size([[0.5, 0.25, 0.25]], 0.75) == pytest.approx([-2])


def test_one_output_more_is_for_abstention():
    p = [[0.9, 0.0, 0.1], [0.4, 0.0, 0.6]]
    for score in (selective.self_adaptive_training, selective.deep_gamblers):
        assert score(p).tolist() == pytest.approx([-0.1, -0.6])


def test_the_methods_of_p1():
    """P1, section 3.2: which are post-processing, and the five models of ensembles."""
    several = ("DE", "SN")
    assert list(selective.METHODS)[:7] == ["SR", "MCDO", "SAT", "DG", "SCTD", "DE", "SN"]
    for name, method in selective.METHODS.items():
        assert method.privacy == ("composition" if name in several else "post-processing")
        assert (method.name, method.releases) == (name, 5 if name in several else 1)


SAME = ("softmax response", "margin", "entropy")


def exact_log_odds(logits, of):
    """By definition, in as many digits as it takes."""
    mp.dps = 40 + 2 * int(np.ptp(logits))
    powers = sorted(mp.exp(mp.mpf(float(z)) - mp.mpf(float(max(logits)))) for z in logits)
    p = [power / mp.fsum(powers) for power in powers]
    if of == "softmax response" or len(p) == 2:
        return float(mp.log(p[-1] / mp.fsum(p[:-1])))
    if of == "margin":
        rest = mp.fsum(p[:-2])
        return float(mp.log((2 * p[-1] + rest) / (2 * p[-2] + rest)))
    return float(-mp.log(-mp.fsum(q * mp.log(q) for q in p)))


@pytest.mark.parametrize("of", SAME)
@pytest.mark.parametrize("classes", [2, 3, 6])
def test_log_odds_by_definition(of, classes):
    rng = np.random.default_rng(classes)
    for scale in (1e-3, 1.0, 10.0, 300.0):
        logits = rng.normal(size=(4, classes)) * scale
        exact = [exact_log_odds(z, of) for z in logits]
        for moved in (0.0, 1e4):
            tolerance = {"rel": 1e-10, "abs": 1e-10 + moved * 1e-15}
            found = selective.log_odds(logits=logits + moved, of=of)
            assert found == pytest.approx(exact, **tolerance)
        if scale <= 10:
            p = special.softmax(logits, axis=1)
            assert selective.log_odds(p, of=of) == pytest.approx(exact, rel=1e-8, abs=1e-10)
    certain = np.eye(classes)
    assert np.isposinf(selective.log_odds(certain, of=of)).all()


def test_two_classes_are_one_ranking_however_sure():
    """1 - p underflows from log-odds of 37 on; the other probability does not."""
    rng = np.random.default_rng(3)
    logits = np.outer(rng.normal(size=4000) * 40, [-0.5, 0.5])
    correct = rng.random(4000) < special.expit(np.abs(logits[:, 1]) / 10)
    p = special.softmax(logits, axis=1)
    exact = selective.aurc(correct, np.abs(logits[:, 1]))
    assert len({selective.aurc(correct, f(p)) for f in (softmax_response, margin)}) == 2
    for of in SAME:
        assert selective.aurc(correct, selective.log_odds(p, of=of)) == exact
        assert selective.aurc(correct, selective.log_odds(logits=logits, of=of)) == exact
    assert selective.aurc(correct, entropy(p)) == pytest.approx(exact, abs=1e-12)


def test_scores_are_computed_in_double_precision():
    rng = np.random.default_rng(4)
    half = special.softmax(rng.normal(size=(50, 7)) * 4, axis=1).astype(np.float16)
    stack = np.stack([half, half[:, ::-1]])
    for function, given in (
        *((f, half) for f in (softmax_response, margin, entropy, selective.conformal_set_size)),
        *((f, stack) for f in (selective.deep_ensemble, selective.mc_dropout)),
        (selective.log_odds, half),
        (selective.energy, half),
    ):
        once = function(given.astype(float))
        for kind in (np.float16, np.float32):
            assert np.array_equal(function(given.astype(kind)).astype(float), once), function


@pytest.mark.parametrize("classes", [2, 5])
def test_ties_are_decided_up_to_rounding(classes):
    """k / 11 by ways that differ in the last bits rank alike, in all curves and thresholds."""
    rng = np.random.default_rng(classes)
    k = rng.integers(1, 11, 3000)
    correct = rng.random(3000) < 0.5 + k / 22
    ways = np.choose(rng.integers(0, 3, 3000), [k / 11, 1 - (11 - k) / 11, k * (1 / 11)])
    single = np.choose(
        rng.integers(0, 2, 3000),
        [np.float32(k) / np.float32(11), np.float32(1) - np.float32(11 - k) / np.float32(11)],
    )
    functions = [
        *(selective.aurc, selective.augrc, selective.normalized_score, selective.e_aurc),
        lambda c, s: selective.risk_areas(~c, s)["naurc"],
        lambda c, s: selective.coverage_at_accuracy(c, s, 0.8),
        lambda c, s: selective.guaranteed_threshold(c, s, 0.8).coverage,
        lambda c, s: selective.estimate(c, s).standard_error,
        lambda c, s: selective.gap_decomposition(c, s)["ranking"],
        lambda c, s: selective.accuracy_coverage(c, s).accuracy.sum(),
        lambda c, s: selective.aurc(c, selective.ties_broken_by(s, -s)),
    ]
    for function in functions:
        exact = function(correct, k)
        for score in (ways, single, single.astype(float)):
            assert function(correct, score) == pytest.approx(exact, rel=1e-12)


def test_losses_that_are_equal_up_to_rounding_leave_nothing_to_rank():
    for losses in ([0.3, 0.1 + 0.2] * 40, np.float32([0.3, 1 - np.float32(0.7)] * 40)):
        found = selective.risk_areas(losses, np.arange(80.0))
        assert (found["naurc"], found["e_aurc"]) == (0.0, 0.0)
    rng = np.random.default_rng(5)
    losses, score = rng.random(500), rng.random(500)
    plain = selective.risk_areas(losses, score)
    for moved in (1e6, -3.0):
        assert selective.risk_areas(losses + moved, score)["naurc"] == pytest.approx(
            plain["naurc"], rel=1e-9
        )

"""Studies of the three interval methods: numbers of the paper, exactness, honesty."""

import itertools
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib.audit import METHODS, AttackCounts, epsilon_interval, epsilon_point, epsilon_posterior
from lib.book.claims import NOT_REPRODUCED, REDUCED, UNDECIDED, judge, read_claims
from lib.book.evidence import Evidence
from lib.studies.audit.tables import (
    actual_coverage,
    coverage_table,
    enclosed_mass,
    mass_outside,
    rectangle_mass,
    selection_study,
    swept_narrower,
    swept_widths,
    trials_needed,
    width_changes,
    widths_by_trials,
)

EXAMPLE = AttackCounts(tp=65, fp=25, tn=75, fn=35)


@pytest.mark.parametrize(
    ("positives", "negatives", "epsilon", "delta"),
    [
        (100, 100, 0.4, 1e-5),
        (30, 50, 2.0, 0.05),
        (56, 50, 0.0, 1e-5),
        (5, 7, 3.0, 0.0),
        (500, 100, 9.0, 0.0),
        (1000, 200, 3.81, 1e-5),
    ],
)
def test_all_tables_at_once_agree_with_one_at_a_time(positives, negatives, epsilon, delta):
    found = mass_outside(positives, negatives, epsilon, delta)
    assert found.shape == (positives + 1, negatives + 1)
    rng = np.random.default_rng(0)
    corners = [(0, 0), (0, negatives), (positives, 0), (positives, negatives)]
    corners += [(1, 5), (0, negatives // 2), (positives // 50, negatives // 10)]
    drawn = zip(rng.integers(0, positives, 12), rng.integers(0, negatives, 12), strict=True)
    for fn, fp in [*corners, *drawn]:
        counts = AttackCounts(positives - fn, fp, negatives - fp, fn)
        assert found[fn, fp] == pytest.approx(
            float(epsilon_posterior(counts, delta).sf(epsilon)), abs=1e-5
        )


def test_masses_of_the_papers_example():
    # The printed 96.3% and 99.8% are those of Clopper-Pearson's rectangle, not of Jeffreys'.
    assert round(rectangle_mass(EXAMPLE, 0.95, "clopper-pearson"), 3) == 0.963
    assert round(enclosed_mass(EXAMPLE, 0.05, 0.95, "clopper-pearson"), 3) == 0.998
    # Two independent 97.5% intervals hold 0.975 squared, whatever the counts.
    assert rectangle_mass(EXAMPLE, 0.95, "jeffreys") == pytest.approx(0.975**2, abs=1e-12)
    assert enclosed_mass(EXAMPLE, 0.05, 0.95, "bayesian") == pytest.approx(0.95, abs=1e-9)


def test_trials_needed_is_where_the_width_is_reached():
    found = trials_needed(0.4, 0.15, 1e-5)
    assert found == {"bayesian": 550, "jeffreys": 1430, "clopper-pearson": 1480}
    table = widths_by_trials(0.4, [540, 550, 1420, 1430, 1470, 1480], 1e-5)
    width = (table["high"] - table["low"]).to_numpy().reshape(3, 6)
    for row, place in zip(width, (1, 3, 5), strict=True):
        assert row[place] <= 0.3 < row[place - 1]


@pytest.mark.parametrize(("fpr", "fnr"), [(0.1, 0.3), (0.4, 0.45), (0.7, 0.8)])
def test_coverage_is_a_sum_over_all_tables(fpr, fnr):
    half, delta, level = 12, 1e-3, 0.9
    truth, expected = float(epsilon_point(fpr, fnr, delta)), {}
    for fn, fp in itertools.product(range(half + 1), repeat=2):
        chance = stats.binom.pmf(fn, half, fnr) * stats.binom.pmf(fp, half, fpr)
        counts = AttackCounts(half - fn, fp, half - fp, fn)
        for method in METHODS:
            holds = epsilon_interval(counts, delta, level, method, "lower")[0] <= truth
            expected[method] = expected.get(method, 0.0) + holds * chance
    found = actual_coverage(fpr, fnr, 2 * half, delta, level)
    assert found == pytest.approx(expected, abs=1e-8)


def test_clopper_pearson_never_below_its_level_and_bayesian_at_chance():
    grid = [(0.5, 0.5), (0.3, 0.3), (0.05, 0.9), (0.01, 0.01)]
    table = coverage_table(grid, [40, 200], 1e-5, 0.9)
    assert (table["clopper-pearson"] >= 0.9).all()
    # At epsilon = 0 no interval with a positive lower end holds the truth.
    assert table.loc[table["fpr"] == 0.5, "bayesian"].max() < 1e-6
    # An attack that never errs shows more than any number.
    assert actual_coverage(0.0, 0.0, 20, 1e-5, 0.9)["bayesian"] == 1.0


def test_equal_rates_are_where_the_bayesian_bound_fails():
    """The larger of two logarithms known with error is too large, however many trials."""
    for trials in (100, 400):
        equal = actual_coverage(0.1, 0.1, trials, 1e-5, 0.9)
        assert equal["bayesian"] < 0.75
        assert equal["clopper-pearson"] >= 0.9
    assert actual_coverage(0.1, 0.4, 400, 1e-5, 0.9)["bayesian"] == pytest.approx(0.9, abs=0.01)


def test_selection_study():
    repetitions, level = 100, 0.9
    table = selection_study([0.0, 1.0], 128, repetitions, 0.01, level, seed=3)
    share = table.set_index(["mu", "method", "choice"])["exceeds"]
    ceiling = stats.binom.isf(1e-4, repetitions, 1 - level) / repetitions
    for mu in (0.0, 1.0):
        for choice in ("fixed", "union", "held-out"):
            assert share[mu, "clopper-pearson", choice] <= ceiling
    # Choosing the best threshold breaks the Bayesian bound's level.
    assert share[0.0, "bayesian", "best"] > 0.5


def test_the_best_bayesian_bound_fails_at_p3s_own_level_too():
    """The lower limit of a two-sided 90% interval (P3, Eq. 4) may be too high in 5%."""
    table = selection_study([0.0, 0.3], 256, 60, 0.01, 0.95, seed=5)
    share = table.set_index(["mu", "method", "choice"])["exceeds"]
    several = stats.binom.isf(1e-4, 60, 3 * 0.05) / 60  # by chance, if it were three times
    assert min(share[mu, "bayesian", "best"] for mu in (0.0, 0.3)) > several


def test_swept_bayesian_intervals_are_often_the_wider_ones():
    """Of 400 such audits 145 were narrower; without an error every one is."""
    assert swept_narrower(64, 8.0, 5, 1e-5, 0.9, seed=0) == 1.0
    share = swept_narrower(512, 0.6, 40, 1e-5, 0.9, seed=1)
    p = 145 / 400
    assert abs(share - p) < 4 * math.sqrt(p * (1 - p) * (1 / 40 + 1 / 400))


CLAIM = read_claims(Path(__file__).parents[2] / "book" / "claims.yml")["P3-T2-narrower-private"]


def changes_of(widths):
    """The summary of (problems, audits, 2) widths, a row a problem."""
    problems, audits, _ = widths.shape
    frame = pd.DataFrame(widths.reshape(-1, 2), columns=["bayesian", "clopper-pearson"])
    frame["epsilon"] = np.repeat(np.arange(problems), audits)
    return width_changes(frame.assign(attack="LiRA", threshold="swept"))


def verdicts(widths):
    """How often each word is the verdict on a claim of P3's Table 2."""
    rows = changes_of(widths).itertuples()
    found = (Evidence(one.change, one.low, one.high, one.audits) for one in rows)
    return Counter(judge(CLAIM, one, {}).verdict for one in found)


def test_changes_of_widths_by_hand():
    inf = math.inf
    first = [[1, 2], [3, 2], [1, inf], [inf, inf], [inf, 3], [9, 1]]  # -.5, .5, -1, 0, inf, 8
    found = changes_of(np.array([first, [[1, 2]] * 6], float))
    assert found["change"].tolist() == [0.25, -0.5]
    assert found["narrower"].tolist() == [2, 6]
    assert found["clopper-pearson"].tolist() == [2.5, 2.0]
    # Of six the interval goes from the least to the largest: both halves of 2^-6 are below 2.5%.
    assert found[["low", "high"]].to_numpy().tolist() == [[-1.0, inf], [-0.5, -0.5]]
    few = changes_of(np.array([first[:5]]))
    assert few[["audits", "low", "high"]].to_numpy().tolist() == [[5, -inf, inf]]


def test_one_audit_leaves_the_width_open_and_nine_of_ten_decide():
    narrower, wider = [0.6, 1.0], [9.0, 1.0]
    for ten, word in (
        ([narrower] * 9 + [wider], REDUCED),
        ([narrower] * 8 + [wider] * 2, UNDECIDED),
        ([narrower] * 2 + [wider] * 8, UNDECIDED),
        ([narrower] + [wider] * 9, NOT_REPRODUCED),
        ([narrower], UNDECIDED),
    ):
        assert verdicts(np.array([ten])) == {word: 1}


def test_neither_verdict_on_widths_is_more_frequent_than_it_says():
    """Ten of a pool of synthetic audits at a time, moved so that half of them are narrower."""
    ours, theirs = swept_widths(64, 0.8, 40, 1e-5, 0.9, seed=2).T
    ratio = np.where(np.isinf(theirs), 0.0, ours / theirs)  # as far below 1 as can be
    ratio = ratio / np.median(ratio)
    assert abs(np.mean(ratio < 1) - 0.5) < 0.02
    drawn = np.random.default_rng(3).choice(ratio, (300, 10))
    found = verdicts(np.stack([drawn, np.ones_like(drawn)], axis=2))
    assert max(found[REDUCED], found[NOT_REPRODUCED]) <= stats.binom.isf(1e-3, 300, 0.025)
    assert min(found[REDUCED], found[NOT_REPRODUCED]) > 0  # about 1 in 100 each


def test_attacks_without_errors_show_the_bayesian_interval_as_the_narrower():
    assert verdicts(swept_widths(64, 8.0, 10, 1e-5, 0.9, seed=0)[None]) == {REDUCED: 1}

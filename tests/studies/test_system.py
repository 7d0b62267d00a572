"""The end-to-end system on digits: its coins, its verdicts, and how often these are wrong."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from chapter_cells import settings_of
from scipy import stats

from lib.audit import epsilon_interval
from lib.audit.attacks import LiRA
from lib.book import evidence
from lib.book.chapters import declared_parameters, read_chapter
from lib.studies.audit import system
from lib.studies.audit.system import AuditContradiction, AuditResult, require_consistent

CHAPTER = Path(__file__).parents[2] / "book" / "audit_trainings.py"
DECLARED = declared_parameters(read_chapter(CHAPTER.read_text(encoding="utf-8")))
GIVEN = {p.name: p.default for p in DECLARED}
SMALL = {
    **{"model": "linear", "points": 100, "steps": 60, "batch_size": 20, "epsilons": [1.0]},
    **{"learning_rates": [1.0, 1.0], "n_shadow": 40, "n_target": 60, "n_challenges": 2},
}


def small(**others):
    """Settings without privacy, and with epsilon = 1."""
    return settings_of("audit_trainings", GIVEN | SMALL | others, "digits")


@pytest.fixture(scope="module")
def prepared():
    return small()


def test_trials_are_independent_and_follow_the_game(prepared):
    (job,) = prepared[0].jobs([3, 7])
    draws = [job.drawn(i) for i in range(2000)]
    coins = np.stack([c for c, _ in draws])
    which = np.array([w for _, w in draws])
    assert set(which) == {0, 1}
    # Every coin is fair, no two are tied: largest of 100 + 4950 statistics, Bonferroni at 1e-3.
    z = (2 * coins.mean(0) - 1) * math.sqrt(2000)
    assert np.abs(z).max() < 5.0
    pairs = np.corrcoef(coins.T) - np.eye(coins.shape[1])
    assert np.abs(pairs).max() * math.sqrt(2000) < 5.6
    # Targets and shadow models are different draws; each repeats.
    assert not np.array_equal(prepared[0].jobs()[0].drawn(0)[0], coins[0])
    assert np.array_equal(job.drawn(5)[0], coins[5])


def audited(settings, proven, gain):
    """An audit in which a member's score is higher by so much."""
    rng, members = np.random.default_rng(0), np.arange(60) % 2 == 0
    scores = {"LiRA": rng.normal(gain * members, 1.0)}
    held_out = {"LiRA": (rng.normal(gain * members, 1.0), members)}
    none = np.zeros(0)
    return AuditResult(
        settings, proven, 1.0, 0.9, none, none, members, scores, held_out, none, none, 0.0
    )


def test_an_audit_that_shows_more_than_is_proven_is_a_contradiction(prepared):
    free, private = (audited(settings, 1.0, 0.2) for settings in prepared)
    seen = audited(prepared[0], math.inf, 6.0)
    require_consistent([seen, free, private])
    with pytest.raises(AuditContradiction, match=r"proves 0\.010"):
        require_consistent([private, replace(seen, proven=0.01)])


def test_the_excess_over_what_is_proven_is_that_of_private_audits(prepared):
    free, private = audited(prepared[0], math.inf, 6.0), audited(prepared[1], 1.0, 2.0)
    for audits, level in (([free, private], 0.9), ([free, private, private], 0.95)):  # is shared
        counts = private.held_out_counts("LiRA", level)
        ends = epsilon_interval(counts, 1e-5, level, "clopper-pearson")
        expected = pytest.approx([end - private.proven for end in ends])
        assert system.excess_over_proven(audits, 0.9) == expected


def test_repeated_audits_are_those_of_other_seeds_and_share_nothing():
    settings = small(learning_rates=[1.0, 0.1])
    assert [system.repetition(one, 0) for one in settings] == settings
    again = [system.repetition(one, 2) for one in settings]
    assert again == small(learning_rates=[1.0, 0.1], seed=2 * system.SEEDS_APART)
    for one, other in zip(settings, again, strict=True):
        (mine,), (theirs,) = one.jobs(), other.jobs()
        assert mine.data.seed != theirs.data.seed
        assert not np.array_equal(mine.drawn(0)[0], theirs.drawn(0)[0])
        assert theirs.config.seed - mine.config.seed > one.n_shadow + one.n_target


def test_the_area_counts_ties_half_and_knows_its_error():
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(400):
        members = rng.random(60) < 0.5
        scores = np.round(rng.normal(members, 1.0), 1)  # with ties
        area, error = system.area_and_error(scores, members)
        u = stats.mannwhitneyu(scores[members], scores[~members]).statistic
        assert area == pytest.approx(u / (members.sum() * (~members).sum()), abs=1e-12)
        missed += abs(area - stats.norm.cdf(1 / math.sqrt(2))) > 1.96 * error
    assert missed <= stats.binom.isf(1e-3, 400, 0.06)  # rounding and normality aside
    assert system.area_and_error(np.ones(3), np.ones(3, bool)) == (0.5, math.inf)
    assert system.area_and_error(np.arange(3.0), np.arange(3) > 1) == (1.0, math.inf)


def played(settings, rng, known, chosen):
    """An audit with a member's confidence higher by `known` everywhere, by `chosen` where asked."""
    inside = rng.random((60, 30)) < 0.5
    gain = np.r_[np.full(4, chosen), np.full(26, known)]
    sure = rng.normal(gain * inside, 1.0)
    which, members = rng.integers(4, size=60), rng.random(60) < 0.5
    shown = rng.normal(chosen * members, 1.0)
    scores = np.empty(60)
    for z in range(4):
        scores[which == z] = LiRA().score(shown[which == z], sure[:48, z], inside[:48, z])
    settings = replace(settings, n_shadow=60, n_target=60, seed=int(rng.integers(1 << 30)))
    return SimpleNamespace(
        settings=settings,
        shadows=sure,
        shadow_members=inside,
        scores={"LiRA": scores},
        members=members,
    )


@pytest.mark.parametrize("known", [0.0, 1.0])
def test_where_choosing_gains_nothing_neither_verdict_is_more_frequent_than_it_says(
    known, prepared, monkeypatch
):
    # The bounds beside the areas take most of the time, and no verdict reads them.
    monkeypatch.setattr(system, "union_lower_bound", lambda *_: (0, 0.0))
    rng = np.random.default_rng(1)
    above = below = 0
    for _ in range(100):
        table = system.games_table([played(prepared[0], rng, known, known)])
        found = evidence.least(evidence.standardized, system.gains_by_choosing(table))
        above, below = above + (found.low > 0), below + (found.high < 0)
    assert max(above, below) <= stats.binom.isf(1e-3, 100, 0.025 + 0.01)  # of normality: 60 trials


def test_a_chosen_point_that_gives_away_more_is_seen(prepared):
    rng = np.random.default_rng(2)
    pairs = zip(prepared, (0.0, 1.0), strict=True)
    audits = [played(settings, rng, known, 3.0) for settings, known in pairs]
    table = system.games_table(audits)
    assert table[["experiment", "trials"]].to_numpy().tolist() == [[1, 60], [2, 60]] * 2
    assert (table["AUC"].to_numpy() < [0.7, 1.1, 0.9, 1.1]).all()
    assert (table["AUC"].to_numpy() > [0.3, 0.9, 0.55, 0.9]).all()
    gains = system.gains_by_choosing(table)
    assert evidence.least(evidence.standardized, gains).low > 0

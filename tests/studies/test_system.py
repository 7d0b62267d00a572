"""The end-to-end system on digits, small: its parts and its verdicts."""

import functools
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from chapter_cells import settings_of
from scipy import stats

from lib.audit import epsilon_interval, select_worst
from lib.audit.attacks import LiRA
from lib.book import evidence
from lib.book.chapters import declared_parameters, read_chapter
from lib.runs import Checkpoint
from lib.studies.audit import system
from lib.studies.audit.system import AuditContradiction, require_consistent, run_audits
from lib.studies.audit.tables import named_changes, width_changes

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
def results(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPANION_RUNS", str(tmp_path_factory.mktemp("runs")))
        return [run_audits([each])[0] for each in small(learning_rates=[1.0, 0.1])]


def test_trials_are_independent_and_follow_the_game():
    (job,) = small()[0].jobs([3, 7])
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
    assert not np.array_equal(small()[0].jobs()[0].drawn(0)[0], coins[0])
    assert np.array_equal(job.drawn(5)[0], coins[5])


def test_an_audit_without_privacy_and_one_with(results):
    free, private = results
    assert (free.proven, free.noise_multiplier) == (math.inf, 0)
    assert private.proven == pytest.approx(1.0, abs=0.01)
    places, _ = select_worst(free.shadows, free.shadow_members, 2)
    assert places.tolist() == free.challenges.tolist()
    counts = free.held_out_counts()
    assert counts.positives == int(free.members.sum())
    # Without privacy the attack works, also at a threshold chosen elsewhere.
    assert epsilon_interval(counts, 1e-5, 0.95, "clopper-pearson", "lower")[0] > 0.5
    require_consistent(results)
    with pytest.raises(AuditContradiction, match=r"proves 0\.010"):
        require_consistent([replace(free, proven=0.01)])


def test_the_excess_over_what_is_proven_is_that_of_private_audits(results):
    private = results[1]
    for audits, level in ((results, 0.9), ([*results, private], 0.95)):  # two share the level
        counts = private.held_out_counts("LiRA", level)
        ends = epsilon_interval(counts, 1e-5, level, "clopper-pearson")
        expected = pytest.approx([end - private.proven for end in ends])
        assert system.excess_over_proven(audits, 0.9) == expected


def test_repeated_audits_are_those_of_other_seeds_and_share_nothing(results):
    settings = small(learning_rates=[1.0, 0.1])
    assert [system.repetition(one, 0) for one in settings] == settings
    again = [system.repetition(one, 2) for one in settings]
    assert again == small(learning_rates=[1.0, 0.1], seed=2 * system.SEEDS_APART)
    for one, other in zip(settings, again, strict=True):
        (mine,), (theirs,) = one.jobs(), other.jobs()
        assert mine.data.seed != theirs.data.seed
        assert not np.array_equal(mine.drawn(0)[0], theirs.drawn(0)[0])
        assert theirs.config.seed - mine.config.seed > one.n_shadow + one.n_target


def test_widths_of_repeated_audits(results):
    widths = system.audit_widths(results, 2, 0.9)
    assert (len(widths), {*widths["audit"]}) == (2 * 2 * 3 * 3, {0, 1})
    assert {*widths["attack"]} == {"LiRA", "loss", "gradient alignment"}
    first = widths[(widths["audit"] == 0) & (widths["attack"] == "LiRA")]
    swept = first[first["threshold"] == "swept"]
    table = system.table_2(results).set_index(["method", "epsilon"])["width"]
    for method in ("bayesian", "clopper-pearson"):
        assert swept[method].tolist() == table[method].tolist()
    # At the same counts the Bayesian interval is the narrower one: P3, Figure 5.
    held = widths[widths["threshold"] != "swept"]
    assert (held["bayesian"] < held["clopper-pearson"]).all()
    # The Bayesian interval's own threshold, for it and for the other.
    one = first[first["threshold"] == "one"]
    assert one["bayesian"].tolist() == swept["bayesian"].tolist()
    parts = [part.drop(columns="audit").to_numpy()[:, 3:] for _, part in widths.groupby("audit")]
    assert not np.array_equal(*parts)
    # What is quoted, by attack and budget.
    changes = width_changes(widths)
    named = named_changes(changes, 1.0)
    assert len(named) == 2 * 2 * 3 * 2
    row = changes.set_index(["epsilon", "attack", "threshold"]).loc[1.0, "LiRA", "held-out"]
    assert named["held_lira_loose_narrower"] == row["narrower"] == 2
    assert named["held_lira_loose_change"] == row["change"]


def test_subset_trainings_resume(tmp_path):
    job = replace(small()[1].jobs()[0], n_models=12, chunk=5)
    whole = job.execute(Checkpoint())
    interrupted, saves = Checkpoint(tmp_path), []
    original = interrupted.save

    def save(arrays, state):
        original(arrays, state)
        saves.append(state["done"])
        1 / (2 - len(saves))

    interrupted.save = save
    with pytest.raises(ZeroDivisionError):
        job.execute(interrupted)
    resumed = job.execute(Checkpoint(tmp_path))
    assert saves == [5, 10]
    for name in whole.arrays:
        assert np.array_equal(whole.arrays[name], resumed.arrays[name])


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


@functools.cache
def prepared():
    """Settings without and with privacy, for audits that are only pretended."""
    return small()


def played(rng, known, chosen):
    """An audit with a member's confidence higher by `known` everywhere, by `chosen` where asked."""
    inside = rng.random((60, 30)) < 0.5
    gain = np.r_[np.full(4, chosen), np.full(26, known)]
    sure = rng.normal(gain * inside, 1.0)
    which, members = rng.integers(4, size=60), rng.random(60) < 0.5
    shown = rng.normal(chosen * members, 1.0)
    scores = np.empty(60)
    for z in range(4):
        scores[which == z] = LiRA().score(shown[which == z], sure[:48, z], inside[:48, z])
    settings = replace(prepared()[0], n_shadow=60, n_target=60, seed=int(rng.integers(1 << 30)))
    return SimpleNamespace(
        settings=settings,
        shadows=sure,
        shadow_members=inside,
        scores={"LiRA": scores},
        members=members,
    )


@pytest.mark.parametrize("known", [0.0, 1.0])
def test_where_choosing_gains_nothing_neither_verdict_is_more_frequent_than_it_says(
    known, monkeypatch
):
    # The bounds beside the areas take most of the time, and no verdict reads them.
    monkeypatch.setattr(system, "union_lower_bound", lambda *_: (0, 0.0))
    rng = np.random.default_rng(1)
    above = below = 0
    for _ in range(150):
        table = system.games_table([played(rng, known, known)])
        found = evidence.least(evidence.standardized, system.gains_by_choosing(table))
        above, below = above + (found.low > 0), below + (found.high < 0)
    assert max(above, below) <= stats.binom.isf(1e-3, 150, 0.025 + 0.01)  # of normality: 60 trials


def test_a_chosen_point_that_gives_away_more_is_seen():
    rng = np.random.default_rng(2)
    audits = [played(rng, 0.0, 3.0), played(rng, 1.0, 3.0)]
    audits[1].settings = prepared()[1]
    table = system.games_table(audits)
    assert table[["experiment", "trials"]].to_numpy().tolist() == [[1, 60], [2, 60]] * 2
    assert (table["AUC"].to_numpy() < [0.7, 1.1, 0.9, 1.1]).all()
    assert (table["AUC"].to_numpy() > [0.3, 0.9, 0.55, 0.9]).all()
    gains = system.gains_by_choosing(table)
    assert evidence.least(evidence.standardized, gains).low > 0

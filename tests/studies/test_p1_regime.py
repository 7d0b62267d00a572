"""SCTD's lead at P1's own settings: what is trained, what is watched, and whose interval it is."""

import math
from dataclasses import replace

import numpy as np
import pytest
import yaml
from chapter_cells import ROOT, settings_of
from panel_by_hand import panel

from lib.book import evidence
from lib.data import DataUnavailable
from lib.selective import sctd
from lib.studies.beyond import p1_regime as studies
from lib.studies.interplay.tables import score_gap

SEEDS, TIMES = 3, 40


@pytest.fixture(scope="module")
def made():
    """The panel with checkpoints at two budgets; SCTD is what follows from these."""
    made, rng = panel(seeds=SEEDS), np.random.default_rng(0)
    found, checkpoints = dict(made.predictions), {}
    for epsilon in (3.0, 1.0):
        final = rng.integers(0, 10, (SEEDS, 1, 60))
        moved = rng.random((SEEDS, TIMES - 1, 60)) < 0.3 * rng.random((SEEDS, 1, 60)) ** 3
        labels = np.concatenate([(final + moved) % 10, final], axis=1)
        checkpoints[epsilon] = labels
        correct = made.predictions["SR", epsilon].correct
        found["SCTD", epsilon] = type(made.predictions["SR", epsilon])(
            correct, np.array([sctd(each) for each in labels])
        )
    return replace(made, predictions=found, checkpoints=checkpoints)


def test_models_are_counted_back_from_the_final_one():
    models = np.arange(10)[:, None]
    assert studies.watched(models).ravel().tolist() == list(range(10))
    assert studies.watched(models, 4).ravel().tolist() == [1, 5, 9]
    assert studies.watched(models, 2, 0.5).ravel().tolist() == [5, 7, 9]
    assert studies.watched(models, 1, 0.01).ravel().tolist() == [9]


def test_the_table_shows_the_interval_that_decides_about_the_claim(made):
    table = studies.leads(made, [1], [1.0]).assign(regime="own")
    shown = studies.at(table, "own", 1.0)
    judged = evidence.of_mean(score_gap(made, "SR", 1.0), SEEDS)
    assert (shown["lead"], shown["low"], shown["high"]) == pytest.approx(
        (judged.value, judged.low, judged.high)
    )


def test_the_recorded_trainings_are_p1s():
    """200 epochs at the printed settings, and the private ones of the score's page beside them."""
    given = yaml.safe_load((ROOT / "params/standard/p1_regime.yml").read_text("utf-8"))
    panel_file = (ROOT / "params/standard/normalized_score.yml").read_text("utf-8")
    try:
        own, tuned = settings_of("p1_regime", given, given["dataset"]).values()
        beside = settings_of("normalized_score", yaml.safe_load(panel_file), given["dataset"])
    except DataUnavailable as error:
        pytest.skip(f"needs Fashion-MNIST: {error}")
    jobs = own.trainings(dict.fromkeys(own.places, 0.01))
    assert list(jobs) == [("plain", 3.0), ("plain", 1.0)]
    configs = [config for job in jobs.values() for config in job.configs]
    assert own.epochs == 200
    assert {(c.batch_size, c.clipping_norm, c.momentum) for c in configs} == {(128, 10.0, 0.0)}
    assert {c.checkpoint_every for c in configs} == {50}
    assert [c.seed for c in configs] == [*range(10_000, 10_500, 100), *range(20_000, 20_500, 100)]
    rates = dict.fromkeys(tuned.places, 4.0)
    other = beside["small_cnn"].trainings(rates | dict.fromkeys(beside["small_cnn"].places, 4.0))
    assert all(job == other[place] for place, job in tuned.trainings(rates).items())
    searched = beside["small_cnn"].searches()
    assert all(job == searched[search] for search, job in tuned.searches().items())
    assert not any(math.isinf(epsilon) for _, epsilon, _ in tuned.searches())

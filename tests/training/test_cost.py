"""What trainings will take: all are counted, and a few steps tell the rest."""

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from lib.book.chapters import chapter_files, declared_parameters, profile_parameters, read_chapter
from lib.book.cost import PLANS, cost_table
from lib.book.parameters import ParameterError, validate_parameters
from lib.data.errors import DataUnavailable
from lib.studies.interplay.panel import run_panel, settings_for
from lib.training import (
    DataSpec,
    FixMatch,
    LabelTrainings,
    ManyTrainings,
    ModelSpec,
    PateStudents,
    SubsetTrainings,
    TrainingConfig,
    TrainingData,
    train_many,
)
from lib.training.cost import Kind, _paces, kinds_of, seconds_of
from lib.training.label_jobs import Teachers

ROOT = Path(__file__).parents[2]
MLP = ModelSpec("mlp", (64,), 10, hidden=(8,))
CONFIG = TrainingConfig(MLP, noise_multiplier=1.0, steps=20, batch_size=50, checkpoint_every=10)
DATA = DataSpec(train=150, test=60)


@dataclass(frozen=True)
class Wrong:
    seed: int

    def apply(self, labels):
        return labels

    def watched(self, labels):
        return labels[:5]


def test_all_trainings_are_counted():
    seeds = tuple(replace(CONFIG, seed=s) for s in range(3))
    subsets = SubsetTrainings(replace(CONFIG, sample_rate=0.2, delta=1e-5), DATA, 7)
    labels = LabelTrainings(replace(CONFIG, noise_multiplier=None), DATA, None, (Wrong(0),) * 4)
    images = DataSpec(features="images", train=150, test=60)
    match = FixMatch(ModelSpec("linear", (64,), 10), steps=30)
    teachers = Teachers(match, images, 5, label_noise=Wrong(0))
    students = PateStudents(teachers, ((1.0, 1.0, 1.0, 3),) * 2, match, 10)
    jobs = [ManyTrainings(seeds, DATA), subsets, labels, teachers, students]
    found = kinds_of([*jobs, ManyTrainings(seeds[:1], DATA)])
    assert [kind.models for kind in found] == [4, 7, 4, 7]
    assert [kind.points for kind in found] == [60, 210, 210, 210]
    assert found[0].examples == 20 * 50
    assert found[0].evaluations == 2 * 60
    assert found[3].examples == 30 * (match.labelled_batch + 2 * match.unlabelled_batch)
    with pytest.raises(TypeError, match=r"job must be a training of lib\.training, got Wrong"):
        kinds_of([Wrong(0)])


def test_a_panel_trains_what_it_plans(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path))
    settings = settings_for(
        "digits", "mlp", steps=4, n_seeds=2, rates=(0.1, 0.2, 0.4), free_rates=(0.1,), members=2,
        rate_seeds=3,
        epsilons=(float("inf"), 3.0), families=("plain", "DE"),
    )  # fmt: skip
    monkeypatch.setattr("lib.runs.executors.own_cores", lambda: 1)  # others would import PyTorch
    run_panel(settings)
    trained = sum(len(each["configs"]) for each in stored(tmp_path))
    planned = settings.planned()
    most = sum(len(job.configs) for job in planned)
    assert most == 2 * (3 + 3 * 2) + 2 * (2 + 4)
    ends = 2 * 2  # of two searches, each of whose best rates may have but one neighbour
    assert most - ends <= trained <= most
    few = replace(settings, first_rates=1)
    assert sum(len(job.configs) for job in few.planned()) == most  # it may go on to all rates


def stored(folder):
    return [json.loads(path.read_text())["config"] for path in folder.rglob("run.json")]


@pytest.mark.parametrize("name", ["interplay", "sctd_map", "audit_trainings", "canaries"])
def test_quick_profiles_can_be_planned(name):
    path = chapter_files(ROOT / "book")[name]
    declared = declared_parameters(read_chapter(path.read_text()))
    given = profile_parameters(ROOT / "params", "quick", name)
    parameters = validate_parameters(declared, given | {"dataset": "digits"})
    assert sum(kind.models for kind in kinds_of(PLANS[name](parameters))) > 10


def test_chapters_without_trainings_cost_nothing():
    assert cost_table(ROOT / "book", "quick", ["audit"]).empty
    with pytest.raises(ParameterError, match="no parameter file 'interplai' under quick; there"):
        cost_table(ROOT / "book", "quick", ["interplai"])


def test_chance_does_not_make_a_forecast(monkeypatch):
    rng = np.random.default_rng(0)

    def timed(_, __, steps, points):
        return 0.01 * steps + 2e-5 * points + rng.normal(0, 0.01)

    monkeypatch.setattr("lib.training.cost._timed", timed)
    monkeypatch.setattr("lib.training.cost._timed_once", timed)
    for config in (CONFIG, FixMatch(ModelSpec("linear", (64,), 10))):
        step, evaluation = _paces.__wrapped__(config, 1)
        assert step == pytest.approx(0.01, rel=0.3)
        assert evaluation == pytest.approx(2e-5, rel=0.3)  # of 256 points it would be chance


CNN = ModelSpec("small_cnn", (1, 28, 28), 10)


@pytest.mark.speed
@pytest.mark.parametrize(
    "config",
    [
        replace(CONFIG, model=CNN, steps=60, checkpoint_every=10),
        replace(CONFIG, model=CNN, steps=80, noise_multiplier=None),
        replace(CONFIG, steps=4000, checkpoint_every=1000),
    ],
)
def test_a_few_steps_tell_how_long_it_takes(config):
    """Within a factor of 1.5, by the processor's clock."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((2000, *config.model.inputs), dtype=np.float32)
    data = TrainingData(inputs, rng.integers(0, 10, 2000), 10)
    kinds = [Kind(replace(config, seed=0), 2, 1000)]
    (before,) = seconds_of(kinds)
    began = time.process_time()
    train_many([config, replace(config, seed=1)], data, inputs[:1000], threads=1)
    needed = time.process_time() - began
    (after,) = seconds_of(kinds)  # a machine's own speed drifts within these seconds
    assert 1 / 1.5 <= (before + after) / 2 / needed <= 1.5


@pytest.mark.parametrize("profile", ["standard", "gpu"])
def test_trainings_find_their_data_at_their_true_size(profile):
    """What a rehearsal cuts down: the rows that a parameter file wants of its data set."""
    book, files = chapter_files(ROOT / "book"), sorted((ROOT / "params" / profile).glob("*.yml"))
    specs, missing = set(), set()
    for name in (path.stem for path in files):
        chapter = name.partition(".")[0]
        if chapter not in PLANS:
            continue
        declared = declared_parameters(read_chapter(book[chapter].read_text(encoding="utf-8")))
        given = profile_parameters(ROOT / "params", profile, name)
        try:
            jobs = PLANS[chapter](validate_parameters(declared, given))
        except DataUnavailable as error:
            missing.add(str(error))
            continue
        specs |= {replace(job.data, keep_class=1.0) for job in jobs if hasattr(job, "data")}
    found = 0
    for spec in specs:
        if spec.features in ("tokens", "words"):  # which are drawn alike, and take longer
            continue
        if spec.public:  # whose features take a network's training: public rows are drawn, too
            spec = replace(spec, features="pixels", train=spec.train + spec.public, public=0)
        try:
            data = spec.load()
        except DataUnavailable as error:
            missing.add(str(error))
            continue
        assert (len(data.training), len(data.validation)) == (spec.train, spec.validation)
        found += 1
    if not found:
        pytest.skip(f"no data: {sorted(missing)[0]}")
    assert found >= 3

"""Every file of `params/gpu` and `params/standard` is executed, cut down, on this CPU.

`cut_down.yml` says what is cut: examples, steps, models, repetitions. All else is as in the file:
architectures at their size, the device with its engines, noise and claims (for which the CPU stands
in), batches in as many pieces as a small memory asks for. The first execution stops at its first
checkpoint, as if it were killed there; the second one goes on from it until the job is done. There
a file ends whose chapter another one executes to its end (`whole`), or at its first network if
another one executes the same job (`alike`). For a file of each kind of job (`compared`, and those)
the job also gives what it gives when nothing stops it. Files that are equal once they are cut are
executed once. A file that asks for more than the profile quick of some `sizes`, and for nothing
else, would be cut to less than every build executes: it is left out.
"""

import contextlib
import functools
import importlib.util
import json
import os
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import yaml
from chapter_cells import settings_of
from roberta import make_roberta
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.neural_network import MLPClassifier

from lib.book.chapters import (
    chapter_files,
    chapter_of,
    code_cells,
    declared_parameters,
    profile_parameters,
    read_chapter,
)
from lib.book.parameters import Parameter, validate_parameters
from lib.counterfactual import SuperLearnerClassifier, SuperLearnerRegressor, learners
from lib.counterfactual.forest import ForestClassifier, ForestRegressor
from lib.data import DataUnavailable, available
from lib.data.text import TEXT_FILES
from lib.report import studies
from lib.report.studies import drawn_abstention
from lib.runs import Checkpoint, RunStore, executors
from lib.studies.audit import tables
from lib.studies.canaries import simulation
from lib.studies.suitability.comparisons import compare_estimators
from lib.suitability.estimators import make_estimator
from lib.training import DataSpec
from lib.training.single import Trainer

ROOT = Path(__file__).parents[2]
PARAMS, CHAPTERS = ROOT / "params", chapter_files(ROOT / "book")
CUTS = yaml.safe_load(Path(__file__).with_name("cut_down.yml").read_text(encoding="utf-8"))
FILES = [
    (profile, path.stem)
    for profile in ("gpu", "standard")
    for path in sorted((PARAMS / profile).glob("*.yml"))
]
#: Chapters whose trainings last and save their state; others train in milliseconds, or not at all.
LASTING = {
    "audit_trainings",
    "canaries",
    "choosing",
    "curves",
    "interplay",
    "p1_regime",
    "sctd_map",
    "six_lenses",
}
KEPT = ("device", "model", "models", "families", "pate_model", "clipping_norm")


def cuts(profile: str, name: str) -> dict[str, Any]:
    keys = (chapter_of(name), name, f"{profile}/{name}")
    return {key: value for each in keys for key, value in CUTS.get(each, {}).items()}


@functools.cache
def declared(chapter: str) -> tuple[Parameter, ...]:
    return declared_parameters(read_chapter(CHAPTERS[chapter].read_text("utf-8")))


given_in = functools.cache(profile_parameters)  # never changed


def whole(profile: str, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a file, with changes."""
    given = given_in(PARAMS, profile, name) | changes
    return validate_parameters(declared(chapter_of(name)), given)


def built(profile: str, name: str) -> bool:
    """Whether every build executes what a file asks for, or less of it in some sizes."""
    chapter, given = chapter_of(name), whole(profile, name, {})
    quick, sizes = whole("quick", chapter, {}), CUTS["sizes"].get(chapter, [])
    differ = {key for key in given if given[key] != quick[key]}
    return differ <= set(sizes) and all(quick[key] for key in differ)


def unlike() -> dict[str, tuple[str, str]]:
    """The files that no build executes and that differ once they are cut, under all their names."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for profile, name in FILES:
        if built(profile, name):
            continue
        assert chapter_of(name) not in CUTS["sizes"], f"say what to cut in {profile}/{name}"
        given = whole(profile, name, {}) | cuts(profile, name)
        alike.setdefault(chapter_of(name) + json.dumps(given, sort_keys=True), []).append(
            (profile, name)
        )
    return {"+".join(map("-".join, files)): files[0] for files in alike.values()}


UNLIKE = unlike()


class Killed(BaseException):
    """Not an Exception: nothing in the code may take it for an error of a job."""


class Enough(BaseException):
    """A job that was killed has been resumed and is done."""


class Here(executors._ThisProcess):
    """In the place of worker processes."""

    def __init__(self, *_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """A folder with images of noise."""
    folder, rng = tmp_path_factory.mktemp("sets"), np.random.default_rng(0)
    for name, (train, test, channels, side) in CUTS["sets"].items():
        arrays = {}
        for split, count in (("train", train), ("test", test)):
            shape = (count, side, side, channels)
            arrays[f"x_{split}"] = rng.integers(0, 256, shape, dtype=np.uint8)
            arrays[f"y_{split}"] = np.arange(count) % 10
        np.savez(folder / f"{name}.npz", **arrays)
    return folder


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder for what several files can use: features, and runs that nothing stops."""
    return tmp_path_factory.mktemp("kept")


def cut_down(profile: str, name: str) -> dict[str, Any]:
    """The parameters of a file with what is cut; devices, models and the like stay as they are."""
    before = whole(profile, name, {})
    general = {key: value for key, value in CUTS["all"].items() if key in before}
    after = whole(profile, name, general | cuts(profile, name))
    assert {k: after.get(k) for k in KEPT} == {k: before.get(k) for k in KEPT}
    assert after.get("steps", 2) >= 2
    return after


def execute(name: str, parameters: dict) -> None:
    """A chapter as a script, in this process."""
    path = CHAPTERS[chapter_of(name)]
    namespace = {"__name__": path.stem, "__file__": str(path)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of samples that are too small for a method
        for cell in code_cells(read_chapter(path.read_text(encoding="utf-8"))):
            exec(compile(cell["source"], path, "exec"), namespace)
            if "parameters" in cell["tags"]:
                namespace |= parameters


def undrawn(figure, *_) -> tuple[bytes, bytes]:
    """A figure is made, but not drawn: each chapter's are, by the build, in the same ways."""
    plt.close(figure)
    return b"<svg></svg>", b""


@pytest.fixture
def rehearsal(noise, kept, tmp_path, monkeypatch):
    """An environment in which the CPU stands in for accelerators, and all that trains is here."""
    for variable, value in {
        "COMPANION_DATA": str(noise),
        "COMPANION_CACHE": str(kept / "cache"),
        "COMPANION_OFFLINE": "1",
        "COMPANION_PUBLIC_DATA": "1",
        "COMPANION_RUNS": str(tmp_path / "runs"),
        "COMPANION_THREADS": "1",
        "COMPANION_REHEARSAL": "1",
        "COMPANION_DEVICES": str(zlib.crc32(str(tmp_path).encode())),  # a pretended one
        "COMPANION_SAVE_EVERY": "0",
    }.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv("COMPANION_CHECK_FIGURES", raising=False)  # few values, long labels
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(executors, "LocalProcesses", Here)
    monkeypatch.setattr("lib.plot.svg_pair", undrawn)
    for function, setting, few in (
        (GradientBoostingClassifier.__init__, "n_estimators", 2),
        (RandomForestClassifier.__init__, "n_estimators", 2),
        (MLPClassifier.__init__, "max_iter", 3),
        (make_estimator, "splits", 2),
    ):  # what estimators cost, at any number of rows
        monkeypatch.setitem(function.__kwdefaults__, setting, few)
    for model in (ForestClassifier, ForestRegressor, SuperLearnerClassifier, SuperLearnerRegressor):
        _, *others = model.__init__.__defaults__
        monkeypatch.setattr(model.__init__, "__defaults__", (5, *others))
    monkeypatch.setattr(learners, "_FOLDS", 2)
    names, _ = compare_estimators.__defaults__  # each with all calibrations in every build
    monkeypatch.setattr(compare_estimators, "__defaults__", (names, ("platt",)))


def words(folder, monkeypatch, texts: str) -> None:
    """The text model with random weights, and the texts where they were before `rehearsal`."""
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("needs the optional package transformers (extra 'text')")
    folders = [os.environ["COMPANION_DATA"], str(folder), texts]
    monkeypatch.setenv("COMPANION_DATA", os.pathsep.join(folders))
    if not all(map(available, TEXT_FILES["sst2"].values())):
        pytest.skip("needs the texts of SST-2")
    make_roberta(folder)
    monkeypatch.setenv("COMPANION_REHEARSAL_TEXTS", "6")


TEXTS = os.environ.get("COMPANION_DATA", "")


@functools.wraps(studies.drawn_abstention)  # of 300 reports, whatever the parameters
def few_reports(learners, repetitions, seed):
    one = drawn_abstention(["linear"], 200, repetitions=2, seed=seed)
    return pd.concat([one.assign(learner=name) for name in learners], ignore_index=True)


@functools.wraps(simulation.randomized_response_study)  # at least 10, whatever the parameters
def few_audits(epsilons, classes, *_, of=simulation.randomized_response_study, **seed):
    return of(epsilons, classes, 100, 2, **seed)


def few_widths(trials, mu, repetitions, *given, of=tables.swept_widths, **seed):
    return of(trials, mu, 2, *given, **seed)  # of 200 audits, whatever the parameters


@pytest.mark.slow
@pytest.mark.usefixtures("rehearsal")
@pytest.mark.parametrize(("profile", "name"), UNLIKE.values(), ids=UNLIKE)
def test_a_file_is_executed_killed_and_resumed(profile, name, kept, tmp_path, monkeypatch):
    if profile_parameters(PARAMS, profile, name).get("model") == "roberta":
        words(tmp_path, monkeypatch, TEXTS)
    monkeypatch.setattr(studies, "drawn_abstention", few_reports)
    monkeypatch.setattr(tables, "swept_widths", few_widths)
    monkeypatch.setattr(simulation, "randomized_response_study", few_audits)
    if chapter_of(name) not in LASTING:  # what its files have in common is computed once
        monkeypatch.setenv("COMPANION_RUNS", str(kept / chapter_of(name)))
    memory = CUTS["memory"].get(name, CUTS["memory"]["all"])
    monkeypatch.setenv("COMPANION_MEMORY", str(memory))
    parameters, found, done = cut_down(profile, name), [], []
    file = f"{profile}/{name}"
    save, load, run, result = Checkpoint.save, Checkpoint.load, RunStore.run, Trainer.result

    def saved_and_killed(self, arrays, state):
        save(self, arrays, state)
        if self.path is not None:
            raise Killed

    def watched(self):
        found.append(state := load(self))
        return state

    def resumed(self, job):
        found.clear()
        outcome = run(self, job)
        if any(found) and not done:
            done.append(job)
            if file in (*CUTS["whole"], *CUTS["compared"]):
                direct = job.execute(Checkpoint()).arrays
                assert direct.keys() == outcome.arrays.keys()
                for key, array in direct.items():
                    np.testing.assert_allclose(outcome.arrays[key], array, rtol=1e-5, atol=1e-6)
            if file not in CUTS["whole"]:
                raise Enough
        return outcome

    def ended(self):
        outcome = result(self)
        if any(found) and file in CUTS["alike"]:
            done.append(self)
            raise Enough
        return outcome

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "save", saved_and_killed)
        try:
            execute(name, parameters)
        except Killed:
            pass
        else:
            assert chapter_of(name) not in LASTING, "nothing was saved"
            return
    monkeypatch.delenv("COMPANION_SAVE_EVERY")
    monkeypatch.setattr(Checkpoint, "load", watched)
    monkeypatch.setattr(RunStore, "run", resumed)
    monkeypatch.setattr(Trainer, "result", ended)
    with contextlib.suppress(Enough):
        execute(name, parameters)
    assert done, "nothing was resumed"


def test_each_chapter_is_executed_to_its_end():
    files = set(map("/".join, UNLIKE.values()))
    assert {*CUTS["whole"], *CUTS["compared"], *CUTS["alike"]} <= files
    chapters = [{chapter_of(Path(each).name) for each in of} for of in (CUTS["whole"], files)]
    assert chapters[0] == chapters[1]
    assert chapters[0] | {*CUTS["sizes"]} == {*CHAPTERS}


WITH_SETTINGS = (
    "interplay",
    "normalized_score",
    "audit_trainings",
    "p1_regime",
    "sctd_map",
    "canaries",
)


def data_of(profile: str, name: str) -> list[DataSpec]:
    """What the trainings of a file are to be given, at their true size."""
    given = whole(profile, name, {})
    dataset = given.get("dataset", "")
    if chapter_of(name) not in WITH_SETTINGS:
        return []
    made = settings_of(chapter_of(name), given, dataset)
    each = made.values() if isinstance(made, dict) else made if isinstance(made, list) else [made]
    return [settings.data for settings in each]


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("profile", ["gpu", "standard"])
def test_trainings_find_their_data_at_their_true_size(profile):
    """What is cut down above: the rows that a parameter file wants of its data set."""
    specs, missing, found = set(), [], 0
    for name in (name for each, name in FILES if each == profile):
        try:
            specs |= {*data_of(profile, name)}
        except DataUnavailable as error:
            missing.append(str(error))
    # Features take a network's training: its public rows are drawn, too. Of a set the most that is
    # asked for will do. Words are drawn alike, and take longer.
    drawn = [
        replace(spec, features="pixels", train=spec.train + spec.public, public=0, seed=0)
        for spec in specs
        if spec.features not in ("tokens", "words")
    ]
    drawn.sort(key=lambda spec: (spec.train + spec.validation, spec.test))
    for spec in {(spec.name, spec.keep_class): spec for spec in drawn}.values():
        try:
            data = spec.load()
        except DataUnavailable as error:
            missing.append(str(error))
            continue
        assert (len(data.training), len(data.validation)) == (spec.train, spec.validation)
        found += 1
    if not found:
        pytest.skip(f"no data: {missing[0]}")
    assert found >= 2

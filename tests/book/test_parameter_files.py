"""Every file of `params/gpu` and `params/standard` is executed, cut down, on this CPU.

`cut_down.yml` says what is cut: examples, steps, models, repetitions. All else is as in the file:
architectures at their size, the device with its engines, noise and claims (for which the CPU stands
in), batches in as many pieces as a small memory asks for. The first execution stops at its first
checkpoint, as if it were killed there; the second one goes on from it.
"""

import importlib.util
import os
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
import yaml
from roberta import make_roberta

from lib.book.chapters import (
    chapter_files,
    chapter_of,
    code_cells,
    declared_parameters,
    profile_parameters,
    read_chapter,
)
from lib.book.parameters import validate_parameters
from lib.data.store import available
from lib.data.text import TEXT_FILES
from lib.runs import Checkpoint

ROOT = Path(__file__).parents[2]
PARAMS, CHAPTERS = ROOT / "params", chapter_files(ROOT / "book")
CUTS = yaml.safe_load(Path(__file__).with_name("cut_down.yml").read_text(encoding="utf-8"))
FILES = [
    (profile, path.stem)
    for profile in ("gpu", "standard")
    for path in sorted((PARAMS / profile).glob("*.yml"))
]
KEPT = ("device", "model", "models", "families", "pate_model", "clipping_norm")


class Killed(BaseException):
    """Not an Exception: nothing in the code may take it for an error of a job."""


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


def cut_down(profile: str, name: str) -> dict:
    """The parameters of a file with what is cut."""
    declared = declared_parameters(read_chapter(CHAPTERS[chapter_of(name)].read_text("utf-8")))
    known = {parameter.name for parameter in declared}
    general = {key: value for key, value in CUTS["all"].items() if key in known}
    own = CUTS.get(chapter_of(name), {}) | CUTS.get(name, {})
    given = profile_parameters(PARAMS, profile, name)
    found = validate_parameters(declared, given | general | own)
    assert {k: found[k] for k in KEPT if k in given} == {k: given[k] for k in KEPT if k in given}
    return found


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


@pytest.mark.slow
@pytest.mark.parametrize(("profile", "name"), FILES)
def test_a_file_is_executed_killed_and_resumed(profile, name, noise, tmp_path, monkeypatch):
    given = profile_parameters(PARAMS, profile, name)
    folders = [str(noise)]
    if given.get("model") == "roberta":
        if importlib.util.find_spec("transformers") is None:
            pytest.skip("needs the optional package transformers (extra 'text')")
        if not all(map(available, TEXT_FILES["sst2"].values())):
            pytest.skip("needs the texts of SST-2")
        make_roberta(tmp_path)
        folders += [str(tmp_path), os.environ.get("COMPANION_DATA", "")]
        monkeypatch.setenv("COMPANION_REHEARSAL_TEXTS", "6")
    memory = CUTS["memory"].get(name, CUTS["memory"]["all"])
    for variable, value in {
        "COMPANION_DATA": os.pathsep.join(folders),
        "COMPANION_CACHE": str(tmp_path / "cache"),
        "COMPANION_OFFLINE": "1",
        "COMPANION_PUBLIC_DATA": "1",
        "COMPANION_RUNS": str(tmp_path / "runs"),
        "COMPANION_THREADS": "1",
        "COMPANION_REHEARSAL": "1",
        "COMPANION_DEVICES": str(zlib.crc32(str(tmp_path).encode())),  # a pretended one
        "COMPANION_MEMORY": str(memory),
        "COMPANION_SAVE_EVERY": "0",
    }.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(ROOT)
    parameters = cut_down(profile, name)
    assert parameters.get("steps", 2) >= 2

    found = []
    save, load = Checkpoint.save, Checkpoint.load

    def saved_and_killed(self, arrays, state):
        save(self, arrays, state)
        if self.path is not None:
            raise Killed

    def watched(self):
        found.append(state := load(self))
        return state

    killed = False
    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "save", saved_and_killed)
        try:
            execute(name, parameters)
        except Killed:
            killed = True
    print("KILLED", profile, name, killed)
    if killed:
        monkeypatch.delenv("COMPANION_SAVE_EVERY")
        monkeypatch.setattr(Checkpoint, "load", watched)
        execute(name, parameters)
        assert any(state is not None for state in found), "nothing was resumed"

"""Parameter files are executed cut down, killed and resumed; slices say what they are."""

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from lib.book import rehearse as module
from lib.book.__main__ import main
from lib.book.chapters import chapter_files, declared_parameters, read_chapter
from lib.book.measured import measured_html
from lib.book.parameters import ParameterError, validate_parameters
from lib.book.rehearse import Rehearsed, cut_parameters, rehearse, write_rehearsal
from lib.book.slices import read_slices, slices_html

ROOT = Path(__file__).parents[2]
PARAMS = ROOT / "params"
FILES = [(p.parent.name, p.stem) for f in ("gpu", "standard") for p in (PARAMS / f).glob("*.yml")]


@pytest.fixture(scope="module")
def declared():
    return {
        name: declared_parameters(read_chapter(path.read_text()))
        for name, path in chapter_files(ROOT / "book").items()
    }


@pytest.mark.parametrize(("profile", "name"), FILES)
def test_every_file_can_be_cut(declared, profile, name, tmp_path, monkeypatch):
    """Allowed values, and devices and architectures as they are."""
    for noise in module._cuts(PARAMS)["sets"]:
        (tmp_path / f"{noise}.npz").touch()
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path))
    given = declared[name.partition(".")[0]]
    names = [each.name for each in given]
    cut = validate_parameters(given, cut_parameters(PARAMS, profile, name, names))
    whole = yaml.safe_load((PARAMS / profile / f"{name}.yml").read_text())
    assert cut.get("device", "cpu") == whole.get("device", "cpu")
    for kept in ("model", "models", "families", "pate_model", "clipping_norm"):
        assert (kept in whole) == (kept in cut), kept
        assert cut.get(kept) == whole.get(kept), kept
    if "steps" in cut:
        assert cut["steps"] >= 2


def test_cuts_of_one_file_name_one():
    cuts, files = module._cuts(PARAMS), {name for _, name in FILES}
    assert {*cuts["keeps"], *cuts["memory"]} - {"all"} <= files
    assert {*cuts["with"], *cuts["with"].values()} <= files


def test_cuts_of_what_is_not_there(tmp_path, declared):
    with pytest.raises(ParameterError, match=r"rehearsal.yml cuts what training lacks: .*rounds"):
        cut_parameters(PARAMS, "gpu", "training", ["steps"])
    with pytest.raises(ParameterError, match="no parameter file 'x' under gpu; there are audit, "):
        rehearse(ROOT / "book", "gpu", ["x"])
    with pytest.raises(SystemExit):
        main(["rehearse", "x", "--book", str(ROOT / "book")])


def test_what_took_longest_begins(tmp_path):
    assert module._longest_first(tmp_path, [["a"], ["b", "c"]]) == [["b", "c"], ["a"]]
    done = [Rehearsed(name, s, 1.0, False, "") for name, s in (("a", 9.0), ("b", 1.0), ("c", 3.0))]
    write_rehearsal(tmp_path, "gpu", done, 13.0)
    groups = [["b", "c"], ["new"], ["a"]]  # what was not there counts as 3 seconds
    assert module._longest_first(tmp_path, groups) == [["a"], ["b", "c"], ["new"]]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a choice of cores")
def test_files_side_by_side_share_no_core():
    """A thread's processes keep to its part; the part of the others is what it was."""
    here, parts = os.sched_getaffinity(0), module._parts_of_cores()
    count = parts.qsize()
    assert count == min(2, len(here))
    ask = [sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"]
    together = threading.Barrier(count)  # each thread starts one process

    def started(_: int) -> set[int]:
        together.wait(60)
        output = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
        return {*map(int, output.split())}

    with ThreadPoolExecutor(count, initializer=module._keep_to, initargs=(parts,)) as pool:
        found = [*pool.map(started, range(count))]
    assert all(found)
    assert sum(map(len, found)) == len(here)
    assert set().union(*found) == here == os.sched_getaffinity(0)


@pytest.mark.slow
def test_a_gpu_file_is_killed_and_resumed(capsys):
    """SCTD's map, whose small networks take less time than the others'."""
    (done,) = rehearse(ROOT / "book", "gpu", ["sctd_map"])
    assert done.error == ""
    assert done.killed
    assert done.megabytes > 100
    assert capsys.readouterr().out.endswith(" MB, killed and resumed\n")


@pytest.mark.slow
def test_a_file_that_cannot_be_executed_fails(tmp_path, monkeypatch, capsys):
    cuts = module._cuts(PARAMS)
    cuts["audit"] = {"delta": 2.0}
    monkeypatch.setattr(module, "_cuts", lambda params: cuts)
    real = module.subprocess.Popen

    def with_these(command, **options):  # the child reads the file
        code = f"import sys, json; from lib.book import rehearse as m; m._cuts = lambda p: {cuts}"
        return real([command[0], "-c", f"{code}; sys.exit(m.main({command[3:]}))"], **options)

    monkeypatch.setattr(module.subprocess, "Popen", with_these)
    (done,) = rehearse(ROOT / "book", "gpu", ["audit"])
    assert "parameter delta = 2.0 is not allowed" in done.error
    assert "audit: FAILED" in capsys.readouterr().out


def test_slices_name_files_and_say_what_was_run(tmp_path):
    slices = read_slices(PARAMS)
    assert len(slices) >= 5
    book = tmp_path / "book"
    (tmp_path / "params" / "gpu").mkdir(parents=True)
    (book / "records" / "gpu").mkdir(parents=True)
    path = tmp_path / "params" / "slices.yml"
    path.write_text("one: {file: a.b, what: a thing}\ntwo: {file: c, what: another}\n")
    with pytest.raises(ValueError, match=r"one: there is no params/gpu/a.b.yml"):
        read_slices(tmp_path / "params")
    for name in ("a.b", "c"):
        (tmp_path / "params" / "gpu" / f"{name}.yml").write_text("")
    assert "neither rehearsed nor run" in slices_html(book)
    write_rehearsal(book, "gpu", [Rehearsed("a.b", 3.21, 400.4, True, "")], 99.6)
    assert json.loads((book / "records" / "rehearsal.json").read_text())["files"] == [
        {"file": "a.b", "seconds": 3.2, "megabytes": 400, "killed": True}
    ]
    page = slices_html(book)
    assert "rehearsed, not run" in page
    assert "neither rehearsed nor run" in page
    assert "killed and resumed" in measured_html(book, "rehearsal")
    assert "100 s in all, two files side by side" in measured_html(book, "rehearsal")
    path.write_text("one: {file: c}\n")
    with pytest.raises(ValueError, match="one: must have exactly file and what"):
        read_slices(tmp_path / "params")


def test_a_slice_that_is_none(capsys):
    with pytest.raises(SystemExit):
        main(["slice", "nothing", "--book", str(ROOT / "book")])
    assert "no slice 'nothing'; there are engines, panel-fashion, " in capsys.readouterr().err

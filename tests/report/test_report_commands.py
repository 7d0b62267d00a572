"""The commands of the README, run from elsewhere; and the chapter on files that lack things."""

import dataclasses
import io
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reading_samples import LABELS, ONE, RIGHT, SECOND, of

from lib.book.chapters import code_cells, declared_parameters, read_chapter
from lib.report import read_predictions
from lib.report.__main__ import as_mapping, main, told_if_slow
from lib.report.studies import DESIGNS
from lib.report.types import Settings

ROOT = Path(__file__).parents[2]


def test_the_chapter_on_a_file_of_few_columns(tmp_path, monkeypatch, capsys, example):
    """Its cells from elsewhere, by a relative path; what papermill does with them is tests/book's.

    The simulation of 60 reports takes nearly all of its time and reads nothing of the file.
    """
    rows = pd.MultiIndex.from_product([["linear", "forest"], DESIGNS])
    columns = ["points", "coverage", "low", "high", "width"]
    drawn = pd.DataFrame(1.0, rows.set_names(["learner", "propensity"]), columns).reset_index()
    monkeypatch.setattr("lib.runs.stored_table", lambda *_, **__: drawn)
    few = {k: example.given[k] for k in ("test_logits", "test_labels", "member_scores")}
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "my.npz", **few)
    monkeypatch.chdir(tmp_path)
    chapter = ROOT / "book" / "your_model.py"
    notebook = read_chapter(chapter.read_text("utf-8"))
    names = {each.name: each.default for each in declared_parameters(notebook)}
    names |= {"predictions": "data/my.npz", "out": "report", "__file__": str(chapter)}
    for cell in code_cells(notebook):
        if "parameters" not in cell["tags"]:
            exec(cell["source"], names)
    said = capsys.readouterr()
    assert said.err == ""
    assert "Data: your file data/my.npz." in said.out
    assert "Privacy audit: skipped. missing: nonmember_scores" in said.out
    written = {path.name for path in (tmp_path / "report").iterdir()}
    selective = {"selective.csv", "selective_scores.csv", "selective.svg"}
    quality = {f"quality{of}.csv" for of in ("", "_bins", "_classes", "_confusion")}
    quality.add("quality_reliability.svg")
    assert written == {"overview.csv", "report.txt", "next_steps.csv"} | selective | quality
    table = pd.read_csv(tmp_path / "report" / "selective.csv").set_index("item")["value"]
    right = few["test_logits"].argmax(axis=1) == few["test_labels"]
    assert table["accuracy"] == pytest.approx(right.mean())


def test_shell_command(tmp_path, capsys):
    path = tmp_path / "e.npz"
    assert main([str(path), "--example", "--seed", "2"]) == 0
    assert main([str(path), "--out", str(tmp_path / "out"), "--learner", "linear"]) == 0
    said = capsys.readouterr()
    assert "Privacy audit: done" in said.out
    assert str(tmp_path / "out" / "audit_roc.svg") in said.out
    assert said.err == ""
    arrays = read_predictions(path).given
    np.savez(path, test_logits=arrays["test_logits"])
    assert main([str(path), "--check"]) == 1
    assert "missing: test_labels" in capsys.readouterr().out
    assert main([str(path)]) == 1
    assert main([str(path), "--alpha", "2"]) == 2
    assert "error: alpha" in capsys.readouterr().err


@pytest.mark.slow
def test_help_says_what_each_option_is_and_what_holds_without_it(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "largest acceptable drop in accuracy" in said  # as the README promises
    for field in dataclasses.fields(Settings):
        _, _, after = said.rpartition(f"--{field.name.replace('_', '-')} ")
        assert f"default: {field.default})" in after.split(" --")[0]


AS_A_PROGRAM = """
import runpy, sys
heavy = "numpy scipy pandas numba matplotlib sklearn torch".split()
import lib.report
words = "numpy scipy pandas numba sklearn"
for given, code, loaded in (("--help", 0, ""), ("own.csv", 0, words), ("none.npz", 2, words)):
    sys.argv[1:] = [given]
    try:
        runpy.run_module("lib.report", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        assert end.code == code, end.code
    found = {name for name in heavy if name in sys.modules}
    assert found <= set(loaded.split()), found
"""


def test_a_program_loads_what_it_needs_and_help_nothing_that_takes_time(tmp_path):
    of(["p_0", "p_1", "p_2"], label=LABELS).to_csv(tmp_path / "own.csv", index=False)
    command = [sys.executable, "-c", AS_A_PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("error: path must be a file, got none.npz")
    assert "--map ROLE=COLUMN" in done.stdout
    assert "Report on own.csv" in done.stdout


@pytest.mark.parametrize("terminal", [True, False])
def test_what_takes_long_is_said_on_a_terminal(terminal, monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", stream)
    with told_if_slow("reading own.csv", after=0.0):
        end = time.monotonic() + 30
        while terminal and not stream.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
    with told_if_slow("no word", after=30.0):
        pass
    assert stream.getvalue() == "reading own.csv ...\n" * terminal


def test_maps_are_read_from_the_command(tmp_path, capsys):
    frame, path = of(["a(1,x)", "b", "c"], q=LABELS, r=LABELS[::-1]), tmp_path / "own.csv"
    mapped = as_mapping(["label=q,probabilities=[abc]*"])
    np.testing.assert_array_equal(read_predictions(frame, mapped).correct("test")[0], RIGHT)
    frame.to_csv(path, index=False)
    assert main([str(path)]) == 1
    assert "--map label=COLUMN" in capsys.readouterr().out
    assert main([str(path), "--map", "label=q", "--map", "probabilities=[abc]*", "--check"]) == 0
    for text in ("q", "nothing=q", "label=q,label=r"):
        assert main([str(path), "--map", text]) == 2
        assert "--map must" in capsys.readouterr().err


def test_an_example_replaces_no_file_and_one_must_be_given(tmp_path, capsys):
    path = tmp_path / "mine.csv"
    path.write_text("label,prob\n1,0.9\n")
    assert main(["--example", str(path)]) == 2
    assert "--example" in capsys.readouterr().err
    assert path.read_text() == "label,prob\n1,0.9\n"
    assert main([]) == 2
    assert capsys.readouterr().err == "error: a file must be given, or --example\n"


def test_what_cannot_be_written_is_told_before_any_work(tmp_path, capsys, monkeypatch):
    path = tmp_path / "mine.csv"
    pd.DataFrame({"label": SECOND, "prob": ONE}).to_csv(path, index=False)
    monkeypatch.setattr("lib.report.exports.can_write", lambda folder: False)
    assert main([str(path), "--out", str(tmp_path / "a.html")]) == 2
    told = capsys.readouterr()
    assert "where files can be written" in told.err
    assert not told.out
    assert [each.name for each in tmp_path.iterdir()] == ["mine.csv"]

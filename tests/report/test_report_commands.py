"""The commands of the README, run from elsewhere; and the chapter on files that lack things."""

import functools
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest

from lib.report import example_predictions, read_predictions
from lib.report.__main__ import main
from lib.report.studies import drawn_abstention
from lib.runs import RunStore, stored_table

ROOT = Path(__file__).parents[2]


def outputs(path):
    """All that a notebook shows as text."""
    notebook = nbformat.read(path, 4)
    shown = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    assert not [o for o in shown if o.output_type == "stream" and o.name == "stderr"]
    return "\n".join(o.get("data", {}).get("text/plain", o.get("text", "")) for o in shown)


def papermill(folder, *arguments):
    program = Path(sys.executable).with_name("papermill")
    chapter = str(ROOT / "book" / "your_model.py")
    command = [str(program), chapter, "out.ipynb", *arguments, "--log-level", "ERROR"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_papermill_from_elsewhere(tmp_path, monkeypatch):
    """A file with few columns, a path relative to where papermill is called.

    The chapter's simulation of 300 reports takes nearly all of its time and reads nothing of the
    file: its table is in the store already, from two reports of 200 rows a design.
    """
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path / "runs"))

    @functools.wraps(drawn_abstention)  # under its name, and so under its key in the store
    def short(learners, repetitions, seed):
        one = drawn_abstention(["linear"], 200, repetitions=2, seed=seed)
        return pd.concat([one.assign(learner=name) for name in learners], ignore_index=True)

    stored_table(short, ["linear", "forest"], repetitions=50, seed=0)
    arrays = read_predictions(example_predictions(tmp_path / "all.npz", seed=1)).given
    few = {k: arrays[k] for k in ("test_logits", "test_labels", "member_scores")}
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "my.npz", **few)
    done = papermill(tmp_path, "-p", "predictions", "data/my.npz", "-p", "out", "report")
    assert done.returncode == 0, done.stderr
    assert len(RunStore().keys()) == 1  # what was stored was found
    text = outputs(tmp_path / "out.ipynb")
    assert "Data: your file data/my.npz." in text
    prose = [
        c.source
        for c in nbformat.read(tmp_path / "out.ipynb", 4).cells
        if c.cell_type == "markdown"
    ]
    assert not any("{value}`your_model." in cell for cell in prose)
    assert "Privacy audit: skipped. missing: nonmember_scores" in text
    assert "Suitability for the user's data: skipped. missing: holdout_logits" in text
    written = {path.name for path in (tmp_path / "report").iterdir()}
    assert written == {
        "overview.csv",
        "report.txt",
        "next_steps.csv",
        "selective.csv",
        "selective_scores.csv",
        "selective.svg",
    }
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
    assert "selective: missing: test_labels" in capsys.readouterr().out
    assert main([str(path)]) == 1
    assert main([str(path), "--alpha", "2"]) == 2
    assert "error: alpha must be a number in (0, 0.5), got 2.0" in capsys.readouterr().err
    assert main([str(tmp_path / "none.csv")]) == 2
    assert "none.csv, which does not exist" in capsys.readouterr().err


@pytest.mark.slow
def test_module_is_a_program(tmp_path):
    command = [sys.executable, "-m", "lib.report", "none.npz", "--check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")

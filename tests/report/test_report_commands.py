"""The commands of the README, run from elsewhere; and the chapter on files that lack things."""

import dataclasses
import functools
import io
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
from reading_samples import LABELS, ONE, RIGHT, SECOND, of

from lib.report import example_predictions, read_predictions
from lib.report.__main__ import as_mapping, main, told_if_slow
from lib.report.studies import drawn_abstention
from lib.report.types import Settings
from lib.runs import RunStore, stored_table

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_papermill_from_elsewhere(tmp_path, monkeypatch):
    """A file with few columns, a path relative to where papermill is called.

    The chapter's simulation of 60 reports takes nearly all of its time and reads nothing of the
    file: its table is in the store already, from two reports of 200 rows a design.
    """
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path / "runs"))

    @functools.wraps(drawn_abstention)  # under its name, and so under its key in the store
    def short(learners, repetitions, seed):
        one = drawn_abstention(["linear"], 200, repetitions=2, seed=seed)
        return pd.concat([one.assign(learner=name) for name in learners], ignore_index=True)

    stored_table(short, ["linear", "forest"], repetitions=10, seed=0)
    arrays = read_predictions(example_predictions(tmp_path / "all.npz", seed=1)).given
    few = {k: arrays[k] for k in ("test_logits", "test_labels", "member_scores")}
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "my.npz", **few)
    program = str(Path(sys.executable).with_name("papermill"))
    command = [program, str(ROOT / "book" / "your_model.py"), "out.ipynb", "--log-level", "ERROR"]
    command += ["-p", "predictions", "data/my.npz", "-p", "out", "report"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(RunStore().keys()) == 1  # what was stored was found
    cells = nbformat.read(tmp_path / "out.ipynb", 4).cells
    shown = [o for cell in cells if cell.cell_type == "code" for o in cell.outputs]
    assert not [o for o in shown if o.get("name") == "stderr"]
    text = "\n".join(o.get("data", {}).get("text/plain", o.get("text", "")) for o in shown)
    assert "Data: your file data/my.npz." in text
    assert "Privacy audit: skipped. missing: nonmember_scores" in text
    assert not any("{value}`your_model." in c.source for c in cells if c.cell_type == "markdown")
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


def test_module_is_a_program(tmp_path):
    command = [sys.executable, "-m", "lib.report", "none.npz", "--check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize(
    "code",
    [
        "import lib.report",
        "from lib.report.__main__ import _parser; assert 'ROLE' in _parser().format_help()",
    ],
)
def test_help_loads_nothing_that_takes_time(code):
    heavy = "{'numpy', 'scipy', 'pandas', 'numba', 'matplotlib', 'sklearn', 'torch'}"
    code = f"{code}; import sys; found = {heavy} & set(sys.modules); assert not found, found"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_report_in_words_loads_no_matplotlib(tmp_path):
    of(["p_0", "p_1", "p_2"], label=LABELS).to_csv(tmp_path / "own.csv", index=False)
    code = f"""
import sys
from lib.report.__main__ import main
assert main([{str(tmp_path / "own.csv")!r}]) == 0
assert "matplotlib" not in sys.modules and "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


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

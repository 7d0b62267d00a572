"""An export is one folder, whole, or nothing: wherever it is killed, whatever was there."""

import json
import os
import subprocess
import sys

import pytest

from lib.report import exports
from lib.report.__main__ import main
from lib.report.exports import export_files, require_exportable

OLD = {
    "overview.csv": "files\na.csv gone.svg\n",
    "report.txt": "old\n",
    "a.csv": "old\n",
    "gone.svg": "old",
}
NEW = {"overview.csv": "files\na.csv\n", "report.txt": "new\n", "a.csv": "new\n"}


def content(folder):
    return {path.name: path.read_text() for path in folder.iterdir()} if folder.is_dir() else None


KILLED = """
import json, os, shutil, signal, sys
from pathlib import Path
from lib.report.exports import export_files

WATCHED = "open os.mkdir os.rename os.chmod os.remove os.rmdir shutil.rmtree".split()

def killed_at(moment, *arguments):
    # whether a child that calls is killed, at its so manyth act on the disk
    if pid := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status in (0, -signal.SIGKILL), status
        return status != 0
    count = 0

    def act(event, _):
        nonlocal count
        count += event in WATCHED
        if event in WATCHED and count == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.addaudithook(act)
        export_files(*arguments)
        os._exit(0)
    finally:
        os._exit(1)

base, name, before, new = Path(sys.argv[1]), sys.argv[2], *map(json.loads, sys.argv[3:])
moment, was_killed = 0, True
while was_killed:
    moment += 1
    path = base / str(moment) / name
    path.parent.mkdir(parents=True)
    if before:
        export_files(path, before)
    was_killed = killed_at(moment, path, new)
print(moment)
"""


def killed(base, name, before, new) -> int:
    """How many exports to ``1/<name>``, ``2/<name>``, ...; each is killed an act later.

    The last is not killed. By forks of a small process: of a gigabyte, each takes 50 ms.
    """
    given = [str(base), name, json.dumps(before), json.dumps(new)]
    command = [sys.executable, "-c", KILLED, *given]
    return int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


@pytest.mark.parametrize("before", [None, OLD])
def test_a_killed_export_leaves_the_old_or_the_new_or_nothing(before, tmp_path):
    count, seen = killed(tmp_path, "report", before, NEW), []
    for moment in range(1, count + 1):
        folder = tmp_path / str(moment) / "report"
        seen.append(content(folder))
        assert seen[-1] in (None, {}, before, NEW), moment
        assert [path.name for path in export_files(folder, NEW)] == list(NEW)
        assert content(folder) == NEW
        assert os.listdir(folder.parent) == ["report"]  # nothing of the killed one is left
    assert count > 10
    assert before in seen
    assert NEW in seen


def test_a_killed_page_too(tmp_path):
    count, seen = killed(tmp_path, "report.html", {"": "old"}, {"": "new"}), []
    for moment in range(1, count + 1):
        path = tmp_path / str(moment) / "report.html"
        seen.append(path.read_text())
        export_files(path, {"": "old"})
        assert os.listdir(path.parent) == ["report.html"]
    assert {*seen} == {"old", "new"}
    assert count > 4


def test_one_killed_while_it_took_the_place_gives_back(tmp_path, monkeypatch):
    folder = tmp_path / "report"
    scratch = tmp_path / f".report.{2**22 + 1}.partial"  # of no process
    (scratch / "old").mkdir(parents=True)
    (scratch / "old" / "report.txt").write_text("old")
    own = tmp_path / f".report.{os.getppid()}.partial"  # of one that lives
    own.mkdir()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exports, "write_atomic", full)
    with pytest.raises(OSError, match="No space left"):
        export_files(folder, NEW)
    assert content(folder) == {"report.txt": "old"}
    assert {*os.listdir(tmp_path)} == {"report", own.name}


def test_an_earlier_report_goes_whole_and_nothing_else_does(tmp_path):
    folder = tmp_path / "report"
    export_files(folder, OLD)
    folder.chmod(0o750)
    require_exportable(folder)
    (tmp_path / "link").symlink_to(folder)
    assert export_files(tmp_path / "link", NEW)[0] == tmp_path / "link" / "overview.csv"
    assert (tmp_path / "link").is_symlink()
    assert content(folder) == NEW
    assert folder.stat().st_mode & 0o777 == 0o750
    (folder / "thesis.tex").touch()
    with pytest.raises(ValueError, match=r"'thesis\.tex'"):
        require_exportable(folder)
    with pytest.raises(ValueError, match=r"which is a file"):
        require_exportable(folder / "thesis.tex")


@pytest.mark.parametrize("where", [".", "..", "/", "others"])
def test_the_folder_is_looked_at_before_any_work(where, tmp_path, monkeypatch, capsys):
    """It may not be the working directory nor above it, nor hold what is no report."""
    (tmp_path / "here" / "others").mkdir(parents=True)
    (tmp_path / "here" / "others" / "notes.txt").touch()
    monkeypatch.chdir(tmp_path / "here")
    assert main(["none.npz", "--out", where]) == 2
    assert "folder must" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["here"]

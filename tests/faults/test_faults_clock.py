"""Clocks that are wrong and files from the past or the future: they have no say in any result."""

import datetime as standard
import os
import time

import numpy as np
import pytest
from fault_light import Steps

from lib.runs import Checkpoint, RunStore, checkpoint, store

JOB = Steps(3, size=100, pause=0.0)
YEARS = (2100, 2001, 2039, 1985, 1970)


@pytest.fixture
def clock(monkeypatch):
    """Sets what `datetime.datetime` and `time.time` say to a year, and the times of files to it."""
    from lib.book import execute

    def set_to(year, folder):
        seconds = standard.datetime(year, 2, 3, tzinfo=standard.UTC).timestamp()

        class Wrong(standard.datetime):
            @classmethod
            def now(cls, tz=None):
                return standard.datetime.fromtimestamp(seconds, tz)

        for module in (store, checkpoint, execute):
            monkeypatch.setattr(module, "datetime", Wrong)
        monkeypatch.setattr(time, "time", lambda: seconds)
        monkeypatch.setattr(time, "time_ns", lambda: int(seconds * 1e9))
        for path in folder.rglob("*"):
            os.utime(path, (seconds, seconds))

    return set_to


def same(run, expected) -> None:
    assert np.array_equal(run.arrays["total"], expected.arrays["total"])
    assert (run.metrics, run.privacy) == (expected.metrics, expected.privacy)


def test_a_clock_that_goes_backwards(tmp_path, clock):
    """Stored, read, damaged and mended in years that do not follow each other."""
    expected, runs, before = JOB.execute(Checkpoint()), RunStore(tmp_path), YEARS[0]
    for year in YEARS:
        clock(year, tmp_path)
        run = runs.run(JOB)
        same(run, expected)
        assert run.provenance["when"].startswith(str(before))
        place = Checkpoint(tmp_path / "partial" / run.key)
        JOB.execute(place)
        clock(year, tmp_path)
        same(JOB.execute(place), run)
        again = runs.run(JOB)
        assert (again.provenance, again.seconds) == (run.provenance, run.seconds)  # read, not made
        (run.path / "arrays.npz").write_bytes(b"PK")
        with pytest.warns(RuntimeWarning, match="is damaged"):
            same(runs.run(JOB), expected)
        before = year
    assert len(list((tmp_path / "set-aside").iterdir())) == 5


def test_chapters_whatever_the_clock_and_the_files_say(chapters, clock, tmp_path, capsys):
    for year in YEARS:
        clock(year, tmp_path)
        chapters.work("finished")
        chapters.path.touch()
        chapters.work("finished")
    assert capsys.readouterr().out.count("executing chapter") == 1

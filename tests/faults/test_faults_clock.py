"""Clocks that are wrong and files from the past or the future: they have no say in any result."""

import datetime as standard
import os
import time
import warnings

import numpy as np
import pytest
from fault_light import Steps

from lib.runs import Checkpoint, RunStore, checkpoint, store

JOB = Steps(3, size=100, pause=0.0)
MOMENTS = {  # seconds since 1970
    "1970": 3600.0,
    "1985": 473_385_600.0,
    "2001": 1_000_000_000.0,
    "2039": 2_177_452_800.0,
    "2100": 4_102_444_800.0,
}


class Clock:
    """What `datetime.datetime` and `time.time` say, while it is set."""

    def __init__(self, monkeypatch):
        self._patch = monkeypatch

    def set(self, seconds: float) -> None:
        class Wrong(standard.datetime):
            @classmethod
            def now(cls, tz=None):
                return standard.datetime.fromtimestamp(seconds, tz)

        from lib.book import execute

        for module in (store, checkpoint, execute):
            self._patch.setattr(module, "datetime", Wrong)
        self._patch.setattr(time, "time", lambda: seconds)
        self._patch.setattr(time, "time_ns", lambda: int(seconds * 1e9))


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def set_times(folder, seconds: float) -> None:
    """Give every file and folder below a folder this modification time."""
    for path in folder.rglob("*"):
        os.utime(path, (seconds, seconds))


def same(run, expected) -> None:
    assert np.array_equal(run.arrays["total"], expected.arrays["total"])
    assert (run.metrics, run.privacy) == (expected.metrics, expected.privacy)


def test_a_clock_that_goes_backwards(tmp_path, clock):
    """Stored, read, damaged and mended in years that do not follow each other."""
    expected, runs, before = JOB.execute(Checkpoint()), RunStore(tmp_path), "2100"
    for when in ("2100", "2001", "2039", "1985", "1970"):
        clock.set(MOMENTS[when])
        run = runs.run(JOB)
        same(run, expected)
        assert run.provenance["when"].startswith(before)
        place = Checkpoint(tmp_path / "partial" / run.key)
        JOB.execute(place)
        set_times(tmp_path, MOMENTS[when])
        same(JOB.execute(place), run)
        again = runs.run(JOB)
        assert (again.provenance, again.seconds) == (run.provenance, run.seconds)  # read, not made
        (run.path / "arrays.npz").write_bytes(b"PK")
        with pytest.warns(RuntimeWarning, match="is damaged"):
            same(runs.run(JOB), expected)
        before = when
    assert len(list((tmp_path / "set-aside").iterdir())) == 5


def test_chapters_whatever_the_clock_and_the_files_say(chapters, clock, tmp_path, capsys):
    """Executed once, read ever after; a wrong clock only makes the date on the page wrong."""
    clock.set(MOMENTS["2100"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chapters.work("finished")
        for seconds in MOMENTS.values():
            clock.set(seconds)
            set_times(tmp_path, seconds)
            chapters.work("finished")
            chapters.path.touch()
            chapters.work("finished")
    assert capsys.readouterr().out.count("executing chapter") == 1

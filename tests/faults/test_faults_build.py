"""Builds killed with SIGKILL at random moments: the next gives what an undisturbed one gives."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import warnings
from pathlib import Path

import pytest
from fault_build import make_chapters
from fault_light import jobs
from fault_tools import (
    HERE,
    KILLED,
    LIVED,
    RUN_MARK,
    Forker,
    assert_same_runs,
    files,
    kill_at,
    moments,
    read_all,
    runs_files,
    wait_until,
)
from throwaway import executed, make_book

from lib.book.execute import read_entry
from lib.runs import RunStore

SEED = 20_261_125
BOOK = HERE.parent / "book"


@pytest.fixture(scope="module")
def builder(tmp_path_factory):
    forker = Forker("fault_build", tmp_path_factory.mktemp("builder"), BOOK)
    yield forker
    assert not forker.close()


class Small:
    def __init__(self, root: Path, forker: Forker, *names: str):
        self.root, self.forker = root, forker
        self.store = RunStore(root / "runs")
        make_chapters(root, *names)

    def begin(self, forker: Forker | None = None, target: str = "") -> int:
        runs = str(self.store.folder)
        return (forker or self.forker).begin("build", self.root, target, COMPANION_RUNS=runs)

    def build(self) -> tuple[dict, float]:
        """Build to the end; what the chapters gave, and the seconds it took."""
        target, started = self.root / "given.json", time.monotonic()
        self.begin(target=str(target))
        assert self.forker.end() == 0, self.forker.printed()
        return json.loads(target.read_text()), time.monotonic() - started

    def entries(self) -> dict[str, str]:
        cache = self.root / ".cache" / "book"
        for path in cache.glob("*/*.json"):
            assert read_entry(path) is not None
        return {name: h for name, h in files(cache).items() if name.endswith(".json")}


def undisturbed_build(builder, folder: Path, *names: str) -> tuple[dict, dict, float]:
    book = Small(folder / "book", builder, *names)
    given, seconds = book.build()
    return given, read_all(book.store), seconds


def kill_and_build(book: Small, seconds: float, undisturbed) -> bool:
    """Kill a build, but not its kernel, and build again; whether it lived until then.

    The kernel notices by itself that nobody wants it, and may still finish a run meanwhile.
    """
    given, runs, _ = undisturbed
    lived = kill_at(book.forker, book.begin(), seconds, lambda: None)
    entries, finished = book.entries(), runs_files(book.store)
    again, _ = book.build()
    assert again == given
    after, stored = book.entries(), runs_files(book.store)
    assert {name: after[name] for name in entries} == entries
    assert {key: stored[key] for key in finished} == finished
    assert_same_runs(read_all(book.store), runs)
    wait_until(lambda: not book.forker.others(), 10, f"left: {book.forker.others()}")
    return lived


def kill_often(builder, folder: Path, undisturbed, count: int, *names: str) -> int:
    when = moments(SEED, count, undisturbed[2])
    book = Small(folder / "book", builder, *names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lived = []
        for number, seconds in enumerate(when):
            # Chapter two is finished every other time; the runs are partly there.
            gone = [book.root / ".cache/book/one"]
            gone += [book.root / ".cache/book/two"] * (number % 2)
            gone += [book.store.path(key) for key in book.store.keys()[number % 3 :]]
            for path in gone:
                shutil.rmtree(path, ignore_errors=True)
            lived.append(kill_and_build(book, seconds, undisturbed))
    return sum(lived)


@pytest.mark.long
def test_killed_builds(builder, tmp_path):
    names = ("one", "two")
    whole = undisturbed_build(builder, tmp_path / "undisturbed", *names)
    assert kill_often(builder, tmp_path, whole, KILLED, *names) >= LIVED


@pytest.mark.slow
def test_a_build_takes_over_from_a_killed_one(builder, tmp_path, tmp_path_factory):
    """The second build of the same book waits for the first, which is killed after its first run.

    What it gives is what the jobs give when nobody disturbs them.
    """
    undisturbed = RunStore(tmp_path / "undisturbed")
    means = [undisturbed.run(job).metrics["mean"] for job in jobs(4, pause=0.02)]
    other = Forker("fault_build", tmp_path_factory.mktemp("other"), BOOK)
    try:
        book = Small(tmp_path / "book", builder, "one")
        target = tmp_path / "given.json"
        first = book.begin()
        wait_until(lambda: (book.root / ".cache/book/one/lock").exists(), 60, "no build began")
        book.begin(other, target=str(target))
        wait_until(book.store.keys, 60, "no run was finished")
        os.kill(first, signal.SIGKILL)
        assert builder.end() == -signal.SIGKILL, builder.printed()
        assert other.end() == 0, other.printed()
        given = json.loads(target.read_text())["one"]
        assert given["values"] == {"double": 4.0, "mean": sum(means)}
        assert [verdict["verdict"] for verdict in given["verdicts"]] == ["reproduced"]
        assert_same_runs(read_all(book.store), read_all(undisturbed))
    finally:
        assert not other.close()


@pytest.mark.long
def test_killed_builds_of_a_whole_site(processes, tmp_path):
    book = make_book(tmp_path / "book")
    tokenless = book.environment
    book.environment = lambda **extra: tokenless(**extra) | {RUN_MARK: processes.token}
    book.build()
    book.edit("book/one.py", "double = 2 * base", "double = 1 * base")
    started = time.monotonic()
    book.build()  # what a build takes after an edit, as those that are killed
    whole, lived = time.monotonic() - started, []
    book.edit("book/one.py", "double = 1 * base", "double = 2 * base")
    when = moments(SEED, 6, whole)
    for number, seconds in enumerate(when):
        book.edit("book/one.py", f"double = {number + 2} * base", f"double = {number + 3} * base")
        process = book.start()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        lived.append(process.poll() is None)
        if lived[-1]:
            os.kill(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()
        book.build()
        assert f">{2 * (number + 3)}.000</span>" in book.page("index")
        for name in ("index", "one", "two", "reproduces"):
            assert book.page(name).rstrip().endswith("</html>")
        assert executed(book.build()) == 0
    assert sum(lived) >= 4

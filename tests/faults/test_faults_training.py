"""Trainings killed with SIGKILL at random moments: nothing finished is lost, nothing half read."""

import warnings
from pathlib import Path

import pytest
from fault_tools import (
    KILLED,
    LIVED,
    Forker,
    assert_same_runs,
    kill_at,
    moments,
    read_all,
    runs_files,
)

from lib.runs import RunStore
from lib.runs.checkpoint import load_arrays

SEED = 20_261_122


@pytest.fixture(scope="module")
def undisturbed(heavy, tmp_path_factory):
    """All runs of a store whose trainings nobody disturbed, and how long they took."""
    folder = tmp_path_factory.mktemp("undisturbed")
    seconds = heavy.run("train_all", folder)
    found = read_all(RunStore(folder))
    assert len(found) == 5
    return found, seconds


def checkpoints(store: RunStore) -> int:
    found = list(store.folder.glob("partial/*/checkpoint.npz"))
    for path in found:
        arrays, text = load_arrays(path)  # verifies the checksums of all members
        assert arrays
        assert text
    return len(found)


def kill_and_go_on(forker: Forker, folder: Path, seconds: float, expected) -> tuple[bool, int, int]:
    """Kill trainings after some seconds and run them again.

    Whether they lived when they were killed, and how many runs and checkpoints there were then.
    """
    store = RunStore(folder)
    finished: dict = {}

    def look() -> None:
        """What others read while it is written is whole, and never changes afterwards."""
        for key, content in runs_files(store).items():
            if key not in finished:
                assert_same_runs({key: read_all(store)[key]}, {key: expected[key]})
                finished[key] = content
            assert content == finished[key]

    pid = forker.begin("train_all", folder)
    lived = kill_at(forker, pid, seconds, look)
    look()
    count, saved = len(finished), checkpoints(store)
    forker.run("train_all", folder)
    after = runs_files(store)
    assert {key: after[key] for key in finished} == finished  # not made again
    assert_same_runs(read_all(store), expected)
    assert not list(store.folder.glob("partial/*/"))
    assert not list(store.folder.glob("??/.*"))
    return lived, count, saved


def kill_often(forker: Forker, folder: Path, undisturbed, count: int) -> list[tuple]:
    expected, whole = undisturbed
    when = moments(SEED, count, whole)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as of a damaged run
        return [
            kill_and_go_on(forker, folder / str(number), seconds, expected)
            for number, seconds in enumerate(when)
        ]


@pytest.mark.long
def test_killed_trainings_go_on_to_the_same_result(heavy, tmp_path, undisturbed):
    found = kill_often(heavy, tmp_path, undisturbed, KILLED)
    assert sum(lived for lived, *_ in found) >= LIVED
    assert len({count for _, count, _ in found}) >= 4  # before, between, after finished runs
    assert sum(saved > 0 for *_, saved in found) >= 10


@pytest.mark.long
def test_the_same_training_killed_again_and_again(heavy, tmp_path, undisturbed):
    """Each life is too short for the whole; together they are long enough."""
    expected, whole = undisturbed
    store, lives = RunStore(tmp_path), 0
    for seconds in moments(SEED + 1, 50, 0.3 * whole):
        lives += 1
        if not kill_at(heavy, heavy.begin("train_all", tmp_path), seconds, lambda: None):
            break
    assert lives > 2
    heavy.run("train_all", tmp_path)
    assert_same_runs(read_all(store), expected)

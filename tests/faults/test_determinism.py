"""The same numbers from every build on a machine, and from one thread or two."""

import ast
import json
import shutil
import sys
from pathlib import Path

import fault_pieces
import numpy as np
import pytest
from fault_build import make_chapters
from fault_tools import HERE, ROOT, environment

BOOK = HERE.parent / "book"


# ------------------------------------------------------------------------------- two builds


def build(processes, root: Path, target: Path, chapter: str, **extra: str) -> dict:
    """Execute one chapter below a folder in a process of its own; what it gave."""
    code = (
        "import sys; from fault_build import given_by;"
        " given_by(sys.argv[1], sys.argv[2], sys.argv[3])"
    )
    status, output = processes.run(
        [sys.executable, "-c", code, str(root), chapter, str(target)],
        environment(BOOK, **extra),
        seconds=1500,
    )
    assert status == 0, output
    return json.loads(target.read_text())


@pytest.mark.slow
def test_two_builds_of_a_small_chapter(processes, tmp_path):
    given = []
    for name in ("first", "second"):
        make_chapters(tmp_path / name, "one")
        target, runs = tmp_path / f"{name}.json", str(tmp_path / name / "runs")
        given.append(build(processes, tmp_path / name, target, "one", COMPANION_RUNS=runs))
    assert given[0] == given[1]
    assert given[0]["values"].keys() == {"double", "mean"}
    assert given[0]["tables"]
    assert given[0]["verdicts"]


def volatile(chapter: Path) -> set[str]:
    """Names of the values that a chapter itself says may change from run to run."""
    calls = [n for n in ast.walk(ast.parse(chapter.read_text())) if isinstance(n, ast.Call)]
    return {
        word.arg
        for call in calls
        if any(w.arg == "volatile" for w in call.keywords)
        for word in call.keywords
    }


@pytest.mark.long
@pytest.mark.parametrize("chapter", ["six_lenses", "your_model"])
def test_two_builds_of_a_real_chapter(processes, tmp_path, chapter):
    """Values, tables and verdicts from two empty caches, without the authors' data."""
    given = []
    for name in ("first", "second"):
        root = tmp_path / name
        ignore = shutil.ignore_patterns("_build", "__pycache__")
        shutil.copytree(ROOT / "book", root / "book", ignore=ignore)
        shutil.copytree(ROOT / "params", root / "params")
        (root / "lib").symlink_to(ROOT / "lib")
        given.append(
            build(
                processes,
                root,
                tmp_path / f"{name}.json",
                chapter,
                COMPANION_RUNS=str(root / "runs"),
                COMPANION_CACHE=str(root / "cache"),
            )
        )
    first, second = given
    assert first["verdicts"] == second["verdicts"]
    assert first["tables"] == second["tables"]
    may_differ = volatile(ROOT / "book" / f"{chapter}.py")
    assert first["values"].keys() == second["values"].keys()
    differ = {n for n, v in first["values"].items() if v != second["values"][n]}
    assert differ <= may_differ
    print(f"{chapter}: {len(first['values'])} values, {len(first['tables'])} tables; {differ=}")


# ----------------------------------------------------------------------- threads


#: The longest sums in the pieces: over a batch or a layer in trainings, over rows elsewhere.
LONGEST = {"training": 600, "suitability": 3000, "audit": 3000, "counterfactual": 1500}


def tolerance(name: str, one: np.ndarray, nudged: np.ndarray) -> float:
    """How much the number of threads may change a piece.

    Threads change the order in which sums are taken.  Reordering a sum of k terms changes it by no
    more than relative changes of the terms by k u would, u being half a unit in the last place
    (N. Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).  How a piece responds
    to relative changes of 2 u in all its inputs is measured (`nudged`), which counts all its
    amplification; so k / 2 times that response, and k u of the numbers themselves.
    """
    k, u = LONGEST[name.split(",")[0]], np.finfo(one.dtype).eps / 2
    return k * (np.abs(one - nudged).max() / 2 + u * np.abs(one).max())


def pieces(processes, target: Path, threads: int, share: str, parts: str) -> dict:
    """The pieces, from a process with so many threads."""
    count = str(threads)
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    status, output = processes.run(
        [sys.executable, str(HERE / "fault_pieces.py"), str(target), count, share, parts],
        environment(**dict.fromkeys(names, count)),
        seconds=600,
    )
    assert status == 0, output
    with np.load(target) as found:
        return dict(found)


def compare(processes, tmp_path: Path, parts: str) -> None:
    one = pieces(processes, tmp_path / "1.npz", 1, "0", parts)
    two = pieces(processes, tmp_path / "2.npz", 2, "0", parts)
    nudged = pieces(processes, tmp_path / "n.npz", 1, "1", parts)
    assert one.keys() == two.keys() == nudged.keys()
    for name, array in one.items():
        bound, found = tolerance(name, array, nudged[name]), np.abs(array - two[name]).max()
        print(f"{name}: {found:.2g} between 1 and 2 threads, at most {bound:.2g} allowed")
        assert found <= bound, name
        assert bound < 1e-3 * max(1.0, np.abs(array).max()), name  # it would notice another seed


@pytest.mark.slow
def test_one_thread_or_two_in_small():
    """In this process, for the subjects that load fast."""
    import threadpoolctl

    found = []
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads):
            found.append(fault_pieces.counterfactual(learners=("linear",)))
    nudged = fault_pieces.counterfactual(fault_pieces.SHARE[np.float64], learners=("linear",))
    for name, array in found[0].items():
        assert np.abs(array - found[1][name]).max() <= tolerance(name, array, nudged[name])


@pytest.mark.long
def test_one_thread_or_two(processes, tmp_path):
    """Trainings by every engine, filter, audit and counterfactual estimates."""
    compare(processes, tmp_path, "trainings,suitability,audit,counterfactual")


@pytest.mark.long
def test_the_same_threads_give_the_same_bits(processes, tmp_path):
    parts = "trainings,suitability,audit,counterfactual"
    for threads in (1, 2):
        first = pieces(processes, tmp_path / "a.npz", threads, "0", parts)
        again = pieces(processes, tmp_path / "b.npz", threads, "0", parts)
        for name, array in first.items():
            assert array.tobytes() == again[name].tobytes(), (threads, name)

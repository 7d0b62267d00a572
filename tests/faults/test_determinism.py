"""The same numbers from every build on a machine, and from one thread or two."""

import ast
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl
from fault_tools import HERE, ROOT, environment

from lib.counterfactual import counterfactual_score

BOOK = HERE.parent / "book"


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
    assert first["values"].keys() == second["values"].keys()
    differ = {n for n, v in first["values"].items() if v != second["values"][n]}
    calls = [
        {word.arg for word in node.keywords}
        for node in ast.walk(ast.parse((ROOT / "book" / f"{chapter}.py").read_text()))
        if isinstance(node, ast.Call)
    ]
    assert differ <= set().union(*(names for names in calls if "volatile" in names))


def estimate(share: float = 0.0) -> np.ndarray:
    """A counterfactual estimate; `share` changes every number of the input by a share of itself."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1500, 6)) * (1 + share * rng.choice([-1.0, 1.0], (1500, 6)))
    abstained = rng.random(1500) < 1 / (1 + np.exp(-x[:, 0] + 1))
    scores = (rng.random(1500) < 1 / (1 + np.exp(-x[:, 1]))).astype(float)
    found = counterfactual_score(x, scores, abstained, learner="linear", rng=3)
    return np.array([found.value, found.stderr, *found.interval])


@pytest.mark.slow
def test_one_thread_or_two():
    """Threads change the order in which sums of k terms, here rows, are taken.

    That changes a sum by no more than relative changes of the terms by k u would, u being half a
    unit in the last place (N. Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
    How the estimate responds to changes of 2 u in all its inputs is measured, which counts all its
    amplification; so k / 2 times that response, and k u of the numbers themselves.
    """
    found = []
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads):
            found.append(estimate())
    k, u = 1500, np.finfo(float).eps / 2
    bound = k * (np.abs(found[0] - estimate(2 * u)).max() / 2 + u * np.abs(found[0]).max())
    assert np.abs(found[0] - found[1]).max() <= bound
    assert bound < 1e-3  # it would notice another seed

"""Two workers, as `make test` has them: who runs which tests, in which order, and where they part.

A file's tests stay together, because its fixtures are expensive; but pages of the real site are
looked at in two halves. What takes longest begins first: the file that builds the site, whose build
takes both cores where it has to execute chapters; what else reads the site comes late, when it is
there. Without pytest-xdist only the order is affected.

The marker `fast` is given here: to the tests of formulas and pure functions, which are those of the
folders `FAST`, but for figures, studies, the files that take longest, and what is marked `slow` or
in a way that keeps it out of an ordinary run.
"""

import functools
import gc
import hashlib
import os
import re
import shutil
import sys
import types
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKER = os.environ.get("PYTEST_XDIST_WORKER")

os.environ.setdefault("COMPANION_CHECK_FIGURES", "1")  # also in the kernels that tests start
os.environ.setdefault("COMPANION_PUBLIC_DATA", "1")  # as chapters have it; tests of privacy do not

# Files of 5 seconds of a core or more, longest first.
LONGEST = (
    "book/test_browser.py",
    "book/test_pipeline.py",
    "book/test_parameter_files.py",
    "book/test_site_checks.py",
    "book/test_widgets.py",
    "studies/test_sanity.py",
    "test_contributing.py",
    "book/test_together.py",
    "test_house.py",
    "report/test_report_commands.py",
    "training/test_jobs.py",
    "faults/test_faults_build.py",
    "privacy/test_accounting.py",
    "audit/test_posterior.py",
    "studies/test_audit_studies.py",
    "data/test_images.py",
    "studies/test_six_lenses.py",
    "test_reference.py",
    "runs/test_executors.py",
    "test_wheel.py",
    "faults/test_faults_workers.py",
    "training/test_kernel_objectives.py",
    "runs/test_store.py",
    "test_supply_chain.py",
    "faults/test_determinism.py",
    "data/test_data_cli.py",
    "studies/test_system.py",
    "selective/test_uncertainty.py",
    "studies/test_counterfactual_simulation.py",
    "studies/test_simulation.py",
    "faults/test_faults_disk.py",
    "counterfactual/test_estimate.py",
    "studies/test_suitability_comparisons.py",
    "audit/test_one_run.py",
    "counterfactual/test_forest.py",
    "book/test_numbers.py",
    "book/test_browser.py::second",
)
# What numba compiles for these, a build of the site has compiled, too: they come last.
COMPILING = (
    "report/test_report_abstention.py",
    "training/test_engines.py",
    "report/test_report_analyses.py",
)
# Their builds are forks of one process, which takes two seconds to import what builds do.
FORKING = ("book/test_pipeline.py", "book/test_builders.py")
# Of experiments, trainings and other software: what is left of their folders is fast.
STUDIES = (
    "audit/test_jax_privacy.py",
    "audit/test_planning.py",
    "counterfactual/test_doubleml.py",
    "counterfactual/test_learners.py",
    "privacy/test_accountants.py",
)
FAST = ("audit", "counterfactual", "privacy", "selective", "suitability")
WRITTEN = ("browser", "data", "long")  # marks that the file itself writes, if it has them

if WORKER:
    # Two workers that compile a function for different types at once can mix up numba's index of
    # it. Each has its own; kernels and other processes that it starts inherit it. What it has not
    # compiled and another, or a build, has, it copies before each file.
    os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba" / WORKER))


def adopt(own: Path, others: Iterable[tuple[str, Path]]) -> None:
    """Copy what other numba caches hold of functions that one lacks, by the name of their folder.

    numba writes each file at once, and compiles anew where an index names a file that is not there:
    so the index comes last, and nothing is harmed by what another worker writes meanwhile.
    """
    for name, folder in sorted(others):
        for index in sorted(folder.glob("*.nbi")):
            place = own / name
            if not (place / index.name).exists():
                place.mkdir(parents=True, exist_ok=True)
                for file in [*index.parent.glob(f"{index.stem}.*.nbc"), index]:
                    shutil.copy2(file, place / f"{file.name}.copy")
                    os.replace(place / f"{file.name}.copy", place / file.name)


def compiled_by_others(own: Path) -> Iterable[tuple[str, Path]]:
    """Caches of other workers, and those beside the code, under the names that numba gives them."""
    for folder in own.parent.glob("gw*/*"):
        if folder.parent != own:
            yield folder.name, folder
    for folder in (ROOT / "lib").glob("*/__pycache__"):
        package = folder.parent
        yield f"{package.name}_{hashlib.sha1(str(package).encode()).hexdigest()}", folder


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    own = Path(os.environ.get("NUMBA_CACHE_DIR", ""))
    if WORKER and own == ROOT / ".cache" / "numba" / WORKER:
        adopt(own, compiled_by_others(own))


def pytest_configure(config):
    named = [name.partition("::")[0] for name in LONGEST + COMPILING + FORKING + STUDIES + FAST]
    if gone := [name for name in named if not (ROOT / "tests" / name).exists()]:
        raise pytest.UsageError(f"tests/conftest.py names what is not there: {', '.join(gone)}")
    if config.getoption("numprocesses", None):
        import matplotlib.font_manager  # noqa: F401  # made once, before two workers make it


def is_fast(path: Path) -> bool:
    """Whether a file's tests are fast, but for those that are marked otherwise."""
    if not path.is_relative_to(ROOT / "tests"):
        return False
    name = path.relative_to(ROOT / "tests")
    other = name.as_posix() in LONGEST + STUDIES or name.stem.endswith("figures")
    return name.parts[0] in FAST and not other


@functools.cache
def names(path: Path, mark: str) -> bool:
    """Whether a file writes a mark."""
    return f"mark.{mark}" in path.read_text(encoding="utf-8")


def pytest_ignore_collect(collection_path, config):
    """Where one mark is asked for, files without it need not be imported."""
    mark, path = config.getoption("markexpr"), collection_path
    if not re.fullmatch(r"test_\w+\.py", path.name) or mark not in ("fast", *WRITTEN):
        return None
    return None if (is_fast(path) if mark == "fast" else names(path, mark)) else True


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What was imported and collected stays: no garbage collection need look at it ever again."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def together(nodeid: str) -> str:
    """The name under which tests are one worker's: a file, or the second half of one."""
    file, _, test = nodeid.removeprefix("tests/").partition("::")
    file = FORKING[0] if file in FORKING else file
    half = f"{file}::second"
    return half if "[second-" in test and half in LONGEST else file


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    rank = {name: place for place, name in enumerate((*LONGEST, None, *COMPILING))}
    items.sort(key=lambda item: rank.get(together(item.nodeid), rank[None]))
    for item in items:
        if is_fast(item.path) and not any(map(item.get_closest_marker, ("slow", *WRITTEN))):
            item.add_marker("fast")
        for mark in WRITTEN:
            assert not item.get_closest_marker(mark) or names(item.path, mark), item.nodeid


@pytest.fixture(scope="session")
def program():
    """Makes a module of a script of `.ci`; no bytecode is written beside it."""

    def load(name: str) -> types.ModuleType:
        path, module = ROOT / ".ci" / name, types.ModuleType(f"ci_{name}")
        module.__file__ = str(path)
        exec(compile(path.read_text(encoding="utf-8"), path, "exec"), vars(module))
        return module

    return load


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown():
    result = yield  # after all fixtures; a fixture of its own would be made for each test
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """By file, but halves of a file apart.

    Not by the marker xdist_group: under pytest 9.2 it has no effect in pytest-xdist 3.8.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduler(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return together(nodeid)

    return Scheduler(config, log)

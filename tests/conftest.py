"""Two workers, as `make test` has them: who runs which tests, in which order, and where they part.

A file's tests stay together, because its fixtures are expensive; so do the files that build or read
the real site. What takes longest begins first. Without pytest-xdist only the order is affected.
"""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKER = os.environ.get("PYTEST_XDIST_WORKER")

SITE = ("book/test_browser.py", "book/test_numbers.py")
LONGEST = (
    *SITE,
    "book/test_pipeline.py",
    "book/test_site_checks.py",
    "book/test_widgets.py",
    "report/test_report_analyses.py",
    "lenses/test_lenses.py",
    "test_contributing.py",
    "training/test_engines.py",
    "selective/test_panel.py",
    "training/test_jobs.py",
    "runs/test_executors.py",
    "suitability/test_experiment.py",
    "suitability/test_study_panel.py",
    "data/test_images.py",
)

if WORKER:
    # Two workers that compile a function for different types at once can mix up numba's index of
    # it. Each has its own; kernels and other processes that it starts inherit it.
    os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba" / WORKER))


def pytest_configure(config):
    if config.getoption("numprocesses", None):
        import matplotlib.font_manager  # noqa: F401  # made once, before two workers make it


def pytest_collection_modifyitems(items):
    rank = {f"tests/{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.nodeid.split("::")[0], len(rank)))


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """By file, but the site's files as one.

    Not by the marker xdist_group: under pytest 9.2 it has no effect in pytest-xdist 3.8.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduler(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "site" if file.removeprefix("tests/") in SITE else file

    return Scheduler(config, log)

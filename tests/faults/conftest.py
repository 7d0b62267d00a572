"""Makes the helpers importable, and ends whatever a test has started, even when it fails."""

import sys
import uuid
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "book"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from fault_tools import Forker, Processes  # noqa: E402


def _processes():
    started = Processes(uuid.uuid4().hex)
    yield started
    left = started.finish()
    assert not left, f"left running after the test: {left}"


@pytest.fixture
def processes():
    """Starts processes; what is left of them at the end is killed, and is a failure."""
    yield from _processes()


@pytest.fixture(scope="module")
def module_processes():
    yield from _processes()


@pytest.fixture
def chapters(tmp_path, monkeypatch):
    """A book of one chapter whose execution is given, but for the kernel, by the real code."""
    from fault_disk import Chapters

    monkeypatch.setattr("fault_disk.PLACE", tmp_path)
    monkeypatch.delenv("COMPANION_DATA", raising=False)
    made = Chapters()
    made.start()
    monkeypatch.setattr(made.execute, "_run", made.execute._run)  # put back at the end
    return made


def _forker(module):
    """Forks children that know what a module knows."""

    @pytest.fixture(scope="module")
    def forker(tmp_path_factory):
        started = Forker(module, tmp_path_factory.mktemp(module))
        yield started
        assert not started.close()

    return forker


light = _forker("fault_light")
other_light = _forker("fault_light")
fetcher = _forker("fault_fetch")
other_fetcher = _forker("fault_fetch")
heavy = _forker("fault_heavy")  # PyTorch and the subjects, which take long to load

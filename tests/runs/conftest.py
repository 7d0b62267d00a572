"""Workers import the jobs of these tests by name."""

import contextlib
import os
import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH")]))


@pytest.fixture
def workers_asked(monkeypatch):
    """Local workers that are asked for: jobs, and the most workers. Their work is done here."""
    from lib.runs import executors

    asked = []

    class Noted(contextlib.nullcontext, executors._ThisProcess):
        def __init__(self, *given):
            asked.append(given)

        def __enter__(self):
            return self

    monkeypatch.setattr(executors, "LocalProcesses", Noted)
    return asked

"""Makes the helpers beside the tests importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from site_tools import CHROMIUM, LAUNCH


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return Path(__file__).parents[2]


@pytest.fixture(scope="module")
def browser():
    """Not of the session: while it runs, no test can start an event loop of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=CHROMIUM, args=LAUNCH)
        yield instance
        instance.close()

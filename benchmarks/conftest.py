"""What a run was made under goes with its figures, see `lib.book.benchmarks`."""

import os
import time

import pytest
from threadpoolctl import threadpool_limits

STARTED = time.time()
LOAD = os.getloadavg()[0]


@pytest.fixture(autouse=True)
def _one_thread():
    """One thread for everybody: what is compared is work, not how many cores do it."""
    with threadpool_limits(1):
        yield


def pytest_ignore_collect(collection_path, config):
    """Where one other mark is asked for, nothing here need be imported."""
    mark = config.getoption("markexpr")
    return True if mark.isidentifier() and mark != "bench" else None


def pytest_benchmark_update_json(config, benchmarks, output_json):
    output_json["companion"] = {"load": LOAD, "seconds": time.time() - STARTED}

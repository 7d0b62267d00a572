"""A full disk and a read-only one: one clear error, nothing half-written, and all goes on after."""

import json
import sys

import pytest
from fault_tools import HERE, environment, require_mounts

CASES = ("store", "chapters", "downloads")


@pytest.fixture(scope="module")
def told(module_processes, tmp_path_factory):
    """What every case found on a small full and a small read-only file system."""
    folder = tmp_path_factory.mktemp("disk")
    require_mounts(folder)
    code, output = module_processes.run(
        ["unshare", "--mount", sys.executable, str(HERE / "fault_disk.py"), str(folder), *CASES],
        environment(HERE.parent / "book"),
        seconds=280,
    )
    assert code == 0, output
    found = [json.loads(line) for line in output.splitlines() if line[0] == "{"]
    for each in found:  # the file systems are gone with the process
        assert not list((folder / f"{each['how']}-{each['case']}").iterdir())
    return {(each["how"], each["case"]): each for each in found}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_full_disk_and_a_read_only_one(told, case):
    """All that is finished stays and is read; new work is refused, and goes on with room."""
    full, read_only = told["full", case], told["read-only", case]
    for found in (full, read_only):
        assert not found["error"], found["error"]
    assert int(full["found"].split()[0]) >= 3
    # A chapter's lock is a file: who cannot lock cannot build. No data count as absent.
    words = "refused" if case == "chapters" else "read"
    assert read_only["found"] == f"what is finished is {words}"

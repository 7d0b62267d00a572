"""A full disk and a read-only one: one clear error, nothing half-written, and all goes on after."""

import json
import sys

import pytest
from fault_tools import HERE, environment, require_mounts

CASES = ("store", "spread", "chapters", "downloads", "features")


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
def test_a_full_disk(told, case):
    """All that is finished stays, nothing is half-written, and all goes on when there is room."""
    found = told["full", case]
    assert not found["error"], found["error"]
    assert int(found["found"].split()[0]) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_read_only_disk(told, case):
    """What is finished is read, new work is refused, and nothing is changed."""
    found = told["read-only", case]
    assert not found["error"], found["error"]
    refused = case == "chapters"  # their lock is a file, and who cannot lock cannot build
    assert found["found"].startswith(f"what is finished is {'refused' if refused else 'read'}")


@pytest.mark.slow
def test_a_read_only_cache_is_not_taken_for_a_missing_network(told):
    found = told["read-only", "downloads"]
    assert found["found"]
    assert "absent" not in found["found"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "case"), [(how, case) for how in ("full", "read-only") for case in CASES]
)
def test_the_error_says_what_is_wrong_with_the_disk(told, how, case):
    assert not told[how, case]["unclear"]

import math
import os
import pty
import sys
from pathlib import Path

import pytest

import lib
from lib.runs import code_fingerprint, fingerprint, progress, write_atomic


def test_fingerprint_depends_on_content_alone():
    assert fingerprint({"a": 1, "b": [1.5]}) == fingerprint({"b": [1.5], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    assert fingerprint([1, 2]) != fingerprint([2, 1])
    with pytest.raises(ValueError):
        fingerprint(math.nan)


def test_code_fingerprint_notices_every_file():
    before = code_fingerprint()
    extra = Path(lib.__file__).parent / "book" / "static" / "zz_test.txt"
    try:
        extra.write_text("x")
        with_file = code_fingerprint()
        extra.write_text("y")
        with_other_content = code_fingerprint()
    finally:
        extra.unlink()
    assert len({before, with_file, with_other_content}) == 3
    assert code_fingerprint() == before


def test_write_is_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "file.txt"
    write_atomic(path, "older")
    write_atomic(path, "old ü")
    assert path.read_text(encoding="utf-8") == "old ü"

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, "new")
    assert path.read_text(encoding="utf-8") == "old ü"
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]


def test_progress_in_a_kernel_goes_to_the_terminal_only():
    """Under a pseudo-terminal the bar shows there, and not in the cell's output."""
    assert list(progress(iter("ab"), "x", total=2)) == ["a", "b"]

    code = (
        "import sys, types; sys.modules['ipykernel'] = types.ModuleType('ipykernel');"
        "import IPython; from lib.runs import progress;"
        "print(list(progress(range(3), 'bar')))"
    )
    pid, terminal = pty.fork()
    if pid == 0:  # the child has the pseudo-terminal as its controlling one
        reader, write = os.pipe()
        os.set_inheritable(reader, True)  # a pipe without a reader would end the child
        os.dup2(write, 1)
        os.dup2(write, 2)
        os.execv(sys.executable, [sys.executable, "-c", code])
    seen = b""
    while True:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
    assert os.waitpid(pid, 0)[1] == 0
    assert b"bar" in seen
    assert b"[0, 1, 2]" not in seen

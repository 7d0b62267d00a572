import math
import os
from pathlib import Path

import pytest

import lib
from lib.runs import code_fingerprint, fingerprint, write_atomic


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

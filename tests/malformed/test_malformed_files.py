"""Hostile and malformed files, and the commands that read them: one error, nothing run or made."""

import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lib import data, report
from lib.book.__main__ import main as book_command
from lib.data.__main__ import main as data_command
from lib.report.__main__ import main as report_command

ROOT = Path(__file__).parents[2]
READERS = {"report": report.read_predictions, "pickle": data.read_numpy_pickle}


class Hostile:
    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def npz_of_objects(path, marker):
    np.savez(path, test_logits=np.array([Hostile(marker), 1], dtype=object))


def raw_pickle(path, marker):
    path.write_bytes(pickle.dumps(Hostile(marker), protocol=4))


def lying_npz(path, _):
    np.savez(path, test_logits=np.zeros((2, 2)))
    content = path.read_bytes()
    at = content.rindex(b"PK\x01\x02") + 24
    path.write_bytes(content[:at] + (4_000_000_000).to_bytes(4, "little") + content[at + 4 :])


def huge_shape(path, _):
    header = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 10)}
    np.lib.format.write_array_header_1_0(header, shape)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("test_logits.npy", header.getvalue())


def text(content):
    return lambda path, _: path.write_bytes(content)


#: Reader, file name, how it is made, kind of error, what the message names.
FILES = {
    "NPZ with a program": ("report", "own.npz", npz_of_objects, ValueError, "own.npz"),
    "NPZ that is a pickle": ("report", "own.npz", raw_pickle, ValueError, "own.npz"),
    "CSV that is a pickle": ("report", "own.csv", raw_pickle, ValueError, "own.csv"),
    "pickle with a program": ("pickle", "own.pkl", raw_pickle, data.UnsafePickle, "own.pkl"),
    "empty pickle": ("pickle", "own.pkl", text(b""), ValueError, "own.pkl"),
    "zip bomb": ("report", "own.npz", lying_npz, ValueError, "own.npz"),
    "NPZ of a huge shape": ("report", "own.npz", huge_shape, ValueError, "own.npz"),
    "empty NPZ": ("report", "own.npz", text(b""), ValueError, "own.npz"),
    "empty CSV": ("report", "own.csv", text(b""), ValueError, "own.csv"),
    "no text": ("report", "own.csv", text(b"part\n\xff\xfe\n"), ValueError, "own.csv"),
    "unknown suffix": ("report", "own.yml", text(b"a: 1"), ValueError, "own.yml"),
    "one endless line": ("report", "own.csv", text(b"a," * 260_000), ValueError, "own.csv"),
}


@pytest.mark.parametrize("case", FILES)
def test_malformed_file(case, tmp_path, monkeypatch, capsys):
    reader, name, make, error, named = FILES[case]
    inside = tmp_path / "outer" / "inner"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    make(inside / name, tmp_path / "executed")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(error) as caught:
        READERS[reader](inside / name)
    assert type(caught.value) is error
    assert named in str(caught.value)
    if reader == "report":
        assert report_command([name]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_the_data_command_makes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COMPANION_OFFLINE", "1")
    with pytest.raises(SystemExit) as stopped:
        data_command(["fetch", "../../etc/passwd"])
    assert stopped.value.code
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("arguments", [["record", "../x"], ["nonsense"]])
def test_the_book_command_says_so(arguments, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as stopped:
        book_command(arguments)
    assert stopped.value.code == 2
    assert arguments[-1] in capsys.readouterr().err

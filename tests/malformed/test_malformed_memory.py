"""What a file declares is bounded before it is read: memory, columns, names, members."""

import io
import math
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lib import report
from lib.data import arrays, formats
from lib.data.arrays import FILE_MEMORY, PEAK

ROOT = Path(__file__).parents[2]
MEGABYTE = 1_000_000
RNG = np.random.default_rng(0)
TRIAL = "score_a,abstained_a,score_b,abstained_b"


def peak_of(call, *arguments):
    tracemalloc.start()
    try:
        found = call(*arguments)
    except ValueError as error:
        found = error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak, found


def header(shape, descr):
    stream = io.BytesIO()
    about = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, about)
    return stream.getvalue()


def zeros(path, **shapes):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (shape, descr) in shapes.items():
            left = math.prod(shape) * np.dtype(descr).itemsize
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                stream.write(header(shape, descr))
                while left:
                    left -= stream.write(bytes(min(left, 1 << 22)))
    return path


@pytest.mark.parametrize(
    ("kind", "rows", "names"),
    [("<f8", 2, ["test"]), ("|i1", 4, ["test"]), ("<f8", 1, ["holdout", "test", "user"])],
)
def test_an_archive_that_unpacks_to_too_much_is_refused_unread(
    kind, rows, names, tmp_path, monkeypatch
):
    monkeypatch.setenv(FILE_MEMORY, str(100 * MEGABYTE))
    given = {f"{name}_logits": ((rows * MEGABYTE, 2), kind) for name in names}
    path = zeros(tmp_path / "own.npz", **given)
    assert path.stat().st_size < MEGABYTE / 2
    peak, error = peak_of(report.read_predictions, path)
    assert "at most 25,000,000 bytes" in str(error)
    assert peak < MEGABYTE


def test_no_more_than_half_of_the_free_memory_by_default(tmp_path, monkeypatch):
    monkeypatch.delenv(FILE_MEMORY, raising=False)
    free = type("Memory", (), {"available": 100 * MEGABYTE})
    monkeypatch.setattr(arrays.psutil, "virtual_memory", lambda: free)
    path = zeros(tmp_path / "own.npz", test_logits=((MEGABYTE, 2), "<f8"))
    with pytest.raises(ValueError, match=rf"at most 12,500,000 bytes.*{FILE_MEMORY} sets another"):
        report.read_predictions(path)
    free.available = 10**12
    assert arrays.most_memory()[0] == 4_000_000_000
    assert len(report.read_predictions(path).test_logits) == MEGABYTE


LYING = {
    "rows": header((10**9, 4), "<f8"),
    "words": header((1,), f"<U{10**9 // 4}"),
    "bytes": header((10**15, 2), "|i1"),
    "its own length": b"\x93NUMPY\x02\x00" + (50 * MEGABYTE).to_bytes(4, "little") + b" " * 10**7,
}


@pytest.mark.parametrize("case", LYING)
def test_a_header_that_lies_takes_nothing(case, tmp_path):
    path = tmp_path / "own.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("test_groups.npy", LYING[case])
    peak, error = peak_of(report.read_predictions, path)
    assert isinstance(error, ValueError)
    assert peak < 5 * MEGABYTE


def test_many_members_are_not_listed(tmp_path):
    path = tmp_path / "own.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for k in range(20_000):
            archive.writestr(f"a{k}.npy", b"")
    peak, error = peak_of(report.read_predictions, path)
    assert "found a list of members of 1," in str(error)
    assert peak < MEGABYTE


ROWS = 60_000
DRAWN = RNG.normal(size=(ROWS, 4))
READ = {
    **{kind: {"test_logits": (9 * DRAWN).astype(kind)} for kind in ("f8", "f2", "i1", ">f8")},
    "labels": {"test_labels": RNG.integers(0, 4, ROWS).astype("i1")},
    "one long group": {"test_groups": np.array(["a", "b" * 200])[RNG.integers(0, 2, ROWS)]},
    "flags": {"test_abstained": (RNG.random(ROWS) < 0.5).astype(float)},
    "NaN": {"test_logits": np.full((ROWS, 4), np.nan)},
}


def held_by(found):
    return sum(a.nbytes for a in found.given.values() if isinstance(a, np.ndarray))


@pytest.mark.parametrize("case", READ)
def test_reading_takes_at_most_four_times_the_arrays(case, tmp_path):
    np.savez(tmp_path / "own.npz", **READ[case])
    peak, found = peak_of(report.read_predictions, tmp_path / "own.npz")
    size = sum(max(a.nbytes, 8 * a.size * (a.dtype.kind not in "fU")) for a in READ[case].values())
    if isinstance(found, report.ModelPredictions):
        assert held_by(found) <= size
    assert peak <= PEAK * size + MEGABYTE  # and what code and blocks of rows take


def rows_of(*cells):
    return "".join(",".join(str(each[i % len(each)]) for each in cells) + "\n" for i in range(4000))


TABLES = {
    "logits": ("part,logit_0,logit_1,label\n", rows_of(["test"], [1], [0.5], [0, 1])),
    "a long group": ("part,group,abstained\n", rows_of(["test"], ["a", "b" * 200], [1])),
    "a trial": (f"{TRIAL},x,k\n", rows_of([1], [0], [0], [1], range(4000), ["a", "b"])),
    "a trial of words": (f"{TRIAL},k\n", rows_of([1], [0], [0], [1], [f"k{i}" for i in range(30)])),
}


@pytest.mark.parametrize("case", TABLES)
def test_reading_a_table_does_not_take_more(case, tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("".join(TABLES[case]))
    report.read_predictions(path)  # what the first reading of all needs is not the table's
    peak, found = peak_of(report.read_predictions, path)
    cells = 8 * 4000 * (TABLES[case][0].count(",") + 1)
    assert peak <= PEAK * max(held_by(found), cells) + MEGABYTE / 2


@pytest.mark.parametrize("case", ["logits", "a long group", "a trial of words"])
def test_a_table_stops_at_the_limit(case, tmp_path, monkeypatch):
    """Of many rows, or of few characters where each row is so long."""
    head, rows = TABLES[case]
    (tmp_path / "own.csv").write_text(head + (20 if case == "logits" else 1) * rows)
    monkeypatch.setenv(FILE_MEMORY, str(MEGABYTE))
    peak, error = peak_of(report.read_predictions, tmp_path / "own.csv")
    assert "at most 250,000 bytes" in str(error)
    assert peak < 2 * MEGABYTE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("part" + ",a" * MEGABYTE, "a row of more than 500,000 characters"),
        ('part,"' + "a\n" * MEGABYTE + '"', "must be CSV, got in row 1: .*limit"),
        ("part," + '"a\n",' * MEGABYTE, "a row of more than 500,000 characters"),
        ("part,group,abstained\ntest," + "a" * 100_000 + ",0", "at most 200 characters"),
        ("part,group,abstained\n" + "test,{},0\n" * 3000, "at most 100 different"),
        (f"{TRIAL},{'x' * 100_000}\n1,0,1,0,1\n1,0,1,0", "row 3 must have 5 cells"),
    ],
)
def test_a_row_a_cell_and_a_word_are_bounded(text, said, tmp_path, monkeypatch):
    monkeypatch.setenv(FILE_MEMORY, str(32 * MEGABYTE))
    path = tmp_path / "own.csv"
    path.write_text(text.format(*range(3000)))
    peak, error = peak_of(report.read_predictions, path)
    assert peak < 32 * MEGABYTE
    with pytest.raises(ValueError, match=said):
        raise error
    assert len(str(error)) < 600


def test_features_are_bounded(tmp_path):
    np.savez(tmp_path / "own.npz", test_features=np.zeros((2, 4097)))
    names, row = (",".join(each) for each in ([f"feature_{j}" for j in range(4097)], ["0"] * 4097))
    (tmp_path / "own.csv").write_text(f"part,{names}\ntest,{row}\n")
    (tmp_path / "trial.csv").write_text(f"{TRIAL},{names}\n0,0,0,0,{row}\n")
    for name in ("own.npz", "own.csv", "trial.csv"):
        with pytest.raises(ValueError, match="at most 4,096 columns"):
            report.read_predictions(tmp_path / name)


def packed(path, *members):
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, size, kind in members:
            member = tarfile.TarInfo(name)
            member.size, member.type = size, kind
            archive.addfile(member, io.BytesIO(bytes(size)))
    return path


def read_all(path):
    return [read() for member, read in formats.walk_tar(path) if formats.is_plain_file(member)]


TARS = {
    "a large member": ("a/1.png", tarfile.REGTYPE),
    "a member that is skipped": ("../1.png", tarfile.REGTYPE),
    "a long name": ("n", tarfile.GNUTYPE_LONGNAME),
    "long attributes": ("n", tarfile.XHDTYPE),
}


@pytest.mark.parametrize("case", TARS)
def test_a_tar_that_unpacks_to_too_much(case, tmp_path):
    name, kind = TARS[case]
    path = packed(tmp_path / "own.tar.gz", (name, 20 * MEGABYTE, kind))
    bound = formats.MOST_FACTOR * path.stat().st_size
    assert bound < 18 * MEGABYTE
    peak, found = peak_of(read_all, path)
    assert "at most 100 times" in str(found)
    assert peak < 2 * bound + MEGABYTE


@pytest.mark.parametrize(("limit", "size"), [("MOST_MEMBERS", 2), ("MOST_MEMBER", 6)])
def test_a_tar_of_many_or_large_members_stops(limit, size, tmp_path, monkeypatch):
    monkeypatch.setattr(formats, limit, 5)
    count = 9 if limit == "MOST_MEMBERS" else 1
    members = [(f"{k % 2}/{k}.png", size, tarfile.REGTYPE) for k in range(count)]
    path = packed(tmp_path / "own.tar.gz", *members)
    with pytest.raises(ValueError, match="must have at most 5"):
        read_all(path)

"""Is my model suitable: the files' errors, hostile files, and every number of the report."""

import io
import json
import math
import os
import re
import zipfile
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import softmax
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from lib import data
from lib.report import suitability as module
from lib.report.figures import plot_tipping_point
from lib.report.suitability import (
    Predictions,
    example_predictions,
    printable,
    read_predictions,
    suitability_report,
)
from lib.studies.suitability.data import run_study, wilds_files
from lib.studies.suitability.panel import load_study
from lib.suitability import SIGNAL_NAMES, SuitabilityFilter, labels_test, signals
from lib.suitability.filter import p_text
from lib.suitability.guarantees import (
    adjusted_margin,
    calibration_offset,
    prediction_powered_test,
)
from lib.suitability.power import non_inferiority_power, required_sample_size
from lib.suitability.tipping import FMOW_ERRORS

NAN = math.nan


def drawn(n, seed, strength=2.0, k=3):
    """Logits and labels that they tell, the better the larger the strength."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=n)
    return strength * np.eye(k)[labels] + rng.normal(size=(n, k)), labels


def made(n=(700, 600, 500), strength=2.0, known=100, **changes):
    """Arguments of Predictions; of the user data, the first rows are labelled."""
    arrays = {}
    for i, (part, size) in enumerate(zip(("holdout", "test", "user"), n, strict=True)):
        logits, labels = drawn(size, i, strength if part == "user" else 2.0)
        if part == "user":
            labels = np.where(np.arange(size) < known, labels, -1)
        arrays |= {f"{part}_logits": logits, f"{part}_labels": labels}
    return arrays | changes


SMALL = made((60, 20, 20), known=9)


def npz(folder, arrays=None, name="own.npz", **changes):
    path = folder / name
    arrays = (SMALL if arrays is None else arrays) | changes
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
    return path


def lines_of(arrays):
    rows = []
    for part in ("holdout", "test", "user"):
        labels = arrays.get(f"{part}_labels")
        for i, logits in enumerate(arrays[f"{part}_logits"].tolist()):
            label = "" if labels is None or labels[i] < 0 else labels[i]
            rows.append(",".join(map(str, [part, label, *logits])))
    return rows


HEADER = "part,label,logit_0,logit_1,logit_2"
LINES = lines_of(SMALL)


def csv_file(folder, lines=LINES, header=HEADER, **options):
    path = folder / "own.csv"
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8", **options)
    return path


def changed(line, text):
    """The rows with another one at a line of the file."""
    return [*LINES[: line - 2], text, *LINES[line - 1 :]]


def spoilt(name, where, value, dtype=float):
    array = SMALL[name].astype(dtype)
    array[where] = value
    return {name: array}


@pytest.fixture(scope="module")
def predictions():
    return Predictions(**made(strength=1.9))


@pytest.fixture(scope="module")
def report(predictions):
    return suitability_report(predictions, margin=0.08)


def look_up(table, item, column="value"):
    (row,) = table.index[table["item"] == item]
    return table.loc[row, column]


# --- files that are as they should be -------------------------------------------------------------


def test_npz_is_read_as_written(tmp_path):
    path = npz(tmp_path)
    found = read_predictions(str(path))
    assert found.source == str(path)
    for name, array in SMALL.items():
        np.testing.assert_array_equal(getattr(found, name), array)
        assert not getattr(found, name).flags.writeable
    assert found.user_labels.dtype == np.int64
    correct, labelled = found.correct("user")
    np.testing.assert_array_equal(labelled, np.arange(20) < 9)
    winners = SMALL["user_logits"].argmax(axis=1)[:9]
    np.testing.assert_array_equal(correct, winners == SMALL["user_labels"][:9])


@pytest.mark.parametrize("none", [None, np.full(20, -1), np.full(20, NAN)])
def test_no_known_label_is_none(tmp_path, none):
    found = read_predictions(npz(tmp_path, test_labels=none, user_labels=none))
    assert found.test_labels is None
    assert found.user_labels is None
    assert found.correct("test")[0].shape == (0,)


def test_precision_and_compression_are_kept(tmp_path):
    path = tmp_path / "own.NPZ"
    narrow = SMALL | {"user_logits": SMALL["user_logits"].astype(">f4").T.copy().T}
    with path.open("wb") as stream:
        np.savez_compressed(stream, **narrow)
    found = read_predictions(path)
    assert found.user_logits.dtype == np.float32
    assert found.user_logits.dtype.isnative
    assert found.user_logits.flags.c_contiguous
    np.testing.assert_array_equal(found.user_logits, narrow["user_logits"])
    assert found.test_logits.dtype == np.float64


def test_nan_and_minus_one_mean_unknown(tmp_path):
    labels = SMALL["user_labels"].astype(float)
    labels[::2] = NAN
    found = read_predictions(npz(tmp_path, user_labels=labels))
    np.testing.assert_array_equal(found.user_labels[::2], -1)
    np.testing.assert_array_equal(found.user_labels[1::2], SMALL["user_labels"][1::2])


def test_csv_is_lenient_where_no_harm_is_done(tmp_path):
    """Order of columns and parts, blank lines, white space, labels as pandas writes them."""
    rows = []
    for line in reversed(LINES):
        part, label, *logits = line.split(",")
        label = f" {label}.0 " if label else "NaN" if part == "user" else ""
        rows += [",".join([logits[2], f'"{part}"', logits[0], label, f" {logits[1]}"]), " ,,,,"]
    path = csv_file(tmp_path, rows, "\ufefflogit_2, part,logit_0,label,logit_1")
    found = read_predictions(path)
    for name, array in SMALL.items():
        np.testing.assert_array_equal(getattr(found, name), array[::-1])


@pytest.mark.parametrize("seed", [0, 3])
def test_example_is_the_same_in_both_formats(tmp_path, seed):
    paths = [
        example_predictions(tmp_path / f"e.{kind}", kind, seed=seed) for kind in ("npz", "csv")
    ]
    again = example_predictions(tmp_path / "f.npz", seed=seed)
    assert again.read_bytes() == paths[0].read_bytes()
    first, second = (suitability_report(read_predictions(path), margin=0.05) for path in paths)
    for table in ("summary", "moved", "calibration"):
        pd.testing.assert_frame_equal(
            getattr(first, table), getattr(second, table), check_exact=True
        )
    assert first.decision == second.decision
    assert first.verdict == second.verdict
    assert first.warnings == second.warnings
    assert look_up(first.summary, "labelled user rows") == 120
    # Blur moves the signals of real images.
    assert first.moved["moved"].iloc[0]


def test_examples_differ_by_seed(tmp_path):
    a, b = (read_predictions(example_predictions(tmp_path / "a.npz", seed=s)) for s in (0, 1))
    assert not np.array_equal(a.test_logits, b.test_logits)
    with pytest.raises(ValueError, match="kind must be npz or csv, got 'xls'"):
        example_predictions(tmp_path / "a.xls", "xls", seed=0)


# --- files that are not ---------------------------------------------------------------------------

NPZ_ERRORS = [
    ({"holdout_logits": None}, "array 'holdout_logits' must be there, got holdout_labels, test"),
    ({"holdout_labels": None}, "array 'holdout_labels' must be there"),
    ({"test_logits": None}, "array 'test_logits' must be there"),
    ({"user_logits": None}, "array 'user_logits' must be there"),
    ({"users": np.ones(3)}, "arrays must be of holdout_logits, .*, user_labels, got users.npy"),
    ({"../user_labels": np.ones(3)}, "arrays must be of .*got ../user_labels.npy"),
    ({"user_logits": np.ones(20)}, r"user_logits must be real.*got float64 of shape \(20,\)"),
    ({"user_logits": np.ones((20, 3, 1))}, r"user_logits must be real.*of shape \(20, 3, 1\)"),
    ({"user_logits": np.float64(1)}, r"user_logits must be real.*of shape \(\)"),
    ({"user_logits": np.ones((0, 3))}, r"'user_logits' must have rows and columns, got \(0, 3\)"),
    ({"user_logits": np.ones((20, 4))}, "user_logits must have 3 columns, as holdout_lo.*got 4"),
    ({"test_logits": np.ones((20, 2))}, "test_logits must have 3 columns, as holdout_lo.*got 2"),
    ({"holdout_logits": np.ones((60, 1))}, "holdout_logits must have at least 2 columns.*got 1"),
    ({"user_logits": np.ones((1, 3)), "user_labels": None}, "user_logits .* 2 rows, got 1"),
    ({"test_logits": np.ones((1, 3)), "test_labels": None}, "test_logits .* 2 rows, got 1"),
    ({"user_logits": np.ones((20, 3), bool)}, "user_logits must be real numbers.*got bool"),
    ({"user_logits": np.ones((20, 3), complex)}, "'user_logits' must be real.*got complex128"),
    ({"user_logits": np.full((20, 3), "1")}, "'user_logits' must be real numbers, got <U1"),
    ({"user_logits": np.zeros(20, "f8,f8,f8")}, "'user_logits' must be real numbers, got .*f0"),
    (spoilt("user_logits", (7, 1), NAN), "user_logits must be finite, got nan in row 7, column 1"),
    (spoilt("test_logits", (2, 0), np.inf), "test_logits must be finite, got inf in row 2, col"),
    (spoilt("test_logits", (2, 0), -1e200), r"test_logits must be at most 1e\+150 .*got 1e\+200"),
    ({"holdout_labels": SMALL["holdout_labels"][:9]}, r"holdout_labels .*\(60,\).*got \(9,\)"),
    ({"user_labels": np.ones((20, 1), int)}, r"user_labels must have shape \(20,\)"),
    ({"user_labels": np.full(20, "1")}, "array 'user_labels' must be real numbers, got <U1"),
    ({"user_labels": np.ones(20, bool)}, "user_labels must be integers from 0 to 2.*got bool"),
    (spoilt("holdout_labels", 4, 3, int), "holdout_labels .*from 0 to 2, got 3 in row 4 .1 such"),
    (spoilt("holdout_labels", 4, -1, int), "holdout_labels .*from 0 to 2, got -1 in row 4"),
    (spoilt("holdout_labels", 4, NAN), "holdout_labels .*from 0 to 2, got nan in row 4"),
    (spoilt("test_labels", 5, 0.5), "test_labels .*-1 or NaN where unknown, got 0.5 in row 5"),
    (spoilt("user_labels", slice(3, 5), -2, int), "user_labels .*got -2 in row 3 .2 such values"),
    (spoilt("user_labels", 3, np.inf), "user_labels must be .*got inf in row 3"),
    (
        {"holdout_labels": SMALL["holdout_logits"].argmax(axis=1)},
        "holdout_labels must make at least 5 .*got 60 right and 0 wrong",
    ),
    (
        {"holdout_labels": (SMALL["holdout_logits"].argmax(axis=1) + 1) % 3},
        "holdout_labels must make at least 5 .*got 0 right and 60 wrong",
    ),
]


@pytest.mark.parametrize(("changes", "message"), NPZ_ERRORS)
def test_malformed_npz(tmp_path, changes, message):
    path = npz(tmp_path, **changes)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}: .*{message}"):
        read_predictions(path)


def cell(line, column, text):
    cells = LINES[line - 2].split(",")
    cells[HEADER.split(",").index(column)] = text
    return changed(line, ",".join(cells))


CSV_ERRORS = [
    ([], "", "must have a header and rows, got an empty file"),
    (LINES, "label,logit_0,logit_1", "column 'part' must be there, got 'label', 'logit_0'"),
    (LINES, "part,logit_0,logit_1", "column 'label' must be there"),
    (LINES, "part,label,logit_1,logit_2", "column 'logit_0' must be there"),
    (LINES, "part,label,logit_0", "column 'logit_1' must be there"),
    (LINES, "part,label,logit_0,logit_1,logit_3", "column 'logit_2' must be there, as there are 3"),
    (LINES, HEADER.replace(",", ";"), "separate cells by commas, not semicolons"),
    (LINES, f"{HEADER},weight", "columns must be 'part', 'label' and 'logit_0'.*got 'weight'"),
    (LINES, f"{HEADER},logit_03", "columns must be .*got 'logit_03'"),
    (LINES, f",{HEADER}", "columns must be .*got ''.*index=False leaves it out"),
    (LINES, f"{HEADER},label", "column 'label' must be there once, got it 2 times"),
    (LINES, f"{HEADER},logit_1", "column 'logit_1' must be there once, got it 2 times"),
    (changed(5, "holdout,1,2,3"), HEADER, "row 5 must have 5 cells, as the header has, got 4"),
    (changed(5, "holdout,1,2,3,4,5"), HEADER, "row 5 must have 5 cells.*got 6"),
    (cell(6, "part", "train"), HEADER, "'part' must be one of holdout, test, user, got 'train' in"),
    (cell(6, "part", "Holdout"), HEADER, "'part' must be one of.*got 'Holdout' in row 6"),
    (cell(7, "label", ""), HEADER, "'label' must be a class from 0 to 2, in the holdout.*got '' "),
    (cell(7, "label", "-1"), HEADER, "'label' must be .*the holdout part, got '-1' in row 7"),
    (cell(7, "label", "cat"), HEADER, "'label' must be a class from 0 to 2.*got 'cat' in row 7"),
    (
        cell(70, "label", "3"),
        HEADER,
        "from 0 to 2, or empty where unknown.*test.*got '3' in row 70",
    ),
    (cell(70, "label", "1.5"), HEADER, "'label' must be .*got '1.5' in row 70"),
    (cell(70, "label", "1_0"), HEADER, "'label' must be .*got '1_0' in row 70"),
    (cell(70, "label", "inf"), HEADER, "'label' must be .*got 'inf' in row 70"),
    (cell(99, "logit_2", ""), HEADER, "'logit_2' must be a finite number.*got '' in row 99"),
    (cell(99, "logit_2", "nan"), HEADER, "'logit_2' must be a finite number.*got 'nan' in row 99"),
    (cell(99, "logit_2", "-inf"), HEADER, "'logit_2' must be .*got '-inf' in row 99"),
    (cell(99, "logit_2", "1e151"), HEADER, r"at most 1e\+150 in size, got '1e151' in row 99"),
    (cell(99, "logit_2", "1_000"), HEADER, "'logit_2' must be .*got '1_000' in row 99"),
    (cell(99, "logit_2", "x" * 500), HEADER, r"got 'x{99}\.\.\. in row 99"),
    (cell(8, "logit_1", '"1'), HEADER, "must be CSV, got in row 8: unexpected end of data"),
    (["", "", *LINES[:3], "holdout,1,2,3"], HEADER, "row 7 must have 5 cells"),
    (LINES[:60], HEADER, "there must be rows of the part 'test', got none"),
    (LINES[:80], HEADER, "there must be rows of the part 'user', got none"),
    (LINES[60:], HEADER, "there must be rows of the part 'holdout', got none"),
    (LINES[:81], HEADER, "user_logits must have at least 2 rows, got 1"),
    ([*LINES[:3], *LINES[60:]], HEADER, "holdout_labels must make at least 5 predictions right"),
]


@pytest.mark.parametrize(("lines", "header", "message"), CSV_ERRORS)
def test_malformed_csv(tmp_path, lines, header, message):
    path = csv_file(tmp_path, lines, header)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}: .*{message}"):
        read_predictions(path)


def test_csv_that_is_not_utf8(tmp_path):
    path = csv_file(tmp_path)
    path.write_bytes(path.read_bytes() + b"user,,1,2,\xff\n")
    with pytest.raises(ValueError, match=r"own.csv: must be text in UTF-8, got byte 0xff after"):
        read_predictions(path)


def test_paths(tmp_path):
    with pytest.raises(TypeError, match="path must be a path, got int"):
        read_predictions(3)
    with pytest.raises(ValueError, match=r"path must end in .npz or .csv, got .*own.npy"):
        read_predictions(tmp_path / "own.npy")
    with pytest.raises(FileNotFoundError, match=r"own.csv, which does not exist"):
        read_predictions(tmp_path / "own.csv")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(ValueError, match=r"folder.npz, which is not one"):
        read_predictions(tmp_path / "folder.npz")


# --- hostile files --------------------------------------------------------------------------------


class Touch:
    """What a pickle can do."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_pickled_objects_are_never_loaded(tmp_path):
    target = tmp_path / "executed"
    objects = np.array([Touch(target)] * 20, dtype=object)
    path = npz(tmp_path, user_labels=objects)
    with pytest.raises(ValueError, match=r"'user_labels' must be .*got object, which would hav"):
        read_predictions(path)
    assert not target.exists()
    np.load(path, allow_pickle=True)["user_labels"]  # the trap is a real one
    assert target.exists()


def member(content, name="user_labels.npy", *, drop=("user_labels",), method=zipfile.ZIP_DEFLATED):
    """An NPZ file, one member of which is made by hand."""
    buffer = io.BytesIO()
    np.savez(buffer, **{key: value for key, value in SMALL.items() if key not in drop})
    with zipfile.ZipFile(buffer, "a", method) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def head(text, version=b"\x01\x00"):
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text.encode()


def described(shape, descr="'<i8'"):
    return head(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n")


HOSTILE = [
    (described((10**12,)) + bytes(160), "must have the .* bytes that its shape .*int64 takes"),
    (described((20,)) + bytes(152), "must have the 2.. bytes"),
    (described((20,)) + bytes(168), "must have the 2.. bytes"),
    (described((-20,)) + bytes(160), r"must have rows and columns, got \(-20,\)"),
    (described((10**40, 0)), "must have rows and columns"),
    (described((10**30,), "'|S0'"), r"must be real numbers, got \|S0"),
    (described((20,), "'|O'") + b"cos\nsystem\n", "got object, which would have to be unpickled"),
    (described((20,), "[('a', '|O')]"), "got .*, which would have to be unpickled"),
    (head("(" * 9000 + "\n"), "must be in NumPy's format"),
    (head("__import__('os').abort()\n"), "must be in NumPy's format"),
    (head("{}\n"), "must be in NumPy's format"),
    (head("{}\n", b"\x09\x00"), "must be in NumPy's format"),
    (b"", "must be in NumPy's format"),
    (b"\x93NUMPY\x01\x00\xff\xff{", "must be in NumPy's format"),
    (b"PK\x03\x04", "must be in NumPy's format"),
]


@pytest.mark.parametrize(("content", "message"), HOSTILE)
def test_hostile_arrays(tmp_path, content, message):
    path = tmp_path / "own.npz"
    path.write_bytes(member(content))
    with pytest.raises(ValueError, match=f"own.npz: array 'user_labels' .*{message}"):
        read_predictions(path)


def test_archives_that_numpy_does_not_write(tmp_path):
    path = tmp_path / "own.npz"
    array = described((20,)) + bytes(160)
    for content, message in (
        (member(array, "user_labels"), "arrays must be of .*got user_labels$"),
        (member(array, "notes.txt"), "arrays must be of .*got notes.txt"),
        (member(array, method=zipfile.ZIP_LZMA), "must be stored or deflated.*got compression 14"),
        (b"no archive", "expected an NPZ file, found damage: File is not a zip file"),
        (b"", "expected an NPZ file, found damage"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_predictions(path)
    with pytest.warns(UserWarning, match="Duplicate name"):
        path.write_bytes(member(array, drop=()))
    with pytest.raises(ValueError, match="array 'user_labels' must be there once"):
        read_predictions(path)


def outcome(path):
    try:
        return read_predictions(path)
    except ValueError as error:
        return str(error)


def test_damage_anywhere_is_a_clear_error(tmp_path):
    """One byte changed, at many places: what was written, or an error that names the file."""
    content = npz(tmp_path).read_bytes()
    path = tmp_path / "damaged.npz"
    clear = 0
    for place in range(0, len(content), 17):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        found = outcome(path)
        if isinstance(found, str):
            assert found.startswith(str(path)), found
            clear += 1
        else:
            for name, array in SMALL.items():
                np.testing.assert_array_equal(getattr(found, name), array)
    assert clear > len(content) / 17 / 2
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=re.escape(str(path))):
            read_predictions(path)


def test_zip_bomb_is_refused_by_what_it_declares(tmp_path):
    """A megabyte of zeros takes a kilobyte; so would gigabytes, and they need not be there."""
    path = tmp_path / "own.npz"
    content = member(described((20,)) + bytes(1 << 20))
    assert len(content) < 10_000
    # The last entry of the directory is that of the member; its size is 24 bytes in.
    at = content.rindex(b"PK\x01\x02") + 24
    declared = (4_000_000_000).to_bytes(4, "little")
    path.write_bytes(content[:at] + declared + content[at + 4 :])
    with pytest.raises(ValueError, match=r"own.npz: its arrays must have at most 2,000,000,000 by"):
        read_predictions(path)


def test_a_size_that_is_declared_too_small_does_not_help(tmp_path):
    path = tmp_path / "own.npz"
    array = described((20,)) + bytes(160)
    content = member(array + bytes(1 << 20))
    at = content.rindex(b"PK\x01\x02") + 24
    path.write_bytes(content[:at] + len(array).to_bytes(4, "little") + content[at + 4 :])
    with pytest.raises(ValueError, match=r"own.npz: expected an NPZ file, found damage: Bad CRC"):
        read_predictions(path)


def test_limit_of_size(tmp_path, monkeypatch):
    paths = npz(tmp_path), csv_file(tmp_path)
    with zipfile.ZipFile(paths[0]) as archive:
        sizes = sum(info.file_size for info in archive.infolist()), paths[1].stat().st_size
    for path, size in zip(paths, sizes, strict=True):
        monkeypatch.setattr(module, "MOST_BYTES", size)
        read_predictions(path)
        monkeypatch.setattr(module, "MOST_BYTES", size - 1)
        with pytest.raises(ValueError, match=f"{size - 1:,} bytes, uncompressed, got {size:,}"):
            read_predictions(path)


# --- the report -----------------------------------------------------------------------------------


def by_hand(predictions, margin, alpha=0.05):
    tables = {p: signals(getattr(predictions, f"{p}_logits")) for p in ("holdout", "test", "user")}
    correct = predictions.holdout_logits.argmax(axis=1) == predictions.holdout_labels
    fitted = SuitabilityFilter(margin, alpha).fit(tables["holdout"], correct)
    return fitted, tables


@pytest.mark.parametrize("margin", [-0.1, 0.0, 0.02, 0.05])
@pytest.mark.parametrize("alpha", [0.01, 0.3])
def test_decision_is_the_filters_and_the_interval_agrees(predictions, margin, alpha):
    fitted, tables = by_hand(predictions, margin, alpha)
    found = suitability_report(predictions, margin=margin, alpha=alpha)
    assert found.decision == fitted.decide(tables["test"], tables["user"])
    high = look_up(found.summary, "estimated drop (test minus user)", "high")
    assert (high <= margin) == found.decision.suitable
    assert found.level == 1 - 2 * alpha
    said = "SUITABLE" if found.decision.suitable else "INCONCLUSIVE"
    assert (found.tipping >= 0) == found.decision.suitable
    if found.decision.suitable and found.moved["moved"].any() and not found.suitable_by_labels:
        said = "UNCONFIRMED: by the estimates alone SUITABLE"
    if found.unsuitable_by_labels:
        said = "UNSUITABLE by the labelled user rows"
    assert found.verdict.startswith(said)
    assert ("with a margin of" in " ".join(found.warnings)) == (margin <= 0)


def test_summary(predictions, report):
    fitted, tables = by_hand(predictions, 0.08)
    test, user = fitted.estimate(tables["test"]), fitted.estimate(tables["user"])
    for item, value in (
        ("holdout rows", 700),
        ("test rows", 600),
        ("labelled test rows", 600),
        ("user rows", 500),
        ("labelled user rows", 100),
        ("margin", 0.08),
        ("p-value", report.decision.p_value),
    ):
        assert look_up(report.summary, item) == value
    for part, labelled in (("holdout", 700), ("test", 600), ("user", 100)):
        logits = getattr(predictions, f"{part}_logits")[:labelled]
        right = (logits.argmax(axis=1) == getattr(predictions, f"{part}_labels")[:labelled]).sum()
        item = f"accuracy on labelled {part} rows"
        assert look_up(report.summary, item) == right / labelled
        ends = [look_up(report.summary, item, end) for end in ("low", "high")]
        np.testing.assert_allclose(ends, proportion_confint(right, labelled, 0.1, "beta"))
    for part, values in (("test", test), ("user", user)):
        item = f"estimated {part} accuracy"
        ends = [look_up(report.summary, item, end) for end in ("low", "high")]
        np.testing.assert_allclose(ends, DescrStatsW(values).tconfint_mean(0.1), rtol=1e-12)
    item = "estimated drop (test minus user)"
    ends = [look_up(report.summary, item, end) for end in ("low", "high")]
    decision = report.decision
    drop = test.mean() - user.mean()
    half = stats.norm.isf(0.05) * decision.stderr
    np.testing.assert_allclose(ends, [drop - half, drop + half], rtol=1e-10)
    assert report.tipping == pytest.approx(0.08 - drop - half)
    sampled = stats.sem(test) ** 2 + stats.sem(user) ** 2
    assert decision.stderr**2 > 1.05 * sampled  # the error of the fit
    # No less than without that error, which the power knows too.
    sd = test.std(ddof=1), user.std(ddof=1)
    assert report.power < non_inferiority_power(600, 500, 0, *sd, 0.08)
    assert report.required >= required_sample_size(*sd, margin=0.08, n_test=600).n_user
    paper = SuitabilityFilter(0.08, test="paper").fit(
        tables["holdout"], predictions.correct("holdout")[0]
    )
    item = "p-value of the paper's test (leaves out the error of the fit)"
    by_paper = paper.decide(tables["test"], tables["user"]).p_value
    assert look_up(report.summary, item) == by_paper < decision.p_value
    assert look_up(report.summary, "user rows for a power of 0.8") == report.required
    assert look_up(report.summary, "power if equally accurate") == report.power


def test_more_power_takes_more_rows(predictions):
    sizes = [
        suitability_report(predictions, margin=0.08, power=power).required
        for power in (0.2, 0.5, 0.9)
    ]
    assert sizes == sorted(set(sizes))


def test_moved_is_scipys(predictions, report):
    test, user = signals(predictions.test_logits), signals(predictions.user_logits)
    assert sorted(report.moved["signal"]) == sorted(SIGNAL_NAMES)
    for row in report.moved.itertuples():
        a, b = test[row.signal], user[row.signal]
        expected = stats.ks_2samp(a, b)
        assert (row.ks, row.p_value) == (expected.statistic, expected.pvalue)
        assert (row.test_mean, row.user_mean) == pytest.approx((a.mean(), b.mean()), rel=1e-12)
        pooled = math.sqrt((a.var() + b.var()) / 2)
        assert row.difference == pytest.approx((b.mean() - a.mean()) / pooled, rel=1e-9)
    reject, adjusted, *_ = multipletests(report.moved["p_value"], 0.05, "holm")
    np.testing.assert_allclose(report.moved["p_holm"], adjusted, rtol=1e-12)
    np.testing.assert_array_equal(report.moved["moved"], reject)
    assert (np.diff(report.moved["difference"].abs()) <= 0).all()


def test_what_moved_and_what_did_not():
    """Logits shifted by a constant: probabilities are as they were, the sizes are not."""
    arrays = made()
    arrays["user_logits"] = arrays["user_logits"] + 1.5
    found = suitability_report(Predictions(**arrays), margin=0.1).moved.set_index("signal")
    assert set(found.index[found["moved"]]) == {"logit_mean", "logit_max", "energy"}
    assert found.index[0] == "logit_mean"
    assert found.loc["logit_mean", "difference"] == pytest.approx(1.5 * math.sqrt(3), abs=0.3)
    assert found.loc["energy", "difference"] < 0


def test_constant_signals_have_not_moved():
    """Logits that sum to zero: the mean is rounding error; and constants that differ."""
    arrays = made()
    for part in ("holdout", "test", "user"):
        logits = arrays[f"{part}_logits"]
        arrays[f"{part}_logits"] = logits - logits.mean(axis=1, keepdims=True)
    row = suitability_report(Predictions(**arrays), margin=0.1).moved.set_index("signal")
    assert row.loc["logit_mean", ["difference", "ks", "p_value"]].tolist() == [0, 0, 1]
    same = {f"{part}_logits": np.tile([1.0, 0, 0], (500, 1)) for part in ("test", "user")}
    arrays |= same | {"test_labels": None, "user_labels": None}
    found = suitability_report(Predictions(**arrays), margin=0.1)
    assert (found.moved["difference"] == 0).all()
    assert not found.moved["moved"].any()
    assert found.decision.suitable  # without any variance
    assert math.isnan(found.decision.dof)
    assert (found.power, found.required) == (1.0, 2)
    item = "estimated drop (test minus user)"
    assert [look_up(found.summary, item, end) for end in ("low", "high")] == [0, 0]
    arrays["user_logits"] = np.tile([1.1, 0, 0], (500, 1))
    moved = suitability_report(Predictions(**arrays), margin=0.1).moved
    assert moved["moved"].all()
    assert np.isinf(moved["difference"]).all()


def test_signals_that_differ_by_rounding_alone_have_not_moved():
    tables = [
        pd.DataFrame({name: np.full(50, value) for name in SIGNAL_NAMES})
        for value in (0.1 + 0.2, 0.3)
    ]
    moved = module._moved(*tables, 0.05)
    assert (moved[["difference", "ks"]] == 0).all(axis=None)
    assert (moved["p_value"] == 1).all()


def test_estimates_that_vary_by_rounding_alone(predictions):
    """Their computed deviation is 1e-17 on some processors: there are no degrees of freedom."""
    values = np.random.default_rng(0).random(1000)
    value = next(v for v in values if np.full(500, v).std(ddof=1) > 0)
    estimated = {part: np.full(500, value) for part in ("test", "user")}
    decision = module._decide(estimated, 0.1, 0.05)
    assert math.isnan(decision.dof)
    rows = {row[0]: row[1:] for row in module._summary(predictions, estimated, decision, 0.5)}
    assert rows["estimated drop (test minus user)"] == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)


def test_calibration(predictions, report):
    fitted, tables = by_hand(predictions, 0.08)
    test, user = fitted.estimate(tables["test"]), fitted.estimate(tables["user"])
    right = predictions.test_logits.argmax(axis=1) == predictions.test_labels
    user_right = predictions.user_logits[:100].argmax(axis=1) == predictions.user_labels[:100]
    table = report.calibration
    for part, e, c in (("test", test, right), ("user", user[:100], user_right)):
        item, offset = f"Delta_{part} (estimated minus true)", calibration_offset(e, c)
        assert look_up(table, item) == offset.value
        assert look_up(table, item, "stderr") == offset.stderr
        ends = [look_up(table, item, end) for end in ("low", "high")]
        np.testing.assert_allclose(ends, DescrStatsW(e - c).tconfint_mean(0.1), rtol=1e-9)
        assert look_up(table, f"estimated accuracy on labelled {part} rows") == e.mean()
        assert look_up(table, f"accuracy on labelled {part} rows") == c.mean()
    margin = adjusted_margin(0.08, test, right, user[:100], user_right, level=0.025)
    assert look_up(table, "adjusted margin") == margin.value
    assert look_up(table, "adjusted margin", "low") == margin.bound
    item = "p-value with the adjusted margin (does not keep alpha)"
    # Given the estimator: its error is in the margin.
    expected = stats.ttest_ind(test, user + margin.value, equal_var=False, alternative="less")
    assert look_up(table, item) == pytest.approx(expected.pvalue, rel=1e-9)
    expected = stats.ttest_ind(test, user + margin.bound, equal_var=False, alternative="less")
    assert report.adjusted.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert (report.adjusted.margin, report.adjusted.alpha) == (margin.bound, 0.025)
    powered = prediction_powered_test(right, user[100:], user[:100], user_right, 0.08)
    assert report.powered == powered
    alone = labels_test(right, user_right, 0.08)
    assert report.suitable_by_labels == (alone.suitable_p <= 0.05)
    assert report.unsuitable_by_labels == (alone.unsuitable_p <= 0.05)
    assert look_up(table, "p-value of the labels alone (exact)") == alone.suitable_p
    item = "prediction-powered drop"
    assert look_up(table, item) == pytest.approx(right.mean() - powered.user_accuracy)
    high = look_up(table, item, "high")
    assert (high <= 0.08) == (powered.p_value <= 0.05)


def test_all_user_rows_labelled():
    """Nothing is left to predict."""
    predictions = Predictions(**made(known=500))
    found = suitability_report(predictions, margin=0.08)
    expected = labels_test(*(predictions.correct(part)[0] for part in ("test", "user")), 0.08)
    item = "p-value of the labels alone (exact)"
    assert look_up(found.calibration, item) == expected.suitable_p
    assert found.powered is None
    assert found.suitable_by_labels == (expected.suitable_p <= 0.05)
    assert found.unsuitable_by_labels == (expected.unsuitable_p <= 0.05)


def test_three_right_labels_decide_nothing():
    arrays = made(known=0)
    right = np.flatnonzero(arrays["user_logits"].argmax(axis=1) == drawn(500, 2)[1])[:3]
    arrays["user_labels"] = np.full(500, -1)
    arrays["user_labels"][right] = drawn(500, 2)[1][right]
    found = suitability_report(Predictions(**arrays), margin=0.05)
    assert not found.unsuitable_by_labels
    assert not found.suitable_by_labels
    assert "UNSUITABLE" not in found.verdict


def test_signals_that_moved_and_the_tipping_point_are_in_the_verdict():
    """One logit shifted: estimates stay high, and the verdict says why that is doubtful."""
    arrays = made(user_labels=None)
    arrays["user_logits"] = arrays["user_logits"] * 1.3
    found = suitability_report(Predictions(**arrays), margin=0.05)
    assert found.decision.suitable
    assert found.verdict.startswith("UNCONFIRMED: by the estimates alone SUITABLE")
    moved = found.moved.loc[found.moved["moved"], "signal"]
    assert ", ".join(moved) in found.verdict
    assert f"by more than {found.tipping:.3f}" in found.verdict
    turned = sum(error > found.tipping for error in FMOW_ERRORS)
    assert f"in {turned} of {len(FMOW_ERRORS)} folds" in found.verdict
    assert "p < 0.001" in found.verdict
    figure = plot_tipping_point(found.tipping)
    counts = [sum(bar.get_height() for bar in part) for part in figure.axes[0].containers]
    assert counts == [len(FMOW_ERRORS) - turned, turned]


def test_no_small_p_value_is_printed():
    arrays = made(user_labels=None)
    arrays["user_logits"] = arrays["user_logits"] * 1.3
    found = suitability_report(Predictions(**arrays), margin=0.05)
    moved, summary = printable(found.moved), printable(found.summary)
    assert (found.moved["p_holm"] < 1e-4).any()
    assert (moved.loc[found.moved["p_holm"] < 0.001, "p_holm"] == "< 0.001").all()
    assert look_up(summary, "p-value") == "< 0.001"
    assert look_up(summary, "test rows") == "600"


@pytest.mark.slow
def test_fmow_errors_are_those_of_the_authors_signals():
    if not all(data.available(name) for name in wilds_files(["fmow"], (0, 1, 2), ["ERM"])):
        pytest.skip("the authors' signals of FMoW are not here")
    errors = []
    for seed in (0, 1, 2):
        table = run_study(load_study("fmow", seed=seed), 15, 32, 0.0)
        table = table[table["kind"] == "OOD"]
        error = {
            part: table[f"estimated_{part}_accuracy"] - table[f"{part}_accuracy"]
            for part in ("test", "user")
        }
        difference = error["user"] - error["test"]
        errors += difference.groupby(table["user_fold"]).mean().tolist()
    np.testing.assert_allclose(sorted(errors), FMOW_ERRORS, atol=5.1e-5)


@pytest.mark.parametrize(
    ("changes", "items"),
    [
        ({"test_labels": None, "user_labels": None}, []),
        ({"user_labels": None}, ["test"]),
        ({"test_labels": None}, ["user"]),
        ({"user_labels": np.where(np.arange(500) == 7, 1, -1)}, ["test"]),  # one is none
    ],
)
def test_missing_labels(changes, items):
    found = suitability_report(Predictions(**made(**changes)), margin=0.08)
    deltas = [item for item in found.calibration["item"] if item.startswith("Delta")]
    assert deltas == [f"Delta_{part} (estimated minus true)" for part in items]
    assert (found.adjusted, found.powered, found.suitable_by_labels) == (None, None, None)
    assert found.unsuitable_by_labels is None
    missing = {"test", "user"} - set(items)
    assert {p for p in ("test", "user") if f"without labels of the {p}" in str(found.warnings)} == (
        missing
    )
    assert found.calibration.shape[1] == 5


@pytest.fixture(scope="module")
def clean():
    return suitability_report(Predictions(**made((1500, 800, 800), known=200)), margin=0.1)


def test_a_well_behaved_report_has_no_warnings(clean):
    """So none of those below is given without a reason."""
    assert clean.decision.suitable
    assert clean.suitable_by_labels
    assert clean.warnings == ()
    assert "But" not in clean.verdict


def wrong_labels(labels, share):
    """Labels moved on by one class, for a share of the rows."""
    return np.where(np.arange(len(labels)) < share * len(labels), (labels + 1) % 3, labels)


WARNINGS = [
    (made((700, 600, 29), known=9), "only 29 user rows"),
    (made((700, 29, 500)), "only 29 test rows"),
    (made((100, 600, 500)), "the holdout is small: of its 100 predictions only"),
    (made() | {"test_logits": made()["holdout_logits"][:600]}, "600 of 600 test rows have the log"),
    (made(strength=6.0), "% of the user rows have a signal beyond its range"),
    (made(test_labels=wrong_labels(made()["test_labels"], 0.4)), "miscalibrated on test data"),
    (
        made(known=500) | {"user_labels": wrong_labels(drawn(500, 2)[1], 0.4)},
        "miscalibrated on use",
    ),
    (made(known=12), "of the labelled user rows only . are wrong, too few"),
    (made(strength=0.5) | {"user_labels": None}, "INCONCLUSIVE is not unsuitable"),
    (
        made((700, 10, 500)),
        "no number of user rows is enough for a power of 0.8: with 10 test rows",
    ),
    (
        made((5000, 600, 12), 1.0, known=9),
        "with a probability of only 0.* it takes .* user rows for 0.8",
    ),
]


@pytest.mark.parametrize(("arrays", "message"), WARNINGS)
def test_warnings(arrays, message):
    found = suitability_report(Predictions(**arrays), margin=0.06)
    assert any(re.search(message, text) for text in found.warnings), found.warnings


def test_probabilities_in_the_place_of_logits_are_noticed():
    arrays = made()
    for part in ("holdout", "user"):
        arrays[f"{part}_logits"] = softmax(arrays[f"{part}_logits"], axis=1)
    found = suitability_report(Predictions(**arrays), margin=0.08)
    said = [text for text in found.warnings if "look like probabilities" in text]
    assert [text.split(":")[0] for text in said] == ["holdout_logits, user_logits"]
    clean = suitability_report(Predictions(**made()), margin=0.08)
    assert not any("look like probabilities" in text for text in clean.warnings)


def test_labels_that_contradict_the_estimates():
    """Some user labels are another class: no logit tells."""
    labels = wrong_labels(drawn(500, 2)[1], 0.2)
    random = np.random.default_rng(5).permutation(500)
    arrays = made(strength=2.5)
    arrays["user_logits"] = drawn(500, 2, 2.5)[0][random]
    arrays["user_labels"] = np.where(np.arange(500) < 200, labels[random], -1)
    found = suitability_report(Predictions(**arrays), margin=0.05)
    assert found.decision.suitable
    assert found.suitable_by_labels is False
    assert not found.adjusted.suitable
    assert "But the labelled user rows do not confirm this." in found.verdict
    assert any("do not confirm" in text for text in found.warnings)
    assert not found.unsuitable_by_labels
    # More of them: that is no lack of evidence any more.
    labels = wrong_labels(drawn(500, 2)[1], 0.3)
    arrays["user_labels"] = np.where(np.arange(500) < 200, labels[random], -1)
    found = suitability_report(Predictions(**arrays), margin=0.05)
    assert found.decision.suitable
    assert found.unsuitable_by_labels
    assert found.verdict.startswith("UNSUITABLE by the labelled user rows")
    assert re.search("From the estimates alone it would be .*SUITABLE", found.verdict)
    assert "more than 0.05 less accurate than on test data" in found.verdict
    assert any("refute" in text for text in found.warnings)
    # Where the estimates say nothing, what the labels say is not taken back.
    arrays["user_logits"] = 0.3 * arrays["user_logits"]
    found = suitability_report(Predictions(**arrays), margin=0.05)
    assert not found.decision.suitable
    assert found.verdict.startswith("UNSUITABLE by the labelled user rows")
    assert "Nor is it shown" not in found.verdict
    assert not any("INCONCLUSIVE is not unsuitable" in text for text in found.warnings)
    # And the other way: the logits lost their size, the predictions are the same.
    arrays = made(known=400)
    arrays["user_logits"] = 0.5 * arrays["user_logits"]
    found = suitability_report(Predictions(**arrays), margin=0.08)
    assert not found.decision.suitable
    assert found.suitable_by_labels
    assert "But the labelled user rows show that it is suitable." in found.verdict


@pytest.mark.parametrize(
    ("margin", "words"),
    [(0.08, "at most 0.08 less accurate than"), (0, "at least as"), (-0.1, "at least 0.1 more")],
)
def test_verdict(predictions, margin, words):
    found = suitability_report(predictions, margin=margin)
    assert words in found.verdict
    assert str(found) == found.verdict
    assert f"{p_text(found.decision.p_value)} at alpha = 0.05" in found.verdict


def test_export(tmp_path, report):
    paths = report.export(tmp_path / "new" / "folder")
    names = ["summary.csv", "moved.csv", "calibration.csv", "decision.json"]
    assert [path.name for path in paths] == names
    assert sorted(os.listdir(paths[0].parent)) == sorted(names)  # no temporary file is left
    for path in paths[:3]:
        table = pd.read_csv(path)
        pd.testing.assert_frame_equal(table, getattr(report, path.stem), check_exact=True)
    content = json.loads(paths[3].read_text(encoding="utf-8"))
    assert content["decision"] == asdict(report.decision) | {"dof": {"float": "inf"}}
    assert content["tipping"] == report.tipping
    assert content["adjusted"] == asdict(report.adjusted)
    assert content["warnings"] == list(report.warnings)
    assert content["required"] == report.required
    before = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in report.export(paths[0].parent)] == before
    with pytest.raises(TypeError, match="folder must be a path, got int"):
        report.export(3)


def test_export_of_what_is_not_finite(tmp_path):
    same = {f"{part}_logits": np.tile([1.0, 0, 0], (50, 1)) for part in ("test", "user")}
    arrays = made() | same | {"test_labels": None, "user_labels": None}
    found = suitability_report(Predictions(**arrays), margin=0)
    assert found.required is None
    assert look_up(found.summary, "user rows for a power of 0.8") == math.inf
    *_, path = found.export(tmp_path)
    content = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert content["decision"]["dof"] == {"float": "nan"}
    assert content["adjusted"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 1}, r"margin must be a number in \(-1, 1\), got 1"),
        ({"margin": NAN}, "margin must be"),
        ({"margin": "0.1"}, "margin must be"),
        ({"margin": 0.1, "alpha": 0.5}, r"alpha must be a number in \(0, 0.5\), got 0.5"),
        ({"margin": 0.1, "alpha": 0}, "alpha must be"),
        ({"margin": 0.1, "power": 1}, r"power must be a number in \(0, 1\), got 1"),
    ],
)
def test_bad_settings(predictions, options, message):
    with pytest.raises(ValueError, match=message):
        suitability_report(predictions, **options)


def test_bad_predictions(predictions):
    with pytest.raises(TypeError, match="predictions must be Predictions, got dict"):
        suitability_report(SMALL, margin=0.1)
    with pytest.raises(ValueError, match="part must be one of holdout, test, user, got 'train'"):
        predictions.correct("train")


def test_the_smallest_predictions_have_a_report():
    arrays = made((60, 2, 2), known=2)
    found = suitability_report(Predictions(**arrays), margin=0.1)
    assert look_up(found.summary, "user rows") == 2
    assert np.isfinite(found.decision.p_value)


def test_narrow_numbers_give_nearly_the_same_report(predictions, report):
    arrays = made(strength=1.9)
    for part in ("holdout", "test", "user"):
        arrays[f"{part}_logits"] = arrays[f"{part}_logits"].astype(np.float32)
    found = suitability_report(Predictions(**arrays), margin=0.08)
    assert found.decision.p_value == pytest.approx(report.decision.p_value, rel=1e-3)
    assert found.decision != report.decision

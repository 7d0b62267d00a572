"""The report's file: both formats, what is refused, and where it is looked for."""

import io
import math
import re
import zipfile

import numpy as np
import pandas as pd
import pytest

from lib.report import (
    FORMAT,
    ModelPredictions,
    example_predictions,
    files,
    find_file,
    read_predictions,
)

NAN = math.nan
NAMES = [name for name, *_ in FORMAT]
RNG = np.random.default_rng(0)


def drawn(n):
    labels = RNG.integers(3, size=n)
    return 2 * np.eye(3)[labels] + RNG.normal(size=(n, 3)), labels


def everything():
    arrays = {}
    for part, n in (("holdout", 30), ("test", 12), ("user", 8)):
        arrays[f"{part}_logits"], arrays[f"{part}_labels"] = drawn(n)
    arrays["test_features"] = RNG.normal(size=(12, 2))
    arrays["test_groups"] = np.array(["north", "far south", "7"] * 4)
    arrays["other_logits"], _ = drawn(12)
    for who in ("test", "other"):
        arrays[f"{who}_abstained"] = np.arange(12) % 3 == 0
        arrays[f"{who}_propensities"] = np.full(12, 0.3)
    for who in ("test", "other"):
        drawn_scores = RNG.normal(size=12)
        arrays[f"{who}_scores"] = np.where(arrays[f"{who}_abstained"], NAN, drawn_scores)
    arrays["member_scores"], arrays["nonmember_scores"] = RNG.normal(size=7), RNG.normal(size=5)
    return arrays | {"epsilon": np.float64(2.0), "delta": np.float64(1e-5)}


ALL = everything()


def npz(folder, **changes):
    path = folder / "own.npz"
    np.savez(path, **{k: v for k, v in (ALL | changes).items() if v is not None})
    return path


def frame(arrays=ALL):
    """The same as a table, made by pandas."""
    parts = []
    for part in ("holdout", "test", "user"):
        columns = {"part": part, "label": arrays[f"{part}_labels"]}
        columns |= {f"logit_{j}": c for j, c in enumerate(arrays[f"{part}_logits"].T)}
        if part == "test":
            columns |= {f"feature_{j}": c for j, c in enumerate(arrays["test_features"].T)}
            columns["group"] = arrays["test_groups"]
            columns |= {f"other_logit_{j}": c for j, c in enumerate(arrays["other_logits"].T)}
            for who, before in (("test", ""), ("other", "other_")):
                columns[f"{before}abstained"] = arrays[f"{who}_abstained"].astype(str)
                columns[f"{before}propensity"] = arrays[f"{who}_propensities"]
                columns[f"{before}score"] = arrays[f"{who}_scores"]
        parts.append(pd.DataFrame(columns))
    claim = {name: float(arrays[name]) for name in ("epsilon", "delta")}
    for part in ("member", "nonmember"):
        columns = {"part": part, "membership_score": arrays[f"{part}_scores"]} | claim
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def csv(folder, table):
    path = folder / "own.csv"
    table.to_csv(path, index=False)
    return path


def assert_same(found, arrays):
    for name in NAMES:
        if name in arrays:
            np.testing.assert_array_equal(getattr(found, name), arrays[name], err_msg=name)
        else:
            assert not found.has(name), name


def test_the_documented_names_are_the_attributes():
    assert [*ModelPredictions.__dataclass_fields__] == [*NAMES, "feature_names", "source"]
    columns = {name.removesuffix("_0, ...") for _, name, *_ in FORMAT}
    assert columns == {*files._MANY, *files._SINGLE}


def test_both_formats_are_read_as_written(tmp_path):
    first, second = read_predictions(npz(tmp_path)), read_predictions(csv(tmp_path, frame()))
    assert_same(first, ALL)
    assert_same(second, ALL)
    assert first.test_abstained.dtype == second.test_abstained.dtype == bool
    assert first.test_labels.dtype == second.test_labels.dtype == np.int64
    assert set(first.given) == set(NAMES)
    assert first.source == str(tmp_path / "own.npz")
    with pytest.raises(ValueError, match="read-only"):
        first.test_logits[0] = 1


def test_columns_and_rows_in_any_order(tmp_path):
    shuffled = frame().sample(frac=1, random_state=0, axis=1).iloc[::-1]
    found = read_predictions(csv(tmp_path, shuffled))
    assert_same(found, {k: v[::-1] if v.ndim else v for k, v in ALL.items()})


@pytest.mark.parametrize("kept", [["member_scores", "nonmember_scores"], ["user_logits"]])
def test_what_is_left_out_is_none(tmp_path, kept):
    arrays = {name: ALL[name] for name in kept}
    np.savez(tmp_path / "own.npz", **arrays)
    assert_same(read_predictions(tmp_path / "own.npz"), arrays)


def test_columns_without_cells_are_not_there(tmp_path):
    table = frame()[frame()["part"] != "user"]
    table[["feature_0", "feature_1", "epsilon"]] = NAN
    gone = ("test_features", "epsilon", "user_logits", "user_labels")
    found = read_predictions(csv(tmp_path, table))
    assert_same(found, {k: v for k, v in ALL.items() if k not in gone})


def test_precision_and_compression_are_kept(tmp_path):
    path = tmp_path / "own.NPZ"
    narrow = ALL | {"user_logits": ALL["user_logits"].astype(">f4").T.copy().T}
    with path.open("wb") as stream:
        np.savez_compressed(stream, **narrow)
    found = read_predictions(path)
    assert found.user_logits.dtype == np.float32
    assert found.user_logits.dtype.isnative
    assert found.user_logits.flags.c_contiguous
    np.testing.assert_array_equal(found.user_logits, narrow["user_logits"])
    assert found.test_logits.dtype == np.float64


def test_silence_and_unknown_labels_in_both_formats(tmp_path):
    silent = ALL["test_abstained"]
    logits = np.where(silent[:, None], NAN, ALL["test_logits"])
    labels = np.where(silent, -1, ALL["test_labels"])
    arrays = ALL | {"test_logits": logits, "test_labels": labels}
    table = frame(arrays)
    table["label"] = table["label"].where(table["label"] >= 0)
    for path in (npz(tmp_path, **arrays), csv(tmp_path, table)):
        assert_same(read_predictions(path), arrays)
    none = np.full(12, NAN)
    assert read_predictions(npz(tmp_path, test_labels=none)).test_labels is None


@pytest.mark.parametrize("seed", [0, 5])
def test_example_is_the_same_in_both_formats(tmp_path, seed):
    paths = [example_predictions(tmp_path / f"e.{k}", k, seed=seed) for k in ("npz", "csv")]
    first, second = map(read_predictions, paths)
    assert set(NAMES) - set(first.given) == {"test_groups", "test_scores", "other_scores"}
    assert_same(second, first.given)
    again = example_predictions(tmp_path / "again.npz", seed=seed)
    assert again.read_bytes() == paths[0].read_bytes()
    with pytest.raises(ValueError, match="kind must be npz or csv, got 'xls'"):
        example_predictions(tmp_path / "e.xls", "xls", seed=seed)
    assert not (tmp_path / "e.xls").exists()


# --- what is refused ------------------------------------------------------------------------------


def spoilt(name, where, value):
    array = np.array(ALL[name], dtype=float)
    array[where] = value
    return {name: array}


NPZ_ERRORS = [
    (dict.fromkeys(NAMES), "there must be at least one array of holdout_logits"),
    ({**dict.fromkeys(NAMES), "epsilon": 1.0}, "there must be at least one array"),
    ({"logits": np.ones((3, 3))}, "arrays must be of holdout_logits, .*, delta, got logits.npy"),
    ({"test_logits": np.ones((12, 1))}, "test_logits must have at least 2 columns.*got 1"),
    ({"test_logits": np.ones((12, 4))}, "test_logits must have 3 columns, as holdout_logits"),
    ({"other_logits": np.ones((12, 2))}, "other_logits must have 3 columns, as holdout_log"),
    ({"user_logits": np.ones((0, 3))}, "'user_logits' must have rows and columns"),
    ({"test_logits": np.full((12, 3), "a")}, "'test_logits' must be real numbers, got <U1"),
    (spoilt("user_logits", (3, 1), NAN), "user_logits must be finite, got nan in row 3, column 1"),
    (spoilt("test_logits", (1, 1), NAN), "test_logits must be finite, except where it abst.*row 1"),
    (spoilt("test_logits", 1, NAN), "test_logits must be finite, except where it abstained.*row 1"),
    (spoilt("test_logits", (0, 1), NAN), "test_logits must be finite, except.*row 0, column 1"),
    (spoilt("holdout_logits", (2, 2), 1e200), r"at most 1e\+150 in size, got 1e\+200 in row 2"),
    (
        spoilt("holdout_labels", 4, 3),
        "holdout_labels must be classes from 0 to 2, got 3.0 in row 4",
    ),
    (spoilt("holdout_labels", 4, -1), "holdout_labels must be classes from 0 to 2, got -1"),
    (spoilt("test_labels", 5, 0.5), "test_labels .*or -1 or NaN where unknown, got 0.5 in row 5"),
    ({"test_labels": np.ones(11)}, "test_labels must have 12 rows, as many as test_logits, got 11"),
    ({"test_features": np.ones((11, 2))}, "test_features must have 12 rows, as many as test_log"),
    (spoilt("test_features", (2, 1), np.inf), "test_features must be finite, got inf in row 2"),
    ({"test_abstained": np.ones(5, bool)}, "must have 5 rows, as many as test_abst"),
    (spoilt("test_abstained", 3, NAN), "test_abstained must be true or false.*got nan in row 3"),
    (spoilt("test_propensities", 1, 1), "test_propensities must be below 1 where an answer was"),
    (spoilt("test_propensities", 3, 0), "test_propensities must be above 0 where there was an abs"),
    (spoilt("test_scores", 1, NAN), "test_scores must be finite where an answer was given.* row 1"),
    ({"other_scores": np.ones(5)}, "other_scores must have 12 rows, as many as other_abstained"),
    ({"test_logits": np.ones((12, 3), complex)}, "'test_logits' must be real.*got complex128"),
    ({"test_logits": np.zeros(12, "f8,f8,f8")}, "'test_logits' must be real numbers, got .*f0"),
    ({"epsilon": np.ones(2)}, "epsilon must be one number"),
    ({"test_groups": np.full(12, " ")}, "test_groups must be words, none of them empty.*in row 0"),
    ({"test_groups": np.ones(12)}, "test_groups must be words or whole numbers.*got float64"),
    ({"test_groups": np.arange(11)}, "test_groups must have 12 rows, as many as test_logits"),
    ({"holdout_labels": np.full(30, "cat")}, "'holdout_labels' must be real numbers, got <U3"),
    (
        {**dict.fromkeys(NAMES), "test_groups": np.arange(101)},
        "test_groups must be at most 100 different ones, got more",
    ),
]


@pytest.mark.parametrize(("changes", "message"), NPZ_ERRORS)
def test_malformed_npz(tmp_path, changes, message):
    path = npz(tmp_path, **changes)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}: .*{message}"):
        read_predictions(path)


def put(row, column, value):
    table = frame().astype(object)
    table.loc[row, column] = value
    return table


# Rows of the frame: holdout 0 to 29, test 30 to 41, user 42 to 49, member 50 to 56, nonmember.
CSV_ERRORS = [
    (frame().drop(columns="part"), "column 'part' must be there"),
    (frame().assign(weight=1), "columns must be part, logit_0, .*got 'weight'"),
    (frame().rename(columns={"logit_2": "logit_02"}), "columns must be .*got 'logit_02'"),
    (frame().rename(columns={"logit_2": "logit_3"}), "column 'logit_2' must be there, as there ar"),
    (frame().rename(columns={"feature_0": "feature_2"}), "column 'feature_0' must be there"),
    (frame().rename(columns={"feature_1": "feature_0"}), "'feature_0' must be there once.*2 times"),
    (frame().rename(columns={"delta": "label"}), "'label' must be there once, got it 2 times"),
    (frame().iloc[:0], "must have rows, got a header only"),
    (put(0, "part", "train"), "'part' must be one of holdout, test, .*got 'train' in row 2"),
    (put(0, "label", "cat"), "'label' must be a class, or empty if unknown, got 'cat' in row 2"),
    (put(0, "label", "1.5"), "'label' must be a class.*got '1.5' in row 2"),
    (put(0, "label", NAN), "holdout_labels must be classes from 0 to 2, got nan|got -1"),
    (put(0, "label", 7), "holdout_labels must be classes from 0 to 2, got 7"),
    (put(3, "logit_1", "one"), "'logit_1' must be a finite number, got 'one' in row 5"),
    (put(3, "logit_1", "1_0"), "'logit_1' must be a finite number, got '1_0' in row 5"),
    (put(3, "logit_1", "inf"), "'logit_1' must be a finite number, got 'inf' in row 5"),
    (put(3, "logit_1", NAN), "'logit_1' must be a finite number, as in .*got '' in row 5"),
    (put(3, "feature_0", 1), "'feature_0' must be empty in rows of the part 'holdout', got '1'"),
    (put(3, "membership_score", 1), "'membership_score' must be empty in rows of the part 'hold"),
    (put(31, "feature_0", NAN), "'feature_0' must be a finite number, as in the row's other.*33"),
    (put(31, "abstained", "maybe"), "'abstained' must be true or false, yes.*got 'maybe'"),
    (put(31, "abstained", NAN), "'abstained' must be given in all rows of the part 'test'.*row 33"),
    (put(31, "propensity", "high"), "'propensity' must be a finite number, got 'high' in row 33"),
    (put(31, "propensity", 2), r"test_propensities must be in \[0, 1\], got 2"),
    (put(31, "score", "inf"), "'score' must be a finite number, got 'inf' in row 33"),
    (put(31, "group", NAN), "'group' must be given in all rows of the part 'test'.*row 33"),
    (put(31, "group", "n/a"), "'group' must be .*in row 33"),
    (put(3, "group", "north"), "'group' must be empty in rows of the part 'holdout', got 'north'"),
    (put(50, "membership_score", NAN), "'membership_score' must be given in all rows.*'member'"),
    (put(50, "membership_score", "x"), "'membership_score' must be a number, got 'x' in row 52"),
    (put(50, "epsilon", 9), "'epsilon' must be the same in all rows, got 2 and 9"),
    (put(58, "epsilon", 9), "'epsilon' must be the same in all rows, got 2 and 9"),
]


@pytest.mark.parametrize(("table", "message"), CSV_ERRORS)
def test_malformed_csv(tmp_path, table, message):
    path = csv(tmp_path, table)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}: .*({message})"):
        read_predictions(path)


TEXTS = [
    ("", "must have a header and rows, got an empty file"),
    ("part;label\ntest;1\n", "separate cells by commas, not semicolons"),
    ("part,label,logit_0,logit_1\ntest,1,2\n", "row 2 must have 4 cells.*got 3"),
    ('part,label,logit_0,logit_1\ntest,1,"2,3\n', "must be CSV, got in row 2"),
    (",part,label,logit_0,logit_1\n0,test,1,2,3\n", "got ''.*index=False leaves it out"),
]


@pytest.mark.parametrize(("text", "message"), TEXTS)
def test_malformed_text(tmp_path, text, message):
    (tmp_path / "own.csv").write_text(text)
    with pytest.raises(ValueError, match=f"own.csv: .*{message}"):
        read_predictions(tmp_path / "own.csv")


def test_no_archive_and_a_member_that_lies(tmp_path):
    path = tmp_path / "own.npz"
    for content in (b"", b"no archive", npz(tmp_path).read_bytes()[:-40]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"own.npz: expected an NPZ file, found damage"):
            read_predictions(path)
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}\n"
    with zipfile.ZipFile(path, "w") as archive:
        content = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head
        archive.writestr("member_scores.npy", content)
    with pytest.raises(ValueError, match=r"'member_scores' must have the .* bytes that its shape"):
        read_predictions(path)


def member(content, name="member_scores.npy", *, drop="member_scores", method=zipfile.ZIP_DEFLATED):
    """An NPZ file, one member of which is made by hand."""
    buffer = io.BytesIO()
    np.savez(buffer, **{key: value for key, value in ALL.items() if key != drop})
    with zipfile.ZipFile(buffer, "a", method) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def head(text, version=b"\x01\x00"):
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text.encode()


def described(shape, descr="'<i8'"):
    return head(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n")


HOSTILE = [
    (described((10**12,)) + bytes(56), "must have the .* bytes that its shape .*int64 takes"),
    (described((7,)) + bytes(48), "must have the 1.. bytes"),
    (described((7,)) + bytes(64), "must have the 1.. bytes"),
    (described((-7,)) + bytes(56), r"must have rows and columns, got \(-7,\)"),
    (described((10**40, 0)), "must have rows and columns"),
    (described((10**30,), "'|S0'"), r"must be real numbers, got \|S0"),
    (described((7,), "'|O'") + b"cos\nsystem\n", "got object, which would have to be unpickled"),
    (described((7,), "[('a', '|O')]"), "got .*, which would have to be unpickled"),
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
    with pytest.raises(ValueError, match=f"own.npz: array 'member_scores' .*{message}"):
        read_predictions(path)


def test_archives_that_numpy_does_not_write(tmp_path):
    path = tmp_path / "own.npz"
    array = described((7,)) + bytes(56)
    for content, message in (
        (member(array, "member_scores"), "arrays must be of .*got member_scores$"),
        (member(array, "notes.txt"), "arrays must be of .*got notes.txt"),
        (member(array, method=zipfile.ZIP_LZMA), "must be stored or deflated.*got compression 14"),
        (b"no archive", "expected an NPZ file, found damage: File is not a zip file"),
        (b"", "expected an NPZ file, found damage"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_predictions(path)
    with pytest.warns(UserWarning, match="Duplicate name"):
        path.write_bytes(member(array, drop=None))
    with pytest.raises(ValueError, match="array 'member_scores' must be there once"):
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
    for place in range(0, len(content), 41):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        found = outcome(path)
        if isinstance(found, str):
            assert found.startswith(str(path)), found
            clear += 1
        else:
            assert_same(found, ALL)
    assert clear > len(content) / 41 / 2
    for length in range(0, len(content), 197):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=re.escape(str(path))):
            read_predictions(path)


def test_a_size_that_is_declared_too_small_does_not_help(tmp_path):
    path = tmp_path / "own.npz"
    array = described((7,)) + bytes(56)
    content = member(array + bytes(1 << 20))
    at = content.rindex(b"PK\x01\x02") + 24
    path.write_bytes(content[:at] + len(array).to_bytes(4, "little") + content[at + 4 :])
    with pytest.raises(ValueError, match=r"own.npz: expected an NPZ file, found damage: Bad CRC"):
        read_predictions(path)


def test_limit_of_a_csv_file(tmp_path, monkeypatch):
    path = csv(tmp_path, frame())
    monkeypatch.setattr(files, "MOST_BYTES", path.stat().st_size)
    read_predictions(path)
    monkeypatch.setattr(files, "MOST_BYTES", path.stat().st_size - 1)
    with pytest.raises(ValueError, match=r"own.csv: it must have at most"):
        read_predictions(path)


# --- trials of two services -----------------------------------------------------------------------

TRIAL = "x,score_a,abstained_a,score_b,abstained_b"
TRIAL_ROWS = 24
TRIAL_LINES = [f"{i},0.5,0,,1" if i % 3 == 0 else f"{i},1,0,0.25,0" for i in range(TRIAL_ROWS)]


def trial(lines, header=TRIAL):
    return ("\n".join([header, *lines]) + "\n").encode()


def trial_file(tmp_path, lines, header=TRIAL):
    path = tmp_path / "trial.csv"
    path.write_bytes(trial(lines, header))
    return path


def other_line(number, line):
    """The rows with another one at a line of the file."""
    return [*TRIAL_LINES[: number - 2], line, *TRIAL_LINES[number - 1 :]]


@pytest.mark.parametrize(
    ("yes", "no"), [("1", "0"), ("True", "FALSE"), ("yes", "No"), ("YES", "0")]
)
def test_words_and_order_and_space_and_poison(tmp_path, yes, no):
    lines = [
        f'{yes} , "oops, no", {i}, 0.1, {no}' if i % 2 else f"{no},2,{i},3,{no}"
        for i in range(TRIAL_ROWS)
    ]
    lines.insert(3, ",,,,")  # spreadsheets leave such rows
    lines.insert(5, "")
    path = trial_file(tmp_path, lines, "abstained_a, score_a, some  x ,score_b,abstained_b")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    found = read_predictions(path)
    assert found.feature_names == ("some x",)
    np.testing.assert_array_equal(found.test_abstained, np.arange(TRIAL_ROWS) % 2 == 1)
    expected = [NAN if i % 2 else 2 for i in range(TRIAL_ROWS)]
    np.testing.assert_array_equal(found.test_scores, expected)
    np.testing.assert_array_equal(found.test_features[:, 0], np.arange(TRIAL_ROWS))


def test_text_becomes_one_feature_a_category(tmp_path):
    kinds = ["red", "none", "7", '"dark, very"']
    lines = [f"{kinds[i % 4]},{line}" for i, line in enumerate(TRIAL_LINES)]
    found = read_predictions(trial_file(tmp_path, lines, f"kind,{TRIAL}"))
    assert found.feature_names == ("kind=7", "kind=dark, very", "kind=none", "kind=red", "x")
    np.testing.assert_array_equal(found.test_features[:, :4].sum(axis=1), 1)
    for column, i in ((3, 0), (2, 1), (0, 2), (1, 3)):
        is_kind = np.arange(TRIAL_ROWS) % 4 == i
        np.testing.assert_array_equal(found.test_features[:, column], is_kind)


def test_thirty_categories_are_not_too_many(tmp_path):
    lines = [f"k{i % 30},{i},1,0,1,0" for i in range(60)]
    found = read_predictions(trial_file(tmp_path, lines, f"kind,{TRIAL}"))
    assert found.test_features.shape == (60, 31)


TRIAL_HEADS = [
    ("x,score_a,abstained_a,score_b", ["column 'abstained_b' must be there", "got 'x', 'score_a'"]),
    (TRIAL.replace(",", ";"), ["column 'part' must be there", "commas, not semicolons"]),
    (TRIAL.upper(), ["column 'part' must be there", "'SCORE_A'"]),
    (f"{TRIAL},x", ["column 'x' must be there once", "2 times"]),
    (f"{TRIAL}, score_a", ["column 'score_a' must be there once", "2 times"]),
    (f",{TRIAL}", ["every column must have a name", "column 1 of 6", "index=False"]),
]
TRIAL_CELLS = [
    ("7,,0,1,0", ["column 'score_a'", "a finite number where abstained_a is no", "got ''"]),
    ("7,high,no,1,0", ["column 'score_a'", "a finite number", "got 'high'"]),
    ("7,inf,0,1,0", ["column 'score_a'", "a finite number", "got 'inf'"]),
    ("7,1,0,nan,0", ["column 'score_b'", "where abstained_b is no", "got 'nan'"]),
    ("7,1_0,0,1,0", ["column 'score_a'", "got '1_0'"]),
    ("7,1,maybe,1,0", ["column 'abstained_a'", "true or false, yes or no", "got 'maybe'"]),
    ("7,1,0,1,", ["column 'abstained_b'", "true or false", "got ''"]),
    (",1,0,1,0", ["column 'x'", "a number or text, and not missing", "got ''"]),
    ("N/A,1,0,1,0", ["column 'x'", "not missing", "got 'N/A'"]),
    ("-nan,1,0,1,0", ["column 'x'", "not missing", "got '-nan'"]),
    ("1e999,1,0,1,0", ["column 'x'", "must be finite", "got '1e999'"]),
    ("7,1,0,1", ["must have 5 cells", "got 4"]),
    ("7,1,0,1,0,9", ["must have 5 cells", "got 6"]),
    ('"7,1,0,1,0', ["must be CSV", "end of data"]),
]
TRIALS = [
    *((trial(TRIAL_LINES, header), parts) for header, parts in TRIAL_HEADS),
    *((trial(other_line(9, line)), ["row 9", *parts]) for line, parts in TRIAL_CELLS),
    (f"{TRIAL}\n".encode(), ["must have rows, got a header only"]),
    (f"{TRIAL}\nü".encode("latin-1"), ["text in UTF-8", "byte 0xfc"]),
    (
        trial(f"{i if i != 33 else 'oops'},1,0,1,0" for i in range(40)),
        ["column 'x'", "at most 30 categories", "got more", "'oops' in row 35"],
    ),
]


@pytest.mark.parametrize(("content", "parts"), TRIALS)
def test_bad_trials(tmp_path, content, parts):
    path = tmp_path / "trial.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        read_predictions(path)
    for part in (str(path), *parts):
        assert part in str(caught.value)


def test_rows_are_lines_of_the_file(tmp_path):
    """Blank ones count, and so do those within quotes."""
    lines = ["", '"1\n",1,0,1,0', *TRIAL_LINES, "3,bad,0,1,0", "4,,0,1,0"]
    with pytest.raises(ValueError, match=rf"got 'bad' in row {TRIAL_ROWS + 5}"):
        read_predictions(trial_file(tmp_path, lines))


def test_categories_that_look_like_a_column(tmp_path):
    header = f"k,k=v,{TRIAL}"
    with pytest.raises(ValueError, match=r"trial\.csv: feature_names must be different"):
        read_predictions(trial_file(tmp_path, [f"v,1,{line}" for line in TRIAL_LINES], header))


# --- where it is ----------------------------------------------------------------------------------


def test_files_are_found_from_anywhere(tmp_path, monkeypatch):
    root, elsewhere = tmp_path / "root", tmp_path / "book"
    for folder in (root, elsewhere):
        folder.mkdir()
    monkeypatch.setattr(files, "_root", lambda: root)
    monkeypatch.chdir(elsewhere)
    (root / "my.npz").touch()
    assert find_file("my.npz") == root / "my.npz"
    (elsewhere / "my.npz").touch()
    assert find_file("my.npz") == elsewhere / "my.npz"
    assert find_file(root / "my.npz") == root / "my.npz"
    with pytest.raises(FileNotFoundError, match=r"got your.npz: .*book/your.npz.*root/your.npz"):
        find_file("your.npz")
    with pytest.raises(TypeError, match="predictions must be a path, got int"):
        find_file(3)


def test_paths_that_are_no_tables(tmp_path):
    with pytest.raises(ValueError, match=r"path must end in .npz or .csv, got .*own.pkl"):
        read_predictions(tmp_path / "own.pkl")
    with pytest.raises(FileNotFoundError, match=r"own.npz, which does not exist"):
        read_predictions(tmp_path / "own.npz")

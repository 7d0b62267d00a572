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
    readers,
)

NAN = math.nan
NAMES = [name for name, *_ in FORMAT]
RNG = np.random.default_rng(0)


def everything():
    arrays = {}
    for part, n in (("holdout", 30), ("test", 12), ("user", 8), ("other", 12)):
        labels = RNG.integers(3, size=n)
        arrays[f"{part}_logits"] = 2 * np.eye(3)[labels] + RNG.normal(size=(n, 3))
        if part != "other":
            arrays[f"{part}_labels"] = labels
    arrays["test_features"] = RNG.normal(size=(12, 2))
    arrays["test_groups"] = np.array(["north", "far south", "7"] * 4)
    for who in ("test", "other"):
        arrays[f"{who}_abstained"] = away = np.arange(12) % 3 == 0
        arrays[f"{who}_propensities"] = np.full(12, 0.3)
        arrays[f"{who}_scores"] = np.where(away, NAN, RNG.normal(size=12))
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


def test_both_formats_are_read_as_written(tmp_path):
    assert [*ModelPredictions.__dataclass_fields__] == [
        *NAMES,
        *("feature_names", "source", "class_names", "rivals", "reading"),
    ]
    shuffled = frame().sample(frac=1, random_state=0, axis=1).iloc[::-1]
    backwards = read_predictions(csv(tmp_path, shuffled))
    assert_same(backwards, {k: v[::-1] if v.ndim else v for k, v in ALL.items()})
    for path in (npz(tmp_path), csv(tmp_path, frame())):
        found = read_predictions(path)
        assert_same(found, ALL)
        assert found.test_abstained.dtype == bool
        assert found.test_labels.dtype == np.int64
        assert found.source == str(path)
        with pytest.raises(ValueError, match="read-only"):
            found.test_logits[0] = 1


def test_what_is_left_out_is_none(tmp_path):
    arrays = {name: ALL[name] for name in ("member_scores", "nonmember_scores")}
    np.savez(tmp_path / "own.npz", **arrays)
    assert_same(read_predictions(tmp_path / "own.npz"), arrays)
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
    assert read_predictions(npz(tmp_path, test_labels=np.full(12, NAN))).test_labels is None


def test_the_example_is_the_same_in_both_formats(tmp_path):
    paths = [example_predictions(tmp_path / f"e.{k}", k, seed=5) for k in ("npz", "csv")]
    first, second = map(read_predictions, paths)
    unused = {"test_groups", "test_scores", "other_scores", "test_predicted", "test_confidence"}
    unused |= {"test_correct", *(f"{part}_clusters" for part in ("holdout", "test", "user"))}
    assert set(NAMES) - set(first.given) == unused
    assert_same(second, first.given)
    again = example_predictions(tmp_path / "again.npz", seed=5)
    assert again.read_bytes() == paths[0].read_bytes()


def test_what_is_unknown_is_named_and_left_out(tmp_path):
    more = {"notes": np.ones(3), "test_words": np.full(12, "a")}
    found = read_predictions(npz(tmp_path, **more))
    assert_same(found, ALL)
    assert found.reading == ("not used: 'notes', 'test_words'",)
    table = frame().assign(weight=1.5)
    table.loc[3, "group"] = "north"  # as pandas leaves it where a group has other parts
    found = read_predictions(csv(tmp_path, table))
    assert_same(found, ALL)
    assert found.reading == ("not used: 'weight'",)
    objects = npz(tmp_path, test_groups=ALL["test_groups"].astype(object))
    (said,) = read_predictions(objects).reading
    assert "save test_groups.astype(str)" in said


# --- what is refused ------------------------------------------------------------------------------


def spoilt(name, where, value):
    array = np.array(ALL[name], dtype=float)
    array[where] = value
    return {name: array}


NPZ_ERRORS = [
    (dict.fromkeys(NAMES), "at least one array"),
    ({**dict.fromkeys(NAMES), "epsilon": 1.0}, "at least one array"),
    ({"test_logits": np.ones((12, 1))}, "test_logits must have at least 2"),
    ({"test_logits": np.ones((12, 4))}, "test_logits must have 3"),
    ({"test_logits": np.zeros(12, "f8,f8,f8")}, "test_logits.*f0"),
    (spoilt("test_logits", 1, NAN), "test_logits.*except.*row 1"),
    (spoilt("test_logits", (0, 1), NAN), "test_logits.*except.*row 0, column 1"),
    (spoilt("holdout_logits", (2, 2), 1e200), "holdout_logits.*row 2"),
    (spoilt("holdout_labels", 4, 3), "holdout_labels.*3.0 in row 4"),
    ({"test_labels": np.ones(11)}, "test_labels must have 12"),
    ({"test_features": np.ones((11, 2))}, "test_features must have 12"),
    ({"test_abstained": np.ones(5, bool)}, "must have 5 rows.*test_abst"),
    (spoilt("test_propensities", 1, 1), "test_propensities must be below 1"),
    (spoilt("test_propensities", 3, 0), "test_propensities must be above 0"),
    ({"other_scores": np.ones(5)}, "other_scores must have 12"),
    ({"epsilon": np.ones(2)}, "epsilon must be one number"),
    ({**dict.fromkeys(NAMES), "test_groups": np.arange(101)}, "test_groups.*100"),
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


TEXT = "part,label,logit_0,logit_1\n"
# Rows of the frame: holdout 0 to 29, test 30 to 41, user 42 to 49, member 50 to 56, nonmember.
CSV_ERRORS = [
    (frame().drop(columns="part"), "'part'"),
    (frame().rename(columns={"logit_2": "logit_02"}), "got 'logit_02'"),
    (frame().rename(columns={"logit_2": "logit_3"}), "'logit_2'"),
    (frame().rename(columns={"feature_0": "feature_2"}), "'feature_0'"),
    (frame().rename(columns={"feature_1": "feature_0"}), "'feature_0'.*2 times"),
    (frame().rename(columns={"delta": "label"}), "'label'.*2 times"),
    (frame().iloc[:0], "header only"),
    (put(0, "part", "fold"), "'fold' in row 2"),
    (put(0, "label", "cat"), "'label'.*'cat' in row 2"),
    (put(0, "label", "1.5"), "'label'.*'1.5' in row 2"),
    (put(0, "label", NAN), "holdout_labels"),
    *((put(3, "logit_1", bad), f"'logit_1'.*'{bad}' in row 5") for bad in ("one", "1_0", "inf")),
    (put(3, "logit_1", NAN), "'logit_1'.*'' in row 5"),
    (put(3, "feature_0", 1), "'feature_0' must be empty.*'holdout'"),
    (put(3, "membership_score", 1), "'membership_score' must be empty"),
    (put(31, "feature_0", NAN), "'feature_0'.*33"),
    (put(31, "abstained", "maybe"), "'abstained'.*'maybe'"),
    (put(31, "abstained", NAN), "'abstained'.*row 33"),
    (put(31, "propensity", "high"), "'propensity'.*'high' in row 33"),
    (put(31, "score", "inf"), "'score'.*'inf' in row 33"),
    (put(31, "group", NAN), "'group'.*row 33"),
    (put(50, "membership_score", NAN), "'membership_score'.*'member'"),
    (put(50, "membership_score", "x"), "'membership_score'.*'x' in row 52"),
    (put(58, "epsilon", 9), "'epsilon' must be the same.*2 and 9"),
    (TEXT + "test,1,2\n", "row 2 must have 4 cells"),
    (TEXT + 'test,1,"2,3\n', "must be CSV, got in row 2"),
]


@pytest.mark.parametrize(("table", "message"), CSV_ERRORS)
def test_malformed_csv(tmp_path, table, message):
    path = tmp_path / "own.csv"
    path.write_text(table if isinstance(table, str) else table.to_csv(index=False))
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}: .*({message})"):
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


NUMPY, UNPICKLED = "NumPy's format", "unpickled"
ARRAY = described((7,)) + bytes(56)
HOSTILE = [
    (described((10**12,)) + bytes(56), "bytes"),
    (described((7,)) + bytes(48), "bytes"),
    (described((7,)) + bytes(64), "bytes"),
    (described((-7,)) + bytes(56), "rows and columns"),
    (described((10**40, 0)), "rows and columns"),
    (described((10**30,), "'|S0'"), "real numbers"),
    (described((7,), "'|O'") + b"cos\nsystem\n", UNPICKLED),
    (described((7,), "[('a', '|O')]"), UNPICKLED),
    *((head(text), NUMPY) for text in ("(" * 9000 + "\n", "__import__('os').abort()\n", "{}\n")),
    (head("{}\n", b"\x09\x00"), NUMPY),
    *((content, NUMPY) for content in (b"", b"\x93NUMPY\x01\x00\xff\xff{", b"PK\x03\x04")),
]


@pytest.mark.parametrize(("content", "message"), HOSTILE)
def test_hostile_arrays(tmp_path, content, message):
    path = tmp_path / "own.npz"
    path.write_bytes(member(content))
    with pytest.raises(ValueError, match=f"own.npz: array 'member_scores' .*{message}") as raised:
        read_predictions(path)
    assert "0x" not in str(raised.value)


def test_archives_that_numpy_does_not_write(tmp_path):
    path = tmp_path / "own.npz"
    long = member(ARRAY + bytes(1 << 20))
    at = long.rindex(b"PK\x01\x02") + 24
    for content, message in (
        (member(ARRAY, "member_scores"), "got member_scores$"),
        (member(ARRAY, "notes.txt"), "got notes.txt"),
        (member(ARRAY, method=zipfile.ZIP_LZMA), "compression 14"),
        (b"no archive", "damage"),
        (b"", "damage"),
        # A size that is declared too small does not help.
        (long[:at] + len(ARRAY).to_bytes(4, "little") + long[at + 4 :], "damage: Bad CRC"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_predictions(path)
    with pytest.warns(UserWarning, match="Duplicate name"):
        path.write_bytes(member(ARRAY, drop=None))
    with pytest.raises(ValueError, match="'member_scores' must be there once"):
        read_predictions(path)


def outcome(path):
    try:
        return read_predictions(path)
    except ValueError as error:
        return str(error)


def test_damage_anywhere_is_a_clear_error(tmp_path):
    """One byte changed, at many places: what was written, or an error that names the file."""
    content, path, clear = npz(tmp_path).read_bytes(), tmp_path / "damaged.npz", 0
    directory = content.index(b"PK\x01\x02")  # a wrong length there hides what follows
    places = [*range(0, directory, 97), *range(directory, len(content), 7)]
    for place in places:
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        found = outcome(path)
        if isinstance(found, str):
            assert found.startswith(str(path))
            clear += 1
        else:
            assert_same(found, ALL)
        path.write_bytes(content[:place])
        assert str(outcome(path)).startswith(str(path))
    assert clear > len(places) / 2


def test_limit_of_a_csv_file(tmp_path, monkeypatch):
    path = csv(tmp_path, frame())
    monkeypatch.setattr(readers, "MOST_BYTES", path.stat().st_size)
    read_predictions(path)
    monkeypatch.setattr(readers, "MOST_BYTES", path.stat().st_size - 1)
    with pytest.raises(ValueError, match=r"own.csv: it must have at most"):
        read_predictions(path)


# --- trials of two services -----------------------------------------------------------------------

TRIAL = "x,score_a,abstained_a,score_b,abstained_b"
ROWS = 24
LINES = [f"{i},0.5,0,,1" if i % 3 == 0 else f"{i},1,0,0.25,0" for i in range(ROWS)]


def trial(folder, lines, header=TRIAL):
    path = folder / "trial.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


@pytest.mark.parametrize(
    ("yes", "no"), [("1", "0"), ("True", "FALSE"), ("yes", "No"), ("YES", "0")]
)
def test_words_and_order_and_space_and_poison(tmp_path, yes, no):
    lines = [
        f'{yes} , "oops, no", {i}, 0.1, {no}' if i % 2 else f"{no},2,{i},3,{no}"
        for i in range(ROWS)
    ]
    lines[3:3] = [",,,,", ""]  # spreadsheets leave such rows
    path = trial(tmp_path, lines, "abstained_a, score_a, some  x ,score_b,abstained_b")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    found = read_predictions(path)
    assert found.feature_names == ("some x",)
    np.testing.assert_array_equal(found.test_abstained, np.arange(ROWS) % 2 == 1)
    np.testing.assert_array_equal(found.test_scores, [NAN if i % 2 else 2 for i in range(ROWS)])
    np.testing.assert_array_equal(found.test_features[:, 0], np.arange(ROWS))


def test_text_becomes_one_feature_a_category(tmp_path):
    kinds = ["red", "none", "7", '"dark, very"']
    lines = [f"{kinds[i % 4]},{line}" for i, line in enumerate(LINES)]
    found = read_predictions(trial(tmp_path, lines, f"kind,{TRIAL}"))
    assert found.feature_names == ("kind=7", "kind=dark, very", "kind=none", "kind=red", "x")
    np.testing.assert_array_equal(found.test_features[:, :4], np.eye(4)[[3, 2, 0, 1] * 6])
    lines = [f"k{i % 30},{i},1,0,1,0" for i in range(60)]
    found = read_predictions(trial(tmp_path, lines, f"kind,{TRIAL}"))
    assert found.test_features.shape == (60, 31)
    with pytest.raises(ValueError, match="feature_names must be different"):
        read_predictions(trial(tmp_path, [f"v,1,{line}" for line in LINES], f"k,k=v,{TRIAL}"))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("x,score_a,abstained_a,score_b", "'abstained_b'.*got 'x', 'score_a'"),
        (TRIAL.replace(",", ";"), "must have 5 cells, as the header has, got 1"),
        (TRIAL.upper(), "no columns are known.*'SCORE_A'"),
        (f"{TRIAL},x", "'x'.*2 times"),
        (f"{TRIAL}, score_a", "'score_a'.*2 times"),
        (f",{TRIAL}", "column 1 of 6.*index=False"),
    ],
)
def test_trials_with_other_columns(tmp_path, header, message):
    with pytest.raises(ValueError, match=f"trial.csv: .*{message}"):
        read_predictions(trial(tmp_path, LINES, header))


@pytest.mark.parametrize(
    ("line", "column", "got"),
    [
        ("7,,0,1,0", "score_a", ""),
        ("7,high,no,1,0", "score_a", "high"),
        ("7,1,0,nan,0", "score_b", "nan"),
        ("7,1_0,0,1,0", "score_a", "1_0"),
        ("7,1,maybe,1,0", "abstained_a", "maybe"),
        ("7,1,0,1,", "abstained_b", ""),
        (",1,0,1,0", "x", ""),
        ("N/A,1,0,1,0", "x", "N/A"),
        ("1e999,1,0,1,0", "x", "1e999"),
    ],
)
def test_bad_cells_of_a_trial(tmp_path, line, column, got):
    with pytest.raises(ValueError, match=f"trial.csv: column '{column}' .*'{got}' in row 9"):
        read_predictions(trial(tmp_path, [*LINES[:7], line, *LINES[8:]]))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*LINES[:7], "7,1,0,1"], "row 9 must have 5 cells.*got 4"),
        ([*LINES[:7], "7,1,0,1,0,9"], "row 9 must have 5 cells.*got 6"),
        ([*LINES[:7], '"7,1,0,1,0'], "must be CSV"),
        ([], "header only"),
        ([f"{i if i != 33 else 'oops'},1,0,1,0" for i in range(40)], "'x'.*'oops' in row 35"),
        # Blank lines count, and so do those within quotes.
        (["", '"1\n",1,0,1,0', *LINES, "3,bad,0,1,0", "4,,0,1,0"], f"'bad' in row {ROWS + 5}"),
    ],
)
def test_bad_lines_of_a_trial(tmp_path, lines, message):
    with pytest.raises(ValueError, match=f"trial.csv: .*{message}"):
        read_predictions(trial(tmp_path, lines))


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
    with pytest.raises(FileNotFoundError, match=r"book/your.npz.*root/your.npz"):
        find_file("your.npz")
    with pytest.raises(FileNotFoundError, match=r"own\.npz"):
        read_predictions(tmp_path / "own.npz")

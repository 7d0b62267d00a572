"""Bytes of files: packed, in other encodings, of other libraries, of others, and real ones."""

import bz2
import gzip
import importlib.util
import json
import lzma
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reading_samples import (
    LABELS,
    NAMED,
    ONE,
    RIGHT,
    SECOND,
    TRUTH,
    TWO,
    File,
    P,
    check,
    of,
    read,
    saved,
)

from lib.data import arrays
from lib.report import packed, read_predictions, readers, tables
from lib.report.__main__ import main

RNG = np.random.default_rng(2)
CASES = Path(__file__).parents[3] / "shared" / "cases" / "files"
FRAME = pd.DataFrame(TRUTH | NAMED)
PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zip"])
@pytest.mark.parametrize("name", ["own.csv", "own.tsv", "own.jsonl", "own.json"])
def test_text_is_read_packed(name, suffix, tmp_path):
    text = FRAME.to_csv(index=False, sep="\t" if name.endswith("tsv") else ",")
    if "json" in name:
        text = FRAME.to_json(orient="records", lines=name.endswith("l"))
    path = tmp_path / (name + suffix)
    if suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, text)
            archive.writestr("__MACOSX/" + name, "")
    else:
        path.write_bytes(PACK[suffix](text.encode()))
    check(read_predictions(path), RIGHT)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=f"packed as {suffix}"):
        read_predictions(path)


def test_what_is_packed_is_bounded(tmp_path, monkeypatch):
    path = tmp_path / "own.csv.gz"
    path.write_bytes(gzip.compress(b"label,p_0,p_1\n" + b"\n" * 200_000))
    monkeypatch.setattr(packed, "MOST_BYTES", 100_000)
    with pytest.raises(ValueError, match="at most 100,000 bytes, unpacked"):
        read_predictions(path)
    monkeypatch.setattr(arrays, "most_memory", lambda: (100_000, "as a test says"))
    path = tmp_path / "own.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * 50_000 + b"]"))
    with pytest.raises(ValueError, match="at most 25,000 bytes of memory"):
        read_predictions(path)


@pytest.mark.parametrize("name", ["own.csv", "own.txt"])
@pytest.mark.parametrize(
    ("encoding", "first", "separator"),
    [
        ("utf-16", "", "\t"),
        ("utf-16", "", ";"),
        ("utf-16-le", "", ","),
        ("utf-16-be", "", ","),
        ("utf-8-sig", "sep=;\r\n", ";"),
    ],
)
def test_what_spreadsheets_write(name, encoding, first, separator, tmp_path):
    frame = pd.DataFrame({"label": np.where(SECOND, "b", "a"), "p_a": 1 - ONE, "p_b": ONE})
    text = first + frame.to_csv(index=False, sep=separator, lineterminator="\r\n")
    (tmp_path / name).write_bytes(text.encode(encoding))
    check(read_predictions(tmp_path / name), TWO)


def test_parquet_and_feather_or_what_to_install(tmp_path):
    for kind in ("parquet", "feather"):
        path = tmp_path / f"own.{kind}"
        if importlib.util.find_spec("pyarrow") is None:
            path.write_bytes(b"PAR1")
            with pytest.raises(ValueError, match="install pyarrow"):
                read_predictions(path)
            continue
        getattr(FRAME, f"to_{kind}")(path)
        check(read_predictions(path), RIGHT)
        path.write_bytes(path.read_bytes()[:200])
        with pytest.raises(ValueError, match=f"must be {kind}"):
            read_predictions(path)


def test_names_and_cells_of_others_do_nothing(tmp_path, capsys):
    outputs = dict(zip(["p_=a", "p_\x1b[31m", "p_c\u202e"], NAMED.values(), strict=True))
    frame = pd.DataFrame(outputs | {"y": LABELS, "\x1b[2J=HYPERLINK(1)": "\x1b"})
    frame.to_csv(tmp_path / "own.csv", index=False)
    assert main([str(tmp_path / "own.csv"), "--out", str(tmp_path / "out")]) == 0
    texts = [capsys.readouterr().out, *(p.read_text() for p in (tmp_path / "out").glob("*.csv"))]
    assert len(texts) > 3
    assert not any("\x1b" in text or "\u202e" in text for text in texts)
    assert not any("\n=" in text or ",=" in text for text in texts[1:])


@pytest.mark.skipif(not CASES.is_dir(), reason="real files belong to others and are not kept here")
def test_shared_cases_are_read_or_asked_for():
    """Real files, where they are at hand."""
    expected = {
        "01_": 0.730, "04_": 0.658, "05_": 0.693, "06_": 0.858, "06b": 0.436, "07_": 0.693,
        "08_": 0.832, "10_": 0.785, "11_": 1.0, "12_": 1.0, "14_": 0.602, "15_": 0.730,
        "17_": 0.600, "18_": 0.2, "19_": 1.0,
    }  # fmt: skip
    for path in sorted(CASES.glob("[0-9]*")):
        correct, _ = read_predictions(path).correct("test")
        assert correct.mean() == pytest.approx(expected[path.name[:3]], abs=5e-4), path


# --- text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "label;p_a;p_b\na;0,75;0,25\nb;0,5;0,5\n",
        'label,probs\n0,"[0.75, 0.25]"\n1,"[0.5 0.5]"\n',
        "\ufefflabel,p_a,p_b\na,75%,25%\nb,50 %,50 %\n",
        ",label,p_a,p_b\n0,a,0.75,0.25\n1,b,0.5,0.5\n",
        "# model: a, b\n# 2026\nlabel,p_a,p_b\na,0.75,0.25\nb,0.5,0.5\n",
        "#label,p_a,p_b\na,0.75,0.25\nb,0.5,0.5\n",
    ],
)
def test_spreadsheets_and_printed_lists(text, tmp_path):
    found = read(File("own.csv", text.encode()), tmp_path)
    check(found, {"p": np.array([[0.75, 0.25], [0.5, 0.5]]), "test_labels": [0, 1]})


@pytest.mark.parametrize(
    ("separator", "cells", "values"),
    [
        (",", ["950", "1,050", "-12,345"], [950, 1050, -12345]),
        (",", ["0.5", "1,050.5", "2,345"], [0.5, 1050.5, 2345]),
        (",", ["0,500", "1,050", "-2,345"], [0.5, 1.05, -2.345]),  # others are decimal commas
        (",", ["2,5", "1,050", "-2,345"], [2.5, 1.05, -2.345]),
        (";", ["1,500", "1,050", "-2,345"], [1.5, 1.05, -2.345]),
        (";", ["950", "1,234,567", "-2,345.5"], [950, 1234567, -2345.5]),
    ],
)
def test_commas_are_of_thousands_or_of_decimals(separator, cells, values, tmp_path):
    rows = [f'{j % 2}{separator}"{cells[j % 3]}"' for j in range(12)]
    path = saved(File("own.csv", "\n".join([f"label{separator}value", *rows, ""])), tmp_path)
    np.testing.assert_allclose(readers.read_file(path).columns["value"].numbers, values * 4)


@pytest.mark.parametrize("kind", ["csv", "tsv", "txt", "jsonl", "json", "npz"])
def test_formats_say_the_same(kind, tmp_path):
    frame, sep = (
        of(["prob_0", "prob_1", "prob_2"], label=LABELS, note=1.5),
        {"tsv": "\t", "txt": ";"},
    )
    text = frame.to_csv(index=False, sep=sep.get(kind, ","))
    if kind.startswith("json"):
        text = frame.to_json(orient="records", lines=kind == "jsonl", double_precision=15)
        content = text if kind == "jsonl" else json.loads(text)
    else:
        content = {name: frame[name].to_numpy() for name in frame} if kind == "npz" else text
    want = {"p": P, "test_labels": LABELS, "says": "not used: 'note'"}
    check(read(File(f"own.{kind}", content), tmp_path), want)


# --- plain blocks are read as the careful reader reads them ---------------------------------------

ROWS, PLACE = 9000, 8000  # several blocks of three columns, and a row in the last of them
NUMBERS = [f"{v!r},{w:.3g},{k}\n" for v, w, k in zip(
    (RNG.normal(size=ROWS) * 10.0 ** RNG.integers(-320, 300, ROWS)).tolist(),
    RNG.normal(size=ROWS), RNG.integers(3, size=ROWS), strict=True)]  # fmt: skip
CHANGED = {
    "plain": NUMBERS[PLACE],
    "signs, spaces and infinity": " +1e400 , -inf,\t0002.50 \n",
    "nan": "nan,NaN,1\n",
    "an empty cell": "1,,3\n",
    "an underscore": "1_0,2,3\n",
    "other digits": "\u0661,2,3\n",
    "a word": "1,two,3\n",
    "percent": "1%,2,3\n",
    "a quote over lines": '1,"2\n",3\n',
    "quoted commas": '1,"2,5",3\n',
    "blank lines": "\n   \n,,\n1,2,3\n",
    "a row of fewer": "1,2\n",
    "a row of more": "1,2,3,4\n",
    "a comment": "# 1,2,3\n",
    "a hexadecimal": "0x10,2,3\n",
    "a zero byte": "1,\x002,3\n",
    "a long cell": "1," + "0" * 120_000 + "2,3\n",
}
FILES = {
    "no UTF-8": [*NUMBERS[:8900], b"1,\xff,3\n", *NUMBERS[8900:]],
    "no end": [*NUMBERS[:-1], "1,2,3"],
    "windows": [line.replace("\n", "\r\n") for line in NUMBERS],
    "words in a column": [f"w{i % 7}" + line[line.index(",") :] for i, line in enumerate(NUMBERS)],
    "words at the end": [line[:-2] + f" w{i % 7} \n" for i, line in enumerate(NUMBERS)],
} | {name: [*NUMBERS[:PLACE], row, *NUMBERS[PLACE + 1 :]] for name, row in CHANGED.items()}


def outcome(path):
    try:
        table = readers.read_file(path)
    except ValueError as error:
        return str(error)
    return [
        (c.name, c.numbers.tobytes(), None if c.codes is None else c.codes.tobytes(), c.words)
        for c in table.columns.values()
    ] + [table.lines.tolist(), table.notes]


@pytest.mark.parametrize("case", FILES)
def test_the_quick_way_reads_what_the_careful_one_does(case, tmp_path, monkeypatch):
    path, blocks, plain = tmp_path / "own.csv", [], tables.plain_blocks
    rows = [row if isinstance(row, bytes) else row.encode() for row in ["a,b,c\n", *FILES[case]]]
    path.write_bytes(b"".join(rows))

    def counted(*arguments):
        for block in plain(*arguments):
            blocks.append(len(block[0]))
            yield block

    monkeypatch.setattr(tables, "plain_blocks", counted)
    quick = outcome(path)
    assert blocks  # so that there is something to compare
    monkeypatch.setattr(tables, "plain_blocks", lambda *_: iter(()))
    assert quick == outcome(path)

"""Plain blocks are read as the careful reader reads them: the same bits, the same errors."""

import numpy as np
import pytest

from lib.report import readers, tables

N = 9000  # rows: several blocks of three columns
RNG = np.random.default_rng(0)
NUMBERS = [f"{v!r},{w:.3g},{k}\n" for v, w, k in zip(
    (RNG.normal(size=N) * 10.0 ** RNG.integers(-320, 300, N)).tolist(), RNG.normal(size=N),
    RNG.integers(3, size=N), strict=True)]  # fmt: skip


def changed(row, text):
    return [*NUMBERS[:row], text, *NUMBERS[row + 1 :]]


FILES = {
    "plain": NUMBERS,
    "signs, spaces and infinity": changed(8000, " +1e400 , -inf,\t0002.50 \n"),
    "nan": changed(8000, "nan,NaN,1\n"),
    "no end": [*NUMBERS[:-1], "1,2,3"],
    "windows": [line.replace("\n", "\r\n") for line in NUMBERS],
    "an empty cell": changed(8000, "1,,3\n"),
    "an underscore": changed(8000, "1_0,2,3\n"),
    "other digits": changed(8000, "\u0661,2,3\n"),
    "a word": changed(8000, "1,two,3\n"),
    "words in a column": [f"w{i % 7}" + line[line.index(",") :] for i, line in enumerate(NUMBERS)],
    "words at the end": [line[:-2] + f" w{i % 7} \n" for i, line in enumerate(NUMBERS)],
    "percent": changed(8000, "1%,2,3\n"),
    "a quote over lines": changed(8000, '1,"2\n",3\n'),
    "quoted commas": changed(8000, '1,"2,5",3\n'),
    "blank lines": changed(8000, "\n   \n,,\n1,2,3\n"),
    "a row of fewer": changed(8000, "1,2\n"),
    "a row of more": changed(8000, "1,2,3,4\n"),
    "a comment": changed(8000, "# 1,2,3\n"),
    "a hexadecimal": changed(8000, "0x10,2,3\n"),
    "a zero byte": changed(8000, "1,\x002,3\n"),
    "a long cell": changed(8000, "1," + "0" * 120_000 + "2,3\n"),
    "no UTF-8": [*NUMBERS[:8900], b"1,\xff,3\n", *NUMBERS[8900:]],
}


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
    path, blocks, read = tmp_path / "own.csv", [], tables.plain_blocks
    rows = [row if isinstance(row, bytes) else row.encode() for row in ["a,b,c\n", *FILES[case]]]
    path.write_bytes(b"".join(rows))

    def counted(*arguments):
        for block in read(*arguments):
            blocks.append(len(block[0]))
            yield block

    monkeypatch.setattr(tables, "plain_blocks", counted)
    quick = outcome(path)
    assert blocks  # so that there is something to compare
    monkeypatch.setattr(tables, "plain_blocks", lambda *_: iter(()))
    assert quick == outcome(path)

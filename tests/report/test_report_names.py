"""Names that others chose: what they may do to a terminal, a page, a figure or a spreadsheet."""

import csv
import io
import re
import sys
import unicodedata

import numpy as np
import pandas as pd
import pytest

from lib.book.render import csv_link
from lib.data import __main__ as data_command
from lib.data.untrusted import csv_text, printable, short
from lib.report import ModelPredictions, example_predictions, read_predictions, run_report
from lib.report.__main__ import main

#: Names that would clear the screen, forge a line, turn text round, hide, execute or draw.
HOSTILE = (
    "\x1b[2J\x1b[1;1Ha",
    "b\nPrivacy audit: PASSED",
    "c\r\x08\x7f\x9b31m",
    "\u202egnp.d",
    "e\u2066\u2069\u200f",
    "f\x00\u2028\u2029\ufeff",
    "<script>alert('g')</script>",
    '=HYPERLINK("http://h.example","h")',
    "@SUM(1)",
    "+i",
    "-j|cmd",
    "$\\frac{k}$",
    "{l!r} %s `l`",
    "\ud800m",
)


def shows_nothing_hidden(text):
    hidden = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    return hidden <= {"\n"}


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """A report on a file whose groups and features have all these names."""
    folder = tmp_path_factory.mktemp("names")
    arrays = read_predictions(example_predictions(folder / "all.npz", seed=1)).given
    kept = ("test", "other")  # an audit and other data have no names
    arrays = {name: array for name, array in arrays.items() if name.startswith(kept)}
    n, d = arrays["test_features"].shape
    arrays["test_groups"] = np.array(HOSTILE)[np.arange(n) % len(HOSTILE)]
    names = [HOSTILE[j % len(HOSTILE)] + str(j) for j in range(d)]
    given = ModelPredictions(**arrays, feature_names=names, source=printable("\x1b[31m/own\n.npz"))
    return run_report(given, learner="linear")


@pytest.fixture(scope="module")
def exported(reported, tmp_path_factory):
    return reported.export(tmp_path_factory.mktemp("out") / "out")


def test_terminal_files_and_page_show_what_is_there(reported, exported, tmp_path):
    assert "Privacy audit: PASSED" not in str(reported).splitlines()
    assert shows_nothing_hidden(str(reported))
    (page,) = reported.export(tmp_path / "page.html")
    for path in (page, *exported):
        text = path.read_text(encoding="utf-8")
        assert shows_nothing_hidden(text), path
        assert "<script" not in text or path.suffix in (".csv", ".txt"), path
    assert "&lt;script&gt;alert(" in page.read_text(encoding="utf-8")


def test_spreadsheets_execute_nothing(exported):
    seen = 0
    for path in exported:
        if path.suffix == ".csv":
            rows = csv.reader(io.StringIO(path.read_text(encoding="utf-8")))
            for cell in (cell for row in rows for cell in row):
                number = re.fullmatch(r"-?[\d.e+-]+|-inf", cell)
                assert number or not cell.startswith(tuple("=+-@\t\r")), (path, cell)
                seen += cell.startswith("'")
    assert seen >= 4


def test_numbers_stay_numbers():
    columns = {"=n": ["-1", "-1e-3", "+ 2"], "k": [-1, 2, 3], "o": [-1, "-a", None]}
    text = csv_text(pd.DataFrame({"x": [-1.5, np.nan, -np.inf]} | columns))
    rows = ["x,'=n,k,o", "-1.5,-1,-1,-1", ",-1e-3,2,'-a", "-inf,'+ 2,3,"]
    assert text.splitlines() == rows
    assert "YQonPTErMQo=" in csv_link(pd.DataFrame({"a": ["=1+1"]}), "x.csv")  # a, and '=1+1


def test_what_is_seen_stays_as_it_is():
    for text in ("a b", "é ü ß", "नमस्ते", "क्‍ष", "👩‍🔬", "x y", "C:\\x", "日本", "🫨"):
        assert printable(text) == text
    assert printable("\x1b\n\u202e\x00\ud800") == "\\x1b\\n\\u202e\\x00\\ud800"
    assert short("a \n b" * 100).count("\n") == 0
    assert len(short("\x1b" * 10**6)) < 110


def test_names_that_look_alike_are_told_apart_or_refused():
    with pytest.raises(ValueError, match="test_groups must be told apart"):
        ModelPredictions(test_groups=np.array(["\x1b", "\\x1b"]))
    with pytest.raises(ValueError, match="feature_names must be different"):
        ModelPredictions(test_features=np.eye(2), feature_names=("\x1b", "\\x1b"))


@pytest.mark.parametrize("code", [0x110000, 0xFFFFFFFF])
def test_what_is_no_character_is_named(code, tmp_path):
    words = np.frombuffer(np.array([code, 97], np.uint32).tobytes(), "<U1")
    np.savez(tmp_path / "own.npz", test_groups=words)
    with pytest.raises(ValueError, match=r"own.npz: test_groups"):
        read_predictions(tmp_path / "own.npz")


@pytest.mark.skipif(sys.platform != "linux", reason="names of files may be any bytes there")
@pytest.mark.parametrize(
    "name",
    ["\x1b[2J.npz", "a\nPrivacy audit: PASSED.csv", "\u202evsc.csv", "\udcff.npz", "\x1b.txt"],
)
@pytest.mark.parametrize("content", [b"part\n", None])
def test_errors_name_files_and_do_nothing_else(name, content, tmp_path, capsys):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    says_one_line([str(tmp_path / name)], capsys)


def says_one_line(arguments, capsys):
    assert main(arguments) == 2
    said = capsys.readouterr().err
    first, *more = said.splitlines()  # what an error goes on with is indented
    assert first.startswith("error: ")
    assert all(line.startswith("  ") for line in more)
    assert shows_nothing_hidden(said)
    said.encode()


def test_members_and_columns_are_shown_in_one_line(tmp_path, capsys):
    np.savez(tmp_path / "own.npz", **{"\x1b[31m\n\u202e": np.zeros(3)})
    (tmp_path / "own.csv").write_text('part,"\x1b\n\u202e"\n,\n', encoding="utf-8")
    (tmp_path / "cell.csv").write_text('part,label\n"te\x1b\u202est",1\n', encoding="utf-8")
    for file in ("own.npz", "own.csv", "cell.csv"):
        says_one_line([str(tmp_path / file)], capsys)
    with pytest.raises(SystemExit):
        data_command.main(["fetch", "\x1b[2J\n"])
    assert shows_nothing_hidden(capsys.readouterr().err)

"""Notebooks as people get them: whole by themselves, run again, checked by nbval itself."""

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import papermill
import pytest
import yaml
from papermill.exceptions import PapermillExecutionError
from papermill.iorw import NoDatesSafeLoader, read_yaml_file
from papermill.translators import papermill_translators

from lib.book.chapters import chapter_files, profile_parameters, read_chapter
from lib.book.execute import BuildError, require_one_lib
from lib.book.notebooks import MINE, VALUE_MIME, Surroundings, as_written, plain, with_own_values
from lib.book.papermill_io import ChapterHandler

ROOT = Path(__file__).parents[2]
BOOK = ROOT / "book"
SITE = "https://example.org/book/"
BIN = Path(sys.executable).parent

AROUND = Surroundings(
    "beyond/here",
    SITE,
    {"a2020": ("Able, 2020", "https://doi.org/1"), "b": ("Baker and Co, 2021", "")},
    {"eq-own": ("beyond/here", 2), "eq-far": ("far", 3)},
)


def test_a_chapter_that_was_read_is_its_readers_own():
    text = "# %%\nfirst = 1\n"
    read_chapter(text).cells[0]["source"] = "changed"
    assert read_chapter(text).cells[0].source == "first = 1"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{term}`a word`, {term}`words <a word>`", "a word, words"),
        ("{doc}`page </far>`", f"[page]({SITE}far.html)"),
        (
            "{cite}`a2020,b`, {cite:t}`a2020`",
            "([Able, 2020](https://doi.org/1); Baker and Co, 2021), [Able (2020)](https://doi.org/1)",
        ),
        ("Eq. {eq}`eq-own`, {eq}`eq-far`", f"Eq. (2), [(3)]({SITE}far.html#equation-eq-far)"),
        ("judged: {claim}`P1-a`", f"judged: [verdict]({SITE}reproduces.html)"),
        ("{py:obj}`~lib.a.b`, {py:obj}`lib.a`", "`b`, `lib.a`"),
        ("`{term}`, `x <y>`, {unknown}`x`", "`{term}`, `x <y>`, {unknown}`x`"),
        ("$$\na\n$$ (eq-own)", "$$\na \\tag{2}\n$$"),
        ("(here)=\n## Title", "## Title"),
        ("[a](../far.py), [b](c.py#d)", f"[a]({SITE}far.html), [b]({SITE}beyond/c.html#d)"),
        ("[a](#what-holds), [b](#else), [c](https://d.e)", "[a](#What-holds), b, [c](https://d.e)"),
        (
            "```{list-table}\n:header-rows: 1\n\n* - a\n  - b\n* - c |\n    d\n  - e\n```",
            "| a | b |\n| --- | --- |\n| c \\| d | e |",
        ),
        ("```{list-table} T\n\n* - a\n* - b\n```", "*T*\n\n| a |\n| --- |\n| b |"),
        ("```{margin}\n**A.** {term}`b`.\n\nC.\n```\nD.", "> **A.** b.\n> \n> C.\nD."),
        (":::{margin}\nA.\n:::", "> A."),
        ("One.\n\n```{benchmarks} Opacus\n```\n\nTwo.", "One.\n\nTwo."),
    ],
)  # fmt: skip
def test_what_only_a_book_knows_has_plain_words(text, shown):
    assert plain(text, AROUND, ["What holds"]) == shown


def test_what_is_elsewhere_is_said_to_be():
    assert re.fullmatch(r"\*\(.*below.*\)\*", plain("```{result} two\n```", AROUND))
    links = "[a](b.py), {doc}`c`, [d](https://e.f)"  # of a site without an address
    assert plain(links, Surroundings()) == "a, c, [d](https://e.f)"


LEFT = re.compile(
    r"\{[a-z:-]+\}`[^`]*`|^```\{.*|\$\$ \(.*|^\(.*\)=$|\]\([^)]*\.(?:py|md)[^)]*\)", re.M
)


@pytest.mark.parametrize("chapter", chapter_files(BOOK))
def test_nothing_is_left_of_any_chapter_and_its_own_text_comes_back(chapter):
    path = chapter_files(BOOK)[chapter]
    source = read_chapter(path.read_text(encoding="utf-8"))
    source.metadata[MINE] = {"page": path.relative_to(BOOK).with_suffix("").as_posix()}
    whole = nbformat.reads(with_own_values(nbformat.writes(source), BOOK, SITE), as_version=4)
    nbformat.validate(whole)
    prose = [cell.source for cell in whole.cells if cell.cell_type == "markdown"]
    assert [found for text in prose for found in LEFT.findall(text)] == []
    assert [c.source for c in as_written(whole).cells] == [c.source for c in source.cells]


def notebook(share):
    """As papermill hands it over to be written."""
    shown = [] if share is None else [{VALUE_MIME: {"name": "share", "value": share}}]
    outputs = [nbformat.v4.new_output("display_data", metadata={MINE: own}) for own in shown]
    text = "{value}`one.share:.0%` of {value}`two.n:d`, {value}`two@standard.small.n:d`."
    cells = [nbformat.v4.new_markdown_cell(text), nbformat.v4.new_code_cell("", outputs=outputs)]
    return nbformat.v4.new_notebook(cells=cells, metadata={MINE: {"page": "one"}})


@pytest.mark.parametrize(
    ("share", "shown"), [(0.25, "25% of 7, 3."), ("inf", "∞% of 7, 3."), (None, "— of 7, 3.")]
)
def test_prose_has_the_numbers_of_its_run_and_of_records(share, shown, monkeypatch, tmp_path):
    runs = {"standard": {"values": {"n": 7}}, "standard.small": {"values": {"n": 3}}}
    monkeypatch.setattr("lib.book.records.read_records", lambda book, chapter: runs)
    monkeypatch.setattr("lib.book.records.by_size", sorted)
    text = with_own_values(nbformat.writes(notebook(share)), tmp_path, "")
    done = nbformat.reads(text, as_version=4)
    assert done.cells[0].source == shown
    assert done.cells[1].outputs == []  # a value is nothing that a viewer could show
    assert with_own_values(text, tmp_path, "") == text
    assert as_written(done).metadata[MINE] == {"page": "one"}  # the old values are gone
    done.cells[0].source += " My note."
    assert as_written(done).cells[0].source.endswith("My note.")  # what somebody has written stays
    others = json.dumps({**json.loads(text), "metadata": {}})  # no notebook of a chapter
    assert with_own_values(others, tmp_path, "") == others


# ------------------------------------------------------------------ what papermill says


def as_given(text: str | bytes):
    """The values of ``-y``, or of ``-b`` if these are bytes, as papermill reads them."""
    text = base64.b64decode(text) if isinstance(text, bytes) else text
    return yaml.load(text, Loader=NoDatesSafeLoader)  # noqa: S506 - as papermill calls it


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a: [1", "error: ParameterError: no YAML at line 1, column 6: "),
        (b"x", "error: ParameterError: what follows -b must be YAML in base64: "),
        (base64.b64encode(b"\xff: 1"), "error: ReaderError: "),
        ("[1]", "error: ParameterError: parameters must be like `margin: 0.01`"),
        ("2020-01-01", "error: ParameterError: parameters must be like `margin: 0.01`"),
        (BuildError("two lines,\n as one"), "error: BuildError: two lines, as one\n"),
        (FileNotFoundError(2, "No", "x.py"), "error: FileNotFoundError: [Errno 2] No: 'x.py'\n"),
        (
            PapermillExecutionError(5, 3, "source", "ParameterError", "no\nway", ["at\nno way"]),
            "error in cell [3]: ParameterError: no\nway\nat\nno way\n",
        ),
        (KeyError("x"), "error: KeyError: 'x'\nKeyError: 'x'\n"),  # a fault of papermill's
    ],
)
def test_papermill_says_first_what_went_wrong(given, said, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/some/where/papermill", "a.py", "b.ipynb"])
    if not isinstance(given, Exception):
        with pytest.raises((ValueError, yaml.YAMLError)) as caught:
            as_given(given)
        given = caught.value
    sys.excepthook(type(given), given, None)
    assert capsys.readouterr().err.startswith(said)
    monkeypatch.setattr(sys, "argv", ["mine.py"])  # which calls papermill
    sys.excepthook(type(given), given, None)
    assert not capsys.readouterr().err.startswith("error")


def assigned(parameters: dict) -> dict:
    """What a notebook has after the cell that papermill makes of parameters."""
    namespace: dict = {}
    exec(papermill_translators.find_translator("python3", "python").codify(parameters), namespace)
    found = {name: namespace[name] for name in parameters}
    assert repr(found) == repr(parameters)  # NaN is no equal of itself
    return found


def test_values_that_are_hard_to_write_arrive_as_they_are():
    text = "{a: .inf, b: -.inf, c: .nan, d: [1, 2.5, .inf], e: 'it''s {x}', f: null, g: yes, h: ü}"
    assigned(as_given(text))
    assert as_given("") is None


def test_each_parameter_file_reaches_a_chapter_by_papermill_as_it_is():
    """As ``-f`` reads it, and as a cell that papermill makes of it."""
    files = sorted(ROOT.glob("params/*/*.yml"))
    assert len(files) > 80
    for path in files:
        given = read_yaml_file(str(path)) or {}
        assert given == profile_parameters(ROOT / "params", path.parent.name, path.stem)
        assigned(given)


def test_no_chapter_is_written_over():
    with pytest.raises(BuildError, match=r"output = 'book/audit.py' must end in \.ipynb"):
        ChapterHandler.write("{}", "book/audit.py")


# ------------------------------------------------------------------ papermill and nbval themselves

TEXT = """# %% [markdown]
# # One
# {value}`one.twice:d` is twice {value}`one.n:d`, see {term}`x`.

# %% tags=["parameters"]
n: int = 2  # [1, 9] what is doubled

# %%
from lib.book.session import open_chapter

chapter = open_chapter("one", globals())
chapter.values(n=n, twice=2 * n)
_ = chapter.check("ONE", 2 * n)
"""
CLAIM = """- id: ONE
  paper: P1
  chapter: one
  place: nowhere
  claim: Twice two is four.
  kind: exact
  reported: 4
  tolerance: 0
  why: It is.
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A book elsewhere, in a folder with a name that shells and URLs find hard."""
    root = tmp_path_factory.mktemp("Bücher und mehr")
    (root / "book" / "beyond").mkdir(parents=True)
    (root / "book" / "beyond" / "one.py").write_text(TEXT, encoding="utf-8")
    (root / "book" / "claims.yml").write_text(CLAIM, encoding="utf-8")
    toc = "format: jb-book\nroot: index\nchapters:\n  - file: beyond/one\n"
    (root / "book" / "_toc.yml").write_text(toc, encoding="utf-8")
    (root / "elsewhere").mkdir()
    return root


def run(folder: Path, *command: str) -> subprocess.CompletedProcess:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("COMPANION_")}
    environment = kept | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8",
    )  # fmt: skip


def prose(text: str) -> str:
    return nbformat.reads(text, as_version=4).cells[0].source


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The specified file")  # as the handler asks papermill to
def test_papermill_from_anywhere_again_and_nbval(place, monkeypatch, capsys):
    """By three paths, to a file and to standard output; then what it wrote, run and checked."""
    monkeypatch.chdir(place / "elsewhere")
    monkeypatch.setenv("COMPANION_BOOK", "put back, as reading a chapter sets it")
    monkeypatch.delenv("COMPANION_BOOK")
    folder, absolute = place / "elsewhere", str(place / "book" / "beyond" / "one.py")
    done = run(folder, "papermill", "../book/beyond/one.py", "-")
    assert prose(done.stdout) == "# One\n4 is twice 2, see x.", done.stderr
    assert "reproduced" in done.stdout  # the claim was found, and judged
    (folder / "out.ipynb").write_text(done.stdout, encoding="utf-8")
    papermill.execute_notebook("out.ipynb", "again.ipynb", {"n": 4}, progress_bar=False)
    again = (folder / "again.ipynb").read_text(encoding="utf-8")
    assert prose(again) == "# One\n8 is twice 4, see x."
    with pytest.raises(PapermillExecutionError) as caught:
        papermill.execute_notebook(absolute, "bad.ipynb", {"n": 10}, progress_bar=False)
    said = "ParameterError: parameter n = 10 is not allowed"
    monkeypatch.setattr(sys, "argv", ["/some/where/papermill", absolute, "bad.ipynb"])
    sys.excepthook(caught.type, caught.value, None)
    told = capsys.readouterr().err
    assert f"error in cell [3]: {said}" in told
    assert "Traceback" not in told
    bad = (folder / "bad.ipynb").read_text(encoding="utf-8")
    assert f"In [3]</a>'.</span>\n\n```\n{said}" in prose(bad)
    monkeypatch.chdir(place / "book")
    for path in ("beyond/one.py", absolute):
        read = papermill.iorw.load_notebook_node(path)
        assert read.metadata[MINE]["page"] == "beyond/one"
        assert os.environ.pop("COMPANION_BOOK") == str(place / "book")
    text = (folder / "out.ipynb").read_text(encoding="utf-8")
    changes = ("", ""), ("2 * n", "3 * n"), ('"n: int', '"m: int = 1\\n", "n: int')
    whole = nbformat.reads(text, as_version=4)
    whole.cells = []
    for old, new in changes:  # all in one kernel
        assert old in text
        changed = nbformat.reads(text.replace(old, new) if old else text, as_version=4).cells
        whole.cells += [cell for cell in changed if cell.cell_type == "code"]
    for number, cell in enumerate(whole.cells):
        cell.id = f"cell-{number}"
    nbformat.write(whole, folder / "all.ipynb")
    command = "pytest", "--nbval", "-rA", "-p", "no:cacheprovider", str(folder / "all.ipynb")
    checked = run(place, *command).stdout
    assert "2 failed, 4 passed" in checked, checked
    assert re.findall(r"^FAILED .*::Cell (\d+)", checked, re.M) == ["3", "5"]
    assert "ParameterError: unknown parameter m = 1" in checked


def test_a_book_with_a_lib_of_its_own_takes_no_other(tmp_path):
    (tmp_path / "lib" / "book").mkdir(parents=True)
    (tmp_path / "lib" / "book" / "execute.py").touch()
    with pytest.raises(BuildError) as caught:
        require_one_lib(tmp_path / "book")
    assert str(tmp_path / "lib") in str(caught.value)
    assert str(ROOT / "lib") in str(caught.value)
    require_one_lib(BOOK)

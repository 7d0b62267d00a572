"""A chapter outside the build: run as a script or in a shell, with claims and a recorded run."""

import json
import math

import pandas as pd
import pytest
import yaml
from matplotlib import pyplot as plt

from lib.book import session
from lib.book.chapters import (
    chapter_files,
    code_cells,
    computed_by,
    declared_parameters,
    read_chapter,
)
from lib.book.claims import ClaimError
from lib.book.evidence import Evidence, runs
from lib.book.execute import FIGURE_MIME, TABLE_MIME, VALUE_MIME, VERDICT_MIME
from lib.book.notebooks import bundle_of
from lib.book.parameters import ParameterError
from lib.book.records import read_records
from lib.book.session import open_chapter

TEXT = """# %% tags=["parameters"]
base: float = 2.0  # [0, 100] what is doubled
names: list[str] = ["a"]  # {a, b} labels

# %%
from lib.book.session import open_chapter
"""
BASE = {"paper": "P1", "chapter": "one", "place": "Table 1", "claim": "So.", "why": "arithmetic."}
GROUP = {"kind": "trend", "across": "seeds", "at_most": 0.05, "group": "G"}
CLAIMS = [
    BASE | {"id": "T-1", "kind": "exact", "reported": 4.0, "tolerance": 0.001},
    BASE | {"id": "T-2", "kind": "trend", "across": "seeds", "at_least": 5.0},
    BASE | GROUP | {"id": "G-1", "reported": 7.0, "sd": 0.5},
    BASE | GROUP | {"id": "G-2", "reported": 8.0},
    BASE | {"id": "O-1", "kind": "exact", "at_least": 0.0, "chapter": "other"},
]
RECORD = {
    **{"chapter": "one", "profile": "standard", "parameters": {"base": 3.0}, "values": {}},
    **{"tables": {}, "verdicts": [], "code": "0" * 64, "source": "1" * 64, "data": {}},
    **{"python": "3.11", "packages": {}, "hardware": {}, "finished": "2026-01-02T03:04:05"},
    **{"seconds": 90.0, "commit": "", "figures": {}},
}


@pytest.fixture
def book(tmp_path, monkeypatch):
    folder = tmp_path / "book"
    folder.mkdir()
    (folder / "one.py").write_text(TEXT)
    (folder / "claims.yml").write_text(yaml.safe_dump(CLAIMS))
    for profile, base in (("quick", 2.0), ("standard", 3.0)):
        (tmp_path / "params" / profile).mkdir(parents=True)
        (tmp_path / "params" / profile / "one.yml").write_text(f"base: {base}\n")
    monkeypatch.setenv("COMPANION_BOOK", str(folder))
    return folder


@pytest.fixture
def chapter(book, capsys):
    made = open_chapter("one", {"__file__": str(book / "one.py")})
    capsys.readouterr()
    return made


@pytest.fixture
def shown(monkeypatch):
    """What a shell would have been given to show."""
    bundles = []
    monkeypatch.setattr(session, "get_ipython", lambda: object())
    monkeypatch.setattr(
        session,
        "display",
        lambda data, raw, metadata: bundles.append(bundle_of({"data": data, "metadata": metadata})),
    )
    return bundles


# ------------------------------------------------------------------ parameters


@pytest.mark.parametrize(
    ("base", "command"),
    [(5, "-y '{base: 5.0, names: [a]}'"), (2.0, "quick/one.yml"), (3.0, "standard/one.yml")],
)
def test_a_script_has_its_parameters_and_prints_the_command_of_these(book, capsys, base, command):
    namespace = {"__file__": str(book / "one.py"), "base": base}
    assert open_chapter("one", namespace).parameters == {"base": float(base), "names": ["a"]}
    assert type(namespace["base"]) is float
    out = capsys.readouterr().out
    assert "what is doubled" in out
    assert out.strip().endswith(command)


def test_in_a_shell_the_last_declarations_count_and_what_papermill_injected(book, monkeypatch):
    def opened(*sources, **namespace):
        shell = type("Shell", (), {"user_ns": {"In": ["", *sources]}, "user_ns_hidden": {"In": []}})
        monkeypatch.setattr(session, "get_ipython", shell)
        monkeypatch.setattr(session, "display", lambda *_, **__: None)
        return open_chapter("one", namespace).parameters

    declared, injected = "base: float = 2.0  # [0, 100] what is doubled", "# Parameters\nbase = 7.0"
    assert opened("%matplotlib inline", declared, "open_chapter()", base=2.5) == {"base": 2.5}
    assert opened("import numpy", "%time 1") == opened() == {}
    assert opened(declared, injected, "open_chapter()", base=7.0) == {"base": 7.0}
    with pytest.raises(ParameterError, match="bas"):
        opened(declared, injected.replace("base", "bas"), base=2.0, bas=7.0)
    # nbval keeps no history: the chapter's file has the declarations.
    (book / "_toc.yml").write_text("format: jb-book\nroot: index\nchapters: [{file: one}]\n")
    given = {"In": [], "_i": "", "names": ["b"], "open_chapter": open_chapter}
    assert opened(**given) == {"base": 2.0, "names": ["b"]}
    with pytest.raises(ParameterError, match="base"):
        opened(**given, base=101.0)


def test_a_script_has_the_book_that_it_is_in(book, monkeypatch, capsys):
    monkeypatch.delenv("COMPANION_BOOK")
    opened = open_chapter("one", {"__file__": str(book / "one.py")})
    assert opened.claims() == ["T-1", "T-2", "G-1", "G-2"]


def test_without_its_book_a_chapter_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv("COMPANION_BOOK", raising=False)
    monkeypatch.setattr(session.lib, "__file__", str(tmp_path / "packages" / "lib" / "__init__.py"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match=r"chapter one is not here: .* set COMPANION_BOOK"):
        open_chapter("one", {})


# ------------------------------------------------------------------ values, tables, figures


def test_values_are_named_and_those_that_change_from_run_to_run_left_out(chapter, shown):
    chapter.values(n=3, share=pd.Series([0.12345]).iloc[0], word="yes")
    chapter.values(volatile=True, seconds=1.5)
    assert chapter.numbers(2) == "n = 3\nshare = 0.12\nword = yes"
    assert shown[0][VALUE_MIME] == {"name": "n", "value": 3}
    assert type(shown[1][VALUE_MIME]["value"]) is float
    chapter.values(delay=math.inf)
    assert shown[4][VALUE_MIME] == {"name": "delay", "value": "inf"}  # JSON has no infinity
    for bad in (float("nan"), [1], None):
        with pytest.raises(ValueError, match="value x"):
            chapter.values(x=bad)


def test_tables_have_a_download_with_all_digits(chapter, shown):
    frame = pd.DataFrame({"a": [1.23456789]}, index=pd.Index(["x"], name="row"))
    chapter.table(frame, "numbers", "Caption <1>", {"a": ".2f"})
    (bundle,) = shown
    assert "Caption &lt;1&gt;" in bundle["text/html"]
    about = bundle[TABLE_MIME]
    assert (about["csv"], about["texts"]) == ("row,a\nx,1.23456789\n", ["row"])
    chapter.table(pd.DataFrame({"b": [1]}), "digest", "", csv=frame.reset_index())
    assert shown[1][TABLE_MIME]["csv"] == "b\n1\n"
    assert shown[1][TABLE_MIME]["whole"] == "row,a\nx,1.23456789\n"


def test_figures_are_the_same_file_twice_and_need_words(chapter, shown):
    for _ in range(2):
        figure, ax = plt.subplots()
        ax.plot([1, 2])
        chapter.figure(figure, "line", 'a "line"', "It <rises>.")
        assert not plt.fignum_exists(figure.number)
    assert shown[0] == shown[1]
    assert "alt='a &quot;line&quot;'" in shown[0]["text/html"]
    assert "id='figure-line'" in shown[0]["text/html"]
    with pytest.raises(ValueError, match="alternative text"):
        chapter.figure(plt.figure(), "line", " ", "")
    chapter.figure(plt.figure(), "line", "a line", "It rises.")
    assert shown[-1]["text/html"].startswith("<figure ")  # no figure is folded
    assert FIGURE_MIME in shown[-1]
    chapter.figure(plt.figure(), "line", "a line", "It rises.", theory=True)
    assert set(shown[-1]) == {"text/html", "text/plain"}


def test_notes_are_printed_by_a_script_and_boxed_on_a_page(chapter, capsys, shown, monkeypatch):
    chapter.note("See `lib`.")
    assert "<code>lib</code>" in shown[0]["text/html"]
    monkeypatch.setattr(session, "get_ipython", lambda: None)
    chapter.note("See `lib`.")
    assert capsys.readouterr().out == "See `lib`.\n"


# ------------------------------------------------------------------ claims


def test_claims_are_settled_once_and_known(chapter, capsys):
    assert chapter.claims() == ["T-1", "T-2", "G-1", "G-2"]
    assert chapter.reported("G") == {"G-1": (7.0, 0.5), "G-2": (8.0, 0.0)}
    assert chapter.check("T-1", 4.0).verdict == "reproduced"
    for bad, said in (("T-1", "settled already"), ("T2", "'T-2'"), ("zzzz", "of one$")):
        with pytest.raises(ClaimError, match=said):
            chapter.check(bad, 4.0)
    with pytest.raises(ClaimError, match="zzzz"):
        chapter.not_run(["zzzz"], "no time")
    chapter.not_run(["T-2"], "no time")
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("✓ T-1: reproduced")
    assert second.startswith("– T-2: cannot be checked")


def test_claims_of_a_prefix_are_settled_together_or_not_at_all(chapter, capsys):
    for prefix, missing in (("T-", "T-2"), ("X-", "X-")):
        with pytest.raises(ClaimError, match=f"'{missing}'"):
            chapter.settle(prefix, {"1": 4.0} if prefix == "T-" else {})
    chapter.settle("T-1", lambda: {"": 4.0})
    chapter.settle("T-2", lambda: 1 / 0, unless="no time")  # not computed
    found = [line.split(": ")[:2] for line in capsys.readouterr().out.splitlines()]
    assert found == [["✓ T-1", "reproduced"], ["– T-2", "cannot be checked"]]


def test_what_stands_in_for_a_parameter_decides_about_the_scale(book):
    (book / "claims.yml").write_text(yaml.safe_dump([CLAIMS[0] | {"full_scale": {"base": 2.0}}]))
    chapter = open_chapter("one", {"__file__": str(book / "one.py")})
    with pytest.raises(ValueError, match="bass"):
        chapter.uses(bass=1.0)
    chapter.uses(base=1.0)
    assert chapter.parameters["base"] == 2.0
    assert chapter.check("T-1", 4.0).reason == "base = 1.0 instead of 2.0"


def test_cells_of_a_group(chapter, shown):
    for group, given, missing in (("G", {"G-1": (0.01, 7.1)}, "G-2"), ("H", {}, "H")):
        with pytest.raises(ClaimError, match=f"'{missing}'$"):
            chapter.check_cells(group, given, "Cells")
    sure = Evidence(0.01, 0.0, 0.02, 5)
    found = chapter.check_cells("G", {"G-2": "no data", "G-1": (sure, 7.1)}, "Cells")
    assert [(v.id, v.verdict, v.value, v.shown) for v in found] == [
        ("G-1", "reproduced", 0.01, 7.1),
        ("G-2", "cannot be checked", None, None),
    ]
    assert len(shown[0]["text/plain"].splitlines()) == 3
    assert [bundle[VERDICT_MIME]["id"] for bundle in shown[1:]] == ["G-1", "G-2"]
    assert shown[1][VERDICT_MIME]["interval"] == [0.0, 0.02]


def test_cells_show_what_decides_unless_told_otherwise(chapter):
    found = chapter.check_cells("G", {"G-1": runs([0.0, 14.2]), "G-2": (0.01, 8.1)}, "Cells")
    assert [(v.verdict, v.shown) for v in found] == [("undecided", 7.1), ("undecided", 8.1)]


# ------------------------------------------------------------------ files


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "JSON"),
        ("[]", "exactly"),
        (json.dumps(RECORD | {"more": 1}), "exactly"),
        (json.dumps(RECORD | {"profile": "gpu"}), "profile gpu"),
        (json.dumps(RECORD | {"chapter": "two"}), "chapter two"),
    ],
)
def test_damaged_records_are_refused(book, text, message):
    path = book / "records" / "standard" / "one.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(RECORD))
    assert read_records(book, "one")["standard"]["parameters"] == {"base": 3.0}
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_records(book, "one")


def test_chapters_are_those_of_the_table_of_contents(book):
    toc = {"root": "index", "parts": [{"chapters": [{"file": "one.py"}, {"file": "missing"}]}]}
    (book / "_toc.yml").write_text(yaml.safe_dump({"format": "jb-book"} | toc))
    (book / "index.md").write_text("# Index\n")
    assert chapter_files(book) == {"one": book / "one.py"}
    notebook = read_chapter(TEXT)
    assert [cell["id"] for cell in notebook.cells] == ["cell-0", "cell-1"]
    assert code_cells(notebook)[0]["tags"] == ["parameters"]
    assert [p.name for p in declared_parameters(notebook)] == ["base", "names"]
    with pytest.raises(ValueError, match="Lost words"):
        read_chapter("# %% [markdown] Lost words\n# and others\n")
    with pytest.raises(ParameterError, match="2 cells"):
        declared_parameters(read_chapter(TEXT + TEXT))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("x = 1", "# One.\nx = 1  # it is\n\n# So.", True),
        ("if x:\n    y", "if x:  # when\n    # then\n\n    y", True),
        ("f(\n    1,\n)", "f(  # called\n    1,\n\n)", True),
        ("x", "x;  # not shown", False),
        ("x = '# a'", "x = '# b'", False),
        ('"""a\n"""', '"""a\n\n"""', False),
        ("if x:\n    y\nz", "if x:\n    y\n    z", False),
        ("!ls # a", "!ls # b", False),
        ("x = 1", "x = 1.0", False),
    ],
)
def test_comments_of_a_cell_decide_nothing(one, other, same):
    """But in the cell that declares parameters; a tag decides unless it only shows or hides."""
    first, second = ({"source": source, "tags": []} for source in (one, other))
    assert (computed_by(first) == computed_by(second)) == same
    declares = [each | {"tags": ["parameters"]} for each in (first, second)]
    assert computed_by(declares[0]) != computed_by(declares[1])
    assert computed_by(first | {"tags": ["hide-input", "lesson", "remove-output"]}) == computed_by(
        first
    )
    assert computed_by(first | {"tags": ["raises-exception"]}) != computed_by(first)

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
    declared_parameters,
    profile_parameters,
    read_chapter,
)
from lib.book.claims import ClaimError
from lib.book.evidence import Evidence, runs
from lib.book.execute import FIGURE_MIME, TABLE_MIME, VALUE_MIME, VERDICT_MIME
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


def record(**changes):
    fields = {
        "chapter": "one",
        "profile": "standard",
        "parameters": {"base": 3.0},
        "values": {"double": 6.0},
        "tables": {"numbers": "a,b\n1,0.5\n"},
        "verdicts": [{"id": "T-1", "verdict": "reproduced", "value": 4.0, "reason": ""}],
        "code": "0" * 64,
        "data": {},
        "python": "3.11",
        "packages": {},
        "hardware": {"cores": 2, "processor": "a chip"},
        "finished": "2026-01-02T03:04:05",
        "seconds": 90.0,
        "commit": "",
        "source": "1" * 64,
        "figures": {},
    }
    return fields | changes


@pytest.fixture
def book(tmp_path, monkeypatch):
    folder = tmp_path / "book"
    (folder / "records" / "standard").mkdir(parents=True)
    (folder / "one.py").write_text(TEXT)
    (folder / "claims.yml").write_text(yaml.safe_dump(CLAIMS))
    (folder / "records" / "standard" / "one.json").write_text(json.dumps(record()))
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
    monkeypatch.setattr(session, "display", lambda bundle, raw: bundles.append(bundle))
    return bundles


# ------------------------------------------------------------------ parameters


def test_a_script_has_the_parameters_that_its_file_declares(book, capsys):
    namespace = {"__file__": str(book / "one.py"), "base": 5}
    chapter = open_chapter("one", namespace)
    assert chapter.parameters == {"base": 5.0, "names": ["a"]}
    assert namespace["base"] == 5.0
    assert isinstance(namespace["base"], float)
    out = capsys.readouterr().out
    assert "what is doubled" in out
    assert out.splitlines()[-1].endswith("-y '{base: 5.0, names: [a]}'")


@pytest.mark.parametrize(
    ("base", "command"),
    [
        (2.0, "papermill book/one.py out.ipynb -f params/quick/one.yml"),
        (3.0, "papermill book/one.py out.ipynb -f params/standard/one.yml"),
    ],
)
def test_the_command_names_the_profile_that_has_these_parameters(book, base, command):
    chapter = open_chapter("one", {"__file__": str(book / "one.py"), "base": base})
    assert chapter.command() == command


def test_a_chapter_without_parameters(book, shown, monkeypatch):
    monkeypatch.setattr(session, "get_ipython", lambda: None)
    (book / "two.py").write_text("# %%\nx = 1\n")
    chapter = open_chapter("two", {"__file__": str(book / "two.py")})
    assert chapter.command() == "papermill book/two.py out.ipynb"
    monkeypatch.setattr(session, "get_ipython", lambda: object())
    chapter.show_parameters()
    assert "This chapter has no parameters" in shown[-1]["text/html"]


class Shell:
    def __init__(self, *sources):
        self.user_ns = {"In": ["", *sources]}


DECLARED = "base: float = 2.0  # [0, 100] what is doubled"


def test_in_a_shell_the_last_declarations_count_and_what_papermill_injected(book, monkeypatch):
    def opened(*sources, **namespace):
        monkeypatch.setattr(session, "get_ipython", lambda: Shell(*sources))
        monkeypatch.setattr(session, "display", lambda bundle, raw: None)
        return open_chapter("one", namespace)

    assert opened("%matplotlib inline", DECLARED, "open_chapter()", base=2.5).parameters == {
        "base": 2.5
    }
    assert opened("import numpy", "%time 1").parameters == {}
    assert opened().parameters == {}
    injected = "# Parameters\nbase = 7.0\n"
    assert opened(DECLARED, injected, "open_chapter()", base=7.0).parameters == {"base": 7.0}
    with pytest.raises(ParameterError, match="bas"):
        opened(DECLARED, "# Parameters\nbas = 7.0\n", base=2.0, bas=7.0)
    with pytest.raises(ParameterError, match=r"base.*\[0, 100\]"):
        opened(DECLARED, "", base=101.0)


# ------------------------------------------------------------------ values, tables, figures


def test_values_are_named_and_those_that_change_from_run_to_run_left_out(chapter, shown):
    chapter.values(n=3, share=pd.Series([0.12345]).iloc[0], word="yes")
    chapter.values(volatile=True, seconds=1.5)
    assert chapter.numbers(2) == "n = 3\nshare = 0.12\nword = yes"
    assert shown[0][VALUE_MIME] == {"name": "n", "value": 3}
    assert type(shown[1][VALUE_MIME]["value"]) is float
    assert shown[3][VALUE_MIME] == {"name": "seconds", "value": 1.5}
    chapter.values(delay=math.inf)
    assert shown[4][VALUE_MIME] == {"name": "delay", "value": "inf"}  # JSON has no infinity
    assert chapter.numbers().endswith("delay = inf")
    for bad in (float("nan"), [1], None):
        with pytest.raises(ValueError, match=r"value x = .* must be a number \(not NaN\)"):
            chapter.values(x=bad)


def test_tables_have_a_download_with_all_digits(chapter, shown, capsys):
    frame = pd.DataFrame({"a": [1.23456789]}, index=pd.Index(["x"], name="row"))
    chapter.table(frame, "numbers", "Caption <1>", {"a": ".2f"})
    (bundle,) = shown
    assert "1.23<" in bundle["text/html"]
    assert "Caption &lt;1&gt;" in bundle["text/html"]
    assert "download='one_numbers.csv'" in bundle["text/html"]
    assert bundle[TABLE_MIME] == {
        "name": "numbers",
        "csv": "row,a\nx,1.23456789\n",
        "caption": "Caption <1>",
        "formats": {"a": ".2f"},
        "aside": False,
        "texts": ["row"],
    }
    assert "<details" not in bundle["text/html"]
    chapter.table(frame, "aside", "Aside", aside=True)
    assert "<summary>Aside (1 row)</summary>" in shown.pop()["text/html"]
    chapter.table(frame[:0], "empty", "Empty")
    assert shown.pop()[TABLE_MIME]["texts"] == []  # nothing is known of them
    digest = pd.DataFrame({"b": [1]})
    chapter.table(digest, "digest", "", csv=frame.reset_index())
    assert shown[1][TABLE_MIME]["csv"] == "b\n1\n"
    assert shown[1][TABLE_MIME]["whole"] == frame.reset_index().to_csv(index=False)
    assert "<caption>" not in shown[1]["text/html"]


def test_figures_are_the_same_file_twice_and_need_words(chapter, shown):
    def drawn():
        figure, ax = plt.subplots()
        ax.plot([1, 2])
        chapter.figure(figure, "line", 'a "line"', "It <rises>.")
        assert not plt.fignum_exists(figure.number)
        return shown[-1]

    first = drawn()
    assert first == drawn()
    assert "alt='a &quot;line&quot;'" in first["text/html"]
    assert "id='figure-line'" in first["text/html"]
    assert first["text/plain"] == '[figure line: a "line"]'
    assert "<details" not in first["text/html"]
    with pytest.raises(ValueError, match="figure line needs alternative text, not ' '"):
        chapter.figure(plt.figure(), "line", " ", "")
    chapter.figure(plt.figure(), "line", "a line", "It rises.", aside="A <line>")
    folded = "<details class='companion-rows'><summary>A &lt;line&gt;</summary><figure "
    assert shown[-1]["text/html"].startswith(folded)
    assert FIGURE_MIME in shown[-1]
    chapter.figure(plt.figure(), "line", "a line", "It rises.", theory=True)
    assert set(shown[-1]) == {"text/html", "text/plain"}


def test_notes_are_printed_by_a_script_and_boxed_on_a_page(chapter, capsys, shown, monkeypatch):
    chapter.note("See `lib`.")
    assert "<code>lib</code>" in shown[0]["text/html"]
    monkeypatch.setattr(session, "get_ipython", lambda: None)
    chapter.note("See `lib`.")
    chapter.values(n=1)  # has no words of its own
    assert capsys.readouterr().out == "See `lib`.\n"


# ------------------------------------------------------------------ claims


def test_claims_are_settled_once_and_known(chapter, capsys):
    assert chapter.claims() == ["T-1", "T-2", "G-1", "G-2"]
    assert chapter.claims("T") == ["T-1", "T-2"]
    assert chapter.reported("G") == {"G-1": (7.0, 0.5), "G-2": (8.0, 0.0)}
    assert chapter.check("T-1", 4.0).verdict == "reproduced"
    assert capsys.readouterr().out == "✓ T-1: reproduced: So. (paper 4, ours 4)\n"
    with pytest.raises(ClaimError, match="claim_id = 'T-1' is settled already"):
        chapter.check("T-1", 4.0)
    with pytest.raises(ClaimError, match=r"'T2' is no claim of one; did you mean 'T-2'\?"):
        chapter.check("T2", 4.0)
    with pytest.raises(ClaimError, match=r"'zzzz' is no claim of one$"):
        chapter.not_run(["zzzz"], "no time")
    chapter.not_run(["T-2"], "no time")
    assert capsys.readouterr().out == "– T-2: not run in this profile: So. (no time)\n"


def test_claims_of_a_prefix_are_settled_together_or_not_at_all(chapter, capsys):
    with pytest.raises(ClaimError, match=r"claims T-\* are not those found: 'T-2'"):
        chapter.settle("T-", {"1": 4.0})
    with pytest.raises(ClaimError, match=r"claims X-\* are not those found: 'X-'"):
        chapter.settle("X-", {}, unless="no time")
    chapter.settle("T-1", lambda: {"": 4.0})
    chapter.settle("T-2", lambda: 1 / 0, unless="no time")  # not computed
    found = [line.split(": ")[:2] for line in capsys.readouterr().out.splitlines()]
    assert found == [["✓ T-1", "reproduced"], ["– T-2", "not run in this profile"]]


def test_what_stands_in_for_a_parameter_decides_about_the_scale(book, capsys):
    (book / "claims.yml").write_text(yaml.safe_dump([CLAIMS[0] | {"full_scale": {"base": 2.0}}]))
    chapter = open_chapter("one", {"__file__": str(book / "one.py")})
    with pytest.raises(
        ValueError, match=r"values must be parameters of the chapter, got \['bass'\]"
    ):
        chapter.uses(bass=1.0)
    chapter.uses(base=1.0)
    assert chapter.parameters["base"] == 2.0
    verdict = chapter.check("T-1", 4.0)
    assert verdict.verdict == "reproduced at reduced scale"
    assert verdict.reason == "base = 1.0 instead of 2.0"


def test_cells_of_a_group(chapter, shown):
    with pytest.raises(ClaimError, match="the claims of group 'G' are not those found: 'G-2'"):
        chapter.check_cells("G", {"G-1": (0.01, 7.1)}, "Cells")
    with pytest.raises(ClaimError, match="the claims of group 'H' are not those found: 'H'"):
        chapter.check_cells("H", {}, "Cells")
    sure = Evidence(0.01, 0.0, 0.02, 5)
    found = chapter.check_cells("G", {"G-2": "no data", "G-1": (sure, 7.1)}, "Cells")
    assert [(v.id, v.verdict, v.value, v.shown) for v in found] == [
        ("G-1", "reproduced", 0.01, 7.1),
        ("G-2", "not run in this profile", None, None),
    ]
    assert shown[0]["text/plain"].splitlines() == [
        "Cells:",
        "✓ G-1: reproduced: So. (paper 7, ours 7.1)",
        "– G-2: not run in this profile: So. (paper 8, no data)",
    ]
    assert [bundle[VERDICT_MIME]["id"] for bundle in shown[1:]] == ["G-1", "G-2"]
    assert shown[1][VERDICT_MIME]["interval"] == [0.0, 0.02]


def test_cells_show_what_decides_unless_told_otherwise(chapter):
    found = chapter.check_cells("G", {"G-1": runs([0.0, 14.2]), "G-2": (0.01, 8.1)}, "Cells")
    assert [(v.verdict, v.shown) for v in found] == [("undecided", 7.1), ("undecided", 8.1)]


# ------------------------------------------------------------------ recorded runs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "must hold exactly chapter, code, commit, data"),
        (json.dumps(record(more=1)), "must hold exactly"),
        (json.dumps(record(profile="gpu")), "is of chapter one under the profile gpu"),
        (json.dumps(record(chapter="two")), "is of chapter two under the profile standard"),
    ],
)
def test_damaged_records_are_refused(book, text, message):
    (book / "records" / "standard" / "one.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_records(book, "one")


# ------------------------------------------------------------------ chapters as files


def test_chapters_are_those_of_the_table_of_contents(book):
    toc = {"root": "index", "parts": [{"chapters": [{"file": "one.py"}, {"file": "missing"}]}]}
    (book / "_toc.yml").write_text(yaml.safe_dump({"format": "jb-book"} | toc))
    (book / "index.md").write_text("# Index\n")
    assert chapter_files(book) == {"one": book / "one.py"}
    notebook = read_chapter(TEXT)
    assert [cell["id"] for cell in notebook.cells] == ["cell-0", "cell-1"]
    assert code_cells(notebook)[0]["tags"] == ["parameters"]
    assert [p.name for p in declared_parameters(notebook)] == ["base", "names"]
    with pytest.raises(ValueError, match="in the same line is shown nowhere: 'Lost words'"):
        read_chapter("# %% [markdown] Lost words\n# and others\n")
    twice = read_chapter(TEXT + TEXT)
    with pytest.raises(ParameterError, match="2 cells are tagged parameters; one is allowed"):
        declared_parameters(twice)


def test_profiles_without_a_file_or_with_an_empty_one(book):
    params = book.parent / "params"
    (params / "quick" / "one.yml").write_text("# nothing\n")
    assert profile_parameters(params, "quick", "one") == {}
    assert profile_parameters(params, "gpu", "one") == {}
    with pytest.raises(ParameterError, match="it must be one of quick, standard, gpu"):
        profile_parameters(params, "slow", "one")

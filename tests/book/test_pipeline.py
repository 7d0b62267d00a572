"""The build, end to end, on a throw-away book of two chapters that quote each other."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from bs4 import BeautifulSoup
from click.testing import CliRunner
from sphinx.errors import ExtensionError
from throwaway import Book, edited, executed, make_book, stale, without

pytestmark = pytest.mark.slow
GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
SAID = "nothing has changed since the site was built\n"


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> tuple[Book, Book, str]:
    """The book, a copy of it, and what was printed when its site was made.

    It is a checkout of git, and a parameter of its first chapter may name a file.
    """
    book = make_book(tmp_path_factory.mktemp("built") / "book", "one", "two")
    book.edit("book/one.py", "names: list", 'own: str = "own.csv"  # {own.csv} a file\nnames: list')
    _origin(book.root, None)
    said = book.make()
    return book, _copied(book, tmp_path_factory.mktemp("template") / "book"), said


@pytest.fixture(scope="module")
def template(first) -> Book:
    """A book that has been built once, to be looked at only."""
    return first[1]


@pytest.fixture
def built(first, template) -> Book:
    """The book as it was after it had been built once, in the place where it was built.

    In another folder Sphinx would read and write all pages anew, whether it has a reason or not.
    """
    restore(first[0].root, template.root)
    return first[0]


def restore(root: Path, template: Path) -> None:
    """Make a folder's files those of another: what differs is of another size or time."""
    wanted, found = (_times(folder) for folder in (template, root))
    for name in found.keys() - wanted.keys():
        (root / name).unlink()
    for name, times in wanted.items():
        if found.get(name) != times:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(template / name, root / name)


def _times(folder: Path) -> dict[str, list[int]]:
    from lib.book.sources import times_of  # not where a function of this module is forked

    paths = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    return {os.path.relpath(path, folder): times_of(path) for path in paths}


def _copied(book: Book, root: Path) -> Book:
    subprocess.run(["cp", "-a", str(book.root), str(root)], check=True)
    return Book(root)


# ------------------------------------------------------------- what `make book` prints and leaves


def test_a_green_build_prints_a_line_per_chapter_and_the_path(first, built):
    """Where nothing has changed, it says so at once; without a note, it changes no file."""
    before = built.site_state()
    assert built.inside(_command) == f"{SAID}{built.html / 'index.html'}\n"
    note(built).unlink()
    again = built.noted()
    assert built.site_state() == before
    assert note(built).exists()
    *lines, last = first[2].splitlines()
    assert last == str(built.html / "index.html")
    for found, how in ((lines, r"executed in \d+ s"), (again.splitlines(), "from the cache")):
        assert sorted(re.sub(how, "HOW", each) for each in found if "(quick): " in each) == [
            "chapter one (quick): HOW",
            "chapter two (quick): HOW",
        ]
    assert len(lines) == 2


def note(book: Book) -> Path:
    return book.html.parent / ".companion-note.json"


def _command() -> str:
    """What `make book` prints."""
    from lib.book.__main__ import main

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(["build"]) == 0
    return printed.getvalue()


def test_what_a_red_build_said_is_shown_after_it(tmp_path, monkeypatch, capfd):
    """The lines of chapters go through as they come."""
    from lib.book.__main__ import main

    program = tmp_path / "jupyter-book"
    program.write_text("#!/bin/sh\necho held\necho 'chapter one (quick): done'\nexit 3\n")
    program.chmod(0o700)
    (tmp_path / "book").mkdir()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert main(["build", "--book", str(tmp_path / "book")]) == 3
    assert tuple(capfd.readouterr()) == ("chapter one (quick): done\n", "held\n")


def test_a_red_build_keeps_the_site(built):
    """What it says of a cell, and that it fails again: see `EXECUTIONS`."""
    before = built.site_state()
    built.edit("params/quick/one.yml", "2.0", "200.0")
    assert "parameter base = 200.0 is not allowed" in built.build(fails=True)
    assert built.site_state() == before


def test_a_site_that_was_touched_is_made_good(built):
    """Also where Sphinx by itself would see no reason to write anything.

    A note is left only by what `make book` does: not with other options, nor if a source was
    written meanwhile, even with what it held.
    """
    before = built.site_state()
    files = ("_static/companion.css", "_static/mathjax/tex-mml-chtml.js", "_static/fonts/text.woff")
    for file in ("index.html", *files):
        path = built.html / file
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    gone = [built.html / name for name in ("notebooks/one.ipynb", "_static/fonts/italic.woff")]
    for path in gone:
        path.unlink()
    write = 'from pathlib import Path\nPath("book/index.md").write_text(Path("book/index.md")'
    built.edit("book/two.py", "chapter.values", f"{write}.read_text())\nchapter.values")
    assert "chapter two (quick): executed" in built.noted()
    after = built.site_state()
    assert after.keys() == before.keys()
    files = [*files, *(path.relative_to(built.html).as_posix() for path in gone)]
    assert [after[file] for file in files] == [before[file] for file in files]
    assert built.page("index").rstrip().endswith("</html>")
    assert not note(built).exists()
    built.edit("book/one.py", "Prose says", "Words say")
    said = built.noted()
    assert "chapter two (quick): from the cache" in said
    assert "0 added, 1 changed, 0 removed" in said  # other pages are not read anew
    assert note(built).exists()
    assert built.inside(_command).startswith(SAID)


# ------------------------------------------------------------- pages


def test_pages_show_live_values_and_verdicts(template):
    assert "Chapter one found" in template.page("index")
    assert ">4.000</span>" in template.page("index")
    assert ">1</span> file of data" in template.page("index")
    assert ">4.00</span>" in template.page("two")
    assert "params/quick/one.yml" in template.page("one")
    ledger = template.page("reproduces")
    assert "one.html#claim-T-1" in ledger
    assert 'id="claim-T-1"' in template.page("one").replace("'", '"')
    assert ledger.count("✓ reproduced") == 5  # statements and claims, and the line with the counts
    order = re.findall(r"id=['\"](p1|ours|statement-[\w-]+)['\"]", ledger)
    assert order == ["p1", "statement-P1-T", "ours", "statement-T-2"]


def test_prose_a_comment_and_folding_show_without_execution_and_a_killed_build_harms_none(built):
    """On its page, where a lesson is open, and in the notebook that is handed out.

    The build before was killed while it wrote pages, one of which is half there.
    """
    built.edit("book/one.py", "Prose says", "Words say")
    built.edit("book/one.py", "double = 2 * base", "# Twice.\ndouble = 2 * base  # as said")
    closed = built.page("one").count("class='companion-code'")
    built.edit("book/one.py", "# %%\n# Twice.", '# %% tags=["lesson"]\n# Twice.')
    built.kill_when(built.html.parent / ".companion-unfinished")
    page = built.html / "two.html"
    page.write_text(page.read_text(encoding="utf-8")[:500], encoding="utf-8")
    output = built.build()
    assert executed(output) == 0
    assert not note(built).exists()  # which only `make book` leaves
    for name in ("index", "one", "two", "reproduces"):
        assert built.page(name).rstrip().endswith("</html>")
    shown = BeautifulSoup(built.page("one"), "html.parser").get_text()
    assert "Words say" in shown
    assert "# Twice.\ndouble = 2 * base  # as said" in shown
    assert built.page("one").count("class='companion-code'") == closed - 1
    assert "# Twice.\\n" in (built.html / "notebooks" / "one.ipynb").read_text()
    assert "double is 4.0" in shown


def test_a_recorded_run_is_shown_unless_the_build_is_asked_for(built):
    """Launch buttons point to the repository, once it is known."""
    binder = "https://mybinder.org/v2/gh/some/where/HEAD?urlpath=lab/tree/book/one.py"
    colab = "https://colab.research.google.com/github/some/where/blob/notebooks/one.ipynb"
    assert "notebooks/one.ipynb" in built.page("one")
    assert "mybinder.org" not in built.page("one")
    said = built.inside(_record)
    assert "executing chapter one (standard)" in said[0]
    assert "executing" not in said[1]
    found = json.loads((built.root / "book/records/standard/one.json").read_text())
    assert found["parameters"]["base"] == 20.0
    assert found["values"]["double"] == 40.0
    assert len(found["code"]) == 64
    assert set(found["data"]) == {"throwaway/numbers"}
    for fact in ("hardware", "packages", "python", "finished", "seconds"):
        assert found[fact]
    assert said[2] == []  # no chapter knows of it
    _origin(built.root, "git@github.com:some/where")
    for asked, number, ours, run in (
        ("", 40, "40</td>", "the recorded run (standard): profile standard"),
        ("build", 4, "4</td>", "this build: profile quick"),
    ):
        assert executed(built.build(**({"COMPANION_SHOW": asked} if asked else {}))) == 0
        assert f">{number}.00</span>" in built.page("two")
        assert f"double is {number}.0" in built.page("one")
        assert f"This page shows {run}" in built.page("one")
        assert "This page shows this build" in built.page("two")  # no record
        notebook = (built.html / "notebooks" / "one.ipynb").read_text()
        assert "Prose says 4.0" in notebook  # what is downloaded is of this build alone
        assert "double is 4.0" in notebook
        assert f"data-name='Ours'>{ours}" in built.page("reproduces")
        assert ("recorded run (standard)" in built.page("reproduces")) == (not asked)
        assert binder in built.page("one")
        assert colab in built.page("one")


def test_what_is_shown_must_be_known(monkeypatch):
    from lib.book import sphinx_ext

    monkeypatch.setenv("COMPANION_SHOW", "mine")
    with pytest.raises(ValueError, match="COMPANION_SHOW = 'mine' must be build or empty"):
        sphinx_ext._shows_build()


def _record() -> list:
    """What two recordings of the same say, and which chapters a build would execute then."""
    from lib.book.__main__ import main

    said = []
    for _ in range(2):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            assert main(["record", "one", "--profile", "standard"]) == 0
        said.append(printed.getvalue())
    return [*said, stale()]


def test_a_style_sheet_has_pages_written_as_they_link_to_its_hash(built):
    before = re.findall(r"companion\.css\?v=\w+", built.page("one"))
    with (built.root / "lib/book/static/companion.css").open("a") as sheet:
        sheet.write("/* A remark. */\n")
    assert executed(built.build()) == 0
    after = re.findall(r"companion\.css\?v=\w+", built.page("one"))
    assert len(before) == len(after) == 1
    assert before != after


def test_two_builds_at_once_after_a_parameter_edit(built):
    """One executes the chapter; numbers move, and the scale of the verdict."""
    built.edit("params/quick/one.yml", "2.0", "2.0002")
    with ThreadPoolExecutor(2) as both:
        outputs = list(both.map(lambda _: built.build(), range(2)))
    assert sorted(executed(o) for o in outputs) == [0, 1]
    assert ">4.0004</span>" not in built.page("index")
    assert ">4.000</span>" in built.page("index")
    assert "reproduced at reduced scale" in built.page("reproduces").split("</ul>", 1)[1]
    assert "base = 2.0002 instead of 2.0" in built.page("reproduces")


def _origin(root: Path, address: str | None) -> None:
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    if address:
        subprocess.run(["git", "remote", "add", "origin", address], cwd=root, check=True)


# ------------------------------------------------------------- what counts: see `_counts`


@contextmanager
def in_git(*command: str):
    """A remote, or that and a commit."""
    for each in (["remote", "add", "origin", "git@github.com:some/where"], command):
        subprocess.run([*GIT, *each], check=True, stdout=subprocess.DEVNULL)
    yield
    subprocess.run(["git", "remote", "remove", "origin"], check=True)


def given(**variables: str) -> mock._patch_dict:
    return mock.patch.dict(os.environ, variables)


@contextmanager
def installed(name: str, value: object):
    """What the site's note and the chapters' keys take for installed."""
    with (
        mock.patch(f"lib.book.unchanged.{name}", return_value=value),
        mock.patch(f"lib.book.execute.{name}", return_value=value),
    ):
        yield


def replaced(file: str, old: str, new: str) -> AbstractContextManager:
    def change(content: bytes) -> bytes:
        assert old.encode() in content
        return content.replace(old.encode(), new.encode())

    return edited(file, change)


def added(file: str, text: str) -> AbstractContextManager:
    return edited(file, lambda old: old + text.encode())


DATA = "mirror/nobody/nothing/0/numbers.txt"
BOTH = ["one", "two"]
NOTE = "book/_build/.companion-note.json"
#: What may change, and the chapters that are executed anew for it.
INPUTS = {
    "a cell": (lambda: replaced("book/one.py", "2 * base", "3 * base"), ["one"]),
    "a remark in a cell": (lambda: replaced("book/one.py", "double =", "# A.\ndouble ="), []),
    "allowed values": (lambda: replaced("book/one.py", "# {a, b} labels", "# {a, c} l"), ["one"]),
    "prose": (lambda: replaced("book/two.py", "quotes", "cites "), []),
    "a page": (lambda: edited("book/index.md"), []),
    "a new page": (lambda: edited("book/new.md"), []),
    "a module": (lambda: added("lib/check.py", "x = 1\n"), BOTH),
    "a module that executes chapters": (lambda: added("lib/book/execute.py", "x = 1\n"), BOTH),
    "a remark in a module": (lambda: added("lib/check.py", "# A remark.\n"), []),
    "a docstring": (lambda: replaced("lib/runs/files.py", '"""Writing files', '"""Files'), []),
    "a module for pages": (lambda: added("lib/book/sphinx_ext.py", "x = 1\n"), []),
    "another's module": (lambda: added("lib/report/examples/tables.py", "x = 1\n"), []),
    "a study": (lambda: added("lib/studies/counterfactual/stress.py", "x = 1\n"), []),
    "a new module": (lambda: edited("lib/zz.py"), []),
    "a module that is gone": (lambda: without("lib/ties.py"), []),
    "a style sheet": (lambda: edited("lib/book/static/companion.css"), []),
    "a template": (lambda: edited("lib/book/templates/logo.html"), []),
    "the registry": (lambda: edited("lib/data/registry.yml"), BOTH),
    "a parameter": (lambda: edited("params/quick/one.yml", lambda _: b"base: 3.0\n"), ["one"]),
    "a new parameter file": (lambda: edited("params/quick/two.yml"), []),
    "a claim": (lambda: replaced("book/claims.yml", "4.0", "5.0"), ["one"]),
    "a record": (lambda: edited("book/records/standard/one.json"), []),
    "literature": (lambda: edited("book/references.bib"), []),
    "the configuration": (lambda: edited("book/_config.yml"), []),
    "the contents": (lambda: edited("book/_toc.yml"), []),
    "a file that a parameter names": (lambda: edited("own.csv"), ["one"]),
    "data that are gone": (lambda: without(DATA), ["one"]),  # two declares them, and does not ask
    "data that are damaged": (lambda: edited(DATA), ["DataCorrupted"]),
    "the profile": (lambda: given(COMPANION_PROFILE="standard"), BOTH),
    "the repository": (lambda: given(COMPANION_REPOSITORY="some/where"), []),
    "a repository that is none": (lambda: given(COMPANION_REPOSITORY="some where"), []),
    "the address": (lambda: given(COMPANION_SITE="https://some.where"), []),
    "any variable of ours": (lambda: given(COMPANION_NEW="1"), []),
    "a package": (lambda: installed("required_versions", {"numpy": "0"}), BOTH),
    "Python": (lambda: installed("python_version", "CPython 3.0.0"), BOTH),
    "a remote": (lambda: in_git("status"), []),
    "the note": (lambda: edited(NOTE, lambda old: old[:-9]), []),
    "the note's truth": (lambda: replaced(NOTE, '"base": 2.0', '"base": 3.0'), []),
}
NO_INPUTS = {
    "nothing": suppress,
    "a file that is no source": lambda: edited("notes.txt"),
    "compiled code": lambda: edited("lib/__pycache__/zz.pyc"),
    "the number of jobs": lambda: given(COMPANION_JOBS="1"),
}


def _counts() -> dict[str, list]:
    """Of what may change: whether the site is current meanwhile, which chapters are not.

    At last what is noted of the commit, before and after one.
    """
    from lib.book import unchanged

    book, found = Path("book").absolute(), {}

    for name, (change, _) in (INPUTS | {n: (c, []) for n, c in NO_INPUTS.items()}).items():
        with change():
            found[name] = [unchanged.is_unchanged(book, os.environ), stale()]
    with in_git("commit", "-q", "--allow-empty", "-m", "one"):
        found["commits"] = [unchanged._source(book, os.environ)]
        subprocess.run([*GIT, "commit", "-q", "--allow-empty", "-m", "two"], check=True)
        found["commits"].append(unchanged._source(book, os.environ))
    return found


def test_what_a_site_and_what_a_chapter_are_made_from(built):
    """By its content: as all is as it was after each, so is the site, of which the last ones ask.

    Notebooks for Colab name the commit.
    """
    found = built.inside(_counts)
    assert len(set(found.pop("commits"))) == 2
    expected = {name: [False, chapters] for name, (_, chapters) in INPUTS.items()}
    assert found == expected | {name: [True, []] for name in NO_INPUTS}


# ------------------------------------------------------------- executions: see `_executions`

ASKS = 'data.available("throwaway/numbers")'
ANOTHER = "ProcessPoolExecutor(1, get_context('spawn')).submit(data.available, name).result()"
POOL = """from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
name = 'throwaway/numbers'
double = 2"""
COMMAND = """import sys
from subprocess import run
done = run([sys.executable, '-m', 'lib.data', 'fetch', 'throwaway/numbers'], stderr=-3)
chapter.values(has_data=int(done.returncode < 1))
chapter.values(seven=7)"""
TELLS = 'import sys; print("warning: a driver", file=sys.stderr)\ndouble = 2'
LATE = "import pathlib; pathlib.Path('lib/check.py').open('a').write('x = 1')\ndouble = 2"
GONE = f"has_data=1)\nimport pathlib; pathlib.Path({DATA!r}).unlink()"


@contextmanager
def together(*changes: AbstractContextManager):
    with contextlib.ExitStack() as stack:
        for change in changes:
            stack.enter_context(change)
        yield


@contextmanager
def put_back(file: str, change: AbstractContextManager):
    """With a file that the chapter itself changes."""
    with edited(file, lambda old: old), change:
        yield


def in_one(old: str, new: str) -> AbstractContextManager:
    return replaced("book/one.py", old, new)


def in_two(new: str) -> AbstractContextManager:
    return replaced("book/two.py", "chapter.values(seven=7)", new)


EXECUTIONS: dict[str, Callable[[], AbstractContextManager]] = {
    "nothing": suppress,
    "data are gone": lambda: without(DATA),
    "data are back": suppress,
    "data are gone again": lambda: without(DATA),
    "other processes ask": lambda: together(
        in_one("double = 2", POOL), in_one(ASKS, ANOTHER), in_two(COMMAND)
    ),
    "other processes asked, and data are gone": lambda: together(
        in_one("double = 2", POOL), in_one(ASKS, ANOTHER), in_two(COMMAND), without(DATA)
    ),
    "the profile": lambda: given(COMPANION_PROFILE="standard"),
    "a claim": lambda: replaced("book/claims.yml", "reported: 4.0", "reported: 5.0"),
    "data go": lambda: put_back(
        DATA,
        together(
            in_one("double = 2", "data.fetch('throwaway/numbers')\ndouble = 2"),
            in_one(f"has_data=int({ASKS}))", GONE),
        ),
    ),
    "undeclared data": lambda: in_one("double = 2", "data.fingerprints('suitability')\ndouble = 2"),
    "damaged data": lambda: edited(DATA, lambda _: b"4 5 6\n"),
    "lib changes": lambda: put_back("lib/check.py", in_one("double = 2", LATE)),
    "a warning": lambda: in_two("import warnings; warnings.warn('careful')"),
    "an error": lambda: in_two("raise RuntimeError('no good')"),
    "the same error": lambda: in_two("raise RuntimeError('no good')"),
    "no verdict": lambda: in_one('chapter.check("T-1", double)', "None"),
    "bad parameters": lambda: edited("params/quick/one.yml", lambda _: b"base: 200.0\n"),
    "words to a driver's user": lambda: together(
        in_one("double = 2", TELLS), given(COMPANION_PROFILE="standard")
    ),
}


def _executions() -> dict[str, dict]:
    """What executions of the chapters say and give, in one process.

    Where data went, which chapters the cache lacks is said, and none is executed.
    """
    from lib.book import execute

    book, found = Path("book").absolute(), {}
    for name, change in EXECUTIONS.items():
        with change(), contextlib.redirect_stdout(io.StringIO()) as said:
            profile, error, done = os.environ["COMPANION_PROFILE"], "", {}
            if name == "other processes asked, and data are gone":
                found[name] = {"stale": stale()}
                continue
            with contextlib.redirect_stderr(said):
                try:
                    done = execute.execute_book(book, profile)
                except execute.BuildError as raised:
                    error = str(raised)
        found[name] = {
            "said": said.getvalue(),
            "error": error,
            "now": [name for name, each in done.items() if not each.cached],
            "values": {name: each.values for name, each in done.items()},
            "verdicts": {v["id"]: v["verdict"] for d in done.values() for v in d.verdicts},
        }
        if name == "words to a driver's user":
            found[name]["shown"] = [out for cell in done["one"].cells for out in cell["outputs"]]
    return found


@pytest.fixture(scope="module")
def executions(first, template) -> dict[str, dict]:
    restore(first[0].root, template.root)
    return first[0].inside(_executions)


def test_presence_of_data_counts_for_the_chapter_that_asks(executions):
    """Both chapters declare them, chapter two does not ask; a former state is not paid twice."""
    assert executions["nothing"]["now"] == []
    expected = {"nothing": 1, "data are gone": 0, "data are back": 1, "data are gone again": 0}
    for name, has_data in expected.items():
        found = executions[name]
        assert found["now"] == ["one"] * (name == "data are gone")
        assert found["values"]["one"]["has_data"] == has_data


def test_presence_counts_if_another_process_asks(executions):
    """One that chapter one starts through multiprocessing, and a command, in chapter two."""
    found = executions["other processes ask"]
    assert found["now"] == BOTH
    assert [found["values"][name]["has_data"] for name in BOTH] == [1, 1]
    assert executions["other processes asked, and data are gone"] == {"stale": BOTH}


@pytest.mark.parametrize(
    ("change", "now", "double", "verdict"),
    [("the profile", BOTH, 40.0, "not reproduced"), ("a claim", ["one"], 4.0, "not reproduced")],
)
def test_what_moves_values_and_verdicts(executions, change, now, double, verdict):
    found = executions[change]
    assert (found["now"], found["values"]["one"]["double"]) == (now, double)
    assert found["verdicts"] == {"T-1": verdict, "T-2": "reproduced"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("data go", ["throwaway/numbers came or went while chapter one"]),
        (
            "undeclared data",
            ["chapter one asked for suitability/civilcomments_ERM_0", "not declared for it"],
        ),
        ("damaged data", ["numbers", "SHA-256"]),
        ("lib changes", ["lib changed while chapter one was executed"]),
        ("a warning", ["chapter two, cell 1 wrote to standard error", "careful"]),
        ("an error", ["chapter two, cell 1", "RuntimeError: no good"]),
        ("the same error", ["chapter two, cell 1", "RuntimeError: no good"]),
        ("no verdict", ["one leaves T-1 unchecked"]),
        ("bad parameters", ["parameter base = 200.0 is not allowed"]),
    ],
)
def test_what_stops_a_build(executions, change, words):
    """Undeclared data also if the chapter does not mind; what can be known before, before."""
    found = executions[change]
    assert [word for word in words if word not in found["error"]] == []
    before = change in ("damaged data", "bad parameters")
    assert ("executing chapter" in found["said"]) == (not before)


def test_a_run_of_hours_is_not_lost_for_a_warning(executions):
    """The console says it, no page does."""
    found = executions["words to a driver's user"]
    assert re.search(r"one, cell \d wrote to standard error: warning: a driver", found["said"])
    assert found["now"] == ["one"]  # two was executed under this profile before
    assert "a driver" not in json.dumps(found["shown"])


# ------------------------------------------------------------- by calls


def test_what_no_chapter_has_fails_on_any_page():
    from lib.book import sphinx_ext

    page = SimpleNamespace(values={"double": 4.0}, picture={}.__getitem__, done=None)
    page.done = SimpleNamespace(figures=["curve"])
    env = SimpleNamespace(app=SimpleNamespace(companion_pages={"one": page}))
    for part, name, said in (
        (sphinx_ext._role(sphinx_ext._quoted), "duoble", "no value 'one.duoble'; known are double"),
        (
            sphinx_ext._directive(sphinx_ext._picture, 1),
            "no",
            "no figure 'one.no'; known are one.c",
        ),
    ):
        kind = part if isinstance(part, type) else type(part)
        where = {"text": f"one.{name}", "arguments": [f"one.{name}"], "env": env}
        with pytest.raises(ExtensionError, match=f"^index.md:3: {re.escape(said)}"):
            kind.run(SimpleNamespace(**where, get_location=lambda: "index.md:3"))


@pytest.mark.parametrize(
    ("address", "expected"), [("https://github.com/some/where.git", "some/where"), (None, "")]
)
def test_the_repository_is_known_from_an_address_by_https_too(tmp_path, address, expected):
    from lib.book.records import repository

    _origin(tmp_path, address)
    assert repository(tmp_path, {}) == expected


def test_papermill_prints_the_declarations(template):
    """What else it does: `test_notebooks.py` and `test_handed_out.py`."""
    assert "base: float (default 2.0)" in template.inside(_declarations)


def _declarations() -> str:
    from papermill.cli import papermill

    return CliRunner().invoke(papermill, ["--help-notebook", "book/one.py"]).output


def test_files_that_parameters_name_count(tmp_path):
    from lib.book.execute import named_files

    given = {"services": "own.csv", "n": 3, "kind": "linear", "none": ""}
    assert named_files(given, tmp_path) == {}
    (tmp_path / "own.csv").write_text("a\n1\n")
    first = named_files(given, tmp_path)
    assert list(first) == ["services"]
    (tmp_path / "own.csv").write_text("a\n2\n")
    assert named_files(given, tmp_path) != first

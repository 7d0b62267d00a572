"""The build, end to end, on a throw-away book of two chapters that quote each other."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from throwaway import NUMBERS, Book, add_data, executed, make_book

from lib.book.records import repository

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> tuple[Book, Book, subprocess.CompletedProcess]:
    """The book, a copy of it, and the build that made its site."""
    book = make_book(tmp_path_factory.mktemp("built") / "book")
    done = by_command(book)
    return book, _copied(book, tmp_path_factory.mktemp("template") / "book"), done


@pytest.fixture(scope="module")
def template(first) -> Book:
    """A book that has been built once, to be looked at only."""
    assert first[2].returncode == 0, first[2].stderr
    return first[1]


@pytest.fixture
def built(first, template) -> Book:
    """The book as it was after it had been built once, in the place where it was built.

    In another folder Sphinx would read and write all pages anew, whether it has a reason or not.
    """
    shutil.rmtree(first[0].root)
    return _copied(template, first[0].root)


@pytest.fixture
def apart(template, tmp_path) -> Book:
    """A copy in a folder of its own, for tests that leave processes behind."""
    return _copied(template, tmp_path / "book")


def _copied(book: Book, root: Path) -> Book:
    subprocess.run(["cp", "-a", str(book.root), str(root)], check=True)
    return Book(root)


def by_command(book: Book) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "lib.book", "build"],
        cwd=book.root,
        env=book.environment(COMPANION_JOBS="2"),
        capture_output=True,
        text=True,
    )


def processor_time() -> float:
    """Seconds that the processes started here have used: work of others is no concern."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_a_green_build_prints_a_line_per_chapter_and_the_path(first, built):
    """And where nothing has changed, it executes nothing and changes no file, note or no note."""
    (built.html.parent / ".companion-note.json").unlink()
    before, used = built.site_state(), processor_time()
    again = by_command(built)
    assert processor_time() - used < 20
    assert built.site_state() == before
    for done, how in ((first[2], r"executed in \d+ s"), (again, "from the cache")):
        assert done.returncode == 0
        assert done.stderr == ""
        *lines, last = done.stdout.splitlines()
        assert sorted(re.sub(how, "HOW", line) for line in lines) == [
            "chapter one (quick): HOW",
            "chapter two (quick): HOW",
        ]
        assert last == str(built.html / "index.html")


def test_a_red_build_keeps_the_site_and_names_chapter_cell_and_error(built):
    """It shows all that it said; a second build after a failed one must fail as well."""
    before = built.site_state()
    built.edit("book/two.py", "seven=7)", "seven=7)\nraise RuntimeError('no good')")
    failed = by_command(built)
    assert failed.returncode != 0
    assert str(built.html) not in failed.stdout
    assert "executing chapter two" in failed.stderr  # what was held back
    for output in (failed.stderr, built.build(fails=True)):
        assert "chapter two, cell 1" in output
        assert "RuntimeError: no good" in output
        assert built.site_state() == before


def test_pages_show_live_values_and_verdicts(template):
    assert "Chapter one found" in template.page("index")
    assert ">4.000</span>" in template.page("index")
    assert ">1</span> file of data" in template.page("index")
    assert ">4.00</span>" in template.page("two")
    ledger = template.page("reproduces")
    assert "one.html#claim-T-1" in ledger
    assert 'id="claim-T-1"' in template.page("one").replace("'", '"')
    assert ledger.count("✓ reproduced") == 5  # statements and claims, and the line with the counts
    order = re.findall(r"id=['\"](p1|ours|statement-[\w-]+)['\"]", ledger)
    assert order == ["p1", "statement-P1-T", "ours", "statement-T-2"]


def test_prose_a_comment_in_a_cell_and_its_folding_show_without_execution(built):
    """On its page, where a lesson is open, and in the notebook that is handed out; other pages are
    not read anew.
    """
    built.edit("book/one.py", "Prose says", "Words say")
    built.edit("book/one.py", "double = 2 * base", "# Twice.\ndouble = 2 * base  # as said")
    closed = built.page("one").count("class='companion-code'")
    built.edit("book/one.py", "# %%\n# Twice.", '# %% tags=["lesson"]\n# Twice.')
    output = built.build()
    assert executed(output) == 0
    assert "0 added, 1 changed, 0 removed" in output
    shown = BeautifulSoup(built.page("one"), "html.parser").get_text()
    assert "Words say" in shown
    assert "# Twice.\ndouble = 2 * base  # as said" in shown
    assert built.page("one").count("class='companion-code'") == closed - 1
    assert "# Twice.\\n" in (built.html / "notebooks" / "one.ipynb").read_text()
    assert "double is 4.0" in shown
    built.edit("book/one.py", "# {a, b} labels", "# {a, c} labels")  # which is no remark
    assert built.stale() == ["one"]


def test_profile_is_part_of_the_key_and_switching_back_is_free(built):
    """Other values move every page that quotes the chapter."""
    assert "params/quick/one.yml" in built.page("one")
    assert executed(built.build(COMPANION_PROFILE="standard")) == 2
    assert ">40.000</span>" in built.page("index")
    assert ">40.00</span>" in built.page("two")
    assert "not reproduced" in built.page("reproduces").split("</ul>", 1)[1]
    assert "params/standard/one.yml" in built.page("one")
    done = built.execute()
    assert (done.now, done.values["one"]["double"]) == ((), 4.0)


def data_present(book: Book) -> dict[str, list[bool]]:
    """Whether each file was there that each chapter's last execution asked for."""
    found = {}
    for folder in (book.root / ".cache" / "book").iterdir():
        last = max(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        states = json.loads(last.read_text(encoding="utf-8"))["data"]
        found[folder.name] = [state != "absent" for state in states.values()]
    return found


def test_presence_of_data_counts_for_the_chapter_that_asks(built):
    """Both chapters declare them, chapter two does not ask; a former state is not paid twice."""
    assert data_present(built) == {"one": [True], "two": []}
    built.numbers.unlink()
    output = built.build()
    assert "executing chapter one" in output
    assert executed(output) == 1
    assert ">0</span> file of data" in built.page("index")
    assert data_present(built) == {"one": [False], "two": []}
    for change, has_data in (
        (lambda: built.numbers.write_bytes(NUMBERS), 1),
        (built.numbers.unlink, 0),
    ):
        change()
        done = built.execute()
        assert done.now == ()
        assert done.values["one"]["has_data"] == has_data


def test_presence_counts_if_another_process_asks(built):
    """One that chapter one starts through multiprocessing, and a command, in chapter two."""
    imports = "from concurrent.futures import ProcessPoolExecutor\n"
    imports += "from multiprocessing import get_context\n"
    ask = "ProcessPoolExecutor(1, get_context('spawn')).submit(data.available, name).result()"
    built.edit("book/one.py", "double = 2", f"{imports}name = 'throwaway/numbers'\ndouble = 2")
    built.edit("book/one.py", 'data.available("throwaway/numbers")', ask)
    run = "run([sys.executable, '-m', 'lib.data', 'fetch', 'throwaway/numbers'], stderr=-3)"
    imports = "import sys\nfrom subprocess import run\n"
    built.edit("book/two.py", "chapter.values(seven=7)", f"{imports}chapter.values(seven=7)")
    built.edit("book/two.py", "seven=7)", f"seven=7, has_data=int({run}.returncode < 1))")
    done = built.execute()
    assert done.now == ("one", "two")
    assert [done.values[name]["has_data"] for name in done.now] == [1, 1]
    assert built.stale() == []
    built.numbers.unlink()
    assert built.stale() == ["one", "two"]


def test_data_that_go_during_execution_are_not_trusted(built):
    gone = f"has_data=1)\nimport pathlib; pathlib.Path({str(built.numbers)!r}).unlink()"
    built.edit("book/one.py", 'has_data=int(data.available("throwaway/numbers")))', gone)
    built.edit("book/one.py", "double = 2", "data.fetch('throwaway/numbers')\ndouble = 2")
    assert "throwaway/numbers came or went while chapter one" in built.execute(fails=True).output


def test_undeclared_data_stop_the_build_even_if_the_chapter_does_not_mind(built):
    built.edit("book/one.py", "double = 2", "data.fingerprints('suitability')\ndouble = 2")
    output = built.execute(fails=True).output
    assert "chapter one asked for suitability/civilcomments_ERM_0" in output
    assert "not declared for it" in output


def test_changed_data_are_refused_then_count(built):
    built.numbers.write_bytes(b"4 5 6\n")
    output = built.execute(fails=True).output
    assert "numbers" in output
    assert "SHA-256" in output
    registry = built.root / "lib/data/registry.yml"
    text = registry.read_text()
    registry.write_text(text[: text.rindex("  - prefix: throwaway/")])
    add_data(built.root, b"4 5 6\n")
    assert built.stale() == ["one", "two"]  # the registry is a file of lib


def test_claim_edit_moves_its_verdict(built):
    built.edit("book/claims.yml", "reported: 4.0", "reported: 5.0")
    done = built.execute()
    assert done.now == ("one",)
    assert done.verdicts == {"T-1": "not reproduced", "T-2": "reproduced"}


def test_a_recorded_run_is_shown_unless_the_build_is_asked_for(built):
    command = [sys.executable, "-m", "lib.book", "record", "--profile", "standard"]
    said = [
        subprocess.run(
            command, cwd=built.root, env=built.environment(), check=True, capture_output=True
        ).stdout
        for _ in range(2)
    ]
    assert [b"executing chapter one (standard)" in text for text in said] == [True, False]
    record = json.loads((built.root / "book/records/standard/one.json").read_text())
    assert record["parameters"]["base"] == 20.0
    assert record["values"]["double"] == 40.0
    assert len(record["code"]) == 64
    assert set(record["data"]) == {"throwaway/numbers"}
    for fact in ("hardware", "packages", "python", "finished", "seconds"):
        assert record[fact]
    assert executed(built.build()) == 0  # the page shows it, no chapter knows of it
    for asked, number, ours, run in (
        ("", 40, "40</td>", "the recorded run (standard): profile standard"),
        ("build", 4, "4</td>", "this build: profile quick"),
    ):
        if asked:
            assert executed(built.build(COMPANION_SHOW=asked)) == 0
        assert f">{number}.00</span>" in built.page("two")
        assert f"double is {number}.0" in built.page("one")
        assert f"This page shows {run}" in built.page("one")
        assert "This page shows this build" in built.page("two")  # no record
        notebook = (built.html / "notebooks" / "one.ipynb").read_text()
        assert "Prose says 4.0" in notebook  # what is downloaded is of this build alone
        assert "double is 4.0" in notebook
        assert f"data-name='Ours'>{ours}" in built.page("reproduces")
        assert ("recorded run (standard)" in built.page("reproduces")) == (not asked)
    wrong = built.build(fails=True, COMPANION_SHOW="mine")
    assert "COMPANION_SHOW = 'mine' must be build or empty" in wrong


def test_lib_that_changes_during_execution_is_not_trusted(built):
    """What a chapter imports counts, also through others; a style sheet and a study do not."""
    late = built.root / "lib" / "check.py"
    write = f"import pathlib; pathlib.Path({str(late)!r}).open('a').write('x = 1')\ndouble = 2"
    built.edit("book/one.py", "double = 2", write)
    assert built.stale() == ["one"]
    assert "lib changed while chapter one was executed" in built.execute(fails=True).output
    assert built.stale() == ["one", "two"]


def test_what_changes_no_number_executes_no_chapter(built):
    """What changes no page has none read; a style sheet does, as pages link to its hash."""
    for file in ("check.py", "book/session.py", "book/sphinx_ext.py"):
        with (built.root / "lib" / file).open("a") as module:
            module.write("# A remark.\n")
    for file in ("report/examples/tables.py", "studies/counterfactual/stress.py"):
        with (built.root / "lib" / file).open("a") as module:
            module.write("x = 1\n")
    built.edit("lib/runs/files.py", '"""Writing files', '"""Files written')
    output = built.build()
    assert executed(output) == 0
    assert "0 added, 0 changed, 0 removed" in output
    before = re.findall(r"companion\.css\?v=\w+", built.page("one"))
    with (built.root / "lib/book/static/companion.css").open("a") as sheet:
        sheet.write("/* A remark. */\n")
    assert built.stale() == []
    assert executed(built.build()) == 0
    after = re.findall(r"companion\.css\?v=\w+", built.page("one"))
    assert len(before) == len(after) == 1
    assert before != after


def test_warning_in_a_chapter_fails_the_build(built):
    built.edit("book/two.py", "seven=7)", "seven=7)\nimport warnings; warnings.warn('careful')")
    output = built.execute(fails=True).output
    assert "chapter two, cell 1 wrote to standard error" in output
    assert "careful" in output
    # A run of hours is not lost for it: the console says it, no page does.
    source = 'import sys; print("warning: a driver", file=sys.stderr)'
    built.edit("book/one.py", "double = 2", f"{source}\ndouble = 2")
    command = [sys.executable, "-m", "lib.book", "record", "one", "--profile", "standard"]
    done = subprocess.run(
        command, cwd=built.root, env=built.environment(), check=True, capture_output=True, text=True
    )
    assert re.search(r"one, cell \d wrote to standard error: warning: a driver", done.stderr)
    record = (built.root / "book/records/standard/one.json").read_text()
    assert "a driver" not in record


def test_ledger_must_add_up(built):
    built.edit("book/one.py", 'chapter.check("T-1", double)', "None")
    assert "one leaves T-1 unchecked" in built.execute(fails=True).output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{value}`one.duoble`", "no value 'one.duoble'"),
        ("```{picture} one.nothing\n```", "no figure 'one.nothing'"),
    ],
)
def test_what_no_chapter_has_fails_on_another_page(built, text, said):
    with (built.root / "book/index.md").open("a") as page:
        page.write(f"\n{text}\n")
    assert said in built.build(fails=True)


def test_bad_parameters_stop_the_build_before_any_work(built):
    (built.root / "params/quick/one.yml").write_text("base: 200.0\n")
    output = built.execute(fails=True).output
    assert "parameter base = 200.0 is not allowed" in output
    assert "executing chapter" not in output


def test_two_builds_at_once_after_a_parameter_edit(built):
    """One executes the chapter; numbers move, and the scale of the verdict."""
    built.edit("params/quick/one.yml", "2.0", "2.0002")
    assert built.stale() == ["one"]
    builds = [built.start(), built.start()]
    outputs = [b.communicate(timeout=300)[0] for b in builds]
    assert [b.returncode for b in builds] == [0, 0], outputs
    assert sorted(executed(o) for o in outputs) == [0, 1]
    assert ">4.0004</span>" not in built.page("index")
    assert ">4.000</span>" in built.page("index")
    assert "reproduced at reduced scale" in built.page("reproduces").split("</ul>", 1)[1]
    assert "base = 2.0002 instead of 2.0" in built.page("reproduces")
    assert built.stale() == []


def test_kill_in_the_middle_leaves_nothing_half_done(apart):
    apart.edit("book/one.py", "double = 2 * base", "double = 3 * base")
    process = apart.start()
    time.sleep(2.9)  # of about 4; other moments in tests/faults
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    apart.build()
    assert ">6.000</span>" in apart.page("index")
    assert ">6.00</span>" in apart.page("two")
    assert "not reproduced" in apart.page("reproduces").split("</ul>", 1)[1]
    for name in ("index", "one", "two", "reproduces"):
        assert apart.page(name).rstrip().endswith("</html>")


def test_half_written_page_is_written_again(built):
    """What a kill during the writing phase leaves behind."""
    page = built.html / "two.html"
    page.write_text(page.read_text(encoding="utf-8")[:500], encoding="utf-8")
    (built.html.parent / ".companion-unfinished").touch()
    assert executed(built.build()) == 0
    assert built.page("two").rstrip().endswith("</html>")


def test_launch_buttons_point_to_the_repository_if_it_is_known(built):
    binder = "https://mybinder.org/v2/gh/some/where/HEAD?urlpath=lab/tree/book/one.py"
    colab = "https://colab.research.google.com/github/some/where/blob/notebooks/one.ipynb"
    for address in (None, "git@github.com:some/where"):
        if address:
            _origin(built.root, address)
            built.build()
        page = built.page("one")
        assert "notebooks/one.ipynb" in page
        assert (binder in page) == (colab in page) == (address is not None)
        assert ("mybinder.org" in page) == (address is not None)


@pytest.mark.parametrize(
    ("address", "expected"), [("https://github.com/some/where.git", "some/where"), (None, "")]
)
def test_the_repository_is_known_from_an_address_by_https_too(tmp_path, address, expected):
    _origin(tmp_path, address)
    assert repository(tmp_path, {}) == expected


def _origin(root: Path, address: str | None) -> None:
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    if address:
        subprocess.run(["git", "remote", "add", "origin", address], cwd=root, check=True)


# ------------------------------------------------------------- papermill, literally


def test_papermill_prints_the_declarations(template):
    """What else it does: `test_notebooks.py` and `test_handed_out.py`."""
    command = [str(Path(sys.executable).parent / "papermill"), "--help-notebook", "book/one.py"]
    given = {"cwd": template.root, "env": template.environment(), "text": True}
    done = subprocess.run(command, capture_output=True, **given)
    assert "base: float (default 2.0)" in done.stdout


def test_files_that_parameters_name_count(tmp_path):
    from lib.book.execute import named_files

    given = {"services": "own.csv", "n": 3, "kind": "linear", "none": ""}
    assert named_files(given, tmp_path) == {}
    (tmp_path / "own.csv").write_text("a\n1\n")
    first = named_files(given, tmp_path)
    assert list(first) == ["services"]
    (tmp_path / "own.csv").write_text("a\n2\n")
    assert named_files(given, tmp_path) != first

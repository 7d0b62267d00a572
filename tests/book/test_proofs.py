"""The page on what tests are worth: from reports to records, and from records to tables."""

import json

import pytest

from lib.book.measured import PARTS, measured_html
from lib.book.proofs import long_html, make_record, mutants_html, portable_html
from lib.book.records import record_command

REPORT = """<?xml version="1.0"?>
<testsuites><testsuite>
<testcase classname="tests.faults.test_a" name="test_fifty_killed_things" time="2.5">
<properties><property name="killed" value="50"/><property name="alive when killed" value="48"/>
</properties></testcase>
<testcase classname="tests.faults.test_a" name="test_b" time="1.0"><failure>no</failure></testcase>
<testcase classname="tests.malformed.test_c" name="test_d[x]" time="0.25"/>
<testcase classname="tests.malformed.test_c" name="test_e" time="0.25"><skipped/></testcase>
<testcase classname="tests.malformed.test_c" name="test_f" time="0"><error>no</error></testcase>
</testsuite></testsuites>
"""
MUTANTS = {
    "finished": "2026-11-22T10:00:00+00:00",
    "commit": "b" * 40,
    "changed": False,
    "tool": "mutmut==3.8.1",
    "machine": {"cores": 2, "processor": "a <processor>"},
    "tests": {"used": 1200, "slow": ["a"], "failing": []},
    "groups": {"audit": {"mutants": 100, "run": 100, "killed": 97, "survived": 3, "share": 0.97}},
    "modules": {
        "lib.audit.counts": {
            "mutants": 200,
            "run": 100,
            "killed": 90,
            "survived": 8,
            "no_tests": 2,
            "share": 0.94,
            "when_drawn": 0.9,
            "interval": [0.82, 0.95],
        }
    },
    "survivors": [
        {
            "module": "lib.audit.counts",
            "function": "f",
            "old": "a < b",
            "new": "a <= b",
            "reason": r,
        }
        for r in ("equal never occurs", "")
    ],
}
ROWS = {"what": "a <processor>", "passed": 12, "failed": 0, "skipped": 1, "seconds": 60.0}
PORTABLE = {
    "finished": "2026-11-22T10:00:00+00:00",
    "commit": "c" * 40,
    "machine": {"cores": 2, "processor": "a <processor>"},
    "versions": {"numpy": "2.4.6"},
    "tests": ["tests/audit"],
    "settings": [
        {"setting": "native", "ran": True, "green": True, "failures": [], **ROWS},
        {
            "setting": "plain",
            "ran": True,
            "green": False,
            "failures": ["tests.audit.test_x::test_<y>"],
            "differences": {"a sum": 2e-15, "a p-value": 3e-12},
            **ROWS,
        },
        {"setting": "avx2", "what": "AVX2", "ran": False, "why": "avx2, fma"},
    ],
}


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "report.xml"
    path.write_text(REPORT)
    return path


def test_a_report_is_added_up_by_file(report, tmp_path):
    record = make_record([report], tmp_path)
    assert record["files"] == [
        {"file": "test_a", "passed": 1, "failed": 1, "skipped": 0, "seconds": 3.5},
        {"file": "test_c", "passed": 1, "failed": 1, "skipped": 1, "seconds": 0.5},
    ]
    (long,) = record["long"]
    assert long == {
        "test": "test_fifty_killed_things",
        "passed": True,
        "killed": "50",
        "alive when killed": "48",
    }


def test_of_a_test_in_several_reports_the_last_counts(report, tmp_path):
    later = tmp_path / "later.xml"
    case = '<testcase classname="tests.faults.test_a" name="test_b" time="4.0"/>'
    later.write_text(f"<testsuites><testsuite>{case}</testsuite></testsuites>")
    first, _ = make_record([report, later], tmp_path)["files"]
    assert first == {"file": "test_a", "passed": 2, "failed": 0, "skipped": 0, "seconds": 6.5}


def test_the_command_writes_a_record_that_is_read(report, tmp_path, capsys):
    book = tmp_path / "book"
    assert "make proofs" in measured_html(book, "faults")
    assert record_command("faults", make_record, [str(report), "--book", str(book)]) == 0
    assert "faults.json" in capsys.readouterr().out
    assert "2 tests passed, 2 failed, 1 were skipped" in measured_html(book, "faults")
    page = measured_html(book, "long")
    for text in ("fifty killed things", ">50<", ">48<", "the same, bit for bit"):
        assert text in page


@pytest.mark.parametrize(
    ("content", "message"),
    [("<testsuites/>", "holds no test"), ("no xml", "no report in JUnit's format"), (None, "")],
)
def test_what_is_no_report_is_refused(content, message, tmp_path, capsys):
    path = tmp_path / "report.xml"
    if content is not None:
        path.write_text(content)
    assert record_command("faults", make_record, [str(path), "--book", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert message in said
    assert not (tmp_path / "records").exists()


def test_a_failed_long_test_is_shown_as_failed():
    record = {"long": [{"test": "test_x", "passed": False, "killed": "50"}]}
    assert ">failed<" in long_html(record)
    assert "left the long tests out" in long_html({"long": []})


@pytest.mark.parametrize(
    ("part", "command"),
    [
        ("machine", "bench"),
        ("long", "proofs"),
        ("uncovered", "coverage"),
        ("mutants", "mutants"),
        ("portable", "portable"),
        ("rehearsal", "rehearse PROFILE=gpu"),
    ],
)
def test_without_a_record_the_page_names_the_command(part, command, tmp_path):
    assert f"<code>make {command}</code> records one" in measured_html(tmp_path, part)


def test_mutants():
    page = mutants_html(MUTANTS)
    for text in (
        "2 cores of a &lt;processor&gt;",
        "1,200 tests used, 1 tests left out",
        "90.0% (82.0% to 95.0%)",
        "94.0%",
        "97.0%",
        "random sample",
        ">10<",  # survivors, those that no test touches included
    ):
        assert text in page
    row = {"mutants": 100, "run": 100, "survived": 3, "share": 0.97, "when_drawn": 0.955}
    whole = mutants_html(MUTANTS | {"modules": {"lib.audit.counts": row}})
    assert "random sample" not in whole
    assert "All were run" in whole
    assert "95.5%<" in whole
    assert "were run again" in whole
    same = MUTANTS | {"modules": {"lib.audit.counts": row | {"when_drawn": 0.97}}}
    assert "were run again" not in mutants_html(same)


def test_settings():
    page = portable_html(PORTABLE).replace("<wbr>", "")
    for text in (
        "numpy 2.4.6",
        "a &lt;processor&gt;",
        "all pass",
        "3e-12",
        "tests.audit.test_x::test_&lt;y&gt;",
        "not run: needs avx2, fma",
    ):
        assert text in page


def test_bad_parts_and_records(tmp_path):
    with pytest.raises(ValueError, match=r"part must be one of machine, .*, got 'x'"):
        measured_html(tmp_path, "x")
    (tmp_path / "records").mkdir()
    path = tmp_path / "records" / "mutants.json"
    path.write_text("{")
    with pytest.raises(ValueError, match="is no JSON"):
        measured_html(tmp_path, "mutants")
    path.write_text(json.dumps({k: v for k, v in MUTANTS.items() if k != "groups"}))
    with pytest.raises(ValueError, match="lacks groups"):
        measured_html(tmp_path, "mutants")


@pytest.mark.parametrize("part", PARTS)
def test_the_books_own_records_can_be_shown(part, root):
    assert measured_html(root / "book", part)

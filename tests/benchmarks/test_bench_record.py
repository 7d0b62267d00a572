"""From pytest-benchmark's report to the record and the page: by hand, and what is refused."""

import copy
import ctypes
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from comparing import peak_memory

from lib.book.benchmarks import (
    AREAS,
    PARTS,
    _from_reports,
    derived,
    exponents,
    make_record,
    plot_growth,
)
from lib.book.measured import measured_html
from lib.book.records import record_command

ROOT = Path(__file__).parents[2]
MIB = 2**20


def row(size, ours, theirs=(), floor=(), **changes):
    seconds = {"ours": list(ours), "peer": list(theirs), "floor": list(floor)}
    agreement = [{"what": "value", "difference": 0.0, "tolerance": 1e-9}] if theirs else []
    return {
        "area": "audit",
        "comparison": "interval",
        "peer": "someone",
        "size": size,
        "unit": "trials",
        "seconds": {side: values for side, values in seconds.items() if values},
        "floor": "one reading",
        "agreement": agreement,
        "memory": {},
        "remark": "",
        "reason": "" if theirs else "does not import here: ImportError: no <b>torchvision</b>",
    } | changes


def report(*rows):
    return {
        "machine_info": {"node": "secret-host", "user": "somebody"},
        "companion": {"load": 1.25, "seconds": 90.0},
        "benchmarks": [{"extra_info": each} for each in rows],
    }


@pytest.fixture
def record():
    growing = [
        # Ours in proportion to the size, the peer's like its square.
        row(n, [n, 2 * n, 3 * n], [n**2, 4 * n**2, 9 * n**2], [n / 2, n / 2, n / 2])
        for n in (10, 1000, 100)
    ]
    for each in growing:
        each["memory"] = {"ours": 3 * MIB * each["size"], "peer": MIB * each["size"]}
    other = [
        row(7, [4.0, 4.0], [1.0, 3.0], area="selective", comparison="slow one"),
        row(7, [1.0, 1.0], [0.9, 1.1], area="selective", comparison="even one"),
        row(9, [1.0], area="selective", comparison="missing one", peer="torch-uncertainty"),
    ]
    return make_record(report(*other, *growing), ROOT)


def test_ratios_are_of_one_round(record):
    rows = {(r["comparison"], r["size"]): r for r in derived(record)["results"]}
    # n^2, 4 n^2 and 9 n^2 over n, 2 n and 3 n: the ratios are n, 2 n and 3 n.
    assert rows["interval", 10]["ratio"] == pytest.approx({"low": 15, "median": 20, "high": 25})
    assert rows["slow one", 7]["ratio"]["median"] == pytest.approx(0.5)
    assert rows["interval", 10]["over_floor"]["median"] == pytest.approx(4)
    assert rows["missing one", 9]["ratio"] is None
    assert rows["missing one", 9]["over_floor"] is None


def test_paired_ratios_are_not_ratios_of_medians():
    (found,) = derived(make_record(report(row(1, [1.0, 2.0, 4.0], [2.0, 10.0, 16.0]))))["results"]
    assert found["ratio"]["median"] == 4.0  # of 2, 5 and 4; of medians it is 5


def test_exponents_by_hand(record):
    found = exponents(record)  # of one comparison: the others have one size
    expected = {
        ("time", "ours"): 1,
        ("time", "peer"): 2,
        ("memory", "ours"): 1,
        ("memory", "peer"): 1,
    }
    assert found == pytest.approx({("audit", "interval", *k): v for k, v in expected.items()})


def test_memory_below_a_mebibyte_gives_no_exponent():
    rows = [row(n, [n], [n], memory={"ours": 4096 * n}) for n in (1, 2, 300)]
    assert {what for *_, what, _ in exponents(make_record(report(*rows)))} == {"time"}


def test_rows_are_in_the_order_of_the_page(record):
    assert [r["area"] for r in record["results"]] == ["audit"] * 3 + ["selective"] * 3
    assert [r["size"] for r in record["results"][:3]] == [10, 100, 1000]


def test_the_command_writes_what_the_page_shows(tmp_path, capsys):
    source = tmp_path / "report.json"
    source.write_text(json.dumps(report(row(1, [1.0], [2.0]))))
    assert record_command("benchmarks", _from_reports, [str(source), "--book", str(tmp_path)]) == 0
    path = tmp_path / "records" / "benchmarks.json"
    assert capsys.readouterr().out.strip() == str(path)
    assert [p.name for p in path.parent.iterdir()] == ["benchmarks.json"]
    text = path.read_text()
    for private in ("secret-host", "somebody", str(ROOT), str(Path.home())):
        assert private not in text or private == "/"
    record = json.loads(text)
    assert len(record["code"]) == 64
    assert record["packages"]["torch-uncertainty"] == "absent"
    assert "interval, 1 trials|2.0|" in re.sub(r"(<[^>]+>)+", "|", measured_html(tmp_path, "audit"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.pop("floor"), "a result lacks floor"),
        (lambda r: r.update(area="games"), "area must be of audit.*got 'games'"),
        (lambda r: r.update(agreement=[]), "agreement must not be empty"),
        (
            lambda r: r["agreement"][0].update(difference=1.0),
            "difference of 'value' must be at most 1e-09, got 1.0",
        ),
        (lambda r: r["seconds"].pop("peer"), "reason must say why"),
        (lambda r: r["seconds"]["ours"].pop(), "as many rounds on each side"),
        (lambda r: r["seconds"].pop("ours"), "as many rounds on each side"),
        (lambda r: r["seconds"].update(ours=[0.0], peer=[1.0]), "must be positive numbers"),
    ],
)
def test_comparisons_that_are_refused(record, change, message):
    wrong = copy.deepcopy(record)
    wrong["results"][0]["seconds"].pop("floor")
    change(wrong["results"][0])
    with pytest.raises(ValueError, match=message):
        make_record(report(*wrong["results"]))
    with pytest.raises(ValueError, match=message):
        PARTS["audit"](wrong)


def test_what_is_no_report_or_no_record(tmp_path, capsys):
    with pytest.raises(ValueError, match="the report must be one of tests/benchmarks"):
        make_record({"benchmarks": []})
    (tmp_path / "records").mkdir()
    for text, message in (("{", "is no JSON"), ("{}", "lacks finished")):
        (tmp_path / "records" / "benchmarks.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            measured_html(tmp_path, "audit")
    missing = [str(tmp_path / "none.json"), "--book", str(tmp_path)]
    assert record_command("benchmarks", _from_reports, missing) == 1
    assert "error: " in capsys.readouterr().err


# ------------------------------------------------------------------ page


def test_every_part_shows_what_was_recorded(record):
    page = {part: show(record) for part, show in PARTS.items()}
    assert "20 (15 to 25)" in page["audit"]
    assert "someone" in page["audit"]
    assert "interval: value" in page["audit"]
    assert "1.0\u00a0×\u00a010⁻⁹" in page["audit"]
    assert "3 checks" in page["audit"]
    assert (
        "does not import here: ImportError: no &lt;b&gt;torchvision&lt;/b&gt;" in page["selective"]
    )
    assert page["training"] == "<p>Not part of the recorded run.</p>"
    growth = re.sub(r"(<[^>]+>)+", "|", page["growth"])
    assert "|interval, 10 to 1,000 trials|1.00|2.00|" in growth
    # The peak at the largest size, 3,000 MiB and 1,000 MiB, and its exponents.
    assert "|interval, 1,000 trials|3,000|1,000|1.00|1.00|" in growth
    assert "alt='Two panels" in page["growth"]
    assert "one reading" in page["floors"]
    assert "this version of the code" in page["machine"]
    assert "an earlier version" in PARTS["machine"](record | {"code": "0"})
    assert record["packages"]["numpy"] in page["machine"]


def test_losses_are_shown_as_such(record):
    page = PARTS["slower"](record)
    lost, rest = page.split("Neither side is clearly faster")
    assert "slow one, 7 trials: 0.50 (0.38 to 0.62) times as fast as someone" in lost
    assert "even one" in rest
    assert "interval, 1,000 trials: 3.0 times the peak of someone" in rest
    assert "interval" not in lost
    won = make_record(report(row(1, [1.0], [2.0])))
    assert PARTS["slower"](won) == "<p>In none of the 1 comparisons of this run.</p>"


def test_the_page_has_every_part_once():
    text = (ROOT / "book" / "benchmarks.md").read_text(encoding="utf-8")
    assert [text.count(f"```{{measured}} {part}\n") for part in PARTS] == [1] * len(PARTS)
    assert set(AREAS) <= set(PARTS)


def test_figure_shows_the_times(record):
    figure = plot_growth(record)
    ours, theirs = figure.axes
    np.testing.assert_allclose(ours.lines[0].get_ydata(), [1, 10, 100])
    np.testing.assert_allclose(theirs.lines[0].get_ydata(), [1, 100, 10_000])
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said == ["interval", "proportional"]


def test_the_committed_record_is_whole():
    for part in PARTS:
        page = measured_html(ROOT / "book", part)
        assert page
        assert "No run has been recorded" not in page
        assert "Not part of the recorded run" not in page


# ------------------------------------------------------------------ memory


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the peak of memory on Linux only")
def test_peak_of_memory():
    def fill():
        block = ctypes.create_string_buffer(64 * MIB)
        ctypes.memset(block, 1, len(block))

    # Of the process itself a few pages more.
    assert 64 * MIB <= peak_memory(fill) < 66 * MIB
    assert peak_memory(lambda: None) < 2 * MIB
    with pytest.raises(RuntimeError, match="measures memory ended with status"):
        peak_memory(lambda: 1 / 0)

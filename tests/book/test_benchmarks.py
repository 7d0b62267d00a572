"""From pytest-benchmark's report to the record and the table: by hand, and what is refused."""

import json
import re
from pathlib import Path

import pytest

from lib.book.benchmarks import benchmarks_html, main, make_record, ratio

ROOT = Path(__file__).parents[2]


def row(size, ours, theirs, **changes):
    return {
        "comparison": "interval",
        "peer": "someone",
        "size": size,
        "unit": "trials",
        "seconds": {"ours": list(ours), "peer": list(theirs)},
        "remark": "",
    } | changes


def report(*rows):
    return {
        "machine_info": {"node": "secret-host", "user": "somebody"},
        "companion": {"load": 1.25, "seconds": 90.0},
        "benchmarks": [{"extra_info": each} for each in rows],
    }


def shown(book, record):
    (book / "records").mkdir(exist_ok=True)
    (book / "records" / "benchmarks.json").write_text(json.dumps(record))
    return re.sub(r"(<[^>]+>)+", "|", benchmarks_html(book))


def test_ratios_are_of_one_round():
    # n^2, 4 n^2 and 9 n^2 over n, 2 n and 3 n: the ratios are n, 2 n and 3 n.
    assert ratio(row(10, [10, 20, 30], [100, 400, 900])) == pytest.approx((15, 20, 25))
    assert ratio(row(1, [1.0, 2.0, 4.0], [2.0, 10.0, 16.0]))[1] == 4.0  # of medians it is 5


def test_the_table_has_the_largest_size_of_each_comparison(tmp_path):
    rows = [row(n, [n, 2 * n, 3 * n], [n**2, 4 * n**2, 9 * n**2]) for n in (10, 1000, 100)]
    slow = row(7, [4.0, 4.0], [1.0, 3.0], comparison="a <slow> one", remark="it stops early")
    record = make_record(report(slow, *rows), ROOT)
    assert [each["size"] for each in record["results"]] == [7, 10, 100, 1000]
    page = shown(tmp_path, record)
    assert "|interval, 1,000 trials|someone|2,000 (1,500 to 2,500)|" in page
    assert "interval, 100 trials" not in page
    assert "|a &lt;slow&gt; one, 7 trials|someone|0.50 (0.38 to 0.62)|" in page
    assert "|a &lt;slow&gt; one: it stops early.|" in page
    assert record["packages"]["numpy"] in page


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.pop("unit"), "unit"),
        (lambda r: r["seconds"]["ours"].pop(), "rounds"),
        (lambda r: r["seconds"].update(ours=[0.0], peer=[1.0]), "positive"),
    ],
)
def test_comparisons_that_are_refused(change, message, tmp_path):
    wrong = make_record(report(row(1, [1.0], [2.0])))
    change(wrong["results"][0])
    for refuses in (lambda: make_record(report(*wrong["results"])), lambda: shown(tmp_path, wrong)):
        with pytest.raises(ValueError, match=message):
            refuses()


def test_the_command_writes_what_the_page_shows(tmp_path, capsys):
    """And nothing of who measured; the book's own record is one of these."""
    source, path = tmp_path / "report.json", tmp_path / "records" / "benchmarks.json"
    assert main([str(source), "--book", str(tmp_path)]) == 1
    assert "error: " in capsys.readouterr().err
    source.write_text(json.dumps(report(row(1, [1.0], [2.0]))))
    assert main([str(source), "--book", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(path)
    text = path.read_text()
    for private in ("secret-host", "somebody", str(ROOT), str(Path.home())):
        assert private not in text or private == "/"
    assert "|interval, 1 trials|someone|2.0|" in shown(tmp_path, json.loads(text))
    assert benchmarks_html(ROOT / "book").count("<tr") >= 10

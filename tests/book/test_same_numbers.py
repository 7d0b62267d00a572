"""No number differs between two pages: values quoted, and digits typed, of pages and the README."""

import re
from collections import defaultdict
from decimal import Decimal, InvalidOperation

import pytest
from notebooks import ROOT

from lib.book.notebooks import VALUE
from lib.book.prose import pages
from lib.book.records import read_records
from lib.book.words import formatted

BOOK = ROOT / "book"
#: All that people read, by name; also what `prose.pages` leaves out: the README and its like.
PAGES = pages(BOOK) | {path.stem: path for path in sorted(ROOT.glob("[A-Z]*.md"))}
del PAGES["CHANGELOG"]  # says what was true at its time
PAGES |= {path.name: path for path in BOOK.glob("*.txt")}  # included by pages

#: Decimals and percentages typed on pages of Markdown, none of which is a result of ours.
TYPED = {
    "papers": {
        "0.1",  # our clipping norm
        "0.4",  # error rates of P3's statement
        "0.6", "0.9",  # accuracies of the random order's scores
        ".963", ".040",  # of the authors' code, also in counterfactual.py
        ".756", ".138",  # printed by P4
        "5%",  # the level
    },
    "reproduces": {"2.5%", "95%"},  # levels
    "maintainers": {"0.01", "0.005"},  # tolerances of the other side's search
    "security": {"12.5", "1.5"},  # percent of a step of rounding, million members
    "index": {"3.11"}, "README": {"3.11"},  # Python
}  # fmt: skip


def quotes() -> dict[str, dict[str, set[str]]]:
    """By value quoted, ``chapter.name`` or ``chapter@run.name``: the formats on each page."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for page, path in PAGES.items():
        for quoted in VALUE.findall(path.read_text(encoding="utf-8")):
            name, _, spec = quoted.partition(":")
            found[name][page].add(spec)
    return found


def number(name: str, spec: str):
    """What a reader reads; the format where no record holds the value."""
    source, _, key = name.rpartition(".")
    chapter, _, run = source.partition("@")
    records = read_records(BOOK, chapter)
    record = records.get(run, {}) if run else next(iter(records.values()), {})
    if key not in record.get("values", {}):
        return spec
    return as_read(formatted(record["values"][key], spec))


def as_read(text: str):
    """A text's number, so that 8, 8.0 and 800% are one; the text where it is none."""
    plain = text.replace(",", "").replace("−", "-")
    try:
        return Decimal(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
    except InvalidOperation:
        return text


ON_TWO = {name: by for name, by in quotes().items() if len(by) > 1}


@pytest.mark.parametrize("name", ON_TWO)
def test_two_pages_give_a_value_the_same_number(name):
    """One page may also round it further: each two have one number in common."""
    shown = {page: {number(name, spec) for spec in specs} for page, specs in ON_TWO[name].items()}
    assert set.intersection(*shown.values()), shown


def test_values_are_quoted_on_two_pages_also_of_a_named_run():
    assert len(ON_TWO) > 40
    assert any("@" in name for name in ON_TWO)
    assert {"index", "papers"} <= {page for by in ON_TWO.values() for page in by}


@pytest.mark.parametrize(("one", "other"), [("8", "8.0"), ("26%", "0.26"), ("1,000", "1000")])
def test_numbers_that_read_alike_are_one(one, other):
    assert as_read(one) == as_read(other)
    assert as_read("25") != as_read("25.06")
    assert as_read("never") == "never"


def typed(text: str) -> set[str]:
    """Decimals and percentages in prose; not in code, tables, formulas, names or places."""
    text = re.sub(
        r"^```(.*?)$(.*?)^```$",
        lambda fence: fence[2] if fence[1] in ("{margin}", "{glossary}") else "",
        text,
        flags=re.DOTALL | re.MULTILINE,
    )
    text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\$[^$]*\$|\{[\w:]+\}`[^`]*`|`[^`]*`|\]\([^)]*\)", "", text)
    text = re.sub(r"(?:Definition|Lemma|Eqs?\.|[Ss]ection) [\d.]+", "", text)
    return {*re.findall(r"(?<![\w.,\-/])(?:\d*\.\d+%?|\d+%)(?!\w|\.\d)", text)}


@pytest.mark.parametrize("page", [name for name, path in PAGES.items() if path.suffix == ".md"])
def test_a_page_of_markdown_types_no_result(page):
    """A result is quoted as a value, which is the same everywhere."""
    assert typed(PAGES[page].read_text(encoding="utf-8")) == TYPED.get(page, set())


def test_what_the_authors_code_gives_is_the_same_on_both_pages():
    text = (BOOK / "counterfactual.py").read_text(encoding="utf-8")
    assert {".963", ".040", ".756", ".138"} <= typed(text)


def test_typed_numbers_are_found():
    text = "Of 3% and .25, not $0.5$, `0.7`, {value}`a.b:.2f`, Lemma 4.3, v1.2.3 or 7.\n"
    assert typed(text + "| 0.9 |\n```sh\nx 0.8\n```\n```{margin}\n0.6\n```\n") == {
        "3%",
        ".25",
        "0.6",
    }

"""How the pages' prose reads: sentences are found as a reader finds them, within bounds."""

import ast
import functools
import io
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pandas as pd
import pytest
import yaml
from notebooks import ROOT

from lib.book.__main__ import main
from lib.book.chapters import chapter_of, declared_parameters, read_chapter
from lib.book.columns import columns_of
from lib.book.prose import AVOIDED, measure, pages, sentences, to_correct
from lib.book.records import read_record, record_files
from lib.book.words import caption_text

BOOK = ROOT / "book"
PAGES = pages(BOOK)
#: The most words of a main line, words of the median sentence, percent of sentences above 30 words
#: and of those with more than two numbers.
BOUNDS = {"words": 1800, "median": 16, "long": 5, "many": 5}


@functools.cache
def measured(name: str):
    path = PAGES.get(name, ROOT / name)
    return measure(path.read_text(encoding="utf-8"), path.suffix)


@pytest.mark.parametrize("name", [*PAGES, "README.md", "CONTRIBUTING.md"])
def test_a_page_reads_within_the_bounds(name):
    found = measured(name)
    has = {
        "words": found.words,
        "median": found.median,
        "long": 100 * found.long,
        "many": 100 * found.many,
    }
    assert {k: v for k, v in has.items() if v > BOUNDS[k]} == {}, f"python -m lib.book words {name}"


@functools.cache
def british() -> dict[str, str]:
    """British spellings, and what Americans write."""
    dictionary = files("codespell_lib") / "data" / "dictionary_en-GB_to_en-US.txt"
    return dict(line.split("->") for line in dictionary.read_text("utf-8").split())


AVOID = re.compile(rf"\b(?:{'|'.join(AVOIDED)})\b", re.IGNORECASE)


def words_avoided(text: str) -> set[str]:
    said = {each.lower() for each in re.findall(r"[A-Za-z]+", text)}
    return {m.group().lower() for m in AVOID.finditer(text)} | (said & british().keys())


#: What is no prose: code, formulas, addresses, roles; in docstrings also examples and parameters.
NAMES = re.compile(
    r"```.*?```|``.+?``|`[^`]+`|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)|\{[a-z]+\}"
    r"|^ *(?:>>>|\.\.\.)[^\n]*|^ *[\w, ]+ : [^\n]*",
    re.DOTALL | re.MULTILINE,
)


def words_said(code: str) -> str:
    """Docstrings, comments, and strings of more than one word: messages, captions, labels."""
    said, texts, documented = re.findall(r"(?:^|\s)#:? (.*)", code), [], set()
    for node in ast.walk(ast.parse(code)):  # what holds a docstring comes before it
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            if text := ast.get_docstring(node):
                said.append(text)
                documented.add(node.body[0].value)
        elif isinstance(node, ast.Constant) and node not in documented:
            texts.append(node.value)
    said = [NAMES.sub("", each) for each in said]
    return "\n".join([*said, *(text for text in texts if isinstance(text, str) and " " in text)])


#: What stays: names, and what would give stored training runs, chapters and records new keys, as
#: the meaning of a parameter does.
MEANT = {
    "audit": {"panel", "grey"},  # of figures
    "canaries": {"sandwich"},  # a column
    "suitability_guarantee": {"panels", "labelled"},  # of a figure; of parameters, see above
    "suitability_time": {"labelled"},
    "training": {"trainings"},
    "CONTRIBUTING.md": {"licence"},  # a field of the registry
    "book/interactive.py": {"labelledby"},  # an attribute in HTML
    "book/prose.py": {
        "for those who go on",
        "next come",
        "sandwich",
        "mutation rate",
        "told propensities",
    },  # the list itself
    "privacy/accounting.py": {"neighbours"},  # a parameter
    "report/naming.py": {"centre"},  # a column of the user's
    "studies/canaries/mechanisms.py": {"trainings"},
    "studies/canaries/published.py": {"sandwich"},  # a recorded table's column
    "studies/canaries/simulation.py": {"sandwich"},
    "studies/interplay/experiments.py": {"trainings"},
    "training/label_jobs.py": {"randomised"},
    "training/many.py": {"trainings"},
}


@pytest.mark.parametrize("name", [*PAGES, "README.md", "CONTRIBUTING.md"])
def test_a_page_is_in_the_books_words(name):
    """All of it: headings, asides, captions; spelled as Americans do."""
    path = PAGES.get(name, ROOT / name)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        cells = [(cell.cell_type == "markdown", cell.source) for cell in read_chapter(text).cells]
        text = "\n".join(said if prose else words_said(said) for prose, said in cells)
    assert words_avoided(NAMES.sub("", text)) - MEANT.get(name, set()) == set()


@pytest.mark.parametrize("name", ["claims.yml", "statements.yml"])
def test_the_ledger_speaks_as_the_pages_do(name):
    """Sentences of claims, not names: those have no space."""
    tree = yaml.load((ROOT / "book" / name).read_text(encoding="utf-8"), yaml.CSafeLoader)
    assert words_avoided("\n".join(each for each in leaves(tree) if " " in each)) == set()


def leaves(tree: object) -> Iterator[str]:
    """All strings of a tree of mappings and lists."""
    if isinstance(tree, dict | list):
        for each in tree.values() if isinstance(tree, dict) else tree:
            yield from leaves(each)
    elif isinstance(tree, str):
        yield tree


def test_what_lib_says_is_in_the_books_words():
    modules = {p.relative_to(ROOT / "lib").as_posix(): p for p in (ROOT / "lib").rglob("*.py")}
    found = {n: words_avoided(words_said(p.read_text("utf-8"))) for n, p in modules.items()}
    assert {n: bad for n, words in found.items() if (bad := words - MEANT.get(n, set()))} == {}
    assert {*MEANT} <= {*modules, *PAGES, "CONTRIBUTING.md"}
    code = (
        'def f(labelled):  # grey\n    """Rows, ``favour``."""\n    return f"{labelled} {1} colour"'
    )
    assert words_avoided(words_said(code)) == {"grey", "colour"}


#: Words of chapters and of their records that stay, as those of ``lib`` do.
MEANT_THERE = {"canaries": {"sandwich"}}  # names of simulated intervals, in recorded tables


def said_by_chapter(path: Path) -> str:
    """Captions, alternative texts, labels and notes of a chapter's code; meanings of parameters."""
    chapter = read_chapter(path.read_text("utf-8"))
    cells = [c.source for c in chapter.cells if c.cell_type == "code"]
    words = [words_said(cell) for cell in cells]
    return "\n".join(words + [each.meaning for each in declared_parameters(chapter)])


def said_by_record(record: dict) -> str:
    """Captions, alternative texts and notes of a record, headings and words of its tables."""
    said = [figure[part] for figure in record["figures"].values() for part in ("alt", "caption")]
    for kept in record["tables"].values():
        frame = pd.read_csv(io.StringIO(kept["csv"]), keep_default_na=False)
        columns = columns_of(frame, kept["formats"])
        cells = [text for each in columns if not each.number for text in each.texts]
        said += [caption_text(kept["caption"]), *(each.name for each in columns), *cells]
    shown = (part for parts in record.get("shown", {}).values() for part in parts)
    return "\n".join(said + [part["text"] for part in shown if part["kind"] == "note"])


@pytest.mark.parametrize("name", [n for n, path in PAGES.items() if path.suffix == ".py"])
def test_captions_and_tables_of_a_chapter_are_in_the_books_words(name):
    """In its source, and in the records that its page shows."""
    records = [read_record(p) for p in record_files(BOOK) if chapter_of(p.stem) == name]
    texts = [said_by_chapter(PAGES[name]), *map(said_by_record, records)]
    found = [words_avoided(text) - MEANT_THERE.get(name, set()) for text in texts]
    assert found == [set()] * len(texts)


def test_the_comparison_with_other_software_is_in_the_books_words():
    rows = json.loads((BOOK / "records" / "benchmarks.json").read_text("utf-8"))["results"]
    said = "\n".join(f"{row['comparison']}\n{row['peer']}\n{row['remark']}" for row in rows)
    assert words_avoided(said) == set()


def test_words_of_chapters_and_records_are_found(tmp_path):
    chapter = tmp_path / "mine.py"
    code = '# %% tags=["parameters"]\nn: int = 1  # [1, 2] labelled rows\n\n# %%\nx = "Grey band"\n'
    chapter.write_text(code, encoding="utf-8")
    assert words_avoided(said_by_chapter(chapter)) == {"labelled", "grey"}
    table = {"csv": "peer,n panels\na peer,1\n", "caption": "Two trainings", "formats": {}}
    record = {"figures": {"a": {"alt": "A panel", "caption": "grey"}}, "tables": {"a": table}}
    assert words_avoided(said_by_record(record)) == {"panels", "peer", "trainings", "panel", "grey"}


def test_all_pages_but_the_reference_are_measured():
    places = [p for folder in (BOOK, BOOK / "beyond") for p in folder.iterdir()]
    assert {*PAGES.values()} == {p for p in places if p.suffix in (".py", ".md")}
    assert len(PAGES) >= 30


PAGE = """# A title of many words that nobody counts

One claim, as of Table 2, holds for {value}`a.b:.2f` of $n = 3$ points {cite}`x2020y`. Is it so,
e.g. in P1? See [the
page](other.md).

```sh
papermill one two three
```

$$
x = 1
$$

| a table | has words |
|---|---|
| that nobody | counts 5 |

:::{margin}
An aside.
:::

::::{grid} 1 1 2 2
:gutter: 3

:::{grid-item-card} Of a card
The text {py:obj}`lib.audit` counts.

```{picture} a.b
```
:::
::::

```{glossary}
term
other term
  What a term means. With
  two sentences.
```

1. First of 1,000 or -0.5 in 12%. *Second* {claim}`A-b`.
"""


def test_sentences_are_what_a_reader_reads():
    assert [each.replace("\xa0", " ") for each in sentences(PAGE)] == [
        "One claim, as of Table 2, holds for \x01 of \x02 points .",
        "Is it so, e.g. in P1?",
        "See the page.",
        "The text \x02 counts.",
        "What a term means.",
        "With two sentences.",
        "First of 1,000 or -0.5 in 12%.",
        "Second .",
    ]


def test_what_is_measured_by_hand():
    found = measure(PAGE)
    words = [12, 6, 3, 4, 4, 3, 7, 1]
    assert (found.words, found.sentences, found.median) == (sum(words), 8, 4)
    assert (found.long, found.many) == (0, 1 / 8)  # three numbers stand in that of 1,000
    assert measure("") == measure("# A title\n")
    assert measure("").sentences == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (" ".join(["word"] * 31) + ".", "31 words: word"),
        ("From {value}`a.b` to {value}`a.c` in 7.", "3 numbers: From # to # in 7."),
        ("A sandwich interval.", "'sandwich': sandwich variance estimator: A"),
        (" ".join(["word"] * 30) + ".", None),
        ("P1 has {value}`a.b` and {value}`a.c` in Table 7, CIFAR-10 and 2023.", None),
        ("The sandwich variance estimator of three-color prints.", None),
    ],
)
def test_a_sentence_to_correct_is_shown_with_its_reason(text, why):
    found = to_correct(text)
    assert found == [] if why is None else found[0].startswith(why)


def test_the_command_prints_a_row_a_page_and_what_to_correct(tmp_path, capsys):
    Path(tmp_path, "_toc.yml").write_text("format: jb-book\nroot: index\nchapters: [{file: a}]\n")
    Path(tmp_path, "index.md").write_text("# T\n\nGood words.\n")
    text = "# %% [markdown]\n# # T\n# Two trainings. Three words here.\n\n# %%\nx = 'A b c.'\n"
    Path(tmp_path, "a.py").write_text(text)
    assert main(["words", "--book", str(tmp_path)]) == 0
    rows = capsys.readouterr().out.splitlines()[2:]
    assert rows == [
        "| index | 2 | 1 | 2 | 0.0% | 0.0% |  |",
        "| a | 5 | 2 | 2.5 | 0.0% | 0.0% | trainings |",
    ]
    assert main(["words", "a", "--book", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "'trainings': training runs: Two trainings.\n"
    assert main(["words", "b", "--book", str(tmp_path)]) == 2
    assert "no page 'b'" in capsys.readouterr().err

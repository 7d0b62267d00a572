"""How the book's prose reads: ``python -m lib.book words``, a row per page.

With the name of a page come its sentences that are to be corrected, ``#`` for a quoted value and
``~`` for a formula or a name.

Measured is the *main line*: what a reader reads who opens nothing. These are paragraphs, lists and
definitions. Not counted are headings, code, displayed formulas, tables, margin notes, what is
folded, and what directives draw. A page is read as MyST reads it, not by its lines.

A word is what stands between blanks. A formula, a quoted value or a name of code counts as one; a
citation in brackets or the mark of a verdict as none. A *number* is a quoted value, or digits that
stand alone: those of a name (P1, CIFAR-10), a formula or a place (Table 2) are none.
"""

import re
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.myst_role import myst_role_plugin
from sphinx_external_toc.parsing import parse_toc_yaml

from lib.book.chapters import read_chapter

LONG = 30  # words of a sentence
MANY = 2  # numbers of a sentence

#: What this book does not say, as patterns, and what it says instead.
AVOIDED = {
    r"perceptrons?": "MLP",
    r"told propensities": "known propensities",
    r"mutation rate": "mutation score",
    r"mend(?:s|ed)?": "correct",
    r"shares? of": "fraction of",
    r"mind (?:that|what|the)": "note",
    r"(?:lower|upper) ends?": "lower or upper bound",
    r"trainings": "training runs",
    r"peers?": "reference implementation",
    r"panels?": "experiments",
    r"sandwich(?! variance estimator)": "sandwich variance estimator",
    r"(?:randomis|normalis|standardis|discretis|recognis)\w+|realis(?:e|ing|ation)\w*": "-ize",
    r"labell\w+": "labeled",
    r"neighbour\w*": "neighbor",
    r"colou?r(?<=our)\w*|favour\w*|behaviour\w*|centre[sd]?|gr[e]y|licen[c]e": "American spelling",
    r"For those who go on|Next come|stands? above": "a heading that says what comes",
}
_AVOIDED = {re.compile(rf"\b(?:{p})\b", re.IGNORECASE): word for p, word in AVOIDED.items()}

#: Directives whose content is read as the page's own text; that of all others is not.
_FLOW = {"grid", "grid-item", "grid-item-card", "admonition", "note", "glossary"}
_DIRECTIVE = re.compile(r"\{([\w:-]+)\}")
_ENDS = re.compile(r"(?<=[.?!])[\"')\]”*]*\s+(?=[\"'(\[“*]*[A-Z0-9\x00-\x02])")
_SHORT = re.compile(r"\b(?:e\.g|i\.e|et al|vs|Eqs?|Figs?|cf|Sec|resp)\.\s", re.IGNORECASE)
_PLACE = re.compile(r"\b(?:tables?|figures?|sections?|algorithms?|eqs?\.?|definitions?|chapters?"
                    r"|lemmas?|theorems?|propositions?|appendix|python)\s\d[\d.]*|\b(?:19|20)\d\d\b",
                    re.IGNORECASE)  # fmt: skip
_NUMBER = re.compile(r"(?<![\w.\-/])[-+]?\d[\d,]*(?:\.\d+)?(?![\w-])")
_VALUE, _THING = "\x01", "\x02"  # a quoted number; a formula or a name

_READER = MarkdownIt("commonmark").enable("table")
for _plugin in (colon_fence_plugin, deflist_plugin, dollarmath_plugin, myst_role_plugin):
    _READER.use(_plugin)


@dataclass(frozen=True)
class Measured:
    """Of a page's main line: words, sentences, and what is to be corrected in them.

    `median` is in words a sentence; `long` and `many` are fractions of the sentences, of those
    above 30 words and of those with more than two numbers; `avoided` are words not to be used.
    """

    words: int
    sentences: int
    median: float
    long: float
    many: float
    avoided: tuple[str, ...] = ()


def pages(book: Path) -> dict[str, Path]:
    """The pages of prose that the contents list, by name; those of the reference are docstrings."""
    names = [name.removesuffix(".py") for name in parse_toc_yaml(book / "_toc.yml")]
    places = [p for name in names for p in book.glob(f"{name}.*") if p.suffix in (".py", ".md")]
    return {p.stem: p for p in places if "reference" not in p.parts}


def measure(text: str, suffix: str = ".md") -> Measured:
    """Measure a page: `text` is Markdown, or a chapter in percent format if `suffix` is ``.py``."""
    said = list(sentences(text, suffix))
    words = [len(_words(each)) for each in said]
    numbers = [_numbers(each) for each in said]
    found = {m.group().lower() for each in said for p in _AVOIDED for m in p.finditer(each)}
    return Measured(
        words=sum(words),
        sentences=len(said),
        median=statistics.median(words) if words else 0,
        long=sum(n > LONG for n in words) / max(1, len(said)),
        many=sum(n > MANY for n in numbers) / max(1, len(said)),
        avoided=tuple(sorted(found)),
    )


def sentences(text: str, suffix: str = ".md") -> Iterator[str]:
    """The sentences of a page's main line; \\x01 is a quoted value, \\x02 a formula or a name."""
    if suffix == ".py":
        cells = [c.source for c in read_chapter(text).cells if c.cell_type == "markdown"]
        text = "\n\n".join(cells)
    for block in _blocks(_READER.parse(text)):
        joined = _SHORT.sub(lambda m: m.group().replace(" ", "\xa0").replace("\n", "\xa0"), block)
        for sentence in _ENDS.split(joined):
            if _words(sentence):
                yield sentence.strip()


def to_correct(text: str, suffix: str = ".md") -> list[str]:
    """The sentences that are long, have many numbers, or a word to be avoided; and why."""
    found = []
    for each in sentences(text, suffix):
        why = [f"{n} words"] if (n := len(_words(each))) > LONG else []
        why += [f"{n} numbers"] if (n := _numbers(each)) > MANY else []
        said = [(m.group(), word) for p, word in _AVOIDED.items() for m in p.finditer(each)]
        why += [f"{old!r}: {new}" for old, new in said]
        if why:
            found.append(f"{', '.join(why)}: {each.replace(_VALUE, '#').replace(_THING, '~')}")
    return found


def table(measured: Mapping[str, Measured]) -> str:
    """A Markdown table of pages, for ``python -m lib.book words`` and for notes."""
    head = "| page | words | sentences | median | above 30 | numbers > 2 | to be avoided |"
    rows = [
        f"| {name} | {m.words:,} | {m.sentences} | {m.median:g} | {m.long:.1%} | {m.many:.1%} "
        f"| {', '.join(m.avoided)} |"
        for name, m in measured.items()
    ]
    return "\n".join([head, "|---|--:|--:|--:|--:|--:|---|", *rows])


def _blocks(tokens: list[Token]) -> Iterator[str]:
    """The text of each paragraph, list item or definition, those of some directives among them."""
    passed = 0  # within a heading or a table
    for token in tokens:
        if token.type in ("heading_open", "table_open", "heading_close", "table_close"):
            passed += token.nesting
        elif token.type == "inline" and not passed:
            yield "".join(map(_plain, token.children or ()))
        elif token.type in ("fence", "colon_fence"):
            named = _DIRECTIVE.match(token.info.strip())
            if named and named[1] in _FLOW:
                content = re.sub(r"^(?::[\w-]+:.*\n)+", "", token.content)
                if named[1] == "glossary":  # terms, and what they mean indented beneath
                    content = re.sub(r"^\S.*$", "", content, flags=re.MULTILINE)
                    content = re.sub(r"^ +", "", content, flags=re.MULTILINE)
                yield from _blocks(_READER.parse(content))


def _plain(token: Token) -> str:
    if token.type == "text":
        return token.content
    if token.type in ("softbreak", "hardbreak"):
        return " "
    if token.type in ("code_inline", "math_inline", "math_inline_double"):
        return _THING
    if token.type == "myst_role":
        role = token.meta["name"]
        if role in ("term", "doc", "ref"):
            return re.sub(r"\s*<[^>]*>$", "", token.content)
        return {"value": _VALUE, "cite": "", "claim": ""}.get(role, _THING)
    return ""


def _words(sentence: str) -> list[str]:
    return [w for w in sentence.split() if re.search(r"[\w\x01\x02]", w)]


def _numbers(sentence: str) -> int:
    return sentence.count(_VALUE) + len(_NUMBER.findall(_PLACE.sub("", sentence)))

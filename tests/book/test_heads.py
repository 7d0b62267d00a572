"""What a chapter says first: a question, its answer with one number, a figure, and what to do."""

import re
import textwrap

import pytest
from notebooks import ROOT

from lib.book.prose import pages, sentences

CHAPTERS = {name: path for name, path in pages(ROOT / "book").items() if path.suffix == ".py"}
#: Characters of a line at 1,280 px, where the column of the text is 740 px wide.
COLUMN = 98
_ROLE = re.compile(r"\{([\w:]+)\}`([^`]*)`")
_NUMBER = re.compile(r"(?<![\w.\-/])[-+]?\d[\d,]*(?:\.\d+)?(?![\w-])")
#: The budget that an answer is about is a condition: no finding.
_BUDGET = re.compile(r"\$\\epsilon = \$ \{value\}`[^`]*`")


def head(text: str) -> list[str]:
    """The blocks of Markdown between a chapter's title and what comes next."""
    lines = []
    for line in text.split("\n")[2:]:  # beneath "# %% [markdown]" and the title
        if line.startswith(("# ## ", "# %%")):
            break
        lines.append(line.removeprefix("#").removeprefix(" "))
    parts = re.split(r"^(```.*?^```)$", "\n".join(lines), flags=re.MULTILINE | re.DOTALL)
    blocks = [[part] if k % 2 else part.split("\n\n") for k, part in enumerate(parts)]
    return [block.strip() for each in blocks for block in each if block.strip()]


def read(text: str) -> str:
    """A block as its reader sees it, as far as its length goes."""

    def shown(found: re.Match[str]) -> str:
        role, said = found[1], " ".join(found[2].split())
        if role in ("term", "doc"):
            return re.sub(r"\s*<[^>]*>$", "", said)
        return said.rpartition(".")[2] if said.startswith("~") else said

    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", _ROLE.sub(shown, text))
    return " ".join(text.replace("**", "").split())


def faults(text: str) -> list[str]:
    """What is wrong with the first screen of a chapter."""
    blocks, said = head(text), []
    starts = "```{result}", "```{picture}"
    question, answer = blocks[0], blocks[1]
    figure = next((k for k, each in enumerate(blocks) if each.startswith(starts)), 0)
    (k,) = (k for k, each in enumerate(blocks) if each.startswith("**Do this.**"))
    asked = list(sentences(question))
    if len(asked) != 1 or not asked[0].rstrip().endswith("?"):
        said.append(f"the question is no one sentence: {asked}")
    if not answer.startswith("**Answer.** "):
        said.append("the answer does not follow the question")
    answer = answer.removeprefix("**Answer.** ")
    if len(told := list(sentences(answer))) != 1:
        said.append(f"the answer is no one sentence: {told}")
    bare = re.sub(r"\$[^$]*\$|\]\([^)]*\)", "", _BUDGET.sub("", answer))
    rest = _ROLE.sub("", bare)
    numbers = re.findall(r"\{value\}`[^`]*`", bare) + _NUMBER.findall(rest)
    if len(numbers) > 1:
        said.append(f"the answer has {len(numbers)} numbers: {numbers}")
    if figure != 2:
        said.append("no figure follows the answer")
    if k < figure:
        said.append("what to do stands before the figure")
    if len(lines := textwrap.wrap(read(blocks[k]), COLUMN)) > 3:
        said.append(f"what to do takes {len(lines)} lines")
    if k + 1 < len(blocks) and re.match(r"[-*] |\d\. ", blocks[k + 1]):
        said.append("what to do is a list")
    commands = blocks[k + 1] if k + 1 < len(blocks) and blocks[k + 1].startswith("```sh") else ""
    if commands.count("\n") > 4:  # the fence, and three lines
        said.append("what to do has more than three commands")
    return said


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_begins_with_a_question_and_an_answer(name):
    assert faults(CHAPTERS[name].read_text(encoding="utf-8")) == []


GOOD = """# %% [markdown]
# # Title
#
# Is it so?
#
# **Answer.** Yes, as P1 says: at $\\epsilon = $ {value}`a.budget:g` in {value}`a.share:.0%` of all.
#
# ```{result} first
# ```
#
# **Do this.** Call {py:obj}`~lib.audit.held_out_lower_bound`.
#
# ## What holds
# Two. Sentences.
"""


def test_a_good_head_has_no_fault():
    assert len(head(GOOD)) == 4
    assert faults(GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Is it so?", "It may be. Is it so?", "question is no one"),
        ("Is it so?", "It may be.", "question is no one"),
        ("of all.", "of all. But not always.", "answer is no one"),
        ("of all.", "of all 12.", "2 numbers"),
        ("of all.", "of {value}`a.all`.", "2 numbers"),
        ("# **Answer.**", "# So it is.\n#\n# **Answer.**", "does not follow"),
        ("# ```{result} first\n# ```\n#\n", "", "no figure"),
        ("# ```{result}", "# Some words.\n#\n# ```{result}", "no figure"),
        ("Call ", "word " * 60 + "call ", "takes 4 lines"),
        ("bound`.", "bound`.\n#\n# - One more.", "is a list"),
        ("bound`.", "bound`.\n#\n# ```sh\n# a\n# b\n# c\n# d\n# ```", "three commands"),
    ],
)
def test_a_fault_of_a_head_is_found(old, new, words):
    assert old in GOOD
    assert any(words in each for each in faults(GOOD.replace(old, new)))

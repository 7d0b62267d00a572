"""A small book whose first chapter has runs, and its execution in forked children."""

import json
from pathlib import Path

import yaml

ONE = """# %% [markdown]
# # Chapter one

# %% tags=["parameters"]
base: float = 2.0  # [0, 100] what is doubled
count: int = 4  # [1, 100] runs

# %%
import pandas as pd
from fault_light import jobs

from lib.book.session import open_chapter
from lib.runs import RunStore

chapter = open_chapter("one", globals())

# %%
found = [RunStore().run(job) for job in jobs(count, pause=0.02)]
means = [run.metrics["mean"] for run in found]
chapter.values(double=2 * base, mean=sum(means))
chapter.table(pd.DataFrame({"mean": means}), "means", "Means.")
print(sum(run.arrays["total"][0] for run in found))

# %%
_ = chapter.check("T-1", 2 * base)
"""

TWO = """# %% [markdown]
# # Chapter two

# %%
from lib.book.session import open_chapter

chapter = open_chapter("two", globals())
chapter.values(seven=7)
_ = chapter.check("T-2", 7)
"""


def make_chapters(root: Path, *names: str) -> None:
    """Write the chapters of these names and what belongs to them below a folder."""
    from throwaway import CLAIMS

    book = root / "book"
    book.mkdir(parents=True)
    for name in names:
        (book / f"{name}.py").write_text({"one": ONE, "two": TWO}[name])
    claims = [each for each in yaml.safe_load(CLAIMS) if each["chapter"] in names]
    (book / "claims.yml").write_text(yaml.safe_dump(claims))
    toc = {"format": "jb-book", "root": "index", "chapters": [{"file": name} for name in names]}
    (book / "_toc.yml").write_text(yaml.safe_dump(toc))


def warm() -> None:
    """What is loaded late, for all children at once."""
    import papermill  # noqa: F401

    from lib.book import execute

    execute.package_versions()


def _given(done) -> dict:
    """What an executed chapter gave, but for durations and dates."""
    return {
        "values": done.values,
        "tables": done.tables,
        "verdicts": done.verdicts,
        "outputs": [
            [o.get("text") or sorted(o["data"].items()) for o in cell["outputs"]]
            for cell in done.cells
        ],
    }


def build(root: str, target: str = "") -> None:
    """Execute the chapters, and write down what they gave."""
    from lib.book.execute import execute_book

    executed = execute_book(Path(root, "book"), "quick")
    if target:
        given = {name: _given(done) for name, done in executed.items()}
        Path(target).write_text(json.dumps(given, sort_keys=True))


def given_by(root: str, chapter: str, target: str) -> None:
    """The same for one chapter."""
    from lib.book.execute import execute_chapter

    done = execute_chapter(Path(root, "book", f"{chapter}.py"), "quick")
    assert not done.cached
    Path(target).write_text(json.dumps(_given(done), sort_keys=True))

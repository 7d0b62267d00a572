"""CONTRIBUTING is followed literally in a throw-away copy, block after block."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "book"))

from throwaway import make_book  # noqa: E402

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+) (test|(?:file|append)=\S+)\n(.*?)^```$", re.M | re.S)


def once(blocks):
    """Blocks without commands that a later one repeats: the second build has the first's page."""
    later, kept = set(), []
    for language, what, content in reversed(blocks):
        if what == "test":
            lines = content.splitlines()
            content = "\n".join(line for line in lines if line not in later)
            later |= {*lines}
        kept.append((language, what, content))
    return kept[::-1]


@pytest.mark.slow
def test_every_step_works(tmp_path):
    book = make_book(tmp_path / "copy")
    environment = book.environment()
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    printed = []
    for language, what, content in once(BLOCK.findall(TEXT)):
        kind, _, name = what.partition("=")
        if kind == "test":
            assert language == "sh"
            run = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", content],
                cwd=book.root,
                env=environment,
                capture_output=True,
                text=True,
            )
            assert run.returncode == 0, f"{content}\n{run.stdout[-3000:]}\n{run.stderr[-3000:]}"
            printed.append(run.stdout)
            continue
        path = book.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        assert path.exists() == (kind == "append"), name
        with path.open("a", encoding="utf-8") as file:
            file.write(content)
    assert len(printed) == 4
    assert "1 0 1 1" in printed[2]
    assert "runner_up_gap" in printed[3]
    page = book.page("mine")
    assert "A chapter of mine" in page
    assert "companion-claim claim-yes' id='claim-MINE-share'" in page


def test_every_block_is_marked_and_every_guide_is_under_a_page():
    assert len(BLOCK.findall(TEXT)) == len(re.findall(r"^```\w+", TEXT, re.M))
    guides = re.split(r"^## ", TEXT, flags=re.M)[1:]
    assert [g.splitlines()[0] for g in guides] == ["A chapter", "A claim", "A data set", "A signal"]
    assert all(len(g.splitlines()) < 60 for g in guides)


def test_changelog_has_the_version_of_the_package():
    import lib

    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[([\d.]+)\]", text, re.M)[0] == lib.__version__

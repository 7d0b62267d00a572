"""nbval: the numbers on the pages are the expected ones."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from notebooks import ROOT, data_in_use, expected_name, quick_parameters, reference_notebook
from site_tools import build_site
from throwaway import ONE

from lib.book.chapters import chapter_files
from lib.book.execute import execute_chapter

CHAPTERS = chapter_files(ROOT / "book")
SMALL = (
    ONE.replace("# %%\ndouble", '# %% tags=["expect-double"]\ndouble')
    .replace(
        'chapter.values(double=double, has_data=int(data.available("throwaway/numbers")))\n', ""
    )
    .replace('_ = chapter.check("T-1", double)', "")
)


def run_nbval(notebook: nbformat.NotebookNode, folder: Path) -> subprocess.CompletedProcess:
    path = folder / "chapter.ipynb"
    nbformat.write(notebook, path)
    # Without our pytest settings: nbval itself warns.
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(folder), "-q"]
    command += ["--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout", "600", str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_site_shows_the_expected_numbers(chapter):
    """The outputs that the site was built from, with the data that are here or without."""
    build_site()
    expected = ROOT / "tests" / "expected" / chapter / data_in_use(chapter)
    texts = {path.stem: path.read_text(encoding="utf-8") for path in expected.glob("*.txt")}
    assert texts, f"no expected numbers in {expected}"
    found = {
        name: "".join(o["text"] for o in cell["outputs"] if o["output_type"] == "stream")
        for cell in execute_chapter(CHAPTERS[chapter], "quick").cells  # read from the cache
        if (name := expected_name(cell)) is not None
    }
    assert found == texts


# nbval executes a chapter once more, which takes as long as building its page: one chapter stands
# for all here, the others are held to the same numbers by the outputs on their pages, above.
@pytest.mark.slow
@pytest.mark.parametrize("chapter", ["normalized_score"])
def test_chapter_prints_the_expected_numbers(chapter, tmp_path):
    text = CHAPTERS[chapter].read_text(encoding="utf-8")
    expected = ROOT / "tests" / "expected" / chapter / data_in_use(chapter)
    assert list(expected.glob("*.txt")), f"no expected numbers in {expected}"
    done = run_nbval(reference_notebook(text, quick_parameters(chapter), expected), tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("printed", "passes"), [("4.0", True), ("4.1", False), ("", False)])
def test_a_wrong_expected_number_makes_nbval_fail(printed, passes, tmp_path):
    (tmp_path / "expected").mkdir()
    (tmp_path / "expected" / "double.txt").write_text(f"double is {printed}\n")
    notebook = reference_notebook(SMALL, {"base": 2.0}, tmp_path / "expected")
    assert sum(expected_name(c) is not None for c in notebook.cells) == 1
    done = run_nbval(notebook, tmp_path)
    assert (done.returncode == 0) == passes, done.stdout


def test_expectation_and_cell_must_meet(tmp_path):
    with pytest.raises(KeyError, match="double"):
        reference_notebook(SMALL, {}, tmp_path)
    (tmp_path / "double.txt").write_text("")
    (tmp_path / "triple.txt").write_text("")
    with pytest.raises(AssertionError, match="triple"):
        reference_notebook(SMALL, {}, tmp_path)

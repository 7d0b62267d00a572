"""Solutions on the site and in notebooks: folded, and with the cell that computes them."""

import pytest
from docutils import nodes
from docutils.utils import new_document
from sphinx.errors import ExtensionError

from lib.book.exercises import as_details, into_folds

FOLD = """1. A question?

   :::{dropdown} Solution
   Said in *words*.
   :::

2. Another one.

:::{dropdown} Proof
By $x$.

In two paragraphs.
:::

:::{margin}
An aside.
:::
"""


def page(*kinds: str) -> nodes.document:
    """A page of folds, within a list as in chapters, of solutions and of other cells."""
    document = new_document("page")
    for number, kind in enumerate(kinds):
        if kind == "fold":
            fold = nodes.container("", nodes.paragraph("", "Said."), design_component="dropdown")
            node = nodes.enumerated_list("", nodes.list_item("", nodes.paragraph("", "?"), fold))
        else:
            node = nodes.container("", classes=["cell", f"tag_{kind}"], ids=[f"cell-{number}"])
        document += node
    return document


def test_a_solution_stands_in_the_fold_before_it_and_other_cells_stay():
    found = page("other", "fold", "solution", "fold", "solution", "try-it", "fold", "other")
    into_folds(found)
    tops = [node["ids"] for node in found.children if isinstance(node, nodes.container)]
    assert tops == [["cell-0"], ["cell-5"], ["cell-7"]]
    folds = [node for node in found.findall(nodes.container) if "design_component" in node]
    inside = [[each["ids"] for each in fold.children[1:]] for fold in folds]
    assert inside == [[["cell-2"]], [["cell-4"]], []]


@pytest.mark.parametrize("kinds", [("solution",), ("other", "solution")])
def test_a_solution_without_a_fold_stops_the_build(kinds):
    with pytest.raises(ExtensionError, match="a solution without a dropdown"):
        into_folds(page(*kinds))


def test_a_notebook_has_folds_that_every_viewer_knows():
    said = as_details(FOLD)
    assert "dropdown" not in said
    first = "   <details>\n   <summary>Solution</summary>\n\n   Said in *words*.\n\n   </details>"
    assert first in said
    second = "<summary>Proof</summary>\n\nBy $x$.\n\nIn two paragraphs.\n\n</details>"
    assert second in said
    assert ":::{margin}\nAn aside.\n:::" in said
    assert as_details("No fold.\n") == "No fold.\n"

"""Solutions of exercises, folded: what is said, the cell that computes it, and what that prints.

An exercise of a chapter ends with ``:::{dropdown} Solution``.  A code cell tagged ``solution``
after it stands within the same fold: it runs by itself, on ``lib`` alone, and prints the same in
every run, whichever run the page shows.  A cell tagged ``try-it`` does too, and is not folded.
Of a chapter's other cells those tagged ``lesson`` are open on the page: at most eight lines that
show a call worth copying.
"""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # who only reads notebooks needs neither
    from docutils.nodes import Node, document
    from sphinx.application import Sphinx

SOLUTION, TRY_IT, LESSON = "solution", "try-it", "lesson"

_FOLD = re.compile(r"^( *):::\{dropdown\} ([^\n]+)\n(.*?)\n\1:::$", re.MULTILINE | re.DOTALL)


def by_itself(tags: Collection[str]) -> bool:
    """Whether a cell is of an exercise: no part of the run that a page shows."""
    return bool({SOLUTION, TRY_IT} & {*tags})


def as_details(text: str) -> str:
    """Prose with its folds as HTML, which every viewer of notebooks opens and closes."""
    return _FOLD.sub(r"\1<details>\n\1<summary>\2</summary>\n\n\3\n\n\1</details>", text)


def into_folds(page: "document") -> None:
    """Move each cell of a solution into the fold before it."""
    from docutils.nodes import container
    from sphinx.errors import ExtensionError

    def is_fold(node: "Node") -> bool:
        return isinstance(node, container) and node.get("design_component") == "dropdown"

    for cell in list(page.findall(container)):
        if f"tag_{SOLUTION}" in cell["classes"]:
            place = cell.parent.index(cell)
            folds = list(cell.parent[place - 1].findall(is_fold)) if place else []
            if not folds:
                raise ExtensionError(f"{page.get('source')}: a solution without a dropdown")
            cell.parent.remove(cell)
            folds[-1] += cell


def setup(app: "Sphinx") -> dict[str, Any]:
    """Register the event; dropdowns are those of sphinx-design, which Jupyter Book brings."""
    app.connect("doctree-read", lambda app, page: into_folds(page))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

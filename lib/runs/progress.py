"""Progress of long work: a bar in a terminal, silence in a page."""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")


def _in_kernel() -> bool:
    return "ipykernel" in sys.modules and "IPython" in sys.modules


def progress(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Iterate and show a progress bar in the terminal, if there is one.

    Inside a notebook kernel everything that is printed lands in the page. The bar
    is therefore written to the controlling terminal itself, and where there is
    none (a build server, a hosted notebook) nothing is shown.

    Parameters
    ----------
    items : iterable
        What to go through.
    description : str
        Printed before the bar.
    total : int, optional
        Number of items, where ``len(items)`` is not known.

    Yields
    ------
    object
        The items, unchanged and in order.
    """
    with contextlib.ExitStack() as stack:
        options = {"disable": None}  # tqdm: off unless the stream is a terminal
        if _in_kernel():
            try:
                terminal = stack.enter_context(open("/dev/tty", "w", encoding="utf-8"))
                options = {"file": terminal}
            except OSError:
                options = {"disable": True}
        yield from tqdm(items, desc=description, total=total, leave=False, **options)

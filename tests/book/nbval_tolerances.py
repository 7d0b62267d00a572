"""A plugin for nbval: tables as CSV, and numbers compared by the tolerances of this folder.

If chapters are executed anew (`ANEW` in the environment), kernels are forks of one process that has
imported what they import, which takes longer than many a chapter; and they draw no figures: nothing
of these is compared, and the build has drawn them.

nbval compares texts. Here an output that agrees with the expected one within tolerances is taken
for it; what differs by more is left as it is, so that nbval fails and shows both. Of an executed
cell only what the reference has is compared: printed text, and tables by name.
"""

import os

import nbval.kernel
from jupyter_client.manager import KernelManager
from jupyter_client.provisioning import local_provisioner
from nbval.plugin import IPyNbCell
from tolerances import differences, table_differences, tolerances

from lib.book.execute import TABLE_MIME
from lib.book.kernels import Fork, OwnSockets, be_a_kernel
from lib.book.notebooks import bundle_of

_compare = IPyNbCell.compare_outputs


def readable(outputs) -> list[dict]:
    """Printed text as one, and every table under its name."""
    printed = [o["text"] for o in outputs if o["output_type"] == "stream"]
    tables = [found[TABLE_MIME] for found in map(bundle_of, outputs) if TABLE_MIME in found]
    texts = {f"table {table['name']}": table["csv"] for table in tables}
    if printed:
        texts["printed"] = "".join(printed)
    return [{"data": {name: text}} for name, text in texts.items()]


def compare(self, test, ref, skip_compare=None) -> bool:
    allowed = tolerances(self.cell.metadata.get("chapter", ""))
    # nbval makes streams of other keys of its own, later.
    wanted = {name: text for out in readable(ref) for name, text in out["data"].items()}
    found = {name: text for out in readable(test) for name, text in out["data"].items()}
    for name, text in wanted.items():
        kind, _, table = name.partition(" ")
        if name not in found:
            continue
        if kind == "table":
            said = table_differences(text, found[name], allowed, table)
        else:
            said = differences(text, found[name], allowed)
        if not said:
            found[name] = text
    pick = [_output({name: found[name]}) for name in wanted if name in found]
    return _compare(self, pick, [_output({n: t}) for n, t in wanted.items()], skip_compare)


class _output(dict):
    """What nbval reads of an output."""

    output_type = "display_data"

    def __init__(self, data):
        super().__init__(data=data)


def _without_figures(*given) -> None:
    from matplotlib import pyplot

    import lib.plot

    lib.plot.svg_pair = lambda figure, *_: pyplot.close(figure) or (b"<svg></svg>", b"")
    for descriptor in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    be_a_kernel(*given)


class Drawless(Fork):
    """Imports ``lib`` before it forks: that stays as it is while tests run."""

    preloaded = (
        *Fork.preloaded,
        *("matplotlib.pyplot", "opacus", "sklearn.ensemble"),
        *("lib.book.session", "lib.report", "lib.studies.audit", "lib.studies.interplay"),
    )
    be = staticmethod(_without_figures)


if os.environ.get("ANEW"):
    local_provisioner.launch_kernel = Drawless
IPyNbCell.compare_outputs = compare
nbval.kernel.KernelManager = type("KernelManager", (OwnSockets, KernelManager), {})

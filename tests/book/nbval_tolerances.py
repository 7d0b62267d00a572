"""A plugin for nbval: tables as CSV, and numbers compared by the tolerances of this folder.

Kernels are forks of a process that has imported what chapters import, which takes longer than many
a chapter. They draw no figures: nothing of these is compared, and the build has drawn them.

nbval compares texts. Here an output that agrees with the expected one within tolerances is taken
for it; what differs by more is left as it is, so that nbval fails and shows both. Of an executed
cell only what the reference has is compared: printed text, and tables by name.
"""

import multiprocessing
import os
import sys
import time

import nbval.kernel
from jupyter_client.manager import KernelManager
from jupyter_client.provisioning import local_provisioner
from nbval.plugin import IPyNbCell
from tolerances import differences, table_differences, tolerances

from lib.book.execute import TABLE_MIME
from lib.book.kernels import OwnSockets
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
    allowed = tolerances(self.parent.nb.metadata.get("chapter", ""))
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


def _be_a_kernel(arguments: list[str], environment: dict[str, str], folder: str) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for descriptor in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    from ipykernel.kernelapp import launch_new_instance
    from matplotlib import pyplot

    import lib.plot

    lib.plot.svg_pair = lambda figure, *_: pyplot.close(figure) or (b"<svg></svg>", b"")
    sys.argv = arguments
    launch_new_instance()


class Fork:
    """A kernel's process, as jupyter_client wants it."""

    stdin = stdout = stderr = None
    context = multiprocessing.get_context("forkserver")

    def __init__(self, command, *, env, cwd=None, **_):
        given = command[command.index("ipykernel_launcher") :], env, cwd or os.getcwd()
        self.process = self.context.Process(target=_be_a_kernel, args=given)
        self.process.start()
        self.pid = self.process.pid
        while os.getpgid(self.pid) != self.pid:  # else its group would be ours when it is killed
            time.sleep(0.001)

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        self.process.join(timeout)
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


IMPORTED = [
    "ipykernel.kernelapp",
    "matplotlib.pyplot",
    "opacus",
    "pandas",
    "sklearn.ensemble",
    "torch",
]
IMPORTED += [
    "lib.book.session",
    "lib.studies.audit",
    "lib.studies.interplay",
    "lib.report",
    "torch",
]
Fork.context.set_forkserver_preload(IMPORTED)
local_provisioner.launch_kernel = Fork
IPyNbCell.compare_outputs = compare
nbval.kernel.KernelManager = type("KernelManager", (OwnSockets, KernelManager), {})

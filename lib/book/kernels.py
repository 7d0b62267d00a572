"""How kernels of chapters start, how they listen, and how they are ended."""

import contextlib
import multiprocessing
import os
import shutil
import signal
import stat
import sys
import tempfile
import threading
import time
import weakref
from multiprocessing import forkserver, resource_tracker, spawn
from pathlib import Path
from unittest import mock

import psutil
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import local_provisioner

# What a socket's path may have: 104 bytes on macOS, 108 on Linux, and a number is added.
_LONGEST = 90


def _remove_those_of_the_dead() -> None:
    """Remove this user's folders of kernels whose processes were killed, which could not do so."""
    for folder in Path(tempfile.gettempdir()).glob("kernel-*-*"):
        number = folder.name.split("-")[1]
        with contextlib.suppress(OSError):
            found = folder.lstat()
            own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
            if number.isdecimal() and own and not psutil.pid_exists(int(number)):
                shutil.rmtree(folder, ignore_errors=True)


class OwnSockets:
    """Has a kernel listen in a folder of its own, where the system has sockets in files.

    The usual manager asks the system for free ports and lets them go; the kernel takes them a
    second later.  Where several kernels start, or a browser runs, one in thousands finds a port
    taken, and dies.
    """

    def __init__(self, **settings) -> None:
        super().__init__(**settings)
        if os.name == "posix":
            _remove_those_of_the_dead()
        folder = tempfile.mkdtemp(prefix=f"kernel-{os.getpid()}-")
        self._remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        path = os.path.join(folder, "socket")
        if os.name == "posix" and len(os.fsencode(path)) <= _LONGEST:
            self.transport, self.ip = "ipc", path

    def cleanup_connection_file(self) -> None:
        """Remove the folder, too; before a restart this is not called: the kernel listens again."""
        super().cleanup_connection_file()
        self._remove()


class ChapterKernelManager(OwnSockets, AsyncKernelManager):
    """Kills an idle kernel without interrupting it first, and does not doze until it has ended.

    The usual manager sends SIGINT before all else. An idle kernel answers that with
    "KeyboardInterrupt caught in kernel", or leaves its loop while a task of it is pending, and says
    so: one in four kernels where several close at a time. Asked politely, one whose chapter had
    worker processes waits for multiprocessing's resource tracker, which ignores SIGTERM, until its
    time is up. All that a chapter gives has arrived by then.
    """

    async def _async_wait(self, pollinterval: float = 0.001) -> None:
        await super()._async_wait(pollinterval)

    async def _async_interrupt_kernel(self) -> None:
        """Leave an idle kernel alone."""

    interrupt_kernel = _async_interrupt_kernel


#: What most chapters import, and what takes longest of that: most processor seconds of a kernel's
#: start. Nothing of ``lib``, whose files may change while a book is built.
PRELOADED = (
    "ipykernel.kernelapp",
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "numba",
    "pandas",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "sklearn.linear_model",
    "sklearn.metrics",
    "sklearn.model_selection",
    "torch",
    "torch._dynamo",  # which deterministic algorithms and optimizers ask for: a second
    "opacus",
)
#: What a kernel sets for figures, unless it is set, before Matplotlib is imported.
_FIGURES = "module://matplotlib_inline.backend_inline"


def be_a_kernel(arguments: list[str], environment: dict[str, str], folder: str) -> None:
    """Go on as a kernel that was started with a command, an environment and a folder."""
    os.setsid()  # the group that is killed with it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # forget one that was for the group it left
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    if "numpy" in sys.modules:  # else unseeded draws are the same in every fork
        sys.modules["numpy"].random.seed()
    if "matplotlib" in sys.modules:  # which reads this at its import
        backend = os.environ.get("MPLBACKEND") or _FIGURES
        sys.modules["matplotlib"].rcParams["backend"] = backend
    asker = multiprocessing.parent_process()
    threading.Thread(target=_end_with, args=(asker,), daemon=True).start()
    from ipykernel.kernelapp import launch_new_instance

    sys.argv = [*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"]  # else it greets a user
    launch_new_instance()


def _end_with(asker) -> None:
    """End this kernel when the process that asked for it was killed: nobody else would."""
    asker.join()
    os._exit(1)


#: Who clears up after processes says so when one was killed, as kernels are; for a reader of a
#: build's last lines that is no news.
_UNTOLD = "ignore:resource_tracker"


def begin_tracker() -> None:
    """Start who clears up after this process, its worker processes and their forks, if need be."""
    if sys.platform != "linux":
        return
    with mock.patch.object(sys, "warnoptions", [*sys.warnoptions, _UNTOLD]):
        resource_tracker.ensure_running()


def _begin_server(preloaded: list[str]) -> None:
    """Start the process to be forked, if need be: Ctrl-C, even while it imports, is not for it."""
    begin_tracker()
    multiprocessing.get_context("forkserver").set_forkserver_preload(preloaded)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _about_process(name: str, about=spawn.get_preparation_data) -> dict:
    """What multiprocessing tells a fork, but for the script to import: a kernel needs none."""
    return {key: value for key, value in about(name).items() if not key.startswith("init_main")}


class Fork:
    """A kernel's process as jupyter_client wants it: a fork of one that has imported `preloaded`.

    That one is started with the first kernel, and ends with who asked for it and the last kernel.
    """

    stdin = stdout = stderr = None
    preloaded = PRELOADED
    be = staticmethod(be_a_kernel)

    def __init__(self, command, *, env, cwd=None, **_):
        given = command[command.index("ipykernel_launcher") :], env, cwd or os.getcwd()
        _begin_server([*self.preloaded])
        context = multiprocessing.get_context("forkserver")
        self.process = context.Process(target=self.be, args=given)
        with mock.patch.object(spawn, "get_preparation_data", _about_process):
            self.process.start()
        self.pid = self.process.pid
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            while os.getpgid(self.pid) != self.pid:  # else our group would be killed for its own
                time.sleep(0.001)

    def poll(self) -> int | None:
        """How it ended, if it has."""
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait until it has ended."""
        self.process.join(timeout)
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        """As ``kill`` does."""
        os.kill(self.pid, number)


class ForkedKernelManager(ChapterKernelManager):
    """Starts each kernel as a :class:`Fork`, where many are started one after another.

    On Linux only: elsewhere a fork may find the system's libraries unfit for use. Nor where the
    path of a socket would be too long, or another Python or environment is set for kernels.
    """

    async def _async_launch_kernel(self, kernel_cmd: list[str], **settings) -> None:
        with contextlib.ExitStack() as patched:
            own = kernel_cmd[0] == sys.executable and "ipykernel_launcher" in kernel_cmd
            own = own and not self.kernel_spec.env
            if sys.platform == "linux" and self.transport == "ipc" and own:
                patched.enter_context(mock.patch.object(local_provisioner, "launch_kernel", Fork))
            await super()._async_launch_kernel(kernel_cmd, **settings)

"""How kernels of chapters listen, and how they are ended."""

import contextlib
import os
import shutil
import stat
import tempfile
import weakref
from pathlib import Path

import psutil
from jupyter_client.manager import AsyncKernelManager

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
    """Kills an idle kernel without interrupting it first.

    The usual manager sends SIGINT before all else. An idle kernel answers that with
    "KeyboardInterrupt caught in kernel", or leaves its loop while a task of it is pending, and says
    so: one in four kernels where several close at a time. Asked politely, one whose chapter had
    worker processes waits for multiprocessing's resource tracker, which ignores SIGTERM, until its
    time is up. All that a chapter gives has arrived by then.
    """

    async def _async_interrupt_kernel(self) -> None:
        """Leave an idle kernel alone."""

    interrupt_kernel = _async_interrupt_kernel

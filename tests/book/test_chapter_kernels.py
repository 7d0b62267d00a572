"""How kernels of chapters start, how they listen, and how they are ended."""

import ast
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import local_provisioner

from lib.book import execute, kernels
from lib.book.kernels import ChapterKernelManager, Fork, ForkedKernelManager

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(os.name != "posix", reason="sockets in files are there on POSIX systems only")
def test_a_kernel_takes_no_port_that_another_may_have(monkeypatch):
    """In a short folder: those of pytest are too deep for sockets."""
    with tempfile.TemporaryDirectory(prefix="c-") as folder:
        _listens_in(Path(folder), monkeypatch)


def _listens_in(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    async def started() -> tuple[str, list[str], list[str]]:
        manager = ChapterKernelManager()
        await manager.start_kernel()
        await manager.restart_kernel(now=True)  # finds its folder again
        client = manager.client()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=60)
            used = [path.name for path in folder.glob("kernel-*/*")]
        finally:
            client.stop_channels()
            await manager.shutdown_kernel(now=True)
        return manager.transport, used, [path.name for path in folder.iterdir()]

    transport, used, left = asyncio.run(started())
    assert transport == "ipc"
    assert sorted(used) == [f"socket-{number}" for number in range(1, 6)]
    assert left == []


@pytest.mark.skipif(os.name != "posix", reason="sockets in files are there on POSIX systems only")
def test_folders_of_killed_processes_go(monkeypatch):
    """Those of processes that live, of others, and links stay."""
    with tempfile.TemporaryDirectory(prefix="c-") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        code = "import os; from lib.book.kernels import ChapterKernelManager\n"
        code += "manager = ChapterKernelManager(); os.kill(os.getpid(), 9)"
        environment = os.environ | {"TMPDIR": name}
        killed = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT)
        assert killed.returncode == -signal.SIGKILL
        (left,) = os.listdir(name)
        assert left.startswith("kernel-")
        stay = [f"kernel-{os.getppid()}-a", "kernel-word-a", "kernel-a", "other"]
        for each in stay:
            Path(name, each).mkdir()
        Path(name, f"kernel-{2**22 + 1}-link").symlink_to(Path(name, "other"))
        own = ChapterKernelManager()
        found = set(os.listdir(name))
        assert {*stay, f"kernel-{2**22 + 1}-link"} < found
        assert left not in found
        own.cleanup_connection_file()


def test_a_kernel_takes_ports_where_a_path_would_be_too_long(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert ChapterKernelManager().transport == "tcp"


def test_an_idle_kernel_is_ended_without_an_interrupt():
    """SIGINT makes it complain on the terminal, or leave while a task of it is pending."""

    async def signals() -> tuple[list[int], bool]:
        manager = ChapterKernelManager()
        await manager.start_kernel()
        client = manager.client()
        client.start_channels()
        sent = []
        try:
            await client.wait_for_ready(timeout=60)
            send = manager.provisioner.send_signal

            async def noted(number: int) -> None:
                sent.append(number)
                await send(number)

            manager.provisioner.send_signal = noted
        finally:
            client.stop_channels()
            await manager.shutdown_kernel(now=True)
        return sent, await manager.is_alive()

    sent, alive = asyncio.run(signals())
    assert not alive
    assert sent == [signal.SIGKILL]


FORKS = """
import ast, asyncio, os, signal, sys

from lib.book.kernels import Fork, ForkedKernelManager

sys.modules["asker"] = sys  # where this script is imported
Fork.preloaded = ("interrupts", "tomllib", "numpy", "ipykernel.kernelapp")
LOCKS = "import multiprocessing as m; kept = m.get_context('spawn').Lock()"  # as workers need
ASKED = "__import__('os').getcwd(), __import__('os').getenv('TOLD')"
ASKED += ", 'tomllib' in __import__('sys').modules"
ASKED += ", __import__('os').getpid(), __import__('os').getpgid(0), __import__('os').getppid()"
ASKED += ", __import__('numpy').random.random(), 'asker' in __import__('sys').modules"
ASKED += ", [*map(int, __import__('signal').pthread_sigmask(0, []))]"


async def ask(told):
    manager = ForkedKernelManager()
    await manager.start_kernel(env=os.environ | {"TOLD": told}, cwd=sys.argv[1])
    client = manager.client()
    client.start_channels()
    await client.wait_for_ready(timeout=60)
    reply = await client.execute(LOCKS, user_expressions={"x": ASKED}, reply=True)
    found = reply["content"]["user_expressions"]["x"]["data"]["text/plain"]
    print(ast.literal_eval(found), flush=True)
    client.stop_channels()
    return manager


async def main():
    first = await ask("one")
    await first.shutdown_kernel(now=True)
    print(await first.is_alive(), flush=True)
    await ask("two")
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="kernels are forks on Linux only")
def test_forks_are_kernels_of_their_own_and_end_with_who_asked_for_them(tmp_path):
    """What one has imported they have; folder, environment, group, unseeded draws are their own.

    Ctrl-C while it imports is not for it, and those who asked are imported by no kernel.
    """
    (tmp_path / "forks.py").write_text(FORKS, encoding="utf-8")
    code = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    (tmp_path / "interrupts.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "forks.py"), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
    one, alive, two = map(ast.literal_eval, done.stdout.splitlines())
    assert one[:3] == (str(tmp_path), "one", True)
    assert two[:3] == (str(tmp_path), "two", True)
    assert one[3] == one[4] != two[3] == two[4]
    assert one[5] == two[5] != two[3]  # what both are forks of
    assert one[6] != two[6]
    assert one[7:] == two[7:] == (False, [])
    assert not alive


@pytest.mark.skipif(sys.platform != "linux", reason="kernels are forks on Linux only")
@pytest.mark.parametrize(
    ("command", "environment", "transport", "forked"),
    [
        ((sys.executable, "-m", "ipykernel_launcher"), {}, "ipc", True),
        (("/another/python", "-m", "ipykernel_launcher"), {}, "ipc", False),
        ((sys.executable, "-m", "another_kernel"), {}, "ipc", False),
        ((sys.executable, "-m", "ipykernel_launcher"), {"OMP_NUM_THREADS": "1"}, "ipc", False),
        ((sys.executable, "-m", "ipykernel_launcher"), {}, "tcp", False),
    ],
)
def test_a_kernel_of_another_kind_is_no_fork(monkeypatch, command, environment, transport, forked):
    """Nor one where the path of a socket would be too long, on which forks are asked for."""
    launched = []

    async def launch(self, command, **settings):
        launched.append(local_provisioner.launch_kernel)

    monkeypatch.setattr(AsyncKernelManager, "_async_launch_kernel", launch)
    manager = ForkedKernelManager()
    manager.transport = transport
    manager._kernel_spec = KernelSpec(env=environment)
    asyncio.run(manager._async_launch_kernel([*command, "-f", "file"]))
    manager.cleanup_connection_file()
    assert (launched == [Fork]) == forked


@pytest.mark.skipif(sys.platform != "linux", reason="kernels are forks on Linux only")
def test_a_build_does_not_end_with_semaphores_of_killed_kernels():
    """For a reader of its last lines that is no news."""
    code = "import multiprocessing, os; from lib.book.kernels import begin_tracker\n"
    code += "begin_tracker(); kept = multiprocessing.get_context('spawn').Lock()\n"
    code += "os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")


def test_who_clears_up_is_there_before_workers_are(monkeypatch):
    """Else it is started by the first of these, and told nothing."""
    began = []

    def workers(*_):
        raise RuntimeError(f"began {' '.join(began)}")

    monkeypatch.setattr(kernels, "begin_tracker", lambda: began.append("tracker"))
    monkeypatch.setattr(execute, "LocalProcesses", workers)
    with pytest.raises(RuntimeError, match="began tracker"):
        execute._execute_together([Path("chapter.py")] * 5, "quick", 2)

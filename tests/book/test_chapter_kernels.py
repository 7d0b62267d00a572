"""How kernels of chapters listen, and how they are ended."""

import asyncio
import os
import signal
import tempfile
from pathlib import Path

import pytest

from lib.book.kernels import ChapterKernelManager


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

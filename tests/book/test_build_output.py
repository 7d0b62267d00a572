"""A green build prints a line per chapter and the path, and nothing else; a red one says all."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from throwaway import Book, make_book

from lib.book.kernels import ChapterKernelManager


def build(book: Book) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "lib.book", "build"],
        cwd=book.root,
        env=book.environment(COMPANION_JOBS="2"),
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_a_green_build_prints_a_line_per_chapter_and_the_path(tmp_path):
    book = make_book(tmp_path / "copy")
    first, second = build(book), build(book)
    path = re.escape(str(book.html / "index.html"))
    for done, how in ((first, r"executed in \d+ s"), (second, "from the cache")):
        assert done.returncode == 0
        assert done.stderr == ""
        *lines, last = done.stdout.splitlines()
        assert sorted(re.sub(how, "HOW", line) for line in lines) == [
            "chapter one (quick): HOW",
            "chapter two (quick): HOW",
        ]
        assert re.fullmatch(path, last)
    book.edit("book/two.py", "seven=7)", "seven=7)\nraise RuntimeError('no good')")
    failed = build(book)
    assert failed.returncode != 0
    assert str(book.html) not in failed.stdout
    assert "chapter two, cell 1" in failed.stderr
    assert "RuntimeError: no good" in failed.stderr
    assert "executing chapter two" in failed.stderr  # what was held back


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

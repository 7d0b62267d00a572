"""What is kept on a disk, as cases that a full or read-only disk may spoil.

``python fault_disk.py FOLDER CASE...`` is run in a mount namespace of its own, by ``unshare
--mount``: it mounts a small file system for each case, which is gone when the process has ended,
however it ends.  It prints a line of JSON for each way of failing and case.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np
from fault_light import Steps
from fault_tools import files
from web_server import send, serving

from lib.book.execute import BuildError
from lib.data.errors import DataCorrupted, DataUnavailable
from lib.runs import Checkpoint, RunsFailed, RunStore

PLACE = Path("/nonexistent")  # where the present case's file system is mounted
PAGE = 4096
FAILURES = (OSError, RunsFailed, DataUnavailable, BuildError)


class Case:
    """Something finished that must stay, and work that must succeed or fail as a whole."""

    pattern = "*"  # of the file that holds what is finished

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def work(self, name: str) -> None:
        """Make something new; it is compared with what it must be."""
        raise NotImplementedError

    def ask(self) -> str:
        """What else happens on a read-only disk, in words."""
        return ""


def job(name: str) -> Steps:
    return Steps(int(hashlib.sha256(name.encode()).hexdigest()[:6], 16), pause=0.0)


def same(run, name: str) -> None:
    expected = job(name).execute(Checkpoint())
    assert np.array_equal(run.arrays["total"], expected.arrays["total"])
    assert run.metrics == expected.metrics


class Store(Case):
    pattern = "arrays.npz"

    def work(self, name: str) -> None:
        same(RunStore(PLACE / "runs").run(job(name)), name)


class Chapters(Case):
    """Executed chapters; what a kernel would give is given at once."""

    pattern = "*.*.json"

    def start(self) -> None:
        from throwaway import CLAIMS, ONE

        from lib.book import execute

        self.execute = execute
        # Where chapters are kept if the checkout may not be written: on this disk, too.
        os.environ["COMPANION_CACHE"] = str(PLACE / "cache")
        self.path = PLACE / "book" / "one.py"
        self.path.parent.mkdir()
        self.path.write_text(ONE)
        (self.path.parent / "claims.yml").write_text(CLAIMS)

    def work(self, name: str) -> None:
        base = (int(hashlib.sha256(name.encode()).hexdigest()[:6], 16) % 1000) / 10
        data = {self.execute.VALUE_MIME: {"name": "double", "value": 2 * base}}
        outputs = [{"output_type": "display_data", "data": data}]
        text = "".join(np.random.default_rng(3).choice(list("abc"), 30_000))
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
        cells = [{"source": "", "outputs": outputs, "execution_count": 1, "tags": []}]
        self.execute._run = lambda *_: (cells, set())
        done = self.execute.execute_chapter(self.path, "quick", {"base": base})
        assert done.values == {"double": 2 * base}
        assert [cell["outputs"] for cell in done.cells] == [outputs]  # the text is the chapter's


class Downloads(Case):
    pattern = "file-*"

    def start(self) -> None:
        from lib.data import store
        from lib.data.registry import Entry

        self.store, self.entry, self.registry = store, Entry, store.registry
        os.environ.update(COMPANION_CACHE=str(PLACE / "cache"), COMPANION_OFFLINE="0")
        os.environ["NO_PROXY"] = "127.0.0.1"

        self.serving = serving(lambda handler: send(handler, self.content(handler.path[1:])))
        self.server = self.serving.__enter__()

    def stop(self) -> None:
        self.store.registry = self.registry
        os.environ["COMPANION_OFFLINE"] = "1"
        self.serving.__exit__(None, None, None)

    @staticmethod
    def content(name: str) -> bytes:
        return name.encode() * 5000

    def register(self, name: str) -> None:
        content = self.content(name)
        url = f"http://127.0.0.1:{self.server.server_port}/{name}"
        sha256 = hashlib.sha256(content).hexdigest()
        place = f"owner/file-{name}"
        entry = self.entry(name, url, place, sha256, len(content), "l", "c", ("one",))
        self.store.registry = lambda: {name: entry}

    def work(self, name: str) -> None:
        self.register(name)
        self.store._hashes.clear()  # as in a new process
        assert self.store.fetch(name).read_bytes() == self.content(name)

    def ask(self) -> str:
        self.register("asked-for")
        self.store._no_network = None
        try:
            return "" if self.store.available("asked-for") else ", new data count as absent"
        except FAILURES:
            return ""


CASES = {"store": Store, "chapters": Chapters, "downloads": Downloads}


def temporaries() -> list[Path]:
    passing = [p for p in PLACE.rglob(".*") if p.name != ".cache"]
    return passing + [p for p in PLACE.rglob("tmp*") if p.is_file()]


def finished() -> dict[str, str]:
    return {name: digest for name, digest in files(PLACE).items() if "lock" not in name}


def leave_pages(count: int) -> None:
    (PLACE / "ballast").unlink(missing_ok=True)
    if count >= 0:
        free = os.statvfs(PLACE).f_bavail
        (PLACE / "ballast").write_bytes(bytes(PAGE * max(0, free - count)))


def full(case: Case) -> str:
    """Work with more and more room, until there is enough; it fails until then."""
    case.work("finished")
    before, failures = finished(), 0
    for room in range(200):
        leave_pages(room)
        case.work("finished")
        try:
            case.work("new")
        except FAILURES:
            failures += 1
        else:
            break
        finally:
            assert not temporaries(), temporaries()
        found = finished()
        assert {n: found.get(n) for n in before} == before
    leave_pages(-1)
    case.work("new")  # as stored
    case.work("again")  # and there is room for more
    case.work("finished")
    return f"{failures} failures"


def remount(how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(PLACE)], check=True)


def read_only(case: Case) -> str:
    """New work fails; what is finished is read, or refused with one error, also if damaged."""
    case.work("finished")
    before = files(PLACE)
    remount("ro")
    try:
        case.work("finished")
        reads = "what is finished is read"
    except (OSError, BuildError):
        reads = "what is finished is refused"
    told = ""
    try:
        case.work("new")
    except FAILURES as error:
        told = str(error)
    assert str(PLACE) in told  # nothing can be written, and the error names the place
    asked = case.ask()
    assert files(PLACE) == before
    remount("rw")
    case.work("new")
    (kept,) = (PLACE / name for name in before if Path(name).match(case.pattern))
    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 1
    kept.write_bytes(content)
    remount("ro")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(*FAILURES, DataCorrupted):  # it cannot be replaced now
            case.work("finished")
        remount("rw")
        case.work("finished")
    return f"{reads}{asked}"


WAYS = {"full": (full, "size=2m"), "read-only": (read_only, "size=4m")}


def attempt(how: str, name: str, place: Path) -> dict[str, str]:
    """Spoil one case; what it found, and what went wrong."""
    global PLACE
    spoil, options = WAYS[how]
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "companion", str(place)], check=True)
    PLACE = place
    found, error = "", ""
    case = CASES[name]()
    try:
        case.start()
        found = spoil(case)
    except BaseException:
        error = traceback.format_exc()
    finally:
        case.stop()
    return {"how": how, "case": name, "found": found, "error": error}


def main() -> None:
    warnings.simplefilter("error")
    for how in WAYS:
        for name in sys.argv[2:]:
            print(json.dumps(attempt(how, name, Path(sys.argv[1], f"{how}-{name}"))), flush=True)


if __name__ == "__main__":
    main()

"""Builds the real book once a test session, and serves it."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]
HTML = ROOT / "book" / "_build" / "html"
CHROMIUM = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)
NEEDS_CHROMIUM = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"),
    reason="no Chromium on this machine (CI always has one)",
)
LAUNCH = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
LAUNCH += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]  # no other host is reached


@functools.cache
def build_site() -> None:
    """Build the book with the quick profile as `make book` does; of two workers one does.

    A build that failed is not tried again in the session: its output lies in `.cache/site`.
    """
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"process-{os.getpid()}")
    if failed := build_once(run, ROOT / ".cache" / "site", _build):
        pytest.fail(failed, pytrace=False)


def _build() -> str:
    """The output of a build that failed or warned, else nothing."""
    built = subprocess.run(
        [sys.executable, "-m", "lib.book", "build"],
        cwd=ROOT,
        env={"COMPANION_JOBS": "2"} | os.environ | {"COMPANION_PROFILE": "quick"},
        capture_output=True,
        text=True,
    )
    failed = built.returncode or "Warning" in built.stderr
    return f"exit {built.returncode}\n{built.stdout}{built.stderr}" if failed else ""


def build_once(run: str, folder: Path, build: Callable[[], str]) -> str:
    """What went wrong with a session's one build, in full where it is built, then in one line."""
    folder.mkdir(parents=True, exist_ok=True)
    built, failed = folder / f"built-{run}", folder / f"failed-{run}"
    with FileLock(folder / "lock"):
        if built.exists():
            return ""
        if failed.exists():
            return f"the site was not built in this session, see {failed.name} in .cache/site"
        for old in (*folder.glob("built-*"), *folder.glob("failed-*")):
            old.unlink()
        output = build()
        (failed if output else built).write_text(output, encoding="utf-8")
    return output


class _Handler(http.server.SimpleHTTPRequestHandler):
    """As GitHub Pages serves a folder: 404.html at its root answers for all that is not there."""

    def log_message(self, *_):
        pass

    def send_error(self, code, message=None, explain=None):
        page = Path(self.directory, "404.html")
        if code != 404 or not page.is_file():
            return super().send_error(code, message, explain)
        body = page.read_bytes()
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        return None

    def translate_path(self, path):
        prefix = self.server.prefix
        parts = urlsplit(path)
        inside = parts.path == prefix[:-1] or parts.path.startswith(prefix)
        # What lies outside belongs to another site of the same host.
        return super().translate_path(parts.path.removeprefix(prefix[:-1]) if inside else "/ /none")


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), ConnectionError):  # a page that left does not wait
            super().handle_error(request, client_address)


@contextmanager
def serve(folder: Path, prefix: str = "/") -> Iterator[str]:
    """Serve a folder below a path on the loopback interface; yields the address, without slash."""
    handler = functools.partial(_Handler, directory=str(folder))
    with _Server(("127.0.0.1", 0), handler) as server:
        server.prefix = prefix
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}{prefix[:-1]}"
        server.shutdown()
        thread.join()

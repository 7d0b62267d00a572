"""Builds the real book once a test session, and serves it."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
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
    """Build the book with the quick profile as `make book` does; of two workers one does."""
    folder, run = ROOT / ".cache" / "site", os.environ.get("PYTEST_XDIST_TESTRUNUID")
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        if run and (folder / f"built-{run}").exists():
            return
        built = subprocess.run(
            [sys.executable, "-m", "lib.book", "build"],
            cwd=ROOT,
            env={"COMPANION_JOBS": "2"} | os.environ | {"COMPANION_PROFILE": "quick"},
            capture_output=True,
            text=True,
        )
        assert built.returncode == 0, built.stdout + built.stderr
        assert "Warning" not in built.stderr, built.stderr
        for old in folder.glob("built-*"):
            old.unlink()
        (folder / f"built-{run}").touch()


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

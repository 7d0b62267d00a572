"""Builds the real book once a test session, and serves it."""

import functools
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
HTML = ROOT / "book" / "_build" / "html"


@functools.cache
def build_site() -> str:
    """Build the book with the quick profile as `make book` does; return what it printed."""
    program = Path(sys.executable).parent / "jupyter-book"
    done = subprocess.run(
        [program, "build", "-W", "-n", "--keep-going", "book"],
        cwd=ROOT,
        env=os.environ | {"COMPANION_PROFILE": "quick"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder on the loopback interface; yields the address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()

"""A web server on this machine, for tests of downloads."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextlib.contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[ThreadingHTTPServer]:
    """A server that answers requests in this way, and has a `url`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer(self)

        def handle(self):
            with contextlib.suppress(OSError):  # the client hung up, or was killed
                super().handle()

        def log_message(self, *arguments):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.url = f"http://127.0.0.1:{http.server_port}/file"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield http
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def send(handler: BaseHTTPRequestHandler, content: bytes, status: int = 200) -> None:
    """Answer with this content, and its length."""
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)

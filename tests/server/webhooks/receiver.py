"""A server on this machine that takes webhooks and answers as it is told."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """Notes requests; `answers` are statuses in turn, then 200."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/hook"
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self.headers: dict[str, str] = {}
        self.body = b"thanks"
        self.came = threading.Event()
        self.cut_off = threading.Event()  # who asked did not take the whole answer
        self.before_answer: Callable[[], None] = lambda: None

    @property
    def ids(self) -> list[str]:
        """The webhook-id of each request."""
        return [headers["webhook-id"] for headers, _ in self.requests]


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.requests.append((headers, body))
            receiver.came.set()
            receiver.before_answer()
            self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(receiver.body)))
            self.end_headers()
            try:
                self.wfile.write(receiver.body)
            except OSError:
                receiver.cut_off.set()

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()

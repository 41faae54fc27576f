"""A real S3 server (moto) on this machine, behind a proxy that can be slow or fail."""

import contextlib
import http.client
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BUCKET = "films"


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextlib.contextmanager
def s3_server():
    """Start an S3 server with an empty bucket; gives its port."""
    port = free_port()
    running = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                made = request(port, "PUT", f"/{BUCKET}")
                assert made == 200, made
                break
            except OSError:
                assert running.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield port
    finally:
        running.kill()
        running.wait()


def request(port: int, verb: str, path: str) -> int:
    """The status of a request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(verb, path)
        return connection.getresponse().status
    finally:
        connection.close()


class Proxy:
    """Passes requests on to a server, and spoils some of them.

    trouble  called with the verb and the path of a request, and how many came before; returns the
             status to answer instead (503), seconds to wait before it is passed on (a float), or
             None
    """

    def __init__(self, server: int):
        self.trouble = lambda verb, path, number: None
        self.count = 0
        self._closing = threading.Event()
        proxy = self
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with lock:
                    number = proxy.count
                    proxy.count += 1
                spoiled = proxy.trouble(self.command, self.path, number)
                if isinstance(spoiled, int):
                    self.send_response(spoiled)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                if spoiled:
                    proxy._closing.wait(spoiled)
                connection = http.client.HTTPConnection("127.0.0.1", server, timeout=60)
                connection.request(self.command, self.path, body, dict(self.headers))
                answer = connection.getresponse()
                data = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                        self.send_header(name, value)
                length = answer.getheader("Content-Length") if self.command == "HEAD" else len(data)
                self.send_header("Content-Length", str(length or 0))
                self.end_headers()
                self.wfile.write(data)
                connection.close()

            def spoilable(self):
                with contextlib.suppress(OSError):  # one side is gone
                    self.handle_one()

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = spoilable

            def log_message(self, *words):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        """Stop it."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

"""`ViewServer`: serves one scene, and the poses of one rig, to browsers on this computer.

It listens on 127.0.0.1 only. Every request needs the token that only the printed address contains,
names this server as its host, and, where the browser says from which page it comes, comes from this
server's own. Paths are compared with a list; no path reaches the file system. A request keeps
no state, so tabs may close, reload and multiply.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import math
import secrets
import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from understudy.rigs.base import Rig
from understudy.system.errors import InputError, UnderstudyError
from understudy.viewer.packing import Container
from understudy.viewer.page import page_for_server, server_policy

HOST = "127.0.0.1"
TOKEN_HEADER = "X-Understudy-Token"
_MOST_BODY = 1 << 20  # bytes of a request: a pose of a very large rig has some ten thousand
_IDLE = 20.0  # seconds in which a request must arrive, and its answer be taken
_MOST_CONNECTIONS = 64  # each has a thread


class ViewServer:
    """A running server; a context manager that ends it.

    scene  what pages show
    rig    evaluates poses for pages, or None
    port   0: any free one
    """

    def __init__(self, scene: Container, rig: Rig | None = None, port: int = 0):
        self.token = secrets.token_urlsafe(24)
        self.title = str(scene.about["title"])
        self.scene = scene.to_bytes()
        self._rig = rig
        self._lock = threading.Lock()  # rigs are evaluated one pose at a time
        try:
            self._server = _Server((HOST, port), _Handler)
        except OSError as problem:
            raise InputError(f"--port {port}: cannot be used: {problem.strerror}") from problem
        self._server.view = self
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The address of the page, with the token."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    def wait(self) -> None:
        """Serve until the user interrupts, which is the way to end it."""
        with contextlib.suppress(KeyboardInterrupt):
            while self._thread.is_alive():
                time.sleep(0.2)

    def __enter__(self) -> ViewServer:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def pose(self, body: bytes) -> bytes:
        """Return bones and vertices of the rig at the control values of a request."""
        if self._rig is None:
            raise InputError("there is no live rig behind this page")
        values = control_values(body, self._rig)
        with self._lock:
            poses = self._rig.evaluate(values[None])
        reply = Container()
        reply.put("original", poses.read_poses(0, 1)[0].astype(np.float32))
        if poses.world_from_bone is not None:
            reply.put("bones", poses.world_from_bone[0].reshape(-1, 12).astype(np.float32))
        return reply.to_bytes()


def control_values(body: bytes, rig: Rig) -> np.ndarray:
    """Return the control values (C,) of a request, inside the rig's limits."""
    spec = rig.controls
    try:
        given = json.loads(body)["controls"]
    except (ValueError, TypeError, LookupError, RecursionError):
        raise InputError('expected JSON with "controls"') from None
    numbers = isinstance(given, list) and all(
        isinstance(x, (int, float)) and not isinstance(x, bool) for x in given
    )
    if not numbers or len(given) != spec.count:
        raise InputError(f"controls: expected {spec.count} numbers")
    try:
        values = [float(x) for x in given]
    except OverflowError:
        values = [math.inf]
    if not all(map(math.isfinite, values)):
        raise InputError("controls: expected finite numbers")
    return np.clip(np.array(values), spec.limit_low, spec.limit_high)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = _MOST_CONNECTIONS
    view: ViewServer

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]):
        # Connection -> since when its next request is awaited; infinity: it is being answered.
        self.since: dict[socket.socket, float] = {}
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a new connection in a thread of its own; end the one that waits longest for it."""
        if len(self.since) >= _MOST_CONNECTIONS:
            longest = min(list(self.since), key=lambda line: self.since.get(line, 0.0))
            if self.since.get(longest) == math.inf:
                self.shutdown_request(request)
                return
            self.shutdown_request(longest)
        self.since[request] = time.monotonic()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End connections whose request takes too long to arrive; called twice a second."""
        for line, since in list(self.since.items()):
            if time.monotonic() - since > _IDLE:
                self.shutdown_request(line)

    def shutdown_request(self, request: Any) -> None:
        """End a connection, whose thread may wait for it."""
        self.since.pop(request, None)
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """End all connections: a tab may hold one open."""
        super().server_close()
        for line in list(self.since):
            self.shutdown_request(line)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: tabs that close break their connections."""


class _Handler(BaseHTTPRequestHandler):
    """Answers GET / and /scene, and POST /pose; everything else is refused."""

    protocol_version = "HTTP/1.1"
    server_version = "understudy"
    sys_version = ""
    timeout = _IDLE
    server: _Server

    def handle_one_request(self) -> None:
        """Answer the next request, which must arrive in time."""
        if self.connection in self.server.since:
            self.server.since[self.connection] = time.monotonic()
        super().handle_one_request()

    def do_GET(self) -> None:
        """The page, with the token in its address, or the scene, with the token in a header."""
        self.server.since[self.connection] = math.inf
        view = self.server.view
        path, query = self._address()
        if not self._from_here():
            return
        if path == "/":
            given = parse_qs(query, max_num_fields=8).get("token", [""])
            if self._known(given[0]):
                nonce = secrets.token_urlsafe(16)
                policy = {"Content-Security-Policy": server_policy(nonce)}
                page = page_for_server(view.title, nonce).encode()
                self._answer(page, "text/html; charset=utf-8", policy)
        elif path == "/scene":
            if self._known(self.headers.get(TOKEN_HEADER, "")):
                self._answer(view.scene, "application/octet-stream")
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")

    def do_POST(self) -> None:
        """A pose of the rig."""
        path, _ = self._address()
        if not self._from_here() or not self._known(self.headers.get(TOKEN_HEADER, "")):
            return
        if path != "/pose":
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")
            return
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or self.headers.get("Transfer-Encoding"):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "the length is missing")
            return
        if len(length) > 9 or int(length) > _MOST_BODY:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "this is too long for a pose")
            return
        try:
            body = self.rfile.read(int(length))
            self.server.since[self.connection] = math.inf
            self._answer(self.server.view.pose(body), "application/octet-stream")
        except UnderstudyError as problem:
            self._refuse(HTTPStatus.BAD_REQUEST, str(problem))
        except Exception as problem:  # of a rig, which may be the user's own code
            text = f"{type(problem).__name__}: {problem}"
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, text)

    def _address(self) -> tuple[str, str]:
        """Return path and query of the request; ("", "") if they are malformed."""
        try:
            parts = urlsplit(self.path)
        except ValueError:
            return "", ""
        return ("", "") if parts.scheme or parts.netloc else (parts.path, parts.query)

    def _from_here(self) -> bool:
        """Return whether the request was meant for this server by its own page; else refuse it.

        Another host name that leads here (DNS rebinding) and other pages are refused.
        """
        own = [f"{name}:{self.server.view.port}" for name in (HOST, "localhost")]
        origin = self.headers.get("Origin")
        good = self.headers.get_all("Host", []) in [[name] for name in own] and (
            origin is None or origin in [f"http://{name}" for name in own]
        )
        if not good:
            self._refuse(HTTPStatus.FORBIDDEN, "open the address that `understudy view` printed")
        return good

    def _known(self, token: str) -> bool:
        """Return whether the token is right; else refuse the request."""
        good = hmac.compare_digest(
            token.encode("utf-8", "replace"), self.server.view.token.encode()
        )
        if not good:
            self._refuse(HTTPStatus.FORBIDDEN, "open the address that `understudy view` printed")
        return good

    def _answer(self, body: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        self._send(HTTPStatus.OK, body, kind, more or {})

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        # What is left of the request is not read, so the connection cannot go on.
        self.close_connection = True
        self._send(status, text.encode(), "text/plain; charset=utf-8", {"Connection": "close"})

    def _send(self, status: HTTPStatus, body: bytes, kind: str, more: dict[str, str]) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            **more,
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal is the user's."""

"""A hostile page, or another user of the machine, gets nothing from the server."""

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import numpy as np
import pytest
from blend_files import blend_files  # noqa: F401
from scene_reader import container_of
from tube_scene import tube_scene

from understudy.rigs.blender.rig import BlenderRig
from understudy.rigs.registry import load_rig
from understudy.system.errors import InputError
from understudy.viewer import server as serving
from understudy.viewer.scene import rig_scene
from understudy.viewer.server import HOST, TOKEN_HEADER, ViewServer


@pytest.fixture(scope="module")
def server():
    scene, rig = tube_scene(served=True)
    with ViewServer(scene, rig) as running:
        yield running


def ask(server, path, method="GET", body=None, **headers):
    """Status, headers and body of one request; Host and token can be replaced."""
    connection = http.client.HTTPConnection(HOST, server.port, timeout=10)
    own = {"Host": f"{HOST}:{server.port}", TOKEN_HEADER: server.token}
    own |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in own.items():
        if value is not None:
            connection.putheader(name, value)
    if body is not None and "Content-Length" not in own:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    reply = connection.getresponse()
    data = reply.read()
    connection.close()
    return reply.status, reply.headers, data


def test_it_listens_on_this_machine_only(server):
    assert server._server.server_address[0] == "127.0.0.1"


def test_the_right_token_gets_page_and_scene(server):
    status, headers, page = ask(server, f"/?token={server.token}")
    assert status == 200
    assert b"<title>tube</title>" in page
    assert server.token.encode() not in page
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    assert headers["Access-Control-Allow-Origin"] is None
    status, _, data = ask(server, "/scene")
    assert status == 200
    assert container_of(data).about["title"] == "tube"


@pytest.mark.parametrize("token", ["", "x", "\u00e9", "0" * 5000, None])
@pytest.mark.parametrize("path", ["/scene", "/pose", "/"])
def test_a_wrong_token_gets_nothing(server, token, path):
    method = "POST" if path == "/pose" else "GET"
    value = None if token is None else token.encode("latin-1")
    status, _, data = ask(server, path, method, **{TOKEN_HEADER: value})
    assert status == 403
    assert len(data) < 200


def test_every_token_is_another():
    scene, _ = tube_scene(served=True)
    with ViewServer(scene) as one, ViewServer(scene) as two:
        assert one.token != two.token
        assert one.port != two.port
        assert len(one.token) >= 32


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "file://"])
def test_other_pages_get_nothing(server, origin):
    for path, method in (("/scene", "GET"), ("/pose", "POST"), (f"/?token={server.token}", "GET")):
        status, headers, _ = ask(server, path, method, b"{}", Origin=origin)
        assert status == 403
        assert headers["Access-Control-Allow-Origin"] is None
    assert ask(server, "/pose", "OPTIONS", Origin=origin)[0] == 501  # no preflight is answered


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "", None])
def test_other_host_names_get_nothing(server, host):
    assert ask(server, "/scene", Host=host)[0] == 403


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/scene/../pose", "/.",
        "/viewer.js", "/scene%00", "\\..\\..", "http://evil.example/scene", "//[", "/scene;a", "*",
    ],
)  # fmt: skip
def test_paths_lead_nowhere(server, path):
    status, _, data = ask(server, path)
    assert status == 404
    assert data == b"there is nothing here"


def controls(count, value=0.0):
    return json.dumps({"controls": [value] * count}).encode()


def test_a_pose_of_the_rig(server):
    rig = load_rig("tube")
    values = rig.controls.high
    body = json.dumps({"controls": values.tolist()}).encode()
    status, _, data = ask(server, "/pose", "POST", body)
    assert status == 200
    reply, poses = container_of(data), rig.evaluate(values[None])
    np.testing.assert_allclose(reply.arrays["original"], poses.vertices[0], atol=1e-5)
    np.testing.assert_allclose(
        reply.arrays["bones"].reshape(-1, 3, 4), poses.world_from_bone[0], atol=1e-5
    )


@pytest.mark.slow
def test_poses_of_a_rig_in_blender(files):
    with BlenderRig(files / "arm.blend") as rig, ViewServer(rig_scene(rig), rig) as server:
        shown = []
        for values in (rig.controls.high, rig.controls.rest):
            body = json.dumps({"controls": values.tolist()}).encode()
            status, _, data = ask(server, "/pose", "POST", body)
            assert status == 200
            shown.append(container_of(data).arrays["original"])
            np.testing.assert_array_equal(shown[-1], rig.evaluate(values[None]).vertices[0])
        assert abs(shown[0] - shown[1]).max() > 0.1


def test_values_outside_the_limits_are_clamped(server):
    assert ask(server, "/pose", "POST", controls(5, 1e30))[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b'{"controls": 1}', b'{"controls": []}', b'{"controls": [1]}',
        b'{"controls": ["1", 1, 1, 1, 1]}', b'{"controls": [true, 1, 1, 1, 1]}',
        b'{"controls": [NaN, 1, 1, 1, 1]}', b'{"controls": [Infinity, 1, 1, 1, 1]}',
        b'{"controls": [1e999, 1, 1, 1, 1]}', b'{"controls": [1' + b"0" * 400 + b", 1, 1, 1, 1]}",
        b"\xff\xfe", b"[" * 100_000,
    ],
)  # fmt: skip
def test_malformed_messages_are_refused(server, body):
    status, _, data = ask(server, "/pose", "POST", body)
    assert status == 400
    assert b"Traceback" not in data
    assert ask(server, "/pose", "POST", controls(5))[0] == 200  # and it goes on


@pytest.mark.parametrize(
    ("length", "status"),
    [("999999999999999999999", 413), (str(1 << 21), 413), ("-1", 411), ("x", 411), ("\u00b2", 411)],
)
def test_huge_messages_are_not_read(server, length, status):
    value = length.encode("latin-1")
    assert ask(server, "/pose", "POST", b"", Content_Length=value)[0] == status


def test_chunked_messages_are_refused(server):
    assert ask(server, "/pose", "POST", None, Transfer_Encoding="chunked")[0] == 411


def test_garbage_does_not_end_it(server):
    for garbage in (b"\0" * 1000, b"GET", b"GET / HTTP/9.9\r\n\r\n", b"A" * 100_000 + b"\r\n\r\n"):
        with socket.create_connection((HOST, server.port), timeout=5) as line:
            line.sendall(garbage)
    assert ask(server, "/scene")[0] == 200


def answering_threads():
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def test_silent_connections_are_ended_for_new_ones():
    scene, _ = tube_scene(served=True)
    before = answering_threads()
    with ViewServer(scene) as server, contextlib.ExitStack() as opened:
        tab = http.client.HTTPConnection(HOST, server.port, timeout=5)
        for silent in range(300):
            opened.enter_context(socket.create_connection((HOST, server.port), timeout=5))
            if silent % 20 == 0:
                assert ask(server, "/scene")[0] == 200
        time.sleep(0.2)
        assert answering_threads() - before <= 64
        tab.request("GET", "/scene", headers={TOKEN_HEADER: server.token})
        assert tab.getresponse().status == 200
        tab.close()


def dripped(server, start, seconds):
    """How long the server takes one byte after another."""
    with socket.create_connection((HOST, server.port), timeout=seconds) as line:
        line.sendall(start)
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            try:
                line.sendall(b"a")
                line.settimeout(0.05)
                if line.recv(1000) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        return time.monotonic() - began


@pytest.mark.parametrize(
    "start",
    [
        "", "GET /", "GET /scene HTTP/1.1\r\nX: ",
        "POST /pose HTTP/1.1\r\nHost: {host}\r\nX-Understudy-Token: {token}\r\n"
        "Content-Length: 9999\r\n\r\n",
    ],
)  # fmt: skip
def test_a_request_may_not_drip(server, start, monkeypatch):
    monkeypatch.setattr(serving, "_IDLE", 0.3)
    text = start.format(host=f"{HOST}:{server.port}", token=server.token)
    assert dripped(server, text.encode(), 5) < 2


def test_a_pose_may_take_long(monkeypatch):
    class Slow(type(load_rig("tube"))):
        def evaluate(self, values):
            if len(values) == 1:
                time.sleep(1.2)
            return super().evaluate(values)

    monkeypatch.setattr(serving, "_IDLE", 0.3)
    rig = Slow()
    with ViewServer(rig_scene(rig), rig) as server:
        assert ask(server, "/pose", "POST", controls(5))[0] == 200


def test_several_tabs_at_once(server):
    results = []

    def tab():
        for _ in range(5):
            results.append(ask(server, "/pose", "POST", controls(5))[0])

    tabs = [threading.Thread(target=tab) for _ in range(4)]
    for thread in tabs:
        thread.start()
    for thread in tabs:
        thread.join()
    assert results == [200] * 20


def test_without_a_rig_there_are_no_poses():
    scene, _ = tube_scene(served=True)
    with ViewServer(scene) as server:
        status, _, data = ask(server, "/pose", "POST", controls(5))
        assert (status, data) == (400, b"there is no live rig behind this page")


def test_an_error_of_the_rig_is_told():
    class Broken(type(load_rig("tube"))):
        def evaluate(self, values):
            raise RuntimeError("no licence")

    rig = Broken()
    with ViewServer(rig_scene(rig), rig) as server:
        status, _, data = ask(server, "/pose", "POST", controls(5))
        assert (status, data) == (500, b"RuntimeError: no licence")


@pytest.mark.slow
def test_the_command_serves_until_it_is_interrupted():
    command = [sys.executable, "-m", "understudy", "view", "tube", "--no-browser"]
    # A test run in the background ignores Ctrl-C, and so would the command.
    code = "import signal, runpy, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    code += f"sys.argv[1:] = {command[3:]!r}; runpy.run_module('understudy', run_name='__main__')"
    running = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        address = urlsplit(running.stdout.readline().strip())
        assert address.hostname == "127.0.0.1"
        connection = http.client.HTTPConnection(HOST, address.port, timeout=30)
        connection.request("GET", f"/?{address.query}")
        assert b"<title>tube</title>" in connection.getresponse().read()
        connection.close()
        running.send_signal(signal.SIGINT)
        _, problems = running.communicate(timeout=30)
        assert running.returncode == 0
        assert "Traceback" not in problems
    finally:
        running.kill()
        running.communicate()


def test_a_port_in_use_is_an_error(server):
    scene, _ = tube_scene(served=True)
    with pytest.raises(InputError, match="--port"):
        ViewServer(scene, port=server.port)

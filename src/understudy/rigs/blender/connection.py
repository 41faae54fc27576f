"""A Blender process that keeps a .blend file open and answers requests (`bridge.py`)."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from understudy.io.blender import end_group, failure, find_blender
from understudy.system.errors import InputError, UnderstudyError

SCRIPT = Path(__file__).parent / "inside" / "bridge.py"
_MOST = 1 << 34  # bytes of one answer


class LostBlender(UnderstudyError):
    """The Blender process died, does not answer, or sent something that is not an answer."""


class Connection:
    """A running Blender. `ask` sends a request and waits for the answer; `close` ends it."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._log: IO[bytes] = self._stack.enter_context(
            tempfile.TemporaryFile()  # noqa: SIM115
        )
        # The program `blender` prints before it runs the script; messages come after this mark.
        self._mark = f"understudy-{secrets.token_hex(8)}"
        self._process: subprocess.Popen[bytes] = self._stack.enter_context(
            find_blender().start(
                SCRIPT,
                self._mark,
                threads=1,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                bufsize=0,
            )
        )
        self.resident = 0

    @property
    def process_id(self) -> int:
        """The id of the process."""
        return self._process.pid

    def ask(
        self,
        request: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray] | None = None,
        timeout: float = 600,
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Send a request and return the answer: values and arrays.

        timeout  seconds to wait; `LostBlender` is raised after that
        """
        deadline = time.monotonic() + timeout
        try:
            self._send({**request, "limit": timeout}, arrays or {})
            self._skip_to_mark(deadline)
            header, answer = self._receive(deadline)
        except (OSError, EOFError, ValueError, KeyError, TypeError) as problem:
            raise self._lost(str(problem) or type(problem).__name__) from problem
        self.resident = int(header.get("resident", 0))
        if "refused" in header:
            raise InputError(header["refused"])
        if "failed" in header:
            raise UnderstudyError(
                f"Blender failed: {header['failed']}\n{header.get('trace', '')}".rstrip()
            )
        return header, answer

    def close(self) -> None:
        """End the process."""
        self._stack.close()

    def _send(self, header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        assert self._process.stdin is not None
        packed = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        header["arrays"] = [[name, a.dtype.str, list(a.shape)] for name, a in packed.items()]
        text = json.dumps(header).encode()
        parts = [struct.pack("<Q", len(text)), text, *(a.tobytes() for a in packed.values())]
        message = memoryview(b"".join(parts))
        while message:
            message = message[self._process.stdin.write(message) or 0 :]

    def _skip_to_mark(self, deadline: float) -> None:
        """Skip what was printed before the first message."""
        end, seen = self._mark.encode(), b""
        while end and not seen.endswith(end):
            seen = (seen + self._read(1, deadline))[-len(end) :]
        self._mark = ""

    def _receive(self, deadline: float) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        size = struct.unpack("<Q", self._read(8, deadline))[0]
        header = json.loads(self._read(size, deadline))
        arrays = {}
        for name, dtype, shape in header.pop("arrays"):
            kind = np.dtype(dtype)
            data = self._read(int(np.prod(shape, dtype=np.int64)) * kind.itemsize, deadline)
            arrays[name] = np.frombuffer(data, kind).reshape(shape)
        return header, arrays

    def _read(self, count: int, deadline: float) -> bytes:
        if not 0 <= count <= _MOST:
            raise ValueError(f"an answer of {count} bytes")
        assert self._process.stdout is not None
        result = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while len(result) < count:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError("it did not answer in time")
                got = os.read(self._process.stdout.fileno(), min(count - len(result), 1 << 20))
                if not got:
                    raise EOFError("it ended")
                result += got
        return bytes(result)

    def _lost(self, reason: str) -> LostBlender:
        """The error for a process that does not answer any more, with what it printed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        end_group(self._process)
        self._log.seek(0)
        output = self._log.read()[-20000:].decode("utf-8", "replace")
        problem = failure(SCRIPT, output, f"stopped ({reason})")
        if isinstance(problem, ImportError):
            raise problem
        return LostBlender(str(problem))

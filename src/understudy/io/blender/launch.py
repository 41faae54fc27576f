"""Find Blender and run a script in it, in a process of its own.

Blender's Python module `bpy` is GPL-licensed and needs its own NumPy, so this package never imports
it. A script that runs inside Blender is one self-contained file. It gets two paths as arguments:

    request.json    what to do; arrays, where there are any, in request.npz beside it
    answer.json     what it writes last: the answer; arrays, where there are any, in answer.npz

A line `progress DONE TOTAL` that it prints advances the progress bar. A script that cannot do what
is asked writes {"error": "..."} as its answer, and `run_script` raises an `InputError` with that
text. Use `script_arguments = sys.argv[sys.argv.index("--") + 1:] if "--" in sys.argv else
sys.argv[1:]`, which is right for both kinds of Blender.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from understudy.io import npz
from understudy.system.errors import FileError, InputError, MissingDependencyError, UnderstudyError
from understudy.system.progress import SILENT, Progress, Task

VARIABLE = "UNDERSTUDY_BLENDER"
ENVIRONMENT = ".venv-blender"
INSTALL = (
    f"run `make blender` (PyPI's bpy in {ENVIRONMENT}), or install Blender 4.2 or newer and set "
    f"{VARIABLE} to its executable"
)
_LINES = 200  # of the output of a script that failed
# Settings of this process that would change which Python or which add-ons Blender loads.
_DROPPED = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")


@dataclass(frozen=True)
class Blender:
    """A way to run scripts in Blender.

    executable  the program `blender`, or a Python that has `bpy`
    is_python   which of the two it is
    """

    executable: Path
    is_python: bool

    def command(self, script: Path, *arguments: object, threads: int | None = None) -> list[str]:
        """Return the command line that runs `script` with `arguments`.

        threads  of the program `blender`; None: one for each core

        Neither the user's settings and add-ons nor scripts inside .blend files are loaded.
        """
        texts = [str(argument) for argument in arguments]
        if self.is_python:
            return [str(self.executable), "-I", str(script), *texts]
        return [
            str(self.executable),
            "--background",
            "--factory-startup",
            "--disable-autoexec",
            "--python-exit-code",
            "1",
            *(() if threads is None else ("--threads", str(threads))),
            "--python",
            str(script),
            "--",
            *texts,
        ]

    @contextlib.contextmanager
    def start(
        self, script: Path, *arguments: object, threads: int | None = None, **options: Any
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start `script` in a process group of its own, which ends with the `with` block.

        options  of `subprocess.Popen`
        """
        if os.name == "posix":
            # A Ctrl-C reaches this process only, which then ends Blender and what it started.
            options.setdefault("start_new_session", True)
        environment = {k: v for k, v in os.environ.items() if k not in _DROPPED}
        options.setdefault("env", environment)
        try:
            command = self.command(script, *arguments, threads=threads)
            process = subprocess.Popen(command, **options)
        except OSError as problem:
            raise MissingDependencyError(
                f"{self.executable}: cannot be started ({problem.strerror or problem}); {INSTALL}"
            ) from problem
        try:
            yield process
        finally:
            end_group(process)


Answer = tuple[dict[str, Any], dict[str, np.ndarray]]  # JSON values, and arrays by name


def find_blender() -> Blender:
    """Return the Blender to use, or raise a `MissingDependencyError` that says how to get one.

    In this order: the environment variable UNDERSTUDY_BLENDER (a `blender` executable, or a Python
    that has `bpy`), `.venv-blender` in the current folder, the same in the repository (if the
    package is an editable install of one), and `blender` on the PATH.
    """
    given = os.environ.get(VARIABLE)
    if given:
        found = shutil.which(given)
        if found is None:
            raise MissingDependencyError(
                f"{VARIABLE} is {given!r}, which is not an executable file; {INSTALL}"
            )
        return Blender(Path(found).absolute(), Path(found).name.lower().startswith("python"))
    python = "Scripts/python.exe" if os.name == "nt" else "bin/python"
    for folder in (Path.cwd(), *_repository()):
        executable = folder / ENVIRONMENT / python
        if executable.is_file():
            return Blender(executable.absolute(), is_python=True)
    on_path = shutil.which("blender")
    if on_path is None:
        raise MissingDependencyError(f"this needs Blender, and none was found; {INSTALL}")
    return Blender(Path(on_path).absolute(), is_python=False)


def run_script(
    script: Path,
    request: Mapping[str, Any],
    timeout: float = 600,
    progress: Progress = SILENT,
    arrays: Mapping[str, np.ndarray] | None = None,
) -> Answer:
    """Run a script in Blender and return its answer.

    script    a self-contained Python file (see the top of this module)
    request   JSON values that say what to do
    timeout   seconds after which Blender is ended and an error raised
    progress  gets a task called after the script, if the script reports progress
    arrays    arrays of the request, by name
    """
    blender = find_blender()
    with tempfile.TemporaryDirectory(prefix="understudy-blender-") as folder:
        asked, answered = Path(folder) / "request.json", Path(folder) / "answer.json"
        asked.write_text(json.dumps(dict(request)), encoding="utf-8")
        if arrays:
            np.savez(asked.with_suffix(".npz"), allow_pickle=False, **arrays)
        output = _run(blender, script, (asked, answered), timeout, progress)
        return _read_answer(answered, script, output)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process started by `Blender.start` and everything it started."""
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    process.wait()


def failure(script: Path, output: str, status: str) -> UnderstudyError:
    """Return the error for a script that ended without an answer.

    output  what it printed
    status  how it ended, such as "ended with status 1"
    """
    if "No module named 'bpy'" in output:
        return MissingDependencyError(
            f"the Python that runs {script.name} has no bpy; {INSTALL}. It printed: "
            f"{_last_lines(output, 1)}"
        )
    return UnderstudyError(
        f"{script.name} in Blender {status} without an answer. Its last output:\n"
        f"{_last_lines(output, 12)}"
    )


def _run(
    blender: Blender,
    script: Path,
    arguments: tuple[Path, Path],
    timeout: float,
    progress: Progress,
) -> str:
    """Run a script to its end and return what it printed."""
    printed: deque[str] = deque(maxlen=_LINES)
    output = lambda: "\n".join(tuple(printed))
    end = time.monotonic() + timeout
    pipes: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "cwd": arguments[0].parent,
    }
    paths = [path.absolute() for path in arguments]
    with blender.start(script.absolute(), *paths, **pipes) as process:
        reader = threading.Thread(
            target=_read_output, args=(process, printed, progress, script.stem), daemon=True
        )
        reader.start()
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise UnderstudyError(
                f"{script.name} in Blender did not end within {timeout:g} s and was stopped. Its "
                f"last output:\n{_last_lines(output(), 12)}"
            ) from None
        reader.join(5)
        if process.returncode and not arguments[1].exists():
            raise failure(script, output(), _status(process.returncode))
    return output()


def _read_output(
    process: subprocess.Popen[bytes], printed: deque[str], progress: Progress, label: str
) -> None:
    """Keep the last lines of a script's output, and report those that tell progress."""
    assert process.stdout is not None
    with contextlib.ExitStack() as stack, contextlib.suppress(OSError, ValueError):
        task: Task | None = None
        shown = 0.0
        for line in process.stdout:
            text = line.decode("utf-8", "replace").rstrip()
            words = text.split()
            if len(words) == 3 and words[0] == "progress":
                done, total = (float(word) for word in words[1:])
                if task is None:
                    task = stack.enter_context(progress.task(label, total))
                task.advance(done - shown)
                shown = done
            else:
                printed.append(text)


def _read_answer(path: Path, script: Path, output: str) -> Answer:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise failure(script, output, "ended") from None
    if not isinstance(values, dict):
        raise FileError(f"{script.name} in Blender answered a {type(values).__name__}, not a table")
    if "error" in values:
        raise InputError(str(values["error"]))
    packed = path.with_suffix(".npz")
    arrays = npz.read_arrays(packed, npz.array_names(packed)) if packed.exists() else {}
    return values, arrays


def _repository() -> list[Path]:
    """Return the repository that an editable install of this package runs from, if it does."""
    source = Path(__file__).resolve().parents[3]
    is_checkout = source.name == "src" and (source.parent / "pyproject.toml").is_file()
    return [source.parent] if is_checkout else []


def _status(code: int) -> str:
    if code < 0 and sys.platform != "win32":
        with contextlib.suppress(ValueError):
            return f"was ended by the signal {signal.Signals(-code).name}"
    return f"ended with status {code}"


def _last_lines(text: str, count: int) -> str:
    return "\n".join([line for line in text.splitlines() if line.strip()][-count:]) or "(nothing)"

"""USD files read as a `Character`, in a process of their own.

USD's library trusts the files it reads: a damaged one can end the process, or take all memory. So
`understudy.io.usd.extract` reads the file in a second process, with limits on time and memory, and
hands the character back as arrays.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from understudy.core.character import Character
from understudy.io.format import AS_IT_IS, ReadOptions
from understudy.io.nouns import unpacked
from understudy.io.npz import array_names, read_arrays
from understudy.io.numbers import byte_count
from understudy.system.errors import FileError, InputError
from understudy.system.progress import SILENT, Progress

# A reader may take this many seconds of processor time, and one more for every so many bytes of
# the file; by the clock four times that, because others use the machine too.
_SECONDS = 12
_BYTES_PER_SECOND = 1_000_000
# Variables that make USD look for files or plug-ins elsewhere.
_UNSET = ("PXR_PLUGINPATH_NAME", "PXR_AR_DEFAULT_SEARCH_PATH", "PXR_USD_WINDOWS_DLL_PATH")
SUFFIXES = (".usd", ".usda", ".usdc", ".usdz")


def read_usd(
    path: str | Path, options: ReadOptions = AS_IT_IS, progress: Progress = SILENT
) -> Character:
    """Return the character of a `.usd`, `.usda`, `.usdc` or `.usdz` file.

    options  `meshes` are names or paths, by default all that are visible; `frame_rate` is that of
             the file by default

    Other layers that the file names are read only if they lie in its folder or below.
    """
    path = Path(path)
    seconds = seconds_for(byte_count(path))
    request = {name: getattr(options, name) for name in ("clips", "meshes", "frame_rate")}
    request["path"] = str(path.resolve())
    with tempfile.TemporaryDirectory() as folder, progress.task("reading", 1) as bar:
        result, report = Path(folder) / "character.npz", Path(folder) / "report.json"
        request |= {"result": str(result), "report": str(report)}
        failure = _run(json.dumps(request), seconds)
        if report.exists():
            raise FileError(f"{path}: {json.loads(report.read_text('utf-8'))}")
        if failure:
            raise FileError(f"{path}: {failure}")
        try:
            character = unpacked(read_arrays(result, array_names(result)), Character)
        except InputError as wrong:
            raise FileError(f"{path}: {wrong}") from wrong
        bar.advance()
    return character


def seconds_for(size: int) -> int:
    """Return how many seconds of processor time reading a file of `size` bytes may take.

    >>> seconds_for(10_000_000)
    22
    """
    return _SECONDS + size // _BYTES_PER_SECOND


def _run(request: str, seconds: int) -> str:
    """Read a file in a process of its own; return what went wrong with the process, or ""."""
    kept = {name: value for name, value in os.environ.items() if name not in _UNSET}
    # One thread: threads reserve address space, which is limited.
    environment = {**kept, "PXR_WORK_THREAD_LIMIT": "1", "MALLOC_ARENA_MAX": "2"}
    environment["OPENBLAS_NUM_THREADS"] = "1"
    command = [sys.executable, "-P", "-m", "understudy.io.usd.extract"]
    slow = f"cannot be read in {seconds} s; it is damaged or made to be slow"
    try:
        done = subprocess.run(
            command,
            input=request.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=4 * seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return slow
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        if name in ("SIGXCPU", "SIGKILL"):
            return slow
        return f"USD's library ended with {name} while reading it; the file is damaged"
    if done.returncode:
        return "USD's library cannot read it; the file is damaged, or needs too much memory"
    return ""

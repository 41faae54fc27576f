"""FBX files, binary and ASCII, read with ufbx in a process of its own.

`understudy.io.fbx.worker` reads the file and samples its takes; `understudy.io.fbx.character`
makes a `Character` of the arrays. The process has limits of time and memory: ufbx is C code, and
the files it reads are not trusted.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from understudy.core.character import Character
from understudy.io.budget import SMALL_FILE, Budget
from understudy.io.fbx.character import FbxScene, make_character
from understudy.io.format import AS_IT_IS, ReadOptions
from understudy.io.npz import array_names, read_arrays
from understudy.io.numbers import byte_count
from understudy.system import checks
from understudy.system.errors import FileError, MissingDependencyError
from understudy.system.progress import SILENT, Progress

_WORKER = Path(__file__).with_name("worker.py")
_WRONG_FILE = 3  # exit code of the worker for a file that it cannot read
# Of processor time; by the clock four times that, because others use the machine too.
_SECONDS = 12
_SECONDS_PER_BYTE = 1e-5  # beyond a small file
_LIBRARIES = 200 << 20  # bytes of address space that Python, NumPy and ufbx take


def read_fbx(
    path: str | Path, options: ReadOptions = AS_IT_IS, progress: Progress = SILENT
) -> Character:
    """Return the character of an FBX file, in the axes and the unit of the file.

    options  `clips` are takes, `meshes` objects; `frame_rate` is that of the file by default

    Every object is a part. A vertex without skin weights follows the node of its object. A take
    without keys is left out if another one has keys. A file without takes gives one clip of one
    frame, "pose", if it is posed otherwise than it was bound.
    """
    path = Path(path)
    if importlib.util.find_spec("ufbx") is None:
        raise MissingDependencyError(
            f"{path}: reading FBX files needs the package ufbx: pip install 'understudy[fbx]'"
        )
    with progress.task("reading", 1) as bar:
        scene = read_scene(path, options.clips, options.frame_rate)
        character = make_character(scene, path, options.meshes)
        bar.advance()
    return character


def read_scene(path: Path, takes: Sequence[str], frame_rate: float | None) -> FbxScene:
    """Return the arrays of an FBX file, as `understudy.io.fbx.worker` writes them."""
    size = byte_count(path)
    budget = Budget(path, size)
    seconds = _SECONDS + int(_SECONDS_PER_BYTE * max(0, size - SMALL_FILE))
    with tempfile.TemporaryDirectory(prefix="understudy-fbx-") as folder:
        target = Path(folder) / "scene.npz"
        request = {
            "source": str(path.resolve()),
            "target": str(target),
            "memory": budget.limit + _LIBRARIES,
            "seconds": seconds,
            "bytes": budget.limit // 4,
            "rate": frame_rate or 0.0,
            "takes": list(takes),
        }
        _run(path, request, seconds)
        found = read_arrays(target, array_names(target))
    header = json.loads(found.pop("header").tobytes())
    for name in takes:
        checks.one_of(name, f"take in {path.name}", header["take_names"])
    return FbxScene(header, found, budget)


def _run(path: Path, request: dict, seconds: int) -> None:
    """Run the worker; what it says, a crash and a timeout are a `FileError` each."""
    slow = f"{path}: not read after {seconds} s; the file is damaged or not an FBX file"
    # -P: the folder of the worker has modules named like those of the standard library.
    command = [sys.executable, "-P", str(_WORKER), json.dumps(request)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=4 * seconds,
            check=False,
            errors="replace",
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        raise FileError(slow) from None
    if done.returncode == 0:
        return
    if -done.returncode in (getattr(signal, "SIGXCPU", 0), getattr(signal, "SIGKILL", 0)):
        raise FileError(slow)
    last = (done.stderr.strip().splitlines() or [""])[-1]
    if done.returncode == _WRONG_FILE:
        raise FileError(f"{path}: cannot be read as FBX: {last}")
    raise FileError(
        f"{path}: the FBX reader stopped with code {done.returncode}"
        f"{f' ({last})' if last else ''}; the file is damaged. Export it again"
    )

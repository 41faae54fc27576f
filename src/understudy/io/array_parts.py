"""The parts of a job on a cluster, as arrays in files of a folder that all nodes share.

    common.safetensors    what all parts read, written by the driver
    K.safetensors         arrays of part K, written by the driver
    K.found               the result, written by a worker
    K.checkpoint          what a worker may keep of an unfinished part

The folder is named after all that the result depends on. A part whose worker died goes to another
one; a driver that is started again finds the results.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from understudy.io.array_file import read_arrays, write_arrays
from understudy.system.cluster import Advance, PartTask, Workers
from understudy.system.progress import Task

Arrays = Mapping[str, np.ndarray]
# The result of a part, of the common arrays, its own, what counts its progress, and its checkpoint.
Compute = Callable[[Arrays, Arrays, Task, Path], Arrays]
_DIGITS = 24  # of the fingerprint


def compute_parts(
    workers: Workers,
    stage: str,
    facts: object,
    common: Arrays,
    parts: Sequence[Arrays],
    compute: Compute,
    steps: int,
    task: Task,
    gpus: int = 0,
) -> list[Arrays]:
    """The results of `compute` for all parts, from the workers of a cluster.

    stage  start of the folder's name
    facts  what the results depend on beside the arrays, as JSON can hold it
    steps  by how much each part advances `task`
    gpus   that many parts at a time have a GPU; 0: none has
    """
    folder = workers.folder / f"{stage}-{_fingerprint(facts, [common, *parts])}"
    missing = [k for k in range(len(parts)) if not _result(folder, k).exists()]
    task.advance(steps * (len(parts) - len(missing)))
    if missing:
        write_arrays(folder / "common.safetensors", common)
        for k in missing:
            write_arrays(folder / f"{k}.safetensors", parts[k])
        most = min(len(missing), gpus or len(missing))
        with workers.pool(_PartWork(folder, compute), most, gpus > 0) as pool:
            pool.run(missing, [steps] * len(missing), task)
    return [read_arrays(_result(folder, k)) for k in range(len(parts))]


class _PartWork:
    """The work: part `k`."""

    def __init__(self, folder: Path, compute: Compute):
        self._folder, self._compute = folder, compute
        self._common: Arrays | None = None

    def __call__(self, k: int, advance: Advance) -> None:
        folder = self._folder
        if self._common is None:
            self._common = read_arrays(folder / "common.safetensors")
        part = read_arrays(folder / f"{k}.safetensors")
        task, checkpoint = PartTask(advance), folder / f"{k}.checkpoint"
        write_arrays(_result(folder, k), self._compute(self._common, part, task, checkpoint))


def _result(folder: Path, k: int) -> Path:
    return folder / f"{k}.found"


def _fingerprint(facts: object, arrays: Sequence[Arrays]) -> str:
    """A short hash of what the results depend on."""
    digest = sha256(json.dumps(facts, sort_keys=True).encode())
    for part in arrays:
        for name in sorted(part):
            digest.update(f"{name}{part[name].dtype}{part[name].shape}".encode())
            digest.update(np.ascontiguousarray(part[name]).data)
    return digest.hexdigest()[:_DIGITS]

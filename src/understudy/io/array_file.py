"""Arrays in one file, for the processes of one job; written whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from understudy.io.atomic_write import atomic_write
from understudy.system.errors import FileError


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays to a file."""
    with atomic_write(path) as draft:
        draft.write_bytes(save({name: np.ascontiguousarray(a) for name, a in arrays.items()}))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return what `write_arrays` wrote."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as problem:
        raise FileError(
            f"{path}: cannot be read ({problem}); all machines of a cluster need it under this "
            "path. Delete it and run the same command again"
        ) from problem

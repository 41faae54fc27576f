"""`studio_text`: mesh sequences and skins as text (.studio)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from understudy import Deformer, Mesh, Poses
from understudy.io.atomic_write import atomic_write
from understudy.io.registry import Format, ReadOptions
from understudy.system.errors import FileError
from understudy.system.progress import Progress


def read(path: str | Path, options: ReadOptions, progress: Progress) -> Poses:
    """A strip of triangles: one line of numbers for each frame."""
    try:
        frames = np.loadtxt(path, ndmin=2)
    except (OSError, ValueError) as problem:
        raise FileError(f"{path}: is not a strip: {problem}") from problem
    vertices = frames.reshape(len(frames), -1, 3)
    count = vertices.shape[1]
    faces = np.arange(count - 2)[:, None] + np.arange(3)
    return Poses(Mesh.from_faces(vertices[0], faces), vertices, name=Path(path).stem)


def write(deformer: Deformer, path: str | Path) -> None:
    """The skin weights, one line for each vertex."""
    assert deformer.skin is not None
    with atomic_write(path) as part:
        np.savetxt(part, deformer.skin.weight)


FORMAT = Format(
    "studio text", (".studio",), "a strip or a skin as text", read_poses=read, write_deformer=write
)

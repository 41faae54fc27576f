"""Vertex caches by suffix, as mesh sequences and as what a character's clip looks like."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from understudy.core.character import Character
from understudy.core.clip import ClipSpan
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.io.format import AS_IT_IS, ReadOptions
from understudy.io.numbers import of_file
from understudy.io.vertex_cache import VertexCache
from understudy.io.vertex_caches.flat import read_mdd, read_pc2, write_mdd, write_pc2
from understudy.io.vertex_caches.maya import SUFFIXES as MAYA_SUFFIXES
from understudy.io.vertex_caches.maya import read_maya_cache
from understudy.system import checks
from understudy.system.errors import FileError, InputError
from understudy.system.progress import SILENT, Progress

_READERS: dict[str, Callable[[str | Path], VertexCache]] = {
    ".mdd": read_mdd,
    ".pc2": read_pc2,
    **dict.fromkeys(MAYA_SUFFIXES, read_maya_cache),
}
CACHE_SUFFIXES = tuple(_READERS)


def read_vertex_cache(
    path: str | Path, options: ReadOptions = AS_IT_IS, progress: Progress = SILENT
) -> VertexCache:
    """Return the cache of a .mdd, .pc2, .mcx, .mc, .mcc or Maya .xml file."""
    read = _READERS.get(Path(path).suffix.lower())
    if read is None:
        raise FileError(f"{path}: is not a vertex cache; use {', '.join(CACHE_SUFFIXES)}")
    with of_file(path):
        return read(path)


def cache_poses(path: str | Path, cache: VertexCache, mesh: Mesh | None) -> Poses:
    """Return the cache that was read from a file as a mesh sequence.

    mesh  at rest, with the polygons that a cache lacks; None is an error that asks for it
    """
    if mesh is None:
        raise InputError(
            f"{path}: a vertex cache has no polygons; add --rest with the mesh (.obj, .ply), or "
            "give it as --cache to a character's file"
        )
    checks.same_count(
        cache.vertex_count, mesh.vertex_count, "vertices", str(path), "the rest shape"
    )
    if cache.frame_count < 2:
        raise FileError(f"{path}: has one frame; a sequence needs two")
    name = Path(path).stem or cache.name
    span = ClipSpan(name, cache.frame_count, cache.frame_rate, cache.start_frame)
    vertices = np.asarray(cache.vertices, np.float32)
    return Poses(mesh, vertices, frame_rate=cache.frame_rate, name=name, spans=(span,))


def write_cache(character: Character, path: str | Path) -> None:
    """Write the vertices of the only clip of a character as `.mdd` or `.pc2`."""
    if len(character.clips) != 1:
        names = ", ".join(clip.name for clip in character.clips) or "none"
        raise InputError(f"{path}: a vertex cache holds one clip, the character has {names}")
    clip = character.clips[0]
    frames = clip.start_frame + np.arange(clip.frame_count, dtype=np.float64)
    cache = VertexCache(character.evaluate_clip(clip), frames, clip.frame_rate, clip.name)
    (write_mdd if Path(path).suffix.lower() == ".mdd" else write_pc2)(cache, path)

"""Vertex caches by suffix."""

from __future__ import annotations

from pathlib import Path

from understudy.core.errors import FileError
from understudy.io.vertex_caches.cache import VertexCache
from understudy.io.vertex_caches.maya import SUFFIXES as _MAYA
from understudy.io.vertex_caches.maya import read_maya_cache
from understudy.io.vertex_caches.mdd import read_mdd
from understudy.io.vertex_caches.pc2 import read_pc2

CACHE_SUFFIXES = (".mdd", ".pc2", ".xml", *_MAYA)


def read_vertex_cache(path: str | Path, channel: str | None = None) -> VertexCache:
    """Return the cache of a .mdd, .pc2, .mcx, .mc, .mcc or Maya .xml file.

    channel  of a Maya cache; None: the only one that holds positions
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".mdd":
        return read_mdd(path)
    if suffix == ".pc2":
        return read_pc2(path)
    if suffix in (".xml", *_MAYA):
        return read_maya_cache(path, channel)
    raise FileError(f"{path}: is not a vertex cache; use {', '.join(CACHE_SUFFIXES)}")

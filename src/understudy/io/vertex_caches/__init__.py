"""Vertex caches: the positions of one mesh over time, without topology (.mdd, .pc2, Maya .mcx)."""

from understudy.io.vertex_caches.flat import read_mdd, read_pc2, write_mdd, write_pc2
from understudy.io.vertex_caches.formats import (
    CACHE_SUFFIXES,
    MAYA_SUFFIXES,
    cache_poses,
    read_vertex_cache,
    write_cache,
)
from understudy.io.vertex_caches.maya import read_maya_cache

__all__ = [
    "CACHE_SUFFIXES",
    "MAYA_SUFFIXES",
    "cache_poses",
    "read_maya_cache",
    "read_mdd",
    "read_pc2",
    "read_vertex_cache",
    "write_cache",
    "write_mdd",
    "write_pc2",
]

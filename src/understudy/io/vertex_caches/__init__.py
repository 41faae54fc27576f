"""Vertex caches: the positions of one mesh over time, without topology (.mdd, .pc2, Maya .mcx)."""

from understudy.io.vertex_caches.cache import VertexCache
from understudy.io.vertex_caches.formats import (
    CACHE_SUFFIXES,
    read_cache_poses,
    read_vertex_cache,
    write_cache,
)
from understudy.io.vertex_caches.maya import read_maya_cache
from understudy.io.vertex_caches.mdd import read_mdd, write_mdd
from understudy.io.vertex_caches.pc2 import read_pc2, write_pc2

__all__ = [
    "CACHE_SUFFIXES",
    "VertexCache",
    "read_cache_poses",
    "read_maya_cache",
    "read_mdd",
    "read_pc2",
    "read_vertex_cache",
    "write_cache",
    "write_mdd",
    "write_pc2",
]

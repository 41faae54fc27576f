"""Vertex caches: the positions of one mesh over time, without topology (.mdd, .pc2, Maya .mcx)."""

from understudy.io.vertex_caches.flat import read_mdd as read_mdd
from understudy.io.vertex_caches.flat import read_pc2 as read_pc2
from understudy.io.vertex_caches.flat import write_mdd as write_mdd
from understudy.io.vertex_caches.flat import write_pc2 as write_pc2
from understudy.io.vertex_caches.formats import CACHE_SUFFIXES as CACHE_SUFFIXES
from understudy.io.vertex_caches.formats import MAYA_SUFFIXES as MAYA_SUFFIXES
from understudy.io.vertex_caches.formats import cache_poses as cache_poses
from understudy.io.vertex_caches.formats import read_vertex_cache as read_vertex_cache
from understudy.io.vertex_caches.formats import write_cache as write_cache
from understudy.io.vertex_caches.maya import read_maya_cache as read_maya_cache

"""Pairs: the bones of a character's file with the vertices of a cache."""

from understudy.io.pairs.reading import pair_poses

__all__ = ["pair_poses"]

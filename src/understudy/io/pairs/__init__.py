"""Pairs: the bones of a character's file with the vertices of a cache."""

from understudy.io.pairs.reading import PairCache, pair_poses, read_pair_cache

__all__ = ["PairCache", "pair_poses", "read_pair_cache"]

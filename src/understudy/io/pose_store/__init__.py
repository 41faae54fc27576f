"""Pose stores: poses on disk, tiled by pose and vertex (`.zarr`)."""

from understudy.io.pose_store.arrays import StoredVertices
from understudy.io.pose_store.header import Place, Sample
from understudy.io.pose_store.store import (
    BLOCK,
    STRETCH,
    block_controls,
    controls_text,
    count_blocks,
    create,
    default_block,
    join,
    lock,
    missing_blocks,
    occupied,
    open_poses,
    provenance,
    resume,
    stretch_limit,
    tidy,
    write_block,
)

__all__ = [
    "BLOCK",
    "STRETCH",
    "Place",
    "Sample",
    "StoredVertices",
    "block_controls",
    "controls_text",
    "count_blocks",
    "create",
    "default_block",
    "join",
    "lock",
    "missing_blocks",
    "occupied",
    "open_poses",
    "provenance",
    "resume",
    "stretch_limit",
    "tidy",
    "write_block",
]

"""Pose stores: poses on disk, tiled by pose and vertex (`.zarr`)."""

from understudy.io.pose_store.arrays import StoredVertices
from understudy.io.pose_store.header import STRETCH, Place, Sample
from understudy.io.pose_store.store import (
    ANOTHER,
    BLOCK,
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
    shown,
    stretch_limit,
    tidy,
    write_block,
)

__all__ = [
    "ANOTHER",
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
    "shown",
    "stretch_limit",
    "tidy",
    "write_block",
]

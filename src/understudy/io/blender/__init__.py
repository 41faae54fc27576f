"""Blender in a process of its own: finding it and running scripts in it."""

from understudy.io.blender.alembic import read_alembic, write_alembic
from understudy.io.blender.fbx import write_fbx
from understudy.io.blender.launch import Blender, end_group, failure, find_blender

__all__ = [
    "Blender",
    "end_group",
    "failure",
    "find_blender",
    "read_alembic",
    "write_alembic",
    "write_fbx",
]

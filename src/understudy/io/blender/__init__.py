"""Blender in a process of its own: finding it and running scripts in it."""

from understudy.io.blender.alembic import read_alembic as read_alembic
from understudy.io.blender.alembic import write_alembic as write_alembic
from understudy.io.blender.fbx import write_fbx as write_fbx
from understudy.io.blender.launch import Blender as Blender
from understudy.io.blender.launch import end_group as end_group
from understudy.io.blender.launch import failure as failure
from understudy.io.blender.launch import find_blender as find_blender

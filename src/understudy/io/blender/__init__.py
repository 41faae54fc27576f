"""Blender in a process of its own: finding it and running scripts in it."""

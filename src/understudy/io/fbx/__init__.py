"""FBX files, read by ufbx in a process of its own."""

from understudy.io.fbx.reading import read_fbx

__all__ = ["read_fbx"]

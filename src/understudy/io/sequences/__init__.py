"""Mesh sequences: one mesh in many shapes, as `.obj` or `.ply` files, or in files with clips."""

from understudy.io.sequences.obj import read_obj, write_obj
from understudy.io.sequences.ply import read_ply, write_ply
from understudy.io.sequences.reading import (
    MESH_SUFFIXES,
    frame_numbers,
    matching_files,
    read_frame,
    read_mesh,
    read_sequence,
    sequence_from_arrays,
)
from understudy.io.sequences.writing import file_name, write_sequence

__all__ = [
    "MESH_SUFFIXES",
    "file_name",
    "frame_numbers",
    "matching_files",
    "read_frame",
    "read_mesh",
    "read_obj",
    "read_ply",
    "read_sequence",
    "sequence_from_arrays",
    "write_obj",
    "write_ply",
    "write_sequence",
]

"""Mesh sequences: one mesh in many shapes, as `.obj` or `.ply` files, or in files with clips."""

from understudy.io.sequences.obj import read_obj as read_obj
from understudy.io.sequences.obj import write_obj as write_obj
from understudy.io.sequences.ply import read_ply as read_ply
from understudy.io.sequences.ply import write_ply as write_ply
from understudy.io.sequences.reading import MESH_SUFFIXES as MESH_SUFFIXES
from understudy.io.sequences.reading import frame_numbers as frame_numbers
from understudy.io.sequences.reading import matching_files as matching_files
from understudy.io.sequences.reading import read_frame as read_frame
from understudy.io.sequences.reading import read_mesh as read_mesh
from understudy.io.sequences.reading import read_sequence as read_sequence
from understudy.io.sequences.reading import sequence_from_arrays as sequence_from_arrays
from understudy.io.sequences.writing import file_name as file_name
from understudy.io.sequences.writing import write_sequence as write_sequence

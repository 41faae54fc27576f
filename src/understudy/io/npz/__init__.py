"""`.npz` files: recorded poses, mesh sequences and skins, and the limits on their arrays."""

from understudy.io.npz.archive import UNREADABLE, array_names, read_arrays
from understudy.io.npz.bone_matrices import check_convention
from understudy.io.npz.recorded_poses import (
    has_drivers,
    read_npz_cache,
    read_npz_clips,
    read_npz_mesh,
    read_recorded_poses,
    write_npz,
    write_recorded_poses,
)
from understudy.io.npz.skin import read_npz_skin

__all__ = [
    "UNREADABLE",
    "array_names",
    "check_convention",
    "has_drivers",
    "read_arrays",
    "read_npz_cache",
    "read_npz_clips",
    "read_npz_mesh",
    "read_npz_skin",
    "read_recorded_poses",
    "write_npz",
    "write_recorded_poses",
]

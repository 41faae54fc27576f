"""`.npz` files: recorded poses, mesh sequences and skins, and the limits on their arrays."""

from understudy.io.npz.archive import UNREADABLE as UNREADABLE
from understudy.io.npz.archive import array_names as array_names
from understudy.io.npz.archive import read_arrays as read_arrays
from understudy.io.npz.bone_matrices import check_convention as check_convention
from understudy.io.npz.recorded_poses import has_drivers as has_drivers
from understudy.io.npz.recorded_poses import read_npz_cache as read_npz_cache
from understudy.io.npz.recorded_poses import read_npz_clips as read_npz_clips
from understudy.io.npz.recorded_poses import read_npz_mesh as read_npz_mesh
from understudy.io.npz.recorded_poses import read_recorded_poses as read_recorded_poses
from understudy.io.npz.recorded_poses import write_npz as write_npz
from understudy.io.npz.recorded_poses import write_recorded_poses as write_recorded_poses
from understudy.io.npz.skin import read_npz_skin as read_npz_skin

"""Range-of-motion poses: the rest pose, and each control alone at both ends of its range.

Characters start from rest, and most of their motion moves few controls at a time. A random sample
has no such pose: with many controls, some are always far from rest. Where there is a live rig,
these poses are therefore evaluated and added to the training poses. They take no part in the
components, and are never validation poses.

Recorded poses have no such poses: their mesh at rest need not be what the rig shows at rest.

Letters: T poses, R range-of-motion poses, V vertices, C controls, X features, P coefficients.
"""

from __future__ import annotations

import numpy as np

from understudy.core.poses import Poses
from understudy.rigs.base import Rig, evaluate_batches
from understudy.rigs.sampling import range_of_motion_values

_MOST = 0.25  # of the number of training poses
_MOST_BYTES = 1 << 28  # of their vertices
_AT_ONCE = 16


def range_of_motion(poses: Poses, rig: Rig | None, share: float) -> Poses | None:
    """The range-of-motion poses of `rig`; None without a share, or if it is another mesh."""
    spec = poses.control_spec
    if rig is None or spec is None or not share or rig.mesh.vertex_count != poses.vertex_count:
        return None
    most = min(_MOST * poses.pose_count, _MOST_BYTES / (12 * poses.vertex_count))
    values = range_of_motion_values(spec, max(1, int(most)))
    batches = [values[k : k + _AT_ONCE] for k in range(0, len(values), _AT_ONCE)]
    parts = list(evaluate_batches(rig, batches))
    bones = [part.world_from_bone for part in parts if part.world_from_bone is not None]
    return Poses(
        poses.mesh,
        np.concatenate([part.read_poses(0, part.pose_count) for part in parts]),
        poses.skeleton,
        np.concatenate(bones) if bones else None,
        spec,
        values,
        name="range of motion",
    )

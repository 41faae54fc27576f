"""Where the joints of a skeleton are: inside the body, and near the true joints."""

from __future__ import annotations

import numpy as np

from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.geometry.inside import are_inside, surface_points

_NEAR_SURFACE = 0.02  # of the size: a joint this close counts as inside, as meshes may be open
_FOUND = 0.05  # of the size


def joint_figures(
    mesh: Mesh, skeleton: Skeleton, true_joints: np.ndarray | None = None
) -> dict[str, float]:
    """Figures of a skeleton's joints, by name.

    true_joints  (n,3) joints that move, where they are known

    joints_outside   joints that are neither inside the mesh nor near its surface
    joint_outermost  the largest distance of a joint outside from the surface, in % of the size
    joints_found     share of the true joints with a joint within 5 % of the size
    """
    size = float(np.linalg.norm(np.ptp(mesh.vertices.astype(np.float64), axis=0))) or 1.0
    joints = skeleton.world_from_bone[:, :, 3]
    nearest = surface_points(joints, mesh.vertices, mesh.triangles)
    distance = np.linalg.norm(joints - nearest, axis=1) / size
    distance[are_inside(joints, mesh.vertices, mesh.triangles)] = 0.0
    figures = {
        "joints_outside": float((distance > _NEAR_SURFACE).sum()),
        "joint_outermost": 100 * float(distance.max(initial=0)),
    }
    if true_joints is not None and len(true_joints):
        away = np.linalg.norm(true_joints[:, None] - joints, axis=2).min(axis=1)
        figures["joints_found"] = float((away <= _FOUND * size).mean())
    return figures

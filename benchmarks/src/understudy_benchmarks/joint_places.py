"""Where the joints of a skeleton are: inside the body, in their own limb, near the true joints."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import dijkstra

from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.adjacency import adjacency_matrix
from understudy.geometry.inside import are_inside, surface_points
from understudy.methods.decomposition.bones.locality import connections

_NEAR_SURFACE = 0.02  # of the size: a joint this close counts as inside, as meshes may be open
_FOUND = 0.05  # of the size
_IN_LIMB = 0.1  # of the size, along the surface: half around most limbs


def joint_figures(
    mesh: Mesh, skeleton: Skeleton, skin: Skin, true_joints: np.ndarray | None = None
) -> dict[str, float]:
    """Figures of a skeleton's joints, by name.

    true_joints  (n,3) joints that move, where they are known

    joints_outside        joints that are neither inside the mesh nor near its surface
    joint_outermost       the largest distance of a joint outside from the surface, in % of the size
    joints_in_wrong_limb  joints of bones with a parent that are far from the vertices of their bone
                          along the surface: more than 10 % of the size
    smallest_patch        the fewest vertices that a bone moves most
    joints_found          share of the true joints with a joint within 5 % of the size
    joints_true           share of the joints with a true joint within 5 % of the size
    """
    size = float(np.linalg.norm(np.ptp(mesh.vertices.astype(np.float64), axis=0))) or 1.0
    joints = skeleton.world_from_bone[:, :, 3]
    nearest = surface_points(joints, mesh.vertices, mesh.triangles)
    distance = np.linalg.norm(joints - nearest, axis=1) / size
    distance[are_inside(joints, mesh.vertices, mesh.triangles)] = 0.0
    bone = skin.bone_index[np.arange(mesh.vertex_count), skin.weight.argmax(axis=1)]
    figures = {
        "joints_outside": float((distance > _NEAR_SURFACE).sum()),
        "joint_outermost": 100 * float(distance.max(initial=0)),
        "smallest_patch": float(np.bincount(bone, minlength=skeleton.bone_count).min()),
    }
    if (skeleton.parents >= 0).any():
        along = _along_surface(mesh, skeleton, bone, nearest)
        figures["joints_in_wrong_limb"] = float((along > _IN_LIMB * size).sum())
    if true_joints is not None and len(true_joints):
        away = np.linalg.norm(true_joints[:, None] - joints, axis=2)
        figures["joints_found"] = float((away.min(axis=1) <= _FOUND * size).mean())
        figures["joints_true"] = float((away.min(axis=0) <= _FOUND * size).mean())
    return figures


def _along_surface(
    mesh: Mesh, skeleton: Skeleton, bone: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """Return how far points of the surface (B,3) are from the vertices of their bone along edges.

    bone  (V,) that moves each vertex most

    Of bones without a parent or without vertices it is zero. Shells are joined where they are
    closest.
    """
    rest = mesh.vertices.astype(np.float64)
    edges = connections(rest, mesh.triangles)
    length = np.linalg.norm(rest[edges[:, 0]] - rest[edges[:, 1]], axis=1) + 1e-12
    graph = adjacency_matrix(edges, mesh.vertex_count, length)
    result = np.zeros(skeleton.bone_count)
    for child in np.flatnonzero(skeleton.parents >= 0):
        own = np.flatnonzero(bone == child)
        if len(own):
            at = int(np.argmin(((rest - points[child]) ** 2).sum(axis=1)))
            result[child] = dijkstra(graph, directed=False, indices=own, min_only=True)[at]
    return result

"""Which bones are joined, and where: a joint for every pair of bones, and the best spanning tree.

Two bones that rotate about a common point c take it to the same position, T_i c = T_j c, in every
frame. For each pair

    c_ij = argmin_c  mean over frames of |T_i c - T_j c|^2 + e |c - border_ij|^2

The second term places the joint at the border of the two clusters of vertices where the motion does
not determine it: if the bones hardly move relative to each other, or rotate about one axis only.
The minimum is the cost of the joint, and the minimum spanning tree over all costs is the skeleton.

Clusters that no mesh edge connects can be joined too, in the middle of the gap between them, at a
higher cost. So there is always one tree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.methods.decomposition.skeleton.articulation import Tree
from understudy.methods.decomposition.solve.motion import relative_motion

_HOLD = 1e-3  # e: the weight of about two degrees of relative rotation
_DISCONNECTED = 10.0  # factor on the cost of joints between clusters that no edge connects
_POINTS = 2500  # vertices of all clusters together that gaps are measured with


@dataclass(frozen=True, eq=False)
class Borders:
    """Where clusters meet.

    at         (B,B,3) middle of the border, or of the gap
    connected  (B,B) bool, whether a mesh edge connects the two
    gap        (B,B) distance of clusters that are not connected, else zero
    """

    at: np.ndarray
    connected: np.ndarray
    gap: np.ndarray


def cluster_borders(
    rest: np.ndarray, cluster: np.ndarray, edges: np.ndarray, bones: int
) -> Borders:
    """Return the borders between clusters of vertices.

    rest     (V,3)
    cluster  (V,) the cluster of each vertex, 0..bones
    edges    (E,2) of the mesh

    >>> line = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [4, 0, 0]])
    >>> found = cluster_borders(line, np.array([0, 0, 1, 2]), np.array([[0, 1], [1, 2]]), 3)
    >>> found.at[0, 1].tolist(), found.at[1, 2].tolist(), float(found.gap[1, 2])
    ([1.5, 0.0, 0.0], [3.0, 0.0, 0.0], 2.0)
    """
    at, gap = _gaps(rest, cluster, bones)
    one, two = cluster[edges].reshape(-1, 2).T
    pair = np.concatenate([one * bones + two, two * bones + one])
    middle = np.tile((rest[edges[:, 0]] + rest[edges[:, 1]]) / 2, (2, 1))
    count = np.bincount(pair, minlength=bones * bones).reshape(bones, bones)
    total = np.stack(
        [np.bincount(pair, middle[:, axis], bones * bones) for axis in range(3)], axis=1
    ).reshape(bones, bones, 3)
    connected = count > 0
    return Borders(
        np.where(connected[..., None], total / np.maximum(count, 1)[..., None], at),
        connected,
        np.where(connected, 0.0, gap),
    )


def _gaps(rest: np.ndarray, cluster: np.ndarray, bones: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the middles (B,B,3) and lengths (B,B) of gaps between a few vertices of clusters."""
    order = np.argsort(cluster, kind="stable")
    starts = np.searchsorted(cluster[order], np.arange(bones + 1))
    sizes = np.diff(starts)
    count = max(1, _POINTS // bones)
    steps = np.linspace(0, 1, count) * np.maximum(sizes - 1, 0)[:, None]  # (B,count)
    chosen = np.where(sizes[:, None] > 0, starts[:-1, None] + np.round(steps).astype(np.int64), 0)
    # A cluster without vertices is placed at the centroid.
    points = np.where(sizes[:, None, None] > 0, rest[order[chosen]], rest.mean(axis=0))
    points = points.reshape(-1, 3)
    square = (points**2).sum(axis=1)
    away = square[:, None] + square - 2 * points @ points.T
    blocks = (
        away.reshape(bones, count, bones, count).transpose(0, 2, 1, 3).reshape(bones, bones, -1)
    )
    nearest = np.argmin(blocks, axis=2)
    one = np.arange(bones)[:, None] * count + nearest // count
    two = np.arange(bones) * count + nearest % count
    gap = np.linalg.norm(points[one] - points[two], axis=2)
    middle = (points[one] + points[two]) / 2
    # Several pairs of points can be equally close: use the same one for (i,j) and (j,i).
    upper = np.triu(np.ones((bones, bones), bool))[..., None]
    return np.where(upper, middle, middle.transpose(1, 0, 2)), gap


def pairwise_joints(transforms: np.ndarray, borders: Borders) -> tuple[np.ndarray, np.ndarray]:
    """Return the joint (B,B,3) of all pairs of bones (3F,4B), and its cost (B,B)."""
    relative = relative_motion(transforms)
    joints, error = held_joints(relative, borders.at, np.full(relative.shape[:2], _HOLD))
    held = _HOLD * (((joints - borders.at) ** 2).sum(axis=2) + borders.gap**2)
    return joints, (error + held) * np.where(borders.connected, 1.0, _DISCONNECTED)


def held_joints(
    relative: np.ndarray, middle: np.ndarray, hold: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the joints (B,B,3) of all pairs of bones, and how far they come apart (B,B), squared.

    relative  (B,B,4,4) from `relative_motion`
    middle    (B,B,3), where joints are held with the strength `hold` (B,B)
    """
    right = hold[..., None] * middle - relative[..., :3, 3]
    matrix = relative[..., :3, :3] + hold[..., None, None] * np.eye(3)
    joints = np.linalg.solve(matrix, right[..., None])[..., 0]
    points = np.concatenate([joints, np.ones((*joints.shape[:2], 1))], axis=2)
    apart = np.einsum("ija,ijab,ijb->ij", points, relative, points, optimize=True)
    return joints, np.maximum(apart, 0)


def spanning_tree(cost: np.ndarray) -> Tree:
    """Return the minimum spanning tree of costs (B,B), rooted at the first bone (Prim).

    >>> spanning_tree(np.array([[0, 5, 1], [5, 0, 2], [1, 2, 0]])).parents.tolist()
    [-1, 2, 0]
    """
    bones = len(cost)
    parents = np.full(bones, -1)
    nearest, least = np.zeros(bones, np.int64), np.array(cost[0], np.float64)
    outside = np.arange(bones) > 0
    while outside.any():
        bone = int(np.flatnonzero(outside)[np.argmin(least[outside])])
        parents[bone], outside[bone] = nearest[bone], False
        closer = outside & (cost[bone] < least)
        nearest[closer], least[closer] = bone, cost[bone, closer]
    return Tree(parents)

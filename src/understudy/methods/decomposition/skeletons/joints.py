"""Which bones hang together, and where: a joint for every pair, and the tree of the pairs that fit
best.

Two bones that turn about a common point c keep it together: T_i c = T_j c in every frame. For each
pair

    c_ij = argmin_c  sum over frames |T_i c - T_j c|^2 + e |c - border_ij|^2

with the border of the two bones' clusters of vertices as the place to be where their motion does
not say (bones that hardly move against each other, or turn about one axis only). What is left of
the sum is what a joint there would cost; the minimum spanning tree over it is the skeleton.
Clusters that no edge of the mesh joins (shells) may be joined too, at the middle of the gap between
them, for a price: there is always one tree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.methods.decomposition.skeletons.articulation import Tree

_HOLD = 1e-3  # e: as much as the bones turning against each other by about two degrees
_APART = 10.0  # times what a joint between clusters costs that no edge joins
_POINTS = 2500  # of all clusters together, to measure gaps with


@dataclass(frozen=True, eq=False)
class Borders:
    """Where clusters meet: at (B,B,3); joined (B,B) bool, by an edge; gap (B,B), the distance of
    those that are not.
    """

    at: np.ndarray
    joined: np.ndarray
    gap: np.ndarray


def borders(rest: np.ndarray, labels: np.ndarray, edges: np.ndarray, bones: int) -> Borders:
    """rest (V,3), labels (V,) the cluster of each vertex, edges (E,2).

    >>> line = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [4, 0, 0]])
    >>> found = borders(line, np.array([0, 0, 1, 2]), np.array([[0, 1], [1, 2]]), 3)
    >>> found.at[0, 1].tolist(), found.at[1, 2].tolist(), float(found.gap[1, 2])
    ([1.5, 0.0, 0.0], [3.0, 0.0, 0.0], 2.0)
    """
    at, gap = _across(rest, labels, bones)
    one, two = labels[edges].reshape(-1, 2).T
    pair = np.concatenate([one * bones + two, two * bones + one])
    middle = np.tile((rest[edges[:, 0]] + rest[edges[:, 1]]) / 2, (2, 1))
    count = np.bincount(pair, minlength=bones * bones).reshape(bones, bones)
    total = np.stack(
        [np.bincount(pair, middle[:, axis], bones * bones) for axis in range(3)], axis=1
    ).reshape(bones, bones, 3)
    joined = count > 0
    return Borders(
        np.where(joined[..., None], total / np.maximum(count, 1)[..., None], at),
        joined,
        np.where(joined, 0.0, gap),
    )


def _across(rest: np.ndarray, labels: np.ndarray, bones: int) -> tuple[np.ndarray, np.ndarray]:
    """The middle (B,B,3) and the length (B,B) of the shortest way between each two clusters, of a
    few vertices each.
    """
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(bones + 1))
    sizes = np.diff(starts)
    most = max(1, _POINTS // bones)
    places = np.round(np.linspace(0, 1, most) * np.maximum(sizes - 1, 0)[:, None]).astype(
        np.int64
    )  # (B,n)
    chosen = np.where(sizes[:, None] > 0, starts[:-1, None] + places, 0)
    points = np.where(sizes[:, None, None] > 0, rest[order[chosen]], rest.mean(axis=0)).reshape(
        -1, 3
    )  # a cluster of none stands in the middle
    square = (points**2).sum(axis=1)
    away = square[:, None] + square - 2 * points @ points.T
    blocks = away.reshape(bones, most, bones, most).transpose(0, 2, 1, 3).reshape(bones, bones, -1)
    nearest = np.argmin(blocks, axis=2)
    mine, theirs = (
        np.arange(bones)[:, None] * most + nearest // most,
        np.arange(bones) * most + nearest % most,
    )
    gap = np.linalg.norm(points[mine] - points[theirs], axis=2)
    upper = np.triu(np.ones((bones, bones), bool))[
        ..., None
    ]  # one of the two answers where several are as near
    middle = (points[mine] + points[theirs]) / 2
    return np.where(upper, middle, middle.transpose(1, 0, 2)), gap


def joints_of_pairs(columns: np.ndarray, found: Borders) -> tuple[np.ndarray, np.ndarray]:
    """Of bones (3F,4B): the joint (B,B,3) of every pair, and what it would cost (B,B), a mean
    square over the frames.
    """
    bones, frames = columns.shape[1] // 4, len(columns) // 3
    gram = (columns.T @ columns / frames).reshape(bones, 4, bones, 4).transpose(0, 2, 1, 3)
    own = np.einsum("iiab->iab", gram)
    apart = (
        own[:, None] + own - gram - gram.transpose(0, 1, 3, 2)
    )  # sum over frames of (T_i - T_j)^T (T_i - T_j)
    right = _HOLD * found.at - apart[..., :3, 3]
    joints = np.linalg.solve(apart[..., :3, :3] + _HOLD * np.eye(3), right[..., None])[..., 0]
    points = np.concatenate([joints, np.ones((bones, bones, 1))], axis=2)
    missed = np.maximum(np.einsum("ija,ijab,ijb->ij", points, apart, points, optimize=True), 0)
    held = _HOLD * (((joints - found.at) ** 2).sum(axis=2) + found.gap**2)
    return joints, (missed + held) * np.where(found.joined, 1.0, _APART)


def spanning_tree(cost: np.ndarray) -> Tree:
    """The tree (rooted at the first bone) whose edges cost the least: cost (B,B), symmetric.

    >>> spanning_tree(np.array([[0, 5, 1], [5, 0, 2], [1, 2, 0]])).parents.tolist()
    [-1, 2, 0]
    """
    bones = len(cost)
    parents = np.full(bones, -1)
    nearest, least = np.zeros(bones, np.int64), np.array(cost[0], np.float64)
    outside = np.arange(bones) > 0
    while outside.any():
        bone = int(np.argmin(np.where(outside, least, np.inf)))
        parents[bone], outside[bone] = nearest[bone], False
        closer = outside & (cost[bone] < least)
        nearest[closer], least[closer] = bone, cost[bone, closer]
    return Tree(parents)

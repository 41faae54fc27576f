"""How far the vertices of a mesh move when a bone moves: it turns angles into lengths.

Letters: V vertices, B bones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import shortest_path

from understudy.core.deformer import Deformer
from understudy.geometry.bone_motion import parents_first
from understudy.geometry.skinning import weight_matrix

_RADIUS = 0.05  # of the height: the least reach of a bone, also of one that only networks read


@dataclass(frozen=True, eq=False)
class Levers:
    """Root mean square displacement of vertices for a motion of 1, by kind and bone.

    whole   kind -> (B,) over all vertices of the mesh: how much a bone matters
    near    kind -> (B,) over the vertices that the bone and its children move: how far they go
    weight  (B,) the vertices that the bone and its children move, in vertices
    reach   (B,) the distance from the bone to the farthest vertex that it moves itself, or 0
    tip     (B,3) that vertex at rest; the bone's own place if there is none
    """

    whole: dict[str, np.ndarray]
    near: dict[str, np.ndarray]
    weight: np.ndarray
    reach: np.ndarray
    tip: np.ndarray


def bone_weights(deformer: Deformer) -> sp.csr_matrix:
    """Return the weight of every bone on every vertex, (V,B), none negative."""
    skeleton, skin = deformer.need_skin()
    count = skeleton.bone_count if skin.virtual_index is None else len(skin.virtual_index)
    # A copy: abs() joins duplicates in place.
    weights = weight_matrix(skin.bone_index, skin.weight, count).copy()
    if skin.virtual_index is not None and skin.virtual_weight is not None:
        weights = weights @ weight_matrix(
            skin.virtual_index, skin.virtual_weight, skeleton.bone_count
        )
    weights = abs(sp.csr_matrix(weights)).astype(np.float64)
    total = np.asarray(weights.sum(axis=1)).ravel()
    return sp.csr_matrix(sp.diags(1.0 / np.maximum(total, 1e-12)) @ weights)


def levers_of(deformer: Deformer, parents: np.ndarray) -> Levers:
    """Return the levers of a deformer; parents (B,), the bone that each follows, in any order."""
    skeleton, _ = deformer.need_skin()
    own = bone_weights(deformer).tocsc()
    vertices = deformer.mesh.vertices.astype(np.float64)
    place = skeleton.world_from_bone[:, :, 3]
    bones = skeleton.bone_count
    # For each bone: sums over its vertices of w, w p and w |p|^2 give w |p - joint|^2 of any joint.
    moments = np.concatenate(
        [np.ones((len(vertices), 1)), vertices, (vertices**2).sum(axis=1, keepdims=True)], axis=1
    )
    sums = own.T @ moments  # (B,5)
    below = sums.copy()
    for b in parents_first(parents)[::-1]:
        if parents[b] >= 0:
            below[parents[b]] += below[b]
    about = lambda s: np.maximum(
        s[:, 4] - 2 * (s[:, 1:4] * place).sum(axis=1) + s[:, 0] * (place**2).sum(axis=1), 0
    )
    turn, stretch, count = about(below), about(sums), float(len(vertices))
    used = _used(deformer, parents, below[:, 0])
    radius = np.where(used, _RADIUS * deformer.mesh.height, 0.0)
    per = lambda total, weight: np.maximum(np.sqrt(total / np.maximum(weight, 1e-9)), radius)
    all_of = lambda total: np.maximum(np.sqrt(total / count), radius / np.sqrt(count))
    tip, reach = place.copy(), np.zeros(bones)
    for b in range(bones):
        mine = own.indices[own.indptr[b] : own.indptr[b + 1]]
        mine = mine[own.data[own.indptr[b] : own.indptr[b + 1]] > 0.4]
        if len(mine):
            distance = np.linalg.norm(vertices[mine] - place[b], axis=1)
            tip[b], reach[b] = vertices[mine[distance.argmax()]], distance.max()
    return Levers(
        whole={
            "rotation": all_of(turn),
            "move": np.sqrt(np.maximum(below[:, 0], used) / count),
            "stretch": all_of(stretch),
        },
        near={
            "rotation": per(turn, below[:, 0]),
            "move": used.astype(np.float64),
            "stretch": per(stretch, sums[:, 0]),
        },
        weight=below[:, 0],
        reach=reach,
        tip=tip,
    )


def _used(deformer: Deformer, parents: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return which bones (B,) change the result: they move vertices, or networks read them."""
    columns = deformer.features.columns
    used = weight > 1e-6
    used[np.unique(columns[columns < 12 * len(parents)] // 12)] = True
    for b in parents_first(parents)[::-1]:
        if used[b] and parents[b] >= 0:
            used[parents[b]] = True
    return used


def tree_distances(parents: np.ndarray) -> np.ndarray:
    """Return the number of steps between any two bones, (B,B); inf between separate trees."""
    count = len(parents)
    child = np.flatnonzero(parents >= 0)
    links = sp.csr_matrix((np.ones(len(child)), (child, parents[child])), shape=(count, count))
    return shortest_path(links, directed=False, unweighted=True)


def upwards(parents: np.ndarray, bone: int) -> list[int]:
    """Return a bone, its parent, and so on to a root.

    >>> upwards(np.array([-1, 0, 1, 0]), 2)
    [2, 1, 0]
    """
    found = [bone]
    while parents[found[-1]] >= 0:
        found.append(int(parents[found[-1]]))
    return found

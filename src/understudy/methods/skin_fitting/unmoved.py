"""Bones that never move in the training poses: no fit can know which vertices they carry.

A bone that stands still beside its parent moves as one with it. A fit may give a vertex to either,
and the first animation that moves the bone tears the mesh. So what a fit gives to such bones, as
one, is divided among them as the weights of the rig's file say. On the training poses the skin
stays the same.

Letters: T poses, V vertices, B bones, K influences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin, skin_weights
from understudy.geometry.transforms import parent_from_bone

_TURN = 5e-3  # of a rotation's entries, about a quarter of a degree
_SHIFT = 5e-4  # of the height
_BLOCK = 256  # vertices


def moves(skeleton: Skeleton, world_from_bone: np.ndarray, height: float) -> np.ndarray:
    """(B,) which bones move beside their parents in some poses (T,B,3,4)."""
    rest = parent_from_bone(skeleton.world_from_bone[None], skeleton.parents)
    found = np.zeros(skeleton.bone_count, bool)
    for start in range(0, len(world_from_bone), _BLOCK):
        some = world_from_bone[start : start + _BLOCK]
        change = np.abs(parent_from_bone(some, skeleton.parents) - rest).max(axis=0)
        found |= change[..., :3].max(axis=(1, 2)) > _TURN
        found |= change[..., 3].max(axis=1) > _SHIFT * height
    return found


def unmoved_bones(poses: Poses) -> list[str]:
    """The bones that no pose moves beside their parents; the root may stand still."""
    if poses.skeleton is None or poses.world_from_bone is None:
        return []
    skeleton = poses.skeleton
    moved = moves(skeleton, poses.world_from_bone, poses.mesh.height)
    inner = skeleton.parents >= 0
    return [skeleton.names[int(b)] for b in np.flatnonzero(inner & ~moved)]


def unmoved_controls(poses: Poses) -> list[str]:
    """The controls that have one value in all poses."""
    if poses.controls is None or poses.control_spec is None:
        return []
    still = np.ptp(poses.controls, axis=0) == 0
    return [poses.control_spec.names[int(c)] for c in np.flatnonzero(still)]


def with_own_weights(deformer: Deformer, own: Skin | None, unmoved: Sequence[str]) -> Deformer:
    """`deformer` with the weights of `own` among unmoved bones and those that these move with."""
    import scipy.sparse as sp

    skin, skeleton = deformer.skin, deformer.skeleton
    if own is None or not unmoved or skin is None or skeleton is None or skin.virtual is not None:
        return deformer
    names, count = set(unmoved), skeleton.bone_count
    group = np.arange(count)
    for bone in range(count):  # parents come before their children
        if skeleton.names[bone] in names:
            group[bone] = group[skeleton.parents[bone]]
    gather = sp.csr_matrix((np.ones(count), (np.arange(count), group)), (count, count))
    fitted, given = skin_weights(skin, count), skin_weights(own, count)
    sums, shares = (fitted @ gather).tolil(), (given @ gather).tolil()
    together = np.bincount(group, minlength=count)[group] > 1  # (B,)
    index, weight = [list(row) for row in skin.bone_index], [list(row) for row in skin.weight]
    for row in np.flatnonzero((fitted + given) @ together):
        new: dict[int, float] = {}
        for bone, value in zip(fitted[row].indices, fitted[row].data):
            if shares[row, group[bone]] <= 0:
                new[int(bone)] = float(value)
        for bone, value in zip(given[row].indices, given[row].data):
            total, share = sums[row, group[bone]], shares[row, group[bone]]
            if total and share > 0:
                new[int(bone)] = float(value * total / share)
        index[row], weight[row] = list(new), list(new.values())
    width = max(map(len, weight))
    padded = [
        np.array([[*row, *[0] * (width - len(row))] for row in rows]) for rows in (index, weight)
    ]
    return replace(deformer, skin=replace(skin, bone_index=padded[0], weight=padded[1]))

"""Bones as an artist expects them at rest: a root in the heaviest part, parents before children,
heads at the joints, +Y along the bone.

+Y from head to tail is Blender's convention; +Z leans as far towards the mesh's front as it can, so
that neighbouring bones roll alike.
"""

from __future__ import annotations

import numpy as np

from understudy.methods.decomposition.skeletons.articulation import Tree

_SHORT = 1e-6  # of the size of the whole: a bone of no length has no direction of its own


def central_bone(tree: Tree, mass: np.ndarray) -> int:
    """The bone whose heaviest branch is lightest, mass (B,): hang the tree up there and it is best
    balanced. Of equals, the heaviest itself.

    >>> central_bone(Tree(np.array([-1, 0, 1, 2])), np.array([1.0, 1, 5, 1]))
    2
    """
    carried = tree.below.astype(float) @ mass
    heaviest = mass.sum() - carried  # what hangs above
    child = np.flatnonzero(tree.parents >= 0)
    np.maximum.at(heaviest, tree.parents[child], carried[child])
    return int(np.lexsort((-mass, np.round(heaviest, 9)))[0])


def from_the_root(tree: Tree, mass: np.ndarray) -> np.ndarray:
    """(B,) all bones, parents before their children, level by level, heavy branches first."""
    depth = tree.below.sum(axis=0)
    carried = tree.below.astype(float) @ mass
    return np.lexsort((-carried, depth))


def rest_frames(
    tree: Tree, joints: np.ndarray, middles: np.ndarray, mass: np.ndarray, up_axis: str
) -> np.ndarray:
    """World from bone at rest, (B,3,4) rotations: the origin at the joint, +Y towards where the
    bone leads.

    That is the joint of its heaviest child, or without children the middle of its own vertices,
    middles (B,3). Joints (B,3), the root's too.
    """
    bones = tree.bones
    carried = tree.below.astype(float) @ mass
    tails = middles.copy()
    child = np.flatnonzero(tree.parents >= 0)
    child = child[np.argsort(carried[child], kind="stable")]  # the heaviest is written last
    tails[tree.parents[child]] = joints[child]
    along = tails - joints
    size = float(np.abs(middles - middles.mean(axis=0)).max()) or 1.0
    above = joints - joints[tree.parents]
    above[tree.root] = 0
    up = np.eye(3)["XYZ".index(up_axis)]
    front = np.array([0.0, 0.0, 1.0]) if up_axis == "Y" else np.array([0.0, -1.0, 0.0])
    for other in (middles - joints, above, np.tile(up, (bones, 1))):
        short = np.linalg.norm(along, axis=1) < _SHORT * size
        along[short] = other[short]
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    facing = np.where((np.abs(along @ front) < 0.9)[:, None], front, up)
    side = np.cross(along, facing)
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    return np.stack([side, along, np.cross(side, along), joints], axis=2)

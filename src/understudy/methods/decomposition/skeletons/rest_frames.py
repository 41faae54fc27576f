"""Rest transforms of bones as artists expect them.

Parents come before their children, the origin of a bone is its joint, and +Y points along the bone
(as in Blender). +Z points as far towards the front of the mesh as possible, so that neighbouring
bones have similar roll.
"""

from __future__ import annotations

import numpy as np

from understudy.methods.decomposition.skeletons.articulation import Tree

_MIN_LENGTH = 1e-6  # of the size of the skeleton; shorter bones have no direction of their own


def parents_first(tree: Tree, mass: np.ndarray) -> np.ndarray:
    """Return all bones (B,) level by level from the root, heavy branches first; mass (B,)."""
    depth = tree.descends.sum(axis=0)
    carried = tree.descends.astype(float) @ mass
    return np.lexsort((-carried, depth))


def rest_frames(
    tree: Tree, joints: np.ndarray, centres: np.ndarray, mass: np.ndarray, up_axis: str
) -> np.ndarray:
    """Return world_from_bone at rest (B,3,4): the origin at the joint, +Y along the bone.

    joints   (B,3), including that of the root
    centres  (B,3) of the vertices of each bone
    mass     (B,)
    up_axis  "Y" or "Z"

    A bone points to the joint of its heaviest child, or without children to its centre.
    """
    bones = tree.bones
    carried = tree.descends.astype(float) @ mass
    tails = centres.copy()
    child = np.flatnonzero(tree.parents >= 0)
    child = child[np.argsort(carried[child], kind="stable")]  # the heaviest is written last
    tails[tree.parents[child]] = joints[child]
    along = tails - joints
    size = float(np.abs(centres - centres.mean(axis=0)).max()) or 1.0
    from_parent = joints - joints[tree.parents]
    from_parent[tree.root] = 0
    up = np.eye(3)["XYZ".index(up_axis)]
    front = np.array([0.0, 0.0, 1.0]) if up_axis == "Y" else np.array([0.0, -1.0, 0.0])
    for other in (centres - joints, from_parent, np.tile(up, (bones, 1))):
        short = np.linalg.norm(along, axis=1) < _MIN_LENGTH * size
        along[short] = other[short]
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    facing = np.where((np.abs(along @ front) < 0.9)[:, None], front, up)
    side = np.cross(along, facing)
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    return np.stack([side, along, np.cross(side, along), joints], axis=2)

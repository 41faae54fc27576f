"""Names of bones as tools expect them: the two sides of a symmetric skeleton share a name.

Bones that are each other's mirror image end in `_L` and `_R`, which Blender, Maya and engines take
for the two sides. The character is assumed to face along +Z if Y is up, and along -Y if Z is up, so
that its left side is at positive X.
"""

from __future__ import annotations

import numpy as np

_SAME = 0.04  # of the size: a mirrored joint this close to another is its counterpart
_MIDDLE = 0.02  # of the size: a joint this close to the plane of symmetry is in the middle
_SYMMETRIC = 0.6  # share of the joints that need a counterpart


def bone_names(joints: np.ndarray, parents: np.ndarray, vertices: np.ndarray) -> tuple[str, ...]:
    """Return a name for every bone of a skeleton.

    joints    (B,3) at rest
    parents   (B,), each before its children; the first is the root
    vertices  (V,3) of the mesh

    >>> joints = np.array([[0.0, 0, 0], [0, 1, 0], [1, 2, 0], [-1, 2, 0]])
    >>> bone_names(joints, np.array([-1, 0, 1, 1]), 3 * joints)
    ('root', 'bone_1', 'bone_2_L', 'bone_2_R')
    """
    mirror = mirrored(joints, parents, vertices)
    names, number = [""] * len(joints), 0
    for bone in range(len(joints)):
        if names[bone]:
            continue
        if parents[bone] < 0:
            names[bone] = "root"
            continue
        number += 1
        other = int(mirror[bone])
        if other in (-1, bone):
            names[bone] = f"bone_{number}"
        else:
            left, right = (bone, other) if joints[bone, 0] > joints[other, 0] else (other, bone)
            names[left], names[right] = f"bone_{number}_L", f"bone_{number}_R"
    return tuple(names)


def mirrored(joints: np.ndarray, parents: np.ndarray, vertices: np.ndarray) -> np.ndarray:
    """Return the bone (B,) that mirrors each across the YZ plane of the mesh, -1 where none does.

    A bone in the middle mirrors itself. Without symmetry, all are -1.
    """
    bones, size = len(joints), float(np.linalg.norm(np.ptp(vertices, axis=0))) or 1.0
    plane = float(vertices[:, 0].min() + vertices[:, 0].max()) / 2
    depth = np.zeros(bones, np.int64)
    for bone in range(bones):
        depth[bone] = depth[parents[bone]] + 1 if parents[bone] >= 0 else 0
    image = joints * [-1, 1, 1] + [2 * plane, 0, 0]
    away = np.linalg.norm(image[:, None] - joints, axis=2) + np.where(
        depth[:, None] == depth, 0.0, size
    )
    nearest = np.argmin(away, axis=1)
    mutual = (nearest[nearest] == np.arange(bones)) & (away.min(axis=1) < _SAME * size)
    central = np.abs(joints[:, 0] - plane) < _MIDDLE * size
    found = np.where(mutual, nearest, np.where(central, np.arange(bones), -1))
    sided = found != np.arange(bones)
    enough = (found >= 0).mean() >= _SYMMETRIC and (sided & (found >= 0)).any()
    return found if enough else np.full(bones, -1)

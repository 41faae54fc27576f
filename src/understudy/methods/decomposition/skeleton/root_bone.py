"""Which bone is the root, and where its joint is: the pelvis.

A symmetric body that stands has feet on either side. The way from one foot to the other through the
tree leads over the pelvis: the bone of it in the middle of the body. An animal on four legs has two
such bones. The end of the body beyond one of them is taller, that with the head; the root is the
other.

The joint of a pelvis is half-way between the middle of the two hip joints and the centre of the
bone's own vertices. A body without such feet has its root where the branches balance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.methods.decomposition.skeleton.articulation import Tree
from understudy.methods.decomposition.skeleton.body import Body

_SYMMETRIC = 0.02  # of the size: how far mirrored vertices may be from others on average
_GROUND = 0.05  # of the height: vertices this close to the lowest one are those of feet
# Shares of the size: feet are farther from the plane of symmetry than the first, and closer to each
# other's mirror image than the second; the centre of a pelvis is closer to the plane than the last.
_ASIDE, _SAME, _MIDDLE = 0.01, 0.1, 0.05
_BEYOND = 0.03  # of the size: an end of the body begins this far beyond a pelvis


@dataclass(frozen=True, eq=False)
class BoneShapes:
    """Where the vertices of bones are.

    body      the rest shape
    dominant  (V,) the bone with the largest weight of every vertex
    mass      (B,) area of the surface that each bone moves
    centres   (B,3) of that area
    """

    body: Body
    dominant: np.ndarray
    mass: np.ndarray
    centres: np.ndarray


def find_root(
    tree: Tree, joints: np.ndarray, shapes: BoneShapes, up_axis: str
) -> tuple[int, np.ndarray]:
    """Return the bone that is to be the root, and where its joint is (3,).

    joints   (B,3), of the tree as it is rooted now
    up_axis  "Y" or "Z"
    """
    up = "XYZ".index(up_axis)
    found = _pelvises(tree, shapes, up)
    if not found:
        root = central_bone(tree, shapes.mass)
        return root, shapes.centres[root]
    root, hips = _hind(found, shapes, up)
    # A joint belongs to the lower one of its two bones.
    at = [joints[bone if tree.parents[bone] == root else root] for bone in hips]
    return root, (np.mean(at, axis=0) + shapes.centres[root]) / 2


def central_bone(tree: Tree, mass: np.ndarray) -> int:
    """Return the bone whose heaviest branch is lightest; among equals, the heaviest bone.

    mass  (B,)

    >>> central_bone(Tree(np.array([-1, 0, 1, 2])), np.array([1.0, 1, 5, 1]))
    2
    """
    carried = tree.descends.astype(float) @ mass
    heaviest = mass.sum() - carried  # the branch above
    child = np.flatnonzero(tree.parents >= 0)
    np.maximum.at(heaviest, tree.parents[child], carried[child])
    return int(np.lexsort((-mass, np.round(heaviest, 9)))[0])


def _pelvises(tree: Tree, shapes: BoneShapes, up: int) -> dict[int, tuple[int, int]]:
    """Return the bones between two feet, each with the next bones towards the two."""
    body = shapes.body
    asymmetry = {axis: body.asymmetry(axis) for axis in range(3) if axis != up}
    sideways = min(asymmetry, key=asymmetry.__getitem__)
    if asymmetry[sideways] > _SYMMETRIC:
        return {}
    one_side, other_side = _feet(shapes, sideways, up)
    off_middle = np.abs(shapes.centres[:, sideways] - body.middle(sideways))
    found = {}
    for foot, place in one_side.items():
        image = body.mirrored(place, sideways)
        away = {bone: float(np.linalg.norm(at - image)) for bone, at in other_side.items()}
        away.pop(foot, None)
        other = min(away, key=away.__getitem__, default=foot)
        way = tree.path(foot, other)
        if len(way) < 3 or away[other] > _SAME * body.size:
            continue
        number = 1 + int(np.argmin(off_middle[way[1:-1]]))
        if off_middle[way[number]] < _MIDDLE * body.size:
            found[way[number]] = way[number - 1], way[number + 1]
    return found


def _feet(shapes: BoneShapes, sideways: int, up: int) -> list[dict[int, np.ndarray]]:
    """Return the bones that stand on the ground on either side, with the centre (3,) of each."""
    body = shapes.body
    height = body.vertices[:, up]
    aside = body.vertices[:, sideways] - body.middle(sideways)
    low = height < height.min() + _GROUND * np.ptp(height)
    sides = []
    for sign in (1, -1):
        stands = np.flatnonzero(low & (sign * aside > _ASIDE * body.size))
        bones = shapes.dominant[stands]
        sides.append(
            {int(b): body.vertices[stands[bones == b]].mean(axis=0) for b in np.unique(bones)}
        )
    return sides


def _hind(
    found: dict[int, tuple[int, int]], shapes: BoneShapes, up: int
) -> tuple[int, tuple[int, int]]:
    """Return the pelvis at the lower end of the body, and the next bones towards its feet."""
    vertices, bones = shapes.body.vertices, sorted(found)
    if len(bones) == 1:
        return bones[0], found[bones[0]]
    level = shapes.centres[bones].copy()
    level[:, up] = 0
    # The two that are farthest apart are those of the front and of the hind legs.
    apart = np.linalg.norm(level[:, None] - level, axis=2)
    one, two = np.unravel_index(np.argmax(apart), apart.shape)
    along = (level[two] - level[one]) / max(float(apart[one, two]), 1e-300)
    reach = vertices @ along
    margin = _BEYOND * shapes.body.size
    ends = {
        bones[one]: reach < float(level[one] @ along) - margin,
        bones[two]: reach > float(level[two] @ along) + margin,
    }
    lowest = float(vertices[:, up].min())
    tops = {bone: vertices[end, up].max(initial=lowest) for bone, end in ends.items()}
    root = min(tops, key=tops.__getitem__)
    return root, found[root]

"""Which bones are joined, and where: a tree over bones that have a patch of the mesh each.

Bones with neighbouring patches, and bones that share vertices, are joined where they move least
apart, and where the patches meet. For the joint c of bones a and b,

    c = argmin  mean over frames of |T_a c - T_b c|^2 + h |c - middle|^2

where `middle` is the middle of the border and of the vertices that both bones move, inside the
body. The more exact the bones are and the less they slide, the smaller h is. The tree has the
smallest sum of these minima, by the width of the borders; the middle of a symmetric body is joined
first, its two sides last.
"""

from __future__ import annotations

import numpy as np

from understudy.methods.decomposition.bones.bone_count import relative_error
from understudy.methods.decomposition.bones.patch_search import LocalBones
from understudy.methods.decomposition.skeleton.articulation import Tree
from understudy.methods.decomposition.skeleton.body import Body
from understudy.methods.decomposition.solve.motion import (
    Motion,
    bone_matrices,
    dense_weights,
    relative_motion,
)

# h: the variance of the motion at the joint, by how far bones slide and by E, over that of the
# distance between a joint and `middle`. All are shares of the size.
_NOISE, _MIN_NOISE, _SPREAD, _MAX_HOLD = 0.05, 1e-3, 0.2, 10.0
_REPEATS = 3
_THIN = 1e-3  # of the size: the least width of a border
# A body is symmetric if its vertices mirrored in X are this close to others, on average; bones this
# close to the plane are in the middle; and the factor on the cost of their links.
_SYMMETRIC, _MIDDLE, _SPINE = 0.01, 0.03, 0.1
_MIN_SHARED = 0.5  # sum of products of weights from which two bones share vertices: two halves


def tree_and_joints(motion: Motion, bones: LocalBones, body: Body) -> tuple[Tree, np.ndarray]:
    """Return the tree over neighbouring patches, and its joints (B,3)."""
    count = bones.fit.bones
    weights = dense_weights(bones.fit)
    near = bones.neighbours | (weights.T @ weights > _MIN_SHARED)
    np.fill_diagonal(near, False)
    middle, width = _borders(bones, body, near)
    relative = relative_motion(bones.fit.transforms)
    # How far the motion is to be trusted: less the more bones slide, and the less exact they are.
    noise = max(_NOISE * relative_error(motion, bones.fit.error), _MIN_NOISE) * body.size
    apart = np.zeros((count, count))
    for _ in range(_REPEATS):
        hold = np.minimum((noise**2 + apart) / (_SPREAD * body.size) ** 2, _MAX_HOLD)
        joints, apart = held_joints(relative, middle, hold)
    cost = apart + hold * ((joints - middle) ** 2).sum(axis=2)
    # A wide border is where the body hangs together.
    cost *= _side_factors(bones, body) / np.maximum(width, _THIN * body.size)
    tree = spanning_tree(np.where(near, cost, np.inf))
    result, children = np.zeros((count, 3)), np.flatnonzero(tree.parents >= 0)
    link = children, tree.parents[children]
    result[children] = body.just_inside(
        _along_hinges(joints[link], relative[link][:, :3, :3], hold[link], body)
    )
    return tree, result


def sliding(motion: Motion, bones: LocalBones, triangles: np.ndarray) -> float:
    """Return how far the joints of local bones come apart: the median, as a share of the size."""
    if bones.fit.bones == 1:
        return 0.0
    body = Body(motion.rest[:, :3], triangles)
    apart = gaps(bones.fit.transforms, *tree_and_joints(motion, bones, body))
    return float(np.median(np.sqrt((apart**2).sum(axis=2).mean(axis=0)))) / body.size


def _along_hinges(
    joints: np.ndarray, turns: np.ndarray, hold: np.ndarray, body: Body
) -> np.ndarray:
    """Return joints (n,3), those of hinges half-way to the middle of the body along the axis.

    turns  (n,3,3) mean square of the relative rotation
    hold   (n,) strength with which the shape holds the joint

    A hinge leaves open where on its axis the joint is. The vertices that its bones share and the
    middle of the limb are both where riggers place it, and their mean misses less than either.
    """
    values, axes = np.linalg.eigh(turns)
    hinge = values[:, 1] > hold
    result, least, hold = joints.copy(), np.maximum(values[hinge, 0], 0), hold[hinge]
    # What the shape decides along the axis, and not the motion.
    share = (hold / (least + hold))[:, None]
    middle = body.chord_middles(joints[hinge], axes[hinge, :, 0])
    result[hinge] += share / 2 * (middle - joints[hinge])
    return result


def _borders(bones: LocalBones, body: Body, near: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where neighbouring bones meet (B,B,3), and how wide their border is (B,B).

    The first is the middle between the border and the vertices that both move, inside the body. The
    second is the root mean square distance of the border's vertices from their centre.
    """
    count, weights, rest = bones.fit.bones, dense_weights(bones.fit), body.vertices
    ends = bones.patch[bones.pairs]
    across = ends[:, 0] != ends[:, 1]
    pair = np.sort(ends[across], axis=1) @ [count, 1]
    points = rest[bones.pairs[across]]  # (n,2,3)
    number = np.bincount(pair, minlength=count**2)
    mean = lambda values: np.bincount(pair, values, count**2) / np.maximum(number, 1)
    at = np.stack([mean(points[..., axis].mean(axis=1)) for axis in range(3)], axis=1)
    away = ((points - at[pair][:, None]) ** 2).sum(axis=2).mean(axis=1)
    width = np.sqrt(mean(away)).reshape(count, count)
    one, two = np.nonzero(np.triu(near))
    shared = weights[:, one] * weights[:, two]
    total = shared.sum(axis=0)[:, None]
    border = at[one * count + two]
    centre = np.divide(shared.T @ rest, total, out=border.copy(), where=total > _MIN_SHARED)
    # Bones that share vertices need not touch.
    border = np.where(number[one * count + two][:, None] > 0, border, centre)
    middle = np.zeros((count, count, 3))
    middle[one, two] = middle[two, one] = body.moved_inside((border + centre) / 2)
    return middle, width + width.T


def _side_factors(bones: LocalBones, body: Body) -> np.ndarray:
    """Return factors (B,B) on the cost of links, by the sides of a body that is symmetric in X.

    Bones in the middle are joined with each other first, which makes a spine; bones of different
    sides last, so that no arm or leg hangs on another.
    """
    count, rest = bones.fit.bones, body.vertices
    factors, weights = np.ones((count, count)), dense_weights(bones.fit)
    if body.asymmetry(0) > _SYMMETRIC:
        return factors
    centre = weights.T @ rest[:, 0] / np.maximum(weights.sum(axis=0), 1e-300) - body.middle(0)
    side = np.where(np.abs(centre) < _MIDDLE * body.size, 0, np.sign(centre))
    factors[(side[:, None] == 0) & (side == 0)] = _SPINE
    factors[side[:, None] * side < 0] = 1 / _SPINE
    return factors


def gaps(transforms: np.ndarray, tree: Tree, joints: np.ndarray) -> np.ndarray:
    """Return how far bones and their parents take joints apart, (F,B-1,3) for all but the root.

    transforms  (3F,4B)
    """
    child = np.flatnonzero(tree.parents >= 0)
    bones = bone_matrices(transforms)
    point = np.concatenate([joints[child], np.ones((len(child), 1))], axis=1)
    own, above = (
        np.einsum("fkij,kj->fki", bones[:, some], point) for some in (child, tree.parents[child])
    )
    return own - above


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

"""A skeleton of bones that have a patch of the mesh each (`local_bones`).

Such bones are those of a rig, so that the tree and the joints follow from them directly:
- bones with neighbouring patches, and bones that share vertices, are joined where they move least
  apart, and where the patches meet. For the joint c of bones a and b,

      c = argmin  mean over frames of |T_a c - T_b c|^2 + h |c - middle|^2

  where `middle` is the middle of the border and of the vertices that both bones move, inside the
  body. The more exact the bones are and the less they slide, the smaller h is. The tree has the
  smallest sum of these minima, by the width of the borders; the middle of a symmetric body is
  joined first, its two sides last;
- the motion is solved for again, with a cost of joints that come apart. It is a robust one: most
  joints then hold, and those that the rig itself slides (feet on handles of their own, shoulder
  blades, stretched limbs) slide in the animation, rather than all others giving way for them.

A joint that hardly slides is closed, so that its bone only rotates. If all bones may only rotate at
hardly any error, they do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.methods.decomposition.bones.bone_count import INVISIBLE, relative_error
from understudy.methods.decomposition.bones.patch_search import SMALL, LocalBones, precision
from understudy.methods.decomposition.skeleton.articulated_fit import (
    ArticulatedFit,
    solve_articulated,
    solve_motion,
)
from understudy.methods.decomposition.skeleton.articulation import (
    Articulation,
    JoinedFit,
    NormalEquations,
    Tree,
)
from understudy.methods.decomposition.skeleton.joint_places import Body
from understudy.methods.decomposition.skeleton.joints import (
    cluster_borders,
    held_joints,
    spanning_tree,
)
from understudy.methods.decomposition.solve import kernels
from understudy.methods.decomposition.solve.motion import (
    Fit,
    Motion,
    WeightSearch,
    dense_weights,
    relative_motion,
)
from understudy.methods.decomposition.solve.solves import solve_weights

# h: the variance of the motion at the joint, by how far bones slide and by E, over that of the
# distance between a joint and `middle`. All are shares of the size.
_NOISE, _MIN_NOISE, _SPREAD, _MAX_HOLD = 0.05, 1e-3, 0.2, 10.0
_REPEATS = 3
_THIN = 1e-3  # of the size: the least width of a border
# A body is symmetric if its vertices mirrored in X are this close to others, on average; bones this
# close to the plane are in the middle; and the factor on the cost of their links.
_SYMMETRIC, _MIDDLE, _SPINE = 0.01, 0.03, 0.1
_MIN_SHARED = 0.5  # sum of products of weights from which two bones share vertices: two halves
# A joint that comes apart costs as much as the same error of a tenth of the vertices of its smaller
# bone; less beyond a thousandth of the size. For bones with an error below what leaves nothing
# visible, joints slide from less on, and cost less.
_APART, _FAR, _MIN_APART = 0.1, 1e-3, 2e-3
_LEAST_FAR, _LEAST_APART = 0.3, 1e-3  # times these
_CLOSED = 1e-4  # of the size: joints that come apart by less are closed
# All bones only rotate if E is at most the first (of a body that hardly bends: a share of it), or
# the second times that of independent bones.
_LITTLE, _RISE = INVISIBLE / 8, 1.5
_PLACED, _FIXED = 10.0, 1e3  # times the usual hold of joints while bones only rotate
_ITERATIONS, _SWEEPS = 20, 3


def join_local_bones(motion: Motion, bones: LocalBones, triangles: np.ndarray) -> JoinedFit:
    """Return the tree over local bones, with joints inside the body."""
    body = Body(motion.rest[:, :3], triangles)
    tree, joints = _tree_and_joints(motion, bones, body)
    rotating = _rotating(motion, bones, tree, joints, _PLACED)
    little = max(_RISE * relative_error(motion, bones.fit.error), _LITTLE * precision(motion))
    if relative_error(motion, rotating.fit.error) <= little:
        moved = Body(rotating.rest[:, :3], triangles).just_inside(rotating.pose.joints)
        moved[tree.root] = joints[tree.root]  # it turns nothing
        if not np.array_equal(moved, rotating.pose.joints):
            rotating = _rotating(motion, bones, tree, moved, _FIXED)
        if relative_error(motion, rotating.fit.error) <= little:
            return rotating.joined()
    fit, errors = _with_joints(motion, bones, tree, joints, body.size)
    return JoinedFit(tree, joints, fit, motion.rest, tuple(errors))


def sliding(motion: Motion, bones: LocalBones, triangles: np.ndarray) -> float:
    """Return how far the joints of local bones come apart: the median, as a share of the size."""
    if bones.fit.bones == 1:
        return 0.0
    body = Body(motion.rest[:, :3], triangles)
    apart = gaps(bones.fit.transforms, *_tree_and_joints(motion, bones, body))
    return float(np.median(np.sqrt((apart**2).sum(axis=2).mean(axis=0)))) / body.size


def _tree_and_joints(motion: Motion, bones: LocalBones, body: Body) -> tuple[Tree, np.ndarray]:
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
    at = cluster_borders(rest, bones.patch, bones.pairs, count).at
    ends = bones.patch[bones.pairs]
    across = ends[:, 0] != ends[:, 1]
    one, two = np.sort(ends[across], axis=1).T
    pair = one * count + two
    away = ((rest[bones.pairs[across]] - at[one, two][:, None]) ** 2).sum(axis=2).mean(axis=1)
    number = np.maximum(np.bincount(pair, minlength=count**2), 1)
    width = np.sqrt(np.bincount(pair, away, count**2) / number).reshape(count, count)
    one, two = np.nonzero(np.triu(near))
    shared = weights[:, one] * weights[:, two]
    total = shared.sum(axis=0)[:, None]
    border = at[one, two]
    centre = np.divide(shared.T @ rest, total, out=border.copy(), where=total > _MIN_SHARED)
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


def _rotating(
    motion: Motion, bones: LocalBones, tree: Tree, joints: np.ndarray, hold: float
) -> ArticulatedFit:
    """Return the fit whose bones only rotate; joints (B,3) are held with the strength `hold`."""
    fit, root = bones.fit, tree.root
    moves = fit.transforms.reshape(-1, 3, fit.bones, 4).transpose(0, 2, 1, 3)
    rotations, positions = np.ascontiguousarray(moves[..., :3]), moves[:, root, :, 3]
    pose = Articulation(tree, joints, rotations, positions + rotations[:, root] @ joints[root])
    start = ArticulatedFit(pose, fit, motion.rest, joints, hold=hold, allowed=bones.allowed)
    return solve_articulated(
        motion,
        solve_motion(motion, start),
        fit.index.shape[1],
        _ITERATIONS,
        fit_rest=True,
        extend=False,
    )


@dataclass(frozen=True, eq=False)
class _Joints:
    """What joints that come apart cost.

    tree, at  the tree, and its joints (B,3)
    far       distance beyond which a joint counts as one that slides
    least     cost of these, as a share of the vertices of the smaller bone
    """

    tree: Tree
    at: np.ndarray
    far: float
    least: float

    def strengths(self, transforms: np.ndarray, mass: np.ndarray) -> np.ndarray:
        """Return the cost (B-1,) of the squared distance of each joint; mass (B,) of the bones."""
        child = np.flatnonzero(self.tree.parents >= 0)
        apart = (gaps(transforms, self.tree, self.at) ** 2).sum(axis=2).mean(axis=0)
        share = np.maximum(self.least, _APART / (1 + apart / (self.far**2 + 1e-300)))
        return share * np.minimum(mass[child], mass[self.tree.parents[child]])


def _with_joints(
    motion: Motion, bones: LocalBones, tree: Tree, at: np.ndarray, size: float
) -> tuple[Fit, list[float]]:
    """Return the fit with joints (B,3) that hold where they can, and its errors."""
    fit, allowed, errors = bones.fit, bones.allowed, []
    scale = precision(motion)
    share = min(1.0, relative_error(motion, fit.error) / (SMALL * scale))
    joints = _Joints(
        tree,
        at,
        far=_FAR * scale * size * max(_LEAST_FAR, share),
        least=_MIN_APART * max(_LEAST_APART, share**2),
    )
    places = fit.index.shape[1]
    for number in range(_ITERATIONS):
        transforms = _joined_transforms(motion, fit, joints)
        last = number == _ITERATIONS - 1
        if last:
            transforms = _closed(transforms, tree, at, _CLOSED * size)
        search = WeightSearch(places, from_all=last)
        fit = solve_weights(motion, transforms, (fit.index, fit.weight), search, allowed=allowed)
        errors.append(fit.error)
    return fit, errors


def _joined_transforms(motion: Motion, fit: Fit, joints: _Joints) -> np.ndarray:
    """Return the transforms (3F,4B) after sweeps that also count joints that come apart.

    |T_b c - T_p c|^2 is the error of a vertex at the joint c with the weights 1 and -1, so that it
    adds to the normal equations.
    """
    bones, parents = fit.bones, joints.tree.parents
    equations = NormalEquations.of(motion, fit)
    gram = equations.gram
    child = np.flatnonzero(parents >= 0)
    parent = parents[child]
    mass = np.bincount(fit.index.reshape(-1), fit.weight.reshape(-1), bones)
    point = np.concatenate([joints.at[child], np.ones((len(child), 1))], axis=1)
    strength = joints.strengths(fit.transforms, mass)
    block = strength[:, None, None] * point[:, :, None] * point[:, None, :]
    blocks = gram.reshape(bones, 4, bones, 4).transpose(0, 2, 1, 3)
    for one, two, sign in ((child, child, 1), (parent, parent, 1), (child, parent, -1)):
        np.add.at(blocks, (one, two), sign * block)
    np.add.at(blocks, (parent, child), -block)
    before = fit.transforms.reshape(-1, 3, 4 * bones)
    return kernels.rigid_sweeps(gram, equations.cross, before, _SWEEPS).reshape(-1, 4 * bones)


def gaps(transforms: np.ndarray, tree: Tree, joints: np.ndarray) -> np.ndarray:
    """Return how far bones and their parents take joints apart, (F,B-1,3) for all but the root.

    transforms  (3F,4B)
    """
    child = np.flatnonzero(tree.parents >= 0)
    bones = transforms.reshape(-1, 3, tree.bones, 4).transpose(0, 2, 1, 3)
    point = np.concatenate([joints[child], np.ones((len(child), 1))], axis=1)
    own, above = (
        np.einsum("fkij,kj->fki", bones[:, some], point) for some in (child, tree.parents[child])
    )
    return own - above


def _closed(transforms: np.ndarray, tree: Tree, joints: np.ndarray, least: float) -> np.ndarray:
    """Return transforms (3F,4B) with joints closed that come apart by less than a distance.

    The branch below a joint moves as one.
    """
    apart = gaps(transforms, tree, joints)
    child = np.flatnonzero(tree.parents >= 0)
    little = np.sqrt((apart**2).sum(axis=2).mean(axis=0)) < least
    below = tree.descends[child[little]].astype(float)
    bones = transforms.reshape(-1, 3, tree.bones, 4).copy()
    bones[..., 3] -= np.einsum("fki,kb->fib", apart[:, little], below)
    return bones.reshape(transforms.shape)

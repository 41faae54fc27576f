"""A skeleton of the bones of a rig, each with a patch of the mesh (`local_bones`).

The tree and the joints follow from such bones directly (`joints`). The motion is solved for again,
with a cost of joints that come apart. It is a robust one: most joints then hold, and those that the
rig itself slides (feet on handles of their own, shoulder blades, stretched limbs) slide in the
animation, rather than all others giving way for them.

A joint that hardly slides is closed, so that its bone only rotates. If all bones may only rotate at
hardly any error, they do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from understudy.methods.decomposition.bones.bone_count import INVISIBLE, relative_error
from understudy.methods.decomposition.bones.patch_search import LocalBones, Search, precision
from understudy.methods.decomposition.skeleton.articulated_fit import (
    fixed_inside,
    solve_articulated,
    solve_motion,
    unfitted,
)
from understudy.methods.decomposition.skeleton.articulation import (
    JoinedFit,
    NormalEquations,
    Tree,
)
from understudy.methods.decomposition.skeleton.body import Body
from understudy.methods.decomposition.skeleton.joints import gaps, tree_and_joints
from understudy.methods.decomposition.solve import kernels
from understudy.methods.decomposition.solve.motion import Fit, Motion, WeightSearch
from understudy.methods.decomposition.solve.solves import solve_weights

# A joint that comes apart costs as much as the same error of a tenth of the vertices of its smaller
# bone; less beyond a thousandth of the size. For bones with an error below what leaves nothing
# visible, joints slide from less on, and cost less.
_APART, _FAR, _MIN_APART = 0.1, 1e-3, 2e-3
_LEAST_FAR, _LEAST_APART = 0.3, 1e-3  # times these
_CLOSED = 1e-4  # of the size: joints that come apart by less are closed
# All bones only rotate if E is at most the first (of a body that hardly bends: a share of it), or
# the second times that of independent bones.
_LITTLE, _RISE = INVISIBLE / 8, 1.5
_HOLD = 10.0  # times the usual hold of joints while bones only rotate
_ITERATIONS, _SWEEPS = 20, 3


def join_local_bones(motion: Motion, bones: LocalBones, triangles: np.ndarray) -> JoinedFit:
    """Return the tree over local bones, with joints inside the body."""
    body = Body(motion.rest[:, :3], triangles)
    tree, joints = tree_and_joints(motion, bones, body)
    places = bones.fit.index.shape[1]
    rotating = replace(unfitted(motion, bones.fit, tree, joints), hold=_HOLD, allowed=bones.allowed)
    rotating = solve_motion(motion, rotating)
    rotating = solve_articulated(motion, rotating, places, _ITERATIONS, fit_rest=True, extend=False)
    little = max(_RISE * relative_error(motion, bones.fit.error), _LITTLE * precision(motion))
    if relative_error(motion, rotating.fit.error) <= little:
        rotating = fixed_inside(motion, rotating, triangles, places, _ITERATIONS)
        if relative_error(motion, rotating.fit.error) <= little:
            return rotating.joined()
    fit, errors = _with_joints(motion, bones, tree, joints, body.size)
    return JoinedFit(tree, joints, fit, motion.rest, tuple(errors))


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
    share = min(1.0, relative_error(motion, fit.error) / (Search.small * scale))
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

"""The skin below the displacements: the T_i of Eq. 11, found by perturbing the rig where it allows
that, else fitted to the poses.

Perturbation (Eq. 12, 13): move every rest vertex a little along x, y and z; how the posed vertices
follow is the linear part of T_i, whatever the stack above does. What squeezes it flat (a lid
pressed against the ball) is no bone's doing, and the blend nearest to a flat T_i would be one of
bones that turn apart, however far away. So T_i gives way to its rotation, and the weights are the
convex ones whose blend of bones comes nearest to it over some poses,

    minimise over w >= 0, sum w = 1:   h^2 sum_t |sum_b w_b X_tb - R(T_ti)|^2  +  e sum_t |sum_b w_b
                                       M_tb v~ - y_ti|^2

X the linear parts of M, h the size of the mesh. The second term decides between bones that only
shift, which the first cannot tell apart.

Labels always use the T_i that the deformer has at run time: the blend by these weights
(`geometry.unskin`), never the perturbed one itself.
"""

from __future__ import annotations

import numpy as np

from understudy.core.errors import InputError
from understudy.core.poses import Poses, evenly
from understudy.core.progress import Progress
from understudy.core.skin import Skin
from understudy.geometry.influences import float32_weights
from understudy.geometry.simplex_qp import SimplexQP
from understudy.geometry.skinning import polar
from understudy.geometry.sparse_simplex_qp import solve_sparse_simplex_qp
from understudy.geometry.transforms import compose
from understudy.methods.skin_fitting.best_bone import best_bone, reduce_bones, rigid_errors
from understudy.methods.skin_fitting.blended_skin import blended_skin
from understudy.methods.skin_fitting.skin_weights import NormalEquations, solve_sparse
from understudy.rigs.base import PerturbableRig, Rig

_FIT_POSES = 1000
_PERTURBED_POSES = 40
_STEP = 1e-3  # of the height: small, since stacks above the skin (contacts) are linear only nearby
_POSE_TERM = (
    10.0  # e: of 0.05, 1, 10 and 50 the one that left the face the least rough displacements
)
# weights below this answer to rounding in the perturbed poses, and would cost every vertex of the
# skull three bones
_FAINT = 0.02
_TAU, _RINGS = 1.2, 4  # as fdda's skin


def make_skin(
    kind: str, poses: Poses, rig: Rig | None, influences: int, progress: Progress
) -> Skin:
    """kind: perturbed, fitted, blended (each vertex's best bone, blended at the borders), or
    auto.
    """
    if kind == "auto":
        kind = (
            "perturbed"
            if isinstance(rig, PerturbableRig) and poses.controls is not None
            else "blended"
        )
    if kind == "perturbed":
        if not isinstance(rig, PerturbableRig):
            raise InputError(
                "skin=perturbed moves the rest vertices of a live rig, and there is no rig with "
                "`evaluate_offset`; pass one with --rig, or choose skin=blended"
            )
        return perturbed_skin(poses, rig, influences, progress)
    if kind == "fitted":
        index, weight = solve_sparse(
            NormalEquations.of(poses, evenly(poses.pose_count, _FIT_POSES), progress),
            influences,
            progress,
        )
        return Skin(index, float32_weights(weight / weight.sum(axis=1, keepdims=True)))
    errors = rigid_errors(poses, evenly(poses.pose_count, _FIT_POSES))
    return blended_skin(poses, best_bone(errors, reduce_bones(errors, _TAU)), _RINGS, influences)


def perturbed_transforms(rig: PerturbableRig, values: np.ndarray, step: float) -> np.ndarray:
    """(T,V,3,3) float64: how each posed vertex follows its rest vertex, by forward and backward
    differences of `step`.
    """
    result = np.empty((len(values), rig.mesh.vertex_count, 3, 3))
    for axis in range(3):
        offset = np.zeros((rig.mesh.vertex_count, 3), np.float32)
        offset[:, axis] = step
        ahead, behind = (
            rig.evaluate_offset(values, offset).vertices,
            rig.evaluate_offset(values, -offset).vertices,
        )
        result[..., axis] = (ahead.astype(np.float64) - behind) / (2 * step)
    return result


def perturbed_skin(poses: Poses, rig: PerturbableRig, influences: int, progress: Progress) -> Skin:
    """The convex weights, at most `influences` a vertex, that come nearest to the rotations of the
    rig's own transforms.
    """
    chosen = evenly(poses.pose_count, _PERTURBED_POSES)
    height = poses.mesh.height
    with progress.task("perturbing the rig's rest vertices", 1) as bar:
        wanted = polar(perturbed_transforms(rig, poses.controls[chosen], _STEP * height))[0]
        bar.advance()
    equations = NormalEquations.of(poses, chosen)
    linear = compose(poses.world_from_bone[chosen], poses.skeleton.bone_from_world)[..., :3]
    bones = linear.transpose(1, 0, 2, 3).reshape(linear.shape[1], -1)
    among = bones @ bones.T
    influences = min(influences, len(bones))
    index, weight = (
        np.zeros((poses.vertex_count, influences), np.int32),
        np.zeros((poses.vertex_count, influences)),
    )
    for span in equations.chunks():
        targets = wanted[:, span].transpose(1, 0, 2, 3).reshape(span.stop - span.start, -1)
        pull, square = targets @ bones.T, np.einsum("nd,nd->n", targets, targets)
        products = height**2 * (among - pull[:, :, None] - pull[:, None, :] + square[:, None, None])
        posed = equations.problems(span)
        scale = height**2 * (square + np.diagonal(among).max()) + _POSE_TERM * posed.scale
        problems = SimplexQP(products + _POSE_TERM * posed.matrix, scale)
        found = solve_sparse_simplex_qp(problems, influences)[influences - 1].compact(influences)
        index[span], weight[span] = found.index, found.weight
    weight = np.where(weight < _FAINT, 0.0, weight)
    return Skin(index, float32_weights(weight / weight.sum(axis=1, keepdims=True)))

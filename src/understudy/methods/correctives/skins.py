"""The skin below the displacements: the transforms T_i of Eq. 11 as weights of the bones.

A rig that can be perturbed shows T_i directly (Eq. 12, 13): move every rest vertex a little along
x, y and z, and the motion of the posed vertices is the linear part of T_i. The weights are convex
and come closest to it over some poses,

    minimise over w >= 0, sum w = 1:
        h^2 sum_t |sum_b w_b X_tb - R(T_ti)|^2  +  e sum_t |sum_b w_b M_tb (rest_i, 1) - y_ti|^2

with M_tb the motion of bone b, X its linear part and h the height of the mesh. The second term
separates bones that only translate, which the first cannot distinguish.

Departures:
- R(T), the rotation of T, replaces T itself. Collapsed vertices give unreliable skin weights: where
  a lid presses on the eyeball, T_i is nearly singular, and the closest blend contains distant bones
  that rotate in opposite directions.
- Where the rig cannot be perturbed, weights are fitted to the poses, or each vertex follows its
  best single bone with blended borders, as in `fdda`.

Displacements are always measured against the blend of these weights, which the deformer has at run
time (`skin_fitting.displacements`), not against the perturbed T_i.
"""

from __future__ import annotations

import numpy as np

from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.geometry.simplex_qp import SimplexQP, solve_sparse_simplex_qp
from understudy.geometry.skinning import float32_weights, polar
from understudy.geometry.transforms import compose
from understudy.methods.skin_fitting.best_bone import best_bone, reduce_bones, rigid_errors
from understudy.methods.skin_fitting.blended_skin import blended_skin
from understudy.methods.skin_fitting.skin_weights import NormalEquations
from understudy.rigs.base import PerturbableRig
from understudy.system.progress import Progress

SKINS = ("auto", "perturbed", "fitted", "blended")
SKIN_POSES = 1000  # that weights and best bones are found from
_PERTURBED_POSES = 40
_STEP = 1e-3  # of the height; contacts above the skin are linear only for small steps
_POSE_TERM = 10.0  # e
# Smaller weights are rounding errors of the perturbed poses. Keeping them would give every vertex
# of the skull three bones.
_LEAST_WEIGHT = 0.02
TAU, RINGS = 1.2, 4


def best_bone_skin(
    poses: Poses, tau: float = TAU, rings: int = RINGS, influences: int = 4
) -> tuple[Skin, np.ndarray]:
    """The skin of the best single bones, and the bone (V,) of each vertex.

    tau    of as few bones as this factor of the error allows (FDDA, sections 3.1.1 and 3.3.3)
    rings  of edges over which borders are blended
    """
    errors = rigid_errors(poses, evenly(poses.pose_count, SKIN_POSES))
    bones = best_bone(errors, reduce_bones(errors, tau))
    return blended_skin(poses, bones, rings, influences), bones


def perturbed_transforms(rig: PerturbableRig, values: np.ndarray, step: float) -> np.ndarray:
    """The linear part (T,V,3,3) of vertex transforms at values (T,C), by central differences."""
    count = len(values)
    result = np.empty((count, rig.mesh.vertex_count, 3, 3))
    for axis in range(3):
        offset = np.zeros((rig.mesh.vertex_count, 3), np.float32)
        offset[:, axis] = step
        ahead = rig.evaluate_offset(values, offset).read_poses(0, count)
        behind = rig.evaluate_offset(values, -offset).read_poses(0, count)
        result[..., axis] = (ahead.astype(np.float64) - behind) / (2 * step)
    return result


def perturbed_skin(poses: Poses, rig: PerturbableRig, influences: int, progress: Progress) -> Skin:
    """The convex weights, at most `influences` per vertex, closest to the rig's own rotations."""
    skeleton, world_from_bone = poses.need_bones("skin=perturbed")
    _, controls = poses.need_controls("skin=perturbed")
    chosen = evenly(poses.pose_count, _PERTURBED_POSES)
    height = poses.mesh.height
    with progress.task("perturbing the rig's rest vertices", 1) as task:
        wanted = polar(perturbed_transforms(rig, controls[chosen], _STEP * height))[0]
        task.advance()
    equations = NormalEquations.of(poses, chosen)
    linear = compose(world_from_bone[chosen], skeleton.bone_from_world)[..., :3]
    bones = linear.transpose(1, 0, 2, 3).reshape(linear.shape[1], -1)
    among = bones @ bones.T
    influences = min(influences, len(bones))
    index = np.zeros((poses.vertex_count, influences), np.int32)
    weight = np.zeros((poses.vertex_count, influences))
    for span in equations.chunks():
        targets = wanted[:, span].transpose(1, 0, 2, 3).reshape(span.stop - span.start, -1)
        pull, square = targets @ bones.T, np.einsum("nd,nd->n", targets, targets)
        products = height**2 * (among - pull[:, :, None] - pull[:, None, :] + square[:, None, None])
        posed = equations.problems(span)
        scale = height**2 * (square + np.diagonal(among).max()) + _POSE_TERM * posed.scale
        problems = SimplexQP(products + _POSE_TERM * posed.matrix, scale)
        found = solve_sparse_simplex_qp(problems, influences)[influences - 1].compact(influences)
        index[span], weight[span] = found.index, found.weight
    weight = np.where(weight < _LEAST_WEIGHT, 0.0, weight)
    return Skin(index, float32_weights(weight / weight.sum(axis=1, keepdims=True)))

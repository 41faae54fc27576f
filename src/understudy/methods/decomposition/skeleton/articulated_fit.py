"""The motion, weights and rest shape of one tree of bones, solved for in turn.

Every stage of a skeleton fit (`local_skeleton`, `skeleton_solve`) consists of these solves:
- `solve_motion`: rotations, root positions and joints for fixed weights (`gauss_newton`);
- `solve_articulated`: alternating iterations of motion, rest shape and weights, with momentum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from understudy.methods.decomposition.skeleton.articulation import (
    Articulation,
    JoinedFit,
    NormalEquations,
    Tree,
)
from understudy.methods.decomposition.skeleton.body import Body
from understudy.methods.decomposition.skeleton.gauss_newton import JointPrior, solve_articulation
from understudy.methods.decomposition.solve import kernels
from understudy.methods.decomposition.solve.momentum import Extension, Failure, Schedule, alternate
from understudy.methods.decomposition.solve.motion import (
    Fit,
    Motion,
    WeightSearch,
    bone_matrices,
    dense_weights,
)
from understudy.methods.decomposition.solve.solves import no_weights, solve_weights

FIRST_STEPS, _STEPS = 15, 2  # of Gauss-Newton for new weights, and within an iteration
_MIN_GAIN = 1e-4
_EXTENSION = Extension(gain=3e-3, factor=4)
_NO_EXTENSION = Extension(gain=1.0, factor=1)
# Joints are held where the tree was made, near the borders of the clusters. Otherwise the error is
# slightly lower, but joints slide along their hinge axes out of the body. The hold corresponds to
# half a degree of rotation of the vertices below the joint. `_MIN_HELD` is its lower limit in
# vertices of an average bone: without it, bones that hardly move push their joints far away.
_HOLD, _MIN_HELD = 1e-4, 0.1
# The rest shape is held to the mesh of the sequence: a distance at rest costs as much as a
# thirtieth of it in every frame. With a weaker hold the rest pose itself drifts, for hardly any
# gain.
_HOLD_REST = 1e-3
_VERTICES = 2000  # solved at a time
_FIXED = 1e3  # times the usual hold: joints that are fixed inside the body


@dataclass(frozen=True, eq=False)
class ArticulatedFit:
    """A tree of bones in motion, with weights and a rest shape.

    pose         the tree, its joints and its motion
    fit          the transforms of `pose`, weights and errors
    rest         (V,4) homogeneous rest shape
    held_joints  (B,3) where the joints are held
    hold         how firmly, in multiples of the usual
    allowed      (V,B) bool, the bones that each vertex may use; None: all
    errors       squared errors of the last alternating solve: at its start and after each iteration
    """

    pose: Articulation
    fit: Fit
    rest: np.ndarray
    held_joints: np.ndarray
    errors: tuple[float, ...] = ()
    hold: float = 1.0
    allowed: np.ndarray | None = None

    @property
    def error(self) -> float:
        """The squared error."""
        return self.fit.error

    def motion(self, motion: Motion) -> Motion:
        """Return `motion` with this rest shape."""
        return replace(motion, rest=self.rest)

    def joined(self) -> JoinedFit:
        """Return its bones, joints and rest shape."""
        return JoinedFit(self.pose.tree, self.pose.joints, self.fit, self.rest, self.errors)

    def of_vertices(self, vertices: np.ndarray) -> ArticulatedFit:
        """Return the fit of some vertices (n,)."""
        fit = replace(
            self.fit,
            index=self.fit.index[vertices],
            weight=self.fit.weight[vertices],
            vertex_errors=self.fit.vertex_errors[vertices],
        )
        return replace(self, fit=fit, rest=self.rest[vertices])


def unfitted(motion: Motion, fit: Fit, tree: Tree, joints: np.ndarray) -> ArticulatedFit:
    """Return a tree over rigid bones with their rotations and the motion of the root alone."""
    moves, root = bone_matrices(fit.transforms), tree.root
    rotations, positions = np.ascontiguousarray(moves[..., :3]), moves[:, root, :, 3]
    pose = Articulation(tree, joints, rotations, positions + rotations[:, root] @ joints[root])
    return ArticulatedFit(pose, fit, motion.rest, joints)


def fixed_inside(
    motion: Motion, fitted: ArticulatedFit, triangles: np.ndarray, influences: int, iterations: int
) -> ArticulatedFit:
    """Return the fit, with joints outside its rest shape fixed inside after some iterations."""
    pose, root = fitted.pose, fitted.pose.tree.root
    joints = Body(fitted.rest[:, :3], triangles).just_inside(pose.joints)
    joints[root] = pose.joints[root]  # it turns nothing
    if np.array_equal(joints, pose.joints):
        return fitted
    pose = replace(pose, joints=joints)
    fit = replace(fitted.fit, transforms=pose.transforms())
    fixed = replace(fitted, pose=pose, fit=fit, held_joints=joints, hold=_FIXED)
    return solve_articulated(
        motion, solve_motion(motion, fixed), influences, iterations, fit_rest=True, extend=False
    )


def solve_motion(
    motion: Motion, fitted: ArticulatedFit, steps: int = FIRST_STEPS, min_gain: float = 1e-4
) -> ArticulatedFit:
    """Return the fit with rotations, root positions and joints solved for; weights stay."""
    equations = NormalEquations.of(fitted.motion(motion), fitted.fit)
    prior = _joint_prior(equations, fitted)
    pose = solve_articulation(equations, fitted.pose, prior, steps, min_gain)
    return replace(fitted, pose=pose, fit=replace(fitted.fit, transforms=pose.transforms()))


def solve_articulated(
    motion: Motion,
    fitted: ArticulatedFit,
    influences: int,
    iterations: int,
    report: Callable[[float], object] = lambda error: None,
    *,
    fit_rest: bool = False,
    extend: bool = True,
) -> ArticulatedFit:
    """Return the fit with at most `influences` after alternating iterations; its error never rises.

    report    called with the squared error after each iteration
    fit_rest  also solve for the rest shape, held to that of `motion`
    extend    run more iterations than planned while much is gained
    """
    fitted = _limit_influences(motion, fitted, influences)
    problem = _Articulated(motion, fitted, influences, fit_rest)
    schedule = Schedule(iterations, _MIN_GAIN, _EXTENSION if extend else _NO_EXTENSION)
    result, errors = alternate(problem, problem.start, schedule, report)
    return replace(result, errors=tuple(errors))


def _limit_influences(motion: Motion, fitted: ArticulatedFit, influences: int) -> ArticulatedFit:
    """Return the fit with new weights on at most `influences` bones, if it has more."""
    if fitted.fit.index.shape[1] <= influences:
        return fitted
    fit = solve_weights(
        fitted.motion(motion),
        fitted.pose.transforms(),
        no_weights(motion),
        WeightSearch(influences, from_all=True),
    )
    return replace(fitted, fit=fit)


def solve_held_rest(motion: Motion, fit: Fit) -> np.ndarray:
    """Return the rest shape (V,4) that fits best, held to that of `motion`."""
    return solve_rest_shape(motion, fit, motion.rest, _HOLD_REST * (motion.rows // 3))


# What the transform step solves for: the motion, and the rest shape (V,4)
_Variables = tuple[Articulation, np.ndarray]


class _Articulated:
    """The two steps of an iteration; see `momentum.AlternatingProblem`."""

    def __init__(
        self, motion: Motion, fitted: ArticulatedFit, influences: int, fit_rest: bool
    ) -> None:
        self._motion, self._influences, self._fit_rest = motion, influences, fit_rest
        self.start = self.solve_weights(fitted, (fitted.pose, fitted.rest), thorough=False)
        equations = NormalEquations.of(fitted.motion(motion), self.start.fit)
        self._prior = _joint_prior(equations, fitted)

    def solve_transforms(self, state: ArticulatedFit) -> _Variables:
        equations = NormalEquations.of(state.motion(self._motion), state.fit)
        pose = solve_articulation(equations, state.pose, self._prior, _STEPS)
        if not self._fit_rest:
            return pose, state.rest
        return pose, solve_held_rest(self._motion, replace(state.fit, transforms=pose.transforms()))

    def extrapolate(
        self, transforms: _Variables, previous: _Variables, momentum: float
    ) -> _Variables:
        beyond = lambda now, before: now + momentum * (now - before)
        (pose, rest), (pose_before, rest_before) = transforms, previous
        rotations = kernels.nearest_rotations(beyond(pose.rotations, pose_before.rotations))
        joints = beyond(pose.joints, pose_before.joints)
        root_position = beyond(pose.root_position, pose_before.root_position)
        return Articulation(pose.tree, joints, rotations, root_position), beyond(rest, rest_before)

    def solve_weights(
        self, state: ArticulatedFit, transforms: _Variables, thorough: bool
    ) -> ArticulatedFit:
        pose, rest = transforms
        fit = solve_weights(
            replace(self._motion, rest=rest),
            pose.transforms(),
            (state.fit.index, state.fit.weight),
            WeightSearch(self._influences, from_all=thorough),
            allowed=state.allowed,
        )
        return replace(state, pose=pose, rest=rest, fit=fit)

    def fail(self, state: ArticulatedFit) -> Failure:
        # The motion step minimises the error plus the hold of the joints. If the hold outweighs the
        # vertices, the joints are held where they are now.
        if self._prior.at is state.pose.joints:
            return Failure.STOP
        self._prior = replace(self._prior, at=state.pose.joints)
        return Failure.RETRY


def _joint_prior(equations: NormalEquations, fitted: ArticulatedFit) -> JointPrior:
    tree, frames, bones = fitted.pose.tree, fitted.pose.frames, fitted.fit.bones
    shared = equations.gram.reshape(bones, 4, bones, 4)[:, 3, :, 3]
    below = tree.descends.astype(float)
    carried = np.einsum("kb,bc,kc->k", below, shared, below, optimize=True)  # sum_i W_ik^2
    strength = fitted.hold * _HOLD * frames * (carried + _MIN_HELD * shared.sum() / bones)
    return JointPrior(fitted.held_joints, strength)


def solve_rest_shape(motion: Motion, fit: Fit, near: np.ndarray, hold: float) -> np.ndarray:
    """Return the homogeneous rest positions (V,4) that fit best.

    A sequence's first frame is as noisy as any other, and as a rest shape its noise appears in
    every frame. With transforms and weights fixed, each vertex has three unknowns:

        v_i = argmin_v  sum_f |sum_b w_ib T_fb [v, 1] - y_fi|^2 + h |v - near_i|^2

    All vertices share the Gram matrix of the transforms.

    near  (V,4) positions to stay close to
    hold  h, the strength of that
    """
    bones, weights, result = fit.bones, dense_weights(fit), near.copy()
    gram = (
        (fit.transforms.T @ fit.transforms)
        .reshape(bones, 4, bones, 4)
        .transpose(0, 2, 1, 3)
        .reshape(bones, -1)
    )
    for start in range(0, len(weights), _VERTICES):
        part = slice(start, start + _VERTICES)
        weight = weights[part]
        matrix = np.einsum("vb,vbij->vij", weight, (weight @ gram).reshape(-1, bones, 4, 4))
        linear = np.einsum(
            "vb,vbi->vi",
            weight,
            kernels.product(motion.targets[part], fit.transforms).reshape(-1, bones, 4),
        )
        right = linear[:, :3] - matrix[:, :3, 3] + hold * near[part, :3]
        solved = np.linalg.solve(matrix[:, :3, :3] + hold * np.eye(3), right[..., None])
        result[part, :3] = solved[..., 0]
    return result

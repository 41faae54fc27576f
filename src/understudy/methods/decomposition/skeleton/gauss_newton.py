"""Rotations, root positions and joints for given weights: damped Gauss-Newton on the squared error.

The unknowns of each frame are a rotation vector o_a of every bone (R_a <- exp([o_a]) R_a) and the
root position; the joints are unknowns of all frames together. With x_ia = R_a g_ia (see
`articulation`), r_i the residual of vertex i and D_k = R_p(k) - R_k,

    dv_i = dposition + sum_a o_a x x_ia + sum_k W_ik D_k dc_k

With M_ab = sum_i x_ia x_ib^T = R_a S_ab R_b^T, the blocks of the normal equations are

    rotation a, rotation b   tr(M_ab) - M_ab^T
    rotation a, position     [sum_i x_ia]x
    position, position       number of vertices
    rotation a, joint k      [R_a sum_i W_ik g_ia]x D_k
    position, joint k        sum_i W_ik D_k
    joint k, joint l         sum_i W_ik W_il  sum over frames of D_k^T D_l

They contain only sums over the vertices, computed once for given weights, so the cost of a step
does not depend on the number of vertices. Frames are coupled through the joints alone. The unknowns
of each frame are eliminated first (Schur complement), which leaves one small system for the joints.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.geometry.transforms import cross_matrix, rotation_from_axis_angle
from understudy.methods.decomposition.skeleton.articulation import (
    Articulation,
    NormalEquations,
    joint_design,
)
from understudy.system import tasks

_FRAMES = 16  # eliminated at a time
_RIDGE = 1e-10  # of the mean diagonal; unknowns that nothing determines keep their values
_FIRST_DAMPING, _MIN_DAMPING, _MAX_DAMPING = 1e-4, 1e-7, 1e3


@dataclass(frozen=True, eq=False)
class JointPrior:
    """Adds sum_k strength_k |c_k - at_k|^2 to the error: at (B,3), strength (B,)."""

    at: np.ndarray
    strength: np.ndarray

    def cost(self, joints: np.ndarray) -> float:
        return float((self.strength * ((joints - self.at) ** 2).sum(axis=1)).sum())


def solve_articulation(
    equations: NormalEquations,
    pose: Articulation,
    prior: JointPrior,
    steps: int,
    min_gain: float = 1e-6,
) -> Articulation:
    """Return the articulation after at most `steps` steps, each of which lowers the error.

    min_gain   relative decrease of the error below which the steps end
    """
    cost = lambda pose: equations.error(pose.transforms()) + prior.cost(pose.joints)
    now, damping = cost(pose), _FIRST_DAMPING
    for _ in range(steps):
        system = _System(equations, pose, prior)
        while True:
            after = system.step(damping)
            value = cost(after)
            if value <= now:
                break
            damping *= 10
            if damping > _MAX_DAMPING:
                return pose
        gain, pose, now, damping = now - value, after, value, max(_MIN_DAMPING, 0.1 * damping)
        if gain < min_gain * now:
            break
    return pose


class _System:
    """The normal equations of a Gauss-Newton step about a pose."""

    def __init__(self, equations: NormalEquations, pose: Articulation, prior: JointPrior):
        bones = pose.tree.bones
        design = joint_design(pose.tree, pose.joints)
        sums = design.T @ equations.gram @ design
        one = 3 * bones  # the column of ones in `design`
        self.pose = pose
        self.products = sums[:one, :one]  # S
        self.means = sums[:one, one].reshape(bones, 3)  # sum_i g_ia
        self.vertex_count = sums[one, one]
        self.shares = sums[:one, one + 1 :].reshape(bones, 3, bones)  # sum_i g_ia W_ik
        self.weights = sums[one, one + 1 :]  # sum_i W_ik
        self.differences = pose.joint_rotations()  # D
        # The joint of the root only defines which point its position refers to.
        self.free = np.flatnonzero(pose.tree.parents >= 0)
        # Residuals, multiplied by each column of the design.
        rotations = pose.rotations.transpose(0, 2, 1, 3).reshape(pose.frames, 3, one)
        flat = np.concatenate([rotations, pose.root_position[:, :, None]], axis=2)
        self.residuals = equations.cross @ design - flat @ sums[: one + 1]
        columns = self.differences.transpose(0, 2, 1, 3).reshape(-1, one)
        shared = np.repeat(np.repeat(sums[one + 1 :, one + 1 :], 3, axis=0), 3, axis=1)
        self.joint_matrix = columns.T @ columns * shared + np.diag(np.repeat(prior.strength, 3))
        pull = np.einsum(
            "fkij,fik->kj", self.differences, self.residuals[:, :, one + 1 :], optimize=True
        )
        self.joint_right = pull - prior.strength[:, None] * (pose.joints - prior.at)

    def step(self, damping: float) -> Articulation:
        """Return the pose after one step with this Levenberg-Marquardt damping."""
        pose, bones = self.pose, self.pose.tree.bones
        parts = [
            slice(start, min(start + _FRAMES, pose.frames))
            for start in range(0, pose.frames, _FRAMES)
        ]
        eliminated = tasks.parallel_map(lambda part: self._eliminate(part, damping), parts)
        keep = (3 * self.free[:, None] + np.arange(3)).reshape(-1)
        matrix, right = self.joint_matrix[np.ix_(keep, keep)], self.joint_right.reshape(-1)[keep]
        matrix = matrix + damping * np.diag(np.diag(matrix))
        for coupling, solved in eliminated:
            reduced = np.einsum("fna,fnb->ab", coupling, solved, optimize=True)
            matrix, right = matrix - reduced[:, :-1], right - reduced[:, -1]
        joints = pose.joints.copy()
        moved = np.zeros(0)
        if len(keep):
            matrix = (matrix + matrix.T) / 2 + _RIDGE * (
                np.trace(self.joint_matrix) / len(keep) + 1e-300
            ) * np.eye(len(keep))
            moved = np.linalg.solve(matrix, right)
            joints[self.free] += moved.reshape(-1, 3)
        change = np.concatenate(
            [solved[..., -1] - solved[..., :-1] @ moved for _, solved in eliminated]
        )
        rotations = rotation_from_axis_angle(change[:, :-3].reshape(-1, bones, 3)) @ pose.rotations
        return Articulation(pose.tree, joints, rotations, pose.root_position + change[:, -3:])

    def _eliminate(self, part: slice, damping: float) -> tuple[np.ndarray, np.ndarray]:
        """Eliminate the n unknowns of some frames.

        Returns their coupling with the j joint unknowns (f,n,j), and the solutions for that
        coupling and for the right-hand side (f,n,j+1).
        """
        pose, bones = self.pose, self.pose.tree.bones
        rotations, residuals = pose.rotations[part], self.residuals[part]
        differences = self.differences[part][:, self.free]
        frames, size = len(rotations), 3 * bones + 3
        matrix = np.zeros((frames, size, size))
        rotated = np.matmul(rotations, self.products.reshape(bones, 3, -1)).reshape(
            frames, bones, 3, bones, 3
        )
        products = np.einsum("faibj,fbkj->faibk", rotated, rotations, optimize=True)  # M_ab
        blocks = -products.transpose(0, 1, 4, 3, 2)
        trace = np.einsum("faibi->fab", products)
        for axis in range(3):
            blocks[:, :, axis, :, axis] += trace
        matrix[:, :-3, :-3] = blocks.reshape(frames, 3 * bones, -1)
        lever = cross_matrix(np.einsum("faij,aj->fai", rotations, self.means)).reshape(
            frames, -1, 3
        )
        matrix[:, :-3, -3:], matrix[:, -3:, :-3] = lever, lever.transpose(0, 2, 1)
        matrix[:, -3:, -3:] = self.vertex_count * np.eye(3)
        diagonal = np.einsum("fii->fi", matrix)
        diagonal += damping * diagonal + _RIDGE * (diagonal.mean(axis=1, keepdims=True) + 1e-300)

        reach = cross_matrix(
            np.einsum("faij,ajk->faki", rotations, self.shares[:, :, self.free], optimize=True)
        )  # (f,a,k,3,3)
        coupling = np.empty((frames, size, 3 * len(self.free)))
        coupling[:, :-3] = np.einsum(
            "fakij,fkjl->faikl", reach, differences, optimize=True
        ).reshape(frames, 3 * bones, -1)
        coupling[:, -3:] = (
            (self.weights[self.free, None, None] * differences)
            .transpose(0, 2, 1, 3)
            .reshape(frames, 3, -1)
        )
        right = np.empty((frames, size))
        moment = np.einsum(
            "fiaj,fakj->faik",
            residuals[:, :, : 3 * bones].reshape(frames, 3, bones, 3),
            rotations,
            optimize=True,
        )  # sum_i r_i x_ia^T
        right[:, :-3] = np.stack(
            [moment[..., i, j] - moment[..., j, i] for i, j in ((2, 1), (0, 2), (1, 0))], axis=-1
        ).reshape(frames, -1)
        right[:, -3:] = residuals[:, :, 3 * bones]
        return coupling, np.linalg.solve(
            matrix, np.concatenate([coupling, right[..., None]], axis=2)
        )

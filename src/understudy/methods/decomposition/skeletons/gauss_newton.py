"""Rotations, the root's place and the joints together, for given weights: Gauss-Newton on the
squared error, damped where a step does not help.

Unknown in each frame are a turn o_a of every bone (R_a <- exp([o_a]) R_a) and the root's place, and
once for all frames the joints. With x_ia = R_a g_ia (see `articulation`), r_i what vertex i misses
and D_k = R_p(k) - R_k,

    dv_i = dplace + sum_a o_a x x_ia + sum_k W_ik D_k dc_k

so that the normal equations are, with M_ab = sum_i x_ia x_ib^T = R_a S_ab R_b^T,

    turn a, turn b      tr(M_ab) - M_ab^T           turn a, place    [sum_i x_ia]x          place,
                        place   the number of vertices
    turn a, joint k     [R_a sum_i W_ik g_ia]x D_k  place, joint k   sum_i W_ik D_k
    joint k, joint l    sum_i W_ik W_il  sum over frames of D_k^T D_l

Only sums over the vertices enter, taken once for the given weights: a step costs the same however
many vertices there are. Frames meet only in the joints, so each frame's unknowns are eliminated on
their own first (a Schur complement), and what is left is one small system.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.methods.decomposition import kernels
from understudy.methods.decomposition.skeletons.articulation import (
    Articulation,
    Moments,
    joint_arms,
)

_FRAMES = 16  # eliminated at a time
_RIDGE = 1e-10  # of the mean diagonal: what nothing determines stays where it is
_LEAST_DAMPING, _MOST_DAMPING = 1e-7, 1e3


@dataclass(frozen=True, eq=False)
class JointPrior:
    """Adds  sum_k strength_k |c_k - at_k|^2:  at (B,3), strength (B,)."""

    at: np.ndarray
    strength: np.ndarray

    def cost(self, joints: np.ndarray) -> float:
        return float((self.strength * ((joints - self.at) ** 2).sum(axis=1)).sum())


def refined(
    moments: Moments, pose: Articulation, prior: JointPrior, steps: int, least: float = 1e-6
) -> Articulation:
    """At most so many steps, each of which lowers the error; no more once they lower it by less
    than the share `least`.
    """
    cost = lambda pose: moments.error(pose.columns()) + prior.cost(pose.joints)
    now, damping = cost(pose), 1e-4
    for _ in range(steps):
        system = _System(moments, pose, prior)
        while True:
            after = system.stepped(damping)
            value = cost(after)
            if value <= now:
                break
            damping *= 10
            if damping > _MOST_DAMPING:
                return pose
        gain, pose, now, damping = now - value, after, value, max(_LEAST_DAMPING, 0.1 * damping)
        if gain < least * now:
            break
    return pose


class _System:
    """The normal equations about a pose."""

    def __init__(self, moments: Moments, pose: Articulation, prior: JointPrior):
        bones = pose.tree.bones
        arms = joint_arms(pose.tree, pose.joints)
        sums = arms.T @ moments.gram @ arms
        mark = 3 * bones
        self.pose = pose
        self.products = sums[:mark, :mark]  # S
        self.means = sums[:mark, mark].reshape(bones, 3)  # sum_i g_ia
        self.count = sums[mark, mark]
        self.shares = sums[:mark, mark + 1 :].reshape(bones, 3, bones)  # sum_i g_ia W_ik
        self.hinges = pose.hinges()
        self.free = np.flatnonzero(
            pose.tree.parents >= 0
        )  # the root's joint is but a name for its place
        self.weights = sums[mark, mark + 1 :]  # sum_i W_ik
        # What is missed, times each of the vertices' numbers
        flat = np.concatenate(
            [
                pose.turns.transpose(0, 2, 1, 3).reshape(pose.frames, 3, mark),
                pose.place[:, :, None],
            ],
            axis=2,
        )
        self.missed = moments.cross @ arms - flat @ sums[: mark + 1]
        columns = self.hinges.transpose(0, 2, 1, 3).reshape(-1, mark)
        shared = np.repeat(np.repeat(sums[mark + 1 :, mark + 1 :], 3, axis=0), 3, axis=1)
        self.joint_matrix = columns.T @ columns * shared + np.diag(np.repeat(prior.strength, 3))
        pull = np.einsum("fkij,fik->kj", self.hinges, self.missed[:, :, mark + 1 :], optimize=True)
        self.joint_right = pull - prior.strength[:, None] * (pose.joints - prior.at)

    def stepped(self, damping: float) -> Articulation:
        """The pose after a step."""
        pose, bones = self.pose, self.pose.tree.bones
        parts = [
            slice(start, min(start + _FRAMES, pose.frames))
            for start in range(0, pose.frames, _FRAMES)
        ]
        eliminated = kernels.mapped(lambda part: self._eliminated(part, damping), parts)
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
        turns = rotation_from_axis_angle(change[:, :-3].reshape(-1, bones, 3)) @ pose.turns
        return Articulation(pose.tree, joints, turns, pose.place + change[:, -3:])

    def _eliminated(self, part: slice, damping: float) -> tuple[np.ndarray, np.ndarray]:
        """Of some frames: how their unknowns meet the joints (f,n,j), and those unknowns solved for
        the joints and the right-hand side (f,n,j+1).
        """
        pose, bones = self.pose, self.pose.tree.bones
        turns, hinges, missed = pose.turns[part], self.hinges[part], self.missed[part]
        frames, size = len(turns), 3 * bones + 3
        matrix = np.zeros((frames, size, size))
        turned = np.matmul(turns, self.products.reshape(bones, 3, -1)).reshape(
            frames, bones, 3, bones, 3
        )
        seen = np.einsum("faibj,fbkj->faibk", turned, turns, optimize=True)  # M_ab
        blocks = -seen.transpose(0, 1, 4, 3, 2)
        trace = np.einsum("faibi->fab", seen)
        for axis in range(3):
            blocks[:, :, axis, :, axis] += trace
        matrix[:, :-3, :-3] = blocks.reshape(frames, 3 * bones, -1)
        lever = _skew(np.einsum("faij,aj->fai", turns, self.means)).reshape(frames, -1, 3)
        matrix[:, :-3, -3:], matrix[:, -3:, :-3] = lever, lever.transpose(0, 2, 1)
        matrix[:, -3:, -3:] = self.count * np.eye(3)
        diagonal = np.einsum("fii->fi", matrix)
        diagonal += damping * diagonal + _RIDGE * (diagonal.mean(axis=1, keepdims=True) + 1e-300)

        hinges = hinges[:, self.free]
        reach = _skew(
            np.einsum("faij,ajk->faki", turns, self.shares[:, :, self.free], optimize=True)
        )  # (f,a,k,3,3)
        coupling = np.empty((frames, size, 3 * len(self.free)))
        coupling[:, :-3] = np.einsum("fakij,fkjl->faikl", reach, hinges, optimize=True).reshape(
            frames, 3 * bones, -1
        )
        coupling[:, -3:] = (
            (self.weights[self.free, None, None] * hinges)
            .transpose(0, 2, 1, 3)
            .reshape(frames, 3, -1)
        )
        right = np.empty((frames, size))
        moment = np.einsum(
            "fiaj,fakj->faik",
            missed[:, :, : 3 * bones].reshape(frames, 3, bones, 3),
            turns,
            optimize=True,
        )  # sum_i r_i x_ia^T
        right[:, :-3] = np.stack(
            [moment[..., i, j] - moment[..., j, i] for i, j in ((2, 1), (0, 2), (1, 0))], axis=-1
        ).reshape(frames, -1)
        right[:, -3:] = missed[:, :, 3 * bones]
        return coupling, np.linalg.solve(
            matrix, np.concatenate([coupling, right[..., None]], axis=2)
        )


def _skew(vectors: np.ndarray) -> np.ndarray:
    """[v]x of (...,3): (...,3,3)."""
    x, y, z = np.moveaxis(vectors, -1, 0)
    zero = np.zeros_like(x)
    return np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1).reshape(*x.shape, 3, 3)

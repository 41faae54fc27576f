"""Bones that hang together: every bone turns about one point fixed in its parent, and the root may
also move.

With R_b the rotation of bone b in the world, p(b) its parent and c_b its joint (both at rest), T_b
c_b = T_p(b) c_b in every frame, hence

    T_b x = R_b x + s_b,    s_b = s_p(b) + (R_p(b) - R_b) c_b,    s_root = place - R_root c_root

and a vertex blended with weights w_ib, W_ik being what bone k and everything below it have of
vertex i, is linear in the rotations:

    v_i = place + sum_a R_a g_ia,    g_ia = w_ia rest_i - W_ia c_a + sum over children k of a of
                                     W_ik c_k
        = place + sum_a R_a w_ia rest_i + sum_k W_ik (R_p(k) - R_k) c_k          (R_p(root) = 0)

so everything a fit needs of the vertices are sums of products: `Moments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from understudy.methods.decomposition import kernels
from understudy.methods.decomposition.alternating_solve import Fit
from understudy.methods.decomposition.motion import Motion


@dataclass(frozen=True, eq=False)
class Tree:
    """parents (B,) in any order, -1 for the one root.

    >>> Tree(np.array([1, -1, 0])).below.astype(int).tolist()
    [[1, 0, 1], [1, 1, 1], [0, 0, 1]]
    """

    parents: np.ndarray

    @property
    def bones(self) -> int:
        return len(self.parents)

    @cached_property
    def root(self) -> int:
        return int(np.flatnonzero(self.parents < 0)[0])

    @cached_property
    def below(self) -> np.ndarray:
        """(B,B) bool: [k, b] where b is k or hangs below it."""
        reach = np.eye(self.bones, dtype=bool)
        at = self.parents.copy()
        while (at >= 0).any():
            rows = np.flatnonzero(at >= 0)
            reach[at[rows], rows] = True
            at[rows] = self.parents[at[rows]]
        return reach

    def rooted_at(self, root: int) -> Tree:
        """The same tree hung up at another bone."""
        parents, at, above = self.parents.copy(), root, -1
        while at >= 0:
            parents[at], at, above = above, parents[at], at
        return Tree(parents)


@dataclass(frozen=True, eq=False)
class Articulation:
    """The pose of a tree in F frames.

    joints  (B,3) at rest; the root's is the point that `place` says the place of
    turns   (F,B,3,3) rotations in the world
    place   (F,3)
    """

    tree: Tree
    joints: np.ndarray
    turns: np.ndarray
    place: np.ndarray

    @property
    def frames(self) -> int:
        return len(self.turns)

    def transforms(self) -> np.ndarray:
        """World from rest, (F,B,3,4)."""
        arms = np.einsum("fbij,bj->fbi", self.hinges(), self.joints)
        shift = (
            np.einsum("kb,fki->fbi", self.tree.below.astype(float), arms, optimize=True)
            + self.place[:, None]
        )
        return np.concatenate([self.turns, shift[..., None]], axis=-1)

    def hinges(self) -> np.ndarray:
        """R_p(b) - R_b, (F,B,3,3)."""
        above = self.turns[:, self.tree.parents]
        above[:, self.tree.root] = 0
        return above - self.turns

    def rooted_at(self, root: int, point: np.ndarray) -> Articulation:
        """The same motion with another bone as the root, whose `place` is that of `point` (3,)."""
        tree = self.tree.rooted_at(root)
        turned = (tree.parents != self.tree.parents) & (
            tree.parents >= 0
        )  # bones that now hang on what hung on them
        joints = self.joints.copy()
        joints[turned] = self.joints[tree.parents[turned]]
        joints[root] = point
        bone = self.transforms()[:, root]
        return Articulation(tree, joints, self.turns, bone[..., :3] @ point + bone[..., 3])

    def links(self) -> list[Link]:
        return [
            Link(int(bone), int(self.tree.parents[bone]), self.joints[bone])
            for bone in np.flatnonzero(self.tree.parents >= 0)
        ]

    def columns(self) -> np.ndarray:
        """(3F,4B): all bones side by side, as `decomposition` has them."""
        return np.ascontiguousarray(self.transforms().transpose(0, 2, 1, 3)).reshape(
            3 * self.frames, -1
        )


@dataclass(frozen=True, eq=False)
class Link:
    """Two bones that share a point (3,) at rest."""

    one: int
    two: int
    point: np.ndarray


def hung(links: Sequence[Link], transforms: np.ndarray, root: int = 0) -> Articulation:
    """Bones (F,B,3,4) world from rest on the tree of these links: the root goes where it went, the
    others turn as they did.
    """
    bones = transforms.shape[1]
    parents, joints, reached = np.full(bones, -1), np.zeros((bones, 3)), [root]
    for bone in reached:
        for link in links:
            other = link.two if link.one == bone else link.one if link.two == bone else bone
            if other != bone and other not in reached:
                parents[other], joints[other] = bone, link.point
                reached.append(other)
    return Articulation(
        Tree(parents),
        joints,
        np.ascontiguousarray(transforms[..., :3]),
        np.ascontiguousarray(transforms[:, root, :, 3]),
    )


@dataclass(frozen=True, eq=False)
class Moments:
    """The vertices of a fit, summed up: gram (4B,4B) and cross (F,3,4B) of the design w_ib [rest_i,
    1]; square, the sum of |target|^2.
    """

    gram: np.ndarray
    cross: np.ndarray
    square: float

    @staticmethod
    def of(motion: Motion, fit: Fit) -> Moments:
        gram, cross = kernels.normal_equations(
            motion.rest, fit.index, fit.weight, motion.targets, fit.bones
        )
        return Moments(
            gram,
            np.ascontiguousarray(cross.T).reshape(-1, 3, 4 * fit.bones),
            float(motion.square.sum()),
        )

    def error(self, columns: np.ndarray) -> float:
        """The squared error of bones (3F,4B)."""
        return self.square + float(self.frame_errors(columns).sum())

    def frame_errors(self, columns: np.ndarray) -> np.ndarray:
        """(F,): each frame's squared error, less the square of its targets."""
        return (
            (columns * (columns @ self.gram - 2 * self.cross.reshape(columns.shape)))
            .reshape(len(self.cross), -1)
            .sum(axis=1)
        )


def joint_arms(tree: Tree, joints: np.ndarray) -> np.ndarray:
    """(4B, 3B+1+B): takes a vertex's row w_ib [rest_i, 1] to its g_ia, a one, and its W_ik."""
    bones = tree.bones
    below = tree.below.astype(float)  # [k, b]
    result = np.zeros((bones, 4, 4 * bones + 1))
    every = np.arange(bones)
    result[every[:, None], np.arange(3), 3 * every[:, None] + np.arange(3)] = 1
    arms = -below.T[:, :, None] * joints  # [b, a]: - [b below a] c_a
    child = np.flatnonzero(tree.parents >= 0)
    np.add.at(arms, (slice(None), tree.parents[child]), below[child].T[:, :, None] * joints[child])
    result[:, 3, : 3 * bones] = arms.reshape(bones, -1)
    result[:, 3, 3 * bones] = 1
    result[:, 3, 3 * bones + 1 :] = below.T
    return result.reshape(4 * bones, -1)

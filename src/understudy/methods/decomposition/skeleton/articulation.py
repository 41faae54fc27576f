"""A skeleton in motion: every bone rotates about a joint fixed in its parent; the root also moves.

Let R_b be the rotation of bone b in the world, p(b) its parent and c_b its joint at rest. Both
bones take the joint to the same point, T_b c_b = T_p(b) c_b, in every frame. Hence

    T_b x = R_b x + s_b,    s_b = s_p(b) + (R_p(b) - R_b) c_b,    s_root = position - R_root c_root

where `position` is where the root's joint is. Let W_ik be the sum of the weights of vertex i over
bone k and all its descendants. A blended vertex is linear in the rotations:

    v_i = position + sum_a R_a g_ia
        = position + sum_a R_a w_ia rest_i + sum_k W_ik (R_p(k) - R_k) c_k          (R_p(root) = 0)
    g_ia = w_ia rest_i - W_ia c_a + sum over children k of a of W_ik c_k

The vertices therefore enter a fit only through sums of products: `NormalEquations`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from understudy.methods.decomposition.solve import kernels
from understudy.methods.decomposition.solve.motion import Fit, Motion


@dataclass(frozen=True, eq=False)
class Tree:
    """A hierarchy of bones: parents (B,) in any order, -1 for the only root.

    >>> Tree(np.array([1, -1, 0])).descends.astype(int).tolist()
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
    def descends(self) -> np.ndarray:
        """(B,B) bool: [k, b] is true where b is k or a descendant of k."""
        reach = np.eye(self.bones, dtype=bool)
        ancestor = self.parents.copy()
        while (ancestor >= 0).any():
            rows = np.flatnonzero(ancestor >= 0)
            reach[ancestor[rows], rows] = True
            ancestor[rows] = self.parents[ancestor[rows]]
        return reach

    def rooted_at(self, root: int) -> Tree:
        """Return the same tree with another root."""
        parents, bone, parent = self.parents.copy(), root, -1
        while bone >= 0:
            parents[bone], bone, parent = parent, parents[bone], bone
        return Tree(parents)

    def path(self, start: int, end: int) -> list[int]:
        """Return the bones on the way from one bone to another, both included.

        >>> Tree(np.array([-1, 0, 1, 0])).path(2, 3)
        [2, 1, 0, 3]
        """
        way, parents = [end], self.rooted_at(start).parents
        while way[-1] != start:
            way.append(int(parents[way[-1]]))
        return way[::-1]

    def rooted_joints(self, joints: np.ndarray, root: int, point: np.ndarray) -> np.ndarray:
        """Return the joints (B,3) of the same tree with another root, whose joint is `point`."""
        tree, result = self.rooted_at(root), joints.copy()
        turned = (tree.parents != self.parents) & (tree.parents >= 0)
        result[turned] = joints[tree.parents[turned]]
        result[root] = point
        return result


@dataclass(frozen=True, eq=False)
class Articulation:
    """The poses of a tree of bones in F frames.

    tree           the hierarchy
    joints         (B,3) at rest; the joint of the root is the point whose positions are
                   `root_position`
    rotations      (F,B,3,3) in the world
    root_position  (F,3)
    """

    tree: Tree
    joints: np.ndarray
    rotations: np.ndarray
    root_position: np.ndarray

    @property
    def frames(self) -> int:
        return len(self.rotations)

    def world_from_rest(self) -> np.ndarray:
        """Return the transforms of all bones, (F,B,3,4)."""
        steps = np.einsum("fbij,bj->fbi", self.joint_rotations(), self.joints)
        below = self.tree.descends.astype(float)
        translation = (
            np.einsum("kb,fki->fbi", below, steps, optimize=True) + self.root_position[:, None]
        )
        return np.concatenate([self.rotations, translation[..., None]], axis=-1)

    def transforms(self) -> np.ndarray:
        """Return the transforms as the solver stores them, (3F,4B)."""
        return np.ascontiguousarray(self.world_from_rest().transpose(0, 2, 1, 3)).reshape(
            3 * self.frames, -1
        )

    def joint_rotations(self) -> np.ndarray:
        """Return R_p(b) - R_b (F,B,3,3), the derivative of a vertex by the joint of bone b."""
        parent = self.rotations[:, self.tree.parents]
        parent[:, self.tree.root] = 0
        return parent - self.rotations


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """The vertices of a fit, summed over the design matrix X_i = [w_ib [rest_i, 1]]_b.

    gram    (4B,4B), X^T X
    cross   (F,3,4B), Y^T X
    square  sum of the squared targets
    """

    gram: np.ndarray
    cross: np.ndarray
    square: float

    @staticmethod
    def of(motion: Motion, fit: Fit) -> NormalEquations:
        gram, cross = kernels.normal_equations(
            motion.rest, fit.index, fit.weight, motion.targets, fit.bones
        )
        by_frame = np.ascontiguousarray(cross.T).reshape(-1, 3, 4 * fit.bones)
        return NormalEquations(gram, by_frame, float(motion.square.sum()))

    def error(self, transforms: np.ndarray) -> float:
        """Return the squared error of transforms (3F,4B)."""
        cross = self.cross.reshape(transforms.shape)
        products = transforms * (transforms @ self.gram - 2 * cross)
        return self.square + float(products.reshape(len(self.cross), -1).sum(axis=1).sum())


def joint_design(tree: Tree, joints: np.ndarray) -> np.ndarray:
    """Return a matrix (4B, 3B+1+B) from the design matrix to the terms of an articulation.

    A row w_ib [rest_i, 1] of the design matrix becomes g_ia (3B), a one, and W_ik (B).
    """
    bones = tree.bones
    below = tree.descends.astype(float)  # [k, b]
    result = np.zeros((bones, 4, 4 * bones + 1))
    every = np.arange(bones)
    result[every[:, None], np.arange(3), 3 * every[:, None] + np.arange(3)] = 1
    levers = -below.T[:, :, None] * joints  # [b, a]: -c_a where b descends from a
    child = np.flatnonzero(tree.parents >= 0)
    to_children = below[child].T[:, :, None] * joints[child]
    np.add.at(levers.transpose(1, 0, 2), tree.parents[child], to_children.transpose(1, 0, 2))
    result[:, 3, : 3 * bones] = levers.reshape(bones, -1)
    result[:, 3, 3 * bones] = 1
    result[:, 3, 3 * bones + 1 :] = below.T
    return result.reshape(4 * bones, -1)


@dataclass(frozen=True, eq=False)
class JoinedFit:
    """Bones with joints between them, as both ways to find a skeleton return them.

    tree    the hierarchy
    joints  (B,3) at rest, in the solver's units
    fit     transforms (3F,4B), weights and errors
    rest    (V,4) homogeneous rest shape
    errors  squared errors after each of the last iterations
    """

    tree: Tree
    joints: np.ndarray
    fit: Fit
    rest: np.ndarray
    errors: tuple[float, ...]

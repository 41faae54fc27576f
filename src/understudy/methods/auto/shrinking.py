"""Smaller deformers made of one that is trained: without some of its components.

A component is a column of a basis and the output of a network that drives it. Those that move the
vertices least are left out; their mean goes to the mean displacement. Nothing is trained again, so
one fit gives deformers of many sizes.

With var(c_j) the variance of coefficient j over the poses and U_j its columns, a component moves
the vertices by

    d_j^2 = var(c_j) |U_j|^2 / V                            mean square distance per vertex

Letters: T poses, V vertices, N coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from understudy.core.deformer import Deformer
from understudy.core.networks import Basis
from understudy.core.poses import Poses, evenly
from understudy.methods.correctives.guard import with_bases
from understudy.runtime.reference import coefficients_of, pose_readings

_POSES = 200


@dataclass(frozen=True, eq=False)
class Components:
    """What the components of a deformer contribute.

    mean   (N,) mean of each coefficient
    owner  (N,) the component of each coefficient; a basis that x, y and z share has three for each
    moved  (U,) d^2 of each component
    order  (U,) the components, those that move the vertices least for their bytes first
    """

    mean: np.ndarray
    owner: np.ndarray
    moved: np.ndarray
    order: np.ndarray

    @staticmethod
    def of(deformer: Deformer, poses: Poses) -> Components:
        """The components of a deformer over some of the poses that it was fitted to."""
        some = poses.take(evenly(poses.pose_count, _POSES))
        readings = pose_readings(deformer, some.world_from_bone, some.controls)
        coefficients = coefficients_of(deformer, readings)
        count = coefficients.shape[1]
        variance = coefficients.var(axis=0, dtype=np.float64)
        links = [np.zeros((2, 0), int)]
        square, size = np.zeros(count), np.ones(count)
        for basis in deformer.bases:
            column = np.square(basis.matrix, dtype=np.float64).sum(axis=0)
            rows = np.atleast_2d(basis.coefficients)
            for row in rows:
                np.add.at(square, row, column)
                np.add.at(size, row, len(basis.matrix) / len(rows))
                links.append(np.stack([rows[0], row]))
        pairs = np.concatenate(links, axis=1)
        graph = sp.coo_matrix((np.ones(pairs.shape[1]), pairs), shape=(count, count))
        number, owner = connected_components(graph, directed=False)
        moved = np.bincount(owner, variance * square, number) / deformer.mesh.vertex_count
        order = np.argsort(moved / np.bincount(owner, size, number), kind="stable")
        return Components(coefficients.mean(axis=0, dtype=np.float64), owner, moved, order)

    @property
    def count(self) -> int:
        """U."""
        return len(self.moved)

    def number_within(self, distance: float) -> int:
        """How many components can be left out if the vertices may move by `distance`."""
        sums = np.cumsum(self.moved[self.order])
        return int(np.searchsorted(sums, distance**2, side="right"))

    def without(self, deformer: Deformer, number: int) -> Deformer:
        """`deformer` without the first `number` components of `order`."""
        if not number:
            return deformer
        left_out = np.zeros(self.count, bool)
        left_out[self.order[:number]] = True
        gone = left_out[self.owner]
        shift = np.zeros((deformer.mesh.vertex_count, 3))
        bases = []
        for basis in deformer.bases:
            columns = gone[np.atleast_2d(basis.coefficients)[0]]
            still = self.mean[basis.coefficients[..., columns]]
            moved = basis.matrix[:, columns].astype(np.float64) @ still.T
            shift[basis.vertices] += moved.reshape(len(basis.vertices), 3)
            if not columns.all():
                kept = basis.matrix[:, ~columns]
                bases.append(Basis(basis.vertices, kept, basis.coefficients[..., ~columns]))
        mean = shift if deformer.mean is None else deformer.mean + shift
        return replace(with_bases(deformer, bases), mean=mean.astype(np.float32))

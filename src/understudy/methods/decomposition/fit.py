"""`Fit`: transforms and skin weights that reproduce a motion, while it is being solved for.

The weight step as data is here too. With the transforms M fixed, every vertex i has a problem of
its own:

    minimise  |sum_b w_b M_b v~_i - y_i|^2
    subject to  w >= 0,  sum_b w_b = 1,  at most K weights above zero

The bones of a vertex (its support) are a discrete choice. `WeightSearch` limits how many exchanges
of bones are tried. `kernels.solve_weights` solves all vertices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from understudy.methods.decomposition.motion import Motion


@dataclass(eq=False)
class Fit:
    """Transforms, skin weights and their error.

    transforms     (R,4B) the 4-column blocks of all bones side by side; row r of block b takes a
                   homogeneous rest position to row r of the motion
    index          (V,K) int32, the bones of each vertex
    weight         (V,K) float64, non-negative, summing to one; unused places have weight zero
    vertex_errors  (V,) squared error of each vertex
    """

    transforms: np.ndarray
    index: np.ndarray
    weight: np.ndarray
    vertex_errors: np.ndarray

    @property
    def bones(self) -> int:
        return self.transforms.shape[1] // 4

    @property
    def error(self) -> float:
        """Total squared error."""
        return float(self.vertex_errors.sum())


def predict(motion: Motion, fit: Fit) -> np.ndarray:
    """Return the positions (V,R) that the fit gives the vertices of `motion`."""
    design = np.zeros((motion.vertex_count, fit.bones, 4))
    rows = np.arange(motion.vertex_count)
    for k in range(fit.index.shape[1]):
        design[rows, fit.index[:, k]] += fit.weight[:, k, None] * motion.rest
    return design.reshape(motion.vertex_count, -1) @ fit.transforms.T


def with_exact_errors(motion: Motion, fit: Fit) -> Fit:
    """Return the fit with its errors on `motion`, with all its rows."""
    return replace(fit, vertex_errors=((motion.targets - predict(motion, fit)) ** 2).sum(axis=1))


def dense_weights(fit: Fit) -> np.ndarray:
    """Return the weights as a matrix (V,B)."""
    result = np.zeros((len(fit.index), fit.bones))
    np.add.at(result, (np.arange(len(result))[:, None], fit.index), fit.weight)
    return result


def single_bone_fit(motion: Motion, bone: np.ndarray, bones: int) -> Fit:
    """Return a fit with zero transforms of `bones` bones; vertex i follows bone[i] (V,) alone."""
    return Fit(
        np.zeros((motion.rows, 4 * bones)),
        np.ascontiguousarray(bone, np.int32)[:, None],
        np.ones((motion.vertex_count, 1)),
        motion.square,
    )


@dataclass(frozen=True, eq=False)
class WeightProblem:
    """Transforms and positions that the weights are solved for.

    rest        (V,4) homogeneous rest positions
    targets     (V,R) positions to reproduce
    square      (V,) squared length of each row of `targets`
    transforms  (R,4B) of all bones side by side
    allowed     (V,B) bool, the bones that each vertex may use, at least one; None: all
    """

    rest: np.ndarray
    targets: np.ndarray
    square: np.ndarray
    transforms: np.ndarray
    allowed: np.ndarray | None = None

    @property
    def vertex_count(self) -> int:
        return len(self.rest)

    @property
    def bones(self) -> int:
        return self.transforms.shape[1] // 4

    def part(self, vertices: slice) -> WeightProblem:
        """Return the problem of some vertices."""
        return WeightProblem(
            self.rest[vertices],
            self.targets[vertices],
            self.square[vertices],
            self.transforms,
            None if self.allowed is None else self.allowed[vertices],
        )


@dataclass(frozen=True)
class WeightSearch:
    """How thoroughly the bones of each vertex are searched.

    influences  K, the largest number of bones per vertex; None: all bones
    candidates  bones that compete to enter a support in one exchange
    exchanges   largest number of exchanges
    from_all    also reduce the optimal weights over all bones to K bones, and keep the better
    """

    influences: int | None = 4
    candidates: int = 2
    exchanges: int = 3
    from_all: bool = False

    def places(self, bones: int) -> int:
        """Return the number of weights per vertex for so many bones."""
        return bones if self.influences is None else min(self.influences, bones)

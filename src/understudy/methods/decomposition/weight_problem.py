"""The weight step of the alternating solve, as data: what to minimise and how hard to search.

With the transforms M fixed, every vertex i has its own problem

    minimise  |sum_b w_b M_b v~_i - y_i|^2
    subject to  w >= 0,  sum_b w_b = 1,  at most K weights above zero

The bones of a vertex (its support) are a discrete choice. `WeightSearch` limits how many exchanges
of bones are tried. `kernels.solve_weights` solves all vertices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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

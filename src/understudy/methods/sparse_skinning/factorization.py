"""Sparse weight matrix factorisation W ~ D A: Algorithm 1 of the two-layer paper.

Paper: Le & Deng 2013. `two_layer.py` states the problem and the departures. This file holds the
outer loop; the loops over vertices are compiled (`native/two_layer.cpp`), with the lines of
Algorithm 1 as methods:

    initialize                      lines 1 and 2, two atoms
    add_atoms                       lines 4 to 8, atoms at the vertices with the largest error
                                    (Eq. 2)
    update_dictionary_from_weights  line 10 (Eq. 5)
    update_coefficients             lines 11 to 13, Algorithm 2 from every vertex (Eq. 6)
    update_dictionary               not in the paper: line 10, exact for the objective
    search_neighbourhood            not in the paper: all pairs of atoms used around a vertex
    relocate                        not in the paper: the least useful atoms move to the worst
                                    vertices

An `Objective` says what D A approximates, weights or example poses, in one form: the residual of
vertex i is x_i(w) = sum_b w_b A_b u_i - y_i. See `native/two_layer.h`.

Fair residuals (not in the paper). Vertices choose their atoms one by one, so their errors are
independent of each other, which shows as a rough surface. With smoothness mu and the Laplacian L of
the mesh, whose edges weigh one over the larger degree of their ends, the last updates minimise

    |x|^2 + mu <x, L x>

exactly: a vertex with the residuals of its neighbours fixed, an atom with all its vertices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from understudy.core.mesh import Mesh
from understudy.geometry.adjacency import connected_components
from understudy.geometry.error_norms import weight_error
from understudy.methods.compiled import compiled_part
from understudy.methods.sparse_skinning.config import TwoLayerConfig
from understudy.methods.sparse_skinning.dense import Examples, mesh_adjacency
from understudy.system.progress import SILENT, Progress

_CONVERGED = 1e-4  # relative decrease of the error over a relocation below which the fit ends
_RELOCATED = 0.05  # fraction of the atoms that are relocated at a time
_RELOCATION_PERIOD = 4  # joint updates from one relocation to the next, and to judge one
_FAIR_UPDATES = 30  # largest number of joint updates with fair residuals
_FAIR_CONVERGED = 1e-3  # relative decrease of their value below which they end
_FAR = 5  # times as many vertices around a vertex are searched after a relocation


@dataclass(frozen=True, eq=False)
class Objective:
    """What D A should approximate.

    point    (V,p) u
    target   (V,q) y
    bones    (B,p,q) the transposes of A_b
    measure  the reported error, in thousandths, of weights (V,B)
    """

    point: np.ndarray
    target: np.ndarray
    bones: np.ndarray
    measure: Callable[[np.ndarray], float]

    @staticmethod
    def weights(weights: np.ndarray) -> Objective:
        """The weights (V,B) themselves: Delta_W of Eq. 1a."""
        count, bones = weights.shape
        return Objective(
            np.ones((count, 1)),
            weights,
            np.eye(bones)[:, None, :],
            lambda product: (
                1000.0 * weight_error(float(np.sum((product - weights) ** 2)), weights.size)
            ),
        )

    @staticmethod
    def examples(
        examples: Examples, weights: np.ndarray, importance: np.ndarray | None = None
    ) -> Objective:
        """Example poses: Delta_E of Eq. 7, the error E above that of the dense weights.

        weights     (V,B) dense weights
        importance  (V,) factor of the residual of each vertex; None: one
        """
        least = examples.squared_error(weights)
        scale = np.ones((len(weights), 1)) if importance is None else importance[:, None]

        def measure(product: np.ndarray) -> float:
            above = max(0.0, examples.squared_error(product) - least)
            return 1000.0 * float(np.sqrt(above / examples.value_count))

        return Objective(examples.point * scale, examples.target * scale, examples.bones, measure)


@dataclass(frozen=True, eq=False)
class Factors:
    """The factors D and A.

    dictionary   (m,B) one atom per row: D transposed
    index        (V,s) int32 atoms of each vertex
    coefficient  (V,s) their coefficients: the non-zero entries of the columns of A
    history      the measure after every outer iteration
    """

    dictionary: np.ndarray
    index: np.ndarray
    coefficient: np.ndarray
    history: tuple[float, ...] = ()

    def weights(self) -> np.ndarray:
        """The product D A as weights (V,B)."""
        return np.einsum("vs,vsb->vb", self.coefficient, self.dictionary[self.index])


def factorize(
    objective: Objective,
    weights: np.ndarray,
    mesh: Mesh,
    config: TwoLayerConfig,
    *,
    atoms: int,
    per_atom: int,
    smoothness: float = 0.0,
    progress: Progress = SILENT,
) -> Factors:
    """The factors D and A of Algorithm 1.

    weights     (V,B) dense weights, rows summing to one; new atoms are copies of their rows
    atoms       largest number of atoms (virtual bones), Sigma
    per_atom    bones per atom, c
    smoothness  mu of the fair residuals; 0: none
    """
    solver = _Solver(objective, weights, mesh, config, per_atom)
    core = solver.core
    core.initialize(min(2, atoms))
    history = [solver.measure()]
    with progress.task("virtual bones", atoms + config.finish) as task:
        task.advance(core.atoms())
        while core.atoms() < atoms and not _reached(history[-1], config):
            added = _kappa(history[-1], core.atoms(), atoms, config)
            core.add_atoms(added)
            for _ in range(config.rounds):
                solver.joint_update()
            history.append(solver.measure())
            task.advance(added)
            task.note(f"{core.atoms()} at {history[-1]:.3g}")
        task.advance(atoms - core.atoms())
        for number in range(config.finish):
            before = core.value()
            relocates = config.relocate and number % _RELOCATION_PERIOD == 0
            if relocates and core.atoms() > 2:
                solver.relocate()
            else:
                solver.joint_update()
            history.append(solver.measure())
            task.advance()
            task.note(f"{core.atoms()} at {history[-1]:.3g}")
            judged = relocates or not config.relocate
            if core.value() >= before * (1 - 2 * _CONVERGED) and judged and number:
                break
        if smoothness:
            fair = _Solver(objective, weights, mesh, config, per_atom, smoothness)
            fair.core.restore(*core.state())
            for _ in range(_FAIR_UPDATES):
                before = fair.core.value()
                fair.joint_update()
                history.append(fair.measure())
                if fair.core.value() >= before * (1 - _FAIR_CONVERGED):
                    break
            # Fair residuals are larger: a threshold that was reached stays reached.
            if not (_reached(solver.measure(), config) and not _reached(history[-1], config)):
                core = fair.core
    dictionary, index, coefficient = core.state()
    return Factors(dictionary, index[solver.back], coefficient[solver.back], tuple(history))


class _Solver:
    """The compiled factorisation, and what one joint update of its factors is."""

    def __init__(
        self,
        objective: Objective,
        weights: np.ndarray,
        mesh: Mesh,
        config: TwoLayerConfig,
        per_atom: int,
        smoothness: float = 0.0,
    ):
        # By rest position, vertices are visited in an order that does not depend on their numbers.
        spatial = config.order == "spatial"
        order = np.lexsort(mesh.vertices.T) if spatial else np.arange(mesh.vertex_count)
        graph = mesh_adjacency(mesh)[order][:, order].tocsr()
        graph.sort_indices()
        shells = connected_components(graph)
        self.config = config
        self.objective, self.back = objective, np.argsort(order)
        limit = math.inf if config.max_coefficient is None else config.max_coefficient
        self.core: Any = compiled_part("sparse_skinning._two_layer").Factorization(
            point=np.ascontiguousarray(objective.point[order], np.float32),
            target=np.ascontiguousarray(objective.target[order], np.float32),
            bones=np.ascontiguousarray(objective.bones, np.float64),
            weights=np.ascontiguousarray(weights[order], np.float64),
            starts=graph.indptr.astype(np.int64),
            neighbours=graph.indices.astype(np.int32),
            shells=shells if config.every_shell else np.zeros_like(shells),
            per_vertex=config.virtual_per_vertex,
            per_atom=per_atom,
            max_coefficient=limit,
            keep_largest=config.pruning == "largest",
            coupling=_coupling(graph, smoothness) if smoothness else None,
        )

    def measure(self) -> float:
        """The reported error of the present factors."""
        return self.objective.measure(Factors(*self.core.state()).weights()[self.back])

    def joint_update(self, reach: int | None = None) -> None:
        """Lines 10 to 13 of Algorithm 1, and a search of `reach` vertices; None: by the config."""
        core, config = self.core, self.config
        before, state = core.value(), core.state()
        if config.dictionary == "exact":
            core.update_dictionary()
        else:
            core.update_dictionary_from_weights()
        core.update_coefficients()
        if config.reach:
            core.search_neighbourhood(reach or config.reach)
        if config.undo and not core.value() <= before:
            core.restore(*state)

    def relocate(self) -> None:
        """Relocate the least useful atoms; undone if joint updates do not lower the value."""
        before, state = self.core.value(), self.core.state()
        self.core.relocate(_RELOCATED)
        for number in range(_RELOCATION_PERIOD):
            self.joint_update(None if number else _FAR * self.config.reach)
        if not self.core.value() <= before:
            self.core.restore(*state)


def _coupling(graph: sp.csr_matrix, smoothness: float) -> np.ndarray:
    """The weight of each entry of the graph, in the order of its indices: float32."""
    degree = np.diff(graph.indptr)
    own, other = np.repeat(degree, degree), degree[graph.indices]
    return (smoothness / np.maximum(own, other)).astype(np.float32)


def _reached(measure: float, config: TwoLayerConfig) -> bool:
    """Whether the error threshold (line 15 of Algorithm 1) is reached."""
    return config.error is not None and measure <= config.error


def _kappa(measure: float, atoms: int, most: int, config: TwoLayerConfig) -> int:
    """The number of atoms to add: kappa of Eq. 3, at most `config.kappa` times the present ones."""
    most -= atoms
    if config.kappa is not None:
        most = min(most, max(1, int(config.kappa * atoms)))
    if config.error is not None:
        most = min(most, int((measure / config.error - 1) * atoms) + 1)
    return most

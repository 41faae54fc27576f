"""Sparse weight matrix factorisation W ~ D A: Algorithm 1 of the two-layer paper.

Paper: Le & Deng 2013. `two_layer.py` states the problem and the departures. This file holds the
outer loop; the loops over vertices are compiled (`native/two_layer.cpp`), with the lines of
Algorithm 1 as methods:

    initialize             lines 1 and 2, two atoms
    add_atoms              lines 4 to 8, atoms at the vertices with the largest error (Eq. 2)
    update_dictionary      line 10 (Eq. 5)
    update_coefficients    lines 11 to 13, Algorithm 2 from every vertex (Eq. 6)
    search_neighbourhood   not in the paper: all pairs of atoms used around a vertex
    relocate               not in the paper: the least useful atoms move to the worst vertices

An `Objective` says what D A approximates, weights or example poses, in one form: the residual of
vertex i is x_i(w) = sum_b w_b A_b u_i - y_i. See `native/two_layer.h`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp

from understudy.core.errors import MissingDependencyError
from understudy.core.progress import SILENT, Progress
from understudy.geometry.adjacency import connected_components
from understudy.geometry.error_norms import weight_error
from understudy.methods.sparse_skinning.examples import Examples

compiled: ModuleType | None
try:
    compiled = import_module("understudy.methods.sparse_skinning._two_layer")
except ImportError:  # installed without a compiler
    compiled = None

_CONVERGED = 1e-4  # relative decrease of the error over a relocation below which the fit ends
_RELOCATED = 0.05  # fraction of the atoms that are relocated at a time
_RELOCATION_PERIOD = 4  # joint updates from one relocation to the next, and to judge one
# Vertices around a vertex whose atoms it tries: in every joint update, and after a relocation.
_NEAR, _FAR = 20, 100


@dataclass(frozen=True, eq=False)
class Objective:
    """What D A should approximate.

    point    (V,p) u
    target   (V,q) y
    bones    (B,p,q) the transposes of A_b
    measure  the reported error, in thousandths, of a sum of squared residuals
    """

    point: np.ndarray
    target: np.ndarray
    bones: np.ndarray
    measure: Callable[[float], float]

    @staticmethod
    def weights(weights: np.ndarray) -> Objective:
        """The weights (V,B) themselves: Delta_W of Eq. 1a."""
        count, bones = weights.shape
        return Objective(
            np.ones((count, 1)),
            weights,
            np.eye(bones)[:, None, :],
            lambda square: 1000.0 * weight_error(square, weights.size),
        )

    @staticmethod
    def examples(examples: Examples) -> Objective:
        """Example poses: the error E, with E^2 = Delta_E^2 + E*^2 (Eq. 7)."""
        return Objective(examples.point, examples.target, examples.bones, examples.box_error)


@dataclass(frozen=True)
class Limits:
    """The size of the factors and the number of iterations.

    atoms       largest number of atoms (virtual bones), Sigma
    error       stop adding atoms once the measure is at most this; None: no threshold
    per_vertex  atoms per vertex, s; 2 in the paper
    per_atom    bones per atom, c
    kappa       largest number of atoms added before a joint optimisation, as a fraction of m
    rounds      joint updates after each addition
    finish      largest number of joint updates after the last addition
    """

    atoms: int
    error: float | None = None
    per_vertex: int = 2
    per_atom: int = 1
    kappa: float = 1.0
    rounds: int = 3
    finish: int = 40


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
    adjacency: sp.csr_matrix,
    limits: Limits,
    order: np.ndarray | None = None,
    progress: Progress = SILENT,
) -> Factors:
    """The factors D and A of Algorithm 1.

    objective  what D A approximates
    weights    (V,B) dense weights, rows summing to one; new atoms are copies of their rows
    adjacency  (V,V) neighbours of each vertex
    limits     size of the factors, number of iterations
    order      (V,) order in which vertices are visited; None: by index
    """
    if compiled is None:
        raise MissingDependencyError(
            "two_layer needs its compiled part, which this installation lacks; install understudy "
            "again where a C++ compiler is available"
        )
    order = np.arange(len(weights)) if order is None else order
    graph = adjacency[order][:, order].tocsr()
    graph.sort_indices()
    core = compiled.Factorization(
        point=np.ascontiguousarray(objective.point[order], np.float32),
        target=np.ascontiguousarray(objective.target[order], np.float32),
        bones=np.ascontiguousarray(objective.bones, np.float64),
        weights=np.ascontiguousarray(weights[order], np.float64),
        starts=graph.indptr.astype(np.int64),
        neighbours=graph.indices.astype(np.int32),
        shells=connected_components(graph),
        per_vertex=limits.per_vertex,
        per_atom=limits.per_atom,
    )
    core.initialize(min(2, limits.atoms))
    history = [objective.measure(core.error())]
    with progress.task("virtual bones", limits.atoms + limits.finish) as task:
        task.advance(core.atoms())
        while core.atoms() < limits.atoms and not _reached(history[-1], limits):
            added = _kappa(history[-1], core.atoms(), limits)
            core.add_atoms(added)
            for _ in range(limits.rounds):
                _joint_update(core)
            history.append(objective.measure(core.error()))
            task.advance(added)
            task.note(f"{core.atoms()} at {history[-1]:.3g}")
        task.advance(limits.atoms - core.atoms())
        for number in range(limits.finish):
            before = core.error()
            relocates = number % _RELOCATION_PERIOD == 0
            if relocates and core.atoms() > 2:
                _relocate(core)
            else:
                _joint_update(core)
            history.append(objective.measure(core.error()))
            task.advance()
            task.note(f"{core.atoms()} at {history[-1]:.3g}")
            if core.error() >= before * (1 - 2 * _CONVERGED) and relocates and number:
                break
    dictionary, index, coefficient = core.state()
    back = np.argsort(order)
    return Factors(dictionary, index[back], coefficient[back], tuple(history))


def _reached(measure: float, limits: Limits) -> bool:
    """Whether the error threshold (line 15 of Algorithm 1) is reached."""
    return limits.error is not None and measure <= limits.error


def _kappa(measure: float, atoms: int, limits: Limits) -> int:
    """The number of atoms to add: kappa of Eq. 3, at most `limits.kappa` times the present ones."""
    most = max(1, int(limits.kappa * atoms))
    if limits.error is not None:
        most = min(most, int((measure / limits.error - 1) * atoms) + 1)
    return min(most, limits.atoms - atoms)


def _joint_update(core: Any, reach: int = _NEAR) -> None:
    """Lines 10 to 13 of Algorithm 1 and a search around each vertex; undone if the error rises."""
    before, state = core.error(), core.state()
    core.update_dictionary()
    core.update_coefficients()
    core.search_neighbourhood(reach)
    if not core.error() <= before:
        core.restore(*state)


def _relocate(core: Any) -> None:
    """Relocate the least useful atoms; undone if a few joint updates do not lower the error."""
    before, state = core.error(), core.state()
    core.relocate(_RELOCATED)
    for number in range(_RELOCATION_PERIOD):
        _joint_update(core, _NEAR if number else _FAR)
    if not core.error() <= before:
        core.restore(*state)

"""Algorithm 1 of the two-layer paper: W ~ D A, grown atom by atom. The loops over vertices are
compiled (`_native/two_layer.cpp`).

A `Target` says what is to be approximated, weights or example poses, in the one form x_i(w) = sum_b
w_b A_b u_i - y_i; see `_native/two_layer.h`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from understudy.core.errors import MissingDependencyError
from understudy.core.progress import SILENT, Progress
from understudy.geometry.adjacency import connected_components
from understudy.methods.sparse_skinning.examples import Examples

_SETTLED = 1e-4  # relative gain of the error over a round of the last phase below which it is over
_RELOCATED = 0.05  # share of the atoms that start again at once
_RELOCATE_EVERY = 4  # rounds
_NEAR, _FAR = (
    20,
    100,
)  # vertices around whose atoms a vertex tries in every round, and after a relocation


@dataclass(frozen=True, eq=False)
class Target:
    """What D A should approximate: point (V,p), target (V,q), bones (B,p,q), and the measure of a
    squared error, in thousandths.
    """

    point: np.ndarray
    target: np.ndarray
    bones: np.ndarray
    measure: Callable[[float], float]

    @staticmethod
    def weights(weights: np.ndarray) -> Target:
        """The weights (V,B) themselves: Delta_W of Eq. 1a."""
        count, bones = weights.shape
        return Target(
            np.ones((count, 1)),
            weights,
            np.eye(bones)[:, None, :],
            lambda square: 1000.0 * float(np.sqrt(square / weights.size)),
        )

    @staticmethod
    def examples(examples: Examples) -> Target:
        """Example poses: E, with E^2 = Delta_E^2 + E*^2 (Eq. 7)."""
        return Target(examples.point, examples.target, examples.bones, examples.error)


@dataclass(frozen=True)
class Limits:
    """When to stop and how hard to try.

    atoms       most virtual bones, Sigma
    error       stop growing once the measure is at most this, or None
    per_vertex  virtual bones per vertex, s
    per_atom    bones per virtual bone, c
    kappa       most atoms added between two joint optimisations, as a share of those there are
    rounds      joint updates after each growth
    finish      joint updates at the end
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
    """dictionary (m,B): rows of D; index (V,s) int32 and coefficient (V,s): columns of A. history:
    the measure after every outer iteration.
    """

    dictionary: np.ndarray
    index: np.ndarray
    coefficient: np.ndarray
    history: tuple[float, ...] = ()

    def weights(self) -> np.ndarray:
        """D A as (V,B)."""
        return np.einsum("vs,vsb->vb", self.coefficient, self.dictionary[self.index])


def factorize(
    target: Target,
    weights: np.ndarray,
    adjacency: sp.csr_matrix,
    limits: Limits,
    order: np.ndarray | None = None,
    progress: Progress = SILENT,
) -> Factors:
    """D and A for `target`; `weights` (V,B) are the dense weights that new atoms are copied from,
    rows summing to one.

    order  (V,) in which the vertices are worked on; None: as they are numbered
    """
    order = np.arange(len(weights)) if order is None else order
    graph = adjacency[order][:, order].tocsr()
    graph.sort_indices()
    try:
        from understudy.methods.sparse_skinning._two_layer import Factorization
    except ImportError as problem:
        raise MissingDependencyError(
            "two_layer needs its compiled part, and this installation has none: install understudy "
            "again where a C++ compiler is present"
        ) from problem
    core = Factorization(
        np.ascontiguousarray(target.point[order], np.float32),
        np.ascontiguousarray(target.target[order], np.float32),
        np.ascontiguousarray(target.bones, np.float64),
        np.ascontiguousarray(weights[order], np.float64),
        graph.indptr.astype(np.int64),
        graph.indices.astype(np.int32),
        connected_components(graph),
        limits.per_vertex,
        limits.per_atom,
    )
    core.start(min(2, limits.atoms))
    history = [target.measure(core.error())]
    with progress.task("virtual bones", limits.atoms + limits.finish) as task:
        task.advance(core.atoms())
        while core.atoms() < limits.atoms and not _reached(history[-1], limits):
            grown = _kappa(history[-1], core.atoms(), limits)
            core.grow(grown)
            for _ in range(limits.rounds):
                _joint_update(core)
            history.append(target.measure(core.error()))
            task.advance(grown)
            task.note(f"{core.atoms()} at {history[-1]:.3g}")
        task.advance(limits.atoms - core.atoms())
        for number in range(limits.finish):
            before = core.error()
            if number % _RELOCATE_EVERY == 0 and core.atoms() > 2:
                _relocate(core)
            else:
                _joint_update(core)
            history.append(target.measure(core.error()))
            task.advance()
            task.note(f"{core.atoms()} at {history[-1]:.3g}")
            if (
                core.error() >= before * (1 - 2 * _SETTLED)
                and number % _RELOCATE_EVERY == 0
                and number
            ):
                break
    dictionary, index, coefficient = core.state()
    back = np.argsort(order)
    return Factors(dictionary, index[back], coefficient[back], tuple(history))


def _reached(measure: float, limits: Limits) -> bool:
    return limits.error is not None and measure <= limits.error


def _kappa(measure: float, atoms: int, limits: Limits) -> int:
    """Eq. 3, and no more than `kappa` times the atoms there are."""
    most = max(1, int(limits.kappa * atoms))
    if limits.error is not None:
        most = min(most, int((measure / limits.error - 1) * atoms) + 1)
    return min(most, limits.atoms - atoms)


def _joint_update(core, reach: int = _NEAR) -> None:
    """Lines 10 to 13 of Algorithm 1; undone where the error rises."""
    before, kept = core.error(), core.state()
    core.update_dictionary()
    core.update_coefficients()
    core.search_rings(reach)
    if not core.error() <= before:
        core.restore(*kept)


def _relocate(core) -> None:
    """The atoms worth least start again at the worst vertices; undone where that does not pay
    within a few rounds.
    """
    before, kept = core.error(), core.state()
    core.relocate(_RELOCATED)
    for number in range(_RELOCATE_EVERY):
        _joint_update(core, _NEAR if number else _FAR)
    if not core.error() <= before:
        core.restore(*kept)

"""`Plan`: what to solve for, within which limits, and the progress reports along the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from understudy.methods.decomposition.solve.momentum import Extension
from understudy.methods.decomposition.solve.motion import WeightSearch
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress, Task

# More iterations than planned rarely help rigid bones. With unlimited influences, an exact skin may
# be close while the error still falls slowly.
AFFINE = Extension(gain=1e-2, factor=8)
RIGID = Extension(gain=2e-2, factor=3)
# What `temporal` gives affine bones: half as many iterations again as ssdr plans, and more of them
# while the error still falls slowly.
THOROUGH_ITERATIONS, THOROUGH = 90, Extension(gain=3e-3, factor=8)
UNLIMITED = Extension(gain=2e-3, factor=8)
_SILENT_TASK = Task()
MAX_BONES = 1000


def check_bone_count(bones: int) -> None:
    """Raise unless there is at least one bone and no more than the solver can handle.

    All bones are solved together. Their normal equations are a dense matrix of (4 bones)^2 numbers,
    which every iteration factorises: 128 MB and some seconds at 1,000 bones, growing with the
    square and the cube of the number.
    """
    checks.between(bones, "bones", 1)
    if bones > MAX_BONES:
        raise InputError(
            f"bones: at most {MAX_BONES}, got {bones}. All bones are solved together, and memory "
            "and time grow with the square and the cube of their number; use fewer bones, or fit "
            "parts of the mesh that move apart one by one"
        )


@dataclass(frozen=True, eq=False)
class InitialClusters:
    """Clusters of vertices to start from, in addition to the solver's own.

    vertices  (n,) vertices of the motion
    label     (n,) the cluster of each; there may be more or fewer clusters than bones
    """

    vertices: np.ndarray
    label: np.ndarray


@dataclass(frozen=True, eq=False)
class Plan:
    """What to solve for.

    bones       number of bones, at least one
    influences  largest number of bones per vertex; None: unlimited
    rigid       rigid transforms; else affine
    iterations  planned number of iterations; the stages of the solve use fixed shares of it
    clusters    clusters to start from in addition, or None
    extension   when to run more iterations than planned; `decompose` replaces it for rigid bones
                and for unlimited influences
    individual  see `solves.solve_transforms`; None: `decompose` decides
    note        text beside the progress bar for a squared error
    record      called with the squared errors of affine bones on all vertices: at the start of the
                last iterations and after each
    progress    where progress is reported
    bar         the open task of `progress`; set by `decompose`
    """

    bones: int
    influences: int | None = 4
    rigid: bool = False
    iterations: int = 60
    clusters: InitialClusters | None = None
    extension: Extension = AFFINE
    individual: float | None = None
    note: Callable[[float], str] = lambda error: ""
    record: Callable[[float], object] = lambda error: None
    progress: Progress = SILENT
    bar: Task = _SILENT_TASK

    def search(self, thorough: bool = False) -> WeightSearch:
        """Return how the weights are searched."""
        if self.influences is None:
            return WeightSearch(None, candidates=1, exchanges=12)
        return WeightSearch(self.influences, candidates=2, exchanges=3, from_all=thorough)

"""`fesam`: FESAM-WT, the method that temporal deep skinning is compared with.

Paper: Kavan, Sloan & O'Sullivan 2010, "Fast and Efficient Skinning of Animated Meshes", without its
update of the rest pose (as Moutafidou et al. compare it). Vertices are clustered around seeds, one
affine bone per cluster. Then weights and transforms are solved for in turn, both by least squares:
- the K bones of a vertex are those that alone come closest to its trajectory, chosen again in every
  iteration. A choice is taken only where it lowers the error of the vertex, so that the error never
  rises;
- the best convex weights on these bones;
- the best affine transforms for these weights.

The paper makes fifteen iterations from one random seeding. Both are options here, since neither is
fair to a method that is compared with others that start several times and iterate longer. The first
start takes seeds with distant trajectories, further ones random seeds; the best result is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.methods.base import Config, Method, Traits
from understudy.methods.decomposition.solve.decompose import (
    deformer_from_bones,
    erms,
    skin_and_bones,
)
from understudy.methods.decomposition.solve.motion import (
    Fit,
    Motion,
    WeightSearch,
    in_principal_directions,
    read_motion,
    single_bone_fit,
    with_exact_errors,
)
from understudy.methods.decomposition.solve.plan import check_bone_count
from understudy.methods.decomposition.solve.solves import solve_transforms, solve_weights
from understudy.methods.decomposition.solve.starts import refine_clusters
from understudy.rigs.base import Rig
from understudy.system import checks, tasks
from understudy.system.progress import SILENT, Progress, Task

_REPEATS = 5  # of fitting the initial clusters and assigning the vertices again


@dataclass(frozen=True)
class FesamConfig(Config):
    """Options of fesam.

    bones       number of bones
    influences  number of bones per vertex
    iterations  number of iterations, each a solve for weights and for transforms
    starts      number of starts; the first has seeds with distant trajectories, others random ones
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        # Moutafidou et al. on Kavan et al. 2010: 15 iterations (3.2), six weights per vertex (3).
        "paper": {"iterations": 15, "influences": 6, "starts": 1},
    }

    bones: int = 20
    influences: int = 6
    iterations: int = 60
    starts: int = 4

    def __post_init__(self):
        super().__post_init__()
        check_bone_count(self.bones)
        checks.between(self.influences, "influences", 1)
        checks.between(self.iterations, "iterations", 1)
        checks.between(self.starts, "starts", 1)


class Fesam(Method[FesamConfig]):
    """FESAM-WT: weights and affine transforms of a mesh sequence, solved for in turn."""

    name = "fesam"
    traits = Traits(finds_bones=True, takes_sequences=True, baseline="temporal")
    Config = FesamConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """Return a skin for the mesh of `poses`, with the motion of its bones as clips.

        A skeleton of the poses is ignored.
        """
        motion, normalisation = read_motion(poses)
        with tasks.one_blas_thread():
            fit, errors = self._iterate(motion, progress)
        curve = [erms(error, motion, normalisation) for error in errors]
        return deformer_from_bones(
            poses,
            *skin_and_bones(fit, normalisation),
            self.name,
            {"erms": curve[-1]},
            {"config": asdict(self.config), "erms_curve": curve},
        )

    def _iterate(self, motion: Motion, progress: Progress) -> tuple[Fit, list[float]]:
        """Return the best fit, and its squared error at the start and after each iteration."""
        config = self.config
        reduced, directions = in_principal_directions(motion)
        bones = min(config.bones, motion.vertex_count)
        random = np.random.default_rng(config.seed)
        steps = config.starts * config.iterations
        runs = []
        with progress.task(f"fesam: {config.starts} starts", steps) as bar:
            for number in range(config.starts):
                seeds = (
                    distant_seeds(reduced, bones)
                    if number == 0
                    else random.choice(reduced.vertex_count, bones, replace=False)
                )
                runs.append(self._run(reduced, seeds, bar))
        fit, errors = min(runs, key=lambda run: run[0].error)
        fit = with_exact_errors(motion, replace(fit, transforms=directions @ fit.transforms))
        return fit, [*errors[:-1], fit.error]

    def _run(self, motion: Motion, seeds: np.ndarray, bar: Task) -> tuple[Fit, list[float]]:
        """Return the fit from one seeding, and its squared errors."""
        places = min(self.config.influences, len(seeds))
        transforms = _initial_clusters(motion, seeds).transforms
        index = _nearest_bones(motion, transforms, places)
        fit = _solve_on_bones(motion, transforms, index)
        errors = [fit.error]
        for _ in range(self.config.iterations):
            transforms = solve_transforms(motion, fit)
            fit = _solve_on_bones(motion, transforms, index)
            chosen = _nearest_bones(motion, transforms, places)
            other = _solve_on_bones(motion, transforms, chosen)
            better = other.vertex_errors < fit.vertex_errors
            index = np.where(better[:, None], chosen, index)
            fit = Fit(
                transforms,
                np.where(better[:, None], other.index, fit.index),
                np.where(better[:, None], other.weight, fit.weight),
                np.minimum(other.vertex_errors, fit.vertex_errors),
            )
            errors.append(fit.error)
            bar.advance()
        return fit, errors


def _solve_on_bones(motion: Motion, transforms: np.ndarray, index: np.ndarray) -> Fit:
    """Return the fit with the best convex weights on the bones (V,K) of each vertex.

    Every solve starts from equal weights, so a bone whose weight vanished can return.
    """
    places = index.shape[1]
    start = index, np.full(index.shape, 1 / places)
    return solve_weights(motion, transforms, start, WeightSearch(places, exchanges=0))


def _initial_clusters(motion: Motion, seeds: np.ndarray) -> Fit:
    """Return clusters around the trajectories of seeds, each vertex following one affine bone."""
    start = single_bone_fit(motion, nearest_seed(motion, seeds), len(seeds))
    return refine_clusters(motion, start, _REPEATS)


def _nearest_bones(motion: Motion, transforms: np.ndarray, count: int) -> np.ndarray:
    """Return the bones (V,count) int32 that alone come closest to each vertex, closest first."""
    bones = transforms.shape[1] // 4
    by_bone = np.ascontiguousarray(transforms.reshape(motion.rows, bones, 4).transpose(1, 2, 0))
    error = np.stack(
        [((motion.rest @ bone - motion.targets) ** 2).sum(axis=1) for bone in by_bone], axis=1
    )
    return np.argsort(error, axis=1, kind="stable")[:, :count].astype(np.int32)


def distant_seeds(motion: Motion, count: int) -> np.ndarray:
    """Return vertices (count,), each with the trajectory most distant from those before it."""
    seeds = [int(np.argmax(motion.square))]
    nearest = np.full(motion.vertex_count, np.inf)
    while len(seeds) < count:
        nearest = np.minimum(nearest, _distances(motion, seeds[-1]))
        seeds.append(int(np.argmax(nearest)))
    return np.array(seeds)


def nearest_seed(motion: Motion, seeds: np.ndarray) -> np.ndarray:
    """Return the number (V,) int32 of the seed, a vertex, whose trajectory is nearest."""
    nearest = np.full(motion.vertex_count, np.inf)
    cluster = np.zeros(motion.vertex_count, np.int32)
    for number, seed in enumerate(seeds):
        distance = _distances(motion, int(seed))
        cluster[distance < nearest] = number
        nearest = np.minimum(nearest, distance)
    return cluster


def _distances(motion: Motion, vertex: int) -> np.ndarray:
    """Return the squared distance (V,) of all trajectories from that of a vertex."""
    return ((motion.targets - motion.targets[vertex]) ** 2).sum(axis=1)

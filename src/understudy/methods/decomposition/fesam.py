"""`fesam`: FESAM-WT, the method that temporal deep skinning is compared with.

Paper: Kavan, Sloan & O'Sullivan 2010, "Fast and Efficient Skinning of Animated Meshes", without its
update of the rest pose (as Moutafidou et al. compare it). The bones of a vertex are chosen once:
the K bones that alone come closest to its trajectory. Then the best convex weights on these bones
and the best affine transforms are solved for in turn, fifteen times, both by least squares.

Departure: the paper seeds its clusters at random. Here the seeds are vertices with distant
trajectories, so that the same sequence gives the same result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress
from understudy.methods.base import Config, Method, Traits
from understudy.methods.decomposition import clusters, kernels
from understudy.methods.decomposition.bone_limit import check_bone_count
from understudy.methods.decomposition.fit import Fit, single_bone_fit, with_exact_errors
from understudy.methods.decomposition.motion import Motion, in_principal_directions, read_motion
from understudy.methods.decomposition.result import deformer_from_bones, erms, skin_and_bones
from understudy.methods.decomposition.transform_solve import solve_transforms
from understudy.methods.decomposition.weight_problem import WeightSearch
from understudy.methods.decomposition.weight_solve import solve_weights
from understudy.rigs.base import Rig

_REPEATS = 5  # of fitting the initial clusters and assigning the vertices again


@dataclass(frozen=True)
class FesamConfig(Config):
    """Options of fesam.

    bones       number of bones
    influences  number of bones per vertex
    iterations  number of iterations, each a solve for weights and for transforms
    """

    renamed: ClassVar[Mapping[str, str]] = {**Config.renamed, "rounds": "iterations"}

    bones: int = 20
    influences: int = 6
    iterations: int = 15

    def __post_init__(self):
        super().__post_init__()
        check_bone_count(self.bones)
        checks.between(self.influences, "influences", 1)
        checks.between(self.iterations, "iterations", 1)


class Fesam(Method[FesamConfig]):
    """FESAM-WT: weights and affine transforms of a mesh sequence, solved for in turn."""

    name = "fesam"
    traits = Traits(finds_bones=True, takes_sequences=True, baseline=True)
    Config = FesamConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """Return a skin for the mesh of `poses`, with the motion of its bones as clips.

        A skeleton of the poses is ignored.
        """
        motion, normalisation = read_motion(poses)
        with kernels.own_threads():
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
        """Return the fit, and the squared error at the start and after each iteration."""
        config = self.config
        reduced, directions = in_principal_directions(motion)
        bones = min(config.bones, motion.vertex_count)
        transforms = _initial_clusters(reduced, bones).transforms
        index = _nearest_bones(reduced, transforms, min(config.influences, bones))
        fit = _solve_on_bones(reduced, transforms, index)
        errors = [fit.error]
        with progress.task(f"fesam: {config.iterations} iterations", config.iterations) as bar:
            for _ in range(config.iterations):
                fit = _solve_on_bones(reduced, solve_transforms(reduced, fit), index)
                errors.append(fit.error)
                bar.advance()
        fit = with_exact_errors(motion, replace(fit, transforms=directions @ fit.transforms))
        return fit, [*errors[:-1], fit.error]


def _solve_on_bones(motion: Motion, transforms: np.ndarray, index: np.ndarray) -> Fit:
    """Return the fit with the best convex weights on the bones (V,K) of each vertex.

    Every solve starts from equal weights, so a bone whose weight vanished can return.
    """
    places = index.shape[1]
    start = index, np.full(index.shape, 1 / places)
    return solve_weights(motion, transforms, start, WeightSearch(places, exchanges=0))


def _initial_clusters(motion: Motion, bones: int) -> Fit:
    """Return clusters around distant trajectories, each vertex following one affine bone."""
    seed = int(np.argmax(motion.square))
    nearest = np.full(motion.vertex_count, np.inf)
    cluster = np.zeros(motion.vertex_count, np.int32)
    for number in range(bones):
        distance = ((motion.targets - motion.targets[seed]) ** 2).sum(axis=1)
        cluster[distance < nearest] = number
        nearest = np.minimum(nearest, distance)
        seed = int(np.argmax(nearest))
    return clusters.refine_clusters(motion, single_bone_fit(motion, cluster, bones), _REPEATS)


def _nearest_bones(motion: Motion, transforms: np.ndarray, count: int) -> np.ndarray:
    """Return the bones (V,count) int32 that alone come closest to each vertex, closest first."""
    bones = transforms.shape[1] // 4
    by_bone = np.ascontiguousarray(transforms.reshape(motion.rows, bones, 4).transpose(1, 2, 0))
    error = np.stack(
        [((motion.rest @ bone - motion.targets) ** 2).sum(axis=1) for bone in by_bone], axis=1
    )
    return np.argsort(error, axis=1, kind="stable")[:, :count].astype(np.int32)

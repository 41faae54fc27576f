"""`fesam`: FESAM-WT, the comparison of temporal deep skinning: weights and transformations in turn,
fifteen rounds.

Paper: Kavan, Sloan & O'Sullivan 2010, "Fast and Efficient Skinning of Animated Meshes", without its
step that changes the rest pose (as Moutafidou et al. compare it). A vertex's bones are chosen once,
as the ones that alone come nearest to its trajectory, and stay; then by turns the best weights on
those bones (convex) and the best affine transformations, both by least squares.

Departure: the paper seeds its clusters at random; here the seeds are vertices whose trajectories
lie far from each other, so that the same sequence gives the same result.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress
from understudy.methods.base import Config, Method, Traits
from understudy.methods.decomposition import clusters, kernels
from understudy.methods.decomposition.alternating_solve import (
    Fit,
    Search,
    affine_bones,
    with_weights,
)
from understudy.methods.decomposition.motion import Motion, in_principal_directions, read_motion
from understudy.methods.decomposition.result import deformer_of, erms_of, skin_and_bones
from understudy.methods.decomposition.solve import measured
from understudy.rigs.base import Rig

_SETTLE = 5  # times that clusters are chosen and fitted again at the start


@dataclass(frozen=True)
class FesamConfig(Config):
    """Options of fesam.

    bones       how many
    influences  bones per vertex
    rounds      of weights and transformations
    """

    bones: int = 20
    influences: int = 6
    rounds: int = 15

    def __post_init__(self):
        super().__post_init__()
        checks.between(self.bones, "bones", 1, 1000)
        checks.between(self.influences, "influences", 1)
        checks.between(self.rounds, "rounds", 1)


class Fesam(Method[FesamConfig]):
    """FESAM-WT: weights and affine transformations of a mesh sequence solved in turn."""

    name = "fesam"
    traits = Traits(finds_bones=True, takes_sequences=True, baseline=True)
    Config = FesamConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """A skin for the mesh of `poses`, and its bones' motion as `clips`. A skeleton that the
        poses have is not used.
        """
        motion, frame = read_motion(poses)
        with kernels.own_threads():
            fit, errors = self.rounds(motion, progress)
        curve = [erms_of(error, motion, frame) for error in errors]
        return deformer_of(
            poses,
            *skin_and_bones(fit, frame),
            self.name,
            {"erms": curve[-1]},
            {"config": asdict(self.config), "erms_curve": curve},
        )

    def rounds(self, motion: Motion, progress: Progress = SILENT) -> tuple[Fit, list[float]]:
        """The fit, and the squared error at the start and after each round."""
        config = self.config
        reduced, directions = in_principal_directions(motion)
        bones = min(config.bones, motion.vertex_count)
        places = min(config.influences, bones)
        fit = _clustered(reduced, bones)
        index = _nearest_bones(reduced, fit.columns, places)
        fit = _on_these_bones(reduced, fit.columns, index)
        errors = [fit.error]
        with progress.task(f"fesam: {config.rounds} rounds", config.rounds) as bar:
            for _ in range(config.rounds):
                fit = _on_these_bones(reduced, affine_bones(reduced, fit), index)
                errors.append(fit.error)
                bar.advance()
        fit = measured(motion, replace(fit, columns=directions @ fit.columns))
        return fit, [*errors[:-1], fit.error]


def _on_these_bones(motion: Motion, columns: np.ndarray, index: np.ndarray) -> Fit:
    """The best convex weights on the bones (V,K) that each vertex has; one that had got nothing may
    come back.
    """
    places = index.shape[1]
    return with_weights(
        motion, columns, index, np.full(index.shape, 1 / places), Search(places, exchanges=0)
    )


def _clustered(motion: Motion, bones: int) -> Fit:
    """Every vertex on one of `bones` affine bones: far-apart seeds, their nearest vertices, then
    fitted and chosen again a few times.
    """
    seeds, away = [int(np.argmax(motion.square))], np.full(motion.vertex_count, np.inf)
    owner = np.zeros(motion.vertex_count, np.int32)
    for number in range(bones):
        distance = ((motion.targets - motion.targets[seeds[-1]]) ** 2).sum(axis=1)
        owner[distance < away] = number
        away = np.minimum(away, distance)
        seeds.append(int(np.argmax(away)))
    fit = Fit(
        np.zeros((motion.rows, 4 * bones)),
        owner[:, None],
        np.ones((motion.vertex_count, 1)),
        motion.square,
    )
    return clusters.settled(motion, fit, _SETTLE)


def _nearest_bones(motion: Motion, columns: np.ndarray, count: int) -> np.ndarray:
    """(V,count) int32: the bones that alone come nearest to each vertex, nearest first."""
    bones = columns.shape[1] // 4
    by_bone = np.ascontiguousarray(columns.reshape(motion.rows, bones, 4).transpose(1, 2, 0))
    error = np.stack(
        [((motion.rest @ bone - motion.targets) ** 2).sum(axis=1) for bone in by_bone], axis=1
    )
    return np.argsort(error, axis=1, kind="stable")[:, :count].astype(np.int32)

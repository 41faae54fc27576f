"""`temporal`: a mesh sequence as bones and skin weights without parameters.

Paper: Moutafidou, Toulatzis & Fudos, "Temporal Parameter-free Deep Skinning of Animated Meshes". A
network reads the trajectory of each vertex and returns, for every label, the probability that this
label moves the vertex. The six highest probabilities become initial weights. Then affine transforms
and convex weights are solved for in turn, as in `ssdr`.

Departures, and why:
- The trajectories are expressed in the sequence's own axes, so that translating, rotating or
  scaling the whole sequence changes nothing (`trajectory_networks.trajectories`).
- Labels are places on a body that all characters share, because bones of different characters have
  no common names (`trajectory_networks.body_labels`).
- The number of bones is where more bones explain little more motion (`bone_count`). It is not the
  number of labels in use, which hardly depends on the motion.
- With kind=auto, the networks of both kinds predict, and the prediction that explains more motion
  is used.
- Five iterations from the network's weights leave much of the possible improvement
  (`fitting="paper"` does exactly that). By default, clusters of vertices with the same most likely
  label are two more starts of `ssdr`, and the best starts get iterations until nothing is gained.
- With `skeleton`, the bones are joined to one skeleton (`skeletons.skeleton_fit`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.poses import Poses, evenly
from understudy.core.progress import SILENT, Progress
from understudy.core.skin import Skin, skin_weights
from understudy.core.version import __version__
from understudy.methods.base import Config, Method, Traits
from understudy.methods.decomposition import kernels
from understudy.methods.decomposition.alternating_solve import plain_iterations
from understudy.methods.decomposition.bone_count import find_bone_count
from understudy.methods.decomposition.bone_limit import check_bone_count
from understudy.methods.decomposition.decompose import decompose
from understudy.methods.decomposition.fit import Fit, with_exact_errors
from understudy.methods.decomposition.momentum import Extension
from understudy.methods.decomposition.motion import Motion, in_principal_directions, read_motion
from understudy.methods.decomposition.plan import InitialClusters, Plan
from understudy.methods.decomposition.pruning import prune_bones
from understudy.methods.decomposition.result import deformer_from_bones, erms, skin_and_bones
from understudy.methods.decomposition.skeletons.skeleton_fit import fit_skeleton
from understudy.methods.decomposition.trajectory_networks.classifier import (
    KINDS,
    NETWORKS,
    predict_labels,
    shipped_weights,
)
from understudy.methods.decomposition.trajectory_networks.trajectories import trajectories
from understudy.methods.decomposition.transform_solve import LinearSolver, solve_transforms
from understudy.methods.decomposition.weight_problem import WeightSearch
from understudy.methods.decomposition.weight_solve import no_weights, solve_weights
from understudy.rigs.base import Rig

# Half as many iterations again as ssdr plans, and more of them while the error still falls slowly.
_ITERATIONS, _EXTENSION = 90, Extension(gain=3e-3, factor=8)
_PAPER_ITERATIONS = 5
_SAMPLE = 1000  # vertices whose labels are predicted


@dataclass(frozen=True)
class TemporalConfig(Config):
    """Options of temporal; none of them has to be set.

    network     which network predicts: lstm, cnn or hybrid
    kind        what the network was trained on: animals or humans; auto: whichever explains the
                sequence better
    bones       number of bones; none: found automatically
    influences  largest number of bones per vertex
    skeleton    join the bones to one skeleton: the root moves, all other bones rotate about fixed
                joints. It can be edited and retargeted, at a larger error
    fitting     ours; or paper: five iterations from the network's own weights
    solver      of transforms with fitting=paper: direct, or conjugate_gradients as in the paper
    """

    network: Literal["lstm", "cnn", "hybrid"] = "lstm"
    kind: Literal["auto", "animals", "humans"] = "auto"
    bones: int | None = None
    influences: int = 6
    skeleton: bool = False
    fitting: Literal["ours", "paper"] = "ours"
    solver: LinearSolver = "direct"

    def __post_init__(self):
        super().__post_init__()
        checks.one_of(self.network, "network", NETWORKS)
        checks.one_of(self.kind, "kind", ("auto", *KINDS))
        checks.one_of(self.fitting, "fitting", ("ours", "paper"))
        checks.one_of(self.solver, "solver", ("direct", "conjugate_gradients"))
        checks.between(self.influences, "influences", 1)
        if self.bones is not None:
            check_bone_count(self.bones)
        if self.skeleton and self.fitting == "paper":
            raise InputError(
                "skeleton=true cannot be combined with fitting=paper, whose bones are "
                "independent; leave one of them out"
            )


class Temporal(Method[TemporalConfig]):
    """Bones and weights of a mesh sequence without options to set; a skeleton on request."""

    name = "temporal"
    traits = Traits(finds_bones=True, takes_sequences=True, quick={"bones": "4"})
    Config = TemporalConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """Return a skin for the mesh of `poses`, with the motion of its bones as clips.

        A skeleton of the poses is ignored.
        """
        config = self.config
        motion, normalisation = read_motion(poses)
        provenance: dict = {"config": asdict(config)}
        with kernels.own_threads():
            bones = config.bones
            if bones is None:
                bones, curve = find_bone_count(
                    motion, config.influences, normalisation.rounding, progress
                )
                provenance["motion_left_by_bones"] = {
                    str(count): share for count, share in sorted(curve.remaining.items())
                }
            bones = min(bones, motion.vertex_count)
            vertices = evenly(motion.vertex_count, _SAMPLE)
            kind, predictions = self._predict(motion, vertices)
            provenance["kind"] = kind
            if config.fitting == "paper":
                fit, errors = self._fit_as_paper(
                    motion, bones, kind, vertices, predictions, progress
                )
            else:
                clusters = InitialClusters(vertices, predictions.argmax(axis=1))
                fit, errors = self._fit(motion, bones, clusters, progress)
        skin, world_from_rest = skin_and_bones(fit, normalisation)
        if config.skeleton:
            return self._with_skeleton(poses, skin, world_from_rest, provenance, progress)
        provenance["erms_curve"] = [erms(error, motion, normalisation) for error in errors]
        return deformer_from_bones(
            poses,
            skin,
            world_from_rest,
            self.name,
            {"erms": provenance["erms_curve"][-1]},
            provenance,
        )

    def _predict(self, motion: Motion, vertices: np.ndarray) -> tuple[str, np.ndarray]:
        """Return the kind of network that explains some vertices (n,) best, and its predictions.

        Predictions are probabilities (n,LABELS).
        """
        kinds = KINDS if self.config.kind == "auto" else (self.config.kind,)
        sample, paths = motion.subset(vertices), trajectories(motion, vertices)
        predictions = {kind: self._probabilities(kind, paths) for kind in kinds}
        errors = {
            kind: _fit_transforms(sample, *self._highest(predicted)).error
            for kind, predicted in predictions.items()
        }
        best = min(kinds, key=lambda kind: errors[kind])
        return best, predictions[best]

    def _probabilities(self, kind: str, paths: np.ndarray) -> np.ndarray:
        network = self.config.network
        return predict_labels(network, shipped_weights(kind, network), paths)

    def _highest(
        self, predictions: np.ndarray, labels: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the K most likely labels (n,K) of each vertex, and weights (n,K) summing to one.

        labels  labels to choose from; None: those that are the most likely one of any vertex
        """
        labels = np.unique(predictions.argmax(axis=1)) if labels is None else labels
        predictions = predictions[:, labels].astype(np.float64)
        places = min(self.config.influences, len(labels))
        index = np.argsort(-predictions, axis=1, kind="stable")[:, :places]
        weight = np.maximum(np.take_along_axis(predictions, index, axis=1), 1e-12)
        return np.ascontiguousarray(index, np.int32), weight / weight.sum(axis=1, keepdims=True)

    def _fit(
        self, motion: Motion, bones: int, clusters: InitialClusters, progress: Progress
    ) -> tuple[Fit, list[float]]:
        """Return the fit of `ssdr` with additional starts from clusters.

        Also returns the squared errors of its iterations on all vertices.
        """
        errors: list[float] = []
        plan = Plan(
            bones,
            self.config.influences,
            rigid=self.config.skeleton,
            iterations=_ITERATIONS,
            clusters=clusters,
            extension=_EXTENSION,
            record=errors.append,
            progress=progress,
        )
        fit = decompose(motion, plan)
        return fit, [*errors, fit.error]

    def _fit_as_paper(
        self,
        motion: Motion,
        bones: int,
        kind: str,
        vertices: np.ndarray,
        predictions: np.ndarray,
        progress: Progress,
    ) -> tuple[Fit, list[float]]:
        """Return the fit after five iterations from the network's weights, and its squared errors.

        If the network uses more labels than `bones`, the fit to the sample is pruned first.
        """
        influences = self.config.influences
        reduced, directions = in_principal_directions(motion)
        labels = np.unique(predictions.argmax(axis=1))
        if len(labels) > bones:
            sample = reduced.subset(vertices)
            start = _fit_transforms(sample, *self._highest(predictions, labels))
            pruned = prune_bones(sample, start, bones, influences)
            search = WeightSearch(influences, from_all=True)
            fit = solve_weights(reduced, pruned.transforms, no_weights(reduced), search)
        else:
            paths = trajectories(motion, np.arange(motion.vertex_count))
            fit = _fit_transforms(reduced, *self._highest(self._probabilities(kind, paths), labels))
        fit, errors = plain_iterations(
            reduced, fit, WeightSearch(influences), _PAPER_ITERATIONS, self.config.solver, progress
        )
        fit = with_exact_errors(motion, replace(fit, transforms=directions @ fit.transforms))
        return fit, [*errors[:-1], fit.error]

    def _with_skeleton(
        self,
        poses: Poses,
        skin: Skin,
        world_from_rest: np.ndarray,
        provenance: dict,
        progress: Progress,
    ) -> Deformer:
        """Return a deformer whose bones are joined to one skeleton."""
        weights = skin_weights(skin, world_from_rest.shape[1]).toarray()
        fitted = fit_skeleton(
            poses, weights, world_from_rest, influences=self.config.influences, progress=progress
        )
        curve = [100 * rms for rms in fitted.errors]
        return fitted.deformer(
            poses,
            method=self.name,
            training={
                "poses": poses.pose_count,
                "bones": fitted.skeleton.bone_count,
                "influences": fitted.skin.influences,
                "erms": curve[-1],
            },
            provenance={
                "understudy": __version__,
                "poses": poses.name,
                **provenance,
                "erms_curve": curve,
            },
        )


def _fit_transforms(motion: Motion, index: np.ndarray, weight: np.ndarray) -> Fit:
    """Return the best affine transforms for weights (V,K) on bones (V,K), with exact errors."""
    bones = int(index.max()) + 1
    fit = Fit(np.zeros((motion.rows, 4 * bones)), index, weight, motion.square)
    return with_exact_errors(motion, replace(fit, transforms=solve_transforms(motion, fit)))

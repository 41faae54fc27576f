"""`temporal`: a mesh sequence as bones and skin weights without parameters.

Paper: Moutafidou, Toulatzis & Fudos, "Temporal Parameter-free Deep Skinning of Animated Meshes". A
network reads the trajectory of each vertex and returns, for every label, the probability that this
label moves the vertex. The six highest probabilities become initial weights. Then affine transforms
and convex weights are solved for in turn, as in `ssdr`.

The baseline `temporal_paper` of the benchmarks is the method as published. Departures, and why:
- The trajectories are expressed in the sequence's own axes, so that translating, rotating or
  scaling the whole sequence changes nothing (`classifier.trajectories`).
- Labels are places on a body that all characters share, because bones of different characters have
  no common names (`body_labels` of the benchmarks, which train the networks).
- The number of bones is what can be seen, or what made the motion (`bone_count`). It is not the
  number of labels in use, which hardly depends on the motion. Where normals still deviate visibly,
  bones are added.
- With kind=auto, the networks of both kinds predict, and the prediction that explains more motion
  is used.
- Five iterations from the network's weights leave much of the possible improvement. Clusters of
  vertices with the same most likely label are two more starts of `ssdr`, and the best starts get
  iterations until nothing is gained.
- With `skeleton`, the bones are rigid (`local_bones` counts them) and are joined to one skeleton
  (`skeleton.skeleton_fit`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly
from understudy.core.skin import skin_weights
from understudy.core.version import __version__
from understudy.methods.base import Config, Method, Traits
from understudy.methods.decomposition.bones.bone_count import (
    MAX_BONES,
    find_bone_count,
    most_bones,
    relative_error,
    small_enough,
)
from understudy.methods.decomposition.bones.classifier import (
    highest_labels,
    network_weights,
    networks_of,
    predict_labels,
    trajectories,
)
from understudy.methods.decomposition.skeleton.skeleton_fit import fit_skeleton
from understudy.methods.decomposition.solve.decompose import (
    decompose,
    decompose_from,
    deformer_from_bones,
    erms,
    skin_and_bones,
)
from understudy.methods.decomposition.solve.motion import (
    Fit,
    Motion,
    Normalisation,
    predict,
    read_motion,
    rows_of,
)
from understudy.methods.decomposition.solve.plan import (
    THOROUGH,
    THOROUGH_ITERATIONS,
    InitialClusters,
    Plan,
    check_bone_count,
)
from understudy.methods.decomposition.solve.pruning import without_faint_bones
from understudy.methods.decomposition.solve.solves import fit_affine
from understudy.rigs.base import Rig
from understudy.system import checks, tasks
from understudy.system.progress import SILENT, Progress

_SAMPLE = 1000  # vertices whose labels are predicted
_MAX_DISTORTION = 0.12  # radians that normals may deviate on average
_NORMAL_FRAMES = 24  # in which that is measured
# Bones of faint weights are removed if E stays below the first, or below the second times that of
# all bones.
_EXACT, _RISE = 0.05, 2.0


@dataclass(frozen=True)
class TemporalConfig(Config):
    """Options of temporal; none of them has to be set.

    network     which network predicts: lstm, cnn or hybrid; auto: lstm for animals, cnn for humans
    kind        what the network was trained on: animals or humans; auto: whichever explains the
                sequence better
    bones       number of bones; none: found automatically
    influences  largest number of bones per vertex
    skeleton    join the bones to one skeleton, which can be edited and retargeted, at a larger
                error: the root moves, all other bones rotate about their joints; some joints of a
                rig that slides them slide too
    trained     folder of networks that `understudy train temporal` wrote; none: the package's
    """

    network: Literal["auto", "lstm", "cnn", "hybrid"] = "lstm"
    kind: Literal["auto", "animals", "humans"] = "auto"
    bones: int | None = None
    influences: int = 6
    skeleton: bool = False
    trained: str | None = None

    def __post_init__(self):
        super().__post_init__()
        checks.between(self.influences, "influences", 1)
        if self.bones is not None:
            check_bone_count(self.bones)


class Temporal(Method[TemporalConfig]):
    """Bones and weights of a mesh sequence without options to set; a skeleton on request."""

    name = "temporal"
    traits = Traits(finds_bones=True, takes_sequences=True, quick={"bones": "4"})
    Config = TemporalConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """Return a skin for the mesh of `poses` and bones as clips; a skeleton is ignored."""
        config = self.config
        motion, normalisation = read_motion(poses)
        # Provenance holds no paths: the folder's name alone.
        trained = None if config.trained is None else Path(config.trained).name
        provenance: dict = {"config": {**asdict(config), "trained": trained}}
        with tasks.one_blas_thread():
            triangles = np.argsort(normalisation.order)[poses.mesh.triangles]
            fit, errors = self._fit(motion, normalisation, triangles, provenance, progress)
        if config.skeleton:
            return self._with_skeleton(poses, normalisation, fit, provenance, progress)
        skin, world_from_rest = skin_and_bones(fit, normalisation)
        provenance["erms_curve"] = [erms(error, motion, normalisation) for error in errors]
        return deformer_from_bones(
            poses,
            skin,
            world_from_rest,
            self.name,
            {"erms": provenance["erms_curve"][-1]},
            provenance,
        )

    def _fit(
        self,
        motion: Motion,
        normalisation: Normalisation,
        triangles: np.ndarray,
        provenance: dict,
        progress: Progress,
    ) -> tuple[Fit, list[float]]:
        """Return the fit of `ssdr` with starts of the network, and its squared errors."""
        config = self.config
        count = None
        if config.bones is None:
            # Clips of a skeleton have a key in every frame, in 32 bits: its use is not to be small.
            most = MAX_BONES
            if not config.skeleton:
                most = small_enough(motion, config.influences, len(triangles))
            count = find_bone_count(
                motion, config.influences, normalisation.rounding, most, progress
            )
            provenance["e_by_bones"] = {
                str(bones): float(f"{error:.4g}")
                for bones, error in sorted(count.curve.error.items())
            }
        vertices = evenly(motion.vertex_count, _SAMPLE)
        provenance["kind"], label = self._most_likely(motion, vertices)
        errors: list[float] = []
        plan = Plan(
            config.bones or 1,
            config.influences,
            rigid=config.skeleton,
            iterations=THOROUGH_ITERATIONS,
            clusters=InitialClusters(vertices, label),
            extension=THOROUGH,
            record=errors.append,
            progress=progress,
        )
        if count is None:
            fit = decompose(motion, replace(plan, bones=min(plan.bones, motion.vertex_count)))
        elif count.transforms is not None:
            fit = self._exactly(motion, plan, count.transforms, errors)
        else:
            fit = self._visibly_right(motion, replace(plan, bones=count.bones), triangles, errors)
        return fit, [*errors, fit.error]

    def _exactly(
        self, motion: Motion, plan: Plan, transforms: np.ndarray, errors: list[float]
    ) -> Fit:
        """Return the fit from transforms (3F,4B) of an exact skin, without bones of faint weights.

        errors  of the iterations; only those of the returned fit are left in it
        """
        fit = decompose_from(motion, plan, transforms)
        while not plan.rigid:
            kept, before = without_faint_bones(fit), list(errors)
            if len(kept[0]) in (0, len(fit.transforms[0])):
                break
            errors.clear()
            fewer = decompose_from(motion, plan, kept)
            if fewer.error > _RISE**2 * fit.error and relative_error(motion, fewer.error) > _EXACT:
                errors[:] = before
                break
            fit = fewer
        return fit

    def _visibly_right(
        self, motion: Motion, plan: Plan, triangles: np.ndarray, errors: list[float]
    ) -> Fit:
        """Return the fit of `plan`, with more bones if normals deviate visibly.

        triangles  (M,3) of the vertices of `motion`
        errors     of the iterations; only those of the returned fit are left in it
        """
        fit, limit = decompose(motion, plan), most_bones(motion)
        while plan.bones < limit and _normal_distortion(motion, fit, triangles) > _MAX_DISTORTION:
            plan = replace(plan, bones=min(limit, -(-4 * plan.bones // 3)))
            errors.clear()
            fit = decompose(motion, plan)
        return fit

    def _most_likely(self, motion: Motion, vertices: np.ndarray) -> tuple[str, np.ndarray]:
        """Return the kind of network that explains some vertices (n,) best, and their labels (n,).

        Only labels that are the most likely one of a vertex compete for its places.
        """
        config = self.config
        sample, paths = motion.subset(vertices), trajectories(motion, vertices)
        found = []
        for kind, network in networks_of(config.kind, config.network):
            predicted = predict_labels(
                network, network_weights(kind, network, config.trained), paths
            )
            label = predicted.argmax(axis=1)
            start = highest_labels(predicted[:, np.unique(label)], self.config.influences)
            found.append((fit_affine(sample, *start).error, kind, label))
        _, kind, label = min(found, key=lambda one: one[0])
        return kind, label

    def _with_skeleton(
        self,
        poses: Poses,
        normalisation: Normalisation,
        fit: Fit,
        provenance: dict,
        progress: Progress,
    ) -> Deformer:
        """Return a deformer whose bones, rigid and at first independent, are joined."""
        fitted = fit_skeleton(
            poses,
            *_weights_and_bones(fit, normalisation),
            influences=self.config.influences,
            local=self.config.bones is None,
            progress=progress,
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


def _weights_and_bones(fit: Fit, normalisation: Normalisation) -> tuple[np.ndarray, np.ndarray]:
    """Return weights (V,B) in the order of the mesh, and world_from_rest (T,B,3,4)."""
    skin, world_from_rest = skin_and_bones(fit, normalisation)
    return skin_weights(skin, world_from_rest.shape[1]).toarray(), world_from_rest


def _normal_distortion(motion: Motion, fit: Fit, triangles: np.ndarray) -> float:
    """Return the mean angle between normals in some frames, in radians (NormDistort)."""
    frames = evenly(motion.rows // 3, _NORMAL_FRAMES)
    rows = rows_of(frames)
    shown = predict(motion, replace(fit, transforms=fit.transforms[rows]))
    true, approx = (
        _area_vectors(some.reshape(len(some), -1, 3), triangles)
        for some in (motion.targets[:, rows], shown)
    )
    one, other = (np.linalg.norm(vectors, axis=-1) for vectors in (true, approx))
    sines = np.linalg.norm(np.cross(true, approx), axis=-1) / np.maximum(one * other, 1e-60)
    return float(np.arcsin(min(1.0, sines.mean()))) if sines.size else 0.0


def _area_vectors(positions: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Return the normals (M,F,3) of triangles, as long as twice their areas; positions (V,F,3)."""
    one, two, three = (positions[triangles[:, corner]] for corner in range(3))
    return np.cross(two - one, three - one)

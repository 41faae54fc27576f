"""Measure any stand-in against the original poses: the same figures, curves and pictures for every
method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.error_summary import ErrorSummary
from understudy.core.poses import Poses
from understudy.evaluation.metrics import (
    best_bone_square,
    box_diagonal,
    compression_rate,
    normal_sines,
)
from understudy.evaluation.result import CaseResult

# What is measured: poses in, vertices (T,V,3) out; or the vertices of all poses, where they are
# known already.
Approximation = Callable[[Poses], np.ndarray] | np.ndarray

_BLOCK = 32


@dataclass(frozen=True, eq=False)
class Reference:
    """What a test animation is measured against, computed once for all methods.

    poses   the original, in memory
    square  the denominator of the enveloping error: each vertex moved by its best single bone of
            the whole skeleton (None: no bones)
    labels  (V,) the sets between which the seam is measured (None: it is not)
    """

    case: str
    poses: Poses
    square: float | None
    labels: np.ndarray | None

    @staticmethod
    def of(case: str, poses: Poses, labels: np.ndarray | None = None) -> Reference:
        if poses.skeleton is None:
            return Reference(case, poses, None, labels)
        return Reference(case, poses, best_bone_square(poses), labels)


def deform_poses(deformer: Deformer) -> Approximation:
    """A deformer as something to measure."""
    return lambda poses: deformer.deform(poses.world_from_bone, poses.controls)


def deform_clips(deformer: Deformer) -> np.ndarray:
    """Every frame of a deformer's clips, one after the other, (T,V,3) float32: what a sequence it
    was fitted to is measured against.
    """
    return np.concatenate(
        [deformer.deform_clip(number) for number in range(max(1, len(deformer.clips)))]
    )


def measure(
    method: str,
    approximation: Approximation,
    reference: Reference,
    figures: Mapping[str, float] | None = None,
    pictured: int | None = None,
) -> CaseResult:
    """One row: errors of `approximation` on a test animation. `figures` are added to the row
    (bytes, fit_s, ...).

    pictured: the frame to keep for pictures (None: this method's own worst).
    """
    poses, mesh = reference.poses, reference.poses.mesh
    if isinstance(approximation, np.ndarray):
        checks.shape_of(
            approximation, f"frames of {method!r}", (poses.pose_count, poses.vertex_count, 3)
        )
    frames = lambda at, block: (
        approximation[at] if isinstance(approximation, np.ndarray) else approximation(block)
    )
    seam = {} if reference.labels is None else {"edges": mesh.edges, "labels": reference.labels}
    summary = ErrorSummary(height=mesh.height, **seam)
    sequence = _SequenceErrors(poses) if poses.skeleton is None and poses.controls is None else None
    for start in range(0, poses.pose_count, _BLOCK):
        at = np.arange(start, min(start + _BLOCK, poses.pose_count))
        block = poses.take(at)
        approximated = frames(at, block)
        summary.add(block.vertices, approximated)
        if sequence is not None:
            sequence.add(block.vertices, approximated)
    row = summary.figures()
    del row[
        "rms"
    ]  # EE is the root-mean-square error, put in relation; a second column of it tells nothing more
    if sequence is not None:
        row |= sequence.figures(summary)
    if reference.square is not None:
        row["ee"] = summary.enveloping_error(reference.square)
    worst = summary.worst_pose if pictured is None else pictured
    frame = poses.take(np.array([worst]))
    return CaseResult(
        case=reference.case,
        method=method,
        figures={**row, **(figures or {})},
        per_frame_mean=summary.pose_mean,
        per_frame_max=summary.pose_max,
        per_vertex_mean=summary.vertex_mean,
        per_vertex_max=summary.vertex_max,
        histogram=summary.histogram(),
        worst_pose=worst,
        worst_true=frame.vertices[0],
        worst_approx=frames(np.array([worst]), frame)[0],
    )


def seam_sets(deformers: Iterable[Deformer]) -> np.ndarray | None:
    """(V,) the sets between which a seam may open: the main bones of the first deformer that
    learned its sets apart; None if none did.
    """
    for deformer in deformers:
        if len(deformer.nets) > 1 and deformer.skin is not None:
            return np.take_along_axis(
                deformer.skin.bone_index, deformer.skin.weight.argmax(axis=1)[:, None], axis=1
            )[:, 0]
    return None


class _SequenceErrors:
    """The measures of the decomposition papers, for poses that come without bones and controls:
    added block by block.
    """

    def __init__(self, poses: Poses):
        self._mesh = poses.mesh
        self._centre = np.zeros((poses.vertex_count, 3))
        for _, block in poses.pose_blocks():
            self._centre += block.sum(axis=0, dtype=np.float64)
        self._centre /= poses.pose_count
        self._motion = self._sines = 0.0

    def add(self, true: np.ndarray, approx: np.ndarray) -> None:
        self._motion += float(np.sum((true - self._centre) ** 2))
        self._sines += float(normal_sines(true, approx, self._mesh.triangles).sum())

    def figures(self, summary: ErrorSummary) -> dict[str, float]:
        coordinate_rms = summary.rms / np.sqrt(3)
        faces = len(self._mesh.triangles) * summary.pose_count
        result = {
            "e": 2000 * coordinate_rms / box_diagonal(self._mesh.vertices),
            "erms": 100 * coordinate_rms,
        }
        if self._motion > 0:
            result["disper"] = summary.enveloping_error(self._motion)
        result["max_avg_dist"] = float(summary.pose_max.mean())
        result["norm_distort"] = float(np.arcsin(min(1.0, self._sines / faces))) if faces else 0.0
        return result


def deformer_figures(deformer: Deformer) -> dict[str, float]:
    """The figures of a row that belong to the deformer itself; the compression rate where it has
    clips.
    """
    figures: dict[str, float] = {"bytes": deformer.cost()["bytes"]}
    skin = deformer.skin
    if skin is not None:
        bones, weights = (
            (skin.bone_index, skin.weight)
            if skin.virtual_index is None
            else (skin.virtual_index, skin.virtual_weight)
        )
        figures["bones"] = len(np.unique(bones[weights != 0]))
        figures["influences"] = int((skin.weight != 0).sum(axis=1).max())
        if skin.virtual_index is not None:
            figures["virtual_bones"] = len(skin.virtual_index)
        if deformer.clips:
            frames = sum(clip.frame_count for clip in deformer.clips)
            kept = skin.weight.size + (
                0 if skin.virtual_weight is None else skin.virtual_weight.size
            )
            figures["crp"] = compression_rate(
                frames, deformer.mesh.vertex_count, deformer.skeleton.bone_count, kept
            )
    return figures

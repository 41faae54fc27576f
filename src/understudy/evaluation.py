"""Measure any stand-in against the original poses: the same figures, curves and pictures for every method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from understudy.deformer import Deformer
from understudy.metrics import ErrorSummary, best_bone_square
from understudy.poses import Poses
from understudy.report import CaseResult

# What is measured: poses in, vertices (T,V,3) out.
Approximation = Callable[[Poses], np.ndarray]

_BLOCK = 32


@dataclass(frozen=True, eq=False)
class Reference:
    """What a test animation is measured against, computed once for all methods.

    poses   the original, in memory
    square  the denominator of the enveloping error: each vertex moved by its best single bone of the whole skeleton (None: no bones)
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


def measure(
    method: str, approximation: Approximation, reference: Reference, figures: Mapping[str, float] | None = None, pictured: int | None = None
) -> CaseResult:
    """One row: errors of `approximation` on a test animation. `figures` are added to the row (bytes, fit_s, ...).

    pictured: the frame to keep for pictures (None: this method's own worst).
    """
    poses, mesh = reference.poses, reference.poses.mesh
    seam = {} if reference.labels is None else {"edges": mesh.edges, "labels": reference.labels}
    summary = ErrorSummary(height=mesh.height, **seam)
    for start in range(0, poses.pose_count, _BLOCK):
        block = poses.take(np.arange(start, min(start + _BLOCK, poses.pose_count)))
        summary.add(block.vertices, approximation(block))
    row = summary.figures()
    del row["rms"]  # EE is the root-mean-square error, put in relation; a second column of it tells nothing more
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
        worst_approx=approximation(frame)[0],
    )


def seam_sets(deformers: Iterable[Deformer]) -> np.ndarray | None:
    """(V,) the sets between which a seam may open: the main bones of the first deformer that learned its sets apart; None if none did."""
    for deformer in deformers:
        if len(deformer.nets) > 1 and deformer.skin is not None:
            return np.take_along_axis(deformer.skin.bone_index, deformer.skin.weight.argmax(axis=1)[:, None], axis=1)[:, 0]
    return None


def deformer_figures(deformer: Deformer) -> dict[str, float]:
    """The figures of a row that belong to the deformer itself."""
    figures: dict[str, float] = {"bytes": deformer.cost()["bytes"]}
    if deformer.skin is not None:
        figures["bones"] = len(np.unique(deformer.skin.bone_index[deformer.skin.weight != 0]))
        figures["influences"] = int((deformer.skin.weight != 0).sum(axis=1).max())
    return figures

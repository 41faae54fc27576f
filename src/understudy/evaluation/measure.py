"""Measure stand-ins against the original poses: the same metrics and curves for every method.

`measure_deformers` is the loop that the command line, the demo and `compress` share. Benchmarks
whose baselines are not deformers call `measure` for each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.error_summary import ErrorSummary, pose_difference
from understudy.core.poses import Poses
from understudy.evaluation.coverage import coverage_notes
from understudy.evaluation.result import CaseResult, PicturedFrame
from understudy.geometry.error_norms import box_error
from understudy.geometry.normals import unit
from understudy.methods.skin_fitting.best_bone import rigid_errors
from understudy.system import checks
from understudy.system.progress import SILENT, Progress

# What is measured: a function from poses to vertices (T,V,3), or the vertices of all poses.
Approximation = Callable[[Poses], np.ndarray] | np.ndarray

_BLOCK, _BLOCK_BYTES = 32, 1 << 25  # poses compared at a time, and their vertices


@dataclass(frozen=True, eq=False)
class Reference:
    """A test animation and what all methods are measured against on it.

    case              name of the case in tables and reports
    poses             the original, in memory
    best_bone_square  denominator of the enveloping error: squared distance of the original from
                      each vertex moved by its best single bone; None without bones
    labels            (V,) region of each vertex; the seam is measured between regions. None: it is
                      not measured
    """

    case: str
    poses: Poses
    best_bone_square: float | None
    labels: np.ndarray | None

    @staticmethod
    def of(case: str, poses: Poses, labels: np.ndarray | None = None) -> Reference:
        """The reference of a case, with the denominator of the enveloping error computed."""
        square = None if poses.skeleton is None else rigid_errors(poses).min(axis=1).sum()
        return Reference(case, poses, None if square is None else float(square), labels)


def measure_deformers(
    deformers: Mapping[str, Deformer],
    cases: Mapping[str, Poses | Callable[[], Poses]],
    figures: Mapping[str, Mapping[str, float]] | None = None,
    progress: Progress = SILENT,
) -> list[CaseResult]:
    """One row for each case and deformer, case by case.

    deformers  name -> deformer; the names become the methods of the rows. The first one decides
               which frame of a case is kept for pictures: the frame of its largest error
    cases      name -> the original poses, or a function that returns them. A function is called
               when its case is measured, so that only one case is in memory at a time
    figures    name of a deformer -> figures to add to its rows, such as {"fit_s": 12.5}

    Poses without bones and controls are compared with the deformer's own clips.
    """
    labels = seam_labels(deformers.values())
    rows: list[CaseResult] = []
    with progress.task("measuring", len(cases) * len(deformers)) as bar:
        for case, poses in cases.items():
            reference = Reference.of(case, poses() if callable(poses) else poses, labels)
            pictured = None
            for name, deformer in deformers.items():
                own = deformer_figures(deformer) | distance_figures(deformer, reference.poses)
                own |= (figures or {}).get(name, {})
                approximation = deform_as(deformer, reference.poses)
                row = measure(name, approximation, reference, own, pictured)
                row = replace(row, notes=coverage_notes(deformer, reference.poses, row))
                pictured = row.pictured if pictured is None else pictured
                rows.append(row)
                bar.advance()
    return rows


def deform_as(deformer: Deformer, poses: Poses) -> Approximation:
    """What to compare with `poses`: the deformer's own clips for a bare sequence, else `deform`."""
    if deformer.clips and poses.skeleton is None and poses.controls is None:
        return deform_clips(deformer)
    return deform_poses(deformer)


def deform_poses(deformer: Deformer) -> Approximation:
    """A function that deforms the bones and controls of the poses that it gets."""
    return lambda poses: deformer.deform(poses.world_from_bone, poses.controls)


def pose_errors(deformer: Deformer, poses: Poses) -> np.ndarray:
    """The mean error (T,) float64 of each pose."""
    found = np.empty(poses.pose_count)
    for where, block in poses.pose_blocks(16):
        part = poses.between(where.start, where.stop)
        off = np.linalg.norm(deformer.deform(part.world_from_bone, part.controls) - block, axis=2)
        found[where] = off.mean(axis=1, dtype=np.float64)
    return found


def deform_clips(deformer: Deformer) -> np.ndarray:
    """Every frame of the deformer's clips, one clip after the other: (T,V,3) float32."""
    return np.concatenate(
        [deformer.deform_clip(number) for number in range(max(1, len(deformer.clips)))]
    )


def sequence_error(poses: Poses, deformer: Deformer) -> float:
    """The error E of the deformer's own clips on the sequence that they were fitted to."""
    shown = deform_clips(deformer)
    checks.shape_of(shown, "frames of the clips", (poses.pose_count, poses.vertex_count, 3))
    square = 0.0
    for where, block in poses.pose_blocks(16):
        square += float(((block.astype(np.float64) - shown[where]) ** 2).sum())
    diagonal = float(np.linalg.norm(np.ptp(poses.mesh.vertices.astype(np.float64), axis=0)))
    return 2000 * math.sqrt(square / shown.size) / diagonal if diagonal else 0.0


def measure(
    method: str,
    approximation: Approximation,
    reference: Reference,
    figures: Mapping[str, float] | None = None,
    pictured: PicturedFrame | None = None,
) -> CaseResult:
    """One row: the errors of an approximation on a test animation.

    method         name of the row
    approximation  a function from poses to vertices (T,V,3), or those vertices
    figures        added to the row's own, such as {"bytes": 12000, "fit_s": 3.5}
    pictured       of another row, whose frame to keep; None: the frame of the largest error
    """
    poses, mesh = reference.poses, reference.poses.mesh
    if isinstance(approximation, np.ndarray):
        checks.shape_of(
            approximation, f"frames of {method!r}", (poses.pose_count, poses.vertex_count, 3)
        )

    def approximated(at: np.ndarray, block: Poses) -> np.ndarray:
        if isinstance(approximation, np.ndarray):
            return approximation[at]
        return approximation(block)

    edges = None if reference.labels is None else mesh.edges
    summary = ErrorSummary(height=mesh.height, edges=edges, labels=reference.labels)
    sequence = _SequenceErrors(poses) if poses.skeleton is None and poses.controls is None else None
    for where, true in poses.pose_blocks(poses.block_size(_BLOCK, _BLOCK_BYTES)):
        at = np.arange(where.start, where.stop)
        approx = approximated(at, poses.between(where.start, where.stop))
        summary.add(true, approx)
        if sequence is not None:
            sequence.add(true, approx)
    row = summary.figures()
    # The enveloping error is the relative root-mean-square error, so rms would say it twice.
    del row["rms"]
    if sequence is not None:
        row |= sequence.figures(summary)
    if reference.best_bone_square is not None:
        row["ee"] = summary.enveloping_error(reference.best_bone_square)
    worst = summary.worst_pose if pictured is None else pictured.pose
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
        pictured=PicturedFrame(
            worst, frame.read_poses(0, 1)[0], approximated(np.array([worst]), frame)[0]
        ),
    )


def seam_labels(deformers: Iterable[Deformer]) -> np.ndarray | None:
    """(V,) the region of each vertex, for the seam; None if no deformer has separate regions.

    Regions are the main bones of the first deformer with several networks.
    """
    for deformer in deformers:
        if len(deformer.nets) > 1 and deformer.skin is not None:
            main = deformer.skin.weight.argmax(axis=1)[:, None]
            return np.take_along_axis(deformer.skin.bone_index, main, axis=1)[:, 0]
    return None


class _SequenceErrors:
    """The metrics of the decomposition papers, for poses without bones and controls.

    Poses arrive block by block.
    """

    def __init__(self, poses: Poses):
        self._mesh = poses.mesh
        self._average = np.zeros((poses.vertex_count, 3))
        for _, block in poses.pose_blocks():
            self._average += block.sum(axis=0, dtype=np.float64)
        self._average /= poses.pose_count
        self._motion_square = self._normal_sines = 0.0

    def add(self, true: np.ndarray, approx: np.ndarray) -> None:
        """One more block of original and approximate poses, (t,V,3) each."""
        self._motion_square += float(np.sum((true - self._average) ** 2))
        self._normal_sines += float(normal_sines(true, approx, self._mesh.triangles).sum())

    def figures(self, summary: ErrorSummary) -> dict[str, float]:
        """e, erms, disper, max_avg_dist and norm_distort; `summary` has the same blocks."""
        coordinate_rms = summary.rms / np.sqrt(3)
        faces = len(self._mesh.triangles) * summary.pose_count
        result = {
            "e": relative_to_box(coordinate_rms, self._mesh.vertices),
            "erms": 100 * coordinate_rms,
        }
        if self._motion_square > 0:
            result["disper"] = summary.enveloping_error(self._motion_square)
        result["max_avg_dist"] = float(summary.pose_max.mean())
        mean_sine = self._normal_sines / faces if faces else 0.0
        result["norm_distort"] = float(np.arcsin(min(1.0, mean_sine)))
        return result


def deformer_figures(deformer: Deformer) -> dict[str, float]:
    """The figures that belong to the deformer itself: bytes, bones, influences, virtual_bones, crp.

    The compression rate `crp` is there if the deformer has clips.
    """
    figures: dict[str, float] = {"bytes": deformer.cost()["bytes"]}
    skin, skeleton = deformer.skin, deformer.skeleton
    if skin is None or skeleton is None:
        return figures
    bones, weights, weight_count = skin.bone_index, skin.weight, skin.weight.size
    if skin.virtual_index is not None and skin.virtual_weight is not None:
        bones, weights = skin.virtual_index, skin.virtual_weight
        weight_count += weights.size
        figures["virtual_bones"] = len(bones)
    figures["bones"] = len(np.unique(bones[weights != 0]))
    figures["influences"] = int((skin.weight != 0).sum(axis=1).max())
    if deformer.clips:
        frames = sum(clip.frame_count for clip in deformer.clips)
        figures["crp"] = compression_rate(
            frames, deformer.mesh.vertex_count, skeleton.bone_count, weight_count
        )
    return figures


def distance_figures(deformer: Deformer, poses: Poses) -> dict[str, float]:
    """How far poses lie from the training poses: distance, outside_pct; empty without bounds."""
    if deformer.bounds is None or (poses.world_from_bone is None and poses.controls is None):
        return {}
    far = deformer.distance_from_data(poses.world_from_bone, poses.controls)
    return {"distance": float(far.max()), "outside_pct": 100 * float((far > 1).mean())}


def relative_to_box(coordinate_rms: float, rest: np.ndarray) -> float:
    """E of the decomposition papers from the root-mean-square error of a coordinate.

    >>> relative_to_box(0.5, np.array([[0, 0, 0], [3, 4, 0]]))
    200.0
    """
    checks.between(float(np.ptp(rest, axis=0).max()), "extent of the rest pose", above=0.0)
    return box_error(coordinate_rms, rest)


def normal_sines(true: np.ndarray, approx: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """|n x n'|, the sine of the angle between the normals of each face in each pose: (T,M) float64.

    true, approx  (T,V,3)
    triangles     (M,3)
    """
    pose_difference(true, approx)  # checks the shapes
    normals = []
    for shape in (true, approx):
        a, b, c = np.moveaxis(np.asarray(shape, np.float64)[:, triangles], 2, 0)
        normals.append(unit(np.cross(b - a, c - a)))  # zero where a face has no area
    before, after = normals
    return np.linalg.norm(np.cross(before, after), axis=-1)


def compression_rate(poses: int, vertices: int, bones: int, weights: int) -> float:
    """CRP = 100 (1 - (12 B T + w + 3 V) / (3 V T)), in percent (temporal deep skinning Table 2).

    The numbers to store (bones of every frame, weights, rest pose) against those of the sequence.
    The paper does not count indices.

    weights  w, the number of stored weights: V K, plus the entries of D with virtual bones

    >>> round(compression_rate(48, 8431, 26, 6 * 8431), 1)
    92.5
    >>> round(compression_rate(175, 9971, 17, 6 * 9971), 1)
    97.6
    """
    return 100.0 * (1.0 - (12 * bones * poses + weights + 3 * vertices) / (3 * vertices * poses))

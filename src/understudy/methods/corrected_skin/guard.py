"""Keeps correctives only where they beat fitted linear blend skinning on poses kept aside.

`skins_of` has the skins of some poses. `auto` and the guard need them again for the same poses, and
they take longer than a small fit, so they are kept as long as the poses are.

Letters: T poses, V vertices, R regions.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.networks import Basis, Net
from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.methods.correctives.evidence import ENOUGH_POSES, Evidence
from understudy.methods.correctives.skins import make_skin
from understudy.system.progress import Progress

MEASURED_POSES = 400  # kept-aside poses that are measured, at most
_FEWEST_FRAMES = 8
_BLOCK = 32
_ALIKE = 0.5  # distance of neighbours relative to that of any two poses, in a motion
_KEPT: weakref.WeakKeyDictionary[Poses, dict[int, Skins]] = weakref.WeakKeyDictionary()


def clips_aside(poses: Poses, fraction: float) -> np.ndarray:
    """The frames (n,) of recorded clips to keep aside, increasing; empty for a random sample.

    fraction  of the poses to keep aside, at least
    The last clips where there are several, the end of the recording where there is one. A recording
    need not say that it is one: its neighbouring frames are alike.
    """
    count, wanted = poses.pose_count, fraction * poses.pose_count
    none = np.zeros(0, np.int64)
    if not wanted:
        return none
    if len(poses.spans) > 1:
        ends = np.cumsum([span.frame_count for span in poses.spans])
        starts = [int(end - span.frame_count) for end, span in zip(ends, poses.spans)]
        # As few of the last clips as are enough, and never more than half of the poses.
        start = next((s for s in reversed(starts[1:]) if count - s >= wanted), starts[1])
        return none if count - start > count / 2 else np.arange(start, count)
    if wanted < _FEWEST_FRAMES or not (poses.frame_rate is not None or in_motion(poses)):
        return none
    return np.arange(count - int(np.ceil(wanted)), count)


def in_motion(poses: Poses) -> bool:
    """Whether neighbouring poses are much more alike than others, as frames of a motion are."""
    parts = [
        values.reshape(len(values), -1)
        for values in (poses.world_from_bone, poses.controls)
        if values is not None
    ]
    if not parts or poses.pose_count < 2 * _FEWEST_FRAMES:
        return False
    rows = np.concatenate(parts, axis=1)
    rows = rows[:, np.ptp(rows, axis=0) > 0]
    if not rows.shape[1]:
        return False
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    far = rows[np.random.default_rng(0).permutation(len(rows))]
    step = np.median(np.linalg.norm(np.diff(rows, axis=0), axis=1))
    return bool(step < _ALIKE * np.median(np.linalg.norm(rows - far, axis=1)))


def region_errors(deformer: Deformer, poses: Poses, labels: np.ndarray) -> np.ndarray:
    """The mean and the root-mean-square error of each region on some poses: (2,R).

    labels  (V,) the region of each vertex
    """
    size = np.bincount(labels)
    sums = np.zeros((2, len(size)))
    count = 0
    for where, true in poses.pose_blocks(_BLOCK):
        bones, controls = (
            None if values is None else values[where]
            for values in (poses.world_from_bone, poses.controls)
        )
        error = np.linalg.norm(deformer.deform_reference(bones, controls) - true, axis=2)
        sums[0] += np.bincount(labels, error.sum(axis=0, dtype=np.float64), len(size))
        sums[1] += np.bincount(labels, np.square(error).sum(axis=0, dtype=np.float64), len(size))
        count += len(error)
    sums /= np.maximum(size, 1) * max(count, 1)
    sums[1] = np.sqrt(sums[1])
    return sums


def mean_error(deformer: Deformer, poses: Poses) -> float:
    """The mean distance of a deformer from some poses."""
    one = np.zeros(poses.vertex_count, int)
    return float(region_errors(deformer, poses, one)[0, 0])


def needless_regions(
    corrected: Deformer, plain: Deformer, poses: Poses, labels: np.ndarray
) -> np.ndarray:
    """The regions (n,) whose correctives leave a larger error than a plain skin.

    corrected, plain  the two deformers
    poses             poses that took no part in either
    labels            (V,) the region of each vertex
    """
    few = poses.take(evenly(poses.pose_count, MEASURED_POSES))
    ours, theirs = (region_errors(d, few, labels) for d in (corrected, plain))
    return np.flatnonzero((ours > theirs).any(axis=0))


def without_correctives(deformer: Deformer, vertices: np.ndarray, skin: Skin) -> Deformer:
    """`deformer` with another skin, and no correctives, for some vertices.

    vertices  (n,) these vertices
    skin      of all vertices, with at most as many influences
    """
    if not len(vertices) or deformer.skin is None:
        return deformer
    width = max(deformer.skin.influences, skin.influences)
    index, weight = (
        np.stack([_padded(a, width), _padded(b, width)])
        for a, b in (
            (deformer.skin.bone_index, skin.bone_index),
            (deformer.skin.weight, skin.weight),
        )
    )
    chosen = np.zeros(deformer.mesh.vertex_count, int)
    chosen[vertices] = 1
    rows = np.arange(len(chosen))
    mean = None if deformer.mean is None else np.where(chosen[:, None] == 1, 0, deformer.mean)
    bases = []
    for basis in deformer.bases:
        kept = chosen[basis.vertices] == 0
        if kept.any():
            matrix = basis.matrix.reshape(len(basis.vertices), 3, -1)[kept]
            bases.append(
                Basis(
                    basis.vertices[kept],
                    matrix.reshape(-1, basis.matrix.shape[1]),
                    basis.coefficients,
                )
            )
    read = [np.zeros(0, int), *(basis.coefficients for basis in bases)]
    bounds = (
        None if deformer.bounds is None else deformer.bounds.take(np.unique(np.concatenate(read)))
    )
    nets, bases = with_used_outputs(deformer.nets, bases)
    return replace(
        deformer,
        bounds=bounds,
        skin=Skin(index[chosen, rows], weight[chosen, rows]),
        mean=mean,
        nets=tuple(nets),
        bases=tuple(bases),
    )


def with_used_outputs(nets: tuple[Net, ...], bases: list[Basis]) -> tuple[list[Net], list[Basis]]:
    """Networks with the outputs that some basis reads, renumbered without gaps, and the bases."""
    read = [np.zeros(0, int), *(basis.coefficients.reshape(-1) for basis in bases)]
    used = np.unique(np.concatenate(read))
    kept_nets = []
    for net in nets:
        kept = np.isin(net.outputs, used)
        if kept.any():
            kept_nets.append(
                Net(
                    net.inputs,
                    (*net.weights[:-1], net.weights[-1][kept]),
                    (*net.biases[:-1], net.biases[-1][kept]),
                    np.searchsorted(used, net.outputs[kept]),
                    net.activation,
                )
            )
    renumbered = [Basis(b.vertices, b.matrix, np.searchsorted(used, b.coefficients)) for b in bases]
    return kept_nets, renumbered


def _padded(rows: np.ndarray, width: int) -> np.ndarray:
    """Rows (V,K) with zeros up to `width` columns."""
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])))


@dataclass(frozen=True, eq=False)
class Skins:
    """Two skins of the same poses.

    fitted  weights fitted by least squares
    chosen  these, or the best single bone with blended borders: what predicts held-out poses better
    """

    fitted: Skin
    chosen: Skin


def skins_of(poses: Poses, influences: int, progress: Progress) -> Skins:
    """The skins of poses with bones, at most `influences` bones per vertex."""
    kept = _KEPT.setdefault(poses, {})
    if influences not in kept:
        fitted = chosen = make_skin("fitted", poses, None, influences, progress)
        if poses.pose_count >= ENOUGH_POSES:
            blended = make_skin("blended", poses, None, influences, progress)
            chosen = min((blended, fitted), key=lambda skin: Evidence.of(poses, skin).error("all"))
        kept[influences] = Skins(fitted, chosen)
    return kept[influences]


def share_skins(few: Poses, poses: Poses) -> None:
    """Let fits of `few` use the skins of `poses`, of which they are a part."""
    _KEPT[few] = _KEPT.setdefault(poses, {})

"""Keeps correctives only where they beat fitted linear blend skinning on poses kept aside.

Letters: T poses, V vertices, R regions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.networks import Basis, Net
from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin

MEASURED_POSES = 400  # kept-aside poses that are measured, at most
_BLOCK = 32


def region_errors(deformer: Deformer, poses: Poses, labels: np.ndarray) -> np.ndarray:
    """The mean and the root-mean-square error of each region on some poses: (2,R).

    labels  (V,) the region of each vertex
    """
    size = np.bincount(labels)
    sums = np.zeros((2, len(size)))
    count = 0
    for where, true in poses.pose_blocks(_BLOCK):
        some = poses.between(where.start, where.stop)
        found = deformer.deform_reference(some.world_from_bone, some.controls)
        error = np.linalg.norm(found - true, axis=2)
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
    corrected: Deformer, skin: Skin, poses: Poses, labels: np.ndarray
) -> np.ndarray:
    """The regions (n,) whose correctives leave a larger error than a plain skin.

    poses   poses that took no part in either
    labels  (V,) the region of each vertex
    """
    plain = replace(corrected, skin=skin, nets=(), bases=(), mean=None)
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
    gone = np.zeros((deformer.mesh.vertex_count, 1), bool)
    gone[vertices] = True
    width = max(deformer.skin.influences, skin.influences)
    wide = lambda rows: np.pad(rows, ((0, 0), (0, width - rows.shape[1])))
    either = lambda ours, theirs: np.where(gone, wide(theirs), wide(ours))
    merged = Skin(
        either(deformer.skin.bone_index, skin.bone_index),
        either(deformer.skin.weight, skin.weight),
    )
    bases = []
    for basis in deformer.bases:
        kept = ~gone[basis.vertices, 0]
        if kept.any():
            matrix = basis.matrix[np.repeat(kept, len(basis.matrix) // len(kept))]
            bases.append(Basis(basis.vertices[kept], matrix, basis.coefficients))
    mean = None if deformer.mean is None else np.where(gone, 0, deformer.mean)
    return replace(with_bases(deformer, bases), skin=merged, mean=mean)


def with_bases(deformer: Deformer, bases: list[Basis]) -> Deformer:
    """`deformer` with other bases of its coefficients, and of the latter those that some reads."""
    read = [np.zeros(0, int), *(basis.coefficients.reshape(-1) for basis in bases)]
    used = np.unique(np.concatenate(read))
    nets = []
    for net in deformer.nets:
        kept = np.isin(net.outputs, used)
        if kept.any():
            weights = (*net.weights[:-1], net.weights[-1][kept])
            biases = (*net.biases[:-1], net.biases[-1][kept])
            outputs = np.searchsorted(used, net.outputs[kept])
            nets.append(Net(net.inputs, weights, biases, outputs, net.activation))
    numbered = lambda basis: replace(basis, coefficients=np.searchsorted(used, basis.coefficients))
    return replace(
        deformer,
        nets=tuple(nets),
        bases=tuple(map(numbered, bases)),
        bounds=None if deformer.bounds is None else deformer.bounds.take(used),
    )

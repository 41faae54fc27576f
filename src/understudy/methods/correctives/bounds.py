"""What bounds a deformer outside its training poses: the one step that all methods share.

`understudy.core.bounds` has the equations. Here their numbers are found:

- The range of each coefficient is that of the networks over the training poses. It is widened for
  random poses, which fill their range, so that networks extrapolate well; and not for recorded
  motion, which leaves most of it empty. Random values of many controls are far from rest, where
  most of them are at one end: the range also covers rest and each control alone.
- Each bone or control that networks read is a unit. Its training poses are covered by a few
  clusters: farthest points first, then k-means. All clusters of a unit have one radius, so that
  every training pose is inside.
- That radius is widened until poses that are kept aside are inside too, and by a share of the size
  of the whole cloud, so that nothing fades near the data. Kept aside are, in turn, consecutive
  blocks of the poses, and clusters of the others are found without them.

Letters: T poses, X features, U units, K clusters, D features per unit, N coefficients.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.core.bounds import Bounds
from understudy.core.deformer import Deformer
from understudy.core.features import unit_of
from understudy.core.poses import Poses, evenly
from understudy.rigs.sampling import range_of_motion_values
from understudy.runtime.reference import deform_reference, pose_readings
from understudy.training.held_out import in_motion

_CLUSTERS = 8
_ROUNDS = 8  # of k-means
_BLOCKS = 5  # of poses that are kept aside in turn
_MOST_POSES = 1000  # for clusters; ranges use all of them
_MARGIN = 0.5  # of the radius of the cloud, added to the radius of the clusters
FADE_END = 3.0
_SAMPLED_MARGIN = 0.25  # of the range of a coefficient, where poses are random
# The least size of a cloud: of the entries of a bone's matrix (0.2 is a turn by 8 degrees), and of
# its position, relative to the height of the mesh.
_LEAST_TURN, _LEAST_MOVE = 0.2, 0.01
_LEAST_SIZE = 1e-6  # of a control, relative to its values
_BLOCK_POSES = 256  # evaluated at once
_MEASURED_POSES = 60


def with_bounds(
    deformer: Deformer, poses: Poses, held_out: np.ndarray | None = None, added: Poses | None = None
) -> Deformer:
    """Return `deformer` bounded by the poses it was trained on.

    poses     all poses of the fit
    held_out  numbers of those that were kept out of the training, on which the error of each vertex
              is measured; None or empty: it is not measured
    added     further training poses

    A deformer without networks has nothing to bound.
    """
    if not deformer.nets:
        return deformer
    readings = _readings(deformer, poses)
    more = None if added is None else _readings(deformer, added)
    bounded = replace(deformer, bounds=find_bounds(deformer, readings, more))
    if held_out is None or not len(held_out):
        return bounded
    return with_held_out_error(bounded, poses, held_out)


def with_held_out_error(deformer: Deformer, poses: Poses, held_out: np.ndarray) -> Deformer:
    """Return `deformer` with the mean error of each vertex on some of the poses, by number."""
    some = np.sort(held_out)[evenly(len(held_out), _MEASURED_POSES)]
    measured = poses.take(some)
    found = deform_reference(deformer, measured.world_from_bone, measured.controls)
    off = np.linalg.norm(found - np.asarray(measured.vertices), axis=2)
    error = off.mean(axis=0, dtype=np.float64).astype(np.float32)
    return replace(deformer, held_out_error=error)


def find_bounds(
    deformer: Deformer, readings: np.ndarray, added: np.ndarray | None = None
) -> Bounds:
    """Return the bounds by features of training poses (T,X), and of `added` ones (R,X)."""
    sampled = not in_motion(readings)
    if added is not None:
        every = np.concatenate([readings, added])
    elif sampled:
        every = np.concatenate([readings, _readings_of_single_controls(deformer)])
    else:
        every = readings
    low, high = _coefficient_range(deformer, every)
    if sampled:
        low, high = low - _SAMPLED_MARGIN * (high - low), high + _SAMPLED_MARGIN * (high - low)
    unit_of_feature = unit_of(deformer.features.columns, deformer.bone_count)
    used = np.unique(np.concatenate([net.inputs for net in deformer.nets]))
    units = np.unique(unit_of_feature[used])
    some = readings[evenly(len(readings), _MOST_POSES)].astype(np.float64)
    some = some if added is None else np.concatenate([some, added])
    found = []
    for unit in units:
        features = np.flatnonzero(unit_of_feature == unit)
        values = some[:, features]
        found.append(_cover(features, values, _sizes(deformer, features, values)))
    group, of_groups = _groups(deformer, unit_of_feature, units)
    return Bounds(low, high, group, of_groups, *_stacked(found), fade_end=FADE_END)


# The clusters of one unit: its features (D,), their scale (D,) and the centres (K,D).
_Cover = tuple[np.ndarray, np.ndarray, np.ndarray]


def _cover(features: np.ndarray, values: np.ndarray, least: np.ndarray) -> _Cover:
    """Return the clusters of values (T,D) of a unit; ranges (D,) are at least `least`."""
    scaled = values / least
    middle = (scaled.min(axis=0) + scaled.max(axis=0)) / 2
    size = max(1.0, float(np.sqrt(np.square(scaled - middle).sum(axis=1).max(initial=0))))
    if len(features) == 1:  # one number: its range is the cluster
        centres, radius = middle[None], size
    else:
        centres = _clusters(scaled)
        radius = max(float(_distances(scaled, centres).max(initial=0)), _kept_aside(scaled))
    radius += _MARGIN * size
    return features, 1 / np.square(least * radius), centres * least


def _kept_aside(values: np.ndarray) -> float:
    """Return how far blocks of poses lie from the clusters of the others."""
    blocks = np.array_split(np.arange(len(values)), _BLOCKS)
    far = [0.0]
    for block in blocks:
        others = np.delete(values, block, axis=0)
        if len(block) and len(others):
            far.append(float(_distances(values[block], _clusters(others)).max()))
    # One block may be a motion like no other; it does not decide alone.
    return sorted(far)[-2] if len(far) > 2 else far[-1]


def _clusters(values: np.ndarray) -> np.ndarray:
    """Return the centres (K,D) of clusters of values (T,D)."""
    chosen = [int(np.square(values - values.mean(axis=0)).sum(axis=1).argmin())]
    nearest = np.square(values - values[chosen[0]]).sum(axis=1)
    while len(chosen) < _CLUSTERS and nearest.max() > 0:
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, np.square(values - values[chosen[-1]]).sum(axis=1))
    centres = values[chosen]
    for _ in range(_ROUNDS):
        owner = _squared(values, centres).argmin(axis=1)
        member = (owner == np.arange(len(centres))[:, None]).astype(np.float64)  # (K,T)
        count = member.sum(axis=1, keepdims=True)
        centres = np.where(count > 0, member @ values / np.maximum(count, 1), centres)
    return centres


def _squared(values: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the squared distances (T,K) of values (T,D) from centres (K,D)."""
    products = values @ centres.T
    squares = np.square(values).sum(axis=1)[:, None] + np.square(centres).sum(axis=1)
    return np.maximum(squares - 2 * products, 0)


def _distances(values: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the distances (T,) of values (T,D) from the nearest of centres (K,D)."""
    return np.sqrt(_squared(values, centres).min(axis=1))


def _stacked(found: list[_Cover]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features (U,D), scale (U,D) and centres (U,K,D), padded as `Bounds` asks."""
    width = max((len(own) for own, _, _ in found), default=0)
    clusters = max((len(own) for _, _, own in found), default=0)
    features = np.zeros((len(found), width), np.int32)
    scale = np.zeros((len(found), width))
    centres = np.zeros((len(found), clusters, width))
    for u, (numbers, sizes, places) in enumerate(found):
        own = len(numbers)
        features[u] = numbers[_or_first(own, width)]
        scale[u, :own] = sizes
        centres[u, :, :own] = places[_or_first(len(places), clusters)]
    return features, scale, centres


def _or_first(count: int, width: int) -> np.ndarray:
    """Return the numbers (width,) of `count` entries, then that of the first."""
    numbers = np.arange(width)
    return np.where(numbers < count, numbers, 0)


def _sizes(deformer: Deformer, features: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the least size (D,) of the range of some features of one unit, values (T,D)."""
    columns = deformer.features.columns[features]
    if columns[0] >= 12 * deformer.bone_count:
        return np.full(len(features), _LEAST_SIZE * max(1.0, float(np.abs(values).max(initial=0))))
    move = _LEAST_MOVE * deformer.mesh.height
    return np.where(columns % 4 == 3, max(move, 1e-9), _LEAST_TURN)


def _groups(
    deformer: Deformer, unit_of_feature: np.ndarray, units: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the group (N,) of each coefficient and the units (G,S) of each group."""
    reads = np.zeros((deformer.coefficient_count, len(units)), bool)
    for net in deformer.nets:
        own = np.searchsorted(units, np.unique(unit_of_feature[net.inputs]))
        reads[np.ix_(net.outputs, own)] = True
    rows, group = np.unique(reads, axis=0, return_inverse=True)
    group = group.reshape(-1)
    most = int(rows.sum(axis=1).max(initial=1))
    of_groups = np.zeros((len(rows), most), np.int32)
    for place, row in zip(of_groups, rows):
        if row.any():
            own = np.flatnonzero(row)
            place[:] = own[_or_first(len(own), most)]
    return np.where(reads.any(axis=1), group, -1), of_groups if len(units) else of_groups[:0]


def _readings(deformer: Deformer, poses: Poses) -> np.ndarray:
    """Return the features (T,X) of the poses, not clamped."""
    parts = []
    for start in range(0, poses.pose_count, _BLOCK_POSES):
        part = poses.between(start, min(start + _BLOCK_POSES, poses.pose_count))
        bones = None if deformer.skeleton is None else part.world_from_bone
        parts.append(pose_readings(deformer, bones, part.controls))
    return np.concatenate(parts)


def _readings_of_single_controls(deformer: Deformer) -> np.ndarray:
    """Return the features (R,X) of rest and of each control alone; none where there are bones."""
    spec = deformer.control_spec
    if deformer.skeleton is not None or spec is None:  # bones move in ways that only a rig knows
        return np.zeros((0, deformer.features.count), np.float32)
    return pose_readings(deformer, None, range_of_motion_values(spec, 1 + 2 * spec.count))


def _coefficient_range(deformer: Deformer, readings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest value (N,) of each coefficient over poses (T,X)."""
    features = deformer.features
    low = np.full(deformer.coefficient_count, np.inf, np.float32)
    high = -low
    for start in range(0, len(readings), _BLOCK_POSES):
        part = np.clip(readings[start : start + _BLOCK_POSES], features.low, features.high)
        found = deformer.net_groups(part)
        low, high = np.minimum(low, found.min(axis=0)), np.maximum(high, found.max(axis=0))
    return low, high

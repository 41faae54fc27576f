"""Features of a pose: which of them vary, their standardisation and their range.

A pose has raw features (`core.features.raw_features`): the 12 numbers of every bone in its parent's
frame, then its controls. They belong to units that are selected together: a bone or a control.

Letters: T poses, X features, B bones, C controls; unit b < B is bone b, unit B + c is control c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.features import Features, raw_features
from understudy.core.networks import Net
from understudy.core.poses import Poses

CONTROLS = ("auto", "numeric", "all", "none")
_LEAST_VARIATION = 1e-5  # of a feature's size (at least 1): features that vary less are constant
# Features of bones that vary less hold the rounding errors of the rig that computed them. A short
# bone turns by the rounding errors of its ends divided by its length. Of the size of the bone's
# 3x3 matrix (a turn of 0.06 degrees), and of the largest distance of a bone from its parent.
_LEAST_TURN, _LEAST_OFFSET = 1e-3, 3e-5
_LEAST_SPREAD = 1e-9


@dataclass(frozen=True, eq=False)
class FeatureUnits:
    """The features that vary over the training poses.

    columns  (X,) int32 into the raw features
    unit     (X,) int32, the unit of each feature
    count    number of units, B + C
    """

    columns: np.ndarray
    unit: np.ndarray
    count: int

    @property
    def varying(self) -> np.ndarray:
        """(units,) bool: the units with at least one feature."""
        result = np.zeros(self.count, bool)
        result[self.unit] = True
        return result


def pose_features(
    poses: Poses, controls: str, *, constant: bool = False
) -> tuple[np.ndarray, FeatureUnits]:
    """The raw features (T,12 B + C) float32 of the poses, and those of them that vary.

    controls  the controls to include: numeric (those that act other than through bones; every
              control where there are no bones), all, or none
    constant  also those that do not vary
    """
    skeleton, spec = poses.skeleton, poses.control_spec
    bone_count = 0 if skeleton is None else skeleton.bone_count
    raw = raw_features(skeleton, poses.world_from_bone, poses.controls, poses.pose_count)
    chosen = np.zeros(0, int)
    if spec is not None and controls != "none":
        numeric = np.zeros(spec.count, bool) if spec.numeric is None else spec.numeric
        use_numeric = controls == "numeric" and bone_count > 0
        chosen = np.flatnonzero(numeric) if use_numeric else np.arange(spec.count)
    roots = np.zeros(0, int) if skeleton is None else skeleton.roots
    return raw, varying_features(raw, bone_count, roots, chosen, constant=constant)


def varying_features(
    raw: np.ndarray,
    bone_count: int,
    roots: np.ndarray,
    controls: np.ndarray,
    *,
    constant: bool = False,
) -> FeatureUnits:
    """The features of non-root bones and of the given controls, without those that are constant.

    raw       (T,12 B + C)
    roots     (r,) root bones: where the character stands does not change its shape
    controls  (n,) the controls to include
    constant  keep the features that are constant
    A constant feature (a bone's fixed offset, the axis of a hinge) carries no information and would
    cost a weight per hidden unit.
    """
    columns = np.arange(raw.shape[1])
    unit = np.where(
        columns < 12 * bone_count, columns // 12, columns - 12 * bone_count + bone_count
    )
    allowed = np.ones(raw.shape[1], bool)
    allowed[12 * bone_count :] = False
    allowed[12 * bone_count + np.asarray(controls, int)] = True
    for root in roots:
        allowed[12 * root : 12 * root + 12] = False
    varying = varying_columns(raw)
    varying[: 12 * bone_count] &= _moving_bones(raw[:, : 12 * bone_count], roots)
    kept = np.flatnonzero(allowed & (varying | constant))
    unit_count = raw.shape[1] - 11 * bone_count
    return FeatureUnits(kept.astype(np.int32), unit[kept].astype(np.int32), unit_count)


def _moving_bones(raw: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """(12 B,) bool: the features of bones (T,12 B) that vary by more than errors of a rig.

    roots  (r,) root bones, whose offset is no distance between bones
    """
    low, high = (bound.reshape(-1, 3, 4) for bound in (raw.min(axis=0), raw.max(axis=0)))
    size = np.maximum(np.abs(low), np.abs(high))
    least = np.empty_like(size)
    least[:, :, :3] = _LEAST_TURN * size[:, :, :3].max(axis=(1, 2), keepdims=True, initial=0)
    offsets = np.delete(size[:, :, 3], roots, axis=0)
    least[:, :, 3] = _LEAST_OFFSET * offsets.max(initial=0)
    return (high - low > least).reshape(-1)


def varying_columns(values: np.ndarray) -> np.ndarray:
    """(X,) bool: the columns of values (T,X) that vary by more than rounding errors.

    >>> varying_columns(np.array([[40.0, 1.0], [40.00001, 2.0]])).tolist()
    [False, True]
    """
    size = np.abs(values).max(axis=0)
    return np.ptp(values, axis=0) > _LEAST_VARIATION * np.maximum(size, 1)


@dataclass(frozen=True, eq=False)
class Standardisation:
    """Brings features to mean 0 and a common size: (x - centre) / spread, both (X,) float64."""

    centre: np.ndarray
    spread: np.ndarray

    @staticmethod
    def of(values: np.ndarray) -> Standardisation:
        """The mean and standard deviation of features (T,X), summed in float64.

        >>> Standardisation.of(np.array([[1.0], [3.0]])).apply(np.array([[3.0]])).tolist()
        [[1.0]]
        """
        spread = np.maximum(values.std(axis=0, dtype=np.float64), _LEAST_SPREAD)
        return Standardisation(values.mean(axis=0, dtype=np.float64), spread)

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Standardised features: (T,X) -> (T,X) float64."""
        return (values - self.centre) / self.spread

    def fold(
        self,
        inputs: np.ndarray,
        weights: Sequence[np.ndarray],
        biases: Sequence[np.ndarray],
        outputs: np.ndarray,
        activation: str,
    ) -> Net:
        """A net that reads raw features, from one trained on standardised features.

        inputs           (n,) the features it reads
        weights, biases  of its layers, (out,in) and (out,)
        outputs          (P,) the coefficients it writes
        The first layer takes up the standardisation, so that a runtime reads raw features.
        """
        first = weights[0] / self.spread[inputs]
        bias = biases[0] - first @ self.centre[inputs]
        return Net(inputs, (first, *weights[1:]), (bias, *biases[1:]), outputs, activation)


def clamped_features(
    columns: np.ndarray, low: np.ndarray, high: np.ndarray, margin: float | None
) -> Features:
    """The features of a deformer, clamped to their training range widened by a margin.

    columns    (X,) into the raw features
    low, high  (X,) range over the training poses
    margin     fraction of the width of the range that is added on each side; None: no clamp

    >>> clamped_features(np.array([3]), np.array([0.0]), np.array([2.0]), 0.5).low.tolist()
    [-1.0]
    """
    wide = np.inf if margin is None else margin * (high - low)
    return Features(columns, low - wide, high + wide)

"""The features that the networks read (Eq. 9): which of a pose, their common size, their range.

A pose has raw features (`core.features.raw_features`): the 12 numbers of every bone in its parent's
frame, then its controls. They belong to units that are selected together: a bone or a control.
`features` says which of them are left:

    all           every number of every joint, as in the papers
    varying       without those that are constant
    independent   without those that others of the same joint determine linearly: the matrix of a
                  hinge holds its sine and cosine twice

The root is left out of all: where a character stands does not change its shape.

Letters: T poses, X features, B bones, C controls; unit b < B is bone b, unit B + c is control c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import qr

from understudy.core.features import Features, raw_features, unit_of
from understudy.core.networks import Net
from understudy.core.poses import Poses
from understudy.methods.fit_arguments import is_sequence
from understudy.system.errors import InputError

CONTROLS = ("auto", "numeric", "all", "none")
_LEAST_VARIATION = 1e-5  # of a feature's size (at least 1): features that vary less are constant
# Features of bones that vary less hold the rounding errors of the rig that computed them. A short
# bone turns by the rounding errors of its ends divided by its length. Of the size of the bone's
# 3x3 matrix (a turn of 0.06 degrees), and of the largest distance of a bone from its parent.
_LEAST_TURN, _LEAST_OFFSET = 1e-3, 3e-5
_LEAST_SPREAD = 1e-9
# A feature whose spread is below this fraction of its size is a cosine near 1. Its sine says more,
# and float32 represents it badly.
_STEADY = 1e-3
# A feature is redundant if the others of its unit leave less than this fraction of its spread.
_REDUNDANT = 1e-2


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
    unit = unit_of(columns, bone_count)
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
class FeatureTable:
    """The features of the training poses.

    units           their columns and units
    centre, spread  (X,) float64: (x - centre) / spread has mean 0 and a common size
    low, high       (X,) float64, range over the poses
    standard        (T,X) float32, standardised
    added           (R,X) float32, the same of range-of-motion poses; None where there are none
    """

    units: FeatureUnits
    centre: np.ndarray
    spread: np.ndarray
    low: np.ndarray
    high: np.ndarray
    standard: np.ndarray
    added: np.ndarray | None = None

    @staticmethod
    def of(
        poses: Poses, controls: str, features: str = "independent", scaling: str = "shared"
    ) -> FeatureTable:
        """The table of `poses`.

        controls  as in `pose_features`
        features  all, varying or independent
        scaling   own (each feature has mean 0 and size 1), shared (and the translations of all
                  joints share one size, since their sizes compare) or entries (section 3.2.1 of the
                  differential paper: translations have mean 0 and size 1 together, the entries of a
                  joint's matrix stay as they are)
        """
        raw, units = pose_features(poses, controls, constant=features == "all")
        if features == "independent":
            kept = independent_columns(raw[:, units.columns].astype(np.float64), units.unit)
            units = FeatureUnits(units.columns[kept], units.unit[kept], units.count)
        values = raw[:, units.columns].astype(np.float64)
        bones = 0 if poses.skeleton is None else poses.skeleton.bone_count
        centre = values.mean(axis=0, dtype=np.float64)
        spread = np.maximum(values.std(axis=0, dtype=np.float64), _LEAST_SPREAD)
        joints = units.columns < 12 * bones
        translations = joints & (units.columns % 4 == 3)
        if scaling == "shared" and translations.any():
            spread[translations] = np.sqrt(np.mean(spread[translations] ** 2))
        if scaling == "entries":
            centre[joints], spread[joints] = 0.0, 1.0
            if translations.any():
                centre[translations] = values[:, translations].mean()
                spread[translations] = max(values[:, translations].std(), _LEAST_SPREAD)
        # Scaled to size 1, the rounding errors of a constant would be an input.
        still = ~varying_columns(values) & ~(joints & (scaling == "entries"))
        spread[still] = 1.0
        standard = ((values - centre) / spread).astype(np.float32)
        low, high = values.min(axis=0), values.max(axis=0)
        return FeatureTable(units, centre, spread, low, high, standard)

    def with_added(self, more: Poses) -> FeatureTable:
        """The table with the features of range-of-motion poses, which widen their range."""
        count = more.pose_count
        raw = raw_features(more.skeleton, more.world_from_bone, more.controls, count)
        values = raw[:, self.units.columns]
        return replace(
            self,
            low=np.minimum(self.low, values.min(axis=0)),
            high=np.maximum(self.high, values.max(axis=0)),
            added=((values - self.centre) / self.spread).astype(np.float32),
        )

    @property
    def count(self) -> int:
        """X, the number of features."""
        return len(self.units.columns)

    def inputs_of(self, needs: np.ndarray) -> np.ndarray:
        """The features (n,) int32 of the units that are needed (units,) bool."""
        return np.flatnonzero(needs[self.units.unit]).astype(np.int32)

    def all_inputs(self) -> np.ndarray:
        """Every feature: (X,) int32."""
        return np.arange(self.count, dtype=np.int32)

    def raw(self, poses: np.ndarray) -> np.ndarray:
        """The raw features of some poses (t,): (t,X) float32."""
        return (self.standard[poses] * self.spread + self.centre).astype(np.float32)

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

    def clamped(self, margin: float | None) -> Features:
        """The features of the deformer, clamped to their range.

        margin  fraction of the width of the range that is added on each side; None: no clamp
        """
        wide = np.inf if margin is None else margin * (self.high - self.low)
        return Features(self.units.columns, self.low - wide, self.high + wide)


def independent_columns(values: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """The columns of values (T,X), increasing, that no others of the same unit (X,) determine.

    Columns are selected by QR with column pivoting.

    >>> turn = np.linspace(0, 1, 9)
    >>> hinge = np.stack([np.cos(turn), np.sin(turn), -np.sin(turn), 3 * turn], axis=1)
    >>> independent_columns(hinge, np.array([0, 0, 0, 1])).tolist()
    [0, 1, 3]
    """
    kept = []
    spread = np.maximum(values.std(axis=0), 1e-9)
    steady = spread < _STEADY * np.abs(values).max(axis=0, initial=0)
    for one in np.unique(unit):
        at = np.flatnonzero(unit == one)
        at = at[~steady[at]] if not steady[at].all() else at
        if len(at) > 1:
            rows = (values[:, at] - values[:, at].mean(axis=0)) / (
                spread[at] * np.sqrt(len(values))
            )
            triangle, order = qr(rows, mode="r", pivoting=True)
            at = at[order[: int((np.abs(np.diag(triangle)) > _REDUNDANT).sum())]]
        kept.append(at)
    return np.sort(np.concatenate(kept)) if kept else np.zeros(0, int)


def constant_controls(poses: Poses) -> list[str]:
    """Names of the controls that never change over the poses, which the deformer cannot follow."""
    if poses.control_spec is None or poses.controls is None:
        return []
    size = np.maximum(1.0, np.abs(poses.controls).max(axis=0))
    constant = np.ptp(poses.controls, axis=0) <= 1e-9 * size
    return [name for name, flag in zip(poses.control_spec.names, constant) if flag]


def need_bones_or_controls(method: str, poses: Poses) -> None:
    """Raise unless the poses have bones or controls."""
    if is_sequence(poses):
        raise InputError(
            f"{method} needs bones or controls, and {poses.name!r} has neither; for mesh sequences "
            f"use a decomposition method"
        )

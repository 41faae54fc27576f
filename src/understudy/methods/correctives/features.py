"""The features that the networks read (Eq. 9), brought to a common size.

Features are the 12 numbers of every joint in its parent's frame, and the controls. Each control and
each entry of a joint's 3x3 matrix is standardised on its own. The translations of all joints share
one scale, since their sizes compare.

`features=all` is the paper: every number of every joint. The entries of a joint's matrix stay as
they are, all translations together have mean 0 and size 1, and so has each control.

Departure (`independent`): features that carry no information are left out. These are constant
features, the root (where a character stands does not change its shape; also left out of `all`), and
features that others of the same joint determine linearly: the matrix of a hinge holds its sine and
cosine twice.

Letters: T poses, X features; a unit is a bone (its 12 numbers) or a control.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import qr

from understudy.core.features import Features, raw_features
from understudy.core.poses import Poses
from understudy.system.errors import InputError
from understudy.training.features import (
    FeatureUnits,
    Standardisation,
    clamped_features,
    pose_features,
    varying_columns,
)

FEATURES = ("independent", "all")
# A feature whose spread is below this fraction of its size is a cosine near 1. Its sine says more,
# and float32 represents it badly.
_STEADY = 1e-3
# A feature is redundant if the others of its unit leave less than this fraction of its spread.
_REDUNDANT = 1e-2


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """The features of the training poses.

    units            their columns and units
    standardisation  centre and spread of each
    low, high        (X,) float64, range over the poses
    standard         (T,X) float32, standardised
    added            (R,X) float32, the same of range-of-motion poses; None where there are none
    """

    units: FeatureUnits
    standardisation: Standardisation
    low: np.ndarray
    high: np.ndarray
    standard: np.ndarray
    added: np.ndarray | None = None

    @staticmethod
    def of(poses: Poses, controls: str, features: str = "independent") -> FeatureTable:
        """The table of `poses`; controls as in `pose_features`, features independent or all."""
        bones = 0 if poses.skeleton is None else poses.skeleton.bone_count
        if features == "all":
            return FeatureTable._whole(*pose_features(poses, controls, constant=True), bones)
        raw, varying = pose_features(poses, controls)
        kept = independent_columns(raw[:, varying.columns].astype(np.float64), varying.unit)
        units = FeatureUnits(varying.columns[kept], varying.unit[kept], varying.count)
        values = raw[:, units.columns].astype(np.float64)
        standardisation = Standardisation.of(values)
        translations = (units.columns < 12 * bones) & (units.columns % 4 == 3)
        if translations.any():
            spread = standardisation.spread
            spread[translations] = np.sqrt(np.mean(spread[translations] ** 2))
        return FeatureTable._standardised(units, standardisation, values)

    @staticmethod
    def _whole(raw: np.ndarray, units: FeatureUnits, bones: int) -> FeatureTable:
        """The table of all features, normalised as in section 3.2.1 of the paper."""
        values = raw[:, units.columns].astype(np.float64)
        standardisation = Standardisation.of(values)
        joints = units.columns < 12 * bones
        translations = joints & (units.columns % 4 == 3)
        standardisation.centre[joints], standardisation.spread[joints] = 0.0, 1.0
        if translations.any():
            standardisation.centre[translations] = values[:, translations].mean()
            standardisation.spread[translations] = max(values[:, translations].std(), 1e-9)
        standardisation.spread[~varying_columns(values) & ~joints] = 1.0
        return FeatureTable._standardised(units, standardisation, values)

    @staticmethod
    def _standardised(
        units: FeatureUnits, standardisation: Standardisation, values: np.ndarray
    ) -> FeatureTable:
        standard = standardisation.apply(values).astype(np.float32)
        return FeatureTable(
            units, standardisation, values.min(axis=0), values.max(axis=0), standard
        )

    def with_added(self, more: Poses) -> FeatureTable:
        """The table with the features of range-of-motion poses, which widen their range."""
        count = more.pose_count
        raw = raw_features(more.skeleton, more.world_from_bone, more.controls, count)
        values = raw[:, self.units.columns]
        return replace(
            self,
            low=np.minimum(self.low, values.min(axis=0)),
            high=np.maximum(self.high, values.max(axis=0)),
            added=self.standardisation.apply(values).astype(np.float32),
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
        standardisation = self.standardisation
        values = self.standard[poses] * standardisation.spread + standardisation.centre
        return values.astype(np.float32)

    def clamped(self, margin: float | None) -> Features:
        """The features of the deformer, clamped to their range widened by `margin`."""
        return clamped_features(self.units.columns, self.low, self.high, margin)


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


def need_drivers(method: str, poses: Poses) -> None:
    """Raise unless the poses have bones or controls."""
    if poses.skeleton is None and poses.controls is None:
        raise InputError(
            f"{method} needs bones or controls, and {poses.name!r} has neither; for mesh sequences "
            f"use a decomposition method"
        )

"""What the nets read (Eq. 9): the 12 numbers of every joint in its parent's frame and every
control, each brought to a common size.

A control is normalised on its own, over the poses seen; so is each entry of a joint's 3x3; the
joints' translations share one scale, since their sizes compare. Numbers that never vary are left
out, and so is the root: a character that stands elsewhere deforms alike. Left out too are numbers
that others of the same joint tell already (a hinge's matrix holds its sine and cosine twice): a
first layer can make nothing of them that it could not make of the others. All of it is folded into
the nets' first layers, so that a runtime reads raw numbers.

Letters: T poses, X features; a unit is a bone (its 12 numbers) or a control.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr

from understudy.core.errors import InputError
from understudy.core.features import raw_features
from understudy.core.poses import Poses
from understudy.core.progress import Progress
from understudy.rigs.base import Rig
from understudy.training.inputs import units_from_data, units_from_rig, varying_features

# of a number's size: one that varies less is a cosine near 1, its sine says more, and float32 reads
# it badly
_STEADY = 1e-3
_TOLD = (
    1e-2  # of a number's spread: what is left of it once others are known, to count as told by them
)


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """columns, unit (X,) as in `training.inputs.FeatureUnits`; centre, spread (X,) float64; low,
    high (X,) the range seen; standard (T,X) float32.
    """

    columns: np.ndarray
    unit: np.ndarray
    unit_count: int
    centre: np.ndarray
    spread: np.ndarray
    low: np.ndarray
    high: np.ndarray
    standard: np.ndarray

    @staticmethod
    def of(poses: Poses, controls: str) -> FeatureTable:
        """controls: numeric (those that act other than through the bones; all, where there are no
        bones), all or none.
        """
        spec, skeleton = poses.control_spec, poses.skeleton
        bones = 0 if skeleton is None else skeleton.bone_count
        raw = raw_features(skeleton, poses.world_from_bone, poses.controls, poses.pose_count)
        chosen = np.zeros(0, int)
        if spec is not None and controls != "none":
            chosen = (
                np.flatnonzero(spec.numeric)
                if controls == "numeric" and bones
                else np.arange(spec.count)
            )
        units = varying_features(
            raw, bones, np.zeros(0, int) if skeleton is None else skeleton.roots, chosen
        )
        own = telling_columns(raw[:, units.columns].astype(np.float64), units.unit)
        columns, unit = units.columns[own], units.unit[own]
        picked = raw[:, columns].astype(np.float64)
        spread = np.maximum(picked.std(axis=0), 1e-9)
        shifts = (columns < 12 * bones) & (columns % 4 == 3)
        if shifts.any():
            spread[shifts] = np.sqrt(np.mean(spread[shifts] ** 2))
        centre = picked.mean(axis=0)
        standard = ((picked - centre) / spread).astype(np.float32)
        low, high = (
            (picked.min(axis=0), picked.max(axis=0)) if len(columns) else (np.zeros(0), np.zeros(0))
        )
        return FeatureTable(
            columns,
            unit,
            bones + (0 if spec is None else spec.count),
            centre,
            spread,
            low,
            high,
            standard,
        )

    def inputs_of(self, needs: np.ndarray) -> np.ndarray:
        """Feature numbers of the units that are needed (units,) bool."""
        return np.flatnonzero(needs[self.unit]).astype(np.int32)


def telling_columns(picked: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Numbers, increasing, of the columns of picked (T,X) that no others of the same unit (X,)
    tell, by QR with pivoting.

    >>> turn = np.linspace(0, 1, 9)
    >>> telling_columns(np.stack([np.cos(turn), np.sin(turn), -np.sin(turn), 3 * turn], axis=1),
    ... np.array([0, 0, 0, 1])).tolist()
    [0, 1, 3]
    """
    kept = []
    spread = np.maximum(picked.std(axis=0), 1e-9)
    steady = spread < _STEADY * np.abs(picked).max(axis=0, initial=0)
    for one in np.unique(unit):
        at = np.flatnonzero(unit == one)
        at = at[~steady[at]] if not steady[at].all() else at
        if len(at) > 1:
            rows = (picked[:, at] - picked[:, at].mean(axis=0)) / (
                spread[at] * np.sqrt(len(picked))
            )
            triangle, order = qr(rows, mode="r", pivoting=True)
            at = at[order[: int((np.abs(np.diag(triangle)) > _TOLD).sum())]]
        kept.append(at)
    return np.sort(np.concatenate(kept)) if kept else np.zeros(0, int)


def needed_units(
    table: FeatureTable, poses: Poses, rig: Rig | None, source: str, displace: Callable[[Poses],
    np.ndarray], groups: Sequence[np.ndarray],
    targets: Sequence[np.ndarray], error: float, example_poses: int, seed: int, progress: Progress,
) -> np.ndarray:  # fmt: skip
    """(groups, units) bool: which bones and controls each group of vertices answers to, asked of
    the rig or learned from the poses.

    A group that moves although nothing alone was seen to move it reads everything rather than
    nothing.
    """
    if source == "auto":
        source = "rig" if rig is not None and poses.controls is not None else "data"
    if source == "all" or not len(groups) or not len(table.unit):
        return np.ones((len(groups), table.unit_count), bool)
    if source == "rig":
        if rig is None or poses.controls is None:
            raise InputError(
                "inputs=rig needs the live rig and poses with control values; use inputs=data for "
                "recorded poses"
            )
        needs = units_from_rig(rig, poses, displace, groups, error, example_poses, seed, progress)
    else:
        needs = np.zeros((len(groups), table.unit_count), bool)
        found = units_from_data(
            table.standard, table.unit, targets, gain=0.002, most=30, progress=progress
        )
        needs[:, : found.shape[1]] = found
    varying = np.zeros(table.unit_count, bool)
    varying[table.unit] = True
    needs[~(needs & varying).any(axis=1)] = True
    return needs


def never_seen(poses: Poses) -> list[str]:
    """Names of the controls that never change over the poses: nothing can be learned about them,
    and the deformer does not follow them.
    """
    if poses.control_spec is None:
        return []
    still = np.ptp(poses.controls, axis=0) <= 1e-9 * np.maximum(
        1.0, np.abs(poses.controls).max(axis=0)
    )
    return [name for name, flag in zip(poses.control_spec.names, still) if flag]

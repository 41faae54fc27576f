"""`Features`: the numbers of a pose that networks read."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from understudy.core.noun import Noun
from understudy.core.skeleton import Skeleton
from understudy.geometry.transforms import parent_from_bone
from understudy.system import checks
from understudy.system.errors import InputError


@dataclass(frozen=True, eq=False, repr=False)
class Features(Noun):
    """Which numbers of a pose the networks read, and the range each is clamped to.

    columns    (X,) int32, indices into the 12 B + C numbers of a pose: for every bone the 3x4
               matrix in its parent's frame (`Skeleton.frames`), row by row, then the controls
    low, high  (X,) float32, the clamp; infinite: no clamp
    """

    columns: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    low: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    high: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))

    def __post_init__(self):
        put = self._keep
        put("columns", checks.index(self.columns, "feature columns", 2**31))
        for name in ("low", "high"):
            bound = np.ascontiguousarray(getattr(self, name), dtype=np.float32)
            checks.shape_of(bound, f"feature {name}", (len(self.columns),))
            if np.isnan(bound).any():
                raise InputError(
                    f"feature {name}: NaN at feature {int(np.flatnonzero(np.isnan(bound))[0])}"
                )
            put(name, bound)
        if (self.low > self.high).any():
            raise InputError(
                f"feature range: low is above high at feature "
                f"{int(np.flatnonzero(self.low > self.high)[0])}"
            )

    @property
    def count(self) -> int:
        """X."""
        return len(self.columns)


def raw_features(
    skeleton: Skeleton | None,
    world_from_bone: np.ndarray | None,
    controls: np.ndarray | None,
    pose_count: int,
) -> np.ndarray:
    """Return the numbers that `Features.columns` selects from, (T, 12 B + C) float32, of bones
    (T,B,3,4) and controls (T,C), where there are any.
    """
    parts = [np.zeros((pose_count, 0), np.float32)]
    if skeleton is not None and world_from_bone is not None:
        local = parent_from_bone(world_from_bone, skeleton.frames)
        parts.append(local.reshape(pose_count, -1).astype(np.float32))
    if controls is not None:
        parts.append(np.asarray(controls, np.float32))
    return np.concatenate(parts, axis=1)


def unit_of(columns: np.ndarray, bone_count: int) -> np.ndarray:
    """The unit (X,) of raw features by number: bone b is b, control c is B + c.

    >>> unit_of(np.array([11, 12, 24, 25]), 2).tolist()
    [0, 1, 2, 3]
    """
    return np.where(columns < 12 * bone_count, columns // 12, columns - 11 * bone_count)

"""`Skeleton`: names, parents and rest transforms of the bones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from understudy.core.noun import Noun, read_only
from understudy.geometry.transforms import inverse
from understudy.system import checks
from understudy.system.errors import InputError

_LARGEST = 1e18  # what the runtimes accept as a bone


@dataclass(frozen=True, eq=False, repr=False)
class Skeleton(Noun):
    """Bones in one or several trees, parents before children.

    names            B strings
    parents          (B,) int32, -1 for a root
    world_from_bone  (B,3,4) float64 at rest, for column vectors (translation in the last column);
                     scale and shear are allowed, but the 3x3 part must be invertible

    >>> rest = np.tile(np.eye(3, 4), (2, 1, 1))
    >>> Skeleton(("hip", "knee"), [-1, 0], rest).bone_count
    2
    """

    names: tuple[str, ...]
    parents: np.ndarray
    world_from_bone: np.ndarray

    def __post_init__(self):
        self._keep("names", checks.names(self.names, "bone names"))
        count = len(self.names)
        parents = np.ascontiguousarray(self.parents, dtype=np.int32)
        checks.shape_of(parents, "bone parents", (count,))
        wrong = np.flatnonzero((parents < -1) | (parents >= np.arange(count)))
        if wrong.size:
            bone = int(wrong[0])
            raise InputError(
                f"bone parents: bone {bone} ({self.names[bone]!r}) has parent "
                f"{int(parents[bone])}; a parent must come before its child, or be -1"
            )
        self._keep("parents", parents)
        rest = checks.array(self.world_from_bone, "rest world_from_bone", (count, 3, 4), np.float64)
        if (np.abs(rest) > _LARGEST).any():
            raise InputError(f"rest world_from_bone: a number is above {_LARGEST:g}")
        flat = np.flatnonzero(np.abs(np.linalg.det(rest[:, :, :3])) < 1e-12)
        if flat.size:
            raise InputError(
                f"rest world_from_bone: bone {self.names[int(flat[0])]!r} is not "
                f"invertible (its 3x3 part has no volume)"
            )
        self._keep("world_from_bone", rest)

    @property
    def bone_count(self) -> int:
        """B."""
        return len(self.names)

    @cached_property
    def bone_from_world(self) -> np.ndarray:
        """The inverse of the rest transforms, (B,3,4) float64: bone_from_rest of the equations."""
        return read_only(inverse(self.world_from_bone))

    @cached_property
    def frames(self) -> np.ndarray:
        """The bone (B,) in whose frame networks read each bone: its parent, of further roots the
        first bone; -1, the world, of the first bone alone.
        """
        further = (self.parents < 0) & (np.arange(self.bone_count) > 0)
        return read_only(np.where(further, 0, self.parents))

    @cached_property
    def roots(self) -> np.ndarray:
        """The bones without a parent, as indices."""
        return read_only(np.flatnonzero(self.parents < 0))

"""`Skin`: which bones move each vertex, with which weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from understudy.core.noun import Noun
from understudy.geometry.skinning import BLENDS, weight_matrix
from understudy.system import checks
from understudy.system.errors import InputError

if TYPE_CHECKING:
    import scipy.sparse as sp


@dataclass(frozen=True, eq=False, repr=False)
class Skin(Noun):
    """Which bones move each vertex, with which weights.

    bone_index      (V,K) int32, indices of bones, or of virtual bones if there are any
    weight          (V,K) float32; each row sums to one, and weights may be negative
    blend           "linear" or "dual_quaternion"
    virtual_index   (N,c) int32, the bones that each virtual bone blends, or None
    virtual_weight  (N,c) float32, with which weights, or None; together the matrix D of the
                    two-layer paper

    >>> Skin([[0, 1], [1, 0]], [[0.7, 0.3], [1.0, 0.0]]).influences
    2
    """

    bone_index: np.ndarray
    weight: np.ndarray
    blend: str = "linear"
    virtual_index: np.ndarray | None = None
    virtual_weight: np.ndarray | None = None

    def __post_init__(self):
        put = self._keep
        checks.one_of(self.blend, "blend", BLENDS)
        put("weight", checks.array(self.weight, "skin weight", (None, None)))
        shape = self.weight.shape
        put("bone_index", checks.index(self.bone_index, "skin bone_index", 2**31, shape))
        if not self.weight.size:
            raise InputError("skin weight: at least one influence per vertex is needed")
        _sums_to_one(self.weight, "skin weight")
        if (self.virtual_index is None) != (self.virtual_weight is None):
            raise InputError(
                "virtual_index and virtual_weight belong together: one of them is missing"
            )
        if self.virtual_index is not None:
            weight = checks.array(self.virtual_weight, "virtual_weight", (None, None))
            index = checks.index(self.virtual_index, "virtual_index", 2**31, weight.shape)
            put("virtual_weight", weight)
            put("virtual_index", index)
            _sums_to_one(weight, "virtual_weight")
            checks.index(self.bone_index, "skin bone_index", len(index), shape)

    @staticmethod
    def rigid(bones: np.ndarray) -> Skin:
        """Return a skin in which every vertex follows one bone: bones (V,)."""
        return Skin(np.asarray(bones).reshape(-1, 1), np.ones((len(bones), 1), np.float32))

    @property
    def influences(self) -> int:
        """K, the most bones that move a vertex."""
        return self.weight.shape[1]

    @property
    def virtual(self) -> tuple[np.ndarray, np.ndarray] | None:
        """virtual_index and virtual_weight, or None."""
        if self.virtual_index is None or self.virtual_weight is None:
            return None
        return self.virtual_index, self.virtual_weight


def skin_weights(skin: Skin, bone_count: int) -> sp.csr_matrix:
    """Return the weights of a skin on its bones, (V,B) float64; virtual bones are multiplied out.

    >>> skin_weights(Skin.rigid(np.array([1, 0])), 2).toarray().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if skin.virtual is None:
        return weight_matrix(skin.bone_index, skin.weight, bone_count).astype(np.float64)
    index, weight = skin.virtual
    upper = weight_matrix(skin.bone_index, skin.weight, len(index)).astype(np.float64)
    return (upper @ weight_matrix(index, weight, bone_count).astype(np.float64)).tocsr()


def _sums_to_one(weight: np.ndarray, name: str) -> None:
    """Raise unless every row of `weight` sums to one."""
    sums = weight.sum(axis=1, dtype=np.float64)
    row = int(np.abs(sums - 1).argmax()) if len(sums) else 0
    if len(sums) and abs(sums[row] - 1) > 1e-3:
        raise InputError(f"{name}: row {row} sums to {sums[row]:g}; weights must sum to one")

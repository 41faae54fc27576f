"""`Skin`: which bones move each vertex, and by how much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from understudy.core import checks
from understudy.core.errors import InputError
from understudy.geometry.skinning import BLENDS, weight_matrix


@dataclass(frozen=True, eq=False)
class Skin:
    """Which bones move each vertex, and by how much.

    bone_index      (V,K) int32 into the bones, or into the virtual bones where there are any
    weight          (V,K) float32, summing to one; signs are free (two-layer skinning)
    blend           "linear" or "dual_quaternion"
    virtual_index   (N,c) int32 and virtual_weight (N,c) float32: the rows of D, or both None
    """

    bone_index: np.ndarray
    weight: np.ndarray
    blend: str = "linear"
    virtual_index: np.ndarray | None = None
    virtual_weight: np.ndarray | None = None

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)
        checks.one_of(self.blend, "blend", BLENDS)
        put("weight", checks.array(self.weight, "skin weight", (None, None)))
        put(
            "bone_index", checks.index(self.bone_index, "skin bone_index", 2**31, self.weight.shape)
        )
        if not self.weight.size:
            raise InputError("skin weight: at least one influence per vertex is needed")
        _sums_to_one(self.weight, "skin weight")
        if (self.virtual_index is None) != (self.virtual_weight is None):
            raise InputError(
                "virtual_index and virtual_weight come together: one of them is missing"
            )
        if self.virtual_index is not None:
            put("virtual_weight", checks.array(self.virtual_weight, "virtual_weight", (None, None)))
            put(
                "virtual_index",
                checks.index(self.virtual_index, "virtual_index", 2**31, self.virtual_weight.shape),
            )
            _sums_to_one(self.virtual_weight, "virtual_weight")
            checks.index(
                self.bone_index, "skin bone_index", len(self.virtual_index), self.weight.shape
            )

    @staticmethod
    def rigid(bones: np.ndarray) -> Skin:
        """Every vertex follows one bone: bones (V,)."""
        return Skin(np.asarray(bones).reshape(-1, 1), np.ones((len(bones), 1), np.float32))

    @property
    def influences(self) -> int:
        return self.weight.shape[1]


def skin_weights(skin: Skin, bone_count: int) -> sp.csr_matrix:
    """The weight map of a skin over its bones, (V,B) float64; virtual bones are multiplied out (D A
    of the two-layer paper).

    >>> skin_weights(Skin.rigid(np.array([1, 0])), 2).toarray().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if skin.virtual_index is None:
        return weight_matrix(skin.bone_index, skin.weight, bone_count).astype(np.float64)
    upper = weight_matrix(skin.bone_index, skin.weight, len(skin.virtual_index)).astype(np.float64)
    return sp.csr_matrix(
        upper
        @ weight_matrix(skin.virtual_index, skin.virtual_weight, bone_count).astype(np.float64)
    )


def _sums_to_one(weight: np.ndarray, name: str) -> None:
    off = np.abs(weight.sum(axis=1, dtype=np.float64) - 1)
    if (off > 1e-3).any():
        row = int(off.argmax())
        raise InputError(
            f"{name}: row {row} sums to {weight[row].sum():g}; weights must sum to one"
        )

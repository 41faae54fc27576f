"""The solver's weights as a `Skin`."""

from __future__ import annotations

import numpy as np

from understudy.deformer import Skin


def packed_skin(index: np.ndarray, weight: np.ndarray, order: np.ndarray) -> Skin:
    """index and weight (V,K) of the solver's vertices as a skin in the mesh's order, heaviest first, without empty places; order as in `Frame`."""
    largest_first = np.argsort(-weight, axis=1, kind="stable")
    index, weight = np.take_along_axis(index, largest_first, axis=1), np.take_along_axis(weight, largest_first, axis=1)
    places = max(1, int((weight > 0).sum(axis=1).max()))
    packed_index, packed_weight = np.empty((len(order), places), np.int32), np.empty((len(order), places), np.float32)
    packed_index[order] = np.where(weight > 0, index, 0)[:, :places]
    packed_weight[order] = weight[:, :places]
    packed_weight[:, 0] += (1.0 - packed_weight.sum(axis=1, dtype=np.float64)).astype(np.float32)  # the largest takes up the rounding
    return Skin(packed_index, packed_weight)

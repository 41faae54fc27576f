"""The blend shapes that a deformer has itself, such as those of a character's file.

An engine plays them as they are, under their own names, driven by the controls. Other correctives
become principal components (`shapes`).
"""

from __future__ import annotations

import numpy as np

from understudy.core.character import BlendShape
from understudy.core.deformer import Deformer


def own_shapes(deformer: Deformer) -> tuple[BlendShape, ...] | None:
    """Return the blend shapes of `deformer`, one per control; None: its correctives are others.

    They are those that `deformer_of_character` stores: each control is one coefficient, each basis
    has one column.
    """
    spec = deformer.control_spec
    if spec is None or deformer.mean is not None or len(deformer.nets) != 1:
        return None
    net, features, every = deformer.nets[0], deformer.features, np.arange(spec.count)
    is_identity = (
        len(net.weights) == 1
        and np.array_equal(net.weights[0], np.eye(spec.count))
        and not net.biases[0].any()
        and np.array_equal(net.inputs, every)
        and np.array_equal(net.outputs, every)
        and np.array_equal(features.columns, 12 * deformer.bone_count + every)
        and not np.isfinite([features.low, features.high]).any()
    )
    columns = [basis.coefficients.tolist() for basis in deformer.bases]
    alone = all(len(column) == 1 for column in columns)
    alone = alone and len({number for (number,) in columns}) == len(columns)
    if not is_identity or not alone or any(basis.shared for basis in deformer.bases):
        return None
    still = np.zeros(0, int), np.zeros((0, 3))
    moved = {
        column[0]: (basis.vertices, basis.matrix.reshape(-1, 3))
        for column, basis in zip(columns, deformer.bases)
    }
    return tuple(
        BlendShape(name, *moved.get(number, still)) for number, name in enumerate(spec.names)
    )

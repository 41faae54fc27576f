"""The skin of an export: at most K bones per vertex, convex, linear.

The weights are fitted again to poses of the deformer (`methods.skin_fitting.skin_weights`), instead
of dropping the smallest. Dual quaternion blending and negative weights, which engines do not have,
are approximated by the same fit.

Letters: F frames, V vertices, B bones, K influences.
"""

from __future__ import annotations

import numpy as np

from understudy.core.poses import Poses
from understudy.core.skin import Skin
from understudy.geometry.influences import dense_to_influences, float32_influences
from understudy.methods.skin_fitting.skin_weights import NormalEquations, solve_dense, solve_sparse
from understudy.system.progress import SILENT, Progress


def plays_as_it_is(skin: Skin, influences: int) -> bool:
    """Return whether engines play `skin`: linear, convex, at most `influences` bones (0: any)."""
    few = influences == 0 or int((skin.weight != 0).sum(axis=1).max()) <= influences
    return (
        few and skin.blend == "linear" and skin.virtual is None and bool((skin.weight >= 0).all())
    )


def packed(skin: Skin) -> Skin:
    """Return the same skin with its largest weights first and no places that nothing uses."""
    order = np.argsort(-skin.weight, axis=1, kind="stable")
    places = max(1, int((skin.weight != 0).sum(axis=1).max()))
    index = np.take_along_axis(skin.bone_index, order, axis=1)[:, :places]
    weight = np.take_along_axis(skin.weight, order, axis=1)[:, :places]
    return Skin(*float32_influences(index, weight.astype(np.float64)))


def refit_skin(poses: Poses, influences: int, progress: Progress = SILENT) -> Skin:
    """Return the linear, convex skin that follows `poses` best.

    poses       with bones
    influences  largest number of bones per vertex; 0: no limit
    """
    equations = NormalEquations.of(poses, progress=progress)
    if influences == 0:
        found = dense_to_influences(solve_dense(equations, progress))
    else:
        found = solve_sparse(equations, influences, progress)
    return packed(Skin(*float32_influences(*found)))

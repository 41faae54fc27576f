"""What a decomposition hands back: a fit in the solver's units as a skin on pseudo-bones, their
clips, and a `Deformer` of both.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.core.version import __version__
from understudy.methods.decomposition.alternating_solve import Fit
from understudy.methods.decomposition.motion import Frame, Motion


def deformer_of(
    poses: Poses,
    skin: Skin,
    world_from_bone: np.ndarray,
    method: str,
    training: Mapping,
    provenance: Mapping,
) -> Deformer:
    """Bones that rest at the identity and have no parents, as (T,B,3,4) world_from_rest; the clips
    are those the poses came in.
    """
    bones = world_from_bone.shape[1]
    return Deformer(
        mesh=poses.mesh,
        skeleton=Skeleton(
            tuple(f"bone_{b}" for b in range(bones)),
            np.full(bones, -1),
            np.tile(np.eye(3, 4), (bones, 1, 1)),
        ),
        skin=skin,
        clips=poses.clips(world_from_bone),
        method=method,
        training={
            "poses": poses.pose_count,
            "bones": bones,
            "influences": skin.influences,
            **training,
        },
        provenance={"understudy": __version__, "poses": poses.name, **provenance},
    )


def skin_and_bones(fit: Fit, frame: Frame) -> tuple[Skin, np.ndarray]:
    """The skin in the mesh's vertex order, without the bones nobody uses and without empty places;
    and the bones, world_from_rest (T,B,3,4).
    """
    skin, used = _skin(fit.index, fit.weight, frame.order)
    return skin, np.ascontiguousarray(frame.to_world(fit.columns)[:, used])


def erms_of(squared: float, motion: Motion, frame: Frame) -> float:
    """ERMS (`metrics.erms`) of a squared error in the solver's units."""
    return (
        100 * frame.size * float(np.sqrt(max(squared, 0.0) / (motion.vertex_count * motion.rows)))
    )


def _skin(index: np.ndarray, weight: np.ndarray, order: np.ndarray) -> tuple[Skin, np.ndarray]:
    """The skin in the mesh's vertex order, without the bones nobody uses; and which bones are used
    (n,).
    """
    used = np.unique(index[weight > 0])
    number = np.zeros(int(index.max()) + 1, np.int32)
    number[used] = np.arange(len(used))
    return packed_skin(number[index], weight, order), used


def packed_skin(index: np.ndarray, weight: np.ndarray, order: np.ndarray) -> Skin:
    """index and weight (V,K) of the solver's vertices as a skin in the mesh's order, heaviest
    first, without empty places; order as in `Frame`.
    """
    largest_first = np.argsort(-weight, axis=1, kind="stable")
    index, weight = (
        np.take_along_axis(index, largest_first, axis=1),
        np.take_along_axis(weight, largest_first, axis=1),
    )
    places = max(1, int((weight > 0).sum(axis=1).max()))
    packed_index, packed_weight = (
        np.empty((len(order), places), np.int32),
        np.empty((len(order), places), np.float32),
    )
    packed_index[order] = np.where(weight > 0, index, 0)[:, :places]
    packed_weight[order] = weight[:, :places]
    packed_weight[:, 0] += (1.0 - packed_weight.sum(axis=1, dtype=np.float64)).astype(
        np.float32
    )  # the largest takes up the rounding
    return Skin(packed_index, packed_weight)

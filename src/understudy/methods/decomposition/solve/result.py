"""What a decomposition returns: a fit in the solver's units as a skin, clips and a `Deformer`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.core.version import __version__
from understudy.geometry.skinning import float32_weights
from understudy.methods.decomposition.solve.motion import Fit, Motion, Normalisation


def deformer_from_bones(
    poses: Poses,
    skin: Skin,
    world_from_bone: np.ndarray,
    method: str,
    training: Mapping,
    provenance: Mapping,
) -> Deformer:
    """Return a deformer of independent bones and the clips that `poses` consist of.

    The bones have no parents, and their rest transform is the identity.

    world_from_bone  (T,B,3,4) transforms from rest
    method           name of the method
    training         errors to store; counts of poses, bones and influences are added
    provenance       origin to store; version and name of the poses are added
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


def skin_and_bones(fit: Fit, normalisation: Normalisation) -> tuple[Skin, np.ndarray]:
    """Return the skin in the mesh's order, and world_from_rest (T,B,3,4), of the bones in use."""
    used = np.unique(fit.index[fit.weight > 0])
    new_index = np.zeros(int(fit.index.max()) + 1, np.int32)
    new_index[used] = np.arange(len(used))
    skin = packed_skin(new_index[fit.index], fit.weight, normalisation.order)
    return skin, np.ascontiguousarray(normalisation.to_world(fit.transforms)[:, used])


def erms(error: float, motion: Motion, normalisation: Normalisation) -> float:
    """Return ERMS, in hundredths of a model unit, of a squared error of the solver."""
    return 100 * normalisation.scale * motion.coordinate_rms(error)


def packed_skin(index: np.ndarray, weight: np.ndarray, order: np.ndarray) -> Skin:
    """Return the solver's weights as a skin in the order of the mesh vertices.

    index   (V,K) bones and weight (V,K) of the solver's vertices
    order   (V,) the mesh vertex that each of them is

    The largest weight comes first and compensates for the rounding to float32. Places that no
    vertex uses are dropped.
    """
    largest_first = np.argsort(-weight, axis=1, kind="stable")
    index = np.take_along_axis(index, largest_first, axis=1)
    weight = np.take_along_axis(weight, largest_first, axis=1)
    places = max(1, int((weight > 0).sum(axis=1).max()))
    packed_index = np.empty((len(order), places), np.int32)
    packed_weight = np.empty((len(order), places), np.float32)
    packed_index[order] = np.where(weight > 0, index, 0)[:, :places]
    packed_weight[order] = float32_weights(weight[:, :places])
    return Skin(packed_index, packed_weight)

"""A rigged character, or the weights of a rig, as a deformer: nothing is fitted.

The skin is the character's own. Each blend shape is one control, one coefficient and one basis of a
single column:

    c_s = control_s        d = sum over shapes s of  scatter(vertices_s, offsets_s c_s)
"""

from __future__ import annotations

import numpy as np

from understudy.core.character import Character
from understudy.core.deformer import Deformer
from understudy.core.features import Features
from understudy.core.networks import Basis, Net
from understudy.core.poses import Poses, evenly
from understudy.core.version import __version__

OWN_SKIN = "own_skin"  # what results call the weights that the source of the poses has
EXACT = 1e-5  # of the height: the largest error of a deformer that is called exact
_MEASURED_POSES = 200


def deformer_of_character(character: Character) -> Deformer:
    """Return the deformer that moves the character's mesh as its own skin and shapes do.

    Its controls are the weights of the blend shapes, without limits. A clip with a point cache is
    not reproduced: the cache replaces skin and shapes.
    """
    count = len(character.shapes)
    first = 12 * character.bone_count
    wide = np.full(count, np.inf, np.float32)
    nets: tuple[Net, ...] = ()
    if count:
        every = np.arange(count)
        nets = (Net(every, (np.eye(count),), (np.zeros(count),), every),)
    bases = tuple(
        Basis(shape.vertices, shape.offsets.reshape(-1, 1), np.array([number]))
        for number, shape in enumerate(character.shapes)
        if len(shape.vertices)
    )
    return Deformer(
        mesh=character.mesh,
        skeleton=character.skeleton,
        control_spec=character.control_spec,
        skin=character.skin,
        features=Features(first + np.arange(count), -wide, wide),
        nets=nets,
        bases=bases,
        method="character",
        provenance={"understudy": __version__, "poses": character.name, "config": {}},
    )


def deformer_of_skin(poses: Poses) -> Deformer | None:
    """The deformer of the weights that the source of `poses` has; None where it has none."""
    if poses.skin is None:
        return None
    return Deformer(
        mesh=poses.mesh,
        skeleton=poses.skeleton,
        control_spec=poses.control_spec,
        skin=poses.skin,
        method=OWN_SKIN,
        provenance={"understudy": __version__, "poses": poses.name, "config": {}},
    )


def is_exact(deformer: Deformer, poses: Poses) -> bool:
    """Whether a skin reproduces some of `poses` up to rounding."""
    limit = EXACT * poses.mesh.height
    for at in evenly(poses.pose_count, _MEASURED_POSES):
        one = poses.between(int(at), int(at) + 1)
        found = deformer.deform_reference(one.world_from_bone)
        if np.linalg.norm(found - one.read_poses(0, 1), axis=2).max() > limit:
            return False
    return True

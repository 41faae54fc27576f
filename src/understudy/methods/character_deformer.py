"""A rigged character as a deformer, exactly: nothing is fitted.

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
from understudy.core.version import __version__


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

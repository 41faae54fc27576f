"""The full sweep that `bench auto` compares with: every point of a grid, each with its own fit."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from understudy.core.poses import Poses
from understudy.methods.auto.candidates import SKIN_INFLUENCES, Candidate, Maker
from understudy.methods.auto.sequences import FAMILIES, sequence_candidate
from understudy.methods.fit_arguments import is_sequence

# Regions, networks and hidden width of corrected_skin.
_SHAPES = ((32, 12, 16), (64, 24, 32), (128, 32, 64), (192, 64, 128))
# Regions and hidden width of differential.
_DIFFERENTIAL_SHAPES = ((8, 16), (16, 32), (24, 64), (24, 128))
# Errors of the basis, in units of the default: the number of components.
_BASIS_ERRORS = (8.0, 4.0, 2.0, 1.0)
# The other skin, fewer influences and other methods are tried at this shape.
_MIDDLE = 2
# Numbers of bones of a sequence, in one layer and in two.
_BONES = (4, 8, 12, 20, 28, 40, 56)
_LAYERED_BONES = (8, 16, 28, 40)

Item = TypeVar("Item")


def sweep_of(poses: Poses, seed: int, epochs: int, levels: int | None) -> list[Candidate]:
    """The points of the sweep for poses with bones, with controls alone, or with neither.

    levels  upper limit of shapes, of errors of the basis, and of numbers of bones; None: all
    """
    if is_sequence(poses):
        return _sequence(poses, seed, levels)
    maker = Maker(poses, seed, epochs)
    errors = _few(_BASIS_ERRORS, levels)
    if poses.skeleton is None:
        shapes = _few(_DIFFERENTIAL_SHAPES, levels)
        found = [
            maker.differential(f"differential-{'-'.join(map(str, shape))}-{error:g}", shape, error)
            for shape in shapes
            for error in errors
        ]
        others = [
            maker.corrected(f"corrected_skin-{shape[2]}", shape, errors[-1])
            for shape in _few(_SHAPES, levels)
        ]
        return [*found, *others]
    networks = _few(_SHAPES, levels)
    middle = networks[min(_MIDDLE, len(networks) - 1)]
    variants: dict[str, dict[str, Any]] = {
        "fitted": {"skin": "fitted"},
        "blended": {"skin": "blended"},
        "2-influences": {"influences": 2},
    }
    return [
        *(maker.skin(k) for k in SKIN_INFLUENCES),
        maker.layered(),
        *(
            maker.corrected(f"corrected_skin-{'-'.join(map(str, shape))}-{error:g}", shape, error)
            for shape in networks
            for error in errors
        ),
        *(
            maker.corrected(f"corrected_skin-{name}", middle, errors[-1], **options)
            for name, options in variants.items()
        ),
        maker.trained("fdda", "fdda"),
        *(maker.differential(f"differential-{h}", (24, h), errors[-1]) for h in (32, 96)),
    ]


def _sequence(poses: Poses, seed: int, levels: int | None) -> list[Candidate]:
    found: list[Candidate] = []
    for name, family in FAMILIES.items():
        counts = _BONES if family.method == "ssdr" else _LAYERED_BONES
        known = [b for b in counts if b <= poses.vertex_count] or [1]
        found += [sequence_candidate(b, name, seed) for b in _few(tuple(known), levels)]
    return found


def _few(found: tuple[Item, ...], most: int | None) -> tuple[Item, ...]:
    """At most `most` entries, evenly spaced, with the first and the last."""
    if most is None or len(found) <= most:
        return found
    return tuple(found[round(k)] for k in np.linspace(0, len(found) - 1, most))

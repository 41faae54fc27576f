"""How far the parts of a body turn, by the words with which riggers name bones and controls.

No file says that a jaw opens by 30 degrees and an arm swings by 90. Names do, in nearly all rigs.
"""

from __future__ import annotations

import re

# Words, and by how many degrees such a part turns to each side. The first that fits counts.
_TURNS = (
    ("teeth|tooth", 10),
    ("jaw|tongue|lid|brow|lip|mouth|nose|nostril|cheek|chin|ear", 30),
    ("eye", 35),
    ("breast|pec|palm|metacarpal|carpal", 20),
    ("thumb|index|middle|ring|pinky|finger", 75),
    ("toe", 50),
    ("neck", 35),
    ("head", 50),
    ("shoulder|clavicle|collar|scapula", 30),
    ("spine|chest|torso|hips|pelvis|abdomen|belly|waist|rib", 30),
    ("hand|wrist|forearm|elbow", 80),
    ("arm", 90),
    ("foot|ankle|heel", 45),
    ("thigh|leg|shin|calf|knee", 80),
)
_LONG = 0.4  # fingers turn about their own length by so much of that


def natural_turn(bone: str, axis: int) -> float | None:
    """By how many degrees a bone of this name turns to each side; None: the name tells nothing.

    axis  of the bone; 1 is its own length

    >>> natural_turn("jaw_master", 0), natural_turn("DEF-forearm.L", 0), natural_turn("ik_01", 0)
    (30.0, 80.0, None)
    """
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", bone).lower()
    for names, degrees in _TURNS:
        # Word by word, except at its end: `ear` is no part of `forearm`, `arm` one of `arms`.
        if re.search(rf"(?<![a-z])(left|right|up|lower|upper|fore)?({names})", words):
            own = _LONG if axis == 1 and "thumb" in names else 1.0
            return degrees * own
    return None

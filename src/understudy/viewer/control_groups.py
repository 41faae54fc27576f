"""Body parts of controls and bones, from their names: the groups of sliders in the page."""

from __future__ import annotations

import re

# Group -> words that a name of it contains. The first group with a word of the name wins.
_WORDS = {
    "Eyes": "eye eyes lid lids gaze pupil iris",
    "Brows": "brow brows forehead scalp",
    "Mouth": "mouth lip lips jaw tongue teeth corner smile frown pucker funnel press sticky roll "
    "shrug dimple sneer snarl viseme mentalis chin",
    "Cheeks and nose": "cheek cheeks nose nostril nasolabial squint platysma clench puff",
    "Fingers": "thumb index middle ring pinky finger fingers hand palm metacarpal",
    "Arm": "clavicle shoulder upperarm arm elbow forearm lowerarm wrist",
    "Foot": "toe toes foot ball heel",
    "Leg": "hip thigh upperleg leg knee shin lowerleg calf ankle",
    "Head and neck": "head neck throat skull",
    "Torso": "waist chest spine torso abdomen belly breast breath ribs stomach pelvis hips",
    "Root": "root master global world cog main",
}
_GROUP = {word: group for group, words in _WORDS.items() for word in words.split()}
_SIDES = {"l": "left", "left": "left", "r": "right", "right": "right"}
OTHER = "Other"


def group_of(name: str) -> str:
    """Return the body part that a control or bone belongs to, with its side.

    >>> group_of("elbow_flex_L"), group_of("head_nod"), group_of("finger2-1.R")
    ('Arm, left', 'Head and neck', 'Fingers, right')
    >>> group_of("wobble")
    'Other'
    """
    words = _words(name)
    found = next((_GROUP[word] for word in words if word in _GROUP), None)
    if found is None:
        # Names such as "upperarm01" or "eyebrow" contain a word without a separator.
        long = [word for word in _GROUP if len(word) > 3 and word in "".join(words)]
        found = _GROUP[max(long, key=len)] if long else OTHER
    side = next((_SIDES[word] for word in reversed(words) if word in _SIDES), None)
    return found if side is None or found == OTHER else f"{found}, {side}"


def _words(name: str) -> list[str]:
    """Return the words of a name, in lower case: split at separators, digits and capitals.

    >>> _words("mouthCorner_L.01")
    ['mouth', 'corner', 'l']
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return [word.lower() for word in re.split(r"[^A-Za-z]+", spaced) if word]

"""The built-in rig `face`: MakeHuman's head (CC0) with our own film-style deformation stack.

It has 4,597 vertices, 23 joints and 77 controls, 63 of them numeric. anatomy.py reads the head;
controls.py, joints.py and shapes.py are what an animator drives; delta_mush.py, lids.py, lips.py
and cheeks.py are the stages after skinning; animations.py has a spoken sentence and a run of
expressions.
"""

from understudy.core import fit_packages  # noqa: F401  # says what is missing
from understudy.rigs.face.rig import FaceRig

__all__ = ["FaceRig"]

"""The built-in rig `face`: MakeHuman's head (CC0) under a film-style stack of our own. 4,597
vertices, 23 joints, 63 numeric controls.

anatomy.py reads it; controls.py, joints.py and shapes.py are what an animator drives; mush.py,
lids.py, lips.py and cheeks.py are the stack above the skin; animations.py holds a spoken sentence
and a run of expressions.
"""

from understudy.rigs.face.rig import FaceRig

__all__ = ["FaceRig"]

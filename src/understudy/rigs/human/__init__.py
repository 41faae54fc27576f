"""The built-in rig `human`: a young man of 13,380 vertices and 163 bones, with a film-style
deformation stack.

MakeHuman's CC0 body (anatomy.py) under our own skeleton system (skeleton_system.py) and deformation
stack (deformation.py, sculpts_*.py), with two animations of our own (animations.py) and a way in
for CMU motion capture (retarget.py).
"""

from understudy.rigs.human.rig import HumanRig

__all__ = ["HumanRig"]

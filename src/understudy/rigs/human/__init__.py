"""The built-in rig `human`: a young man with a film-style deformation stack.

It has 13,380 vertices, 163 bones and 85 controls: MakeHuman's CC0 body (anatomy.py), our own
skeleton controls (skeleton_system.py) and deformation stack (deformation.py, correctives*.py), two
animations (animations.py) and a retargeting of CMU motion capture (retarget.py).
"""

from understudy.core import fit_packages  # noqa: F401  # says what is missing
from understudy.rigs.human.rig import HumanRig

__all__ = ["HumanRig"]

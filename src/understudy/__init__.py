"""Understudy learns a character's deformation and stands in for it.

Everything here runs without torch: loading a `.understudy` file and deforming with it needs NumPy, SciPy and safetensors alone.
"""

from understudy.clip import Clip
from understudy.controls import ControlSpec
from understudy.deformer import Deformer, Features, Skin
from understudy.errors import FileError, InputError, MissingDependencyError, UnderstudyError
from understudy.mesh import Mesh
from understudy.networks import Basis, Net
from understudy.poses import Poses
from understudy.skeleton import Skeleton

__version__ = "0.1.0"

__all__ = [
    "Basis",
    "Clip",
    "ControlSpec",
    "Deformer",
    "Features",
    "FileError",
    "InputError",
    "Mesh",
    "MissingDependencyError",
    "Net",
    "Poses",
    "Skeleton",
    "Skin",
    "UnderstudyError",
]

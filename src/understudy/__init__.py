"""Understudy learns a character's deformation and stands in for it.

Everything here runs without torch and SciPy: loading a `.understudy` file and deforming with it
needs NumPy and safetensors alone.
"""

from typing import TYPE_CHECKING, Any

# First: NumPy reads the environment when it loads.
from understudy.system import thread_environment  # noqa: F401

# isort: split
from understudy.core.bounds import Bounds
from understudy.core.character import BlendShape, Character, CharacterClip
from understudy.core.clip import Clip
from understudy.core.controls import ControlSpec
from understudy.core.deformer import Deformer
from understudy.core.features import Features
from understudy.core.mesh import Mesh
from understudy.core.networks import Basis, Net
from understudy.core.poses import Poses
from understudy.core.posing import PosingSkeleton
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.core.version import __version__
from understudy.io.understudy import load, save
from understudy.runtime import half_precision, native, reference
from understudy.system.errors import FileError, InputError, MissingDependencyError, UnderstudyError

if TYPE_CHECKING:
    from understudy.jobs import compare, compress, learn, read

_JOBS = ("compare", "compress", "learn", "read")

__all__ = [
    "Basis",
    "BlendShape",
    "Bounds",
    "Character",
    "CharacterClip",
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
    "PosingSkeleton",
    "Skeleton",
    "Skin",
    "UnderstudyError",
    "__version__",
    "compare",
    "compress",
    "learn",
    "read",
]


# A deformer is data; what users call on it is done by the rooms above `core`.
for _name, _function in {
    "deform": native.deform,
    "deform_reference": reference.deform_reference,
    "deform_displaced": reference.deform_displaced,
    "displacements": reference.displacements,
    "distance_from_data": reference.distance_from_data,
    "half": half_precision.halved,
    "save": save,
    "load": staticmethod(load),
}.items():
    setattr(Deformer, _name, _function)


def __getattr__(name: str) -> Any:
    """The jobs, imported when they are asked for: playing a file needs none of their packages."""
    if name in _JOBS:
        from understudy import jobs

        return getattr(jobs, name)
    raise AttributeError(f"module 'understudy' has no attribute {name!r}")

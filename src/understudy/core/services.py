"""What a `Deformer` calls in the layers above it.

`Deformer.deform`, `save` and `load` are what users call, but files (`io`) and playing (`runtime`)
are layers above the nouns. Each registers itself here when it is imported. `understudy/__init__.py`
imports both, so every program that can name a `Deformer` has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class Services:
    """Functions that layers above `core` provide; each takes the deformer first, except `load`.

    deform            vertices (and normals) of poses, by the fastest way there is
    deform_reference  the same in NumPy
    displacements     the correctives alone
    deform_displaced  the skin alone, on given displacements
    half              the deformer with 16-bit numbers
    save, load        the `.understudy` file
    """

    deform: Callable[..., Any] | None = None
    deform_reference: Callable[..., Any] | None = None
    displacements: Callable[..., Any] | None = None
    deform_displaced: Callable[..., Any] | None = None
    half: Callable[..., Any] | None = None
    save: Callable[..., None] | None = None
    load: Callable[..., Any] | None = None


SERVICES = Services()

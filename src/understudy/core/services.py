"""What a `Deformer` calls in the layers above it.

`Deformer.deform`, `save` and `load` are what users call, but files (`io`) and playback (`runtime`)
are layers above `core`. Each registers its functions here when it is imported.
`understudy/__init__.py` imports both, so every program that imports `understudy` has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


def _not_registered(*_: Any, **__: Any) -> Any:
    raise RuntimeError("the layer above understudy.core is not loaded: import understudy first")


@dataclass
class Services:
    """Functions that layers above `core` register; each takes the deformer first, except `load`.

    deform            vertices, and normals if asked for, by the fastest implementation there is
    deform_reference  the same in NumPy
    displacements     the correctives alone
    deform_displaced  the skin alone, on given displacements
    distance_from_data  how far poses lie from the training poses
    half              the deformer with 16-bit numbers
    save, load        the `.understudy` file
    """

    deform: Callable[..., Any] = _not_registered
    deform_reference: Callable[..., np.ndarray] = _not_registered
    displacements: Callable[..., np.ndarray] = _not_registered
    deform_displaced: Callable[..., np.ndarray] = _not_registered
    distance_from_data: Callable[..., np.ndarray] = _not_registered
    half: Callable[..., Any] = _not_registered
    save: Callable[..., None] = _not_registered
    load: Callable[..., Any] = _not_registered


SERVICES = Services()

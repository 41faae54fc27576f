"""`Deformer.deform`: the compiled runtime or, if there is none, the NumPy reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.services import SERVICES
from understudy.geometry.normals import vertex_normals
from understudy.runtime.drivers import drivers
from understudy.runtime.native import checked_threads, runtime_of
from understudy.runtime.reference import deform_reference
from understudy.system import checks
from understudy.system.errors import InputError


def deform(
    deformer: Deformer,
    world_from_bone: Any = None,
    controls: Any = None,
    *,
    threads: int | None = None,
    out: np.ndarray | None = None,
    normals: bool = False,
) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """Return the vertices of some poses; see `Deformer.deform`."""
    packed = runtime_of(deformer)
    # Most callers play one pose per frame. For a small character the full checks would take a tenth
    # of the time, so they run only if this returns False.
    if (
        packed is not None
        and out is not None
        and not normals
        and packed.play(world_from_bone, controls, out, threads)
    ):
        return out
    threads = checked_threads(threads)
    if packed is None:
        vertices = deform_reference(deformer, world_from_bone, controls)
        if out is not None:
            out = _output(out, vertices.shape)
            out[...] = vertices
            vertices = out
        return (
            (vertices, vertex_normals(vertices, deformer.mesh.triangles)) if normals else vertices
        )
    given = drivers(deformer, world_from_bone, controls, finite=False)
    shape = (given.pose_count, deformer.mesh.vertex_count, 3)
    if out is None:
        result = np.empty(shape, np.float32)
    else:
        result = _output(out, shape[1:] if given.single else shape).reshape(shape)
        for name in ("world_from_bone", "controls"):
            driver = getattr(given, name)
            if driver is not None and np.may_share_memory(result, driver):
                raise InputError(f"out: shares memory with {name}; use another array")
    vectors = np.empty(shape, np.float32) if normals else None
    if not packed.deform(given.world_from_bone, given.controls, result, vectors, threads):
        # Raises, and names the number that is not finite or too large.
        drivers(deformer, world_from_bone, controls)
    if given.single:
        result = result[0]
        vectors = None if vectors is None else vectors[0]
    return result if vectors is None else (result, vectors)


def _output(out: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return `out`, if it can be written to without a copy."""
    if (
        not isinstance(out, np.ndarray)
        or out.dtype != np.float32
        or not out.flags.c_contiguous
        or not out.flags.writeable
    ):
        raise InputError("out: expected a writable C-contiguous NumPy array of float32")
    return checks.shape_of(out, "out", shape)


SERVICES.deform = deform

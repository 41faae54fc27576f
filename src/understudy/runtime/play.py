"""`Deformer.deform`: the compiled runtime where there is one, else the NumPy reference."""

from __future__ import annotations

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.services import SERVICES
from understudy.geometry.normals import vertex_normals
from understudy.runtime.drivers import drivers
from understudy.runtime.native import checked_threads, runtime_of
from understudy.runtime.reference import deform_reference


def deform(
    deformer: Deformer,
    world_from_bone=None,
    controls=None,
    *,
    threads: int | None = None,
    out: np.ndarray | None = None,
    normals: bool = False,
):
    """See `Deformer.deform`."""
    packed = runtime_of(deformer)
    # Most callers play one pose a frame. The full checks would take a tenth of a small character's
    # time, so they run only where this refuses.
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
    bones, values, single = drivers(deformer, world_from_bone, controls, finite=False)
    pose_count = len(bones) if bones is not None else len(values)
    shape = (pose_count, deformer.mesh.vertex_count, 3)
    result = (
        np.empty(shape, np.float32)
        if out is None
        else _output(out, shape[1:] if single else shape).reshape(shape)
    )
    sides = np.empty(shape, np.float32) if normals else None
    if not packed.deform(bones, values, result, sides, threads):
        drivers(deformer, world_from_bone, controls)  # raises, naming the number that is not finite
    if single:
        result, sides = result[0], None if sides is None else sides[0]
    return (result, sides) if normals else result


def _output(out: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """`out`, if it can be written to as it is."""
    if (
        not isinstance(out, np.ndarray)
        or out.dtype != np.float32
        or not out.flags.c_contiguous
        or not out.flags.writeable
    ):
        raise InputError("out: expected a writable C-contiguous NumPy array of float32")
    return checks.shape_of(out, "out", shape)


SERVICES.deform = deform

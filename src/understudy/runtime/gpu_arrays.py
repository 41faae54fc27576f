"""A deformer's bases, rest positions and skin in arrays that a compute shader reads.

The layout is that of `understudy_gpu_arrays` in `runtime/include/understudy.h`.
`examples/gpu/correctives.wgsl` is a shader that reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.core.deformer import Deformer
from understudy.runtime import native
from understudy.runtime.reference import drivers
from understudy.system.errors import InputError


@dataclass(frozen=True, eq=False)
class GpuArrays:
    """The constant arrays of a deformer with V vertices, and what changes with the pose.

    runtime               the deformer as the compiled runtime has it
    rest                  (V,4) float32, rest position plus mean, then 1
    entry_starts          (V+1,) uint32, the entries that move each vertex
    entries               (E,4) uint32: first matrix number, step, first coefficient, count
    matrices              (M,) float32
    influence_transforms  (V,K) uint32
    influence_weights     (V,K) float32
    coefficient_count     numbers that `write_coefficients` writes
    transform_count       3x4 matrices that `write_transforms` writes
    """

    deformer: Deformer
    runtime: native.Runtime
    rest: np.ndarray
    entry_starts: np.ndarray
    entries: np.ndarray
    matrices: np.ndarray
    influence_transforms: np.ndarray
    influence_weights: np.ndarray
    coefficient_count: int
    transform_count: int

    @classmethod
    def of(cls, deformer: Deformer) -> GpuArrays:
        """Return the arrays of a deformer."""
        runtime = native.runtime_of(deformer)
        if runtime is None:
            raise InputError(
                "arrays for a GPU need the compiled runtime; install a C++ compiler, then "
                "understudy again"
            )
        counts = runtime.model.gpu_counts()
        vertices, coefficients, entries, numbers, influences, transforms = counts
        arrays = (
            np.empty((vertices, 4), np.float32),
            np.empty(vertices + 1, np.uint32),
            np.empty((entries, 4), np.uint32),
            np.empty(numbers, np.float32),
            np.empty((vertices, influences), np.uint32),
            np.empty((vertices, influences), np.float32),
        )
        runtime.model.fill_gpu_arrays(*arrays)
        return cls(deformer, runtime, *arrays, coefficients, transforms)

    def write_coefficients(self, world_from_bone: Any, controls: Any, out: np.ndarray) -> None:
        """Write the coefficients of one pose.

        world_from_bone  (B,3,4), or None: the deformer has no bones
        controls         (C,), or None: the deformer reads no controls
        out              (coefficient_count,) float32
        """
        given = drivers(self.deformer, world_from_bone, controls)
        self.runtime.scratch().coefficients(given.world_from_bone, given.controls, out)

    def write_transforms(self, world_from_bone: Any, out: np.ndarray) -> None:
        """Write the transforms of one pose to `out` (transform_count,3,4) float32."""
        bones = None
        if self.deformer.skeleton is not None:
            bones = np.ascontiguousarray(world_from_bone, np.float64)
        self.runtime.scratch().transforms(bones, out)

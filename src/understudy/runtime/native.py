"""The compiled runtime as `Deformer.deform` uses it; the same C++ that engines link (see
`runtime/include/understudy.h`).

A deformer is packed once, when it is first used, and kept as long as the deformer. Each thread has
its own scratch; pools of helper threads are shared. Where the package was installed without a
compiler, deforming runs on NumPy and says so once.
"""

from __future__ import annotations

import os
import threading
import warnings
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.io.understudy_file import to_bytes

try:
    from understudy.runtime import _runtime as compiled
except ImportError:  # installed without a compiler
    compiled = None

MOST_THREADS = 64
# Below this a second thread costs more than it brings.
_BYTES_PER_THREAD = 1 << 20
_warned = False
_lock = threading.Lock()
_pools: dict[int, object] = {}
_ready: WeakKeyDictionary[Deformer, Runtime] = WeakKeyDictionary()


class Runtime:
    """A deformer packed for the compiled runtime."""

    def __init__(self, deformer: Deformer):
        self._model = compiled.Model(
            deformer.__dict__.pop("file_bytes", None) or _to_bytes(deformer)
        )
        self._threads = min(processors(), max(1, self._model.bytes // _BYTES_PER_THREAD))
        self._own = threading.local()
        self._reads_bones = deformer.skeleton is not None
        self._reads_controls = deformer.reads_controls or not self._reads_bones

    @property
    def bytes(self) -> int:
        """What one call reads."""
        return self._model.bytes

    def deform(
        self,
        world_from_bone,
        controls,
        positions: np.ndarray,
        normals: np.ndarray | None,
        threads: int | None,
    ) -> bool:
        """Fill positions (T,V,3), and normals where given; float64 bones (T,B,3,4) and controls
        (T,C). False: a number was not finite.
        """
        return self._scratch(threads or self._threads).deform(
            world_from_bone, controls, positions, normals
        )

    def play(self, world_from_bone, controls, out: np.ndarray, threads: int | None) -> bool:
        """Fill `out` (V,3) with one pose if every array is used as it is; False, with nothing
        promised of `out`, where one needs a closer look.
        """
        if threads is None:
            threads = self._threads
        elif type(threads) is not int or not 1 <= threads <= MOST_THREADS:
            return False
        return self._scratch(threads).play(
            world_from_bone if self._reads_bones else None,
            controls if self._reads_controls else None,
            out,
        )

    def _scratch(self, threads: int):
        kept = self._own.__dict__.setdefault("scratches", {})
        if threads not in kept:
            kept[threads] = compiled.Scratch(self._model, _pool(threads))
        return kept[threads]


def _to_bytes(deformer: Deformer) -> bytes:
    """The file of a deformer that was not read from one, without clips and what only exporters
    need.
    """
    mesh = replace(
        deformer.mesh,
        corner_uvs=None,
        corner_normals=None,
        materials=(),
        polygon_material=None,
        parts={},
    )
    return to_bytes(replace(deformer, mesh=mesh, clips=(), training={}, provenance={}))


def runtime_of(deformer: Deformer) -> Runtime | None:
    """The packed deformer, made when first asked for; None, and one warning, where there is no
    compiled runtime.
    """
    global _warned
    if compiled is None:
        if not _warned:
            _warned = True
            warnings.warn(
                "understudy was installed without its compiled runtime: deforming runs in NumPy, "
                "many times slower",
                stacklevel=3,
            )
        return None
    found = _ready.get(deformer)
    if found is None:
        with _lock:
            found = _ready.get(deformer)
            if found is None:
                found = _ready[deformer] = Runtime(deformer)
    return found


def processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def checked_threads(threads: int | None) -> int | None:
    """A number of threads, or None for as many as pay."""
    if threads is None:
        return None
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)):
        raise InputError(f"threads: expected a whole number, got {threads!r}")
    return int(checks.between(threads, "threads", 1, MOST_THREADS))


def _pool(threads: int):
    with _lock:
        if threads not in _pools:
            _pools[threads] = compiled.Pool(threads)
        return _pools[threads]

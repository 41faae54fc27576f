"""`Deformer.deform`, and the compiled runtime behind it: the C++ library that engines link.

A deformer is packed when it is first used, and stays packed as long as it lives. Each thread has
its own scratch memory; thread pools are shared. If the package was installed without a compiler,
NumPy takes over, and a warning says so once. The library's interface is
`runtime/include/understudy.h`.
"""

from __future__ import annotations

import importlib
import os
import threading
import warnings
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.form import entry_of
from understudy.geometry.normals import vertex_normals
from understudy.io.understudy import entries_of
from understudy.runtime.reference import deform_reference, drivers
from understudy.system import checks, threads
from understudy.system.errors import InputError


def _compiled_module() -> Any:
    """Return the compiled module; None: the package was installed without a compiler."""
    try:
        return importlib.import_module("understudy.runtime._runtime")
    except ImportError:
        return None


compiled = _compiled_module()
MOST_THREADS = 64
# With fewer bytes to read per thread, another thread costs more time than it saves.
_BYTES_PER_THREAD = 1 << 20
_LOOKS = ("mesh.corner_uvs", "mesh.corner_normals", "mesh.polygon_material", "held_out_error")
_warned = False
_lock = threading.Lock()
_pools: dict[int, Any] = {}
_ready: WeakKeyDictionary[Deformer, Runtime] = WeakKeyDictionary()


class Runtime:
    """A deformer packed for the compiled runtime: its `Model`, and `scratch` for each thread."""

    def __init__(self, deformer: Deformer):
        self.model = compiled.Model(_read_entries(deformer))
        self._threads = min(threads.count(), max(1, self.model.bytes // _BYTES_PER_THREAD))
        self._own = threading.local()
        self._reads_bones = deformer.skeleton is not None
        self._bones = deformer.bone_count
        self._controls = 0 if deformer.control_spec is None else deformer.control_spec.count
        self._reads_controls = deformer.reads_controls or not self._reads_bones

    @property
    def bytes(self) -> int:
        """Bytes that one call reads."""
        return self.model.bytes

    def deform(
        self,
        world_from_bone: np.ndarray | None,
        controls: np.ndarray | None,
        positions: np.ndarray,
        normals: np.ndarray | None,
        threads: int | None,
    ) -> bool:
        """Write positions and normals (T,V,3) of some poses; False: an input is not finite.

        Bones and controls are those of `Drivers`. Without `threads`, as many as help are used.
        """
        return self.scratch(threads or self._threads).deform(
            world_from_bone, controls, positions, normals
        )

    def play(
        self, world_from_bone: Any, controls: Any, out: np.ndarray, threads: int | None
    ) -> bool:
        """Write one pose to `out` (V,3), if every array can be used without a copy.

        False: one cannot, or a number is not finite; the contents of `out` are then undefined.
        """
        if threads is None:
            threads = self._threads
        elif type(threads) is not int or not 1 <= threads <= MOST_THREADS:
            return False
        return self.scratch(threads).play(
            world_from_bone if self._reads_bones else None,
            controls if self._reads_controls else None,
            out,
        )

    def bones_at(self, controls: Any) -> np.ndarray | None:
        """Return the bones of poses, or of one, from controls that determine them.

        None: the controls are not what the model reads; the caller says what is wrong.
        """
        values = np.asarray(controls)
        rows = values[None] if values.ndim == 1 else values
        if rows.ndim != 2 or rows.shape[1] != self._controls or rows.dtype.kind not in "fiu":
            return None
        bones = np.empty((len(rows), self._bones, 3, 4))
        if not self.model.pose_bones(np.ascontiguousarray(rows, np.float64), bones):
            return None
        return bones[0] if values.ndim == 1 else bones

    def scratch(self, threads: int = 1) -> Any:
        """Return the scratch memory of this thread for a number of threads."""
        kept = self._own.__dict__.setdefault("scratches", {})
        if threads not in kept:
            kept[threads] = compiled.Scratch(self.model, _pool(threads))
        return kept[threads]

    def forget_scratches(self) -> None:
        """Make new scratches, with new pools, at the next call."""
        self._own = threading.local()


def _read_entries(deformer: Deformer) -> dict[str, Any]:
    """Return what the compiled runtime reads of a deformer: no clips, and no looks."""
    left_out = {"clips", "clip"} if deformer.poses_bones else {"clips", "clip", "posing"}
    half = deformer.storage != "float32"
    result = {}
    for name, value in entries_of(deformer.folded).items():
        entry = entry_of(name)
        if entry is None or entry.part in left_out or name in _LOOKS or entry.type == "object":
            continue
        result[name] = value.astype(np.float16) if half and entry.narrow == "half" else value
    return result


def runtime_of(deformer: Deformer) -> Runtime | None:
    """Return the packed deformer; None, with one warning, if there is no compiled runtime."""
    global _warned
    if compiled is None:
        if not _warned:
            _warned = True
            warnings.warn(
                "understudy was installed without its compiled runtime: it runs in NumPy, many "
                "times slower; install a C++ compiler, then understudy again",
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


def checked_threads(threads: int | None) -> int | None:
    """Return a number of threads, checked; None means as many as help."""
    if threads is None:
        return None
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)):
        raise InputError(f"threads: expected a whole number, got {threads!r}")
    return int(checks.between(threads, "threads", 1, MOST_THREADS))


def _pool(threads: int) -> Any:
    """Return the shared pool with a number of threads."""
    with _lock:
        if threads not in _pools:
            _pools[threads] = compiled.Pool(threads)
        return _pools[threads]


def _after_fork() -> None:
    """Forget all pools in a forked child: their threads exist only in the parent."""
    global _lock
    _lock = threading.Lock()
    _pools.clear()
    for runtime in list(_ready.values()):
        runtime.forget_scratches()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


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
            _output(out, vertices.shape)[...] = vertices
            vertices = out
        if not normals:
            return vertices
        return vertices, vertex_normals(vertices, deformer.mesh.triangles)
    if world_from_bone is None and controls is not None and deformer.poses_bones:
        world_from_bone = packed.bones_at(controls)
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

"""`Deformer`: a skin plus correctives. What every method ends as; frozen, with no training code behind it.

    x    = clamp(features(bones, controls))                     one vector per pose, held to the range seen in training
    c    = sum over nets g of   scatter(O_g, net_g(x[I_g]))     coefficients
    d    = mean + sum over bases b of  scatter(S_b, basis_b @ c[J_b])   displacements in rest space
    M    = world_from_bone @ bone_from_rest                     (B,3,4); no bones: identity
    M'   = D @ M                                                optional virtual-bone layer
    v_i  = blend over k of  w_ik, M'[b_ik]  applied to (rest_i + d_i, 1)

Positions are computed relative to the root bone and moved back in double precision, so a character far from the origin keeps its accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from understudy.core import checks
from understudy.core.clip import Clip
from understudy.core.controls import ControlSpec
from understudy.core.errors import InputError
from understudy.core.mesh import Mesh
from understudy.core.networks import Basis, Net, NetGroups
from understudy.core.skeleton import Skeleton
from understudy.geometry.normals import vertex_normals
from understudy.geometry.skinning import BLENDS, dual_quaternion_blend, linear_blend, weight_matrix
from understudy.geometry.transforms import compose, parent_from_bone
from understudy.runtime import native as runtime

STORAGES = ("float32", "float16", "int8")
# Poses deformed at once: large enough for matrix products, small enough that blended matrices of 170,000 vertices stay below 300 MB.
_BLOCK_VALUES = 6_000_000


@dataclass(frozen=True, eq=False)
class Skin:
    """Which bones move each vertex, and by how much.

    bone_index      (V,K) int32 into the bones, or into the virtual bones where there are any
    weight          (V,K) float32, summing to one; signs are free (two-layer skinning)
    blend           "linear" or "dual_quaternion"
    virtual_index   (N,c) int32 and virtual_weight (N,c) float32: the rows of D, or both None
    """

    bone_index: np.ndarray
    weight: np.ndarray
    blend: str = "linear"
    virtual_index: np.ndarray | None = None
    virtual_weight: np.ndarray | None = None

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)
        checks.one_of(self.blend, "blend", BLENDS)
        put("weight", checks.array(self.weight, "skin weight", (None, None)))
        put("bone_index", checks.index(self.bone_index, "skin bone_index", 2**31, self.weight.shape))
        if not self.weight.size:
            raise InputError("skin weight: at least one influence per vertex is needed")
        _sums_to_one(self.weight, "skin weight")
        if (self.virtual_index is None) != (self.virtual_weight is None):
            raise InputError("virtual_index and virtual_weight come together: one of them is missing")
        if self.virtual_index is not None:
            put("virtual_weight", checks.array(self.virtual_weight, "virtual_weight", (None, None)))
            put("virtual_index", checks.index(self.virtual_index, "virtual_index", 2**31, self.virtual_weight.shape))
            _sums_to_one(self.virtual_weight, "virtual_weight")
            checks.index(self.bone_index, "skin bone_index", len(self.virtual_index), self.weight.shape)

    @staticmethod
    def rigid(bones: np.ndarray) -> Skin:
        """Every vertex follows one bone: bones (V,)."""
        return Skin(np.asarray(bones).reshape(-1, 1), np.ones((len(bones), 1), np.float32))

    @property
    def influences(self) -> int:
        return self.weight.shape[1]


@dataclass(frozen=True, eq=False)
class Features:
    """Which numbers the nets read, and the range each is held to.

    A pose's raw numbers are the 12 of every bone in its parent's frame (row by row of the 3x4 matrix), bone after bone, then the controls;
    `columns` (X,) int32 picks from those 12 B + C. `low`, `high` (X,) float32 are the clamp; infinite where there is none.
    """

    columns: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    low: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    high: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)
        put("columns", checks.index(self.columns, "feature columns", 2**31))
        for name in ("low", "high"):
            bound = np.ascontiguousarray(getattr(self, name), dtype=np.float32)
            checks.shape_of(bound, f"feature {name}", (len(self.columns),))
            if np.isnan(bound).any():
                raise InputError(f"feature {name}: NaN at feature {int(np.flatnonzero(np.isnan(bound))[0])}")
            put(name, bound)
        if (self.low > self.high).any():
            raise InputError(f"feature range: low is above high at feature {int(np.flatnonzero(self.low > self.high)[0])}")

    @property
    def count(self) -> int:
        return len(self.columns)


def raw_features(skeleton: Skeleton | None, world_from_bone: np.ndarray | None, controls: np.ndarray | None, pose_count: int) -> np.ndarray:
    """(T, 12 B + C) float32: the numbers that `Features.columns` picks from."""
    parts = [np.zeros((pose_count, 0), np.float32)]
    if skeleton is not None:
        parts.append(parent_from_bone(world_from_bone, skeleton.parents).reshape(pose_count, -1).astype(np.float32))
    if controls is not None:
        parts.append(np.asarray(controls, np.float32))
    return np.concatenate(parts, axis=1)


@dataclass(frozen=True, eq=False)
class Deformer:
    """The stand-in. See the module's equations; anything left out is absent (no bones: identity; no nets: no correctives).

    mesh, skeleton, control_spec    what it deforms and what drives it
    skin                            None only where there is no skeleton
    features, nets, bases           correctives
    mean                            (V,3) float32, the displacement at zero coefficients, or None
    method                          the registered name of the method that made it
    training                        errors on the training poses, plain numbers with the unit in `mesh.unit`
    provenance                      what it was made from: rig, poses, seed, version, config
    clips                           the bones' motion of the sequences it was fitted to, in the order they came; empty for a rig
    storage                         float32, or float16: weights and bases are 16-bit numbers, as are rest and skin where they allow, and files and
                                    runtime keep them so (`half()`); or int8: the same, some weights bytes times a number per row (`int8()`)
    """

    mesh: Mesh
    skeleton: Skeleton | None = None
    control_spec: ControlSpec | None = None
    skin: Skin | None = None
    features: Features = field(default_factory=Features)
    nets: tuple[Net, ...] = ()
    bases: tuple[Basis, ...] = ()
    mean: np.ndarray | None = None
    method: str = "unknown"
    training: Mapping[str, float] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    clips: tuple[Clip, ...] = ()
    storage: str = "float32"

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)
        put("nets", tuple(self.nets))
        put("bases", tuple(self.bases))
        put("clips", tuple(self.clips))
        vertex_count = self.mesh.vertex_count
        if (self.skeleton is None) != (self.skin is None):
            raise InputError("a skeleton and a skin come together: one of them is missing")
        if self.skin is not None:
            checks.same_count(len(self.skin.weight), vertex_count, "vertices", "the skin", "the mesh")
            pointers = self.skin.bone_index if self.skin.virtual_index is None else self.skin.virtual_index
            checks.index(pointers, "skin bone_index", self.skeleton.bone_count, pointers.shape)
        checks.names((clip.name for clip in self.clips), "clips")
        for clip in self.clips:
            have = 0 if self.skeleton is None else self.skeleton.bone_count
            checks.same_count(clip.bone_count, have, "bones", f"clip {clip.name!r}", "the skeleton")
        if self.mean is not None:
            put("mean", checks.array(self.mean, "mean displacement", (vertex_count, 3)))
        bones = 0 if self.skeleton is None else self.skeleton.bone_count
        controls = 0 if self.control_spec is None else self.control_spec.count
        checks.index(self.features.columns, "feature columns", 12 * bones + controls)
        for number, net in enumerate(self.nets):
            checks.index(net.inputs, f"inputs of net {number}", self.features.count)
        if self.coefficient_count > sum(len(net.outputs) for net in self.nets):
            raise InputError(f"net outputs: coefficient {self.coefficient_count - 1} is named, but the nets write fewer than that")
        for number, basis in enumerate(self.bases):
            checks.index(basis.vertices, f"vertices of basis {number}", vertex_count)
            checks.index(basis.coefficients, f"coefficients of basis {number}", self.coefficient_count, basis.coefficients.shape)
        checks.one_of(self.storage, "storage", STORAGES)
        if self.storage != "float32":
            self._need_few_bits()

    @cached_property
    def coefficient_count(self) -> int:
        return max((int(net.outputs.max()) + 1 for net in self.nets if len(net.outputs)), default=0)

    def deform(self, world_from_bone=None, controls=None, *, threads: int | None = None, out: np.ndarray | None = None, normals: bool = False):
        """Bones (T,B,3,4) and controls (T,C) -> vertices (T,V,3) float32. One pose without its leading axis gives (V,3).

        threads   how many work on it, the caller's included; None: as many as pay
        out       (T,V,3) float32 to write to and return, C-contiguous; float64 drivers and `out` are then used as they are, without a copy
        normals   also return the vertex normals, of the same shape: (vertices, normals)
        """
        packed = runtime.runtime_of(self)
        # A pose a frame is what most callers play: checks that take as long as a tenth of a small character are left to what needs them.
        if packed is not None and out is not None and not normals and packed.play(world_from_bone, controls, out, threads):
            return out
        threads = runtime.checked_threads(threads)
        if packed is None:
            vertices = self.deform_reference(world_from_bone, controls)
            if out is not None:
                out = self._output(out, vertices.shape)
                out[...] = vertices
                vertices = out
            return (vertices, vertex_normals(vertices, self.mesh.triangles)) if normals else vertices
        bones, values, single = self._drivers(world_from_bone, controls, finite=False)
        pose_count = len(bones) if bones is not None else len(values)
        shape = (pose_count, self.mesh.vertex_count, 3)
        result = np.empty(shape, np.float32) if out is None else self._output(out, shape[1:] if single else shape).reshape(shape)
        sides = np.empty(shape, np.float32) if normals else None
        if not packed.deform(bones, values, result, sides, threads):
            self._drivers(world_from_bone, controls)  # names the number that is not finite
        if single:
            result, sides = result[0], None if sides is None else sides[0]
        return (result, sides) if normals else result

    def deform_reference(self, world_from_bone=None, controls=None) -> np.ndarray:
        """`deform` on NumPy alone: what every other implementation is tested against, and what fitting uses, the same on every processor."""
        world_from_bone, controls, single = self._drivers(world_from_bone, controls)
        pose_count = len(world_from_bone) if world_from_bone is not None else len(controls)
        result = np.empty((pose_count, self.mesh.vertex_count, 3), np.float32)
        block = max(1, _BLOCK_VALUES // (12 * self.mesh.vertex_count))
        for start in range(0, pose_count, block):
            part = slice(start, start + block)
            result[part] = self._deform_block(
                None if world_from_bone is None else world_from_bone[part], None if controls is None else controls[part]
            )
        return result[0] if single else result

    def deform_clip(self, number: int = 0) -> np.ndarray:
        """The frames of one of its clips: (F,V,3) float32."""
        if not self.clips:
            raise InputError("this deformer has no clips: it was not fitted to a sequence")
        return self.deform(self.clips[int(checks.between(number, "clip number", 0, len(self.clips) - 1))].world_from_bone)

    def displacements(self, world_from_bone=None, controls=None) -> np.ndarray:
        """The correctives alone, d of the equations: (T,V,3) float32 in rest space."""
        world_from_bone, controls, single = self._drivers(world_from_bone, controls)
        d = self._displace(self._features(world_from_bone, controls))
        return d[0] if single else d

    def deform_displaced(self, world_from_bone: np.ndarray, displacements: np.ndarray) -> np.ndarray:
        """The skin alone on rest vertices moved by given displacements (T,V,3), in place of the correctives' own: (T,V,3) float32."""
        world_from_bone = checks.array(world_from_bone, "world_from_bone", (None, self.skeleton.bone_count, 3, 4), np.float64)
        shape = (len(world_from_bone), self.mesh.vertex_count, 3)
        return self._place(world_from_bone, self.mesh.vertices + checks.array(displacements, "displacements", shape)).astype(np.float32)

    def cost(self) -> dict[str, int]:
        """`bytes` of its arrays in 32 bits and `multiply_adds` of one pose; `runtime_of(deformer).bytes` is what the runtime reads."""
        net_values = sum(w.size + b.size for net in self.nets for w, b in zip(net.weights, net.biases))
        net_work = sum(w.size for net in self.nets for w in net.weights)
        basis_values = sum(basis.matrix.size for basis in self.bases)
        basis_work = sum(basis.matrix.size * (3 if basis.shared else 1) for basis in self.bases)
        index_values = sum(len(net.inputs) + len(net.outputs) for net in self.nets)
        index_values += sum(len(basis.vertices) + basis.coefficients.size for basis in self.bases)
        skin_values = skin_work = 0
        if self.skin is not None:
            skin_values = 2 * self.skin.weight.size + (0 if self.skin.virtual_weight is None else 2 * self.skin.virtual_weight.size)
            # Blend K matrices of 12, then 9 for the point; virtual bones are blended once each.
            skin_work = 12 * self.skin.weight.size + 9 * self.mesh.vertex_count
            skin_work += 0 if self.skin.virtual_weight is None else 12 * self.skin.virtual_weight.size
        rest_values = 3 * self.mesh.vertex_count * (1 if self.mean is None else 2)
        values = net_values + basis_values + index_values + skin_values + rest_values
        return {"bytes": 4 * values, "multiply_adds": net_work + basis_work + skin_work}

    def half(self) -> Deformer:
        """The same deformer in 16 bits: half the bytes, see `understudy.runtime.precision`."""
        from understudy.runtime.precision import halved

        return halved(self)

    def int8(self) -> Deformer:
        """The same deformer with weights and bases in 8 bits where the error allows, else in 16; see `understudy.runtime.precision`."""
        from understudy.runtime.precision import in_bytes

        return in_bytes(self)

    def save(self, path: str | Path, dtype=None) -> None:
        """Write a `.understudy` file (see `understudy.io.understudy_file`); whole or not at all. dtype: float16 or int8 store it in fewer bits."""
        from understudy.io.understudy_file import save

        wanted = self.storage if dtype is None else checks.one_of(np.dtype(dtype).name, "dtype", STORAGES)
        if self.storage not in ("float32", wanted):
            raise InputError(f"dtype: this deformer is in {self.storage} already; save it as it is")
        save({"float32": lambda: self, "float16": self.half, "int8": self.int8}[wanted](), path)

    @staticmethod
    def load(path: str | Path) -> Deformer:
        """Read a `.understudy` file; anything wrong with it is a clear `FileError`."""
        from understudy.io.understudy_file import load

        return load(path)

    def without_clamp(self) -> Deformer:
        """The same deformer whose features may leave the range seen in training (for comparison)."""
        from dataclasses import replace

        wide = np.full(self.features.count, np.inf, np.float32)
        return replace(self, features=replace(self.features, low=-wide, high=wide))

    def _need_few_bits(self) -> None:
        """Raise unless a 16-bit float holds every weight and basis number exactly; or, in int8, its row's bytes do."""
        from understudy.runtime.precision import bytes_of, is_half

        matrices = [(f"weights of net {n}", w) for n, net in enumerate(self.nets) if net.activation != "rbf" for w in net.weights]
        for name, matrix in [*matrices, *((f"basis {n}", basis.matrix) for n, basis in enumerate(self.bases))]:
            if not is_half(matrix) and (self.storage != "int8" or bytes_of(matrix) is None):
                raise InputError(f"{name}: numbers that 16 bits do not hold; `Deformer.half()` rounds them")

    @staticmethod
    def _output(out: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """`out`, if it can be written to as it is."""
        if not isinstance(out, np.ndarray) or out.dtype != np.float32 or not out.flags.c_contiguous or not out.flags.writeable:
            raise InputError("out: expected a writable C-contiguous NumPy array of float32")
        return checks.shape_of(out, "out", shape)

    def _drivers(self, world_from_bone, controls, finite: bool = True):
        """Checked drivers with a leading pose axis, and whether that axis was added here. `finite`: look for NaN too."""
        numbers = checks.array if finite else checks.array_of
        single = False
        if self.skeleton is not None:
            if world_from_bone is None:
                raise InputError("world_from_bone is missing: this deformer is driven by bones")
            world_from_bone = np.asarray(world_from_bone)
            single = world_from_bone.ndim == 3
            world_from_bone = world_from_bone[None] if single else world_from_bone
            world_from_bone = numbers(world_from_bone, "world_from_bone", (None, self.skeleton.bone_count, 3, 4), np.float64)
        else:
            world_from_bone = None
        if self._reads_controls or (self.skeleton is None and controls is not None):
            if controls is None:
                raise InputError("controls are missing: this deformer's correctives read them")
            controls = np.asarray(controls)
            single = single or controls.ndim == 1
            controls = numbers(controls[None] if controls.ndim == 1 else controls, "controls", (None, self.control_spec.count), np.float64)
            if world_from_bone is not None:
                checks.same_count(len(controls), len(world_from_bone), "poses", "controls", "world_from_bone")
        else:
            controls = None
        if world_from_bone is None and controls is None:
            raise InputError("nothing drives this deformer: it has neither bones nor controls")
        return world_from_bone, controls, single

    @cached_property
    def _reads_controls(self) -> bool:
        bones = 0 if self.skeleton is None else self.skeleton.bone_count
        return bool((self.features.columns >= 12 * bones).any())

    @cached_property
    def _net_groups(self) -> NetGroups:
        return NetGroups(self.nets, self.features.count, self.coefficient_count)

    @cached_property
    def _weights(self) -> sp.csr_matrix:
        count = self.skeleton.bone_count if self.skin.virtual_index is None else len(self.skin.virtual_index)
        return weight_matrix(self.skin.bone_index, self.skin.weight, count)

    def _features(self, world_from_bone, controls) -> np.ndarray:
        if not self.features.count:
            return np.zeros((len(world_from_bone) if world_from_bone is not None else len(controls), 0), np.float32)
        pose_count = len(world_from_bone) if world_from_bone is not None else len(controls)
        raw = raw_features(self.skeleton, world_from_bone, controls, pose_count)
        return np.clip(raw[:, self.features.columns], self.features.low, self.features.high)

    def _displace(self, features: np.ndarray) -> np.ndarray:
        d = np.zeros((len(features), self.mesh.vertex_count, 3), np.float32)
        if self.mean is not None:
            d += self.mean
        coefficients = self._net_groups(features) if self.nets else None
        for basis in self.bases:
            if basis.shared:
                part = np.einsum("np,tap->tna", basis.matrix, coefficients[:, basis.coefficients], optimize=True)
            else:
                part = (coefficients[:, basis.coefficients] @ basis.matrix.T).reshape(len(features), -1, 3)
            d[:, basis.vertices] += part
        return d

    def _deform_block(self, world_from_bone, controls) -> np.ndarray:
        points = self.mesh.vertices + self._displace(self._features(world_from_bone, controls))
        return points if self.skin is None else self._place(world_from_bone, points)

    def _place(self, world_from_bone, points) -> np.ndarray:
        """The skin: points (T,V,3) before it -> after it."""
        # float32 cannot hold millimetres at ten kilometres: skin around the root, then move back.
        centre = world_from_bone[:, self.skeleton.roots[0], :, 3]
        local = world_from_bone.copy()
        local[..., 3] -= centre[:, None]
        matrices = compose(local, self.skeleton.bone_from_world).astype(np.float32)
        if self.skin.virtual_index is not None:
            rows = weight_matrix(self.skin.virtual_index, self.skin.virtual_weight, self.skeleton.bone_count)
            flat = np.moveaxis(matrices, 1, 0).reshape(self.skeleton.bone_count, -1)
            matrices = np.moveaxis((rows @ flat).reshape(-1, len(matrices), 3, 4), 1, 0)
        if self.skin.blend == "linear":
            posed = linear_blend(matrices, self._weights, points)
        else:
            posed = dual_quaternion_blend(matrices, self.skin.bone_index, self.skin.weight, points)
        return posed + centre[:, None]


def _sums_to_one(weight: np.ndarray, name: str) -> None:
    off = np.abs(weight.sum(axis=1, dtype=np.float64) - 1)
    if (off > 1e-3).any():
        row = int(off.argmax())
        raise InputError(f"{name}: row {row} sums to {weight[row].sum():g}; weights must sum to one")

"""`Deformer`: a skin plus correctives. What every method ends as; frozen, with no training code
behind it.

    x    = clamp(features(bones, controls))                     one vector per pose, held to the
         range seen in training
    c    = sum over nets g of   scatter(O_g, net_g(x[I_g]))     coefficients
    d    = mean + sum over bases b of  scatter(S_b, basis_b @ c[J_b])   displacements in rest space
    M    = world_from_bone @ bone_from_rest                     (B,3,4); no bones: identity
    M'   = D @ M                                                optional virtual-bone layer
    v_i  = blend over k of  w_ik, M'[b_ik]  applied to (rest_i + d_i, 1)

Positions are computed relative to the root bone and moved back in double precision, so a character
far from the origin keeps its accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from understudy.core import checks
from understudy.core.clip import Clip
from understudy.core.controls import ControlSpec
from understudy.core.errors import InputError
from understudy.core.features import Features
from understudy.core.mesh import Mesh
from understudy.core.networks import Basis, Net, NetGroups
from understudy.core.services import SERVICES
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.core.storage import is_half
from understudy.geometry.skinning import weight_matrix

STORAGES = ("float32", "float16")


@dataclass(frozen=True, eq=False)
class Deformer:
    """The stand-in. See the module's equations; anything left out is absent (no bones: identity; no
    nets: no correctives).

    mesh, skeleton, control_spec    what it deforms and what drives it
    skin                            None only where there is no skeleton
    features, nets, bases           correctives
    mean                            (V,3) float32, the displacement at zero coefficients, or None
    method                          the registered name of the method that made it
    training                        errors on the training poses, plain numbers with the unit in
                                    `mesh.unit`
    provenance                      what it was made from: rig, poses, seed, version, config
    clips                           the bones' motion of the sequences it was fitted to, in the
                                    order they came; empty for a rig
    storage                         float32, or float16: weights and bases are 16-bit numbers, as
                                    are rest and skin where they allow, and files and
                                    runtime keep them so (`half()`)
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
            checks.same_count(
                len(self.skin.weight), vertex_count, "vertices", "the skin", "the mesh"
            )
            pointers = (
                self.skin.bone_index if self.skin.virtual_index is None else self.skin.virtual_index
            )
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
            raise InputError(
                f"net outputs: coefficient {self.coefficient_count - 1} is named, but the nets "
                f"write fewer than that"
            )
        for number, basis in enumerate(self.bases):
            checks.index(basis.vertices, f"vertices of basis {number}", vertex_count)
            checks.index(
                basis.coefficients,
                f"coefficients of basis {number}",
                self.coefficient_count,
                basis.coefficients.shape,
            )
        checks.one_of(self.storage, "storage", STORAGES)
        if self.storage != "float32":
            self._need_half()

    @cached_property
    def coefficient_count(self) -> int:
        return max((int(net.outputs.max()) + 1 for net in self.nets if len(net.outputs)), default=0)

    def deform(
        self,
        world_from_bone=None,
        controls=None,
        *,
        threads: int | None = None,
        out: np.ndarray | None = None,
        normals: bool = False,
    ):
        """Bones (T,B,3,4) and controls (T,C) -> vertices (T,V,3) float32. One pose without its
        leading axis gives (V,3).

        threads   how many work on it, the caller's included; None: as many as pay
        out       (T,V,3) float32 to write to and return, C-contiguous; float64 drivers and `out`
                  are then used as they are, without a copy
        normals   also return the vertex normals, of the same shape: (vertices, normals)
        """
        return SERVICES.deform(
            self, world_from_bone, controls, threads=threads, out=out, normals=normals
        )

    def deform_reference(self, world_from_bone=None, controls=None) -> np.ndarray:
        """`deform` on NumPy alone: what every other implementation is tested against, and what
        fitting uses, the same on every processor.
        """
        return SERVICES.deform_reference(self, world_from_bone, controls)

    def deform_clip(self, number: int = 0) -> np.ndarray:
        """The frames of one of its clips: (F,V,3) float32."""
        if not self.clips:
            raise InputError("this deformer has no clips: it was not fitted to a sequence")
        return self.deform(
            self.clips[
                int(checks.between(number, "clip number", 0, len(self.clips) - 1))
            ].world_from_bone
        )

    def displacements(self, world_from_bone=None, controls=None) -> np.ndarray:
        """The correctives alone, d of the equations: (T,V,3) float32 in rest space."""
        return SERVICES.displacements(self, world_from_bone, controls)

    def deform_displaced(
        self, world_from_bone: np.ndarray, displacements: np.ndarray
    ) -> np.ndarray:
        """The skin alone on rest vertices moved by given displacements (T,V,3), in place of the
        correctives' own: (T,V,3) float32.
        """
        return SERVICES.deform_displaced(self, world_from_bone, displacements)

    def cost(self) -> dict[str, int]:
        """`bytes` of its arrays in 32 bits and `multiply_adds` of one pose;
        `runtime_of(deformer).bytes` is what the runtime reads.
        """
        net_values = sum(
            w.size + b.size for net in self.nets for w, b in zip(net.weights, net.biases)
        )
        net_work = sum(w.size for net in self.nets for w in net.weights)
        basis_values = sum(basis.matrix.size for basis in self.bases)
        basis_work = sum(basis.matrix.size * (3 if basis.shared else 1) for basis in self.bases)
        index_values = sum(len(net.inputs) + len(net.outputs) for net in self.nets)
        index_values += sum(len(basis.vertices) + basis.coefficients.size for basis in self.bases)
        skin_values = skin_work = 0
        if self.skin is not None:
            skin_values = 2 * self.skin.weight.size + (
                0 if self.skin.virtual_weight is None else 2 * self.skin.virtual_weight.size
            )
            # Blend K matrices of 12, then 9 for the point; virtual bones are blended once each.
            skin_work = 12 * self.skin.weight.size + 9 * self.mesh.vertex_count
            skin_work += (
                0 if self.skin.virtual_weight is None else 12 * self.skin.virtual_weight.size
            )
        rest_values = 3 * self.mesh.vertex_count * (1 if self.mean is None else 2)
        values = net_values + basis_values + index_values + skin_values + rest_values
        return {"bytes": 4 * values, "multiply_adds": net_work + basis_work + skin_work}

    def half(self) -> Deformer:
        """The same deformer in 16 bits: half the bytes, see `understudy.runtime.half_precision`."""
        return SERVICES.half(self)

    def save(self, path: str | Path, dtype=None) -> None:
        """Write a `.understudy` file (see `understudy.io.understudy_file`); whole or not at all.
        dtype: float16 stores it in half the bytes.
        """
        wanted = (
            self.storage
            if dtype is None
            else checks.one_of(np.dtype(dtype).name, "dtype", STORAGES)
        )
        if self.storage not in ("float32", wanted):
            raise InputError(f"dtype: this deformer is in {self.storage} already; save it as it is")
        SERVICES.save(self if wanted == self.storage else self.half(), path)

    @staticmethod
    def load(path: str | Path) -> Deformer:
        """Read a `.understudy` file; anything wrong with it is a clear `FileError`."""
        return SERVICES.load(path)

    def without_clamp(self) -> Deformer:
        """The same deformer whose features may leave the range seen in training (for
        comparison).
        """
        wide = np.full(self.features.count, np.inf, np.float32)
        return replace(self, features=replace(self.features, low=-wide, high=wide))

    @cached_property
    def reads_controls(self) -> bool:
        """Whether any network reads a control."""
        bones = 0 if self.skeleton is None else self.skeleton.bone_count
        return bool((self.features.columns >= 12 * bones).any())

    @cached_property
    def skin_matrix(self) -> sp.csr_matrix:
        """(V,B) float32: the skin's weights on its bones, or on its virtual bones where there are
        any.
        """
        count = (
            self.skeleton.bone_count
            if self.skin.virtual_index is None
            else len(self.skin.virtual_index)
        )
        return weight_matrix(self.skin.bone_index, self.skin.weight, count)

    @cached_property
    def net_groups(self) -> NetGroups:
        """Its nets, stacked to be evaluated together."""
        return NetGroups(self.nets, self.features.count, self.coefficient_count)

    def _need_half(self) -> None:
        """Raise unless a 16-bit float holds every weight and basis number exactly."""
        matrices = [
            (f"weights of net {n}", w)
            for n, net in enumerate(self.nets)
            if net.activation != "rbf"
            for w in net.weights
        ]
        for name, matrix in [
            *matrices,
            *((f"basis {n}", basis.matrix) for n, basis in enumerate(self.bases)),
        ]:
            if not is_half(matrix):
                raise InputError(
                    f"{name}: numbers that 16 bits do not hold; `Deformer.half()` rounds them"
                )

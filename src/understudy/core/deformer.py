"""`Deformer`: a skin plus correctives, which every method returns.

    x    = clamp(features(bones, controls))                   one vector per pose, clamped to the
                                                              range of the training poses
    c    = sum over nets g of  scatter(O_g, net_g(x[I_g]))            coefficients
    c'   = clamp(c) * fade                                    the range of the training poses, and 1
                                                              near them, 0 far away; see `Bounds`
    d    = mask * (mean + sum over bases b of  scatter(S_b, basis_b @ c'[J_b]))  at rest
    M    = world_from_bone @ bone_from_rest                   (B,3,4); without bones the identity
    M'   = D @ M                                              virtual bones, if there are any
    v_i  = blend over k of  w_ik, M'[b_ik]  applied to (rest_i + d_i, 1)

Positions are computed relative to the root bone and moved back in double precision, so a character
far from the origin keeps its accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from understudy.core.bounds import Bounds
from understudy.core.clip import Clip
from understudy.core.controls import ControlSpec
from understudy.core.features import Features
from understudy.core.mesh import Mesh
from understudy.core.networks import Basis, Net, NetGroups
from understudy.core.noun import Noun
from understudy.core.posing import PosingSkeleton
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.core.storage import is_half
from understudy.system import checks
from understudy.system.errors import InputError

Floats = npt.NDArray[np.float32]
STORAGES = ("float32", "float16")


@dataclass(frozen=True, eq=False, repr=False)
class Deformer(Noun):
    """A stand-in for a rig, or for a mesh sequence. The module's docstring has the equations.

    mesh          what it deforms
    skeleton      the bones that drive it, or None
    control_spec  the controls that drive it, or None
    skin          None exactly if there is no skeleton
    features      what the nets read
    nets, bases   the correctives; empty: none
    mean          (V,3) float32, the displacement at zero coefficients, or None
    mask          (V,) float32 from 0 to 1, which scales the displacements; None: 1
    method        the registered name of the method that made it
    training      errors on the training poses by name, in `mesh.unit`
    provenance    what it was made from: rig, poses, seed, version, config
    clips         the motion of the sequences it was fitted to, in their order; empty for a rig
    storage       "float32", or "float16": files and runtimes store weights and bases, and the rest
                  shape and the skin where they allow it, in 16 bits (see `half`)
    posing        how to pose it without its rig, or None
    bounds        the range of its training poses, which bounds the coefficients; None: no bounds.
                  Without networks there are none
    held_out_error  (V,) float32, the mean distance of each vertex from poses that were kept out of
                  the training, in `mesh.unit`; or None
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
    posing: PosingSkeleton | None = None
    bounds: Bounds | None = None
    held_out_error: np.ndarray | None = None
    mask: np.ndarray | None = None

    def __post_init__(self):
        put = self._keep
        put("nets", tuple(self.nets))
        put("bases", tuple(self.bases))
        put("clips", tuple(self.clips))
        vertex_count, bones = self.mesh.vertex_count, self.bone_count
        if (self.skeleton is None) != (self.skin is None):
            raise InputError("skeleton and skin belong together: one of them is missing")
        if self.skin is not None:
            rows = len(self.skin.weight)
            checks.same_count(rows, vertex_count, "vertices", "the skin", "the mesh")
            virtual = self.skin.virtual_index
            bone_index = self.skin.bone_index if virtual is None else virtual
            checks.index(bone_index, "skin bone_index", bones, bone_index.shape)
        checks.names((clip.name for clip in self.clips), "clips")
        for clip in self.clips:
            name = f"clip {clip.name!r}"
            checks.same_count(clip.bone_count, bones, "bones", name, "the skeleton")
        if self.mean is not None:
            put("mean", checks.array(self.mean, "mean displacement", (vertex_count, 3)))
        if self.mask is not None:
            put("mask", checks.array(self.mask, "mask", (vertex_count,)))
            checks.between(self.mask.min(), "smallest number of the mask", low=0)
            checks.between(self.mask.max(), "largest number of the mask", high=1)
        controls = 0 if self.control_spec is None else self.control_spec.count
        checks.index(self.features.columns, "feature columns", 12 * bones + controls)
        for number, net in enumerate(self.nets):
            checks.index(net.inputs, f"inputs of net {number}", self.features.count)
        if self.coefficient_count > sum(len(net.outputs) for net in self.nets):
            raise InputError(
                f"net outputs: a net writes coefficient {self.coefficient_count - 1}, but all nets "
                f"together have fewer outputs"
            )
        for number, basis in enumerate(self.bases):
            checks.index(basis.vertices, f"vertices of basis {number}", vertex_count)
            what, index = f"coefficients of basis {number}", basis.coefficients
            checks.index(index, what, self.coefficient_count, index.shape)
        if not self.nets:
            put("bounds", None)
        if self.bounds is not None:
            self.bounds.need_counts(self.features.count, self.coefficient_count)
        if self.held_out_error is not None:
            error = checks.array(self.held_out_error, "held-out error", (vertex_count,))
            put("held_out_error", error)
        if self.posing is not None:
            posed, given = self.posing.skeleton.bone_count, len(self.posing.control_rest)
            checks.same_count(posed, bones, "bones", "the posing skeleton", "the skeleton")
            checks.same_count(given, controls, "controls", "the posing skeleton", "the deformer")
        checks.one_of(self.storage, "storage", STORAGES)
        if self.storage != "float32":
            self._need_half()

    @property
    def bone_count(self) -> int:
        """B; 0 without a skeleton."""
        return 0 if self.skeleton is None else self.skeleton.bone_count

    @cached_property
    def coefficient_count(self) -> int:
        """N, the coefficients that the nets write."""
        return max((int(net.outputs.max()) + 1 for net in self.nets if len(net.outputs)), default=0)

    def deform_clip(self, number: int = 0) -> Floats:
        """Return the frames of one of its clips, (F,V,3) float32."""
        if not self.clips:
            raise InputError("this deformer has no clips: it was not fitted to a sequence")
        number = int(checks.between(number, "clip number", 0, len(self.clips) - 1))
        return self.deform(self.clips[number].world_from_bone)

    def cost(self) -> dict[str, int]:
        """Return `bytes`, the size of its arrays, and `multiply_adds` of one pose.

        The arrays include the transforms of its clips. In float16, networks and bases have two
        bytes per number.
        `understudy.runtime.native.runtime_of(deformer).bytes` is what the runtime reads.
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
            virtual = 0 if self.skin.virtual_weight is None else self.skin.virtual_weight.size
            skin_values = 2 * self.skin.weight.size + 2 * virtual
            # 12 numbers of each matrix to blend, then 9 products per point; virtual bones are
            # blended once each.
            skin_work = 12 * self.skin.weight.size + 9 * self.mesh.vertex_count + 12 * virtual
        rest_values = 3 * self.mesh.vertex_count * (1 if self.mean is None else 2)
        clip_values = sum(clip.world_from_bone.size for clip in self.clips)
        values = net_values + basis_values + index_values + skin_values + rest_values + clip_values
        saved = 0 if self.storage == "float32" else 2 * (net_work + basis_values)
        return {"bytes": 4 * values - saved, "multiply_adds": net_work + basis_work + skin_work}

    def skin_alone(self) -> Deformer:
        """Return its skin without correctives: where these fade to, but for the mean."""
        return replace(self, features=Features(), nets=(), bases=())

    @property
    def folded(self) -> Deformer:
        """The same deformer without a mask, which its mean and bases are multiplied by."""
        return self if self.mask is None else self._folded

    @cached_property
    def _folded(self) -> Deformer:
        assert self.mask is not None
        mean = None if self.mean is None else self.mean * self.mask[:, None]
        bases = tuple(b.scaled(self.mask[b.vertices], self.storage) for b in self.bases)
        return replace(self, mean=mean, bases=bases, mask=None)

    def need_skin(self) -> tuple[Skeleton, Skin]:
        """Return the skeleton and the skin, or raise if there are none."""
        if self.skeleton is None or self.skin is None:
            raise InputError("this deformer has no bones; it is driven by controls alone")
        return self.skeleton, self.skin

    @cached_property
    def reads_controls(self) -> bool:
        """Whether any network reads a control."""
        return bool((self.features.columns >= 12 * self.bone_count).any())

    @property
    def poses_bones(self) -> bool:
        """Whether its bones follow its controls, so that `deform(None, controls)` needs no rig."""
        return self.posing is not None and self.posing.from_controls

    @cached_property
    def net_groups(self) -> NetGroups:
        """Its nets, stacked."""
        return NetGroups(self.nets, self.features.count, self.coefficient_count)

    def _need_half(self) -> None:
        """Raise unless 16-bit floats represent weights, later biases and bases exactly."""
        matrices = [
            (f"numbers of net {n}", values)
            for n, net in enumerate(self.nets)
            for values in (*net.weights, *net.biases[1:])
        ]
        matrices += [(f"basis {n}", basis.matrix) for n, basis in enumerate(self.bases)]
        for name, matrix in matrices:
            if not is_half(matrix):
                raise InputError(
                    f"{name}: 16-bit floats cannot represent its numbers; `Deformer.half()` rounds "
                    f"them"
                )

    if TYPE_CHECKING:
        # What users call. `understudy/__init__.py` binds it to the functions of the rooms that
        # play, round and write.

        @overload
        def deform(
            self,
            world_from_bone: Any = None,
            controls: Any = None,
            *,
            threads: int | None = None,
            out: Floats | None = None,
            normals: Literal[False] = False,
        ) -> Floats: ...

        @overload
        def deform(
            self,
            world_from_bone: Any = None,
            controls: Any = None,
            *,
            threads: int | None = None,
            out: Floats | None = None,
            normals: Literal[True],
        ) -> tuple[Floats, Floats]: ...

        def deform(
            self,
            world_from_bone: Any = None,
            controls: Any = None,
            *,
            threads: int | None = None,
            out: Floats | None = None,
            normals: bool = False,
        ) -> Floats | tuple[Floats, Floats]:
            """Return the vertices of some poses, (T,V,3) float32.

            world_from_bone  (T,B,3,4), if there are bones; None: from the controls, if
                             `poses_bones`
            controls         (T,C), if the correctives read controls or the bones follow them
            threads          how many to use, with the caller's; None: as many as help
            out              (T,V,3) float32, C-contiguous, to write to and return. Float64 inputs
                             and `out` are then used without a copy
            normals          also return the vertex normals: (vertices, normals)

            A single pose may be given without its first axis; the result is then (V,3).
            """

        def deform_reference(self, world_from_bone: Any = None, controls: Any = None) -> Floats:
            """Return the same as `deform`, computed with NumPy alone.

            Every other implementation is tested against it. Fitting uses it, because its results
            do not depend on the processor.
            """

        def displacements(self, world_from_bone: Any = None, controls: Any = None) -> Floats:
            """Return the correctives alone, d of the equations: (T,V,3) float32."""

        def deform_displaced(
            self, world_from_bone: np.ndarray, displacements: np.ndarray
        ) -> Floats:
            """Return the skinned vertices (T,V,3) float32, with other displacements than its own.

            world_from_bone  (T,B,3,4)
            displacements    (T,V,3), added to the rest shape in place of the correctives
            """

        def distance_from_data(self, world_from_bone: Any = None, controls: Any = None) -> Floats:
            """Return how far each pose lies from the training poses, (T,) float32.

            Every training pose has at most 1. Correctives fade from there on and are zero from
            `bounds.fade_end` on. It is the largest distance of a bone or control that networks
            read. Arguments as in `deform`; a single pose gives (). Raises if the deformer has no
            bounds.
            """

        def half(self) -> Deformer:
            """Return the same deformer in 16 bits; see `understudy.runtime.half_precision`."""

        def save(self, path: str | Path, dtype: Any = None) -> None:
            """Write a `.understudy` file, whole or not at all.

            dtype  numpy.float16 stores half the bytes; None: as it is
            """

        @staticmethod
        def load(path: str | Path) -> Deformer:
            """Read a `.understudy` file; `FileError` says what is wrong with it."""

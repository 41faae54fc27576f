"""`two_layer`: a dense skin as two sparse layers, bones -> virtual bones -> vertices.

Paper: Le & Deng 2013, "Two-Layer Sparse Compression of Dense-Weight Blend Skinning". Its letters: n
vertices, k bones, W (k,n) the dense weights, m virtual bones or atoms, D (k,m) the dictionary with
the weights of each virtual bone, A (m,n) the coefficients of each vertex. Weights of both layers
are affine: they sum to one, signs are free.

    minimise  Delta_W^2 = |D A - W|_F^2 / (k n)                                            (Eq. 1a)
    subject to  at most 2 coefficients per vertex (Eq. 1b), at most c bones per atom       (Eq. 1c)

or, with f example poses, the error in those poses,

    Delta_E^2 = sum_i (|x_i(D a_i)|^2 - E*_i^2) / (3 f n)                                  (Eq. 7)
    x_i(w) = sum_b w_b A_b u_i - y_i

where E*_i is the error of the dense weights, A_b (3f,4) the transforms of bone b,
u_i = [rest_i, 1] and y_i the positions of the vertex.

Algorithm 1 (`factorization.py`): start from two atoms; add the weights of the vertex with the
largest error as a new atom (Eq. 2), kappa of them at a time (Eq. 3); then alternate between the
dictionary (Eq. 5, whose A_jj is Phi_jj) and the coefficients. Algorithm 2 (`native/two_layer.cpp`)
updates coefficients (Eq. 6) by a depth-first search over the mesh: a vertex whose error falls
offers its atoms to its neighbours.

Number of virtual bones (section 4): "4 bones per vertex" counts the blending operations of both
layers, m c / n + 2 = 4. So n vertices get m = (4 - 2) n / c virtual bones, with c one more than the
largest number of bones of a vertex, and at most the number of bones.

Departures:
- Dictionary update with example poses. The paper updates D as if W were the target, which need not
  lower the error in the poses. Here each atom is solved exactly for the poses, from its (k,k)
  normal equations, at the same cost: H_j = sum_i a_ij^2 A_i^T A_i needs only the (4,4) moments of
  the atom's rest points. Without poses this is Eq. 5.
- Sparsity of D. If c < k the paper keeps the c largest entries of an atom. Here the entries that
  cost least to remove, w_b^2 / (H^-1)_bb, are removed, the others are solved again, and the result
  is kept if it lowers the error.
- Search. After Algorithm 2, every vertex tries all pairs among the atoms of the vertices around it
  (about two rings; more after a relocation). The cost stays linear in n.
- Relocation. After the last atom was added, the least useful atoms are moved to the vertices with
  the largest error. Any step that raises the error is undone.
- Order. Vertices are visited in the order of their rest positions, so the result does not depend on
  their numbering.
- Shells. A new atom is offered to the worst vertex of every connected component, because a search
  along edges stays in the component where it starts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, VertexSource
from understudy.core.progress import SILENT, Progress
from understudy.core.skin import Skin
from understudy.geometry.error_norms import weight_error
from understudy.geometry.influences import dense_to_influences, float32_influences
from understudy.methods.base import Config, Traits
from understudy.methods.sparse_skinning.dense import DenseSkin, fit_dense, mesh_adjacency
from understudy.methods.sparse_skinning.examples import Examples
from understudy.methods.sparse_skinning.factorization import Factors, Limits, Objective, factorize
from understudy.methods.sparse_skinning.skin_reducer import SkinReducer
from understudy.rigs.base import Rig

_NEGLIGIBLE = 1e-8  # smaller entries of D are set to zero


@dataclass(frozen=True)
class TwoLayerConfig(Config):
    """Options of two_layer.

    bones_per_vertex   blending operations per vertex of both layers together; sets the number of
                       virtual bones
    virtual_bones      number of virtual bones; none: from bones_per_vertex
    error              stop adding virtual bones at this error: E with example poses, Delta_W in
                       thousandths without; none: no threshold
    per_vertex         virtual bones per vertex, 1 to 4
    bones_per_virtual  largest number of bones per virtual bone, c; none: one more than the largest
                       number of bones of a vertex
    kappa              largest number of virtual bones added before a joint optimisation, as a
                       fraction of their present number
    rounds             joint optimisations after each addition
    finish             largest number of joint optimisations after the last addition
    examples           fit the example poses, if there are any; false: fit the weights alone
    bones              number of bones to find by ssdr, if the poses have none; none: as many as
                       bone_error needs
    bone_error         error E that the dense skin of those bones should reach; none: bones decides
    transforms         of those bones: affine (with scale and shear) or rigid
    """

    bones_per_vertex: float = 4.0
    virtual_bones: int | None = None
    error: float | None = None
    per_vertex: int = 2
    bones_per_virtual: int | None = None
    kappa: float = 1.0
    rounds: int = 3
    finish: int = 40
    examples: bool = True
    bones: int | None = 20
    bone_error: float | None = None
    transforms: Literal["affine", "rigid"] = "affine"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.between(self.per_vertex, "per_vertex", 1, 4)
        if self.virtual_bones is None and self.error is None:
            checks.between(self.bones_per_vertex, "bones_per_vertex", above=self.per_vertex)
        checks.between(self.kappa, "kappa", above=0)
        checks.between(self.rounds, "rounds", 0)
        checks.between(self.finish, "finish", 0)
        checks.one_of(self.transforms, "transforms", ("affine", "rigid"))
        for name in ("virtual_bones", "bones_per_virtual", "bones"):
            if getattr(self, name) is not None:
                checks.between(getattr(self, name), name, 1)
        for name in ("error", "bone_error"):
            if getattr(self, name) is not None:
                checks.between(getattr(self, name), name, above=0)


class TwoLayer(SkinReducer[TwoLayerConfig]):
    """Dense skin weights as two sparse layers: bones, virtual bones, vertices."""

    name = "two_layer"
    traits = Traits(takes_sequences=True, reduces_skin=True, affine_weights=True)
    Config = TwoLayerConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """A dense skin of `poses`, reduced.

        The skin is on the bones of the poses if they have any, else on bones found by `ssdr`.
        """
        config = self.config
        dense = fit_dense(
            poses,
            config.bones,
            progress,
            error=config.bone_error,
            transforms=config.transforms,
        )
        reduced = self.reduce(dense, poses.world_from_bone, poses.vertices, progress=progress)
        training = {**reduced.training, "poses": dense.training["poses"]}
        return replace(
            reduced, training=training, provenance={**reduced.provenance, "poses": poses.name}
        )

    def reduce(
        self,
        deformer: Deformer,
        world_from_bone: np.ndarray | None = None,
        vertices: np.ndarray | VertexSource | None = None,
        *,
        progress: Progress = SILENT,
    ) -> Deformer:
        """The same deformer with two sparse layers; arguments as `SkinReducer.reduce`.

        Without example poses the weights alone are approximated.
        """
        config = self.config
        dense = DenseSkin.of(
            deformer, world_from_bone, vertices, examples=config.examples, who=self.name
        )
        count, bones = dense.weights.shape
        per_atom = config.bones_per_virtual
        if per_atom is None:
            per_atom = int((dense.weights != 0).sum(axis=1).max()) + 1
        per_atom = min(bones, per_atom)
        examples = None if dense.poses is None else Examples.of(dense.poses, dense.chosen)
        limits = Limits(
            atoms=_atom_count(config, count, per_atom),
            error=config.error,
            per_vertex=config.per_vertex,
            per_atom=per_atom,
            kappa=config.kappa,
            rounds=config.rounds,
            finish=config.finish,
        )
        factors = factorize(
            Objective.weights(dense.weights) if examples is None else Objective.examples(examples),
            dense.weights,
            mesh_adjacency(deformer.mesh),
            limits,
            _spatial_order(deformer.mesh),
            progress,
        )
        factors = _without_unused(factors)
        virtual_index, virtual_weight = float32_influences(
            *dense_to_influences(factors.dictionary, per_atom)
        )
        index, weight = float32_influences(factors.index, factors.coefficient)
        skin = Skin(index, weight, "linear", virtual_index, virtual_weight)
        training = {
            "poses": len(dense.chosen),
            **_size_figures(virtual_weight, skin.influences, dense),
            **_error_figures(dense, factors, examples),
        }
        return self.with_skin(deformer, skin, training)


def _atom_count(config: TwoLayerConfig, vertices: int, per_atom: int) -> int:
    """Sigma = (bones per vertex - 2) n / c (section 4), unless the config gives it or an error."""
    if config.virtual_bones is not None:
        return config.virtual_bones
    if config.error is not None:
        return max(2, vertices)
    return max(1, int((config.bones_per_vertex - config.per_vertex) * vertices / per_atom))


def _spatial_order(mesh: Mesh) -> np.ndarray:
    """The vertices sorted by rest position: (V,) indices, independent of their numbering."""
    return np.lexsort(mesh.vertices.T)


def _without_unused(factors: Factors) -> Factors:
    """The factors without atoms that no vertex uses and without negligible entries of D."""
    used = np.unique(factors.index[factors.coefficient != 0])
    place = np.zeros(len(factors.dictionary), np.int32)
    place[used] = np.arange(len(used))
    dictionary = np.where(
        np.abs(factors.dictionary[used]) < _NEGLIGIBLE, 0.0, factors.dictionary[used]
    )
    dictionary /= dictionary.sum(axis=1, keepdims=True)
    index = np.where(factors.coefficient != 0, place[factors.index], 0)
    return replace(factors, dictionary=dictionary, index=index)


def _size_figures(
    virtual_weight: np.ndarray, influences: int, dense: DenseSkin
) -> dict[str, float]:
    """Number of virtual bones, blending operations per vertex, and memory overhead.

    virtual_weight  (m,c) weights of the virtual bones
    influences      virtual bones per vertex

    Memory as in Fig. 11 of the paper: a vertex takes 4 floats, a transform 16, a weight with its
    index 2. The overhead is the transforms of the virtual bones.
    """
    vertices, bones = dense.weights.shape
    atoms, per_atom = virtual_weight.shape
    blends = influences + atoms * per_atom / vertices
    plain = 4 * (4 * vertices + 16 * bones + 2 * blends * vertices)
    return {
        "virtual_bones": atoms,
        "bones_per_virtual": per_atom,
        "bones_per_vertex": blends,
        "memory_overhead_bytes": 64 * atoms,
        "memory_overhead_pct": 100.0 * 64 * atoms / plain,
    }


def _error_figures(
    dense: DenseSkin, factors: Factors, examples: Examples | None
) -> dict[str, float]:
    """Errors in thousandths: delta_w, and with example poses e and the dense skin's e_dense."""
    weights = factors.weights()
    square = np.sum((weights - dense.weights) ** 2)
    figures = {"delta_w": 1000.0 * weight_error(square, weights.size)}
    if examples is not None:
        figures |= {
            "e": examples.box_error(examples.squared_error(weights)),
            "e_dense": examples.box_error(examples.squared_error(dense.weights)),
        }
    return figures

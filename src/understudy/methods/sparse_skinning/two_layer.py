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
largest number of bones of a vertex (section 3.1). With dense weights c is k + 1.

`--preset paper` is Algorithm 1 as published. Departures of the defaults, each with the option that
returns to the paper:
- Three virtual bones per vertex (`per_vertex=2`), of which there are fewer for the same number of
  blending operations. A vertex between two virtual bones can follow one direction of change, so
  patches of vertices tear along the other; between three it follows both, like the surface.
- Size of the virtual bones (`bones_per_virtual`). On four fifths of the bones, more of them fit the
  same number of blending operations.
- Dictionary update with example poses (`dictionary=weights`). The paper updates D as if W were the
  target, which need not lower the error in the poses. Here each atom is solved exactly for the
  poses, from its (k,k) normal equations, at the same cost: H_j = sum_i a_ij^2 A_i^T A_i needs only
  the (4,4) moments of the atom's rest points. Without poses this is Eq. 5.
- Sparsity of D (`pruning=largest`). The paper keeps the c largest entries of an atom. Here the
  entries that cost least to remove, w_b^2 / (H^-1)_bb, are removed, the others are solved again,
  and the result is kept if it lowers the error.
- Search (`reach=0`). After Algorithm 2, every vertex tries all combinations of the atoms of the
  vertices around it (about two rings; more after a relocation). The cost stays linear in n.
- Relocation (`relocate=false`). After the last atom was added, the least useful atoms are moved to
  the vertices with the largest error.
- Monotony (`undo=false`). Any step that raises the error is undone.
- Coefficients (`max_coefficient=none`). Larger ones extrapolate, which shows in new poses.
- Fair residuals (`smoothness=0`, `detail=0`): see `factorization.py`. Vertices with short edges
  count more, because the same error turns the normals of their faces further.
- Order (`order=index`). Vertices are visited in the order of their rest positions, so the result
  does not depend on their numbering.
- Shells (`every_shell=false`). A new atom is offered to the worst vertex of every connected
  component, because a search along edges stays in the component where it starts.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, VertexSource
from understudy.core.skin import Skin
from understudy.geometry.error_norms import weight_error
from understudy.geometry.skinning import dense_to_influences, float32_influences
from understudy.methods.base import Traits
from understudy.methods.reducing import SkinReducer
from understudy.methods.sparse_skinning.config import TwoLayerConfig
from understudy.methods.sparse_skinning.dense import DenseSkin, Examples, fit_dense
from understudy.methods.sparse_skinning.factorization import Factors, Objective, factorize
from understudy.rigs.base import Rig
from understudy.system.progress import SILENT, Progress

_IMPORTANCE = 0.2, 8.0  # smallest and largest factor of the residual of a vertex
# Bones per virtual bone: those with more weight than this, at all but one per cent of the vertices,
# and a third more.
_SMALL_WEIGHT, _USUAL, _ROOM = 0.01, 0.99, 4 / 3
_NEGLIGIBLE = 1e-8  # smaller entries of D are set to zero


class TwoLayer(SkinReducer[TwoLayerConfig]):
    """Dense skin weights as two sparse layers: bones, virtual bones, vertices."""

    name = "two_layer"
    traits = Traits(takes_sequences=True, reduces_skin=True, affine_weights=True)
    Config = TwoLayerConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """A dense skin of `poses`, reduced; on their bones, or else on bones found by `ssdr`."""
        config = self.config
        dense = fit_dense(
            poses,
            config.bones,
            progress,
            error=config.bone_error,
            transforms=config.transforms,
            individual=config.individual,
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
        """As `SkinReducer.reduce`; without example poses the weights alone are approximated."""
        config = self.config
        dense = DenseSkin.of(
            deformer, world_from_bone, vertices, examples=config.examples, who=self.name
        )
        examples = None if dense.poses is None else Examples.of(dense.poses, dense.chosen)
        per_atom = min(dense.weights.shape[1], _bones_per_virtual(config, dense.weights))
        tried = [
            _factors(option, dense, examples, deformer.mesh, progress)
            for option in ((config,) if examples else config.without_examples())
        ]
        factors = min(tried, key=lambda found: np.sum((found.weights() - dense.weights) ** 2))
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


def _factors(
    config: TwoLayerConfig,
    dense: DenseSkin,
    examples: Examples | None,
    mesh: Mesh,
    progress: Progress,
) -> Factors:
    """The two layers of a dense skin, by example poses or by its weights alone."""
    count, bones = dense.weights.shape
    counted = _bones_per_virtual(config, dense.weights)
    atoms = _atom_count(config, count, counted)
    objective = (
        Objective.weights(dense.weights)
        if examples is None
        else Objective.examples(examples, dense.weights, _importance(mesh, config.detail))
    )
    return factorize(
        objective,
        dense.weights,
        mesh,
        config,
        atoms=atoms,
        per_atom=min(bones, counted),
        smoothness=config.fairness(atoms, examples is not None),
        progress=progress,
    )


def _bones_per_virtual(config: TwoLayerConfig, weights: np.ndarray) -> int:
    """c: what the config says, else one more than the largest number of bones of a vertex.

    For dense weights that is one more than there are bones, as the paper counts. `needed` ignores
    small weights and few vertices, but leaves room, because vertices share a virtual bone.
    """
    if config.bones_per_virtual is not None:
        return config.bones_per_virtual
    if config.bones_counted == "all":
        return int((weights != 0).sum(axis=1).max()) + 1
    usual = np.quantile((weights > _SMALL_WEIGHT).sum(axis=1), _USUAL)
    return min(weights.shape[1], math.ceil(_ROOM * usual))


def _importance(mesh: Mesh, detail: float) -> np.ndarray | None:
    """Factors (V,) of residuals: short edges to the power of `detail`; None for 0."""
    if not detail or not len(mesh.edges):
        return None
    ends = mesh.vertices[mesh.edges]
    length = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1)
    count = np.bincount(mesh.edges.reshape(-1), minlength=mesh.vertex_count)
    total = np.bincount(mesh.edges.reshape(-1), np.repeat(length, 2), minlength=mesh.vertex_count)
    typical = float(np.median(length))
    mean = np.where(count > 0, total / np.maximum(count, 1), typical)
    return np.clip((typical / np.maximum(mean, 1e-12)) ** detail, *_IMPORTANCE)


def _atom_count(config: TwoLayerConfig, vertices: int, per_atom: int) -> int:
    """Sigma = (bones per vertex - s) n / c (section 4), unless the config gives it or an error."""
    if config.virtual_bones is not None:
        return config.virtual_bones
    if config.error is not None:
        return max(2, vertices)
    return max(1, int((config.bones_per_vertex - config.virtual_per_vertex) * vertices / per_atom))


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

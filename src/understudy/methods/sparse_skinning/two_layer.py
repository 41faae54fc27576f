"""`two_layer`: a dense skin as two sparse layers, bones -> virtual bones -> vertices.

Follows Le & Deng, "Two-Layer Sparse Compression of Dense-Weight Blend Skinning", SIGGRAPH 2013.

    minimise |D A - W|_F^2 / (k n)         at most c bones per virtual bone (rows of D here), at
                                           most two virtual bones per vertex    (Eq. 1)
    or, with example poses,  sum_i |x_i(D a_i)|^2,  x_i(w) = sum_b w_b A_b u_i - y_i
                             (Eq. 7)

Algorithm 1: start from two atoms; add the weights of the worst vertex, kappa atoms at a time (Eqs.
2, 3); update D atom by atom (Eq. 5, whose A_jj is Phi_jj) and A by Algorithm 2: a vertex that
improved offers its atoms to its neighbours, depth first, with an explicit stack. Weights of both
layers are affine: they sum to one, signs are free.

What "4 bones per vertex" means (section 4): the blending operations of both layers per vertex, m c
/ n + 2 = 4. So a skin of n vertices gets m = (4 - 2) n / c virtual bones, with c = (most bones any
vertex has) + 1, and never more than the B bones there are. `dense-8` is the same with 8; `8-4`
starts from a skin of 8 bones per vertex, where c = 9.

Where it departs, and why:
- With example poses the paper updates D as if W were the goal, "neither the best error reduction
  nor guaranteed to converge". Here each atom is solved exactly for the poses, from its k x k normal
  equations, which cost no more: H_j = sum_i a_ij^2 A_i^T A_i needs only the 4 x 4 moments of the
  atom's points. Without poses this is Eq. 5 to the letter. Where c < k, entries are given up in the
  order of what they cost (w_b^2 / (H^-1)_bb) and the rest solved again, instead of cutting the
  smallest; the step is taken if it lowers the error.
- After propagation every vertex tries all pairs among the atoms of the vertices around it (two
  rings; more after a relocation), still O(n).
- At the end the atoms that matter least start again at the worst vertices, and a relocation that
  does not pay is undone. So is any step that raises the error.
- Vertices are worked on in the order of their positions, so that the order they came in cannot
  matter.
- A new atom is offered to the worst vertex of every shell: propagation along edges would never
  leave the shell it began in.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress
from understudy.core.skin import Skin
from understudy.core.version import __version__
from understudy.methods.base import Config, Method, Traits
from understudy.methods.sparse_skinning.dense import (
    DenseSkin,
    fit_dense,
    float32_rows,
    mesh_adjacency,
    packed_rows,
)
from understudy.methods.sparse_skinning.examples import Examples
from understudy.methods.sparse_skinning.factorization import Factors, Limits, Target, factorize
from understudy.rigs.base import Rig

_NEGLIGIBLE = 1e-8  # an entry of D below this is zero


@dataclass(frozen=True)
class TwoLayerConfig(Config):
    """Options of two_layer.

    bones_per_vertex   blending operations per vertex, both layers together; sets the number of
                       virtual bones
    virtual_bones      the number of virtual bones itself; none: from bones_per_vertex
    error              stop adding virtual bones at this error: E with example poses, Delta_W
                       without, both in thousandths; none: at the number
    per_vertex         virtual bones per vertex, 1 to 4
    bones_per_virtual  most bones per virtual bone, c; none: one more than the most any vertex has
    kappa              most virtual bones added between two joint optimisations, as a share of those
                       there are
    rounds             joint optimisations after each growth
    finish             most joint optimisations after the last growth
    examples           fit the example poses where there are any; false: the weights alone
    bones              bones to find by ssdr, for a sequence that has none; none: as many as
                       bone_error takes
    bone_error         E that the dense skin of those bones should reach; none: bones decides
    transforms         of those bones: affine (they may stretch and shear) or rigid
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

    def __post_init__(self):
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


class TwoLayer(Method[TwoLayerConfig]):
    """Dense skin weights as two sparse layers: bones, virtual bones, vertices."""

    name = "two_layer"
    traits = Traits(takes_sequences=True, reduces_skin=True, affine_weights=True)
    Config = TwoLayerConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """A dense skin of `poses`, reduced: on their own bones where they have any, else on bones
        found by `ssdr`.
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
        world_from_bone=None,
        vertices=None,
        *,
        progress: Progress = SILENT,
    ) -> Deformer:
        """The same deformer with two sparse layers instead of its weights.

        world_from_bone  (T,B,3,4) example poses, or None: the deformer's own clips; without those
                         the weights alone are approximated
        vertices         (T,V,3) what the example poses should look like; None: as the deformer
                         makes them
        """
        config = self.config
        dense = DenseSkin.of(
            deformer, world_from_bone, vertices, examples=config.examples, who=self.name
        )
        count, bones = dense.weights.shape
        most = int((dense.weights != 0).sum(axis=1).max()) + 1
        per_atom = min(
            bones, most if config.bones_per_virtual is None else config.bones_per_virtual
        )
        examples = None if dense.poses is None else Examples.of(dense.poses, dense.chosen)
        limits = Limits(
            atoms=_atoms(config, count, per_atom),
            error=config.error,
            per_vertex=config.per_vertex,
            per_atom=per_atom,
            kappa=config.kappa,
            rounds=config.rounds,
            finish=config.finish,
        )
        target = Target.weights(dense.weights) if examples is None else Target.examples(examples)
        factors = _used(
            factorize(
                target,
                dense.weights,
                mesh_adjacency(deformer.mesh),
                limits,
                _spatial_order(deformer.mesh),
                progress,
            )
        )
        virtual_index, virtual_weight = packed_rows(factors.dictionary, per_atom)
        index, weight = float32_rows(factors.index, factors.coefficient)
        skin = Skin(index, weight, "linear", virtual_index, virtual_weight)
        training = {
            "poses": 0 if examples is None else len(dense.chosen),
            **_figures(skin, count, bones),
            **_errors(dense, factors, examples),
        }
        provenance = {
            **deformer.provenance,
            "understudy": __version__,
            "from": deformer.method,
            "config": asdict(config),
        }
        return replace(
            deformer, skin=skin, method=self.name, training=training, provenance=provenance
        )


def _atoms(config: TwoLayerConfig, vertices: int, per_atom: int) -> int:
    """Sigma = (bones per vertex - 2) n / c (section 4), unless the number or an error was asked
    for.
    """
    if config.virtual_bones is not None:
        return config.virtual_bones
    if config.error is not None:
        return max(2, vertices)
    return max(1, int((config.bones_per_vertex - config.per_vertex) * vertices / per_atom))


def _spatial_order(mesh: Mesh) -> np.ndarray:
    """(V,) vertices by position at rest: whichever order they came in, they are worked on in this
    one, and the result is the same.
    """
    return np.lexsort(mesh.vertices.T)


def _used(factors: Factors) -> Factors:
    """Without the atoms no vertex uses, and without entries of D too small to matter."""
    live = np.unique(factors.index[factors.coefficient != 0])
    place = np.zeros(len(factors.dictionary), np.int32)
    place[live] = np.arange(len(live))
    dictionary = np.where(
        np.abs(factors.dictionary[live]) < _NEGLIGIBLE, 0.0, factors.dictionary[live]
    )
    dictionary /= dictionary.sum(axis=1, keepdims=True)
    index = np.where(factors.coefficient != 0, place[factors.index], 0)
    return replace(factors, dictionary=dictionary, index=index)


def _figures(skin: Skin, vertices: int, bones: int) -> dict[str, float]:
    """Size and cost. Memory as in Fig. 11: a vertex is 4 floats, a transform 16, a weight with its
    index 2; new are the virtual bones' transforms.
    """
    atoms, per_atom = skin.virtual_weight.shape
    blends = skin.influences + atoms * per_atom / vertices
    plain = 4 * (4 * vertices + 16 * bones + 2 * blends * vertices)
    return {
        "virtual_bones": atoms,
        "bones_per_virtual": per_atom,
        "bones_per_vertex": blends,
        "memory_overhead_bytes": 64 * atoms,
        "memory_overhead_pct": 100.0 * 64 * atoms / plain,
    }


def _errors(dense: DenseSkin, factors: Factors, examples: Examples | None) -> dict[str, float]:
    """delta_w always; e and the dense skin's e_dense where there are example poses. All in
    thousandths.
    """
    weights = factors.weights()
    figures = {"delta_w": 1000.0 * float(np.sqrt(np.mean((weights - dense.weights) ** 2)))}
    if examples is not None:
        figures |= {
            "e": examples.error(examples.square(weights)),
            "e_dense": examples.error(examples.square(dense.weights)),
        }
    return figures

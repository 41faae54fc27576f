"""What the four weight reductions share: K bones per vertex are kept, with convex weights.

`k_largest` and `smooth` read the dense weights alone, `geometry` and `poisson` the example poses
too. All four are baselines of Le & Deng 2013, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, VertexSource
from understudy.core.skin import Skin
from understudy.geometry.error_norms import weight_error
from understudy.geometry.skinning import float32_influences
from understudy.methods.base import Config, Traits
from understudy.methods.reducing import SkinReducer
from understudy.methods.sparse_skinning.dense import DenseSkin, dense_weights, fit_dense
from understudy.rigs.base import Rig
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress


@dataclass(frozen=True)
class ReductionConfig(Config):
    """Options of the weight reductions.

    influences  largest number of bones per vertex, K
    bones       number of bones to find by ssdr, if the poses have none
    """

    influences: int = 4
    bones: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.between(self.influences, "influences", 1)
        checks.between(self.bones, "bones", 1)


class Reduction(SkinReducer[ReductionConfig]):
    """A weight reduction. A subclass sets `name` and `needs_examples` and writes `keep`."""

    traits = Traits(takes_sequences=True, reduces_skin=True, baseline="two_layer")
    Config = ReductionConfig
    needs_examples = False

    def keep(self, dense: DenseSkin, influences: int) -> tuple[np.ndarray, np.ndarray]:
        """Bones (V,K) and convex weights (V,K) of a dense skin; K = `influences` is at most B."""
        raise TypeError(f"{type(self).__qualname__} does not define keep")

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """A dense skin of `poses`, reduced.

        The skin is on the bones of the poses if they have any, else on bones found by `ssdr`.
        """
        dense = fit_dense(poses, self.config.bones, progress)
        reduced = self.reduce(dense, poses.world_from_bone, poses.vertices, progress=progress)
        return replace(
            reduced,
            training={**reduced.training, "poses": poses.pose_count},
            provenance={**reduced.provenance, "poses": poses.name},
        )

    def reduce(
        self,
        deformer: Deformer,
        world_from_bone: np.ndarray | None = None,
        vertices: np.ndarray | VertexSource | None = None,
        *,
        progress: Progress = SILENT,
    ) -> Deformer:
        """The same deformer with at most K bones per vertex; arguments as `SkinReducer.reduce`."""
        dense = DenseSkin.of(
            deformer, world_from_bone, vertices, examples=self.needs_examples, who=self.name
        )
        if self.needs_examples:
            need_poses(dense, self.name)
        if (dense.weights < 0).any():
            raise InputError(
                f"{self.name} reduces convex weights, and this skin has negative ones; reduce the "
                f"skin it was made from"
            )
        influences = min(self.config.influences, dense.bone_count)
        skin = Skin(*float32_influences(*self.keep(dense, influences)))
        change = dense_weights(skin, dense.bone_count) - dense.weights
        training = {
            "poses": len(dense.chosen),
            "delta_w": 1000.0 * weight_error(np.sum(change**2), change.size),
        }
        return self.with_skin(deformer, skin, training)


def need_poses(dense: DenseSkin, who: str) -> Poses:
    """The example poses of a skin, or an error that says which method needs them."""
    if dense.poses is None:
        raise InputError(
            f"{who} chooses bones by example poses; pass world_from_bone, or use k_largest or "
            f"smooth"
        )
    return dense.poses


def largest(weights: np.ndarray, influences: int) -> tuple[np.ndarray, np.ndarray]:
    """The K largest weights of each row, scaled to sum to one, largest first.

    weights     (V,B), non-negative
    influences  K
    returns     index (V,K) and weight (V,K)

    >>> index, weight = largest(np.array([[0.1, 0.6, 0.3]]), 2)
    >>> index.tolist(), weight.round(3).tolist()
    ([[1, 2]], [[0.667, 0.333]])
    """
    index = np.argsort(-weights, axis=1, kind="stable")[:, :influences]
    weight = np.take_along_axis(weights, index, axis=1)
    return index, weight / weight.sum(axis=1, keepdims=True)

"""`ssdr`: a mesh sequence as few bones and few influences, by smooth skinning decomposition.

Paper: Le & Deng 2012, "Smooth Skinning Decomposition with Rigid Bones"; the affine ("flexible")
form as in James & Twigg 2005 and as compared in Le & Deng 2013. With y_fi vertex i in frame f and
v~_i = [rest_i, 1]:

    minimise over M, w   sum_f sum_i |sum_b w_ib M_fb v~_i - y_fi|^2     subject to  w >= 0,  sum_b
                         w_ib = 1,  at most K of w_i above zero

Departures, and why:
- the start is groups of vertices that move together, found without the mesh's connectivity, so that
  many shells are no obstacle (`clusters`);
- affine bones also start from rigid ones, and the two best of several starts get all rounds
  (`solve`);
- affine bones are solved for all at once, exactly, in the motion's principal directions (`motion`,
  `rounds`);
- a vertex's K bones are searched for K, warm-started from the last round, never solved dense and
  cut (`_native/decompose.h`);
- the first rounds work on a sample of the vertices.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress
from understudy.core.skin import Skin
from understudy.methods.base import Config, Method, Traits
from understudy.methods.decomposition import kernels
from understudy.methods.decomposition.motion import Frame, read_motion
from understudy.methods.decomposition.result import deformer_of, skin_and_bones
from understudy.methods.decomposition.smoothness import smoother
from understudy.methods.decomposition.solve import (
    Plan,
    bones_for_weights,
    decompose,
    decompose_to_error,
)
from understudy.rigs.base import Rig

_BONES = 20  # where neither bones nor an error are asked for


@dataclass(frozen=True)
class SsdrConfig(Config):
    """Options of ssdr.

    bones       how many bones; with `error`, the most there may be; none: 20, or as many as the
                error takes
    error       E to reach (1000 x root mean square error, in halves of the rest pose's bounding
                diagonal): bones are added until it is
    influences  most bones a vertex may follow; none: as many as help
    transforms  affine: bones stretch and shear; rigid: they turn and move
    rounds      most rounds of weights and bones; fewer where nothing more is gained
    smoothness  how much neighbouring weights should agree: a full jump along an edge costs as much
                as missing by sqrt(smoothness) of the mesh's size
    """

    bones: int | None = None
    error: float | None = None
    influences: int | None = 4
    transforms: Literal["affine", "rigid"] = "affine"
    rounds: int = 60
    smoothness: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        for name in ("bones", "influences"):
            if getattr(self, name) is not None:
                checks.between(getattr(self, name), name, 1)
        if self.bones is not None:
            checks.between(self.bones, "bones", 1, 1000)
        if self.error is not None:
            checks.between(self.error, "error", above=0)
        checks.one_of(self.transforms, "transforms", ("affine", "rigid"))
        checks.between(self.rounds, "rounds", 1)
        checks.between(self.smoothness, "smoothness", 0)


class Ssdr(Method[SsdrConfig]):
    """Smooth skinning decomposition: a mesh sequence as few bones and few influences."""

    name = "ssdr"
    traits = Traits(finds_bones=True, takes_sequences=True)
    Config = SsdrConfig

    def fit(
        self,
        poses: Poses,
        *,
        rig: Rig | None = None,
        progress: Progress = SILENT,
        locked_weights: np.ndarray | None = None,
        locked_bones: np.ndarray | None = None,
    ) -> Deformer:
        """A skin for the mesh of `poses`, and its bones' motion as `clips`. A skeleton that the
        poses have is not used.

        locked_weights  (V,B) weights to keep: only the bones are solved for
        locked_bones    (T,L,3,4) bones to keep, as world_from_rest: the first L bones of the
                        result, unless no vertex uses them
        """
        skin, world_from_bone, error = self._decompose(
            poses, progress, locked_weights, locked_bones
        )
        return deformer_of(
            poses, skin, world_from_bone, self.name, {"e": error}, {"config": asdict(self.config)}
        )

    def decompose(
        self, poses: Poses, progress: Progress = SILENT, locked_weights=None, locked_bones=None
    ) -> tuple[Skin, np.ndarray]:
        """The skin and the bones, world_from_rest (T,B,3,4) float64; arguments as in `fit`."""
        return self._decompose(poses, progress, locked_weights, locked_bones)[:2]

    def _decompose(
        self, poses: Poses, progress: Progress, locked_weights, locked_bones
    ) -> tuple[Skin, np.ndarray, float]:
        config = self.config
        if locked_weights is not None and locked_bones is not None:
            raise InputError(
                "locked_weights and locked_bones: with both there is nothing left to solve for"
            )
        motion, frame = read_motion(poses)
        # E of a squared error in the solver's units
        half = float(np.linalg.norm(np.ptp(poses.mesh.vertices.astype(np.float64), axis=0))) / 2
        measure = lambda squared: (
            1000
            * frame.size
            / (half or 1.0)
            * float(np.sqrt(max(squared, 0.0) / (motion.vertex_count * motion.rows)))
        )
        plan = Plan(
            bones=min(
                config.bones or (1000 if config.error is not None else _BONES), motion.vertex_count
            ),
            influences=config.influences,
            rigid=config.transforms == "rigid",
            rounds=config.rounds,
            locked=_locked(locked_bones, poses, frame),
            smooth=smoother(poses.mesh, frame.order, config.smoothness, poses.pose_count),
            note=lambda squared: f"E {measure(squared):.2f}",
            progress=progress,
        )
        with kernels.own_threads():
            if locked_weights is not None:
                weights = checks.array(
                    locked_weights, "locked_weights", (poses.vertex_count, None), np.float64
                )
                if (weights < 0).any() or not np.allclose(weights.sum(axis=1), 1, atol=1e-4):
                    raise InputError(
                        "locked_weights: every vertex's weights must be non-negative and sum to one"
                    )
                fit = bones_for_weights(motion, weights[frame.order], plan)
            elif config.error is not None:
                fit = decompose_to_error(
                    motion, plan, lambda squared: measure(squared) <= config.error
                )
            else:
                fit = decompose(motion, plan)
        return *skin_and_bones(fit, frame), measure(fit.error)


def _locked(bones, poses: Poses, frame: Frame) -> np.ndarray | None:
    if bones is None:
        return None
    return frame.from_world(
        checks.array(bones, "locked_bones", (poses.pose_count, None, 3, 4), np.float64)
    )

"""`ssdr`: a mesh sequence as few bones and few influences, by smooth skinning decomposition.

Paper: Le & Deng 2012, "Smooth Skinning Decomposition with Rigid Bones". Affine bones are those of
James & Twigg 2005, as compared in Le & Deng 2013. With y_fi the position of vertex i in frame f and
v~_i = [rest_i, 1]:

    minimise over M, w   sum_f sum_i |sum_b w_ib M_fb v~_i - y_fi|^2
    subject to           w >= 0,  sum_b w_ib = 1,  at most K of w_i above zero

The error is minimised over the transforms M and the weights w in turn. To follow the algorithm,
read `decompose` (the whole solve), `starts` (where it begins), `solves`
(its iterations and their two steps).

Departures, and why:
- Initial clusters come from the motion alone, not from the connectivity of the mesh, so meshes of
  many disconnected parts are no obstacle (`starts`).
- Affine bones also start from rigid ones, and the two best of several starts get all iterations,
  because the result depends on the start (`starts`).
- Affine bones are solved for all at once, in the principal directions of the motion, which is exact
  and needs a few dozen rows instead of hundreds (`motion`, `solves`).
- The K bones of a vertex are searched for directly, starting from those of the last iteration, so
  that the error never rises (`solves`).
- The first iterations use a sample of the vertices, to save time.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Literal

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.geometry.error_norms import box_error
from understudy.methods.base import Config, Method, Traits
from understudy.methods.decomposition.solve.decompose import (
    decompose,
    decompose_to_error,
    deformer_from_bones,
    skin_and_bones,
)
from understudy.methods.decomposition.solve.motion import Motion, read_motion
from understudy.methods.decomposition.solve.plan import (
    MAX_BONES,
    Plan,
    check_bone_count,
)
from understudy.rigs.base import Rig
from understudy.system import checks, tasks
from understudy.system.progress import SILENT, Progress

_DEFAULT_BONES = 20


@dataclass(frozen=True)
class SsdrConfig(Config):
    """Options of ssdr.

    bones       number of bones; with `error`, the largest number. none: 20, or with `error` as many
                as it takes
    error       E to reach (1000 times the root mean square error, relative to half the diagonal of
                the rest pose's bounding box); bones are added until it is reached
    influences  largest number of bones per vertex; none: unlimited
    transforms  affine: bones may stretch and shear; rigid: they rotate and translate only
    iterations  planned number of iterations; fewer where nothing is gained, more while much is
                gained
    individual  pull of affine bones towards the motion of their own vertices; without it, bones of
                unlimited influences drift apart and cancel each other, and their weights cannot be
                reduced. none: 3e-6 with unlimited influences, else 0
    """

    bones: int | None = None
    error: float | None = None
    influences: int | None = 4
    transforms: Literal["affine", "rigid"] = "affine"
    iterations: int = 60
    individual: float | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.bones is not None:
            check_bone_count(self.bones)
        if self.error is not None:
            checks.between(self.error, "error", above=0)
        if self.influences is not None:
            checks.between(self.influences, "influences", 1)
        checks.between(self.iterations, "iterations", 1)
        if self.individual is not None:
            checks.between(self.individual, "individual", 0)


class Ssdr(Method[SsdrConfig]):
    """Smooth skinning decomposition: a mesh sequence as few bones and few influences."""

    name = "ssdr"
    traits = Traits(finds_bones=True, takes_sequences=True)
    Config = SsdrConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """Return a skin for the mesh of `poses` and bones as clips; a skeleton is ignored."""
        config = self.config
        motion, normalisation = read_motion(poses)

        def e_of(error: float) -> float:
            """E of a squared error of the solver."""
            rms = motion.coordinate_rms(error)
            return box_error(rms, poses.mesh.vertices, unit=normalisation.scale)

        note = lambda error: f"E {e_of(error):.2f}"
        plan = replace(self.plan(motion), note=note, progress=progress)
        with tasks.one_blas_thread():
            target = config.error
            if target is None:
                fit = decompose(motion, plan)
            else:
                fit = decompose_to_error(motion, plan, lambda error: e_of(error) <= target)
        return deformer_from_bones(
            poses,
            *skin_and_bones(fit, normalisation),
            self.name,
            {"e": e_of(fit.error)},
            {"config": asdict(config)},
        )

    def plan(self, motion: Motion) -> Plan:
        """Return what to solve for."""
        config = self.config
        bones = config.bones or (_DEFAULT_BONES if config.error is None else MAX_BONES)
        return Plan(
            bones=min(bones, motion.vertex_count),
            influences=config.influences,
            rigid=config.transforms == "rigid",
            iterations=config.iterations,
            individual=config.individual,
        )

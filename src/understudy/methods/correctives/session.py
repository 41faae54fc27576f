"""`FitSession`: what every stage of a fit reads. Poses, skin, displacements, options.

Letters: T poses, V vertices, R range-of-motion poses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.methods.correctives.config import CorrectivesConfig, RegionsConfig
from understudy.methods.correctives.facts import PoseFacts
from understudy.methods.correctives.features import need_bones_or_controls
from understudy.methods.correctives.mirror import find_mirror
from understudy.methods.correctives.range_of_motion import range_of_motion
from understudy.methods.skin_fitting.displacements import (
    block_poses,
    displace,
    displacement_blocks,
    displacements_at,
)
from understudy.rigs.base import Rig
from understudy.system import memory
from understudy.system.progress import Progress
from understudy.training.held_out import validation_poses
from understudy.training.schedule import Schedule, need_torch

# Of the height: the unit of the targets for SGD, 1 cm of a face of 25 cm as in the paper.
_SGD_UNIT = 1 / 25
_CACHE_BYTES, _CACHE_SHARE = 1 << 30, 0.25  # at most, and of the memory
_SAMPLE_BYTES = 1 << 30  # of displacements that components are found from
_FEWEST_SAMPLED = 200  # poses

ConfigType = TypeVar("ConfigType", bound=CorrectivesConfig)


class Displacements:
    """The displacements before skinning of all poses, kept in memory where they are small.

    poses  the training poses
    skin   the skin that the deformer has at run time; None where there are no bones
    """

    def __init__(self, poses: Poses, skin: Skin | None):
        self._poses, self._skin, self._released = poses, skin, False

    @cached_property
    def _cache(self) -> np.ndarray | None:
        poses = self._poses
        held = 12 * poses.pose_count * poses.vertex_count
        if self._released or held > memory.share(_CACHE_SHARE, _CACHE_BYTES):
            return None
        return displacements_at(poses, self._skin, np.arange(poses.pose_count))

    def at(self, chosen: np.ndarray) -> np.ndarray:
        """The displacements of the chosen poses (t,), increasing: a new array (t,V,3) float32."""
        if self._cache is not None:
            return self._cache[chosen]
        return displacements_at(self._poses, self._skin, chosen)

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield (slice, (t,V,3) float32) over all poses."""
        if self._cache is None:
            yield from displacement_blocks(self._poses, self._skin)
        else:
            # The blocks of `displacement_blocks`: products of other blocks round differently.
            size = block_poses(self._poses)
            for start in range(0, len(self._cache), size):
                stop = min(start + size, len(self._cache))
                yield slice(start, stop), self._cache[start:stop]

    def release(self) -> None:
        """Free the memory before training; displacements are computed again if asked for."""
        self._released, self._cache = True, None


@dataclass(frozen=True, eq=False)
class FitSession(Generic[ConfigType]):
    """One fit of one method.

    method         its name
    config         its options
    facts          of the training poses, which include their mirror images where there are any
    rig            the live rig, or None
    skin           the skin of the deformer; None where there are no bones
    displacements  of the poses, before `skin`
    mirrored       whether the second half of the poses are mirror images of the first
    added          range-of-motion poses of the rig, which are trained on too; None: there are none
    """

    method: str
    config: ConfigType
    facts: PoseFacts
    rig: Rig | None
    skin: Skin | None
    displacements: Displacements
    mirrored: bool = False
    added: Poses | None = None

    @staticmethod
    def of(
        method: str,
        config: ConfigType,
        facts: PoseFacts,
        rig: Rig | None,
        skin: Skin | None = None,
    ) -> FitSession[ConfigType]:
        """The session of some poses, which need bones, controls, or both.

        skin  of poses with bones; None: as the options of regions say
        """
        need_torch(method)
        need_bones_or_controls(method, facts.poses)
        mirror = None
        if isinstance(config, RegionsConfig):
            if config.mirror == "auto" and rig is None:
                mirror = find_mirror(facts.poses)
            if facts.poses.skeleton is not None and skin is None:
                skin = facts.skin(config.skin_kind, config.influences, rig)
        if mirror is not None:
            facts = PoseFacts(mirror.with_images(facts.poses), facts.progress)
        added = range_of_motion(facts.poses, rig, config.added_share)
        displacements = Displacements(facts.poses, skin)
        return FitSession(
            method, config, facts, rig, skin, displacements, mirror is not None, added
        )

    def of_poses(self, facts: PoseFacts, config: ConfigType) -> FitSession[ConfigType]:
        """This session with other poses and options, and the same skin."""
        displacements = Displacements(facts.poses, self.skin)
        return replace(self, facts=facts, config=config, displacements=displacements)

    @property
    def poses(self) -> Poses:
        """The training poses."""
        return self.facts.poses

    @property
    def progress(self) -> Progress:
        """For the progress bars."""
        return self.facts.progress

    @property
    def height(self) -> float:
        """The height of the mesh, which tolerances are relative to."""
        return self.poses.mesh.height

    @property
    def basis_error(self) -> float:
        """Mean distance per vertex that components may leave, in model units."""
        given = self.config.basis_error
        return float(self.config.basis_share * self.height if given is None else given)

    @property
    def input_error(self) -> float:
        """The least motion of a vertex that makes a unit an input, in model units."""
        share, given = self.config.input_share, self.config.input_error
        default = self.basis_error if share is None else share * self.height
        return default if given is None else given

    @cached_property
    def controls(self) -> str:
        """The controls that networks read: numeric, all or none."""
        return self.facts.controls(self.config.controls, self.skin)

    def schedule(self, **others: Any) -> Schedule:
        """How the networks are trained; `others` replace options."""
        config = self.config
        scale = _SGD_UNIT * self.height if config.optimizer == "sgd" else None
        schedule = Schedule.of(config, target_scale=scale, mirrored=self.mirrored, **others)
        return schedule.for_poses(self.poses.pose_count)

    @property
    def held_out(self) -> np.ndarray:
        """The numbers (n,) of the poses that are kept out of training, increasing."""
        return validation_poses(self.poses.pose_count, self.schedule())

    @cached_property
    def added_displacements(self) -> np.ndarray | None:
        """The displacements (R,V,3) of the range-of-motion poses; None where there are none."""
        return None if self.added is None else displace(self.added, self.skin)

    def basis_sample(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean displacement (V,3), and those of some poses (t,V,3) less that."""
        # Components of a large mesh need fewer poses: each has more vertices.
        most = max(_FEWEST_SAMPLED, _SAMPLE_BYTES // (12 * self.poses.vertex_count))
        asked = self.config.basis_poses
        most = most if asked is None else min(asked, most)
        sample = self.displacements.at(evenly(self.poses.pose_count, most))
        mean = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
        sample -= mean
        return mean, sample

    def checkpoint(self, suffix: str = "") -> Path | None:
        """The file for the state of training of one set of networks; None: no checkpoint."""
        path = self.config.checkpoint
        return None if path is None else Path(f"{path}{suffix}")

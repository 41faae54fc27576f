"""What every step of `differential` and `local` reads: poses, skin, displacements and options.

Letters: T poses, V vertices, X features, P coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.networks import Basis, Net
from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.core.version import __version__
from understudy.geometry.pca import components_for_error
from understudy.methods.correctives.bounds import with_bounds
from understudy.methods.correctives.config import SubspaceConfig
from understudy.methods.correctives.evidence import resolve_controls
from understudy.methods.correctives.features import FeatureTable, constant_controls, need_drivers
from understudy.methods.correctives.inputs import InputGroups, InputSelection, needed_units
from understudy.methods.correctives.mirror import find_mirror
from understudy.methods.correctives.networks import TrainedNets
from understudy.methods.correctives.range_of_motion import range_of_motion
from understudy.methods.correctives.skins import make_skin
from understudy.methods.skin_fitting.displacements import (
    block_poses,
    displace,
    displacement_blocks,
    displacements_at,
)
from understudy.rigs.base import Rig
from understudy.system import memory
from understudy.system.errors import InputError
from understudy.system.progress import Progress
from understudy.training.schedule import Schedule, validation_poses
from understudy.training.trainer import curve_numbers

# Of the height: the unit of the targets for SGD, 1 cm of a face of 25 cm as in the paper.
_SGD_UNIT = 1 / 25
STILL = 1e-6  # of the height: a vertex that moves less, by rounding errors, does not move
_CACHE_BYTES, _CACHE_SHARE = 1 << 30, 0.25  # at most, and of the memory
_SAMPLE_BYTES = 1 << 30  # of displacements that components are found from
_FEWEST_SAMPLED = 200  # poses
_BASIS_ERROR, _INPUT_ERROR = 1e-4, 2e-4  # of the height
_INPUT_GAIN, _MOST_INPUTS = 0.002, 30
_QUERIED_VERTICES = 60  # of a group, to find what moves it

ConfigType = TypeVar("ConfigType", bound=SubspaceConfig)


class Displacements:
    """The displacements before skinning of all poses, kept in memory where they are small.

    poses  the training poses
    skin   the skin that the deformer has at run time; None where there are no bones
    """

    def __init__(self, poses: Poses, skin: Skin | None):
        self._poses, self._skin = poses, skin
        held = 12 * poses.pose_count * poses.vertex_count
        small = held <= memory.share(_CACHE_SHARE, _CACHE_BYTES)
        self._cache = displacements_at(poses, skin, np.arange(poses.pose_count)) if small else None

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
        self._cache = None


@dataclass(frozen=True, eq=False)
class FitContext(Generic[ConfigType]):
    """One fit of one method.

    method         its name
    config         its options
    poses          the training poses, with their mirror images where there are any
    rig            the live rig, or None
    skin           the skin of the deformer; None where there are no bones
    displacements  of `poses`, before `skin`
    progress       for the progress bars
    mirrored       whether the second half of `poses` are mirror images of the first
    added          range-of-motion poses of the rig, which are trained on too; None: there are none
    """

    method: str
    config: ConfigType
    poses: Poses
    rig: Rig | None
    skin: Skin | None
    displacements: Displacements
    progress: Progress
    mirrored: bool = False
    added: Poses | None = None

    @staticmethod
    def of(
        method: str,
        config: ConfigType,
        poses: Poses,
        rig: Rig | None,
        progress: Progress,
        skin: Skin | None = None,
    ) -> FitContext[ConfigType]:
        """Add mirror images to `poses`; find their displacements, and their skin if not given."""
        need_drivers(method, poses)
        mirror = find_mirror(poses) if config.mirror != "none" and rig is None else None
        poses = poses if mirror is None else mirror.with_images(poses)
        if poses.skeleton is not None and skin is None:
            skin = make_skin(config.skin, poses, rig, config.influences, progress)
        displacements = Displacements(poses, skin)
        return FitContext(
            method,
            config,
            poses,
            rig,
            skin,
            displacements,
            progress,
            mirror is not None,
            range_of_motion(poses, rig, config.added_share),
        )

    @property
    def height(self) -> float:
        """The height of the mesh, which tolerances are relative to."""
        return self.poses.mesh.height

    @cached_property
    def basis_error(self) -> float:
        """Mean distance per vertex that components may leave, in model units."""
        given = self.config.basis_error
        return _BASIS_ERROR * self.height if given is None else given

    @cached_property
    def controls(self) -> str:
        """The controls that networks read: numeric, all or none."""
        return resolve_controls(self.config.controls, self.poses, self.skin)

    def feature_table(self, targets: Sequence[np.ndarray]) -> FeatureTable:
        """The features that the networks may read.

        targets  (T,...) what they have to predict; it is an error if they vary and no feature does
        """
        table = FeatureTable.of(
            self.poses,
            self.controls,
            self.config.features,
            "entries" if self.config.features == "all" else "shared",
        )
        table = table if self.added is None else table.with_added(self.added)
        if not table.count and any(
            np.abs(rows).max(initial=0) > STILL * self.height for rows in targets
        ):
            raise InputError(
                f"{self.poses.name!r}: the mesh moves, but no bone or control does (or "
                f"controls=none leaves them out)"
            )
        return table

    def select_inputs(
        self, table: FeatureTable, groups: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """The features (n,) that each group of vertices (m,) with coefficients (T,P) depends on."""
        config = self.config
        given = config.input_error
        selection = InputSelection(
            source=config.inputs,
            error=_INPUT_ERROR * self.height if given is None else given,
            example_poses=config.input_poses,
            gain=_INPUT_GAIN,
            most=_MOST_INPUTS,
            seed=config.seed,
        )
        # A few vertices of each group show what moves it as well as all of them do.
        few = [self._representatives(np.asarray(group)) for group in groups]
        queried = np.unique(np.concatenate(few)) if few else np.zeros(0, int)
        vertices = [np.searchsorted(queried, group) for group in few]
        asked = InputGroups(vertices, targets, lambda moved: displace(moved, self.skin, queried))
        needs = needed_units(
            selection, asked, table.units, table.standard, self.poses, self.rig, self.progress
        )
        return [table.inputs_of(row) for row in needs]

    def _representatives(self, group: np.ndarray) -> np.ndarray:
        """Some vertices of a group, and for each of its bones the vertex with the largest weight.

        A single vertex may depend on a bone that no other vertex of the group depends on.
        """
        some = group[evenly(len(group), _QUERIED_VERTICES)]
        if self.skin is None:
            return some
        index, weight = self.skin.bone_index[group], self.skin.weight[group]
        order = np.argsort(-weight, axis=None, kind="stable")
        order = order[weight.reshape(-1)[order] > 0]
        first = np.unique(index.reshape(-1)[order], return_index=True)[1]
        return np.union1d(some, group[order[first] // index.shape[1]])

    def schedule(self, **others: Any) -> Schedule:
        """How the networks of the regions are trained; `others` replace options."""
        config = self.config
        scale = _SGD_UNIT * self.height if config.optimizer == "sgd" else None
        schedule = Schedule.of(config, target_scale=scale, mirrored=self.mirrored, **others)
        return schedule.for_poses(self.poses.pose_count)

    @cached_property
    def added_displacements(self) -> np.ndarray | None:
        """The displacements (R,V,3) of the range-of-motion poses; None where there are none."""
        return None if self.added is None else displace(self.added, self.skin)

    def added_targets(
        self, targets: Callable[[np.ndarray], Sequence[np.ndarray]]
    ) -> tuple[Sequence[np.ndarray], float] | None:
        """What `NetTasks.added` takes; `targets` projects displacements (R,V,3) to (R,P) each."""
        given = self.added_displacements
        return None if given is None else (targets(given), self.config.added_share)

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

    def sufficient(self, directions: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The first principal directions (3n,P) that leave at most `basis_error` of rows (T,3n)."""
        kept = directions.astype(np.float32)
        even = np.ones(rows.shape[1] // 3)
        return kept[:, : components_for_error(rows, kept, even, self.basis_error)]

    def checkpoint(self, suffix: str = "") -> Path | None:
        """The file for the state of training of one set of networks; None: no checkpoint."""
        path = self.config.checkpoint
        return None if path is None else Path(f"{path}{suffix}")


def make_deformer(
    context: FitContext,
    table: FeatureTable,
    nets: Sequence[Net],
    bases: Sequence[Basis],
    mean: np.ndarray,
    trained: TrainedNets,
    figures: Mapping[str, float],
    **provenance: Any,
) -> Deformer:
    """The deformer of a fit.

    trained     the networks whose loss curves its header records
    figures     training figures for the header, beside the number of poses
    provenance  further entries for the header
    """
    poses, config = context.poses, context.config
    given = poses.pose_count // 2 if context.mirrored else poses.pose_count
    deformer = Deformer(
        mesh=poses.mesh,
        skeleton=poses.skeleton,
        control_spec=poses.control_spec,
        skin=context.skin,
        features=table.clamped(config.clamp_margin),
        nets=tuple(nets),
        bases=tuple(bases),
        mean=mean,
        method=context.method,
        training={"poses": given, "mirror_images": poses.pose_count - given, **figures},
        provenance={
            "understudy": __version__,
            "poses": poses.name,
            "config": config.header(),
            "controls_never_seen": constant_controls(poses),
            "training_curve": curve_numbers(trained.training_curve),
            "validation_curve": curve_numbers(trained.validation_curve),
            **provenance,
        },
    )
    if not config.bounded:
        return deformer
    held_out = validation_poses(poses.pose_count, context.schedule())
    return with_bounds(deformer, poses, held_out, context.added)

"""The steps that methods over a deformation subspace share: skin, displacements, inputs, schedules,
and the frame of the result.

Letters: T poses, V vertices, X features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.features import Features
from understudy.core.networks import Basis, Net
from understudy.core.poses import Poses, evenly
from understudy.core.progress import Progress
from understudy.core.version import __version__
from understudy.methods.differential.config import SubspaceConfig
from understudy.methods.differential.features import FeatureTable, needed_units, never_seen
from understudy.methods.differential.nets import Learned
from understudy.methods.differential.skins import make_skin
from understudy.methods.skin_fitting.displacements import displacement_blocks, gathered
from understudy.methods.skin_fitting.residuals import rest_displacements
from understudy.rigs.base import Rig
from understudy.training.trainer import Schedule

STILL = 1e-7  # of the height: what moves less than this does not move
_HELD_BYTES = (
    1 << 29
)  # displacements are kept in memory up to here, and made anew for every use beyond
_ASKED_VERTICES = 60


class SubspaceFit:
    """One fit of one method. `config` has every option of its preset in place; mirrored: the second
    half of `poses` are mirror images.
    """

    mirrored = False

    def __init__(
        self, method: str, config: SubspaceConfig, poses: Poses, rig: Rig | None, progress: Progress
    ):
        if poses.skeleton is None and poses.controls is None:
            raise InputError(
                f"{method} needs bones or controls, and {poses.name!r} has neither; for bare mesh "
                f"sequences use a decomposition method"
            )
        self.method, self.header, self.config = method, config.header(), config.filled()
        self.poses, self.rig, self.progress = poses, rig, progress
        self.height = poses.mesh.height
        self.basis_error = (
            1e-4 * self.height if self.config.basis_error is None else self.config.basis_error
        )
        self.skin = (
            None
            if poses.skeleton is None
            else make_skin(self.config.skin, poses, rig, self.config.influences, progress)
        )
        small = 12 * poses.pose_count * poses.vertex_count <= _HELD_BYTES
        self._held = gathered(poses, self.skin, np.arange(poses.pose_count)) if small else None

    def displacements(self, chosen: np.ndarray) -> np.ndarray:
        """(t,V,3) float32 of the chosen poses, increasing; the caller's own."""
        if self._held is not None:
            return self._held[chosen]
        return gathered(self.poses, self.skin, chosen)

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """The displacements of all poses, some at a time: (slice, (t,V,3) float32)."""
        if self._held is None:
            yield from displacement_blocks(self.poses, self.skin)
        else:
            for start in range(0, len(self._held), 256):
                yield slice(start, start + 256), self._held[start : start + 256]

    def release(self) -> None:
        """Let go of what is held, before training needs the memory."""
        self._held = None

    def feature_table(self, targets: Sequence[np.ndarray]) -> FeatureTable:
        """What the nets may read; an error where the targets (T,P) vary and nothing that drives
        them does.
        """
        table = FeatureTable.of(self.poses, self.config.controls)
        if not len(table.columns) and any(
            np.abs(rows).max(initial=0) > STILL * self.height for rows in targets
        ):
            raise InputError(
                f"{self.poses.name!r}: the mesh moves, but every bone and control stands still (or "
                f"is left out by controls=none)"
            )
        return table

    def inputs(
        self, table: FeatureTable, groups: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """The features each group of vertices answers to."""
        config = self.config
        error = 2e-4 * self.height if config.input_error is None else config.input_error
        # Some vertices of each group tell what moves it as well as all of them do.
        few = [self._telling(np.asarray(group)) for group in groups]
        asked = np.unique(np.concatenate(few)) if few else np.zeros(0, int)
        needs = needed_units(
            table, self.poses, self.rig, config.inputs, lambda moved: self._displace(moved, asked),
            [np.searchsorted(asked, group) for group in few],
            targets, error, config.input_poses, config.seed, self.progress,
        )  # fmt: skip
        return [table.inputs_of(row) for row in needs]

    def _telling(self, group: np.ndarray) -> np.ndarray:
        """Some vertices of a group, and of each bone the one that follows it most: a lone one may
        answer to a bone that no other does.
        """
        some = group[evenly(len(group), _ASKED_VERTICES)]
        if self.skin is None:
            return some
        index, weight = self.skin.bone_index[group], self.skin.weight[group]
        order = np.argsort(-weight, axis=None, kind="stable")
        order = order[weight.reshape(-1)[order] > 0]
        first = np.unique(index.reshape(-1)[order], return_index=True)[1]
        return np.union1d(some, group[order[first] // index.shape[1]])

    def _displace(self, moved: Poses, vertices: np.ndarray) -> np.ndarray:
        """Rest-space displacements of some vertices in any poses of the same rig: (t,n,3)."""
        rest = moved.mesh.vertices
        if self.skin is None:
            return moved.vertices[:, vertices] - rest[vertices]
        return rest_displacements(
            moved.world_from_bone,
            moved.skeleton,
            self.skin,
            rest,
            vertices,
            moved.vertices[:, vertices],
        )

    def schedule(self, hidden: tuple[int, ...], epochs: int, loss: str) -> Schedule:
        config = self.config
        return Schedule(
            hidden=hidden,
            activation=config.activation,
            epochs=epochs,
            batch_size=config.batch_size,
            learning_rate=config.learning_rate,
            loss=loss,
            optimizer=config.optimizer,
            weight_decay=config.weight_decay,
            validation_fraction=config.validation_fraction,
            twins=self.mirrored,
            seed=config.seed,
            device=config.device,
        )

    def checkpoint(self, which: str = "") -> Path | None:
        """Where a group of nets keeps the state of its training."""
        path = self.config.checkpoint
        return None if path is None else Path(f"{path}{which}")

    def result(
        self,
        table: FeatureTable,
        nets: Sequence[Net],
        learned: Learned,
        bases: Sequence[Basis],
        mean: np.ndarray,
        figures: dict,
        about: dict,
    ) -> Deformer:
        """The deformer; the curves in its header are those of `learned`."""
        poses, margin = self.poses, self.config.clamp_margin
        wide = np.inf if margin is None else margin * (table.high - table.low)
        return Deformer(
            mesh=poses.mesh, skeleton=poses.skeleton, control_spec=poses.control_spec,
            skin=self.skin,
            features=Features(table.columns, table.low - wide, table.high + wide), nets=tuple(nets),
            bases=tuple(bases), mean=mean, method=self.method, training={"poses": poses.pose_count,
            **figures},
            provenance={
                "understudy": __version__, "poses": poses.name, "config": self.header,
                "controls_never_seen": never_seen(poses),
                "training_curve": _short(learned.training_curve),
                "validation_curve": _short(learned.validation_curve), **about,
            },
        )  # fmt: skip


def _short(curve: np.ndarray) -> list[float]:
    """A curve as numbers for the file's header; empty where nothing was measured."""
    return [float(f"{value:.6g}") for value in curve if np.isfinite(value)]

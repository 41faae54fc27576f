"""The steps of `differential`, in order: mirror images, shapes, anchors, components, nets, weights,
fold.

Letters: T poses, V vertices, n anchors, P components.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from understudy.core.deformer import Deformer
from understudy.core.networks import Basis, Net
from understudy.core.poses import Poses, evenly
from understudy.core.progress import Progress
from understudy.geometry.pca import components_for_error, principal_components
from understudy.methods.differential.anchors import (
    anchors_by_errors,
    checked_anchors,
    choose_anchors,
    even_anchors,
    random_anchors,
)
from understudy.methods.differential.components import Components, enough, region_components
from understudy.methods.differential.config import SubspaceConfig
from understudy.methods.differential.context import STILL, SubspaceFit
from understudy.methods.differential.folding import anchor_bases, near_and_far, rewritten
from understudy.methods.differential.laplacian import Laplacian
from understudy.methods.differential.mirror import find_mirror
from understudy.methods.differential.nets import Learned, learn
from understudy.methods.differential.reconstruction import Reconstruction, Weights
from understudy.methods.differential.regions import mesh_regions
from understudy.methods.differential.validation import Judge, Words, guessed_weights
from understudy.rigs.base import Rig

BASIS_POSES = 2000  # poses that span the shapes; more change little
_FEWEST_ANCHORS = 64  # of a small mesh a share is too few to hold it
_ANCHOR_POSES = 600
_ANCHOR_MODES = 300
_ERROR_POSES = 60
_ALONE = 0.01


class DifferentialFit(SubspaceFit):
    """One fit of `differential`; `deformer` runs it."""

    def __init__(
        self, method: str, config: SubspaceConfig, poses: Poses, rig: Rig | None, progress: Progress
    ):
        mirror = find_mirror(poses) if config.mirror == "auto" and rig is None else None
        super().__init__(
            method, config, poses if mirror is None else mirror.with_images(poses), rig, progress
        )
        self.mirrored = mirror is not None
        self._given = {
            "poses": poses.pose_count,
            "mirror_images": self.poses.pose_count - poses.pose_count,
        }

    def deformer(self) -> Deformer:
        poses = self.poses
        self.laplacian = Laplacian.of(poses.mesh)
        with self.progress.task("finding the shapes", 3) as bar:
            sample = self.displacements(evenly(poses.pose_count, BASIS_POSES))
            mean = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
            sample -= mean
            bar.advance()
            anchors = self._anchors(sample)
            delta = self.laplacian.coordinates(sample)
            weights = self._weights(sample, delta, anchors)
            bar.advance()
            components = self._components(
                delta,
                self._seeds(sample, anchors),
                Reconstruction(self.laplacian, anchors, weights),
            )
            offsets = [self._offsets(sample[:, part.vertices]) for part in components]
            bar.advance()
        del sample, delta
        coefficients, anchored = self._targets(components, offsets, anchors, mean)
        table = self.feature_table([*coefficients, anchored])
        regions, own = self._inputs(table, components, coefficients, anchors, anchored)
        if not self._late:
            self.release()
        shaped = self._learn_shapes(table, regions, components, coefficients)
        heard, words = (table, components, offsets, coefficients, shaped, mean), None
        if self._late:
            words = Words.of(self, *heard, anyway=True)
            first = Reconstruction(
                self.laplacian,
                anchors[: max(len(anchors) // 2, self.laplacian.piece.max() + 1)],
                weights,
            )
            anchors = anchors_by_errors(first, weights.anchor, words, len(anchors), self.progress)
            anchored = self._anchored(anchors, mean)
            own = self._anchor_inputs(table, anchors, anchored)
            self.release()
        moving = self._moving(anchored)
        nailed = self._learn_anchors(
            table,
            own,
            [anchored[:, a] for a in moving],
            sum(rows.shape[1] for rows in coefficients),
        )
        judge = Judge(
            self, table, words or Words.of(self, *heard), anchors, anchored, moving, nailed
        )
        nets, bases = self._fold(
            judge.best_reconstruction(weights),
            components,
            offsets,
            coefficients,
            shaped,
            moving,
            nailed,
            anchored,
        )
        figures = {
            **self._given,
            "anchors": len(anchors),
            "components": sum(part.count for part in components),
            **judge.figures,
        }
        return self.result(
            table, nets, shaped, bases, mean, figures, {"anchors": [int(a) for a in anchors]}
        )

    def _anchors(self, sample: np.ndarray) -> np.ndarray:
        config, piece = self.config, self.laplacian.piece
        if config.anchor_list:
            return checked_anchors(config.anchor_list, piece)
        count = max(
            1 if config.preset == "paper" else _FEWEST_ANCHORS,
            round(config.anchors * self.poses.vertex_count),
        )
        if config.anchor_choice == "random":
            return random_anchors(piece, count, config.seed)
        if self._spread:
            return even_anchors(
                self.laplacian.symmetric, np.linalg.norm(sample, axis=(0, 2)), piece, count
            )
        return self._pivots(sample, count)

    def _seeds(self, sample: np.ndarray, anchors: np.ndarray) -> np.ndarray:
        """What the regions grow around: the first anchors, or, where those are spread evenly, the
        points that determine the shape.
        """
        count = self.config.regions
        return (
            self._pivots(sample, len(anchors))[:count]
            if self._spread and count > 1
            else anchors[:count]
        )

    @property
    def _late(self) -> bool:
        """Whether half of the anchors are chosen only once the nets of the coordinates are
        known.
        """
        choice = self.config.anchor_choice
        return not self.config.anchor_list and (
            choice == "errors" or (choice == "auto" and not self.config.holding)
        )

    @property
    def _spread(self) -> bool:
        """Whether the anchors are, to begin with, spread evenly."""
        return self._late or (not self.config.anchor_list and self.config.anchor_choice == "even")

    def _pivots(self, sample: np.ndarray, count: int) -> np.ndarray:
        few = sample[evenly(len(sample), _ANCHOR_POSES)].reshape(-1, 3 * sample.shape[1])
        directions, sizes = principal_components(few, min(3 * count, _ANCHOR_MODES))
        return choose_anchors(
            directions * sizes,
            self.poses.mesh.vertices.astype(np.float64),
            self.laplacian.piece,
            count,
        )

    def _weights(self, sample: np.ndarray, delta: np.ndarray, anchors: np.ndarray) -> Weights:
        if not self.config.holding:
            return Weights(1.0 if self.config.omega is None else self.config.omega)
        return guessed_weights(self.laplacian, sample, delta, anchors, self.height)

    def _components(
        self, delta: np.ndarray, seeds: np.ndarray, reconstruction: Reconstruction
    ) -> list[Components]:
        config = self.config
        regions = mesh_regions(self.poses.mesh, seeds)
        if config.components is not None:
            most = max(1, round(config.components * self.poses.vertex_count / len(regions)))
            return [
                region_components(delta, region, config.metric, most, reconstruction)
                for region in regions
            ]
        found = [
            region_components(delta, region, config.metric, config.max_components, reconstruction)
            for region in regions
        ]
        return enough(
            found, delta[evenly(len(delta), _ERROR_POSES)], reconstruction, self.basis_error
        )

    def _offsets(self, sample: np.ndarray) -> np.ndarray:
        """(3n,Q) float32: the broad shapes of a region's displacements (T,n,3), to hold its
        vertices by; none where they are not held.
        """
        rows = sample.reshape(len(sample), -1)
        if not self.config.holding:
            return np.zeros((rows.shape[1], 0), np.float32)
        directions = principal_components(rows, self.config.max_components)[0].astype(np.float32)
        some = rows[evenly(len(rows), _ERROR_POSES)]
        return directions[
            :, : components_for_error(some, directions, np.ones(sample.shape[1]), self.basis_error)
        ]

    def _targets(
        self,
        components: list[Components],
        offsets: list[np.ndarray],
        anchors: np.ndarray,
        mean: np.ndarray,
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Every pose's coefficients, of coordinates and offsets (T,P+Q) per region, and anchor
        displacements (T,n,3).
        """
        count = self.poses.pose_count
        coefficients = [
            np.empty((count, part.count + basis.shape[1]), np.float32)
            for part, basis in zip(components, offsets)
        ]
        anchored = np.empty((count, len(anchors), 3), np.float32)
        with self.progress.task("turning poses into coordinates", count) as bar:
            for where, block in self.blocks():
                block = block - mean
                anchored[where] = block[:, anchors]
                delta = self.laplacian.coordinates(block)
                for part, basis, rows in zip(components, offsets, coefficients):
                    rows[where, : part.count] = part.coefficients(delta)
                    rows[where, part.count :] = (
                        block[:, part.vertices].reshape(len(block), -1) @ basis
                    )
                bar.advance(len(block))
        return coefficients, anchored

    def _anchored(self, anchors: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """(T,n,3): every pose's displacements of the anchors."""
        return np.concatenate([block[:, anchors] - mean[anchors] for _, block in self.blocks()])

    def _moving(self, anchored: np.ndarray) -> np.ndarray:
        """Numbers of the anchors that move at all."""
        return np.flatnonzero(np.abs(anchored).max(axis=(0, 2), initial=0) > STILL * self.height)

    def _inputs(
        self, table, components, coefficients, anchors, anchored
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """What the nets of the regions and those of the anchors that move read, asked for together;
        of anchors that are not yet chosen, nothing.
        """
        if self._late:
            return self._wide_inputs(table) or self.inputs(
                table, [part.vertices for part in components], coefficients
            ), []
        moving = self._moving(anchored)
        groups = [part.vertices for part in components] + [anchors[a : a + 1] for a in moving]
        inputs = self.inputs(table, groups, [*coefficients, *(anchored[:, a] for a in moving)])
        return self._wide_inputs(table) or inputs[: len(components)], inputs[len(components) :]

    def _anchor_inputs(self, table, anchors: np.ndarray, anchored: np.ndarray) -> list[np.ndarray]:
        moving = self._moving(anchored)
        return self.inputs(
            table, [anchors[a : a + 1] for a in moving], [anchored[:, a] for a in moving]
        )

    def _wide_inputs(self, table) -> list[np.ndarray]:
        """Of a single net for all coordinates: everything."""
        return [np.arange(len(table.columns), dtype=np.int32)] if self.config.regions == 1 else []

    def _learn_shapes(self, table, inputs, components, coefficients) -> Learned:
        config = self.config
        # The paper's loss is that of delta itself, not of its coefficients.
        alone = config.metric == "differential" and len(components) == 1 and components[0].count
        measure = components[0].basis.astype(np.float32) if alone else None
        schedule = self.schedule(config.hidden, config.epochs, config.loss)
        return learn(
            table,
            inputs,
            coefficients,
            0,
            schedule,
            config.linear,
            self.progress,
            self.checkpoint(),
            measure,
        )

    def _learn_anchors(self, table, inputs, targets: list[np.ndarray], first: int) -> Learned:
        """The nets of the anchors that move: targets (T,3) each; their coefficients are numbered
        from `first` on.
        """
        config = self.config
        if config.anchor_nets == "single" and targets:
            inputs, targets = (
                [np.arange(len(table.columns), dtype=np.int32)],
                [np.concatenate(targets, axis=1)],
            )
        schedule = self.schedule(config.anchor_hidden, config.anchor_epochs, config.anchor_loss)
        return learn(
            table,
            inputs,
            targets,
            first,
            schedule,
            config.linear,
            self.progress,
            self.checkpoint("-anchors"),
        )

    def _fold(
        self,
        reconstruction,
        components,
        offsets,
        coefficients,
        shaped: Learned,
        moving: np.ndarray,
        nailed: Learned,
        anchored,
    ) -> tuple[list[Net], list[Basis]]:
        """The deformer's nets and bases: every region's, near and far, and the anchors' shared one,
        block by block.
        """
        least = self.basis_error if self.config.fold_error is None else self.config.fold_error
        neighbours = sp.csr_matrix(self.laplacian.symmetric != 0).astype(np.float64)
        bases, told, free = (
            [],
            {},
            0,
        )  # told: a region's first number as the nets know it -> what they have to write instead
        for part, basis, rows, numbers in zip(components, offsets, coefficients, shaped.outputs):
            if not len(numbers):
                continue
            folded = [
                reconstruction.fold(part.basis, part.vertices),
                reconstruction.fold_held(basis, part.vertices),
            ]
            folded = np.concatenate(folded, axis=1).reshape(-1, 3, len(numbers))
            transfers = [np.zeros((0, len(numbers)))]
            first = free
            for vertices, matrix, transfer in near_and_far(
                folded, _second_moments(rows), part.vertices, neighbours, least
            ):
                bases.append(Basis(vertices, matrix, np.arange(free, free + len(transfer))))
                transfers.append(transfer)
                free += len(transfer)
            told[int(numbers[0])] = np.concatenate(transfers), np.arange(first, free)
        nets = [rewritten(net, *told[int(net.outputs[0])]) for net in shaped.nets]
        nets = [
            net for net in nets if len(net.outputs)
        ]  # a region that moves nothing has nothing to say
        if len(moving):
            owner = np.empty(self.poses.vertex_count, int)
            for number, part in enumerate(components):
                owner[part.vertices] = number
            owner = owner[reconstruction.anchors[moving]]
            size = np.sqrt(
                np.mean(np.square(anchored[:, moving], dtype=np.float64).sum(axis=2), axis=0)
            )
            groups = [np.flatnonzero(owner == number) for number in np.unique(owner)]
            shift = free - int(nailed.outputs[0][0])
            nets += [replace(net, outputs=net.outputs + shift) for net in nailed.nets]
            numbers = (np.concatenate(nailed.outputs) + shift).reshape(-1, 3).T
            bases += anchor_bases(
                reconstruction.anchor_basis()[:, moving], numbers, groups, size, least
            )
        return nets, bases


def _second_moments(rows: np.ndarray) -> np.ndarray:
    """(T,P) -> (P,P) float64, a little of each coefficient on its own added: poses not seen may mix
    them in other ways.
    """
    rows = rows.astype(np.float64)
    moments = rows.T @ rows / max(1, len(rows))
    return moments + _ALONE**2 * np.diag(np.diag(moments))

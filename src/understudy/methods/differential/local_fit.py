"""The steps of `local`: nets over a PCA of the displacements themselves, region by region.

Letters: T poses, V vertices, n vertices of a region, P components.
"""

from __future__ import annotations

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.networks import Basis
from understudy.core.poses import evenly
from understudy.geometry.pca import components_for_error, principal_components
from understudy.methods.differential.anchors import choose_anchors
from understudy.methods.differential.context import SubspaceFit
from understudy.methods.differential.fit import BASIS_POSES
from understudy.methods.differential.nets import learn
from understudy.methods.differential.regions import mesh_regions

_SEED_POSES = 600
_SEED_MODES = 100
_ERROR_POSES = 200


class OffsetFit(SubspaceFit):
    """One fit of `local`; `deformer` runs it."""

    def deformer(self) -> Deformer:
        config, poses = self.config, self.poses
        with self.progress.task("finding the shapes", 1) as bar:
            sample = self.displacements(evenly(poses.pose_count, BASIS_POSES))
            mean = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
            sample -= mean
            regions = self._regions(sample)
            bases = [
                self._basis(sample[:, region].reshape(len(sample), -1), len(regions))
                for region in regions
            ]
            bar.advance()
        del sample
        coefficients = [np.empty((poses.pose_count, basis.shape[1]), np.float32) for basis in bases]
        for where, block in self.blocks():
            for region, basis, rows in zip(regions, bases, coefficients):
                rows[where] = (block[:, region] - mean[region]).reshape(len(block), -1) @ basis
        self.release()
        table = self.feature_table(coefficients)
        inputs = (
            [np.arange(len(table.columns), dtype=np.int32)]
            if config.regions == 1
            else self.inputs(table, regions, coefficients)
        )
        schedule = self.schedule(config.hidden, config.epochs, config.loss)
        # With one net for all, the loss is that of the offsets themselves, as in the paper's preset
        # of `differential`.
        measure = (
            bases[0] if len(bases) == 1 and bases[0].shape[1] and config.preset == "paper" else None
        )
        learned = learn(
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
        shaped = [
            Basis(region, basis, numbers)
            for region, basis, numbers in zip(regions, bases, learned.outputs)
            if basis.shape[1]
        ]
        return self.result(
            table,
            learned.nets,
            learned,
            shaped,
            mean,
            {"components": sum(basis.shape[1] for basis in bases)},
            {},
        )

    def _regions(self, sample: np.ndarray) -> list[np.ndarray]:
        """Cells around the points that determine the shape, as in `differential`."""
        few = sample[evenly(len(sample), _SEED_POSES)].reshape(-1, 3 * sample.shape[1])
        directions, sizes = principal_components(few, _SEED_MODES)
        mesh = self.poses.mesh
        whole = np.zeros(mesh.vertex_count, int)
        return mesh_regions(
            mesh,
            choose_anchors(
                directions * sizes, mesh.vertices.astype(np.float64), whole, self.config.regions
            ),
        )

    def _basis(self, rows: np.ndarray, regions: int) -> np.ndarray:
        """(3n,P) float32: the principal shapes of a region, by their share or by the error they
        leave.
        """
        config = self.config
        if config.components is not None:
            most = max(1, round(config.components * self.poses.vertex_count / regions))
            return principal_components(rows, most)[0].astype(np.float32)
        directions = principal_components(rows, config.max_components)[0].astype(np.float32)
        some = rows[evenly(len(rows), _ERROR_POSES)]
        return directions[
            :,
            : components_for_error(some, directions, np.ones(rows.shape[1] // 3), self.basis_error),
        ]

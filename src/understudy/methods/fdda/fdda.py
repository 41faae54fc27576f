"""`fdda`: rigid skinning plus one small network per bone for what is left.

Follows Bailey, Otte, DiLorenzo and O'Brien, "Fast and Deep Deformation Approximations", SIGGRAPH
2018.

    b_k       each vertex's best single bone over example poses
              (section 3.1.1)
    d_k       the residual before skinning, in rest space: d = X0 f with f of Eq. 2
    c_g       coefficients of d on the PCA basis of the bone's vertices, fewest that leave at most
              `basis_error` per vertex on average
              (3.3.2, last layer frozen)
    net_g     tanh MLP, 2 x 128, on parent-relative bone matrices, root excluded
              (3.2), trained by Adam
    inputs    only the bones and controls that move the group, asked of the rig or learned
              (3.3.1)
    bones     fewer groups: the smallest goes while the assignment error stays <= tau e0
              (3.3.3)

All networks train together as grouped matrix products, in coefficient space: the basis is
orthonormal, so that is the vertex error of Eq. 5.

Where it departs, and why:
- Features are clamped. The paper's worst error, 19 cm, was a leg stretched beyond what its network
  had seen; far outside its data a tanh network may say anything. Held to exactly the range seen,
  though, a deformer stops following where it could still have been right: on the human's kick that
  makes the largest error larger than no clamp at all (`bench body`, rows fdda-tight and
  fdda-noclamp). So the range is widened by `clamp_margin` of its width on each side.
- The seam is closed. The paper gives each vertex to one bone and one network, and neighbours tear
  apart where two networks err differently. Here the skin blends over `skin_rings` rings around the
  borders of its bones, and vertices near a border are predicted by all the networks around, mixed
  by a partition of unity over `seam_rings` rings. Both at 0 is the paper's (`bench body`, row
  fdda-open).
- Numeric controls (those that move the mesh other than through bones) join the inputs: the paper's
  limitation 5.1.
- Input numbers that never vary are left out. The learning rate starts at 0.005 and falls to zero
  along a cosine: at the paper's 0.01 the summed loss of 10,000 poses and 300 epochs (two runs, one
  seed) rose a hundredfold within an epoch and ended seventy times higher than at 0.005.

The defaults of `clamp_margin`, `skin_rings` and `seam_rings` were chosen by comparing fits on the
human's walk and kick.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError, MissingDependencyError
from understudy.core.features import Features, raw_features
from understudy.core.networks import Basis, Net
from understudy.core.poses import Poses, evenly
from understudy.core.progress import SILENT, Progress, Task
from understudy.core.skin import Skin
from understudy.core.version import __version__
from understudy.geometry.pca import components_for_error, principal_components
from understudy.methods.base import Config, Method, Traits
from understudy.methods.skin_fitting.best_bone import best_bone, reduce_bones, rigid_errors
from understudy.methods.skin_fitting.blended_skin import blended_skin, soft_membership
from understudy.methods.skin_fitting.residuals import rest_displacements
from understudy.rigs.base import Rig


@dataclass(frozen=True)
class FddaConfig(Config):
    """Options of fdda.

    hidden               widths of the hidden layers of every network
    epochs               passes over the training poses
    batch_size           poses per training step
    learning_rate        initial learning rate of Adam; it decays to zero along a cosine
    tau                  factor by which removing bones may increase the rigid assignment error;
                         the paper uses 1.1 to 1.5
    basis_error          mean distance per vertex that the principal components may leave, in model
                         units; none: 0.016 % of the height, as in the paper
    max_components       upper limit of principal components per network
    inputs               how the inputs of each network are selected: rig (perturb the live rig),
                         data (from the poses), all, or auto (rig where there is one, else data)
    input_error          a bone or control is an input of a group if it moves a vertex of the group
                         by more than this, in model units; none: basis_error
    controls             controls that are inputs beside the bones: numeric (those that act other
                         than through bones), all, or none (as in the paper)
    skin_rings           rings of edges over which the rigid skin blends at the borders of its
                         bones; 0: no blending, as in the paper
    seam_rings           rings of edges over which neighbouring networks are blended; 0: no
                         blending, as in the paper
    clamp_margin         features are clamped to their training range, widened on each side by this
                         fraction of its width; none: no clamping
    validation_fraction  fraction of the poses that are kept out of training, to measure the error
    device               auto (a GPU where torch finds one), cpu, cuda or cuda:N
    checkpoint           file that stores the state of training, so that an interrupted fit can
                         continue
    """

    hidden: tuple[int, ...] = (128, 128)
    epochs: int = 150
    batch_size: int = 256
    learning_rate: float = 0.005
    tau: float = 1.2
    basis_error: float | None = None
    max_components: int = 80
    inputs: str = "auto"
    input_error: float | None = None
    controls: str = "numeric"
    skin_rings: int = 4
    seam_rings: int = 3
    clamp_margin: float | None = 0.5
    validation_fraction: float = 0.05
    device: str = "auto"
    checkpoint: str | None = None

    def __post_init__(self):
        super().__post_init__()
        for width in self.hidden:
            checks.between(width, "hidden", 1)
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise InputError(f"device: expected auto, cpu, cuda or cuda:N, got {self.device!r}")
        if self.input_error is not None:
            checks.between(self.input_error, "input_error", above=0)
        checks.one_of(self.inputs, "inputs", ("auto", "rig", "data", "all"))
        checks.one_of(self.controls, "controls", ("numeric", "none", "all"))
        checks.between(self.tau, "tau", 1)
        checks.between(self.epochs, "epochs", 1)
        checks.between(self.batch_size, "batch_size", 1)
        checks.between(self.learning_rate, "learning_rate", above=0)
        checks.between(self.skin_rings, "skin_rings", 0, 20)
        checks.between(self.seam_rings, "seam_rings", 0, 20)
        checks.between(self.max_components, "max_components", 1)
        checks.between(self.validation_fraction, "validation_fraction", 0, 0.9)
        if self.clamp_margin is not None:
            checks.between(self.clamp_margin, "clamp_margin", 0)
        if self.basis_error is not None:
            checks.between(self.basis_error, "basis_error", above=0)


# Poses enough to tell which bone a vertex follows, and to span a group's shapes; more change
# neither.
_ASSIGNMENT_POSES = 1000
_BASIS_POSES = 2000
_ERROR_POSES = 300
_INPUT_POSES = 5
_BATCH_BYTES = 1 << 30
_BLOCK_BYTES = 1 << 28


@dataclass(frozen=True)
class _Group:
    """One network's vertices: their share of each (n,), and the basis (3n,P) that maps coefficients
    to displacements already times that share.
    """

    vertices: np.ndarray
    share: np.ndarray
    basis: np.ndarray
    coefficients: np.ndarray  # (T,P) float32, what the network has to predict


class Fdda(Method[FddaConfig]):
    """Rigid skinning plus one small network per bone for the residual."""

    name = "fdda"
    traits = Traits(
        needs_bones=True,
        asks_rig=True,
        needs_torch=True,
        quick={"epochs": "40", "hidden": "32,32", "batch_size": "64"},
    )
    Config = FddaConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        try:
            from understudy.training.grouped import GroupedTask
            from understudy.training.trainer import Schedule, train
        except ImportError as problem:
            raise MissingDependencyError(
                "fdda trains networks and needs torch: pip install 'understudy[fit]'"
            ) from problem
        config = self.config
        skeleton = poses.need_skeleton(self.name)
        basis_error = (
            1.6e-4 * poses.mesh.height if config.basis_error is None else config.basis_error
        )
        skin, labels = self._assign(poses, progress)
        mean, groups = self._groups(poses, skin, labels, basis_error, progress)
        raw = raw_features(skeleton, poses.world_from_bone, poses.controls, poses.pose_count)
        units, needs = self._inputs(poses, rig, skin, raw, groups, basis_error, progress)
        picked = raw[:, units.columns]
        centre, spread = (
            picked.mean(axis=0, dtype=np.float64),
            np.maximum(picked.std(axis=0, dtype=np.float64), 1e-9),
        )
        tasks = [
            GroupedTask(np.flatnonzero(needs[g][units.unit]), group.coefficients)
            for g, group in enumerate(groups)
        ]
        schedule = Schedule(
            hidden=config.hidden,
            epochs=config.epochs,
            batch_size=config.batch_size,
            learning_rate=config.learning_rate,
            validation_fraction=config.validation_fraction,
            seed=config.seed,
            device=config.device,
        )
        checkpoint = None if config.checkpoint is None else Path(config.checkpoint)
        trained = train(
            ((picked - centre) / spread).astype(np.float32), tasks, schedule, progress, checkpoint
        )
        nets, bases, first = [], [], 0
        for group, task, (weights, biases) in zip(groups, tasks, trained.nets):
            # Fold the standardisation into the first layer, so that a runtime reads raw features.
            weights[0] = weights[0] / spread[task.inputs]
            biases[0] = biases[0] - weights[0] @ centre[task.inputs]
            outputs = np.arange(first, first + group.basis.shape[1])
            nets.append(Net(task.inputs, tuple(weights), tuple(biases), outputs, "tanh"))
            bases.append(Basis(group.vertices, group.basis, outputs))
            first += len(outputs)
        low, high = picked.min(axis=0), picked.max(axis=0)
        margin = np.inf if config.clamp_margin is None else config.clamp_margin * (high - low)
        options = {
            name: value
            for name, value in asdict(config).items()
            if name not in ("checkpoint", "device")
        }
        return Deformer(
            mesh=poses.mesh,
            skeleton=skeleton,
            control_spec=poses.control_spec,
            skin=skin,
            features=Features(units.columns, low - margin, high + margin),
            nets=tuple(nets),
            bases=tuple(bases),
            mean=mean,
            method=self.name,
            training=_training_figures(poses, len(nets), float(basis_error), trained),
            provenance={
                "understudy": __version__,
                "poses": poses.name,
                "config": options,
                "training_curve": _short(trained.training_curve),
                "validation_curve": _short(trained.validation_curve),
            },
        )

    def _assign(self, poses: Poses, progress: Progress) -> tuple[Skin, np.ndarray]:
        """Return the skin, and each vertex's group number."""
        with progress.task("finding each vertex's best bone", 1) as bar:
            bones = assign_bones(poses, self.config.tau)
            bar.advance()
        labels = np.unique(bones, return_inverse=True)[1].reshape(-1)
        return blended_skin(poses, bones, self.config.skin_rings), labels

    def _groups(
        self, poses: Poses, skin: Skin, labels: np.ndarray, basis_error: float, progress: Progress
    ) -> tuple[np.ndarray, list[_Group]]:
        """The mean displacement (V,3), and every group's basis and coefficients; a group that never
        moves is left out.

        Two passes over the poses, block by block: the first gathers the displacements of some
        poses, which the mean and the bases come from; the second turns every pose's displacements
        into coefficients. Neither holds more than a block of all poses.
        """
        shares = soft_membership(poses.mesh, labels, self.config.seam_rings).tocsc()
        shares.sort_indices()
        members = [
            shares.indices[shares.indptr[g] : shares.indptr[g + 1]].astype(np.int32)
            for g in range(shares.shape[1])
        ]
        sample = evenly(poses.pose_count, _BASIS_POSES)
        mean = np.zeros((poses.vertex_count, 3), np.float32)
        groups = []
        batches = _batches([len(m) for m in members], len(sample))
        with progress.task(
            "finding each group's shapes", 2 * len(batches) * poses.pose_count
        ) as bar:
            for batch in batches:
                together = np.unique(np.concatenate([members[g] for g in batch]))
                d = np.empty((len(sample), len(together), 3), np.float32)
                for where, block in _displacement_blocks(poses, skin, together, sample, bar):
                    d[where] = block
                mean[together] = d.mean(axis=0, dtype=np.float64)
                d -= mean[together]
                found = []
                for g in batch:
                    share = shares.data[shares.indptr[g] : shares.indptr[g + 1]]
                    columns = np.searchsorted(together, members[g])
                    basis = self._basis(d[:, columns], share, basis_error)
                    if basis.shape[1]:
                        found.append(
                            (
                                columns,
                                _Group(
                                    members[g],
                                    share,
                                    basis,
                                    np.empty((poses.pose_count, basis.shape[1]), np.float32),
                                ),
                            )
                        )
                del d
                for where, block in _displacement_blocks(
                    poses, skin, together, np.arange(poses.pose_count), bar
                ):
                    block -= mean[together]
                    for columns, group in found:
                        # Both the rows and the orthonormal directions carry the root of the share;
                        # the basis holds their product with it.
                        group.coefficients[where] = (
                            block[:, columns].reshape(len(block), -1) @ group.basis
                        )
                groups += [group for _, group in found]
        return mean, groups

    def _basis(self, d: np.ndarray, share: np.ndarray, basis_error: float) -> np.ndarray:
        """(3n,P) float32: the fewest principal shapes of d (S,n,3) that leave at most
        `basis_error`, each row times the root of its share.
        """
        # With rows scaled by the root of the share, the squared error of the coefficients is the
        # share-weighted error of the vertices.
        root = np.sqrt(share).astype(np.float32)
        rows = (d * root[:, None]).reshape(len(d), -1)
        directions = principal_components(rows, self.config.max_components)[0].astype(np.float32)
        count = components_for_error(
            rows[evenly(len(rows), _ERROR_POSES)], directions, 1 / root, basis_error
        )
        return directions[:, :count] * np.repeat(root, 3)[:, None]

    def _inputs(
        self,
        poses: Poses,
        rig: Rig | None,
        skin: Skin,
        raw: np.ndarray,
        groups: list[_Group],
        basis_error: float,
        progress: Progress,
    ):
        """The features that vary, and which units (bones, controls) each group reads: (groups,
        units) bool.
        """
        from understudy.training.inputs import units_from_data, units_from_rig, varying_features

        config, bone_count = self.config, poses.skeleton.bone_count
        controls = np.zeros(0, int)
        if poses.control_spec is not None and config.controls != "none":
            controls = (
                np.flatnonzero(poses.control_spec.numeric)
                if config.controls == "numeric"
                else np.arange(poses.control_spec.count)
            )
        units = varying_features(raw, bone_count, poses.skeleton.roots, controls)
        unit_count = bone_count + (0 if poses.control_spec is None else poses.control_spec.count)
        source = (
            config.inputs
            if config.inputs != "auto"
            else ("rig" if rig is not None and poses.controls is not None else "data")
        )
        if source == "all" or not groups:
            return units, np.ones((len(groups), unit_count), bool)
        if source == "rig":
            if rig is None or poses.controls is None:
                raise InputError(
                    "inputs=rig needs the live rig and poses with control values; use inputs=data "
                    "for recorded poses"
                )
            everything = np.arange(poses.vertex_count)
            # A vertex counts where the group has most of it; its faint share in a neighbour need
            # not widen the neighbour's inputs.
            cores = [group.vertices[group.share >= min(0.3, group.share.max())] for group in groups]
            error = basis_error if config.input_error is None else config.input_error
            displace = lambda moved: rest_displacements(
                moved.world_from_bone,
                moved.skeleton,
                skin,
                moved.mesh.vertices,
                everything,
                moved.vertices,
            )
            needs = units_from_rig(
                rig, poses, displace, cores, error, _INPUT_POSES, config.seed, progress
            )
        else:
            picked = raw[:, units.columns].astype(np.float64)
            standard = (picked - picked.mean(axis=0)) / np.maximum(picked.std(axis=0), 1e-9)
            found = units_from_data(
                standard,
                units.unit,
                [group.coefficients for group in groups],
                gain=0.01,
                most=20,
                progress=progress,
            )
            needs = np.zeros((len(groups), unit_count), bool)
            needs[:, : found.shape[1]] = found
        varying = np.zeros(unit_count, bool)
        varying[units.unit] = True
        blind = ~(needs & varying).any(axis=1)
        needs[blind] = (
            # it moves, yet nothing alone was seen to move it: let it read everything rather than
            # nothing
            True
        )
        return units, needs


def _training_figures(poses: Poses, networks: int, basis_error: float, trained) -> dict[str, float]:
    figures = {"poses": poses.pose_count, "networks": networks, "basis_error": basis_error}
    for name, curve in (
        ("loss", trained.training_curve),
        ("loss_unseen", trained.validation_curve),
    ):
        if len(curve) and np.isfinite(curve[-1]):
            figures[name] = float(curve[-1])  # share of the squared motion that is left to learn
    return figures


def _short(curve: np.ndarray) -> list[float]:
    """A curve as numbers for the file's header; empty where nothing was measured."""
    return [float(f"{value:.6g}") for value in curve if np.isfinite(value)]


def assign_bones(poses: Poses, tau: float) -> np.ndarray:
    """(V,) each vertex's bone: the best single one over example poses, of as few bones as tau
    allows (sections 3.1.1 and 3.3.3).
    """
    errors = rigid_errors(poses, evenly(poses.pose_count, _ASSIGNMENT_POSES))
    return best_bone(errors, reduce_bones(errors, tau))


def _batches(sizes: list[int], pose_count: int) -> list[list[int]]:
    """Group numbers, gathered so that the displacements of one batch over `pose_count` poses fit in
    bounded memory.
    """
    batches: list[list[int]] = [[]]
    held = 0
    for g, size in enumerate(sizes):
        if batches[-1] and held + size * pose_count * 12 > _BATCH_BYTES:
            batches.append([])
            held = 0
        batches[-1].append(g)
        held += size * pose_count * 12
    return batches


def _displacement_blocks(
    poses: Poses, skin: Skin, vertices: np.ndarray, chosen: np.ndarray, bar: Task
) -> Iterator[tuple[slice, np.ndarray]]:
    """Rest-space displacements of `vertices` in the `chosen` poses, block by block: (slice into
    chosen, (t,n,3) float32).
    """
    # Skinning undone needs some thirty numbers per vertex and pose for a while.
    size = int(np.clip(_BLOCK_BYTES // (120 * len(vertices)), 1, 256))
    for start in range(0, poses.pose_count, size):
        stop = min(start + size, poses.pose_count)
        first, last = np.searchsorted(chosen, [start, stop])
        if first < last:
            at = chosen[first:last]
            targets = poses.read(start, stop, vertices)[at - start]
            yield (
                slice(first, last),
                rest_displacements(
                    poses.world_from_bone[at],
                    poses.skeleton,
                    skin,
                    poses.mesh.vertices,
                    vertices,
                    targets,
                ),
            )
        bar.advance(stop - start)

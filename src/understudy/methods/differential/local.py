"""`local`: the networks of `differential` on plain offsets.

The baseline "Local" of Song, Shi and Reed 2020, section 4.4.1. There are no differential
coordinates, no anchors and no reconstruction: the networks predict the coefficients of a PCA of the
displacements before skinning,

    d = mean + U c,     c = net(x)

It has everything else that `differential` has: the same networks, loss, ridge regression, mirror
images and inputs, so that a comparison shows what differential coordinates contribute.

Departure: by default there is one network per region, as in `differential`. These are regions of
positions, so seams may open between them. The paper has one network (`--preset paper`).
"""

from __future__ import annotations

from dataclasses import dataclass

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.methods.base import Method, Traits
from understudy.methods.differential.config import SubspaceConfig
from understudy.rigs.base import Rig
from understudy.system.progress import SILENT, Progress
from understudy.training.schedule import need_torch


@dataclass(frozen=True)
class LocalConfig(SubspaceConfig):
    """Options of local.

    hidden               widths of the hidden layers of every region's network
    activation           activation function of the hidden layers
    epochs               passes over the training poses
    batch_size           poses per training step; fewer if an epoch would have less than 20 steps
    learning_rate        initial learning rate; Adam's decays to zero along a cosine, SGD's as
                         1 / (1 + 1e-6 steps)
    optimizer            adam, or sgd without momentum
    weight_decay         weight decay of the optimizer; decoupled for adam
    loss                 l1, l2 or mixed (their sum)
    loss_space           what the loss compares: coefficients, or vertices (the true offset of every
                         vertex, as in the paper; needs regions=1)
    regions              number of regions, each with its own network; 1: one network for the mesh,
                         as in the paper
    linear               fit a ridge regression first; the networks learn its residual
    components           number of principal components as a fraction of the vertices; none:
                         basis_error determines it
    basis_error          mean distance per vertex that the principal components may leave, in model
                         units; none: 0.01 % of the height
    basis_poses          the mean and the components come from at most this many poses; none: from
                         all, as in the paper
    max_components       upper limit of principal components per region
    features             independent (constant and redundant numbers of a joint are left out) or all
                         (12 numbers per joint, only translations and controls are normalised, as
                         in the paper)
    mirror               auto: recorded poses of a symmetric mesh driven by controls alone are
                         augmented with their mirror images, up to 512 MB; none: no augmentation
    skin                 perturbed (Eq. 12), fitted (least squares), blended (best single bone with
                         blended borders), or auto (perturbed where the rig allows it, else
                         what predicts held-out poses better)
    influences           upper limit of bones per vertex
    inputs               how the inputs of each network are selected: rig (perturb the live rig),
                         data (from the poses), all, or auto (rig where there is one, else data)
    input_poses          number of poses at which the rig is perturbed to select inputs
    input_error          a bone or control is an input if it moves a vertex of the region by more
                         than this, in model units; none: 0.02 % of the height
    controls             controls that are inputs beside the bones: numeric (those that act other
                         than through bones), all, none, or auto: numeric, or all if they predict
                         held-out poses clearly better
    clamp_margin         features are clamped to their training range, widened on each side by this
                         fraction of its width; none: no clamping
    bounded              keep each coefficient in its range over the training poses, and fade the
                         correctives out as a pose leaves these poses
    rom_share            weight of range-of-motion poses in training (rest, and each control alone
                         at the ends of its range), as a fraction of the poses; they are evaluated
                         by the live rig; 0: none, as with loss_space=vertices
    validation_fraction  fraction of the poses that are kept out of training, to measure the error
    patience             early stopping: training ends after this many epochs without an improvement
                         on the validation poses, and every network keeps its best weights; none:
                         all epochs
    device               auto (a GPU where torch finds one), cpu, cuda or cuda:N
    checkpoint           file that stores the state of training, so that an interrupted fit can
                         continue
    """


class Local(Method[LocalConfig]):
    """The networks of `differential` on plain offsets, without anchors or reconstruction."""

    name = "local"
    traits = Traits(
        controls_suffice=True,
        asks_rig=True,
        needs_torch=True,
        baseline="differential",
        quick={
            "epochs": "20",
            "hidden": "32,32",
            "batch_size": "64",
            "regions": "4",
            "input_poses": "3",
        },
    )
    Config = LocalConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """The deformer of `poses`, which need bones, controls, or both.

        rig  is perturbed to find skin weights and to select the inputs of each network
        """
        need_torch(self.name)
        # Needs torch, an optional dependency.
        from understudy.methods.differential.local_fit import fit_local

        return fit_local(self.config, poses, rig, progress)

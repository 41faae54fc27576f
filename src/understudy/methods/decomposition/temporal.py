"""`temporal`: a mesh sequence to bones and weights with no parameters, by networks that read how
vertices move.

Paper: Moutafidou, Toulatzis & Fudos, "Temporal Parameter-free Deep Skinning of Animated Meshes". A
network reads each vertex's trajectory and gives the probability that each of its labels moves the
vertex; the six highest are kept and normalised. Then weights (convex) and affine transformations
are solved for in turn.

Departures, and why:
- what the network reads is turned into the sequence's own frame, so that shifting, turning or
  scaling the whole sequence changes nothing;
- its labels are places on a body that all characters share (`temporal.labels`): bones of different
  characters need common labels;
- it proposes more bones than are needed; how many stay is decided by what they explain
  (`temporal.number`), because the number of labels in use says little about the true number of
  bones;
- kind `auto` asks the networks of both kinds and takes the proposal that explains more;
- five rounds from the network's weights leave a large part of what can be gained (`fitting="paper"`
  does just that): by default the pruned proposal competes with `ssdr`'s own starts, and the best
  get rounds until nothing more is gained.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.poses import Poses, evenly
from understudy.core.progress import SILENT, Progress
from understudy.core.skin import Skin, skin_weights
from understudy.core.version import __version__
from understudy.methods.base import Config, Method, Traits
from understudy.methods.decomposition import kernels
from understudy.methods.decomposition.alternating_solve import (
    Fit,
    Search,
    affine_bones,
    with_weights,
)
from understudy.methods.decomposition.bone_count import number_of_bones
from understudy.methods.decomposition.motion import Motion, in_principal_directions, read_motion
from understudy.methods.decomposition.pruning import pruned
from understudy.methods.decomposition.result import deformer_of, erms_of, skin_and_bones
from understudy.methods.decomposition.skeletons.skeleton_fit import rig_sequence
from understudy.methods.decomposition.solve import (
    Plan,
    decompose,
    measured,
    no_weights,
    plain_rounds,
)
from understudy.methods.decomposition.trajectory_networks.classifier import (
    KINDS,
    probabilities,
    shipped,
)
from understudy.methods.decomposition.trajectory_networks.trajectories import trajectories
from understudy.rigs.base import Rig

_ROUNDS, _FALLING = (
    90,
    3e-3,
)  # half as many again as ssdr makes, and more while the squared error falls by this share
_PAPER_ROUNDS = 5
_SAMPLE = 1000  # vertices that a proposal is judged and pruned on


@dataclass(frozen=True)
class TemporalConfig(Config):
    """Options of temporal; none is needed.

    network     lstm, cnn or hybrid
    kind        what the network was trained on: animals, humans; auto: the one that explains the
                sequence better
    bones       how many; none: found
    influences  most bones a vertex may follow
    skeleton    one skeleton: a root that moves, all other bones turn about fixed joints; editable,
                at some cost in error
    fitting     ours; paper: five rounds from the network's own weights
    solver      of the paper's rounds: direct, or conjugate_gradients as in the paper
    """

    network: Literal["lstm", "cnn", "hybrid"] = "lstm"
    kind: Literal["auto", "animals", "humans"] = "auto"
    bones: int | None = None
    influences: int = 6
    skeleton: bool = False
    fitting: Literal["ours", "paper"] = "ours"
    solver: Literal["direct", "conjugate_gradients"] = "direct"

    def __post_init__(self):
        super().__post_init__()
        checks.one_of(self.network, "network", ("lstm", "cnn", "hybrid"))
        checks.one_of(self.kind, "kind", ("auto", *KINDS))
        checks.one_of(self.fitting, "fitting", ("ours", "paper"))
        checks.one_of(self.solver, "solver", ("direct", "conjugate_gradients"))
        checks.between(self.influences, "influences", 1)
        if self.bones is not None:
            checks.between(self.bones, "bones", 1, 1000)
        if self.skeleton and self.fitting == "paper":
            raise InputError(
                "skeleton and fitting=paper: the paper's rounds are for bones that are free; "
                "choose one"
            )


class Temporal(Method[TemporalConfig]):
    """Bones and weights of a mesh sequence with no option to set; a skeleton on request."""

    name = "temporal"
    traits = Traits(finds_bones=True, takes_sequences=True, quick={"bones": "4"})
    Config = TemporalConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """A skin for the mesh of `poses`, and its bones' motion as `clips`. A skeleton that the
        poses have is not used.
        """
        config = self.config
        motion, frame = read_motion(poses)
        with kernels.own_threads():
            bones, counted = config.bones, {}
            if bones is None:
                bones, curve = number_of_bones(motion, config.influences, frame.rounding, progress)
                counted = {
                    "motion_left_by_bones": {
                        str(number): left for number, left in sorted(curve.left.items())
                    }
                }
            plan = Plan(
                min(bones, motion.vertex_count),
                config.influences,
                config.skeleton,
                _ROUNDS,
                falling=_FALLING,
                progress=progress,
            )
            sample = evenly(motion.vertex_count, _SAMPLE)
            kind, word = self.read(motion, sample)
            if config.fitting == "paper":
                fit, errors = self._as_the_paper(motion, plan, kind, sample, word)
            else:
                fit, errors = _ours(motion, plan, sample, word)
        skin, world_from_rest = skin_and_bones(fit, frame)
        erms = [erms_of(error, motion, frame) for error in errors]
        about = {"config": asdict(self.config), "kind": kind, **counted}
        if config.skeleton:
            return self._joined(poses, skin, world_from_rest, about, progress)
        return deformer_of(
            poses,
            skin,
            world_from_rest,
            self.name,
            {"erms": erms[-1]},
            {**about, "erms_curve": erms},
        )

    def _joined(
        self, poses: Poses, skin: Skin, world_from_rest: np.ndarray, about: dict, progress: Progress
    ) -> Deformer:
        """The bones joined to a skeleton, and everything fitted to it again."""
        weights = skin_weights(skin, world_from_rest.shape[1]).toarray()
        rigged = rig_sequence(
            poses, weights, world_from_rest, influences=self.config.influences, progress=progress
        )
        erms = [100 * error for error in rigged.errors]
        training = {
            "poses": poses.pose_count,
            "bones": rigged.skeleton.bone_count,
            "influences": rigged.skin.influences,
            "erms": erms[-1],
        }
        made = {"understudy": __version__, "poses": poses.name, **about, "erms_curve": erms}
        return rigged.deformer(poses, method=self.name, training=training, provenance=made)

    def read(self, motion: Motion, vertices: np.ndarray) -> tuple[str, np.ndarray]:
        """The kind of network that explains some vertices (n,) best, and its probabilities
        (n,LABELS).
        """
        kinds = KINDS if self.config.kind == "auto" else (self.config.kind,)
        few, paths = motion.some(vertices), trajectories(motion, vertices)
        words = {kind: self._word(kind, paths) for kind in kinds}
        left = {
            kind: float(affine_start(few, *self._highest(word)).value.sum())
            for kind, word in words.items()
        }
        kind = min(kinds, key=lambda kind: left[kind])
        return kind, words[kind]

    def _word(self, kind: str, paths: np.ndarray) -> np.ndarray:
        return probabilities(self.config.network, shipped(kind, self.config.network), paths)

    def _highest(
        self, word: np.ndarray, labels: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Bones (n,K) and weights (n,K): the K highest of some labels, normalised; by default those
        that are the likeliest of any vertex.
        """
        labels = np.unique(word.argmax(axis=1)) if labels is None else labels
        word = word[:, labels].astype(np.float64)
        index = np.argsort(-word, axis=1, kind="stable")[
            :, : min(self.config.influences, len(labels))
        ]
        weight = np.maximum(np.take_along_axis(word, index, axis=1), 1e-12)
        return np.ascontiguousarray(index, np.int32), weight / weight.sum(axis=1, keepdims=True)

    def _as_the_paper(
        self, motion: Motion, plan: Plan, kind: str, sample: np.ndarray, word: np.ndarray
    ) -> tuple[Fit, list[float]]:
        """Five rounds from the network's weights; where more bones are named than asked for, they
        are first pruned on the sample.
        """
        reduced, directions = in_principal_directions(motion)
        labels = np.unique(word.argmax(axis=1))
        if len(labels) > plan.bones:
            few = reduced.some(sample)
            few = pruned(
                few, affine_start(few, *self._highest(word, labels)), plan.bones, plan.influences
            )
            fit = with_weights(
                reduced, few.columns, *no_weights(reduced), Search(plan.influences, from_all=True)
            )
        else:
            every = self._word(kind, trajectories(motion, np.arange(motion.vertex_count)))
            fit = affine_start(reduced, *self._highest(every, labels))
        fit, errors = plain_rounds(
            reduced, fit, plan.influences, _PAPER_ROUNDS, self.config.solver, plan.progress
        )
        fit = measured(motion, replace(fit, columns=directions @ fit.columns))
        return fit, [*errors[:-1], fit.error]


def _ours(
    motion: Motion, plan: Plan, sample: np.ndarray, word: np.ndarray
) -> tuple[Fit, list[float]]:
    """Two more starts for `ssdr`: from the groups of vertices that share their likeliest label. And
    the errors of the rounds on all vertices.
    """
    errors: list[float] = []
    fit = decompose(
        motion, replace(plan, guess=(sample, word.argmax(axis=1)), on_all=errors.append)
    )
    return fit, [*errors, fit.error]


def affine_start(motion: Motion, index: np.ndarray, weight: np.ndarray) -> Fit:
    """The best affine bones for weights (V,K) on bones (V,K), and the squared errors they leave."""
    bones = int(index.max()) + 1
    fit = Fit(np.zeros((motion.rows, 4 * bones)), index, weight, motion.square)
    return measured(motion, replace(fit, columns=affine_bones(motion, fit)))

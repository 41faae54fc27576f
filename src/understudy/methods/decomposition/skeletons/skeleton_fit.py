"""`rig_sequence`: from loose bones to a character that can be posed: a skeleton, a skin, and the
sequence as its animation.

After Moutafidou et al. 2021, "Temporal Parameter-free Deep Skinning of Animated Meshes", section
4.3: disjoint clusters, joints between neighbouring clusters, a hierarchy, joints adjusted,
rotations about them (there after Le & Deng 2012 and Avril et al. 2016). Departures, and why:
- the hierarchy is the spanning tree whose joints fit the motion best (`joints`), so that shells
  without common edges hang together too;
- rotations, the root's place and the joints are solved for together, by Gauss-Newton over all
  frames (`gauss_newton`): taken in turn, a chain of bones converges very slowly, for every bone
  carries all that hang on it;
- weights and the rest shape are fitted again in rounds with the motion (`refit`), with the solvers
  of `ssdr`;
- the tree is searched further under its own constraint (`regraft`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from understudy.core import checks
from understudy.core.clip import Clip
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.transforms import compose, parent_from_bone
from understudy.methods.decomposition import kernels
from understudy.methods.decomposition.alternating_solve import Fit
from understudy.methods.decomposition.motion import Frame, read_motion
from understudy.methods.decomposition.result import packed_skin
from understudy.methods.decomposition.skeletons.refit import Character, articulated, rigid_start
from understudy.methods.decomposition.skeletons.rest_frames import (
    central_bone,
    from_the_root,
    rest_frames,
)
from understudy.methods.decomposition.solve import rigid_rounds

_SLIDING_ROUNDS = 10


@dataclass(frozen=True, eq=False)
class Rigged:
    """A character and its animation.

    skeleton         one root; a bone's origin is its joint, +Y leads along it
    skin             (V,K), linear blend
    rest             (V,3) the shape it is bound in, near the mesh's own; see `rig_sequence`
    world_from_bone  (T,B,3,4) rotations and translations, the animation
    errors           root mean square error (model units, per coordinate) after each of the last
                     rounds; it never rises
    """

    skeleton: Skeleton
    skin: Skin
    rest: np.ndarray
    world_from_bone: np.ndarray
    errors: tuple[float, ...]

    @property
    def rotations(self) -> np.ndarray:
        """(T,B,3,3): each bone in its parent's frame, the root in the world. With
        `root_translation` all there is (`world_from_rotations`).
        """
        return parent_from_bone(self.world_from_bone, self.skeleton.parents)[..., :3]

    @property
    def root_translation(self) -> np.ndarray:
        """(T,3): where the root's origin is."""
        return self.world_from_bone[:, self.skeleton.roots[0], :, 3]

    def deformer(self, poses: Poses, **about) -> Deformer:
        """The stand-in for `poses`; `about` are further fields, such as `method` and
        `provenance`.
        """
        return Deformer(
            mesh=replace(poses.mesh, vertices=self.rest),
            skeleton=self.skeleton,
            skin=self.skin,
            clips=self.clips(poses),
            **about,
        )

    def clips(self, poses: Poses) -> tuple[Clip, ...]:
        """The animation as the clips that `poses` came in."""
        return poses.clips(self.world_from_bone)


def world_from_rotations(
    skeleton: Skeleton, rotations: np.ndarray, root_translation: np.ndarray
) -> np.ndarray:
    """Forward kinematics, level by level: (T,B,3,3) in the parents' frames and (T,3) ->
    world_from_bone (T,B,3,4), offsets those at rest.
    """
    offsets = parent_from_bone(skeleton.world_from_bone, skeleton.parents)[..., 3]
    local = np.concatenate(
        [rotations, np.broadcast_to(offsets[..., None], (len(rotations), *offsets.shape, 1))],
        axis=-1,
    )
    local[:, skeleton.roots[0], :, 3] = root_translation
    world = local.copy()
    level = np.flatnonzero(skeleton.parents < 0)
    while len(level := np.flatnonzero(np.isin(skeleton.parents, level))):
        world[:, level] = compose(world[:, skeleton.parents[level]], local[:, level])
    return world


def rig_sequence(
    poses: Poses,
    weights: np.ndarray,
    bones: np.ndarray,
    *,
    influences: int | None = None,
    constant_lengths: bool = True,
    progress: Progress = SILENT,
) -> Rigged:
    """A skeleton for bones found in a sequence (by `ssdr`, say), and everything fitted to it again.

    weights           (V,B), non-negative, each vertex's summing to one
    bones             (T,B,3,4) world from rest; scale and shear in them are not kept
    influences        most bones a vertex may follow; none: as many as the busiest vertex of
                      `weights` has
    constant_lengths  True: a joint stays where it is in its parent, bones only turn and only the
                      root moves. That is what a skeleton is to those who edit it, what retargeting
                      and physics expect, and half the numbers. False: joints may slide, every bone
                      turns and moves freely; the hierarchy is then only an order to hold on to. The
                      error is lower, that of rigid `ssdr`: choose it where fidelity matters more
                      than editing

    The rest shape is fitted too, and held to the mesh that came: a sequence's first frame is as
    noisy as any other, and what is off in it would be off in all. With joints that may slide it
    stays as it came.

    No bone is added and none is left out; nothing is random.
    """
    weights = checks.array(weights, "weights", (poses.vertex_count, None), np.float64)
    bones = checks.array(bones, "bones", (poses.pose_count, weights.shape[1], 3, 4), np.float64)
    if not weights.shape[1]:
        raise InputError("weights: at least one bone is needed")
    if (weights < 0).any() or not np.allclose(weights.sum(axis=1), 1, atol=1e-4):
        raise InputError("weights: every vertex's weights must be non-negative and sum to one")
    if influences is not None:
        checks.between(influences, "influences", 1)
    most = int((weights > 0).sum(axis=1).max())
    influences = most if influences is None else influences
    motion, frame = read_motion(poses)
    place = np.empty(poses.vertex_count, np.int64)
    place[frame.order] = np.arange(poses.vertex_count)
    heaviest = np.argsort(-weights[frame.order], axis=1, kind="stable")[:, :most].astype(np.int32)
    columns = rigid_start(frame.from_world(bones))
    start = Fit(
        columns,
        heaviest,
        np.ascontiguousarray(np.take_along_axis(weights[frame.order], heaviest, axis=1)),
        motion.square,
    )
    rms = lambda squared: (
        frame.size * float(np.sqrt(max(squared, 0.0) / (motion.vertex_count * motion.rows)))
    )
    with kernels.own_threads(), progress.task(f"joining {weights.shape[1]} bones", 5) as bar:
        found = articulated(
            motion,
            start,
            place[poses.mesh.edges],
            influences,
            bar,
            lambda squared: f"ERMS {100 * rms(squared):.3f}",
        )
        transforms, fit, rest, errors = found.pose.transforms(), found.fit, found.rest, found.errors
        if not constant_lengths:
            loose = rigid_rounds(motion, start, influences, _SLIDING_ROUNDS)
            if loose.error < fit.error:
                fit, rest, errors = loose, motion.rest, (loose.error,)
                transforms = loose.columns.reshape(-1, 3, fit.bones, 4).transpose(0, 2, 1, 3)
        bar.advance()
    skeleton, order = _skeleton(poses, rest, frame, found, fit)
    world_from_rest = frame.to_world(
        np.ascontiguousarray(transforms.transpose(0, 2, 1, 3)).reshape(motion.rows, -1)
    )
    number = np.argsort(order).astype(np.int32)
    skin = packed_skin(number[fit.index], fit.weight, frame.order)
    world_from_bone = compose(world_from_rest[:, order], skeleton.world_from_bone)
    bound = np.empty((poses.vertex_count, 3))
    bound[frame.order] = frame.size * rest[:, :3] + frame.centre
    return Rigged(skeleton, skin, bound, world_from_bone, tuple(rms(error) for error in errors))


def _skeleton(
    poses: Poses, rest: np.ndarray, frame: Frame, found: Character, fit: Fit
) -> tuple[Skeleton, np.ndarray]:
    """The bones as an artist expects them, and which of the solver's each of them is (B,)."""
    bones, flat = fit.bones, fit.index.reshape(-1)
    mass = np.bincount(flat, fit.weight.reshape(-1), bones)
    lone = (fit.weight**2).reshape(-1)  # what a bone has mostly to itself says best where it lies
    total = np.bincount(flat, lone, bones)
    rest = np.repeat(rest[:, :3], fit.index.shape[1], axis=0)
    sums = np.stack([np.bincount(flat, lone * rest[:, axis], bones) for axis in range(3)], axis=1)
    middles = np.where(
        total[:, None] > 0, sums / np.maximum(total, 1e-300)[:, None], found.pose.joints
    )
    root = central_bone(found.pose.tree, mass)
    pose = found.pose.rooted_at(root, middles[root])
    order = from_the_root(pose.tree, mass)
    number = np.argsort(order)
    parents = np.where(pose.tree.parents < 0, -1, number[pose.tree.parents])[order]
    frames = rest_frames(pose.tree, pose.joints, middles, mass, poses.mesh.up_axis)[order]
    frames[..., 3] = frame.size * frames[..., 3] + frame.centre
    return Skeleton(tuple(f"bone_{bone}" for bone in range(bones)), parents, frames), order

"""`SourceClip`: the motion that an export bakes, and where it comes from.

Letters: F frames, B bones, C controls, V vertices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from understudy.core.clip import ClipSpan
from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.parts import without_parts
from understudy.core.poses import Poses, distinct_names
from understudy.core.provenance import parts_left_out
from understudy.core.skeleton import Skeleton
from understudy.geometry.transforms import compose, parent_from_bone
from understudy.io.registry import read_poses
from understudy.rigs.base import Rig, animate
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress

_SAME_REST = 1e-3  # of the skeleton's size: how far joints of the same bind pose may be apart
_FRAME_RATE = 30.0  # of motion that does not state one


@dataclass(frozen=True, eq=False)
class SourceClip:
    """What drives a deformer over some frames.

    name             of the clip in the exported file
    world_from_bone  (F,B,3,4) float64, in the order of the deformer's bones; None without bones
    controls         (F,C) float64, in the order of the deformer's controls; None: it reads none
    frame_rate       frames per second
    start_frame      the number of the first frame
    original         (F,V,3) what the deformer stands in for, where it is known; or None
    mesh             that of its source, for its materials; or None
    shown_by         what the original is: "hero.fbx", "the animation 'walk'"
    """

    name: str
    world_from_bone: np.ndarray | None
    controls: np.ndarray | None = None
    frame_rate: float = _FRAME_RATE
    start_frame: int = 0
    original: np.ndarray | None = None
    mesh: Mesh | None = None
    shown_by: str = ""

    @property
    def frame_count(self) -> int:
        """F."""
        driver = self.controls if self.world_from_bone is None else self.world_from_bone
        return 0 if driver is None else len(driver)


def own_clips(deformer: Deformer) -> tuple[SourceClip, ...]:
    """Return the clips of a compressed sequence; empty for a deformer of a rig."""
    return tuple(
        SourceClip(
            clip.name,
            clip.world_from_bone,
            frame_rate=clip.frame_rate or _FRAME_RATE,
            start_frame=clip.start_frame,
        )
        for clip in deformer.clips
    )


def animation_clip(deformer: Deformer, rig: Rig, name: str) -> SourceClip:
    """Return one animation of the rig that `deformer` was learned from."""
    return poses_clips(deformer, animate(rig, name), f"the animation {name!r}")[0]


def motion_clips(
    deformer: Deformer, path: str | Path, progress: Progress = SILENT
) -> tuple[SourceClip, ...]:
    """Return the motion in a file, one clip for each that it holds.

    path  recorded poses (.npz), a pose store, or a character's file; bones and controls are
          matched by name. Bones that it lacks keep their place in their parent, controls that it
          lacks their value at rest
    """
    return poses_clips(deformer, read_poses(path, progress=progress), str(path))


def poses_clips(deformer: Deformer, poses: Poses, who: str) -> tuple[SourceClip, ...]:
    """Return `poses` as clips of `deformer`; `who` is what errors call them."""
    absent = [part for part in parts_left_out(deformer) if part in poses.mesh.parts]
    poses = without_parts(poses, absent) if absent else poses
    bones = None
    if deformer.skeleton is not None:
        if poses.skeleton is None or poses.world_from_bone is None:
            raise InputError(f"{who} has no bones, and the deformer is driven by bones")
        bones = matched_bones(deformer.skeleton, poses.skeleton, poses.world_from_bone, who)
    controls = _matched_controls(deformer, poses, who)
    original, own, other = None, deformer.mesh, poses.mesh
    same = np.array_equal(own.polygon_vertices, other.polygon_vertices)
    if same and own.vertex_count == other.vertex_count:
        original = poses.read_poses(0, poses.pose_count)
    spans = poses.spans or (ClipSpan(poses.name, poses.pose_count, poses.frame_rate),)
    ends = np.cumsum([span.frame_count for span in spans])
    part = lambda array, span, end: None if array is None else array[end - span.frame_count : end]
    return tuple(
        SourceClip(
            span.name,
            part(bones, span, end),
            part(controls, span, end),
            span.frame_rate or poses.frame_rate or _FRAME_RATE,
            span.start_frame,
            part(original, span, end),
            poses.mesh,
            who,
        )
        for span, end in zip(spans, ends)
    )


def distinct_clips(clips: Sequence[SourceClip]) -> tuple[SourceClip, ...]:
    """Return the clips with a number appended to names that came before."""
    names = distinct_names([clip.name for clip in clips])
    return tuple(replace(clip, name=name) for clip, name in zip(clips, names))


def matched_bones(
    own: Skeleton, other: Skeleton, world_from_bone: np.ndarray, who: str
) -> np.ndarray:
    """Return the bones of `own` in the motion of `other`: (F,B,3,4).

    world_from_bone  (F,B',3,4) the bones of `other`

    Where the bind poses differ in the orientation of the bones only, the motion since the bind
    pose is carried over. Skeletons of other proportions are refused.
    """
    index = {name: number for number, name in enumerate(other.names)}
    shared = np.array([b for b, name in enumerate(own.names) if name in index], int)
    if not len(shared):
        raise InputError(
            f"{who} has no bone of this character: it has {_some(other.names)}, the character "
            f"{_some(own.names)}"
        )
    missing = [name for name in own.names if name not in index]
    if any(parent < 0 and own.names[b] in missing for b, parent in enumerate(own.parents)):
        raise InputError(f"{who} lacks the root bone {_some(missing)}")
    theirs = np.array([index[own.names[b]] for b in shared])
    mine, rest = own.world_from_bone[shared], other.world_from_bone[theirs]
    size = float(np.ptp(own.world_from_bone[:, :, 3], axis=0).max()) or 1.0
    apart = np.linalg.norm(mine[:, :, 3] - rest[:, :, 3], axis=1)
    if apart.max() > _SAME_REST * size:
        worst = int(apart.argmax())
        raise InputError(
            f"{who}: in its bind pose the bone {own.names[shared[worst]]!r} is {apart[worst]:.3g} "
            "away from that of this character; retarget the motion to this skeleton first"
        )
    moved = world_from_bone[:, theirs]
    if np.abs(mine - rest).max() > _SAME_REST * size:
        moved = compose(compose(moved, other.bone_from_world[theirs]), mine)
    if not missing:
        return moved
    result = np.empty((len(moved), own.bone_count, 3, 4))
    result[:, shared] = moved
    local = parent_from_bone(own.world_from_bone, own.parents)
    for bone in np.setdiff1d(np.arange(own.bone_count), shared):  # parents come first
        result[:, bone] = compose(result[:, own.parents[bone]], local[bone])
    return result


def _matched_controls(deformer: Deformer, poses: Poses, who: str) -> np.ndarray | None:
    """Return the controls that the deformer reads, (F,C), or None if it reads none."""
    spec = deformer.control_spec
    if spec is None or not deformer.reads_controls:
        return None
    values = np.tile(spec.rest, (poses.pose_count, 1))
    given = poses.control_spec
    if given is None or poses.controls is None:
        if deformer.skeleton is None:
            raise InputError(f"{who} has no controls, and the deformer is driven by controls")
        return values
    index = {name: number for number, name in enumerate(given.names)}
    for number, name in enumerate(spec.names):
        if name in index:
            values[:, number] = poses.controls[:, index[name]]
    return values


def _some(names: Sequence[str]) -> str:
    """Return the first few names as a text."""
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")

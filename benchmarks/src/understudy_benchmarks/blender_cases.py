"""The cases of `bench blender`: rigs in .blend files.

Parts of a production rig, with ranges set by hand:

blenrig_face  45 controls of the face on 700 vertices. Names, ranges and vertices are those of a
              sample that others made (rig_blenrig_face.npz)
blenrig_body  rotations of spine, neck, head, arms and legs on the whole mesh

Whole rigs, from `understudy learn FILE.blend` without options, measured on animations that took no
part:

rigify        a human that Rigify rigged, learned from a file without actions; its walk and 18 keyed
              poses. A script builds it (`blender_rigs`), as the next two
quadruped     an animal; the trot, where the keyed poses are learned
clothed       a human in clothes; the end of its walk
kaiju         learned from the file as delivered, without actions; every tenth frame of its ten
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, evenly
from understudy.io import npz
from understudy.io.registry import read_poses
from understudy.jobs import learn
from understudy.jobs.split import split_animations
from understudy.rigs.base import animate
from understudy.rigs.blender.options import BlenderOptions
from understudy.rigs.blender.rig import BlenderRig
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.sampling import SamplePlan
from understudy.system.errors import FileError
from understudy.system.progress import Progress
from understudy_benchmarks.blender_rigs import STEP, build
from understudy_benchmarks.blender_rigs.playing import read_action

CASES = ("blenrig_face", "blenrig_body", "rigify", "quadruped", "clothed", "kaiju")
KAIJU = "blend/mesh2motion_kaiju.blend", "blend/mesh2motion_kaiju_animated.blend"
_KAIJU_STEP = 10
FILE, MESH = "blend/blenrig_biped.blend", "BlenRigGameModel"
FACE = "faces/rig_blenrig_face.npz"
_FEW = 200  # training poses
FACE_ACTIVE = 0.3  # share of the controls that a pose of the face moves; 0.26 in that sample
# Control patterns of the body and the half width of their ranges in degrees.
BODY: Mapping[str, float] = {
    "spine_?_fk.rot.?": 10.0,
    "neck_?_fk.rot.?": 10.0,
    "head_fk.rot.?": 20.0,
    "shoulder_?.rot.?": 10.0,
    "arm_fk_?.rot.?": 40.0,
    "forearm_fk_?.rot.?": 30.0,
    "thigh_fk_?.rot.?": 30.0,
    "shin_fk_?.rot.?": 30.0,
}


@dataclass(frozen=True, eq=False)
class Case:
    """A part of the rig.

    rig       the live rig
    training  poses to fit; test: poses that no method has seen
    learned   what `understudy learn` made of the rig; None: the benchmark fits a method
    """

    name: str
    rig: BlenderRig
    training: Poses
    test: Poses
    learned: Deformer | None = None


def load_case(
    name: str, data: Path, out: Path, counts: tuple[int, int], seed: int, progress: Progress
) -> Case:
    """Sample a case into stores in `out`, or read what is there.

    counts  training and test poses
    """
    if name not in ("blenrig_face", "blenrig_body"):
        return _learned_case(name, data, out, counts, seed, progress)
    path = data / FILE
    if not path.exists():
        raise FileError(f"{path}: not there; pass --data, or set UNDERSTUDY_DATA")
    face = npz.read_arrays(data / FACE, _FACE_ARRAYS) if name == "blenrig_face" else None
    patterns = tuple(str(n) for n in face["control_names"]) if face else tuple(BODY)
    rig = BlenderRig(path, BlenderOptions(meshes=(MESH,), controls=patterns), progress)
    out.mkdir(parents=True, exist_ok=True)
    ranges = out / f"{name}.toml"
    ranges.write_text(_ranges(rig, face), encoding="utf-8")
    active = FACE_ACTIVE if face else 1.0
    poses = [
        sample_poses(
            lambda: rig,
            SamplePlan(count, seed=2 * seed + k, active=active),
            out / f"{name}_{part}_{count}.zarr",
            progress=progress,
            ranges=ranges,
        )
        for k, (part, count) in enumerate(zip(("training", "test"), counts))
    ]
    if face:
        poses = [_part(some, face["vertex_index"], face["faces"]) for some in poses]
    training, test = (some.take(np.arange(some.pose_count)) for some in poses)
    return Case(name, rig, training, test)


def _learned_case(
    name: str, data: Path, out: Path, counts: tuple[int, int], seed: int, progress: Progress
) -> Case:
    """A whole rig, as `learn` learns it."""
    out.mkdir(parents=True, exist_ok=True)
    if name == "kaiju":
        source, animated = (data / file for file in KAIJU)
        if not animated.exists():
            raise FileError(f"{animated}: not there; pass --data, or set UNDERSTUDY_DATA")
    else:
        built = "rigify_bare" if name == "rigify" else name
        source = out / f"{built}.blend"
        build(built, source, progress)
    # Few poses are for a look at the benchmark itself.
    options = {"epochs": 4} if counts[0] < _FEW else {}
    made = learn(
        source, out / f"{name}_{counts[0]}", count=counts[0], seed=seed, options=options,
        progress=progress,
    )  # fmt: skip
    rig = BlenderRig(source, progress=progress)
    if name == "rigify":
        animated = out / "rigify.blend"
        build("rigify", animated, progress)
        test = _joined([read_action(animated, "walk"), read_action(animated, "keyed", STEP)])
    elif name == "kaiju":
        with BlenderRig(animated, progress=progress) as moving:
            test = _joined([animate(moving, one) for one in moving.animation_names], _KAIJU_STEP)
    else:
        split = split_animations(rig)
        test = _joined([animate(rig, one, first) for one, first in split.tests.items()])
    spec = rig.controls
    rest = np.tile(spec.rest, (test.pose_count, 1))
    test = replace(test, name="animations", control_spec=spec, controls=rest)
    few = test.take(evenly(test.pose_count, counts[1]))
    return Case(
        name, rig, read_poses(out / f"{name}_{counts[0]}" / "poses.zarr"), few, made.deformer
    )


def _joined(clips: Sequence[Poses], step: int = 1) -> Poses:
    """Every `step`-th frame of some clips of one character."""
    vertices = np.concatenate([clip.read_poses(0, clip.pose_count)[::step] for clip in clips])
    bones = np.concatenate([np.asarray(clip.world_from_bone)[::step] for clip in clips])
    return Poses(clips[0].mesh, vertices, clips[0].skeleton, bones)


_FACE_ARRAYS = ("control_names", "control_min", "control_max", "vertex_index", "faces")


def _ranges(rig: BlenderRig, face: Mapping[str, np.ndarray] | None) -> str:
    """The ranges of the controls as TOML."""
    low, high = rig.controls.low.copy(), rig.controls.high.copy()
    for c, name in enumerate(rig.controls.names):
        if face is None:
            width = next(width for pattern, width in BODY.items() if fnmatchcase(name, pattern))
            low[c], high[c] = -width, width
        else:
            at = face["control_names"].tolist().index(name)
            factor = 180 / np.pi if ".rot." in name else 1.0  # that sample has radians
            low[c] = factor * face["control_min"][at]
            high[c] = factor * face["control_max"][at]
    return replace(rig.controls, low=low, high=high).ranges_text()


def _part(poses: Poses, vertices: np.ndarray, faces: np.ndarray) -> Poses:
    """Poses of some vertices, with faces that count them."""
    mesh = Mesh.from_faces(
        poses.mesh.vertices[vertices], faces, unit=poses.mesh.unit, up_axis=poses.mesh.up_axis
    )
    return replace(poses, mesh=mesh, vertices=poses.read_vertices(vertices))

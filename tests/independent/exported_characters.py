"""Characters as `understudy export` makes them, which other programs must show as we do."""

import functools

import numpy as np
from sequence_builders import bending_strip
from two_tubes import DressedTube

from understudy import Character, CharacterClip, Mesh, Poses, Skin
from understudy.core.parts import without_parts
from understudy.export import ExportSettings, make_character
from understudy.export.clips import own_clips
from understudy.export.joints import make_joints
from understudy.export.shapes import SkinnedFrames, corrective_shapes, low_rank_displacements
from understudy.methods.registry import method_type
from understudy.rigs.registry import load_rig
from understudy_characters.human.anatomy import read_anatomy


def human():
    """Eight frames of a kick: the rig's own skin, and its correctives as blend shapes."""
    rig = load_rig("human")
    weights = read_anatomy().weights.tocsr()
    values, rate = rig.animation("kick")
    poses = rig.evaluate(values[60:260:25])
    counts = np.diff(weights.indptr)
    index = np.zeros((rig.mesh.vertex_count, counts.max()), np.int32)
    weight = np.zeros(index.shape, np.float32)
    place = np.arange(weights.nnz) - np.repeat(weights.indptr[:-1], counts)
    row = np.repeat(np.arange(len(counts)), counts)
    index[row, place], weight[row, place] = weights.indices, weights.data
    # glTF holds eight influences; ten vertices have nine.
    order = np.argsort(-weight, axis=1)[:, :8]
    index, weight = (np.take_along_axis(each, order, axis=1) for each in (index, weight))
    weight /= weight.sum(axis=1, keepdims=True)
    joints = make_joints(rig.skeleton, [poses.world_from_bone])
    skin = joints.skin(Skin(index, weight))
    motion = joints.world_from_bone[0]
    left = low_rank_displacements(
        SkinnedFrames(rig.mesh.vertices, joints.skeleton, skin, motion, poses.vertices), 6
    )
    shapes, shape_weights = corrective_shapes(left, 6, rig.mesh.height)
    clip = CharacterClip("kick", motion, shape_weights, rate, 61)
    made = Character(rig.mesh, joints.skeleton, skin, shapes, (clip,), name="human")
    moved = np.abs(made.evaluate_clip(clip) - made.evaluate(motion)).max()
    assert moved > 0.01 * rig.mesh.height  # the shapes matter
    return made


def compressed(method, **options):
    """A strip of three shells, compressed, as a character."""
    vertices, faces, rest = bending_strip(frames=12)
    vertices = vertices + 0.05 * np.sin(np.arange(12) / 4)[:, None, None] * np.sin(3 * rest)
    count = len(rest)
    shells = np.concatenate([faces + k * count for k in range(3)])
    shift = np.repeat([[0, 0, 0], [0, 1, 0], [0, 0, 1]], count, axis=0)
    mesh = Mesh.from_faces(
        np.tile(rest, (3, 1)) + shift,
        shells,
        parts={f"shell {k}": np.arange(k * count, (k + 1) * count) for k in range(3)},
        unit="m",
        up_axis="Z",
    )
    poses = Poses(mesh, np.tile(vertices, (1, 3, 1)) + shift, frame_rate=25.0, name="strip")
    kind = method_type(method)
    made = kind(kind.Config(**options)).fit(poses)
    settings = ExportSettings(morphs=8)
    return make_character(made, own_clips(made), settings, name="strip")[0]


def dressed():
    """Two meshes on bones that stretch and carry vertices."""
    rig = DressedTube()
    values, rate = rig.animation(rig.animation_names[0])
    poses = without_parts(rig.evaluate(values[:40:3]), ["dust"])  # glTF has no loose vertices
    lbs = method_type("lbs")().fit(poses)
    joints = make_joints(rig.skeleton, [poses.world_from_bone])
    motion = joints.world_from_bone[0]
    lengths = np.linalg.norm(motion[..., :3], axis=2)
    assert np.ptp(lengths, axis=0).max() > 0.1
    clip = CharacterClip("wave", motion, np.zeros((len(motion), 0)), rate, 1)
    skin = joints.skin(lbs.skin)
    return Character(poses.mesh, joints.skeleton, skin, (), (clip,), name="dressed")


# A rigged human with correctives, compressed sequences of several meshes, stretching bones.
CHARACTERS = {
    "affine": functools.cache(lambda: compressed("ssdr", bones=4, influences=4)),
    "two_layer": functools.cache(lambda: compressed("two_layer", bones=4, bones_per_vertex=4)),
    "human": functools.cache(human),
    "dressed": functools.cache(dressed),
}

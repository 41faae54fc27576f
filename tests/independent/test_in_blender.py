"""Every export is opened in a real Blender and shows the same vertices."""

import needs
import numpy as np
import pytest
from sequence_builders import bending_strip

from independent import blender
from understudy import Character, CharacterClip, Mesh, Poses, Skin
from understudy.core.errors import MissingDependencyError
from understudy.export import ExportSettings, make_character
from understudy.export.clips import own_clips
from understudy.export.joints import make_joints
from understudy.export.shapes import corrective_shapes
from understudy.export.skin import residual_displacements
from understudy.io.blender.launch import find_blender
from understudy.io.registry import formats, read_character, write_character
from understudy.methods.registry import method_type
from understudy.rigs.human.anatomy import read_anatomy
from understudy.rigs.registry import load_rig

LIMIT = 1e-4  # of the size
WRITTEN = {suffix for known in formats() if known.write_character for suffix in known.suffixes}
FORMATS = [".abc", ".fbx", ".glb", ".usdc"]
USD_SCALES = 5e-4  # UsdSkel stores the scales of joints in 16 bits

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _blender():
    try:
        find_blender()
    except MissingDependencyError as problem:
        needs.missing(str(problem))


@pytest.fixture(scope="module")
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
    left = residual_displacements(rig.mesh.vertices, joints.skeleton, skin, motion, poses.vertices)
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


CHARACTERS = {
    "affine": lambda: compressed("ssdr", bones=4, influences=4),
    "two_layer": lambda: compressed("two_layer", bones=4, bones_per_vertex=4),
}


@pytest.fixture(scope="module", params=[*CHARACTERS, "human"])
def character(request):
    if request.param == "human":
        return request.getfixturevalue("human")
    return CHARACTERS[request.param]()


@pytest.mark.parametrize("suffix", FORMATS)
def test_blender_shows_the_same_vertices(character, suffix, tmp_path):
    path = tmp_path / f"character{suffix}"
    write_character(character, path)
    assert blender.disagreement(path, character) < (USD_SCALES if suffix == ".usdc" else LIMIT)
    if suffix == ".usdc":
        assert blender.disagreement(path, read_character(path)) < LIMIT


def test_every_format_of_characters_is_compared():
    same_writer = {".gltf", ".usd", ".usda", ".usdz"}
    plain_frames = {".npz", ".obj", ".ply"}
    assert set(FORMATS) | same_writer | plain_frames >= WRITTEN

"""Exports opened by three.js: the vertices of the deformer, within the stated error."""

from dataclasses import replace

import numpy as np
import pytest
from builders import full_deformer, random_motion
from independent import three_js

from understudy import Deformer, Mesh
from understudy.core.skin import Skin
from understudy.export import (
    ExportSettings,
    SourceClip,
    animation_clip,
    make_character,
    own_clips,
)
from understudy.export.clips import poses_clips
from understudy.geometry.skinning import dense_to_influences
from understudy.io.registry import write_character
from understudy.rigs.registry import load_rig
from understudy_characters.human.anatomy import read_anatomy

METRES = {"cm": 0.01, "unitless": 1.0}


def shown(character, path):
    """The vertices of the first clip in three.js, in the unit of the mesh."""
    write_character(character, path)
    three_js.assert_valid(path)
    requests = three_js.clip_requests(character)[:1]
    vertices = three_js.vertices_of(path, requests, character.mesh.vertex_count)
    return vertices / METRES[character.mesh.unit]


def size(mesh):
    return float(np.ptp(mesh.vertices, axis=0).max())


def tube_case(request):
    tube, rig = request.getfixturevalue("tube"), request.getfixturevalue("tube_rig")
    return tube, [animation_clip(tube, rig, "whip")], request.getfixturevalue("range_poses")


def sequence_case(name):
    def case(request):
        deformer = request.getfixturevalue(name)
        return deformer, own_clips(deformer), None

    return case


def blend_case(request):
    """Dual quaternions, virtual bones, controls, two parts."""
    deformer = full_deformer("dual_quaternion", virtual=True)
    bones = random_motion(deformer.skeleton, 30)
    controls = np.random.default_rng(1).uniform([0, -90], [1, 90], (30, 2))
    return deformer, [SourceClip("shake", bones, controls)], None


def face_case(request):
    controls = np.random.default_rng(0).random((20, 2))
    return request.getfixturevalue("face"), [SourceClip("talk", None, controls)], None


def far_case(request):
    """A walk that ends two kilometres away; three.js has single precision."""
    deformer, (clip,), poses = tube_case(request)
    bones = clip.world_from_bone.copy()
    bones[..., 0, 3] += np.linspace(0, 2000, len(bones))[:, None]
    return deformer, [replace(clip, world_from_bone=bones, original=None)], poses


CASES = {
    "correctives": tube_case,
    "affine": sequence_case("affine"),
    "two_layer": sequence_case("two_layer"),
    "dual_quaternion": blend_case,
    "controls_alone": face_case,
    "far": far_case,
}


@pytest.mark.parametrize("name", CASES)
def test_three_js_shows_the_deformer_within_the_stated_error(name, request, tmp_path):
    deformer, clips, poses = CASES[name](request)
    character, errors = make_character(deformer, clips, range_poses=poses)
    got = shown(character, tmp_path / "a.glb")
    limit = 1e-4 * size(deformer.mesh)
    if name == "far":
        limit = max(limit, 2000 * 2**-22)
    own = np.linalg.norm(got - character.evaluate_clip(character.clips[0]), axis=2)
    assert own.max() < limit
    expected = deformer.deform(clips[0].world_from_bone, clips[0].controls)
    distance = np.linalg.norm(got - expected, axis=2)
    assert distance.max() < errors.of("export", "deformer").max + limit


@pytest.mark.slow
def test_a_film_rig_in_three_js(tmp_path):
    """A stock viewer shows the human's correctives, of which its skin knows nothing."""
    rig = load_rig("human")
    weights = dense_to_influences(read_anatomy().weights.toarray())
    deformer = Deformer(rig.mesh, rig.skeleton, rig.controls, Skin(*weights))
    values, rate = rig.animation("kick")
    kick = replace(rig.evaluate(values[30:240:10]), frame_rate=rate, name="kick")
    clips = poses_clips(deformer, kick, "kick")
    settings = ExportSettings(target="original")
    character, errors = make_character(deformer, clips, settings)
    got = shown(character, tmp_path / "human.glb")
    error = np.linalg.norm(got - kick.vertices, axis=2).mean()
    assert error == pytest.approx(errors.of("export", "original").mean, rel=0.05)
    assert error < 0.35 * errors.of("skin", "original").mean
    assert isinstance(character.mesh, Mesh)
    assert character.mesh.corner_uvs is not None

"""The characters that scripts build in Blender: what is in the files, and that they move."""

import sys

import needs
import numpy as np
import pytest

from understudy.io.blender import launch
from understudy.io.registry import read_poses
from understudy.rigs.blender.rig import BlenderRig
from understudy.rigs.sampling import gaussian
from understudy.system.errors import InputError, MissingDependencyError
from understudy.system.progress import SILENT
from understudy_benchmarks.blender_rigs import KEYED, NAMES, STEP, __main__, build, playing
from understudy_benchmarks.blender_rigs.body import read_body

pytestmark = pytest.mark.slow
# What moves a character, and the vertices of its meshes before modifiers.
ACTIONS = {
    "rigify": ["keyed", "walk"],
    "rigify_bare": [],
    "quadruped": ["keyed", "trot"],
    "clothed": ["walk"],
    "unmovable": ["play"],
}
VERTICES = {"rigify": (10_000, 15_000), "quadruped": (3_000, 8_000), "clothed": (15_000, 25_000)}


@pytest.fixture(scope="module", name="built")
def built_files(tmp_path_factory):
    """What builds a character once: its file and its counts by name."""
    try:
        launch.find_blender()
    except MissingDependencyError as problem:
        needs.missing(str(problem))
    folder = tmp_path_factory.mktemp("rigs")
    found = {}

    def get(name):
        if name not in found:
            path = folder / f"{name}.blend"
            found[name] = path, build(name, path)
        return found[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNDERSTUDY_CACHE", str(folder / "cache"))
        yield get


@pytest.mark.parametrize("name", NAMES)
def test_a_file_has_what_its_description_says(built, name):
    path, counts = built(name)
    assert path.exists()
    assert counts["actions"] == ACTIONS[name]
    low, high = VERTICES.get(name, (1, 20_000))
    assert low <= counts["vertices"] <= high
    if name == "unmovable":
        assert counts["bones"] == 6
    else:
        assert counts["shape_keys"] >= 8
        assert counts["drivers"] > 100


@pytest.mark.parametrize("name", NAMES)
def test_at_rest_no_vertex_is_away_from_the_bind_pose(built, name):
    poses = playing.read_action(built(name)[0], None)
    assert np.abs(poses.vertices[0] - poses.mesh.vertices).max() < 1e-4


@pytest.mark.parametrize("name", [name for name in NAMES if ACTIONS[name]])
def test_every_action_moves_the_mesh_and_stays_finite(built, name):
    path, _ = built(name)
    for action in ACTIONS[name]:
        poses = playing.read_action(path, action, step=STEP)
        assert np.isfinite(poses.vertices).all()
        away = np.linalg.norm(poses.vertices - poses.mesh.vertices, axis=2)
        assert 0.1 < away.max() < 2
        if action == "keyed":
            assert poses.pose_count == (18 if name == "rigify" else 12)
            assert away[0].max() < 1e-4  # the first pose is rest
            assert (away[1:].max(axis=1) > 0.005).all()


def test_the_human_walks_on_the_ground_and_repeats(built):
    poses = playing.read_action(built("rigify")[0], "walk")
    assert poses.pose_count >= 60
    assert np.abs(poses.vertices[..., 2].min(axis=1)).max() < 0.03
    assert np.abs(poses.vertices[0] - poses.vertices[-1]).max() < 1e-4
    assert len(KEYED) == 18


def test_the_human_is_made_again_with_the_same_vertices_and_symmetric_weights(built):
    (values, first), (_, second) = (
        playing.ask(built(name)[0], None, 1, SILENT) for name in ("rigify", "rigify_bare")
    )
    for key in ("rest_rest", "rest_bones", "rest_weight_value"):
        np.testing.assert_allclose(first[key], second[key], rtol=0, atol=1e-6)
    names = values["bones"]
    swap = str.maketrans({"L": "R", "R": "L"})
    other = [name.replace(name[3:], name[3:].translate(swap)) for name in names]
    mirror_bone = np.array([names.index(name) for name in other])
    _, body = read_body()
    weights = np.zeros((len(body["vertices"]), len(names)))
    weights[first["rest_weight_vertex"], first["rest_weight_bone"]] = first["rest_weight_value"]
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-3)
    on_pairs = body["mirror"] != np.arange(len(weights))
    both = weights[body["mirror"]][:, mirror_bone]
    np.testing.assert_allclose(weights[on_pairs], both[on_pairs], atol=1e-4)


def test_the_quadruped_is_made_again_with_the_same_vertices(built, tmp_path):
    build("quadruped", tmp_path / "again.blend")
    one, two = (
        playing.read_action(path, "trot", step=12)
        for path in (built("quadruped")[0], tmp_path / "again.blend")
    )
    np.testing.assert_allclose(one.vertices, two.vertices, rtol=0, atol=1e-6)


def test_no_control_moves_the_antenna_but_its_action_does(built):
    path, _ = built("unmovable")
    rig = BlenderRig(path)
    sampled = rig.evaluate(gaussian(rig.controls, 8, seed=0))
    played = playing.read_action(path, "play", step=5)
    turn = lambda poses: _in_parent(poses, "antenna")
    rest = turn(playing.read_action(path, None))[0]
    assert not any(name.startswith("antenna") for name in rig.controls.names)
    assert np.abs(turn(sampled) - rest).max() < 1e-4
    assert np.abs(turn(played) - rest).max() > 0.3
    # The vertices that follow it are those of the envelope.
    assert set(rig.mesh.parts) == {"Robot", "Rod", "Lamp"}
    assert sampled.mesh.vertex_count == played.mesh.vertex_count


def _in_parent(poses, bone):
    """(T,3,3) the turn of a bone as its parent sees it."""
    here = poses.skeleton.names.index(bone)
    axes = poses.world_from_bone[:, :, :, :3]
    return np.linalg.inv(axes[:, poses.skeleton.parents[here]]) @ axes[:, here]


def test_the_command_builds_a_file_and_writes_the_frames_of_an_action(
    built, tmp_path, monkeypatch, capsys
):
    file, clip = tmp_path / "robot.blend", tmp_path / "play.npz"
    for words in (
        ["unmovable", str(file)],
        ["frames", str(file), str(clip), "--action", "play", "--step", "10"],
    ):
        monkeypatch.setattr(sys, "argv", ["blender_rigs", *words])
        __main__.main()
    assert "7 poses" in capsys.readouterr().out
    poses = read_poses(clip)
    assert poses.pose_count == 7
    assert poses.frame_rate == 3
    assert poses.skeleton.names == playing.read_action(file, None).skeleton.names


def test_wrong_names_say_what_there_is(built, tmp_path):
    with pytest.raises(InputError, match="unmovable"):
        build("dragon", tmp_path / "dragon.blend")
    with pytest.raises(InputError, match=r"no action 'dance'.*'play'"):
        playing.read_action(built("unmovable")[0], "dance")

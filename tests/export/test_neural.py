"""The neural-morph pair: net, blend shapes and skin, run without the package's runtime."""

import json
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from builders import full_deformer, random_motion
from command_line import run

from understudy import Character, CharacterClip, InputError
from understudy.core.coordinates import Conversion
from understudy.export import ExportSettings, SourceClip, animation_clip
from understudy.export.neural import HELD_OUT, make_neural_morphs
from understudy.geometry.transforms import bone_sizes, compose
from understudy.io.onnx import onnx_weights_model
from understudy.io.registry import read_character, write_character
from understudy.rigs.sampling import SamplePlan


def weights_of_test_pose(model, about):
    """The weights of the test pose in the JSON, by ONNX Runtime, and as stated."""
    test = about["test"]
    names = about["inputs"]["controls"]["rows"]
    worlds = np.array(list(test["bones"].values())).reshape(-1, 3, 4)
    controls = np.array(test["controls"])[None]
    return net_weights(model, about, list(test["bones"]), worlds[None], names, controls)[0], test[
        "weights"
    ]


def net_weights(model, about, bone_names, world_from_bone, control_names, controls):
    """The weights that ONNX Runtime computes; inputs are made as the JSON says."""
    session = ort.InferenceSession(
        model if isinstance(model, bytes) else str(model), providers=["CPUExecutionProvider"]
    )
    square = np.zeros((*world_from_bone.shape[:2], 4, 4))
    square[..., :3, :] = world_from_bone
    square[..., 3, 3] = 1
    at = {name: number for number, name in enumerate(bone_names)}
    local = [
        square[:, at[row["name"]]]
        if row["parent"] is None
        else np.linalg.inv(square[:, at[row["parent"]]]) @ square[:, at[row["name"]]]
        for row in about["inputs"]["bones"]["rows"]
    ]
    feed = {}
    if local:
        feed["bones"] = np.stack(local, axis=1)[:, :, :3].astype(np.float32)
    if about["inputs"]["controls"]["rows"]:
        columns = [control_names.index(name) for name in about["inputs"]["controls"]["rows"]]
        feed["controls"] = controls[:, columns].astype(np.float32)
    return session.run(["weights"], feed)[0]


def played(character, matrices, weights):
    """Blend shapes, then the linear skin, in plain NumPy.

    matrices  (F,J,4,4) joints since the bind pose
    """
    points = np.tile(character.mesh.vertices.astype(float), (len(weights), 1, 1))
    for shape, weight in zip(character.shapes, weights.T):
        points[:, shape.vertices] += weight[:, None, None] * shape.offsets
    moved = np.zeros_like(points)
    for place in range(character.skin.influences):
        bone, share = character.skin.bone_index[:, place], character.skin.weight[:, place]
        own = matrices[:, bone]
        turned = np.einsum("fvij,fvj->fvi", own[..., :3, :3], points) + own[..., :3, 3]
        moved += share[:, None] * turned
    return moved


def test_net_morphs_and_skin_show_the_rig_within_the_stated_error(tube, tube_rig, capsys, tmp_path):
    """The files alone: .glb, .onnx and .json of the command; poses that none of them has seen."""
    tube.save(tmp_path / "tube.understudy")
    out = tmp_path / "tube.glb"
    code, text, err = run(
        capsys, "export", tmp_path / "tube.understudy", out, "--neural", "--clip", "wave",
        "--morphs", 16, "--json", tmp_path / "errors.json",
    )  # fmt: skip
    assert code == 0, err
    assert "tube.onnx" in text
    about = json.loads((tmp_path / "tube.json").read_text())
    stated = {
        (row["clip"], row["part"], row["against"]): row
        for row in json.loads((tmp_path / "errors.json").read_text())["rows"]
    }
    test = tube_rig.evaluate(SamplePlan(100, 20_000).values(tube_rig))
    names = tube_rig.skeleton.names
    weights = net_weights(
        tmp_path / "tube.onnx", about, names, test.world_from_bone,
        tube_rig.controls.names, test.controls,
    )  # fmt: skip
    character = read_character(out)
    assert [shape.name for shape in character.shapes] == about["outputs"]["weights"]
    square = lambda a: np.concatenate(
        [a, np.broadcast_to([[0.0, 0, 0, 1]], (*a.shape[:-2], 1, 4))], axis=-2
    )
    # Motion since the bind pose is that of the rig's bones.
    scale = {"m": 0.01, "cm": 1.0}[character.mesh.unit]
    since = square(test.world_from_bone) @ np.linalg.inv(square(tube_rig.skeleton.world_from_bone))
    since[..., :3, 3] *= scale
    joints = np.tile(np.eye(4), (len(since), character.bone_count, 1, 1))
    for number, name in enumerate(names):
        joints[:, character.skeleton.names.index(name)] = since[:, number]
    shown = played(character, joints, weights) / scale
    error = np.linalg.norm(shown - test.vertices, axis=2)
    row = stated[HELD_OUT, "export", "original"]
    assert error.mean() == pytest.approx(row["mean"], rel=0.02)
    assert error.max() == pytest.approx(row["max"], rel=0.05)
    assert error.mean() < 0.5 * stated[HELD_OUT, "skin", "original"]["mean"]
    np.testing.assert_allclose(*weights_of_test_pose(tmp_path / "tube.onnx", about), atol=2e-4)
    model = onnx.load(tmp_path / "tube.onnx")
    assert json.loads(model.metadata_props[0].value)["inputs"] == about["inputs"]
    assert "column vectors" in model.doc_string


def test_the_own_nets_are_projected_exactly(tube, tube_rig, range_poses):
    """With as many shapes as the correctives have dimensions, nothing but small offsets is lost."""
    clip = animation_clip(tube, tube_rig, "wave")
    pair = make_neural_morphs(tube, range_poses, [clip], ExportSettings(morphs=64))
    assert pair.exact
    assert pair.errors.of("export", "deformer", "wave").max < 1e-3 * tube.mesh.height
    weights = pair.character.clips[0].shape_weights
    assert weights.min() >= -1e-5
    assert weights.max() <= 1 + 1e-5


@pytest.mark.parametrize("blend", ["linear", "dual_quaternion"])
def test_the_graph_computes_the_weights_of_the_clip(blend):
    """Also where the skin has to be fitted again, and the net reads controls."""
    deformer = full_deformer(blend)
    bones = random_motion(deformer.skeleton, 200)
    controls = np.random.default_rng(1).uniform([0, -90], [1, 90], (200, 2))
    clip = SourceClip("shake", bones, controls)
    pair = make_neural_morphs(deformer, None, [clip], ExportSettings(morphs=24))
    assert pair.exact == (blend == "linear")
    about = pair.about("a.glb")
    model = onnx_weights_model(pair.net, about, pair.text()).SerializeToString()
    weights = net_weights(
        model, about, deformer.skeleton.names, bones, deformer.control_spec.names, controls
    )
    np.testing.assert_allclose(weights, pair.character.clips[0].shape_weights, atol=2e-4)
    skin, whole = (pair.errors.of(part, "deformer").mean for part in ("skin", "export"))
    assert whole < 0.8 * skin


def test_a_face_of_controls_alone(face):
    controls = np.random.default_rng(0).random((50, 2))
    pair = make_neural_morphs(face, None, [SourceClip("talk", None, controls)])
    assert pair.character.skeleton is None
    assert len(pair.net.bones) == 0
    assert pair.errors.of("export", "deformer").max < 1e-3 * face.mesh.height


def test_a_skin_alone_has_no_net(tube, range_poses):
    bare = replace(tube.skin_alone(), mean=None)
    with pytest.raises(InputError, match="leave out --neural"):
        make_neural_morphs(bare, range_poses)
    with pytest.raises(InputError, match="fitted to poses"):
        make_neural_morphs(tube, None)


@pytest.mark.parametrize(("scale", "up"), [(1, "Y"), (100, "Y"), (100, "Z")])
def test_by_the_recipe_at_any_scale_axes_and_unit(scale, up, tmp_path):
    """The files alone, of bones that are scaled at rest, as Blender's files have them.

    The recipe: what each joint of the .glb did since the bind pose, in the unit and axes of the
    JSON, times the rest matrix there.
    """
    plain = full_deformer("linear")
    size = np.diag([scale, scale, scale, 1])
    skeleton = replace(plain.skeleton, world_from_bone=plain.skeleton.world_from_bone @ size)
    mesh = replace(plain.mesh, unit="cm", up_axis=up)
    moved = random_motion(plain.skeleton, 200)
    controls = np.random.default_rng(1).uniform([0, -90], [1, 90], (200, 2))
    character = Character(
        mesh,
        skeleton,
        plain.skin,
        clips=(CharacterClip("shake", moved @ size, np.zeros((200, 0))),),
    )
    write_character(character, tmp_path / "in.glb")
    read = read_character(tmp_path / "in.glb")
    assert bone_sizes(read.skeleton.world_from_bone) == pytest.approx(1)
    # Networks learned from bones without scale, and ones that were learned from scaled bones.
    for own, bones in ((read.skeleton, read.clips[0].world_from_bone), (skeleton, moved @ size)):
        deformer = replace(plain, mesh=mesh, skeleton=own)
        pair = make_neural_morphs(
            deformer, None, [SourceClip("shake", bones, controls)], ExportSettings(morphs=24)
        )
        about = json.loads(json.dumps(pair.about("a.glb")))
        model = onnx_weights_model(pair.net, about, pair.text()).SerializeToString()
        found, stated = weights_of_test_pose(model, about)
        np.testing.assert_allclose(found, stated, atol=2e-4)
        write_character(pair.character, tmp_path / "a.glb")
        shown = as_an_engine(tmp_path / "a.glb")
        back = Conversion.mesh_to_gltf(mesh).inverse()
        names = list(about["inputs"]["bones"]["rest"])
        rest = np.array([about["inputs"]["bones"]["rest"][name] for name in names])
        since = compose(shown.clips[0].world_from_bone, shown.skeleton.bone_from_world)
        since = since[:, [shown.skeleton.names.index(name) for name in names]]
        linear, undo = back.linear, np.linalg.inv(back.linear)
        since = np.concatenate([linear @ since[..., :3] @ undo, linear @ since[..., 3:]], axis=-1)
        weights = net_weights(
            model, about, names, compose(since, rest), deformer.control_spec.names, controls
        )
        np.testing.assert_allclose(weights, pair.character.clips[0].shape_weights, atol=5e-4)


def as_an_engine(path):
    """The file in metres and Y up, as an engine has it: without what our writer notes."""
    data = path.read_bytes()
    length = int.from_bytes(data[12:16], "little")
    text = data[20 : 20 + length].replace(b'"understudy":{', b'"other_tool":{')
    path.write_bytes(data[:20] + text + data[20 + length :])
    return read_character(path)

"""Files by hand with what the format allows, and files of other programs, beside three.js."""

import json

import numpy as np
import pytest
from gltf_maker import GltfMaker
from independent import three_js

from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.io.gltf.motion import detected_rate, frames_of
from understudy.io.registry import ReadOptions, read_character, read_poses, write_character
from understudy.io.trs import compose_trs, decompose, quaternion_of, rotation_of
from understudy.system.errors import FileError

RNG = np.random.default_rng(0)
SQUARE = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0.2]], float)
TURN = [0.0, 0.0, np.sin(0.5), np.cos(0.5)]  # about z, by one radian


def box(count=12, seed=0):
    """Random points and triangles over them."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 3)), rng.permutation(count)[: count // 3 * 3]


def unit(quaternions):
    quaternions = np.asarray(quaternions, float)
    return quaternions / np.linalg.norm(quaternions, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def shared_files(real_data):
    return sorted((real_data / "files" / "gltf").iterdir())


@pytest.mark.slow
def test_files_of_other_programs_agree_with_three_js(shared_files):
    """Every file, at six times of every animation."""
    assert len(shared_files) >= 9
    for path in shared_files:
        found = read_character(path)
        assert found.clips, path
        assert (found.mesh.unit, found.mesh.up_axis, found.mesh.handedness) == ("m", "Y", "right")
        three_js.assert_agrees(path, found, tolerance=1e-5)


@pytest.mark.slow
def test_files_of_other_programs_are_written_and_read_again(shared_files, tmp_path):
    for path in shared_files:
        found = read_character(path)
        write_character(found, tmp_path / "a.glb")
        back = read_character(tmp_path / "a.glb")
        three_js.assert_valid(tmp_path / "a.glb")
        np.testing.assert_array_equal(back.mesh.vertices, found.mesh.vertices)
        assert list(back.mesh.parts) == list(found.mesh.parts)
        for one, other in zip(found.clips, back.clips):
            expected = found.evaluate_clip(one)
            error = np.abs(back.evaluate_clip(other) - expected).max()
            assert error < 1e-5 * np.ptp(expected, axis=(0, 1)).max(), path


def test_a_clip_is_poses(shared_files):
    fox = next(path for path in shared_files if path.name == "Fox.glb")
    poses = read_poses(fox, ReadOptions(clips=("Walk",)))
    assert (poses.pose_count, poses.frame_rate) == (18, 24.0)
    assert poses.skeleton.names[2] == "b_Hip_01"


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", None])
def test_indices_of_every_type_strips_and_fans(kind, tmp_path):
    """The same square in three ways; a strip may jump by triangles without area."""
    ways = {
        4: [0, 1, 2, 0, 2, 3],
        5: [1, 2, 0, 3],
        6: [0, 1, 2, 3],
    }
    if kind:
        ways[5] = [0, 0, 0, 1, 1, 2, 0, 3]
    facing = []
    for mode, order in ways.items():
        maker = GltfMaker()
        points = SQUARE if kind else SQUARE[order]
        primitive = {"attributes": {"POSITION": maker.accessor(points)}, "mode": mode}
        if kind:
            primitive["indices"] = maker.accessor(order, kind)
        maker.mesh(primitive)
        found = read_character(maker.save(tmp_path / "a.glb"))
        assert found.mesh.vertex_count == 4
        corners = found.mesh.vertices[found.mesh.triangles]
        assert len(corners) == 2
        facing.append(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])[:, 2])
    assert (np.array(facing) > 0).all()


def skinned_maker(weights="f4", stride=False):
    """A mesh with eight influences on joints that are listed in no order: the root is last, a node
    that is no joint stands between two, and the nodes above turn, move and scale.
    """
    points, triangles = box(30)
    maker = GltfMaker()
    joints = RNG.permuted(np.tile(np.arange(8) % 4, (30, 1)), axis=1)
    joints[:, 4:] = 0
    amount = RNG.random((30, 8))
    for row in range(30):  # each joint once
        joints[row, :4] = RNG.permutation(4)
    amount[:, 4:] = 0
    joints[:, 4], amount[:, 4] = joints[:, 3], amount[:, 3]
    joints[:, 3], amount[:, 3] = 0, 0
    amount /= amount.sum(axis=1, keepdims=True)
    if weights != "f4":
        top = np.iinfo(weights).max
        whole = np.floor(amount * top)
        whole[:, 0] += top - whole.sum(axis=1)
        amount = whole
    same = {"normalized": True} if weights != "f4" else {}
    attributes = {
        "POSITION": maker.accessor(points),
        "JOINTS_0": maker.accessor(joints[:, :4], "u1"),
        "JOINTS_1": maker.accessor(joints[:, 4:], "u2"),
        "WEIGHTS_0": maker.accessor(amount[:, :4], weights, **same),
        "WEIGHTS_1": maker.accessor(amount[:, 4:], weights, **same),
    }
    if stride:  # positions and normals in one buffer view
        normals = unit(RNG.normal(size=(30, 3)))
        rows = np.concatenate([points, normals], axis=1).astype("<f4")
        view = maker.view(rows.tobytes(), byteStride=24)
        for key, offset in (("POSITION", 0), ("NORMAL", 12)):
            attributes[key] = maker.accessor(points)
            maker.root["accessors"][-1] |= {"bufferView": view, "byteOffset": offset}
    maker.mesh({"attributes": attributes, "indices": maker.accessor(triangles, "u2")})
    turn = lambda *axis: quaternion_of(rotation_from_axis_angle(np.array(axis))).tolist()
    maker.root["nodes"] = [
        {"mesh": 0, "skin": 0, "name": "body", "translation": [9, 9, 9]},  # ignored, by the format
        {"name": "hand", "translation": [0.5, 0, 0.1], "rotation": turn(0.3, 0, 1)},
        {"name": "arm", "children": [4], "translation": [0, 1, 0]},
        {"name": "up", "children": [5], "scale": [2, 2, 2], "rotation": turn(-1.57, 0, 0)},
        {"name": "between", "children": [1], "scale": [1, 1, 0.8], "rotation": turn(0, 0.7, 0)},
        {"name": "hip", "children": [2, 6], "translation": [0.1, 0, 0.2]},
        {"name": "tail", "matrix": [0, 1, 0, 0, -1, 0, 0, 0, 0, 0, 1, 0, 0.3, 0.2, 0.1, 1]},
    ]
    maker.root["scenes"] = [{"nodes": [0, 3]}]
    order = [1, 6, 2, 5]
    binds = np.zeros((4, 4, 4))
    binds[:, 3, 3] = 1
    binds[:, :3] = compose_trs(
        RNG.normal(size=(4, 3)), unit(RNG.normal(size=(4, 4))), np.full((4, 3), 0.7)
    )
    matrices = maker.accessor(binds.transpose(0, 2, 1).reshape(-1, 16))
    maker.root["skins"] = [{"joints": order, "inverseBindMatrices": matrices}]
    times = np.arange(7) / 24
    maker.animation(
        (5, "rotation", times, unit(RNG.normal(size=(7, 4))), "LINEAR"),
        (2, "scale", times[:3], 1 + 0.2 * RNG.normal(size=(3, 3)), "LINEAR"),
        (4, "translation", times[[0, 3, 6]], RNG.normal(size=(3, 3)), "STEP"),
        (1, "rotation", times[1:4], unit(RNG.normal(size=(9, 4))), "CUBICSPLINE"),
        (6, "translation", times[4:], RNG.normal(size=(9, 3)), "CUBICSPLINE"),
        name="jump",
    )
    return maker


@pytest.mark.parametrize(("weights", "stride"), [("f4", True), ("u1", False), ("u2", False)])
def test_a_skin_in_every_way(weights, stride, tmp_path):
    path = skinned_maker(weights, stride).save(tmp_path / "a.gltf")
    found = read_character(path)
    assert found.skeleton.names == ("hip", "arm", "hand", "tail")
    assert found.skeleton.parents.tolist() == [-1, 0, 1, 0]
    assert found.skin.influences == 4
    normals = found.mesh.corner_normals.reshape(-1, 3, 3)  # without any in the file, they are flat
    assert (normals[:, 0] == normals[:, 1]).all() != stride
    clip = found.clip("jump")
    assert (clip.frame_count, clip.frame_rate, clip.start_frame) == (7, 24.0, 0)
    three_js.assert_agrees(path, found, tolerance=1e-6, frames=7)


def test_the_rest_shape_stands_in_the_world(tmp_path):
    """A file in centimetres on its back, shown upright at one hundredth: so is the rest shape."""
    points, triangles = box(12)
    maker = GltfMaker()
    above = compose_trs(np.array([0, 1.0, 0]), np.array(unit([-1, 0, 0, 1])), np.full(3, 0.01))
    joint = compose_trs(np.array([3.0, 2, 1]), unit(np.array([1.0, 2, 3, 4])), np.ones(3))
    bind = np.linalg.inv(np.vstack([joint, [0, 0, 0, 1]]))
    attributes = {
        "POSITION": maker.accessor(100 * points),
        "JOINTS_0": maker.accessor(np.tile([0, 1, 0, 0], (12, 1)), "u1"),
        "WEIGHTS_0": maker.accessor(np.tile([0.6, 0.4, 0, 0], (12, 1))),
    }
    maker.mesh({"attributes": attributes, "indices": maker.accessor(triangles, "u1")})
    shift, turn, _ = decompose(joint)
    maker.root["nodes"] = [
        {"mesh": 0, "skin": 0},
        {"translation": [0, 1, 0], "rotation": unit([-1, 0, 0, 1]).tolist(), "scale": [0.01] * 3},
        {"translation": shift.tolist(), "rotation": turn.tolist(), "children": [3]},
        {},
    ]
    maker.root["nodes"][1]["children"] = [2]
    maker.root["scenes"] = [{"nodes": [0, 1]}]
    maker.root["skins"] = [
        {"joints": [3, 2], "inverseBindMatrices": maker.accessor([bind.T.ravel()] * 2)}
    ]
    upright = 100 * points[np.sort(triangles)] @ above[:, :3].T + above[:, 3]
    shown = read_character(maker.save(tmp_path / "a.glb"))
    np.testing.assert_allclose(np.sort(shown.mesh.vertices, 0), np.sort(upright, 0), atol=1e-5)
    assert shown.clips == ()  # the file shows its bind pose
    three_js.assert_agrees(tmp_path / "a.glb", shown, tolerance=1e-6)
    # Another pose than the bind pose is a clip; the rest shape still stands upright.
    maker.root["nodes"][2]["rotation"] = [0, 0, 0, 1]
    maker.root["nodes"][3]["translation"] = [1, 2, 3]
    posed = read_character(maker.save(tmp_path / "a.glb"))
    np.testing.assert_allclose(np.sort(posed.mesh.vertices, 0), np.sort(upright, 0), atol=1e-5)
    assert [clip.name for clip in posed.clips] == ["default"]
    three_js.assert_agrees(tmp_path / "a.glb", posed, tolerance=1e-6)


def test_two_skins_on_the_same_joints(tmp_path):
    """Their bind poses agree up to the space of the mesh (one bone), or do not (an extra one)."""
    maker = GltfMaker()
    maker.root["nodes"] = [
        {"name": "root", "children": [1]},
        {"name": "tip", "translation": [0, 1, 0]},
    ]
    maker.root["skins"] = []
    shift = np.eye(4)
    for number, moves in enumerate(([0, 0], [1, 1], [0, 2])):
        points, triangles = box(12, number)
        attributes = {
            "POSITION": maker.accessor(points),
            "JOINTS_0": maker.accessor(np.tile([0, 1, 0, 0], (12, 1)), "u1"),
            "WEIGHTS_0": maker.accessor(np.tile([0.5, 0.5, 0, 0], (12, 1))),
        }
        maker.mesh({"attributes": attributes, "indices": maker.accessor(triangles, "u1")})
        binds = []
        for height, move in zip((0, 1), moves):
            shift[:3, 3] = [move, -height, 0]
            binds.append(shift.T.ravel().copy())
        matrices = maker.accessor(binds)
        maker.root["skins"].append({"joints": [0, 1], "inverseBindMatrices": matrices})
        maker.root["nodes"].append({"name": "cloth", "mesh": number, "skin": number})
    maker.root["scenes"] = [{"nodes": [0, 2, 3, 4]}]
    maker.animation((1, "rotation", [0, 0.5, 1], [[0, 0, 0, 1], TURN, TURN], "LINEAR"))
    path = maker.save(tmp_path / "a.glb")
    found = read_character(path)
    assert found.skeleton.names == ("root", "tip", "tip_2")
    assert list(found.mesh.parts) == ["cloth", "cloth_2", "cloth_3"]
    three_js.assert_agrees(path, found, tolerance=1e-6)


def test_meshes_without_skin_follow_their_nodes(tmp_path):
    """Below a moving node, on a joint, hidden by a scale of zero, mirrored, twice, and still."""
    maker = skinned_maker()
    points, triangles = box(12, 3)
    attributes = {"POSITION": maker.accessor(points)}
    tool = maker.mesh({"attributes": attributes, "indices": maker.accessor(triangles, "u1")})
    nodes = maker.root["nodes"]
    first = len(nodes)
    nodes += [
        {"name": "sword", "mesh": tool, "translation": [0, 0.2, 0], "scale": [0.5, 1, 2]},
        {"name": "hidden", "mesh": tool, "scale": [0, 0, 0]},
        {"name": "cart", "children": [first + 3]},
        {"name": "wheel", "mesh": tool, "scale": [-1, 1, 1], "translation": [4, 0, 0]},
        {"name": "wall", "mesh": tool, "translation": [-4, 0, 0]},
    ]
    nodes[1]["children"] = [first]
    maker.root["scenes"][0]["nodes"] += [first + 1, first + 2, first + 4]
    maker.animation(
        (first + 1, "scale", [0, 0.25], [[0, 0, 0], [1, 1, 1]], "STEP"),
        (first + 2, "translation", [0, 0.25], [[0, 0, 0], [0, 0, 3]], "LINEAR"),
        name="roll",
    )
    path = maker.save(tmp_path / "a.glb")
    found = read_character(path)
    assert set(found.mesh.parts) == {"body", "sword", "hidden", "wheel", "wall"}
    bone_of = lambda part: {
        found.skeleton.names[b] for b in found.skin.bone_index[found.mesh.parts[part], 0]
    }
    assert bone_of("sword") == {"hand"}
    assert bone_of("hidden") == {"hidden"}
    assert bone_of("wheel") == {"cart"}
    assert bone_of("wall") == {"wall"}
    three_js.assert_agrees(path, found, tolerance=1e-6)
    # A mirrored node turns triangles around, so that they face outwards again.
    corners = lambda part: found.mesh.vertices[
        found.mesh.triangles[np.isin(found.mesh.triangles[:, 0], found.mesh.parts[part])]
    ]
    normal = lambda c: np.cross(c[:, 1] - c[:, 0], c[:, 2] - c[:, 0])
    mirrored, plain = normal(corners("wheel")), normal(corners("wall"))
    np.testing.assert_allclose(mirrored, plain * (-1, 1, 1), atol=1e-5)


def test_morph_targets_of_several_meshes(tmp_path):
    """Sparse and dense targets, default weights, names, and one shape over two meshes."""
    points, triangles = box(12, 5)
    maker = GltfMaker()
    base = maker.accessor(points)
    index = maker.accessor(triangles, "u1")
    dense = maker.accessor(RNG.normal(size=(12, 3)))
    alone = maker.sparse(None, 12, [2, 5], RNG.normal(size=(2, 3)))
    over = maker.sparse(RNG.normal(size=(12, 3)), 12, [0, 7], RNG.normal(size=(2, 3)), "u2")
    none = maker.sparse(None, 12, [3], [[0, 0, 0]])
    targets = [{"POSITION": number} for number in (dense, alone, over, none)]
    primitive = {"attributes": {"POSITION": base}, "indices": index, "targets": targets}
    names = {"extras": {"targetNames": ["smile", "frown", "wink", "nothing"]}}
    maker.mesh(primitive, weights=[0.5, 0, 0, 0.25], **names)
    maker.mesh(primitive | {"targets": targets[:2]}, **names)
    maker.mesh(primitive | {"targets": targets[:1]})
    maker.root["nodes"] = [
        {"mesh": 0, "name": "face"},
        {"mesh": 1, "name": "teeth", "weights": [0.5, 0.7], "translation": [4, 0, 0]},
        {"mesh": 2, "name": "plain", "rotation": TURN, "scale": [1, 2, 3]},
    ]
    maker.root["scenes"] = [{"nodes": [0, 1, 2]}]
    times = np.arange(4) / 10
    smile = RNG.random((4, 1))
    maker.animation(
        (0, "weights", times, np.hstack([smile, RNG.random((4, 3))]), "LINEAR"),
        (1, "weights", times, np.hstack([smile, RNG.random((4, 1))]), "LINEAR"),
        (2, "weights", times, RNG.random((12, 1)), "CUBICSPLINE"),
        name="talk",
    )
    maker.animation((0, "weights", times, RNG.random((4, 4)), "STEP"), name="step")
    path = maker.save(tmp_path / "a.glb")
    found = read_character(path)
    assert found.skeleton is None
    # In "step" the smile of the face moves and that of the teeth keeps its default.
    names = [shape.name for shape in found.shapes]
    assert names == ["smile", "frown", "wink", "nothing", "teeth_smile", "teeth_frown",
                     "plain_target_6"]  # fmt: skip
    assert not len(found.shapes[3].vertices)
    step = found.clip("step").shape_weights
    np.testing.assert_allclose(step[:, 4:], np.tile([0.5, 0.7, 0], (4, 1)), atol=1e-6)
    three_js.assert_agrees(path, found, tolerance=1e-6)
    del maker.root["animations"][1]
    found = read_character(maker.save(path))
    names = [shape.name for shape in found.shapes]
    assert names == ["smile", "frown", "wink", "nothing", "teeth_frown", "plain_target_6"]
    assert set(found.shapes[0].vertices) == set(range(24))
    three_js.assert_agrees(path, found, tolerance=1e-6)
    del maker.root["animations"]
    # A target of normals alone moves nothing (three.js takes the positions for it).
    normals = {"targets": [*targets[:3], {"NORMAL": dense}]}
    maker.root["meshes"][0]["primitives"][0] |= normals
    assert not len(read_character(maker.save(path)).shapes[3].vertices)
    maker.root["meshes"][0]["primitives"][0] |= {"targets": targets}
    found = read_character(maker.save(path))
    assert [clip.name for clip in found.clips] == ["default"]
    three_js.assert_agrees(path, found, tolerance=1e-6)


def test_copies_of_vertices_are_welded(tmp_path):
    """Split by UV, normal or material: one vertex. Split by skin or morph target: two."""
    maker = GltfMaker()
    points = SQUARE[[0, 1, 2, 0, 2, 3]]
    uvs = np.linspace(0, 1, 12).reshape(6, 2)
    target = np.zeros((6, 3))
    attributes = {"POSITION": maker.accessor(points), "TEXCOORD_0": maker.accessor(uvs)}
    half = {"attributes": attributes, "targets": [{"POSITION": maker.accessor(target)}]}
    unused = maker.accessor(np.concatenate([SQUARE, [[7, 7, 7]]]))
    other = {
        "attributes": {"POSITION": unused},
        "targets": [{"POSITION": maker.sparse(None, 5, [0], [[0, 0, 1]])}],
    }
    maker.root["materials"] = [{"name": "skin"}, {}, {"name": "skin"}, {"name": "unused"}]
    maker.mesh(
        half | {"indices": maker.accessor([0, 1, 2], "u1"), "material": 0},
        half | {"indices": maker.accessor([3, 4, 5], "u1"), "material": 2},
        other | {"indices": maker.accessor([0, 1, 2], "u1"), "material": 1},
        other | {"indices": maker.accessor([0, 2, 3], "u1")},
    )
    found = read_character(maker.save(tmp_path / "a.glb"))
    mesh = found.mesh
    assert mesh.vertex_count == 5  # the first corner moves in one copy only
    np.testing.assert_array_equal(mesh.vertices[:4], SQUARE.astype(np.float32))
    assert mesh.materials == ("default", "skin", "material_1", "skin_2")
    assert [mesh.materials[m] for m in mesh.polygon_material] == [
        "skin", "skin_2", "material_1", "default"]  # fmt: skip
    # The origin of UVs is at the bottom left here, at the top left in the file.
    np.testing.assert_allclose(
        mesh.corner_uvs[:6], np.stack([uvs[:, 0], 1 - uvs[:, 1]], 1), atol=1e-7
    )
    assert found.shapes[0].vertices.tolist() == [4]


def test_quantised_positions(tmp_path):
    maker = GltfMaker(extensionsRequired=["KHR_mesh_quantization"])
    whole = RNG.integers(-32767, 32767, size=(9, 3))
    maker.mesh({"attributes": {"POSITION": maker.accessor(whole, "i2", normalized=True)}})
    maker.root["nodes"][0] |= {"scale": [2, 2, 2], "translation": [1, 0, 0]}
    found = read_character(maker.save(tmp_path / "a.glb"))
    np.testing.assert_allclose(found.mesh.vertices, whole / 32767 * 2 + [1, 0, 0], atol=1e-6)


def test_buffers_beside_the_file(tmp_path):
    maker = GltfMaker()
    maker.mesh({"attributes": {"POSITION": maker.accessor(box(9)[0])}})
    inside = read_character(maker.save(tmp_path / "a.gltf"))
    (tmp_path / "my data").mkdir()
    (tmp_path / "my data/points.bin").write_bytes(maker.data + b"more than is claimed")
    (tmp_path / "b.gltf").write_text(maker.gltf("my%20data/points.bin"), encoding="utf-8")
    beside = read_character(tmp_path / "b.gltf")
    np.testing.assert_array_equal(inside.mesh.vertices, beside.mesh.vertices)


@pytest.mark.parametrize(
    ("times", "rate", "count", "start"),
    [
        (np.arange(10) / 24, 24.0, 10, 0),
        ((np.arange(10) + 1) / 25, 25.0, 10, 1),
        (np.arange(127) * 4.19999743 / 126, 30.0, 127, 0),
        (np.arange(5000) * 1001 / 30000, 30000 / 1001, 5000, 0),
        (np.arange(5000) * 1001 / 24000, 24000 / 1001, 5000, 0),
        ([0, 1, 4], 30.0, 121, 0),
        ([0, 1 / 8, 2 / 8], 24.0, 7, 0),
        ([0, 0.1, 0.35], 60.0, 22, 0),
        ([0.5, 0.5004, 1], 30.0, 16, 15),
        ([0, 0.123, 0.4567], 30.0, 15, 0),
        (np.arange(8) / 12, 12.0, 8, 0),
        ([2.0], 30.0, 1, 60),
        (np.arange(200) / 120, 120.0, 200, 0),
    ],
)
def test_the_frame_rate_is_that_of_the_keys(times, rate, count, start):
    times = np.asarray(times).astype(np.float32).astype(np.float64)
    assert detected_rate(times) == pytest.approx(rate, rel=1e-9)
    found = frames_of([times])
    assert (found.count, found.start_frame) == (count, start)
    assert found.times[-1] >= times[-1] - 1e-3
    assert frames_of([times], 10).frame_rate == 10


def test_keys_on_frames_are_not_missed(tmp_path):
    """Steps at frames far from zero, where 32 bits place keys before or after the frame."""
    maker = GltfMaker()
    maker.mesh({"attributes": {"POSITION": maker.accessor(SQUARE[:3])}})
    frames = np.arange(300)
    times = (1000 + frames / 24).astype(np.float32)
    maker.animation(
        (0, "translation", times, np.stack([frames, 0 * frames, 0 * frames], 1), "STEP")
    )
    clip = read_character(maker.save(tmp_path / "a.glb")).clips[0]
    assert (clip.frame_rate, clip.frame_count, clip.start_frame) == (24.0, 300, 24000)
    np.testing.assert_array_equal(clip.world_from_bone[:, 0, 0, 3], frames)


def test_compressed_and_unknown_extensions_are_named(tmp_path):
    for name, says in (
        ("KHR_draco_mesh_compression", "Draco .*without compression, or convert it with 'npx"),
        ("EXT_meshopt_compression", "meshopt"),
        ("EXT_mesh_folding", "requires the extension 'EXT_mesh_folding'"),
    ):
        maker = GltfMaker(extensionsRequired=[name])
        maker.mesh({"attributes": {"POSITION": maker.accessor(SQUARE[:3])}})
        with pytest.raises(FileError, match=says):
            read_character(maker.save(tmp_path / "a.glb"))


def test_only_the_shown_scene_is_read(tmp_path):
    maker = GltfMaker(scene=1, scenes=[{"nodes": [0]}, {"nodes": [1]}])
    maker.root["nodes"] = [{"mesh": 0, "name": "a"}, {"children": [2]}, {"mesh": 0, "name": "b"}]
    maker.mesh({"attributes": {"POSITION": maker.accessor(SQUARE[:3])}})
    assert list(read_character(maker.save(tmp_path / "a.glb")).mesh.parts) == ["b"]


def test_rotations_and_back():
    quaternions = unit(RNG.normal(size=(200, 4)))
    quaternions = np.concatenate([quaternions, np.eye(4), unit(np.eye(4) + 1e-9)])
    again = quaternion_of(rotation_of(quaternions))
    np.testing.assert_allclose(np.abs(np.sum(again * quaternions, axis=1)), 1, atol=1e-12)
    scale = RNG.normal(size=(208, 3))
    scale[:5] = [[0, 1, 2], [0, 0, 1], [0, 0, 0], [1, 0, 1], [1e-5, 1, 1]]
    made = compose_trs(RNG.normal(size=(208, 3)), quaternions, scale)
    np.testing.assert_allclose(compose_trs(*decompose(made)), made, atol=1e-9)


def test_json_with_a_mark_and_names_without_control_characters(tmp_path):
    maker = GltfMaker()
    maker.mesh({"attributes": {"POSITION": maker.accessor(SQUARE[:3])}})
    maker.root["nodes"][0]["name"] = "a\x00b\n\x1b[31mc"
    text = json.dumps(json.loads(maker.gltf()))
    (tmp_path / "a.gltf").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert list(read_character(tmp_path / "a.gltf").mesh.parts) == ["ab[31mc"]
    half = text.replace("a\\u0000b", "\\ud800x\\u00a0\\u00e9")
    (tmp_path / "a.gltf").write_bytes(half.encode() + b"\0\0\0")  # some exporters pad so
    assert list(read_character(tmp_path / "a.gltf").mesh.parts) == ["x\u00a0\u00e9[31mc"]

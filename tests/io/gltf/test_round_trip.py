"""A character written as .glb and read again is the same; three.js shows the same vertices."""

import json
import struct

import numpy as np
import pytest
from builders import chain_skeleton, grid_mesh, random_motion
from independent import three_js
from rigged_characters import make_character, shapes_of, skin_of, tube_mesh

from understudy import BlendShape, Character, CharacterClip, InputError, Mesh, Skeleton, Skin
from understudy.core.coordinates import Conversion
from understudy.geometry.transforms import compose, inverse, rotation_from_axis_angle
from understudy.io.registry import ReadOptions, read_character, write_character


def assert_same_mesh(a, b):
    """Everything is the same; positions and normals up to the conversion of units."""
    size = float(np.ptp(a.vertices, axis=0).max())
    np.testing.assert_allclose(b.vertices, a.vertices, atol=1e-6 * size)
    np.testing.assert_array_equal(b.polygon_sizes, a.polygon_sizes)
    np.testing.assert_array_equal(b.polygon_vertices, a.polygon_vertices)
    for name in ("corner_uvs", "corner_normals", "polygon_material"):
        one, other = getattr(a, name), getattr(b, name)
        assert (one is None) == (other is None), name
        if one is not None:
            np.testing.assert_allclose(other, one, atol=1e-6, err_msg=name)
    assert b.materials == a.materials
    assert list(b.parts) == list(a.parts)
    for name, vertices in a.parts.items():
        np.testing.assert_array_equal(b.parts[name], vertices)
    assert (b.unit, b.up_axis, b.handedness) == (a.unit, a.up_axis, a.handedness)


def assert_same(a, b, tolerance=1e-6):
    """The characters are the same: names, hierarchy, timing, and vertices in every frame."""
    assert_same_mesh(a.mesh, b.mesh)
    assert b.name == a.name
    assert (a.skeleton is None) == (b.skeleton is None)
    if a.skeleton is not None:
        assert b.skeleton.names == a.skeleton.names
        np.testing.assert_array_equal(b.skeleton.parents, a.skeleton.parents)
    assert [s.name for s in b.shapes] == [s.name for s in a.shapes]
    assert [c.name for c in b.clips] == [c.name for c in a.clips]
    for one, other in zip(a.clips, b.clips):
        assert (other.frame_rate, other.start_frame) == (one.frame_rate, one.start_frame)
        np.testing.assert_allclose(other.shape_weights, one.shape_weights, atol=1e-6)
        expected = a.evaluate_clip(one)
        error = np.abs(b.evaluate_clip(other) - expected).max()
        assert error < tolerance * np.ptp(expected, axis=(0, 1)).max()


def assert_three_js_agrees(character, path, tolerance=1e-6):
    conversion = Conversion.mesh_to_gltf(character.mesh)
    ours = np.concatenate([character.evaluate_clip(clip) for clip in character.clips])
    ours = conversion.points(ours.astype(np.float64))
    requests = three_js.clip_requests(character)
    theirs = three_js.vertices_of(path, requests, character.mesh.vertex_count)
    assert np.abs(ours - theirs).max() < tolerance * np.ptp(ours, axis=(0, 1)).max()


def written(character, folder):
    """The path of a valid file, and the character read from it."""
    path = folder / "a.glb"
    write_character(character, path)
    three_js.assert_valid(path)
    return path, read_character(path)


def json_of(path):
    data = path.read_bytes()
    return json.loads(data[20 : 20 + struct.unpack_from("<I", data, 12)[0]])


@pytest.mark.parametrize(
    ("about", "bones", "influences"),
    [
        ({"unit": "m"}, 5, 4),
        ({"unit": "cm", "up_axis": "Z"}, 9, 8),
        ({"unit": "in", "handedness": "left"}, 5, 2),
        # Joints of 16 bits.
        pytest.param({"up_axis": "unknown"}, 260, 4, marks=pytest.mark.slow),
    ],
)
def test_a_rigged_character_survives(about, bones, influences, tmp_path):
    # Scale along the axes of bones, also of parents, is translation, rotation and scale.
    mesh = tube_mesh(**about)
    made = make_character(mesh, bones=bones, influences=influences, stretch=0.1 * (bones < 9))
    before = made.skin.bone_index.copy()
    path, back = written(made, tmp_path)
    np.testing.assert_array_equal(made.skin.bone_index, before)  # writing changes nothing
    assert_same(made, back)
    np.testing.assert_allclose(
        back.skeleton.world_from_bone, made.skeleton.world_from_bone, atol=2e-6 * max(1, bones / 9)
    )
    assert_three_js_agrees(made, path)


def test_vertices_are_split_only_where_corners_differ(tmp_path):
    made = make_character()
    path, _ = written(made, tmp_path)
    mesh, split = made.mesh, 0
    for entry in json_of(path)["meshes"]:
        for primitive in entry["primitives"]:
            split += json_of(path)["accessors"][primitive["attributes"]["POSITION"]]["count"]
    polygon = np.repeat(np.arange(len(mesh.polygon_sizes)), mesh.polygon_sizes)
    part = mesh.polygon_vertices[np.cumsum(mesh.polygon_sizes) - mesh.polygon_sizes] >= 32
    rows = np.column_stack(
        [
            part[polygon],
            mesh.polygon_material[polygon],
            mesh.polygon_vertices,
            mesh.corner_uvs,
            mesh.corner_normals,
        ]
    )
    assert split == len(np.unique(rows.astype(np.float32), axis=0))


def test_without_bones_normals_uvs_materials_and_parts(tmp_path):
    bare = Mesh(
        *(getattr(tube_mesh(), n) for n in ("vertices", "polygon_sizes", "polygon_vertices"))
    )
    shapes = shapes_of(bare)
    clip = CharacterClip("talk", np.zeros((5, 0, 3, 4)), np.random.default_rng(0).random((5, 3)))
    made = Character(bare, shapes=shapes, clips=(clip,), name="bust")
    path, back = written(made, tmp_path)
    assert_same(made, back)
    assert_three_js_agrees(made, path)
    _, still = written(Character(bare, name="statue"), tmp_path)
    assert still.skeleton is None
    assert still.clips == ()


def test_parts_may_overlap_cross_polygons_and_leave_vertices_out(tmp_path):
    whole = tube_mesh()
    parts = {"all": np.arange(40), "some": np.arange(20, 30), "none": np.zeros(0, int)}
    vertices = np.concatenate([whole.vertices, [[5, 5, 5], [6, 6, 6]]])  # no polygon has these
    parts["loose"] = np.array([72])
    mesh = Mesh(
        vertices,
        whole.polygon_sizes,
        whole.polygon_vertices,
        whole.corner_uvs,
        materials=("a", "unused", "b"),
        polygon_material=2 * whole.polygon_material,
        parts=parts,
    )
    made = Character(mesh, chain_skeleton(3), skin_of(mesh, 3, 3), shapes_of(mesh), name="all")
    _, back = written(made, tmp_path)
    assert_same(made, back)


@pytest.mark.parametrize("distance", [1e4, 1e6])
def test_far_from_the_origin(distance, tmp_path):
    near = make_character()
    shift = np.array([distance, 0.5 * distance, -distance])
    moved = near.skeleton.world_from_bone.copy()
    moved[..., 3] += shift
    world = [clip.world_from_bone + 0 for clip in near.clips]
    for array in world:
        array[..., 3] += shift
    mesh = near.mesh
    vertices = (mesh.vertices + shift).astype(np.float32)
    far = Character(
        Mesh(vertices, mesh.polygon_sizes, mesh.polygon_vertices, parts=mesh.parts),
        Skeleton(near.skeleton.names, near.skeleton.parents, moved),
        near.skin,
        near.shapes,
        tuple(CharacterClip(c.name, w, c.shape_weights) for c, w in zip(near.clips, world)),
    )
    path, back = written(far, tmp_path)
    np.testing.assert_array_equal(back.mesh.vertices, far.mesh.vertices)
    # What 32 bits resolve there, not a multiple of it.
    resolution = np.spacing(np.float32(distance))
    for one, other in zip(far.clips, back.clips):
        error = np.abs(back.evaluate_clip(other) - far.evaluate_clip(one)).max()
        assert error <= 4 * resolution
    shown = three_js.vertices_of(path, three_js.clip_requests(far), mesh.vertex_count)
    ours = np.concatenate([far.evaluate_clip(clip) for clip in far.clips])
    assert np.abs(shown - ours).max() <= 6 * resolution


def test_scaled_and_mirrored_bones(tmp_path):
    """Uniform scale down a chain, uneven scale at its end, and a mirrored root."""
    rng = np.random.default_rng(5)
    skeleton, mesh = chain_skeleton(3), tube_mesh()
    rest = skeleton.world_from_bone.copy()
    rest[0, :, 0] *= -1
    rest[2, :, :3] *= (1.0, 2.0, 0.5)
    skeleton = Skeleton(skeleton.names, skeleton.parents, rest)
    local = np.zeros((6, 3, 3, 4))
    local[..., :3] = rotation_from_axis_angle(rng.normal(size=(6, 3, 3)))
    local[:, :2, :, :3] *= np.exp(0.2 * rng.normal(size=(6, 2)))[..., None, None]
    local[:, 2, :, :3] *= np.exp(0.2 * rng.normal(size=(6, 1, 3)))
    local[:, 0, :, 0] *= -1
    local[..., 3] = rng.normal(size=(6, 3, 3))
    world = local.copy()
    for bone in (1, 2):
        world[:, bone] = compose(world[:, bone - 1], local[:, bone])
    clip = CharacterClip("stretch", world, np.zeros((6, 0)))
    made = Character(mesh, skeleton, skin_of(mesh, 3, 3), (), (clip,))
    path, back = written(made, tmp_path)
    assert_same(made, back)
    np.testing.assert_allclose(back.clips[0].world_from_bone, world, atol=2e-6)
    assert_three_js_agrees(made, path)


def test_a_sheared_rest_frame_is_replaced_and_sheared_motion_refused(tmp_path):
    """Skinning needs the change since rest alone, so a rest frame may be any."""
    made = make_character(frames=3)
    shear = np.eye(3, 4)
    shear[0, 1] = 0.3
    rest = compose(made.skeleton.world_from_bone, np.tile(shear, (5, 1, 1)))
    clips = [
        CharacterClip(
            c.name, compose(c.world_from_bone, np.tile(shear, (5, 1, 1))), c.shape_weights
        )
        for c in made.clips
    ]
    skeleton = Skeleton(made.skeleton.names, made.skeleton.parents, rest)
    sheared = Character(made.mesh, skeleton, made.skin, made.shapes, clips)
    path, _ = written(sheared, tmp_path)
    assert_three_js_agrees(sheared, path)
    world = made.clips[0].world_from_bone.copy()
    world[2, 3] = compose(world[2, 3], shear)
    moved = made.with_clips([CharacterClip("bend", world, np.zeros((3, 3)))])
    with pytest.raises(InputError, match=r"'joint 3' in clip 'bend', frame 2: .* is 12 % away"):
        write_character(moved, tmp_path / "b.glb")
    assert not (tmp_path / "b.glb").exists()


def test_what_does_not_change_has_one_key(tmp_path):
    made = make_character()
    world = np.repeat(made.skeleton.world_from_bone[None], 30, axis=0)
    turn = rotation_from_axis_angle(np.outer(np.linspace(0, 7, 30), [0, 0, 1]))
    about = np.zeros((30, 3, 4))
    about[..., :3] = turn
    moved = world.copy()
    for bone in (1, 2, 3):  # the children of bone 1 follow it
        in_first = compose(inverse(world[:, 1]), world[:, bone])
        moved[:, bone] = compose(compose(world[:, 1], about), in_first)
    clip = CharacterClip("turn", moved, np.zeros((30, 3)))
    path, back = written(made.with_clips([clip]), tmp_path)
    assert_same(made.with_clips([clip]), back)
    found = json_of(path)
    animation = found["animations"][0]
    keys = {}
    for channel in animation["channels"]:
        sampler = animation["samplers"][channel["sampler"]]
        name = found["nodes"][channel["target"]["node"]]["name"], channel["target"]["path"]
        keys[name] = found["accessors"][sampler["input"]]["count"]
    assert [name for name, count in keys.items() if count > 1] == [("joint 1", "rotation")]
    # Neighbouring quaternions have the same sign, though the bone turns more than once.
    rotation = found["accessors"][
        animation["samplers"][
            next(
                c["sampler"]
                for c in animation["channels"]
                if c["target"]["path"] == "rotation"
                and found["accessors"][animation["samplers"][c["sampler"]]["input"]]["count"] > 1
            )
        ]["output"]
    ]
    view = found["bufferViews"][rotation["bufferView"]]
    start = 28 + struct.unpack_from("<I", path.read_bytes(), 12)[0] + view["byteOffset"]
    values = np.frombuffer(path.read_bytes(), "<f4", 120, start).reshape(30, 4)
    assert (np.sum(values[1:] * values[:-1], axis=1) > 0.9).all()


def test_a_clip_in_which_nothing_moves_keeps_its_length(tmp_path):
    made = make_character()
    world = np.repeat(made.skeleton.world_from_bone[None], 9, axis=0)
    still = made.with_clips([CharacterClip("stand", world, np.zeros((9, 3)), 25.0, 100)])
    _, back = written(still, tmp_path)
    assert_same(still, back)
    assert back.clips[0].frame_count == 9
    bare = Character(
        grid_mesh(), clips=[CharacterClip("b", np.zeros((4, 0, 3, 4)), np.zeros((4, 0)))]
    )
    _, back = written(bare, tmp_path)
    assert back.clips[0].frame_count == 4
    assert back.skeleton is None


def test_small_shapes_are_sparse_arrays(tmp_path):
    path, _ = written(make_character(), tmp_path)
    targets = [
        found["accessors"][target["POSITION"]]
        for found in [json_of(path)]
        for mesh in found["meshes"]
        for primitive in mesh["primitives"]
        for target in primitive["targets"]
    ]
    assert any("sparse" in target for target in targets)
    assert any("sparse" not in target for target in targets)


def test_clips_meshes_and_frame_rate_are_chosen(tmp_path):
    made = make_character()
    path, _ = written(made, tmp_path)
    some = read_character(path, ReadOptions(clips=("run",), meshes=("sleeve",), frame_rate=120))
    assert [clip.name for clip in some.clips] == ["run"]
    assert list(some.mesh.parts) == ["sleeve"]
    sleeve = made.mesh.parts["sleeve"]
    np.testing.assert_array_equal(some.mesh.vertices, made.mesh.vertices[sleeve])
    clip = some.clips[0]
    assert (clip.frame_count, clip.frame_rate, clip.start_frame) == (7, 120.0, -6)
    np.testing.assert_allclose(
        clip.world_from_bone[::2], made.clip("run").world_from_bone, atol=1e-6
    )
    for wrong in (ReadOptions(clips=("wlak",)), ReadOptions(meshes=("slevee",))):
        with pytest.raises(InputError, match=r"a\.glb: .* did you mean '(walk|sleeve)'"):
            read_character(path, wrong)


def test_a_file_that_another_program_changed_is_read_as_any_other(tmp_path):
    """Positions that no longer agree with our notes: the notes are ignored."""
    made = make_character()
    path, _ = written(made, tmp_path)
    data = bytearray(path.read_bytes())
    length = struct.unpack_from("<I", data, 12)[0]
    found = json.loads(data[20 : 20 + length])
    for change in ("vertex_count", "polygons"):
        changed = json.loads(json.dumps(found))
        ours = changed["extras"]["understudy"]
        ours[change] = 7 if change == "vertex_count" else [[0, 3, 5]]
        text = json.dumps(changed).encode()
        text += b" " * (-len(text) % 4)
        body = bytes(data[20 + length :])
        head = struct.pack("<4sIIII", b"glTF", 2, 20 + len(text) + len(body), len(text), 0x4E4F534A)
        path.write_bytes(head + text + body)
        other = read_character(path)
        assert (other.mesh.polygon_sizes == 3).all()
        assert other.mesh.unit == "m"
        assert other.mesh.vertex_count == made.mesh.vertex_count + 8  # the border of the parts
        assert [clip.frame_count for clip in other.clips] == [7, 4]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"skin": Skin([[0, 1]] * 72, [[1.2, -0.2]] * 72)}, r"72 vertices have negative weights"),
        ({"skin": Skin([list(range(9))] * 72, [[1 / 9] * 9] * 72)}, r"more than 8 influences .*9"),
        ({"skin": Skin([[0]] * 72, [[1]] * 72, "dual_quaternion")}, "dual quaternions"),
        (
            {
                "clips": [
                    CharacterClip(
                        "c",
                        np.zeros((1, 10, 3, 4)),
                        np.zeros((1, 3)),
                        vertices=np.zeros((1, 72, 3)),
                    )
                ]
            },
            "point cache",
        ),
    ],
)
def test_what_gltf_cannot_hold_is_refused(change, says, tmp_path):
    made = make_character(bones=10)
    parts = {"skin": made.skin, "clips": (), "shapes": made.shapes} | change
    with pytest.raises(InputError, match=says):
        write_character(Character(made.mesh, made.skeleton, **parts), tmp_path / "a.glb")
    with pytest.raises(InputError, match=r"'\.gltf'; use"):
        write_character(made, tmp_path / "a.gltf")
    assert not list(tmp_path.iterdir())


def test_names_that_repeat_or_are_empty_survive(tmp_path):
    """Bones may be called like parts, and shapes like both."""
    mesh = grid_mesh()
    skeleton = Skeleton(
        ("start", "rest", "Ünicode bone"), [-1, 0, 0], np.tile(np.eye(3, 4), (3, 1, 1))
    )
    shape = BlendShape("start", [0, 20], [[0, 1, 0], [0, 0, 1]])
    clip = CharacterClip("start", random_motion(skeleton, 3, stretch=0), np.ones((3, 1)))
    made = Character(mesh, skeleton, skin_of(mesh, 3, 3), (shape,), (clip,), "start")
    path, back = written(made, tmp_path)
    assert_same(made, back)
    assert_three_js_agrees(made, path)


def test_bones_of_which_some_only_move_and_some_only_turn(tmp_path):
    made = make_character(tube_mesh(unit="m"), bones=3, frames=7)
    motion = np.tile(made.skeleton.world_from_bone, (7, 1, 1, 1))
    motion[:, :, 0, 3] += np.linspace(0, 1, 7)[:, None]  # no bone turns, the root moves
    clip = CharacterClip("slide", motion, made.clips[0].shape_weights[:7], 24.0)
    path, again = written(made.with_clips([clip]), tmp_path)
    assert_same(made.with_clips([clip]), again)
    assert_three_js_agrees(made.with_clips([clip]), path)

"""USD: what is written is what USD's own library evaluates, and what we read back."""

from dataclasses import replace

import numpy as np
import pytest
from character_builders import hero, motion
from pxr import Usd, UsdGeom, UsdSkel, UsdValidation
from usd_scenes import SCENE, baked

from understudy import BlendShape, Character, CharacterClip, InputError
from understudy.io.mesh_objects import mesh_objects
from understudy.io.registry import ReadOptions, read_character, read_poses, write_character
from understudy.io.usd.joint_transforms import joint_animation, with_scale_joints
from understudy.system.errors import FileError

SCENE_TIMES = [5, 7, 8]  # USD bakes at these, and interpolates between them


def size_of(character):
    return float(np.linalg.norm(np.ptp(character.mesh.vertices, axis=0)))


def problems(path):
    """What USD's validators say of a file."""
    validators = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    assert len(validators) > 20
    stage = Usd.Stage.Open(str(path))
    found = UsdValidation.ValidationContext(validators).Validate(stage)
    return [error.GetErrorAsString() for error in found]


def frames_in_usd(path, character, clip):
    """The vertices (F,V,3) of the first clip by USD's own skinning."""
    times = [clip.start_frame + frame for frame in range(clip.frame_count)]
    meshes = baked(path, times)
    objects = mesh_objects(character.mesh)
    assert len(meshes) == len(objects)
    result = np.full((len(times), character.mesh.vertex_count, 3), np.nan)
    for found, points in zip(objects, meshes.values()):
        result[:, found.vertices] = points
    return result


def assert_same(got: Character, want: Character, tolerance=1e-5):
    """Everything that files keep is kept."""
    size = size_of(want)
    for name in ("unit", "up_axis", "handedness", "materials"):
        assert getattr(got.mesh, name) == getattr(want.mesh, name), name
    for name in ("polygon_sizes", "polygon_vertices", "polygon_material"):
        np.testing.assert_array_equal(getattr(got.mesh, name), getattr(want.mesh, name))
    for name in ("corner_uvs", "corner_normals"):
        np.testing.assert_allclose(getattr(got.mesh, name), getattr(want.mesh, name), atol=1e-6)
    np.testing.assert_allclose(got.mesh.vertices, want.mesh.vertices, atol=tolerance * size)
    assert list(got.mesh.parts) == list(want.mesh.parts)
    for name, vertices in want.mesh.parts.items():
        np.testing.assert_array_equal(got.mesh.parts[name], vertices)
    assert (got.name, got.bone_count) == (want.name, want.bone_count)
    if want.skeleton is not None:
        assert got.skeleton.names == want.skeleton.names
        np.testing.assert_array_equal(got.skeleton.parents, want.skeleton.parents)
        assert got.skin.blend == want.skin.blend
    assert [shape.name for shape in got.shapes] == [shape.name for shape in want.shapes]
    about = lambda clip: (clip.name, clip.frame_rate, clip.start_frame, clip.frame_count)
    assert [about(clip) for clip in got.clips] == [about(clip) for clip in want.clips]
    for mine, other in zip(got.clips, want.clips):
        np.testing.assert_allclose(
            got.evaluate_clip(mine), want.evaluate_clip(other), atol=tolerance * size
        )
        np.testing.assert_allclose(mine.shape_weights, other.shape_weights, atol=1e-6)


@pytest.mark.parametrize(
    ("suffix", "blend", "about"),
    [
        (".usda", "linear", {"up_axis": "Z", "unit": "m"}),
        (".usdc", "dual_quaternion", {"unit": "unitless"}),
        (".usdz", "linear", {"unit": "ft", "up_axis": "unknown"}),
    ],
)
def test_a_written_character_plays_in_usd_and_reads_back_the_same(tmp_path, suffix, blend, about):
    made = hero(blend, **about)
    path = tmp_path / f"hero v2{suffix}"
    write_character(made, path)
    assert problems(path) == []
    in_usd = frames_in_usd(path, made, made.clips[0])
    truth = made.evaluate_clip(made.clips[0])
    np.testing.assert_allclose(in_usd, truth, atol=1e-5 * size_of(made))
    assert_same(read_character(path), made)
    assert len(list(tmp_path.iterdir())) == (1 if suffix == ".usdz" else 2)


def test_the_animation_is_a_layer_of_its_own(tmp_path):
    write_character(hero(), tmp_path / "hero.usda")
    stage = Usd.Stage.Open(str(tmp_path / "hero.usda"))
    assert stage.GetRootLayer().subLayerPaths[:] == ["./hero.anim.usdc"]
    assert not [p for p in Usd.PrimRange.Stage(stage) if p.GetName().startswith(".")]
    specs = stage.GetPrimAtPath("/hero_v2/walk").GetPrimStack()
    assert [spec.layer.identifier.endswith("hero.anim.usdc") for spec in specs] == [True]
    body = UsdSkel.BindingAPI(stage.GetPrimAtPath("/hero_v2/body"))
    assert body.GetJointIndicesPrimvar().GetElementSize() == 5
    rigid = UsdSkel.BindingAPI(stage.GetPrimAtPath("/hero_v2/eye_L"))
    assert rigid.GetJointWeightsPrimvar().GetElementSize() == 1
    assert stage.GetPrimAtPath("/hero_v2/eye_L").GetDisplayName() == "eye.L"


def test_a_validator_finds_what_is_wrong(tmp_path):
    write_character(hero(), tmp_path / "hero.usda")
    text = (tmp_path / "hero.usda").read_text().replace('    upAxis = "Y"\n', "", 1)
    (tmp_path / "hero.usda").write_text(text)
    assert problems(tmp_path / "hero.usda")


def test_a_character_without_bones_keeps_its_blend_shapes(tmp_path):
    made = hero()
    clip = made.clips[0]
    bare = Character(
        replace(made.mesh, parts={}),
        shapes=made.shapes,
        clips=(
            CharacterClip("talk", np.zeros((7, 0, 3, 4)), clip.shape_weights, 25.0, 1),
            CharacterClip("sing", np.zeros((3, 0, 3, 4)), clip.shape_weights[4:] / 2, 50.0, -3),
        ),
        name="face",
    )
    write_character(bare, tmp_path / "face.usdc")
    assert problems(tmp_path / "face.usdc") == []
    in_usd = frames_in_usd(tmp_path / "face.usdc", bare, bare.clips[0])
    np.testing.assert_allclose(in_usd, bare.evaluate_clip(bare.clips[0]), atol=1e-5)
    assert_same(read_character(tmp_path / "face.usdc"), bare)


@pytest.mark.parametrize("bones", [True, False])
def test_a_point_cache_is_kept_with_the_bones_beside_it(tmp_path, bones):
    made = hero(frames=4)
    rng = np.random.default_rng(1)
    vertices = made.mesh.vertices + rng.normal(size=(4, made.mesh.vertex_count, 3))
    world = made.clips[0].world_from_bone
    if not bones:
        made, world = Character(made.mesh, name="hero"), np.zeros((4, 0, 3, 4))
    made = replace(made, shapes=(), clips=())
    clip = CharacterClip("flap", world, np.zeros((4, 0)), 12.0, 3, vertices)
    write_character(made.with_clips([clip]), tmp_path / "a.usdc")
    assert problems(tmp_path / "a.usdc") == []
    in_usd = frames_in_usd(tmp_path / "a.usdc", made, clip)
    np.testing.assert_allclose(in_usd, clip.vertices, atol=1e-5)
    got = read_character(tmp_path / "a.usdc").clips[0]
    assert (got.name, got.frame_rate, got.start_frame) == ("flap", 12.0, 3)
    np.testing.assert_allclose(got.vertices, clip.vertices, atol=1e-5)
    np.testing.assert_allclose(got.world_from_bone[:, : world.shape[1]], world, atol=1e-5)


def test_a_character_far_from_the_origin_keeps_its_precision(tmp_path):
    made = hero()
    shift = np.array([3e6, 0, -1e6])
    moved = lambda bones: bones + np.concatenate([np.zeros((3, 3)), shift[:, None]], axis=1)
    made = replace(
        made,
        mesh=replace(made.mesh, vertices=made.mesh.vertices + shift),
        skeleton=replace(made.skeleton, world_from_bone=moved(made.skeleton.world_from_bone)),
        clips=[replace(c, world_from_bone=moved(c.world_from_bone)) for c in made.clips],
    )
    write_character(made, tmp_path / "far.usdc")
    got = read_character(tmp_path / "far.usdc")
    for mine, other in zip(got.clips, made.clips):
        np.testing.assert_allclose(mine.world_from_bone, other.world_from_bone, rtol=0, atol=1e-5)


def test_a_left_handed_character_is_mirrored(tmp_path):
    made = hero(handedness="left")
    write_character(made, tmp_path / "left.usda")
    got = read_character(tmp_path / "left.usda")
    assert got.mesh.handedness == "right"
    for mine, other in zip(got.clips, made.clips):
        expected = made.evaluate_clip(other) * [-1, 1, 1]
        np.testing.assert_allclose(got.evaluate_clip(mine), expected, atol=1e-5)
    # The polygons face the same way: normals of the surface are mirrored, not turned inside out.
    face = lambda c: np.cross(*np.diff(c.mesh.vertices[c.mesh.triangles], axis=1).swapaxes(0, 1))
    volume = lambda c: np.sum(face(c) * c.mesh.vertices[c.mesh.triangles[:, 0]])
    # Polygons start at another corner, so those that are not flat have other triangles.
    np.testing.assert_allclose(volume(got), volume(made), rtol=0.1)


def test_joints_that_scale_play_exactly_and_shear_is_refused(tmp_path):
    made = hero()
    clip = made.clips[0]
    stretched = clip.world_from_bone.copy()
    stretched[..., :3] *= np.linspace(0.9, 1.3, 6)[:, None, None]
    tip = np.setdiff1d(np.arange(made.bone_count), made.skeleton.parents)[-1]
    stretched[:, tip, :, :3] *= np.linspace(0.7, 1.7, 3 * len(stretched)).reshape(-1, 1, 3)
    scaled = made.with_clips([clip, replace(clip, name="stretch", world_from_bone=stretched)])
    scaled = scaled.with_clips(scaled.clips[::-1])
    write_character(scaled, tmp_path / "scaled.usdc")
    assert problems(tmp_path / "scaled.usdc") == []
    truth = scaled.evaluate_clip(scaled.clips[0])
    in_usd = frames_in_usd(tmp_path / "scaled.usdc", scaled, scaled.clips[0])
    np.testing.assert_allclose(in_usd, truth, atol=1e-5 * size_of(made))
    # Names and hierarchy are kept, so scale joints are left out again.
    assert_same(read_character(tmp_path / "scaled.usdc"), scaled)
    stage = Usd.Stage.Open(str(tmp_path / "scaled.usdc"))
    skeleton = UsdSkel.Skeleton(stage.GetPrimAtPath("/hero_v2/Skeleton"))
    assert len(skeleton.GetJointsAttr().Get()) > made.bone_count
    sheared = clip.world_from_bone.copy()
    sheared[:, 2, 0, :3] += 0.5 * sheared[:, 2, 1, :3]
    made = made.with_clips([replace(clip, world_from_bone=sheared)])
    with pytest.raises(InputError, match="bone 'head:top' shears in frame"):
        write_character(made, tmp_path / "a.usda")
    assert not list(tmp_path.glob("a.*"))


def test_scale_joints_are_written_only_where_16_bits_do_not_hold_the_scale():
    made = hero()
    plain, is_scale = with_scale_joints(made)
    assert not is_scale.any()
    assert plain is made
    clip = made.clips[0]
    world = clip.world_from_bone.copy()
    world[3, 1, :, :3] *= 1.2345
    world[3, 0, :, :3] *= 2  # which 16 bits hold
    split, is_scale = with_scale_joints(made.with_clips([replace(clip, world_from_bone=world)]))
    names = [split.skeleton.names[k] for k in np.flatnonzero(is_scale)]
    children = np.flatnonzero(made.skeleton.parents == 1)
    assert names == [f"{made.skeleton.names[k]}_scale" for k in (1, *children)]
    wanted = split.clips[0].world_from_bone
    joints = joint_animation(wanted, split.skeleton.parents, is_scale)
    np.testing.assert_allclose(joints.world[:, ~is_scale], wanted[:, ~is_scale], atol=1e-5)


def test_scale_joints_that_move_vertices_stay(tmp_path):
    """As after an edit in another program."""
    made = hero()
    clip = made.clips[0]
    world = clip.world_from_bone * 1.2345
    write_character(made.with_clips([replace(clip, world_from_bone=world)]), tmp_path / "hero.usda")
    stage = Usd.Stage.Open(str(tmp_path / "hero.usda"))
    for prim in Usd.PrimRange.Stage(stage):
        if prim.IsA(UsdGeom.Mesh):
            indices = UsdSkel.BindingAPI(prim).GetJointIndicesPrimvar()
            indices.Set([0] * len(indices.Get()))
    stage.GetRootLayer().Save()
    got = read_character(tmp_path / "hero.usda")
    assert got.skeleton.names[0] == f"{made.skeleton.names[0]}_scale"
    assert got.bone_count == made.bone_count + 1


def test_a_scene_in_centimetres_with_z_up(tmp_path):
    path = tmp_path / "scene.usda"
    path.write_text(SCENE)
    got = read_character(path)
    assert (got.mesh.unit, got.mesh.up_axis, got.name) == ("cm", "Z", "scene")
    assert list(got.mesh.parts) == ["Body", "Hat", "Wheel", "Flag", "Rock"]
    assert got.skeleton.names == ("hip", "knee", "toe", "Cart", "static")
    assert {shape.name for shape in got.shapes} == {"smile", "smile:half", "frown"}
    (clip,) = got.clips
    assert (clip.name, clip.start_frame, clip.frame_rate, clip.frame_count) == ("Run", 5, 30.0, 4)
    frames = got.evaluate_clip(clip)[[time - 5 for time in SCENE_TIMES]]
    for mesh, points in baked(path, SCENE_TIMES).items():
        name = mesh.split("/")[-1]
        if name != "Hidden":
            np.testing.assert_allclose(frames[:, got.mesh.parts[name]], points, atol=1e-5)
    # The last polygon is left-handed in the file; the one of two corners is left out.
    first = got.mesh.parts["Rock"][0]
    assert (got.mesh.polygon_vertices[-4:] - first).tolist() == [3, 2, 1, 0]
    assert got.mesh.corner_uvs[-4:].tolist() == [[0, 1], [1, 1], [1, 0], [0, 0]]
    assert got.mesh.corner_uvs[:4].tolist() == [[0, 0], [0.5, 0], [0.5, 1], [0, 1]]
    np.testing.assert_allclose(got.mesh.corner_normals[4], [-0.5, np.sqrt(0.75), 0], atol=1e-6)


@pytest.mark.slow
def test_what_to_read_can_be_chosen(tmp_path):
    write_character(hero(), tmp_path / "hero.usdc")
    options = ReadOptions(meshes=("eye.L", "body"), clips=("idle #2",), frame_rate=30)
    got = read_character(tmp_path / "hero.usdc", options)
    assert list(got.mesh.parts) == ["body", "eye.L", "lower"]
    (clip,) = got.clips
    assert (clip.name, clip.frame_rate, clip.start_frame, clip.frame_count) == (
        "idle #2",
        30.0,
        -1,
        2,
    )
    full = hero()
    truth = full.evaluate_clip(full.clips[1])[[1, 3]][:, :38]
    np.testing.assert_allclose(got.evaluate_clip(clip), truth, atol=1e-5)
    for wrong in (ReadOptions(meshes=("nose",)), ReadOptions(clips=("jump",))):
        with pytest.raises(FileError, match=r"'(nose|jump)'; it has: (body|walk)"):
            read_character(tmp_path / "hero.usdc", wrong)


def test_poses_are_read_from_it(tmp_path):
    made = hero()
    write_character(made, tmp_path / "hero.usdc")
    poses = read_poses(tmp_path / "hero.usdc")
    assert poses.control_spec.names == tuple(shape.name for shape in made.shapes)
    assert [span.name for span in poses.spans] == ["walk", "idle #2"]


def test_other_units_become_metres(tmp_path):
    made = hero()
    write_character(made, tmp_path / "hero.usda")
    for file in tmp_path.iterdir():
        stage = Usd.Stage.Open(str(file))
        UsdGeom.SetStageMetersPerUnit(stage, 0.1)
        stage.GetRootLayer().Save()
    got = read_character(tmp_path / "hero.usda")
    assert got.mesh.unit == "m"
    expected = 0.1 * made.evaluate_clip(made.clips[0])
    np.testing.assert_allclose(got.evaluate_clip(got.clips[0]), expected, atol=1e-6)


def test_a_blend_shape_that_moves_nothing_and_a_later_point_cache(tmp_path):
    made = hero()
    empty = BlendShape("none", np.zeros(0, int), np.zeros((0, 3)))
    weights = np.zeros((7, 4))
    clip = CharacterClip("walk", motion(made.skeleton, 7, 1), weights)
    made = replace(made, shapes=(empty, *made.shapes), clips=(clip,))
    write_character(made, tmp_path / "a.usda")
    assert read_character(tmp_path / "a.usda").shapes[0].name == "none"
    cached = replace(clip, name="b", vertices=np.zeros((7, made.mesh.vertex_count, 3)))
    with pytest.raises(InputError, match="clip 'b' is a point cache"):
        write_character(replace(made, clips=(clip, cached)), tmp_path / "b.usda")

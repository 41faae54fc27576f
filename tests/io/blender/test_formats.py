"""FBX and Alembic through a real Blender: what is written is what Blender shows and reads."""

import random
import struct
from dataclasses import replace
from pathlib import Path

import needs
import numpy as np
import pytest
from independent import blender
from scipy.spatial import ConvexHull

from understudy import BlendShape, Character, CharacterClip, InputError, Mesh, Skeleton, Skin
from understudy.geometry.transforms import compose, rotation_from_axis_angle
from understudy.io import registry
from understudy.io.blender import find_blender
from understudy.io.blender.alembic import read_alembic_header
from understudy.io.blender.scripts import read_alembic
from understudy.io.registry import ReadOptions, read_character, read_poses, write_character
from understudy.system.errors import FileError, MissingDependencyError

FLOAT32 = 1e-5  # of the size: both formats, and Blender, hold float32
PARENTS = [-1, 0, 1, 2, 1]
NAMES = ("hip", "spine 1", "chest", "arm.L", "leg")


@pytest.fixture(scope="module", autouse=True)
def _blender():
    try:
        find_blender()
    except MissingDependencyError as problem:
        needs.missing(str(problem))


def worlds(local):
    """World transforms (...,B,3,4) of local ones."""
    result = local.copy()
    for bone, parent in enumerate(PARENTS):
        if parent >= 0:
            result[..., bone, :, :] = compose(result[..., parent, :, :], local[..., bone, :, :])
    return result


def surface(rng, **about):
    """Two closed shells of triangles and a quad, with UVs, normals and materials."""
    ball = rng.normal(size=(60, 3))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    faces = ConvexHull(ball).simplices
    vertices = np.concatenate([ball * [30, 90, 20] + [0, 90, 0], ball * 10 + [0, 200, 0]])
    vertices = np.concatenate([vertices, [[0, 0, 50], [9, 0, 50], [9, 9, 50], [0, 9, 50]]])
    sizes = [*([3] * 2 * len(faces)), 4]
    corners = np.concatenate([faces.ravel(), faces.ravel() + 60, [120, 121, 122, 123]])
    normals = rng.normal(size=(len(corners), 3))
    return Mesh(
        vertices,
        sizes,
        corners,
        corner_uvs=rng.random((len(corners), 2)),
        corner_normals=normals / np.linalg.norm(normals, axis=1, keepdims=True),
        materials=("skin", "cloth 01", "never used"),
        polygon_material=rng.integers(0, 2, len(sizes)),
        parts={
            "body": np.arange(60),
            "left eye": np.arange(60, 120),
            "card.1": np.arange(120, 124),
        },
        **{"unit": "cm", "up_axis": "Y", **about},
    )


def character(scale=0.3, rest_scale=1.0, **about):
    """Three parts, five bones that scale unevenly, two blend shapes, two clips."""
    rng = np.random.default_rng(4)
    mesh = surface(rng, **about)
    count = mesh.vertex_count
    local = np.concatenate(
        [rotation_from_axis_angle(rng.normal(size=(5, 3))), 30 * rng.normal(size=(5, 3, 1))], axis=2
    )
    rest = worlds(local)
    rest[..., :3] *= rest_scale

    def clip(name, frames, start):
        moved = np.tile(local, (frames, 1, 1, 1))
        turn = rotation_from_axis_angle(0.3 * rng.normal(size=(frames, 5, 3)))
        moved[..., :3] = moved[..., :3] @ turn
        moved[..., :3] *= rng.uniform(1 - scale, 1 + scale, (frames, 5, 1, 3))
        moved[..., 3] += 3 * rng.normal(size=(frames, 5, 3))
        weights = rng.uniform(-1, 1.5, (frames, 2))
        return CharacterClip(name, compose(worlds(moved), own_scale), weights, 24.0, start)

    own_scale = np.tile(np.eye(3, 4), (5, 1, 1))
    own_scale[:, range(3), range(3)] = rest_scale
    weight = rng.random((count, 5)) ** 3
    skin = Skin(np.tile(np.arange(5), (count, 1)), weight / weight.sum(axis=1, keepdims=True))
    shapes = (
        BlendShape.from_dense("smile", 3 * rng.normal(size=(count, 3))),
        BlendShape("frown.L", [3, 70], 9 * rng.normal(size=(2, 3))),
    )
    clips = (clip("walk", 6, 5), clip("kick 2", 4, -3))
    return Character(mesh, Skeleton(NAMES, PARENTS, rest), skin, shapes, clips, name="hero")


@pytest.fixture(scope="module")
def hero():
    return character()


@pytest.fixture(scope="module")
def fbx(hero, tmp_path_factory):
    path = tmp_path_factory.mktemp("fbx") / "hero.fbx"
    write_character(hero, path)
    return path


@pytest.fixture(scope="module")
def abc(hero, tmp_path_factory):
    path = tmp_path_factory.mktemp("abc") / "hero.abc"
    write_character(hero.with_clips(hero.clips[:1]), path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("clip", ["walk", "kick 2"])
def test_blender_shows_the_fbx_of_a_rigged_character_of_several_meshes(hero, fbx, clip):
    assert blender.disagreement(fbx, hero, clip) < FLOAT32


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["m", "in", "unitless"])
def test_units_axes_and_times_of_an_fbx(unit, tmp_path):
    clip = replace(character().clips[0], start_frame=1001, frame_rate=30000 / 1001)
    other = character(unit=unit, up_axis="Z").with_clips([clip])
    write_character(other, tmp_path / "hero.fbx")
    assert blender.disagreement(tmp_path / "hero.fbx", other) < FLOAT32
    read = read_character(tmp_path / "hero.fbx")
    assert read.mesh.unit == ("m" if unit == "unitless" else unit)
    assert (read.mesh.up_axis, read.clips[0].start_frame) == ("Z", 1001)
    assert read.clips[0].frame_rate == pytest.approx(clip.frame_rate, rel=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("rest_scale", [[0.5, 0.5, 0.5], [1.0, -1.0, 1.0]])
def test_scaled_and_mirrored_bones_at_rest(rest_scale, tmp_path):
    other = character(rest_scale=np.array(rest_scale))
    write_character(other, tmp_path / "hero.fbx")
    assert blender.disagreement(tmp_path / "hero.fbx", other) < FLOAT32


@pytest.mark.slow
def test_a_bone_scaled_to_nothing(hero, tmp_path):
    bones = hero.clips[0].world_from_bone.copy()
    bones[2, 4, :, :3] = 0
    bones[3, 3, :, 1] = 0
    hidden = hero.with_clips([replace(hero.clips[0], world_from_bone=bones)])
    write_character(hidden, tmp_path / "hero.fbx")
    assert blender.disagreement(tmp_path / "hero.fbx", hidden) < FLOAT32


@pytest.mark.slow
def test_an_fbx_of_blend_shapes_alone(hero, tmp_path):
    none = np.zeros((6, 0, 3, 4))
    clips = [replace(hero.clips[0], world_from_bone=none)]
    face = replace(hero, skeleton=None, skin=None, clips=tuple(clips))
    write_character(face, tmp_path / "face.fbx")
    assert blender.disagreement(tmp_path / "face.fbx", face) < FLOAT32


def hierarchy(skeleton):
    """The parent of each bone by name."""
    return {
        name: None if parent < 0 else skeleton.names[parent]
        for name, parent in zip(skeleton.names, skeleton.parents)
    }


@pytest.mark.slow
def test_fbx_round_trip(hero, fbx):
    read = read_character(fbx)
    assert (read.mesh.unit, read.mesh.up_axis) == (hero.mesh.unit, hero.mesh.up_axis)
    assert_same_parts(read.mesh, hero.mesh)
    assert_same_surface(read.mesh, hero.mesh)
    assert hierarchy(hero.skeleton).items() <= hierarchy(read.skeleton).items()
    assert {shape.name for shape in read.shapes} == {shape.name for shape in hero.shapes}
    assert {clip.name for clip in read.clips} == {clip.name for clip in hero.clips}
    for clip in hero.clips:
        found = read.clip(clip.name)
        assert (found.frame_rate, found.start_frame) == (clip.frame_rate, clip.start_frame)
        assert found.vertices is None  # bones and shapes, not a point cache
        shown, expected = read.evaluate_clip(found), hero.evaluate_clip(clip)
        for name, vertices in hero.mesh.parts.items():
            apart = np.abs(shown[:, read.mesh.parts[name]] - expected[:, vertices]).max()
            assert apart < FLOAT32 * blender.size(hero.mesh)
    for name in hero.mesh.parts:
        got, want = part_of(read.mesh, name)[3], part_of(hero.mesh, name)[3]
        np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.slow
def test_files_name_no_folder_of_this_machine(fbx, abc):
    for path in (fbx, abc):
        assert str(path.parent).encode() not in path.read_bytes()


def test_a_missing_blender_is_an_error_before_any_work(monkeypatch):
    monkeypatch.setenv("UNDERSTUDY_BLENDER", "no_such_blender")
    for name in ("hero.fbx", "hero.abc"):
        with pytest.raises(MissingDependencyError, match="make blender"):
            registry.format_of(name, to="write")


def sheared(made):
    bones = made.clips[0].world_from_bone.copy()
    bones[1, 4, 0, 1] += 0.5
    return made.with_clips([replace(made.clips[0], world_from_bone=bones)])


def with_skin(made, **about):
    return replace(made, skin=replace(made.skin, **about))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (sheared, "'leg' is sheared in frame 1 of clip 'walk'"),
        (lambda c: with_skin(c, blend="dual_quaternion"), "linear"),
        (lambda c: with_skin(c, weight=c.skin.weight @ (2 * np.eye(5) - 0.2)), "between 0 and 1"),
        (lambda c: replace(c, mesh=replace(c.mesh, handedness="left")), "left-handed"),
        (
            lambda c: c.with_clips([replace(c.clips[0], vertices=c.evaluate_clip(c.clips[0]))]),
            "abc",
        ),
        (lambda c: c.with_clips([c.clips[0], replace(c.clips[1], frame_rate=25.0)]), "kick 2 25"),
        (
            lambda c: replace(c, skeleton=replace(c.skeleton, names=("x" * 64, *NAMES[1:]))),
            "rename it",
        ),
    ],
)
def test_what_fbx_cannot_hold_is_refused(hero, change, message, tmp_path):
    with pytest.raises(InputError, match=message):
        write_character(change(hero), tmp_path / "hero.fbx")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_alembic_round_trip(hero, abc):
    read = read_character(abc)
    clip = hero.clips[0]
    assert (read.mesh.unit, read.mesh.up_axis) == ("cm", "Y")
    (cached,) = read.clips
    assert (cached.name, cached.frame_rate, cached.start_frame) == ("walk", 24.0, 5)
    expected = hero.evaluate_clip(clip)
    for name, vertices in hero.mesh.parts.items():
        found = cached.vertices[:, read.mesh.parts[name]]
        np.testing.assert_array_equal(found, expected[:, vertices])
    assert_same_surface(read.mesh, hero.mesh)
    assert_same_parts(read.mesh, hero.mesh)


def assert_same_parts(read, wrote):
    """Vertices are in the same order, also where the names of parts are in another one."""
    assert list(wrote.parts) != sorted(wrote.parts)
    assert list(read.parts) == list(wrote.parts)
    for name, vertices in wrote.parts.items():
        np.testing.assert_array_equal(read.parts[name], vertices)


def part_of(mesh, name):
    """Polygons of a part by its own vertices, their materials, and UVs and normals of corners."""
    part = mesh.parts[name]
    polygons = np.split(mesh.polygon_vertices, np.cumsum(mesh.polygon_sizes)[:-1])
    inside = [k for k, polygon in enumerate(polygons) if polygon[0] in part]
    corners = np.isin(mesh.polygon_vertices, part)
    return (
        [np.searchsorted(part, polygons[k]).tolist() for k in inside],
        [mesh.materials[mesh.polygon_material[k]] for k in inside],
        mesh.corner_uvs[corners],
        mesh.corner_normals[corners],
    )


def assert_same_surface(read, wrote):
    """Polygons, UVs and materials are the same, part by part."""
    assert set(read.parts) == set(wrote.parts)
    for name in wrote.parts:
        got, want = part_of(read, name), part_of(wrote, name)
        assert got[:2] == want[:2]
        np.testing.assert_allclose(got[2], want[2])


@pytest.mark.slow
def test_blender_shows_the_alembic_file(hero, abc):
    assert blender.disagreement(abc, hero.with_clips(hero.clips[:1])) < FLOAT32


@pytest.mark.slow
def test_a_z_up_alembic_file_of_one_mesh_without_clips(hero, tmp_path):
    still = replace(hero, mesh=replace(hero.mesh, up_axis="Z", unit="m", parts={}), clips=())
    write_character(still, tmp_path / "still.abc")
    read = read_character(tmp_path / "still.abc")
    assert (read.mesh.up_axis, read.mesh.unit, list(read.mesh.parts)) == ("Z", "m", ["hero"])
    assert not read.clips
    np.testing.assert_array_equal(read.mesh.vertices, hero.mesh.vertices)
    np.testing.assert_allclose(read.mesh.corner_normals, hero.mesh.corner_normals, atol=1e-2)


@pytest.mark.slow
def test_options_of_reading_alembic(hero, abc):
    options = ReadOptions(meshes=("left eye",), frame_rate=48.0, unit="mm")
    poses = read_poses(abc, options)
    assert list(poses.mesh.parts) == ["left eye"]
    assert (poses.pose_count, poses.frame_rate, poses.mesh.unit) == (11, 48.0, "mm")
    assert poses.spans[0].start_frame == 10
    expected = hero.evaluate_clip(hero.clips[0])[:, hero.mesh.parts["left eye"]]
    np.testing.assert_allclose(poses.vertices[::2], expected, atol=1e-3)
    with pytest.raises(FileError, match="no mesh 'hat'; it has body, left eye"):
        read_character(abc, ReadOptions(meshes=("hat",)))


def test_several_clips_do_not_fit_into_an_alembic_file(hero, tmp_path):
    with pytest.raises(InputError, match="one timeline"):
        write_character(hero, tmp_path / "hero.abc")


def archive(*samplings):
    """The smallest Ogawa file with some time samplings: (samples, seconds a cycle, times)."""
    block = b"".join(
        struct.pack(f"<IdI{len(times)}d", samples, cycle, len(times), *times)
        for samples, cycle, times in samplings
    )
    empty, group, data = 1 << 63, 16, 16 + 8 * 7
    children = [empty, empty, 0, empty, empty | data, empty]
    head = b"Ogawa\xff\x00\x01" + struct.pack("<Q", group)
    return head + struct.pack("<7Q", 6, *children) + struct.pack("<Q", len(block)) + block


@pytest.mark.parametrize(
    ("samplings", "rate", "start", "samples"),
    [
        ([(1, 1.0, [0.0])], 0.0, 0.0, 1),
        ([(1, 1.0, [0.0]), (48, 1 / 24, [1 / 24])], 24.0, 1 / 24, 48),
        ([(20, 1 / 25, [0.0, 0.01])], 50.0, 0.0, 20),  # with motion blur, two samples a frame
        ([(3, 1e300, [0.5, 0.54, 0.58])], 25.0, 0.5, 3),  # times of all samples
    ],
)
def test_time_samplings(samplings, rate, start, samples, tmp_path):
    (tmp_path / "x.abc").write_bytes(archive(*samplings))
    header = read_alembic_header(tmp_path / "x.abc")
    assert (header.frame_rate, header.start, header.samples) == (rate, start, samples)


@pytest.mark.parametrize(
    ("sampling", "message"),
    [
        ((4_000_000_000, 1 / 24, [0.0]), "claim 4,000,000,000 samples"),
        ((9, 0.0, [0.0]), "do not advance"),
        ((9, float("nan"), [0.0]), "not a number"),
        ((9, 1.0, [1e300]), "first sample"),
    ],
)
def test_times_that_cannot_be(sampling, message, tmp_path):
    (tmp_path / "x.abc").write_bytes(archive(sampling))
    with pytest.raises(FileError, match=message):
        read_alembic_header(tmp_path / "x.abc")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"solid cube", "not an Alembic archive"),
        (b"\x89HDF\r\n\x1a\n" + bytes(99), "HDF5"),
        (b"Ogawa\x00\x00\x01" + bytes(8), "not written to its end"),
        (b"Ogawa\xff\x00\x01" + b"\xf0" * 8, "points outside itself"),
    ],
)
def test_what_is_no_alembic_archive(content, message, tmp_path):
    path = tmp_path / "x.abc"
    path.write_bytes(content)
    with pytest.raises(FileError, match=message):
        read_character(path)


def test_mutated_archives_get_a_clear_error_or_a_plausible_header(abc, tmp_path):
    good = abc.read_bytes()
    chance = random.Random(0)
    path = tmp_path / "mutated.abc"
    refused = 0
    places = range(len(good))
    for _ in range(1000):
        changed = bytearray(
            good[: chance.randrange(16, len(good))] if chance.random() < 0.2 else good
        )
        # Most of the file is vertices; the tail has what this reader reads.
        tail = max(8, len(good) - 3000)
        for _ in range(chance.randrange(1, 6)):
            at = chance.choice((chance.choice(places), chance.randrange(tail, len(good)), 8))
            if at < len(changed):
                changed[at] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
        path.write_bytes(changed)
        try:
            header = read_alembic_header(path)
        except FileError:
            refused += 1
        else:
            assert 0 <= header.samples <= max(10_000, len(changed))
            assert 0 <= header.frame_rate < 1e6
    assert 200 < refused < 1000


def test_frames_that_a_file_cannot_hold_are_refused():
    read_alembic.check_frames({"bytes": 10_000_000}, frames=500, vertices=20_000)
    with pytest.raises(read_alembic.Refused, match="1,000 bytes claim to hold"):
        read_alembic.check_frames({"bytes": 1000}, frames=1_000_000, vertices=1000)


@pytest.mark.slow
def test_hostile_archives_end_with_an_error(real_data):
    files = sorted((real_data / "files/hostile").glob("*.abc"))
    assert files
    for path in files:
        with pytest.raises(FileError, match=Path(path).name):
            read_character(path)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["fbx", "abc"])
def test_a_part_of_loose_vertices_keeps_its_name(hero, suffix, tmp_path):
    mesh, skin, dust = hero.mesh, hero.skin, [[0, 0, 70], [5, 0, 70]]
    count = mesh.vertex_count
    loose = replace(
        mesh,
        vertices=np.concatenate([mesh.vertices, dust]),
        parts={"dust": [count, count + 1], **mesh.parts},
    )
    last = [-1, -1]
    index = np.concatenate([skin.bone_index, skin.bone_index[last]])
    weight = np.concatenate([skin.weight, skin.weight[last]])
    made = Character(loose, hero.skeleton, Skin(index, weight), hero.shapes, hero.clips[:1])
    path = tmp_path / f"hero.{suffix}"
    write_character(made, path)
    read = read_character(path)
    assert set(read.mesh.parts) == set(loose.parts)
    shown, expected = read.evaluate_clip(read.clips[0]), made.evaluate_clip(made.clips[0])
    found = shown[:, read.mesh.parts["dust"]]
    np.testing.assert_allclose(found, expected[:, count:], atol=FLOAT32 * blender.size(mesh))

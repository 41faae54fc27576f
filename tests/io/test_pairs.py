"""Pairs of a character and a vertex cache: what is wrong is put right and stated, or refused."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from bvh_writer import write_bvh
from command_line import run

from understudy import CharacterClip, Deformer, InputError, Mesh, Skeleton, Skin
from understudy.core.character import Character
from understudy.geometry.normals import vertex_normals
from understudy.geometry.transforms import compose, rotation_from_axis_angle
from understudy.io.pairs import pair_poses
from understudy.io.registry import ReadOptions, read_poses, write_character
from understudy.io.sequences import write_obj
from understudy.io.vertex_cache import VertexCache
from understudy.io.vertex_caches import write_mdd, write_pc2
from understudy.system.progress import Progress

RINGS, SIDES, FRAMES = 30, 14, 36
Z_UP = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])


def arm_mesh() -> Mesh:
    """An arm along x, of no symmetry: lumps all over."""
    ring, side = np.meshgrid(np.arange(RINGS), np.arange(SIDES), indexing="ij")
    angle = 2 * np.pi * side / SIDES
    x = 2.0 * ring / (RINGS - 1)
    radius = 0.22 + 0.03 * np.sin(3 * x + angle) + 0.02 * np.cos(5 * x - 2 * angle)
    points = np.stack([x, 1 + radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    at = np.arange(RINGS * SIDES).reshape(RINGS, SIDES)
    after = np.roll(at, -1, axis=1)
    quads = np.stack([at[:-1], at[1:], after[1:], after[:-1]], axis=-1).reshape(-1, 4)
    return Mesh.from_faces(points.reshape(-1, 3), quads, unit="m", up_axis="Y")


def bend(frames=FRAMES, speed=1.0):
    """Angles of the elbow and the shoulder, (F,2)."""
    time = speed * np.arange(frames) / 30
    return np.stack([0.8 - 0.8 * np.cos(4 * time), 0.5 * np.sin(3 * time)], axis=1)


def motion(angles) -> np.ndarray:
    """(F,2,3,4): a shoulder that turns and moves a little, and an elbow."""
    shoulder = rotation_from_axis_angle(angles[:, 1:] * np.array([[0.3, 1.0, 0.2]]))
    elbow = shoulder @ rotation_from_axis_angle(angles[:, :1] * np.array([[0.1, 0.0, 1.0]]))
    result = np.zeros((len(angles), 2, 3, 4))
    result[:, 0, :, :3], result[:, 1, :, :3] = shoulder, elbow
    result[:, 0, :, 3] = np.array([0, 1, 0]) + 0.1 * angles[:, :1]
    result[:, 1, :, 3] = result[:, 0, :, 3] + shoulder @ [1.0, 0, 0]
    return result


def arm(name="bend", angles=None) -> Character:
    """A skinned arm with one clip."""
    mesh = arm_mesh()
    rest = np.tile(np.eye(3, 4), (2, 1, 1))
    rest[:, :, 3] = [[0, 1, 0], [1, 1, 0]]
    lower = 1 / (1 + np.exp(-12 * (mesh.vertices[:, 0] - 1)))
    skin = Skin(np.tile([0, 1], (mesh.vertex_count, 1)), np.stack([1 - lower, lower], axis=1))
    angles = bend() if angles is None else angles
    clip = CharacterClip(name, motion(angles), np.zeros((len(angles), 0)), 30.0)
    skeleton = Skeleton(("shoulder", "elbow"), [-1, 0], rest)
    return Character(mesh, skeleton, skin, clips=(clip,), name="arm")


def original(character: Character, angles=None) -> np.ndarray:
    """What a cache of the original has: the skinned clip, and a bulge where the elbow bends."""
    angles = bend() if angles is None else angles
    mesh = character.mesh
    near = np.exp(-((mesh.vertices[:, 0] - 1) ** 2) / 0.03)
    bulge = 0.08 * near * (1 + 0.5 * np.sin(9 * mesh.vertices[:, 2]))
    normals = vertex_normals(mesh.vertices[None].astype(np.float64), mesh.triangles)[0]
    made = []
    for clip, angle in zip(character.clips[0].world_from_bone, angles[:, 0]):
        moved = replace(mesh, vertices=mesh.vertices + (angle * bulge)[:, None] * normals)
        made.append(replace(character, mesh=moved, clips=()).evaluate(clip[None])[0])
    return np.array(made)


class Heard(Progress):
    """Keeps what is said."""

    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


def pair(character, positions, progress=None, mesh=None, **options):
    frames = np.arange(len(positions))
    cache = VertexCache(positions, frames, name="hero", numbered=False, mesh=mesh)
    return pair_poses(lambda rate: character, cache, progress=progress or Heard(), **options)


@pytest.fixture(scope="module")
def truth():
    return original(arm())


def order(seed=0):
    return np.random.default_rng(seed).permutation(RINGS * SIDES)


def test_the_bulge_is_what_a_skin_cannot_do(truth):
    skinned = arm().evaluate_clip(arm().clips[0])
    assert 0.02 < np.abs(truth - skinned).max() / 2.0 < 0.2


@pytest.mark.parametrize(
    ("late", "unit", "up", "reordered"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] if sum(case) > 1 and case[3] else [])
        for case in product([False, True], repeat=4)
    ],
)
def test_planted_faults_are_put_right_and_stated(truth, late, unit, up, reordered):
    positions, heard = truth, Heard()
    if up:
        positions = positions @ Z_UP.T
    if unit:
        positions = positions * 100
    if late:
        positions = positions[1:]
    if reordered:
        positions = positions[:, order()]
    poses = pair(arm(), positions, heard)
    start = int(late)
    np.testing.assert_allclose(poses.vertices, truth[start:], atol=2e-5)
    np.testing.assert_allclose(poses.world_from_bone, motion(bend())[start:])
    assert poses.spans[0].start_frame == start
    text = "\n".join(poses.notes)
    assert heard.said == list(poses.notes)
    assert ("up is Y here and Z there" in text) == up
    assert ("it is in cm, the character in m" in text) == unit
    assert ("first frame of the cache is frame 1 of the clip 'bend'" in text) == late
    assert ("in another order" in text) == reordered


@pytest.mark.parametrize("early", [1, 5])
def test_a_cache_that_starts_early(truth, early):
    before = original(arm(angles=bend()[:early] * 0.9 + 0.3), bend()[:early] * 0.9 + 0.3)
    poses = pair(arm(), np.concatenate([before, truth]))
    np.testing.assert_allclose(poses.vertices, truth, atol=2e-5)
    assert any(f"is frame -{early} of the clip" in note for note in poses.notes)


@pytest.mark.parametrize("name", ["moved", "mirrored", "scaled"])
def test_other_differences(truth, name):
    changed = {
        "moved": truth + np.array([0, -1.0, 3]),
        "mirrored": truth * np.array([-1.0, 1, 1]),
        "scaled": truth * 0.7,
    }[name]
    poses = pair(arm(), changed)
    np.testing.assert_allclose(poses.vertices, truth, atol=2e-4)
    assert any(name in note for note in poses.notes)


@pytest.mark.parametrize("late", [0, 1])
def test_a_character_that_moves_in_a_small_part(late):
    still = np.zeros((FRAMES, 2))
    mesh, base = arm_mesh(), arm(angles=still)
    lower = 1 / (1 + np.exp(-40 * (mesh.vertices[:, 0] - 1.8)))
    skin = Skin(np.tile([0, 1], (mesh.vertex_count, 1)), np.stack([1 - lower, lower], axis=1))
    bones = base.clips[0].world_from_bone.copy()
    bones[:, 1, :, :3] = rotation_from_axis_angle(bend()[:, :1] * np.array([[0.3, 0.0, 1.0]]))
    hand = replace(base, skin=skin).with_clips([replace(base.clips[0], world_from_bone=bones)])
    truth = original(hand, bend())
    poses = pair(hand, truth[late:])
    np.testing.assert_allclose(poses.vertices, truth[late:], atol=2e-5)
    np.testing.assert_allclose(poses.world_from_bone, bones[late:])


def test_a_few_vertices_out_of_order(truth):
    swapped = np.arange(truth.shape[1])
    swapped[[5, 300]] = swapped[[300, 5]]
    poses = pair(arm(), truth[:, swapped])
    np.testing.assert_allclose(poses.vertices, truth, atol=2e-5)
    assert any("2 of 420 vertices are in another order" in note for note in poses.notes)


def test_polygons_make_the_order_certain(truth):
    shuffle = order(1)
    mesh = arm_mesh()
    there = np.argsort(shuffle)
    moved = replace(
        mesh,
        vertices=mesh.vertices[shuffle],
        polygon_vertices=there[mesh.polygon_vertices],
    )
    poses = pair(arm(), truth[:, shuffle], mesh=moved)
    np.testing.assert_allclose(poses.vertices, truth, atol=2e-5)
    assert not any("uncertain" in note for note in poses.notes)


def test_the_clip_is_found(truth):
    other = CharacterClip("wave", motion(bend(50, 1.7)[:, ::-1]), np.zeros((50, 0)), 30.0)
    both = arm().with_clips([other, arm().clips[0]])
    poses = pair(both, truth[3:30])
    assert poses.spans[0].name == "bend"
    np.testing.assert_allclose(poses.vertices, truth[3:30], atol=2e-5)


def other_shape(truth):
    thin = arm()
    points = thin.mesh.vertices * [1, 1, 1] + 0.05 * np.sin(4 * thin.mesh.vertices[:, [1, 0, 0]])
    return original(replace(thin, mesh=replace(thin.mesh, vertices=points)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cache", "says"),
    [
        (other_shape, "in the shape at rest"),
        (lambda truth: original(arm(angles=bend(speed=2.3)[:, ::-1]), bend()), "of the motion"),
        (lambda truth: np.repeat(truth[:1], FRAMES, axis=0), "of the motion remains"),
        (lambda truth: np.random.default_rng(0).normal(size=truth.shape), "of the size away"),
    ],
    ids=["shape", "take", "still", "noise"],
)
def test_what_does_not_belong_together_is_refused(truth, cache, says):
    with pytest.raises(InputError, match=says) as refused:
        pair(arm(), cache(truth))
    assert "--frame-offset" in str(refused.value)


def test_a_wrong_frame_offset_is_refused(truth):
    assert pair(arm(), truth, frame_offset=0).pose_count == FRAMES
    with pytest.raises(InputError, match="frame offset 4"):
        pair(arm(), truth, frame_offset=4)


def test_another_number_of_vertices(truth):
    mesh = replace(arm_mesh(), parts={"hand": np.arange(60), "rest": np.arange(60, 420)})
    with pytest.raises(InputError, match="its part 'hand' has 60: add --mesh 'hand'"):
        pair(replace(arm(), mesh=mesh), truth[:, :60])
    with pytest.raises(InputError, match="7 vertices, the character 'arm' has 420"):
        pair(arm(), truth[:, :7])
    with pytest.raises(InputError, match="no animation"):
        pair(arm().with_clips([]), truth)


@pytest.mark.slow
def test_the_frame_rate_of_the_cache_decides(truth):
    asked = []
    angles = bend(2 * FRAMES - 1, 0.5)

    def read(rate):
        asked.append(rate)
        if rate == 60.0:
            clip = CharacterClip("bend", motion(angles), np.zeros((len(angles), 0)), 60.0)
            return arm().with_clips([clip])
        return arm()

    fast = original(read(60.0), angles)
    asked.clear()
    known = VertexCache(fast, np.arange(len(fast)), 60.0, "hero")
    assert pair_poses(read, known).frame_rate == 60.0
    assert asked == [60.0]
    unknown = VertexCache(fast, np.arange(len(fast)), None, "hero")
    poses = pair_poses(read, unknown)
    assert poses.frame_rate == 60.0
    np.testing.assert_allclose(poses.vertices, fast, atol=2e-5)


def written(folder, positions, kind):
    """A cache in a file of some kind; its path."""
    cache = VertexCache(positions, np.arange(len(positions)), 30.0, "hero")
    path = folder / f"hero.{kind}"
    if kind == "npz":
        np.savez(path, vertices=positions)
    elif kind == "obj":
        path = folder / "frames"
        path.mkdir()
        for number, frame in enumerate(positions):
            write_obj(path / f"hero_{number:03}.obj", arm_mesh(), frame)
    else:
        {"pc2": write_pc2, "mdd": write_mdd}[kind](cache, path)
    return path


@pytest.mark.parametrize("kind", ["pc2", "mdd", "npz", "obj"])
def test_files(tmp_path, truth, kind):
    write_character(arm(), tmp_path / "hero.glb")
    cache = written(tmp_path, truth[2:] * 100, kind)
    poses = read_poses(tmp_path / "hero.glb", ReadOptions(cache=cache))
    np.testing.assert_allclose(poses.vertices, truth[2:], atol=5e-5)
    assert poses.skeleton.names == ("shoulder", "elbow")
    assert poses.frame_rate == 30.0
    with pytest.raises(InputError, match="belongs to one"):
        read_poses([tmp_path / "hero.glb"] * 2, ReadOptions(cache=cache))


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", "all"])
def test_bones_without_a_mesh(tmp_path, truth, fault):
    write_bvh(arm().skeleton, arm().clips[0], tmp_path / "hero.bvh")
    positions = truth if fault == "none" else (100 * truth @ Z_UP.T)[1:]
    cache = written(tmp_path, positions, "obj")
    poses = read_poses(tmp_path / "hero.bvh", ReadOptions(cache=cache))
    start = int(fault == "all")
    np.testing.assert_allclose(poses.vertices, truth[start:], atol=5e-5)
    np.testing.assert_allclose(poses.world_from_bone, motion(bend())[start:], atol=1e-5)
    np.testing.assert_allclose(poses.mesh.vertices, poses.vertices[0])
    assert ("X, Y, Z are X, Z, -Y of the cache" in "\n".join(poses.notes)) == (fault == "all")
    with pytest.raises(InputError, match="does not follow the bones"):
        read_poses(tmp_path / "hero.bvh", ReadOptions(cache=cache, frame_offset=9))
    with pytest.raises(InputError, match="no polygons"):
        read_poses(tmp_path / "hero.bvh", ReadOptions(cache=written(tmp_path, truth, "pc2")))


def test_the_command_learns_a_pair_and_keeps_what_was_changed(capsys, tmp_path, truth):
    write_character(arm(), tmp_path / "hero.glb")
    cache = written(tmp_path, truth[1:] @ Z_UP.T, "pc2")
    out = tmp_path / "hero.understudy"
    command = ("fit", "lbs", tmp_path / "hero.glb", "--cache", cache, "-o", out)
    code, _, said = run(capsys, *command)
    assert code == 0, said
    assert "up is Y here and Z there" in said
    notes = Deformer.load(out).provenance["sample"]["notes"]
    assert "the first frame of the cache is frame 1 of the clip 'bend'" in notes
    code, _, said = run(capsys, *command, "--frame-offset", "9")
    assert code == 2
    assert "does not fit the character" in said


@pytest.mark.slow
def test_a_real_human_with_correctives(real_data):
    rig = np.load(real_data / "bodies/rig_mpfb_human.npz")
    recorded = np.load(real_data / "bodies/rig_mpfb_human_nonlinear_motion.npz")
    use = recorded["clip"] == "02_01"
    rest = np.tile(np.eye(3, 4), (31, 1, 1))
    rest[:, :, 3] = rig["cmu_mb_heads"]
    weight = rig["cmu_mb_weight_value"].astype(np.float64)
    skin = Skin(rig["cmu_mb_weight_index"].astype(int), weight / weight.sum(axis=1, keepdims=True))
    bones = compose(recorded["skin_transforms"][use].astype(np.float64), rest)
    clip = CharacterClip("walk", bones, np.zeros((len(bones), 0)), 30.0)
    skeleton = Skeleton(tuple(rig["cmu_mb_names"].tolist()), rig["cmu_mb_parents"], rest)
    mesh = Mesh.from_faces(rig["rest"], rig["quads"], unit="m", up_axis="Y")
    human = Character(mesh, skeleton, skin, clips=(clip,), name="human")
    truth = human.evaluate_clip(clip) + recorded["offset_q"][use] * recorded["offset_step"]
    poses = pair(human, (100 * truth @ Z_UP.T)[1:])
    np.testing.assert_allclose(poses.vertices, truth[1:], atol=1e-5)
    wider = truth * np.array([1.1, 1.0, 1.0])
    with pytest.raises(InputError, match="in the shape at rest"):
        pair(human, wider)

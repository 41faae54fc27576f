import zipfile

import numpy as np
import pytest
from builders import chain_skeleton, grid_mesh, random_motion

from understudy import ControlSpec, FileError, Poses
from understudy.core.clip import ClipSpan
from understudy.geometry.transforms import apply, compose
from understudy.io.npz import has_drivers, read_arrays, read_recorded_poses, write_recorded_poses
from understudy.io.registry import ReadOptions, read_poses
from understudy.rigs import animate, load_rig

COUNT = 6


def moved_strip(seed=0):
    """Rest (V,3), poses (T,V,3) and bones (T,B,3,4) of a strip that follows its nearest bone."""
    mesh, skeleton = grid_mesh(16, 5), chain_skeleton(3)
    bones = random_motion(skeleton, COUNT, seed, size=0.6, stretch=0.0)
    matrices = compose(bones, skeleton.bone_from_world)
    nearest = np.clip(mesh.vertices[:, 0].round().astype(int), 0, 2)
    return mesh.vertices, apply(matrices[:, nearest], mesh.vertices[None]), bones


def arrays(**changes):
    """Every array of recorded poses; a change to None leaves one out."""
    rest, vertices, bones = moved_strip()
    skeleton = chain_skeleton(3)
    result = {
        "vertices": vertices,
        "faces": grid_mesh(16, 5).polygon_vertices.reshape(-1, 4),
        "rest": rest,
        "world_from_bone": bones,
        "rest_world_from_bone": skeleton.world_from_bone,
        "parents": skeleton.parents,
        "bone_names": np.array(skeleton.names),
        "controls": np.linspace(-1, 1, 2 * COUNT).reshape(COUNT, 2),
        "control_names": np.array(["smile", "frown"]),
        "control_min": np.array([-1.0, -0.5]),
        "control_max": np.array([1.0, 0.5]),
        "frame_rate": 24.0,
        "unit": "cm",
        "up_axis": "Z",
        **changes,
    }
    return {name: value for name, value in result.items() if value is not None}


def write(path, **changes):
    np.savez(path, **arrays(**changes))
    return path


def four_by_four(matrices):
    last = np.broadcast_to([0.0, 0, 0, 1], (*matrices.shape[:-2], 1, 4))
    return np.concatenate([matrices, last], axis=-2)


def test_every_array_is_read(tmp_path):
    rest, vertices, bones = moved_strip()
    poses = read_recorded_poses(write(tmp_path / "take.npz"))
    np.testing.assert_allclose(poses.vertices, vertices, atol=1e-6)
    np.testing.assert_allclose(poses.mesh.vertices, rest)
    np.testing.assert_array_equal(poses.world_from_bone, bones)
    assert poses.skeleton.names == ("bone0", "bone1", "bone2")
    assert poses.skeleton.parents.tolist() == [-1, 0, 1]
    spec = poses.control_spec
    assert spec.names == ("smile", "frown")
    assert (spec.low.tolist(), spec.high.tolist()) == ([-1, -0.5], [1, 0.5])
    assert spec.numeric.all()
    spec.check(poses.controls)  # the limits hold what was recorded, beyond control_min..control_max
    assert (poses.mesh.unit, poses.mesh.up_axis, poses.frame_rate) == ("cm", "Z", 24.0)
    assert poses.spans == (ClipSpan("take", COUNT, 24.0),)


def test_bones_alone_and_controls_alone(tmp_path):
    no_bones = dict.fromkeys(("world_from_bone", "rest_world_from_bone", "parents", "bone_names"))
    no_controls = dict.fromkeys(("controls", "control_names", "control_min", "control_max"))
    only_bones = read_recorded_poses(write(tmp_path / "a.npz", **no_controls))
    assert only_bones.skeleton is not None
    assert only_bones.control_spec is None
    only_controls = read_recorded_poses(write(tmp_path / "b.npz", **no_bones))
    assert only_controls.skeleton is None
    assert only_controls.control_spec.count == 2
    bare = write(tmp_path / "c.npz", **no_bones, **no_controls)
    assert not has_drivers(bare)
    assert has_drivers(tmp_path / "a.npz")
    assert read_poses(bare).skeleton is None


def test_what_may_be_left_out(tmp_path):
    optional = ("bone_names", "control_names", "control_min", "control_max", "unit", "up_axis")
    poses = read_recorded_poses(write(tmp_path / "a.npz", **dict.fromkeys(optional)))
    assert poses.skeleton.names == ("bone0", "bone1", "bone2")
    assert poses.control_spec.names == ("control0", "control1")
    np.testing.assert_array_equal(poses.control_spec.low, poses.controls.min(axis=0))
    np.testing.assert_array_equal(poses.control_spec.high, poses.controls.max(axis=0))
    assert (poses.mesh.unit, poses.mesh.up_axis) == ("unitless", "unknown")


def test_the_rest_pose(tmp_path):
    rest, vertices, bones = moved_strip()
    rest_bones = chain_skeleton(3).world_from_bone
    first = read_recorded_poses(write(tmp_path / "a.npz", rest=None, rest_world_from_bone=None))
    np.testing.assert_allclose(first.mesh.vertices, vertices[0], atol=1e-6)
    np.testing.assert_array_equal(first.skeleton.world_from_bone, bones[0])
    with pytest.raises(FileError, match="rest is missing, and no pose has its bones at"):
        read_recorded_poses(write(tmp_path / "b.npz", rest=None))
    with pytest.raises(FileError, match="rest_world_from_bone is missing, and rest is none of"):
        read_recorded_poses(write(tmp_path / "c.npz", rest_world_from_bone=None))
    # One of the two is enough where a pose is the rest pose.
    held = {
        "vertices": np.concatenate([vertices[:-1], rest[None]]),
        "world_from_bone": np.concatenate([bones[:-1], rest_bones[None]]),
    }
    for missing in ("rest", "rest_world_from_bone"):
        poses = read_recorded_poses(write(tmp_path / "d.npz", **held, **{missing: None}))
        np.testing.assert_allclose(poses.mesh.vertices, rest, atol=1e-6)
        np.testing.assert_allclose(poses.skeleton.world_from_bone, rest_bones)


def test_a_rest_shape_of_its_own(tmp_path):
    rest, _, _ = moved_strip()
    path = write(tmp_path / "a.npz", rest=None)
    np.savez(tmp_path / "rest.npz", vertices=rest, faces=arrays()["faces"])
    poses = read_poses(path, ReadOptions(rest=tmp_path / "rest.npz"))
    np.testing.assert_allclose(poses.mesh.vertices, rest)


def test_matrices_of_four_rows(tmp_path):
    _, _, bones = moved_strip()
    rest_bones = chain_skeleton(3).world_from_bone
    poses = read_recorded_poses(
        write(
            tmp_path / "a.npz",
            world_from_bone=four_by_four(bones),
            rest_world_from_bone=four_by_four(rest_bones),
        )
    )
    np.testing.assert_array_equal(poses.world_from_bone, bones)
    broken = four_by_four(bones)
    broken[2, 1, 3, 0] = 0.5
    with pytest.raises(FileError, match=r"last row .*0 0 0 1, got 0\.5 0 0 1 at .*\(2, 1\)"):
        read_recorded_poses(write(tmp_path / "b.npz", world_from_bone=broken))


def row_vectors(matrices):
    return np.swapaxes(four_by_four(matrices), -1, -2)


@pytest.mark.parametrize(
    ("convert", "says"),
    [
        (row_vectors, r"last row .*row-vector convention \(Maya's\); transpose"),
        (lambda m: row_vectors(m)[..., :3, :], r"no bone has a translation.*row-vector.*swapaxes"),
        (lambda m: row_vectors(m)[..., :, :3], r"4x3 matrices are of the row-vector.*swapaxes"),
        (
            lambda m: np.concatenate([m[..., :3].swapaxes(-1, -2), m[..., 3:]], axis=-1),
            r"do not reproduce the poses.*3x3 parts of all matrices were transposed.*swapaxes",
        ),
        (
            lambda m: np.linalg.inv(four_by_four(m)),
            r"do not reproduce the poses.*both were inverted: they look like bone_from_world",
        ),
        (lambda m: m * [1, 1, 1, 0.01], r"multiplied by 100: the bones are in another unit"),
    ],
)
def test_wrong_matrices_are_recognised(tmp_path, convert, says):
    _, _, bones = moved_strip()
    path = write(
        tmp_path / "a.npz",
        world_from_bone=convert(bones),
        rest_world_from_bone=convert(chain_skeleton(3).world_from_bone),
    )
    with pytest.raises(FileError, match=says):
        read_recorded_poses(path)


def test_matrices_of_rest_alone_transposed(tmp_path):
    rest_bones = chain_skeleton(3).world_from_bone
    turned = np.concatenate([rest_bones[..., :3].swapaxes(-1, -2), rest_bones[..., 3:]], axis=-1)
    with pytest.raises(FileError, match="rest_world_from_bone alone were transposed"):
        read_recorded_poses(write(tmp_path / "a.npz", rest_world_from_bone=turned))


def test_bones_that_stay_at_the_origin_are_no_mistake(tmp_path):
    skeleton = chain_skeleton(1)
    bones = random_motion(skeleton, COUNT, size=0.6, stretch=0.0)
    bones[..., 3] = 0
    rest = grid_mesh(16, 5).vertices
    vertices = apply(compose(bones, skeleton.bone_from_world), rest[None])
    one = {
        "vertices": vertices,
        "world_from_bone": bones,
        "rest_world_from_bone": skeleton.world_from_bone,
        "parents": skeleton.parents,
        "bone_names": None,
    }
    assert read_recorded_poses(write(tmp_path / "a.npz", **one)).skeleton.bone_count == 1


def test_rest_mesh_and_rest_bones_of_different_poses(tmp_path):
    rest, vertices, bones = moved_strip()
    bones[3] = chain_skeleton(3).world_from_bone
    vertices[3] = rest + [0.0, 3.0, 0.0]
    with pytest.raises(FileError, match=r"are not the same pose: in pose 3 the bones are at rest"):
        read_recorded_poses(write(tmp_path / "a.npz", vertices=vertices, world_from_bone=bones))


@pytest.mark.parametrize("rig", ["tube", "human"])
def test_poses_of_a_rig_pass_and_come_back(tmp_path, rig):
    rig = load_rig(rig)
    poses = animate(rig, rig.animation_names[0])
    poses = poses.take(np.arange(0, poses.pose_count, 6))
    write_recorded_poses(poses, tmp_path / "a.npz")
    read = read_recorded_poses(tmp_path / "a.npz")
    for name in ("vertices", "world_from_bone", "controls"):
        np.testing.assert_array_equal(getattr(read, name), getattr(poses, name))
    np.testing.assert_array_equal(read.mesh.vertices, poses.mesh.vertices)
    assert (read.mesh.unit, read.mesh.up_axis) == (poses.mesh.unit, poses.mesh.up_axis)
    assert read.skeleton.names == poses.skeleton.names
    for name in ("low", "high", "rest", "numeric"):
        np.testing.assert_array_equal(
            getattr(read.control_spec, name), getattr(poses.control_spec, name)
        )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"vertices": None}, r"no array called vertices \(T,V,3\)"),
        ({"faces": None}, r"no faces \(F,3\)"),
        ({"world_from_bone": None}, r"world_from_bone is missing: add .*\(T,B,3,4\)"),
        ({"parents": None}, r"parents is missing: add .*-1 for a root"),
        ({"controls": None}, r"controls is missing: add controls \(T,C\)"),
        ({"control_min": None}, "control_min and control_max belong together"),
        ({"bone_name": np.array(["a"])}, "unknown array 'bone_name'; did you mean 'bone_names'"),
        ({"weights": np.zeros(3)}, "unknown array 'weights'; recorded poses may have: vertices"),
        (
            {"world_from_bone": np.zeros((COUNT, 3, 2, 4))},
            r"world_from_bone: expected shape",
        ),
        ({"world_from_bone": np.zeros((2, 3, 3, 4))}, r"expected shape \(6, any, 3, 4\), got \(2,"),
        ({"rest_world_from_bone": np.zeros((2, 3, 4))}, r"rest_world.*expected shape \(3, 3, 4\)"),
        ({"rest_world_from_bone": np.zeros((3, 3, 4))}, "is not invertible"),
        ({"parents": np.array([-1, 0])}, r"parents: expected shape \(3,\), got \(2,\)"),
        ({"parents": np.array([-1.0, 0, 1])}, "parents: expected whole numbers, got float64"),
        ({"parents": np.array([1, -1, 1])}, "a parent must come before its child"),
        ({"bone_names": np.array(["a", "b"])}, r"bone_names: expected shape \(3,\)"),
        ({"bone_names": np.array(["a", "b", "a"])}, "'a'"),
        ({"bone_names": np.arange(3)}, "bone_names: expected an array of text, got int"),
        ({"bone_names": np.array(["a", "b", None], object)}, "pickled Python objects"),
        ({"controls": np.zeros((2, 2))}, r"controls: expected shape \(6, any\)"),
        ({"controls": np.full((COUNT, 2), np.nan)}, "controls: 12 of 12 numbers are NaN"),
        ({"control_names": np.array(["a"])}, r"control_names: expected shape \(2,\)"),
        ({"control_min": np.zeros(3)}, r"control_min: expected shape \(2,\)"),
        ({"control_max": np.full(2, -5.0)}, "'smile': the range"),
        ({"control_numeric": np.zeros(2)}, "control_numeric: expected bool"),
        ({"frame_rate": 0.0}, "frame_rate: expected a number above 0"),
        ({"frame_rate": np.zeros(2)}, "frame_rate: expected one number"),
        ({"start_frame": 1.5}, "start_frame: expected a whole number"),
        ({"unit": "ell"}, "unknown unit 'ell'"),
        ({"unit": np.zeros(1)}, "unit: expected one text"),
        ({"up_axis": "W"}, "unknown up axis 'W'"),
        ({"rest": np.zeros((3, 3))}, "vertices|outside"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, changes, says):
    with pytest.raises(FileError, match=rf"a\.npz: .*({says})"):
        read_recorded_poses(write(tmp_path / "a.npz", **changes))


def test_a_misspelled_name_does_not_make_it_a_mesh_sequence(tmp_path):
    path = write(tmp_path / "a.npz")
    np.savez(path, vertices=arrays()["vertices"], faces=arrays()["faces"], world_from_bones=[0])
    with pytest.raises(FileError, match="did you mean 'world_from_bone'"):
        read_poses(path)


def test_several_takes_are_clips(tmp_path):
    for name in ("take_2", "take_10"):
        write(tmp_path / f"{name}.npz")
    poses = read_poses(str(tmp_path / "take_*.npz"))
    assert [span.name for span in poses.spans] == ["take_2", "take_10"]
    assert poses.world_from_bone.shape[0] == poses.pose_count == 2 * COUNT
    write_recorded_poses(poses, tmp_path / "both.npz")
    assert read_poses(tmp_path / "both.npz").spans == poses.spans


def test_control_numeric_is_kept(tmp_path):
    spec = ControlSpec(("a", "b"), [0, 0], [1, 1], rest=[0.5, 0], numeric=[True, False])
    frames = grid_mesh().vertices + np.zeros((2, 1, 1))
    poses = Poses(grid_mesh(), frames, control_spec=spec, controls=np.zeros((2, 2)))
    write_recorded_poses(poses, tmp_path / "a.npz")
    read = read_recorded_poses(tmp_path / "a.npz").control_spec
    assert (read.numeric.tolist(), read.rest.tolist()) == ([True, False], [0.5, 0.0])


def test_a_zip_bomb_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", vertices=np.zeros((1000, 3000, 3), np.float32))
    with pytest.raises(FileError, match=r"the array vertices would need more than 0\.5 GiB"):
        read_arrays(tmp_path / "a.npz", ("vertices",))
    assert read_arrays(tmp_path / "a.npz", ("faces",)) == {}  # what is not wanted is not unpacked


def test_a_declared_shape_must_fit(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 3), np.float32))
    forged = (tmp_path / "a.npy").read_bytes().replace(b"(4, 3)", b"(9, 9)")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("vertices.npy", forged)
    with pytest.raises(FileError, match=r"declares the shape \(9, 9\), which does not fit"):
        read_arrays(tmp_path / "a.npz", ("vertices",))


def test_damaged_files_are_errors(tmp_path):
    whole = write(tmp_path / "a.npz").read_bytes()
    for length in range(0, len(whole) - 1, len(whole) // 40):
        (tmp_path / "b.npz").write_bytes(whole[:length])
        with pytest.raises(FileError, match=r"b\.npz"):
            read_recorded_poses(tmp_path / "b.npz")
    with pytest.raises(FileError, match="no such file"):
        read_recorded_poses(tmp_path / "none.npz")

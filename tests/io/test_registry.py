import subprocess
import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from builders import chain_skeleton, full_deformer, grid_mesh, random_motion

from understudy import ControlSpec, Deformer, InputError, MissingDependencyError, Poses
from understudy.core.clip import ClipSpan
from understudy.core.poses import join_poses
from understudy.io import formats, pose_store, registry
from understudy.io.npz import write_recorded_poses
from understudy.io.registry import Format, ReadOptions, format_of, read_poses
from understudy.io.sequences import write_obj
from understudy.system import plugins


def frames(count=3, seed=0):
    rng = np.random.default_rng(seed)
    mesh = grid_mesh()
    return mesh.vertices + 0.05 * rng.normal(size=(count, mesh.vertex_count, 3)).astype(np.float32)


def write_store(path):
    spec = ControlSpec(("bend",), [-1], [1])
    facts = {"rig": "strip", "seed": 7}
    pose_store.create(path, pose_store.Sample(grid_mesh(), None, spec, np.zeros((3, 1)), facts))
    poses = Poses(grid_mesh(), frames(), control_spec=spec, controls=np.zeros((3, 1)))
    pose_store.write_block(path, 0, poses)


def plug_in(monkeypatch, value):
    """Pretend that an installed package adds the format `value` names."""
    entry = EntryPoint("extra", value, formats.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry])


TEXT_FORMAT = Format(
    "text",
    (".txt",),
    "positions as text",
    read_poses=lambda path, options, progress: Poses(
        grid_mesh(), np.loadtxt(path).reshape(-1, grid_mesh().vertex_count, 3), name="text"
    ),
    write_deformer=lambda deformer, path: open(path, "w").close(),
)
NO_FORMAT = 3


@pytest.fixture
def text_format(monkeypatch):
    monkeypatch.setitem(sys.modules, "text_format", sys.modules[__name__])
    plug_in(monkeypatch, "text_format:TEXT_FORMAT")


def test_the_suffix_decides(tmp_path):
    (tmp_path / "cache").mkdir()
    for path, name in (
        ("a.zarr", "pose store"),
        ("a.npz", "npz"),
        ("A.NPZ", "npz"),
        ("walk/*.obj", "mesh files"),
        ("walk/frame_*", "mesh files"),
        (tmp_path / "cache", "mesh files"),
    ):
        assert format_of(path).name == name
    assert format_of("a.understudy", to="write").name == "understudy"
    assert format_of("a.onnx", to="write").name == "onnx"
    assert {"understudy", "onnx", "npz", "pose store", "mesh files"} <= {
        known.name for known in formats.formats()
    }


@pytest.mark.parametrize(
    ("path", "to", "says"),
    [
        ("x.c4d", "write", r"x\.c4d: a deformer cannot be written .*'\.c4d'; use .*\.understudy"),
        ("x.zarr", "write", r"cannot be written to a file that ends in '\.zarr'"),
        ("x", "write", "a file without a suffix"),
        ("x.c4d", "read", r"poses cannot be read from .*'\.c4d'; use \.zarr, \.npz, \.obj, \.ply"),
        ("x.understudy", "read", "poses cannot be read from"),
        ("nothing_here", "read", "no such file or folder"),
    ],
)
def test_an_unknown_suffix_is_refused(path, to, says):
    with pytest.raises(InputError, match=says):
        format_of(path, to=to)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(formats.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"onnx.*pip install 'understudy\[onnx\]'"):
        format_of("x.onnx", to="write")
    with pytest.raises(MissingDependencyError, match=r"zarr.*pip install 'understudy\[cli\]'"):
        read_poses("x.zarr")


def test_optional_packages_are_imported_only_when_used():
    code = (
        "import sys, understudy.io.registry\n"
        "assert not {'zarr', 'onnx', 'torch', 'rich', 'typer'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_read_a_store(tmp_path):
    for path in (tmp_path / "a.zarr", tmp_path / "no_suffix"):
        write_store(path)
        poses = read_poses(path)
        np.testing.assert_array_equal(poses.read_poses(0, 3), frames())
        assert registry.source_provenance(path)["rig"] == "strip"
    with pytest.raises(InputError, match="own rest shape"):
        read_poses(path, ReadOptions(rest="a.obj"))
    both = read_poses([path, path])
    assert both.pose_count == 2 * len(frames())
    np.testing.assert_array_equal(both.read_poses(0, 99), np.concatenate([frames(), frames()]))
    assert registry.source_provenance([path, path])["rig"] == "strip"
    write_recorded_poses(Poses(grid_mesh(), frames(), name="a"), tmp_path / "a.npz")
    with pytest.raises(InputError, match="with other pose stores"):
        read_poses([path, tmp_path / "a.npz"])


def test_read_sequences(tmp_path):
    write_recorded_poses(Poses(grid_mesh(), frames(), name="a"), tmp_path / "a.npz")
    folder = tmp_path / "walk"
    folder.mkdir()
    for number, frame in enumerate(frames(4)):
        write_obj(folder / f"walk_{number}.obj", grid_mesh(), frame)
    for source in (folder, str(folder / "*.obj"), str(folder / "*"), sorted(folder.iterdir())):
        assert read_poses(source).spans == (ClipSpan("walk", 4),)
    poses = read_poses([tmp_path / "a.npz", folder])
    assert [span.name for span in poses.spans] == ["a", "walk"]
    assert registry.source_provenance(folder) == {"source": "walk"}
    assert registry.source_provenance([tmp_path / "a.npz", folder]) == {"source": ["a.npz", "walk"]}


def test_options_say_what_files_cannot(tmp_path):
    write_recorded_poses(Poses(grid_mesh(), frames(), name="a"), tmp_path / "a.npz")
    options = ReadOptions(up_axis="Z", unit="cm", frame_rate=30)
    poses = read_poses(tmp_path / "a.npz", options)
    assert (poses.mesh.up_axis, poses.mesh.unit, poses.frame_rate) == ("Z", "cm", 30.0)
    assert poses.spans[0].frame_rate == 30.0
    for wrong, says in (
        ({"up_axis": "W"}, "unknown up axis 'W'"),
        ({"unit": "ell"}, "unknown unit 'ell'"),
        ({"frame_rate": 0}, "frame rate: expected a number above 0"),
    ):
        with pytest.raises(InputError, match=says):
            ReadOptions(**wrong)
    with pytest.raises(InputError, match="nothing to read"):
        read_poses([])


def test_write_by_suffix(tmp_path):
    deformer = full_deformer()
    for name in ("a.understudy", "a.onnx"):
        registry.write_deformer(deformer, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    assert Deformer.load(tmp_path / "a.understudy").method == "test"
    with pytest.raises(InputError, match="glb"):
        registry.write_deformer(deformer, tmp_path / "a.glb")
    assert not (tmp_path / "a.glb").exists()


def test_a_plug_in_reads_and_writes(tmp_path, text_format):
    assert "text" in {known.name for known in formats.formats()}
    np.savetxt(tmp_path / "a.txt", frames().reshape(3, -1))
    poses = read_poses(tmp_path / "a.txt", ReadOptions(unit="cm"))
    np.testing.assert_allclose(poses.vertices, frames(), rtol=1e-6)
    assert poses.mesh.unit == "cm"
    joined = read_poses([tmp_path / "a.txt", tmp_path / "a.txt"])
    assert [span.name for span in joined.spans] == ["text", "text_2"]
    registry.write_deformer(full_deformer(), tmp_path / "b.txt")
    assert (tmp_path / "b.txt").exists()


def test_a_broken_plug_in_is_named_and_harms_nothing_else(monkeypatch):
    plug_in(monkeypatch, "no_such_module:FORMAT")
    assert format_of("a.npz").name == "npz"
    assert "npz" in {known.name for known in formats.formats()}
    with pytest.raises(
        InputError, match=r"plug-in 'extra' \(no_such_module:FORMAT.*ModuleNotFound"
    ):
        format_of("a.xyz")
    monkeypatch.setitem(sys.modules, "text_format", sys.modules[__name__])
    plug_in(monkeypatch, "text_format:NO_FORMAT")
    with pytest.raises(InputError, match="is a int, expected an understudy"):
        format_of("a.xyz")


def test_join_poses():
    skeleton, count = chain_skeleton(), 3
    spec = ControlSpec(("bend",), [-1], [1])
    part = lambda low, seed: Poses(
        grid_mesh(),
        frames(count, seed),
        skeleton,
        random_motion(skeleton, count, seed),
        ControlSpec(("bend",), [low], [1]),
        np.zeros((count, 1)),
        frame_rate=24.0,
        name="walk",
    )
    a, b = part(-1, 0), part(-2, 1)
    joined = join_poses([a, b])
    assert joined.pose_count == 6
    np.testing.assert_array_equal(joined.vertices[3:], b.vertices)
    np.testing.assert_array_equal(joined.world_from_bone[3:], b.world_from_bone)
    assert joined.control_spec.low.tolist() == [-2]
    assert [span.name for span in joined.spans] == ["walk", "walk_2"]
    assert joined.frame_rate == 24.0
    assert join_poses([a]) is a
    bare = Poses(grid_mesh(), frames())
    for other, what in (
        (bare, "bones"),
        (Poses(grid_mesh(), frames(), control_spec=spec, controls=np.zeros((3, 1))), "controls"),
    ):
        with pytest.raises(InputError, match=f"different {what}"):
            join_poses([other, a] if what == "bones" else [other, bare])


def test_suffixes_that_are_only_read_are_refused_before_any_work():
    assert format_of("hero.gltf").name == "gltf"
    with pytest.raises(InputError, match=r"'\.gltf'; use .*\.glb"):
        format_of("hero.gltf", to="write")


def test_a_blender_file_is_a_rig():
    with pytest.raises(InputError, match="sample it first"):
        format_of("hero.blend")

"""FBX files of Maya, 3ds Max and Blender against the meshes that these programs wrote."""

import contextlib
import re
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import needs
import numpy as np
import pytest
from scipy.spatial import cKDTree

from understudy.core.character import Character
from understudy.core.skin import skin_weights
from understudy.io.budget import ROOM, SMALL_FILE
from understudy.io.fbx import reading as fbx
from understudy.io.fbx.beside import find_beside
from understudy.io.registry import ReadOptions, read_character, read_poses
from understudy.io.sequences import read_obj
from understudy.system.errors import FileError, InputError, UnderstudyError

try:
    import ufbx  # noqa: F401
except ImportError:
    needs.missing("ufbx is not installed: pip install 'understudy[fbx]'")

REFERENCE = Path(__file__).with_name("fbx_reference.py")
Y_FROM_Z = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
SAUSAGE = ("7500_ascii", "7500_binary")
# File, clip, frame (None: the pose of the file), OBJ.
TRUTH = [
    *(
        (
            "blender440_shape_weight_anim_7400_binary",
            "Cube|Action",
            f,
            "blender440_shape_weight_anim",
        )
        for f in (5, 15, 25)
    ),
    ("blender_279_sausage_7400_binary", "Skeleton|Base", 0, "blender_279_sausage_base"),
    ("blender_279_sausage_7400_binary", "Skeleton|Spin", 15, "blender_279_sausage_spin"),
    ("blender_293_half_skinned_7400_binary", "pose", None, "blender_293_half_skinned"),
    *(("max7_skin_5000_binary", "Take 001", f, "max7_skin") for f in (5, 15)),
    *(("max_cache_box_7500_binary", "Take 001", f, "max_cache_box") for f in (44, 48)),
    *(("max_transformed_skin_7500_binary", "Take 001", f, "max_transformed_skin") for f in (5, 15)),
    ("maya_axes_anim_7700_ascii", "Take 001", 0, "maya_axes_anim"),
    *(
        ("maya_blend_inbetween_7500_binary", "Take 001", f, "maya_blend_inbetween")
        for f in (1, 30, 60, 65, 71, 80, 89, 120)
    ),
    *(
        ("maya_transformed_skin_7700_binary", "Take 001", f, "maya_transformed_skin")
        for f in (0, 4, 8)
    ),
]
# The frames of these names count from the start of the take: wiggle 0, spin 20, deform 40.
SAUSAGES = [
    ("wiggle", 10),
    ("wiggle", 18),
    ("spin", 7),
    ("spin", 15),
    ("deform", 8),
    ("deform", 15),
]
STARTS = {"wiggle": 0, "spin": 20, "deform": 40}


@pytest.fixture(scope="module")
def files(real_data):
    return real_data / "files/fbx"


@cache
def character(path: Path) -> Character:
    return read_character(path)


def frame_of(made: Character, clip: str, frame: int | None) -> np.ndarray:
    found = made.clip(clip)
    return made.evaluate_clip(found)[0 if frame is None else frame - found.start_frame]


def error(have: np.ndarray, truth: Path) -> float:
    """The largest distance, as a fraction of the size; vertices of Max are in another order."""
    want = read_obj(truth).vertices
    size = np.ptp(want, axis=0).max()
    if "bad_order" in truth.read_text()[:200] or "3ds Max" in truth.read_text()[:200]:
        assert len(have) == len(want)
        apart = max(cKDTree(have).query(want)[0].max(), cKDTree(want).query(have)[0].max())
    else:
        apart = np.linalg.norm(have - want, axis=1).max()
    return float(apart / size)


@pytest.mark.parametrize(
    ("file", "clip", "frame", "truth"), TRUTH, ids=[f"{t[3]}_{t[2]}" for t in TRUTH]
)
def test_a_frame_is_the_mesh_of_the_authoring_program(files, file, clip, frame, truth):
    name = truth if frame is None else f"{truth}_{frame}"
    made = character(files / f"{file}.fbx")
    assert error(frame_of(made, clip, frame), files / f"{name}.obj") < 1e-4


@pytest.mark.parametrize("kind", SAUSAGE)
@pytest.mark.parametrize("combined", [False, True])
@pytest.mark.parametrize(("clip", "frame"), SAUSAGES)
def test_takes_of_one_file_and_of_several(files, kind, combined, clip, frame):
    made = character(files / f"maya_game_sausage_{kind}_{'combined' if combined else clip}.fbx")
    shown = frame_of(made, clip, STARTS[clip] + frame)
    assert error(shown, files / f"maya_game_sausage_{clip}_{frame}.obj") < 1e-4


def test_the_last_frame_of_a_take_is_the_last_pose(files):
    made = character(files / "blender_279_sausage_7400_binary.fbx")
    shown = made.evaluate_clip(made.clip("Skeleton|Wiggle"))[-1]
    assert error(shown, files / "blender_279_sausage_wiggle_20.obj") < 1e-4


@pytest.mark.parametrize(
    ("up", "turn"), [("y_up", np.linalg.inv(Y_FROM_Z)), ("z_up", Y_FROM_Z)], ids=["Y", "Z"]
)
def test_axes_and_unit_are_those_of_the_file(files, up, turn):
    made = character(files / f"blender_340_{up}_7400_binary.fbx")
    assert made.mesh.up_axis == up[0].upper()
    assert made.mesh.unit == "cm"
    assert made.mesh.handedness == "right"
    assert list(made.mesh.parts) == ["Cube", "Cone"]
    # The OBJ is in metres, and turned; that of z_up holds the cube alone.
    want = read_obj(files / f"blender_340_{up}.obj").vertices
    have = made.mesh.vertices[: len(want)] @ turn.T / 100
    assert np.abs(have - want).max() < 1e-4 * np.ptp(want, axis=0).max()


def test_what_engines_need_is_there(files):
    mesh = character(files / "maya_axes_anim_7700_ascii.fbx").mesh
    assert list(mesh.parts) == ["X", "Y", "Z", "ArrowZ", "ArrowY", "ArrowX"]
    assert set(mesh.polygon_sizes.tolist()) > {3, 4}
    assert mesh.corner_uvs is not None
    assert np.linalg.norm(mesh.corner_normals, axis=1) == pytest.approx(1, abs=1e-5)
    assert mesh.materials
    sausage = character(files / "blender_279_sausage_7400_binary.fbx")
    names, parents = sausage.skeleton.names, sausage.skeleton.parents
    above = {name: names[parent] if parent >= 0 else None for name, parent in zip(names, parents)}
    assert above["Middle"] == "Bottom"
    assert above["Top"] == "Middle"
    assert sausage.clip("Skeleton|Spin").frame_rate == 24


def test_in_between_shapes_are_shapes_of_their_own(files):
    made = character(files / "maya_blend_inbetween_7500_binary.fbx")
    names = [shape.name for shape in made.shapes]
    assert names[:2] == ["KeyBlend.LiftTop 50%", "KeyBlend.LiftTop"]
    poses = made.poses()
    assert poses.control_spec.names == tuple(names)
    assert poses.skeleton is None


def test_clips_meshes_and_rate_are_chosen(files):
    path = files / "maya_axes_anim_7700_ascii.fbx"
    some = read_character(path, ReadOptions(meshes=("Z", "ArrowX"), frame_rate=48.0))
    whole = character(path)
    assert list(some.mesh.parts) == ["Z", "ArrowX"]
    assert some.clips[0].frame_count == 41
    at = np.concatenate([whole.mesh.parts["Z"], whole.mesh.parts["ArrowX"]])
    have = some.evaluate_clip(some.clips[0])[::2]
    want = whole.evaluate_clip(whole.clips[0])[:, at]
    assert np.abs(have - want).max() < 1e-4
    takes = files / "maya_game_sausage_7500_binary_combined.fbx"
    assert [clip.name for clip in read_character(takes, ReadOptions(clips=("spin",))).clips] == [
        "spin"
    ]
    with pytest.raises(InputError, match="did you mean 'spin'"):
        read_character(takes, ReadOptions(clips=("spim",)))
    with pytest.raises(UnderstudyError, match="unknown mesh 'Q'"):
        read_character(path, ReadOptions(meshes=("Q",)))


def test_poses_have_bones(files):
    poses = read_poses(files / "maya_game_sausage_7500_binary_combined.fbx")
    assert [span.name for span in poses.spans] == ["wiggle", "spin", "deform"]
    assert [span.start_frame for span in poses.spans] == [1, 20, 40]
    assert poses.skeleton.names == ("joint1", "joint2", "joint3", "joint4")


@pytest.mark.parametrize("kind", ["DualQuaternion", "Blend"])
def test_skins_that_are_not_linear(files, tmp_path, kind):
    text = (files / "maya_axes_anim_7700_ascii.fbx").read_text().replace("axes_skin.ma", "axes.fbx")
    every, share = range(28), np.linspace(0, 1, 28).round(4)
    array = lambda values: f"*28 {{ a: {','.join(map(str, values))} }}"
    extra = f"\n\t\tIndexes: {array(every)}\n\t\tBlendWeights: {array(share)}"
    changed = f'SkinningType: "{kind}"{extra if kind == "Blend" else ""}'
    path = tmp_path / "z.fbx"
    path.write_text(text.replace('SkinningType: "Linear"', changed))
    made = read_character(path, ReadOptions(meshes=("Z",)))
    linear = read_character(files / "maya_axes_anim_7700_ascii.fbx", ReadOptions(meshes=("Z",)))
    have = made.evaluate_clip(made.clips[0])
    assert np.abs(have - linear.evaluate_clip(linear.clips[0]))[8].max() > 0.01
    for frame in (3, 8):
        command = [sys.executable, REFERENCE, path, "Take 001", frame / 24, tmp_path / "z.npy"]
        subprocess.run([str(word) for word in command], check=True)
        np.testing.assert_allclose(have[frame], np.load(tmp_path / "z.npy")[58:86], atol=2e-5)


@pytest.mark.parametrize("frame", [5, 8])
def test_weights_that_the_file_lacks_are_named(files, frame):
    """The OBJ shows the scene; its FBX has not all weights of three vertices."""
    made = character(files / "maya_axes_anim_7700_ascii.fbx")
    want = read_obj(files / f"maya_axes_anim_{frame}.obj").vertices
    apart = np.linalg.norm(frame_of(made, "Take 001", frame) - want, axis=1)
    apart /= np.ptp(want, axis=0).max()
    assert set(np.flatnonzero(apart > 1e-5)) == set(made.mesh.parts["Z"][[1, 5, 6]])
    assert apart.max() < 1e-3
    assert any("weight of 3 vertices" in note and note.startswith("Z:") for note in made.notes)


def test_every_instance_of_a_skinned_mesh_is_read(files, tmp_path):
    """Maya moves each by its own node."""
    text = (files / "maya_game_sausage_7500_ascii_spin.fbx").read_text()
    number, block = re.search(
        r'\tModel: (\d+), ("Model::\w+", "Mesh" \{.*?\n\t\})', text, re.S
    ).groups()
    geometry = re.search(rf"C: \"OO\",(\d+),{number}\n", text)[1]
    second = re.sub(r'("Lcl Translation", "", "AL7"),0', r"\1,7", block)
    text = text.replace(
        block, f"{block}\n\tModel: 77, {second.replace('Model::', 'Model::other_')}"
    )
    links = f'C: "OO",{geometry},{number}\n'
    text = text.replace(links, f'{links}\tC: "OO",{geometry},77\n\tC: "OO",77,0\n')
    (tmp_path / "two.fbx").write_text(text)
    made = read_character(tmp_path / "two.fbx")
    assert len(made.mesh.parts) == 2
    shown = made.evaluate_clip(made.clips[0])
    first, other = (shown[:, part] for part in made.mesh.parts.values())
    alone = character(files / "maya_game_sausage_7500_ascii_spin.fbx")
    np.testing.assert_allclose(first, alone.evaluate_clip(alone.clips[0]), atol=1e-5)
    # The file scales the first one's node along Y, too.
    np.testing.assert_allclose(other[..., [0, 2]], first[..., [0, 2]] + [7, 0], atol=1e-5)


def test_rows_of_weights_that_do_not_sum_to_one_are_scaled(files, tmp_path):
    """Maya's exporter leaves out weights below 0.001; Maya shows the others scaled up."""
    text = (files / "maya_axes_anim_7700_ascii.fbx").read_text()
    pattern = r"(\tWeights: \*\d+ \{\s*a: )([^}]*)"
    assert 'axes_skin.ma"' in text
    assert re.search(pattern, text)
    lower = lambda found: (
        found[1] + ",".join(str(max(float(w) - 4e-4, 0.0)) for w in found[2].split(","))
    )
    (tmp_path / "short.fbx").write_text(re.sub(pattern, lower, text))
    have, want = (
        skin_weights(read_character(path, ReadOptions(meshes=("Z",))).skin, 4).toarray()
        for path in (tmp_path / "short.fbx", files / "maya_axes_anim_7700_ascii.fbx")
    )
    lowered = np.where(want > 0, want - 4e-4, 0)
    assert (np.count_nonzero(want, axis=1) > 1).any()
    np.testing.assert_allclose(have, lowered / lowered.sum(axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize(
    "name", ["../secret.pc2", "a/../../secret.pc2", "C:\\secret.pc2", "/etc/secret.pc2", "link.pc2"]
)
def test_no_cache_outside_the_folder_is_read(tmp_path, name):
    (tmp_path / "secret.pc2").write_bytes(b"POINTCACHE2\0")
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "link.pc2").symlink_to(tmp_path / "secret.pc2")
    assert find_beside(folder / "hero.fbx", {".pc2"}, name) is None


def test_a_missing_cache_is_named(files, tmp_path):
    shutil.copy(files / "max_cache_box_7500_binary.fbx", tmp_path / "box.fbx")
    with pytest.raises(FileError, match=r"max_cache_box\.pc2"):
        read_character(tmp_path / "box.fbx")


# Exports of Maya as it wrote them. A fuzzer kept them because ufbx once crashed when an allocation
# failed while it read them; `test_five_hostile_files_are_whole` shows that nothing is wrong inside.
WHOLE = {2, 3, 4, 5, 6}


@pytest.mark.parametrize("number", sorted(set(range(12)) - WHOLE))
def test_hostile_files_end_in_an_error(real_data, number):
    path = real_data / f"files/hostile/fuzz_{number:04}.fbx"
    start = time.monotonic()
    with pytest.raises(FileError, match=path.name):
        read_character(path)
    assert time.monotonic() - start < 15


def footer_signature(year, month, day, hour, minute, second, hundredth):
    """The 16 bytes near the end of a binary FBX file, which Autodesk's library makes of the time.

    The two constants are the same in all files.
    """
    text = f"{second:02}{month:02}{hour:02}{day:02}{hundredth:02}{year:04}{minute:02}".encode()
    made = bytes.fromhex("58aba9f06ca2d83f4d4749a3b4b2e73d")
    for mask in (text, bytes.fromhex("e24f7b5fcde4c86ddbd8fbd74058c678"), text):
        last, mixed = 64, bytearray()
        for byte, other in zip(made, mask):
            last = byte ^ last ^ other
            mixed.append(last)
        made = bytes(mixed)
    return made


@pytest.mark.parametrize("number", sorted(WHOLE))
def test_five_hostile_files_are_whole(real_data, number):
    """Counts, signature and polygons are those that Maya writes for its default cube."""
    path = real_data / f"files/hostile/fuzz_{number:04}.fbx"
    data = path.read_bytes()
    if data.startswith(b"Kaydara"):
        stamp = re.search(rb"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d):(\d\d)\d", data)
        signature = footer_signature(*(int(part) for part in stamp.groups()))
        assert signature in data[-2700:]
        assert data.endswith(bytes.fromhex("f85a8c6adef5d97eece90ce3758f290b"))
    else:
        text = data.decode("ascii")
        assert text.count("{") == text.count("}")
        for count, values in re.findall(r"\*(\d+) \{\s*a: ([^}]*?)\s*\}", text):
            assert int(count) == len(values.split(","))
    mesh = read_character(path).mesh
    assert (mesh.polygon_sizes == 4).all()
    assert len(mesh.polygon_sizes) == 6
    assert np.isfinite(mesh.vertices).all()
    np.testing.assert_array_equal(np.bincount(mesh.polygon_vertices), [3] * 8)


@pytest.mark.parametrize(
    ("field", "problem"),
    [("UVIndex", "damaged: Clamped index"), ("PolygonVertexIndex", "structure is broken")],
)
def test_indices_out_of_range_are_refused(files, tmp_path, field, problem):
    text = (files / "maya_game_sausage_7500_ascii_spin.fbx").read_text()
    first = re.search(field + r": \*\d+ \{\s*a: ", text).end()
    end = text.index(",", first)
    (tmp_path / "bad.fbx").write_text(f"{text[:first]}99999{text[end:]}")
    with pytest.raises(FileError, match=problem):
        read_character(tmp_path / "bad.fbx")


@pytest.mark.parametrize(
    ("field", "value"),
    [("Vertices", "1.7e308"), ("Transform", "1e38"), ("KeyValueFloat", "3e38")],
)
def test_numbers_that_overflow_are_refused_without_a_warning(files, tmp_path, field, value):
    """Warnings are errors here; keys overflow only where vertices are made of them."""
    text = (files / "maya_game_sausage_7500_ascii_spin.fbx").read_text()
    extreme = lambda found: found[1] + re.sub(r"(^|,)[^,]+", rf"\g<1>{value}", found[2])
    text, count = re.subn(rf"({field}: \*\d+ \{{\s*a: )([^}}]*)", extreme, text)
    assert count
    (tmp_path / "bad.fbx").write_text(text)
    with pytest.raises(FileError, match=r"bad\.fbx: .*NaN or infinite"):
        read_poses(tmp_path / "bad.fbx")


def test_two_objects_of_one_number_are_refused(files, tmp_path):
    text = (files / "maya_game_sausage_7500_ascii_spin.fbx").read_text()
    first, second = re.findall(r"^\tModel: (\d+),", text, re.MULTILINE)[:2]
    path = tmp_path / "bad.fbx"
    path.write_text(text.replace(f"\tModel: {first},", f"\tModel: {second},"))
    with pytest.raises(FileError, match="damaged: Duplicate object ID"):
        read_character(path)


@pytest.mark.slow
def test_mutated_files_end_in_an_error_or_a_character(files, tmp_path):
    rng = np.random.default_rng(15)
    names = ["maya_game_sausage_7500_binary_spin.fbx", "blender_293_half_skinned_7400_binary.fbx"]
    for number in range(24):
        data = bytearray((files / names[number % 2]).read_bytes())
        for at in rng.integers(30, len(data), 8):
            data[at] = rng.integers(256)
        if number % 3 == 0:
            del data[rng.integers(30, len(data)) :]
        path = tmp_path / "mutated.fbx"
        path.write_bytes(data)
        with contextlib.suppress(UnderstudyError):
            assert np.isfinite(read_character(path).mesh.vertices).all()


def worker(tmp_path, monkeypatch, text):
    """Let `read_fbx` run another program."""
    (tmp_path / "worker.py").write_text(text)
    (tmp_path / "any.fbx").write_bytes(b"Kaydara")
    monkeypatch.setattr(fbx, "_WORKER", tmp_path / "worker.py")
    return tmp_path / "any.fbx"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_crash_of_the_reader_is_an_error(tmp_path, monkeypatch):
    path = worker(tmp_path, monkeypatch, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(FileError, match="stopped with code -11"):
        fbx.read_fbx(path)


def test_a_small_file_has_few_seconds(tmp_path, monkeypatch):
    """The process that reads it, and this one, have 20 together."""
    (tmp_path / "a.fbx").write_bytes(bytes(SMALL_FILE - 1))
    given = []

    def run(path, request, seconds):
        given.append((request["seconds"], seconds))
        raise FileError("stopped here")

    monkeypatch.setattr(fbx, "_run", run)
    with pytest.raises(FileError, match="stopped here"):
        fbx.read_fbx(tmp_path / "a.fbx")
    assert given == [(12, 12)]


def test_a_reader_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(fbx, "_SECONDS", 0.5)
    path = worker(tmp_path, monkeypatch, "import time; time.sleep(60)")
    with pytest.raises(FileError, match="not read after"):
        fbx.read_fbx(path)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is one of Linux")
def test_memory_is_limited(files, monkeypatch):
    monkeypatch.setattr(fbx, "_LIBRARIES", (1 << 20) - ROOM)
    with pytest.raises(FileError):
        fbx.read_fbx(files / "maya_game_sausage_7500_binary_spin.fbx")


def test_no_file_and_a_folder(tmp_path):
    for path in (tmp_path / "none.fbx", tmp_path):
        with pytest.raises(FileError, match=path.name):
            fbx.read_fbx(path)

"""`understudy compress` as a user meets it, on a strip that two bones move exactly."""

import json

import numpy as np
import pytest
from command_line import run
from sequence_builders import bending_strip

from understudy import Deformer, Mesh
from understudy.geometry.transforms import parent_from_bone
from understudy.io.sequences import write_obj, write_ply
from understudy_benchmarks.metrics import decomposition_error


@pytest.fixture(scope="module")
def strip(tmp_path_factory):
    """The strip as .npz, and a second clip of it as a folder of .obj and one of .ply files."""
    folder = tmp_path_factory.mktemp("strip")
    vertices, faces, rest = bending_strip()
    np.savez(folder / "bend.npz", vertices=vertices, faces=faces, rest=rest)
    mesh = Mesh.from_faces(rest, faces)
    write_obj(folder / "rest.obj", mesh)
    for number, frame in enumerate(bending_strip(6, seed=1)[0]):
        (folder / "obj").mkdir(exist_ok=True)
        (folder / "ply").mkdir(exist_ok=True)
        write_obj(folder / "obj" / f"turn.{number + 101}.obj", mesh, frame)
        write_ply(folder / "ply" / f"turn.{number + 101}.ply", mesh, frame)
    return folder


def test_a_sequence_becomes_a_file_and_a_summary(strip, capsys, tmp_path):
    out = tmp_path / "bend.understudy"
    code, text, errors = run(
        capsys,
        "compress",
        strip / "bend.npz",
        "-o",
        out,
        "--bones",
        2,
        "--json",
        tmp_path / "bend.json",
    )
    assert code == 0, errors
    for word in (
        "2 bones",
        "E ",
        "ERMS",
        "DisPer",
        "MaxAvgDist",
        "NormDistort",
        "CRP",
        "before",
        "after",
        "time",
        "bend (10 frames)",
    ):
        assert word in text
    figures = json.loads((tmp_path / "bend.json").read_text())
    deformer = Deformer.load(out)
    vertices, _, rest = bending_strip()
    # The file's positions are float32, so E is known to about 1e-4.
    assert figures["e"] == pytest.approx(
        decomposition_error(vertices, deformer.deform_clip(), rest), abs=1e-3
    )
    assert figures["e"] < 0.1
    assert figures["bytes_after"] == out.stat().st_size
    assert figures["bytes_before"] == vertices.size * 4
    assert deformer.skeleton.bone_count <= 2
    weight = deformer.skin.weight
    assert weight.min() >= 0
    np.testing.assert_allclose(weight.sum(axis=1), 1, atol=1e-5)
    assert deformer.training["e"] == pytest.approx(figures["e"])
    shown = run(capsys, "info", out)[1]
    assert "bend: 10 frames" in shown
    assert "along Y, up axis unknown" in shown  # the file does not say, so nothing is claimed


def test_several_clips_at_once(strip, capsys, tmp_path):
    out = tmp_path / "both.understudy"
    arguments = (
        "-o",
        out,
        "--bones",
        2,
        "--influences",
        2,
        "--transforms",
        "rigid",
        "--frame-rate",
        24,
        "--rest",
        strip / "rest.obj",
    )
    for source in (strip / "obj", str(strip / "ply" / "turn.*.ply")):
        code, text, errors = run(capsys, "compress", strip / "bend.npz", source, *arguments)
        assert code == 0, errors
        deformer = Deformer.load(out)
        assert [(c.name, c.frame_count, c.start_frame, c.frame_rate) for c in deformer.clips] == [
            ("bend", 10, 0, 24.0),
            ("turn", 6, 101, 24.0),
        ]
        assert "turn (6 frames)" in text
        assert deformer.skin.influences <= 2
        second = bending_strip(6, seed=1)[0]
        assert np.abs(deformer.deform_clip(1) - second).mean() < 0.05


def test_nothing_need_be_set(strip, capsys, tmp_path):
    out = tmp_path / "a.understudy"
    code, text, errors = run(capsys, "compress", strip / "bend.npz", "-o", out)
    assert code == 0, errors
    deformer = Deformer.load(out)
    assert deformer.method == "temporal"
    assert 2 <= deformer.skeleton.bone_count <= 3  # two made it
    assert deformer.skin.influences <= 6
    assert deformer.training["e"] < 1
    assert "temporal" in text


def test_a_skeleton_on_request(strip, capsys, tmp_path):
    out = tmp_path / "a.understudy"
    code, text, errors = run(
        capsys, "compress", strip / "bend.npz", "-o", out, "--skeleton", "--bones", 2
    )
    assert code == 0, errors
    deformer = Deformer.load(out)
    assert "2 bones in one skeleton" in text
    assert deformer.skeleton.parents.tolist() == [-1, 0]
    # It can be posed: the independent joints reproduce the clip.
    values = deformer.posing.read(deformer.clips[0].world_from_bone)
    posed = deformer.deform(deformer.posing.pose(values)[0])
    shown = deformer.deform(deformer.clips[0].world_from_bone)
    np.testing.assert_allclose(posed, shown, atol=0.02 * deformer.mesh.height)
    turns = deformer.clips[0].world_from_bone[..., :3]
    np.testing.assert_allclose(
        turns @ np.swapaxes(turns, -1, -2), np.broadcast_to(np.eye(3), turns.shape), atol=1e-6
    )
    joint = parent_from_bone(deformer.clips[0].world_from_bone, deformer.skeleton.parents)[
        :, 1, :, 3
    ]
    np.testing.assert_allclose(joint, np.broadcast_to(joint[0], joint.shape), atol=1e-6)
    assert deformer.clips[0].keys.is_key.all()  # interpolated matrices would not be rotations


def test_without_bones_an_error_is_reached(strip, capsys, tmp_path):
    out = tmp_path / "a.understudy"
    assert run(capsys, "compress", strip / "bend.npz", "-o", out, "--method", "ssdr")[0] == 0
    few = Deformer.load(out)
    assert few.training["e"] <= 2.0 * 1.01
    assert run(capsys, "compress", strip / "bend.npz", "-o", out, "--error", 20)[0] == 0
    assert Deformer.load(out).skeleton.bone_count <= few.skeleton.bone_count


def test_two_layer(strip, capsys, tmp_path):
    out = tmp_path / "a.understudy"
    code, text, errors = run(
        capsys, "compress", strip / "bend.npz", "-o", out, "--bones", 4, "--method", "two_layer"
    )
    assert code == 0, errors
    assert "virtual bones" in text
    skin = Deformer.load(out).skin
    np.testing.assert_allclose(skin.weight.sum(axis=1), 1, atol=1e-5)
    assert skin.virtual_index is not None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("none.npz",), "no such file"),
        (("none_*.obj",), "no file matches"),
        (("bend.npz", "--method", "sdr"), "did you mean 'ssdr'"),
        (
            ("bend.npz", "--method", "ssdr", "--skeleton"),
            "ssdr has no such option; leave it out, or use --method temporal",
        ),
        (
            ("bend.npz", "--method", "temporal", "--error", "1"),
            "--error: temporal has no such option; leave it out, or use --method ssdr or two_layer",
        ),
        (("bend.npz", "--skeleton", "--transforms", "rigid"), "temporal has no such option"),
        (("bend.npz", "--method", "fdda"), "fdda does not fit mesh sequences; use temporal, ssdr"),
        (("bend.npz", "--bones", "2", "--set", "bones=3"), "--bones and --set bones are the same"),
        (("bend.npz", "--set", "boens=3"), "did you mean 'bones'"),
        (("one.npz",), "needs at least two frames, got one"),
        (("bend.npz", "--up", "X"), "unknown up axis 'X'"),
        (("bend.npz", "--unit", "mile"), "unknown unit 'mile'"),
        (("bend.npz", "--transforms", "elastic"), "unknown value of transforms"),
        (("bend.npz", "--error", "0"), "error: expected a number above 0"),
        (("bend.npz", "--bones", "1000"), "more than the mesh has vertices"),
        (("bend.npz", "--bones", "0"), "--bones"),
        (("bend.npz", "--influences", "2", "--method", "two_layer"), "bones_per_vertex"),
        (("bend.npz", "--rest", "none.obj"), "cannot be read"),
        (("bend.npz", "--frame-rate", "-1"), "frame rate"),
        (("large.npz", "bend.npz"), "mixed units"),
        (("broken.npz",), "NaN"),
        (("points.npz",), "no faces"),
        (("cut.npz",), "damaged"),
    ],
)
def test_wrong_input_is_one_clear_line_and_no_file(
    strip, capsys, tmp_path, monkeypatch, arguments, says
):
    monkeypatch.chdir(tmp_path)
    vertices, faces, _ = bending_strip()
    (tmp_path / "bend.npz").write_bytes((strip / "bend.npz").read_bytes())
    (tmp_path / "cut.npz").write_bytes((strip / "bend.npz").read_bytes()[:3000])
    np.savez("large.npz", vertices=vertices * 100, faces=faces)
    np.savez(
        "broken.npz",
        vertices=np.where(np.arange(len(vertices))[:, None, None] == 4, np.nan, vertices),
        faces=faces,
    )
    np.savez("points.npz", vertices=vertices)
    np.savez("one.npz", vertices=vertices[:1], faces=faces)
    before = sorted(tmp_path.iterdir())
    code, _, errors = run(capsys, "compress", *arguments, "-o", "out.understudy")
    assert code == 2
    assert says in " ".join(errors.split())
    assert "Traceback" not in errors
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("out", "says"),
    [
        ("x.xyz", "cannot be written to a file that ends in '.xyz'; use "),
        ("folder", "cannot be written to a file without a suffix"),
        ("bend.npz/x.understudy", "cannot be written"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_any_work(
    strip, capsys, tmp_path, monkeypatch, out, says
):
    monkeypatch.setattr("understudy.jobs.compressing.read_poses", None)  # no file is read
    (tmp_path / "folder").mkdir()
    (tmp_path / "bend.npz").write_bytes(b"")
    code, _, errors = run(capsys, "compress", strip / "bend.npz", "-o", tmp_path / out)
    assert code == 2
    assert says in errors


def test_options_of_the_method_and_what_the_file_cannot_say(strip, capsys, tmp_path):
    out = tmp_path / "a.understudy"
    code, _, errors = run(
        capsys,
        *("compress", strip / "bend.npz", "-o", out, "--bones", 2),
        *("--set", "iterations=3", "--up", "z", "--unit", "cm"),
    )
    assert code == 0, errors
    deformer = Deformer.load(out)
    assert (deformer.mesh.up_axis, deformer.mesh.unit) == ("Z", "cm")
    assert deformer.provenance["config"]["iterations"] == 3
    assert deformer.provenance["sample"] == {"source": "bend.npz"}


def test_fit_gives_the_same_deformer_as_compress(strip, capsys, tmp_path):
    ask = ("--set", "bones=2", "-o")
    command = ("compress", strip / "bend.npz", "--tolerance", 0, *ask, tmp_path / "a.understudy")
    assert run(capsys, *command)[0] == 0
    assert (
        run(capsys, "fit", "temporal", strip / "bend.npz", *ask, tmp_path / "b.understudy")[0] == 0
    )
    one, two = (Deformer.load(tmp_path / f"{name}.understudy") for name in "ab")
    np.testing.assert_array_equal(one.deform_clip(), two.deform_clip())
    code, text, errors = run(
        capsys,
        *("evaluate", tmp_path / "b.understudy", "--poses", strip / "bend.npz", "--all-figures"),
    )
    assert code == 0, errors
    assert "DisPer" in text


def test_the_tolerance_decides_how_many_keys_are_stored(strip, capsys, tmp_path):
    counts = []
    for tolerance in ("0.01", "500"):
        out = tmp_path / f"{tolerance}.understudy"
        command = ("compress", strip / "bend.npz", "-o", out, "--set", "bones=2")
        code, text, errors = run(capsys, *command, "--tolerance", tolerance)
        assert code == 0, errors
        assert "key frames of bones" in text
        counts.append(int(Deformer.load(out).clips[0].keys.is_key.sum()))
    assert counts[0] > counts[1]
    code, text, _ = run(capsys, "info", out)
    assert code == 0
    assert "bytes" in text
    assert "clips" in text
    code, _, errors = run(
        capsys, "compress", strip / "bend.npz", "-o", tmp_path / "a.glb", "--tolerance", 1
    )
    assert code != 0
    assert "--tolerance is about key frames of .understudy files" in errors

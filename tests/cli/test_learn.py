"""`understudy learn`: every kind of source, resuming, refusing."""

import json
from pathlib import Path

import numpy as np
import pytest
from character_builders import hero
from command_line import run

from understudy import Deformer
from understudy.io.registry import read_character, write_character
from understudy.io.sequences import file_name
from understudy.io.vertex_caches import read_pc2
from understudy.jobs import Fit, exports
from understudy.methods.registry import method_type
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian
from understudy.system.errors import InputError

SMALL = ("--set", "epochs=8", "--set", "regions=2", "--set", "hidden=16")


def succeed(capsys, *arguments):
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    return out


def recorded(path, count=120, seed=0, **more):
    """Poses of the tube as a user would record them, with bones and controls."""
    rig = load_rig("tube")
    poses = rig.evaluate(gaussian(rig.controls, count, seed))
    np.savez(
        path,
        vertices=more.pop("vertices", poses.vertices),
        rest=rig.mesh.vertices,
        faces=rig.mesh.triangles,
        world_from_bone=poses.world_from_bone,
        rest_world_from_bone=rig.skeleton.world_from_bone,
        parents=rig.skeleton.parents,
        controls=poses.controls,
        **more,
    )


@pytest.mark.slow
def test_a_rig_is_learned_and_the_same_command_continues(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ("learn", "tube", "-o", "hero", "--count", "150", "--processes", "1", *SMALL)
    said = succeed(capsys, *command, "--to", "onnx")
    for name in ("tube.understudy", "tube.onnx", "report.html", "errors.json", "job.json"):
        assert Path("hero", name).exists(), name
    assert "tube/wave" in said
    rows = json.loads(Path("hero/errors.json").read_text())["rows"]
    by_method = {r["method"]: r["mean"] for r in rows if r["case"] == "tube/wave"}
    assert by_method["corrected_skin"] < 0.5 * by_method["lbs"]
    learned = Deformer.load("hero/tube.understudy")
    assert (learned.method, learned.storage) == ("corrected_skin", "float16")
    # Another run finds everything done: neither sampling nor fitting is called again.
    twice = lambda *_, **__: pytest.fail("a step ran twice")
    monkeypatch.setattr("understudy.jobs.learning.sample_poses", twice)
    monkeypatch.setattr(Fit, "run", twice)
    before = Path("hero/tube.understudy").read_bytes()
    succeed(capsys, *command, "--to", "onnx")
    assert Path("hero/tube.understudy").read_bytes() == before
    code, _, err = run(capsys, *command, "--seed", "1")
    assert code == 2
    assert "another job: seed was 0 and is now 1" in err


@pytest.mark.slow
def test_an_interrupted_job_keeps_its_finished_steps(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded("poses.npz")
    command = ("learn", "poses.npz", "-o", "hero", *SMALL)
    real, fitted = Fit.run, []

    def interrupted(fit, *rest, **more):
        if fitted:
            raise KeyboardInterrupt
        fitted.append(fit.method.name)
        return real(fit, *rest, **more)

    monkeypatch.setattr(Fit, "run", interrupted)
    code, _, err = run(capsys, *command)
    assert code == 130
    assert "run the same command again" in err
    assert Path("hero/corrected_skin.understudy").exists()
    assert not Path("hero/poses.understudy").exists()

    def second(fit, *rest, **more):
        fitted.append(fit.method.name)
        return real(fit, *rest, **more)

    monkeypatch.setattr(Fit, "run", second)
    succeed(capsys, *command)
    assert fitted == ["corrected_skin", "lbs"]


@pytest.mark.slow
def test_recorded_poses_are_measured_on_some_that_are_held_out(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded("poses.npz")
    said = succeed(capsys, "learn", "poses.npz", "-o", "hero", *SMALL)
    assert "Measured on the last 18 random poses" in said
    deformer = Deformer.load("hero/poses.understudy")
    assert deformer.training["poses"] == 102


@pytest.mark.slow
def test_parts_of_recorded_poses_are_left_out(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = [72, 32]
    parts = {"part_names": ["base", "tip"], "part_sizes": sizes, "part_vertices": np.arange(104)}
    recorded("poses.npz", **parts)
    succeed(capsys, "learn", "poses.npz", "-o", "hero", "--method", "lbs", "--without", "tip")
    assert list(Deformer.load("hero/poses.understudy").mesh.parts) == ["base"]


@pytest.mark.slow
def test_a_method_that_is_worse_than_skinning_is_not_kept(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded("poses.npz")
    spoiled = ("--set", "learning_rate=0.5", "--set", "guard=false", "--set", "epochs=1")
    said = succeed(capsys, "learn", "poses.npz", "-o", "hero", *spoiled)
    assert "So lbs is kept" in said
    assert Deformer.load("hero/poses.understudy").method == "lbs"


@pytest.mark.slow
def test_the_default_is_auto_which_keeps_an_exact_skin(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rig = load_rig("tube")
    poses = rig.evaluate(gaussian(rig.controls, 60, 0))
    skinned = method_type("lbs")().fit(poses).deform(poses.world_from_bone)
    recorded("poses.npz", count=60, vertices=skinned)
    succeed(capsys, "learn", "poses.npz", "-o", "hero")
    deformer = Deformer.load("hero/poses.understudy")
    assert deformer.method == "lbs"
    assert "auto" in deformer.provenance


@pytest.mark.slow
def test_the_default_gives_networks_where_a_skin_misses(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded("poses.npz")
    succeed(capsys, "learn", "poses.npz", "-o", "hero", "--set", "epochs=5", "--float32")
    deformer = Deformer.load("hero/auto.understudy")
    assert (deformer.method, deformer.storage) == ("corrected_skin", "float32")
    assert deformer.training["poses"] == 102


@pytest.mark.slow
def test_few_poses_with_bones_are_skinned(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded("poses.npz", count=30)
    succeed(capsys, "learn", "poses.npz", "-o", "hero")
    assert Deformer.load("hero/poses.understudy").method == "lbs"


@pytest.mark.slow
def test_motion_that_neither_bones_nor_controls_make_is_named(real_data, tmp_path, capsys):
    """The letter Y of this file is bent by a deformer, which is in the file as a cache alone."""
    source = real_data / "files/fbx/maya_axes_anim_7700_ascii.fbx"
    said = succeed(capsys, "learn", source, "-o", tmp_path / "axes")
    warnings = [line for line in said.splitlines() if line.startswith("Warning")]
    warnings.sort()
    assert len(warnings) == 2
    assert warnings[0].startswith("Warning: 'Y' is off by")
    assert "cannot be learned" in warnings[0]
    assert warnings[1].endswith("joint4.")
    assert "never moved in training" in warnings[1]
    assert "13 poses are too few for networks" in said
    # The other parts have an exact skin and blend shape in the file.
    assert Deformer.load(tmp_path / "axes/maya_axes_anim_7700_ascii.understudy").method == (
        "character"
    )


@pytest.mark.slow
def test_a_mesh_sequence_is_compressed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rig = load_rig("tube")
    curves, _ = rig.animation("wave")
    np.savez("walk.npz", vertices=rig.evaluate(curves[::3]).vertices, faces=rig.mesh.triangles)
    said = succeed(capsys, "learn", "walk.npz", "-o", "hero", "--frame-rate", "10")
    assert "Measured on the sequence itself" in said
    assert Deformer.load("hero/walk.understudy").clips[0].frame_count == 20


@pytest.mark.slow
def test_a_mesh_sequence_for_an_engine_is_what_compress_writes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rig = load_rig("tube")
    curves, _ = rig.animation("wave")
    np.savez("walk.npz", vertices=rig.evaluate(curves[::4]).vertices, faces=rig.mesh.triangles)
    options = ("--frame-rate", "10", "--set", "bones=3")
    succeed(capsys, "learn", "walk.npz", "-o", "hero", "--to", "glb", *options)
    succeed(capsys, "compress", "walk.npz", "-o", "walk.glb", *options)
    learned, compressed = read_character("hero/walk.glb"), read_character("walk.glb")
    assert learned.skeleton.names == compressed.skeleton.names
    np.testing.assert_array_equal(learned.skeleton.parents, compressed.skeleton.parents)
    assert (learned.skeleton.parents >= 0).sum() == learned.bone_count - 1
    assert learned.skin.influences <= 4
    np.testing.assert_allclose(learned.skin.weight, compressed.skin.weight, atol=1e-6)
    np.testing.assert_allclose(
        learned.evaluate_clip(learned.clips[0]),
        compressed.evaluate_clip(compressed.clips[0]),
        atol=1e-5,
    )


@pytest.mark.slow
def test_a_format_of_one_clip_gets_one_file_per_clip(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = hero(influences=4, unit="m")
    write_character(source, "hero.glb")
    assert len(source.clips) > 1
    said = succeed(capsys, "learn", "hero.glb", "-o", "out", "--to", "pc2")
    files = sorted(path.name for path in Path("out").glob("*.pc2"))
    assert files == sorted(f"hero_{file_name(clip.name)}.pc2" for clip in source.clips)
    assert all(file in said for file in files)
    first = Path("out") / f"hero_{file_name(source.clips[0].name)}.pc2"
    np.testing.assert_allclose(
        read_pc2(first).vertices, source.evaluate_clip(source.clips[0]), atol=1e-5
    )
    # The same command writes what is missing, and nothing that is there.
    first.unlink()
    succeed(capsys, "learn", "hero.glb", "-o", "out", "--to", "pc2")
    before = first.stat().st_mtime_ns
    succeed(capsys, "learn", "hero.glb", "-o", "out", "--to", "pc2")
    assert first.stat().st_mtime_ns == before


def test_a_character_keeps_its_blend_shapes_and_the_frame_rate_asked_for(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    source = hero(influences=4, unit="m")
    write_character(source, "hero.glb")
    command = ("learn", "hero.glb", "-o", "out", "--frame-rate", "12", "--to", "glb,usdc")
    said = succeed(capsys, *command)
    assert said.count("errors in m") == 1  # two files hold the same character
    made = read_character("out/hero.glb")
    assert [shape.name for shape in made.shapes] == [shape.name for shape in source.shapes]
    assert {clip.frame_rate for clip in made.clips} == {12.0}
    np.testing.assert_allclose(
        made.evaluate_clip(made.clip("walk"))[1],
        source.evaluate_clip(source.clip("walk"))[2],
        atol=1e-5,
    )


def test_a_format_that_cannot_hold_the_character_does_not_stop_the_others(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_character(hero(influences=4), "hero.glb")

    def refuse(character, path):
        if str(path).endswith(".ply"):
            raise InputError(f"{path}: it holds one clip")
        return write_character(character, path)

    monkeypatch.setattr(exports, "write_character", refuse)
    code, _, err = run(capsys, "learn", "hero.glb", "-o", "out", "--to", "ply,npz,onnx")
    assert code == 2
    assert "hero.ply: it holds one clip" in err
    assert Path("out/hero.npz").exists()
    assert Path("out/hero.onnx").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing.npz", "-o", "hero"), "nothing.npz"),
        (("poses.npz", "-o", "hero", "--to", "xyz"), "xyz"),
        (("poses.npz", "-o", "hero", "--method", "fddda"), "fdda"),
        (("tube", "human", "-o", "hero"), "a rig is learned alone"),
        (("poses.npz", "-o", "poses.npz"), "poses.npz: the folder cannot be made"),
        (("poses.npz", "-o", "hero", "--held-out", "walk"), "clip to hold out 'walk'"),
    ],
)
def test_what_cannot_be_learned_is_said(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded("poses.npz", count=20)
    code, _, err = run(capsys, "learn", *arguments)
    assert code == 2
    assert message in err


def test_a_folder_in_which_nothing_was_done_takes_another_job(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_character(hero(influences=4), "hero.glb")
    code, _, err = run(capsys, "learn", "hero.glb", "-o", "out", "--mesh", "hat")
    assert code == 2
    assert "unknown mesh 'hat'" in err
    succeed(capsys, "learn", "hero.glb", "-o", "out", "--mesh", "body")
    code, _, err = run(capsys, "learn", "hero.glb", "-o", "out", "--mesh", "fan")
    assert code == 2
    assert "another job" in err

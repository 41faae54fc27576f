"""`understudy export` to a character's file, as a user meets it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from command_line import run

from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.io.registry import read_poses
from understudy.io.sequences import write_obj
from understudy.rigs.base import animate
from understudy.rigs.registry import load_rig


@pytest.fixture
def file(tube, tmp_path):
    tube.save(tmp_path / "tube.understudy")
    return tmp_path / "tube.understudy"


def test_clips_of_the_rig_are_baked_and_errors_printed(file, written, capsys, tmp_path):
    out = tmp_path / "tube.character"
    code, text, _ = run(
        capsys, "export", file, out, "--clip", "wave", "--clip", "whip", "--morphs", 8,
        "--json", tmp_path / "errors.json",
    )  # fmt: skip
    assert code == 0
    made = written["tube.character"]
    assert [clip.name for clip in made.clips] == ["wave", "whip"]
    assert made.name == "tube"
    assert len(made.shapes) == 8
    assert "errors in cm" in text
    assert "whip: skin and blend shapes against the original" in text
    rows = json.loads((tmp_path / "errors.json").read_text())["rows"]
    assert {(row["part"], row["against"]) for row in rows} == {
        ("skin", "deformer"), ("export", "deformer"), ("deformer", "original"),
        ("skin", "original"), ("export", "original"),
    }  # fmt: skip


def test_all_clips_at_once(file, written, capsys, tmp_path):
    out = tmp_path / "tube.character"
    code, text, _ = run(capsys, "export", file, out, "--clip", "all", "--morphs", 0)
    assert code == 0
    # Without blend shapes, the skin is the export: it is stated once.
    assert text.count("wave: skin against the original") == 1
    assert "skin alone" not in text
    assert [clip.name for clip in written["tube.character"].clips] == ["wave", "whip"]


def test_files_of_vertices_get_every_frame_as_it_is(file, tube, capsys, tmp_path):
    out = tmp_path / "wave.npz"
    code, _, err = run(capsys, "export", file, out, "--clip", "wave")
    assert code == 0, err
    poses = read_poses(out)
    rig = load_rig("tube")
    wave = animate(rig, "wave")
    expected = tube.deform(wave.world_from_bone, wave.controls)
    np.testing.assert_allclose(poses.read_poses(0, 60), expected, atol=1e-5)
    np.testing.assert_allclose(poses.world_from_bone, wave.world_from_bone, atol=1e-6)


@pytest.mark.parametrize(
    ("rig", "message"),
    [
        ("no_such_module:Rig", "cannot be loaded"),
        (None, "--clip all: neither the file nor its rig has animations"),
    ],
)
def test_all_clips_of_nothing_are_refused(tube, rig, message, capsys, tmp_path):
    sample = {} if rig is None else {"rig": rig}
    moved = replace(tube, provenance={**tube.provenance, "sample": sample})
    moved.save(tmp_path / "tube.understudy")
    out = tmp_path / "tube.glb"
    code, _, err = run(capsys, "export", tmp_path / "tube.understudy", out, "--clip", "all")
    assert code == 2
    assert message in err
    assert not out.exists()


def test_without_a_clip_it_says_what_is_missing(file, written, capsys, tmp_path):
    code, text, _ = run(capsys, "export", file, tmp_path / "tube.character")
    assert code == 0
    assert "No clip" in text
    assert not written["tube.character"].shapes


def test_recorded_motion_is_baked(file, written, capsys, tmp_path, range_poses):
    order = [0, 2, 1]
    np.savez(
        tmp_path / "walk.npz",
        vertices=range_poses.vertices,
        faces=range_poses.mesh.polygon_vertices.reshape(-1, 4),
        rest=range_poses.mesh.vertices,
        world_from_bone=range_poses.world_from_bone[:, order],
        rest_world_from_bone=range_poses.skeleton.world_from_bone[order],
        parents=[-1, 0, 0],
        bone_names=[range_poses.skeleton.names[b] for b in order],
        frame_rate=12.0,
    )
    out = tmp_path / "tube.character"
    code, text, err = run(capsys, "export", file, out, "--motion", tmp_path / "walk.npz")
    assert code == 0, err
    clip = written["tube.character"].clips[0]
    assert (clip.name, clip.frame_count, clip.frame_rate) == ("walk", 60, 12.0)
    assert "skin and blend shapes against the original" in text


def test_a_compressed_sequence_brings_its_clips(affine, written, capsys, tmp_path):
    affine.save(tmp_path / "strip.understudy")
    out = tmp_path / "strip.character"
    code, text, err = run(capsys, "export", tmp_path / "strip.understudy", out)
    assert code == 0, err
    assert "clip         strip: 24 frames at 24 per second" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tube.character", "--clip", "run"), "wave"),
        (("tube.character", "--bones", "soft"), "pair"),
        (("tube.character", "--morphs", "129"), "128"),
        (("tube.character", "--half"), "--half"),
        (("tube.character", "--rig", "face"), "vertices"),
        (("tube.onnx", "--clip", "wave"), "hold a deformer and no clips"),
        (("tube.xyz",), "cannot be written"),
    ],
)
def test_wrong_turns_leave_no_file(arguments, message, file, written, capsys, tmp_path):
    out, *rest = arguments
    code, _, err = run(capsys, "export", file, tmp_path / out, *rest)
    assert code == 2
    assert message in err
    assert not (tmp_path / out).exists()


def test_a_rig_that_is_not_here_is_named(tube, written, capsys, tmp_path):
    lost = replace(tube, provenance={"sample": {"rig": "gone.py:Rig"}})
    lost.save(tmp_path / "lost.understudy")
    out = tmp_path / "lost.character"
    code, _, err = run(capsys, "export", tmp_path / "lost.understudy", out, "--clip", "wave")
    assert code == 2
    assert "--motion" in err


def test_fit_refuses_the_format_before_any_work(written, capsys, tmp_path):
    code, _, err = run(capsys, "fit", "lbs", tmp_path / "none.zarr", "-o", tmp_path / "a.character")
    assert code == 2
    assert "understudy export" in err


def test_an_interrupted_export_leaves_nothing(file, written, capsys, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("understudy.jobs.exporting.write_character", interrupt)
    before = sorted(tmp_path.iterdir())
    code, _, _ = run(capsys, "export", file, tmp_path / "tube.character", "--clip", "wave")
    assert code == 130
    assert sorted(tmp_path.iterdir()) == before


def test_a_level_of_detail_has_its_error_and_the_networks(file, tube, capsys, tmp_path):
    mesh = tube.mesh
    write_obj(tmp_path / "lod1.obj", Mesh(mesh.vertices[::2], [3], [0, 1, 2]))
    centres = mesh.vertices[mesh.triangles].mean(axis=1)
    write_obj(tmp_path / "lod2.obj", Mesh(centres, [3], [0, 1, 2]))
    for name, vertices, said in (
        ("lod1", -(-mesh.vertex_count // 2), "all of them vertices of the original"),
        ("lod2", len(centres), "from its surface at rest"),
    ):
        out = tmp_path / f"{name}.understudy"
        code, text, err = run(
            capsys, "export", file, out, "--lod", tmp_path / f"{name}.obj",
            "--json", tmp_path / "errors.json",
        )  # fmt: skip
        assert code == 0, err
        assert said in text
        assert "32 random poses" in text
        made = Deformer.load(out)
        assert made.mesh.vertex_count == vertices
        assert len(made.nets) == len(tube.nets)
        errors = json.loads((tmp_path / "errors.json").read_text())
        assert errors["vertices"] == vertices
        assert errors["max"] <= (1e-5 if name == "lod1" else 0.05) * mesh.height


def test_a_level_of_detail_of_a_character_is_written_in_two_steps(file, capsys, tmp_path):
    code, _, err = run(
        capsys, "export", file, tmp_path / "tube.glb", "--lod", tmp_path / "lod1.obj"
    )
    assert code == 2
    assert "write a .understudy file first" in err

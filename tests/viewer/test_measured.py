"""Pages beside reports, and the commands that write them."""

import base64
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from command_line import run
from sequence_builders import bending_strip
from tube_scene import tube_subjects

from understudy.io.sequences import sequence_from_arrays
from understudy.methods.registry import method_type
from understudy.rigs.base import animate
from understudy.rigs.registry import load_rig
from understudy.viewer import subjects as measured
from understudy.viewer.subjects import KeptFrames


def test_frames_are_kept_while_they_are_measured(monkeypatch):
    monkeypatch.setattr(measured, "MOST_FRAMES", 70)
    rig = load_rig("tube")
    calls = []

    def case(name):
        calls.append(name)
        return animate(rig, name)

    kept = KeptFrames({f"tube/{n}": (lambda n=n: case(n)) for n in rig.animation_names})
    for evaluate in kept.cases.values():
        assert evaluate().pose_count == 60
    deformers = {subject.label: subject.deformer for subject in tube_subjects()}
    scene = kept.scene(deformers, "tube")
    assert calls == ["wave", "whip"]  # nothing is evaluated twice
    assert [clip["frames"] for clip in scene.about["clips"]] == [60, 30]
    assert all("original" in clip for clip in scene.about["clips"])


def test_random_poses_are_shown_one_by_one():
    rig = load_rig("tube")
    spec = rig.controls
    values = np.random.default_rng(0).uniform(spec.low, spec.high, (12, spec.count))
    kept = KeptFrames({"random": replace(rig.evaluate(values), name="random")})
    kept.cases["random"]()
    scene = kept.scene({"lbs": tube_subjects()[1].deformer}, "tube")
    assert scene.about["clips"][0]["rate"] == 2.0


def test_a_sequence_is_compared_with_the_clips_of_its_stand_in():
    vertices, faces, rest = bending_strip(9)
    poses = sequence_from_arrays(vertices, faces, rest=rest, name="strip")
    deformer = method_type("ssdr")().fit(poses)
    kept = KeptFrames({"strip": poses})
    kept.cases["strip"]()
    scene = kept.scene({"ssdr": deformer}, "strip")
    assert scene.about["clips"][0]["frames"] == 9
    errors = np.linalg.norm(deformer.deform_clip() - vertices, axis=2)
    np.testing.assert_allclose(
        scene.arrays["clip.0.errors"][0, 0], errors.mean(axis=1), atol=1e-3 * np.ptp(rest)
    )


@pytest.mark.slow
def test_a_report_links_its_page_and_turns_the_character(tmp_path, capsys):
    Image = pytest.importorskip("PIL.Image")
    file = tmp_path / "lbs.understudy"
    tube_subjects()[1].deformer.save(file)
    report = tmp_path / "report.html"
    code, said, _ = run(capsys, "evaluate", file, "--rig", "tube", "--report", report)
    assert code == 0
    assert f"Page: {tmp_path / 'page.html'}" in said
    text = report.read_text()
    assert 'href="page.html"' in text
    page = (tmp_path / "page.html").read_text()
    assert 'id="scene"' in page
    picture = re.search(r'class="turntable"[^>]*base64,([^"]+)"', text).group(1)
    turning = Image.open(io.BytesIO(base64.b64decode(picture)))
    assert turning.n_frames > 10
    assert turning.info["loop"] == 0
    assert len(picture) < 400_000


@pytest.mark.slow
def test_export_writes_a_page(tmp_path, capsys):
    names = []
    for subject in tube_subjects():
        names.append(tmp_path / f"{subject.label}.understudy")
        subject.deformer.save(names[-1])
    page = tmp_path / "tube.html"
    _, said, _ = run(capsys, "export", names[0], page, "--beside", names[1], "--rig", "tube")
    assert "clip         wave: 60 frames, with the original" in said
    assert page.stat().st_size < 3e6
    again = tmp_path / "one.html"
    run(capsys, "export", names[0], again, "--rig", "tube", "--clip", "whip")
    assert again.exists()


@pytest.mark.parametrize(
    ("out", "options", "problem"),
    [
        ("x.html", ["--half"], "pages have no such option"),
        ("x.html", ["--clip", "wafe", "--rig", "tube"], "wave"),
        ("x.onnx", ["--beside", "lbs.understudy"], "--beside is for pages"),
    ],
)
def test_options_that_do_not_fit_a_page(tmp_path, capsys, out, options, problem):
    file = tmp_path / "lbs.understudy"
    tube_subjects()[1].deformer.save(file)
    code, _, said = run(capsys, "export", file, tmp_path / out, *options)
    assert code == 2
    assert problem in said


@pytest.mark.parametrize(
    ("things", "problem"),
    [
        (["tube", "x.understudy"], "or one rig"),
        (["tube", "face"], "one rig at a time"),
        (["tube", "--clip", "wave"], "belong to .understudy files"),
        (["missing.understudy"], "no such file"),
        (["missing.npz"], "missing.npz"),
    ],
)
def test_what_cannot_be_viewed(capsys, things, problem):
    code, _, said = run(capsys, "view", "--no-browser", *things)
    assert code == 2
    assert problem in said


@pytest.mark.slow
def test_compress_writes_a_page(tmp_path, capsys):
    vertices, faces, rest = bending_strip(9)
    np.savez(tmp_path / "strip.npz", vertices=vertices, faces=faces, rest=rest)
    page = tmp_path / "strip.html"
    code, _, _ = run(
        capsys, "compress", tmp_path / "strip.npz", "-o", tmp_path / "strip.understudy",
        "--bones", "3", "--page", page,
    )  # fmt: skip
    assert code == 0
    assert 'id="scene"' in page.read_text()

"""`understudy compress` to a file of an engine: its skeleton, and both errors."""

import json

import numpy as np
import pytest
from command_line import run


@pytest.fixture
def sequence(strip, tmp_path):
    np.savez(
        tmp_path / "strip.npz",
        vertices=strip.vertices,
        faces=strip.mesh.polygon_vertices.reshape(-1, 4),
        rest=strip.mesh.vertices,
        frame_rate=24.0,
    )
    return tmp_path / "strip.npz"


@pytest.mark.slow
def test_the_default_is_one_skeleton_of_rotations(sequence, strip, written, capsys, tmp_path):
    out, figures = tmp_path / "strip.character", tmp_path / "figures.json"
    code, text, err = run(
        capsys, "compress", sequence, "-o", out, "--set", "bones=2", "--json", figures
    )
    assert code == 0, err
    made = written["strip.character"]
    linear = made.clips[0].world_from_bone[..., :3]
    squares = np.swapaxes(linear, -1, -2) @ linear
    np.testing.assert_allclose(squares, np.broadcast_to(np.eye(3), squares.shape), atol=1e-8)
    assert made.skin.influences <= 4
    assert made.skeleton.parents.tolist() == [-1, 0]
    assert made.clips[0].frame_rate == 24.0
    numbers = json.loads(figures.read_text())
    distance = np.linalg.norm(made.evaluate_clip(made.clips[0]) - strip.vertices, axis=2)
    assert numbers["mean"] == pytest.approx(distance.mean(), rel=1e-4)
    assert "2 joints in one skeleton" in text


@pytest.mark.parametrize("options", [("--transforms", "affine"), ("--method", "two_layer")])
def test_bones_that_are_asked_for_become_pairs(options, sequence, written, capsys, tmp_path):
    out, figures = tmp_path / "strip.character", tmp_path / "figures.json"
    code, text, err = run(
        capsys, "compress", sequence, "-o", out, "--bones", 3, *options, "--json", figures
    )
    assert code == 0, err
    made = written["strip.character"]
    assert made.skin.influences <= 4
    assert (made.skin.weight >= 0).all()
    assert len(made.skeleton.roots) == 1
    assert "pairs of joints" in text
    numbers = json.loads(figures.read_text())
    assert numbers["mean"] < 0.02

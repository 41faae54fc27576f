"""`understudy reduce`: skins of other programs, with and without example poses."""

import numpy as np
import pytest
from command_line import run

from understudy import Deformer, FileError
from understudy.io.npz import read_npz_skin
from understudy.io.registry import write_character


def dense_skin(tmp_path, **changes):
    """A strip with smooth weights of six bones, and twelve poses."""
    side = np.stack(np.meshgrid(np.linspace(0, 4, 33), np.linspace(0, 1, 6), indexing="ij"), -1)
    rest = np.pad(side.reshape(-1, 2), ((0, 0), (0, 1))).astype(np.float32)
    corner = (np.arange(32)[:, None] * 6 + np.arange(5)).reshape(-1)
    faces = np.stack([corner, corner + 6, corner + 7, corner + 1], axis=1)
    weights = np.exp(-((rest[:, :1] + 0.3 * rest[:, 1:2] - np.linspace(0, 4, 6)) ** 2))
    weights /= weights.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    transforms = np.tile(np.eye(3, 4), (12, 6, 1, 1))
    transforms[..., :3] += 0.1 * rng.normal(size=(12, 6, 3, 3))
    transforms[..., 3] += 0.1 * rng.normal(size=(12, 6, 3))
    point = np.pad(rest, ((0, 0), (0, 1)), constant_values=1)
    vertices = np.einsum("vb,tbij,vj->tvi", weights, transforms, point)
    arrays = {
        "rest": rest,
        "faces": faces,
        "weights": weights,
        "transforms": transforms,
        "vertices": vertices,
    }
    arrays = {name: value for name, value in {**arrays, **changes}.items() if value is not None}
    path = tmp_path / "skin.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("method", ["two_layer", "k_largest", "geometry"])
def test_a_skin_of_another_program_is_reduced(tmp_path, capsys, method):
    skin, out = dense_skin(tmp_path), tmp_path / "out.understudy"
    code, shown, _ = run(capsys, "reduce", method, str(skin), "-o", str(out))
    assert code == 0
    assert "6 before" in shown
    assert "NormDistort" in shown
    reduced = Deformer.load(out)
    assert reduced.method == method
    assert reduced.skin.influences <= 4
    true = np.load(skin)["vertices"]
    assert np.abs(reduced.deform_clip(0) - true).mean() < 0.05


def test_without_example_poses_the_weights_alone_are_approximated(tmp_path, capsys):
    bare = dense_skin(tmp_path, transforms=None, vertices=None)
    out = tmp_path / "out.understudy"
    code, shown, _ = run(capsys, "reduce", "two_layer", str(bare), "-o", str(out))
    assert code == 0
    assert "weights alone" in shown
    code, _, err = run(capsys, "reduce", "geometry", str(bare), "-o", str(out))
    assert code == 2
    assert "example poses" in err
    whole = dense_skin(tmp_path)
    by = {}
    for option in ((), ("--weights-alone",)):
        assert run(capsys, "reduce", "two_layer", str(whole), "-o", str(out), *option)[0] == 0
        by[option] = Deformer.load(out)
    assert "e" in by[()].training
    assert "e" not in by["--weights-alone",].training


def test_a_characters_file_is_reduced(tmp_path, capsys):
    moves = np.tile(np.eye(3, 4), (8, 6, 1, 1))
    moves[..., 3] = 0.2 * np.random.default_rng(0).normal(size=(8, 6, 3))
    character = read_npz_skin(dense_skin(tmp_path, transforms=moves, vertices=None))
    file, out = tmp_path / "strip.glb", tmp_path / "out.understudy"
    write_character(character, file)
    code, shown, _ = run(
        capsys, "reduce", "two_layer", str(file), "-o", str(out), "--preset", "paper"
    )
    assert code == 0, shown
    reduced = Deformer.load(out)
    assert reduced.provenance["config"]["dictionary"] == "weights"
    assert reduced.skin.virtual_weight is not None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"weights": np.ones((198, 6))}, "sum to one"),
        ({"weights": np.full((198, 6), np.nan)}, "weights"),
        ({"weights": np.full((7, 6), 1 / 6)}, "weights"),
        ({"faces": None}, "faces"),
        ({"faces": np.array([[0, 1, 9999]])}, "9999|range|198"),
        ({"rest": None, "vertices": None}, "rest"),
        ({"transforms": np.zeros((3, 5, 3, 4))}, "transforms"),
        ({"vertices": np.zeros((3, 198, 3))}, "vertices"),
    ],
)
def test_wrong_skins_are_refused(tmp_path, changes, text):
    with pytest.raises((FileError, ValueError), match=text):
        read_npz_skin(dense_skin(tmp_path, **changes))


def test_wrong_methods_and_files_are_refused(tmp_path, capsys):
    out = str(tmp_path / "out.understudy")
    code, _, err = run(capsys, "reduce", "fdda", str(dense_skin(tmp_path)), "-o", out)
    assert code == 2
    assert "two_layer" in err
    np.savez(tmp_path / "bare.npz", vertices=np.zeros((2, 3, 3)))
    code, _, err = run(capsys, "reduce", "k_largest", str(tmp_path / "bare.npz"), "-o", out)
    assert code == 2
    assert "weights" in err

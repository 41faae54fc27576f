"""Deformers in 16 bits: half the bytes, the same shape."""

import json
from dataclasses import replace

import numpy as np
import pytest
from builders import full_deformer
from parity.kinds import KINDS, drivers, upright
from safetensors import safe_open

from understudy import Basis, Deformer, Features, InputError, Net
from understudy.cli import app as cli
from understudy.core.storage import from_grid, grid_of, is_half
from understudy.runtime import native as runtime
from understudy_benchmarks import runtime_cases


@pytest.mark.parametrize("name", ["full-linear-direct-tanh", "full-linear-direct-relu", "wide"])
def test_positions_stay_within_a_twentieth_of_a_thousandth_of_the_size(name):
    deformer = KINDS[name]()
    bones, controls = drivers(deformer)
    size = np.ptp(deformer.mesh.vertices, axis=0).max()
    error = np.abs(
        deformer.half().deform_reference(bones, controls)
        - deformer.deform_reference(bones, controls)
    ).max()
    assert (
        0 < error < 3e-4 * size
    )  # these have displacements as large as the mesh; see `bench runtime` for characters


def test_features_far_from_zero_do_not_suffer():
    """A bone 1000 units away that moves by one: rounding its weight alone would shift the result by
    more than the motion itself.
    """
    base = KINDS["controls-only"]()
    net = Net([0], ([[7.7]],), ([-7700.0],), [0])
    basis = Basis([0], [[1.0], [0.0], [0.0]], [0])
    deformer = replace(base, nets=(net,), bases=(basis,), features=Features([0], [999.0], [1001.0]))
    controls = np.array([[999.0, 0], [1000.3, 0], [1001.0, 0]])
    error = np.abs(
        deformer.half().deform_reference(controls=controls)
        - deformer.deform_reference(controls=controls)
    ).max()
    assert error < 7.7 * 2.0**-10
    plain = abs(float(np.float16(7.7)) - 7.7) * 1000
    assert plain > 50 * error  # what it would have been


def test_the_file_is_smaller_and_round_trips(tmp_path):
    deformer = KINDS["wide"]()
    deformer.save(tmp_path / "full")
    deformer.save(tmp_path / "half", dtype=np.float16)
    loaded = Deformer.load(tmp_path / "half")
    assert loaded.storage == "float16"
    loaded.save(tmp_path / "again")
    assert (tmp_path / "half").read_bytes() == (tmp_path / "again").read_bytes()
    values = lambda path: sum(
        a.nbytes
        for n, a in arrays(path).items()
        if n.startswith(("nets.weights", "nets.biases", "bases.matrices"))
    )
    assert values(tmp_path / "half") < 0.55 * values(tmp_path / "full")
    assert header(tmp_path / "full")["format_version"] == 1
    assert header(tmp_path / "half")["format_version"] == 1


@pytest.fixture(scope="module")
def character():
    """A tenth of the tigress of `bench runtime`, as high: a rigid skin, and a network and a basis
    for every bone.
    """
    return runtime_cases._fdda(1620, 8, 4, 64, 0)


@pytest.fixture(scope="module")
def face():
    """What `bench runtime` measures: uneven numbers of influences and of displacements."""
    return runtime_cases.face()


@pytest.mark.parametrize("name", ["character", "face"])
def test_half_is_half_the_bytes(request, tmp_path, name):
    deformer = request.getfixturevalue(name)
    deformer.save(tmp_path / "full")
    deformer.save(tmp_path / "half", dtype=np.float16)
    assert (tmp_path / "half").stat().st_size <= 0.5 * (tmp_path / "full").stat().st_size
    if runtime.compiled is not None:
        assert runtime.runtime_of(deformer.half()).bytes <= 0.5 * runtime.runtime_of(deformer).bytes


@pytest.mark.parametrize("name", ["character", "face"])
def test_half_moves_no_vertex_by_more_than_a_twentieth_of_a_thousandth_of_the_height(request, name):
    deformer = request.getfixturevalue(name)
    poses = runtime_cases.random_poses(deformer, 8)
    moved = deformer.half().deform_reference(*poses) - deformer.deform_reference(*poses)
    assert 0 < np.linalg.norm(moved, axis=2).max() < 5e-5 * deformer.mesh.height


@pytest.mark.parametrize("name", ["character", "face"])
def test_the_runtime_unpacks_many_tasks_and_windows(request, name):
    half = request.getfixturevalue(name).half()
    bones, controls = runtime_cases.random_poses(half, 17)  # a crowd, and one that is left
    np.testing.assert_allclose(
        half.deform(bones, controls),
        half.deform_reference(bones, controls),
        rtol=0,
        atol=1e-5 * half.mesh.height,
    )


def test_what_half_rounds_is_on_grids():
    deformer = upright(full_deformer())
    deformer = replace(
        deformer, mesh=replace(deformer.mesh, corner_uvs=0.4 * deformer.mesh.corner_uvs)
    )
    half = deformer.half()
    assert grid_of(deformer.mesh.vertices) is None
    for values in (
        half.mesh.vertices,
        half.mean,
        half.mesh.vertices + half.mean,
        half.mesh.corner_uvs,
        half.skin.weight.reshape(-1, 1),
    ):
        numbers, grid = grid_of(values)
        np.testing.assert_array_equal(from_grid(numbers, grid), values)
        assert (np.log2(grid[1]) % 1 == 0).all()
    assert (half.skin.weight.sum(axis=1, dtype=np.float64) == 1).all()
    assert np.abs(half.skin.weight - deformer.skin.weight).max() <= 2.0**-15
    # Rounded together: rest and mean each by half a step would be a step.
    moved = half.mesh.vertices.astype(float) + half.mean - deformer.mesh.vertices - deformer.mean
    assert np.linalg.norm(moved, axis=1).max() < 3e-5 * deformer.mesh.height
    assert all(is_half(bias) for net in half.nets for bias in net.biases[1:])


def test_what_is_the_same_everywhere_stays_exactly_that():
    deformer = upright(full_deformer())
    flat = replace(
        deformer.mesh, vertices=deformer.mesh.vertices * [1, 1, 0] + np.array([0, 0, 0.3])
    )
    even = np.full_like(deformer.skin.weight, 1 / 3)
    half = replace(deformer, mesh=flat, mean=None, skin=replace(deformer.skin, weight=even)).half()
    assert (half.mesh.vertices[:, 2] == np.float32(0.3)).all()
    np.testing.assert_array_equal(half.skin.weight, even)
    assert grid_of(half.mesh.vertices) is not None
    assert grid_of(half.skin.weight.reshape(-1, 1)) is not None


def test_what_a_grid_would_round_too_far_stays_as_it_is(tmp_path):
    lying = full_deformer()
    weight = lying.skin.weight + np.array([40.0, -40.0, 0.0])
    lying = replace(
        lying,
        skin=replace(lying.skin, weight=weight),
        mesh=replace(lying.mesh, corner_uvs=10 * lying.mesh.corner_uvs),
    )
    half = lying.half()
    np.testing.assert_array_equal(half.mesh.vertices, lying.mesh.vertices)
    np.testing.assert_array_equal(half.mesh.corner_uvs, lying.mesh.corner_uvs)
    np.testing.assert_array_equal(half.skin.weight, lying.skin.weight)
    half.save(tmp_path / "half")
    np.testing.assert_array_equal(Deformer.load(tmp_path / "half").skin.weight, lying.skin.weight)


def test_grids_are_found_where_they_are():
    flat = np.zeros((3, 2), np.float32)
    for values in (
        flat,
        flat + 7,
        flat + np.array([[0], [65535], [3]]),
        1e6 + flat + np.array([[0], [0.5], [0.25]]),
    ):
        numbers, grid = grid_of(values.astype(np.float32))
        np.testing.assert_array_equal(from_grid(numbers, grid), values.astype(np.float32))
    assert grid_of(np.array([[0], [65536], [1]], np.float32)) is None
    assert grid_of(np.array([[0], [1e-30], [1e30]], np.float32)) is None
    assert grid_of(np.zeros((0, 3), np.float32)) is None


def arrays(path):
    with safe_open(str(path), framework="numpy") as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)


def header(path):
    with safe_open(str(path), framework="numpy") as opened:
        return json.loads(opened.metadata()["understudy"])


def test_numbers_that_do_not_fit_are_refused():
    deformer = full_deformer()
    big = replace(deformer, bases=(Basis([0], [[7e4], [0], [0]], [0]),))
    with pytest.raises(InputError, match="exceeds the largest 16-bit float, 65504"):
        big.half()
    with pytest.raises(InputError, match=r"numbers of net 0: 16-bit floats cannot represent"):
        replace(deformer, storage="float16")
    with pytest.raises(InputError, match="in float16 already"):
        deformer.half().save("never", dtype=np.float32)
    with pytest.raises(InputError, match="unknown dtype 'float64'"):
        deformer.save("never", dtype=np.float64)
    assert deformer.half().half().storage == "float16"


def test_the_command_line_writes_it(tmp_path):
    KINDS["wide"]().save(tmp_path / "a.understudy")
    cli.main(["export", str(tmp_path / "a.understudy"), str(tmp_path / "b.understudy"), "--half"])
    assert Deformer.load(tmp_path / "b.understudy").storage == "float16"


def test_a_bias_beyond_16_bits_is_refused():
    base = KINDS["controls-only"]()
    net = Net([0], (np.ones((2, 1)), np.ones((1, 2))), (np.zeros(2), [1e5]), [0], "tanh")
    basis = Basis([0], [[1e-5], [0.0], [0.0]], [0])
    deformer = replace(base, nets=(net,), bases=(basis,), features=Features([0], [-1.0], [1.0]))
    with pytest.raises(InputError, match=r"net biases: 100000 exceeds .* keep this deformer"):
        deformer.half()

"""ONNX Runtime on the exported graph = ours, for every kind of deformer."""

from dataclasses import replace

import numpy as np
import pytest
from builders import chain_skeleton, grid_mesh, random_motion
from parity.kinds import KINDS, drivers

from understudy import Basis, Deformer, Features, MissingDependencyError, Net, Skin
from understudy.cli import app as cli
from understudy.core.features import raw_features
from understudy.core.networks import NetGroups
from understudy.io.onnx import onnx_model, write_onnx
from understudy.io.onnx.groups import buckets, rigid_groups
from understudy_benchmarks.onnx_nets import onnx_nets_inputs, onnx_nets_model

ort = pytest.importorskip("onnxruntime", reason="onnxruntime checks the exported graph")


@pytest.mark.parametrize("name", KINDS)
def test_the_graph_gives_the_same_vertices(name, tmp_path):
    deformer = KINDS[name]()
    bones, controls = drivers(deformer, 5)
    write_onnx(deformer, tmp_path / "a.onnx")
    session = ort.InferenceSession(tmp_path / "a.onnx", providers=["CPUExecutionProvider"])
    given = {"world_from_bone": bones, "controls": controls}
    wanted = {entry.name: given[entry.name].astype(np.float32) for entry in session.get_inputs()}
    (got,) = session.run(None, wanted)
    size = max(deformer.mesh.height, float(np.ptp(deformer.mesh.vertices, axis=0).max()))
    np.testing.assert_allclose(
        got, deformer.deform_reference(bones, controls), rtol=0, atol=1e-5 * size
    )


def test_the_command_writes_it(tmp_path, capsys):
    KINDS["wide-half"]().save(tmp_path / "a.understudy")
    cli.main(["export", str(tmp_path / "a.understudy"), str(tmp_path / "a.onnx")])
    assert "a.onnx" in capsys.readouterr().out
    ort.InferenceSession(tmp_path / "a.onnx", providers=["CPUExecutionProvider"])


def test_an_unknown_format_is_named(tmp_path, capsys):
    KINDS["rigid"]().save(tmp_path / "a.understudy")
    with pytest.raises(SystemExit):
        cli.main(["export", str(tmp_path / "a.understudy"), str(tmp_path / "a.xyz")])
    assert "a file that ends in '.xyz'; use" in capsys.readouterr().err


def test_without_the_package_the_error_names_the_install_command(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'understudy\[onnx\]'"):
        write_onnx(KINDS["rigid"](), tmp_path / "a.onnx")


def _grouped(sizes, components=(5,), still=0, reads_root=False, seed=0):
    """A rigid skin with one network and one basis per bone, as `fdda` makes it.

    sizes       vertices of each bone, which lie scattered over the mesh
    components  of each basis, in turn
    still       vertices without a basis
    """
    rng = np.random.default_rng(seed)
    bones = len(sizes)
    skeleton = chain_skeleton(bones)
    owner = rng.permutation(np.repeat(np.arange(bones), sizes))
    mesh = grid_mesh(len(owner) // 3, 3, unit="cm")
    owner = owner[: mesh.vertex_count]
    columns = np.arange(0 if reads_root else 12, 12 * bones)
    nets, bases, free = [], [], 0
    for bone in range(bones):
        near = np.unique(np.clip([bone - 1, bone], 0 if reads_root else 1, bones - 1))
        inputs = (12 * near[:, None] + np.arange(12)).reshape(-1) - columns[0]
        width = components[bone % len(components)]
        outputs = np.arange(free, free := free + width)
        layers = [len(inputs), 9, 7, width]
        weights = tuple(rng.normal(size=(b, a)) * 0.3 for a, b in zip(layers, layers[1:]))
        nets.append(Net(inputs, weights, tuple(rng.normal(size=b) for b in layers[1:]), outputs))
        vertices = np.flatnonzero(owner == bone)
        vertices = vertices[: max(1, len(vertices) - still)]
        matrix = rng.normal(size=(3 * len(vertices), width)) * 0.05
        bases.append(Basis(vertices, matrix, outputs))
    low = np.full(len(columns), -0.8)
    return Deformer(
        mesh,
        skeleton,
        skin=Skin.rigid(owner),
        features=Features(columns, low, -low),
        nets=tuple(nets[::-1]),
        bases=tuple(bases),
        mean=rng.normal(size=(mesh.vertex_count, 3)) * 0.05,
    )


GROUPED = {
    "even": lambda: _grouped([30] * 5),
    "static vertices": lambda: _grouped([30] * 5, still=4),
    "widths": lambda: _grouped([30] * 6, components=(5, 3, 4)),
    "several sizes": lambda: _grouped([90, 60, 12, 9, 80, 9]),
    "root": lambda: _grouped([30] * 5, reads_root=True),
    "rest in the basis": lambda: _grouped([30] * 5, components=(7, 6), still=4),
    "half": lambda: _grouped([33] * 5).half(),
}


@pytest.mark.parametrize("poses", [1, 5])
@pytest.mark.parametrize("name", GROUPED)
def test_groups_of_rigid_vertices_give_the_same_vertices(name, poses):
    deformer = GROUPED[name]()
    assert rigid_groups(deformer) is not None
    bones = random_motion(deformer.skeleton, poses)
    model = onnx_model(deformer).SerializeToString()
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {"world_from_bone": bones.astype(np.float32)})
    truth = deformer.deform_reference(bones)
    np.testing.assert_allclose(got, truth, rtol=0, atol=1e-5 * deformer.mesh.height)


def test_several_sizes_are_padded_little():
    groups = rigid_groups(GROUPED["several sizes"]())
    sizes = [len(group.vertices) for group in groups]
    assert sizes == sorted(sizes, reverse=True)
    runs = buckets(groups)
    assert 1 < len(runs) < len(groups)
    padded = sum(max(sizes[run]) * len(sizes[run]) for run in runs)
    assert padded <= 1.3 * sum(sizes)


@pytest.mark.parametrize("change", ["blend", "two bones", "shared coefficient"])
def test_what_is_no_group_is_not_taken_for_one(change):
    deformer = _grouped([30] * 5)
    skin = deformer.skin
    if change == "blend":
        deformer = replace(deformer, skin=replace(skin, blend="dual_quaternion"))
    elif change == "two bones":
        deformer = replace(deformer, skin=Skin.rigid(np.roll(skin.bone_index[:, 0], 1)))
    else:
        first, second, *rest = deformer.bases
        second = replace(second, coefficients=first.coefficients)
        deformer = replace(deformer, bases=(first, second, *rest))
    assert rigid_groups(deformer) is None


def test_a_flat_or_vanished_parent_gives_finite_vertices():
    deformer = _grouped([30] * 5)
    bones = random_motion(deformer.skeleton, 3)
    bones[0, 1, :, :3] = 0  # a common way to hide a part
    bones[1, 1, :, 2] = 0
    bones[2, 1, :, :3] *= 1e-3
    model = onnx_model(deformer).SerializeToString()
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {"world_from_bone": bones.astype(np.float32)})
    assert np.isfinite(got).all()
    truth = deformer.deform_reference(bones)
    np.testing.assert_allclose(got[2], truth[2], rtol=0, atol=1e-5 * deformer.mesh.height)


@pytest.mark.parametrize("name", GROUPED)
def test_the_plain_graph_gives_the_displacements(name):
    deformer = GROUPED[name]()
    bones = random_motion(deformer.skeleton, 1)
    raw = raw_features(deformer.skeleton, bones, None, 1)[:, deformer.features.columns]
    features = np.clip(raw, deformer.features.low, deformer.features.high)
    model = onnx_nets_model(deformer).SerializeToString()
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    (got,) = session.run(None, onnx_nets_inputs(deformer, features))
    nets = NetGroups(deformer.nets, deformer.features.count, deformer.coefficient_count)
    coefficients = nets(features)[0]
    expected = np.concatenate(
        [(basis.matrix @ coefficients[basis.coefficients]) for basis in deformer.bases]
    )
    # Padding is zero, and the order is that of stacks.
    present = np.sort(got[np.abs(got) > 0])
    np.testing.assert_allclose(present, np.sort(expected), atol=1e-5)

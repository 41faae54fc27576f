"""ONNX Runtime on the exported graph = ours, for every kind of deformer."""

import numpy as np
import pytest
from parity.kinds import KINDS, drivers

from understudy import MissingDependencyError
from understudy.cli import app as cli
from understudy.io.onnx import write_onnx

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

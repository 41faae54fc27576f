"""`bench runtime` on small deformers: every row and figure is there; the figures themselves are for
a quiet machine.
"""

import json
import math

import numpy as np
import pytest

from understudy import InputError
from understudy.cli import app as cli
from understudy.methods.differential.differential import DifferentialConfig
from understudy.runtime import native as runtime
from understudy.runtime.timing import take_turns
from understudy.system.progress import SILENT
from understudy_benchmarks import Request, runtime_cases, runtime_contenders
from understudy_benchmarks import runtime as bench
from understudy_benchmarks._floor import Floor

pytestmark = pytest.mark.skipif(
    runtime.compiled is None,
    reason="installed without a compiler: there is no compiled runtime to measure",
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """The same shapes with few vertices, and short measurements."""
    monkeypatch.setitem(
        bench.CHARACTERS, "tigress", lambda seed: runtime_cases._fdda(300, 3, 2, 8, seed)
    )
    monkeypatch.setattr(runtime_cases, "_ELEPHANT_VERTICES", 400)
    monkeypatch.setattr(runtime_contenders, "CROWD", 5)
    monkeypatch.setitem(bench.SIZES, "quick", bench._Size(("tigress", "elephant"), 2, 0.02, 20, 1))


def test_every_row_and_figure_is_there(tmp_path, capsys):
    cli.main(
        [
            "bench",
            "runtime",
            "--quick",
            "--json",
            str(tmp_path / "a.json"),
            "-o",
            str(tmp_path / "out"),
        ]
    )
    shown = capsys.readouterr().out
    rows = {
        (row["case"], row["method"]): row
        for row in json.loads((tmp_path / "a.json").read_text())["rows"]
    }
    peers = [name for name in bench.PEERS if bench.find_spec(name.split("-")[0])]
    assert set(rows) == {("tigress", m) for m in (*bench.OURS, *peers)} | {
        ("elephant", m) for m in bench.SKINS
    }
    for (_, method), row in rows.items():
        for name in ("ms_1", "ms_2", "ms_p99_1", "ms_p99_2"):
            assert math.isfinite(row[name])
            assert row[name] > 0
        if method not in peers:
            limits = [
                f"{kind}_{figure}_{n}"
                for kind in ("floor", "arithmetic")
                for figure in ("ms", "p99")
                for n in (1, 2)
            ]
            assert all(row[name] > 0 for name in ("bytes", *limits))
    ours, half = rows["tigress", "understudy"], rows["tigress", "understudy-fp16"]
    assert all(ours[name] > 0 for name in ("crowd_ms_2", "busy_ms_1", "busy_ms_2"))
    assert half["bytes"] < ours["bytes"]
    assert ours["max_pct"] < 1e-3 < 0.005
    assert half["max_pct"] < 0.005
    assert "x the floor" in shown
    assert "x the arithmetic" in shown
    assert "two_layer is" in shown


def test_the_papers_sizes():
    face, config = runtime_cases.face(), DifferentialConfig()
    hidden = [net for net in face.nets if len(net.weights) > 1]
    assert face.mesh.vertex_count == 4403
    assert len(hidden) == config.regions + round(config.anchors * 4403)
    assert {tuple(len(b) for b in net.biases[:-1]) for net in hidden} == {
        config.hidden,
        config.anchor_hidden,
    }
    assert (
        13.2e6
        < sum(w.nbytes for net in face.nets for w in net.weights)
        + sum(basis.matrix.nbytes for basis in face.bases)
        < 14.2e6
    )
    bones, controls = runtime_cases.random_poses(face, 17)  # a crowd, and one that is left
    np.testing.assert_allclose(
        face.deform(bones, controls),
        face.deform_reference(bones, controls),
        atol=1e-5 * face.mesh.height,
    )


def test_wrong_names_are_refused(tmp_path):
    with pytest.raises(InputError, match="unknown method of bench runtime 'ort'"):
        bench.run(Request("quick", methods=("ort",), out=tmp_path), SILENT)
    with pytest.raises(InputError, match="unknown case of bench runtime 'tiger'"):
        bench.run(Request("quick", cases=("tiger",), out=tmp_path), SILENT)


def test_without_the_compiled_runtime_there_is_nothing_to_measure(monkeypatch, tmp_path):
    monkeypatch.setattr(runtime, "compiled", None)
    with pytest.raises(InputError, match="without a compiler"):
        bench.run(Request("quick", out=tmp_path), SILENT)


def test_arithmetic_takes_longer_the_more_there_is():
    floor = Floor(256, 2, runtime.compiled.instruction_set())
    times = take_turns(
        {n: lambda i, n=n: floor.multiply_add(n) for n in (1_000_000, 8_000_000)}, 3, 0.05
    )
    assert times[8_000_000].ms > 2 * times[1_000_000].ms


@pytest.mark.parametrize(
    ("made", "nets", "bones", "components"),
    [(runtime_cases.tigress, 67, 26.9, 22.6), (runtime_cases.astrid, 45, 14.6, 24.5)],
)
def test_characters_have_the_sizes_of_table_1_of_the_paper(made, nets, bones, components):
    deformer = made()
    assert len(deformer.nets) == nets
    assert np.isclose(np.mean([len(net.inputs) / 12 for net in deformer.nets]), bones, atol=0.05)
    assert np.isclose(np.mean([len(net.outputs) for net in deformer.nets]), components, atol=0.05)

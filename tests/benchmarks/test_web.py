"""`bench web` on a small deformer: every row and figure is there."""

import json
import shutil

import pytest
from needs import missing

from understudy import InputError
from understudy.cli import app as cli
from understudy.runtime import native
from understudy.system.progress import SILENT
from understudy_benchmarks import Request, runtime, runtime_cases, web

pytestmark = pytest.mark.skipif(
    native.compiled is None,
    reason="installed without a compiler: there is no compiled runtime to measure",
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    if shutil.which("node") is None:
        missing("node is not here; apt-get install nodejs")
    monkeypatch.setitem(
        runtime.CHARACTERS, "tigress", lambda seed: runtime_cases._fdda(300, 3, 2, 8, seed)
    )
    monkeypatch.setitem(web.SIZES, "quick", web._Size(2, 0.01))
    monkeypatch.setattr(web, "_WARM_CALLS", 5)


def test_every_row_and_figure_is_there(tmp_path, capsys):
    before = native.compiled.instruction_set()
    path = tmp_path / "a.json"
    cli.main(["bench", "web", "--quick", "--cases", "tigress", "--json", str(path)])
    rows = {row["method"]: row for row in json.loads(path.read_text())["rows"]}
    assert set(rows) == set(web.METHODS)
    for row in rows.values():
        assert 0 < row["ms_1"] <= row["ms_p99_1"]
        assert row["max_pct"] < 1e-3  # 1e-5 of the height
    assert "wasm takes" in capsys.readouterr().out
    assert native.compiled.instruction_set() == before


def test_wrong_names_are_refused():
    with pytest.raises(InputError, match="method of bench web"):
        web.run(Request(size="quick", methods=("asm",)), SILENT)
    with pytest.raises(InputError, match="case of bench web"):
        web.run(Request(size="quick", cases=("elephant",)), SILENT)

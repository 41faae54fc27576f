"""`bench blender` on a small rig: the rows, their figures and the comparison of processes."""

import json
from pathlib import Path

import needs
import numpy as np
import pytest

from understudy.io.blender import launch
from understudy.rigs.blender.rig import BlenderRig
from understudy.rigs.sampling import gaussian
from understudy.system.errors import FileError, InputError, MissingDependencyError
from understudy_benchmarks import Request, blender, run
from understudy_benchmarks.blender_cases import Case

BUILD = Path(__file__).parents[1] / "rigs" / "inside_blender" / "build_blend.py"


@pytest.mark.slow
def test_rows_of_a_small_rig(tmp_path, monkeypatch):
    try:
        launch.find_blender()
    except MissingDependencyError as problem:
        needs.missing(str(problem))
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "cache"))
    launch.run_script(BUILD, {"folder": str(tmp_path)}, timeout=120)

    def small_case(name, data, out, counts, seed, progress):
        rig = BlenderRig(tmp_path / "arm.blend")
        training, test = (
            rig.evaluate(gaussian(rig.controls, count, seed=k)) for k, count in enumerate(counts)
        )
        return Case(name, rig, training, test)

    monkeypatch.setattr(blender, "load_case", small_case)
    outcome = run("blender", Request("quick", out=tmp_path / "out", cases=("blenrig_body",)))
    rows = {
        row["method"]: row for row in json.loads(json.dumps(outcome.as_json("blender")))["rows"]
    }
    assert list(rows) == ["understudy", "lbs-4", "blender"]
    for row in rows.values():
        assert np.isfinite([row["mean"], row["p99"], row["ms_1"]]).all()
        assert row["ms_1"] > 0
    assert rows["blender"]["mean"] == 0
    assert rows["blender"]["speedup_2"] > 0
    assert rows["understudy"]["mean"] > 0
    assert any("Blender / understudy" in note for note in outcome.notes)


def test_wrong_names_and_missing_data(tmp_path):
    with pytest.raises(InputError, match="case of bench blender"):
        run("blender", Request("quick", cases=("blenrig_hand",)))
    with pytest.raises(FileError, match="UNDERSTUDY_DATA"):
        run("blender", Request("quick", data=tmp_path, out=tmp_path))

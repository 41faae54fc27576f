"""What deployment needs must work without torch, and without anything of the command line."""

import subprocess
import sys

FORBIDDEN = ("torch", "typer", "rich", "zarr", "matplotlib", "PIL")


def run(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_importing_understudy_imports_none_of_the_heavy_packages():
    loaded = run(
        "import sys, understudy; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    ).split()
    assert not set(FORBIDDEN) & set(loaded)


def test_loading_and_deforming_works_where_torch_cannot_be_imported(tmp_path):
    from builders import full_deformer

    full_deformer().save(tmp_path / "a.understudy")
    code = f"""
import sys
for name in {FORBIDDEN!r}:
    sys.modules[name] = None  # any import of it now fails
import numpy as np, understudy
from understudy.methods import method_names
deformer = understudy.Deformer.load(sys.argv[1])
print(deformer.deform(np.tile(np.eye(3, 4), (2, 3, 1, 1)), np.zeros((2, 2))).shape, *method_names())
"""
    assert run(code, tmp_path / "a.understudy").split()[:3] == ["(2,", "24,", "3)"]


def test_fitting_without_torch_names_the_install_command():
    code = """
import sys
sys.modules["torch"] = None
from understudy.rigs import load_rig
from understudy.methods import method_type
rig = load_rig("tube")
try:
    method_type("fdda")().fit(rig.evaluate(rig.controls.rest[None]))
except ImportError as problem:
    print(problem)
"""
    assert "pip install 'understudy[fit]'" in run(code)

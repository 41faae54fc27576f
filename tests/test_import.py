"""What deployment needs works without SciPy, torch and the packages of the command line."""

import subprocess
import sys

from builders import full_deformer

OPTIONAL = ("scipy", "threadpoolctl", "torch", "typer", "rich", "zarr", "matplotlib", "PIL")
OPTIONAL += ("onnx", "pxr")


def run(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_importing_understudy_imports_none_of_the_optional_packages():
    loaded = run(
        "import sys, understudy; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    ).split()
    assert not set(OPTIONAL) & set(loaded)


def test_loading_and_deforming_works_where_no_optional_package_can_be_imported(tmp_path):
    full_deformer().save(tmp_path / "a.understudy")
    code = f"""
import sys
for name in {OPTIONAL!r}:
    sys.modules[name] = None  # any import of it now fails
import numpy as np, understudy
deformer = understudy.Deformer.load(sys.argv[1])
print(deformer.deform(np.tile(np.eye(3, 4), (2, 3, 1, 1)), np.zeros((2, 2))).shape)
"""
    assert run(code, tmp_path / "a.understudy").split() == ["(2,", "24,", "3)"]


def test_rooms_that_need_scipy_name_the_install_command():
    code = """
import importlib, sys
sys.modules["scipy"] = None
from understudy import MissingDependencyError
for room in ("methods", "export", "evaluation", "io.registry", "system.tasks",
             "core.levels_of_detail", "viewer.scene", "jobs"):
    try:
        importlib.import_module("understudy." + room)
    except MissingDependencyError as problem:
        assert "scipy" in str(problem) and "pip install 'understudy[fit]'" in str(problem), problem
        print(room)
"""
    assert len(run(code).split()) == 8


def test_without_torch_exactly_the_methods_that_need_it_name_the_install_command():
    code = """
import sys
sys.modules["torch"] = None
from understudy.methods import config_from_text, method_names, method_type
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian
rig = load_rig("tube")
poses = rig.evaluate(gaussian(rig.controls, 20, seed=0))
for name in method_names():
    kind = method_type(name)
    try:
        kind(config_from_text(kind.Config, kind.traits.quick)).fit(poses)
        refused = False
    except ImportError as problem:
        assert "pip install 'understudy[fit]'" in str(problem), problem
        refused = True
    assert refused == kind.traits.needs_torch, name
print("all", len(method_names()))
"""
    assert run(code).startswith("all ")

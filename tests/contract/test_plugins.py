"""A separate package adds a method, a rig, a format and a command without a change here.

It is installed into a folder of its own, which only child processes see.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from builders import chain_skeleton, grid_mesh, random_motion

from understudy import Character, CharacterClip, Skin
from understudy.io.registry import write_character

TESTS = Path(__file__).parents[1]
PACKAGE = TESTS / "plugin_package"


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Environment variables of a process that has the plug-in package installed."""
    pytest.importorskip("setuptools", reason="builds the plug-in package")
    target = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source")  # a build leaves files beside the sources
    for file in PACKAGE.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            copy = source / file.relative_to(PACKAGE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-build-isolation", "--no-deps", "--target", str(target)]
    done = subprocess.run([*pip, *offline, str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    path = os.pathsep.join(filter(None, [str(target), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path}


def python(environment, *arguments, cwd=None):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_its_method_passes_the_contract_suite(environment):
    suite = TESTS / "contract" / "test_every_method.py"
    said = python(environment, "-m", "pytest", suite, "-k", "nearest_bone", "-v", cwd=TESTS.parent)
    assert int(re.search(r"(\d+) passed", said)[1]) >= 14
    assert "skipped" not in said


@pytest.mark.slow
def test_all_four_work_together_on_the_command_line(environment, tmp_path):
    command = lambda *words: python(environment, "-m", "understudy", *words, cwd=tmp_path)
    assert "nearest_bone     Linear blend skinning by how well" in command("methods")
    assert "softness (float; default 0.5)" in command("methods", "nearest_bone")
    command("sample", "hinge", "-o", "hinge.zarr", "--count", "100", "--processes", "2")
    command("fit", "nearest_bone", "hinge.zarr", "-o", "hinge.understudy")
    assert "Hinge/random" in command("evaluate", "hinge.understudy")
    assert "count-vertices  Print how many vertices .understudy files have." in command("--help")
    helped = command("count-vertices", "--help")
    assert "Example:\n    understudy count-vertices hinge.understudy" in helped
    assert command("count-vertices", "--total", *2 * ["hinge.understudy"]).split() == ["36"]
    command("export", "hinge.understudy", "hinge.studio")
    weights = np.loadtxt(tmp_path / "hinge.studio")
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)
    angles = np.linspace(0, 1, 6)
    strip = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [2, 0, 0], [2, 1, 0.0]])
    frames = [strip + np.sin(a) * strip[:, :1] * [0, 0, 1] for a in angles]
    np.savetxt(tmp_path / "strip.studio", np.reshape(frames, (6, -1)))
    command("compress", "strip.studio", "-o", "strip.understudy", "--bones", "1")


@pytest.mark.slow
def test_its_formats_pass_the_contract_suite(environment):
    suite = TESTS / "contract" / "test_every_format.py"
    said = python(environment, "-m", "pytest", suite, "-k", "studio", "-v", cwd=TESTS.parent)
    assert int(re.search(r"(\d+) passed", said)[1]) >= 10
    assert "skipped" not in said


@pytest.mark.slow
def test_its_files_do_what_built_in_ones_do(environment, tmp_path):
    """A pair, a sequence of frames with a rest shape, a skin, a level of detail."""
    mesh = grid_mesh()
    skeleton = chain_skeleton(2)
    bones = random_motion(skeleton, 12, 0)
    weight = np.linspace(0, 1, mesh.vertex_count)[:, None]
    skin = Skin(np.tile([0, 1], (mesh.vertex_count, 1)), np.hstack([weight, 1 - weight]))
    clip = CharacterClip("take", bones, np.zeros((12, 0)), 30.0)
    write_character(Character(mesh, skeleton, skin, clips=(clip,)), tmp_path / "hero.glb")
    command = lambda *words: python(environment, "-m", "understudy", *words, cwd=tmp_path)
    script = """if True:
        from understudy.io.registry import read_character, write_character
        from studio_plugin.take_format import write_arrays
        hero = read_character("hero.glb")
        write_character(hero, "hero.take")
        moved = hero.evaluate_clip(hero.clips[0])
        mesh = dict(polygon_sizes=hero.mesh.polygon_sizes, rest=hero.mesh.vertices,
                    polygon_vertices=hero.mesh.polygon_vertices)
        write_arrays("truth.take", vertices=moved * 1.001, **mesh)
        for number, vertices in enumerate(moved):
            mesh["rest"] = vertices
            write_arrays(f"walk_{number}.frame", vertices=vertices[None], **mesh)
    """
    python(environment, "-c", script, cwd=tmp_path)
    command("fit", "lbs", "hero.take", "--cache", "truth.take", "-o", "pair.understudy")
    command("learn", "hero.take", "-o", "learned")
    command("compress", "walk_*.frame", "--rest", "hero.take", "-o", "a.understudy", "--bones", "2")
    command("compress", "truth.take", "-o", "b.understudy", "--bones", "2")
    command("reduce", "two_layer", "hero.take", "-o", "c.understudy")
    command("export", "a.understudy", "again.take")
    command("export", "pair.understudy", "level.understudy", "--lod", "walk_0.frame")


@pytest.mark.slow
def test_a_broken_plug_in_is_named(tmp_path):
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[understudy.methods]\nghost = not_there:Ghost\nwrong = json:dumps\n"
        "[understudy.rigs]\nghost = not_there:Ghost\n"
        "[understudy.commands]\nghost = not_there:ghost\nwrong = json:__name__\n"
        "odd = odd:odd\n"
    )
    (tmp_path / "odd.py").write_text("def odd(a: int | str):\n    print(a)\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for arguments, says in (
        (("methods", "ghost"), "the plug-in 'ghost' (not_there:Ghost, package broken)"),
        (("methods", "wrong"), "is not an understudy.methods.Method subclass"),
        (("controls", "ghost"), "the plug-in 'ghost' (not_there:Ghost, package broken)"),
        (("ghost", "x", "--y"), "the plug-in 'ghost' (not_there:ghost, package broken)"),
        (("wrong",), "the plug-in 'wrong' (json:__name__) is not a function"),
        (("odd",), "the plug-in 'odd' (odd:odd) has parameters that are no"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "understudy", *arguments],
            capture_output=True,
            text=True,
            env=environment,
        )
        assert done.returncode == 2
        assert says in done.stderr
        assert "Traceback" not in done.stderr
    listed = python(environment, "-m", "understudy", "methods")
    assert "ghost            cannot be used: " in listed
    assert "fdda" in listed
    helped = python(environment, "-m", "understudy", "--help")
    assert "ghost           Cannot be used: the plug-in 'ghost'" in helped
    assert "learn " in helped

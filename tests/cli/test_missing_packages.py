"""Where an optional package is missing, the command says in a sentence what to install."""

import subprocess
import sys

import pytest
from builders import full_deformer
from command_line import run

from understudy.cli import plugin_commands

BLOCKED = """
import sys
for name in {blocked!r}:
    sys.modules[name] = None  # any import of it now fails
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in {blocked!r} else find(name, *rest)
from understudy.cli import main
main({arguments!r})
"""


def run_without(blocked, *arguments):
    """The command line in a process where some packages cannot be imported."""
    code = BLOCKED.format(blocked=blocked, arguments=[str(a) for a in arguments])
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "a.understudy"
    full_deformer().save(path)
    return path


@pytest.mark.parametrize(
    ("blocked", "arguments", "says"),
    [
        ("typer", (), "needs the package typer: pip install 'understudy[cli]'"),
        ("rich", ("--help",), "needs the package rich: pip install 'understudy[cli]'"),
        ("scipy", (), "needs the package scipy: pip install 'understudy[cli]'"),
        ("threadpoolctl", (), "needs the package threadpoolctl: pip install 'understudy[cli]'"),
        ("zarr", ("sample", "tube", "-o", "OUT/a.zarr"), "zarr: pip install 'understudy[cli]'"),
        ("zarr", ("fit", "lbs", "a.zarr", "-o", "OUT/a.understudy"), "understudy[cli]'"),
        ("torch", ("fit", "fdda", "a.npz", "-o", "OUT/a.understudy"), "understudy[fit]'"),
        ("torch", ("train", "temporal", "-o", "OUT/nets", "--generated"), "understudy[fit]'"),
        ("ufbx", ("fit", "lbs", "a.fbx", "-o", "OUT/a.understudy"), "understudy[fbx]'"),
        ("onnx", ("export", "FILE", "OUT/a.onnx"), "onnx: pip install 'understudy[onnx]'"),
        ("matplotlib", ("evaluate", "FILE", "--report", "OUT/a.html"), "understudy[cli]'"),
        ("PIL", ("evaluate", "FILE", "--report", "OUT/a.html"), "understudy[cli]'"),
    ],
)
def test_a_missing_package_is_one_sentence(file, tmp_path, blocked, arguments, says):
    place = {"OUT": str(tmp_path), "FILE": str(file)}
    arguments = [
        str(a).replace("OUT", place["OUT"]).replace("FILE", place["FILE"]) for a in arguments
    ]
    done = run_without((blocked,), *arguments)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert done.stderr.startswith("understudy: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_playing_a_file_needs_none_of_them(file):
    blocked = ("zarr", "torch", "onnx", "matplotlib", "PIL")
    done = run_without(blocked, "info", file)
    assert done.returncode == 0, done.stderr
    assert "3 bones" in done.stdout


@pytest.mark.parametrize("command", ["bench", "data", "train"])
def test_a_command_of_the_benchmarks_says_what_to_install(capsys, monkeypatch, command):
    monkeypatch.setattr(plugin_commands, "plugins", lambda group: {})
    code, _, err = run(capsys, command, "--quick")
    assert code == 2
    assert err == (
        f"understudy: the command {command} needs the package understudy-benchmarks: "
        "pip install understudy-benchmarks\n"
    )
    assert f"  {command} " not in run(capsys, "--help")[1]

"""Finding Blender and running scripts in it."""

import os
import sys
import time
from pathlib import Path

import needs
import numpy as np
import pytest

from understudy.io.blender import launch
from understudy.system.errors import InputError, MissingDependencyError, UnderstudyError
from understudy.system.progress import Progress

HEAD = "import json, sys, time\nasked, answered = sys.argv[-2:]\n"


@pytest.fixture
def python(monkeypatch):
    """A Python without bpy in Blender's place: what is tested here does not need Blender."""
    monkeypatch.setenv(launch.VARIABLE, sys.executable)


def script_of(folder: Path, body: str) -> Path:
    path = folder / "script.py"
    path.write_text(HEAD + body)
    return path


def test_command_of_both_kinds():
    script = Path("read.py")
    assert launch.Blender(Path("/x/bin/python"), True).command(script, 1, "b") == [
        "/x/bin/python", "-I", "read.py", "1", "b",
    ]  # fmt: skip
    command = launch.Blender(Path("/x/blender"), False).command(script, "b")
    assert command[-2:] == ["--", "b"]
    assert "--disable-autoexec" in command
    assert "--background" in command


def test_find_blender_order(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(launch.VARIABLE, raising=False)
    monkeypatch.setattr(launch, "_repository", lambda: [])
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(MissingDependencyError, match="make blender"):
        launch.find_blender()
    for name in ("bin/blender", ".venv-blender/bin/python"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        found = launch.find_blender()
        assert found.executable == path
        assert found.is_python == (path.name == "python")
    monkeypatch.setenv(launch.VARIABLE, str(tmp_path / "bin/blender"))
    assert not launch.find_blender().is_python
    monkeypatch.setenv(launch.VARIABLE, "/nowhere/blender")
    with pytest.raises(MissingDependencyError, match="/nowhere/blender"):
        launch.find_blender()


def test_answer_arrays_and_progress(python, tmp_path):
    body = (
        "import numpy\n"
        "request = json.load(open(asked))\n"
        "points = numpy.load(asked[:-4] + 'npz')['points']\n"
        "print('progress 1 4'); print('progress 4 4')\n"
        "numpy.savez(answered[:-4] + 'npz', doubled=2 * points)\n"
        "json.dump({'name': request['name']}, open(answered, 'w'))\n"
    )
    seen = []

    class Recorder(Progress):
        def task(self, label, total):
            seen.append((label, total))
            return super().task(label, total)

    points = np.arange(6.0).reshape(2, 3)
    values, arrays = launch.run_script(
        script_of(tmp_path, body), {"name": "x"}, 60, Recorder(), {"points": points}
    )
    assert values == {"name": "x"}
    np.testing.assert_array_equal(arrays["doubled"], 2 * points)
    assert seen == [("script", 4.0)]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["script.py"]


def test_errors_of_scripts(python, tmp_path):
    told = "json.dump({'error': 'no mesh Body'}, open(answered, 'w'))\n"
    with pytest.raises(InputError, match="no mesh Body"):
        launch.run_script(script_of(tmp_path, told), {})
    with pytest.raises(UnderstudyError, match=r"status 1(.|\n)*ZeroDivisionError"):
        launch.run_script(script_of(tmp_path, "1 / 0\n"), {})
    with pytest.raises(UnderstudyError, match="without an answer"):
        launch.run_script(script_of(tmp_path, "pass\n"), {})
    with pytest.raises(MissingDependencyError, match="make blender"):
        launch.run_script(script_of(tmp_path, "import bpy\n"), {})


@pytest.mark.skipif(os.name != "posix", reason="process groups of POSIX")
def test_time_limit_ends_what_the_script_started(python, tmp_path):
    body = (
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open(sys.argv[0] + '.pid', 'w').write(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    with pytest.raises(UnderstudyError, match=r"within 1\.5 s"):
        launch.run_script(script_of(tmp_path, body), {}, timeout=1.5)
    child = int((tmp_path / "script.py.pid").read_text())
    for _ in range(50):
        stat = Path(f"/proc/{child}/stat")
        if not stat.exists() or stat.read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    pytest.fail(f"process {child} is still running")


@pytest.mark.slow
def test_real_blender(tmp_path):
    try:
        launch.find_blender()
    except MissingDependencyError as problem:
        needs.missing(str(problem))
    body = (
        "import bpy\n"
        "json.dump({'version': list(bpy.app.version), 'scripts': "
        "bpy.context.preferences.filepaths.use_scripts_auto_execute}, open(answered, 'w'))\n"
    )
    values, _ = launch.run_script(script_of(tmp_path, body), {}, timeout=120)
    assert values["version"] >= [4, 2, 0]
    assert values["scripts"] is False

"""README shows what benchmarks/results says, and names only commands that exist."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_tables_are_those_of_the_results():
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "readme_tables.py"), "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_every_command_in_readme_exists():
    from understudy.cli import app as cli

    known = {command.name or command.callback.__name__ for command in cli.app.registered_commands}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^    understudy (\w+)", text, re.MULTILINE)) | set(
        re.findall(r"`understudy (\w+)", text)
    )
    assert {"sample", "fit", "evaluate", "compare", "methods", "bench", "ranges"} <= named <= known

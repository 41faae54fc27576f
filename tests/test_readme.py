"""README and docs/benchmarks.md show the benchmark results; README names commands that exist."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from understudy.cli import app as cli

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "write_tables.py"


@pytest.fixture
def write_tables():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("write_tables", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_documents_agree_with_the_results():
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_wrong_figure_is_found(write_tables):
    table = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    rows = write_tables.rows_of("body")
    right = write_tables.cell(rows["human/walk", "fdda"], "mean")
    assert f"| {right} |" in table
    assert write_tables.with_tables(table.replace(f"| {right} |", "| 0.0001 |")) == table
    number = "<!-- number\n  cmu_mm -->99<!-- end -->"
    right = f"{10 * write_tables.cmu_average('corrected_skin', 'mean'):.2g}"
    assert write_tables.with_numbers(number) == number.replace("99", right)


def test_an_unknown_number_is_refused(write_tables):
    with pytest.raises(SystemExit, match="unknown number 'typo'"):
        write_tables.with_numbers("<!-- number typo -->1<!-- end -->")


def test_readme_shows_at_least_three_numbers():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(set(re.findall(r"<!--\s+number\s+(\w+)\s+-->", text))) >= 3


def test_every_command_in_readme_exists():
    known = set(typer.main.get_command(cli.app).list_commands(None))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^    understudy (\w+)", text, re.MULTILINE)) | set(
        re.findall(r"`understudy (\w+)", text)
    )
    assert {"sample", "fit", "evaluate"} <= named <= known


def test_pictures_of_the_documents_exist_and_are_small():
    for document in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        text = document.read_text(encoding="utf-8")
        for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
            picture = document.parent / name
            assert picture.is_file(), f"{document.name} shows {name}, which does not exist"
            assert picture.stat().st_size < 400_000, f"{name} is larger than 400 kB"

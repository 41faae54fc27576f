"""The package becomes smaller, not larger: `size.json` holds what it may have at most."""

import ast
import json
from pathlib import Path

import pytest

import understudy

ROOT = Path(understudy.__file__).parent
FILE = Path(__file__).with_name("size.json")
LIMITS = json.loads(FILE.read_text(encoding="utf-8"))
TEXTS = [file.read_text(encoding="utf-8") for file in sorted(ROOT.rglob("*.py"))]
# How far below its limit a figure may be, so that not every commit writes the file.
SLACK = {"lines": 300, "modules": 5}


def share_with_docstrings() -> float:
    """The share of functions and methods that have a docstring."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [
        ast.get_docstring(node) is not None
        for text in TEXTS
        for node in ast.walk(ast.parse(text))
        if isinstance(node, kinds)
    ]
    return sum(found) / len(found)


@pytest.mark.parametrize("what", SLACK)
def test_the_package_has_at_most_as_many(what):
    found = {"lines": sum(text.count("\n") for text in TEXTS), "modules": len(TEXTS)}[what]
    limit = LIMITS[what]
    assert found <= limit, f"{found - limit} {what} too many: take out what nobody needs"
    assert found >= limit - SLACK[what], f"fewer {what}: write {found} into {FILE.name}"


def test_lines_are_not_longer_and_docstrings_not_fewer():
    assert max(len(line) for text in TEXTS for line in text.splitlines()) <= LIMITS["longest line"]
    assert share_with_docstrings() >= LIMITS["share of docstrings"]

"""What is installed is complete: the compiled parts are there, and the version has one source."""

import re
from importlib.metadata import version
from pathlib import Path

import understudy

ROOT = Path(__file__).parents[1]


def test_the_compiled_parts_are_there():
    from understudy.methods.decomposition import _decompose
    from understudy.methods.sparse_skinning import _two_layer
    from understudy.runtime import _runtime
    from understudy_benchmarks import _floor

    assert all(module.__file__ for module in (_decompose, _two_layer, _runtime, _floor))


def test_the_version_has_one_source():
    written = [
        file.relative_to(ROOT)
        for folder in ("src", "benchmarks/src")
        for file in (ROOT / folder).rglob("*.py")
        if re.search(r'^__version__ = "', file.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert written == [Path("src/understudy/core/version.py")]
    assert version("understudy") == understudy.__version__
    assert version("understudy-benchmarks") == understudy.__version__

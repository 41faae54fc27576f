"""The types that users see: what a strict type checker says of their scripts."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from understudy import methods

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SETTINGS = f"""
[mypy]
strict = true
mypy_path = {ROOT / "src"}:{ROOT / "benchmarks" / "src"}
[mypy-understudy.*,understudy_benchmarks.*]
follow_imports = silent
[mypy-tractor.*]
ignore_missing_imports = true
"""
WRONG = """
from understudy.methods import Fdda, FddaConfig, Lbs, method_type

method_type("fdda").Config(hiddenn=3)
method_type("lbs").Config(influences="4")
FddaConfig(epochs=3.5)
Fdda(Lbs.Config())
method_type("lbs")().fit("poses.zarr")
"""
ERRORS = [
    (4, 'Unexpected keyword argument "hiddenn"'),
    (5, 'Argument "influences" has incompatible type "str"'),
    (6, 'Argument "epochs" to "FddaConfig" has incompatible type "float"'),
    (7, 'Argument 1 to "Fdda" has incompatible type "LbsConfig"'),
    (8, 'Argument 1 to "fit" of "SharingMethod" has incompatible type "str"'),
]


@pytest.mark.slow
def test_the_python_of_the_documents_passes_and_wrong_options_fail(tmp_path):
    for page in PAGES:
        blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
        name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
        for number, code in enumerate(blocks):
            (tmp_path / f"{name}_{number}.py").write_text(code, "utf-8")
    assert len(list(tmp_path.iterdir())) > 15
    (tmp_path / "wrong.py").write_text(WRONG, "utf-8")
    (tmp_path / "settings.ini").write_text(SETTINGS, "utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", "settings.ini", "--no-error-summary"]
    done = subprocess.run([*command, "."], cwd=tmp_path, capture_output=True, text=True)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    unexpected = [line for line in errors if not line.startswith("wrong.py:")]
    assert not unexpected, "\n".join(unexpected)
    assert len(errors) == len(ERRORS), done.stdout + done.stderr
    for said, (line, error) in zip(errors, ERRORS):
        assert said.startswith(f"wrong.py:{line}: error: {error}")


def test_what_a_type_checker_sees_exported_exists():
    for name in methods.__all__:
        assert getattr(methods, name).__name__ == name
    products = [n for n in methods.method_names() if not methods.method_type(n).traits.baseline]
    for kind in map(methods.method_type, products):
        if kind.__module__.startswith("understudy."):
            assert getattr(methods, kind.__name__) is kind
            assert getattr(methods, kind.Config.__name__) is kind.Config
    with pytest.raises(ImportError):
        from understudy.methods import Fda  # noqa: F401

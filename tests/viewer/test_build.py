"""The page in the package is what its sources give."""

import hashlib
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest
from needs import missing

ROOT = Path(__file__).parents[2]
BUILT = resources.files("understudy.viewer").joinpath("page")
HINT = "web/ or js/understudy.js changed since the page was built; run `make web`"


def test_the_build_is_of_these_sources():
    # As in web/build.mjs; it needs neither Node nor the network.
    own = [f"web/src/{path.name}" for path in (ROOT / "web" / "src").iterdir()]
    others = ["web/build.mjs", "web/package-lock.json", "web/tsconfig.json", "js/understudy.js"]
    digest = hashlib.sha256()
    for name in sorted([*own, *others]):
        digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    assert digest.hexdigest() in BUILT.joinpath("viewer.js").read_text(encoding="utf-8")[:300], HINT


@pytest.mark.slow
def test_building_again_gives_the_same_page(tmp_path):
    tools = ROOT / "web" / "node_modules"
    if shutil.which("node") is None or not (tools / "esbuild").exists():
        missing("what builds the page is not here; make node")
    subprocess.run([tools / ".bin" / "tsc", "--noEmit"], cwd=ROOT / "web", check=True, timeout=300)
    subprocess.run(["node", "build.mjs", tmp_path], cwd=ROOT / "web", check=True, timeout=300)
    for path in sorted(tmp_path.iterdir()):
        assert path.read_bytes() == BUILT.joinpath(path.name).read_bytes(), f"{path.name}: {HINT}"


def test_the_page_names_the_licence_of_what_it_contains():
    assert "three.js (MIT)" in BUILT.joinpath("viewer.js").read_text(encoding="utf-8")[:300]

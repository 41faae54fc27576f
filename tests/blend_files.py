"""Small .blend files for tests; Blender itself builds them."""

from pathlib import Path

import needs
import pytest

from understudy.io.blender import launch
from understudy.system.errors import MissingDependencyError

BUILD = Path(__file__).parent / "rigs" / "inside_blender" / "build_blend.py"


@pytest.fixture(scope="session", name="files")
def blend_files(tmp_path_factory):
    """A folder with arm.blend, python.blend and tree.blend, and a cache of its own."""
    try:
        launch.find_blender()
    except MissingDependencyError as problem:
        needs.missing(str(problem))
    folder = tmp_path_factory.mktemp("blend")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNDERSTUDY_CACHE", str(folder / "cache"))
        launch.run_script(BUILD, {"folder": str(folder)}, timeout=120)
        yield folder

"""Every export is opened in a real Blender and shows the same vertices."""

import needs
import pytest

from independent import blender
from independent.exported_characters import CHARACTERS
from understudy.io.blender import find_blender
from understudy.io.registry import formats, read_character, write_character
from understudy.system.errors import MissingDependencyError

LIMIT = 1e-4  # of the size
WRITTEN = {suffix for known in formats() if known.write_character for suffix in known.suffixes}
FORMATS = [".abc", ".fbx", ".glb", ".usdc"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _blender():
    try:
        find_blender()
    except MissingDependencyError as problem:
        needs.missing(str(problem))


@pytest.fixture(scope="module", params=CHARACTERS)
def character(request):
    return CHARACTERS[request.param]()


@pytest.mark.parametrize("suffix", FORMATS)
def test_blender_shows_the_same_vertices(character, suffix, tmp_path):
    path = tmp_path / f"character{suffix}"
    write_character(character, path)
    # Joints of USD have 16-bit scales, which scale joints make up for.
    assert blender.disagreement(path, character) < (2e-5 if suffix == ".usdc" else LIMIT)
    if suffix == ".usdc":
        assert blender.disagreement(path, read_character(path)) < LIMIT


def test_every_format_of_characters_is_compared():
    same_writer = {".gltf", ".usd", ".usda", ".usdz"}
    plain_frames = {".npz", ".obj", ".ply", ".mdd", ".pc2"}
    assert set(FORMATS) | same_writer | plain_frames >= WRITTEN

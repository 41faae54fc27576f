"""Every export is opened in a real Blender and shows the same vertices."""

import subprocess
from pathlib import Path

import needs
import pytest
from rigged_characters import make_character, tube_mesh

from independent import blender
from independent.exported_characters import CHARACTERS
from understudy.geometry.transforms import bone_sizes
from understudy.io.blender import find_blender
from understudy.io.fbx import read_fbx
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


def test_blenders_own_fbx_with_bones_scaled_by_100(tmp_path):
    """What Blender's exporter writes by default, and what Blender shows of our copies."""
    made = make_character(tube_mesh(unit="m"))
    write_character(made, tmp_path / "in.glb")
    script = Path(__file__).with_name("inside_blender") / "default_fbx.py"
    command = find_blender().command(script, str(tmp_path / "in.glb"), str(tmp_path / "hero.fbx"))
    subprocess.run(command, check=True, capture_output=True)
    sizes = bone_sizes(read_fbx(tmp_path / "hero.fbx").skeleton.world_from_bone)
    assert sizes == pytest.approx(100, rel=1e-4)
    read = read_character(tmp_path / "hero.fbx")
    assert bone_sizes(read.skeleton.world_from_bone) == pytest.approx(1)
    for suffix in (".usdc", ".glb"):
        write_character(read, tmp_path / f"copy{suffix}")
        assert blender.disagreement(tmp_path / f"copy{suffix}", read) < 1e-5


def test_every_format_of_characters_is_compared():
    same_writer = {".gltf", ".usd", ".usda", ".usdz"}
    plain_frames = {".npz", ".obj", ".ply", ".mdd", ".pc2"}
    assert set(FORMATS) | same_writer | plain_frames >= WRITTEN

"""GLB exports pass Khronos' validator, and three.js shows the same vertices."""

import numpy as np
import pytest

from independent import three_js
from independent.exported_characters import CHARACTERS
from understudy.core.coordinates import Conversion
from understudy.io.registry import read_character, write_character

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", CHARACTERS)
def test_three_js_shows_the_same_vertices(name, tmp_path):
    made = CHARACTERS[name]()
    path = tmp_path / "character.glb"
    write_character(made, path)
    three_js.assert_valid(path)
    ours = np.concatenate([made.evaluate_clip(clip) for clip in made.clips]).astype(np.float64)
    ours = Conversion.mesh_to_gltf(made.mesh).points(ours)
    theirs = three_js.vertices_of(path, three_js.clip_requests(made), made.mesh.vertex_count)
    size = np.ptp(ours, axis=(0, 1)).max()
    assert np.abs(ours - theirs).max() < 1e-5 * size
    back = read_character(path)
    for one, other in zip(made.clips, back.clips):
        expected = made.evaluate_clip(one)
        error = np.abs(back.evaluate_clip(other) - expected).max()
        assert error < 1e-5 * np.ptp(expected, axis=(0, 1)).max()

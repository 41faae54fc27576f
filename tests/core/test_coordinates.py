"""A character in other units and axes moves as it did."""

from dataclasses import replace

import numpy as np
import pytest
from character_builders import hero

from understudy.core.coordinates import Conversion

CONVERSIONS = {
    "scale": Conversion.scale(2.54),
    "mirror": Conversion.mirror(),
    "glTF": Conversion.to_gltf("in", "Z", "left"),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_vertices_of_a_converted_character_are_the_converted_vertices(name):
    convert, made = CONVERSIONS[name], hero()
    moved = convert.character(made)
    for before, after in zip(made.clips, moved.clips):
        expected = convert.points(made.evaluate_clip(before).astype(np.float64))
        np.testing.assert_allclose(moved.evaluate_clip(after), expected, atol=1e-5)
    # A rotation in the parent's frame stays one.
    lengths = np.linalg.norm(moved.clips[0].world_from_bone[..., :3], axis=-2)
    np.testing.assert_allclose(lengths, 1, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(moved.mesh.corner_normals, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_conversion_and_back_gives_the_same_character(name):
    convert, made = CONVERSIONS[name], hero()
    clip = replace(made.clips[0], vertices=made.evaluate_clip(made.clips[0]))
    made = made.with_clips([clip])
    back = convert.inverse().character(convert.character(made))
    np.testing.assert_allclose(back.mesh.vertices, made.mesh.vertices, atol=1e-6)
    np.testing.assert_allclose(back.mesh.corner_normals, made.mesh.corner_normals, atol=1e-6)
    np.testing.assert_allclose(back.clips[0].world_from_bone, clip.world_from_bone, atol=1e-12)
    np.testing.assert_allclose(back.clips[0].vertices, clip.vertices, atol=1e-6)
    for one, other in zip(back.shapes, made.shapes):
        np.testing.assert_allclose(one.offsets, other.offsets, atol=1e-7)


def test_nothing_changes_in_metres_with_y_up():
    made = hero()
    assert Conversion.to_gltf("m", "Y", "right").character(made) is made

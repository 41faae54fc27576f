"""Bounds: nothing changes near the training poses, correctives are zero far away."""

from dataclasses import replace

import numpy as np
import pytest
from builders import full_deformer
from parity.kinds import KINDS, bounded, drivers

from understudy import Bounds, Deformer, InputError, Mesh
from understudy.core.parts import join_deformers
from understudy.methods.correctives.bounds import find_bounds
from understudy.runtime.reference import coefficients_of, pose_readings


@pytest.fixture(scope="module")
def deformer():
    return bounded(full_deformer())


@pytest.fixture(scope="module")
def trained():
    """A deformer with the bounds of some poses, and their features."""
    deformer = KINDS["wide"]()
    readings = pose_readings(deformer, *drivers(deformer, 40, seed=3))
    return replace(deformer, bounds=find_bounds(deformer, readings)), readings


def small(**changes):
    """Two units of one feature each, one group."""
    arrays = {
        "low": [-1.0, -2.0],
        "high": [1.0, 2.0],
        "group": [0, -1],
        "units": [[0, 1]],
        "features": [[0], [1]],
        "scale": [[1.0], [0.25]],
        "centres": [[[0.0], [4.0]], [[0.0], [0.0]]],
        "fade_end": 2.0,
    }
    return Bounds(**{**arrays, **changes})


def test_equations():
    bounds = small()
    readings = np.array([[0.5, 1], [4.5, 0], [2, 0], [0, 100], [0, 3]], np.float32)
    squared = bounds.squared_distances(readings)
    np.testing.assert_allclose(squared, [[0.25, 0.25], [0.25, 0], [4, 0], [0, 2500], [0, 2.25]])
    given = np.tile(np.array([5.0, -5.0], np.float32), (5, 1))
    s = (4 - 2.25) / 3
    fade = [1, 1, 0, 0, 3 * s**2 - 2 * s**3]
    want = np.stack([fade, np.full(5, -2.0)], axis=1)  # the second one never fades
    np.testing.assert_allclose(bounds.bounded(given, readings), want, rtol=1e-6)


def test_nothing_changes_at_the_training_poses(trained):
    deformer, readings = trained
    assert deformer.bounds.squared_distances(readings).max() <= 1
    np.testing.assert_array_equal(
        coefficients_of(deformer, readings),
        coefficients_of(replace(deformer, bounds=None), readings),
    )


def test_far_away_the_skin_is_left(trained):
    deformer, _ = trained
    bones, _ = drivers(deformer, 5)
    stretched = bones.copy()
    stretched[:, 1:, :, :3] *= 300
    assert (deformer.distance_from_data(stretched) > deformer.bounds.fade_end).all()
    skin = deformer.skin_alone().deform_reference(stretched)
    np.testing.assert_array_equal(deformer.deform_reference(stretched), skin)
    assert not np.array_equal(replace(deformer, bounds=None).deform_reference(stretched), skin)


def test_huge_drivers_give_numbers(deformer):
    bones, controls = drivers(deformer, 3)
    for bone in (bones * 1e17, bones * 1e-17):
        assert not np.isnan(deformer.distance_from_data(bone, controls * 1e17)).any()
        assert np.isfinite(deformer.displacements(bone, controls * 1e17)).all()


def test_distance_of_one_pose(deformer):
    bones, controls = drivers(deformer)
    many = deformer.distance_from_data(bones, controls)
    one = deformer.distance_from_data(bones[2], controls[2])
    assert one.shape == ()
    assert one == many[2]


def test_distance_needs_bounds():
    deformer = full_deformer()
    with pytest.raises(InputError, match="no bounds"):
        deformer.distance_from_data(*drivers(deformer))


def test_parts_keep_their_bounds(deformer):
    mesh = KINDS["controls-only"]().mesh
    one = KINDS["controls-bounded"]()
    few = one.bounds
    other = replace(
        one,
        bounds=replace(
            few, centres=few.centres[:, :2], units=few.units[:, :1], fade_end=few.fade_end
        ),
    )
    both = Mesh(np.concatenate([mesh.vertices, mesh.vertices + 5]), [], [], unit=mesh.unit)
    count = mesh.vertex_count
    at = {"a": np.arange(count), "b": np.arange(count) + count}
    shifted = replace(other, mesh=replace(mesh, vertices=mesh.vertices + 5))
    joined = join_deformers(both, {"a": (at["a"], one), "b": (at["b"], shifted)})
    _, controls = drivers(one)
    for name, part in (("a", one), ("b", shifted)):
        want = part.deform_reference(None, controls)
        got = joined.deform_reference(None, controls)[:, at[name]]
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)
    mixed = {"a": (at["a"], one), "b": (at["b"], replace(shifted, bounds=None))}
    assert join_deformers(both, mixed).bounds is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"low": [2.0, 0.0]}, "low is above high"),
        ({"group": [0, 1]}, "group: index"),
        ({"group": [-2, 0]}, "group: index"),
        ({"units": [[0, 2]]}, "units: index 2"),
        ({"units": np.zeros((1, 0), int)}, "every group a unit"),
        ({"scale": [[-1.0], [1.0]]}, "not negative"),
        ({"scale": [[np.nan], [1.0]]}, "NaN"),
        ({"centres": np.zeros((2, 0, 1))}, "a cluster"),
        ({"centres": np.full((2, 1, 1), 1e16)}, "above 1e"),
        ({"fade_end": 1.0}, "fade_end"),
        ({"fade_end": np.nan}, "fade_end"),
    ],
)
def test_wrong_bounds(changes, message):
    with pytest.raises(InputError, match=message):
        small(**changes)


def test_bounds_belong_to_the_deformer(deformer):
    with pytest.raises(InputError, match="coefficients"):
        replace(deformer, bounds=small())
    count = deformer.coefficient_count
    wrong = small(
        low=np.zeros(count), high=np.ones(count), group=np.zeros(count, int), features=[[0], [99]]
    )
    with pytest.raises(InputError, match="bounds features"):
        replace(deformer, bounds=wrong)


def test_held_out_error_in_the_file(deformer, tmp_path):
    error = np.linspace(0, 1, deformer.mesh.vertex_count, dtype=np.float32)
    replace(deformer, held_out_error=error).save(tmp_path / "a.understudy")
    loaded = Deformer.load(tmp_path / "a.understudy")
    np.testing.assert_array_equal(loaded.held_out_error, error)
    assert loaded.bounds.fade_end == deformer.bounds.fade_end
    for name in ("low", "high", "group", "units", "features", "scale", "centres"):
        np.testing.assert_array_equal(
            getattr(loaded.bounds, name), getattr(deformer.bounds, name), name
        )

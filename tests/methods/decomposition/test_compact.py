"""Clips in few bytes: key frames where they are needed, 16 bits, and the error that this adds."""

from dataclasses import replace

import numpy as np
import pytest

from understudy import Deformer, InputError
from understudy.core.clip import Clip, ClipKeys
from understudy.evaluation.measure import sequence_error
from understudy.io.understudy import byte_shares, to_bytes
from understudy.methods.decomposition.compact import compact, default_tolerance
from understudy.methods.decomposition.ssdr import Ssdr, SsdrConfig
from understudy_benchmarks.trajectory_training.generated import generate_character


@pytest.fixture(scope="module")
def poses():
    return generate_character(2).poses()


@pytest.fixture(scope="module")
def fitted(poses):
    return Ssdr(SsdrConfig(bones=8)).fit(poses)


@pytest.mark.parametrize("tolerance", [0.03, 0.3, 3.0])
def test_the_error_stays_within_the_tolerance(poses, fitted, tolerance):
    before = sequence_error(poses, fitted)
    after = sequence_error(poses, compact(fitted, tolerance))
    assert after <= np.hypot(before, tolerance) * (1 + 1e-6)


def test_a_larger_tolerance_needs_fewer_keys(fitted):
    counts = [compact(fitted, t).clips[0].keys.is_key.sum() for t in (0.3, 3.0, 30.0)]
    assert counts[0] > counts[1] > counts[2]


def test_no_tolerance_changes_nothing(fitted):
    assert compact(fitted, 0.0) is fitted
    with pytest.raises(InputError, match="tolerance"):
        compact(fitted, -1.0)


def test_a_saved_clip_is_the_same_and_much_smaller(fitted, tmp_path):
    small = compact(fitted, default_tolerance(1.0))
    fitted.save(tmp_path / "a.understudy")
    small.save(tmp_path / "b.understudy")
    again = Deformer.load(tmp_path / "b.understudy")
    np.testing.assert_array_equal(again.clips[0].world_from_bone, small.clips[0].world_from_bone)
    np.testing.assert_allclose(again.deform_clip(0), small.deform_clip(0), atol=1e-5)
    sizes = [(tmp_path / name).stat().st_size for name in ("a.understudy", "b.understudy")]
    assert sizes[1] < 0.4 * sizes[0]
    shares = byte_shares(tmp_path / "b.understudy")
    assert sum(shares.values()) == sizes[1]
    assert {"clips", "skin", "mesh", "header"} <= shares.keys()


def test_the_compiled_runtime_expands_the_keys(fitted, tmp_path):
    """The clip of a file that is played natively is the one that NumPy expands."""
    small = compact(fitted, 1.0)
    small.save(tmp_path / "a.understudy")
    again = Deformer.load(tmp_path / "a.understudy")
    np.testing.assert_allclose(
        again.deform_clip(0), small.deform(small.clips[0].world_from_bone), atol=1e-5
    )


def test_keys_that_do_not_give_the_transforms_are_dropped():
    keys = ClipKeys(np.array([[1], [0], [1]], bool), np.arange(24.0).reshape(2, 12))
    clip = Clip.from_keys("walk", keys)
    assert clip.keys is keys
    np.testing.assert_allclose(clip.world_from_bone[1, 0].ravel(), np.arange(12) + 6.0)
    assert Clip("walk", clip.world_from_bone + 1, keys=keys).keys is None


@pytest.mark.parametrize(("is_key", "count"), [([[1], [0]], 1), ([[0], [1]], 1), ([[1], [1]], 3)])
def test_wrong_keys_are_refused(is_key, count):
    with pytest.raises(InputError, match="keys"):
        ClipKeys(np.array(is_key, bool), np.zeros((count, 12)))


def test_the_rest_shape_has_16_bits(fitted):
    stretched = replace(
        fitted, mesh=replace(fitted.mesh, vertices=fitted.mesh.vertices * [40, 1, 1])
    )
    for deformer in (fitted, stretched):
        low = deformer.mesh.vertices.min(axis=0)
        extent = np.ptp(deformer.mesh.vertices, axis=0)
        small = compact(deformer, 0.1)
        moved = np.abs(small.mesh.vertices - deformer.mesh.vertices)
        assert (moved <= extent / 65534 + 1e-6 * np.abs(low).max()).all()
        assert len(to_bytes(small)) < len(to_bytes(replace(small, mesh=deformer.mesh)))

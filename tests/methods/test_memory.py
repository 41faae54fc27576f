"""The memory that fits may use: the result does not depend on it."""

import numpy as np
import pytest
from bending_rig import BendingRig

from understudy.core.poses import Poses
from understudy.core.skin import Skin
from understudy.methods.correctives.session import Displacements
from understudy.methods.decomposition.solve.motion import read_motion
from understudy.methods.skin_fitting.displacements import displace
from understudy.rigs.sampling import gaussian
from understudy.system import memory
from understudy.system.errors import InputError


def test_displacements_are_the_same_whether_they_are_held_or_not():
    rig = BendingRig()
    poses = rig.evaluate(gaussian(rig.controls, 300, seed=0))
    held = Displacements(poses, None)
    assert held._cache is not None
    read = Displacements(poses, None)
    with memory.using(1):
        assert read._cache is None
    pairs = list(zip(held.blocks(), read.blocks(), strict=True))
    assert len(pairs) == 2
    for (here, one), (there, two) in pairs:
        assert (here.start, here.stop) == (there.start, there.stop)
        np.testing.assert_array_equal(one, two)


def test_some_vertices_have_the_displacements_that_they_have_among_all():
    rig = BendingRig()
    poses = rig.evaluate(gaussian(rig.controls, 30, seed=0))
    skin = Skin.rigid(np.arange(40) % 3)
    everything = displace(poses, skin)
    for some in (np.arange(40)[::3], np.array([39]), np.arange(7, 30)):
        np.testing.assert_array_equal(displace(poses, skin, some), everything[:, some])


def test_a_decomposition_that_does_not_fit_in_memory_says_so():
    rig = BendingRig()
    poses = Poses(rig.mesh, rig.evaluate(gaussian(rig.controls, 50, seed=0)).vertices)
    with (
        memory.using(60 * 40 * 50 - 1),
        pytest.raises(InputError, match=r"40 vertices in 50 frames take 0\.0 GB.*fewer frames"),
    ):
        read_motion(poses)
    with memory.using(60 * 40 * 50):
        assert read_motion(poses)[0].vertex_count == 40

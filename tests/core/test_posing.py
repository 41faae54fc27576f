"""`PosingSkeleton`: values to bones and back, mirrored poses, refused input; motion of bones."""

from dataclasses import replace

import numpy as np
import pytest
from posing_builders import two_arms
from scipy.spatial.transform import Rotation

from understudy.core.posing import Driver, Handle, products
from understudy.geometry import bone_motion
from understudy.geometry.bone_motion import ORDERS, Joints
from understudy.system.errors import InputError


def random_joints(rng, bones=5):
    rest = np.concatenate(
        [Rotation.random(bones, random_state=rng).as_matrix(), rng.normal(size=(bones, 3, 1))], 2
    )
    parents = np.array([-1, 0, 1, 1, 0])[:bones]
    turn = lambda: Rotation.random(bones, random_state=rng).as_matrix()
    return Joints(rest, parents, turn(), rng.integers(0, 6, bones), turn())


@pytest.mark.parametrize("order", ORDERS)
def test_angles_are_those_of_the_rotation(order):
    """Against SciPy, also where the middle angle is a right angle or more."""
    angles = np.random.default_rng(1).uniform(-1.4, 1.4, (200, 3))
    angles[:50, order[1]] *= 1.9
    angles[0, order[1]], angles[1, order[1]] = np.pi / 2, -np.pi / 2
    turns = bone_motion.rotation_of(angles, order)
    name = "".join("XYZ"[axis] for axis in order)
    want = Rotation.from_euler(name, angles[:, order]).as_matrix()
    np.testing.assert_allclose(turns, want, atol=1e-12)
    found = bone_motion.angles_of(turns, order)
    np.testing.assert_allclose(bone_motion.rotation_of(found, order), turns, atol=1e-7)
    small = (np.abs(angles) < 1.4).all(axis=1)
    np.testing.assert_allclose(found[small], angles[small], atol=1e-9)


def test_motion_describes_any_bones():
    """Rotation, move, stretch and shear come back, for any axes and orders."""
    rng = np.random.default_rng(2)
    joints = random_joints(rng)
    world = np.concatenate([rng.normal(size=(20, 5, 3, 3)), rng.normal(size=(20, 5, 3, 1))], 3)
    motion = bone_motion.motion_of_bones(world, joints)
    np.testing.assert_allclose(bone_motion.bones_of_motion(motion, joints), world, atol=1e-9)


def test_rest_is_zero_without_reference():
    joints = random_joints(np.random.default_rng(3))
    joints = replace(joints, reference=np.tile(np.eye(3), (5, 1, 1)))
    np.testing.assert_allclose(bone_motion.motion_of_bones(joints.rest[None], joints), 0, atol=1e-9)


def test_a_parent_does_not_pass_on_its_stretch():
    posing = two_arms()
    motion = np.zeros((1, 7, 12))
    motion[:, 1, 6] = 0.5
    world = bone_motion.bones_of_motion(motion, posing.joints)
    assert np.allclose(world[0, 1, :, :3], np.diag([1.5, 1, 1]))
    assert np.allclose(world[0, 2], posing.skeleton.world_from_bone[2])


def test_values_come_back():
    posing = two_arms()
    values = np.random.default_rng(4).uniform(posing.dofs.low, posing.dofs.high, (9, 7))
    world, controls = posing.pose(values)
    np.testing.assert_allclose(posing.read(world, controls), values, atol=1e-9)
    twist = bone_motion.motion_of_bones(world, posing.joints)[:, 2, 0]
    np.testing.assert_allclose(twist, 0.5 * values[:, 1], atol=1e-7)


def test_turning_the_root_turns_everything():
    posing = two_arms()
    values = np.array([[0.0, 0.3, 0.2, -0.1, -0.4, 0, 0]])
    still, _ = posing.pose(values)
    values[0, 0] = 0.7
    turned, _ = posing.pose(values)
    turn = Rotation.from_rotvec([0, 0.7, 0]).as_matrix()
    np.testing.assert_allclose(turned, turn @ still, atol=1e-12)


def test_a_mirrored_pose_is_the_mirror_image():
    posing = two_arms()
    values = np.array([[0.4, 0.3, 0.8, -0.2, -0.1, 0.9, 0.1]])
    image = posing.mirrored(values)
    np.testing.assert_allclose(image, [[-0.4, -0.2, 0.1, 0.3, -0.8, 0.1, 0.9]], atol=1e-9)
    np.testing.assert_allclose(posing.mirrored(image), values, atol=1e-9)
    place, other = posing.pose(values)[0][..., 3], posing.pose(image)[0][..., 3]
    np.testing.assert_allclose(other, place[:, posing.symmetry.bone] * [-1, 1, 1], atol=1e-9)


def test_without_symmetry_there_is_no_mirror():
    posing = two_arms()
    posing = replace(posing, symmetry=replace(posing.symmetry, axis=-1))
    with pytest.raises(InputError, match="not symmetric"):
        posing.mirrored(np.zeros((1, 7)))


def test_polynomials_are_bounded_outside_the_limits():
    posing = two_arms()
    cubic = Driver(2, [0], [1], 3, [[0.0], [0.0], [0.0], [1.0]])
    posing = replace(posing, drivers=(cubic,))
    motion, _ = posing.motion(np.array([[0, 50.0, 0, 0, 0, 0, 0]]))
    assert motion[0, 2, 0] == pytest.approx(1.25**3)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda p: replace(p.dofs, low=p.dofs.low + 9), "low < high"),
        (lambda p: replace(p, drivers=(Driver(2, [0], [7], 1, [[0], [1]]),)), "outside 0..6"),
        (lambda p: replace(p, drivers=(Driver(7, [0], [1], 1, [[0], [1]]),)), "bone of a driver"),
        (lambda p: Driver(0, [0, 0], [1], 1, np.zeros((2, 2))), "more than once"),
        (lambda p: Driver(0, [12], [1], 1, [[0], [1]]), "outside 0..11"),
        (lambda p: Driver(0, [0], [1], 1, [[0.0]]), "expected shape"),
        (lambda p: replace(p, handles=(Handle("tail", "end", "middle", 9),)), "handle 'tail'"),
        (lambda p: Handle("tail", "tail", "middle", 0), "role of a handle"),
        (lambda p: replace(p, order=np.full(7, 6)), "joint order"),
        (lambda p: replace(p, parents=[1, 0, 1, 2, 0, 4, 5]), "own ancestors"),
        (lambda p: replace(p, parents=[-1, 0, 1, 2, 0, 4, 7]), "posing parents"),
    ],
)
def test_what_does_not_fit_is_refused(change, what):
    with pytest.raises(InputError, match=what):
        change(two_arms())


def test_products_are_counted():
    x = np.random.default_rng(5).normal(size=(4, 3))
    assert products(x, 3).shape == (4, 20)
    assert products(x, 0).tolist() == [[1.0]] * 4

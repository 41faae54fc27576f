"""Characters with a posing skeleton, for tests."""

from dataclasses import replace

import numpy as np
from builders import grid_mesh

from understudy.core.controls import ControlSpec
from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.posing import Dofs, Driver, Handle, PosingSkeleton, Symmetry, term_count
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.bone_motion import rotation_of
from understudy.rigs.sampling import gaussian
from understudy_characters.human.anatomy import read_anatomy
from understudy_characters.human.rig import HumanRig


def two_arms():
    """A spine with an arm on either side; the elbows bend, the twist bones follow the shoulders."""
    names = ("hips", "arm.L", "twist.L", "fore.L", "arm.R", "twist.R", "fore.R")
    rest = np.tile(np.eye(3, 4), (7, 1, 1))
    rest[:, :, 3] = [[0, 0, 0], *([x, 1, 0] for x in (1, 2, 3, -1, -2, -3))]
    skeleton = Skeleton(names, [-1, 0, 1, 2, 0, 4, 5], rest)
    dofs = Dofs(
        ("hips turn", "shoulder.L", "elbow.L", "shoulder.R", "elbow.R", "smile_L", "smile_R"),
        bone=[0, 1, 3, 4, 6, -1, -1],
        channel=[1, 0, 2, 0, 2, 0, 1],
        low=[-1, -0.5, 0, -0.5, -1, 0, 0],
        high=[1, 0.5, 1, 0.5, 0, 1, 1],
        rest=np.zeros(7),
    )
    driver = lambda bone, dof: Driver(bone, [0], [dof], 1, [[0.0], [0.25]])
    return PosingSkeleton(
        skeleton,
        parents=skeleton.parents,
        control_rest=np.zeros(2),
        dofs=dofs,
        axes=np.zeros((7, 3)),
        order=np.zeros(7, int),
        reference=np.zeros((7, 3)),
        drivers=(driver(2, 1), driver(5, 3)),
        handles=(Handle("left hand", "hand", "left", 3), Handle("right hand", "hand", "right", 6)),
        symmetry=Symmetry(0, np.array([0, 4, 5, 6, 1, 2, 3]), np.array([1, 0])),
        parts=("body",),
        bone_part=np.zeros(7, int),
        errors={"mean": 0.0},
    )


def small_character() -> Deformer:
    """A deformer of three vertices with the posing skeleton of `two_arms`."""
    posing = two_arms()
    mesh = Mesh.from_faces([[0, 0, 0], [1, 1, 0], [2, 1, 1]], [[0, 1, 2]])
    skin = Skin([[0], [1], [3]], np.ones((3, 1)))
    spec = ControlSpec(("smile_L", "smile_R"), low=[0, 0], high=[1, 1])
    return Deformer(mesh, posing.skeleton, spec, skin, posing=posing)


def driven_by_controls(deformer: Deformer) -> Deformer:
    """The same deformer with bones that follow its controls: joints of every order of rotation,
    channels that several drivers add to, polynomials of every degree.
    """
    rng = np.random.default_rng(7)
    skeleton, spec = deformer.skeleton, deformer.control_spec
    bones, controls = skeleton.bone_count, spec.count
    drivers = []
    for bone in range(bones):
        for channels, degree in (([0, 1, 2], bone % 8), ([2, 0], 3), ([3, 5], 1), ([6, 11], 2)):
            inputs = rng.permutation(controls)[: max(1, controls - degree // 4)]
            shape = (term_count(len(inputs), degree), len(channels))
            drivers.append(Driver(bone, channels, inputs, degree, 0.1 * rng.normal(size=shape)))
    posing = PosingSkeleton(
        skeleton,
        parents=skeleton.parents,
        control_rest=spec.rest,
        dofs=Dofs(
            spec.names, np.full(controls, -1), np.arange(controls), spec.low, spec.high, spec.rest
        ),
        axes=rng.normal(size=(bones, 3)),
        order=np.arange(bones) % 6,
        reference=0.3 * rng.normal(size=(bones, 3)),
        drivers=tuple(drivers[k] for k in rng.permutation(len(drivers))),
        handles=(Handle("end", "end", "middle", bones - 1),),
        symmetry=Symmetry(-1, np.arange(bones), np.arange(controls)),
        parts=("body",),
        bone_part=np.zeros(bones, int),
        errors={"mean": 0.1},
        notes=("made up",),
    )
    return replace(deformer, posing=posing)


ARM_CONTROLS = tuple(f"{bone}.rot.{axis}" for bone in ("hip", "arm", "fore") for axis in "xyz")


def arm_poses(count=700, follows=True):
    """An arm of three bones along x. Its rig turns each by three angles in degrees, and the forearm
    takes a share of the upper arm's twist and slides with it.

    follows  whether the bones are those of the controls
    """
    rng = np.random.default_rng(4)
    spec = ControlSpec(ARM_CONTROLS, [-40] * 9, [40] * 9, units=("deg",) * 9)
    values = rng.uniform(-40, 40, (count, 9))
    angles = np.deg2rad(values if follows else rng.permutation(values)).reshape(count, 3, 3)
    rest = np.tile(np.eye(3, 4), (3, 1, 1))
    rest[:, 0, 3] = [0, 1, 2]
    world = np.empty((count, 3, 3, 4))
    turn, place = np.eye(3), np.zeros(3)
    for bone in range(3):
        own = angles[:, bone].copy()
        slide = np.zeros((count, 3))
        if bone == 2:
            own[:, 0] += 0.3 * angles[:, 1, 0]
            slide[:, 1] = 0.1 * angles[:, 1, 2] ** 2
        step = np.array([1.0 if bone else 0.0, 0, 0]) + slide
        place = place + np.einsum("...ij,...j->...i", turn, step)
        turn = turn @ rotation_of(own, (2, 1, 0))
        world[:, bone, :, :3], world[:, bone, :, 3] = turn, place
    mesh = grid_mesh(12, 3)
    nearest = np.clip(np.round(mesh.vertices[:, 0] / mesh.vertices[:, 0].max() * 2), 0, 2)
    skeleton = Skeleton(("hip", "arm", "fore"), [-1, 0, 1], rest)
    deformer = Deformer(mesh, skeleton, spec, Skin.rigid(nearest.astype(int)))
    vertices = deformer.deform_reference(world)
    noise = 1e-3 * rng.normal(size=vertices.shape)
    poses = Poses(mesh, (vertices + noise).astype(np.float32), skeleton, world, spec, values)
    return deformer, poses


class BonesOnly:
    """Vertices of poses that nobody reads: posing skeletons are found from bones."""

    def __init__(self, poses: int, vertices: int):
        self.shape = (poses, vertices, 3)

    def read_poses(self, start, stop):
        raise AssertionError

    def read(self, start, stop, vertices):
        raise AssertionError


def human_with_skin(count: int = 500, seed: int = 0) -> tuple[HumanRig, Deformer, Poses]:
    """The human, a deformer with four influences of its own weights, and random poses of its bones.

    No vertices are evaluated, which would take most of the time.
    """
    rig = HumanRig()
    dense = read_anatomy().weights.toarray()
    index = np.argsort(-dense, axis=1, kind="stable")[:, :4]
    weight = np.take_along_axis(dense, index, axis=1)
    skin = Skin(index, weight / weight.sum(axis=1, keepdims=True))
    deformer = Deformer(rig.mesh, rig.skeleton, rig.controls, skin, method="lbs")
    values = gaussian(rig.controls, count, seed)
    source = BonesOnly(count, rig.mesh.vertex_count)
    bones = rig.pose_bones(values)
    return rig, deformer, Poses(rig.mesh, source, rig.skeleton, bones, rig.controls, values)

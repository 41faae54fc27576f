"""Characters with a posing skeleton, for tests."""

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.posing import Dofs, Driver, Handle, PosingSkeleton, Symmetry
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
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

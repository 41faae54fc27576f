"""Wrong calls from Python: every method answers each with one clear error, before any work."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from understudy import InputError, Poses
from understudy.methods import Method, method_names, method_type
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian
from understudy.system.progress import Progress

TUBE = load_rig("tube")
POSES = TUBE.evaluate(gaussian(TUBE.controls, 40, seed=0))

every_method = pytest.mark.parametrize("name", method_names())


def turned(matrices):
    return np.concatenate([matrices[..., :3].swapaxes(-1, -2), matrices[..., 3:]], axis=-1)


def with_bones(world_from_bone, rest=None):
    rest = POSES.skeleton.world_from_bone if rest is None else rest
    skeleton = replace(POSES.skeleton, world_from_bone=rest)
    return replace(POSES, skeleton=skeleton, world_from_bone=world_from_bone)


class NoEvaluate:
    mesh, skeleton, controls = TUBE.mesh, TUBE.skeleton, TUBE.controls


class ArrayRig(NoEvaluate):
    def evaluate(self, values):
        return TUBE.evaluate(values).vertices


class OtherMesh(ArrayRig):
    mesh = load_rig("face").mesh


class StillProgress:
    """Not a `Progress`, although it has a method of one."""

    def say(self, text):
        pass


ZERO = with_bones(np.zeros_like(POSES.world_from_bone))
TURNED = with_bones(turned(POSES.world_from_bone))
ALL_TURNED = with_bones(turned(POSES.world_from_bone), turned(POSES.skeleton.world_from_bone))
CALLS = {
    "array": (((POSES.vertices,), {}), r"got an array of shape \(40, 104, 3\); .*understudy.Poses"),
    "file": ((("poses.zarr",), {}), r"got 'poses.zarr'; .*read_poses\('poses.zarr'\)"),
    "path": (((Path("poses.zarr"),), {}), r"read_poses\('poses.zarr'\)"),
    "rig as poses": (((TUBE,), {}), r"got a TubeRig; evaluate it first"),
    "nothing": (((), {}), "expected poses once, got them 0 times"),
    "twice": (((POSES,), {"poses": POSES}), "expected poses once, got them 2 times"),
    "rig without a name": (((POSES, TUBE), {}), r"got 2 arguments; .*rig=rig"),
    "misspelled": (
        ((POSES,), {"rigg": TUBE}),
        "argument of fit 'rigg'; did you mean 'rig'",
    ),
    "name of a rig": (((POSES,), {"rig": "tube"}), r"got 'tube'; .*load_rig\('tube'\)"),
    "class of a rig": (((POSES,), {"rig": type(TUBE)}), r"TubeRig is a class; .*TubeRig\(\)"),
    "poses as rig": (((POSES,), {"rig": POSES}), "Poses has no evaluate"),
    "no evaluate": (((POSES,), {"rig": NoEvaluate()}), "NoEvaluate has no evaluate"),
    "another rig": (((POSES,), {"rig": OtherMesh()}), "it is not the rig that these poses come"),
    "print": (((POSES,), {"progress": print}), "system.progress.Progress, got the function print"),
    "class of progress": (((POSES,), {"progress": Progress}), "got the class Progress"),
    "no progress": (((POSES,), {"progress": None}), "got None; leave it out"),
    "not progress": (((POSES,), {"progress": StillProgress()}), "got a StillProgress"),
    "one pose": (((POSES.take(np.arange(1)),), {}), "holds a single pose, and a fit needs several"),
    "zero bones": (((ZERO,), {}), "3x3 parts of all bones are zero"),
    "transposed": (((TURNED,), {}), "do not reproduce the poses.*transposed.*row-vector"),
    "all transposed": (((ALL_TURNED,), {}), "do not reproduce the poses.*transposed.*row-vector"),
}


@every_method
@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_call_is_one_clear_error(name, call):
    (arguments, options), says = CALLS[call]
    with pytest.raises(InputError, match=says):
        method_type(name)().fit(*arguments, **options)


@pytest.mark.parametrize("name", [n for n in method_names() if method_type(n).traits.asks_rig])
def test_a_rig_that_returns_an_array_is_refused_by_methods_that_evaluate_it(name):
    with pytest.raises(InputError, match=r"returned an array of shape \(1, 104, 3\), expected"):
        method_type(name)().fit(POSES, rig=ArrayRig())


@every_method
def test_fit_of_the_class_is_refused(name):
    with pytest.raises(InputError, match=r"\w+ is a class; make an object of it: \w+\(\)\.fit"):
        method_type(name).fit(POSES)


@every_method
def test_options_of_the_wrong_name_or_type_are_refused(name):
    config = method_type(name).Config
    with pytest.raises(InputError, match=r"unknown option of .*'sed'; did you mean 'seed'"):
        config(sed=3)
    for wrong in (3.5, "3", None, True, (3,)):
        with pytest.raises(InputError, match="seed: expected int, got"):
            config(seed=wrong)
    with pytest.raises(InputError, match=r"seed: expected int, got 3\.5"):
        replace(config(), seed=3.5)
    assert type(config(seed=np.int64(3)).seed) is int


def test_the_options_of_networks():
    config = method_type("fdda").Config
    for wrong, says in (
        ({"epoch": 3}, "unknown option of FddaConfig 'epoch'; did you mean 'epochs'"),
        ({"epochs": 3.5}, "epochs: expected int, got 3.5"),
        ({"hidden": "64,64"}, r"hidden: expected tuple\[int, \.\.\.\], got '64,64'"),
        ({"hidden": 64}, "hidden: expected tuple"),
        ({"hidden": [64, 6.4]}, "hidden: expected tuple"),
        ({"learning_rate": "0.1"}, "learning_rate: expected float, got '0.1'"),
        ({"checkpoint": Path("a")}, r"checkpoint: expected str \| None"),
    ):
        with pytest.raises(InputError, match=says):
            config(**wrong)
    assert config(hidden=[64, 32]).hidden == (64, 32)
    assert type(config(learning_rate=1).learning_rate) is float


class Store:
    """Vertices on disk, in tiles of 16 poses."""

    def __init__(self, vertices):
        self.vertices, self.shape, self.pose_tile, self.read_ = (
            vertices,
            vertices.shape,
            (16, 0),
            [],
        )

    def read_poses(self, start, stop):
        raise AssertionError("reads all vertices")

    def read(self, start, stop, vertices):
        self.read_.append((start, stop))
        return self.vertices[start:stop, vertices]


class WholeStore(Store):
    """The same, where all vertices may be read."""

    def read_poses(self, start, stop):
        return self.vertices[start:stop]


def test_one_tile_of_a_store_tells_that_rotations_are_transposed():
    store = Store(POSES.vertices)
    with pytest.raises(InputError, match="transposed"):
        method_type("lbs")().fit(replace(TURNED, vertices=store))
    ((start, stop),) = store.read_
    assert start % 16 == 0
    assert stop - start <= 16


def test_good_poses_of_every_kind_pass():
    """Bones that stay, a mesh that bones do not move and a mesh without bones are no mistakes."""

    class Passing(Method):
        """Always gives the same."""

        name = "passing"
        traits = method_type("lbs").traits

        def fit(self, poses, *, rig=None, progress=None):
            return made

    made = method_type("lbs")().fit(POSES)
    still = np.tile(POSES.skeleton.world_from_bone, (40, 1, 1, 1))
    unmoved = np.tile(POSES.mesh.vertices, (40, 1, 1))
    for poses in (
        POSES,
        with_bones(still),
        replace(POSES, vertices=unmoved),
        replace(POSES, vertices=WholeStore(POSES.vertices)),
        replace(POSES, skeleton=None, world_from_bone=None),
        Poses(TUBE.mesh, POSES.vertices),
    ):
        assert Passing().fit(poses, rig=TUBE, progress=Progress()) is made
        assert Passing().fit(poses=poses) is made

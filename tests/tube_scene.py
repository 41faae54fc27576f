"""Stand-ins of the tube, and their scene."""

from functools import cache

import numpy as np

from understudy.methods.registry import method_type
from understudy.rigs.registry import load_rig
from understudy.viewer.subjects import Subject, ViewJob


@cache
def tube_subjects():
    """A stand-in of the tube that is learned, and plain skinning."""
    rig = load_rig("tube")
    spec = rig.controls
    values = np.random.default_rng(0).uniform(spec.low, spec.high, (60, spec.count))
    poses = rig.evaluate(values)
    fitted = {
        "pca_regression": method_type("pca_regression")().fit(poses, rig=rig),
        "lbs": method_type("lbs")().fit(poses, rig=rig),
    }
    return tuple(Subject(name, deformer) for name, deformer in fitted.items())


def tube_scene(**options):
    """The scene of both stand-ins with the animations of the rig, and the rig."""
    return ViewJob(rig=load_rig("tube")).scene(tube_subjects(), "tube", **options)

"""Fits give the same bytes on any number of threads, and keep BLAS to one thread meanwhile."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from understudy import Deformer
from understudy.core.poses import Poses
from understudy.io.understudy import to_bytes
from understudy.methods.base import Config, Method, Traits, config_from_text
from understudy.methods.registry import method_type
from understudy.methods.skin_fitting import skin_weights
from understudy.rigs.sampling import SamplePlan
from understudy.rigs.tube import TubeRig
from understudy.system import threads

QUICK = {"epochs": "1", "hidden": "8"}
CASES = {
    "fdda": (TubeRig, QUICK),
    "differential": (TubeRig, {**QUICK, "anchor_epochs": "1", "regions": "5"}),
    "lbs": (TubeRig, {}),
    "ssdr": (TubeRig, {"bones": "6", "iterations": "2"}),
}


@pytest.fixture(scope="module")
def sampled():
    """Poses of a rig, by its class; more than one task takes."""
    kept = {}

    def poses(rig):
        if rig not in kept:
            here = rig()
            kept[rig] = here.evaluate(SamplePlan(40, 0).values(here))
        return kept[rig]

    return poses


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_same_bytes_on_any_number_of_threads(name, sampled, monkeypatch):
    monkeypatch.setattr(skin_weights, "_CHUNK_BYTES", 1 << 13)  # several tasks on a small mesh
    rig, options = CASES[name]
    kind = method_type(name)
    found = []
    for count in (1, 3):
        with threads.using(count):
            fit = kind(config_from_text(kind.Config, options)).fit(sampled(rig))
        found.append(to_bytes(fit))
    assert found[0] == found[1]


def test_blas_has_one_thread_during_a_fit():
    class Watching(Method):
        """Notes how many threads BLAS has."""

        name = "watching"
        traits = Traits()
        Config = Config

        def fit(self, poses, *, rig=None, progress=None):
            self.seen = {i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"}
            return Deformer(poses.mesh, None)

    rig = TubeRig()
    watching = Watching()
    watching.fit(Poses(rig.mesh, np.tile(rig.mesh.vertices, (2, 1, 1))))
    assert watching.seen == {1}

"""A corrective method of somebody else: one module, which has the stages as imports."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from understudy import Deformer
from understudy.io.understudy import to_bytes
from understudy.methods import Traits, option_table
from understudy.methods.correctives.components import find_groups
from understudy.methods.correctives.config import CorrectivesConfig
from understudy.methods.correctives.facts import PoseFacts, SharingMethod
from understudy.methods.correctives.networks import NetTasks, train_networks
from understudy.methods.correctives.session import FitSession
from understudy.methods.correctives.stages import feature_table, make_deformer, select_inputs
from understudy.methods.lbs import Lbs
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian

pytest.importorskip("torch")


@dataclass(frozen=True)
class SlicesConfig(CorrectivesConfig):
    """Options of slices, beside those of all methods with correctives.

    slices  number of regions, one above the other
    """

    basis_share: ClassVar[float] = 5e-4

    slices: int = 3
    hidden: tuple[int, ...] = (32, 32)
    epochs: int = 20
    batch_size: int = 64
    input_poses: int = 3


class Slices(SharingMethod[SlicesConfig]):
    """A fitted skin, corrected in slices of equal height."""

    name = "slices"
    traits = Traits(needs_bones=True, asks_rig=True, needs_torch=True)
    Config = SlicesConfig

    def fit_facts(self, facts, rig=None) -> Deformer:
        skin = facts.skin("fitted", 2)
        session = FitSession.of(self.name, self.config, facts, rig, skin)
        height = facts.poses.mesh.vertices[:, 1]
        ends = np.linspace(height.min(), height.max(), self.config.slices + 1)
        found = find_groups(session, np.searchsorted(ends[1:-1], height), seam_rings=1)
        table = feature_table(session, found.targets)
        inputs = select_inputs(session, table, found.cores, found.targets)
        trained = train_networks(session, table, NetTasks(inputs, found.targets, found.project))
        return make_deformer(session, table, trained.nets, found.bases, found.mean, trained, {})


@pytest.fixture(scope="module")
def tube():
    return load_rig("tube")


@pytest.fixture(scope="module")
def sample(tube):
    return tube.evaluate(gaussian(tube.controls, 200, seed=0))


def test_it_has_a_network_and_a_basis_for_each_region_and_beats_its_skin(tube, sample):
    deformer = Slices().fit(sample, rig=tube)
    assert len(deformer.bases) == 3 == len(deformer.nets) / 2  # with a linear map each
    assert deformer.bounds is not None
    unseen = tube.evaluate(gaussian(tube.controls, 40, seed=1))
    posed = unseen.world_from_bone, unseen.controls
    error = lambda one: np.linalg.norm(one.deform(*posed) - unseen.vertices, axis=2).mean()
    assert error(deformer) < 0.5 * error(Lbs().fit(sample))


def test_fits_of_the_same_poses_share_what_was_found(tube, sample):
    facts = PoseFacts(sample)
    alone = to_bytes(Slices().fit(sample, rig=tube))
    assert to_bytes(Slices().fit_facts(facts, tube)) == alone
    skin = facts.skin("fitted", 2)
    assert Slices().fit_facts(facts, tube).skin is skin
    assert facts.of_part(sample.take(np.arange(50))).skin("fitted", 2) is skin


def test_its_options_are_described_with_those_that_it_shares():
    meanings = {option.name: option.meaning for option in option_table(SlicesConfig)}
    assert meanings["slices"].startswith("number of regions")
    assert all(meanings.values())

"""Deformers to export: a tube with correctives, compressed strips, a face without bones."""

from dataclasses import replace

import numpy as np
import pytest
from builders import grid_mesh
from sequence_builders import bending_strip, fitted

from understudy import Basis, ControlSpec, Deformer, Features, Mesh, Net, Poses
from understudy.io import formats
from understudy.io.atomic_write import atomic_write
from understudy.rigs.sampling import SamplePlan
from understudy.rigs.tube import TubeRig


@pytest.fixture
def written(monkeypatch):
    """The characters that the command writes to files that end in .character."""
    kept = {}

    def write(character, path):
        kept[path.name] = character
        with atomic_write(path) as part:
            part.write_bytes(b"written")

    known = formats.Format("test", (".character",), "a character", write_character=write)
    monkeypatch.setattr(formats, "BUILT_IN", (*formats.BUILT_IN, known))
    return kept


@pytest.fixture(scope="session")
def tube_rig():
    return TubeRig()


@pytest.fixture(scope="session")
def range_poses(tube_rig):
    return tube_rig.evaluate(SamplePlan(60, 3).values(tube_rig))


@pytest.fixture(scope="session")
def tube(tube_rig):
    """A deformer of the tube: bones that scale unevenly, correctives that read a control."""
    poses = tube_rig.evaluate(SamplePlan(300).values(tube_rig))
    made = fitted(poses, "pca_regression")
    return replace(made, provenance={**made.provenance, "sample": {"rig": "tube"}})


@pytest.fixture(scope="session")
def strip():
    """A mesh sequence that two rigid bones move, with waves that no bone explains."""
    vertices, faces, rest = bending_strip(frames=24)
    time = np.arange(24)[:, None]
    swell = 0.05 * np.sin(3 * rest[:, 0] + time / 4) + 0.03 * np.sin(9 * rest[:, 0] - time / 3)
    vertices = vertices.copy()
    vertices[..., 2] += swell
    return Poses(Mesh.from_faces(rest, faces), vertices, frame_rate=24.0, name="strip")


@pytest.fixture(scope="session")
def affine(strip):
    """The strip as affine bones."""
    return fitted(strip, "ssdr", bones=4, influences=4)


@pytest.fixture(scope="session")
def two_layer(strip):
    """The strip as virtual bones, with weights of both signs."""
    return fitted(strip, "two_layer", bones=4, bones_per_vertex=4)


@pytest.fixture(scope="session")
def face():
    """A deformer without bones: two controls move a sheet."""
    mesh = grid_mesh()
    rng = np.random.default_rng(0)
    spec = ControlSpec(("smile", "frown"), [0, 0], [1, 1], numeric=[True, True])
    hidden = rng.normal(size=(5, 2))
    net = Net([0, 1], (hidden, rng.normal(size=(3, 5))), (np.zeros(5), np.zeros(3)), [0, 1, 2])
    basis = Basis(np.arange(12), rng.normal(size=(36, 3)) * 0.05, [0, 1, 2])
    return Deformer(
        mesh,
        control_spec=spec,
        features=Features([0, 1], [0, 0], [1, 1]),
        nets=(net,),
        bases=(basis,),
        mean=0.01 * rng.normal(size=(mesh.vertex_count, 3)),
    )

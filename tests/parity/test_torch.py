"""The torch module = NumPy, for every kind of deformer; on a GPU too where there is one."""

import copy
import pickle

import numpy as np
import pytest
from parity.kinds import KINDS, drivers

torch = pytest.importorskip("torch", reason="the torch module needs torch")
torch_deformer = pytest.importorskip("understudy.runtime.torch_deformer")
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here"),
    ),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", KINDS)
def test_the_module_gives_the_same_vertices(name, device, monkeypatch):
    deformer = KINDS[name]()
    monkeypatch.setattr(
        torch_deformer, "_BLOCK_VALUES", 36 * deformer.mesh.vertex_count
    )  # three poses at a time
    bones, controls = drivers(deformer, 8)
    module = torch_deformer.TorchDeformer(deformer).to(device)
    size = max(deformer.mesh.height, float(np.ptp(deformer.mesh.vertices, axis=0).max()))
    for flattened in (False, False, True):  # a GPU records the second call, and replays it
        if flattened and bones is not None:
            bones = bones.copy()
            bones[5, -1, :, 0] = 0
        given = [
            None if values is None else torch.from_numpy(values).to(device)
            for values in (bones, controls)
        ]
        np.testing.assert_allclose(
            module(*given).cpu().numpy(),
            deformer.deform_reference(bones, controls),
            rtol=0,
            atol=1e-5 * size,
        )
    assert not list(module.parameters())


def test_a_module_that_has_played_is_copied():
    deformer = KINDS["full-linear-direct-tanh"]()
    given = [torch.from_numpy(values) for values in drivers(deformer, 2)]
    module = torch_deformer.TorchDeformer(deformer)
    played = module(*given)
    assert torch.equal(copy.deepcopy(module)(*given), played)
    assert torch.equal(pickle.loads(pickle.dumps(module))(*given), played)


def test_a_hidden_bone_leaves_every_vertex_finite():
    deformer = KINDS["full-linear-direct-tanh"]()
    bones, controls = drivers(deformer, 2)
    bones[:, 1, :, :3] = 0
    assert torch.isfinite(
        torch_deformer.TorchDeformer(deformer)(torch.from_numpy(bones), torch.from_numpy(controls))
    ).all()

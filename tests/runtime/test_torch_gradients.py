import pytest
from parity.kinds import KINDS, drivers

torch = pytest.importorskip("torch")


def test_results_have_no_gradients_as_the_documentation_says():
    from understudy.runtime.torch_deformer import TorchDeformer

    deformer = KINDS["full-linear-direct-tanh"]()
    given = [torch.tensor(values, requires_grad=True) for values in drivers(deformer, 2)]
    assert not TorchDeformer(deformer)(*given).requires_grad

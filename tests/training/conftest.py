import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Networks this small spend more time waking a second thread than using it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)

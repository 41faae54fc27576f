"""`byte_shares`: every array of a file belongs to a part with a name."""

from dataclasses import replace

import numpy as np
import pytest
from builders import full_deformer
from parity.kinds import bounded
from posing_builders import small_character

from understudy.io.understudy import byte_shares


@pytest.mark.parametrize("make", [lambda: bounded(full_deformer()), small_character])
def test_no_byte_is_other(make, tmp_path):
    deformer = make()
    deformer = replace(deformer, held_out_error=np.zeros(deformer.mesh.vertex_count))
    deformer.save(tmp_path / "a.understudy")
    shares = byte_shares(tmp_path / "a.understudy")
    assert sum(shares.values()) == (tmp_path / "a.understudy").stat().st_size
    assert "other" not in shares
    assert ("bounds" in shares) == (deformer.bounds is not None)

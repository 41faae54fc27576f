"""Weights and bases in 16 bits: half the bytes, the same shape."""

import json
from dataclasses import replace

import numpy as np
import pytest
from builders import full_deformer
from parity.kinds import KINDS, drivers
from safetensors import safe_open

from understudy import Basis, Deformer, Features, InputError, Net


@pytest.mark.parametrize("name", ["full-linear-direct-tanh", "full-linear-direct-rbf", "wide"])
def test_positions_stay_within_a_twentieth_of_a_thousandth_of_the_size(name):
    deformer = KINDS[name]()
    bones, controls = drivers(deformer)
    size = np.ptp(deformer.mesh.vertices, axis=0).max()
    error = np.abs(deformer.half().deform_reference(bones, controls) - deformer.deform_reference(bones, controls)).max()
    assert 0 < error < 3e-4 * size  # these have displacements as large as the mesh; see `bench runtime` for characters


def test_features_far_from_zero_do_not_suffer():
    """A bone 1000 units away that moves by one: rounding its weight alone would shift the result by more than the motion itself."""
    base = KINDS["controls-only"]()
    net = Net([0], ([[7.7]],), ([-7700.0],), [0])
    basis = Basis([0], [[1.0], [0.0], [0.0]], [0])
    deformer = replace(base, nets=(net,), bases=(basis,), features=Features([0], [999.0], [1001.0]))
    controls = np.array([[999.0, 0], [1000.3, 0], [1001.0, 0]])
    error = np.abs(deformer.half().deform_reference(controls=controls) - deformer.deform_reference(controls=controls)).max()
    assert error < 7.7 * 2.0**-10
    plain = abs(float(np.float16(7.7)) - 7.7) * 1000
    assert plain > 50 * error  # what it would have been


def test_the_file_is_smaller_and_round_trips(tmp_path):
    deformer = KINDS["wide"]()
    deformer.save(tmp_path / "full")
    deformer.save(tmp_path / "half", dtype=np.float16)
    loaded = Deformer.load(tmp_path / "half")
    assert loaded.storage == "float16"
    loaded.save(tmp_path / "again")
    assert (tmp_path / "half").read_bytes() == (tmp_path / "again").read_bytes()
    values = lambda path: sum(a.nbytes for n, a in arrays(path).items() if n.startswith(("nets.values", "nets.half", "bases.values", "bases.half")))
    assert values(tmp_path / "half") < 0.55 * values(tmp_path / "full")
    assert header(tmp_path / "full")["format_version"] == 1
    assert header(tmp_path / "half")["format_version"] == 2


def arrays(path):
    with safe_open(str(path), framework="numpy") as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)


def header(path):
    with safe_open(str(path), framework="numpy") as opened:
        return json.loads(opened.metadata()["understudy"])


def test_numbers_that_do_not_fit_are_refused():
    deformer = full_deformer()
    big = replace(deformer, bases=(Basis([0], [[7e4], [0], [0]], [0]),))
    with pytest.raises(InputError, match="a 16-bit float ends at 65504"):
        big.half()
    with pytest.raises(InputError, match=r"weights of net 0: numbers that 16 bits do not hold"):
        replace(deformer, storage="float16")
    with pytest.raises(InputError, match="in float16 already"):
        deformer.half().save("never", dtype=np.float32)
    with pytest.raises(InputError, match="unknown dtype 'float64'"):
        deformer.save("never", dtype=np.float64)
    assert deformer.half().half().storage == "float16"

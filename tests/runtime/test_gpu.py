"""The example of `examples/gpu`: bases and skin in a compute shader give the vertices of the CPU.

It runs on a GPU or on a Vulkan driver in software.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from needs import missing
from parity.kinds import KINDS, drivers

from understudy import InputError
from understudy.runtime import native
from understudy.runtime.gpu_arrays import GpuArrays

EXAMPLE = Path(__file__).parents[2] / "examples" / "gpu" / "play_on_gpu.py"
LINEAR = [name for name in KINDS if "dual" not in name]
pytestmark = pytest.mark.skipif(
    native.compiled is None, reason="installed without a compiler: there is no compiled runtime"
)


@pytest.fixture(scope="module")
def example():
    """The example's module, where there is a device."""
    wgpu = pytest.importorskip("wgpu", reason="the example needs wgpu")
    try:
        wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    except Exception as problem:
        missing(f"no Vulkan device ({problem}); apt-get install mesa-vulkan-drivers")
    spec = importlib.util.spec_from_file_location("play_on_gpu", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_shader_gives_the_vertices_of_the_cpu(example):
    for name in LINEAR:
        deformer = KINDS[name]()
        player = example.GpuPlayer(deformer)
        bones, controls = drivers(deformer, 2)
        for t in range(2):
            pose = [None if values is None else values[t] for values in (bones, controls)]
            want = deformer.deform(*pose)
            size = max(deformer.mesh.height, float(np.ptp(deformer.mesh.vertices, axis=0).max()))
            np.testing.assert_allclose(
                player.deform(*pose), want, rtol=0, atol=1e-5 * size, err_msg=name
            )


@pytest.mark.slow
def test_the_example_runs_as_a_program(example, tmp_path):
    path = tmp_path / "wide.understudy"
    KINDS["wide"]().save(path)
    done = subprocess.run([sys.executable, EXAMPLE, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "of the height" in done.stdout


def test_arrays_are_checked():
    deformer = KINDS["wide"]()
    arrays = GpuArrays.of(deformer)
    all_bones, controls = drivers(deformer, 1)
    bones = all_bones[0]
    assert controls is None
    out = np.empty(arrays.coefficient_count, np.float32)
    arrays.write_coefficients(bones, controls, out)
    assert np.isfinite(out).all()
    with pytest.raises(InputError, match="NaN"):
        arrays.write_coefficients(bones * np.nan, controls, out)
    with pytest.raises(ValueError, match="out: expected"):
        arrays.write_coefficients(bones, controls, out[1:].copy())
    with pytest.raises(ValueError, match="out: expected shape"):
        arrays.write_transforms(bones, np.empty((1, 3, 4), np.float32))

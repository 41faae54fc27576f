"""The examples of docs/formats.md run, and its tables are complete."""

import re
from pathlib import Path

import numpy as np
import pytest
from builders import full_deformer

from understudy.io.formats import BUILT_IN
from understudy.io.npz import recorded_poses
from understudy.io.registry import read_poses

PAGE = Path(__file__).parents[2] / "docs/formats.md"


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text(encoding="utf-8")


def test_the_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(compile(block, str(PAGE), "exec"), known)
    copy = read_poses("copy.npz")
    np.testing.assert_array_equal(copy.vertices, read_poses("square.npz").vertices)
    assert (copy.mesh.unit, copy.frame_rate) == ("cm", 24.0)
    np.savetxt("a.points", np.random.default_rng(0).normal(size=(4, 9)))
    assert known["POINTS"].read_poses("a.points", None, None).pose_count == 4
    known["POINTS"].write_deformer(full_deformer(), "b.points")
    assert np.loadtxt("b.points").shape == (24, 3)


def test_every_array_and_suffix_is_described(page):
    arrays = recorded_poses.MESH_ARRAYS + recorded_poses.BONE_ARRAYS + recorded_poses.CONTROL_ARRAYS
    suffixes = [suffix for known in BUILT_IN for suffix in known.suffixes]
    missing = [name for name in (*arrays, *suffixes) if f"`{name}`" not in page]
    assert not missing

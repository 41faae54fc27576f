"""Posing in the page: TypeScript = NumPy, and inverse kinematics within the limits.

It runs in Node, on the human: `web/src/ik.ts` bundled by esbuild, and the WebAssembly of js/.
"""

import json
import shutil
import statistics
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders import full_deformer
from needs import missing
from posing_builders import arm_poses, driven_by_controls, human_with_skin, small_character

from understudy.core.posing import Handle
from understudy.methods.posing_fitting import fit_posing, with_posing

ROOT = Path(__file__).parents[2]
CHECKS = Path(__file__).parent / "posing_checks.mjs"
MILLIMETRE = 0.1  # the human is in centimetres


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    esbuild = ROOT / "web" / "node_modules" / ".bin" / "esbuild"
    if shutil.which("node") is None or not esbuild.exists():
        missing("what builds the page is not here; make node")
    out = tmp_path_factory.mktemp("posing") / "ik.mjs"
    source = ROOT / "web" / "src" / "ik.ts"
    options = ["--bundle", "--format=esm", "--log-level=warning", f"--outfile={out}"]
    subprocess.run([esbuild, source, *options], check=True, timeout=120)
    return out


def run(module, file, mode, **given):
    """What a mode of posing_checks.mjs prints."""
    command = ["node", CHECKS, module, file, mode, ROOT / "js" / "understudy.js"]
    done = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def human(tmp_path_factory):
    """The posing skeleton of the human and its file, in 16 bits: the page's own."""
    _, deformer, poses = human_with_skin()
    deformer = replace(deformer, posing=fit_posing(deformer, poses))
    path = tmp_path_factory.mktemp("human") / "human.understudy"
    deformer.half().save(path)
    return deformer.posing, path


def random_values(posing, count, seed):
    dofs = posing.dofs
    return np.random.default_rng(seed).uniform(dofs.low, dofs.high, (count, dofs.count))


def assert_same(posing, rows, values):
    bones, _ = posing.pose(values)
    size = np.ptp(posing.skeleton.world_from_bone[..., 3])
    for row, want, rest, image in zip(
        rows, bones, posing.read(bones), posing.mirrored(values), strict=True
    ):
        got = np.reshape(row["bones"], want.shape)
        np.testing.assert_allclose(got, want, atol=1e-9 * size)
        of_bones = posing.dofs.of_bones
        np.testing.assert_allclose(np.array(row["read"])[of_bones], rest[of_bones], atol=1e-6)
        np.testing.assert_allclose(row["mirrored"], image, atol=1e-6)


def test_a_small_character_is_that_of_numpy(module, tmp_path):
    """With controls, a quadratic driver and parents of its own."""
    character = small_character()
    posing = character.posing
    bent = replace(
        posing.drivers[0],
        inputs=[1, 5],
        degree=2,
        coefficients=np.linspace(-0.3, 0.4, 6)[:, None],
    )
    # The spine hangs on a forearm: parents need not come first.
    parents = np.array([6, 0, 1, 2, -1, 4, 5])
    posing = replace(posing, drivers=(bent, *posing.drivers[1:]), parents=parents)
    replace(character, posing=posing).save(tmp_path / "a.understudy")
    values = random_values(posing, 20, seed=1)
    assert_same(
        posing, run(module, tmp_path / "a.understudy", "parity", values=values.tolist()), values
    )


def test_controls_of_a_rig_are_sliders_and_follow_handles(module, tmp_path):
    driven = driven_by_controls(full_deformer())
    driven.save(tmp_path / "a.understudy")
    values = random_values(driven.posing, 20, seed=3)
    rows = run(module, tmp_path / "a.understudy", "parity", values=values.tolist())
    bones, _ = driven.posing.pose(values)
    size = np.ptp(driven.posing.skeleton.world_from_bone[..., 3])
    got = np.reshape([row["bones"] for row in rows], bones.shape)
    np.testing.assert_allclose(got, bones, atol=1e-9 * size)
    arm = with_posing(*arm_poses())
    posing = arm.posing
    posing = replace(posing, handles=(*posing.handles[:1], Handle("end", "end", "middle", 2)))
    replace(arm, posing=posing).save(tmp_path / "b.understudy")
    found = run(module, tmp_path / "b.understudy", "reach", count=100)
    controls = np.rad2deg([row["values"] for row in found])
    assert controls.shape == (100, 9)
    assert (np.abs(controls) <= 40 + 1e-6).all()
    place = posing.bones_at(controls)[:, 2, :, 3]
    away = np.linalg.norm(place - [row["target"] for row in found], axis=1)
    assert (away < 1e-3).mean() >= 0.95, np.sort(away)[-10:]


@pytest.mark.slow
def test_the_human_is_that_of_numpy(module, human):
    posing, file = human
    # Beyond half a turn of the pelvis, a rotation has two sets of angles.
    values = 0.45 * random_values(posing, 20, seed=2)
    values = np.clip(values, posing.dofs.low, posing.dofs.high)
    assert_same(posing, run(module, file, "parity", values=values.tolist()), values)


@pytest.mark.slow
def test_reachable_targets_are_reached(module, human):
    """To 1 mm for 99 % of 1,000 targets, always within the limits, measured by NumPy."""
    posing, file = human
    found = run(module, file, "reach", count=1000)
    values = np.array([row["values"] for row in found])
    assert np.isfinite(values).all()
    every = np.tile(posing.dofs.rest, (len(values), 1))
    every[:, posing.dofs.of_bones] = values
    assert (every >= posing.dofs.low - 1e-9).all()
    assert (every <= posing.dofs.high + 1e-9).all()
    bones, _ = posing.pose(every)
    place = bones[np.arange(len(found)), [row["bone"] for row in found], :, 3]
    away = np.linalg.norm(place - [row["target"] for row in found], axis=1)
    assert (away < MILLIMETRE).mean() >= 0.99, np.sort(away)[-20:]


@pytest.mark.slow
def test_five_targets_at_once(module, human):
    away = np.array(run(module, human[1], "several", count=100))
    assert (away < MILLIMETRE).mean() >= 0.95, np.sort(away)[-10:]


@pytest.mark.slow
def test_targets_out_of_reach_are_stable(module, human):
    posing, file = human
    steps = run(module, file, "unreachable")
    values = np.array([step["values"] for step in steps])
    of_bones = posing.dofs.of_bones
    scale = np.where(posing.dofs.channel[of_bones] < 3, np.pi / 180, 1.0)
    assert np.isfinite(values).all()
    assert (values * scale >= posing.dofs.low[of_bones] - 1e-9).all()
    assert (values * scale <= posing.dofs.high[of_bones] + 1e-9).all()
    for first in range(0, len(steps), 14):
        # The same target again and again: the pose comes to rest.
        assert steps[first + 5]["change"] < 2.0
        assert steps[first + 8]["change"] == 0.0  # NaN
        assert steps[first + 9]["change"] == 0.0  # infinity


@pytest.mark.slow
def test_dragging_takes_less_than_four_milliseconds(module, human):
    """Inverse kinematics and deformation with normals; feet stay, the handle follows."""
    for handle in run(module, human[1], "drag", frames=160, radius=10.0):
        blocks = [statistics.median(handle["times"][k : k + 20]) for k in range(20, 160, 20)]
        assert min(blocks) < 4.0, handle["name"]
        assert handle["change"] < 25, handle["name"]
        if handle["name"].endswith("hand"):
            assert handle["away"] < MILLIMETRE
        assert handle["slip"] < 10 * MILLIMETRE, handle["name"]


@pytest.mark.slow
def test_damaged_sections_are_refused(module, human, tmp_path):
    small_character().save(tmp_path / "a.understudy")
    counts = run(module, tmp_path / "a.understudy", "damaged", count=600)
    assert counts["refused"] > 200
    assert counts["read"] > 20

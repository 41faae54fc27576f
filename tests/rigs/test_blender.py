"""Rigs in .blend files, evaluated by a real Blender; the files are built by Blender too."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from understudy.geometry.transforms import apply, compose, inverse
from understudy.io.blender import launch
from understudy.rigs import load_rig
from understudy.rigs.base import AnimatedRig, ExternalRig, animate
from understudy.rigs.blender.options import BlenderOptions, blend_text, parse_blend, together
from understudy.rigs.blender.rig import BlenderRig
from understudy.rigs.registry import is_rig, portable_name
from understudy.system.errors import FileError, InputError, MissingDependencyError


@pytest.fixture(scope="module")
def arm(files):
    with BlenderRig(files / "arm.blend") as rig:
        yield rig


@pytest.fixture(scope="module")
def values(arm):
    """Control values (20,C) over all ranges."""
    random = np.random.default_rng(0)
    return random.uniform(arm.controls.low, arm.controls.high, (20, arm.controls.count))


@pytest.fixture(scope="module")
def poses(arm, values):
    return arm.evaluate(values)


def test_mesh_and_skeleton(arm):
    assert isinstance(arm, ExternalRig)
    mesh = arm.mesh
    assert {name: len(part) for name, part in mesh.parts.items()} == {"Body": 54, "Sleeve": 54}
    assert (mesh.unit, mesh.up_axis) == ("m", "Z")
    assert mesh.materials == ("Body skin", "Sleeve skin")
    assert set(mesh.polygon_sizes) == {4}
    assert mesh.polygon_material.tolist() == [0] * 48 + [1] * 48
    assert mesh.corner_uvs.shape == (4 * 96, 2)
    assert np.allclose(mesh.vertices[mesh.parts["Body"]][:, 2].max(), 2.0)
    # `helper` deforms nothing, so the parent of `lower` is `upper`; `root` has an empty group.
    assert arm.skeleton.names == ("upper", "lower")
    assert arm.skeleton.parents.tolist() == [-1, 0]
    assert np.allclose(arm.skeleton.world_from_bone[1, :, 3], [0, 0, 1])
    assert any("Smooth" in note and "left out" in note for note in arm.notes)


def test_bones_of_a_control_rig_are_one_tree(files, tmp_path, monkeypatch):
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path))
    with BlenderRig(files / "tree.blend") as rig:
        names, parents = rig.skeleton.names, rig.skeleton.parents
    above = {name: None if p < 0 else names[p] for name, p in zip(names, parents)}
    # Constraints, then places, tell what a bone follows; nothing carries the tail.
    assert above == {"hip": None, "arm": "hip", "hand": "arm", "nail": "hand", "tail": "hip"}


def test_controls_with_ranges(arm):
    spec = arm.controls
    at = {name: c for c, name in enumerate(spec.names)}
    assert (spec.low[at["upper.rot.x"]], spec.high[at["upper.rot.x"]]) == (-30, 60)  # constraint
    assert (spec.low[at["upper.bulge"]], spec.high[at["upper.bulge"]]) == (0, 2)  # property
    assert (spec.low[at["Body.smile"]], spec.high[at["Body.smile"]]) == (0, 1)
    assert spec.units[at["upper.rot.y"]] == "deg"
    assert spec.units[at["upper.loc.x"]] == "m"
    assert "lower.rot.x" in at  # stored as a quaternion
    # Driven; locked; text; moves nothing; moves the whole mesh; never keyed scale.
    for name in ("Body.muscle", "helper.rot.x", "upper.note", "reach.rot.x", "root.rot.x"):
        assert name not in at
    assert "upper.scale.x" not in at
    assert any("reach.rot.x" in note and "move nothing" in note for note in arm.notes)
    numeric = {name for name, is_numeric in zip(spec.names, spec.numeric) if is_numeric}
    assert numeric == {"upper.bulge", "Body.smile"}


def test_vertices_follow_the_bones(arm, poses):
    # No shape key moves the sleeve, and its lowest rings follow `upper` alone.
    low = arm.mesh.parts["Sleeve"][arm.mesh.vertices[arm.mesh.parts["Sleeve"], 2] < 0.5]
    assert len(low)
    upper = compose(poses.world_from_bone[:, 0], inverse(arm.skeleton.world_from_bone[0]))
    expected = apply(upper[:, None], arm.mesh.vertices[low].astype(np.float64))
    np.testing.assert_allclose(poses.vertices[:, low], expected, atol=2e-6)


def test_pose_does_not_depend_on_the_poses_before(arm, values, poses):
    again = arm.evaluate(values[[3, 7, 3]])
    np.testing.assert_array_equal(again.vertices[[0, 1, 2]], poses.vertices[[3, 7, 3]])
    backwards = arm.evaluate(values[::-1])
    np.testing.assert_array_equal(backwards.vertices[::-1], poses.vertices)
    np.testing.assert_array_equal(backwards.world_from_bone[::-1], poses.world_from_bone)
    assert np.abs(poses.vertices[3] - poses.vertices[7]).max() > 0.05


def test_channels_that_were_set_before_are_at_rest(arm, values, poses):
    """Calibration turns bones that are no controls; in the process that did it they stayed so."""
    with arm.sibling() as rig:
        rig.evaluate(values[:1])
        session, channels = rig._running(), list(rig._facts.channels)
        some = [next(one for one in channels if one["kind"] == "rotation")]
        session.ask({"request": "channels", "channels": some})
        at_rest = np.array([[one["rest"] for one in some]])
        _, found = session.ask({"request": "evaluate"}, {"values": at_rest})
    rest = arm.evaluate(arm.controls.rest[None]).vertices
    assert np.abs(found["vertices"] - rest).max() < 1e-6


def test_property_drives_the_shape_key(arm):
    rest = arm.controls.rest[None]
    thick = rest.copy()
    thick[0, arm.controls.names.index("upper.bulge")] = 2.0
    moved = arm.evaluate(thick).vertices[0] - arm.evaluate(rest).vertices[0]
    assert np.linalg.norm(moved, axis=1).max() > 0.05
    assert np.abs(moved[arm.mesh.parts["Sleeve"]]).max() < 1e-6


def test_actions_are_animations(arm):
    assert isinstance(arm, AnimatedRig)
    assert arm.animation_names == ("wave",)
    curve, frame_rate = arm.animation("wave")
    assert frame_rate == 30
    assert len(curve) == 9
    names = arm.controls.names
    assert np.isclose(curve[4, names.index("upper.rot.x")], np.degrees(0.4), atol=1e-4)
    assert np.isclose(curve[4, names.index("reach.loc.y")], 0.4)
    clip = animate(arm, "wave")
    assert clip.pose_count == 9
    assert np.abs(clip.vertices[4] - clip.vertices[0]).max() > 0.05
    np.testing.assert_array_equal(
        clip.vertices[0], arm.evaluate(arm.controls.rest[None]).vertices[0]
    )


def test_description_is_cached(arm, files):
    again = BlenderRig(files / "arm.blend")
    assert again.process_id is None  # Blender was not needed
    assert again.controls.ranges_text() == arm.controls.ranges_text()
    np.testing.assert_array_equal(again.controls.numeric, arm.controls.numeric)
    np.testing.assert_array_equal(again.mesh.vertices, arm.mesh.vertices)
    np.testing.assert_array_equal(again.animation("wave")[0], arm.animation("wave")[0])
    assert again.mesh.parts.keys() == arm.mesh.parts.keys()
    assert again.notes == arm.notes


@pytest.mark.slow
def test_damaged_cache_is_made_again(arm, files):
    (entry,) = (files / "cache" / "blender").glob("*.npz")
    whole = entry.read_bytes()
    entry.write_bytes(whole[: len(whole) // 2])
    with BlenderRig(files / "arm.blend") as rig:
        assert rig.process_id is not None
        assert rig.controls.ranges_text() == arm.controls.ranges_text()
    assert entry.stat().st_size > len(whole) // 2


@pytest.mark.slow
def test_dead_and_hanging_process_is_replaced(arm, values, poses):
    with arm.sibling() as rig:
        rig.evaluate(values[:2])
        os.kill(rig.process_id, signal.SIGKILL)
        np.testing.assert_array_equal(rig.evaluate(values).vertices, poses.vertices)
        assert rig.restarts == 1
    patient = BlenderOptions(timeout=3.0)
    with BlenderRig(arm._path, patient) as rig:
        rig.evaluate(values[:2])
        os.kill(rig.process_id, signal.SIGSTOP)
        np.testing.assert_array_equal(rig.evaluate(values[:3]).vertices, poses.vertices[:3])
        assert rig.restarts == 1


@pytest.mark.slow
@pytest.mark.parametrize("limit", [{"poses": 16}, {"memory": 1}], ids=["poses", "memory"])
def test_growing_process_is_replaced(arm, values, poses, limit):
    with BlenderRig(arm._path, BlenderOptions(**limit)) as rig:
        first = rig.evaluate(values[:16])
        assert rig.process_id is None  # ended; the next pose starts another one
        second = rig.evaluate(values[16:])
        assert rig.restarts == 0
    np.testing.assert_array_equal(first.vertices, poses.vertices[:16])
    np.testing.assert_array_equal(second.vertices, poses.vertices[16:])


def test_pose_that_always_fails_is_named(arm, values, monkeypatch):
    with arm.sibling() as rig:
        monkeypatch.setattr(BlenderRig, "_open", broken_open)
        with pytest.raises(InputError, match="3 times in a row: it is gone"):
            rig.evaluate(values[:2])


def broken_open(rig):
    """A Blender that starts and dies at the first pose."""
    from understudy.rigs.blender.connection import LostBlender

    class Gone:
        resident, process_id = 0, 0

        def ask(self, request, *_):
            if request["request"] == "evaluate":
                raise LostBlender("it is gone")
            return {}, {}

    rig._session = Gone()
    return rig._session, {}, {}


@pytest.mark.slow
def test_only_some_meshes_and_controls(files, arm, values, poses):
    options = BlenderOptions(meshes=("Sleeve", "Hidden"), controls=("upper.*",))
    with BlenderRig(files / "arm.blend", options) as rig:
        assert list(rig.mesh.parts) == ["Sleeve", "Hidden"]
        # Scale is offered where it is asked for; `bulge` moves neither mesh.
        assert "upper.scale.x" in rig.controls.names
        assert "upper.bulge" not in rig.controls.names
        assert not any(name.startswith("lower") for name in rig.controls.names)
        # What is not asked for is at rest, not where the animator left it.
        some = rig.controls.rest[None].copy()
        whole = arm.controls.rest[None].copy()
        some[0, rig.controls.names.index("upper.rot.y")] = 20
        whole[0, arm.controls.names.index("upper.rot.y")] = 20
        np.testing.assert_array_equal(
            rig.evaluate(some).vertices[0, rig.mesh.parts["Sleeve"]],
            arm.evaluate(whole).vertices[0, arm.mesh.parts["Sleeve"]],
        )
        assert rig.name == "arm.blend?mesh=Sleeve&mesh=Hidden&control=upper.*"


@pytest.mark.slow
def test_drivers_that_need_python(files):
    path = files / "python.blend"
    with pytest.raises(FileError, match=r"muscle.*lambda.*needs Python.*--trust-scripts"):
        BlenderRig(path)
    for options in (BlenderOptions(ignore_drivers=True), BlenderOptions(trust_scripts=True)):
        with BlenderRig(path, options) as rig:
            # Without scripts, the driver gives 0 and the property moves nothing.
            assert ("upper.bulge" in rig.controls.names) == options.trust_scripts


@pytest.mark.slow
def test_errors(files, tmp_path, monkeypatch):
    other = tmp_path / "other.blend"
    other.write_bytes(b"PK\x03\x04 not Blender")
    with pytest.raises(FileError, match=r"not a \.blend"):
        BlenderRig(other)
    other.write_bytes((files / "arm.blend").read_bytes()[:2000])
    with pytest.raises(FileError, match=r"other\.blend"):
        BlenderRig(other)
    with pytest.raises(FileError, match=r"no mesh object 'Bodi' \(it has .*Body"):
        BlenderRig(files / "arm.blend", BlenderOptions(meshes=("Bodi",)))
    with pytest.raises(InputError, match=r"no control that matches leg"):
        BlenderRig(files / "arm.blend", BlenderOptions(controls=("leg*",)))
    monkeypatch.setenv(launch.VARIABLE, sys.executable)
    with pytest.raises(MissingDependencyError, match="make blender"):
        BlenderRig(files / "arm.blend", BlenderOptions(bendy=2))


def test_text_of_a_rig(arm, files, monkeypatch):
    options = BlenderOptions(("Body", "A & B"), ("arm_*", "*.rot.?"), bendy=2, modifiers="render")
    text = blend_text(Path("x/hero.blend"), options)
    assert parse_blend(text) == (Path("hero.blend"), options)
    assert portable_name(f"/home/me/{text}") == text
    assert is_rig("hero.blend?mesh=Body")
    trusted = replace(options, trust_scripts=True)
    assert blend_text(Path("hero.blend"), trusted) == text  # a file cannot ask for trust
    with pytest.raises(InputError, match="trust"):
        parse_blend("hero.blend?trust=1")
    asked = BlenderOptions(("Hat",), bendy=3, trust_scripts=True)
    assert together(options, asked) == replace(trusted, meshes=("Body", "A & B", "Hat"), bendy=3)
    monkeypatch.chdir(files)
    assert load_rig("arm.blend").controls.names == arm.controls.names


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a shell script stands in for the program")
def test_program_that_prints_before_the_script_runs(arm, values, poses, tmp_path, monkeypatch):
    python = launch.find_blender()
    if not python.is_python:
        pytest.skip("the Blender in use is the program itself")
    program = tmp_path / "blender"
    program.write_text(
        '#!/bin/sh\necho "Blender 5.0.1 (a banner)"\n'
        'while [ "$1" != "--python" ]; do shift; done\nscript=$2\nshift 3\n'
        f'exec {python.executable} -I "$script" "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv(launch.VARIABLE, str(program))
    assert not launch.find_blender().is_python
    with arm.sibling() as rig:
        np.testing.assert_array_equal(rig.evaluate(values[:2]).vertices, poses.vertices[:2])


def test_linked_file_that_is_missing(real_data, files):
    with pytest.raises(FileError, match=r"linked from .*rig-fox\.blend, which is not there"):
        BlenderRig(real_data / "blend" / "mesh2motion_fox_run.blend")


def test_only_the_controls_of_a_collection_of_bones(files):
    path = files / "more.blend"
    with BlenderRig(path, BlenderOptions(collections=("Target",))) as rig:
        bones = {name.partition(".")[0] for name in rig.controls.names} - {"Body"}  # shape keys
        assert bones == {"reach"}
        assert rig.name == "more.blend?collection=Target"
    with pytest.raises(FileError, match=r"no bone collection 'Arms' \(it has Arm, Target\)"):
        BlenderRig(path, BlenderOptions(collections=("Arms",)))


@pytest.mark.slow
def test_what_depends_on_earlier_frames_is_left_out_and_named(files):
    with BlenderRig(files / "more.blend") as rig:
        assert any("'Fabric' (cloth) depends on earlier frames" in note for note in rig.notes)
    with BlenderRig(files / "more.blend", BlenderOptions(simulations=True)) as rig:
        assert not any("Fabric" in note for note in rig.notes)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["blend", "fbx", "bvh"])
def test_animations_of_another_file(files, suffix):
    options = BlenderOptions(animations=(str(files / f"nod.{suffix}"),))
    with BlenderRig(files / "arm.blend", options) as rig:
        (name,) = rig.animation_names
        assert name == "nod"
        curve, _ = rig.animation(name)
        at = rig.controls.names.index("upper.rot.x")
        assert curve[0, at] == pytest.approx(0, abs=0.01)
        assert curve[-1, at] == pytest.approx(np.degrees(0.3), abs=0.05)
        others = np.delete(curve - rig.controls.rest, at, axis=1)
        assert np.abs(others).max() < 0.05


def test_a_file_of_animations_that_does_not_fit_is_refused(files, tmp_path):
    with pytest.raises(FileError, match="no such file of animations"):
        BlenderOptions(animations=("nowhere.blend",))
    other = tmp_path / "walk.bvh"
    other.write_text(
        "HIERARCHY\nROOT hip\n{\nOFFSET 0 0 0\nCHANNELS 3 Zrotation Xrotation Yrotation\n"
        "End Site\n{\nOFFSET 0 1 0\n}\n}\nMOTION\nFrames: 2\nFrame Time: 0.04\n0 0 0\n9 0 0\n"
    )
    with pytest.raises(FileError, match="keys a bone that the rig has by that name"):
        BlenderRig(files / "arm.blend", BlenderOptions(animations=(str(other),)))


@pytest.mark.slow
def test_linked_files_that_lie_elsewhere(files):
    path = files / "linked.blend"
    with pytest.raises(FileError, match="which is not there"):
        BlenderRig(path)
    moved = BlenderOptions(libraries=(("/no/such/machine", str(files)),))
    with BlenderRig(path, moved) as rig:
        assert "upper.rot.x" in rig.controls.names

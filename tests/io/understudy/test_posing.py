"""The posing section of a `.understudy` file: the same comes back, damage is refused."""

import json
import struct
from dataclasses import replace

import numpy as np
import pytest
from builders import full_deformer
from mutated_files import read_mutated
from posing_builders import driven_by_controls, small_character, two_arms
from safetensors import safe_open
from safetensors.numpy import load_file, save

from understudy.core.deformer import Deformer
from understudy.runtime import native
from understudy.system.errors import FileError


def parts_of(path):
    """The arrays and the header of a file."""
    with safe_open(path, "np") as opened:
        return load_file(path), json.loads(opened.metadata()["understudy"])


def rewritten(path, change):
    """A copy of a file whose two headers `change(table, header)` has edited."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    table = json.loads(data[8 : 8 + length])
    header = json.loads(table["__metadata__"]["understudy"])
    change(table, header)
    table["__metadata__"]["understudy"] = json.dumps(header)
    text = json.dumps(table).encode()
    other = path.with_name("changed.understudy")
    other.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
    return other


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.understudy"
    small_character().save(path)
    return path


@pytest.mark.parametrize("half", [False, True])
def test_it_comes_back(tmp_path, half):
    path = tmp_path / "a.understudy"
    deformer = small_character().half() if half else small_character()
    deformer.save(path)
    back = Deformer.load(path)
    values = np.random.default_rng(0).uniform(-0.5, 0.5, (4, 7))
    for one, other in zip(back.posing.pose(values), deformer.posing.pose(values)):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(back.posing.mirrored(values), deformer.posing.mirrored(values))
    assert back.posing.handles == deformer.posing.handles
    assert back.posing.errors == {"mean": 0.0}
    back.save(tmp_path / "b.understudy")
    assert (tmp_path / "b.understudy").read_bytes() == path.read_bytes()


def test_the_compiled_runtime_ignores_it(file):
    """It reads the bytes of the file, and gives what it gives without the section."""
    bones, _ = two_arms().pose(np.random.default_rng(0).uniform(-0.5, 0.5, (4, 7)))
    got = Deformer.load(file).deform(bones)
    np.testing.assert_array_equal(got, replace(small_character(), posing=None).deform(bones))


def test_files_without_it_are_read(file):
    arrays, header = parts_of(file)
    kept = lambda part: {name: part[name] for name in part if not name.startswith("posing.")}
    file.write_bytes(save(kept(arrays), {"understudy": json.dumps(kept(header))}))
    assert Deformer.load(file).posing is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dof_names", ["one"]),
        ("handle_names", []),
        ("handle_roles", ["tail"]),
        ("handle_sides", ["up"]),
        ("handle_sides", 3),
        ("errors", {"mean": "0.1"}),
        ("notes", [1]),
        ("parts", []),
        ("errors", None),
    ],
)
def test_damaged_headers_are_refused(file, name, value):
    def change(table, header):
        header[f"posing.{name}"] = value

    damaged = rewritten(file, change)
    with pytest.raises(FileError, match="damaged"):
        Deformer.load(damaged)
    with pytest.raises(ValueError, match=r"\w"):  # C++ refuses what Python refuses
        native.compiled.Model(damaged.read_bytes())


def test_controls_that_determine_bones_come_back(tmp_path):
    deformer = driven_by_controls(full_deformer())
    assert deformer.poses_bones
    assert not small_character().poses_bones
    deformer.save(tmp_path / "a.understudy")
    back = Deformer.load(tmp_path / "a.understudy")
    controls = np.random.default_rng(0).normal(size=(4, 2))
    np.testing.assert_array_equal(
        back.posing.bones_at(controls), deformer.posing.bones_at(controls)
    )


def file_of(deformer, folder):
    deformer.save(folder / "b.understudy")
    return folder / "b.understudy"


@pytest.mark.parametrize(
    ("array", "values"),
    [
        ("parents", [1, 0, 0]),  # a cycle
        ("dof_bone", [-1, -2]),
        ("dof_channel", [0, 2]),
        ("dof_low", [0.0, 100.0]),
        ("order", [0, 1, 6]),
        ("driver_channels", None),  # 12 everywhere
        ("driver_degree", None),
        ("driver_input_counts", [17, 1]),
        ("driver_channel_counts", [1, 2]),
        ("mirror_axis", 3),
        ("handle_bones", [70]),
        ("axes", [[0.0, 0.0, np.nan]] * 3),
    ],
)
def test_damaged_arrays_are_refused_by_every_reader(tmp_path, array, values):
    path = file_of(driven_by_controls(full_deformer()), tmp_path)
    arrays = load_file(path)
    with safe_open(path, "np") as opened:
        metadata = opened.metadata()
    name = f"posing.{array}"
    arrays[name] = (
        np.full_like(arrays[name], 12) if values is None else np.array(values, arrays[name].dtype)
    )
    damaged = save(arrays, metadata)
    (tmp_path / "c.understudy").write_bytes(damaged)
    with pytest.raises(FileError, match=r"posing|driver|dof|joint|channels|mirror|handle"):
        Deformer.load(tmp_path / "c.understudy")
    with pytest.raises(ValueError, match="posing"):
        native.compiled.Model(damaged)


@pytest.mark.parametrize("name", ["axes", "dof_low", "driver_coefficients", "mirror_bone"])
def test_missing_arrays_are_refused(file, name):
    arrays, header = parts_of(file)
    del arrays[f"posing.{name}"]
    file.write_bytes(save(arrays, {"understudy": json.dumps(header)}))
    with pytest.raises(FileError, match=f"'posing.{name}' is missing"):
        Deformer.load(file)
    with pytest.raises(ValueError, match=f"posing.{name} is missing"):
        native.compiled.Model(file.read_bytes())


def test_mutated_files_give_an_error_or_a_pose(file, tmp_path):
    def read(path):
        deformer = Deformer.load(path)
        if deformer.posing is None:
            return np.zeros(1)
        bones, controls = deformer.posing.pose(deformer.posing.dofs.rest[None])
        assert np.isfinite(controls).all()
        # Numbers near the largest may overflow, but nothing else may happen.
        return np.nan_to_num(bones)

    with np.errstate(all="ignore"):
        assert read_mutated(file, tmp_path, read, 400, seed=1) > 100

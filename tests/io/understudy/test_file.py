import errno
import json
import os

import numpy as np
import pytest
from builders import full_deformer, random_motion
from parity import forged
from parity.kinds import KINDS
from safetensors import safe_open
from safetensors.numpy import save_file

from understudy import Deformer, FileError, InputError
from understudy.io.understudy import file
from understudy.io.understudy.narrowing import narrowed, widened
from understudy.runtime import native as runtime


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "test.understudy"
    full_deformer(virtual=True).save(path)
    return path


@pytest.fixture
def saved_narrow(tmp_path):
    path = tmp_path / "narrow.understudy"
    KINDS["full-packed"]().save(path)
    return path


def rewrite(path, change):
    """Load the raw parts of a file, let `change(arrays, header)` damage them, write them back."""
    with safe_open(str(path), framework="numpy") as opened:
        header = json.loads(opened.metadata()["understudy"])
        arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
    change(arrays, header)
    save_file(arrays, str(path), metadata={"understudy": json.dumps(header)})


@pytest.mark.skipif(runtime.compiled is None, reason="needs the compiled runtime")
def test_a_deformer_reaches_the_compiled_runtime_without_a_file(saved, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a file was made, or its header parsed")

    loaded = Deformer.load(saved)
    monkeypatch.setattr(file, "pack", refuse)
    monkeypatch.setattr(json, "dumps", refuse)
    bones = random_motion(loaded.skeleton, 2)
    played = loaded.deform(bones, np.zeros((2, 2)))
    np.testing.assert_allclose(played, loaded.deform_reference(bones, np.zeros((2, 2))), atol=1e-5)


@pytest.mark.parametrize("virtual", [False, True])
@pytest.mark.parametrize("blend", ["linear", "dual_quaternion"])
def test_save_load_deform_is_identical(tmp_path, virtual, blend):
    deformer = full_deformer(blend, virtual)
    deformer.save(tmp_path / "a.understudy")
    loaded = Deformer.load(tmp_path / "a.understudy")
    bones = random_motion(deformer.skeleton, 5)
    controls = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_array_equal(loaded.deform(bones, controls), deformer.deform(bones, controls))
    assert (loaded.method, loaded.training, loaded.provenance) == (
        deformer.method,
        deformer.training,
        deformer.provenance,
    )
    assert loaded.control_spec.names == deformer.control_spec.names
    assert list(loaded.mesh.parts) == ["start", "rest"]
    assert loaded.mesh.unit == "cm"
    loaded.save(tmp_path / "b.understudy")
    assert (tmp_path / "a.understudy").read_bytes() == (tmp_path / "b.understudy").read_bytes()


def test_missing_foreign_and_empty_files(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        Deformer.load(tmp_path / "none.understudy")
    for name, content in (("empty", b""), ("text", b"v 0 0 0\nf 1 2 3\n"), ("zeros", bytes(100))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FileError, match="not an understudy file"):
            Deformer.load(tmp_path / name)
    save_file({"x": np.zeros(3)}, str(tmp_path / "other.safetensors"))
    with pytest.raises(FileError, match="but not a deformer"):
        Deformer.load(tmp_path / "other.safetensors")
    with pytest.raises(FileError):
        Deformer.load(tmp_path)


def test_every_truncation_is_an_error(saved):
    whole = saved.read_bytes()
    for length in [
        *range(0, 200, 7),
        *range(200, len(whole), max(1, len(whole) // 60)),
        len(whole) - 1,
    ]:
        saved.write_bytes(whole[:length])
        with pytest.raises(FileError):
            Deformer.load(saved)


@pytest.mark.parametrize("newer", [True, False])
def test_an_unknown_entry_names_the_version_that_knows_it(saved, newer):
    def add(arrays, header):
        arrays["mesh.dreams"] = np.ones(24, np.float32)
        if newer:
            header["format_version"] = 99

    rewrite(saved, add)
    wrong = (
        r"mesh.dreams.* of format 99.* up to format \d+; upgrade"
        if newer
        else "mesh.dreams.*no entry"
    )
    with pytest.raises(FileError, match=wrong):
        Deformer.load(saved)
    if runtime.compiled is not None:
        with pytest.raises(ValueError, match=wrong):
            runtime.compiled.Model(saved.read_bytes())


@pytest.mark.parametrize(
    "change",
    [
        lambda a, h: a["mesh.vertices"].__setitem__((0, 0), np.nan),
        lambda a, h: a["nets.weights"].__setitem__(3, np.inf),
        lambda a, h: a["skin.virtual_index"].__setitem__((0, 0), 7),
        lambda a, h: a["skin.bone_index"].__setitem__((0, 0), -1),
        lambda a, h: a["mesh.polygon_vertices"].__setitem__(0, 10**6),
        lambda a, h: a["nets.inputs"].__setitem__(0, 26),
        lambda a, h: a["bases.coefficients"].__setitem__(0, 99),
        lambda a, h: a.__setitem__("nets.weights", a["nets.weights"][:-1]),
        lambda a, h: a.__setitem__("nets.weights", np.append(a["nets.weights"], np.float32(0))),
        lambda a, h: a.__setitem__("skin.weight", a["skin.weight"][:, :1]),
        lambda a, h: a.pop("mesh.vertices"),
        lambda a, h: h.pop("mesh.unit"),
        lambda a, h: h.update({"nets.activations": "none"}),
        lambda a, h: a["nets.output_counts"].__setitem__(0, -5),
        lambda a, h: h["nets.activations"].__setitem__(0, "sine"),
        lambda a, h: h["skeleton.names"].pop(),
        lambda a, h: h.update(format_version="1"),
        lambda a, h: a["nets.layer_counts"].__setitem__(0, 0),
        lambda a, h: a.pop("skin.weight"),
        lambda a, h: h.update({"mean": "no array"}),
        lambda a, h: a.update({"method": np.zeros(3, np.float32)}),
        lambda a, h: a.update({"clip.01.world_from_bone": np.zeros((1, 2, 3, 4))}),
        lambda a, h: a["nets.outputs"].__setitem__(0, 2 * 10**9),
        lambda a, h: h.update(training=5),
        lambda a, h: h.update(method=[1]),
        lambda a, h: h.update(provenance=None),
    ],
)
def test_damage_is_found(saved, change):
    rewrite(saved, change)
    with pytest.raises(FileError, match=str(saved)):
        Deformer.load(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda a, h: a.pop("mesh.vertices.grid"),
        lambda a, h: a.__setitem__("mesh.vertices.grid", a["mesh.vertices.grid"][:1]),
        lambda a, h: a.__setitem__("mesh.vertices.grid", a["mesh.vertices.grid"][:, :2]),
        lambda a, h: a.update(
            {
                "mesh.vertices": a["mesh.vertices"][:, :1],
                "mesh.vertices.grid": np.ones((2, 3), np.float32),
            }
        ),
        lambda a, h: a.__setitem__("mesh.vertices", a["mesh.vertices"].astype(np.uint8)),
        lambda a, h: a.update(
            {
                "mesh.vertices.grid": np.zeros((2, 3), np.uint16),
                "mesh.vertices.grid.grid": np.ones((2, 3), np.float32),
            }
        ),
        lambda a, h: a.__setitem__(
            "nets.inputs.steps", a["nets.inputs"].astype(np.int8)
        ),  # beside the numbers
        lambda a, h: a["mesh.vertices.grid"].__setitem__((0, 0), np.nan),
        lambda a, h: a["mesh.vertices.grid"].__setitem__((1, 0), 3e38),
        lambda a, h: a.__setitem__("mesh.vertices", a["mesh.vertices"].astype(np.int16)),
        lambda a, h: a.__setitem__("mesh.vertices", a["mesh.vertices"][:-1]),
        lambda a, h: a.__setitem__("mean", np.concatenate([a["mean"], a["mean"]])),
        lambda a, h: a["skin.weight"].__setitem__((0, 0), 65535),
        lambda a, h: a.__setitem__("skin.weight", a["skin.weight"][:, :1]),
        lambda a, h: a["skin.bone_index"].__setitem__((0, 0), 200),
        lambda a, h: a.__setitem__(
            "nets.inputs.steps", a.pop("nets.inputs").astype(np.int8)
        ),  # sums of what were numbers
        lambda a, h: a.__setitem__("nets.inputs", a["nets.inputs"].astype(np.float32)),
        lambda a, h: a.__setitem__("mesh.polygon_vertices", a["mesh.polygon_vertices"][:-1]),
        lambda a, h: a.__setitem__("nets.weights", a["nets.weights"][:-1]),
        lambda a, h: a.__setitem__("nets.biases", np.append(a["nets.biases"], np.float16(0))),
        lambda a, h: a["nets.biases"].__setitem__(-1, np.inf),
        lambda a, h: a.__setitem__("nets.weights", a["nets.weights"].astype(np.float32)),
        lambda a, h: h.update(storage="float32"),
    ],
)
def test_damage_of_narrow_arrays_is_found(saved_narrow, change):
    rewrite(saved_narrow, change)
    with pytest.raises(FileError, match=str(saved_narrow)):
        Deformer.load(saved_narrow)
    if runtime.compiled is not None:
        with pytest.raises(ValueError, match=r"array |nets|skin|mesh|mean"):
            runtime.compiled.Model(saved_narrow.read_bytes())


@pytest.mark.parametrize(
    "values",
    [
        [0, 255],
        [0, 256],
        [300, 301, 302],
        [0, 65535],
        [70000, 70001, 69999],
        [0, 10**9],
        [-1, 0, 0],
        [],
    ],
)
def test_indices_are_as_narrow_as_holds_them(values):
    given = {"nets.inputs": np.array(values, np.int32)}
    stored = narrowed(given)
    assert len(stored) == 1
    back = widened(stored, half=True)
    assert list(back) == ["nets.inputs"]
    np.testing.assert_array_equal(back["nets.inputs"], values)
    (array,) = stored.values()
    assert array.itemsize == {
        (0, 10**9): 4,
        (0, 256): 2,
        (300, 301, 302): 2,
        (0, 65535): 2,
        (70000, 70001, 69999): 4,
    }.get(tuple(values), 1)


def test_a_grid_wider_than_its_numbers_is_refused_before_it_fills_the_memory():
    wide = {"mean": np.zeros((100000, 1), np.uint16), "mean.grid": np.zeros((2, 100000), "f4")}
    with pytest.raises(InputError, match="does not fit"):
        widened(wide, half=True)


@pytest.mark.parametrize("name", forged.REPEATED)
def test_a_key_that_is_given_twice_is_refused(tmp_path, name):
    path = tmp_path / "twice.understudy"
    path.write_bytes(forged.REPEATED[name]())
    with pytest.raises(FileError, match=r"has the key '\w*(\.\w+)?' twice"):
        Deformer.load(path)
    if runtime.compiled is not None:
        with pytest.raises(ValueError, match=r"has the key '\w*(\.\w+)?' twice"):
            runtime.compiled.Model(path.read_bytes())


def test_whole_numbers_have_at_most_1000_digits(tmp_path):
    path = tmp_path / "long.understudy"
    path.write_bytes(forged.forged(header={"provenance": {"a": 10**999, "b": -(10**999)}}))
    assert Deformer.load(path).provenance["a"] == 10**999
    path.write_bytes(forged.forged(header={"provenance": {"a": 10**1000}}))
    with pytest.raises(FileError, match="too many digits"):
        Deformer.load(path)
    if runtime.compiled is not None:
        with pytest.raises(ValueError, match="too many digits"):
            runtime.compiled.Model(path.read_bytes())


def test_steps_beyond_32_bits_are_refused():
    with pytest.raises(InputError, match="does not fit int32"):
        widened({"nets.inputs.steps": np.full(70000, 32767, np.int16)}, half=True)


@pytest.mark.parametrize("which", ["saved", "saved_narrow"])
def test_a_thousand_mutated_files_give_an_error_or_a_deformer(request, which):
    saved = request.getfixturevalue(which)
    whole = np.frombuffer(saved.read_bytes(), np.uint8)
    rng = np.random.default_rng(0)
    header_end = 8 + int.from_bytes(whole[:8].tobytes(), "little")
    for trial in range(1000):
        mutated = whole.copy()
        reach = (
            header_end if trial % 2 else len(whole)
        )  # half of them hit the header, where the dangerous bytes are
        mutated[rng.integers(0, reach, rng.integers(1, 5))] = rng.integers(0, 256)
        saved.write_bytes(mutated.tobytes())
        try:
            deformer = Deformer.load(saved)
        except FileError:
            continue
        deformer.deform(
            np.tile(np.eye(3, 4), (1, deformer.skeleton.bone_count, 1, 1)),
            np.zeros((1, deformer.control_spec.count)),
        )


def test_a_full_disk_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="the disk is full: free some space"):
        full_deformer(seed=5).save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileError, match="cannot be written"):
        full_deformer().save(tmp_path / "file" / "a.understudy")
    with pytest.raises(FileError, match="is a folder"):
        full_deformer().save(tmp_path)

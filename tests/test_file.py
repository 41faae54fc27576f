import errno
import json
import os

import numpy as np
import pytest
from builders import full_deformer, random_motion
from safetensors import safe_open
from safetensors.numpy import save_file

from understudy import Deformer, FileError


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "test.understudy"
    full_deformer(virtual=True).save(path)
    return path


def rewrite(path, change):
    """Load the raw parts of a file, let `change(arrays, header)` damage them, write them back."""
    with safe_open(str(path), framework="numpy") as opened:
        header = json.loads(opened.metadata()["understudy"])
        arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
    change(arrays, header)
    save_file(arrays, str(path), metadata={"understudy": json.dumps(header)})


@pytest.mark.parametrize("virtual", [False, True])
@pytest.mark.parametrize("blend", ["linear", "dual_quaternion"])
def test_save_load_deform_is_identical(tmp_path, virtual, blend):
    deformer = full_deformer(blend, virtual)
    deformer.save(tmp_path / "a.understudy")
    loaded = Deformer.load(tmp_path / "a.understudy")
    bones = random_motion(deformer.skeleton, 5)
    controls = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_array_equal(loaded.deform(bones, controls), deformer.deform(bones, controls))
    assert (loaded.method, loaded.training, loaded.provenance) == (deformer.method, deformer.training, deformer.provenance)
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
    with pytest.raises(FileError, match="not an understudy deformer"):
        Deformer.load(tmp_path / "other.safetensors")
    with pytest.raises(FileError):
        Deformer.load(tmp_path)


def test_every_truncation_is_an_error(saved):
    whole = saved.read_bytes()
    for length in [*range(0, 200, 7), *range(200, len(whole), max(1, len(whole) // 60)), len(whole) - 1]:
        saved.write_bytes(whole[:length])
        with pytest.raises(FileError):
            Deformer.load(saved)


def test_a_newer_version_says_upgrade(saved):
    rewrite(saved, lambda arrays, header: header.update(format_version=99))
    with pytest.raises(FileError, match=r"newer understudy .*upgrade"):
        Deformer.load(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda a, h: a["mesh.vertices"].__setitem__((0, 0), np.nan),
        lambda a, h: a["nets.values"].__setitem__(3, np.inf),
        lambda a, h: a["skin.virtual_index"].__setitem__((0, 0), 7),
        lambda a, h: a["skin.bone_index"].__setitem__((0, 0), -1),
        lambda a, h: a["mesh.polygon_vertices"].__setitem__(0, 10**6),
        lambda a, h: a["nets.inputs"].__setitem__(0, 26),
        lambda a, h: a["bases.coefficients"].__setitem__(0, 99),
        lambda a, h: a.__setitem__("nets.values", a["nets.values"][:-1]),
        lambda a, h: a.__setitem__("nets.values", np.append(a["nets.values"], np.float32(0))),
        lambda a, h: a.__setitem__("skin.weight", a["skin.weight"][:, :1]),
        lambda a, h: a.pop("mesh.vertices"),
        lambda a, h: h.pop("mesh"),
        lambda a, h: h.update(nets="none"),
        lambda a, h: h["nets"][0].update(sizes=[12, -5, 4]),
        lambda a, h: h["nets"][0].update(activation="sine"),
        lambda a, h: h["skeleton"]["names"].pop(),
        lambda a, h: h.update(format_version="1"),
        lambda a, h: h["nets"][0].update(sizes=[]),
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


def test_a_thousand_mutated_files_give_an_error_or_a_deformer(saved):
    whole = np.frombuffer(saved.read_bytes(), np.uint8)
    rng = np.random.default_rng(0)
    header_end = 8 + int.from_bytes(whole[:8].tobytes(), "little")
    for trial in range(1000):
        mutated = whole.copy()
        reach = header_end if trial % 2 else len(whole)  # half of them hit the header, where the dangerous bytes are
        mutated[rng.integers(0, reach, rng.integers(1, 5))] = rng.integers(0, 256)
        saved.write_bytes(mutated.tobytes())
        try:
            deformer = Deformer.load(saved)
        except FileError:
            continue
        deformer.deform(np.tile(np.eye(3, 4), (1, deformer.skeleton.bone_count, 1, 1)), np.zeros((1, deformer.control_spec.count)))


def test_a_full_disk_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="no space left"):
        full_deformer(seed=5).save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileError, match="cannot be written"):
        full_deformer().save(tmp_path / "file" / "a.understudy")
    with pytest.raises(FileError, match="is a folder"):
        full_deformer().save(tmp_path)

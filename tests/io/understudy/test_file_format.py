"""docs/file-format.md and the written form: the page lists every entry, generated files are up to
date, and a reader that was written from the page alone plays every kind of file.
"""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import plain_reader
import pytest
from builders import full_deformer
from parity.kinds import KINDS, drivers

from understudy import Clip, Deformer, InputError
from understudy.core import form
from understudy.core.clip import ClipKeys
from understudy.io.understudy import entries_of

ROOT = Path(__file__).parents[3]


def written_form():
    spec = importlib.util.spec_from_file_location("form", ROOT / "runtime/tools/write_form.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_files_are_those_of_the_form():
    assert written_form().outdated() == []


def test_the_page_lists_every_entry():
    page = (ROOT / "docs/file-format.md").read_text()
    assert f"this page describes version {form.FORMAT_VERSION}." in page.replace("\n", " ")
    assert plain_reader.names_of(page) == {entry.name for entry in form.ENTRIES}


@pytest.mark.parametrize("name", KINDS)
def test_a_reader_written_from_the_page_plays_every_kind(tmp_path, name):
    path = tmp_path / "a.understudy"
    deformer = KINDS[name]()
    deformer.save(path)
    header, arrays = plain_reader.read(path)
    bones, controls = drivers(deformer, 2)
    given = [None if deformer.poses_bones or bones is None else bones[1], None]
    if controls is not None:
        given[1] = controls[1]
    found = plain_reader.play(header, arrays, *given)
    wanted = deformer.deform_reference(*given)
    np.testing.assert_allclose(found, wanted, atol=2e-5 * np.ptp(wanted))


def test_a_reader_written_from_the_page_reads_clips(tmp_path):
    deformer = full_deformer()
    rng = np.random.default_rng(0)
    keyed = rng.random((9, deformer.bone_count)) < 0.4
    keyed[[0, -1]] = True
    keys = ClipKeys(keyed, rng.normal(size=(keyed.sum(), 12)))
    clips = (Clip.from_keys("a", keys, 24.0, 5), Clip("b", keys.world_from_bone()[:3]))
    replace(deformer, clips=clips).save(tmp_path / "a.understudy")
    header, arrays = plain_reader.read(tmp_path / "a.understudy")
    assert header["clips.names"] == ["a", "b"]
    assert arrays["clips.frame_rates"].tolist() == [24, 0]
    for number, clip in enumerate(clips):
        found = plain_reader.clip(header, arrays, number)
        np.testing.assert_allclose(found, clip.world_from_bone, atol=1e-12)


def test_a_mask_scales_the_correctives_and_is_of_format_2(tmp_path):
    deformer = full_deformer()
    count = deformer.mesh.vertex_count
    bones, controls = drivers(deformer, 2)
    plain = deformer.displacements(bones, controls)
    mask = np.linspace(0, 1, count, dtype=np.float32)
    scaled = replace(deformer, mask=mask)
    found = scaled.displacements(bones, controls)
    np.testing.assert_allclose(found, mask[:, None] * plain, atol=1e-6)
    none = replace(deformer, mask=np.zeros(count)).deform(bones, controls)
    still = deformer.deform_displaced(bones, np.zeros_like(plain))
    np.testing.assert_allclose(none, still, atol=1e-5)
    for made, version in ((deformer, 1), (scaled, 2)):
        made.save(tmp_path / "a.understudy")
        assert plain_reader.read(tmp_path / "a.understudy")[0]["format_version"] == version
    np.testing.assert_array_equal(Deformer.load(tmp_path / "a.understudy").mask, mask)
    for wrong in (np.full(count, 1.1), np.full(count, -0.1), np.full(count, np.nan), np.ones(3)):
        with pytest.raises(InputError, match="mask"):
            replace(deformer, mask=wrong)


def test_every_entry_is_written_and_comes_back(tmp_path):
    """What the form lists and no noun has would otherwise be left out in silence."""
    everything = {}
    for name in ("full-linear-virtual-tanh", "full-bounded", "posed"):
        everything |= entries_of(KINDS[name]())
    deformer = KINDS["posed"]()
    clip = Clip("a", np.tile(np.eye(3, 4), (2, deformer.bone_count, 1, 1)))
    keys = ClipKeys(
        np.ones((2, deformer.bone_count), bool), np.zeros((2 * deformer.bone_count, 12))
    )
    error = np.ones(deformer.mesh.vertex_count)
    mesh = replace(
        deformer.mesh,
        corner_normals=np.ones((len(deformer.mesh.polygon_vertices), 3)),
        materials=("skin",),
        polygon_material=np.zeros(len(deformer.mesh.polygon_sizes), int),
    )
    deformer = replace(deformer, mask=np.linspace(0, 1, deformer.mesh.vertex_count))
    full = replace(
        deformer, mesh=mesh, clips=(clip, Clip.from_keys("b", keys)), held_out_error=error
    )
    everything |= entries_of(full)
    numbered = {name.replace(".0.", ".#.").replace(".1.", ".#.") for name in everything}
    assert numbered == {entry.name for entry in form.ENTRIES}
    full.save(tmp_path / "a.understudy")
    back = entries_of(Deformer.load(tmp_path / "a.understudy"))
    for name, value in entries_of(full).items():
        np.testing.assert_equal(back[name], value, err_msg=name)

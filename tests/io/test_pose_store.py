"""Poses on disk: what is read is what was written, and whatever is wrong is said clearly."""

import errno
import json
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zarr
from bending_rig import BendingRig
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.core.poses import Poses, VertexSource
from understudy.io.pose_store import store
from understudy.rigs.sampling import gaussian
from understudy.system.errors import FileError, InputError

RIG = BendingRig()
COUNT = 50
FACTS = {"rig": "bending", "plan": {"seed": 0}}


def of_rig(values, facts=FACTS, rig=RIG) -> store.Sample:
    """What a store of a rig's poses is made for."""
    return store.Sample(rig.mesh, rig.skeleton, rig.controls, values, facts)


def sample(
    path: Path, rig=RIG, count: int = COUNT, blocks=None, block: int = 8, facts=None, **options
) -> Poses:
    """A store at `path`, filled in-process; returns the same poses in memory."""
    poses = rig.evaluate(gaussian(rig.controls, count, seed=0))
    store.create(
        path,
        of_rig(poses.controls, facts or FACTS, rig),
        block=block,
        **options,
    )
    for k in store.missing_blocks(path) if blocks is None else blocks:
        rows, values = store.block_controls(path, k)
        assert np.array_equal(values, poses.controls[rows.start : rows.stop])
        store.write_block(path, k, poses.take(np.array(rows)))
    return poses


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "bend.zarr"
    return path, sample(path)


@pytest.fixture
def copy(finished, tmp_path):
    """A finished store to damage."""
    return Path(shutil.copytree(finished[0], tmp_path / "copy.zarr"))


def test_everything_comes_back(finished):
    path, memory = finished
    poses = store.open_poses(path)
    assert isinstance(poses.vertices, VertexSource)
    assert poses.name == "bend"
    assert np.array_equal(poses.read_poses(0, COUNT), memory.vertices)
    assert np.array_equal(poses.world_from_bone, memory.world_from_bone)
    assert np.array_equal(poses.controls, memory.controls)
    for name in ("vertices", "polygon_sizes", "polygon_vertices"):
        assert np.array_equal(getattr(poses.mesh, name), getattr(RIG.mesh, name))
    assert poses.mesh.corner_uvs is None
    assert (poses.mesh.materials, poses.mesh.unit) == (("skin",), "cm")
    assert {k: v.tolist() for k, v in poses.mesh.parts.items()} == {
        "left/half": list(range(20)),
        "none": [],
    }
    assert poses.skeleton.names == ("a", "b", "c")
    assert np.array_equal(poses.skeleton.parents, RIG.skeleton.parents)
    assert np.array_equal(poses.skeleton.world_from_bone, RIG.skeleton.world_from_bone)
    for name in ("names", "units"):
        assert getattr(poses.control_spec, name) == getattr(RIG.controls, name)
    for name in ("low", "high", "rest", "limit_low", "limit_high", "numeric"):
        assert np.array_equal(getattr(poses.control_spec, name), getattr(RIG.controls, name))
    assert store.provenance(path)["plan"] == {"seed": 0}


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_slices_equal_memory(finished, data):
    path, memory = finished
    vertices = store.StoredVertices(path)
    start, stop = data.draw(st.tuples(st.integers(0, COUNT), st.integers(0, COUNT + 5)))
    assert np.array_equal(vertices.read_poses(start, stop), memory.vertices[start:stop])
    some = np.array(
        data.draw(st.lists(st.integers(0, 39), max_size=12)), int
    )  # any order, any repeats
    assert np.array_equal(vertices.read(0, COUNT, some), memory.vertices[:, some])


def test_tiles_of_vertices(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "TILE", 7)
    memory = sample(tmp_path / "s")
    assert zarr.open_array(tmp_path / "s/vertices", mode="r").chunks == (8, 7, 3)
    poses = store.open_poses(tmp_path / "s")
    some = np.array([39, 0, 13, 14, 0])
    assert np.array_equal(poses.read_vertices(some), memory.vertices[:, some])
    assert np.array_equal(poses.read_poses(3, 29), memory.vertices[3:29])


def test_a_vertex_that_is_not_there(finished):
    with pytest.raises(InputError, match=r"index 40 is outside 0..39"):
        store.open_poses(finished[0]).read_vertices([40])


def test_threads_may_read_at_once_and_the_source_may_travel(finished):
    path, memory = finished
    source = pickle.loads(pickle.dumps(store.StoredVertices(path)))
    with ThreadPoolExecutor(8) as pool:
        for v, column in enumerate(pool.map(lambda v: source.read(0, COUNT, [v]), range(40))):
            assert np.array_equal(column[:, 0], memory.vertices[:, v])


def test_one_pose_and_no_bones(tmp_path):
    rig = BendingRig(bones=False)
    memory = sample(tmp_path / "one", rig, count=1)
    poses = store.open_poses(tmp_path / "one")
    assert poses.skeleton is None
    assert np.array_equal(poses.read_poses(0, 1), memory.vertices)


def test_blocks_are_even(tmp_path):
    sample(tmp_path / "s", count=9, block=8)
    assert [len(store.block_controls(tmp_path / "s", k)[0]) for k in (0, 1)] == [5, 4]
    with pytest.raises(InputError, match=r"blocks 0\.\.1, got 2"):
        store.block_controls(tmp_path / "s", 2)


def test_contents_do_not_depend_on_the_order_of_writing(tmp_path, finished):
    sample(tmp_path / "s", blocks=[6, 0, 3, 5, 1, 4, 2])
    assert contents(tmp_path / "s") == contents(finished[0])


def contents(path: Path) -> dict[str, bytes]:
    return {
        str(f.relative_to(path)): f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file()
    }


def test_an_unfinished_store_says_how_far_it_is(tmp_path):
    sample(tmp_path / "s", blocks=[0, 2])
    with pytest.raises(
        FileError, match="sampling stopped at 16 of 50 poses: run the same command again to resume"
    ):
        store.open_poses(tmp_path / "s")
    assert store.missing_blocks(tmp_path / "s") == [1, 3, 4, 5, 6]


def test_missing_and_foreign_stores(tmp_path):
    with pytest.raises(FileError, match="no such pose store"):
        store.open_poses(tmp_path / "nothing")
    (tmp_path / "file").write_bytes(b"\x00\xff")
    (tmp_path / "folder").mkdir()
    zarr.create_group(tmp_path / "other")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/zarr.json").write_text("[1, 2")
    (tmp_path / "list").mkdir()
    (tmp_path / "list/zarr.json").write_text("[1, 2]")
    for name in ("file", "folder", "other", "broken", "list"):
        with pytest.raises(FileError, match="not a pose store"):
            store.open_poses(tmp_path / name)


def test_a_newer_store(copy):
    header = json.loads((copy / "zarr.json").read_text())
    header["attributes"]["understudy_poses"] = 2
    (copy / "zarr.json").write_text(json.dumps(header))
    with pytest.raises(FileError, match="format version 2, this understudy reads up to 1; update"):
        store.open_poses(copy)


def test_a_header_without_its_facts(copy):
    header = json.loads((copy / "zarr.json").read_text())
    del header["attributes"]["nouns"]
    (copy / "zarr.json").write_text(json.dumps(header))
    with pytest.raises(FileError, match="the header lacks nouns"):
        store.open_poses(copy)


@pytest.mark.parametrize("damage", ["shortened", "emptied", "removed"])
def test_a_truncated_tile_is_seen_at_opening_and_redone_by_resuming(copy, finished, damage):
    tile = copy / "vertices/c.2.0.0"
    if damage == "removed":
        tile.unlink()
    else:
        tile.write_bytes(tile.read_bytes()[: 100 if damage == "shortened" else 0])
    with pytest.raises(
        FileError,
        match=r"vertices/c\.2\.0\.0 (holds|is missing).* run the same sampling command again",
    ):
        store.open_poses(copy)
    memory = finished[1]
    assert store.resume(copy, of_rig(memory.controls)) == [2]
    rows, _ = store.block_controls(copy, 2)
    store.write_block(copy, 2, memory.take(np.array(rows)))
    assert contents(copy) == contents(finished[0])


@pytest.mark.parametrize(
    "tile",
    [
        "vertices/c.2.0.0",
        "world_from_bone/c.1.0.0.0",
        "mesh/vertices/c.0.0",
        "control_values/c.0.0",
    ],
)
def test_a_changed_byte_is_seen_at_reading(copy, tile):
    data = bytearray((copy / tile).read_bytes())
    data[17] ^= 1
    (copy / tile).write_bytes(data)
    with pytest.raises(FileError, match=r"cannot be read .*checksum.*the store is damaged"):
        store.open_poses(copy).read_poses(0, COUNT)


def test_a_small_file_that_is_missing_and_a_marker_of_nonsense(copy):
    (copy / "vertices/done/1.json").write_text("{")
    with pytest.raises(FileError, match="marker of block 1"):
        store.open_poses(copy)
    assert store.missing_blocks(copy) == [1]
    shutil.rmtree(copy / "mesh/vertices")
    with pytest.raises(
        FileError,
        match=r"mesh/vertices/.* is missing; the store is damaged: sample it again with overwrite",
    ):
        store.resume(copy, of_rig(gaussian(RIG.controls, COUNT, seed=0)))


def test_a_tile_that_disappears_after_opening(copy):
    poses = store.open_poses(copy)
    (copy / "vertices/c.2.0.0").unlink()
    with pytest.raises(FileError, match="a tile of the vertices has disappeared"):
        poses.read_vertices([3])
    shutil.rmtree(copy)
    with pytest.raises(FileError, match="cannot be opened"):
        poses.read_vertices([3])


def test_resuming_another_sample_says_what_differs(copy, finished):
    controls = finished[1].controls
    ask = lambda facts=FACTS, values=controls, rig=RIG: store.resume(
        copy, of_rig(values, facts, rig)
    )
    assert ask() == []
    with pytest.raises(
        FileError,
        match=r"holds another sample: plan seed 0 there, 1 now. Choose another path, or overwrite",
    ):
        ask({"rig": "bending", "plan": {"seed": 1}})
    with pytest.raises(FileError, match="rig 'bending' there, 'human' now"):
        ask({"rig": "human", "plan": {"seed": 0}})
    with pytest.raises(FileError, match="control values '"):
        ask(values=controls[:, ::-1].copy())
    with pytest.raises(FileError, match="skeleton '"):
        ask(rig=BendingRig(bones=False))


def test_create_refuses_what_is_there_and_never_replaces_what_is_not_a_store(
    copy, finished, tmp_path
):
    with pytest.raises(FileError, match="already exists"):
        sample(copy)
    (tmp_path / "holiday").mkdir()
    (tmp_path / "holiday/photo.jpg").write_bytes(b"precious")
    with pytest.raises(FileError, match="not a pose store"):
        sample(tmp_path / "holiday", overwrite=True)
    assert (tmp_path / "holiday/photo.jpg").exists()
    sample(copy, overwrite=True, facts={"another": 1}, count=3)
    assert store.open_poses(copy).pose_count == 3
    (tmp_path / "empty").mkdir()
    sample(tmp_path / "empty")
    sample(tmp_path / "deep/er/store")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "copy.zarr",
        "deep",
        "empty",
        "holiday",
    ]  # no drafts are left


def test_nan_is_refused_with_pose_and_controls(tmp_path):
    memory = sample(tmp_path / "s", blocks=[])
    rows, values = store.block_controls(tmp_path / "s", 1)
    vertices, bones = memory.vertices[rows], memory.world_from_bone[rows]
    poses = replace(memory.take(np.array(rows)), vertices=vertices, world_from_bone=bones)
    vertices[3, 11, 2] = np.nan  # after the checks of Poses
    with pytest.raises(
        InputError, match=rf"pose {rows[3]}: vertex 11 is NaN.* bend = {values[3, 0]:.6g} deg"
    ):
        store.write_block(tmp_path / "s", 1, poses)
    assert 1 in store.missing_blocks(tmp_path / "s")
    vertices[3, 11, 2] = 0
    bones[0, 2] = np.inf
    with pytest.raises(InputError, match=f"pose {rows[0]}: bone 2 is NaN"):
        store.write_block(tmp_path / "s", 1, poses)


def test_blocks_of_the_wrong_size_are_refused(tmp_path):
    memory = sample(tmp_path / "s", blocks=[])
    with pytest.raises(
        InputError, match=r"vertices of block 0: expected shape \(8, 40, 3\), got \(3, 40, 3\)"
    ):
        store.write_block(tmp_path / "s", 0, memory.take(np.arange(3)))
    with pytest.raises(InputError, match="the store has bones, the poses have none"):
        store.write_block(tmp_path / "s", 0, Poses(RIG.mesh, memory.vertices[:8]))


def test_a_disk_that_fills_up_while_writing(tmp_path, monkeypatch):
    memory = sample(tmp_path / "s", blocks=[0])
    rows, _ = store.block_controls(tmp_path / "s", 1)
    block = memory.take(np.array(rows))
    real = zarr.storage._local._put

    def full(path, value, exclusive=False):
        if path.parent.name == "world_from_bone":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, value, exclusive=exclusive)

    monkeypatch.setattr(zarr.storage._local, "_put", full)
    with pytest.raises(
        FileError,
        match=(
            rf"no space left .*50 poses need {50 * (40 * 12 + 3 * 96):,} bytes, [0-9,]+ bytes are "
            rf"free"
        ),
    ):
        store.write_block(tmp_path / "s", 1, block)
    monkeypatch.undo()
    assert 1 in store.missing_blocks(
        tmp_path / "s"
    )  # its vertices are there, but it does not pass as complete
    store.write_block(tmp_path / "s", 1, block)
    assert 1 not in store.missing_blocks(tmp_path / "s")


def test_too_little_space_is_said_before_the_work(tmp_path, monkeypatch):
    sample(tmp_path / "half", blocks=[0])
    monkeypatch.setattr(store, "_free", lambda path: 1000)
    with pytest.raises(
        FileError,
        match=r"too little space on the disk: 50 poses need 38,400 bytes, 1,000 bytes are free",
    ):
        sample(tmp_path / "s")
    assert not (tmp_path / "s").exists()
    with pytest.raises(FileError, match="42 poses need"):
        store.resume(tmp_path / "half", of_rig(gaussian(RIG.controls, COUNT, seed=0)))


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be written"):
        sample(tmp_path / "file/store")
    with (
        pytest.raises(FileError, match="cannot be written there"),
        store.lock(tmp_path / "file/store"),
    ):
        pass


def test_only_one_holds_the_lock(tmp_path):
    with (
        store.lock(tmp_path / "s"),
        pytest.raises(FileError, match="another process is sampling to this store"),
        store.lock(tmp_path / "s"),
    ):
        pass
    with store.lock(tmp_path / "s"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_store_that_is_replaced_while_it_is_read(tmp_path):
    """By one of the same size, of another rig of the same name."""
    memory = sample(tmp_path / "s")
    poses = store.open_poses(tmp_path / "s")
    sample(tmp_path / "s", overwrite=True)
    assert np.array_equal(poses.read_poses(0, 3), memory.vertices[:3])  # of the same sample
    sample(tmp_path / "s", facts={"rig": "another"}, overwrite=True)
    for read in (lambda: poses.read_poses(0, 3), lambda: poses.read_vertices([1])):
        with pytest.raises(FileError, match="the store was replaced while it was read; run"):
            read()

"""The memory that a process may use, and blocks of poses that respect tiles."""

import numpy as np
import pytest

from understudy.core.mesh import Mesh
from understudy.core.poses import PoseRange, Poses
from understudy.system import memory
from understudy.system.errors import InputError


@pytest.mark.parametrize(
    ("text", "want"),
    [("4GB", 4 * 10**9), ("2 GiB", 2 << 30), ("1.5g", 15 * 10**8), ("2000000000", 2 * 10**9)],
)
def test_sizes(text, want):
    assert memory.parse_size(text) == want


@pytest.mark.parametrize("text", ["", "GB", "-4GB", "4 apples", "500MB", "0", "1e9"])
def test_wrong_sizes(text):
    with pytest.raises(InputError, match="memory: "):
        memory.parse_size(text)


def test_the_default_follows_the_container(tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_text("MemTotal: 99 kB\nMemAvailable:   16777216 kB\n")
    (tmp_path / "max").write_text("max\n")
    monkeypatch.setattr(memory, "_MEASURED", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_LIMITS", (tmp_path / "max", tmp_path / "none"))
    assert memory.budget() == 8 << 30
    (tmp_path / "max").write_text(f"{4 << 30}\n")
    assert memory.budget() == 2 << 30
    with memory.using(3 << 30):
        assert memory.budget() == 3 << 30
        assert memory.share(0.5, 1 << 30) == 1 << 30
    assert memory.budget() == 2 << 30
    (tmp_path / "meminfo").unlink()
    (tmp_path / "max").unlink()
    assert memory.budget() == 4 << 30


class Tiled:
    """Vertices in tiles of `height` poses; counts the poses that are read."""

    def __init__(self, array: np.ndarray, height: int):
        self.array, self.shape, self.pose_tile, self.read_count = array, array.shape, (height, 0), 0

    def read_poses(self, start, stop):
        return self.read(start, stop, np.arange(self.shape[1]))

    def read(self, start, stop, vertices):
        height = self.pose_tile[0]
        self.read_count += (-(-stop // height) - start // height) * height
        return self.array[start:stop, vertices]


@pytest.mark.parametrize("size", [1, 3, 5, 7, 12, 100])
@pytest.mark.parametrize("part", [None, np.array([3, 1])])
def test_every_tile_is_read_once_whatever_the_size_of_blocks(size, part):
    array = np.random.default_rng(0).random((23, 4, 3), np.float32)
    mesh = Mesh.from_faces(array[0], np.array([[0, 1, 2, 3]]))
    source = Tiled(array, 5)
    want = array if part is None else array[:, part]
    for start, stop, reads in ((0, 23, 25), (3, 19, 20)):
        vertices = source if start == 0 else PoseRange(source, start, stop)
        source.read_count = 0
        blocks = list(Poses(mesh, vertices).pose_blocks(size, part))
        assert [len(block) for _, block in blocks[:-1]] == [size] * (len(blocks) - 1)
        assert np.array_equal(np.concatenate([block for _, block in blocks]), want[start:stop])
        assert blocks[-1][0].stop == stop - start
        assert source.read_count == reads
    assert np.array_equal(Poses(mesh, source).take(np.array([22, 0, 7, 6])).vertices[0], array[22])


def test_blocks_of_a_large_mesh_are_small():
    mesh = Mesh.from_faces(np.zeros((1000, 3), np.float32), np.array([[0, 1, 2]]))
    poses = Poses(mesh, np.zeros((300, 1000, 3), np.float32))
    assert poses.block_size() == 256
    assert poses.block_size(most_bytes=120_000) == 10
    assert poses.block_size(most_bytes=1) == 1

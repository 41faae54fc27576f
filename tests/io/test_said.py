"""What readers and writers say, where it once went unsaid."""

import numpy as np
import pytest
from gltf_maker import GltfMaker
from rigged_characters import make_character, tube_mesh

from understudy import Character, CharacterClip, InputError
from understudy.geometry.transforms import bone_sizes
from understudy.io.atomic_write import atomic_write, ensure_writable
from understudy.io.registry import read_character, read_poses, write_character
from understudy.system.progress import Progress


class Listening(Progress):
    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


def frames(count=5):
    mesh = tube_mesh()
    sway = np.sin(np.arange(count) / 3)[:, None, None] * [0.0, 0.1, 0.0]
    return mesh, (mesh.vertices + sway).astype(np.float32)


def test_a_sequence_without_a_rate_says_so(tmp_path):
    mesh, vertices = frames()
    heard = Listening()
    np.savez(
        tmp_path / "a.npz",
        vertices=vertices,
        polygon_sizes=mesh.polygon_sizes,
        polygon_vertices=mesh.polygon_vertices,
    )
    read_poses(tmp_path / "a.npz", progress=heard)
    assert any("no frame rate" in text for text in heard.said)


@pytest.mark.parametrize("frame", [0, 2, 4])
def test_one_frame_in_another_vertex_order_is_refused(frame, tmp_path):
    """Of a coarse mesh too, whose edges are long in any order."""
    mesh, vertices = frames()
    vertices[frame] = vertices[frame][np.random.default_rng(0).permutation(mesh.vertex_count)]
    np.savez(
        tmp_path / "a.npz",
        vertices=vertices,
        rest=mesh.vertices,
        polygon_sizes=mesh.polygon_sizes,
        polygon_vertices=mesh.polygon_vertices,
        frame_rate=24.0,
    )
    with pytest.raises(InputError, match=f"pose {frame}|frame {frame}|order of its vertices"):
        read_poses(tmp_path / "a.npz")


def test_a_file_is_named_for_what_it_is(tmp_path):
    maker = GltfMaker()
    maker.mesh({"attributes": {"POSITION": maker.accessor(np.eye(3))}})
    (tmp_path / "hero.fbx").write_bytes(maker.glb())
    with pytest.raises(InputError, match=r"is a \.glb file by its content"):
        read_character(tmp_path / "hero.fbx")


def test_failed_writes_leave_no_folders(tmp_path):
    ensure_writable(tmp_path / "a/b/c.glb")
    assert not (tmp_path / "a").exists()
    with pytest.raises(RuntimeError), atomic_write(tmp_path / "a/b/c.glb"):
        raise RuntimeError
    assert not (tmp_path / "a").exists()
    with atomic_write(tmp_path / "a/b/c.glb") as draft:
        draft.write_bytes(b"x")
    assert (tmp_path / "a/b/c.glb").read_bytes() == b"x"


def test_bones_that_are_scaled_at_rest_are_read_with_size_one(tmp_path):
    made = make_character()
    scale = np.array([100.0, 100, 100, 1])
    rest = made.skeleton.world_from_bone * scale
    skeleton = type(made.skeleton)(made.skeleton.names, made.skeleton.parents, rest)
    clips = tuple(
        CharacterClip(c.name, c.world_from_bone * scale, c.shape_weights) for c in made.clips
    )
    large = Character(made.mesh, skeleton, made.skin, made.shapes, clips)
    write_character(large, tmp_path / "a.glb")
    read = read_character(tmp_path / "a.glb")
    assert bone_sizes(read.skeleton.world_from_bone) == pytest.approx(1, abs=1e-5)
    for one, other in zip(large.clips, read.clips):
        want = large.evaluate_clip(one)
        np.testing.assert_allclose(read.evaluate_clip(other), want, atol=1e-5)

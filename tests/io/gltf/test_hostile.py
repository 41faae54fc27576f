"""Malformed and hostile glTF files: a clear error in seconds, no memory, no other files opened."""

import base64
import json
import os
import struct
import time
import tracemalloc

import numpy as np
import pytest
from gltf_maker import GltfMaker

from understudy.io.registry import read_character
from understudy.system.errors import FileError

TRIANGLE = np.eye(3)


def triangle(**fields):
    """A file with one triangle that a joint moves and a morph target bends."""
    maker = GltfMaker(**fields)
    attributes = {
        "POSITION": maker.accessor(TRIANGLE),
        "JOINTS_0": maker.accessor(np.zeros((3, 4)), "u1"),
        "WEIGHTS_0": maker.accessor(np.tile([1, 0, 0, 0], (3, 1))),
    }
    target = {"POSITION": maker.sparse(None, 3, [1], [[0, 0, 1]])}
    maker.mesh({"attributes": attributes, "targets": [target]})
    maker.root["nodes"] = [{"mesh": 0, "skin": 0}, {"children": [2]}, {"name": "tip"}]
    maker.root["scenes"] = [{"nodes": [0, 1]}]
    matrices = maker.accessor(np.eye(4).reshape(1, 16))
    maker.root["skins"] = [{"joints": [1], "inverseBindMatrices": matrices}]
    maker.animation((2, "translation", [0, 1], np.eye(2, 3), "LINEAR"))
    return maker


def refused(path, says, seconds=5.0, megabytes=64):
    """Fail unless reading is an error that says so, in little time and memory."""
    tracemalloc.start()
    before = time.perf_counter()
    try:
        with pytest.raises(FileError, match=says):
            read_character(path)
        assert time.perf_counter() - before < seconds
        assert tracemalloc.get_traced_memory()[1] < megabytes * 2**20
    finally:
        tracemalloc.stop()


def test_the_triangle_itself_is_fine(tmp_path):
    assert read_character(triangle().save(tmp_path / "a.glb")).bone_count == 1


def test_files_that_are_no_glb(tmp_path):
    path = tmp_path / "a.glb"
    whole = triangle().glb()
    head = lambda version, length: struct.pack("<4sII", b"glTF", version, length)
    for data, says in (
        (b"", "its JSON cannot be read"),
        (b"glTF", "truncated"),
        (b"not a file at all", "not a glTF file"),
        (b"FTlg" + whole[4:], "not a glTF file"),
        (head(1, len(whole)) + whole[12:], "version 1; only version 2"),
        (whole[:-40], r"truncated: its header claims [\d,]+ bytes, the file has"),
        (head(2, 40) + struct.pack("<II", 2**31, 0x4E4F534A) + b"{" * 20, "a chunk claims 2,147"),
        (head(2, 20) + struct.pack("<II", 0, 0x004E4942), "no JSON chunk"),
        (b'{"asset":{"version":"2.0"},"x":NaN}', "NaN is not a JSON number"),
        (b"[1, 2, 3]", "its JSON is no object"),
        (b"{}", "no asset.version"),
        (b'{"asset":{"version":"1.0"}}', "version '1.0'; only version 2"),
        (b'{"asset":' * 100_000, "nested too deeply|cannot be read"),
        (b'{"asset":{"version":"2.0"},"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "too deeply"),
        (b'{"asset":{"version":"2.0"},"x":' + b"9" * 100_000 + b"}", "cannot be read"),
        (b'{"asset":{"version":"2.0"}}', "no mesh with triangles"),
    ):
        path.write_bytes(data)
        refused(path, says)
    refused(tmp_path / "none.glb", "cannot be read: No such file")


def change(maker, place, value):
    """Replace the value at a place such as "accessors.0.count" of the JSON."""
    *path, last = [int(key) if key.isdigit() else key for key in place.split(".")]
    holder = maker.root
    for key in path:
        holder = holder[key]
    holder[last] = value


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("accessors.0.count", 10**10, r"accessors\[0\]: claims 10,000,000,000 rows"),
        ("accessors.0.count", -3, r"accessors\[0\].count: expected a number from 0"),
        ("accessors.0.count", 3.5, "expected a whole number, got 3.5"),
        ("accessors.0.count", 2, r"JOINTS_0: 3 rows for 2 vertices"),
        ("accessors.3.count", 10**10, r"10,000,000,000 rows for 3 vertices"),
        ("accessors.3.sparse.count", 10**10, "claims 10,000,000,000 rows"),
        ("accessors.0.byteOffset", -12, "byteOffset: expected a number from 0"),
        ("accessors.0.componentType", 5130, "unknown type 5130"),
        ("accessors.0.type", "VEC2", "expected VEC3, got 'VEC2'"),
        ("bufferViews.0.byteLength", 10**10, r"bufferViews\[0\]: ends at byte 10,000"),
        ("bufferViews.0.byteOffset", 2**40, "ends at byte 1,099"),
        ("bufferViews.0.byteOffset", 2**62, "got a huge number"),
        ("bufferViews.0.byteStride", 4, "4 bytes, but a row has 12"),
        ("bufferViews.0.buffer", 7, r"buffer: expected a number from 0 to 0, got 7"),
        ("nodes.0.mesh", 5, r"nodes\[0\].mesh: expected a number from 0 to 0"),
        ("nodes.0.skin", 5, r"nodes\[0\].skin: expected"),
        ("nodes.2.children", [1], "is its own ancestor"),
        ("nodes.2.children", [2], "more than one parent, or itself"),
        ("nodes.0.children", [2], "more than one parent"),
        ("nodes.1.rotation", [0, 0, 0, 0], "quaternion of length one"),
        ("nodes.1.scale", [1e38, 1, 1], "beyond 1e30|overflow"),
        ("nodes.1.scale", [1, "2", 1], "scale: expected a number, got '2'"),
        ("nodes.1.matrix", [0] * 15, "matrix: expected 16 numbers, got 15"),
        ("nodes.1.translation", [10**400, 0, 0], "expected a finite number"),
        ("skins.0.joints", [], "has no joints"),
        ("skins.0.joints", [99], r"joints: expected a number from 0 to 2"),
        ("skins.0.joints", [1, 2], "2 joints, but 1 inverseBindMatrices"),
        ("skins.0.joints", [1, 1], "listed twice"),
        ("skins.0.inverseBindMatrices", 0, "expected MAT4"),
        ("meshes.0.primitives.0.indices", 0, "expected SCALAR"),
        ("meshes.0.primitives.0.attributes", {}, "no attribute POSITION"),
        ("meshes.0.primitives.0.attributes", {"POSITION": 0}, "no JOINTS_0 and WEIGHTS_0"),
        ("meshes.0.primitives.0.targets", {"POSITION": 3}, "targets: expected a list"),
        ("animations.0.samplers.0.output", 0, "2 keys of 3 numbers .* but its output has 9"),
        ("animations.0.samplers.0.interpolation", "QUAD", "unknown interpolation 'QUAD'"),
        ("animations.0.channels.0.target.node", -1, "node: expected a number from 0"),
        ("scene", 4, r"scene: expected a number from 0 to 0, got 4"),
        ("meshes", None, "meshes: expected a list"),
        ("accessors", [[]] * 10, r"accessors\[0\]: expected an object, got a list"),
    ],
)
def test_fields_that_are_wrong_are_named(place, value, says, tmp_path):
    maker = triangle()
    change(maker, place, value)
    refused(maker.save(tmp_path / "a.glb"), says)


def test_claims_of_the_buffer(tmp_path):
    whole = triangle()
    root = json.loads(whole.gltf())
    for size, says in ((10**10, "claims 10,000,000,000 bytes"), (-1, "byteLength")):
        root["buffers"][0]["byteLength"] = size
        (tmp_path / "a.gltf").write_text(json.dumps(root), encoding="utf-8")
        refused(tmp_path / "a.gltf", says)
    for uri in ("data:;base64,@@@@", "data:text/plain,abc", "data:;base64,AAA"):
        (tmp_path / "a.gltf").write_text(whole.gltf(uri), encoding="utf-8")
        refused(tmp_path / "a.gltf", "base64|claims")


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("http://127.0.0.1:9/a.bin", "not a local file"),
        ("https://example.com/a.bin", "not a local file"),
        ("file:///etc/passwd", "not a local file"),
        ("//server/share/a.bin", "not a local file"),
        ("\\\\server\\share", "not a local file"),
        ("/etc/passwd", "leaves the folder"),
        ("../secret.bin", "leaves the folder"),
        ("%2e%2e/secret.bin", "leaves the folder"),
        ("inside/../../secret.bin", "leaves the folder"),
        ("link.bin", "leaves the folder"),
        ("..\\secret.bin", "leaves the folder"),
        ("none.bin", "there is no file"),
        ("pipe", "there is no file"),
        (".", "there is no file"),
        ("short.bin", "has 5 bytes, .* are claimed"),
        ("a\0b", "cannot be read|no file"),
        ("x" * 5000, "cannot be read|no file"),
        (7, "expected a text"),
    ],
)
def test_paths_that_leave_the_folder_and_uris(uri, says, tmp_path):
    folder = tmp_path / "folder"
    (folder / "inside").mkdir(parents=True)
    maker = triangle()
    (tmp_path / "secret.bin").write_bytes(maker.data)
    (folder / "short.bin").write_bytes(b"short")
    os.symlink(tmp_path / "secret.bin", folder / "link.bin")
    os.mkfifo(folder / "pipe")
    (folder / "a.gltf").write_text(maker.gltf(uri), encoding="utf-8")
    refused(folder / "a.gltf", says)


@pytest.mark.parametrize(
    ("accessor", "values", "says"),
    [
        (0, [np.nan] * 3, r"accessors\[0\]: its numbers contain NaN"),
        (0, [np.inf] * 3, "infinity"),
        (0, [3e38, 0, 0], "beyond 1e30"),
        (2, [-1, 2, 0, 0], "negative or huge"),
        (4, [np.nan] * 16, "NaN"),
        (5, [1, 0], "key times must increase"),
        (5, [0, 3e9], "key times must increase|lasts"),
        (6, [3e38] * 6, "beyond 1e30"),
    ],
)
def test_numbers_that_are_wrong(accessor, values, says, tmp_path):
    maker = triangle()
    view = maker.root["bufferViews"][maker.root["accessors"][accessor]["bufferView"]]
    struct.pack_into(f"<{len(values)}f", maker.data, view["byteOffset"], *values)
    refused(maker.save(tmp_path / "a.glb"), says)


def test_a_joint_beyond_the_skin(tmp_path):
    maker = triangle()
    view = maker.root["bufferViews"][maker.root["accessors"][1]["bufferView"]]
    maker.data[view["byteOffset"]] = 9
    refused(maker.save(tmp_path / "a.glb"), "JOINTS_ refers to joint 9 of 1")


def test_an_animation_of_many_years(tmp_path):
    maker = triangle()
    view = maker.root["bufferViews"][maker.root["accessors"][5]["bufferView"]]
    struct.pack_into("<2f", maker.data, view["byteOffset"], 0, 9e6)
    maker.root["nodes"][1]["children"], maker.root["skins"][0]["joints"] = [2], [2]
    refused(maker.save(tmp_path / "a.glb"), r"lasts [\d,]+ s, .* choose a lower frame rate")


def test_zeros_that_no_byte_stands_for(tmp_path):
    """An accessor without buffer view is all zeros, of any claimed count."""
    maker = triangle()
    del maker.root["accessors"][0]["bufferView"]
    maker.root["accessors"][0]["count"] = 10**9
    refused(maker.save(tmp_path / "a.glb"), "claims 1,000,000,000 rows, more than the file has")


@pytest.mark.slow
def test_few_bytes_that_are_referred_to_many_times(tmp_path):
    """A mesh of 100,000 vertices, 2,000 times; and as many morph targets."""
    points = np.random.default_rng(0).normal(size=(99_999, 3))
    maker = GltfMaker()
    maker.mesh({"attributes": {"POSITION": maker.accessor(points)}})
    maker.root["nodes"] = [{"mesh": 0} for _ in range(2000)]
    maker.root["scenes"] = [{"nodes": list(range(2000))}]
    refused(maker.save(tmp_path / "a.glb"), "meshes would need more than 0.5 GiB", 5, 100)
    maker.root["nodes"] = [{"mesh": 0}]
    maker.root["scenes"] = [{"nodes": [0]}]
    maker.root["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": 0}] * 2000
    refused(maker.save(tmp_path / "a.glb"), "targets would need more than 0.5 GiB", 10, 500)


@pytest.mark.slow
def test_long_chains_of_nodes_are_no_obstacle(tmp_path):
    """10,000 nodes one below the other, each a joint: no recursion, no square of their number."""
    count = 10_000
    maker = triangle()
    nodes = maker.root["nodes"]
    start = len(nodes)
    nodes += [{"children": [start + k + 1]} for k in range(count)] + [{}]
    maker.root["scenes"][0]["nodes"].append(start)
    maker.root["skins"][0] = {"joints": list(range(start, start + count))}
    before = time.perf_counter()
    found = read_character(maker.save(tmp_path / "a.glb"))
    assert found.bone_count == count
    assert time.perf_counter() - before < 20


def test_other_files_are_not_opened(tmp_path):
    """Pictures are never read, whatever their URI is."""
    maker = triangle(images=[{"uri": "../../secret.png"}, {"uri": "http://127.0.0.1:9/a.png"}])
    assert read_character(maker.save(tmp_path / "a.glb")).mesh.vertex_count == 3


def test_base64_is_decoded_exactly(tmp_path):
    maker = triangle()
    uri = "data:application/octet-stream;base64," + base64.b64encode(maker.data).decode()
    (tmp_path / "a.gltf").write_text(maker.gltf(uri), encoding="utf-8")
    assert read_character(tmp_path / "a.gltf").mesh.vertex_count == 3

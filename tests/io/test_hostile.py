"""Small files made to take much memory or time, or to be taken for what they are not."""

import base64
import io
import json
import os
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import fbx_text
import numpy as np
import pytest
from builders import full_deformer
from gltf_maker import GltfMaker
from maya_writer import maya_file
from safetensors.numpy import save

from understudy import Mesh
from understudy.io.budget import ROOM, SMALL_FILE, Budget
from understudy.io.registry import read_character, read_poses
from understudy.io.sequences import read_ply, write_ply
from understudy.io.understudy.file import entries_of
from understudy.system.errors import FileError, InputError

TESTS = Path(__file__).parents[1]
POINTS = np.eye(3, dtype="<f4").tobytes()
TRIANGLE = b"\3" + np.arange(3, dtype="<i4").tobytes()
XYZ = ("float x", "float y", "float z")
INDEX = "list uchar int vertex_indices"
BINARY = "binary_little_endian"
TOO_MUCH = r"would need more than 0\.5 GiB in all"


def ply(*elements, form=BINARY, comments=()):
    """A PLY file: elements of name, count, properties and bytes."""
    head = [f"ply\nformat {form} 1.0\n", *(f"comment {text}\n" for text in comments)]
    for name, count, properties, _ in elements:
        head += [f"element {name} {count}\n", *(f"property {text}\n" for text in properties)]
    body = b"".join(data for *_, data in elements)
    return "".join(head).encode() + b"end_header\n" + body


def corners(form, kind, data):
    vertex = POINTS if form == BINARY else b"1 0 0 0 1 0 0 0 1 "
    index = f"list {kind} vertex_indices"
    return ply(("vertex", 3, XYZ, vertex), ("face", 1, (index,), data), form=form)


def many_lists(count, faces):
    """A PLY whose polygons have many empty lists; one of the first is not empty."""
    lists = tuple(f"list uchar uchar p{k}" for k in range(count))
    first, each = TRIANGLE + b"\1\0" + b"\0" * (count - 1), TRIANGLE + b"\0" * count
    face = ("face", faces, (INDEX, *lists), first + each * (faces - 1))
    return ply(("vertex", 3, XYZ, POINTS), face)


def wide_window(data):
    """A `.npz` packed by LZMA whose first member claims 4 GB to be unpacked."""
    names = sum(int.from_bytes(data[at : at + 2], "little") for at in (26, 28))
    at = 30 + names + 5  # version, length and properties come before
    return data[:at] + b"\xff\xff\xff\xff" + data[at + 4 :]


def npz(kind=zipfile.ZIP_DEFLATED, also=(), **arrays):
    """A `.npz` of arrays, or of texts that are the header of one.

    also  (name, array) of members whose names may be given before
    """
    frames = np.tile(np.eye(3), (2, 1, 1)) + [[[0.0]], [[0.1]]]
    given = {"vertices": frames, "faces": np.array([[0, 1, 2]]), **arrays}
    packed = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(packed, "w", kind) as archive:
        warnings.simplefilter("ignore")  # of names that are given twice
        for name, value in (*given.items(), *also):
            content = io.BytesIO()
            if isinstance(value, str):
                text = value.encode() + b"\n"
                content.write(b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text)
            else:
                np.lib.format.write_array(content, value)
            archive.writestr(f"{name}.npy", content.getvalue())
    return packed.getvalue()


def described(kind, shape):
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"


def bvh(joints, frames, channels, everywhere):
    """A BVH of a chain of joints of one name; only the first has channels, or all have."""
    stated = f"CHANNELS {len(channels)} {' '.join(channels)}\n"
    lines = ["HIERARCHY\n"]
    for k in range(joints):
        lines.append(f"{'JOINT' if k else 'ROOT'} a\n{{\nOFFSET 0 1 0\n")
        lines.append(stated if everywhere or not k else "")
    width = len(channels) * (joints if everywhere else 1)
    motion = f"MOTION\nFrames: {frames}\nFrame Time: .04\n" + ("0 " * width + "\n") * frames
    return ("".join(lines) + "}\n" * joints + motion).encode()


def obj(lines):
    return ("v 0 0 0\nv 1 0 0\nv 0 1 0\n" + "".join(lines)).encode()


def gltf(change):
    """A `.glb` of a triangle, changed."""
    maker = GltfMaker()
    maker.mesh({"attributes": {"POSITION": maker.accessor(np.eye(3))}})
    maker.root["nodes"], maker.root["scenes"] = [{"mesh": 0}], [{"nodes": [0]}]
    change(maker)
    return maker.glb()


def targets(maker):
    maker.root["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": 0}] * 100_000


def joints(maker):
    attributes = maker.root["meshes"][0]["primitives"][0]["attributes"]
    attributes["JOINTS_0"] = maker.accessor(np.zeros((3, 4)), "u1")
    attributes["WEIGHTS_0"] = maker.accessor(np.tile([1, 0, 0, 0], (3, 1)))
    count = 20_000
    chain = [{"children": [k + 2]} for k in range(count - 1)]
    maker.root["nodes"] = [{"mesh": 0, "skin": 0}, *chain, {}]
    maker.root["scenes"] = [{"nodes": [0, 1]}]
    maker.root["skins"] = [{"joints": list(range(1, count + 1))}]


def instances(maker):
    """Parts of one name, which share a morph target."""
    mesh = maker.root["meshes"][0]
    mesh["primitives"][0]["targets"] = [{"POSITION": 0}]
    mesh["extras"] = {"targetNames": ["smile"]}
    maker.root["nodes"] = [{"mesh": 0}] * 30_000
    maker.root["scenes"] = [{"nodes": list(range(30_000))}]


def primitives(maker):
    mesh = maker.root["meshes"][0]
    mesh["primitives"] = [{"attributes": {"POSITION": 0, f"_{k}": 0}} for k in range(40_000)]


def attributes(maker):
    """Primitives of the same vertices, each with an attribute of its own."""
    maker.root["meshes"] = []
    points = maker.accessor(np.random.default_rng(0).normal(size=(30_000, 3)))
    corners = maker.accessor(np.arange(3), "u1")
    named = lambda k: {"attributes": {"POSITION": points, f"_{k}": points}, "indices": corners}
    maker.mesh(*(named(k) for k in range(60)))


def many_instances(maker):
    """A node that shows its mesh 900,000 times, at places that no bytes stand for."""
    maker.view(bytes(900_000))
    claimed = {"componentType": 5126, "count": 900_000, "type": "VEC3"}
    maker.root["accessors"].append(claimed)
    places = {"EXT_mesh_gpu_instancing": {"attributes": {"SCALE": 1}}}
    maker.root["nodes"] = [{"mesh": 0, "extensions": places}]


def textures(maker):
    """A texture with 30,000 images, which one material uses 20,000 times."""
    extensions = {f"a{k}": {"source": 0} for k in range(30_000)}
    maker.root["images"] = [{"bufferView": maker.view(b"\x89PNG")}]
    maker.root["textures"] = [{"source": 0, "extensions": extensions}]
    used = {"a": {f"{k}Texture": {"index": 0} for k in range(20_000)}}
    maker.root["materials"] = [{"extensions": used}]
    maker.root["meshes"][0]["primitives"][0]["material"] = 0


def images(maker):
    """20,000 images of the same bytes."""
    view = maker.view(b"\x89PNG" + bytes(300_000))
    maker.root["images"] = [{"bufferView": view}] * 20_000
    maker.root["textures"] = [{"source": k} for k in range(20_000)]
    used = {"a": {f"{k}Texture": {"index": k} for k in range(20_000)}}
    maker.root["materials"] = [{"extensions": used}]
    maker.root["meshes"][0]["primitives"][0]["material"] = 0


def no_image(maker):
    maker.root["images"], maker.root["textures"] = [{}], [{"source": 0}]
    maker.root["materials"] = [{"normalTexture": {"index": 0}}]
    maker.root["meshes"][0]["primitives"][0]["material"] = 0


def wide_skin(maker):
    """A vertex with 4,000 joints, beside 30,000 with few."""
    maker.root["meshes"] = []
    few = {"POSITION": maker.accessor(np.random.default_rng(0).normal(size=(30_000, 3)))}
    many = {"POSITION": 0}
    joint = maker.accessor(np.zeros((3, 4)), "u1")
    weight = maker.accessor(np.ones((3, 4)))
    for k in range(1000):
        many |= {f"JOINTS_{k}": joint, f"WEIGHTS_{k}": weight}
    maker.mesh({"attributes": many}, {"attributes": few})
    maker.root["nodes"], maker.root["skins"] = [{"mesh": 0, "skin": 0}, {}], [{"joints": [1]}]


def shared_keys(maker):
    """One sampler of 50,000 keys that 10,000 channels share."""
    times = np.arange(50_000) / 30
    maker.animation((0, "translation", times, np.zeros((50_000, 3)), "LINEAR"))
    maker.root["nodes"] += [{}] * 10_000
    target = lambda k: {"node": k, "path": "translation"}
    channels = [{"sampler": 0, "target": target(k)} for k in range(10_000)]
    maker.root["animations"][0]["channels"] = channels


def claimed_parts(maker):
    """Notes of our writer that claim parts of 16 million vertices."""
    own = {"version": 1, "name": "a", "unit": "m", "up_axis": "Y", "handedness": "right"}
    own |= {"origin": [0, 0, 0], "vertex_count": 2**24, "materials": [], "shapes": []}
    own |= {"part_order": [], "not_parts": [], "polygons": []}
    own["parts"] = {f"p{k}": [[0, 2**24]] for k in range(100)}
    maker.root["extras"] = {"understudy": own}


def repeated_key(data):
    return data.replace(b'"scenes"', b'"meshes"', 1)


def keyed_clip():
    """A deformer with a clip of 600,000 frames that has two keys."""
    entries = entries_of(full_deformer())
    keys = np.zeros((600_000, 3), bool)
    keys[[0, -1]] = True
    entries |= {"clip.0.keys": keys, "clip.0.values": np.zeros((6, 12), np.float32)}
    entries |= {"clips.frame_rates": np.zeros(1), "clips.start_frames": np.zeros(1, np.int32)}
    arrays = {name: value for name, value in entries.items() if isinstance(value, np.ndarray)}
    header = {name: value for name, value in entries.items() if name not in arrays}
    header |= {"format_version": 1, "clips.names": ["a"]}
    return save(arrays, {"understudy": json.dumps(header)})


def maya_xml():
    text = '<!DOCTYPE a [<!ENTITY b "OneFile">]><Autodesk_Cache_File><cacheType Type="&b;"/>'
    return (text + "</Autodesk_Cache_File>").encode("utf-16")


def deep_fbx(count):
    """Nodes that show one mesh, below a chain of nodes of the same number."""
    chain, shown = range(10, 10 + count), range(10 + count, 10 + 2 * count)
    objects = [fbx_text.triangle(1), *(fbx_text.node(k, "Null") for k in chain)]
    objects += [fbx_text.node(k) for k in shown]
    links = [(10, 0), *((k, k - 1) for k in chain[1:])]
    links += [link for k in shown for link in ((k, chain[-1]), (1, k))]
    return fbx_text.fbx(objects, links)


def many_meshes_fbx(count):
    """Meshes, each with an empty skin: a dozen arrays each."""
    objects, links = [], []
    for k in range(10, 10 + 3 * count, 3):
        objects += [fbx_text.triangle(k), fbx_text.node(k + 1), fbx_text.deformer(k + 2, "Skin")]
        links += [(k, k + 1), (k + 1, 0), (k + 2, k)]
    return fbx_text.fbx(objects, links)


def shape_name_fbx(count):
    """Channels that share a shape, whose name is long."""
    channels = range(10, 10 + count)
    objects = [fbx_text.triangle(1), fbx_text.node(2), fbx_text.deformer(3, "BlendShape")]
    objects += [fbx_text.shape(4, "x" * 9000)]
    objects += [fbx_text.deformer(k, "BlendShapeChannel") for k in channels]
    links = [(1, 2), (2, 0), (3, 1), *(link for k in channels for link in ((k, 3), (4, k)))]
    return fbx_text.fbx(objects, links)


def cache_fbx(name):
    objects = [fbx_text.triangle(1), fbx_text.node(2), fbx_text.cache(4, name)]
    objects += [fbx_text.deformer(3, "VertexCacheDeformer")]
    return fbx_text.fbx(objects, [(1, 2), (2, 0), (3, 1), (4, 3)])


def one_line_ply(count):
    return ply(("vertex", 3, XYZ, POINTS), ("face", count, (INDEX,), TRIANGLE))


VERTEX = ("vertex", 3, XYZ, POINTS)
FACE = ("face", 1, (INDEX,), TRIANGLE)
BONES = {
    "world_from_bone": np.tile(np.eye(3, 4, dtype="f4"), (2, 60_000, 1, 1)),
    "rest_world_from_bone": np.tile(np.eye(3, 4, dtype="f4"), (60_000, 1, 1)),
    "parents": np.full(60_000, -1, "i1"),
    "rest": np.eye(3),
}
XZY = ("Xrotation", "Zrotation", "Yrotation")
# What each file is to end in: a part of our error, or "read".
CASES = {
    # counts that no bytes stand for
    "faces.ply": (lambda: one_line_ply(2_000_000_000), "ends before its last list"),
    "strips.ply": (
        lambda: ply(VERTEX, ("strip", 2 * 10**9, ("list uchar int i",), b"\0"), FACE),
        "ends before its last list",
    ),
    "vertices.ply": (
        lambda: ply(("vertex", 2 * 10**9, XYZ, POINTS), FACE),
        "ends before its last vertex",
    ),
    "list.ply": (lambda: corners(BINARY, "uint int", b"\xff\xff\xff\x7f"), "ends before its last"),
    "empty_texts.npz": (lambda: npz(materials=described("<U0", "(1000000000,)")), "does not fit"),
    "no_axis.npz": (lambda: npz(vertices=described("<f4", "(1000000000, 0, 3)")), TOO_MUCH),
    "void.npz": (lambda: npz(vertices=described("|V0", "(9,)")), "neither numbers nor texts"),
    # few bytes that stand for many
    "zeros.npz": (lambda: npz(vertices=np.zeros((90, 100_000, 3), np.float32)), TOO_MUCH),
    "bzip2.npz": (lambda: npz(zipfile.ZIP_BZIP2), "packed in a way that is not read"),
    "lzma.npz": (lambda: wide_window(npz(zipfile.ZIP_LZMA)), "asks for too much memory"),
    "lzma_zeros.npz": (
        lambda: npz(zipfile.ZIP_LZMA, vertices=np.zeros((90, 100_000, 3), np.float32)),
        TOO_MUCH,
    ),
    "bones.npz": (lambda: npz(**BONES), "no bone has a translation in any pose"),
    "many_arrays.npz": (
        lambda: npz(**{f"verti{k}": np.zeros(1) for k in range(5000)}),
        "has 5,002 arrays",
    ),
    "motion.bvh": (lambda: bvh(3000, 70_000, ("Xrotation",), False), TOO_MUCH),
    "keys.understudy": (keyed_clip, TOO_MUCH),
    "targets.glb": (lambda: gltf(targets), TOO_MUCH),
    "wide_skin.glb": (lambda: gltf(wide_skin), TOO_MUCH),
    "shared_keys.glb": (lambda: gltf(shared_keys), TOO_MUCH),
    "claimed_parts.glb": (lambda: gltf(claimed_parts), TOO_MUCH),
    "attributes.glb": (lambda: gltf(attributes), TOO_MUCH),
    "many_instances.glb": (lambda: gltf(many_instances), TOO_MUCH),
    "textures.glb": (lambda: gltf(textures), TOO_MUCH),
    "images.glb": (lambda: gltf(images), TOO_MUCH),
    # work that grows faster than the file
    "superscript.bvh": (
        lambda: bvh(2, 2, XZY, True).replace(b"CHANNELS 3", "CHANNELS \u00b2".encode()),
        "cannot be read as BVH",
    ),
    "names.bvh": (lambda: bvh(3000, 2, XZY, True), "read"),
    "materials.obj": (lambda: obj(f"usemtl m{k}\nf 1 2 3\n" for k in range(60_000)), "read"),
    "groups.obj": (lambda: obj(f"g g{k}\nf 1 2 3\n" for k in range(30_000)), "read"),
    "groups_of_all.obj": (
        lambda: obj(["g ", *(f"{k:x} " for k in range(100_000)), "\n", "f 1 2 3\n" * 90_000]),
        TOO_MUCH,
    ),
    "empty_lists.ply": (lambda: many_lists(1000, 1900), "read"),
    "lists.ply": (lambda: many_lists(3000, 600), "read"),
    "empty_lists_ascii.ply": (
        lambda: ply(
            ("vertex", 3, XYZ, b"1 0 0 0 1 0 0 0 1 "),
            ("strip", 800_000, ("list uchar int i",), b"1 0 " + b"0 " * 799_999),
            ("face", 1, (INDEX,), b"3 0 1 2"),
            form="ascii",
        ),
        "read",
    ),
    "objects.ply": (
        lambda: ply(
            (
                "vertex",
                160_000,
                ("char x", "char y", "char z", "char object_index"),
                np.eye(4, k=-1, dtype="u1").tobytes() * 40_000,
            ),
            FACE,
            comments=[f"object {k} a{k}" for k in range(40_000)],
        ),
        "read",
    ),
    "repeated_name.npz": (
        lambda: npz(materials=np.array([*map(hex, range(90_000)), hex(89_999)])),
        "duplicate name",
    ),
    "joints.glb": (lambda: gltf(joints), "read"),
    "instances.glb": (lambda: gltf(instances), TOO_MUCH),
    "primitives.glb": (lambda: gltf(primitives), TOO_MUCH),
    "chain.fbx": (lambda: deep_fbx(11_000), "read"),
    "meshes.fbx": (lambda: many_meshes_fbx(3500), "read"),
    "shape_name.fbx": (lambda: shape_name_fbx(9000), "MB of arrays, which is too much"),
    # what raised other errors than ours
    "cache_name.fbx": (lambda: cache_fbx("a" * 5000 + ".pc2"), "is missing; put it beside"),
    "no_image.glb": (lambda: gltf(no_image), "read"),
    "overflow.npz": (
        lambda: npz(vertices=described("<f4", f"({10**30}, 3, 3)")),
        "declares the shape",
    ),
    "token.npz": (lambda: npz(vertices=described("<f4", "(2, 3, 3")), "neither numbers nor texts"),
    "huge_type.npz": (lambda: npz(vertices=described("<f999999999", "(1,)")), "neither numbers"),
    "nested.npz": (lambda: npz(vertices="(" * 900), "neither numbers nor texts"),
    "no_text.npz": (
        lambda: npz(materials=np.array([2**31 - 1], "<i4").view("<U1")),
        "text that is not Unicode",
    ),
    # what was taken for something else
    "corners.ply": (lambda: corners("ascii", "uchar int", b"3 0.9 1.2 2.7"), "whole numbers"),
    "float_corners.ply": (
        lambda: corners(BINARY, "uchar float", b"\3" + np.array([0.9, 1.2, 2.7], "<f4").tobytes()),
        "whole numbers",
    ),
    "negative_size.ply": (lambda: corners(BINARY, "char int", b"\xff"), "a list claims -1"),
    "float_size.ply": (lambda: corners("ascii", "float int", b"3 0 1 2"), "is no float"),
    "broken_size.ply": (lambda: corners("ascii", "uchar int", b"2.5 0 1 2"), "a list claims 2.5"),
    "more.ply": (lambda: one_line_ply(1) + TRIANGLE, "more data than its header"),
    "twice.ply": (
        lambda: ply(("vertex", 3, (*XYZ, "float x"), POINTS + POINTS[:12]), FACE),
        "duplicate name 'x'",
    ),
    "run_together.obj": (
        lambda: obj(["f 1 2 3\n"]).replace(b"v 1 0 0", b"v 1-2 0 0"),
        "text where numbers are expected",
    ),
    "letters.obj": (lambda: obj(["f 1 f2 3\n"]), "text where numbers are expected"),
    "complex.npz": (lambda: npz(vertices=np.zeros((2, 3, 3), "c8")), "neither numbers nor texts"),
    "twice.npz": (lambda: npz(also=[("faces", np.array([[2, 1, 0]]))]), "array 'faces' twice"),
    "twice.glb": (lambda: repeated_key(gltf(lambda maker: None)), "key 'meshes' twice"),
    "utf16.xml": (maya_xml, "declares a document type"),
    "offset.bvh": (
        lambda: bvh(1, 2, XZY, True).replace(b"CHANNELS", b"OFFSET 0 0 0\nCHANNELS", 1),
        "OFFSET twice",
    ),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """How reading each file ends, its seconds of processor time, and megabytes."""
    folder = tmp_path_factory.mktemp("hostile")
    for name, (make, _) in CASES.items():
        data = make()
        assert len(data) < SMALL_FILE, name
        (folder / name).write_bytes(data)
    (folder / "utf16.mcx").write_bytes(maya_file(np.zeros((2, 3, 3), np.float32)))
    return limited(*(folder / name for name in CASES))


def limited(*paths):
    done = run_module("fuzzing.limits", *map(str, paths))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_module(*arguments):
    environment = os.environ | dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    environment["PYTHONPATH"] = str(TESTS)
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
@pytest.mark.parametrize("name", CASES)
def test_small_files_take_little_and_are_what_they_say(outcomes, name):
    said, seconds, megabytes = outcomes[name]
    assert CASES[name][1].replace("\\", "") in said
    assert len(said.encode()) <= 2000
    assert seconds < 5
    assert megabytes < 1000


def test_messages_are_short(tmp_path):
    names = {f"long{k}" + "\N{SNOWMAN}" * 20_000: np.zeros(1) for k in range(2)}
    np.savez(tmp_path / "a.npz", **names, vertices=np.zeros((2, 3, 3)), controls=np.zeros((2, 1)))
    with pytest.raises(FileError, match="unknown array 'long0") as problem:
        read_poses(tmp_path / "a.npz")
    assert len(str(problem.value).encode()) <= 2000
    assert str(InputError("short")) == "short"
    text = str(InputError("\ud800" * 10_000 + "end"))
    assert text.endswith("end")
    assert len(text.encode()) <= 2000


def test_a_budget_grows_with_the_file():
    Budget("a", 0).take(ROOM, "arrays")
    with pytest.raises(FileError, match="a: arrays would need more than"):
        Budget("a", SMALL_FILE).take(ROOM + 1, "arrays")
    Budget("a", SMALL_FILE + 10, per_byte=3).take(ROOM + 30, "arrays")


def test_a_buffer_file_is_named_once(tmp_path):
    maker = GltfMaker()
    maker.mesh({"attributes": {"POSITION": maker.accessor(np.eye(3))}})
    root = json.loads(maker.gltf("a.bin"))
    (tmp_path / "a.bin").write_bytes(maker.data)
    root["buffers"] += [root["buffers"][0] | {"uri": "./a.bin"}]
    (tmp_path / "a.gltf").write_text(json.dumps(root))
    with pytest.raises(FileError, match=r"buffers\[1\].uri: './a.bin' is another buffer's file"):
        read_poses(tmp_path / "a.gltf")
    data = "data:;base64," + base64.b64encode(maker.data).decode()
    root["buffers"] = [root["buffers"][0] | {"uri": data}] * 2
    (tmp_path / "a.gltf").write_text(json.dumps(root))
    assert read_poses(tmp_path / "a.gltf").vertex_count == 3


def test_an_image_file_of_many_names_is_read_once(tmp_path):
    maker = GltfMaker()
    maker.mesh({"attributes": {"POSITION": maker.accessor(np.eye(3))}, "material": 0})
    maker.root["images"] = [{"uri": "a.png"}, {"uri": "./a.png"}, {"uri": "b.png"}]
    maker.root["textures"] = [{"source": k} for k in range(3)]
    slots = ("normalTexture", "occlusionTexture", "emissiveTexture")
    maker.root["materials"] = [{slot: {"index": k} for k, slot in enumerate(slots)}]
    (tmp_path / "a.gltf").write_text(maker.gltf())
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    material = read_character(tmp_path / "a.gltf").mesh.looks["material_0"]
    data = [
        image.data for texture in material.textures.values() for image in texture.images.values()
    ]
    assert len(data) == 2
    assert data[0] is data[1]


def test_names_of_frames_that_broke_the_sorting(tmp_path):
    for name in ("walk1.ply", "walk6.ply", "walk06.ply", "walk\N{SUPERSCRIPT TWO}.ply"):
        (tmp_path / name).write_bytes(one_line_ply(1))
    assert read_poses(tmp_path).pose_count == 4
    (tmp_path / "walk\N{SUPERSCRIPT TWO}.ply").unlink()
    with pytest.raises(FileError, match="occurs twice"):
        read_poses(tmp_path)


@pytest.mark.parametrize("mixed", [False, True])
def test_polygons_of_one_and_of_mixed_sizes(tmp_path, mixed):
    """A grid of 40,000 vertices takes a fraction of a second, as a million take less than two."""
    side = 200
    at = np.arange(side * side).reshape(side, side)
    quads = np.stack([at[:-1, :-1], at[1:, :-1], at[1:, 1:], at[:-1, 1:]], -1).reshape(-1, 4)
    points = np.stack([at % side, at // side, at % 7], -1).reshape(-1, 3)
    half = len(quads) // 2 if mixed else 0
    cut = quads[:half][:, [0, 1, 2, 0, 2, 3]].reshape(-1)
    sizes = np.r_[np.full(2 * half, 3), np.full(len(quads) - half, 4)]
    mesh = Mesh(points, sizes, np.r_[cut, quads[half:].reshape(-1)])
    write_ply(tmp_path / "a.ply", mesh)
    found = read_ply(tmp_path / "a.ply")
    np.testing.assert_array_equal(found.polygon_sizes, mesh.polygon_sizes)
    np.testing.assert_array_equal(found.polygon_vertices, mesh.polygon_vertices)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_mutated_files_of_every_format_end_in_what_they_hold_or_in_an_error():
    done = run_module("fuzzing", "2000", "36")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for kind, record in json.loads(done.stdout).items():
        assert record["read"] + record["refused"] == record["files"], kind
        assert min(record["read"], record["refused"], record["messages"] - 1) > 0, kind
        assert record["slowest"] < 10
        assert record["peak_mb"] < 1000

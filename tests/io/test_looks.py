"""Materials, images, UV sets, vertex colours and attributes, from format to format."""

import json
import re
import struct
import zlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from chromium import chromium
from command_line import run
from gltf_maker import GltfMaker
from independent import three_js

from understudy import Mesh
from understudy.core.materials import Material
from understudy.io.budget import Budget
from understudy.io.fbx.looks import read_looks
from understudy.io.registry import ReadOptions, read_character, write_character
from understudy.system.errors import FileError

CORNERS = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], float)
LOOK = ("base_colour", "metallic", "roughness", "emission", "alpha_mode", "alpha_cutoff")


def png(colour, alpha=255):
    """A picture of two by two pixels, of which one is black."""
    row = b"\0" + bytes([*colour, alpha]) * 2
    last = b"\0" + bytes([*colour, alpha]) + bytes([0, 0, 0, 0])
    chunk = lambda kind, data: (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    )
    head = struct.pack(">IIBBBBB", 2, 2, 8, 6, 0, 0, 0)
    data = zlib.compress(row + last)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def dressed_maker():
    """Two squares with everything that a file can say of a surface."""
    maker = GltfMaker(extensionsUsed=["KHR_materials_clearcoat", "KHR_texture_transform"])
    image = lambda data: {"name": "paint", "mimeType": "image/png", "bufferView": maker.view(data)}
    maker.root["images"] = [image(png((200, 30, 30))), image(png((90, 200, 90)))]
    maker.root["samplers"] = [{"magFilter": 9728, "wrapS": 33071, "wrapT": 33648}]
    maker.root["textures"] = [{"source": 0, "sampler": 0}, {"source": 1}]
    transform = {"KHR_texture_transform": {"offset": [0.25, 0.5], "scale": [2, 2]}}
    maker.root["materials"] = [
        {
            "name": "leaf",
            "alphaMode": "MASK",
            "alphaCutoff": 0.3,
            "doubleSided": True,
            "pbrMetallicRoughness": {
                "baseColorFactor": [0.9, 0.8, 0.7, 0.6],
                "metallicFactor": 0.25,
                "roughnessFactor": 0.75,
                "baseColorTexture": {"index": 0, "texCoord": 1, "extensions": transform},
            },
            "emissiveFactor": [0.1, 0.2, 0.3],
            "emissiveTexture": {"index": 1},
        },
        {
            "name": "paint",
            "alphaMode": "BLEND",
            "pbrMetallicRoughness": {"baseColorFactor": [1, 1, 1, 0.5]},
            "normalTexture": {"index": 1, "scale": 0.5},
            "extensions": {
                "KHR_materials_clearcoat": {
                    "clearcoatFactor": 0.5,
                    "clearcoatTexture": {"index": 0},
                }
            },
        },
    ]
    uvs = CORNERS[:, :2]
    primitive = lambda shift, material, **more: {
        "attributes": {
            "POSITION": maker.accessor(CORNERS + shift),
            "NORMAL": maker.accessor(np.tile([0.0, 0, 1], (4, 1))),
            "TEXCOORD_0": maker.accessor(uvs),
            **more,
        },
        "indices": maker.accessor(np.array([0, 1, 2, 0, 2, 3]), "u2"),
        "material": material,
    }
    leaf = primitive(
        [0, 0, 0],
        0,
        TEXCOORD_1=maker.accessor(0.5 * uvs + 0.1),
        COLOR_0=maker.accessor([[255, 0, 51, 255], [0, 255, 0, 128]] * 2, "u1", normalized=True),
        _HEAT=maker.accessor(np.array([0.0, 1, 2, 3])),
    )
    paint = primitive([2, 0, 0], 1, TANGENT=maker.accessor(np.tile([1.0, 0, 0, -1], (4, 1))))
    maker.mesh(leaf, paint)
    return maker


def parts_of(path):
    """The JSON of a .glb, and its buffer."""
    data = path.read_bytes()
    length = struct.unpack_from("<I", data, 12)[0]
    return json.loads(data[20 : 20 + length]), data[28 + length :]


def told(path):
    """Materials with the bytes of their images in place of numbers, and attributes by material."""
    root, buffer = parts_of(path)

    def image(number):
        view = root["bufferViews"][root["images"][number]["bufferView"]]
        return buffer[view["byteOffset"] : view["byteOffset"] + view["byteLength"]]

    def plain(value, key=""):
        if key.endswith("Texture"):
            texture = root["textures"][value["index"]]
            sampler = root["samplers"][texture["sampler"]] if "sampler" in texture else {}
            return {**value, "index": (image(texture["source"]), tuple(sorted(sampler.items())))}
        if isinstance(value, dict):
            return {name: plain(part, name) for name, part in value.items()}
        return value

    materials = {one["name"]: plain(one) for one in root["materials"]}
    for one in materials.values():  # defaults may be written or not
        surface = {"metallicFactor": 1, "roughnessFactor": 1, "baseColorFactor": [1, 1, 1, 1]}
        one["pbrMetallicRoughness"] = surface | one.get("pbrMetallicRoughness", {})
    attributes = {
        root["materials"][primitive["material"]]["name"]: set(primitive["attributes"]) - {"_VERTEX"}
        for mesh in root["meshes"]
        for primitive in mesh["primitives"]
    }
    return materials, attributes


def test_gltf_to_gltf_loses_nothing(tmp_path):
    source = dressed_maker().save(tmp_path / "in.glb")
    read = read_character(source)
    assert read.notes == ()
    assert write_character(read, tmp_path / "out.glb") == []
    three_js.assert_valid(tmp_path / "out.glb")
    assert told(tmp_path / "out.glb") == told(source)
    root, _ = parts_of(tmp_path / "out.glb")
    assert set(root["extensionsUsed"]) == {"KHR_materials_clearcoat", "KHR_texture_transform"}
    again = read_character(tmp_path / "out.glb").mesh
    assert set(again.corner_values) == {"TEXCOORD_1", "COLOR_0", "_HEAT", "TANGENT"}
    for name, values in read.mesh.corner_values.items():
        np.testing.assert_array_equal(again.corner_values[name], values)
    corner = np.isfinite(read.mesh.corner_values["COLOR_0"]).all(axis=1)
    assert corner.tolist() == [True] * 6 + [False] * 6
    assert read.mesh.corner_values["_HEAT"][:6, 0].tolist() == [0, 1, 2, 0, 2, 3]


@pytest.mark.slow
def test_three_js_draws_the_same_picture(tmp_path):
    source = dressed_maker().save(tmp_path / "in.glb")
    write_character(read_character(source), tmp_path / "out.glb")
    bare = replace(read_character(source).mesh, looks={}, corner_values={})
    write_character(replace(read_character(source), mesh=bare), tmp_path / "bare.glb")
    with chromium() as browser:
        a, b, c = (three_js.picture(browser, tmp_path / f"{n}.glb") for n in ("in", "out", "bare"))
    difference = lambda other: np.abs(a.astype(int) - other).max(axis=2)
    assert np.quantile(difference(b), 0.999) <= 2
    assert (difference(c) > 30).mean() > 0.02  # the test sees materials


@pytest.mark.parametrize("suffix", [".usda", ".usdz"])
def test_gltf_to_usd_keeps_what_a_preview_surface_has(suffix, tmp_path):
    pytest.importorskip("pxr")
    read = read_character(dressed_maker().save(tmp_path / "in.glb"))
    lost = write_character(read, tmp_path / f"out{suffix}")
    assert "KHR_materials_clearcoat" in lost[0]
    assert "_HEAT" in lost[0]
    back = read_character(tmp_path / f"out{suffix}").mesh
    for name, look in read.mesh.looks.items():
        same = back.looks[name]
        for field in LOOK:
            assert getattr(same, field) == pytest.approx(getattr(look, field), abs=1e-6), field
        assert set(same.textures) == set(look.textures)
        for slot, texture in look.textures.items():
            assert same.textures[slot].images[""].data == texture.images[""].data
            assert same.textures[slot].uv_set == texture.uv_set
    assert back.looks["leaf"].double_sided
    leaf = np.isfinite(read.mesh.corner_values["COLOR_0"]).all(axis=1)
    for name in ("TEXCOORD_1", "COLOR_0"):
        want = read.mesh.corner_values[name][leaf]
        np.testing.assert_allclose(back.corner_values[name][leaf], want, atol=1e-6)


def test_what_a_format_does_not_hold_is_named(tmp_path):
    read = read_character(dressed_maker().save(tmp_path / "in.glb"))
    (said,) = write_character(read, tmp_path / "out.ply")
    for name in ("leaf", "paint", "TEXCOORD_1", "COLOR_0", "_HEAT"):
        assert name in said


def test_a_missing_image_is_named_and_one_outside_is_not_read(tmp_path):
    maker = dressed_maker()
    (tmp_path / "secret.png").write_bytes(png((1, 2, 3)))
    (tmp_path / "files").mkdir()
    maker.root["images"] = [{"uri": "gone.png"}, {"uri": "../secret.png"}]
    read = read_character(maker.save(tmp_path / "files/in.glb"))
    assert not read.mesh.dress().get("images")
    assert any("gone.png" in note for note in read.notes)
    assert any("leaves the folder" in note for note in read.notes)


@pytest.mark.parametrize(
    "change",
    [
        {"pbrMetallicRoughness": {"metallicFactor": "shiny"}},
        {"emissiveFactor": [1, 2]},
        {"normalTexture": {"index": 9}},
        {"extensions": {"KHR_materials_ior": {"ior": 1e999}}},
    ],
)
def test_wrong_materials_are_errors(change, tmp_path):
    maker = dressed_maker()
    maker.root["materials"][1] |= change
    path = tmp_path / "in.gltf"
    path.write_text(maker.gltf().replace("Infinity", "1e999"))
    with pytest.raises(FileError):
        read_character(path)


def test_instances_are_read_and_cameras_named(tmp_path):
    maker = GltfMaker(extensionsUsed=["EXT_mesh_gpu_instancing", "KHR_lights_punctual"])
    maker.mesh({"attributes": {"POSITION": maker.accessor(CORNERS[:3])}})
    shifts = maker.accessor(np.array([[0.0, 0, 0], [5, 0, 0], [0, 5, 0]]))
    extension = {"EXT_mesh_gpu_instancing": {"attributes": {"TRANSLATION": shifts}}}
    maker.root["nodes"] = [{"mesh": 0, "name": "tree", "extensions": extension}]
    read = read_character(maker.save(tmp_path / "in.glb"))
    assert list(read.mesh.parts) == ["tree", "tree_2", "tree_3"]
    np.testing.assert_allclose(read.mesh.vertices[3:6], CORNERS[:3] + [5, 0, 0])
    assert read.notes == ("not read: KHR_lights_punctual",)


def test_a_stand_in_gets_its_materials_back(capsys, tmp_path):
    """The .understudy file has names; --looks and --motion have the rest."""
    maker = dressed_maker()
    maker.animation((0, "translation", [0.0, 0.5], [[0, 0, 0], [1, 0, 0]], "LINEAR"), name="go")
    source = maker.save(tmp_path / "hero.glb")
    code, _, err = run(capsys, "learn", source, "-o", tmp_path / "job")
    assert code == 0, err
    assert "holds no materials, images" in err
    made = tmp_path / "job/hero.understudy"
    code, text, _ = run(capsys, "export", made, tmp_path / "bare.glb")
    assert "names only (leaf, paint)" in text
    for option in ("--looks", "--motion"):
        code, text, err = run(capsys, "export", made, tmp_path / "out.glb", option, source)
        assert code == 0, err
        assert "names only" not in text
        three_js.assert_valid(tmp_path / "out.glb")
        materials, attributes = told(tmp_path / "out.glb")
        skin = {"JOINTS_0", "WEIGHTS_0"}
        assert (materials, {n: a - skin for n, a in attributes.items()}) == told(source)


def test_a_mesh_takes_materials_by_name_where_its_polygons_differ():
    source = Mesh.from_faces(np.eye(4, 3), [[0, 1, 2]], materials=("a",), looks={"a": Material()})
    mesh = Mesh.from_faces(np.eye(4, 3), [[1, 2, 3]], materials=("a", "b"))
    assert list(mesh.dressed(source).looks) == ["a"]
    assert mesh.dressed(source).polygon_vertices.tolist() == [1, 2, 3]


def test_fbx_is_read_with_colours_and_further_uv_sets(real_data, tmp_path):
    pytest.importorskip("ufbx")
    text = (real_data / "files/fbx/maya_game_sausage_7500_ascii_spin.fbx").read_text()
    block = re.search(r"\t\tLayerElementUV: 0 \{.*?\n\t\t\}\n", text, re.S)[0]
    second = block.replace("LayerElementUV: 0", "LayerElementUV: 1").replace("map1", "other")
    path = tmp_path / "two.fbx"
    path.write_text(text.replace(block, block + second))
    mesh = read_character(path, ReadOptions()).mesh
    np.testing.assert_array_equal(mesh.corner_values["TEXCOORD_1"], mesh.corner_uvs)
    (look,) = mesh.looks.values()
    assert look.base_colour == pytest.approx((0.4, 0.4, 0.4, 1))
    assert (look.metallic, look.alpha_mode) == (0, "OPAQUE")


def test_an_image_beside_an_fbx_is_read_once_under_many_names(tmp_path):
    (tmp_path / "skin.png").write_bytes(png((9, 9, 9)))
    told = {"name": "", "relative": "skin.png", "uv_set": "", "clamp": [False, False]}
    names = ("C:\\a\\skin.png", "D:\\b\\skin.png")
    textures = [{**told, "absolute": n, "content": f"image{k}"} for k, n in enumerate(names)]
    material = {"name": "a", "base_colour": [1] * 4, "emission": [0] * 3, "metallic": 0}
    material |= {"roughness": 1, "factors": [1, 1], "double_sided": False}
    material["textures"] = {"base_colour": 0, "normal": 1}
    empty = {f"image{k}": np.zeros(0, np.uint8) for k in range(2)}
    header = {"textures": textures, "materials": [material]}
    scene = SimpleNamespace(header=header, arrays=empty, budget=Budget("a.fbx", 0))
    found, notes = read_looks(scene, tmp_path / "a.fbx", [])
    first, second = (texture.images[""].data for texture in found["a"].textures.values())
    assert first is second
    assert not notes

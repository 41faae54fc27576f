"""Morph targets turn the normals as the surface turns."""

import json
import struct

import numpy as np
import pytest
from character_builders import hero
from command_line import run
from independent import three_js

from understudy import BlendShape, Character, CharacterClip, Mesh
from understudy.geometry.normals import CornerNormals, vertex_normals
from understudy.io.gltf import write_glb
from understudy.io.gltf.split_vertices import corner_normals, morph_normals
from understudy.methods.character_deformer import deformer_of_character

KINDS = {5120: "i1", 5121: "u1", 5123: "<u2", 5125: "<u4", 5126: "<f4"}


def content(path):
    """The JSON of a .glb, and a function that reads an accessor."""
    data = path.read_bytes()
    length = struct.unpack_from("<I", data, 12)[0]
    about, binary = json.loads(data[20 : 20 + length]), data[28 + length :]

    def rows(view, kind, count, width):
        start = about["bufferViews"][view].get("byteOffset", 0)
        return np.frombuffer(binary, KINDS[kind], count * width, start).reshape(count, width)

    def read(number):
        entry = about["accessors"][number]
        width = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}[entry["type"]]
        count, kind = entry["count"], entry["componentType"]
        if "bufferView" in entry:
            return rows(entry["bufferView"], kind, count, width)
        few = entry["sparse"]
        result = np.zeros((count, width), KINDS[kind])
        index = rows(few["indices"]["bufferView"], few["indices"]["componentType"], few["count"], 1)
        result[index[:, 0]] = rows(few["values"]["bufferView"], kind, few["count"], width)
        return result

    return about, read


def degrees(a, b):
    """The mean angle between two sets of vectors."""
    unit = lambda v: v / np.linalg.norm(v, axis=-1, keepdims=True)
    return np.degrees(np.arccos(np.clip((unit(a) * unit(b)).sum(axis=-1), -1, 1))).mean()


def bumps(**about):
    """A sheet of 16 x 16 quads with three smooth bumps as blend shapes, two materials and UVs."""
    x, y = (axis.reshape(-1) for axis in np.meshgrid(np.arange(17.0), np.arange(17.0)))
    corner = (np.arange(16)[:, None] * 17 + np.arange(16)).reshape(-1, 1)
    faces = corner + [0, 1, 18, 17]
    shapes = []
    for number, (u, v) in enumerate([(5, 5), (9, 8), (11, 12)]):
        bump = 2.5 * np.exp(-((x - u) ** 2 + (y - v) ** 2) / 12)
        shapes.append(
            BlendShape.from_dense(f"bump {number}", bump[:, None] * [[0.2, 0, 1.0]], 0.01)
        )
    mesh = Mesh(
        np.stack([x, y, 0.02 * (x - 8) ** 2], axis=1),
        np.full(len(faces), 4),
        faces.reshape(-1),
        materials=("left", "right"),
        polygon_material=(np.arange(len(faces)) % 16 > 7).astype(int),
        **about,
    )
    weights = 0.5 + 0.5 * np.sin(np.arange(20)[:, None] * [0.3, 0.5, 0.7])
    clip = CharacterClip("play", np.zeros((20, 0, 3, 4)), weights)
    return Character(mesh, None, None, tuple(shapes), (clip,), name="bumps")


def surface(about, read, number):
    """Positions, normals and triangles of a file at weight one of a morph target, seams welded.

    Returns rest positions, moved positions, rest normals, moved normals, triangles.
    """
    vertices, triangles = [], []
    arrays = [[], [], [], []]
    for mesh in about["meshes"]:
        for primitive in mesh["primitives"]:
            attributes, target = primitive["attributes"], primitive["targets"][number]
            for k, name in enumerate(("POSITION", "NORMAL")):
                rest = read(attributes[name]).astype(np.float64)
                arrays[2 * k].append(rest)
                arrays[2 * k + 1].append(rest + read(target[name]))
            start = sum(map(len, vertices))
            vertices.append(read(attributes["_VERTEX"])[:, 0].astype(int))
            triangles.append(read(primitive["indices"]).reshape(-1, 3).astype(int) + start)
    _, first, weld = np.unique(np.concatenate(vertices), return_index=True, return_inverse=True)
    return [*(np.concatenate(parts)[first] for parts in arrays), weld[np.concatenate(triangles)]]


@pytest.mark.parametrize(
    "about", [{"unit": "m"}, {"unit": "cm", "up_axis": "Z", "handedness": "left"}]
)
def test_normals_in_the_file_follow_its_own_surface(tmp_path, about):
    write_glb(bumps(**about).with_clips([]), tmp_path / "bumps.glb")
    file = content(tmp_path / "bumps.glb")
    for number in range(3):
        rest, moved, normals, turned, triangles = surface(*file, number)
        true = vertex_normals(moved, triangles)
        np.testing.assert_allclose(degrees(normals, vertex_normals(rest, triangles)), 0, atol=1)
        assert degrees(turned, true) < 0.1 * degrees(normals, true)


def test_normals_are_fitted_to_the_weights_of_the_clips():
    made = bumps()
    mesh, normals = made.mesh, corner_normals(made.mesh)
    corners = np.arange(len(normals))
    weights = made.clips[0].shape_weights.astype(np.float64)
    carried = CornerNormals(mesh.vertices, mesh.polygon_sizes, mesh.polygon_vertices, normals)
    true = np.stack([carried.at(vertices) for vertices in made.evaluate(None, weights)])
    alone = morph_normals(made.with_clips([]), normals, corners)
    fitted = morph_normals(made, normals, corners)
    without, by_shape, by_clip = (
        degrees(normals + np.tensordot(weights, changes, 1), true)
        for changes in (0 * alone, alone, fitted)
    )
    assert by_clip < by_shape < 0.4 * without


def test_the_validator_finds_nothing(tmp_path):
    write_glb(bumps(unit="m"), tmp_path / "bumps.glb")
    three_js.assert_valid(tmp_path / "bumps.glb")


def test_they_can_be_left_out(tmp_path, capsys):
    deformer_of_character(hero(influences=4)).save(tmp_path / "hero.understudy")
    for option in ("--morph-normals", "--no-morph-normals"):
        out = tmp_path / "hero.glb"
        code, _, err = run(capsys, "export", tmp_path / "hero.understudy", out, option)
        assert code == 0, err
        about, _ = content(out)
        targets = [
            t for m in about["meshes"] for p in m["primitives"] for t in p.get("targets", ())
        ]
        assert all(("NORMAL" in target) == (option == "--morph-normals") for target in targets)
    out = tmp_path / "hero.npz"
    code, _, err = run(capsys, "export", tmp_path / "hero.understudy", out, "--no-morph-normals")
    assert code == 2
    assert "--no-morph-normals: only .glb" in err

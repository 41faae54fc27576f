"""Sound files to damage: small ones by our writers, and real ones where they are."""

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
from builders import full_deformer
from bvh_writer import write_bvh
from character_builders import hero
from gltf_maker import GltfMaker
from maya_writer import XML, maya_file
from parity.kinds import KINDS
from ply_forms import FORMS, write_in_form
from rigged_characters import make_character
from usd_scenes import SCENE

from understudy.io.npz import write_recorded_poses
from understudy.io.registry import write_character
from understudy.io.sequences import write_obj
from understudy_benchmarks.real_data import data_folder

_LARGEST = 200_000  # bytes
_GROUPS = {
    ".ply": "ply", ".obj": "obj", ".npz": "npz", ".bvh": "bvh", ".glb": "gltf", ".gltf": "gltf",
    ".mdd": "caches", ".pc2": "caches", ".mcx": "caches", ".mc": "caches", ".xml": "caches",
    ".understudy": "understudy", ".fbx": "fbx", ".usda": "usd", ".usdc": "usd", ".usdz": "usd",
}  # fmt: skip
FORMATS = tuple(dict.fromkeys(_GROUPS.values()))


def write_seeds(folder: Path, formats=FORMATS) -> dict[str, list[Path]]:
    """Write the files of some formats; return the paths by format."""
    character = hero(frames=5)
    deformer = full_deformer()
    if {"obj", "ply"} & {*formats}:
        normals = np.tile([0.0, 0.0, 1.0], (len(character.mesh.polygon_vertices), 1))
        write_obj(folder / "hero.obj", character.mesh, normals=normals)
        for form in FORMS:
            write_in_form(folder / f"{form}.ply", character.mesh, form)
    if "npz" in formats:
        _write_npz(folder, character)
    if "bvh" in formats:
        rigid = make_character()
        write_bvh(rigid.skeleton, rigid.clips[0], folder / "walk.bvh")
    if "caches" in formats:
        points = np.random.default_rng(0).normal(size=(6, 10, 3)).astype(np.float32)
        for name, kind in (("wide", True), ("narrow", False)):
            (folder / f"{name}.{'mcx' if kind else 'mc'}").write_bytes(maya_file(points, wide=kind))
            (folder / f"{name}.xml").write_text(XML.format(kind="OneFile"))
        _write_caches(folder, points)
    if "gltf" in formats:
        write_character(make_character(), folder / "ours.glb")
        _gltf().save(folder / "theirs.glb")
        (folder / "text.gltf").write_text(_gltf().gltf())
    if "understudy" in formats:
        deformer.save(folder / "full.understudy")
        for name, make in KINDS.items():
            make().save(folder / f"{name}.understudy")
    if "usd" in formats:
        (folder / "scene.usda").write_text(SCENE)
        for suffix in ("usdc", "usdz", "usda"):
            write_character(character, folder / f"hero.{suffix}")
    real = data_folder() / "files"
    files = [*folder.iterdir(), *(real.rglob("*") if real.is_dir() else ())]
    found: dict[str, list[Path]] = {}
    for path in sorted(files):
        known = _GROUPS.get(path.suffix.lower())
        if ".anim" in path.name:  # a layer of another file
            continue
        if known in formats and path.stat().st_size <= _LARGEST:
            found.setdefault(known, []).append(path)
    return found


def _write_npz(folder, character):
    """Recorded poses with bones and controls, a sequence of clips, and a skin."""
    poses = character.poses()
    write_recorded_poses(poses, folder / "poses.npz")
    bare = replace(poses, skeleton=None, world_from_bone=None, control_spec=None, controls=None)
    write_recorded_poses(bare, folder / "sequence.npz")
    mesh, count = character.mesh, character.bone_count
    weights = np.full((mesh.vertex_count, count), 1 / count, np.float32)
    faces = np.array([[0, 1, 2]])
    places = np.tile(np.eye(3, 4), (2, count, 1, 1))
    np.savez(
        folder / "skin.npz", rest=mesh.vertices, faces=faces, weights=weights, transforms=places
    )


def _write_caches(folder, points):
    """The same positions as `.mdd` and `.pc2`."""
    frames, vertices = points.shape[:2]
    times = (np.arange(frames) / 24).astype(">f4").tobytes()
    head = struct.pack(">ii", frames, vertices) + times
    (folder / "a.mdd").write_bytes(head + points.astype(">f4").tobytes())
    head = struct.pack("<12siiffi", b"POINTCACHE2\0", 1, vertices, 0, 1, frames)
    (folder / "a.pc2").write_bytes(head + points.astype("<f4").tobytes())


def _gltf():
    """A triangle with joints, a morph target and animations of every interpolation."""
    rng = np.random.default_rng(0)
    maker = GltfMaker()
    attributes = {
        "POSITION": maker.accessor(np.eye(3)),
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
    maker.animation((1, "rotation", [0, 0.5, 1], rng.normal(size=(9, 4)), "CUBICSPLINE"))
    maker.animation((0, "weights", np.arange(4) / 24, rng.random((4, 1)), "STEP"), name="bend")
    return maker

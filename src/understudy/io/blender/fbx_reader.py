"""FBX files read by Blender, where the package ufbx is not installed.

The result is what Blender makes of the file: Z-up, in metres. `understudy.io.fbx` keeps the axes
and the unit of the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from understudy.core.character import BlendShape, Character, CharacterClip
from understudy.core.errors import FileError
from understudy.core.mesh import Mesh
from understudy.core.progress import Progress
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.io.blender.launch import Answer
from understudy.io.blender.reading import ask_about_file, parts_of

if TYPE_CHECKING:
    from understudy.io.registry import ReadOptions

_SCRIPT = Path(__file__).parent / "scripts" / "read_fbx.py"
_SECONDS = 60
_SECONDS_PER_BYTE = 2e-5
_SAME = 1e-4  # of the size: how far skin and shapes may be from what Blender shows


def read_fbx_in_blender(path: str | Path, options: ReadOptions, progress: Progress) -> Character:
    """Return the character of an FBX file as Blender imports it: Z-up, in metres.

    A clip that skin and blend shapes do not reproduce (in-between shapes, other deformers) has its
    vertices as a point cache.
    """
    path = Path(path)
    if not path.is_file():
        raise FileError(f"{path}: no such file")
    size = path.stat().st_size
    request = {
        "path": str(path.absolute()),
        "bytes": size,
        "meshes": list(options.meshes),
        "clips": list(options.clips),
        "frame_rate": options.frame_rate,
    }
    answer = ask_about_file(path, _SCRIPT, request, _SECONDS + _SECONDS_PER_BYTE * size, progress)
    arrays, values = answer.arrays, answer.values
    mesh = Mesh(
        arrays["rest"],
        arrays["polygon_sizes"],
        arrays["polygon_vertices"],
        corner_uvs=arrays.get("uvs"),
        corner_normals=arrays["normals"],
        materials=tuple(values["materials"]),
        polygon_material=arrays["polygon_material"] if values["materials"] else None,
        parts=parts_of(answer),
        unit="m",
        up_axis="Z",
    )
    skeleton = Skeleton(tuple(values["bones"]), arrays["bone_parents"], arrays["bone_rest"])
    shapes = tuple(
        BlendShape.from_dense(name, arrays[f"shape{number}"])
        for number, name in enumerate(values["shapes"])
    )
    made = Character(mesh, skeleton, _skin(answer, mesh.vertex_count), shapes, name=path.stem)
    return made.with_clips([_clip(made, answer, number) for number in range(len(values["clips"]))])


def _skin(answer: Answer, count: int) -> Skin:
    """Return the skin of all vertices, with as many influences as the most have."""
    vertices = answer.arrays["skin_vertices"]
    order = np.argsort(vertices, kind="stable")
    vertices = vertices[order]
    uses = np.bincount(vertices, minlength=count)
    place = np.arange(len(vertices)) - np.repeat(np.cumsum(uses) - uses, uses)
    index = np.zeros((count, int(uses.max())), np.int32)
    weight = np.zeros(index.shape, np.float32)
    index[vertices, place] = answer.arrays["skin_bones"][order]
    weight[vertices, place] = answer.arrays["skin_weights"][order]
    return Skin(index, weight)


def _clip(made: Character, answer: Answer, number: int) -> CharacterClip:
    """Return one clip, with a point cache if skin and shapes do not reproduce it."""
    told = answer.values["clips"][number]
    get = lambda what: answer.arrays[f"clip{number}_{what}"]
    shown = made.evaluate(get("bones"), get("weights"))
    apart = float(np.abs(shown - get("vertices")).max())
    size = float(np.ptp(made.mesh.vertices, axis=0).max()) or 1.0
    return CharacterClip(
        told["name"],
        get("bones"),
        get("weights"),
        told["rate"],
        told["start"],
        get("vertices") if apart > _SAME * size else None,
    )

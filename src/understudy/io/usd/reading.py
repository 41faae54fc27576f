"""USD files read as a `Character`, in a process of their own.

USD's library trusts the files it reads: a damaged one can end the process, or take all memory. So
`understudy.io.usd.extract` reads the file in a second process, with limits on time and memory, and
hands the character back as arrays.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.character import BlendShape, Character, CharacterClip
from understudy.core.materials import Image, materials_of_plain, plain_materials
from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.io.format import AS_IT_IS, ReadOptions
from understudy.io.npz import array_names, read_arrays
from understudy.io.numbers import byte_count
from understudy.system.errors import FileError, InputError
from understudy.system.progress import SILENT, Progress

# A reader may take this many seconds of processor time, and one more for every so many bytes of
# the file; by the clock four times that, because others use the machine too.
_SECONDS = 12
_BYTES_PER_SECOND = 1_000_000
# Variables that make USD look for files or plug-ins elsewhere.
_UNSET = ("PXR_PLUGINPATH_NAME", "PXR_AR_DEFAULT_SEARCH_PATH", "PXR_USD_WINDOWS_DLL_PATH")
SUFFIXES = (".usd", ".usda", ".usdc", ".usdz")
_MESH = ("vertices", "polygon_sizes", "polygon_vertices")
_MESH_OPTIONAL = ("corner_uvs", "corner_normals", "polygon_material")


def read_usd(
    path: str | Path, options: ReadOptions = AS_IT_IS, progress: Progress = SILENT
) -> Character:
    """Return the character of a `.usd`, `.usda`, `.usdc` or `.usdz` file.

    options  `meshes` are names or paths, by default all that are visible; `frame_rate` is that of
             the file by default

    Other layers that the file names are read only if they lie in its folder or below.
    """
    path = Path(path)
    seconds = seconds_for(byte_count(path))
    request = {name: getattr(options, name) for name in ("clips", "meshes", "frame_rate")}
    request["path"] = str(path.resolve())
    with tempfile.TemporaryDirectory() as folder, progress.task("reading", 1) as bar:
        result, report = Path(folder) / "character.npz", Path(folder) / "report.json"
        request |= {"result": str(result), "report": str(report)}
        failure = _run(json.dumps(request), seconds)
        if report.exists():
            raise FileError(f"{path}: {json.loads(report.read_text('utf-8'))}")
        if failure:
            raise FileError(f"{path}: {failure}")
        try:
            character = character_from_arrays(read_arrays(result, array_names(result)))
        except InputError as wrong:
            raise FileError(f"{path}: {wrong}") from wrong
        bar.advance()
    return character


def seconds_for(size: int) -> int:
    """Return how many seconds of processor time reading a file of `size` bytes may take.

    >>> seconds_for(10_000_000)
    22
    """
    return _SECONDS + size // _BYTES_PER_SECOND


def _run(request: str, seconds: int) -> str:
    """Read a file in a process of its own; return what went wrong with the process, or ""."""
    kept = {name: value for name, value in os.environ.items() if name not in _UNSET}
    # One thread: threads reserve address space, which is limited.
    environment = {**kept, "PXR_WORK_THREAD_LIMIT": "1", "MALLOC_ARENA_MAX": "2"}
    environment["OPENBLAS_NUM_THREADS"] = "1"
    command = [sys.executable, "-P", "-m", "understudy.io.usd.extract"]
    slow = f"cannot be read in {seconds} s; it is damaged or made to be slow"
    try:
        done = subprocess.run(
            command,
            input=request.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=4 * seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return slow
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        if name in ("SIGXCPU", "SIGKILL"):
            return slow
        return f"USD's library ended with {name} while reading it; the file is damaged"
    if done.returncode:
        return "USD's library cannot read it; the file is damaged, or needs too much memory"
    return ""


def character_arrays(character: Character) -> dict[str, np.ndarray]:
    """Return the arrays of a character by name; `character_from_arrays` is the inverse."""
    mesh = character.mesh
    arrays = {name: getattr(mesh, name) for name in _MESH}
    arrays |= {
        name: getattr(mesh, name) for name in _MESH_OPTIONAL if getattr(mesh, name) is not None
    }
    looks, images = plain_materials(mesh.looks)
    arrays |= {f"corner_{name}": values for name, values in mesh.corner_values.items()}
    arrays |= {f"image{n}": np.frombuffer(i.data, np.uint8) for n, i in enumerate(images)}
    about: dict[str, Any] = {
        "looks": looks,
        "images": [image.name for image in images],
        "corner_values": list(mesh.corner_values),
        "notes": list(character.notes),
        "name": character.name,
        "unit": mesh.unit,
        "up_axis": mesh.up_axis,
        "handedness": mesh.handedness,
        "materials": list(mesh.materials),
        "parts": list(mesh.parts),
        "shapes": [shape.name for shape in character.shapes],
        "clips": [[clip.name, clip.frame_rate, clip.start_frame] for clip in character.clips],
    }
    for number, vertices in enumerate(mesh.parts.values()):
        arrays[f"part{number}"] = vertices
    if character.skeleton is not None and character.skin is not None:
        about["bones"] = list(character.skeleton.names)
        about["blend"] = character.skin.blend
        arrays |= {
            "parents": character.skeleton.parents,
            "rest_world_from_bone": character.skeleton.world_from_bone,
            "bone_index": character.skin.bone_index,
            "weight": character.skin.weight,
        }
    for number, shape in enumerate(character.shapes):
        arrays[f"shape{number}_vertices"] = shape.vertices
        arrays[f"shape{number}_offsets"] = shape.offsets
    for number, clip in enumerate(character.clips):
        arrays[f"clip{number}_world_from_bone"] = clip.world_from_bone
        arrays[f"clip{number}_shape_weights"] = clip.shape_weights
        if clip.vertices is not None:
            arrays[f"clip{number}_vertices"] = clip.vertices
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    return arrays


def character_from_arrays(arrays: Mapping[str, np.ndarray]) -> Character:
    """Return the character of `character_arrays`; every array is checked again."""
    about = json.loads(arrays["about"].tobytes())
    images = [Image(n, arrays[f"image{k}"].tobytes()) for k, n in enumerate(about["images"])]
    mesh = Mesh(
        arrays["vertices"],
        arrays["polygon_sizes"],
        arrays["polygon_vertices"],
        arrays.get("corner_uvs"),
        arrays.get("corner_normals"),
        polygon_material=arrays.get("polygon_material"),
        materials=about["materials"],
        parts={name: arrays[f"part{k}"] for k, name in enumerate(about["parts"])},
        unit=about["unit"],
        up_axis=about["up_axis"],
        handedness=about["handedness"],
        looks=materials_of_plain(about["looks"], images),
        corner_values={name: arrays[f"corner_{name}"] for name in about["corner_values"]},
    )
    skeleton = skin = None
    if "bones" in about:
        skeleton = Skeleton(about["bones"], arrays["parents"], arrays["rest_world_from_bone"])
        skin = Skin(arrays["bone_index"], arrays["weight"], about["blend"])
    shapes = [
        BlendShape(name, arrays[f"shape{k}_vertices"], arrays[f"shape{k}_offsets"])
        for k, name in enumerate(about["shapes"])
    ]
    clips = [
        CharacterClip(
            name,
            arrays[f"clip{k}_world_from_bone"],
            arrays[f"clip{k}_shape_weights"],
            rate,
            start,
            arrays.get(f"clip{k}_vertices"),
        )
        for k, (name, rate, start) in enumerate(about["clips"])
    ]
    parts = (mesh, skeleton, skin, tuple(shapes), tuple(clips), about["name"])
    return Character(*parts, notes=tuple(about["notes"]))

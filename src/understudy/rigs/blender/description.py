"""What a .blend file holds: mesh, bones, controls and animations, read once and cached.

The cache is a folder of the user (`UNDERSTUDY_CACHE`, else `~/.cache/understudy`). Its files are
named by the content of the .blend file, the options, the bridge script and the Blender in use, so
they never need to be cleared. An entry that cannot be read is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.skinning import float32_influences
from understudy.io import npz
from understudy.io.atomic_write import atomic_write
from understudy.io.blender import find_blender
from understudy.io.nouns import packed, unpacked
from understudy.rigs.blender.calibration import Calibration, calibrate
from understudy.rigs.blender.connection import SCRIPT, Connection
from understudy.rigs.blender.effects import Channel, Evaluate, RestState, factor_of
from understudy.rigs.blender.options import BlenderOptions
from understudy.system import threads
from understudy.system.errors import FileError, InputError, UnderstudyError
from understudy.system.progress import Progress

CACHE_VARIABLE = "UNDERSTUDY_CACHE"
_VERSION = 3
_SHOWN = 10  # drivers that an error names
_CALIBRATION_TIMEOUT = 600.0  # seconds for a few poses
_FEW_CHANNELS = 100  # are calibrated before another Blender has started
_MOST_BLENDERS = 4
Answer = tuple[Connection, dict[str, Any], dict[str, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Description(Calibration):
    """A rig without the process that evaluates it.

    skin        the bone weights of the file, or None where something else carries the mesh
    animations  name -> control values (T,C)
    notes       sentences about what was left out
    """

    mesh: Mesh
    skeleton: Skeleton | None
    frame_rate: float
    skin: Skin | None
    animations: Mapping[str, np.ndarray]
    notes: tuple[str, ...]


def choose_request(options: BlenderOptions) -> dict[str, Any]:
    """Return the request that makes the bridge show and describe the chosen meshes."""
    return {
        "request": "choose",
        "meshes": list(options.meshes),
        "modifiers": options.modifiers,
        "patterns": list(options.controls),
        "bendy": options.bendy,
        "collections": list(options.collections),
        "simulations": options.simulations,
        "animations": [os.path.abspath(file) for file in options.animations],
    }


def read_description(
    path: Path,
    options: BlenderOptions,
    start: Callable[[], Answer],
    further: Callable[[], Answer],
    progress: Progress,
) -> Description:
    """Return the description of a file, from the cache or from Blender.

    start    starts Blender with the file; returns the connection and what `choose` answered
    further  the same for Blenders that help to calibrate, and are closed then
    """
    entry = _cache_entry(path, options)
    with contextlib.suppress(UnderstudyError, OSError, KeyError, ValueError, TypeError):
        return unpacked(npz.read_arrays(entry, npz.array_names(entry)), Description)
    helpers: list[Connection] = []
    try:
        found, linked = _describe(path, options, start, further, helpers, progress)
    finally:
        for helper in helpers:
            helper.close()
    if linked:  # the content of the file does not tell when the linked files change
        return found
    # A cache that cannot be written costs time, nothing else.
    unwritten = contextlib.suppress(OSError, UnderstudyError)
    with unwritten, atomic_write(entry) as draft, draft.open("wb") as file:
        np.savez(file, allow_pickle=False, **packed(found))
    return found


def _describe(
    path: Path,
    options: BlenderOptions,
    start: Callable[[], Answer],
    further: Callable[[], Answer],
    helpers: list[Connection],
    progress: Progress,
) -> tuple[Description, bool]:
    """The description of a file by Blender, and whether it links to other files.

    helpers  gets the connections that `further` returned
    """
    with progress.task(f"opening {path.name} in Blender", 1) as task:
        session, header, arrays = start()
        task.advance()
    _refuse_drivers(path, header["drivers"], options)
    mesh, skeleton = _mesh(header, arrays), _skeleton(header, arrays)
    channels = header["channels"]

    def use(some: Sequence[Channel]) -> Evaluate:
        if not helpers and len(some) > _FEW_CHANNELS:
            helpers.extend(further()[0] for _ in range(min(threads.count(), _MOST_BLENDERS) - 1))
        sessions = [session, *helpers]
        for one in sessions:
            one.ask({"request": "channels", "channels": list(some)})

        def ask(one: Connection, values: np.ndarray) -> dict[str, np.ndarray]:
            return one.ask({"request": "evaluate"}, {"values": values}, _CALIBRATION_TIMEOUT)[1]

        def evaluate(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            parts = np.array_split(values, min(len(sessions), max(1, len(values))))
            with ThreadPoolExecutor(len(sessions)) as pool:
                answers = [*pool.map(ask, sessions, parts)]
            vertices, bones = ([a[key] for a in answers] for key in ("vertices", "bones"))
            return np.concatenate(vertices), np.concatenate(bones)

        return evaluate

    curves: dict[str, np.ndarray] = {}
    if header["actions"]:
        use(channels)
        curves = {
            name: session.ask({"request": "action", "name": name})[1]["values"]
            for name in header["actions"]
        }
    skin, unweighted = _skin(arrays, mesh.vertex_count)
    if unweighted:
        header["notes"].append(f"{unweighted} vertices have no bone weights")
    rest = RestState(
        mesh.vertices.astype(np.float64),
        mesh.edges,
        arrays["bones"],
        header["bones"],
        np.array(header["parents"], np.int64),
        float(np.linalg.norm(np.ptp(mesh.vertices, axis=0))),
        mesh.unit,
        skin,
    )
    result = calibrate(
        channels,
        rest,
        use,
        np.concatenate(list(curves.values())) if curves else None,
        options.asks,
        progress,
    )
    notes = tuple(result.said())
    if not result.channels:
        raise InputError(_no_controls(path, header, options, notes))
    columns = [channels.index(channel) for channel in result.channels]
    factors = np.array([factor_of(channel) for channel in result.channels])
    use(result.channels)
    animations = {name: values[:, columns] / factors for name, values in curves.items()}
    said = (*header["notes"], *notes)
    found = Description(
        **vars(result),
        mesh=mesh,
        skeleton=skeleton,
        frame_rate=header["frame_rate"],
        skin=skin,
        animations=animations,
        notes=said,
    )
    return found, bool(header["libraries"])


def _refuse_drivers(path: Path, drivers: list[str], options: BlenderOptions) -> None:
    if not drivers or options.ignore_drivers:
        return
    shown = "; ".join(drivers[:_SHOWN])
    more = f"; and {len(drivers) - _SHOWN} more" if len(drivers) > _SHOWN else ""
    trust = (
        "" if options.trust_scripts else "allow the scripts of a file you trust (--trust-scripts), "
    )
    raise FileError(
        f"{path}: Blender evaluates {len(drivers)} drivers to 0, so its poses would be wrong: "
        f"{shown}{more}. To go on, {trust}repair the drivers, or accept it (--ignore-drivers)"
    )


def _no_controls(
    path: Path, header: Mapping[str, Any], options: BlenderOptions, notes: tuple[str, ...]
) -> str:
    asked = f" that matches {', '.join(options.controls)}" if options.controls else ""
    tried = "; ".join(notes) or "it has no pose bones, properties or shape keys that can be set"
    return f"{path}: no control{asked} moves {', '.join(header['meshes'])}: {tried}"


def _mesh(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Mesh:
    ends = np.cumsum(arrays["counts"])
    parts = {
        name: np.arange(end - count, end)
        for name, end, count in zip(header["meshes"], ends, arrays["counts"])
    }
    return Mesh(
        arrays["rest"],
        polygon_sizes=arrays["sizes"],
        polygon_vertices=arrays["corners"],
        corner_uvs=arrays.get("uvs"),
        materials=tuple(header["materials"]),
        polygon_material=arrays["material"],
        parts=parts,
        unit=header["unit"],
        up_axis="Z",
    )


def _skin(arrays: Mapping[str, np.ndarray], vertex_count: int) -> tuple[Skin | None, int]:
    """The weights of the file, and how many vertices have none; these follow the first bone."""
    if "weight_vertex" not in arrays or not len(arrays["bones"]):
        return None, 0
    order = np.lexsort((-arrays["weight_value"], arrays["weight_vertex"]))
    vertex, bone, value = (arrays[f"weight_{n}"][order] for n in ("vertex", "bone", "value"))
    count = np.bincount(vertex, minlength=vertex_count)
    place = np.arange(len(vertex)) - np.repeat(np.cumsum(count) - count, count)
    index = np.zeros((vertex_count, max(1, count.max(initial=0))), np.int32)
    weight = np.zeros(index.shape)
    index[vertex, place], weight[vertex, place] = bone, value
    weight[count == 0, 0] = 1.0
    index, weight = float32_influences(index, weight / weight.sum(axis=1, keepdims=True))
    blend = "dual_quaternion" if arrays["preserve_volume"][0] else "linear"
    return Skin(index, weight, blend), int((count == 0).sum())


def _skeleton(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Skeleton | None:
    if not header["bones"]:
        return None
    return Skeleton(tuple(header["bones"]), np.array(header["parents"]), arrays["bones"])


# The cache.


def _cache_entry(path: Path, options: BlenderOptions) -> Path:
    """Return the file that the description of a .blend file has in the cache."""
    blender = find_blender().executable
    facts = [
        _VERSION,
        choose_request(options),
        options.trust_scripts,
        options.ignore_drivers,
        options.libraries,
        str(blender),
        blender.stat().st_mtime_ns,
    ]
    digest = hashlib.sha256(json.dumps(facts).encode())
    own = Path(__file__).parent
    for file in (
        *sorted(SCRIPT.parent.glob("*.py")),
        *sorted(own.glob("*.py")),
        path,
        *map(Path, options.animations),
    ):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    given = os.environ.get(CACHE_VARIABLE)
    base = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(given) if given else Path(base).expanduser() / "understudy"
    return folder / "blender" / f"{digest.hexdigest()[:32]}.npz"

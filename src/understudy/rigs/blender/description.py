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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.io import npz
from understudy.io.atomic_write import atomic_write
from understudy.io.blender import find_blender
from understudy.rigs.blender import calibration
from understudy.rigs.blender.calibration import Channel, RestState, factor_of
from understudy.rigs.blender.connection import SCRIPT, Connection
from understudy.rigs.blender.options import BlenderOptions
from understudy.system.errors import FileError, InputError, UnderstudyError
from understudy.system.progress import Progress

CACHE_VARIABLE = "UNDERSTUDY_CACHE"
_VERSION = 1
_SHOWN = 10  # drivers that an error names
_CALIBRATION_TIMEOUT = 600.0  # seconds for a few poses
Answer = tuple[Connection, dict[str, Any], dict[str, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Description:
    """A rig without the process that evaluates it.

    channels    what each control sets in Blender
    animations  name -> control values (T,C)
    notes       sentences about what was left out
    """

    mesh: Mesh
    skeleton: Skeleton | None
    controls: ControlSpec
    channels: tuple[Channel, ...]
    frame_rate: float
    animations: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def choose_request(options: BlenderOptions) -> dict[str, Any]:
    """Return the request that makes the bridge show and describe the chosen meshes."""
    return {
        "request": "choose",
        "meshes": list(options.meshes),
        "modifiers": options.modifiers,
        "patterns": list(options.controls),
        "bendy": options.bendy,
    }


def read_description(
    path: Path, options: BlenderOptions, start: Callable[[], Answer], progress: Progress
) -> Description:
    """Return the description of a file, from the cache or from Blender.

    start  starts Blender with the file; returns the connection and what `choose` answered
    """
    entry = _cache_entry(path, options)
    with contextlib.suppress(UnderstudyError, OSError, KeyError, ValueError, TypeError):
        return _read_entry(entry)
    found, linked = _describe(path, options, start, progress)
    if linked:  # the content of the file does not tell when the linked files change
        return found
    # A cache that cannot be written costs time, nothing else.
    with contextlib.suppress(OSError, UnderstudyError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        _write_entry(entry, found)
    return found


def _describe(
    path: Path, options: BlenderOptions, start: Callable[[], Answer], progress: Progress
) -> tuple[Description, bool]:
    """The description of a file by Blender, and whether it links to other files."""
    with progress.task(f"opening {path.name} in Blender", 1) as task:
        session, header, arrays = start()
        task.advance()
    _refuse_drivers(path, header["drivers"], options)
    mesh, skeleton = _mesh(header, arrays), _skeleton(header, arrays)
    session.ask({"request": "channels", "channels": header["channels"]})
    curves = {
        name: session.ask({"request": "action", "name": name})[1]["values"]
        for name in header["actions"]
    }

    def evaluate(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        request = {"request": "evaluate"}
        _, answer = session.ask(request, {"values": values}, _CALIBRATION_TIMEOUT)
        return answer["vertices"], answer["bones"]

    weights = None
    if "weight_vertex" in arrays:
        weights = (arrays["weight_vertex"], arrays["weight_bone"], arrays["weight_value"])
    rest = RestState(
        mesh.vertices.astype(np.float64),
        arrays["bones"],
        float(np.linalg.norm(np.ptp(mesh.vertices, axis=0))),
        mesh.unit,
        weights,
        bendy=bool(header["bendy"]) and not options.bendy,
    )
    result = calibration.calibrate(
        header["channels"],
        rest,
        evaluate,
        np.concatenate(list(curves.values())) if curves else None,
        bool(options.controls),
        progress,
    )
    if not result.channels:
        raise InputError(_no_controls(path, header, options, result.notes))
    columns = [header["channels"].index(channel) for channel in result.channels]
    factors = np.array([factor_of(channel) for channel in result.channels])
    session.ask({"request": "channels", "channels": list(result.channels)})
    found = Description(
        mesh,
        skeleton,
        result.controls,
        result.channels,
        header["frame_rate"],
        {name: values[:, columns] / factors for name, values in curves.items()},
        (*header["notes"], *result.notes),
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
        str(blender),
        blender.stat().st_mtime_ns,
    ]
    digest = hashlib.sha256(json.dumps(facts).encode())
    for file in (*sorted(SCRIPT.parent.glob("*.py")), Path(calibration.__file__), path):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    given = os.environ.get(CACHE_VARIABLE)
    base = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(given) if given else Path(base).expanduser() / "understudy"
    return folder / "blender" / f"{digest.hexdigest()[:32]}.npz"


_ARRAYS = {
    Mesh: ("vertices", "polygon_sizes", "polygon_vertices", "corner_uvs", "polygon_material"),
    Skeleton: ("parents", "world_from_bone"),
    ControlSpec: ("low", "high", "rest", "limit_low", "limit_high", "numeric"),
}


def _write_entry(entry: Path, found: Description) -> None:
    nouns = {"mesh": found.mesh, "skeleton": found.skeleton, "controls": found.controls}
    arrays = {
        f"{name}/{part}": getattr(noun, part)
        for name, noun in nouns.items()
        if noun is not None
        for part in _ARRAYS[type(noun)]
        if getattr(noun, part) is not None
    }
    arrays |= {f"parts/{k}": part for k, part in enumerate(found.mesh.parts.values())}
    arrays |= {f"animations/{k}": curve for k, curve in enumerate(found.animations.values())}
    facts = {
        "parts": list(found.mesh.parts),
        "materials": list(found.mesh.materials),
        "unit": found.mesh.unit,
        "bones": None if found.skeleton is None else list(found.skeleton.names),
        "controls": list(found.controls.names),
        "units": list(found.controls.units),
        "channels": [dict(channel) for channel in found.channels],
        "frame_rate": found.frame_rate,
        "animations": list(found.animations),
        "notes": list(found.notes),
    }
    arrays["facts"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    with atomic_write(entry) as draft, Path(draft).open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def _read_entry(entry: Path) -> Description:
    arrays = npz.read_arrays(entry, npz.array_names(entry))
    facts = json.loads(arrays["facts"].tobytes())
    of: Callable[[str], dict[str, Any]] = lambda name: {
        key.partition("/")[2]: array for key, array in arrays.items() if key.startswith(f"{name}/")
    }
    parts, animations = of("parts"), of("animations")
    mesh = Mesh(
        **of("mesh"),
        parts={name: parts[str(k)] for k, name in enumerate(facts["parts"])},
        materials=tuple(facts["materials"]),
        unit=facts["unit"],
        up_axis="Z",
    )
    return Description(
        mesh,
        None if facts["bones"] is None else Skeleton(tuple(facts["bones"]), **of("skeleton")),
        ControlSpec(tuple(facts["controls"]), units=tuple(facts["units"]), **of("controls")),
        tuple(facts["channels"]),
        facts["frame_rate"],
        {name: animations[str(k)] for k, name in enumerate(facts["animations"])},
        tuple(facts["notes"]),
    )

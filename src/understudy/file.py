"""The `.understudy` file: one safetensors file, arrays plus one JSON header. No pickle, no code.

Layout: every array of a `Deformer` under a dotted name; ragged lists (nets, bases) are concatenated, with their sizes in the header. The
header sits in the safetensors metadata under the single key `understudy` (one key: with several, their order would vary from run to run).
Of a deformer in 16 bits (`storage`) the weights of nets and bases lie in `nets.half` and `bases.half` instead; biases stay with `nets.values`. In
int8 some of them, as their entries say, lie in `nets.bytes` and `bases.bytes`, rows times `nets.scales` and `bases.scales`.
The reader distrusts the file: magic, version, sizes, indices and finiteness are checked by the same constructors a method uses, and a file is
loaded whole or not at all. The same deformer always gives the same bytes.
"""

from __future__ import annotations

import errno
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as pack

from understudy import checks
from understudy.clip import Clip
from understudy.controls import ControlSpec
from understudy.deformer import STORAGES, Deformer, Features, Skin
from understudy.errors import FileError, InputError
from understudy.mesh import Mesh
from understudy.networks import Basis, Net
from understudy.precision import bytes_of
from understudy.skeleton import Skeleton

# 2 added storage in 16 bits, 3 in 8 bits; a file is written as the lowest version that holds it, for older readers.
FORMAT_VERSION = 3
SUFFIX = ".understudy"
# A header longer than this is not one of ours; the limit keeps a forged length from being allocated.
_MAX_HEADER = 64 << 20


def save(deformer: Deformer, path: str | Path) -> None:
    """Write `deformer` to `path`, whole or not at all."""
    data = to_bytes(deformer)
    with written_whole(path) as part:
        part.write_bytes(data)


def to_bytes(deformer: Deformer) -> bytes:
    """The whole file in memory."""
    arrays, header = _to_arrays(deformer)
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return pack(arrays, metadata={"understudy": text})


def load(path: str | Path) -> Deformer:
    """Read a deformer, or raise `FileError` that says what is wrong with the file."""
    path = Path(path)
    _refuse_foreign(path)
    try:
        with safe_open(str(path), framework="numpy") as opened:
            header = (opened.metadata() or {}).get("understudy")
            if header is None:
                raise FileError(f"{path}: a safetensors file, but not an understudy deformer (no understudy header)")
            header = json.loads(header)
            version = header.get("format_version") if isinstance(header, dict) else None
            if not isinstance(version, int) or version < 1:
                raise FileError(f"{path}: the header has no valid format version (found {version!r})")
            if version > FORMAT_VERSION:
                raise FileError(
                    f"{path}: written by a newer understudy (format {version}, this one reads up to {FORMAT_VERSION}); upgrade understudy to read it"
                )
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
        return _from_arrays(arrays, header)
    except FileError:
        raise
    except (SafetensorError, LookupError, TypeError, ValueError, AttributeError, RecursionError, OSError) as problem:  # InputError is a ValueError
        what = f"{problem.args[0]!r} is missing" if isinstance(problem, KeyError) else str(problem)
        raise FileError(f"{path}: damaged or truncated understudy file: {what}") from problem


def ensure_writable(path: str | Path) -> None:
    """Raise `FileError` now if `path` could not be written later: before long work, not after it."""
    with _part_of(Path(path)):
        pass


@contextmanager
def _part_of(path: Path) -> Iterator[Path]:
    """An empty temporary sibling of `path`, gone at the end of the block unless it was moved away."""
    if path.is_dir():
        raise FileError(f"{path}: is a folder; give a file name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
    except OSError as problem:
        raise FileError(f"{path}: cannot be written: {problem.strerror or problem}") from problem
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """A temporary sibling of `path` to write to; it takes the place of `path` at the end of the block, or vanishes if the block fails."""
    path = Path(path)
    with _part_of(path) as part:
        try:
            yield part
            with open(part, "rb") as written:
                os.fsync(written.fileno())
            os.chmod(part, 0o666 & ~_umask())
            os.replace(part, path)
        except OSError as problem:
            full = " (no space left on the disk: free some and run again)" if problem.errno in (errno.ENOSPC, errno.EDQUOT) else ""
            raise FileError(f"{path}: cannot be written: {problem.strerror or problem}{full}") from problem


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _refuse_foreign(path: Path) -> None:
    """Missing, empty, or not a safetensors file at all: say so before any parser sees it."""
    try:
        with open(path, "rb") as opened:
            start = opened.read(9)
            size = os.fstat(opened.fileno()).st_size
    except FileNotFoundError:
        raise FileError(f"{path}: no such file") from None
    except OSError as problem:
        raise FileError(f"{path}: cannot be read: {problem.strerror or problem}") from problem
    length = int.from_bytes(start[:8], "little")
    if len(start) < 9 or start[8:9] != b"{" or length > _MAX_HEADER:
        raise FileError(f"{path}: not an understudy file (expected one made by `understudy fit`)")
    if 8 + length > size:
        raise FileError(f"{path}: truncated: the file ends after {size} bytes, inside its own header")


def _to_arrays(deformer: Deformer) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    mesh, skeleton, spec, skin = deformer.mesh, deformer.skeleton, deformer.control_spec, deformer.skin
    arrays: dict[str, np.ndarray | None] = {
        "mesh.vertices": mesh.vertices,
        "mesh.polygon_sizes": mesh.polygon_sizes,
        "mesh.polygon_vertices": mesh.polygon_vertices,
        "mesh.corner_uvs": mesh.corner_uvs,
        "mesh.corner_normals": mesh.corner_normals,
        "mesh.polygon_material": mesh.polygon_material,
        "mesh.learn": mesh.learn,
        "mean": deformer.mean,
        "features.columns": deformer.features.columns,
        "features.low": deformer.features.low,
        "features.high": deformer.features.high,
    }
    arrays |= {f"mesh.part.{number}": part for number, part in enumerate(mesh.parts.values())}
    header: dict[str, Any] = {
        "format_version": 1,
        "method": deformer.method,
        "mesh": {
            "unit": mesh.unit, "up_axis": mesh.up_axis, "handedness": mesh.handedness,
            "materials": list(mesh.materials), "parts": list(mesh.parts),
        },
        "training": dict(deformer.training),
        "provenance": dict(deformer.provenance),
        "nets": [{"activation": net.activation, "sizes": [len(net.inputs), *map(len, net.biases)]} for net in deformer.nets],
        "bases": [{"vertices": len(b.vertices), "components": int(b.coefficients.shape[-1]), "shared": b.shared} for b in deformer.bases],
    }  # fmt: skip
    if deformer.storage != "float32":
        header |= {"format_version": 1 + STORAGES.index(deformer.storage), "storage": deformer.storage}
    if skeleton is not None:
        header["skeleton"] = {"names": list(skeleton.names)}
        arrays |= {"skeleton.parents": skeleton.parents, "skeleton.world_from_bone": skeleton.world_from_bone}
    if spec is not None:
        header["controls"] = {"names": list(spec.names), "units": list(spec.units)}
        arrays |= {f"controls.{name}": getattr(spec, name) for name in ("low", "high", "rest", "limit_low", "limit_high", "numeric")}
    if skin is not None:
        header["skin"] = {"blend": skin.blend}
        arrays |= {f"skin.{name}": getattr(skin, name) for name in ("bone_index", "weight", "virtual_index", "virtual_weight")}
    if deformer.clips:
        header["clips"] = [{"name": clip.name, "frame_rate": clip.frame_rate, "start_frame": clip.start_frame} for clip in deformer.clips]
        arrays |= {f"clip.{number}.world_from_bone": clip.world_from_bone for number, clip in enumerate(deformer.clips)}
    if deformer.nets:
        arrays["nets.inputs"] = np.concatenate([net.inputs for net in deformer.nets])
        arrays["nets.outputs"] = np.concatenate([net.outputs for net in deformer.nets])
        matrices = _Matrices("nets", deformer.storage)
        for net, entry in zip(deformer.nets, header["nets"]):
            in_bytes = []
            for weight, bias in zip(net.weights, net.biases):
                in_bytes.append(matrices.put(weight, exact=net.activation == "rbf"))
                matrices.values.append(bias)
            entry |= {"bytes": in_bytes} if deformer.storage == "int8" else {}
        arrays |= matrices.arrays()
    if deformer.bases:
        arrays["bases.vertices"] = np.concatenate([basis.vertices for basis in deformer.bases])
        arrays["bases.coefficients"] = np.concatenate([basis.coefficients.reshape(-1) for basis in deformer.bases])
        matrices = _Matrices("bases", deformer.storage)
        for basis, entry in zip(deformer.bases, header["bases"]):
            in_bytes = matrices.put(basis.matrix)
            entry |= {"bytes": in_bytes} if deformer.storage == "int8" else {}
        arrays |= matrices.arrays()
    return {name: np.ascontiguousarray(array) for name, array in arrays.items() if array is not None}, header


def _from_arrays(arrays: dict[str, np.ndarray], header: dict[str, Any]) -> Deformer:
    get = arrays.get
    about = header["mesh"]
    for name, kind in (("method", str), ("training", dict), ("provenance", dict), ("nets", list), ("bases", list)):
        if not isinstance(header[name], kind):
            raise InputError(f"the header's {name} is a {type(header[name]).__name__}, expected a {kind.__name__}")
    mesh = Mesh(
        arrays["mesh.vertices"],
        arrays["mesh.polygon_sizes"],
        arrays["mesh.polygon_vertices"],
        corner_uvs=get("mesh.corner_uvs"),
        corner_normals=get("mesh.corner_normals"),
        materials=tuple(about["materials"]),
        polygon_material=get("mesh.polygon_material"),
        parts={name: arrays[f"mesh.part.{number}"] for number, name in enumerate(about["parts"])},
        learn=get("mesh.learn"),
        unit=about["unit"],
        up_axis=about["up_axis"],
        handedness=about["handedness"],
    )
    storage = checks.one_of(header.get("storage", "float32"), "storage", STORAGES)
    skeleton = spec = skin = None
    if "skeleton" in header:
        skeleton = Skeleton(tuple(header["skeleton"]["names"]), arrays["skeleton.parents"], arrays["skeleton.world_from_bone"])
    if "controls" in header:
        fields = {name: arrays[f"controls.{name}"] for name in ("low", "high", "rest", "limit_low", "limit_high", "numeric")}
        spec = ControlSpec(tuple(header["controls"]["names"]), units=tuple(header["controls"]["units"]), **fields)
    if "skin" in header:
        virtual = {name: get(f"skin.{name}") for name in ("virtual_index", "virtual_weight")}
        skin = Skin(arrays["skin.bone_index"], arrays["skin.weight"], header["skin"]["blend"], **virtual)
    return Deformer(
        mesh=mesh,
        skeleton=skeleton,
        control_spec=spec,
        skin=skin,
        features=Features(arrays["features.columns"], arrays["features.low"], arrays["features.high"]),
        nets=_read_nets(arrays, header["nets"], storage),
        bases=_read_bases(arrays, header["bases"], storage),
        mean=get("mean"),
        method=header["method"],
        training=header["training"],
        provenance=header["provenance"],
        clips=tuple(
            Clip(entry["name"], arrays[f"clip.{number}.world_from_bone"], entry["frame_rate"], entry["start_frame"])
            for number, entry in enumerate(header.get("clips", ()))
        ),
        storage=storage,
    )


class _Cuts:
    """Consecutive pieces of a flat array; running past its end, or stopping short of it, is an error."""

    def __init__(self, arrays: dict[str, np.ndarray], name: str):
        self.name, self.array, self.at = name, arrays.get(name, np.zeros(0, np.float32)).reshape(-1), 0

    def cut(self, *shape: int) -> np.ndarray:
        if any(not isinstance(n, int) or n < 0 for n in shape):
            raise InputError(f"{self.name}: a negative or broken size {shape}")
        count = math.prod(shape)
        if self.at + count > len(self.array):
            raise InputError(f"{self.name}: holds {len(self.array)} numbers, the header asks for more")
        self.at += count
        return self.array[self.at - count : self.at].reshape(shape)

    def end(self) -> None:
        if self.at != len(self.array):
            raise InputError(f"{self.name}: holds {len(self.array)} numbers, the header accounts for {self.at}")


class _Matrices:
    """Matrices one after the other, each among numbers of its own kind: 32 bits, 16 bits, or bytes with one number per row."""

    def __init__(self, name: str, storage: str):
        self._name, self._storage = name, storage
        self.values: list[np.ndarray] = []
        self._halves: list[np.ndarray] = []
        self._bytes: list[np.ndarray] = []
        self._scales: list[np.ndarray] = []

    def put(self, matrix: np.ndarray, exact: bool = False) -> bool:
        """Whether it is in bytes. exact: never in fewer than 32 bits."""
        if exact or self._storage == "float32":
            self.values.append(matrix.reshape(-1))
            return False
        found = bytes_of(matrix) if self._storage == "int8" else None
        if found is None:
            self._halves.append(matrix.reshape(-1).astype(np.float16))
            return False
        self._bytes.append(found[0].reshape(-1))
        self._scales.append(found[1])
        return True

    def arrays(self) -> dict[str, np.ndarray]:
        kinds = {"values": self.values, "half": self._halves, "bytes": self._bytes, "scales": self._scales}
        return {f"{self._name}.{kind}": np.concatenate(pieces) for kind, pieces in kinds.items() if pieces}


class _MatrixCuts:
    """The reader's side of `_Matrices`."""

    def __init__(self, arrays: dict[str, np.ndarray], name: str, storage: str):
        self._storage = storage
        self.values, self._halves, self._bytes, self._scales = (_Cuts(arrays, f"{name}.{kind}") for kind in ("values", "half", "bytes", "scales"))

    def cut(self, rows: int, columns: int, in_bytes: bool, exact: bool = False) -> np.ndarray:
        if exact or self._storage == "float32":
            return self.values.cut(rows, columns)
        if not in_bytes:
            return self._halves.cut(rows, columns)
        return self._bytes.cut(rows, columns).astype(np.float32) * self._scales.cut(rows)[:, None]

    def end(self) -> None:
        for cuts in (self.values, self._halves, self._bytes, self._scales):
            cuts.end()


def _in_bytes(entry: dict[str, Any], storage: str, count: int | None = None):
    """What a net's or basis' entry says about bytes; [False] * count, or False, where there are none."""
    if storage != "int8":
        return False if count is None else [False] * count
    said = entry["bytes"]
    answers = [said] if count is None else said
    if not isinstance(answers, list) or len(answers) != (count or 1) or not all(isinstance(answer, bool) for answer in answers):
        raise InputError(f"bytes: expected {'true or false' if count is None else f'{count} of them'}, got {said!r}")
    return said


def _read_nets(arrays: dict[str, np.ndarray], entries: list[dict[str, Any]], storage: str) -> tuple[Net, ...]:
    inputs, outputs, matrices = *(_Cuts(arrays, f"nets.{name}") for name in ("inputs", "outputs")), _MatrixCuts(arrays, "nets", storage)
    nets = []
    for entry in entries:
        sizes = entry["sizes"]
        if not isinstance(sizes, list) or len(sizes) < 2:
            raise InputError(f"net {len(nets)}: expected at least two layer sizes, got {sizes!r}")
        # Centres of radial functions are never stored in fewer bits; see `understudy.precision`.
        exact, in_bytes = entry["activation"] == "rbf", _in_bytes(entry, storage, len(sizes) - 1)
        pairs = [(matrices.cut(wide, narrow, byte, exact), matrices.values.cut(wide)) for narrow, wide, byte in zip(sizes, sizes[1:], in_bytes)]
        weights, biases = zip(*pairs) if pairs else ((), ())
        nets.append(Net(inputs.cut(sizes[0]), weights, biases, outputs.cut(sizes[-1]), entry["activation"]))
    for cuts in (inputs, outputs, matrices):
        cuts.end()
    return tuple(nets)


def _read_bases(arrays: dict[str, np.ndarray], entries: list[dict[str, Any]], storage: str) -> tuple[Basis, ...]:
    vertices, coefficients = (_Cuts(arrays, f"bases.{name}") for name in ("vertices", "coefficients"))
    matrices = _MatrixCuts(arrays, "bases", storage)
    bases = []
    for entry in entries:
        count, components, shared = entry["vertices"], entry["components"], entry["shared"]
        matrix = matrices.cut(count if shared else 3 * count, components, _in_bytes(entry, storage))
        bases.append(Basis(vertices.cut(count), matrix, coefficients.cut(*((3, components) if shared else (components,)))))
    for cuts in (vertices, coefficients, matrices):
        cuts.end()
    return tuple(bases)

"""The `.understudy` file: one safetensors file, arrays plus one JSON header. No pickle, no code.

Every array of a `Deformer` has a dotted name. Ragged lists (nets, bases) are concatenated, with
their sizes in the header. The header is the value of the single safetensors metadata key
`understudy`; with several keys, their order would vary from run to run.

A deformer in 16 bits keeps the weights of nets and bases, and all biases except those of first
layers, in `nets.half` and `bases.half`. Its other arrays use the narrowest type that holds them:
indices have 8 or 16 bits, or are stored as differences (`.steps`); numbers on a grid (see
`understudy.core.storage`) have 16 bits, with the grid's lows and steps beside them (`.grid`).

The reader does not trust the file. Magic, version, sizes, indices and finiteness are checked by the
same constructors that methods use, and a file is loaded whole or not at all. The same deformer
always gives the same bytes.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as unpack
from safetensors.numpy import save as pack

from understudy.core import checks
from understudy.core.clip import Clip
from understudy.core.controls import ControlSpec
from understudy.core.deformer import STORAGES, Deformer
from understudy.core.errors import FileError, InputError
from understudy.core.features import Features
from understudy.core.mesh import Mesh
from understudy.core.networks import Basis, Net
from understudy.core.services import SERVICES
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.core.storage import from_grid, grid_of, is_half
from understudy.io.atomic_write import atomic_write

# 2 added storage in 16 bits, 3 in 8 bits (no longer read), 4 narrow arrays; float32 is written as
# version 1, for older readers.
FORMAT_VERSION = 4
_FIRST_HALF, _FIRST_NARROW = 2, 4
_ON_GRIDS = ("mesh.vertices", "mesh.corner_uvs", "mesh.corner_normals", "mean", "skin.weight")
SUFFIX = ".understudy"
# A header longer than this is not one of ours; the limit keeps a forged length from being
# allocated.
_MAX_HEADER = 64 << 20


def save(deformer: Deformer, path: str | Path) -> None:
    """Write `deformer` to `path`, whole or not at all."""
    data = to_bytes(deformer)
    with atomic_write(path) as part:
        part.write_bytes(data)


def to_bytes(deformer: Deformer) -> bytes:
    """The whole file in memory."""
    arrays, header = _to_arrays(deformer)
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return pack(arrays, metadata={"understudy": text})


def load(path: str | Path) -> Deformer:
    """Read a deformer, or raise `FileError` that says what is wrong with the file."""
    path = Path(path)
    data = _read_bytes(path)
    try:
        header = json.loads(_metadata(data).get("understudy", "null"))
        if header is None:
            raise FileError(
                f"{path}: a safetensors file, but not an understudy deformer (no understudy header)"
            )
        version = header.get("format_version") if isinstance(header, dict) else None
        if not isinstance(version, int) or version < 1:
            raise FileError(f"{path}: the header has no valid format version (found {version!r})")
        if version > FORMAT_VERSION:
            raise FileError(
                f"{path}: written by a newer understudy (format {version}, this one reads up to "
                f"{FORMAT_VERSION}); upgrade understudy to read it"
            )
        if header.get("storage") == "int8":
            raise FileError(
                f"{path}: stored in 8 bits, which understudy no longer reads; export the original "
                f"again, with --half for 16 bits"
            )
        deformer = _from_arrays(unpack(data), header)
    except FileError:
        raise
    except (
        SafetensorError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as problem:  # InputError is a ValueError
        what = f"{problem.args[0]!r} is missing" if isinstance(problem, KeyError) else str(problem)
        raise FileError(f"{path}: damaged or truncated understudy file: {what}") from problem
    # The compiled runtime parses these bytes, so a loaded deformer is not serialised to be played.
    object.__setattr__(deformer, "file_bytes", data)
    return deformer


def _metadata(data: bytes) -> dict[str, str]:
    """The safetensors metadata: what `safetensors.numpy.load` leaves out."""
    metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__")
    return metadata if isinstance(metadata, dict) else {}


def _read_bytes(path: Path) -> bytes:
    """The whole file. Missing, empty, or not a safetensors file at all: say so before any parser
    sees it.
    """
    try:
        with open(path, "rb") as opened:
            start = opened.read(9)
            size = os.fstat(opened.fileno()).st_size
            length = int.from_bytes(start[:8], "little")
            if len(start) < 9 or start[8:9] != b"{" or length > _MAX_HEADER:
                raise FileError(
                    f"{path}: not an understudy file (expected one made by `understudy fit`)"
                )
            if 8 + length > size:
                raise FileError(
                    f"{path}: truncated: the file ends after {size} bytes, inside its own header"
                )
            # Read, not mapped: a mapped file that shrinks while it is used ends the process.
            return start + opened.read()
    except FileNotFoundError:
        raise FileError(f"{path}: no such file") from None
    except OSError as problem:
        raise FileError(f"{path}: cannot be read: {problem.strerror or problem}") from problem


def _to_arrays(deformer: Deformer) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    mesh, skeleton, spec, skin = (
        deformer.mesh,
        deformer.skeleton,
        deformer.control_spec,
        deformer.skin,
    )
    arrays: dict[str, np.ndarray | None] = {
        "mesh.vertices": mesh.vertices,
        "mesh.polygon_sizes": mesh.polygon_sizes,
        "mesh.polygon_vertices": mesh.polygon_vertices,
        "mesh.corner_uvs": mesh.corner_uvs,
        "mesh.corner_normals": mesh.corner_normals,
        "mesh.polygon_material": mesh.polygon_material,
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
        "nets": [{"activation": net.activation, "sizes": [len(net.inputs), *map(len,
        net.biases)]} for net in deformer.nets],
        "bases": [{"vertices": len(b.vertices), "components": int(b.coefficients.shape[-1]),
        "shared": b.shared} for b in deformer.bases],
    }  # fmt: skip
    narrow = _is_narrow(deformer)
    if deformer.storage != "float32":
        header |= {
            "format_version": _FIRST_NARROW if narrow else _FIRST_HALF,
            "storage": deformer.storage,
        }
    if skeleton is not None:
        header["skeleton"] = {"names": list(skeleton.names)}
        arrays |= {
            "skeleton.parents": skeleton.parents,
            "skeleton.world_from_bone": skeleton.world_from_bone,
        }
    if spec is not None:
        header["controls"] = {"names": list(spec.names), "units": list(spec.units)}
        arrays |= {
            f"controls.{name}": getattr(spec, name)
            for name in ("low", "high", "rest", "limit_low", "limit_high", "numeric")
        }
    if skin is not None:
        header["skin"] = {"blend": skin.blend}
        arrays |= {
            f"skin.{name}": getattr(skin, name)
            for name in ("bone_index", "weight", "virtual_index", "virtual_weight")
        }
    if deformer.clips:
        header["clips"] = [
            {"name": clip.name, "frame_rate": clip.frame_rate, "start_frame": clip.start_frame}
            for clip in deformer.clips
        ]
        arrays |= {
            f"clip.{number}.world_from_bone": clip.world_from_bone
            for number, clip in enumerate(deformer.clips)
        }
    if deformer.nets:
        arrays["nets.inputs"] = np.concatenate([net.inputs for net in deformer.nets])
        arrays["nets.outputs"] = np.concatenate([net.outputs for net in deformer.nets])
        matrices = _Matrices("nets", deformer.storage)
        for net in deformer.nets:
            for layer, (weight, bias) in enumerate(zip(net.weights, net.biases)):
                matrices.put(weight, exact=net.activation == "rbf")
                matrices.put_bias(bias, half=narrow and layer > 0 and net.activation != "rbf")
        arrays |= matrices.arrays()
    if deformer.bases:
        arrays["bases.vertices"] = np.concatenate([basis.vertices for basis in deformer.bases])
        arrays["bases.coefficients"] = np.concatenate(
            [basis.coefficients.reshape(-1) for basis in deformer.bases]
        )
        matrices = _Matrices("bases", deformer.storage)
        for basis in deformer.bases:
            matrices.put(basis.matrix)
        arrays |= matrices.arrays()
    given = {
        name: np.ascontiguousarray(array) for name, array in arrays.items() if array is not None
    }
    return _narrowed(given) if narrow else given, header


def _is_narrow(deformer: Deformer) -> bool:
    """Whether its file is one of narrow arrays. What an older version put in 16 bits is not: its
    biases are of 32.
    """
    later = (bias for net in deformer.nets if net.activation != "rbf" for bias in net.biases[1:])
    return deformer.storage != "float32" and all(map(is_half, later))


def _narrowed(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Indices and numbers on grids in the fewest bits that hold them; other arrays as they are."""
    result = {}
    for name, array in arrays.items():
        found = (
            grid_of(array.reshape(-1, 1) if name == "skin.weight" else array)
            if name in _ON_GRIDS
            else None
        )
        if found is not None:
            result |= {name: found[0].reshape(array.shape), f"{name}.grid": found[1]}
        elif array.dtype == np.int32:
            result |= _narrow_integers(name, array)
        else:
            result[name] = array
    return result


def _narrow_integers(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    flat = values.reshape(-1).astype(np.int64)
    steps = np.diff(flat, prepend=0)
    for bits in (8, 16):
        for numbers, kind, to in (
            (flat, f"uint{bits}", name),
            (steps, f"int{bits}", f"{name}.steps"),
        ):
            if not numbers.size or (
                numbers.min() >= np.iinfo(kind).min and numbers.max() <= np.iinfo(kind).max
            ):
                return {to: numbers.astype(kind).reshape(values.shape)}
    return {name: values}


def _widened(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The reader's side of `_narrowed`."""
    result = dict(arrays)
    for name in sorted(arrays):
        of, _, what = name.rpartition(".")
        if what == "steps":
            if of in arrays:
                raise InputError(f"{of}: stands there twice, as numbers and as steps")
            numbers = np.cumsum(
                checks.kind_of(result.pop(name), name, "i"), dtype=np.int64
            ).reshape(arrays[name].shape)
            result[of] = checks.within(numbers, name, np.int32)
        elif what == "grid":
            numbers, grid = (
                arrays[of],
                checks.array(checks.kind_of(result.pop(name), name, "f"), name, (2, None)),
            )
            if (
                numbers.dtype != np.uint16
                or not numbers.ndim
                or grid.shape[1] not in (1, numbers.shape[-1])
            ):
                raise InputError(f"{name}: does not fit {of}")
            result[of] = from_grid(numbers, grid)
    for name in filter(result.__contains__, _ON_GRIDS):
        checks.kind_of(result[name], name, "f")  # not numbers whose grid is missing
    return result


def _from_arrays(arrays: dict[str, np.ndarray], header: dict[str, Any]) -> Deformer:
    arrays = _widened(arrays)
    get = arrays.get
    about = header["mesh"]
    for name, kind in (
        ("method", str),
        ("training", dict),
        ("provenance", dict),
        ("nets", list),
        ("bases", list),
    ):
        if not isinstance(header[name], kind):
            raise InputError(
                f"the header's {name} is a {type(header[name]).__name__}, expected a "
                f"{kind.__name__}"
            )
    mesh = Mesh(
        arrays["mesh.vertices"],
        arrays["mesh.polygon_sizes"],
        arrays["mesh.polygon_vertices"],
        corner_uvs=get("mesh.corner_uvs"),
        corner_normals=get("mesh.corner_normals"),
        materials=tuple(about["materials"]),
        polygon_material=get("mesh.polygon_material"),
        parts={name: arrays[f"mesh.part.{number}"] for number, name in enumerate(about["parts"])},
        unit=about["unit"],
        up_axis=about["up_axis"],
        handedness=about["handedness"],
    )
    storage = checks.one_of(header.get("storage", "float32"), "storage", STORAGES)
    skeleton = spec = skin = None
    if "skeleton" in header:
        skeleton = Skeleton(
            tuple(header["skeleton"]["names"]),
            arrays["skeleton.parents"],
            arrays["skeleton.world_from_bone"],
        )
    if "controls" in header:
        fields = {
            name: arrays[f"controls.{name}"]
            for name in ("low", "high", "rest", "limit_low", "limit_high", "numeric")
        }
        spec = ControlSpec(
            tuple(header["controls"]["names"]), units=tuple(header["controls"]["units"]), **fields
        )
    if "skin" in header:
        virtual = {name: get(f"skin.{name}") for name in ("virtual_index", "virtual_weight")}
        skin = Skin(
            arrays["skin.bone_index"], arrays["skin.weight"], header["skin"]["blend"], **virtual
        )
    return Deformer(
        mesh=mesh,
        skeleton=skeleton,
        control_spec=spec,
        skin=skin,
        features=Features(
            arrays["features.columns"], arrays["features.low"], arrays["features.high"]
        ),
        nets=_read_nets(
            arrays,
            header["nets"],
            storage,
            half_biases=storage != "float32" and header["format_version"] >= _FIRST_NARROW,
        ),
        bases=_read_bases(arrays, header["bases"], storage),
        mean=get("mean"),
        method=header["method"],
        training=header["training"],
        provenance=header["provenance"],
        clips=tuple(
            Clip(
                entry["name"],
                arrays[f"clip.{number}.world_from_bone"],
                entry["frame_rate"],
                entry["start_frame"],
            )
            for number, entry in enumerate(header.get("clips", ()))
        ),
        storage=storage,
    )


class _Cuts:
    """Consecutive pieces of a flat array; running past its end, or stopping short of it, is an
    error.
    """

    def __init__(self, arrays: dict[str, np.ndarray], name: str):
        self.name, self.array, self.at = (
            name,
            arrays.get(name, np.zeros(0, np.float32)).reshape(-1),
            0,
        )

    def cut(self, *shape: int) -> np.ndarray:
        if any(not isinstance(n, int) or n < 0 for n in shape):
            raise InputError(f"{self.name}: a negative or broken size {shape}")
        count = math.prod(shape)
        if self.at + count > len(self.array):
            raise InputError(
                f"{self.name}: holds {len(self.array)} numbers, the header asks for more"
            )
        self.at += count
        return self.array[self.at - count : self.at].reshape(shape)

    def end(self) -> None:
        if self.at != len(self.array):
            raise InputError(
                f"{self.name}: holds {len(self.array)} numbers, the header accounts for {self.at}"
            )


class _Matrices:
    """Matrices one after the other, each among numbers of its own kind: 32 or 16 bits."""

    def __init__(self, name: str, storage: str):
        self._name, self._storage = name, storage
        self._values: list[np.ndarray] = []
        self._halves: list[np.ndarray] = []

    def put(self, matrix: np.ndarray, exact: bool = False) -> None:
        """exact: never in fewer than 32 bits."""
        if exact or self._storage == "float32":
            self._values.append(matrix.reshape(-1))
        else:
            self._halves.append(matrix.reshape(-1).astype(np.float16))

    def put_bias(self, bias: np.ndarray, half: bool) -> None:
        (self._halves if half else self._values).append(bias.astype(np.float16) if half else bias)

    def arrays(self) -> dict[str, np.ndarray]:
        kinds = {"values": self._values, "half": self._halves}
        return {
            f"{self._name}.{kind}": np.concatenate(pieces)
            for kind, pieces in kinds.items()
            if pieces
        }


class _MatrixCuts:
    """The reader's side of `_Matrices`."""

    def __init__(self, arrays: dict[str, np.ndarray], name: str, storage: str):
        self._storage = storage
        self._values, self._halves = (
            _Cuts(arrays, f"{name}.{kind}") for kind in ("values", "half")
        )

    def cut(self, rows: int, columns: int, exact: bool = False) -> np.ndarray:
        return (self._values if exact or self._storage == "float32" else self._halves).cut(
            rows, columns
        )

    def cut_bias(self, rows: int, half: bool) -> np.ndarray:
        return (self._halves if half else self._values).cut(rows)

    def end(self) -> None:
        self._values.end()
        self._halves.end()


def _read_nets(
    arrays: dict[str, np.ndarray], entries: list[dict[str, Any]], storage: str, half_biases: bool
) -> tuple[Net, ...]:
    inputs, outputs, matrices = (
        *(_Cuts(arrays, f"nets.{name}") for name in ("inputs", "outputs")),
        _MatrixCuts(arrays, "nets", storage),
    )
    nets = []
    for entry in entries:
        sizes = entry["sizes"]
        if not isinstance(sizes, list) or len(sizes) < 2:
            raise InputError(f"net {len(nets)}: expected at least two layer sizes, got {sizes!r}")
        # Centres of radial functions are never stored in fewer bits; see
        # `understudy.runtime.half_precision`.
        exact = entry["activation"] == "rbf"
        weights, biases = [], []
        for layer, (narrow, wide) in enumerate(zip(sizes, sizes[1:])):
            weights.append(matrices.cut(wide, narrow, exact))
            biases.append(matrices.cut_bias(wide, half_biases and layer > 0 and not exact))
        nets.append(
            Net(
                inputs.cut(sizes[0]),
                tuple(weights),
                tuple(biases),
                outputs.cut(sizes[-1]),
                entry["activation"],
            )
        )
    for cuts in (inputs, outputs, matrices):
        cuts.end()
    return tuple(nets)


def _read_bases(
    arrays: dict[str, np.ndarray], entries: list[dict[str, Any]], storage: str
) -> tuple[Basis, ...]:
    vertices, coefficients = (
        _Cuts(arrays, f"bases.{name}") for name in ("vertices", "coefficients")
    )
    matrices = _MatrixCuts(arrays, "bases", storage)
    bases = []
    for entry in entries:
        count, components, shared = entry["vertices"], entry["components"], entry["shared"]
        matrix = matrices.cut(count if shared else 3 * count, components)
        bases.append(
            Basis(
                vertices.cut(count),
                matrix,
                coefficients.cut(*((3, components) if shared else (components,))),
            )
        )
    for cuts in (vertices, coefficients, matrices):
        cuts.end()
    return tuple(bases)


SERVICES.save = save
SERVICES.load = load

"""What a golden fit came to: the hash of its arrays, and figures that bear another machine."""

import importlib.metadata
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl
from golden.cases import CASES, Sources
from safetensors.numpy import load

from understudy import Deformer, Poses
from understudy.core.noun import fingerprint
from understudy.evaluation.machine import describe
from understudy.io.understudy import entries_of, to_bytes
from understudy.system import threads

FILE = Path(__file__).with_name("results.json")
# How far figures may be from those of another machine, whose additions have another order: a share,
# and for errors as much of the height as rounding makes.
_SHARES = {"mean": 0.1, "max": 0.3, "bytes": 0.05}
_ROUNDING = 1e-5


def machine() -> dict[str, str]:
    """What decides the last bits of a result."""
    import torch  # the largest import: not for those who list the cases

    versions = ("numpy", "scipy", "torch")
    kernels = {
        pool["architecture"] for pool in threadpoolctl.threadpool_info() if pool.get("architecture")
    }
    return {
        "cpu": str(describe()["cpu"]),
        "BLAS kernels": ", ".join(sorted(kernels)),
        "torch kernels": torch.backends.cpu.get_cpu_capability(),
        **{name: importlib.metadata.version(name) for name in versions},
    }


def results(names: Iterable[str] = CASES) -> Iterator[tuple[str, dict[str, object]]]:
    """Each case by name with its result."""
    sources = Sources()
    for name in names:
        yield name, result(name, sources)


def result(name: str, sources: Sources) -> dict[str, object]:
    """The result of a case, on one thread: of several, torch adds in another order."""
    with threads.using(1):
        return _figures(*CASES[name](sources))


def _figures(deformer: Deformer, poses: Poses) -> dict[str, object]:
    moved = (
        deformer.deform_reference(deformer.clips[0].world_from_bone)
        if deformer.clips
        else deformer.deform_reference(poses.world_from_bone, poses.controls)
    )
    away = np.linalg.norm(moved - poses.vertices, axis=2) / poses.mesh.height
    return {
        "hash": fingerprint(_hashed(deformer)),
        "mean": float(f"{away.mean(dtype=np.float64):.4g}"),
        "max": float(f"{away.max():.4g}"),
        "bytes": sum(array.nbytes for array in load(to_bytes(deformer)).values()),
        "bones": deformer.bone_count,
        "nets": len(deformer.nets),
        "bases": len(deformer.bases),
        "storage": deformer.storage,
    }


def differences(found: dict[str, object], recorded: dict[str, object], hashes: bool) -> list[str]:
    """What differs between two results of a case; without hashes, by more than machines do."""
    if hashes:
        return [f"{n}: {recorded[n]} -> {found[n]}" for n in recorded if found[n] != recorded[n]]
    return [
        f"{name}: {value} -> {found[name]}"
        for name, value in recorded.items()
        if name != "hash" and not _close(name, found[name], value)
    ]


def _close(name: str, found: object, recorded: object) -> bool:
    share = _SHARES.get(name)
    if share is None:
        return found == recorded
    return found == pytest.approx(recorded, rel=share, abs=_ROUNDING)


def _hashed(deformer: Deformer) -> dict[str, object]:
    """What a deformer consists of, by the names of the form, but for figures and provenance.

    A new entry of the form changes no hash of a deformer without it.
    """
    left_out = ("training", "provenance")
    return {
        name: value for name, value in sorted(entries_of(deformer).items()) if name not in left_out
    }

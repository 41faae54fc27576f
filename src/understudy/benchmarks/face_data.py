"""The cases of `bench face`: what is learned from, and what is measured on.

face        5,000 random poses of the built-in rig; measured on its own speech and expressions
blenrig     a production rig sampled by others: 80 % of the rows to learn from, the rest to measure
            on (a fixed split by seed)
facecap     52 linear shapes: random weights to learn from, a real face capture to measure on
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.errors import FileError
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.progress import Progress
from understudy.rigs import animate, load_rig
from understudy.rigs import parallel_sampling as farm
from understudy.rigs.base import Rig
from understudy.rigs.sampling import SamplePlan, gaussian

LEARNED_SHARE = 0.8
CASES = ("face/speech", "face/expressions", "blenrig", "facecap")


@dataclass(frozen=True, eq=False)
class Subject:
    """Something to learn: poses, the live rig where there is one, and test poses by case name."""

    name: str
    sample: Poses
    rig: Rig | None
    tests: dict[str, Callable[[], Poses]]


def face_subject(poses: int, seed: int, store: Path, progress: Progress) -> Subject:
    rig = load_rig("face")
    sample = farm.sample_poses("face", SamplePlan(poses, seed=seed), store, progress=progress)
    tests = {
        f"face/{name}": (lambda name=name: replace(animate(rig, name), name=f"face/{name}"))
        for name in rig.animation_names
    }
    return Subject("face", sample, rig, tests)


def read_blenrig(path: Path) -> Poses:
    """Every row of the sampled production rig, in metres."""
    data = _read(path)
    mesh = Mesh.from_faces(data["rest"], data["faces"], unit="m", up_axis="Z")
    spec = ControlSpec(
        tuple(str(name) for name in data["control_names"]), data["control_min"], data["control_max"]
    )
    return Poses(
        mesh, data["vertices"], control_spec=spec, controls=data["controls"], name="blenrig"
    )


def blenrig_subject(path: Path, seed: int, share: float = 1.0) -> Subject:
    """share: of the rows to learn from, those used."""
    rows = read_blenrig(path)
    learn, test = split_rows(rows.pose_count, seed)
    return Subject(
        "blenrig",
        rows.take(learn[: max(1, round(share * len(learn)))]),
        None,
        {"blenrig": lambda: rows.take(test)},
    )


def split_rows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers to learn from and to measure on, each increasing; the same for the same seed."""
    order = np.random.default_rng(seed).permutation(count)
    kept = round(LEARNED_SHARE * count)
    return np.sort(order[:kept]), np.sort(order[kept:])


def facecap_subject(path: Path, poses: int, seed: int) -> Subject:
    data = _read(path)
    mesh = Mesh.from_faces(data["rest"], data["faces"], unit="unitless")
    count = len(data["blendshape_names"])
    spec = ControlSpec(
        tuple(str(name) for name in data["blendshape_names"]), np.zeros(count), np.ones(count)
    )
    pose = lambda weights, name: Poses(
        mesh,
        mesh.vertices + np.tensordot(weights.astype(np.float32), data["blendshape_deltas"], 1),
        control_spec=spec,
        controls=weights,
        name=name,
    )
    return Subject(
        "facecap",
        pose(gaussian(spec, poses, seed), "facecap"),
        None,
        {"facecap": lambda: pose(data["anim_weights"], "facecap")},
    )


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError) as problem:
        raise FileError(f"{path}: cannot be read ({problem})") from problem

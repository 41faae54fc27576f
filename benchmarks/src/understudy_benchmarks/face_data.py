"""The subjects of `bench face`: what methods are fitted to, and what they are measured on.

face     random poses of the built-in rig; measured on 200 other random poses, which is the protocol
         of the differential paper (section 4), and on the rig's own speech and expressions
blenrig  a production rig sampled by others; 80 % of the rows to fit, the rest to measure on (the
         seed determines the split)
facecap  52 linear shapes; random weights to fit, a real face capture to measure on
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.rigs import animate
from understudy.rigs.base import Rig
from understudy.rigs.sampling import SamplePlan, gaussian
from understudy.system.errors import FileError
from understudy.system.progress import Progress
from understudy_benchmarks.samples import sampled
from understudy_characters.face import FaceRig

_TRAINING_FRACTION = 0.8
_TEST_POSES = 200
_TEST_SEED = 10**6  # added to the seed of the sample
CASES = ("face/random", "face/speech", "face/expressions", "blenrig", "facecap")


@dataclass(frozen=True, eq=False)
class Subject:
    """A sample of poses and the animations to measure on.

    sample  the training poses
    rig     the live rig, or None
    tests   case -> function that returns its poses
    """

    name: str
    sample: Poses
    rig: Rig | None
    tests: Mapping[str, Callable[[], Poses]]


def face_subject(poses: int, seed: int, store: Path, progress: Progress) -> Subject:
    """The built-in face; its sample of `poses` random poses is kept in a store."""
    rig = FaceRig()
    sample = sampled(FaceRig, SamplePlan(poses, seed=seed), store, progress)
    tests: dict[str, Callable[[], Poses]] = {"face/random": partial(_unseen, rig, seed)}
    tests |= {f"face/{name}": partial(_animation, rig, name) for name in rig.animation_names}
    return Subject("face", sample, rig, tests)


def _unseen(rig: FaceRig, seed: int) -> Poses:
    """Random poses that no sample contains."""
    values = gaussian(rig.controls, _TEST_POSES, seed + _TEST_SEED)
    return replace(rig.evaluate(values), name="face/random")


def _animation(rig: FaceRig, name: str) -> Poses:
    return replace(animate(rig, name), name=f"face/{name}")


def read_blenrig(path: Path) -> Poses:
    """All rows of the sampled production rig, in metres."""
    data = _read(path)
    mesh = Mesh.from_faces(data["rest"], data["faces"], unit="m", up_axis="Z")
    spec = ControlSpec(
        tuple(str(name) for name in data["control_names"]), data["control_min"], data["control_max"]
    )
    return Poses(
        mesh, data["vertices"], control_spec=spec, controls=data["controls"], name="blenrig"
    )


def blenrig_subject(path: Path, seed: int, fraction: float = 1.0) -> Subject:
    """The sampled production rig; `fraction` of its training rows are used."""
    rows = read_blenrig(path)
    training, test = split_rows(rows.pose_count, seed)
    return Subject(
        "blenrig",
        rows.take(training[: max(1, round(fraction * len(training)))]),
        None,
        {"blenrig": lambda: rows.take(test)},
    )


def split_rows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers for training and for testing, each increasing; the seed determines the split."""
    order = np.random.default_rng(seed).permutation(count)
    kept = round(_TRAINING_FRACTION * count)
    return np.sort(order[:kept]), np.sort(order[kept:])


def facecap_subject(path: Path, poses: int, seed: int) -> Subject:
    """The linear face capture, with a sample of `poses` random weights."""
    data = _read(path)
    mesh = Mesh.from_faces(data["rest"], data["faces"], unit="unitless")
    count = len(data["blendshape_names"])
    names = tuple(str(name) for name in data["blendshape_names"])
    spec = ControlSpec(names, np.zeros(count), np.ones(count))

    def blended(weights: np.ndarray) -> Poses:
        moved = np.tensordot(weights.astype(np.float32), data["blendshape_deltas"], 1)
        return Poses(
            mesh, mesh.vertices + moved, control_spec=spec, controls=weights, name="facecap"
        )

    sample = blended(gaussian(spec, poses, seed))
    return Subject("facecap", sample, None, {"facecap": lambda: blended(data["anim_weights"])})


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError) as problem:
        raise FileError(f"{path}: cannot be read ({problem})") from problem

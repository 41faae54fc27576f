"""Print which joints of rigs are found, by what moves at them.

    python benchmarks/rig_joints.py DATA           from the rig's own bones and weights
    python benchmarks/rig_joints.py DATA FOLDER    in the skeletons in FOLDER

DATA is the data folder above corpus/, FOLDER what `bench temporal --out` named. Without FOLDER,
`local_skeleton` joins the rig's own bones in the middle animation of every character of the
families that `bench temporal` tests on: joints that are missing then are not missing because of the
bones that `temporal` finds.

A joint is found if one of ours is within 5 % of the size. Its kind says what can be known of it:

    turning  its bone turns about it against its parent
    sliding  its bone is also moved along: by more than 0.1 % of the size, root mean square
    still    its bone hardly moves against its parent
    root     its bone has no parent that moves vertices
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from understudy.core.deformer import Deformer
from understudy.geometry.transforms import compose
from understudy.methods.decomposition.bones.locality import connections
from understudy.methods.decomposition.bones.patch_search import LocalBones
from understudy.methods.decomposition.skeleton.local_skeleton import join_local_bones
from understudy.methods.decomposition.solve.motion import Fit, read_motion, with_exact_errors
from understudy.system import tasks
from understudy_benchmarks.trajectory_training.corpus import (
    HELD_OUT,
    Character,
    corpus_files,
    family_of,
    read_characters,
)

FOUND = 0.05  # of the size
SLIDES, TURNS = 1e-3, np.radians(0.5)  # of the size; root mean square angle
SAME = 2e-3  # of the size: bones whose transforms differ by less count as one
KINDS = ("turning", "sliding", "still", "root")


def own_joints(character: Character) -> np.ndarray:
    """Return the joints (B-1,3) between the bones of the rig, as `local_skeleton` places them."""
    rig = character.with_merged_bones()
    motion, normalisation = read_motion(character.poses())
    order = normalisation.order
    weights = rig.weights[order].astype(np.float64)
    patch = np.argmax(weights, axis=1)
    for bone in np.setdiff1d(np.arange(rig.bones), patch):  # never the largest weight of a vertex
        patch[np.argmax(weights[:, bone])] = bone
    places = int((weights > 0).sum(axis=1).max())
    index = np.argsort(-weights, axis=1, kind="stable")[:, :places].astype(np.int32)
    weight = np.ascontiguousarray(np.take_along_axis(weights, index, axis=1))
    transforms = np.ascontiguousarray(normalisation.from_world(rig.transforms))
    fit = with_exact_errors(motion, Fit(transforms, index, weight, motion.square))
    triangles = np.argsort(order)[character.mesh.triangles]
    bones = LocalBones(fit, patch, connections(motion.rest[:, :3], triangles), reach=rig.bones)
    with tasks.one_blas_thread():
        joined = join_local_bones(motion, bones, triangles)
    joints = np.delete(joined.joints, joined.tree.root, axis=0)
    return normalisation.scale * joints + normalisation.centre


def kinds(file: Path, number: int, rig: Character) -> list[str]:
    """Return the kind of each joint of a rig with merged bones, in animation `number` of a file."""
    assert rig.joints is not None
    with np.load(file, allow_pickle=False) as data:
        bind = data["inverse_bind"].astype(np.float64)
        every = compose(data[f"anim_{number:02d}"].astype(np.float64), bind[:, :3])
        above = data["parents"]
    places, size = np.linalg.inv(bind)[:, :3, 3], size_of(rig)
    apart = lambda one, two: float(np.abs(one - two).max()) / size
    result = []
    for bone in range(rig.bones):
        here = np.flatnonzero(np.linalg.norm(places - rig.joints[bone], axis=1) < 1e-6 * size)
        joint = min(here, key=lambda one: apart(every[:, one], rig.transforms[:, bone]))
        others = np.delete(np.arange(rig.bones), bone)
        parent = int(above[joint])
        while parent >= 0 and not any(
            apart(every[:, parent], rig.transforms[:, other]) < SAME for other in others
        ):
            parent = int(above[parent])
        if parent < 0:
            result.append("root")
            continue
        change = rig.transforms[:, bone] - every[:, parent]
        moved = change[..., :3] @ rig.joints[bone] + change[..., 3]
        slides = float(np.sqrt((moved**2).sum(axis=1).mean())) / size
        turns = float(np.sqrt((change[..., :3] ** 2).sum(axis=(1, 2)).mean() / 2))
        kind = "turning" if turns >= TURNS else "still"
        result.append("sliding" if slides >= SLIDES else kind)
    return result


def size_of(rig: Character) -> float:
    """Return the diagonal of the bounding box."""
    return float(np.linalg.norm(np.ptp(rig.mesh.vertices, axis=0)))


def middle_animations(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the files of the families to test on, with the number of their middle animation."""
    for file in corpus_files(folder):
        if family_of(file)[1] in HELD_OUT:
            yield file, len(list(read_characters(file))) // 2


def fitted(folder: Path, out: Path) -> Iterator[tuple[Path, int, Path]]:
    """Yield the files and animations of which a skeleton is in `out`, and where it is."""
    for deformer in sorted(out.glob("corpus_*_temporal-skeleton.understudy")):
        name = deformer.name.removeprefix("corpus_").removesuffix("_temporal-skeleton.understudy")
        stem, _, number = name.rpartition("_")
        yield folder / "corpus" / f"{stem}.npz", int(number), deformer


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    cases: list[tuple[Path, int, Path | None]] = (
        [(*case, None) for case in middle_animations(folder)]
        if len(sys.argv) == 2
        else list(fitted(folder, Path(sys.argv[2])))
    )
    total, found = Counter[str](), Counter[str]()
    for file, number, deformer in cases:
        character = list(read_characters(file))[number]
        rig = character.with_merged_bones()
        assert rig.joints is not None
        if deformer is None:
            joints = own_joints(character)
        else:
            joints = Deformer.load(deformer).need_skin()[0].world_from_bone[:, :, 3]
        away = np.linalg.norm(rig.joints[:, None] - joints, axis=2).min(axis=1, initial=np.inf)
        near = away <= FOUND * size_of(rig)
        kind = kinds(file, number, rig)
        mine = Counter(one for one, is_near in zip(kind, near) if is_near)
        every = Counter(kind)
        total, found = total + every, found + mine
        parts = ", ".join(f"{mine[k]} of {every[k]} {k}" for k in KINDS if every[k])
        print(f"{character.name}: {100 * near.mean():.0f} % ({parts})", flush=True)
    print(
        f"all: {100 * sum(found.values()) / max(1, sum(total.values())):.1f} %, "
        + ", ".join(f"{found[k]} of {total[k]} {k}" for k in KINDS)
    )


if __name__ == "__main__":
    main()

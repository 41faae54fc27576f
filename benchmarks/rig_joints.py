"""Print how many joints `local_skeleton` finds if it is given the rig's own bones and weights.

    python benchmarks/rig_joints.py DATA

DATA is the data folder above corpus/. The middle animation of every character of the families that
`bench temporal` tests on is used. A joint is found if one of ours is within 5 % of the size. The
joints that are missing here are not missing because of the bones that `temporal` finds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from understudy.core import tasks
from understudy.methods.decomposition.fit import Fit, with_exact_errors
from understudy.methods.decomposition.locality import connections
from understudy.methods.decomposition.motion import read_motion
from understudy.methods.decomposition.patch_search import LocalBones
from understudy.methods.decomposition.skeletons.local_skeleton import join_local_bones
from understudy.methods.decomposition.trajectory_networks.corpus import (
    HELD_OUT,
    Character,
    corpus_files,
    family_of,
    read_characters,
)

FOUND = 0.05  # of the size


def joints_found(character: Character) -> float:
    """Return the share of the joints that are found with the bones of the rig."""
    rig = character.with_merged_bones()
    assert rig.joints is not None
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
    rest = motion.rest[:, :3]
    bones = LocalBones(fit, patch, connections(rest, triangles), reach=rig.bones)
    with tasks.one_blas_thread():
        joined = join_local_bones(motion, bones, triangles)
    joints = np.delete(joined.joints, joined.tree.root, axis=0)
    true = (rig.joints - normalisation.centre) / normalisation.scale
    away = np.linalg.norm(true[:, None] - joints, axis=2).min(axis=1, initial=np.inf)
    return float((away <= FOUND * np.linalg.norm(np.ptp(rest, axis=0))).mean())


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for file in corpus_files(Path(sys.argv[1])):
        if family_of(file)[1] in HELD_OUT:
            characters = list(read_characters(file))
            character = characters[len(characters) // 2]
            print(f"{character.name}: {100 * joints_found(character):.0f} %", flush=True)


if __name__ == "__main__":
    main()

"""Print the number of bones that `temporal` finds on the training families of the corpus.

    python benchmarks/bone_count_constants.py DATA

DATA is the data folder above corpus/. One animation of every character of the families that the
networks were trained on is used; families that `bench temporal` tests on are not read. The true
number of bones is that of the bones that move apart in the animation. The constants of
`methods/decomposition/bones/bone_count.py` for exact skinning were set with this table in view.
"""

from __future__ import annotations

import sys
from pathlib import Path

from understudy.methods.decomposition.bones.bone_count import find_bone_count, most_bones
from understudy.methods.decomposition.solve.motion import read_motion
from understudy.system import tasks
from understudy_benchmarks.trajectory_training.corpus import (
    HELD_OUT,
    corpus_files,
    family_of,
    read_characters,
)

INFLUENCES = 6


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for file in corpus_files(Path(sys.argv[1])):
        if family_of(file)[1] in HELD_OUT:
            continue
        characters = list(read_characters(file))
        character = characters[len(characters) // 2]
        motion, normalisation = read_motion(character.poses())
        with tasks.one_blas_thread():
            found = find_bone_count(motion, INFLUENCES, normalisation.rounding)
        true = character.with_merged_bones().bones
        print(
            f"{character.name}: {found.bones} bones for {true}, at most {most_bones(motion)}"
            f"{', exact' if found.exact else ''}",
            flush=True,
        )


if __name__ == "__main__":
    main()

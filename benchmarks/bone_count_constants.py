"""Set the constants of the bone count of `temporal` on the training families of the corpus.

    python benchmarks/bone_count_constants.py curves DATA curves.json   the error by number of bones
    python benchmarks/bone_count_constants.py fit curves.json           the best constants

DATA is the data folder above corpus/. One animation of every character of the families that the
networks were trained on is used; families that `bench temporal` tests on, and sequences, are not
read. The true number of bones is that of the bones that move apart in the animation.

`fit` minimises the mean of |ln(found / true)|, each family counting the same, over the constants
`_GAMMA`, `_EXACT`, `_INVISIBLE`, `_EXACT_SLOPE` and `_INVISIBLE_SLOPE` of
`methods/decomposition/bone_count.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from understudy.methods.decomposition import bone_count, kernels
from understudy.methods.decomposition.motion import read_motion
from understudy.methods.decomposition.trajectory_networks.corpus import (
    HELD_OUT,
    corpus_files,
    family_of,
    read_characters,
)

COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 17, 20, 24, 28, 32, 38, 45, 54, 64)
NAMES = ("_GAMMA", "_EXACT", "_INVISIBLE", "_EXACT_SLOPE", "_INVISIBLE_SLOPE")
INFLUENCES = 6
TRIES = 4000


def measure_curves(data: Path, out: Path) -> None:
    """Write the error by number of bones of one animation per training character."""
    done = json.loads(out.read_text()) if out.exists() else {}
    for file in corpus_files(data):
        family = family_of(file)[1]
        if family in HELD_OUT or file.stem in done:
            continue
        characters = list(read_characters(file))
        character = characters[len(characters) // 2]
        motion, normalisation = read_motion(character.poses())
        with kernels.own_threads():
            fits = bone_count.QuickFits(motion, INFLUENCES, normalisation.rounding)
            largest = min(bone_count.MAX_BONES, motion.vertex_count // 4)
            curve = {}
            for count in (c for c in COUNTS if c <= largest):
                curve[count] = fits.remaining(count)
                if curve[count] <= bone_count._ZERO:
                    break
        true = character.with_merged_bones().bones
        done[file.stem] = {"family": family, "true": true, "remaining": curve}
        print(file.stem, true, flush=True)
        out.write_text(json.dumps(done, indent=1))


def mean_error(curves: Mapping[str, Mapping], constants: Mapping[str, float]) -> float:
    """Return the mean over families of the mean |ln(found / true)| of their characters."""
    for name, value in constants.items():
        setattr(bone_count, name, value)
    by_family: dict[str, list[float]] = {}
    for one in curves.values():
        remaining = {int(count): share for count, share in one["remaining"].items()}
        found = bone_count.ErrorCurve(remaining).smoothed_best()
        by_family.setdefault(one["family"], []).append(abs(np.log(found / one["true"])))
    return float(np.mean([np.mean(errors) for errors in by_family.values()]))


def fit_constants(curves: Mapping[str, Mapping]) -> dict[str, float]:
    """Return the best constants of a seeded random search around the best so far."""
    random = np.random.default_rng(0)
    best = {name: getattr(bone_count, name) for name in NAMES}
    error = mean_error(curves, best)
    print(f"before: {error:.4f}", best)
    for number in range(TRIES):
        width = 0.5 if number % 2 else 0.1
        tried = {
            name: value * float(np.exp(width * random.normal())) for name, value in best.items()
        }
        if not tried["_INVISIBLE"] < tried["_EXACT"] < 0.02:
            continue
        now = mean_error(curves, tried)
        if now < error:
            best, error = tried, now
    print(f"after: {error:.4f}")
    return {name: float(f"{value:.3g}") for name, value in best.items()}


def main() -> None:
    if len(sys.argv) == 4 and sys.argv[1] == "curves":
        measure_curves(Path(sys.argv[2]), Path(sys.argv[3]))
    elif len(sys.argv) == 3 and sys.argv[1] == "fit":
        curves = json.loads(Path(sys.argv[2]).read_text())
        best = fit_constants(curves)
        print(best, f"rounded: {mean_error(curves, best):.4f}")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()

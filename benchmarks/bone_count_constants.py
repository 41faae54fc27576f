"""Fit constants of the bone count of `temporal` to the training families of the corpus.

    python benchmarks/bone_count_constants.py curves DATA curves.json   the error by number of bones
    python benchmarks/bone_count_constants.py fit curves.json           the best constants

DATA is the data folder above corpus/. One animation of every character of the families that the
networks were trained on is used; families that `bench temporal` tests on, and sequences, are not
read. The true number of bones is that of the bones that move apart in the animation. Linear blend
skinning can be reproduced exactly, captured motion cannot; so every third character is also
measured with dual quaternion skinning, under the name `<character>/dual_quaternion`.

`fit` looks for the fewest bones within a factor of 1.5 of the true number: it minimises the mean of
10 max(0, |r| - ln 1.5) + 0.1 max(r, -0.5) with r = ln(found / true), each family counting the same,
and linear skinning as much as dual quaternion skinning. It does so over the constants `_GAMMA`,
`_EXACT`, `_INVISIBLE`, `_EXACT_SLOPE` and `_INVISIBLE_SLOPE` of
`methods/decomposition/bone_count.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from understudy.core.poses import Poses
from understudy.geometry.skinning import dual_quaternion_blend
from understudy.methods.decomposition import bone_count, kernels
from understudy.methods.decomposition.motion import read_motion
from understudy.methods.decomposition.trajectory_networks.corpus import (
    HELD_OUT,
    Character,
    corpus_files,
    family_of,
    read_characters,
)

COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 17, 20, 24, 28, 32, 38, 45, 54, 64)
# Round numbers to start from, so that the result does not depend on earlier constants.
START = {
    "_GAMMA": 0.1,
    "_EXACT": 1e-3,
    "_INVISIBLE": 1e-4,
    "_EXACT_SLOPE": 2.0,
    "_INVISIBLE_SLOPE": 0.5,
}
INFLUENCES = 6
DUAL_QUATERNION = 3  # every so many characters, dual quaternion skinning is measured too
FACTOR = 1.5
TRIES = 4000


def measure_curves(data: Path, out: Path) -> None:
    """Write the error by number of bones of one animation per training character."""
    done = json.loads(out.read_text()) if out.exists() else {}
    files = [file for file in corpus_files(data) if family_of(file)[1] not in HELD_OUT]
    for number, file in enumerate(files):
        family = family_of(file)[1]
        characters = list(read_characters(file))
        character = characters[len(characters) // 2]
        shapes = {file.stem: character.poses()}
        if number % DUAL_QUATERNION == 0:
            shapes[f"{file.stem}/dual_quaternion"] = dual_quaternion_poses(character)
        for name, poses in shapes.items():
            if name in done:
                continue
            true = character.with_merged_bones().bones
            done[name] = {"family": family, "true": true, "remaining": error_curve(poses)}
            print(name, true, flush=True)
            out.write_text(json.dumps(done, indent=1))


def dual_quaternion_poses(character: Character) -> Poses:
    """Return the animation of a character with dual quaternion skinning."""
    places = int((character.weights > 0).sum(axis=1).max())
    index = np.argsort(-character.weights, axis=1, kind="stable")[:, :places]
    weight = np.take_along_axis(character.weights, index, axis=1).astype(np.float64)
    rest = character.mesh.vertices.astype(np.float64)
    frames = dual_quaternion_blend(character.transforms, index, weight, rest)
    return Poses(character.mesh, frames, name=character.name)


def error_curve(poses: Poses) -> dict[int, float]:
    """Return the share of the motion that remains, by number of bones."""
    motion, normalisation = read_motion(poses)
    curve: dict[int, float] = {}
    with kernels.own_threads():
        fits = bone_count.QuickFits(motion, INFLUENCES, normalisation.rounding)
        largest = min(bone_count.MAX_BONES, motion.vertex_count // 4)
        for count in (c for c in COUNTS if c <= largest):
            curve[count] = fits.remaining(count)
            if curve[count] <= bone_count._ZERO:
                break
    return curve


def mean_cost(curves: Mapping[str, Mapping], constants: Mapping[str, float]) -> float:
    """Return the mean cost: over families, once per kind of skinning, of their mean costs."""
    for constant, value in constants.items():
        setattr(bone_count, constant, value)
    groups: dict[tuple[str, bool], list[float]] = {}
    for name, one in curves.items():
        remaining = {int(count): share for count, share in one["remaining"].items()}
        found = bone_count.ErrorCurve(remaining).smoothed_best()
        group = one["family"], name.endswith("/dual_quaternion")
        ratio = np.log(found / one["true"])
        beyond = max(0.0, abs(ratio) - np.log(FACTOR))
        groups.setdefault(group, []).append(10 * beyond + 0.1 * max(ratio, -0.5))
    return float(np.mean([np.mean(errors) for errors in groups.values()]))


def fit_constants(curves: Mapping[str, Mapping]) -> dict[str, float]:
    """Return the best constants of a seeded random search around the best so far."""
    random = np.random.default_rng(0)
    best = dict(START)
    error = mean_cost(curves, best)
    print(f"before: {error:.4f}", best)
    for number in range(TRIES):
        width = 0.5 if number % 2 else 0.1
        tried = {
            name: value * float(np.exp(width * random.normal())) for name, value in best.items()
        }
        if not tried["_INVISIBLE"] < tried["_EXACT"] < 0.02:
            continue
        now = mean_cost(curves, tried)
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
        print(best, f"rounded: {mean_cost(curves, best):.4f}")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()

"""Plays mutated files with NumPy: `python play_mutated.py FILE ...`

Prints a line for each: "played", "stopped" if the drivers are refused, or "refused" and what is
wrong; writes the vertices of two poses to FILE.numpy. An error of another kind ends the program.
The last line is the most memory that it used, in MB.
"""

import resource
import sys
from dataclasses import replace

import numpy as np

from understudy import ControlSpec, Deformer
from understudy.system.errors import UnderstudyError

POSES = np.arange(2)[:, None]


def drivers(deformer):
    """The drivers of runtime/tests/sample.h."""
    bones = controls = None
    if deformer.skeleton is not None:
        rest = deformer.skeleton.world_from_bone.reshape(-1)
        moved = rest + 0.1 * np.sin(1 + 7 * np.arange(rest.size) + 3 * POSES)
        bones = moved.reshape(2, -1, 3, 4)
    if deformer.control_spec is not None:
        controls = np.sin(2 * np.arange(deformer.control_spec.count) + POSES)
    return (None if deformer.poses_bones else bones), controls


def play(path):
    """Return what happened."""
    try:
        deformer = Deformer.load(path)
    except UnderstudyError as problem:
        return f"refused {problem}"
    if deformer.skeleton is None and deformer.control_spec is None:
        # It needs no drivers, but NumPy finds the number of poses from them.
        deformer = replace(deformer, control_spec=ControlSpec((), [], []))
    try:
        with np.errstate(all="ignore"):  # numbers near the largest overflow
            vertices = deformer.deform_reference(*drivers(deformer))
    except UnderstudyError:
        return "stopped"
    vertices.astype("<f4").tofile(f"{path}.numpy")
    return "played"


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(play(path).replace("\n", " "))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)

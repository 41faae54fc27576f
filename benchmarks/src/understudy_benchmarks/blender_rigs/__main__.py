"""Build a character, or write the frames of an action as poses to measure on.

python -m understudy_benchmarks.blender_rigs NAME OUT.blend
python -m understudy_benchmarks.blender_rigs frames FILE.blend OUT.npz --action walk --step 4
"""

from __future__ import annotations

import argparse
import time

from understudy_benchmarks.blender_rigs import NAMES, build
from understudy_benchmarks.blender_rigs.playing import read_action, write_poses


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m understudy_benchmarks.blender_rigs")
    kinds = parser.add_subparsers(dest="what", required=True)
    for name in NAMES:
        kinds.add_parser(name).add_argument("out", help="the .blend file to write")
    frames = kinds.add_parser("frames", help="the frames of an action, as `evaluate --poses` reads")
    frames.add_argument("file")
    frames.add_argument("out", help="the .npz file to write")
    frames.add_argument("--action", default="walk")
    frames.add_argument("--step", type=int, default=1, help="read every n-th frame")
    asked = parser.parse_args()
    start = time.perf_counter()
    if asked.what == "frames":
        poses = read_action(asked.file, asked.action, asked.step)
        write_poses(poses, asked.out)
        found = f"{poses.pose_count} poses of {poses.mesh.vertex_count} vertices"
    else:
        found = str(build(asked.what, asked.out))
    print(f"{asked.out}: {found}, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()

"""Recorded poses without a rig: write a .npz, fit it, and measure on poses that were held out.

    python examples/03_recorded_poses.py

Any program that can evaluate the character writes such a file: Maya, Houdini, a game engine. The
arrays are those that `understudy fit METHOD poses.npz` reads. Bone matrices multiply column
vectors: the translation is the last column.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from understudy.io.registry import read_poses
from understudy.methods import method_type
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian


def record(file: Path, count: int, seed: int) -> None:
    """Write poses of the tube, which stands for a character in another program."""
    tube = load_rig("tube")
    poses = tube.evaluate(gaussian(tube.controls, count, seed))
    np.savez(
        file,
        vertices=poses.vertices,  # (T,V,3)
        faces=tube.mesh.polygon_vertices.reshape(-1, 4),  # (F,4)
        rest=tube.mesh.vertices,  # (V,3)
        world_from_bone=poses.world_from_bone,  # (T,B,3,4) or (T,B,4,4)
        rest_world_from_bone=tube.skeleton.world_from_bone,  # (B,3,4)
        parents=tube.skeleton.parents,  # (B,), -1 for a root
        bone_names=tube.skeleton.names,
        controls=poses.controls,  # (T,C)
        control_names=tube.controls.names,
        control_min=tube.controls.low,  # (C,)
        control_max=tube.controls.high,  # (C,)
    )


def main() -> None:
    with TemporaryDirectory() as folder:
        train, held_out = Path(folder) / "train.npz", Path(folder) / "held_out.npz"
        record(train, 200, seed=0)
        record(held_out, 50, seed=1)
        differential = method_type("differential")
        config = differential.Config(epochs=20, anchor_epochs=20, hidden=(32, 32), regions=4)
        deformer = differential(config).fit(read_poses(train))
        unseen = read_poses(held_out)

    predicted = deformer.deform(unseen.world_from_bone, unseen.controls)
    error = np.linalg.norm(predicted - unseen.vertices, axis=2)
    share = 100 / unseen.mesh.height
    print(f"mean {share * error.mean():.2f} %, max {share * error.max():.2f} % of the height")


if __name__ == "__main__":
    main()

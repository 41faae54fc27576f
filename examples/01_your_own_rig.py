"""A rig of your own: a class with `mesh`, `skeleton`, `controls` and `evaluate(values) -> Poses`.

    python examples/01_your_own_rig.py

The same from the command line:

    understudy sample examples/01_your_own_rig.py:Lid -o lid.zarr --count 300
    understudy fit fdda lid.zarr -o lid.understudy
    understudy evaluate lid.understudy --rig examples/01_your_own_rig.py:Lid --report lid.html
"""

import numpy as np

from understudy import ControlSpec, Mesh, Poses, Skeleton
from understudy.methods import method_type
from understudy.rigs.sampling import gaussian


class Lid:
    """A square lid on a hinge. One bone opens it; a numeric control and the opening bulge it."""

    def __init__(self) -> None:
        x, z = np.meshgrid(np.linspace(0, 1, 12), np.linspace(0, 1, 12), indexing="ij")
        points = np.stack([x, 0 * x, z], axis=-1).reshape(-1, 3)
        at = np.arange(144).reshape(12, 12)
        corners = (at[:-1, :-1], at[1:, :-1], at[1:, 1:], at[:-1, 1:])
        self.mesh = Mesh.from_faces(points, np.stack(corners, axis=-1).reshape(-1, 4), unit="m")
        self.skeleton = Skeleton(("box", "lid"), [-1, 0], np.tile(np.eye(3, 4), (2, 1, 1)))
        self.controls = ControlSpec(
            ("open", "puff"), low=[0, 0], high=[110, 1], units=("deg", ""), numeric=[False, True]
        )
        self._bump = np.sin(np.pi * x) * np.sin(np.pi * z)

    def evaluate(self, values) -> Poses:
        """Control values (T,2) -> T poses."""
        values = self.controls.check(values)
        angle, puff = np.deg2rad(values[:, 0]), values[:, 1]
        bones = np.tile(np.eye(3, 4), (len(values), 2, 1, 1))
        bones[:, 1, 0, 0] = bones[:, 1, 1, 1] = np.cos(angle)
        bones[:, 1, 1, 0], bones[:, 1, 0, 1] = np.sin(angle), -np.sin(angle)
        lid = np.tile(self.mesh.vertices, (len(values), 1, 1))
        lid[..., 1] += (0.1 * puff + 0.05 * np.sin(angle))[:, None] * self._bump.reshape(-1)
        turned = np.einsum("tij,tvj->tvi", bones[:, 1, :, :3], lid)
        return Poses(self.mesh, turned, self.skeleton, bones, self.controls, values)


def main() -> None:
    rig = Lid()
    poses = rig.evaluate(gaussian(rig.controls, count=200, seed=0))
    fdda = method_type("fdda")
    config = fdda.Config(epochs=60, hidden=(16, 16), batch_size=32)
    deformer = fdda(config).fit(poses, rig=rig)

    unseen = rig.evaluate(gaussian(rig.controls, count=50, seed=1))
    predicted = deformer.deform(unseen.world_from_bone, unseen.controls)
    error = np.linalg.norm(predicted - unseen.vertices, axis=2)
    print(
        f"mean {1000 * error.mean():.2f} mm, max {1000 * error.max():.2f} mm, "
        f"{deformer.cost()['bytes'] / 1000:.0f} kB"
    )


if __name__ == "__main__":
    main()

"""Learn a rig and measure the stand-in on animations that took no part in the fit.

The whole path in Python, on the tiny built-in tube:

    python examples/00_learn_a_rig.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from understudy import Deformer
from understudy.evaluation.measure import Reference, deform_poses, measure
from understudy.methods import method_type
from understudy.rigs import animate, load_rig
from understudy.rigs.sampling import gaussian


def main() -> None:
    rig = load_rig("tube")
    poses = rig.evaluate(gaussian(rig.controls, count=300, seed=0))

    fdda = method_type("fdda")
    config = fdda.Config(epochs=60, hidden=(32, 32), batch_size=64)
    deformer = fdda(config).fit(poses, rig=rig)

    with TemporaryDirectory() as folder:
        file = Path(folder) / "tube.understudy"
        deformer.save(file)
        stand_in = Deformer.load(file)
        print(f"{file.stat().st_size / 1000:.0f} kB on disk")

    unit = rig.mesh.unit
    for name in rig.animation_names:
        reference = Reference.of(name, animate(rig, name))
        figures = measure("fdda", deform_poses(stand_in), reference).figures
        print(
            f"{name}: mean {figures['mean']:.4f} {unit}, max {figures['max']:.3f} {unit}, "
            f"enveloping error {figures['ee']:.1f}"
        )


if __name__ == "__main__":
    main()

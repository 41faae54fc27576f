"""Learn a rig and measure the stand-in on animation it never saw: the whole path in Python, on the
tiny built-in tube.

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
    deformer = fdda(fdda.Config(epochs=60, hidden=(32, 32), batch_size=64)).fit(poses, rig=rig)

    with TemporaryDirectory() as folder:
        file = Path(folder) / "tube.understudy"
        deformer.save(file)
        stand_in = Deformer.load(file)
        print(f"{file.stat().st_size / 1000:.0f} kB on disk")

    for name in rig.animation_names:
        figures = measure(
            "fdda", deform_poses(stand_in), Reference.of(name, animate(rig, name))
        ).figures
        print(
            f"{name}: mean {figures['mean']:.4f} {rig.mesh.unit}, max {figures['max']:.3f} "
            f"{rig.mesh.unit}, EE {figures['ee']:.1f}"
        )


if __name__ == "__main__":
    main()

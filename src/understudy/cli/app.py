"""The command line: `understudy demo | sample | ranges | fit | compress | train | evaluate |
compare | export | info | methods | bench`.

Results go to standard output, progress and errors to standard error. Exit codes: 0 done, 2
something the user can put right (one clear line), 130 interrupted.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError, MissingDependencyError, UnderstudyError
from understudy.core.version import __version__
from understudy.io.atomic_write import atomic_write, ensure_writable
from understudy.runtime import native as runtime

app = typer.Typer(
    help=(
        "Learns a character's deformation and stands in for it: small, fast, portable, with its "
        "error known."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="A first run: `understudy demo`. Step by step: `sample`, `fit`, `compare`.",
)

Out = Annotated[Path, typer.Option("--out", "-o", help="Where to write.")]
Seed = Annotated[int, typer.Option(min=0, help="Same seed, same result.")]
Settings = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="An option of the method; repeat it. `understudy methods` lists them.",
    ),
]


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: errors a user can put right are one line, everything else keeps its
    traceback.
    """
    try:
        # The parser hands back the exit code of `typer.Exit`, and makes 130 of Ctrl-C.
        code = app(arguments, prog_name="understudy", standalone_mode=False) or 0
    except UnderstudyError as problem:
        print(f"understudy: {problem}", file=sys.stderr)
        code = 2
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except Exception as problem:
        show = getattr(
            problem, "show", None
        )  # the argument parser's own complaints know how to show themselves
        if show is None:
            raise
        show()
        code = 2
    if code == 130:
        print(
            "understudy: interrupted; what was finished is kept, run the same command again to go "
            "on",
            file=sys.stderr,
        )
    if code:
        sys.exit(code)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if show:
        print(__version__)
        raise typer.Exit


@app.command()
def demo(
    out: Out = Path("out/demo"),
    poses: Annotated[int, typer.Option(min=10, help="Training poses.")] = 2000,
    seed: Seed = 0,
) -> None:
    """The whole job on the built-in human: sample, fit, measure on a walk and a kick, write a
    report.
    """
    from understudy.cli import demo as job

    results = job.run(out, poses, seed, progress=_progress())
    _print_table(results, "cm", "human: errors on animation never seen in training")
    print(
        f"\nWritten to {out}: fdda.understudy, lbs.understudy, report.html (open it in a browser)"
    )


@app.command()
def sample(
    rig: Annotated[str, typer.Argument(help="A built-in rig: human, face or tube.")],
    out: Out,
    count: Annotated[int, typer.Option(min=1, help="Poses to sample.")] = 5000,
    seed: Seed = 0,
    ranges: Annotated[
        Path | None,
        typer.Option(
            help="Training ranges (TOML); `understudy ranges RIG` prints them to start from."
        ),
    ] = None,
    modes: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Several ways to move (TOML): one [name] table each, with `weight` and "
                "[name.ranges]."
            )
        ),
    ] = None,
    around: Annotated[
        list[str], typer.Option(help="Also sample around this animation of the rig; repeat it.")
    ] = [],  # noqa: B006
    share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the poses taken around those animations.")
    ] = 0.5,
    spread: Annotated[
        float, typer.Option(min=0, help="Noise around them, as a share of the training range.")
    ] = 0.25,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Worker processes; by default one per core.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Start again, replacing what is there.")] = False,
) -> None:
    """Sample random poses of a rig into a store on disk. Interrupted, the same command goes on
    where it stopped.
    """
    from understudy.rigs import load_rig
    from understudy.rigs import parallel_sampling as farm
    from understudy.rigs.sampling import SamplePlan, read_modes

    spec = load_rig(rig).controls
    plan = SamplePlan(
        count,
        seed,
        modes=read_modes(modes, spec) if modes else {},
        animation_share=share if around else 0.0,
        animations=tuple(around),
        spread=spread,
    )
    poses = farm.sample_poses(
        rig,
        plan,
        out,
        processes=processes,
        progress=_progress(),
        ranges=ranges,
        overwrite=overwrite,
    )
    print(
        f"{poses.pose_count} poses of {rig} ({poses.vertex_count} vertices) in {out}. Next: "
        f"understudy fit fdda {out} -o {rig}.understudy"
    )


@app.command()
def ranges(rig: Annotated[str, typer.Argument(help="A built-in rig.")]) -> None:
    """Print a rig's training ranges as a small file to edit and pass to `sample --ranges`."""
    from understudy.rigs import load_rig

    print(load_rig(rig).controls.ranges_text(), end="")


@app.command()
def fit(
    method: Annotated[str, typer.Argument(help="fdda, lbs, ...: see `understudy methods`.")],
    poses: Annotated[Path, typer.Argument(help="A store of poses, made by `understudy sample`.")],
    out: Out,
    settings: Settings = [],  # noqa: B006
    rig: Annotated[
        str,
        typer.Option(
            help=(
                "Live rig to ask which controls move what; auto: the one sampled; none: learn it "
                "from the poses."
            )
        ),
    ] = "auto",
) -> None:
    """Learn poses and write a .understudy file. Interrupted, the same command goes on where it
    stopped.
    """
    from understudy.methods.fitting import fit_file

    deformer = fit_file(method, poses, out, _options(settings), rig, _progress())
    print(f"{out}: {_size_text(deformer)}. Next: understudy evaluate {out} --rig RIG")


@app.command()
def compress(
    sequence: Annotated[
        list[str],
        typer.Argument(
            help="A .npz, a folder or a 'pattern' of .obj or .ply files; several: one clip each."
        ),
    ],
    out: Out,
    bones: Annotated[
        int | None,
        typer.Option(min=1, help="At most so many bones. Default: found from the motion."),
    ] = None,
    error: Annotated[
        float | None,
        typer.Option(
            help=(
                "The error E to reach, in thousandths of half the rest box's diagonal (ssdr, "
                "two_layer)."
            )
        ),
    ] = None,
    influences: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=(
                "Bones per vertex: 6 of temporal, else 4; of two_layer, blending operations per "
                "vertex."
            ),
        ),
    ] = None,
    transforms: Annotated[
        str, typer.Option(help="Bones that may stretch (affine) or not (rigid; ssdr).")
    ] = "affine",
    method: Annotated[
        str | None,
        typer.Option(
            help=(
                "temporal: nothing to set; ssdr; two_layer: dense weights through virtual bones. "
                "Default: temporal; told bones, ssdr."
            )
        ),
    ] = None,
    skeleton: Annotated[
        bool,
        typer.Option(
            "--skeleton", help="One skeleton that turns about fixed joints, to edit and retarget."
        ),
    ] = False,
    rest: Annotated[
        Path | None,
        typer.Option(
            help=(
                "The shape at rest (.obj, .ply or .npz); else the one in the .npz, else the first "
                "frame."
            )
        ),
    ] = None,
    frame_rate: Annotated[
        float | None, typer.Option(help="Frames per second, where the files do not say.")
    ] = None,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
    seed: Seed = 0,
) -> None:
    """Turn an animated mesh into few bones, few influences and their clips: what every engine
    plays. No option is needed.
    """
    from understudy.cli.compress import compress as job

    result = job(
        sequence, out, bones=bones, error=error, influences=influences, transforms=transforms,
        method=method, skeleton=skeleton, rest=rest,
        frame_rate=frame_rate, seed=seed, progress=_progress(),
    )  # fmt: skip
    print(result.summary(out))
    if as_json is not None:
        about = {"bytes_before": result.bytes_before, "bytes_after": result.bytes_after}
        _write_json(
            as_json,
            {
                "unit": result.deformer.mesh.unit,
                **about,
                **{k: float(v) for k, v in result.figures.items()},
            },
        )


@app.command()
def train(
    what: Annotated[
        str,
        typer.Argument(
            help=(
                "What to train: temporal, the networks that compress asks which bones move a "
                "vertex."
            )
        ),
    ],
    out: Out,
    data: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Folder above corpus/, with rigged characters; else UNDERSTUDY_DATA, else "
                "../shared/data."
            )
        ),
    ] = None,
    generated: Annotated[
        bool,
        typer.Option(
            "--generated", help="Learn from characters made by our own code; needs no data."
        ),
    ] = False,
    networks: Annotated[
        str, typer.Option(help="Which networks, separated by commas.")
    ] = "lstm,cnn,hybrid",
    kinds: Annotated[
        str, typer.Option(help="Which kinds of character, separated by commas.")
    ] = "animals,humans",
    epochs: Annotated[
        int, typer.Option(min=1, help="Times that all lessons are read; the paper's 20 to 100.")
    ] = 100,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: the fastest there is.")] = "auto",
    seed: Seed = 0,
) -> None:
    """Train the networks of `temporal` again, as the shipped ones were. A network that is there
    already is kept: delete it to train it anew.
    """
    from understudy.benchmarks.real_data import data_folder

    try:
        from understudy.methods.decomposition.trajectory_networks.training import train_networks
    except ImportError as problem:
        raise MissingDependencyError(
            "training networks needs torch: pip install 'understudy[fit]'"
        ) from problem
    checks.one_of(what, "what to train", ("temporal",))
    split = lambda text: tuple(part.strip() for part in text.split(",") if part.strip())
    folder = None if generated else data_folder(data)
    for line in train_networks(
        out, folder, split(kinds), split(networks), epochs, device, seed, _progress()
    ):
        print(line)


@app.command()
def evaluate(
    file: Annotated[Path, typer.Argument(help="A .understudy file.")],
    rig: Annotated[str, typer.Option(help="The original: a built-in rig.")] = "human",
    animation: Annotated[
        list[str], typer.Option(help="Animation of the rig to test on; repeat it. Default: all.")
    ] = [],  # noqa: B006
    report: Annotated[Path | None, typer.Option(help="Write an HTML report here.")] = None,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure a stand-in against the original rig, on the rig's own animations."""
    _compare([file], rig, animation, report, as_json)


@app.command()
def compare(
    files: Annotated[
        list[Path], typer.Argument(help="Several .understudy files of the same character.")
    ],
    rig: Annotated[str, typer.Option(help="The original: a built-in rig.")] = "human",
    animation: Annotated[
        list[str], typer.Option(help="Animation of the rig to test on; repeat it. Default: all.")
    ] = [],  # noqa: B006
    report: Annotated[Path | None, typer.Option(help="Write an HTML report here.")] = None,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure several stand-ins side by side."""
    _compare(files, rig, animation, report, as_json)


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="A .understudy file.")],
    out: Annotated[
        Path,
        typer.Argument(
            help=("What to write; the suffix decides the format: .onnx or .understudy.")
        ),
    ],
    half: Annotated[bool, typer.Option(help="In 16 bits: half the bytes.")] = False,
) -> None:
    """Write a stand-in in another format: .onnx holds the whole deformer as one graph."""
    checks.one_of(out.suffix, "format to export", (".onnx", ".understudy"))
    ensure_writable(out)
    deformer = Deformer.load(file)
    deformer = deformer.half() if half else deformer
    if out.suffix == ".onnx":
        from understudy.io.onnx import write_onnx

        write_onnx(deformer, out)
    else:
        deformer.save(out)
    print(f"{out}: {out.stat().st_size / 1e6:.2f} MB")


@app.command()
def info(file: Annotated[Path, typer.Argument(help="A .understudy file.")]) -> None:
    """What is in a .understudy file: method, size, drivers, training errors, provenance."""
    deformer = Deformer.load(file)
    mesh = deformer.mesh
    print(f"{file}: {_size_text(deformer)}")
    print(f"method       {deformer.method}")
    print(
        f"mesh         {mesh.vertex_count} vertices, {mesh.height:.4g} {mesh.unit} high, "
        f"{mesh.up_axis} up, {mesh.handedness}-handed"
    )
    if deformer.skin is not None:
        virtual = (
            ""
            if deformer.skin.virtual_index is None
            else f", {len(deformer.skin.virtual_index)} virtual bones"
        )
        print(
            f"skin         {deformer.skeleton.bone_count} bones, up to {deformer.skin.influences} "
            f"per vertex, {deformer.skin.blend}{virtual}"
        )
    for clip in deformer.clips:
        rate = "" if clip.frame_rate is None else f" at {clip.frame_rate:g} per second"
        print(
            f"clip         {clip.name}: {clip.frame_count} frames{rate}, from frame "
            f"{clip.start_frame}"
        )
    if deformer.nets:
        print(
            f"correctives  {len(deformer.nets)} networks, {deformer.features.count} features, "
            f"{deformer.coefficient_count} coefficients"
        )
    packed = runtime.runtime_of(deformer)
    read = "" if packed is None else f"{packed.bytes / 1e6:.2f} MB read and "
    print(
        f"cost         {read}{deformer.cost()['multiply_adds'] / 1e6:.2f} million multiply-adds "
        f"per pose, numbers in {deformer.storage}"
    )
    print(
        "training     "
        + ", ".join(
            f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}"
            for k, v in deformer.training.items()
        )
    )
    shown = {k: v for k, v in deformer.provenance.items() if not k.endswith("_curve")}
    print("provenance   " + json.dumps(shown, indent=2).replace("\n", "\n             "))


@app.command()
def methods() -> None:
    """Every method with its options and their defaults."""
    from understudy.methods import method_names, method_type

    for name in method_names():
        kind = method_type(name)
        summary = (sys.modules[kind.__module__].__doc__ or "").strip().splitlines()[0]
        print(
            f"{summary}\n    {(kind.Config.__doc__ or '').strip()}\n    seed: same seed, same "
            f"data: the same file"
        )
        print(
            "    defaults: " + ", ".join(f"{k}={v}" for k, v in vars(kind().config).items()) + "\n"
        )


@app.command()
def bench(
    name: Annotated[
        str,
        typer.Argument(
            help="Which benchmark: body, face, decompose, two-layer, temporal or runtime."
        ),
    ],
    quick: Annotated[
        bool,
        typer.Option(help="A look in 60 s on two cores; its figures are not the method's best."),
    ] = False,
    full: Annotated[bool, typer.Option(help="Everything, however long it takes.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of real data; else UNDERSTUDY_DATA, else ../shared/data."),
    ] = None,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
    wanted_methods: Annotated[
        str, typer.Option("--methods", help="Only these rows, separated by commas.")
    ] = "",
    cases: Annotated[str, typer.Option(help="Only these cases, separated by commas.")] = "",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the samples, files, plots and the report."),
    ] = None,
    ablations: Annotated[
        bool, typer.Option(help="Of `face`: also the variants that its paper compares.")
    ] = False,
    seed: Seed = 0,
) -> None:
    """Run one of the papers' comparisons, every method on the same data in the same run."""
    from understudy.benchmarks import Request, run

    if quick and full:
        raise InputError("--quick and --full: choose one")
    split = lambda text: tuple(part.strip() for part in text.split(",") if part.strip())
    request = Request(
        size="quick" if quick else "full" if full else "default",
        data=data, methods=split(wanted_methods), cases=split(cases),
        out=out or Path("out/bench") / name, seed=seed,
        ablations=ablations,
    )  # fmt: skip
    if as_json is not None:
        ensure_writable(as_json)
    outcome = run(name, request, _progress())
    _print_table(outcome.results, outcome.unit, f"{name} ({request.size})")
    for line in outcome.notes:
        print(line)
    if as_json is not None:
        _write_json(as_json, outcome.as_json(name))
    print(f"Written to {request.out}" + (f" and {as_json}" if as_json else ""))


def _compare(
    files: list[Path],
    rig_name: str,
    animations: list[str],
    report: Path | None,
    as_json: Path | None,
) -> None:
    from understudy.evaluation.measure import measure_deformers
    from understudy.evaluation.report import report_data, write_report
    from understudy.rigs import animate, load_rig

    for path in (report, as_json):
        if path is not None:
            ensure_writable(path)
    deformers = {}
    for file in files:
        deformer = Deformer.load(file)
        label = deformer.method if deformer.method not in deformers else file.stem
        if label in deformers:
            raise InputError(
                f"{file}: there is a stand-in called {label!r} already; give the files different "
                f"names"
            )
        deformers[label] = deformer
    rig = load_rig(rig_name)
    for file, deformer in zip(files, deformers.values()):
        checks.same_count(
            deformer.mesh.vertex_count,
            rig.mesh.vertex_count,
            "vertices",
            str(file),
            f"the rig {rig_name!r}",
        )
    for name in animations:
        checks.one_of(name, "animation", rig.animation_names)
    names = animations or list(rig.animation_names)
    cases = {f"{rig_name}/{name}": partial(animate, rig, name) for name in names}
    results = measure_deformers(deformers, cases, progress=_progress())
    _print_table(results, rig.mesh.unit, f"{rig_name}: errors against the original rig")
    if as_json is not None:
        _write_json(
            as_json,
            {
                "unit": rig.mesh.unit,
                "rows": [{"case": r.case, "method": r.method, **r.figures} for r in results],
            },
        )
    if report is not None:
        command = "understudy compare " + " ".join(file.name for file in files)
        write_report(
            report, report_data(rig.name, rig.mesh, deformers, results, {"command": command})
        )
        print(f"Report: {report}")


def _options(settings: Sequence[str]) -> dict[str, str]:
    for text in settings:
        if "=" not in text:
            raise InputError(f"--set {text!r}: expected name=value, e.g. --set epochs=50")
    return dict(text.split("=", 1) for text in settings)


def _progress():
    from understudy.core.terminal_progress import TerminalProgress

    return TerminalProgress()


def _print_table(results, unit: str, title: str) -> None:
    from rich.console import Console

    from understudy.evaluation.report import figures_table

    # Wide enough for every column where the output is a file; a terminal has its own width.
    Console(width=None if sys.stdout.isatty() else 200).print(figures_table(results, unit, title))


def _size_text(deformer: Deformer) -> str:
    return (
        f"{deformer.cost()['bytes'] / 1e6:.2f} MB in memory, {deformer.mesh.vertex_count} vertices"
    )


def _write_json(path: Path, content: dict) -> None:
    """Figures as JSON; one that is infinite or undefined (a method that broke down) is null."""
    with atomic_write(path) as part:
        part.write_text(
            json.dumps(_finite_or_null(content), indent=1, allow_nan=False) + "\n", encoding="utf-8"
        )


def _finite_or_null(content):
    if isinstance(content, dict):
        return {name: _finite_or_null(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_finite_or_null(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


if __name__ == "__main__":
    main()

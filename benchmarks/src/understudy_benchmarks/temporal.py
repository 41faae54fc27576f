"""`bench temporal`: mesh sequences to bones and weights without parameters.

Tables 1 and 2 and Figures 12 to 14 of Moutafidou et al. `temporal_cases` describes the cases; the
characters belong to families that no network was trained on. Methods:

    temporal            without options
    temporal-skeleton   one skeleton; with the number of bones of Table 2, or else of `temporal`;
                        for corpus characters without options
    temporal-paper      the baseline `temporal_paper`: bones and weights from a network trained as
                        published, the LSTM for animals and the CNN for humans, then five
                        iterations; `-lstm`, `-cnn` and `-hybrid` are the three networks (animals
                        only, except for the CNN)
    temporal-paper-normalised   the same fit from the networks of `temporal`
    fesam               FESAM-WT with the bones and influences of `temporal`, four starts and sixty
                        iterations
    fesam-paper         FESAM-WT as in the paper's comparison, fifteen iterations from one start,
                        with the bones of `temporal-paper`
    ssdr-affine         `ssdr` with the bones, influences, iterations and number of starts of
                        `temporal`: the difference is what the networks bring
    ssdr-rigid          `ssdr` with rigid bones, bones and influences of `temporal-skeleton`

Every row is measured on the sequence it was fitted to. `rounds_to_fesam` is the number of
iterations on all vertices until the error is below the final error of fesam. `bytes` is the size of
the file with its clips, in the form that `compress` writes. `true_bones` is the number of bones
that move a corpus character and move apart in the animation, `joints_found` the share of their
joints with one of ours within 5 % of the size, `joints_true` that of ours with one of theirs,
`joints_outside` the joints of a skeleton that are outside the mesh, `joints_in_wrong_limb` those
that are far from their bone's vertices along the surface, `smallest_patch` the fewest vertices of a
bone; bones without a skeleton are placed at the centres of their vertices. The rows of
`temporal-paper` are those of the network of one training seed; `erms_low` and `erms_high` are the
lowest and highest ERMS of three.

With --ablations, networks trained with other batch sizes (Figures 8 to 11) are compared too. They
are read from the folder `networks` of the output folder, which `understudy train temporal --paper`
writes with `--batch-sizes 512,1024,2048,8192`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.evaluation.measure import (
    Reference,
    deform_clips,
    deformer_figures,
    measure,
    sequence_error,
)
from understudy.evaluation.result import CaseResult
from understudy.io.atomic_write import atomic_write
from understudy.io.understudy import to_bytes
from understudy.methods import method_type
from understudy.methods.decomposition.compact import compact, default_tolerance
from understudy.methods.decomposition.solve.motion import Fit, in_principal_directions, read_motion
from understudy.methods.decomposition.solve.solves import solve_transforms
from understudy.system import checks, tasks
from understudy.system.errors import FileError
from understudy.system.progress import Progress
from understudy_benchmarks import Outcome, Request
from understudy_benchmarks.baselines.temporal_paper import solve_by_conjugate_gradients
from understudy_benchmarks.baselines.thorough_ssdr import ThoroughSsdr
from understudy_benchmarks.isolation import isolated
from understudy_benchmarks.joint_places import joint_figures
from understudy_benchmarks.real_data import data_folder
from understudy_benchmarks.sequence_cases import lean_row, write_poses_report
from understudy_benchmarks.temporal_cases import Case, find_cases, read_case

FOUND, SKELETON = "temporal", "temporal-skeleton"
PAPER, NORMALISED = "temporal-paper", "temporal-paper-normalised"
PAPER_NETWORKS = {
    PAPER: "auto",
    "temporal-paper-lstm": "lstm",
    "temporal-paper-cnn": "cnn",
    "temporal-paper-hybrid": "hybrid",
}
BATCH_SIZES = (512, 1024, 2048, 8192)  # beside 4096; Figures 8 to 11
ABLATIONS = {
    f"{PAPER}-{network}-{size}": (network, size)
    for network in ("lstm", "cnn")
    for size in BATCH_SIZES
}
METHODS = (
    FOUND,
    SKELETON,
    *PAPER_NETWORKS,
    NORMALISED,
    *ABLATIONS,
    "fesam",
    "fesam-paper",
    "ssdr-affine",
    "ssdr-rigid",
)
SEEDS = 3  # of the networks of `temporal-paper`
_CHARACTER_METHODS = (FOUND, SKELETON, PAPER, NORMALISED, "fesam", "fesam-paper", "ssdr-affine")
# Published ERMS. Table 1: bones and ERMS of the paper, and the ERMS of its Methods I to IV (I and
# II with SVD). Table 2: bones of the skeletons, and their ERMS.
_TABLE_1 = {
    "horse_gallop": (26, 0.15, (0.3, 2.9, 1.3, 2.4)),
    "elephant_gallop": (18, 0.35, (0.5, 6.5, 1.4, 2.3)),
    "samba": (17, 0.60, (3.6, 6.0, 1.5, 4.0)),
}
_TABLE_2 = {"horse_gallop": (27, (0.19, 0.44, 1.10, 0.88)), "samba": (22, (0.63, 1.29, 1.57, 1.79))}
_DECIMATED_METHODS = (FOUND, SKELETON, "fesam", "ssdr-affine", "ssdr-rigid")


def run(request: Request, progress: Progress) -> Outcome:
    """Run the benchmark."""
    wanted = tuple(
        checks.one_of(name, "method of bench temporal", METHODS) for name in request.methods
    )
    names, notes = find_cases(request)
    results: list[CaseResult] = []
    with progress.task("temporal skinning", len(names)) as bar:
        for name in names:
            case = read_case(name, data_folder(request.data))
            methods = wanted or _default_methods(case, request)
            rows = _run_case(case, methods, request)
            results += rows
            bar.note(f"{name}: " + ", ".join(f"{r.method} {r.figures['erms']:.3g}" for r in rows))
            bar.advance()
    lean = [lean_row(r) for r in results]
    return Outcome(lean, "units", [*notes, *_findings(lean)])


def _default_methods(case: Case, request: Request) -> tuple[str, ...]:
    if case.true_bones is not None:
        return _CHARACTER_METHODS
    if case.is_decimated:
        return _DECIMATED_METHODS
    left_out = () if request.ablations else tuple(ABLATIONS)
    if case.kind != "animals":  # the package has only the CNN of humans
        left_out += tuple(name for name in PAPER_NETWORKS if name != PAPER)
    return tuple(name for name in METHODS if name not in left_out)


def _run_case(case: Case, methods: Sequence[str], request: Request) -> list[CaseResult]:
    """Return the rows of some methods on one case.

    `temporal` always runs first, because the other methods use its number of bones.
    """
    stem = case.name.replace("/", "_").replace(":", "_")
    reference = Reference.of(case.name, case.poses)
    rows: dict[str, CaseResult] = {}
    skins: dict[str, tuple[Skeleton, Skin]] = {}
    curves: dict[str, list[float]] = {}
    needed = {FOUND, *methods, *((PAPER,) if "fesam-paper" in methods else ())}
    for name in sorted(needed, key=METHODS.index):
        file = request.out / f"{stem}_{name}.understudy"
        fit = _Fit(name, case.kind, _bones(name, case, rows), request.seed, _trained(name, request))
        done = isolated(fit_case, fit, case.name, data_folder(request.data), file)
        deformer = Deformer.load(file)
        small = compact(deformer, default_tolerance(sequence_error(case.poses, deformer)))
        skins[name] = small.need_skin()
        figures = {
            **deformer_figures(deformer),
            "bytes": len(to_bytes(small)),
            **joint_figures(small.mesh, *skins[name], case.true_joints),
            "fit_s": done.value,
            "peak_mb": done.peak_mb,
            **_published(name, "" if case.is_decimated else case.sequence),
        }
        if name in PAPER_NETWORKS:
            others = [replace(fit, seed=request.seed + number) for number in range(1, SEEDS)]
            errors = [deformer.training["erms"], *(fit_erms(one, case.poses) for one in others)]
            figures |= {"erms_low": min(errors), "erms_high": max(errors)}
        if case.true_bones is not None:
            figures["true_bones"] = case.true_bones
        if "erms_curve" in deformer.provenance:
            curves[name] = list(deformer.provenance["erms_curve"])
        pictured = rows[FOUND].pictured if FOUND in rows else None
        rows[name] = measure(name, deform_clips(deformer), reference, figures, pictured)
    for name, curve in curves.items():
        if "fesam" in curves and not name.startswith("fesam"):
            below = [number for number, erms in enumerate(curve) if erms <= curves["fesam"][-1]]
            if below:
                rows[name] = replace(
                    rows[name], figures={**rows[name].figures, "rounds_to_fesam": below[0]}
                )
    if case.true_bones is None and not case.is_decimated and len(curves) > 1:
        _plot_iterations(request.out / f"{stem}_rounds.png", case.name, curves)
        times = solver_times(case.poses, int(rows[FOUND].figures["bones"]))
        rows[FOUND] = replace(rows[FOUND], figures={**rows[FOUND].figures, **times})
    if request.size != "quick":
        shown = {name: skin for name, skin in skins.items() if name in (FOUND, SKELETON)}
        title = case.name.replace("/", "_").replace(":", "_")
        found = [rows[name] for name in methods]
        write_poses_report(
            case.poses, title, found, request, "bench temporal", shown, case.true_joints
        )
    return [rows[name] for name in methods]


def _bones(method: str, case: Case, rows: Mapping[str, CaseResult]) -> int | None:
    """Return the number of bones that a method is given, or None."""
    if method in (SKELETON, "ssdr-rigid") and case.sequence in _TABLE_2:
        return _TABLE_2[case.sequence][0]
    if method == SKELETON and case.true_bones is not None:
        return None
    source = PAPER if method == "fesam-paper" else FOUND
    return int(rows[source].figures["bones"]) if source in rows else None


def _trained(method: str, request: Request) -> str | None:
    """Return the folder of the networks of a method; None: those of the package."""
    if method not in ABLATIONS:
        return None
    folder = request.out / "networks" / str(ABLATIONS[method][1])
    if not folder.is_dir():
        raise FileError(
            f"{folder}: no such folder; {method} needs networks trained with batches of "
            f"{folder.name}: understudy train temporal --paper --batch-sizes {folder.name} -o "
            f"{folder.parent}"
        )
    return str(folder)


def _published(method: str, sequence: str) -> dict[str, float]:
    """Return the published figures of a row, if there are any."""
    if method in (FOUND, PAPER) and sequence in _TABLE_1:
        bones, erms, rivals = _TABLE_1[sequence]
        return {"paper_bones": bones, "paper_erms": erms, "rival_erms": min(rivals)}
    if method == SKELETON and sequence in _TABLE_2:
        return {"paper_bones": _TABLE_2[sequence][0], "rival_erms": min(_TABLE_2[sequence][1])}
    return {}


@dataclass(frozen=True)
class _Fit:
    """A row to fit: method, kind of character, number of bones, seed, folder of networks."""

    method: str
    kind: str = "auto"
    bones: int | None = None
    seed: int = 0
    trained: str | None = None


def fit_case(fit: _Fit, case: str, folder: Path, out: Path) -> float:
    """Read a case, fit it, write the deformer; return the seconds of the fit alone.

    Runs in its own process.
    """
    poses = read_case(case, folder).poses
    method = fitter(fit)
    started = time.perf_counter()
    deformer = method(poses)
    seconds = time.perf_counter() - started
    deformer.save(out)
    return seconds


def fit_erms(fit: _Fit, poses: Poses) -> float:
    """Return the ERMS of a fit."""
    return float(fitter(fit)(poses).training["erms"])


def fitter(fit: _Fit) -> Callable[[Poses], Deformer]:
    """Return the `fit` of a method, loaded and configured."""
    bones = {"bones": fit.bones}
    options: dict[str, Mapping] = {
        FOUND: {},
        SKELETON: {**bones, "skeleton": True},
        NORMALISED: {"kind": fit.kind},
        "fesam": bones,
        "fesam-paper": bones,
        "ssdr-affine": {**bones, "influences": 6},
        "ssdr-rigid": {**bones, "influences": 6, "transforms": "rigid"},
    }
    networks = {**PAPER_NETWORKS, **{name: network for name, (network, _) in ABLATIONS.items()}}
    for name, network in networks.items():
        options[name] = {"network": network, "kind": fit.kind, "trained": fit.trained}
    name = fit.method.partition("-")[0]
    preset = "paper" if fit.method == "fesam-paper" else "default"
    if fit.method.startswith(PAPER):
        name, preset = "temporal_paper", "normalised" if fit.method == NORMALISED else "default"
    chosen = ThoroughSsdr if fit.method == "ssdr-affine" else method_type(name)
    return chosen(chosen.Config.of_preset(preset, seed=fit.seed, **options[fit.method])).fit


def solver_times(poses: Poses, bones: int, repeats: int = 3) -> dict[str, float]:
    """Return the milliseconds to solve for all transforms, by both linear solvers (Figure 14).

    The weights are random; the shortest of `repeats` runs counts.
    """
    with tasks.one_blas_thread():
        motion, _ = in_principal_directions(read_motion(poses)[0])
        random = np.random.default_rng(0)
        index = np.ascontiguousarray(
            np.argsort(random.random((motion.vertex_count, bones)), axis=1)[:, :6], np.int32
        )
        fit = Fit(
            np.zeros((motion.rows, 4 * bones)),
            index,
            random.dirichlet(np.ones(index.shape[1]), len(index)),
            motion.square,
        )
        took = {}
        solvers = {"cg_ms": solve_by_conjugate_gradients, "direct_ms": solve_transforms}
        for name, solve in solvers.items():
            times = []
            for _ in range(repeats):
                started = time.perf_counter()
                solve(motion, fit)
                times.append(1000 * (time.perf_counter() - started))
            took[name] = min(times)
    return took


def _findings(results: Sequence[CaseResult]) -> Iterator[str]:
    """Yield a sentence about each comparison."""
    row = {(r.case, r.method): r.figures for r in results}
    known = [row[case, FOUND] for case, method in row if method == FOUND]
    known = [figures for figures in known if "true_bones" in figures]
    for case in dict.fromkeys(r.case for r in results):
        own, fesam, skeleton, rigid = (
            row.get((case, name)) for name in (FOUND, "fesam", SKELETON, "ssdr-rigid")
        )
        if own and fesam:
            yield (
                f"{case}: temporal has {own['erms'] / fesam['erms']:.2f} x the ERMS of FESAM-WT "
                f"with the same {own['bones']:.0f} bones"
            )
        paper, baseline = row.get((case, PAPER)), row.get((case, "fesam-paper"))
        if paper and baseline:
            yield (
                f"{case}: temporal-paper has {paper['erms'] / baseline['erms']:.2f} x the ERMS of "
                f"FESAM-WT as published with the same {paper['bones']:.0f} bones"
            )
        if skeleton and rigid:
            yield (
                f"{case}: the skeleton has {skeleton['erms'] / rigid['erms']:.2f} x the ERMS of "
                f"ssdr-rigid with {skeleton['bones']:.0f} bones"
            )
    if known:
        close = sum(f["true_bones"] / 1.25 <= f["bones"] <= 1.25 * f["true_bones"] for f in known)
        yield (
            f"Held-out families: bones within a factor of 1.25 of the true number for {close} of "
            f"{len(known)} characters"
        )
        pairs = [
            (figures, row[case, "ssdr-affine"])
            for (case, method), figures in row.items()
            if method == FOUND and "true_bones" in figures and (case, "ssdr-affine") in row
        ]
        better = sum(own["disper"] < other["disper"] for own, other in pairs)
        yield (
            f"Held-out families: DisPer below that of ssdr with the same bones for {better} of "
            f"{len(pairs)} characters"
        )


def _plot_iterations(path: Path, case: str, curves: Mapping[str, Sequence[float]]) -> None:
    """Write a plot of ERMS after each iteration on all vertices (Figures 12 and 13)."""
    from matplotlib.figure import Figure  # optional dependency

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for name, curve in curves.items():
        shown = curve[:16]
        axes.plot(range(len(shown)), shown, "o-", markersize=3.5, label=name)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.yaxis.set_minor_formatter(lambda y, _: f"{y:.2g}")
    axes.set_xlabel("iterations on all vertices")
    axes.set_ylabel("ERMS (hundredths of a model unit)")
    axes.set_title(f"{case}: error after each iteration")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    with atomic_write(path) as part:
        figure.savefig(part, format="png", dpi=120)

"""`bench decompose`: mesh sequences to few bones with four influences, compared with Dem Bones.

Cases are `<sequence>/<bones>` (see `sequence_cases`); `--cases` takes any sequence of the data
folder. Sequences called `gt_lbs_*` are exact skins and are fitted with unlimited influences.
Methods: `ssdr-affine`, `ssdr-rigid`, and `dem-bones` (the package py-dem-bones), whose bones are
rigid. Dem Bones is fitted with each of `DEM_BONES_SETTINGS`, and the result with the lowest E
counts, with its own time. It may return fewer bones than it was asked for: `bones` says how many.
Each fit runs in its own process, one after the other, the methods interleaved. The shortest of
three times counts; slow cases run once.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from understudy.core.clip import Clip
from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.evaluation.measure import Reference, deform_clips, deformer_figures, measure
from understudy.evaluation.result import CaseResult
from understudy.io.atomic_write import atomic_write
from understudy.io.registry import read_sequence
from understudy.methods import method_type
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import Progress
from understudy_benchmarks import Outcome, Request
from understudy_benchmarks.isolation import isolated
from understudy_benchmarks.metrics import erms
from understudy_benchmarks.sequence_cases import Case, find_cases, lean_row, write_sequence_report

METHODS = ("ssdr-affine", "ssdr-rigid", "dem-bones")
PEER = "dem-bones"
# Options of Dem Bones by its own names: its defaults, without the smoothness term that `ssdr` does
# not have either, and without it for longer.
DEM_BONES_SETTINGS: tuple[Mapping[str, float], ...] = (
    {},
    {"weightsSmooth": 0.0},
    {"weightsSmooth": 0.0, "nIters": 100},
    {"weightsSmooth": 0.0, "nIters": 100, "nInitIters": 30},
)
QUICK_DEM_BONES_SETTINGS = DEM_BONES_SETTINGS[:2]
# E of Le & Deng's own decomposition with affine bones and four influences: from their published
# solver outputs, and from Table 3, column "4 b/v SD", of Le & Deng, Two-Layer Sparse Compression of
# Dense-Weight Blend Skinning, 2013.
KNOWN_E = {
    "horse_gallop/10": 5.65, "horse_gallop/20": 2.80, "horse_gallop/30": 1.76,
    "horse_gallop/15": 3.2, "horse_collapse/20": 3.20,
    "horse_collapse/40": 2.3, "cow_elastic/24": 3.15, "chicken/28": 3.48, "samba/10": 5.7,
    "samba/20": 2.7, "elephant_gallop/15": 3.2,
    "elephant_gallop/30": 1.5,
}  # fmt: skip
QUICK_CASES = ("cat_poses/10", "dembones_bone/5")
CASES = (
    "horse_gallop/10", "horse_gallop/20", "horse_gallop/30", "horse_collapse/20",
    "horse_collapse/40", "cow_elastic/24", "chicken/28",
    "samba/10", "samba/20", "elephant_gallop/15", "elephant_gallop/30", "gt_lbs_wolf/21",
    "gt_lbs_cheburashka/11",
)  # fmt: skip


@dataclass(frozen=True)
class _Size:
    """What to run, and how often.

    repeats   runs of each method
    slow_s    a case whose first runs took longer than this runs once
    budget_s  after this time, every case runs once
    """

    cases: tuple[str, ...]
    repeats: int
    slow_s: float
    budget_s: float


SIZES = {
    "quick": _Size(QUICK_CASES, 1, 0.0, 0.0),
    "default": _Size(CASES, 3, 40.0, 700.0),
    "full": _Size(CASES, 3, 300.0, float("inf")),
}


def run(request: Request, progress: Progress) -> Outcome:
    """Run the benchmark."""
    size = SIZES[request.size]
    methods = (
        tuple(checks.one_of(name, "method of bench decompose", METHODS) for name in request.methods)
        or METHODS
    )
    cases, notes = find_cases(request, size.cases)
    if PEER in methods and importlib.util.find_spec("py_dem_bones") is None:
        methods = tuple(name for name in methods if name != PEER)
        notes.append(
            "py-dem-bones is not installed: the dem-bones rows and the ratios are left out. "
            "Install it with: pip install py-dem-bones"
        )
    if not methods:
        raise InputError(
            "no method is left to run: dem-bones needs the package py-dem-bones (pip install "
            "py-dem-bones)"
        )
    results: list[CaseResult] = []
    started = time.perf_counter()
    with progress.task("decomposing", len(cases)) as bar:
        for case in cases:
            again = size.repeats if time.perf_counter() - started < size.budget_s else 1
            results += _run_case(case, methods, request, again, size.slow_s)
            bar.note(
                f"{case.name}: "
                + ", ".join(f"{r.method} E {r.figures['e']:.3g}" for r in results[-len(methods) :])
            )
            bar.advance()
    _write_reports(cases, results, request)
    _plot_rows(request.out / "decompose.png", results, KNOWN_E)
    lean = [lean_row(r) for r in results]
    return Outcome(lean, "units", [*notes, *_findings(lean)])


def _run_case(
    case: Case, methods: Sequence[str], request: Request, repeats: int, slow_s: float
) -> list[CaseResult]:
    """Return the rows of all methods on one case; the runs of the methods are interleaved."""
    poses = read_sequence(case.file)
    took: dict[str, list[float]] = {name: [] for name in methods}
    peak: dict[str, float] = {}
    files = {
        name: request.out / f"{case.name.replace('/', '_').replace(':', '_')}_{name}.understudy"
        for name in methods
    }
    for repeat in range(repeats):
        for name in methods:
            done = isolated(
                fit_case,
                name,
                case.file,
                case.bones,
                case.influences,
                files[name],
                request.seed,
                QUICK_DEM_BONES_SETTINGS if request.size == "quick" else DEM_BONES_SETTINGS,
            )
            took[name].append(done.value)
            peak[name] = max(done.peak_mb, peak.get(name, 0.0))
        if repeat == 0 and sum(times[0] for times in took.values()) > slow_s:
            break
    reference = Reference.of(case.name, poses)
    results: list[CaseResult] = []
    for name in methods:
        deformer = Deformer.load(files[name])
        figures = {**deformer_figures(deformer), "fit_s": min(took[name]), "peak_mb": peak[name]}
        if name == "ssdr-affine" and case.name in KNOWN_E:
            figures["paper_e"] = KNOWN_E[case.name]
        pictured = results[0].pictured if results else None
        results.append(measure(name, deform_clips(deformer), reference, figures, pictured))
    return _with_ratios(results)


def fit_case(
    method: str,
    file: Path,
    bones: int,
    influences: int | None,
    out: Path,
    seed: int,
    settings: Sequence[Mapping[str, float]],
) -> float:
    """Read a sequence, fit it, write the deformer; return the seconds of the fit alone.

    settings  of Dem Bones; the one with the lowest E counts

    Runs in its own process.
    """
    poses = read_sequence(file)
    if method == PEER:
        true = poses.read_poses(0, poses.pose_count)
        fits = [fit_dem_bones(poses, bones, influences, setting) for setting in settings]
        deformer, seconds = min(fits, key=lambda fit: erms(true, fit[0].deform_clip()))
    else:
        # Loading the method, like importing Dem Bones, is not part of the fit.
        ssdr = method_type("ssdr")
        config = ssdr.Config(
            bones=bones,
            influences=influences,
            transforms="rigid" if method == "ssdr-rigid" else "affine",
            seed=seed,
        )
        started = time.perf_counter()
        deformer = ssdr(config).fit(poses)
        seconds = time.perf_counter() - started
    deformer.save(out)
    return seconds


def fit_dem_bones(
    poses: Poses, bones: int, influences: int | None, setting: Mapping[str, float]
) -> tuple[Deformer, float]:
    """Return the result of Dem Bones, and the seconds of its fit.

    setting  options that differ from its defaults

    Its transforms take rest to world, so the rest transforms of the bones are the identity.
    """
    from py_dem_bones import DemBones, solve_skinning  # optional dependency

    vertices = poses.read_poses(0, poses.pose_count).astype(np.float64)
    rest = poses.mesh.vertices.astype(np.float64)
    faces = list(np.split(poses.mesh.polygon_vertices, np.cumsum(poses.mesh.polygon_sizes)[:-1]))
    solver = DemBones()
    for name, value in setting.items():
        setattr(solver, name, value)
    started = time.perf_counter()
    solved = solve_skinning(
        rest,
        vertices,
        bones,
        faces=faces,
        max_influences=influences or bones,
        iterations=solver.nIters,
        solver=solver,
    )
    seconds = time.perf_counter() - started
    weights = solved.weights.T
    places = max(1, int((weights > 0).sum(axis=1).max()))
    index = np.argsort(-weights, axis=1, kind="stable")[:, :places]
    kept = np.take_along_axis(weights, index, axis=1)
    count = solved.transforms.shape[1]
    skeleton = Skeleton(
        tuple(f"bone_{b}" for b in range(count)),
        np.full(count, -1),
        np.tile(np.eye(3, 4), (count, 1, 1)),
    )
    skin = Skin(index, kept / kept.sum(axis=1, keepdims=True))
    clip = Clip(poses.name, solved.transforms[:, :, :3])
    return Deformer(poses.mesh, skeleton, skin=skin, method=PEER, clips=(clip,)), seconds


def _with_ratios(results: list[CaseResult]) -> list[CaseResult]:
    """Return the rows with time and E relative to those of Dem Bones, if it ran."""
    peer = next((r.figures for r in results if r.method == PEER), None)
    if peer is None:
        return results
    done = []
    for r in results:
        ratios = (
            {}
            if r.method == PEER
            else {
                "time_ratio": r.figures["fit_s"] / peer["fit_s"],
                "error_ratio": r.figures["e"] / peer["e"],
            }
        )
        done.append(replace(r, figures={**r.figures, **ratios}))
    return done


def _findings(results: list[CaseResult]) -> Iterator[str]:
    """Yield a sentence about each comparison."""
    row = {(r.case, r.method): r.figures for r in results}
    for case in dict.fromkeys(r.case for r in results):
        affine, rigid = row.get((case, "ssdr-affine")), row.get((case, "ssdr-rigid"))
        if affine and "paper_e" in affine:
            yield (
                f"{case}: E of ssdr-affine is {affine['e']:.3g}, that of Le & Deng "
                f"{affine['paper_e']:g}"
            )
        peer = row.get((case, PEER))
        if rigid and peer:
            yield (
                f"{case}: ssdr-rigid has {rigid['error_ratio']:.2f} x the error of Dem Bones in "
                f"{rigid['time_ratio']:.2f} x its time; Dem Bones returned {peer['bones']:.0f} "
                f"bones"
            )
        if peer and rigid and rigid["norm_distort"] > peer["norm_distort"]:
            yield (
                f"{case}: Dem Bones has the lower NormDistort, {peer['norm_distort']:.3g} against "
                f"{rigid['norm_distort']:.3g} of ssdr-rigid"
            )


def _write_reports(cases: Sequence[Case], results: Sequence[CaseResult], request: Request) -> None:
    """Write one report per sequence, with all its cases."""
    for file in dict.fromkeys(case.file for case in cases):
        names = {case.name for case in cases if case.file == file}
        write_sequence_report(
            file, [r for r in results if r.case in names], request, "bench decompose"
        )


def _plot_rows(path: Path, results: Sequence[CaseResult], known: dict[str, float]) -> None:
    """Write a plot of E and fit time of every case, with the published E as a line."""
    from matplotlib.figure import Figure  # optional dependency

    cases, methods = (
        list(dict.fromkeys(r.case for r in results)),
        list(dict.fromkeys(r.method for r in results)),
    )
    row = {(r.case, r.method): r.figures for r in results}
    figure = Figure(figsize=(max(6, 0.9 * len(cases)), 6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    place = np.arange(len(cases))
    for number, method in enumerate(methods):
        offsets = place + (number - (len(methods) - 1) / 2) * 0.8 / len(methods)
        for axes, name in ((top, "e"), (bottom, "fit_s")):
            heights = [row.get((case, method), {}).get(name, np.nan) for case in cases]
            axes.plot(offsets, heights, "o", label=method)
    published = [(at, case) for at, case in enumerate(cases) if case in known]
    for number, (at, case) in enumerate(published):
        label = "Le & Deng" if number == 0 else None
        top.hlines(known[case], at - 0.4, at + 0.4, color="black", label=label)
    for axes, label in ((top, "E"), (bottom, "fit (s)")):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        axes.yaxis.set_minor_formatter(lambda y, _: f"{y:g}" if f"{y:.0e}"[0] in "25" else "")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3, axis="y", which="both")
    bottom.set_xticks(place, cases, rotation=35, ha="right")
    top.legend()
    with atomic_write(path) as part:
        figure.savefig(part, format="png", dpi=120)

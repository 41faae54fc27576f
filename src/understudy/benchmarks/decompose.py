"""`bench decompose`: mesh sequences to few bones with four influences, against Dem Bones
(`py-dem-bones`) in the same run.

Cases are `<sequence>/<bones>`: the file `sequences/<sequence>.npz` of the data folder. Any such
file can be asked for with `--cases`. Sequences called `gt_lbs_*` are exact skinning and are fitted
with as many influences as it takes. Methods: `ssdr-affine`, `ssdr-rigid`, and the peer `dem-bones`,
whose bones are rigid. Fits run one after the other, each in a process of its own, interleaved; the
best of three times counts, slow cases run once.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.benchmarks import Outcome, Request
from understudy.benchmarks.real_data import data_folder
from understudy.core import checks
from understudy.core.clip import Clip
from understudy.core.deformer import Deformer
from understudy.core.errors import FileError, InputError
from understudy.core.poses import Poses
from understudy.core.progress import Progress
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.core.version import __version__
from understudy.evaluation import machine
from understudy.evaluation.measure import Reference, deform_clips, deformer_figures, measure
from understudy.evaluation.report import write_report
from understudy.evaluation.result import CaseResult, ReportData
from understudy.io.atomic_write import atomic_write
from understudy.io.sequences import read_sequence

METHODS = ("ssdr-affine", "ssdr-rigid", "dem-bones")
PEER = "dem-bones"
EXACT = "gt_lbs_"
# E of Le & Deng's own decomposition, affine bones and four influences: their public solver outputs,
# and ("paper") Table 3, column "4 b/v SD", of Le & Deng, Two-Layer Sparse Compression of
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
    """repeats: runs of each method; a case whose first round took longer than `slow_s` runs once,
    and so does all when `budget_s` is spent.
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


@dataclass(frozen=True)
class Case:
    """One sequence and how many bones to give it."""

    name: str
    file: Path
    bones: int

    @property
    def influences(self) -> int | None:
        return None if self.name.startswith(EXACT) else 4


def run(request: Request, progress: Progress) -> Outcome:
    size = SIZES[request.size]
    methods = (
        tuple(checks.one_of(name, "method of bench decompose", METHODS) for name in request.methods)
        or METHODS
    )
    cases, notes = find_cases(request, size.cases)
    if PEER in methods and importlib.util.find_spec("py_dem_bones") is None:
        methods = tuple(name for name in methods if name != PEER)
        notes.append(
            "py-dem-bones is not installed: the dem-bones rows and the ratios are left out. pip "
            "install 'understudy[bench]' brings it."
        )
    if not methods:
        raise InputError(
            "no method is left to run: dem-bones needs the package py-dem-bones (pip install "
            "'understudy[bench]')"
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
    plot_rows(request.out / "decompose.png", results, KNOWN_E)
    lean = [lean_row(r) for r in results]
    return Outcome(lean, "units", [*notes, *_findings(lean)])


# What a row of these tables shows; the pages have the rest.
_SHOWN = (
    "e", "paper_e", "erms", "disper", "max_avg_dist", "norm_distort", "crp", "delta_w",
    "paper_delta_w", "bones", "influences", "virtual_bones",
    "bytes", "fit_s", "time_ratio", "error_ratio", "peak_mb", "true_bones", "paper_bones",
    "paper_erms", "rival_erms", "rounds_to_fesam", "cg_ms",
    "direct_ms",
)  # fmt: skip


def lean_row(result: CaseResult) -> CaseResult:
    """A row with the figures of the decomposition papers alone, without curves and pictures."""
    return CaseResult(
        result.case,
        result.method,
        {name: result.figures[name] for name in _SHOWN if name in result.figures},
    )


def find_cases(
    request: Request, wanted: Sequence[str], example: str = "horse_gallop/30"
) -> tuple[list[Case], list[str]]:
    """The cases there is data for. One that was asked for by name must be there; of the usual ones
    the missing are noted.
    """
    folder = data_folder(request.data) / "sequences"
    cases, missing = [], []
    for name in request.cases or wanted:
        sequence, _, bones = name.partition(":")[0].rpartition("/")
        if not sequence or not bones.isdigit() or int(bones) < 1:
            raise InputError(f"case {name!r}: expected sequence/bones, for example {example}")
        file = folder / f"{sequence}.npz"
        if file.is_file():
            cases.append(Case(name, file, int(bones)))
        elif request.cases:
            raise FileError(
                f"{file}: no such file; the case {name!r} needs it. Point --data or "
                f"UNDERSTUDY_DATA at the folder above sequences/"
            )
        else:
            missing.append(name)
    if not cases:
        raise FileError(
            f"{folder}: holds none of the sequences of this benchmark; point --data or "
            f"UNDERSTUDY_DATA at the real data"
        )
    return cases, [f"No data for {', '.join(missing)} in {folder}: left out."] if missing else []


def _run_case(
    case: Case, methods: Sequence[str], request: Request, repeats: int, slow_s: float
) -> list[CaseResult]:
    """Every method on one case, interleaved."""
    poses = read_sequence(case.file)
    took: dict[str, list[float]] = {name: [] for name in methods}
    peak: dict[str, float] = {}
    files = {
        name: request.out / f"{case.name.replace('/', '_').replace(':', '_')}_{name}.understudy"
        for name in methods
    }
    for round_number in range(repeats):
        for name in methods:
            done = machine.isolated(
                fit_case, name, case.file, case.bones, case.influences, files[name], request.seed
            )
            took[name].append(done.value)
            peak[name] = max(done.peak_mb, peak.get(name, 0.0))
        if round_number == 0 and sum(times[0] for times in took.values()) > slow_s:
            break
    reference = Reference.of(case.name, poses)
    results = []
    for name in methods:
        deformer = Deformer.load(files[name])
        figures = {**deformer_figures(deformer), "fit_s": min(took[name]), "peak_mb": peak[name]}
        if name == "ssdr-affine" and case.name in KNOWN_E:
            figures["paper_e"] = KNOWN_E[case.name]
        pictured = results[0].worst_pose if results else None
        results.append(measure(name, deform_clips(deformer), reference, figures, pictured))
    return _with_ratios(results)


def fit_case(
    method: str, file: Path, bones: int, influences: int | None, out: Path, seed: int
) -> float:
    """In a process of its own: read, fit, write; returns the seconds of the fit alone."""
    poses = read_sequence(file)
    if method == PEER:
        deformer, seconds = fit_dem_bones(poses, bones, influences)
    else:
        from understudy.methods.fitting import fit_sequence

        # What a first call loads and compiles is no part of the fit; Dem Bones is imported before
        # its clock starts, too.
        importlib.import_module("understudy.methods.decomposition.ssdr")
        started = time.perf_counter()
        deformer = fit_sequence(
            poses,
            "ssdr",
            bones=bones,
            influences=influences,
            transforms=method.removeprefix("ssdr-"),
            seed=seed,
        )
        seconds = time.perf_counter() - started
    deformer.save(out)
    return seconds


def fit_dem_bones(poses: Poses, bones: int, influences: int | None) -> tuple[Deformer, float]:
    """The peer with its own defaults, as a `Deformer`: Dem Bones' transforms take rest to world, so
    its bones rest at the identity.
    """
    from py_dem_bones import solve_skinning

    vertices, rest = poses.vertices.astype(np.float64), poses.mesh.vertices.astype(np.float64)
    faces = list(np.split(poses.mesh.polygon_vertices, np.cumsum(poses.mesh.polygon_sizes)[:-1]))
    started = time.perf_counter()
    solved = solve_skinning(rest, vertices, bones, faces=faces, max_influences=influences or bones)
    seconds = time.perf_counter() - started
    weights = solved.weights.T
    most = max(1, int((weights > 0).sum(axis=1).max()))
    index = np.argsort(-weights, axis=1, kind="stable")[:, :most]
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
    """Our rows beside the peer's: time and E over Dem Bones'."""
    from dataclasses import replace

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
    row = {(r.case, r.method): r.figures for r in results}
    for case in dict.fromkeys(r.case for r in results):
        affine, rigid = row.get((case, "ssdr-affine")), row.get((case, "ssdr-rigid"))
        if affine and "paper_e" in affine:
            yield (
                f"{case}: ssdr-affine's E is {affine['e']:.3g}; Le & Deng's own "
                f"{affine['paper_e']:g}"
            )
        if rigid and "error_ratio" in rigid:
            yield (
                f"{case}: ssdr-rigid has {rigid['error_ratio']:.2f} x the error of Dem Bones in "
                f"{rigid['time_ratio']:.2f} x its time"
            )


def _write_reports(cases: Sequence[Case], results: Sequence[CaseResult], request: Request) -> None:
    """One page per sequence: pictures, curves and figures of all its cases."""
    for file in dict.fromkeys(case.file for case in cases):
        names = {case.name for case in cases if case.file == file}
        write_sequence_report(
            file, [r for r in results if r.case in names], request, "bench decompose"
        )


def write_sequence_report(
    file: Path, results: Sequence[CaseResult], request: Request, command: str
) -> None:
    """The report of one sequence's rows."""
    write_poses_report(read_sequence(file), file.stem, results, request, command)


def write_poses_report(
    poses: Poses, title: str, results: Sequence[CaseResult], request: Request, command: str
) -> None:
    """The report of rows that approximate the same poses."""
    mesh = poses.mesh
    data = ReportData(
        title=title,
        mesh=mesh,
        unit=mesh.unit,
        height=mesh.height,
        results=results,
        machine=machine.describe(),
        notes=[
            "Every row approximates the very sequence it was fitted to: these are errors of "
            "compression."
        ],
        provenance={
            "understudy": __version__,
            "command": f"understudy {command} ({request.size})",
            "seed": request.seed,
        },
    )
    write_report(request.out / f"{title}.html", data)


def plot_rows(path: Path, results: Sequence[CaseResult], known: dict[str, float]) -> None:
    """E and seconds of every case, methods side by side, the published E as a line."""
    from matplotlib.figure import Figure

    cases, methods = (
        list(dict.fromkeys(r.case for r in results)),
        list(dict.fromkeys(r.method for r in results)),
    )
    row = {(r.case, r.method): r.figures for r in results}
    figure = Figure(figsize=(max(6, 0.9 * len(cases)), 6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    place = np.arange(len(cases))
    for number, method in enumerate(methods):
        at = place + (number - (len(methods) - 1) / 2) * 0.8 / len(methods)
        for axes, name in ((top, "e"), (bottom, "fit_s")):
            heights = [row.get((case, method), {}).get(name, np.nan) for case in cases]
            axes.plot(at, heights, "o", label=method)
    for at, case in zip(place, cases):
        if case in known:
            top.hlines(
                known[case],
                at - 0.4,
                at + 0.4,
                color="black",
                label="Le & Deng" if case == next(c for c in cases if c in known) else None,
            )
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

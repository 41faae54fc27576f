"""`bench temporal`: mesh sequences to bones and weights without parameters: Tables 1 and 2, Figures
12 to 14 of Moutafidou et al.

A case is a sequence of the data folder (`horse_gallop`), the same with fewer vertices
(`horse_gallop:20`, a fifth of them), or an animation of a rigged character of its corpus, of a
family that no network was trained on (`corpus/animal_qfarm_Pig/2`). Methods:

    temporal            no options at all
    temporal-skeleton   one skeleton of rotations about fixed joints; as many bones as the skeletons
                        of Table 2, else as `temporal` found
    temporal-paper      five plain rounds from the network's weights, as many bones as `temporal`;
                        `-cnn` and `-hybrid` are the other networks
    fesam               FESAM-WT, fifteen rounds, as many bones and influences as `temporal`
    ssdr-affine         `ssdr` with the bones and influences of `temporal`
    ssdr-rigid          `ssdr` with rigid bones, with the bones and influences of
                        `temporal-skeleton`

Every row is fitted to the very sequence it is measured on. `rounds_to_fesam` is how many rounds on
all vertices a method makes before its error is below the one that fesam ends with; `true_bones` is
how many bones move a corpus character.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.sparse.csgraph import dijkstra

from understudy.benchmarks import Outcome, Request
from understudy.benchmarks.decompose import lean_row, write_poses_report
from understudy.benchmarks.real_data import data_folder
from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import FileError, InputError
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.progress import Progress
from understudy.evaluation import machine
from understudy.evaluation.measure import Reference, deform_clips, deformer_figures, measure
from understudy.evaluation.result import CaseResult
from understudy.geometry.adjacency import adjacency_matrix
from understudy.io.atomic_write import atomic_write
from understudy.io.sequences import read_sequence
from understudy.methods import method_type
from understudy.methods.decomposition import kernels
from understudy.methods.decomposition.alternating_solve import Fit, affine_bones
from understudy.methods.decomposition.motion import in_principal_directions, read_motion
from understudy.methods.decomposition.trajectory_networks.corpus import (
    HELD_OUT,
    corpus_files,
    family_of,
    read_characters,
)

FOUND, SKELETON = "temporal", "temporal-skeleton"
PAPER_NETWORKS = {
    "temporal-paper": "lstm",
    "temporal-paper-cnn": "cnn",
    "temporal-paper-hybrid": "hybrid",
}
METHODS = (FOUND, SKELETON, *PAPER_NETWORKS, "fesam", "ssdr-affine", "ssdr-rigid")
_CHARACTER_METHODS = (FOUND, "fesam", "ssdr-affine")
SEQUENCES = ("horse_gallop", "elephant_gallop", "samba")
# Published ERMS: of the paper itself with its bones; of its Table 1, Methods I to IV, I and II with
# SVD; of its Table 2, skeletons, with their bones.
_TABLE_1 = {"horse_gallop": (26, 0.15, (0.3, 2.9, 1.3, 2.4)), "elephant_gallop": (18, 0.35, (0.5,
6.5, 1.4, 2.3)),
            "samba": (17, 0.60, (3.6, 6.0, 1.5, 4.0))}  # fmt: skip
_TABLE_2 = {"horse_gallop": (27, (0.19, 0.44, 1.10, 0.88)), "samba": (22, (0.63, 1.29, 1.57, 1.79))}
SIZES = {
    "quick": ("horse_gallop:20",),
    "default": (*SEQUENCES, "horse_gallop:50", "horse_gallop:20", "corpus"),
    "full": (
        *SEQUENCES,
        *(f"{name}:{share}" for name in SEQUENCES for share in (50, 20)),
        "corpus-all",
    ),
}
_LESS_METHODS = (FOUND, SKELETON, "fesam", "ssdr-affine", "ssdr-rigid")
_EACH_FAMILY = 2  # characters of a family in the default size


@dataclass(frozen=True, eq=False)
class Case:
    """true_bones: None where nobody knows."""

    name: str
    poses: Poses
    true_bones: int | None = None

    @property
    def methods(self) -> tuple[str, ...]:
        if self.true_bones is not None:
            return _CHARACTER_METHODS
        return _LESS_METHODS if ":" in self.name else METHODS


def run(request: Request, progress: Progress) -> Outcome:
    quick = request.size == "quick"
    wanted = tuple(
        checks.one_of(name, "method of bench temporal", METHODS) for name in request.methods
    )
    names, notes = find_cases(request)
    results: list[CaseResult] = []
    with progress.task("temporal skinning", len(names)) as bar:
        for name in names:
            case = read_case(name, data_folder(request.data))
            methods = wanted or case.methods
            rows = _run_case(case, methods, request)
            results += rows
            bar.note(f"{name}: " + ", ".join(f"{r.method} {r.figures['erms']:.3g}" for r in rows))
            bar.advance()
            if not quick and case.true_bones is None:
                write_poses_report(
                    case.poses, case.name.replace(":", "_"), rows, request, "bench temporal"
                )
    lean = [lean_row(r) for r in results]
    return Outcome(lean, "units", [*notes, *_findings(lean)])


def find_cases(request: Request) -> tuple[list[str], list[str]]:
    """Names of the cases there is data for. One that was asked for by name must be there; of the
    usual ones the missing are noted.
    """
    folder = data_folder(request.data)
    if request.cases:
        return list(request.cases), []
    names, missing = [], []
    for name in SIZES[request.size]:
        if name.startswith("corpus"):
            try:
                names += list(_held_out(folder, None if name == "corpus-all" else _EACH_FAMILY))
            except FileError:
                missing.append("corpus")
        elif (folder / "sequences" / f"{name.partition(':')[0]}.npz").is_file():
            names.append(name)
        else:
            missing.append(name)
    if not names:
        raise FileError(
            f"{folder}: holds none of the sequences of this benchmark; point --data or "
            f"UNDERSTUDY_DATA at the real data"
        )
    return names, [f"No data for {', '.join(missing)} in {folder}: left out."] if missing else []


def _held_out(folder: Path, most: int | None) -> Iterator[str]:
    """The middle animation of characters of the families kept out of training, at most so many of a
    family.
    """
    count: dict[str, int] = {}
    for file in corpus_files(folder):
        family = family_of(file)[1]
        count[family] = count.get(family, 0) + 1
        if family in HELD_OUT and (most is None or count[family] <= most):
            animations = len(list(read_characters(file)))
            yield f"corpus/{file.stem}/{animations // 2}"


def read_case(name: str, folder: Path) -> Case:
    """A case by its name."""
    if name.startswith("corpus/"):
        _, _, rest = name.partition("/")
        stem, _, number = rest.rpartition("/")
        file = folder / "corpus" / f"{stem}.npz"
        if not stem or not number.isdigit():
            raise InputError(
                f"case {name!r}: expected corpus/character/animation, for example "
                f"corpus/animal_qfarm_Pig/2"
            )
        if not file.is_file():
            raise FileError(
                f"{file}: no such file; the case {name!r} needs it. Point --data or "
                f"UNDERSTUDY_DATA at the folder above corpus/"
            )
        characters = list(read_characters(file))
        checks.between(int(number), f"animation of {stem}", 0, len(characters) - 1)
        return Case(name, characters[int(number)].poses(), characters[int(number)].bones)
    sequence, _, share = name.partition(":")
    file = folder / "sequences" / f"{sequence}.npz"
    if share and (not share.isdigit() or not 1 <= int(share) <= 100):
        raise InputError(
            f"case {name!r}: expected sequence:percent of its vertices, for example horse_gallop:20"
        )
    if not file.is_file():
        raise FileError(
            f"{file}: no such file; the case {name!r} needs it. Point --data or UNDERSTUDY_DATA at "
            f"the folder above sequences/"
        )
    poses = read_sequence(file)
    return Case(name, decimated(poses, int(share) / 100) if share else poses)


def decimated(poses: Poses, share: float, seed: int = 0) -> Poses:
    """The sequence with a share of its vertices, drawn at random: every other vertex moves into the
    nearest kept one along the edges.
    """
    mesh = poses.mesh
    kept = np.sort(
        np.random.default_rng(seed).permutation(mesh.vertex_count)[
            : max(1, round(share * mesh.vertex_count))
        ]
    )
    length = (
        np.linalg.norm(mesh.vertices[mesh.edges[:, 0]] - mesh.vertices[mesh.edges[:, 1]], axis=1)
        + 1e-12
    )
    graph = adjacency_matrix(mesh.edges, mesh.vertex_count, length)
    nearest = dijkstra(
        graph, directed=False, indices=kept, min_only=True, return_predecessors=True
    )[2]
    number = np.full(mesh.vertex_count, -1)
    number[kept] = np.arange(len(kept))
    corners = number[np.where(nearest < 0, kept[0], nearest)][mesh.triangles]
    whole = (
        (corners[:, 0] != corners[:, 1])
        & (corners[:, 1] != corners[:, 2])
        & (corners[:, 2] != corners[:, 0])
    )
    small = Mesh.from_faces(
        mesh.vertices[kept], np.unique(corners[whole], axis=0), unit=mesh.unit, up_axis=mesh.up_axis
    )
    return replace(poses, mesh=small, vertices=poses.read_vertices(kept))


def _run_case(case: Case, methods: Sequence[str], request: Request) -> list[CaseResult]:
    """The methods that are told the number of bones are told the one that `temporal` found, so it
    runs first, asked for or not.
    """
    stem = case.name.replace("/", "_").replace(":", "_")
    reference = Reference.of(case.name, case.poses)
    rows: dict[str, CaseResult] = {}
    curves: dict[str, list[float]] = {}
    found: dict[str, int] = {}
    sequence = case.name.partition(":")[0]
    for name in sorted({FOUND, *methods}, key=METHODS.index):
        skeleton = name in (SKELETON, "ssdr-rigid")
        bones = _TABLE_2[sequence][0] if skeleton and sequence in _TABLE_2 else found.get(FOUND)
        file = request.out / f"{stem}_{name}.understudy"
        done = machine.isolated(
            fit_case, name, case.name, data_folder(request.data), bones, file, request.seed
        )
        deformer = Deformer.load(file)
        figures = {
            **deformer_figures(deformer),
            "fit_s": done.value,
            "peak_mb": done.peak_mb,
            **_published(name, sequence if sequence == case.name else ""),
        }
        if name == FOUND:
            found[FOUND] = deformer.skeleton.bone_count
            if case.true_bones is not None:
                figures["true_bones"] = case.true_bones
        if "erms_curve" in deformer.provenance:
            curves[name] = list(deformer.provenance["erms_curve"])
        pictured = rows[FOUND].worst_pose if FOUND in rows else None
        rows[name] = measure(name, deform_clips(deformer), reference, figures, pictured)
    for name, curve in curves.items():
        if "fesam" in curves and name != "fesam":
            below = [number for number, erms in enumerate(curve) if erms <= curves["fesam"][-1]]
            if below:
                rows[name] = replace(
                    rows[name], figures={**rows[name].figures, "rounds_to_fesam": below[0]}
                )
    if case.true_bones is None and ":" not in case.name and len(curves) > 1:
        _plot_rounds(request.out / f"{stem}_rounds.png", case.name, curves)
        times = solver_times(case.poses, found[FOUND])
        rows[FOUND] = replace(rows[FOUND], figures={**rows[FOUND].figures, **times})
    return [rows[name] for name in methods]


def _published(method: str, sequence: str) -> dict[str, float]:
    if method == FOUND and sequence in _TABLE_1:
        bones, erms, rivals = _TABLE_1[sequence]
        return {"paper_bones": bones, "paper_erms": erms, "rival_erms": min(rivals)}
    if method == SKELETON and sequence in _TABLE_2:
        return {"paper_bones": _TABLE_2[sequence][0], "rival_erms": min(_TABLE_2[sequence][1])}
    return {}


def fit_case(
    method: str, case: str, folder: Path, bones: int | None, out: Path, seed: int
) -> float:
    """In a process of its own: read, fit, write; returns the seconds of the fit alone."""
    poses = read_case(case, folder).poses
    fit = fitter(method, bones, seed)
    started = time.perf_counter()
    deformer = fit(poses)
    seconds = time.perf_counter() - started
    deformer.save(out)
    return seconds


def fitter(method: str, bones: int | None, seed: int):
    """The method's fit, ready to be timed."""
    options: dict[str, Mapping] = {
        FOUND: {},
        SKELETON: {"bones": bones, "skeleton": True},
        "fesam": {"bones": bones},
        "ssdr-affine": {"bones": bones, "influences": 6},
        "ssdr-rigid": {"bones": bones, "influences": 6, "transforms": "rigid"},
        **{
            name: {"bones": bones, "fitting": "paper", "network": network}
            for name, network in PAPER_NETWORKS.items()
        },
    }
    kind = method_type(method.partition("-")[0])
    return kind(kind.Config(seed=seed, **options[method])).fit


def solver_times(poses: Poses, bones: int, repeats: int = 3) -> dict[str, float]:
    """Milliseconds to find all transformations for random weights, by conjugate gradients and
    directly (Figure 14): the best of some runs.
    """
    with kernels.own_threads():
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
        took: dict[str, list[float]] = {"conjugate_gradients": [], "direct": []}
        for _ in range(repeats):
            for solver, times in took.items():
                started = time.perf_counter()
                affine_bones(motion, fit, solver=solver)
                times.append(1000 * (time.perf_counter() - started))
    return {"cg_ms": min(took["conjugate_gradients"]), "direct_ms": min(took["direct"])}


def _findings(results: Sequence[CaseResult]) -> Iterator[str]:
    row = {(r.case, r.method): r.figures for r in results}
    known = [figures for (case, method), figures in row.items() if "true_bones" in figures]
    for case in dict.fromkeys(r.case for r in results):
        own, fesam, skeleton, rigid = (
            row.get((case, name)) for name in (FOUND, "fesam", SKELETON, "ssdr-rigid")
        )
        if own and fesam:
            yield (
                f"{case}: temporal has {own['erms'] / fesam['erms']:.2f} x the ERMS of FESAM-WT "
                f"with the same {own['bones']:.0f} bones"
            )
        if skeleton and rigid:
            yield (
                f"{case}: the skeleton has {skeleton['erms'] / rigid['erms']:.2f} x the ERMS of "
                f"ssdr-rigid with {skeleton['bones']:.0f} bones"
            )
    if known:
        close = sum(f["true_bones"] / 1.5 <= f["bones"] <= 1.5 * f["true_bones"] for f in known)
        yield (
            f"Unseen families: bones within a factor of 1.5 of the true number for {close} of "
            f"{len(known)} characters"
        )
        pairs = [
            (figures, row[case, "ssdr-affine"])
            for (case, method), figures in row.items()
            if "true_bones" in figures and (case, "ssdr-affine") in row
        ]
        better = sum(own["disper"] < other["disper"] for own, other in pairs)
        yield (
            f"Unseen families: DisPer below ssdr's with the same bones for {better} of "
            f"{len(pairs)} characters"
        )


def _plot_rounds(path: Path, case: str, curves: Mapping[str, Sequence[float]]) -> None:
    """ERMS after each round on all vertices (Figures 12 and 13)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for name, curve in curves.items():
        shown = curve[:16]
        axes.plot(range(len(shown)), shown, "o-", markersize=3.5, label=name)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.yaxis.set_minor_formatter(lambda y, _: f"{y:.2g}")
    axes.set_xlabel("rounds on all vertices")
    axes.set_ylabel("ERMS (hundredths of a model unit)")
    axes.set_title(f"{case}: error after each round")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    with atomic_write(path) as part:
        figure.savefig(part, format="png", dpi=120)

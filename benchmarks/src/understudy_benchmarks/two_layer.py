"""`bench two-layer`: the weight reductions on the sequences of Le & Deng 2013, Tables 2 and 3.

Paper: "Two-Layer Sparse Compression of Dense-Weight Blend Skinning". A case is `<sequence>/<bones>`
with an optional setting after a colon:

    horse_gallop/30           dense weights to 4 blending operations per vertex; also `:dense-4`
    horse_gallop/30:dense-8   dense weights to 8
    horse_gallop/30:8-4       8 bones per vertex to 4
    gt_lbs_wolf/21:own-4      the dense weights that the file itself has to 4

Two dense `ssdr` skins with affine bones are reduced. `dense` is the one that `two_layer` fits by
itself. `dense-paper` has bones that follow their own vertices more strongly, so that its weights
can be reduced; its error is about that of the paper's. Methods:

    two_layer, two_layer-ex                `dense` by our defaults: the weights alone, example poses
    two_layer-paper, two_layer-paper-ex    `dense-paper` by Algorithm 1 as published
    k_largest, smooth                      `dense-paper`, the weights alone
    geometry, poisson                      `dense-paper`, with the example poses
    ssdr-4, ssdr-8                         decompositions with that many bones per vertex
    dense, dense-paper, ssdr-8-paper       the skins before reduction

With --ablations, also `two_layer-paper-ex` with each departure of our defaults by itself
(`-exact`, `-search`, `-relocation`, `-pruning`, `-three`, `-fair`), and `two_layer-paper` and
`-paper-ex` with other numbers of virtual bones (`-m100`: Figures 6, 7 and 11).

Figures: `e`, `norm_distort`, and `delta_w` for methods that keep the skin's bones; `e_sphere` is E
with the rest pose in a unit sphere; `paper_e` and `paper_delta_w` are the paper's values.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.skin import Skin, skin_weights
from understudy.evaluation.measure import Reference, deform_clips, deformer_figures, measure
from understudy.evaluation.result import CaseResult
from understudy.geometry.error_norms import half_diagonal
from understudy.io.atomic_write import atomic_write
from understudy.io.npz import read_npz_skin
from understudy.io.registry import read_sequence
from understudy.jobs.reducing import skin_of_character
from understudy.methods import method_type
from understudy.methods.reducing import SkinReducer
from understudy.methods.sparse_skinning.dense import individual_of
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import Progress
from understudy_benchmarks import Outcome, Request
from understudy_benchmarks.isolation import isolated
from understudy_benchmarks.metrics import weight_error
from understudy_benchmarks.sequence_cases import Case, find_cases, lean_row, write_sequence_report

METHODS = (
    "two_layer",
    "two_layer-ex",
    "two_layer-paper",
    "two_layer-paper-ex",
    "k_largest",
    "smooth",
    "geometry",
    "poisson",
    "ssdr-4",
    "ssdr-8",
    "ssdr-8-paper",
    "dense",
    "dense-paper",
)
REDUCTIONS = METHODS[:8]
BY_POSES = ("geometry", "poisson")
# Departures of our defaults, each added to the published algorithm by itself.
ABLATIONS: dict[str, dict[str, Any]] = {
    "exact": {"dictionary": "exact", "undo": True},
    "search": {"reach": 20},
    "relocation": {"relocate": True, "finish": 40, "undo": True},
    "pruning": {"dictionary": "exact", "undo": True, "pruning": "cost"},
    "three": {"per_vertex": 3},
    "fair": {"smoothness": None, "detail": 0.5, "dictionary": "exact", "undo": True},
}
# Numbers of virtual bones of Figures 6, 7 and 11; the paper adds ten at a time.
GROWTH = (10, 20, 50, 100, 200, 500, 1000)
GROWN = ("two_layer-paper", "two_layer-paper-ex")
# `individual` of `ssdr` for `dense-paper`: with it, E of the dense skins and of `k_largest` of
# samba are about those of Table 3.
PAPER_INDIVIDUAL = 3e-3
# Setting -> bones per vertex before (None: dense weights), blending operations per vertex after.
SETTINGS: dict[str, tuple[int | None, int]] = {
    "dense-4": (None, 4),
    "dense-8": (None, 8),
    "8-4": (8, 4),
    "own-4": (None, 4),
}
_PICTURED = ("two_layer-ex", "two_layer-paper-ex", "ssdr-4", "dense")

# Table 3, E: 8 to 4 bones per vertex, dense to 4, SD with 4, dense to 8, SD with 8, dense SD. Each
# reduction: k-largest, smooth, two-layer without examples, geometry, Poisson, two-layer with
# examples.
_TABLE_3 = """
samba/10           10.6 11.5 5   9.4 10.5 4.8   11.8 12.7 4.8 10.5 11.6 4.7   5.7   5.1 5.3 4.8 4.8 5 4.8      4.9   4.8
samba/20           5.7 6.5 2.3   5 5.8 2.1      7.6 8.3 2.4 6.8 7.6 2         2.7   3.8 4.4 2 3.1 3.7 1.9      2.2   1.9
elephant_gallop/15 11.5 13.8 2.1 9.1 12.4 1.9   18.7 21.2 1.8 13.7 16.9 1.6   3.2   9 10.9 1.7 5.2 7.1 1.6     2     1.6
elephant_gallop/30 4.5 5.4 1     3.3 4.8 0.8    13 15.2 1.5 9.1 11.3 0.7      1.5   6.6 8.3 0.7 4.2 5.8 0.5    0.9   0.4
horse_gallop/15    9.5 10.3 2.6  7 8.2 2.3      20.7 23.5 2.4 10.1 11.5 2     3.2   5.9 6.9 1.9 3.9 4.7 1.9    2.5   1.9
horse_gallop/30    5.4 5.7 1.2   3.8 4.5 1      18.1 20.8 3.4 12.3 14.7 1.6   1.8   9.6 11.6 1.6 5.3 6.7 0.8   0.9   0.5
horse_collapse/20  12 13.4 3     7.2 9 2.1      17.9 20.3 3.5 11 13.5 2.1     3.2   8.4 10.5 1.9 4.2 5.5 1.4   1.9   1.3
horse_collapse/40  8.2 8.4 2.8   4.4 5.6 2      17.8 20 4.8 10.1 12.6 2.5     2.3   10.9 12.8 2.9 4.9 6.4 1.3  1.3   0.6
"""  # noqa: E501
_COLUMNS_3 = ("k_largest", "smooth", "two_layer", "geometry", "poisson", "two_layer-ex")
# Table 2, Delta_W in thousandths: 8 to 4, dense to 4, dense to 8. Each: k-largest, smooth,
# two-layer.
_TABLE_2 = """
samba/10           19.6 24.5 1.2   21.9 26.6 1.1     1.8 2.4 0.2
samba/20           14 18 1.7       18.1 22.2 2.4     5 6.5 0.9
elephant_gallop/15 16.4 24.5 0.5   30.3 42 0.8       8.1 12.1 0.3
elephant_gallop/30 12.8 20.1 0.6   25.9 34.4 1.3     10 14.6 0.5
horse_gallop/15    13 17.3 0.9     157.7 161.5 1.3   4.9 6.6 0.3
horse_gallop/30    7.3 9.6 0.8     23.1 29.6 2.4     9.1 12.4 0.9
horse_collapse/20  15.9 22.4 2.8   28.8 37 4         10.1 14.2 1.5
horse_collapse/40  10.8 14.7 3.3   23.6 29.4 5.1     11 14.6 2.7
"""
_COLUMNS_2 = ("k_largest", "smooth", "two_layer")


def _published() -> dict[tuple[str, str, str], dict[str, float]]:
    """The paper's figures by (sequence/bones, setting, method)."""
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    put = lambda *key, **figure: found.setdefault(key, {}).update(figure)
    for line in _TABLE_3.split("\n")[1:-1]:
        row, *cells = line.split()
        value = [float(cell) for cell in cells]
        for setting, first in (("8-4", 0), ("dense-4", 6), ("dense-8", 13)):
            for method, number in zip(_COLUMNS_3, value[first : first + 6]):
                put(row, setting, method, paper_e=number)
        for setting, method, number in (
            ("8-4", "ssdr-4", value[12]), ("dense-4", "ssdr-4", value[12]), ("8-4", "ssdr-8",
            value[19]), ("dense-8", "ssdr-8", value[19]),
            ("dense-4", "dense", value[20]), ("dense-8", "dense", value[20]),
        ):  # fmt: skip
            put(row, setting, method, paper_e=number)
    for line in _TABLE_2.split("\n")[1:-1]:
        row, *cells = line.split()
        value = [float(cell) for cell in cells]
        for setting, first in (("8-4", 0), ("dense-4", 3), ("dense-8", 6)):
            for method, number in zip(_COLUMNS_2, value[first : first + 3]):
                put(row, setting, method, paper_delta_w=number)
    for (row, setting, method), figures in list(found.items()):
        for ours in _PUBLISHED_AS.get(method, ()):
            put(row, setting, ours, **figures)
    return found


# Our rows that have the figures of a row of the paper beside them.
_PUBLISHED_AS = {
    "two_layer": ("two_layer-paper",),
    "two_layer-ex": ("two_layer-paper-ex",),
    "dense": ("dense-paper",),
    "ssdr-8": ("ssdr-8-paper",),
}
PUBLISHED = _published()
ROWS = tuple(dict.fromkeys(row for row, _, _ in PUBLISHED))
# Sequences that no constant was chosen on, with the numbers of bones of `bench decompose`.
UNSEEN = ("cow_elastic/24", "chicken/28")
OWN = ("gt_lbs_wolf/21:own-4", "gt_lbs_cheburashka/11:own-4")
CASES = (
    *ROWS,
    *UNSEEN,
    *OWN,
    *(f"{row}:{setting}" for setting in ("8-4", "dense-8") for row in ROWS),
)


@dataclass(frozen=True)
class _Size:
    """The size of a run.

    cases     names of the cases
    shares    parts of the largest sequence that the running time is measured on
    budget_s  cases that would start later are skipped and listed
    """

    cases: tuple[str, ...]
    shares: tuple[float, ...]
    budget_s: float


SIZES = {
    "quick": _Size(("cat_poses/10", "horse_gallop/15"), (), 30.0),
    "default": _Size(CASES, (0.125, 0.25, 0.5, 1.0), 800.0),
    "full": _Size(CASES, (0.125, 0.25, 0.5, 1.0), float("inf")),
}


def run(request: Request, progress: Progress) -> Outcome:
    """Run the benchmark: one row per case and method, and notes that compare them."""
    size = SIZES[request.size]
    known = (*METHODS, *ablation_rows())
    methods = tuple(
        checks.one_of(name, "method of bench two-layer", known) for name in request.methods
    ) or (known if request.ablations else METHODS)
    for name in request.cases:
        setting_of(name)
    cases, notes = find_cases(request, size.cases, example="horse_gallop/30:dense-8")
    inputs = _Inputs(request, progress)
    results: list[CaseResult] = []
    started, left_out = time.perf_counter(), []
    with progress.task("reducing", len(cases)) as bar:
        for case in cases:
            if time.perf_counter() - started > size.budget_s and not request.cases:
                left_out.append(case.name)
            else:
                results += _run_case(case, methods, inputs, request)
            bar.advance()
    if left_out:
        notes.append(
            f"Skipped, because the time limit was reached (--full or --cases runs them): "
            f"{', '.join(left_out)}"
        )
    for file in dict.fromkeys(case.file for case in cases):
        names = {case.name for case in cases if case.file == file}
        rows = [r for r in results if r.case in names]
        if rows:
            write_sequence_report(file, rows, request, "bench two-layer")
    lean = [lean_row(r) for r in results]
    plot_growth(request.out / "objective_and_error.png", lean)
    timed = [name for name in ("two_layer-paper", "two_layer-paper-ex") if name in methods]
    if size.shares and timed and not request.cases:
        notes += _running_time(cases, timed, size.shares, inputs, request, progress)
    return Outcome(lean, "units", [*notes, *_findings(lean)])


def ablation_rows() -> tuple[str, ...]:
    """The rows of --ablations."""
    grown = (f"{method}-m{count}" for count in GROWTH for method in GROWN)
    return (*(f"two_layer-paper-ex-{name}" for name in ABLATIONS), *grown)


def setting_of(case: str) -> str:
    """The setting of a case: the part after its colon.

    >>> setting_of("horse_gallop/30"), setting_of("horse_gallop/30:8-4")
    ('dense-4', '8-4')
    """
    _, colon, setting = case.partition(":")
    return (
        checks.one_of(setting, "setting (after the colon of a case)", SETTINGS)
        if colon
        else "dense-4"
    )


class _Inputs:
    """Sequences and their `ssdr` skins, each read or fitted when first needed.

    A skin is fitted in its own process, so that its peak memory can be measured.
    """

    def __init__(self, request: Request, progress: Progress):
        self.request, self.progress = request, progress
        self._poses: dict[Path, Poses] = {}
        self._fits: dict[tuple[Any, ...], tuple[Deformer, dict[str, float]]] = {}

    def poses(self, case: Case) -> Poses:
        if case.file not in self._poses:
            self._poses = {case.file: read_sequence(case.file)}  # keep one: they are large
        return self._poses[case.file]

    def ssdr(
        self, case: Case, influences: int | None, individual: float | None = None
    ) -> tuple[Deformer, dict[str, float]]:
        """The skin of `ssdr` with an option `individual`; None: the default of the method."""
        key = (case.file, case.bones, influences, individual)
        if key not in self._fits:
            kind = "dense" if influences is None else str(influences)
            out = self.request.out / (
                f"{case.file.stem}_{case.bones}_ssdr-{kind}_{individual}.understudy"
            )
            options = {"bones": case.bones, "influences": influences, "individual": individual}
            took = isolated(_fit_ssdr, case.file, {**options, "seed": self.request.seed}, out)
            self._fits[key] = (Deformer.load(out), {"fit_s": took.value, "peak_mb": took.peak_mb})
        return self._fits[key]

    def source(
        self, case: Case, influences: int | None, paper: bool
    ) -> tuple[Deformer, dict[str, float]]:
        """The skin that is reduced: the file's own, ours, or with the paper's conditioning."""
        if setting_of(case.name).startswith("own"):
            return skin_of_character(read_npz_skin(case.file)).deformer, {}
        if paper:
            return self.ssdr(case, influences, PAPER_INDIVIDUAL)
        if influences is not None:
            return self.ssdr(case, influences)
        count = self.poses(case).vertex_count
        return self.ssdr(case, None, individual_of(count, case.bones))


def _fit_ssdr(file: Path, options: Mapping[str, Any], out: Path) -> float:
    """Fit `ssdr` to a sequence, save it as `out`, and return the seconds of the fit."""
    poses = read_sequence(file)
    ssdr = method_type("ssdr")
    started = time.perf_counter()
    deformer = ssdr(ssdr.Config(**options)).fit(poses)
    seconds = time.perf_counter() - started
    deformer.save(out)
    return seconds


def _run_case(
    case: Case, methods: Sequence[str], inputs: _Inputs, request: Request
) -> list[CaseResult]:
    """The rows of one case, one per method."""
    setting = setting_of(case.name)
    before, after = SETTINGS[setting]
    poses = inputs.poses(case)
    reference = Reference.of(case.name, poses)
    own = "dense" if before is None else f"ssdr-{before}"
    to_sphere = half_diagonal(poses.mesh.vertices) / _sphere_radius(poses.mesh.vertices)
    results, pictured = [], None
    for method in methods:
        if method in REDUCTIONS or method in ablation_rows():
            if "pruning" in method and before is None:
                continue  # an atom of dense weights may have all bones
            paper = method not in ("two_layer", "two_layer-ex")
            source = inputs.source(case, before, paper)[0]
            deformer, seconds = reduced(method, source, poses, after, request.seed)
            change = weight_error(_weight_map(source), _weight_map(deformer))
            figures = {"fit_s": seconds, "delta_w": 1000 * change, **_two_layer_figures(deformer)}
        elif method == "dense-paper" and setting.startswith("own"):
            continue  # the file has one skin
        elif method in (own, f"{own}-paper"):
            deformer, figures = inputs.source(case, before, method.endswith("-paper"))
        elif method == f"ssdr-{after}":
            deformer, figures = inputs.ssdr(case, after)
        else:
            continue  # the tables have no such row for this setting
        published = PUBLISHED.get((case.name.partition(":")[0], setting, method), {})
        result = measure(
            method,
            deform_clips(deformer),
            reference,
            {**deformer_figures(deformer), **figures, **published},
            pictured,
        )
        result = replace(
            result, figures={**result.figures, "e_sphere": to_sphere * result.figures["e"]}
        )
        pictured = result.pictured if pictured is None else pictured
        # The report shows pictures of a few rows and the figures of all.
        results.append(
            result if method in _PICTURED else CaseResult(case.name, method, result.figures)
        )
    if not results:
        raise InputError(
            f"{case.name}: the setting {setting!r} has no row for {', '.join(methods)}; choose "
            f"other methods"
        )
    return results


def _two_layer_figures(deformer: Deformer) -> dict[str, float]:
    """Delta_E and the memory overhead of Fig. 11, for a skin of two layers."""
    training, found = deformer.training, {}
    if "memory_overhead_pct" in training:
        found["memory_pct"] = float(training["memory_overhead_pct"])
    if "e_dense" in training:
        above = float(training["e"]) ** 2 - float(training["e_dense"]) ** 2
        found["delta_e"] = max(0.0, above) ** 0.5
    return found


def reduced(
    method: str, source: Deformer, poses: Poses, influences: int, seed: int
) -> tuple[Deformer, float]:
    """A skin reduced to `influences` blending operations per vertex, and the seconds it took."""
    name, *variant = method.split("-")
    kind = method_type(name)
    assert issubclass(kind, SkinReducer)
    examples = name in BY_POSES or "ex" in variant
    if kind.name == "two_layer":
        options: dict[str, Any] = {"bones_per_vertex": float(influences), "examples": examples}
        last = variant[-1] if variant else ""
        options |= ABLATIONS.get(last, {})
        if last[:1] == "m" and last[1:].isdigit():
            options["virtual_bones"] = int(last[1:])
        preset = "paper" if "paper" in variant else "default"
        config = kind.Config.of_preset(preset, seed=seed, **options)
    else:
        config = kind.Config(influences=influences, seed=seed)
    started = time.perf_counter()
    deformer = kind(config).reduce(source, None, poses.vertices if examples else None)
    return deformer, time.perf_counter() - started


def _skin(deformer: Deformer) -> Skin:
    assert deformer.skin is not None  # of every method here
    return deformer.skin


def _weight_map(deformer: Deformer) -> sp.csr_matrix:
    """The weights of a deformer over its bones, (V,B)."""
    assert deformer.skeleton is not None  # a skin has one
    return skin_weights(_skin(deformer), deformer.skeleton.bone_count)


def _running_time(
    cases: Sequence[Case],
    methods: Sequence[str],
    shares: Sequence[float],
    inputs: _Inputs,
    request: Request,
    progress: Progress,
) -> list[str]:
    """Figure 9 of the paper: the running time against the number of vertices, as sentences.

    Measured on parts of the largest sequence with the same bones.
    """
    case = max(
        (c for c in cases if setting_of(c.name) == "dense-4"),
        key=lambda c: (c.file.stat().st_size, -c.bones),
        default=None,
    )
    if case is None:
        return []
    source, _ = inputs.source(case, None, paper=True)
    poses = inputs.poses(case)
    points: dict[str, list[tuple[int, float]]] = {method: [] for method in methods}
    with progress.task(f"running time against n, on parts of {case.name}", len(shares)) as bar:
        for share in shares:
            part, part_poses = cut(source, poses, share)
            for method in methods:
                points[method].append(
                    (part.mesh.vertex_count, reduced(method, part, part_poses, 4, request.seed)[1])
                )
            bar.advance()
    _plot_times(request.out / "running_time.png", points, case)
    notes = []
    for method, pairs in points.items():
        n, seconds = np.array(pairs, float).T
        slope = float(np.polyfit(np.log(n), np.log(np.maximum(seconds, 1e-6)), 1)[0])
        spelled = ", ".join(f"{int(count)}: {took:.2f} s" for count, took in pairs)
        notes.append(
            f"{method} on parts of {case.name}, seconds by vertices: {spelled}; grows as n to the "
            f"power {slope:.2f}"
        )
    return notes


def cut(deformer: Deformer, poses: Poses, share: float) -> tuple[Deformer, Poses]:
    """A part of a character that holds `share` of its vertices, with the same bones and weights.

    The part is one end of the character along its longest side.
    """
    mesh = poses.mesh
    axis = int(np.ptp(mesh.vertices, axis=0).argmax())
    keep = np.sort(
        np.argsort(mesh.vertices[:, axis], kind="stable")[
            : max(3, round(share * mesh.vertex_count))
        ]
    )
    new = np.full(mesh.vertex_count, -1)
    new[keep] = np.arange(len(keep))
    faces = new[mesh.triangles]
    small = Mesh.from_faces(mesh.vertices[keep], faces[(faces >= 0).all(axis=1)])
    whole = _skin(deformer)
    skin = Skin(whole.bone_index[keep], whole.weight[keep])
    return replace(deformer, mesh=small, skin=skin), Poses(
        small, poses.read_vertices(keep), name=poses.name, spans=poses.spans
    )


def _plot_times(path: Path, points: dict[str, list[tuple[int, float]]], case: Case) -> None:
    from matplotlib.figure import Figure  # an optional dependency

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for method, pairs in points.items():
        axes.plot(*zip(*pairs), marker="o", label=method)
    axes.set(
        xlabel="vertices n",
        ylabel="seconds",
        title=f"Two-layer compression, parts of {case.name}, dense to 4",
    )
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.legend()
    axes.grid(alpha=0.3)
    with atomic_write(path) as part:
        figure.savefig(part, format="png", dpi=150)


def plot_growth(path: Path, results: Sequence[CaseResult]) -> None:
    """Figure 7 of the paper: E against the objective while virtual bones are added, if measured."""
    points: dict[str, list[tuple[float, float]]] = {}
    for r in results:
        name, mark, count = r.method.rpartition("-m")
        if mark and count.isdigit() and name in GROWN:
            objective = r.figures["delta_e" if name.endswith("-ex") else "delta_w"]
            points.setdefault(f"{r.case}, {name}", []).append((objective, r.figures["e"]))
    if not points:
        return
    from matplotlib.figure import Figure  # an optional dependency

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for label, pairs in points.items():
        axes.loglog(*zip(*sorted(pairs)), marker="o", label=label)
    axes.set(xlabel="objective (ΔW or ΔE, thousandths)", ylabel="E")
    axes.legend()
    axes.grid(alpha=0.3)
    with atomic_write(path) as part:
        figure.savefig(part, format="png", dpi=150)


def _findings(results: list[CaseResult]) -> Iterator[str]:
    """Sentences that compare the rows."""
    row = {(r.case, r.method): r.figures for r in results}
    for method in ("two_layer", "two_layer-ex"):
        small, large = row.get(("horse_gallop/30", method)), row.get(("elephant_gallop/30", method))
        if small and large:
            ratio = large["fit_s"] / small["fit_s"]
            yield (
                f"{method}: elephant_gallop/30 takes {ratio:.1f} x the time of horse_gallop/30, "
                f"with 5.0 x the vertices"
            )
    for case in dict.fromkeys(r.case for r in results):
        after = SETTINGS[setting_of(case)][1]
        paper, ours = row.get((case, "two_layer-paper-ex")), row.get((case, "two_layer-ex"))
        rivals = [m for m in ("k_largest", "smooth", "geometry", "poisson") if (case, m) in row]
        if paper and rivals:
            best = min(rivals, key=lambda m: row[case, m]["e"])
            relation = "below" if paper["e"] < row[case, best]["e"] else "NOT below"
            yield (
                f"{case}: two_layer-paper-ex, E {paper['e']:.3g}, is {relation} the best reduction "
                f"of the same skin ({best}, {row[case, best]['e']:.3g})"
            )
        for name in ("two_layer-paper", "two_layer-paper-ex"):
            figures = row.get((case, name))
            if figures and "paper_e" in figures:
                share = 100 * (figures["e"] / figures["paper_e"] - 1)
                yield (
                    f"{case}: {name}, E {figures['e']:.3g}, differs from the published E by "
                    f"{share:+.0f} %"
                )
        direct = row.get((case, f"ssdr-{after}"))
        if ours and direct:
            for figure, label in (("e", "E"), ("norm_distort", "NormDistort")):
                relation = "below" if ours[figure] < direct[figure] else "NOT below"
                yield (
                    f"{case}: two_layer-ex, {label} {ours[figure]:.3g}, is {relation} ssdr-{after} "
                    f"({direct[figure]:.3g}), the same number of blending operations"
                )


def _sphere_radius(points: np.ndarray) -> float:
    """The radius of a sphere around points (V,3), to 0.1 %; 1.0 if all points coincide.

    Badoiu & Clarkson 2003: the centre moves towards the farthest point, by ever smaller steps.

    >>> round(_sphere_radius(np.array([[0, 0, 0], [3, 4, 0], [1, 1, 0]])), 2)
    2.5
    """
    points = np.asarray(points, np.float64)
    centre = (points.min(axis=0) + points.max(axis=0)) / 2
    radius = np.inf
    for number in range(1000):
        away = np.linalg.norm(points - centre, axis=1)
        radius = min(radius, float(away.max()))
        centre = centre + (points[away.argmax()] - centre) / (number + 2)
    return radius or 1.0

"""Write the benchmark figures of the documents from `benchmarks/results/*.json`.

    python benchmarks/write_tables.py          rewrite docs/benchmarks.md, README.md, ...
    python benchmarks/write_tables.py --check  exit with an error if they disagree with the results

The results come from `understudy bench NAME --json benchmarks/results/NAME.json`. Two kinds of
markers, invisible in rendered Markdown, say where figures go:

    <!-- bench body --> ... <!-- end body -->        a whole table, in docs/benchmarks.md
    <!-- number cmu_mm -->0.23<!-- end -->           one number, in README.md (see NUMBERS below)
    NAME = 0.23  # number cmu_mm                     the same in Python, for `understudy demo`
    <!-- tuning --> ... <!-- end tuning -->          which data chose which constant, in
                                                     notes/tuning.md (`benchmarks.tuning`)
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import fmean

from understudy.evaluation.metric_catalogue import digits3, metric_of
from understudy_benchmarks.tuning import is_tuned, tuning_table

sys.path.insert(0, str(Path(__file__).resolve().parent))
import paper_tables

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"

TUNED = " \\*"  # marks a row that took part in choosing a constant of its method
TUNED_NOTE = (
    "\\* The row took part in choosing a constant of its method: "
    "[notes/tuning.md](../notes/tuning.md)."
)

Rows = dict[tuple[str, str], dict[str, float]]

# Tables with a row for each case and method. Benchmark -> columns (metric: header), methods.
LONG = {
    "body": (
        {
            "mean": "mean (cm)",
            "p99": "p99 (cm)",
            "max": "max (cm)",
            "mean_pct": "mean (% of height)",
            "ee": "EE (%)",
            "seam": "seam (cm)",
            "bytes": "MB",
            "ms_1": "one pose (ms)",
            "fit_s": "fit (s)",
        },
        (
            "corrected_skin",
            "fdda",
            "fdda-open",
            "fdda-adamw",
            "fdda-paper",
            "fdda-paper-eq8",
            "differential",
            "local",
            "linear",
            "lbs-4",
            "lbs-all",
            "lbs-all-ontest",
            "rotational_regression-15-ontest",
            "wpsd-100-ontest",
        ),
    ),
    "face": (
        {
            "mean_pct": "mean (% of height)",
            "max_pct": "max (% of height)",
            "mean": "mean",
            "p99": "p99",
            "max": "max",
            "bytes": "MB",
            "ms": "one pose (ms)",
            "fit_s": "fit (s)",
        },
        (
            "differential",
            "local",
            "differential-paper",
            "local-paper",
            "differential-paper-early",
            "local-paper-early",
            "pca_regression",
            "lbs-4",
            "kpsa",
        ),
    ),
    "blender": (
        {
            "mean": "mean (m)",
            "p99": "p99 (m)",
            "max": "max (m)",
            "ms_1": "one pose (ms)",
            "speedup_2": "two workers / one",
            "bytes": "MB",
            "fit_s": "fit (s)",
        },
        ("understudy", "lbs-4", "blender"),
    ),
    "recorded": (
        {
            "mean": "mean (m)",
            "p99": "p99 (m)",
            "max": "max (m)",
            "ee": "EE (%)",
            "bytes": "MB",
            "fit_s": "fit (s)",
        },
        ("auto", "corrected_skin", "differential", "fdda", "lbs-4"),
    ),
    "auto": (
        {
            "kept": "kept",
            "cost_ratio": "cost / best",
            "time_share": "time / sweep",
            "mean": "mean (model units)",
            "bytes": "MB",
            "ms_1": "one pose (ms)",
        },
        ("auto",),
    ),
    "web": (
        {
            "ms_1": "one pose (ms)",
            "ms_p99_1": "p99 (ms)",
            "max_pct": "largest difference from NumPy (% of height)",
        },
        ("wasm", "wasm-portable", "native"),
    ),
    "scale": (
        {
            "quiet_s": "alone (s)",
            "busy_s": "beside a busy loop (s)",
            "sample_s": "sample (s)",
            "fit_s": "fit (s)",
            "evaluate_s": "evaluate (s)",
            "peak_mb": "peak of the memory (MB)",
            "disk_mb": "pose store (MB)",
        },
        ("one", "ray-1", "ray-2"),
    ),
    "runtime": (
        {
            "ms_1": "1 thread (ms)",
            "ms_2": "2 threads (ms)",
            "floor_ms_1": "memory floor, 1 thread (ms)",
            "floor_ms_2": "memory floor, 2 threads (ms)",
            "arithmetic_ms_1": "arithmetic, 1 thread (ms)",
            "ms_p99_1": "p99, 1 thread (ms)",
            "ms_p99_2": "p99, 2 threads (ms)",
            "crowd_ms_2": "crowd, 2 threads (ms)",
            "bytes": "MB read",
        },
        (
            "understudy",
            "understudy-fp16",
            "onnxruntime",
            "onnxruntime-nets",
            "torch",
            "corrected_skin",
            "rig",
            "two_layer",
            "two_layer-paper",
            "lbs-4",
            "lbs-all",
        ),
    ),
}
# Tables with a row for each case. Benchmark -> (method, metric, header) of each column.
WIDE = {
    "decompose": (
        ("ssdr-affine", "e", "`ssdr` E"),
        ("ssdr-affine", "paper_e", "Le & Deng E"),
        ("ssdr-affine", "fit_s", "fit (s)"),
        ("ssdr-rigid", "e", "`ssdr` rigid E"),
        ("dem-bones", "e", "Dem Bones E"),
        ("dem-bones", "bones", "Dem Bones bones"),
        ("ssdr-rigid", "norm_distort", "`ssdr` rigid NormDistort"),
        ("dem-bones", "norm_distort", "Dem Bones NormDistort"),
        ("ssdr-rigid", "fit_s", "`ssdr` rigid fit (s)"),
        ("dem-bones", "fit_s", "Dem Bones fit (s)"),
        ("ssdr-rigid", "time_ratio", "time ratio"),
    ),
    "temporal": (
        ("temporal", "bones", "bones found"),
        ("temporal", "true_bones", "bones of the rig"),
        ("temporal", "paper_bones", "bones in the paper"),
        ("temporal", "erms", "`temporal` ERMS"),
        ("temporal", "paper_erms", "paper ERMS"),
        ("fesam", "erms", "FESAM-WT ERMS"),
        ("ssdr-affine", "erms", "`ssdr` ERMS"),
        ("temporal-skeleton", "bones", "skeleton bones"),
        ("temporal-skeleton", "erms", "skeleton ERMS"),
        ("temporal-skeleton", "e", "skeleton E"),
        ("temporal-skeleton", "joints_found", "true joints found"),
        ("temporal-skeleton", "joints_outside", "joints outside"),
        ("temporal-skeleton", "fit_s", "skeleton fit (s)"),
        ("ssdr-rigid", "erms", "`ssdr` rigid ERMS"),
        ("temporal", "fit_s", "fit (s)"),
    ),
    "two-layer": (
        ("two_layer-ex", "e", "`two_layer` with examples E"),
        ("two_layer-ex", "norm_distort", "NormDistort"),
        ("ssdr-4", "e", "`ssdr`, 4 influences E"),
        ("ssdr-4", "norm_distort", "NormDistort"),
        ("dense", "e", "dense E"),
        ("two_layer-paper-ex", "e", "as published E"),
        ("two_layer-paper-ex", "norm_distort", "NormDistort"),
        ("two_layer-paper-ex", "paper_e", "paper E"),
        ("geometry", "e", "`geometry` E"),
        ("poisson", "e", "`poisson` E"),
        ("k_largest", "e", "`k_largest` E"),
        ("smooth", "e", "`smooth` E"),
        ("dense-paper", "e", "dense as in the paper E"),
    ),
}
# Clips that took no part in any choice on this character, with all controls at rest that skinning
# cannot follow. The motion of 126_03 took part in one choice, on another character.
CMU_CASES = ("skeleton/cmu_09_01", "skeleton/cmu_63_01", "skeleton/cmu_126_03")
DEFAULT = "corrected_skin"

# One figure of the results: benchmark, case, method, metric.
RIG = ("runtime", "human", "rig", "ms_1")
STAND_IN = ("runtime", "human", DEFAULT, "ms_1")

# Numbers for running text: name -> a function that returns the text.
NUMBERS: dict[str, Callable[[], str]] = {
    # Mean error on unseen motion capture, in millimetres and in per cent of the character's height,
    # and how many times smaller it is than that of lbs-4.
    "cmu_mm": lambda: f"{10 * cmu_average(DEFAULT, 'mean'):.2g}",
    "cmu_percent": lambda: f"{cmu_average(DEFAULT, 'mean_pct'):.2g}",
    "cmu_vs_lbs": lambda: f"{cmu_average('lbs-4', 'mean') / cmu_average(DEFAULT, 'mean'):.0f}",
    # One pose of the human on one thread: the rig and the stand-in.
    "human_rig_ms": lambda: f"{figure(*RIG):.0f}",
    "human_standin_ms": lambda: f"{figure(*STAND_IN):.2f}",
    # Size of the stand-in of the human in float32.
    "human_mb": lambda: f"{figure('body', 'human/walk', DEFAULT, 'bytes') / 1e6:.0f}",
}


@cache
def results(benchmark: str) -> dict:
    """The JSON of one benchmark."""
    return json.loads((RESULTS / f"{benchmark}.json").read_text(encoding="utf-8"))


def rows_of(benchmark: str) -> Rows:
    """(case, method) -> the metrics of that row."""
    return {(row["case"], row["method"]): row for row in results(benchmark)["rows"]}


def figure(benchmark: str, case: str, method: str, metric: str) -> float:
    """One number of a benchmark's results."""
    return rows_of(benchmark)[case, method][metric]


def cmu_average(method: str, metric: str) -> float:
    """A metric of `bench body`, averaged over the motion-capture clips."""
    return fmean(figure("body", case, method, metric) for case in CMU_CASES)


def table(benchmark: str) -> str:
    """One benchmark's rows as a Markdown table."""
    rows = rows_of(benchmark)
    cases = list(dict.fromkeys(case for case, _ in rows))
    lines = (long_table if benchmark in LONG else wide_table)(benchmark, cases, rows)
    machine = results(benchmark)["machine"]
    if any(is_tuned(benchmark, *row) for row in rows):
        lines.append(f"\n{TUNED_NOTE}")
    gpu = f" and a GPU\n({machine['gpu']})" if machine.get("gpu") else ""
    lines.append(
        f"\nMeasured by `understudy bench {benchmark}` on {machine['cores']} cores "
        f"({machine['cpu']}){gpu}."
    )
    if note := results(benchmark).get("note"):
        lines.append(note)
    return "\n".join(lines)


def long_table(benchmark: str, cases: list[str], rows: Rows) -> list[str]:
    """A line for each case and method, a column for each metric."""
    columns, methods = LONG[benchmark]
    lines = [
        "| case | method | " + " | ".join(columns.values()) + " |",
        "| --- | --- |" + " ---: |" * len(columns),
    ]
    for case in cases:
        for method in methods:
            if (case, method) in rows:
                cells = " | ".join(cell(rows[case, method], metric) for metric in columns)
                mark = TUNED if is_tuned(benchmark, case, method) else ""
                lines.append(f"| {case} | `{method}`{mark} | {cells} |")
    return lines


def wide_table(benchmark: str, cases: list[str], rows: Rows) -> list[str]:
    """A line for each case, a column for each chosen method and metric."""
    columns = WIDE[benchmark]
    lines = [
        "| case | " + " | ".join(header for _, _, header in columns) + " |",
        "| --- |" + " ---: |" * len(columns),
    ]
    for case in cases:
        cells = " | ".join(
            tuned_cell(benchmark, case, method, cell(rows.get((case, method), {}), metric))
            for method, metric, _ in columns
        )
        lines.append(f"| {case} | {cells} |")
    return lines


def tuned_cell(benchmark: str, case: str, method: str, text: str) -> str:
    """A cell of a wide table, marked if its row took part in choosing a constant."""
    return f"{text}{TUNED}" if text and is_tuned(benchmark, case, method) else text


def cell(row: dict[str, float], metric: str) -> str:
    """A metric as the tables show it: counts whole, sizes in MB, all else to three digits."""
    if metric not in row:
        return ""
    if metric_of(metric).unit == "count":
        return f"{row[metric]:.0f}"
    return digits3(row[metric] / (1e6 if metric == "bytes" else 1))


def with_tables(text: str) -> str:
    """The text with every table between its markers written anew."""
    for benchmark in (*LONG, *WIDE):
        start, end = f"<!-- bench {benchmark} -->", f"<!-- end {benchmark} -->"
        if not (RESULTS / f"{benchmark}.json").exists():
            continue
        before, rest = text.split(start)
        text = f"{before}{start}\n{table(benchmark)}\n{end}{rest.split(end)[1]}"
    return text


def with_tuning(text: str) -> str:
    """The text with the list of constants that data chose written anew."""
    start, end = "<!-- tuning -->", "<!-- end tuning -->"
    before, rest = text.split(start)
    return f"{before}{start}\n{tuning_table()}\n{end}{rest.split(end)[1]}"


def with_numbers(text: str) -> str:
    """The text with every marked number written anew."""

    def written(match: re.Match) -> str:
        name = match["name"]
        if name not in NUMBERS:
            sys.exit(f"unknown number {name!r} in a marker; known: {', '.join(NUMBERS)}")
        return f"{match['start']}{NUMBERS[name]()}{match['end']}"

    # A line may break anywhere inside a marker.
    return re.sub(
        r"(?P<start><!--\s+number\s+(?P<name>\w+)\s+-->).*?(?P<end><!--\s+end\s+-->)",
        written,
        text,
        flags=re.DOTALL,
    )


def with_constants(text: str) -> str:
    """The source with every marked constant written anew."""
    return re.sub(
        r"^(?P<start>\w+ = ).*(?P<end>  # number (?P<name>\w+))$",
        lambda match: f"{match['start']}{NUMBERS[match['name']]()}{match['end']}",
        text,
        flags=re.MULTILINE,
    )


def main() -> None:
    check = "--check" in sys.argv
    for document, written in (
        ("docs/benchmarks.md", with_tables),
        ("notes/tuning.md", with_tuning),
        ("docs/papers.md", paper_tables.with_papers),
        ("README.md", with_numbers),
        ("src/understudy/cli/demo.py", with_constants),
    ):
        path = ROOT / document
        before = path.read_text(encoding="utf-8")
        after = written(before)
        if check and before != after:
            sys.exit(
                f"{document} disagrees with benchmarks/results: "
                "run python benchmarks/write_tables.py"
            )
        if not check:
            path.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()

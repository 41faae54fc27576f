"""Writes the tables of README.md from the JSON that `understudy bench NAME --json
benchmarks/results/NAME.json` printed.

    python benchmarks/readme_tables.py          rewrite README.md
    python benchmarks/readme_tables.py --check  exit 1 if README.md is not what the results say (the
                                                tests run this)

So that no figure in README.md is ever typed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from understudy.evaluation.metric_catalogue import digits3, figure_of

ROOT = Path(__file__).resolve().parents[1]
# Tables with a row for each case and method: benchmark -> (columns: figure, header), (rows:
# methods)
LONG = {
    "body": (
        {
            "mean": "mean (cm)",
            "p99": "p99 (cm)",
            "max": "max (cm)",
            "mean_pct": "mean (% of height)",
            "ee": "EE",
            "seam": "seam (cm)",
            "bytes": "MB",
            "fit_s": "fit (s)",
        },
        (
            "fdda",
            "fdda-open",
            "differential",
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
            "mean": "mean (its unit)",
            "p99": "p99 (its unit)",
            "max": "max (its unit)",
            "bytes": "MB",
            "ms": "one pose (ms)",
            "fit_s": "fit (s)",
        },
        ("differential", "differential-paper", "local", "pca_regression", "lbs-4", "kpsa"),
    ),
    "runtime": (
        {
            "ms_1": "1 thread (ms)",
            "ms_2": "2 threads (ms)",
            "floor_ms_1": "floor, 1 thread (ms)",
            "floor_ms_2": "floor, 2 threads (ms)",
            "arithmetic_ms_1": "arithmetic, 1 thread (ms)",
            "ms_p99_1": "p99, 1 thread (ms)",
            "ms_p99_2": "p99, 2 threads (ms)",
            "crowd_ms_2": "of a crowd, 2 threads (ms)",
            "bytes": "MB read",
        },
        (
            "understudy",
            "understudy-fp16",
            "onnxruntime",
            "torch",
            "rig",
            "two_layer",
            "lbs-4",
            "lbs-all",
        ),
    ),
}
# Tables with a row for each case: benchmark -> (method, figure, header) of each column
WIDE = {
    "decompose": (
        ("ssdr-affine", "e", "`ssdr` E"),
        ("ssdr-affine", "paper_e", "Le & Deng E"),
        ("ssdr-affine", "fit_s", "fit (s)"),
        ("ssdr-rigid", "e", "`ssdr` rigid E"),
        ("dem-bones", "e", "Dem Bones E"),
        ("ssdr-rigid", "fit_s", "`ssdr` rigid fit (s)"),
        ("dem-bones", "fit_s", "Dem Bones fit (s)"),
        ("ssdr-rigid", "time_ratio", "time ratio"),
    ),
    "temporal": (
        ("temporal", "bones", "bones found"),
        ("temporal", "true_bones", "true bones"),
        ("temporal", "paper_bones", "paper's bones"),
        ("temporal", "erms", "`temporal` ERMS"),
        ("temporal", "paper_erms", "paper ERMS"),
        ("fesam", "erms", "FESAM-WT ERMS"),
        ("ssdr-affine", "erms", "`ssdr` ERMS"),
        ("temporal-skeleton", "bones", "skeleton's bones"),
        ("temporal-skeleton", "erms", "skeleton ERMS"),
        ("ssdr-rigid", "erms", "`ssdr` rigid ERMS"),
        ("temporal", "fit_s", "fit (s)"),
    ),
    "two-layer": (
        ("two_layer-ex", "e", "`two_layer` with examples"),
        ("two_layer-ex", "paper_e", "paper"),
        ("two_layer", "e", "`two_layer` without"),
        ("ssdr-4", "e", "`ssdr`, 4"),
        ("geometry", "e", "`geometry`"),
        ("poisson", "e", "`poisson`"),
        ("k_largest", "e", "`k_largest`"),
        ("smooth", "e", "`smooth`"),
        ("dense", "e", "dense"),
    ),
}


def table(name: str) -> str:
    """One benchmark's rows as Markdown."""
    content = json.loads(
        (ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8")
    )
    rows = {(row["case"], row["method"]): row for row in content["rows"]}
    cases = list(dict.fromkeys(case for case, _ in rows))
    shown = lambda value, c: (
        f"{value:.0f}"
        if figure_of(c).unit == "count"
        else digits3(value / (1e6 if c == "bytes" else 1))
    )
    cell = lambda figures, c: shown(figures[c], c) if c in figures else ""
    if name in LONG:
        columns, methods = LONG[name]
        lines = [
            "| case | method | " + " | ".join(columns.values()) + " |",
            "| --- | --- |" + " ---: |" * len(columns),
        ]
        for case in cases:
            for method in methods:
                if (case, method) in rows:
                    lines.append(
                        f"| {case} | `{method}` | "
                        + " | ".join(cell(rows[case, method], c) for c in columns)
                        + " |"
                    )
    else:
        columns = WIDE[name]
        lines = [
            "| case | " + " | ".join(header for _, _, header in columns) + " |",
            "| --- |" + " ---: |" * len(columns),
        ]
        for case in cases:
            lines.append(
                f"| {case} | "
                + " | ".join(
                    cell(rows.get((case, method), {}), figure) for method, figure, _ in columns
                )
                + " |"
            )
    machine = content["machine"]
    lines.append(f"\n(`understudy bench {name}` on {machine['cores']} cores, {machine['cpu']}.)")
    return "\n".join(lines)


def filled(text: str) -> str:
    """README with every table between its markers written anew; a benchmark without results yet has
    no table.
    """
    for name in (*LONG, *WIDE):
        if not (ROOT / "benchmarks" / "results" / f"{name}.json").exists():
            continue
        start, end = f"<!-- bench {name} -->", f"<!-- end {name} -->"
        head, rest = text.split(start)
        text = f"{head}{start}\n{table(name)}\n{end}{rest.split(end)[1]}"
    return text


if __name__ == "__main__":
    readme = ROOT / "README.md"
    before = readme.read_text(encoding="utf-8")
    after = filled(before)
    if "--check" in sys.argv:
        sys.exit(
            0
            if before == after
            else (
                "README.md does not show what benchmarks/results says: run python "
                "benchmarks/readme_tables.py"
            )
        )
    readme.write_text(after, encoding="utf-8")

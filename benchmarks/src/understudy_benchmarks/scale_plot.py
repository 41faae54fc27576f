"""The curves of `bench scale`: time, memory and disk against poses and against vertices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from understudy.evaluation.result import CaseResult
from understudy.io.atomic_write import atomic_write
from understudy_benchmarks.size_cases import STEPS, slope

# Kind of case, what its size is, and the axis.
_KINDS = (("astrid", "poses", "poses of 168,635 vertices"), ("vertices", "vertices", "vertices"))


def plot_sizes(rows: Sequence[CaseResult], out: Path) -> list[Path]:
    """Write `scale_poses.png` and `scale_vertices.png` for kinds with at least two cases."""
    files = []
    for kind, size, label in _KINDS:
        some = sorted(
            (row for row in rows if row.case.startswith(f"{kind}/")),
            key=lambda row: row.figures[size],
        )
        if len(some) > 1:
            files.append(out / f"scale_{size}.png")
            _plot(some, size, label, files[-1])
    return files


def _plot(rows: Sequence[CaseResult], size: str, label: str, path: Path) -> None:
    from matplotlib.figure import Figure  # optional dependency

    figure = Figure(figsize=(11, 3.8), layout="constrained")
    panels = figure.subplots(1, 3)
    sizes = [row.figures[size] for row in rows]
    for step in STEPS:
        times = [row.figures[f"{step}_s"] for row in rows]
        power = slope(sizes, [row.figures[f"{step}_cpu_s"] for row in rows])
        panels[0].plot(sizes, times, "o-", label=f"{step} (CPU time: power {power:.2f})")
        memory = [row.figures[f"{step}_peak_mb"] / 1e3 for row in rows]
        panels[1].plot(sizes, memory, "o-", label=step)
    disk = [row.figures["disk_mb"] / 1e3 for row in rows]
    panels[2].plot(sizes, disk, "o-", color="0.3", label=f"power {slope(sizes, disk):.2f}")
    for panel, title in zip(panels, ("time (s)", "peak of the memory (GB)", "pose store (GB)")):
        panel.set_xscale("log")
        panel.set_xlabel(label)
        panel.set_title(title)
        panel.grid(alpha=0.3)
        panel.legend(loc="lower right", fontsize=8)
    panels[1].set_ylim(bottom=0)
    for panel in (panels[0], panels[2]):
        panel.set_yscale("log")
        low, high = panel.get_ylim()
        panel.set_ylim(low / 4, high)  # room for the legend
    for panel in panels:
        panel.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        panel.xaxis.set_minor_formatter(lambda x, _: "")
        panel.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        panel.yaxis.set_minor_formatter(lambda y, _: "")
    with atomic_write(path) as part:
        figure.savefig(part, format="png", dpi=120)

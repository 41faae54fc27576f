"""The curves of a report as inline SVG, in the text colour and typeface of the page.

They suit a light and a dark page. matplotlib draws them, and `inline_svg` removes what only a
separate file needs: namespaces, metadata and unused ids. Names never enter a plot. Methods differ
by colour and dash, and the legend of the page, which escapes names, says which is which.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from understudy.evaluation.shading import need_drawing

INK = "#010203"  # a placeholder that `inline_svg` replaces by `currentColor`
_COLOURS = ("#2f7de1", "#e8871e", "#22a06b", "#c64191", "#8f6ee0", "#ad9407", "#12a3b8", "#d9534f")
_DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
_EMPTY_BIN = 0.5  # where a count of zero is drawn on a logarithmic axis
Style = tuple[str, Any]  # colour and dash of a method


def method_styles(methods: Sequence[str]) -> dict[str, Style]:
    """The (colour, dash) of each method in all plots; after eight methods the dash changes."""
    return {
        m: (_COLOURS[k % len(_COLOURS)], _DASHES[k // len(_COLOURS) % len(_DASHES)])
        for k, m in enumerate(methods)
    }


def histogram(
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]],
    styles: Mapping[str, Style],
    unit: str,
    key: str = "",
) -> str:
    """The distribution of vertex errors on a logarithmic axis (FDDA Figures 6 and 7).

    curves  method -> (edges (n+1,), counts (n,))
    styles  method -> style; the area below the first method is filled
    key     anything that makes the plot unique in its page
    """
    with blank_plot(height=2.7) as (figure, axes):
        for method, (edges, counts) in curves.items():
            colour, dash = styles[method]
            shown = np.maximum(np.asarray(counts, float), _EMPTY_BIN)
            axes.stairs(shown, edges, baseline=None, color=colour, linestyle=dash, linewidth=1.6)
            if method == next(iter(styles)):
                axes.stairs(shown, edges, baseline=_EMPTY_BIN, fill=True, color=colour, alpha=0.16)
        most = max([1.0, *(float(np.max(counts, initial=0.0)) for _, counts in curves.values())])
        axes.set(yscale="log", ylim=(_EMPTY_BIN, most * 2))
        axes.set_xlim(left=0)
        axes.set(xlabel=f"error, {unit}", ylabel="vertices, all frames")
        axes.yaxis.set_major_formatter(lambda y, _: _short_count(y))
        return inline_svg(figure, "Distribution of vertex errors", key)


def per_frame(
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]],
    styles: Mapping[str, Style],
    unit: str,
    marked: int | None = None,
    key: str = "",
) -> str:
    """Mean and largest error of each frame, one above the other.

    curves  method -> (mean (T,), max (T,))
    marked  a frame to mark with a dotted line
    """
    with blank_plot(height=2.7, rows=2) as (figure, both):
        for axes, which, name in zip(both, (0, 1), ("mean", "max")):
            # The first method, the subject of the report, is drawn last and so on top.
            for method, pair in reversed(list(curves.items())):
                colour, dash = styles[method]
                mark = "o" if len(pair[which]) == 1 else None
                look: Any = {"linewidth": 1.4, "marker": mark, "markersize": 4}
                axes.plot(pair[which], color=colour, linestyle=dash, **look)
            if marked is not None:
                axes.axvline(marked, color=INK, linewidth=0.8, alpha=0.45, linestyle=(0, (2, 2)))
            axes.set_ylim(bottom=0)
            axes.margins(x=0.01)
            axes.set(xlabel="frame" if which else "", ylabel=f"{name}, {unit}")
        both[0].tick_params(labelbottom=False)
        figure.align_ylabels(both)
        return inline_svg(figure, "Error of each frame", key)


def range_mark(errors: tuple[float, float, float], ends: tuple[float, float], style: Style) -> str:
    """The errors of one table row on a logarithmic scale.

    errors  mean (a dot), 99th percentile (end of the thick bar) and max (a ring); NaN: not shown
    ends    of the scale
    """
    mean, p99, largest = errors
    low, high = ends
    place = lambda x: (
        6 + 128 * (np.log(max(x, low)) - np.log(low)) / max(np.log(high) - np.log(low), 1e-9)
    )
    known = [x for x in (mean, p99, largest) if np.isfinite(x) and x > 0]
    line = lambda a, b, look: f'<path d="M{place(a):.1f} 8H{place(b):.1f}" {look}/>'
    dot = lambda x, radius, look: f'<circle cx="{place(x):.1f}" cy="8" r="{radius}" {look}/>'
    parts = line(min(known), max(known), 'stroke-width="1.2"') if known else ""
    if mean in known and p99 in known:
        parts += line(mean, p99, 'stroke-width="5" stroke-opacity=".4"')
    if mean in known:
        parts += dot(mean, 3.6, f'fill="{style[0]}" stroke="none"')
    if largest in known:
        parts += dot(largest, 3.2, 'class="ring" stroke-width="1.6"')
    return (
        f'<svg class="range" viewBox="0 0 140 16" fill="none" stroke="{style[0]}" '
        f'aria-hidden="true">{parts}</svg>'
    )


def training(
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]], styles: Mapping[str, Style]
) -> str:
    """The error during training.

    curves  method -> (epochs (n,), error relative to the motion to learn (n,))
    """
    with blank_plot(height=2.5) as (figure, axes):
        for method, (steps, error) in curves.items():
            colour, dash = styles[method]
            axes.plot(steps, 100 * np.asarray(error), color=colour, linestyle=dash, linewidth=1.5)
        if all(np.all(np.asarray(error) > 0) for _, error in curves.values()):
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        axes.margins(x=0.01)
        axes.set(xlabel="epoch", ylabel="training error, %")
        return inline_svg(figure, "Error during training", "")


def pareto(
    points: Mapping[str, tuple[float, float]],
    styles: Mapping[str, Style],
    cost: str,
    unit: str,
    key: str = "",
) -> str:
    """Error against cost on logarithmic axes, with the frontier: lower left is better.

    points  method -> (cost, error), both above zero
    cost    label of the axis of costs
    """
    with blank_plot(height=2.7) as (figure, axes):
        from matplotlib.ticker import LogLocator  # optional dependency

        edge = frontier(points)
        costs, errors = zip(*(points[method] for method in edge))
        axes.step(costs, errors, where="post", color=INK, linewidth=1.0, alpha=0.45)
        for method, (x, y) in points.items():
            colour, _ = styles[method]
            fill = colour if method in edge else "none"
            look: Any = {"marker": "o", "markersize": 7, "markeredgewidth": 1.6}
            axes.plot(x, y, color=colour, markerfacecolor=fill, **look)
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.set_minor_formatter(lambda value, _: "")
        axes.margins(0.15)
        axes.set(xlabel=cost, ylabel=f"mean error, {unit}")
        return inline_svg(figure, f"Error against {cost}", key)


def frontier(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """The methods that no other one beats in both cost and error, cheapest first.

    >>> frontier({"a": (1.0, 5.0), "b": (2.0, 6.0), "c": (3.0, 1.0)})
    ['a', 'c']
    """
    found: list[str] = []
    lowest = np.inf
    for method in sorted(points, key=lambda name: points[name]):
        if points[method][1] < lowest:
            found.append(method)
            lowest = points[method][1]
    return found


def _short_count(y: float) -> str:
    """The label of a tick of a counting axis: 1, 10, 1k, 1M; "" below one."""
    if y < 1:
        return ""
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if y >= size:
            return f"{y / size:g}{sign}"
    return f"{y:g}"


@contextmanager
def blank_plot(*, height: float, rows: int = 1) -> Iterator[tuple]:
    """A figure and its axes (one, or `rows` of them), without the global state of pyplot."""
    need_drawing()
    import matplotlib  # optional dependency
    from matplotlib.figure import Figure

    style: Any = {
        "text.parse_math": False,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "grid.color": INK,
        "grid.alpha": 0.13,
        "grid.linewidth": 0.7,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.7,
        "xtick.major.width": 0.7,
        "ytick.major.width": 0.7,
        "xtick.minor.visible": False,
        "font.size": 9,
        "axes.labelsize": 9,
        "axes.formatter.use_mathtext": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "understudy",
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(5.2, height), layout="constrained")
        yield figure, figure.subplots(rows, 1, sharex=True)


def inline_svg(figure, label: str, key: str) -> str:
    """The figure as an `<svg>` element; `key` makes the ids of equal plots differ."""
    file = io.StringIO()
    figure.savefig(
        file,
        format="svg",
        transparent=True,
        metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
    )
    text = file.getvalue()
    text = text[text.index("<svg") :].strip()
    # A style element would apply to the whole page.
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "href")
    text = text.replace(INK, "currentColor")
    text = re.sub(r"font-family: [^;\"]*", "font-family: inherit", text)
    # Ids must be unique in a page: keep those that are referred to, with a prefix.
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', text))
    prefix = f"p{zlib.crc32((key + label + text).encode()):x}-"
    text = re.sub(
        r'\sid="([^"]*)"', lambda m: f' id="{prefix}{m[1]}"' if m[1] in used else "", text
    )
    text = re.sub(r'(url\(|href=")#', rf"\1#{prefix}", text)
    return re.sub(
        r"<svg\b[^>]*?(viewBox=\"[^\"]*\")[^>]*>",
        rf'<svg \1 role="img" aria-label="{label}">',
        text,
        count=1,
    )

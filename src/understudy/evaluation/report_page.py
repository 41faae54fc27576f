"""The HTML of a report (`understudy.evaluation.report`): each section one function from the data to
text. Every name passes through `html.escape`.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources

import numpy as np

from understudy.evaluation import plots, render
from understudy.evaluation.metric_catalogue import (
    column_names,
    column_texts,
    digits3,
    metric_of,
    size_text,
    unit_text,
)
from understudy.evaluation.result import CaseResult, ReportData, best_of_case, overall

_DEFORMER_COLUMNS = {
    "bytes": ("size", "bytes"),
    "multiply_adds": ("multiply-adds", "a pose"),
    "fit_s": ("fit", "s"),
    "training_error": ("training error", "{unit}"),
    "nets": ("nets", "count"),
    "inputs": ("inputs", "count"),
}
_AROUND = (35.0, -35.0, 145.0, -145.0)
_VIEWS = [
    *((a, 8.0) for a in (*_AROUND, 0.0, 90.0, 180.0, -90.0)),
    *((a, e) for e in (-30.0, 45.0) for a in _AROUND),
]
_WIDTH = 360  # pixels of a picture: about twice what a column shows, for sharp screens
_CLOSE_UP = 0.11  # of the height: half the side of the close-up


def page(data: ReportData) -> str:
    """The whole page. Every `_section` gives text or "" where there is nothing to show."""
    style = (
        resources.files("understudy.evaluation").joinpath("report.css").read_text(encoding="utf-8")
    )
    styles = plots.method_styles(data.methods)
    sections = [
        _headline(data),
        _table(data, styles),
        *(_case(data, case, styles) for case in data.cases),
        _where(data),
        _deformers(data, styles),
        _reading(data),
        _provenance(data),
    ]
    body = "\n".join(section for section in sections if section)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(data.title)} - Understudy report</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def _headline(data: ReportData) -> str:
    """The answer in one sentence, then its five numbers."""
    figures, unit = overall(data.results, data.subject), unit_text(data.unit)
    percent = lambda x: f"{digits3(100 * x / data.height)} % of height"
    length = lambda x: f"{digits3(x)}&nbsp;{escape(unit)}"
    frames = sum(
        len(r.per_frame_mean)
        for r in data.results
        if r.method == data.subject and r.per_frame_mean is not None
    )
    over = f"{len(data.cases)} test animation{'s' * (len(data.cases) > 1)}" + (
        f", {frames:,} frames" if frames else ""
    )
    size, fit = _known(data, "bytes"), _known(data, "fit_s")
    cost = [f"it takes {size_text(size)}"] if size is not None else []
    cost += [f"was fitted in {digits3(fit)}&nbsp;s"] if fit is not None else []
    sentence = (
        f"<b>{escape(data.subject)}</b> stands in for <b>{escape(data.title)}</b> with a mean "
        f"error of <b>{length(figures['mean'])}</b> "
        f"({percent(figures['mean'])}) and at most <b>{length(figures['max'])}</b> "
        f"({percent(figures['max'])}) over {over}"
        + (f"; {' and '.join(cost)}" if cost else "")
        + "."
    )
    card = '<div class="tile"><span>{}</span><b>{} <small>{}</small></b><span>{}</span></div>'
    tile = lambda label, number, of, under: card.format(label, number, escape(of), under)
    labels = {"mean": "mean error", "p99": "99 % of vertices within", "max": "largest error"}
    tiles = [
        tile(labels[name], digits3(x), unit, percent(x))
        for name, x in figures.items()
        if not math.isnan(x)
    ]
    tiles += (
        [tile("size", *size_text(size).split(" "), "shipped and kept in memory")]
        if size is not None
        else []
    )
    tiles += (
        [tile("time to fit", digits3(fit), "s", "on the machine below")] if fit is not None else []
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in data.notes)
    return (
        f'<header><p class="over">Understudy report</p>\n<h1>{escape(data.title)}</h1>\n<p '
        f'class="lede">{sentence}</p>\n'
        f'<p>{_compared(data)}</p>{notes}\n<div class="tiles">{"".join(tiles)}</div></header>'
    )


def _compared(data: ReportData) -> str:
    """One sentence on the nearest other method that saw the same cases, and one on the worst
    moment.
    """
    own = overall(data.results, data.subject)["mean"]
    cases = {
        m: {r.case for r in data.results if r.method == m and "mean" in r.figures}
        for m in data.methods
    }
    others = {
        m: overall(data.results, m)["mean"]
        for m in data.methods[1:]
        if cases[m] >= cases[data.subject]
    }
    others = {m: x for m, x in others.items() if math.isfinite(x)}
    text = ""
    if others and own > 0:
        near = min(others, key=lambda m: others[m])
        ratio = others[near] / own
        how = (
            f"{digits3(ratio)} times that" if ratio >= 1 else f"only {digits3(100 * ratio)} % of it"
        )
        text = (
            f"The closest other method on the same frames, {escape(near)}, has a mean error of "
            f"{how}. "
        )
    moments = [
        r
        for r in data.results
        if r.method == data.subject
        and r.per_frame_max is not None
        and np.isfinite(r.per_frame_max).any()
    ]
    if moments:
        worst = max(moments, key=lambda r: np.nanmax(r.per_frame_max))
        text += (
            f"Look first at frame {int(np.nanargmax(worst.per_frame_max))} of "
            f"{escape(worst.case)}, where the error is largest"
        )
        text += f"{_part_text(data, worst)}."
    return text


def _part_text(data: ReportData, result: CaseResult) -> str:
    """Which vertex, and of which part, is the case's worst, in brackets; "" where that is not
    known.
    """
    if result.per_vertex_max is None or not np.isfinite(result.per_vertex_max).any():
        return ""
    vertex = int(np.nanargmax(result.per_vertex_max))
    part = next(
        (
            f", part {escape(name)}"
            for name, members in data.mesh.parts.items()
            if vertex in members
        ),
        "",
    )
    return f" (vertex {vertex}{part})"


def _known(data: ReportData, name: str) -> float | None:
    """The subject's figure `name` from its deformer, else the largest of its results."""
    given = [
        d[name]
        for d in data.deformers
        if d.get("method") == data.subject and d.get(name) is not None
    ]
    given = given or [
        r.figures[name] for r in data.results if r.method == data.subject and name in r.figures
    ]
    return float(max(given)) if given else None


def _table(data: ReportData, styles: Mapping[str, plots.Style]) -> str:
    """Cases x methods x figures, with a small picture of mean, p99 and max on one log scale."""
    rows = [_with_percent(r, data.height) for case in data.cases for r in data.of_case(case)]
    columns = []
    for name in column_names(r.figures for r in rows):
        label, unit, texts = column_texts(name, [r.figures.get(name) for r in rows], data.unit)
        columns.append((name, label, unit, texts, best_of_case(rows, name)))
    lengths = [
        x
        for r in rows
        for x in (r.figures.get(n, math.nan) for n in ("mean", "p99", "max"))
        if math.isfinite(x) and x > 0
    ]
    low, high = (min(lengths), max(lengths)) if lengths else (1.0, 1.0)
    span = (
        f'<span class="unit">{digits3(low)} to {digits3(high)} {escape(unit_text(data.unit))}, '
        f"log</span>"
    )
    head = "".join(
        f'<th>{escape(label)}<span class="unit">{escape(unit)}</span></th>'
        for _, label, unit, _, _ in columns
    )
    lines = [
        f'<thead><tr><th>method<span class="unit"></span></th>{head}<th class="ranges">mean · p99 '
        f"· max{span}</th></tr></thead>"
    ]
    before = None
    for k, r in enumerate(rows):
        if r.case != before:
            lines.append("</tbody>" if before is not None else "")
            lines.append(
                f'<tbody><tr><th class="case" '
                f'colspan="{len(columns) + 2}">{escape(r.case)}</th></tr>'
            )
            before = r.case
        cells = ""
        for name, _, _, texts, best in columns:
            is_best = r.case in best and r.figures.get(name) == best[r.case]
            cells += (
                f"<td>{'<b>' if is_best else ''}{escape(texts[k])}{'</b>' if is_best else ''}</td>"
            )
        mark = plots.range_mark(
            *(r.figures.get(n, math.nan) for n in ("mean", "p99", "max")),
            low,
            high,
            styles[r.method],
        )
        lines.append(
            f"<tr><td>{_swatch(styles[r.method])}{escape(r.method)}</td>{cells}<td "
            f'class="ranges">{mark}</td></tr>'
        )
    return (
        '<h2>Every case, every method</h2>\n<p class="soft">The lowest error of each case is in '
        'bold green. <span class="ranges">In the last column '
        "a dot is the mean, the thick bar ends at p99, the ring is the max.</span></p>\n"
        f'<div class="scroll"><table>{"".join(lines)}</tbody></table></div>'
    )


def _with_percent(result: CaseResult, height: float) -> CaseResult:
    """The result with the shares of height filled in where only the lengths came."""
    more = {
        f"{n}_pct": 100 * result.figures[n] / height
        for n in ("mean", "max")
        if n in result.figures and f"{n}_pct" not in result.figures
    }
    return CaseResult(result.case, result.method, {**result.figures, **more})


def _case(data: ReportData, case: str, styles: Mapping[str, plots.Style]) -> str:
    """Pictures of the worst frame, then the curves."""
    results = data.of_case(case)
    parts = []
    pictured = [r for r in results if r.worst_true is not None]
    for pose in dict.fromkeys(r.worst_pose for r in pictured):
        parts.append(_worst_pose(data, [r for r in pictured if r.worst_pose == pose]))
    figures = []
    unit = unit_text(data.unit)
    histograms = {r.method: r.histogram for r in results if r.histogram is not None}
    if histograms:
        note = (
            "How many vertices, over all frames, miss by how much (log). The further left a curve "
            "ends, the better."
        )
        figures.append((plots.histogram(histograms, styles, unit, key=case), note))
    frames = {
        r.method: (r.per_frame_mean, r.per_frame_max)
        for r in results
        if r.per_frame_mean is not None and r.per_frame_max is not None
    }
    if frames:
        mark = pictured[0].worst_pose if pictured else None
        note = "" if mark is None else f" The dotted line is frame {mark}, pictured above."
        figures.append(
            (
                plots.per_frame(frames, styles, unit, mark, key=case),
                "Mean and largest error of each frame." + note,
            )
        )
    if case in data.lbs_over_k:
        k, mean = data.lbs_over_k[case]
        means = {r.method: r.figures["mean"] for r in results if "mean" in r.figures}
        note = (
            "Linear blend skinning (points) over its weights per vertex; level lines are the means "
            "of the methods above."
        )
        figures.append((plots.over_k(k, mean, means, styles, unit, key=case), note))
    if not parts and not figures:
        return ""
    curves = _curves([r.method for r in results], styles, figures)
    return f"<section><h2>{escape(case)}</h2>\n{''.join(parts)}\n{curves}</section>"


def _worst_pose(data: ReportData, results: Sequence[CaseResult]) -> str:
    """Original and methods as columns: clay, heat map on one scale, and a close-up of the subject's
    worst place.
    """
    lead, true = results[0], results[0].worst_true
    view, sees = _telling_view(data, lead)
    errors = {r.method: r.worst_error for r in results}
    top = _scale_top(errors[lead.method], list(errors.values()))
    vertex = int(np.nanargmax(np.nan_to_num(errors[lead.method], nan=-1.0)))
    size, close = _picture_size(data, true, view), (_WIDTH, _WIDTH * 5 // 6)
    reach = _CLOSE_UP * data.height
    around = true[vertex] + np.concatenate([np.eye(3), -np.eye(3)]) * reach
    look = {"view": view, "up_axis": data.mesh.up_axis, "handedness": data.mesh.handedness}
    draw = lambda points, **more: render.render(points, data.mesh.triangles, **look, **more)
    corner = render.project(np.stack([true[vertex]]), size=size, fit_to=true, **look)[0, :2]
    pixels = size[0] / render.frame_width(true, size=size, **look)
    ring = _ring(corner, reach * pixels, size)
    whole = _picture(draw(true, size=size, fit_to=true), "original", ring)
    near = _picture(draw(true, size=close, fit_to=around), "original, close-up")
    columns = [
        f"<div><h4>original<small>frame "
        f"{lead.worst_pose}</small></h4>{whole}"
        f"{near}{_bar(top, data.unit)}"
        f"<p class='soft'>Heat maps share this scale; what lies beyond it takes its end colour. "
        f"The ring marks where {escape(lead.method)} "
        f"misses most (vertex "
        f"{vertex}{'' if sees[vertex] else ', hidden in a fold or behind a limb'}); the close-up "
        f"is of that place.</p></div>"
    ]
    for r in results:
        small = (
            f"mean {digits3(np.mean(errors[r.method]))}, max {digits3(np.max(errors[r.method]))} "
            f"{escape(unit_text(data.unit))}"
        )
        clay = _picture(draw(r.worst_approx, size=size, fit_to=true), r.method, ring)
        near = _picture(draw(r.worst_approx, size=close, fit_to=around), f"{r.method}, close-up")
        heat = _picture(
            draw(
                r.worst_approx, size=size, fit_to=true, values=errors[r.method], vmin=0.0, vmax=top
            ),
            f"{r.method}, error",
            ring,
        )
        columns.append(
            f"<div><h4>{escape(r.method)}<small>{small}</small></h4>{clay}{near}{heat}</div>"
        )
    return (
        f"<h3>Frame {lead.worst_pose}: the worst of "
        f"{escape(lead.method)}</h3>\n{_columns(columns)}\n"
    )


def _where(data: ReportData) -> str:
    """The subject's largest error of each vertex over a whole case, on the mesh at rest, from four
    sides.
    """
    shown = [
        r
        for case in data.cases
        for r in data.of_case(case)
        if r.method == data.subject and r.per_vertex_max is not None
    ]
    if not shown:
        return ""
    top = _nice(
        max(
            float(np.nanpercentile(r.per_vertex_max, 99.5))
            if np.isfinite(r.per_vertex_max).any()
            else 1.0
            for r in shown
        )
    )
    rest = data.mesh.vertices
    parts = []
    for r in shown:
        cells = []
        for name, view in (
            ("front", "front"),
            ("side", "side"),
            ("back", "back"),
            ("other side", (-90.0, 0.0)),
        ):
            look = {
                "view": view,
                "up_axis": data.mesh.up_axis,
                "handedness": data.mesh.handedness,
                "size": _picture_size(data, rest, view),
            }
            image = render.render(
                rest, data.mesh.triangles, values=r.per_vertex_max, vmin=0.0, vmax=top, **look
            )
            cells.append(
                f"<div>{_picture(image, f'{r.case}, {name}')}<figcaption>{name}</figcaption></div>"
            )
        parts.append(f"<h3>{escape(r.case)}</h3>{_columns(cells)}")
    return (
        f"<section><h2>Where {escape(data.subject)} misses</h2>\n<p class='soft'>Each vertex shows "
        f"its largest error over the whole animation, "
        f"on the mesh at rest.</p>\n{''.join(parts)}{_bar(top, data.unit)}</section>"
    )


def _deformers(data: ReportData, styles: Mapping[str, plots.Style]) -> str:
    """What was fitted and what it costs, with the training curve where it is known."""
    text = ""
    if data.deformers:
        known = [k for k in _DEFORMER_COLUMNS if any(d.get(k) is not None for d in data.deformers)]
        extra = list(
            dict.fromkeys(
                k for d in data.deformers for k in d if k not in _DEFORMER_COLUMNS and k != "method"
            )
        )
        columns = []
        for key in known + extra:
            label, unit = _DEFORMER_COLUMNS.get(key, (key, ""))
            values = [d.get(key) for d in data.deformers]
            if key == "bytes":
                _, unit, texts = column_texts("bytes", values, data.unit)
            else:
                texts = [_plain(v) for v in values]
            columns.append(
                (label, "" if unit == "count" else unit.format(unit=unit_text(data.unit)), texts)
            )
        head = "".join(
            f'<th>{escape(label)}<span class="unit">{escape(unit)}</span></th>'
            for label, unit, _ in columns
        )
        rows = ""
        for k, d in enumerate(data.deformers):
            name = str(d.get("method", ""))
            swatch = _swatch(styles[name]) if name in styles else ""
            cells = "".join(f"<td>{escape(texts[k])}</td>" for _, _, texts in columns)
            rows += f"<tr><td>{swatch}{escape(name)}</td>{cells}</tr>"
        head = f'<thead><tr><th>method<span class="unit"></span></th>{head}</tr></thead>'
        text += f'<div class="scroll"><table>{head}<tbody>{rows}</tbody></table></div>'
    curves = {m: c for m, c in data.training.items() if m in styles}
    if curves:
        plot = plots.training(curves, styles)
        note = (
            "What is left to learn, as a share of the motion beyond the skin. A curve still "
            "falling at its end asks for more epochs."
        )
        text += _curves(list(curves), styles, [(plot, note)])
    return f"<section><h2>What was fitted</h2>\n{text}</section>" if text else ""


def _reading(data: ReportData) -> str:
    """One sentence per figure that the table has."""
    rows = [_with_percent(r, data.height) for r in data.results]
    entries = ""
    for name in column_names(r.figures for r in rows):
        label, unit, _ = column_texts(name, [r.figures.get(name) for r in rows], data.unit)
        if metric_of(name).meaning:
            entries += (
                f"<dt>{escape(label)} <span "
                f'class="unit">{escape(unit)}</span></dt><dd>{escape(metric_of(name).meaning.capitalize())}.</dd>'
            )
    return (
        f"<section><h2>How to read this</h2>\n<p>An error is the distance between a vertex of the "
        f"original and the same vertex of the stand-in, in "
        f"{escape(unit_text(data.unit))}; the character is "
        f"{digits3(data.height)}&nbsp;{escape(unit_text(data.unit))} high. "
        "Judge by the max and the close-ups as well as by the mean: a mean hides a single broken "
        "armpit.</p>\n"
        f"<dl>{entries}</dl></section>"
    )


def _provenance(data: ReportData) -> str:
    """Enough to run it again: as given, then the machine, then the mesh."""
    mesh = (
        f"{data.mesh.vertex_count:,} vertices, {len(data.mesh.polygon_sizes):,} polygons, "
        f"{data.mesh.up_axis} up"
    )
    pairs = [*data.provenance.items(), *data.machine.items(), ("mesh", mesh)]
    code = lambda key, value: (
        f"<code>{escape(str(value))}</code>" if key == "command" else escape(str(value))
    )
    return (
        "<section><h2>Provenance</h2>\n<dl>"
        + "".join(f"<dt>{escape(str(k))}</dt><dd>{code(k, v)}</dd>" for k, v in pairs)
        + "</dl></section>"
    )


def _telling_view(data: ReportData, result: CaseResult) -> tuple[tuple[float, float], np.ndarray]:
    """The view that sees most of the largest errors, and the vertices (V,) it sees.

    A three-quarter view, unless another shows clearly more (a sole, an armpit). What a view faces
    bounds what it sees and is cheaper to know: views are tried in that order, until none that is
    left can win.
    """
    true, triangles = np.nan_to_num(result.worst_true), data.mesh.triangles
    normals = render.vertex_normals(true, triangles)
    weight = np.nan_to_num(result.worst_error)
    weight = (weight / max(weight.max(), 1e-300)) ** 4
    look = {"up_axis": data.mesh.up_axis, "handedness": data.mesh.handedness}
    faced = {
        view: weight
        * np.maximum(normals @ render.camera_direction(view, **look), 0.0)
        * (1.0 if view in _VIEWS[: len(_AROUND)] else 0.7)
        for view in _VIEWS
    }
    best, found, sees = -1.0, _VIEWS[0], np.zeros(len(true), bool)
    for view in sorted(_VIEWS, key=lambda v: -faced[v].sum()):
        if faced[view].sum() <= best:
            break
        seen = render.visible(true, triangles, view=view, **look)
        if faced[view][seen].sum() > best:
            best, found, sees = float(faced[view][seen].sum()), view, seen
    return found, sees


def _picture_size(data: ReportData, points: np.ndarray, view) -> tuple[int, int]:
    """Pixels that suit the shape: as high as the framed mesh asks, within reason."""
    seen = render.project(
        points,
        size=(_WIDTH, _WIDTH),
        view=view,
        fit_to=points,
        up_axis=data.mesh.up_axis,
        handedness=data.mesh.handedness,
    )
    across, down = np.ptp(seen[:, 0]), np.ptp(seen[:, 1])
    return _WIDTH, int(_WIDTH * np.clip(down / max(across, 1e-9), 0.7, 1.5))


def _scale_top(lead: np.ndarray, every: Sequence[np.ndarray]) -> float:
    """The end of a shared heat scale: the subject's own largest error or the middle method's 99th
    percentile, whichever is more.

    So the subject's pattern stays visible beside methods that are ten times worse, and those still
    show where they are less bad.
    """
    tails = [float(np.nanpercentile(e, 99)) for e in every if np.isfinite(e).any()]
    return _nice(
        max(
            float(np.nanmax(lead)) if np.isfinite(lead).any() else 0.0,
            float(np.median(tails)) if tails else 0.0,
        )
    )


def _nice(number: float) -> float:
    """The next of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten.

    >>> [_nice(x) for x in (0.93, 1.2, 0.0)]
    [1.0, 1.5, 1.0]
    """
    if not (math.isfinite(number) and number > 0):
        return 1.0
    power = 10.0 ** math.floor(math.log10(number))
    steps = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)
    return float(f"{next(s for s in steps if s * power >= number * (1 - 1e-9)) * power:.3g}")


def _picture(image: np.ndarray, text: str, over: str = "") -> str:
    data = base64.b64encode(render.png_bytes(image)).decode()
    height, width = image.shape[:2]
    return (
        f'<figure class="picture"><img src="data:image/png;base64,{data}" width="{width}" '
        f'height="{height}" alt="{escape(text)}">{over}</figure>'
    )


def _ring(centre: np.ndarray, radius: float, size: tuple[int, int]) -> str:
    """A ring over a picture, dark on light so that it shows on clay and on colours."""
    x, y = (f"{c:.1f}" for c in centre)
    circle = lambda colour, width: (
        f'<circle cx="{x}" cy="{y}" r="{radius:.1f}" fill="none" stroke="{colour}" '
        f'stroke-width="{width}"/>'
    )
    return (
        f'<svg viewBox="0 0 {size[0]} {size[1]}" '
        f'aria-hidden="true">{circle("#ffffff", 3)}{circle("#20262e", 1.2)}</svg>'
    )


def _bar(top: float, unit: str) -> str:
    stops = ",".join(
        "#{:02x}{:02x}{:02x}".format(*colour) for colour in render.turbo()[:: 255 // 17]
    )
    texts = ["0", *(f"{top * k / 4:.3g}" for k in (1, 2, 3)), f"≥ {top:.3g} {unit_text(unit)}"]
    ticks = "".join(f"<span>{escape(text)}</span>" for text in texts)
    return (
        f'<div class="bar"><i '
        f'style="background:linear-gradient(90deg,{stops})"></i><div>{ticks}</div></div>'
    )


def _columns(cells: Sequence[str]) -> str:
    """Cells side by side, at most five; more of them wrap into rows of about equal length."""
    rows = -(-len(cells) // 5)
    return f'<div class="columns" style="--n:{-(-len(cells) // rows)}">{"".join(cells)}</div>'


def _swatch(style: plots.Style) -> str:
    kind = "solid" if style[1] == "solid" else "dashed"
    return f'<span class="swatch" style="border-color:{style[0]};border-top-style:{kind}"></span>'


def _curves(
    methods: Sequence[str], styles: Mapping[str, plots.Style], figures: Sequence[tuple[str, str]]
) -> str:
    """Plots (svg, caption) two by two under one legend; nothing where there are none."""
    if not figures:
        return ""
    legend = "".join(f"<li>{_swatch(styles[m])}{escape(m)}</li>" for m in methods)
    cells = "".join(
        f'<figure class="plot">{svg}<figcaption>{text}</figcaption></figure>'
        for svg, text in figures
    )
    return (
        f'<div class="curves"><ul class="legend">{legend}</ul><div class="pair">{cells}</div></div>'
    )


def _plain(value: object) -> str:
    """A value of the deformer table: counts whole, other numbers to three digits."""
    if value is None:
        return "-"
    if isinstance(value, (bool, str)):
        return str(value)
    if isinstance(value, (int, np.integer)):
        return f"{value:,}" if abs(value) < 1_000_000 else digits3(float(value))
    return digits3(value) if isinstance(value, (float, np.floating)) else str(value)

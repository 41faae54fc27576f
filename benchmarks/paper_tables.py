"""The tables of docs/papers.md: published figures beside ours, from `benchmarks/results/*.json`.

`write_tables.py` calls this. A table is a function that returns Markdown; `TABLES` names them. In
docs/papers.md, `<!-- paper NAME -->` and `<!-- end NAME -->` enclose a table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from understudy.evaluation.metric_catalogue import digits3
from understudy_benchmarks import two_layer
from understudy_benchmarks.tuning import is_tuned

RESULTS = Path(__file__).resolve().parent / "results"
CMU = ("cmu_09_01", "cmu_63_01", "cmu_126_03")  # took part in no choice


@cache
def rows_of(benchmark: str) -> dict[tuple[str, str], dict]:
    """(case, method) -> the row, with rows recorded on a GPU; empty where there are no results."""
    paths = [RESULTS / f"{benchmark}{where}.json" for where in ("", "-gpu")]
    contents = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
    return {(row["case"], row["method"]): row for content in contents for row in content["rows"]}


def ours(benchmark: str, case: str, method: str, metric: str) -> str:
    """A figure of ours, with its standard deviation over seeds; a dash where there is none."""
    row = rows_of(benchmark).get((case, method), {})
    if metric not in row:
        return "-"
    spread = row.get(f"{metric}_sd")
    return digits3(row[metric]) + ("" if spread is None else f" ± {digits3(spread)}")


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first column is text."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, rule, *lines))


def fdda_1() -> str:
    """Statistics of the models."""
    human = lambda method, metric: ours("body", "skeleton/walk", method, metric)
    size = lambda method: (
        digits3(float(rows_of("body")["skeleton/walk", method]["bytes"]) / 1e6)
        if ("skeleton/walk", method) in rows_of("body")
        else "-"
    )
    both = ("fdda-paper", "fdda")
    return table(
        ("", "Tigress", "Shifu", "Astrid", "Po", "human, `fdda-paper`", "human, `fdda`"),
        [
            ("vertices", "16,206", "14,706", "168,635", "13,800", "13,380", "13,380"),
            ("height (cm)", "182", "86", "194", "191", "175", "175"),
            ("networks", "67", "73", "45", "40", *(human(m, "networks") for m in both)),
            (
                "components per network",
                *("22.6", "19.5", "24.5", "29.7"),
                *(human(m, "mean_components") for m in both),
            ),
            (
                "input bones per network",
                *("26.9", "22.3", "14.6", "57.75"),
                *(human(m, "mean_inputs") for m in both),
            ),
            ("MB", "11.5", "10.7", "67.5", "27.5", *(size(m) for m in both)),
        ],
    )


def _fdda_errors(case: str, published: Sequence[tuple[str, float, float, float]]) -> str:
    lines = [
        (name, digits3(mean), digits3(largest), digits3(100 * mean / height))
        for name, height, mean, largest in published
    ]
    for method in ("fdda-paper", "fdda-paper-eq8", "fdda"):
        cells = (ours("body", case, method, metric) for metric in ("mean", "max", "mean_pct"))
        lines.append((f"human, `{method}`", *cells))
    return table(("", "mean (cm)", "max (cm)", "mean (% of height)"), lines)


def fdda_2() -> str:
    """Errors on a walk."""
    published = [
        ("Tigress", 182, 0.087, 2.78),
        ("Shifu", 86, 0.016, 1.10),
        ("Astrid", 194, 0.104, 2.16),
        ("Po", 191, 0.143, 4.80),
    ]
    return _fdda_errors("skeleton/walk", published)


def fdda_3() -> str:
    """Errors on a dynamic animation."""
    published = [("Tigress", 182, 0.208, 19.17), ("Shifu", 86, 0.041, 8.14)]
    return _fdda_errors("skeleton/kick", published)


def fdda_4() -> str:
    """Comparison with skinning and rotational regression: mean in cm and EE in %."""
    published = {
        "Tigress walk": "0.085 / 18.47, 0.365 / 85.51, 0.079 / 20.29, 0.188 / 37.07, 0.063 / 11.78",
        "Tigress kungfu": (
            "0.207 / 21.35, 0.788 / 65.12, 0.640 / 52.75, 1.052 / 86.95, 1.033 / 84.85"
        ),
        "Shifu walk": "0.015 / 6.88, 0.171 / 57.58, 0.061 / 19.83, 0.145 / 38.62, 0.110 / 26.85",
        "Shifu kungfu": (
            "0.043 / 17.55, 0.331 / 66.71, 0.283 / 59.19, 0.349 / 56.93, 0.336 / 52.85"
        ),
        "Po walk": "0.143 / 19.03, 0.307 / 51.02, 0.155 / 23.01, 0.321 / 41.03, 0.163 / 23.46",
        "Astrid walk": "0.104 / 21.53, 0.270 / 62.35, 0.116 / 30.41, 0.279 / 66.74, 0.257 / 64.44",
    }
    lines = [(name, *cells.split(", ")) for name, cells in published.items()]
    rivals = ("lbs-4", "lbs-all", "rotational_regression-2", "rotational_regression-15")
    for name in ("walk", "kick", *CMU):
        case = f"skeleton/{name}"
        for suffix, where in (("-ontest", "on the test"), ("", "on the sample")):
            methods = ("fdda-paper", *(f"{rival}{suffix}" for rival in rivals))
            cells = (
                " / ".join(ours("body", case, method, metric) for metric in ("mean", "ee"))
                for method in methods
            )
            lines.append((f"human {name}, rivals {where}", *cells))
    return table(("", "FDDA", "LBS, K = 4", "LBS, K = m", "RR, K = 2", "RR, K = 15"), lines)


def fdda_5() -> str:
    """Time of a pose in ms."""
    time = lambda case, metric: ours("runtime", case, "understudy", metric)
    return table(
        ("", "Tigress", "Astrid"),
        [
            ("paper, one thread", "10.6", "62.0"),
            ("paper, ten cores", "2.7", "7.7"),
            ("paper, WPSD with 100 examples, ten cores", "1.5", "9.0"),
            ("paper, linear only, ten cores", "0.5", "3.2"),
            ("ours, one thread", time("tigress", "ms_1"), time("astrid", "ms_1")),
            ("ours, two threads", time("tigress", "ms_2"), time("astrid", "ms_2")),
        ],
    )


def _ablation(header: str, published: dict[str, tuple[str, str, str]], metric: str) -> str:
    lines = []
    for variant, values in published.items():
        mine = (
            ours("face-ablations", "face/random", f"differential-{variant}", name)
            for name in (metric, "mean", "max")
        )
        lines.append((f"`{variant}`", *values, *mine))
    names = (header, "mean (cm)", "max (cm)")
    return table(("", *(f"paper, {n}" for n in names), *(f"ours, {n}" for n in names)), lines)


def song_2() -> str:
    """Number of hidden layers."""
    published = {
        "layers-1": ("2.58e-3", "0.0240", "0.700"),
        "layers-2": ("1.54e-3", "0.0197", "0.633"),
        "layers-3": ("1.10e-3", "0.0189", "0.667"),
        "layers-4": ("1.03e-3", "0.0187", "0.664"),
        "layers-5": ("9.47e-4", "0.0182", "0.541"),
    }
    return _ablation("MSE of coordinates", published, "mse_differential")


def song_3() -> str:
    """Number and choice of anchors."""
    published = {
        "anchors-1": ("1.35e-3", "0.0207", "0.524"),
        "anchors-2": ("1.71e-3", "0.0186", "0.517"),
        "single": ("7.42e-3", "0.0336", "0.657"),
        "scalp": ("9.37e-4", "0.0192", "0.562"),
        "anchors-5": ("1.73e-3", "0.0158", "0.577"),
    }
    return _ablation("MSE of anchors", published, "mse_anchors")


def song_4() -> str:
    """Number of training poses."""
    published = {
        "data-25": ("2.66e-3", "0.0301", "0.891"),
        "data-50": ("1.57e-3", "0.0246", "0.819"),
        "data-75": ("1.03e-3", "0.0195", "0.740"),
        "data-100": ("1.53e-3", "0.0186", "0.517"),
    }
    return _ablation("MSE of coordinates", published, "mse_differential")


def song_5() -> str:
    """Errors on animations, in % of the height."""
    lines = [
        ("Agent (808 poses)", "0.127", "2.50"),
        ("Bull (249 poses)", "0.607", "5.55"),
        ("Matador (359 poses)", "0.334", "3.00"),
    ]
    for case in ("face/speech", "face/expressions"):
        for method in ("differential-paper", "differential-paper-early", "differential"):
            cells = (ours("face", case, method, metric) for metric in ("mean_pct", "max_pct"))
            lines.append((f"{case}, `{method}`", *cells))
    return table(("", "mean (% of height)", "max (% of height)"), lines)


def song_6() -> str:
    """Comparison with other methods: mean / max in cm."""
    lines = [
        ("LBS", "0.174 / 3.228", "1.672 / 23.56", "0.228 / 4.261"),
        ("PCA", "0.073 / 1.980", "0.848 / 8.367", "0.158 / 1.533"),
        ("Local", "0.072 / 0.689", "0.521 / 5.779", "0.155 / 1.106"),
        ("KPSA", "0.061 / 1.623", "2.115 / 34.25", "0.089 / 1.664"),
        ("Ours", "0.032 / 0.630", "0.512 / 4.682", "0.087 / 0.782"),
    ]
    return table(("paper", "Agent", "Bull", "Matador"), lines)


def song_6_ours() -> str:
    """The same methods on the built-in face."""
    cases = ("face/random", "face/speech", "face/expressions")
    methods = (
        "lbs-4",
        "pca_regression",
        "local-paper",
        "local-paper-early",
        "kpsa",
        "differential-paper",
        "differential-paper-early",
        "local",
        "differential",
    )
    pair = lambda case, method: " / ".join(
        ours("face", case, method, metric) for metric in ("mean", "max")
    )
    return table(
        ("ours", *cases),
        [(f"`{method}`", *(pair(case, method) for case in cases)) for method in methods],
    )


def song_body() -> str:
    """Errors on a body: mean / max in cm."""
    lines = [("paper, Agent, 189 poses", "0.217 / 4.17", "0.263 / 6.41")]
    for name in ("walk", "kick", *CMU):
        cells = (
            " / ".join(ours("body", f"skeleton/{name}", method, m) for m in ("mean", "max"))
            for method in ("differential", "fdda-paper")
        )
        lines.append((f"human {name}", *cells))
    return table(("", "differential", "FDDA"), lines)


def song_figure_5() -> str:
    """Error of the coordinates over the number of components."""
    lines = []
    for percent in (1, 2, 5, 10):
        cells = (
            ours("face-ablations", "face/random", f"differential-pcs-{percent}", metric)
            for metric in ("mse_differential", "mean", "max")
        )
        lines.append((f"{percent} %", *cells))
    return table(("components", "MSE of coordinates", "mean (cm)", "max (cm)"), lines)


def _two_layer(metric: str, published: str, methods: dict[str, str]) -> str:
    """A line for each case of Table 2 or 3, dense to 4 bones per vertex: ours, then the paper's."""
    lines = []
    for case in two_layer.ROWS:
        cells = [case]
        for method in methods:
            known = two_layer.PUBLISHED[case, "dense-4", method].get(published)
            beside = "" if known is None else f" / {known:g}"
            text = ours("two-layer", case, method, metric)
            mark = " \\*" if text != "-" and is_tuned("two-layer", case, method) else ""
            cells.append(f"{text}{mark}{beside}")
        lines.append(cells)
    return table(["case, ours / paper", *methods.values()], lines)


def two_layer_2() -> str:
    """Table 2: Delta_W."""
    columns = {
        "k_largest": "`k_largest`",
        "smooth": "`smooth`",
        "two_layer-paper": "`two_layer-paper`",
        "two_layer": "`two_layer`",
    }
    return _two_layer("delta_w", "paper_delta_w", columns)


TWO_LAYER_3 = {
    "k_largest": "`k_largest`",
    "smooth": "`smooth`",
    "two_layer-paper": "`-paper`",
    "geometry": "`geometry`",
    "poisson": "`poisson`",
    "two_layer-paper-ex": "`-paper-ex`",
    "ssdr-4": "SD, 4",
    "dense-paper": "dense",
    "two_layer-ex": "`two_layer-ex`",
}


def two_layer_3() -> str:
    """Table 3: E."""
    return _two_layer("e", "paper_e", TWO_LAYER_3)


def two_layer_3_sphere() -> str:
    """Table 3: E with the rest pose in a unit sphere, as section 4 describes it."""
    return _two_layer("e_sphere", "paper_e", TWO_LAYER_3)


TABLES: dict[str, Callable[[], str]] = {
    "two-layer-2": two_layer_2,
    "two-layer-3": two_layer_3,
    "two-layer-3-sphere": two_layer_3_sphere,
    "fdda-1": fdda_1,
    "fdda-2": fdda_2,
    "fdda-3": fdda_3,
    "fdda-4": fdda_4,
    "fdda-5": fdda_5,
    "song-2": song_2,
    "song-3": song_3,
    "song-4": song_4,
    "song-5": song_5,
    "song-6": song_6,
    "song-6-ours": song_6_ours,
    "song-body": song_body,
    "song-figure-5": song_figure_5,
}


def with_papers(text: str) -> str:
    """The text with every table of a paper between its markers written anew."""
    for name, make in TABLES.items():
        start, end = f"<!-- paper {name} -->", f"<!-- end {name} -->"
        before, rest = text.split(start)
        text = f"{before}{start}\n{make()}\n{end}{rest.split(end)[1]}"
    return text

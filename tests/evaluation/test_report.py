"""The report as a reader's browser gets it: well-formed, complete, escaped, self-contained, and
written whole or not at all.
"""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from builders import sphere

from understudy import Mesh
from understudy.evaluation.metric_catalogue import METRICS, column_texts, digits3
from understudy.evaluation.report import figures_table, views, write_report
from understudy.evaluation.result import (
    CaseResult,
    PicturedFrame,
    ReportData,
    best_of_case,
    overall,
)
from understudy.system.errors import FileError, InputError

VOID = {"meta", "img", "br", "hr", "path", "circle", "use", "rect", "line"}
NASTY = "<script>alert('x')</script> & \"quotes\" $a_b$"


class Page(HTMLParser):
    """Checks that tags nest, and collects text, ids and whatever a browser would fetch."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.open, self.texts, self.tags, self.ids, self.fetched = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "srcset", "data", "action"):
                self.fetched.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open, f"</{tag}> closes nothing"
            assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.texts))


def strip_mesh() -> Mesh:
    x, y = np.meshgrid(np.linspace(0, 1, 6), np.linspace(0, 2, 9), indexing="ij")
    vertices = np.stack([x, y, 0.3 * np.sin(4 * x)], axis=-1).reshape(-1, 3)
    at = (np.arange(5)[:, None] * 9 + np.arange(8)).reshape(-1)
    return Mesh.from_faces(
        vertices,
        np.stack([at, at + 9, at + 10, at + 1], 1),
        unit="cm",
        parts={"tip": [53], "all of it": np.arange(54)},
    )


MESH = strip_mesh()
PLOT = '<svg viewBox="0 0 1 1"></svg>'


@pytest.fixture(scope="module", autouse=True)
def small_pictures():
    """The pictures are tested in test_render; here they only have to be there."""
    before, views.WIDTH = views.WIDTH, 32
    yield
    views.WIDTH = before


def result(
    case: str, method: str, size: float, frames: int = 7, worst: int | None = None
) -> CaseResult:
    """A method that misses by about `size`."""
    rng = np.random.default_rng(list((case + method).encode()))
    true = MESH.vertices + rng.normal(size=(frames, 1, 3)) * 0.1
    approx = true + rng.normal(size=true.shape) * size
    error = np.linalg.norm(approx - true, axis=2)
    pose = int(error.max(axis=1).argmax()) if worst is None else worst
    figures = {
        "mean": error.mean(),
        "p99": np.percentile(error, 99),
        "max": error.max(),
        "ee": 100 * size,
        "seam": size / 3,
        "bytes": 4321.0,
        "fit_s": 1.5,
    }
    counts, edges = np.histogram(error, 12, range=(0, error.max()))
    parts = error.mean(axis=1), error.max(axis=1), error.mean(axis=0), error.max(axis=0)
    pictured = PicturedFrame(pose, true[pose], approx[pose])
    return CaseResult(case, method, figures, *parts, (edges, counts), pictured)


def report(**changes) -> ReportData:
    results = [
        result(case, method, size, worst=3)
        for case in ("walk", "kick")
        for method, size in (("lbs-4", 0.05), ("fdda", 0.01), ("linear", 0.2))
    ]
    given = {
        "title": "Astrid",
        "mesh": MESH,
        "results": results,
        "deformers": [
            {
                "method": "fdda",
                "bytes": 2_345_678,
                "multiply_adds": 987_000,
                "fit_s": 84.25,
                "nets": 31,
                "inputs": 279,
            }
        ],
        "machine": {"cpu": "two cores of something"},
        "notes": ["The kick leaves the range of the training poses."],
        "provenance": {
            "version": "0.1.0",
            "seed": 7,
            "command": "understudy compare --report out.html",
        },
        "training": {"fdda": (np.arange(5), np.array([1.0, 0.5, 0.2, 0.1, 0.09]))},
        "plots": {"walk": [(PLOT, "One more plot.")]},
    }
    return ReportData(**{**given, **changes})


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> str:
    path = write_report(tmp_path_factory.mktemp("report") / "deep" / "report.html", report())
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(written) -> Page:
    return Page(written)


def test_the_headline_answers_first(page):
    text = page.text
    start = text[: text.index("All results")]
    # The method with the lowest mean, although it is the second one.
    assert "fdda approximates Astrid with a mean error of" in start
    assert "% of height" in start
    assert "2 test animations (14 frames)" in start
    assert "2.35 MB" in start
    assert "84.2" in start or "84.3" in start
    assert "The mean error of lbs-4 is" in start
    assert "The kick leaves the range" in start
    assert re.search(
        r"The largest error is in frame \d of (walk|kick), at vertex \d+ of (tip|all of it)\.",
        start,
    )


def test_every_case_method_and_figure_is_there(page):
    data = report()
    for r in data.results:
        assert r.case in page.text
        assert r.method in page.text
        for name in ("mean", "p99", "max", "ee", "seam"):
            assert digits3(r.figures[name]) in page.text
    for name in ("mean", "p99", "ee", "seam", "bytes", "fit_s"):
        meaning = METRICS[name].meaning
        assert meaning[:1].upper() + meaning[1:] + "." in page.text
    for words in (
        "multiply-adds",
        "training error, %",
        "One more plot.",
        "version",
        "0.1.0",
        "two cores of something",
        "understudy compare",
    ):
        assert words in page.text


def test_column_heads_say_units(written):
    heads = [
        re.sub(r"<[^>]+>", " ", head).split() for head in re.findall(r"<th>(.*?)</th>", written)
    ]
    for wanted in (
        "mean cm",
        "p99 cm",
        "max cm",
        "mean % of height",
        "max % of height",
        "EE %",
        "seam cm",
        "size kB",
        "fit s",
    ):
        assert wanted.split() in heads


def test_the_best_of_each_case_is_bold(written):
    table = written[written.index("<table>") : written.index("</table>")]
    for body in re.findall(r"<tbody>(.*?)</tbody>", table, flags=re.S):
        bold = {
            re.search(r"</span>([\w-]+)</td>", row)[1]: row.count("<b>")
            for row in re.findall(r"<tr><td>.*?</tr>", body, flags=re.S)
        }
        assert bold == {"fdda": 7, "lbs-4": 0, "linear": 0}


def test_pictures_and_curves_are_inside_the_file(written, page):
    # per case: original twice, three methods three times; then four sides of each case; and one
    # that turns
    assert page.tags.count("img") == 2 * (2 + 3 * 3) + 2 * 4 + 1
    assert page.tags.count("figure") - page.tags.count("img") == 2 * 2 + 1
    kinds = ("data:image/png;base64,", "data:image/webp;base64,", "#")
    assert all(each.startswith(kinds) for each in page.fetched)
    assert not re.search(
        r"https?:|//[a-z]|url\((?!#)|@import|<link|<script", re.sub(r"base64,[\w+/=]*", "", written)
    )


def test_references_inside_the_curves_hold_and_ids_are_unique(page, written):
    assert len(set(page.ids)) == len(page.ids)
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', written))
    assert used <= set(page.ids)


def test_names_are_escaped_everywhere(tmp_path):
    nasty = [result(NASTY, NASTY + " 1", 0.05), result(NASTY, "_" + NASTY, 0.02)]
    data = report(
        title=NASTY,
        results=nasty,
        deformers=[{"method": NASTY, "nets": NASTY}],
        machine={NASTY: NASTY},
        notes=[NASTY],
        provenance={"command": NASTY},
        training={NASTY + " 1": (np.arange(3), np.ones(3))},
        plots={},
    )
    text = write_report(tmp_path / "r.html", data).read_text(encoding="utf-8")
    assert "<script" not in text
    assert Page(text).text.count("alert('x')") > 10


def test_unitless_reads_as_units(tmp_path):
    data = report(mesh=replace(MESH, unit="unitless"))
    assert "units" in Page(write_report(tmp_path / "r.html", data).read_text(encoding="utf-8")).text


def test_the_same_data_gives_the_same_file(written, tmp_path):
    assert write_report(tmp_path / "r.html", report()).read_text(encoding="utf-8") == written


def test_bare_results_make_a_short_report(tmp_path):
    data = report(
        results=[CaseResult("walk", "fdda", {"mean": 0.1})],
        deformers=(),
        training={},
        plots={},
        machine={},
        notes=(),
        provenance={},
    )
    page = Page(write_report(tmp_path / "r.html", data).read_text(encoding="utf-8"))
    assert "img" not in page.tags
    assert "0.100" in page.text
    assert not re.search(r"\bnan\b", page.text.lower())


def test_a_method_that_broke_down_is_still_reported(tmp_path):
    broken = result("walk", "broken", 0.1, worst=2)
    frame = broken.pictured
    holes = frame.approx.copy()
    holes[::2] = np.nan
    gone = np.full_like(broken.per_vertex_max, np.nan)
    nan = dict.fromkeys(broken.figures, np.nan)
    lost = frame._replace(approx=holes * np.nan)
    results = [
        replace(broken, pictured=frame._replace(approx=holes), figures=nan),
        replace(broken, method="gone", pictured=lost, per_vertex_max=gone),
    ]
    for subject in ("broken", "gone"):
        Page(
            write_report(
                tmp_path / "r.html", report(results=results, subject=subject, training={})
            ).read_text(encoding="utf-8")
        )
    assert (
        report(results=[results[0], result("walk", "fine", 0.3)]).subject == "fine"
    )  # NaN is never the best


def test_methods_with_their_own_worst_pose_are_shown_beside_their_own_original(tmp_path):
    results = [result("walk", "fdda", 0.01, worst=1), result("walk", "lbs", 0.1, worst=4)]
    text = Page(
        write_report(tmp_path / "r.html", report(results=results)).read_text(encoding="utf-8")
    ).text
    assert "Frame 1: the largest error of fdda" in text
    assert "Frame 4: the largest error of lbs" in text


def test_no_height_is_claimed_for_a_mesh_of_unknown_up_axis(tmp_path):
    mesh = replace(MESH, up_axis="unknown")
    path = write_report(tmp_path / "r.html", report(mesh=mesh))
    text = Page(path.read_text(encoding="utf-8")).text
    assert "height" not in text
    assert f"% of {mesh.size_label}" in text
    assert "up axis unknown" in text


def test_one_frame_and_a_left_handed_z_up_mesh(tmp_path):
    mesh = replace(MESH, up_axis="Z", handedness="left")
    Page(
        write_report(
            tmp_path / "r.html", report(mesh=mesh, results=[result("walk", "fdda", 0.1, frames=1)])
        ).read_text(encoding="utf-8")
    )


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FileError):
        write_report(tmp_path / "file" / "report.html", report())
    with pytest.raises(FileError, match="folder"):
        write_report(tmp_path, report())
    monkeypatch.setattr(
        "os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(FileError, match="space"):
        write_report(path, report())
    assert path.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "report.html"]


def test_wrong_data_is_refused_with_its_name():
    good = result("walk", "fdda", 0.1)
    with pytest.raises(InputError, match="duplicate result of 'fdda' on 'walk'"):
        report(results=[good, good])
    with pytest.raises(InputError, match="no results"):
        report(results=[])
    with pytest.raises(InputError, match="did you mean 'fdda'"):
        report(results=[good], subject="fda")
    with pytest.raises(InputError, match="the picture of fdda on walk has 3 vertices"):
        report(results=[replace(good, pictured=PicturedFrame(0, *np.zeros((2, 3, 3))))])
    with pytest.raises(InputError, match="approximation"):
        replace(good, pictured=good.pictured._replace(approx=np.zeros((3, 3))))
    with pytest.raises(InputError, match="histogram edges"):
        replace(good, histogram=(np.arange(3), np.arange(3)))


def test_overall_weights_cases_by_their_frames():
    short, long = result("a", "m", 0.1, frames=2), result("b", "m", 0.3, frames=8)
    found = overall([short, long], "m")
    assert found["mean"] == pytest.approx(
        (2 * short.figures["mean"] + 8 * long.figures["mean"]) / 10
    )
    assert found["max"] == max(short.figures["max"], long.figures["max"])
    assert best_of_case([short, long], "mean") == {}  # one method a case: nothing to compare


def test_the_terminal_table_has_the_same_numbers():
    from rich.console import Console

    results = report().results
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(
            figures_table(
                [*results, CaseResult("[red]odd[/]", "m", {"ms_9": 1.0})], "cm", title="Figures"
            )
        )
    text = console.export_text()
    for r in results:
        assert digits3(r.figures["mean"]) in text
        assert r.method in text
    for head in ("mean", "cm", "kB", "ms_9", "[red]odd[/]"):
        assert head in text


def test_numbers_are_written_with_three_digits():
    assert column_texts("bytes", [1_500_000, 2_000], "cm") == ("size", "MB", ["1.50", "0.00200"])
    assert column_texts("bones", [31.0, None], "cm") == ("bones", "", ["31", "-"])
    assert digits3(-0.001234) == "-0.00123"
    assert digits3(999.6) == "1,000"
    assert digits3(float("inf")) == "∞"


def test_the_telling_view_sees_the_error():
    """A bump of error on one side of a closed ball is looked at from that side."""
    vertices, triangles = sphere(12, 24)
    mesh = Mesh.from_faces(vertices, triangles)
    for azimuth in (35, -145):
        side = np.array([np.sin(np.radians(azimuth)), 0, np.cos(np.radians(azimuth))])
        approx = vertices + np.maximum(vertices @ side - 0.8, 0)[:, None] * side
        frame = PicturedFrame(0, vertices, approx)
        view, seen = views.telling_view(mesh, frame)
        assert view[0] == azimuth
        assert seen[int(frame.error.argmax())]

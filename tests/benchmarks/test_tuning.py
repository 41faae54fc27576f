"""Rows of benchmarks that took part in choosing a constant are marked wherever they are shown."""

import importlib
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

import understudy_benchmarks as benchmarks
from understudy import Poses
from understudy.evaluation.report import figures_table, plots
from understudy.evaluation.report.tables import results_table
from understudy.evaluation.result import CaseResult
from understudy.rigs import load_rig
from understudy_benchmarks import Outcome, Request, sequence_cases, tuning, two_layer
from understudy_benchmarks.tuning import CHOICES, Choice, is_tuned, marked

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "src" / "understudy", ROOT / "benchmarks" / "src" / "understudy_benchmarks")
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
CHOICE = Choice(("reach",), "x.py", ("guess", "guess-*"), ("two-layer:horse/*",))
ROWS = [
    CaseResult("horse/3", "guess", {"e": 1.0}),
    CaseResult("horse/3", "guess-ex", {"e": 2.0}),
    CaseResult("horse/3", "dense", {"e": 3.0}),
    CaseResult("camel/3", "guess", {"e": 4.0}),
]


@pytest.fixture
def one_choice(monkeypatch):
    monkeypatch.setattr(tuning, "CHOICES", (CHOICE,))


def printed(results):
    out = io.StringIO()
    Console(file=out, width=200).print(figures_table(results, "units"))
    return out.getvalue()


def test_a_benchmark_marks_the_rows_that_took_part(one_choice, monkeypatch):
    module = importlib.import_module("understudy_benchmarks.two_layer")
    monkeypatch.setattr(module, "run", lambda request, progress: Outcome(ROWS, "units"))
    outcome = benchmarks.run("two-layer", Request())
    assert [r.label for r in outcome.results] == ["guess *", "guess-ex *", "dense", "guess"]
    assert [row.get("tuned") for row in outcome.as_json("two-layer")["rows"]] == [
        True, True, None, None,
    ]  # fmt: skip
    text = printed(outcome.results)
    assert "guess *" in text
    assert "notes/tuning.md" in text
    assert "*" not in printed(outcome.results[2:])


def test_reports_mark_them_too(one_choice, monkeypatch, tmp_path):
    written = []
    monkeypatch.setattr(sequence_cases, "write_report", lambda path, data: written.append(data))
    poses = benchmark_poses()
    sequence_cases.write_poses_report(
        poses, "horse", ROWS, Request(out=tmp_path), "bench two-layer"
    )
    assert [r.tuned for r in written[0].results] == [True, True, False, False]
    styles = plots.method_styles(["guess", "guess-ex", "dense"])
    page = results_table(written[0], styles)
    assert "guess *</td>" in page
    assert "dense</td>" in page
    assert "notes/tuning.md" in page


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_no_stored_row_is_shown_unmarked(file):
    """Every stored row that took part is marked by the tables that `bench` prints."""
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    results = marked(file.stem, [CaseResult(r["case"], r["method"], {"e": 1.0}) for r in rows])
    for row, result in zip(rows, results):
        tuned = any(choice.covers(file.stem, row["case"], row["method"]) for choice in CHOICES)
        assert result.label.endswith(" *") == tuned


def test_every_choice_names_constants_that_exist_and_rows_of_a_benchmark():
    for choice in CHOICES:
        (file,) = (folder / choice.file for folder in SOURCES if (folder / choice.file).exists())
        text = file.read_text(encoding="utf-8")
        for name in choice.constants:
            assert name in text, f"{choice.file} has no {name}"
        assert choice.rows or choice.data
        for row in choice.rows:
            assert row.partition(":")[0] in benchmarks.NAMES, row


def test_patterns_reach_the_cases_they_name():
    """A pattern that matches no stored row is a typo, unless no row of its methods is stored."""
    stored = {file.stem: json.loads(file.read_text(encoding="utf-8"))["rows"] for file in RESULTS}
    stored["two-layer"] = [
        {"case": case, "method": method}
        for case in two_layer.CASES
        for method in (*two_layer.METHODS, *two_layer.ablation_rows())
    ]
    for choice in CHOICES:
        for pattern in choice.rows:
            name = pattern.partition(":")[0]
            single = Choice(choice.constants, choice.file, choice.methods, (pattern,))
            every = Choice(choice.constants, choice.file, choice.methods, (f"{name}:*",))
            rows = [(row["case"], row["method"]) for row in stored.get(name, [])]
            assert not any(every.covers(name, *row) for row in rows) or any(
                single.covers(name, *row) for row in rows
            ), f"{pattern} of {choice.constants} matches no row"
    assert not is_tuned("two-layer", "no_such/30", "two_layer")


def benchmark_poses():
    mesh = load_rig("tube").mesh
    return Poses(mesh, mesh.vertices[None], name="horse")

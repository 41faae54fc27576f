"""The documents: the site builds without warnings, links lead somewhere, limits of length hold."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from understudy.cli import app as cli
from understudy.methods import method_names, method_type
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "notes/*.md", "runtime/*.md", "examples/*.md")
    for path in ROOT.glob(pattern)
)
OUR_PACKAGES = ("understudy", "understudy_benchmarks")
OUR_METHODS = [
    name
    for name in method_names()
    if method_type(name).__module__.partition(".")[0] in OUR_PACKAGES
]
COMMANDS = typer.main.get_command(cli.app)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(text: str) -> list[tuple[int, str]]:
    """Line numbers and lines of Markdown outside code blocks and tables."""
    lines, fenced = [], False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("|", "    ", "![")):
            lines.append((number, line))
    return lines


@pytest.mark.slow
def test_site_builds_without_warnings(tmp_path):
    if importlib.util.find_spec("mkdocs") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("mkdocs is not installed: pip install '.[docs]'")
        pytest.skip("mkdocs is not installed: pip install '.[docs]'")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").exists()


def test_numbers_of_readme_are_all_written_by_the_script():
    """A marker that is split over two lines would not be found, and its number not checked."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    whole = re.findall(r"<!-- number \w+ -->[^<\n]*<!-- end -->", text)
    assert len(whole) == text.count("<!-- number") == text.count("<!-- end -->")


@pytest.mark.parametrize(("name", "limit"), [("README.md", 180), ("ARCHITECTURE.md", 120)])
def test_documents_stay_short(name, limit):
    assert len((ROOT / name).read_text(encoding="utf-8").splitlines()) <= limit


@each_page
def test_prose_fits_in_100_columns(page):
    long = [
        f"{page.name}:{number}: {len(line)} columns"
        for number, line in prose(page.read_text(encoding="utf-8"))
        if len(line) > 100
    ]
    assert not long


@each_page
def test_relative_links_exist(page):
    text = "\n".join(line for _, line in prose(page.read_text(encoding="utf-8")))
    tables = [line for line in page.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    missing = [
        link
        for link in LINK.findall(text + "\n".join(tables))
        if not link.startswith(("http://", "https://", "mailto:", "#"))
        and not (page.parent / link.partition("#")[0]).exists()
    ]
    assert not missing


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def test_the_method_of_contributing_runs():
    (code,) = python_blocks(ROOT / "CONTRIBUTING.md")
    names = {"__name__": "contributing"}
    exec(code, names)
    rig = load_rig("tube")
    poses = rig.evaluate(gaussian(rig.controls, 3, seed=0))
    deformer = names["Nearest"]().fit(poses)
    assert deformer.deform(poses.world_from_bone).shape == poses.vertices.shape


def test_the_python_of_readme_runs(tmp_path, monkeypatch):
    # The first block learns for minutes: tests/jobs calls the same, tests/test_types.py checks it.
    _, code = python_blocks(ROOT / "README.md")
    rig = load_rig("tube")
    lbs = method_type("lbs")()
    lbs.fit(rig.evaluate(gaussian(rig.controls, 20, seed=0))).save(tmp_path / "lid.understudy")
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert (tmp_path / "lid-half.understudy").exists()


def test_the_cpp_of_readme_is_that_of_the_runtime():
    """tests/runtime builds the block of runtime/README.md; README quotes it."""
    (code,) = re.findall(r"^```cpp\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert code in (ROOT / "runtime" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", OUR_METHODS)
def test_every_method_has_a_page_with_its_options(name):
    """The index links its page, which may describe a family of methods with the same options."""
    folder = ROOT / "docs" / "methods"
    text = (folder / "index.md").read_text(encoding="utf-8")
    products, _, baselines = text.partition("## Baselines")
    listed = baselines if method_type(name).traits.baseline else products
    link = re.search(rf"\[`{name}`\]\((\w+\.md)\)", listed)
    assert link, f"docs/methods/index.md does not link a page for {name}"
    page = (folder / link[1]).read_text(encoding="utf-8")
    assert name in page
    assert re.search(r"^<!-- options: \w+ -->$", page, re.MULTILINE)
    better = method_type(name).traits.baseline
    assert bool(better) == page.split("\n\n")[1].startswith("> ")
    assert not better or f"Use [`{better}`]({better}.md)" in page


@each_page
def test_commands_parse(page):
    """Every `understudy` command in a code block has arguments and options that exist."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")  # continued lines
    blocks = re.findall(r"^(?:    |```(?:sh|bash)\n)(understudy .*)$", text, re.MULTILINE)
    for line in blocks:
        name, *arguments = shlex.split(line, comments=True)[1:]
        arguments = arguments[: arguments.index(">")] if ">" in arguments else arguments
        try:
            COMMANDS.get_command(None, name).make_context(name, arguments)
        except Exception as error:
            pytest.fail(f"{line}: {error}")


def test_versions_agree():
    """The version is set in one place; documents that must repeat it agree."""
    from understudy import __version__

    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
    sections = rf"^## (Unreleased \({re.escape(__version__)}\)$|{re.escape(__version__)} - )"
    assert re.search(sections, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_links_are_rewritten_for_the_site():
    hook = _module(ROOT / "docs" / "hooks" / "repository_pages.py")
    text = "[a](ARCHITECTURE.md#rooms) [b](docs/formats.md) [c](src/x.py) [d](https://x.org)"
    assert hook.site_links(text, "README.md") == (
        "[a](architecture.md#rooms) [b](formats.md) c [d](https://x.org)"
    )
    assert hook.site_links("[a](../../CONTRIBUTING.md)", "docs/methods/fdda.md") == (
        "[a](../contributing.md)"
    )


def test_docstrings_become_markdown():
    hook = _module(ROOT / "docs" / "hooks" / "docstrings.py")
    text = hook.markdown("Sums.\n\na, b  what to\n      add\n\n>>> 1 + 1\n2")
    assert text == (
        "Sums.\n\n\n`a`, `b`\n:   what to\n    add\n\n\n\n```python\n>>> 1 + 1\n2\n```\n"
    )


def _module(path: Path):
    """A file of docs/hooks as a module; skips where what it imports is not installed."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("griffe")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

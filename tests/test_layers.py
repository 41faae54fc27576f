"""Imports inside functions, for optional dependencies alone; parts of formats, by their folder.

`lint-imports` checks which room may import which; this checks that no room is reached around it.
"""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = [
    ROOT / "src" / "understudy",
    ROOT / "benchmarks" / "src" / "understudy_benchmarks",
    ROOT / "characters" / "src" / "understudy_characters",
]
OPTIONAL = {"torch", "zarr", "onnx", "onnxruntime", "matplotlib", "rich", "PIL", "pxr", "typer"}
MODULES = {
    ".".join(file.relative_to(package.parent).with_suffix("").parts): file
    for package in PACKAGES
    for file in sorted(package.rglob("*.py"))
}


def imports(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Modules imported at the top of a file, and those imported inside its functions."""
    top: set[str] = set()
    inside: set[str] = set()

    def visit(node: ast.AST, target: set[str]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                target.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module:
                target.update(f"{child.module}.{alias.name}" for alias in child.names)
            function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            visit(child, inside if function else target)

    visit(tree, top)
    return top, inside


def module_of(name: str) -> str | None:
    """The module of ours that an imported name is, or comes from."""
    for candidate in (name, f"{name}.__init__", name.rpartition(".")[0]):
        if candidate in MODULES:
            return candidate
    package = name.rpartition(".")[0] + ".__init__"
    return package if package in MODULES else None


@cache
def read(module: str) -> tuple[set[str], set[str]]:
    return imports(ast.parse(MODULES[module].read_text(encoding="utf-8")))


def needs_optional(module: str, seen: frozenset[str] = frozenset()) -> bool:
    """Whether importing `module` imports an optional package, directly or through other modules."""
    top, _ = read(module)
    if {name.partition(".")[0] for name in top} & OPTIONAL:
        return True
    inner = {module_of(name) for name in top if name.startswith("understudy")}
    return any(needs_optional(m, seen | {module}) for m in inner if m and m not in seen)


def test_no_module_of_ours_is_imported_inside_a_function_without_need():
    inside = [(module, name) for module in MODULES for name in sorted(read(module)[1])]
    # A name that no file of ours has is a compiled part, which is optional too.
    ours = [(module, name, of) for module, name in inside if (of := module_of(name)) is not None]
    wrong = [f"{module}: {name}" for module, name, of in ours if not needs_optional(of)]
    assert not wrong, "imported inside a function: " + ", ".join(wrong)


def test_parts_of_a_format_are_reached_through_its_folder():
    folders = {file.parent.name for file in (PACKAGES[0] / "io").glob("*/__init__.py")}
    assert len(folders) > 5
    private = re.compile(rf"understudy\.io\.({'|'.join(sorted(folders))})\.(?!__init__)")
    wrong = [
        f"{module}: {name}"
        for module in MODULES
        # The benchmarks take formats apart, to compare with other ways of writing them.
        if not module.startswith("understudy_benchmarks.")
        for name in sorted(set().union(*read(module)))
        if (found := private.match(module_of(name) or ""))
        and not module.startswith(f"understudy.io.{found[1]}.")
    ]
    assert not wrong, "imported past the folder's __init__: " + ", ".join(wrong)


def test_a_planted_import_inside_a_function_is_seen():
    top, inside = imports(ast.parse("import a\ndef f():\n    from b.c import d\n"))
    assert (top, inside) == ({"a"}, {"b.c.d"})


def test_the_root_holds_nothing_but_the_package():
    files = {file.name for file in PACKAGES[0].iterdir() if file.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}


def test_the_command_line_alone_prints_and_stays_small():
    prints = {
        module
        for module, file in MODULES.items()
        if module.startswith("understudy.")
        # These print to whoever started them: Blender's scripts and the reader of FBX.
        and not {"inside", "scripts"} & set(file.parts)
        and module not in ("understudy.io.fbx.worker", "understudy.system.terminal_progress")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    }
    assert prints
    assert not [module for module in prints if not module.startswith("understudy.cli.")]
    files = (PACKAGES[0] / "cli").rglob("*.py")
    assert sum(file.read_text(encoding="utf-8").count("\n") for file in files) <= 2000

"""The `understudy` command: its sub-commands, and what becomes of errors.

Results go to standard output, progress and errors to standard error. Exit codes: 0 success, 2 an
error that the user can correct (one sentence), 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from understudy.cli.added_options import flat, memory_asked, threads_asked
from understudy.cli.compare import compare
from understudy.cli.compress import compress
from understudy.cli.demo import demo
from understudy.cli.evaluate import evaluate
from understudy.cli.export import export
from understudy.cli.farm import farm_job
from understudy.cli.fit import fit
from understudy.cli.learn import learn
from understudy.cli.learning_curve import learning_curve
from understudy.cli.plugin_commands import PASSES_ON, CommandGroup, epilog
from understudy.cli.reduce import reduce
from understudy.cli.sample import controls, sample
from understudy.cli.show import info, methods
from understudy.cli.view import view
from understudy.core.version import __version__
from understudy.system.errors import UnderstudyError

app = typer.Typer(
    cls=CommandGroup,
    help="Learns a character's deformation and stands in for it: small, fast, portable, with its "
    "error known.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # square brackets in help texts are text, not markup
    epilog="A first run: understudy demo. The whole job: learn. Step by step: sample, fit, "
    "evaluate, export.",
)
# In the order in which data flows, each with an example for its help. Those of plug-ins follow.
COMMANDS: tuple[tuple[Callable[..., None], str], ...] = (
    (demo, "understudy demo --out out/demo"),
    (learn, "understudy learn face -o face --to onnx"),
    (sample, "understudy sample human -o human.zarr --count 5000"),
    (farm_job, "understudy farm-job hero.blend -o job --chunks 40 --count 5000"),
    (controls, "understudy controls hero.blend -o ranges.toml"),
    (fit, "understudy fit fdda human.zarr -o human.understudy --set epochs=50"),
    (compress, "understudy compress 'walk/*.obj' -o walk.understudy --up Z --frame-rate 30"),
    (reduce, "understudy reduce two_layer hero.glb -o hero.understudy"),
    (evaluate, "understudy evaluate human.understudy --report report.html"),
    (compare, "understudy compare human -o compared --methods corrected_skin,fdda,lbs"),
    (
        learning_curve,
        "understudy learning-curve corrected_skin human.zarr -o curve --max-error 0.3mm",
    ),
    (view, "understudy view fdda.understudy lbs.understudy"),
    (export, "understudy export human.understudy human.glb --clip kick --morphs 64"),
    (info, "understudy info human.understudy"),
    (methods, "understudy methods fdda"),
)
LONG = (demo, learn, sample, fit, compress, evaluate, compare, learning_curve, export)
MANY_POSES = (learn, sample, fit, evaluate, compare, learning_curve)
for _command, _example in COMMANDS:
    _around = [threads_asked] * (_command in LONG) + [memory_asked] * (_command in MANY_POSES)
    _settings = PASSES_ON if _command is farm_job else None
    app.command(epilog=epilog(_example), context_settings=_settings)(flat(_command, *_around))


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if show:
        print(__version__)
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an error that the user can correct becomes one line."""
    try:
        # The parser returns the exit code of `typer.Exit`, and 130 after Ctrl-C.
        code = app(arguments, prog_name="understudy", standalone_mode=False) or 0
    except UnderstudyError as problem:
        print(f"understudy: {problem}", file=sys.stderr)
        code = 2
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except Exception as problem:
        # The argument parser's own errors have a method that prints them.
        show = getattr(problem, "show", None)
        if show is None:
            raise
        show()
        code = 2
    if code == 130:
        # `python -m` ends with the signal in place of our exit code when Ctrl-C came inside an
        # `exec`, as in the dataclasses of a module being imported. The next `exec` clears that.
        exec("")
        print(
            "understudy: interrupted; finished work is kept, run the same command again to resume",
            file=sys.stderr,
        )
    if code:
        sys.exit(code)

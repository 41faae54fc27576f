"""`understudy info` and `understudy methods`: what is in a file, and what can make one."""

from __future__ import annotations

import textwrap
from typing import Annotated

import typer

from understudy.cli.options import File
from understudy.cli.output import file_text
from understudy.core.deformer import Deformer
from understudy.evaluation.description import bytes_text, info_lines
from understudy.io.understudy import byte_shares
from understudy.methods.base import Method, option_table, preset_lines
from understudy.methods.registry import method_type, methods_by_name

_WIDTH = 100


def info(file: File) -> None:
    """Show what is in a .understudy file."""
    deformer = Deformer.load(file)
    print(f"{file}: {file_text(file, deformer)}")
    for name, text in (("bytes", bytes_text(byte_shares(file))), *info_lines(deformer)):
        print(f"{name:<12} {text}")


def methods(
    name: Annotated[
        str | None, typer.Argument(help="Also show the options of this method.")
    ] = None,
) -> None:
    """List the methods, or the options of one method."""
    if name is not None:
        print(method_text(method_type(name)))
        return
    known, problems = methods_by_name()
    presets = lambda kind: "".join(f" [--preset {name}]" for name in kind.Config.presets)
    better = lambda kind: f" [use {kind.traits.baseline}]" if kind.traits.baseline else ""
    line = lambda kind: f"  {kind.name:<16} {kind.summary()}{presets(kind)}{better(kind)}"
    print("Methods")
    print("\n".join(line(kind) for kind in known.values() if not kind.traits.baseline))
    for broken, problem in problems.items():
        print(f"  {broken:<16} cannot be used: {problem}")
    print("\nBaselines of the papers, for comparison: another method is better")
    print("\n".join(line(kind) for kind in known.values() if kind.traits.baseline))
    print("\nOptions of one method: understudy methods NAME")


def method_text(kind: type[Method]) -> str:
    """What a method does, what it needs, and its options with type, default and meaning."""
    lines = [f"{kind.name}: {kind.summary()}", _needs(kind), "", "Options (--set NAME=VALUE):"]
    for option in option_table(kind.Config):
        default = option.default or "empty"
        lines.append(f"  {option.name} ({option.type}; default {default})")
        lines += textwrap.wrap(
            option.meaning, _WIDTH, initial_indent="      ", subsequent_indent="      "
        )
    presets = preset_lines(kind.Config)
    if presets:
        lines += ["", "Presets (--preset NAME):"]
    for text in presets:
        lines += textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="      ")
    return "\n".join(lines)


def _needs(kind: type[Method]) -> str:
    """What a method takes and asks for, in a sentence."""
    traits = kind.traits
    if traits.takes_sequences:
        takes = "Fits poses and mesh sequences; it needs no bones."
    elif traits.controls_suffice:
        takes = "Fits poses that have bones, controls or both."
    else:
        takes = "Fits poses that have bones."
    more = [
        "It finds its own bones and keeps their motion as clips." if traits.finds_bones else "",
        "It evaluates the live rig where there is one." if traits.asks_rig else "",
        "It needs torch." if traits.needs_torch else "",
        f"A baseline, for comparison; use {traits.baseline} instead." if traits.baseline else "",
    ]
    return " ".join(sentence for sentence in (takes, *more) if sentence)

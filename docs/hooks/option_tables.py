"""mkdocs hook: replace `<!-- options: NAME -->` with a table of the method's options.

The table is made from the method's Config: name, type, default and meaning. Options are declared
once, in that dataclass.
"""

from __future__ import annotations

import dataclasses
import re
import typing

from mkdocs.exceptions import PluginError

from understudy.core.errors import UnderstudyError
from understudy.methods import method_type

MARKER = re.compile(r"^<!-- options: (\w+) -->$", re.MULTILINE)


def on_page_markdown(markdown, page, config, files):
    """Replace every marker of the page."""

    def table(match: re.Match) -> str:
        try:
            return option_table(method_type(match[1]).Config)
        except UnderstudyError as error:
            raise PluginError(f"{page.file.src_uri}: {match[0]}: {error}") from error

    return MARKER.sub(table, markdown)


def option_table(config_type: type) -> str:
    """A Markdown table of a Config: its options, their types, defaults and meaning."""
    meanings = option_meanings(config_type)
    hints = typing.get_type_hints(config_type)
    rows = ["| option | type | default | meaning |", "| --- | --- | --- | --- |"]
    for field in dataclasses.fields(config_type):
        meaning = meanings.get(field.name)
        if meaning is None:
            raise PluginError(f"{config_type.__qualname__}: option {field.name} has no description")
        cells = (
            f"`{field.name}`",
            f"`{type_text(hints[field.name])}`",
            f"`{default_text(field.default)}`",
            meaning,
        )
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def option_meanings(config_type: type) -> dict[str, str]:
    """Option name -> its description, from the docstrings of the Config and its bases."""
    meanings: dict[str, str] = {}
    for base in reversed(config_type.__mro__):
        names = {field.name for field in dataclasses.fields(config_type)}
        current = None
        for line in (base.__doc__ or "").splitlines():
            match = re.match(r"\s*(\w+)(?::|\s)\s*(\S.*)$", line)
            if match and match[1] in names:
                current = match[1]
                meanings[current] = match[2]
            elif line.strip() and current:
                meanings[current] += " " + line.strip()
            else:
                current = None
    return meanings


def type_text(hint) -> str:
    """A type as documentation shows it."""
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__name__
    return str(hint).replace("typing.", "").replace("NoneType", "None")


def default_text(value) -> str:
    """A default as the command line reads it."""
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)

"""griffe extension: make Markdown of our docstrings before mkdocstrings renders them.

Docstrings are written to be read in a terminal. Two of their forms need help:

    name    its meaning, in aligned columns, possibly      -> a definition list
            over several lines
    >>> an_example()                                       -> a fenced code block
"""

from __future__ import annotations

import re
import textwrap

import griffe

ROW = re.compile(r"^(?P<name>\S(?:.*?\S)??)  +(?P<meaning>\S.*)$")


class MarkdownDocstrings(griffe.Extension):
    """Rewrite every docstring that griffe loads."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    """A docstring's text as Markdown."""
    lines = text.splitlines()
    out: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        if line.lstrip().startswith(">>>"):
            end = number
            while end < len(lines) and lines[end].strip():
                end += 1
            example = textwrap.dedent("\n".join(lines[number:end]))
            out += ["", "```python", example, "```", ""]
            number = end
        elif ROW.match(line) and starts_block(lines, number):
            number = definitions(lines, number, out)
        else:
            out.append(line)
            number += 1
    return "\n".join(out)


def starts_block(lines: list[str], number: int) -> bool:
    """Whether an aligned list can begin here: after an empty line, or at the top."""
    return number == 0 or not lines[number - 1].strip()


def definitions(lines: list[str], number: int, out: list[str]) -> int:
    """Write the aligned rows from `number` on as a definition list; return the next line."""
    while number < len(lines) and lines[number].strip():
        line = lines[number]
        match = ROW.match(line)
        if match:
            names = ", ".join(f"`{name.strip()}`" for name in match["name"].split(","))
            out += ["", names, f":   {match['meaning']}"]
        else:
            out.append("    " + line.strip())
        number += 1
    out.append("")
    return number

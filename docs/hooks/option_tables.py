"""mkdocs hook: replace `<!-- options: NAME -->` with a table of the method's options.

The table is made from the method's Config, where each option is declared once.
"""

from __future__ import annotations

import re

from mkdocs.exceptions import PluginError

from understudy.methods import method_type
from understudy.methods.base import option_table, preset_lines
from understudy.system.errors import UnderstudyError

MARKER = re.compile(r"^<!-- options: (\w+) -->$", re.MULTILINE)


def on_page_markdown(markdown, page, config, files):
    """Replace every marker of the page."""
    return MARKER.sub(lambda match: markdown_table(match[1], page.file.src_uri), markdown)


def markdown_table(name: str, page: str) -> str:
    """The options of the method `name` as a Markdown table; `page` is for errors."""
    try:
        options = option_table(method_type(name).Config)
    except UnderstudyError as error:
        raise PluginError(f"{page}: <!-- options: {name} -->: {error}") from error
    rows = ["| option | type | default | meaning |", "| --- | --- | --- | --- |"]
    for option in options:
        if not option.meaning:
            raise PluginError(f"{page}: the docstring of the Config does not say {option.name}")
        cells = f"`{option.name}`", option.type, f"`{option.default}`", option.meaning
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    presets = preset_lines(method_type(name).Config)
    if presets:
        rows += ["", "Presets (`--preset NAME`):", ""]
    for text in presets:
        preset, _, values = text.partition(": ")
        rows.append(f"- `{preset}`: `{values}`")
    return "\n".join(rows)

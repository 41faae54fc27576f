"""mkdocs hook: list every page of `docs/methods/` in the navigation, in the registry's order.

A new method needs only its page: the navigation is not edited.
"""

from __future__ import annotations

from pathlib import Path

from understudy.methods import method_names


def on_config(config):
    """Append the method pages that exist to the section `Methods`."""
    folder = Path(config.docs_dir) / "methods"
    pages = [name for name in method_names() if (folder / f"{name}.md").exists()]
    # Pages about several methods come last.
    pages += sorted({page.stem for page in folder.glob("*.md")} - {"index", *pages})
    for section in config.nav:
        if "Methods" in section:
            section["Methods"] = [
                "methods/index.md",
                *({name: f"methods/{name}.md"} for name in pages),
            ]
    return config

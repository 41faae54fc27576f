"""mkdocs hook: list every page of `docs/methods/` in the navigation.

Pages of single methods come first, in the order of the registry, then pages of families. A new
method needs only its page: the navigation is not edited.
"""

from __future__ import annotations

from pathlib import Path

from understudy.methods import method_names


def on_config(config):
    """Fill the section `Methods` with the pages that exist."""
    pages = {path.stem for path in (Path(config.docs_dir) / "methods").glob("*.md")} - {"index"}
    single = [name for name in method_names() if name in pages]
    families = sorted(pages - set(single))
    for section in config.nav:
        if "Methods" in section:
            section["Methods"] = [
                "methods/index.md",
                *({name: f"methods/{name}.md"} for name in single),
                *(f"methods/{name}.md" for name in families),
            ]
    return config

"""mkdocs hook: show documents that live outside `docs/` as pages of the site.

GitHub readers expect ARCHITECTURE.md and the others at the root of the repository. The site shows
the same files. Their relative links are rewritten: a link to another page of the site leads there,
and a link to a source file becomes plain text, because the site does not contain sources.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

# Path in the repository -> path on the site.
PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "getting-started.md",
    "runtime/README.md": "runtime.md",
    "runtime/DESIGN.md": "runtime-design.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files, config):
    """Add the pages of `PAGES` whose file exists."""
    root = Path(config.config_file_path).parent
    for source, target in PAGES.items():
        path = root / source
        if path.exists():
            text = site_links(path.read_text(encoding="utf-8"), source)
            files.append(File.generated(config, target, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Rewrite links of pages in `docs/` that lead out of it, such as `../ARCHITECTURE.md`."""
    if page.file.generated_by:
        return markdown
    return site_links(markdown, posixpath.join("docs", page.file.src_uri))


def site_links(text: str, source: str) -> str:
    """Markdown `text` of the repository file `source` with its links rewritten for the site.

    >>> site_links("[why](ARCHITECTURE.md#rooms), [code](src/x.py)", "README.md")
    '[why](architecture.md#rooms), code'
    """
    on_site = PAGES.get(source, posixpath.relpath(source, "docs"))
    folder = posixpath.dirname(on_site)

    def rewrite(match: re.Match) -> str:
        image, label, link = match.groups()
        if link.startswith(("#", "http://", "https://", "mailto:")):
            return match[0]
        path, _, anchor = link.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if path in PAGES:
            target = PAGES[path]
        elif path.startswith("docs/"):
            target = path.removeprefix("docs/")
        else:
            return label
        target = posixpath.relpath(target, folder or ".")
        return f"{image}[{label}]({target}{'#' + anchor if anchor else ''})"

    # Code blocks are left alone.
    parts = re.split(r"(^```.*?^```)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(rewrite, part) for part in parts)

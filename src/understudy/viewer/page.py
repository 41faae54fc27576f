"""The page: with its scene inside, for any browser and no server, or alone, for the server.

Scripts, styles and the WebAssembly modules are in the page. A policy in it forbids it to reach the
network.
"""

from __future__ import annotations

import base64
import gzip
from html import escape
from importlib import resources
from pathlib import Path

from understudy.io.atomic_write import atomic_write
from understudy.system.errors import InputError
from understudy.viewer.packing import Container

# The runtime; the page takes the one that its browser runs.
_MODULES = ("understudy.simd.wasm", "understudy.wasm")
# What a page from disk may do: run its own script and WebAssembly, and nothing else.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)


def write_page(scene: Container, path: str | Path) -> int:
    """Write a page that contains `scene`, whole or not at all, and return its size in bytes."""
    data = page_with_scene(scene).encode()
    with atomic_write(path) as part:
        part.write_bytes(data)
    return len(data)


def page_with_scene(scene: Container) -> str:
    """Return a page that needs no server."""
    return _page(
        str(scene.about["title"]),
        policy=f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">',
        scene=_inside("scene", scene.to_bytes()),
    )


def page_for_server(title: str, nonce: str) -> str:
    """Return the page that asks its server for the scene.

    nonce  what the server's policy allows scripts and styles by
    """
    return _page(title, nonce=f' nonce="{escape(nonce)}"')


def server_policy(nonce: str) -> str:
    """Return the policy of `page_for_server`: its own script, and its own server only."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}' 'wasm-unsafe-eval'; "
        f"style-src 'nonce-{nonce}' 'unsafe-inline'; connect-src 'self'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def javascript_package() -> Path:
    """Return the folder of the JavaScript package: in the wheel, or in the repository."""
    package = Path(__file__).parents[1]
    for folder in (package / "js", package.parents[1] / "js"):
        if (folder / "understudy.js").is_file():
            return folder
    raise InputError("the JavaScript package is not here: this install is incomplete; repeat it")


def _inside(name: str, data: bytes) -> str:
    """Return the element from which the script of the page reads `data`."""
    # Without a time, so that the same data gives the same page.
    text = base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()
    return f'<script type="text/plain" id="{name}">{text}</script>'


def _page(title: str, *, policy: str = "", scene: str = "", nonce: str = "") -> str:
    """Return the template with its places filled."""
    folder = resources.files("understudy.viewer").joinpath("page")
    read = lambda name: folder.joinpath(name).read_text(encoding="utf-8")
    modules = [javascript_package() / name for name in _MODULES]
    # "</" inside the script would end its element.
    script = read("viewer.js").replace("</script", "<\\/script")
    parts = {
        "policy": policy,
        "title": escape(title),
        "style": f"<style{nonce}>\n{read('viewer.css')}</style>",
        "scene": scene,
        "runtime": "\n".join(_inside(module.name, module.read_bytes()) for module in modules),
        "script": f'<script type="module"{nonce}>\n{script}</script>',
    }
    before, *rest = read("index.html").split("<!-- ")
    for piece in rest:
        name, _, after = piece.partition(" -->")
        before += parts[name] + after
    return before

"""A real browser for tests of pages: Debian's Chromium without a window, driven by Playwright."""

import io
import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from needs import missing

# WebGL in software; a container has no sandbox of its own to offer.
FLAGS = ("--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
# Screenshots for people to look at: `UNDERSTUDY_SCREENSHOTS`, or build/screenshots.
SCREENSHOTS = Path(
    os.environ.get("UNDERSTUDY_SCREENSHOTS", Path(__file__).parents[1] / "build" / "screenshots")
)
DESKTOP, PHONE = (1000, 640), (390, 844)


@contextmanager
def chromium():
    """A running browser."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        missing("chromium is not here; apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not here; pip install playwright")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A page in the browser, with everything that it complained about."""

    def __init__(self, browser, size=DESKTOP, touch=False):
        self.context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, has_touch=touch, is_mobile=touch
        )
        self.context.set_default_timeout(60_000)
        self.page = self.context.new_page()
        self.complaints = []
        self.page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        self.page.on(
            "console",
            lambda said: (
                self.complaints.append(said.text) if said.type in ("error", "warning") else None
            ),
        )

    def open(self, url):
        """Open an address and wait until the page shows something, or says what is wrong."""
        self.page.goto(url)
        self.page.wait_for_selector("#timeline, #failure", state="attached")
        return self

    def run(self, script):
        """The value of an expression, in which `app` is the page's `App`."""
        return self.page.evaluate(
            f"(() => {{ const app = window.understudy; return {script}; }})()"
        )

    def settle(self):
        """Wait until the page has drawn twice."""
        self.page.evaluate(
            "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))"
        )

    def picture(self, name=None):
        """What the page shows, (h,w,3) uint8; kept as a file under a name."""
        from PIL import Image

        self.settle()
        data = self.page.screenshot()
        if name is not None:
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            (SCREENSHOTS / f"{name}.png").write_bytes(data)
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)

    def stage(self):
        """What is drawn of the character: (h,w,4) uint8, without the interface."""
        from PIL import Image

        hide = "header,aside,footer,#legend,#labels,#worst,#swipe,#notices{visibility:hidden}"
        handle = self.page.add_style_tag(content=hide)
        self.settle()
        data = self.page.screenshot()
        handle.evaluate("element => element.remove()")
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)

    def close(self):
        """Close the tab; fail if the page complained."""
        self.context.close()
        assert self.complaints == []


def different(a, b, by=24):
    """The share of pixels of two pictures that differ by more than `by` in a channel."""
    return float((np.abs(a - b).max(axis=2) > by).mean())

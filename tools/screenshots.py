"""Photograph a site: ``python tools/screenshots.py build/docs/html FOLDER [PAGE …]``.

Each page is opened in Chromium at 1,200 and at 400 pixels, light and dark. A page that is wider
than the window or asks another machine for anything is an error, and so is a search without result.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Error, FloatRect, Page, sync_playwright

WIDTHS = (1200, 400)
THEMES = ("light", "dark")
TALLEST = 4000  # pixels of a page that are photographed


def cut_texts(page: Page) -> str:
    """Name texts that end beyond the window; only code and tables may scroll."""
    return str(
        page.evaluate(
            """() => [...document.querySelectorAll('main *')].filter(element => {
                if (![...element.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
                    return false;
                const range = document.createRange();
                range.selectNodeContents(element);
                if (range.getBoundingClientRect().right <= innerWidth + 1) return false;
                if (!element.checkVisibility({visibilityProperty: true, opacityProperty: true}))
                    return false;
                return !element.closest(
                    'pre, .pst-scrollable-table-container, .output_area, .ellipsis');
            }).slice(0, 3).map(e => e.outerHTML.slice(0, 120)).join(' | ')"""
        )
    )


def photograph(page: Page, url: str, folder: Path, name: str) -> list[str]:
    """Take the pictures of a page; return what is wrong with it."""
    wrong = []
    for width in WIDTHS:
        for theme in THEMES:
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(url)
            page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
            height = page.evaluate("document.documentElement.scrollHeight")
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wrong.append(f"{name} is wider than {width} pixels")
            if cut := cut_texts(page):
                wrong.append(f"{name} has text beyond {width} pixels: {cut}")
            clip = FloatRect(x=0, y=0, width=width, height=min(height, TALLEST))
            page.screenshot(path=folder / f"{name}-{width}-{theme}.png", full_page=True, clip=clip)
    return wrong


def main(site: str, folder: str, *names: str) -> int:
    """Photograph the pages of these names, or all; return 1 if anything is wrong."""
    root, into = Path(site).resolve(), Path(folder)
    into.mkdir(parents=True, exist_ok=True)
    found = [path for path in sorted(root.rglob("*.html")) if "_static" not in path.parts]
    chosen = {str(path.relative_to(root).with_suffix("")): path for path in found}
    problems: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith(("file:", "data:"))
                else problems.append(f"{page.url} asks for {request.url}")
            ),
        )
        for name in names or chosen:
            short = name.replace("/", "-")
            problems += photograph(page, chosen[name].as_uri(), into, short)
        page.goto((root / "search.html").as_uri() + "?q=drift")
        try:
            page.wait_for_selector("#search-results li a", timeout=10_000)
        except Error:
            problems.append("the search finds nothing")
        browser.close()
    problems = list(dict.fromkeys(problems))
    print(*problems, f"{len(names or chosen)} pages, {len(problems)} problems", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

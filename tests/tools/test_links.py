"""Links of the pages lead to files, pictures and headings that are in the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@cache
def parse(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def targets(page: Path) -> Iterator[str]:
    """Yield the targets of the links and pictures of a page."""
    for token in parse(page):
        for part in token.children or ():
            if part.type in ("link_open", "image"):
                yield str(part.attrs["href" if part.type == "link_open" else "src"])


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub names them."""
    found: list[str] = []
    for before, token in zip(parse(page), parse(page)[1:], strict=False):
        if before.type == "heading_open":
            text = "".join(p.content for p in token.children or () if p.type != "image")
            name = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            n_before = sum(other == name for other in found)
            found.append(f"{name}-{n_before}" if n_before else name)
    return set(found)


def broken(page: Path, root: Path = ROOT) -> list[str]:
    """Return the local targets of a page that are not there."""
    missing = []
    for target in targets(page):
        url = urlsplit(target)
        if url.scheme or url.netloc:
            continue
        path = (page.parent / unquote(url.path)).resolve() if url.path else page
        is_there = path.exists() and path.is_relative_to(root)
        if not is_there or (url.fragment and unquote(url.fragment) not in anchors(path)):
            missing.append(target)
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_local_links_and_pictures_lead_somewhere(page):
    assert broken(page) == []


def test_what_is_missing_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One `x`\n# One `x`\n[a](#one-x-1) [b](#one-x-2) ![c](none.png) [d](http://e)"
    )
    assert broken(page, tmp_path) == ["#one-x-2", "none.png"]


def test_all_pictures_of_the_pages_are_shown():
    shown = {(page.parent / target).resolve() for page in PAGES for target in targets(page)}
    pictures = set(ROOT.glob("docs/images/*.png"))
    assert len(pictures) > 20
    assert pictures <= shown

"""Check a built site: ``python tools/check_site.py build/docs/html``.

- Every link to a page, an anchor or a file of the site leads somewhere, also in `llms.txt`.
- Nothing is loaded from elsewhere: no script, style, font or picture.
- Every public name of amforest has a page in the API reference.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import amforest

# Their names are those of `amforest` itself, or commands.
NO_API = {"__main__", "classifier", "cli", "regressor"}
REMOTE_IN_CSS = re.compile(r"(?:url\(|@import)\s*[\"']?\s*(?:https?:)?//[^)\"';]+")


class Page(HTMLParser):
    """What a page of HTML refers to, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.styles = ""
        self._in_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note links, sources and anchors of an element."""
        given = {name: value for name, value in attrs if value is not None}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.styles += given.get("style", "")
        self._in_style = tag == "style"
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") != "canonical" and "href" in given:
            self.loaded.append(given["href"])
        self.loaded += [given[name] for name in ("src", "poster", "data") if name in given]
        self.loaded += [part.split()[0] for part in given.get("srcset", "").split(",") if part]

    def handle_data(self, data: str) -> None:
        """Note the text of a style."""
        if self._in_style:
            self.styles += data

    def handle_endtag(self, tag: str) -> None:
        """Leave a style."""
        self._in_style = False


def is_remote(address: str) -> bool:
    """Tell whether an address is on another machine."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("http", "https", "ftp")


def broken_links(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Yield the links and sources within the site that lead nowhere."""
    for path, page in pages.items():
        for address in dict.fromkeys(page.links + page.loaded):
            parts = urlsplit(address)
            if is_remote(address) or parts.scheme in ("data", "mailto", "javascript"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_relative_to(site) or not target.exists():
                yield f"{path.relative_to(site)}: {address} does not exist"
            elif parts.fragment and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{path.relative_to(site)}: {address} is no anchor of that page"


def remote_sources(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Yield what pages and styles load from elsewhere."""
    for path, page in pages.items():
        remote = [address for address in page.loaded if is_remote(address)]
        for address in remote + REMOTE_IN_CSS.findall(page.styles):
            yield f"{path.relative_to(site)} loads {address}"
    for path in site.rglob("*.css"):
        for address in REMOTE_IN_CSS.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)} loads {address}"


def missing_texts(site: Path) -> Iterator[str]:
    """Yield the files that `llms.txt` lists and that do not exist."""
    for address in re.findall(r"\]\(([^)]*)\)", (site / "llms.txt").read_text(encoding="utf-8")):
        if not (site / address).is_file():
            yield f"llms.txt: {address} does not exist"


def public_modules() -> list[ModuleType]:
    """Return amforest and its public modules, those of its packages excepted."""
    found = [module.name for module in pkgutil.iter_modules(amforest.__path__)]
    names = [name for name in found if not name.startswith("_") and name not in NO_API]
    return [amforest, *(import_module(f"amforest.{name}") for name in names)]


def undocumented_names(pages: dict[Path, Page]) -> Iterator[str]:
    """Yield the public names that have no entry; an object may have one under another name."""
    anchors = {anchor for page in pages.values() for anchor in page.anchors}
    documented = set()
    missing = []
    for module in public_modules():
        for name in module.__all__:
            value = getattr(module, name)
            if f"{module.__name__}.{name}" in anchors:
                documented.add(id(value))
            else:
                missing.append((module.__name__, name, value))
    for module_name, name, value in missing:
        is_alias = inspect.isclass(value) or inspect.isfunction(value)
        if not (is_alias and id(value) in documented):
            yield f"{module_name}.{name} is not in the API reference"


def main(folder: str) -> int:
    """Print all problems; return 1 if there are any."""
    site = Path(folder).resolve()
    pages = {
        path: Page(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
        if "_static" not in path.relative_to(site).parts
    }
    problems = [
        *broken_links(site, pages),
        *remote_sources(site, pages),
        *missing_texts(site),
        *undocumented_names(pages),
    ]
    print(*problems, sep="\n", file=sys.stderr)
    print(f"{len(pages)} pages, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

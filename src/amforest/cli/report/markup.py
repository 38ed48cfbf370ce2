"""HTML from values and names: everything from the data is escaped."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from html import escape

LONGEST = 120  # characters of a name or value that are shown
NOTHING = "–"

# Characters that HTML and XML forbid, and marks that reverse the direction of text.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def plain(value: object, longest: int = LONGEST) -> str:
    """Return text without control characters, shortened and not yet escaped."""
    words = _FORBIDDEN.sub("\ufffd", re.sub(r"\s+", " ", str(value)))
    return words if len(words) <= longest else words[: longest - 1] + "…"


def text(value: object, longest: int = LONGEST) -> str:
    """Return anything as text in HTML."""
    return escape(plain(value, longest))


def name(value: object, longest: int = LONGEST) -> str:
    """Return a name from the data, to stand among other words."""
    return f"<bdi>{text(value, longest)}</bdi>"


# Numbers


def number(value: float | None) -> str:
    """Return a number with three digits, and with all digits for machines."""
    if value is None or math.isnan(value):
        return NOTHING
    return f'<data value="{value!r}">{rounded(value)}</data>'


def rounded(value: float) -> str:
    """Return a number with three significant digits."""
    words = f"{value:#.3g}".rstrip(".")
    if 1e3 <= abs(float(words)) < 1e9:
        words = f"{float(words):,.0f}"
    return "0" if value == 0 else words.replace("-", "−")


def as_read(value: float) -> str:
    """Return a number of the data: whole, if it is, or with three significant digits."""
    if value == round(value, 0) and abs(value) < 1e9:
        return f"{value + 0.0:,.0f}".replace("-", "−")
    return rounded(value)


def count(value: int) -> str:
    """Return a whole number."""
    return f"{value:,}"


def bytes_of(value: int) -> str:
    """Return a number of bytes."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:,.1f} {unit}"
    return f"{value} bytes"


def duration(seconds: float) -> str:
    """Return a duration."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


def timing(words: str) -> str:
    """Mark text that depends on the clock, and so differs between equal runs."""
    return f'<span class="timing">{words}</span>'


# Blocks


def section(key: str, title: str, *parts: str) -> str:
    """Return a section of the page, with a heading."""
    inner = "\n".join(part for part in parts if part)
    return f'<section id="{key}">\n<h2>{title}</h2>\n{inner}\n</section>'


def paragraph(words: str, css: str = "") -> str:
    """Return a paragraph."""
    return f'<p class="{css}">{words}</p>' if css else f"<p>{words}</p>"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a list of names and values."""
    items = "\n".join(f"<div><dt>{key}</dt><dd>{value}</dd></div>" for key, value in pairs)
    return f'<dl class="facts">\n{items}\n</dl>'


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], css: str = "") -> str:
    """Return a table; the first cell of a row is its head. Cells are HTML, or whole `<td>`s."""
    top = "".join(f'<th scope="col">{head}</th>' for head in heads)
    body = "\n".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(map(_cell, row[1:])) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="wide {css}"><table>\n<caption><span>{caption}</span></caption>\n'
        f"<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def _cell(inner: str) -> str:
    return inner if inner.startswith("<td") else f"<td>{inner}</td>"


def bar(words: str, fraction: float) -> str:
    """Return a cell with a bar behind its number; a fraction of 1 fills it."""
    return f'<td><span class="bar" style="--fraction: {fraction:.3f}"></span>{words}</td>'


def figure(
    svg: str, words: str, *, title: str, is_broad: bool = False, has_names: bool = False
) -> str:
    """Return a figure with its caption.

    A broad one is as wide as the page. On a phone its text is larger, or it scrolls if there are
    long names beside it.
    """
    caption = f"<strong>{title}</strong> {words}".strip()
    css = f' class="broad{" named" if has_names else ""}"' if is_broad else ""
    inner = f'<div class="wide">{svg}</div>' if is_broad else svg
    return f"<figure{css}>\n<figcaption>{caption}</figcaption>\n{inner}\n</figure>"


def side_by_side(*blocks: str) -> str:
    """Return blocks in columns, where the page is wide enough."""
    return '<div class="columns">\n' + "\n".join(blocks) + "\n</div>"

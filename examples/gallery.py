"""Make the pictures of docs/gallery.md by running its lines: ``python examples/gallery.py``.

Each picture is the figure that is current where the page shows it.
"""

from __future__ import annotations

import doctest
import io
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

DOCS = Path(__file__).resolve().parents[1] / "docs"
PICTURE = re.compile(r"!\[[^]]*\]\((images/gallery_\w+\.png)\)")


def run(text: str, names: dict[str, Any]) -> None:
    """Run the examples in a text."""
    for example in doctest.DocTestParser().get_examples(text):
        exec(example.source, names)


def save(figure: Figure, path: Path) -> None:
    """Write a picture of 256 colours; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=150, metadata={"Software": None})
    picture = Image.open(buffer).convert("RGB")
    few_colours = picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few_colours.save(path, optimize=True)


def main() -> None:
    """Run the page, and save its pictures as they come."""
    mpl.use("Agg")
    names: dict[str, Any] = {}
    # Texts and the paths of the pictures behind them, in turn.
    texts_and_paths = PICTURE.split((DOCS / "gallery.md").read_text(encoding="utf-8"))
    for text, path in zip(texts_and_paths[::2], texts_and_paths[1::2], strict=False):
        run(text, names)
        save(plt.gcf(), DOCS / path)
        plt.close("all")
        print(f"{path}: {(DOCS / path).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()

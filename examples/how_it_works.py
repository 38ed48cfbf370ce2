"""Make the pictures of docs/how_it_works.md: ``python examples/how_it_works.py``.

Each picture is the figure that is current where the page shows it.
"""

from __future__ import annotations

import re
from typing import Any

import matplotlib as mpl
from gallery import DOCS, run, save
from matplotlib import pyplot as plt

PICTURE = re.compile(r"!\[[^]]*\]\((images/how_\w+\.png)\)")


def main() -> None:
    """Run the page, and save its pictures as they come."""
    mpl.use("Agg")
    names: dict[str, Any] = {}
    texts_and_paths = PICTURE.split((DOCS / "how_it_works.md").read_text(encoding="utf-8"))
    for text, path in zip(texts_and_paths[::2], texts_and_paths[1::2], strict=False):
        run(text, names)
        save(plt.gcf(), DOCS / path)
        plt.close("all")
        print(f"{path}: {(DOCS / path).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()

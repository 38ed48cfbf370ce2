"""Make the pictures of docs/explaining.md: ``python examples/explaining.py``.

It runs the page's blocks of code that show no prompts, in the folder ``streams`` of
``AMFOREST_DATA``, which holds ``bike.csv.zip``. Each picture is the figure that is current where
the page shows it. What the blocks print is what the page says.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
from gallery import DOCS, save
from matplotlib import pyplot as plt

CODE = re.compile(r"^```python\n(?!>>>)(.*?)^```$", re.DOTALL | re.MULTILINE)
PICTURE = re.compile(r"!\[[^]]*\]\((images/explaining_\w+\.png)\)")


def main() -> None:
    """Run the page, and save its pictures as they come."""
    mpl.use("Agg")
    os.chdir(Path(os.environ["AMFOREST_DATA"]) / "streams")
    names: dict[str, Any] = {}
    texts_and_paths = PICTURE.split((DOCS / "explaining.md").read_text(encoding="utf-8"))
    for text, path in zip(texts_and_paths[::2], [*texts_and_paths[1::2], None], strict=True):
        for code in CODE.findall(text):
            exec(code, names)
        if path is not None:
            save(plt.gcf(), DOCS / path)
            plt.close("all")
            print(f"{path}: {(DOCS / path).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()

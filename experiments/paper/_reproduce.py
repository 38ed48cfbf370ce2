"""All exhibits in turn: computed, drawn, checked and reported."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

from matplotlib.figure import Figure
from PIL import Image

import amforest
from amforest import datasets
from experiments.paper import _report
from experiments.paper._findings import Claim, Exhibit, Table
from experiments.paper._run import Report, Run, Size, ignore_progress

NAMES = (*(f"figure_{k:02}" for k in range(1, 13)), "table_2", "table_3")
DATA_SETS = {"figure_10", "figure_11", "figure_12", "table_3"}  # those that need them
DOTS_PER_INCH = 110
IMAGES = Path("images", "paper")


@dataclass(frozen=True)
class Finding:
    """The results of an exhibit; the picture is a file below the report's folder."""

    name: str
    title: str
    about: str
    picture: Path | None
    tables: list[Table]
    claims: list[Claim]


def reproduce(
    folder: str | os.PathLike[str],
    *,
    only: Sequence[str] = NAMES,
    size: Size = "full",
    n_jobs: int = 1,
    kept: str | os.PathLike[str] | None = None,
    report: Report = ignore_progress,
) -> list[Finding]:
    """Reproduce the paper's figures and tables, and report which of its claims hold.

    Parameters
    ----------
    folder : path-like
        Where ``paper.md``, ``paper.html``, ``paper.json`` and the pictures are written. The page of
        HTML needs no other file.
    only : sequence of str, optional
        Some of `NAMES`.
    size : {"full", "quick", "tiny"}, default="full"
        How many samples and seeds: "full" takes most of an hour on two cores, "quick" minutes.
    n_jobs : int, default=1
        The number of processes.
    kept : path-like, optional
        Where computed results are kept: an interrupted run continues from there, and what did not
        change is not computed again. By default, ``found`` in the folder.
    report : callable, optional
        Called with what is being done, how much of it is done, and how much there is.

    Returns
    -------
    list of Finding
        One for each exhibit.

    Raises
    ------
    ValueError
        If a name is unknown.
    FileNotFoundError
        If a data set is absent.
    """
    for name in only:
        if name not in NAMES:
            raise ValueError(f"unknown exhibit {name!r}; known are {', '.join(NAMES)}")
    if size != "tiny" and DATA_SETS & {*only}:
        datasets.fetch()  # once, and not in each of the processes
    folder = Path(folder)
    run = Run(kept or folder / "found", size=size, n_jobs=n_jobs, report=report)
    with run.open():
        findings = [_finding(name, run, folder) for name in NAMES if name in only]
    text = _report.markdown(findings, size)
    folder.joinpath("paper.md").write_text(text, encoding="utf-8")
    folder.joinpath("paper.html").write_text(_report.page(text, folder), encoding="utf-8")
    folder.joinpath("paper.json").write_text(_numbers(findings, size), encoding="utf-8")
    return findings


def _finding(name: str, run: Run, folder: Path) -> Finding:
    """Run an exhibit, and write its picture."""
    exhibit = cast(Exhibit, import_module(f"experiments.paper.{name}"))
    found = exhibit.compute(run)
    figure = exhibit.draw(found)
    picture = None
    if figure is not None:
        picture = IMAGES / f"{name}.png"
        folder.joinpath(IMAGES).mkdir(parents=True, exist_ok=True)
        folder.joinpath(picture).write_bytes(_png(figure))
    tables, claims = exhibit.tables(found), exhibit.claims(found)
    return Finding(name, exhibit.TITLE, exhibit.ABOUT, picture, tables, claims)


def _png(figure: Figure) -> bytes:
    """Return the picture in 256 colours, a third as large; rare ones stay as they are."""
    drawn, packed = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, dpi=DOTS_PER_INCH)
    whole = Image.open(drawn).convert("RGB")
    colours = whole.quantize(method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    colours.save(packed, "PNG", optimize=True)
    return packed.getvalue()


def _numbers(findings: list[Finding], size: Size) -> str:
    """Return tables and claims as JSON, to compare runs with."""
    exhibits = {
        finding.name: {
            "claims": [asdict(claim) for claim in finding.claims],
            "tables": [asdict(table) for table in finding.tables],
        }
        for finding in findings
    }
    content = {"amforest": amforest.__version__, "size": size, "exhibits": exhibits}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

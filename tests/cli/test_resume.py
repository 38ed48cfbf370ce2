"""A run that was stopped and started again has the metrics and records of a run in one go."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from amforest.cli.console import CommandError
from amforest.cli.report import write_report
from amforest.cli.row_file import RowFile
from amforest.cli.run import Outcome, Session, run
from amforest.cli.settings import Settings
from amforest.model_io import model_file
from command import amf

N_ROWS, FIRST_LATE = 1_000, 600


@pytest.fixture(autouse=True)
def _in_a_folder_with_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = ["time,size,place,price,kind"]
    for k in range(N_ROWS):
        size, place = rng.normal(), rng.choice(["town", "sea"])
        price = 3 * size + (place == "sea") + rng.normal()
        kind = "late" if k > FIRST_LATE and k % 9 == 0 else "high" if price > 0 else "low"
        shown = "" if k % 50 == 7 else f"{size:.4f}"
        lines.append(f"2026-03-{k % 28 + 1:02}T08:00:00,{shown},{place},{price:.4f},{kind}")
    Path("s.csv").write_text("\n".join(lines))


def ran(*, for_report: bool = True, **settings: Any) -> Outcome:
    options = {"source": ("s.csv",), "target": "kind", "quiet": True, "trees": 1}
    return run(Settings(**options | settings), Console(stderr=True), for_report=for_report)


def stopped(at: int, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Outcome:
    """Run until a signal comes after about so many rows."""
    write = RowFile.write

    def write_and_signal(self: RowFile, rows: Iterator[tuple[Any, ...]]) -> None:
        write(self, rows := list(rows))
        if rows[-1][0] >= at:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(RowFile, "write", write_and_signal)
        outcome = ran(predictions="p.csv", checkpoint="saved", **settings)
    assert outcome.status == 143
    assert at <= outcome.session.n_rows < N_ROWS
    return outcome


def state_of(session: Session) -> dict[str, Any]:
    """The whole state in values of JSON, without times and what depends on them."""
    state = json.loads(json.dumps(session.progress_to_json(), allow_nan=False))
    for drift in state["watch"]["drifts"]:
        drift.pop()  # importances at the end of a block, whose size depends on its time
    return {name: value for name, value in state.items() if name not in ("seconds", "slowest")}


OPTIONS: list[dict[str, Any]] = [
    {"drop": ("price",)},
    {"drop": ("price",), "delay": 30},
    {"target": "price", "drop": ("kind",)},
    {"target": "price", "drop": ("kind",), "delay": 30, "coverage": 0.7},
    {"target": "price", "drop": ("kind",), "model": "amf"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=",".join)
def test_metrics_curves_and_records_continue_exactly(options, monkeypatch):
    whole = ran(**options)
    first = stopped(300, monkeypatch, **options)
    stopped(650, monkeypatch, **options)
    resumed = ran(predictions="p.csv", checkpoint="saved", **options)
    assert resumed.session.n_resumed >= 650 > first.session.n_rows
    one, other = whole.progress, resumed.progress
    assert (one.n_rows, one.n_skipped) == (other.n_rows, other.n_skipped)
    assert (one.metrics, one.window) == (other.metrics, other.window)
    assert one.curve.keys() == other.curve.keys()
    for name, values in one.curve.items():
        np.testing.assert_array_equal(values, other.curve[name])
    assert state_of(whole.session) == state_of(resumed.session)
    assert other.seconds > first.progress.seconds
    assert resumed.session.seconds > first.progress.seconds
    baselines = (outcome.session.records.baselines.results() for outcome in (whole, resumed))
    for result, continued in zip(*(each.values() for each in baselines), strict=True):
        assert result.metrics == continued.metrics
        assert result.window == continued.window


def test_the_page_of_a_resumed_run_is_that_of_the_whole_one(monkeypatch, tmp_path):
    pages = [write_report(ran(drop=("price",)), tmp_path / "whole").read_text()]
    stopped(300, monkeypatch, drop=("price",))
    for _ in range(2):  # the second time there is no row left
        outcome = ran(drop=("price",), checkpoint="saved")
        pages.append(write_report(outcome, tmp_path / "resumed").read_text())
        words = f"The run was resumed after row {outcome.session.n_resumed:,}. Metrics, figures"
        assert words in re.sub("<[^>]*>", "", pages[-1])
    # Which importance has changed is measured at the end of a block.
    pages = [re.sub("The importance of .*? changed[.]", "", page) for page in pages]
    for key in ("verdict", "metrics", "classes", "features"):
        first, *others = (re.findall(rf'<section id="{key}">.*?</section>', p, re.S) for p in pages)
        assert len(first) == 1
        assert others == [first, first]
    worst, *others = (re.findall('<div class="wide worst">.*?</div>', page, re.S) for page in pages)
    assert len(worst) == 1
    assert others == [worst, worst]


def test_the_summary_at_the_command_line_continues():
    how = ["-t", "kind", "--drop", "price", "--trees", 1, "--json", "-q"]
    whole = json.loads(amf("run", "s.csv", *how).stdout)
    text = Path("s.csv").read_text()
    Path("s.csv").write_text("\n".join(text.split("\n")[:501]))
    amf("run", "s.csv", *how, "--checkpoint", "saved")
    Path("s.csv").write_text(text)
    resumed = json.loads(amf("run", "s.csv", *how, "--checkpoint", "saved").stdout)
    for name in ("rows", "metrics", "last_rows", "unknown_class_rows"):
        assert resumed[name] == whole[name]


def test_models_of_keys_continue_their_metrics(monkeypatch):
    options = {"drop": ("price",), "key": "place", "model": "amf"}
    whole = ran(**options)
    stopped(300, monkeypatch, **options)
    resumed = ran(predictions="p.csv", checkpoint="saved", **options)
    assert resumed.progress.metrics == whole.progress.metrics
    assert state_of(whole.session) == state_of(resumed.session)


# What cannot be continued


def page_of(outcome: Outcome, folder: Path) -> str:
    text = write_report(outcome, folder / "report").read_text()
    return " ".join(re.sub("<[^>]*>", " ", text).split()).replace(" .", ".")


def test_a_report_says_that_rows_before_it_have_no_records(monkeypatch, tmp_path):
    whole = ran(drop=("price",))
    first = stopped(300, monkeypatch, drop=("price",), for_report=False)
    resumed = ran(drop=("price",), checkpoint="saved")
    text = page_of(resumed, tmp_path)
    assert f"The first {first.session.n_rows:,} rows are not in the baselines" in text
    assert "they were learned without --report" in text
    assert "Over all rows the model is not compared with a baseline" in text
    assert "“All” of the baselines is over the rows since the run was resumed" in text
    assert resumed.progress.metrics == whole.progress.metrics
    baselines = resumed.session.records.baselines.results().values()
    assert {result.n_rows for result in baselines} == {N_ROWS - first.session.n_rows}


@pytest.mark.parametrize("reason", ["an older checkpoint", "another version", "another coverage"])
def test_a_report_says_that_metrics_begin_anew(reason, monkeypatch, tmp_path):
    options: dict[str, Any] = {"target": "price", "drop": ("kind",)}
    first = stopped(300, monkeypatch, **options, delay=20)
    path = max(Path("saved").iterdir())
    model, state = model_file.load(path), model_file.extra_of(path.read_bytes())
    if reason == "an older checkpoint":
        del state["progress"]
    elif reason == "another version":
        state["progress"] = {"version": 2}
    else:
        options["coverage"] = 0.5
    model_file.save(model, path, extra=state)
    resumed = ran(checkpoint="saved", delay=20, **options)
    assert f"The first {first.session.n_rows:,} rows are not in the metrics" in page_of(
        resumed, tmp_path
    )
    assert resumed.session.n_rows == N_ROWS
    assert resumed.session.model.n_samples_seen_ == N_ROWS
    assert resumed.progress.n_rows == N_ROWS - first.session.n_rows
    again = ran(checkpoint="saved", delay=20, **options)
    assert again.session.n_unmeasured == first.session.n_rows
    assert again.progress.metrics == resumed.progress.metrics


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("evaluator", {}),
        ("seconds", ["a", 1]),
        ("waiting", [{"rows": 5, "is_measured": True, "values": 1, "classes": None}]),
        ("records", {"baselines": {"scale": None, "dummy": 3}}),
        ("watch", None),
    ],
)
def test_damaged_metrics_are_refused_in_words(part, value, monkeypatch):
    stopped(300, monkeypatch, drop=("price",))
    path = max(Path("saved").iterdir())
    model, state = model_file.load(path), model_file.extra_of(path.read_bytes())
    state["progress"][part] = value
    model_file.save(model, path, extra=state)
    before = path.read_bytes()
    with pytest.raises(CommandError, match=r"metrics that cannot be continued.*another folder"):
        ran(drop=("price",), checkpoint="saved")
    assert path.read_bytes() == before

"""Delays and false alarms in detecting drift: `python -m benchmarks.drift` writes docs/drift.md.

The losses are those of the adaptive forest. Our detector, river's ADWIN and its Page-Hinkley test
get the same. Beside them are the warnings and the drifts of river's adaptive random forest, which
takes much longer: so it gets some rows around each change only.
"""

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor
from amforest.evaluation import DriftDetector
from amforest.evaluation.adapters import Prediction
from amforest.evaluation.drift_watch import row_losses
from benchmarks.drift_streams import DriftStream, drifting_streams, stationary_streams
from benchmarks.quality.markdown import table
from benchmarks.quality.streams import Floats

PAGE = Path(__file__).parents[1] / "docs" / "drift.md"
RESULTS = Path(__file__).with_name("drift.json")
START, END = "<!-- measured -->", "<!-- end -->"  # of the part of the page that is written
LATEST = 2_000  # rows after a change within which it is detected
ARF_BEFORE, ARF_AFTER = 1_000, 500  # rows around a change that river's forest gets
OURS, ADWIN, PAGE_HINKLEY = "amforest", "ADWIN", "Page-Hinkley"
ARF_DRIFTS, ARF_WARNINGS = "ARF, drifts", "ARF, warnings"


@dataclass
class Outcome:
    """The rows at which each detector has found a change in a stream."""

    name: str
    about: str
    n_rows: int
    change: int | None
    found: dict[str, list[int]] = field(default_factory=dict)
    arf_rows: tuple[int, int] = (0, 0)  # the first and the last row that river's forest had

    def delay(self, detector: str) -> int | None:
        """Return after how many rows the change was detected."""
        assert self.change is not None
        later = [row - self.change for row in self.found[detector] if row > self.change]
        return later[0] if later and later[0] <= LATEST else None

    def n_false(self, detector: str) -> int:
        """Return how often a change was detected before there was one."""
        end = self.n_rows if self.change is None else self.change
        return sum(row <= end for row in self.found[detector])

    def n_quiet(self, detector: str) -> int:
        """Return how many rows the detector had before there was a change."""
        end = self.n_rows if self.change is None else self.change
        first, last = self.arf_rows if detector in (ARF_DRIFTS, ARF_WARNINGS) else (0, end)
        return min(last, end) - first


def measure(stream: DriftStream, *, with_arf: bool) -> Outcome:
    """Run all detectors on a stream."""
    outcome = Outcome(stream.name, stream.about, len(stream.y), stream.change)
    losses = losses_of(stream)
    for name, detector in _detectors().items():
        ours = DriftDetector(is_bounded=not stream.is_regression, detector=detector)
        outcome.found[name] = [drift.row for drift in ours.update(losses)]
    if with_arf:
        change = ARF_BEFORE if stream.change is None else stream.change
        outcome.arf_rows = max(change - ARF_BEFORE, 0), min(change + ARF_AFTER, len(stream.y))
        outcome.found |= _watch_arf(stream, *outcome.arf_rows)
    return outcome


def _detectors() -> dict[str, Any]:
    from river import drift  # noqa: PLC0415  # an extra

    river: Any = drift
    return {OURS: None, ADWIN: river.ADWIN(), PAGE_HINKLEY: river.PageHinkley(mode="up")}


def losses_of(stream: DriftStream) -> Floats:
    """Return what the adaptive forest loses in each row, before it learns the row."""
    if stream.is_regression:
        regressor = AdaptiveAMFRegressor(random_state=0)
        regressor.partial_fit(stream.X[:1], stream.y[:1])
        values = regressor.partial_fit_predict(stream.X[1:], stream.y[1:])
        return np.append(np.nan, row_losses("regression", stream.y[1:], Prediction(values)))
    classes = np.unique(stream.y)
    classifier = AdaptiveAMFClassifier(classes=classes, random_state=0)
    values = classifier.partial_fit_predict_proba(stream.X, stream.y)
    return row_losses("classification", stream.y, Prediction(values, classes))


def _watch_arf(stream: DriftStream, first: int, last: int) -> dict[str, list[int]]:
    """Return the rows after which a tree of river's forest has a warning, and a drift."""
    from river import forest  # noqa: PLC0415  # an extra

    kind = forest.ARFRegressor if stream.is_regression else forest.ARFClassifier
    model: Any = kind(seed=0)
    drifts: list[int] = []
    warnings: list[int] = []
    n_drifts = n_warnings = 0
    for i in range(first, last):
        x, y = dict(enumerate(stream.X[i].tolist())), stream.y[i].item()
        model.predict_one(x)
        model.learn_one(x, y)
        now = _count(model.n_drifts_detected()), _count(model.n_warnings_detected())
        drifts += [i + 1] * (now[0] > n_drifts)
        warnings += [i + 1] * (now[1] > n_warnings)
        n_drifts, n_warnings = now
    return {ARF_DRIFTS: drifts, ARF_WARNINGS: warnings}


def _count(value: Any) -> int:
    return int(value or 0)


# The page


def write_table(outcomes: Sequence[Outcome]) -> str:
    """Return the measured part of the page."""
    detectors = list(outcomes[0].found)
    changed = [one for one in outcomes if one.change is not None]
    others = [one for one in outcomes if one.change is None]
    rows = []
    for detector in detectors:
        delays = [one.delay(detector) for one in changed]
        known = [delay for delay in delays if delay is not None]
        n_before, n_false = _sums(changed, detector)
        n_rows, n_alarms = _sums(others, detector)
        rows.append(
            [
                detector,
                f"{len(known)} of {len(delays)}",
                f"{median(known):,.0f}" if known else "",
                f"{n_false} in {n_before:,}",
                f"{n_alarms} in {n_rows:,}",
                f"{1e5 * (n_alarms + n_false) / (n_rows + n_before):.2f}",
            ]
        )
    heads = ["detector", "detected", "delay, median", "alarms before the change"]
    heads += ["alarms without a change", "alarms per 10⁵ rows"]
    delays_by_stream = [
        [one.name, one.about, *(_shown(one.delay(detector)) for detector in detectors)]
        for one in changed
    ]
    alarms = [
        f"{one.name}: {', '.join(f'{d} {one.n_false(d)}' for d in detectors if one.n_false(d))}"
        for one in others
        if any(one.n_false(d) for d in detectors)
    ]
    return "\n\n".join(
        [
            table(heads, rows),
            "Rows from each change to its detection:",
            table(["stream", "change", *detectors], delays_by_stream),
            "Alarms in streams without a change: " + ("; ".join(alarms) or "none") + ".",
        ]
    )


def _sums(outcomes: Iterable[Outcome], detector: str) -> tuple[int, int]:
    """Return how many rows come before any change, and how many alarms there are in them."""
    counts = [(one.n_quiet(detector), one.n_false(detector)) for one in outcomes]
    n_rows, n_alarms = map(sum, zip(*counts, strict=True))
    return n_rows, n_alarms


def _shown(delay: int | None) -> str:
    return "missed" if delay is None else f"{delay:,}"


def write_page(measured: str) -> None:
    """Replace the measured part of docs/drift.md."""
    head, rest = PAGE.read_text(encoding="utf-8").split(START)
    tail = rest.split(END)[1]
    PAGE.write_text(f"{head}{START}\n{measured}\n{END}{tail}", encoding="utf-8")


def main() -> None:
    """Measure, write the table into the page, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-arf", action="store_true", help="print only, and be quick")
    with_arf = not parser.parse_args().without_arf
    outcomes = []
    for stream in [*drifting_streams(), *stationary_streams()]:
        start = time.perf_counter()
        outcomes.append(measure(stream, with_arf=with_arf))
        print(
            f"{stream.name}: {outcomes[-1].found}, {time.perf_counter() - start:.0f} s", flush=True
        )
    measured = write_table(outcomes)
    print(measured)
    if with_arf:
        RESULTS.write_text(json.dumps([asdict(one) for one in outcomes], indent=1) + "\n")
        write_page(measured)


if __name__ == "__main__":
    main()

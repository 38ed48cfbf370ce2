"""The figures that the adaptive forest must reach, each with its target."""

from collections.abc import Callable, Iterator, Mapping
from statistics import geometric_mean

from benchmarks.quality import held_out, long_stream, speed
from benchmarks.quality.contenders import ADAPTIVE, AMF, ARF_10, ARF_100, RIVER_ARF, SRP_10
from benchmarks.quality.measuring import HELD_OUT, LATENCY, LONG, MAIN, RECOVERY, SPEED
from benchmarks.quality.regression_checks import regression_checks
from benchmarks.quality.results import Results, Table
from benchmarks.quality.streams import PAPER, STREAMS
from benchmarks.quality.targets import Check, latency_checks, long_checks, mean_and_worst
from benchmarks.quality.variants import CODES, CODES_AND_ID, NOISE, SCALES


def checks(results: Results) -> list[Check]:
    """Return the figures that were measured."""
    parts = (
        *(_main, _accuracy, _held_out, _recovery, _robust, _identifier, _speed, _latency, _long),
        regression_checks,
    )
    return [check for part in parts for check in part(results)]


def ratios(table: Table, peer: Callable[[dict[str, float]], float | None]) -> dict[str, float]:
    """Return our log-loss over a peer's by stream, where both were measured."""
    result = {}
    for name, row in table.items():
        other = peer({key: value["log_loss"] for key, value in row.items()})
        if ADAPTIVE in row and other is not None:
            result[name] = row[ADAPTIVE]["log_loss"] / other
    return result


def better_of_two(row: Mapping[str, float]) -> float | None:
    """Return the lower one of the log-losses of ARF-10 and SRP-10."""
    if ARF_10 not in row or SRP_10 not in row:
        return None
    return min(row[ARF_10], row[SRP_10])


def over_plain(results: Results, variant: str, contender: str) -> dict[str, float]:
    """Return a contender's log-loss on a variant of the streams over that on the streams."""
    plain = results.table(MAIN)
    return {
        name: row[contender]["log_loss"] / plain[name][contender]["log_loss"]
        for name, row in results.table(variant).items()
        if contender in row and contender in plain.get(name, {})
    }


def over_codes(results: Results, key: str) -> dict[str, float]:
    """Return what an identifier adds to the log-loss, or the time, by stream."""
    plain = results.table(CODES)
    return {
        name: row[ADAPTIVE][key] / plain[name][ADAPTIVE][key]
        for name, row in results.table(CODES_AND_ID).items()
        if ADAPTIVE in row and ADAPTIVE in plain.get(name, {})
    }


def _main(results: Results) -> Iterator[Check]:
    table = results.table(MAIN)
    paper = {name: row for name, row in table.items() if STREAMS[name].group == PAPER}
    over_amf = ratios(paper, lambda row: row.get(AMF))
    yield from mean_and_worst("log-loss over AMF's, the paper's data sets", over_amf, 0.55, 0.97)
    over_peers = ratios(table, better_of_two)
    title = "log-loss over the better of ARF-10's and SRP-10's, all streams"
    yield from mean_and_worst(title, over_peers, 0.55, 1.03)


def _accuracy(results: Results) -> Iterator[Check]:
    """Yield how far ahead of ARF-100 we are: one target for LED, and one for all others."""
    ahead = {
        name: row[ADAPTIVE]["accuracy"] - row[ARF_100]["accuracy"]
        for name, row in results.table(MAIN).items()
        if ADAPTIVE in row and ARF_100 in row and STREAMS[name].has_drift
    }
    for is_led, label, target in ((False, "streams with drift", 0.0), (True, "LED", -0.002)):
        part = {name: value for name, value in ahead.items() if name.startswith("led") == is_led}
        if part:
            case = min(part, key=lambda name: part[name])
            title = f"accuracy minus ARF-100's, {label}, worst of {len(part)}"
            yield Check(title, part[case], target, case, at_least=True, digits=4)


def _held_out(results: Results) -> Iterator[Check]:
    for peer, target in ((held_out.FOREST, -0.005), (held_out.LIGHTGBM, -0.02)):
        ahead = {
            name: row[held_out.OURS] - row[peer]
            for name, row in results.table(HELD_OUT).items()
            if held_out.OURS in row and peer in row
        }
        if ahead:
            case = min(ahead, key=lambda name: ahead[name])
            title = f"AUC on held-out rows minus that of {peer}, worst of {len(ahead)}"
            yield Check(title, ahead[case], target, case, at_least=True, digits=4)


def _recovery(results: Results) -> Iterator[Check]:
    row = results.table(RECOVERY).get(ADAPTIVE)
    if row:
        title = "labels exchanged half-way: rows until the accuracy is back, mean"
        yield Check(title, row["rows"], 400, digits=0)


def _robust(results: Results) -> Iterator[Check]:
    for variant, title, target in (
        (SCALES, "features times random powers of ten: log-loss over the unscaled", 1.02),
        (NOISE, "50 columns of noise: log-loss over that without", 1.35),
    ):
        by_case = over_plain(results, variant, ADAPTIVE)
        yield from mean_and_worst(title, by_case, target, target)


def _identifier(results: Results) -> Iterator[Check]:
    for key, what, target in (("log_loss", "log-loss", 1.03), ("us_per_row", "time", 1.5)):
        title = f"a column of unique IDs: {what} over that without"
        yield from mean_and_worst(title, over_codes(results, key), target, target)


def _speed(results: Results) -> Iterator[Check]:
    table = results.table(SPEED)
    for peer, ours, target in ((ARF_10, ADAPTIVE, 3), (RIVER_ARF, speed.OURS_FIRST_ROWS, 80)):
        values = [row[peer] / row[ours] for row in table.values() if peer in row and ours in row]
        if values:
            title = f"time per row, {peer}'s over ours, geometric mean of {len(values)}"
            yield Check(title, geometric_mean(values), target, at_least=True, digits=1)


def _latency(results: Results) -> Iterator[Check]:
    yield from latency_checks(results.table(LATENCY).get(ADAPTIVE), "`learn_one`, 20 features")


def _long(results: Results) -> Iterator[Check]:
    title = "rows with drift, `max_bytes` of 200 MB"
    yield from long_checks(results.table(LONG).get(ADAPTIVE), title, long_stream.MAX_BYTES)

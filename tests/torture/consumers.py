"""Consumers of Redis and MQTT that are killed (SIGKILL) at random moments while rows come in."""

from __future__ import annotations

import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from result import Report, Result

from amforest.model_io import newest_checkpoint
from broker_servers import (
    OUTPUT,
    SECONDS,
    SERVERS,
    consume_the_rest,
    find,
    learn_directly,
    row,
    run_consumer,
    start_consumer,
    wait_for,
)

TITLE = "killed consumers"
SEED = int(os.environ.get("TORTURE_SEED", "0"))
ROWS_PER_KILL = 100
LONGEST = 0.2  # seconds from a prediction, or the start of a process, to its kill


def check(server: Any, kind: str, folder: Path, rows: list[dict[str, Any]]) -> str:
    """Return what is wrong: rows learned twice or never, predictions that are absent or differ."""
    found = newest_checkpoint(folder)
    if found is None or found[0].to_bytes() != learn_directly(rows).to_bytes():
        n_learned = 0 if found is None else found[0].n_samples_seen_
        n_labels = sum(r["y"] is not None for r in rows)
        return f"another model: it has learned {n_learned} rows of {n_labels}"
    ids = {r["id"] for r in rows}
    wait_for(lambda: {p["id"] for p in server.received(OUTPUT[kind])} >= ids, "all predictions")
    first: dict[str, Any] = {}
    for prediction in server.received(OUTPUT[kind]):
        if first.setdefault(prediction["id"], prediction) != prediction:
            return f"two predictions for {prediction['id']}"
    return "" if first.keys() == ids else "predictions of rows that do not exist"


def kill_many(kind: str, count: int, report: Report) -> Result:
    """Kill consumers of one broker, each while it works on what those before have left."""
    moments, bar = random.Random(SEED), "each row learned once, all predicted, bit for bit"
    fault = f"kill -9 of a consumer of {kind}"
    with tempfile.TemporaryDirectory() as name:
        server: Any = SERVERS[kind](Path(name) / "server")
        folder, rows, n_amid = Path(name) / "saved", list[dict[str, Any]](), 0
        try:
            run_consumer(server.places(), folder, idle=0)
            for number in range(count):
                rows += [row(len(rows) + i) for i in range(ROWS_PER_KILL)]
                server.send(rows[-ROWS_PER_KILL:])
                n_before = server.count(OUTPUT[kind])
                process = start_consumer(server.places(), folder, idle=None, block=5)
                if number % 4:  # else at any moment, such as the start
                    wait_for(lambda n=n_before: server.count(OUTPUT[kind]) > n, "a prediction")
                time.sleep(moments.uniform(0, LONGEST))
                process.kill()
                process.join(SECONDS)
                newest = {p["id"] for p in server.received(OUTPUT[kind])}
                n_amid += rows[-1]["id"] not in newest and server.count(OUTPUT[kind]) > n_before
                report(f"{kind}: kills", number + 1, count)
            consume_the_rest(server, kind, folder, {rows[-1]["id"]})
            problem = check(server, kind, folder, rows)
        finally:
            server.stop()
    details = problem or f"{n_amid} while rows were predicted; {len(rows):,} rows"
    return Result(fault, count, bar, not problem and n_amid > 0, details)


def run(report: Report, quick: bool) -> list[Result]:
    count = 12 if quick else 300
    return [kill_many(kind, count, report) for kind in SERVERS if find(SERVERS[kind].program)]

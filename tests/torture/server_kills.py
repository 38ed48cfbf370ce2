"""A durable server, killed (SIGKILL) under load: nothing that it acknowledged is lost."""

from __future__ import annotations

import itertools
import random
import signal
import tempfile
import threading
import time
from pathlib import Path

import httpx
import pyarrow as pa
from result import Report, Result
from server_rows import MODEL, SEED, batch

from amforest import AdaptiveAMFClassifier
from amforest.model_io import from_bytes
from running_server import FORKS, RunningServer, run_command

TITLE = "killed servers"
KILLS_PER_FOLDER = 10  # then another model begins, because models grow


class Twin:
    """The model that learns the same requests, and is never killed."""

    def __init__(self) -> None:
        self.model = AdaptiveAMFClassifier(
            1, categorical_features=["page"], n_jobs=1, random_state=1
        )
        self.n_samples = self.n_batches = 0

    def learn_until(self, n_samples: int) -> None:
        """Learn whole requests; AssertionError if they do not add up to so many rows."""
        while self.n_samples < n_samples:
            rows, labels = batch(self.n_batches)
            X = pa.table({name: [row[name] for row in rows] for name in ("x", "z", "page")})
            if self.n_samples == 0:  # its prediction has no loss
                self.model.partial_fit(X[:1], labels[:1])
                X, labels = X[1:], labels[1:]
            if labels:
                self.model.partial_fit_predict_proba(X, labels)
            self.n_batches += 1
            self.n_samples += len(rows)
        assert self.n_samples == n_samples, f"{n_samples} rows: a request was cut"


def send_until_killed(
    server: RunningServer, first: int, acknowledged: list[int], refused: list[Exception]
) -> None:
    """Send requests in their order; some of them wait for the model, others for the disk."""
    try:
        for k in itertools.count(first):
            server.client.learn(*batch(k), wait=k % 3 == 0)
            acknowledged.append(k)
            if k % 2:
                server.client.predict(batch(k)[0][:1])
    except httpx.TransportError:
        return  # it was killed
    except Exception as error:
        refused.append(error)


def kill_while_starting(options: list[str], seconds: float) -> bool:
    """Kill a server some time after its start; return whether it had not ended by itself."""
    with tempfile.TemporaryDirectory() as folder:
        files = str(Path(folder) / "output"), str(Path(folder) / "errors")
        process = FORKS.Process(target=run_command, args=("serve", options, {}, *files))
        process.start()
        time.sleep(seconds)
        process.kill()
        process.join()
        return process.exitcode == -signal.SIGKILL


def kill_many(count: int, report: Report) -> tuple[int, int]:
    """Kill servers; return how many rows were acknowledged, and how many kills were in starts."""
    draw, n_acknowledged, n_in_starts = random.Random(SEED), 0, 0
    refused = list[Exception]()
    for first in range(0, count, KILLS_PER_FOLDER):
        twin, acknowledged = Twin(), list[int]()
        with tempfile.TemporaryDirectory() as folder:
            options = [*MODEL, "--checkpoint", folder, "--durable", "--every", 150]
            for number in range(first, min(first + KILLS_PER_FOLDER, count)):
                if number > first and draw.random() < 0.3:
                    seconds = draw.uniform(0, 0.4)
                    assert kill_while_starting(list(map(str, options)), seconds), "did not start"
                    n_in_starts += 1
                    report("kills", number + 1, count)
                    continue
                with RunningServer(*options) as server:
                    check(server, twin, acknowledged)
                    arguments = server, twin.n_batches, acknowledged, refused
                    thread = threading.Thread(target=send_until_killed, args=arguments)
                    thread.start()
                    time.sleep(draw.uniform(0, 0.8))
                    server.process.kill()
                    thread.join()
                    assert not refused, refused
                report("kills", number + 1, count)
            with RunningServer(*options) as server:
                check(server, twin, acknowledged)
        n_acknowledged += sum(len(batch(k)[0]) for k in acknowledged)
    return n_acknowledged, n_in_starts


def check(server: RunningServer, twin: Twin, acknowledged: list[int]) -> None:
    """Check that nothing acknowledged is lost, and that the model is that of the requests."""
    described = server.client.model()
    n_samples = described["stats"]["samples"] if described["model"] else 0
    twin.learn_until(n_samples)
    n_known = acknowledged[-1] + 1 if acknowledged else 0
    assert twin.n_batches >= n_known, f"lost {n_known - twin.n_batches} acknowledged requests"
    if n_samples:
        data = from_bytes(server.client.snapshot()).to_bytes()
        assert data == twin.model.to_bytes(), "another model than the replay's"


def run(report: Report, quick: bool) -> list[Result]:
    count = 12 if quick else 300
    fault, bar = "kill -9 of a durable server", "0 acknowledged rows lost; bit for bit a replay"
    try:
        n_rows, n_in_starts = kill_many(count, report)
    except AssertionError as error:
        return [Result(fault, count, bar, False, str(error))]
    details = f"{n_rows:,} rows acknowledged; {n_in_starts} kills of servers that started"
    return [Result(fault, count, bar, n_rows > 0, details)]

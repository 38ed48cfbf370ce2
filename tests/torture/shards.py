"""Actors, machines and drivers of a RayForest that die: nothing is lost, bit for bit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from result import Report, Result

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier
from amforest.distributed import RayForest
from amforest.model_io.model_file import to_bytes

TITLE = "deaths of shards"
SEED = int(os.environ.get("TORTURE_SEED", "0"))
N_EACH, N_FEATURES = 200, 4  # rows of a batch, numbers of a row
MODELS = (
    lambda: AdaptiveAMFClassifier(2, memories=(None, 250, 30), random_state=1),
    lambda: AMFClassifier(6, random_state=1),
    lambda: AdaptiveAMFRegressor(2, memories=(None, 60), random_state=1),
)


def batch(model: Any, i: int) -> tuple[Any, Any]:
    """Return the i-th batch of an endless stream; classes come late."""
    rng = np.random.default_rng([SEED, i])
    X = rng.normal(size=(N_EACH, N_FEATURES))
    X[rng.random(X.shape) < 0.02] = np.nan
    signal_of_y = np.nan_to_num(X[:, 0]) + rng.normal(size=N_EACH) / 3
    if hasattr(model, "predict_proba"):
        return X, np.digitize(signal_of_y, [0.0, 1.0] if i > 5 else [0.0])
    return X, signal_of_y


def learned(model: Any, n_batches: int) -> bytes:
    """Return the model that learned the stream in this process."""
    for i in range(n_batches):
        model.partial_fit(*batch(model, i))
    return to_bytes(model)


@contextmanager
def cluster(n_nodes: int) -> Iterator[Any]:
    """Start Ray with machines that can be removed; actors import compiled modules."""
    import ray
    from ray.cluster_utils import Cluster

    with tempfile.TemporaryDirectory() as cache:
        # This environment is that of the machines' processes, too.
        os.environ |= {"PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
        try:
            for _ in range(n_nodes - 1):
                nodes.add_node(num_cpus=2)
            ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
            yield nodes
        finally:
            ray.shutdown()
            nodes.shutdown()


class Killer(threading.Thread):
    """Ends the processes of random actors, one after the other, while they learn."""

    def __init__(self, forest: RayForest, n_kills: int) -> None:
        super().__init__(daemon=True)
        self.forest, self.n_kills, self.n_killed = forest, n_kills, 0
        self.random = random.Random(SEED)

    def run(self) -> None:
        """Kill an actor some time after it can answer."""
        import ray

        while self.n_killed < self.n_kills:
            with suppress(Exception):  # it may be dead or not yet alive
                actor = self.random.choice(self.forest._shards.actors)
                pid = ray.get(actor.pid.remote(), timeout=20)
                time.sleep(self.random.uniform(0, 0.2))
                os.kill(pid, signal.SIGKILL)
                self.n_killed += 1


def run(report: Report, quick: bool) -> list[Result]:
    """Kill actors, machines and drivers."""
    kills, removals, drivers = (6, 2, 2) if quick else (200, 20, 20)
    results = []
    with cluster(1) as nodes:
        results.append(kill_actors(report, kills))
        results.append(kill_drivers(report, drivers, nodes.address))
    with cluster(2) as nodes:
        results.append(remove_nodes(report, removals, nodes))
    return results


def kill_actors(report: Report, n_kills: int) -> Result:
    """Kill actors at random while batches are sent."""
    failures, n_batches, n_recoveries = [], 0, 0
    for m, new in enumerate(MODELS):
        with RayForest(new(), n_shards=3, checkpoint_messages=9) as forest:
            forest.partial_fit(*batch(forest.estimator_, 0))
            killer = Killer(forest, n_kills // 3 + (m < n_kills % 3))
            killer.start()
            i = 1
            while killer.is_alive():
                forest.partial_fit(*batch(forest.estimator_, i))
                i += 1
                report("actors", m * (n_kills // 3) + killer.n_killed, n_kills)
            if forest.to_bytes() != learned(new(), i):
                failures.append(type(forest.estimator_).__name__)
            n_recoveries += forest.n_recoveries_
            n_batches += i
    details = f"{n_batches} batches, {n_recoveries} recoveries"
    return Result("actors killed", n_kills, "bit for bit", not failures, details)


def remove_nodes(report: Report, n_removals: int, nodes: Any) -> Result:
    """Remove a machine with some of the actors, and add another."""
    n_failures, n_recoveries = 0, 0
    for r in range(n_removals):
        model, expected = MODELS[r % 3](), MODELS[r % 3]()
        [node] = nodes.worker_nodes
        with RayForest(model, n_shards=4, checkpoint_messages=5) as forest:
            for i in range(12):
                forest.partial_fit(*batch(model, i))
                if i == 2 + r % 7:
                    nodes.remove_node(node)
            n_failures += forest.to_bytes() != learned(expected, 12)
            n_recoveries += forest.n_recoveries_
        nodes.add_node(num_cpus=2)
        report("machines", r + 1, n_removals)
    details = f"{n_recoveries} actors were started again"
    is_fine = not n_failures and n_recoveries >= n_removals
    return Result("machines removed", n_removals, "bit for bit", is_fine, details)


def kill_drivers(report: Report, n_kills: int, address: str) -> Result:
    """Kill the process that sends batches, and let another one go on from its checkpoint."""
    chance = random.Random(SEED)
    n_wrong, n_killed = 0, 0
    while n_killed < n_kills:
        with tempfile.TemporaryDirectory() as folder:
            n_batches = 150
            command = [sys.executable, __file__, address, folder, str(n_killed % 3), str(n_batches)]
            while True:
                driver = subprocess.Popen(command)
                if n_killed < n_kills and not (Path(folder) / "done").exists():
                    wait_for_progress(driver, Path(folder))
                    time.sleep(chance.uniform(0, 1.5))
                    if driver.poll() is None:
                        driver.kill()
                        n_killed += 1
                        report("drivers", n_killed, n_kills)
                if driver.wait() == 0:
                    break
            expected = learned(MODELS[int(command[-2])](), n_batches)
            n_wrong += (Path(folder) / "done").read_bytes() != expected
    return Result("drivers killed", n_kills, "bit for bit", n_wrong == 0)


def wait_for_progress(driver: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until a driver has written a checkpoint of its own."""
    latest = folder / "latest.json"
    before = latest.read_bytes() if latest.exists() else b""
    while driver.poll() is None:
        if latest.exists() and latest.read_bytes() != before:
            return
        time.sleep(0.05)


def drive(address: str, folder: str, kind: int, n_batches: int) -> None:
    """Learn the stream from where the last driver's checkpoint is."""
    import ray

    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    options: dict[str, Any] = {"checkpoint_messages": 4}
    if (Path(folder) / "latest.json").exists():
        forest = RayForest.resume(folder, **options)
    else:
        forest = RayForest(MODELS[kind](), n_shards=2, directory=folder, **options)
        forest.partial_fit(*batch(MODELS[kind](), 0))
    while (i := forest.n_samples_seen_ // N_EACH) < n_batches:
        forest.partial_fit(*batch(forest.estimator_, i))
    (Path(folder) / "done").write_bytes(forest.to_bytes())
    forest.close()


if __name__ == "__main__":
    drive(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

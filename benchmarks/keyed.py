"""One model for each of 10⁵ keys: rows per second within a memory limit, and nothing lost.

Run it with ``make bench-keyed``. Keys follow Zipf's law. `KeyedForests` has 10 % of the memory that
all models need, and is compared with a dictionary of models: the predictions of all rows, and the
bytes of all models.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np
from sklearn.base import clone

from amforest import AMFClassifier
from amforest.distributed import KeyedForests
from amforest.distributed.key_rows import group_rows, seed_of
from amforest.distributed.model_cache import memory_of
from amforest.model_io import to_bytes
from benchmarks.machine import describe

N_FEATURES, SEED = 5, 0
ESTIMATOR = AMFClassifier(n_estimators=3, classes=[0, 1], random_state=SEED)


def main() -> None:
    """Measure, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=10_000, help="rows of a batch")
    parser.add_argument("--memory", type=float, default=0.1, help="of that of all models")
    parser.add_argument("--shards", type=int, default=None, help="Ray actors; default: none")
    options = parser.parse_args()
    X, y, keys = _stream(options.rows, options.keys)
    print(", ".join(f"{name} {value}" for name, value in describe().items()))

    models: dict[int, Any] = {}
    clock = _Clock()
    with clock:
        expected = [_learn(models, X[part], y[part], keys[part]) for part in _batches(options)]
    total = sum(map(memory_of, models.values()))
    print(f"{options.rows:,} rows, {len(models):,} keys, batches of {options.batch:,}")
    print(f"dictionary      {clock.rates(options.rows)}, {total / 1e6:,.0f} MB")

    limit = int(options.memory * total / (options.shards or 1))
    n_wrong, most = 0, 0
    with KeyedForests(ESTIMATOR, max_bytes=limit, n_shards=options.shards) as forests:
        clock = _Clock()
        for part, right in zip(_batches(options), expected, strict=True):
            with clock:
                predicted = forests.partial_fit_predict_proba(X[part], y[part], keys=keys[part])
            n_wrong += int((predicted != right).any(axis=1).sum())
            most = max(most, forests.stats()["bytes_in_memory"])
        stats = forests.stats()
        print(f"KeyedForests    {clock.rates(options.rows)}, {most / 1e6:,.0f} MB at most")
        print(f"                {stats['loads']:,} loads, {stats['evictions']:,} evictions")
        print(f"                {stats['models_in_memory']:,} models in memory at the end")
        lost = sorted(set(models) - set(forests.keys()))
        differing = sum(to_bytes(forests.model(key)) != to_bytes(models[key]) for key in models)
    print(f"models lost     {len(lost):9,}")
    print(f"models differ   {differing:9,} of {len(models):,}, in their bytes")
    print(f"rows differ     {n_wrong:9,} of {options.rows:,}, in their predictions")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory     {peak:9,.0f} MB, with the dictionary and the stream")
    raise SystemExit(bool(lost or differing or n_wrong))


class _Clock:
    """The seconds in some blocks, and those of this process: others may use the machine, too."""

    def __init__(self) -> None:
        self._seconds, self._busy = 0.0, 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def __exit__(self, *error: object) -> None:
        self._seconds += time.perf_counter() - self._start[0]
        self._busy += time.process_time() - self._start[1]

    def rates(self, n_rows: int) -> str:
        """Return the rows per second."""
        busy = n_rows / self._busy
        return f"{n_rows / self._seconds:9,.0f} rows/s, {busy:,.0f} per second of this process"


def _stream(n_rows: int, n_keys: int) -> tuple[Any, Any, Any]:
    """Return rows whose keys follow Zipf's law: that of rank r has a share of about 1 / r."""
    rng = np.random.default_rng(SEED)
    shares = 1 / np.arange(1, n_keys + 1)
    keys = rng.choice(n_keys, n_rows, p=shares / shares.sum())
    keys[rng.permutation(n_rows)[:n_keys]] = np.arange(n_keys)  # each comes at least once
    X = rng.normal(size=(n_rows, N_FEATURES)).astype(np.float32)
    return X, ((X[:, 0] + X[:, 1] > 0) ^ (keys % 2 == 1)).astype(int), keys


def _batches(options: argparse.Namespace) -> list[slice]:
    return [slice(a, a + options.batch) for a in range(0, options.rows, options.batch)]


def _learn(models: dict[int, Any], X: Any, y: Any, keys: Any) -> Any:
    """Predict and learn a batch with a dictionary of models."""
    rows, order = group_rows(keys.tolist(), X, y)
    predicted = np.empty((len(y), 2))
    for group in rows.groups(range(len(rows.keys))):
        if group.key not in models:
            model = clone(ESTIMATOR).set_params(random_state=seed_of(SEED, group.key))
            models[int(group.key)] = model
        part = models[int(group.key)].partial_fit_predict_proba(group.X, group.y)
        predicted[order[group.start : group.end]] = part
    return predicted


if __name__ == "__main__":
    main()

"""What a large forest needs on many machines, by the cost model."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.scaling.cost_model import Costs
from benchmarks.scaling.measuring import N_FEATURES

BATCH, N_CLASSES = 10_000, 2


@dataclass(frozen=True)
class Machines:
    """A cluster. Bytes per second are those of each machine's network."""

    n: int = 100
    n_cores: int = 16
    network: float = 10e9 / 8


@dataclass(frozen=True)
class Need:
    """A resource, and how long it alone would need for all rows; or how much of it."""

    resource: str
    hours: float


def needs(
    costs: Costs, machines: Machines, n_trees: int, n_rows: float, *, answers: bool
) -> list[Need]:
    """Return the hours of each resource to learn all rows; `answers`: shards send predictions."""
    n_batches = n_rows / BATCH
    all_cores = machines.n * machines.n_cores
    driver = costs.batch + costs.actor * machines.n
    driver += BATCH * (costs.row + costs.joined * n_trees)
    row_bytes, answer_bytes = 4 * N_FEATURES + 8, 8 * N_CLASSES * n_trees
    n_shards = min(all_cores, n_trees)
    seconds = {
        "the shards' cores": n_rows * (costs.stored + n_trees / n_shards * costs.learned),
        "the driver's core": n_batches * driver,
        "the driver's network, rows sent": n_rows * row_bytes * machines.n / machines.network,
        "the driver's network, predictions received": n_rows * answer_bytes / machines.network,
    }
    if not answers:
        del seconds["the driver's network, predictions received"]
    return sorted(
        (Need(name, value / 3600) for name, value in seconds.items()),
        key=lambda need: -need.hours,
    )

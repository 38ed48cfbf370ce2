"""The command: measure, print the figures with their targets, and write docs/scaling.md."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from amforest.distributed.ray_shards import RayShards, import_ray
from benchmarks import machine
from benchmarks.scaling import measuring
from benchmarks.scaling.cost_model import Case, fit
from benchmarks.scaling.extrapolation import Machines, needs
from benchmarks.scaling.measuring import ADAPTIVE, AMF, Measured
from benchmarks.scaling.page import Check, Results, to_markdown
from benchmarks.scaling.picture import draw

TREES = {AMF: (16, 48), ADAPTIVE: (18, 45)}
ACTORS, ROWS = (1, 2, 4, 8), (1000, 5000)
HELD_OUT = {AMF: Case(AMF, 32, 3, 2500), ADAPTIVE: Case(ADAPTIVE, 36, 3, 2500)}
N_CORES = 2  # that the shards have


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path("docs"), help="folder of scaling.md")
    parser.add_argument("--quick", action="store_true", help="fewer batches")
    arguments = parser.parse_args()
    results = run(quick=arguments.quick)
    show(results.checks)
    (arguments.to / "images").mkdir(parents=True, exist_ok=True)
    draw(results, arguments.to / "images" / "scaling.png")
    (arguments.to / "scaling.md").write_text(to_markdown(results), encoding="utf-8")


def run(*, quick: bool) -> Results:
    """Measure everything."""
    ray = import_ray()
    factor = 1 if quick else 4
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= {"PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        ray.init(num_cpus=N_CORES, include_dashboard=False, log_to_driver=False)
        measured: dict[str, list[Measured]] = {family: [] for family in TREES}
        held_out = {}
        checks: list[Check] = []
        for n_actors in track((*ACTORS, 3), description="actors"):
            shards = RayShards(n_actors, {"num_cpus": 0}, None, 64)
            for family, all_trees in TREES.items():
                if n_actors == 3:
                    held_out[family] = measuring.measure(HELD_OUT[family], shards, 3 * factor)
                    continue
                for n_trees in all_trees:
                    for n_rows in ROWS:
                        case = Case(family, n_trees, n_actors, n_rows)
                        n_batches = factor * 5000 // n_rows
                        measured[family].append(measuring.measure(case, shards, n_batches))
            if n_actors == N_CORES:
                checks += two_actors(shards, factor)
            shards.close()
        ray.shutdown()
    costs = {
        family: fit([m.case for m in some], [m.driver for m in some], [m.shard for m in some])
        for family, some in measured.items()
    }
    return Results(
        machine.describe(),
        checks,
        measured,
        costs,
        {
            family: (m.case, m.batch, costs[family].of_batch(m.case, N_CORES))
            for family, m in held_out.items()
        },
        {
            family: needs(costs[family], Machines(), 1000, 1e9, answers=family == ADAPTIVE)
            for family in costs
        },
        N_CORES,
    )


def two_actors(shards: RayShards, factor: int) -> list[Check]:
    """Return the figures that have targets, with two actors on two cores."""
    checks: list[Check] = []
    for family, n_trees in ((AMF, 48), (ADAPTIVE, 45)):
        ms = 1e3 * measuring.overhead(family, n_trees, shards, 10 * factor)
        checks.append(
            (f"{family}, {n_trees} trees: overhead of a batch of 1,000 rows over the slowest "
             "shard's own time", f"{ms:.1f} ms", "≤ 15 ms", ms <= 15)
        )  # fmt: skip
    for family, n_trees in ((AMF, 48), (ADAPTIVE, 45)):
        ratio = measuring.speed_beside_threads(family, n_trees, shards, factor, 1 + factor // 2)
        checks.append(
            (f"{family}, {n_trees} trees: rows per second of 2 actors over those of 2 threads, "
             "batches of 5,000", f"{ratio:.2f}", "≥ 0.8", ratio >= 0.8)
        )  # fmt: skip
    n_batches = 300 * factor
    third, end = measuring.driver_memory(AMF, 4, shards, n_batches, lambda _: None)
    checks.append(
        (f"memory of the driver after {n_batches // 3} and {n_batches} batches of 1,000 rows",
         f"{third:.0f} and {end:.0f} MB", "constant", end <= 1.05 * third)
    )  # fmt: skip
    return checks


def show(checks: list[Check]) -> None:
    """Print the figures."""
    table = Table("figure", "value", "target", "met")
    for figure, value, target, is_met in checks:
        table.add_row(figure, value, target, "yes" if is_met else "no")
    Console().print(table)


if __name__ == "__main__":
    main()

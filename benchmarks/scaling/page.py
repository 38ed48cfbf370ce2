"""The page docs/scaling.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass

from benchmarks.scaling.cost_model import Case, Costs
from benchmarks.scaling.extrapolation import Machines, Need
from benchmarks.scaling.measuring import ADAPTIVE, AMF, Measured

Check = tuple[str, str, str, bool]  # figure, value, target, whether it is met


@dataclass(frozen=True)
class Results:
    """What was measured and fitted, by family."""

    machine: Mapping[str, str]
    checks: list[Check]
    measured: Mapping[str, list[Measured]]
    costs: Mapping[str, Costs]
    held_out: Mapping[str, tuple[Case, float, float]]  # case, measured, predicted
    needs: Mapping[str, list[Need]]
    n_cores: int


def table(header: list[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def to_markdown(results: Results) -> str:
    """Return the page."""
    return (
        "\n\n".join(
            [_INTRODUCTION, *_figures(results), *_model(results), *_plan(results), _REMEDIES]
        )
        + "\n"
    )


_INTRODUCTION = """# Beyond one machine

The trees of a forest do not depend on each other. So they can be distributed over many machines,
and the forest is the same, bit for bit, as on one machine. `amforest.distributed.RayForest` does
this with [Ray](https://docs.ray.io) (`pip install 'amforest[ray]'`):

```python
from amforest import AdaptiveAMFClassifier
from amforest.distributed import RayForest

forest = RayForest(AdaptiveAMFClassifier(n_estimators=100, random_state=0), n_shards=8)
for X, y in batches:
    forest.partial_fit(X, y)  # returns as soon as the batch is sent
forest.predict_proba(X)  # waits for all batches
forest.save("forest.amf")  # a model file, which amforest.load reads without Ray
```

It has all methods of the estimator that it wraps.

- **Shards.** Shard k of n is an actor that holds the trees k, k + n, …; all shards learn all
  rows. A batch goes into Ray's object store once. The driver validates and encodes it, and has
  the classes, the categories, the linear experts and the mixer. Predictions of trees are added
  in the order of the trees, whatever shard they come from. `to_local()` and `from_local()` move
  a forest to one process and back.
- **Back-pressure.** At most `max_pending` batches are processed at a time; the next one waits.
- **Failures.** Batches are numbered, and the driver keeps those since the last checkpoint in the
  object store. An actor that dies, alone or with its machine, is started again from its
  checkpoint and is given these batches; each is learned exactly once. With `directory=`, shards
  write their checkpoints side by side into a folder that all machines see, and
  `RayForest.resume(directory)` replaces a driver that died: `n_samples_seen_` is the number of the
  row from which the stream must be read again.
- **Slow machines** slow learning down and do not change it. `predict_quorum(X, min_shards=6)`
  predicts with the shards that answer in time, and returns their number.
- **Memory.** Each shard of an adaptive forest stores the remembered rows once more; `max_bytes`
  limits the trees as in one process.

For many small models, one for each sensor, shop or user, see [one model per key](keyed.md)."""

_REMEDIES = """What could be done:

1. *The driver adds the predictions of all trees, one by one*, because floating-point sums
   depend on their order, and the forest must be the one of a single machine. If shards held
   whole blocks of trees, and one machine added the same blocks, a shard could send one sum for
   each block: 8 to 16 times less to receive and to add, still bit for bit, but with
   other last digits than now.
2. *Rows are sent to each machine by the driver.* Ray's object store fetches an object from any
   machine that has it, so larger batches spread like a broadcast tree; sending rows as float16
   or by reference (each shard reads the stream itself, numbered by the driver) would remove it.
3. *The trees of an AMF grow with the rows*, and so do those of an adaptive forest that have no
   memory: set `max_bytes`."""


def _figures(results: Results) -> list[str]:
    rows = (
        (figure, value, target, "yes" if is_met else "**no**")
        for figure, value, target, is_met in results.checks
    )
    machine = ", ".join(f"{name} {value}" for name, value in results.machine.items())
    return [
        "## Figures",
        f"By `make bench-scaling` ({machine}). Failures are tested by "
        "`python tests/torture --only shards`.",
        table(["figure", "value", "target", "met"], rows),
    ]


def _model(results: Results) -> list[str]:
    parts = [
        "## Cost model",
        "The CPU time of a batch of n rows, for T trees on S actors, of the driver and of a shard, "
        "and the time of the batch where C cores do the work of all:",
        "```text\n"
        "driver = a + b S + n (c + d T)\n"
        "shard = n (e + f T / S)\n"
        "t = max(driver, shard, (driver + S shard) / C)\n"
        "```",
        "a, b: of a batch, and of the call of an actor; c: of a row, which the driver validates, "
        "stores and mixes; d: of a row and a tree, whose prediction the driver joins to those of "
        "others; e: of a row that a shard stores; f: of a row that a tree learns. Fitted to CPU "
        "times by relative least squares, none below 0; t is a prediction. Other processes on the "
        "machine make measured times longer than t, never shorter.",
    ]
    names = ["a, ms", "b, ms", "c, µs", "d, µs", "e, µs", "f, µs"]
    factors = (1e3, 1e3, 1e6, 1e6, 1e6, 1e6)
    rows = [
        (
            family,
            *(f"{v * f:.3g}" for v, f in zip(astuple(costs), factors, strict=True)),
            f"{results.measured[family][-1].node_bytes:.0f}",
            f"{results.measured[family][-1].nodes_per_row:.2f}",
        )
        for family, costs in results.costs.items()
    ]
    parts.append(table(["forest", *names, "bytes per node", "nodes per row and tree"], rows))
    rows_of = []
    for family, all_measured in results.measured.items():
        for m in all_measured:
            predicted = results.costs[family].of_batch(m.case, results.n_cores)
            rows_of.append(_case_row(family, m.case, m.batch, predicted, "fitted"))
        case, seconds, predicted = results.held_out[family]
        rows_of.append(_case_row(family, case, seconds, predicted, "**held out**"))
    header = ["forest", "trees", "actors", "rows", "measured, ms", "model, ms", "ratio", ""]
    parts.append(table(header, rows_of))
    parts.append(
        "![Time of a batch by the number of actors, measured and by the model](images/scaling.png)"
    )
    return parts


def _case_row(
    family: str, case: Case, seconds: float, predicted: float, how: str
) -> tuple[str, ...]:
    return (
        family,
        str(case.n_trees),
        str(case.n_actors),
        f"{case.n_rows:,}",
        f"{seconds * 1e3:.0f}",
        f"{predicted * 1e3:.0f}",
        f"{predicted / seconds:.2f}",
        how,
    )


def _plan(results: Results) -> list[str]:
    machines = Machines()
    parts = [
        "## 1,000 trees, 10⁹ rows, 100 machines",
        f"The model's hours of each resource alone, for {machines.n} machines of "
        f"{machines.n_cores} cores like ours, one shard with a thread for each core on each of "
        "them, batches of 10,000 rows of 20 features and two classes, and a network of 10 Gbit/s. "
        "The mixer of an adaptive forest needs the predictions of all trees; an AMF that only "
        "learns sends none back:",
    ]
    rows = [
        (
            need.resource,
            *(_hours(results.needs[family], need.resource) for family in (AMF, ADAPTIVE)),
        )
        for need in results.needs[ADAPTIVE]
    ]
    parts.append(table(["resource", AMF, ADAPTIVE], rows))
    amf = results.measured[AMF][-1]
    terabytes = 1000 * 1e9 * amf.nodes_per_row * amf.node_bytes / 1e12
    first = {family: results.needs[family][0].resource for family in (AMF, ADAPTIVE)}
    parts.append(
        f"**The first bottleneck:** {first[AMF]} (AMF), {first[ADAPTIVE]} (adaptive). An AMF "
        "without limits runs out of memory before that: its trees would take "
        f"{terabytes:,.0f} TB, {terabytes * 10:,.0f} GB on each machine. The hours are an "
        "extrapolation by a factor of about a hundred in actors and of thousands in rows; only "
        "the held-out cases above were checked."
    )
    return parts


def _hours(needs: list[Need], resource: str) -> str:
    hours = [need.hours for need in needs if need.resource == resource]
    return f"{hours[0]:,.1f}" if hours else "–"

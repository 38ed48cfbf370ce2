"""The picture of docs/scaling.md."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.scaling.cost_model import Case
from benchmarks.scaling.page import Results


def draw(results: Results, path: Path) -> None:
    """Draw the time of a batch by the number of actors: measured, and by the model."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, len(results.measured), sharey=False)
    for axis, (family, measured) in zip(axes, results.measured.items(), strict=True):
        curves = sorted({(m.case.n_trees, m.case.n_rows) for m in measured})
        for color, (n_trees, n_rows) in enumerate(curves):
            points = [m for m in measured if (m.case.n_trees, m.case.n_rows) == (n_trees, n_rows)]
            actors = [m.case.n_actors for m in points]
            label = f"{n_trees} trees, {n_rows:,} rows"
            axis.plot(actors, [m.batch * 1e3 for m in points], "o", color=f"C{color}", label=label)
            cases = [Case(family, n_trees, n, n_rows) for n in range(1, 9)]
            costs = results.costs[family]
            model = [costs.of_batch(case, results.n_cores) * 1e3 for case in cases]
            axis.plot(range(1, 9), model, color=f"C{color}", linewidth=1)
        case, seconds, _ = results.held_out[family]
        held_out = f"held out: {case.n_trees} trees, {case.n_rows:,} rows"
        axis.plot(case.n_actors, seconds * 1e3, "k*", markersize=10, label=held_out)
        axis.set(title=family, xlabel="actors, on 2 cores", ylabel="ms of a batch", yscale="log")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("")
        axis.set_ylim(top=axis.get_ylim()[1] * 4)  # room for the legend
        axis.legend(fontsize=7, ncols=2, loc="upper center")
        axis.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)

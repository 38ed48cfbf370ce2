"""Measure what the paper's theory says: depths, rates, visits, and the forest it compares with.

Writes docs/theory_experiments.md and its images in about 15 minutes. What it measured is kept in
build/theory, to be drawn anew. ``--quick`` takes a minute, and all goes to build/theory/quick.
"""

from __future__ import annotations

import argparse
import json
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import track
from scipy.integrate import cumulative_trapezoid

from amforest import AMFClassifier, AMFRegressor, datasets, theory
from amforest.baselines import MondrianForestClassifier

ROOT = Path(__file__).resolve().parent.parent
COLOURS = ("#00497A", "#E69F00", "#009E73", "#CC79A7")  # distinguishable for colour-blind readers
DENSITIES = {"uniform": 1, "two-step": 4}  # by their ratio M
HEAD = "# Theory, measured\n\nThis page is written by `examples/theory.py`; do not edit it.\n"
CASES = [*product((1, 2), (0.5, 1.0))]  # d and β
# Labels are f, within ±0.5, plus noise uniform on ±0.5: B = 1 and σ² = 1/12.
PAPER, LARGE = {"step": None, "bound": 1.0}, {"step": 6.0}
LEARNERS: dict[str, dict[str, Any]] = {
    "η = 1/(8B²), unrestricted": {**PAPER, "charge_first": True, "partition": "unrestricted"},
    "η = 1/(8B²)": PAPER,
    "η = 1/(2σ²)": LARGE,
    "η = 1/(2σ²), first charged": {**LARGE, "charge_first": True},
}
CONTENDERS: dict[str, Any] = {
    "AMF": AMFClassifier,
    "MF": MondrianForestClassifier,
    "MF, split_pure": lambda **how: MondrianForestClassifier(split_pure=True, **how),
}


def slope(x: Any, rows: Any) -> str:
    """Fit a line to each row, and return the mean slope; its standard error if there are some."""
    slopes = np.polyfit(x, np.transpose(np.atleast_2d(rows)), 1)[0]
    error = f" ± {slopes.std(ddof=1) / np.sqrt(len(slopes)):.2f}" if len(slopes) > 1 else ""
    return f"{slopes.mean():.2f}{error}".replace("-", "−")


def table(headings: str, rows: list[Any]) -> str:
    """Return a table in markdown; its headings are given as in markdown."""
    lines = [headings, "--- " + headings.count("|") * "| ---: ", *map(" | ".join, rows)]
    return "\n".join(f"| {line.strip()} |" for line in lines)


def finish(figure: Figure, panels: Any, path: Path, legend_columns: int) -> None:
    """Add what all pictures share, and write the file."""
    for axes in panels:
        axes.grid(which="major", color="0.88")
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=legend_columns, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


def measure_depth(first: int, n_max: int, n_sizes: int, n_streams: int) -> Any:
    """Return the mean depth of the leaves of samples, and how many nodes the first tree has."""
    ns = np.geomspace(first, n_max, n_sizes).round().astype(int).tolist()
    curves: dict[str, list[list[tuple[float, int]]]] = {name: [] for name in DENSITIES}
    for name, i in track([*product(DENSITIES, range(n_streams))], "Growing trees"):
        rng = np.random.default_rng(i)
        X, y = rng.uniform(size=(n_max, 2)), rng.integers(2, size=n_max)
        if name == "two-step":  # of densities 0.5 / 0.2 and 0.5 / 0.8: their ratio is 4
            X = np.where(rng.uniform(size=X.shape) < 0.5, 0.2 * X, 0.2 + 0.8 * X)
        forest = AMFClassifier(5, use_aggregation=False, split_pure=True, n_jobs=2, random_state=i)
        curves[name].append([])
        for start, n in pairwise([0, *ns]):
            forest.partial_fit(X[start:n], y[start:n])
            depth = forest.weighted_depth(X[rng.integers(n, size=20_000)])  # that of the leaf
            curves[name][-1].append((float(depth.mean()), len(forest.tree_table(0))))
    return {"n": ns, "curves": curves}


def draw_depth(result: Any, images: Path) -> str:
    """Draw the depth against log n, beside the bounds."""
    n = np.array(result["n"])
    figure, rows = Figure(figsize=(8.0, 4.2), layout="constrained"), []
    panels = figure.subplots(1, 2)
    for axes, (name, ratio) in zip(panels, DENSITIES.items(), strict=True):
        depths = np.array(result["curves"][name])[..., 0]
        mean, fit = depths.mean(axis=0), np.polyfit(np.log(n), depths.mean(axis=0), 1)
        stated, mended = (theory.depth_bound(n - 1, ratio, as_stated=how) for how in (True, False))
        axes.plot(n, mended, "-.", color=COLOURS[1], label="Proposition 2 corrected")
        axes.plot(n, stated, "--", color=COLOURS[3], label="Proposition 2 as stated")
        axes.plot(n, mean, "o", color=COLOURS[0], label="measured")
        axes.plot(n, np.polyval(fit, np.log(n)), color=COLOURS[0], label="line fitted to it")
        axes.set(xscale="log", ylim=(0, None), xlabel="samples learned, n")
        axes.set(ylabel="mean depth of a sample (splits)", title=f"{name} density, M = {ratio}")
        exact = f"{2 * np.sum(1 / np.arange(2, n[-1] + 1)):.2f}" if ratio == 1 else ""
        slopes = (slope(np.log(n), curve) for curve in (depths, stated, mended))
        rows.append((name, *slopes, exact, *(f"{d[-1]:.2f}" for d in (mean, stated, mended))))
    finish(figure, panels, images / "theory_depth.png", 2)
    bounds = "measured | Proposition 2 | corrected"
    return f"""## Proposition 2: the depth

Points in [0, 1]², fair coins for labels, `split_pure=True`, {len(depths)} streams of 5 trees. The
depth is that of the leaves of 20,000 of the samples learned. In the two-step density a coordinate
is below 0.2 with probability ½, so M = 4: the density changes by this factor along an axis.

![Mean depth against the number of samples](images/theory_depth.png)

{table(f"density | slope in log n: {bounds} | depth at {n[-1]:,}: exact | {bounds}", rows)}

Uniform samples have the mean depth 2 (1/2 + … + 1/n), of slope 2: above Proposition 2 as stated,
below its [correction](theory.md#proposition-2-the-depth). M hardly changes the slope, because a
density is nearly constant within a small cell; in the bounds, M counts at every split.
"""


def holder(X: Any, beta: float) -> Any:
    """Return the mean over coordinates of a β-Hölder function within ±0.5: see the page."""
    if beta == 1:
        return np.mean(np.abs(4 * X % 2 - 1) - 0.5, axis=1)
    phases = np.random.default_rng(0).uniform(0, 2 * np.pi, 17)
    waves = [2 ** (-k / 2) * np.cos(2 * np.pi * 2**k * X + phases[k]) for k in range(17)]
    return np.mean(np.sum(waves, axis=0) / 4.6, axis=1)


def measure_rates(n_max: int, n_sizes: int, n_seeds: int) -> Any:
    """Return squared errors at fresh points: of `OnlineToBatch`'s learner, and its own."""
    ns = np.geomspace(10, n_max, n_sizes).round().astype(int).tolist()
    errors: dict[str, list[list[list[float]]]] = {}
    cases = [*product(CASES, LEARNERS.items(), range(n_seeds))]
    for (d, beta), (name, how), seed in track(cases, "Rates"):
        rng = np.random.default_rng(seed)
        X, fresh = rng.uniform(size=(n_max, d)), rng.uniform(size=(5000, d))
        y, truth = holder(X, beta) + rng.uniform(-0.5, 0.5, n_max), holder(fresh, beta)
        forest = AMFRegressor(10, n_jobs=2, random_state=seed, **how)
        model = theory.OnlineToBatch(forest, random_state=seed)
        curve = [[float(np.mean(truth**2))] * 2]  # before the first sample they predict 0
        for start, n in pairwise([0, *ns]):
            model.partial_fit(X[start:n], y[start:n])
            predictions = (who.predict(fresh) for who in (model.estimator_, model))
            curve.append([float(np.mean((prediction - truth) ** 2)) for prediction in predictions])
        errors.setdefault(f"{d} {beta} {name}", []).append(curve)
    return {"n": [0, *ns], "errors": errors}


def draw_rates(result: Any, images: Path) -> str:
    """Draw the errors against n, log-log, beside the rate of Theorem 2."""
    n = np.array(result["n"][1:])
    drawn, last = n >= 1000, n >= n[-1] / 10
    figure, rows = Figure(figsize=(8.0, 7.6), layout="constrained"), []
    panels = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
    for axes, (d, beta) in zip(panels, CASES, strict=True):
        rate = theory.holder_rate(n, d, beta)
        for name, colour in zip(LEARNERS, COLOURS, strict=True):
            online, batch = np.moveaxis(result["errors"][f"{d} {beta} {name}"], 2, 0)
            mean = cumulative_trapezoid(online, result["n"]) / n  # over what OnlineToBatch draws
            curves = {"-": mean, "--": online[:, 1:], ".": batch[:, 1:]}
            for style, curve in curves.items():
                axes.plot(n[drawn], curve.mean(0)[drawn], style, color=colour)
            axes.lines[-3].set_label(name)
            logs = (np.log(curve[..., last]) for curve in (rate, mean, curves["--"]))
            ends = (f"{1e3 * curve[:, -1].mean():.2f}" for curve in (mean, online))
            case = (name, f"{d}", f"{beta:g}", f"−{2 * beta / (d + 2 * beta):.2f}")
            rows.append((*case, *(slope(np.log(n[last]), log) for log in logs), *ends))
        rate *= 0.6 * online[:, -1].mean() / rate[-1]  # to lie below the curves
        axes.plot(n[drawn], rate[drawn], ":", color="0.3", label="rate of Theorem 2, scaled")
        axes.set(xscale="log", yscale="log", title=f"d = {d}, β = {beta:g}")
        axes.set(xlabel="samples learned, n", ylabel="mean squared error (labels' unit²)")
    for style, label in [("-", "online to batch"), (".", "the same, drawn"), ("--", "last model")]:
        panels[0].plot([], [], style, color="0.3", label=label)
    finish(figure, panels, images / "theory_rates.png", 2)
    kinds = "online to batch | last model"
    return f"""## Theorem 2: rates

f is the mean over coordinates of a β-Hölder function: for β = ½ Σ 2^(−k/2) cos(2π 2^k x + φ_k) /
4.6, k = 0, …, 16, rough at all scales that matter here; for β = 1 a wave of two triangles, as no
Lipschitz function is rough everywhere. Labels are f plus noise uniform on ±½: B = 1, σ² = 1/12.
10 trees learn {n[-1]:,} uniform samples, {len(mean)} times; errors are against f at 5,000 points.
The theorem's learner is the unrestricted one; "first charged" is `charge_first=True`.

![Mean squared error against the number of samples](images/theory_rates.png)

`OnlineToBatch` predicts with the model after a random number of samples: dots are the means of its
draws, solid lines the means over all that it might draw. Slopes are those of log error in log n
over the last decade (mean ± standard error); "theorem" is that of (log n / n)^(2β/(d+2β)) there.

{table(f"learner | d | β | exponent | slope: theorem | {kinds} | 1000 × error: {kinds}", rows)}

With η = 1/(8B²) a split gains weight once it lowers the sum of squares by about log(2) / η = 66 σ².
So at first the error of these forests hardly falls, above all for d = 2; then it falls more steeply
than in the theorem, until it comes near that of the larger step. Those are near the theorem, but
steeper for β = 1, as f is linear between kinks and averaging trees lowers the bias. Online to batch
averages n^−r over the past: the same slope in the end, 1/(1 − r) times the error. Without
`charge_first` a large step fails: as first labels are free, prunings into leaves of one or two
samples gain about η σ² = ½ for each sample.
"""


def draw_visits(result: Any, images: Path) -> str:
    """Draw the nodes that an update visits against n, log-log."""
    n, curves = np.array(result["n"]), np.array(result["curves"]["uniform"])
    visits, nodes = 2 * curves[..., 0].mean(0), curves[..., 1].mean(0)
    figure = Figure(figsize=(5.6, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.loglog(n, nodes, "s-", color=COLOURS[1], label="Mondrian forest: all nodes")
    axes.plot(n, visits, "o-", color=COLOURS[0], label="AMF: a path, down and up")
    axes.set(xlabel="samples learned, n", ylabel="nodes visited by an update of a tree")
    finish(figure, [axes], images / "theory_visits.png", 2)
    return f"""## Table 2: nodes visited by an update

Uniform samples as above. AMF goes down a path and up again, twice the depth; the original Mondrian
forest recomputes the posterior of all nodes. (Ours computes it on the path, when it predicts.)

![Nodes visited against the number of samples](images/theory_visits.png)

AMF's visits grow by {slope(np.log(n), 2 * curves[..., 0])} per unit of log n (theory: 4), and the
nodes of a tree as n^{slope(np.log(n), np.log(nodes))}: at n = {n[-1]:,} they are {visits[-1]:.1f}
and {nodes[-1]:,.0f}.
"""


def measure_accuracy(n_seeds: int, max_rows: int) -> Any:
    """Return accuracy and log-loss on 30 % of the rows, after learning the others once."""
    data = [datasets.load(name) for name in datasets.NAMES]
    scores: dict[str, list[list[tuple[float, float]]]] = {dataset.name: [] for dataset in data}
    for dataset, make in track([*product(data, CONTENDERS.values())], "Accuracy"):
        scores[dataset.name].append([])
        for seed in range(n_seeds):
            order = np.random.default_rng(seed).permutation(len(dataset.y))[:max_rows]
            test, train = np.split(order, [round(0.3 * len(order))])
            forest = make(classes=range(len(dataset.classes)), n_jobs=2, random_state=seed)
            forest.partial_fit(dataset.X[train], dataset.y[train])
            proba, y = forest.predict_proba(dataset.X[test]), dataset.y[test]
            losses = -np.log(np.maximum(proba[np.arange(len(y)), y], 1e-6))
            accuracy = float(np.mean(proba.argmax(axis=1) == y))
            scores[dataset.name][-1].append((accuracy, float(losses.mean())))
    return scores


def draw_accuracy(result: Any, images: Path) -> str:
    """Return the table; there is no picture."""
    scores = np.array([*result.values()])  # data set, contender, seed, metric
    means = np.concatenate([scores.mean(2), scores.mean((0, 2))[None]])
    texts = [[f"{value:.3f}" for value in row.T.ravel()] for row in means]
    rows = [(name, *row) for name, row in zip([*result, "mean"], texts, strict=True)]
    names = " | ".join(CONTENDERS)
    return f"""## The original Mondrian forest

The paper's data sets, 30 % of the rows held out, the others learned once; 10 trees, means over
{scores.shape[2]} seeds. MF is the Mondrian forest. In log-loss, probabilities are at least 1e-6.

{table(f"data set | accuracy: {names} | log-loss: {names}", rows)}
"""


# By name: what measures, what draws, and the arguments of the full and the quick run.
EXPERIMENTS: dict[str, tuple[Any, Any, list[int], list[int]]] = {
    "depth": (measure_depth, draw_depth, [1000, 1_000_000, 7, 4], [1000, 100_000, 5, 2]),
    "rates": (measure_rates, draw_rates, [100_000, 25, 10], [10_000, 19, 2]),
    "visits": (measure_depth, draw_visits, [100, 100_000, 7, 4], [100, 10_000, 5, 2]),
    "accuracy": (measure_accuracy, draw_accuracy, [3, 1_000_000], [1, 3000]),
}


def main() -> None:
    """Measure what is not in build/theory yet, draw, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a minute, all in build/theory/quick")
    parser.add_argument("--only", choices=EXPERIMENTS, help="one experiment, without the page")
    options = parser.parse_args()
    cache = ROOT / "build" / "theory" / ("quick" if options.quick else "")
    folder = cache if options.quick else ROOT / "docs"
    cache.mkdir(parents=True, exist_ok=True)
    sections = [HEAD]
    for name in [options.only] if options.only else EXPERIMENTS:
        measure, draw, *plans = EXPERIMENTS[name]
        file, plan = cache / f"{name}.json", plans[options.quick]
        found = json.loads(file.read_text()) if file.exists() else {}
        if found.get("plan") != plan:
            try:
                found = {"plan": plan, "data": measure(*plan)}
            except FileNotFoundError as error:
                Console().print(f"{name} is skipped: {error}")
                continue
            file.write_text(json.dumps(found))
        sections.append(draw(found["data"], folder / "images"))
        Console().print(Markdown(sections[-1]))
    if not options.only:
        (folder / "theory_experiments.md").write_text("\n".join(sections), "utf-8")


if __name__ == "__main__":
    main()

"""Figure 9: decision functions of four forests on three toys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize_scalar
from sklearn.metrics import log_loss, roc_auc_score

from amforest.datasets import TOYS, make_toy
from experiments.paper._fields import (
    SIDE,
    draw_field,
    draw_samples,
    explain,
    field_of,
    jumps,
    variation,
)
from experiments.paper._findings import Claim, Table
from experiments.paper._methods import ALGORITHMS, AMF, ET, MF, RF, new
from experiments.paper._run import Found, Run

TITLE = "Decision functions of AMF, MF, RF and ET"
ABOUT = f"""Forests of 100 trees after 180 samples of three toys, which are drawn; numbers are the
area under the ROC curve and the log-loss on 4,000 further samples, for the seed shown. AMF splits
pure nodes here, as in the authors' script for this figure. The table has the means over all seeds,
also of AMF that does not split pure nodes (the default), of Algorithms 5–6, and of AMF with a
Dirichlet prior of 0.01 instead of 1/2. *Jumps* is the sum of the squared steps, and *ups and downs*
the total variation, of the predictions along a horizontal or vertical line of {SIDE} places.
*Factor* is the number by which the predicted log-odds should be multiplied: more than 1 means that
a forest is too cautious. Predictions are kept within 0.001 and 0.999 for the log-loss, because RF
and ET predict 0 and 1."""

KEPT, SHARP = "AMF, pure nodes kept", "AMF, prior 0.01"
# The parameters of each forest beyond the settings of its method.
FORESTS: dict[str, tuple[str, dict[str, Any]]] = {
    AMF: (AMF, {"split_pure": True}),
    KEPT: (AMF, {}),
    ALGORITHMS: (ALGORITHMS, {"split_pure": True}),
    SHARP: (AMF, {"split_pure": True, "dirichlet": 0.01}),
    MF: (MF, {}),
    RF: (RF, {}),
    ET: (ET, {}),
}
SHOWN = (AMF, MF, RF, ET)
MEASURES = ("auc", "log_loss", "jumps", "variation", "factor", "rescaled")


@dataclass(frozen=True, eq=False)
class Compared:
    """The cells by toy and forest, one for each seed, and the samples of the first seed."""

    cells: dict[tuple[str, str], list[Found]]
    samples: dict[str, Any]

    def values(self, toy: str, forest: str, measure: str) -> Any:
        """Return a measure for all seeds."""
        return np.array([float(cell[measure]) for cell in self.cells[toy, forest]])

    def mean(self, toy: str, forest: str, measure: str) -> float:
        """Return the mean of a measure over the seeds."""
        return float(self.values(toy, forest, measure).mean())


def compute(run: Run) -> Compared:
    """Grow all forests on all toys."""
    n_seeds, n_train, n_trees = run.choose(
        full=(20, 180, 100), quick=(3, 180, 100), tiny=(1, 60, 5)
    )
    pairs = [(toy, forest) for toy in TOYS for forest in FORESTS]
    cells = [(*pair, seed, n_train, n_trees) for pair in pairs for seed in range(n_seeds)]
    found = run.cells(forest_on_toy, cells, "Figure 9")
    by_pair = {p: found[i * n_seeds : (i + 1) * n_seeds] for i, p in enumerate(pairs)}
    return Compared(by_pair, {toy: make_toy(toy, n_train, random_state=0) for toy in TOYS})


def forest_on_toy(toy: str, forest: str, seed: int, n_train: int, n_trees: int) -> Found:
    """Grow a forest and measure it."""
    method, options = FORESTS[forest]
    model = new(method, n_classes=2, seed=seed, n_trees=n_trees).set_params(**options)
    model.fit(*make_toy(toy, n_train, random_state=seed))
    X, y = make_toy(toy, 4_000, random_state=10_000 + seed)
    field, predictions = field_of(model, toy), model.predict_proba(X)[:, 1]
    numbers = {
        "auc": roc_auc_score(y, predictions),
        "log_loss": log_loss(y, predictions.clip(0.001, 0.999)),
        "jumps": jumps(field),
        "variation": variation(field),
        **_rescaled(predictions.clip(0.001, 0.999), y),
    }
    picture = {"field": field.astype(np.float32)} if seed == 0 and forest in SHOWN else {}
    return {name: np.array(number) for name, number in numbers.items()} | picture


def _rescaled(predictions: Any, y: Any) -> dict[str, float]:
    """Find the best factor of the log-odds, and the log-loss that it would give."""
    towards = (2 * y - 1) * np.log(predictions / (1 - predictions))
    best = minimize_scalar(
        lambda log_factor: np.logaddexp(0, -np.exp(log_factor) * towards).mean(),
        bounds=(-3, 3),
        method="bounded",
    )
    return {"factor": float(np.exp(best.x)), "rescaled": float(best.fun)}


def draw(found: Compared) -> Figure:
    """Draw a row for each toy: its samples, then the forests."""
    figure = Figure(figsize=(9.6, 6.6), layout="constrained")
    axes = figure.subplots(len(TOYS), 1 + len(SHOWN))
    for row, toy in zip(axes, TOYS, strict=True):
        draw_samples(row[0], toy, *found.samples[toy])
        row[0].set_ylabel(toy, fontsize=10)
        for ax, forest in zip(row[1:], SHOWN, strict=True):
            cell = found.cells[toy, forest][0]
            note = f"AUC {cell['auc']:.3f}\nlog-loss {cell['log_loss']:.3f}"
            draw_field(ax, toy, cell["field"], note)
    for ax, title in zip(axes[0], ("samples", *SHOWN), strict=True):
        ax.set_title(title, fontsize=10)
    explain(figure, axes)
    return figure


def claims(found: Compared) -> list[Claim]:
    """Check smoothness, generalisation and calibration."""
    smooth = [_best(found, toy, measure, AMF) for measure in ("jumps", "variation") for toy in TOYS]
    general = [_best(found, toy, "auc", AMF, largest=True) for toy in TOYS]
    calibrated = [_best(found, toy, "log_loss", AMF) for toy in TOYS]
    return [
        Claim(
            "AMF's decision function is the smoothest of the four forests",
            f"jumps {_texts(found, 'jumps')}; ups and downs {_texts(found, 'variation')}. A "
            "cautious forest is smooth for free: with a prior of 0.01, which is not, jumps are "
            f"{_texts(found, 'jumps', forest=SHARP)}",
            all(smooth),
        ),
        Claim(
            "That lets AMF generalise better: its AUC on new samples is the largest",
            f"AUC {_texts(found, 'auc', largest=True)}. This needs pure nodes to be split; "
            f"otherwise: {_texts(found, 'auc', largest=True, forest=KEPT)}",
            all(general),
        ),
        Claim(
            "Probabilities of the other forests are not well calibrated; AMF's are better: its "
            "log-loss on new samples is the smallest",
            f"log-loss {_texts(found, 'log_loss')}",
            all(calibrated),
            _why_cautious(found),
        ),
    ]


def _rivals(found: Compared, toy: str, measure: str, *, largest: bool) -> tuple[str, float]:
    """Return the best of the other forests."""
    sign = -1 if largest else 1
    best = min((MF, RF, ET), key=lambda forest: sign * found.mean(toy, forest, measure))
    return best, found.mean(toy, best, measure)


def _best(found: Compared, toy: str, measure: str, forest: str, *, largest: bool = False) -> bool:
    _, rival = _rivals(found, toy, measure, largest=largest)
    ours = found.mean(toy, forest, measure)
    return ours > rival if largest else ours < rival


def _texts(found: Compared, measure: str, *, largest: bool = False, forest: str = AMF) -> str:
    """Say for each toy what AMF and the best of the others have."""
    texts = []
    for toy in TOYS:
        name, rival = _rivals(found, toy, measure, largest=largest)
        texts.append(f"{found.mean(toy, forest, measure):.4f} ({toy}; {name} {rival:.4f})")
    return ", ".join(texts)


def _why_cautious(found: Compared) -> str:
    factors = ", ".join(f"{found.mean(toy, AMF, 'factor'):.1f}" for toy in TOYS)
    n_sharp = sum(_best(found, toy, "log_loss", SHARP) for toy in TOYS)
    n_rescaled = sum(_best(found, toy, "rescaled", AMF) for toy in TOYS)
    return (
        "AMF is too cautious on classes that hardly overlap: its log-odds should be multiplied by "
        f"{factors}. The Dirichlet prior of 1/2 is the cause: by it, a leaf with a single sample "
        "predicts 3/4. With a prior of 0.01 and nothing else changed the log-loss is "
        f"{_texts(found, 'log_loss', forest=SHARP)}: the smallest on {n_sharp} of {len(TOYS)} "
        "toys. And if each forest's log-odds are multiplied by the best factor, AMF as it is has "
        f"the smallest log-loss on {n_rescaled} of {len(TOYS)}: {_texts(found, 'rescaled')}."
    )


def tables(found: Compared) -> list[Table]:
    """Give all means."""
    headings = ("", "AUC", "log-loss", "jumps", "ups and downs", "factor", "log-loss, rescaled")
    rows = [
        (f"{toy}: {forest}", *(f"{found.mean(toy, forest, m):.4f}" for m in MEASURES))
        for toy, forest in found.cells
    ]
    return [Table(headings, rows)]

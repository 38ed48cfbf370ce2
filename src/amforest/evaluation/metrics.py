"""The metrics by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches

from amforest.evaluation.base_metric import Metric
from amforest.evaluation.class_metrics import (
    Accuracy,
    Auc,
    BalancedAccuracy,
    Brier,
    Kappa,
    LogLoss,
)
from amforest.evaluation.number_metrics import R2, Crps, MeanAbsoluteError, MeanSquaredError

METRICS: dict[str, dict[str, type[Metric]]] = {
    "classification": {
        "log_loss": LogLoss,
        "accuracy": Accuracy,
        "auc": Auc,
        "balanced_accuracy": BalancedAccuracy,
        "brier": Brier,
        "kappa": Kappa,
    },
    "regression": {"mse": MeanSquaredError, "mae": MeanAbsoluteError, "r2": R2, "crps": Crps},
}
DEFAULTS = {
    "classification": ("log_loss", "accuracy", "auc"),
    "regression": ("mse", "mae", "r2"),
}
ALIASES = {  # what scikit-learn calls them
    "roc_auc": "auc",
    "roc_auc_ovr": "auc",
    "brier_score": "brier",
    "brier_score_loss": "brier",
    "cohen_kappa": "kappa",
    "cohen_kappa_score": "kappa",
    "mean_squared_error": "mse",
    "mean_absolute_error": "mae",
    "r2_score": "r2",
}


def made(task: str, names: Iterable[str], window: int) -> dict[str, Metric]:
    """Make the metrics of these names, or refuse one with the nearest that there is."""
    return {name: _class_of(task, name)(window) for name in names}


def _class_of(task: str, name: str) -> Callable[[int], Metric]:
    there = METRICS[task]
    if (metric := there.get(ALIASES.get(name, name))) is not None:
        return metric
    others = {other for metrics in METRICS.values() for other in metrics}
    if ALIASES.get(name, name) in others:
        raise ValueError(f"metrics has {name!r}, which is none of {task}: {', '.join(there)}")
    known = [*there, *(alias for alias, short in ALIASES.items() if short in there)]
    near = get_close_matches(str(name).removeprefix("neg_"), known, n=1, cutoff=0.4)
    advice = f"did you mean {near[0]!r}?" if near else "there are " + ", ".join(there)
    raise ValueError(f"metrics has {name!r}, which is unknown; {advice}")

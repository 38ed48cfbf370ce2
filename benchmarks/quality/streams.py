"""The streams: the paper's data sets, river's sets and generators with drift, and files.

>>> stream = load_stream("agrawal_drift", 1000)  # doctest: +SKIP
>>> stream.X.shape, stream.n_classes  # doctest: +SKIP
((1000, 9), 2)
"""

import io
import os
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest import datasets

MAX_ROWS = 20_000
_MISSING = ("", "?", "NA", "NaN", "nan")

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
PAPER, RIVER, DRIFT, FILE = "paper", "river", "generated drift", "file"


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows in the order in which they are predicted and learned.

    `X` holds raw numbers, with categories as one-hot columns; `categorical` lists the columns of
    codes, where a variant has them. `codes` are the same rows with one column of codes for each
    categorical feature; `code_columns` lists these columns.
    """

    name: str
    X: Floats
    y: Labels
    n_classes: int
    codes: Floats
    code_columns: tuple[int, ...] = ()
    categorical: tuple[int, ...] = ()

    def first(self, n_rows: int) -> "Stream":
        """Return the beginning of the stream."""
        rows = slice(n_rows)
        return replace(self, X=self.X[rows], y=self.y[rows], codes=self.codes[rows])


@dataclass(frozen=True)
class Spec:
    """How a stream is made, and what is known about it."""

    make: Callable[[int], Stream] = field(repr=False)
    group: str
    has_drift: bool
    about: str


def load_stream(name: str, max_rows: int = MAX_ROWS) -> Stream:
    """Return the first rows of a stream: always the same.

    Raises
    ------
    FileNotFoundError
        If the stream is a file that does not exist.
    """
    stream = STREAMS[name].make(max_rows).first(max_rows)
    return replace(stream, name=name)


def available_streams(names: Iterable[str] | None = None) -> list[str]:
    """Return those of the streams (by default of all) whose files exist."""
    return [name for name in (STREAMS if names is None else names) if _is_available(name)]


def _is_available(name: str) -> bool:
    group = STREAMS[name].group
    if group == PAPER:
        return datasets.are_available()
    return group != FILE or stream_path(name).exists()


def stream_path(name: str) -> Path:
    """Return the file of a stream, whether it exists or not."""
    return Path(os.environ.get("AMFOREST_DATA", "data")) / "streams" / f"{name}.csv.zip"


def encode(columns: Sequence[NDArray[Any]]) -> tuple[Floats, Floats, tuple[int, ...]]:
    """Return features with one-hot columns, the same with codes, and the columns of codes."""
    wide: list[Floats] = []
    codes: list[Floats] = []
    categorical = []
    for j, column in enumerate(columns):
        if column.dtype.kind in "fiub":
            codes.append(column.astype(np.float64))
            wide.append(codes[-1])
            continue
        levels, of_row = np.unique(column.astype(str), return_inverse=True)
        categorical.append(j)
        codes.append(of_row.astype(np.float64))
        wide.extend((of_row == k).astype(np.float64) for k in range(len(levels)))
    X, narrow = (np.ascontiguousarray(np.stack(part, axis=1)) for part in (wide, codes))
    return X, narrow, tuple(categorical)


def _stream(columns: Sequence[NDArray[Any]], labels: NDArray[Any]) -> Stream:
    X, codes, categorical = encode(columns)
    classes, y = np.unique(labels, return_inverse=True)
    return Stream("", X, y.astype(np.int64), len(classes), codes, categorical)


def _reordered(stream: Stream, order: NDArray[np.int64]) -> Stream:
    return replace(stream, X=stream.X[order], y=stream.y[order], codes=stream.codes[order])


def _paper(name: str, max_rows: int) -> Stream:
    """Return a data set of the paper, unscaled, in a fixed random order."""
    data = datasets.load(name, raw=True)
    is_category = set(data.categorical_features)
    columns = [
        column.astype(str) if j in is_category else column.astype(np.float64)
        for j, column in enumerate(data.X.T)
    ]
    order = np.random.default_rng(0).permutation(len(data.y))[:max_rows]
    return _reordered(_stream(columns, data.y), order)


def _file(name: str, max_rows: int) -> Stream:
    return _stream(*read_columns(name)).first(max_rows)


def read_columns(name: str) -> tuple[list[NDArray[Any]], NDArray[Any]]:
    """Return the features of a file, in its order, and its last column as it is: the label."""
    path = stream_path(name)
    if not path.exists():
        text = f"{path} does not exist; set AMFOREST_DATA to a folder that holds streams/"
        raise FileNotFoundError(text)
    with zipfile.ZipFile(path) as archive, archive.open(path.stem) as file:
        lines = io.TextIOWrapper(file, encoding="utf-8")
        next(lines)
        rows = [line.rstrip("\n").split(",") for line in lines]
    table = np.array(rows)
    return [_numbers(column) for column in table[:, :-1].T], table[:, -1]


def _numbers(column: NDArray[Any]) -> NDArray[Any]:
    """Return numbers, -1 where one is missing; or strings, where some value is not a number."""
    try:
        return np.where(np.isin(column, _MISSING), "-1", column).astype(np.float64)
    except ValueError:
        return column


def _bundled(class_name: str, shuffled: bool, max_rows: int) -> Stream:
    """Return a data set that river contains."""
    from river import datasets as river_datasets  # noqa: PLC0415  # an optional dependency

    stream = _of_dicts(getattr(river_datasets, class_name)())
    if not shuffled:
        return stream.first(max_rows)
    order = np.random.default_rng(0).permutation(len(stream.y))[:max_rows]
    return _reordered(stream, order)


def _of_dicts(pairs: Iterable[tuple[dict[str, Any], Any]]) -> Stream:
    rows, labels = zip(*pairs, strict=True)
    columns = [np.array([row[name] for row in rows]) for name in rows[0]]
    return _stream(columns, np.array(labels))


def _in_turn(class_name: str, options: Sequence[dict[str, Any]], max_rows: int) -> Stream:
    """Return as many concepts of a generator as there are options, each for an equal time."""
    n_rows = -(-MAX_ROWS // len(options))  # of a concept; does not depend on `max_rows`
    pairs: list[tuple[dict[str, Any], Any]] = []
    for concept in options:
        pairs += islice(_generator(class_name, **concept), n_rows)
    return _of_dicts(pairs[:max_rows])


def _generated(class_name: str, options: dict[str, Any], max_rows: int) -> Stream:
    """Return a generator that drifts by itself."""
    return _of_dicts(islice(_generator(class_name, **options), max_rows))


def _generator(class_name: str, **options: Any) -> Any:
    from river.datasets import synth  # noqa: PLC0415  # an optional dependency

    return iter(getattr(synth, class_name)(**options))


def _gradual(width: int, max_rows: int) -> Stream:
    """Return Agrawal's functions 0, 3 and 6, with sigmoid changes of the given width."""
    from river.datasets import synth  # noqa: PLC0415  # an optional dependency

    first, second, third = (synth.Agrawal(classification_function=k, seed=k + 1) for k in (0, 3, 6))
    distance = MAX_ROWS // 3
    later = synth.ConceptDriftStream(second, third, seed=2, position=distance, width=width)
    whole = synth.ConceptDriftStream(first, later, seed=1, position=distance, width=width)
    return _of_dicts(islice(iter(whole), max_rows))


def _rotating(drift: str, max_rows: int) -> Stream:
    X, y = datasets.make_drift(MAX_ROWS, drift=drift, n_features=10, random_state=1)
    return _stream(list(X.T), y).first(max_rows)


def flipped(max_rows: int, seed: int = 0, n_features: int = 20, distance: float = 2.0) -> Stream:
    """Return two Gaussians whose labels are exchanged half-way."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=max_rows)
    X = rng.standard_normal((max_rows, n_features))
    X[:, :5] += distance / np.sqrt(5) * (2 * y[:, None] - 1)
    y[max_rows // 2 :] = 1 - y[max_rows // 2 :]
    return replace(_stream(list(X.T), y), name="flipped")


def _each(key: str, values: Iterable[Any], **others: Any) -> list[dict[str, Any]]:
    return [{key: value, "seed": seed, **others} for seed, value in enumerate(values, 1)]


def _drift(make: Callable[[int], Stream], about: str) -> Spec:
    return Spec(make, DRIFT, True, about)


_HYPERPLANE = {"n_features": 10, "n_drift_features": 5, "mag_change": 0.003, "seed": 1}
_RBF = {"seed_model": 1, "seed_sample": 1, "n_centroids": 50, "n_drift_centroids": 50}
_RBF_SLOW = _RBF | {"n_features": 10, "n_classes": 2, "change_speed": 0.0001}
_RBF_FAST = _RBF | {"n_features": 10, "n_classes": 5, "change_speed": 0.001}
_LED = {"noise_percentage": 0.1, "irrelevant_features": True}

STREAMS: dict[str, Spec] = {
    **{
        name: Spec(partial(_paper, name), PAPER, False, "the paper's data set, shuffled")
        for name in datasets.NAMES
    },
    "phishing": Spec(partial(_bundled, "Phishing", False), RIVER, False, "river's file"),
    "segments": Spec(partial(_bundled, "ImageSegments", False), RIVER, False, "river's file"),
    "bananas": Spec(partial(_bundled, "Bananas", False), RIVER, False, "river's file"),
    "shuttle": Spec(partial(_bundled, "Shuttle", True), RIVER, False, "river's file, shuffled"),
    "agrawal_drift": _drift(
        partial(_in_turn, "Agrawal", _each("classification_function", (0, 3, 6, 2))),
        "Agrawal, functions 0, 3, 6, 2 in turn",
    ),
    "agrawal_gradual": _drift(
        partial(_gradual, 2_000), "Agrawal, functions 0, 3, 6, each change over 2,000 rows"
    ),
    "hyperplane": _drift(
        partial(_generated, "Hyperplane", _HYPERPLANE), "hyperplane, 5 of 10 features drift"
    ),
    "rbf_slow": _drift(
        partial(_generated, "RandomRBFDrift", _RBF_SLOW), "50 centroids move slowly, 2 classes"
    ),
    "rbf_fast": _drift(
        partial(_generated, "RandomRBFDrift", _RBF_FAST), "50 centroids move fast, 5 classes"
    ),
    "led": _drift(
        partial(_generated, "LEDDrift", _LED | {"n_drift_features": 7, "seed": 1}),
        "river's LEDDrift: digits with 10 % noise, 17 features of noise, no change in time",
    ),
    "led_drift": _drift(
        partial(_in_turn, "LEDDrift", _each("n_drift_features", (1, 3, 5, 7), **_LED)),
        "the same with 1, 3, 5, 7 features exchanged in turn",
    ),
    "sea_drift": _drift(
        partial(_in_turn, "SEA", _each("variant", (0, 2, 1, 3), noise=0.1)),
        "SEA, variants 0, 2, 1, 3 in turn, 10 % noise",
    ),
    "sine_drift": _drift(
        partial(_in_turn, "Sine", _each("classification_function", (0, 1, 2, 3), has_noise=True)),
        "sine, functions 0, 1, 2, 3 in turn (labels exchange), two features of noise",
    ),
    "mixed_drift": _drift(
        partial(_in_turn, "Mixed", _each("classification_function", (0, 1, 0, 1))),
        "mixed, labels exchange three times",
    ),
    "stagger_drift": _drift(
        partial(_in_turn, "STAGGER", _each("classification_function", (0, 1, 2))),
        "STAGGER, functions 0, 1, 2 in turn",
    ),
    "tree_drift": _drift(
        partial(
            _in_turn,
            "RandomTree",
            [
                {"seed_tree": seed, "seed_sample": seed, "n_classes": 3, "n_num_features": 5}
                for seed in (1, 2, 3)
            ],
        ),
        "three random trees in turn",
    ),
    "rotation": _drift(partial(_rotating, "abrupt"), "a direction rotates by 90° three times"),
    "rotation_gradual": _drift(partial(_rotating, "gradual"), "a direction rotates steadily"),
    **{
        name: Spec(partial(_file, name), FILE, has_drift, about)
        for name, has_drift, about in (
            ("agrg", False, "file"),
            ("gmsc", False, "credit scoring"),
            ("ledg", True, "digits; the noise changes"),
            ("powersupply", True, "hour of the day from the power of two grids"),
            ("rbfr", False, "file"),
            ("rtg", False, "file"),
            ("usenet1", True, "a reader's interests, which change every 300 rows"),
            ("usenet2", True, "a reader's interests, which change every 300 rows"),
        )
    },
}
"""All streams by name."""

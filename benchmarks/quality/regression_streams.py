"""The streams with numeric targets: files, Friedman's functions, and the sets that river contains.

>>> stream = load_regression_stream("friedman1", 1000)  # doctest: +SKIP
>>> stream.X.shape  # doctest: +SKIP
(1000, 10)
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.streams import (
    DRIFT,
    FILE,
    MAX_ROWS,
    RIVER,
    Floats,
    encode,
    read_columns,
    stream_path,
)

FRIEDMAN = "Friedman"
FILES = ("bike", "elevators", "ailerons", "abalone")
PERMUTED = "permuted"
NOISE = {1: 1.0, 2: 37.5, 3: 0.0315}
"""The standard deviation of the noise; a tenth of that of y for the functions 2 and 3."""

_SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, eq=False)
class RegressionStream:
    """Rows in the order in which they are predicted and learned; the features are unscaled."""

    name: str
    X: Floats
    y: Floats

    def first(self, n_rows: int) -> "RegressionStream":
        """Return the beginning of the stream."""
        return replace(self, X=self.X[:n_rows], y=self.y[:n_rows])


@dataclass(frozen=True)
class RegressionSpec:
    """How a stream is made, and what is known about it."""

    make: Callable[[int], RegressionStream] = field(repr=False)
    group: str
    about: str

    @property
    def has_target(self) -> bool:
        """Whether the project's targets are for this stream, too; the others are only shown."""
        return self.group != DRIFT


def load_regression_stream(
    name: str, max_rows: int = MAX_ROWS, variant: str = "", seed: int = 0
) -> RegressionStream:
    """Return the first rows of a stream, always the same; perhaps with y permuted.

    Raises
    ------
    FileNotFoundError
        If the stream is a file that does not exist.
    """
    stream = replace(REGRESSION_STREAMS[name].make(max_rows).first(max_rows), name=name)
    return permuted(stream, seed) if variant == PERMUTED else stream


def available_regression_streams(names: Iterable[str]) -> list[str]:
    """Return those of the streams whose files exist."""
    return [
        name
        for name in names
        if REGRESSION_STREAMS[name].group != FILE or stream_path(name).exists()
    ]


def permuted(stream: RegressionStream, seed: int) -> RegressionStream:
    """Return the stream with y in a random order, so that the features say nothing about it."""
    return replace(stream, y=np.random.default_rng(seed).permutation(stream.y))


def friedman(function: int, n_features: int, n_rows: int, seed: int = 0) -> RegressionStream:
    """Return one of Friedman's three functions with normal noise; other features are uniform."""
    X = np.random.default_rng((seed, 0)).random((n_rows, n_features))
    if function > 1:
        X[:, :4] = _LOW + (_HIGH - _LOW) * X[:, :4]
    noise = NOISE[function] * np.random.default_rng((seed, 1)).standard_normal(n_rows)
    return RegressionStream("", X, _FUNCTIONS[function](X) + noise)


_LOW = np.array([0.0, 40 * np.pi, 0.0, 1.0])
_HIGH = np.array([100.0, 560 * np.pi, 1.0, 11.0])


def _first_function(X: Floats) -> Floats:
    a, b, c, d, e = X.T[:5]
    result: Floats = 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e
    return result


def _sides(X: Floats) -> tuple[Floats, Floats]:
    """Return the two sides whose hypotenuse, or angle, is the function 2, or 3."""
    a, b, c, d = X.T[:4]
    return a, b * c - 1 / (b * d)


_FUNCTIONS: dict[int, Callable[[Floats], Floats]] = {
    1: _first_function,
    2: lambda X: np.hypot(*_sides(X)),
    3: lambda X: np.arctan2(*_sides(X)[::-1]),
}


def friedman_with_change(n_rows: int, seed: int = 0) -> RegressionStream:
    """Return Friedman's first function; half-way the five other features take over the roles."""
    stream = friedman(1, 10, n_rows, seed)
    X = stream.X.copy()
    X[n_rows // 2 :] = np.roll(X[n_rows // 2 :], 5, axis=1)
    return RegressionStream("friedman_drift", X, stream.y)


def _file(name: str, max_rows: int) -> RegressionStream:
    columns, labels = read_columns(name)
    return _stream(columns, labels.astype(np.float64)).first(max_rows)


def _bundled(class_name: str, max_rows: int) -> RegressionStream:
    """Return a data set that river contains; times become days."""
    from river import datasets as river_datasets  # noqa: PLC0415  # an optional dependency

    rows, labels = zip(*getattr(river_datasets, class_name)(), strict=True)
    columns = [np.array([_number(row[name]) for row in rows]) for name in rows[0]]
    return _stream(columns, np.array(labels, dtype=np.float64)).first(max_rows)


def _number(value: Any) -> Any:
    return value.timestamp() / _SECONDS_PER_DAY if isinstance(value, datetime) else value


def _stream(columns: list[NDArray[Any]], y: Floats) -> RegressionStream:
    X, _, _ = encode(columns)
    return RegressionStream("", X, y)


def _about(function: int, n_features: int) -> str:
    n_used = 5 if function == 1 else 4
    return f"Friedman's function {function}; {n_features - n_used} of {n_features} features unused"


REGRESSION_STREAMS: dict[str, RegressionSpec] = {
    **{
        name: RegressionSpec(partial(_file, name), FILE, about)
        for name, about in zip(
            FILES,
            (
                "bicycles rented in an hour, two years in order",
                "control of an aircraft's elevators",
                "control of an aircraft's ailerons",
                "age of abalones",
            ),
            strict=True,
        )
    },
    **{
        f"friedman{k}" + ("" if d == 10 else f"_{d}"): RegressionSpec(
            partial(friedman, k, d), FRIEDMAN, _about(k, d)
        )
        for d in (10, 50)
        for k in (1, 2, 3)
    },
    **{
        name: RegressionSpec(partial(_bundled, class_name), RIVER, about)
        for name, class_name, about in (
            ("trump_approval", "TrumpApproval", "a president's approval, from five polls"),
            ("chick_weights", "ChickWeights", "weight of chicks, from age, diet and number"),
            ("sp500", "SP500Stocks", "return of the S&P 500, from ten stocks"),
            ("water_flow", "WaterFlow", "flow of water in each hour, from the time alone"),
            ("airline", "AirlinePassengers", "passengers in each month, from the time alone"),
        )
    },
    "friedman_drift": RegressionSpec(
        lambda max_rows: friedman_with_change(MAX_ROWS).first(max_rows),
        DRIFT,
        f"friedman1; after {MAX_ROWS // 2:,} rows the other five features take over",
    ),
}
"""All streams with numeric targets by name."""

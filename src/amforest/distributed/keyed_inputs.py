"""Validation of X, keys and labels of many keys together, before any model learns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.utils import check_array, column_or_1d

from amforest._forest.class_labels import distinct_labels
from amforest._forest.data_frames import as_frame
from amforest._forest.given_labels import as_labels
from amforest._forest.input_errors import argument_named, refuse_times
from amforest._forest.inputs import (
    CONVERSION,
    as_objects,
    as_rows,
    check_magnitudes,
    holds_any,
    is_plain,
    validate,
)
from amforest.distributed.key_rows import validate_keys
from amforest.distributed.keyed_state import KeyedState
from amforest.distributed.segment_store import Key
from amforest.evaluation.blocks import as_label_array


class Given(NamedTuple):
    """A validated X: its keys, its features, and the names of these if X is a frame.

    The features are an array of float32, where no column holds categories: each model would take
    longer to convert a frame than to learn its rows.
    """

    keys: list[Key]
    rows: Any
    names: list[str] | None


def read_features(estimator: Any, X: Any, keys: Any, state: KeyedState) -> Given:
    """Validate X and its keys.

    Parameters
    ----------
    estimator : estimator
        Its parameter `categorical_features` names the columns that hold categories.
    X : array-like, data frame or sparse matrix
    keys : array-like or None
        None means that X is a frame with a column of keys.
    state : KeyedState
        The features and the column of keys so far.
    """
    source, names = "keys", None
    if (frame := as_frame(X)) is not None:
        if keys is None:
            keys, frame, source = *_split_frame(frame, state.key), f"X's column {state.key!r}"
        names = list(frame.columns)
        if state.names is not None and state.names != names:
            _check_names(names, state.names)
            frame, names = frame.select(state.names), state.names
        native = frame.to_native()
        with argument_named("X"):
            schema, table, _ = validate(estimator, native)
        is_plain_table = schema.columns is None and not table.categories
        rows: Any = table.numbers if is_plain_table else native
    elif keys is None:
        raise ValueError(
            f"keys is None; X is a {type(X).__name__}, which has no column {state.key!r}: give the "
            "key of each row as keys, or a data frame"
        )
    else:
        rows = _read_array(estimator, X)
    valid = validate_keys(keys, source)
    if len(valid) != rows.shape[0]:
        raise ValueError(f"keys has {len(valid)} entries; X has {rows.shape[0]} rows")
    check_width(rows.shape[1], state.n_features)
    if isinstance(rows, np.ndarray) and rows.dtype == np.float32:
        check_magnitudes(rows)
    return Given(valid, rows, names)


def read_labels(estimator: Any, y: Any, n_rows: int, classes: NDArray[Any] | None) -> NDArray[Any]:
    """Validate labels; `classes` are those so far."""
    labels: NDArray[Any]
    if is_classifier(estimator):
        labels = column_or_1d(as_label_array(y))
        known = [] if classes is None else classes.tolist()[:1]
        distinct = [*known, *distinct_labels(labels)[0].tolist()]
        if len({isinstance(label, str) for label in distinct}) > 1:
            raise TypeError(
                f"y mixes text and numbers, such as {distinct[0]!r} and {distinct[-1]!r}; the "
                "labels of all keys must be of one kind"
            )
    else:
        y = as_labels(y)
        refuse_times(y, "y")
        with argument_named("y"):
            labels = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        labels = column_or_1d(labels)
    if len(labels) != n_rows:
        raise ValueError(f"y has {len(labels)} labels; X has {n_rows} rows")
    return labels


def check_width(n_features: int, expected: int | None) -> None:
    """Refuse another number of features than before."""
    if expected is not None and n_features != expected:
        raise ValueError(f"X has {n_features} features; the models have {expected}")


def _split_frame(frame: Any, key: str) -> tuple[list[Any], Any]:
    if key not in frame.columns:
        raise ValueError(
            f"key is {key!r}, but X has no such column; it has "
            f"{', '.join(map(repr, frame.columns[:20]))}. Give keys, or another key"
        )
    return frame[key].to_list(), frame.drop(key)


def _read_array(estimator: Any, X: Any) -> Any:
    if issparse(X):
        return X.tocsr()
    if holds_any(X, estimator.categorical_features):
        return as_objects(X)
    if is_plain(X, 2) and X.size:
        return as_rows(X)
    with argument_named("X"):
        return check_array(X, input_name="X", **CONVERSION)


def _check_names(given: list[str], expected: list[str]) -> None:
    """Refuse other columns than those before; their order does not matter."""
    missing, more = sorted(set(expected) - set(given)), sorted(set(given) - set(expected))
    if missing or more:
        raise ValueError(
            f"X has other columns than before: {missing or 'none'} missing, {more or 'none'} "
            f"unexpected; the features are {expected}"
        )

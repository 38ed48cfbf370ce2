"""The paper's ten UCI data sets (Table 3).

A table describes the file of each data set; one function loads them all.
"""

import io
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest.datasets.download import find_file

__all__ = ["NAMES", "Dataset", "load"]

MAX_BYTES = 1 << 26  # of an unpacked file: more than twice the largest


@dataclass(frozen=True, eq=False)
class Dataset:
    """A classification data set.

    Attributes
    ----------
    name : str
        The paper's name for it.
    X : ndarray of shape (n_samples, n_features)
        The features, C-contiguous, rows in the file's order: float32, in [0, 1] or the codes of
        categories. If raw, the values of the file: float64, or objects if some are strings.
    y : ndarray of shape (n_samples,), int64
        The class of each row, as an index into `classes`.
    classes : tuple of str
        The labels, as in the file.
    feature_names : tuple of str
        One name per column of `X`; the name of a one-hot column is ``column=category``.
    categories : tuple of tuple of str
        For each column of `X` its categories, in the order of their codes; empty if it is numeric.
    """

    name: str
    X: NDArray[Any]
    y: NDArray[np.int64]
    classes: tuple[str, ...]
    feature_names: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]

    @property
    def categorical_features(self) -> list[int]:
        """The categorical columns of `X`, for the estimators' parameter of this name."""
        return [j for j, levels in enumerate(self.categories) if levels]


@dataclass(frozen=True)
class _Spec:
    """How to read one file; columns not listed are numeric."""

    target: str = "y"
    categorical: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # names, if the file has no header
    separator: str = ","
    decimal: str = "."
    stem: str = ""  # of the file name, if it is not the name of the data set


def _numbered(n_features: int) -> tuple[str, ...]:
    """Return the names X0, X1, ... and y, for a file without a header."""
    return (*(f"X{j}" for j in range(n_features)), "y")


# The numbers of features of Table 3 follow from one rule: strings are one-hot with every category
# kept, and integer codes stay numeric: bank's `day`, cardio's `Tendency`, churn's `Area Code` and
# all of default_cb.
_SPECS = {
    # "?" is a category of its own. The file lacks UCI's education-num, a code of `education`.
    "adult": _Spec(
        target="income",
        categorical=(
            *("workclass", "education", "marital-status", "occupation"),
            *("relationship", "race", "sex", "native-country"),
        ),
        columns=(
            *("age", "workclass", "fnlwgt", "education", "marital-status", "occupation"),
            *("relationship", "race", "sex", "capital-gain", "capital-loss"),
            *("hours-per-week", "native-country", "income"),
        ),
    ),
    "bank": _Spec(
        categorical=(
            *("job", "marital", "education", "default", "housing", "loan"),
            *("contact", "month", "poutcome"),
        ),
    ),
    "car": _Spec(
        target="class",
        categorical=("buying", "maint", "doors", "persons", "lug_boot", "safety"),
        columns=("buying", "maint", "doors", "persons", "lug_boot", "safety", "class"),
    ),
    # Dropped: identifiers; DR, which is always 0; and A to CLASS, the experts' ten-class diagnosis,
    # which determines the target in 98 % of the rows.
    "cardio": _Spec(
        stem="cardiotocography",
        target="NSP",
        dropped=(
            *("FileName", "Date", "SegFile", "DR"),
            *("A", "B", "C", "D", "E", "AD", "DE", "LD", "FS", "SUSP", "CLASS"),
        ),
        separator=";",
        decimal=",",
    ),
    "churn": _Spec(
        target="Churn?",
        categorical=("State", "Int'l Plan", "VMail Plan"),
        dropped=("Phone",),
    ),
    "default_cb": _Spec(target="default payment next month", dropped=("ID",)),
    # The column without a name is the row's number.
    "letter": _Spec(dropped=("",)),
    "satimage": _Spec(dropped=("",)),
    "sensorless": _Spec(columns=_numbered(48), separator=" "),
    "spambase": _Spec(columns=_numbered(57)),
}

NAMES: tuple[str, ...] = tuple(_SPECS)
"""The names that `load` accepts, in alphabetical order."""


def load(
    name: str,
    *,
    one_hot: bool = True,
    raw: bool = False,
    folder: str | os.PathLike[str] | None = None,
    download: bool = True,
) -> Dataset:
    """Load a data set, preprocessed as in the paper.

    Categorical columns are one-hot, and every column is min-max scaled over the whole file; a
    constant column becomes 0. Shuffle before streaming: spambase and sensorless are sorted by
    class.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    one_hot : bool, default=True
        If False, a categorical column stays one column, of the codes of its categories.
    raw : bool, default=False
        If True, nothing is scaled or encoded, whatever `one_hot` is: categories are strings, and
        numbers are those of the file.
    folder : path-like, optional
        The folder of the zipped CSV files; by default the value of the environment variable
        AMFOREST_DATA, else the cache.
    download : bool, default=True
        Whether to download a file that the cache does not have; see `fetch`.

    Returns
    -------
    Dataset
        Features, class indices, and the names of both.

    Raises
    ------
    ValueError
        If the name is unknown, or the file is damaged.
    FileNotFoundError
        If the folder or the file does not exist, or cannot be downloaded.

    Examples
    --------
    >>> from amforest import datasets
    >>> datasets.NAMES[:3]
    ('adult', 'bank', 'car')
    >>> datasets.load("car", folder="nowhere")
    Traceback (most recent call last):
        ...
    FileNotFoundError: nowhere does not exist; set AMFOREST_DATA to a folder that holds car.csv.zip
    """
    check_name(name, "data set", NAMES)
    spec = _SPECS[name]
    table = _read(find_file(spec.stem or name, folder, download=download), spec)
    classes, y = _encode(table.pop(spec.target))
    columns = [
        column
        for name_in_file, values in table.items()
        for column in _columns(name_in_file, values, name_in_file in spec.categorical, one_hot, raw)
    ]
    X = np.ascontiguousarray(np.stack([column.values for column in columns], axis=1))
    feature_names = tuple(column.name for column in columns)
    categories = tuple(column.levels for column in columns)
    return Dataset(name, X, y, classes, feature_names, categories)


def check_name(name: str, what: str, names: Iterable[str]) -> None:
    """Raise ValueError if a name is not one of those expected."""
    if name not in names:
        raise ValueError(f"unknown {what} {name!r}; expected one of {', '.join(names)}")


@dataclass(frozen=True, eq=False)
class _Column:
    """A column of X."""

    name: str
    values: NDArray[Any]
    levels: tuple[str, ...] = ()


def _columns(
    name: str, values: NDArray[Any], is_categorical: bool, one_hot: bool, raw: bool
) -> Iterator[_Column]:
    """Yield the columns of X for a column of the file."""
    if not is_categorical:
        yield _Column(name, values if raw else _min_max(values))
        return
    levels, codes = _encode(values)
    if raw:
        yield _Column(name, np.array(levels, dtype=object)[codes], levels)
        return
    if not one_hot:
        yield _Column(name, codes.astype(np.float32), levels)
        return
    for k, level in enumerate(levels):
        yield _Column(f"{name}={level}", _min_max(codes == k))


def _read(path: Path, spec: _Spec) -> dict[str, NDArray[Any]]:
    """Return the columns by name: categories and the target as str objects, the rest as numbers."""
    lines = io.StringIO(_unzip(path).decode().replace(spec.decimal, "."))
    names = spec.columns or next(lines).strip().split(spec.separator)
    kept = [j for j, name in enumerate(names) if name not in spec.dropped]
    strings = {*spec.categorical, spec.target}
    dtype = np.dtype([(names[j], "O" if names[j] in strings else "f8") for j in kept])
    table = np.loadtxt(
        lines, dtype=dtype, comments=None, delimiter=spec.separator, usecols=kept, ndmin=1
    )
    return {names[j]: table[names[j]] for j in kept}


def _unzip(path: Path) -> bytes:
    """Return the content of the CSV file of an archive; do not trust the size that it states."""
    try:
        # By its name: the archives also contain a macOS resource file.
        with zipfile.ZipFile(path) as archive, archive.open(path.stem) as file:
            content = file.read(MAX_BYTES + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError) as error:
        raise ValueError(f"{path} is not an archive that contains {path.stem} ({error})") from error
    if len(content) > MAX_BYTES:
        raise ValueError(f"{path} unpacks to more than {MAX_BYTES:,} bytes")
    return content


def _encode(column: NDArray[np.object_]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the sorted categories and each value's code; numbers sort as numbers: 2 before 10."""
    values = [value.strip() for value in column]  # adult has a blank after each comma
    distinct = set(values)
    try:
        levels = sorted(distinct, key=float)
    except ValueError:
        levels = sorted(distinct)
    index = {level: i for i, level in enumerate(levels)}
    return tuple(levels), np.array([index[value] for value in values], dtype=np.int64)


def _min_max(values: NDArray[Any]) -> NDArray[np.float32]:
    """Scale a column to [0, 1]; a constant one becomes 0."""
    x = values.astype(np.float64)
    span = x.max() - x.min()
    scaled: NDArray[np.float32] = ((x - x.min()) / (span or 1.0)).astype(np.float32)
    return scaled

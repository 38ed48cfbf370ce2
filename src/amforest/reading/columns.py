"""What the columns hold: told by the user or the file, or found from the first rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from amforest.reading._arrow import Array, pa, pc
from amforest.reading.batches import VALUE_LENGTH, shortened
from amforest.reading.dates import days, times, why_no_date, within_calendar
from amforest.reading.names import StreamError, nearest
from amforest.reading.values import (
    Converted,
    Mask,
    bools,
    categories,
    known,
    numbers,
    why_no_number,
    within_limits,
)

KINDS = ("number", "category", "bool", "date", "datetime")
FITTING = 0.9  # of the values that are looked at must be of a kind

_FROM_TEXT: dict[str, Callable[[Array], Converted]] = {
    "number": numbers,
    "category": categories,
    "bool": bools,
    "date": days,
    "datetime": times,
}


@dataclass(frozen=True)
class Column:
    """A column of a stream.

    Attributes
    ----------
    name : str
    kind : str
        "number", "category", "bool", "date" (days) or "datetime" (days with a time).
    n_distinct : int
        How many different values were among the first rows.
    n_known : int
        How many of these rows had a value.
    whole : bool
        Whether it holds numbers, and those were whole.
    """

    name: str
    kind: str
    n_distinct: int = 0
    n_known: int = 0
    whole: bool = False

    def convert(self, values: Array) -> Converted:
        """Turn text, or what a file has for this kind, into the column's type; mark what cannot."""
        if pa.types.is_string(values.type):
            return _FROM_TEXT[self.kind](values)
        if self.kind == "number":
            return within_limits(values)
        if self.kind in ("date", "datetime"):
            return within_calendar(values)
        return values, None

    def why_not(self, value: str) -> str:
        """Say why a value does not fit."""
        if self.kind == "number":
            why = why_no_number(value)
        elif self.kind == "bool":
            why = "is neither true nor false"
        else:
            why = why_no_date(value, self.kind)
        return f"column {self.name!r}: {shortened(value, VALUE_LENGTH)!r} {why}"


def parse_types(text: str) -> dict[str, str]:
    """Read the kinds of columns from a command line.

    Parameters
    ----------
    text : str
        Such as ``"age=number,zip=category"``.

    Returns
    -------
    dict
        The kind of each column that is named.

    Raises
    ------
    StreamError
        If it is of another form, or a kind is unknown.

    Examples
    --------
    >>> parse_types("age=number, zip=category")
    {'age': 'number', 'zip': 'category'}
    >>> parse_types("age=nubmer")
    Traceback (most recent call last):
    amforest.reading.names.StreamError: no kind 'nubmer' for column 'age'; did you mean 'number'?
    """
    types: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, kind = (piece.strip() for piece in part.rpartition("="))
        if not (equals and name and kind):
            raise StreamError(f"types: {part!r} should be name=kind, such as age=number")
        if name in types:
            raise StreamError(f"types: {name!r} is named twice")
        types[name] = kind
    check_kinds(types)
    return types


def check_kinds(types: Mapping[str, str]) -> None:
    """Refuse kinds that do not exist."""
    for name, kind in types.items():
        if kind not in KINDS:
            raise StreamError(f"no kind {kind!r} for column {name!r}; {nearest(kind, KINDS)}")


def describe(name: str, kind: str, values: Array) -> Column:
    """Return a column whose kind is known, with what its first rows tell."""
    converted, _ = Column(name, kind).convert(values)
    converted = converted.drop_null()
    whole = kind == "number" and bool(pc.all(pc.equal(pc.trunc(converted), converted)).as_py())
    n_distinct = pc.count_distinct(
        converted.dictionary_decode() if kind == "category" else converted
    )
    return Column(name, kind, n_distinct.as_py(), len(converted), whole and len(converted) > 0)


def found(
    name: str, text: Array, wish: str | None = None, is_quoted: Mask | None = None
) -> tuple[Column, str | None]:
    """Find the kind of a column from the text of its first rows.

    Parameters
    ----------
    name : str
    text : pyarrow.StringArray
    wish : str or None
        The kind that the user wants. A date may turn out to have a time.
    is_quoted : ndarray of bool or None
        Which values were said to be text, and are neither numbers nor bools.

    Returns
    -------
    column : Column
    note : str or None
        What the user should know of it.
    """
    text = known(text)
    if wish is not None:
        kind = _with_time(text) if wish == "date" else wish
        return describe(name, kind, text), None
    n_known = len(text) - text.null_count
    if not n_known:
        note = f"column {name!r} has no value in the first rows: taken as number"
        return Column(name, "number"), note if len(text) else None
    unquoted = text if is_quoted is None else pc.if_else(pa.array(is_quoted), None, text)
    kind, share = _best_kind(text, unquoted, n_known)
    if share < FITTING:
        note = f"column {name!r}: {share:.0%} of the first values are of the kind {kind}; "
        note += "taken as category"
        return describe(name, "category", text), note if share >= 0.5 else None
    note = f"column {name!r} is taken as {kind}, but {1 - share:.1%} of the first values are not"
    return describe(name, kind, text), note if share < 1 else None


def _best_kind(text: Array, unquoted: Array, n_known: int) -> tuple[str, float]:
    """Return the kind that most values are of, other than categories; and their share."""
    best = ("", 0.0)
    for kind, convert, values in (
        ("number", numbers, unquoted),
        ("bool", bools, unquoted),
        ("date", times, text),
    ):
        share = _n_fitting(convert, values) / n_known
        if share >= FITTING:
            return _with_time(text) if kind == "date" else kind, share
        best = max(best, (kind, share), key=lambda pair: pair[1])
    return best


def _with_time(text: Array) -> str:
    """Tell whether dates have times of day."""
    return "datetime" if _n_fitting(times, text) > _n_fitting(days, text) else "date"


def _n_fitting(convert: Callable[[Array], Converted], text: Array) -> int:
    values, _ = convert(text)  # null where it does not fit
    return len(values) - int(values.null_count)

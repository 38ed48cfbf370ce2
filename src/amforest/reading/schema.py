"""Columns and their kinds: requested by the user, given by the file, or inferred from its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from amforest.reading.conversion import (
    FITTING,
    Converted,
    Mask,
    encode_categories,
    explain_date,
    explain_number,
    find_ambiguous_date,
    find_formatted_number,
    parse_bools,
    parse_days,
    parse_numbers,
    parse_times,
    reject_large,
    reject_outside_calendar,
    strip_missing,
)
from amforest.reading.sources import StreamError, shorten, suggest

KINDS = ("number", "category", "bool", "date", "datetime")
"""The kinds of columns, for the parameter `types`."""

SAMPLE_ROWS = 1_000  # from which kinds are inferred

_VALUE_LENGTH = 40  # of a value in a message
_PARSERS: dict[str, Callable[[pa.Array], Converted]] = {
    "number": parse_numbers,
    "category": encode_categories,
    "bool": parse_bools,
    "date": parse_days,
    "datetime": parse_times,
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
        The number of distinct values among the first rows.
    n_known : int
        The number of these rows that have a value.
    is_whole : bool
        Whether it holds numbers, and those of the first rows are integers.
    doubt : str or None
        Why its kind may be another one, for the user.
    """

    name: str
    kind: str
    n_distinct: int = 0
    n_known: int = 0
    is_whole: bool = False
    doubt: str | None = None

    def convert(self, values: pa.Array) -> Converted:
        """Convert text, or the file's type for this kind, to the column's type; mark misfits."""
        if pa.types.is_string(values.type):
            return _PARSERS[self.kind](values)
        if self.kind == "number":
            return reject_large(values)
        if self.kind in ("date", "datetime"):
            return reject_outside_calendar(values)
        return values, None

    def explain(self, value: str) -> tuple[str, str]:
        """Explain why a value does not fit; with the value, and without it."""
        if self.kind == "number":
            reason = explain_number(value)
        elif self.kind == "bool":
            reason = "is neither true nor false"
        else:
            reason = explain_date(value, self.kind)
        start = f"column {self.name!r}: "
        return f"{start}{shorten(value, _VALUE_LENGTH)!r} {reason}", f"{start}a value {reason}"


def parse_types(text: str) -> dict[str, str]:
    """Parse the kinds of columns as given on a command line.

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
        If the text has another form, or a kind is unknown.

    Examples
    --------
    >>> parse_types("age=number, zip=category")
    {'age': 'number', 'zip': 'category'}
    >>> parse_types("age=nubmer")
    Traceback (most recent call last):
        ...
    amforest.reading.sources.StreamError: column 'age': no kind 'nubmer'; did you mean 'number'?
    """
    types: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, kind = (piece.strip() for piece in part.rpartition("="))
        if not (equals and name and kind):
            raise StreamError(f"types: {part!r} must have the form name=kind, such as age=number")
        if name in types:
            raise StreamError(f"types: {name!r} is given twice")
        types[name] = kind
    check_kinds(types)
    return types


def check_kinds(types: Mapping[str, str]) -> None:
    """Raise `StreamError` if a kind does not exist."""
    for name, kind in types.items():
        if kind not in KINDS:
            raise StreamError(f"column {name!r}: no kind {kind!r}; {suggest(kind, KINDS)}")


def check_unique(names: Iterable[str], file: str) -> None:
    """Raise `StreamError` if a column name occurs more than once."""
    for name, count in Counter(names).items():
        if count > 1:
            raise StreamError(f"{file} has several columns {name!r}")


def check_column(name: str, names: Sequence[str], where: str = "") -> None:
    """Raise `StreamError` if a column is not there: "no column 'targt'; did you mean …?"."""
    if name not in names:
        raise StreamError(f"no column {name!r}{where}; {suggest(name, names)}")


def select_columns(
    names: Sequence[str],
    columns: Sequence[str] | None,
    drop: Sequence[str] | None,
    target: str | None,
) -> list[str]:
    """Return the columns to read, in the file's order.

    Raises
    ------
    StreamError
        If one of the names does not exist, or no column remains.
    """
    for name in (*(columns or ()), *(drop or ()), *((target,) if target is not None else ())):
        check_column(name, names)
    if target is not None and target in (drop or ()):
        raise StreamError(f"column {target!r} is the target and cannot be dropped")
    selected = [
        name
        for name in names
        if name == target or ((columns is None or name in columns) and name not in (drop or ()))
    ]
    if not selected:
        raise StreamError("no column remains to be read; select or keep at least one")
    return selected


def describe_column(name: str, kind: str, values: pa.Array, doubt: str | None = None) -> Column:
    """Return a column of a given kind, with the counts of its first rows."""
    converted, _ = Column(name, kind).convert(values)
    converted = converted.drop_null()
    is_whole = kind == "number" and len(converted) > 0
    if is_whole:
        is_whole = pc.all(pc.equal(pc.trunc(converted), converted)).as_py()
    decoded = converted.dictionary_decode() if kind == "category" else converted
    n_distinct = pc.count_distinct(decoded).as_py()
    return Column(name, kind, n_distinct, len(converted), is_whole, doubt)


def infer_column(
    name: str, text: pa.Array, requested: str | None = None, is_quoted: Mask | None = None
) -> Column:
    """Infer the kind of a column from the text of its first rows.

    Parameters
    ----------
    name : str
    text : pyarrow.StringArray
    requested : str or None
        The kind that the user requests. A date with times becomes a datetime.
    is_quoted : ndarray of bool or None
        Which values are strings in JSON, hence neither numbers nor bools.
    """
    text = strip_missing(text)
    if requested is not None:
        kind = _date_kind(text) if requested == "date" else requested
        return describe_column(name, kind, text)
    n_known = len(text) - text.null_count
    if not n_known:
        return Column(name, "number", doubt=_doubt_without_values(name) if len(text) else None)
    unquoted = text if is_quoted is None else pc.if_else(pa.array(is_quoted), None, text)
    kind, fraction = _best_kind(text, unquoted, n_known)
    if fraction < FITTING:
        misfit = _first_misfit(kind, text, unquoted) if fraction >= 0.5 else ""
        doubt = _doubt_about_category(name, kind, fraction, misfit, text)
        return describe_column(name, "category", text, doubt)
    doubt = None
    if fraction < 1:
        misfit = _first_misfit(kind, text, unquoted)
        doubt = (
            f"column {name!r} is read as {kind}, and rows are rejected whose value is none, such "
            f"as {misfit!r} ({1 - fraction:.1%} of the first values); --types "
            f"{name}=category keeps them"
        )
    return describe_column(name, kind, text, doubt)


def _doubt_without_values(name: str) -> str:
    """Return the doubt about a column without any value to infer its kind from."""
    return (
        f"column {name!r} has no value in the first rows: read as number; --types {name}=category "
        "reads text"
    )


def sample_values(parts: Iterable[pa.Array]) -> pa.Array:
    """Return the text of as many rows as a sample has, from the first one with a value on."""
    sample = pa.array([], pa.string())
    for part in parts:
        text = strip_missing(part)
        first = 0 if len(sample) else pc.index(text.is_valid(), True).as_py()  # -1: none
        if first >= 0:
            sample = pa.concat_arrays([sample, text[first:]])[:SAMPLE_ROWS]
        if len(sample) == SAMPLE_ROWS:
            break
    return sample


def _doubt_about_category(
    name: str, kind: str, fraction: float, misfit: str, text: pa.Array
) -> str | None:
    """Return a doubt about a column of text, of which a fraction is of another kind."""
    if (date := find_ambiguous_date(text)) is not None:
        return (
            f"column {name!r} is read as category: dates such as {shorten(date, _VALUE_LENGTH)!r} "
            "may begin with the day or the month; write 2024-02-29 or 29.02.2024"
        )
    if (number := find_formatted_number(text)) is not None:
        return (
            f"column {name!r} is read as category, but its values look like numbers, such as "
            f"{shorten(number, _VALUE_LENGTH)!r}: write them like 12345.67, without currency, "
            "percent signs and thousands separators"
        )
    if not misfit:
        return None
    return (
        f"column {name!r} is read as category: {fraction:.0%} of the first values are of kind "
        f"{kind}, others are not, such as {misfit!r}; --types {name}={kind} rejects their rows"
    )


def _first_misfit(kind: str, text: pa.Array, unquoted: pa.Array) -> str:
    """Return the first value that is not of a kind."""
    is_date = kind in ("date", "datetime")
    values, _ = parse_times(text) if is_date else _PARSERS[kind](unquoted)
    is_misfit = pc.and_(pc.is_null(values), pc.is_valid(text))
    return shorten(text.filter(is_misfit)[0].as_py(), _VALUE_LENGTH)


def _best_kind(text: pa.Array, unquoted: pa.Array, n_known: int) -> tuple[str, float]:
    """Return the kind, other than category, that most values fit; and their fraction."""
    best = ("", 0.0)
    for kind, parse, values in (
        ("number", parse_numbers, unquoted),
        ("bool", parse_bools, unquoted),
        ("date", parse_times, text),
    ):
        fraction = _count_fitting(parse, values) / n_known
        if fraction >= FITTING:
            return _date_kind(text) if kind == "date" else kind, fraction
        best = max(best, (kind, fraction), key=lambda pair: pair[1])
    return best


def _date_kind(text: pa.Array) -> str:
    """Return "datetime" if some of the dates have a time of day, else "date"."""
    has_time = _count_fitting(parse_times, text) > _count_fitting(parse_days, text)
    return "datetime" if has_time else "date"


def _count_fitting(parse: Callable[[pa.Array], Converted], text: pa.Array) -> int:
    values, _ = parse(text)  # null where a value does not fit
    return len(values) - int(values.null_count)

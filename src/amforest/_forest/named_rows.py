"""Rows with names, dicts and Series of pandas, and names that a forest does not know."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from amforest._forest.caller import caller_level
from amforest._forest.column_kinds import Schema, UnusedColumnWarning, list_names


class NamedRow(NamedTuple):
    """One row with names: a dict, or a Series of pandas."""

    names: list[Any]
    values: list[Any]

    @classmethod
    def read(cls, x: Any) -> NamedRow | None:
        """Return the names and values of x; None if it has no names."""
        if isinstance(x, np.ndarray | list | tuple) or not hasattr(x, "keys"):
            return None
        row = cls(list(x.keys()), [value for _, value in x.items()])
        if len(set(row.names)) < len(row.names):
            twice = next(name for name in row.names if row.names.count(name) > 1)
            raise ValueError(f"x has several values of {twice!r}; it must have one of each feature")
        return row

    def in_order(self, schema: Schema, estimator: Any) -> list[Any]:
        """Return the values in the order of the names of X's columns, or of positions."""
        given, names = dict(zip(self.names, self.values, strict=True)), schema.column_names
        if names is None and given.keys() != set(range(schema.n_columns)):
            raise ValueError(
                f"x has the names {list_names(self.names)}, but the forest was fitted without "
                "names: give it the values in the order of the columns"
            )
        wanted = list(range(schema.n_columns)) if names is None else names.tolist()
        needed = [name for j, name in enumerate(wanted) if j not in schema.dropped]
        absent = [name for name in needed if name not in given]
        unknown = [name for name in self.names if name not in set(wanted)]
        if not getattr(estimator, "strict", True):
            refuse_strangers("x", absent, needed)
            note_unknown(estimator, "x", unknown)
        elif absent:
            raise ValueError(
                f"x lacks {list_names(absent)}; the forest was fitted with {list_names(wanted)}. "
                "Give None where a value is missing, or set strict=False"
            )
        elif unknown:
            raise ValueError(
                f"x has {list_names(unknown)}, which the forest does not know: it was fitted "
                f"with {list_names(wanted)}. To ignore other names, set strict=False"
            )
        return [given.get(name) for name in wanted]


def note_unknown(estimator: Any, argument: str, unknown: list[Any]) -> None:
    """Warn, once for each forest, that columns are ignored because they are unknown."""
    handle = estimator._handle
    if not unknown or handle.has_noted_unknown:
        return
    handle.has_noted_unknown = True
    warnings.warn(
        f"{argument} has {list_names(unknown)}, which the forest ignores: the first X had no such "
        "column",
        UnusedColumnWarning,
        stacklevel=caller_level(),
    )


def refuse_strangers(argument: str, absent: list[Any], needed: list[Any]) -> None:
    """Refuse names of which the forest knows none: they are those of other data."""
    if needed and len(absent) == len(needed):
        raise ValueError(
            f"{argument} has none of the columns that the forest was fitted with: "
            f"{list_names(needed)}"
        )

"""Predictions that wait for their labels: their rows, up to a number and an age."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import count

from amforest.serving.problems import Problem
from amforest.serving.row_conversion import Values


class PendingLabels:
    """The rows of the last predictions by their ids.

    Parameters
    ----------
    most : int
        How many rows are kept; the oldest ones are dropped first.
    seconds : float
        How long they are kept.
    clock : callable
        Returns seconds that never go back.
    """

    def __init__(
        self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.most, self.seconds = most, seconds
        self._clock = clock
        self._rows: OrderedDict[str, tuple[float, Values]] = OrderedDict()
        # Ids of another run of the server are not those of this one.
        self._prefix = secrets.token_hex(4)
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, rows: Sequence[Values]) -> list[str]:
        """Keep rows; return their ids."""
        now, kept = self._clock(), self._rows
        ids = [f"{self._prefix}-{next(self._numbers):x}" for _ in rows]
        for id_, row in zip(ids, rows, strict=True):
            kept[id_] = now, row
        while len(kept) > self.most:
            kept.popitem(last=False)
        self.drop_old(now)
        return ids

    def drop_old(self, now: float | None = None) -> None:
        """Drop the rows that are too old."""
        limit = (self._clock() if now is None else now) - self.seconds
        while self._rows and next(iter(self._rows.values()))[0] < limit:
            self._rows.popitem(last=False)

    def take(self, ids: Sequence[str]) -> list[Values]:
        """Return the rows of ids, and forget them; `Problem`, and none is taken, if one is absent.

        Each id has one label: a second one is refused.
        """
        self.drop_old()
        if len(set(ids)) < len(ids):
            raise Problem(422, "ids has the same id twice", field="ids")
        absent = [id_ for id_ in ids if id_ not in self._rows]
        if absent:
            raise Problem(
                404,
                f"there is no prediction {absent[0][:100]!r} that waits for a label: it has one, "
                f"or is older than {self.seconds:g} s, or than the last {self.most:,}, or than "
                "the server: send its row to /learn",
                field="id",
            )
        return [self._rows.pop(id_)[1] for id_ in ids]

    def put_back(self, ids: Sequence[str], rows: Sequence[Values]) -> None:
        """Keep rows again whose labels could not be learned."""
        now = self._clock()
        for id_, row in zip(ids, rows, strict=True):
            self._rows[id_] = now, row

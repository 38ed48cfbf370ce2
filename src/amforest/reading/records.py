"""Bytes are cut into records, each with the line on which it begins.

A record of JSON is a line. One of CSV may hold line ends between quotes, where a quote opens only
at the beginning of a field, as Python's csv and pyarrow have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest.reading.batches import TEXT_LENGTH, Lines, Reject, shortened

Positions = NDArray[np.intp]

MAX_RECORD = 2**20  # bytes
_LF, _CR, _QUOTE = b'\n\r"'


@dataclass(frozen=True)
class Records:
    """Whole records of a file, without the empty ones.

    Attributes
    ----------
    data : bytes
        Where they stand.
    starts, ends : ndarray of int
        Where each begins and ends, without its line end.
    lines : ndarray of int64
        The line on which each begins, from 1.
    rejects : list of Reject
        What could not be a record.
    is_joined : bool
        Whether nothing but line ends stands between them.
    """

    data: bytes
    starts: Positions
    ends: Positions
    lines: Lines
    rejects: list[Reject] = field(default_factory=list)
    is_joined: bool = True

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, row: int) -> bytes:
        return self.data[self.starts[row] : self.ends[row]]

    def __iter__(self) -> Iterator[bytes]:
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            yield self.data[start:end]

    @property
    def n_bytes(self) -> int:
        """How many bytes the records have."""
        return int((self.ends - self.starts).sum())

    def text(self, row: int) -> str:
        """Show a record, shortened."""
        return show(self[row])

    def body(self) -> bytes | memoryview:
        """Return all records, with line ends between them."""
        if not len(self):
            return b""
        if self.is_joined:
            return memoryview(self.data)[self.starts[0] : self.ends[-1]]
        return b"\n".join(self)

    def keep(self, rows: NDArray[Any] | slice, rejects: list[Reject]) -> Records:
        """Return some of the records, and these rejects."""
        joined = self.is_joined and isinstance(rows, slice)
        starts, ends, lines = self.starts[rows], self.ends[rows], self.lines[rows]
        return Records(self.data, starts, ends, lines, rejects, joined)


def show(record: bytes) -> str:
    """Return a record as text, shortened."""
    return shortened(record[: 4 * TEXT_LENGTH].decode(errors="backslashreplace"), TEXT_LENGTH)


class Splitter:
    """Cut pieces of a file, in their order, into records.

    What is no record within `max_record` bytes costs one line: that line is rejected, and the next
    one begins a record again.

    Parameters
    ----------
    file : str
        The name for rejects.
    delimiter : bytes or None
        What separates the fields of CSV; None if each line is a record.
    max_record : int
    """

    def __init__(self, file: str, delimiter: bytes | None, max_record: int = MAX_RECORD) -> None:
        self._file = file
        self._delimiter = None if delimiter is None else delimiter[0]
        self._max = max_record
        self._rest = b""
        self._line = 1  # on which the rest begins
        self._is_skipping = False  # whether the rest belongs to a line that was rejected

    def feed(self, data: bytes, *, is_last: bool = False) -> Records:
        """Return the records that are complete with this piece."""
        data = self._rest + data
        scans: list[_Scan] = []
        rejects: list[Reject] = []
        start = self._end_of_skipped(data, is_last) if self._is_skipping else 0
        while start < len(data) and not self._is_skipping:
            scan = _scan(data, start, self._line, self._delimiter, is_last)
            scan, is_stuck = self._limited(scan, len(data), is_last)
            scans.append(scan)
            start, self._line = scan.stop, scan.stop_line
            if not is_stuck:
                break
            start = self._reject_line(data, scan, is_last, rejects)
        self._rest = data[start:]
        return _joined(data, scans, rejects)

    def _limited(self, scan: _Scan, size: int, is_last: bool) -> tuple[_Scan, bool]:
        """Stop before a record that is too long or has no end, and tell whether there is one."""
        is_too_long = scan.ends - scan.starts > self._max
        if is_too_long.any():
            return scan.before(int(is_too_long.argmax())), True
        n_left = size - scan.stop  # perhaps with a line end of two bytes
        return scan, n_left > self._max + 2 or (is_last and n_left > 0)

    def _reject_line(self, data: bytes, scan: _Scan, is_last: bool, rejects: list[Reject]) -> int:
        """Reject the line where the scan stopped; return where the next one begins."""
        later = scan.line_ends[np.searchsorted(scan.line_ends, scan.stop) :]
        end = int(later[0]) if len(later) else len(data)
        line = data[scan.stop : end].removesuffix(b"\r")
        is_too_long = len(line) > self._max
        reason = f"longer than {self._max:,} bytes" if is_too_long else "a quote is never closed"
        rejects.append(Reject(self._file, self._line, reason, show(line[: self._max])))
        if not len(later) and not is_last:
            self._is_skipping = True
            return _droppable(data)
        self._line += 1
        return min(end + 1, len(data))

    def _end_of_skipped(self, data: bytes, is_last: bool) -> int:
        """Return where the next line begins; if it does not yet, the end of what can be dropped."""
        ends = _line_ends(data, 0, self._delimiter is not None, is_last)
        if not len(ends):
            return _droppable(data)
        self._is_skipping = False
        self._line += 1
        return int(ends[0]) + 1


@dataclass(frozen=True)
class _Scan:
    """The records from some place on; where, and on which line, they stop; all line ends."""

    starts: Positions
    ends: Positions
    lines: Lines
    stop: int
    stop_line: int
    line_ends: Positions

    def before(self, row: int) -> _Scan:
        """Stop before a record."""
        return _Scan(
            *(self.starts[:row], self.ends[:row], self.lines[:row]),
            *(int(self.starts[row]), int(self.lines[row]), self.line_ends),
        )


def _scan(data: bytes, start: int, line: int, delimiter: int | None, is_last: bool) -> _Scan:
    """Find the records that are whole, from the beginning of one on."""
    line_ends = _line_ends(data, start, delimiter is not None, is_last)
    outside = np.arange(len(line_ends))
    is_open = False
    if delimiter is not None and data.find(b'"', start) >= 0:
        quotes = _quotes(data, start, delimiter)
        outside = np.flatnonzero(np.searchsorted(quotes, line_ends) % 2 == 0)
        is_open = len(quotes) % 2 == 1
    ends = line_ends[outside]
    starts = np.concatenate(([start], ends + 1))
    lines = np.concatenate(([line], line + outside + 1))
    if is_last and starts[-1] < len(data) and not is_open:  # no line end after the last record
        ends = np.append(ends, len(data))
        starts, lines = np.append(starts, len(data)), np.append(lines, lines[-1])
    stop, stop_line = int(starts[-1]), int(lines[-1])
    starts = starts[:-1]
    return _Scan(starts, _without_cr(data, starts, ends), lines[:-1], stop, stop_line, line_ends)


def _droppable(data: bytes) -> int:
    """Return how much of a line without end can be dropped: all but half of a line end."""
    return len(data) - data.endswith(b"\r")


def _without_cr(data: bytes, starts: Positions, ends: Positions) -> Positions:
    """Take the first half of line ends of two bytes from the records."""
    if not len(ends) or data.find(b"\r", starts[0]) < 0:
        return ends
    last = np.frombuffer(data, np.uint8)[np.maximum(ends - 1, 0)]
    shorter: Positions = ends - ((last == _CR) & (ends > starts))
    return shorter


def _line_ends(data: bytes, start: int, is_csv: bool, is_last: bool) -> Positions:
    """Find where lines end: at LF, and in CSV also at CR without LF."""
    codes = np.frombuffer(data, np.uint8, offset=start)
    ends = np.flatnonzero(codes == _LF)
    if is_csv and data.find(b"\r", start) >= 0:
        returns = np.flatnonzero(codes == _CR)
        is_alone = codes[np.minimum(returns + 1, len(codes) - 1)] != _LF
        is_alone[-1] &= is_last or returns[-1] + 1 < len(codes)  # LF may come next
        ends = np.sort(np.concatenate((ends, returns[is_alone])))
    return ends + start


def _quotes(data: bytes, start: int, delimiter: int) -> Positions:
    """Find the quotes that open and close, in turns; others are part of their fields."""
    codes = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(codes[start:] == _QUOTE) + start
    # Between quotes, one that is doubled closes and opens again.
    begins_field = np.isin(codes[quotes - 1], (delimiter, _LF, _CR)) | (quotes == start)
    opens = begins_field | (codes[quotes - 1] == _QUOTE)
    if opens[::2].all():
        return quotes
    kept: list[int] = []
    for quote, begins in zip(quotes.tolist(), begins_field.tolist(), strict=True):
        is_inside = len(kept) % 2 == 1
        if is_inside or begins or (kept and kept[-1] == quote - 1):
            kept.append(quote)
    return np.array(kept, dtype=np.intp)


def _joined(data: bytes, scans: list[_Scan], rejects: list[Reject]) -> Records:
    """Put the records of all scans together, without the empty ones."""
    if not scans:
        nothing = np.zeros(0, dtype=np.intp)
        return Records(data, nothing, nothing, nothing.astype(np.int64), rejects)
    starts, ends, lines = (
        np.concatenate([getattr(scan, name) for scan in scans])
        for name in ("starts", "ends", "lines")
    )
    is_filled = ends > starts
    rows = slice(None) if is_filled.all() else is_filled
    return Records(data, starts[rows], ends[rows], lines[rows], rejects, not rejects)

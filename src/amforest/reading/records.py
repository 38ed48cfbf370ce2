"""Records of CSV and JSON: bytes are split into records, each with the line on which it begins.

A record of JSON is a line. A record of CSV may hold line ends between quotes, where a quote opens
only at the beginning of a field, as in Python's csv and pyarrow.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from amforest.reading.batches import TEXT_LENGTH, Lines, Reject
from amforest.reading.schema import SAMPLE_ROWS
from amforest.reading.sources import StreamError, shorten

Positions = NDArray[np.intp]

MAX_RECORD = 2**20  # bytes
_SAMPLE_BYTES = 2**22
_PAUSE = 0.2  # seconds of silence after which a pipe's sample is complete
_LF, _CR, _QUOTE = b'\n\r"'
_FALLBACK = "cp1252"  # of text that is not UTF-8


class TextSource(Protocol):
    """A source of UTF-8 text."""

    name: str
    encoding: str | None
    notes: list[str]

    @property
    def n_read(self) -> int:
        """The number of bytes read from the file."""

    def read(self, size: int) -> bytes:
        """Wait for bytes, and return those available; b"" at the end."""

    def is_ready(self, timeout: float) -> bool:
        """Return whether bytes, or the end, arrive within a timeout in seconds."""

    def close(self) -> None:
        """Close the file."""


@dataclass(frozen=True)
class Records:
    """Whole records of a file, without the empty ones.

    Attributes
    ----------
    data : bytes
        The buffer that holds them.
    starts, ends : ndarray of int
        Where each begins and ends, without its line end.
    lines : ndarray of int64
        The line on which each begins, from 1.
    rejects : list of Reject
        The lines that are not records.
    is_contiguous : bool
        Whether nothing but line ends is between them.
    position : int
        The number of bytes of the file up to their end.
    """

    data: bytes
    starts: Positions
    ends: Positions
    lines: Lines
    rejects: list[Reject] = field(default_factory=list)
    is_contiguous: bool = True
    position: int = 0

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, row: int) -> bytes:
        return self.data[self.starts[row] : self.ends[row]]

    def __iter__(self) -> Iterator[bytes]:
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            yield self.data[start:end]

    @property
    def n_bytes(self) -> int:
        """The size of all records."""
        return int((self.ends - self.starts).sum())

    def show(self, row: int) -> str:
        """Return the text of a record, shortened."""
        return _show(self[row])

    def join(self) -> bytes | memoryview:
        """Return all records, with line ends between them."""
        if not len(self):
            return b""
        if self.is_contiguous:
            return memoryview(self.data)[self.starts[0] : self.ends[-1]]
        return b"\n".join(self)

    def select(self, rows: NDArray[Any] | slice, rejects: list[Reject]) -> Records:
        """Return some of the records, with other rejects."""
        is_contiguous = self.is_contiguous and isinstance(rows, slice)
        starts, ends, lines = self.starts[rows], self.ends[rows], self.lines[rows]
        return Records(self.data, starts, ends, lines, rejects, is_contiguous, self.position)

    def reject(self, reasons: dict[int, str], file: str) -> Records:
        """Return the records without some rows, which become rejects for the reasons given."""
        if not reasons:
            return self
        is_good = np.ones(len(self), dtype=bool)
        is_good[list(reasons)] = False
        rejects = [
            Reject(file, int(self.lines[row]), reason, self.show(row))
            for row, reason in reasons.items()
        ]
        return self.select(is_good, [*self.rejects, *rejects])

    def reject_bad_text(self, file: str, encoding: str = "UTF-8") -> Records:
        """Return the records without those that are not UTF-8, or were not in their encoding."""
        if self.data.isascii() or is_utf8(self.join()):
            return self
        bad = (k for k, record in enumerate(self) if not (record.isascii() or is_utf8(record)))
        return self.reject(dict.fromkeys(bad, f"not {encoding} text"), file)

    def decode(self, encoding: str) -> Records:
        """Return the records as UTF-8; those that cannot be decoded are unchanged."""
        records = [_to_utf8(record, encoding) for record in self]
        sizes = np.array([len(record) for record in records], dtype=np.intp)
        ends = np.cumsum(sizes + 1) - 1
        data = b"\n".join(records)
        return replace(self, data=data, starts=ends - sizes, ends=ends, is_contiguous=True)


def is_utf8(data: bytes | memoryview) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _to_utf8(record: bytes, encoding: str) -> bytes:
    try:
        return record.decode(encoding).encode()
    except UnicodeDecodeError:
        return record


class TextDecoder:
    """Decode records that are not UTF-8 as cp1252, unless the encoding of the file is known.

    UTF-8 is known if it is given, or once a record holds more than ASCII and is UTF-8: then those
    that are not are rejected. Otherwise the first record that is not UTF-8 shows cp1252.

    Parameters
    ----------
    source : TextSource
        Whose notes name the encoding.
    """

    def __init__(self, source: TextSource) -> None:
        self._file, self._notes = source.name, source.notes
        self._encoding = source.encoding  # None: not known yet
        self._is_fallback = False

    def decode(self, records: Records) -> Records:
        """Return records as UTF-8, without those that cannot be decoded."""
        if records.data.isascii():
            return records
        if self._encoding is None:
            first = next((record for record in records if not record.isascii()), None)
            if first is None:
                return records
            self._set(is_fallback=not is_utf8(first))
        if self._is_fallback:
            records = records.decode(_FALLBACK)
        return records.reject_bad_text(self._file, (self._encoding or "UTF-8").upper())

    def decode_sample(self, sample: list[Records]) -> list[Records]:
        """Decode the first records; they are UTF-8 if one of them is, beyond ASCII."""
        beyond = [record for part in sample for record in part if not record.isascii()]
        if beyond and self._encoding is None:
            self._set(is_fallback=not any(map(is_utf8, beyond)))
        return [self.decode(part) for part in sample]

    def decode_header(self, header: bytes) -> bytes:
        """Return the first record as UTF-8, if it can be decoded."""
        if self._encoding is None and not header.isascii() and b"\0" not in header:
            self._set(is_fallback=not is_utf8(header))
        return _to_utf8(header, _FALLBACK) if self._is_fallback else header

    def _set(self, *, is_fallback: bool) -> None:
        self._is_fallback = is_fallback
        self._encoding = _FALLBACK if is_fallback else "utf-8"
        if is_fallback:
            self._notes.append(f"{self._file}: the text is not UTF-8; it is read as {_FALLBACK}")


class RecordReader:
    """Read the records of a file in blocks, and sample the first of them beforehand.

    Parameters
    ----------
    source : TextSource
    delimiter : bytes or None
        The separator of the fields of CSV; None if each line is a record.
    block_bytes, max_record : int
    first : bytes
        What was read before.
    """

    def __init__(
        self,
        source: TextSource,
        delimiter: bytes | None,
        block_bytes: int,
        max_record: int,
        first: bytes,
    ) -> None:
        self._source = source
        self._splitter = Splitter(source.name, delimiter, max_record)
        self._block_bytes = block_bytes
        self._first = first
        self._pending: deque[Records] = deque()
        self._n_kept = self._bytes_kept = 0
        self._ended = False
        self._n_fed = 0

    def __iter__(self) -> Iterator[Records]:
        while self._pending or not self._ended:
            block = self._pending.popleft() if self._pending else self._next()
            if len(block) or block.rejects:
                yield block

    def pop_header(self) -> bytes | None:
        """Remove and return the first record; None if there is none."""
        while not self._ended:
            block = self._next()
            if block.rejects and not (len(block) and block.lines[0] < block.rejects[0].line):
                raise StreamError(f"{block.rejects[0]}, where column names are expected")
            if len(block):
                self._keep(block.select(slice(1, None), block.rejects))
                return block[0]
        return None

    def sample(self) -> list[Records]:
        """Return the first records, without removing them: the same, however the file is cut.

        Once a pipe has sent a record, a pause ends the sample.
        """
        while not self._ended and not self._is_enough():
            if self._n_kept and not self._source.is_ready(_PAUSE):
                break
            self._keep(self._next())
        sample, n_rows, n_bytes = [], 0, 0
        for block in self._pending:
            sizes = n_bytes + np.cumsum(block.ends - block.starts)
            fitting = int(np.searchsorted(sizes, _SAMPLE_BYTES, side="right"))
            n = min(fitting if n_rows else max(fitting, 1), SAMPLE_ROWS - n_rows, len(block))
            sample.append(block.select(slice(0, n), []))
            n_rows += n
            n_bytes = int(sizes[-1]) if len(sizes) else n_bytes
        return [block for block in sample if len(block)]

    def extend_sample(self) -> bool:
        """Wait for more records to sample; return whether there could be any."""
        if self._ended or self._is_enough():
            return False
        self._keep(self._next())
        return True

    def _is_enough(self) -> bool:
        return self._n_kept >= SAMPLE_ROWS or self._bytes_kept > _SAMPLE_BYTES

    def _keep(self, block: Records) -> None:
        if len(block) or block.rejects:
            self._pending.append(block)
            self._n_kept += len(block)
            self._bytes_kept += block.n_bytes

    def _next(self) -> Records:
        data = self._first or self._source.read(self._block_bytes)
        self._first = b""
        self._ended = not data
        self._n_fed += len(data)
        records = self._splitter.feed(data, is_last=self._ended)
        # Of what is read from the file, compressed or in another encoding, the same part is left.
        n_left = self._splitter.n_left * self._source.n_read // max(self._n_fed, 1)
        return replace(records, position=self._source.n_read - n_left)


def read_first_lines(source: TextSource, n_lines: int, block_bytes: int, max_record: int) -> bytes:
    """Read until some lines are complete; return all that was read."""
    pattern = re.compile(n_lines * rb"[\r\n]*[^\r\n]+[\r\n]")
    data = source.read(block_bytes)
    while 0 < len(data) <= max_record and not pattern.match(data):
        more = source.read(block_bytes)
        data += more
        if not more:
            break
    return data


class Splitter:
    """Split pieces of a file, in their order, into records.

    If there is no record within `max_record` bytes, one line is rejected, and the next line begins
    a record again.

    Parameters
    ----------
    file : str
        The name for rejects.
    delimiter : bytes or None
        The separator of the fields of CSV; None if each line is a record.
    max_record : int
    """

    def __init__(self, file: str, delimiter: bytes | None, max_record: int = MAX_RECORD) -> None:
        self._file = file
        self._delimiter = None if delimiter is None else delimiter[0]
        self._max = max_record
        self._rest = b""
        self._line = 1  # on which the rest begins
        self._is_skipping = False  # whether the rest belongs to a line that was rejected

    @property
    def n_left(self) -> int:
        """The number of bytes that wait for the end of their record."""
        return len(self._rest)

    def feed(self, data: bytes, *, is_last: bool = False) -> Records:
        """Return the records that are complete with this piece."""
        data = self._rest + data
        scans: list[_Scan] = []
        rejects: list[Reject] = []
        start = self._end_of_skipped(data, is_last) if self._is_skipping else 0
        while start < len(data) and not self._is_skipping:
            scan = _scan(data, start, self._line, self._delimiter, is_last)
            scan, is_stuck = self._limit(scan, len(data), is_last)
            scans.append(scan)
            start, self._line = scan.stop, scan.stop_line
            if not is_stuck:
                break
            start = self._reject_line(data, scan, is_last, rejects)
        self._rest = data[start:]
        return _concatenate(data, scans, rejects)

    def _limit(self, scan: _Scan, size: int, is_last: bool) -> tuple[_Scan, bool]:
        """Stop before a record that is too long or has no end; return whether there is one."""
        is_too_long = scan.ends - scan.starts > self._max
        if is_too_long.any():
            return scan.before(int(is_too_long.argmax())), True
        n_left = size - scan.stop  # may include a line end of two bytes
        return scan, n_left > self._max + 2 or (is_last and n_left > 0)

    def _reject_line(self, data: bytes, scan: _Scan, is_last: bool, rejects: list[Reject]) -> int:
        """Reject the line where the scan stopped; return where the next one begins."""
        later = scan.line_ends[np.searchsorted(scan.line_ends, scan.stop) :]
        end = int(later[0]) if len(later) else len(data)
        line = data[scan.stop : end].removesuffix(b"\r")
        is_too_long = len(line) > self._max
        reason = f"longer than {self._max:,} bytes" if is_too_long else "a quote is never closed"
        rejects.append(Reject(self._file, self._line, reason, _show(line[: self._max])))
        if not len(later) and not is_last:
            self._is_skipping = True
            return _end_of_discardable(data)
        self._line += 1
        return min(end + 1, len(data))

    def _end_of_skipped(self, data: bytes, is_last: bool) -> int:
        """Return where the next line begins; or, if it does not yet, what can be discarded."""
        ends = _line_ends(data, 0, self._delimiter is not None, is_last)
        if not len(ends):
            return _end_of_discardable(data)
        self._is_skipping = False
        self._line += 1
        return int(ends[0]) + 1


@dataclass(frozen=True)
class _Scan:
    """The records from some position on; where, and on which line, they stop; all line ends."""

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
    """Find the whole records from the beginning of a record on."""
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
    return _Scan(starts, _strip_cr(data, starts, ends), lines[:-1], stop, stop_line, line_ends)


def _end_of_discardable(data: bytes) -> int:
    """Return how much of an unfinished line can be discarded: all but half of a line end."""
    return len(data) - data.endswith(b"\r")


def _strip_cr(data: bytes, starts: Positions, ends: Positions) -> Positions:
    """Exclude the first half of line ends of two bytes from the records."""
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
    """Find the quotes that open and close, alternately; others are part of their fields."""
    codes = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(codes[start:] == _QUOTE) + start
    # Between quotes, a doubled quote closes and opens again.
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


def _concatenate(data: bytes, scans: list[_Scan], rejects: list[Reject]) -> Records:
    """Return the records of all scans, without the empty ones."""
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


def _show(record: bytes) -> str:
    return shorten(record[: 4 * TEXT_LENGTH].decode(errors="backslashreplace"), TEXT_LENGTH)

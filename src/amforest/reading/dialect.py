"""The dialect of a text file: its delimiter, decimal mark and encoding, given or detected."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from amforest.reading.conversion import FITTING, parse_numbers, strip_missing
from amforest.reading.sources import (
    ByteReader,
    StreamError,
    check_not_compressed,
    may_be_compressed,
)

DELIMITERS = ",;\t|"  # that are detected, in this order
_NAMES = {"tab": "\t", r"\t": "\t"}
_HEAD = 4  # bytes that show an encoding
_BAD = "\udcff"  # replaces bytes that cannot be decoded; it is not UTF-8 either

_EXPONENT = r"([eE][+-]?\d+)?"
_COMMA = rf"^[+-]?(\d+,\d*|,\d+){_EXPONENT}$"
_POINT = rf"^[+-]?(\d+\.\d*|\.\d+){_EXPONENT}$"
_GROUPED = r"^[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?$"  # thousands, as in 1.234,5
_LIKE_THOUSANDS = r"^[+-]?[1-9]\d{0,2}(,\d{3})+$"  # 1,234: a decimal comma, or thousands?


@dataclass(frozen=True)
class Dialect:
    """What the user says about text files; None where it is to be detected.

    Attributes
    ----------
    delimiter, decimal, encoding : str or None
    """

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    @classmethod
    def parse(cls, delimiter: str | None, decimal: str | None, encoding: str | None) -> Dialect:
        """Validate the values; "tab" is a delimiter, too."""
        if delimiter is not None:
            delimiter = _NAMES.get(delimiter, delimiter)
            if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
                raise StreamError(f"delimiter {delimiter!r}: expected one character, such as ';'")
        if decimal not in (None, ".", ","):
            raise StreamError(f"decimal {decimal!r}: expected '.' or ','")
        if decimal is not None and decimal == delimiter:
            raise StreamError(f"delimiter and decimal are both {decimal!r}; they must differ")
        if encoding is not None:
            try:
                encoding = codecs.lookup(encoding).name
                "".encode(encoding)
            except LookupError as error:
                raise StreamError(
                    f"no encoding {encoding!r}; expected one such as utf-8, utf-16 or cp1252"
                ) from error
        return cls(delimiter, decimal, encoding)


# Encodings


class Utf8Source:
    """The bytes of a text file as UTF-8, without a byte order mark.

    Parameters
    ----------
    source : ByteReader
    encoding : str or None
        None means UTF-8, or UTF-16 and UTF-32 where the first bytes show it.

    Attributes
    ----------
    name : str
    encoding : str or None
        The encoding that is given or shown by the first bytes.
    notes : list of str
    """

    def __init__(self, source: ByteReader, encoding: str | None) -> None:
        self.name = source.name
        self.notes: list[str] = []
        self._source = source
        self._first = self._read_head()
        check_not_compressed(self.name, self._first)
        if encoding is None:
            encoding = self._detect()
        self.encoding = encoding
        self._decoder: codecs.IncrementalDecoder | None = None
        if encoding not in (None, "utf-8", "utf-8-sig"):
            self._decoder = codecs.getincrementaldecoder(encoding)(_MARK_BAD)
        self._is_start = True

    @property
    def n_read(self) -> int:
        """The number of bytes read from the file."""
        return self._source.n_read

    def read(self, size: int) -> bytes:
        """Wait for bytes, and return those available as UTF-8; b"" at the end."""
        while True:
            data = self._take(size)
            while self._is_start and 0 < len(data) < len(codecs.BOM_UTF8):
                more = self._source.read(size)
                data += more
                if not more:
                    break
            text = self._decode(data)
            if self._is_start and text:
                self._is_start = False
                text = text.removeprefix(codecs.BOM_UTF8)
            if text or not data:
                return text

    def is_ready(self, timeout: float) -> bool:
        """Return whether bytes, or the end, arrive within a timeout in seconds."""
        return self._source.is_ready(timeout)

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def _take(self, size: int) -> bytes:
        """Wait for bytes, and return those available, with the first ones."""
        data, self._first = self._first, b""
        if not data or (size > len(data) and self._source.is_ready(0)):
            data += self._source.read(size - len(data))
        return data

    def _decode(self, data: bytes) -> bytes:
        if self._decoder is None:
            return data
        text = self._decoder.decode(data, final=not data)
        return text.encode(errors="surrogatepass")

    def _read_head(self) -> bytes:
        """Read the first bytes: as many as show what the file is."""
        head = self._source.read(_HEAD)
        while head and (may_be_compressed(head) or (len(head) < _HEAD and not _is_plain(head))):
            more = self._source.read(_HEAD)
            head += more
            if not more:
                break
        return head

    def _detect(self) -> str | None:
        """Return the encoding that the first four bytes show; None if they may be UTF-8."""
        encoding = _find_encoding(self._first[:_HEAD])
        if encoding is not None:
            self.notes.append(f"{self.name}: the text is read as {encoding.upper()}")
        elif self._first.startswith(codecs.BOM_UTF8):
            self.notes.append(f"{self.name}: the text is UTF-8 with a byte order mark")
        return encoding


def _is_plain(data: bytes) -> bool:
    """Return whether bytes begin neither with a byte order mark nor with UTF-16."""
    return len(data) >= 2 and data[0] < 0x80 and 0 not in data[:2]


def _find_encoding(head: bytes) -> str | None:
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    is_zero = [byte == 0 for byte in head]
    if is_zero == [False, True, False, True]:
        return "utf-16-le"
    return "utf-16-be" if is_zero == [True, False, True, False] else None


def _mark_bad(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _BAD, error.end


_MARK_BAD = "amforest.mark_bad"
codecs.register_error(_MARK_BAD, _mark_bad)


# Delimiters


def find_delimiter(head: bytes) -> str:
    """Return the delimiter of a header; where it has several marks, the first row decides.

    The comma is the default, and wins where both could be.
    """
    lines = [_strip_quoted(line) for line in re.split(rb"[\r\n]+", head.lstrip(b"\r\n"))[:2]]
    counts = {mark: [line.count(mark.encode()) for line in lines] for mark in DELIMITERS}
    found = [mark for mark in DELIMITERS if counts[mark][0]]
    if len(found) > 1 and "," in found:
        found = [mark for mark in found if len(set(counts[mark])) == 1] or found
    return found[0] if found else ","


def _strip_quoted(line: bytes) -> bytes:
    return re.sub(rb'"[^"]*"', b"", line)


# Decimal commas


@dataclass(frozen=True)
class Decimals:
    """Which columns of a file have decimal commas.

    Attributes
    ----------
    is_comma : bool
        Whether numbers have decimal commas, except those of some columns.
    with_points : frozenset of str
        These columns.
    notes : tuple of str
    """

    is_comma: bool = False
    with_points: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def convert(self, name: str, text: pa.Array) -> pa.Array:
        """Return the text of a column with decimal points instead of commas."""
        is_unchanged = not self.is_comma or name in self.with_points
        return text if is_unchanged else convert_commas(text)


def find_decimals(texts: Mapping[str, pa.Array], delimiter: str) -> Decimals:
    """Detect decimal commas in the first values of columns.

    A column with 1,5 or 0,125 shows them; one with only such as 1,234 does not, because these
    could be thousands. Where the delimiter is a comma, they are never assumed.
    """
    columns = {name: strip_missing(text).drop_null() for name, text in texts.items()}
    fitting = {name: text for name, text in columns.items() if _fits_commas(text)}
    clear = [name for name, text in fitting.items() if not _all_match(text, _LIKE_THOUSANDS)]
    if clear and delimiter != ",":
        with_points = (name for name, text in columns.items() if _has_points(text))
        note = f"numbers are read with decimal commas, as in column {clear[0]!r}"
        return Decimals(True, frozenset(with_points), (note,))
    notes = (
        f"column {name!r}: {_first_match(text)!r} is not read as a number with a decimal comma, "
        "which it may be; if it is, set decimal to ','"
        for name, text in fitting.items()
    )
    return Decimals(notes=tuple(notes))


def convert_commas(text: pa.Array) -> pa.Array:
    """Write numbers such as 1.234,5 and 1,5 as 1234.5 and 1.5; other text is unchanged."""
    stripped = pc.ascii_trim_whitespace(text)
    is_grouped = pc.match_substring_regex(stripped, _GROUPED)
    if pc.any(is_grouped).as_py():
        stripped = pc.if_else(is_grouped, pc.replace_substring(stripped, ".", ""), stripped)
    has_comma = pc.match_substring_regex(stripped, _COMMA)
    return pc.if_else(has_comma, pc.replace_substring(stripped, ",", "."), stripped)


def _fits_commas(text: pa.Array) -> bool:
    """Return whether values with commas are numbers, as are almost all values of a column."""
    if not _count(text, _COMMA) and not (_count(text, _GROUPED) and _count(text, ",")):
        return False
    values, _ = parse_numbers(convert_commas(text))
    return len(values) - int(values.null_count) >= FITTING * len(text)


def _has_points(text: pa.Array) -> bool:
    """Return whether numbers of a column have decimal points, and none has a comma."""
    points = text.filter(pc.match_substring_regex(text, _POINT))
    return len(points) > 0 and not _count(text, ",") and not _all_match(points, _GROUPED)


def _all_match(text: pa.Array, pattern: str) -> bool:
    """Return whether all values that have a comma or a point match a pattern."""
    marked = text.filter(pc.match_substring_regex(text, "[.,]"))
    return bool(pc.all(pc.match_substring_regex(marked, pattern)).as_py())


def _count(text: pa.Array, pattern: str) -> int:
    return int(pc.sum(pc.match_substring_regex(text, pattern)).as_py() or 0)


def _first_match(text: pa.Array) -> str:
    found: str = text.filter(pc.match_substring_regex(text, ","))[0].as_py()
    return found

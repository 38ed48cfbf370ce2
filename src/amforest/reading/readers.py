"""The right reader for each format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from amforest.reading.arrow_reader import ArrowReader
from amforest.reading.columns import Column
from amforest.reading.csv_reader import CsvReader
from amforest.reading.ndjson_reader import NdjsonReader
from amforest.reading.rows import Stretch
from amforest.reading.sources import Bytes, File


class Reader(Protocol):
    """One open file: its columns, what is noted of it, and how many bytes of it are read."""

    file: str
    names: list[str]
    notes: list[str]

    @property
    def n_read(self) -> int:
        """How many bytes of the file were read."""

    def find_columns(
        self, names: Sequence[str], types: Mapping[str, str]
    ) -> tuple[list[Column], list[str]]:
        """Find what the columns hold, and what should be noted of them."""

    def stretches(self, columns: Sequence[Column]) -> Iterator[Stretch]:
        """Yield all rows."""

    def close(self) -> None:
        """Close the file."""


@dataclass(frozen=True)
class Options:
    """How files are read."""

    types: Mapping[str, str]
    block_bytes: int
    max_record: int
    follow: bool = False


def open_reader(file: File, options: Options, previous: Reader | None = None) -> Reader:
    """Open a file; one of JSON has the columns of the previous."""
    if file.format in ("parquet", "arrow"):
        return ArrowReader(file, options.block_bytes)
    source = Bytes(file, follow=options.follow)
    sizes = options.block_bytes, options.max_record
    try:
        if file.format != "ndjson":
            return CsvReader(source, "\t" if file.format == "tsv" else None, *sizes)
        before = previous if isinstance(previous, NdjsonReader) else None
        return NdjsonReader(source, options.types, *sizes, previous=before)
    except BaseException:
        source.close()
        raise

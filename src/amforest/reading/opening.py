"""The way in: open files or pipes as a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amforest.reading.columns import check_kinds, parse_types
from amforest.reading.names import StreamError
from amforest.reading.readers import Options
from amforest.reading.records import MAX_RECORD
from amforest.reading.sources import File, Source, find_files
from amforest.reading.stream import Stream

BLOCK_BYTES = 2**22


def open_stream(
    source: Source,
    *,
    format: str | None = None,  # noqa: A002
    types: Mapping[str, str] | str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    target: str | None = None,
    strict: bool = False,
    block_bytes: int = BLOCK_BYTES,
    max_record: int = MAX_RECORD,
    follow: bool = False,
) -> Stream:
    r"""Open files or a pipe for reading, once.

    Parameters
    ----------
    source : path, folder, pattern, list of such, "-", None, file object or descriptor
        What to read; files of a folder or pattern in the order of their names. "-" and None are
        the standard input.
    format : str or None
        "csv", "tsv", "ndjson", "parquet" or "arrow". None means by the names of files, and CSV for
        pipes.
    types : mapping, str or None
        The kinds of some columns, as a mapping or such as "age=number,zip=category". Others are
        the file's, or found from the first 1,000 rows.
    columns, drop : sequence of str or None
        The columns to read, or not to read. None means all, or none.
    target : str or None
        The column of labels. Rows without a label are rejected.
    strict : bool, default=False
        Whether a row that cannot be read is an error. Else it is set aside.
    block_bytes : int
        About how much is read at a time. It does not change the rows.
    max_record : int
        The bytes that a row of CSV or JSON may have.
    follow : bool, default=False
        Whether to wait for more at the end of a file, for ever.

    Returns
    -------
    Stream

    Raises
    ------
    OSError
        If a file cannot be opened.
    StreamError
        If it cannot be read as asked for.

    Examples
    --------
    >>> import io
    >>> source = io.BytesIO(b"size,colour\n1.5,red\nbig,blue\n,red\n")
    >>> stream = open_stream(source, types="size=number")
    >>> stream.schema
    {'size': 'number', 'colour': 'category'}
    >>> (batch,) = stream
    >>> batch.table.to_pylist()
    [{'size': 1.5, 'colour': 'red'}, {'size': None, 'colour': 'red'}]
    >>> batch.lines
    array([2, 4])
    >>> print(*batch.rejects)
    <BytesIO>:3: column 'size': 'big' is not a number
    """
    types = parse_types(types) if isinstance(types, str) else dict(types or {})
    check_kinds(types)
    files = find_files(source, format)
    if follow and (len(files) > 1 or not _can_grow(files[0])):
        raise StreamError("follow needs a single file of CSV or JSON, not compressed")
    options = Options(types, block_bytes, max_record, follow)
    return Stream(files, options, columns=columns, drop=drop, target=target, strict=strict)


def _can_grow(file: File) -> bool:
    return file.is_regular and not file.compression and file.format in ("csv", "tsv", "ndjson")

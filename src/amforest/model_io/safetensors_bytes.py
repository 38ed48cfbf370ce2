"""Arrays and strings in the safetensors format, in canonical form: equal content, equal bytes.

A file is the length of its header in 8 bytes, the header in JSON, and the data of the arrays. The
library `safetensors` is not used: it aborts the process when memory runs out, writes metadata in a
random order, and reads many forms of the same content.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from reprlib import repr as short  # names and numbers of a hostile file can be very long
from typing import Any

import numpy as np
from numpy.typing import NDArray

METADATA = "__metadata__"
MOST_DIMENSIONS = 8
LONGEST_HEADER = 100_000_000  # bytes, as in the library safetensors
CODES = {
    "|b1": "BOOL",
    "|u1": "U8",
    "<u2": "U16",
    "<i4": "I32",
    "<u4": "U32",
    "<f4": "F32",
    "<i8": "I64",
    "<u8": "U64",
    "<f8": "F64",
}
DTYPES = {code: np.dtype(name) for name, code in CODES.items()}

Arrays = Mapping[str, NDArray[Any]]


def pack(arrays: Arrays, metadata: Mapping[str, str]) -> list[bytes | memoryview]:
    """Return the pieces of the file: the header, then the data of each array.

    Little-endian arrays in C order are not copied.
    """
    return [header(arrays, metadata), *(_data(array) for _, array in _ordered(arrays))]


def header(arrays: Arrays, metadata: Mapping[str, str]) -> bytes:
    """Return the bytes before the data: the length of the header, and the header.

    The metadata come first, in the given order, then the arrays in the order of their data.
    """
    _check_texts(metadata)
    entries: dict[str, Any] = {METADATA: dict(metadata)}
    start = 0
    for name, array in _ordered(arrays):
        _check_name(name)
        end = start + array.nbytes
        entries[name] = {
            "dtype": _code(name, array),
            "shape": list(array.shape),
            "data_offsets": [start, end],
        }
        start = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    text += b" " * (-len(text) % 8)
    _check_length(len(text))
    return len(text).to_bytes(8, "little") + text


def unpack(data: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the arrays, as read-only views of the data, and the metadata.

    The views are aligned: the header's length is a multiple of 8, and larger items come first.

    Raises
    ------
    ValueError
        If the data are not, byte for byte, the result of `pack` for some content.
    """
    entries, start = _entries(data)
    metadata = entries.pop(METADATA, None)
    if not isinstance(metadata, dict):
        raise ValueError(f"the header has no object {METADATA}")
    arrays, end = {}, start
    for name, entry in entries.items():
        dtype, shape = _parse_entry(name, entry)
        size = dtype.itemsize * prod(shape)
        if entry["data_offsets"] != [end - start, end - start + size]:
            raise ValueError(
                f"array {short(name)} has the offsets {short(entry['data_offsets'])}, which do not "
                "follow from its shape and the arrays before it"
            )
        if end + size > len(data):
            raise ValueError(f"the data end within array {short(name)}")
        arrays[name] = _view(name, data, dtype, shape, end)
        end += size
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes follow the last array")
    if header(arrays, metadata) != data[:start]:
        raise ValueError("the header is not in canonical form")
    return arrays, metadata


def _ordered(arrays: Arrays) -> list[tuple[str, NDArray[Any]]]:
    return sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0]))


def _data(array: NDArray[Any]) -> memoryview:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data


def _code(name: str, array: NDArray[Any]) -> str:
    code = CODES.get(array.dtype.newbyteorder("<").str)
    if code is None:
        raise TypeError(f"array {name!r} has dtype {array.dtype}; it must be {_choices()}")
    if array.ndim > MOST_DIMENSIONS:
        raise ValueError(f"array {name!r} has more than {MOST_DIMENSIONS} dimensions")
    return code


def _check_name(name: str) -> None:
    if name == METADATA:
        raise ValueError(f"an array cannot have the name {METADATA}")
    _check_unicode(name)


def _check_texts(metadata: Mapping[str, Any]) -> None:
    for key, text in metadata.items():
        if not isinstance(text, str):
            raise ValueError(f"the metadata's {short(key)} is {short(text)}; it must be a string")
        _check_unicode(key)
        _check_unicode(text)


def _check_unicode(text: str) -> None:
    """Refuse lone surrogates, which Python writes to JSON but other readers refuse."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the string {short(text)} is not valid Unicode") from error


def _check_length(length: int) -> None:
    if length > LONGEST_HEADER:
        raise ValueError(f"the header has {length} bytes; the most are {LONGEST_HEADER}")


def _choices() -> str:
    return "one of " + ", ".join(dtype.name for dtype in DTYPES.values())


def _entries(data: bytes) -> tuple[dict[str, Any], int]:
    """Return the header, and the offset of the data of the arrays."""
    if len(data) < 8:
        raise ValueError(f"there are {len(data)} bytes; the header's length alone takes 8")
    length = int.from_bytes(data[:8], "little")
    _check_length(length)
    end = 8 + length
    if end > len(data):
        raise ValueError(f"the header should have {length} bytes, but only {len(data) - 8} follow")
    try:
        entries = json.loads(data[8:end].decode("ascii"), object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the header cannot be read: {error}") from error
    if not isinstance(entries, dict):
        raise ValueError("the header is not a JSON object")
    return entries, end


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; refuse duplicate keys, which readers treat differently."""
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("an object has the same key twice")
    return entries


def _parse_entry(name: str, entry: Any) -> tuple[np.dtype[Any], list[int]]:
    """Validate and return the dtype and the shape of an array."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"array {short(name)} must have a dtype, a shape and data_offsets only")
    code, shape = entry["dtype"], entry["shape"]
    if not isinstance(code, str) or code not in DTYPES:
        raise ValueError(f"array {short(name)} has the unknown dtype {short(code)}")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(
            f"array {short(name)} has the shape {short(shape)}; it must be a list of whole numbers"
        )
    if len(shape) > MOST_DIMENSIONS:
        raise ValueError(f"array {short(name)} has more than {MOST_DIMENSIONS} dimensions")
    dtype = DTYPES[code]
    # As in numpy: a 0 makes an array empty, but the other numbers must still be possible.
    if dtype.itemsize * prod(n for n in shape if n) > np.iinfo(np.intp).max:
        raise ValueError(f"array {short(name)} has the shape {short(shape)}, which is too large")
    return dtype, shape


def _view(
    name: str, data: bytes, dtype: np.dtype[Any], shape: list[int], start: int
) -> NDArray[Any]:
    array: NDArray[Any] = np.ndarray(shape, dtype, buffer=data, offset=start)
    if dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
        raise ValueError(f"array {short(name)} holds truth values other than 0 and 1")
    return array

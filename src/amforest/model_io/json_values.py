"""Plain Python values as JSON and back: labels, categories, names and parameters in a model file.

JSON has no bytes, tuples, dates, arrays, infinities, or keys but text: these become an object with
one key, their kind. Only these kinds are read; nothing is imported and no code is run.
"""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from datetime import date, datetime
from reprlib import repr as short
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray

Json = Any  # None, bool, int, float, str, and lists and dicts of such

MOST_OF_A_HASH = 100  # values of one hash, in a table of them
_MT19937_WORDS = 624


def to_json(value: Any, name: str) -> Json:
    """Convert a value; TypeError if a model file cannot hold it.

    Parameters
    ----------
    value : object
        The value. Scalars of numpy become those of Python.
    name : str
        Its name in an error.
    """
    if isinstance(value, np.generic) and not isinstance(value, (str, bytes)):
        value = value.item()
    if value is None or type(value) in (bool, int):
        return value
    if (tagged := _TAGGED.get(type(value))) is not None:
        return {type(value).__name__: tagged(value, name)}
    for kind, convert in _WRITERS:
        if isinstance(value, kind):
            return convert(value, name)
    if hasattr(value, "__array__"):
        return to_json(np.asarray(value), name)
    raise _unknown(value, name)


def _items(values: Iterable[Any], name: str) -> list[Json]:
    return [to_json(item, name) for item in values]


def _array_to_json(array: np.ndarray[Any, Any], name: str) -> Json:
    kind = array.dtype.kind
    if kind not in "biufUO":
        raise _unknown(array, name)
    return {"array": [kind if kind in "UO" else array.dtype.str, _items(array.tolist(), name)]}


def _unknown(value: Any, name: str) -> TypeError:
    return TypeError(
        f"{name} holds {value!r} of type {type(value).__name__}, which a model file cannot hold: "
        "it has text, numbers, bools, bytes, dates, and tuples, lists, dicts, sets and arrays of "
        "such"
    )


def from_json(value: Json) -> Any:
    """Convert the result of `to_json` back; ValueError or TypeError if it is none."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise ValueError("an object must have one key, its kind")
    ((kind, content),) = value.items()
    if kind not in _READERS:
        raise ValueError(f"{kind!r} is not a kind of value")
    return _READERS[kind](content)


def floats_to_json(values: ArrayLike) -> Json:
    """Convert numbers to their shape and their bytes: shorter and faster than a list, and exact."""
    array = np.asarray(values, dtype="<f8")
    return [list(array.shape), base64.b64encode(array.tobytes()).decode("ascii")]


def floats_from_json(value: Json, shape: tuple[int | None, ...]) -> NDArray[np.float64]:
    """Convert the result of `floats_to_json` back; ValueError or TypeError if it is none.

    Where `shape` is None, any length is right.
    """
    dimensions, text = as_kind(value, list)
    flat = np.frombuffer(base64.b64decode(as_kind(text, str), validate=True), dtype="<f8")
    array = flat.astype(np.float64).reshape([as_kind(n, int) for n in as_kind(dimensions, list)])
    if array.ndim != len(shape) or any(
        n not in (None, found) for n, found in zip(shape, array.shape, strict=True)
    ):
        raise ValueError(f"an array has the shape {array.shape}, not {shape}")
    return array


def hashables(values: Json) -> list[Hashable]:
    """Convert a list of values, all of which must be different and hashable."""
    items = [from_json(item) for item in as_kind(values, list)]
    if not all(map(_is_plain, items)):
        raise ValueError("values must be text, numbers, bools, bytes, dates or tuples of such")
    return list(_different(items))


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, frozenset)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str, bytes, date))


def _different(items: list[Any]) -> dict[Any, None]:
    """Return the items as keys, in order; refuse many of the same hash, which make a dict slow."""
    if max(Counter(map(hash, items)).values(), default=0) > MOST_OF_A_HASH:
        raise ValueError("too many values have the same hash")
    different = dict.fromkeys(items)
    if len(different) < len(items):
        raise ValueError("values must be different from one another")
    return different


def as_kind(value: Any, *kinds: type) -> Any:
    """Return the value if its type is one of `kinds` (a bool is not an int); else TypeError."""
    if type(value) not in kinds:
        names = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{type(value).__name__} instead of {names}")
    return value


def has_keys(part: Any, keys: tuple[str, ...]) -> None:
    """Raise unless it is a dict with these keys, in this order."""
    if list(as_kind(part, dict)) != list(keys):
        raise ValueError(f"the keys are {short(list(part))}, not {list(keys)}")


def entry(part: dict[str, Any], key: str, *kinds: type) -> Any:
    """Return an entry of a dict, whose type must be one of `kinds`."""
    return as_kind(part[key], *kinds)


def _dict(content: Json) -> dict[Any, Any]:
    pairs = [_list(pair) for pair in as_kind(content, list)]
    keys = hashables([key for key, _ in as_kind(content, list)])
    return dict(zip(keys, (value for _, value in pairs), strict=True))


def _float(content: Json) -> float:
    return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[as_kind(content, str)]


def _list(content: Json) -> list[Any]:
    return [from_json(item) for item in as_kind(content, list)]


def _array(content: Json) -> np.ndarray[Any, Any]:
    dtype, values = as_kind(content, list)
    if as_kind(dtype, str) not in _DTYPES:
        raise ValueError(f"{dtype!r} is not a dtype of arrays")
    items = from_json(as_kind(values, list))
    return text_array(items) if dtype == "U" else array_of(items, dtype)


def array_of(items: list[Any], dtype: str) -> np.ndarray[Any, Any]:
    """Return numbers, bools or objects as an array; FloatingPointError if one is too large."""
    with np.errstate(all="raise"):
        return np.array(items, dtype=dtype)


def text_array(texts: list[str]) -> np.ndarray[Any, Any]:
    """Return strings as an array; of objects if one is so long that it would widen all others."""
    lengths = [len(as_kind(text, str)) for text in texts]
    is_wide = len(texts) * max(lengths, default=0) > 16 * sum(lengths) + 100_000
    return np.array(texts, dtype=object if is_wide else None if texts else "U1")


def _generator_to_json(generator: RandomState) -> Json:
    state: Any = generator.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        raise TypeError("random_state must be a RandomState of the generator MT19937")
    key, pos = state["state"]["key"], state["state"]["pos"]
    return [key.tolist(), int(pos), int(state["has_gauss"]), to_json(state["gauss"], "gauss")]


def _generator(content: Json) -> RandomState:
    words, pos, has_gauss, gauss = as_kind(content, list)
    key = np.array([as_kind(word, int) for word in as_kind(words, list)], dtype=np.uint32)
    # numpy reads at the position without checking it.
    if len(key) != _MT19937_WORDS or not 0 <= as_kind(pos, int) <= _MT19937_WORDS:
        raise ValueError("a RandomState has 624 words and a position among them")
    generator = RandomState()
    generator.set_state(("MT19937", key, pos, as_kind(has_gauss, int), as_kind(gauss, float)))
    return generator


# Of a subclass of str or float, only the value is kept.
_Writer = Callable[[Any, str], Json]
_WRITERS: tuple[tuple[type, _Writer], ...] = (
    (str, lambda value, _: str(value)),
    (float, lambda x, _: float(x) if math.isfinite(x) else {"float": repr(float(x))}),
    (bytes, lambda value, _: {"bytes": base64.b64encode(value).decode("ascii")}),
    (list, _items),
    (RandomState, lambda value, _: {"RandomState": _generator_to_json(value)}),
    (np.ndarray, _array_to_json),
)
_TAGGED: dict[type, _Writer] = {
    datetime: lambda value, _: value.isoformat(),
    date: lambda value, _: value.isoformat(),
    tuple: _items,
    dict: lambda pairs, name: [_items(pair, name) for pair in pairs.items()],
    # A set has no order.
    set: lambda values, name: sorted(_items(values, name), key=repr),
    frozenset: lambda values, name: sorted(_items(values, name), key=repr),
}
_DTYPES = frozenset(
    {"U", "O", "|b1", "|i1", "|u1"} | {f"<{kind}{size}" for kind in "iuf" for size in (2, 4, 8)}
)
_READERS: dict[str, Any] = {
    "float": _float,
    "bytes": lambda content: base64.b64decode(as_kind(content, str), validate=True),
    "date": lambda content: date.fromisoformat(as_kind(content, str)),
    "datetime": lambda content: datetime.fromisoformat(as_kind(content, str)),
    "dict": _dict,
    "tuple": lambda content: tuple(_list(content)),
    "set": lambda content: set(_different(_list(content))),
    "frozenset": lambda content: frozenset(_different(_list(content))),
    "RandomState": _generator,
    "array": _array,
}

"""Model files, and ways to damage them: cut, flipped, or changed at random in what they mean."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest import (
    AdaptiveAMFClassifier,
    AdaptiveAMFRegressor,
    AMFClassifier,
    AMFRegressor,
    river,
)
from amforest.model_io import safetensors_bytes

SEED = int(os.environ.get("TORTURE_SEED", "0"))
BLANK = b"0" * 64

Arrays = dict[str, NDArray[Any]]


# The files


def classifier() -> Any:
    """With categories, gaps, a late class, boxes and a leaf of several classes."""
    model = AMFClassifier(2, categorical_features=[0], random_state=1)
    rows = [("a", 0.5, 1.0), ("b", math.nan, 0.0), ("a", 0.25, math.nan), (None, 1.5, 2.0)]
    rows += [("c", 0.5, 1.0), ("b", -1.0, 3.0), ("c", 0.5, 1.0), ("a", 0.75, 1.0)]
    for x, y in zip(rows, "nynyzznn", strict=True):
        model.learn_one(x, y)
    return model


# Few trees, which are regrown soon, for many rows.
ADAPTIVE = {"n_estimators": 1, "memories": (8,), "honest_memories": (None,), "row_limit": 32}
SLOW = {"n_candidates": 1_500}


def adaptive() -> Any:
    """With categories, gaps and a late class, in the middle of regrowths."""
    model = AdaptiveAMFClassifier(**ADAPTIVE, **SLOW, categorical_features=[0], random_state=1)
    for i in range(26):
        x = ["abc"[i % 3] if i % 5 else None, i * 0.618 % 1]
        model.learn_one(x, "nyz"[i * i % (2 + i // 20)], [1.0, 0.5][i % 7 == 0])
    assert model._core.state()["trees"]["is_regrown"].sum() > 1
    return model


def adaptive_regressor() -> Any:
    """With linear bases, categories and gaps, in the middle of regrowths."""
    few = {"n_estimators": 1, "memories": (None, 15), "row_limit": 64, "n_candidates": 10_000}
    model = AdaptiveAMFRegressor(**few, categorical_features=[0], random_state=1)
    for i in range(32):
        x = ["abc"[i % 3] if i % 5 else None, i * 0.618 % 1]
        model.learn_one(x, i * i % 7 + 100.0, [1.0, 0.5][i % 7 == 0])
    assert model._core.state()["trees"]["is_regrown"].any()
    return model


def regressor() -> Any:
    """Of the unrestricted partition, with the loss of test-then-train."""
    bounds = [[-1.0, 2.0], [0.0, 1.0]]
    model = AMFRegressor(2, partition="unrestricted", bounds=bounds, random_state=2)
    X = [[0.0, 0.5], [1.5, 0.25], [-0.5, 1.0], [0.0, 0.5]]
    model.partial_fit_predict(X, [1.0, 2.0, -1.0, 3.0])
    return model


def river_classifier() -> Any:
    """With weights, names, and features that come and go."""
    model = river.AMFClassifier(2, seed=3, max_nodes=40)
    rows = [{"a": 1.0, "b": "u"}, {"a": 2.0}, {"c": 2, "b": "v"}, {}, {"a": 1.5, "b": "u", "c": 0}]
    for x, y, w in zip(rows, [True, False, True, True, False], [1, 0.5, 2, 1, 1], strict=True):
        model.learn_one(x, y, w)
    return model


def river_adaptive() -> Any:
    """With features that come late, also after trees were regrown."""
    model = river.AdaptiveAMFClassifier(**ADAPTIVE, seed=3)
    for i in range(20):
        x = {"a": i * 0.618 % 1} | ({"b": "uv"[i % 2]} if i > 3 else {})
        model.learn_one(x | ({"c": float(i)} if i > 18 else {}), i % 3 == 0)
    return model


@dataclass(frozen=True)
class Original:
    """A model file that is whole, and what is in it."""

    name: str
    data: bytes
    text: str  # the document
    arrays: Arrays


@cache
def originals() -> tuple[Original, ...]:
    return tuple(
        original(make.__name__, make().to_bytes())
        for make in (
            *(classifier, regressor, river_classifier),
            *(adaptive, adaptive_regressor, river_adaptive),
        )
    )


def original(name: str, data: bytes) -> Original:
    arrays, metadata = safetensors_bytes.unpack(data)
    return Original(name, data, metadata["amforest"], arrays)


# Damage


def repaired(data: bytes) -> bytes | None:
    """Put in the digest of what is there now; None if there is no place for one."""
    end = 8 + int.from_bytes(data[:8], "little")
    start = data.rfind(b'"sha256":"', 0, end) + len(b'"sha256":"')
    if start < len(b'"sha256":"') or len(data) < start + len(BLANK):
        return None
    head, tail = data[:start], data[start + len(BLANK) :]
    return head + hashlib.sha256(head + BLANK + tail).hexdigest().encode() + tail


def both(data: bytes) -> Iterator[bytes]:
    """Yield a damaged file, and the same with its digest repaired."""
    yield data
    mended = repaired(data)
    if mended is not None:
        yield mended


def truncated(file: Original, length: int) -> bytes:
    return file.data[:length]


def flipped(file: Original, bit: int) -> bytes:
    changed = bytearray(file.data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def changed(file: Original, seed: int) -> bytes:
    """Change some bytes at random, or what they mean: then the rest of the file fits them."""
    draw = random.Random(f"{SEED} {file.name} {seed}")
    if draw.random() < 0.25:
        return noisy(draw, file)
    document, arrays = json.loads(file.text), dict(file.arrays)
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        draw.choice(CHANGES)(draw, document, arrays)
    text = json.dumps(document, separators=(",", ":"))
    if draw.random() < 0.1:
        text = other_number(draw, text)
    digest = re.search(b'"sha256":"([0-9a-f]{64})"', file.data)
    assert digest is not None
    metadata = {"amforest": text, "sha256": digest[1].decode()}
    return b"".join(safetensors_bytes.pack(arrays, metadata))


def noisy(draw: random.Random, file: Original) -> bytes:
    """Change, insert or remove bytes anywhere, or among the arrays."""
    data = bytearray(file.data)
    first = draw.choice([0, 8 + int.from_bytes(data[:8], "little")])
    for _ in range(draw.randint(1, 4)):
        at, size = draw.randrange(first, len(data)), draw.randint(1, 8)
        way = draw.randrange(8)
        if way == 0:
            data[at:at] = data[at - size : at]
        elif way == 1 and len(data) - size > first + 8:
            del data[at : at + size]
        elif way == 2:
            other = draw.randrange(first, len(data) - size)
            data[at : at + size] = data[other : other + size]
        else:
            data[at : at + size] = draw.randbytes(size)
    return bytes(data)


# Values in the document

VALUES: list[Any] = [
    *(None, True, False, 0, 1, 2, 3, -1, 65_535, 65_536, 2**31 - 1, 2**31, 2**32, 2**63, 2**64),
    *(10**30, 0.0, -0.0, 0.5, 1.5, 1e-320, 1e75, 1e100, 1e308, "", "a", "u\0", "\ud800", "nan"),
    *("U", "O", "|b1", "<f2", "<f4", "<i8", "restricted", "unrestricted", "AMFRegressor"),
    *([], {}, [0], [[]], [0.0, 1.0], [[0.0, 1.0]] * 2, ["a", "b"], ["a"] * 2, [None], [1, 1.5]),
    *({"float": "nan"}, {"float": "inf"}, {"float": "-inf"}, {"float": "1"}, {"tuple": []}),
    *({"tuple": [0.5, 0.0]}, {"tuple": [0.9, 1.0]}, {"tuple": [1, [2]]}, {"set": [1, "a"]}),
    *({"frozenset": [1]}, {"bytes": "AA=="}, {"bytes": "?"}, {"date": "2020-02-30"}),
    *({"date": "2020-02-29"}, {"datetime": "2020-02-29T12:00:00+01:00"}, {"array": ["U", ["a"]]}),
    *({"array": ["<f4", [1e300]]}, {"array": ["|u1", [-1]]}, {"array": ["O", [None, "a"]]}),
    *({"array": ["<i8", [[1, 2], [3, 4]]]}, {"array": ["|b1", [True]]}, {"object": 1}),
    {"RandomState": [[1] * 624, 624, 0, 0.0]},
    {"RandomState": [[1] * 624, 625, 0, 0.0]},
    {"RandomState": [[2**32] * 624, 0, 2, {"float": "nan"}]},
]
NUMBERS = ["1e999", "-1e999", "1e-400", "NaN", "-Infinity", "-0", "00", "1E2", "1.", "9" * 400]
NUMBERS += ["9" * 5000, "1e1000000", "0.1e1", '""', "[" * 2000, '{"float":"inf"}']


def places(document: Any) -> list[tuple[Any, Any]]:
    """All items of all objects and lists: the container and the key."""
    found, rest = [], [document]
    while rest:
        container = rest.pop()
        keys = container if isinstance(container, dict) else range(len(container))
        for key in keys:
            found.append((container, key))
            if isinstance(container[key], (dict, list)):
                rest.append(container[key])
    return found


def another_value(draw: random.Random, document: Any, _: Arrays) -> None:
    everywhere = places(document)
    container, key = draw.choice(everywhere)
    value = container[key]
    if isinstance(value, (int, float)) and draw.random() < 0.5:
        more = [value + 1, value - 1, -value, 2 * value, value + 0.5, str(value), [value]]
        container[key] = draw.choice(more)
    elif draw.random() < 0.2:
        other, place = draw.choice(everywhere)
        container[key] = json.loads(json.dumps(other[place]))
    else:
        container[key] = json.loads(json.dumps(draw.choice(VALUES)))


def another_structure(draw: random.Random, document: Any, _: Arrays) -> None:
    container, key = draw.choice(places(document))
    way = draw.randrange(4)
    if isinstance(container, list):
        item = container[key]
        if way == 0:
            del container[key]
        else:
            container.insert(draw.randrange(len(container)), item if way < 3 else None)
        return
    items = list(container.items())
    if way == 0:
        del items[draw.randrange(len(items))]
    elif way == 1:
        items.append((draw.choice(["", "a", "x" * 100]), draw.choice(VALUES)))
    else:
        draw.shuffle(items)
    container.clear()
    container.update(items)


def other_number(draw: random.Random, text: str) -> str:
    """Write a number, or a bracket of a list, as it should not be."""
    found = draw.choice(list(re.finditer(r"-?\d+(\.\d+)?(e-?\d+)?|\[\]", text)))
    return text[: found.start()] + draw.choice(NUMBERS) + text[found.end() :]


def unfitted(draw: random.Random, document: Any, arrays: Arrays) -> None:
    """Take the forest away, and leave the rest."""
    forest = document.get("forest")
    if not isinstance(forest, dict):
        return
    forest["fitted"] = forest["core"] = None
    arrays.clear()
    another_value(draw, document, arrays)


# Values in the arrays

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 5e-324, 1e30, 2.0**100, 2.0**101, 1e75, 3e75, 1e300]
FLOATS += [math.nan, math.inf, -math.inf, 2.0**-128, 2.0**128, 2.0**53, 1e308, 1 + 2**-20]


def another_element(draw: random.Random, document: Any, arrays: Arrays) -> None:
    names = [name for name, array in arrays.items() if array.size]
    if not names:
        return
    name = draw.choice(names)
    flat = arrays[name].copy().reshape(-1)
    for _ in range(draw.choice([1, 1, 2, 4])):
        flat[draw.randrange(len(flat))] = element(draw, flat)
    arrays[name] = flat.reshape(arrays[name].shape)


def element(draw: random.Random, flat: NDArray[Any]) -> Any:
    own = draw.choice(flat)
    if draw.random() < 0.4:
        return own
    with np.errstate(all="ignore"):
        if flat.dtype.kind == "f":
            near = np.nextafter(own, flat.dtype.type(math.copysign(math.inf, draw.random() - 0.5)))
            return draw.choice([near, -own, own * 2, *np.array(FLOATS).astype(flat.dtype)])
        limits = np.iinfo(flat.dtype)
        whole = [0, 1, 2, 3, limits.max, limits.min, limits.max // 2 + 1, int(own) + 1]
        return np.uint64(draw.choice(whole) % 2**64).astype(flat.dtype)


def another_shape(draw: random.Random, document: Any, arrays: Arrays) -> None:
    """Repeat, remove or exchange rows; of one array, or of all that are as long."""
    if not arrays:
        return
    names = list(arrays)
    name = draw.choice(names)
    array, way = arrays[name], draw.randrange(9)
    if way == 0:
        del arrays[name]
    elif way == 1:
        arrays[name], arrays[other] = arrays[other := draw.choice(names)], array
    elif way == 2:
        arrays[name] = array[..., None] if array.ndim == 1 else array.reshape(-1)
    elif way == 3:
        kinds = [dtype for dtype in safetensors_bytes.DTYPES.values() if dtype.kind != "b"]
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(draw.choice(kinds))
    elif way == 4:
        arrays["more"] = array
    elif way == 5:
        nothing_of_much(draw, document, arrays)
    elif len(array):
        i, j = (draw.randrange(len(array)) for _ in "ij")
        rows = np.arange(len(array))
        some = [np.append(rows, i), np.delete(rows, i), np.insert(rows, i, j), np.roll(rows, i)]
        order = draw.choice(some)
        alike = [other for other in names if len(arrays[other]) == len(array)]
        for other in alike if way > 6 else [name]:
            arrays[other] = arrays[other][order]


def nothing_of_much(draw: random.Random, document: Any, arrays: Arrays) -> None:
    """Say that rows are endless, where there is none of them."""
    many = draw.choice([10**5, 10**7, 2**31, 2**32, 2**40, 2**58])
    sizes = {"n_numbers": ["lower", "upper"], "n_classes": ["counts", "mixed"]}
    size = draw.choice(list(sizes))
    for name in sizes[size]:
        if name in arrays:
            arrays[name] = np.empty((0, many), arrays[name].dtype)
    forest = document.get("forest")
    if isinstance(forest, dict) and isinstance(core := forest.get("core"), dict):
        core |= {size: many} | ({"capacity": many} if size == "n_classes" else {})


CHANGES: list[Callable[[random.Random, Any, Arrays], None]] = [
    *[another_value] * 5,
    another_structure,
    *[another_element] * 6,
    *[another_shape] * 2,
    unfitted,
]

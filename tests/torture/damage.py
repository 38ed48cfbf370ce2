"""Model files that are cut, flipped and changed at random: rejected, or valid and safe."""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import os
import random
import re
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from invariants import check_trees
from numpy.typing import NDArray
from result import Report, Result

from amforest import AMFClassifier, AMFRegressor, _safetensors, river
from amforest.persistence import ModelFormatError, from_bytes

TITLE = "damaged model files"
SEED = int(os.environ.get("TORTURE_SEED", "0"))
N_WORKERS = 2
SECONDS = 10  # that one damaged file may take
SPARE = 256 << 20  # bytes of address space that all of them may take beside the process itself
MOST_RESIDENT = 512 << 20  # bytes
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
        for make in (classifier, regressor, river_classifier)
    )


def original(name: str, data: bytes) -> Original:
    arrays, metadata = _safetensors.unpack(data)
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
    return b"".join(_safetensors.pack(arrays, metadata))


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
        kinds = [dtype for dtype in _safetensors.DTYPES.values() if dtype.kind != "b"]
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
]


# What a file that is not rejected must do


def survives(data: bytes) -> bool:
    """Tell whether a file is accepted; whatever goes wrong is raised."""
    try:
        model = from_bytes(data)
    except ModelFormatError:
        return False
    exercise(model)
    return True


def exercise(model: Any) -> None:
    """Forecast, learn, save and load."""
    forest = model._model if hasattr(model, "_model") else model
    if not forest._has_learnt():
        assert_saved(model)
        return
    check_trees(model)
    rows, labels = probes(model, forest)
    check_forecasts(model, rows)
    check_batch(model, rows)
    learn(model, rows, labels)
    if forest is not model:
        learn(model, [{"a feature that is new": 1.0}], labels[:1])
    check_forecasts(model, rows)
    copy = assert_saved(model)
    for x in rows:
        assert forecast(copy, x).tobytes() == forecast(model, x).tobytes()


def assert_saved(model: Any) -> Any:
    saved = model.to_bytes()
    copy = from_bytes(saved)
    assert copy.to_bytes() == saved
    return copy


def probes(model: Any, forest: Any) -> tuple[list[Any], list[Any]]:
    """Some rows that the model must know what to do with, and labels that it knows."""
    numbers = [0.25, -3.0, math.nan, 1e30]
    if forest._core.bounds is not None:
        low, high = forest._core.bounds
        rows: list[Any] = [(low + (high - low) * np.float32(k / 3)).tolist() for k in range(4)]
    elif forest is not model:
        known = river_categories(model)
        values = [(name, known.get(name, numbers)) for name in model._columns.of]
        rows = [{name: at(k, some) for name, some in values} for k in range(4)]
    else:
        lists = iter(forest._categories.lists() if forest._categories else ())
        columns = [next(lists) if is_one else numbers for is_one in forest.is_categorical_]
        rows = [[at(j + k, values) for j, values in enumerate(columns)] for k in range(4)]
    labels = list(getattr(forest, "_index_of", (1.0, -1.0, 0.5)))
    return rows, [labels[k % len(labels)] for k in range(4)]


def at(k: int, values: list[Any]) -> Any:
    """Return one of the values, or None after the last."""
    return [*values, None][k % (len(values) + 1)]


def river_categories(model: Any) -> dict[Any, list[Any]]:
    columns = model._columns
    return dict(zip(columns.categorical, columns.categories.lists(), strict=True))


def forecast(model: Any, x: Any) -> NDArray[np.float64]:
    if not hasattr(model, "predict_proba_one"):
        return np.array([model.predict_one(x)])
    probabilities = model.predict_proba_one(x)
    if isinstance(probabilities, dict):
        probabilities = np.array(list(probabilities.values()))
    assert abs(probabilities.sum() - 1) < 1e-5
    assert (probabilities >= 0).all()
    return probabilities


def check_forecasts(model: Any, rows: list[Any]) -> None:
    for x in rows:
        assert np.isfinite(forecast(model, x)).all()
    if hasattr(model, "stats"):
        model.stats()


def check_batch(model: Any, rows: list[Any]) -> None:
    """A batch is forecast as its rows are."""
    if isinstance(rows[0], dict):
        if not all(isinstance(name, str) for name in rows[0]):
            return  # to pandas, None and NaN are the same name
        batch = model.predict_proba_many(pd.DataFrame(rows, dtype=object)).to_numpy()
    else:
        ask = model.predict_proba if hasattr(model, "predict_proba") else model.predict
        batch = ask(table(model, rows)).reshape(len(rows), -1)
    for x, expected in zip(rows, batch, strict=True):
        assert forecast(model, x).tobytes() == expected.tobytes()


def table(model: Any, rows: list[Any]) -> Any:
    X = np.empty((len(rows), len(rows[0])), dtype=object)
    X[:] = rows
    if model._categories is None:
        X = X.astype(np.float64)
    names = getattr(model, "feature_names_in_", None)
    return X if names is None else pd.DataFrame(X, columns=names)


def learn(model: Any, rows: list[Any], labels: list[Any]) -> None:
    for x, y in zip(rows, labels, strict=True):
        try:
            model.learn_one(x, y)
        except ValueError as error:
            if not re.search("add up to too much|at most 2", str(error)):
                raise  # there is a limit to what a forest can count, and the file is there


# All of it, in processes of their own


@dataclass(frozen=True)
class Kind:
    """A kind of damage: how many there are, and the number-th of them."""

    name: str
    count: int
    make: Callable[[int], bytes]


def kinds(n_random: int, stride: int) -> list[Kind]:
    """Of what can be listed, each stride-th."""
    files = originals()

    def listed(name: str, make: Callable[[Original, int], bytes], per_byte: int) -> Kind:
        every = [(file, i) for file in files for i in range(0, per_byte * len(file.data), stride)]
        return Kind(name, len(every), lambda number: make(*every[number]))

    return [
        listed("truncation at every offset", truncated, 1),
        listed("every single-bit flip", flipped, 8),
        Kind("random changes", n_random, lambda n: changed(files[n % len(files)], n)),
    ]


@dataclass
class Tally:
    """What one process has done, where its parent can see it."""

    current: Any = field(default_factory=lambda: SPAWN.Value("q", -1, lock=False))
    inputs: Any = field(default_factory=lambda: SPAWN.Value("q", 0, lock=False))
    accepted: Any = field(default_factory=lambda: SPAWN.Value("q", 0, lock=False))
    resident: Any = field(default_factory=lambda: SPAWN.Value("q", 0, lock=False))


SPAWN = multiprocessing.get_context("spawn")


def work(which: int, shape: tuple[int, int], first: int, tally: Tally, wrong: Any) -> None:
    """Damage the first-th file and each N_WORKERS-th after it; say what is wrong."""
    kind = kinds(*shape)[which]
    for file in originals():
        assert survives(file.data)  # also loads all that is loaded when it is first needed
    bound_memory()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(first, kind.count, N_WORKERS):
            tally.current.value = number
            for data in both(kind.make(number)):
                signal.alarm(SECONDS)  # ends the process
                tally.inputs.value += 1
                try:
                    tally.accepted.value += survives(data)
                except Exception as error:
                    wrong.put((number, told(error)))
    signal.alarm(0)
    tally.resident.value = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def told(error: Exception) -> str:
    """Say what went wrong, and where."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    text = str(error).strip().split("\n")[0][:200] or where.line
    return f"{type(error).__name__} in {where.name}: {text}"


def bound_memory() -> None:
    """Let the process have little more memory than it has now."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    most = pages * resource.getpagesize() + SPARE
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def run_kind(which: int, shape: tuple[int, int], report: Report) -> Result:
    kind, began = kinds(*shape)[which], time.monotonic()
    wrong, failures = SPAWN.SimpleQueue(), dict[int, str]()
    tallies = [Tally() for _ in range(N_WORKERS)]
    start = partial(started, which, shape, wrong)
    workers = [start(first, tally) for first, tally in enumerate(tallies)]
    while not all(worker.exitcode == 0 for worker in workers) or not wrong.empty():
        time.sleep(0.2)
        for i, (worker, tally) in enumerate(zip(workers, tallies, strict=True)):
            if worker.exitcode:  # killed: by what it read, or because it took too long
                number = tally.current.value
                failures[number] = f"process ended with {worker.exitcode}"
                workers[i] = start(number + N_WORKERS, tally)
        while not wrong.empty():
            number, message = wrong.get()
            failures.setdefault(number, message)
        report(
            kind.name,
            min(sum(t.current.value // N_WORKERS for t in tallies), kind.count),
            kind.count,
        )
    report(kind.name, kind.count, kind.count)
    while not wrong.empty():
        number, message = wrong.get()
        failures.setdefault(number, message)
    return summed_up(kind, tallies, failures, time.monotonic() - began)


def started(which: int, shape: tuple[int, int], wrong: Any, first: int, tally: Tally) -> Any:
    process = SPAWN.Process(target=work, args=(which, shape, first, tally, wrong))
    process.start()
    return process


def summed_up(kind: Kind, tallies: list[Tally], failures: dict[int, str], seconds: float) -> Result:
    resident = max(tally.resident.value for tally in tallies)
    accepted = sum(tally.accepted.value for tally in tallies)
    inputs = sum(tally.inputs.value for tally in tallies)
    details = f"{inputs:,} inputs, with and without the digest repaired: {accepted:,} valid and "
    details += f"safe, {inputs - accepted:,} rejected; {resident >> 20} MB; {seconds:.0f} s"
    if failures:
        details = "\n".join([f"{len(failures):,} failed", *grouped(failures), details])
    passed = not failures and inputs >= kind.count and resident < MOST_RESIDENT
    return Result(kind.name, kind.count, "rejected, or valid and safe", passed, details)


def grouped(failures: dict[int, str]) -> list[str]:
    """Tell each kind of failure once, with the first input that had it."""
    kinds: dict[str, list[int]] = {}
    for number, message in sorted(failures.items()):
        kinds.setdefault(re.sub(r"[\d.]+(e[+-]?\d+)?", "…", message), []).append(number)
    by_count = sorted(kinds.values(), key=len, reverse=True)
    return [f"{len(some):,} like #{some[0]}: {failures[some[0]]}" for some in by_count[:20]]


def run(report: Report, quick: bool) -> list[Result]:
    shape = (10_000, 11) if quick else (1_000_000, 1)
    return [run_kind(which, shape, report) for which in range(len(kinds(*shape)))]

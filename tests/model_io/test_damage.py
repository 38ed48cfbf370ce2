"""Whatever the bytes, loading rejects them or gives a valid forest: the short form of `torture`."""

import json
import math
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import PCG64, RandomState

from amforest import AdaptiveAMFClassifier, AMFClassifier, AMFRegressor, load, river, save
from amforest._forest.core_handle import restore_core
from amforest.baselines import MondrianForestClassifier
from amforest.model_io import model_file, safetensors_bytes
from amforest.model_io.model_file import ModelFormatError, from_bytes

sys.path.append(str(Path(__file__).parents[1] / "torture"))
import changes
import damage
import invariants

FILES = {file.name: file for file in changes.originals()}


@pytest.fixture(autouse=True)
def _nothing_goes_on_for_ever():
    """Warnings are errors, and what takes too long ends the process: no exception could."""
    signal.alarm(300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    signal.alarm(0)


@pytest.fixture
def little_memory():
    """Let the process have 256 MB more than it has now."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (256 << 20), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


# At random


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_files_are_valid_as_they_are(file):
    assert len(file.data) < (18_432 if "adaptive" in file.name else 4608)
    assert damage.survives(file.data)
    assert changes.repaired(file.data) == file.data


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_every_truncation_is_rejected(file):
    for length in range(len(file.data)):
        for data in changes.both(changes.truncated(file, length)):
            assert not damage.survives(data)


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_flipped_bits_are_rejected_unless_the_digest_is_repaired(file):
    accepted = 0
    for bit in range(0, 8 * len(file.data), 197 if "adaptive" in file.name else 37):
        flipped = changes.flipped(file, bit)
        assert not damage.survives(flipped)
        mended = changes.repaired(flipped)
        accepted += mended is not None and damage.survives(mended)
    assert accepted > 10  # the tree's generators, for one, may be any


@pytest.mark.parametrize(
    "part", [0, 1, *(pytest.param(part, marks=pytest.mark.slow) for part in range(2, 6))]
)
def test_random_changes_are_rejected_or_give_a_valid_forest(part):
    accepted = 0
    for number in range(part * 300, (part + 1) * 300):
        file = list(FILES.values())[number % len(FILES)]
        for data in changes.both(changes.changed(file, number)):
            accepted += damage.survives(data)
    assert 10 < accepted < 200


# On purpose


def resealed(file: str, change: Callable[[Any, dict[str, Any]], None], text: Any = None) -> bytes:
    """Change a file's document and arrays; its digest is right."""
    document, arrays = json.loads(FILES[file].text), dict(FILES[file].arrays)
    change(document, arrays)
    written = json.dumps(document, separators=(",", ":"))
    if text is not None:
        assert text[0] in written
        written = written.replace(*text)
    metadata = {"amforest": written, "sha256": "0" * 64}
    data = changes.repaired(b"".join(safetensors_bytes.pack(arrays, metadata)))
    assert data is not None
    return data


def put(value, *path):
    def change(document, arrays):
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


def endless(n_numbers):
    """No leaf at all, but each with very many numbers."""

    def change(document, arrays):
        document["forest"]["core"]["n_numbers"] = n_numbers
        document["forest"]["fitted"]["n_features"] = n_numbers + 1
        for side in ("lower", "upper"):
            arrays[side] = np.empty((0, n_numbers), np.float32)

    return change


def many_categories(document, arrays):
    """No leaf at all, but each with very many categories."""
    room = [65_535] * 20_000
    document["forest"]["core"]["categories"] = room
    document["forest"]["fitted"]["n_features"] = 2 + len(room)
    arrays["seen"] = np.empty((0, sum(1 + count for count in room) // 32 + 1), np.uint32)


def many_classes(document, arrays):
    """Trees of one leaf, as small as can be, for as many classes as can be."""
    n_trees, n_classes = 3_000, 30_000
    core = {"n_classes": n_classes, "capacity": 2 * n_classes, "n_samples": 1, "categories": [6]}
    document["forest"]["core"] |= core
    document["forest"]["fitted"] |= {
        "classes": {"dtype": "<i8", "labels": list(range(n_classes))},
        "categories": [["a", "b", "c"]],
    }
    arrays |= {
        "seeds": np.ones((n_trees, 4), np.uint64),
        "n_nodes": np.ones(n_trees, np.uint64),
        "n_rows": np.ones(n_trees, np.uint64),
        "feature_weights": np.zeros((0, 3), np.float32),
        "importance": np.zeros((0, 3)),
        "importance_weight": np.zeros(0),
        "importance_turn": np.zeros(0, np.uint8),
        "feature": np.full(n_trees, -1, np.int32),
        "n_samples": np.ones(n_trees, np.uint32),
        "label": np.zeros(n_trees, np.uint16),
        "kind": np.zeros(n_trees, np.uint8),
        "lower": np.zeros((n_trees, 2), np.float32),
        "upper": np.zeros((0, 2), np.float32),
        "seen": np.full((n_trees, 1), 2, np.uint32),
        "mixed": np.zeros((0, n_classes), np.uint32),
        "counts": np.zeros((0, n_classes), np.uint32),
    }
    for name in ("threshold", "split_time", "odds", "odds_scale"):
        arrays[name] = np.zeros(0, arrays[name].dtype)


def nobodys_categories(document, arrays):
    document["forest"]["fitted"] |= {"categories": None, "categorical": []}


def spare_split(document, arrays):
    """All splits on a number for which rows have room, but which no feature has."""
    core = document["forest"]["core"]
    last = len(core["categories"]) + core["n_numbers"] - 1
    arrays["feature"] = np.where(arrays["feature"] < 0, -1, last).astype(np.int32)


def unfitted(document, arrays):
    """Columns of a forest that is not there."""
    document["forest"]["fitted"] = document["forest"]["core"] = None
    arrays.clear()


FITTED, CORE = ("forest", "fitted"), ("forest", "core")
PARAMS, OPTIONS = ("forest", "params"), ("forest", "core", "options")
LABELS, PRIOR = (*FITTED, "classes"), (*OPTIONS, "split_prior")
GENERATOR = {"RandomState": [[1] * 624, 624, 0, 0.0]}
HOSTILE = {
    "options a list": ("classifier", put([], *OPTIONS)),
    "options nothing": ("classifier", put(None, *OPTIONS)),
    "classes that become equal": (
        "river_classifier",
        put({"dtype": "<i8", "labels": [1, 1.5]}, *LABELS),
    ),
    "classes that become true": ("river_classifier", put([True, "no"], *LABELS, "labels")),
    "classes that end in NUL": ("classifier", put(["n", "n\0", "z"], *LABELS, "labels")),
    "classes beyond float16": (
        "classifier",
        put({"dtype": "<f2", "labels": [1.0, 1e10, 2.0]}, *LABELS),
    ),
    "classes of NaN": (
        "river_classifier",
        put({"dtype": "<f8", "labels": [1.0, {"float": "nan"}]}, *LABELS),
    ),
    "classes of generators": (
        "river_classifier",
        put({"dtype": "O", "labels": [GENERATOR, "a"]}, *LABELS),
    ),
    "an array beyond float32": (
        "regressor",
        put({"array": ["<f4", [0, 1e300]]}, *PARAMS, "bounds"),
    ),
    "no threads": ("classifier", put(0, *PARAMS, "n_jobs")),
    "very many threads": ("classifier", put(10**30, *PARAMS, "n_jobs")),
    "a prior below 0": ("regressor", put({"tuple": [0.5, -1.0]}, *PRIOR)),
    "a prior of 0": ("regressor", put({"tuple": [0.5, 1e308]}, *PRIOR)),
    "a lifetime in a box": ("regressor", put(3.0, *OPTIONS, "lifetime")),
    "a discount in a box": ("regressor", put(3.0, *OPTIONS, "discount")),
    "categories of no feature": ("regressor", put([], *FITTED, "categories")),
    "categories that nobody knows": ("classifier", nobodys_categories),
    "a name twice": ("regressor", put(["a", "a"], *FITTED, "names")),
    "a name that nobody has": (
        "river_classifier",
        put([GENERATOR, "c"], "columns", "numbers"),
    ),
    "others before the last": ("classifier", put([[{"others": None}, "a"]], *FITTED, "categories")),
    "others alone": ("classifier", put([[{"others": None}]], *FITTED, "categories")),
    "others twice": ("classifier", put([2 * [{"others": None}]], *FITTED, "categories")),
    "river's categories twice": ("river_classifier", put([["u", "v"]], *FITTED, "categories")),
    "names within river's": ("river_classifier", put(list("abcde"), *FITTED, "names")),
    "categorical features that cannot be": (
        "river_classifier",
        put(5, "params", "categorical_features"),
    ),
    "columns without a forest": ("river_classifier", unfitted),
    "a split on a column that is not there": ("river_classifier", spare_split),
    "10^8 numbers nowhere": ("classifier", endless(10**8)),
    "2^40 numbers nowhere": ("classifier", endless(2**40)),
    "10^9 categories nowhere": ("classifier", many_categories),
    "an adaptive forest of 2^40 numbers nowhere": ("adaptive", endless(2**40)),
    "an adaptive forest of 60,000 trees nowhere": ("adaptive", put(20_000, *CORE, "n_estimators")),
    "an adaptive forest with a lifetime": ("adaptive", put(9.0, *OPTIONS, "lifetime")),
    "an adaptive forest with a discount": ("adaptive", put(9.0, *OPTIONS, "discount")),
    "an adaptive forest that extends": ("adaptive", put(True, *OPTIONS, "predict_extends")),
    "an adaptive forest of a larger store": ("adaptive", put(10**9, *CORE, "row_limit")),
    "an adaptive forest of a smaller store": ("adaptive", put(16, *CORE, "row_limit")),
    "an adaptive forest of few nodes": ("adaptive", put(100, *OPTIONS, "max_nodes")),
}


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(("file", "change"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_rejected_or_give_a_valid_forest(file, change):
    damage.survives(resealed(file, change))


def test_many_classes_in_many_trees_take_memory_in_proportion_to_the_file():
    data, before = resealed("classifier", many_classes), resident()
    with pytest.raises(ModelFormatError, match="too many trees for so many classes"):
        from_bytes(data)
    assert resident() - before < 50 * len(data)


def seconds_for_categories(values):
    data = resealed("classifier", put([values], *FITTED, "categories"))
    began = time.process_time()
    damage.survives(data)
    return time.process_time() - began


def test_categories_of_one_hash_take_no_longer_than_others():
    """Python finds k (2^61 - 1) at the same place for all k: a table of them is a list."""
    plain, same = list(range(8_000)), [k * (2**61 - 1) for k in range(8_000)]
    assert seconds_for_categories(same) < 0.2 + 50 * seconds_for_categories(plain)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_numbers_beyond_all_floats_are_rejected(number):
    for path in [(*FITTED, "progress", 1), (*OPTIONS, "step"), (*CORE, "dirichlet")]:
        data = resealed("classifier", put(123.25, *path), text=("123.25", number))
        with pytest.raises(ModelFormatError):
            from_bytes(data)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("regressor", put({"dtype": "U", "labels": ["a"]}, *LABELS)),
        ("river_classifier", put({"dtype": "O", "labels": [[1], [2]]}, *LABELS)),
        (
            "river_classifier",
            put({"dtype": "O", "labels": [{"tuple": [1]}, {"tuple": [2]}]}, *LABELS),
        ),
    ],
    ids=["of a regressor", "lists", "tuples"],
)
def test_classes_that_cannot_be_are_rejected(file, change):
    with pytest.raises(ModelFormatError, match="not a model of amforest"):
        from_bytes(resealed(file, change))


def with_value(name, value):
    """Put a value into a column, at its end."""

    def change(document, arrays):
        arrays[name] = arrays[name].copy()
        arrays[name].flat[-1] = value

    return change


def without(*names):
    def change(document, arrays):
        for name in names:
            del arrays[name]

    return change


IMPORTANCES = ("importance", "importance_weight", "importance_turn")


@pytest.mark.parametrize("file", ["adaptive", "adaptive_regressor"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        *((with_value("weight_history", x), "finite weights") for x in (math.nan, -math.inf)),
        (lambda _, arrays: arrays.update(weight_history=np.zeros(1)), "for each group"),
        (lambda _, arrays: arrays.update(weight_history=np.zeros(8_316)), "fit the rows"),
        (without("weight_history"), "missing"),
    ],
)
def test_a_history_of_weights_that_no_stream_gives_is_rejected(file, change, message):
    with pytest.raises(ModelFormatError, match=message):
        from_bytes(resealed(file, change))


@pytest.mark.parametrize("file", ["classifier", "regressor", "river_classifier", "adaptive"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        *((with_value("importance", x), "within ±1e200") for x in (math.nan, math.inf, -2e200)),
        (with_value("importance_weight", math.nan), "not be negative"),
        (with_value("importance_weight", -1.0), "not be negative"),
        (with_value("importance_weight", 1e-40), "not be negative"),
        (with_value("importance_weight", 2.0**55), "not be negative"),
        (with_value("importance_turn", 10), "importance_turn must be"),
        *((without(name), "missing") for name in (*IMPORTANCES,)),
    ],
)
def test_importances_that_no_stream_gives_are_rejected(file, change, message):
    with pytest.raises(ModelFormatError, match=message):
        from_bytes(resealed(file, change))


def test_importances_without_rows_are_rejected():
    def change(document, arrays):
        arrays["importance_weight"] = np.zeros_like(arrays["importance_weight"])
        arrays["importance"] = np.ones_like(arrays["importance"])

    with pytest.raises(ModelFormatError, match="0 where no row was credited"):
        from_bytes(resealed("classifier", change))


def test_a_turn_in_an_adaptive_forest_is_rejected():
    with pytest.raises(ModelFormatError, match="importance_turn must be 0"):
        from_bytes(resealed("adaptive", with_value("importance_turn", 1)))


# Files that are whole


def test_parameters_of_many_kinds_are_kept():
    bounds = pd.DataFrame({"low": [0.0], "high": [2.0]})
    model = AMFRegressor(partition="unrestricted", bounds=bounds)
    np.testing.assert_array_equal(from_bytes(model.to_bytes()).bounds, bounds)
    copy = from_bytes(
        AMFClassifier(classes=np.array([3, 1], np.uint16), step=np.float64(0.5)).to_bytes()
    )
    assert copy.classes.dtype == np.uint16
    assert copy.step == 0.5
    assert math.isinf(from_bytes(MondrianForestClassifier().to_bytes()).lifetime)


def test_parameters_that_a_file_cannot_hold_are_named():
    with pytest.raises(TypeError, match="random_state must be a RandomState of the generator MT"):
        AMFClassifier(random_state=RandomState(PCG64())).to_bytes()
    with pytest.raises(TypeError, match=r"classes holds .* which a model file cannot hold"):
        AMFClassifier(classes=np.array([1j, 2j])).to_bytes()
    model = river.AMFRegressor(seed=0)
    model.learn_one({range(3): 1.0}, 1.0)
    with pytest.raises(TypeError, match="a feature's name holds"):
        model.to_bytes()


def test_a_file_is_loaded_with_its_digest_or_without(tmp_path):
    model = changes.classifier()
    digest = save(model, tmp_path / "model.amf")
    for how in ({}, {"sha256": digest}, {"sha256": f" {digest.upper()}\n"}):
        assert load(tmp_path / "model.amf", **how).to_bytes() == model.to_bytes()


def test_what_else_is_in_a_file_is_checked_too():
    data = model_file.to_bytes(changes.classifier(), extra=[1, "a"])
    assert model_file.extra_of(data) == [1, "a"]
    with pytest.raises(ModelFormatError):
        model_file.extra_of(data[:-1])


# The checks check


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("parent", 0), ("depth", 5), ("left", 4), ("birth_time", -1.0), ("birth_time", np.nan)],
        *[("n_samples", 99), ("counts", 99), ("lower", 99.0), ("upper", -99.0), ("seen", True)],
        *[("share", 1.5), ("odds", 0.0), ("odds_scale", 0.5), ("threshold", 1e30)],
    ],
)
def test_the_invariants_notice_what_is_wrong(field, value):
    model = changes.classifier()
    invariants.check_trees(model)
    tables = [model.tree_table(i) for i in range(2)]
    for table in tables:
        inner = np.flatnonzero(table["left"] >= 0)[-1 if field != "threshold" else 0]
        table[field][inner if field != "lower" else table["left"][inner]] = value

    class Wrong:
        def __getattr__(self, name):
            return getattr(model, name)

        def tree_table(self, i):
            return tables[i]

    wrong = Wrong()
    with pytest.raises(AssertionError):
        invariants.check_trees(wrong)


@pytest.mark.parametrize(
    "column",
    [
        *("row_features", "row_labels", "row_weights", "mixer_weights", "due", "n_regrows"),
        *("number_keys", "has_numbers", "number_priors", "number_sizes", "number_values"),
        *("is_regrown", "regrowths", "regrowth_seeds", "regrowth_credit", "feature_weights"),
        *("importance", "importance_weight", "importance_turn"),
    ],
)
def test_a_column_of_an_adaptive_forest_that_is_too_short_is_refused(column):
    model = AdaptiveAMFClassifier(2, memories=(20,), categorical_features=[0], random_state=0)
    model.fit(np.arange(60).reshape(-1, 1) % 5, np.arange(60) % 2)
    state = model._core.state()
    state["trees"][column] = state["trees"][column][:-1].copy()
    with pytest.raises(ValueError, match="must"):
        restore_core(state)

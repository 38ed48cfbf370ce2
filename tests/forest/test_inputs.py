"""Equal numbers of any input type grow the same forest and get the same predictions."""

import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction import FeatureHasher

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest._forest import inputs as _inputs
from helpers import state_of, tables

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

NAMES = ["b", "a", "d", "c"]
LEARNING = {
    AMFClassifier: ["fit", "partial_fit", "partial_fit_predict_proba"],
    AdaptiveAMFClassifier: ["fit", "partial_fit", "partial_fit_predict_proba"],
    AMFRegressor: ["fit", "partial_fit", "partial_fit_predict"],
    AdaptiveAMFRegressor: ["fit", "partial_fit", "partial_fit_predict"],
}
PREDICTING = {
    AMFClassifier: [
        *("predict", "predict_proba", "predict_log_proba", "predict_proba_by_tree"),
        *("weighted_depth", "apply"),
    ],
    AdaptiveAMFClassifier: ["predict_proba", "predict_proba_by_memory", "weighted_depth", "apply"],
    AMFRegressor: ["predict", "predict_by_tree", "weighted_depth", "apply"],
    AdaptiveAMFRegressor: [
        *("predict", "predict_interval", "predict_by_memory", "predict_by_tree"),
        *("weighted_depth", "apply"),
    ],
}


def calls(methods):
    return [(cls, method) for cls in methods for method in methods[cls]]


def each_variant(methods, n_calls):
    """Each variant with some calls, in turn, so that each call comes with many variants."""
    every = calls(methods)
    step = len(every) // n_calls
    return [
        pytest.param(*variant, *call, id=f"{kind}: {name}-{call[0].__name__}.{call[1]}")
        for i, (kind, name, variant) in enumerate(VARIANTS)
        for call in (every[(i + k * step) % len(every)] for k in range(n_calls))
    ]


def numbers(kind):
    """60 rows that float16 and, but for the gaps, the kind holds exactly."""
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2 if kind == "bits" else 5, size=(60, 4)).astype(np.float32)
    if kind in ("fractions", "gaps", "sparse gaps"):
        X /= 8
    if kind in ("gaps", "whole gaps", "bit gaps", "sparse gaps"):
        X[rng.uniform(size=X.shape) < 0.1] = np.nan
    if kind == "bit gaps":
        X = np.where(X > 0, np.sign(X), X)
    return X


def objects(X, gap=None):
    """Python's numbers, whole where possible, and gaps."""
    plain = [
        [gap if np.isnan(value) else int(value) if value == int(value) else value for value in row]
        for row in X.tolist()
    ]
    values = np.empty(X.shape, dtype=object)
    values[:] = plain
    return values


def columns(X, gap=None):
    return {name: list(column) for name, column in zip(NAMES, objects(X, gap).T, strict=True)}


def nullable(dtype):
    return lambda X: pd.DataFrame(columns(X, pd.NA)).astype(dtype)


def of_bools(X):
    return {k: [v if v is None else bool(v) for v in column] for k, column in columns(X).items()}


def mixed_pandas(X):
    dtypes = ["Float64", "float32", "double[pyarrow]", "object"]
    frame = pd.DataFrame(X, columns=NAMES)
    frame["c"] = list(objects(X, pd.NA)[:, 3])
    return frame.astype(dict(zip(NAMES, dtypes, strict=True)))


def with_explicit_zeros(X):
    rows, cols = np.indices(X.shape).reshape(2, -1)
    return sp.csr_array((X.ravel(), (rows, cols)), shape=X.shape)


def with_duplicates(X):
    """Each entry in two halves."""
    halves, n = np.repeat(X.ravel() / 2, 2), X.shape[1]
    at = 2 * n * np.arange(len(X) + 1)
    return sp.csr_array((halves, np.tile(np.repeat(np.arange(n), 2), len(X)), at), shape=X.shape)


# What the documentation calls a kind, its variants, and the numbers they hold.
KINDS = {
    "numpy array": {
        **{f"{np.dtype(t)}": ("fractions", lambda X, t=t: X.astype(t))
           for t in (np.float16, np.float32, np.float64, np.longdouble)},
        **{f"{np.dtype(t)}": ("whole", lambda X, t=t: X.astype(t))
           for t in (np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64)},
        "bool": ("bits", lambda X: X.astype(bool)),
        "big endian": ("gaps", lambda X: X.astype(">f8")),
        "object": ("gaps", objects),
        "Fortran order": ("gaps", np.asfortranarray),
        "negative strides": ("gaps", lambda X: X[::-1, ::-1].copy()[::-1, ::-1]),
        "every other column": ("gaps", lambda X: np.repeat(X, 2, axis=1)[:, ::2]),
        "read-only": ("gaps", lambda X: np.frombuffer(X.tobytes(), np.float32).reshape(X.shape)),
        "masked": ("gaps", np.ma.masked_invalid),
    },
    "list of lists": {
        "numbers": ("gaps", lambda X: X.tolist()),
        "with None": ("gaps", lambda X: objects(X).tolist()),
        "of arrays": ("gaps", list),
        "of tuples": ("gaps", lambda X: tuple(map(tuple, X.tolist()))),
    },
    "pandas DataFrame": {
        "float32": ("gaps", lambda X: pd.DataFrame(X, columns=NAMES)),
        "float64": ("gaps", lambda X: pd.DataFrame(X.astype(float), columns=NAMES)),
        "numbered columns": ("gaps", pd.DataFrame),
        "int and bool": ("bits", lambda X: pd.DataFrame(X, columns=NAMES).astype(
            {"b": "int8", "a": bool, "d": "uint64", "c": "float64"})),
        "Float64": ("gaps", nullable("Float64")),
        "Int64": ("whole gaps", nullable("Int64")),
        "boolean": ("bit gaps", nullable("boolean")),
        "double[pyarrow]": ("gaps", nullable("double[pyarrow]")),
        "int8[pyarrow]": ("whole gaps", nullable("int8[pyarrow]")),
        "bool[pyarrow]": ("bit gaps", nullable("bool[pyarrow]")),
        "sparse": ("sparse gaps", lambda X: pd.DataFrame(X, columns=NAMES).astype(
            pd.SparseDtype("float32", 0.0))),
        "mixed": ("gaps", mixed_pandas),
    },
    "polars DataFrame": {
        "float32": ("gaps", lambda X: pl.DataFrame(X, schema=NAMES)),
        "nulls": ("gaps", lambda X: pl.DataFrame(columns(X), strict=False)),
        "Int64 with nulls": ("whole gaps", lambda X: pl.DataFrame(columns(X))),
        "Boolean with nulls": ("bit gaps", lambda X: pl.DataFrame(of_bools(X))),
        "Decimal": ("fractions", lambda X: pl.DataFrame(X, schema=NAMES).cast(pl.Decimal(9, 4))),
    },
    "pyarrow Table": {
        "float32": ("gaps", lambda X: pa.table(dict(zip(NAMES, X.T.copy(), strict=True)))),
        "nulls": ("gaps", lambda X: pa.table(
            {k: pa.array(v, pa.float64()) for k, v in columns(X).items()})),
        "int64 with nulls": ("whole gaps", lambda X: pa.table(columns(X))),
        "bool with nulls": ("bit gaps", lambda X: pa.table(of_bools(X))),
    },
    "pyarrow RecordBatch": {
        "nulls": ("whole gaps", lambda X: pa.record_batch(columns(X))),
    },
    "scipy sparse": {
        **{f"{f}_{kind}": ("sparse gaps", getattr(sp, f"{f}_{kind}"))
           for f in ("csr", "csc", "coo", "lil", "dok", "dia", "bsr")
           for kind in ("array", "matrix")},
        "float64": ("sparse gaps", lambda X: sp.csr_array(X.astype(float))),
        "int64": ("whole", lambda X: sp.csc_array(X.astype(int))),
        "bool": ("bits", lambda X: sp.csr_array(X.astype(bool))),
        "explicit zeros": ("sparse gaps", with_explicit_zeros),
        "duplicates": ("sparse gaps", with_duplicates),
    },
}  # fmt: skip
VARIANTS = [
    (kind, name, variant) for kind, variants in KINDS.items() for name, variant in variants.items()
]


Y = np.arange(60) % 2


def new(cls, **params):
    return cls(n_estimators=2, random_state=0, **params)


def learn(model, method, X):
    predictions = getattr(model, method)(X, Y[: X.shape[0] if hasattr(X, "shape") else len(X)])
    return b"" if predictions is model else predictions.tobytes()


@pytest.mark.parametrize(("kind", "convert", "cls", "method"), each_variant(LEARNING, 1))
def test_learning_from_any_kind_grows_the_same_forest(kind, convert, cls, method):
    X = numbers(kind)
    model, expected = new(cls), new(cls)
    for part in (X, X[:30]):
        assert learn(model, method, convert(part)) == learn(expected, method, part)
    assert tables(model) == tables(expected)


@pytest.mark.parametrize(("kind", "convert", "cls", "method"), each_variant(PREDICTING, 2))
def test_any_kind_gets_the_same_predictions(kind, convert, cls, method):
    X = numbers(kind)
    model, expected = new(cls).fit(convert(X), Y), new(cls).fit(X, Y)
    given, wanted = getattr(model, method)(convert(X[:40])), getattr(expected, method)(X[:40])
    assert given.tobytes() == wanted.tobytes()
    assert (given.dtype, given.shape) == (wanted.dtype, wanted.shape)


def test_the_documentation_lists_what_is_tested_here():
    page = Path(__file__).parents[2] / "docs" / "inputs.md"
    if not page.exists():
        pytest.skip("the documentation is not here")
    kinds, methods = page.read_text().split("X may be ")[1].split(":\n\n")[:2]
    for kind in KINDS:
        assert kind in " ".join(kinds.split())
    tested = {method for by_class in (LEARNING, PREDICTING) for _, method in calls(by_class)}
    assert set(re.findall("`(.*?)`", methods.split("\n\n")[0])) == tested


# Memory and imports


def peak_bytes(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_contiguous_float32_is_not_copied():
    X = np.zeros((100_000, 50), dtype=np.float32)
    model = AMFRegressor(n_estimators=1).fit(X[:10], np.arange(10))
    assert peak_bytes(lambda: model.predict(X)) < X.nbytes / 10


def test_sparse_rows_are_learned_in_blocks_of_4_megabytes():
    X = sp.random_array((20_000, 2_000), density=1e-3, format="csr", rng=0, dtype=np.float32)
    y, weights = np.arange(20_000) % 2, np.zeros(20_000)
    weights[::4_000] = 1  # few are learned, all are predicted
    model = AMFClassifier(n_estimators=1, random_state=0)
    peak = peak_bytes(lambda: model.partial_fit_predict_proba(X, y, [0, 1], weights))
    assert peak < 16e6  # all rows: 160e6
    assert model.n_samples_seen_ == 5


@pytest.mark.parametrize("cls", [AMFClassifier, AdaptiveAMFRegressor])
def test_sparse_data_too_wide_for_a_tree_are_refused_at_once_with_what_to_do(cls):
    X = sp.random_array((1_000, 20_000), density=2e-3, format="csr", rng=0, dtype=np.float32)
    y = np.arange(1_000) % 2
    model = cls(n_estimators=1, random_state=0)
    for call in (model.fit, model.partial_fit):
        with pytest.raises(
            ValueError, match=r"20,000 columns; .* 4,096 .*FeatureHasher.*Truncated"
        ):
            call(X, y)
    assert not hasattr(model, "n_features_in_")
    hashed = FeatureHasher(64, input_type="pair").transform(
        zip(map(str, row.indices), row.data, strict=True) for row in X
    )
    model.fit(hashed[:100], y[:100])  # the advice works
    model.fit(TruncatedSVD(5, random_state=0).fit_transform(X[:100]), y[:100])
    assert cls(n_estimators=1).fit(X[:3].toarray(), y[:3]).n_features_in_ == 20_000


@pytest.mark.parametrize("method", ["predict_proba", "weighted_depth", "apply"])
def test_sparse_rows_are_predicted_in_blocks_of_4_megabytes(method):
    X = sp.random_array((20_000, 2_000), density=1e-3, format="csr", rng=0, dtype=np.float32)
    model = AMFClassifier(n_estimators=1, random_state=0).fit(X[:5], [0, 1, 0, 1, 0])
    assert peak_bytes(lambda: getattr(model, method)(X)) < 16e6  # all rows: 160e6


@pytest.mark.parametrize("convert", [np.array, sp.coo_array, pd.DataFrame, pl.DataFrame])
def test_before_any_data_all_kinds_get_the_default(convert):
    predictions = AMFClassifier(classes=[0, 1]).predict_proba(convert(numbers("gaps")))
    assert predictions.tolist() == [[0.5, 0.5]] * 60


@pytest.mark.parametrize("weights", [None, (1 + np.arange(60) % 3) / 2])
def test_blocks_never_change_the_forest(monkeypatch, weights):
    X, y = numbers("sparse gaps"), np.array([*"abacadae"] * 8)[:60]  # new classes within blocks
    expected, model = new(AMFClassifier), new(AMFClassifier)
    wanted = expected.partial_fit_predict_proba(X, y, sample_weight=weights)
    monkeypatch.setattr(_inputs, "BLOCK_BYTES", 3 * 4 * 4)
    given = model.partial_fit_predict_proba(sp.coo_array(X), y, sample_weight=weights)
    assert given.tobytes() == wanted.tobytes()
    assert tables(model) == tables(expected)


def test_rows_wider_than_a_block_come_one_by_one(monkeypatch):
    monkeypatch.setattr(_inputs, "BLOCK_BYTES", 3)
    sparse, dense = _inputs.Table(sp.csr_array((3, 5)), []), _inputs.Table(np.empty((3, 5)), [])
    assert [*sparse.blocks(1, 3)] == [slice(1, 2), slice(2, 3)]
    assert [*dense.blocks(1, 3)] == [slice(1, 3)]


def test_a_sparse_matrix_stays_as_it_was():
    X = with_duplicates(numbers("whole"))
    before = [part.copy() for part in (X.data, X.indices, X.indptr)]
    new(AMFClassifier).fit(X, Y).predict(X)
    for part, old in zip((X.data, X.indices, X.indptr), before, strict=True):
        np.testing.assert_array_equal(part, old)


def test_importing_amforest_imports_none_of_the_libraries_it_can_work_with():
    program = (
        "import amforest, sys\n"
        "libraries = {'pandas', 'polars', 'pyarrow', 'river', 'matplotlib', 'scipy'}\n"
        "sys.exit(', '.join(libraries & sys.modules.keys()) or 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_arrays_need_no_data_frame_library():
    # scikit-learn itself tries pandas when the estimators are first used.
    program = """
import sys
class Absent:
    def find_spec(self, name, path, target=None):
        if name in ("pandas", "polars", "pyarrow"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import amforest
amforest.AMFRegressor().fit([[1.0], [2.0]], [1, 2]).predict([[1]])
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# Names


FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}
METHODS = ["fit", "partial_fit", "predict"]


def call(model, method, X, y=Y):
    return model.predict(X) if method == "predict" else getattr(model, method)(X, y)


def refused(model, method, X, message, y=Y):
    """Check that a call fails with a message and leaves the model as it was."""
    before, attributes = tables(model), state_of(model)
    with pytest.raises((ValueError, TypeError), match=message):
        call(model, method, X, y)
    assert tables(model) == before
    assert state_of(model) == attributes


@pytest.mark.parametrize(
    "cls", [AMFClassifier, AdaptiveAMFClassifier, AMFRegressor, AdaptiveAMFRegressor]
)
@pytest.mark.parametrize("library", FRAMES)
def test_names_are_kept_and_other_names_or_orders_refused(library, cls):
    data = columns(numbers("whole"))
    frame = FRAMES[library]
    model = new(cls).fit(frame(data), Y)
    assert model.feature_names_in_.tolist() == NAMES
    renamed = {"z" if name == "a" else name: data[name] for name in NAMES}
    for columns_given, message in [
        (
            dict(reversed(data.items())),
            "in the same order.*\n.*To match columns by name, set strict=F",
        ),
        (renamed, "unseen at fit time:\n- z\n.*now missing:\n- a"),
        ({name: data[name] for name in NAMES[1:]}, "now missing:\n- b"),
        (data | {"z": data["a"]}, "unseen at fit time:\n- z"),
    ]:
        for method in ("partial_fit", "predict"):
            refused(model, method, frame(columns_given), message)


def test_columns_selected_by_feature_names_in_are_in_order():
    frame = pd.DataFrame(columns(numbers("whole")))
    model = new(AMFClassifier).fit(frame, Y)
    given = model.predict_proba(frame[sorted(NAMES)][model.feature_names_in_])
    assert given.tobytes() == model.predict_proba(frame).tobytes()


@pytest.mark.parametrize("method", METHODS)
def test_columns_of_the_same_name_are_refused(method):
    X = numbers("whole")
    model = new(AMFClassifier).fit(X, Y)
    for frame in (
        pd.DataFrame(X, columns=["a", "b", "a", "c"]),
        pa.table([*X.T.copy()], names=["a", "b", "a", "c"]),
    ):
        refused(model, method, frame, "several columns of the same name(.|\n)*'a'")


# What is not a table of numbers


def with_column(values):
    return pd.DataFrame(numbers("whole"), columns=NAMES).assign(d=values)


def with_entry(value, dtype=object):
    X = numbers("whole").astype(dtype)
    X[7, 2] = value
    return X


TIMES = pd.date_range("2024-01-01", periods=60)
BAD_COLUMNS = {
    "numbers and text": ([1, "three"] * 30, "'d' must hold numbers only: 'three' is text"),
    "text": (["1.5"] * 60, "'d' must hold numbers only.*categorical_features"),
    "bytes": ([b"1.5"] * 60, "'d' must hold numbers only.*text"),
    "categories": (pd.Categorical(["x", "y"] * 30), "'d' must hold.*categorical_features"),
    "times": (TIMES, "'d' must hold.*Datetime.*convert times to numbers"),
    "times of a zone": (TIMES.tz_localize("UTC"), "'d' must hold.*convert times to numbers"),
    "durations": (TIMES - TIMES[0], "'d' must hold.*convert durations to numbers"),
    "dicts": ([{}] * 60, "X's column 'd' must hold numbers only: {} is a dict"),
    "complex numbers": (1j, "Complex data not supported.*'d'"),
    "infinity": (np.inf, r"X\[0, 'd'\] is inf"),
    "too large numbers": (1e300, r"X\[0, 'd'\] is 1e\+300; features must be finite"),
}
BAD_ARRAYS = {
    "numbers and text": (
        with_entry("three"),
        "X's column 2 must hold numbers only: 'three' is text",
    ),
    "text": (numbers("whole").astype(str), "X's column 0 must hold numbers only: '.*' is text"),
    "a list with text": ([[1, 2, 3, "x"]] * 60, "X's column 3 must hold numbers only: 'x' is text"),
    "dates": (numbers("whole").astype("M8[s]"), "X must hold.*convert times to numbers"),
    "durations": (numbers("whole").astype("m8[s]"), "X must hold.*convert durations to numbers"),
    "records": (np.zeros((60, 4), [("a", int)]), "X must hold.*a column of each field"),
    "a dict": (with_entry({}), "X's column 2 must hold numbers only: {} is a dict"),
    "complex numbers": (with_entry(1j, complex), "Complex data not supported"),
    "infinity": (with_entry(np.inf), r"X\[\d+, 2\] is inf"),
    "ragged rows": ([[1, 2, 3, 4], [1, 2]] * 30, "rows differ in length"),
    "no rows": (numbers("whole")[:0], "0 sample"),
    "an empty list": ([], "Expected 2D array"),
    "one dimension": (numbers("whole")[0], "Expected 2D array"),
    "a series": (pd.Series(Y), "Expected 2D array"),
    "three dimensions": (numbers("whole")[None], "dim 3"),
    "sparse infinity": (sp.csr_array(with_entry(np.inf, float)), "X contains infinity"),
    "sparse large sums": (with_duplicates(with_entry(2.0**100.5, float)), r"2\*\*100"),
    "sparse complex numbers": (sp.csr_array(with_entry(1j, complex)), "Complex data"),
    "sparse, one dimension": (sp.coo_array(np.ones(4)), "Expected 2D input"),
    "sparse, no rows": (sp.csr_array((0, 4)), "0 sample"),
    "a lazy frame": (pl.DataFrame(columns(numbers("whole"))).lazy(), "lazy frame.*collect"),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", BAD_COLUMNS)
def test_bad_columns_are_named_and_change_nothing(name, method):
    values, message = BAD_COLUMNS[name]
    model = new(AMFRegressor, categorical_features=None).fit(with_column(1), Y)
    refused(model, method, with_column(values), message)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_bad_arrays_are_explained_and_change_nothing(name, method):
    X, message = BAD_ARRAYS[name]
    model = new(AMFRegressor, categorical_features=None).fit(numbers("whole"), Y)
    refused(model, method, X, message)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "convert", [np.array, sp.csr_array, pd.DataFrame], ids=lambda c: c.__name__
)
def test_more_labels_than_rows_change_nothing(convert, method):
    X = convert(numbers("whole"))
    refused(new(AMFClassifier).fit(X, Y), method, X, "inconsistent numbers", y=[*Y, 1])

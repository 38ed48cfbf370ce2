"""The model file: what goes in comes out, to the last bit, and what is wrong is said."""

import contextlib
import copy
import datetime
import hashlib
import json
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import amforest
from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest.baselines import MondrianForestClassifier, OnlineDummyClassifier
from amforest.model_io import core_file, model_file, safetensors_bytes
from amforest.model_io.document import FORMAT
from amforest.model_io.model_file import ModelFormatError, from_bytes

X = np.random.default_rng(0).normal(size=(120, 3)).astype(np.float32)
GAPS = np.where(np.random.default_rng(1).uniform(size=X.shape) < 0.2, np.nan, X)
LABELS = np.array(["no", "yes", "maybe"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 1)]
FRAME = pd.DataFrame(
    {
        "size": X[:, 0],
        "colour": pd.Categorical(np.array(["red", "blue", "green"])[np.arange(120) % 3]),
    }
)


def twin_of(cls, **params):
    from amforest import river

    model = getattr(river, cls)(2, seed=1, **params)
    for i, x in enumerate(X[:60].tolist()):
        row = dict(zip("abc", x, strict=True)) | ({"word": "uvw"[i % 3]} if i > 20 else {})
        model.learn_one(row, x[0] if cls.endswith("Regressor") else LABELS[i])
    return model


MODELS = {
    "classes": lambda: AMFClassifier(3, random_state=0).fit(X, LABELS),
    "late classes": lambda: AMFClassifier(3, random_state=0).partial_fit(X, LABELS),
    "weights": lambda: AMFClassifier(3, random_state=0).fit(X, LABELS, np.linspace(0, 2, 120)),
    "gaps": lambda: AMFClassifier(3, random_state=0, split_pure=True).fit(GAPS, LABELS),
    "frame": lambda: AMFClassifier(3, random_state=0).fit(FRAME, LABELS),
    "only categories": lambda: AMFRegressor(3, random_state=0).fit(FRAME[["colour"]], X[:, 0]),
    "regression": lambda: AMFRegressor(3, random_state=0, step=2.0).fit(X, X[:, 0]),
    "unrestricted": lambda: AMFClassifier(
        3, random_state=0, partition="unrestricted", bounds=[-9, 9], split_prior=(0.4, 0.3)
    ).fit(X, LABELS),
    "mondrian": lambda: MondrianForestClassifier(3, random_state=0, lifetime=9.0).fit(X, LABELS),
    "limits": lambda: AMFClassifier(3, random_state=0, max_nodes=50).fit(X, LABELS),
    "adaptive": lambda: AdaptiveAMFClassifier(2, random_state=0).fit(GAPS, LABELS),
    "adaptive, in regrowths": lambda: AdaptiveAMFClassifier(
        2, memories=[None, 15], n_candidates=3_000, random_state=0
    ).partial_fit(FRAME, LABELS),
    "adaptive, limits": lambda: AdaptiveAMFClassifier(
        1, memories=[15], row_limit=30, max_bytes=500_000, random_state=0
    ).fit(X, LABELS, np.linspace(0, 2, 120)),
    "adaptive regression": lambda: AdaptiveAMFRegressor(2, random_state=0).fit(GAPS, X[:, 0]),
    "adaptive regression, in regrowths": lambda: AdaptiveAMFRegressor(
        2, memories=[None, 15], n_candidates=3_000, random_state=0
    ).partial_fit(FRAME, X[:, 1]),
    "adaptive river regression": lambda: twin_of("AdaptiveAMFRegressor", n_candidates=500),
    "adaptive river": lambda: twin_of("AdaptiveAMFClassifier", n_candidates=500),
    "unfitted adaptive": lambda: AdaptiveAMFClassifier(classes=("a", "b"), honest_memories=()),
    "river": lambda: twin_of("AMFClassifier"),
    "river regression": lambda: twin_of("AMFRegressor", predict_extends=True),
    "unfitted": lambda: AMFClassifier(classes=("a", "b"), categorical_features=[True, False]),
    "unfitted river": lambda: twin_of("AMFClassifier").clone(),
    "generator": lambda: AMFRegressor(2, random_state=np.random.RandomState(3)).fit(X, X[:, 0]),
    "bools": lambda: AMFClassifier(2, random_state=np.int64(0)).fit(X, X[:, 0] > 0),
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


def go_on(model):
    """Learn some more rows; return the bytes after that."""
    if type(model).__module__ == "amforest.river":
        for i, x in enumerate(X[60:80].tolist()):
            label = x[0] if type(model).__name__.endswith("Regressor") else LABELS[i]
            model.learn_one(dict(zip("abcd", [*x, 1.0], strict=True)), label)
    elif model.categorical_features is not None and hasattr(model, "feature_names_in_"):
        names = list(model.feature_names_in_)
        model.partial_fit(FRAME[names], model.predict(FRAME[names]))
    else:
        y = X[:, 0] if isinstance(model, AMFRegressor | AdaptiveAMFRegressor) else X[:, 0] > 0
        model.partial_fit(X, y if getattr(model, "classes_", None) is None else model.predict(X))
    return model.to_bytes()


def test_a_loaded_model_is_the_saved_one_and_goes_on_like_it(model, tmp_path):
    digest = amforest.save(model, tmp_path / "model")
    data = (tmp_path / "model").read_bytes()
    assert data == model.to_bytes()
    assert digest == hashlib.sha256(data).hexdigest()
    loaded = amforest.load(tmp_path / "model", sha256=digest.upper())
    assert type(loaded) is type(model)
    assert loaded.to_bytes() == data
    if model.stats()["samples"]:
        assert go_on(loaded) == go_on(model)


def test_pickles_and_copies_hold_the_same_bytes(model):
    data = model.to_bytes()
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        assert twin.to_bytes() == data


def test_saving_is_the_same_in_another_process(tmp_path):
    program = (
        "import hashlib; from test_model_file import MODELS; "
        "print(*(hashlib.sha256(make().to_bytes()).hexdigest() for make in MODELS.values()))"
    )
    run = [sys.executable, "-W", "ignore", "-c", program]
    folder = Path(__file__).parent
    other = subprocess.run(run, capture_output=True, check=True, text=True, cwd=folder).stdout
    here = [hashlib.sha256(make().to_bytes()).hexdigest() for make in MODELS.values()]
    assert other.split() == here


@pytest.mark.parametrize(
    "values",
    [
        ["a", "ü", "\ud800", ""],
        [1, 2.5, True, -(2**70), float("inf")],
        [b"\x00\xff", b""],
        [datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 1, 12, 30, 1, 5)],
        [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)],
        [("a", 1), ("a", (2, None)), frozenset({"x", 3})],
        [np.str_("a"), np.int64(7), np.float32(0.5)],
    ],
    ids=lambda values: type(values[0]).__name__,
)
def test_categories_of_many_kinds_are_kept(values):
    rows = np.empty((20, 1), dtype=object)
    rows[:, 0] = [values[i % len(values)] for i in range(20)]
    model = AMFRegressor(2, categorical_features=[0], random_state=0).fit(rows, np.arange(20.0))
    loaded = from_bytes(model.to_bytes())
    assert loaded.categories_ == model.categories_
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))


def test_what_a_file_cannot_hold_is_named():
    rows = np.array([[1j], [2j]], dtype=object)
    model = AMFRegressor(2, categorical_features=[0]).fit(rows, [0.0, 1.0])
    with pytest.raises(TypeError, match=r"a category holds 1j of type complex, which a model file"):
        model.to_bytes()
    assert pickle.loads(pickle.dumps(model)).categories_ == {0: [1j, 2j]}
    with pytest.raises(TypeError, match=r"model is a .*OnlineDummyClassifier; a model file"):
        model_file.to_bytes(OnlineDummyClassifier())

    class Mine(AMFRegressor):
        pass

    with pytest.raises(TypeError, match="no subclass"):
        Mine().to_bytes()


def test_parameters_that_are_wrong_are_not_saved():
    model = AMFClassifier(random_state=0).fit(X, LABELS).set_params(step=-1)
    with pytest.raises(ValueError, match="'step' parameter"):
        model.to_bytes()


def test_what_else_belongs_to_a_model_is_kept(tmp_path):
    model, extra = MODELS["regression"](), {"scale": [0.5, 1e-300], "name": "ü", "none": None}
    amforest.save(model, tmp_path / "model", extra=extra)
    data = (tmp_path / "model").read_bytes()
    assert model_file.extra_of(data) == extra
    assert from_bytes(data).to_bytes() == model.to_bytes()
    assert model_file.extra_of(model.to_bytes()) is None
    with pytest.raises(TypeError, match="not JSON serializable"):
        model_file.to_bytes(model, extra=object())


def test_another_digest_is_refused(tmp_path):
    amforest.save(MODELS["regression"](), tmp_path / "model")
    with pytest.raises(ModelFormatError, match=r"digest .* not 1234"):
        amforest.load(tmp_path / "model", sha256="1234")


def test_a_file_that_is_not_there_is_just_that(tmp_path):
    with pytest.raises(FileNotFoundError):
        amforest.load(tmp_path / "model")


def resealed(data, change):
    """The bytes of a model whose document and arrays were changed, with the right digest."""
    arrays, metadata = safetensors_bytes.unpack(data)
    arrays, document = dict(arrays), json.loads(metadata["amforest"])
    change(document, arrays)
    return b"".join(model_file.sealed_pieces(document, arrays))


def test_a_newer_format_says_what_to_do():
    def renew(document, arrays):
        document.clear()
        document |= {"format": FORMAT + 1, "library": "9.9", "whatever": []}

    message = rf"format {FORMAT + 1}, written by amforest 9\.9; .* install a"
    with pytest.raises(ModelFormatError, match=message):
        from_bytes(resealed(MODELS["regression"]().to_bytes(), renew))


def put(value, *path):
    def change(document, arrays):
        for key in path[:-1]:
            document = document[key]
        assert path[-1] in document or isinstance(document, list)
        document[path[-1]] = value

    return change


FITTED, CORE = ("forest", "fitted"), ("forest", "core")


@pytest.mark.parametrize(
    "change",
    [
        put(0, "format"),
        put(True, "format"),
        put("AMFTransformer", "model"),
        put("AMFRegressor", "model"),
        put("river.AMFClassifier", "model"),
        put({}, "params"),
        put({}, "columns"),
        put(None, "forest"),
        put({"no_such": 1}, "forest", "params"),
        put(-1, "forest", "params", "n_estimators"),
        put({"float": "one"}, "forest", "params", "step"),
        put({"code": "1"}, "forest", "params", "step"),
        put({"tuple": [], "list": []}, "forest", "params", "step"),
        put({"array": ["<c16", []]}, "forest", "params", "bounds"),
        put({"array": ["<f8", [[1], [1, 2]]]}, "forest", "params", "bounds"),
        put({"RandomState": [[1], 0, 0, 0.0]}, "forest", "params", "random_state"),
        put({"RandomState": [[1] * 624, 2**31, 0, 0.0]}, "forest", "params", "random_state"),
        put({"bytes": "?"}, "forest", "params", "random_state"),
        put(None, *FITTED),
        put(None, *CORE),
        put(3, *FITTED, "n_features"),
        put(2.0, *FITTED, "n_features"),
        put(["a"], *FITTED, "names"),
        put(["a", 1], *FITTED, "names"),
        put([2], *FITTED, "categorical"),
        put([-1], *FITTED, "categorical"),
        put([0, 1], *FITTED, "categorical"),
        put(None, *FITTED, "categories"),
        put([["a", "a", "b"]], *FITTED, "categories"),
        put([["a", None]], *FITTED, "categories"),
        put([["a"], ["b"]], *FITTED, "categories"),
        put([[["a"]]], *FITTED, "categories"),
        put([[str(i) for i in range(99)]], *FITTED, "categories"),
        put(None, *FITTED, "classes"),
        put(["a", "b"], *FITTED, "classes", "labels"),
        put(["a", "b", "b"], *FITTED, "classes", "labels"),
        put(["a", "b", 3], *FITTED, "classes", "labels"),
        put("<i8", *FITTED, "classes", "dtype"),
        put("<M8", *FITTED, "classes", "dtype"),
        put([{"tuple": [1, k]} for k in range(3)], *FITTED, "classes", "labels"),
        put([1.0], *FITTED, "progress"),
        put(["1", 1.0], *FITTED, "progress"),
        put(0, *CORE, "n_samples"),
        put(2**31, *CORE, "n_samples"),
        put(2**70, *CORE, "n_samples"),
        put(1, *CORE, "n_samples"),
        put(10**12, *CORE, "n_numbers"),
        put(65535, *CORE, "capacity"),
        put(4, *CORE, "n_classes"),
        put(0.0, *CORE, "dirichlet"),
        put([60000], *CORE, "categories"),
        put([0], *CORE, "categories"),
        put(["4"], *CORE, "categories"),
        put([], *CORE, "options"),
        put(-1.0, *CORE, "options", "step"),
        put("1", *CORE, "options", "step"),
        put({"float": "nan"}, *CORE, "options", "step"),
        put(1, *CORE, "options", "max_bytes"),
    ],
)
def test_what_is_wrong_in_the_document_is_refused(change):
    model = MODELS["frame"]()
    with pytest.raises(ModelFormatError, match="not a model of amforest"):
        from_bytes(resealed(model.to_bytes(), change))


@pytest.mark.parametrize(
    "change",
    [
        put(["a", "b", "c", "word"], "columns", "numbers"),
        put(["a", "b"], "columns", "numbers"),
        put([["u", "v", "w"], ["x"]], "columns", "categories"),
        put([["u"] * 3], "columns", "categories"),
        put({}, "columns"),
        put({"no_such": 1}, "params"),
    ],
)
def test_columns_that_do_not_fit_are_refused(change):
    def many(document, arrays):
        change(document, arrays)
        if document["columns"] and len(document["columns"]["numbers"]) == 2:
            document["columns"]["numbers"] += [str(i) for i in range(9)]

    with pytest.raises(ModelFormatError, match="not a model of amforest"):
        from_bytes(resealed(MODELS["river"]().to_bytes(), many))


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{", "[]", '{"format": NaN}', '{"format": 1' + "0" * 5000 + "}", "{}"]
)
def test_documents_that_are_none_are_refused(text):
    data = b"".join(safetensors_bytes.pack({}, {"amforest": text, "sha256": "0" * 64}))
    digest = hashlib.sha256(data).hexdigest()
    with pytest.raises(ModelFormatError):
        from_bytes(data.replace(b"0" * 64, digest.encode()))


def test_other_things_than_bytes_are_refused():
    for data in (b"", b"\x00" * 8, b"no model", "text", None, bytearray(b"x" * 100)):
        with pytest.raises(ModelFormatError):
            from_bytes(data)


def test_reading_takes_memory_in_proportion_to_the_bytes():
    nothing = MODELS["unfitted"]().to_bytes()
    texts = ["x" * 200_000, *map(str, range(50_000))]  # as one array: 40 GB
    data = resealed(nothing, put({"array": ["U", texts]}, "forest", "params", "classes"))
    deep = resealed(nothing, put([[]] * 200_000, "forest", "params", "classes"))
    for hostile in (data, deep):
        tracemalloc.start()
        with contextlib.suppress(ModelFormatError):
            from_bytes(hostile)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 64 * len(hostile) + 2**20


def test_a_model_that_nobody_could_load_is_not_saved(tmp_path):
    model = AMFClassifier(300, classes=[*range(10_000)], random_state=0).fit(X[:1], [0])
    with pytest.raises(ValueError, match=r"too many trees for so many classes \(300 for 10000\)"):
        amforest.save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())
    model.set_params(n_estimators=20).fit(X[:1], [0])
    assert len(from_bytes(model.to_bytes()).classes_) == 10_000


def test_cores_in_files_of_their_own_may_be_of_the_format_before_importances():
    """Files of RayForest's shards had no number of a format then."""
    core = AMFClassifier(3, random_state=0).fit(X, LABELS)._core
    document, arrays = model_file.open_file(core_file.cores_to_bytes({7: core}, 5))
    again, number = core_file.cores_from_bytes(core_file.cores_to_bytes({7: core}, 5))
    assert number == 5
    assert again[7].importances()[0].tobytes() == core.importances()[0].tobytes()
    del document["format"]
    old = {name: array for name, array in arrays.items() if "importance" not in name}
    cores, _ = core_file.cores_from_bytes(b"".join(model_file.sealed_pieces(document, old)))
    assert not cores[7].importances()[0].any()
    assert cores[7].predict(X, 1).tobytes() == core.predict(X, 1).tobytes()
    for wrong in (2, FORMAT + 1):
        data = b"".join(model_file.sealed_pieces(document | {"format": wrong}, arrays))
        with pytest.raises(ModelFormatError, match=f"format {wrong}"):
            core_file.cores_from_bytes(data)

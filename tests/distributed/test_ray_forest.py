"""RayForest: on any number of actors, and after any death, the forest of one process."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor, load
from amforest._forest.core_handle import handle_of
from amforest.distributed import RayForest
from amforest.distributed.ray_shards import RayShards
from amforest.distributed.sharded_core import ShardedCore
from amforest.evaluation import progressive_validation
from amforest.model_io.model_file import ModelFormatError, from_bytes, to_bytes
from amforest.river import AdaptiveAMFClassifier as RiverClassifier

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'amforest[ray]'")

MODELS = {
    "classifier": lambda: AMFClassifier(8, random_state=0),
    "regressor": lambda: AMFRegressor(8, random_state=0),
    "unrestricted": lambda: AMFClassifier(
        8, partition="unrestricted", bounds=(-9, 9), random_state=0
    ),
    "limited": lambda: AMFClassifier(8, max_nodes=2000, random_state=0),
    "adaptive classifier": lambda: AdaptiveAMFClassifier(2, memories=(None, 60), random_state=0),
    "balanced": lambda: AMFClassifier(8, class_weight="balanced", random_state=0),
    "adaptive regressor": lambda: AdaptiveAMFRegressor(2, memories=(60, 15), random_state=0),
    "adaptive, limited": lambda: AdaptiveAMFClassifier(
        2, memories=(None, 60), max_nodes=9000, random_state=0
    ),
}


@pytest.fixture(params=[1, 2, 3, 8])
def shards(request, cluster):
    shards = RayShards(request.param, {}, None, 50)
    yield shards
    shards.close()


def place_in(shards, model):
    """Let the trees of a new model live in actors that several models share."""
    handle_of(model).place = lambda core: ShardedCore.place(core, shards, 3)
    return model


def batches(name, n_rows=1200, n_each=170):
    """Yield batches: classes and categories come late, numbers are missing, weights differ."""
    rng = np.random.default_rng(3)
    numbers = rng.normal(size=(n_rows, 3))
    y = (numbers[:, 0] > 0).astype(int)
    y[n_rows // 2 :] += 2 * (rng.random(n_rows - n_rows // 2) < 0.1)
    labels = numbers[:, 0] * 3 + rng.normal(size=n_rows) if "regressor" in name else y
    X = pd.DataFrame(numbers, columns=list("abc"))
    if name != "unrestricted":
        X[rng.random(X.shape) < 0.05] = np.nan
        words = np.array([f"w{k}" for k in range(40)])
        X["word"] = pd.Categorical(words[(rng.random(n_rows) * np.arange(n_rows) / 30).astype(int)])
    weights = rng.integers(0, 3, n_rows) / (1 if "limited" in name else 2)
    for i in range(0, n_rows, n_each):
        part = slice(i, i + n_each)
        yield X[part], labels[part], weights[part] if i % 340 else None


def predicts(model):
    return model.predict_proba if hasattr(model, "predict_proba") else model.predict


def predicts_then_learns(model):
    is_classifier = hasattr(model, "predict_proba")
    return model.partial_fit_predict_proba if is_classifier else model.partial_fit_predict


@pytest.mark.parametrize("name", MODELS)
def test_a_forest_on_actors_is_the_local_one(name, shards):
    local, model = MODELS[name](), place_in(shards, MODELS[name]())
    for i, (X, y, weights) in enumerate(batches(name)):
        if i % 3 == 2:
            expected = predicts_then_learns(local)(X, y, sample_weight=weights)
            predictions = predicts_then_learns(model)(X, y, sample_weight=weights)
            assert predictions.tobytes() == expected.tobytes()
        else:
            local.partial_fit(X, y, sample_weight=weights)
            model.partial_fit(X, y, sample_weight=weights)
    assert isinstance(handle_of(model).fitted.core, ShardedCore)
    assert predicts(model)(X).tobytes() == predicts(local)(X).tobytes()
    for t in range(handle_of(local).fitted.core.n_trees):
        assert model.tree_table(t).tobytes() == local.tree_table(t).tobytes()
    assert to_bytes(model) == to_bytes(local)


def test_all_that_can_be_inspected_is_that_of_the_local_forest(shards):
    local, model = MODELS["adaptive classifier"](), MODELS["adaptive classifier"]()
    place_in(shards, model)
    for X, y, _ in batches("adaptive classifier", 500):
        local.partial_fit(X, y)
        model.partial_fit(X, y)
    for call in ("predict_proba_by_memory", "predict_proba_by_tree", "weighted_depth", "apply"):
        assert getattr(model, call)(X).tobytes() == getattr(local, call)(X).tobytes(), call
    expected, stats = local.stats(), model.stats()
    del expected["bytes"], stats["bytes"]  # each shard stores rows
    assert stats == expected
    assert model.memory_weights_.tobytes() == local.memory_weights_.tobytes()
    assert model.feature_importances_.tobytes() == local.feature_importances_.tobytes()
    assert model.classes_.tolist() == local.classes_.tolist()


def test_explaining_needs_the_local_forest(cluster):
    with RayForest(MODELS["classifier"](), n_shards=2) as forest:
        forest.partial_fit([[0.0], [1.0]], [0, 1])
        with pytest.raises(NotImplementedError, match=r"call to_local\(\) first"):
            forest.explain([[0.0]])
        explanation = forest.to_local().explain([[0.0]])
        assert explanation.shape[:2] == (1, 1)


def test_a_river_model_with_new_features_is_the_local_one(shards):
    local, model = (RiverClassifier(2, memories=(None, 30), seed=1) for _ in range(2))
    place_in(shards, model)
    rng = np.random.default_rng(0)
    for i in range(60):
        x = {f"f{j}": float(rng.normal()) for j in range(1 + i // 20)} | {"word": f"w{i // 9}"}
        for each in (local, model):
            each.learn_one(x, bool(i % 3))
    assert model.predict_proba_one(x) == local.predict_proba_one(x)
    assert to_bytes(model) == to_bytes(local)


def test_a_refused_batch_changes_nothing(shards):
    model = place_in(shards, MODELS["classifier"]())
    X, y, _ = next(batches("unrestricted"))
    X = X.to_numpy()
    model.partial_fit(X, y)
    before = to_bytes(model)
    with pytest.raises(ValueError, match=r"infinity|finite"):
        model.partial_fit(np.where(np.arange(len(X))[:, None] == 9, np.inf, X), y)
    with pytest.raises(ValueError, match="negative"):
        model.partial_fit(X, y, sample_weight=-np.ones(len(X)))
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :2])
    assert to_bytes(model) == before


# Deaths


def kill(forest, k):
    """Let the process of an actor die, as if its machine had run out of memory."""
    os.kill(ray.get(forest._shards.actors[k].pid.remote()), signal.SIGKILL)


@pytest.mark.parametrize("name", ["classifier", "adaptive regressor"])
def test_nothing_is_lost_if_actors_die(cluster, name):
    local = MODELS[name]()
    with RayForest(MODELS[name](), n_shards=2, checkpoint_messages=3) as forest:
        for i, (X, y, weights) in enumerate(batches(name)):
            local.partial_fit(X, y, sample_weight=weights)
            forest.partial_fit(X, y, sample_weight=weights)
            if i in (1, 2, 6):
                kill(forest, i % 2)
        assert forest.to_bytes() == to_bytes(local)
        assert forest.n_recoveries_ >= 2


def test_a_driver_can_be_replaced(cluster, tmp_path):
    name = "adaptive classifier"
    local, some = MODELS[name](), list(batches(name))
    forest = RayForest(MODELS[name](), n_shards=2, checkpoint_messages=3, directory=tmp_path)
    for X, y, _ in some[:5]:
        forest.partial_fit(X, y)
    forest.close()  # as a driver that dies does not: its actors die with it
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [
        json.loads((tmp_path / "latest.json").read_text())["folder"]
    ]
    with RayForest.resume(tmp_path, checkpoint_messages=3) as resumed:
        n_batches, rest = divmod(resumed.n_samples_seen_, len(some[0][0]))
        assert 0 < n_batches <= 5
        assert rest == 0
        for i, (X, y, _) in enumerate(some):
            local.partial_fit(X, y)
            if i >= n_batches:
                resumed.partial_fit(X, y)
        assert resumed.to_bytes() == to_bytes(local)


def test_the_driver_s_part_is_no_model_of_its_own(cluster, tmp_path):
    X, y, _ = next(batches("classifier"))
    with RayForest(MODELS["classifier"](), directory=tmp_path) as forest:
        forest.fit(X, y)
        forest.checkpoint()
    [driver] = Path(tmp_path).rglob("driver")
    with pytest.raises(ModelFormatError, match=r"RayForest\.resume"):
        from_bytes(driver.read_bytes())
    with pytest.raises(FileNotFoundError, match="no checkpoint of a RayForest"):
        RayForest.resume(driver.parent)


# The wrapper


def test_a_forest_moves_to_actors_and_back(cluster, tmp_path):
    local, [first, second, *_] = MODELS["classifier"](), list(batches("classifier"))
    local.fit(first[0], first[1])
    with RayForest.from_local(local, n_shards=2) as forest:
        forest.partial_fit(second[0], second[1])
        local.partial_fit(second[0], second[1])
        assert to_bytes(forest.to_local()) == to_bytes(local)
        forest.save(tmp_path / "forest.amf")
        assert to_bytes(load(tmp_path / "forest.amf")) == to_bytes(local)
        assert forest.fit(first[0], first[1]) is forest  # it forgets, in the same actors
        assert forest.to_bytes() == to_bytes(local.fit(first[0], first[1]))


def test_it_is_evaluated_as_the_local_forest(cluster):
    local, (X, y, _) = MODELS["classifier"](), next(batches("classifier"))
    with RayForest(MODELS["classifier"](), n_shards=2) as forest:
        assert is_classifier(forest)
        progress = progressive_validation(forest, X, y)
        assert progress.metrics == progressive_validation(local, X, y).metrics
        assert forest.to_bytes() == to_bytes(local)
    assert not is_classifier(RayForest(MODELS["regressor"]()))


def test_a_quorum_predicts_without_a_slow_shard(cluster):
    X, y, _ = next(batches("unrestricted"))
    X = X.to_numpy()
    with RayForest(MODELS["adaptive classifier"](), n_shards=2) as forest:
        forest.fit(X, y)
        expected = forest.predict_proba(X)
        complete = forest.predict_quorum(X, min_shards=1, timeout=60)
        assert (complete.n_shards, complete.is_complete) == (2, True)
        assert complete.values.tobytes() == expected.tobytes()
        slow = forest._shards.actors[1].wait.remote(3.0)
        partial = forest.predict_quorum(X, min_shards=1, timeout=0.5)
        assert (partial.n_shards, partial.is_complete) == (1, False)
        np.testing.assert_allclose(partial.values.sum(axis=1), 1)
        assert np.abs(partial.values - complete.values).max() < 0.6
        ray.get(slow)
        with pytest.raises(ValueError, match="min_shards is 3; it must be an int from 1"):
            forest.predict_quorum(X, min_shards=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_shards": 0}, "n_shards is 0; it must be an int of at least 1"),
        ({"max_pending": "2"}, "max_pending is '2'"),
        ({"checkpoint_messages": 1.5}, "checkpoint_messages is 1.5"),
    ],
)
def test_parameters_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        RayForest(MODELS["classifier"](), **options).fit([[0.0], [1.0]], [0, 1])


def test_there_must_be_a_tree_for_each_shard(cluster):
    forest = RayForest(AMFClassifier(1), n_shards=2)
    with forest, pytest.raises(ValueError, match="there must be a tree for each shard"):
        forest.fit([[0.0], [1.0]], [0, 1])

"""Shards in Ray actors have the models of one process, bit for bit, also after they die."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from keyed_streams import CLASSIFIER, Dictionary, all_bytes, keyed_stream

from amforest import AMFClassifier
from amforest.distributed import KeyedForests

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'amforest[ray]'")
X, Y, KEYS = keyed_stream(400, 60)


# Of Ray itself, about its own defaults.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def expected():
    dictionary = Dictionary(CLASSIFIER)
    return dictionary.test_then_train(X, Y, KEYS), dictionary.to_bytes()


def kill(forests: KeyedForests, shard: int) -> None:
    ray.kill(forests._opened.models._shards[shard].actor)


def test_shards_equal_a_dictionary_though_they_die(tmp_path, expected):
    predictions, models = expected
    parts = []
    how = {"n_shards": 2, "flush_rows": 150, "max_bytes": 30_000, "directory": tmp_path}
    with KeyedForests(CLASSIFIER, **how) as forests:
        for n, a in enumerate(range(0, 400, 50)):
            rows = slice(a, a + 50)
            parts.append(forests.partial_fit_predict_proba(X[rows], Y[rows], keys=KEYS[rows]))
            if n == 4:  # after a flush, and more rows
                kill(forests, 1)
        assert np.array_equal(np.concatenate(parts), predictions)
        assert all_bytes(forests) == models
        assert len(forests) == len(models)
        assert forests.stats()["models_in_memory"] < len(models)
        one = forests.predict_proba_one(X[0], key=int(KEYS[0]))
        assert np.array_equal(one, forests.predict_proba(X[:1], keys=KEYS[:1])[0])
        assert forests.predict_proba(X[:1], keys=["new"]).tolist() == [[0.5, 0.5]]
    with KeyedForests.load(tmp_path) as local:
        assert all_bytes(local) == models


def test_batches_of_ray_data_are_learned(expected):
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(sensor=KEYS, alarm=Y)
    batches = ray.data.from_pandas(table).iter_batches(batch_size=100, batch_format="pandas")
    with KeyedForests(CLASSIFIER, key="sensor") as forests:
        for batch in batches:
            forests.partial_fit_predict_proba(batch.drop(columns="alarm"), batch["alarm"])
        assert all_bytes(forests) == expected[1]


def test_an_error_in_a_shard_is_that_of_the_model_and_is_repeated_after_a_death():
    estimator = AMFClassifier(partition="unrestricted", classes=[0, 1], random_state=0)
    with KeyedForests(estimator, n_shards=1) as forests, KeyedForests(estimator) as local:
        for each in (forests, local):
            with pytest.raises(ValueError, match="must lie in") as caught:
                each.partial_fit([[0.5], [3.0], [0.1]], [0, 1, 1], keys=["a", "b", "c"])
            assert "'b'" in caught.value.__notes__[0]
        kill(forests, 0)
        assert all_bytes(forests) == all_bytes(local)


def test_folders_that_other_processes_cannot_read_are_refused():
    with pytest.raises(ValueError, match="memory://, which other processes cannot read"):
        KeyedForests(CLASSIFIER, n_shards=1, directory="memory://m").partial_fit(X, Y, keys=KEYS)

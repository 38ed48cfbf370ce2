"""The recipes of docs/recipes.md: each example runs, and loses no row."""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from amforest import AdaptiveAMFClassifier
from amforest.evaluation import progressive_validation
from amforest.model_io import extra_of, load, to_bytes
from amforest.river import AdaptiveAMFClassifier as RiverClassifier

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.filterwarnings("ignore")  # the engines' own, about their dependencies
WAY = "`make test-recipes` installs it"


def labelled_rows(n_rows):
    """Return rows as dicts, with text, and their labels."""
    rng = np.random.default_rng(0)
    colours = ["red", "blue", "green"]
    rows = [
        {"size": float(rng.normal()), "colour": colours[rng.integers(3)]} for _ in range(n_rows)
    ]
    return rows, ["yes" if row["size"] > 0 else "no" for row in rows]


def test_the_code_on_the_page_is_that_of_the_examples():
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")]
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        assert any(block in dedent_at(script, block.split("\n")[0]) for script in scripts), block


def dedent_at(script, line):
    """Return the script from a line on, indented as if that line were not."""
    before, found, after = script.partition(line)
    indent = len(before) - len(before.rstrip(" "))
    return found + after.replace("\n" + indent * " ", "\n")


# Ray Data


def test_a_ray_data_set_is_learned_once_over_two_runs(cluster, tmp_path):
    reason = "ray is not installed: pip install 'amforest[ray]'"
    from_arrow = pytest.importorskip("ray.data", reason=reason).from_arrow
    from examples import ray_data

    table = ray_data.generate(900)
    blocks = [table.slice(i, 250) for i in range(0, 900, 250)]
    local = AdaptiveAMFClassifier(random_state=0)
    expected = progressive_validation(local, table, target="label")
    with ray_data.open_forest(tmp_path) as forest:
        first = ray_data.learn(forest, from_arrow(blocks[:2]), "label")
    with ray_data.open_forest(tmp_path) as forest:
        second = ray_data.learn(forest, from_arrow(blocks), "label")
        assert forest.to_bytes() == local.to_bytes()
    assert (first.n_rows, second.n_rows) == (500, 400)
    assert second.window["accuracy"] == pytest.approx(expected.window["accuracy"], abs=0.1)


# Ray Serve


@pytest.mark.parametrize("n_shards", [0, 2])
def test_a_server_learns_each_position_once(cluster, tmp_path, n_shards):
    pytest.importorskip(
        "ray.serve", exc_type=ImportError, reason=f"ray[serve] is not installed: {WAY}"
    )
    from examples import ray_serve

    rows, labels = labelled_rows(30)
    local = RiverClassifier(seed=0)
    server = ray_serve.ForestServer(tmp_path, n_shards=n_shards, save_every=20)
    for position, (row, label) in enumerate(zip(rows, labels, strict=True)):
        expected = local.predict_proba_one(row)
        answer = server.answer(row, label, position)
        assert answer["probabilities"] == expected
        assert server.answer(row, label, position)["n_learned"] == position + 1
        local.learn_one(row, label)
    resumed = ray_serve.ForestServer(tmp_path, n_shards=n_shards)
    assert resumed.counts() == {"n_learned": 20}
    with pytest.raises(ray_serve.PositionError, match="position is 21; it must be at most 20"):
        resumed.answer(rows[21], labels[21], 21)
    for position in range(20, 30):
        resumed.answer(rows[position], labels[position], position)
    resumed.save()
    assert to_bytes(load(tmp_path / "forest.amf")) == to_bytes(local)


def test_a_deployment_predicts_while_it_learns(cluster, tmp_path):
    pytest.importorskip(
        "ray.serve", exc_type=ImportError, reason=f"ray[serve] is not installed: {WAY}"
    )
    from examples import ray_serve
    from ray import serve

    serve.start(http_options={"port": 8765})
    serve.run(ray_serve.build(tmp_path, save_every=20))
    try:
        rows, labels = labelled_rows(30)
        for position, (row, label) in enumerate(zip(rows, labels, strict=True)):
            status, answer = post({"row": row, "label": label, "position": position})
            assert (status, answer["n_learned"]) == (200, position + 1)
        status, answer = post({"row": {"size": 3.0, "weight": 1.0}})
        assert (status, answer["label"], answer["n_learned"]) == (200, "yes", 30)
        assert post({"row": {}, "label": "no", "position": 99})[0] == 409
        assert post({"rows": {}})[0] == 400
    finally:
        serve.shutdown()


def post(body):
    """Return the status and the answer."""
    request = urllib.request.Request(
        "http://127.0.0.1:8765/",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


# Spark


def test_spark_s_forests_are_those_of_one_process_over_two_runs(tmp_path):
    pytest.importorskip("pyspark", minversion="4", reason=f"pyspark is not installed: {WAY}")
    from examples import spark_streaming

    table = keyed_rows(400)
    (tmp_path / "files").mkdir()
    for i in range(4):
        if i == 2:
            run_spark(tmp_path)
        table[i * 100 : (i + 1) * 100].to_parquet(tmp_path / "files" / f"{i}.parquet")
    run_spark(tmp_path)
    found = pd.read_parquet(tmp_path / "to" / "predictions")
    for key, rows in table.groupby("key"):
        forest = spark_streaming.new_forest()
        expected = [
            spark_streaming.predict_then_learn(forest, rows[i : i + 1].reset_index(drop=True))[0]
            for i in range(len(rows))
        ]
        some = found[found["key"] == key].sort_values("position")
        assert some["position"].tolist() == rows["position"].tolist()
        assert some["probability"].tolist() == expected


def keyed_rows(n_rows):
    """Return rows of three keys; some labels are missing."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(n_rows, 2)), columns=["a", "b"])
    table.insert(0, "key", [f"sensor {k}" for k in rng.integers(3, size=n_rows)])
    table.insert(1, "position", np.arange(n_rows))
    table["label"] = (table["a"] > 0).astype("Int64").mask(rng.random(n_rows) < 0.2)
    return table


def run_spark(folder):
    """Run the example over all files that it has not read."""
    arguments = [str(folder / "files"), "--to", str(folder / "to")]
    script = str(ROOT / "examples" / "spark_streaming.py")
    run = subprocess.run(
        [sys.executable, script, *arguments],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "accuracy" in run.stdout


# Kafka


def test_messages_that_kafka_sends_again_are_learned_once(tmp_path, monkeypatch):
    pytest.importorskip("quixstreams", reason=f"quixstreams is not installed: {WAY}")
    from confluent_kafka import Producer
    from examples import kafka_quix

    broker = Producer({"test.mock.num.brokers": 1})  # a broker in this process
    [place] = broker.list_topics(timeout=30).brokers.values()
    address = f"{place.host}:{place.port}"
    let_the_broker_describe_topics(monkeypatch)
    rows, labels = labelled_rows(60)
    models = [RiverClassifier(seed=0) for _ in range(2)]
    producer = Producer({"bootstrap.servers": address})
    for topic in ("rows", "predictions"):
        producer.list_topics(topic, timeout=30)  # the broker creates it
    for i, (row, label) in enumerate(zip(rows, labels, strict=True)):
        message = {"row": row, "label": label if i % 5 else None}
        producer.produce("rows", json.dumps(message), partition=i % 2)
        kafka_quix.learn(models[i % 2], message)
    producer.flush()
    for group, n_messages in (("first", 40), ("second", 60)):  # which starts from the beginning
        app = kafka_quix.build(
            address,
            tmp_path,
            source="rows",
            to="predictions",
            consumer_group=group,
            commit_every=15,
            auto_create_topics=False,
            state_dir=tmp_path / "state",
            loglevel="WARNING",
        )
        app.run(count=2 * n_messages, timeout=60)  # each is predicted and learned: two outputs
    for partition, model in enumerate(models):
        data = (tmp_path / f"rows-{partition}.amf").read_bytes()
        assert extra_of(data) == {"next_offset": 30}
        assert data == to_bytes(model, extra={"next_offset": 30})


def let_the_broker_describe_topics(monkeypatch):
    """Answer from the list of topics: the broker in this process describes no settings."""
    from quixstreams.models.topics import TopicAdmin, TopicConfig

    def inspect_topics(self, names, timeout=30):
        topics = self.list_topics(timeout=timeout)
        return {name: TopicConfig(len(topics[name].partitions), 1, {}) for name in names}

    monkeypatch.setattr(TopicAdmin, "inspect_topics", inspect_topics)

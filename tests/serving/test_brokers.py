"""Consumers of the real Redis and mosquitto: each row is learned once, whatever fails."""

import fcntl
import json
import os
import signal
import sys
import time

import pytest
from typer.testing import CliRunner

from amforest.cli.app import app
from amforest.cli.console import CommandError
from amforest.cli.consume import Places, open_broker
from amforest.model_io import Checkpoint, newest_checkpoint
from broker_servers import (
    OUTPUT,
    REJECTS,
    SECONDS,
    SERVERS,
    as_table,
    consume_the_rest,
    find,
    learn_directly,
    row,
    run_consumer,
    start_consumer,
    wait_for,
)


@pytest.fixture(scope="module", params=list(SERVERS))
def kind(request):
    program = SERVERS[request.param].program
    pytest.importorskip({"redis": "redis", "mqtt": "paho.mqtt"}[request.param])
    if find(program) is None:
        pytest.skip(f"{program} is not installed: apt-get install {program}")
    return request.param


@pytest.fixture
def server(kind, tmp_path):
    server = SERVERS[kind](tmp_path / "server")
    yield server
    server.stop()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "saved"


def model_in(folder):
    model, _ = newest_checkpoint(folder)
    return model.to_bytes()


def by_id(predictions):
    """Return predictions by ids; those that were published again must be the same."""
    first = {}
    for prediction in predictions:
        assert first.setdefault(prediction["id"], prediction) == prediction
    return first


def consume_all(server, kind, folder, ids, **options):
    consume_the_rest(server, kind, folder, set(ids), idle=0.3, **options)
    return by_id(server.received(OUTPUT[kind]))


def wait_for_ids(server, kind, ids):
    wait_for(
        lambda: {p["id"] for p in server.received(OUTPUT[kind])} >= set(ids), "all predictions"
    )
    return by_id(server.received(OUTPUT[kind]))


def test_each_row_is_predicted_and_the_model_is_that_of_direct_learning(server, kind, folder):
    rows = [row(i) for i in range(150)]
    run_consumer(server.places(), folder, idle=0)  # a session to queue messages for
    server.send(rows)
    predictions = consume_all(server, kind, folder, [r["id"] for r in rows])
    assert model_in(folder) == learn_directly(rows).to_bytes()
    assert predictions["r149"]["prediction"] in ("yes", "no")
    assert sum(predictions["r149"]["probabilities"].values()) == pytest.approx(1)
    # A row without a label is predicted with all labels before it.
    assert rows[143]["y"] is None
    before = learn_directly(rows[:143])
    (chances,) = before.predict_proba(as_table([rows[143]])).tolist()
    assert predictions["r143"]["probabilities"] == dict(zip(("no", "yes"), chances, strict=True))


KILLS = {
    "redis": [
        ("redis", "publish", "after", 2),
        ("Checkpoint", "save", "before", 2),
        ("Checkpoint", "save", "after", 1),
        ("redis", "acknowledge", "after", 1),
        ("redis", "fetch", "after", 2),
    ],
    "mqtt": [
        ("Journal", "append", "before", 3),
        ("Journal", "append", "after", 3),
        ("mqtt", "flush", "after", 1),
        ("Checkpoint", "save", "after", 1),
        ("mqtt", "acknowledge", "after", 1),
    ],
}


def test_rows_are_learned_once_after_kill_9_between_any_two_steps(server, kind, folder):
    rows = [row(i) for i in range(250)]
    run_consumer(server.places(), folder, idle=0)
    server.send(rows)
    for kill in KILLS[kind]:
        process = start_consumer(server.places(), folder, kill=kill, block=10)
        process.join(SECONDS)
        assert process.exitcode == -signal.SIGKILL, kill
    consume_all(server, kind, folder, [r["id"] for r in rows])
    assert model_in(folder) == learn_directly(rows).to_bytes()


def test_sigterm_saves_and_acknowledges(server, kind, folder):
    rows = [row(i) for i in range(60)]
    run_consumer(server.places(), folder, idle=0)  # a session to queue messages for
    process = start_consumer(server.places(), folder, idle=None, every=1_000)
    server.send(rows)
    wait_for_ids(server, kind, [r["id"] for r in rows])
    os.kill(process.pid, signal.SIGTERM)
    process.join(SECONDS)
    assert process.exitcode == 128 + signal.SIGTERM
    assert model_in(folder) == learn_directly(rows).to_bytes()
    if kind == "redis":
        assert server.client.xpending("rows", "amforest")["pending"] == 0


def test_a_broker_that_restarts_loses_nothing(server, kind, folder):
    rows = [row(i) for i in range(200)]
    run_consumer(server.places(), folder, idle=0)
    process = start_consumer(server.places(), folder, idle=None, every=50)
    server.send(rows[:110])
    wait_for_ids(server, kind, ["r109"])
    server.stop()
    server.start()
    server.send(rows[110:])
    wait_for_ids(server, kind, [r["id"] for r in rows])
    os.kill(process.pid, signal.SIGTERM)
    process.join(SECONDS)
    assert model_in(folder) == learn_directly(rows).to_bytes()


def test_bad_messages_are_rejected_with_a_reason_and_the_others_learned(server, kind, folder):
    rows = [row(i) for i in range(60)]
    bad = {
        "is not a number": {**row(60), "a": "wide"},
        "'id'": {**row(61), "id": None},
        "no row 'r999' waits": {"id": "r999", "y": "yes"},
    }
    json_field = {}
    if kind == "redis":
        json_field = {"json_field": "row"}
        rows, bad = [json.dumps(r) for r in rows], {k: json.dumps(v) for k, v in bad.items()}
        bad["no field 'row'"] = {"other": 1}
    bad |= {"not a JSON object": "[1]", "invalid JSON": '{"a": ', "not UTF-8": b'{"a": "\xff"}'}
    bad |= {"is nested": json.dumps({**row(62), "a": [1]}), "is empty": b""}
    run_consumer(server.places(), folder, idle=0)
    server.send([*rows[:30], *bad.values(), *rows[30:]])
    run_consumer(server.places(**json_field), folder)
    wait_for_ids(server, kind, [f"r{i}" for i in range(60)])
    rejects = wait_for(
        lambda: len(found := server.received(REJECTS[kind])) == len(bad) and found, "rejects"
    )
    for text, reject in zip(bad, rejects, strict=True):
        assert text in reject["reason"]
    assert model_in(folder) == learn_directly(row(i) for i in range(60)).to_bytes()


def test_a_later_label_teaches_its_row_once(server, kind, folder):
    rows = [row(i) for i in range(80)]
    label = {"id": "r3", "y": "yes"}
    run_consumer(server.places(), folder, idle=0)
    server.send([*rows[:40], rows[5]])  # the last one is repeated
    consume_all(server, kind, folder, ["r39"])  # what waits for labels is in the checkpoint
    server.send([label, label, *rows[40:]])
    consume_all(server, kind, folder, [r["id"] for r in rows])
    assert (
        model_in(folder)
        == learn_directly([*rows[:40], {**rows[3], "y": "yes"}, *rows[40:]]).to_bytes()
    )


def test_the_time_that_saving_takes_is_not_idle(server, kind, folder, monkeypatch):
    save = Checkpoint.save

    def save_slowly(checkpoint):
        time.sleep(1.5)
        return save(checkpoint)

    monkeypatch.setattr(Checkpoint, "save", save_slowly)
    run_consumer(server.places(), folder, idle=0)
    server.send([row(i) for i in range(60)])
    run_consumer(server.places(), folder, idle=1.4, every=20)
    assert len(by_id(server.received(OUTPUT[kind]))) == 60


def test_without_ids_messages_are_told_apart_by_the_broker(server, kind, folder):
    same = [{**row(i % 10), "y": row(i % 10)["y"] or "no"} for i in range(90)]
    for r in same:
        del r["id"]
    run_consumer(server.places(), folder, id_field=None, idle=0)
    server.send(same)
    for kill in KILLS[kind][1:3]:
        process = start_consumer(server.places(), folder, kill=kill, block=10, id_field=None)
        process.join(SECONDS)
        assert process.exitcode == -signal.SIGKILL
    run_consumer(server.places(), folder, id_field=None)
    assert model_in(folder) == learn_directly(same).to_bytes()


@pytest.mark.slow
def test_rows_are_learned_once_after_60_kills_at_random_moments(kind):
    import consumers

    result = consumers.kill_many(kind, 60, lambda label, done, total: None)
    assert result.passed, result.details


def test_the_command_continues_a_model_of_numbers_with_intervals(server, kind, folder, tmp_path):
    rows = [{"x": i * 0.618 % 1, "y": round(3 * (i * 0.618 % 1), 4)} for i in range(160)]
    path = tmp_path / "first.ndjson"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows[:100]))
    saved = str(tmp_path / "first.amf")
    runner = CliRunner()
    assert runner.invoke(app, ["run", str(path), "-t", "y", "-q", "--save", saved]).exit_code == 0
    source = ["--stream", "rows"] if kind == "redis" else ["--topic", "rows/#"]
    command = ["consume", server.url, *source, "-t", "y", "-o", OUTPUT[kind]]
    command += ["--checkpoint", str(folder), "--model", saved]
    assert runner.invoke(app, [*command, "--idle", "0"]).exit_code == 0
    server.send(rows[100:])
    while len(found := server.received(OUTPUT[kind])) < 60:
        result = runner.invoke(app, [*command, "--idle", "0.3"])
        assert result.exit_code == 0, result.output
    low, middle, high = (float(found[-1][name]) for name in ("lower", "prediction", "upper"))
    assert low < middle < high
    assert middle == pytest.approx(rows[-1]["y"], abs=0.2)


@pytest.mark.parametrize(
    ("url", "module", "option"),
    [("redis://x", "redis", "--stream"), ("mqtt://x", "paho", "--topic")],
)
def test_an_absent_extra_is_named(url, module, option, monkeypatch, tmp_path):
    loaded = f"amforest.serving.brokers.{url.partition(':')[0]}_broker"
    for name in [name for name in sys.modules if name.split(".")[0] == module or name == loaded]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    command = ["consume", url, option, "rows", "-t", "y", "--checkpoint", str(tmp_path)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert f"pip install 'amforest[{url.partition(':')[0]}]'" in result.output


def test_a_folder_continues_only_the_same_run(server, kind, folder):
    run_consumer(server.places(), folder, idle=0)
    server.send(row(i) for i in range(40))
    run_consumer(server.places(), folder)
    with pytest.raises(ValueError, match=r"--name is 'other', but .* it was 'amforest'"):
        run_consumer(server.places(name="other"), folder)
    with (folder / "consumer.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="in use by another consumer"):
            run_consumer(server.places(), folder, idle=0)


@pytest.mark.parametrize(
    ("places", "text"),
    [
        (Places("kafka://x"), "expected redis://… or mqtt://…"),
        (Places("redis://x"), "--stream is missing"),
        (Places("mqtt://x"), "--topic is missing"),
        (Places("mqtt://x", topic="t", stream="s"), "--stream is given, but is for Redis"),
        (Places("redis://x", topic="t", stream="s"), "--topic is given, but is for MQTT"),
    ],
)
def test_wrong_places_are_refused(places, text, tmp_path):
    with pytest.raises(CommandError, match=text):
        open_broker(places, tmp_path)

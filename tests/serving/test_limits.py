"""Safety: tokens, and limits of what a request may hold and of how long it may take."""

from __future__ import annotations

import ast
import asyncio
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event
from unittest.mock import Mock

import pytest
import uvicorn
from uvicorn.server import ServerState

from amforest import model_io, serving
from amforest.serving import Client, ServerError
from amforest.serving.access import Access, read_token
from amforest.serving.bodies import Given
from amforest.serving.first_rows import NewModel
from amforest.serving.http_protocol import MOST_CONNECTIONS, LimitedProtocol
from amforest.serving.limits import LARGE_BODIES, Limits
from amforest.serving.measurements import Measurements
from amforest.serving.model_store import ModelStore
from amforest.serving.pending_labels import PendingLabels
from amforest.serving.problems import Problem
from amforest.serving.writer import Job, Writer
from running_server import RunningServer
from serving.visits import numbers, visits

ROWS, LABELS = visits(60)
LIMITS = (
    *("--most-bytes", 20_000, "--most-rows", 50, "--most-columns", 8, "--most-classes", 3),
    *("--queue", 40, "--body-seconds", 0.5, "--pending", 5),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    predict_token = tmp_path_factory.mktemp("tokens") / "token"
    predict_token.write_text("only-predicts\n")
    env = {"AMFOREST_TOKEN": "secret", "AMFOREST_PREDICT_TOKEN": f"@{predict_token}"}
    options = ("--target", "bought", "--trees", 1, *LIMITS)
    with RunningServer(*options, token="secret", env=env) as running:
        assert running.post("/predict", {"row": {}}).status_code == 401
        with pytest.raises(ServerError, match="learned nothing yet"):
            running.client.predict(ROWS[:1])
        running.client.learn(ROWS[:20], LABELS[:20])
        yield running


def refused(call, status, words):
    with pytest.raises(ServerError, match=words) as error:
        call()
    assert error.value.status == status
    return error.value


def test_each_token_permits_what_it_is_for(server):
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic secret"}):
        for path in ("/predict", "/learn", "/label"):
            answer = server.post(path, {"row": {}}, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
        for path in ("/model", "/metrics", "/snapshot"):
            assert server.http.get(path, headers=headers).status_code == 401
    with Client(server.url, "only-predicts") as client:
        client.predict(ROWS[:1])
        client.model()
        refused(lambda: client.learn(ROWS[:1], LABELS[:1]), 403, "predictions only")
        refused(client.snapshot, 403, "predictions only")
    for path in ("/healthz", "/readyz", "/docs"):
        assert server.http.get(path).status_code == 200


def test_a_token_may_be_in_a_file_and_must_be_visible(tmp_path):
    (tmp_path / "token").write_text("abc\n")
    assert read_token(f"@{tmp_path / 'token'}", "--token") == "abc"
    assert read_token(None, "--token") is None
    for given in ("", "two words", "ü", "x" * 1001):
        with pytest.raises(ValueError, match="--token must have"):
            read_token(given, "--token")


def test_requests_beyond_the_limits_are_refused_and_learn_nothing(server):
    client = server.client
    before = client.model()["stats"]
    refused(lambda: client.learn(ROWS[:51], LABELS[:51]), 413, "limit is 50")
    refused(lambda: client.predict([{f"c{i}": i for i in range(9)}]), 413, "limit is 8")
    refused(lambda: client.predict([{"page": "x" * 30_000}]), 413, "20,000 bytes")
    refused(lambda: client.learn(ROWS[:4], list("abcd")), 422, "limit is 3")
    assert client.model()["stats"] == before


def test_a_chunked_body_is_limited_as_well(server):
    def chunks():
        for _ in range(30):
            yield b"[" + b" " * 1000

    headers = {"authorization": "Bearer secret", "content-type": "application/json"}
    answer = server.http.post("/predict", content=chunks(), headers=headers)
    assert answer.status_code == 413


def test_a_slow_body_is_given_up(server):
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
            b"Authorization: Bearer secret\r\nContent-Type: application/json\r\n\r\n{"
        )
        connection.settimeout(20)
        start = time.monotonic()
        assert connection.recv(100).startswith(b"HTTP/1.1 408")
        assert 0.4 < time.monotonic() - start < 15


def test_a_head_without_end_is_given_up(server):
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.settimeout(20)
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        is_open = True
        for _ in range(1000):
            try:
                connection.sendall(b"a: " + b"b" * 1000 + b"\r\n")
            except OSError:  # reset, or a broken pipe
                is_open = False
                break
            time.sleep(0.001)
        assert not is_open
    assert server.http.get("/healthz").status_code == 200


def test_a_full_queue_answers_429_and_clients_wait(server):
    """Several clients together are faster than the thread that learns."""
    headers = {"authorization": "Bearer secret"}
    body = {"rows": ROWS[:30], "labels": LABELS[:30]}

    def send(_):
        return server.post("/learn?wait=false", body, headers=headers)

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(send, range(400)))
    assert {answer.status_code for answer in answers} == {202, 429}
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert "limit is 40" in refused.json()["detail"]
    assert server.client.learn(ROWS[:30], LABELS[:30])["learned"] == 30


def test_the_queue_is_bounded_in_bytes_too():
    store = ModelStore(None, every_rows=1, every_seconds=1, durable=False)
    new = NewModel("bought", "classification", None, {"n_estimators": 1}, {})
    writer = Writer(store, new, Limits(queue_bytes=1_000), Measurements())
    writer.start()
    is_free = Event()
    writer.call(is_free.wait)  # the thread is busy

    def job(n_bytes):
        return Job(1, Given(ROWS[:1], LABELS[:1]), n_bytes=n_bytes)

    jobs = [job(5_000), job(400)]
    writer.put(jobs[0])  # a job that is larger than the queue is learned alone
    with pytest.raises(Problem, match="1,000 bytes") as refused:
        writer.put(jobs[1])
    assert refused.value.status == 429
    is_free.set()
    assert jobs[0].learned.result(60) == 1
    writer.put(jobs[1])
    assert jobs[1].learned.result(60) == 2
    writer.close()


def send_part_of_body(server, size):
    """Open a connection, and send a large body but for its last byte."""
    host, port = server.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=60)
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n"
    connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode())
    with suppress(OSError):  # it was refused before its end
        connection.sendall(b" " * (size - 1))
    return connection


def test_large_bodies_share_some_memory_and_small_ones_are_always_read():
    size = 400_000
    with (
        RunningServer("--target", "y", "--most-bytes", size, "--body-seconds", 4) as server,
        ExitStack() as stack,
    ):
        server.client.learn(*numbers(30))
        row = {"row": {"a": 0.5, "b": 1.0}}
        held = [
            stack.enter_context(send_part_of_body(server, size)) for _ in range(LARGE_BODIES + 1)
        ]
        assert held[-1].recv(1000).startswith(b"HTTP/1.1 429")
        assert server.post("/predict", row).status_code == 200
        for connection in held[:-1]:
            assert connection.recv(1000).startswith(b"HTTP/1.1 408")
        large = (json.dumps(row) + " " * (size // 2)).encode()
        headers = {"content-type": "application/json"}
        assert server.http.post("/predict", content=large, headers=headers).status_code == 200


def test_connections_beyond_a_number_are_closed():
    config = uvicorn.Config(lambda: None, http=LimitedProtocol)
    state = ServerState()
    for n_open in (MOST_CONNECTIONS - 1, MOST_CONNECTIONS):
        state.connections = {object() for _ in range(n_open)}
        transport = Mock(get_extra_info=lambda name: None)
        loop = asyncio.new_event_loop()
        protocol = LimitedProtocol(config, state, {}, loop)
        protocol.connection_made(transport)
        assert transport.close.called == (n_open == MOST_CONNECTIONS)
        loop.close()


def test_tokens_are_compared_in_constant_time(monkeypatch):
    compared = []

    def compare(*pair):
        compared.append(pair)
        return pair[0] == pair[1]

    monkeypatch.setattr("hmac.compare_digest", compare)
    access = Access("long", "short")
    access.check_token({"authorization": "Bearer short"}, may_only_predict=True)
    with pytest.raises(Problem, match="not valid"):
        access.check_token({"authorization": "Bearer sho"}, may_only_predict=True)
    assert compared == [
        (b"short", b"long"),
        (b"short", b"short"),
        (b"sho", b"long"),
        (b"sho", b"short"),
    ]


def test_no_module_of_the_server_can_load_pickles():
    folders = [Path(serving.__file__).parent, Path(model_io.__file__).parent]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    assert len(paths) > 30
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in getattr(node, "names", []) if alias.name]
            module = getattr(node, "module", None)
            used = {name.split(".")[0] for name in [*names, *([module] if module else [])]}
            assert not used & {"pickle", "cloudpickle", "joblib", "marshal", "shelve"}, path


def test_only_the_last_predictions_wait_for_labels(server):
    ids = server.client.predict(ROWS[:8])["ids"]
    refused(lambda: server.client.label(ids[0], "no"), 404, "last 5")
    assert server.client.label(ids[3:], ["no"] * 5)["learned"] == 5


def test_a_prediction_that_is_too_old_takes_no_label():
    with RunningServer("--target", "y", "--pending-seconds", 0) as server:
        server.client.learn(*numbers(30))
        ids = server.client.predict([{"a": 0.5}])["ids"]
        refused(lambda: server.client.label(ids, [1.0]), 404, "older than 0 s")


def test_predictions_wait_for_labels_for_some_time():
    now = [0.0]
    pending = PendingLabels(100, 60, clock=lambda: now[0])
    (first,) = pending.add([[1.0]])
    now[0] = 50.0
    (second,) = pending.add([[2.0]])
    now[0] = 61.0
    with pytest.raises(Problem, match="older than 60 s"):
        pending.take([second, first])
    assert pending.take([second]) == [[2.0]]
    assert len(pending) == 0

"""Safety: tokens, and limits of what a request may hold and of how long it may take."""

from __future__ import annotations

import socket
import time

import pytest

from amforest.serving import Client, ServerError
from amforest.serving.access import read_token
from amforest.serving.pending_labels import PendingLabels
from amforest.serving.problems import Problem
from running_server import RunningServer
from serving.visits import visits

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
    """The writer is kept busy, so that rows must wait."""
    statuses = []
    headers = {"authorization": "Bearer secret"}
    for _ in range(300):
        answer = server.post(
            "/learn?wait=false", {"rows": ROWS[:30], "labels": LABELS[:30]}, headers=headers
        )
        statuses.append(answer.status_code)
        if answer.status_code == 429:
            assert 1 <= int(answer.headers["retry-after"]) <= 60
            assert "limit is 40" in answer.json()["detail"]
            break
    assert statuses[-1] == 429
    assert server.client.learn(ROWS[:30], LABELS[:30])["learned"] == 30


def test_only_the_last_predictions_wait_for_labels(server):
    ids = server.client.predict(ROWS[:8])["ids"]
    refused(lambda: server.client.label(ids[0], "no"), 404, "last 5")
    assert server.client.label(ids[3:], ["no"] * 5)["learned"] == 5


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

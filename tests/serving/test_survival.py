"""What survives: SIGTERM, kill -9 with and without a journal, and torn ends of files."""

from __future__ import annotations

import threading
import time

import pytest

from amforest.model_io import from_bytes, newest_checkpoint
from amforest.serving import ServerError
from amforest.serving.journal import Journal
from running_server import RunningServer
from serving.visits import numbers, visits

SMALL = ("--target", "bought", "--task", "classification", "--trees", 1)


def n_saved(folder):
    """Return how many rows the newest checkpoint has learned."""
    model, _ = newest_checkpoint(folder)
    return model.n_samples_seen_ if model.__sklearn_is_fitted__() else 0


def samples(server):
    return server.client.model()["stats"]["samples"]


def replay(parts):
    """Return the bytes of the model that learns the parts, in a server that never stops."""
    with RunningServer(*SMALL) as server:
        for rows, labels in parts:
            server.client.learn(rows, labels)
        return from_bytes(server.client.snapshot()).to_bytes()


def test_sigterm_learns_what_waits_and_saves(tmp_path):
    rows, labels = visits(3000)
    with RunningServer(*SMALL, "--checkpoint", tmp_path) as server:
        for k in range(0, 3000, 500):
            server.client.learn(rows[k : k + 500], labels[k : k + 500], wait=False)
        assert server.terminate() == 0
    model, extra = newest_checkpoint(tmp_path)
    assert model.n_samples_seen_ == 3000
    assert extra["scheme"]["target"] == "bought"
    with RunningServer("--checkpoint", tmp_path) as server:
        assert samples(server) == 3000
        assert server.client.learn(rows[:2], labels[:2])["samples"] == 3002


def test_kill_9_loses_what_came_after_the_last_checkpoint_and_nothing_before(tmp_path):
    rows, labels = visits(250)
    with RunningServer(*SMALL, "--checkpoint", tmp_path, "--every", 100) as server:
        for k in range(0, 250, 50):
            server.client.learn(rows[k : k + 50], labels[k : k + 50])
        server.kill()
    assert n_saved(tmp_path) == 200


def test_a_checkpoint_is_saved_by_time(tmp_path):
    rows, labels = visits(20)
    with RunningServer(*SMALL, "--checkpoint", tmp_path, "--seconds", 0.2) as server:
        server.client.learn(rows, labels)
        end = time.monotonic() + 100
        while n_saved(tmp_path) < 20 and time.monotonic() < end:
            time.sleep(0.05)
        server.kill()
    assert n_saved(tmp_path) == 20


def test_acknowledged_rows_and_labels_survive_kill_9(tmp_path):
    options = (*SMALL, "--checkpoint", tmp_path, "--durable", "--every", 170)
    rows, labels = visits(400)
    parts, known = [], 0
    for life in range(3):
        with RunningServer(*options) as server:
            if life:
                assert samples(server) == known
            ids = []
            for _ in range(4):
                part = rows[known : known + 30], labels[known : known + 30]
                known = server.client.learn(*part)["samples"]
                parts.append(part)
                if not ids:
                    ids = server.client.predict(rows[-3:])["ids"]
            known = server.client.label(ids, labels[-3:])["samples"]
            parts.append((rows[-3:], labels[-3:]))
            (tmp_path / "journal.log").stat()
            server.kill()
    with RunningServer(*options) as server:
        assert samples(server) == known == 3 * 123
        data = server.client.snapshot()
        assert server.terminate() == 0
    assert from_bytes(data).to_bytes() == replay(parts)


def test_rows_acknowledged_before_a_kill_under_load_are_there_after_it(tmp_path):
    options = (*SMALL, "--checkpoint", tmp_path, "--durable", "--every", 60)
    rows, labels = visits(2000)
    acknowledged = []
    with RunningServer(*options) as server:

        def send():
            for k in range(0, 2000, 10):
                try:
                    answer = server.client.learn(rows[k : k + 10], labels[k : k + 10], wait=False)
                except Exception:
                    return
                acknowledged.append(answer["queued"])

        thread = threading.Thread(target=send)
        thread.start()
        while thread.is_alive() and len(acknowledged) < 40:
            time.sleep(0.002)
        server.process.kill()
        thread.join()
        server.kill()
    with RunningServer(*options) as server:
        n_samples = samples(server)
        data = server.client.snapshot()
    assert n_samples >= sum(acknowledged)
    assert n_samples % 10 == 0
    parts = [(rows[k : k + 10], labels[k : k + 10]) for k in range(0, n_samples, 10)]
    assert from_bytes(data).to_bytes() == replay(parts)


def test_a_folder_belongs_to_one_server_and_one_target(tmp_path):
    options = (*SMALL, "--checkpoint", tmp_path, "--durable")
    rows, labels = visits(10)
    with RunningServer(*options) as server:
        server.client.learn(rows, labels)
        with pytest.raises(AssertionError, match="in use by another server"):
            RunningServer(*options)
        server.kill()
    with pytest.raises(AssertionError, match="predict 'bought'"):
        RunningServer("--target", "other", "--checkpoint", tmp_path)


def test_a_saved_model_is_served_and_continues(tmp_path):
    rows, labels = numbers(300)
    with RunningServer("--target", "y", "--trees", 2) as server:
        server.client.learn(rows[:200], labels[:200])
        (tmp_path / "model.amf").write_bytes(server.client.snapshot())
        server.client.learn(rows[200:], labels[200:])
        expected = from_bytes(server.client.snapshot()).to_bytes()
        prediction = server.client.predict(rows[:5])
        (lower, upper), mean = prediction["intervals"][0], prediction["predictions"][0]
        assert lower < mean < upper
    with RunningServer(tmp_path / "model.amf") as server:
        server.client.learn(rows[200:], labels[200:])
        assert from_bytes(server.client.snapshot()).to_bytes() == expected
        answer = server.client.predict(rows[:5])
        assert answer["predictions"] == prediction["predictions"]
        with pytest.raises(ServerError, match=r"rows\[0\]\.b: column 'b'") as refused:
            server.client.predict([{"a": 1, "b": "many"}])
        assert refused.value.field == "rows[0].b"


# The journal


def entries(path):
    journal = Journal(path)
    found = list(journal.entries())
    dropped = journal.n_dropped
    journal.close()
    return found, dropped


def test_a_journal_ends_at_its_first_torn_entry(tmp_path):
    path = tmp_path / "journal.log"
    journal = Journal(path)
    journal.append([(1, b"one"), (2, b"")])
    whole = path.stat().st_size
    journal.append([(3, b"three" * 100)])
    journal.close()
    data = path.read_bytes()
    for size in range(whole, len(data), 11):
        path.write_bytes(data[:size])
        assert entries(path) == ([(1, b"one"), (2, b"")], size - whole)
        assert path.stat().st_size == whole
    path.write_bytes(data[:-1] + b"?")
    assert len(entries(path)[0]) == 2
    path.write_bytes(data)
    assert [number for number, _ in entries(path)[0]] == [1, 2, 3]


def test_a_cleared_journal_takes_new_entries(tmp_path):
    journal = Journal(tmp_path / "journal.log")
    journal.append([(1, b"x" * 1000)])
    journal.clear()
    journal.append([(2, b"y")])
    journal.close()
    assert entries(tmp_path / "journal.log") == ([(2, b"y")], 0)


def test_another_file_is_no_journal(tmp_path):
    (tmp_path / "journal.log").write_bytes(b"something else")
    with pytest.raises(ValueError, match="not a journal"):
        Journal(tmp_path / "journal.log")

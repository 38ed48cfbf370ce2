"""Events of pages, their history, their files, and explanations."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from running_server import RunningServer
from serving.visits import numbers, visits

ROWS, LABELS = visits(300)
HEAD = {"authorization": "Bearer p"}


@pytest.fixture(scope="module")
def server():
    with RunningServer(
        "--target", "bought", "--predict-token", "p", "--token", "t", token="t"
    ) as it:
        it.client.learn(ROWS, LABELS)
        yield it


def events(server, count):
    """Return the first events of a stream, by name."""
    found = []
    with server.http.stream("GET", "/events", headers=HEAD) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            found.append(value if name == "event" else json.loads(value or "null"))
            if len(found) >= 3 * count:
                break
    return list(zip(found[::3], found[1::3], strict=True))


def test_a_page_that_is_opened_later_gets_the_past_and_then_what_is_new(server):
    ticks = []
    while len(ticks) < 2:
        (name, past), *rest = events(server, 8)
        assert name == "history"
        ticks = [point["tick"] for point in past["recent"]]
    assert ticks == list(range(ticks[0], ticks[0] + len(ticks)))
    news = [value["tick"] for name, value in rest if name == "point"]
    assert news[-1] > ticks[-1]
    point = next(value for name, value in rest if name == "point")
    assert point["samples"] == point["learned"] == 300
    assert 0 < point["recent"]["accuracy"] <= 1


def test_events_need_a_token_in_a_header_and_the_page_itself_needs_none(server):
    assert server.http.get("/events").status_code == 401
    assert server.http.get("/events?token=t").status_code == 401
    assert server.http.get("/").status_code == 200


def test_pages_run_no_inline_script_and_load_nothing_from_elsewhere(server):
    page = server.http.get("/")
    policy = dict(
        part.split(" ", 1) for part in page.headers["content-security-policy"].split("; ")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert "//" not in page.text
    script = server.http.get("/page/plotly.js")
    assert script.headers["content-type"].startswith("text/javascript")
    again = server.http.get("/page/plotly.js", headers={"if-none-match": script.headers["etag"]})
    assert again.status_code == 304


def test_open_pages_do_not_delay_the_end_of_the_server():
    server = RunningServer("--target", "y")
    with server.http.stream("GET", "/events") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "event: history"
        start = time.monotonic()
        assert server.terminate() == 0
        assert time.monotonic() - start < 25  # requests have 30 seconds to end


def test_contributions_add_up_to_log_odds_of_two_classes(server):
    explained = server.client.explain(ROWS[:20])
    assert explained["unit"] == "log-odds"
    predicted = server.client.predict(ROWS[:20])["probabilities"]
    for base, found, p in zip(
        explained["bases"], explained["contributions"], predicted, strict=True
    ):
        total = base["yes"] + sum(found["yes"].values())
        assert 1 / (1 + np.exp(-total)) == pytest.approx(p["yes"], abs=1e-9)


@pytest.mark.parametrize("family", ["adaptive", "amf"])
def test_contributions_add_up_to_numbers_and_to_probabilities_of_three_classes(family):
    rows, labels = numbers(200)
    with RunningServer("--target", "y", "--task", "regression", "--model", family) as server:
        server.client.learn(rows, labels)
        explained = server.client.explain(rows[:5])
        totals = [
            base + sum(found.values())
            for base, found in zip(explained["bases"], explained["contributions"], strict=True)
        ]
        assert totals == pytest.approx(server.client.predict(rows[:5])["predictions"])
    with RunningServer("--target", "page", "--model", family) as server:
        pages = [row.pop("page") for row in visits(300)[0]]
        rows = [{"basket": i % 7, "wide": i % 3} for i in range(300)]
        server.client.learn(rows, pages)
        explained = server.client.explain(rows[:5])
        predicted = server.client.predict(rows[:5])["probabilities"]
    for base, found, p in zip(
        explained["bases"], explained["contributions"], predicted, strict=True
    ):
        totals = {label: base[label] + sum(found[label].values()) for label in p}
        if explained["unit"] == "log-probability":
            sizes = {label: np.exp(total) for label, total in totals.items()}
            totals = {label: size / sum(sizes.values()) for label, size in sizes.items()}
        assert totals == pytest.approx(p)

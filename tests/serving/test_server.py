"""One server: every endpoint and format, against a model that learns the same rows by itself."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from amforest import AdaptiveAMFClassifier
from amforest.model_io import extra_of, from_bytes
from amforest.reading import open_stream
from running_server import RunningServer
from serving.visits import visits

ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
NDJSON = {"content-type": "application/x-ndjson"}
ROWS, LABELS = visits(700)


@pytest.fixture(scope="module")
def server():
    with RunningServer("--target", "bought", "--seed", 3) as running:
        learned = running.client.learn(ROWS[:300], LABELS[:300])
        assert learned == {"learned": 300, "samples": 300}
        yield running


def with_labels(rows, labels):
    return [row | {"bought": label} for row, label in zip(rows, labels, strict=True)]


def as_lines(rows):
    return "\n".join(map(json.dumps, rows)).encode()


def as_arrow(rows, **options):
    table = pa.Table.from_pylist(rows)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, **options) as writer:
        writer.write_table(table, max_chunksize=40)
    return sink.getvalue()


def problem(answer, status, field=None):
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert answer.status_code == body["status"] == status, body
    assert body.get("field") == field, body
    assert "Traceback" not in answer.text
    return body["detail"]


def test_the_model_is_that_of_partial_fit_on_the_same_rows_whatever_the_format(server):
    before = server.client.model()["stats"]["samples"]
    rows = with_labels(ROWS, LABELS)
    server.client.learn(ROWS[300:400], LABELS[300:400])
    for body, headers in (
        (as_lines(rows[400:500]), NDJSON),
        (as_arrow(rows[500:600]), ARROW),
        (b"\n" + as_lines(rows[600:650]) + b"\n\n", NDJSON),
    ):
        assert server.http.post("/learn", content=body, headers=headers).status_code == 200
    server.client.learn(with_labels(ROWS[650:], LABELS[650:]), None)
    assert before == 300

    stream = open_stream(io.BytesIO(as_lines(rows)), format="ndjson", target="bought")
    whole = pa.Table.from_batches([batch.X for batch in stream]).unify_dictionaries()
    used = [name for name in whole.schema.names if not name.endswith((".time", ".minute"))]
    used = [name for name in used if not name.endswith(".second")]
    numbers = [name for name in used if name != "page"]
    X = whole.select([*numbers, "page"])
    model = AdaptiveAMFClassifier(categorical_features=["page"], n_jobs=1, random_state=3)
    model.partial_fit(X[:1], LABELS[:1])
    model.partial_fit_predict_proba(X[1:], LABELS[1:])
    data = server.client.snapshot()
    assert from_bytes(data).to_bytes() == model.to_bytes()
    assert extra_of(data)["scheme"]["target"] == "bought"


def test_predictions_are_equal_whatever_the_format_and_the_number_of_rows(server):
    many = server.client.predict(ROWS[:50])
    assert many.keys() == {"ids", "predictions", "probabilities"}
    assert len(set(many["ids"])) == 50
    assert set(many["probabilities"][0]) == {"yes", "no"}
    for answer in (
        server.http.post("/predict", content=as_lines(ROWS[:50]), headers=NDJSON),
        server.http.post("/predict", content=as_arrow(ROWS[:50]), headers=ARROW),
        server.post("/predict", ROWS[:50]),
    ):
        assert answer.status_code == 200, answer.text
        assert answer.json()["probabilities"] == many["probabilities"]
    for i in range(50):
        one = server.post("/predict", {"row": ROWS[i]}).json()
        assert one["predictions"] == many["predictions"][i : i + 1]
        assert one["probabilities"] == many["probabilities"][i : i + 1]


def test_columns_are_matched_by_name(server):
    row = ROWS[0]
    expected = server.client.predict([row])["probabilities"]
    mixed = dict(reversed(row.items())) | {"unknown": [1, {"nested": 2}]}
    assert server.client.predict([mixed])["probabilities"] == expected
    assert "unknown" in server.client.model()["ignored_columns"]
    absent = {name: value for name, value in row.items() if name != "basket"}
    assert (
        server.client.predict([absent])["probabilities"]
        == server.client.predict([row | {"basket": None}])["probabilities"]
    )
    as_text = row | {"basket": str(row["basket"]), "page": f" {row['page']} "}
    assert server.client.predict([as_text])["probabilities"] == expected


def test_a_label_is_learned_with_the_row_that_was_predicted(server):
    rows, labels = visits(20, seed=5)
    ids = server.client.predict(rows)["ids"]
    before = server.client.model()["stats"]["samples"]
    assert server.client.label(ids[0], labels[0])["samples"] == before + 1
    assert server.client.label(ids[1:], labels[1:]) == {"learned": 19, "samples": before + 20}
    assert "waits for a label" in problem(
        server.post("/label", {"id": ids[0], "label": "yes"}), 404, "id"
    )
    kept = server.client.predict(rows[:1])["ids"][0]
    problem(server.post("/label", {"id": kept, "label": None}), 422, "label")
    problem(server.post("/label", {"ids": [kept, kept], "labels": ["no", "no"]}), 422, "ids")
    assert server.client.label(kept, "no")["learned"] == 1


@pytest.mark.parametrize(
    ("path", "body", "field", "words"),
    [
        ("/predict", {"rows": [{"basket": "much"}]}, "rows[0].basket", "not a number"),
        ("/predict", {"rows": [{}, {"basket": [1]}]}, "rows[1].basket", "nested"),
        ("/predict", {"rows": [{"basket": 1e300}]}, "rows[0].basket", "2**100"),
        ("/predict", {"rows": [{"returning": 3}]}, "rows[0].returning", "neither true"),
        ("/predict", {"rows": [{"time": "noon"}]}, "rows[0].time", "not a date"),
        ("/predict", {"rows": [{"page": "x" * 1001}]}, "rows[0].page", "1,000"),
        ("/predict", {"rows": []}, "rows", "no rows"),
        ("/predict", {"rows": {}}, "rows", "expected a list"),
        ("/predict", {"rows": [1]}, "rows[0]", "a number"),
        ("/predict", {"row": {}, "rows": []}, "rows", "one row, or many"),
        ("/predict", {"raws": []}, "raws", "unknown"),
        ("/predict", "text", "body", "text"),
        ("/learn", {"rows": [{}], "labels": []}, "labels", "one label"),
        ("/learn", {"rows": [{}], "labels": [None]}, "labels[0]", "missing"),
        ("/learn", {"rows": [{}]}, "labels", "neither labels nor a column 'bought'"),
        ("/learn", {"rows": [{"bought": []}]}, "rows[0].bought", "nested"),
        ("/learn?wait=maybe", {"rows": [{}], "labels": ["no"]}, "wait", "true or false"),
        ("/label", {"id": 5, "label": "no"}, "id", "text"),
        ("/label", {"id": "none"}, "id", "id and label"),
    ],
)
def test_a_request_that_does_not_fit_is_refused_with_its_field(server, path, body, field, words):
    before = server.client.model()["stats"]
    assert words in problem(server.post(path, body), 422, field)
    assert server.client.model()["stats"] == before


@pytest.mark.parametrize(
    ("content", "kind", "status", "field"),
    [
        (b"", "application/json", 400, "body"),
        (b'{"rows": [{"basket": NaN}]}', "application/json", 400, "body"),
        (b'{"rows": [{"basket": 1e999}]}', "application/json", 400, "body"),
        (b"[" * 100_000, "application/json", 400, "body"),
        (b'{"basket": 1}\n{"basket', "application/x-ndjson", 400, "line 2"),
        (b"\n\n", "application/x-ndjson", 422, "rows"),
        (b"", ARROW["content-type"], 422, "rows"),
        (b"PAR1 is no stream", ARROW["content-type"], 400, None),
        (b"rows=1", "application/x-www-form-urlencoded", 415, "Content-Type"),
        (b"{}", "text/plain", 415, "Content-Type"),
    ],
)
def test_a_body_that_cannot_be_parsed_is_refused(server, content, kind, status, field):
    for path in ("/predict", "/learn"):
        answer = server.http.post(path, content=content, headers={"content-type": kind})
        problem(answer, status, field)


def test_damaged_arrow_is_refused(server):
    whole = as_arrow(with_labels(ROWS[:90], LABELS[:90]))
    before = server.client.model()["stats"]
    for cut in range(8, len(whole) - 8, 331):
        # The end of a stream is optional, so one that ends between two batches is whole.
        answer = server.http.post("/predict", content=whole[:cut], headers=ARROW)
        assert answer.status_code in (200, 400, 422), answer.text
        damaged = whole[:cut] + bytes([whole[cut] ^ 0xFF]) + whole[cut + 1 :]
        answer = server.http.post("/predict", content=damaged, headers=ARROW)
        assert answer.status_code in (200, 400, 413, 422), answer.text
    assert server.client.model()["stats"] == before


@pytest.mark.parametrize("path", ["/predict", "/learn", "/explain"])
def test_columns_of_arrow_whose_names_are_not_utf_8_are_refused(server, path):
    body = as_arrow(ROWS[:3]).replace(b"basket", b"bask\xd8t")
    assert "UTF-8" in problem(server.http.post(path, content=body, headers=ARROW), 400)


def test_compressed_arrow_is_refused_because_it_could_be_of_any_size(server):
    body = as_arrow(ROWS[:9], options=pa.ipc.IpcWriteOptions(compression="zstd"))
    assert "compressed" in problem(server.http.post("/predict", content=body, headers=ARROW), 415)


def test_unknown_paths_and_methods_are_problems(server):
    assert "/docs" in problem(server.http.get("/nothing"), 404)
    assert "POST" in problem(server.http.get("/predict"), 405)
    assert "GET" in problem(server.http.delete("/model"), 405)


def test_other_hosts_are_refused_on_a_loopback_address(server):
    answer = server.http.get("/model", headers={"host": "evil.example:80"})
    assert "--allowed-host" in problem(answer, 421, "Host")
    assert server.http.get("/healthz", headers={"host": "LocalHost:1"}).status_code == 200


def test_the_model_is_described(server):
    described = server.client.model()
    assert described["task"] == "classification"
    assert described["classes"] == ["no", "yes"]
    kinds = {column["name"]: column["kind"] for column in described["columns"]}
    assert kinds == {
        "page": "category",
        "basket": "number",
        "returning": "bool",
        "time": "datetime",
    }
    (pages,) = [c["categories"] for c in described["columns"] if c["name"] == "page"]
    assert set(pages) == {"shoes", "books", "toys"}
    assert described["last_rows"]["accuracy"] > 0.7
    assert described["stats"]["bytes"] > 1e5


def test_figures_count_what_happens(server):
    def figures():
        lines = server.client.metrics().splitlines()
        return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}

    before = figures()
    server.client.predict(ROWS[:7])
    server.client.learn(ROWS[:3], LABELS[:3])
    server.post("/predict", {"rows": 1})
    after = figures()

    def change(name):
        return after[name] - before.get(name, 0)

    assert change("amforest_predicted_rows_total") == 7
    assert change("amforest_learned_rows_total") == 3
    assert change('amforest_rejected_requests_total{path="/predict",status="422"}') == 1
    assert change('amforest_request_seconds_count{path="/predict"}') == 2
    assert after["amforest_model_samples"] == server.client.model()["stats"]["samples"]
    assert after["amforest_model_bytes"] > 1e5
    assert change("amforest_learning_seconds_count") == 1
    assert after['amforest_request_seconds_bucket{le="10.0",path="/predict"}'] >= 2
    assert after["amforest_progressive_loss"] > 0
    assert after["amforest_recent_accuracy"] > 0.5
    assert after["amforest_drift_alarms"] >= 0
    assert after["amforest_queue_rows"] == 0


def test_the_api_page_needs_nothing_from_the_internet(server):
    page = server.http.get("/docs").text
    assert "//" not in page.replace("<!doctype", "")
    for name in ("docs/swagger-ui-bundle.js", "docs/swagger-ui.css", "docs/start.js"):
        assert name in page
        assert server.http.get(f"/{name}").status_code == 200
    document = server.http.get("/openapi.json").json()
    assert set(document["paths"]) >= {"/predict", "/learn", "/label", "/model", "/snapshot"}


def test_predictions_while_others_learn_are_right(server):
    rows, labels = visits(2000, seed=9)
    with ThreadPoolExecutor(4) as pool:
        learning = [
            pool.submit(server.client.learn, rows[k : k + 500], labels[k : k + 500])
            for k in range(0, 2000, 500)
        ]
        while not all(future.done() for future in learning):
            (answer,) = server.client.predict(rows[:1])["probabilities"]
            assert sum(answer.values()) == pytest.approx(1)
    assert sum(future.result()["learned"] for future in learning) == 2000
    before = server.client.model()["stats"]["samples"]
    assert server.client.learn(rows[:5], labels[:5], wait=False) == {"queued": 5}
    server.client.learn(rows[:1], labels[:1])
    assert server.client.model()["stats"]["samples"] == before + 6

"""The baselines of a report are what they claim to be."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from amforest.cli.run import Outcome, run
from amforest.cli.run_baselines import LogisticRegression
from amforest.cli.settings import Settings


def ran(folder: Path, columns: dict[str, Any], **settings: Any) -> Outcome:
    path = folder / "stream.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    options = {"source": (str(path),), "target": list(columns)[-1], "quiet": True}
    return run(Settings(**options | settings), Console(stderr=True), for_report=True)


def stream(task: str, n_rows: int = 2_000) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    noise, weak, strong = rng.normal(size=(3, n_rows))
    score = 3 * strong + weak
    group = rng.choice(["x", "y"], n_rows)
    y = np.where(score > 0, "yes", "no") if task == "classification" else 10 + score
    return {"noise": noise, "weak": weak, "group": group, "strong": strong, "label": y}


@pytest.mark.parametrize("model", ["adaptive", "amf"])
def test_baselines_of_classes_are_those_of_their_names(model, tmp_path):
    columns = stream("classification")
    results = ran(tmp_path, columns, model=model).session.records.baselines.results()
    labels = columns["label"]
    assert list(results) == ["class frequencies", "last label", "logistic regression"]
    accuracy = [result.metrics["accuracy"] for result in results.values()]
    assert accuracy[1] == np.mean(labels[1:] == labels[:-1])
    assert accuracy[2] > 0.9
    assert accuracy[0] < 0.6
    assert all(result.n_skipped == 1 for result in results.values())


def test_baselines_of_numbers_are_those_of_their_names(tmp_path):
    columns = stream("regression")
    results = ran(tmp_path, columns).session.records.baselines.results()
    y = columns["label"]
    rmse = {name: result.metrics["rmse"] for name, result in results.items()}
    means = np.cumsum(y)[:-1] / np.arange(1, len(y))
    assert rmse["mean so far"] == pytest.approx(np.sqrt(np.mean((y[1:] - means) ** 2)))
    assert rmse["last label"] == pytest.approx(np.sqrt(np.mean(np.diff(y) ** 2)))
    assert rmse["linear regression"] < 0.5 * rmse["mean so far"]


def test_logistic_regression_keeps_what_it_learned_when_a_class_is_new():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 2))
    model = LogisticRegression()
    model.learn(X, np.where(X[:, 0] > 0, "b", "a"))
    before = model.predict(X).argmax(axis=1)
    model.learn(X[:1], np.array(["c"]))
    assert model.classes.tolist() == ["a", "b", "c"]
    assert np.mean(model.predict(X).argmax(axis=1) == before) > 0.95


@pytest.mark.parametrize("delay", [0, 5])
def test_worst_rows_have_their_lines_and_values(delay, tmp_path):
    columns = stream("classification", 300)
    columns["label"][200] = "no" if columns["label"][200] == "yes" else "yes"
    columns["strong"][200] = 3.5 if columns["label"][200] == "no" else -3.5
    worst = ran(tmp_path, columns, delay=delay).session.records.worst
    losses = [row.loss for row in worst]
    assert losses == sorted(losses, reverse=True)
    found = next(row for row in worst if row.row == 201)
    assert (found.line, found.label) == (202, columns["label"][200])
    assert found.features["strong"] == columns["strong"][200]
    assert "label" not in found.features

"""Progressive validation equals a naive loop: predict, then learn, then scikit-learn's metrics."""

import io
import os
import pickle
import signal
import subprocess
import sys
import threading
from itertools import count, islice
from math import isnan, nan

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import scipy.sparse as sp
from sklearn import metrics as sk
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Perceptron, SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import amforest.river
from amforest import AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest._forest.core_handle import handle_of
from amforest.baselines import (
    MondrianForestClassifier,
    OnlineDummyClassifier,
    OnlineDummyRegressor,
)
from amforest.evaluation import Evaluator, progressive_validation
from amforest.evaluation.result import MOST_POINTS
from amforest.reading import open_stream
from amforest.river import columns_of
from helpers import tables
from river import compose, datasets, evaluate, linear_model, metrics, neighbors, preprocessing, tree

N, WINDOW = 160, 40
OF_CLASSES = ["log_loss", "accuracy", "auc", "balanced_accuracy", "brier", "kappa"]
OF_NUMBERS = ["mse", "mae", "r2"]
NAMES = list("abcd")
rng = np.random.default_rng(0)
X = rng.uniform(size=(N, 4))
Z = X.sum(axis=1) + 0.1 * rng.normal(size=N)
Y = (Z > 2).astype(int)
WORDS = np.array(["no", "yes"])[Y]
FRAME = pd.DataFrame(X, columns=NAMES)


def classifier(**params):
    return AMFClassifier(n_estimators=3, random_state=0, **params)


def regressor(**params):
    return AMFRegressor(n_estimators=3, random_state=0, **params)


def sgd(**params):
    return SGDClassifier(loss="log_loss", random_state=0, **params)


def bayes():
    """One that has seen both classes: a variance of 0 would make it warn."""
    return GaussianNB().partial_fit(X[:20], Y[:20], [0, 1])


def is_numeric(model):
    return "Regress" in type(model).__name__


def loop(model, y, delay=0, classes=None, X=X):
    """Return the rows that were predicted, and the predictions, by the definition of a delay."""
    kept, predictions, n_learned = [], [], 0
    for i in range(len(y) + delay + 1):
        while n_learned < min(len(y), i - delay):
            how = {} if classes is None or n_learned else {"classes": classes}
            model.partial_fit(X[n_learned : n_learned + 1], y[n_learned : n_learned + 1], **how)
            n_learned += 1
        if i >= len(y):
            continue
        try:
            query = model.predict if is_numeric(model) else model.predict_proba
            predictions.append(query(X[i : i + 1])[0])
            kept.append(i)
        except NotFittedError:
            if classes is not None:
                predictions.append(np.full(len(classes), 1 / len(classes)))
                kept.append(i)
    return np.array(kept), predictions


def expected(y, predictions, labels=(0, 1)):
    """What scikit-learn makes of probabilities of two classes, or of numbers."""
    if np.ndim(predictions[0]) == 0:
        scores = (sk.mean_squared_error, sk.mean_absolute_error, sk.r2_score)
        return dict(zip(OF_NUMBERS, [score(y, predictions) for score in scores], strict=True))
    p = np.array([np.pad(row, (0, 2 - len(row))) for row in predictions])
    said = np.asarray(labels)[p.argmax(axis=1)]
    return {
        "log_loss": -np.log(np.maximum(np.where(y == labels[1], p[:, 1], p[:, 0]), 2**-52)).mean(),
        "accuracy": sk.accuracy_score(y, said),
        "auc": sk.roc_auc_score(y, p[:, 1]),
        "balanced_accuracy": sk.balanced_accuracy_score(y, said),
        "brier": ((p - (y[:, None] == labels)) ** 2).sum(axis=1).mean() / 2,
        "kappa": sk.cohen_kappa_score(y, said),
    }


def assert_scores(result, y, predictions, labels=(0, 1)):
    """The result is scikit-learn's, over all and over the last rows."""
    for scores, part in ((result.metrics, slice(None)), (result.window, slice(-WINDOW, None))):
        wanted = expected(y[part], predictions[part], labels)
        assert scores.keys() == wanted.keys()
        for name, value in wanted.items():
            # Over all rows, pairs of scores in the same bin count half.
            error = 1e-3 if name == "auc" and scores is result.metrics else 1e-12
            assert scores[name] == pytest.approx(value, rel=1e-12, abs=error), name


def validated(model, *stream, **how):
    numeric = is_numeric(getattr(model, "_last_step", model))
    how = {"metrics": OF_NUMBERS if numeric else OF_CLASSES, "window": WINDOW} | how
    return progressive_validation(model, *stream, **how)


def same(one, other):
    """Whether two results are equal to the bit, but for the time."""
    np.testing.assert_equal((one.metrics, one.window), (other.metrics, other.window))
    assert (one.n_rows, one.n_skipped) == (other.n_rows, other.n_skipped)
    for name, values in one.curve.items():
        np.testing.assert_array_equal(values, other.curve[name])
    return True


# A naive loop

OURS = [
    classifier,
    regressor,
    lambda: MondrianForestClassifier(n_estimators=3, random_state=0),
    OnlineDummyClassifier,
    OnlineDummyRegressor,
]


@pytest.mark.parametrize("delay", [0, 7, N + 5])
@pytest.mark.parametrize("new", OURS)
def test_our_models_equal_a_naive_loop(new, delay):
    y = Z if is_numeric(new()) else Y
    naive, model = new(), new()
    kept, predictions = loop(naive, y, delay)
    result = validated(model, X, y, delay=delay)
    assert (result.n_rows, result.n_skipped) == (N, N - len(kept))
    if len(kept) > WINDOW:
        assert_scores(result, y[kept], predictions)
    if hasattr(model, "tree_table"):
        assert tables(model) == tables(naive)


@pytest.mark.parametrize("delay", [0, 6])
@pytest.mark.parametrize("new", [sgd, bayes, lambda: SGDRegressor(random_state=0)])
def test_scikit_learns_models_equal_a_naive_loop(new, delay):
    y, classes = (Z, None) if is_numeric(new()) else (Y, [0, 1])
    kept, predictions = loop(new(), y, delay, classes)
    result = validated(new(), X, y, delay=delay, classes=classes)
    assert (result.n_rows, result.n_skipped) == (N, N - len(kept))
    assert_scores(result, y[kept], predictions)


def river_loop(model, stream, delay):
    predictions, learned = [], iter(stream)
    for i, (x, _) in enumerate(stream):
        if i > delay:
            model.learn_one(*next(learned))
        predictions.append(
            model.predict_one(x) if isinstance(stream[0][1], float) else model.predict_proba_one(x)
        )
    return predictions


@pytest.mark.parametrize("delay", [0, 6])
@pytest.mark.parametrize(
    ("new", "dataset"),
    [
        (tree.HoeffdingTreeClassifier, datasets.Phishing),
        (lambda: amforest.river.AMFClassifier(3, seed=1), datasets.Phishing),
        (lambda: amforest.river.AdaptiveAMFClassifier(1, seed=1), datasets.Phishing),
        (lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(),
         datasets.TrumpApproval),
    ],
)  # fmt: skip
def test_rivers_models_equal_a_naive_loop(new, dataset, delay):
    stream = list(islice(dataset(), N))
    y = np.array([label for _, label in stream])
    predictions = river_loop(new(), stream, delay)
    kept = [i for i, prediction in enumerate(predictions) if prediction != {}]
    result = validated(new(), iter(stream), delay=delay)
    assert (result.n_rows, result.n_skipped) == (N, N - len(kept))
    if y.dtype == bool:
        predictions = [[f.get(False, 0.0), f.get(True, 0.0)] if f else f for f in predictions]
    assert_scores(result, y[kept], [predictions[i] for i in kept], (False, True))


def test_the_accuracy_of_rivers_models_is_rivers():
    ours = progressive_validation(tree.HoeffdingTreeClassifier(), datasets.Phishing())
    theirs = evaluate.progressive_val_score(
        datasets.Phishing(), tree.HoeffdingTreeClassifier(), metrics.Accuracy()
    )
    assert ours.metrics["accuracy"] == pytest.approx(theirs.get(), rel=1e-12)


@pytest.mark.parametrize("classes", [None, [0, 1]])
@pytest.mark.parametrize("new", [classifier, regressor])
def test_the_loss_of_our_models_is_that_of_their_stats(new, classes):
    model = new()
    y, name = (Z, "mse") if is_numeric(model) else (Y, "log_loss")
    result = progressive_validation(model, X, y, classes=None if is_numeric(model) else classes)
    assert result.metrics[name] == pytest.approx(model.stats()["progressive_loss"], rel=1e-12)
    assert model.n_samples_seen_ == N


def test_crps_is_that_of_the_trees_and_changes_no_other_metric():
    model, scores = regressor().partial_fit(X[:1], Z[:1]), []
    for i in range(1, N):
        members = model.predict_by_tree(X[i : i + 1])[0]
        spread = np.abs(members[:, None] - members).mean() / 2
        scores.append(np.abs(members - Z[i]).mean() - spread)
        model.partial_fit(X[i : i + 1], Z[i : i + 1])
    result = progressive_validation(regressor(), X, Z, metrics=["crps", *OF_NUMBERS])
    assert result.metrics["crps"] == pytest.approx(np.mean(scores), rel=1e-10)
    plain = progressive_validation(regressor(), X, Z)
    assert result.metrics["mse"] == pytest.approx(plain.metrics["mse"], rel=1e-12)


def test_an_adaptive_forest_is_not_the_mean_of_its_trees():
    plain, with_crps = (
        progressive_validation(AdaptiveAMFRegressor(1, random_state=0), X, Z, metrics=metrics)
        for metrics in (["mae"], ["mae", "crps"])
    )
    assert with_crps.metrics == {"mae": plain.metrics["mae"], "crps": plain.metrics["mae"]}


def test_metrics_of_intervals_follow_the_coverage():
    names = ["coverage", "interval_width"]
    results = [
        progressive_validation(
            AdaptiveAMFRegressor(1, random_state=0), X, Z, metrics=names, coverage=coverage
        )
        for coverage in (0.5, 0.95)
    ]
    for name in names:
        assert results[0].metrics[name] < results[1].metrics[name]
    with pytest.raises(ValueError, match="which needs intervals; they are None"):
        Evaluator("regression", names).update([1.0], [1.0])


@pytest.mark.parametrize("size", [2, 50])
def test_scikit_learns_models_predict_a_batch_before_they_learn_it(size):
    model, predictions = sgd(), [np.full((size, 2), 0.5)]
    for start in range(0, N, size):
        part = slice(start, start + size)
        if start:
            predictions.append(model.predict_proba(X[part]))
        model.partial_fit(X[part], Y[part], [0, 1])
    result = validated(sgd(), X, Y, batch_size=size)
    assert_scores(result, Y, np.concatenate(predictions))


# Batches and kinds of streams


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("new", OURS)
def test_batches_change_no_bit_of_our_models_results(new, size):
    y, weights = Z if is_numeric(new()) else WORDS, rng.integers(0, 3, N) / 2
    one, other = new(), new()
    whole = validated(one, X, y, sample_weight=weights)
    assert same(whole, validated(other, X, y, sample_weight=weights, batch_size=size))
    if hasattr(one, "tree_table"):
        assert tables(one) == tables(other)


@pytest.mark.parametrize("size", [1, 7])
def test_nor_do_they_where_many_classes_come_late(size):
    y = np.random.default_rng(2).permutation(12)[
        (12 * X[:, 1] * np.linspace(0.2, 1, N)).astype(int)
    ]
    weights = np.random.default_rng(1).uniform(size=N)
    whole = validated(classifier(), X, y, sample_weight=weights)
    assert same(whole, validated(classifier(), X, y, sample_weight=weights, batch_size=size))


def arrow():
    return pa.table({name: FRAME[name] for name in NAMES} | {"label": pa.array(WORDS)})


STREAMS = {
    "arrays": lambda: (X, WORDS),
    "a pair": lambda: ((X, WORDS),),
    "lists": lambda: (X.tolist(), WORDS.tolist()),
    "Fortran": lambda: (np.asfortranarray(X), WORDS),
    "sparse": lambda: (sp.coo_matrix(X), WORDS),
    "rows": lambda: (zip(X, WORDS, strict=True),),
    "lists of numbers": lambda: (zip(X.tolist(), WORDS.tolist(), strict=True),),
    "dicts": lambda: (zip(FRAME.to_dict("records"), WORDS, strict=True),),
    "batches": lambda: (((X[i : i + 70], WORDS[i : i + 70]) for i in range(0, N, 70)),),
}
FRAMES = {
    "pandas": lambda: (FRAME, pd.Series(WORDS)),
    "polars": lambda: (pl.DataFrame(FRAME.to_dict("list")), pl.Series(WORDS)),
    "arrow": lambda: (arrow().drop(["label"]), arrow()["label"]),
    "batches of frames": lambda: (((FRAME[i : i + 9], WORDS[i : i + 9]) for i in range(0, N, 9)),),
}
TARGETS = {
    "pandas": lambda: FRAME.assign(label=WORDS),
    "polars": lambda: pl.DataFrame(arrow()),
    "arrow": arrow,
    "reader": lambda: arrow().to_reader(max_chunksize=33),
    "dataset": lambda: ds.dataset(arrow()),
    "scanner": lambda: ds.dataset(arrow()).scanner(batch_size=50),
    "record batches": lambda: iter(arrow().to_batches(max_chunksize=33)),
    "dicts": lambda: iter(FRAME.assign(label=WORDS).to_dict("records")),
}


@pytest.mark.parametrize("kind", STREAMS | FRAMES)
def test_whatever_holds_the_same_rows_gives_the_same_result(kind):
    result = validated(classifier(), *(STREAMS | FRAMES)[kind]())
    assert same(result, validated(classifier(), X, WORDS))
    assert result.classes.tolist() == ["no", "yes"]


@pytest.mark.parametrize("kind", TARGETS)
def test_a_target_is_taken_out_of_the_table(kind):
    result = validated(classifier(), TARGETS[kind](), target="label")
    assert same(result, validated(classifier(), X, WORDS))


@pytest.mark.parametrize("kind", ["arrays", "sparse", "rows", "dicts", *FRAMES])
def test_river_learns_from_all_of_them(kind):
    model = amforest.river.AMFClassifier(3, seed=0)
    result = validated(model, *(STREAMS | FRAMES)[kind]())
    assert same(result, validated(classifier(), X, WORDS))
    named = kind in FRAMES or kind == "dicts"
    assert list(columns_of(handle_of(model).fitted).of) == (NAMES if named else [0, 1, 2, 3])


@pytest.mark.parametrize("kind", ["rows", "dicts"])
def test_scikit_learn_learns_from_rows(kind):
    result = validated(sgd(), *STREAMS[kind](), classes=["no", "yes"])
    assert same(result, validated(sgd(), X, WORDS))


@pytest.mark.parametrize("table", [FRAME, sp.csr_matrix(X)], ids=["frame", "sparse"])
def test_scikit_learn_learns_from_tables(table):
    kept, predictions = loop(sgd(), Y, classes=[0, 1], X=table)
    assert_scores(validated(sgd(), table, Y), Y[kept], predictions)


def csv_stream(**how):
    text = FRAME.assign(kind=np.where(X[:, 0] < 0.5, "a", None), label=WORDS).to_csv(index=False)
    return open_stream(io.BytesIO(text.encode()), format="csv", block_bytes=2_000, **how)


@pytest.mark.parametrize("delay", [0, 9])
def test_a_stream_of_files_gives_the_result_of_its_rows(delay):
    model, naive = (classifier(categorical_features=["kind"]) for _ in range(2))
    result = validated(model, csv_stream(target="label"), delay=delay)
    rows = FRAME.assign(kind=np.where(X[:, 0] < 0.5, "a", None))
    assert same(result, validated(naive, rows, WORDS, delay=delay))
    assert tables(model) == tables(naive)


def test_a_stream_of_files_must_be_opened_with_its_target():
    for how in ({}, {"target": "label"}):
        with pytest.raises(ValueError, match=r"must be named where it is opened: open_stream"):
            progressive_validation(classifier(), csv_stream(), **how)


def test_a_feature_that_comes_late_is_named():
    stream = [({"a": 1.0}, 0), ({"a": 2.0, "b": 1.0}, 1)]
    with pytest.raises(ValueError, match=r"stream has a row with the feature 'b', .*first row"):
        progressive_validation(classifier(), stream)


def test_a_feature_that_is_absent_is_missing():
    stream = [({"a": 1.0, "b": 2.0}, 0), ({"b": 1.0}, 1), ({"a": None, "b": 1.0}, 1)]
    one, other = classifier(), classifier()
    progressive_validation(one, stream)
    other.fit([[1.0, 2.0], [nan, 1.0], [nan, 1.0]], [0, 1, 1])
    assert one.n_samples_seen_ == 3
    assert np.array_equal(one.predict_proba(X[:, :2]), other.predict_proba(X[:, :2]))


def test_no_more_rows_are_taken_than_asked_for():
    stream = zip(X, WORDS, strict=True)
    result = validated(classifier(), stream, max_rows=100)
    assert same(result, validated(classifier(), X[:100], WORDS[:100]))
    assert len(list(stream)) == N - 100
    assert same(result, validated(classifier(), X, WORDS, max_rows=100))


# Classes


def test_late_classes_had_no_chance():
    y = np.where(np.arange(N) < 80, Y, Y + 2 * (Z > 2.3))
    model, losses = classifier().partial_fit(X[:1], y[:1]), []
    for i in range(1, N):
        p = dict(zip(model.classes_, model.predict_proba(X[i : i + 1])[0], strict=True))
        losses.append(-np.log(max(p.get(y[i], 0.0), np.finfo(float).eps)))
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    result = progressive_validation(classifier(), X, y)
    assert result.metrics["log_loss"] == pytest.approx(np.mean(losses), rel=1e-12)
    assert max(losses) > 36
    assert result.classes.tolist() == [0, 1, 3]
    assert list(result.metrics) == ["log_loss", "accuracy"]  # AUC is for two by default
    assert same(result, progressive_validation(classifier(), X, y, batch_size=1))


def test_known_classes_make_the_first_prediction_uniform():
    for model in (classifier(), sgd(), tree.HoeffdingTreeClassifier()):
        result = progressive_validation(model, X[:1], Y[:1], classes=[0, 1, 5])
        assert result.metrics["log_loss"] == pytest.approx(np.log(3))
        assert result.n_skipped == 0
    announced = progressive_validation(classifier(classes=[0, 1, 5]), X[:1], Y[:1])
    assert announced.metrics["log_loss"] == pytest.approx(np.log(3))


@pytest.mark.parametrize(
    ("model", "classes"),
    [(Perceptron(), [0, 1]), (SGDRegressor(), None), (regressor(), None), (classifier(), None)],
)
def test_without_an_answer_a_row_is_not_counted(model, classes):
    result = progressive_validation(model, X[:1], Y[:1], classes=classes)
    assert (result.n_rows, result.n_skipped) == (1, 1)
    assert all(isnan(value) for value in result.metrics.values())


def test_models_without_probabilities_have_the_metrics_of_labels():
    result = progressive_validation(Perceptron(), X, Y)
    assert list(result.metrics) == ["accuracy"]
    more = progressive_validation(Perceptron(), X, Y, metrics=["kappa", "accuracy"])
    assert more.metrics["accuracy"] == result.metrics["accuracy"]
    with pytest.raises(ValueError, match="metrics has 'log_loss', which needs probabilities"):
        progressive_validation(Perceptron(), X, Y, metrics=["log_loss"])


def test_a_model_goes_on_from_what_it_has_learnt():
    model = classifier().fit(X[:100], Y[:100])
    assert progressive_validation(model, X[100:], Y[100:]).n_skipped == 0
    assert tables(model) == tables(classifier().fit(X, Y))


# Weights


@pytest.mark.parametrize("new", [classifier, sgd])
def test_weights_count_in_learning_and_in_the_metrics(new):
    weights = np.random.default_rng(1).integers(0, 3, N) / 2
    weights[:2] = 0
    model, losses = new(), np.zeros(N)
    for i in range(N):
        p = [0.5, 0.5] if i <= np.flatnonzero(weights)[0] else model.predict_proba(X[i : i + 1])[0]
        losses[i] = -np.log(p[Y[i]])
        if weights[i]:
            model.partial_fit(X[i : i + 1], Y[i : i + 1], [0, 1], sample_weight=weights[i : i + 1])
    for given in (weights, iter(weights)):
        result = progressive_validation(new(), X, Y, classes=[0, 1], sample_weight=given)
        wanted = np.average(losses, weights=weights)
        assert result.metrics["log_loss"] == pytest.approx(wanted, rel=1e-12)


def test_weights_may_be_a_column():
    weights = np.random.default_rng(1).integers(0, 3, N) / 2
    frame = FRAME.assign(label=WORDS, w=weights)
    wanted = validated(classifier(), X, WORDS, sample_weight=weights)
    for stream in (frame, pa.Table.from_pandas(frame).to_reader(50), frame.to_dict("records")):
        assert same(wanted, validated(classifier(), stream, target="label", sample_weight="w"))


def test_river_learns_with_weights():
    weights = np.random.default_rng(1).integers(0, 3, N) / 2
    model = amforest.river.AMFClassifier(3, seed=0)
    result = validated(model, X, WORDS, sample_weight=weights)
    other = validated(classifier(), X, WORDS, sample_weight=weights)
    for name, value in other.metrics.items():
        assert result.metrics[name] == pytest.approx(value, rel=1e-12)


# Interruption


def interrupting(n_rows):
    """A stream in which Ctrl-C comes before a row."""
    for i in range(N):
        if i == n_rows:
            signal.raise_signal(signal.SIGINT)
        yield X[i], Y[i]


@pytest.mark.parametrize("n_rows", [0, 1, 100])
@pytest.mark.parametrize("new", [classifier, sgd, tree.HoeffdingTreeClassifier])
def test_an_interrupt_keeps_all_rows_before_it(new, n_rows):
    result = validated(new(), interrupting(n_rows), classes=[0, 1])
    assert result.interrupted
    wanted = validated(new(), X[:n_rows], Y[:n_rows], classes=[0, 1]) if n_rows else None
    assert result.n_rows == n_rows
    assert wanted is None or same(result, wanted)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Interrupted(SGDClassifier):
    """One that is interrupted while it learns its tenth row."""

    n_learned = 0

    def partial_fit(self, *args, **how):
        self.n_learned += 1
        for _ in range(self.n_signals * (self.n_learned == 10)):
            signal.raise_signal(signal.SIGINT)
        return super().partial_fit(*args, **how)


@pytest.mark.parametrize(("n_signals", "n_rows"), [(1, 10), (2, 9)])
def test_an_interrupt_waits_for_the_row_and_a_second_one_does_not(n_signals, n_rows):
    model = Interrupted(loss="log_loss")
    model.n_signals = n_signals
    result = progressive_validation(model, X, Y)
    assert (result.interrupted, result.n_rows) == (True, n_rows)


def test_labels_that_are_due_after_an_interrupt_are_not_learned():
    model = classifier()
    result = progressive_validation(model, interrupting(100), delay=30)
    assert (result.n_rows, model.n_samples_seen_) == (70, 70)


def test_a_real_interrupt_ends_an_endless_stream():
    code = """
import itertools, numpy as np
from amforest import AMFClassifier
from amforest.evaluation import progressive_validation
def stream():
    rng = np.random.default_rng(0)
    for t in itertools.count():
        if t == 3_000:
            print("ready", flush=True)
        x = rng.uniform(size=3)
        yield x, int(x[0] > 0.5)
model = AMFClassifier(n_estimators=2)
result = progressive_validation(model, stream())
print(result.interrupted, result.n_rows == model.n_samples_seen_ >= 2_000)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=60)[0] == "True True\n"
    assert child.returncode == 0


def test_it_runs_in_other_threads():
    results = []
    thread = threading.Thread(target=lambda: results.append(validated(classifier(), X, Y)))
    thread.start()
    thread.join()
    assert same(results[0], validated(classifier(), X, Y))


# Results


def test_curves_are_what_shorter_streams_end_with():
    result = validated(classifier(), X, Y, every=40)
    assert result.curve["row"].tolist() == [40, 80, 120, 160]
    for k, n in enumerate((40, 80, 120, 160)):
        short = validated(classifier(), X[:n], Y[:n])
        for name in OF_CLASSES:
            assert result.curve[name][k] == short.metrics[name]
            assert result.curve[f"{name}_window"][k] == short.window[name]


def test_a_curve_ends_at_the_last_row():
    assert validated(classifier(), X[:25], Y[:25]).curve["row"].tolist() == [10, 20, 25]


def test_curves_stay_small():
    evaluator, zeros = Evaluator("regression", ["mae"], window=3), np.zeros(1_000)
    for k in range(1, 41):
        evaluator.update(zeros, zeros)
        row = evaluator.result().curve["row"]
        steps = np.unique(np.diff(row))
        assert len(row) <= MOST_POINTS + 1
        assert row[-1] == 1_000 * k
        assert steps[-1] in (10, 20, 40, 80, 160, 320)
        assert len(steps) <= 2  # the last may be shorter
    assert len(row) > MOST_POINTS // 4


def test_memory_does_not_grow_with_the_stream():
    def size(n_batches):
        evaluator = Evaluator("classification", OF_CLASSES, window=100, every=10**9)
        for _ in range(n_batches):
            evaluator.update(Y, np.column_stack((1 - X[:, 0], X[:, 0])), [0, 1])
        return len(pickle.dumps(evaluator))

    assert abs(size(40) - size(2)) < 100  # numbers have more digits


def test_a_result_reads_as_a_table():
    evaluator = Evaluator("classification", window=2_000)
    evaluator.update(["no", "yes"], [[0.75, 0.25], [0.25, 0.75]], ["no", "yes"])
    evaluator.update(["no"], None)
    assert repr(evaluator.result(seconds=1.25, interrupted=True)).splitlines() == [
        "3 rows, 1 without prediction, 2 classes, 1.25 s, interrupted",
        "                 all  last 2,000",
        "log_loss     0.28768     0.28768",
        "accuracy           1           1",
        "auc                1           1",
    ]


def test_a_result_becomes_a_frame():
    result = validated(classifier(), X, Y)
    frame = result.to_frame()
    assert list(frame) == ["row", *(n + w for n in OF_CLASSES for w in ("", "_window"))]
    np.testing.assert_array_equal(frame["kappa_window"], result.curve["kappa_window"])


def test_a_result_becomes_a_picture():
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    result = validated(classifier(), X, Y)
    axes = result.plot(["accuracy", "auc"])
    lines = [line.get_ydata() for line in axes[1].lines]
    assert any(np.array_equal(line, result.curve["auc"], equal_nan=True) for line in lines)
    plt.close("all")
    _, ax = plt.subplots()
    assert result.plot(["accuracy"], ax=ax)[0] is ax
    plt.close("all")


def test_time_is_that_of_the_model():
    def slow():
        for x, label in islice(zip(X, Y, strict=True), 3):
            threading.Event().wait(0.2)
            yield x, label

    assert 0 < progressive_validation(classifier(), slow()).seconds < 0.5
    told = []
    progressive_validation(sgd(), slow(), classes=[0, 1], progress=told.append)
    assert len(told) >= 2  # once within, after half a second, and at the end


def test_on_a_terminal_progress_is_one_line(monkeypatch):
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        progressive_validation(classifier(), X, Y, progress=True)
        line = ""
        while not line.endswith("\n"):  # a terminal hands over its text in pieces
            line += screen.read(10_000).decode()
    assert line.startswith(f"\r{N} rows  log_loss 0.")
    assert line.endswith("\x1b[K\r\n")


def test_progress_is_told(capsys):
    told = []
    result = progressive_validation(classifier(), X, Y, progress=told.append)
    assert same(told[-1], result)
    progressive_validation(classifier(), X, Y, progress=True)
    assert capsys.readouterr().err.startswith(f"{N} rows  log_loss 0.")


def test_what_is_not_needed_is_not_imported():
    code = "import sys, amforest.evaluation; print({'river', 'matplotlib'} & {*sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


# Evaluator


def test_an_evaluator_goes_on_after_pickling():
    p = np.column_stack((1 - X[:, 0], X[:, 0]))
    one = Evaluator("classification", OF_CLASSES)
    one.update(Y[:100], p[:100], [0, 1])
    other = pickle.loads(pickle.dumps(one))
    for evaluator in (one, other):
        evaluator.update(Y[100:], p[100:], [0, 1])
    assert same(one.result(), other.result())


def test_the_order_of_columns_means_nothing():
    p = np.column_stack((1 - X[:, 0], X[:, 0]))
    one, other = Evaluator("classification"), Evaluator("classification")
    one.update(WORDS, p, ["no", "yes"])
    other.update(WORDS, p[:, ::-1], ["yes", "no"])
    assert one.metrics == other.metrics


def test_nan_is_no_probability_and_no_prediction():
    evaluator = Evaluator("classification", ["log_loss", "accuracy"])
    evaluator.update([0], [[nan, nan]], [0, 1])
    assert evaluator.metrics == {"log_loss": -np.log(np.finfo(float).eps), "accuracy": 0.0}


@pytest.mark.parametrize(
    ("task", "update", "says"),
    [
        ("classification", ([0], [[0.5, 0.5]]), "classes is None; predictions has 2 columns"),
        ("classification", ([0], [[0.5, 0.5]], [0]), "classes is 1 labels; predictions has 2"),
        ("classification", ([0], [[-3.0, 3.5]], [0, 1]), "predictions holds .*between 0 and 1"),
        ("classification", ([0, 1], [[1.0]], [0]), "predictions has 1 rows; y has 2"),
        ("classification", ([None], [0]), "y holds None"),
        ("classification", ([0], [0], None, [-1.0]), "weights holds -1.0"),
        ("classification", ([0], [0], None, [1, 2]), r"weights has shape \(2,\); there are 1"),
        ("regression", ([nan], [0.0]), "y must hold numbers only"),
        ("regression", (["a"], [0.0]), "y must hold numbers only"),
        ("regression", ([1.0], [0.0, 1.0]), r"predictions has shape \(2,\); there are 1 rows"),
        (
            "regression",
            ([1.0], [0.0], None, None, [1.0, 2.0]),
            r"intervals has shape \(2,\); it must have 2 ends for 1 rows",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused_and_changes_nothing(task, update, says):
    evaluator = Evaluator(task, ["accuracy"] if task == "classification" else None)
    before = pickle.dumps(evaluator)
    with pytest.raises(ValueError, match=says):
        evaluator.update(*update)
    assert pickle.dumps(evaluator) == before


# What is refused


class Weightless(SGDClassifier):
    def partial_fit(self, X, y, classes=None):
        return super().partial_fit(X, y, classes)


@pytest.mark.parametrize(
    ("model", "stream", "how", "error", "says"),
    [
        (classifier(), (X, Y), {"delay": -1}, ValueError, "delay == -1"),
        (classifier(), (X, Y), {"window": 0}, ValueError, "window == 0"),
        (classifier(), (X, Y), {"every": 0.5}, TypeError, "every must be"),
        (classifier(), (X, Y), {"batch_size": 0}, ValueError, "batch_size == 0"),
        (classifier(), (X, Y), {"max_rows": 0}, ValueError, "max_rows == 0"),
        (classifier(), (X, Y), {"metrics": "auc"}, TypeError, "metrics is 'auc'; .*list"),
        (classifier(), (X, Y), {"metrics": ["mse"]}, ValueError, "none of classification"),
        (
            regressor(),
            (X, Z),
            {"metrics": ["coverage"]},
            ValueError,
            "coverage is 0.9; a AMFRegressor does not predict intervals, AdaptiveAMFRegressor does",
        ),
        (classifier(), (X, Y[1:]), {}, ValueError, r"y has shape \(159,\); X has 160 rows"),
        (classifier(), (X[0], Y), {}, ValueError, r"X has shape \(4,\)"),
        (classifier(), (X,), {}, ValueError, "y is None, but stream is X alone"),
        (classifier(), ("data.csv",), {}, TypeError, "stream is 'data.csv'; it must be a table"),
        (classifier(), (5,), {}, TypeError, "stream is 5; it must be a table"),
        (classifier(), ([1, 2],), {}, TypeError, r"stream yields 1: it must yield \(x, y\)"),
        (classifier(), ([FRAME],), {}, TypeError, "stream yields .*: name the column"),
        (classifier(), (FRAME,), {}, TypeError, "stream yields .*: name the column"),
        (classifier(), (arrow(),), {"target": "lable"}, ValueError, "did you mean 'label'"),
        (classifier(), (X, Y), {"target": "a"}, ValueError, "target is 'a' and y is given"),
        (classifier(), (X, Y), {"sample_weight": [1]}, ValueError, "sample_weight has 1 values"),
        (classifier(), (X, Y), {"sample_weight": "w"}, ValueError, "so must be target"),
        (classifier(), (X, Y), {"sample_weight": -X[:, 0]}, ValueError, "sample_weight holds -"),
        (classifier(), (zip(X, Y, strict=True),), {"sample_weight": [1.0]}, ValueError,
         "sample_weight ends before the stream"),
        (Weightless(), (X, Y), {"sample_weight": Z}, TypeError, "Weightless.partial_fit takes no"),
        (neighbors.KNNClassifier(), (X, Y), {"sample_weight": Z}, TypeError,
         "KNNClassifier.learn_one takes no weights"),
        (tree.HoeffdingTreeClassifier, (X, Y), {}, TypeError, "is the class Hoeffding"),
        (make_pipeline(StandardScaler(), sgd()), (X, Y), {}, TypeError, "Pipeline, .*partial_fit"),
        (LogisticRegression(), (X, Y), {}, TypeError, "LogisticRegression, which has neither"),
        (MiniBatchKMeans(), (X, Y), {}, TypeError, "neither classifier nor regressor"),
        (compose.Pipeline(preprocessing.StandardScaler()), (X, Y), {}, TypeError, "neither"),
        (sgd(), (zip(X, Y, strict=True),), {}, ValueError, "classes is None; a SGDClassifier"),
    ],
)  # fmt: skip
def test_bad_input_is_named(model, stream, how, error, says):
    with pytest.raises(error, match=says):
        progressive_validation(model, *stream, **how)


def test_an_error_in_the_stream_is_told_and_what_was_learned_stays():
    def stream():
        for i in count():
            if i == 100:
                raise ZeroDivisionError
            yield X[i], Y[i]

    model = classifier()
    with pytest.raises(ZeroDivisionError):
        progressive_validation(model, stream(), batch_size=10)
    assert model.n_samples_seen_ == 100
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

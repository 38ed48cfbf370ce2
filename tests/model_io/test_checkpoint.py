"""However a run is stopped, it goes on from its checkpoints as if it had never been."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from itertools import count, islice
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import numpy as np
import pytest
from numpy.random import RandomState
from scipy.sparse import coo_array

from amforest import (
    AdaptiveAMFClassifier,
    AdaptiveAMFRegressor,
    AMFClassifier,
    AMFRegressor,
    Checkpoint,
    load,
)
from amforest.baselines import MondrianForestClassifier
from amforest.model_io import model_file

X = np.random.default_rng(0).random((300, 3), dtype=np.float32)
Y = np.where(np.arange(300) < 200, np.where(X[:, 0] < X[:, 1], "no", "yes"), "late")
WEIGHTS = np.random.default_rng(1).choice([0, 0.5, 1, 2], 300)
WEIGHTS[:70] = 0
STOPS = (1, 57, 120, 201, 300)
NAMES = ["a", "b", "c"]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoints"


def classifier(**params):
    return AMFClassifier(**{"n_estimators": 3, "random_state": 0, **params})


def as_dicts(labels):
    """Rows for river: a category, and from row 100 on another feature."""
    for t, (x, y) in enumerate(zip(X.tolist(), labels.tolist(), strict=True)):
        row = {"a": x[0], "b": x[1], "kind": f"{int(9 * x[2])}"}
        yield row | ({"c": x[2]} if t >= 100 else {}), y


def as_arrays(labels):
    return zip(X, labels.tolist(), strict=True)


def river(name):
    """Other processes do without what only some tests need."""
    import amforest.river

    return getattr(amforest.river, name)(3, seed=0)


ONE_BY_ONE = {
    "classifier": (classifier, as_arrays, Y),
    "regressor": (lambda: AMFRegressor(n_estimators=3, random_state=0), as_arrays, X[:, 2]),
    "mondrian": (lambda: MondrianForestClassifier(3, random_state=0), as_arrays, Y),
    "river": (lambda: river("AMFClassifier"), as_dicts, Y),
    "adaptive": (lambda: AdaptiveAMFClassifier(1, random_state=0), as_arrays, Y),
    "adaptive river": (lambda: river("AdaptiveAMFClassifier"), as_dicts, Y),
    "adaptive regressor": (
        lambda: AdaptiveAMFRegressor(1, memories=[None, 15], random_state=0),
        as_arrays,
        X[:, 2],
    ),
    "river-regressor": (lambda: river("AMFRegressor"), as_dicts, X[:, 2]),
}


def learn(checkpoint, rows):
    """Go on with the rows of a stream that were not consumed."""
    for x, y in islice(rows, checkpoint.position, None):
        checkpoint.model.learn_one(x, y)
        checkpoint.step()


def learned(n_rows, model=None):
    """A model that was never stopped."""
    model = classifier() if model is None else model
    for x, y in islice(as_arrays(Y), n_rows):
        model.learn_one(x, y)
    return model


def filled(folder, n_rows=100, **how):
    """A folder in which a run left checkpoints, the last one at n_rows."""
    with Checkpoint(classifier(), folder, **{"every": 30, **how}) as checkpoint:
        learn(checkpoint, islice(as_arrays(Y), n_rows))
    return names(folder)


def stopped(folder, error, run, model=None, **how):
    """Run in a checkpoint's block until the error; return both."""
    checkpoint = Checkpoint(classifier() if model is None else model, folder, **how)
    with pytest.raises(error) as caught, checkpoint:
        run(checkpoint)
    return checkpoint, caught.value


def learn_33(checkpoint):
    learn(checkpoint, islice(as_arrays(Y), 33))


def names(folder):
    return sorted(os.listdir(folder))


def name(n_rows):
    return f"checkpoint-{n_rows:012}.amf"


# The same forest


@pytest.mark.parametrize("way", ONE_BY_ONE)
def test_a_resumed_run_equals_one_that_never_stopped(way, folder):
    make, rows, labels = ONE_BY_ONE[way]
    for before, stop in zip((0, *STOPS), STOPS, strict=False):
        with Checkpoint(make(), folder, every=50) as checkpoint:
            assert checkpoint.n_samples == checkpoint.position == before
            learn(checkpoint, islice(rows(labels), stop))
    whole = make()
    for x, y in rows(labels):
        whole.learn_one(x, y)
    assert checkpoint.model.to_bytes() == whole.to_bytes()
    assert load(folder / name(300)).to_bytes() == whole.to_bytes()


def sparse(X):
    return coo_array(X)


def pandas(X):
    import pandas

    return pandas.DataFrame(X, index=np.linspace(9, 0, len(X)), columns=NAMES)


def polars(X):
    import polars

    return polars.DataFrame(X, NAMES)


def pyarrow(X):
    import pyarrow

    return pyarrow.table(dict(zip(NAMES, X.T, strict=True)))


@pytest.mark.parametrize(
    "container", [np.asarray, np.ndarray.tolist, sparse, pandas, polars, pyarrow]
)
def test_a_batch_learned_in_pieces_equals_one_learned_at_once(container, folder):
    for stop in STOPS:
        with Checkpoint(classifier(), folder, every=50) as checkpoint:
            part = slice(checkpoint.position, stop)
            checkpoint.partial_fit(container(X[part]), Y[part].tolist())
    at_once = classifier().partial_fit(container(X), Y)
    assert checkpoint.model.to_bytes() == at_once.to_bytes()


def test_batches_are_saved_on_the_way(folder):
    with Checkpoint(AMFRegressor(n_estimators=3, random_state=0), folder, every=90) as checkpoint:
        checkpoint.partial_fit(X, X[:, 2])
        assert names(folder) == [name(90), name(180), name(270)]


@pytest.mark.parametrize("every", [3, 50, None])
def test_weights_are_cut_like_rows_and_those_of_0_count_in_the_position_only(every, folder):
    for stop in STOPS[2:]:
        with Checkpoint(classifier(), folder, every=every) as checkpoint:
            part = slice(checkpoint.position, stop)
            checkpoint.partial_fit(X[part], Y[part], sample_weight=WEIGHTS[part].tolist())
            assert checkpoint.position == stop
            assert checkpoint.n_samples == np.count_nonzero(WEIGHTS[:stop])
    at_once = classifier().partial_fit(X, Y, sample_weight=WEIGHTS)
    assert checkpoint.model.to_bytes() == at_once.to_bytes()


@pytest.mark.parametrize("stops", [(300,), (120, 250, 300)])
def test_classes_may_be_announced_by_each_run_and_others_may_come(stops, folder):
    for stop in stops:
        with Checkpoint(classifier(), folder, every=50) as checkpoint:
            part = slice(checkpoint.position, stop)
            checkpoint.partial_fit(X[part], Y[part], classes=["yes", "no", "never"])
    at_once = classifier().partial_fit(X, Y, classes=["yes", "no", "never"])
    assert checkpoint.model.to_bytes() == at_once.to_bytes()
    with checkpoint, pytest.raises(ValueError, match="the classes so far are"):
        checkpoint.partial_fit(X, Y, classes=["yes", "new"])


def test_labels_of_several_kinds_become_of_one_kind_before_they_are_cut(folder):
    with Checkpoint(classifier(), folder, every=1) as checkpoint:
        checkpoint.partial_fit(X[:2], ["one", 2])
    assert checkpoint.model.classes_.tolist() == ["2", "one"]


def test_a_bad_batch_is_refused_before_it_is_cut(folder):
    with Checkpoint(classifier(), folder, every=10) as checkpoint:
        for bad in ({"y": Y[:-1]}, {"sample_weight": -WEIGHTS}, {"sample_weight": [1.0]}):
            with pytest.raises(ValueError, match=r"samples|weight"):
                checkpoint.partial_fit(**{"X": X, "y": Y, **bad})
        with pytest.raises(TypeError, match="unexpected"):
            checkpoint.partial_fit(X, Y, weight=WEIGHTS)
        with pytest.raises(ValueError, match="0 sample"):
            checkpoint.partial_fit(X[:0], Y[:0])
    assert names(folder) == []


def test_models_of_river_have_no_partial_fit(folder):
    with (
        Checkpoint(river("AMFClassifier"), folder) as checkpoint,
        pytest.raises(TypeError, match="learn_many, then step"),
    ):
        checkpoint.partial_fit(X, Y)


# Positions


def test_who_skips_rows_resumes_behind_them(folder):
    for stop in STOPS:
        with Checkpoint(classifier(), folder, every=10) as checkpoint:
            for t in range(checkpoint.position, stop):
                if t % 3:
                    checkpoint.model.learn_one(X[t], Y[t])
                checkpoint.step(position=np.int64(t + 1))
    assert checkpoint.position == 300
    assert names(folder)[-1] == "checkpoint-000000000200-000000000300.amf"
    assert (
        checkpoint.model.to_bytes()
        == classifier().partial_fit(X, Y, sample_weight=np.arange(300) % 3 > 0).to_bytes()
    )


def test_a_row_learned_after_the_last_step_counts(folder):
    def run(checkpoint):
        checkpoint.model.learn_one(X[0], Y[0])
        checkpoint.step(position=5)
        checkpoint.model.learn_one(X[5], Y[5])
        raise ZeroDivisionError

    stopped(folder, ZeroDivisionError, run)
    with Checkpoint(classifier(), folder) as checkpoint:
        assert (checkpoint.n_samples, checkpoint.position) == (2, 6)


def test_rows_learned_before_the_first_run_are_not_of_the_stream(folder):
    with Checkpoint(learned(50), folder) as checkpoint:
        assert (checkpoint.n_samples, checkpoint.position) == (50, 0)
        learn(checkpoint, islice(as_arrays(Y), 20))
    with Checkpoint(learned(50), folder) as checkpoint:
        assert (checkpoint.n_samples, checkpoint.position) == (70, 20)


def test_a_position_before_rows_that_were_learned_is_refused(folder):
    with Checkpoint(classifier(), folder) as checkpoint:
        checkpoint.model.learn_one(X[0], Y[0])
        with pytest.raises(ValueError, match=r"position is 0, but 1 rows .* were consumed"):
            checkpoint.step(position=0)
        with pytest.raises(TypeError):
            checkpoint.step(position=1.0)


def test_a_piece_that_is_interrupted_resumes_within_it(folder):
    trees = {"n_estimators": 400}  # some 160 rows of which are learned before a look for signals
    rows, labels, weights = np.tile(X, (8, 1)), np.tile(Y, 8), np.tile(WEIGHTS, 8)

    def interrupt(checkpoint):
        while checkpoint.n_samples < 100:
            time.sleep(1e-3)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)

    def run(checkpoint):
        (thread := threading.Thread(target=interrupt, args=[checkpoint])).start()
        try:
            checkpoint.partial_fit(rows, labels, sample_weight=weights)
        finally:
            thread.join()

    checkpoint, _ = stopped(folder, KeyboardInterrupt, run, classifier(**trees))
    n_samples, position = checkpoint.n_samples, checkpoint.position
    assert n_samples == np.count_nonzero(weights[:position]) < np.count_nonzero(weights)
    with Checkpoint(classifier(**trees), folder) as checkpoint:
        assert checkpoint.position == position
        rest = slice(position, None)
        checkpoint.partial_fit(rows[rest], labels[rest], sample_weight=weights[rest])
    whole = classifier(**trees).partial_fit(rows, labels, sample_weight=weights)
    assert checkpoint.model.to_bytes() == whole.to_bytes()


# Files


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_the_newest_files_are_kept(keep, folder):
    assert filled(folder, keep=keep) == [name(n) for n in (30, 60, 90, 100)][-keep:]


def test_what_a_killed_run_did_not_remove_is_removed_by_the_next(folder):
    filled(folder, keep=5)
    with Checkpoint(classifier(), folder, keep=2):
        assert names(folder) == [name(90), name(100)]


def test_without_every_the_model_is_saved_on_leaving_and_when_asked(folder):
    with Checkpoint(classifier(), folder, every=None) as checkpoint:
        learn(checkpoint, islice(as_arrays(Y), 50))
        assert names(folder) == []
        assert checkpoint.save() == checkpoint.save() == folder / name(50)
        learn(checkpoint, islice(as_arrays(Y), 60))
    assert names(folder) == [name(50), name(60)]


def test_where_nothing_was_learned_nothing_is_saved(folder):
    with Checkpoint(learned(5), folder):
        pass
    assert names(folder) == []


def test_files_of_others_stay(folder):
    ours = filled(folder, 30)
    others = [name(1)[:-4], "checkpoint-1.amf", "x" + name(1), name(1) + ".damaged", "model.amf"]
    others.append(".model.amf.0123456789abcdef.tmp")
    for other in others:
        (folder / other).write_text("not ours")
    (folder / name(99)).mkdir()
    stale = f".{name(30)}.0123456789abcdef.tmp"
    (folder / stale).write_text("of a writer that was killed")
    with Checkpoint(classifier(), folder, every=10, keep=1) as checkpoint:
        assert checkpoint.resumed_from == folder / ours[0]
        assert stale not in names(folder)
        learn(checkpoint, islice(as_arrays(Y), 100))
    assert names(folder) == sorted([*others, name(99), name(100)])
    assert all((folder / other).read_text() == "not ours" for other in others)


def cut_short(path):
    os.truncate(path, path.stat().st_size - 1)


def change_a_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def swap(path):
    path.write_bytes(learned(99).to_bytes())


def make_unreadable(path):
    """Linux says that this file has 4096 bytes, and gives less."""
    source = "/sys/kernel/mm/transparent_hugepage/enabled"
    if not os.path.exists(source):
        pytest.skip("Linux' sysfs is not here")
    path.unlink()
    path.symlink_to(source)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut_short, "not a model of amforest"),
        (change_a_bit, "digest"),
        (swap, "99 rows, not as many as its name says"),
        (make_unreadable, "became shorter"),
    ],
)
def test_a_damaged_file_is_put_aside_and_the_one_before_it_resumed(damage, reason, folder):
    filled(folder)
    damage(folder / name(100))
    text = f"{name(100)} is damaged and was renamed to {name(100)}.damaged: .*{reason}"
    checkpoint = Checkpoint(classifier(), folder, every=30)
    with pytest.warns(UserWarning, match=text):
        checkpoint.__enter__()
    assert checkpoint.resumed_from == folder / name(90)
    learn(checkpoint, islice(as_arrays(Y), 100))
    checkpoint.__exit__(None, None, None)
    assert names(folder) == [name(60), name(90), name(100), name(100) + ".damaged"]
    assert load(folder / name(100)).to_bytes() == learned(100).to_bytes()


def test_if_all_files_are_damaged_the_run_begins_again(folder):
    for path in filled(folder):
        cut_short(folder / path)
    with (
        pytest.warns(UserWarning, match="is damaged") as caught,
        Checkpoint(classifier(), folder) as checkpoint,
    ):
        assert (checkpoint.resumed_from, checkpoint.position) == (None, 0)
    assert len(caught) == 3
    assert names(folder) == [name(n) + ".damaged" for n in (60, 90, 100)]


def test_a_file_of_a_newer_format_is_no_damaged_one(folder):
    files = filled(folder)
    document = {"format": model_file.FORMAT + 1, "library": "9.9"}
    (folder / name(100)).write_bytes(b"".join(model_file.sealed_pieces(document, {})))
    with pytest.raises(ValueError, match=rf"{name(100)}: .* install a newer one"):
        Checkpoint(classifier(), folder).__enter__()
    assert names(folder) == files


def test_a_file_that_cannot_be_read_may_be_whole_and_is_no_damaged_one(folder):
    source = "/sys/class/net/lo/speed"  # which Linux refuses to tell: EINVAL
    if not os.path.exists(source):
        pytest.skip("Linux' sysfs is not here")
    files = filled(folder)
    (folder / name(100)).unlink()
    (folder / name(100)).symlink_to(source)
    with pytest.raises(OSError, match=rf"Invalid argument: '.*{name(100)}'"):
        Checkpoint(classifier(), folder).__enter__()
    assert names(folder) == files


# Another model


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"n_estimators": 4}, "n_estimators=3, but model has n_estimators=4"),
        ({"random_state": 1}, "random_state=0, but model has random_state=1"),
        ({"random_state": RandomState(0)}, "random_state=0, but model has random_state=Random"),
        ({"classes": np.array(["no", "yes"])}, r"classes=None, but model has classes=array\("),
    ],
)
def test_checkpoints_of_other_parameters_are_refused_and_left_alone(params, text, folder):
    filled(folder)
    cut_short(folder / name(100))
    stale = folder / f".{name(30)}.0123456789abcdef.tmp"
    stale.write_bytes(b"")
    before = names(folder)
    checkpoint = Checkpoint(classifier(**params), folder)
    with pytest.raises(ValueError, match=f"{name(90)} was trained with {text}"):
        checkpoint.__enter__()
    assert names(folder) == before


@pytest.mark.parametrize("way", ["regressor", "mondrian", "river"])
def test_checkpoints_of_another_class_are_refused(way, folder):
    filled(folder)
    text = r"holds a amforest\.classifier\.AMFClassifier, but model is a amforest\."
    with pytest.raises(ValueError, match=text):
        Checkpoint(ONE_BY_ONE[way][0](), folder).__enter__()


@pytest.mark.parametrize("way", ["classifier", "river"])
def test_threads_are_those_of_the_model_given(way, folder):
    make, rows, labels = ONE_BY_ONE[way]
    with Checkpoint(make(), folder) as checkpoint:
        learn(checkpoint, islice(rows(labels), 10))
    model = make()
    model.n_jobs = 2
    with Checkpoint(model, folder) as checkpoint:
        assert checkpoint.n_samples == 10
        assert checkpoint.model.n_jobs == getattr(checkpoint.model, "_model", model).n_jobs == 2


@pytest.mark.parametrize(
    "params",
    [
        {"random_state": None},
        {"classes": np.array(["no", "yes"]), "step": np.float64(0.5)},
        {"partition": "unrestricted", "bounds": np.array([[0, 1], [0, 2], [0, 1]])},
    ],
)
def test_the_same_parameters_are_known_again(params, folder):
    for n_rows in (50, 100):
        with Checkpoint(classifier(**params), folder) as checkpoint:
            learn(checkpoint, islice(as_arrays(Y), n_rows))
    assert checkpoint.resumed_from == folder / name(50)


def test_a_generator_that_has_drawn_the_seeds_is_known_again(folder):
    for n_rows in (0, 50, 100):
        with Checkpoint(classifier(random_state=RandomState(3)), folder) as checkpoint:
            learn(checkpoint, islice(as_arrays(Y), n_rows))
            checkpoint.save()
    whole = learned(100, classifier(random_state=RandomState(3)))
    assert checkpoint.model.to_bytes() == whole.to_bytes()
    with pytest.raises(ValueError, match="random_state"):
        Checkpoint(classifier(random_state=RandomState(4)), folder).__enter__()


def test_a_model_fitted_afresh_is_refused(folder):
    def run(checkpoint):
        learn_33(checkpoint)
        checkpoint.save()
        checkpoint.model.fit(X[:7], Y[:7])

    _, error = stopped(folder, ValueError, run)
    assert "has learned 7 rows, but had learned 33: use another folder" in str(error)
    assert names(folder) == [name(33)]


# Errors


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_was_learned_is_saved_whatever_error_there_was(error, folder):
    def run(checkpoint):
        learn_33(checkpoint)
        raise error

    stopped(folder, error, run)
    assert load(folder / name(33)).to_bytes() == learned(33).to_bytes()


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ZeroDivisionError(), ZeroDivisionError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (SystemExit(0), FileNotFoundError),  # the process would end without a word
        (None, FileNotFoundError),
    ],
)
def test_if_saving_fails_too_both_errors_are_told(error, raised, folder):
    def run(checkpoint):
        learn_33(checkpoint)
        folder.rmdir()
        if error is not None:
            raise error

    _, caught = stopped(folder, raised, run)
    if raised is FileNotFoundError:
        assert str(folder / name(33)) in str(caught)
        assert caught.__context__.__context__ is error
    else:
        (note,) = caught.__notes__
        assert note.startswith(
            "The model could not be saved at the end of the block: FileNotFoundError"
        )
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_full_disk_is_an_error_and_leaves_the_older_files(folder):
    before = filled(folder)
    size, limits = (folder / name(100)).stat().st_size, getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (size, limits[1]))
    try:
        _, error = stopped(folder, OSError, lambda c: learn(c, as_arrays(Y)), every=100)
    finally:
        setrlimit(RLIMIT_FSIZE, limits)
    assert (error.errno, error.filename) == (errno.EFBIG, str(folder / name(200)))
    assert "The model could not be saved at the end of the block" in error.__notes__[0]
    assert names(folder) == before
    assert load(folder / name(100)).to_bytes() == learned(100).to_bytes()


def test_who_goes_on_after_a_failure_does_not_save_with_each_row(folder):
    with Checkpoint(classifier(), folder, every=10) as checkpoint:
        folder.rmdir()
        failed = []
        for t in range(25):
            checkpoint.model.learn_one(X[t], Y[t])
            try:
                checkpoint.step()
            except FileNotFoundError:
                failed.append(t + 1)
        folder.mkdir()
    assert failed == [10, 20]
    assert names(folder) == [name(25)]


def test_a_run_without_files_goes_on_where_its_model_is(folder):
    def run(checkpoint):
        learn_33(checkpoint)
        folder.rmdir()

    checkpoint, _ = stopped(folder, FileNotFoundError, run)
    with checkpoint:
        assert checkpoint.position == 33
        learn(checkpoint, islice(as_arrays(Y), 66))
    assert load(folder / name(66)).to_bytes() == learned(66).to_bytes()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"every": 0}, ValueError, "every == 0, must be >= 1"),
        ({"every": 1e4}, TypeError, "every must be an instance of"),
        ({"keep": 0}, ValueError, "keep == 0, must be >= 1"),
        ({"folder": __file__}, NotADirectoryError, "folder is a file"),
        ({"model": "model.amf"}, TypeError, "a model file can hold AMFClassifier"),
    ],
)
def test_bad_arguments_are_named(arguments, error, text, folder):
    with pytest.raises(error, match=text):
        Checkpoint(**{"model": classifier(), "folder": folder, **arguments})
    assert not folder.exists()


def test_it_works_within_its_block_only(folder):
    checkpoint = Checkpoint(classifier(), folder)
    for call in (checkpoint.step, checkpoint.save, lambda: checkpoint.partial_fit(X, Y)):
        with pytest.raises(RuntimeError, match="within its block"):
            call()
    with checkpoint, pytest.raises(RuntimeError, match="in use"):
        checkpoint.__enter__()


# Signals


class Signalling(list):
    """A row that sends signals while it is being converted."""

    def __init__(self, x, *numbers):
        super().__init__(x)
        self.numbers = numbers

    def __array__(self, dtype=None, copy=None):
        for number in self.numbers:
            signal.raise_signal(number)
        return np.array(list(self), dtype)


LEAVES = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: SystemExit}


def two_rows(checkpoint, *numbers):
    checkpoint.model.learn_one(X[0], Y[0])
    checkpoint.model.learn_one(Signalling(X[1], *numbers), Y[1])


@pytest.mark.parametrize("number", LEAVES)
@pytest.mark.parametrize("steps", [True, False])
def test_a_signal_waits_for_the_row_then_the_next_step_or_the_end_leaves(steps, number, folder):
    def run(checkpoint):
        two_rows(checkpoint, number)
        assert checkpoint.n_samples == 2
        if steps:
            checkpoint.step()
            pytest.fail("step did not leave")

    before = [signal.getsignal(number) for number in LEAVES]
    _, error = stopped(folder, LEAVES[number], run)
    assert names(folder) == [name(2)]
    assert number == signal.SIGINT or error.code == 143
    assert [signal.getsignal(number) for number in LEAVES] == before


@pytest.mark.parametrize("numbers", [(2, 2), (15, 15), (15, 2), (2, 15)])
def test_a_second_signal_does_not_wait(numbers, folder):
    stopped(folder, KeyboardInterrupt, lambda checkpoint: two_rows(checkpoint, *numbers))
    assert names(folder) == [name(1)]


def test_an_error_goes_before_a_signal_and_tells_of_it(folder):
    def run(checkpoint):
        two_rows(checkpoint, signal.SIGTERM)
        raise ZeroDivisionError

    _, error = stopped(folder, ZeroDivisionError, run)
    assert error.__notes__ == ["SIGTERM came before this error"]
    assert names(folder) == [name(2)]


def test_signals_that_are_ignored_stay_so(folder):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Checkpoint(classifier(), folder) as checkpoint:
            two_rows(checkpoint, *[signal.SIGINT] * 3)
            checkpoint.step()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_signals_alone(folder):
    handlers = []

    def work():
        with Checkpoint(classifier(), folder) as checkpoint:
            handlers.append(signal.getsignal(signal.SIGINT))
            learn(checkpoint, islice(as_arrays(Y), 40))

    (thread := threading.Thread(target=work)).start()
    thread.join()
    assert handlers == [signal.default_int_handler]
    assert names(folder) == [name(40)]


def test_a_file_holds_what_its_name_says_while_another_thread_learns(folder):
    end = threading.Event()

    def work():
        for x, y in endless():
            checkpoint.model.learn_one(x, y)
            if end.is_set():
                return

    with Checkpoint(learned(1), folder, keep=20) as checkpoint:
        (thread := threading.Thread(target=work)).start()
        while len(names(folder)) < 20:
            checkpoint.save()
        end.set()
        thread.join()
    assert [load(folder / file).n_samples_seen_ for file in names(folder)] == [
        int(file[11:23]) for file in names(folder)
    ]


# Processes


def command(call, folder):
    """Call a function of this file in another process."""
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import test_checkpoint"
    return [sys.executable, "-c", f"{code}; test_checkpoint.{call}({str(folder)!r})"]


def endless():
    """Rows t = 0, 1, … of a stream, always the same."""
    for t in count():
        yield [t * 0.618 % 1, t * 0.414 % 1, t % 2], f"{t % 3}"


def learn_for_ever(folder):
    try:
        with Checkpoint(classifier(), folder, every=5) as checkpoint:
            learn(checkpoint, islice(endless(), 20))
            print("ready", flush=True)
            learn(checkpoint, endless())
    finally:
        print(checkpoint.n_samples, flush=True)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, -2)])
def test_a_process_that_gets_a_signal_saves_and_leaves(number, status, folder):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command("learn_for_ever", folder), **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        n_rows, errors = process.communicate()
    assert process.returncode == status
    assert ("KeyboardInterrupt" in errors) == (number == signal.SIGINT)
    assert names(folder)[-1] == name(int(n_rows))
    assert load(folder / name(int(n_rows))).n_samples_seen_ == int(n_rows)


def be_killed(folder):
    """Start and kill 25 learners, forked because an import takes longer than their lives."""
    warnings.simplefilter("error", UserWarning)  # a damaged file would be one
    moments, newest = np.random.default_rng(0), 5
    with Checkpoint(classifier(), folder) as checkpoint:
        learn(checkpoint, islice(endless(), 5))
    for _ in range(25):
        if (child := os.fork()) == 0:
            try:
                learn_for_ever(folder)
            finally:
                os._exit(1)
        time.sleep(moments.uniform(0, 0.06))
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        files = [file for file in names(folder) if not file.startswith(".")]
        assert 1 <= len(files) <= 4
        before, newest = newest, load(os.path.join(folder, files[-1])).n_samples_seen_
        assert before <= newest == int(files[-1][11:23])


def test_a_run_killed_at_any_moments_goes_on_as_if_it_never_was(folder):
    subprocess.run(command("be_killed", folder), stdout=subprocess.DEVNULL, check=True)
    n_before = int(names(folder)[-1][11:23])
    with Checkpoint(classifier(), folder) as checkpoint:
        assert checkpoint.position == n_before > 5
        learn(checkpoint, islice(endless(), n_before + 50))
    whole = classifier()
    for x, y in islice(endless(), n_before + 50):
        whole.learn_one(x, y)
    assert checkpoint.model.to_bytes() == whole.to_bytes()
    assert names(folder)[-1] == name(n_before + 50)
    assert not [file for file in names(folder) if file.startswith(".")]


def test_what_else_belongs_to_a_run_is_kept_with_it(folder):
    with Checkpoint(classifier(), folder, every=50) as checkpoint:
        assert checkpoint.extra is None
        for n, (x, y) in enumerate(islice(as_arrays(Y), 120)):
            checkpoint.model.learn_one(x, y)
            checkpoint.extra = {"offset": 10 * n}
            checkpoint.step()
    with Checkpoint(classifier(), folder) as checkpoint:
        assert checkpoint.extra == {"offset": 1190}

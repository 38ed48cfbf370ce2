"""``step="auto"``: the first rows settle the step, whatever the unit of y and the batches are."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise
from threading import Thread

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import r2_score

import amforest
from amforest import AMFRegressor, river
from amforest._forest.core_handle import handle_of
from amforest._forest.early_rows import EarlyRows
from amforest._forest.encoder import Part
from amforest.model_io import model_file, safetensors_bytes
from amforest.model_io.model_file import ModelFormatError, from_bytes

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(400, 3)).astype(np.float32)
Y = np.sin(6 * X[:, 0]) + X[:, 1] + RNG.normal(scale=0.2, size=400)
WEIGHTS = RNG.choice([0.0, 0.5, 1.0, 3.0], size=400)
BOX = {"partition": "unrestricted", "bounds": (0.0, 1.0)}
KINDS = {
    "plain": {},
    "exact": {"charge_first": True, "predict_extends": True},
    "box": {**BOX, "split_prior": (0.4, 0.5)},
    "pure": {"split_pure": True, "max_nodes": 300},
}
COPIES = {
    "file": lambda model: from_bytes(model.to_bytes()),
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "deepcopy": copy.deepcopy,
}


def regressor(**params):
    return AMFRegressor(**{"n_estimators": 3, "random_state": 0, **params})


def grown(ends, y=Y, weights=None, **params):
    model = regressor(**params)
    for start, end in pairwise([0, *ends]):
        some = None if weights is None else weights[start:end]
        model.partial_fit(X[start:end], y[start:end], some)
    return model


def trees(model):
    return [model.tree_table(i).tobytes() for i in range(3)]


def variance(y, weights=None):
    mean = np.average(y, weights=weights)
    return np.average((y - mean) ** 2, weights=weights)


# The step


@pytest.mark.parametrize("n", [2, 3, 4, 7, 64, 127, 128, 129, 400])
def test_the_step_is_a_quarter_of_the_inverse_variance_at_the_last_power_of_2(n):
    settled = Y[: min(2 ** (n.bit_length() - 1), 128)]
    assert grown([n]).step_ == pytest.approx(1 / (4 * np.var(settled)), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 127, 128, 300])
def test_the_forest_is_the_one_that_its_step_would_have_given_from_the_start(n, kind):
    auto = grown([n], **KINDS[kind])
    assert trees(auto) == trees(grown([n], **KINDS[kind], step=auto.step_))


def test_weights_count_in_the_variance_and_rows_of_weight_0_do_not_count():
    model = grown([400], weights=WEIGHTS)
    learned = np.flatnonzero(WEIGHTS)[:128]
    expected = 1 / (4 * variance(Y[learned], WEIGHTS[learned]))
    assert model.step_ == pytest.approx(expected, rel=1e-12)


def test_a_weight_of_2_settles_the_same_variance_as_a_weight_of_1():
    assert grown([400], weights=np.full(400, 2.0)).step_ == grown([400]).step_


def test_a_step_that_is_given_is_used_and_no_rows_are_kept():
    for params, step in (({"step": 0.3}, 0.3), ({"step": None, "bound": 2.0}, 1 / 32)):
        model = grown([5, 9], **params)
        assert model.step_ == step
        assert handle_of(model).fitted.early is None


def test_auto_is_the_default_and_a_parameter_like_others():
    assert AMFRegressor().get_params()["step"] == "auto" == river.AMFRegressor().step
    assert clone(grown([200])).step == "auto"
    assert not hasattr(AMFRegressor(), "step_")
    with pytest.raises(ValueError, match="'step' parameter of AMFRegressor must be"):
        AMFRegressor(step="fast").fit(X, Y)


def test_no_rows_are_kept_once_the_step_is_settled():
    assert handle_of(grown([127])).fitted.early is not None
    assert handle_of(grown([128])).fitted.early is None


# Independence of batches


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("ends", [[1, 2, 3, 400], [128, 400], [50, 130, 131, 400], [399, 400]])
def test_batches_do_not_change_the_forest(kind, weights, ends):
    whole = grown([400], weights=weights, **KINDS[kind])
    parts = grown(ends, weights=weights, **KINDS[kind], n_jobs=2)
    assert trees(parts) == trees(whole)
    assert parts.step_ == whole.step_


@pytest.mark.parametrize("weights", [np.ones(400), WEIGHTS])
def test_single_rows_give_the_same_forest(weights):
    model = regressor()
    for x, label, weight in zip(X, Y, weights, strict=True):
        if weight or model.__sklearn_is_fitted__():
            model.learn_one(x, label, weight)
    assert trees(model) == trees(grown([400], weights=weights))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_test_then_train_predicts_each_row_as_the_forest_before_it_does(kind, weights):
    together, single, predictions = regressor(**KINDS[kind]), regressor(**KINDS[kind]), [0.0]
    some = slice(None) if weights is None else np.flatnonzero(weights)[0] + np.arange(200)
    x, y, w = X[some][:200], Y[some][:200], None if weights is None else weights[some]
    found = together.partial_fit_predict(x, y, w)
    for i in range(200):
        if i:
            predictions.append(single.predict_one(x[i]))
        single.partial_fit(x[i : i + 1], y[i : i + 1], None if w is None else w[i : i + 1])
    assert found.tolist() == predictions
    assert trees(together) == trees(single)
    losses = np.average((found - y) ** 2, weights=w)
    assert together.stats()["progressive_loss"] == pytest.approx(losses, rel=1e-12)


def test_sparse_rows_and_categories_give_the_same_forest_in_any_batches():
    frame = pd.DataFrame(
        {"a": X[:, 0], "b": pd.Categorical(np.array(list("uvw"))[np.arange(400) % 3])}
    )
    whole, parts = regressor().fit(frame, Y), regressor()
    for start, end in pairwise([0, 1, 6, 40, 200, 400]):
        parts.partial_fit(frame[start:end], Y[start:end])
    rows = regressor(categorical_features=[1])
    for i in range(400):
        x = [float(frame["a"][i]), frame["b"][i]]
        rows.learn_one(x, Y[i]) if i else rows.partial_fit(np.array([x], object), Y[:1])
    assert trees(parts) == trees(whole) == trees(rows)


# Saving


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("n", [1, 3, 64, 127, 128, 129])
def test_a_copy_goes_on_as_the_original(n, how, kind):
    model = grown([n], weights=WEIGHTS + 0.5, **KINDS[kind])
    other = COPIES[how](model)
    assert other.step_ == model.step_
    assert other.to_bytes() == model.to_bytes()
    for each in (model, other):
        each.partial_fit(X[n:300], Y[n:300])
    assert other.to_bytes() == model.to_bytes()
    assert trees(model) == trees(
        grown([300], weights=np.append(WEIGHTS[:n] + 0.5, np.ones(300 - n)), **KINDS[kind])
    )


def test_a_copy_shares_nothing_with_the_original():
    model = grown([5])
    before = model.to_bytes()
    copy.deepcopy(model).partial_fit(X[5:60], Y[5:60])
    assert model.to_bytes() == before


def test_a_checkpoint_in_the_first_rows_resumes(tmp_path):
    for end in (50, 90, 300):
        with amforest.Checkpoint(regressor(), tmp_path, every=7) as checkpoint:
            for i in range(checkpoint.position, end):
                checkpoint.model.learn_one(X[i], Y[i])
                checkpoint.step()
    assert trees(checkpoint.model) == trees(grown([300]))


def changed(data, **others):
    arrays, metadata = safetensors_bytes.unpack(data)
    arrays = dict(arrays)
    for name, change in others.items():
        if change is None:
            del arrays[name]
        else:
            arrays[name] = change(arrays[name].copy())
    document = model_file.json.loads(metadata["amforest"])
    return b"".join(model_file.sealed_pieces(document, arrays))


def with_value(value):
    def change(array):
        array.flat[0] = value
        return array

    return change


@pytest.mark.parametrize(
    "others",
    [
        {"early_rows": None},
        {"early_rows": lambda a: a[:, :2].copy()},
        {"early_rows": lambda a: a.astype(np.float64)},
        {"early_rows": with_value(np.inf)},
        {"early_labels": with_value(np.nan)},
        {"early_labels": lambda a: a[:3].copy()},
        {"early_weights": with_value(0.0)},
        {"early_weights": with_value(-1.0)},
        {"early_weights": with_value(np.nan)},
        {"early_seeds": lambda a: a[:2].copy()},
        {"early_seeds": lambda a: a * 0},
        {name: lambda a: a[:3].copy() for name in ("early_rows", "early_labels", "early_weights")},
        {name: lambda a: a[:0].copy() for name in ("early_rows", "early_labels", "early_weights")},
    ],
)
def test_damaged_rows_are_refused(others):
    data = grown([9]).to_bytes()
    assert from_bytes(changed(data)).step_ == grown([9]).step_
    with pytest.raises(ModelFormatError):
        from_bytes(changed(data, **others))


def test_a_classifier_has_no_early_rows():
    model = amforest.AMFClassifier(3, random_state=0).fit(X[:9], Y[:9] > 0)
    arrays, metadata = safetensors_bytes.unpack(model.to_bytes())
    early, _ = safetensors_bytes.unpack(grown([9]).to_bytes())
    arrays = {**arrays, **{name: a for name, a in early.items() if name.startswith("early_")}}
    with pytest.raises(ModelFormatError, match="other arrays"):
        from_bytes(
            b"".join(model_file.sealed_pieces(model_file.json.loads(metadata["amforest"]), arrays))
        )


# The unit of y


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factor", [1e-9, 1e-3, 1e3, 1e9])
def test_multiplying_y_multiplies_the_predictions(factor, kind):
    plain = regressor(**KINDS[kind]).partial_fit_predict(X, Y)
    scaled = regressor(**KINDS[kind]).partial_fit_predict(X, Y * factor)
    np.testing.assert_allclose(scaled / factor, plain, rtol=1e-7, atol=1e-9)
    assert r2_score(Y * factor, scaled) == pytest.approx(r2_score(Y, plain), abs=1e-9)


@pytest.mark.parametrize("exponent", [-100, -30, 30, 100])
def test_multiplying_y_by_a_power_of_2_changes_nothing_but_the_exponent(exponent):
    factor = 2.0**exponent
    plain, scaled = grown([400]).predict(X), grown([400], y=Y * factor).predict(X)
    assert (scaled == plain * factor).all()


@pytest.mark.parametrize("shift", [1e3, -1e6])
def test_adding_a_constant_to_y_adds_it_to_the_predictions(shift):
    plain, shifted = grown([400]), grown([400], y=Y + shift)
    assert shifted.step_ == pytest.approx(plain.step_, rel=1e-6)
    np.testing.assert_allclose(shifted.predict(X) - shift, plain.predict(X), atol=1e-6)


def test_r2_is_near_that_of_the_variance_of_all_labels_and_above_that_of_a_wrong_unit():
    y = Y * 0.01

    def r2(**params):
        return r2_score(y[50:], regressor(n_estimators=10, **params).partial_fit_predict(X, y)[50:])

    assert r2() == pytest.approx(r2(step=1 / (4 * np.var(y))), abs=0.02)
    assert r2() > r2(step=1.0) + 0.1


@pytest.mark.parametrize("scale", [1e-170, 1e-60, 0.0, 1e75])
def test_tiny_and_huge_labels_have_a_valid_step(scale):
    model = grown([400], y=np.sign(Y) * scale)
    assert 0 < model.step_ <= 1e100
    assert np.isfinite(model.predict(X)).all()


# Labels that are all equal


@pytest.mark.parametrize("constant", [0.0, 0.1, -7e8])
@pytest.mark.parametrize("n_equal", [3, 127, 128, 129, 200])
@pytest.mark.parametrize("split_pure", [False, True])
def test_the_first_other_label_settles_the_step_if_128_labels_are_equal(
    constant, n_equal, split_pure
):
    y = np.where(np.arange(400) < n_equal, constant, constant + Y)
    how = {"y": y, "split_pure": split_pure}
    whole = grown([400], **how)
    counted = y[: max(128, n_equal + 1)]
    assert whole.step_ == pytest.approx(1 / (4 * np.var(counted)), rel=1e-6)
    assert trees(whole) == trees(grown([400], **how, step=whole.step_))
    for ends in ([n_equal, n_equal + 1, 400], [130, 131, 132, 180, 220, 400]):
        assert trees(grown(ends, **how)) == trees(whole)
    rows = regressor(split_pure=split_pure)
    for x, label in zip(X, y, strict=True):
        rows.learn_one(x, label)
    assert trees(rows) == trees(whole)
    found = regressor(split_pure=split_pure).partial_fit_predict(X, y)
    again = regressor(split_pure=split_pure)
    cut = np.append(
        again.partial_fit_predict(X[:150], y[:150]), again.partial_fit_predict(X[150:], y[150:])
    )
    assert (found == cut).all()


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("n", [128, 150])
def test_a_copy_goes_on_while_all_labels_are_equal(how, n):
    y = np.where(np.arange(400) < 180, 5.0, Y)
    other = COPIES[how](grown([n], y=y)).partial_fit(X[n:], y[n:])
    assert trees(other) == trees(grown([400], y=y))


def test_any_step_predicts_equal_labels():
    for n in (1, 5, 128, 200):
        assert grown([n], y=np.full(400, 0.3)).predict(X) == pytest.approx(0.3, abs=1e-15)


def test_weights_count_where_the_first_other_label_is_late():
    y = np.where(np.arange(400) < 330, 2.0, 9.0)
    model = grown([400], y=y, weights=WEIGHTS)
    n = np.flatnonzero((y == 9) & (WEIGHTS > 0))[0] + 1
    expected = 1 / (4 * variance(y[:n], WEIGHTS[:n]))
    assert model.step_ == pytest.approx(expected, rel=1e-12)


# Errors


@pytest.mark.parametrize("n", [0, 1, 5, 127, 128])
@pytest.mark.parametrize("bad", ["x", "y", "weight", "box"])
def test_a_call_that_is_refused_changes_nothing(n, bad):
    params = BOX if bad == "box" else {}
    model = regressor(**params)
    if n:
        model.partial_fit(X[:n], Y[:n])
    before = model.to_bytes()
    x, y, weights = X[n : n + 200].copy(), Y[n : n + 200].copy(), np.ones(200)
    x[150, 1] = {"x": 1e35, "box": 2.0}.get(bad, 0.5)
    y[150] = 1e80 if bad == "y" else 0.0
    weights[150] = 1e-40 if bad == "weight" else 1.0
    for call in (model.partial_fit, model.partial_fit_predict):
        with pytest.raises(ValueError, match=r"X|y|weight"):
            call(x, y, weights)
        assert model.to_bytes() == before
    assert trees(model.partial_fit(X[n:], Y[n:])) == trees(grown([400], **params))


@pytest.mark.parametrize("n", [0, 1, 5, 127])
@pytest.mark.parametrize("n_built", [4, 128])
def test_a_call_that_fails_on_the_way_changes_nothing(n, n_built, monkeypatch):
    model = grown([n]) if n else regressor()
    before, build = model.to_bytes(), EarlyRows._build

    def fail(rows, core, step):
        if len(rows.labels) >= n_built:
            raise MemoryError
        return build(rows, core, step)

    with monkeypatch.context() as patch:
        patch.setattr(EarlyRows, "_build", fail)
        for call in (model.partial_fit, model.partial_fit_predict):
            with pytest.raises(MemoryError):
                call(X[n:], Y[n:])
            assert model.to_bytes() == before
    assert trees(model.partial_fit(X[n:], Y[n:])) == trees(grown([400]))


@pytest.mark.parametrize("n", [0, 5])
def test_a_refusal_of_the_rows_after_row_128_changes_nothing(n, monkeypatch):
    """The rows after the last change are refused before one of them is learned."""
    model = grown([n]) if n else regressor()
    before, cut = model.to_bytes(), Part.cut

    def refused_at_the_end(part, start, end):
        some = cut(part, start, end)
        return some._replace(labels=some.labels[:-1]) if end is None else some

    with monkeypatch.context() as patch:
        patch.setattr(Part, "cut", refused_at_the_end)
        with pytest.raises(ValueError, match="same number of rows"):
            model.partial_fit(X[n:], Y[n:])
    assert model.to_bytes() == before


@pytest.mark.parametrize("n", [1, 5, 127])
@pytest.mark.parametrize("x", [[0.1, 1e35, 0.2], [0.1, 0.2], [0.1, "a", 0.2]])
def test_a_failed_row_changes_nothing(n, x):
    model = grown([n])
    before = model.to_bytes()
    for row, label, weight in (
        (x, 1.0, 1.0),
        (X[0], 1e80, 1.0),
        (X[0], np.nan, 1.0),
        (X[0], 1, -1),
    ):
        with pytest.raises((ValueError, TypeError)):
            model.learn_one(row, label, weight)
        assert model.to_bytes() == before
    assert trees(model.partial_fit(X[n:], Y[n:])) == trees(grown([400]))


def test_fit_forgets_the_step_and_a_failed_fit_does_not():
    model = grown([100], y=Y * 1e6)
    before = model.to_bytes()
    with pytest.raises(ValueError, match="X"):
        model.fit(X * 1e35, Y)
    assert model.to_bytes() == before
    assert trees(model.fit(X, Y)) == trees(grown([400]))


def test_rows_of_weight_0_change_nothing():
    model = grown([5])
    before = model.to_bytes()
    model.learn_one(X[0], 1e9, 0.0).partial_fit(X[:2], [1e9, 1e9], [0.0, 0.0])
    assert model.to_bytes() == before


def test_others_predict_while_the_first_rows_are_learned():
    model, errors = grown([1]), []

    def predict():
        try:
            for _ in range(300):
                assert np.isfinite(model.predict(X[:20])).all()
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=predict) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(1, 200):
        model.learn_one(X[i], Y[i])
    for thread in threads:
        thread.join()
    assert not errors
    assert trees(model) == trees(grown([200]))


def test_limits_hold_while_the_step_is_settled():
    for limit in ({"max_nodes": 30}, {"max_bytes": 9_000}):
        model = grown([1, 20, 100, 400], **limit)
        stats = model.stats()
        assert stats["nodes"] <= limit.get("max_nodes", 1e9)
        assert stats["bytes"] <= limit.get("max_bytes", 1e9)
        assert trees(model) == trees(grown([400], **limit))


# River


def named(i):
    """Features come late, also a categorical one, and go."""
    row = {"a": float(X[i, 0]), "b": float(X[i, 1]), "word": "uvw"[i % 3], "c": float(X[i, 2])}
    late = {"a": 0, "b": 10, "word": 30, "c": 70}
    row |= {f"d{k}": float(X[i, 0]) for k in range(5)}
    return {k: v for k, v in row.items() if i >= late.get(k, 100) and (i + len(k)) % 11}


def river_model(n_rows=0, **params):
    model = river.AMFRegressor(**{"n_estimators": 3, "seed": 0, **params})
    for i in range(n_rows):
        model.learn_one(named(i), Y[i])
    return model


def river_trees(model):
    return trees(model.to_sklearn())


def frame_of(start, end):
    return pd.DataFrame([named(i) for i in range(start, end)], index=range(start, end))


@pytest.mark.parametrize("ends", [[300], [1, 2, 60, 61, 129, 300]])
def test_river_learns_frames_as_it_learns_rows(ends):
    rows, frames = river_model(n_rows=300), river_model()
    for start, end in pairwise([0, *ends]):
        frames.learn_many(frame_of(start, end), pd.Series(Y[start:end], range(start, end)))
    assert frames.step_ == rows.step_ == grown([300]).step_
    assert river_trees(frames) == river_trees(rows)
    assert river_trees(rows) == river_trees(river_model(n_rows=300, step=rows.step_))


@pytest.mark.parametrize("how", [*COPIES, "by the estimator"])
@pytest.mark.parametrize("n", [1, 5, 50, 90, 127, 128])
def test_a_copy_of_rivers_model_goes_on(n, how):
    model = river_model(n_rows=n)
    copies = COPIES | {
        "by the estimator": lambda m: river.AMFRegressor.from_sklearn(m.to_sklearn())
    }
    other = copies[how](model)
    assert other.step == "auto"
    for i in range(n, 200):
        other.learn_one(named(i), Y[i])
    assert river_trees(other) == river_trees(river_model(n_rows=200))


def test_the_estimator_of_rivers_model_goes_on():
    rows = [{"a": float(x[0]), "b": float(x[1]), "c": float(x[2])} for x in X]
    model = river.AMFRegressor(3, seed=0)
    for i in range(50):
        model.learn_one(rows[i], Y[i])
    other = model.to_sklearn().partial_fit(pd.DataFrame(rows[50:]), Y[50:])
    assert trees(other) == trees(grown([400]))
    back = river.AMFRegressor.from_sklearn(grown([50]))
    for i in range(50, 400):
        back.learn_one(dict(enumerate(X[i].tolist())), Y[i])
    assert river_trees(back) == trees(grown([400]))

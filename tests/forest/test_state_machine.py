"""Learning, predicting, saving, copying and refusing in any order: the trees stay what they are.

Two models learn the same. One is saved and loaded, pickled and copied all the time, the other is
left alone: they are equal to the bit after each step.
"""

import copy
import math
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sklearn.base import clone

from amforest import AdaptiveAMFClassifier, AMFClassifier, AMFRegressor, river
from amforest.baselines import MondrianForestClassifier
from amforest.model_io.model_file import from_bytes

sys.path.append(str(Path(__file__).parents[1] / "torture"))
from invariants import check_trees

EXAMPLES = int(os.environ.get("STATE_MACHINE_EXAMPLES", "40"))  # a longer run wants some thousands
NAMES = ["category", "a", "b"]
CATEGORIES = st.sampled_from(["u", "v", None, 0, (1, "w"), b"x"])
NUMBERS = st.sampled_from([0.0, -0.0, 0.25, 0.5, 0.5000001, 1.0, -3.0, 1e-40, 1e20, math.nan])
INSIDE = st.sampled_from([0.0, 0.1, 0.25, 0.2500001, 0.5, 0.75, 1.0])  # the box
CLASSES, LATE = ["no", "yes"], ["maybe", "", "é"]
WEIGHTS = st.sampled_from([1.0, 1.0, 1.0, 2.0, 0.0, 0.3])

KINDS = ["classifier", "regressor", "box", "mondrian", "river", "adaptive", "adaptive river"]
switches = st.fixed_dictionaries(
    {
        "n_estimators": st.integers(1, 3),
        "split_pure": st.booleans(),
        "n_jobs": st.sampled_from([None, 2]),
        "max_nodes": st.sampled_from([None, None, 3, 20]),
        "max_bytes": st.sampled_from([None, None, 3_000]),
    }
)
aggregation = st.fixed_dictionaries(
    {
        "use_aggregation": st.booleans(),
        "charge_first": st.booleans(),
        "predict_extends": st.booleans(),
        "step": st.sampled_from([1.0, 0.5]),
    }
)


class Machine(RuleBasedStateMachine):
    """A model that is left alone, and one that is not."""

    def __init__(self):
        super().__init__()
        self.alone = self.moved = None
        self.n_rows = self.weight = self.n_refused = 0
        self.known: list[str] = []  # classes
        self.nodes_when_full: dict[int, int] = {}
        self.is_river = self.is_adaptive = False

    @initialize(
        kind=st.sampled_from(KINDS),
        shared=switches,
        more=aggregation,
        seed=st.integers(0, 3),
    )
    def begin(self, kind, shared, more, seed):
        self.kind = kind
        self.is_classifier = kind not in ("regressor", "box")
        self.is_river, self.is_adaptive = "river" in kind, "adaptive" in kind
        if self.is_adaptive:
            few = {"memories": (None, 8), "honest_memories": [8], "n_candidates": 300}
            more = {"use_aggregation": more["use_aggregation"], "step": more["step"], **few}
            limits = {"max_nodes": 6_000, "max_bytes": 3_000_000}
            shared = shared | {k: shared[k] and most for k, most in limits.items()}
        categories = {"categorical_features": [0], "random_state": seed}
        makes = {
            "classifier": lambda: AMFClassifier(**shared, **more, **categories),
            "regressor": lambda: AMFRegressor(**shared, **more, **categories),
            "box": lambda: AMFRegressor(
                partition="unrestricted", random_state=seed, **shared, **more
            ),
            "mondrian": lambda: MondrianForestClassifier(**shared, **categories),
            "river": lambda: river.AMFClassifier(
                **shared, **more, seed=seed, categorical_features=["category"]
            ),
            "adaptive": lambda: AdaptiveAMFClassifier(**shared, **more, **categories),
            "adaptive river": lambda: river.AdaptiveAMFClassifier(
                **shared, **more, seed=seed, categorical_features=["category"]
            ),
        }
        self.alone, self.moved = makes[kind](), makes[kind]()
        self.limits = shared["max_nodes"], shared["max_bytes"]

    # Learning

    def row(self, data):
        if self.kind == "box":
            return [data.draw(INSIDE), data.draw(INSIDE)]
        values = [data.draw(CATEGORIES), data.draw(NUMBERS), data.draw(NUMBERS)]
        if not self.is_river:
            return values
        absent = data.draw(st.sets(st.sampled_from(NAMES)))
        return {name: x for name, x in zip(NAMES, values, strict=True) if name not in absent}

    def label(self, data):
        if not self.is_classifier:
            return data.draw(st.sampled_from([0.0, 1.0, -2.5, 1e10]))
        return data.draw(st.sampled_from(self.known or CLASSES))

    def both(self, act):
        """Do the same to both; return what the first one gave."""
        first, second = act(self.alone), act(self.moved)
        if isinstance(first, np.ndarray):
            np.testing.assert_array_equal(first, second)
        return first

    def count(self, labels, weights):
        learned = [w for w in weights if w > 0]
        self.n_rows += len(learned)
        self.weight += math.fsum(learned)
        new = [y for y, w in zip(labels, weights, strict=True) if w > 0 and y not in self.known]
        self.known += dict.fromkeys(new) if self.is_classifier else []

    @rule(data=st.data(), weight=WEIGHTS)
    def learn_one(self, data, weight):
        x, y = self.row(data), self.label(data)
        if weight == 0 and not self.n_rows:
            weight = 1.0
        self.both(lambda model: model.learn_one(x, y, weight))
        self.count([y], [weight])

    @precondition(lambda self: not self.is_river)
    @rule(data=st.data(), n_rows=st.integers(1, 12), weighted=st.booleans(), tests=st.booleans())
    def learn_batch(self, data, n_rows, weighted, tests):
        rows = [self.row(data) for _ in range(n_rows)]
        labels = [self.label(data) for _ in rows]
        weights = [1.0, *(data.draw(WEIGHTS) for _ in rows[1:])] if weighted else None
        name = "partial_fit"
        if tests:
            name += "_predict_proba" if self.is_classifier else "_predict"
        X = self.table(rows)
        self.both(lambda model: getattr(model, name)(X, labels, sample_weight=weights))
        self.count(labels, weights or [1.0] * n_rows)

    def table(self, rows):
        """Tuples are values here, not rows of values."""
        X = np.empty((len(rows), len(rows[0])), dtype=object)
        X[:] = rows
        return X.astype(float) if self.kind == "box" else X

    @precondition(lambda self: self.n_rows and self.is_classifier)
    @rule(data=st.data(), label=st.sampled_from(LATE), weight=st.sampled_from([1.0, 0.5]))
    def learn_a_late_class(self, data, label, weight):
        x = self.row(data)
        self.both(lambda model: model.learn_one(x, label, weight))
        self.count([label], [weight])

    # Moving

    @rule()
    def save_and_load(self):
        saved = self.moved.to_bytes()
        self.moved = from_bytes(saved)
        assert self.moved.to_bytes() == saved

    @rule()
    def pickle(self):
        self.moved = pickle.loads(pickle.dumps(self.moved))

    @rule()
    def copy(self):
        self.moved, original = copy.deepcopy(self.moved), self.moved
        assert self.moved is not original

    @precondition(lambda self: not self.is_river)
    @rule()
    def clone(self):
        fresh = clone(self.moved)
        assert fresh.stats()["samples"] == 0
        assert fresh.get_params() == self.moved.get_params()

    # Looking

    @precondition(lambda self: self.n_rows)
    @rule(data=st.data())
    def predictions_of(self, data):
        x, before = self.row(data), self.moved.to_bytes()
        if not self.is_classifier:
            assert math.isfinite(self.both(lambda model: np.array([model.predict_one(x)]))[0])
        else:
            probabilities = self.both(lambda model: as_array(model.predict_proba_one(x)))
            assert abs(probabilities.sum() - 1) < 1e-9
            assert len(probabilities) == len(self.known)
        assert self.moved.to_bytes() == before

    # Refusing

    @precondition(lambda self: self.n_rows and not self.is_river)
    @rule(wrong=st.sampled_from(["width", "value", "label", "weight", "shape"]))
    def refuse(self, wrong):
        x, y, w = [0.5] * (2 if self.kind == "box" else 3), 1.0, 1.0
        y = self.known[0] if self.is_classifier else y
        if wrong == "width":
            x.append(0.5)
        elif wrong == "value":
            x[1] = 2.0**101
        elif wrong == "label":
            y = [1] if self.is_classifier else math.nan
        elif wrong == "weight":
            w = -1.0
        else:
            x = [[x]]
        for model in (self.alone, self.moved):
            before, n_refused = model.to_bytes(), model.stats()["rejected_rows"]
            with pytest.raises((ValueError, TypeError)):
                model.learn_one(x, y, w)
            assert model.to_bytes() == before
            assert model.stats()["rejected_rows"] == n_refused + 1

    # What is always true

    @invariant()
    def models_are_equal_to_the_bit(self):
        if self.alone is not None:
            assert self.alone.to_bytes() == self.moved.to_bytes()

    @invariant()
    def trees_are_valid(self):
        if self.n_rows:
            check_trees(self.alone)
            check_trees(self.moved)

    @invariant()
    def nothing_is_lost(self):
        if not self.n_rows:
            return
        assert self.alone.stats()["samples"] == self.n_rows
        if self.is_adaptive:  # which forgets
            return
        model = self.alone.to_sklearn() if self.is_river else self.alone
        for i in range(model.n_estimators):
            assert model.tree_table(i)["n_samples"][0] == pytest.approx(self.weight, rel=1e-12)

    @invariant()
    def limits_are_kept(self):
        if not self.n_rows:
            return
        max_nodes, max_bytes = self.limits
        for k, stats in enumerate((self.alone.stats(), self.moved.stats())):
            assert stats["nodes"] <= (max_nodes or math.inf)
            if stats["bytes"] <= (max_bytes or math.inf):
                self.nodes_when_full.pop(k, None)
            else:  # new classes, categories or fractions made nodes larger: there are no new ones
                assert self.kind != "box"
                if self.is_adaptive:  # trees with memories go on, and are replaced soon
                    continue
                assert stats["nodes"] <= self.nodes_when_full.setdefault(k, stats["nodes"])


def as_array(probabilities):
    values = probabilities.values() if isinstance(probabilities, dict) else probabilities
    return np.array(list(values))


def run(n_examples):
    how = {"derandomize": True, "deadline": None, "database": None, "stateful_step_count": 20}
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    run_state_machine_as_test(
        Machine,
        settings=settings(max_examples=n_examples, suppress_health_check=checks, **how),
    )


def test_models_stay_equal_and_valid_whatever_is_done_to_them():
    run(EXAMPLES)


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize(("label", "weight"), [("no", 1.0), ("no", 2.0), ("new", 1.0)])
def test_rows_of_another_width_are_refused_whatever_else_is_new(width, label, weight):
    model = AMFClassifier(1, categorical_features=[0], random_state=0)
    model.learn_one(["u", 0.0, 1.0], "no").learn_one(["v", 0.0, 0.0], "yes")
    before = model.to_bytes()
    with pytest.raises(ValueError, match=f"{width} features"):
        model.learn_one(["u", 1.0, 2.0, 3.0][:width], label, weight)
    assert model.to_bytes() == before

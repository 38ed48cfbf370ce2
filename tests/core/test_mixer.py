"""The mixer is online gradient descent on log-loss, and keeps within its bound of regret."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amforest import _core
from amforest.reference.adaptive_classes import Mixer

SMOOTHING = 1e-4
KINDS = ["random", "confident", "one is right", "takes turns", "worst label", "opposed"]
every_mixer = pytest.mark.parametrize("cls", [_core.Mixer, Mixer], ids=["core", "reference"])


def predictions(kind, rng, t, n_groups, n_classes):
    """Return the groups' predictions for row t, groups × classes."""
    p = rng.dirichlet(np.full(n_classes, 0.05 if kind == "confident" else 1.0), size=n_groups)
    if kind in ("one is right", "takes turns"):
        p[t // 20 % n_groups if kind == "takes turns" else 0] = np.eye(n_classes)[t % n_classes]
    if kind == "opposed":  # certain, and at odds
        p = np.eye(n_classes)[(t + np.arange(n_groups)) % n_classes]
    return p


def label(kind, rng, t, mixed):
    if kind in ("worst label", "opposed"):  # an adversary knows the prediction
        return int(np.argmin(mixed))
    return t % len(mixed) if kind in ("one is right", "takes turns") else rng.integers(len(mixed))


def play(mixer, kind, n_classes, rng, weights):
    """Return the mixer's loss, those of the groups, and Σ‖∇_t‖²."""
    n_groups = len(mixer.weights)
    loss, losses, squares = 0.0, np.zeros(n_groups), 0.0
    for t, weight in enumerate(weights):
        by_group = predictions(kind, rng, t, n_groups, n_classes)
        mixed = mixer.mix(by_group)
        y = int(label(kind, rng, t, mixed))
        logs = np.log((1 - SMOOTHING) * by_group + SMOOTHING / n_classes)
        loss -= weight * np.log(mixed[y])
        losses -= weight * logs[:, y]  # the group alone: its smoothed prediction adds up to 1
        squares += ((weight * (logs @ mixed - logs[:, y])) ** 2).sum()
        mixer.learn(by_group, y, weight)
    return loss, losses, squares


@every_mixer
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_groups", "n_classes"), [(1, 2), (2, 2), (3, 5), (9, 2), (9, 3)])
@pytest.mark.parametrize("rate", [0.01, 0.1])
def test_regret_is_within_the_bound_of_online_gradient_descent(
    cls, kind, n_groups, n_classes, rate
):
    """Σ loss(u_t) - Σ loss(e_g) ≤ ‖e_g - u_1‖² / 2η + η/2 Σ‖∇_t‖² for each group g."""
    rng = np.random.default_rng(KINDS.index(kind))
    weights = rng.choice([0.5, 1.0, 3.0], size=300)
    mixer = cls(n_groups, rate)
    u = np.array(mixer.weights)
    loss, losses, squares = play(mixer, kind, n_classes, rng, weights)
    for g, best in enumerate(np.eye(n_groups)):
        bound = ((best - u) ** 2).sum() / (2 * rate) + rate / 2 * squares
        assert loss - losses[g] <= bound + 1e-9


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 6), st.sampled_from(KINDS))
def test_the_core_equals_the_reference(seed, n_groups, n_classes, kind):
    rng = np.random.default_rng(seed)
    core, reference = _core.Mixer(n_groups, 0.05), Mixer(n_groups, 0.05)
    for t in range(30):
        by_group = predictions(kind, rng, t, n_groups, n_classes)
        mixed = core.mix(by_group)
        np.testing.assert_allclose(mixed, reference.mix(by_group), rtol=1e-11)
        y, weight = int(label(kind, rng, t, mixed)), float(rng.choice([0.1, 1, 30]))
        for mixer in (core, reference):
            mixer.learn(by_group, y, weight)
    np.testing.assert_allclose(core.weights, reference.weights, rtol=1e-10, atol=1e-13)


@every_mixer
def test_a_row_of_weight_above_ten_moves_the_weights_as_one_of_ten_does(cls):
    by_group = np.array([[0.2, 0.8], [0.7, 0.3]])
    mixers = [cls(2, 0.01) for _ in range(2)]
    for mixer, weight in zip(mixers, (10.0, 1e9), strict=True):
        mixer.learn(by_group, 1, weight)
    np.testing.assert_array_equal(*(mixer.weights for mixer in mixers))


@every_mixer
def test_certain_and_wrong_groups_give_finite_predictions(cls):
    mixer, by_group = cls(3, 1.0), np.tile([1.0, 0.0, 0.0], (3, 1))
    for _ in range(1_000):
        mixer.learn(by_group, 2)
    assert np.isfinite(mixer.weights).all()
    np.testing.assert_allclose(mixer.mix(by_group).sum(), 1)


def test_the_core_rejects_predictions_of_other_shapes():
    mixer = _core.Mixer(2, 0.01)
    with pytest.raises(ValueError, match="by_group"):
        mixer.mix(np.full((3, 2), 0.5))
    with pytest.raises(ValueError, match="y must"):
        mixer.learn(np.full((2, 2), 0.5), 2)

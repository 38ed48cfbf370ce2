"""What an adaptive forest needs to predict classes: the gain of a split, and a logistic mixer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from amforest.reference import ClassCounts, Floats, Generator, Reals, Tree
from amforest.reference.adaptive import AdaptiveForest
from amforest.reference.regrowth import running_sum


def information(counts: Reals) -> float:
    """Σ_k n_k log n_k - n log n."""
    *logs, of_all = (
        n * math.log(n) if n > 0 else 0.0 for n in (*counts.tolist(), running_sum(counts))
    )
    return running_sum(np.array(logs)) - of_all


def gain(values: Floats, threshold: float, y: Any, weight: Reals) -> float:
    """Return how much a split tells about the labels of the rows whose value is not missing."""
    sides = values <= threshold, values > threshold
    left, right = (
        np.bincount(y[side], weight[side], int(y.max()) + 1).astype(np.float64) for side in sides
    )
    return information(left) + information(right) - information(left + right)


class Mixer:
    """p(k) ∝ exp(Σ_g u_g ℓ_gk), ℓ_gk = log((1 - ε) p_g(k) + ε / K); u by gradient descent."""

    def __init__(self, n_groups: int, rate: float) -> None:
        self.rate = rate
        self.weights: Reals = np.full(n_groups, 1.0 / n_groups)  # u

    def logs(self, by_group: Reals) -> Reals:
        return np.asarray(np.log((1 - 1e-4) * by_group + 1e-4 / by_group.shape[1]))

    def mix(self, by_group: Reals) -> Reals:
        """Return the prediction, from those of the groups: groups × classes."""
        scores = self.weights @ self.logs(by_group)
        odds = np.exp(scores - scores.max())
        return np.asarray(odds / odds.sum())

    def limit(self, by_group: Reals, y: float) -> float:
        """Return what is learned of y: all of it, because no class is far from others."""
        return y

    def learn(self, by_group: Reals, y: float, weight: float = 1.0) -> None:
        """Take a gradient step on -log p(y); a row of weight w moves u as min(w, 10) rows do."""
        logs = self.logs(by_group)
        gradient = logs @ self.mix(by_group) - logs[:, int(y)]
        self.weights = self.weights - self.rate * min(weight, 10.0) * gradient


@dataclass
class ClassTask:
    """Nodes count classes, thresholds lie anywhere in the range, and the mixer is logistic."""

    n_classes: int
    dirichlet: float
    mixer_rate: float = 0.01
    has_linear_experts = False
    cuts_between_rows = False
    regrows_per_memory = 2
    gain = staticmethod(gain)

    def margin(self, y: Reals, weight: Reals) -> float:
        """Return 0: the first of equal splits is the best."""
        return 0.0

    def new_tree(self, rng: Generator, **options: Any) -> Tree:
        return Tree(lambda: ClassCounts(self.n_classes, self.dirichlet), rng, **options)

    def new_mixer(self, n_experts: int) -> Mixer:
        return Mixer(n_experts, self.mixer_rate)

    def contrast(self, first_label: float, rng: Generator) -> Callable[[float], float]:
        """Return whether y is the second of two classes, or a random number for each class."""
        if self.n_classes <= 2:
            return float
        values = [rng.uniform() for _ in range(self.n_classes)]
        return lambda y: values[int(y)]

    def join(self, by_tree: Reals) -> Reals:
        """Return the prediction of a group."""
        return np.asarray(by_tree.mean(axis=0))


def set_classes(forest: AdaptiveForest, n_classes: int, dirichlet: float) -> None:
    """Add classes; trees that are being regrown start again."""
    task = cast(ClassTask, forest.task)
    task.n_classes, task.dirichlet = n_classes, dirichlet
    for slot in forest.slots:
        waiting = [slot.tree.root]
        while waiting:
            if v := waiting.pop():
                cast(ClassCounts, v.labels).set_classes(n_classes, dirichlet)
                waiting += [v.left, v.right]
        if slot.regrowth:
            slot.regrowth.restart()

"""What the tests of amforest.theory share: streams, paths, and the paper's label models."""

import math
from collections import Counter

import numpy as np

SQUARE = [[0.0, 1.0], [0.0, 1.0]]


def stream(n, seed, n_classes=None, d=2):
    rng = np.random.default_rng(seed)
    y = rng.uniform(-1, 1, n) if n_classes is None else rng.integers(n_classes, size=n)
    return rng.uniform(size=(n, d)), y


def path(table, x):
    """Return the nodes whose cells hold x, one split at a time."""
    nodes, x = [0], x.astype(table["lower"].dtype)
    while (v := table[nodes[-1]])["left"] >= 0:
        nodes.append(v["left"] if x[v["feature"]] <= v["threshold"] else v["right"])
    return nodes


class Node:
    """The label models of the paper, one label at a time."""

    def __init__(self, n_classes):
        self.labels, self.n_classes = [], n_classes

    def prediction(self):
        n = len(self.labels)
        if self.n_classes is None:
            return sum(self.labels) / n if n else 0.0
        counts = Counter(self.labels)
        return np.array([(counts[k] + 0.5) / (n + self.n_classes / 2)
                         for k in range(self.n_classes)])  # fmt: skip


def loss(prediction, y):
    return -math.log(prediction[y]) if np.ndim(prediction) else (prediction - y) ** 2

"""Models and data that the tests of plots share."""

import numpy as np
import pandas as pd
from matplotlib.collections import PolyCollection
from sklearn.datasets import load_iris, make_moons

from amforest import AMFClassifier, AMFRegressor
from amforest.evaluation import progressive_validation

X, Y = make_moons(120, noise=0.25, random_state=0)
BOX = [[-2, 3], [-1.5, 2]]
IRIS = load_iris(as_frame=True)
PETALS = IRIS.data[["petal length (cm)", "petal width (cm)"]]
SPECIES = IRIS.target_names[IRIS.target]
P = np.random.default_rng(0).uniform(size=300)
CAME = np.random.default_rng(1).uniform(size=300) < P


def classifier(**params):
    return AMFClassifier(3, random_state=0, **params).fit(X, Y)


def regressor(**params):
    return AMFRegressor(3, random_state=0, **params).fit(X, X[:, 0] * X[:, 1])


def species():
    """A model of three classes with names of features."""
    return AMFClassifier(3, random_state=0).fit(PETALS[::3], SPECIES[::3])


def shop():
    """A model with categories, and their features."""
    rng = np.random.default_rng(0)
    towns = pd.Categorical(rng.choice(["Lima", "Oslo", "Rome"], 60))
    sales = pd.DataFrame({"town": towns, "price": rng.uniform(size=60)})
    return AMFClassifier(3, random_state=0).fit(sales, sales["town"] == "Oslo"), sales


def line(**params):
    """A model of one feature, and its values."""
    x = np.random.default_rng(0).uniform(size=(80, 1))
    return AMFRegressor(4, random_state=0, **params).fit(x, np.sign(x[:, 0] - 0.3)), x


def progress(model=None, metrics=("log_loss", "accuracy")):
    model = AMFClassifier(2, random_state=0) if model is None else model
    return progressive_validation(model, X, Y, metrics=metrics, window=40)


def polygons(ax, n=0):
    """The corners of the boxes in a collection, of shape (n_boxes, 2, 2): lower, upper."""
    boxes = [child for child in ax.collections if isinstance(child, PolyCollection)]
    corners = np.array([path.vertices for path in boxes[n].get_paths()])
    return np.stack([corners.min(axis=1), corners.max(axis=1)], axis=1)


def areas(boxes):
    return np.prod(boxes[:, 1] - boxes[:, 0], axis=1)


def texts(ax):
    return [text.get_text() for text in ax.texts]
